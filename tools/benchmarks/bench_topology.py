"""Fabrics and their hop counts beside networkx: the same nodes, links and facts, the same counts, each anew.

A networkx graph holds the name of every node, which is how its users address them; a Fabric makes names on demand.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import networkx as nx

from fabriclab import topologies
from fabriclab.metrics import hops
from pairs import interleaved

BUILD, HOPS = 20, 100  # times faster, wanted
LINK = {"capacity": 50e9, "delay": 5e-7, "ports": 1, "medium": "fibre", "length": 10.0}


def fat_tree(k: int) -> nx.DiGraph:
    """Return a k-ary fat tree of three tiers, with loops over its nodes and cables."""
    g, half = nx.DiGraph(), k // 2
    for i in range(k * half * half):
        g.add_node(f"host {i}", kind="host", tier=0, transit=False, radix=0)
    for tier, kind in ((1, "leaf"), (2, "spine")):
        for pod, i in product(range(k), range(half)):
            g.add_node(f"{kind} {pod}.{i}", kind=kind, tier=tier, transit=True, radix=k)
    for i in range(half * half):
        g.add_node(f"core {i}", kind="core", tier=3, transit=True, radix=k)
    for pod, i, j in product(range(k), range(half), range(half)):
        _cable(g, f"host {(pod * half + i) * half + j}", f"leaf {pod}.{i}")
        _cable(g, f"leaf {pod}.{i}", f"spine {pod}.{j}")
        _cable(g, f"spine {pod}.{i}", f"core {i * half + j}")
    return g


def torus(shape: tuple[int, ...]) -> nx.DiGraph:
    """Return a torus of chips, with loops over its nodes and cables."""
    g = nx.DiGraph()
    for place in product(*map(range, shape)):
        g.add_node(place, kind="chip", tier=0, transit=True, radix=0)
    for place, (axis, size) in product(product(*map(range, shape)), enumerate(shape)):
        _cable(g, place, (*place[:axis], (place[axis] + 1) % size, *place[axis + 1 :]))
    return g


def _cable(g: nx.DiGraph, a: Any, b: Any) -> None:
    g.add_edge(a, b, **LINK)
    g.add_edge(b, a, **LINK)


def counted(g: nx.Graph, ends: list[Any]) -> Counter[int]:
    """Return how many pairs of ends are how many links apart."""
    there, pairs = set(ends), Counter[int]()
    for end in ends:
        far = nx.single_source_shortest_path_length(g, end)
        pairs.update(h for node, h in far.items() if node in there and h)
    return pairs


def main() -> None:
    # A build takes about 1 ms before the first node; smaller fabrics would measure that.
    large = {"fat_tree": {"k": 48}, "torus": {"shape": (32, 32, 32)}}
    small = {"fat_tree": {"k": 16}, "torus": {"shape": (8, 8, 16)}}
    for name, peer in (("fat_tree", fat_tree), ("torus", torus)):
        f, g = topologies.build(name, **large[name]), peer(*large[name].values())
        if (len(g), g.number_of_edges()) != (f.n_nodes, f.n_links):
            raise SystemExit(f"{f!r} has {f.n_nodes} nodes and {f.n_links} links, networkx has {g}")
        del g
        pairs = interleaved(
            lambda n=name: topologies.build(n, **large[n]),
            lambda n=name, p=peer: p(*large[n].values()),
        )
        print(pairs.line(f"building a {name} of {f.n_ranks:,} ranks", BUILD), flush=True)
        f, g = topologies.build(name, **small[name]), peer(*small[name].values())
        ends = [n for n, facts in g.nodes(data=True) if facts["tier"] == 0]
        found = counted(g, ends)
        if any(found[h] != n for h, n in enumerate(hops(f).pairs)):
            raise SystemExit(f"{f!r}: the hop counts differ from those of networkx")
        pairs = interleaved(lambda f=f: hops(f), lambda g=g, ends=ends: counted(g, ends))
        print(pairs.line(f"hop counts of {f.n_ranks:,} ranks, {name}", HOPS), flush=True)


if __name__ == "__main__":
    main()
