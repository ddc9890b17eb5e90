"""Kernels of max-min sharing, for `SharedLinks` and the flow engine: the numbers of their NumPy forms, to the bit.

Both forms add in the same order, so not even the last bit differs; what differs is the time. NumPy passes over all
entries several times in each round and makes an array each time; these kernels pass twice and make none.

Numbers of rows, links and entries are unsigned here, a view of the same bytes. A signed index could count from the end
of an array, so each access would first compare it with 0 and add the length: three instructions for each one that
reads, and a third of the time. Lists that a kernel writes take 4 bytes for each number, because in a first solve every
page of new memory costs about a microsecond.
"""

from math import inf
from typing import Any

from fabriclab.compiled import kernel

# Lines of the table of links, (4, L): all but ROOM are 0 between two calls.
ROOM = 0  # what the link has left for rows that have no level yet [B/s]
COUNT = 1  # sum of the coefficients of these rows
TAKEN = 2  # what this round takes away [B/s]
SHARE = 3  # level at which the link would be full [B/s]
LINES = 4

# What the mark of a link says, (L,):
WAITS = 1  # one of its rows has a lower level elsewhere, so this is not yet the level of the link
CHANGED = 2  # a row of it was frozen in this round


def _of_fill(numba: Any) -> Any:
    """Return the type of `fill`."""
    t = numba.types
    whole, short, real = t.uint64[::1], t.uint32[::1], t.float64[::1]
    entries = (whole, whole, whole, real)
    scratch = (t.float64[:, ::1], t.uint8[::1], short, short, short)
    return t.void(*entries, *scratch, whole, t.int64, real)


def _of_share(numba: Any) -> Any:
    """Return the type of `share`."""
    t = numba.types
    whole, short, real = t.uint64[::1], t.uint32[::1], t.float64[::1]
    entries = (whole, whole, whole, real, real)
    rows = (real, real, real, real, real, real)
    scratch = (t.float64[:, ::1], t.uint8[::1], short, short, short, whole)
    return t.void(t.float64, t.float64, whole, *entries, *rows, *scratch)


@kernel(_of_fill)
def fill(
    starts: Any,
    stops: Any,
    link: Any,
    coef: Any,
    links: Any,
    mark: Any,
    changed: Any,
    left: Any,
    gone: Any,
    rows: Any,
    n_rows: int,
    level: Any,
) -> None:
    """Write the max-min level of each of the first ``n_rows`` of ``rows`` to ``level[row]``; see `SharedLinks.levels`.

    Row r crosses ``link[starts[r]:stops[r]]``. ``links[ROOM]`` is what the rows may share. ``coef`` is empty where
    every coefficient is 1. ``changed`` is room for the numbers of all links and one more, ``left`` and ``gone`` for
    those of all rows.
    """
    for i in range(n_rows):
        row = rows[i]
        left[i] = row
        for entry in range(starts[row], stops[row]):
            if len(coef) == 0:
                links[COUNT, link[entry]] += 1.0
            else:
                links[COUNT, link[entry]] += coef[entry]
    n_changed = 0  # before the first round: all links that are used
    for number in range(len(mark)):
        changed[n_changed] = number
        n_changed += 1 if links[COUNT, number] > 0.0 else 0

    n_left = n_rows
    while n_left > 0:
        share_room(links, changed, n_changed)
        find_levels(starts, stops, link, links, mark, left, n_left, level)
        n_kept = split_rows(starts, stops, link, mark, left, gone, n_left)
        n_gone = n_left - n_kept
        n_changed = freeze(starts, stops, link, coef, links, mark, changed, gone, n_gone, level)
        if len(coef) > 0:
            count_again(starts, stops, link, coef, links, mark, changed, n_changed, left, n_kept)
        n_left = n_kept
    share_room(links, changed, n_changed)  # leaves zeros


# The loops below have few ifs: each goes one way or the other at random, so a processor guesses wrong every other time,
# and that takes longer than to compute both. Hence they write to the next place of a list in any case, and only then
# decide whether that place is taken.


@kernel()
def share_room(links: Any, changed: Any, n_changed: int) -> None:
    """Take away what the last round gave, and share what is left of the links where it gave something."""
    for i in range(n_changed):
        number = changed[i]
        is_used = links[COUNT, number] > 0.0
        links[ROOM, number] -= links[TAKEN, number]
        links[TAKEN, number] = 0.0
        # rounding must not lower a level
        share = links[ROOM, number] / (links[COUNT, number] if is_used else 1.0)
        share = max(links[SHARE, number], share)
        links[SHARE, number] = share if is_used else 0.0


