"""Ring algorithms: each rank talks only to its two neighbours, one block at a time.

A phase of n - 1 steps is one step group, and every repetition moves all block numbers on by one. Further functions of
this module tell which ranks of a fabric form a ring on a rail, and how often a ring leaves its leaf switch.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.collectives.algorithm import Steps, algorithm
from fabriclab.core import Fabric, Ints, StepGroup, column, expand, frozen, whole


def phase(n: int, orders: ArrayLike | None = None, *, reduce: bool) -> Steps:
    """Return the n - 1 steps of a phase of the ring.

    With ``reduce`` blocks collect their sums and end at their rank; otherwise they start there and go around the ring.
    Block k of ring c has the number k * channels + c, so all rings advance by as many blocks as there are channels.
    """
    table = _orders(n, orders)  # (channels, n)
    if n == 1:
        return ()
    channels = len(table)
    channel, place = np.indices(table.shape)
    # A sum ends at its own rank, so each rank begins with the block of the rank before it.
    block = (place - 1) % n if reduce else place
    step = StepGroup.make(
        table.ravel(),
        np.roll(table, -1, axis=1).ravel(),
        (block * channels + channel).ravel(),
        reduce=reduce,
        repeat=n - 1,
        shift=-channels,
    )
    return (step,)


def _orders(n: int, orders: ArrayLike | None) -> Ints:
    """Return the ranks in the order of each ring, (channels, n)."""
    table = np.atleast_2d(np.arange(n) if orders is None else frozen(orders, np.int64, "orders"))
    if table.ndim != 2 or table.shape[1] != n or np.any(np.sort(table, axis=1) != np.arange(n)):
        raise ValueError(
            f"orders must have each of {n} ranks once per row, as channel_rings gives, got {orders!r}"
        )
    return table


@algorithm("all_reduce.ring", lambda n, orders: (2 * (n - 1), 2 * (n - 1) / n, (n - 1) / n))
def all_reduce(n: int, root: int, *, orders: ArrayLike | None = None) -> tuple[int, Steps]:
    """Reduce-scatter around the ring, then all-gather around it; every rank does the same work.

    ``orders``, (channels, n), gives each channel a ring of its own, which carries an equal part of the array.

    References
    ----------
    .. [1] P. Patarasuk, X. Yuan, J. Parallel and Distributed Computing 69(2), 2009, pp. 117-124.
    """
    channels = len(_orders(n, orders))
    steps = phase(n, orders, reduce=True) + phase(n, orders, reduce=False)
    return n * channels, steps


@algorithm("reduce_scatter.ring", lambda n: (n - 1, (n - 1) / n, (n - 1) / n))
def reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Pass partial sums around the ring until each block arrives at its rank."""
    return n, phase(n, reduce=True)


