"""Choice: the chosen point is on the design's own front, and the figures that speak for it are true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabriclab import units
from fabriclab.designs.exam import FIGURES, Exam, Verdict, verdict
from fabriclab.designs.fronts import beaten_by
from fabriclab.registry import register
from fabriclab.texts import text

# illustrative: figures are rounded when they are written down
_NEAR = 0.02
_POINTS = 3
_REASONS = 2
_AXES = ("cost", "time")
_QUANTITY = {"cost": "price", "cost_per_gpu": "price", "time": "time", "power": "power"}
_UNIT = {"cost": "USD", "cost_per_gpu": "USD", "time": "s", "power": "W"}


class _Refused(Exception):
    """Why a choice is refused: a sentence, and the two figures that differ."""

    def __init__(
        self, words: str, asked: float = 1.0, reached: float = 0.0, unit: str = "1"
    ) -> None:
        super().__init__(words)
        self.asked = asked
        self.reached = reached
        self.unit = unit


@register("requirement", "choice", place=10, needs=("size", "routes"))
def choice(exam: Exam) -> Verdict:
    """Compare what the design says about itself with what is computed."""
    sheet = exam.design.sheet
    try:
        words = _judged(exam, sheet.get("front"), sheet.get("choice"))
    except _Refused as refused:
        return verdict(
            "choice",
            asked=refused.asked,
            reached=refused.reached,
            unit=refused.unit,
            words=str(refused),
            passed=False,
        )
    return verdict("choice", asked=1, reached=1, unit="1", words=words)


def _judged(exam: Exam, front: Any, chosen: Any) -> str:
    """Return the sentence of a choice that holds."""
    points = _points(front)
    if not isinstance(chosen, Mapping):
        raise _Refused(text("designs.choice.nothing"))
    name = str(chosen.get("name"))
    if name not in points:
        raise _Refused(text("designs.choice.name", name=name, names=", ".join(points)))
    true = exam.figures()
    for axis in _AXES:
        _compare(f"front, {axis}", axis, points[name][axis], true[axis])

    beaten = beaten_by([[points[p][axis] for axis in _AXES] for p in points])
    by = beaten[list(points).index(name)]
    if by is not None:
        other = list(points)[by]
        raise _Refused(
            text(
                "designs.choice.beaten",
                name=name,
                other=other,
                cost=points[name]["cost"] / 1e6,
                other_cost=points[other]["cost"] / 1e6,
                time=points[name]["time"],
                other_time=points[other]["time"],
            ),
            points[other]["cost"],
            points[name]["cost"],
            "USD",
        )
    reasons = chosen.get("reasons")
    if not isinstance(reasons, Mapping) or len(reasons) < _REASONS:
        raise _Refused(text("designs.choice.reasons", figures=", ".join(FIGURES)))
    for figure, value in reasons.items():
        if figure not in FIGURES:
            raise _Refused(text("designs.choice.figure", name=figure, figures=", ".join(FIGURES)))
        _compare(text("designs.choice.reason"), figure, _number(value, figure), true[figure])
    return _compared(points, name, chosen)


def _points(front: Any) -> dict[str, dict[str, float]]:
    """Return cost and time of each point of the front, by name."""
    if isinstance(front, str | Mapping) or not hasattr(front, "__iter__"):
        raise _Refused(text("designs.choice.no_front", points=_POINTS))
    points: dict[str, dict[str, float]] = {}
    for row in front:
        if not isinstance(row, Mapping) or not {"name", *_AXES} <= set(row):
            raise _Refused(text("designs.choice.point", row=repr(row)[:80]))
        name = str(row["name"])
        if name in points:
            raise _Refused(text("designs.choice.same_name", name=name))
        points[name] = {axis: _number(row[axis], axis) for axis in _AXES}
    if len(points) < _POINTS:
        raise _Refused(
            text("designs.choice.few", n=len(points), points=_POINTS),
            _POINTS,
            len(points),
            "points",
        )
    return points


def _compared(
    points: Mapping[str, Mapping[str, float]], name: str, chosen: Mapping[str, Any]
) -> str:
    """Return the sentence that compares the chosen point with the next best."""
    following = str(chosen.get("next"))
    if following not in points or following == name:
        raise _Refused(
            text(
                "designs.choice.next",
                name=following,
                names=", ".join(other for other in points if other != name),
            )
        )
    difference = chosen.get("difference")
    if not isinstance(difference, Mapping) or not difference or not set(difference) <= set(_AXES):
        raise _Refused(text("designs.choice.no_difference"))
    for axis, value in difference.items():
        here, there = points[name][axis], points[following][axis]
        told = _signed(value, axis)
        is_other_way = told * (here - there) < 0
        if is_other_way or abs(told - (here - there)) > _NEAR * max(abs(here), abs(there)):
            raise _Refused(
                text(
                    "designs.choice.difference",
                    figure=axis,
                    told=_written(told, axis),
                    true=_written(here - there, axis),
                    name=name,
                    other=following,
                ),
                here - there,
                told,
                _UNIT[axis],
            )
    axis = next(iter(difference))
    return text(
        "designs.choice.met",
        name=name,
        other=following,
        figure=axis,
        gap=_written(points[name][axis] - points[following][axis], axis),
    )


def _compare(where: str, figure: str, told: float, true: float) -> None:
    """Refuse a figure that is not true."""
    if abs(told - true) <= _NEAR * abs(true):
        return
    words = text(
        "designs.choice.false",
        where=where,
        figure=figure,
        told=_written(told, figure),
        true=_written(true, figure),
        share=_NEAR,
    )
    raise _Refused(words, true, told, _UNIT.get(figure, "1"))


def _number(value: Any, figure: str) -> float:
    """Return a figure as a number in SI or USD; a text may have a unit."""
    try:
        if figure in _QUANTITY:
            return units.parse(value, _QUANTITY[figure], figure)
        return units.parse(value, "count", figure)
    except (TypeError, ValueError) as error:
        raise _Refused(str(error)) from None


def _signed(value: Any, figure: str) -> float:
    """Return a difference, which may be below 0."""
    if isinstance(value, str) and value.strip()[:1] in "-−":
        return -_number(value.strip()[1:].strip(), figure)
    if units.is_number(value) and float(value) < 0:
        return -_number(-float(value), figure)
    return _number(value, figure)


def _written(value: float, figure: str) -> str:
    """Return a figure with its unit."""
    if figure in ("cost", "cost_per_gpu"):
        return f"{value:,.0f} USD"
    if figure == "time":
        return f"{value:.3f} s"
    if figure == "power":
        return f"{value / 1e3:,.1f} kW"
    return f"{value:,.4g}"
