"""What of a PCIe link is payload: arithmetic of packets and of the small packets that answer them."""

import math

from fabriclab import catalog, units
from fabriclab.core import si_factor

LINE = 64  # bytes of a cache line: a load of a processor, and what an Intel root complex makes of packets
_KINDS = ("write", "read")


def fact(part: str, attribute: str, table: str = "memory_path", **where: str) -> float:
    """Return a fact as an SI number; of a range such as "105-150" the middle."""
    spec = getattr(catalog, table)[part].spec(attribute, **where)
    ends = [float(x) for x in str(spec.value).split("-")]
    return sum(ends) / len(ends) * (si_factor(spec.unit) or 1.0)


def pcie_part(kind: str = "write", *, size: units.Quantity | None = None, payload: int | None = None,
              lanes: int = 16, back: str = "none") -> float:  # fmt: skip
    """Return which part of a PCIe link's rate after coding carries data, in one direction.

    A write sends packets with data; a read sends requests one way, and completions with data come back. Every
    packet is answered by an acknowledgement and a flow-control update, against its direction, and several packets
    by one such pair. Leaves out the flits of PCIe 6, skip sequences, replays, and waiting for credits or tags.

    Parameters
    ----------
    kind : str
        How the data of this direction move: ``"write"`` or ``"read"``.
    size : float or str, optional
        Data of one transfer; the default is a long one. [B]
    payload : int, optional
        Most data of one packet; the default is the catalog's. [B], 64 to 4096
    lanes : int
        4, 8 or 16: how many packets one answer serves depends on it.
    back : str
        How as much data moves the other way at the same time: ``"none"``, ``"write"`` or ``"read"``.

    Returns
    -------
    float
        Between 0 and 1.

    References
    ----------
    .. [1] R. Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018.

    Examples
    --------
    >>> round(pcie_part("write"), 3), round(pcie_part("write", payload=64), 3)
    (0.914, 0.727)
    """
    units.choice(kind, "kind", _KINDS)
    units.choice(back, "back", ("none", *_KINDS))
    name = units.choice(f"x{lanes}", "lanes", ("x4", "x8", "x16"))
    most = int(fact("pcie-tlp", "max_payload")) if payload is None else units.count(payload, "payload", LINE, 4096)
    ask = fact("pcie-tlp", "max_read_request")
    n = float(max(most, ask)) if size is None else units.size(size, may_be_zero=False)
    packets, requests = math.ceil(n / most), math.ceil(n / ask)
    bytes_of = {k: fact("pcie-tlp", f"overhead_{k}") for k in (*_KINDS, "request")}
    met = packets * (back != "none") + requests * (kind == "read")  # packets that come the other way
    answers = 2 * fact("pcie-tlp", "dllp") * met / fact("pcie-tlp", "packets_per_answer", name=name)
    return n / (n + packets * bytes_of[kind] + requests * bytes_of["request"] * (back == "read") + answers)
