"""A sheet with every live view, in both themes and two windows: ``python tools/contact_sheet.py``.

It writes ``build/contact_sheet/``: a picture of each view, a page per theme and window to look through, and
``heights.csv`` with the height of each view, which at 1366 x 768 must leave room for a notebook's own bars. It needs a
browser of Chromium's family and takes some three minutes.
"""

import argparse
import csv
import html
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser import browser, show  # noqa: E402
from support.live_views import VIEWS  # noqa: E402

FOLDER = ROOT / "build" / "contact_sheet"
WINDOWS = ((1366, 768), (1920, 1080))
THEMES = ("light", "dark")
ROOM = 600  # px; of a view in a JupyterLab window of 1366 x 768, which shows 647 px of a notebook
# px; what JupyterLab leaves for the output of a cell beside its file browser, in each window
OUTPUT = {1366: 934, 1920: 1490}
PAPER = {"light": "#ffffff", "dark": "#111111"}
INK = {"light": "#16191d", "dark": "#eaedf1"}


def photographed(context, name, theme, width, file):
    """Draw a view on a page of its own, save its picture, and return its height [px]."""
    page = context.new_page()
    place = f"#root{{width:{OUTPUT[width]}px}}"
    style = f"body{{background:{PAPER[theme]};color:{INK[theme]};margin:16px}}{place}"
    show(page, VIEWS[name](), style=style)
    box = page.locator(".fl-live").first
    height = box.bounding_box()["height"]
    box.screenshot(path=str(file))
    page.close()
    return height


def written(folder, theme, width, heights):
    """Write the page that shows all pictures of a theme and window, and return its path."""
    cells = []
    for name, height in heights.items():
        too_high = " (too high)" if width == WINDOWS[0][0] and height > ROOM else ""
        title = html.escape(f"{name}: {height:.0f} px{too_high}")
        cells.append(f"<figure><figcaption>{title}</figcaption><img src={name_of(name)}></figure>")
    page = folder / "index.html"
    page.write_text(
        f"<meta charset=utf-8><title>Live views, {theme}, {width} px</title>"
        f"<style>body{{background:{PAPER[theme]};color:{INK[theme]};font:14px sans-serif;display:grid;gap:20px;"
        "grid-template-columns:repeat(auto-fill,minmax(420px,1fr))}figure{margin:0}img{width:100%}</style>"
        + "".join(cells),
        encoding="utf-8",
    )
    return page


def name_of(view):
    """Return the name of a view's file."""
    return view.replace(" ", "_") + ".png"


def main(argv=None):
    """Photograph the views that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("views", nargs="*", help="names of views; all unless given")
    asked = parser.parse_args(argv)
    for name in asked.views:
        if name not in VIEWS:
            parser.error(f"no view {name!r}; there are {', '.join(VIEWS)}")
    names = asked.views or list(VIEWS)

    rows = []
    with browser() as chrome:
        for theme in THEMES:
            for width, height in WINDOWS:
                folder = FOLDER / f"{theme}-{width}"
                folder.mkdir(parents=True, exist_ok=True)
                size = {"width": width, "height": height}
                context = chrome.new_context(viewport=size, color_scheme=theme)
                heights = {}
                for name in names:
                    heights[name] = photographed(
                        context, name, theme, width, folder / name_of(name)
                    )
                    rows.append((name, theme, width, f"{heights[name]:.0f}"))
                context.close()
                print(written(folder, theme, width, heights), flush=True)
    with (FOLDER / "heights.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [("view", "theme", "window", "height"), *rows]
        )
    high = sorted({name for name, _, width, tall in rows if width == 1366 and int(tall) > ROOM})
    print(f"{len(names)} views; higher than {ROOM} px at 1366: {', '.join(high) or 'none'}")


if __name__ == "__main__":
    main()
