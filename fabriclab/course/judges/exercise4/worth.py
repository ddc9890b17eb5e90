"""Exercise 4, the judges of what a switch is worth: bounds (a), where it pays (e), and what it takes to run it (f)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fabriclab import units
from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.numbers import Misread, near, number
from fabriclab.registry import register
from fabriclab.texts import text

from .programs import PRELUDE

Slips = Mapping[str, float]


class Want(NamedTuple):
    """A number that a function must return: how near, and which mistakes give another one."""

    value: float
    kind: str  # of quantity, or plain
    within: float
    slips: Slips
    apart: float = 0.0  # that it may be off in any case


# arguments of a call, and the numbers that it must return
Case = tuple[tuple[Any, ...], Sequence[Want]]


class Part(NamedTuple):
    """A function: its share of the question, and its calls; each half of them is a set."""

    name: str
    share: float
    cases: Sequence[Case]


def _shown(value: float, kind: str) -> str:
    return (
        units.format_time(value)
        if kind == "time"
        else f"{value:,.0f} B"
        if kind == "size"
        else f"{value:.6g}"
    )


def _called(ask: Ask, part: Part, n: int) -> tuple[list[str], str] | None:
    """Return what is wrong with one call and the name of the mistake, or None."""
    args, wants = part.cases[n]
    try:
        got = ask(part.name, *args)
        values = got if isinstance(got, list) and len(wants) > 1 else [got]
        if len(values) != len(wants):
            raise Misread(text("ex4.numbers", n=len(wants), got=f"{got!r:.60}"))
        found = [number(value, want.kind) for value, want in zip(values, wants, strict=True)]
    except (Unanswered, Misread) as error:
        return [error.said if isinstance(error, Unanswered) else f"{part.name}: {error}"], ""
    for value, want in zip(found, wants, strict=True):
        if near(value, want.value, want.within) or abs(value - want.value) <= want.apart:
            continue
        name = next(
            (slip for slip, wrong in want.slips.items() if near(value, wrong, 1e-3)), ""
        ).partition("/")[0]
        call = f"{part.name}({', '.join(f'{a:.6g}' if isinstance(a, float) else str(a) for a in args)})"
        shown = [_shown(v, want.kind) for v in (value, want.value)]
        said = [
            text(
                "ex4.number",
                call=call,
                got=shown[0],
                truth=shown[1],
                percent=f"{100 * want.within:g}",
            )
        ]
        return [*said, *([text(f"mis.{name}")] if name else [])], name
    return None


def judged(ask: Ask, parts: Sequence[Part]) -> Verdict:
    """Judge functions, two sets of calls each."""
    whole, said, mistake, failed = 0.0, list[str](), "", list[tuple[str, int]]()
    for part in parts:
        found = [_called(ask, part, n) for n in range(len(part.cases))]
        bad = {n % 2 for n, one in enumerate(found) if one}
        whole += part.share * (1 - len(bad) / 2)
        if bad:
            first = next(n for n, one in enumerate(found) if one)
            words, name = found[first] or ([], "")
            said, mistake = said + words, mistake or name
            failed.append((part.name, first))
    if not whole:  # nothing was written, or all stops with an error
        ask(parts[0].name, *parts[0].cases[0][0])
    return Verdict(round(whole, 9), tuple(dict.fromkeys(said)), mistake, tuple(failed))


def _cases(rng: Rng, make: Callable[..., Case]) -> list[Case]:
    return [make(rng) for _ in range(4)]


# ex4-a -----------------------------------------------------------------------------------------------------------


def _wire(rng: Rng) -> Case:
    n, lanes, header = (
        int(rng.integers(3, 65)),
        int(16 * 2 ** rng.integers(3)),
        int(rng.integers(20, 80)),
    )
    size = int(rng.integers(100, 1000)) * 64 * 2**10
    ring = {
        "one phase only": (n - 1) / n * size,
        "factor taken as 2": 2.0 * size,
        "array sent once": 1.0 * size,
        "everything to everyone": (n - 1.0) * size,
    }
    switch = {"headers forgotten": 1.0 * size, "everything to everyone": (n - 1.0) * size}
    sent = size * (1 + header / (4 * lanes))
    return (n, size, lanes, header), (
        Want(2 * (n - 1) / n * size, "size", 0.005, ring),
        Want(sent, "size", 0.005, switch),
    )


def _gain(rng: Rng) -> Case:
    n = int(rng.integers(3, 33))
    times = {"n times faster": float(n), "n times faster/others": n - 1.0, "factor taken as 2": 2.0}
    tree, nvls = 2 * (n - 1) / n, 2 * (n - 1) / (n + 1)
    server = {**times, "own part of the result forgotten": tree}
    return (n,), (Want(tree, "", 0.005, times), Want(nvls, "", 0.005, server))


@register(
    "question",
    "ex4-a",
    functions=("wire", "gain"),
    points=10,
    example=lambda rng: _wire(rng)[0],
    prelude=PRELUDE,
)
def bounds(ask: Ask, rng: Rng) -> Verdict:
    """Judge bytes on a worker's link and the best possible gain, before anything is written."""
    return judged(
        ask, [Part("wire", 0.5, _cases(rng, _wire)), Part("gain", 0.5, _cases(rng, _gain))]
    )


