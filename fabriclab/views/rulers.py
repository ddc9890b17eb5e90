"""Logarithmic scales: rates measured here beside links of the catalog, and guesses divided by the true values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog import Comparison
from fabriclab.core import Flags, Floats, Result
from fabriclab.texts import text
from fabriclab.views.page import HERE, Axes, Picture, Table, plain, three
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    printed,
    texts,
    texts_at,
    tick_layers,
)

_WIDTH = 880.0  # of the picture of a ruler [px]
_TOP = 30.0  # upper edge of the first row of a ruler [px]
_ROW = 26.0  # height of a row [px]
_ROWS = 12 * _ROW  # of all rows together at most [px]
_BELOW = 28.0  # height of the ticks of a ruler [px]
_LEFT, _RIGHT = 236.0, 782.0  # ends of the ruler [px]
_SLOWEST, _FASTEST = 1e7, 1e13  # ends of the slider that chooses a rate [B/s]
_ABOUT = {"NDR": "ruler.ndr", "400 Gb/s NIC": "ruler.nic"}  # name of a link -> sentence about it
_EQUAL = " = "  # between the names of links of one rate
_CATALOG = "catalog"  # how the rate of a link was obtained
_CHOSEN = "chosen"  # how the rate of the slider was obtained
_LETTER = 7.5  # width of a 12 px letter on a narrow page, which shows letters a quarter larger [px]


class RulerMark(NamedTuple):
    """A rate on the ruler, with its name and how it was obtained."""

    rate: float  # [B/s]
    name: str
    obtained: str  # how, such as "measured here" or "catalog"
    rounds: Sequence[float]  # rates of single rounds, drawn as small strokes [B/s]

    @property
    def chosen(self) -> bool:
        """Whether this is the rate that a slider chooses."""
        return self.obtained == _CHOSEN


def ruler(
    measured: Mapping[str, Result | units.Quantity],
    links: Mapping[str, units.Quantity] | None = None,
    *,
    ax: Axes | None = None,
    finding: str | None = None,
    caption: str = "",
) -> Picture:
    """Draw rates on a logarithmic ruler, the fastest on top.

    Parameters
    ----------
    measured : mapping of label to Result or rate
        Rates measured on this machine: in ink, with a small stroke for every round if the result kept its rounds. Of a
        result with several sizes, the highest bus bandwidth is drawn. A stored result is an open circle, with its
        source below the picture. [B/s]
    links : mapping of label to rate, optional
        Rates of real links in one direction, drawn as open circles. [B/s]
    ax, finding : optional
        Axes to draw on, and the sentence above the picture.
    caption : str
        Text below the picture: where the rates of ``links`` come from.

    Raises
    ------
    ValueError
        If there is no rate, or one that is not plausible.
    """
    sentences = [caption] if caption else []
    for label, value in measured.items():
        if isinstance(value, Result) and value.source:
            sentences.append(f"{label}: {value.source}.")
    scene = ruler_scene(marks_of(measured, links or {}))
    return printed(replace(scene, caption=" ".join(sentences)), ax=ax, finding=finding)


def comparison(value: Comparison, *, ax: Axes | None = None, finding: str | None = None) -> Picture:
    """Draw a comparison of links: a circle at each encoded rate, strokes at the signalled and the achievable rate.

    Raises
    ------
    ValueError
        If no part has an encoded rate.
    """
    names = [part.name for part in value.parts]
    signalled, encoded, achievable = value.rates.T  # each (parts,), NaN where unknown [B/s]

    marks = []
    for i, name in enumerate(names):
        if np.isfinite(encoded[i]):
            others = [float(rate) for rate in (achievable[i], signalled[i]) if np.isfinite(rate)]
            marks.append(RulerMark(float(encoded[i]), name, _CATALOG, others))
    if not marks:
        raise ValueError(
            f"value must hold links with an encoded rate, got {', '.join(names)};"
            ' try catalog.links.compare("NDR", "nvlink4")'
        )

    quoted = [row[-1] for row in Comparison(value.parts, ("quoted",)).rows()[1:]]
    table = Table(
        {
            "what": names,
            "signalled [B/s]": signalled,
            "encoded [B/s]": encoded,
            "achievable [B/s]": achievable,
            "as quoted": quoted,
        }
    )
    scene = replace(ruler_scene(marks), table=table, caption=text("ruler.compared"))
    return printed(scene, ax=ax, finding=finding)


# A ruler of rates ---------------------------------------------------------------------------------


def ruler_scene(marks: Sequence[RulerMark], rate: float | None = None) -> Scene:
    """Return a picture of a ruler; if ``rate`` [B/s] is given, a link with that rate is compared with the others."""
    rows = list(marks)
    if rate is not None:
        rows.append(RulerMark(rate, text("live.ruler.yours"), _CHOSEN, ()))
    rows.sort(key=lambda mark: -mark.rate)

    low, high = _reach(rows, with_slider=rate is not None)
    to_x = log_axis(low, high, _LEFT, _RIGHT)
    shared = together(rows)
    height = min(_ROW, _ROWS / len(shared))
    y = _TOP + height * (np.arange(len(shared), dtype=np.float64) + 0.5)  # middle of each row [px]
    bottom = _TOP + height * len(shared)
    layers = {
        **_ruler_ticks(low, high, to_x, bottom),
        "rows": _row_layer(shared, y, height, rate),
        "bars": _bar_layer(shared, to_x, y),
        "rounds": _round_layer(shared, to_x, y),
        "dots": _dot_layer(shared, to_x, y),
        "names": _name_layer(shared, y),
        "rates": _rate_layer(shared, to_x, y),
        "quantity": heading(12.0, text("ruler.axis")),
    }

    if rate is None:
        clauses = _clauses(rows, marks[0])
        clauses[0] = clauses[0][:1].upper() + clauses[0][1:]
        alt = "; ".join(clauses)
        table = _rounds_table(rows)
        return Scene(clauses[0], table, layers, bottom + _BELOW, alt, width=_WIDTH)
    sentence = _comparing(marks, rate)
    others = [
        f"{mark.name}: {note}"
        for mark, note in zip(shared, _notes(shared, rate), strict=True)
        if not mark.chosen
    ]
    alt = f"{sentence} " + "; ".join(others)
    hint = text("ruler.rounds") if any(len(mark.rounds) for mark in rows) else ""
    table = _factor_table(rows, rate)
    return Scene(sentence, table, layers, bottom + _BELOW, alt, width=_WIDTH, hint=hint)


def together(rows: Sequence[RulerMark]) -> list[RulerMark]:
    """Return the rows with links of one rate as one row, which has all of their names."""
    shared: list[RulerMark] = []
    for mark in rows:
        before = shared[-1] if shared else None
        if (
            before is not None
            and before.obtained == mark.obtained == _CATALOG
            and np.isclose(before.rate, mark.rate)
            and not before.rounds
            and not mark.rounds
        ):
            shared[-1] = before._replace(name=f"{before.name}{_EQUAL}{mark.name}")
        else:
            shared.append(mark)
    return shared


def _reach(rows: Sequence[RulerMark], with_slider: bool) -> tuple[float, float]:
    """Return the ends of the ruler [B/s], beyond all rates and rounds and, if there is one, the ends of the slider."""
    rates = [_SLOWEST, _FASTEST] if with_slider else []
    for mark in rows:
        rates += [mark.rate, *mark.rounds]
    return np.min(rates) / 1.5, np.max(rates) * 1.5


def _ruler_ticks(
    low: float, high: float, to_x: Callable[[Any], Floats], bottom: float
) -> dict[str, Layer]:
    """Return grid lines and texts at powers of ten, at most about eight of them."""
    decades = np.asarray(10.0 ** np.arange(np.ceil(np.log10(low)), np.log10(high)), np.float64)
    decades = decades[:: 1 + decades.size // 8]
    return tick_layers(decades, to_x, units.format_rate, (_TOP - 4, bottom), True)


def _rates(rows: Sequence[RulerMark]) -> Floats:
    """Return the rate of each row (R,) [B/s]."""
    return np.array([mark.rate for mark in rows])


def _is_own(rows: Sequence[RulerMark]) -> Flags:
    """Return for each row whether it was measured on the learner's own machine (R,)."""
    return np.array([mark.obtained == HERE["measured"] for mark in rows])


