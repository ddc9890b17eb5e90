"""Lower bounds on the time of a collective, each with the machine for which it holds; and the LogGP model."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.collectives.algorithm import definition
from fabriclab.core import BUS_FACTORS, Schedule, bus_factor, distinct_pairs

MACHINES = {
    "hosts": "only hosts add and copy",
    "aggregation": "switches add and multicast",
    "nvls": "only a switch adds, what one host reads, and it multicasts what one host writes",
}


class Bound(NamedTuple):
    """A time below which no algorithm can stay on a machine of this model.

    Parameters
    ----------
    name : str
        What limits the time: the port, the number of rounds, or a cut.
    model : str
        Machine for which the bound holds. A machine that can do more may be faster.
    seconds : float
        The bound. [s]
    formula : str
        The formula in symbols.
    """

    name: str
    model: str
    seconds: float
    formula: str

    def __repr__(self) -> str:
        """Show name, time and formula."""
        return f"<Bound {self.name}: {units.format_time(self.seconds)} = {self.formula}>"


def bounds(
    collective: str,
    n_ranks: int,
    n_bytes: units.Quantity,
    *,
    port_rate: units.Quantity | None = None,
    alpha: units.Quantity = 0.0,
    cuts: Sequence[tuple[int, units.Quantity]] = (),
    messages: int | None = None,
    machine: str = "hosts",
) -> tuple[Bound, ...]:
    """Return lower bounds on the time of a collective, one for each part of the machine that is given.

    Why they hold if only hosts add and copy: take k groups of ranks that reach the other ranks only through their cuts
    (a rank with its port is a group of one). To combine an element of k groups takes k - 1 messages between groups, and
    until then no group has the sum. Then each of the k - 1 other groups must receive at least one more message. So an
    all-reduce sends 2(k-1) S out of k groups, and the busiest group sends at least the mean. A reduce-scatter needs the
    first half of this, an all-gather the second; a broadcast sends S into every group. For a gather, scatter or
    all-to-all the k groups must be equal.

    A switch that adds or multicasts breaks the premise for an all-reduce. With an aggregation tree each group still
    sends its S out and takes S in. If a switch adds only what a GPU reads, and multicasts only what a GPU writes
    (NVLS), each element is sent by all n ranks to the rank that reads the sum, and once more to be written. That is
    S (1 + 1/n) per port, so the gain over a ring is at most 2 (n - 1) / (n + 1).

    Parameters
    ----------
    collective : str
        Name of the collective, such as ``"all_reduce"``.
    n_ranks : int
        Number of ranks. >= 1
    n_bytes : float or str
        S, the size as nccl-tests counts it. [B], >= 0
    port_rate : float or str, optional
        Rate of each rank's port in one direction. [B/s]
    alpha : float or str
        Time before the first byte of a message arrives. [s], >= 0
    cuts : sequence of (k, rate)
        For each level k groups, each behind a cut of this rate in one direction. [B/s]
    messages : int, optional
        Messages that a rank can send, and receive, at the same time; any number unless given, as in the engines.
        Textbooks mostly mean 1. Matters only if hosts alone copy. >= 1
    machine : str
        ``"hosts"``: only hosts add and copy; ``"aggregation"``: switches do, too; ``"nvls"``: switches instead of
        hosts.

    References
    ----------
    .. [1] P. Patarasuk, X. Yuan, J. Parallel and Distributed Computing 69(2), 2009, pp. 117-124.
    .. [2] E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, Concurrency and Computation 19(13),
       2007, pp. 1749-1783.

    Examples
    --------
    >>> port, cut = bounds("all_reduce", 128, 17.6e9, port_rate="400 Gb/s", cuts=[(4, "12.8 Tb/s")])
    >>> max((port, cut), key=lambda bound: bound.seconds)
    <Bound port: 699 ms = 2 (n-1)/n S / rate>
    """
    definition(collective)  # refuses a wrong name
    n = units.count(n_ranks, "n_ranks")
    size = units.size(n_bytes, "n_bytes")
    who = MACHINES[units.choice(machine, "machine", MACHINES)]

    found = []
    if port_rate is not None:
        part = _port_part(collective, n, machine)
        seconds = part.factor * size / units.rate(port_rate, "port")
        model = f"{who}; each rank has one port, full duplex"
        found.append(Bound("port", model, seconds, part.formula))

    for level in cuts:
        if not isinstance(level, Sequence) or isinstance(level, str) or len(level) != 2:
            raise TypeError(
                f'cuts must be pairs of (groups, rate), such as (4, "12.8 Tb/s"), got {level!r}'
            )
        groups, rate = level
        k = units.count(groups, "cuts: groups", 1, n)
        name = f"cut of {k} groups"
        part = _cut_part(collective, k, n, machine)
        seconds = part.factor * size / units.rate(rate, name)
        model = f"{who}; each group has one shared way in and out"
        found.append(Bound(name, model, seconds, part.formula))

    wait = units.latency(alpha, "alpha")
    if wait:
        most = None if messages is None else units.count(messages, "messages")
        if machine != "hosts" or collective == "send_recv":
            most = None
        found.append(_rounds(n, wait, most))
    return tuple(found)


class _Part(NamedTuple):
    """Fraction of the size that passes the busiest port or cut, and the formula of the bound."""

    factor: float
    formula: str


def _port_part(collective: str, n: int, machine: str) -> _Part:
    """Return the fraction of the size that passes the port of a rank."""
    if collective == "all_reduce" and machine == "nvls":
        return _Part(1 + 1 / n if n > 1 else 0.0, "S (1 + 1/n) / rate")
    if collective == "all_reduce" and machine == "aggregation":
        return _Part(1.0 if n > 1 else 0.0, "S / rate")
    return _bus_part(collective, n, "n")


def _cut_part(collective: str, k: int, n: int, machine: str) -> _Part:
    """Return the fraction of the size that passes the cut of one of k groups."""
    if collective == "all_reduce" and machine != "hosts":
        return _Part(1.0 if k > 1 else 0.0, "S / rate")
    part = _bus_part(collective, k, "k")
    if collective == "all_to_all":
        formula = part.formula if k == n else f"n/k {part.formula}"
        return _Part(part.factor * n / k, formula)
    return part


def _bus_part(collective: str, k: int, symbol: str) -> _Part:
    """Return the factor of the bus bandwidth; since it equals this bound, busbw can be compared with a rate."""
    factor = bus_factor(collective, k) if k > 1 else 0.0
    times, _ = BUS_FACTORS[collective]
    formula = ""
    if times > 1:
        formula += f"{times:g} "
    if times:
        formula += f"({symbol}-1)/{symbol} "
    return _Part(factor, f"{formula}S / rate")


def _rounds(n: int, alpha: float, messages: int | None) -> Bound:
    """Return the bound by rounds: with m messages at once, m + 1 times as many ranks have the data after each round."""
    if messages is None:
        model = "a rank sends and takes in any number of messages at once"
        return Bound("latency", model, alpha if n > 1 else 0.0, "alpha")

    rounds = 0
    reached = 1
    while reached < n:
        rounds += 1
        reached *= messages + 1
    some = "1 message" if messages == 1 else f"{messages} messages"
    model = f"a rank sends and takes in {some} at once, each takes alpha"
    base = "log2 n" if messages == 1 else f"log{messages + 1} n"
    return Bound("latency", model, rounds * alpha, f"ceil({base}) alpha")


def loggp(
    schedule: Schedule,
    n_bytes: units.Quantity,
    *,
    latency: units.Quantity,
    overhead: units.Quantity,
    gap: units.Quantity,
    rate: units.Quantity,
) -> float:
    """Return the time of a schedule in the LogGP model, with its steps one after another [s].

    If a rank sends, or receives, m messages of k bytes in a step, it needs 2 o + L + m (k - 1) G + (m - 1) max(g, o)
    [1]_; the busiest rank sets the time of the step. All that a rank sends to one other rank in a step is a single
    message. With one message per rank this is alpha + k / beta, where alpha = 2 o + L - G and beta = 1 / G. Leaves out
    the network between the ports, the time to add, and what switches do.

    Parameters
    ----------
    schedule : Schedule
        A schedule as `build` returns it.
    n_bytes : float or str
        Size of the array, as nccl-tests counts it. [B], >= 0
    latency, overhead, gap : float or str
        L: time from port to port; o: time of a rank to send or receive a message; g: shortest time between two messages
        of one rank. [s], >= 0
    rate : float or str
        1 / G: rate at which the bytes of a long message follow each other. [B/s], > 0

    References
    ----------
    .. [1] A. Alexandrov, M. F. Ionescu, K. E. Schauser, C. Scheiman, LogGP, SPAA 1995, pp. 95-105.

    Examples
    --------
    >>> from fabriclab import collectives
    >>> root = collectives.build("broadcast", "one_root", 9)
    >>> round(1e6 * loggp(root, 1, latency="2 us", overhead="1 us", gap="3 us", rate="50 GB/s"), 6)
    25.0
    """
    size = units.size(n_bytes, "n_bytes")
    per_byte = 1 / units.rate(rate, "rate")
    wait = units.latency(latency, "latency")
    own = units.latency(overhead, "overhead")
    between = max(units.latency(gap, "gap"), own)  # time between two messages of one rank [s]

    total = 0.0
    people = schedule.n_participants
    for group in schedule.groups:
        # Sending ports of all participants, then their receiving ports; only ranks count.
        is_rank = np.tile(np.arange(people) < schedule.n_ranks, 2)
        source, target = distinct_pairs(
            group.source.astype(np.int64), group.target.astype(np.int64)
        )
        messages = np.bincount(np.append(source, target + people), minlength=is_rank.size)[is_rank]
        ends = np.append(group.source, group.target + people)
        weight = np.tile(size * schedule.moved(group), 2)  # [B]
        moved = np.bincount(ends, weight, is_rank.size)[is_rank]  # [B]
        # m (k - 1) G + (m - 1) max(g, o) for m messages of k bytes
        port = np.maximum(moved - messages, 0) * per_byte + np.maximum(messages - 1, 0) * between
        total += group.repeat * (2 * own + wait + float(port.max()))
    return total
