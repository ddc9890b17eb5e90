"""Lesson 32b: the bytes that a protocol of NCCL puts on the wire."""

from collections.abc import Callable, Sequence
from functools import cache
from math import ceil
from typing import Any

from fabriclab import units
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

Wire = Callable[
    [int, int, int], Any
]  # data, bytes of a line, bytes of its flags -> bytes on the wire
# Protocols with the bytes of a line and of its flags, and sizes of data that fill the last line and that do not.
# source: NCCL-enqueue and nccl_model: a line of LL has 4 B of data and a flag of 4 B, one of LL128 120 B and 8 B
_LINES = {"LL": (8, 4), "LL128": (128, 8)}
_DATA: Sequence[int] = (4, 100, 120, 1000, 1_048_576)


@cache
def messages() -> dict[str, tuple[int, int, int]]:
    """Return data, line and flags [B] of the messages on which the function is tried, by their names in words."""
    tried = dict[str, tuple[int, int, int]]()
    for protocol, (line, flags) in _LINES.items():
        for data in _DATA:
            name = text("trace.message_by", data=units.format_size(data), protocol=protocol)
            tried[name] = (data, line, flags)
    return tried


def on_wire(data: int, line: int, flags: int) -> float:
    """Return the bytes of all lines that it takes to send the data."""
    return ceil(data / (line - flags)) * line


def _lines_not_whole(data: int, line: int, flags: int) -> float:
    return data * line / (line - flags)


def _flags_forgotten(data: int, line: int, flags: int) -> float:
    return data


def _line_full_of_data(data: int, line: int, flags: int) -> float:
    return ceil(data / line) * line


def _one_flag(data: int, line: int, flags: int) -> float:
    return data + flags


def _flags_of_full_lines(data: int, line: int, flags: int) -> float:
    return data + ceil(data / line) * flags


def _flags_beside_last(data: int, line: int, flags: int) -> float:
    return data + ceil(data / (line - flags)) * flags


def _share_of_data(data: int, line: int, flags: int) -> float:
    return data * (line - flags) / line


def _lines_alone(data: int, line: int, flags: int) -> float:
    return ceil(data / (line - flags))


# What somebody with a mistake returns, by its name.
WIRE_MISTAKES: dict[str, Callable[[int, int, int], float]] = {
    "last line not whole": _lines_not_whole,
    "last line cut off": _flags_beside_last,
    "flags cost nothing": _flags_forgotten,
    "line full of data": _line_full_of_data,
    "one flag for all": _one_flag,
    "flags of too few lines": _flags_of_full_lines,
    "share multiplied": _share_of_data,
    "lines for bytes": _lines_alone,
}


@register("check", "32b-write-wire")
def bytes_on_wire(answer: Wire) -> Verdict:
    """Run ``answer(data, line, flags)``, a number of bytes, on messages of two protocols."""
    return compared("32b-write-wire", answer, messages(), on_wire, WIRE_MISTAKES, _in_bytes)


def _in_bytes(size: float) -> str:
    """Write a number of bytes as it is."""
    return f"{size:,.10g} B"
