"""Scalars, quotes, and lists and mappings in brackets: what stands on one line of YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "Node",
    "Unread",
    "balanced",
    "closing",
    "flow",
    "plain_scalar",
    "unquoted",
    "without_comment",
]

_INT = re.compile(r"[-+]?[0-9]{1,400}")
_OCTAL = re.compile(r"0[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class Unread(Exception):
    """A text that is not read, with the reason."""


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


def closing(text: str, quote: str) -> int:
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


def unquoted(text: str) -> str:
    """Return a text without its quotes, if it has any."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        escapes = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
        return re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[0]), text[1:-1])
    return text.strip()


def without_comment(text: str) -> str:
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


def plain_scalar(text: str) -> Scalar:
    """Return a plain scalar as YAML 1.1 reads it; "yes" and "on" stay texts."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _OCTAL.fullmatch(word):
        return int(word, 8)
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
            end = closing(text[at:], sign)
            if end < 0:
                raise Unread(f"the quote {sign} is not closed")
            yield text[at : at + end + 1]
            at += end + 1
        elif sign == ":" and (at + 1 == len(text) or text[at + 1] in " ,]}[{'\""):
            yield ":"
            at += 1
        elif sign.isspace():
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


def balanced(text: str) -> bool:
    """Return whether all brackets are closed."""
    try:
        signs = list(_tokens(text))
    except Unread:
        return False
    opened = sum(sign in ("[", "{") for sign in signs)
    return opened <= sum(sign in ("]", "}") for sign in signs)


_DEEPEST = 50  # brackets inside each other


def flow(text: str, number: int) -> Node:
    """Read a list or mapping in brackets."""
    if max(text.count("["), text.count("{")) > _DEEPEST:
        raise Unread(f"more than {_DEEPEST} brackets in one value")
    signs = list(_tokens(text))
    node, rest = _flow_value(signs, number)
    if rest:
        raise Unread(f"after the closing bracket stands {' '.join(rest)!r:.20}")
    return node


def _flow_value(signs: list[str], number: int) -> tuple[Node, list[str]]:
    """Return the value that begins with the first token, and the tokens behind it."""
    if not signs or signs[0] in ("]", "}", ",", ":"):
        raise Unread("a value is missing between brackets")
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
            key = unquoted(rest[0])
            if rest[1:2] != [":"]:
                raise Unread(f"the key {key!r:.20} in braces has no ': '")
            values[key], rest = _flow_value(rest[2:], number)
            rest = _after_comma(rest, "}")
        return Node(number, values), _closed(rest, "}")
    if first[0] in "'\"":
        return Node(number, unquoted(first), first), rest
    return Node(number, plain_scalar(first), first), rest


def _after_comma(signs: list[str], bracket: str) -> list[str]:
    """Return the tokens after a comma, or those from the closing bracket on."""
    if signs[:1] == [","]:
        return signs[1:]
    if signs[:1] == [bracket]:
        return signs
    raise Unread(f"a comma or {bracket!r} is missing")


def _closed(signs: list[str], bracket: str) -> list[str]:
    """Return the tokens after the closing bracket."""
    if signs[:1] != [bracket]:
        raise Unread(f"{bracket!r} is missing")
    return signs[1:]
