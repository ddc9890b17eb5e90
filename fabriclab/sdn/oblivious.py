"""The best fixed split for any traffic that the hosts can send: what routes cost that never look at the traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric, Floats, Flows, Ints
from fabriclab.errors import TooLarge
from fabriclab.sdn.forwarding import ends_of, goals_of

__all__ = ["Oblivious", "oblivious"]

# Pairs of switches with hosts, times arcs between switches: larger programs take minutes.
_MOST_ENTRIES = 5000
# Pairs of leaves, times kinds of spines: larger programs take minutes.
_MOST_SPLITS = 4000
_CLOSE = 1e-9  # relative: a worst case that is so close to the bound of the cuts is the optimum
CLOSED_FORM = "closed form of a Clos"
BY_CABLES = "parts by cable, proven by a cut"
ONE_SPINE = "linear program over paths by one spine"
PROGRAM = "linear program"


@dataclass(frozen=True, eq=False)
class Oblivious:
    """The best fixed split: parts of the traffic of each pair of goals on each arc, whatever the traffic is.

    Parameters
    ----------
    ratio : float
        Load of the fullest link in the worst case, as a fraction of its capacity: at most this, for all traffic in
        which no host sends or gets more than its cables carry. Above 1 the worst traffic does not fit.
    method : str
        ``"closed form of a Clos"``, ``"parts by cable, proven by a cut"``, ``"linear program"``, or ``"linear program
        over paths by one spine"``. The last is the best split that needs no path of more than two hops; longer paths
        might be better, as a bound by cuts does not meet it and the whole program is too large.
    start, goal : (P,) int64
        Nodes of each pair.
    source, target : (A,) int64
        Nodes of each arc; parallel cables are one arc.
    part : (P, A) float64
        Part of the pair's traffic on the arc. 0..1
    """

    ratio: float
    method: str
    start: Ints
    goal: Ints
    source: Ints
    target: Ints
    part: Floats

    def load(self, fabric: Fabric, flows: Flows) -> Floats:
        """Return the load of each arc for one traffic, (A,). [B/s]."""
        goals = goals_of(fabric)
        ends = ends_of(fabric, goals, flows)
        key = self.start * fabric.n_nodes + self.goal
        order = np.argsort(key)
        wanted = ends.start.astype(np.int64) * fabric.n_nodes + goals.node[ends.goal]
        place = np.minimum(np.searchsorted(key[order], wanted), key.size - 1)
        found = key[order][place] == wanted
        rate = np.bincount(order[place[found]], ends.rate[found], key.size)
        return np.asarray(rate @ self.part, dtype=np.float64)

    def __repr__(self) -> str:
        """Show the ratio and the method."""
        return f"<Oblivious: fullest link at most at {100 * self.ratio:.4g} %, by {self.method}>"


class _Hose(NamedTuple):
    """What hosts can send and get, by the switch on which they hang, and the arcs between switches."""

    node: Ints  # (D,) switches with hosts
    sends: Floats  # (D,) [B/s]
    gets: Floats  # (D,) [B/s]
    source: Ints  # (A,)
    target: Ints  # (A,)
    capacity: Floats  # (A,) [B/s]


def _hose(fabric: Fabric) -> _Hose:
    """Return the rates of hosts by switch, and arcs; refuse hosts with several cables."""
    goals = goals_of(fabric)
    if np.any(goals.last < 0):
        rank = int(np.flatnonzero(goals.last < 0)[0])
        raise ValueError(
            f"rank {rank} must hang on a switch by one cable, as on a leaf; take a fabric with expand=False, "
            "or one with hosts on its switches"
        )
    gets = np.bincount(goals.of_rank, fabric.capacity[goals.last], goals.node.size)
    sends = np.bincount(goals.of_rank, fabric.capacity[goals.last ^ 1], goals.node.size)
    live = np.flatnonzero(
        (fabric.capacity > 0) & fabric.transit[fabric.source] & fabric.transit[fabric.target]
    )
    key = fabric.source[live].astype(np.int64) * fabric.n_nodes + fabric.target[live]
    arcs, arc = np.unique(key, return_inverse=True)
    source, target = np.divmod(arcs, fabric.n_nodes)
    capacity = np.bincount(arc, fabric.capacity[live], arcs.size)
    return _Hose(
        goals.node, sends.astype(float), gets.astype(float), source, target, capacity.astype(float)
    )


def oblivious(fabric: Fabric) -> Oblivious:
    """Find the fixed split with the least utilisation in its worst case, over all traffic within the rates of hosts.

    In a Clos of two tiers whose leaves share all spines in the same proportion, each leaf spreads its traffic over the
    spines in that proportion. The fullest link is then at what the hosts of a leaf can send over the capacity of its
    cables up, and no routes do better, since that traffic has to leave the leaf: closed form. In a Clos whose cables
    are not in proportion, as after a cut, each pair of leaves splits its traffic by the narrower of both ends' cables
    at each spine; where the worst case of that split is what a leaf must send or get anyway, no split is better. Where
    it is not, and on other fabrics, a linear program is solved by duality of the worst case [1]_, if it is small.

    Parameters
    ----------
    fabric : Fabric
        A network whose ranks hang on switches by one cable each.

    Raises
    ------
    TooLarge
        If the program would have more than 5,000 pairs of switches times links.
    ValueError
        If a rank has several cables, or all hosts hang on one switch.

    References
    ----------
    .. [1] D. Applegate, E. Cohen, Making intra-domain routing robust to changing and uncertain traffic demands:
       understanding fundamental tradeoffs, SIGCOMM 2003; for traffic within host rates (the hose model), M. Kodialam,
       T. V. Lakshman, J. B. Orlin, S. Sengupta, Oblivious routing of highly variable traffic in service overlays and
       IP backbones, IEEE/ACM Transactions on Networking 17(2), 2009.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> oblivious(topologies.build("leaf_spine", hosts=24, radix=8, oversubscription=3))
    <Oblivious: fullest link at most at 300 %, by closed form of a Clos>
    """
    hose = _hose(fabric)
    if hose.node.size < 2:
        raise ValueError(
            "all hosts hang on one switch, so no link between switches is used; take two leaves or more"
        )
    found = _closed_form(hose)
    if found is None:
        found = _by_one_spine(hose)
    is_optimal = found is not None and found.method != ONE_SPINE
    is_small = hose.node.size * (hose.node.size - 1) * hose.source.size <= _MOST_ENTRIES
    if found is None or (is_small and not is_optimal):
        found = _by_program(fabric, hose)
    return found


def _pairs(hose: _Hose) -> tuple[Ints, Ints]:
    """Return both ends of all pairs of switches with hosts, as numbers among them."""
    one, other = np.nonzero(~np.eye(hose.node.size, dtype=bool))
    return one, other


class _Clos(NamedTuple):
    """Cables of a Clos of two tiers: what leaves can send up to spines and get from them, (leaves, spines). [B/s]."""

    spine: Ints  # (S,) nodes
    up: Floats
    down: Floats


def _clos(hose: _Hose) -> _Clos | None:
    """Return the cables of a Clos of two tiers, or None if the fabric is none."""
    spines = np.setdiff1d(np.union1d(hose.source, hose.target), hose.node)
    leaf = {int(node): i for i, node in enumerate(hose.node)}
    spine = {int(node): i for i, node in enumerate(spines)}
    up = np.zeros((hose.node.size, spines.size))
    down = np.zeros((hose.node.size, spines.size))
    for one, other, rate in zip(
        hose.source.tolist(), hose.target.tolist(), hose.capacity.tolist(), strict=True
    ):
        if one in leaf and other in spine:
            up[leaf[one], spine[other]] = rate
        elif one in spine and other in leaf:
            down[leaf[other], spine[one]] = rate
        else:
            return None
    has_cables = np.all(up.sum(axis=1) > 0) and np.all(down.sum(axis=1) > 0)
    return _Clos(spines, up, down) if spines.size and has_cables else None


def _closed_form(hose: _Hose) -> Oblivious | None:
    """Return the answer for a Clos of two tiers with proportional cables, else None."""
    clos = _clos(hose)
    if clos is None:
        return None
    share = clos.up / clos.up.sum(axis=1, keepdims=True)  # (leaves, spines)
    same = np.allclose(share, share[0], rtol=1e-9, atol=0)
    if not same or not np.allclose(clos.up, clos.down, rtol=1e-9, atol=0):
        return None
    one, _ = _pairs(hose)
    return _of_split(hose, clos, share[one], _cut_bound(hose, clos), CLOSED_FORM)


def _cut_bound(hose: _Hose, clos: _Clos) -> float:
    """Return what no routes go below: all that a leaf can send or get has to pass its own cables."""
    others_get = hose.gets.sum() - hose.gets
    others_send = hose.sends.sum() - hose.sends
    leaving = np.minimum(hose.sends, others_get) / clos.up.sum(axis=1)
    coming = np.minimum(hose.gets, others_send) / clos.down.sum(axis=1)
    return float(max(leaving.max(), coming.max()))


def _of_split(hose: _Hose, clos: _Clos, split: Floats, ratio: float, method: str) -> Oblivious:
    """Return the answer for parts of each pair by spine, (P, S)."""
    one, other = _pairs(hose)
    leaf = {int(node): i for i, node in enumerate(hose.node)}
    spine = {int(node): i for i, node in enumerate(clos.spine)}
    part = np.zeros((one.size, hose.source.size))
    for arc, (a, b) in enumerate(zip(hose.source.tolist(), hose.target.tolist(), strict=True)):
        if a in leaf:
            mine = one == leaf[a]
            part[mine, arc] = split[mine, spine[b]]
        else:
            mine = other == leaf[b]
            part[mine, arc] = split[mine, spine[a]]
    return Oblivious(
        ratio, method, hose.node[one], hose.node[other], hose.source, hose.target, part
    )


def _by_one_spine(hose: _Hose) -> Oblivious | None:
    """Return the best split over paths by one spine in a Clos of two tiers, or None if a pair has no such path.

    None, too, if no simple split meets the bound of the cuts and the program has too many splits.
    """
    clos = _clos(hose)
    if clos is None:
        return None
    one, other = _pairs(hose)
    narrow = np.minimum(clos.up[one], clos.down[other])  # (P, S)
    total = narrow.sum(axis=1, keepdims=True)
    if not np.all(total > 0):
        return None
    split = narrow / total
    bound = _cut_bound(hose, clos)
    worst = _worst(hose, clos, split)
    if worst <= bound * (1 + _CLOSE):
        return _of_split(hose, clos, split, worst, BY_CABLES)

    # Spines with the same cables count as one, as each of them carries an equal part.
    both = np.concatenate([clos.up, clos.down])
    _, first, kind, count = np.unique(
        both, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    if one.size * count.size > _MOST_SPLITS:
        return None
    merged = _Clos(clos.spine[first], clos.up[:, first] * count, clos.down[:, first] * count)
    by_kind = _best_split(hose, merged)
    split = by_kind[:, kind.ravel()] / count[kind.ravel()]
    worst = _worst(hose, clos, split)
    method = BY_CABLES if worst <= bound * (1 + _CLOSE) else ONE_SPINE
    return _of_split(hose, clos, split, worst, method)


def _worst(hose: _Hose, clos: _Clos, split: Floats) -> float:
    """Return the load of the fullest cable in its worst case, for parts of each pair by spine, (P, S).

    A cable up carries traffic of its leaf alone: in the worst case that leaf sends as much as others can get to those
    for which it sends most over this cable. A cable down is the same the other way round.
    """
    one, other = _pairs(hose)
    fullest = 0.0
    for leaf in range(hose.node.size):
        sent = one == leaf
        load = _greedy(split[sent], hose.gets[other[sent]], hose.sends[leaf])
        fullest = max(fullest, _fullest(load, clos.up[leaf]))
        got = other == leaf
        load = _greedy(split[got], hose.sends[one[got]], hose.gets[leaf])
        fullest = max(fullest, _fullest(load, clos.down[leaf]))
    return fullest


def _greedy(part: Floats, most: Floats, total: float) -> Floats:
    """Return the largest sums of rates times parts, (S,).

    A partner has a rate of at most ``most``, (J,), and all of them together at most ``total``.
    """
    order = np.argsort(-part, axis=0)
    sorted_part = np.take_along_axis(part, order, axis=0)
    before = np.cumsum(most[order], axis=0) - most[order]
    rate = np.clip(total - before, 0.0, most[order])
    return np.asarray((rate * sorted_part).sum(axis=0), dtype=np.float64)


def _fullest(load: Floats, capacity: Floats) -> float:
    """Return the largest load over capacity; a cable without capacity carries nothing."""
    used = capacity > 0
    return float((load[used] / capacity[used]).max(initial=0.0))


def _best_split(hose: _Hose, clos: _Clos) -> Floats:
    """Return the parts of each pair by spine with the least worst case, (P, S), by a linear program.

    Variables: parts; for each cable a price of its own leaf and one of each partner, by duality of `_greedy`; and the
    ratio.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    one, other = _pairs(hose)
    n_pairs, n_spines = one.size, clos.spine.size
    unit = float(max(clos.up.max(), clos.down.max()))
    pair = np.repeat(np.arange(n_pairs), n_spines)
    spine = np.tile(np.arange(n_spines), n_pairs)
    part = np.arange(pair.size)
    n_ends = hose.node.size * n_spines
    ratio = 3 * part.size + 2 * n_ends
    rows, columns, values = [], [], []
    row = 0
    places = (
        (one, other, hose.sends, hose.gets, clos.up),
        (other, one, hose.gets, hose.sends, clos.down),
    )
    for side, (own, partner, most_own, most_partner, capacity) in enumerate(places):
        first = part.size + side * (part.size + n_ends)
        of_partner = first + part
        end = own[pair] * n_spines + spine
        of_own = first + part.size + end
        has_cable = capacity[own[pair], spine] > 0
        cap = np.where(has_cable, capacity[own[pair], spine], 1.0) / unit
        # Part over capacity <= price of the own leaf + price of the partner.
        every = row + part
        rows += [every, every, every]
        columns += [part, of_own, of_partner]
        values += [1.0 / cap, -np.ones(part.size), -np.ones(part.size)]
        row += part.size
        # Rates times these prices <= ratio.
        ends = row + np.arange(n_ends)
        rows += [ends, row + end, ends]
        columns += [first + part.size + np.arange(n_ends), of_partner, np.full(n_ends, ratio)]
        values += [
            np.repeat(most_own / unit, n_spines),
            most_partner[partner[pair]] / unit,
            -np.ones(n_ends),
        ]
        row += n_ends
    table = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(row, ratio + 1),
    )
    whole = coo_array((np.ones(part.size), (pair, part)), shape=(n_pairs, ratio + 1))
    high = np.full(ratio + 1, np.inf)
    usable = (clos.up[one] > 0) & (clos.down[other] > 0)
    high[: part.size] = np.where(usable.ravel(), 1.0, 0.0)
    least = np.zeros(ratio + 1)
    least[ratio] = 1.0
    bounds = np.column_stack([np.zeros(ratio + 1), high])
    found = linprog(
        least,
        table.tocsr(),
        np.zeros(row),
        whole.tocsr(),
        np.ones(n_pairs),
        bounds,
        method="highs",
    )
    if found.status != 0:
        raise ValueError(f"HiGHS found no split: {found.message}; take a smaller fabric")
    split = np.clip(found.x[: part.size].reshape(n_pairs, n_spines), 0.0, 1.0)
    return np.asarray(split / split.sum(axis=1, keepdims=True))