# ex4-e -----------------------------------------------------------------------------------------------------------


class Design(NamedTuple):
    """What a learner has declared."""

    lanes: int
    header: int  # [B]
    slots: int

    @property
    def packet(self) -> int:
        """Its size [B]."""
        return 4 * self.lanes + self.header

    def trip(self, rate: float, delay: float) -> float:
        """Return the time from sending a packet until its answer is there [s]."""
        return 2 * (delay + self.packet / rate)

    def time(self, size: float, rate: float, delay: float) -> float:
        """Return the time of an all-reduce through the switch [s]: the link is full, or the pool is used up."""
        packets, trip = math.ceil(size / (4 * self.lanes)), self.trip(rate, delay)
        return max(
            (packets - 1) * self.packet / rate + trip, math.ceil(packets / self.slots) * trip
        )


def ring(size: float, n: int, rate: float, delay: float) -> float:
    """Return the time of a ring through the same switch [s]."""
    return 2 * (n - 1) * (size / n / rate + 2 * delay)


def _design(ask: Ask) -> Design:
    got = ask("design")
    names = Design._fields
    if not isinstance(got, dict) or any(type(got.get(name)) is not int for name in names):
        raise Misread(text("ex4.design", names=", ".join(names), got=f"{got!r:.80}"))
    found = Design(*(got[name] for name in names))
    if not (16 <= found.lanes <= 64 and 1 <= found.header <= 200 and 1 <= found.slots <= 10**6):
        raise Misread(text("ex4.design.range", got=f"{got!r:.80}"))
    return found


def _times(rng: Rng, d: Design, large: bool) -> Case:
    size, (rate, delay) = int(2 ** rng.uniform(*((23, 26) if large else (13, 16)))), _link(rng)
    n = int(rng.integers(4, 33))
    full = {
        "pool ignored": (math.ceil(size / (4 * d.lanes)) - 1) * d.packet / rate
        + d.trip(rate, delay),
        "headers forgotten": size / rate,
    }
    other = {
        "steps cost nothing": 2 * (n - 1) / n * size / rate,
        "one phase only": ring(size, n, rate, delay) / 2,
    }
    return (size, n, rate, delay), (
        Want(ring(size, n, rate, delay), "time", 0.1, other),
        Want(d.time(size, rate, delay), "time", 0.1, full),
    )


def _link(rng: Rng) -> tuple[float, float]:
    """Return rate [B/s] and delay [s] of a link."""
    return float(rng.integers(5, 60)) * 1e9, float(rng.integers(5, 60)) * 1e-7


def _pool(rng: Rng, d: Design) -> Case:
    rate, delay = _link(rng)
    need = d.trip(rate, delay) * rate / d.packet
    one = delay * rate / d.packet
    slips = {
        "one way taken for the round trip": math.ceil(one),
        "one way taken for the round trip/": one,
        "one way taken for the round trip/packet": math.ceil(one + 1),
        "bytes for packets": need * d.packet,
    }
    return (rate, delay), (Want(math.ceil(need), "", 0.05, slips, 2.0),)


def _fewest(rng: Rng, d: Design) -> Case:
    n, (rate, delay) = int(rng.integers(4, 33)), _link(rng)
    full = d.trip(rate, delay) * rate / d.packet
    least = d.trip(rate, delay) * rate * n / (2 * (n - 1)) / (4 * d.lanes)
    slips = {"full link for the ring's rate": math.ceil(full)}
    return (n, rate, delay), (Want(math.ceil(least), "", 0.05, slips, 2.0),)


