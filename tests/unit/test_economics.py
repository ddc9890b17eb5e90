"""Bill, floor plan and legality: by hand, against the price sheet and the teaching plan, laws, refusals, display."""

import csv
import dataclasses
import re
import time
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab import catalog, economics, registry, topologies
from fabriclab.core import FabricBuilder
from fabriclab.core._frozen import ReadOnly
from fabriclab.economics import Violation, bill, floor_plan, legality, price_list
from fabriclab.economics.floor import MEDIA, propagation, reach
from support import DATA

CASE = catalog.case()
HALL = topologies.build("rail_optimised", expand=False)
# with their inside: GPUs, NVLink, PCIe, NICs
SERVERS = topologies.build("rail_optimised", servers=8)
SMALL = [(name, registry.info("topology", name)["small"]) for name in topologies.names()]
FIBRE, SWITCH, NIC = "fibre 400 Gb/s", "switch 64 x 400 Gb/s", "nic 1 x 400 Gb/s"
ONE, TWIN = "transceiver 400 Gb/s", "transceiver 2 x 400 Gb/s"
LINES = list(csv.DictReader((DATA / "cost_power.csv").read_text("utf-8").splitlines()))
SHEET = {int(row["name"].split()[0]): row for row in LINES if row["id"] == "sheet"}
# Connectors and cables of a server with 8 GPUs: to the one tier of switches there is, and with a second tier. [USD]
ONE_TIER, TWO_TIERS = (int(row["value"]) for row in LINES if row["id"] == "conn")


def quantities(fabric):
    return {name: item.quantity for name, item in bill(fabric).items.items()}


def optics(made):
    return sum(item.total("power") for name, item in made.items.items() if "transceiver" in name)


def line(gpus):
    """Return switches, their price and that of the cables (None where it has none) as the sheet prints them."""
    found = (
        re.search(rf"{what} USD (\d+)", SHEET[gpus]["note"]) for what in ("switches", "cables")
    )
    return int(SHEET[gpus]["value"]), *(int(match[1]) if match else None for match in found)


def tree(**cables):
    """Return two hosts on each of two leaves, and the leaves on two spines: 4 leaf cables of other media or lengths."""
    b = FabricBuilder(("host", "leaf", "spine"), ("server", "index"))
    host = b.add_nodes("host", 4, tier=0, transit=False, server=np.arange(4))
    leaf = b.add_nodes("leaf", 2, tier=1, transit=True, radix=8, index=np.arange(2))
    spine = b.add_nodes("spine", 2, tier=2, transit=True, radix=8, index=np.arange(2))
    b.add_cables(host, np.repeat(leaf, 2), capacity="400 Gb/s", medium="fibre", length=10)
    b.add_cables(
        leaf[:, None], spine, **{"capacity": "400 Gb/s", "medium": "fibre", "length": 30, **cables}
    )
    return b.build("tree", {}, endpoint=host, rail=np.zeros(4), server=np.arange(4))


# ------------------------------------------------------------------ the bill


def test_by_hand():
    assert quantities(tree()) == {
        "switch 8 x 400 Gb/s": 4,
        NIC: 4,
        ONE: 4,
        TWIN: 2 * 2 + 2,
        f"{FIBRE}, 10 m": 4,
        f"{FIBRE}, 30 m": 4,
    }
    made = bill(tree(), {"switch 8 x 400 Gb/s": "2 kUSD"}, {NIC: "20 W"}, bisection="800 Gb/s")
    assert made.capital == 4 * 2000 + 8 * 1280
    assert made.power == 4 * 20 + 4 * 9 + 6 * 17
    assert made.per_gpu == (made.capital / 4, made.power / 4)
    assert made.per_gbps == pytest.approx((made.capital / 800, made.power / 800))
    assert made.missing == (f"price of {NIC}", "power of switch 8 x 400 Gb/s")


