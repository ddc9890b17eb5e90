"""Ranges instead of points: what an answer does when one input moves, and when all of them are drawn.

A `Range` has a low, a middle and a high value of one input, each with its source. `one_at_a_time` moves one input from
its low to its high end while all others stay in the middle. `draw` draws all of them at once.

Examples
--------
>>> import numpy as np
>>> from fabriclab.economics import Range, draw, one_at_a_time
>>> sides = {"width": Range(1, 2, 4, "m"), "length": Range(9, 10, 11, "m")}
>>> def area(width, length):
...     return width * length
>>> [(row.name, float(row.low), float(row.high)) for row in one_at_a_time(area, sides)]
[('width', 10.0, 40.0), ('length', 18.0, 22.0)]
>>> drawn = draw(area, sides, 10_000, rng=np.random.default_rng(0))
>>> drawn.value.shape, max(drawn.importance, key=drawn.importance.get)
((10000,), 'width')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Floats, ReadOnly, Spec, as_html, as_text

__all__ = ["Draws", "Range", "Swing", "draw", "of_specs", "one_at_a_time"]

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Range:
    """An input of which sources say different things: its low, middle and high value.

    Parameters
    ----------
    low, middle, high : float
        Values in the unit; low <= middle <= high.
    unit : str
        Unit of the three values, such as ``"USD"``.
    sources : tuple of str
        Keys of the table of sources, or what else the ends rest on.
    note : str
        What the range means and leaves out.

    Raises
    ------
    ValueError
        If the three values are not finite or not in this order.
    """

    low: float
    middle: float
    high: float
    unit: str = "1"
    sources: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        """Check the order of the three values; NaN fails."""
        values = (self.low, self.middle, self.high)
        if not (np.all(np.isfinite(values)) and self.low <= self.middle <= self.high):
            raise ValueError(
                f"a range must have finite values with low <= middle <= high, got {self.low!r}, {self.middle!r}, "
                f"{self.high!r} {self.unit}; sort them, or give the middle that you mean"
            )

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high value."""
        return self.low, self.high

    def widened(self, other: Range) -> Range:
        """Return the range with the ends and the sources of another one, and its own middle, unit and note."""
        return Range(
            min(self.low, other.low),
            self.middle,
            max(self.high, other.high),
            self.unit,
            tuple(dict.fromkeys(self.sources + other.sources)),
            self.note,
        )

    def __repr__(self) -> str:
        """Show the three values and the sources."""
        source = ", ".join(self.sources) or "no source"
        values = f"{self.middle:,.6g} ({self.low:,.6g} to {self.high:,.6g}) {self.unit}"
        return f"<Range {values}: {source}>"


def of_specs(
    middle: float,
    specs: tuple[Spec, ...],
    unit: str = "1",
    *,
    scale: float = 1.0,
    note: str = "",
) -> Range:
    """Return the range that rows of the catalog span around a middle value.

    Parameters
    ----------
    middle : float
        The value that is used where one is needed; the range is widened to hold it. In the unit of the result.
    specs : tuple of Spec
        Rows with a number, or with a range such as "36000-50000".
    unit : str
        Unit of the result.
    scale : float
        Factor from the SI value of the rows to the unit of the result, such as 1 / 48 for the price of 48 switches.
    note : str
        What the range means.
    """
    ends = [end * scale for spec in specs for end in spec.ends]
    sources = dict.fromkeys(key for spec in specs for key in spec.source.split("+"))
    return Range(min(middle, *ends), float(middle), max(middle, *ends), unit, tuple(sources), note)


class Swing(NamedTuple):
    """What an answer is at the low end, in the middle and at the high end of one input."""

    name: str
    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        """How far the two ends are apart, in the unit of the answer."""
        return abs(self.high - self.low)


def one_at_a_time(function: Function, inputs: Mapping[str, Range]) -> tuple[Swing, ...]:
    """Return what an answer does when one input at a time moves to its ends, the widest swing first.

    Leaves out what happens between the ends, and inputs that move together: `draw` has both.

    Parameters
    ----------
    function : callable
        Takes each input by name and returns one number.
    inputs : mapping of str to Range
        The inputs by the names of the function's arguments.
    """
    _check(inputs)
    middles = {name: reach.middle for name, reach in inputs.items()}
    middle = float(function(**middles))
    rows = []
    for name, reach in inputs.items():
        low = float(function(**{**middles, name: reach.low}))
        high = float(function(**{**middles, name: reach.high}))
        rows.append(Swing(name, low, middle, high))
    return tuple(sorted(rows, key=lambda row: -row.width))


