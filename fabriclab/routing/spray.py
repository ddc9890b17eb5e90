"""Ideal packet spraying: all shortest paths share each flow."""

import numpy as np

from fabriclab.core import SPRAY, Fabric, Floats, Ints, check_memory, pointer
from fabriclab.registry import register
from fabriclab.routing.shortest import LinkParts, NextLinks, PairRoutes, Paths, Seed


@register("routing", "spray", minimal=True)
def spray(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Spread each flow over all shortest paths; each link carries a fraction of the flow's rate.

    At each node the traffic is divided among the links on shortest paths in proportion to their capacity. Leaves out
    that packets arrive out of order and that single packets spread unevenly. ``seed`` has no effect.

    A flow has an entry for every link on any of its shortest paths, so this costs more than a hash: an all-to-all of
    256 ranks on rails has 65,280 flows and 3.9 million entries, which take about a second of processor time. Twice as
    many ranks have four times as many flows.
    """
    source = np.repeat(source, subflows)  # (rows,)
    target = np.repeat(target, subflows)
    found: list[LinkParts] = []
    for batch in paths.batches(source, target):
        next_links = paths.walk(source[batch], target[batch])
        for parts in _spread(fabric, next_links, source[batch], target[batch]):
            found.append(parts._replace(row=batch[parts.row]))

    entries = LinkParts.join(found)
    order = np.argsort(entries.row, kind="stable")
    ptr = pointer(np.bincount(entries.row, minlength=source.size))
    return PairRoutes(ptr, entries.link[order], entries.part[order], SPRAY)


def _spread(fabric: Fabric, next_links: NextLinks, source: Ints, target: Ints) -> list[LinkParts]:
    """Return the parts of each pair's traffic on links, one hop after another; ``row`` is the number of the pair."""
    # One entry for each pair and node where traffic of the pair is now, with the fraction that is there.
    pair = np.arange(source.size)
    node = source
    part: Floats = np.ones(source.size)
    hops: list[LinkParts] = []
    entries = 0
    while pair.size:
        found = next_links(pair, node)
        links = found.all()
        entries += links.size
        check_memory(
            80 * entries,
            f"spraying {source.size} pairs of nodes",
            'use method="ecmp", or route fewer flows',
        )

        # Part on a link = part at its node times its capacity, divided by the capacity of all links that lead on there.
        owner = np.repeat(np.arange(pair.size), found.count)  # index into pair, node and part
        capacity = fabric.capacity[links]
        together = np.bincount(owner, weights=capacity, minlength=pair.size)[owner]
        carried = part[owner] * capacity / together
        hops.append(LinkParts(pair[owner], links, carried))

        # Parts of a pair that meet again at a node are added.
        ahead = fabric.target[links].astype(np.int64)
        on = ahead != target[pair[owner]]
        key, meets = np.unique(pair[owner][on] * fabric.n_nodes + ahead[on], return_inverse=True)
        pair, node = np.divmod(key, fabric.n_nodes)
        part = np.bincount(meets, carried[on], key.size).astype(np.float64)
    return hops
