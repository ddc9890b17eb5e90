"""Sequential tests: how soon a small loss of rate is noticed, and how often an alarm is false.

A single timing of a link that lost 1 % of its rate looks like any other, because noise is as large. `Cusum` adds up
what each timing says until the sum is beyond doubt; `Threshold` looks at each timing by itself. Both tell their average
run length: samples until an alarm on a healthy link (which is then false), or after the loss (which is the delay).

Examples
--------
>>> round(Cusum(shift=1, limit=5).run_length(0)), round(Cusum(shift=1, limit=5).run_length(1), 1)
(931, 10.4)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Floats, Ints

__all__ = ["Cusum", "RunLengths", "Threshold", "limit_for"]

Noise = Callable[[np.random.Generator, tuple[int, int]], Floats]

_NODES = 8  # of Gauss-Legendre quadrature on each panel as wide as a standard deviation
_MOST = 1e12  # run length above which the linear system of the exact one loses its digits
_WIDEST = 400.0  # limit above which that system has thousands of unknowns
_CHUNK = 512  # samples drawn at once
_LEAST = 1e-6  # limit that is next to none
_SIEGMUND = 1.166  # mean excess over both limits; source: Siegmund, Sequential Analysis, 1985


class RunLengths(NamedTuple):
    """Run lengths of a simulated test, (D,), in samples; draws that were cut off have the longest one."""

    length: Ints
    cut_off: int

    @property
    def mean(self) -> float:
        """Average run length [samples]; too short if draws were cut off."""
        return float(self.length.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean [samples]."""
        return float(self.length.std(ddof=1) / math.sqrt(self.length.size))

    def __repr__(self) -> str:
        """Show the mean with its standard error."""
        cut = f", {self.cut_off} cut off" if self.cut_off else ""
        return f"<RunLengths: {self.mean:.4g} +- {self.error:.2g} samples, {self.length.size} draws{cut}>"


