"""GigaIO: two boxes of GPUs and one host on a PCIe fabric, in five published wirings."""

import re
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder, Ints
from fabriclab.registry import register
from fabriclab.topologies.servers import links_between_gpus

WIRINGS = (
    "1s-2rp-split-cascade",
    "1s-1rp-std-cascade",
    "1s-2rp-std-cascade",
    "2s-2rp-split-flat",
    "2s-2rp-std-flat",
)
_BOXES = 2  # from the inference results with 16 GPUs in [1]
_SWITCHES = 4  # in a box; an assumption: one for each Kuma card of a flat box


@register("topology", "gigaio", small={"wiring": "1s-1rp-std-cascade"})
def gigaio(wiring: str, *, pcie: units.Quantity | None = None) -> Fabric:
    """Build a GigaIO fabric: a host, its root ports, Draco switches and two Columba boxes (APAs) of 8 MI300X.

    [1]_ only draws the wirings. The meaning of a name here is an assumption, inferred from the number of ports and
    from what the measured bandwidths allow:

    - ``1s``, ``2s``: number of Draco switches. One has 6 x16 ports; two flat boxes and the host need 9 or 10.
    - ``1rp``, ``2rp``: number of root ports of the host in use. Each has a PCIe tree of its own, so a Draco with two
      of them is split into two partitions, and traffic between the trees crosses the CPU of the host.
    - ``std``: a box is plugged into one tree. ``split``: half of the cards of every box are plugged into each tree, as
      on rails.
    - ``cascade``, ``flat``: a box has 2 or 4 Kuma cards (x16 cables).

    A box has 4 PCIe switches with two GPUs each: GPUs i and i + 4 on switch i. Switch i has card i; in a cascade
    switches 2 and 3 are plugged into switches 0 and 1 instead. The GPUs of a box are joined by xGMI links. Leaves out
    delays and everything else that the host does.

    Parameters
    ----------
    wiring : str
        One of `WIRINGS`, or another name of the same form.
    pcie : float or str, optional
        Rate of every PCIe link; 16 lanes of PCIe 4.0 unless given. [B/s]

    Raises
    ------
    ValueError
        If the name has another form, or a Draco has too few ports.

    References
    ----------
    .. [1] B. Kitor, K. Rygol, Rail optimized PCIe topologies for LLMs, ISC High Performance 2025.
    """
    name = parts_of(wiring)
    cards = int(catalog.value("systems", "columba", f"cards_{name.depth}"))
    ports = int(catalog.value("switches", "draco", "connections"))
    needed = (_BOXES * cards + name.roots) // name.switches
    if needed > ports:
        raise ValueError(
            f"wiring {wiring!r} needs {needed} ports on a switch, a Draco has {ports}; take 2s or cascade"
        )
    if pcie is None:
        pcie_rate = catalog.value("links", "pcie4", "bandwidth_after_encoding")
    else:
        pcie_rate = units.rate(pcie, "pcie")

    b = FabricBuilder(("gpu", "apa", "draco", "root", "cpu"), ("box", "chip", "local"))
    mesh = links_between_gpus("mi300x8")
    gpus = len(mesh)  # of a box
    gpu = _add_to_boxes(b, "gpu", gpus, tier=0)
    apa = _add_to_boxes(b, "apa", _SWITCHES, tier=1)
    tree = np.arange(name.roots)  # a tree is a root port and its partition of a Draco
    chip = tree * name.switches // name.roots
    draco = b.add_nodes(
        "draco", name.roots, tier=2, transit=True, radix=ports, chip=chip, local=tree
    )
    root = b.add_nodes("root", name.roots, tier=3, transit=True, local=tree)
    cpu = b.add_nodes("cpu", 1, tier=4, transit=True)

    one, other = np.nonzero(np.triu(mesh))
    xgmi_rate = catalog.value("links", "xgmi-mi300x", "bandwidth_per_link")
    b.add_cables(gpu[:, one], gpu[:, other], capacity=xgmi_rate, medium="xgmi")
    switch_of_gpu = apa[:, np.arange(gpus) % _SWITCHES]
    b.add_cables(gpu, switch_of_gpu, capacity=pcie_rate, medium="pcie")
    above = apa[:, np.arange(cards, _SWITCHES) % cards]  # in a cascade, above switches without card
    b.add_cables(apa[:, cards:], above, capacity=pcie_rate, medium="pcie")

    box, card = np.indices((_BOXES, cards))
    if name.split:
        tree_of_card = card * name.roots // cards
    else:
        tree_of_card = box * name.roots // _BOXES
    b.add_cables(apa[:, :cards], draco[tree_of_card], capacity=pcie_rate, medium="mini SAS HD")
    b.add_cables(draco, root, capacity=pcie_rate, medium="mini SAS HD")
    b.add_cables(root, cpu, capacity=pcie_rate, medium="pcie")

    number = np.arange(gpu.size)
    return b.build("gigaio", {}, endpoint=gpu.ravel(), rail=number % gpus, server=number // gpus)


class Wiring(NamedTuple):
    """The parts of the name of a wiring."""

    switches: int  # Draco switches
    roots: int  # root ports of the host in use
    split: bool  # whether the cards of a box are divided among the root ports
    depth: str  # "cascade" or "flat"


def parts_of(wiring: str) -> Wiring:
    """Split the name of a wiring into its parts, or refuse it."""
    form = re.fullmatch(r"([12])s-([12])rp-(std|split)-(cascade|flat)", str(wiring))
    if form is not None:
        switches, roots, cards, depth = form.groups()
        name = Wiring(int(switches), int(roots), cards == "split", depth)
        if name.switches <= name.roots:
            return name
    raise ValueError(
        f"wiring must be one of {', '.join(WIRINGS)}, got {wiring!r:.80}; a switch needs a root port"
    )


def in_words(wiring: str) -> str:
    """Return what the name of a wiring says.

    Examples
    --------
    >>> in_words("1s-2rp-split-cascade")
    '1 switch, 2 root ports, boxes split, cascade'
    """
    name = parts_of(wiring)
    switches = "1 switch" if name.switches == 1 else f"{name.switches} switches"
    roots = "1 root port" if name.roots == 1 else f"{name.roots} root ports"
    boxes = "boxes split" if name.split else "boxes whole"
    return f"{switches}, {roots}, {boxes}, {name.depth}"


def _add_to_boxes(b: FabricBuilder, kind: str, each: int, tier: int) -> Ints:
    """Add ``each`` nodes to every box and return their numbers, (boxes, each); all but GPUs let traffic pass."""
    box, local = np.indices((_BOXES, each))
    node = b.add_nodes(
        kind, box.size, tier=tier, transit=kind != "gpu", box=box.ravel(), local=local.ravel()
    )
    return node.reshape(box.shape)


def rings(fabric: Fabric) -> Ints:
    """Return the ranks of ``gigaio`` in the order of each ring, (rings, ranks): ring r uses card r of each box.

    Within a box no two rings share an xGMI link: each ring is a zigzag over the GPUs, shifted by one from ring to
    ring, so that every pair of GPUs is used once. The zigzag of ring r enters and leaves the box at GPUs r and r + 4,
    which share a PCIe switch.
    """
    n = fabric.n_ranks // _BOXES
    from_box = np.isin(fabric.source, fabric.nodes("apa"))
    to_draco = np.isin(fabric.target, fabric.nodes("draco"))
    cards = np.count_nonzero(from_box & to_draco) // _BOXES
    # 0, 1, -1, 2, -2, 3, -3, 4
    number = np.arange(n)
    zigzag = np.where(number % 2, number + 1, -number) // 2
    path = (np.arange(cards)[:, None] + zigzag) % n  # (rings, n)
    return np.concatenate([path + n * box for box in range(_BOXES)], axis=1)
