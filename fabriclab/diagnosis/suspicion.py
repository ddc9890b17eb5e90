"""A suspicion: a cause, how sure the files make us of it, and the lines that show it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fabriclab.importers.lines import Line

__all__ = ["Suspicion", "cause_words", "causes"]


class Suspicion(NamedTuple):
    """A cause of `causes`, how sure we are of it (0 to 1), the line that shows it best, and why, in words.

    ``where`` is empty if no single line shows it. ``also`` is a setting that helps where this sign is seen, and not
    with every other sign of the cause. ``instead`` and ``action`` take the place of the setting and the action of the
    cause where the files show more than the cause's own words; ``gains`` is False if the setting was in force in the
    runs that are slow, and so brings nothing.
    """

    cause: str
    sure: float
    where: Line | None
    why: str = ""
    also: str = ""
    instead: str = ""
    action: str = ""
    gains: bool = True


@cache
def causes() -> Mapping[str, Mapping[str, Any]]:
    """Return the causes of ``causes.toml`` with their words and signs."""
    text = Path(__file__).with_name("causes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def cause_words(cause: str, key: str) -> str:
    """Return a sentence about a cause: its title, because, action, setting or source."""
    return str(causes()[cause][key])
