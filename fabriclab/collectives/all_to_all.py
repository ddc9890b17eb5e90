"""All-to-all: every rank has a block for every other, and with skew they differ in size (all-to-all-v).

Block s n + t goes from rank s to rank t. The option ``traffic`` is a table (n, n) of what each rank has for each,
in any unit: the size of a run is then the largest buffer of a rank.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.collectives._algorithm import Built, Costs, Steps, algorithm, each, server_size
from fabriclab.core import Floats, StepGroup, frozen


def _table(n: Any, traffic: ArrayLike) -> Floats:
    """Return the table of parts of the size, (n, n)."""
    k, table = int(np.max(n)), frozen(traffic, np.float64, "traffic")
    if table.shape != (k, k) or np.any(n != k):
        raise ValueError(f"traffic must be a table ({k}, {k}) of what each rank has for each, got shape {table.shape}")
    if not np.all((table >= 0) & (table < np.inf)) or not table.any():
        raise ValueError(f"traffic must be >= 0, finite and not all 0, got {table.min():g} to {table.max():g}")
    part: Floats = table / table.max()  # else sums may overflow
    return part / float(max(part.sum(axis=0).max(), part.sum(axis=1).max()))


def _skewed(n: int, steps: Steps, traffic: ArrayLike | None) -> Built:
    return (n * n, steps) if traffic is None else (n * n, steps, _table(n, traffic).ravel())


def _port(moved: Floats) -> float:
    """Return what the busiest port passes, of what goes from each to each (..., sources, targets)."""
    return float(max(moved.sum(axis=-2).max(), moved.sum(axis=-1).max()))


def _direct(n: Any, traffic: ArrayLike | None, *, alone: bool = False) -> Costs:
    if traffic is None:
        return n > 1, (n > 1) / n if alone else (n - 1) / n, 0
    others = _table(n, traffic) * ~np.eye(int(n), dtype=np.bool_)
    return n > 1, others.max() if alone else _port(others), 0


@algorithm("all_to_all.direct", _direct, alone=partial(_direct, alone=True), per_pair=110)
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
    return _skewed(n, tuple(StepGroup.make(rank, t, rank * n + t, reduce=False) for t in ends), traffic)


def _hierarchical(n: Any, traffic: ArrayLike | None, per_server: int | None, *, alone: bool = False) -> Costs:
    g = server_size(n, per_server, "all_to_all pairwise")
    m = n // g
    inside, between = ~np.eye(g, dtype=np.bool_), ~np.eye(m, dtype=np.bool_)
    steps = (g > 1) + (m > 1)
    if traffic is None:
        return steps, steps / n if alone else (g - 1) / g + (m - 1) / m, 0
    table = _table(n, traffic).reshape(m, g, m, g)  # server and place of the source, of the target
    if alone:
        ways = table.transpose(0, 2, 1, 3) * inside, table.transpose(1, 3, 0, 2) * between
        return steps, sum(float(w.max()) for w in ways), 0
    return steps, _port(table.sum(axis=2) * inside) + _port(table.sum(axis=1).transpose(2, 0, 1) * between), 0


@algorithm("all_to_all.hierarchical", each(_hierarchical), alone=each(partial(_hierarchical, alone=True)), per_pair=130)
def hierarchical(n: int, root: int, *, traffic: ArrayLike | None = None, per_server: int | None = None) -> Built:
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
    steps = [StepGroup.make(a[on], b[on], (source * n + target)[on], reduce=False) for a, b, on in hops if on.any()]
    return _skewed(n, tuple(steps), traffic)
