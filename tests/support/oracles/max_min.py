"""What max-min fair means, said three times without the library: fractions, linear programs, a certificate.

A case is a list of rows; a row is a dict of link -> use. Capacities, weights and limits are lists.
"""

from fractions import Fraction

import numpy as np
from scipy.optimize import linprog


def by_fractions(rows, capacity, weight, limit):
    """Return exact rates (None for unbounded ones) by the textbook rule: raise all, freeze one link at a time."""
    private = {len(capacity) + r: Fraction(x) for r, x in enumerate(limit) if x != float("inf")}
    room = {**{i: Fraction(c) for i, c in enumerate(capacity)}, **private}
    uses = [
        {k: Fraction(u) * Fraction(w) for k, u in row.items() if u > 0}
        for row, w in zip(rows, weight, strict=True)
    ]
    for r, use in enumerate(uses):
        if len(capacity) + r in private:
            use[len(capacity) + r] = Fraction(weight[r])
    level = {}
    free = {r for r, use in enumerate(uses) if use}
    while free:
        load = {}
        for r in free:
            for k, u in uses[r].items():
                load[k] = load.get(k, 0) + u
        height, worst = min((room[k] / load[k], k) for k in load)
        for r in [r for r in free if worst in uses[r]]:
            level[r] = height
            free.remove(r)
            for k, u in uses[r].items():
                room[k] -= u * height
    return [level[r] * Fraction(w) if r in level else None for r, w in enumerate(weight)]


def by_linear_programming(rows, capacity, weight, limit):
    """Return rates by lexicographic optimisation: raise the least level, fix the rows that cannot go on, repeat."""
    n = len(rows)
    matrix = np.zeros((len(capacity), n))
    for r, row in enumerate(rows):
        for k, u in row.items():
            matrix[k, r] += u
    weight, fixed = np.asarray(weight, float), {}

    def best(goal, least):
        """Return the maximum of goal . (rates, level) when every open row has at least ``least`` times its weight."""
        low = [
            (fixed[r], fixed[r]) if r in fixed else (weight[r] * least, limit[r]) for r in range(n)
        ]
        if goal[-1]:  # the level itself is raised: rate >= weight x level
            above = np.hstack([-np.eye(n), weight[:, None]])[
                [r for r in range(n) if r not in fixed]
            ]
        else:
            above = np.zeros((0, n + 1))
        left = np.vstack([np.hstack([matrix, np.zeros((len(capacity), 1))]), above])
        right = np.concatenate([capacity, np.zeros(len(above))])
        tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        answer = linprog(
            -np.asarray(goal), left, right, bounds=[*low, (0, None)], method="highs", options=tight
        )
        assert answer.status == 0, answer.message
        return -answer.fun

    while len(fixed) < n:
        level = best([0.0] * n + [1.0], 0.0)
        slack = 1 - 1e-12  # what the level takes is left to rounding
        stuck = [
            r
            for r in range(n)
            if r not in fixed
            and best(np.eye(n + 1)[r], level * slack) <= weight[r] * level * (1 + 1e-7) + 1e-12
        ]
        assert stuck
        fixed |= {r: weight[r] * level for r in stuck}
    return [fixed[r] for r in range(n)]


def certificate(rows, capacity, weight, limit, rate):
    """Return the largest relative flaw: a link overloaded, or a row without a full link where no level is higher."""
    level = rate / np.asarray(weight)
    load, peak = np.zeros(len(capacity)), np.zeros(len(capacity))
    for r, row in enumerate(rows):
        for k, u in row.items():
            load[k] += u * rate[r]
            peak[k] = max(peak[k], level[r] if u > 0 else 0.0)
    capacity = np.asarray(capacity, float)
    scale = np.where(capacity > 0, capacity, 1.0)
    flaw = max(
        np.max((load - capacity) / scale, initial=0.0), np.max(rate / limit - 1, initial=0.0)
    )
    for r, row in enumerate(rows):
        reasons = [
            max((capacity[k] - load[k]) / scale[k], peak[k] / max(level[r], 1e-300) - 1)
            for k, u in row.items()
            if u > 0
        ]
        reasons.append((limit[r] - rate[r]) / limit[r] if np.isfinite(limit[r]) else np.inf)
        flaw = max(flaw, min(reasons))
    return flaw
