"""The inside of a server: GPUs and the links between them, PCIe switches, NICs and CPUs.

Each kind of server is a row of the table beside this file. The table only names the parts; their numbers are in the
catalog (``catalog.systems``), with sources. Left out: memory, storage and its NICs, and forwarding times (no source
gives one for NVSwitch chips).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.clos import even
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, FabricBuilder, Ints, Spec
from fabriclab.registry import register

# Description and parts of each server, as names in the catalog: ``facts`` in catalog.systems; ``sockets`` (between
# CPUs) in catalog.memory_path; ``chip`` in catalog.switches; ``pcie``, ``link`` (between GPUs, or to a switch chip) and
# ``host`` (between GPU and CPU, if that is not PCIe) in catalog.links.
SERVERS = {row["name"]: row for row in read_rows(Path(__file__).with_suffix(".csv"))}


def links_between_gpus(server: str) -> Ints:
    """Return the number of direct links between any two GPUs of a server, (n, n), from the catalog.

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

    Ranks are the GPUs, and GPU i has rail i. GPUs and NICs are plugged into PCIe switches, or into the CPUs where there
    are none, and CPUs are joined to each other. A GPU does not pass on traffic of others. Where GPUs share a PCIe
    switch or CPU and also meet at NVSwitch chips, a node of its own (kind ``port``) stands between each GPU and the
    PCIe switch. It makes the path over PCIe longer than the path over NVLink, which communication libraries take. A GPU
    spreads its traffic over all NVSwitch chips: use the routing "spray". Links between Intel or AMD CPUs have the rates
    that NCCL assumes. Several servers share one set of switch chips.
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
        """Add ``each`` nodes to every server and return their numbers, (servers, each)."""
        server, local = np.divmod(np.arange(servers * each), each)
        node = b.add_nodes(
            kind, server.size, tier=tier, transit=kind != "gpu", server=server, local=local
        )
        return node.reshape(servers, each)

    def join(lower: Ints, upper: Ints, rate: float, medium: str = "pcie") -> None:
        """Join each lower node to one upper node of its server: the first few to the first one, and so on."""
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
    lower = gpu  # nodes that are plugged into the PCIe switches or CPUs
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
    """Return a fact of the catalog as a whole number, 0 if it has none."""
    return int(fact.si or 0)


def _join_gpus(b: FabricBuilder, parts: Mapping[str, str], gpu: Ints) -> None:
    """Join the GPUs directly or through switch chips; the chips of plane p take that plane's links of each GPU."""
    rate = catalog.value("links", parts["link"], "bandwidth_per_link")
    medium = "xgmi" if "xgmi" in parts["link"] else "nvlink"

    def join(one: Ints, other: Ints, ports: Ints | int) -> None:
        """Join nodes, broadcast together, by ``ports`` parallel links each."""
        b.add_cables(one, other, capacity=rate * np.asarray(ports), ports=ports, medium=medium)

    if not parts["chip"]:
        links = links_between_gpus(parts["facts"])
        one, other = np.nonzero(np.triu(links))
        join(gpu[:, one], gpu[:, other], links[one, other])
        return

    chip_links = str(catalog.systems[parts["facts"]]["chip_links"].value)
    split = np.array(
        chip_links.split(), dtype=int
    )  # (planes,) links from a GPU to the chip of each plane
    radix = int(catalog.value("switches", parts["chip"], "ports"))
    n = gpu.size
    planes = split.size
    down = n if n * split.max() <= radix else radix // 2  # GPUs per chip
    lower_chips = -(-n // down)  # per plane

    def add_chips(each: int, tier: int) -> Ints:
        """Add ``each`` chips to every plane and return their numbers, (planes, each)."""
        plane, local = np.divmod(np.arange(planes * each), each)
        number = local if lower_chips > 1 else -1  # a single chip is named by its plane alone
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
    """Register a row of the table as a topology without arguments, and describe the server in its docstring."""

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
    """Return the number of links in the narrowest cut: 18 of each GPU of one half; None if a half splits a tray."""
    return None if gpus % 8 else 9 * gpus


@register("topology", "nvl72", small={"gpus": 8}, bisection=_nvl72_bisection)
def nvl72(gpus: int = 72) -> Fabric:
    """Build an NVLink domain of trays such as ``gb200``, each with 4 GPUs and 2 Grace CPUs.

    Up to 72 GPUs are joined by 18 NVSwitch chips with 72 ports, with one NVLink from each GPU to each chip: any two
    GPUs are 2 links apart, and the bisection is 18 x gpus / 2 links in each direction. More GPUs, up to the limit of
    the architecture, are joined by 18 planes of chips in two tiers with as many links up as down, so two GPUs are 2 or
    4 links apart. The wiring of such a large domain is not published; this one is an assumption.

    Parameters
    ----------
    gpus : int
        Number of GPUs, a multiple of 4. 4..576

    Raises
    ------
    ValueError
        If there are too many GPUs, or they do not fill whole trays.
    """
    tray = int(catalog.value("systems", "gb200", "gpus"))
    most = int(catalog.value("systems", "nvl576", "max_gpus"))
    if units.count(gpus, "gpus", tray, most) % tray:
        raise ValueError(
            f"gpus must be a multiple of {tray} (GPUs of a tray), got {gpus}; take {gpus - gpus % tray}"
        )
    return _build("gb200", gpus // tray)
