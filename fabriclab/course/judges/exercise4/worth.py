"""Exercise 4, the judges of what a switch is worth: bounds (a), where it pays (e), and how to run it (f).

Formulas for the right numbers and the known mistakes are in ``questions/exercise4.toml``; the cases are drawn here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief
from fabriclab.course.judges.shared.parts import JudgedCase, NumberPart, judge
from fabriclab.course.questions.files import message
from fabriclab.registry import register

from .programs import PRELUDE

_CASES = 4  # of each part
_SETS = 2  # a set of cases counts only if all of it is right
_MOST_FOLLOWED = 4096  # illustrative: packets of a window that an answer can follow one by one


def _part(question: str, name: str, rng: Rng, draw: Callable[[Rng], JudgedCase]) -> NumberPart:
    """Return a part with four cases in two sets."""
    cases = [draw(rng) for _ in range(_CASES)]
    return NumberPart(question, name, cases, sets=_SETS)


def _case(**quantities: float) -> JudgedCase:
    """Return a case whose arguments are its quantities."""
    arguments = tuple(quantities.values())
    return JudgedCase(arguments, quantities)


# ex4-a -----------------------------------------------------------------------------------------------------------


def _draw_wire(rng: Rng) -> JudgedCase:
    """Draw an array that workers send to the switch, and the size of a packet."""
    n = int(rng.integers(3, 65))  # workers
    lanes = int(16 * 2 ** rng.integers(3))  # values of a packet
    header = int(rng.integers(20, 80))  # [B]
    size = int(rng.integers(100, 1000)) * 64 * 2**10  # [B]
    return _case(n=n, size=size, lanes=lanes, header=header)


def _draw_gain(rng: Rng) -> JudgedCase:
    """Draw a number of workers."""
    n = int(rng.integers(3, 33))
    return _case(n=n)


def _wire_example(rng: Rng) -> tuple[Any, ...]:
    """Return arguments of the function ``wire``."""
    return _draw_wire(rng).arguments


@register("question", "ex4-a", example=_wire_example, prelude=PRELUDE)
def bounds(ask: Ask, rng: Rng) -> Verdict:
    """Judge the bytes on a worker's link and the best possible gain, before any program is written."""
    wire = _part("ex4-a", "wire", rng, _draw_wire)
    gain = _part("ex4-a", "gain", rng, _draw_gain)
    return judge(ask, wire, gain)


# ex4-e -----------------------------------------------------------------------------------------------------------


class Design(NamedTuple):
    """The design that a learner has declared."""

    lanes: int  # values of a packet
    header: int  # [B]
    slots: int

    def is_plausible(self) -> bool:
        """Return whether all numbers are in the ranges that the exercise allows."""
        lanes_fit = 16 <= self.lanes <= 64
        header_fits = 1 <= self.header <= 200
        slots_fit = 1 <= self.slots <= 10**6
        return lanes_fit and header_fits and slots_fit


def _declared_design(ask: Ask) -> Design:
    """Ask for the design; raise Misread if it is not a dict of whole numbers in their ranges."""
    declared = ask("design")
    names = Design._fields
    # A bool would pass as an int with isinstance.
    if not isinstance(declared, dict) or any(type(declared.get(name)) is not int for name in names):
        got = brief(declared, 80)
        raise Misread(message(4, "design", names=", ".join(names), got=got))

    design = Design(*(declared[name] for name in names))
    if not design.is_plausible():
        raise Misread(message(4, "design.range", got=brief(declared, 80)))
    return design


def _case_of(design: Design, **quantities: float) -> JudgedCase:
    """Return a case whose arguments are its quantities, and whose formulas may also use the design."""
    arguments = tuple(quantities.values())
    return JudgedCase(arguments, {**design._asdict(), **quantities})


def _draw_link(rng: Rng) -> dict[str, float]:
    """Draw the rate [B/s] and the delay [s] of a link."""
    rate = float(rng.integers(5, 60)) * 1e9
    delay = float(rng.integers(5, 60)) * 1e-7
    return {"rate": rate, "delay": delay}


def _draw_slow_link(rng: Rng) -> dict[str, float]:
    """Draw the rate [B/s] and the delay [s] of a link on which a packet takes about as long as the way."""
    rate = float(rng.integers(1, 4)) * 1e9
    delay = float(rng.integers(2, 6)) * 1e-7
    return {"rate": rate, "delay": delay}


def _draw_times(rng: Rng, design: Design, large: bool) -> JudgedCase:
    """Draw an array, large or small, a number of workers, and their links.

    For a small array the steps count most. With few workers one step more or less shows.
    """
    most_workers = 32
    if large:
        exponent = rng.uniform(23, 26)
    else:
        exponent = rng.uniform(13, 16)
        most_workers = 8
    size = int(2**exponent)  # [B]
    link = _draw_link(rng)
    n = int(rng.integers(4, most_workers + 1))
    return _case_of(design, size=size, n=n, **link)


def _draw_two_windows(rng: Rng, design: Design) -> JudgedCase:
    """Draw a slow link, and an array of nearly two windows, so that the packets of the last one take long."""
    packets = 1.9 * min(design.slots, _MOST_FOLLOWED)
    size = int(packets * 4 * design.lanes)  # [B]
    link = _draw_slow_link(rng)
    n = int(rng.integers(4, 9))
    return _case_of(design, size=size, n=n, **link)