def _row_layer(rows: Sequence[RulerMark], y: Floats, height: float, rate: float | None) -> Layer:
    """Return the rows as areas without a colour, so that a reader may point at a name, a bar or a dot alike."""
    return boxes(
        2.0,
        y - height / 2 + 1,
        _WIDTH - 4,
        height - 2,
        colour=COLOUR["none"],
        names=[mark.name for mark in rows],
        notes=_notes(rows, rate),
    )


def _bar_layer(rows: Sequence[RulerMark], to_x: Callable[[Any], Floats], y: Floats) -> Layer:
    """Return a bar from the left end of the ruler to each rate: in ink for the learner's machine and the slider's."""
    paths = [np.array([[_LEFT, h], [end, h]]) for end, h in zip(to_x(_rates(rows)), y, strict=True)]
    own = _is_own(rows)
    chosen = np.array([mark.chosen for mark in rows])
    return lines(
        paths,
        width=np.where(own, 7.0, 2.0),
        colour=np.where(own | chosen, COLOUR["ink"], COLOUR["hair"]),
    )


def _round_layer(rows: Sequence[RulerMark], to_x: Callable[[Any], Floats], y: Floats) -> Layer:
    """Return a vertical stroke at the rate of each round."""
    paths = []
    for mark, h in zip(rows, y, strict=True):
        for x in to_x(np.array(mark.rounds)):
            paths.append(np.array([[x, h - 6], [x, h + 6]]))
    return lines(paths, width=1.2, colour=COLOUR["soft"])


