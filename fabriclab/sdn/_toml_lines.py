"""Lines of a TOML text on which its tables, keys and items stand, which the parser of the standard library forgets."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

__all__ = ["lines_of"]

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:\s+|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]+")  # a number, a date, true or false
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)


def lines_of(text: str) -> Mapping[Path, int]:
    r"""Return the line of each table, key and item of a text that is valid TOML, by its path.

    Examples
    --------
    >>> lines_of('[[demand]]\nfrom = 0\n[[demand]]\n"to" = 1')["demand", 1, "to"]
    4
    """
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


class _Scanner:
    """Walks once through a valid text and notes where everything begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0  # of the next character
        self.lines: dict[Path, int] = {}
        self.breaks = [match.start() for match in re.finditer("\n", text)]
        self.last: dict[Path, int] = {}  # number of the last table of each array of tables

    def scan(self) -> None:
        """Note all headers, and all keys with what they hold."""
        table: Path = ()
        while self._skip():
            line = self._line()
            if self.text[self.place] != "[":
                self._pair(table)
                continue
            is_array = self.text.startswith("[[", self.place)
            width = 2 if is_array else 1
            self.place += width
            table = self._table(self._keys(), is_array, line)
            self.place += width

    def _table(self, keys: list[str], is_array: bool, line: int) -> Path:
        """Note a table and those around it, and return its path; an array of tables stands for its last one."""
        path: Path = ()
        for depth, key in enumerate(keys, start=1):
            path = (*path, key)
            self.lines.setdefault(path, line)
            if is_array and depth == len(keys):
                self.last[path] = self.last.get(path, -1) + 1
            if path in self.last:
                path = (*path, self.last[path])
                self.lines.setdefault(path, line)
        return path

    def _pair(self, table: Path) -> None:
        """Note a key, which may be dotted, and what its value holds."""
        line = self._line()
        path = table
        for key in self._keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.place += 1  # the sign =
        self._skip()
        self._value(path)

    def _keys(self) -> list[str]:
        """Return the names of a dotted key, and stop behind them."""
        keys = []
        while True:
            self._skip()
            quoted = _STRING.match(self.text, self.place)
            found = quoted or _BARE.match(self.text, self.place)
            assert found is not None
            keys.append(tomllib.loads(f"key = {found[0]}")["key"] if quoted else found[0])
            self.place = found.end()
            self._skip()
            if self.text[self.place] != ".":
                return keys
            self.place += 1

    def _value(self, path: Path) -> None:
        """Note what a value holds, and stop behind it."""
        first = self.text[self.place]
        if first in "[{":
            self.place += 1
            self._items(path, "]" if first == "[" else "}")
            return
        found = (_STRING if first in "\"'" else _SCALAR).match(self.text, self.place)
        assert found is not None
        self.place = found.end()

    def _items(self, path: Path, end: str) -> None:
        """Note the items of an array or of an inline table, and stop behind its end."""
        number = 0
        while self._skip() and self.text[self.place] != end:
            if self.text[self.place] == ",":
                self.place += 1
            elif end == "}":
                self._pair(path)
            else:
                self.lines.setdefault((*path, number), self._line())
                self._value((*path, number))
                number += 1
        self.place += 1

    def _skip(self) -> bool:
        """Go on to the next character that is neither blank nor a comment; return whether there is one."""
        found = _BLANK.match(self.text, self.place)
        assert found is not None
        self.place = found.end()
        return self.place < len(self.text)

    def _line(self) -> int:
        """Return the line of the next character, from 1."""
        return bisect_right(self.breaks, self.place - 1) + 1