def test_ends_cables_and_ports():
    copper = quantities(tree(medium="copper", length=2))  # leaves: 2 fibres each, spines: none
    assert (copper[ONE], copper[TWIN], copper["copper 400 Gb/s, 2 m"]) == (4, 2, 4)
    active = quantities(tree(medium="active copper", length=4))
    assert (active["active copper end 2 x 400 Gb/s"], active["active copper 400 Gb/s, 4 m"]) == (
        4,
        4,
    )
    # three ports fill two of two
    assert quantities(topologies.build("leaf_spine", hosts=3))[TWIN] == 2
    slow = quantities(tree(capacity="200 Gb/s"))  # no twin module of that rate is in the catalog
    assert (
        slow["transceiver 200 Gb/s"],
        slow["switch 8 x 200 Gb/s"],
        slow["switch 8 x 400 Gb/s"],
    ) == (8, 2, 2)
    # a link of two ports is two cables of half its rate
    bundle = quantities(tree(ports=2, capacity="800 Gb/s"))
    assert (bundle[f"{FIBRE}, 30 m"], bundle[TWIN]) == (8, 2 * 3 + 2 * 2)
    board = quantities(tree(length=0))  # boards and what carries nothing are not bought
    assert (
        board
        == quantities(tree().without(cables=range(4, 8)))
        == {
            "switch 8 x 400 Gb/s": 2,
            NIC: 4,
            ONE: 4,
            TWIN: 2,
            f"{FIBRE}, 10 m": 4,
        }
    )


def test_a_server_costs_no_more_with_its_inside():
    nics = topologies.build("rail_optimised", servers=8, expand=False)
    assert quantities(SERVERS) == quantities(nics)
    assert bill(SERVERS).capital == bill(nics).capital


@pytest.mark.parametrize(
    ("gpus", "planes", "family", "arguments"),
    [
        (1024, 1, "rail_optimised", {"expand": False}),
        (
            8192,
            8,
            "leaf_spine",
            {"hosts": 1024},
        ),  # a network for each rail, and nothing between rails
        (16384, 8, "leaf_spine", {"hosts": 2048}),
    ],
)
def test_lines_of_the_price_sheet(gpus, planes, family, arguments):
    made = bill(topologies.build(family, **arguments))
    fibre = sum(
        item.total("price") for name, item in made.items.items() if name.startswith("fibre")
    )
    assert (
        planes * made.items[SWITCH].quantity,
        planes * made.items[SWITCH].total("price"),
    ) == line(gpus)[:2]
    assert planes * fibre == gpus // 8 * TWO_TIERS
    assert line(gpus)[2] in (planes * fibre, None)  # a line without cables has those of its servers
    assert made.capital == made.items[SWITCH].total("price") + fibre


def test_lines_of_the_price_sheet_that_count_cables_in_another_way():
    """The sheet has a cable of the first tier dearer than of others; the list has one price, the mean of two tiers."""
    one = bill(topologies.build("leaf_spine", hosts=64))  # one switch for each rail
    assert (8 * one.items[SWITCH].quantity, 8 * one.items[SWITCH].total("price")) == line(512)[:2]
    assert line(512)[2] == 64 * ONE_TIER
    three = bill(topologies.build("rail_optimised", servers=4096, expand=False))
    assert (three.items[SWITCH].quantity, three.items[SWITCH].total("price")) == line(32768)[:2]
    fibre = sum(
        item.total("price") for name, item in three.items.items() if name.startswith("fibre")
    )
    assert fibre == 4096 * TWO_TIERS * 3 / 2
    assert line(32768)[2] == 4096 * (TWO_TIERS + (TWO_TIERS - ONE_TIER)) < fibre


@pytest.mark.parametrize("servers", [128, 300, 2048])
def test_the_bill_is_that_of_the_running_case(servers):
    case = catalog.case(servers=servers, dp=servers)
    made = bill(topologies.build("rail_optimised", servers=servers, expand=False))
    assert made.capital == pytest.approx(case.price_fabric, rel=1e-12)
    assert optics(made) == pytest.approx(case.optics_power, rel=1e-12)


