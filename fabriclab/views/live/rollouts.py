"""A live view of a rollout: switches that get new rules one after another, and where packets go in between."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import permutations
from typing import NamedTuple

import numpy as np

from fabriclab.core import Floats
from fabriclab.sdn import updates
from fabriclab.sdn.updates import Rules
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, heading, lines, texts

SOURCE, GOAL = "s", "d"
_SWITCHES = ("s", "a", "b", "c")  # those whose rules change, as a reader counts them
_STEPS = len(_SWITCHES)
_ABOVE = "a"  # its rule stands above it, since a cable leaves below

# The picture in px.
_WIDTH = 560.0
_SIDE = 320.0
_HEIGHT = 384.0
# Without the list of orders the switches stand further apart, and lose the free space above and below them.
_ALONE = 880.0
_ALONE_HEIGHT = 310.0
_ABOVE_ALL = 36.0
_BOX = (52.0, 32.0)  # of a switch
_APART = 5.0  # of a rule from the middle of its cable
_HEAD = 9.0  # of an arrow
_LOST = 16.0  # side of the square of lost packets
_ABOVE_LOOP = 22.0  # from the middle of a loop to its name
_LABEL = 14.0  # from a box to its rule
_ROW = 14.0  # of the list of orders
_TOP = 44.0  # of its first row
_NAMES = 14.0  # left end of the names of orders
_CELLS = 66.0  # left end of the states
_CELL = 80.0  # width of a state
_GAP = 3.0  # between two states
_FINE, _POINTS = 1025, 33  # points of a cable from middle to middle, and of what is drawn of it
_COLUMNS = range(1, _STEPS)  # changes after which a state is shown


@dataclass(frozen=True)
class Change:
    """What a rollout changes: the rules for one goal, before and after.

    Parameters
    ----------
    old, new : Rules
        Rules of all switches; one that is missing has none.
    place : mapping of str to (float, float)
        Middle of each switch [px].
    bend : mapping of (str, str) to float
        How far the cable between two switches is bent down; straight unless given. [px]
    """

    old: Rules
    new: Rules
    place: Mapping[str, tuple[float, float]]
    bend: Mapping[tuple[str, str], float]

    @property
    def cables(self) -> list[tuple[str, str]]:
        """Two switches of each cable that any rule uses, in alphabetical order."""
        ends = set()
        for rules in (self.old, self.new):
            for switch, following in rules.items():
                ends.add(ends_of(str(switch), str(following[0])))
        return sorted(ends)


def ends_of(one: str, other: str) -> tuple[str, str]:
    """Return the two switches of a cable in alphabetical order."""
    return min(one, other), max(one, other)


_IN_ROW = {"s": (50.0, 196.0), "a": (165.0, 196.0), "b": (280.0, 196.0), "c": (395.0, 196.0)}
_CHANGES = {
    "reverse": Change(
        old=updates.rules("s-a-b-c-d"),
        new=updates.rules("s-c-b-a-d"),
        place={**_IN_ROW, "d": (510.0, 196.0)},
        bend={("c", "s"): -110.0, ("a", "d"): 110.0},
    ),
    "drain": Change(
        old=updates.rules("s-a-d"),
        new=updates.rules("s-b-c-d"),
        place={
            "s": (50.0, 196.0),
            "a": (280.0, 104.0),
            "b": (200.0, 288.0),
            "c": (360.0, 288.0),
            "d": (510.0, 196.0),
        },
        bend={},
    ),
}


class State(NamedTuple):
    """Where packets go while some switches have changed.

    ``rules`` has the next switch of each; ``path`` the switches that a packet from the source passes, the first of a
    loop again; ``circle`` those of a loop, whoever meets it. ``kind`` is "fine", "loop" or "hole" by what packets from
    the source meet, or "aside" for a loop that they miss.
    """

    rules: Mapping[str, str]
    path: tuple[str, ...]
    circle: tuple[str, ...]
    kind: str


def state_of(change: Change, changed: tuple[str, ...]) -> State:
    """Return where packets go while some switches have changed."""
    table = updates.mixed(change.old, change.new, changed)
    packet = updates.trace(table, SOURCE, GOAL)[0]
    circle: tuple[str, ...] = ()
    kind = "fine"
    for fault in updates.faults(table, SOURCE, GOAL):
        if fault.kind == updates.BLACK_HOLE:
            kind = "hole"
            continue
        circle = tuple(map(str, fault.nodes))
        kind = "loop" if fault.is_met else "aside"
    rules = {str(switch): str(following[0]) for switch, following in table.items()}
    return State(rules, tuple(map(str, packet.nodes)), circle, kind)


@cache
def orders() -> tuple[str, ...]:
    """Return all orders of the four switches, such as "a b c s"."""
    return tuple(sorted(" ".join(order) for order in permutations(_SWITCHES)))


def states_of(change: Change, order: str) -> list[State]:
    """Return the state at first, and after each change of an order, five in all."""
    switches = tuple(order.split())
    return [state_of(change, switches[:n]) for n in range(_STEPS + 1)]


def is_safe(states: list[State]) -> bool:
    """Return whether all packets of the source arrive in all states."""
    return all(state.kind in ("fine", "aside") for state in states)


def rollout(
    change: str = "reverse", order: str = "s c b a", step: int = 0, *, overview: bool = True
) -> Live:
    """Step through a change of routes, switch by switch, and follow the packets from s to d in between.

    Switches get their new rule one after another, since no command reaches all of them at the same instant. Leaves out
    how long that takes, and packets that are under way while a rule changes.

    Parameters
    ----------
    change : str
        "reverse": the route s-a-b-c-d becomes s-c-b-a-d; "drain": s-a-d becomes s-b-c-d, and the rule of a is removed.
    order : str
        The four switches in the order in which they change, such as "a b c s".
    step : int
        How many switches have changed, 0..4.
    overview : bool
        Whether a list shows the states of all 24 orders.
    """
    arguments = {"change": change, "order": order, "step": step, "overview": overview}
    controls: dict[str, Control] = {
        "change": Choice(tuple(_CHANGES), names=tuple(text(f"live.rollout.{c}") for c in _CHANGES)),
        "order": Choice(orders(), names=orders()),
        "step": Slider(0, _STEPS, play=True),
    }
    return live_view(
        "rollout", arguments, partial(rollout_scene, overview=overview), controls, room=1
    )


def rollout_scene(change: str, order: str, step: int, overview: bool) -> Scene:
    """Return the switches with their present rules, and the states of all orders beside them."""
    plan = _CHANGES[change] if overview else stretched(_CHANGES[change])
    here = states_of(plan, order)[step]
    every = {each: states_of(plan, each) for each in orders()}
    said = state_words(here, step)
    if overview:
        said += " " + overview_words(every)
    changed = order.split()[:step]
    return Scene(
        said,
        order_table(every) if overview else rule_table(here, changed),
        {
            **cable_layers(plan),
            **rule_layers(plan, here),
            **switch_layers(plan, here, order.split(), changed),
        },
        _HEIGHT if overview else _ALONE_HEIGHT,
        alt=f"{said} {setting_words(plan, here, order, changed)}",
        hint=hint_words(every if overview else {}),
        width=_WIDTH if overview else _ALONE,
        side=order_scene(every, order, step) if overview else None,
    )


def stretched(plan: Change) -> Change:
    """Return a change whose switches fill a picture without a panel beside it."""
    place = {name: (x * _ALONE / _WIDTH, y - _ABOVE_ALL) for name, (x, y) in plan.place.items()}
    return replace(plan, place=place)


# Words ------------------------------------------------------------------------------------------


def route_words(path: tuple[str, ...]) -> str:
    """Return a route as engineers write it, such as "s-a-b"."""
    return "-".join(path)


def state_words(state: State, step: int) -> str:
    """Return where packets go now."""
    return text(
        f"live.rollout.{state.kind}",
        step=step,
        steps=_STEPS,
        route=route_words(state.path),
        circle=text("live.rollout.and").join(state.circle),
        end=state.path[-1],
        goal=GOAL,
    )


def overview_words(every: Mapping[str, list[State]]) -> str:
    """Return how many orders lose packets on the way."""
    wrong = sum(not is_safe(states) for states in every.values())
    kinds = {state.kind for states in every.values() for state in states}
    key = "in_loops" if "loop" in kinds else "in_holes"
    return text(f"live.rollout.{key}", wrong=wrong, orders=len(every))


def rule_words(state: State, switch: str) -> str:
    """Return the rule of a switch."""
    following = state.rules.get(switch)
    if following is None:
        return text("live.rollout.no_rule")
    return text("live.rollout.rule", goal=GOAL, following=following)


def hint_words(every: Mapping[str, list[State]]) -> str:
    """Return what the marks of the picture mean, and those of the states of all orders, if they are shown."""
    kinds = {state.kind for states in every.values() for state in states}
    if "aside" not in kinds:
        return text("live.rollout.hint")
    return f"{text('live.rollout.hint')} {text('live.rollout.star')}"


def setting_words(plan: Change, state: State, order: str, changed: list[str]) -> str:
    """Return what the controls and the picture say, for those who do not see them."""
    rules = ", ".join(f"{switch}: {rule_words(state, switch)}" for switch in _SWITCHES)
    done = ", ".join(changed) or text("live.rollout.none")
    return text(
        "live.rollout.setting",
        old=route_words(state_of(plan, ()).path),
        new=route_words(state_of(plan, _SWITCHES).path),
        order=order,
        done=done,
        rules=rules,
    )


def rule_table(state: State, changed: list[str]) -> Table:
    """Return a row for each switch: its rule, whether that is new, and whether packets come by."""
    return Table(
        {
            "switch": list(_SWITCHES),
            "rule": [rule_words(state, switch) for switch in _SWITCHES],
            "has changed": [_yes(switch in changed) for switch in _SWITCHES],
            "packets of s come by": [_yes(switch in state.path) for switch in _SWITCHES],
        }
    )


def _yes(is_so: bool) -> str:
    """Return yes or no."""
    return text("live.rollout.yes" if is_so else "live.rollout.no")


def order_table(every: Mapping[str, list[State]]) -> Table:
    """Return a row for each order: its state after each change but the last, and whether all packets arrive."""
    columns: dict[str, list[str]] = {"order": list(every)}
    for n in range(1, _STEPS):
        columns[f"after {n}"] = [cell_words(states[n]) for states in every.values()]
    columns["all packets arrive"] = [_yes(is_safe(states)) for states in every.values()]
    return Table(columns)


def cell_words(state: State) -> str:
    """Return a state in a word."""
    return text(f"live.rollout.cell_{state.kind}")


# Layers -----------------------------------------------------------------------------------------


def cable_path(plan: Change, one: str, other: str, aside: float = 0.0) -> Floats:
    """Return the points from one switch to another, (P, 2) [px], ``aside`` to the left of the cable."""
    first, last = np.array(plan.place[one]), np.array(plan.place[other])
    bend = plan.bend.get(ends_of(one, other), 0.0)
    along = np.linspace(0, 1, _FINE)[:, None]
    middle = (first + last) / 2 + np.array([0.0, 2 * bend])
    points = (1 - along) ** 2 * first + 2 * along * (1 - along) * middle + along**2 * last
    direction = np.gradient(points, axis=0)
    length = np.hypot(*direction.T)[:, None]
    left = np.stack([direction[:, 1], -direction[:, 0]], axis=1) / length
    points = points + aside * left
    return _outside(points, first, last)


def _outside(points: Floats, first: Floats, last: Floats) -> Floats:
    """Return the points that lie in neither of two boxes."""
    half = np.array(_BOX) / 2 + 2
    inside = np.zeros(len(points), dtype=bool)
    for middle in (first, last):
        inside |= (np.abs(points - middle) < half).all(axis=1)
    visible = np.flatnonzero(~inside)
    # Few points draw the curve; they are taken from many, so that it ends at the boxes and not a point away from them.
    kept = np.linspace(0, visible.size - 1, _POINTS).round().astype(np.intp)
    return np.asarray(points[visible[kept]])


def cable_layers(plan: Change) -> dict[str, Layer]:
    """Return all cables as hairlines."""
    paths = [cable_path(plan, a, b) for a, b in plan.cables]
    return {"cables": lines(paths, width=1.0, colour=COLOUR["hair"])}


def rule_layers(plan: Change, state: State) -> dict[str, Layer]:
    """Return an arrow for each rule: in ink with packets where those of s come by, a loop in a colour of its own."""
    used = {*zip(state.path[:-1], state.path[1:], strict=True)}
    paths, widths, colours, flow, names, notes = [], [], [], [], [], []
    heads = []
    for switch, following in state.rules.items():
        # On its cable, unless a rule leads back over it.
        aside = _APART if state.rules.get(following) == switch else 0.0
        path = cable_path(plan, switch, following, aside)
        comes_by = (switch, following) in used
        in_circle = switch in state.circle
        colour = COLOUR["ink"] if comes_by else COLOUR["edge"]
        if in_circle:
            colour = COLOUR["wrong"]
        paths.append(path)
        heads.append(arrow_head(path))
        widths.append(2.6 if comes_by else 1.4)
        colours.append(colour)
        flow.append(0.5 if comes_by else 0.0)
        names.append(text("live.rollout.arrow", switch=switch, following=following))
        notes.append(text(f"live.rollout.{'comes' if comes_by else 'rests'}"))
    tint = np.array(colours)
    return {
        "rules": lines(
            paths,
            width=np.array(widths),
            colour=tint,
            flow=np.array(flow),
            names=names,
            notes=notes,
        ),
        "heads": lines(heads, width=np.array(widths), colour=tint),
    }


def arrow_head(path: Floats) -> Floats:
    """Return the three points of an arrow's head at the end of a path, (3, 2) [px]."""
    tip = path[-1]
    ahead = path[-1] - path[-3]
    ahead = ahead / np.hypot(*ahead)
    aside = np.array([ahead[1], -ahead[0]])
    back = tip - _HEAD * ahead
    return np.array([back + 0.55 * _HEAD * aside, tip, back - 0.55 * _HEAD * aside])