def _dot_layer(rows: Sequence[RulerMark], to_x: Callable[[Any], Floats], y: Floats) -> Layer:
    """Return a dot at each rate: filled where it was measured here; the one of the slider can be dragged."""
    own = _is_own(rows)
    chosen = np.array([mark.chosen for mark in rows])
    colours = np.where(own, COLOUR["ink"], COLOUR["edge"])
    fields: dict[str, Any] = {
        "x": to_x(_rates(rows)),
        "y": y,
        "size": np.where(chosen, 7.0, 5.0),
        "colour": np.where(chosen, COLOUR["ink"], colours),
        "shape": np.where(own | chosen, 0, 1),
    }
    if chosen.any():
        fields["drag"] = ["rate" if mark.chosen else "" for mark in rows]
        fields["drag_ends"] = to_x([_SLOWEST, _FASTEST])
    return Layer("dots", fields)


def _name_layer(rows: Sequence[RulerMark], y: Floats) -> Layer:
    """Return the names on the left; those of the learner's own machine and of the chosen rate are bold."""
    right = _LEFT - 10
    names = [fitted(mark.name, right) for mark in rows]
    bold = np.array([mark.chosen for mark in rows]) | _is_own(rows)
    colour = np.where(bold, COLOUR["ink"], COLOUR["soft"])
    return texts(right, y, names, align=2.0, bold=bold.astype(np.float64), colour=colour)


def _rate_layer(rows: Sequence[RulerMark], to_x: Callable[[Any], Floats], y: Floats) -> Layer:
    """Return each rate in words, to the right of its dot and of the strokes of its rounds."""
    fastest = [max([mark.rate, *mark.rounds]) for mark in rows]
    bold = np.array([mark.chosen for mark in rows]) | _is_own(rows)
    words = [plain(units.format_rate(mark.rate)) for mark in rows]
    return texts(to_x(fastest) + 12, y, words, bold=bold.astype(np.float64), halo=1.0)


def _notes(rows: Sequence[RulerMark], rate: float | None) -> list[str]:
    """Return the note of each dot: its rate and, if a ``rate`` is chosen, how it compares with the chosen one."""
    notes = []
    for mark in rows:
        about = [text(_ABOUT[name]) for name in mark.name.split(_EQUAL) if name in _ABOUT]
        note = "; ".join([units.format_rate(mark.rate), *about])
        if rate and not mark.chosen:
            note += f", {_factor(mark.rate, rate)} {text('live.ruler.yours')}"
        notes.append(note)
    return notes


def _comparing(marks: Sequence[RulerMark], rate: float) -> str:
    """Return a sentence that compares a chosen rate with the first one measured here, or else with the first."""
    here = [mark for mark in marks if mark.obtained == HERE["measured"]]
    other = here[0] if here else marks[0]
    return text(
        "live.ruler.said",
        rate=plain(units.format_rate(rate)),
        factor=_factor(rate, other.rate),
        other=other.name,
    )