def test_the_hall_of_the_running_case():
    """48 switches, 2,048 fibres; 1,024 ports of NICs have a module of their own, of 3,072 of switches two share one."""
    made, both = bill(HALL), ("copper", "fibre")
    assert (
        made.capital
        == int(SHEET[1024]["value"]) * CASE.price_switch + 128 * TWO_TIERS
        == sum(line(1024)[1:])
    )
    servers = 128 * CASE.price_server
    told = re.search(
        r"network share of total ([\d.]+)% \(server \+ network\)", SHEET[1024]["note"]
    )[1]
    assert f"{made.capital / (servers + made.capital):.1%}" == f"{told}%"
    total = servers + 128 * CASE.price_facility_per_server + made.capital
    assert CASE.fabric_share == pytest.approx(made.capital / total, rel=1e-12)
    media = catalog.media
    assert (
        optics(made)
        == 1024 * media["sr4"]["power_max"].si + 3072 / 2 * media["dr4x2"]["power_max"].si
    )
    rails = bill(floor_plan(HALL, media=both))
    assert optics(rails) == pytest.approx(CASE.optics_power_rails_copper, rel=1e-12)
    assert rails.items["copper 400 Gb/s, 2 m"].quantity == CASE.gpus / 8
    racks = bill(floor_plan(topologies.build("rail_optimised", rails=1, expand=False), media=both))
    assert optics(racks) == pytest.approx(CASE.optics_power_leaf_per_rack, rel=1e-12)
    assert racks.items["copper 400 Gb/s, 2 m"].quantity == CASE.gpus
    assert ONE not in racks.items  # passive copper has no transceivers


@pytest.mark.parametrize(("family", "small"), SMALL, ids=lambda x: x if isinstance(x, str) else "")
def test_law_sums_and_doubling(family, small):
    for fabric in (made := topologies.build(family, **small)), floor_plan(made):
        some = bill(fabric)
        own = {name: 100.0 + 7 * k for k, name in enumerate(some.items)}
        full = bill(fabric, own, own)
        double = bill(fabric, *[{name: 2 * value for name, value in own.items()}] * 2)
        assert full.missing == ()
        assert (
            full.capital
            == full.power
            == pytest.approx(sum(i.quantity * own[k] for k, i in full.items.items()))
        )
        assert (double.capital, double.power) == pytest.approx((2 * full.capital, 2 * full.power))
        assert {k: i.quantity for k, i in full.items.items()} == {
            k: i.quantity for k, i in some.items.items()
        }
        cables = [(k, i.quantity) for k, i in some.items.items() if k.endswith(" m")]
        ports = np.maximum(fabric.ports[::2], 1)[
            (fabric.length[::2] > 0) & (fabric.capacity[::2] > 0)
        ]
        assert sum(n for _, n in cables) == ports.sum()
        metres = sum(n * float(k.split(", ")[1].split()[0]) for k, n in cables)
        assert metres == pytest.approx(
            np.sum(fabric.length[::2] * np.maximum(fabric.ports[::2], 1)), rel=1e-5
        )


@given(
    st.dictionaries(
        st.sampled_from([SWITCH, NIC, ONE, TWIN, FIBRE, f"{FIBRE}, 10 m"]), st.floats(0, 1e6)
    )
)
def test_law_a_price_of_the_reader_moves_its_own_items(own):
    before, after = bill(HALL), bill(HALL, own)
    for name, item in after.items.items():
        short = name.split(", ")[0]
        price = own.get(name, own.get(short))
        if price is not None:
            assert item.price.source == "the reader"
            assert item.price.value == price
        elif name in (ONE, TWIN) and {ONE, TWIN} & {*own}:
            assert item.price is None  # the list has no price for it alone
        elif short == FIBRE and {ONE, TWIN} & {*own}:
            assert item.price is None  # that of the list has transceivers in it
        else:
            assert item.price == before.items[name].price
    assert after.power == before.power


def test_figures_of_the_list_have_source_and_date():
    for name, item in bill(floor_plan(HALL)).items.items():
        for spec in filter(None, (item.price, item.power)):
            if spec.source == "passive, or at its ends" or spec.source.startswith("in "):
                assert spec.value == 0, name
            else:
                assert catalog.cite(spec.source) and spec.date, name
    switch, fibre = price_list()[SWITCH][0], price_list()[FIBRE][0]
    assert (switch.value, switch.date, switch.source) == (
        CASE.price_switch,
        "2024-08",
        "H100-sheet",
    )
    assert fibre.value * 2 * CASE.gpus_per_server == CASE.price_cables_per_server
    low, high = map(int, catalog.media["sw64ndr"]["price"].value.split("-"))
    assert low <= switch.value <= high


# ------------------------------------------------------------------ the floor plan


