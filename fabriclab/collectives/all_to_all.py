"""All-to-all: every rank has a block for every other, and with skew they differ in size (all-to-all-v).

Block s n + t goes from rank s to rank t. The option ``traffic`` is a table (n, n) of the amount that each rank has for
each other, in any unit; the size of a run is then the largest buffer of a rank.

Expert parallelism is an all-to-all of tokens: the tokens of each rank go to the experts that a gate chose (dispatch)
and come back (combine). The high-throughput form sends one copy of a token along the rail to each server and forwards
it there over NVLink; in combine the forwarding GPU adds before it sends. The low-latency form sends one message per
token and choice directly to the expert's rank [1]_.

References
----------
.. [1] deepseek-ai/DeepEP, docs/legacy.md, 2025: normal kernels with forwarding, and low-latency kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.collectives.algorithm import Built, Costs, Steps, algorithm, each, server_size
from fabriclab.core import Fabric, Floats, Flows, Ints, StepGroup, frozen


def _table(n: Any, traffic: ArrayLike) -> Floats:
    """Return the traffic table as fractions of the size, (n, n)."""
    k = int(np.max(n))
    table = frozen(traffic, np.float64, "traffic")
    if table.shape != (k, k) or np.any(n != k):
        raise ValueError(
            f"traffic must be a table ({k}, {k}) of what each rank has for each, got shape {table.shape}"
        )
    if not np.all((table >= 0) & (table < np.inf)) or not table.any():
        raise ValueError(
            f"traffic must be >= 0, finite and not all 0, got {table.min():g} to {table.max():g}"
        )
    part: Floats = table / table.max()  # otherwise sums may overflow
    largest = max(part.sum(axis=0).max(), part.sum(axis=1).max())  # buffer of a rank
    return part / float(largest)


def _skewed(n: int, steps: Steps, traffic: ArrayLike | None) -> Built:
    """Return blocks, steps and, with skew, the parts of an all-to-all."""
    if traffic is None:
        return n * n, steps
    return n * n, steps, _table(n, traffic).ravel()


def _port(moved: Floats) -> float:
    """Return the traffic of the busiest port, given the traffic from each source to each target (..., n, n)."""
    return float(max(moved.sum(axis=-2).max(), moved.sum(axis=-1).max()))


def _others(n: int) -> NDArray[np.bool_]:
    """Return a table (n, n) that is True except on the diagonal."""
    return ~np.eye(n, dtype=np.bool_)


def _direct(n: Any, traffic: ArrayLike | None) -> Costs:
    """Return the costs of a single step with all messages."""
    if traffic is None:
        return n > 1, (n - 1) / n, 0
    sent = _table(n, traffic) * _others(int(n))
    return n > 1, _port(sent), 0


@algorithm("all_to_all.direct", _direct, per_pair=110)
def direct(n: int, root: int, *, traffic: ArrayLike | None = None) -> Built:
    """Send all blocks at the same time, as NCCL posts them: one step with n - 1 messages per rank."""
    source, target = np.nonzero(_others(n))
    step = StepGroup.make(source, target, source * n + target, reduce=False)
    return _skewed(n, (step,), traffic)


def _pairwise(n: Any, traffic: ArrayLike | None) -> Costs:
    """Return the costs of n - 1 steps with one message per rank."""
    if traffic is None:
        return n - 1, (n - 1) / n, 0
    table = _table(n, traffic)
    rank = np.arange(int(n))
    moved = 0
    for offset in range(1, rank.size):  # the largest message of each step
        moved += table[rank, (rank + offset) % rank.size].max()
    return n - 1, moved, 0


@algorithm("all_to_all.pairwise", _pairwise, per_pair=36)
def pairwise(n: int, root: int, *, traffic: ArrayLike | None = None) -> Built:
    """Send to the rank at distance 1, then 2, ..., with one message per port; with skew all wait for the largest."""
    rank = np.arange(n)
    steps = []
    for offset in range(1, n):
        target = (rank + offset) % n
        steps.append(StepGroup.make(rank, target, rank * n + target, reduce=False))
    return _skewed(n, tuple(steps), traffic)


def _hierarchical(n: Any, traffic: ArrayLike | None, per_server: int | None) -> Costs:
    """Return the costs of one step inside the servers and one step along the rails."""
    g = server_size(n, per_server, "all_to_all pairwise")
    m = n // g
    steps = 0
    if g > 1:
        steps += 1
    if m > 1:
        steps += 1
    if traffic is None:
        return steps, (g - 1) / g + (m - 1) / m, 0

    # axes: server of the source, its place there, server of the target, its place there
    table = _table(n, traffic).reshape(m, g, m, g)
    inside = table.sum(axis=2) * _others(g)  # (server, place, place of the target)
    between = table.sum(axis=1).transpose(2, 0, 1) * _others(m)  # (rail, server, server)
    return steps, _port(inside) + _port(between), 0


@algorithm("all_to_all.hierarchical", each(_hierarchical), per_pair=130)
def hierarchical(
    n: int, root: int, *, traffic: ArrayLike | None = None, per_server: int | None = None
) -> Built:
    """Send each block over NVLink to the local GPU on the target's rail, and from there along the rail (PXN).

    A NIC sends one message to each other server instead of one to each other GPU, and no traffic changes rails in the
    network. A server has ``per_server`` consecutive ranks; the largest divisor of n up to 8 unless given.

    References
    ----------
    .. [1] NVIDIA, Doubling all2all performance with NCCL 2.12, 2022 (PXN).
    """
    g = server_size(n, per_server, "all_to_all pairwise")
    source, target = (axis.ravel() for axis in np.indices((n, n)))
    block = source * n + target
    relay = source // g * g + target % g  # in the server of the source, on the rail of the target
    steps = []
    for begin, end in ((source, relay), (relay, target)):
        moves = begin != end
        if moves.any():
            steps.append(StepGroup.make(begin[moves], end[moves], block[moves], reduce=False))
    return _skewed(n, tuple(steps), traffic)


_FORMS = ("high_throughput", "low_latency")


def choose_experts(
    n_ranks: int, tokens: int, choices: int, *, popular: float = 1.0, seed: int = 0
) -> Ints:
    """Draw the experts that a random gate chooses for each token, (n_ranks, tokens, choices), with one expert per rank.

    The experts of a token differ. In each draw expert 0 is ``popular`` times as likely as any other expert. Leaves out
    what a trained gate does: preferences of a rank, and limits such as at most four servers per token.

    References
    ----------
    .. [1] W. Kool, H. van Hoof, M. Welling, ICML 2019 (the largest of perturbed logarithms of weights).
    """
    n = units.count(n_ranks, "n_ranks")
    k = units.count(choices, "choices", 1, n_ranks)
    if not 0 < popular < np.inf:
        raise ValueError(f"popular must be a finite factor > 0, got {popular!r}")
    shape = (n, units.count(tokens, "tokens"), n)
    score = np.random.default_rng(seed).gumbel(size=shape)  # the k largest are chosen
    score[..., 0] += np.log(popular)
    return np.asarray(np.argpartition(score, n - k, axis=-1)[..., n - k :])


def expected_tokens(n_ranks: int, tokens: int, *, popular: float = 1.0, copies: int = 1) -> Floats:
    """Return how many tokens each rank has on average for each other rank, (n_ranks, n_ranks), one choice per token.

    Rank r has expert r. A gate chooses expert 0 ``popular`` times as often as any other expert. If expert 0 has further
    copies, they stand on the ranks after it, beside the experts of those ranks, and all copies share its tokens
    equally. Tokens that stay on their rank are left out. Leaves out chance: `choose_experts` draws.

    Parameters
    ----------
    n_ranks : int
        Number of ranks, and of experts. >= 1
    tokens : int
        Number of tokens of each rank. >= 1
    popular : float
        How many times as often expert 0 is chosen as another expert. > 0
    copies : int
        Number of ranks that have expert 0. 1..n_ranks

    Raises
    ------
    TypeError, ValueError
        If a number is outside its range.

    Examples
    --------
    >>> expected_tokens(4, 100, popular=2).tolist()
    [[0.0, 20.0, 20.0, 20.0], [40.0, 0.0, 20.0, 20.0], [40.0, 20.0, 0.0, 20.0], [40.0, 20.0, 20.0, 0.0]]
    """
    n = units.count(n_ranks, "n_ranks")
    each = units.count(tokens, "tokens")
    holders = units.count(copies, "copies", 1, n)
    if not 0 < popular < np.inf:
        raise ValueError(f"popular must be a finite factor > 0, got {popular!r}")
    weight = np.ones(n)  # how often the experts of a rank are chosen
    weight[0] = 0.0
    weight[:holders] += popular / holders
    share = weight / weight.sum()
    return np.tile(each * share, (n, 1)) * _others(n)


def _one_target(rank: int, step: int, n: int) -> int:
    """Return the rank that all serve in a step."""
    return step


def _shifted(rank: int, step: int, n: int) -> int:
    """Return the rank that many further, back to 0 after the last."""
    return (rank + step) % n


def _swapped(rank: int, step: int, n: int) -> int:
    """Return the partner with whom a rank swaps blocks; n is a power of two."""
    return rank ^ step


_ORDERS: dict[str, Callable[[int, int, int], int]] = {
    "one target": _one_target,
    "shifted": _shifted,
    "swapped": _swapped,
}


def in_steps(table: ArrayLike, serve: str | Callable[[int, int, int], int]) -> list[Floats]:
    """Cut a table of traffic into steps, in each of which a rank serves one rank; return one table (n, n) for each.

    Parameters
    ----------
    table : array_like, shape (n, n)
        What each rank has for each other rank, in any unit.
    serve : callable or str
        ``serve(rank, step, n)`` returns the rank that ``rank`` serves in ``step``. Both count from 0, and there are n
        steps. ``"one target"``: all serve rank 0 first, then all rank 1; ``"shifted"``: the rank that is ``step``
        further; ``"swapped"``: the rank of the number ``rank ^ step``, which serves this one, for n a power of two.

    Raises
    ------
    TypeError, ValueError
        If the table is not square, or ``serve`` returns anything but a rank in 0..n - 1.

    Examples
    --------
    >>> [step.tolist() for step in in_steps([[0, 5], [7, 0]], "shifted")]
    [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 5.0], [7.0, 0.0]]]
    """
    traffic = np.asarray(table, dtype=np.float64)
    n = len(traffic) if traffic.ndim == 2 else 0
    if traffic.shape != (n, n) or n == 0:
        raise ValueError(f"table must be (n, n), got shape {traffic.shape}")
    if not callable(serve):
        serve = _ORDERS[units.choice(serve, "serve", _ORDERS)]
    steps = []
    for step in range(n):
        now = np.zeros((n, n))
        for rank in range(n):
            target = units.count(serve(rank, step, n), f"serve({rank}, {step}, {n})", 0, n - 1)
            now[rank, target] = traffic[rank, target]
        steps.append(now)
    return steps


def expert_tables(
    chosen: ArrayLike,
    form: str = "high_throughput",
    *,
    per_server: int | None = None,
    combine: bool = False,
) -> list[Ints]:
    """Return for each step of dispatch or combine how many tokens each rank sends to each other rank, (n, n).

    Tokens that stay on their rank are left out. Each table can be the ``traffic`` of an all-to-all. In the
    high-throughput form a step has as many messages as its table has entries above 0; in the low-latency form, as many
    as the sum of its table.

    Parameters
    ----------
    chosen : array_like of int, shape (n, tokens, choices)
        Ranks of the experts that the gate chose for each token of each rank.
    form : str
        ``"high_throughput"`` (two steps) or ``"low_latency"`` (one step).
    per_server : int, optional
        Number of consecutive ranks in a server; the largest divisor of n up to 8 unless given.
    combine : bool
        Whether to return the traffic back to the senders: the steps in reverse order, each in the opposite direction.

    Examples
    --------
    >>> [t.tolist() for t in expert_tables([[[1, 2, 3]], [[1, 1, 1]], [[2, 2, 2]], [[3, 3, 3]]], per_server=2)]
    [[[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]]
    """
    table = np.asarray(chosen)
    n = len(table)
    is_table = table.ndim == 3 and table.size and table.dtype.kind in "iu"
    if not is_table or np.any((table < 0) | (table >= n)):
        raise ValueError(
            f"chosen must be ranks 0..n - 1, shape (n, tokens, choices), got {table.dtype} {table.shape}"
        )
    g = server_size(n, per_server, "per_server=1")
    _, tokens, choices = table.shape

    token = np.repeat(np.arange(n * tokens), choices)  # token number of each choice
    target = table.ravel().astype(np.int64)
    hops = [(token // tokens, target)]
    if units.choice(form, "form", _FORMS) == "high_throughput":
        token, target = np.divmod(np.unique(token * n + target), n)  # a rank receives a token once
        # in the server of the target, on the rail of the source
        relay = target // g * g + token // tokens % g
        copied, server_entry = np.divmod(np.unique(token * n + relay), n)
        hops = [(copied // tokens, server_entry), (relay, target)]

    tables = []
    for source, end in hops:
        sent = np.bincount(source * n + end, minlength=n * n).reshape(n, n)
        tables.append(sent * _others(n))
    if units.flag(combine, "combine"):
        tables = [step.T for step in reversed(tables)]
    return tables


def _steps(tables: ArrayLike) -> Floats:
    """Return the tables of `expert_tables` as one array (steps, n, n), or refuse anything else."""
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
    """Turn `expert_tables` into flows between endpoints, with a barrier between steps.

    ``token`` is the size of a token [B], ``lag`` the software time of each message [s].
    """
    tokens = _steps(tables)
    units.count(tokens.shape[1], "ranks of tables", 1, fabric.n_ranks)
    step, source, target = np.nonzero(tokens)
    return Flows.make(
        fabric.endpoint[source],
        fabric.endpoint[target],
        tokens[tokens > 0] * units.size(token, "token"),
        lag=lag,
        group=step,
        repeat=np.ones(len(tokens), int),
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
    """Return the time of `expert_tables` [s]: each step takes ``alpha`` [s] and the time of its busiest port.

    The ports are NICs between servers and NVLink inside a server, which work at the same time. A step without tokens
    takes no time. Leaves out contention beyond the ports, and the message rate of a NIC.
    """
    table = _steps(tables)
    steps = [tokens for tokens in table if tokens.any()]
    n = table.shape[1]
    server = np.arange(n) // server_size(n, per_server, "per_server=1")
    inside = np.subtract.outer(server, server) == 0  # (n, n)
    nvlink_rate = units.rate(nvlink)
    nic_rate = units.rate(nic)

    spent = 0.0  # time per byte of a token [s/B]
    for tokens in steps:
        spent += max(_port(tokens * inside) / nvlink_rate, _port(tokens * ~inside) / nic_rate)
    return len(steps) * units.latency(alpha, "alpha") + spent * units.size(token, "token")


def expert_crossover(
    chosen: ArrayLike,
    token: units.Quantity,
    *,
    alpha: units.Quantity,
    nic: units.Quantity,
    nvlink: units.Quantity,
    per_server: int | None = None,
) -> float:
    """Return the number of tokens per rank above which the high-throughput form is faster; inf if it never is.

    Both times come from `expert_time`, with what that leaves out. Further tokens are assumed to choose their experts as
    the given ones do.
    """
    high, low = (expert_tables(chosen, form, per_server=per_server) for form in _FORMS)
    time = partial(
        expert_time, token=token, alpha=0.0, nic=nic, nvlink=nvlink, per_server=per_server
    )
    time_high = time(high)
    time_low = time(low)

    more_steps = _used(high) - _used(low)
    start = more_steps * units.latency(alpha, "alpha")  # extra time of the high-throughput form [s]
    gain = (time_low - time_high) / np.shape(chosen)[1]  # per token [s]
    return start / gain if gain > 1e-12 * time_low else np.inf  # less is rounding


def _used(tables: list[Ints]) -> int:
    """Return the number of steps that move any tokens."""
    return sum(bool(table.any()) for table in tables)