def _factor_table(rows: Sequence[RulerMark], rate: float) -> Table:
    """Return a table of rates, each with the ratio of the chosen rate to it."""
    rates = _rates(rows)
    names = [mark.name for mark in rows]
    return Table({"what": names, "rate [B/s]": rates, "your link / this": rate / rates})


def _rounds_table(rows: Sequence[RulerMark]) -> Table:
    """Return a table of rates: how each was obtained, and its slowest and fastest round."""
    names = [mark.name for mark in rows]
    obtained = [mark.obtained for mark in rows]
    slowest = [min(mark.rounds, default=np.nan) for mark in rows]
    fastest = [max(mark.rounds, default=np.nan) for mark in rows]
    columns = {
        "what": names,
        "obtained": obtained,
        "rate [B/s]": _rates(rows),
        "slowest round [B/s]": slowest,
        "fastest round [B/s]": fastest,
    }
    return Table(columns)


def _clauses(rows: Sequence[RulerMark], first: RulerMark) -> list[str]:
    """Return clauses: the fastest rate compared with ``first``, then every other rate.

    If ``first`` is the fastest itself, the fastest is compared with the slowest.
    """
    top = rows[0]
    other = first if first is not top else rows[-1]
    lead = text("ruler.moves", name=top.name, rate=top.rate)
    if other is not top:
        factor = three(top.rate / other.rate)
        lead += text("ruler.against", factor=factor, name=other.name, rate=other.rate)
    rest = [mark for mark in rows if mark is not top and mark is not other]
    return [lead, *(f"{mark.name} {units.format_rate(mark.rate)}" for mark in rest)]


def marks_of(
    measured: Mapping[str, Result | units.Quantity], links: Mapping[str, units.Quantity]
) -> list[RulerMark]:
    """Return measured rates and rates of links as marks for a ruler.

    Raises
    ------
    ValueError
        If there is no rate, or one that is not plausible.
    """
    marks = [_mark(name, value) for name, value in measured.items()]
    for name, value in links.items():
        marks.append(RulerMark(units.rate(value, name), name, _CATALOG, ()))
    if not marks:
        raise ValueError('measured must hold at least one rate, such as {"copy": "10 GB/s"}')
    return marks


def _mark(name: str, value: Result | units.Quantity) -> RulerMark:
    """Return a mark for a rate measured here, or for the highest bus bandwidth of a result."""
    if not isinstance(value, Result):
        return RulerMark(units.rate(value, name), name, HERE["measured"], ())

    best = int(np.argmax(value.busbw))
    rate = float(value.busbw[best])
    if not 0 < rate < np.inf:
        raise ValueError(
            f"{name} must have a rate above 0, got {rate:g} B/s; one rank alone has no bus bandwidth"
        )
    rounds: Sequence[float] = ()
    if value.samples is not None:
        # Each round moved the same bytes, in its own time.
        rounds = (rate * value.time[best] / value.samples[best]).tolist()
    return RulerMark(rate, name, HERE.get(value.obtained, value.obtained), rounds)


def fitted(name: str, room: float) -> str:
    """Return a name, shortened with an ellipsis if it is wider than ``room`` [px]."""
    most = int(room / _LETTER)
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"


def _factor(a: float, b: float) -> str:
    """Return in words how many times faster or slower rate ``a`` is than rate ``b``."""
    factor = max(a / b, b / a)
    if factor < 1.05:
        return text("live.ruler.equal")
    return text("live.ruler.faster" if a > b else "live.ruler.slower", factor=three(factor))


# One measurement beside what is expected -----------------------------------------------------------

_BAND_LEFT, _BAND_RIGHT = 110.0, 760.0  # ends of the axis [px]
_BAND_TOP, _BAND_MIDDLE, _BAND_BOTTOM = 34.0, 84.0, 126.0  # of the axis and the band [px]
_BAND_HIGH = 26.0  # height of the band [px]
_BAND_APART = 150.0  # room for the name of a mark before the band [px]
_BAND_ROOM = 1.15  # the axis ends so far beyond the highest rate


