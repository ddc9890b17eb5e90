"""Relays: a GPU of the one server passes traffic on over NVLink, so that it crosses the network on one rail."""

import numpy as np

from fabriclab.core import Fabric, Ints, expand, pointer, rows_of
from fabriclab.registry import register
from fabriclab.routing.ecmp import ecmp
from fabriclab.routing.shortest import Rows, Seed, Ways


@register("routing", "pxn", relays=True)
def pxn(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return ways over the GPU of the own server that stands on the rail of the target, then along that rail.

    Within a server, and on one rail, the way is the direct one. Both parts are shortest ways by hash, as in ``ecmp``.
    A relay takes a copy into its memory and sends it on; both parts are taken to run at one rate, and the time of
    the copy is left out.

    References
    ----------
    .. [1] NVIDIA, Doubling all2all performance with NVIDIA Collective Communication Library 2.12, 2022 (PXN).
    """
    return _two_legs(fabric, ways, source, target, subflows, seed, at_source=True)


@register("routing", "rail_aligned", relays=True)
def rail_aligned(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return ways along the own rail to the target's server, then over NVLink from the GPU on that rail.

    The mirror of ``pxn``, with the same limits: the relay stands in the target's server.
    """
    return _two_legs(fabric, ways, source, target, subflows, seed, at_source=False)


def _two_legs(
    fabric: Fabric,
    ways: Ways,
    source: Ints,
    target: Ints,
    subflows: int,
    seed: Seed,
    at_source: bool,
) -> Rows:
    a, b = fabric.rank_of[source], fabric.rank_of[target]
    if (off := np.flatnonzero((a < 0) | (b < 0))).size:
        node = source[off[0]] if a[off[0]] < 0 else target[off[0]]
        raise ValueError(
            f"a relay serves flows between ranks, and {fabric.name(int(node))} is none; take ecmp"
        )
    # the relay: in the server of the one, on the rail of the other
    home, other = (a, b) if at_source else (b, a)
    direct = (fabric.server[a] == fabric.server[b]) | (fabric.rail[a] == fabric.rail[b])
    relay = np.where(
        direct, fabric.endpoint[home], fabric.endpoint[_mates(fabric, home, other, direct)]
    )
    start, end = np.concatenate([source, relay]), np.concatenate([relay, target])
    legs = np.flatnonzero(start != end)
    own: Seed = seed if isinstance(seed, int) else np.tile(seed, 2)[legs]
    found = ecmp(fabric, ways, start[legs], end[legs], subflows=subflows, seed=own)
    _check_inside(fabric, found, start, legs[rows_of(found.ptr) // subflows], at_source)
    first, length = np.zeros((2, start.size, subflows), dtype=np.int64)
    first[legs], length[legs] = (
        x.reshape(-1, subflows) for x in (found.ptr[:-1], np.diff(found.ptr))
    )
    # a row: both legs of a pair and subflow
    first, length = (x.reshape(2, -1).T for x in (first, length))
    entries = expand(first.ravel(), length.ravel())
    return Rows(pointer(length.sum(axis=1)), found.link[entries], found.use[entries], found.kind)


def _check_inside(fabric: Fabric, found: Rows, start: Ints, leg: Ints, at_source: bool) -> None:
    """Refuse relays whose leg within the server, the first or the second, leaves it; ``leg`` is that of each entry."""
    names, n = fabric.coord_names, fabric.n_nodes
    server = fabric.coord[:, names.index("server")] if "server" in names else np.arange(n)
    inside = (leg < start.size // 2) == at_source
    out = np.flatnonzero(inside & (server[fabric.target[found.link]] != server[start[leg]]))
    if out.size:
        name = fabric.name(int(start[leg[out[0]]]))
        msg = f"a relay needs links between the GPUs of a server, and from {name} the way within its server leaves it; "
        raise ValueError(
            msg + "build the fabric with the inside of its servers (expand=True), or take ecmp"
        )


def _mates(fabric: Fabric, home: Ints, other: Ints, direct: Ints) -> Ints:
    """Return the rank in the server of ``home`` on the rail of ``other``, at its place among those of the rail."""
    rail = fabric.rail.astype(np.int64)
    key = fabric.server * (rail.max(initial=0) + 1) + rail
    order = np.argsort(key, kind="stable")
    low = np.searchsorted(key[order], key)
    place = np.empty(key.size, dtype=np.int64)
    place[order] = np.arange(key.size) - low[order]
    wanted = key[other] + (fabric.server[home] - fabric.server[other]) * (rail.max(initial=0) + 1)
    at = np.searchsorted(key[order], wanted) + place[other]
    none = np.flatnonzero((at >= np.searchsorted(key[order], wanted, "right")) & ~direct)
    if none.size:
        server, r = int(fabric.server[home[none[0]]]), int(rail[other[none[0]]])
        raise ValueError(
            f"server {server} has no GPU of its own for each GPU on rail {r}, so none relays; take ecmp"
        )
    return np.asarray(order[np.minimum(at, order.size - 1)])
