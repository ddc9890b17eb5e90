"""A live view of slices of a pod: fixed blocks of cubes, and slices of any cubes that optical switches join."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fabriclab import circuits
from fabriclab.core import Flags, Floats, Ints
from fabriclab.texts import text
from fabriclab.views.live.queues import view_of
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
)

_CUBES = 64  # of a TPU v4 pod
_ROW = 8  # cubes in a row of the picture
_AVAILABILITIES = (0.99, 0.995, 0.999)
_LAST_DRAW = 40
_BEAT = 900.0  # illustrative: slow enough to count the failed cubes [ms]
_FULL = 100  # percent

# The picture in px: the same pod twice, side by side.
_WIDTH = 560.0
_SIDE = 320.0
_HEIGHT = 384.0
_LEFTS = (20.0, 296.0)  # of the pod with fixed blocks, and of the pod with optical switches
_TOP = 74.0
_PITCH = 31.0
_BOX = 27.0
_KEY = 348.0  # height of the legend
_SIDES = (56.0, 300.0)
_UPPER = (58.0, 160.0)  # top and foot of the curves of time
_LOWER = (232.0, 334.0)  # top and foot of the curves of chips

_IDLE, _FAILED = -1, -2  # in place of the number of a slice


@dataclass(frozen=True, eq=False)
class Pod:
    """The cubes of a pod at one moment, and the slices that run on them.

    Parameters
    ----------
    size : int
        Cubes of a slice.
    works : (64,) bool
        Whether each cube works.
    fixed, joined : (64,) int64
        Number of the slice that runs on each cube, in fixed blocks and in slices of any cubes; -1: none, though the
        cube works; -2: the cube has failed.
    """

    size: int
    works: Flags
    fixed: Ints
    joined: Ints

    @property
    def down(self) -> int:
        """Number of failed cubes."""
        return int(np.count_nonzero(~self.works))

    def running(self, slices: Ints) -> int:
        """Return how many slices run."""
        return int(np.unique(slices[slices >= 0]).size)


def slices(
    *,
    size: int = 48,
    availability: float = 0.99,
    draw: int = 1,
    shown: Sequence[str] = ("size", "availability", "draw"),
) -> Live:
    """Show which slices of a TPU v4 pod run while cubes fail: in fixed blocks, and in any cubes that mirrors join.

    A cube works if its 16 hosts do. Hosts fail independently; optical switches and fibres are taken as perfect. The
    curves are exact (binomial); the draw shows one moment of many.

    Parameters
    ----------
    size : int
        Cubes of a slice, 1..64.
    availability : float
        Share of the time in which a host works: 0.99, 0.995 or 0.999.
    draw : int
        Which moment is shown, 0..40; the cubes that fail are drawn anew for each.
    shown : sequence of str
        Which of the arguments a reader can set.
    """
    arguments = {"size": size, "availability": availability, "draw": draw, "shown": tuple(shown)}
    return view_of("slices", arguments, partial(slice_scene), _controls(), shown)


def _controls() -> dict[str, Control]:
    """Return everything that a reader may set."""
    names = tuple(f"{percent(share)} %" for share in _AVAILABILITIES)
    return {
        "size": Slider(1, _CUBES),
        "availability": Choice(_AVAILABILITIES, names=names),
        "draw": Slider(0, _LAST_DRAW, play=True, beat=_BEAT),
    }


def percent(share: float) -> str:
    """Return a share in percent with three digits."""
    return f"{_FULL * share:.3g}"


# The pod ----------------------------------------------------------------------------------------


def pod_of(size: int, availability: float, draw: int) -> Pod:
    """Return the cubes of a drawn moment, and the slices that run on them."""
    rng = np.random.default_rng(draw)
    hosts = rng.random((_CUBES, circuits.hosts_of_a_cube())) < availability
    works: Flags = np.asarray(hosts.all(axis=1))
    cube = np.arange(_CUBES)

    block = cube // size
    blocks = _CUBES // size
    is_whole = np.array([works[block == b].all() for b in range(blocks)] + [False])
    runs = works & is_whole[np.minimum(block, blocks)]
    fixed = np.where(runs, block, _IDLE)

    order = np.cumsum(works) - 1  # of each working cube among those that work
    joined_runs = works & (order < works.sum() // size * size)
    joined = np.where(joined_runs, order // size, _IDLE)
    return Pod(
        size=size,
        works=works,
        fixed=np.where(works, fixed, _FAILED),
        joined=np.where(works, joined, _FAILED),
    )


@lru_cache(maxsize=8)
def curves(availability: float) -> dict[str, Floats]:
    """Return for slices of 1..64 cubes the share of the time and the share of the pod, (64,) each."""
    sizes = range(1, _CUBES + 1)
    return {
        "fixed time": np.array([circuits.fixed_availability(availability, k) for k in sizes]),
        "any time": np.array([circuits.any_availability(availability, k) for k in sizes]),
        "fixed chips": np.array([circuits.goodput(availability, k, fixed=True) for k in sizes]),
        "any chips": np.array([circuits.goodput(availability, k) for k in sizes]),
    }


# The picture ------------------------------------------------------------------------------------


def slice_scene(size: int, availability: float, draw: int) -> Scene:
    """Return the pod twice, with fixed blocks and with optical switches; beside it time and chips over the size."""
    pod = pod_of(size, availability, draw)
    shares = curves(availability)
    said = slice_words(pod, shares)
    return Scene(
        said,
        slice_table(pod, shares),
        {
            **pod_layers("fixed", pod, pod.fixed, _LEFTS[0]),
            **pod_layers("joined", pod, pod.joined, _LEFTS[1]),
            **legend_layers(),
        },
        _HEIGHT,
        alt=f"{said} {setting_words(availability, draw)}",
        hint=text("live.slices.hint"),
        width=_WIDTH,
        side=Scene("", layers=curve_layers(pod, shares), height=_HEIGHT, width=_SIDE),
    )


def slice_words(pod: Pod, shares: dict[str, Floats]) -> str:
    """Return the finding: how much of the time a slice can run; then what runs in this moment."""
    place = pod.size - 1
    first = text(
        "live.slices.said_one" if pod.size == 1 else "live.slices.said",
        size=pod.size,
        joined=percent(float(shares["any time"][place])),
        fixed=percent(float(shares["fixed time"][place])),
    )
    joined, fixed = pod.running(pod.joined), pod.running(pod.fixed)
    key = "live.slices.now"
    if _CUBES // pod.size == 1:
        key += "_both" if fixed else "_joined" if joined else "_neither"
    rest = text(
        key,
        down=pod.down,
        cubes=_CUBES,
        joined=joined,
        fixed=fixed,
        of=_CUBES // pod.size,
    )
    return f"{first} {rest}"


def setting_words(availability: float, draw: int) -> str:
    """Return what the controls say, for those who do not see them."""
    return text("live.slices.setting", availability=percent(availability), draw=draw)


def slice_table(pod: Pod, shares: dict[str, Floats]) -> Table:
    """Return a row for either kind of slices: in how much of the time, how much of the pod, and how many now."""
    place = pod.size - 1
    return Table(
        {
            "slices": [text("live.slices.fixed"), text("live.slices.joined")],
            "cubes each": [pod.size, pod.size],
            "whole in % of the time": [
                _FULL * shares[key][place] for key in ("fixed time", "any time")
            ],
            "works, in % of the pod": [
                _FULL * shares[key][place] for key in ("fixed chips", "any chips")
            ],
            "failed cubes": [pod.down, pod.down],
            "slices now": [pod.running(pod.fixed), pod.running(pod.joined)],
        }
    )


# Layers -----------------------------------------------------------------------------------------


def places() -> tuple[Floats, Floats]:
    """Return the upper left corner of each cube within its pod [px]."""
    row, column = np.divmod(np.arange(_CUBES), _ROW)
    return _PITCH * column, _TOP + _PITCH * row


def pod_layers(name: str, pod: Pod, number: Ints, left: float) -> dict[str, Layer]:
    """Return a pod: cubes that run with the number of their slice, idle ones empty, failed ones with a cross."""
    x, y = places()
    x = x + left
    failed = number == _FAILED
    return {
        f"{name} title": heading(30.0, text(f"live.slices.title_{name}"), left),
        f"{name} now": count_words(pod, number, left),
        f"{name} running": running_cubes(number, x, y),
        f"{name} idle": idle_cubes(number, x, y),
        f"{name} failed": failed_cubes(number, x, y),
        f"{name} crosses": crosses(x[failed], y[failed]),
    }


def count_words(pod: Pod, number: Ints, left: float) -> Layer:
    """Return how many slices run now, and how much of the pod they are."""
    running = pod.running(number)
    key = "live.slices.runs_one" if running == 1 else "live.slices.runs"
    words = text(key, n=running, share=running * pod.size / _CUBES)
    return texts(left, 50.0, [words], colour=COLOUR["soft"])


def running_cubes(number: Ints, x: Floats, y: Floats) -> Layer:
    """Return the cubes that run in a slice, each with the number of its slice from 1."""
    cubes = np.flatnonzero(number >= 0)
    slices = (number[cubes] + 1).tolist()
    notes = [text("live.slices.in_slice", n=n) for n in slices]
    letters = {"texts": [str(n) for n in slices], "ink": COLOUR["node_ink"]}
    return cube_boxes(cubes, x, y, notes, colour=COLOUR["gpu"], **letters)


def idle_cubes(number: Ints, x: Floats, y: Floats) -> Layer:
    """Return the cubes that work and belong to no slice: empty, with a thin frame."""
    cubes = np.flatnonzero(number == _IDLE)
    notes = [text("live.slices.idle") for _ in cubes]
    look = {"colour": COLOUR["paper"], "edge": COLOUR["hair"]}
    return cube_boxes(cubes, x, y, notes, **look)


def failed_cubes(number: Ints, x: Floats, y: Floats) -> Layer:
    """Return the frames of the cubes with a failed host."""
    cubes = np.flatnonzero(number == _FAILED)
    notes = [text("live.slices.failed") for _ in cubes]
    return cube_boxes(cubes, x, y, notes, colour=COLOUR["paper"], edge=COLOUR["ink"])


def cube_boxes(cubes: Ints, x: Floats, y: Floats, notes: list[str], **look: Any) -> Layer:
    """Return boxes for some cubes, each with its name and a note to read."""
    names = [cube_name(cube) for cube in cubes.tolist()]
    return boxes(x[cubes], y[cubes], _BOX, _BOX, names=names, notes=notes, **look)


def crosses(x: Floats, y: Floats) -> Layer:
    """Return a cross in the middle of each box whose upper left corner is given."""
    middle = {"x": x + _BOX / 2, "y": y + _BOX / 2}
    return Layer("dots", {**middle, "size": 5.0, "shape": 2.0, "colour": COLOUR["failed"]})


def cube_name(cube: int) -> str:
    """Return the name of a cube."""
    return text("live.slices.cube", n=cube)


def legend_layers() -> dict[str, Layer]:
    """Return a sample of each state of a cube with its name."""
    x = np.array([20.0, 196.0, 372.0])
    y = _KEY
    side = 14.0
    return {
        "key runs": boxes(x[:1], y, side, side, colour=COLOUR["gpu"]),
        "key idle": boxes(x[1:2], y, side, side, colour=COLOUR["paper"], edge=COLOUR["hair"]),
        "key failed": boxes(x[2:], y, side, side, colour=COLOUR["paper"], edge=COLOUR["ink"]),
        "key cross": Layer(
            "dots",
            {
                "x": x[2:] + side / 2,
                "y": np.array([y + side / 2]),
                "size": 3.5,
                "shape": 2.0,
                "colour": COLOUR["failed"],
            },
        ),
        "key words": texts(
            x + side + 7,
            y + side / 2,
            [
                text("live.slices.key_runs"),
                text("live.slices.key_idle"),
                text("live.slices.failed"),
            ],
            colour=COLOUR["soft"],
        ),
    }


def curve_layers(pod: Pod, shares: dict[str, Floats]) -> dict[str, Layer]:
    """Return the share of the time and the share of the pod over the size of a slice, for both kinds."""
    to_x = log_axis(0, _CUBES, *_SIDES)
    layers: dict[str, Layer] = {}
    for kind, (top, foot) in (("time", _UPPER), ("chips", _LOWER)):
        to_y = log_axis(0, 1.0, foot, top)
        layers |= panel_layers(kind, pod, shares, to_x, to_y, top, foot)
    layers["x ticks"] = tick_layers(
        np.array([1.0, 16.0, 32.0, 48.0, 64.0]), to_x, lambda n: f"{n:.0f}", _LOWER, True
    )["x ticks"]
    layers["x name"] = texts(
        _SIDES[1],
        _LOWER[1] + 32,
        [text("live.slices.size_axis")],
        align=2.0,
        colour=COLOUR["soft"],
    )
    return layers


def panel_layers(
    kind: str,
    pod: Pod,
    shares: dict[str, Floats],
    to_x: Callable[[Any], Floats],
    to_y: Callable[[Any], Floats],
    top: float,
    foot: float,
) -> dict[str, Layer]:
    """Return one panel of curves: fixed blocks dashed, any cubes in ink, a dot on each at the present size."""
    sizes = np.arange(1, _CUBES + 1)
    fixed = shares[f"fixed {kind}"]
    joined = shares[f"any {kind}"]
    grid = tick_layers(
        np.array([0.0, 0.5, 1.0]), to_y, lambda share: f"{_FULL * share:.0f} %", _SIDES, False
    )
    x = to_x(sizes)
    here = pod.size - 1
    return {
        f"{kind} title": heading(top - 36, text(f"live.slices.title_{kind}")),
        f"{kind} marks": texts(
            EDGE, top - 18, [text("live.slices.marks")], size=11.0, colour=COLOUR["soft"]
        ),
        f"{kind} grid": grid["y grid"],
        f"{kind} ticks": grid["y ticks"],
        f"{kind} fixed": lines(
            [np.stack([x, to_y(fixed)], axis=1)],
            width=1.6,
            dash=1.0,
            colour=COLOUR["soft"],
            names=[text("live.slices.fixed")],
        ),
        f"{kind} any": lines(
            [np.stack([x, to_y(joined)], axis=1)],
            width=2.2,
            colour=COLOUR["ink"],
            names=[text("live.slices.joined")],
        ),
        f"{kind} here": Layer(
            "dots",
            {
                "x": to_x(np.array([pod.size, pod.size])),
                "y": to_y(np.array([fixed[here], joined[here]])),
                "size": 4.5,
                "colour": np.array([COLOUR["soft"], COLOUR["ink"]]),
                "glide": True,
            },
        ),
    }
