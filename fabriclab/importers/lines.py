"""A text or a file as lines, and what a reader made of them.

Every reader takes a path or a text; `is_text` tells which of the two it was given. A reader comes in two parts: a
``scan_*`` function that reads what it can and lists what it cannot (a `Scan`), and a public function in front of it
that refuses a text in which something was unreadable.
"""

from __future__ import annotations

import bisect
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from fabriclab.errors import FileFormat, FileMissing

__all__ = [
    "Line",
    "Scan",
    "Source",
    "Unread",
    "is_text",
    "open_source",
    "open_text",
    "open_whole",
    "text_lines",
]

LONGEST_LINE = 4_000  # characters of a line that are looked at; longer ones are cut
MOST_BYTES = 2**28  # of a file, from its start, that are read

_OPENING = 100  # characters in which a text must begin as JSON does
_LONG = 10_000  # lines from which on it pays to look at the kinds of lines first
_FIGURE = re.compile(r"\d")
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

_Row = TypeVar("_Row")


class Line(NamedTuple):
    """A line of a file: name of the file, number from 1, and text."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        """Return it as evidence is quoted."""
        return f"{self.file}:{self.number}: {self.text.strip()}"


class Unread(NamedTuple):
    """A line that a reader could not read, and why, in words; `Line` names its file, since a run has several."""

    line: Line
    why: str


@dataclass(frozen=True)
class Scan(Generic[_Row]):
    """What a reader found in a text, and what it could not read.

    Parameters
    ----------
    rows : tuple
        What was read; each row knows its line.
    unread : tuple of Unread
        Lines that belong to the format and could not be read, in their order.
    """

    rows: tuple[_Row, ...]
    unread: tuple[Unread, ...] = ()

    def whole(self, nothing: str) -> tuple[_Row, ...]:
        """Return all rows, if every line of the format was read and there is at least one row.

        Parameters
        ----------
        nothing : str
            What to say if there is no row.

        Raises
        ------
        FileFormat
            If a line was unreadable, which is named, or there is no row.
        """
        if self.unread:
            first = self.unread[0]
            raise FileFormat.at(first.line.number, first.why)
        if not self.rows:
            raise FileFormat(nothing)
        return self.rows


@dataclass(frozen=True)
class Source:
    """A file or text as it was read.

    Parameters
    ----------
    name : str
        Name of the file, or what the text is quoted by.
    lines : list of Line
        Its lines, without colours, cut to 4,000 characters.
    left_out : str
        What was left out of it, in words; empty if nothing was.
    json : str
        The whole text, if it looks like JSON and has lines that were cut; empty otherwise.
    """

    name: str
    lines: list[Line]
    left_out: str = ""
    json: str = ""

    @cached_property
    def text(self) -> str:
        """All lines as one text."""
        return "\n".join(line.text for line in self.lines)

    @cached_property
    def lowered(self) -> str:
        """All lines as one text in lower case; a letter stays one letter, so places are those of `text`."""
        lowered = self.text.lower()
        if len(lowered) != len(self.text):  # a few letters of other alphabets become two
            lowered = "".join(letter.lower()[0] for letter in self.text)
        return lowered

    @cached_property
    def starts(self) -> list[int]:
        """Place in the text where each line starts, and one behind the end."""
        return list(accumulate((len(line.text) + 1 for line in self.lines), initial=0))

    def lines_with(self, *words: str) -> Iterator[Line]:
        """Yield the lines that hold one of some words, given in lower case, in their order.

        The text is searched as a whole, so what is not in it costs next to nothing.
        """
        present = [word for word in words if self.holds(word)]
        if len(present) == 1:
            yield from self._lines_with(present[0])
            return
        found = {line.number: line for word in present for line in self._lines_with(word)}
        for number in sorted(found):
            yield found[number]

    def _lines_with(self, word: str) -> Iterator[Line]:
        """Yield the lines that hold a word."""
        at = self.lowered.find(word)
        while at >= 0:
            number = bisect.bisect_right(self.starts, at) - 1
            yield self.lines[number]
            at = self.lowered.find(word, self.starts[number + 1])

    def holds(self, *words: str) -> bool:
        """Return whether the text holds one of some words, given in lower case."""
        for word in words:
            # Without figures in it, a word is in a long text only if it is in one of the kinds of its lines.
            kinds = self if _FIGURE.search(word) or len(self.lines) < _LONG else self.unlike
            if word in kinds.lowered:
                return True
        return False

    @cached_property
    def unlike(self) -> Source:
        """The lines that differ in more than their figures, each the first of its kind.

        Ranks and steps say the same with other numbers, so this is a small part of a long log.
        """
        if not self.lines:
            return self
        plain = self.text.encode(errors="replace").translate(None, b"0123456789").split(b"\n")
        first = dict(zip(reversed(plain), reversed(self.lines), strict=True))
        lines = sorted(first.values(), key=lambda line: line.number)
        return Source(self.name, lines, self.left_out)


def is_text(given: str | os.PathLike[str]) -> bool:
    """Return whether a reader was given a text itself, and not the path of a file.

    A text has a line end, begins as JSON does, or is empty; a path object is never a text.
    """
    if not isinstance(given, str):
        return False
    if not given or "\n" in given or "\r" in given:
        return True
    return given.startswith(('{"', "[{"))


def open_text(given: str | os.PathLike[str], most: int | None = None) -> tuple[str, str, str]:
    """Return the name and the text of a file, or of a text that was given itself, and what was left out of it.

    Bytes are UTF-8, or UTF-16 with its mark, as PowerShell writes it.

    Parameters
    ----------
    given : path or str
        A file, or a text.
    most : int, optional
        Largest number of bytes to read.

    Raises
    ------
    FileMissing
        If there is no such file.
    FileFormat
        If the file cannot be read.
    """
    if is_text(given):
        return "text", str(given), ""
    path = Path(given)
    try:
        with path.open("rb") as file:
            content = file.read() if most is None else file.read(most + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, IsADirectoryError | PermissionError) and path.is_dir():
            raise FileFormat(
                f"source must be a file, and {str(given)!r:.80} is a folder; name the files in it"
            ) from None
        reason = getattr(error, "strerror", None) or str(error)
        kind = FileFormat if isinstance(error, PermissionError) else FileMissing
        raise kind(
            "source must be the path of a file, or the text that a tool printed, with its line ends, "
            f"got {str(given)!r:.80}, and there is no such file that can be read: {reason}"
        ) from None
    left_out = ""
    if most is not None and len(content) > most:
        content = content[:most]
        left_out = f"only its first {most // 2**20} MiB were read"
    return path.name, _decoded(content), left_out


def _decoded(content: bytes) -> str:
    """Return bytes as text; PowerShell writes UTF-16, everything else is taken for UTF-8, with or without its mark."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace")
    return content.decode("utf-8-sig", errors="replace")


