"""Lesson 25: bytes that change rail, and circuits for a traffic matrix."""

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any, NamedTuple

import numpy as np

from fabriclab import catalog, circuits, units
from fabriclab.core import Flags, Floats
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    called,
    compared,
    name_of,
    wrong,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.workload import layouts, models, volumes

Relayed = Callable[[Floats, int], Any]  # traffic between GPUs, GPUs of a server -> share of bytes
Place = Callable[[Floats, int], Any]  # traffic between servers, fibres of a server -> pairs
Pair = tuple[int, int]

# Bytes that change rail --------------------------------------------------------------------------


class Job(NamedTuple):
    """A job whose traffic is tried, by the key of its name in words, and how many GPUs a server has."""

    name: str
    model: str
    layout: dict[str, Any]
    per_server: int


# illustrative: jobs of 128 GPUs, a power of two that is small enough for a loop over all pairs
_JOBS: Sequence[Job] = (
    Job("trace.relay_course", "Llama 3 70B", {"tp": 8, "dp": 16}, 8),
    Job("trace.relay_data", "Llama 3 8B", {"tp": 1, "dp": 128}, 8),
    Job("trace.relay_experts", "Qwen3 30B A3B", {"tp": 1, "dp": 128, "ep": 32}, 8),
    Job("trace.relay_wide", "Llama 3 70B", {"tp": 16, "dp": 8}, 8),
    Job("trace.relay_four", "Llama 3 70B", {"tp": 8, "dp": 16}, 4),
)


@cache
def _sent(model: str, layout: tuple[tuple[str, Any], ...]) -> Floats:
    """Return the bytes that each GPU of a job sends to each other in a step, (R, R). [B]."""
    divided = layouts.of_case(catalog.case(), **dict(layout))
    ledger = volumes.volumes(models.preset(model), divided)
    return ledger.traffic().matrix(divided.ranks)


def relay_cases() -> dict[str, tuple[Floats, int]]:
    """Return the traffic of each job and the GPUs of its servers, by its name in words."""
    found = {}
    for job in _JOBS:
        name = text(job.name)
        found[name] = (_sent(job.model, tuple(job.layout.items())), job.per_server)
    return found


def _ends(traffic: Floats, per_server: int) -> tuple[Flags, Flags]:
    """Return which pairs are in two servers, and which are on two rails, (R, R) each."""
    rank = np.arange(len(traffic))
    server = rank // per_server
    rail = rank % per_server
    return server[:, None] != server, rail[:, None] != rail


def relayed(traffic: Floats, per_server: int) -> float:
    """Return the share of the bytes between servers that change rail."""
    two_servers, two_rails = _ends(traffic, per_server)
    return float(traffic[two_servers & two_rails].sum() / traffic[two_servers].sum())


def _of_all_bytes(traffic: Floats, per_server: int) -> float:
    two_servers, two_rails = _ends(traffic, per_server)
    return float(traffic[two_servers & two_rails].sum() / traffic.sum())


def _rail_forgotten(traffic: Floats, per_server: int) -> float:
    two_servers, _ = _ends(traffic, per_server)
    return float(traffic[two_servers].sum() / traffic.sum())


def _stays_on_its_rail(traffic: Floats, per_server: int) -> float:
    return 1 - relayed(traffic, per_server)


def _inside_counted(traffic: Floats, per_server: int) -> float:
    _, two_rails = _ends(traffic, per_server)
    return float(traffic[two_rails].sum() / traffic.sum())


def _inside_in_the_share(traffic: Floats, per_server: int) -> float:
    two_servers, two_rails = _ends(traffic, per_server)
    return float(traffic[two_rails].sum() / traffic[two_servers].sum())


def _pairs_counted(traffic: Floats, per_server: int) -> float:
    return relayed(np.array(traffic > 0, dtype=np.float64), per_server)


def _always_eight(traffic: Floats, per_server: int) -> float:
    return relayed(traffic, 8)


def _server_and_rail_swapped(traffic: Floats, per_server: int) -> float:
    two_rails, two_servers = _ends(traffic, per_server)
    return float(traffic[two_servers & two_rails].sum() / traffic[two_servers].sum())


# What somebody with a mistake returns, by its name.
RELAY_MISTAKES: dict[str, Callable[[Floats, int], float]] = {
    "share of all bytes": _of_all_bytes,
    "rail forgotten": _rail_forgotten,
    "share that stays on its rail": _stays_on_its_rail,
    "bytes inside a server counted": _inside_counted,
    "bytes inside a server in the share": _inside_in_the_share,
    "pairs for bytes": _pairs_counted,
    "always eight GPUs": _always_eight,
    "server and rail swapped": _server_and_rail_swapped,
}