def test_floor_plan_by_hand():
    plan = floor_plan(
        tree(), 1, switches_per_rack=2, racks_per_row=3, rack_width=1, row_pitch=5, slack=2
    )
    # Racks: host 0 and leaf 0, host 1, both spines; next row: host 2 and leaf 1, host 3.
    assert plan.length[::2].tolist() == [2, 3, 2, 3, 4, 4, 9, 9]
    media = [plan.media[code] for code in plan.medium[::2]]
    assert media == [
        "copper",
        "fibre",
        "copper",
        "fibre",
        "active copper",
        "active copper",
        "fibre",
        "fibre",
    ]
    assert np.all(plan.length[::2] == plan.length[1::2]) and np.all(
        plan.medium[::2] == plan.medium[1::2]
    )


def test_switches_that_serve_one_rack_stand_in_it_and_the_last_medium_must_do():
    one = floor_plan(tree())  # four hosts in the only rack with servers
    assert one.length[:8].tolist() == [2] * 8
    far = floor_plan(tree(), 1, rack_width=3, media=["copper"])
    assert far.media == ("fibre", "copper") and np.all(far.medium == 1)
    both = floor_plan(tree(), 1, racks_per_row=9, rack_width=60, media=["copper", "fibre"])
    assert [both.media[code] for code in both.medium[::2]] == ["copper", "fibre"] * 2 + [
        "fibre"
    ] * 4
    assert both.length.max() > reach("fibre")
    reached = [v.figure for v in legality(far, may_lose=2)]
    assert reached == far.length[::2][far.length[::2] > 2].tolist() != []


def test_propagation_follows_length_and_medium():
    built = topologies.build("leaf_spine", hosts=64, radix=16)
    plan = floor_plan(built)
    before, after = (
        f.delay - f.length * np.array([*map(propagation, f.media)])[f.medium] for f in (built, plan)
    )
    assert np.allclose(before, after, rtol=0, atol=1e-15)
    assert propagation("copper") == pytest.approx(4.5e-9) and propagation("fibre") == pytest.approx(
        4.9e-9
    )
    assert {"copper", "fibre"} <= {plan.media[code] for code in plan.medium}


@given(st.integers(1, 8), st.integers(1, 20), st.sampled_from(SMALL), st.floats(0, 30))
def test_law_every_cable_has_the_first_medium_that_reaches(servers, row, family, width):
    built = topologies.build(family[0], **family[1])
    plan = floor_plan(built, servers, racks_per_row=row, rack_width=width)
    laid = (built.length > 0) & (np.array([m in MEDIA for m in built.media])[built.medium])
    assert np.array_equal(plan.length[~laid], built.length[~laid])
    assert np.array_equal(plan.capacity, built.capacity)
    nic = np.array([kind == "nic" for kind in built.kinds])[built.kind]
    switch = built.transit & ~nic & ~np.isin(np.arange(built.n_nodes), built.endpoint)
    for number in np.flatnonzero(laid):
        ends = switch[[plan.source[number], plan.target[number]]].all()
        fits = [
            m for m in MEDIA if plan.length[number] <= reach(m) and (ends or m != "active copper")
        ]
        assert plan.media[plan.medium[number]] == (fits or ["long fibre"])[0]
    assert [v for v in legality(plan) if v.rule == "reach"] == []
    again = floor_plan(plan, servers, racks_per_row=row, rack_width=width)
    assert np.array_equal(again.length, plan.length) and np.allclose(
        again.delay, plan.delay, rtol=0, atol=1e-15
    )


def test_reach_of_the_media():
    assert {m: reach(m) for m in MEDIA} == {
        "copper": 2,
        "active copper": 5,
        "fibre": 100,
        "long fibre": 2000,
    }
    assert [*MEDIA] == sorted(MEDIA, key=reach)
    assert reach("nvlink") == np.inf


# ------------------------------------------------------------------ legality


def test_legality_by_hand():
    assert legality(SERVERS) == ()  # over NVLink, a GPU has the NICs of its server
    assert legality(tree(), may_lose=2) == ()
    lost = {v.where: v.figure for v in legality(tree())}
    assert lost == {"leaf 0": 2, "leaf 1": 2, **{f"host {i} -> leaf {i // 2}": 1 for i in range(4)}}
    one = {v.where: v.figure for v in legality(tree().without(nodes=[6]), may_lose=1)}
    assert one == {
        "leaf 0": 2,
        "leaf 1": 2,
        "spine 1": 2,
        "leaf 0 -> spine 1": 2,
        "leaf 1 -> spine 1": 2,
    }
    halves = legality(tree().without(nodes=[6, 7]), may_lose=4)
    assert halves == (Violation("host 2", "connectivity", 2, 0),)
    long = legality(tree(length=101), may_lose=2)
    assert [(v.where, v.rule, v.figure, v.limit) for v in long] == [
        (f"leaf {i} -> spine {j}", "reach", 101, 100) for i in range(2) for j in range(2)
    ]
    assert [(v.where, v.figure, v.limit) for v in legality(tree(), radix=3, may_lose=2)] == [
        ("leaf 0", 4, 3),
        ("leaf 1", 4, 3),
    ]


