"""Kill a worker of a parameter server at a random point, again and again.

A program of its own, started with ``-c``: what starts by spawn would load pytest again for each process.
"""

from pathlib import Path

import numpy as np
from fabriclab.exercises.graders.processes import Group

from fabriclab import exercises

STEPS, LENGTH, WORKERS = 5, "8 KiB", 3


def main(path, runs, seed):
    """Print in how many of the runs the worker died before it had ended; anything that is wrong is an error."""
    assert exercises.exercise(3)
    rng, pids, dead = np.random.default_rng(seed), set(), 0
    with Group("server", "worker", WORKERS, path) as group:
        # How many functions a worker calls, on the device as it is and in its adversarial mode.
        whole = [group.run(STEPS, 1, LENGTH, kill=0, after=10**9, adversary=a) for a in (None, 1)]
        calls, seconds = [run["counters"][0]["calls"] for run in whole], whole[0]["seconds"]
        for i in range(runs):
            after = int(rng.integers(calls[i % 2])) if i % 4 else float(rng.uniform(0, seconds))
            asked = {"kill": int(rng.integers(WORKERS)), "after": after, "adversary": i if i % 2 else None}
            done = group.run(STEPS, int(rng.integers(3)), LENGTH, **asked)
            assert done["problems"] == [], (i, asked, done)
            dead += done["dead"] == [asked["kill"]]
            pids |= {*group.pids}
    # Segments have no name: they are gone with the processes that map them.
    assert "fabriclab-rdma" not in Path("/proc/self/maps").read_text()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    print(dead)
