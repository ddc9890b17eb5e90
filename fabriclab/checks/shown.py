"""What a learner sees: every answer shows itself as text, as HTML and as Markdown."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabriclab.errors import FileFormat
from fabriclab.texts import text

# The stripe repeats what the sentence says, so nothing rests on colour alone.
STRIPES = {"good": "#009E73", "wait": "#E69F00", "plain": "#888888"}


class _Spoken(Exception):
    """An error that a notebook shows as its sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Refused(_Spoken, ValueError):
    """An argument of a learner's call is wrong; the sentence says how to write it."""


class NewerFile(_Spoken, FileFormat):
    """The progress file was written by a newer fabriclab."""


def refuse_if(wrong: object, key: str, /, **fields: object) -> None:
    """Raise `Refused` with the sentence ``key`` if something is wrong."""
    if wrong:
        raise Refused(text(key, **fields))


@dataclass(frozen=True)
class Shown:
    """Sentences and tables that show themselves as text, as HTML or as Markdown; ``data`` holds them as values.

    What stands between backticks, in a sentence or a cell, is a line to type.
    """

    lines: Sequence[str]  # above the table; an empty one is left out
    state: str = "plain"  # good, wait (something is missing) or plain
    head: Sequence[str] = ()
    rows: Sequence[tuple[Any, ...]] = ()  # a cell (words, address) is a link
    after: Sequence[str] = ()  # sentences below
    data: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[Shown] = ()  # further tables, between the first and ``after``
    extra: Callable[[], str] = str  # makes HTML for the end when it is shown, such as a link
    picture: Callable[[], str] | None = None  # makes HTML that says the same as lines, rows and ``after``
    live: Callable[[], Any] | None = None  # makes a live view that asks the same

    def __repr__(self) -> str:
        """Show everything as plain text."""
        table = [[_words(cell) for cell in row] for row in (self.head, *self.rows) if row]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)
        shown = [*self.lines, *rows, *(f"\n{p!r}\n" for p in self.parts), *self.after]
        return "\n".join(filter(None, shown)).replace("`", "")

    def markdown(self) -> str:
        """Return everything as Markdown."""
        rows = [self.head or [""] * len(self.rows[0]), ["---"] * len(self.rows[0]), *self.rows] if self.rows else []
        table = "\n".join(f"| {' | '.join(map(_words, row))} |" for row in rows)
        return "\n\n".join(filter(None, [*self.lines, table, *(p.markdown() for p in self.parts), *self.after]))

    def json(self) -> str:
        """Return ``data`` as JSON."""
        return json.dumps(self.data, indent=1)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """Return what a notebook shows: the live view where there is one, else HTML, in text mode words."""
        words, html = {"text/plain": repr(self)}, self._repr_html_()
        if html is None:
            return words
        if self.live is None:
            return words | {"text/html": html}
        data, about = self.live().widget._repr_mimebundle_()
        return {**data, **words, "text/html": html}, about

    def _repr_html_(self) -> str | None:
        if os.environ.get("FABRICLAB_TEXT", "") not in ("", "0"):
            return None
        above, below = ("".join(f"<div>{_html(s)}</div>" for s in x if s) for x in (self.lines, self.after))
        cells = [[_cell("th", c, ' scope="col"') for c in self.head], *([_cell("td", c) for c in r] for r in self.rows)]
        rows = "".join("<tr>" + "".join(row) + "</tr>" for row in cells)
        table = f"<table>{rows}</table>" if self.rows else ""
        inner = above + table + "".join(part._repr_html_() or "" for part in self.parts) + below + self.extra()
        inner = self.picture() if self.picture else inner
        return f'<div style="border-left:4px solid {STRIPES[self.state]};padding-left:8px">{inner}</div>'


def _html(sentence: str) -> str:
    return re.sub("`([^`]+)`", r'<code style="white-space:nowrap">\1</code>', html.escape(sentence))


def _words(cell: Any) -> str:
    return str(cell[0] if isinstance(cell, tuple) else cell)


def _cell(tag: str, cell: Any, scope: str = "") -> str:
    """Return a cell with its words flush left, which a notebook would set flush right."""
    words = _html(_words(cell))
    linked = f'<a href="{html.escape(cell[1])}">{words}</a>' if isinstance(cell, tuple) else words
    return f'<{tag}{scope} style="text-align:left">{linked}</{tag}>'
