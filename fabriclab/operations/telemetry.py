"""Counters of a fabric over time, made from named causes such as a dirty connector, a bad module or a slow NIC.

A healthy fabric is not silent: links correct bit errors all the time, some a thousand times as many as others, queues
mark packets, and NICs pause their switches. `observe` draws such a background and adds what each `Cause` does to it.
Which counters a cause raises, and where, follows from how the parts work; by how much is illustrative. Only the step
from bit errors to codewords that cannot be corrected is computed, by `fabriclab.physics.coding`.

Examples
--------
>>> from fabriclab import operations, topologies
>>> hall = topologies.build("leaf_spine", hosts=16, radix=8)
>>> seen = operations.observe(hall, [operations.Cause("hot switch", "spine 1", start=1800)], samples=120)
>>> seen
<Telemetry: 120 samples every 30.0 s of 64 links; hot switch at spine 1>
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab import spelling, units
from fabriclab.core import Fabric, Floats, Ints, ReadOnly, as_html, as_text, check_memory
from fabriclab.metrics.hops import outside
from fabriclab.physics import coding

__all__ = ["COUNTERS", "Cause", "Telemetry", "causes", "observe"]

# What is counted in each interval, on which side of a link, and what it is called where it is read.
COUNTERS: Mapping[str, str] = ReadOnly(
    {
        "bit_errors": "bits that the receiver of the link corrected",
        "symbol_errors": "codewords that the receiver of the link could not correct",
        "pauses": "pause frames that stopped the sender of the link",
        "ecn_marks": "packets that the queue in front of the link marked",
        "discards": "packets that the queue in front of the link dropped",
        "temperature": "temperature of the module that sends into the link [deg C]",
    }
)

_CODE = "RS(544,514)"
_CODEWORD = 5440  # bits of that code: 544 symbols of 10

# The background; illustrative, all of it: orders of magnitude that leave room for what causes add.
_LOG_BER = -8.0  # decimal logarithm of the bit error ratio before correction, in the median
_LINKS_SPREAD = 0.7  # standard deviation from link to link, in decades
_SAMPLES_SPREAD = 0.1  # from sample to sample, in decades
_PAUSES = 20.0  # frames in an interval of 30 s at full load
_MARKS = 2000.0  # packets in an interval of 30 s at full load
_BURSTS = (
    0.5  # shape of the gamma distribution of bursts: below 1 is burstier than a Poisson process
)
_MEAN_LOAD = 0.6
_WARM = 45.0  # deg C in the median
_WARM_SPREAD = 3.0  # deg C from link to link
_WARM_NOISE = 0.5  # deg C from sample to sample
_BASE_INTERVAL = 30.0  # illustrative: interval of the two counts above
_WORST_LOG_BER = -2.0  # a receiver that is worse has lost the link


class Cause(NamedTuple):
    """Why counters change: what is wrong, where, from when on, and how strongly.

    Parameters
    ----------
    kind : str
        One of `causes`, such as ``"dirty connector"``.
    where : str
        A link in the direction of its bits, such as ``"leaf 0 -> spine 1"`` (the first of parallel ones) or ``"link
        25"``, for a connector or module; a node, such as ``"spine 1"``, for all others.
    start : float
        When it begins. [s]
    strength : float
        1 is illustrative; 2 is twice as far from healthy, in decades for bit errors. > 0
    """

    kind: str
    where: str
    start: float = 0.0
    strength: float = 1.0

    def __str__(self) -> str:
        """Return kind and place."""
        return f"{self.kind} at {self.where}"


@dataclass(frozen=True, eq=False)
class Telemetry:
    """Counters of L directed links outside the servers in T intervals; `observe` makes it.

    Parameters
    ----------
    time : (T,) float64
        End of each interval. [s]
    link : (L,) int64
        Number of each link in its fabric.
    names : tuple of str
        Names of the links.
    values : mapping of str to (T, L) float64
        What each counter of `COUNTERS` counted in each interval, and the temperature.
    causes : tuple of Cause
        Why counters change.
    onsets : mapping of str to (L,) int64
        First sample on which a cause acts, by counter; -1 for links that it leaves alone.
    """

    time: Floats
    link: Ints
    names: tuple[str, ...]
    values: Mapping[str, Floats]
    causes: tuple[Cause, ...]
    onsets: Mapping[str, Ints]

    @property
    def samples(self) -> int:
        """Number of intervals."""
        return int(self.time.size)

    @property
    def interval(self) -> float:
        """Length of an interval [s]; the shortest one if they differ."""
        return float(np.min(np.diff(self.time, prepend=0.0)))

    def onset(self, counter: str) -> Ints:
        """Return the first sample on which a cause acts on a counter of each link, -1 for the others, (L,)."""
        return self.onsets[units.choice(counter, "counter", COUNTERS)]

    def bad(self) -> Ints:
        """Return the places of links on which a cause acts, in any counter, (K,)."""
        acts = [onset >= 0 for onset in self.onsets.values()]
        return np.flatnonzero(np.any(acts, axis=0))

    def place(self, name: str) -> int:
        """Return the place of a link by its name, such as ``"leaf 0 -> spine 1"``."""
        if name not in self.names:
            raise ValueError(
                f"no link is named {name!r:.60}{spelling.near(name, self.names)}; names lists all of them"
            )
        return self.names.index(name)

    def totals(self, counter: str, bits: int | None = None) -> Floats:
        """Return a counter as the device shows it, (T, L): the sum so far.

        With ``bits`` it stops at the largest number of so many bits, as counters of InfiniBand do: the
        SymbolErrorCounter has 16 bits and stays at 65,535 until it is cleared.
        """
        if units.choice(counter, "counter", COUNTERS) == "temperature":
            raise ValueError("a temperature has no total; read values['temperature']")
        total = np.cumsum(self.values[counter], axis=0)
        if bits is None:
            return total
        return np.minimum(total, 2.0 ** units.count(bits, "bits", 1, 64) - 1)

    def text(self, counters: Sequence[str] = tuple(COUNTERS)) -> str:
        """Return counters as comma-separated lines, ``time,link,counter,value``, which `read_telemetry` reads."""
        lines = ["time,link,counter,value"]
        for counter in counters:
            table = self.values[units.choice(counter, "counter", COUNTERS)]
            for t, row in zip(self.time.tolist(), table.tolist(), strict=True):
                lines += [
                    f"{t:g},{n},{counter},{v:.10g}" for n, v in zip(self.names, row, strict=True)
                ]
        return "\n".join(lines) + "\n"

    def rows(self) -> list[list[str]]:
        """Return a table of texts: median and largest sample of each counter, and where that was."""
        table = [["counter", "median", "largest", "on", "at"]]
        for counter, values in self.values.items():
            t, place = np.unravel_index(int(np.nanargmax(values)), values.shape)
            table.append(
                [
                    counter,
                    f"{np.nanmedian(values):.4g}",
                    f"{values[t, place]:.4g}",
                    self.names[int(place)],
                    units.format_time(float(self.time[t])),
                ]
            )
        return table

    def __repr__(self) -> str:
        """Show its size and its causes."""
        why = "; ".join(map(str, self.causes)) or "no cause known"
        every = units.format_time(self.interval)
        return (
            f"<Telemetry: {self.samples} samples every {every} of {len(self.names):,} links; {why}>"
        )

    def draw(self) -> str:
        """Return the table as text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