def band(measured: Result, expected: Result, *, finding: str | None = None) -> Picture:
    """Draw one measured bus bandwidth on an axis from 0, with the band within which it is expected.

    Parameters
    ----------
    measured, expected : Result
        Of one size each; the ends of the band are the shortest and the longest time that are expected.
    finding : str, optional
        The sentence above the picture.
    """
    moved = float(expected.busbw[0] * expected.time[0])  # what a bus bandwidth divides [B]
    ends = [float(expected.time[0] if t is None else t[0]) for t in (expected.high, expected.low)]
    return printed(
        band_scene(
            float(measured.busbw[0]), float(expected.busbw[0]), moved / ends[0], moved / ends[1]
        ),
        finding=finding,
    )


def band_scene(rate: float, expected: float, low: float, high: float) -> Scene:
    """Return the picture of a measured rate [B/s], of what is expected, and of the ends of its band; see `band`."""
    most = _BAND_ROOM * max(rate, expected, high)

    def to_x(value: Any) -> Floats:
        return np.asarray(_BAND_LEFT + (_BAND_RIGHT - _BAND_LEFT) * np.asarray(value) / most)

    ticks = np.array(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, most))
    ticks = ticks[ticks <= most]
    left, middle, right = to_x([low, expected, high]).tolist()
    at = float(to_x(rate))
    top = _BAND_MIDDLE - _BAND_HIGH / 2
    words = {
        "measured": plain(units.format_rate(rate)),
        "expected": text(
            "band.expected", low=plain(units.format_rate(low)), high=plain(units.format_rate(high))
        ),
    }
    # The name of the band stands over it, and that of the mark beside the mark or, within the band, under it.
    is_within = left - _BAND_APART <= at <= right
    name_x, name_y = (at, top + _BAND_HIGH + 11) if is_within else (at + 12, _BAND_MIDDLE)
    layers = {
        **tick_layers(ticks, to_x, units.format_rate, (_BAND_TOP + 14, _BAND_BOTTOM), True),
        "band": boxes(left, top, right - left, _BAND_HIGH, colour=COLOUR["hair"], round=0.0),
        "expected": lines(
            [np.array([[middle, top], [middle, top + _BAND_HIGH]])], colour=COLOUR["soft"]
        ),
        "measured": Layer(
            "dots",
            {
                "x": np.array([at]),
                "y": np.array([_BAND_MIDDLE]),
                "size": 5.5,
                "colour": COLOUR["ink"],
            },
        ),
        "band name": texts(
            [(left + right) / 2],
            top - 11,
            [words["expected"]],
            align=1.0,
            colour=COLOUR["soft"],
            halo=1.0,
        ),
        "name": texts(
            [name_x],
            name_y,
            [text("band.measured", rate=words["measured"])],
            align=1.0 if is_within else 0.0,
            bold=1.0,
            halo=1.0,
        ),
        "quantity": heading(12.0, text("sweep.axis_busbw")),
    }
    said = text("band.said", rate=words["measured"], expected=words["expected"])
    table = Table(
        {
            "what": [
                text("how.measured"),
                text("band.middle"),
                text("band.low"),
                text("band.high"),
            ],
            "bus bandwidth [B/s]": [rate, expected, low, high],
        }
    )
    return Scene(said, table, layers, _BAND_BOTTOM + _BELOW, width=_WIDTH)


# Guesses beside the truth -------------------------------------------------------------------------

_GUESS_LEFT, _GUESS_RIGHT, _GUESS_TOP = 260.0, 620.0, 22.0  # edges of the drawing area [px]
_GUESS_ROW = 27.0  # height of a row [px]
_NEAR = (0.5, 2.0)  # range of guess / truth that counts as near


def calibration(
    names: Sequence[str],
    ratio: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    finding: str | None = None,
) -> Picture:
    """Draw guesses beside the truth: in each row a dot for the guess, a bar for its range, and a line at the truth.

    The first guess is on top, and the scale is logarithmic.

    Parameters
    ----------
    names : sequence of str
        Name of each guessed quantity. (N,)
    ratio, low, high : array_like
        Best guess and ends of its range, each divided by the true value; NaN for an end that was not given. (N,), > 0
    finding : str, optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, a ratio is not finite, or a number is not above 0.
    """
    return printed(calibration_scene(names, ratio, low, high), finding=finding)


