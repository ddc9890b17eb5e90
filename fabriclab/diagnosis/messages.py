"""The messages of NCCL and its relatives in the lines of a log.

A launcher or a framework puts who speaks before each line, and ranks that write into one file tear each other's
lines. What NCCL, RCCL and their relatives print is recognised anywhere in a line, so two messages that ended up in one
are told apart.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fabriclab.importers.lines import Line, Source

__all__ = ["Message", "messages", "without_messages"]

_HOST = re.compile(r"[A-Za-z0-9][\w.\-]*$")
_DIGITS = 10  # of a number of a process or a GPU
_LEVELS = ("INFO", "WARN", "TRACE", "ABORT")
# A message as it stands in most logs, alone in its line; others are taken apart word by word.
_USUAL = re.compile(
    r"(?:\[[^\]]*\] )?([A-Za-z0-9][\w.\-]*):(\d{1,10}):\d+ \[(\d{1,10})\] (?:[^\s(\[]\S* (?:\(\S+\) )?)?"
    r"[NRM]CCL (INFO|WARN|TRACE|ABORT)(?= |$)"
)
_LEVEL_END = (
    9  # characters from the library's name to the end of its level: "CCL INFO ", "CCL TRACE"
)
_MOST_HEADS = 100_000  # that are kept; with a time in each line none comes twice
_HEADER = 200  # characters before the level of a message in which its head stands


class Message(NamedTuple):
    """A message of NCCL: host, process, GPU of the process, INFO or WARN, text, and the line that it stands in."""

    host: str
    pid: int
    device: int
    level: str
    text: str
    line: Line


def messages(source: Source) -> list[Message]:
    """Return what NCCL and its relatives said, in the order of the lines.

    A message is ``[time] host:pid:tid [device] file:line (function) NCCL WARN text``; time, file and function may be
    missing. RCCL prints NCCL, MetaX's library MCCL.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    found = []
    usual: dict[str, _Head] = {}  # heads of messages alone in their line, which ranks repeat
    for line in source.lines:
        text = line.text
        at = text.find("CCL ")
        if at < 0:
            continue
        start = text[: at + _LEVEL_END]
        head = usual.get(start)
        if head is None:
            head = _usual_head(start)
            if head and len(usual) < _MOST_HEADS:
                usual[start] = head
        if head and text.find("CCL ", at + 4) < 0:
            spoken = text[head.end :].strip()
            found.append(Message(head.host, head.pid, head.device, head.level, spoken, line))
            continue
        heads = []
        while at >= 0:
            head = _head(text, at)
            if head:
                heads.append(head)
            at = text.find("CCL ", at + 4)
        for i, head in enumerate(heads):
            end = heads[i + 1].start if i + 1 < len(heads) else len(text)
            spoken = text[head.end : end].strip()
            found.append(Message(head.host, head.pid, head.device, head.level, spoken, line))
    return found


def without_messages(source: Source) -> Source:
    """Return the lines that hold no message of NCCL, for readers of everything else.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    others = [line for line in source.lines if "CCL INFO" not in line.text]
    if len(others) == len(source.lines):
        return source
    return Source(source.name, others, source.left_out, source.json)


class _Head(NamedTuple):
    """The head of a message: where it starts and ends in its line, and what it says."""

    start: int
    end: int
    host: str
    pid: int
    device: int
    level: str


def _usual_head(start: str) -> _Head | None:
    """Return the head of a message that begins its line, from the line up to the level, or None if it is another."""
    found = _USUAL.match(start)
    if found is None:
        return None
    host, pid, device, level = found.groups()
    return _Head(0, found.end(), host, int(pid), int(device), level)


def _head(text: str, at: int) -> _Head | None:
    """Return the head whose name of the library ends at ``at``, or None if there is none."""
    level = text[at + 4 : at + 9].split(" ")[0].strip()
    if level not in _LEVELS:
        return None
    before = text[max(0, at - _HEADER) : at]
    words = before.split()
    last = len(words) - 2  # the last one is the first letter of the library's name
    if last >= 0 and words[last].startswith("("):  # function
        last -= 1
    if last >= 0 and not words[last].startswith("["):  # file and line
        last -= 1
    if last < 1:
        return None
    device = words[last][1:-1]
    speaker = words[last - 1].rsplit(":", 2)
    if len(speaker) != 3 or not (
        device.isdecimal() and speaker[1].isdecimal() and speaker[2].isdecimal()
    ):
        return None
    host = _HOST.search(speaker[0])
    if host is None or max(len(device), len(speaker[1])) > _DIGITS:
        return None
    start = text.rfind(f"{host[0]}:{speaker[1]}:{speaker[2]}", 0, at)
    return _Head(start, at + 4 + len(level), host[0], int(speaker[1]), int(device), level)