class _Levels:
    """Expected counters of each link in each interval, (T, L), to which causes are added."""

    def __init__(
        self, fabric: Fabric, link: Ints, time: Floats, load: Floats, rng: np.random.Generator
    ) -> None:
        shape = (time.size, link.size)
        self.fabric = fabric
        self.link = link
        self.time = time
        self.rng = rng
        spread = rng.normal(0.0, _LINKS_SPREAD, link.size)
        self.log_ber = _LOG_BER + spread + rng.normal(0.0, _SAMPLES_SPREAD, shape)
        warm = _WARM + rng.normal(0.0, _WARM_SPREAD, link.size)
        self.temperature = warm + rng.normal(0.0, _WARM_NOISE, shape)
        scale = time[0] / _BASE_INTERVAL
        self.pauses = np.tile(_PAUSES * scale * load[:, None], link.size)
        self.ecn_marks = np.tile(_MARKS * scale * load[:, None], link.size)
        self.discards = np.zeros(shape)
        self.onsets = {counter: np.full(link.size, -1, dtype=np.int64) for counter in COUNTERS}

    def since(self, cause: Cause) -> Floats:
        """Return how long a cause has acted at the end of each interval, (T,) [s]; negative before it."""
        return self.time - cause.start

    def acts(self, cause: Cause, places: Ints, *counters: str) -> None:
        """Note that a cause acts on counters of links from its start on."""
        first = int(np.searchsorted(self.time, cause.start, side="right"))
        for counter in counters:
            old = self.onsets[counter][places]
            self.onsets[counter][places] = np.where(old >= 0, np.minimum(old, first), first)

    def leaving(self, node: int) -> Ints:
        """Return the places of links that leave a node."""
        return np.flatnonzero(self.fabric.source[self.link] == node)

    def entering(self, node: int) -> Ints:
        """Return the places of links that enter a node."""
        return np.flatnonzero(self.fabric.target[self.link] == node)

    def one(self, where: str) -> Ints:
        """Return the place of a link, named ``"leaf 0 -> spine 1"`` or by its number, ``"link 25"``, (1,)."""
        source, arrow, target = where.partition(" -> ")
        if arrow:
            known = self.fabric.links_between(self.fabric.node(source), self.fabric.node(target))
        elif where.startswith("link ") and where[5:].isdecimal():
            known = np.array([int(where[5:])])
        else:
            raise ValueError(
                f"where must name a link in the direction of its bits, such as 'leaf 0 -> spine 1', got {where!r:.60}"
            )
        places = np.flatnonzero(np.isin(self.link, known))
        if not places.size:
            raise ValueError(
                f"no working link outside the servers is {where!r:.60}; draw the fabric"
            )
        return places[:1]

    def node(self, where: str) -> int:
        """Return a node by name that has cables outside the servers."""
        node = self.fabric.node(where)
        if not self.leaving(node).size:
            raise ValueError(f"{where} has no cable outside the servers; name a switch or a NIC")
        return int(node)


