"""A real subnet manager as oracle: stored dumps, and fresh runs where OpenSM and its simulator are installed."""

import ast
import csv
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from fabriclab import routing, topologies
from fabriclab.core import Flows
from fabriclab.errors import FileFormat
from fabriclab.operations import read_forwarding_tables, read_ibnetdiscover
from support import DATA
from support.oracles.routes import check_routes

DUMPS = DATA / "opensm"
# fabric and engine -> our fabric, our routing of the same kind
STORED = {
    "fattree_k4_ftree": (topologies.build("fat_tree", k=4), "d_mod_k"),
    "torus_4x4_dor": (topologies.build("torus", shape=(4, 4), hosts=1), "dimension_order"),
    "dragonfly_a4h1p2_minhop": (topologies.build("dragonfly", p=2, a=4, h=1), "shortest"),
}
needs_sm = pytest.mark.skipif(
    not all(map(shutil.which, ("opensm", "ibsim", "ibnetdiscover"))),
    reason="opensm, ibsim or infiniband-diags missing",
)


def every_pair(fabric):
    n = fabric.n_ranks
    one, other = (a[~np.eye(n, dtype=bool)] for a in np.indices((n, n)))
    return Flows.make(fabric.endpoint[one], fabric.endpoint[other], 1.0)


def figures(fabric, routing_of):
    """Return what check_lfts.py reads off a dump, for routes that a function returns; `shifts` has the rest."""
    flows = every_pair(fabric)
    routes = routing_of(flows)
    inner = fabric.transit[fabric.source] & fabric.transit[fabric.target]
    hops = routes.hops() - 1
    return {
        "hosts": fabric.n_ranks,
        "switches": int(fabric.transit.sum()),
        "unreachable": flows.n_flows - routes.n_rows,
        "max_sw_hops": hops.max(),
        "mean_sw_hops": round(hops.mean(), 3),
        "one_vl_deadlock_free": routing.deadlock(fabric, routes) == (),
        "max_pairs_per_link": routes.link_bytes(flows, fabric.n_links)[inner].max(),
    }


def shifts(fabric, routing_of):
    """Return mean and most of the flows on the fullest cable over all cyclic shifts of the ranks, as it does."""
    worst = []
    for by in range(1, fabric.n_ranks):
        flows = Flows.make(fabric.endpoint, np.roll(fabric.endpoint, -by), 1.0)
        worst.append(routing_of(flows).link_bytes(flows, fabric.n_links).max())
    return {"shift_mean_worst": round(np.mean(worst), 3), "shift_worst": max(worst)}


@pytest.fixture(scope="module")
def read_off():
    """Return what another program reads off each of the stored dumps: it follows them from switch to switch."""
    command = [sys.executable, DUMPS / "check_lfts.py", *(DUMPS / name for name in STORED)]
    table = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return {
        row.pop("engine"): {k: ast.literal_eval(v) for k, v in row.items() if k != "fabric"}
        for row in csv.DictReader(table.splitlines())
    }


def hop_matrix(fabric, routes):
    """Return the hops between all ranks, (R, R), from routes of `every_pair`."""
    n = fabric.n_ranks
    out = np.zeros((n, n))
    out[~np.eye(n, dtype=bool)] = routes.hops()
    return out


def read(folder):
    subnet = read_ibnetdiscover(folder / "ibnetdiscover.txt")
    return subnet, read_forwarding_tables(folder / "opensm-lfts.dump", subnet)


# stored dumps -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", STORED)
def test_stored_tables_have_the_figures_that_another_program_reads(name, read_off):
    subnet, table = read(DUMPS / name)
    fabric = subnet.fabric
    check_routes(routing.from_tables(fabric, every_pair(fabric), table), fabric, every_pair(fabric))

    def stored(flows):
        return routing.from_tables(fabric, flows, table)

    assert figures(fabric, stored) | shifts(fabric, stored) == read_off[name]


@pytest.mark.parametrize("name", STORED)
def test_our_routing_has_the_same_hops_on_its_fabric(name):
    subnet, table = read(DUMPS / name)
    theirs = routing.from_tables(subnet.fabric, every_pair(subnet.fabric), table)
    ours = routing.route(
        subnet.fabric,
        every_pair(subnet.fabric),
        STORED[name][1] if "dor" not in name else "shortest",
    )
    assert np.array_equal(theirs.hops(), ours.hops())


@pytest.mark.parametrize("name", STORED)
def test_our_fabric_is_theirs(name):
    subnet, _ = read(DUMPS / name)
    fabric = STORED[name][0]
    assert fabric.summary()["cables"] == subnet.fabric.n_cables
    ours, theirs = (
        np.sort(hop_matrix(f, routing.route(f, every_pair(f), "shortest")), axis=None)
        for f in (fabric, subnet.fabric)
    )
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["fattree_k4_ftree", "torus_4x4_dor"])
def test_our_routing_is_as_good_on_our_fabric(name, read_off):
    fabric, method = STORED[name]

    def own(flows):
        return routing.route(fabric, flows, method)

    # names put their ranks into our order
    assert figures(fabric, own) | shifts(fabric, own) == read_off[name]


def test_names_and_rates_are_kept():
    subnet, table = read(DUMPS / "fattree_k4_ftree")
    assert repr(subnet) == "<Subnet: 16 host, 20 switch, 48 cables, 16 ranks>"
    assert subnet.names[:2] == ("H0_0_0", "H0_0_1")
    assert set(subnet.fabric.capacity) == {1e9}  # 4 lanes of SDR: 8 Gb/s after coding
    assert np.unique(subnet.fabric.tier, return_counts=True)[1].tolist() == [16, 8, 8, 4]
    other = read_forwarding_tables(DUMPS / "fattree_k4_ftree/dump_fts.txt", subnet)
    assert np.array_equal(table, other)


