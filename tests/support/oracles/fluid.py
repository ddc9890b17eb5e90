"""A run of fluid flows in exact fractions: slow, without tricks, everything shared anew at every event."""

from fractions import Fraction

from support.oracles.max_min import by_fractions


def replay(capacity, rows, flows, changes=()):
    """Return start and finish of each flow as fractions.

    rows: dicts with flow, links (link -> use), share, delay. flows: dicts with size, start, lag, after, weight,
    limit. changes: (time, link, capacity) in order of time.
    """
    room, coming = [Fraction(c) for c in capacity], [tuple(map(Fraction, c)) for c in changes]
    left = [Fraction(flows[row["flow"]]["size"]) * Fraction(row["share"]) for row in rows]
    landed = [None] * len(rows)
    start, finish, now = [None] * len(flows), [None] * len(flows), Fraction(0)
    while True:
        while coming and coming[0][0] <= now:
            _, link, value = coming.pop(0)
            room[int(link)] = value
        while settle(flows, rows, left, landed, start, finish, now):
            pass
        if None not in finish:
            return start, finish
        live = [r for r, row in enumerate(rows) if left[r] and (start[row["flow"]] or 0) <= now]
        live = [r for r in live if start[rows[r]["flow"]] is not None]
        rate = dict(zip(live, share(room, [rows[r] for r in live], flows), strict=True))
        times = [s for s in start if s is not None and s > now] + [c[0] for c in coming]
        then = min(times + [now + left[r] / rate[r] for r in live if rate[r]])
        for r in live:
            left[r] -= rate[r] * (then - now)
            if not left[r]:
                landed[r] = then + Fraction(rows[r]["delay"])
        now = then


def settle(flows, rows, left, landed, start, finish, now):
    """Note starts and ends that are known by ``now``; return whether there was one."""
    before = start.count(None) + finish.count(None)
    for f, flow in enumerate(flows):
        if start[f] is None and all(finish[d] is not None for d in flow["after"]):
            ready = max((finish[d] for d in flow["after"]), default=Fraction(0))
            start[f] = max(Fraction(flow["start"]), ready + Fraction(flow["lag"]))
        mine = [r for r, row in enumerate(rows) if row["flow"] == f]
        if (
            finish[f] is None
            and start[f] is not None
            and start[f] <= now
            and not any(left[r] for r in mine)
        ):
            ends = [
                start[f] + Fraction(rows[r]["delay"]) if landed[r] is None else landed[r]
                for r in mine
            ]
            finish[f] = max(ends, default=start[f])
    return start.count(None) + finish.count(None) < before


def share(room, rows, flows):
    """Return the exact rates of rows; the limit of a flow holds for the sum of its rows."""
    limited = sorted({row["flow"] for row in rows if flows[row["flow"]]["limit"] != float("inf")})
    extra = {f: len(room) + i for i, f in enumerate(limited)}
    wide = [
        {**row["links"], **({extra[row["flow"]]: 1} if row["flow"] in extra else {})}
        for row in rows
    ]
    wider = [*room, *(Fraction(flows[f]["limit"]) for f in limited)]
    return by_fractions(
        wide, wider, [flows[row["flow"]]["weight"] for row in rows], [float("inf")] * len(rows)
    )
