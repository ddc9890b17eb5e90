"""The flow engine against SimGrid: same flows on the same routes of a fat-tree, first run against first run.

Both sides run in a fresh process each time, without imports, loading of compiled kernels, reading or search
for routes. Without numba the NumPy form is timed, and misses what is wanted. Rates and finish times must
agree to 1e-9, or the benchmark breaks.

"To the end" is the public call.

"One solve" is the rates of all flows and the end of the first, from a system that stands, and after a solve
of one flow, which loads what a first solve loads. Outside the clock each side sets up what it keeps for its
links and flows: SimGrid as it starts each flow, we in `SharedLinks` and its room for the kernels (0.3 ms),
without the checks of `max_min_rates` and with all weights 1. Inside it SimGrid solves, looks through the
flows for the first end, moves to the next tick and wakes the program that waits; we solve and take the
lowest of sizes over rates. SimGrid's heap of ends, with which it goes on faster, is switched off here: it
takes 2 to 4 of 20 ms. Before, our clock had our set-up in it, and SimGrid's clock had the heap.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from pairs import interleaved

PYTHON = "/usr/bin/python3"  # SimGrid's binding is a package of the system
HERE = Path(__file__).resolve().parent
AGREE = 1e-9
CASES = (  # what, radix, flows, mixed sizes, until, pairs, ratio wanted
    ("one solve, 1,024 hosts, 10,000 flows", 16, 10_000, False, "solve", 9, 10),
    ("one solve, 3,456 hosts, 10,000 flows", 24, 10_000, False, "solve", 9, 20),
    ("to the end, 1,024 hosts, 3,500 mixed sizes", 16, 3_500, True, "end", 3, 10),
    ("to the end, 3,456 hosts, 10,000 equal sizes", 24, 10_000, False, "end", 3, 6),
)


def answer_of(file: Path) -> dict[str, Any]:
    """Return SimGrid's answer with its links numbered and its routes as compressed rows."""
    answer: dict[str, Any] = json.loads(file.read_text())
    number: dict[str, int] = {}
    answer["link"] = np.array(
        [number.setdefault(name, len(number)) for route in answer["routes"] for name in route]
    )
    answer["ptr"] = np.concatenate([[0], np.cumsum([len(route) for route in answer["routes"]])])
    answer["capacity"] = np.full(len(number), answer["rate"])
    return answer


def solve(answer: dict[str, Any]) -> tuple[float, float]:
    """Return the time of the first solve [s] and the largest relative difference to SimGrid's rates."""
    from fabriclab import compiled
    from fabriclab.engines import _levels
    from fabriclab.engines._rows import SharedLinks

    compiled.fast(_levels.fill)
    alone, capacity = np.array([0]), np.array([1.0])  # one flow on one link
    SharedLinks(np.array([0, 1]), alone, capacity).levels(alone, capacity)

    rows = np.arange(len(answer["sizes"]))
    sizes = np.array(answer["sizes"], float)
    shared = SharedLinks(answer["ptr"], answer["link"], answer["capacity"])
    shared.scratch()
    begin = perf_counter()
    rates = shared.levels(rows, answer["capacity"])
    (sizes / rates).min()
    return perf_counter() - begin, float(np.max(np.abs(rates / answer["rates"] - 1)))


def run(answer: dict[str, Any]) -> tuple[float, float]:
    """Return the time of a run to the last end [s] and the largest relative difference to SimGrid's finish times."""
    from fabriclab import compiled, engines
    from fabriclab.core import PATH, FabricBuilder, Flows, Routes
    from fabriclab.engines import _levels

    n, n_links = len(answer["sizes"]), answer["capacity"].size
    builder = FabricBuilder(("end",), ("place",))
    ends = builder.add_nodes("end", 2, tier=0, transit=False, place=[0, 1])
    builder.add_cables(
        np.zeros(n_links, int), np.ones(n_links, int), capacity=answer["capacity"], ports=0
    )
    fabric = builder.build("links", {}, endpoint=ends, rail=[0, 0], server=[0, 1])
    one, none = np.ones(answer["link"].size), np.zeros(n)
    routes = Routes(
        answer["ptr"],
        2 * answer["link"],
        one,
        np.arange(n),
        none + 1,
        none,
        np.full(n, PATH),
        np.zeros(n, bool),
    )
    flows = Flows.make(0, 1, np.array(answer["sizes"], float))
    engines.names()  # loads the engines
    compiled.fast(_levels.share)
    begin = perf_counter()
    finish = engines.run(fabric, routes, flows).finish
    return perf_counter() - begin, float(np.max(np.abs(finish / answer["finish"] - 1)))


def ours(file: Path, until: str) -> float:
    """Time our side in a process of its own [s]."""
    command = [sys.executable, __file__, str(file), until]
    seconds, difference = json.loads(
        subprocess.run(command, capture_output=True, check=True, text=True).stdout
    )
    if not difference <= AGREE:
        raise SystemExit(f"ours and SimGrid's differ by {difference:.2g}, more than {AGREE:g}")
    return float(seconds)


def simgrid(question: dict[str, Any], file: Path) -> float:
    """Time SimGrid in a process of its own [s]; its answer is written to ``file``."""
    command, text = (
        [PYTHON, str(HERE / "simgrid_flows.py")],
        json.dumps({"seed": 1, **question, "out": str(file)}),
    )
    done = subprocess.run(command, input=text, capture_output=True, check=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])["wall"])


def main() -> None:
    probe = (
        subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True)
        if Path(PYTHON).exists()
        else None
    )
    if probe is None or probe.returncode:
        print(
            f"skipped: {PYTHON} has no simgrid; on Debian and Ubuntu: apt install python3-simgrid"
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        file, again = Path(folder, "answer.json"), Path(folder, "again.json")
        for what, radix, flows, mixed, until, n_pairs, wanted in CASES:
            question = {"radix": radix, "flows": flows, "mixed": mixed, "until": until}
            simgrid(question, file)
            pairs = interleaved(
                lambda u=until: ours(file, u), lambda q=question: simgrid(q, again), n_pairs
            )
            print(pairs.line(what, wanted), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps({"solve": solve, "end": run}[sys.argv[2]](answer_of(Path(sys.argv[1])))))
    else:
        main()
