"""Paths around failed NICs and leaves: over the rails of a server that still work, with relays in both servers."""

import numpy as np

from fabriclab.core import SPRAY, Fabric, Flags, Ints, expand, parts_of, pointer, rows_of
from fabriclab.routing.ecmp import ecmp
from fabriclab.routing.shortest import PairRoutes, Paths, Seed


class Reach:
    """Which ranks reach which others without a relay, on links that work in both directions."""

    def __init__(self, fabric: Fabric) -> None:
        works = np.repeat(fabric.capacity.reshape(-1, 2).min(axis=1) > 0, 2)
        link = np.flatnonzero(works)
        start = fabric.source[link]
        end = fabric.target[link]
        inner = fabric.transit[start] & fabric.transit[end]
        part = parts_of(fabric.n_nodes, start[inner], end[inner])  # (N,)

        # Each rank belongs to the connected parts at the other ends of its cables, or to its own.
        rank = fabric.rank_of
        hangs = (rank[start] >= 0) & ~fabric.transit[start] & fabric.transit[end]
        own = np.flatnonzero(fabric.transit[fabric.endpoint])
        self.ranks = fabric.n_ranks
        owner = np.concatenate([rank[start[hangs]], own]).astype(np.int64)
        found = np.concatenate([part[end[hangs]], part[fabric.endpoint[own]]])
        key = np.unique(owner * fabric.n_nodes + found)
        self._owner, self._part = np.divmod(key, fabric.n_nodes)
        self._first = pointer(np.bincount(self._owner, minlength=self.ranks))
        self._key = key
        self._nodes = fabric.n_nodes

        # In a mesh, links join ranks.
        joins = (rank[start] >= 0) & (rank[end] >= 0)
        self._joined = np.unique(
            rank[start[joins]].astype(np.int64) * self.ranks + rank[end[joins]]
        )

    def between(self, one: Ints, other: Ints) -> Flags:
        """Return whether each pair of ranks has a path; a rank always reaches itself."""
        count = np.diff(self._first)[one]
        entry = expand(self._first[one], count)
        pair = np.repeat(np.arange(one.size), count)
        shared = np.isin(other[pair] * self._nodes + self._part[entry], self._key)
        reaches = np.bincount(pair[shared], minlength=one.size) > 0
        joined = np.isin(one * self.ranks + other, self._joined)
        return np.asarray(reaches | joined | (one == other))


def around(
    fabric: Fabric,
    paths: Paths,
    source: Ints,
    target: Ints,
    subflows: int,
    seed: Seed,
    reach: Reach,
) -> PairRoutes:
    """Return routes between ranks of different servers over all rails that work in both servers, in equal parts.

    The data goes over the links of the server to the GPUs whose NICs work, from each of them along its rail, and in
    the target's server on to the target. `NoPath` if there is no such rail.
    """
    source_rank = fabric.rank_of[source].astype(np.int64)
    target_rank = fabric.rank_of[target].astype(np.int64)
    pair, near, far = _relays(fabric, source_rank, target_rank, reach)

    # Three legs for each relay, those of length 0 left out. A pair without relays gets the direct leg, which raises
    # the error that names its ends.
    alone = np.setdiff1d(np.arange(source.size), pair)
    start = np.concatenate(
        [source[pair], fabric.endpoint[near], fabric.endpoint[far], source[alone]]
    )
    end = np.concatenate([fabric.endpoint[near], fabric.endpoint[far], target[pair], target[alone]])
    leg_pair = np.concatenate([pair, pair, pair, alone])
    legs = np.flatnonzero(start != end)
    leg_seed: Seed = seed if isinstance(seed, int) else seed[leg_pair[legs]]
    found = ecmp(fabric, paths, start[legs], end[legs], subflows=1, seed=leg_seed)

    # A pair's relays carry equal parts; on links that several of them share the parts add up.
    relays = np.bincount(pair, minlength=source.size)
    entry_pair = leg_pair[legs][rows_of(found.ptr)]
    part = found.use / np.maximum(relays, 1)[entry_pair]
    key, same = np.unique(entry_pair * fabric.n_links + found.link, return_inverse=True)
    use = np.bincount(same, weights=part).astype(np.float64)
    of_pair, link = np.divmod(key, fabric.n_links)
    length = np.bincount(of_pair, minlength=source.size)
    first = pointer(length)[:-1]

    # The same row for each subflow.
    entries = expand(np.repeat(first, subflows), np.repeat(length, subflows))
    return PairRoutes(pointer(np.repeat(length, subflows)), link[entries], use[entries], SPRAY)


def _relays(fabric: Fabric, source: Ints, target: Ints, reach: Reach) -> tuple[Ints, Ints, Ints]:
    """Return for each relay the pair that it serves, its rank in the source's server, and in the target's server."""
    order = np.argsort(fabric.server, kind="stable")  # ranks, server by server
    sorted_server = fabric.server[order]

    def of_server(rank: Ints) -> tuple[Ints, Ints]:
        """Return where the ranks of each rank's server begin in ``order``, and how many there are."""
        low = np.searchsorted(sorted_server, fabric.server[rank], "left")
        high = np.searchsorted(sorted_server, fabric.server[rank], "right")
        return low, high - low

    low, count = of_server(source)
    pair = np.repeat(np.arange(source.size), count)
    near = order[expand(low, count)]
    low, count = of_server(target[pair])
    relay = np.repeat(np.arange(pair.size), count)
    pair = pair[relay]
    near = near[relay]
    far = order[expand(low, count)]

    on_one_rail = fabric.rail[near] == fabric.rail[far]
    pair = pair[on_one_rail]
    near = near[on_one_rail]
    far = far[on_one_rail]
    works = (
        reach.between(near, far)
        & reach.between(source[pair], near)
        & reach.between(far, target[pair])
    )
    return pair[works], near[works].astype(np.int64), far[works].astype(np.int64)


def merged(one: PairRoutes, other: PairRoutes, is_other: Flags, subflows: int) -> PairRoutes:
    """Return the routes of all pairs in one table: those of ``other`` for the pairs that it serves, else ``one``."""
    row_is_other = np.repeat(is_other, subflows)
    length = np.zeros(row_is_other.size, dtype=np.int64)
    length[~row_is_other] = np.diff(one.ptr)
    length[row_is_other] = np.diff(other.ptr)
    row = np.concatenate(
        [
            np.flatnonzero(~row_is_other)[rows_of(one.ptr)],
            np.flatnonzero(row_is_other)[rows_of(other.ptr)],
        ]
    )
    order = np.argsort(row, kind="stable")
    return PairRoutes(
        pointer(length),
        np.concatenate([one.link, other.link])[order],
        np.concatenate([one.use, other.use])[order],
        SPRAY,
    )
