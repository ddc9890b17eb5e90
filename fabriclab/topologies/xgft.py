"""XGFT: the generalised fat tree, with its own number of children and parents at every tier."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder
from fabriclab.core._arrays import column
from fabriclab.core.builder import check_size
from fabriclab.topologies._clos import Parts, family


def _bisection(m: Sequence[int], w: Sequence[int], **_: Any) -> int | None:
    subtrees = [prod(m[i:]) for i in range(len(m))]  # that hang on the cables of each tier, the hosts first
    cables = [n * prod(w[: i + 1]) for i, n in enumerate(subtrees)]
    if cables[0] == min(cables):
        return w[0] * (subtrees[0] // 2)
    return next((c // 2 for c, n in zip(cables, subtrees, strict=True) if c == min(cables) and n % 2 == 0), None)


@family("xgft", small={"m": (3, 2, 2), "w": (1, 2, 2)}, bisection=_bisection)
def xgft(m: Sequence[int], w: Sequence[int], **asked: Any) -> Fabric:
    """Return the XGFT(h; m1, ..., mh; w1, ..., wh) of [1]_: h tiers of switches above the hosts.

    A switch of tier i has m_i children, a node of tier i - 1 has w_i parents, one cable each. Tier i has
    w_1 ... w_i m_{i+1} ... m_h nodes, named by h digits: where it hangs in the tiers above, then which of the
    parallel ones it is. Two nodes are joined that differ in digit i only. Diameter 2 h links; two hosts whose
    digits differ first in digit i are 2 i apart, over w_1 ... w_i shortest paths. A switch of tier i is
    oversubscribed by m_i : w_{i+1}. Bisection: half of the cables of the tier that has fewest, if they lead to an
    even number of subtrees. With w_1 > 1 a host hangs on w_1 planes.

    ``m=(k/2, k/2, k), w=(1, k/2, k/2)`` is the fat tree of k ports, ``m=(d, leaves), w=(1, spines)`` a leaf-spine.

    Parameters
    ----------
    m, w : sequence of int
        Children and parents, lowest tier first; as many of each. >= 1
    radix : int, optional
        Ports of a switch; 64 (Quantum-2) unless given. >= m_i + w_{i+1}
    rate, switch_delay, host_length, switch_length : float or str, optional
        As in ``leaf_spine``. [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If m and w differ in length, or a switch has too few ports.

    References
    ----------
    .. [1] S. R. Öhring, M. Ibel, S. K. Das, M. J. Kumar, On generalized fat trees, IPPS 1995.
    """
    parts = Parts.parse(**asked)
    children, parents = ([units.count(x, name) for x in column(v, name).tolist()] for name, v in (("m", m), ("w", w)))
    h = len(children)
    if h != len(parents) or not h:
        msg = f"m and w must have one number for each tier of switches, got {h} and {len(parents)}; write m=(4, 8), "
        raise ValueError(msg + "w=(1, 4) for 4 hosts on each of 8 leaves, and 4 spines")
    for i, (down, up) in enumerate(zip(children, [*parents[1:], 0], strict=True), 1):
        if down + up > parts.radix:
            msg = f"radix must be >= {down + up} (a switch of tier {i} has {down} children and {up} parents), got "
            raise ValueError(msg + f"{parts.radix}; take a larger radix, or a smaller m or w")
    per_metre = catalog.value("media", "fibre", "propagation")
    size = [prod(parents[:i]) * prod(children[i:]) for i in range(h + 1)]
    check_size(f"a fabric of {size[0]} hosts", sum(size), sum(n * up for n, up in zip(size[:-1], parents, strict=True)))
    kinds = ("host", "leaf", "spine", "core", *(f"tier{i}" for i in range(4, h + 1)))[: h + 1]
    b = FabricBuilder(kinds, [f"digit {i}" for i in range(h, 0, -1)])
    below = np.zeros(0, dtype=np.int64)
    for i, kind in enumerate(kinds):
        digits = np.unravel_index(np.arange(size[i]), (*reversed(children[i:]), *reversed(parents[:i])))
        coord = dict(zip(b.coord_names, digits, strict=True))
        ports, forwarding = (parts.radix, parts.forwarding) if i else (0, 0.0)
        node = b.add_nodes(kind, size[i], tier=i, transit=i > 0, radix=ports, forwarding=forwarding, **coord)
        if i:
            length, same = (parts.switch_length if i > 1 else parts.host_length), prod(parents[: i - 1])
            lower, upper = below.reshape(-1, children[i - 1], 1, same), node.reshape(-1, 1, parents[i - 1], same)
            b.add_cables(lower, upper, capacity=parts.rate, delay=length * per_metre, medium="fibre", length=length)
        below = node
    return b.build("xgft", {}, endpoint=range(size[0]), rail=np.zeros(size[0]), server=range(size[0]))
