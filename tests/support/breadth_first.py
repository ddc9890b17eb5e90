"""Hops and shortest paths by breadth-first search, written apart from the library."""

import numpy as np


def hops_from(fabric, start):
    """Return hops to every node and the number of shortest paths, by breadth-first search with arrays."""
    hops, ways = np.full(fabric.n_nodes, -1), np.zeros(fabric.n_nodes)
    hops[start], ways[start], front = 0, 1, np.array([start])
    while front.size:
        link = np.flatnonzero(np.isin(fabric.source, front) & (hops[fabric.target] < 0))
        np.add.at(ways, fabric.target[link], ways[fabric.source[link]])
        front = np.unique(fabric.target[link])
        hops[front] = hops[fabric.source[link[0]]] + 1 if link.size else 0
        front = front[fabric.transit[front]]
    return hops, ways