def _draw_fewest(rng: Rng, design: Design) -> JudgedCase:
    """Draw a number of workers and their links."""
    n = int(rng.integers(4, 33))
    link = _draw_link(rng)
    return _case_of(design, n=n, **link)


def _draw_clean(rng: Rng) -> JudgedCase:
    """Draw a number of workers and a probability that a packet is lost."""
    n = int(rng.integers(3, 33))
    loss = float(rng.integers(10, 60)) * 1e-3
    return _case(n=n, loss=loss)


def _times_example(rng: Rng) -> tuple[Any, ...]:
    """Return arguments of the function ``times``; they do not depend on the design."""
    design = Design(lanes=32, header=12, slots=64)
    return _draw_times(rng, design, large=True).arguments


def _parts_of_design(
    design: Design, times_rng: Rng, pool_rng: Rng, fewest_rng: Rng
) -> list[NumberPart]:
    """Return the parts whose right numbers follow from the declared design."""
    # Case i is in set i % 2, so each set has a small array and a large one.
    sizes_are_large = (False, False, True, True)
    times = [_draw_times(times_rng, design, large) for large in sizes_are_large]
    times += [_draw_two_windows(times_rng, design) for _ in range(_SETS)]

    links = [_draw_link(pool_rng) for _ in range(_SETS)]
    links += [_draw_slow_link(pool_rng) for _ in range(_SETS)]
    pools = [_case_of(design, **link) for link in links]

    def draw_fewest(rng: Rng) -> JudgedCase:
        return _draw_fewest(rng, design)

    return [
        NumberPart("ex4-e", "times", times, sets=_SETS),
        NumberPart("ex4-e", "pool", pools, sets=_SETS),
        _part("ex4-e", "fewest", fewest_rng, draw_fewest),
    ]


@register("question", "ex4-e", example=_times_example, prelude=PRELUDE)
def pays(ask: Ask, rng: Rng) -> Verdict:
    """Judge where a declared design beats a ring, and where it no longer does, in size, pool and loss."""
    # Each part has its own generator, so that no case depends on whether the design can be read.
    clean_rng, times_rng, pool_rng, fewest_rng = rng.spawn(4)
    parts = [_part("ex4-e", "clean", clean_rng, _draw_clean)]
    trouble = ""  # why there is no design to judge by
    try:
        design = _declared_design(ask)
    except Unanswered as error:
        trouble = error.said
    except Misread as error:
        trouble = str(error)
    else:
        parts += _parts_of_design(design, times_rng, pool_rng, fewest_rng)

    verdict = judge(ask, *parts)
    said = verdict.said
    if trouble:
        said = (trouble, *said)
    # Failed cases are shown as calls to try again, and without the design these could not be drawn.
    return replace(verdict, said=said, failed=())


# ex4-f -----------------------------------------------------------------------------------------------------------


def _draw_tenants(rng: Rng) -> JudgedCase:
    """Draw the memory of a switch, and what each tenant needs of it."""
    lanes = int(16 * 2 ** rng.integers(3))  # values of a packet
    places = int(rng.integers(2, 4))  # packets that a slot holds
    need = int(rng.integers(20, 200))  # slots of a tenant
    memory = int(rng.integers(200, 2000)) * 4096  # [B]
    return _case(memory=memory, lanes=lanes, places=places, need=need)


def _draw_speed(rng: Rng) -> JudgedCase:
    """Draw how often the switch fails, how long that takes, and what it gains otherwise."""
    up = float(rng.integers(10, 50)) * 3600  # [s]
    repair = float(rng.integers(5, 40)) * 3600  # [s]
    detect = float(rng.integers(10, 60)) * 60  # [s]
    gain = float(rng.uniform(1.2, 1.9))
    return _case(up=up, repair=repair, detect=detect, gain=gain)


def _draw_extra(rng: Rng) -> JudgedCase:
    """Draw price and power of a switch that adds and of a plain one, and the tariff."""
    plain = float(rng.integers(100, 300)) * 100  # [USD]
    plain_watts = float(rng.integers(3, 10)) * 100  # [W]
    price = plain * float(rng.uniform(1.2, 1.8))  # [USD]
    watts = plain_watts + float(rng.integers(1, 6)) * 100  # [W]
    ports = int(2 ** rng.integers(4, 7))
    years = int(rng.integers(2, 6))
    tariff = float(rng.integers(5, 30)) / 100  # [USD/kWh]
    return _case(
        price=price,
        plain=plain,
        watts=watts,
        plain_watts=plain_watts,
        ports=ports,
        years=years,
        tariff=tariff,
    )


def _speed_example(rng: Rng) -> tuple[Any, ...]:
    """Return arguments of the function ``speed``."""
    return _draw_speed(rng).arguments


@register("question", "ex4-f", example=_speed_example, prelude=PRELUDE)
def run_it(ask: Ask, rng: Rng) -> Verdict:
    """Judge slots of tenants, failures with a fallback, and costs."""
    tenants = _part("ex4-f", "tenants", rng, _draw_tenants)
    speed = _part("ex4-f", "speed", rng, _draw_speed)
    extra = _part("ex4-f", "extra", rng, _draw_extra)
    return judge(ask, tenants, speed, extra)
