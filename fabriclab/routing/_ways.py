"""What a routing method sees: links that lead on from a node, a walk along them, and each pair of nodes once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import PATH, Fabric, Flows, Routes, check_within, expand, pointer, rows_of, whole
from fabriclab.errors import NoPath

Ints = NDArray[np.int64]
Found = TypeVar("Found")
Seed = int | NDArray[np.uint64]  # of all pairs, or of each


class Copies(NamedTuple):
    """Copies of a Fabric of N nodes and L links, joined: node v N + i and link v L + i are those of copy v."""

    n_nodes: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    capacity: NDArray[np.float64]
    transit: NDArray[np.bool_]


@dataclass(frozen=True)
class Links:
    """Links to choose from: those of k are ``table[start[k] : start[k] + count[k]]``, by rising number."""

    start: Ints
    count: Ints
    table: Ints

    def all(self) -> Ints:
        """Return the links of all k in one row."""
        return self.table[expand(self.start, self.count)]


class Rows(NamedTuple):
    """Rows of links for pairs of nodes, as a routing method returns them."""

    ptr: Ints
    link: Ints
    use: NDArray[np.float64]
    kind: int


# Shortest ways of some pairs: (pair, node) -> the links of all of them that lead on from ``node[k]`` for ``pair[k]``.
Walk = Callable[[Ints, Ints], Links]


class Ways(Protocol):
    """Shortest ways of a fabric; pairs are given in batches."""

    graph: Fabric | Copies  # where the walk goes: links and nodes are taken modulo those of the fabric

    def batches(self, source: Ints, target: Ints) -> list[Ints]:
        """Return the pairs in batches that fit into memory together: all at once where no table is needed."""
        return [np.arange(source.size)] if source.size else []

    def walk(self, source: Ints, target: Ints) -> Walk:
        """Return the ways of these pairs."""


# What a method chooses: (row, node, links) -> index among the links of each k. Row r is that of pair r // subflows;
# the node is one of the fabric, the links may be those of a copy.
Pick = Callable[[Ints, Ints, Links], NDArray[np.integer]]


def follow(fabric: Fabric, ways: Ways, source: Ints, target: Ints, subflows: int, pick: Pick) -> Rows:
    """Walk all pairs at once, link by link, on the links that ``pick`` chooses; ``subflows`` paths per pair."""
    columns: list[NDArray[np.int32]] = []
    n, graph = source.size * subflows, ways.graph
    for batch in ways.batches(source, target):
        walk = ways.walk(source[batch], target[batch])
        pair = np.repeat(np.arange(batch.size), subflows)
        row = (batch[pair] * subflows + np.tile(np.arange(subflows), batch.size)).astype(np.int64)
        node, goal, hop = source[batch][pair], target[batch][pair], 0
        while row.size:
            links = walk(pair, node)
            chosen = links.table[links.start + pick(row, node % fabric.n_nodes, links)]
            if hop == len(columns):
                columns.append(np.full(n, -1, dtype=np.int32))
            columns[hop][row] = chosen
            node, hop = graph.target[chosen].astype(np.int64), hop + 1
            on = node % fabric.n_nodes != goal
            pair, row, node, goal = pair[on], row[on], node[on], goal[on]
    table = np.stack(columns, axis=1) if columns else np.full((n, 0), -1, dtype=np.int32)
    taken = table >= 0
    link = table[taken].astype(np.int64) % fabric.n_links
    return Rows(ptr=pointer(taken.sum(axis=1)), link=link, use=np.ones(link.size), kind=PATH)


def first(row: Ints, node: Ints, links: Links) -> Ints:
    """Choose the lowest link number everywhere."""
    return np.zeros(row.size, dtype=np.int64)


def hashed(seed: Seed, *columns: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return a 64-bit hash per row (the finaliser of splitmix64, Steele et al., OOPSLA 2014)."""
    start = np.array([seed % 2**64], dtype=np.uint64) if isinstance(seed, int) else seed
    value = np.broadcast_to(start * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1), columns[0].shape)
    for column in columns:
        value = value ^ (column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return value


def kept(fabric: Fabric, name: str, make: Callable[[Fabric], Found]) -> Found:
    """Return what ``make`` reads off a fabric; it is kept there, like the cached properties, and freed with it."""
    if name not in fabric.__dict__:
        fabric.__dict__[name] = make(fabric)
    found: Found = fabric.__dict__[name]
    return found


def check_paths(fabric: Fabric, lost: NDArray[np.bool_], source: Ints, target: Ints, more: str = "") -> None:
    """Refuse pairs that are ``lost``, each of which has no path; the first is named."""
    if lost.any():
        one, other = (fabric.name(int(end[lost][0])) for end in (source, target))
        why = f"every way has a failed link (capacity 0) or passes a node that forbids transit{more}"
        raise NoPath(f"no path from {one} to {other}: {why}; restore a link, or route other ends")


def by_pair(
    fabric: Fabric, flows: Flows, choose: Callable[[Ints, Ints, Seed], Rows], seed: int = 0,
    entropy: ArrayLike | None = None,
) -> Routes:  # fmt: skip
    """Return the routes that ``choose(source, target, seed)`` gives, as many rows for each pair as for the others."""
    for name in ("source", "target"):
        check_within(getattr(flows, name), f"{name} of a flow", 0, fabric.n_nodes - 1)
    moving = np.flatnonzero(flows.source != flows.target)
    fields = code = np.zeros(1, np.int64)
    if entropy is not None:
        given = whole(entropy, "entropy", flows.size.shape, "one per flow, such as its queue pair")
        fields, code = np.unique(given[moving], return_inverse=True)
    ends = flows.source[moving].astype(np.int64) * fabric.n_nodes + flows.target[moving]
    pairs, inverse = np.unique(ends * max(fields.size, 1) + code, return_inverse=True)
    ends, code = np.divmod(pairs, max(fields.size, 1))
    own: Seed = seed if entropy is None else hashed(seed, fields[code])
    rows = choose(ends // fabric.n_nodes, ends % fabric.n_nodes, own)
    n, each = rows.ptr.size - 1, (rows.ptr.size - 1) // max(pairs.size, 1)
    delay: Any = np.bincount(rows_of(rows.ptr), fabric.delay[rows.link] * rows.use, n)
    share, kind, fixed = np.full(n, 1.0 / max(each, 1)), np.full(n, rows.kind), np.zeros(n, dtype=np.bool_)
    routes = Routes(rows.ptr, rows.link.astype(np.int32), rows.use, np.zeros(n, np.int32), share, delay, kind, fixed)
    wanted = (inverse[:, None] * each + np.arange(each)).ravel()  # of each flow the rows of its pair
    return routes.of_rows(wanted, flow=np.repeat(moving, each))
