"""A live view of an offer: another network with its price, and whether the same work costs less on it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog
from fabriclab.core import Floats
from fabriclab.economics.breakeven import crossing
from fabriclab.economics.needs import exposed
from fabriclab.economics.tiers import nic_rates
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.live.widget import Control, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    Layer,
    Scene,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
)
from fabriclab.views.sweeps import crowding, densely

_GIGA = 1e9
_GIGABIT = 1.25e8  # bytes per second of a gigabit per second
_HOUR = 3600.0  # seconds
_FULL = 100.0  # percent
# Ends of the sliders.
_SLOWEST, _FASTEST = 100, 1600  # Gb/s
_LEAST_SENT, _MOST_SENT = 5, 70  # GB
_MOST = 200  # % of the price of the network of the case
_CURVE = 49  # points of each curve

# The picture in px.
_WIDTH = 560.0
_SIDE = 320.0
_HEIGHT = 372.0
_COVERED = 10.0  # so near to the offer a network has no name [px]
_NAME_WIDE = 54.0  # of a network [px]
_LETTER = 7.2  # width of a bold letter [px]
_X_ENDS = (64.0, 530.0)
_Y_ENDS = (316.0, 58.0)  # foot and top
_HOURS = (1.26, 1.54)  # USD of a GPU-hour, holds all prices of the slider
_FASTEST_STEP = 4.2  # s, holds all rates and bytes of the sliders, and a name below the fastest
# Where the time axis may end, with its ticks: low enough that a job that sends little fills it, too. [s]
_STEP_TICKS = {
    5.4: (4.2, 4.4, 4.6, 4.8, 5.0, 5.2, 5.4),
    7.0: (4.5, 5.0, 5.5, 6.0, 6.5, 7.0),
    10.0: (4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
}
_CHANGE_STEPS = (5.0, 10.0, 25.0, 50.0)  # between two ticks of the difference [%]
_MOST_STEPS = 6.5
_STEP_ROOM = 1.1  # the axis ends so far beyond the slowest step
_SIDE_X = (56.0, 300.0)


@dataclass(frozen=True, eq=False)
class Offered:
    """Networks with what an hour of a GPU costs on them, and how long a step takes; the first one is that of the case.

    Parameters
    ----------
    rate : (N,) float64
        Rate of each NIC [Gb/s].
    hour : (N,) float64
        Cost of an hour of a GPU: price of all parts over their life, without electricity [USD].
    step : (N,) float64
        Time of a step [s].
    """

    rate: Floats
    hour: Floats
    step: Floats

    @property
    def cost(self) -> Floats:
        """Cost of a step on all GPUs [USD], (N,)."""
        return np.asarray(catalog.case().gpus * self.hour * self.step / _HOUR)

    @property
    def more(self) -> Floats:
        """By which part a step costs more than on the first network, (N,)."""
        return np.asarray(self.cost / self.cost[0] - 1)


def hour_of(price: ArrayLike) -> Any:
    """Return the cost of an hour of a GPU with a network at a price [% of the case's]. [USD]."""
    job = catalog.case()
    rest = job.price_total - job.price_fabric
    whole = rest + np.asarray(price, dtype=float) / _FULL * job.price_fabric
    return whole / job.gpus / (job.lifetime / _HOUR)


def step_of(rate: ArrayLike, sent: float) -> Any:
    """Return the time of a step with NICs of a rate [Gb/s], if each GPU sends some bytes [GB]. [s]."""
    job = catalog.case()
    busy = job.t_compute + job.t_tp
    total = sent * _GIGA / (np.asarray(rate, dtype=float) * _GIGABIT)
    return busy + exposed(total, job.window, job.layers)


def offered(rate: float, price: float, sent: float) -> Offered:
    """Return the network of the case, the offer, and one for each NIC of the catalog, priced by its rate."""
    own = catalog.case().nic_rate / _GIGABIT
    sold = nic_rates() / _GIGABIT
    rates = np.concatenate([[own, rate], sold])
    prices = np.concatenate([[_FULL, price], _FULL * sold / own])
    return Offered(rates, hour_of(prices), step_of(rates, sent))


def pays_from(price: float, sent: float) -> float:
    """Return the rate from which a network at a price pays; 0 if none does, or all do. [Gb/s]."""
    limit = float(offered(float(_FASTEST), price, sent).cost[0])

    def too_much(rate: float) -> float:
        """Return by how much a step at a rate costs more than now. [USD]."""
        return float(offered(rate, price, sent).cost[1]) - limit

    return crossing(too_much, float(_SLOWEST), float(_FASTEST))


def cost_front(
    rate: float = 200.0,  # illustrative: half of the case's
    price: int = 0,
    sent: float = 35.0,
) -> Live:
    """Show an offer beside the network of the running case: cost of a GPU-hour against time of a step.

    On the line through the present network the same work costs the same; what lies below it costs less. A step hides
    what it sends behind its last backward pass, as in the case. Leaves out electricity, which a smaller network needs
    less of, and hours that are lost.

    Parameters
    ----------
    rate : float
        Rate of each NIC of the offer, 100..1,600 [Gb/s].
    price : int
        Price of the offer, 0..200 [% of the price of the case's network].
    sent : float
        What each GPU sends in a step, 5..70; 35.0 in the case [GB].
    """
    arguments = {"rate": rate, "price": price, "sent": sent}
    controls: dict[str, Control] = {
        "rate": Slider(_SLOWEST, _FASTEST, unit="Gb/s", log=True),
        "price": Slider(0, _MOST, unit="%"),
        "sent": Slider(_LEAST_SENT, _MOST_SENT, unit="GB", log=True),
    }
    return live_view("cost_front", arguments, front_scene, controls)


def front_scene(rate: float, price: int, sent: float) -> Scene:
    """Return the networks by cost of an hour and time of a step; beside them cost over rate at the offer's price."""
    here = offered(rate, price, sent)
    said = front_words(here, price, sent)
    return Scene(
        said,
        front_table(here),
        {**axis_layers(here), **network_layers(here)},
        _HEIGHT,
        alt=f"{said} {text('live.cost_front.setting', rate=rate, price=price, sent=sent)}",
        hint=text("live.cost_front.hint"),
        width=_WIDTH,
        side=Scene("", layers=curve_layers(here, price, sent), height=_HEIGHT, width=_SIDE),
    )


def front_words(here: Offered, price: int, sent: float) -> str:
    """Return the finding: whether a step costs more or less with the offer, why, and from which rate it pays."""
    more = float(here.more[1])
    key = "more" if more > 0 else "less"
    first = text(f"live.cost_front.said_{key}", rate=here.rate[1], price=price, change=abs(more))
    why = text(
        "live.cost_front.why",
        step=here.step[1],
        now=here.step[0],
        hour=here.hour[1],
        hour_now=here.hour[0],
    )
    turn = pays_from(price, sent)
    if turn:
        return f"{first} {why} {text('live.cost_front.turn', rate=turn)}"
    never = float(offered(float(_FASTEST), price, sent).more[1]) > 0
    last = text("live.cost_front.never" if never else "live.cost_front.always")
    return f"{first} {why} {last}"


def names_of(here: Offered) -> list[str]:
    """Return a name for each network."""
    own, rate, *sold = here.rate.tolist()
    return [
        text("live.cost_front.now", rate=own),
        text("live.cost_front.offer", rate=rate),
        *(text("live.cost_front.sold", rate=each) for each in sold),
    ]


def front_table(here: Offered) -> Table:
    """Return a row for each network."""
    return Table(
        {
            "network": names_of(here),
            "USD for a GPU-hour": here.hour,
            "step [s]": here.step,
            "USD for a step": here.cost,
            "times as much as now": 1 + here.more,
        }
    )


# Layers -----------------------------------------------------------------------------------------


def hour_place(hour: ArrayLike) -> Any:
    """Return the place of a cost of an hour on the x axis. [px]."""
    low, high = _HOURS
    start, end = _X_ENDS
    return start + (end - start) * (np.asarray(hour, dtype=float) - low) / (high - low)


def step_ends(here: Offered) -> tuple[float, float]:
    """Return both ends of the axis of times of a step. [s]."""
    slowest = _STEP_ROOM * float(here.step.max())
    fitting = [last for last in _STEP_TICKS if last >= slowest]
    last = min(fitting, default=max(_STEP_TICKS))
    return common_ends("time of a step", _FASTEST_STEP, last)


def axis_layers(here: Offered) -> dict[str, Layer]:
    """Return the grid, ticks and names of both axes."""
    ends = step_ends(here)
    to_y = log_axis(*ends, *_Y_ENDS)
    foot, top = _Y_ENDS
    across = tick_layers(
        np.array([1.3, 1.35, 1.4, 1.45, 1.5]), hour_place, "{:.2f} USD".format, (top, foot), True
    )
    up = tick_layers(np.array(_STEP_TICKS[ends[1]]), to_y, "{:g} s".format, _X_ENDS, False)
    return {
        "title": heading(16.0, text("live.cost_front.title_front")),
        "y name": texts(EDGE, 36.0, [text("live.cost_front.step")], colour=COLOUR["soft"]),
        "x name": texts(
            _X_ENDS[1], foot + 34, [text("live.cost_front.hour")], align=2.0, colour=COLOUR["soft"]
        ),
        **across,
        **up,
    }


def network_layers(here: Offered) -> dict[str, Layer]:
    """Return the line of equal cost, the networks that are sold, the present one and the offer."""
    ends = step_ends(here)
    to_y = log_axis(*ends, *_Y_ENDS)
    hours = np.linspace(*_HOURS, _CURVE)
    same = here.hour[0] * here.step[0] / hours
    seen = (same >= ends[0]) & (same <= ends[1])
    x = hour_place(here.hour)
    y = to_y(here.step)
    order = np.argsort(here.rate[2:]) + 2
    names = names_of(here)
    notes = [
        text("live.cost_front.note", cost=float(cost), more=float(more))
        for cost, more in zip(here.cost, here.more, strict=True)
    ]
    # The name of the dearest one ends at its dot, so that it stays within the picture.
    dearest = np.arange(len(order)) == np.argmax(here.rate[2:])
    path = np.stack([x[order], y[order]], axis=1)
    equal = np.stack([hour_place(hours[seen]), to_y(same[seen])], axis=1)
    hidden = np.hypot(x[2:] - x[1], y[2:] - y[1]) < _COVERED  # the offer lies on it, and has a name
    wide = np.linspace(0, _NAME_WIDE, 9)
    named = [  # where the names of the other networks stand
        np.stack([at_x + 7 + wide, np.full(wide.size, at_y - 10)], axis=1)
        for at_x, at_y in zip(x[2:][~hidden], y[2:][~hidden], strict=True)
    ]
    drawn = np.concatenate([densely(path), densely(equal), *named]).T
    offer_x, offer_y, offer_align = offer_place(float(x[1]), float(y[1]), drawn)
    return {
        "sold": lines([path], width=1.2, colour=COLOUR["edge"]),
        "same cost": lines(
            [equal],
            width=1.6,
            dash=2.0,
            colour=COLOUR["ink"],
            names=[text("live.cost_front.same")],
        ),
        "networks": Layer(
            "dots",
            {
                "x": x[2:],
                "y": y[2:],
                "size": 4.0,
                "colour": COLOUR["edge"],
                "names": names[2:],
                "notes": notes[2:],
            },
        ),
        "network names": texts(
            x[2:] + np.where(dearest, 4, 7),
            y[2:] - 10,
            [
                "" if is_hidden else f"{rate:g} Gb/s"
                for rate, is_hidden in zip(here.rate[2:].tolist(), hidden.tolist(), strict=True)
            ],
            align=np.where(dearest, 2.0, 0.0),
            size=11.0,
            halo=1.0,
            colour=COLOUR["soft"],
        ),
        "two": Layer(
            "dots",
            {
                "x": x[:2],
                "y": y[:2],
                "size": np.array([5.0, 7.0]),
                "shape": np.array([1.0, 0.0]),  # the offer is the state that the controls set
                "colour": COLOUR["ink"],
                "names": names[:2],
                "notes": notes[:2],
            },
        ),
        "two names": texts(
            np.array([x[0] - 9, offer_x]),
            np.array([y[0] + 15, offer_y]),
            [text("live.cost_front.is_now"), text("live.cost_front.is_offer")],
            align=np.array([2.0, offer_align]),
            bold=1.0,
            halo=1.0,
        ),
    }


def offer_place(x: float, y: float, drawn: Floats) -> tuple[float, float, float]:
    """Return place and align of the offer's name beside its dot at x, y, clear of what is drawn (2, P). [px]."""
    wide = _LETTER * len(text("live.cost_front.is_offer"))
    right, left = (x + 9, 0.0), (x - 9, 2.0)  # where the name begins or ends, and how it is aligned
    best, least = (*right, y - 15.0), np.inf
    for height in (y + 15.0, y - 15.0):
        if height > _Y_ENDS[0] - 8:  # it would lie on the axis
            continue
        for at, align in (right, left):
            begin = at - align / 2 * wide
            met = crowding(begin, height, wide, drawn, half=9.0)
            if met < least:
                best, least = (at, align, height), met
    at, align, height = best
    return at, height, align


def change_name(percent: float) -> str:
    """Return the name of a tick of the difference."""
    return f"{percent:+.0f} %".replace("-", "−") if percent else "0 %"


def curve_layers(here: Offered, price: int, sent: float) -> dict[str, Layer]:
    """Return by how much a step costs more than now over the rate, at the price of the offer."""
    rates = np.geomspace(_SLOWEST, _FASTEST, _CURVE)
    cost = hour_of(price) * step_of(rates, sent)
    more = _FULL * (cost / (here.hour[0] * here.step[0]) - 1)
    low, high = common_ends(
        "cost of a step", float(np.min(more)), max(float(np.max(more)) * 1.1, 10.0)
    )
    step = next(step for step in _CHANGE_STEPS if high - low < _MOST_STEPS * step)
    low = step * min(float(np.floor(low / step)), -1.0)  # a tick below everything, and room for 0
    foot, top = _Y_ENDS

    def to_y(percent: ArrayLike) -> Any:
        """Return the place of a difference on the y axis. [px]."""
        return foot + (top - foot) * (np.asarray(percent, dtype=float) - low) / (high - low)

    to_x = log_axis(_SLOWEST, _FASTEST, *_SIDE_X)
    up = tick_layers(np.arange(low, high + 1e-9, step), to_y, change_name, _SIDE_X, False)
    across = tick_layers(
        np.array([100.0, 200.0, 400.0, 800.0, 1600.0]), to_x, "{:,g}".format, (top, foot), True
    )
    return {
        "title": heading(16.0, text("live.cost_front.curve")),
        "y name": texts(EDGE, 36.0, [text("live.cost_front.more")], colour=COLOUR["soft"]),
        **up,
        "x ticks": across["x ticks"],
        "zero": lines(
            [np.array([[_SIDE_X[0], float(to_y(0.0))], [_SIDE_X[1], float(to_y(0.0))]])],
            width=1.6,
            dash=2.0,
            colour=COLOUR["soft"],
        ),
        "curve": lines(
            [np.stack([to_x(rates), to_y(more)], axis=1)], width=2.2, colour=COLOUR["ink"]
        ),
        "current": Layer(
            "dots",
            {
                "x": to_x(here.rate[1:2]),
                "y": to_y(_FULL * here.more[1:2]),
                "size": 6.0,
                "colour": COLOUR["ink"],
            },
        ),
        "x name": texts(
            _SIDE_X[1], foot + 34, [text("live.cost_front.rates")], align=2.0, colour=COLOUR["soft"]
        ),
    }
