"""Fabric view: endpoints at the bottom, switches above; a large fabric is drawn as blocks with their members."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.patches import FancyBboxPatch
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Routes, Timeline
from fabriclab.views.layout import Floats, Lines, Marks, lines_of, marks_of, paths_of
from fabriclab.views.page import Picture, canvas, finish, joined, plain, styled
from fabriclab.views.palette import GREY, INK, NODE, ROLES, TINT
from fabriclab.views.tables import Table

__all__ = ["fabric"]

MOST_NODES: Final = 200
_PLURAL: Final = {
    "gpu": "GPUs", "nic": "NICs", "leaf": "leaves", "nvlink": "NVLink switches", "pcie": "PCIe switches",
    "switch": "switches",
}  # fmt: skip


@styled
def fabric(
    fabric: Fabric, *, load: Timeline | ArrayLike | None = None, highlight: Routes | ArrayLike | None = None,
    fold: bool = True, ax: Axes | None = None, finding: str | None = None,
) -> Picture:  # fmt: skip
    """Draw a fabric: endpoints at the bottom, their servers as rounded boxes, switches above.

    Parallel cables are one line, as wide as their capacity asks. Above 200 nodes each tier is drawn as blocks, one per
    rail where a tier keeps rails apart. Leaves out delays and media.

    Parameters
    ----------
    fabric : Fabric
        What to draw.
    load : Timeline or array_like, shape (L,), optional
        Mean load of each link as a part of its capacity, coloured by cividis. [1], >= 0
    highlight : Routes or array_like of int, optional
        Links to draw in blue.
    fold : bool
        Draw blocks above 200 nodes. False draws every node, up to 2,000.
    ax, finding : optional
        Where to draw, and the sentence above the picture.

    Returns
    -------
    Picture
        With axes, finding, alternative text and a table of the lines.

    Raises
    ------
    ValueError
        If there is no link or no endpoint, load or highlight does not fit, or ``fold=False`` meets too many nodes.
    """
    if not fabric.n_links or not fabric.n_ranks:
        msg = f"nothing to draw: this fabric has {fabric.n_links} links and {fabric.n_ranks} endpoints; add both"
        raise ValueError(msg)
    if not fold and fabric.n_nodes > 10 * MOST_NODES:
        msg = (
            f"fold=False draws every node, at most {10 * MOST_NODES}; this fabric has {fabric.n_nodes}, leave fold=True"
        )
        raise ValueError(msg)
    share = None if load is None else _share(fabric, load)
    marks = marks_of(fabric, fold and fabric.n_nodes > MOST_NODES)
    lines = lines_of(fabric, marks, share, highlight)
    # Room below the lowest row: names of servers or rails, and the arcs of cables within a row.
    foot = 0.32 + 0.36 * (marks.server.max() >= 0) + 0.55 * bool(np.any(marks.row[lines.a] == marks.row[lines.b]))
    own, ax = ax is None, canvas(ax, 0.5 + 0.62 * (np.ptp(marks.row) + 1 + foot) + 0.6 * (share is not None))
    ax.set_axis_off()
    ax.set(xlim=(-0.7, (marks.x + marks.width / 2).max() + 0.3), ylim=(marks.row.min() - foot, marks.row.max() + 0.4))
    _draw_boxes(ax, fabric, marks, foot)
    _draw_lines(ax, marks, lines, share is not None)
    _draw_marks(ax, fabric, marks)
    _write_margins(ax, fabric, marks, lines)
    return finish(ax, own, finding, _said(fabric, marks, share), _table(fabric, marks, lines, share is not None))


def _share(fabric: Fabric, load: Timeline | ArrayLike) -> Floats:
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
    inside = np.flatnonzero(m.server >= 0)
    folded = m.row.size < f.n_nodes
    groups = [inside] if folded else [inside[m.server[inside] == s] for s in np.unique(m.server[inside])]
    for group in (g for g in groups if g.size > 1):
        left, right = (m.x - m.width / 2)[group].min() - 0.14, (m.x + m.width / 2)[group].max() + 0.14
        low, high = m.row[group].min() - foot + 0.34, m.row[group].max() + 0.36
        if m.row[group].min() < 0:
            _box(ax, left + 0.06, right - 0.06, low + 0.06, 0.26, fc=TINT, alpha=0.28, lw=0)
        for step in range(2 if folded else 0, -1, -1):
            _box(ax, left + 0.05 * step, right + 0.05 * step, low - 0.05 * step, high - 0.05 * step,
                 fc="none", ec=INK, lw=1.1, alpha=0.35 if step else 0.8)  # fmt: skip
        if not folded:
            ax.text(left + 0.05, low - 0.04, f"server {m.server[group[0]]}", fontsize=8.5, ha="left", va="top")
    if folded and inside.size > 1:
        low = m.row.min() - foot + 0.04
        _beside(ax, f"in {np.unique(f.server[f.server >= 0]).size:,} servers", low, "left")
        for i in np.flatnonzero((m.row == 0) & (m.rail >= 0)):
            ax.text(m.x[i], low, f"rail {m.rail[i]}", fontsize=8.5, ha="center", va="center")


def _box(ax: Axes, left: float, right: float, low: float, high: float, rounding: float = 0.1, **look: Any) -> None:
    shape = f"round,pad=0,rounding_size={rounding}"
    ax.add_patch(FancyBboxPatch((left, low), right - left, high - low, boxstyle=shape, **{"zorder": 1, **look}))


def _beside(ax: Axes, text: str, y: float, side: str) -> None:
    """Write into the margin, at the height ``y`` of the drawing."""
    x, shift, align = (0, -4, "right") if side == "left" else (1, 4, "left")
    ax.annotate(text, (x, y), (shift, 0), xycoords=("axes fraction", "data"), textcoords="offset points", ha=align,
                va="center", fontsize=8.5)  # fmt: skip


def _draw_marks(ax: Axes, f: Fabric, m: Marks) -> None:
    folded, unit = m.row.size < f.n_nodes, 330.0 / float(np.ptp(ax.get_xlim()))
    names = [f"{n:,}" if folded else f.name(int(i)).rpartition(" ")[2] for i, n in zip(m.first, m.count, strict=True)]
    fits = np.array([5.6 * len(name) for name in names]) < m.width * unit
    for i, name in enumerate(names):
        x, y, half = m.x[i], m.row[i], m.width[i] / 2
        _box(ax, x - half, x + half, y - 0.17, y + 0.17, 0.06, fc=NODE[bool(f.transit[m.first[i]])], lw=0, zorder=5)
        # A row is named in full or not at all.
        if fits[m.row == y].all():
            ax.text(x, y, name, color="white", fontsize=8.5, ha="center", va="center_baseline", zorder=6)


def _draw_lines(ax: Axes, m: Marks, k: Lines, loaded: bool) -> None:
    paths = paths_of(m, k)
    width = 1.5 * np.clip(k.total / max(k.total[k.total > 0].min(initial=np.inf), 1.0), 1.0, 40.0) ** 0.4
    dead = k.failed == k.cables
    if loaded:
        scale = ScalarMappable(Normalize(0, max(1.0, float(k.load.max()))), colormaps["cividis"])
        # The casing keeps both ends of the scale visible on a light and on a dark page.
        ax.add_collection(LineCollection(paths, linewidths=width + 3.0, colors=GREY, zorder=2))
        colours = np.where(dead[:, None], (0.42, 0.42, 0.42, 1.0), scale.to_rgba(k.load))
        ax.add_collection(LineCollection(paths, linewidths=width + 1.0, colors=colours, zorder=3))
        figure = ax.get_figure(root=True)
        bar = figure.colorbar(scale, ax=ax, orientation="horizontal", shrink=0.5, aspect=28, pad=0.02)  # type: ignore[union-attr]
        bar.set_label("load of the fullest link of each line [part of its capacity]")
        bar.outline.set_visible(False)
    else:
        faint = np.where(k.marked.any() & ~k.marked | dead, 0.4, 0.9)
        ax.add_collection(LineCollection(paths, linewidths=width, colors=GREY, alpha=faint, zorder=2))
    chosen = [paths[i] for i in np.flatnonzero(k.marked)]
    blue = ROLES["predicted"].colour
    ax.add_collection(LineCollection(chosen, linewidths=width[k.marked] + 1.5, colors=blue, zorder=4))
    for i in np.flatnonzero(k.failed):
        x, y = paths[i].mean(axis=0)
        ax.plot(x, y, marker=ROLES["failed"].marker, ms=10, mfc=ROLES["failed"].colour, mec=INK, mew=0.6, zorder=8)
        if k.cables[i] > 1:
            plate = {"boxstyle": "round,pad=0.15", "fc": NODE[True], "lw": 0}
            side = (9, "left") if x < np.mean(ax.get_xlim()) else (-9, "right")
            ax.annotate(f"{k.failed[i]} of {k.cables[i]}", (x, y), (side[0], 0), textcoords="offset points",
                        ha=side[1], va="center", fontsize=8.5, color="white", bbox=plate, zorder=7)  # fmt: skip


def _write_margins(ax: Axes, f: Fabric, m: Marks, k: Lines) -> None:
    """Name the rows on the left and the cables between them on the right."""
    for row in np.unique(m.row):
        here = np.isin(m.of_node, np.flatnonzero(m.row == row))
        radix = np.unique(f.radix[here])
        ports = f"\nx {radix[0]} ports" if radix.size == 1 and radix[0] > 0 else ""
        _beside(ax, _counted(int(here.sum()), f.kinds[f.kind[here][0]]) + ports, row, "left")
    for low, high in np.unique(np.stack([m.row[k.a], m.row[k.b]], axis=1), axis=0):
        here = (m.row[k.a] == low) & (m.row[k.b] == high)
        rates = [plain(units.format_rate(v)) for v in (k.slowest[here].min(), k.fastest[here].max()) if np.isfinite(v)]
        each = np.unique(k.cables[here])
        text = f"{k.cables[here].sum():,} x {' to '.join(dict.fromkeys(rates))}"
        text += f"\n{each[0]:,} in a line" if each.size == 1 < min(each[0], here.sum()) else ""
        _beside(ax, text, (low + high) / 2 if low != high else low - 0.5, "right")


def _counted(number: int, kind: str) -> str:
    plural = _PLURAL.get(kind, f"{kind}s")
    return f"{number:,} {plural if number != 1 else kind}"


def _said(f: Fabric, m: Marks, share: Floats | None) -> list[str]:
    """Return what the picture says: load first, then failures, then the parts."""
    counts, ends = f.summary(), np.unique(f.kind[f.endpoint])
    outside = (m.server[m.of_node] < 0) & ~np.isin(np.arange(f.n_nodes), f.endpoint)
    over = [_counted(int(np.sum(outside & (f.kind == i))), f.kinds[i]) for i in np.unique(f.kind[outside])]
    # Connections on the boards of a server are no cables of the network.
    cables = int(np.sum(outside[f.source[::2]] | outside[f.target[::2]])) or f.n_cables
    servers = f" in {counts['servers']:,} servers" if 1 < counts["servers"] < f.n_ranks else ""
    who = _counted(f.n_ranks, f.kinds[ends[0]] if ends.size == 1 else "endpoint")
    said = [f"{who}{servers} meet over {joined([*over, _counted(cables, 'cable')])}"]
    said.append("drawn are " + joined([_counted(counts[k], k) for k in f.kinds if counts[k]]))
    failed = int(np.sum(np.minimum(f.capacity[::2], f.capacity[1::2]) == 0))
    if failed:
        said.insert(0, f"{failed:,} of {f.n_cables:,} cables {'has' if failed == 1 else 'have'} failed")
    if share is not None:
        link = int(np.argmax(share))
        said.insert(0, f"the fullest link, {f.link_name(link)}, carries {100 * share[link]:.3g}% of what it could")
    return said


def _table(f: Fabric, m: Marks, k: Lines, loaded: bool) -> Table:
    def name(i: int) -> str:
        if m.row.size == f.n_nodes:
            return f.name(int(m.first[i]))
        where = f", rail {m.rail[i]}" if m.rail[i] >= 0 else ""
        return _counted(int(m.count[i]), f.kinds[f.kind[m.first[i]]]) + where

    columns: dict[str, Any] = {
        "from": [name(i) for i in k.a], "to": [name(i) for i in k.b], "cables": k.cables, "failed": k.failed,
        "fastest [B/s]": k.fastest, "together [B/s]": k.total,
    }  # fmt: skip
    return Table(columns | ({"load": k.load} if loaded else {}))