@register("check", "25-write-relay")
def needs_relay(answer: Relayed) -> Verdict:
    """Run ``answer(traffic, per_server)`` on the traffic of several jobs."""

    @wraps(answer)
    def on_a_copy(traffic: Floats, per_server: int) -> Any:
        """Call the learner's function, which may write into what it gets."""
        return answer(traffic.copy(), per_server)

    return compared("25-write-relay", on_a_copy, relay_cases(), relayed, RELAY_MISTAKES, _percent)


def _percent(share: float) -> str:
    """Write a share in per cent."""
    return f"{share:.4g} ({units.format_share(share, 1)})"


# Circuits for a traffic matrix --------------------------------------------------------------------


class Demand(NamedTuple):
    """Traffic between servers for which circuits are placed."""

    name: str
    traffic: Floats
    fibres: int


class Network(NamedTuple):
    """What became of placed circuits: a mistake in them, or the mean hops of a byte, infinite if some cannot arrive."""

    mistake: str
    said: str
    hops: float


def _one_way(seed: int) -> Floats:
    """Return traffic of a ring that sends to the next host only. [%]."""
    both = circuits.ring_with_partners(seed=seed)
    neighbour = both.max()
    order = np.random.default_rng(seed).permutation(len(both))
    next_one = np.roll(order, -1)
    both[next_one, order] = both[both > 0].min()  # as much as to anybody else
    both[order, next_one] = 2 * neighbour
    return both


def _example() -> Floats:
    """Return the traffic of the example with four servers. [GB]."""
    sent = np.zeros((4, 4))
    # illustrative: from, to and bytes, as the lesson says
    for one, other, size in ((0, 1, 50), (2, 3, 40), (0, 2, 30), (1, 3, 20), (0, 3, 10)):
        sent[one, other] = size
    return sent


@cache
def demands() -> tuple[Demand, ...]:
    """Return the traffic that circuits are placed for: illustrative matrices and two jobs."""
    two_stages = (("tp", 8), ("pp", 2), ("dp", 4), ("microbatches", 16))
    eight_stages = (("tp", 8), ("pp", 8), ("dp", 2), ("microbatches", 16))
    found = [
        Demand(text("trace.place_lesson"), circuits.ring_with_partners(), 3),
        Demand(text("trace.place_example"), _example(), 2),
        Demand(text("trace.place_shuffled"), circuits.ring_with_partners(seed=3), 3),
        Demand(text("trace.place_twelve"), circuits.ring_with_partners(12, seed=2), 3),
        Demand(text("trace.place_one_way"), _one_way(seed=5), 3),
    ]
    for stages, layout in ((2, two_stages), (8, eight_stages)):
        between = _by_server(_sent("Llama 3 70B", layout), 8)
        name = text("trace.place_stages", stages=stages, servers=len(between))
        found.append(Demand(name, between, 3))
    return tuple(found)


def _by_server(traffic: Floats, per_server: int) -> Floats:
    """Return what servers send to each other, without what stays in them, (S, S). [B]."""
    servers = len(traffic) // per_server
    table: Floats = traffic.reshape(servers, per_server, servers, per_server).sum(axis=(1, 3))
    np.fill_diagonal(table, 0.0)
    return table


def _by_value(value: Floats, fibres: int) -> list[Pair]:
    """Return circuits that take the pairs with the largest value first, of those above the diagonal."""
    return circuits.place(np.triu(value, 1), fibres)


def _first_come(traffic: Floats, fibres: int) -> list[Pair]:
    return _by_value(np.zeros_like(traffic), fibres)


def _smallest_first(traffic: Floats, fibres: int) -> list[Pair]:
    both = traffic + traffic.T
    return _by_value(both.max() - both, fibres)


def _one_direction(traffic: Floats, fibres: int) -> list[Pair]:
    return _by_value(traffic, fibres)


def _one_circuit_each(traffic: Floats, fibres: int) -> list[Pair]:
    return circuits.place(traffic, 1)


def _always_three(traffic: Floats, fibres: int) -> list[Pair]:
    return circuits.place(traffic, 3)


def _server_by_server(traffic: Floats, fibres: int) -> list[Pair]:
    """Return circuits for one server after the other, each to those that it exchanges most with."""
    n = len(traffic)
    both = traffic + traffic.T
    left = [fibres] * n
    chosen: list[Pair] = []
    for one in range(n):
        for found in np.argsort(-both[one], kind="stable"):
            other = int(found)
            pair = (min(one, other), max(one, other))
            if other != one and left[one] and left[other] and pair not in chosen:
                chosen.append(pair)
                left[one] -= 1
                left[other] -= 1
    return chosen