@kernel()
def find_levels(
    starts: Any,
    stops: Any,
    link: Any,
    links: Any,
    mark: Any,
    left: Any,
    n_left: int,
    level: Any,
) -> None:
    """Give each row the lowest share of its links, and let each link wait that has a row with a lower level."""
    for number in range(len(mark)):
        mark[number] = 0
    for i in range(n_left):
        row = left[i]
        lowest = inf
        for entry in range(starts[row], stops[row]):
            lowest = min(lowest, links[SHARE, link[entry]])
        level[row] = lowest
        for entry in range(starts[row], stops[row]):
            mark[link[entry]] |= WAITS if lowest < links[SHARE, link[entry]] else 0


@kernel()
def split_rows(
    starts: Any,
    stops: Any,
    link: Any,
    mark: Any,
    left: Any,
    gone: Any,
    n_left: int,
) -> int:
    """Move the rows of links that do not wait from ``left`` to ``gone``; return how many stay."""
    n_kept = 0
    n_gone = 0
    for i in range(n_left):
        row = left[i]
        stays = WAITS
        for entry in range(starts[row], stops[row]):
            stays &= mark[link[entry]]
        left[n_kept] = row
        gone[n_gone] = row
        n_kept += 1 if stays else 0
        n_gone += 0 if stays else 1
    return n_kept


@kernel()
def freeze(
    starts: Any,
    stops: Any,
    link: Any,
    coef: Any,
    links: Any,
    mark: Any,
    changed: Any,
    gone: Any,
    n_gone: int,
    level: Any,
) -> int:
    """Take the rates of the rows that are gone from their links, and list these links; return how many there are."""
    n_changed = 0
    for i in range(n_gone):
        row = gone[i]
        frozen = level[row]
        for entry in range(starts[row], stops[row]):
            number = link[entry]
            if len(coef) == 0:
                links[TAKEN, number] += frozen
                links[COUNT, number] -= 1.0
            else:
                links[TAKEN, number] += frozen * coef[entry]
            changed[n_changed] = number
            n_changed += 0 if mark[number] == CHANGED else 1
            mark[number] = CHANGED
    return n_changed


@kernel()
def count_again(
    starts: Any,
    stops: Any,
    link: Any,
    coef: Any,
    links: Any,
    mark: Any,
    changed: Any,
    n_changed: int,
    left: Any,
    n_left: int,
) -> None:
    """Add up the coefficients of the rows that are left: a rounded sum, less and less, would not end at 0."""
    for i in range(n_changed):
        links[COUNT, changed[i]] = 0.0
    for i in range(n_left):
        row = left[i]
        for entry in range(starts[row], stops[row]):
            number = link[entry]
            links[COUNT, number] += coef[entry] if mark[number] == CHANGED else 0.0


@kernel(_of_share)
def share(
    now: float,
    floor: float,
    active: Any,
    starts: Any,
    stops: Any,
    link: Any,
    coef: Any,
    capacity: Any,
    weight: Any,
    level: Any,
    rate: Any,
    left: Any,
    since: Any,
    ends: Any,
    links: Any,
    mark: Any,
    changed: Any,
    rest: Any,
    gone: Any,
    rows: Any,
) -> None:
    """Compute again when the active rows at level ``floor`` and above end, and their rates; see `Events._share`."""
    for number in range(len(capacity)):
        links[ROOM, number] = 0.0
    n_rows = 0
    for i in range(len(active)):
        row = active[i]
        if level[row] >= floor:
            rows[n_rows] = row
            n_rows += 1
        else:
            for entry in range(starts[row], stops[row]):
                if len(coef) == 0:
                    links[ROOM, link[entry]] += level[row]
                else:
                    links[ROOM, link[entry]] += level[row] * coef[entry]
    for number in range(len(capacity)):
        links[ROOM, number] = capacity[number] - links[ROOM, number]
    fill(starts, stops, link, coef, links, mark, changed, rest, gone, rows, n_rows, level)
    for i in range(n_rows):
        row = rows[i]
        left[row] = max(left[row] - rate[row] * (now - since[row]), 0.0)
        since[row] = max(since[row], now)
        rate[row] = level[row] * weight[row]
        if rate[row] > 0.0:
            ends[row] = since[row] + left[row] / rate[row]
        else:
            ends[row] = inf