def _by_program(fabric: Fabric, hose: _Hose) -> Oblivious:
    """Return the answer of the linear program.

    Variables: the part of each pair on each arc; for each arc a price of each sender and of each receiver, whose
    weighted sum bounds the worst traffic on the arc; and the ratio, which bounds all of these sums.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    one, other = _pairs(hose)
    n_pairs = one.size
    n_arcs = hose.source.size
    n_ends = hose.node.size
    if n_pairs * n_arcs > _MOST_ENTRIES:
        raise TooLarge(
            f"{n_pairs:,} pairs of switches times {n_arcs:,} links between them are {n_pairs * n_arcs:,} parts of a "
            f"program that is solved up to {_MOST_ENTRIES:,}; take a smaller fabric, or a Clos of two tiers, which has "
            "a closed form"
        )
    n_parts = n_pairs * n_arcs
    n_prices = n_arcs * n_ends
    ratio = n_parts + 2 * n_prices
    n_variables = ratio + 1
    unit = float(hose.capacity.max())
    capacity = hose.capacity / unit

    def part(pair: Ints, arc: Ints) -> Ints:
        return pair * n_arcs + arc

    pair = np.repeat(np.arange(n_pairs), n_arcs)
    arc = np.tile(np.arange(n_arcs), n_pairs)
    every = part(pair, arc)

    # What leaves a node less what comes in: 1 at the start of a pair; nothing elsewhere, except at its goal.
    rows = np.concatenate(
        [pair * fabric.n_nodes + hose.source[arc], pair * fabric.n_nodes + hose.target[arc]]
    )
    columns = np.concatenate([every, every])
    values = np.concatenate([np.ones(every.size), -np.ones(every.size)])
    passes = np.union1d(hose.source, hose.target)
    kept = np.array(
        [p * fabric.n_nodes + n for p in range(n_pairs) for n in passes if n != hose.node[other[p]]]
    )
    flow = coo_array(
        (values, (rows, columns)), shape=(n_pairs * fabric.n_nodes, n_variables)
    ).tocsr()[kept]
    right = (kept % fabric.n_nodes == hose.node[one[kept // fabric.n_nodes]]).astype(np.float64)

    # Part over capacity <= price of the sender + price of the receiver, for each pair and arc.
    row = np.arange(every.size)
    sender = n_parts + arc * n_ends + one[pair]
    receiver = n_parts + n_prices + arc * n_ends + other[pair]
    covered = coo_array(
        (
            np.concatenate([1.0 / capacity[arc], -np.ones(2 * every.size)]),
            (np.tile(row, 3), np.concatenate([every, sender, receiver])),
        ),
        shape=(every.size, n_variables),
    )
    # Rates of hosts times these prices <= ratio, for each arc.
    arcs = np.repeat(np.arange(n_arcs), n_ends)
    prices = np.arange(n_prices)
    worst = coo_array(
        (
            np.concatenate(
                [
                    np.tile(hose.sends / unit, n_arcs),
                    np.tile(hose.gets / unit, n_arcs),
                    -np.ones(n_arcs),
                ]
            ),
            (
                np.concatenate([arcs, arcs, np.arange(n_arcs)]),
                np.concatenate(
                    [n_parts + prices, n_parts + n_prices + prices, np.full(n_arcs, ratio)]
                ),
            ),
        ),
        shape=(n_arcs, n_variables),
    )
    from scipy.sparse import vstack

    least = np.zeros(n_variables)
    least[ratio] = 1.0
    found = linprog(
        least,
        vstack([covered, worst]).tocsr(),
        np.zeros(every.size + n_arcs),
        flow,
        right,
        method="highs",
    )
    if found.status != 0:
        raise ValueError(
            f"HiGHS found no split: {found.message}; do all switches with hosts reach each other?"
        )
    table = np.clip(found.x[:n_parts].reshape(n_pairs, n_arcs), 0.0, 1.0)
    return Oblivious(
        float(found.x[ratio]),
        PROGRAM,
        hose.node[one],
        hose.node[other],
        hose.source,
        hose.target,
        table,
    )