def _by_number(traffic: Floats, fibres: int) -> list[Pair]:
    n = len(traffic)
    ring = [(host, (host + 1) % n) for host in range(n)]
    return ring + [(host, host + n // 2) for host in range(n // 2)]


# What somebody with a mistake returns, by its name.
PLACE_MISTAKES: dict[str, Callable[[Floats, int], list[Pair]]] = {
    "first pairs first": _first_come,
    "smallest first": _smallest_first,
    "one direction": _one_direction,
    "one circuit for each server": _one_circuit_each,
    "neighbours by number": _by_number,
    "server by server": _server_by_server,
    "always three fibres": _always_three,
}


@register("check", "25-write-circuits")
def placed(answer: Place) -> Verdict:
    """Run ``answer(traffic, fibres)``; right are circuits over which bytes need no more hops than over greedy ones."""
    name = name_of(answer)
    tried: list[TriedCase] = []
    returned: list[list[Pair]] = []
    first: tuple[str, str] | None = (
        None  # the sentence and the mistake of the first case that is wrong
    )
    for demand in demands():
        pairs = _pairs_of(answer, demand)
        returned.append(pairs)
        network = network_of(pairs, demand)
        best = _best(demand)
        right = not network.mistake and network.hops <= best * (1 + ROUNDING)
        got = network.said or text("trace.hops", hops=network.hops)
        wanted = text("trace.hops", hops=best)
        tried.append(TriedCase(demand.name, right, "", got, wanted))
        if not right and first is None:
            line = text("function.carried", call=name, name=demand.name, got=got, wanted=wanted)
            first = (line, network.mistake)
    if first is None:
        return True, [], ""
    line, mistake = first
    return wrong("25-write-circuits", line, _mistake_of(returned) or mistake, Trace(tuple(tried)))


def _best(demand: Demand) -> float:
    """Return the mean hops over circuits that are placed greedily."""
    return network_of(circuits.place(demand.traffic, demand.fibres), demand).hops


def _pairs_of(answer: Place, demand: Demand) -> list[Pair]:
    """Return the circuits that the learner's function places; raise Unanswered if it returns anything else."""
    found = called(answer, demand.traffic.copy(), demand.fibres)
    n = len(demand.traffic)
    try:
        table = np.array(list(found), dtype=np.float64)
    except (TypeError, ValueError):
        table = np.zeros((0, 0))
    whole = table.ndim == 2 and table.shape[1:] == (2,) and bool(np.all(table == np.floor(table)))
    if not whole or table.min() < 0 or table.max() >= n:
        raise Unanswered("kind", text("function.circuits", last=n - 1, got=brief(found)))
    return [(int(one), int(other)) for one, other in table]


def network_of(pairs: Sequence[Pair], demand: Demand) -> Network:
    """Build the network of circuits, and say what is wrong with them or how many hops bytes need."""
    n = len(demand.traffic)
    ends = np.array(pairs).reshape(-1, 2)
    if np.any(ends[:, 0] == ends[:, 1]):
        return Network("circuit to itself", text("trace.place_itself"), np.inf)
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        return Network("pair twice", text("trace.place_twice"), np.inf)
    used = np.bincount(ends.ravel(), minlength=n)
    fullest = int(used.argmax())
    if used[fullest] > demand.fibres:
        said = text(
            "trace.place_many", server=fullest, circuits=used[fullest], fibres=demand.fibres
        )
        return Network("other end forgotten", said, np.inf)
    hops = _hops(ends, n)
    weight = demand.traffic
    if np.any(np.isinf(hops) & (weight > 0)):
        return Network("", text("trace.place_apart"), np.inf)
    mean = float((np.where(weight > 0, hops, 0.0) * weight).sum() / weight.sum())
    return Network("", "", mean)


def _hops(ends: np.ndarray[Any, Any], n: int) -> Floats:
    """Return the fewest circuits from each server to each other, (N, N), infinite where there is no way."""
    from scipy.sparse.csgraph import shortest_path

    joined = np.zeros((n, n))
    joined[ends[:, 0], ends[:, 1]] = 1
    found: Floats = shortest_path(joined, directed=False, unweighted=True)
    return found


def _mistake_of(returned: Sequence[Sequence[Pair]]) -> str:
    """Return the mistake that gives the circuits of all cases, or nothing."""
    found = [{frozenset(pair) for pair in pairs} for pairs in returned]
    for name, rule in PLACE_MISTAKES.items():
        expected = []
        for demand in demands():
            chosen = rule(demand.traffic, demand.fibres)
            expected.append({frozenset(pair) for pair in chosen})
        if found == expected:
            return name
    return ""
