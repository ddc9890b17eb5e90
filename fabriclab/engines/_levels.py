"""Kernels of max-min sharing, for `SharedLinks` and the flow engine: the numbers of their NumPy forms, to the bit.

Both forms add in the same order, so not even the last bit differs; what differs is the time. NumPy passes over all
entries several times in each round and makes an array each time; these kernels pass twice and make none.
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


def _of_fill(numba: Any) -> Any:
    """Return the type of `fill`."""
    t = numba.types
    whole, real = t.int64[::1], t.float64[::1]
    scratch = (t.float64[:, ::1], whole, whole, whole)
    return t.void(whole, whole, real, *scratch, whole, t.int64, real)


def _of_share(numba: Any) -> Any:
    """Return the type of `share`."""
    t = numba.types
    whole, real = t.int64[::1], t.float64[::1]
    entries = (whole, whole, real, real)
    rows = (real, real, real, real, real, real)
    scratch = (t.float64[:, ::1], whole, whole, whole, whole)
    return t.void(t.float64, t.float64, whole, *entries, *rows, *scratch)


@kernel(_of_fill)
def fill(
    ptr: Any,
    link: Any,
    coef: Any,
    links: Any,
    waits: Any,
    used: Any,
    left: Any,
    rows: Any,
    n_rows: int,
    level: Any,
) -> None:
    """Write the max-min level of each of the first ``n_rows`` of ``rows`` to ``level[row]``; see `SharedLinks.levels`.

    ``links[ROOM]`` is what the rows may share. ``waits[l]`` is 1 while link l has a row with a lower level elsewhere;
    ``used`` and ``left`` are room for as many links and rows.
    """
    for i in range(n_rows):
        row = rows[i]
        left[i] = row
        for entry in range(ptr[row], ptr[row + 1]):
            links[COUNT, link[entry]] += coef[entry]
    n_used = 0
    for number in range(len(waits)):
        if links[COUNT, number] > 0.0:
            used[n_used] = number
            n_used += 1

    n_left = n_rows
    while n_left > 0:
        n_used = next_round(links, waits, used, n_used)
        find_levels(ptr, link, links, waits, left, n_left, level)
        n_left = freeze(ptr, link, coef, links, waits, left, n_left, level)
    next_round(links, waits, used, n_used)  # leaves zeros


@kernel()
def next_round(links: Any, waits: Any, used: Any, n_used: int) -> int:
    """Take away what the last round gave, and share the rest of each link that is still used; return how many are."""
    kept = 0
    for i in range(n_used):
        number = used[i]
        if links[COUNT, number] > 0.0:
            links[ROOM, number] -= links[TAKEN, number]
            # rounding must not lower a level
            share = links[ROOM, number] / links[COUNT, number]
            links[SHARE, number] = max(links[SHARE, number], share)
            used[kept] = number
            kept += 1
        else:
            links[SHARE, number] = 0.0
        links[TAKEN, number] = 0.0
        links[COUNT, number] = 0.0
        waits[number] = 0
    return kept


@kernel()
def find_levels(
    ptr: Any, link: Any, links: Any, waits: Any, left: Any, n_left: int, level: Any
) -> None:
    """Give each row the lowest share of its links, and let its other links wait."""
    for i in range(n_left):
        row = left[i]
        lowest = links[SHARE, link[ptr[row]]]
        for entry in range(ptr[row] + 1, ptr[row + 1]):
            lowest = min(lowest, links[SHARE, link[entry]])
        level[row] = lowest
        for entry in range(ptr[row], ptr[row + 1]):
            # an if would be guessed wrong so often that it takes a quarter more time
            waits[link[entry]] |= links[SHARE, link[entry]] > lowest


@kernel()
def freeze(
    ptr: Any,
    link: Any,
    coef: Any,
    links: Any,
    waits: Any,
    left: Any,
    n_left: int,
    level: Any,
) -> int:
    """Freeze the rows of links that do not wait, and count the others for the next round; return how many are left."""
    kept = 0
    for i in range(n_left):
        row = left[i]
        stays = True
        for entry in range(ptr[row], ptr[row + 1]):
            if waits[link[entry]] == 0:
                stays = False
                break
        if stays:
            left[kept] = row
            kept += 1
            for entry in range(ptr[row], ptr[row + 1]):
                links[COUNT, link[entry]] += coef[entry]
        else:
            for entry in range(ptr[row], ptr[row + 1]):
                links[TAKEN, link[entry]] += level[row] * coef[entry]
    return kept


@kernel(_of_share)
def share(
    now: float,
    floor: float,
    active: Any,
    ptr: Any,
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
    waits: Any,
    used: Any,
    rest: Any,
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
            for entry in range(ptr[row], ptr[row + 1]):
                links[ROOM, link[entry]] += level[row] * coef[entry]
    for number in range(len(capacity)):
        links[ROOM, number] = capacity[number] - links[ROOM, number]
    fill(ptr, link, coef, links, waits, used, rest, rows, n_rows, level)
    for i in range(n_rows):
        row = rows[i]
        left[row] = max(left[row] - rate[row] * (now - since[row]), 0.0)
        since[row] = max(since[row], now)
        rate[row] = level[row] * weight[row]
        if rate[row] > 0.0:
            ends[row] = since[row] + left[row] / rate[row]
        else:
            ends[row] = inf
