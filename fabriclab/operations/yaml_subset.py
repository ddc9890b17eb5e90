"""A reader of the part of YAML that manifests of Kubernetes use, with the line of every value.

Block mappings and lists, plain and quoted texts (over several lines, too), literal and folded blocks, and lists and
mappings in brackets on one line. Anchors, tags, tabs and keys of several lines are not read; each such line is reported
and skipped. PyYAML knows no lines of values, and this package does not depend on it; a test compares both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from fabriclab.operations.readings import Skipped
from fabriclab.operations.yaml_scalars import (
    Node,
    Unread,
    balanced,
    closing,
    flow,
    plain_scalar,
    unquoted,
    without_comment,
)

__all__ = ["Node", "read_documents"]

_KEY = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#\-&*!|>'"%@`{\[?][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+(.*)|)$"""
)
_BLOCK = re.compile(r"[|>][-+]?(?:\s+#.*)?$")


class _Line(NamedTuple):
    """A line that is not empty: its number, how far it is indented, and its text."""

    number: int
    indent: int
    text: str


@dataclass
class _Reader:
    """Reads the lines of one document from the first to the last."""

    lines: list[_Line]
    raw: dict[int, str]  # all lines of the document by number, for blocks
    skipped: list[Skipped] = field(default_factory=list)
    at: int = 0

    def peek(self) -> _Line | None:
        """Return the next line, or None at the end."""
        return self.lines[self.at] if self.at < len(self.lines) else None

    def skip(self, line: _Line, why: str) -> None:
        """Note a line that is not understood, and everything that is indented below it."""
        self.skipped.append(Skipped(line.number, line.text, why))
        self.at += 1
        while (below := self.peek()) is not None and below.indent > line.indent:
            self.skipped.append(Skipped(below.number, below.text, "it belongs to a skipped line"))
            self.at += 1

    def block(self, indent: int) -> Node:
        """Read a mapping, a list or a scalar whose lines are indented so far."""
        first = self.peek()
        assert first is not None
        if first.text == "-" or first.text.startswith("- "):
            return self.sequence(indent)
        if _KEY.match(first.text):
            return self.mapping(indent)
        return self.lone_scalar(first)

    def lone_scalar(self, line: _Line) -> Node:
        """Read a scalar on a line of its own."""
        begin = self.at
        self.at += 1
        try:
            return self.scalar(line.text, line.number, line.indent - 1)
        except Unread as error:
            self.at = begin
            self.skip(line, str(error))
            return Node(line.number)

    def mapping(self, indent: int) -> Node:
        """Read keys and values; a key that is there already is reported, and the first one counts."""
        values: dict[str, Node] = {}
        node = Node(self.lines[self.at].number, values)
        while (line := self.peek()) is not None and line.indent >= indent:
            found = _KEY.match(line.text)
            if line.indent > indent:
                self.skip(line, f"indented by {line.indent}, but its neighbours by {indent}")
            elif line.text.startswith("- "):
                break
            elif not found:
                self.skip(line, "neither 'key: value' nor '- item'")
            elif (key := unquoted(found[1])) in values:
                self.skip(line, f"the key {key!r} is on line {values[key].line} already")
            else:
                self.at += 1
                self.value(values, key, line, found[2] or "")
        return node

    def value(self, values: dict[str, Node], key: str, line: _Line, text: str) -> None:
        """Read what stands behind a key, or below it."""
        begin = self.at - 1
        try:
            node = self.inline(text, line.number, line.indent, list_may_align=True)
        except Unread as error:
            self.at = begin
            self.skip(line, str(error))
            return
        if isinstance(node.value, list | dict):
            node.line = line.number  # a list or mapping stands where its key does
        values[key] = node

    def inline(self, text: str, number: int, indent: int, *, list_may_align: bool = False) -> Node:
        """Read a value that begins on a line with a key or a dash: there, or on the lines below it."""
        text = without_comment(text)
        if _BLOCK.match(text):
            return self.literal(text, number, indent)
        if text:
            return self.scalar(text, number, indent)
        below = self.peek()
        if below is None:
            return Node(number)
        if below.indent > indent:
            return self.block(below.indent)
        aligned = below.indent == indent and (below.text == "-" or below.text.startswith("- "))
        if list_may_align and aligned:
            return self.sequence(indent)
        return Node(number)

    def sequence(self, indent: int) -> Node:
        """Read the items of a list."""
        items: list[Node] = []
        node = Node(self.lines[self.at].number, items)
        while (line := self.peek()) is not None and line.indent == indent:
            if line.text != "-" and not line.text.startswith("- "):
                break
            rest = line.text[1:].lstrip()
            inner = indent + len(line.text) - len(rest)
            if rest and (_KEY.match(rest) or rest.startswith("- ")):
                # An item that is a mapping begins on the line of its dash: read on as if the dash were a blank.
                self.lines[self.at] = _Line(line.number, inner, rest)
                items.append(self.block(inner))
                continue
            begin = self.at
            self.at += 1
            try:
                items.append(self.inline(rest, line.number, indent))
            except Unread as error:
                self.at = begin
                self.skip(line, str(error))
        return node

    def literal(self, mark: str, number: int, indent: int) -> Node:
        """Read a block after ``|`` (lines are kept) or ``>`` (lines are joined)."""
        last = max(self.raw)
        rows = []
        for at in range(number + 1, last + 1):
            row = self.raw[at]
            if row.strip() and len(row) - len(row.lstrip(" ")) <= indent:
                break
            rows.append(row)
        while (line := self.peek()) is not None and line.number <= number + len(rows):
            self.at += 1
        full = [row for row in rows if row.strip()]
        if not full:
            return Node(number, "", mark)
        by = min(len(row) - len(row.lstrip(" ")) for row in full)
        while rows and not rows[-1].strip():
            rows.pop()
        body = "\n".join(row[by:] for row in rows)
        if mark.startswith(">"):
            body = re.sub(r"\n+", _folded, body)
        ending = "" if mark[1:2] == "-" else "\n"
        return Node(number, body + ending, mark)

    def scalar(self, text: str, number: int, indent: int) -> Node:
        """Read a scalar, or a list or mapping in brackets, that begins with a text."""
        if text[0] in "'\"":
            return Node(number, *self.quoted(text, number))
        if text[0] in "[{":
            return flow(self.joined(text, number), number)
        if text[0] in "&*!%@`":
            raise Unread(
                f"{text[0]!r} begins an anchor, an alias, a tag or a directive, which are not read"
            )
        while (
            (below := self.peek()) is not None
            and below.indent > indent
            and not _KEY.match(below.text)
        ):
            text += " " + without_comment(below.text)  # a plain text that goes on
            self.at += 1
        return Node(number, plain_scalar(text), text)

    def joined(self, text: str, number: int) -> str:
        """Return a list or mapping in brackets with the lines on which it goes on."""
        while not balanced(text):
            below = self.peek()
            if below is None:
                raise Unread(f"the bracket {text[0]!r} of line {number} is not closed")
            text += " " + without_comment(below.text)
            self.at += 1
        return text

    def quoted(self, text: str, number: int) -> tuple[str, str]:
        """Return a quoted text, with the lines on which it goes on, without and with its quotes."""
        quote = text[0]
        body = text
        end = closing(body, quote)
        row = number
        while end < 0:
            row += 1
            if row not in self.raw:
                raise Unread(f"the quote {quote} of line {number} is not closed")
            body += " " + self.raw[row].strip()
            end = closing(body, quote)
        while (line := self.peek()) is not None and line.number <= row:
            self.at += 1
        rest = body[end + 1 :].strip()
        if rest and not rest.startswith("#"):
            raise Unread(f"after the closing quote stands {rest!r:.20}")
        return unquoted(body[: end + 1]), body[: end + 1]


