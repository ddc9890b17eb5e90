"""The slowest of many: what n ranks wait for, when each of them is late at random.

A step of a synchronous job ends when its last rank is done, so its time is the maximum of n latencies. What is rare for
one rank happens in every step of many. Latencies are independent and of one distribution; one rank that is always slow
is a fault, and `fabriclab.diagnosis` has those.

Examples
--------
A rank is 2 ms late in one of 1,000 steps. Of 1,024 ranks one is late in two of three steps:

>>> from fabriclab import operations
>>> from fabriclab.units import format_share, format_time
>>> rank = operations.Spikes(base="1 ms", extra="2 ms", chance=0.001)
>>> format_share(rank.chance_of_any(1024)), format_time(rank.mean_of_max(1024))
('64 %', '2.28 ms')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Floats

__all__ = ["Exponential", "Latency", "LogNormal", "Normal", "Observed", "Spikes"]

_EULER = 0.5772156649015329
_ALMOST_ONE = 1 - 2.0**-53
# Nodes of the integral of a mean: u = exp(s) from about 1e-18 to 55, beyond which exp(-u) leaves nothing.
_S = np.linspace(-41.0, 4.0, 1801)


class Latency:
    """Latency of one rank as a random variable, by the value that it exceeds with a given chance."""

    def exceeded(self, chance: ArrayLike) -> Floats:
        """Return the latency that is exceeded with some chance, in the shape of ``chance``. 0..1, [s]."""
        raise NotImplementedError

    def mean_of_max(self, n: int) -> float:
        """Return the mean of the largest of ``n`` latencies. [s].

        The largest of n lies below x with the chance F(x)^n. With u = -n ln F(x) its mean is the integral of
        x(u) exp(-u) over all u > 0, taken here by the trapezoidal rule over ln u.
        """
        u = np.exp(_S)
        tail = -np.expm1(-u / units.count(n, "n"))  # chance that one rank is later
        tail = np.minimum(tail, _ALMOST_ONE)  # where u is large and exp(-u) leaves nothing anyway
        values = self.exceeded(tail) * np.exp(-u) * u
        return float(np.trapezoid(values, _S))

    def percentile_of_max(self, q: float, n: int) -> float:
        """Return the ``q``-th percentile of the largest of ``n`` latencies, such as 99. 0..100, ends excluded. [s]."""
        if not 0 < q < 100:
            raise ValueError(f"q must be within 0..100, ends excluded, got {q!r}; p99 is 99")
        return float(self.exceeded(-np.expm1(np.log(q / 100) / units.count(n, "n"))))

    def draw_max(self, n: int, steps: int, seed: int = 0) -> Floats:
        """Return the largest of ``n`` latencies in each of some steps, (steps,). [s].

        Each maximum is drawn by itself, from its own distribution, so 100,000 ranks take no longer than one.
        """
        rng = np.random.default_rng(units.count(seed, "seed", 0))
        below = rng.random(units.count(steps, "steps"))
        # 1 - below, which is never 0, is as uniform
        return self.exceeded(-np.expm1(np.log1p(-below) / units.count(n, "n")))


@dataclass(frozen=True, slots=True)
class Exponential(Latency):
    """A latency of at least ``base``, and beyond that exponential with a mean of ``mean``. [s], >= 0."""

    base: float
    mean: float

    def __post_init__(self) -> None:
        """Read both times."""
        _read(self, "base", "mean")

    def exceeded(self, chance: ArrayLike) -> Floats:
        """Return base - mean ln(chance)."""
        return np.asarray(self.base - self.mean * np.log(_chance(chance)))

    def mean_of_max(self, n: int) -> float:
        """Return base + mean (1 + 1/2 + ... + 1/n): each rank that is left takes its share of the mean."""
        ranks = units.count(n, "n")
        if ranks < 1_000_000:
            harmonic = float(np.sum(1 / np.arange(1, ranks + 1)))
        else:
            harmonic = float(np.log(ranks) + _EULER + 1 / (2 * ranks))
        return self.base + self.mean * harmonic


@dataclass(frozen=True, slots=True)
class Normal(Latency):
    """A latency that varies about ``mean`` with the standard deviation ``sd``, in both directions. [s], >= 0."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        """Read both times."""
        _read(self, "mean", "sd")

    def exceeded(self, chance: ArrayLike) -> Floats:
        """Return the mean and a number of standard deviations."""
        return np.asarray(self.mean + self.sd * _deviations(chance))


@dataclass(frozen=True, slots=True)
class LogNormal(Latency):
    """A latency with a long tail: its logarithm is normal, about ``median`` [s], with a deviation of ``sigma``."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        """Read the median and check sigma."""
        _read(self, "median")
        if not 0 <= self.sigma < np.inf:
            raise ValueError(
                f"sigma must be finite and >= 0, got {self.sigma!r}; 0.5 is a factor of 1.65"
            )

    def exceeded(self, chance: ArrayLike) -> Floats:
        """Return the median times the exponential of a number of deviations."""
        return np.asarray(self.median * np.exp(self.sigma * _deviations(chance)))


@dataclass(frozen=True, slots=True)
class Spikes(Latency):
    """A latency of ``base`` [s], and ``extra`` [s] more with a chance of ``chance`` (0..1): a spike, or a slow rank."""

    base: float
    extra: float
    chance: float

    def __post_init__(self) -> None:
        """Read both times and check the chance."""
        _read(self, "base", "extra")
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance must be within 0..1, got {self.chance!r}; 0.1 % is 0.001")

    def exceeded(self, chance: ArrayLike) -> Floats:
        """Return the latency with its spike where the chance is below that of a spike."""
        return np.asarray(self.base + self.extra * (_chance(chance) < self.chance))

    def chance_of_any(self, n: int) -> float:
        """Return the chance that at least one of ``n`` ranks has a spike: 1 - (1 - chance)^n."""
        ranks = units.count(n, "n")
        if self.chance == 1:
            return 1.0
        return float(-np.expm1(ranks * np.log1p(-self.chance)))

    def mean_of_max(self, n: int) -> float:
        """Return the base, and the spike as often as any rank has one."""
        return self.base + self.extra * self.chance_of_any(n)


class Observed(Latency):
    """Latencies as they were measured: each of the samples is as likely as every other.

    The largest of many ranks can then be no later than the latest sample. With more ranks than samples the mean of the
    maximum is too low.

    Parameters
    ----------
    samples : (K,) array_like
        Measured latencies. [s]
    """

    def __init__(self, samples: ArrayLike) -> None:
        """Sort the samples."""
        values = np.sort(np.asarray(samples, dtype=np.float64).ravel())
        if not values.size or not np.all(np.isfinite(values)):
            raise ValueError(
                f"samples must be finite numbers, at least one, got {samples!r:.60}; give latencies in seconds"
            )
        self.samples = values

    def exceeded(self, chance: ArrayLike) -> Floats:
        """Return the sample that so large a share of them exceeds."""
        rank = np.ceil((1 - _chance(chance)) * self.samples.size) - 1
        return np.asarray(self.samples[np.clip(rank, 0, self.samples.size - 1).astype(np.int64)])

    def mean_of_max(self, n: int) -> float:
        """Return the sum of the samples, each with the chance that it is the largest of n that are drawn."""
        size = self.samples.size
        below = (np.arange(size + 1) / size) ** units.count(
            n, "n"
        )  # chance that all n are among the first
        return float(self.samples @ np.diff(below))

    def __repr__(self) -> str:
        """Show the number of samples and their ends."""
        low, high = (units.format_time(float(t)) for t in self.samples[[0, -1]])
        return f"<Observed: {self.samples.size:,} latencies of {low} to {high}>"


def _read(latency: Any, *names: str) -> None:
    """Turn the times of a latency into seconds."""
    for name in names:
        object.__setattr__(latency, name, units.time(getattr(latency, name), name))


def _chance(chance: ArrayLike) -> Floats:
    """Return chances as an array, or refuse what is none; 0 would be exceeded never."""
    values = np.asarray(chance, dtype=np.float64)
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(
            f"chance must be within 0..1, got {chance!r:.60}; p99 is exceeded with 0.01"
        )
    return values


def _deviations(chance: ArrayLike) -> Floats:
    """Return by how many standard deviations a normal variable is exceeded with some chance."""
    from scipy.special import ndtri

    return np.asarray(-ndtri(_chance(chance)))
