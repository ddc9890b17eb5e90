"""Equal-cost multi-path: at every node a hash of the flow picks one of the links on a shortest path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import PATH, Fabric
from fabriclab.core._arrays import pointer
from fabriclab.registry import register
from fabriclab.routing._ways import Ints, Rows, Ways, hashed


@register("routing", "ecmp")
def ecmp(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: int = 0) -> Rows:
    """Return ``subflows`` paths per pair, each chosen link by link by a hash.

    The hash takes the ends, the number of the subflow and the node where it is asked, as a switch does
    with the header and a seed of its own. Equal-cost links count alike, whatever their capacity.

    References
    ----------
    .. [1] C. Hopps, Analysis of an Equal-Cost Multi-Path Algorithm, RFC 2992, 2000.
    """
    columns: list[NDArray[np.int32]] = []
    n = source.size * subflows
    for batch in ways.batches(source, target):
        walk = ways.walk(source[batch], target[batch])
        pair = np.repeat(np.arange(batch.size), subflows)
        row = (batch[pair] * subflows + np.tile(np.arange(subflows), batch.size)).astype(np.int64)
        node, hop = source[batch][pair], 0
        while row.size:
            counts, links = walk.next_links(pair, node)
            ends = source[batch[pair]], target[batch[pair]]
            pick = hashed(seed, *ends, row % subflows, node) % counts.astype(np.uint64)
            chosen = links[pointer(counts)[:-1] + pick.astype(np.int64)]
            if hop == len(columns):
                columns.append(np.full(n, -1, dtype=np.int32))
            columns[hop][row] = chosen
            node, hop = fabric.target[chosen].astype(np.int64), hop + 1
            on = node != ends[1]
            pair, row, node = pair[on], row[on], node[on]
    table = np.stack(columns, axis=1) if columns else np.full((n, 0), -1, dtype=np.int32)
    taken = table >= 0
    link = table[taken].astype(np.int64)
    return Rows(ptr=pointer(taken.sum(axis=1)), link=link, use=np.ones(link.size), kind=PATH)