def _dirty_connector(levels: _Levels, cause: Cause) -> None:
    """Add decades of bit errors at once, with spikes, as dust moves; the module stays cool."""
    place = levels.one(cause.where)
    active = levels.since(cause) > 0
    spikes = np.minimum(levels.rng.exponential(0.6, active.size), 2.6)  # decades; illustrative
    levels.log_ber[:, place] += (active * (2.0 + spikes) * cause.strength)[:, None]
    levels.acts(cause, place, "bit_errors", "symbol_errors")


def _bad_module(levels: _Levels, cause: Cause) -> None:
    """Let a module grow warm within half an hour and lose a decade of bit errors in each hour."""
    place = levels.one(cause.where)
    since = np.maximum(levels.since(cause), 0.0)
    warmer = 18.0 * (1 - np.exp(-since / 1800.0))  # illustrative: deg C, and half an hour
    decades = np.minimum(since / 3600.0, 4.7)  # illustrative: one in an hour
    levels.temperature[:, place] += (cause.strength * warmer)[:, None]
    levels.log_ber[:, place] += (cause.strength * decades)[:, None]
    levels.acts(cause, place, "bit_errors", "symbol_errors", "temperature")


def _slow_nic(levels: _Levels, cause: Cause) -> None:
    """Let a NIC pause its switch, whose queue marks packets and pauses those that feed it; no bit is wrong."""
    node = levels.node(cause.where)
    into = levels.entering(node)
    active = levels.since(cause) > 0
    levels.pauses[np.ix_(active, into)] *= 40.0 * cause.strength
    levels.ecn_marks[np.ix_(active, into)] *= 15.0 * cause.strength
    switches = np.unique(levels.fabric.source[levels.link[into]])
    for switch in switches.tolist():
        feeds = np.setdiff1d(levels.entering(switch), levels.leaving(node))
        levels.pauses[np.ix_(active, feeds)] *= 1 + 2.0 * cause.strength  # victims
    levels.acts(cause, into, "pauses", "ecn_marks")


def _hot_switch(levels: _Levels, cause: Cause) -> None:
    """Warm all modules of a switch within a quarter of an hour, and their bit errors with them."""
    out = levels.leaving(levels.node(cause.where))
    since = np.maximum(levels.since(cause), 0.0)
    part = 1 - np.exp(-since / 900.0)  # illustrative: a quarter of an hour
    levels.temperature[:, out] += (25.0 * cause.strength * part)[:, None]
    levels.log_ber[:, out] += (0.8 * cause.strength * part)[:, None]
    levels.acts(cause, out, "temperature", "bit_errors")


def _ecn_too_high(levels: _Levels, cause: Cause) -> None:
    """Let a switch mark next to nothing, so that its queues grow until it pauses those that feed it."""
    node = levels.node(cause.where)
    active = levels.since(cause) > 0
    out = levels.leaving(node)
    feeds = levels.entering(node)
    levels.ecn_marks[np.ix_(active, out)] *= 0.02 / cause.strength
    levels.pauses[np.ix_(active, feeds)] *= 30.0 * cause.strength
    levels.acts(cause, out, "ecn_marks")
    levels.acts(cause, feeds, "pauses")


def _ecn_too_low(levels: _Levels, cause: Cause) -> None:
    """Let a switch mark packets although its queues are short: senders slow down, and nobody pauses."""
    out = levels.leaving(levels.node(cause.where))
    active = levels.since(cause) > 0
    levels.ecn_marks[np.ix_(active, out)] *= 30.0 * cause.strength
    levels.pauses[np.ix_(active, out)] *= 0.2
    levels.acts(cause, out, "ecn_marks")