def test_rails_without_spines_join_over_the_servers():
    spines = SERVERS.nodes("spine")
    assert legality(SERVERS.without(nodes=spines)) == ()
    nics = topologies.build("rail_optimised", servers=8, expand=False)
    apart = legality(nics.without(nodes=nics.nodes("spine")), may_lose=8)
    assert apart == (Violation("nic 0.1", "connectivity", 56, 0),)


def test_two_planes_outlast_each_other():
    b = FabricBuilder(("host", "switch"), ("index",))
    host = b.add_nodes("host", 3, tier=0, transit=False, index=np.arange(3))
    plane = b.add_nodes("switch", 2, tier=1, transit=True, index=np.arange(2))
    b.add_cables(host[:, None], plane, capacity="400 Gb/s")
    planes = b.build("planes", {}, endpoint=host, rail=np.zeros(3), server=np.arange(3))
    assert legality(planes) == ()
    # plane 1 alone has all three
    left = {v.where: v.figure for v in legality(planes.without(cables=[0]))}
    assert left == {
        "switch 1": 1,
        "host 0 -> switch 1": 1,
        "host 1 -> switch 1": 1,
        "host 2 -> switch 1": 1,
    }


@st.composite
def networks(draw):
    """Draw a small network of hosts, GPUs and switches with any cables, some of them twice."""
    hosts, gpus, boxes = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 5))
    b = FabricBuilder(("host", "gpu", "switch"), ("index",))
    host = b.add_nodes("host", hosts, tier=0, transit=False, index=np.arange(hosts))
    gpu = b.add_nodes("gpu", gpus, tier=0, transit=False, index=np.arange(gpus))
    b.add_nodes("switch", boxes, tier=1, transit=True, index=np.arange(boxes))
    pairs = [*combinations(range(b.n_nodes), 2)]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=14))
    b.add_cables(*np.array(chosen).T, capacity="400 Gb/s")
    ends = np.concatenate([host, gpu])
    return b.build(
        "random", {}, endpoint=ends, rail=np.zeros(ends.size), server=np.arange(ends.size)
    )


def largest(fabric):
    """Return the most ranks that one piece of passing nodes joins, by networkx."""
    graph, passing = (
        nx.Graph(),
        [n for n in range(fabric.n_nodes) if fabric.kinds[fabric.kind[n]] != "host"],
    )
    graph.add_nodes_from(passing)
    links = [
        (int(fabric.source[k]), int(fabric.target[k])) for k in np.flatnonzero(fabric.capacity > 0)
    ]
    graph.add_edges_from((a, b) for a, b in links if a in passing and b in passing)
    ranks = set(fabric.endpoint.tolist())
    return max(
        len(ranks & (piece | {a for a, b in links if b in piece}))
        for piece in nx.connected_components(graph)
    )


@given(networks())
def test_law_failures_are_those_found_by_trying_each(fabric):
    whole = largest(fabric)
    expected = {}
    for node in fabric.nodes("switch").tolist():
        expected[fabric.name(node)] = whole - largest(fabric.without(nodes=[node]))
    for cable in range(fabric.n_cables):
        lost = whole - largest(fabric.without(cables=[cable]))
        expected[fabric.link_name(2 * cable)] = max(
            lost, expected.get(fabric.link_name(2 * cable), 0)
        )
    found = legality(fabric)
    assert {v.where: v.figure for v in found if v.rule == "single failure"} == {
        k: n for k, n in expected.items() if n
    }
    apart = fabric.n_ranks - whole
    assert [v.figure for v in found if v.rule == "connectivity"] == [apart] * (apart > 0)


