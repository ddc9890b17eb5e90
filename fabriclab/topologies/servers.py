"""Inside the server: GPUs, what joins them, PCIe switches, NICs and processors, each kind of server a row of a table.

What a server has stands in the catalog (``catalog.systems``), with its source; the table beside this file only names
the parts. Left out: memory, storage and its NICs, and forwarding times (no source gives one for NVSwitch chips).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.clos import even
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, FabricBuilder, Ints
from fabriclab.registry import register

# What each server is, and its parts: ``facts`` of catalog.systems, ``sockets`` of catalog.memory_path (between
# processors), ``chip`` of catalog.switches; of catalog.links ``pcie``, ``link`` (between GPUs, or to a switch chip),
# and ``host`` (between GPU and processor, where that is no PCIe).
SERVERS = {row["name"]: row for row in read_rows(Path(__file__).with_suffix(".csv"))}


def links_between_gpus(server: str) -> Ints:
    """Return how many links join each two GPUs directly, (n, n), from the catalog.

    Examples
    --------
    >>> links_between_gpus("dgx1v")[0].tolist()
    [0, 1, 1, 2, 2, 0, 0, 0]
    """
    return np.array(
        [[int(x) for x in row] for row in str(catalog.systems[server]["gpu_links"].value).split()]
    )


def _build(name: str, servers: int = 1) -> Fabric:
    """Return servers of a kind.

    A GPU lets no traffic of others pass. Each is joined to its PCIe switch, or to its processor where there is none;
    NICs hang on the same, and processors on each other. Where GPUs that share a switch or a processor also meet at
    NVSwitch chips, a port of its own stands between each GPU and that switch, so that the way over it is the longer
    one: communication libraries take NVLink. A GPU spreads what it sends over all NVSwitch chips: take the routing
    "spray". GPUs are the ranks, and GPU i has rail i. Links between Intel or AMD processors have the rates that NCCL
    plans with. Several servers have one set of switch chips.
    """
    parts = SERVERS[name]
    fact, bus = (
        catalog.systems[parts["facts"]],
        catalog.value("links", parts["pcie"], "bandwidth_after_encoding"),
    )
    names = ("gpus", "sockets", "pcie_switches", "scaleout_nics")
    gpus, sockets, switches, nics = (int(fact[k].si or 0) for k in names)
    ported = bool(parts["chip"]) and gpus > (switches or sockets)
    used = {
        "gpu": True,
        "port": ported,
        "nvswitch": parts["chip"],
        "pcie": switches,
        "nic": True,
        "cpu": True,
    }
    b = FabricBuilder([kind for kind, there in used.items() if there], ("server", "plane", "local"))

    def add(kind: str, each: int, tier: int) -> Ints:
        server, local = np.divmod(np.arange(servers * each), each)
        node = b.add_nodes(
            kind, server.size, tier=tier, transit=kind != "gpu", server=server, local=local
        )
        return node.reshape(servers, each)

    def join(lower: Ints, upper: Ints, rate: float, medium: str = "pcie") -> None:
        """Join each to one of the upper ones of its server: the first few to the first, and so on."""
        to = np.arange(lower.shape[1]) * upper.shape[1] // lower.shape[1]
        b.add_cables(lower, upper[:, to], capacity=rate, medium=medium)

    gpu = add("gpu", gpus, 0)
    near, speed = (
        gpu,
        (catalog.value("links", parts["host"], "bandwidth"), "c2c")
        if parts["host"]
        else (bus, "pcie"),
    )
    if ported:
        near = add("port", gpus, 1)
        join(gpu, near, *speed)
    host = cpu = add("cpu", sockets, 1 + ported + bool(switches))
    if switches:
        host = add("pcie", switches, 1 + ported)
        join(host, cpu, bus)
    join(near, host, *speed)
    join(add("nic", nics, 2 + ported), host, bus)
    one, other = np.triu_indices(sockets, 1)
    b.add_cables(
        cpu[:, one],
        cpu[:, other],
        capacity=catalog.value("memory_path", parts["sockets"], "bandwidth"),
        medium="socket",
    )
    if parts["link"]:
        _join_gpus(b, parts, gpu)
    number = np.arange(gpu.size)
    return b.build("server", {}, endpoint=gpu.ravel(), rail=number % gpus, server=number // gpus)


def _join_gpus(b: FabricBuilder, parts: Mapping[str, str], gpu: Ints) -> None:
    """Join the GPUs directly, or through switch chips: plane p has link p of each GPU."""
    rate = catalog.value("links", parts["link"], "bandwidth_per_link")
    medium = "xgmi" if "xgmi" in parts["link"] else "nvlink"

    def cables(a: Ints, c: Ints, ports: Ints | int) -> None:
        b.add_cables(a, c, capacity=rate * np.asarray(ports), ports=ports, medium=medium)

    if not parts["chip"]:
        table = links_between_gpus(parts["facts"])
        one, other = np.nonzero(np.triu(table))
        return cables(gpu[:, one], gpu[:, other], table[one, other])
    split = np.array(str(catalog.systems[parts["facts"]]["chip_links"].value).split(), dtype=int)
    radix, n, planes = int(catalog.value("switches", parts["chip"], "ports")), gpu.size, split.size
    down = n if n * split.max() <= radix else radix // 2
    low = -(-n // down)

    def chips(each: int, tier: int) -> Ints:
        plane, local = np.divmod(np.arange(planes * each), each)
        number = local if low > 1 else -1  # one chip is named by its plane alone
        node = b.add_nodes(
            "nvswitch", plane.size, tier=tier, transit=True, radix=radix, plane=plane, local=number
        )
        return node.reshape(planes, each)

    lower = chips(low, 1)
    cables(gpu.reshape(-1, 1), lower[:, np.arange(n) // down].T, split)
    if low > 1:
        high, per_pair = even(low, down, radix, radix - down)
        pairs = np.broadcast_to(lower[..., None, None], (planes, low, high, per_pair))
        cables(pairs, chips(high, 2)[:, None, :, None], 1)


def _register(name: str) -> None:
    def build() -> Fabric:
        return _build(name)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (_build.__doc__ or "").replace(
        "servers of a kind", f"one server: {SERVERS[name]['what']}", 1
    )
    register("topology", name, small={})(build)


for _name in SERVERS:
    _register(_name)


@register(
    "topology", "nvl72", small={"gpus": 8}, bisection=lambda gpus=72: None if gpus % 8 else 9 * gpus
)
def nvl72(gpus: int = 72) -> Fabric:
    """Return an NVLink domain of trays with 4 GPUs and 2 Grace processors, as ``gb200``.

    Up to 72 GPUs: 18 NVSwitch chips with 72 ports, and one NVLink of each GPU to each chip; 2 links between any two
    GPUs, bisection 18 x gpus / 2 links each way. More GPUs, up to the limit of the architecture, have 18 planes of
    chips in two tiers with as many links up as down, and 2 or 4 links between two GPUs; how such a domain would be
    wired is not published, and this is an assumption.

    Parameters
    ----------
    gpus : int
        4 to 576, a multiple of 4.

    Raises
    ------
    ValueError
        If there are too many GPUs, or they fill no trays.
    """
    tray, most = (
        int(catalog.value("systems", "gb200", "gpus")),
        int(catalog.value("systems", "nvl576", "max_gpus")),
    )
    if units.count(gpus, "gpus", tray, most) % tray:
        raise ValueError(
            f"gpus must be a multiple of {tray} (GPUs of a tray), got {gpus}; take {gpus - gpus % tray}"
        )
    return _build("gb200", gpus // tray)
