"""Live view of cuts: the fewest links that part two halves of the ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fabriclab import metrics, units
from fabriclab.core import Fabric
from fabriclab.texts import text
from fabriclab.views.fabric_words import key
from fabriclab.views.fabrics import MOST_NODES
from fabriclab.views.layout import counted, marks_of
from fabriclab.views.live.controls import Choice, Slider
from fabriclab.views.live.fabrics import scene_of
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.maps import _places, is_direct
from fabriclab.views.page import Ints
from fabriclab.views.scene import COLOUR, Layer, Scene, ink_on
from fabriclab.views.tables import Table


def _halved(fabric: Fabric, made: Scene, half: Ints) -> Scene:
    """Return the picture of a cut, whose load is 1, with its own colours and words, and the halves told apart."""
    table = dict(made.table.columns) if made.table else {}
    table["cut"] = np.rint(table.pop("load") * table["cables"]).astype(int)
    del table["fullest"]
    at = _places(fabric)[1] if is_direct(fabric) else marks_of(fabric, fabric.n_nodes > MOST_NODES).of_node
    box = made.layers["nodes"].fields
    ranks, first = (np.bincount(at[fabric.endpoint[r]], minlength=box["x"].size) for r in (slice(None), half))
    looks = {"one": COLOUR["tint"], "other": COLOUR["host"], "both": COLOUR["switch"], "cut": COLOUR["other1"]}
    one, other, both, line = looks.values()
    shades = np.select([(first > 0) & (first == ranks), (first == 0) & (ranks > 0)], [one, other], both)
    layers = {**made.layers, "nodes": Layer("boxes", {**box, "colour": shades, "ink": ink_on(shades)})}
    notes = {f"{a} – {b}": (n, text("live.cut.note", cables=counted(int(k), "cable"), n=n)) for a, b, k, n in
             zip(table["from"], table["to"], table["cables"], table["cut"], strict=True)}  # fmt: skip
    for name in {"cables", "stubs"} & layers.keys():
        drawn = layers[name].fields
        is_cut = np.array([notes[x][0] > 0 for x in drawn["names"]])
        look = {"colour": np.where(is_cut, line, COLOUR["grey"]), "alpha": np.where(is_cut, 1.0, 0.4),
                "width": np.where(is_cut, np.maximum(drawn["width"], 2.0), drawn["width"])}  # fmt: skip
        layers[name] = Layer("lines", {**drawn, **look, "notes": [notes[x][1] for x in drawn["names"]]})
    names = [text(f"live.cut.{name}") if c in shades or c == line else "" for name, c in looks.items()]
    layers |= key(float(layers["scale"].fields["y"][0]), "", names, [*looks.values()])
    layers = {name: layer for name, layer in layers.items() if name not in ("case", "idle")}
    return replace(made, layers=layers, alt=made.said, table=Table(table))


def cut(fabric: Fabric, first: int = 0, order: str = "in order") -> Live:
    """Cut the ranks into halves, and show the fewest links that part them.

    Parameters
    ----------
    fabric : Fabric
        Which.
    first : int
        Where the first half begins.
    order : str
        "in order", "every other" rank, or "shuffled".
    """
    n, own = fabric.n_ranks, np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)[fabric.endpoint]
    orders = {"in order": np.arange(n), "every other": np.argsort(np.arange(n) % 2, kind="stable"),
              "shuffled": np.random.default_rng(0).permutation(n)}  # fmt: skip
    bound = metrics.bisection(fabric).lower

    def scene(first: int, order: str) -> Scene:
        half = np.roll(orders[order], -first)[: n // 2]
        links = metrics.cut(fabric, half)
        rate = float(fabric.capacity[links].sum())
        said = text("live.cut.said", order=order, first=half[0], links=counted(links.size, "link"),
                    rate=units.format_rate(rate), part=f"{100 * rate / own[half].sum():.3g}",
                    least=units.format_rate(bound))  # fmt: skip
        # No cut is more than the ranks of a half can send, and none is less than the bound.
        said += " " + text("live.cut.full") if bound >= np.sort(own)[-(n // 2) :].sum() else ""
        made = scene_of(fabric, np.isin(np.arange(fabric.n_links), links).astype(float), said=said)
        return made if made.wrong else _halved(fabric, made, half)

    return live_view("cut", locals(), scene, {"first": Slider(0, n - 1), "order": Choice(tuple(orders))})
