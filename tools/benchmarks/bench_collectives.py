"""Collectives with contention beside SimGrid, which replays the same flows on the same routes step by step.

Ours counts from the names of collective and algorithm to the time, route look-up included; SimGrid's side only its run,
without its start, the platform and the routes. The step ends of both must agree to 1 %, or the benchmark breaks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fabriclab import simulate, topologies
from pairs import interleaved

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from support.oracles.simgrid_runs import SIZE, installed, ours, simgrid

CASES = (  # algorithm, ports of a switch, ranks, seed of the order, ratio wanted
    ("ring", 8, 128, None, 50),
    ("ring", 8, 128, 1, 50),
    ("halving_doubling", 16, 1024, None, 10),
    ("halving_doubling", 16, 1024, 1, 10),
)
LARGE = (
    ("ring", 65536, None, 0.2),
    ("ring", 65536, 1, 1.5),
    ("halving_doubling", 16384, None, 0.4),
    ("halving_doubling", 16384, 1, 1.0),
)


def order(ranks: int, hosts: int, seed: int | None) -> np.ndarray:
    """Return the hosts of the ranks."""
    return (np.arange(hosts) if seed is None else np.random.default_rng(seed).permutation(hosts))[
        :ranks
    ]


def main() -> None:
    fabric = topologies.build("fat_tree", k=64)
    for name, ranks, seed, limit in LARGE:
        place = order(ranks, fabric.n_ranks, seed)
        pairs = interleaved(
            lambda a=name, p=place: simulate("all_reduce", a, fabric, "1 GiB", placement=p),
            lambda s=limit: s,
            5,
        )
        how = "in rank order" if seed is None else "shuffled"
        print(
            pairs.line(f"{name} over {ranks:,} ranks {how}, the peer is the limit", 1), flush=True
        )
    if not installed():
        print(
            "skipped: the system's Python has no simgrid; on Debian and Ubuntu: apt install python3-simgrid"
        )
        return
    for name, k, ranks, seed, wanted in CASES:
        tree = topologies.build("fat_tree", k=k)
        place = order(ranks, tree.n_ranks, seed)
        run = simulate("all_reduce", name, tree, SIZE, placement=place)
        case = tree, run.routes, run.flows
        if np.max(np.abs(ours(*case) / simgrid(*case)["ends"] - 1)) > 0.01:
            raise SystemExit(
                f"{run!r}: the step ends differ from those of SimGrid by more than 1 %"
            )
        pairs = interleaved(
            lambda a=name, t=tree, p=place: simulate("all_reduce", a, t, SIZE, placement=p),
            lambda c=case: simgrid(*c)["wall"],
            5,
        )
        how = "in rank order" if seed is None else "shuffled"
        print(pairs.line(f"{name} over {ranks:,} ranks {how}", wanted), flush=True)


if __name__ == "__main__":
    main()
