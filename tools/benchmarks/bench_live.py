"""Live views of 1,024 GPUs in JupyterLab in a browser.

From a slider to a new picture, ours beside ipywidgets with matplotlib; and how long a frame takes while packets run.
A picture at first is computed; a reader who comes back to a setting gets what is kept of its run.

Where the 44 ms of a first picture go on two cores with nothing else to do (medians):

- 1 ms until the page has sent the new value, 2 ms until the kernel begins with it;
- 12 ms in Python: 7 in the run of the rings, 3 in the scene, 2 in what has changed of it and in its JSON;
- 4 ms back to the page; with Nagle's algorithm in the server they were 33 (binder/jupyter_server_config.py);
- 2 ms to merge the layers and fit the picture, 7 ms until the next frame begins, 5 ms to draw it;
- 11 ms until the frame after it, in which this program sees that the canvas is another one.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support.browser import browser  # noqa: E402
from support.jupyterlab import lab, live, run, visit  # noqa: E402

SEEDS, VIEWS = 20, 3  # positions of the slider; each view sees each of them for the first time
WANTED, AIM = 0.075, 0.05  # s
FRAME = 1 / 60  # s; a screen shows so many a second
WATCHED = 3_000  # ms, for which frames are watched
OURS = """import fabriclab as fl
hall = fl.topologies.build("rail_optimised")
fl.live.placement(hall)"""
PEER = """import ipywidgets, matplotlib.pyplot as plt, numpy as np
groups = np.array(fl.collectives.rail_groups(hall))
def show(seed):
    order = np.array([np.random.default_rng(seed).permutation(g) for g in groups])
    run = fl.simulate("all_reduce", "ring", hall, "1 GB", placement=order)
    fig, ax = plt.subplots(figsize=(7, 5))
    fl.views.draw(hall, ax, load=run.timeline)
    plt.show()
ipywidgets.interact(show, seed=ipywidgets.IntSlider(min=0, max=20));"""
# From the event of the slider to the first frame in which the canvas, or the image, is another one.
MOVE = """async ([value, peer]) => {
  const frame = () => new Promise((go) => requestAnimationFrame(go));
  const root = document.querySelector(peer ? ".widget-interact" : ".fl-live");
  const state = () => peer ? (root.querySelector("img") || {}).src : root.dataset.drawn;
  const before = state(), begin = performance.now();
  if (peer) root.querySelector(".noUi-handle").dispatchEvent(
    new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
  else {
    const rail = root.querySelector("[data-control=seed]");
    rail.value = value;
    rail.dispatchEvent(new Event("input", {bubbles: true}));
  }
  while (state() === before || state() === undefined) {
    await frame();
    if (performance.now() - begin > 5000) return null;
  }
  return (performance.now() - begin) / 1000;
}"""


# Notes when each frame began and how long its drawing kept the page busy [ms].
WATCH = """
window.frames_seen = [];
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (draw) => ask((now) => {
  const begin = performance.now();
  draw(now);
  window.frames_seen.push([now, performance.now() - begin]);
});
"""


def main() -> int:
    """Print the median and the 95th percentile of both, and of the frames."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    noise = f"load {load:.1f} on {cores} cores at the start" if load > cores / 2 else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        book = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(code) for code in (OURS, PEER)]
        )
        book.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(book, folder / "bench.ipynb")
        with lab(folder) as address, browser() as chrome:
            page = chrome.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(WATCH)
            visit(page, address, "bench.ipynb")
            run(page, 0)
            live(page, 0)
            report_frames(page, noise)
            first, again = [], []
            for _ in range(VIEWS):
                run(page, 0)
                live(page, 0)
                for times in (first, again):
                    times += [page.evaluate(MOVE, [seed + 1, False]) for seed in range(SEEDS)]
            report("ours, at first", first, noise)
            report("ours, again", again, noise)
            run(page, 1)
            page.wait_for_selector(".widget-interact img", timeout=30_000)
            report(
                "ipywidgets with matplotlib",
                [page.evaluate(MOVE, [i % 20 + 1, True]) for i in range(20)],
                "",
            )
    return 0


def report_frames(page, noise: str) -> None:
    """Print how long a frame takes while packets run on the links of the picture."""
    page.evaluate("() => { window.frames_seen = []; }")
    page.wait_for_timeout(WATCHED)
    seen = page.evaluate("() => window.frames_seen")
    if len(seen) < 3:
        print("frames: none, since nothing moves in this picture")
        return
    begun, busy = zip(*seen, strict=True)
    between = sorted((b - a) / 1e3 for a, b in itertools.pairwise(sorted({*begun})))
    drawing = sorted(ms / 1e3 for ms in busy)
    middle, late = (drawing[int(part * (len(drawing) - 1))] for part in (0.5, 0.95))
    met = "reached" if middle <= FRAME else "missed"
    print(
        f"frames: drawing takes {middle * 1e3:.1f} ms (median), {late * 1e3:.1f} ms (95th percentile),"
        f" {len(between)} frames, {between[len(between) // 2] * 1e3:.1f} ms apart (median),"
        f" wanted {FRAME * 1e3:.1f} ms: {f'not conclusive ({noise})' if noise else met}"
    )


def report(name: str, seconds: list[float | None], noise: str) -> None:
    """Print one line; a move without an answer counts as 5 s."""
    times = sorted(5.0 if s is None else s for s in seconds)
    median, late = times[len(times) // 2], times[int(0.95 * (len(times) - 1))]
    verdict = ""
    if name.startswith("ours"):
        met = "aim reached" if late <= AIM else "reached" if late <= WANTED else "missed"
        verdict = f", wanted {WANTED * 1e3:.0f} ms: {f'not conclusive ({noise})' if noise else met}"
    print(
        f"{name}: median {median * 1e3:.0f} ms, 95th percentile {late * 1e3:.0f} ms, {len(times)} moves{verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
