"""Pictures that lessons show before anything is run: ``python tools/pictures.py`` draws them anew."""

import re
import sys
from pathlib import Path

from fabriclab import topologies, views

FOLDER = Path(__file__).parents[1] / "notebooks" / "img"
_INK = "#1a1a1a"


def hall() -> views.Picture:
    """Return the fabric of the running case."""
    return views.fabric(topologies.build("rail_optimised"))


PICTURES = {"hall": hall}


def drawn(name: str) -> str:
    """Return a picture as a file that stands alone: on a light card, so that it is read on dark pages too."""
    svg = (
        PICTURES[name]()
        .svg()
        .replace("currentColor", _INK)
        .replace('style="', 'style="background:#fff;', 1)
    )
    return (
        svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        if "xmlns=" not in svg
        else svg
    )


def numbers_rounded(svg: str) -> str:
    """Return the drawing with coordinates rounded, since the last digit may differ between machines."""
    return re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.0f}", svg)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(drawn(name), encoding="utf-8")
        sys.stdout.write(f"drawn: {FOLDER.name}/{name}.svg\n")
