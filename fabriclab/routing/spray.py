"""Packet spraying in its ideal form: every shortest path carries its part of the flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import SPRAY, Fabric
from fabriclab.core._arrays import expand, pointer
from fabriclab.core._memory import check_memory
from fabriclab.registry import register
from fabriclab.routing._ways import Ints, Rows, Seed, Walk, Ways

Floats = NDArray[np.float64]


@register("routing", "spray", minimal=True)
def spray(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return one row per pair and subflow with the part of the rate that each link carries.

    At each node the traffic splits over the links on shortest paths in proportion to their capacity.
    Leaves out reordering at the receiver and the unevenness of single packets; ``seed`` has no effect.
    """
    parts: list[tuple[Ints, Ints, Floats]] = []
    for batch in ways.batches(source, target):
        walk = ways.walk(source[batch], target[batch])
        parts += [(batch[p], x, u) for p, x, u in _spread(fabric, walk, source[batch], target[batch])]
    pair = np.concatenate([p for p, _, _ in parts]) if parts else np.zeros(0, np.int64)
    order = np.argsort(pair, kind="stable")
    link = np.concatenate([x for _, x, _ in parts])[order] if parts else pair
    use = np.concatenate([u for _, _, u in parts])[order] if parts else np.zeros(0)
    rows = Rows(pointer(np.bincount(pair, minlength=source.size)), link, use, SPRAY)
    return rows if subflows == 1 else _repeated(rows, subflows)


def _spread(fabric: Fabric, walk: Walk, source: Ints, target: Ints) -> list[tuple[Ints, Ints, Floats]]:
    """Follow all pairs at once, hop by hop; return (pair, link, part) blocks."""
    pair, node = np.arange(source.size), source
    part: NDArray[Any] = np.ones(source.size)
    blocks: list[tuple[Ints, Ints, Floats]] = []
    entries = 0
    while pair.size:
        found = walk.next_links(pair, node)
        counts, links = found.count, found.all()
        entries += links.size
        check_memory(80 * entries, f"spraying {source.size} pairs of nodes", 'use method="ecmp", or route fewer flows')
        owner = np.repeat(np.arange(pair.size), counts)
        weight = fabric.capacity[links]
        carried = part[owner] * weight / np.bincount(owner, weights=weight, minlength=pair.size)[owner]
        blocks.append((pair[owner], links, carried))
        ahead = fabric.target[links].astype(np.int64)
        on = ahead != target[pair[owner]]
        key, inverse = np.unique(pair[owner][on] * fabric.n_nodes + ahead[on], return_inverse=True)
        pair, node = key // fabric.n_nodes, key % fabric.n_nodes
        part = np.bincount(inverse, weights=carried[on], minlength=key.size)
    return blocks


def _repeated(rows: Rows, times: int) -> Rows:
    counts = np.diff(rows.ptr)
    index = np.repeat(np.arange(counts.size), times)
    entries = expand(rows.ptr[index], counts[index])
    return Rows(pointer(counts[index]), rows.link[entries], rows.use[entries], rows.kind)
