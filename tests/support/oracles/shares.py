"""Shares of the direct way and the detour, found without `routing.settle`: the best, the cheapest, and what is left."""

import numpy as np
from scipy.optimize import linprog, minimize

from fabriclab import routing
from fabriclab.core._arrays import rows_of


def load(fabric, flows, routes):
    return routes.link_bytes(flows, fabric.n_links)


def both_ways(fabric, flows):
    """Return what each flow puts on each link by the direct way, and by the detour, (2, L, F)."""
    table = np.zeros((2, fabric.n_links, flows.n_flows))
    for of_way, method in zip(table, ("minimal", "valiant"), strict=True):
        routes = routing.route(fabric, flows, method)
        np.add.at(of_way, (routes.link, routes.flow[rows_of(routes.ptr)]), routes.use)
    return table


def best_possible(fabric, flows):
    """Return the least load of the fullest link for any shares of the direct way and the detour, by linear program."""
    n = flows.n_flows
    rows = np.hstack([*both_ways(fabric, flows), -np.ones((fabric.n_links, 1))])
    whole = np.hstack([np.eye(n), np.eye(n), np.zeros((n, 1))])
    cost = np.append(np.zeros(2 * n), 1)
    return linprog(cost, A_ub=rows, b_ub=np.zeros(fabric.n_links), A_eq=whole, b_eq=np.ones(n)).fun


def price(load):
    """Return what a link costs at a load, in flows that each fill it, as `routing.settle` says."""
    return 3 + load**8


def potential(load):
    """Return the integral of `price` over all links, which is least where no flow gains by another way (Beckmann)."""
    return np.sum(3 * load + load**9 / 9)


def least_cost(fabric, flows):
    """Return the loads (L,) of the shares of the direct way and the detour with the least potential."""
    direct, detour = both_ways(fabric, flows)

    def asked(share):
        at = direct @ share + detour @ (1 - share)
        return potential(at), price(at) @ (direct - detour)

    exact = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000}
    half, bounds = np.full(flows.n_flows, 0.5), [(0, 1)] * flows.n_flows
    share = minimize(asked, half, jac=True, bounds=bounds, method="L-BFGS-B", options=exact).x
    return direct @ share + detour @ (1 - share)


def left_to_gain(fabric, flows, routes, ways, local):
    """Return what the traffic on ``routes`` could gain if each flow took the cheapest row of ``ways``."""
    at = load(fabric, flows, routes)

    def paid(of):
        out = np.zeros(of.n_rows)
        for row, flow in enumerate(of.flow):
            links, use = of.row(row), of.use[of.ptr[row] : of.ptr[row + 1]]
            # All that a switch sees by itself: its own links, on the way of so many.
            seen = (
                fabric.source[links] == fabric.target[fabric.source == flows.source[flow]]
                if local
                else True
            )
            out[row] = np.sum(use * price(at[links]) * seen) * (use.sum() if local else 1)
        return out ** (1 / 8)

    now, least = np.sum(routes.share * paid(routes)), np.full(flows.n_flows, np.inf)
    for of in ways:
        np.minimum.at(least, of.flow, paid(of))
    return 1 - least[np.unique(routes.flow)].sum() / now
