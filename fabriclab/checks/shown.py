"""What a learner sees: every sentence comes from one table, and every answer shows itself."""

from __future__ import annotations

import csv
import functools
import html
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from fabriclab.errors import FileFormat

__all__ = ["NewerFile", "Refused", "Shown", "keys", "rows_of", "text"]

LANGUAGE: Final = "en"
# The stripe repeats what the sentence says, so nothing rests on colour alone.
STRIPES: Final = {"good": "#009E73", "wait": "#E69F00", "plain": "#888888"}


@functools.cache
def _table() -> Mapping[str, str]:
    return dict(json.loads(_data(f"texts_{LANGUAGE}.json")))


def _data(name: str) -> str:
    return (files("fabriclab.checks") / "data" / name).read_text(encoding="utf-8")


def rows_of(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV table of this package."""
    return list(csv.DictReader(io.StringIO(_data(name))))


def text(key: str, /, **fields: object) -> str:
    """Return the sentence ``key`` of the language table with its fields filled in."""
    return _table()[key].format(**fields)


def keys(start: str) -> list[str]:
    """Return the keys of the language table that begin with ``start``, in its order."""
    return [key for key in _table() if key.startswith(start)]


class _Spoken(Exception):
    """An error that a notebook shows as its sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Refused(_Spoken, ValueError):
    """An argument of a learner's call is wrong; the sentence says how to write it."""


class NewerFile(_Spoken, FileFormat):
    """The progress file was written by a newer fabriclab."""


@dataclass(frozen=True)
class Shown:
    """Sentences and tables that show themselves as text, as HTML or as Markdown.

    Parameters
    ----------
    lines, after : tuple of str
        Sentences above and below.
    state : str
        good, wait (something is missing) or plain.
    head, rows : tuple
        A table; a cell ``(words, address)`` is a link.
    data : mapping
        The same as values, for programs.
    parts : tuple of Shown
        Further tables, between the first and ``after``.
    extra : callable
        Makes HTML for the end, such as a picture, when it is shown.
    """

    lines: tuple[str, ...]
    state: str = "plain"
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    after: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Shown, ...] = ()
    extra: Callable[[], str] = str

    def __repr__(self) -> str:
        """Show everything as plain text."""
        table = _aligned([*([self.head] if self.head else []), *(tuple(map(_words, row)) for row in self.rows)])
        return "\n".join([*self.lines, *table, *(f"\n{part!r}\n" for part in self.parts), *self.after])

    def markdown(self) -> str:
        """Return everything as Markdown."""
        rows = [self.head or ("",) * len(self.rows[0]), ("---",) * len(self.rows[0]), *self.rows] if self.rows else []
        table = "\n".join(f"| {' | '.join(map(_words, row))} |" for row in rows)
        blocks = [*self.lines, table, *(part.markdown() for part in self.parts), *self.after]
        return "\n\n".join(block for block in blocks if block)

    def json(self) -> str:
        """Return ``data`` as JSON."""
        return json.dumps(self.data, indent=1)

    def _repr_html_(self) -> str | None:
        return None if os.environ.get("FABRICLAB_TEXT", "") not in ("", "0") else self._html()

    def _html(self) -> str:
        above, below = ("".join(f"<div>{html.escape(s)}</div>" for s in side) for side in (self.lines, self.after))
        left = ' style="text-align:left"'  # a notebook would set words flush right
        heads = "".join(f'<th scope="col"{left}>{html.escape(h)}</th>' for h in self.head)
        cells = "".join("<tr>" + "".join(f"<td{left}>{_linked(c)}</td>" for c in row) + "</tr>" for row in self.rows)
        table = f"<table><tr>{heads}</tr>{cells}</table>" if self.rows else ""
        inner = above + table + "".join(part._html() for part in self.parts) + below + self.extra()
        return f'<div style="border-left:4px solid {STRIPES[self.state]};padding-left:8px">{inner}</div>'


def _words(cell: Any) -> str:
    return str(cell[0] if isinstance(cell, tuple) else cell)


def _linked(cell: Any) -> str:
    words = html.escape(_words(cell))
    return f'<a href="{html.escape(cell[1])}">{words}</a>' if isinstance(cell, tuple) else words


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
