"""Connections that failed, in the words of every version: RDMA completions, queue pairs, and TCP connections.

They are facts, not causes: a peer that does not answer may be cut off, or may have ended for a reason of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fabriclab.importers.lines import Line, Source

__all__ = [
    "Completion",
    "QueuePair",
    "TcpFailure",
    "completions",
    "queue_pairs",
    "tcp_failures",
]

# 2.3: error 12; 2.20: status=12; 2.29: status=IBV_WC_RETRY_EXC_ERR(12).
_COMPLETION = re.compile(
    r"got completion (?:from peer \S+ )?with (?:error |status=)(?:\w+\()?(\d{1,3})", re.IGNORECASE
)
_VENDOR = re.compile(r"vendor[ _]err[ =](\d{1,6})")
_LOCAL = re.compile(r"localGid ?([0-9A-Fa-f:.]+)")
_REMOTE = re.compile(r"remoteGids? ?([0-9A-Fa-f:.]+)")
_DEVICE = re.compile(r"\bhca ([\w.\-]+)\s*$")
# 2.4: failed with error No such device; 2.20: failed with 110 Connection timed out, on dev mlx5_0:1, ... local GID ...
_QUEUE_PAIR = re.compile(r"ibv_modify_qp failed with (?:error )?(?:(\d{1,4}) )?([A-Za-z][\w ]*)")
_ON_DEVICE = re.compile(r"\bon dev ([\w.\-]+?)(?::\d+)?,")
_INDEX = re.compile(r"local GID index (-?\d{1,6})")
_QP_LOCAL = re.compile(r"local GID ([0-9A-Fa-f:.]*),")
_QP_REMOTE = re.compile(r"remote GID ([0-9A-Fa-f:.]*)")
_ERRORS = {
    "110": "connection timed out",
    "22": "invalid argument",
    "19": "no such device",
}  # source: Linux, errno(3)
_ADDRESS = r"(?:\[?(?:::ffff:)?(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})\]?)"
# NCCL's, Gloo's and PyTorch's words for a connection that they try to open.
_TCP = re.compile(
    r"\b(?:connect(?:ing|FullMesh)?|connection)\b.{0,60}?(?:\bto\b|remote=|with)[^\d\[]{0,12}"
    + _ADDRESS,
    re.IGNORECASE,
)
_TCP_UNNAMED = re.compile(r"call to connect (?:timeout|failed|returned)", re.IGNORECASE)
_REASONS = (
    ("no route to host", "no route"),
    ("network is unreachable", "no route"),
    ("connection refused", "refused"),
    ("connection timed out", "timed out"),
    ("timed out", "timed out"),
    ("timeout", "timed out"),
    ("software caused connection abort", "aborted"),
    ("connection reset", "reset"),
)
_WORDS = ("connect to ", "to connect", "connectfullmesh", "call to connect", "connection to ")


class Completion(NamedTuple):
    """RDMA work that ended in an error: status, the vendor's number, addresses of both ends, device, line."""

    status: int
    vendor: int
    local: str
    remote: str
    device: str
    line: Line


class QueuePair(NamedTuple):
    """A queue pair that could not be set up: number (0 if not printed) and words of the error, device, GIDs, line.

    ``told`` says whether the message has GIDs at all; old versions print none.
    """

    error: int
    words: str
    device: str
    gid_index: int
    local: str
    remote: str
    told: bool
    line: Line


class TcpFailure(NamedTuple):
    """A TCP connection that could not be opened: address (empty if not printed), reason in one word or two, line."""

    address: str
    reason: str
    line: Line


def completions(sources: Iterable[Source]) -> list[Completion]:
    """Return the completions with an error.

    Parameters
    ----------
    sources : iterable of Source
        Files or texts.
    """
    found = []
    for line in _lines(sources, ("got completion",)):
        status = _COMPLETION.search(line.text)
        if status:
            found.append(
                Completion(
                    status=int(status[1]),
                    vendor=int(_first(_VENDOR, line.text) or 0),
                    local=_first(_LOCAL, line.text),
                    remote=_first(_REMOTE, line.text),
                    device=_first(_DEVICE, line.text),
                    line=line,
                )
            )
    return found


def queue_pairs(sources: Iterable[Source]) -> list[QueuePair]:
    """Return the queue pairs that could not be set up.

    Parameters
    ----------
    sources : iterable of Source
        Files or texts.
    """
    found = []
    for line in _lines(sources, ("ibv_modify_qp failed",)):
        failed = _QUEUE_PAIR.search(line.text)
        if failed is None:
            continue
        index = _first(_INDEX, line.text)
        found.append(
            QueuePair(
                error=int(failed[1] or 0),
                words=_ERRORS.get(failed[1] or "", failed[2].strip().lower()),
                device=_first(_ON_DEVICE, line.text),
                gid_index=int(index or 0),
                local=_first(_QP_LOCAL, line.text),
                remote=_first(_QP_REMOTE, line.text),
                told=bool(index),
                line=line,
            )
        )
    return found


def tcp_failures(sources: Iterable[Source]) -> list[TcpFailure]:
    """Return the TCP connections that could not be opened.

    Parameters
    ----------
    sources : iterable of Source
        Files or texts.
    """
    found = []
    for line in _lines(sources, _WORDS):
        lowered = line.text.lower()
        reason = next((short for words, short in _REASONS if words in lowered), "")
        tried = _TCP.search(line.text)
        if reason and (tried or _TCP_UNNAMED.search(line.text)):
            found.append(TcpFailure(tried[1] if tried else "", reason, line))
        elif tried and "failed" in lowered:
            found.append(TcpFailure(tried[1], "failed", line))
    return found


def _lines(sources: Iterable[Source], words: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of some sources that hold one of some words."""
    for source in sources:
        yield from source.lines_with(*words)


def _first(pattern: re.Pattern[str], text: str) -> str:
    """Return what a pattern finds in a text, or an empty text."""
    found = pattern.search(text)
    return found[1] if found else ""
