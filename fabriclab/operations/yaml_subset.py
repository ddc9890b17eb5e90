"""A reader of the part of YAML that manifests of Kubernetes use, with the line of every value.

Block mappings and lists, plain and quoted texts (over several lines, too), literal and folded blocks, and lists and
mappings in brackets on one line. Anchors, tags, tabs and keys of several lines are not read; each such line is reported
and skipped. PyYAML knows no lines of values, and this package does not depend on it; a test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fabriclab.operations.readings import Skipped

__all__ = ["Node", "read_documents"]

_KEY = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#\-&*!|>'"%@`{\[?][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+(.*)|)$"""
)
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_BLOCK = re.compile(r"[|>][-+]?(?:\s+#.*)?$")

Scalar = str | int | float | bool | None


@dataclass
class Node:
    """A value of a document with the line on which it stands: a scalar, a list of nodes, or a mapping of nodes.

    Parameters
    ----------
    line : int
        Line from 1.
    value : str, int, float, bool, None, list of Node, or dict of str to Node
        The value.
    text : str
        What a scalar looked like; empty for others.
    """

    line: int
    value: Scalar | list[Node] | dict[str, Node] = None
    text: str = ""

    @property
    def items(self) -> list[Node]:
        """The nodes of a list; empty for anything else."""
        return self.value if isinstance(self.value, list) else []

    @property
    def keys(self) -> dict[str, Node]:
        """The nodes of a mapping; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def get(self, *path: str) -> Node | None:
        """Return the node under keys of mappings, one inside the other; None if one of them is not there."""
        node: Node | None = self
        for key in path:
            node = None if node is None else node.keys.get(key)
        return node

    def string(self, *path: str) -> str:
        """Return a scalar under keys as a text; empty if there is none."""
        node = self.get(*path)
        if node is None or isinstance(node.value, list | dict) or node.value is None:
            return ""
        return str(node.value)

    def plain(self) -> object:
        """Return the value without lines, as PyYAML loads it."""
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return self.value


class _Line(NamedTuple):
    """A line that is not empty: its number, how far it is indented, and its text."""

    number: int
    indent: int
    text: str


class _Unread(Exception):
    """A text that is not read, with the reason."""


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
        self.at += 1
        try:
            return self.scalar(line.text, line.number, line.indent - 1)
        except _Unread as error:
            self.at -= 1
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
            elif (key := _unquoted(found[1])) in values:
                self.skip(line, f"the key {key!r} is on line {values[key].line} already")
            else:
                self.at += 1
                self.value(values, key, line, found[2] or "")
        return node

    def value(self, values: dict[str, Node], key: str, line: _Line, text: str) -> None:
        """Read what stands behind a key, or below it."""
        try:
            values[key] = self.inline(text, line.number, line.indent, list_may_align=True)
        except _Unread as error:
            self.at -= 1
            self.skip(line, str(error))

    def inline(self, text: str, number: int, indent: int, *, list_may_align: bool = False) -> Node:
        """Read a value that begins on a line with a key or a dash: there, or on the lines below it."""
        text = _without_comment(text)
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
            self.at += 1
            try:
                items.append(self.inline(rest, line.number, indent))
            except _Unread as error:
                self.at -= 1
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
            body = re.sub(r"(?<!\n)\n(?!\n)", " ", body)
        ending = "" if mark[1:2] == "-" else "\n"
        return Node(number, body + ending, mark)

    def scalar(self, text: str, number: int, indent: int) -> Node:
        """Read a scalar, or a list or mapping in brackets, that begins with a text."""
        if text[0] in "'\"":
            return Node(number, *self.quoted(text, number))
        if text[0] in "[{":
            return _flow(self.joined(text, number), number)
        if text[0] in "&*!%@`":
            raise _Unread(
                f"{text[0]!r} begins an anchor, an alias, a tag or a directive, which are not read"
            )
        while (
            (below := self.peek()) is not None
            and below.indent > indent
            and not _KEY.match(below.text)
        ):
            text += " " + _without_comment(below.text)  # a plain text that goes on
            self.at += 1
        return Node(number, _plain(text), text)

    def joined(self, text: str, number: int) -> str:
        """Return a list or mapping in brackets with the lines on which it goes on."""
        while not _balanced(text):
            below = self.peek()
            if below is None:
                raise _Unread(f"the bracket {text[0]!r} of line {number} is not closed")
            text += " " + _without_comment(below.text)
            self.at += 1
        return text

    def quoted(self, text: str, number: int) -> tuple[str, str]:
        """Return a quoted text, with the lines on which it goes on, without and with its quotes."""
        quote = text[0]
        body = text
        end = _closing(body, quote)
        row = number
        while end < 0:
            row += 1
            if row not in self.raw:
                raise _Unread(f"the quote {quote} of line {number} is not closed")
            body += " " + self.raw[row].strip()
            end = _closing(body, quote)
        while (line := self.peek()) is not None and line.number <= row:
            self.at += 1
        rest = body[end + 1 :].strip()
        if rest and not rest.startswith("#"):
            raise _Unread(f"after the closing quote stands {rest!r:.20}")
        return _unquoted(body[: end + 1]), body[: end + 1]


def _closing(text: str, quote: str) -> int:
    """Return where a quoted text ends; -1 if it does not."""
    at = 1
    while at < len(text):
        if quote == '"' and text[at] == "\\":
            at += 2
        elif quote == "'" and text[at : at + 2] == "''":
            at += 2
        elif text[at] == quote:
            return at
        else:
            at += 1
    return -1


def _unquoted(text: str) -> str:
    """Return a text without its quotes, if it has any."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        escapes = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
        return re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[0]), text[1:-1])
    return text.strip()


