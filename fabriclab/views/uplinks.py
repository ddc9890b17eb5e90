"""The cables that lead up from one leaf switch, with the flows that a hash has put on each of them."""

from __future__ import annotations

import numpy as np

from fabriclab.simulation import Simulation
from fabriclab.texts import text
from fabriclab.views.layout import spoken_names
from fabriclab.views.page import Picture, Table
from fabriclab.views.scene import COLOUR, Scene, boxes, heading, lines, printed, texts

_LEFT, _TOP = 24.0, 30.0
_STEP, _WIDE = 26.0, 18.0  # from one cable to the next; width of a flow [px]
_FLOW, _MOST_HEIGHT = 22.0, 176.0  # height of a flow, and of the highest pile [px]


def busiest_leaf(run: Simulation, *, finding: str | None = None) -> Picture:
    """Draw the cables that lead up from the leaf with the fullest uplink, with a box for each flow on them.

    A leaf has many uplinks, and a picture of the whole network can only draw them as one line. This one shows which
    cables of one leaf are empty and on which several flows meet.

    Parameters
    ----------
    run : Simulation
        What `fabriclab.simulate` returned for a fabric with leaf switches, with flows on single paths (``"ecmp"``).
    finding : optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If the fabric has no leaf with cables that lead up, or no flow uses them.
    """
    return printed(busiest_leaf_scene(run), finding=finding)


def busiest_leaf_scene(run: Simulation) -> Scene:
    """Return the picture of one leaf; the table lists its cables."""
    fabric = run.fabric
    is_leaf = np.isin(np.arange(fabric.n_nodes), fabric.nodes("leaf"))
    up = is_leaf[fabric.source] & (fabric.tier[fabric.target] > fabric.tier[fabric.source])
    flows = np.where(up, run.sharers(), 0)  # (L,)
    if not flows.any():
        raise ValueError(
            f"busiest_leaf needs flows that leave a leaf switch upwards, and in {run!r:.80} none does"
        )
    leaf = fabric.source[flows.argmax()]
    links = np.flatnonzero(up & (fabric.source == leaf))
    links = links[np.argsort(fabric.target[links], kind="stable")]
    on_cable = flows[links]

    spoken = spoken_names(fabric)
    number = np.arange(links.size)
    x = _LEFT + _STEP * number
    unit = min(_FLOW, _MOST_HEIGHT / on_cable.max())
    foot = _TOP + unit * on_cable.max() + 12
    cable = np.repeat(number, on_cable)  # of each box
    place = np.concatenate([np.arange(many) for many in on_cable])
    fullest = on_cable[cable] == on_cable.max()
    crowd = text("uplinks.flows", n=int(on_cable.max()))
    said = text(
        "uplinks.said",
        leaf=spoken[leaf],
        flows=int(on_cable.sum()),
        cables=links.size,
        most=int(on_cable.max()),
        idle=int(np.sum(on_cable == 0)),
    )
    layers = {
        "title": heading(16.0, text("uplinks.title", leaf=spoken[leaf]), _LEFT),
        "cables": lines(
            [np.array([[at, foot], [at + _WIDE, foot]]) for at in x],
            width=2.0,
            colour=COLOUR["hair"],
        ),
        "flows": boxes(
            x[cable],
            foot - 2 - unit * (place + 1),
            _WIDE,
            unit - 3,
            colour=np.where(fullest, COLOUR["ink"], COLOUR["edge"]),
            round=2.0,
        ),
        "numbers": texts(
            x + _WIDE / 2, foot + 14, [str(n) for n in number], align=1.0, colour=COLOUR["soft"]
        ),
        "crowd": texts(
            x[on_cable.argmax()] + _WIDE + 6, _TOP + 6 + unit / 2, [crowd], bold=1.0, halo=1.0
        ),
        "axis": texts(_LEFT, foot + 34, [text("uplinks.axis")], colour=COLOUR["soft"]),
    }
    table = Table(
        {
            "cable": number,
            "leads to": [spoken[node] for node in fabric.target[links].tolist()],
            "flows": on_cable,
        }
    )
    width = 2 * _LEFT + _STEP * links.size
    return Scene(said, table, layers, foot + 48, said, width=max(width, 480.0))
