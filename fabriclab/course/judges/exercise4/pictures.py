"""Exercise 4: the shortest trace as a picture, with a lane for each worker and for the switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabriclab.core import Floats
from fabriclab.course.questions.files import message

from .ladders import Arrow, Ladder

if TYPE_CHECKING:
    from fabriclab.views import Picture

_ROW = 34.0  # height of an event [px]
_TOP = 44.0  # [px]
_LEFT = 100.0  # of the first lane [px]
_RIGHT = 620.0  # of the last lane [px]
_HALFWAY = 0.6  # of its way: where an arrow ends that does not arrive


@dataclass(frozen=True, slots=True)
class _Layout:
    """Places of the lanes and rows in the picture."""

    lanes: list[int]  # from left to right
    x: dict[int, float]  # of each lane [px]
    y: list[float]  # of each row: the start, one for each event, and the end [px]


def trace_picture(ladder: Ladder) -> Picture:
    """Return a trace as lanes of the workers and the switch, with time downwards and an arrow for each packet."""
    # Judges are listed without the pictures of the library.
    from fabriclab.views.page import Table
    from fabriclab.views.scene import COLOUR, Layer, Scene, lines, printed, texts

    layout = _layout(ladder)
    lane_x = [layout.x[lane] for lane in layout.lanes]
    lane_names = _lane_names(ladder, layout)

    paths = [_path(arrow, layout) for arrow in ladder.arrows]
    starts = np.array([path[0] for path in paths]).reshape(-1, 2)  # (A, 2) [px]
    tips = np.array([path[1] for path in paths]).reshape(-1, 2)  # (A, 2) [px]
    packets = [arrow.words for arrow in ladder.arrows]
    packet_places = _word_places(ladder, starts, tips)
    failed = [arrow.fate in ("lost", "strange") for arrow in ladder.arrows]
    colour = np.where(failed, COLOUR["failed"], COLOUR["predicted"])
    dash = np.array([0.0 if arrow.arrives else 1.0 for arrow in ladder.arrows])

    notes = [note.words for note in ladder.notes]
    note_x = [layout.x[note.lane] + 6 for note in ladder.notes]
    note_y = [layout.y[note.row] for note in ladder.notes]

    event_y = layout.y[1:-1]  # without the start and the end
    event_numbers = [str(number) for number in range(1, len(event_y) + 1)]

    layers = {
        "lanes": lines(_lane_paths(layout), colour=COLOUR["grey"]),
        "names": texts(lane_x, _TOP - 28, lane_names, align=1.0, bold=1.0),
        "arrows": lines(paths, width=2.0, colour=colour, dash=dash),
        "ends": Layer("dots", {"x": tips[:, 0], "y": tips[:, 1], "colour": colour}),
        "what": texts(packet_places[:, 0], packet_places[:, 1] - 9, packets, align=1.0),
        "timers": texts(note_x, note_y, notes),
        "numbers": texts(_LEFT - 60, event_y, event_numbers),
    }

    numbers = [str(number) for number in range(1, len(ladder.lines))]
    table = Table({"event": [*numbers, ""], "what": ladder.lines})
    height = layout.y[-1] + 10
    return printed(Scene(ladder.lines[-1], table, layers, height, " ".join(ladder.lines)))


def _layout(ladder: Ladder) -> _Layout:
    """Return the places of lanes and rows; the lane of the switch is beside that of the first worker."""
    lanes = [0, ladder.switch_lane, *range(1, ladder.search.n)]
    if ladder.search.jobs > 1:
        lanes.append(ladder.tenant_lane)
    places = np.linspace(_LEFT, _RIGHT, len(lanes)).tolist()
    x = dict(zip(lanes, places, strict=True))
    y = [_TOP + _ROW * row for row in range(len(ladder.moves) + 2)]
    return _Layout(lanes, x, y)


def _path(arrow: Arrow, layout: _Layout) -> Floats:
    """Return both ends of an arrow, (2, 2) [px]; it stops half-way if its packet does not arrive."""
    start = [layout.x[arrow.start.lane], layout.y[arrow.start.row]]
    end = [layout.x[arrow.end.lane], layout.y[arrow.end.row]]
    path = np.array([start, end])
    if not arrow.arrives:
        path[1] = path[0] + _HALFWAY * (path[1] - path[0])
    return path


def _lane_paths(layout: _Layout) -> list[Floats]:
    """Return both ends of the line downwards of each lane, (2, 2) [px]."""
    paths = list[Floats]()
    for lane in layout.lanes:
        x = layout.x[lane]
        paths.append(np.array([[x, _TOP - 16], [x, layout.y[-1]]]))
    return paths


def _lane_names(ladder: Ladder, layout: _Layout) -> list[str]:
    """Return the name of each lane."""
    names = list[str]()
    for lane in layout.lanes:
        if lane == ladder.switch_lane:
            names.append(message(4, "trace.switch"))
        elif lane == ladder.tenant_lane:
            names.append(message(4, "trace.tenant"))
        else:
            names.append(message(4, "trace.worker", worker=lane, letter=ladder.letter(lane)))
    return names


def _word_places(ladder: Ladder, starts: Floats, tips: Floats) -> Floats:
    """Return the places (A, 2) [px] of the words: near whoever sends, and apart where arrows start at one place."""
    parts = list[list[float]]()  # of the way from start to tip, (A, 1)
    for i, arrow in enumerate(ladder.arrows):
        earlier = [other.start for other in ladder.arrows[:i]].count(arrow.start)
        parts.append([0.3 + 0.25 * min(earlier, 2)])
    places: Floats = starts + np.array(parts) * (tips - starts)
    return places
