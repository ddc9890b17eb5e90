"""GigaIO: two boxes of GPUs and a host on a PCIe fabric, in five published wirings."""

import re

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
    form = re.fullmatch(r"([12])s-([12])rp-(std|split)-(cascade|flat)", str(wiring))
    if form is None or (switches := int(form[1])) > (roots := int(form[2])):
        raise ValueError(
            f"wiring must be one of {', '.join(WIRINGS)}, got {wiring!r:.80}; a switch needs a root port"
        )
    cards = int(catalog.value("systems", "columba", f"cards_{form[4]}"))
    ports, needed = (
        int(catalog.value("switches", "draco", "connections")),
        (_BOXES * cards + roots) // switches,
    )
    if needed > ports:
        raise ValueError(
            f"wiring {wiring!r} needs {needed} ports on a switch, a Draco has {ports}; take 2s or cascade"
        )
    bus = (
        catalog.value("links", "pcie4", "bandwidth_after_encoding")
        if pcie is None
        else units.rate(pcie, "pcie")
    )
    mesh = links_between_gpus("mi300x8")
    b = FabricBuilder(("gpu", "apa", "draco", "root", "cpu"), ("box", "chip", "local"))
    (on, local), (box, place) = np.indices((_BOXES, len(mesh))), np.indices((_BOXES, _SWITCHES))
    gpu = b.add_nodes(
        "gpu", on.size, tier=0, transit=False, box=on.ravel(), local=local.ravel()
    ).reshape(on.shape)
    apa = b.add_nodes(
        "apa", box.size, tier=1, transit=True, box=box.ravel(), local=place.ravel()
    ).reshape(box.shape)
    tree = np.arange(roots)
    draco = b.add_nodes(
        "draco", roots, tier=2, transit=True, radix=ports, chip=tree * switches // roots, local=tree
    )
    root = b.add_nodes("root", roots, tier=3, transit=True, local=tree)
    one, other = np.nonzero(np.triu(mesh))
    xgmi = catalog.value("links", "xgmi-mi300x", "bandwidth_per_link")
    b.add_cables(gpu[:, one], gpu[:, other], capacity=xgmi, medium="xgmi")
    b.add_cables(gpu, apa[:, np.arange(len(mesh)) % _SWITCHES], capacity=bus, medium="pcie")
    b.add_cables(
        apa[:, cards:], apa[:, np.arange(cards, _SWITCHES) % cards], capacity=bus, medium="pcie"
    )
    box, card = np.indices((_BOXES, cards))
    of_tree = card * roots // cards if form[3] == "split" else box * roots // _BOXES
    b.add_cables(apa[:, :cards], draco[of_tree], capacity=bus, medium="mini SAS HD")
    b.add_cables(draco, root, capacity=bus, medium="mini SAS HD")
    b.add_cables(root, b.add_nodes("cpu", 1, tier=4, transit=True), capacity=bus, medium="pcie")
    number = np.arange(gpu.size)
    return b.build(
        "gigaio", {}, endpoint=gpu.ravel(), rail=number % len(mesh), server=number // len(mesh)
    )


def rings(fabric: Fabric) -> Ints:
    """Return orders of the ranks of ``gigaio``, (rings, ranks): ring r enters and leaves each box by its card r.

    Within a box the rings share no xGMI link: a zigzag over the GPUs, moved on by one for each ring, uses every pair
    once. Its ends are GPUs r and r + 4, which hang on one PCIe switch.
    """
    n = fabric.n_ranks // _BOXES
    carded = np.isin(fabric.source, fabric.nodes("apa")) & np.isin(
        fabric.target, fabric.nodes("draco")
    )
    cards = np.count_nonzero(carded) // _BOXES
    # 0, 1, -1, 2, -2, 3, -3, 4
    zigzag = np.where(np.arange(n) % 2, np.arange(n) + 1, -np.arange(n)) // 2
    path = (np.arange(cards)[:, None] + zigzag) % n
    return np.concatenate([path + n * box for box in range(_BOXES)], axis=1)
