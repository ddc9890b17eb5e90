"""Exercise 3: a picture of two nodes, their memory and their devices, and of the steps of one WRITE between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fabriclab.core import Floats
from fabriclab.course.questions.files import message

if TYPE_CHECKING:
    from fabriclab.views import Picture
    from fabriclab.views.scene import Layer

# Places in the picture, which is 700 px wide. [px]
_NODE_LEFT = (16.0, 414.0)
_NODE_WIDTH = 270.0
_NODE_TOP = 30.0
_NODE_HEIGHT = 240.0
_PROGRAM_TOP = 46.0
_MEMORY_TOP = 112.0
_DEVICE_TOP = 196.0
_PROGRAM_HEIGHT = 30.0
_MEMORY_HEIGHT = 48.0
_DEVICE_HEIGHT = 60.0
_MARGIN = 12.0  # from the edge of a node to its boxes
_MEMORY_MARGIN = 64.0  # room beside the memory for what goes between program and device
_QUEUE_TOP = 218.0
_QUEUE_HEIGHT = 30.0
_PAIR_WIDTH = 84.0
_COMPLETIONS_WIDTH = 92.0
_DEVICE_NAME = 25.0  # from the completions to the middle of the name of the device
_INNER = 24.0  # from the inner edge of a node to the middle of its free channel
_LIST_TOP = 292.0
_LIST_ROW = 19.0
_LIST_NAMES = 236.0
_STEPS = 6
_BADGE = 16.0
_HEAD = 7.0  # of an arrow
_HEIGHT = _LIST_TOP + _LIST_ROW * _STEPS


class _Node(NamedTuple):
    """Places in one node; what faces the other node is its inner side; in pixels."""

    left: float
    is_first: bool

    def inner(self, distance: float) -> float:
        """Return the place at a distance from the edge that faces the other node."""
        if self.is_first:
            return self.left + _NODE_WIDTH - distance
        return self.left + distance

    def outer(self, distance: float) -> float:
        """Return the place at a distance from the edge that faces away."""
        return self.inner(_NODE_WIDTH - distance)

    def from_inner(self, distance: float, width: float) -> float:
        """Return the left end of a box at a distance from the inner edge."""
        return min(self.inner(distance), self.inner(distance + width))

    def from_outer(self, distance: float, width: float) -> float:
        """Return the left end of a box at a distance from the outer edge."""
        return min(self.outer(distance), self.outer(distance + width))


class _Arrow(NamedTuple):
    """An arrow of a step, and where its number stands."""

    step: int
    path: list[tuple[float, float]]
    badge: tuple[float, float]


_NODES = (_Node(_NODE_LEFT[0], True), _Node(_NODE_LEFT[1], False))


def one_write() -> Picture:
    """Draw two nodes with program, registered memory and device, and the six steps of a WRITE from one to the other.

    The picture shows which part does each step. Leaves out packets, and everything that a device does in itself.
    """
    # Judges are listed without the pictures of the library.
    from fabriclab.views.page import Table
    from fabriclab.views.scene import COLOUR, Scene, boxes, lines, printed, texts

    arrows = _arrows()
    moving = [arrow for arrow in arrows if arrow.step == _MOVES]
    others = [arrow for arrow in arrows if arrow.step != _MOVES]
    rows = _LIST_TOP + _LIST_ROW * np.arange(_STEPS) + _BADGE / 2
    does = [message(3, f"picture.does.{step}") for step in range(1, _STEPS + 1)]
    names = [message(3, f"picture.names.{step}") for step in range(1, _STEPS + 1)]
    layers = {
        "nodes": boxes(
            np.array(_NODE_LEFT),
            _NODE_TOP,
            _NODE_WIDTH,
            _NODE_HEIGHT,
            colour=COLOUR["paper"],
            edge=COLOUR["edge"],
            round=10.0,
        ),
        "names of nodes": texts(
            np.array(_NODE_LEFT),
            _NODE_TOP - 12,
            [message(3, "picture.node", n=0), message(3, "picture.node", n=1)],
            size=13.0,
            bold=1.0,
        ),
        **_parts(),
        "arrows": lines(
            [np.array(arrow.path) for arrow in others], width=1.5, colour=COLOUR["edge"]
        ),
        "heads": lines([_head(arrow.path) for arrow in others], width=1.5, colour=COLOUR["edge"]),
        "bytes": lines([np.array(arrow.path) for arrow in moving], width=3.5, colour=COLOUR["ink"]),
        "tips": lines([_head(arrow.path) for arrow in moving], width=3.0, colour=COLOUR["ink"]),
        "badges": _badges([arrow.badge for arrow in arrows], [arrow.step for arrow in arrows]),
        "listed": _badges([(_MARGIN + _BADGE, y) for y in rows], range(1, _STEPS + 1)),
        "does": texts(_MARGIN + 2 * _BADGE, rows, does),
        "names": texts(_LIST_NAMES, rows, names, colour=COLOUR["soft"]),
    }
    who = [message(3, f"picture.who.{step}") for step in range(1, _STEPS + 1)]
    table = Table(
        {
            "step": list(range(1, _STEPS + 1)),
            message(3, "picture.head.who"): who,
            message(3, "picture.head.does"): does,
            message(3, "picture.head.names"): names,
        }
    )
    said = message(3, "picture.said")
    alt = " ".join([said, message(3, "picture.alt")])
    return printed(Scene(said, table, layers, _HEIGHT, alt))


_MOVES = 5  # the step in which bytes move


def _arrows() -> list[_Arrow]:
    """Return the arrows of all steps: both nodes register, tell and connect; only node 0 posts and polls."""
    first, second = _NODES
    program_foot = _PROGRAM_TOP + _PROGRAM_HEIGHT
    program_middle = _PROGRAM_TOP + _PROGRAM_HEIGHT / 2
    memory_foot = _MEMORY_TOP + _MEMORY_HEIGHT
    cable = _QUEUE_TOP + _QUEUE_HEIGHT / 2
    arrows = list[_Arrow]()
    for node in _NODES:
        x = node.outer(_MEMORY_MARGIN + 46)
        path = [(x, program_foot), (x, _MEMORY_TOP)]
        arrows.append(_Arrow(1, path, (x, (program_foot + _MEMORY_TOP) / 2)))

    gap = (first.inner(0) + second.inner(0)) / 2
    ends = (first.inner(_MARGIN), second.inner(_MARGIN))
    arrows.append(
        _Arrow(2, [(ends[0], program_middle), (ends[1], program_middle)], (gap, program_middle))
    )
    arrows.append(
        _Arrow(2, [(ends[1], program_middle), (ends[0], program_middle)], (gap, program_middle))
    )

    pairs = (first.inner(_INNER), second.inner(_INNER))
    connected = cable + 9
    arrows.append(_Arrow(3, [(pairs[0], connected), (pairs[1], connected)], (gap, connected + 1)))
    arrows.append(_Arrow(3, [(pairs[1], connected), (pairs[0], connected)], (gap, connected + 1)))

    x = first.inner(_INNER + 16)
    arrows.append(_Arrow(4, [(x, program_foot), (x, _QUEUE_TOP)], (x, 136.0)))

    moved = cable - 8
    memories = (first.inner(_INNER + 62), second.inner(_INNER + 62))
    arrows.append(
        _Arrow(
            5, [(memories[0], memory_foot), (memories[0], _QUEUE_TOP)], (memories[0] - 16, 178.0)
        )
    )
    arrows.append(_Arrow(5, [(pairs[0], moved), (pairs[1], moved)], (gap, moved - 1)))
    arrows.append(
        _Arrow(
            5, [(memories[1], _QUEUE_TOP), (memories[1], memory_foot)], (memories[1] + 16, 178.0)
        )
    )

    x = first.outer(_MARGIN + 26)
    arrows.append(_Arrow(6, [(x, _QUEUE_TOP), (x, program_foot)], (x, 136.0)))
    return arrows


def _parts() -> dict[str, Layer]:
    """Return the boxes in both nodes: program, memory with a region, and device with its queues."""
    from fabriclab.views.scene import COLOUR, boxes

    wide = _NODE_WIDTH - 2 * _MARGIN
    region = _NODE_WIDTH - 2 * _MEMORY_MARGIN
    left = np.array(_NODE_LEFT)
    words = {
        name: [message(3, f"picture.{name}.{node}") for node in range(2)]
        for name in ("program", "region", "pair", "completions")
    }
    pair_left = np.array([node.from_inner(_INNER, _PAIR_WIDTH) for node in _NODES])
    completions_left = np.array(
        [node.from_outer(_MARGIN + 8, _COMPLETIONS_WIDTH) for node in _NODES]
    )
    return {
        "programs": boxes(
            left + _MARGIN,
            _PROGRAM_TOP,
            wide,
            _PROGRAM_HEIGHT,
            colour=COLOUR["paper"],
            edge=np.array([COLOUR["ink"], COLOUR["hair"]]),
            ink=np.array([COLOUR["ink"], COLOUR["soft"]]),
            texts=words["program"],
            round=6.0,
        ),
        "regions": boxes(
            left + _MEMORY_MARGIN,
            _MEMORY_TOP,
            region,
            _MEMORY_HEIGHT,
            colour=COLOUR["domain"],
            edge=COLOUR["edge"],
            ink=COLOUR["ink"],
            texts=words["region"],
            round=3.0,
        ),
        "devices": boxes(
            left + _MARGIN,
            _DEVICE_TOP,
            wide,
            _DEVICE_HEIGHT,
            colour=COLOUR["sunk"],
            edge=COLOUR["line"],
            round=6.0,
        ),
        "pairs": boxes(
            pair_left,
            _QUEUE_TOP,
            _PAIR_WIDTH,
            _QUEUE_HEIGHT,
            colour=COLOUR["paper"],
            edge=COLOUR["edge"],
            ink=COLOUR["ink"],
            texts=words["pair"],
            round=3.0,
        ),
        "completions": boxes(
            completions_left,
            _QUEUE_TOP,
            _COMPLETIONS_WIDTH,
            _QUEUE_HEIGHT,
            colour=COLOUR["paper"],
            edge=COLOUR["edge"],
            ink=COLOUR["ink"],
            texts=words["completions"],
            round=3.0,
        ),
        "device names": _device_names(),
    }


def _device_names() -> Layer:
    """Return the name of the device in each node, between its two queues."""
    from fabriclab.views.scene import COLOUR, texts

    x = np.array([node.outer(_MARGIN + 8 + _COMPLETIONS_WIDTH + _DEVICE_NAME) for node in _NODES])
    words = [message(3, "picture.device")] * len(_NODES)
    return texts(x, _QUEUE_TOP + _QUEUE_HEIGHT / 2, words, align=1.0, colour=COLOUR["soft"])


def _badges(places: list[tuple[float, float]], steps: range | list[int]) -> Layer:
    """Return a numbered badge at each place."""
    from fabriclab.views.scene import COLOUR, boxes

    at = np.array(places)
    return boxes(
        at[:, 0] - _BADGE / 2,
        at[:, 1] - _BADGE / 2,
        _BADGE,
        _BADGE,
        colour=COLOUR["ink"],
        ink=COLOUR["paper"],
        texts=[str(step) for step in steps],
        round=_BADGE / 2,
    )


def _head(path: list[tuple[float, float]]) -> Floats:
    """Return the points of an arrow head at the end of a path, (3, 2) [px]."""
    start, tip = np.array(path[-2]), np.array(path[-1])
    ahead = (tip - start) / np.hypot(*(tip - start))
    aside = 0.6 * np.array([-ahead[1], ahead[0]])
    return np.array([tip - _HEAD * (ahead - aside), tip, tip - _HEAD * (ahead + aside)])
