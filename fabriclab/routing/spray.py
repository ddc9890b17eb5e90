"""Packet spraying in its ideal form: every shortest path carries its part of the flow."""

import numpy as np

from fabriclab.core import SPRAY, Fabric, Floats, Ints, check_memory, pointer
from fabriclab.registry import register
from fabriclab.routing.shortest import Rows, Seed, Walk, Ways


@register("routing", "spray", minimal=True)
def spray(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return one row per pair and subflow with the part of the rate that each link carries.

    At each node the traffic splits over the links on shortest paths in proportion to their capacity.
    Leaves out reordering at the receiver and the unevenness of single packets; ``seed`` has no effect.
    """
    source, target = np.repeat(source, subflows), np.repeat(target, subflows)
    parts: list[tuple[Ints, Ints, Floats]] = [
        (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    ]
    for batch in ways.batches(source, target):
        walk = ways.walk(source[batch], target[batch])
        parts += [
            (batch[p], x, u) for p, x, u in _spread(fabric, walk, source[batch], target[batch])
        ]
    row, link, use = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return Rows(pointer(np.bincount(row, minlength=source.size)), link[order], use[order], SPRAY)


def _spread(
    fabric: Fabric, walk: Walk, source: Ints, target: Ints
) -> list[tuple[Ints, Ints, Floats]]:
    """Follow all pairs at once, hop by hop; return (pair, link, part) blocks."""
    pair, node = np.arange(source.size), source
    part: Floats = np.ones(source.size)
    blocks: list[tuple[Ints, Ints, Floats]] = []
    entries = 0
    while pair.size:
        found = walk(pair, node)
        counts, links = found.count, found.all()
        entries += links.size
        check_memory(
            80 * entries,
            f"spraying {source.size} pairs of nodes",
            'use method="ecmp", or route fewer flows',
        )
        owner = np.repeat(np.arange(pair.size), counts)
        weight = fabric.capacity[links]
        carried = (
            part[owner] * weight / np.bincount(owner, weights=weight, minlength=pair.size)[owner]
        )
        blocks.append((pair[owner], links, carried))
        ahead = fabric.target[links].astype(np.int64)
        on = ahead != target[pair[owner]]
        key, inverse = np.unique(pair[owner][on] * fabric.n_nodes + ahead[on], return_inverse=True)
        pair, node = key // fabric.n_nodes, key % fabric.n_nodes
        part = np.bincount(inverse, carried[on], key.size).astype(np.float64)
    return blocks
