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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fabriclab import spelling, units
from fabriclab.core import Fabric, Floats, Ints, ReadOnly, as_html, as_text, check_memory
from fabriclab.metrics.hops import outside
from fabriclab.operations.causes import BASE_INTERVAL, COUNTERS, EFFECTS, Cause, Levels
from fabriclab.physics import coding

__all__ = ["COUNTERS", "Cause", "Telemetry", "cause_kinds", "observe"]

_CODE = "RS(544,514)"
_CODEWORD = 5440  # bits of that code: 544 symbols of 10

# The background; illustrative.
_BURSTS = (
    0.5  # shape of the gamma distribution of bursts; below 1 is burstier than a Poisson process
)
_MEAN_LOAD = 0.6
_WORST_LOG_BER = -2.0  # a receiver that is worse has lost the link


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
                    f"{t:.10g},{n},{counter},{v:.10g}" for n, v in zip(self.names, row, strict=True)
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


def cause_kinds() -> tuple[str, ...]:
    """Return the kinds of causes that `observe` knows."""
    return tuple(EFFECTS)


def observe(
    fabric: Fabric,
    why: Sequence[Cause] = (),
    *,
    samples: int = 240,
    interval: units.Quantity = BASE_INTERVAL,
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
        units.choice(cause.kind, "kind", EFFECTS)
        if not units.is_number(cause.strength) or not 0 < cause.strength < math.inf:
            raise ValueError(f"strength must be > 0, got {cause.strength!r:.60}; 1 is usual")

    rng = np.random.default_rng(units.count(seed, "seed", 0))
    time = step * np.arange(1, n_samples + 1)
    levels = Levels(fabric, link, time, _load(n_samples, rng), rng)
    for cause in given:
        EFFECTS[units.choice(cause.kind, "kind", EFFECTS)](levels, cause)

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


def _drawn(levels: Levels, interval: float) -> dict[str, Floats]:
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
