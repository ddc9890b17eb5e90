"""Random fabrics with every trait that measures must get right, and graphs in which networkx sees them alike."""

import networkx as nx
import numpy as np

from fabriclab.core import FabricBuilder


def tangled(seed, most_ranks=8):
    """Return a fabric of hosts with several cables, GPUs that meet directly, chips and switches, some links dead.

    Not every rank is reached, not every cable works both ways, and capacities differ.
    """
    rng = np.random.default_rng(seed)
    hosts, chips, switches = rng.integers(1, most_ranks - 2), rng.integers(1, 3), rng.integers(1, 6)
    b = FabricBuilder(("gpu", "chip", "switch"), ("server", "index"))
    host = b.add_nodes(
        "gpu", hosts, tier=0, transit=False, server=np.arange(hosts) // 2, index=np.arange(hosts)
    )
    chip = b.add_nodes("chip", chips, tier=0, transit=True, index=np.arange(chips))
    switch = b.add_nodes("switch", switches, tier=1, transit=True, index=np.arange(switches))
    passing = np.concatenate([chip, switch])
    ends = [rng.choice(b.n_nodes, 2, replace=False) for _ in range(rng.integers(0, 2 * switches))]
    ends += [(h, rng.choice(passing)) for h in host for _ in range(rng.integers(1, 3))]
    ends += list(zip(passing, rng.permutation(passing), strict=True))
    one, other = np.array([e for e in ends if e[0] != e[1]]).T
    b.add_cables(one, other, capacity=rng.integers(1, 4, one.size) * 1e9)
    server = np.concatenate([np.arange(hosts) // 2, hosts + np.arange(chips)])
    n = hosts + chips
    fabric = b.build(
        "tangled", {}, endpoint=np.concatenate([host, chip]), rail=np.zeros(n), server=server
    )
    return fabric.without(links=np.flatnonzero(rng.random(fabric.n_links) < 0.08))


def doubled(fabric):
    """Return a graph with each closed node twice, as sender and as receiver, so that no path can cross one."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(
        end(fabric, node, side) for node in range(fabric.n_nodes) for side in ("out", "in")
    )
    for link in np.flatnonzero(fabric.capacity > 0).tolist():
        a, b = end(fabric, fabric.source[link], "out"), end(fabric, fabric.target[link], "in")
        graph.add_edge(a, b, key=link, capacity=float(fabric.capacity[link]))
    return graph


def end(fabric, node, side):
    """Return the name of a node in `doubled`."""
    return int(node) if fabric.transit[node] else (side, int(node))


def hops_between(fabric):
    """Return the hops between all ranks, -1 where there is no path, (R, R)."""
    graph, out = doubled(fabric), np.full((fabric.n_ranks, fabric.n_ranks), -1)
    for i, a in enumerate(fabric.endpoint):
        far = nx.single_source_shortest_path_length(graph, end(fabric, a, "out"))
        for j, b in enumerate(fabric.endpoint):
            out[i, j] = 0 if i == j else far.get(end(fabric, b, "in"), -1)
    return out
