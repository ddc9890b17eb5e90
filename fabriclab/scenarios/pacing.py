"""Senders that know their fair share, and never send faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fabriclab import units
from fabriclab.engines.flow import max_min_rates
from fabriclab.scenarios.scenario import Scenario

__all__ = ["paced"]


def paced(scenario: Scenario, share: float = 1.0) -> Scenario:
    """Return a scenario whose senders are paced at their max-min fair rates.

    The rates are those of a moment in which all flows run, each on the path that the hash chose. Whoever computes them
    must know all flows and links, as the controller of a network may; they are not raised again when a flow has ended.
    Rates count headers and gaps.

    Parameters
    ----------
    scenario : Scenario
        Whose flows all start at once.
    share : float
        Part of the fair rate at which each flow is sent. 0..1, without 0
    """
    if not (units.is_number(share) and 0 < share <= 1):
        raise ValueError(f"share must be within 0..1, without 0, got {share!r}")
    routes = scenario.routes
    rates = max_min_rates(routes.ptr, routes.link, scenario.fabric.capacity)
    per_flow = np.bincount(routes.flow, rates, scenario.flows.n_flows)
    moves = per_flow > 0
    limit = np.where(moves, share * per_flow, np.inf)
    flows = replace(scenario.flows, limit=np.minimum(limit, scenario.flows.limit))
    return replace(scenario, flows=flows)
