"""The derived rows of the running case, computed from the given rows.

`case.csv` has a formula for each of them but those of `_COMPUTED`. Numbers there: 2 bytes of a bf16 weight, 4
all-reduces in a layer (two forward, two backward), seconds of an hour and of a day. Letters in its sources:
P parameters, L layers, h hidden, V vocabulary, s sequence, b sequences of a micro-batch, m micro-batches, t and d the
tensor- and data-parallel groups.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.catalog.clos import Plan, rail_plan
from fabriclab.catalog.tables import data_rows
from fabriclab.formulas import evaluate

_SWEEP_BYTES = 2**27  # the row "134 MB" of the published sweeps


def last_finish(ready: ArrayLike, cost: ArrayLike) -> float:
    """Return when the last of several jobs ends that one server does in order.

    Parameters
    ----------
    ready, cost : array_like, shape (N,)
        When each job may start, and how long it takes. [s]

    Returns
    -------
    float
        max over i of ready[i] + cost[i] + ... + cost[N-1]. [s]
    """
    tail = np.cumsum(np.asarray(cost, dtype=float)[::-1])[::-1]
    return float(np.max(np.asarray(ready, dtype=float) + tail))


def _clos(c: Any) -> Plan:
    """Return the plan that the topology ``rail_optimised`` builds, in three tiers where two do not do.

    So the campus of 16,384 GPUs has 1,280 switches. The sheet the prices are from has 768: a network of two
    tiers for each rail, and nothing between rails, which is no full fat tree.
    """
    return rail_plan(c.servers, c.gpus_per_server, c.rails, c.switch_ports, c.switch_ports // 2)[0]


def _true_sizes(c: Any) -> float:
    """Return the exposed time with a bucket per layer and one for each table of the vocabulary."""
    table = c.vocabulary * c.hidden
    layer = (c.parameters - c.hidden - 2 * table) / c.layers
    size = np.array([table + c.hidden, *[layer] * c.layers, table])
    ready = c.window * np.array([0, *range(1, c.layers + 1), c.layers]) / c.layers
    return last_finish(ready, c.t_dp * size / size.sum()) - float(c.window)


def _published_time(sweep: str) -> float:
    from fabriclab.catalog import published

    return published.load(sweep).at(_SWEEP_BYTES)


def _over_network(c: Any) -> float:
    """Return the step with both sums on the NIC: gradients get it only while the GPU computes."""
    idle = c.t_compute * c.backward_share / c.microbatches
    return float(c.t_compute + c.tp_bytes / c.nic_rate + c.exposed(window=idle))


_COMPUTED: dict[str, Callable[[Any], float]] = {
    "steps": lambda c: round(c.training_tokens / c.tokens_per_step),
    "leaves": lambda c: _clos(c).switches[0],
    "spines": lambda c: _clos(c).switches[1],
    "cores": lambda c: _clos(c).switches[2],
    "cables_spine": lambda c: _clos(c).cables,
    "optic_twin_modules": lambda c: math.ceil((c.cables_host + 2 * c.cables_spine) / 2),
    "t_tp_h100_134MB_ring": lambda c: c.tp_allreduces * _published_time("h100x8_ring"),
    "t_tp_h100_134MB_nvls": lambda c: c.tp_allreduces * _published_time("h100x8_nvls"),
    "t_dp_exposed": lambda c: c.exposed(),
    "t_dp_exposed_14us": lambda c: c.exposed(step_latency=c.ring_step_latency),
    "t_dp_exposed_true_sizes": _true_sizes,
    "ledger_fp32_gradients": lambda c: c.replace(gradient_bytes=4).t_step,
    "ledger_one_nic_quarter": lambda c: c.replace(nic_rate=c.nic_rate / 4).t_step,
    "ledger_tp_over_network": _over_network,
    "ledger_half_rate": lambda c: c.replace(nic_rate=c.nic_rate / 2).t_step,
    "ledger_one_root": lambda c: c.t_compute + c.t_tp + c.exposed(t_dp=c.t_one_root),
}
FORMULAS = _COMPUTED | {r["key"]: partial(evaluate, r["formula"]) for r in data_rows("case") if r["formula"]}