def _folded(breaks: re.Match[str]) -> str:
    """Return what line ends of a folded block become: a blank, or one line end fewer."""
    return "\n" * (len(breaks[0]) - 1) or " "


def read_documents(lines: list[str]) -> tuple[list[Node], list[Skipped]]:
    """Return the documents of a text, which ``---`` separates, and the lines that were not understood."""
    documents: list[Node] = []
    skipped: list[Skipped] = []
    begin = 0
    borders = [i for i, line in enumerate(lines) if re.match(r"(---|\.\.\.)(\s|$)", line)]
    for end in [*borders, len(lines)]:
        document, unread = _read_one(lines, begin, end)
        if document is not None:
            documents.append(document)
        skipped += unread
        begin = end + 1
    return documents, skipped


def _read_one(lines: list[str], begin: int, end: int) -> tuple[Node | None, list[Skipped]]:
    """Return the document between two borders, None if it is empty, and the lines that were not understood."""
    raw = {number + 1: lines[number] for number in range(begin, end)}
    full: list[_Line] = []
    skipped: list[Skipped] = []
    for number, row in raw.items():
        text = row.strip()
        indent = len(row) - len(row.lstrip(" "))
        if "\t" in row[: len(row) - len(row.lstrip())]:
            skipped.append(Skipped(number, text, "indented by a tab; YAML indents by blanks"))
        elif text and not text.startswith("#"):
            full.append(_Line(number, indent, text))
    if not full:
        return None, skipped
    reader = _Reader(full, raw)
    try:
        document = reader.block(full[0].indent)
    except RecursionError:
        first = full[0]
        return None, [Skipped(first.number, first.text, "the document is nested too deep")]
    while (line := reader.peek()) is not None:
        reader.skip(line, "it does not belong to what stands above it")
    return document, sorted(skipped + reader.skipped)
