"""Find a slow NIC from timings alone: time groups of servers, and halve the suspects each round.

No log names a NIC that works at a quarter of its rate. But an all-reduce waits for its slowest member, and each rail
can be timed by itself: a group of servers with the slow NIC takes longer on that rail, any other group does not.

Examples
--------
>>> cluster = TimedServers(128, 8, slow={(77, 3): 0.25})
>>> find_slow_nic(cluster)
<Found: server 77, rail 3, after 7 rounds>
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Floats, Ints, as_html, as_text
from fabriclab.errors import FabricError

__all__ = [
    "Found",
    "NotFound",
    "Round",
    "TimedServers",
    "find_slow_nic",
    "repeats_needed",
    "rounds_needed",
]


class NotFound(FabricError):
    """No group was slow, or the timings contradict each other."""


class Servers(Protocol):
    """Servers that can be timed in groups: a cluster, or `TimedServers`."""

    @property
    def servers(self) -> int:
        """Number of servers."""

    @property
    def rails(self) -> int:
        """Number of rails."""

    def time(self, groups: Sequence[Sequence[int]]) -> Floats:
        """Return the time of an all-reduce of each group on each rail, (G, rails) [s]."""

    def healthy(self, size: int) -> float:
        """Return the time that a group of so many healthy servers takes [s]."""


class TimedServers:
    """Servers with slow NICs that only timings show: the ring all-reduce of each group on each rail.

    A group of n takes 2 (n - 1) / n times the size over the rate of its slowest NIC. Groups of one round share no
    server, and groups on one rail are taken to share no cable, as rings in server order do.

    Parameters
    ----------
    servers, rails : int
        Servers, and NICs of each. >= 3, >= 1
    slow : mapping of (int, int) to float, optional
        Fraction of its rate that a NIC, named by server and rail, still has. 0..1
    noise : float
        Standard deviation of one timing over its mean. >= 0
    repeats : int
        Timings of which each result is the mean. >= 1
    seed : int
        Seed of the noise.
    rate : float or str, optional
        Rate of a healthy NIC; that of the running case unless given. [B/s]
    size : float or str
        Array that each group reduces. [B]
    """

    def __init__(
        self,
        servers: int = 128,
        rails: int = 8,
        slow: Mapping[tuple[int, int], float] | None = None,
        *,
        noise: float = 0.0,
        repeats: int = 1,
        seed: int = 0,
        rate: units.Quantity | None = None,
        size: units.Quantity = "1 GiB",
    ) -> None:
        self.servers = units.count(servers, "servers", 3)
        self.rails = units.count(rails, "rails")
        self.repeats = units.count(repeats, "repeats")
        if not units.is_number(noise) or not 0 <= noise < 1:
            raise ValueError(
                f"noise must be within 0..1, 1 excluded, got {noise!r:.60}; write 0.02 for 2 %"
            )
        self.noise = float(noise)
        self.rate = units.rate(catalog.case().nic_rate if rate is None else rate, "rate")
        self.size = units.size(size, "size", may_be_zero=False)
        self._left = np.ones((self.servers, self.rails))
        for nic, fraction in (slow or {}).items():
            server, rail = self._nic(nic)
            if not units.is_number(fraction) or not 0 < fraction <= 1:
                raise ValueError(
                    f"slow[{nic}] must be a fraction > 0 and at most 1, got {fraction!r:.60}; a quarter is 0.25"
                )
            self._left[server, rail] = fraction
        self._rng = np.random.default_rng(units.count(seed, "seed", 0))
        self.rounds = 0
        self.timings = 0

    def _nic(self, nic: tuple[int, int]) -> tuple[int, int]:
        """Return server and rail of a NIC, or refuse its name."""
        try:
            server, rail = nic
        except (TypeError, ValueError):
            raise TypeError(f"slow must name NICs as (server, rail), got {nic!r:.60}") from None
        return (
            units.count(server, "server", 0, self.servers - 1),
            units.count(rail, "rail", 0, self.rails - 1),
        )

    def healthy(self, size: int) -> float:
        """Return the time of a group of so many healthy servers [s]."""
        n = units.count(size, "size", 2, self.servers)
        return 2 * (n - 1) / n * self.size / self.rate

    def time(self, groups: Sequence[Sequence[int]]) -> Floats:
        """Time groups of servers at once, each rail by itself, and return the times, (G, rails) [s].

        One call is one round. Each group has two servers or more, and no server is in two groups.
        """
        members = [np.asarray(group, dtype=np.int64) for group in groups]
        if not members:
            raise ValueError("groups must hold at least one group of servers, got none")
        for group in members:
            if group.ndim != 1 or group.size < 2:
                raise ValueError(
                    f"a group must list at least 2 servers, got {group.tolist()!r:.60}; put a healthy one beside it"
                )
        everyone = np.concatenate(members)
        if everyone.min() < 0 or everyone.max() >= self.servers:
            raise ValueError(
                f"servers are numbered 0..{self.servers - 1}, got {everyone.min()}..{everyone.max()}"
            )
        if np.unique(everyone).size < everyone.size:
            raise ValueError(
                "no server can be in two groups of one round, since they would share its NICs; use a second round"
            )

        self.rounds += 1
        self.timings += len(members) * self.repeats
        slowest = np.stack([self._left[group].min(axis=0) for group in members])  # (G, rails)
        ideal = np.array([self.healthy(group.size) for group in members])[:, None] / slowest
        spread = self.noise / math.sqrt(self.repeats)
        return np.asarray(ideal * (1 + spread * self._rng.standard_normal(ideal.shape)))


class Round(NamedTuple):
    """One round: groups, their times over those of healthy servers, (G, rails), whether any was slow, who is left."""

    groups: tuple[tuple[int, ...], ...]
    ratio: Floats
    slow: bool
    suspects: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Found:
    """The slow NIC: its server, its rail, and the rounds that led there."""

    server: int
    rail: int
    rounds: tuple[Round, ...]

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each round."""
        table = [["round", "timed servers", "slowest rail", "time over healthy", "suspects left"]]
        for number, each in enumerate(self.rounds, start=1):
            timed = " and ".join(_span(group) for group in each.groups)
            rail = int(each.ratio.max(axis=0).argmax())
            table.append(
                [
                    str(number),
                    timed,
                    str(rail) if each.slow else "-",
                    f"{each.ratio.max():.3g}",
                    str(len(each.suspects)),
                ]
            )
        return table

    def __repr__(self) -> str:
        """Show the NIC and the number of rounds."""
        return f"<Found: server {self.server}, rail {self.rail}, after {len(self.rounds)} rounds>"

    def draw(self) -> str:
        """Return the rounds as text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def _span(group: Sequence[int]) -> str:
    """Return servers as first and last, with their number."""
    if len(group) <= 2:
        return ", ".join(map(str, group))
    return f"{len(group)} from {min(group)} to {max(group)}"


def rounds_needed(servers: int) -> int:
    """Return the rounds that bisection needs at most: the logarithm of the number of servers to base 2, rounded up.

    Examples
    --------
    >>> rounds_needed(128)
    7
    """
    return math.ceil(math.log2(units.count(servers, "servers", 2)))


def repeats_needed(loss: float, noise: float, servers: int, rails: int, wrong: float) -> int:
    """Return how often each group has to be timed so that a bisection goes wrong at most so often.

    A round is wrong if the mean of one rail is on the wrong side of the middle between healthy and slow. At most
    ``rails`` times the number of rounds, plus one for the last pair, are decided so, which bounds the sum of all
    errors.

    Parameters
    ----------
    loss : float
        Lost part of the rate. 0..1, ends excluded
    noise : float
        Standard deviation of one timing over its mean. >= 0
    servers, rails : int
        Servers and rails.
    wrong : float
        Probability of a wrong answer that is accepted. 0..0.5, ends excluded
    """
    from scipy.special import ndtri

    margin = _margin(loss)
    if not units.is_number(wrong) or not 0 < wrong < 0.5:
        raise ValueError(
            f"wrong must be a probability within 0..0.5, ends excluded, got {wrong!r:.60}; 0.01 is usual"
        )
    if not units.is_number(noise) or not noise >= 0:
        raise ValueError(f"noise must be >= 0, got {noise!r:.60}; write 0.02 for 2 %")
    decisions = (rounds_needed(servers) + 1) * units.count(rails, "rails")
    sigmas = float(-ndtri(wrong / decisions))
    # a slow group is as far above the middle as a healthy one below it, over the noise of its longer time
    distance = min(margin - 1, 1 - margin * (1 - loss))
    return max(1, math.ceil((sigmas * noise / distance) ** 2))


def _margin(loss: float) -> float:
    """Return the time over that of healthy servers from which a group is slow: the geometric middle."""
    if not units.is_number(loss) or not 0 < loss < 1:
        raise ValueError(
            f"loss must be within 0..1, ends excluded, got {loss!r:.60}; a NIC at a quarter has lost 0.75"
        )
    return 1 / math.sqrt(1 - loss)


def find_slow_nic(cluster: Servers, loss: float = 0.75) -> Found:
    """Find the one slow NIC of a cluster by halving the suspects, and name server and rail.

    Each round times half of the suspects as one group, on all rails at once. The last round times both suspects, each
    beside a server that is known to be healthy: timing only one of them would name the server, but not the rail if all
    groups so far were fast. So the rounds are `rounds_needed` for every place of the NIC.

    Parameters
    ----------
    cluster : Servers
        What is timed, such as `TimedServers`.
    loss : float
        Lost part of the rate that counts as slow; the limit lies in the geometric middle. 0..1, ends excluded

    Raises
    ------
    NotFound
        If the last suspects are both slow or both healthy: there is no slow NIC, there are several, or noise misled.
    """
    margin = _margin(loss)
    n = units.count(cluster.servers, "servers", 3)
    suspects: Ints = np.arange(n)
    rail = -1
    rounds: list[Round] = []
    while suspects.size > 2 or (suspects.size == 1 and rail < 0):
        half = suspects[: (suspects.size + 1) // 2]
        if half.size == 1:
            half = np.append(half, _healthy(suspects, n)[:1])
        ratio = cluster.time([half.tolist()]) / cluster.healthy(half.size)
        slow = ratio[0] > margin
        if slow.any():
            rail = int(ratio[0].argmax())
            suspects = np.intersect1d(half, suspects)
        elif suspects.size == 1:
            raise NotFound(_contradiction("the last suspect is as fast as the others"))
        else:
            suspects = np.setdiff1d(suspects, half)
        left = tuple(suspects.tolist())
        rounds.append(Round((tuple(half.tolist()),), ratio, bool(slow.any()), left))

    if suspects.size == 2:
        rounds.append(_last(cluster, suspects, margin))
        server, rail = _slower(rounds[-1], margin, rail)
        return Found(server, rail, tuple(rounds))
    return Found(int(suspects[0]), rail, tuple(rounds))


def _healthy(suspects: Ints, n: int) -> Ints:
    """Return servers that are no suspects any more."""
    return np.setdiff1d(np.arange(n), suspects)


def _last(cluster: Servers, suspects: Ints, margin: float) -> Round:
    """Time the last two suspects, each beside a healthy server; with one healthy server, only the first of them."""
    others = _healthy(suspects, cluster.servers)
    pairs = []
    for suspect, other in zip(suspects.tolist(), others.tolist(), strict=False):
        pairs.append((suspect, other))
    ratio = cluster.time(pairs) / cluster.healthy(2)
    slow = (ratio > margin).any(axis=1)
    timed = suspects[: len(pairs)]
    left = timed[slow] if slow.any() else suspects[len(pairs) :]
    return Round(tuple(pairs), ratio, bool(slow.any()), tuple(left.tolist()))


def _slower(last: Round, margin: float, rail: int) -> tuple[int, int]:
    """Return server and rail that the last round names."""
    if len(last.suspects) != 1:
        how = "both slow" if last.suspects else "both as fast as the others"
        raise NotFound(_contradiction(f"the last two suspects are {how}"))
    if (last.ratio > margin).any():
        rail = int(last.ratio.max(axis=0).argmax())
    return last.suspects[0], rail


def _contradiction(what: str) -> str:
    """Return the error for timings that contradict each other."""
    return (
        f"{what}: no NIC is that slow, several are, or noise misled a round; "
        "time each group more often (repeats_needed), or search each half for itself"
    )
