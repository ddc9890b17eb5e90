"""Max-min fair levels by water filling, all local bottlenecks of a round at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab.core._arrays import pointer

__all__ = ["fill"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_WIDEST: Final = 16  # a row with more links is cut into pieces, or the table would be mostly padding
_PIECE: Final = 8
_SPARSE: Final = 4  # links are numbered anew when the table has fewer entries than 1 / _SPARSE of them


def fill(ptr: Ints, link: Ints, coef: Floats | None, room: Floats) -> Floats:
    """Return the max-min level of each row; every row has an entry.

    A link whose level is the least on all links of all its rows keeps that level whatever happens
    elsewhere, because the level of a link never falls while rows are frozen below it. So all such local
    bottlenecks are frozen in one round, where the textbook rule freezes one per round.

    Parameters
    ----------
    ptr : (R + 1,) int64
        Row r holds the entries ``ptr[r]:ptr[r + 1]``.
    link : (E,) int64
        Link of each entry.
    coef : (E,) float64 or None
        Rate on the link per unit of the row's level, > 0; None for 1 everywhere.
    room : (L,) float64
        What the rows may use of each link, finite; below 0 counts as 0. [B/s]

    Returns
    -------
    (R,) float64
        Level of each row. [B/s]
    """
    table = _table(ptr, link, coef, room.size)
    room = np.append(room, np.inf)  # the last link is the one that pads
    share, level, rows = np.zeros(room.size), np.empty(ptr.size - 1), np.arange(ptr.size - 1)
    while rows.size:
        if _SPARSE * table.link.size < room.size:
            table, used = table.renumbered(room.size)
            room, share = room[used], share[used]
        with np.errstate(divide="ignore", invalid="ignore"):
            np.fmax(share, room / table.load(room.size), out=share)  # rounding shall not lower a level
        each = share.take(table.link)
        least = table.per_row(np.minimum, each.min(axis=0))
        waits = np.zeros(room.size, dtype=bool)  # links with a row that has a lower level elsewhere
        waits[table.link.ravel().take(np.flatnonzero(each > table.per_column(least)))] = True
        stays = table.per_row(np.logical_and, np.all(waits.take(table.link), axis=0))
        level[rows[~stays]] = least[~stays]
        room -= table.only(~stays).load(room.size, least[~stays])
        table, rows = table.only(stays), rows[stays]
    return level


@dataclass(frozen=True)
class _Table:
    """Rows as columns of links, padded with the last link: numpy is several times faster on it than on rows."""

    link: Ints  # (W, C)
    coef: Floats | None  # (W, C), any number > 0 in the padding
    pieces: Ints | None  # (R,) columns of each row, None for one each

    def per_row(self, join: np.ufunc, column: Array) -> Array:
        """Return values of the columns (C,) joined to values of the rows (R,)."""
        return column if self.pieces is None else join.reduceat(column, pointer(self.pieces)[:-1])

    def per_column(self, row: Array) -> Array:
        """Return values of the rows (R,) as values of the columns (C,)."""
        return row if self.pieces is None else np.repeat(row, self.pieces)

    def load(self, n: int, level: Floats | None = None) -> Array:
        """Return what the rows put on each of ``n`` links at these levels, or per unit of level."""
        part = self.coef
        if level is not None:
            column = self.per_column(level)
            part = np.broadcast_to(column, self.link.shape) if part is None else part * column
        return np.bincount(self.link.ravel(), None if part is None else part.ravel(), n)

    def only(self, rows: NDArray[np.bool_]) -> _Table:
        """Return the table of these rows."""
        at = np.flatnonzero(self.per_column(rows))
        coef = None if self.coef is None else self.coef.take(at, axis=1)
        return _Table(self.link.take(at, axis=1), coef, None if self.pieces is None else self.pieces[rows])

    def renumbered(self, n: int) -> tuple[_Table, Ints]:
        """Return the table with its links numbered anew, and the old numbers, the one that pads last."""
        flat, here = self.link.ravel(), np.arange(self.link.size)
        number = np.empty(n, dtype=np.int64)
        number[flat] = here
        used = flat[number[flat] == here]  # one entry of each link: the one whose place was kept
        used = np.append(used[used != n - 1], n - 1)
        number[used] = np.arange(used.size)
        return _Table(number[self.link], self.coef, self.pieces), used


def _table(ptr: Ints, link: Ints, coef: Floats | None, spare: int) -> _Table:
    """Return compressed rows as a table padded with the link ``spare``."""
    start, counts, pieces = ptr[:-1], np.diff(ptr), None
    width = int(counts.max(initial=0))
    if width > _WIDEST:
        width, pieces = _PIECE, -(-counts // _PIECE)
        start = np.repeat(start - width * pointer(pieces)[:-1], pieces) + width * np.arange(pieces.sum())
        counts = np.minimum(np.repeat(ptr[1:], pieces) - start, width)
    table = np.empty((width, counts.size), dtype=np.int64)
    factor = None if coef is None else np.empty(table.shape)
    for place in range(width):
        entry = np.minimum(start + place, link.size - 1)
        table[place] = np.where(counts > place, link[entry], spare)
        if factor is not None and coef is not None:
            factor[place] = coef[entry]
    return _Table(table, factor, pieces)
