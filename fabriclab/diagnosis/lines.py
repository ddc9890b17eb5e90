"""The lines of what tools printed, without colours, the prefixes of launchers, and Windows line ends.

A launcher or a framework puts who speaks before each line, and ranks that write into one file tear each other's
lines. What NCCL, RCCL and their relatives print is recognised anywhere in a line, so two messages that ended up in one
are told apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fabriclab.errors import FileFormat

__all__ = ["Line", "Message", "Source", "messages", "open_source"]

LONGEST_LINE = 4_000  # characters of a line that are looked at; longer ones are cut
MOST_BYTES = 2**28  # of a file, from its start, that are read

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
# Who speaks, as Open MPI, Slurm, Ray, torchrun, MPICH and docker write it before each line.
_SPEAKER = re.compile(
    r"""\s*(?:
        \[\d+,\d+\]<std(?:out|err)>:?\s?    # mpirun --tag-output
      | \d+:\ (?=\S)                        # srun --label
      | \([^()]*\bpid=\d+[^()]*\)\s?        # Ray, vLLM
      | \[(?:default|rank|mpi-?rank)?\s?\d+\]:?\s?(?=\S)   # torchrun, MPICH
      | \S{1,60}\s+\|\s                     # docker compose
    )""",
    re.VERBOSE,
)
_HOST = re.compile(r"[A-Za-z0-9][\w.\-]*$")
_DIGITS = 10  # of a number of a process or a GPU
_LEVELS = ("INFO", "WARN", "TRACE", "ABORT")
_HEADER = 200  # characters before the level of a message in which its head stands


class Line(NamedTuple):
    """A line of a file: name of the file, number from 1, and text."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        """Return it as evidence is quoted."""
        return f"{self.file}:{self.number}: {self.text.strip()}"


class Message(NamedTuple):
    """A message of NCCL: host, process, GPU of the process, INFO or WARN, text, and the line that it stands in."""

    host: str
    pid: int
    device: int
    level: str
    text: str
    line: Line


class Source(NamedTuple):
    """A file or text as it was read: its name, its cleaned lines, and what was left out of it."""

    name: str
    lines: list[Line]
    left_out: str = ""

    @property
    def text(self) -> str:
        """All lines as one text."""
        return "\n".join(line.text for line in self.lines)

    def without_messages(self) -> Source:
        """Return the lines that hold no message of NCCL, for readers of everything else."""
        others = [line for line in self.lines if "CCL INFO" not in line.text]
        return self._replace(lines=others)


def open_source(given: str | os.PathLike[str], name: str = "") -> Source:
    """Return the cleaned lines of a file, or of a text that a tool printed.

    Parameters
    ----------
    given : path or str
        A file, or a text with line ends.
    name : str
        Name to quote a text by.

    Raises
    ------
    FileFormat
        If there is no such file, or it cannot be read.
    """
    left_out = ""
    if isinstance(given, str) and ("\n" in given or "\r" in given):
        raw = given
        name = name or "text"
    else:
        path = Path(given)
        name = name or path.name
        try:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FileFormat(
                "each file must be the path of what a tool printed, or its text with line ends, "
                f"got {str(given)!r:.80}: {reason}"
            ) from None
        if len(content) > MOST_BYTES:
            content = content[:MOST_BYTES]
            left_out = f"only its first {MOST_BYTES // 2**20} MiB were read"
        raw = decoded(content)
    lines = [Line(name, number, text) for number, text in enumerate(_cleaned(raw), 1)]
    return Source(name, lines, left_out)


def decoded(content: bytes) -> str:
    """Return bytes as text; PowerShell writes UTF-16, everything else is taken for UTF-8."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace")
    return content.decode("utf-8", errors="replace")


def _cleaned(raw: str) -> Iterator[str]:
    """Yield the lines of a text without styles and speakers."""
    styled = "\x1b" in raw
    for text in raw.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n"):
        if len(text) > LONGEST_LINE:
            text = text[:LONGEST_LINE]
        if styled:
            text = _STYLE.sub("", text)
        yield text


def unprefixed(text: str) -> str:
    """Return a line without who speaks."""
    found = _SPEAKER.match(text)
    while found and found.end():
        text = text[found.end() :]
        found = _SPEAKER.match(text)
    return text


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
    for line in source.lines:
        text = line.text
        at = text.find("CCL ")
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


class _Head(NamedTuple):
    """The head of a message: where it starts and ends in its line, and what it says."""

    start: int
    end: int
    host: str
    pid: int
    device: int
    level: str


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