def switch_layers(
    plan: Change, state: State, order: list[str], changed: list[str]
) -> dict[str, Layer]:
    """Return the switches with their rules, bold and marked as new where they have changed, and lost packets.

    Each says which change of the order is its own, since two orders can have the same rules at a moment.
    """
    wide, high = _BOX
    every = [*_SWITCHES, GOAL]
    place = np.array([plan.place[switch] for switch in every])
    is_end = np.array([switch in (SOURCE, GOAL) for switch in every])
    x, y = place[: len(_SWITCHES)].T
    words = [rule_words(state, switch) for switch in _SWITCHES]
    is_new = np.array([switch in changed for switch in _SWITCHES])
    ages = []
    for switch in _SWITCHES:
        key = "live.rollout.new" if switch in changed else "live.rollout.old"
        ages.append(text(key, n=order.index(switch) + 1))
    beside = y + high / 2 + _LABEL
    beside[_SWITCHES.index(_ABOVE)] -= high + 3 * _LABEL + 3
    is_lost = state.kind == "hole"
    end = plan.place[state.path[-1]]
    # On the box in which packets end: beside it, on a link, a cross would be that of a broken link.
    corner = np.array([[end[0] + wide / 2, end[1] - high / 2]] if is_lost else []).reshape(-1, 2)
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * _LOST / 2
    crosses = {
        "x": corner[:, 0],
        "y": corner[:, 1],
        "size": 4.0,
        "shape": 2.0,
        "colour": COLOUR["lost"],
    }
    ring = [plan.place[switch] for switch in state.circle]
    marks = np.array(ring).reshape(-1, 2)
    return {
        "switches": boxes(
            place[:, 0] - wide / 2,
            place[:, 1] - high / 2,
            wide,
            high,
            colour=np.where(is_end, COLOUR["host"], COLOUR["switch"]),
            ink=np.where(is_end, COLOUR["paper"], COLOUR["node_ink"]),
            texts=every,
        ),
        "circle": boxes(
            marks[:, 0] - wide / 2 - 3,
            marks[:, 1] - high / 2 - 3,
            wide + 6,
            high + 6,
            colour=COLOUR["none"],
            edge=COLOUR["wrong"],
        ),
        "loop": texts(
            marks.mean(axis=0)[:1] if len(marks) else [],
            marks.mean(axis=0)[1:] - _ABOVE_LOOP if len(marks) else [],
            [text("live.rollout.cell_loop")] if len(marks) else [],
            align=1.0,
            bold=1.0,
            halo=1.0,
            colour=COLOUR["wrong"],
        ),
        "rule words": texts(x, beside, words, align=1.0, bold=is_new.astype(float), size=13.0),
        "rule ages": texts(x, beside + 15, ages, align=1.0, size=11.0, colour=COLOUR["soft"]),
        "lost place": boxes(
            corner[:, 0] - _LOST / 2,
            corner[:, 1] - _LOST / 2,
            _LOST,
            _LOST,
            colour=COLOUR["paper"],
            round=1.0,
        ),
        "lost square": lines(
            [square + place for place in corner], width=1.2, dash=4.0, colour=COLOUR["lost"]
        ),
        "lost": Layer("dots", crosses),
    }


