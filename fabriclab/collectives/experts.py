"""Expert parallelism: the tokens of each rank go to the experts that a gate chose (dispatch) and come back (combine).

The high-throughput form sends one copy of a token to each server, over the rail, and forwards it over NVLink; in
combine that GPU adds first. The low-latency form sends a message per token and choice straight to its rank.

References
----------
.. [1] deepseek-ai/DeepEP, docs/legacy.md, 2025: normal kernels with forwarding, and low-latency kernels.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.collectives._algorithm import server_size
from fabriclab.collectives.all_to_all import _port
from fabriclab.core import Fabric, Flows

__all__ = ["expert_crossover", "expert_flows", "expert_tables"]

_FORMS: Final = ("high_throughput", "low_latency")


def expert_tables(
    chosen: ArrayLike, form: str = "high_throughput", *, per_server: int | None = None, combine: bool = False
) -> list[NDArray[np.int64]]:
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
    if table.ndim != 3 or not table.size or table.dtype.kind not in "iu" or np.any((table < 0) | (table >= n)):
        msg = f"chosen must be ranks within 0..n - 1, shape (n, tokens, choices), got {table.dtype} {table.shape}"
        raise ValueError(msg)
    units.one_of(form, "form", _FORMS)
    g, tokens = server_size(n, per_server, "per_server=1"), table.shape[1]
    token, to = np.indices((n * tokens, table.shape[2]))[0].ravel(), table.ravel().astype(np.int64)
    hops = [(token // tokens, to)]
    if form == "high_throughput":
        token, to = np.divmod(np.unique(token * n + to), n)  # a rank takes a token once
        relay = to // g * g + token // tokens % g  # in the server of the target, on the rail of the source
        copy, at = np.divmod(np.unique(token * n + relay), n)
        hops = [(copy // tokens, at), (relay, to)]
    tables = [np.bincount(a * n + b, minlength=n * n).reshape(n, n) * ~np.eye(n, dtype=np.bool_) for a, b in hops]
    return [t.T for t in reversed(tables)] if units.flag(combine, "combine") else tables


def expert_flows(fabric: Fabric, tables: ArrayLike, token: units.Quantity, lag: units.Quantity = 0.0) -> Flows:
    """Return `expert_tables` as flows between endpoints, with barriers; ``token`` [B], ``lag`` [s] of each message."""
    tokens = np.asarray(tables)
    step, source, target = np.nonzero(tokens)
    size, end = tokens[tokens > 0] * units.size(token, "token"), fabric.endpoint
    return Flows.make(end[source], end[target], size, lag=lag, group=step, repeat=np.ones(len(tokens), int))


def expert_crossover(
    chosen: ArrayLike, token: units.Quantity, *, alpha: units.Quantity, nic: units.Quantity, nvlink: units.Quantity,
    per_server: int | None = None,
) -> float:  # fmt: skip
    """Return from how many tokens per rank on the high-throughput form takes less time, inf if never.

    A step takes ``alpha`` [s] and what the busiest port passes: a NIC between servers, NVLink inside, at once. Further
    tokens are taken to choose as these do. Leaves out contention beyond the ports, and the rate of messages of a NIC.
    """
    n, tokens = np.shape(chosen)[:2]
    g, rates, steps, spent = server_size(n, per_server, "per_server=1"), (units.rate(nvlink), units.rate(nic)), [], []
    inside = np.subtract.outer(np.arange(n) // g, np.arange(n) // g) == 0
    for form in _FORMS:
        tables = [t for t in expert_tables(chosen, form, per_server=g) if t.any()]
        ports = [[_port(t * on) / rate for on, rate in zip((inside, ~inside), rates, strict=True)] for t in tables]
        steps.append(len(tables))
        spent.append(sum(map(max, ports)) * units.size(token, "token") / tokens)
    gain = spent[1] - spent[0]
    return (steps[0] - steps[1]) * units.latency(alpha, "alpha") / gain if gain > 0 else np.inf
