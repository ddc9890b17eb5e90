"""Exercise 4, the judges of the worth of a switch: bounds (a), where it pays (e), and how to run it (f).

Formulas for the right numbers and the known mistakes are in ``questions/exercise4.toml``; the cases are drawn here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief
from fabriclab.course.judges.shared.parts import JudgedCase, NumberPart, judge
from fabriclab.course.questions.files import message
from fabriclab.registry import register

from .programs import PRELUDE


def _part(question: str, name: str, rng: Rng, draw: Callable[[Rng], JudgedCase]) -> NumberPart:
    """Return a part with four cases in two sets."""
    return NumberPart(question, name, [draw(rng) for _ in range(4)], sets=2)


def _case(**quantities: float) -> JudgedCase:
    """Return a case whose arguments are its quantities."""
    return JudgedCase(tuple(quantities.values()), quantities)


# ex4-a -----------------------------------------------------------------------------------------------------------


def _wire(rng: Rng) -> JudgedCase:
    n = int(rng.integers(3, 65))
    lanes = int(16 * 2 ** rng.integers(3))
    header = int(rng.integers(20, 80))
    size = int(rng.integers(100, 1000)) * 64 * 2**10
    return _case(n=n, size=size, lanes=lanes, header=header)


def _gain(rng: Rng) -> JudgedCase:
    return _case(n=int(rng.integers(3, 33)))


@register("question", "ex4-a", example=lambda rng: _wire(rng).arguments, prelude=PRELUDE)
def bounds(ask: Ask, rng: Rng) -> Verdict:
    """Judge the bytes on a worker's link and the best possible gain, before any program is written."""
    return judge(ask, _part("ex4-a", "wire", rng, _wire), _part("ex4-a", "gain", rng, _gain))


# ex4-e -----------------------------------------------------------------------------------------------------------


class Design(NamedTuple):
    """The design that a learner has declared."""

    lanes: int
    header: int  # [B]
    slots: int


def _design(ask: Ask) -> Design:
    got = ask("design")
    names = Design._fields
    if not isinstance(got, dict) or any(type(got.get(name)) is not int for name in names):
        raise Misread(message(4, "design", names=", ".join(names), got=brief(got, 80)))
    found = Design(*(got[name] for name in names))
    if not (16 <= found.lanes <= 64 and 1 <= found.header <= 200 and 1 <= found.slots <= 10**6):
        raise Misread(message(4, "design.range", got=brief(got, 80)))
    return found


def _of(design: Design, **quantities: float) -> JudgedCase:
    """Return a case whose formulas may also use the declared design."""
    return JudgedCase(tuple(quantities.values()), {**design._asdict(), **quantities})


def _link(rng: Rng) -> dict[str, float]:
    """Return rate [B/s] and delay [s] of a link."""
    return {"rate": float(rng.integers(5, 60)) * 1e9, "delay": float(rng.integers(5, 60)) * 1e-7}


def _times(rng: Rng, design: Design, large: bool) -> JudgedCase:
    size = int(2 ** rng.uniform(*((23, 26) if large else (13, 16))))
    link = _link(rng)
    return _of(design, size=size, n=int(rng.integers(4, 33)), **link)


def _pool(rng: Rng, design: Design) -> JudgedCase:
    return _of(design, **_link(rng))


def _fewest(rng: Rng, design: Design) -> JudgedCase:
    return _of(design, n=int(rng.integers(4, 33)), **_link(rng))


def _clean(rng: Rng) -> JudgedCase:
    return _case(n=int(rng.integers(3, 33)), loss=float(rng.integers(10, 60)) * 1e-3)


@register(
    "question",
    "ex4-e",
    example=lambda rng: _times(rng, Design(32, 12, 64), True).arguments,
    prelude=PRELUDE,
)
def pays(ask: Ask, rng: Rng) -> Verdict:
    """Judge where a declared design beats a ring, and where it no longer does, in size, pool and loss."""
    draws = rng.spawn(4)
    parts = [_part("ex4-e", "clean", draws[0], _clean)]
    wrong = ""
    try:
        design = _design(ask)
    except Unanswered as error:
        wrong = error.said
    except Misread as error:
        wrong = str(error)
    else:
        times = [_times(draws[1], design, large) for large in (False, False, True, True)]
        parts += [
            NumberPart("ex4-e", "times", times, sets=2),
            _part("ex4-e", "pool", draws[2], lambda rng: _pool(rng, design)),
            _part("ex4-e", "fewest", draws[3], lambda rng: _fewest(rng, design)),
        ]
    found = judge(ask, *parts)
    said = (wrong, *found.said) if wrong else found.said
    return replace(found, said=said, failed=())  # its cases follow from the design


# ex4-f -----------------------------------------------------------------------------------------------------------


def _tenants(rng: Rng) -> JudgedCase:
    lanes = int(16 * 2 ** rng.integers(3))
    places = int(rng.integers(2, 4))
    need = int(rng.integers(20, 200))
    memory = int(rng.integers(200, 2000)) * 4096
    return _case(memory=memory, lanes=lanes, places=places, need=need)


def _speed(rng: Rng) -> JudgedCase:
    return _case(
        up=float(rng.integers(10, 50)) * 3600,
        repair=float(rng.integers(5, 40)) * 3600,
        detect=float(rng.integers(10, 60)) * 60,
        gain=float(rng.uniform(1.2, 1.9)),
    )


def _extra(rng: Rng) -> JudgedCase:
    plain = float(rng.integers(100, 300)) * 100
    plain_watts = float(rng.integers(3, 10)) * 100
    price = plain * float(rng.uniform(1.2, 1.8))
    watts = plain_watts + float(rng.integers(1, 6)) * 100
    return _case(
        price=price,
        plain=plain,
        watts=watts,
        plain_watts=plain_watts,
        ports=int(2 ** rng.integers(4, 7)),
        years=int(rng.integers(2, 6)),
        tariff=float(rng.integers(5, 30)) / 100,
    )


@register("question", "ex4-f", example=lambda rng: _speed(rng).arguments, prelude=PRELUDE)
def run_it(ask: Ask, rng: Rng) -> Verdict:
    """Judge slots of tenants, failures with a fallback, and costs."""
    return judge(
        ask,
        _part("ex4-f", "tenants", rng, _tenants),
        _part("ex4-f", "speed", rng, _speed),
        _part("ex4-f", "extra", rng, _extra),
    )