@dataclass(frozen=True, eq=False)
class Draws:
    """An answer for many draws of its inputs.

    Parameters
    ----------
    value : ndarray of float, shape (n,)
        The answer of each draw.
    inputs : mapping of str to ndarray, each of shape (n,)
        What was drawn.
    """

    value: Floats
    inputs: Mapping[str, Floats]

    def quantile(self, share: ArrayLike) -> Any:
        """Return the value that a share of the draws does not exceed; ``share`` is 0..1, of any shape."""
        return np.quantile(self.value, np.asarray(share, dtype=float))

    @property
    def importance(self) -> Mapping[str, float]:
        """How much of the spread each input explains: its squared rank correlation, divided by their sum.

        It finds what rises or falls steadily with an input, and is 0 for all inputs where nothing varies.
        """
        ranks = _ranks(self.value)
        squares = {name: _correlation(_ranks(x), ranks) ** 2 for name, x in self.inputs.items()}
        total = sum(squares.values())
        shares = {name: square / total if total else 0.0 for name, square in squares.items()}
        return ReadOnly(dict(sorted(shares.items(), key=lambda item: -item[1])))

    def rows(self) -> list[list[str]]:
        """Return a table with its heading: each input and the share of the spread that it explains."""
        return [
            ["input", "explains"],
            *([name, units.format_share(share)] for name, share in self.importance.items()),
        ]

    def draw(self) -> str:
        """Return the table as text."""
        return as_text(self.rows())

    def __repr__(self) -> str:
        """Show the median and the range that holds four of five draws."""
        low, middle, high = self.quantile([0.1, 0.5, 0.9])
        return f"<Draws: {self.value.size:,}, median {middle:.4g}, four of five within {low:.4g} to {high:.4g}>"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def draw(
    function: Function,
    inputs: Mapping[str, Range],
    n: int = 10_000,
    *,
    rng: np.random.Generator,
) -> Draws:
    """Return an answer for ``n`` draws of all inputs at once.

    Each input has a triangular distribution between its ends with its peak at the middle, and inputs are independent:
    both are assumptions, since sources print values and no distributions.

    Parameters
    ----------
    function : callable
        Takes each input by name as an array of shape (n,), and returns an array of that shape.
    inputs : mapping of str to Range
        The inputs by the names of the function's arguments.
    n : int
        Number of draws. >= 2
    rng : numpy.random.Generator
        Source of randomness; the same seed gives the same draws.
    """
    _check(inputs)
    many = units.count(n, "n", 2)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, got {rng!r:.60}; write np.random.default_rng(0)"
        )
    drawn = {name: _triangular(reach, many, rng) for name, reach in inputs.items()}
    value = np.asarray(function(**drawn), dtype=float)
    if value.shape != (many,):
        raise ValueError(
            f"function must return one value for each of {many} draws, got the shape {value.shape}; compute with "
            "arrays, not with single numbers"
        )
    return Draws(value, ReadOnly(drawn))


def _triangular(reach: Range, n: int, rng: np.random.Generator) -> Floats:
    """Return ``n`` draws of a range; a range of no width is drawn as its only value."""
    if reach.low == reach.high:
        return np.full(n, reach.low)
    return np.asarray(rng.triangular(reach.low, reach.middle, reach.high, n))


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value, (n,); equal values have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean = last - (counts - 1) / 2
    return np.asarray(mean[place])


def _correlation(one: Floats, other: Floats) -> float:
    """Return the correlation of two columns, 0 where one does not vary."""
    one = one - one.mean()
    other = other - other.mean()
    size = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum()) / size if size else 0.0


def _check(inputs: Mapping[str, Range]) -> None:
    """Refuse inputs that are not ranges."""
    if not isinstance(inputs, Mapping) or not inputs:
        raise TypeError(
            f"inputs must be a dict of ranges by name, got {inputs!r:.60}; write "
            '{"server": Range(270e3, 310e3, 317e3, "USD")}'
        )
    for name, reach in inputs.items():
        if not isinstance(reach, Range):
            raise TypeError(
                f"{name} must be a Range, got {reach!r:.60}; write Range(low, middle, high, unit)"
            )
