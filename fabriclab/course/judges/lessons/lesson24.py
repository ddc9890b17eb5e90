"""Lesson 24: what some GPUs of a server reach, on a mesh and behind switch chips."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fabriclab import catalog
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

Reached = Callable[[int, int, float, bool], Any]  # -> bus bandwidth [B/s]


class Job(NamedTuple):
    """Some GPUs of a server: what the learner's function is called with."""

    gpus: int  # that take part
    of: int  # GPUs of the server
    rate: float  # of all links of a GPU, in one direction [B/s]
    chips: bool  # whether the links end at switch chips


# GPU in the catalog, GPUs of a domain and whether chips join them, and GPUs that run.
# source: catalog systems (topologies); a mesh of MI355X: MLE-net, of Gaudi 3: Habana-net
_JOBS: Sequence[tuple[str, int, bool, int]] = (
    ("mi300x", 8, False, 2),
    ("mi300x", 8, False, 5),
    ("mi300x", 8, False, 8),
    ("mi355x", 8, False, 3),
    ("gaudi3", 8, False, 2),
    ("h100", 8, True, 2),
    ("a100", 8, True, 4),
    ("gb200", 72, True, 8),
)


@cache
def jobs() -> dict[str, Job]:
    """Return the jobs on which the learner's function is tried, by their names in words."""
    tried = dict[str, Job]()
    for name, of, chips, gpus in _JOBS:
        part = catalog.accelerators[name]["scaleup_bandwidth"]
        joined = text("trace.by_chips" if chips else "trace.by_mesh")
        case = text("trace.some_gpus", gpus=gpus, of=of, gpu=part.name, joined=joined)
        tried[case] = Job(gpus, of, part.si, chips)
    return tried


def reached(k: int, n: int, rate: float, chips: bool) -> float:
    """Return the bus bandwidth of the best rings over k of n GPUs [B/s]."""
    return rate if chips else rate * (k - 1) / (n - 1)


def _always_all(k: int, n: int, rate: float, chips: bool) -> float:
    return rate


def _always_mesh(k: int, n: int, rate: float, chips: bool) -> float:
    return reached(k, n, rate, False)


def _own_gpu_counted(k: int, n: int, rate: float, chips: bool) -> float:
    return rate if chips else rate * k / n


def _links_of_n(k: int, n: int, rate: float, chips: bool) -> float:
    return rate if chips else rate * (k - 1) / n


def _one_link(k: int, n: int, rate: float, chips: bool) -> float:
    return rate if chips else rate / (n - 1)


def _links_of_the_job(k: int, n: int, rate: float, chips: bool) -> float:
    return rate if chips else rate / (k - 1)


def _both_directions(k: int, n: int, rate: float, chips: bool) -> float:
    return 2 * reached(k, n, rate, chips)


def _gigabytes(k: int, n: int, rate: float, chips: bool) -> float:
    return reached(k, n, rate, chips) / 1e9


def _each_link_at_the_rate_of_all(k: int, n: int, rate: float, chips: bool) -> float:
    return rate if chips else rate * (k - 1)


def _swapped(k: int, n: int, rate: float, chips: bool) -> float:
    return reached(k, n, rate, not chips)


def _shared_behind_chips(k: int, n: int, rate: float, chips: bool) -> float:
    return rate * k / n if chips else reached(k, n, rate, False)


def _factor_on_top(k: int, n: int, rate: float, chips: bool) -> float:
    return reached(k, n, rate, chips) * 2 * (k - 1) / k


def _array_over_time(k: int, n: int, rate: float, chips: bool) -> float:
    return reached(k, n, rate, chips) * k / (2 * (k - 1))


# What somebody with a mistake returns, by its name.
REACHED_MISTAKES: Mapping[str, Callable[..., float]] = {
    "chips everywhere": _always_all,
    "mesh everywhere": _always_mesh,
    "k of n links": _own_gpu_counted,
    "a link too many": _links_of_n,
    "one link for all": _one_link,
    "links divided among the job": _links_of_the_job,
    "both directions counted": _both_directions,
    "GB for B": _gigabytes,
    "each link at the rate of all": _each_link_at_the_rate_of_all,
    "mesh and chips swapped": _swapped,
    "shared behind chips": _shared_behind_chips,
    "factor of the bus bandwidth on top": _factor_on_top,
    "array divided by the time": _array_over_time,
}


@register("check", "24-write-reached")
def reached_by_some(answer: Reached) -> Verdict:
    """Run ``answer(k, n, rate, chips)``, a bus bandwidth in B/s, on servers of the catalog."""
    return compared("24-write-reached", answer, jobs(), reached, REACHED_MISTAKES, rate_in_words)


def rate_in_words(value: float) -> str:
    """Write a rate [B/s] in GB/s with four digits."""
    return f"{value / 1e9:,.4g} GB/s"
