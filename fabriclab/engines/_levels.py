"""Kernels of max-min sharing, for `SharedLinks` and the flow engine: the numbers of their NumPy forms, to the bit.

Both forms add in the same order, so not even the last bit differs; what differs is the time. NumPy passes over all
entries several times in each round and makes an array each time; these kernels pass twice and make none.
"""

from math import inf
from typing import Any

from fabriclab.compiled import kernel

# Columns of the table of links, (L, 5): all but ROOM are 0 between two calls.
ROOM = 0  # what the link has left for rows that have no level yet [B/s]
COUNT = 1  # sum of the coefficients of these rows
TAKEN = 2  # what this round takes away [B/s]
SHARE = 3  # level at which the link would be full [B/s]
WAITS = 4  # 1 if one of its rows has a lower level elsewhere
COLUMNS = 5


def _of_fill(numba: Any) -> Any:
    """Return the type of `fill`."""
    t = numba.types
    whole, real = t.int64[::1], t.float64[::1]
    return t.void(whole, whole, real, t.float64[:, ::1], whole, whole, whole, t.int64, real)


def _of_share(numba: Any) -> Any:
    """Return the type of `share`."""
    t = numba.types
    whole, real = t.int64[::1], t.float64[::1]
    entries = (whole, whole, real, real)
    rows = (real, real, real, real, real, real)
    scratch = (t.float64[:, ::1], whole, whole, whole)
    return t.void(t.float64, t.float64, whole, *entries, *rows, *scratch)


@kernel(_of_fill)
def fill(
    ptr: Any,
    link: Any,
    coef: Any,
    links: Any,
    used: Any,
    left: Any,
    rows: Any,
    n_rows: int,
    level: Any,
) -> None:
    """Write the max-min level of each of the first ``n_rows`` of ``rows`` to ``level[row]``; see `SharedLinks.levels`.

    ``links[:, ROOM]`` is what the rows may share; ``used`` and ``left`` are room for as many links and rows.
    """
    n_used = 0
    for i in range(n_rows):
        row = rows[i]
        left[i] = row
        for entry in range(ptr[row], ptr[row + 1]):
            crossed = link[entry]
            if links[crossed, COUNT] == 0.0:
                used[n_used] = crossed
                n_used += 1
            links[crossed, COUNT] += coef[entry]

    n_left = n_rows
    while n_left > 0:
        n_used = next_shares(links, used, n_used)
        for i in range(n_left):
            row = left[i]
            lowest = links[link[ptr[row]], SHARE]
            for entry in range(ptr[row] + 1, ptr[row + 1]):
                lowest = min(lowest, links[link[entry], SHARE])
            level[row] = lowest
            for entry in range(ptr[row], ptr[row + 1]):
                if links[link[entry], SHARE] > lowest:
                    links[link[entry], WAITS] = 1.0
        n_left = freeze(ptr, link, coef, links, left, n_left, level)
    next_shares(links, used, n_used)  # leaves the columns at 0


@kernel()
def next_shares(links: Any, used: Any, n_used: int) -> int:
    """Go to the next round on the links that are still used: take away, count, share; return how many these are."""
    kept = 0
    for i in range(n_used):
        crossed = used[i]
        links[crossed, ROOM] -= links[crossed, TAKEN]
        links[crossed, TAKEN] = 0.0
        links[crossed, WAITS] = 0.0
        if links[crossed, COUNT] > 0.0:
            # rounding must not lower a level
            share = links[crossed, ROOM] / links[crossed, COUNT]
            links[crossed, SHARE] = max(links[crossed, SHARE], share)
            links[crossed, COUNT] = 0.0
            used[kept] = crossed
            kept += 1
        else:
            links[crossed, SHARE] = 0.0
    return kept


@kernel()
def freeze(
    ptr: Any, link: Any, coef: Any, links: Any, left: Any, n_left: int, level: Any
) -> int:
    """Freeze the rows that cross a local bottleneck, and count the others for the next round; return how many are left."""
    kept = 0
    for i in range(n_left):
        row = left[i]
        stays = True
        for entry in range(ptr[row], ptr[row + 1]):
            if links[link[entry], WAITS] == 0.0:
                stays = False
                break
        if stays:
            left[kept] = row
            kept += 1
            for entry in range(ptr[row], ptr[row + 1]):
                links[link[entry], COUNT] += coef[entry]
        else:
            for entry in range(ptr[row], ptr[row + 1]):
                links[link[entry], TAKEN] += level[row] * coef[entry]
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
    used: Any,
    rest: Any,
    rows: Any,
) -> None:
    """Compute the rates again of the active rows at level ``floor`` and above, and when they end; see `Events._share`."""
    for crossed in range(len(capacity)):
        links[crossed, ROOM] = 0.0
    n_rows = 0
    for i in range(len(active)):
        row = active[i]
        if level[row] >= floor:
            rows[n_rows] = row
            n_rows += 1
        else:
            for entry in range(ptr[row], ptr[row + 1]):
                links[link[entry], ROOM] += level[row] * coef[entry]
    for crossed in range(len(capacity)):
        links[crossed, ROOM] = capacity[crossed] - links[crossed, ROOM]
    fill(ptr, link, coef, links, used, rest, rows, n_rows, level)
    for i in range(n_rows):
        row = rows[i]
        left[row] = max(left[row] - rate[row] * (now - since[row]), 0.0)
        since[row] = max(since[row], now)
        rate[row] = level[row] * weight[row]
        if rate[row] > 0.0:
            ends[row] = since[row] + left[row] / rate[row]
        else:
            ends[row] = inf
