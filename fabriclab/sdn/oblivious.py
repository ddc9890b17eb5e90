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
_MOST_ENTRIES = 4000
CLOSED_FORM = "closed form of a Clos"
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
        ``"closed form of a Clos"`` or ``"linear program"``.
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
        return f"<Oblivious: fullest link at most at {100 * self.ratio:.4g}%, by {self.method}>"


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
    cables up, and no routes do better, since that traffic has to leave the leaf: closed form. Other fabrics are solved
    as a linear program by duality of the worst case [1]_, as long as they are small.

    Parameters
    ----------
    fabric : Fabric
        A network whose ranks hang on switches by one cable each.

    Raises
    ------
    TooLarge
        If the program would have more than 4,000 pairs of switches times links.
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
    <Oblivious: fullest link at most at 300%, by closed form of a Clos>
    """
    hose = _hose(fabric)
    if hose.node.size < 2:
        raise ValueError(
            "all hosts hang on one switch, so no link between switches is used; take two leaves or more"
        )
    found = _closed_form(hose)
    return _by_program(fabric, hose) if found is None else found


def _pairs(hose: _Hose) -> tuple[Ints, Ints]:
    """Return both ends of all pairs of switches with hosts, as numbers among them."""
    one, other = np.nonzero(~np.eye(hose.node.size, dtype=bool))
    return one, other


def _closed_form(hose: _Hose) -> Oblivious | None:
    """Return the answer for a Clos of two tiers with proportional cables, else None."""
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
    if not spines.size or not np.all(up.sum(axis=1) > 0):
        return None
    share = up / up.sum(axis=1, keepdims=True)  # (leaves, spines)
    same = np.allclose(share, share[0], rtol=1e-9, atol=0)
    if not same or not np.allclose(up, down, rtol=1e-9, atol=0):
        return None
    leaves = np.arange(hose.node.size)
    others_get = hose.gets.sum() - hose.gets
    others_send = hose.sends.sum() - hose.sends
    leaving = np.minimum(hose.sends, others_get) / up.sum(axis=1)
    coming = np.minimum(hose.gets, others_send) / down.sum(axis=1)
    ratio = float(max(leaving.max(), coming.max()))

    one, other = _pairs(hose)
    part = np.zeros((one.size, hose.source.size))
    for arc, (a, b) in enumerate(zip(hose.source.tolist(), hose.target.tolist(), strict=True)):
        if a in leaf:
            part[leaves[one] == leaf[a], arc] = share[leaf[a], spine[b]]
        else:
            part[leaves[other] == leaf[b], arc] = share[leaf[b], spine[a]]
    return Oblivious(
        ratio, CLOSED_FORM, hose.node[one], hose.node[other], hose.source, hose.target, part
    )


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
            f"the program has {n_pairs} pairs of switches and {n_arcs} links, at most {_MOST_ENTRIES} of their product "
            "are solved; take a smaller fabric, or a Clos of two tiers, which has a closed form"
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
