"""The pictures of the README and of the index of lessons: ``python tools/front_door.py`` makes them anew.

``docs/img/hero.gif`` is a recording of a live view in a browser, moved as a reader would move it; the others are
photographs of views. It needs a browser of Chromium's family and takes about a minute.
"""

import argparse
import io
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import fabriclab as fl  # noqa: E402
from support.browser import browser, settled, show  # noqa: E402

FOLDER = ROOT / "docs" / "img"
PAPER, INK = (
    "#111111",
    "#eaedf1",
)  # the pictures are dark, as most terminals and many pages of code are
WIDTH = 960  # px of a card
NARROW = 432  # px of the card in the moving picture, about what a phone shows, so that words keep their size there
FRAME = 100  # ms
COLOURS = 96  # of the moving picture

# What the hero does: how long it shows each state [frames], and what the hand moves next.
DISTANCES = (2, 3, 4, 1)
HOLD, MOVE, END = 16, 4, 34


def page_of(chrome, *, still=True, width=WIDTH):
    """Return a dark page that is as wide as a card."""
    motion = "reduce" if still else "no-preference"
    size = {"width": width + 32, "height": 768}
    return chrome.new_page(viewport=size, color_scheme="dark", reduced_motion=motion)


def style(width=WIDTH):
    """Return the style of the page around a card."""
    return f"body{{background:{PAPER};color:{INK};margin:16px}}#root{{width:{width}px}}"


# The card of the moving picture: words of its head are larger than usual, and its foot, which nobody can press, is
# left out. The finding has the height of the longest, since all frames have one size.
LARGER = (
    ".fl-live .fl-head{padding:12px 16px 8px}.fl-live .fl-said{font-size:21px;height:156px}"
    ".fl-live .fl-said em,.fl-live .fl-control{font-size:17px}.fl-live .fl-foot,.fl-live .fl-wider{display:none}"
)


def without_side(scene, **values):
    """Return a scene without the panel beside it."""
    return replace(scene(**values), side=None)


def hero(chrome):
    """Record the dragonfly: with minimal routes 3 % at any distance, with detours 48 % to the next group."""
    fabric = fl.topologies.build("dragonfly", p=4, a=8, h=4)
    page = page_of(chrome, still=False, width=NARROW)
    view = fl.live.distance(fabric)
    scene = partial(without_side, view._make)
    ring = fl.live.Live(view.code, scene, view.controls, view.values, view.title)
    show(page, ring, style=style(NARROW) + LARGER)
    card = page.locator(".fl-live")
    frames = []

    def record(count):
        for _ in range(count):
            frames.append(Image.open(io.BytesIO(card.screenshot())).convert("RGB"))

    def slide(value):
        page.evaluate(
            """(value) => { const rail = document.querySelector("[data-control=groups]");
              rail.value = value; rail.dispatchEvent(new Event("input", {bubbles: true})); }""",
            value,
        )
        settled(page)

    record(HOLD)
    for distance in DISTANCES:
        slide(distance)
        record(MOVE)
    page.locator("input[type=radio][value=valiant]").check(force=True)
    settled(page)
    record(END)
    page.close()
    saved(frames, FOLDER / "hero.gif")


def saved(frames, file):
    """Write frames as a moving picture with one palette, since a palette for each frame would flicker."""
    wall = Image.new("RGB", (frames[0].width, 2 * frames[0].height))
    wall.paste(frames[0], (0, 0))
    wall.paste(frames[-1], (0, frames[0].height))
    palette = wall.quantize(COLOURS, dither=Image.Dither.NONE)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    drawn[0].save(file, save_all=True, append_images=drawn[1:], duration=FRAME, loop=0)


def guess(chrome):
    """Photograph the card of a learner who guessed 3 times, and computes how much detours bring."""
    fabric = fl.topologies.build("dragonfly", p=4, a=8, h=4)
    view = fl.live.distance(fabric)
    neighbour = fl.metrics.shift(fabric, fabric.n_ranks // (view.controls["groups"].high + 1))
    minimal, detours = (
        fl.metrics.throughput(fabric, neighbour, routing).part for routing in ("minimal", "valiant")
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FABRICLAB_PROGRESS"] = str(Path(folder) / "progress.json")
        fl.predict("22-detour", 3, "times", low=1, high=20)
        card = fl.reveal("22-detour", detours / minimal)
        photographed(chrome, card, "guess")
        del os.environ["FABRICLAB_PROGRESS"]


def straggler(chrome):
    """Photograph one slow GPU, whose lateness spreads to all others."""
    page = page_of(chrome)
    show(page, fl.live.straggler(), style=style())
    page.locator(".fl-live").screenshot(path=str(FOLDER / "straggler.png"))
    page.close()


def compare(chrome):
    """Photograph a formula beside the published all-reduce of ten servers, as lesson 31 holds them together."""
    case = fl.case()
    ten = fl.catalog.published.load("xx_10n_g1_all_reduce")
    ring = fl.collectives.closed_form("all_reduce", "ring")
    time = ring(ten.size, 10, case.ring_step_latency, case.nic_rate)
    model = fl.core.Result("all_reduce", "predicted", ten.size, time, 10)
    runs = {"10 servers": ten, "ring formula": model}
    bounds = {"one NIC": case.nic_rate}
    photographed(chrome, fl.views.sweep(runs, y="busbw", bounds=bounds, error=True), "compare")


def photographed(chrome, shown, name):
    """Photograph what a notebook shows of a value, without its folded numbers."""
    page = page_of(chrome)
    html = shown._repr_mimebundle_()
    html = html[0] if isinstance(html, tuple) else html
    page.set_content(
        f"<style>{style()}details{{display:none}}</style><div id=root>{html['text/html']}</div>"
    )
    page.locator("#root > *").first.screenshot(path=str(FOLDER / f"{name}.png"))
    page.close()


PICTURES = {"hero": hero, "guess": guess, "straggler": straggler, "compare": compare}


def main(argv=None):
    """Make the pictures that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", nargs="*", help=f"of {', '.join(PICTURES)}; all unless given")
    asked = parser.parse_args(argv)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with browser() as chrome:
        for name in asked.pictures or PICTURES:
            PICTURES[name](chrome)
            print(f"made: {name}", flush=True)


if __name__ == "__main__":
    main()
