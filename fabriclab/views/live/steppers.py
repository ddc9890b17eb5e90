"""Live collective stepper: chunks move over the fabric, and values add up where they arrive."""

import itertools
from typing import Any, Final

import numpy as np

from fabriclab import collectives, routing, topologies
from fabriclab.core import Fabric, Flows, Schedule, StepGroup
from fabriclab.texts import text
from fabriclab.views.layout import lines_of, marks_of, paths_of
from fabriclab.views.live.controls import Slider
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.page import Floats
from fabriclab.views.scene import COLOUR, WIDTH, Layer, Scene, boxes, ink_on, lines, shade, texts
from fabriclab.views.tables import Table

_MOST: Final = 16  # ranks, and cells of each
_CELL, _ROW, _TOP = 20.0, 62.0, 34.0
_LEFT: Final = 72.0  # room for the names of the blocks
_REST: Final = 25.0  # a chunk that has arrived stands so far above the cells, between node and rank
_HIGH, _GAP, _LOW = 17.0, 3.0, 3  # of a chunk, between two, and how many stand above each other before they spread


def stepper(
    collective: str, algorithm: str, n_ranks: int = 4, *, fabric: Fabric | None = None, root: int = 0,
    segments: int = 1, pipelined: bool = False, step: int = 0,
) -> Live:  # fmt: skip
    """Step through any registered algorithm: which chunk goes where, and what each rank then holds.

    Rank r begins with the number r + 1 in each of its blocks. A cell shows the number that a block has reached; its
    shade says from how many ranks something is in it.

    Parameters
    ----------
    collective, algorithm, n_ranks, root, segments, pipelined
        As in `fabriclab.collectives.build`; at most 16 ranks and 16 blocks times segments.
    fabric : Fabric, optional
        On whose links the chunks move, at most 200 nodes; a crossbar unless given.
    step : int
        Step to show first; 0 is before the first step.

    Raises
    ------
    ValueError
        If there are too many ranks or cells to be read.
    """
    plan = collectives.build(collective, algorithm, n_ranks, root=root, segments=segments, pipelined=pipelined)
    show = _Stepper(plan, topologies.build("crossbar", hosts=max(2, n_ranks)) if fabric is None else fabric)
    control = Slider(0, plan.n_steps, play=True)
    return live_view("stepper", locals(), show.scene, {"step": control}, listed=plan.draw(first=1))


