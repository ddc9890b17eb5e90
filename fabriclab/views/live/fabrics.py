"""Live Fabric view: boxes and cables on rows, coloured by load, tier, rail or failure; a block can be opened."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fabriclab.core import Fabric, Floats, Timeline
from fabriclab.texts import text
from fabriclab.views.fabric_words import SAYS, coloured, told
from fabriclab.views.fabrics import MOST_BOXES, fabric_scene, share_of
from fabriclab.views.live.widget import Choice, Control, Live, Table, live_view
from fabriclab.views.maps import scale
from fabriclab.views.scene import COLOUR, WIDTH, Scene, boxes, shade


def fabric(fabric: Fabric, load: Callable[..., Any] | Any = None, *, colour: str | None = None, layout: str = "tiers",
           open: int | None = None, said: str = "", controls: dict[str, Control] | None = None,
           **values: Any) -> Live:  # fmt: skip
    """Show a fabric that follows controls: hover or walk with the arrow keys to read links and nodes.

    Above 200 nodes each tier is drawn as blocks; Enter or a click opens a block, and closes it again.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    load : callable, Timeline, simulation or array_like, optional
        Mean load of each link as a part of its capacity (L,), or a run from which it follows. A callable takes the
        values of ``controls`` and returns one of these, or a pair (fabric of the same cables, load); a third value is
        the sentence.
    colour : str, optional
        What the colour of a link says: load, tier, rail or failure, as far as there is any. Where it is not the load,
        links with little load are pale.
    layout : str
        "tiers": rows from the endpoints upwards. "floor": every endpoint one cell, a column for each server.
    open : int, optional
        Lowest node of the block that is open.
    said : str
        The sentence; unless given it names the fullest link.
    controls : dict of str to Slider or Choice
        Controls of ``load``.
    **values
        Where they stand.
    """
    here = {"load": load is not None, "rail": np.any(fabric.rail > 0), "failure": np.any(fabric.capacity == 0)}
    modes = tuple(mode for mode in SAYS if here.get(mode, True))
    colour = colour or modes[0]

    def scene(colour: str, layout: str, open: int | None, **values: Any) -> Scene:
        return scene_of(fabric, load(**values) if callable(load) else load, colour, open, said, layout)

    own = {"colour": Choice(modes), "layout": Choice(("tiers", "floor"))}
    return live_view("fabric", locals(), scene, own, hidden=("open",), held=("load",))


def scene_of(f: Fabric, load: Any = None, colour: str = "load", open: int | None = None, said: str = "",
             layout: str = "tiers") -> Scene:  # fmt: skip
    """Return one picture of a fabric, in rows or as a floor; see `fabric`."""
    if isinstance(load, tuple):
        f, load, said = (*load, said)[:3]
    run = getattr(load, "timeline", load)
    values = run.utilisation(f.capacity) if isinstance(run, Timeline) else run
    if values is not None and np.isnan(np.asarray(values, dtype=np.float64)).any():
        return Scene(text("live.fabric.nan"), wrong=True)
    share = np.full(f.n_links, np.nan) if values is None else share_of(f, values)
    if layout == "floor" and f.n_ranks > MOST_BOXES:
        layout, said = "tiers", text("fabric.no_floor", n=f.n_ranks, most=MOST_BOXES)
    if layout == "tiers" or not f.n_links or not f.n_ranks:
        return fabric_scene(f, share, colour, open, said)
    return _floor(f, share, colour, said)


def _floor(f: Fabric, share: Floats, colour: str, said: str) -> Scene:
    """Return every endpoint as a cell in the column of its server, with the fullest link that leaves it."""
    _, column = np.unique(f.server, return_inverse=True)
    order = np.lexsort((np.arange(f.n_ranks), column))
    row = np.empty(f.n_ranks, dtype=np.int64)
    row[order] = np.arange(f.n_ranks) - np.searchsorted(column[order], column[order])
    wrap = max(1, min(int(column.max()) + 1, 128))  # columns side by side; more begin a new band
    row, column = row + (column // wrap) * (int(row.max()) + 2), column % wrap
    full, dead = np.full(f.n_nodes, -1.0), np.zeros(f.n_nodes, dtype=bool)
    np.maximum.at(full, f.source, np.nan_to_num(share, nan=-1.0))
    np.logical_or.at(dead, f.source, f.capacity == 0)
    full, dead = np.where(full < 0, np.nan, full)[f.endpoint], dead[f.endpoint]
    wide, high = (WIDTH - 20.0) / wrap, min(24.0, 420.0 / (int(row.max()) + 1))
    place = f.rail if colour == "rail" else f.tier[f.endpoint]
    keys = np.where(dead, COLOUR["failed"], COLOUR["grey"]) if colour == "failure" else coloured(place)
    keys = shade(full) if colour == "load" else keys
    names = [f.name(int(e)) for e in f.endpoint]
    notes = [text("fabric.load", percent=100 * v) if np.isfinite(v) else text("fabric.rail", r=r)
             for v, r in zip(full, f.rail, strict=True)]  # fmt: skip
    bottom = 10 + high * (int(row.max()) + 1)
    layers = {"nodes": boxes(10 + wide * column, 10 + high * row, max(wide - 1, 1.0), high - 2, colour=keys,
                             hatch=3 * dead, round=1.0, names=names, notes=notes)}  # fmt: skip
    layers |= scale(bottom + 8) if colour == "load" and np.isfinite(full).any() else {}
    table = Table({"endpoint": names, "server": f.server, "rail": f.rail, "load": full, "failed links": 1 * dead})
    cut = int(dead.sum())
    words = text("live.fabric.floor", ends=f.n_ranks, servers=np.unique(f.server).size, cut=cut)
    top = int(np.argmax(np.nan_to_num(full, nan=-1)))
    words += f" {names[top]}: {notes[top]}." if np.isfinite(full).any() else ""
    colours = told(colour, full, place, cut, f.n_ranks)
    return Scene(said or words, table, layers, bottom + 34, f"{words} {said} {colours}")
