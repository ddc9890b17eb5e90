"""Lesson 62: the interval between two checkpoints that loses least."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    explained,
    first_wrong,
    is_same,
    mistake_of,
    number_of,
)
from fabriclab.operations.checkpoints import Checkpoints
from fabriclab.registry import register
from fabriclab.texts import text

Interval = Callable[
    [float, float], Any
]  # time of a checkpoint, mean time between failures -> work between two [s]

_CLOSE = 0.12  # illustrative: a list of intervals ends within 10 % here; the factors of the mistakes are 1.4 and more
_NAMED = 0.03  # illustrative: a search over a list of intervals ends next to a formula, not on it
_PERCENT = 100.0
_MINUTE = 60.0  # [s]
_HOUR = 3600.0  # [s]

# illustrative: times to write and mean times between failures [s]; the first two are the running case, and the same on
# 16,384 GPUs
CASES: tuple[tuple[float, float], ...] = (
    (60.0, 178_161.0),
    (60.0, 11_135.0),
    (10.0, 86_400.0),
    (300.0, 86_400.0),
    (30.0, 720_000.0),
)
MISTAKES: dict[str, Callable[[float, float], float]] = {
    "half of the interval forgotten": lambda write, mtbf: float(np.sqrt(write * mtbf)),
    "factor 2 twice": lambda write, mtbf: float(np.sqrt(4 * write * mtbf)),
    "no root": lambda write, mtbf: 2 * write * mtbf,
    "half of the time between failures": lambda write, mtbf: mtbf / 2,
    "once for each failure": lambda write, mtbf: mtbf,
    "quotient turned round": lambda write, mtbf: float(np.sqrt(2 * mtbf / write)),
}


@register("check", "62-write-interval")
def best_interval(answer: Interval) -> Verdict:
    """Run ``answer(write, mtbf)`` on several jobs; right is what is close to the interval with the most goodput."""
    returned = [number_of(answer, write, mtbf) for write, mtbf in CASES]
    cases = tuple(_tried(*each, found) for each, found in zip(CASES, returned, strict=True))
    place = first_wrong(cases)
    if place is None:
        return True, [], ""
    write, mtbf = CASES[place]
    job = Checkpoints(write, 0.0, mtbf)
    line = text(
        "function.interval",
        write=units.format_time(write),
        hours=mtbf / _HOUR,
        got=f"{returned[place]:.4g}",
        right=f"{job.best:.4g}",
    )
    mistake = _mistake(returned)
    lines = [line, *explained("62-write-interval", mistake)]
    return False, lines, mistake, Trace(cases, look=_loss(job, returned[place]))


def _tried(write: float, mtbf: float, found: float) -> TriedCase:
    """Return the case of a job, and whether an interval is close to its best one."""
    best = Checkpoints(write, 0.0, mtbf).best
    is_right = is_same(found, best, _CLOSE)
    name = text("trace.job", write=units.format_time(write), hours=mtbf / _HOUR)
    return TriedCase(name, is_right, "", f"{found:.4g} s", f"{best:.4g} s")


def _mistake(returned: list[float]) -> str:
    """Return the name of the mistake that explains all intervals, or nothing."""
    if min(returned) <= 0:
        return "no interval"
    known = mistake_of(returned, MISTAKES, CASES, _NAMED)
    if known:
        return known
    best = np.array([Checkpoints(write, 0.0, mtbf).best for write, mtbf in CASES])
    for factor in (_MINUTE, _HOUR):
        if np.allclose(np.array(returned) * factor, best, rtol=_CLOSE, atol=0):
            return "other unit"
    if np.allclose(returned, returned[0], rtol=_NAMED, atol=0):
        return "one interval for all"
    return ""


def _loss(job: Checkpoints, found: float) -> str:
    """Return what an interval keeps of the time, beside what the best one keeps; nothing if it is no interval."""
    if not 0 < found < 100 * job.mtbf:  # illustrative: beyond, the job never ends
        return ""
    return text(
        "trace.look_interval",
        kept=f"{_PERCENT * float(job.goodput(found)):.2f}",
        most=f"{_PERCENT * float(job.goodput(job.best)):.2f}",
    )
