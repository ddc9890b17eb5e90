"""Controls of live views: a slider and a choice, with the check of what is set."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Slider:
    """A number between two ends; ``play`` adds buttons that step through it.

    Parameters
    ----------
    low, high, step : float
        Ends and step; whole numbers stay whole.
    label, unit : str
        What the learner reads beside it.
    log : bool
        Equal factors are equal distances on the slider.
    """

    low: float
    high: float
    step: float = 1
    label: str = ""
    unit: str = ""
    log: bool = False
    play: bool = False

    def __post_init__(self) -> None:
        """Refuse ends and steps that no slider can have."""
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
        """Return a value within the ends, or refuse it by name; of whole steps the nearest one, as an int."""
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
        """Whether all values are whole numbers, since the first one and the steps are."""
        return self.low == int(self.low) and self.step == int(self.step)

    def __repr__(self) -> str:
        """Show the call that makes it."""
        words = [repr(self.low), repr(self.high)]
        for name in ("step", "label", "unit", "log", "play"):
            value = getattr(self, name)
            default = getattr(type(self), name)
            if value != default:
                words.append(f"{name}={value!r}")
        return f"fl.live.Slider({', '.join(words)})"

    def samples(self) -> list[Any]:
        """Return values that a law may try: both ends and one between, each once."""
        middle = (self.low + self.high) / 2
        if self.log:
            middle = (self.low * self.high) ** 0.5
        values = [self.check(value, "value") for value in (self.low, middle, self.high)]
        return list(dict.fromkeys(values))


@dataclass(frozen=True)
class Choice:
    """One of several words or numbers."""

    options: tuple[Any, ...]
    label: str = ""

    def check(self, value: Any, name: str) -> Any:
        """Return the option, or refuse it with the list."""
        if value not in self.options:
            options = ", ".join(map(repr, self.options))
            raise ValueError(f"{name} must be one of {options}, got {value!r}")
        # The option itself, of Python's own type, so that it can be typed back.
        return self.options[self.options.index(value)]

    def __repr__(self) -> str:
        """Show the call that makes it."""
        if self.label:
            return f"fl.live.Choice({self.options!r}, {self.label!r})"
        return f"fl.live.Choice({self.options!r})"

    def samples(self) -> list[Any]:
        """Return values that a law may try: all options."""
        return list(self.options)


Control = Slider | Choice
MOST_CONTROLS = 3  # a fourth is one too many to follow with the eye


def range_of(control: Control) -> str:
    """Return what a control may be set to, in words."""
    if isinstance(control, Choice):
        return ", ".join(map(repr, control.options))
    return f"{control.low:g} .. {control.high:g} {control.unit}".rstrip()


def name_of(value: Any, otherwise: str) -> str:
    """Return the name under which a learner's function can be typed, or a word that stands for it."""
    name = getattr(value, "__name__", "")
    return name if name.isidentifier() else otherwise
