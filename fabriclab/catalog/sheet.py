"""The derived rows of the running case, one formula a line, computed from the given rows.

Letters of the formulas in `case.csv`: P parameters, L layers, h hidden, V vocabulary, s sequence,
b sequences of a micro-batch, m micro-batches, t and d the tensor- and data-parallel groups.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.catalog.clos import Plan, rail_plan

__all__ = ["FORMULAS", "last_finish"]

_HOUR: Final = 3600.0
_DAY: Final = 86400.0
_WEIGHT_BYTES: Final = 2  # a bf16 weight
_TP_SUMS_PER_LAYER: Final = 4  # all-reduces: two forward, two backward
_SWEEP_BYTES: Final = 2**27  # the row "134 MB" of the published sweeps


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


def _layer(c: Any) -> Any:
    heads = 2 * c.hidden * c.heads * c.head_dim + 2 * c.hidden * c.kv_heads * c.head_dim
    return heads + 3 * c.hidden * c.feed_forward + 2 * c.hidden


def _clos(c: Any) -> Plan:
    """Return the plan that the topology ``rail_optimised`` builds, in three tiers where two do not do.

    So the campus of 16,384 GPUs has 1,280 switches. The sheet the prices are from has 768: a network of two
    tiers for each rail, and nothing between rails, which is no full fat tree.
    """
    return rail_plan(c.servers, c.gpus_per_server, c.rails, c.switch_ports, c.switch_ports // 2)[0]


def _true_sizes(c: Any) -> float:
    """Return the exposed time with a bucket per layer and one for each table of the vocabulary."""
    table = c.vocabulary * c.hidden
    size = np.array([table + c.hidden, *[_layer(c)] * c.layers, table], dtype=float)
    ready = c.window * np.array([0, *range(1, c.layers + 1), c.layers]) / c.layers
    return last_finish(ready, c.t_dp * size / size.sum()) - float(c.window)


def _published_time(sweep: str) -> float:
    from fabriclab.catalog import published

    return published.load(sweep).at(_SWEEP_BYTES)


def _over_network(c: Any) -> float:
    """Return the step with both sums on the NIC: gradients get it only while the GPU computes."""
    idle = c.t_compute * c.backward_share / c.microbatches
    return float(c.t_compute + c.tp_bytes / c.nic_rate + c.exposed(window=idle))


def _host_optics(c: Any) -> Any:
    return c.optic_nic_side + c.optic_twin_port / 2


FORMULAS: Final[dict[str, Callable[[Any], float]]] = {
    "parameters": lambda c: c.layers * _layer(c) + 2 * c.vocabulary * c.hidden + c.hidden,
    "gpus": lambda c: c.servers * c.gpus_per_server,
    "tokens_per_step": lambda c: c.dp * c.microbatches * c.microbatch_sequences * c.sequence,
    "steps": lambda c: round(c.training_tokens / c.tokens_per_step),
    "flop_per_step": lambda c: (6 * c.parameters + 6 * c.layers * c.hidden * c.sequence) * c.tokens_per_step,
    "leaves": lambda c: _clos(c).switches[0],
    "spines": lambda c: _clos(c).switches[1],
    "cores": lambda c: _clos(c).switches[2],
    "switches": lambda c: c.leaves + c.spines + c.cores,
    "cables_host": lambda c: c.gpus,
    "cables_spine": lambda c: _clos(c).cables,
    "optic_twin_modules": lambda c: math.ceil((c.cables_host + 2 * c.cables_spine) / 2),
    "optics_power": lambda c: c.gpus * c.optic_nic_side + c.optic_twin_modules * c.optic_twin_port,
    "optics_power_rails_copper": lambda c: c.optics_power - c.gpus / c.rails * _host_optics(c),
    "optics_power_leaf_per_rack": lambda c: c.optics_power - c.gpus * _host_optics(c),
    "memory_unsharded": lambda c: (c.gradient_bytes + c.checkpoint_bytes_per_parameter) * c.parameters / c.tp,
    "memory_zero1": lambda c: (
        (_WEIGHT_BYTES + c.gradient_bytes + (c.checkpoint_bytes_per_parameter - _WEIGHT_BYTES) / c.dp)
        * c.parameters
        / c.tp
    ),
    "memory_activations": lambda c: 34 * c.sequence * c.microbatch_sequences * c.hidden / c.tp * c.layers,
    "t_compute": lambda c: c.flop_per_step / (c.gpus * c.sustained_bf16),
    "tp_message": lambda c: c.sequence * c.microbatch_sequences * c.hidden * _WEIGHT_BYTES,
    "tp_allreduces": lambda c: _TP_SUMS_PER_LAYER * c.layers * c.microbatches,
    "tp_bytes": lambda c: c.tp_allreduces * c.tp_message * 2 * (c.tp - 1) / c.tp,
    "t_tp": lambda c: c.tp_bytes / c.tp_busbw,
    "t_tp_h100_134MB_ring": lambda c: c.tp_allreduces * _published_time("h100x8_ring"),
    "t_tp_h100_134MB_nvls": lambda c: c.tp_allreduces * _published_time("h100x8_nvls"),
    "dp_gradients": lambda c: c.gradient_bytes * c.parameters / c.tp,
    "dp_bytes": lambda c: 2 * (c.dp - 1) / c.dp * c.dp_gradients,
    "t_dp": lambda c: c.dp_bytes / c.nic_rate,
    "window": lambda c: (c.t_compute * c.backward_share + c.t_tp / 2) / c.microbatches,
    "nic_break_even": lambda c: c.dp_bytes / c.window,
    "t_dp_exposed": lambda c: c.exposed(),
    "t_dp_exposed_14us": lambda c: c.exposed(step_latency=c.ring_step_latency),
    "t_dp_exposed_true_sizes": _true_sizes,
    "t_step": lambda c: c.t_compute + c.t_tp + c.t_dp_exposed,
    "mfu": lambda c: c.flop_per_step / (c.gpus * c.peak_bf16 * c.t_step),
    "run_hours": lambda c: c.steps * c.t_step / _HOUR,
    "price_cables": lambda c: c.servers * c.price_cables_per_server * (1 + c.cables_spine / c.cables_host) / 2,
    "price_fabric": lambda c: c.switches * c.price_switch + c.price_cables,
    "price_total": lambda c: c.servers * (c.price_server + c.price_facility_per_server) + c.price_fabric,
    "price_gpu_hour": lambda c: c.price_total / (c.gpus * c.lifetime / _HOUR),
    "price_run": lambda c: c.price_gpu_hour * c.gpus * c.run_hours,
    "fabric_share": lambda c: c.price_fabric / c.price_total,
    "mtbf": lambda c: c.llama3_days * _DAY / c.llama3_interruptions * c.llama3_gpus / c.gpus,
    "interruptions": lambda c: c.run_hours * _HOUR / c.mtbf,
    "checkpoint_bytes": lambda c: c.checkpoint_bytes_per_parameter * c.parameters,
    "ledger_fp32_gradients": lambda c: c.replace(gradient_bytes=4).t_step,
    "ledger_no_overlap": lambda c: c.t_compute + c.t_tp + c.t_dp,
    "ledger_one_nic_quarter": lambda c: c.replace(nic_rate=c.nic_rate / 4).t_step,
    "ledger_tp_over_network": _over_network,
    "ledger_half_rate": lambda c: c.replace(nic_rate=c.nic_rate / 2).t_step,
    "ledger_one_root": lambda c: c.t_compute + c.t_tp + c.exposed(t_dp=c.t_one_root),
    "t_one_root": lambda c: 2 * (c.dp - 1) * c.dp_gradients / c.nic_rate,
}