def test_lanes_and_speed_make_the_rate():
    lines = text().replace("4xSDR", "4xXDR")
    assert set(read_ibnetdiscover(lines).fabric.capacity) == {100e9}
    assert set(read_ibnetdiscover(text().replace("4xSDR", "1xQDR")).fabric.capacity) == {1e9}


# refusals -----------------------------------------------------------------------------------------
def text(name="fattree_k4_ftree", file="ibnetdiscover.txt"):
    return (DUMPS / name / file).read_text("utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda t: t.replace("4xSDR", "4xZDR", 1),
            r"line 11: the catalog knows no InfiniBand speed 'ZDR'",
        ),
        (
            lambda t: t.replace("4xSDR", "4xFDR10", 1),
            r"line 11: .* no InfiniBand speed 'FDR10'; it has SDR, .*XDR",
        ),
        (lambda t: t.replace("4xSDR", "0xSDR", 1), r"line 11: must be a port"),
        (
            lambda t: t.replace('[1]\t"H-', '[one]\t"H-', 1),
            r"line 11: must be a port such as \[1\]",
        ),
        (
            lambda t: t.replace('10001c"[1](', '10001c"[7](', 1),
            r"line 11: .*which does not lead back",
        ),
        (lambda t: "nothing\nhere\n", r"holds no port of any node; give what ibnetdiscover prints"),
    ],
)
def test_a_spoiled_fabric_is_refused_by_line(change, said):
    with pytest.raises(FileFormat, match=said):
        read_ibnetdiscover(change(text()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda t: t.replace("guid 0x0000000000200000", "guid 0x0000000000999999"),
            r"line 1: switch 0+999999",
        ),
        (
            lambda t: t.replace("0x0001 001", "0x0001 009", 1),
            r"line 2: port 9 of E0_0 has no cable",
        ),
        (lambda t: "nothing\nhere\n", r"holds no forwarding table"),
    ],
)
def test_spoiled_tables_are_refused_by_line(change, said):
    subnet = read_ibnetdiscover(text())
    with pytest.raises(FileFormat, match=said):
        read_forwarding_tables(change(text(file="opensm-lfts.dump")), subnet)


# fresh runs ---------------------------------------------------------------------------------------
def net_file(fabric):
    """Return a fabric in the language of ibsim: hosts first, ports of each node by the number of the link."""
    ptr, order = fabric.out
    port = np.empty(fabric.n_links, dtype=int)
    port[order] = np.arange(fabric.n_links) - ptr[fabric.source[order]] + 1
    out = []
    for node in np.argsort(fabric.transit, kind="stable").tolist():
        kind = "Switch" if fabric.transit[node] else "Hca"
        out.append(f'{kind} {ptr[node + 1] - ptr[node]} "n{node}"')
        out += [
            f'[{port[x]}] "n{fabric.target[x]}"[{port[x ^ 1]}]'
            for x in order[ptr[node] : ptr[node + 1]].tolist()
        ]
        out.append("")
    return "\n".join(out)


def ask(fabric, engine, folder):
    """Return the subnet and the tables that OpenSM computes for a fabric, and the engine that it says it used."""
    net = folder / "fabric.net"
    net.write_text(net_file(fabric))
    command = ["bash", DUMPS / "run_sm.sh", net, engine, folder]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env=os.environ
    )
    subnet, table = read(folder)
    return subnet, table, re.search(r"([\w-]+) tables configured", done.stdout)[1]


@pytest.mark.slow
@needs_sm
@pytest.mark.parametrize(
    ("fabric", "engine", "method"),
    [
        (topologies.build("fat_tree", k=4), "ftree", "d_mod_k"),
        (topologies.build("fat_tree", k=8), "ftree", "d_mod_k"),
        (topologies.build("torus", shape=(5, 5), hosts=1), "dor", "dimension_order"),
        (topologies.build("dragonfly", p=2, a=4, h=1), "minhop", "shortest"),
        (
            topologies.build("jellyfish", switches=12, degree=4, hosts=2, seed=1),
            "minhop",
            "shortest",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else v.family,
)
def test_the_subnet_manager_finds_the_same_hops(fabric, engine, method, tmp_path):
    subnet, table, used = ask(fabric, engine, tmp_path)
    assert used == engine  # some engines fall back to minhop and say so in the log only
    theirs = routing.from_tables(subnet.fabric, every_pair(subnet.fabric), table)
    # their order of ranks
    name = [int(n[1:]) for n in np.array(subnet.names)[subnet.fabric.endpoint]]
    rank = np.array([fabric.endpoint.tolist().index(n) for n in name])
    ours = routing.route(fabric, every_pair(fabric), method)
    assert np.array_equal(
        hop_matrix(subnet.fabric, theirs), hop_matrix(fabric, ours)[np.ix_(rank, rank)]
    )
    if engine != "minhop":  # their choice among equal ways is theirs
        found = figures(
            subnet.fabric, lambda flows: routing.from_tables(subnet.fabric, flows, table)
        )
        assert found == figures(fabric, lambda flows: routing.route(fabric, flows, method))
    if engine == "ftree":
        back = np.argsort(rank)
        order = subnet.fabric.endpoint[back]

        def loads(by):
            flows = Flows.make(order, np.roll(order, -by), 1.0)
            return (
                routing.from_tables(subnet.fabric, flows, table)
                .link_bytes(flows, subnet.fabric.n_links)
                .max()
            )

        assert [loads(by) for by in range(1, fabric.n_ranks)] == [1] * (fabric.n_ranks - 1)
        assert shifts(fabric, lambda f: routing.route(fabric, f, "d_mod_k"))["shift_worst"] == 1
