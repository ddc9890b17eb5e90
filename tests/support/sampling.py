"""Which cases and how many examples a push runs, where each takes long and all of them test the same thing."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Return cases as parameters: the first and every n-th after it run on each push, all before a release."""
    marked = []
    for place, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = () if place % every == 0 else (pytest.mark.slow,)
        marked.append(pytest.param(*values, marks=marks))
    return marked


def few(examples: int) -> settings:
    """Return settings with so many examples of a law on each push, and else with those of the profile."""
    usual = settings.default.max_examples
    is_push = usual <= settings.get_profile("ci").max_examples
    return settings(max_examples=examples if is_push else usual)
