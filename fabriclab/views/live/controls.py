"""Controls of live views: what a hand may set, and what it may not."""

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
        Equal factors are equal ways.
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
        low = 0.0 if self.log else -np.inf
        if (
            not (low < self.low < self.high < np.inf and self.step > 0)
            and not 0 <= self.low == self.high
        ):
            above = "0 < low < high" if self.log else "low < high"
            msg = f"a slider needs {above} and step > 0, got {self.low!r}, {self.high!r}, step {self.step!r}"
            raise ValueError(msg)

    def check(self, value: Any, name: str) -> float:
        """Return a value within the ends, or refuse it by name."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float | np.number)
            or not np.isfinite(value)
        ):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not self.low <= value <= self.high:
            raise ValueError(f"{name} must be within {self.low:g}..{self.high:g}, got {value:g}")
        if self.log or any(v != int(v) for v in (self.low, self.step)):
            return float(value)
        return min(
            int(self.low + round((value - self.low) / self.step) * self.step), int(self.high)
        )

    def __repr__(self) -> str:
        """Show the call that makes it."""
        more = {k: getattr(self, k) for k in ("step", "label", "unit", "log", "play")}
        words = [f"{k}={v!r}" for k, v in more.items() if v != getattr(type(self), k)]
        return f"fl.live.Slider({', '.join([repr(self.low), repr(self.high), *words])})"

    def samples(self) -> list[Any]:
        """Return values that a law may try: both ends and one between."""
        middle = (self.low * self.high) ** 0.5 if self.log else (self.low + self.high) / 2
        return list(dict.fromkeys(self.check(v, "value") for v in (self.low, middle, self.high)))


@dataclass(frozen=True)
class Choice:
    """One of several words or numbers."""

    options: tuple[Any, ...]
    label: str = ""

    def check(self, value: Any, name: str) -> Any:
        """Return the option, or refuse it with the list."""
        if value not in self.options:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, self.options))}, got {value!r}"
            )
        # of Python's own type, so that it can be typed back
        return self.options[self.options.index(value)]

    def __repr__(self) -> str:
        """Show the call that makes it."""
        return f"fl.live.Choice({self.options!r}{f', {self.label!r}' if self.label else ''})"

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
