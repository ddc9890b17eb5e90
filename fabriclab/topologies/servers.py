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
from fabriclab.core import Fabric, FabricBuilder, Ints, Spec
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
    table = str(
        catalog.systems[server]["gpu_links"].value
    )  # a word for each GPU, a digit for each other
    rows = []
    for digits in table.split():
        rows.append([int(digit) for digit in digits])
    return np.array(rows)


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
    facts = catalog.systems[parts["facts"]]
    gpus = _count(facts["gpus"])
    sockets = _count(facts["sockets"])
    switches = _count(facts["pcie_switches"])
    nics = _count(facts["scaleout_nics"])
    has_ports = bool(parts["chip"]) and gpus > (switches or sockets)

    kinds = ["gpu"]
    if has_ports:
        kinds.append("port")
    if parts["chip"]:
        kinds.append("nvswitch")
    if switches:
        kinds.append("pcie")
    kinds += ["nic", "cpu"]
    b = FabricBuilder(kinds, ("server", "plane", "local"))

    def add(kind: str, each: int, tier: int) -> Ints:
        """Add ``each`` nodes to every server; return their numbers, (servers, each)."""
        server, local = np.divmod(np.arange(servers * each), each)
        node = b.add_nodes(
            kind, server.size, tier=tier, transit=kind != "gpu", server=server, local=local
        )
        return node.reshape(servers, each)

    def join(lower: Ints, upper: Ints, rate: float, medium: str = "pcie") -> None:
        """Join each to one of the upper ones of its server: the first few to the first, and so on."""
        to = np.arange(lower.shape[1]) * upper.shape[1] // lower.shape[1]
        b.add_cables(lower, upper[:, to], capacity=rate, medium=medium)

    pcie_rate = catalog.value("links", parts["pcie"], "bandwidth_after_encoding")
    if parts["host"]:
        gpu_rate = catalog.value("links", parts["host"], "bandwidth")
        gpu_medium = "c2c"
    else:
        gpu_rate = pcie_rate
        gpu_medium = "pcie"

    gpu = add("gpu", gpus, 0)
    lower = gpu  # what hangs on the PCIe switches or processors
    hub_tier = 1
    if has_ports:
        lower = add("port", gpus, 1)
        join(gpu, lower, gpu_rate, gpu_medium)
        hub_tier = 2
    if switches:
        cpu = add("cpu", sockets, hub_tier + 1)
        hub = add("pcie", switches, hub_tier)
        join(hub, cpu, pcie_rate)
    else:
        cpu = add("cpu", sockets, hub_tier)
        hub = cpu
    join(lower, hub, gpu_rate, gpu_medium)
    nic = add("nic", nics, hub_tier + 1)
    join(nic, hub, pcie_rate)

    one, other = np.triu_indices(sockets, 1)
    socket_rate = catalog.value("memory_path", parts["sockets"], "bandwidth")
    b.add_cables(cpu[:, one], cpu[:, other], capacity=socket_rate, medium="socket")
    if parts["link"]:
        _join_gpus(b, parts, gpu)

    number = np.arange(gpu.size)
    return b.build("server", {}, endpoint=gpu.ravel(), rail=number % gpus, server=number // gpus)


def _count(fact: Spec) -> int:
    """Return a whole number of the catalog; 0 where it has none."""
    return int(fact.si or 0)


def _join_gpus(b: FabricBuilder, parts: Mapping[str, str], gpu: Ints) -> None:
    """Join the GPUs directly, or through switch chips: plane p has link p of each GPU."""
    rate = catalog.value("links", parts["link"], "bandwidth_per_link")
    medium = "xgmi" if "xgmi" in parts["link"] else "nvlink"

    def join(one: Ints, other: Ints, ports: Ints | int) -> None:
        """Join nodes, broadcast together, by as many links as they have ``ports`` for it."""
        b.add_cables(one, other, capacity=rate * np.asarray(ports), ports=ports, medium=medium)

    if not parts["chip"]:
        links = links_between_gpus(parts["facts"])
        one, other = np.nonzero(np.triu(links))
        join(gpu[:, one], gpu[:, other], links[one, other])
        return

    chip_links = str(catalog.systems[parts["facts"]]["chip_links"].value)
    split = np.array(
        chip_links.split(), dtype=int
    )  # (planes,) links of a GPU to the chip of each plane
    radix = int(catalog.value("switches", parts["chip"], "ports"))
    n = gpu.size
    planes = split.size
    down = n if n * split.max() <= radix else radix // 2  # GPUs of a chip
    lower_chips = -(-n // down)  # of a plane

    def add_chips(each: int, tier: int) -> Ints:
        """Add ``each`` chips to every plane; return their numbers, (planes, each)."""
        plane, local = np.divmod(np.arange(planes * each), each)
        number = local if lower_chips > 1 else -1  # one chip is named by its plane alone
        node = b.add_nodes(
            "nvswitch", plane.size, tier=tier, transit=True, radix=radix, plane=plane, local=number
        )
        return node.reshape(planes, each)

    lower = add_chips(lower_chips, 1)
    chip_of_gpu = lower[:, np.arange(n) // down]  # (planes, n)
    join(gpu.reshape(-1, 1), chip_of_gpu.T, split)
    if lower_chips > 1:
        upper_chips, per_pair = even(lower_chips, down, radix, radix - down)
        upper = add_chips(upper_chips, 2)
        shape = (planes, lower_chips, upper_chips, per_pair)
        join(np.broadcast_to(lower[..., None, None], shape), upper[:, None, :, None], 1)


def _register(name: str) -> None:
    """Register a row of the table as a topology without arguments, with the row in its documentation."""

    def build() -> Fabric:
        return _build(name)

    title = f"one server: {SERVERS[name]['what']}"
    build.__name__ = name
    build.__qualname__ = name
    build.__doc__ = (_build.__doc__ or "").replace("servers of a kind", title, 1)
    register("topology", name, small={})(build)


for _name in SERVERS:
    _register(_name)


def _nvl72_bisection(gpus: int = 72) -> int | None:
    """Return the cables of the narrowest cut: 18 of each GPU of one half; trays are whole on either side."""
    return None if gpus % 8 else 9 * gpus


@register("topology", "nvl72", small={"gpus": 8}, bisection=_nvl72_bisection)
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
    tray = int(catalog.value("systems", "gb200", "gpus"))
    most = int(catalog.value("systems", "nvl576", "max_gpus"))
    if units.count(gpus, "gpus", tray, most) % tray:
        raise ValueError(
            f"gpus must be a multiple of {tray} (GPUs of a tray), got {gpus}; take {gpus - gpus % tray}"
        )
    return _build("gb200", gpus // tray)
