"""Live collective stepper: chunks move over the fabric, and values add up where they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import collectives, routing, topologies, units
from fabriclab.core import Fabric, Floats, Flows, Schedule, StepGroup
from fabriclab.lower import lower
from fabriclab.texts import text
from fabriclab.views.fabrics import MOST_NODES
from fabriclab.views.layout import lines_of, marks_of, paths_of
from fabriclab.views.live.widget import Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, WIDTH, Layer, Scene, boxes, ink_on, lines, shade, texts

_MOST, _CELLS = 16, 256  # ranks, and cells of each: a block for each pair
_CELL, _ROW, _TOP = 20.0, 62.0, 34.0
_TALL, _READ = 512.0, 14.0  # of many cells together, and of the least that holds a number
_LEFT = 72.0  # room for the names of the blocks
_REST = 25.0  # a chunk that has arrived stands so far above the cells, between node and rank
_BESIDE = (0, *(side for k in range(1, 13) for side in (-k, k)))  # columns of a pile
# of a chunk, between two, and how many stand above each other before they spread
_HIGH, _GAP, _LOW = (17.0, 3.0, 3)
# Row and column of the places of a pile, the best first: three columns at a rank, in pairs of rows at a switch.
_AT_RANK = [(row, side) for row in range(2 * _CELLS) for side in _BESIDE[: 1 if row < _LOW else 3]]
_AT_SWITCH = [
    (row, side) for k in range(0, 2 * _CELLS, 2) for side in _BESIDE for row in (k, k + 1)
]


def stepper(
    collective: str,
    algorithm: str,
    n_ranks: int = 4,
    *,
    fabric: Fabric | None = None,
    root: int = 0,
    segments: int = 1,
    pipelined: bool = False,
    switches: ArrayLike | None = None,
    options: Mapping[str, Any] | None = None,
    step: int = 0,
) -> Live:
    """Step through any registered algorithm: which chunk goes where, and what each rank and switch then holds.

    Rank r begins with the number r + 1 in each of its blocks. A cell shows the number that a block has reached; its
    shade says from how many ranks something is in it. Chunks of one block that meet in a switch become one.

    Parameters
    ----------
    collective, algorithm, n_ranks, root, segments, pipelined, options
        As in `fabriclab.simulate`; at most 16 ranks and 256 blocks times segments. Numbers stand in the cells
        of up to 36.
    fabric : Fabric, optional
        On whose links the chunks move, at most 200 nodes; a crossbar unless given.
    switches : array_like, shape (n_switches,), optional
        Node for each switch of the schedule that adds or multicasts, as in `fabriclab.lower.lower`; the first of those
        farthest from the endpoints unless given.
    step : int
        Step to show first; 0 is before the first step.

    Raises
    ------
    ValueError
        If there are too many ranks or cells to be read.
    """
    cut = {"segments": segments, "pipelined": pipelined, **(options or {})}
    plan = collectives.build(collective, algorithm, n_ranks, root=root, **cut)
    show = _Stepper(
        plan,
        topologies.build("crossbar", hosts=max(2, n_ranks)) if fabric is None else fabric,
        switches,
    )
    listed = plan.draw(first=1) + (
        text("live.stepper.listed", n=n_ranks) if plan.n_switches else ""
    )
    return live_view(
        "stepper", locals(), show.scene, {"step": Slider(0, plan.n_steps, play=True)}, listed=listed
    )


class _Stepper:
    """A schedule on a fabric, with the states before and after every step."""

    def __init__(self, plan: Schedule, fabric: Fabric, switches: ArrayLike | None) -> None:
        more = "of a stepper (schedule.draw() shows more)"
        units.count(plan.n_ranks, f"ranks {more}", 1, _MOST)
        units.count(plan.n_blocks * plan.segments, f"blocks times segments {more}", 1, _CELLS)
        units.count(fabric.n_ranks, "endpoints of fabric", plan.n_ranks)
        units.count(fabric.n_nodes, "nodes of fabric", 1, MOST_NODES)
        self.plan, self.fabric, n = plan, fabric, plan.n_ranks
        top = np.full(plan.n_switches, np.argmax(fabric.transit * (fabric.tier + 1.0)))
        own = top if switches is None else np.asarray(switches)
        lower(plan, fabric, 0.0, switches=own)  # refuses what does not fit
        self.node = np.append(fabric.endpoint[:n], own.astype(np.int64))
        self.steps = list(plan.steps())
        self.value, self.held = collectives.trace(plan, np.arange(1, n + 1))
        self.ranks, _ = collectives.trace(plan, 1 << np.arange(n), np.bitwise_or)
        self._place()

    def _place(self) -> None:
        """Set where nodes, cables and cells stand; the endpoints in use spread over the width."""
        f, n = self.fabric, self.plan.n_ranks
        marks = self.marks = marks_of(f, False)
        left, right = (
            float((marks.x - marks.width / 2).min()),
            float((marks.x + marks.width / 2).max()),
        )
        high, unit = float(marks.row.max()), (WIDTH - _LEFT - 8) / (right - left)
        self.x = _LEFT + (marks.x - left) * unit
        self.half = marks.width / 2 * unit
        box = marks.of_node[self.node]
        # The cells of a rank stand below it where there is room, else side by side.
        below = self.x[box[:n]]
        self.column = below if np.all(np.diff(np.sort(below)) > 36) else _evenly(n)
        # Chunks rest at the column of a rank, or above the switch that a participant is; all ranks are one level.
        self.over = np.append(self.column, self.x[box[n:]])
        self.level = np.append(np.full(n, -9), marks.row[box[n:]])
        rests = [
            (who < n, self._rest(who, s)[:, 1]) for s in self.steps for who in (s.source, s.target)
        ]
        pile, room = (
            min((float(y[at == rank].min(initial=0.0)) for at, y in rests), default=0.0)
            for rank in (1, 0)
        )
        top = _TOP - room + (self.plan.n_switches > 0) * (_HIGH + _GAP)
        self.y = top + (high - marks.row) * _ROW
        cables = lines_of(f, marks, np.full(f.n_links, np.nan))
        zero, scale = np.array([left, high]), np.array([unit, -_ROW])
        self.cables = [
            (path - zero) * scale + np.array([_LEFT, top]) for path in paths_of(marks, cables)
        ]
        self.deep = float(self.y.max()) + 46 - pile
        self.base = np.append(
            np.full(n, self.deep - _REST), self.y[box[n:]] - 12 - _GAP - _HIGH / 2
        )
        self._bands()

    def _bands(self) -> None:
        """Set where the cells of ranks stand, below them those of switches, and the words beside both."""
        plan, n = self.plan, self.plan.n_ranks
        rows, people = plan.n_blocks * plan.segments, range(plan.n_participants)
        self.blocks = [plan.block_name(b % plan.n_blocks, b // plan.n_blocks) for b in range(rows)]
        self.cell = min(_CELL, _TALL / rows)
        blocks, heads = (
            [text("live.stepper.block", b=b) for b in self.blocks],
            [self._who(p) for p in people],
        )
        self.at, self.wide = np.zeros((2, len(people), rows)), np.zeros((len(people), rows))
        self.words: dict[str, Layer] = {}
        self.foot = self.deep
        for word, group in (("ranks", slice(0, n)), ("switches", slice(n, None)))[
            : 1 + (plan.n_switches > 0)
        ]:
            across, down, column = heads[group], blocks, self.column
            turned = word == "switches" and len(across) < rows  # each of a few switches has a row
            if word == "switches":
                across, down = (down, across) if turned else (across, down)
                column, self.foot = _evenly(len(across)), self.foot + 30
            room = float(np.diff(np.sort(column)).min(initial=70.0))
            grid = np.array(
                np.broadcast_arrays(column, self.foot + self.cell * np.arange(len(down))[:, None])
            )
            self.at[:, group] = grid if turned else grid.transpose(0, 2, 1)
            self.wide[group] = wide = min(room - 6, 64.0)
            left, over, align = float(column.min()) - wide / 2 - 6, column, np.ones(len(across))
            if 7.7 * max(map(len, across)) > room:  # then the word stands once, before the numbers
                short = self.blocks if turned else [str(k) for k in range(len(across))]
                across = [text(f"live.stepper.{'blocks' if turned else word}"), *short]
                over, align = np.append(left, over), np.append(2, align)
            middle, every = (
                self.foot + self.cell * (np.arange(len(down)) + 0.5) - 1.5,
                int(np.ceil(_READ / self.cell)),
            )
            some = slice(every // 2, None, every)
            self.words[word] = texts(over, self.foot - 8, across, align=align, size=11.0)
            self.words[f"beside {word}"] = texts(
                left, middle[some], down[some], align=2.0, size=11.0
            )
            self.foot += self.cell * len(down)

    def scene(self, step: int) -> Scene:
        """Return the picture after ``step`` steps."""
        plan, n = self.plan, self.plan.n_ranks
        done = self.steps[step - 1] if step else None
        rows = plan.n_blocks * plan.segments
        value, held, ranks = (a[step].ravel() for a in (self.value, self.held, self.ranks))
        part, people = np.bitwise_count(ranks) / n, plan.n_participants
        key = np.where(self.fabric.transit[self.marks.first], COLOUR["switch"], COLOUR["host"])
        layers = {
            "cables": lines(self.cables, width=1.5, colour=COLOUR["grey"], alpha=0.7),
            "nodes": boxes(
                self.x - self.half,
                self.y - 11,
                2 * self.half,
                22.0,
                ink=COLOUR["white"],
                colour=key,
                texts=self.marks.names,
            ),
            **self._cells(value, held, part, done),
            "movers": self._movers(done),
        }
        segment, block = np.divmod(np.tile(np.arange(rows), people), plan.n_blocks)
        who: Any = (
            [str(r) if r < n else self._who(r) for r in range(people)]
            if people > n
            else np.arange(n)
        )
        table = Table(
            {
                "rank": np.repeat(who, rows),
                "block": block,
                "segment": segment if plan.segments > 1 else np.nan * segment,
                "holds": np.where(held, value, 0),
                "from ranks": np.where(held, n * part, 0).astype(int),
            }
        )
        said, listed = self._said(step, done, part[: n * rows], held[: n * rows])
        return Scene(said, table, layers, self.foot + 8, f"{said} {listed}", moves=done is not None)

    def _who(self, participant: int) -> str:
        n = self.plan.n_ranks
        of, r = ("rank", participant) if participant < n else ("switch", participant - n)
        return text(f"live.stepper.{of}", r=r)

    def _cells(self, value: Any, held: Any, part: Any, done: StepGroup | None) -> dict[str, Layer]:
        """Return the cells of all; those that the last step has written have a thick edge."""
        plan, n, new = self.plan, self.plan.n_ranks, np.zeros(self.wide.shape, dtype=bool)
        if done is not None:
            for target, first, count, segment in zip(
                done.target, done.first, done.count, done.segment, strict=True
            ):
                new[
                    target, (first + np.arange(count)) % plan.n_blocks + segment * plan.n_blocks
                ] = True
        names = [
            text("live.stepper.cell", who=self._who(p), b=b)
            for p in range(self.node.size)
            for b in self.blocks
        ]
        notes = [
            text("live.stepper.holds", value=v, n=round(n * p)) if h else text("live.stepper.empty")
            for v, p, h in zip(value, part, held, strict=True)
        ]
        large = self.cell >= _READ
        numbers = [str(v) if h and large else "" for v, h in zip(value, held, strict=True)]
        key = np.array([12.0, 112.0])
        legend = [text("live.stepper.legend_added"), text("live.stepper.legend_copied")]
        (x, y), wide, high = self.at.reshape(2, -1), self.wide.ravel(), self.cell - 3 * large
        edge = np.where(new.ravel(), COLOUR["failed"], COLOUR["grey"]) if large else None
        return {
            "key": boxes(
                key, 6.0, 12.0, 12.0, colour=np.array([COLOUR["predicted"], COLOUR["other1"]])
            ),
            "key words": texts(key + 18, 12.0, legend, size=11.0),
            **self.words,
            "cells": boxes(
                x - wide / 2,
                y,
                wide,
                high,
                edge=edge,
                round=3.0 * large,
                names=names,
                notes=notes,
                colour=np.where(held, shade(part), COLOUR["none"]),
            ),
            "numbers": texts(
                x, y + self.cell / 2 - 1.5, numbers, align=1.0, colour=ink_on(shade(part))
            ),
        }

    def _movers(self, done: StepGroup | None) -> Layer:
        """Return the chunks of a step on the links that they take; at both ends none hides another block."""
        if done is None:
            return Layer("movers", {**lines([]).fields, "w": 24.0, "h": _HIGH})
        ends = self.node[np.stack([done.source, done.target])]
        flows = np.flatnonzero(ends[0] != ends[1])  # switches may stand in one node
        routes = routing.route(self.fabric, Flows.make(ends[0, flows], ends[1, flows], 1.0))
        ways: dict[int, Any] = {
            int(i): self.fabric.target[routes.row(r)] for r, i in enumerate(flows)
        }
        here = np.array([self._rest(who, done) for who in (done.source, done.target)])
        here[..., 1] += self.base[np.stack([done.source, done.target])]
        paths = []
        for i in range(done.n_transfers):
            mark = self.marks.of_node[[ends[0, i], *ways.get(i, ())]]
            paths.append(
                np.vstack([here[0, i], np.stack([self.x[mark], self.y[mark]], axis=1), here[1, i]])
            )
        key = np.where(done.reduce, COLOUR["predicted"], COLOUR["other1"])
        fields = {"w": self._wide(done), "h": _HIGH, "texts": self._names(done), "colour": key}
        return Layer("movers", {**lines(paths).fields, **fields})

    def _names(self, step: StepGroup) -> list[str]:
        return list(map(self.plan.block_name, step.first, step.segment, step.count))

    def _wide(self, step: StepGroup) -> float:
        """Return how wide the chunks of a step must be for their names."""
        return max(26.0, 8.0 + 7.0 * max(map(len, self._names(step)), default=0))

    def _rest(self, who: Any, step: StepGroup) -> Floats:
        """Return where chunks stand at participants (T, 2), from the lowest row of their level.

        At a rank a high pile is three wide; above a switch it is two high, and equal blocks are one chunk.
        """
        wide, middle, level = self._wide(step), self.over[who], self.level[who]
        earlier = np.array([np.count_nonzero(who[:i] == r) for i, r in enumerate(who)])
        x, row = np.full(who.size, np.inf), np.zeros(who.size)
        met: dict[tuple[int, str], int] = {}
        names = self._names(step)
        for i in np.lexsort((middle, earlier)):
            rank = who[i] < self.plan.n_ranks
            if not rank and (same := met.setdefault((int(who[i]), names[i]), i)) != i:
                x[i], row[i] = x[same], row[same]
                continue
            for k, aside in _AT_RANK if rank else _AT_SWITCH:
                at = np.clip(middle[i] + aside * (wide + _GAP), wide / 2, WIDTH - wide / 2)
                if np.all((np.abs(x - at) > wide + 1) | (row != k) | (level != level[i])):
                    x[i], row[i] = at, k
                    break
        return np.stack([x, -row * (_HIGH + _GAP)], axis=1)

    def _said(self, step: int, done: StepGroup | None, part: Any, held: Any) -> tuple[str, str]:
        plan, n = self.plan, self.plan.n_ranks
        whole = int(np.sum(held & (np.round(part * n) == n)))
        if done is None:
            said = text("live.stepper.before", steps=plan.n_steps)
            return said + (" " + text("live.stepper.parts")) * (plan.segments > 1), ""
        added = int(done.count[done.reduce].sum())
        moved, cells = int(done.count.sum()), plan.n_blocks * plan.segments
        chunk = text("live.stepper.chunk", n=cells) if cells > 1 else text("live.stepper.array")
        said = text(
            "live.stepper.said",
            step=step,
            steps=plan.n_steps,
            n=moved,
            chunk=chunk,
            added=added,
            copied=moved - added,
        )
        if any(s.reduce.any() for s in self.steps):
            said += " " + text("live.stepper.whole", ranks=n, whole=whole, cells=n * cells)
        columns = (done.source, done.target, self._names(done), done.count, done.reduce)
        moves = [
            text(
                "live.stepper.moves" if c > 1 else "live.stepper.move",
                source=self._who(s),
                target=self._who(t),
                blocks=b,
            )
            + text("live.stepper.added") * bool(r)
            for s, t, b, c, r in zip(*columns, strict=True)
        ]
        return said, "; ".join(moves)


def _evenly(n: int) -> Floats:
    """Return the middles of n columns over the width."""
    return _LEFT + (WIDTH - _LEFT) * (np.arange(n) + 0.5) / n
