"""Kill a worker of a parameter server at a random point, again and again.

A program of its own, started with ``-c``: what starts by spawn would load pytest again for each process.
"""

import os
from pathlib import Path

import numpy as np
from fabriclab.exercises.graders.processes import Group

from fabriclab import exercises

STEPS, LENGTH, WORKERS = 5, "8 KiB", 3


def main(path, runs, seed):
    """Print in how many of the runs the worker died before it had ended; anything that is wrong is an error."""
    assert exercises.exercise(3)
    rng, before, pids, dead = np.random.default_rng(seed), sorted(os.listdir("/dev/shm")), set(), 0
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
    assert sorted(os.listdir("/dev/shm")) == before
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    print(dead)
