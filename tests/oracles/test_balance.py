"""The fullest of equal cables under a fair hash: published exact values, enumeration, and the hash itself."""

import csv
import itertools

import numpy as np
import pytest

from fabriclab.routing.ecmp import expected_fullest
from fabriclab.routing.shortest import hashed
from support import DATA

ROWS = list(csv.DictReader((DATA / "ecmp_loadbalance.csv").read_text("utf-8").splitlines()))


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r["attribute"] == "expected_max_flows"], ids=lambda r: r["id"]
)
def test_the_exact_values(row):
    flows, cables = (int(part[1:]) for part in row["id"].split("_")[1:])
    assert expected_fullest(flows, cables) == pytest.approx(float(row["value"]), abs=6e-6)


@pytest.mark.parametrize(("flows", "cables"), [(1, 5), (3, 2), (5, 3), (4, 1)])
def test_every_way_to_draw(flows, cables):
    every = itertools.product(range(cables), repeat=flows)
    assert expected_fullest(flows, cables) == pytest.approx(
        np.mean([np.bincount(way).max() for way in every])
    )


def test_the_hash_is_as_fair_as_the_formula():
    seeds = [
        np.bincount((hashed(s, np.arange(32)) % np.uint64(32)).astype(int)).max()
        for s in range(4000)
    ]
    assert np.mean(seeds) == pytest.approx(
        expected_fullest(32, 32), abs=4 * np.std(seeds) / 4000**0.5
    )


@pytest.mark.parametrize(("flows", "cables"), [(1024, 16), (1024, 2), (1024, 1024), (100, 1000)])
def test_large_counts_are_those_of_a_simulation(flows, cables):
    draws = (
        np.random.default_rng(0)
        .multinomial(flows, np.full(cables, 1 / cables), size=4000)
        .max(axis=1)
    )
    assert expected_fullest(flows, cables) == pytest.approx(
        draws.mean(), abs=4 * draws.std() / 4000**0.5
    )


def test_no_flow_is_refused():
    with pytest.raises(ValueError, match=r"flows must be within 1\.\.1024, got 0"):
        expected_fullest(0, 4)
