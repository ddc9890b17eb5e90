"""One door to the verbs, pyverbs on a device where there is one, the device in software elsewhere; and to a peer."""

import importlib
from typing import Any

from fabriclab.rdma.device import MR
from fabriclab.rdma.enums import TABLE
from fabriclab.rdma.qp import QP
from fabriclab.rdma.records import GID, AHAttr, GlobalRoute, QPAttr

_HOMES = TABLE["homes"]  # module of pyverbs, and what it has


class Verbs:
    """The names of the verbs: ``DEVICE`` is what ``Context`` opens, ``about`` says what that is."""

    def __init__(self, device: str, about: str, names: dict[str, Any]) -> None:
        self.DEVICE, self.about = device, about
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        """Say what there is; what both kinds of device have never comes here."""
        raise AttributeError(f"{self!r} has no {name!r}; it has {', '.join(sorted(vars(self)))}")

    def __repr__(self) -> str:
        """Say which device it is."""
        return f"<Verbs: {self.about}>"


def use(device: str = "") -> Verbs:
    """Return the verbs of a device by name, by default of the first that pyverbs finds, or else the one in software.

    Both have the names of pyverbs; ``MR.memory``, ``Context.counters`` and `Process` are of the one in software only.
    Not yet run on a device.

    Raises
    ------
    PyverbsUserError
        If there is no device of this name.

    Examples
    --------
    >>> verbs = use("fabriclab0")
    >>> verbs, verbs.Context(name=verbs.DEVICE).query_pkey(1, 0)
    (<Verbs: the device in software>, 65535)
    """
    here, found, why = importlib.import_module(__package__), list[str](), "pyverbs finds no device"
    try:
        found = [
            entry.name.decode()
            for entry in importlib.import_module("pyverbs.device").get_device_list()
        ]
    except Exception as error:  # pyverbs is not here, or finds no driver
        why = f"{why} ({error})"
    if device in ("", *found) and found:
        homes = {home: importlib.import_module(f"pyverbs.{home}") for home in (*_HOMES, "enums")}
        names = {
            name: getattr(homes[home], name) for home in _HOMES for name in _HOMES[home].split()
        }
        return Verbs(
            device or found[0],
            f"{device or found[0]}, by pyverbs",
            {**names, "enums": homes["enums"]},
        )
    if device not in ("", here.DEVICE):
        raise here.PyverbsUserError(
            f"there is no device {device!r}; there are {', '.join([*found, here.DEVICE])}"
        )
    names = {name: getattr(here, name) for names in _HOMES.values() for name in names.split()}
    about = "the device in software" + (f": {why}" if not device else "")
    return Verbs(here.DEVICE, about, {**names, "enums": here.enums})


def connect(qp: QP, mr: MR, pipe: Any = None) -> tuple[int, int]:
    """Connect a reliable pair with that of the process at the other end of a pipe, which does the same.

    Both exchange what a peer must know, and wait for each other; without a pipe the pair is connected with itself.

    Returns
    -------
    tuple of int
        Key (rkey) and address of the peer's region.
    """
    peer = qp.pd.context.query_gid(1, 0).gid, qp.qp_num, mr.rkey, mr.buf
    if pipe is not None:
        pipe.send(peer)
        peer = pipe.recv()
    attr = QPAttr()
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(peer[0])), is_global=1)
    attr.dest_qp_num, attr.qp_access_flags = peer[1], 15  # every right: those of the region decide
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    # illustrative: patient enough for a busy machine, 4.096 us x 2^10 three times
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 10, 3, 3, 1
    qp.to_rts(attr)
    if pipe is not None:
        pipe.send("ready")
        pipe.recv()
    return peer[2:]
