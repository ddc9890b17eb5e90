"""GigaIO: two boxes of GPUs and a host on a PCIe fabric, in five published wirings."""

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
    """Return a host, its root ports, Draco switches and two Columba boxes (APAs) of 8 MI300X.

    [1]_ shows the wirings as drawings only. What a name means here is an assumption, drawn from the ports and from
    what the measured bandwidths allow:

    - ``1s``, ``2s``: Draco switches. One has 6 x16 ports, and two flat boxes with the host need 9 or 10.
    - ``1rp``, ``2rp``: root ports of the host in use. Each has a PCIe tree of its own, so that a Draco with two is
      two partitions, and traffic between trees crosses the host's processor.
    - ``std``: a box hangs on one tree. ``split``: half of the cards of every box hang on each tree, as rails do.
    - ``cascade``, ``flat``: 2 or 4 Kuma cards (x16 cables) on a box.

    A box has 4 PCIe switches with two GPUs each, i and i + 4 on switch i; switch i has card i, or in a cascade
    switches 2 and 3 hang on 0 and 1. Between GPUs of a box are xGMI links. Left out: delays, and everything else
    that the host does.

    Parameters
    ----------
    wiring : str
        One of `WIRINGS`, or another name of the same form.
    pcie : float or str, optional
        Rate of all PCIe links; 16 lanes of PCIe 4.0 unless given. [B/s]

    Raises
    ------
    ValueError
        If the name has another form, or a Draco has too few ports.

    References
    ----------
    .. [1] B. Kitor, K. Rygol, Rail optimized PCIe topologies for LLMs, ISC High Performance 2025.
    """
    name = _read(wiring)
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
    tree = np.arange(name.roots)  # a partition of a Draco and its root port
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
    above = apa[:, np.arange(cards, _SWITCHES) % cards]  # in a cascade, of switches without a card
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
    """What the name of a wiring says."""

    switches: int  # Draco
    roots: int  # ports of the host in use
    split: bool  # whether the cards of a box are divided among the root ports
    depth: str  # "cascade" or "flat"


def _read(wiring: str) -> Wiring:
    """Return what the name of a wiring says, or refuse it."""
    form = re.fullmatch(r"([12])s-([12])rp-(std|split)-(cascade|flat)", str(wiring))
    if form is not None:
        switches, roots, cards, depth = form.groups()
        name = Wiring(int(switches), int(roots), cards == "split", depth)
        if name.switches <= name.roots:
            return name
    raise ValueError(
        f"wiring must be one of {', '.join(WIRINGS)}, got {wiring!r:.80}; a switch needs a root port"
    )


def _add_to_boxes(b: FabricBuilder, kind: str, each: int, tier: int) -> Ints:
    """Add ``each`` nodes to every box, which pass on traffic unless they are GPUs; return (boxes, each) numbers."""
    box, local = np.indices((_BOXES, each))
    node = b.add_nodes(
        kind, box.size, tier=tier, transit=kind != "gpu", box=box.ravel(), local=local.ravel()
    )
    return node.reshape(box.shape)


def rings(fabric: Fabric) -> Ints:
    """Return orders of the ranks of ``gigaio``, (rings, ranks): ring r enters and leaves each box by its card r.

    Within a box the rings share no xGMI link: a zigzag over the GPUs, moved on by one for each ring, uses every pair
    once. Its ends are GPUs r and r + 4, which hang on one PCIe switch.
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