def _no_headroom(levels: _Levels, cause: Cause) -> None:
    """Let a switch drop packets that arrive after it has asked for a pause, on the links that feed it."""
    feeds = levels.entering(levels.node(cause.where))
    active = levels.since(cause) > 0
    levels.discards[np.ix_(active, feeds)] += (
        0.1 * cause.strength * levels.pauses[np.ix_(active, feeds)]
    )
    levels.acts(cause, feeds, "discards")


_EFFECTS: Mapping[str, Callable[[_Levels, Cause], None]] = {
    "dirty connector": _dirty_connector,
    "bad module": _bad_module,
    "slow NIC": _slow_nic,
    "hot switch": _hot_switch,
    "ECN threshold too high": _ecn_too_high,
    "ECN threshold too low": _ecn_too_low,
    "missing headroom": _no_headroom,
}


def causes() -> tuple[str, ...]:
    """Return the kinds of causes that `observe` knows."""
    return tuple(_EFFECTS)


def observe(
    fabric: Fabric,
    why: Sequence[Cause] = (),
    *,
    samples: int = 240,
    interval: units.Quantity = _BASE_INTERVAL,
    seed: int = 0,
) -> Telemetry:
    """Return counters of all links outside the servers of a fabric over time.

    Every link carries the same load, which wanders around 60 % as that of a training job. Pauses and marks come in
    bursts. Leaves out how queues really move (the packet engine plays that) and links that go down.

    Parameters
    ----------
    fabric : Fabric
        The network.
    why : sequence of Cause
        What is wrong; nothing unless given.
    samples : int
        Intervals. >= 1
    interval : float or str
        Length of an interval. [s], > 0
    seed : int
        Seed of the background and of the spikes.
    """
    n_samples = units.count(samples, "samples")
    step = units.time(interval, "interval")
    if not step > 0:
        raise ValueError(f"interval must be > 0 s, got {interval!r:.60}; 30 s is usual")
    link = np.flatnonzero(outside(fabric) & (fabric.capacity > 0))
    check_memory(
        12 * 8 * n_samples * link.size,
        f"telemetry of {link.size:,} links",
        "take fewer samples, or a fabric with expand=False",
    )
    given = tuple(why)
    for cause in given:
        units.choice(cause.kind, "kind", _EFFECTS)
        if not units.is_number(cause.strength) or not 0 < cause.strength < math.inf:
            raise ValueError(f"strength must be > 0, got {cause.strength!r:.60}; 1 is usual")

    rng = np.random.default_rng(units.count(seed, "seed", 0))
    time = step * np.arange(1, n_samples + 1)
    levels = _Levels(fabric, link, time, _load(n_samples, rng), rng)
    for cause in given:
        _EFFECTS[units.choice(cause.kind, "kind", _EFFECTS)](levels, cause)

    return Telemetry(
        time=time,
        link=link,
        names=_names(fabric, link),
        values=ReadOnly(_drawn(levels, step)),
        causes=given,
        onsets=ReadOnly(levels.onsets),
    )


def _names(fabric: Fabric, link: Ints) -> tuple[str, ...]:
    """Return a name for each link; parallel ones have their numbers, too."""
    plain = [fabric.link_name(int(x)) for x in link]
    many = Counter(plain)
    names = []
    for name, number in zip(plain, link.tolist(), strict=True):
        names.append(f"{name} (link {number})" if many[name] > 1 else name)
    return tuple(names)


def _load(samples: int, rng: np.random.Generator) -> Floats:
    """Return the load of all links in each interval, (T,), as a part of their rate: it wanders and returns."""
    memory = 0.9 ** np.arange(samples)  # illustrative: of an interval for those before
    wander = np.convolve(rng.normal(0.0, 0.05, samples), memory)[:samples]
    return np.clip(_MEAN_LOAD + wander, 0.05, 1.0)


def _drawn(levels: _Levels, interval: float) -> dict[str, Floats]:
    """Return what the counters count, drawn around their expected levels."""
    rng = levels.rng
    ber = 10.0 ** np.minimum(levels.log_ber, _WORST_LOG_BER)
    bits = 8 * levels.fabric.capacity[levels.link] * interval  # (L,)
    uncorrectable = bits / _CODEWORD * coding.word_error(ber, _CODE)
    burst = rng.gamma(_BURSTS, 1 / _BURSTS, ber.shape)
    return {
        "bit_errors": rng.poisson(bits * ber).astype(np.float64),
        "symbol_errors": rng.poisson(uncorrectable).astype(np.float64),
        "pauses": rng.poisson(levels.pauses * burst).astype(np.float64),
        "ecn_marks": rng.poisson(levels.ecn_marks * burst).astype(np.float64),
        "discards": rng.poisson(levels.discards * burst).astype(np.float64),
        "temperature": levels.temperature,
    }
