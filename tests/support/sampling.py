"""Which cases a push runs, where each takes long and all of them test the same thing."""

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Return cases as parameters: the first and every n-th after it run on each push, all before a release."""
    marked = []
    for place, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = () if place % every == 0 else (pytest.mark.slow,)
        marked.append(pytest.param(*values, marks=marks))
    return marked
