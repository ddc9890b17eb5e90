"""Pictures that lessons show before anything is run: ``python tools/pictures.py`` draws them anew."""

import re
import sys
from pathlib import Path

import numpy as np

import fabriclab as fl
from fabriclab import views

FOLDER = Path(__file__).parents[1] / "notebooks" / "img"


def case() -> views.Picture:
    """Return the running case from one server to the whole cluster, while each rail sums its gradients in a ring."""
    cluster = fl.topologies.build("rail_optimised")
    rings = np.array(fl.collectives.rail_groups(cluster))
    gradients = fl.case().dp_gradients
    run = fl.simulate("all_reduce", "ring", cluster, gradients, placement=rings)
    return views.zoom(cluster, load=run.timeline)


PICTURES = {"case": case}


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
