"""Lower bounds on the time of a collective, each with the machine model that it needs; and the LogGP model."""

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
    """No algorithm on a machine of this model is faster.

    Parameters
    ----------
    name : str
        What binds: the port, the number of rounds, or a cut.
    model : str
        The machine for which the bound holds. A machine that can do more may be faster.
    seconds : float
        The bound. [s]
    formula : str
        The formula with its symbols.
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
    """Return the lower bounds of a collective, one per part of the machine that is given.

    Why they hold, for k groups of ranks that reach the others only through their cuts (a rank with its
    port is a group of one), where only hosts add and copy: to bring one element of k groups together
    takes k - 1 messages between groups, and until then no group has the sum; then each of the k - 1
    others must get at least one more. So an all-reduce sends 2(k-1) S out of k groups, and the busiest
    sends at least the mean. A reduce-scatter needs the first half, an all-gather the second; a
    broadcast sends S into every group. For a gather, scatter or all-to-all the k groups must be equal.

    A switch that adds or multicasts breaks the premise for an all-reduce. With an aggregation tree each group
    still sends its S out and takes S in. Where a switch adds only what a GPU reads, and multicasts only what a
    GPU writes (NVLS), each element is sent by all n ranks to one that reads the sum, and once more to be written:
    S (1 + 1/n) per port, so the gain over a ring is at most 2 (n - 1) / (n + 1).

    Parameters
    ----------
    collective : str
        Its name, such as all_reduce.
    n_ranks : int
        Ranks. >= 1
    n_bytes : float or str
        S, the size as nccl-tests counts it. [B], >= 0
    port_rate : float or str, optional
        Rate of each rank's port in one direction. [B/s]
    alpha : float or str
        Time before a message brings its first byte. [s], >= 0
    cuts : sequence of (k, rate)
        For each level: k groups, each behind a cut of this rate in one direction. [B/s]
    messages : int, optional
        Messages that a rank may send, and take in, at once. >= 1. Any number unless given, as in the engines;
        textbooks mostly mean 1. Counts only where hosts alone copy.
    machine : str
        ``"hosts"``: only hosts add and copy; ``"aggregation"``: switches do, too; ``"nvls"``: hosts do not.

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
    n, size = units.count(n_ranks, "n_ranks"), units.size(n_bytes, "n_bytes")
    who, found = MACHINES[units.choice(machine, "machine", MACHINES)], []

    def cut(k: int, rate: units.Quantity, symbol: str, name: str, model: str) -> None:
        # The factor of the bus bandwidth is this bound: that is why busbw can be held against a rate.
        part, (a, _) = bus_factor(collective, k) if k > 1 else 0.0, BUS_FACTORS[collective]
        formula = f"{f'{a:g} ' if a > 1 else ''}{f'({symbol}-1)/{symbol} ' if a else ''}S / rate"
        if collective == "all_reduce" and machine != "hosts":
            reads = machine == "nvls" and name == "port"
            part, formula = (k > 1) * (1 + reads / k), f"S {'(1 + 1/n) ' if reads else ''}/ rate"
        if collective == "all_to_all":
            part, formula = part * n / k, formula if k == n else f"n/k {formula}"
        found.append(Bound(name, f"{who}; {model}", part * size / units.rate(rate, name), formula))

    if port_rate is not None:
        cut(n, port_rate, "n", "port", "each rank has one port, full duplex")
    for level in cuts:
        if not isinstance(level, Sequence) or isinstance(level, str) or len(level) != 2:
            raise TypeError(
                f'cuts must be pairs of (groups, rate), such as (4, "12.8 Tb/s"), got {level!r}'
            )
        groups, rate = level
        k = units.count(groups, "cuts: groups", 1, n)
        cut(k, rate, "k", f"cut of {k} groups", "each group has one shared way in and out")
    wait = units.latency(alpha, "alpha")
    if wait:
        most = None if messages is None else units.count(messages, "messages")
        found.append(
            _rounds(n, wait, most if machine == "hosts" and collective != "send_recv" else None)
        )
    return tuple(found)


def _rounds(n: int, alpha: float, messages: int | None) -> Bound:
    """Every rank's data must reach another: with m messages at once, m + 1 times as many have it per round."""
    if messages is None:
        return Bound(
            "latency",
            "a rank sends and takes in any number of messages at once",
            alpha * (n > 1),
            "alpha",
        )
    rounds, reached = 0, 1
    while reached < n:
        rounds, reached = rounds + 1, reached * (messages + 1)
    model = f"a rank sends and takes in {messages} message{'s' * (messages > 1)} at once, each takes alpha"
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
    """Return the time of a schedule in the LogGP model, step after step [s].

    m messages of k bytes that one rank sends, or takes in, in a step need 2 o + L + m (k - 1) G + (m - 1) max(g, o)
    [1]_; the busiest decides. All that a rank sends to another in a step is one message. With one message each this is
    alpha + k / beta, where alpha = 2 o + L - G and beta = 1 / G. Leaves out the network between the ports, the time of
    adding and what switches do.

    Parameters
    ----------
    schedule : Schedule
        As `build` returns it.
    n_bytes : float or str
        Size of the array, as nccl-tests counts it. [B], >= 0
    latency, overhead, gap : float or str
        L: from port to port; o: a rank's time to send or take in a message; g: least time between two messages of one
        rank. [s], >= 0
    rate : float or str
        1 / G: rate of the bytes of a long message. [B/s], > 0

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
    size, per_byte = units.size(n_bytes, "n_bytes"), 1 / units.rate(rate, "rate")
    given = {"latency": latency, "overhead": overhead, "gap": gap}
    wait, own, least = (units.latency(time, name) for name, time in given.items())
    total, people = 0.0, schedule.n_participants
    for group in schedule.groups:
        ends = np.append(group.source, group.target + people)  # a port each way
        busy = np.tile(np.arange(people) < schedule.n_ranks, 2)
        source, target = distinct_pairs(
            group.source.astype(np.int64), group.target.astype(np.int64)
        )
        messages = np.bincount(np.append(source, target + people), minlength=busy.size)[busy]
        moved = np.bincount(ends, np.tile(size * schedule.moved(group), 2), busy.size)[busy]
        port = np.maximum(moved - messages, 0) * per_byte + np.maximum(messages - 1, 0) * max(
            least, own
        )
        total += group.repeat * (2 * own + wait + float(port.max()))
    return total
