"""Exercise 2 (b), the judge of the sum behind the uplinks: what a switch sends to others, and what its cables carry."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fabriclab import catalog, designs, units
from fabriclab.course.judges.shared.numbers import Misread, brief, number
from fabriclab.course.questions.files import message
from fabriclab.designs.needs import NETWORK
from fabriclab.designs.scattered import exchange
from fabriclab.designs.traffic import entering, messages

from .sheets import Unfit

KEYS = ("experts", "tenants", "cables")
_WITHIN = 0.03
_NOTHING = 1e6  # B/s that count as nothing where nothing is right


class _True(NamedTuple):
    """What is right of a switch. [B/s], and the NICs that are plugged into it."""

    experts: float
    tenants: float
    cables: float
    nics: float


def checked(design: designs.Design, value: Any) -> None:
    """Raise Misread, or Unfit with the name of the mistake, unless the sums of a learner are those of the design."""
    if not isinstance(value, Mapping) or set(value) != {"switch", *KEYS}:
        raise Misread(message(2, "sums", got=brief(value)))
    try:
        switch = design.switch(value["switch"])
    except (TypeError, ValueError) as error:
        raise Misread(str(error)) from None
    true = of_switch(design, switch)
    if not true.nics:
        raise Misread(message(2, "sums.no_nic", name=design.title(switch)))
    for key in KEYS:
        right = float(getattr(true, key))
        try:
            got = number(value[key], "rate" if isinstance(value[key], str) else "")
        except Misread as error:
            raise Misread(f"{key}: {error}") from None
        if _is_near(got, right):
            continue
        words = _off(key, got, right, true, design.title(switch))
        slip = _slip(design, key, got, true)
        raise Unfit(words, slip) if slip else Misread(words)


def _off(key: str, got: float, right: float, true: _True, name: str) -> str:
    """Return in words that a rate is too high or too low, and how many NICs the switch has."""
    side = message(2, "sums.high" if got > right else "sums.low")
    return message(
        2,
        "sums.off",
        key=key,
        name=name,
        got=units.format_rate(got) if got >= 0 else f"{got:g} B/s",
        side=side,
        nics=true.nics,
    )


def _is_near(got: float, right: float) -> bool:
    """Return whether a rate is right."""
    return abs(got - right) <= max(_WITHIN * abs(right), _NOTHING if not right else 0.0)


def _slip(design: designs.Design, key: str, got: float, true: _True) -> str:
    """Return the name of the mistake in a rate, if it is known."""
    right = float(getattr(true, key))
    if any(_is_near(got * factor, right) for factor in (1e9, 0.125, 1e9 / 8)) and right:
        return "rate in another unit"
    if key == "cables":
        down = true.nics * float(catalog.case().nic_rate)
        return "cables down counted as well" if _is_near(got - down, right) else ""
    if right and _is_near(got * true.nics, right):
        return "one NIC for all of the switch"
    need = _need(key, design)
    return "everything leaves the switch" if _is_near(got, true.nics * need.rate) else ""


def _need(name: str, design: designs.Design) -> designs.Demand:
    """Return what an exchange of a workload asks of a GPU on the network."""
    workload = next(w for w in designs.workloads() if w.name == name)
    needs = designs.demand(workload, design.gpus, design.servers)
    return next(n for n in needs if (n.axis, n.tier) == ("EP", NETWORK))


def of_switch(design: designs.Design, switch: int) -> _True:
    """Return what is right of a switch."""
    net = design.network
    window = {name: _need(name, design).window for name in ("experts", "tenants")}
    experts = next(w for w in designs.workloads() if w.name == "experts")
    exchanged = entering(net, messages(design, experts)["EP"]).between
    alone = exchange(net, design.gpus, _need("tenants", design).bytes).between
    elsewhere = np.arange(net.n) != switch
    here = net.port_switch == switch
    nic = float(catalog.case().nic_rate)
    return _True(
        experts=float(exchanged[switch, elsewhere].sum()) / window["experts"],
        tenants=float(alone[switch, elsewhere].sum()) / window["tenants"],
        cables=float(net.capacity[switch].sum()),
        nics=float(net.port_rate[here].sum()) / nic,
    )
