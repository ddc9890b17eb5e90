"""Collectives under contention beside SimGrid, a flow-level simulator: kept runs, and fresh ones where it is there."""

import pytest

from fabriclab import engines
from support.oracles.simgrid_runs import CASES, installed, kept, ours, parts, simgrid

WITHIN = 0.01
needs_simgrid = pytest.mark.skipif(
    not installed(), reason="the system's Python has no simgrid (python3-simgrid)"
)


@pytest.mark.parametrize("name", CASES)
def test_what_simgrid_ended_ends_then_here_too(name):
    assert ours(*parts(*CASES[name])) == pytest.approx(kept(name), rel=WITHIN)


def test_it_is_contention_that_agrees():
    """Alone, flows would end in half the time."""
    for name in ("ring_128_shuffled", "halving_doubling_128", "halving_doubling_16_graph"):
        assert engines.run(*parts(*CASES[name]), "ideal").end < 0.5 * kept(name).max()


@pytest.mark.slow
@needs_simgrid
@pytest.mark.parametrize("name", CASES)
def test_simgrid_says_again_what_is_kept(name):
    assert simgrid(*parts(*CASES[name]))["ends"] == pytest.approx(kept(name), rel=1e-6)


@pytest.mark.slow
@needs_simgrid
@pytest.mark.parametrize(
    "case",
    [
        ("ring", 8, 96, 4, "ecmp", False),
        ("halving_doubling", 16, 1024, 4, "ecmp", False),
        ("halving_doubling", 8, 64, 5, "d_mod_k", True),
    ],
)
def test_other_orders_and_a_larger_tree_agree_too(case):
    made = parts(*case)
    assert ours(*made) == pytest.approx(simgrid(*made)["ends"], rel=WITHIN)
