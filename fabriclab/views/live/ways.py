"""Live views of ways: between two endpoints, and what a hash does to equal cables."""

import numpy as np

from fabriclab.core import Fabric, Flows
from fabriclab.routing import route
from fabriclab.routing._ways import hashed
from fabriclab.routing.ecmp import expected_fullest
from fabriclab.texts import text
from fabriclab.views.layout import counted
from fabriclab.views.live.controls import Choice, Slider
from fabriclab.views.live.fabrics import scene_of
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.page import spread
from fabriclab.views.scene import COLOUR, Scene, boxes, lines, shade, texts_at
from fabriclab.views.tables import Table


def paths(fabric: Fabric, source: int = 0, target: int | None = None, routing: str = "ecmp", *,
          routings: tuple[str, ...] = ("ecmp", "spray")) -> Live:  # fmt: skip
    """Show the links that a flow between two endpoints takes, by each routing.

    Parameters
    ----------
    fabric : Fabric
        Where.
    source, target : int
        Ranks; the last one is the target unless given.
    routing : str
        One of ``routings``.
    routings : tuple of str
        Names of `fabriclab.routing.names` that the fabric allows.
    """

    def scene(source: int, target: int, routing: str) -> Scene:
        ends = [fabric.name(int(fabric.endpoint[r])) for r in (source, target)]
        if source == target:
            return scene_of(fabric, np.zeros(fabric.n_links), said=text("live.paths.same", a=ends[0]))
        flows = Flows.make(fabric.endpoint[[source]], fabric.endpoint[[target]], 1.0)
        routes = route(fabric, flows, routing)
        use = np.bincount(routes.link, routes.use * np.repeat(routes.share, np.diff(routes.ptr)), fabric.n_links)
        on = np.flatnonzero(use)
        said = text("live.paths.said", a=ends[0], b=ends[1], hops=f"{use.sum():.4g}", links=on.size, routing=routing)
        if routes.n_rows == 1 and np.all(routes.use == 1):
            ahead = dict(zip(fabric.source[on].tolist(), fabric.target[on].tolist(), strict=True))  # in any order
            way = [int(fabric.endpoint[source])]
            while way[-1] in ahead:
                way.append(ahead[way[-1]])
            said = text("live.paths.way", way=" → ".join(map(fabric.name, way)), hops=routes.link.size, routing=routing)
        return scene_of(fabric, use, said=said)

    ranks = Slider(0, fabric.n_ranks - 1)
    target = fabric.n_ranks - 1 if target is None else target
    return live_view("paths", locals(), scene, {"source": ranks, "target": ranks, "routing": Choice(routings)})


def roulette(flows: int = 32, cables: int = 32, seed: int = 0) -> Live:
    """Show how a hash deals equal flows out to equal cables, against the mean over all seeds and against spraying.

    Parameters
    ----------
    flows, cables : int
        How many. 1..256, 2..64
    seed : int
        Seed of the hash, the one of the routing "ecmp".
    """

    def scene(flows: int, cables: int, seed: int) -> Scene:
        number = np.arange(flows)
        pick = hashed(seed, number) % np.uint64(cables)
        held = np.bincount(pick.astype(np.int64), minlength=cables)
        least, most = max(flows / cables, 1.0), int(held.max())  # spraying splits a flow, but its sender is no faster
        left, wide, foot, tall = 60.0, 510.0 / cables, 190.0, 160.0 / max(most, 4)
        x, scale = left + wide * np.arange(cables), np.arange(0, max(most, 4) + 1, max(1, most // 6))
        names = [text("live.roulette.cable", n=i) for i in range(cables)]
        notes = [counted(int(n), "flow") for n in held]
        mean = expected_fullest(flows, cables)
        marks = {"expected": foot - tall * mean, "spray" if flows >= cables else "one": foot - tall * least}
        rules = [np.array([[left - 6, y], [left + 516, y]]) for y in marks.values()]
        beside = zip(marks, spread([*marks.values()], 15.0, 0.0, foot).tolist(), strict=True)
        layers = {
            "bars": boxes(x, foot - tall * held, max(wide - 2, 2.0), np.maximum(tall * held, 1.0), round=0.0,
                          colour=shade(held / most), names=names, notes=notes),
            "rules": lines(rules, width=1.5, colour=COLOUR["ink"], dash=np.array([1.0, 2.0])),
            "words": texts_at(*((left + 520, y, text(f"live.roulette.{mark}"), 0) for mark, y in beside),
                              *((left - 12, foot - tall * int(v), str(v), 2) for v in scale),
                              (left, foot + 16, text("live.roulette.below", cables=cables), 0)),
        }  # fmt: skip
        slow = text("live.roulette.slow" if most > least else "live.roulette.even", slow=f"{most / least:.3g}")
        said = text("live.roulette.said", flows=counted(flows, "flow"), cables=counted(cables, "cable"), slow=slow,
                    most=counted(most, "flow"), idle=int(np.sum(held == 0)), mean=f"{mean:.3g}")  # fmt: skip
        return Scene(said, Table({"cable": np.arange(cables), "flows": held}), layers, foot + 30, said)

    controls = {"flows": Slider(1, 256), "cables": Slider(2, 64), "seed": Slider(0, 99, play=True)}
    return live_view("roulette", locals(), scene, controls)