def _without_comment(text: str) -> str:
    """Return a text without the comment at its end."""
    quote = ""
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"" and (at == 0 or text[at - 1] in " [{,:"):
            quote = sign
        elif sign == "#" and (at == 0 or text[at - 1] == " "):
            return text[:at].rstrip()
    return text.rstrip()


def _plain(text: str) -> Scalar:
    """Return a plain scalar as YAML 1.1 reads it; "yes" and "on" stay texts."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _INT.fullmatch(word):
        return int(word)
    if _HEX.fullmatch(word):
        return int(word, 16)
    if _FLOAT.fullmatch(word):
        return float(word)
    return word


def _tokens(text: str) -> Iterator[str]:
    """Yield brackets, commas, colons and scalars of a list or mapping in brackets."""
    at = 0
    while at < len(text):
        sign = text[at]
        if sign in "[]{},":
            yield sign
            at += 1
        elif sign in "'\"":
            end = _closing(text[at:], sign)
            if end < 0:
                raise _Unread(f"the quote {sign} is not closed")
            yield text[at : at + end + 1]
            at += end + 1
        elif sign == ":" and (at + 1 == len(text) or text[at + 1] in " ,]}[{'\""):
            yield ":"
            at += 1
        elif sign == " ":
            at += 1
        else:
            end = at
            while end < len(text) and text[end] not in "[]{}," and text[end : end + 2] != ": ":
                end += 1
            word = text[at:end].rstrip()
            if word.endswith(":"):
                word = word[:-1]
                end -= 1
            yield word
            at = max(end, at + 1)


def _balanced(text: str) -> bool:
    """Return whether all brackets are closed."""
    try:
        signs = list(_tokens(text))
    except _Unread:
        return False
    opened = sum(sign in ("[", "{") for sign in signs)
    return opened <= sum(sign in ("]", "}") for sign in signs)


def _flow(text: str, number: int) -> Node:
    """Read a list or mapping in brackets."""
    signs = list(_tokens(text))
    node, rest = _flow_value(signs, number)
    if rest:
        raise _Unread(f"after the closing bracket stands {' '.join(rest)!r:.20}")
    return node


def _flow_value(signs: list[str], number: int) -> tuple[Node, list[str]]:
    """Return the value that begins with the first token, and the tokens behind it."""
    if not signs or signs[0] in ("]", "}", ",", ":"):
        raise _Unread("a value is missing between brackets")
    first, rest = signs[0], signs[1:]
    if first == "[":
        items: list[Node] = []
        while rest and rest[0] != "]":
            item, rest = _flow_value(rest, number)
            items.append(item)
            rest = _after_comma(rest, "]")
        return Node(number, items), _closed(rest, "]")
    if first == "{":
        values: dict[str, Node] = {}
        while rest and rest[0] != "}":
            key = _unquoted(rest[0])
            if rest[1:2] != [":"]:
                raise _Unread(f"the key {key!r:.20} in braces has no ': '")
            values[key], rest = _flow_value(rest[2:], number)
            rest = _after_comma(rest, "}")
        return Node(number, values), _closed(rest, "}")
    if first[0] in "'\"":
        return Node(number, _unquoted(first), first), rest
    return Node(number, _plain(first), first), rest


def _after_comma(signs: list[str], closing: str) -> list[str]:
    """Return the tokens after a comma, or those from the closing bracket on."""
    if signs[:1] == [","]:
        return signs[1:]
    if signs[:1] == [closing]:
        return signs
    raise _Unread(f"a comma or {closing!r} is missing")


def _closed(signs: list[str], closing: str) -> list[str]:
    """Return the tokens after the closing bracket."""
    if signs[:1] != [closing]:
        raise _Unread(f"{closing!r} is missing")
    return signs[1:]


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
    document = reader.block(full[0].indent)
    while (line := reader.peek()) is not None:
        reader.skip(line, "it does not belong to what stands above it")
    return document, sorted(skipped + reader.skipped)
