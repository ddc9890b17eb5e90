"""Interleaved pairs: time ours and a peer in turns, and say when the machine was too busy to tell.

One run says nothing on a shared machine. Here both sides run in turns, so slow moments hit both;
each pair gives one ratio; the median ratio is the result, and the quartiles are its spread.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

SPREAD = 1.5  # quartiles of the ratio further apart than this factor: no verdict


@dataclass(frozen=True)
class Pairs:
    """Times of interleaved pairs [s], and the 1-minute load and the cores when they began."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]
    load: float
    cores: int

    @property
    def ratios(self) -> list[float]:
        """Return how many times faster ours was, one number per pair."""
        return [peer / ours for ours, peer in zip(self.ours, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        """Return the median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Return the lower and the upper quartile of the ratios."""
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    @property
    def doubt(self) -> str:
        """Return why the ratio proves nothing, or an empty text."""
        if self.load > self.cores / 2:
            return f"load {self.load:.1f} on {self.cores} cores at the start"
        low, high = self.quartiles
        return f"quartiles {low:.2f} to {high:.2f} are too far apart" if high > SPREAD * low else ""

    def verdict(self, at_least: float) -> str:
        """Return ``"reached"``, ``"missed"`` or ``"not conclusive"`` for a ratio that is asked for."""
        if self.doubt:
            return "not conclusive"
        return "reached" if self.ratio >= at_least else "missed"

    def line(self, what: str, at_least: float) -> str:
        """Return one printable line: medians, ratio, spread, verdict."""
        ours, peer = statistics.median(self.ours), statistics.median(self.peer)
        low, high = self.quartiles
        text = (
            f"{what}: ours {ours:.4g} s, peer {peer:.4g} s, ratio {self.ratio:.2f} "
            f"(quartiles {low:.2f} to {high:.2f}, {len(self.ours)} pairs), wanted {at_least:g}: "
            f"{self.verdict(at_least)}"
        )
        return f"{text} ({self.doubt})" if self.doubt else text


def _timed(function: Callable[[], Any]) -> float:
    start = perf_counter()
    own = function()
    # A peer that runs in another process reports its own time, without the start of that process.
    return float(own) if isinstance(own, float) else perf_counter() - start


def interleaved(ours: Callable[[], Any], peer: Callable[[], Any], n_pairs: int = 5) -> Pairs:
    """Time both functions in turns and return the pairs.

    Parameters
    ----------
    ours, peer : callable
        Without arguments. A float that one returns is taken as its time [s]; for anything else the
        clock around the call counts.
    n_pairs : int
        At least 2. Which side goes first changes from pair to pair.

    Raises
    ------
    ValueError
        If ``n_pairs`` is below 2.
    """
    if n_pairs < 2:
        msg = f"n_pairs must be >= 2, got {n_pairs}: one pair has no spread"
        raise ValueError(msg)
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(n_pairs):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            times[side].append(_timed((ours, peer)[side]))
    return Pairs(tuple(times[0]), tuple(times[1]), load, cores)