def _split(text: str) -> list[str]:
    """Return the lines of a text as editors number them, with the line ends of any system."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text:
        return []
    return text.removesuffix("\n").split("\n")


def text_lines(source: str | os.PathLike[str]) -> list[str]:
    """Return the lines of a file or of a text, whole and unchanged.

    Parameters
    ----------
    source : path or str
        A file, or a text with line ends.

    Raises
    ------
    FileMissing
        If ``source`` is no text, and there is no such file.
    FileFormat
        If the file cannot be read.
    """
    return _split(open_text(source)[1])


def open_source(given: str | os.PathLike[str], name: str = "") -> Source:
    """Return the lines of a file or of a text without colours, each with its number.

    Of a file only the first 256 MiB are read, and of a line the first 4,000 characters; JSON, which often is one line,
    is kept as a whole beside them.

    Parameters
    ----------
    given : path or str
        A file, or a text with line ends.
    name : str
        Name to quote a text by.

    Raises
    ------
    FileMissing
        If ``given`` is no text, and there is no such file.
    FileFormat
        If the file cannot be read.
    """
    known, raw, left_out = open_text(given, MOST_BYTES)
    name = name or known
    texts = _split(raw)
    json = ""
    if texts and len(max(texts, key=len)) > LONGEST_LINE:
        json = raw if raw[:_OPENING].lstrip().startswith(("{", "[")) else ""
        texts = [text[:LONGEST_LINE] for text in texts]
    if "\x1b" in raw:
        texts = [_STYLE.sub("", text) for text in texts]
    lines = [Line(name, number, text) for number, text in enumerate(texts, 1)]
    return Source(name, lines, left_out, json)


def open_whole(given: str | os.PathLike[str]) -> Source:
    """Return the lines of a file or of a text as `open_source` does, for readers that must not miss a part of it.

    Parameters
    ----------
    given : path or str
        A file, or a text with line ends.

    Raises
    ------
    FileMissing
        If ``given`` is no text, and there is no such file.
    FileFormat
        If the file cannot be read, or is longer than 256 MiB.
    """
    source = open_source(given)
    if source.left_out:
        raise FileFormat(f"{source.name} is too long, {source.left_out}; give a part of it")
    return source


def unprefixed(text: str) -> str:
    """Return a line without who speaks."""
    found = _SPEAKER.match(text)
    while found and found.end():
        text = text[found.end() :]
        found = _SPEAKER.match(text)
    return text
