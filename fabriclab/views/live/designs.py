"""A live view of a design: its tiers with the part that a requirement fails on, and all requirements beside it."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from fabriclab import designs
from fabriclab.core import Fabric, Flags, Floats
from fabriclab.texts import text
from fabriclab.views.designs import (
    HEIGHT,
    against_words,
    answer_words,
    arrowed,
    design_layers,
    drawing_of,
    has_figures,
    located_words,
    mapped_design,
    mark_of,
    part_columns,
    requirement_name,
    room_words,
    shape_words,
)
from fabriclab.views.live.widget import Choice, Control, Live, Table, live_view
from fabriclab.views.plans import OVERLOADED, TIGHTEST, Mark
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, heading, lines, texts

_WIDTH = 560.0  # of the picture [px]
_SIDE = 320.0  # of the list of requirements [px]
_BOUGHT = ("B/s", "USD", "1")  # units of what can be bought in any amount
_LONGEST = 300  # so many letters of a sheet are written into the line of code
# The list of requirements in px.
_TOP, _ROW = 34.0, 34.0
_SIGN, _NAME, _RIGHT = 16.0, 30.0, 308.0
_BAR_MIDDLE, _BAR_HALF, _BAR_HIGH = 72.0, 42.0, 6.0
_MOST_ROOM = 0.5  # what the longest bar stands for, of what is asked


class Judged(NamedTuple):
    """A design with what was found about each of its requirements."""

    design: designs.Design
    verdicts: tuple[designs.Verdict, ...]

    def verdict(self, requirement: str) -> designs.Verdict:
        """Return the verdict on a requirement."""
        return next(each for each in self.verdicts if each.requirement == requirement)

    @property
    def first(self) -> str:
        """The requirement to look at first: the first refused one, else of those with a price the one with least room.

        Rates, costs and shares can be bought in any amount, while a switch with 64 ports may well use all of them.
        """
        for each in self.verdicts:
            if each.passed is False:
                return str(each.requirement)
        held = [each for each in self.verdicts if has_figures(each) and each.unit in _BOUGHT]
        if not held:
            return str(self.verdicts[0].requirement)
        return str(min(held, key=lambda each: each.margin).requirement)


def design(
    sheet: str | Mapping[str, Any] | Fabric | designs.Design,
    requirement: str | None = None,
    *,
    key: str = "",
) -> Live:
    """Show a design of a cluster by its tiers, and the part in it that a requirement fails on.

    What fails has a cross, and what is asked for more than it carries is a double line. Of a requirement that holds,
    the tightest part has an edge of ink. Beside the picture stand all requirements with their room. Leaves out what is
    inside of servers, and lengths.

    Parameters
    ----------
    sheet : str, mapping, Fabric or Design
        A design as `fabriclab.designs.read` takes it, or the name of one of `fabriclab.designs.examples`.
    requirement : str, optional
        One of `fabriclab.designs.requirements`; by default the first refused one, else the one
        with the least room among rates, costs and shares.
    key : str
        Key of a class, by which workloads and prices are drawn; "" for those of the exercise itself.

    Raises
    ------
    ValueError, TypeError
        If the sheet cannot be read, or there is no such example or requirement.
    """
    judged = judged_sheet(sheet, key)
    chosen = judged.first if requirement is None else requirement
    arguments = {"sheet": sheet, "requirement": chosen, "key": key}
    names = designs.requirements()
    controls: dict[str, Control] = {
        "requirement": Choice(tuple(names), names=tuple(map(requirement_name, names)))
    }
    held = () if can_be_typed(sheet) else ("sheet",)
    return live_view("design", arguments, partial(judged_scene, judged), controls, held=held)


def can_be_typed(value: Any) -> bool:
    """Return whether a value can be written into a line of code: its repr is short, and an expression."""
    written = repr(value)
    return len(written) <= _LONGEST and "<" not in written


def judged_sheet(sheet: str | Mapping[str, Any] | Fabric | designs.Design, key: str) -> Judged:
    """Return a sheet, or the example of a name, with its verdicts."""
    if isinstance(sheet, str):
        known = designs.examples()
        if sheet not in known:
            names = ", ".join(known)
            raise ValueError(f"sheet must be a dict, or one of {names}, got {sheet!r:.60}")
        sheet = known[sheet]
    design = designs.read(sheet)  # refuses what cannot be read
    return Judged(design, tuple(graded(sheet, key).verdicts))


def graded(sheet: Mapping[str, Any] | Fabric | designs.Design, key: str = "") -> designs.Report:
    """Return the report on a sheet; that of a sheet of plain data is kept, as views show it again and again."""
    try:
        plain = json.dumps(sheet)
    except TypeError:
        return designs.grade(sheet, key)
    return _graded(plain, key)


@lru_cache(maxsize=64)
def _graded(plain: str, key: str) -> designs.Report:
    """Return the report on a sheet that is written as JSON."""
    return designs.grade(json.loads(plain), key)


def judged_scene(judged: Judged, requirement: str) -> Scene:
    """Return the picture of a design with what one requirement is about, and the list of all."""
    verdict = judged.verdict(requirement)
    mapped = mapped_design(judged.design)
    drawing = drawing_of(mapped.plan, _WIDTH)
    said = located_words(mapped, verdict)
    shape = shape_words(mapped.plan)
    states = ", ".join(state_words(each) for each in judged.verdicts)
    mark = mark_of(mapped, verdict)
    return Scene(
        said,
        Table(part_columns(mapped.plan, judged.verdicts)),
        design_layers(drawing, mark),
        HEIGHT,
        alt=f"{said} {shape} {states}.",
        hint=hint_words(mark),
        width=_WIDTH,
        side=Scene("", layers=list_layers(judged, requirement), height=HEIGHT, width=_SIDE),
    )


def hint_words(mark: Mark | None) -> str:
    """Return how a picture of a design is read, with the strokes of the mark that is drawn."""
    strokes = []
    if mark is not None and mark.bundles.size and mark.line_form == OVERLOADED:
        strokes = [text("live.design.overloaded")]
    elif mark is not None and mark.box_form == TIGHTEST:
        strokes = [text("live.design.tightest")]
    return " ".join([*strokes, text("live.design.hint")])


def state_words(verdict: designs.Verdict) -> str:
    """Return whether a requirement holds, and by how much, such as "Budget: holds, +12 %"."""
    states = {True: "live.design.yes", False: "live.design.no", None: "live.design.open"}
    words = [text(states[verdict.passed])]
    if room_words(verdict):
        words.append(room_words(verdict))
    return f"{requirement_name(verdict.requirement)}: {', '.join(words)}"


# The list of requirements -----------------------------------------------------------------------


def list_layers(judged: Judged, requirement: str) -> dict[str, Layer]:
    """Return all requirements with a sign, what is reached for what is asked, and a bar of the room that is left."""
    verdicts = judged.verdicts
    top: Floats = _TOP + _ROW * np.arange(len(verdicts), dtype=np.float64)
    is_now = np.array([each.requirement == requirement for each in verdicts])
    names = [requirement_name(each.requirement) for each in verdicts]

    scale = text("live.design.scale", most=round(100 * _MOST_ROOM))
    rows = boxes(
        4.0,
        top - 1,
        _SIDE - 8,
        _ROW - 2,
        colour=np.where(is_now, COLOUR["sunk"], COLOUR["none"]),
        edge=np.where(is_now, COLOUR["line"], COLOUR["none"]),
        round=6.0,
        names=names,
        notes=[arrowed(str(each.words)) for each in verdicts],
        pick="requirement",
        picks=[str(each.requirement) for each in verdicts],
    )
    signs = texts(
        _SIGN,
        top + 8,
        [sign_of(each) for each in verdicts],
        align=1.0,
        bold=1.0,
        colour=np.array([hue_of(each) for each in verdicts]),
    )
    figures = texts(
        _RIGHT,
        top + 23,
        [figure_words(each) for each in verdicts],
        align=2.0,
        colour=np.where(is_now, COLOUR["ink"], COLOUR["soft"]),
    )
    return {
        "list title": heading(16.0, text("live.design.list")),
        "scale": texts(_RIGHT, 16.0, [scale], align=2.0, colour=COLOUR["soft"]),
        "rows": rows,
        "signs": signs,
        "requirements": texts(_NAME, top + 8, names, bold=is_now.astype(float)),
        **bar_layers(verdicts, top),
        "figures": figures,
    }


def sign_of(verdict: designs.Verdict) -> str:
    """Return the sign of a verdict: a tick, a cross, or a dash where nothing was judged."""
    return {True: "✓", False: "✕", None: "–"}[verdict.passed]


def hue_of(verdict: designs.Verdict) -> float:
    """Return the colour of the sign of a verdict."""
    return {True: COLOUR["right"], False: COLOUR["wrong"], None: COLOUR["soft"]}[verdict.passed]


def figure_words(verdict: designs.Verdict) -> str:
    """Return what is reached for what is asked or, where no figures are compared, the answer in short."""
    return against_words(verdict) if has_figures(verdict) else answer_words(verdict)


def room_of(verdicts: Sequence[designs.Verdict]) -> Floats:
    """Return the room of each requirement, (V,): share of what is asked, 1 at most; 0 without figures."""
    room = []
    for each in verdicts:
        room.append(float(np.clip(each.margin, -1.0, 1.0)) if has_figures(each) else 0.0)
    return np.array(room)


def bar_layers(verdicts: Sequence[designs.Verdict], top: Floats) -> dict[str, Layer]:
    """Return a bar for the room of each requirement: to the right what is left, to the left what is missing."""
    room = room_of(verdicts)
    is_short: Flags = room < 0
    wide = _BAR_HALF * np.minimum(np.abs(room) / _MOST_ROOM, 1.0)
    middle = top + 23
    marks = [np.array([[_BAR_MIDDLE, y - 6], [_BAR_MIDDLE, y + 6]]) for y in middle.tolist()]
    return {
        "bars": boxes(
            np.where(is_short, _BAR_MIDDLE - wide, _BAR_MIDDLE),
            middle - _BAR_HIGH / 2,
            wide,
            _BAR_HIGH,
            colour=np.where(is_short, COLOUR["ink"], COLOUR["edge"]),
            round=1.0,
        ),
        "zero": lines(marks, width=1.2, colour=COLOUR["edge"]),
    }
