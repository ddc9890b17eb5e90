"""Lesson 63: what an hour of training costs."""

from collections.abc import Callable
from typing import Any

from fabriclab.catalog import case
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    number_of,
    wrong,
)
from fabriclab.course.shown import digits
from fabriclab.registry import register
from fabriclab.texts import text

# Price [USD], hours of the life, power [W], price of electricity [USD per kWh], share that is used, share of it that is
# not lost -> cost of an hour of training [USD].
Hour = Callable[[float, float, float, float, float, float], Any]
_KILO = 1e3  # watts in a kilowatt
_CENT = 0.01  # USD
_ROUNDED = 0.5001 * _CENT  # an answer in whole cents is right


def training_hour(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    """Return the cost of an hour of useful training [USD]; arguments as the question names them."""
    return (price / hours + watts / _KILO * tariff) / (used * goodput)


def _one_share(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, used, 1.0)


def _other_share(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, 1.0, goodput)


def _no_share(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, 1.0, 1.0)


def _multiplied(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, 1.0, 1.0) * used * goodput


def _in_watts(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, _KILO * watts, tariff, used, goodput)


def _no_electricity(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, 0.0, tariff, used, goodput)


def _electricity_when_useful(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return price / hours / (used * goodput) + watts / _KILO * tariff


def _electricity_when_used(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts * used, tariff, used, goodput)


def _shares_added(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, used + goodput, 1.0)


def _shares_averaged(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, (used + goodput) / 2, 1.0)


def _losses_added(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, used + goodput - 1, 1.0)


def _no_brackets_below(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return training_hour(price, hours, watts, tariff, used, 1.0) * goodput


def _no_brackets_above(
    price: float, hours: float, watts: float, tariff: float, used: float, goodput: float
) -> float:
    return price / hours + watts / _KILO * tariff / (used * goodput)


# What somebody with a mistake returns; several rules may have one name.
HOUR_MISTAKES: tuple[tuple[str, Callable[..., float]], ...] = (
    ("idle hours for nothing", _one_share),
    ("idle hours for nothing", _other_share),
    ("idle hours for nothing", _no_share),
    ("multiplied by the shares", _multiplied),
    ("watts for kilowatts", _in_watts),
    ("electricity forgotten", _no_electricity),
    ("electricity for useful hours alone", _electricity_when_useful),
    ("no electricity when idle", _electricity_when_used),
    ("brackets forgotten", _no_brackets_below),
    ("brackets forgotten", _no_brackets_above),
    ("shares not multiplied", _shares_added),
    ("shares not multiplied", _shares_averaged),
    ("shares not multiplied", _losses_added),
)


def cases() -> tuple[tuple[float, float, float, float, float, float], ...]:
    """Return the clusters on which a function is tried: the running case first."""
    job = case()
    hours = float(job.lifetime) / 3600.0
    each = float(job.price_total) / float(job.gpus)
    # illustrative: power, prices of electricity and shares that set each mistake apart
    return (
        (each, hours, 1750.0, 0.08, 0.8, 0.9),
        (each, hours, 1750.0, 0.08, 1.0, 1.0),
        (35_064.0, 35_064.0, 1500.0, 0.10, 0.8, 0.9),
        (60_000.0, 26_298.0, 2000.0, 0.18, 0.7, 0.95),
        (20_000.0, 43_830.0, 900.0, 0.04, 0.95, 0.6),
    )


@register("check", "63-write-hour")
def cost_of_an_hour(answer: Hour) -> Verdict:
    """Run ``answer(price, hours, watts, tariff, used, goodput)``, the cost of an hour of training [USD]."""
    asked = cases()
    returned = [number_of(answer, *each) for each in asked]
    right = [training_hour(*each) for each in asked]
    tried = tuple(map(_tried, asked, returned, right))
    i = first_wrong(tried)
    if i is None:
        return True, [], ""
    price, hours, watts, tariff, used, goodput = asked[i]
    line = text(
        "function.hour",
        price=price,
        hours=hours,
        watts=watts,
        tariff=tariff,
        used=used,
        goodput=goodput,
        got=f"{returned[i]:.4g}",
        right=f"{right[i]:.4g}",
    )
    look = text("trace.look_hour", ratio=digits(returned[i] / right[i]))
    return wrong("63-write-hour", line, _mistake(returned), Trace(tried, look=look))


def _mistake(returned: list[float]) -> str:
    """Return the name of the mistake that explains all numbers, or nothing."""
    for name, rule in HOUR_MISTAKES:
        if mistake_of(returned, {name: rule}, cases()):
            return name
    return ""


def _tried(each: tuple[float, ...], found: float, right: float) -> TriedCase:
    """Return the case of a cluster, and whether a cost of it is right."""
    price, hours, watts, tariff, used, goodput = each
    went_in = text(
        "trace.hour",
        price=price,
        hours=hours,
        watts=watts,
        tariff=tariff,
        used=used,
        goodput=goodput,
    )
    fits = is_same(found, right) or abs(found - right) <= _ROUNDED
    return TriedCase(went_in, fits, "", f"{found:#.4g} USD", f"{right:#.4g} USD")