def order_scene(every: Mapping[str, list[State]], order: str, step: int) -> Scene:
    """Return a row for each order, with its state after each change but the last; the present one is framed."""
    names = list(every)
    y = _TOP + _ROW * np.arange(len(names), dtype=np.float64)
    here = y[names.index(order)]
    layers = {
        "title": heading(16.0, text("live.rollout.orders"), _NAMES),
        "heads": column_heads(),
        "row": boxes(_NAMES - 6, here - 1, _SIDE - _NAMES - 4, _ROW, colour=COLOUR["wash"]),
        "names": order_names(every, y),
        "cells": state_cells(every, y),
    }
    if step in _COLUMNS:
        layers["here"] = boxes(
            cell_left(step) - 1,
            here - 1,
            _CELL + 2,
            _ROW,
            colour=COLOUR["none"],
            edge=COLOUR["ink"],
        )
    return Scene("", layers=layers, height=_HEIGHT, width=_SIDE)


def cell_left(step: int) -> float:
    """Return the left edge of the column of states after a number of changes [px]."""
    return _CELLS + (_CELL + _GAP) * (step - 1)


def column_heads() -> Layer:
    """Return the heads of the columns: after how many changes."""
    middle = np.array([cell_left(step) + _CELL / 2 for step in _COLUMNS])
    words = [text("live.rollout.after", n=step) for step in _COLUMNS]
    return texts(middle, 34.0, words, align=1.0, size=11.0, colour=COLOUR["soft"])


def order_names(every: Mapping[str, list[State]], y: Floats) -> Layer:
    """Return the orders, those that lose no packet in bold."""
    bold = np.array([float(is_safe(states)) for states in every.values()])
    return texts(_NAMES, y + _ROW / 2 - 1, list(every), size=11.0, bold=bold)


def state_cells(every: Mapping[str, list[State]], y: Floats) -> Layer:
    """Return a cell for the state of each order after each change but the last."""
    left, top, states, names = [], [], [], []
    for order, row in zip(every, y, strict=True):
        for step in _COLUMNS:
            left.append(cell_left(step))
            top.append(row)
            states.append(every[order][step])
            names.append(f"{order}, {text('live.rollout.after', n=step)}")
    is_bad = np.array([state.kind in ("loop", "hole") for state in states])
    words = [cell_words(state) for state in states]
    return boxes(
        np.array(left),
        np.array(top),
        _CELL,
        _ROW - 2,
        colour=np.where(is_bad, COLOUR["wrong_wash"], COLOUR["sunk"]),
        ink=np.where(is_bad, COLOUR["wrong"], COLOUR["soft"]),
        texts=words,
        size=11.0,
        names=names,
        notes=words,
    )