class _Stepper:
    """A schedule on a fabric, with the states before and after every step."""

    def __init__(self, plan: Schedule, fabric: Fabric) -> None:
        cells = plan.n_blocks * plan.segments
        if max(plan.n_ranks, cells) > _MOST:
            msg = (
                f"the stepper shows at most {_MOST} ranks and {_MOST} cells each, got {plan.n_ranks} ranks and {cells} "
                "(blocks times segments); take fewer, or read schedule.draw()"
            )
            raise ValueError(msg)
        if fabric.n_nodes > 200 or fabric.n_ranks < plan.n_ranks:
            msg = (
                f"fabric must have at least {plan.n_ranks} endpoints and at most 200 nodes, got {fabric.n_ranks} and "
                f"{fabric.n_nodes}; build a smaller one for the steps"
            )
            raise ValueError(msg)
        self.plan, self.fabric, n = plan, fabric, plan.n_ranks
        self.steps = list(plan.steps())
        self.value, self.held = collectives.trace(plan, np.arange(1, n + 1))
        self.ranks, _ = collectives.trace(plan, 1 << np.arange(n), np.bitwise_or)
        self._place()

    def _place(self) -> None:
        """Set where nodes and cables stand; the endpoints in use spread over the width."""
        f, n = self.fabric, self.plan.n_ranks
        marks = self.marks = marks_of(f, False)
        left, right = float((marks.x - marks.width / 2).min()), float((marks.x + marks.width / 2).max())
        high, unit = float(marks.row.max()), (WIDTH - _LEFT - 8) / (right - left)
        self.x = _LEFT + (marks.x - left) * unit
        self.y = _TOP + (high - marks.row) * _ROW
        self.half = marks.width / 2 * unit
        cables = lines_of(f, marks, np.full(f.n_links, np.nan))
        zero, scale = np.array([left, high]), np.array([unit, -_ROW])
        self.cables = [(path - zero) * scale + np.array([_LEFT, _TOP]) for path in paths_of(marks, cables)]
        # The cells of a rank stand below it where there is room, else side by side.
        below = np.sort(self.x[marks.of_node[f.endpoint[:n]]])
        evenly = _LEFT + (WIDTH - _LEFT) * (np.arange(n) + 0.5) / n
        self.column = self.x[marks.of_node[f.endpoint[:n]]] if np.all(np.diff(below) > 36) else evenly
        self.room = float(np.diff(np.sort(self.column)).min(initial=70.0))
        moving = [] if self.plan.n_switches else self.steps  # chunks in switches have no place in the picture
        rests = [self._rest(rank, self._wide(step)) for step in moving for rank in (step.source, step.target)]
        self.deep = float(self.y.max()) + 46 - min((float(r[:, 1].min(initial=0.0)) for r in rests), default=0.0)

    def scene(self, step: int) -> Scene:
        """Return the picture after ``step`` steps."""
        plan, n = self.plan, self.plan.n_ranks
        done = self.steps[step - 1] if step else None
        rows = plan.n_blocks * plan.segments
        value, held, ranks = (a[step, :n].ravel() for a in (self.value, self.held, self.ranks))
        part = np.bitwise_count(ranks) / n
        layers = {**self._network(), **self._cells(value, held, part, done), "movers": self._movers(done)}
        table = Table({
            "rank": np.repeat(np.arange(n), rows), "block": np.tile(np.arange(rows) % plan.n_blocks, n),
            "segment": np.tile(np.arange(rows) // plan.n_blocks, n) if plan.segments > 1 else np.full(n * rows, np.nan),
            "holds": np.where(held, value, 0), "from ranks": np.where(held, n * part, 0).astype(int),
        })  # fmt: skip
        said, listed = self._said(step, done, part, held)
        return Scene(said, table, layers, self.deep + rows * _CELL + 8, f"{said} {listed}", moves=done is not None)

    def _network(self) -> dict[str, Layer]:
        keys = np.where(self.fabric.transit[self.marks.first], COLOUR["switch"], COLOUR["host"])
        return {
            "cables": lines(self.cables, width=1.5, colour=COLOUR["grey"], alpha=0.7),
            "nodes": boxes(self.x - self.half, self.y - 11, 2 * self.half, 22.0, ink=COLOUR["white"], colour=keys,
                           texts=self.marks.names),
        }  # fmt: skip

    def _cells(self, value: Any, held: Any, part: Any, done: StepGroup | None) -> dict[str, Layer]:
        """Return the cells of all ranks; those that the last step has written have a thick edge."""
        n, rows = self.plan.n_ranks, self.plan.n_blocks * self.plan.segments
        wide = min(self.room - 6, 64.0)
        x, y = np.repeat(self.column - wide / 2, rows), np.tile(self.deep + _CELL * np.arange(rows), n)
        new = np.zeros((n, rows), dtype=bool)
        if done is not None:
            for target, first, count, segment in zip(done.target, done.first, done.count, done.segment, strict=True):
                if target < n:
                    new[target, (first + np.arange(count)) % self.plan.n_blocks + segment * self.plan.n_blocks] = True
        blocks = [self.plan.block_name(b % self.plan.n_blocks, b // self.plan.n_blocks) for b in range(rows)]
        names = [text("live.stepper.cell", r=r, b=b) for r in range(n) for b in blocks]
        notes = [text("live.stepper.holds", value=v, n=round(n * p)) if h else text("live.stepper.empty")
                 for v, p, h in zip(value, part, held, strict=True)]  # fmt: skip
        numbers = [str(v) if h else "" for v, h in zip(value, held, strict=True)]
        left = float(self.column.min()) - wide / 2 - 6
        ranks, align, over = [text("live.stepper.rank", r=r) for r in range(n)], np.ones(n), self.column
        if 7.7 * max(map(len, ranks)) > self.room:  # then the word stands once, before the numbers
            ranks, align, over = (
                [text("live.stepper.ranks"), *map(str, range(n))],
                np.append(2, align),
                np.append(left, over),
            )
        middle, key = self.deep + _CELL * (np.arange(rows) + 0.5) - 1.5, np.array([12.0, 112.0])
        words = [text("live.stepper.legend_added"), text("live.stepper.legend_copied")]
        return {
            "key": boxes(key, 6.0, 12.0, 12.0, colour=np.array([COLOUR["predicted"], COLOUR["other1"]])),
            "key words": texts(key + 18, 12.0, words, size=11.0),
            "rows": texts(left, middle, [text("live.stepper.block", b=b) for b in blocks], align=2.0, size=11.0),
            "ranks": texts(over, self.deep - 8, ranks, align=align, size=11.0),
            "cells": boxes(x, y, wide, _CELL - 3, colour=np.where(held, shade(part), COLOUR["none"]),
                           edge=np.where(new.ravel(), COLOUR["failed"], COLOUR["grey"]), names=names, notes=notes),
            "numbers": texts(x + wide / 2, y + _CELL / 2 - 1.5, numbers, align=1.0, colour=ink_on(shade(part))),
        }  # fmt: skip

    def _movers(self, done: StepGroup | None) -> Layer:
        """Return the chunks of a step on the links that they take; at both ends none hides another."""
        if done is None or self.plan.n_switches:
            return Layer("movers", {**lines([]).fields, "w": 24.0, "h": _HIGH})
        ends = self.fabric.endpoint[np.stack([done.source, done.target])]
        routes = routing.route(self.fabric, Flows.make(ends[0], ends[1], 1.0))
        wide, paths = self._wide(done), []
        start, rest = (np.add(self._rest(rank, wide), [0, self.deep - _REST]) for rank in (done.source, done.target))
        for i in range(done.n_transfers):
            nodes = [ends[0, i], *self.fabric.target[routes.row(i)]]
            mark = self.marks.of_node[nodes]
            inner = np.stack([self.x[mark], self.y[mark]], axis=1)
            paths.append(np.concatenate([start[i : i + 1], inner, rest[i : i + 1]]))
        points = lines(paths).fields
        key = np.where(done.reduce, COLOUR["predicted"], COLOUR["other1"])
        return Layer("movers", {**points, "w": wide, "h": _HIGH, "texts": self._names(done), "colour": key})

    def _names(self, step: StepGroup) -> list[str]:
        return list(map(self.plan.block_name, step.first, step.segment, step.count))

    def _wide(self, step: StepGroup) -> float:
        """Return how wide the chunks of a step must be for their names."""
        return max(26.0, 8.0 + 7.0 * max(map(len, self._names(step)), default=0))

    def _rest(self, rank: Any, wide: float) -> Floats:
        """Return where chunks stand at their ranks (T, 2), from the lowest row: a high pile is three wide."""
        middle, each = self.column[rank], wide + _GAP
        earlier = np.array([np.count_nonzero(rank[:i] == r) for i, r in enumerate(rank)])
        x, row = np.full(rank.size, np.inf), np.zeros(rank.size)
        for i in np.lexsort((middle, earlier)):
            spots = ((k, aside) for k in itertools.count() for aside in (0.0, -each, each)[: 1 if k < _LOW else 3])
            for k, aside in spots:
                at = np.clip(middle[i] + aside, wide / 2, WIDTH - wide / 2)
                if np.all((np.abs(x - at) > wide + 1) | (row != k)):
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
        said = text("live.stepper.said", step=step, steps=plan.n_steps, n=moved, chunk=chunk, added=added,
                    copied=moved - added)  # fmt: skip
        if any(s.reduce.any() for s in self.steps):
            said += " " + text("live.stepper.whole", ranks=n, whole=whole, cells=n * cells)
        columns = (done.source, done.target, self._names(done), done.count, done.reduce)
        moves = [text("live.stepper.moves" if c > 1 else "live.stepper.move", source=s, target=t, blocks=b)
                 + text("live.stepper.added") * bool(r) for s, t, b, c, r in zip(*columns, strict=True)]  # fmt: skip
        return said, "; ".join(moves)
