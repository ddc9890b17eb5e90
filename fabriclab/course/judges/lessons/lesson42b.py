"""Lesson 42b: the time of a transfer whose chunks pass several copies."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from fabriclab import topologies
from fabriclab.course.judges.shared.functions import Verdict, compared, name_of
from fabriclab.gpudirect import path
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_time

Chunks = tuple[list[float], list[float], float, int]  # starts [s], rates [B/s], size [B], chunks
Time = Callable[[list[float], list[float], float, int], Any]  # -> s

# illustrative: sizes and numbers of chunks that set each mistake apart; paths of a DGX H100
_TRANSFERS: Sequence[tuple[str, str, str, float, int]] = (
    ("gpu 0", "gpu 1", "pinned", 8e6, 1),
    ("nvme 0", "gpu 0", "pinned", 8e6, 4),
    ("nvme 0", "gpu 0", "pinned", 140e9, 8000),
    ("nvme 0", "gpu 0", "pageable", 8e6, 10),
    ("nvme 0", "gpu 0", "peer", 1e9, 10),
)


@cache
def transfers() -> dict[str, Chunks]:
    """Return the transfers with which the function is tried, by their names in words."""
    server = topologies.build("dgx_h100")
    found = {}
    for source, target, mechanism, size, chunks in _TRANSFERS:
        moves = path(server, source, target, mechanism).moves
        starts = [move.issue for move in moves]
        rates = [move.rate for move in moves]
        name = text("trace.chunks", copies=len(moves), size=size, chunks=chunks)
        found[name] = (starts, rates, size, chunks)
    return found


def time_in_chunks(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    """Return the time until the last chunk has passed the last copy [s]."""
    steps = _steps(starts, rates, size, chunks)
    return sum(steps) + (chunks - 1) * max(steps)


def _steps(starts: list[float], rates: list[float], size: float, chunks: int) -> list[float]:
    """Return how long a chunk takes in each copy [s]."""
    return [start + size / chunks / rate for start, rate in zip(starts, rates, strict=True)]


def _in_turn(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    return chunks * sum(_steps(starts, rates, size, chunks))


def _slowest_only(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    return chunks * max(_steps(starts, rates, size, chunks))


def _one_start(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    return sum(starts) + _no_starts(starts, rates, size, chunks)


def _one_more(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    steps = _steps(starts, rates, size, chunks)
    return sum(steps) + chunks * max(steps)


def _fastest(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    steps = _steps(starts, rates, size, chunks)
    return sum(steps) + (chunks - 1) * min(steps)


def _side_by_side(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    return chunks * sum(starts) + size / sum(rates)


def _no_starts(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    return time_in_chunks([0.0] * len(starts), rates, size, chunks)


def _whole_size(starts: list[float], rates: list[float], size: float, chunks: int) -> float:
    steps = _steps(starts, rates, size, 1)
    return sum(steps) + (chunks - 1) * max(steps)


# What somebody with a mistake returns, by its name.
TIME_MISTAKES: Mapping[str, Callable[..., float]] = {
    "copies take turns": _in_turn,
    "first chunk fills nothing": _slowest_only,
    "start paid once": _one_start,
    "one chunk too many": _one_more,
    "fastest copy sets the pace": _fastest,
    "starts forgotten": _no_starts,
    "chunks as large as the transfer": _whole_size,
    "rates of copies added": _side_by_side,
}


@register("check", "42b-write-time")
def time_of_a_transfer(answer: Time) -> Verdict:
    """Run ``answer(starts, rates, size, chunks)``, the time of a transfer in chunks [s]."""

    def with_own_lists(starts: list[float], rates: list[float], size: float, chunks: int) -> Any:
        """Call the learner's function with lists that it may change."""
        return answer([*starts], [*rates], size, chunks)

    with_own_lists.__name__ = name_of(answer)
    return compared(
        "42b-write-time", with_own_lists, transfers(), time_in_chunks, TIME_MISTAKES, format_time
    )
