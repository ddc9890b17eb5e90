"""Fabric view: endpoints at the bottom, switches above; a large fabric is drawn as blocks with their members."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.patches import FancyBboxPatch
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Timeline
from fabriclab.views.layout import Lines, Marks, boxes_of, counted, lines_of, marks_of, paths_of
from fabriclab.views.page import Floats, Picture, canvas, finish, plain, styled
from fabriclab.views.palette import GREY, INK, NODE, ROLES, TINT
from fabriclab.views.tables import Table

MOST_NODES: Final = 200


@styled
def fabric(
    fabric: Fabric, *, load: Timeline | ArrayLike | None = None, ax: Axes | None = None, finding: str | None = None
) -> Picture:
    """Draw a fabric: endpoints at the bottom, their servers as rounded boxes, switches above.

    Parallel cables are one line, as wide as their capacity asks. Above 200 nodes each tier is drawn as blocks, one per
    rail where a tier keeps rails apart. Leaves out delays and media.

    Parameters
    ----------
    fabric : Fabric
        What to draw.
    load : Timeline or array_like, shape (L,), optional
        Mean load of each link as a part of its capacity, coloured by cividis. [1], >= 0
    ax, finding : optional
        Where to draw, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is no link or no endpoint, or load does not fit.
    """
    if not fabric.n_links or not fabric.n_ranks:
        msg = f"nothing to draw: this fabric has {fabric.n_links} links and {fabric.n_ranks} endpoints; add both"
        raise ValueError(msg)
    share = np.full(fabric.n_links, np.nan) if load is None else share_of(fabric, load)
    marks = marks_of(fabric, fabric.n_nodes > MOST_NODES)
    lines = lines_of(fabric, marks, share)
    # Room below the lowest row: names of servers or rails, and the arcs of cables within a row.
    foot = 0.32 + 0.36 * (marks.server.max() >= 0) + 0.55 * bool(np.any(marks.row[lines.a] == marks.row[lines.b]))
    own, ax = ax is None, canvas(ax, 0.5 + 0.62 * (np.ptp(marks.row) + 1 + foot) + 0.6 * (load is not None))
    ax.set_axis_off()
    left = min(-0.7, float((marks.x - marks.width / 2).min()) - 0.3)
    ax.set(
        xlim=(left, (marks.x + marks.width / 2).max() + 0.3),
        ylim=(marks.row.min() - foot, marks.row.max() + 0.4),
    )
    _draw_boxes(ax, fabric, marks, foot)
    _draw_lines(ax, marks, lines)
    _draw_marks(ax, fabric, marks)
    _write_margins(ax, fabric, marks, lines)
    table = Table({
        "from": [marks.names[i] for i in lines.a], "to": [marks.names[i] for i in lines.b],
        "cables": lines.cables, "failed": lines.failed, "fastest [B/s]": lines.fastest, "together [B/s]": lines.total,
        "load": lines.load,
    })  # fmt: skip
    return finish(ax, own, finding, fabric_said(fabric, marks, lines, share), table)


def share_of(fabric: Fabric, load: Timeline | ArrayLike) -> Floats:
    """Return the load of each link as a part of its capacity, (L,), or refuse what does not fit."""
    share = np.asarray(load.utilisation(fabric.capacity) if isinstance(load, Timeline) else load, dtype=np.float64)
    if share.shape != (fabric.n_links,) or not np.all(np.isfinite(share) & (share >= 0)):
        msg = (
            f"load must hold one finite number >= 0 for each of {fabric.n_links} links, got shape {share.shape}; "
            "give a Timeline of this fabric, or bytes / (capacity * time)"
        )
        raise ValueError(msg)
    return share


def _draw_boxes(ax: Axes, f: Fabric, m: Marks, foot: float) -> None:
    """Draw servers as rounded boxes and scale-up domains as tinted ones; one stack stands for many servers."""
    low = m.row.min() - foot + 0.34
    for left, right, bottom, high, tinted in boxes_of(m, foot):
        if tinted:
            _box(ax, left, right, bottom, high, fc=TINT, alpha=0.28, lw=0)
            continue
        for step in (0.1, 0.05, 0.0) if m.folded else (0.0,):
            alpha = 0.35 if step else 0.8
            _box(ax, left + step, right + step, low - step, high - step, fc="none", ec=INK, lw=1.1, alpha=alpha)
        if not m.folded:
            here = (m.server >= 0) & (m.x > left) & (m.x < right)
            ax.text(left + 0.05, low - 0.04, f"server {m.server[here][0]}", ha="left", va="top")
            continue
        _beside(ax, f"in {f.summary()['servers']:,} servers", low - 0.3, "left")
        for i in np.flatnonzero((m.server >= 0) & (m.row == 0) & (m.rail >= 0)):
            ax.text(m.x[i], low - 0.3, f"rail {m.rail[i]}", ha="center", va="center")


def _box(ax: Axes, left: float, right: float, low: float, high: float, rounding: float = 0.1, **look: Any) -> None:
    shape = f"round,pad=0,rounding_size={rounding}"
    ax.add_patch(FancyBboxPatch((left, low), right - left, high - low, boxstyle=shape, **{"zorder": 1, **look}))


def _beside(ax: Axes, text: str, y: float, side: str) -> None:
    """Write into the margin, at the height ``y`` of the drawing."""
    x, shift, align = (0, -4, "right") if side == "left" else (1, 4, "left")
    ax.annotate(text, (x, y), (shift, 0), ("axes fraction", "data"), "offset points", ha=align, va="center")


def _draw_marks(ax: Axes, f: Fabric, m: Marks) -> None:
    names = [name.split()[0 if m.folded else -1] for name in m.names]
    fits = np.array([5.6 * len(name) for name in names]) < m.width * 330.0 / np.ptp(ax.get_xlim())
    for name, node, x, y, half in zip(names, m.first, m.x, m.row, m.width / 2, strict=True):
        _box(ax, x - half, x + half, y - 0.17, y + 0.17, 0.06, fc=NODE[bool(f.transit[node])], lw=0, zorder=5)
        # A row is named in full or not at all.
        if fits[m.row == y].all():
            ax.text(x, y, name, color="white", ha="center", va="center_baseline", zorder=6)


def _draw_lines(ax: Axes, m: Marks, k: Lines) -> None:
    paths = paths_of(m, k)
    width = 1.5 * np.clip(k.total / max(k.total[k.total > 0].min(initial=np.inf), 1.0), 1.0, 40.0) ** 0.4
    dead = k.failed == k.cables
    if np.isnan(k.load).all():
        alpha = np.where(dead, 0.4, 0.9)
        ax.add_collection(LineCollection(paths, linewidths=width, colors=GREY, alpha=alpha, zorder=2))
    else:
        scale = ScalarMappable(cmap="cividis")
        scale.set_clim(0, max(1.0, float(k.load.max())))
        # The casing keeps both ends of the scale visible on a light and on a dark page.
        ax.add_collection(LineCollection(paths, linewidths=width + 3.0, colors=GREY, zorder=2))
        colours = np.where(dead[:, None], (0.42, 0.42, 0.42, 1.0), scale.to_rgba(k.load))
        ax.add_collection(LineCollection(paths, linewidths=width + 1.0, colors=colours, zorder=3))
        bar = ax.figure.colorbar(scale, ax=ax, orientation="horizontal", shrink=0.5, aspect=28, pad=0.02)
        bar.set_label("load of the fullest link of each line [part of its capacity]")
        bar.outline.set_visible(False)
    for i in np.flatnonzero(k.failed):
        x, y = paths[i].mean(axis=0)
        ax.plot(x, y, zorder=8, **ROLES["failed"].look() | {"ms": 10})
        if k.cables[i] > 1:
            plate = {"boxstyle": "round,pad=0.15", "fc": NODE[True], "lw": 0}
            shift, side = (9, "left") if x < np.mean(ax.get_xlim()) else (-9, "right")
            ax.annotate(f"{k.failed[i]} of {k.cables[i]}", (x, y), (shift, 0), textcoords="offset points",
                        ha=side, va="center", color="white", bbox=plate, zorder=7)  # fmt: skip


def _write_margins(ax: Axes, f: Fabric, m: Marks, k: Lines) -> None:
    """Name the rows on the left and the cables between them on the right."""
    for row in np.unique(m.row):
        here = m.row[m.of_node] == row
        radix = np.unique(f.radix[here])
        ports = f"\nx {radix[0]} ports" if radix.size == 1 and radix[0] > 0 else ""
        _beside(ax, counted(int(here.sum()), f.kinds[f.kind[here][0]]) + ports, row, "left")
    for low, high in np.unique([m.row[k.a], m.row[k.b]], axis=1).T:
        here = (m.row[k.a] == low) & (m.row[k.b] == high)
        rates = [plain(units.format_rate(v)) for v in (k.slowest[here].min(), k.fastest[here].max()) if np.isfinite(v)]
        each = np.unique(k.cables[here])
        text = f"{k.cables[here].sum():,} x {' to '.join(dict.fromkeys(rates))}"
        text += f"\n{each[0]:,} cables per line" if each.size == 1 < min(each[0], here.sum()) else ""
        _beside(ax, text, (low + high) / 2 if low != high else low - 0.5, "right")


def _listed(f: Fabric, nodes: Any, *more: str) -> str:
    """Return how many of the nodes there are of each kind, as in "4 leaves, 1 spine and 16 cables"."""
    kinds, numbers = np.unique(f.kind[nodes], return_counts=True)
    words = [*(counted(int(n), f.kinds[k]) for k, n in zip(kinds, numbers, strict=True)), *more]
    return ", ".join(words[:-1]) + " and " * (len(words) > 1) + words[-1]


def fabric_said(f: Fabric, m: Marks, k: Lines, share: Floats) -> list[str]:
    """Return what the picture says: load first, then failures, then the parts."""
    outside = (m.server[m.of_node] < 0) & ~np.isin(np.arange(f.n_nodes), f.endpoint)
    # Connections on the boards of a server are no cables of the network.
    cables = int(np.sum(outside[f.source[::2]] | outside[f.target[::2]])) or f.n_cables
    servers, failed = f.summary()["servers"], int(k.failed.sum())
    where = f" in {servers:,} servers" if 1 < servers < f.n_ranks else ""
    said = [f"{_listed(f, f.endpoint)}{where} meet over {_listed(f, outside, counted(cables, 'cable'))}"]
    said.append(f"drawn are {_listed(f, slice(None))}")
    if failed:
        said.insert(0, f"{failed:,} of {f.n_cables:,} cables {'has' if failed == 1 else 'have'} failed")
    if np.isfinite(share).all():
        link = int(np.argmax(share))
        said.insert(0, f"the fullest link, {f.link_name(link)}, carries {100 * share[link]:.3g}% of what it could")
    return said
