"""`expert_time` against the published times of DeepEP's low-latency kernels."""

import numpy as np
import pytest

from fabriclab import catalog
from fabriclab.collectives import expert_tables, expert_time

SIZES = (16, 32, 64, 128, 256)  # GPUs
HIDDEN = 7168  # of a token
TOKENS, CHOICES = 128, 8  # of each GPU; experts of each token
# A number of dispatch has a byte and a scale of 4 bytes for 128 numbers; one of combine has two bytes.
TOKEN_SIZE = {"dispatch": HIDDEN + HIDDEN // 128 * 4, "combine": 2 * HIDDEN}  # B
NIC = 400e9 / 8  # B/s; 400 Gb/s for each GPU
NVLINK = 200e9  # B/s; H800: 8 links of 25 GB/s


def seconds(kind, n, alpha):
    rng = np.random.default_rng(n)
    experts = np.array([rng.choice(256, CHOICES, replace=False) for _ in range(n * TOKENS)])
    chosen = (experts * n // 256).reshape(n, TOKENS, CHOICES)
    tables = expert_tables(chosen, "low_latency", per_server=8, combine=kind == "combine")
    # The gate of the benchmark is random, so each port has about the mean; the busiest one has some more.
    return expert_time(tables, TOKEN_SIZE[kind], alpha=alpha, nic=NIC, nvlink=NVLINK, per_server=8)


def measured(kind, n):
    return catalog.value("measured", f"deepep-ll-{n}", f"{kind}_latency")


@pytest.mark.parametrize("kind", ["dispatch", "combine"])
def test_one_start_up_from_the_smallest_system_gives_the_others(kind):
    """The start-up is that of 16 GPUs; nothing else is fitted. Times of 32 to 256 GPUs follow within 10 %."""
    alpha = measured(kind, 16) - seconds(kind, 16, 0.0)
    assert 20e-6 < alpha < 60e-6
    errors = {n: seconds(kind, n, alpha) / measured(kind, n) - 1 for n in SIZES[1:]}
    assert max(map(abs, errors.values())) < 0.10, errors
    assert np.median([*map(abs, errors.values())]) < 0.05, errors


@pytest.mark.parametrize("kind", ["dispatch", "combine"])
def test_nobody_is_faster_than_the_ports(kind):
    for n in SIZES:
        assert seconds(kind, n, 0.0) < measured(kind, n)
