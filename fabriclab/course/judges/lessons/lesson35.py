"""Lesson 35: how long the next forward pass waits for buckets of gradients."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from fabriclab import catalog, collectives
from fabriclab.catalog import published
from fabriclab.core import Floats
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_time
from fabriclab.workload import bucket_wait

Buckets = tuple[Floats, Floats]  # when each is full, and how long its all-reduce takes [s]
Wait = Callable[[Floats, Floats], Any]

_LAYERS = 4  # the small model of the lesson: backward passes of 1 s
_SENDING = 2.0  # illustrative: all gradients of the small model together [s]
_LATENCY = 0.5  # illustrative: of a bucket of the small model [s]
_ALPS = "alps_N032_ofi1.13.0"  # 128 GPUs
# illustrative: backward passes and all-reduces of buckets that are not alike, with a queue and a rest [s]
_UNEVEN = ((0.5, 1.0, 3.0, 3.5), (0.2, 1.2, 1.4, 0.3))


@cache
def cases() -> Mapping[str, Buckets]:
    """Return the buckets on which a function is tried, by a name in words: the small model first."""
    job = catalog.case()
    ring = collectives.closed_form("all_reduce", "ring")
    seen = published.load(_ALPS)
    found = dict[str, Buckets]()
    for count in (1, 2, 4, 8):
        takes = _LATENCY + _SENDING / count
        found[text("trace.buckets_small", n=count)] = _equal(float(_LAYERS), count, takes)
    for count in (14, 706):
        size = job.dp_gradients / count
        takes = float(ring(size, int(job.dp), job.ring_step_latency, job.nic_rate))
        found[text("trace.buckets_job", n=count)] = _equal(job.window, count, takes)
    size = job.dp_gradients / int(job.layers)
    takes = float(np.interp(size, seen.size, seen.time))
    found[text("trace.buckets_measured", n=int(job.layers))] = _equal(
        job.window, int(job.layers), takes
    )
    found[text("trace.buckets_uneven", n=len(_UNEVEN[0]))] = _sealed(*map(np.array, _UNEVEN))
    return found


def _equal(window: float, count: int, takes: float) -> Buckets:
    """Return equal buckets that become full one after another within a window [s]."""
    return _sealed(window * np.arange(1, count + 1) / count, np.full(count, takes))


def _sealed(ready: Floats, send: Floats) -> Buckets:
    """Return buckets that a learner's function cannot change for those after it."""
    ready.setflags(write=False)
    send.setflags(write=False)
    return ready, send


def _at_once(ready: Floats, send: Floats) -> float:
    return float(np.max(ready + send) - ready[-1])


def _all_of_it(ready: Floats, send: Floats) -> float:
    return float(np.sum(send))


def _does_not_fit(ready: Floats, send: Floats) -> float:
    return max(0.0, float(np.sum(send) - ready[-1]))


def _last_alone(ready: Floats, send: Floats) -> float:
    return float(send[-1])


def _without_rest(ready: Floats, send: Floats) -> float:
    return float(ready[0] + np.sum(send) - ready[-1])


def _end(ready: Floats, send: Floats) -> float:
    return bucket_wait(ready, send) + float(ready[-1])


# What somebody with a mistake returns, by its name.
EXPOSED_MISTAKES: Mapping[str, Wait] = {
    "each bucket begins at once": _at_once,
    "overlap left out": _all_of_it,
    "what does not fit into the pass": _does_not_fit,
    "last bucket alone": _last_alone,
    "network never rests": _without_rest,
    "end of the last bucket": _end,
}


@register("check", "35-write-exposed")
def wait_for_buckets(answer: Wait) -> Verdict:
    """Run ``answer(ready, send)``, which returns how long the next forward pass waits [s]."""
    return compared("35-write-exposed", answer, cases(), bucket_wait, EXPOSED_MISTAKES, format_time)