def positive(value: float, name: str, advice: str) -> float:
    """Return a number above 0, or refuse it."""
    if not units.is_number(value) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name} must be a number > 0, got {value!r:.60}; {advice}")
    return float(value)


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return samples of a healthy link with normal noise: mean 0, standard deviation 1."""
    return rng.standard_normal(shape)


@dataclass(frozen=True, slots=True)
class Cusum:
    """One-sided cumulative sum of samples in standard deviations: S = max(0, S + z - shift / 2), alarm at S > limit.

    Parameters
    ----------
    shift : float
        The change that is to be found fastest, in standard deviations of one sample. > 0
    limit : float
        Sum at which there is an alarm, in standard deviations. > 0

    References
    ----------
    .. [1] E. S. Page, Continuous inspection schemes, Biometrika 41, 1954.
    .. [2] A. L. Goel, S. M. Wu, Determination of A.R.L. and a contour nomogram for CUSUM charts to control normal mean,
       Technometrics 13, 1971: the integral equation of the average run length.
    """

    shift: float
    limit: float

    def __post_init__(self) -> None:
        """Check both numbers."""
        positive(self.shift, "shift", "it is the change over the noise, see shift_of")
        positive(self.limit, "limit", "limit_for finds the one for a number of false alarms")

    def sums(self, samples: ArrayLike) -> Floats:
        """Return the sum after each sample, (T, ...), of samples in standard deviations, (T, ...)."""
        z = np.asarray(samples, dtype=np.float64)
        return self._continued(z, np.zeros(z.shape[1:]))

    def _continued(self, z: Floats, before: Floats) -> Floats:
        """Return the sums after samples (T, ...) that follow a sum (...)."""
        walk = before + np.cumsum(z - self.shift / 2, axis=0)
        # A walk that is lifted to 0 whenever it falls below is the walk minus its lowest point so far.
        lowest = np.minimum(np.minimum.accumulate(walk, axis=0), 0.0)
        return np.asarray(walk - lowest)

    def alarms(self, samples: ArrayLike) -> Ints:
        """Return the number of the first sample after which there is an alarm, from 1; 0 if there is none, (...)."""
        over = self.sums(samples) > self.limit
        first = np.argmax(over, axis=0) + 1
        return np.asarray(np.where(over.any(axis=0), first, 0), dtype=np.int64)

    def run_length(self, mean: float = 0.0) -> float:
        """Return the average run length [samples] on normal samples of a mean, in standard deviations, from sum 0.

        The integral equation L(s) = 1 + L(0) P(z < k - s) + integral of L(y) p(z = y + k - s) over 0..limit is solved
        on Gauss-Legendre nodes. Above 1e12 samples rounding errors show, and it is refused.
        """
        from scipy.special import ndtr

        if self.limit > _WIDEST:
            raise ValueError(
                f"limit must be at most {_WIDEST:g} for an exact run length, got {self.limit:g}; "
                "take fewer, longer samples"
            )
        panels = max(1, math.ceil(self.limit))
        inner, inner_weight = np.polynomial.legendre.leggauss(_NODES)
        width = self.limit / panels
        left = width * np.arange(panels)[:, None]
        node = (left + width * (inner + 1) / 2).ravel()
        weight = np.tile(width * inner_weight / 2, panels)

        start = np.append(0.0, node)  # (Q + 1,) sums from which a sample is taken
        drift = self.shift / 2 - mean
        to_zero = ndtr(drift - start)
        move = node[None, :] + drift - start[:, None]  # (Q + 1, Q)
        density = np.exp(-(move**2) / 2) / math.sqrt(2 * math.pi)
        system = np.eye(start.size)
        system[:, 0] -= to_zero
        system[:, 1:] -= density * weight
        length = float(np.linalg.solve(system, np.ones(start.size))[0])
        if not 0 < length < _MOST:
            raise ValueError(
                f"a run length must be below {_MOST:g} samples to be computed, got limit={self.limit:g}; lower it"
            )
        return length

    def simulate(
        self,
        mean: float = 0.0,
        draws: int = 2000,
        seed: int = 0,
        *,
        noise: Noise = normal,
        longest: int = 1_000_000,
    ) -> RunLengths:
        """Return the run lengths of simulated links.

        Parameters
        ----------
        mean : float
            Mean of all samples, in standard deviations; 0 is a healthy link.
        draws : int
            Links. >= 2
        seed : int
            Seed of the draws.
        noise : callable
            Called with a generator and a shape, returns samples of a healthy link; normal unless given.
        longest : int
            Samples after which a run is cut off. >= 1
        """
        rng = np.random.default_rng(units.count(seed, "seed", 0))
        n = units.count(draws, "draws", 2)
        most = units.count(longest, "longest")
        length = np.full(n, most, dtype=np.int64)
        alive = np.arange(n)
        sums = np.zeros(n)
        done = 0
        while alive.size and done < most:
            size = min(_CHUNK, most - done)
            z = noise(rng, (size, alive.size)) + mean
            path = self._continued(z, sums)
            over = path > self.limit
            ended = over.any(axis=0)
            length[alive[ended]] = done + 1 + np.argmax(over[:, ended], axis=0)
            alive = alive[~ended]
            sums = path[-1, ~ended]
            done += size
        return RunLengths(length, cut_off=int(alive.size))


@dataclass(frozen=True, slots=True)
class Threshold:
    """An alarm when a number of samples in a row are above a limit, which forgets all earlier ones.

    Parameters
    ----------
    limit : float
        Limit of one sample, in standard deviations.
    hold : int
        Samples in a row that have to be above it. >= 1
    """

    limit: float
    hold: int = 1

    def __post_init__(self) -> None:
        """Check both numbers."""
        if not units.is_number(self.limit) or not math.isfinite(self.limit):
            raise ValueError(f"limit must be a finite number, got {self.limit!r:.60}; 3 is usual")
        units.count(self.hold, "hold")

    def run_length(self, mean: float = 0.0) -> float:
        """Return the average run length [samples] on normal samples of a mean, in standard deviations.

        A run of m successes with probability p each comes after (1 - p^m) / (p^m (1 - p)) tries on average (W. Feller,
        An Introduction to Probability Theory and Its Applications I, XIII.7).
        """
        from scipy.special import ndtr

        p = float(ndtr(mean - self.limit))
        q = float(ndtr(self.limit - mean))  # 1 - p, which would lose its digits
        if p**self.hold == 0:
            return math.inf
        if q == 0:
            return float(self.hold)
        return (1 - p**self.hold) / (p**self.hold * q)


def limit_for(run_length: float, shift: float) -> float:
    """Return the limit with which a `Cusum` of a shift has an average run length [samples] on healthy links.

    Searched from the approximation of Siegmund (1985).

    Raises
    ------
    ValueError
        If no limit has this run length: one sample tells such a shift, or it is too long to be computed.
    """
    from scipy.optimize import brentq

    if not units.is_number(run_length) or not 2 < run_length < _MOST / 10:
        raise ValueError(
            f"run_length must be within 2..{_MOST / 10:g} samples, got {run_length!r:.60}; "
            "watch fewer links or allow more false alarms"
        )
    positive(shift, "shift", "it is the change over the noise, see shift_of")
    least = Cusum(shift, _LEAST).run_length()
    if least >= run_length:
        raise ValueError(
            f"run_length must be above {least:.3g} samples for a shift of {shift:.3g}, got {run_length:.3g}; "
            "one sample tells such a shift, take a Threshold"
        )

    # About exp(shift b) = run length shift^2 / 2, with b = limit + 1.166; the run length grows by e each 1 / shift.
    rough = math.log1p(run_length * shift**2 / 2) / shift - _SIEGMUND
    low = _LEAST
    high = max(rough - 1 / shift, 2 * _LEAST)
    while Cusum(shift, high).run_length() < run_length:
        low = high
        high += 1 / shift

    def excess(limit: float) -> float:
        return math.log(Cusum(shift, limit).run_length() / run_length)

    return float(brentq(excess, low, high, rtol=1e-10))
