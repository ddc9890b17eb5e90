"""Collectives on fat trees in SimGrid, with our flows on our routes; run as a program, this module keeps them.

What is kept are the ends of the steps with barriers between them, or of the flows of a graph without.
"""

import csv
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np

from fabriclab import engines, routing, topologies
from fabriclab.collectives import build
from fabriclab.lower import lower

PYTHON = "/usr/bin/python3"  # SimGrid's binding is a package of the system
DATA = Path(__file__).parents[2] / "data/simgrid"
SIZE = 2.0**26  # B; every message is whole bytes
# name -> algorithm, ports of a switch, ranks, seed of the order (None: as the hosts stand), routing, graph (no barrier)
CASES = {
    "ring_128": ("ring", 8, 128, None, "ecmp", False),
    "ring_128_shuffled": ("ring", 8, 128, 1, "ecmp", False),
    "ring_128_shuffled_d_mod_k": ("ring", 8, 128, 1, "d_mod_k", False),
    "halving_doubling_128": ("halving_doubling", 8, 128, None, "ecmp", False),
    "halving_doubling_128_shuffled": ("halving_doubling", 8, 128, 1, "ecmp", False),
    "halving_doubling_100_shuffled": ("halving_doubling", 8, 100, 2, "ecmp", False),
    "ring_16_graph": ("ring", 4, 16, 3, "ecmp", True),
    "halving_doubling_16_graph": ("halving_doubling", 4, 16, 3, "ecmp", True),
}


def parts(algorithm, k, ranks, seed, method, graph):
    """Return the fabric, the routes and the flows of a case."""
    fabric = topologies.build("fat_tree", k=k)
    if graph:  # SimGrid weighs flows by delay, as TCP does, which decides nothing while all of a step wait for the last
        fabric = replace(fabric, delay=np.zeros(fabric.n_links))
    order = (
        np.arange(fabric.n_ranks)
        if seed is None
        else np.random.default_rng(seed).permutation(fabric.n_ranks)
    )
    plan = build("all_reduce", algorithm, ranks)
    flows = lower(plan, fabric, SIZE, placement=order[:ranks], expand=graph)
    return fabric, routing.route(fabric, flows, method), flows


def ours(fabric, routes, flows):
    """Return the ends that SimGrid is asked for, from the flow engine [s]."""
    run = engines.run(fabric, routes, flows)
    if not flows.is_sequence:
        return run.finish
    pairs = zip(run.group_start, run.period, flows.repeat.tolist(), strict=True)
    return np.concatenate([begin + period * np.arange(1, n + 1) for begin, period, n in pairs])


def question(fabric, routes, flows):
    """Return what SimGrid is asked: links in use, the route of each pair, and the flows."""
    host = np.full(fabric.n_nodes, -1)
    host[fabric.endpoint] = np.arange(fabric.n_ranks)
    each = list(
        zip(
            host[flows.source].tolist(),
            host[flows.target].tolist(),
            flows.size.astype(int).tolist(),
            strict=True,
        )
    )
    ways = {each[f][:2]: routes.row(r).tolist() for r, f in enumerate(routes.flow.tolist())}
    used = np.unique(routes.link)
    ask = {
        "hosts": fabric.n_ranks,
        "routes": [(*ends, links) for ends, links in ways.items()],
        "links": list(
            zip(
                used.tolist(),
                fabric.capacity[used].tolist(),
                fabric.delay[used].tolist(),
                strict=True,
            )
        ),
    }
    if flows.is_sequence:
        return {
            **ask,
            "steps": [(n, each[flows.of_group(g)]) for g, n in enumerate(flows.repeat.tolist())],
        }
    rows = np.split(flows.after, flows.after_ptr[1:-1])
    return {**ask, "flows": each, "after": [row.tolist() for row in rows]}


def installed():
    """Return whether the system has SimGrid's binding."""
    there = Path(PYTHON).exists()
    return (
        there
        and not subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True).returncode
    )


def simgrid(*case):
    """Return SimGrid's answer: ``ends`` [s] and the ``wall`` time of its run [s]."""
    file = Path(__file__).with_name("simgrid_replay.py")
    text = json.dumps(question(*case))
    done = subprocess.run(
        [PYTHON, str(file)], input=text, capture_output=True, check=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def kept(name):
    """Return the ends that are kept [s]."""
    with (DATA / f"{name}.csv").open() as file:
        return np.array([float(row["end_s"]) for row in csv.DictReader(file)])


if __name__ == "__main__":
    for name, case in CASES.items():
        ends = simgrid(*parts(*case))["ends"]
        lines = [
            f"{'flow' if case[-1] else 'step'},end_s",
            *(f"{i},{end:.9e}" for i, end in enumerate(ends)),
        ]
        (DATA / f"{name}.csv").write_text("\n".join(lines) + "\n")
