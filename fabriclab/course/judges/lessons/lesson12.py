"""Lesson 12: the power of many cables, if each of them gets the medium that draws least among those that reach."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from fabriclab import economics, topologies
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.physics import media
from fabriclab.physics._facts import fact
from fabriclab.registry import register
from fabriclab.texts import text

# Lengths of cables, and the reach and the power of both ends in each medium, in that order: [m], [m], [W]
Cables = tuple[list[float], list[float], list[float]]
AllWatts = Callable[[list[float], list[float], list[float]], Any]  # -> [W]


@cache
def cables() -> dict[str, Cables]:
    """Return the cables on which the learner's function is tried, by their names in words.

    In the first case one medium is as long as a cable, and in the last a medium that reaches farther draws less and
    stands first, so that no two mistakes agree in all of them.
    """
    laid = media.lengths(economics.floor_plan(topologies.build("rail_optimised", expand=False)))
    to_nics = list(media.offers("NIC", ["copper", "fibre"]).values())
    between = list(media.offers("switch").values())

    rate = "800 Gb/s"  # source: catalog media, lpo800
    fibre = media.choose(0.0, rate, media=["multimode"])
    active = media.choose(0.0, rate, media=["AEC"])
    linear_reach = fact("lpo800", "reach_max", "media")
    linear_power = 2 * fact("lpo800", "power", "media")  # both ends

    nics = text("trace.cables_nics", n=laid["to NICs"].size)
    switches = text("trace.cables_switches", n=laid["between switches"].size)
    return {
        # illustrative: the example of the lesson
        text("trace.cables_paper"): _offered([2.0, 3.0, 8.0], to_nics),
        nics: _offered(laid["to NICs"].tolist(), to_nics),
        switches: _offered(laid["between switches"].tolist(), between),
        # illustrative: lengths within the reach of each medium
        text("trace.cables_linear"): (
            [2.0, 5.0, 7.0, 30.0, 100.0],
            [fibre.reach, active.reach, linear_reach],
            [fibre.power, active.power, linear_power],
        ),
    }


def _offered(lengths: list[float], offers: Sequence[media.MediumChoice]) -> Cables:
    """Return cables of some lengths with the reach and the power of the media that are on offer for them."""
    reach = [offer.reach for offer in offers]
    power = [offer.power for offer in offers]
    return lengths, reach, power


def all_watts(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    """Return the power of all cables [W]: each gets the medium of least power among those that reach."""
    return sum(min(fits) for fits in _fitting(lengths, reach, watts))


def _fitting(
    lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]
) -> Iterator[list[float]]:
    """Yield for each cable the power of every medium that reaches, in the order of the media."""
    for length in lengths:
        yield [w for r, w in zip(reach, watts, strict=True) if r >= length]


def _longer_only(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    total = 0.0
    for length in lengths:
        fits = [w for r, w in zip(reach, watts, strict=True) if r > length]
        total += min(fits, default=0.0)
    return total


def _reach_ignored(lengths: Sequence[float], _: Sequence[float], watts: Sequence[float]) -> float:
    return len(lengths) * min(watts)


def _first(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    return sum(fits[0] for fits in _fitting(lengths, reach, watts))


def _shortest(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    order = sorted(range(len(reach)), key=lambda i: reach[i])
    return _first(lengths, [reach[i] for i in order], [watts[i] for i in order])


def _one_for_all(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    return len(lengths) * all_watts([max(lengths)], reach, watts)


def _one_cable(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    return all_watts(lengths[:1], reach, watts)


def _last_cable(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    return all_watts(lengths[-1:], reach, watts)


def _all_that_reach(
    lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]
) -> float:
    return sum(sum(fits) for fits in _fitting(lengths, reach, watts))


def _most(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    return sum(max(fits) for fits in _fitting(lengths, reach, watts))


def _doubled(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    return 2 * all_watts(lengths, reach, watts)


def _kilowatts(lengths: Sequence[float], reach: Sequence[float], watts: Sequence[float]) -> float:
    return all_watts(lengths, reach, watts) / 1000


# What somebody with a mistake returns, by its name.
WATTS_MISTAKES: dict[str, Callable[..., float]] = {
    "reach must be longer": _longer_only,
    "reach ignored": _reach_ignored,
    "first that reaches": _first,
    "shortest that reaches": _shortest,
    "one medium for all": _one_for_all,
    "first cable alone": _one_cable,
    "last cable alone": _last_cable,
    "all that reach added": _all_that_reach,
    "most that reaches": _most,
    "ends counted twice": _doubled,
    "answer in kilowatts": _kilowatts,
}


@register("check", "12-write-watts")
def all_watts_of(answer: AllWatts) -> Verdict:
    """Run ``answer(lengths, reach, watts)``, the power of all cables in W, on cables of the case and of data sheets."""
    return compared("12-write-watts", answer, cables(), all_watts, WATTS_MISTAKES, _watts)


def _watts(value: float) -> str:
    """Write a power [W]."""
    return f"{value:,.6g} W"