def _clean(rng: Rng) -> Case:
    n, loss = int(rng.integers(3, 33)), float(rng.integers(10, 60)) * 1e-3
    slips = {
        "one worker taken for all": (1 - loss) ** 2,
        "one way only": (1 - loss) ** n,
        "one worker taken for all/": 1 - loss,
        "losses added": 1 - 2 * n * loss,
    }
    return (n, loss), (Want((1 - loss) ** (2 * n), "", 0.01, slips),)


@register(
    "question",
    "ex4-e",
    functions=("design", "times", "pool", "fewest", "clean"),
    points=15,
    example=lambda rng: _times(rng, Design(32, 12, 64), True)[0],
    prelude=PRELUDE,
)
def pays(ask: Ask, rng: Rng) -> Verdict:
    """Judge where a declared design beats a ring, and where it stops: in size, pool, and loss."""
    draws = rng.spawn(4)
    parts, wrong = [Part("clean", 0.2, _cases(draws[0], _clean))], list[str]()
    try:
        d = _design(ask)
        parts += [
            Part(
                "times", 0.4, [_times(draws[1], d, large) for large in (False, False, True, True)]
            ),
            Part("pool", 0.2, _cases(draws[2], lambda rng: _pool(rng, d))),
            Part("fewest", 0.2, _cases(draws[3], lambda rng: _fewest(rng, d))),
        ]
    except (Misread, Unanswered) as error:
        wrong = [error.said if isinstance(error, Unanswered) else str(error)]
    found = judged(ask, parts)
    return replace(found, said=(*wrong, *found.said), failed=())  # its cases follow from the design


# ex4-f -----------------------------------------------------------------------------------------------------------


def _tenants(rng: Rng) -> Case:
    lanes, places, need = (
        int(16 * 2 ** rng.integers(3)),
        int(rng.integers(2, 4)),
        int(rng.integers(20, 200)),
    )
    memory = int(rng.integers(200, 2000)) * 4096
    slips = {
        "one place for each slot": memory // (4 * lanes * need),
        "bytes for values": memory // (lanes * places * need),
    }
    return (memory, lanes, places, need), (
        Want(memory // (4 * lanes * places * need), "", 0.0, slips),
    )


def _speed(rng: Rng) -> Case:
    up, repair = float(rng.integers(10, 50)) * 3600, float(rng.integers(5, 40)) * 3600
    detect, gain = float(rng.integers(10, 60)) * 60, float(rng.uniform(1.2, 1.9))
    cycle = up + repair
    slips = {
        "a switch that never fails": gain,
        "fallback at once": (up * gain + repair) / cycle,
        "no fallback": up * gain / cycle,
    }
    return (up, repair, detect, gain), (
        Want((up * gain + repair - detect) / cycle, "", 0.0005, slips),
    )


def _extra(rng: Rng) -> Case:
    plain, watts = float(rng.integers(100, 300)) * 100, float(rng.integers(3, 10)) * 100
    price, more = plain * float(rng.uniform(1.2, 1.8)), float(rng.integers(1, 6)) * 100
    ports, years, tariff = (
        int(2 ** rng.integers(4, 7)),
        int(rng.integers(2, 6)),
        float(rng.integers(5, 30)) / 100,
    )
    energy = more / 1000 * 8760 * years * tariff
    slips = {
        "energy forgotten": (price - plain) / ports,
        "whole price for the difference": price / ports,
        "whole price for the difference/": (price + (watts + more) / 1000 * 8760 * years * tariff)
        / ports,
        "of the whole switch": price - plain + energy,
    }
    return (price, plain, watts + more, watts, ports, years, tariff), (
        Want((price - plain + energy) / ports, "", 0.01, slips),
    )


@register(
    "question",
    "ex4-f",
    functions=("tenants", "speed", "extra"),
    points=10,
    example=lambda rng: _speed(rng)[0],
    prelude=PRELUDE,
)
def run_it(ask: Ask, rng: Rng) -> Verdict:
    """Judge slots of tenants, failures with a fallback, and costs."""
    return judged(
        ask,
        [
            Part("tenants", 0.3, _cases(rng, _tenants)),
            Part("speed", 0.4, _cases(rng, _speed)),
            Part("extra", 0.3, _cases(rng, _extra)),
        ],
    )
