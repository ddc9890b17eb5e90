"""The lines of a log that matter first: who runs, over which network and channels, what was set, and warnings."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fabriclab.core import Result, as_html, as_text
from fabriclab.errors import FileFormat
from fabriclab.importers.lines import Line, open_source
from fabriclab.texts import text

__all__ = ["Digest", "Said", "as_table", "digest"]

_SHOWN = 90  # characters of a line in the table of a terminal
_GB = 1e9
# A notebook puts all cells of a table to the right; here both numbers stand there, and words at the left.
_STYLE = (
    "<style>.fl-digest.fl-digest th,.fl-digest.fl-digest td{text-align:left;vertical-align:top}"
    ".fl-digest.fl-digest :is(th,td):is(:nth-child(2),:nth-child(3)){text-align:right}"
    ".fl-digest caption{text-align:left}</style>"
)
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_HEAD = re.compile(r".*?[NRM]?CCL (?:INFO|WARN) +")


class Said(NamedTuple):
    """A message of a log: its kind, how many lines say it, the first of them, and its words without their head."""

    kind: str
    times: int
    line: Line
    words: str


def _as_numbers_differ(words: str) -> str:
    """Return words in which all numbers look alike, so that the same message of several ranks is one."""
    return _NUMBERS.sub("#", words)


def _by_way(words: str) -> str:
    """Return how a channel goes, without which channel and ranks; other messages as they are."""
    return words.partition(" via ")[2] or words


def _as_set(words: str) -> str:
    """Return a setting; some versions end it with a full stop."""
    return words.rstrip(".")


# Kind of line -> what it looks like, and what two lines that say the same have in common.
_KINDS: dict[str, tuple[re.Pattern[str], Callable[[str], str]]] = {
    "warned": (re.compile(r"CCL WARN "), _as_numbers_differ),
    "told": (re.compile(r"CCL_\w+ set (?:by environment )?to "), _as_set),
    "who": (re.compile(r"CCL version|nRanks \d+ nNodes \d+"), _as_numbers_differ),
    "channels": (re.compile(r"Channel \d.* via \S|\d coll channels"), _by_way),
    "network": (re.compile(r"NET/\w+|Using network "), _as_numbers_differ),
}
# Kinds in the order of the table, with the keys of their titles.
_TITLES = {
    "who": "digest.who",
    "network": "digest.network",
    "channels": "digest.channels",
    "told": "digest.told",
    "warned": "digest.warned",
}
_ORDER = tuple(_TITLES)


@dataclass(frozen=True, repr=False)
class Digest:
    """The lines of a log that matter first, each message once. `digest` makes one.

    Parameters
    ----------
    name : str
        Name of the log.
    lines : tuple of Line
        All lines.
    said : tuple of Said
        Messages by kind: ``who``, ``network``, ``channels``, ``told`` and ``warned``.
    marked : frozenset of int
        Numbers of the lines that say one of them.
    """

    name: str
    lines: tuple[Line, ...]
    said: tuple[Said, ...]
    marked: frozenset[int]

    def of(self, kind: str) -> tuple[Said, ...]:
        """Return the messages of a kind, in the order of their first lines."""
        return tuple(each for each in self.said if each.kind == kind)

    def rows(self, longest: int = 10_000) -> list[list[str]]:
        """Return a table: kind, how many lines, number of the first, and its words, cut to ``longest`` characters."""
        table = [text("digest.columns").split("|")]
        for kind, key in _TITLES.items():
            messages = self.of(kind)
            if not messages:
                table.append([text(key), "0", "", text("digest.none")])
            for number, each in enumerate(messages):
                title = text(key) if number == 0 else ""
                words = each.words
                if len(words) > longest:
                    words = words[:longest] + "..."
                table.append([title, str(each.times), str(each.line.number), words])
        return table

    def _title(self) -> str:
        return text("digest.title", file=self.name, n=len(self.lines), marked=len(self.marked))

    def __repr__(self) -> str:
        """Show the table."""
        return f"{self._title()}\n{as_text(self.rows(_SHOWN))}"

    def _repr_html_(self) -> str:
        whole = []
        for line in self.lines:
            shown = html.escape(line.text)
            if line.number in self.marked:
                shown = f"<mark>{shown}</mark>"
            whole.append(f"{line.number:4}  {shown}")
        table = as_html(self.rows(), self._title())
        log = f"<pre style='max-height:24em;overflow:auto'>{chr(10).join(whole)}</pre>"
        summary = html.escape(text("digest.whole"))
        return f"<div class='fl-digest'>{_STYLE}{table}<details><summary>{summary}</summary>{log}</details></div>"


def digest(file: str | os.PathLike[str], name: str = "") -> Digest:
    """Return the lines of a log of NCCL or RCCL that matter first, each message once.

    They say who runs (version, ranks, servers), over which network, by which channels, which variables were obeyed, and
    what was warned of. Everything else is left out, and it may matter: `fabriclab.doctor` reads all of it.

    Parameters
    ----------
    file : path or str
        A log with ``NCCL_DEBUG=INFO``, or its text with line ends.
    name : str
        Name to quote a text by.

    Raises
    ------
    FileFormat
        If there is no such file, or it holds no line of these kinds.

    Examples
    --------
    >>> log = '''node1:7:7 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1
    ... node1:8:8 [1] NCCL INFO NCCL_P2P_DISABLE set by environment to 1'''
    >>> [(said.times, said.words) for said in digest(log).of("told")]
    [(2, 'NCCL_P2P_DISABLE set by environment to 1')]
    """
    source = open_source(file, name)
    found: dict[tuple[str, str], Said] = {}
    marked = set()
    for kind, key, line, words in _matter(source.lines):
        marked.add(line.number)
        before = found.get((kind, key))
        if before:
            found[kind, key] = before._replace(times=before.times + 1)
        else:
            found[kind, key] = Said(kind, 1, line, words)
    if not found:
        raise FileFormat(
            "file must be a log of NCCL or RCCL, written with NCCL_DEBUG=INFO, and no line of "
            f"{source.name!r} looks like one"
        )
    said = tuple(sorted(found.values(), key=lambda each: _ORDER.index(each.kind)))
    return Digest(source.name, tuple(source.lines), said, frozenset(marked))


def _matter(lines: list[Line]) -> Iterator[tuple[str, str, Line, str]]:
    """Yield kind, what makes it the same message, line and words of each line that matters."""
    for line in lines:
        for kind, (pattern, key) in _KINDS.items():
            if pattern.search(line.text):
                words = _HEAD.sub("", line.text, count=1).strip()
                yield kind, key(words), line, words
                break


def as_table(result: Result) -> str:
    """Return a measured result as a table that `fabriclab.doctor` reads, with the name and ranks above it.

    Parameters
    ----------
    result : Result
        Sizes and times, such as `fabriclab.measure.all_reduce` returns.
    """
    lines = [f"# {result.what}", f"# ranks: {result.n_ranks}", "size_B algbw_GBps busbw_GBps"]
    for size, alg, bus in zip(result.size, result.algbw, result.busbw, strict=True):
        lines.append(f"{size:.0f} {alg / _GB:.4f} {bus / _GB:.4f}")
    return "\n".join(lines) + "\n"
