"""A live view of a gallery: designs of a class by their cost and the time of a step, without names."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fabriclab import designs
from fabriclab.core import Flags, Floats
from fabriclab.texts import keys, text
from fabriclab.views.common import common_ends
from fabriclab.views.designs import mapped_design
from fabriclab.views.live.controls import option_name
from fabriclab.views.live.designs import can_be_typed, graded
from fabriclab.views.live.widget import Choice, Control, Live, Table, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, heading, lines, log_axis, texts, tick_layers

_MILLION = 1e6
_KILO = 1e3
_MOST = 400  # designs in a gallery
_AGAINST = ("cost", "power")
_TWO = 2  # tiers of switches

# The picture in px.
_WIDTH = 560.0
_SIDE = 320.0
_HEIGHT = 384.0
_X_ENDS = (64.0, 540.0)
_Y_ENDS = (332.0, 58.0)  # foot and top
_TICKS = 6  # at most, on an axis
_ROOM = 0.08  # of an axis, beyond its outermost dots
# Where the letter of a dot may stand from its middle; the first place that is free is taken.
_BESIDE = ((0, -13), (11, -9), (-11, -9), (13, 0), (-13, 0), (11, 10), (-11, 10), (0, 14), (0, -24))
_BELOW = (11, 10)  # first for a design on the front, whose line comes from above
_FURTHER = 1.4  # is the letter of the chosen design, whose dot is larger
_NEAR = (11.0, 10.0)  # two letters, or a letter and a dot, closer than this would meet
_NEAR_LINE = 10.0  # from the middle of a letter to a dashed line, at least [px]
_SEEN = 0.0005  # the least difference that is not 0.0 % in words
_ONE_SPOT = 4.0  # dots that are closer share a label
# Strips of the figures of the chosen design.
_STRIP_TOP, _STRIP_STEP, _STRIP_LEFT, _STRIP_RIGHT = 74.0, 52.0, 18.0, 302.0


class Exhibit(NamedTuple):
    """A design in a gallery.

    Parameters
    ----------
    label : str
        The letter that stands for it.
    family : str
        Family of its network; empty where that is not known.
    cost, time, power : float
        What it costs [USD], how long a step takes [s], and what it draws [W]; NaN where that is not known.
    left : float
        What is left of an all-reduce after the worst failure of a switch. 0..1
    switches, cables : float
        How many it has.
    passed : bool
        Whether it meets all requirements.
    """

    label: str
    family: str
    cost: float
    time: float
    power: float
    left: float
    switches: float
    cables: float
    passed: bool


class Gallery(NamedTuple):
    """The designs of a gallery by what they are compared by: one number of which less is better, and the time."""

    exhibits: tuple[Exhibit, ...]
    against: str

    @property
    def x(self) -> Floats:
        """The number that the time is set against, (E,): cost [million USD] or power [kW]."""
        if self.against == "cost":
            return np.array([each.cost / _MILLION for each in self.exhibits])
        return np.array([each.power / _KILO for each in self.exhibits])

    @property
    def time(self) -> Floats:
        """Time of a step, (E,) [s]."""
        return np.array([each.time for each in self.exhibits])

    @property
    def passed(self) -> Flags:
        """Which designs meet all requirements, (E,)."""
        return np.array([each.passed for each in self.exhibits])

    @property
    def on_front(self) -> Flags:
        """Which designs are on the front, (E,): they meet all requirements, and no other that does beats them."""
        out = np.zeros(len(self.exhibits), dtype=bool)
        here = np.flatnonzero(self.passed)
        if here.size:
            points = np.stack([self.x[here], self.time[here]], axis=1)
            out[here] = designs.front(points.tolist())
        return out

    def beaten_by(self, number: int) -> int:
        """Return the design of the front that beats another one by most; -1 if none does."""
        front = np.flatnonzero(self.on_front)
        better = (self.x[front] <= self.x[number]) & (self.time[front] <= self.time[number])
        better &= front != number
        if not better.any() or self.on_front[number]:
            return -1
        ratio = self.x[front] / self.x[number] + self.time[front] / self.time[number]
        return int(front[better][np.argmin(ratio[better])])


def gallery(
    sheets: Sequence[Any] | None = None,
    chosen: str = "A",
    against: str = "cost",
) -> Live:
    """Show designs without names: what each costs, and how long a step takes on it; those that none beats are joined.

    A design beats another one if it is no worse in both numbers and better in one. The line along the front says what
    a price buys: between two designs there is none. The time is the mean of the visible jobs.

    Parameters
    ----------
    sheets : sequence of mapping, Report or Dot, optional
        Sheets as `fabriclab.designs.read` takes them, their reports, or what `fabriclab.designs.gallery` returns; the
        twelve of `fabriclab.designs.examples` unless given. Dots have neither family nor power.
    chosen : str
        Letter of the design that is lit; "A" is the cheapest.
    against : str
        "cost" or "power".

    Raises
    ------
    ValueError
        If there are fewer than two designs.
    """
    exhibits = _examples() if sheets is None else tuple(exhibits_of(sheets))
    if not 1 < len(exhibits) <= _MOST:
        raise ValueError(f"sheets must be 2..{_MOST} designs, got {len(exhibits)}")
    arguments = {"sheets": sheets, "chosen": chosen, "against": against}
    is_priced = all(np.isfinite(each.power) for each in exhibits)
    axes = _AGAINST if is_priced else _AGAINST[:1]
    names = tuple(text(f"live.gallery.by_{axis}") for axis in axes)
    controls: dict[str, Control] = {
        "chosen": Choice(tuple(each.label for each in exhibits)),
        "against": Choice(axes, names=names),
    }
    held = () if _is_short(sheets) else ("sheets",)
    scene = partial(gallery_scene, exhibits)
    return live_view("gallery", arguments, scene, controls, held=held)


def _is_short(sheets: Sequence[Any] | None) -> bool:
    """Return whether sheets can be written into a line of code."""
    if sheets is None:
        return True
    return all(isinstance(each, Mapping) for each in sheets) and can_be_typed(sheets)


@lru_cache(maxsize=1)
def _examples() -> tuple[Exhibit, ...]:
    """Return the examples as exhibits, each with the name of its approach."""
    found = designs.examples()
    return tuple(exhibits_of(list(found.values()), list(found)))


def exhibits_of(sheets: Sequence[Any], families: Sequence[str] = ()) -> list[Exhibit]:
    """Return sheets, reports or dots as exhibits, the cheapest first, without those that have no cost or time.

    ``families`` are those of the sheets, unless they are to be told from their networks.
    """
    found = []
    for number, each in enumerate(sheets):
        if hasattr(each, "label"):
            found.append(_of_dot(each))
            continue
        report = each if hasattr(each, "figures") else graded(each)
        if {"cost", "time"} <= set(report.figures):
            family = families[number] if families else ""
            if isinstance(each, Mapping) and not family:
                family = family_word(each)
            found.append(_of_report(report, family))
    found.sort(key=lambda exhibit: (exhibit.cost, exhibit.time))
    return [each._replace(label=letter(number)) for number, each in enumerate(found)]


def _of_dot(dot: Any) -> Exhibit:
    """Return a dot of `fabriclab.designs.gallery` as an exhibit."""
    unknown = float("nan")
    return Exhibit(
        label="",
        family="",
        cost=float(dot.cost),
        time=float(dot.time),
        power=unknown,
        left=unknown,
        switches=unknown,
        cables=unknown,
        passed=bool(dot.passed),
    )


def _of_report(report: designs.Report, family: str) -> Exhibit:
    """Return a report as an exhibit of a family."""
    figures = {"power": np.nan, "left": np.nan, "switches": np.nan, "cables": np.nan}
    figures |= report.figures
    return Exhibit(
        label="",
        family=family,
        cost=float(figures["cost"]),
        time=float(figures["time"]),
        power=float(figures["power"]),
        left=float(figures["left"]),
        switches=float(figures["switches"]),
        cables=float(figures["cables"]),
        passed=bool(report.passed),
    )


def family_word(sheet: Mapping[str, Any]) -> str:
    """Return the family of the network of a sheet as engineers write it; that of a list of cables by its tiers."""
    family = sheet.get("family")
    if family:
        key = f"family.{family}"
        return text(key) if key in keys(key) else option_name(family)
    plan = mapped_design(designs.read(sheet)).plan
    tiers = int(plan.tier.max())
    if plan.is_flat:
        return text("live.gallery.direct" if tiers < _TWO else "live.gallery.groups")
    if tiers < _TWO:
        return text("live.gallery.one_tier")
    return text("live.gallery.tiers", n=tiers)


def letter(number: int) -> str:
    """Return the letter of a number from 0, such as "A", "Z" or "AA"."""
    first, last = divmod(number, 26)
    word = chr(ord("A") + last)
    return letter(first - 1) + word if first else word


def gallery_scene(exhibits: tuple[Exhibit, ...], chosen: str, against: str) -> Scene:
    """Return the designs by cost or power and time, with one of them lit and its figures beside it."""
    shown = Gallery(exhibits, against)
    number = [each.label for each in exhibits].index(chosen)
    said = gallery_words(shown, number)
    return Scene(
        said,
        gallery_table(shown, number),
        gallery_layers(shown, number),
        _HEIGHT,
        alt=f"{said} {front_words(shown)}",
        hint=text("live.gallery.hint"),
        width=_WIDTH,
        side=Scene("", layers=strip_layers(shown, number), height=_HEIGHT, width=_SIDE),
    )


# Words ------------------------------------------------------------------------------------------


def gallery_words(shown: Gallery, chosen: int) -> str:
    """Return the finding: what the chosen design costs and how long a step takes, and whether another one beats it."""
    here = shown.exhibits[chosen]
    first = text(
        f"live.gallery.said_{shown.against}",
        label=here.label,
        x=float(shown.x[chosen]),
        time=here.time,
        state=state_of(shown, chosen),
    )
    better = shown.beaten_by(chosen)
    if better < 0:
        return f"{first} {front_words(shown)}"
    other = shown.exhibits[better]
    less = 1 - float(shown.x[better] / shown.x[chosen])
    sooner = 1 - other.time / here.time
    key = f"live.gallery.beaten_{shown.against}"
    if sooner < _SEEN:
        key += "_alone"
    elif less < _SEEN:
        key = "live.gallery.beaten_time"
    second = text(key, label=other.label, less=less, sooner=sooner)
    return f"{first} {second}"


def state_of(shown: Gallery, number: int) -> str:
    """Return in words whether a design is on the front, is beaten, or does not count."""
    if not shown.exhibits[number].passed:
        return text("live.gallery.failed")
    return text("live.gallery.front" if shown.on_front[number] else "live.gallery.beaten")


def front_words(shown: Gallery) -> str:
    """Return how many designs are on the front, and what both of its ends are."""
    front = np.flatnonzero(shown.on_front)
    n = len(shown.exhibits)
    if not front.size:
        return text("live.gallery.none", n=n)
    if front.size == 1:
        return text("live.gallery.single", n=n, label=shown.exhibits[front[0]].label)
    cheap = front[np.argmin(shown.x[front])]
    fast = front[np.argmin(shown.time[front])]
    return text(
        f"live.gallery.ends_{shown.against}",
        front=front.size,
        n=n,
        cheap=shown.exhibits[cheap].label,
        low=float(shown.x[cheap]),
        slow=float(shown.time[cheap]),
        fast=shown.exhibits[fast].label,
        high=float(shown.x[fast]),
        quick=float(shown.time[fast]),
    )


def gallery_table(shown: Gallery, chosen: int) -> Table:
    """Return a row for each design, the chosen one in bold."""
    exhibits = shown.exhibits
    numbers = range(len(exhibits))
    return Table(
        {
            "design": [each.label for each in exhibits],
            "family": [each.family for each in exhibits],
            "million USD": [each.cost / _MILLION for each in exhibits],
            "step [s]": [each.time for each in exhibits],
            "power [W]": [each.power for each in exhibits],
            "left after a failure": [each.left for each in exhibits],
            "state": [state_of(shown, number) for number in numbers],
        },
        bold=(chosen,),
    )


# The picture ------------------------------------------------------------------------------------


def ends_of(axis: str, values: Floats) -> tuple[float, float]:
    """Return the ends of an axis with some room beyond its outermost dots."""
    low, high = float(values.min()), float(values.max())
    room = _ROOM * max(high - low, 0.02 * high)
    return common_ends(axis, max(low - room, 0.0), high + 1.6 * room)


def round_ticks(low: float, high: float) -> Floats:
    """Return round values between two ends."""
    power = 10 ** np.floor(np.log10((high - low) / _TICKS))
    for factor in (1, 2, 2.5, 5, 10):
        step = factor * power
        if (high - low) / step <= _TICKS:
            break
    first = np.ceil(low / step - 1e-9)
    last = np.floor(high / step + 1e-9)
    return np.asarray(step * np.arange(first, last + 1), dtype=np.float64)


def place_on(low: float, high: float, ends: tuple[float, float]) -> Any:
    """Return a function from values to places [px] on a linear axis."""
    start, end = ends
    shifted = log_axis(0, high - low, start, end)

    def at(value: Any) -> Floats:
        """Return the place of a value [px]."""
        return shifted(np.asarray(value, dtype=np.float64) - low)

    return at


def gallery_layers(shown: Gallery, chosen: int) -> dict[str, Layer]:
    """Return both axes, the line along the front, all designs with their letters, and the chosen one with its lines."""
    low_x, high_x = ends_of(shown.against, shown.x)
    low_y, high_y = ends_of("time", shown.time)
    to_x = place_on(low_x, high_x, _X_ENDS)
    to_y = place_on(low_y, high_y, _Y_ENDS)
    foot, top = _Y_ENDS
    x = to_x(shown.x)
    y = to_y(shown.time)
    across = tick_layers(round_ticks(low_x, high_x), to_x, "{:g}".format, (top, foot), True)
    up = tick_layers(round_ticks(low_y, high_y), to_y, "{:g} s".format, _X_ENDS, False)
    return {
        "title": heading(16.0, text("live.gallery.picture")),
        "y name": texts(12.0, 38.0, [text("live.gallery.time")], colour=COLOUR["soft"]),
        "x name": texts(
            _X_ENDS[1],
            foot + 34,
            [text(f"live.gallery.axis_{shown.against}")],
            align=2.0,
            colour=COLOUR["soft"],
        ),
        **across,
        **up,
        "front": front_line(shown, x, y),
        "reading": reading_lines(float(x[chosen]), float(y[chosen])),
        **dot_layers(shown, chosen, x, y),
        "letters": letter_layer(shown, chosen, x, y),
    }


def front_line(shown: Gallery, x: Floats, y: Floats) -> Layer:
    """Return the line along the front, in steps: up to the next design, more money buys nothing."""
    front = np.flatnonzero(shown.on_front)
    order = front[np.lexsort((y[front], x[front]))]
    points: list[tuple[float, float]] = []
    for number in order.tolist():
        if points:
            points.append((float(x[number]), points[-1][1]))
        points.append((float(x[number]), float(y[number])))
    paths = [np.array(points)] if len(points) > 1 else []
    return lines(paths, width=2.2, colour=COLOUR["edge"])


def reading_lines(x: float, y: float) -> Layer:
    """Return dashed lines from the chosen design to both axes."""
    paths = [np.array([[_X_ENDS[0], y], [x, y]]), np.array([[x, _Y_ENDS[0]], [x, y]])]
    return lines(paths, width=1.0, dash=1.0, colour=COLOUR["ink"])


def on_reading(place: tuple[float, float], x: float, y: float) -> bool:
    """Return whether a letter at a place [px] would lie on a line from a design at x, y [px] to an axis."""
    across = abs(place[1] - y) < _NEAR_LINE and place[0] < x
    down = abs(place[0] - x) < _NEAR_LINE and place[1] > y
    return across or down


def notes_of(shown: Gallery) -> list[str]:
    """Return what a reader is told of each design."""
    notes = []
    for number, each in enumerate(shown.exhibits):
        words = [each.family] if each.family else []
        words.append(
            text(f"live.gallery.note_{shown.against}", x=float(shown.x[number]), time=each.time)
        )
        words.append(state_of(shown, number))
        notes.append(", ".join(words))
    return notes


def dot_layers(shown: Gallery, chosen: int, x: Floats, y: Floats) -> dict[str, Layer]:
    """Return a dot for each design: full on the front, open beside it, a cross where a requirement fails.

    The chosen one is drawn once more over all others, so that no neighbour hides it.
    """
    on_front = shown.on_front
    shape = np.select([~shown.passed, on_front], [2.0, 0.0], 1.0)
    is_now = np.arange(x.size) == chosen
    names = [text("live.gallery.design", label=each.label) for each in shown.exhibits]
    size = np.where(is_now, 8.0, np.where(on_front, 5.5, 4.5))
    colour = np.where(is_now, COLOUR["ink"], COLOUR["edge"])
    return {
        "designs": Layer(
            "dots",
            {
                "x": x,
                "y": y,
                "size": size,
                "shape": shape,
                "colour": colour,
                "names": names,
                "notes": notes_of(shown),
                "pick": "chosen",
                "picks": [each.label for each in shown.exhibits],
            },
        ),
        "lit": Layer(
            "dots",
            {
                "x": x[is_now],
                "y": y[is_now],
                "size": size[is_now],
                "shape": shape[is_now],
                "colour": colour[is_now],
            },
        ),
    }


def letter_layer(shown: Gallery, chosen: int, x: Floats, y: Floats) -> Layer:
    """Return the letter of each design beside its dot, where it meets no other; that of the chosen one is bold."""
    label_x = np.zeros(x.size)
    label_y = np.zeros(x.size)
    taken: list[tuple[float, float]] = list(zip(x.tolist(), y.tolist(), strict=True))
    order = [chosen, *np.flatnonzero(np.arange(x.size) != chosen).tolist()]
    words = [each.label for each in shown.exhibits]
    is_free = np.zeros(x.size, dtype=bool)
    for number in order:
        places = (_BELOW, *_BESIDE) if shown.on_front[number] else _BESIDE
        further = _FURTHER if number == chosen else 1.0
        at = (0.0, 0.0)
        # A place on a dashed line of the chosen one is taken only where there is no other.
        for may_cross, (right, down) in product((False, True), places):
            at = (float(x[number]) + further * right, float(y[number]) + further * down)
            meets = [
                abs(at[0] - other[0]) < _NEAR[0] and abs(at[1] - other[1]) < _NEAR[1]
                for other in taken
            ]
            crosses = number != chosen and on_reading(at, float(x[chosen]), float(y[chosen]))
            is_free[number] = not any(meets) and (may_cross or not crosses)
            if is_free[number]:
                break
        label_x[number], label_y[number] = at
        taken.append(at)
    is_now = np.arange(x.size) == chosen
    for number, alike in _on_one_spot(x, y, chosen):
        words[number] = ", ".join(words[other] for other in alike)
        is_free[[other for other in alike if other != number]] = False
    shown_words = [word if free else "" for word, free in zip(words, is_free, strict=True)]
    shown_words[chosen] = words[chosen]
    return texts(
        label_x,
        label_y,
        shown_words,
        align=1.0,
        size=np.where(is_now, 13.0, 12.0),
        bold=is_now.astype(float),
        colour=np.where(is_now, COLOUR["ink"], COLOUR["soft"]),
        halo=1.0,
    )


def _on_one_spot(x: Floats, y: Floats, chosen: int) -> list[tuple[int, list[int]]]:
    """Return groups of designs whose dots would hide each other: the one that is labelled, and all of the group."""
    groups: dict[int, list[int]] = {}
    for number in [chosen, *(n for n in range(x.size) if n != chosen)]:
        first = next(
            (n for n in groups if np.hypot(x[n] - x[number], y[n] - y[number]) < _ONE_SPOT), number
        )
        groups.setdefault(first, []).append(number)
    return [(first, sorted(alike)) for first, alike in groups.items() if len(alike) > 1]


# The chosen design among all others -------------------------------------------------------------


# What an exhibit holds -> what it is multiplied with where it is shown: million USD, s, kW and per cent.
_FIGURES = {
    "cost": 1 / _MILLION,
    "time": 1.0,
    "power": 1 / _KILO,
    "left": 100.0,
    "switches": 1.0,
    "cables": 1.0,
}


class Figure(NamedTuple):
    """A figure of all designs: its name, its values, and how one of them is written."""

    name: str
    values: Floats
    written: str


def figures_of(shown: Gallery, chosen: int) -> list[Figure]:
    """Return the figures that are known of all designs."""
    found = []
    for name, scale in _FIGURES.items():
        values = np.array([scale * getattr(each, name) for each in shown.exhibits], float)
        if np.isfinite(values).all():
            written = text(f"live.gallery.figure_{name}", value=float(values[chosen]))
            found.append(Figure(text(f"live.gallery.name_{name}"), values, written))
    return found


def strip_layers(shown: Gallery, chosen: int) -> dict[str, Layer]:
    """Return the letter and family of the chosen design, and a strip for each figure with all designs on it."""
    here = shown.exhibits[chosen]
    figures = figures_of(shown, chosen)
    row = _STRIP_TOP + _STRIP_STEP * np.arange(len(figures))
    rails = [np.array([[_STRIP_LEFT, y + 18], [_STRIP_RIGHT, y + 18]]) for y in row.tolist()]
    x = np.concatenate([_on_strip(each.values) for each in figures])
    y = np.repeat(row + 18, len(shown.exhibits))
    own = np.array([_on_strip(each.values)[chosen] for each in figures])
    family = here.family or state_of(shown, chosen)
    return {
        "list title": heading(16.0, text("live.gallery.design", label=here.label)),
        "family": texts(12.0, 40.0, [family], size=13.0),
        "rails": lines(rails, width=1.0, colour=COLOUR["line"]),
        "names": texts(12.0, row, [each.name for each in figures], colour=COLOUR["soft"]),
        "values": texts(
            _SIDE - 12, row, [each.written for each in figures], align=2.0, bold=1.0, size=13.0
        ),
        "others": Layer(
            "dots", {"x": x, "y": y, "size": 3.0, "shape": 1.0, "colour": COLOUR["edge"]}
        ),
        "own": Layer(
            "dots", {"x": own, "y": row + 18, "size": 5.5, "shape": 0.0, "colour": COLOUR["ink"]}
        ),
    }


def _on_strip(values: Floats) -> Floats:
    """Return where values stand on a strip from the least to the highest of them [px]."""
    low, high = float(values.min()), float(values.max())
    part = (values - low) / (high - low) if high > low else np.full(values.size, 0.5)
    return np.asarray(_STRIP_LEFT + 6 + part * (_STRIP_RIGHT - _STRIP_LEFT - 12))
