"""A sheet with every picture of the course, in both themes and two windows: ``python tools/contact_sheet.py``.

It shows each live view once in a typical setting, and then all that the lessons show: their live views with the
arguments of the lesson, and their printed pictures. For that it runs the lessons, each with guesses already made.

It writes ``build/contact_sheet/``: a file for each picture, a page per theme and window to look through, and
``heights.csv`` with the height of each picture; a live view at 1366 x 768 must leave room for a notebook's own bars.
It needs a browser of Chromium's family and takes some ten minutes; names of views and beginnings of lessons
(``python tools/contact_sheet.py race 22 23``) take less.
"""

import argparse
import csv
import html
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]

from lesson_files import FILES  # noqa: E402
from support.browser import browser, show, show_kept  # noqa: E402
from support.lesson_runs import earlier, load, timed_run  # noqa: E402
from support.live_views import VIEWS  # noqa: E402

FOLDER = ROOT / "build" / "contact_sheet"
WINDOWS = ((1366, 768), (1920, 1080))
THEMES = ("light", "dark")
ROOM = 600  # px; of a view in a JupyterLab window of 1366 x 768, which shows 647 px of a notebook
# px; what JupyterLab leaves for the output of a cell beside its file browser, in each window
OUTPUT = {1366: 934, 1920: 1490}
PAPER = {"light": "#ffffff", "dark": "#111111"}
INK = {"light": "#16191d", "dark": "#eaedf1"}


KEPT = "application/vnd.jupyter.widget-state+json"
WIDGET = "application/vnd.jupyter.widget-view+json"


def of_view(name):
    """Return the picture of a view in a typical setting."""

    def draw(page, style):
        show(page, VIEWS[name](), style=style)
        return page.locator(".fl-live").first

    return SimpleNamespace(name=name, draw=draw, live=True)


def of_state(name, state):
    """Return the picture of a view from the state that its widget had at the end of a lesson."""

    def draw(page, style):
        show_kept(page, state, style=style)
        return page.locator(".fl-live").first

    return SimpleNamespace(name=name, draw=draw, live=True)


def of_html(name, shown):
    """Return the picture that a lesson prints."""

    def draw(page, style):
        page.set_content(
            f"<style>body{{font-family:sans-serif}}{style}</style><div id=root>{shown}</div>"
        )
        return page.locator(".fl-picture").first

    return SimpleNamespace(name=name, draw=draw, live=False)


def of_lesson(lesson, folder):
    """Run a lesson and return its pictures in the order of the page."""
    run = timed_run(lesson, load(lesson), folder, earlier(lesson))
    if run.error:
        raise SystemExit(f"{lesson}: {run.error}")
    states = run.nb.metadata.get("widgets", {}).get(KEPT, {}).get("state", {})
    pictures = []
    for cell in run.nb.cells:
        for output in cell.get("outputs", []):
            name = f"{lesson[:3].strip('_')}-{len(pictures):02} {cell.id}"
            data = output.get("data", {})
            if WIDGET in data:
                state = states[data[WIDGET]["model_id"]]
                if state["state"].get("spec", {}).get("card") == "view":
                    pictures.append(of_state(name, state))
            elif "fl-picture" in data.get("text/html", ""):
                pictures.append(of_html(name, data["text/html"]))
    return pictures


def photographed(context, picture, theme, width, file):
    """Draw a picture on a page of its own, photograph it, and return its height [px]."""
    page = context.new_page()
    place = f"#root{{width:{OUTPUT[width]}px}}"
    style = f"body{{background:{PAPER[theme]};color:{INK[theme]};margin:16px}}{place}"
    box = picture.draw(page, style)
    height = box.bounding_box()["height"]
    box.screenshot(path=str(file))
    page.close()
    return height


def too_high(picture, width, height):
    """Return whether a live view leaves no room for a notebook's own bars in the smaller window."""
    return picture.live and width == WINDOWS[0][0] and height > ROOM


def written(folder, theme, width, heights):
    """Write the page that shows all pictures of a theme and window, and return its path."""
    cells = []
    for picture, height in heights:
        high = " (too high)" if too_high(picture, width, height) else ""
        title = html.escape(f"{picture.name}: {height:.0f} px{high}")
        cells.append(
            f"<figure><figcaption>{title}</figcaption><img src={name_of(picture)}></figure>"
        )
    page = folder / "index.html"
    page.write_text(
        f"<meta charset=utf-8><title>Pictures of the course, {theme}, {width} px</title>"
        f"<style>body{{background:{PAPER[theme]};color:{INK[theme]};font:14px sans-serif;display:grid;gap:20px;"
        "grid-template-columns:repeat(auto-fill,minmax(420px,1fr))}figure{margin:0}img{width:100%}</style>"
        + "".join(cells),
        encoding="utf-8",
    )
    return page


def name_of(picture):
    """Return the name of a picture's file."""
    return picture.name.replace(" ", "_") + ".png"


def wanted(asked, parser):
    """Return the names of views and of lessons that the words of a command line mean; without words all."""
    lessons = [name for name in FILES if name[:2].isdigit()]
    if not asked:
        return list(VIEWS), lessons
    views = [word for word in asked if word in VIEWS]
    found = []
    for word in asked:
        meant = [name for name in lessons if name.split("_")[0] == word or name == word]
        found += meant
        if not meant and word not in VIEWS:
            parser.error(f"no view or lesson {word!r}; there are {', '.join([*VIEWS, *lessons])}")
    return views, found


def main(argv=None):
    """Photograph the views and lessons that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="views or lessons (22); all unless given")
    views, lessons = wanted(parser.parse_args(argv).names, parser)
    pictures = [of_view(name) for name in views]
    with tempfile.TemporaryDirectory() as folder:
        for lesson in lessons:
            pictures += of_lesson(lesson, Path(folder))

    rows = []
    high = set()
    with browser() as chrome:
        for theme in THEMES:
            for width, height in WINDOWS:
                folder = FOLDER / f"{theme}-{width}"
                folder.mkdir(parents=True, exist_ok=True)
                size = {"width": width, "height": height}
                context = chrome.new_context(viewport=size, color_scheme=theme)
                heights = []
                for picture in pictures:
                    tall = photographed(context, picture, theme, width, folder / name_of(picture))
                    heights.append((picture, tall))
                    rows.append((picture.name, theme, width, f"{tall:.0f}"))
                    if too_high(picture, width, tall):
                        high.add(picture.name)
                context.close()
                print(written(folder, theme, width, heights), flush=True)
    with (FOLDER / "heights.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [("picture", "theme", "window", "height"), *rows]
        )
    above = ", ".join(sorted(high)) or "none"
    print(f"{len(pictures)} pictures; live views higher than {ROOM} px at 1366: {above}")


if __name__ == "__main__":
    main()
