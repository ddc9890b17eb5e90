"""Pictures that lessons show before anything is run: ``python tools/pictures.py`` draws them anew."""

import re
import sys
from functools import partial
from pathlib import Path

import numpy as np

import fabriclab as fl
from fabriclab import views

FOLDER = Path(__file__).parents[1] / "notebooks" / "img"


def case(part: str) -> views.Picture:
    """Return a part of the running case, "server", "rail" or "all", while each rail sums its gradients in a ring."""
    cluster = fl.topologies.build("rail_optimised")
    rings = np.array(fl.collectives.rail_groups(cluster))
    gradients = fl.case().dp_gradients
    run = fl.simulate("all_reduce", "ring", cluster, gradients, placement=rings)
    return views.zoom(cluster, load=run.timeline, part=part)


PICTURES = {
    "case_server": partial(case, "server"),
    "case_rail": partial(case, "rail"),
    "case_all": partial(case, "all"),
    "tiers": views.tiers,
}


def drawn(name: str) -> str:
    """Return a picture as a file that stands alone."""
    return PICTURES[name]().standing_alone()


def numbers_rounded(svg: str) -> str:
    """Return the drawing with coordinates rounded, since the last digit may differ between machines."""
    return re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.0f}", svg)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(drawn(name), encoding="utf-8")
        sys.stdout.write(f"drawn: {FOLDER.name}/{name}.svg\n")
