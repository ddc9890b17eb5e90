"""All-to-all: every rank has a block for every other, and with skew they differ in size (all-to-all-v).

Block s n + t goes from rank s to rank t. The option ``traffic`` is a table (n, n) of what each rank has for each,
in any unit: the size of a run is then the largest buffer of a rank.

Expert parallelism is the same with tokens: those of each rank go to the experts that a gate chose (dispatch) and come
back (combine). The high-throughput form sends one copy of a token to each server, over the rail, and forwards it over
NVLink; in combine that GPU adds first. The low-latency form sends a message per token and choice straight to its rank
[1]_.

References
----------
.. [1] deepseek-ai/DeepEP, docs/legacy.md, 2025: normal kernels with forwarding, and low-latency kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.collectives.algorithm import Built, Costs, Steps, algorithm, each, server_size
from fabriclab.core import Fabric, Floats, Flows, Ints, StepGroup, frozen


def _table(n: Any, traffic: ArrayLike) -> Floats:
    """Return the table of parts of the size, (n, n)."""
    k, table = int(np.max(n)), frozen(traffic, np.float64, "traffic")
    if table.shape != (k, k) or np.any(n != k):
        raise ValueError(
            f"traffic must be a table ({k}, {k}) of what each rank has for each, got shape {table.shape}"
        )
    if not np.all((table >= 0) & (table < np.inf)) or not table.any():
        raise ValueError(
            f"traffic must be >= 0, finite and not all 0, got {table.min():g} to {table.max():g}"
        )
    part: Floats = table / table.max()  # else sums may overflow
    return part / float(max(part.sum(axis=0).max(), part.sum(axis=1).max()))


def _skewed(n: int, steps: Steps, traffic: ArrayLike | None) -> Built:
    return (n * n, steps) if traffic is None else (n * n, steps, _table(n, traffic).ravel())


def _port(moved: Floats) -> float:
    """Return what the busiest port passes, of what goes from each to each (..., sources, targets)."""
    return float(max(moved.sum(axis=-2).max(), moved.sum(axis=-1).max()))


def _direct(n: Any, traffic: ArrayLike | None) -> Costs:
    if traffic is None:
        return n > 1, (n - 1) / n, 0
    return n > 1, _port(_table(n, traffic) * ~np.eye(int(n), dtype=np.bool_)), 0


@algorithm("all_to_all.direct", _direct, per_pair=110)
def direct(n: int, root: int, *, traffic: ArrayLike | None = None) -> Built:
    """Send all blocks at once, as NCCL posts them: one step, n - 1 messages per rank."""
    source, target = np.nonzero(~np.eye(n, dtype=np.bool_))
    return _skewed(n, (StepGroup.make(source, target, source * n + target, reduce=False),), traffic)


def _pairwise(n: Any, traffic: ArrayLike | None) -> Costs:
    if traffic is None:
        return n - 1, (n - 1) / n, 0
    table, rank = _table(n, traffic), np.arange(int(n))
    return n - 1, sum(table[rank, (rank + k) % rank.size].max() for k in range(1, rank.size)), 0


@algorithm("all_to_all.pairwise", _pairwise, per_pair=36)
def pairwise(n: int, root: int, *, traffic: ArrayLike | None = None) -> Built:
    """Send to the rank at distance 1, then 2, ...: each port has one message at a time; with skew all wait for one."""
    rank = np.arange(n)
    ends = [(rank + k) % n for k in range(1, n)]
    return _skewed(
        n, tuple(StepGroup.make(rank, t, rank * n + t, reduce=False) for t in ends), traffic
    )


def _hierarchical(n: Any, traffic: ArrayLike | None, per_server: int | None) -> Costs:
    g = server_size(n, per_server, "all_to_all pairwise")
    m = n // g
    inside, between = ~np.eye(g, dtype=np.bool_), ~np.eye(m, dtype=np.bool_)
    steps = (g > 1) + (m > 1)
    if traffic is None:
        return steps, (g - 1) / g + (m - 1) / m, 0
    table = _table(n, traffic).reshape(m, g, m, g)  # server and place of the source, of the target
    return (
        steps,
        _port(table.sum(axis=2) * inside) + _port(table.sum(axis=1).transpose(2, 0, 1) * between),
        0,
    )


@algorithm("all_to_all.hierarchical", each(_hierarchical), per_pair=130)
def hierarchical(
    n: int, root: int, *, traffic: ArrayLike | None = None, per_server: int | None = None
) -> Built:
    """Hand each block over NVLink to the GPU on the rail of its target, then send along the rails only (PXN).

    A NIC sends one message to each other server instead of one to each other GPU, and no rail meets another. Servers
    have ``per_server`` ranks that follow each other, up to 8 unless given.

    References
    ----------
    .. [1] NVIDIA, Doubling all2all performance with NCCL 2.12, 2022 (PXN).
    """
    g = server_size(n, per_server, "all_to_all pairwise")
    source, target = (x.ravel() for x in np.indices((n, n)))
    relay = source // g * g + target % g  # in the server of the source, on the rail of the target
    hops = [(a, b, a != b) for a, b in ((source, relay), (relay, target))]
    steps = [
        StepGroup.make(a[on], b[on], (source * n + target)[on], reduce=False)
        for a, b, on in hops
        if on.any()
    ]
    return _skewed(n, tuple(steps), traffic)


_FORMS = ("high_throughput", "low_latency")


def choose_experts(
    n_ranks: int, tokens: int, choices: int, *, popular: float = 1.0, seed: int = 0
) -> Ints:
    """Return the experts that a random gate chooses for each token, (n_ranks, tokens, choices), one expert per rank.

    Those of a token differ; expert 0 is ``popular`` times as likely as each other one to be drawn next. Leaves out
    what a trained gate does: likings of a rank, and limits such as at most four servers for a token.

    References
    ----------
    .. [1] W. Kool, H. van Hoof, M. Welling, ICML 2019 (the largest of perturbed logarithms of weights).
    """
    n, k = units.count(n_ranks, "n_ranks"), units.count(choices, "choices", 1, n_ranks)
    if not 0 < popular < np.inf:
        raise ValueError(f"popular must be a finite factor > 0, got {popular!r}")
    score = np.random.default_rng(seed).gumbel(size=(n, units.count(tokens, "tokens"), n))
    score[..., 0] += np.log(popular)
    return np.asarray(np.argpartition(score, n - k, axis=-1)[..., n - k :])


def expert_tables(
    chosen: ArrayLike,
    form: str = "high_throughput",
    *,
    per_server: int | None = None,
    combine: bool = False,
) -> list[Ints]:
    """Return for each step how many tokens each rank sends to each, (n, n); those that stay are left out.

    Either is a ``traffic`` of an all-to-all. The messages of a step are its entries above 0 in the high-throughput
    form, and its sum in the low-latency form.

    Parameters
    ----------
    chosen : array_like of int, shape (n, tokens, choices)
        The rank of each expert that the gate chose for a token of a rank.
    form : str
        ``"high_throughput"`` (two steps) or ``"low_latency"`` (one).
    per_server : int, optional
        Ranks of a server, which follow each other; as many as divide n, up to 8, unless given.
    combine : bool
        The way back: the steps in reverse order, each the other way.

    Examples
    --------
    >>> [t.tolist() for t in expert_tables([[[1, 2, 3]], [[1, 1, 1]], [[2, 2, 2]], [[3, 3, 3]]], per_server=2)]
    [[[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]]
    """
    table = np.asarray(chosen)
    n = len(table)
    if (
        table.ndim != 3
        or not table.size
        or table.dtype.kind not in "iu"
        or np.any((table < 0) | (table >= n))
    ):
        raise ValueError(
            f"chosen must be ranks 0..n - 1, shape (n, tokens, choices), got {table.dtype} {table.shape}"
        )
    g, tokens = server_size(n, per_server, "per_server=1"), table.shape[1]
    token, to = np.indices((n * tokens, table.shape[2]))[0].ravel(), table.ravel().astype(np.int64)
    hops = [(token // tokens, to)]
    if units.choice(form, "form", _FORMS) == "high_throughput":
        token, to = np.divmod(np.unique(token * n + to), n)  # a rank takes a token once
        # in the server of the target, on the rail of the source
        relay = to // g * g + token // tokens % g
        copy, at = np.divmod(np.unique(token * n + relay), n)
        hops = [(copy // tokens, at), (relay, to)]
    tables = [
        np.bincount(a * n + b, minlength=n * n).reshape(n, n) * ~np.eye(n, dtype=np.bool_)
        for a, b in hops
    ]
    return [t.T for t in reversed(tables)] if units.flag(combine, "combine") else tables


def _steps(tables: ArrayLike) -> Floats:
    """Return `expert_tables` as one array (steps, n, n), or refuse what is none."""
    steps = frozen(tables, np.float64, "tables")
    if (
        not steps.size
        or steps.shape[1:] != steps.shape[-1:] * 2
        or not np.all((steps >= 0) & (steps < np.inf))
    ):
        raise ValueError(
            f"tables must be tokens >= 0 of shape (steps, n, n), got {steps.shape} of {tables!r:.60}"
        )
    return steps


def expert_flows(
    fabric: Fabric, tables: ArrayLike, token: units.Quantity, lag: units.Quantity = 0.0
) -> Flows:
    """Return `expert_tables` as flows between endpoints, with barriers; ``token`` [B], ``lag`` [s] of each message."""
    tokens = _steps(tables)
    units.count(tokens.shape[1], "ranks of tables", 1, fabric.n_ranks)
    step, source, target = np.nonzero(tokens)
    size, end = tokens[tokens > 0] * units.size(token, "token"), fabric.endpoint
    return Flows.make(
        end[source], end[target], size, lag=lag, group=step, repeat=np.ones(len(tokens), int)
    )


def expert_time(
    tables: ArrayLike,
    token: units.Quantity,
    *,
    alpha: units.Quantity,
    nic: units.Quantity,
    nvlink: units.Quantity,
    per_server: int | None = None,
) -> float:
    """Return the time of `expert_tables` [s]: a step takes ``alpha`` [s] and what its busiest port passes.

    That is a NIC between servers, or NVLink inside, at once. A step without tokens takes none. Leaves out contention
    beyond the ports, and the rate of messages of a NIC.
    """
    table = _steps(tables)
    steps, n = [t for t in table if t.any()], table.shape[1]
    server = np.arange(n) // server_size(n, per_server, "per_server=1")
    inside, rates = np.subtract.outer(server, server) == 0, (units.rate(nvlink), units.rate(nic))
    spent = [
        max(_port(t * on) / rate for on, rate in zip((inside, ~inside), rates, strict=True))
        for t in steps
    ]
    return len(steps) * units.latency(alpha, "alpha") + sum(spent) * units.size(token, "token")


def expert_crossover(
    chosen: ArrayLike,
    token: units.Quantity,
    *,
    alpha: units.Quantity,
    nic: units.Quantity,
    nvlink: units.Quantity,
    per_server: int | None = None,
) -> float:
    """Return from how many tokens per rank on the high-throughput form takes less time, inf if never.

    By `expert_time`, with what it leaves out. Further tokens are taken to choose as these do.
    """
    found = [expert_tables(chosen, form, per_server=per_server) for form in _FORMS]
    spent = [
        expert_time(t, token, alpha=0.0, nic=nic, nvlink=nvlink, per_server=per_server)
        for t in found
    ]
    more = sum(bool(t.any()) for t in found[0]) - sum(bool(t.any()) for t in found[1])
    start, gain = more * units.latency(alpha, "alpha"), (spent[1] - spent[0]) / np.shape(chosen)[1]
    return start / gain if gain > 1e-12 * spent[1] else np.inf  # less is rounding