@algorithm("all_gather.ring", lambda n: (n - 1, (n - 1) / n, 0))
def all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Pass every block once around the ring."""
    return n, phase(n, reduce=False)


@algorithm("broadcast.ring", lambda n: (n - 1, n - 1, 0))
def broadcast(n: int, root: int) -> tuple[int, Steps]:
    """Pass the array from rank to rank along a chain, which is fast with many pipelined segments."""
    steps = []
    for hop in range(n - 1):
        source = (root + hop) % n
        steps.append(StepGroup.make(source, (source + 1) % n, reduce=False))
    return 1, tuple(steps)


@algorithm("send_recv.direct", lambda n: (n > 1, n > 1, 0))
def send_recv(n: int, root: int) -> tuple[int, Steps]:
    """Send the whole array to the next rank and receive one from the rank before, in one step, as nccl-tests does."""
    rank = np.arange(n)
    return n, (StepGroup.make(rank, (rank + 1) % n, rank, reduce=False),)


def rail_groups(fabric: Fabric) -> list[Ints]:
    """Return the endpoints of each rail in server order, which are the data-parallel groups of a cluster with rails.

    Use them as ``placement`` of a simulation; `shuffled` puts each group in a random order.
    """
    order = np.lexsort((fabric.server, fabric.rail))
    return np.split(order, np.flatnonzero(np.diff(fabric.rail[order])) + 1)


def shuffled(groups: ArrayLike, seed: int) -> list[Ints]:
    """Put the servers into a random order, as a scheduler may hand them out after a restart.

    Members that stand at the same place of their groups belong to the same server, so groups of equal length all get
    the same order, and no member changes its group. The same seed always gives the same order, and seeds 1, 2, ... are
    "shuffle" 1, 2, ... in ``live.placement`` and ``live.wirings``.

    Parameters
    ----------
    groups : sequence of G sequences, or array_like of shape (G, n)
        Endpoints of each group, as `rail_groups` returns them; groups may differ in length.
    seed : int
        Seed of the shuffle; 0 leaves every group in its given order. >= 0

    Returns
    -------
    list of G arrays of int64
        New arrays; ``groups`` is not changed.

    Raises
    ------
    TypeError
        If a group contains anything but whole numbers, or the seed is not a whole number.
    ValueError
        If there is no group, a group is not one-dimensional, or the seed is negative.

    Examples
    --------
    >>> [group.tolist() for group in shuffled([[0, 2, 4, 6], [1, 3, 5, 7]], seed=3)]
    [[6, 4, 2, 0], [7, 5, 3, 1]]
    """
    rows = [_group(group) for group in groups] if np.iterable(groups) else []
    if not rows:
        raise ValueError(
            f"groups must be one or more rows of endpoints, got {groups!r:.60}; rail_groups(fabric) returns "
            "those of a fabric"
        )
    number = units.count(seed, "seed", 0)
    if number == 0:
        return rows
    rng = np.random.default_rng(number)
    orders: dict[int, Ints] = {}  # length of a group -> order of its places
    for row in rows:
        if row.size not in orders:
            orders[row.size] = rng.permutation(row.size)
    return [row[orders[row.size]] for row in rows]


def _group(group: ArrayLike) -> Ints:
    """Return the endpoints of one group as a new array, or refuse anything but a row of whole numbers."""
    row = np.array(group)
    if row.ndim != 1:
        raise ValueError(
            "groups must be rows of endpoints, as rail_groups returns them, and one of them is "
            f"{group!r:.60}; write a single group as [group]"
        )
    if row.size and row.dtype.kind not in "iu":
        raise TypeError(
            f"groups must hold numbers of endpoints, such as [[0, 8, 16], [1, 9, 17]], got {group!r:.60}"
        )
    return row.astype(np.int64)


def leaf_of(fabric: Fabric) -> Ints:
    """Return the leaf switch of each endpoint, (R,), as a read-only array; -1 if it has none.

    It is the closest node of kind ``leaf`` on a path out of the server. Among equally close leaves, one on the
    endpoint's rail comes first, then the lowest number.

    Raises
    ------
    ValueError
        If the fabric has no nodes of kind ``leaf``.
    """
    return _leaf_of(fabric)


@lru_cache(maxsize=8)
def _leaf_of(fabric: Fabric) -> Ints:
    """Return the leaf switch of each endpoint, (R,); a fabric never changes, so it is searched once."""
    is_leaf = np.isin(np.arange(fabric.n_nodes), fabric.nodes("leaf"))
    leaf_rail = fabric.coordinate("rail")
    ptr, links = fabric.out
    found = np.full(fabric.n_ranks, -1, dtype=np.int64)
    # Search outwards from all endpoints at once, over pairs of an endpoint and a node that it has just reached.
    rank = np.arange(fabric.n_ranks)
    node = fabric.endpoint.astype(np.int64)
    seen = rank * fabric.n_nodes + node
    while rank.size:
        degree = ptr[node + 1] - ptr[node]
        outgoing = links[expand(ptr[node], degree)]
        rank = np.repeat(rank, degree)
        node = fabric.target[outgoing].astype(np.int64)

        hit = np.flatnonzero(is_leaf[node])
        # Write candidates from the worst to the best, so that the best stays.
        on_rail = leaf_rail[node[hit]] == fabric.rail[rank[hit]]
        order = np.lexsort((-node[hit], on_rail))
        found[rank[hit][order]] = node[hit][order]

        inner = fabric.transit[node] & ~is_leaf[node] & (found[rank] < 0)
        key = np.setdiff1d(rank[inner] * fabric.n_nodes + node[inner], seen)
        seen = np.concatenate([seen, key])
        rank = key // fabric.n_nodes
        node = key % fabric.n_nodes
    found.flags.writeable = False  # the same array serves every call
    return found


def channel_rings(n_ranks: int, per_server: int, *, alternate: bool = False) -> Ints:
    """Return one ring for each GPU of a server, (per_server, n_ranks): ring c enters every server at its GPU c.

    The ring passes all GPUs of the server and leaves it at the GPU before c, so it changes rails between servers, as
    NCCL_CROSS_NIC=1 allows [1]_. With ``alternate`` it passes every second server in the opposite direction, as NCCL
    does where its search under NCCL_CROSS_NIC=2 ends with two NICs a ring; so it stays on its rail, except for the last
    cable of an odd number of servers. With NCCL_CROSS_NIC=0 a ring leaves every server through the NIC through which it
    entered. That does not change the order but the route: use the order without ``alternate`` and routing "pxn", with
    which the GPU before c passes the data to GPU c.

    References
    ----------
    .. [1] NVIDIA, NCCL user guide, environment variables; rings alternate in NVIDIA/nccl, src/graph/connect.cc.

    Examples
    --------
    >>> channel_rings(8, 4, alternate=True)[1].tolist()
    [1, 2, 3, 0, 4, 7, 6, 5]
    """
    n = units.count(n_ranks, "n_ranks")
    g = units.count(per_server, "per_server")
    if n % g:
        raise ValueError(f"n_ranks must be a multiple of per_server, got {n} and {g}")

    ring, server, place = np.indices((g, n // g, g))
    if units.flag(alternate, "alternate"):
        place = np.where(server % 2 == 1, g - 1 - place, place)
    return np.reshape(server * g + (ring + place) % g, (g, n))


def spine_crossings(fabric: Fabric, order: ArrayLike) -> int:
    """Count the hops of a ring that cross a spine, because they leave their server and their leaf switch.

    Parameters
    ----------
    fabric : Fabric
        A network with nodes of kind ``leaf``.
    order : array_like, shape (n,) or (G, n)
        Endpoints in the order of the ring, the last one followed by the first; several rows are several rings.
    """
    given = np.atleast_2d(column(order, "order"))
    rings = whole(given, "order", (-1, -1), "endpoints, each ring a row", fabric.n_ranks)
    leaf = leaf_of(fabric)[rings]  # (G, n)
    server = fabric.server[rings]  # (G, n)
    other_leaf = leaf != np.roll(leaf, -1, axis=1)
    other_server = server != np.roll(server, -1, axis=1)
    return int(np.sum(other_leaf & other_server))


def levels(
    fabric: Fabric, source: ArrayLike | None = None, target: ArrayLike | None = None
) -> dict[str, float]:
    """Return the fractions of some transfers that stay inside a server, stay on a leaf switch, or cross a spine.

    ``levels(fabric, a, b)["over a spine"]`` is 0.97 if 97 of 100 transfers from ``a[i]`` to ``b[i]`` have to leave
    their server and their leaf. All transfers count alike, so weight the result by their bytes. Looks only at where
    the two ends are; a relay inside a server, as with routing "pxn", is left out.

    Parameters
    ----------
    fabric : Fabric
        A network with nodes of kind ``leaf``.
    source, target : array_like, shape (n,), optional
        Endpoints that send and that receive. Unless given: an all-to-all between servers, in which each endpoint sends
        to every endpoint of all other servers.

    Returns
    -------
    dict
        ``{"inside a server": ..., "on a leaf": ..., "over a spine": ...}``, which add up to 1. [1]

    Raises
    ------
    ValueError
        If only one of ``source`` and ``target`` is given, they differ in length or are empty, or the fabric has no
        leaves.
    """
    if source is None and target is None:
        server = fabric.server
        sender, receiver = np.nonzero(server[:, None] != server[None, :])
        if not sender.size:
            raise ValueError(f"fabric must have at least two servers, got {fabric!r:.80}")
    elif source is None or target is None:
        raise ValueError("levels needs source and target, or neither of them, got only one")
    else:
        sender = whole(column(source, "source"), "source", (-1,), "endpoints", fabric.n_ranks)
        receiver = whole(column(target, "target"), "target", (-1,), "endpoints", fabric.n_ranks)
        if sender.size != receiver.size or not sender.size:
            raise ValueError(
                "source and target must have the same length, at least 1, "
                f"got {sender.size} and {receiver.size}"
            )
    leaf = leaf_of(fabric)
    inside = fabric.server[sender] == fabric.server[receiver]
    on_leaf = ~inside & (leaf[sender] == leaf[receiver])
    return {
        "inside a server": float(inside.mean()),
        "on a leaf": float(on_leaf.mean()),
        "over a spine": float(1 - (inside | on_leaf).mean()),
    }


def ring_pairs(groups: ArrayLike) -> tuple[Ints, Ints]:
    """Return who sends to whom if each group is a ring: the senders, and for each of them the receiver.

    Parameters
    ----------
    groups : array_like, shape (G, n)
        Members of each ring in its order, the last one followed by the first; ``rank.reshape(128, 8)`` has a ring for
        each server of eight GPUs, and its transpose one for each rail.

    Returns
    -------
    tuple of two arrays of int64, shape (G n,)

    Examples
    --------
    >>> sender, receiver = ring_pairs([[0, 1, 2], [3, 4, 5]])
    >>> receiver.tolist()
    [1, 2, 0, 4, 5, 3]
    """
    rows = np.atleast_2d(np.array(groups))
    if rows.ndim != 2 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"groups must be rows of whole numbers, one row for each ring, got {groups!r:.60}"
        )
    members = rows.astype(np.int64)
    return members.ravel(), np.roll(members, -1, axis=1).ravel()