def calibration_scene(
    names: Sequence[str], ratio: ArrayLike, low: ArrayLike, high: ArrayLike
) -> Scene:
    """Return the picture of guesses; see `calibration`."""
    values = _checked_guesses(names, ratio, low, high)
    guess = values[0]  # (N,)
    ends = values[1:]  # (2, N), low and high

    finite = values[np.isfinite(values)]
    least = min(0.2, finite.min())
    most = max(5.0, finite.max())
    to_x = log_axis(least / 2, 2 * most, _GUESS_LEFT, _GUESS_RIGHT)
    number = np.arange(len(names), dtype=np.float64)
    y = _GUESS_TOP + _GUESS_ROW * (number + 0.5)  # middle of each row [px]
    bottom = _GUESS_TOP + _GUESS_ROW * len(names)
    truth = float(to_x(1.0))  # [px]
    truth_line = np.array([[truth, _GUESS_TOP], [truth, bottom]])
    dots = {"x": to_x(guess), "y": y, "size": 5.0, "colour": COLOUR["guess"]}
    labels = [fitted(name, _GUESS_LEFT - 8) for name in names]
    ratios = [three(value) for value in guess]
    words = texts_at(
        (truth, 12.0, text("progress.band"), 1),
        (_GUESS_RIGHT, bottom + 29, text("progress.guesses"), 2),
    )
    layers = {
        "near": _near_layer(to_x, bottom),
        **_ratio_ticks(least, most, to_x, bottom),
        "truth": lines([truth_line]),
        "ranges": _range_layer(ends, to_x, y),
        "dots": Layer("dots", dots),
        "names": texts(_GUESS_LEFT - 8, y, labels, align=2.0),
        "ratios": texts(_GUESS_RIGHT + 8, y, ratios),
        "words": words,
    }

    n_near = int(np.sum((guess >= _NEAR[0]) & (guess <= _NEAR[1])))
    sentence = text("progress.near", near=n_near, n=len(names))
    table = Table(
        {
            "what": names,
            "guess / truth": guess,
            "low / truth": ends[0],
            "high / truth": ends[1],
        }
    )
    return Scene(sentence, table, layers, bottom + 40)


def _checked_guesses(
    names: Sequence[str], ratio: ArrayLike, low: ArrayLike, high: ArrayLike
) -> Floats:
    """Return guesses and the ends of their ranges as an array (3, N), or raise if they cannot be drawn."""
    values = np.array([ratio, low, high], dtype=np.float64)
    given = values[np.isfinite(values)]
    right_shape = values.shape == (3, len(names))
    if not right_shape or not np.isfinite(values[0]).all() or not given.size or given.min() <= 0:
        raise ValueError(
            f"ratio, low and high must hold one number above 0 for each of {list(names)},"
            f" got {values.tolist()}"
        )
    return values


def _near_layer(to_x: Callable[[Any], Floats], bottom: float) -> Layer:
    """Return the pale band within which a guess counts as near the truth."""
    left, right = (float(to_x(value)) for value in _NEAR)
    return boxes(
        left,
        _GUESS_TOP,
        right - left,
        bottom - _GUESS_TOP,
        colour=COLOUR["grey"],
        alpha=0.15,
        round=0.0,
    )


def _ratio_ticks(
    least: float, most: float, to_x: Callable[[Any], Floats], bottom: float
) -> dict[str, Layer]:
    """Return grid lines and texts at powers of ten, at most about eight of them."""
    step = 1 + int((np.log10(most / least) + 1) / 8)
    tens = np.asarray(10.0 ** np.arange(-12, 13, step), np.float64)
    shown = tens[(tens > least / 2) & (tens < 2 * most)]
    return tick_layers(shown, to_x, "{:g}".format, (_GUESS_TOP, bottom), True)


def _range_layer(ends: Floats, to_x: Callable[[Any], Floats], y: Floats) -> Layer:
    """Return a bar for each range in ``ends`` (2, N) that has both ends."""
    paths = []
    for x, h in zip(to_x(ends.T), y, strict=True):
        if np.isfinite(x).all():
            paths.append(np.stack([x, [h, h]], axis=1))
    return lines(paths, width=7.0, alpha=0.4, colour=COLOUR["guess"])
