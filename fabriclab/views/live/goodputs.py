"""A live view of goodput: what is left of a job's time for each checkpoint interval, and where the rest goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Floats
from fabriclab.operations.checkpoints import Checkpoints, TimeSpent
from fabriclab.texts import text
from fabriclab.views.live.queues import view_of
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table
from fabriclab.views.page import plain
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    HATCHES,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
)

_SIZES = (1024, 16_384, 131_072)  # GPUs: the case, a published run, and a cluster that is planned
_RESTARTS = (600.0, 60.0)  # illustrative: the one of the case, and a tenth of it [s]
_MINUTE = 60.0  # [s]
_SHORTEST, _LONGEST = 1.0, 1440.0  # of an interval: a minute to a day [min]
_TICKS = (1.0, 10.0, 60.0, 480.0)  # of the interval [min]
_IN_AN_HOUR = 3600.0  # [s]
_POINT = 0.01  # of goodput that the band may lose
_CURVE = 97  # points of the curve over the interval
_SIZES_SHOWN = 25  # points of the curve over the size
_FULL = 100.0  # percent
_PARTS = ("work", "checkpoint", "lost", "restart")

# The picture in px.
_WIDTH = 560.0
_SIDE = 320.0
_ALONE = 880.0  # without a panel beside it
_HEIGHT = 384.0
_LEFT, _MARGIN = 62.0, 24.0  # of the axis of intervals, and of the bar
_THINNEST = 1.5  # of a part of the bar, so that each is seen
_CURVES = (54.0, 236.0)  # top and foot of goodput
_BAR = (300.0, 326.0)  # top and foot of the bar of time
_KEY = 352.0  # height of its legend
_SIDES = (62.0, 290.0)  # the last tick, 131,072, has room for half of itself beyond the end
_SIDE_CURVES = (54.0, 316.0)
_KEYS = (EDGE, 146.0, 280.0, 442.0)  # left ends of its entries


@dataclass(frozen=True, eq=False)
class State:
    """A job with its checkpoint interval, and what is left of its time.

    Parameters
    ----------
    gpus : int
        Size of the job.
    job : Checkpoints
        Its times.
    minutes : float
        Work between two checkpoints. [min]
    """

    gpus: int
    job: Checkpoints
    minutes: float

    @property
    def spent(self) -> TimeSpent:
        """How the time divides."""
        return self.job.spent(self.minutes * _MINUTE)

    @property
    def shares(self) -> Floats:
        """Work, checkpoints, lost work and restarts, (4,); they add up to 1."""
        return np.array([float(part) for part in self.spent])

    @property
    def best(self) -> float:
        """Best interval. [min]."""
        return self.job.best / _MINUTE

    @property
    def goodput(self) -> float:
        """Share of the time that is work that is kept."""
        return float(self.spent.work)

    @property
    def most(self) -> float:
        """Goodput at the best interval."""
        return float(self.job.goodput(self.job.best))


def checkpoints(
    gpus: int = 1024,
    interval: float = 60.0,
    restart: float = 600.0,
    *,
    overview: bool = True,
    shown: Sequence[str] = ("gpus", "interval", "restart"),
) -> Live:
    """Show how goodput depends on the checkpoint interval, and where the rest of the time goes.

    The job is that of the running case, on as many GPUs as are asked for, with failures at the published rate of a run
    on 16,384 GPUs. Leaves out waiting for a spare server, and checkpoints that are written while the job goes on.

    Parameters
    ----------
    gpus : int
        1024, 16384 or 131072.
    interval : float
        Work between two checkpoints, 1..1440. [min]
    restart : float
        Time of a restart: 600 or 60. [s]
    overview : bool
        Whether a second chart shows goodput over the number of GPUs.
    shown : sequence of str
        Which of the first three arguments a reader can set.
    """
    arguments = {
        "gpus": gpus,
        "interval": interval,
        "restart": restart,
        "overview": overview,
        "shown": tuple(shown),
    }
    scene = partial(goodput_scene, overview=units.flag(overview, "overview"))
    return view_of("checkpoints", arguments, scene, _controls(), shown)


def _controls() -> dict[str, Control]:
    """Return everything that a reader may set."""
    names = tuple(plain(units.format_time(seconds)) for seconds in _RESTARTS)
    return {
        "gpus": Choice(_SIZES),
        "interval": Slider(_SHORTEST, _LONGEST, unit="min", log=True),
        "restart": Choice(_RESTARTS, names=names),
    }


def state_of(gpus: float, interval: float, restart: float) -> State:
    """Return a job of some GPUs with an interval [min] and a time of a restart [s]."""
    case = catalog.case()
    job = Checkpoints.of_case(case).replace(restart=restart).scaled(gpus / case.gpus)
    return State(int(gpus), job, interval)


@lru_cache(maxsize=16)
def over_intervals(gpus: int, restart: float) -> Floats:
    """Return intervals [min] and goodput at each, (2, P)."""
    minutes = np.geomspace(_SHORTEST, _LONGEST, _CURVE)
    job = state_of(gpus, _SHORTEST, restart).job
    return np.array([minutes, job.goodput(minutes * _MINUTE)])


@lru_cache(maxsize=4)
def over_sizes(restart: float) -> Floats:
    """Return numbers of GPUs, and goodput at the best interval and at twice that, (3, P)."""
    sizes = np.geomspace(_SIZES[0], _SIZES[-1], _SIZES_SHOWN)
    rows = []
    for gpus in sizes:
        job = state_of(gpus, _SHORTEST, restart).job
        rows.append([float(job.goodput(times * job.best)) for times in (1, 2)])
    return np.vstack([sizes, np.array(rows).T])


# The picture ------------------------------------------------------------------------------------


def goodput_scene(gpus: int, interval: float, restart: float, overview: bool) -> Scene:
    """Return goodput over the interval with the bar of time below it; beside it goodput over the number of GPUs."""
    here = state_of(gpus, interval, restart)
    said = goodput_words(here)
    side = None
    width = _WIDTH if overview else _ALONE
    ends = _LEFT, width - _MARGIN
    if overview:
        side = Scene("", layers=size_layers(here), height=_HEIGHT, width=_SIDE)
    return Scene(
        said,
        goodput_table(here),
        {**curve_layers(here, ends), **bar_layers(here, ends)},
        _HEIGHT,
        alt=f"{said} {setting_words(here)}",
        hint=text("live.checkpoints.hint"),
        width=width,
        side=side,
    )


def interval_words(minutes: float) -> str:
    """Return an interval in minutes, as the slider has it: ``"77.1 min"``."""
    return f"{float(f'{minutes:.3g}'):,g} min"


def percent(share: float) -> str:
    """Return a share in percent with one digit after the point."""
    return f"{_FULL * share:.1f}"


def goodput_words(here: State) -> str:
    """Return the finding: goodput at this interval; then the best one, and what the difference is."""
    first = text(
        "live.checkpoints.said",
        gpus=here.gpus,
        interval=interval_words(here.minutes),
        goodput=percent(here.goodput),
    )
    loss = percent(here.most - here.goodput)
    key = "live.checkpoints.as_good" if float(loss) == 0 else "live.checkpoints.best"
    rest = text(key, best=interval_words(here.best), most=percent(here.most), loss=loss)
    return f"{first} {rest}"


def setting_words(here: State) -> str:
    """Return what the controls say, for those who do not see them."""
    return text(
        "live.checkpoints.setting",
        hours=here.job.mtbf / _IN_AN_HOUR,
        write=units.format_time(here.job.write),
        restart=plain(units.format_time(here.job.restart)),
    )


def part_name(part: str) -> str:
    """Return the name of a part of the time."""
    return text("live.checkpoints.restarts" if part == "restart" else f"live.checkpoints.{part}")


def goodput_table(here: State) -> Table:
    """Return a row for each part of the time, at this interval and at the best one."""
    best = np.array([float(part) for part in here.job.spent(here.job.best)])
    return Table(
        {
            "part of the time": [part_name(part) for part in _PARTS],
            "at this interval [%]": _FULL * here.shares,
            "at the best interval [%]": _FULL * best,
        }
    )


# Layers -----------------------------------------------------------------------------------------


def curve_layers(here: State, ends: tuple[float, float]) -> dict[str, Layer]:
    """Return goodput over the interval: the curve, the intervals that lose a point at most, the best one and this."""
    to_x = log_axis(_SHORTEST, _LONGEST, *ends)
    to_y = log_axis(0, _FULL, _CURVES[1], _CURVES[0])
    curve = over_intervals(here.gpus, here.job.restart)
    short, long = (seconds / _MINUTE for seconds in here.job.within(_POINT))
    left, right = float(to_x(max(short, _SHORTEST))), float(to_x(min(long, _LONGEST)))
    grid = tick_layers(
        np.array([0.0, 25.0, 50.0, 75.0, 100.0]), to_y, lambda share: f"{share:g} %", ends, False
    )
    below = tick_layers(np.array(_TICKS), to_x, interval_words, (_CURVES[0], _CURVES[1] + 2), True)
    place = float(to_x(here.minutes))
    return {
        "title": heading(16.0, text("live.checkpoints.title_curve")),
        "axis": texts(EDGE, 34.0, [text("live.checkpoints.axis")], colour=COLOUR["soft"]),
        "band": boxes(
            left,
            _CURVES[0],
            max(right - left, 1.0),
            _CURVES[1] - _CURVES[0],
            colour=COLOUR["sunk"],
            round=0.0,
            names=[text("live.checkpoints.band")],
            notes=[
                text(
                    "live.checkpoints.ends", short=interval_words(short), long=interval_words(long)
                )
            ],
        ),
        **grid,
        "x ticks": below["x ticks"],
        "curve": lines(
            [np.stack([to_x(curve[0]), to_y(_FULL * curve[1])], axis=1)],
            width=2.2,
            colour=COLOUR["ink"],
        ),
        "stem": lines(
            [np.array([[place, float(to_y(_FULL * here.goodput))], [place, _CURVES[1]]])],
            width=1.2,
            dash=2.0,
            colour=COLOUR["ink"],
        ),
        "best": Layer(
            "dots",
            {
                "x": to_x(np.array([here.best])),
                "y": to_y(np.array([_FULL * here.most])),
                "size": 6.0,
                "shape": 5.0,
                "colour": COLOUR["ink"],
                "names": [text("live.checkpoints.best_name")],
                "notes": [interval_words(here.best)],
            },
        ),
        "current": Layer(
            "dots",
            {
                "x": np.array([place]),
                "y": to_y(np.array([_FULL * here.goodput])),
                "size": 5.0,
                "colour": COLOUR["ink"],
                "ghost": 1.0,
            },
        ),
        "x name": texts(
            ends[1],
            _CURVES[1] + 30,
            [text("live.checkpoints.interval_axis")],
            align=2.0,
            colour=COLOUR["soft"],
        ),
    }


def bar_layers(here: State, ends: tuple[float, float]) -> dict[str, Layer]:
    """Return the bar of the time of the job: work, checkpoints, lost work and restarts, with their names below."""
    shares = here.shares
    left = ends[0] + (ends[1] - ends[0]) * np.concatenate([[0.0], np.cumsum(shares)[:-1]])
    wide = (ends[1] - ends[0]) * shares
    # Work that is kept is plain grey, and what it costs stands out by its form: no hue of packets stands for time.
    colour = np.array([COLOUR["edge"], COLOUR["ink"], COLOUR["paper"], COLOUR["paper"]])
    hatch = np.array([0.0, 0.0, HATCHES.index("...."), HATCHES.index("////")])
    top, foot = _BAR
    words = [f"{percent(share)} %" for share in shares]
    key = np.array(_KEYS)
    names = [part_name(part) for part in _PARTS]
    return {
        "bar title": texts(
            EDGE, top - 14, [text("live.checkpoints.title_bar")], colour=COLOUR["soft"]
        ),
        "bar": boxes(
            left,
            top,
            np.maximum(wide, _THINNEST),
            foot - top,
            colour=colour,
            edge=COLOUR["edge"],
            hatch=hatch,
            round=0.0,
            names=names,
            notes=words,
        ),
        "key": boxes(
            key,
            _KEY - 6,
            12.0,
            12.0,
            colour=colour,
            edge=COLOUR["edge"],
            hatch=hatch,
            round=0.0,
        ),
        "key words": texts(
            key + 18,
            _KEY,
            [f"{name} {word}" for name, word in zip(names, words, strict=True)],
            colour=COLOUR["soft"],
        ),
    }


def size_layers(here: State) -> dict[str, Layer]:
    """Return goodput over the number of GPUs, at the best interval and at twice that, and the present state."""
    to_x = log_axis(_SIZES[0], _SIZES[-1], *_SIDES)
    to_y = log_axis(0, _FULL, _SIDE_CURVES[1], _SIDE_CURVES[0])
    curve = over_sizes(here.job.restart)
    grid = tick_layers(
        np.array([0.0, 25.0, 50.0, 75.0, 100.0]), to_y, lambda share: f"{share:g} %", _SIDES, False
    )
    below = tick_layers(
        np.array(_SIZES, dtype=np.float64),
        to_x,
        lambda gpus: f"{gpus:,.0f}",
        (_SIDE_CURVES[0], _SIDE_CURVES[1] + 2),
        True,
    )
    paths = [np.stack([to_x(curve[0]), to_y(_FULL * row)], axis=1) for row in curve[1:]]
    return {
        "title": heading(16.0, text("live.checkpoints.title_sizes")),
        "axis": texts(
            EDGE,
            34.0,
            [
                text(
                    "live.checkpoints.restart_of",
                    restart=plain(units.format_time(here.job.restart)),
                )
            ],
            colour=COLOUR["soft"],
        ),
        **grid,
        "x ticks": below["x ticks"],
        "curves": lines(
            paths,
            width=np.array([2.2, 1.4]),
            dash=np.array([0.0, 2.0]),
            colour=COLOUR["ink"],
            names=[text("live.checkpoints.at_best"), text("live.checkpoints.at_twice")],
        ),
        "current": Layer(
            "dots",
            {
                "x": to_x(np.array([float(here.gpus)])),
                "y": to_y(np.array([_FULL * here.goodput])),
                "size": 5.0,
                "colour": COLOUR["ink"],
                "ghost": 1.0,
            },
        ),
        "marks": texts(
            EDGE,
            _SIDE_CURVES[1] + 50,
            [text("live.checkpoints.marks")],
            colour=COLOUR["soft"],
        ),
        "x name": texts(
            _SIDES[1],
            _SIDE_CURVES[1] + 30,
            [text("live.checkpoints.gpus")],
            align=2.0,
            colour=COLOUR["soft"],
        ),
    }
