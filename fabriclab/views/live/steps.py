"""A live view of a training step: its timeline on all stages, and what one thing twice as fast would change."""

from functools import lru_cache, partial

import numpy as np

from fabriclab import units
from fabriclab.core import Flows
from fabriclab.texts import text
from fabriclab.training import DOUBLED, Step, step_timeline
from fabriclab.views.asides import WIDTH
from fabriclab.views.live.widget import Choice, Control, Live, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, texts
from fabriclab.views.timelines import hues_of, named_samples, timeline_scene

_NOTHING = "nothing"
_PICTURE = 560.0  # width of a picture with a panel beside it [px]
_PANEL = 246.0  # least height of the panel [px]
_ROW = 34.0  # height of a row of the panel [px]
_TOP = 44.0  # of the first row [px]
_NAME = 112.0  # room for the name of a row [px]
_NUMBER = 62.0  # room for its number [px]
_BAR = 16.0  # height of a bar [px]
_LEGEND = 540.0  # room for the legend [px]
_SAMPLE = 42.0  # of a legend: a box and the room beside it [px]
_LETTER = 6.6  # width of a letter of the legend [px]


def step(step: Step, *, twice: str = _NOTHING) -> Live:
    """Show when each stage of a training step computes, sums and waits, and the step with one thing twice as fast.

    The panel compares the times of the step for all things that could be twice as fast.

    Parameters
    ----------
    step : Step
        A step of `fabriclab.training`.
    twice : str
        "nothing", "compute", "memory", "scale-up" or "network".
    """
    options = (_NOTHING, *DOUBLED)
    controls: dict[str, Control] = {"twice": Choice(options, names=tuple(map(_spoken, options)))}
    for what in options:  # once, so that no later move of the control waits for it
        _changed(step, what)
    arguments = {"step": step, "twice": twice}
    return live_view("step", arguments, partial(step_scene, step), controls, held=("step",))


def step_scene(step: Step, twice: str) -> Scene:
    """Return the timeline of a step with one thing twice as fast, and its time among the others."""
    changed = _changed(step, twice)
    shown = step_timeline(changed)
    timeline, flows = shown.graph()
    scene = timeline_scene(
        timeline, flows, partial(_lane_name, shown.stages), width=_PICTURE, height=_PANEL - 20
    )
    layers = {**scene.layers, **_legend(flows)}
    said = _sentence(step, changed, twice)
    side = _panel(step, twice, max(_PANEL, scene.height))
    return Scene(
        said,
        scene.table,
        layers,
        scene.height,
        alt=said,
        caption=scene.caption,
        width=_PICTURE,
        side=side,
    )


@lru_cache(maxsize=64)
def _changed(step: Step, twice: str) -> Step:
    """Return the step with one thing twice as fast; equal questions are asked once."""
    return step if twice == _NOTHING else step.faster(twice)


def _spoken(what: str) -> str:
    """Return what can be twice as fast, as a reader sees it."""
    return text(f"live.step.{what}")


def _lane_name(stages: int, lane: int) -> str:
    """Return the name of a lane: of a stage, or of the NIC below all stages."""
    if lane == stages:
        return text("live.step.nic")
    if stages == 1:
        return text("live.step.gpu")
    return text("live.step.stage", n=lane + 1)


def _legend(flows: Flows) -> dict[str, Layer]:
    """Return a sample for each kind of bar; where room is short, those that take least time are left out."""
    time = np.bincount(flows.label, flows.lag, len(flows.labels))  # (K,) [s]
    left = _LEGEND
    kept = []
    for kind in np.argsort(-time, kind="stable"):
        left -= _SAMPLE + _LETTER * len(flows.labels[kind])
        if left < 0:
            break
        kept.append(int(kind))
    kept.sort()
    return named_samples([flows.labels[kind] for kind in kept], hues_of(flows.labels)[kept])


def _sentence(step: Step, changed: Step, twice: str) -> str:
    """Return the finding: what a step consists of, or what the faster part changes."""
    if twice == _NOTHING:
        parts = step.parts
        shown = {name: 100 * parts[name] / step.time for name in ("compute", "tensor", "gradients")}
        return text(
            "live.step.as_it_is",
            time=step.time,
            compute=shown["compute"],
            sums=shown["tensor"],
            gradients=shown["gradients"],
            others=max(0.0, 100 - sum(shown.values())),
        )
    return text(
        "live.step.said",
        what=_spoken(twice),
        time=changed.time,
        before=step.time,
        less=100 * (1 - changed.time / step.time),
    )


def _panel(step: Step, twice: str, height: float) -> Scene:
    """Return a bar for the time of the step with each thing twice as fast; the shown one is in ink."""
    options = (_NOTHING, *DOUBLED)
    times = np.array([_changed(step, what).time for what in options])  # (5,) [s]
    top = _TOP + _ROW * np.arange(len(options))
    room = WIDTH - _NAME - _NUMBER
    colour = np.where(np.array(options) == twice, COLOUR["ink"], COLOUR["edge"])
    names = [_spoken(what) for what in options]
    numbers = [units.format_time(float(time)) for time in times]
    bold = (np.array(options) == twice).astype(np.float64)
    layers: dict[str, Layer] = {
        "title": texts(12.0, 20.0, [text("live.step.panel")], size=13.0, bold=1.0),
        "bars": boxes(
            _NAME,
            top,
            room * times / times.max(),
            _BAR,
            round=2.0,
            colour=colour,
            names=names,
            notes=numbers,
        ),
        "names": texts(_NAME - 8, top + _BAR / 2, names, align=2.0, bold=bold),
        "numbers": texts(_NAME + room * times / times.max() + 6, top + _BAR / 2, numbers, bold=bold),
    }
    return Scene("", layers=layers, height=height, width=WIDTH)
