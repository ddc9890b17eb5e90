"""Live collective stepper: chunks move over the fabric, and values add up where they arrive."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fabriclab import collectives, routing, topologies
from fabriclab.core import Fabric, Flows, Schedule, StepGroup
from fabriclab.texts import text
from fabriclab.views.layout import lines_of, marks_of, paths_of
from fabriclab.views.live.controls import Slider
from fabriclab.views.live.scene import COLOUR, WIDTH, Layer, Scene, ink_on, lines, shade
from fabriclab.views.live.widget import Live
from fabriclab.views.tables import Table

_MOST_RANKS: Final = 16
_MOST_CELLS: Final = 16  # rows of blocks
_CELL, _ROW, _TOP = 20.0, 62.0, 16.0


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
    hall = topologies.build("crossbar", hosts=max(2, n_ranks)) if fabric is None else fabric
    show = _Stepper(plan, hall)
    more = {"root": root, "segments": segments, "pipelined": pipelined}
    call = f"fl.live.stepper({collective!r}, {algorithm!r}, {n_ranks}" + (
        f", fabric=fl.{fabric!r}" if fabric is not None else ""
    )
    call += "".join(f", {k}={v!r}" for k, v in more.items() if v != {"root": 0, "segments": 1, "pipelined": False}[k])
    control = Slider(0, plan.n_steps, 1, label="step", play=True)
    return Live(call, show.scene, {"step": control}, {"step": step}, f"steps of {collective} {algorithm}",
                listed=plan.draw())  # fmt: skip


class _Stepper:
    """A schedule on a fabric, with the states before and after every step."""

    def __init__(self, plan: Schedule, fabric: Fabric) -> None:
        cells = plan.n_blocks * plan.segments
        if plan.n_ranks > _MOST_RANKS or cells > _MOST_CELLS:
            msg = (
                f"the stepper shows at most {_MOST_RANKS} ranks and {_MOST_CELLS} cells each, got {plan.n_ranks} ranks "
                f"and {cells} (blocks times segments); take fewer, or read schedule.draw()"
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
        marks = marks_of(f, False)
        left, right = -0.7, float((marks.x + marks.width / 2).max() + 0.2)
        high = float(marks.row.max())
        self.x = 8 + (marks.x - left) * (WIDTH - 16) / (right - left)
        self.y = _TOP + (high - marks.row) * _ROW
        self.half = marks.width / 2 * (WIDTH - 16) / (right - left)
        cables = lines_of(f, marks, np.full(f.n_links, np.nan))
        zero, scale = np.array([left, high]), np.array([(WIDTH - 16) / (right - left), -_ROW])
        self.marks = marks
        self.cables = [(path - zero) * scale + np.array([8.0, _TOP]) for path in paths_of(marks, cables)]
        # The cells of a rank stand below it where there is room, else side by side.
        below = np.sort(self.x[marks.of_node[f.endpoint[:n]]])
        evenly = np.linspace(0, WIDTH, n + 1)[:-1] + WIDTH / n / 2
        self.column = self.x[marks.of_node[f.endpoint[:n]]] if np.all(np.diff(below) > 36) else evenly
        self.deep = float(self.y.max()) + 30

    def scene(self, step: int) -> Scene:
        """Return the picture after ``step`` steps."""
        plan, n = self.plan, self.plan.n_ranks
        done = self.steps[step - 1] if step else None
        rows = plan.n_blocks * plan.segments
        value, held = (a[step, :n].reshape(n, rows) for a in (self.value, self.held))
        part = np.bitwise_count(self.ranks[step, :n].reshape(n, rows)) / n
        bottom = self.deep + rows * _CELL
        layers = {**self._network(), **self._cells(value, held, part, done)}
        layers["movers"] = self._movers(done)
        table = Table({
            "rank": np.repeat(np.arange(n), rows), "block": np.tile(np.arange(rows) % plan.n_blocks, n),
            "segment": np.tile(np.arange(rows) // plan.n_blocks, n) if plan.segments > 1 else np.full(n * rows, np.nan),
            "holds": np.where(held, value, 0).ravel(), "from ranks": np.where(held, n * part, 0).ravel().astype(int),
        })  # fmt: skip
        said, listed = self._said(step, done, part, held)
        return Scene(said, table, layers, bottom + 8, f"{said} {listed}", moves=done is not None)

    def _network(self) -> dict[str, Layer]:
        box = {"x": self.x - self.half, "y": self.y - 11, "w": 2 * self.half, "h": np.full(self.x.size, 22.0)}
        transit = self.fabric.transit[self.marks.first]
        return {
            "cables": lines(self.cables, width=1.5, colour=COLOUR["grey"], alpha=0.7),
            "nodes": Layer("boxes", {**box, "colour": np.where(transit, COLOUR["switch"], COLOUR["host"]),
                                     "ink": COLOUR["white"], "texts": [str(name) for name in self.marks.names]}),
        }  # fmt: skip

    def _cells(self, value: Any, held: Any, part: Any, done: StepGroup | None) -> dict[str, Layer]:
        """Return the cells of all ranks; those that the last step has written have a thick edge."""
        n, rows = value.shape
        wide = min(float(np.diff(np.sort(self.column)).min(initial=70.0)) - 6, 64.0)
        x, y = np.repeat(self.column - wide / 2, rows), np.tile(self.deep + _CELL * np.arange(rows), n)
        new = np.zeros((n, rows), dtype=bool)
        if done is not None:
            for target, first, count, segment in zip(done.target, done.first, done.count, done.segment, strict=True):
                if target < n:
                    blocks = (first + np.arange(count)) % self.plan.n_blocks + segment * self.plan.n_blocks
                    new[target, blocks] = True
        names = [text("live.step.cell", r=r, b=b % self.plan.n_blocks) for r in range(n) for b in range(rows)]
        notes = [text("live.step.holds", value=v, n=round(n * p)) if h else text("live.step.empty")
                 for v, p, h in zip(value.ravel(), part.ravel(), held.ravel(), strict=True)]  # fmt: skip
        box = {"x": x, "y": y, "w": np.full(x.size, wide), "h": np.full(x.size, _CELL - 3)}
        texts = [str(v) if h else "" for v, h in zip(value.ravel(), held.ravel(), strict=True)]
        ends = {
            "x": self.column,
            "y": np.full(n, self.deep - 8),
            "texts": [text("live.step.rank", r=r) for r in range(n)],
            "align": 1.0,
        }
        left = float(self.column.min()) - wide / 2 - 6
        rows_named = [text("live.step.block", b=b % self.plan.n_blocks) for b in range(rows)] if left > 48 else []
        at = {"x": np.full(len(rows_named), left), "y": self.deep + _CELL * (np.arange(len(rows_named)) + 0.5)}
        key = {"x": np.array([12.0, 112.0]), "y": np.full(2, 6.0), "w": np.full(2, 12.0), "h": np.full(2, 12.0)}
        words = [text("live.step.legend_added"), text("live.step.legend_copied")]
        return {
            "key": Layer("boxes", {**key, "colour": np.array([COLOUR["predicted"], COLOUR["other1"]])}),
            "key words": Layer("texts", {"x": key["x"] + 18, "y": key["y"] + 6, "texts": words, "size": 11.0}),
            "rows": Layer("texts", {**at, "texts": rows_named, "align": 2.0, "size": 11.0}),
            "ranks": Layer("texts", {**ends, "size": 11.0}),
            "cells": Layer("boxes", {**box, "colour": np.where(held.ravel(), shade(part.ravel()), COLOUR["none"]),
                                     "edge": np.where(new.ravel(), COLOUR["failed"], COLOUR["grey"]), "names": names,
                                     "notes": notes}),
            "numbers": Layer("texts", {"x": x + wide / 2, "y": y + _CELL / 2 - 1.5, "align": 1.0, "texts": texts,
                                       "colour": ink_on(shade(part.ravel()))}),
        }  # fmt: skip

    def _movers(self, done: StepGroup | None) -> Layer:
        """Return the chunks of a step on the links that they take."""
        if done is None or self.plan.n_switches:
            return Layer("movers", {"ptr": np.zeros(1), "x": np.zeros(0), "y": np.zeros(0), "w": 24.0, "h": 16.0})
        ends = self.fabric.endpoint[np.stack([done.source, done.target])]
        routes = routing.route(self.fabric, Flows.make(ends[0], ends[1], 1.0))
        paths = []
        for i in range(done.n_transfers):
            nodes = [ends[0, i], *self.fabric.target[routes.row(i)]]
            mark = self.marks.of_node[nodes]
            inner = np.stack([self.x[mark], self.y[mark]], axis=1)
            low = np.array([[self.column[r], self.deep - 14] for r in (done.source[i], done.target[i])])
            paths.append(np.concatenate([low[:1], inner, low[1:]]))
        points = lines(paths).fields
        texts = [str(f) if c == 1 else f"{c} x" for f, c in zip(done.first, done.count, strict=True)]
        key = np.where(done.reduce, COLOUR["predicted"], COLOUR["other1"])
        return Layer("movers", {**points, "w": 26.0, "h": 17.0, "texts": texts, "colour": key})

    def _said(self, step: int, done: StepGroup | None, part: Any, held: Any) -> tuple[str, str]:
        plan, n = self.plan, self.plan.n_ranks
        whole = int(np.sum(held & (np.round(part * n) == n)))
        if done is None:
            return text("live.step.before", steps=plan.n_steps), ""
        added = int(done.count[done.reduce].sum())
        moved, cells = int(done.count.sum()), plan.n_blocks * plan.segments
        chunk = text("live.step.chunk", n=cells) if cells > 1 else text("live.step.array")
        numbers = {"n": moved, "chunk": chunk, "added": added, "copied": moved - added}
        said = text("live.step.said", step=step, steps=plan.n_steps, **numbers)
        if any(s.reduce.any() for s in self.steps):
            said += " " + text("live.step.whole", ranks=n, whole=whole, cells=n * cells)
        columns = (done.source, done.target, done.first, done.count, done.reduce)
        moves = [text("live.step.move", source=s, target=t, first=f) + text("live.step.more", n=c - 1) * bool(c > 1)
                 + text("live.step.added") * bool(r) for s, t, f, c, r in zip(*columns, strict=True)]  # fmt: skip
        return said, "; ".join(moves)
