"""Lesson 42: how often host memory reads or writes each byte of a transfer."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from fabriclab import topologies
from fabriclab.course.judges.shared.functions import Verdict, compared, name_of
from fabriclab.gpudirect import path
from fabriclab.registry import register
from fabriclab.texts import text

Parts = list[list[str]]  # the parts that each copy passes, as `Path.parts` has them
Crossings = Callable[[Parts], Any]

# Transfers of a DGX H100, whose paths come from its wiring in the catalog.
_TRANSFERS: Sequence[tuple[str, str, str]] = (
    ("nic 0", "gpu 0", "pinned"),
    ("nic 0", "gpu 0", "peer"),
    ("nic 1", "gpu 0", "peer"),
    ("nic 4", "gpu 0", "peer"),
    ("nic 4", "gpu 0", "pinned"),
    ("gpu 0", "nic 0", "pageable"),
    ("cpu 1", "gpu 4", "pinned"),
    ("gpu 0", "cpu 0", "pageable"),
    ("gpu 0", "gpu 1", "nvlink"),
)


@cache
def transfers() -> dict[str, Parts]:
    """Return the copies of each transfer with which the function is tried, by its name in words."""
    server = topologies.build("dgx_h100")
    found = {}
    for source, target, mechanism in _TRANSFERS:
        name = text("trace.transfer", a=source.upper(), b=target.upper(), mechanism=mechanism)
        found[name] = path(server, source, target, mechanism).parts
    return found


def crossings(copies: Parts) -> int:
    """Return how often host memory reads or writes each byte: the ends of copies that are a CPU's memory."""
    return _reads(copies) + _writes(copies)


def _reads(copies: Parts) -> int:
    return sum(copy[0].startswith("CPU") for copy in copies)


def _writes(copies: Parts) -> int:
    return sum(copy[-1].startswith("CPU") for copy in copies)


def _copies(copies: Parts) -> int:
    return len(copies)


def _twice_each(copies: Parts) -> int:
    return 2 * len(copies)


def _stops(copies: Parts) -> int:
    return len(copies) - 1


def _on_the_way(copies: Parts) -> int:
    return sum(part.startswith("CPU") for copy in copies for part in copy)


def _one_memory(copies: Parts) -> int:
    return sum(end == "CPU 0" for copy in copies for end in (copy[0], copy[-1]))


def _none(copies: Parts) -> int:
    return sum("CPU" in copy for copy in copies)  # no part has this name: all have numbers


def _once_each(copies: Parts) -> int:
    return sum(copy[0].startswith("CPU") or copy[-1].startswith("CPU") for copy in copies)


# What somebody with a mistake returns, by its name.
CROSSINGS_MISTAKES: Mapping[str, Callable[[Parts], int]] = {
    "copies for crossings": _copies,
    "twice for each copy": _twice_each,
    "processors on the way counted": _on_the_way,
    "reads of host memory forgotten": _writes,
    "writes of host memory forgotten": _reads,
    "copy of a core counted once": _once_each,
    "memory of one CPU only": _one_memory,
    "name without its number": _none,
    "one copy less for each transfer": _stops,
}


@register("check", "42-write-host")
def crossings_of_host_memory(answer: Crossings) -> Verdict:
    """Run ``answer(copies)``, how often host memory reads or writes each byte of a transfer."""
    cases = {name: (parts,) for name, parts in transfers().items()}

    def with_own_lists(copies: Parts) -> Any:
        """Call the learner's function with lists that it may change."""
        return answer([list(copy) for copy in copies])

    with_own_lists.__name__ = name_of(answer)
    return compared("42-write-host", with_own_lists, cases, crossings, CROSSINGS_MISTAKES, _times)


def _times(value: float) -> str:
    """Write how often something happens."""
    return text("trace.times_a_byte", n=f"{value:.4g}")