def test_failures_of_a_long_chain_take_time_in_step_with_its_length():
    """Ranks left of a node in the middle of n chips: the shorter end is lost, and with it the chip's own rank."""
    chain, start = topologies.build("mesh", shape=(3000,), hosts=1), time.process_time()
    lost = {v.where: v.figure for v in legality(chain)}
    # 0.2 s; a search for each of its nodes and cables takes as long for 300
    assert time.process_time() - start < 5
    assert [lost[f"switch {i}"] for i in (0, 1, 1400, 2999)] == [1, 2, 1401, 1]
    assert [lost[f"switch {i} -> switch {i + 1}"] for i in (0, 1499, 2998)] == [1, 1500, 1]


# ------------------------------------------------------------------ refusals and display


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (
            lambda: bill(HALL, {"switch 64x400 Gb/s": 1}),
            ValueError,
            "the bill has no 'switch 64x400.*mean 'switch 64",
        ),
        (lambda: bill(HALL, {SWITCH: "36 kW"}), ValueError, "must be a price, got the power"),
        (
            lambda: bill(HALL, {SWITCH: -1}),
            ValueError,
            "price of switch 64 x 400 Gb/s must be >= 0 USD, got -1",
        ),
        (
            lambda: bill(HALL, {SWITCH: "dear"}),
            ValueError,
            "switch 64 x 400 Gb/s must be a number with a unit",
        ),
        (
            lambda: bill(HALL, None, {NIC: "-5 W"}),
            ValueError,
            "power of nic 1 x 400 Gb/s must be >= 0 W",
        ),
        (
            lambda: bill(HALL, "dear"),
            TypeError,
            r"prices must be a dict such as {'fibre .*: 1} \[USD\], got 'dear'",
        ),
        (
            lambda: bill(HALL, None, []),
            TypeError,
            r"powers must be a dict such as .* \[W\], got \[\]",
        ),
        (lambda: bill(HALL, bisection=400), ValueError, "bisection must be within"),
        (lambda: floor_plan(HALL, 0), ValueError, "servers_per_rack must be >= 1, got 0"),
        (
            lambda: floor_plan(HALL, media=["fiber"]),
            ValueError,
            "has no 'fiber'; did you mean 'fibre'",
        ),
        (lambda: floor_plan(HALL, media=[]), ValueError, "the table of media has no"),
        (lambda: floor_plan(HALL, media="fibre"), TypeError, "media must be a sequence of texts"),
        (lambda: floor_plan(HALL, slack="2 W"), ValueError, "slack must be a length"),
        (lambda: legality(HALL, radix=0), ValueError, "radix must be >= 1, got 0"),
        (lambda: legality(HALL, may_lose=-1), ValueError, "may_lose must be >= 0, got -1"),
    ],
)
def test_errors_help(ask, error, text):
    with pytest.raises(error, match=text):
        ask()


