"""Causes that a single line gives away; the lines are in ``causes.toml``."""

import re
from collections.abc import Iterator

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.suspicion import Suspicion, causes
from fabriclab.importers.lines import Line
from fabriclab.registry import register


@register("suspect", "signs")
def signs(case: Case) -> Iterator[Suspicion]:
    """Suspect each cause of which a line gives a sign.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for cause, about in causes().items():
        for sign in about["signs"]:
            if sign["only"] and not case.several_servers:
                continue
            line = _first(case, sign["word"], sign["pattern"])
            if line:
                yield Suspicion(cause, sign["sure"], line, also=sign.get("also", ""))


@register("suspect", "variables that are set")
def variables_that_are_set(case: Case) -> Iterator[Suspicion]:
    """Suspect each cause of which a variable that switches something off is set, wherever it is set.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for cause, about in causes().items():
        if "set_so" not in about or (cause == "fallback_to_sockets" and case.one_server):
            continue
        for entry in about["unset"]:
            name, _, value = entry.partition("=")
            given = case.setting(name)
            if given and value and given[0].strip().lower() == value:
                yield Suspicion(cause, about["set_so"], given[1], f"{name} is {given[0].strip()}")


def _first(case: Case, word: str, pattern: str) -> Line | None:
    """Return the first line with a word that matches a pattern as well."""
    asks_for_figures = any(letter.isdigit() for letter in word + pattern)
    lines = case.lines_with(word) if asks_for_figures else case.kinds_of_lines_with(word)
    for line in lines:
        if not pattern or re.search(pattern, line.text, re.IGNORECASE):
            return line
    return None
