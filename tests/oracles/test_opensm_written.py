"""What our subnet manager writes is read by another program, which follows it from switch to switch."""

import ast
import csv
import subprocess
import sys

import numpy as np
import pytest

from fabriclab import operations, topologies
from support import DATA

CHECK = DATA / "opensm" / "check_lfts.py"
CASES = {
    # fabric, engine -> mean hops between switches, at most so many, and whether one virtual lane suffices
    ("fat_tree", "updn"): (4.467, 5, True),
    ("fat_tree", "ftree"): (4.467, 5, True),
    ("torus", "updn"): (3.133, 5, True),
    ("torus", "dor"): (3.133, 5, False),
    ("dragonfly", "updn"): (3.605, 6, True),
    ("dragonfly", "minhop"): (3.205, 4, False),
}
FABRICS = {
    "fat_tree": topologies.build("fat_tree", k=4, rate="400 Gb/s"),
    "torus": topologies.build("torus", shape=(4, 4), hosts=1, rate="400 Gb/s"),
    "dragonfly": topologies.build("dragonfly", p=2, a=4, h=1, rate="400 Gb/s"),
}


@pytest.mark.parametrize(("family", "engine"), CASES)
def test_another_program_follows_our_tables(family, engine, tmp_path):
    swept = operations.sweep(FABRICS[family])
    tables = operations.forwarding_tables(swept, engine)
    (tmp_path / "opensm-lfts.dump").write_text(operations.write_forwarding_tables(tables))
    (tmp_path / "opensm-subnet.lst").write_text(operations.write_subnet_list(swept))
    command = [sys.executable, CHECK, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    row = next(csv.DictReader(done.stdout.splitlines()))
    mean, most, free = CASES[family, engine]
    assert int(row["unreachable"]) == 0
    assert int(row["hosts"]) == FABRICS[family].n_ranks
    assert float(row["mean_sw_hops"]) == pytest.approx(mean, abs=0.001)
    assert int(row["max_sw_hops"]) == most
    assert ast.literal_eval(row["one_vl_deadlock_free"]) is free


@pytest.mark.parametrize("family", FABRICS)
def test_our_texts_are_read_back(family):
    fabric = FABRICS[family]
    swept = operations.sweep(fabric)
    tables = operations.forwarding_tables(swept)
    subnet = operations.read_ibnetdiscover(operations.write_ibnetdiscover(swept))
    assert subnet.fabric.n_nodes == fabric.n_nodes and subnet.fabric.n_cables == fabric.n_cables
    assert sorted(subnet.names) == sorted(fabric.name(n) for n in range(fabric.n_nodes))
    assert set(subnet.fabric.capacity) == set(fabric.capacity)
    table = operations.read_forwarding_tables(operations.write_forwarding_tables(tables), subnet)

    # by names: the next node of every switch towards every rank
    def ahead(fabric, names, table):
        found = {}
        for node, rank in np.argwhere(table >= 0).tolist():
            if fabric.transit[node]:
                goal = names[int(fabric.endpoint[rank])]
                found[names[node], goal] = names[int(fabric.target[table[node, rank]])]
        return found

    ours = ahead(fabric, [fabric.name(n) for n in range(fabric.n_nodes)], tables.next_link)
    assert ahead(subnet.fabric, list(subnet.names), table) == ours


def test_a_rate_that_infiniband_does_not_have_is_refused():
    odd = topologies.build("leaf_spine", hosts=8, radix=4, rate="37 Gb/s")
    with pytest.raises(ValueError, match=r"no InfiniBand link has .*; the nearest is "):
        operations.write_ibnetdiscover(operations.sweep(odd))
