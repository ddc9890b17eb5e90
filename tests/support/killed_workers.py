"""Kill a worker of a parameter server at a random point, again and again.

A program of its own, started with ``-c``: what starts by spawn would load pytest again for each process.
"""

from pathlib import Path

import numpy as np

from fabriclab.course import judges
from fabriclab.course.judges.exercise3.processes import Group

STEPS, LENGTH, WORKERS = 5, "8 KiB", 3


def main(path, kills, seed):
    """Train until a worker has died so many times before it had ended; anything that is wrong is an error."""
    assert judges.exercise(3)
    rng, pids, dead, runs = np.random.default_rng(seed), set(), 0, 0
    with Group("server", "worker", WORKERS, path) as group:
        # How many functions a worker calls, on the device as it is and in its adversarial mode, and how long it takes.
        whole = [group.run(STEPS, 1, LENGTH, kill=0, after=10**9, adversary=a) for a in (None, 1)]
        calls, seconds = [run["counters"][0]["calls"] for run in whole], whole[0]["seconds"]
        while dead < kills:
            mode, runs, rank = runs % 2, runs + 1, int(rng.integers(WORKERS))
            after = int(rng.integers(calls[mode])) if runs % 4 else float(rng.uniform(0, seconds))
            asked = {"kill": rank, "after": after, "adversary": runs if mode else None}
            done = group.run(STEPS, int(rng.integers(3)), LENGTH, **asked)
            assert done["problems"] == [] and done["dead"] in ([], [rank]) and runs < 5 * kills, (
                runs,
                asked,
                done,
            )
            dead += len(done["dead"])
            if not done["dead"]:  # it had ended before: look for points that are earlier
                total = done["counters"][rank]["calls"] or calls[mode]
                calls[mode] = min(calls[mode], max(100, (calls[mode] + total) // 2))
                seconds = min(seconds, (seconds + done["seconds"]) / 2)
            pids |= {*group.pids}
    # Segments have no name: they are gone with the processes that map them.
    assert "fabriclab-rdma" not in Path("/proc/self/maps").read_text()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    print(dead, runs)
