"""Kernels of max-min sharing, for `SharedLinks` and the flow engine: the numbers of their NumPy forms, to the bit.

Both forms add in the same order, so not even the last bit differs; what differs is the time. NumPy passes over all
entries several times in each round and makes an array each time; these kernels pass twice and make none.
"""

from math import inf
from typing import Any

from fabriclab.compiled import kernel

# Lines of the table of links, (5, L): all but ROOM are 0 between two calls.
ROOM = 0  # what the link has left for rows that have no level yet [B/s]
COUNT = 1  # sum of the coefficients of these rows
TAKEN = 2  # what this round takes away [B/s]
SHARE = 3  # level at which the link would be full [B/s]
LOWEST = 4  # lowest level that one of its rows can get on any of that row's links [B/s]
LINES = 5


def _of_fill(numba: Any) -> Any:
    """Return the type of `fill`."""
    t = numba.types
    whole, real = t.int64[::1], t.float64[::1]
    scratch = (t.float64[:, ::1], t.uint8[::1], whole, whole, whole)
    return t.void(whole, whole, real, *scratch, whole, t.int64, real)


def _of_share(numba: Any) -> Any:
    """Return the type of `share`."""
    t = numba.types
    whole, real = t.int64[::1], t.float64[::1]
    entries = (whole, whole, real, real)
    rows = (real, real, real, real, real, real)
    scratch = (t.float64[:, ::1], t.uint8[::1], whole, whole, whole, whole)
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
    gone: Any,
    rows: Any,
    n_rows: int,
    level: Any,
) -> None:
    """Write the max-min level of each of the first ``n_rows`` of ``rows`` to ``level[row]``; see `SharedLinks.levels`.

    ``links[ROOM]`` is what the rows may share. ``coef`` is empty where every coefficient is 1. ``waits[l]`` is 1 while
    link l has a row with a lower level elsewhere; ``used`` is room for as many links, ``left`` and ``gone`` for as many
    rows.
    """
    for i in range(n_rows):
        row = rows[i]
        left[i] = row
        for entry in range(ptr[row], ptr[row + 1]):
            if len(coef) == 0:
                links[COUNT, link[entry]] += 1.0
            else:
                links[COUNT, link[entry]] += coef[entry]
    n_used = 0
    for number in range(len(waits)):
        if links[COUNT, number] > 0.0:
            used[n_used] = number
            n_used += 1

    n_left = n_rows
    while n_left > 0:
        n_used = next_round(coef, links, used, n_used)
        find_levels(ptr, link, links, waits, used, n_used, left, n_left, level)
        n_left = freeze(ptr, link, coef, links, waits, left, gone, n_left, level)
    next_round(coef, links, used, n_used)  # leaves zeros


# The loops below have few ifs: each goes one way or the other at random, so a processor guesses wrong every other time,
# and that takes longer than to compute both.


@kernel()
def next_round(coef: Any, links: Any, used: Any, n_used: int) -> int:
    """Take away what the last round gave, and share the rest of each link that is still used; return how many are."""
    kept = 0
    for i in range(n_used):
        number = used[i]
        is_used = links[COUNT, number] > 0.0
        links[ROOM, number] -= links[TAKEN, number]
        links[TAKEN, number] = 0.0
        # rounding must not lower a level
        share = links[ROOM, number] / (links[COUNT, number] if is_used else 1.0)
        share = max(links[SHARE, number], share)
        links[SHARE, number] = share if is_used else 0.0
        links[LOWEST, number] = inf if is_used else 0.0
        if len(coef) > 0:
            links[COUNT, number] = (
                0.0  # `freeze` counts again: less and less a rounded number does not end at 0
            )
        used[kept] = number
        kept += 1 if is_used else 0
    return kept


@kernel()
def find_levels(
    ptr: Any,
    link: Any,
    links: Any,
    waits: Any,
    used: Any,
    n_used: int,
    left: Any,
    n_left: int,
    level: Any,
) -> None:
    """Give each row the lowest share of its links, and let each link wait that has a row with a lower level."""
    for i in range(n_left):
        row = left[i]
        lowest = links[SHARE, link[ptr[row]]]
        for entry in range(ptr[row] + 1, ptr[row + 1]):
            lowest = min(lowest, links[SHARE, link[entry]])
        level[row] = lowest
        for entry in range(ptr[row], ptr[row + 1]):
            links[LOWEST, link[entry]] = min(links[LOWEST, link[entry]], lowest)
    for i in range(n_used):
        number = used[i]
        waits[number] = links[LOWEST, number] < links[SHARE, number]


@kernel()
def freeze(
    ptr: Any,
    link: Any,
    coef: Any,
    links: Any,
    waits: Any,
    left: Any,
    gone: Any,
    n_left: int,
    level: Any,
) -> int:
    """Freeze the rows of links that do not wait, and count the others for the next round; return how many are left."""
    kept = 0
    n_gone = 0
    for i in range(n_left):
        row = left[i]
        stays = 1
        for entry in range(ptr[row], ptr[row + 1]):
            stays &= waits[link[entry]]
        left[kept] = row
        gone[n_gone] = row
        kept += stays
        n_gone += 1 - stays

    for i in range(n_gone):
        row = gone[i]
        for entry in range(ptr[row], ptr[row + 1]):
            if len(coef) == 0:
                links[TAKEN, link[entry]] += level[row]
                links[COUNT, link[entry]] -= 1.0
            else:
                links[TAKEN, link[entry]] += level[row] * coef[entry]
    if len(coef) > 0:
        for i in range(kept):
            row = left[i]
            for entry in range(ptr[row], ptr[row + 1]):
                links[COUNT, link[entry]] += coef[entry]
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
            for entry in range(ptr[row], ptr[row + 1]):
                if len(coef) == 0:
                    links[ROOM, link[entry]] += level[row]
                else:
                    links[ROOM, link[entry]] += level[row] * coef[entry]
    for number in range(len(capacity)):
        links[ROOM, number] = capacity[number] - links[ROOM, number]
    fill(ptr, link, coef, links, waits, used, rest, gone, rows, n_rows, level)
    for i in range(n_rows):
        row = rows[i]
        left[row] = max(left[row] - rate[row] * (now - since[row]), 0.0)
        since[row] = max(since[row], now)
        rate[row] = level[row] * weight[row]
        if rate[row] > 0.0:
            ends[row] = since[row] + left[row] / rate[row]
        else:
            ends[row] = inf
