"""Controls of live views: a slider and a choice, which check the values that they are set to."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.texts import text
from fabriclab.views.sweeps import readable

# Units in which a reader sees the value of a slider: the largest of its row of which the value is at least one.
# A row goes down only as far as engineers write it: a cable is 0.5 m long, and not 500 mm.
_LADDERS = (
    ("ns", "µs", "ms", "s"),
    ("B", "KiB", "MiB", "GiB", "TiB"),
    ("B", "kB", "MB", "GB", "TB"),
    ("kB/s", "MB/s", "GB/s", "TB/s"),
    ("kb/s", "Mb/s", "Gb/s", "Tb/s"),
    ("m", "km"),
)
_SHOWN_DIGITS = 6  # significant digits of the value of a slider


def routing_name(routing: str) -> str:
    """Return the name of a routing as engineers write it, such as "ECMP" for "ecmp"."""
    return text(f"routing.{routing}")


@dataclass(frozen=True)
class Slider:
    """A slider for a number between two ends; ``play`` adds buttons that step through the values, one each ``beat``.

    Parameters
    ----------
    low, high, step : float
        Both ends and the step. If ``low`` and ``step`` are whole numbers, so are all values of a linear slider.
    label, unit : str
        What a reader sees beside the slider.
    log : bool
        Whether the scale is logarithmic: equal factors are equal distances on the slider.
    beat : float
        Time from one value to the next while it plays, by default a second. [ms]
    """

    low: float
    high: float
    step: float = 1
    label: str = ""
    unit: str = ""
    log: bool = False
    play: bool = False
    beat: float = 1000.0

    def __post_init__(self) -> None:
        """Raise if the ends or the step are impossible for a slider."""
        below = 0.0 if self.log else -np.inf
        is_range = below < self.low < self.high < np.inf and self.step > 0
        is_point = 0 <= self.low == self.high
        if not is_range and not is_point:
            order = "0 < low < high" if self.log else "low < high"
            msg = (
                f"a slider needs {order} and step > 0, "
                f"got {self.low!r}, {self.high!r}, step {self.step!r}"
            )
            raise ValueError(msg)

    def check(self, value: Any, name: str) -> float:
        """Return a value between the ends, or raise an error that names it; whole steps give the nearest int."""
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not np.isfinite(value):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not self.low <= value <= self.high:
            raise ValueError(f"{name} must be within {self.low:g}..{self.high:g}, got {value:g}")
        if self.log or not self._is_whole:
            return float(value)
        steps = round((value - self.low) / self.step)
        # Where steps do not divide the range, the nearest one may lie above the end: then the end itself.
        return min(int(self.low + steps * self.step), int(self.high))

    @property
    def _is_whole(self) -> bool:
        """Whether all values are whole numbers, because the lowest value and the step are."""
        return self.low == int(self.low) and self.step == int(self.step)

    def __repr__(self) -> str:
        """Show the call that makes it."""
        words = [repr(self.low), repr(self.high)]
        for name in ("step", "label", "unit", "log", "play", "beat"):
            value = getattr(self, name)
            default = getattr(type(self), name)
            if value != default:
                words.append(f"{name}={value!r}")
        return f"fl.live.Slider({', '.join(words)})"

    def samples(self) -> list[Any]:
        """Return some values that are allowed, without repetition: the low end, one in between, and the high end."""
        middle = (self.low + self.high) / 2
        if self.log:
            middle = (self.low * self.high) ** 0.5
        values = [self.check(value, "value") for value in (self.low, middle, self.high)]
        return list(dict.fromkeys(values))


@dataclass(frozen=True)
class Choice:
    """A choice of one among several words or numbers; ``names`` are what a reader sees in their place."""

    options: tuple[Any, ...]
    label: str = ""
    names: tuple[str, ...] = ()

    def check(self, value: Any, name: str) -> Any:
        """Return the option, or raise an error that lists all options."""
        if value not in self.options:
            options = ", ".join(map(repr, self.options))
            raise ValueError(f"{name} must be one of {options}, got {value!r}")
        # The option itself, which has Python's own type, so that a line of code can show it.
        return self.options[self.options.index(value)]

    def __repr__(self) -> str:
        """Show the call that makes it."""
        words = [repr(self.options)]
        if self.label:
            words.append(repr(self.label))
        if self.names:
            words.append(f"names={self.names!r}")
        return f"fl.live.Choice({', '.join(words)})"

    def samples(self) -> list[Any]:
        """Return all options, which are the values that are allowed."""
        return list(self.options)


Control = Slider | Choice
MOST_CONTROLS = 3  # a reader cannot follow more at once


def ladder_of(unit: str) -> list[tuple[str, float]]:
    """Return the units in which values of a slider are shown, smallest first, each with its size in its ``unit``.

    Examples
    --------
    >>> ladder_of("s")
    [('ns', 1e-09), ('µs', 1e-06), ('ms', 0.001), ('s', 1.0)]
    >>> ladder_of("%")
    [('%', 1.0)]
    """
    for ladder in _LADDERS:
        if units.printed(unit) in ladder:
            return [(step, float(f"{_size_of(step, unit):.15g}")) for step in ladder]
    return [(units.printed(unit), 1.0)]


def typed_units(unit: str) -> dict[str, float]:
    """Return every unit in which a value of a slider in ``unit`` can be typed, each with its size in ``unit``."""
    if unit not in units.UNITS:
        return {unit: 1.0}
    quantity, _ = units.UNITS[unit]
    found = {}
    for spelled, (of, _) in units.UNITS.items():
        if of == quantity:
            found[spelled] = float(f"{_size_of(spelled, unit):.15g}")
    return found


def _size_of(unit: str, other: str) -> float:
    """Return how many of another unit of the same quantity one ``unit`` is."""
    return units.UNITS[unit][1] / units.UNITS[other][1]


def natural(value: float, unit: str, least: float = 0.0) -> str:
    """Return a value of a slider in its natural unit, as card.js shows it; zero has the unit of ``least``.

    Examples
    --------
    >>> natural(1048576, "KiB"), natural(0.00016, "s"), natural(12288, "")
    ('1 GiB', '160 µs', '12,288')
    """
    ladder = ladder_of(unit)
    size = abs(value) or least
    fitting = [step for step in ladder if size >= step[1] * (1 - 1e-9)]
    shown, factor = fitting[-1] if fitting else ladder[0]
    number = float(f"{value / factor:.{_SHOWN_DIGITS}g}")
    whole, point, fraction = np.format_float_positional(number, trim="-").partition(".")
    with_commas = re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", whole)
    return f"{with_commas}{point}{fraction} {shown}".rstrip()


def option_name(option: Any) -> str:
    """Return the name of an option that was given none: an id as engineers write it, a number with its commas.

    Examples
    --------
    >>> option_name("all_reduce"), option_name(1024), option_name(0.0), option_name(0.001)
    ('all-reduce', '1,024', '0', '0.001')
    """
    is_number = isinstance(option, int | float | np.number) and not isinstance(option, bool)
    if not is_number:
        return readable(str(option))
    if isinstance(option, int | np.integer):
        return f"{option:,d}"
    return f"{option:,.{_SHOWN_DIGITS}g}"


def range_of(control: Control) -> str:
    """Return in words which values a control can be set to."""
    if isinstance(control, Choice):
        return ", ".join(map(repr, control.options))
    low = natural(control.low, control.unit, control.high)
    return f"{low} .. {natural(control.high, control.unit)}"


def name_of(value: Any, otherwise: str) -> str:
    """Return the name under which a learner can type a value, such as a function, or a word that stands for it."""
    name = getattr(value, "__name__", "")
    return name if name.isidentifier() else otherwise