def test_display():
    made = bill(floor_plan(HALL), {SWITCH: "50 kUSD"})
    text, page = made.draw(), made._repr_html_()
    assert len(text.splitlines()) == page.count("<tr>") == len(made.items) + 2
    assert re.search(
        r"switch 64 x 400 Gb/s +48 +50,000 +2,400,000 +the reader +747 +35,856 +memory \(estimate, not",
        text,
    )
    assert re.search(
        r"fibre 400 Gb/s, 10 m +\d+ +1,280 +[\d,]+ +H100-sheet \(derived\) +2024-08 +0 +0 +passive",
        text,
    )
    assert re.search(rf"{NIC} +1,024 +unknown +unknown", text)
    last = re.split("  +", text.splitlines()[-1])
    assert last == ["total", f"at least {made.capital:,.0f}", f"at least {made.power:,.0f}"]
    assert f"at least {made.capital:,.0f} USD" in repr(made) and NIC in repr(made)
    assert "without: nothing" in repr(bill(HALL, {NIC: 1}, {NIC: 1}))
    with pytest.raises(TypeError, match="read-only"):
        made.items["x"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.gpus = 1
    assert isinstance(price_list(), ReadOnly)


def test_copper_has_a_price_so_that_wirings_compare():
    """The same switches by rail and by rack: racks save what fibre costs more than copper, and no more."""
    rails, racks = (
        fl.system(gpu="H100", servers=32, fabric=name) for name in ("rail_optimised", "leaf_spine")
    )
    by_rail, by_rack = rails.bill(), racks.bill()
    assert by_rail.items[SWITCH] == by_rack.items[SWITCH]
    assert by_rail.missing == by_rack.missing == (f"price of {NIC}", f"power of {NIC}")
    prices = {
        name: price_list()[f"{name} 400 Gb/s"][0].value
        for name in ("copper", "active copper", "fibre")
    }
    cables = sum(
        item.quantity * prices[name.rsplit(" ", 4)[0]]
        for name, item in by_rack.items.items()
        if name.endswith(" m")
    )
    assert by_rack.capital == 12 * CASE.price_switch + cables
    assert cables > 0
    # half of a cable of two links, and marked as not confirmed
    for name, part in (("copper", "dac800"), ("active copper", "acc800")):
        spec = price_list()[f"{name} 400 Gb/s"][0]
        assert 2 * spec.value == catalog.media[part]["price"].value
        assert "not confirmed" in spec.evidence
    assert any(f"{cables:,.0f} USD" in note and "not confirmed" in note for note in by_rack.notes)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"gpu": "A100", "servers": 4}, "switch 64 x 200 Gb/s"),
        ({"gpu": "H100", "servers": 4, "fabric": "dual_tor"}, "nic 2 x 200 Gb/s"),
        (
            {"gpu": "H100", "servers": 4, "fabric": "crossbar"},
            "ideal switch with cables to 32 ends",
        ),
        ({"gpu": "GB200", "servers": 18}, "NVLink switches and cables of 72 GPUs"),
    ],
)
def test_what_has_no_price_is_not_shown_as_free(asked, part):
    made = fl.system(**asked).bill()
    assert (made.capital, made.power) == (0, 0)
    assert "price unknown, power unknown" in repr(made)
    assert part in repr(made)
    assert " 0 USD" not in repr(made)
    assert re.split("  +", made.draw().splitlines()[-1]) == ["total", "unknown", "unknown"]


def test_nvlink_switches_of_several_racks_are_counted_beside_the_network():
    made = fl.system(gpu="GB200", servers=36).bill()
    (name,) = (name for name in made.items if "NVLink" in name)
    assert made.items[name].quantity == 2
    assert {f"price of {name}", f"power of {name}"} <= set(made.missing)
    priced = fl.system(gpu="GB200", servers=36).bill(prices={name: "1 MUSD"})
    assert priced.capital == made.capital + 2e6
    assert not any("NVLink" in name for name in fl.system(gpu="H100", servers=2).bill().items)


def test_a_switch_that_nobody_sells_is_named():
    fat = fl.system(gpu="H100", servers=32, fabric="fat_tree").bill()
    assert "132 x switch 12 x 400 Gb/s (the catalog has no switch" in repr(fat)
    assert "catalog has no" not in repr(bill(HALL))
    assert "catalog has no" not in repr(fl.system(gpu="A100", servers=4).bill())  # 64 x 200 Gb/s


def test_a_bill_with_many_lengths_is_shown_in_a_line():
    lengths = range(3, 90)
    cables = tree(length=np.array([[10.0, 20.0], [30.0, 40.0]]), capacity="200 Gb/s")
    made = bill(cables)
    many = dataclasses.replace(
        made,
        items=made.items
        | {f"fibre 200 Gb/s, {m} m": economics.Item(2, None, None) for m in lengths},
    )
    assert len(many.missing) > len(lengths)
    assert len(repr(many)) < 600
    assert f"{2 * len(lengths):,} x fibre 200 Gb/s" in repr(many)


def test_without_a_bisection_the_figures_per_rate_are_nan_with_a_note():
    made = bill(HALL)
    assert np.isnan(made.per_gbps).all()
    assert any("bisection" in note for note in made.notes)
    asked = bill(HALL, bisection="800 Gb/s")
    assert asked.per_gbps[0] == pytest.approx(asked.capital / 800)
    assert not any("bisection" in note for note in asked.notes)


def test_a_single_server_has_nothing_to_buy():
    assert "nothing to buy" in repr(bill(topologies.build("dgx_h100")))


def test_a_plan_is_typed_back():
    plan = floor_plan(
        topologies.build("rail_optimised", servers=8, expand=False),
        2,
        rack_width="1 m",
        media=["fibre"],
    )
    again = eval(repr(plan), {"economics": economics, "topologies": topologies})
    assert np.array_equal(again.length, plan.length) and again.media == plan.media
