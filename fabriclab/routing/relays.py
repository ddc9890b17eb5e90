"""Relays: a GPU in the sender's or receiver's server passes traffic on over NVLink, so that it stays on one rail."""

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, Flags, Ints, expand, pointer, rows_of
from fabriclab.registry import register
from fabriclab.routing._living import Reach, around, merged
from fabriclab.routing.ecmp import ecmp
from fabriclab.routing.shortest import PairRoutes, Paths, Seed


@register("routing", "pxn", relays=True)
def pxn(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Send over NVLink to the GPU of the sender's server on the target's rail, and from this relay along that rail.

    Within a server, and between GPUs on the same rail, the path is direct. Both legs are shortest paths that a hash
    selects, as in ``ecmp``. Where a failed NIC or leaf leaves no such path, the data takes all rails that work in both
    servers, in equal parts: over NVLink to their GPUs, along the rails, and over NVLink to the target. A relay copies
    the data into its memory and sends it on. All legs are assumed to run at the same rate, and the time of the copy is
    left out.

    References
    ----------
    .. [1] NVIDIA, Doubling all2all performance with NVIDIA Collective Communication Library 2.12, 2022 (PXN).
    """
    return _two_legs(fabric, paths, source, target, subflows, seed, at_source=True)


@register("routing", "rail_aligned", relays=True)
def rail_aligned(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Send along the sender's rail to a GPU of the target's server, and from this relay over NVLink to the target.

    The mirror image of ``pxn``, with the same limits: here the relay is in the target's server.
    """
    return _two_legs(fabric, paths, source, target, subflows, seed, at_source=False)


def _two_legs(
    fabric: Fabric,
    paths: Paths,
    source: Ints,
    target: Ints,
    subflows: int,
    seed: Seed,
    at_source: bool,
) -> PairRoutes:
    """Return paths with two legs: from the source to a relay, and from there to the target.

    The relay is in the server of the source if ``at_source``, else in the server of the target.
    """
    source_rank = fabric.rank_of[source]  # (pairs,)
    target_rank = fabric.rank_of[target]
    between_ranks = (source_rank >= 0) & (target_rank >= 0)
    _check_ends(fabric, source, target, between_ranks)

    # The relay is in the server of one end and on the rail of the other; a direct pair "relays" at its own end.
    if at_source:
        home, other = source_rank, target_rank
    else:
        home, other = target_rank, source_rank
    same_server = fabric.server[source_rank] == fabric.server[target_rank]
    same_rail = fabric.rail[source_rank] == fabric.rail[target_rank]
    direct = same_server | same_rail | ~between_ranks
    relay_rank = np.where(direct, home, _relay_ranks(fabric, home, other, direct))
    at_home = source if at_source else target
    relay = np.where(direct, at_home, fabric.endpoint[relay_rank])
    if np.any(fabric.capacity == 0):
        reach = Reach(fabric)
        lost = between_ranks & ~same_server
        lost[lost] = ~(
            reach.between(source_rank[lost].astype(np.int64), relay_rank[lost].astype(np.int64))
            & reach.between(relay_rank[lost].astype(np.int64), target_rank[lost].astype(np.int64))
        )
        if lost.any():
            kept = ~lost
            own: Seed = seed if isinstance(seed, int) else seed[kept]
            spare: Seed = seed if isinstance(seed, int) else seed[lost]
            usual = _two_legs(
                fabric, paths, source[kept], target[kept], subflows, own, at_source=at_source
            )
            detour = around(fabric, paths, source[lost], target[lost], subflows, spare, reach)
            return merged(usual, detour, lost, subflows)

    # All first legs, then all second legs. A direct pair has one leg of length 0, which needs no path.
    start = np.concatenate([source, relay])
    end = np.concatenate([relay, target])
    legs = np.flatnonzero(start != end)
    leg_seed: Seed = seed if isinstance(seed, int) else np.tile(seed, 2)[legs]
    found = ecmp(fabric, paths, start[legs], end[legs], subflows=subflows, seed=leg_seed)
    leg_of_entry = legs[rows_of(found.ptr) // subflows]
    _check_inside(fabric, found, start, leg_of_entry, at_source)

    # Where the entries of each leg and subflow begin, and how many there are.
    first = np.zeros((start.size, subflows), dtype=np.int64)
    first[legs] = found.ptr[:-1].reshape(-1, subflows)
    length = np.zeros((start.size, subflows), dtype=np.int64)
    length[legs] = np.diff(found.ptr).reshape(-1, subflows)

    # A row belongs to a pair and a subflow: the entries of its first leg, then those of its second leg.
    first = first.reshape(2, -1).T  # (rows, 2)
    length = length.reshape(2, -1).T
    entries = expand(first.ravel(), length.ravel())
    return PairRoutes(
        pointer(length.sum(axis=1)), found.link[entries], found.use[entries], found.kind
    )


def _check_ends(fabric: Fabric, source: Ints, target: Ints, between_ranks: Flags) -> None:
    """Refuse flows to or from a node that is no rank, unless it is in the server of the other end, as a switch is."""
    if between_ranks.all():
        return
    server = fabric.coordinate("server")
    inside = (server[source] == server[target]) & (server[source] >= 0)
    wrong = np.flatnonzero(~between_ranks & ~inside)
    if wrong.size:
        i = int(wrong[0])
        node = source[i] if fabric.rank_of[source[i]] < 0 else target[i]
        raise ValueError(
            f"a relay serves flows between ranks, and {fabric.name(int(node))} is none; take ecmp"
        )


def _check_inside(
    fabric: Fabric, found: PairRoutes, start: Ints, leg: Ints, at_source: bool
) -> None:
    """Refuse relays if the leg that should stay within a server (the first or the second) leaves it.

    ``start`` has the node where each leg begins, first legs before second legs; ``leg`` is the leg of each entry.
    """
    server: NDArray[np.integer]  # (N,)
    if "server" in fabric.coord_names:
        server = fabric.coord[:, fabric.coord_names.index("server")]
    else:
        server = np.arange(fabric.n_nodes)

    is_first = leg < start.size // 2
    within_server = is_first == at_source
    leaves = server[fabric.target[found.link]] != server[start[leg]]
    wrong = np.flatnonzero(within_server & leaves)
    if wrong.size:
        name = fabric.name(int(start[leg[wrong[0]]]))
        msg = f"a relay needs links between the GPUs of a server, and from {name} the way within its server leaves it; "
        raise ValueError(
            msg + "build the fabric with the inside of its servers (expand=True), or take ecmp"
        )


def _relay_ranks(fabric: Fabric, home: Ints, other: Ints, direct: Flags) -> Ints:
    """Return for each pair the rank that is in the server of ``home`` and on the rail of ``other``.

    If several ranks of a server are on that rail, the relay has the same position among them as ``other`` has in its
    own server. ``direct`` pairs need no relay.
    """
    # Ranks sorted by key = server * rails + rail, so that ranks of one server and rail are next to each other.
    rail = fabric.rail.astype(np.int64)
    n_rails = rail.max(initial=0) + 1
    key = fabric.server * n_rails + rail  # (R,)
    order = np.argsort(key, kind="stable")
    sorted_key = key[order]
    place = np.empty(
        key.size, dtype=np.int64
    )  # (R,) position of each rank among those of its server and rail
    place[order] = np.arange(key.size) - np.searchsorted(sorted_key, key)[order]

    wanted = key[other] + (fabric.server[home] - fabric.server[other]) * n_rails
    at = np.searchsorted(sorted_key, wanted) + place[other]
    is_missing = at >= np.searchsorted(sorted_key, wanted, "right")
    missing = np.flatnonzero(is_missing & ~direct)
    if missing.size:
        server = int(fabric.server[home[missing[0]]])
        r = int(rail[other[missing[0]]])
        raise ValueError(
            f"server {server} has no GPU of its own for each GPU on rail {r}, so none relays; take ecmp"
        )
    return np.asarray(order[np.minimum(at, order.size - 1)])
