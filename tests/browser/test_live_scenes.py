"""What live views show: nothing hides anything else, and all of it can be read, heard and translated."""

import itertools
import json
import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import metrics, operations, registry, topologies
from fabriclab.core import Result
from fabriclab.course.checks import InputRefused
from fabriclab.course.progress import store
from fabriclab.routing import route
from fabriclab.texts import text
from fabriclab.views import live
from fabriclab.views.layout import place_name
from fabriclab.views.live.ways import _BARS_FOOT
from fabriclab.views.scene import COLOUR, FORM, KEYS, key, link_width, shade
from support.prose import figures, sentence

FAT = topologies.build("fat_tree", k=4)
LARGE = topologies.build("fat_tree", k=8)
RAILS = topologies.build("rail_optimised")
FABRICS = {
    "one host": topologies.build("crossbar", hosts=1),
    "crossbar": topologies.build("crossbar", hosts=16),
    "fat tree": FAT,
    "fat tree in blocks": LARGE,
    "with failed cables": LARGE.without(cables=[20, 300]),
    "leaves and spines": topologies.build("leaf_spine", hosts=8, radix=4),
    "one server": topologies.build("rail_optimised", servers=1),
    "four servers": topologies.build("rail_optimised", servers=4),
    "mesh in a server": topologies.build("mi300x"),
    "rails": RAILS,
    "rails without servers": topologies.build("rail_optimised", expand=False),
}
BUSY = {
    "fabric": lambda: live.fabric(LARGE.without(cables=[20]), np.linspace(0, 0.5, LARGE.n_links)),
    "rails": lambda: live.fabric(RAILS.without(cables=[5000]), np.linspace(0, 0.5, RAILS.n_links)),
    "floor": lambda: live.fabric(
        RAILS.without(cables=[5000]), np.linspace(0, 0.5, RAILS.n_links), layout="floor"
    ),
    "placement": lambda: live.placement(topologies.build("rail_optimised", servers=4), seed=1),
}


def ends_of(layer):
    """Return left and right end of each box or text [px]; letters are taken for wide."""
    f = layer.fields
    if "w" in f:
        return f["x"], f["x"] + f["w"]
    wide = np.array(
        [
            0.6 * s * len(t)
            for s, t in zip(
                np.broadcast_to(f.get("size", 12.0), len(f["texts"])), f["texts"], strict=True
            )
        ]
    )
    part = np.broadcast_to(f.get("align", 0), wide.size) / 2
    return f["x"] - part * wide, f["x"] + (1 - part) * wide


# fabrics ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FABRICS)
def test_boxes_stand_between_the_names_of_the_rows_and_the_cables(name):
    scene = live.fabric(FABRICS[name]).scene
    layers = scene.layers
    left, right = ends_of(layers["nodes"])
    first, last = ends_of(layers["margins"])
    named = layers["margins"].fields["align"] == 2
    below = layers["margins"].fields["y"] > 400  # the numbers of servers
    if "ranks" in layers:  # a hall
        cells = layers["ranks"].fields
        below = layers["margins"].fields["y"] > (cells["y"] + cells["h"]).max()
        assert last[named].max() <= cells["x"].min()
    assert first.min() >= 0 and last.max() <= scene.width and scene.height <= 390
    assert last[named].max() <= left.min() and right.max() <= first[~named & ~below].min()
    if layers["servers"].fields["x"].size:
        assert last[named].max() <= ends_of(layers["servers"])[0].min()


@pytest.mark.parametrize("name", BUSY)
def test_every_colour_is_told_to_those_who_do_not_see_it(name):
    colours = BUSY[name]().controls["colour"].options
    told = [BUSY[name]().set(colour=colour).scene.alt for colour in colours]
    assert len({*told}) == len(told) > 2
    keys = "fabric.says_load", "fabric.says_tier"
    assert all(sentence(key).search(alt) for alt, key in zip(told, keys, strict=False))


def test_what_the_colour_says_by_hand():
    load = np.full(LARGE.n_links, 0.5)
    hurt = LARGE.without(cables=[20])
    for colour, told in (
        ("load", {"low": 50, "high": 50}),
        ("tier", {"n": 4}),
        ("failure", {"failed": 1, "all": 384}),
    ):
        said = text(f"fabric.says_{colour}", **told)
        assert live.fabric(hurt, load, colour=colour).scene.alt.endswith(said)
    alt = live.fabric(RAILS, colour="rail", layout="floor").scene.alt
    assert alt.endswith(text("fabric.says_rail", n=8))


def test_two_shuffles_are_told_apart():
    view = live.placement(topologies.build("rail_optimised", servers=2))
    assert len({view.set(seed=seed).scene.alt for seed in range(6)}) == 6


def test_cables_of_a_map_that_carry_nothing_are_pale():
    small = topologies.build("dragonfly", p=2, a=4, h=2)
    view = live.paths(small, target=8, routing="minimal", routings=("minimal", "valiant"))
    for routing, used in (("minimal", 2), ("valiant", 23)):  # cables between switches
        layers = view.set(routing=routing).scene.layers
        look = layers["cables"].fields
        faint = look["colour"] == COLOUR["hair"]
        assert np.sum(~faint) == used and faint.size == small.n_cables - small.n_ranks
        assert faint[:-used].all()  # what is used is drawn last, on top
        assert look["width"][faint].max() < look["width"][~faint].min()
        assert look["width"][faint] == pytest.approx(float(link_width(0.0)))
        assert np.all(look["flow"][faint] == 0) and np.all(look["flow"][~faint] > 0)
        assert {*look["colour"][faint]} == {layers["idle"].fields["colour"]}


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("dragonfly", {"p": 2, "a": 4, "h": 2}),
        ("dragonfly", {"p": 2, "a": 6, "h": 1}),
        ("full_mesh", {"switches": 9}),
        ("torus", {"shape": (5, 4)}),
        ("torus", {"shape": (8, 8)}),
        ("hyperx", {"shape": (5, 4)}),
        ("jellyfish", {"switches": 52, "degree": 10}),
        *(("hypercube", {"dimensions": d}) for d in range(3, 7)),
    ],
)
def test_no_cable_of_a_map_passes_behind_a_box(family, sizes):
    layers = live.fabric(topologies.build(family, **sizes)).scene.layers
    box, drawn = layers["nodes"].fields, layers["cables"].fields
    assert "stubs" not in layers
    ends = [name.split(" – ") for name in drawn["names"]]
    points = np.split(np.stack([drawn["x"], drawn["y"]], axis=1), drawn["ptr"][1:-1].astype(int))
    for names, path in zip(ends, points, strict=True):
        here = np.linspace(path[:-1], path[1:], 60).reshape(-1, 1, 2)
        x, y = here[..., 0], here[..., 1]
        behind = (
            (x > box["x"]) & (x < box["x"] + box["w"]) & (y > box["y"]) & (y < box["y"] + box["h"])
        )
        assert sorted(box["names"][i] for i in np.flatnonzero(behind.any(axis=0))) == sorted(names)


@pytest.mark.parametrize("dimensions", range(3, 7))
def test_cables_of_one_dimension_of_a_hypercube_are_parallel_and_of_no_two(dimensions):
    f = topologies.build("hypercube", dimensions=dimensions, hosts=0)
    drawn = live.fabric(f, colour="tier").scene.layers["cables"].fields
    assert drawn["ptr"].tolist() == list(range(0, 2 * f.n_cables + 1, 2))  # all are straight
    way = (drawn["x"] + 1j * drawn["y"]).reshape(-1, 2) @ [-1, 1]
    name = {f.name(i): i for i in range(f.n_nodes)}
    ends = np.array([[name[n] for n in line.split(" – ")] for line in drawn["names"]])
    axis = np.argmax(f.coord[ends[:, 0]] != f.coord[ends[:, 1]], axis=1)
    spread = [np.ptp(way[axis == i].real) + np.ptp(way[axis == i].imag) for i in range(dimensions)]
    assert max(spread) < 0.01
    turned = np.sort(np.angle([way[axis == i][0] for i in range(dimensions)]) % np.pi)
    assert np.diff([*turned, turned[0] + np.pi]).min() > 0.2
    assert len({*drawn["colour"][np.argsort(axis)].reshape(dimensions, -1)[:, 0]}) == dimensions


def test_a_torus_of_three_axes_is_a_solid_whose_failed_cables_are_crossed():
    f = topologies.build("torus", shape=(4, 4, 8))
    near, far = (f.links_between(0, node)[0] // 2 for node in (32, 96))  # along x: next, around
    layers = live.fabric(f.without(cables=[near, far])).scene.layers
    dots, stubs = layers["nodes"].fields, layers["stubs"].fields
    place = np.stack([dots[axis] for axis in "xyz"], axis=1)
    apart = np.linalg.norm(place[:, None] - place[None], axis=2)
    unit = apart[apart > 0].min()
    # Neighbours are one unit apart, and cables of the solid join neighbours only.
    drawn = layers["cables"].fields
    ends = np.stack([drawn[axis] for axis in "xyz"], axis=1).reshape(-1, 2, 3)
    assert np.linalg.norm(np.diff(ends, axis=1)[:, 0], axis=1) == pytest.approx(unit, rel=1e-4)
    # All others, a row of each axis, are stubs that leave from both ends and point away from the middle.
    assert len(drawn["names"]) + len(stubs["names"]) / 2 == f.n_cables - 2
    assert len(stubs["names"]) == 2 * (2 * 4 * 8 + 4 * 4 - 1)
    tips = np.stack([stubs[axis] for axis in "xyz"], axis=1).reshape(-1, 2, 3)
    assert np.all(np.abs(tips[:, 1]).sum(axis=1) > np.abs(tips[:, 0]).sum(axis=1))
    # A failed cable is drawn from chip to chip, also around the edge, and is broken with a cross in the gap.
    failed = layers["failed"].fields
    assert (len(failed["names"]), failed["form"]) == (2, FORM["failed"])
    around = np.stack([failed[axis] for axis in "xyz"], axis=1).reshape(2, -1, 3)
    reach = np.linalg.norm(around[:, -1] - around[:, 0], axis=1) / unit
    assert np.all((reach > [0.6, 2.6]) & (reach < [1.0, 3.2]))


@pytest.mark.parametrize("name", live.networks.FAMILIES)
def test_the_explorer_says_what_one_end_gets_and_its_legend_moves_nothing(name):
    view = live.explorer(name, 16)
    f = topologies.build(name, **live.networks.FAMILIES[name][0])
    links = np.bincount(f.source, f.capacity, f.n_nodes)[f.endpoint]
    part = metrics.throughput(f).part
    told = sentence("live.explorer.said", part=100 * part, rate=float(part * links.mean()))
    assert told.match(view.scene.said)
    tier = view.set(colour="tier").scene
    assert tier.height == view.set(colour="load").scene.height
    assert "s 1 " not in view.scene.said and " 1 links" not in view.scene.said


def test_a_legend_names_every_colour_once_and_what_shares_it():
    legend = key(100.0, "rail", [str(r) for r in range(9)])
    colours, texts = legend["scale"].fields["colour"], legend["ends"].fields["texts"]
    assert texts == ["rail", "0, 8", *(str(r) for r in range(1, 8))]
    assert [*colours] == [*KEYS] and legend["scale"].fields["x"].min() > ends_of(legend["ends"])[1][
        0
    ]
    drawn = live.fabric(RAILS, colour="rail").scene.layers
    assert {*drawn["cables"].fields["colour"]} == {*drawn["scale"].fields["colour"]}
    assert {*drawn["ranks"].fields["colour"]} == {*drawn["scale"].fields["colour"]}


@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 4, 8), 0), ((8, 4), 1), ((8, 8, 4), 2), ((2, 4), 0)]
)
def test_the_ring_of_a_twist_is_drawn_along_its_cables(shape, axis):
    for shift in (0, 1, max(shape) // 2):
        f = topologies.build("twisted_torus", shape=shape, shift=shift)
        scene = live.twist(shape, shift, "all").scene
        dots = scene.layers["chips"].fields
        place = np.stack([dots[k] for k in "xyz"], axis=1)

        def joined(lines, lit, place=place):
            points = np.stack([lines[k] for k in "xyz"], axis=1)
            first = lines["ptr"][:-1].astype(int)[lit]
            last = lines["ptr"][1:].astype(int)[lit] - 1
            chips = []
            for at in (first, last):
                far = np.abs(place - points[at][:, None]).sum(axis=2)
                assert far.min(axis=1) == pytest.approx(0, abs=1e-3)
                chips.append(far.argmin(axis=1).tolist())
            return {*zip(*chips, strict=True)}

        closing, ring = scene.layers["closing"].fields, scene.layers["ring"].fields
        lit = np.asarray(closing["colour"]) == COLOUR["ring"]
        assert np.array_equal(lit, closing["strong"] == 1)
        pairs = joined(closing, lit) | joined(ring, np.ones(len(ring["names"]), bool))
        along = np.arange(f.n_nodes * axis, f.n_nodes * (axis + 1))  # cables of this direction
        following = dict(
            zip(f.source[2 * along].tolist(), f.target[2 * along].tolist(), strict=True)
        )
        assert all(following[a] == b for a, b in pairs)
        around = max(shape) // np.gcd(shift, max(shape)) * min(shape)
        chip, seen = min(pairs)[0], []
        while chip not in seen:  # the pairs are one circle
            seen.append(chip)
            chip = following[chip]
        assert len(seen) == len(pairs) == around and {a for a, _ in pairs} == {*seen}
        told = sentence("live.twist.said", axis="xyz"[axis]).search(scene.said)["ring"]
        assert figures(told) == [str(around)]
        # Every cable is in one of the layers; of the stubs there is none, since all are drawn in full.
        parts = [scene.layers[name].fields["names"] for name in ("links", "closing", "ring")]
        assert sum(map(len, parts)) == f.n_cables and not scene.layers["stubs"].fields["names"]
        assert sum(note == text("live.twist.in_ring") for note in dots["notes"]) == around


def test_bars_beside_a_twist_are_those_of_the_engine():
    view = live.twist((4, 4, 8), 2)
    side = view.scene.side.layers
    for name, exact in (
        ("rate", lambda f: 100 * fl.metrics.throughput(f).part),
        ("route", lambda f: fl.metrics.hops(f).diameter),
    ):
        bars = side[f"{name} bars"].fields
        values = [
            exact(topologies.build("twisted_torus", shape=(4, 4, 8), shift=k)) for k in range(8)
        ]
        assert bars["h"] / bars["h"].max() == pytest.approx(
            np.array(values) / max(values), rel=1e-5
        )
        assert np.flatnonzero(np.asarray(bars["colour"]) == COLOUR["ink"]).tolist() == [2]
    moved = view.set(shift=5).scene.side.layers["rate bars"].fields
    assert np.flatnonzero(np.asarray(moved["colour"]) == COLOUR["ink"]).tolist() == [5]


DRAGONFLY = topologies.build("dragonfly", p=4, a=8, h=4)


@pytest.mark.parametrize("routing", ["minimal", "valiant", "ugal_g"])
def test_what_a_gpu_gets_at_a_distance_is_the_throughput(routing):
    view = live.distance(DRAGONFLY, routings=("minimal", "valiant", "ugal_g"))
    for groups in (1, 4, 32):
        scene = view.set(groups=groups, routing=routing).scene
        flows = fl.metrics.shift(DRAGONFLY, 32 * groups)
        part = 100 * fl.metrics.throughput(DRAGONFLY, flows, routing).part
        assert f"{part:.3g} %" in scene.said and f"{part:.3g} %" in scene.alt
        shown = f"{part:.3g} %" if routing != "ugal_g" else f"UGAL-G: {part:.3g} %"  # has no curve
        assert scene.side.layers["value"].fields["texts"] == [shown]
        hosts = scene.layers["hosts"].fields
        assert hosts["x"].size == 1056
        assert np.asarray(hosts["colour"]) == pytest.approx(shade(part / 100) * np.ones(1056))
    assert max(panel.height for panel in scene.panels()) <= 400


def test_by_symmetry_as_many_cables_are_full_inside_each_group():
    view = live.distance(DRAGONFLY, 5, "valiant")
    said = sentence("live.distance.local").search(view.scene.said)
    flows = fl.metrics.shift(DRAGONFLY, 5 * 32)
    carried = route(DRAGONFLY, flows, "valiant").link_bytes(flows, DRAGONFLY.n_links)
    fullest = np.isclose(carried, carried.max())
    group = DRAGONFLY.coordinate("group")[DRAGONFLY.source[fullest]]
    assert np.unique(group, return_counts=True)[1].tolist() == [1] * 33
    assert said["full"] == "1 cable" and float(said["most"]) < 50


def test_the_curve_beside_a_dragonfly_has_every_distance():
    view = live.distance(DRAGONFLY, 4, "valiant")
    points = view.scene.side.layers["points"].fields
    notes = dict(zip(points["names"], points["notes"], strict=True))
    for routing, spoken in (("minimal", "minimal"), ("valiant", "Valiant")):
        for groups in range(1, 33):
            flows = fl.metrics.shift(DRAGONFLY, 32 * groups)
            part = 100 * fl.metrics.throughput(DRAGONFLY, flows, routing).part
            name = text("live.distance.point", routing=spoken, distance=groups)
            assert notes[name] == f"{part:.3g} %"
    now = view.scene.side.layers["now"].fields
    here = points["names"].index(text("live.distance.point", routing="Valiant", distance=4))
    assert (now["x"][0], now["y"][0]) == (points["x"][here], points["y"][here])


def test_pointing_at_a_group_leaves_its_cables_and_endpoints():
    scene = live.distance(DRAGONFLY, 4, "valiant").scene
    bands, cables, hosts = (scene.layers[k].fields for k in ("nodes", "cables", "hosts"))
    assert bands["focus"] and len(bands["names"]) == 33
    mine = (np.asarray(cables["a"]) == 5) | (np.asarray(cables["b"]) == 5)
    assert {name for name, own in zip(cables["names"], mine, strict=True) if own} == {
        name for name in cables["names"] if "group 5," in name
    }
    assert mine.sum() == 32 and np.sum(np.asarray(hosts["a"]) == 5) == 32
    table = scene.table
    own = np.array(["group 5," in a + b for a, b in zip(table["from"], table["to"], strict=True)])
    own &= np.array([b != text("map.within") for b in table["to"]])
    used = np.sum(table["load"][own] > 0)
    most = 100 * table["fullest"][own].max()
    assert figures(bands["notes"][5]) == [str(used), "32", f"{most:.3g}", "100"]


def test_a_circle_of_links_is_drawn_with_its_names_in_order():
    small = topologies.build("dragonfly", p=2, a=4, h=2)
    torus = topologies.build("torus", shape=(4, 4, 8))
    for f, how in ((small, "minimal"), (torus, "dimension_order")):
        routes = fl.routing.route(f, fl.metrics.uniform(f), how)
        circle = fl.routing.deadlock(f, routes)
        picture = fl.views.fabric(f, loop=circle)
        ends = [[place_name(f, int(node[i])) for i in circle] for node in (f.source, f.target)]
        assert picture.table["waits in"].tolist() == ends[0]
        assert picture.table["for"].tolist() == ends[1]
        assert figures(picture.finding)[:1] == [str(len(circle))]
        shown = [t.get_text() for t in picture.axes.texts]
        # Each link has its number in the picture and in the list, which stands under the sign of what is wrong.
        numbers = [n for n in shown if n.isdigit()]
        assert all(numbers.count(str(i + 1)) >= 2 for i in range(len(circle)))
        assert "✕" in shown and f"{ends[0][0]} → {ends[1][0]}" in shown
        assert re.fullmatch(r"(chip \d \d \d|switch \d of group \d)", ends[0][0])
    scene = fl.views.fabrics.fabric_scene(small, loop=fl.routing.deadlock(small, routes_of(small)))
    loop, box = scene.layers["loop"].fields, scene.layers["nodes"].fields
    middle = box["x"] + box["w"] / 2 + 1j * (box["y"] + box["h"] / 2)
    starts = loop["ptr"][:-1].astype(int)
    ends = loop["ptr"][1:].astype(int) - 1
    x = loop["x"] + 1j * loop["y"]
    a = np.abs(middle - x[starts][:, None]).argmin(axis=1)
    b = np.abs(middle - x[ends][:, None]).argmin(axis=1)
    assert np.array_equal(np.roll(a, -1), b)  # each arrow begins where the one before it ends
    assert {loop["colour"]} == {COLOUR["wrong"]}
    with pytest.raises(ValueError, match="form a circle"):
        fl.views.fabric(small, loop=[0, 2])


def routes_of(f):
    """Return the shortest routes of an all-to-all on a dragonfly."""
    return fl.routing.route(f, fl.metrics.uniform(f), "minimal")


def test_halves_are_told_apart_and_a_full_fat_tree_says_why_all_cuts_are_alike():
    view = live.cut(FAT, 2)
    box = view.scene.layers["nodes"].fields
    hosts = [f"host {FAT.name(int(e)).split()[1]}" for e in FAT.endpoint[2:10]]
    assert {n for n, c in zip(box["names"], box["colour"], strict=True) if c == COLOUR["node"]} == {
        *hosts
    }
    areas = view.scene.layers["areas"].fields
    assert np.sum(np.asarray(areas["colour"]) == COLOUR["domain"]) == 8 == len(areas["x"]) / 2
    lines = view.scene.layers["cables"].fields
    is_cut = np.asarray(lines["colour"]) == COLOUR["ink"]
    assert is_cut.sum() == 8 and COLOUR["overloaded"] not in lines["colour"]
    told = sentence("live.cut.full").fullmatch(view.scene.said)
    halves = text("live.cut.halves", order=view.values["order"], first=2)
    assert view.scene.alt.endswith(halves)
    assert view.scene.table["cut"].sum() == 8 and figures(told["cables"]) == ["8"]
    assert all(
        sentence("live.cut.full").fullmatch(view.set(first=i, order=order).scene.said)
        for i in (0, 5)
        for order in view.controls["order"].options
    )
    thin = live.cut(topologies.build("leaf_spine", hosts=24, radix=16, oversubscription=3))
    told = sentence("live.cut.said", rate=200e9, part=100 / 3).search(thin.scene.said)
    assert figures(told["cables"]) == ["4"]
    assert thin.scene.table["cut"].sum() == 4
    assert sentence("live.cut.said", part=100).search(thin.set(order="shuffled").scene.said)
    names = [text(f"live.cut.{key}") for key in ("one", "other", "both")]
    shown = thin.scene.layers["ends"].fields["texts"]
    assert shown[:-1] == ["", *names]
    assert figures(shown[-1]) == [str(thin.scene.table["cut"].sum())]
    mixed = (
        live.cut(topologies.build("rail_optimised", expand=False))
        .scene.layers["ends"]
        .fields["texts"]
    )
    assert mixed[:-1] == ["", *names[2:]]


def test_failures_say_of_what_the_part_is_and_count_one_rank_as_one():
    view = live.failures(FAT, "leaf", 1, kinds=("cable", "leaf"))
    hurt = operations.fail(FAT, "leaf", [np.random.default_rng(0).permutation(8)[0]])
    part = 100 * operations.report(FAT, hurt).bandwidth
    told = sentence("live.failures.said", n=1, what="8 leaves", cut="2 ranks", part=part)
    assert told.search(view.scene.said)
    said = [view.set(what="cable", count=n).scene.said for n in range(9)]
    cut = {sentence("live.failures.said").search(words)["cut"] for words in said}
    assert "1 rank" in cut and "1 ranks" not in cut


def test_a_choice_of_one_is_no_control():
    view = live.fabric(FAT)
    assert list(view.controls) == ["layout"]
    assert view.values == {"open": None, "colour": "tier", "layout": "tiers"}
    assert list(live.fabric(FAT.without(cables=[1])).controls) == ["colour", "layout"]
    one = live.failures(FAT, kinds=("leaf",), what="leaf")
    assert (
        list(one.controls) == ["count", "seed"]
        and "kinds=('leaf',), what='leaf', count=1" in one.code
    )
    with pytest.raises(ValueError, match="server must be one of 'dgx1v', got 'mi300x'"):
        live.server(servers=("dgx1v",))
    three = {name: live.Slider(0, 3) for name in "abc"}
    assert list(
        live.fabric(FAT, lambda a, b, c: np.zeros(FAT.n_links), controls=three).controls
    ) == ["a", "b", "c"]
    for wrong in ({"colour": "load"}, {"layout": "hall", "controls": three}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be one of '"):
            live.fabric(
                FAT, (lambda **_: np.zeros(FAT.n_links)) if "controls" in wrong else None, **wrong
            )


def test_the_busy_cables_of_a_fabric_lie_on_top():
    scene = live.paths(topologies.build("fat_tree", k=4)).scene
    assert scene.table["load"].tolist() == sorted(scene.table["load"])
    assert np.sum(scene.table["load"] > 0) == 6


def test_boxes_of_gpus_are_no_servers_and_their_switches_have_plain_names():
    scene = live.gigaio().scene
    assert scene.layers["places"].fields["texts"] == ["box 0", "box 1"]
    rows = [
        row
        for row in scene.layers["margins"].fields["texts"]
        if row[0].isdigit() and " x" not in row
    ]
    assert {"16 GPUs", "8 box switches", "2 switches", "2 root ports", "1 CPU"} <= {*rows}
    assert f"16 GPUs {text('fabric.in_box', n=2)}" in scene.alt and "server" not in scene.alt


@pytest.mark.parametrize(
    ("flows", "cables", "mean", "said", "marks"),
    [
        (
            32,
            32,
            3.53,
            {"flows": "32 flows", "idle": "13 cables", "most": 4, "slow": 4},
            {"fullest, expected": 3.53, "spray": 1},
        ),
        (48, 32, 4.51, {"flows": "48 flows"}, {"spray": 1.5}),
        (
            8,
            32,
            1.66,
            {"flows": "8 flows", "idle": "25 cables", "most": 2, "slow": 2},
            {"fullest, expected": 1.66, "one flow": 1},
        ),
        (
            1,
            2,
            1,
            {"flows": "1 flow", "idle": "1 cable"},
            {"fullest, expected": 1, "one flow": 1},
        ),
    ],
)
def test_lines_of_the_roulette_are_named_and_no_fullest_cable_is_below_them(
    flows, cables, mean, said, marks
):
    scene = live.roulette(flows, cables).scene
    if "slow" in said:
        said = said | {"slow": text("live.roulette.slow", slow=said["slow"])}
    key = "live.roulette.said" if flows > 1 else "live.roulette.alone"
    assert sentence(key, **said).fullmatch(scene.said)
    assert scene.hint == text("live.roulette.hint", mean=mean)
    assert scene.alt == f"{scene.said} {scene.hint}"
    bars, words, rules = (scene.layers[name].fields for name in ("bars", "words", "rules"))
    unit = bars["h"].max() / scene.table["flows"].max()
    height = dict(zip(words["texts"], (_BARS_FOOT - rules["y"][::2]) / unit, strict=False))
    assert {name: height[name] for name in marks} == pytest.approx(marks, abs=0.01)
    assert (
        min(height["fullest, expected"], scene.table["flows"].max())
        >= min(height.values()) - 1e-6
        >= 1 - 2e-6
    )
    beside = words["y"][:2]
    assert abs(beside[0] - beside[1]) >= 14.9
    assert bars["notes"] == ["1 flow" if n == 1 else f"{n} flows" for n in scene.table["flows"]]


def test_what_some_gpus_of_a_server_get():
    view = live.server("mi300x", 5)
    said = text("live.server.said", n=5, server="8 × MI300X", rate=256e9)
    assert view.scene.said == f"{said} {text('live.server.own', used=4, all=7)}"
    over = sentence("live.server.said", n=5).pattern + " " + re.escape(text("live.server.cpu"))
    over += " " + sentence("live.server.both_ways").pattern
    assert re.fullmatch(over, view.set(server="dgx1v").scene.said)
    assert view.set(gpus=6).scene.said.endswith(text("live.server.own", used=4, all=6))
    said = [live.server("pcie_8gpu", n, servers=("pcie_8gpu",)).scene.said for n in (4, 5)]
    assert [text("live.server.cpu") in words for words in said] == [False, True]
    assert not any(sentence("live.server.own").search(words) for words in said)
    idle = view.set(server="mi300x", gpus=5).scene.table
    assert (
        np.sum(
            (idle["load"] == 0)
            & [a[:3] == b[:3] == "GPU" for a, b in zip(idle["from"], idle["to"], strict=True)]
        )
        == 18
    )
    assert list(live.server(servers=("dgx1v",), server="dgx1v").controls) == ["gpus"]


def passes_behind(scene):
    """Return which cables pass behind a box that is not their end, half a pixel of its edge left out."""
    nodes, cables = (scene.layers[name].fields for name in ("nodes", "cables"))
    x, y, w, h = (nodes[name] for name in "xywh")
    ptr, wide = cables["ptr"].astype(int), cables["width"] / 2 + 1.25  # with its dark edge
    seen = []
    for name, start, end, half in zip(cables["names"], ptr[:-1], ptr[1:], wide, strict=True):
        points = np.stack([cables["x"], cables["y"]])[:, start:end]
        at = np.concatenate(
            [np.linspace(a, b, 200) for a, b in zip(points.T[:-1], points.T[1:], strict=True)]
        )
        other = [box not in name.split(" – ") for box in nodes["names"]]
        over = np.abs(at[:, :1] - x - w / 2) < w / 2 + half - 0.5
        over &= np.abs(at[:, 1:] - y - h / 2) < h / 2 - 0.5
        seen += [(name, nodes["names"][i]) for i in np.flatnonzero(over.any(axis=0) & other)]
    return seen


SERVERS = (
    "dgx1v",
    "dgx_a100",
    "dgx_h100",
    "dgx_h200",
    "mi300x",
    "pcie_8gpu",
    "gh200",
    "gb200",
    "nvl72",
)
SERVED = {name: topologies.build(name) for name in SERVERS} | {
    "two layers of NVLink": topologies.build("nvl72", gpus=144),
    "half a server": topologies.build("dgx_h100").without(nodes=[3, 9]),
    **{f"{n} on rails": topologies.build("rail_optimised", servers=n) for n in (1, 2, 4)},
}


@pytest.mark.parametrize("name", SERVED)
def test_no_cable_of_a_server_passes_behind_a_box_that_is_not_its_end(name):
    assert passes_behind(live.fabric(SERVED[name]).scene) == []


def test_cables_through_one_gap_of_a_row_stand_apart():
    cables, nodes = (
        live.fabric(SERVED["dgx_h100"]).scene.layers[name].fields for name in ("cables", "nodes")
    )
    row_of_nics = min(
        y for y, name in zip(nodes["y"], nodes["names"], strict=True) if "NIC" in name
    )
    middle = row_of_nics + nodes["h"][0] / 2
    x = []
    for name, start, end in zip(
        cables["names"],
        *(cables["ptr"].astype(int)[i:][: -1 or None] for i in (0, 1)),
        strict=False,
    ):
        if "PCIe" in name and "CPU" in name:
            y = cables["y"][start:end]
            x.append(np.interp(middle, y[::-1], cables["x"][start:end][::-1]))
    nics = [name.startswith("NIC") for name in nodes["names"]]
    assert len(x) == 8 and np.diff(np.sort(x)).min() > 10
    assert {texts for texts, nic in zip(nodes["texts"], nics, strict=True) if nic} == {
        f"{i}" for i in range(8)
    }


def test_cables_round_a_row_say_what_they_join():
    words = [
        live.fabric(SERVED[name]).scene.layers["margins"].fields["texts"]
        for name in ("dgx1v", "dgx_h100")
    ]
    after = [{a: b for a, b in itertools.pairwise(row) if "–" in a} for row in words]
    assert after[0] == {
        "CPU–CPU": "1 × 6 GB/s",
        "PCIe–CPU": "4 × 15.8 GB/s",
    }
    assert after[1]["PCIe–CPU"] == "8 × 63 GB/s"
    # Between rows that are next to each other the place says it.
    assert not {"PCIe–NIC", "GPU–PCIe", "GPU–GPU"} & {*after[0], *after[1]}
    plain = live.fabric(SERVED["1 on rails"]).scene.layers["margins"].fields
    assert not any("–" in text.partition(" x ")[0] for text in plain["texts"])
    two = live.fabric(SERVED["two layers of NVLink"]).scene.layers["margins"]
    assert ends_of(two)[1].max() <= 700


def test_many_cables_within_the_lowest_row_have_more_room():
    def deepest(name):
        layers = live.fabric(topologies.build(name)).scene.layers
        nodes = layers["nodes"].fields
        return (layers["cables"].fields["y"].max() - (nodes["y"] + nodes["h"]).max()) / nodes["h"][
            0
        ]

    assert deepest("mi300x") > 3 > 2 > deepest("gh200") > 1


# copies -------------------------------------------------------------------------------------------
def test_copies_run_over_the_cables_of_their_parts_and_stand_apart():
    drawn = live.copies("pageable", "SYS", size="1 GB").scene.layers
    box, over, number = (drawn[k].fields for k in ("nodes", "copies", "numbers"))
    middle = dict(zip(box["names"], box["x"] + box["w"] / 2, strict=True))
    ptr = over["ptr"].astype(int)
    ends = [(over["x"][a], over["x"][b - 1]) for a, b in itertools.pairwise(ptr)]
    for (start, end), (a, b) in zip(
        ends, [("NIC 7", "CPU 0"), *[("CPU 0",) * 2] * 2, ("CPU 0", "GPU 0")], strict=True
    ):
        # a processor is 155 wide
        assert abs(start - middle[a]) < 115 and abs(end - middle[b]) < 115
    assert number["texts"] == ["1", "2", "3", "4"] * 2
    spots = np.stack([number["x"], number["y"]], axis=1)
    # no number hides another
    assert np.all(np.abs(spots[:, None] - spots).max(axis=2) + 99 * np.eye(8) >= 18)
    assert drawn["words"].fields["y"].max() < live.copies("pageable").scene.height


def test_the_last_chunk_arrives_when_the_path_says():
    way = fl.gpudirect.path(topologies.build("dgx_h100"), "gpu 0", "gpu 1", "pageable")
    scene = live.chunks(64.0, "pageable").scene
    assert scene.table["finish [s]"].max() == pytest.approx(way.time("8 MiB", "64 KiB"), rel=1e-12)
    assert scene.table["start [s]"].min() == pytest.approx(way.moves[0].latency)
    assert fl.units.format_time(way.time("8 MiB", "64 KiB")) in scene.said


# steppers -----------------------------------------------------------------------------------------
STEPPERS = {
    "ring of 4": lambda: live.stepper("all_reduce", "ring", 4, step=2),
    "ring of 16": lambda: live.stepper("all_reduce", "ring", 16, step=2),
    "tree of 16": lambda: live.stepper(
        "all_reduce", "binomial_tree", 16, segments=4, pipelined=True, step=3
    ),
    "leaves": lambda: live.stepper(
        "all_reduce", "ring", 16, fabric=topologies.build("leaf_spine", hosts=32, radix=8), step=1
    ),
    "segments": lambda: live.stepper("broadcast", "scatter_all_gather", 4, segments=3, step=1),
    "one": lambda: live.stepper("all_reduce", "ring", 1, fabric=FABRICS["one host"]),
}


@pytest.mark.parametrize("name", STEPPERS)
def test_boxes_of_a_stepper_hide_nothing(name):
    view = STEPPERS[name]()
    assert view.scene.height <= 412 and view.scene.width <= 640
    layers = view.scene.layers
    apart(layers["cards"].fields, 0)
    within(view.scene, "cards", "cells", "empty")
    if "nodes" in layers:
        nodes, cards = layers["nodes"].fields, layers["cards"].fields
        within(view.scene, "nodes")
        assert (nodes["y"] + nodes["h"]).max() < cards["y"].min()


@pytest.mark.parametrize(
    "sizes",
    [(3, 8), pytest.param((2, 5, 7, 11, 15, 16), marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", registry.names("collective"))
def test_links_and_labels_of_every_algorithm_hide_no_box(name, sizes):
    what, algorithm = name.split(".")
    for n in sizes:
        view = live.stepper(what, algorithm, n, root=n - 1)
        layers = view.scene.layers
        cards, links = layers["cards"].fields, layers["links"].fields
        apart(cards, 0)
        within(view.scene, "cards", "cells")
        left, right = cards["x"] + 1, cards["x"] + cards["w"] - 1
        top, bottom = cards["y"] + 1, cards["y"] + cards["h"] - 1
        x, y = links["x"][:, None], links["y"][:, None]
        assert not np.any((x > left) & (x < right) & (y > top) & (y < bottom))
        assert np.all((links["x"] >= 0) & (links["x"] <= 640) & (links["y"] >= 0))
        assert links["y"].max(initial=0.0) <= view.scene.height
        for step in range(1, view.controls["step"].high + 1):
            labels = view.set(step=step).scene.layers["labels"].fields
            if labels["x"].size:
                assert not overlaps(labels, cards).any()


def test_a_server_with_one_gpu_has_no_switch():
    """Eleven GPUs make eleven servers, whose only switch is that of their rail."""
    plan = fl.collectives.build("all_reduce", "nvls_sharp", 11)
    assert plan.n_switches == 1
    cards = live.stepper("all_reduce", "nvls_sharp", 11).scene.layers["cards"].fields
    assert cards["x"].size == 12
    apart(cards, 0)


def overlaps(one, other, gap=-1.0):
    """Return which boxes of one layer overlap which boxes of another."""
    sizes = [np.broadcast_to(one[k], one["x"].shape)[:, None] for k in "wh"]
    across = (one["x"][:, None] < other["x"] + other["w"] + gap) & (
        other["x"] < one["x"][:, None] + sizes[0] + gap
    )
    along = (one["y"][:, None] < other["y"] + other["h"] + gap) & (
        other["y"] < one["y"][:, None] + sizes[1] + gap
    )
    return across & along


def apart(cards, gap):
    """Check that no two boxes of a layer overlap."""
    assert np.array_equal(overlaps(cards, cards, gap), np.eye(cards["x"].size, dtype=bool))


def within(scene, *layers):
    """Check that all boxes of some layers stand within the picture."""
    for name in layers:
        drawn = scene.layers[name].fields
        assert drawn["x"].min() >= 0 and (drawn["x"] + drawn["w"]).max() <= scene.width
        assert drawn["y"].min() >= 0 and (drawn["y"] + drawn["h"]).max() <= scene.height


@pytest.mark.parametrize("n", [4, 8, 12, 16])
def test_a_ring_is_a_ring_with_links_of_equal_length(n):
    scene = live.stepper("all_reduce", "ring", n).scene
    cards, links = scene.layers["cards"].fields, scene.layers["links"].fields
    assert links["ptr"].size - 1 == n
    middle = np.stack([cards["x"] + cards["w"] / 2, cards["y"] + cards["h"] / 2], axis=1)
    steps = np.hypot(*(np.roll(middle, -1, axis=0) - middle).T)  # chords of equal arcs
    assert steps.max() / steps.min() < 1.15
    angle = np.unwrap(np.arctan2(*(middle - [320, 194]).T[::-1]))
    assert np.all(np.diff(angle) > 0) and np.ptp(angle) < 2 * np.pi  # once around, clockwise


@pytest.mark.parametrize("name", STEPPERS)
def test_names_of_boxes_have_their_room(name):
    layers = STEPPERS[name]().scene.layers
    cards, names = layers["cards"].fields, layers["names"].fields
    room = cards["x"] + cards["w"] - names["x"]
    letters = np.array([len(words) for words in names["texts"]])
    assert np.all(0.56 * 12 * letters <= room)


def test_a_number_alone_stands_where_the_word_gpu_has_no_room():
    scene = live.stepper("all_reduce", "nvls_two_shot", 4).scene
    names = scene.layers["names"].fields["texts"]
    assert names == [*(text("live.stepper.rank", r=r) for r in range(4)), "switch 0"]
    assert text("live.stepper.short") not in scene.layers["key_words"].fields["texts"]
    trees = live.stepper("all_reduce", "double_tree", 16).scene
    assert trees.layers["names"].fields["texts"] == [*map(str, range(16))] * 2
    assert text("live.stepper.short") in trees.layers["key_words"].fields["texts"]


def test_segments_of_blocks_are_named():
    view = STEPPERS["tree of 16"]()
    layers = view.scene.layers
    assert layers["cells"].fields["names"][:5] == [
        *(f"GPU 0, block 0{s}" for s in "abcd"),
        "GPU 1, block 0a",
    ]
    assert {*layers["movers"].fields["texts"]} == {"0a", "0b", "0c"}
    ranks = {r: text("live.stepper.rank", r=r) for r in (0, 2, 4)}
    move = text("live.stepper.move", source=ranks[4], target=ranks[0], blocks="0a")
    assert move + text("live.stepper.added") in view.scene.alt
    assert text("live.stepper.parts", name="0b") in view.set(step=0).scene.said
    several = STEPPERS["segments"]().scene
    assert several.layers["movers"].fields["texts"] == ["2a–3a"]
    assert several.layers["movers"].fields["w"] > 0.56 * 12 * len("2a–3a")
    move = text("live.stepper.moves", source=ranks[0], target=ranks[2], blocks="2a–3a")
    assert move in several.alt
    assert "0a" not in STEPPERS["ring of 4"]().scene.alt


# sweeps and rulers --------------------------------------------------------------------------------
LONG = "a name that is much longer than the margin of the picture can ever hold"
SIZES = ["64 KiB", "1 MiB", "4 MiB"]


def swept():
    star = FABRICS["crossbar"]
    made = {
        name: fl.sweep("all_reduce", name, star, SIZES, lag="5 us")
        for name in ("ring", "binomial_tree")
    }
    here = Result("all_reduce", "measured", [2**16, 2**20, 2**22], [1e-3, 2e-3, 3e-3], n_ranks=16)
    return {**made, LONG: here}


def test_labels_of_sweeps_have_the_hue_and_the_mark_of_their_series():
    layers = live.sweep(swept).scene.layers
    labels, marks, lines = (layers[k].fields for k in ("labels", "marks", "lines"))
    hues = [COLOUR["ring"], COLOUR["direct"]]  # a binomial tree is one of all others
    assert lines["colour"].tolist() == hues and labels["colour"].tolist()[:2] == hues
    assert {*lines["dash"]} == {0}  # hue and mark tell them apart
    assert marks["colour"].tolist()[:2] == hues and marks["shape"].tolist()[:2] == [0, 1]
    assert layers["dots"].fields["colour"].tolist() == [COLOUR["measured"]] * 3
    assert labels["colour"][2] == COLOUR["measured"] and {*layers["dots"].fields["shape"]} == {0}
    assert marks["y"].tolist() == labels["y"][:3].tolist()
    assert lines["x"].max() < marks["x"].min() and marks["x"].max() < labels["x"].min()


def test_long_names_are_shortened_where_they_are_drawn_and_whole_where_they_are_read():
    layers = live.sweep(swept).scene.layers
    assert layers["labels"].fields["texts"][:2] == ["ring", "binomial tree"]
    first, cut = layers["labels"].fields["texts"][2:]
    assert cut[-1] == "…" and LONG.startswith(f"{first} {cut[:-1]}") and len(first) > 15 < len(cut)
    assert layers["labels"].fields["x"][2] + 0.56 * 12 * max(len(first), len(cut)) < 880
    assert layers["dots"].fields["names"][0].startswith(LONG)
    layers = live.ruler({LONG: "10 GB/s", "copy": "1 GB/s"}, {"NVLink 4": "450 GB/s"}).scene.layers
    names = layers["names"].fields
    cut = next(name for name in names["texts"] if name.endswith("…"))
    assert LONG.startswith(cut[:-1]) and names["x"][0] - 0.6 * 12 * len(cut) > 0
    assert {LONG, "copy", "NVLink 4"} < {*layers["rows"].fields["names"]}
    assert {"copy", "NVLink 4"} < {*names["texts"]}


def gathered(obtained, n, spread=False):
    """Return n series of one kind, the last slowest."""
    times = [(1 + i) * np.array([1e-3, 2e-3, 3e-3]) for i in range(n)]
    ends = [{"low": 0.9 * t, "high": 1.2 * t} if spread else {} for t in times]
    size = [2**16, 2**20, 2**22]
    return {
        f"s{i}": Result("copy", obtained, size, t, n_ranks=16, source="a paper", **more)
        for i, (t, more) in enumerate(zip(times, ends, strict=True))
    }


@pytest.mark.parametrize(
    ("obtained", "shapes"), [("measured", [0, 3, 4, 5, 6]), ("published", [1, 7, 8, 9, 10])]
)
def test_dots_of_one_kind_differ_in_shape_and_lines_of_one_kind_in_their_marks(obtained, shapes):
    layers = live.sweep(gathered(obtained, 5)).scene.layers
    assert layers["marks"].fields["shape"].tolist() == shapes
    assert layers["dots"].fields["shape"].tolist() == np.repeat(shapes, 3).tolist()
    drawn = live.sweep(gathered("predicted", 5), bounds={"b": "1 ms"}).scene.layers
    marks = drawn["marks"].fields
    on_lines = drawn["line marks"].fields
    looks = {*zip(marks["shape"].tolist(), marks["colour"].tolist(), strict=True)}
    assert {*marks["shape"]} == {1, 7, 8, 9, 10}
    assert {*zip(on_lines["shape"].tolist(), on_lines["colour"].tolist(), strict=True)} == looks
    traffic = {COLOUR[kind] for kind in ("dp", "tp", "pp", "ep", "cp")}
    assert not traffic & {*drawn["lines"].fields["colour"].tolist()}
    assert {*drawn["lines"].fields["dash"]} == {0} and {*drawn["bounds"].fields["dash"]} == {2}
    twice = {"halving": "predicted", "halving, hashed": "predicted"}
    runs = {k: gathered(v, 1)["s0"] for k, v in twice.items()}
    layers = live.sweep(runs).scene.layers
    assert {*layers["lines"].fields["dash"]} == {0} and len({*layers["lines"].fields["width"]}) == 2
    assert layers["marks"].fields["shape"].tolist() == [3, 7]


def test_three_lines_of_one_algorithm_have_a_full_an_open_and_a_cored_mark():
    names = ("streaming", "in-switch, program", "NVLS")
    layers = live.sweep({name: gathered("predicted", 1)["s0"] for name in names}).scene.layers
    marks = layers["marks"].fields
    assert {*marks["colour"]} == {COLOUR["in_switch"]}
    assert marks["shape"].tolist() == [5, 9, 9, 0] and marks["size"][3] < marks["size"][2]
    assert marks["x"][2] == marks["x"][3] and marks["y"][2] == marks["y"][3]


def test_marks_stand_on_their_lines_and_leave_them_where_there_are_dots_of_the_same_colour():
    layers = live.sweep(swept).scene.layers
    on, lines = layers["line marks"].fields, layers["lines"].fields
    for number, hue in enumerate((COLOUR["ring"], COLOUR["direct"])):
        path = slice(*lines["ptr"][number : number + 2].astype(int))
        mine = on["colour"] == hue
        assert mine.any()
        heights = np.interp(on["x"][mine], lines["x"][path], lines["y"][path])
        assert on["y"][mine] == pytest.approx(heights, abs=0.1)
    both = {"mesh": gathered("predicted", 1)["s0"], "mesh, measured": gathered("measured", 1)["s0"]}
    layers = live.sweep(both).scene.layers
    assert not layers["line marks"].fields["x"].size and layers["marks"].fields["x"].size == 1


def test_an_axis_of_tokens_counts_them_and_names_them_where_lines_cross():
    size = np.array([16.0, 256.0, 4096.0])
    crossing = {
        name: Result("all_to_all", "predicted", size, time, 8)
        for name, time in {"one": [1e-6, 2e-6, 4e-6], "two": [1.5e-6] * 3}.items()
    }
    scene = live.sweep(crossing, x="tokens", token="16 B").scene
    assert scene.table["tokens"].tolist()[:3] == [1, 16, 256]
    assert scene.layers["crossing"].fields["texts"] == [text("sweep.change", at="5 tokens")]
    assert scene.layers["across"].fields["texts"] == [text("sweep.axis_tokens")]
    with pytest.raises(ValueError, match="token must be the size of a token"):
        fl.views.sweep(crossing, x="tokens")


def test_the_spread_of_a_series_is_drawn_as_its_table_tells_it():
    scene = live.sweep(gathered("measured", 1, spread=True)).scene
    strokes, dots = scene.layers["spread"].fields, scene.layers["dots"].fields
    assert strokes["x"].tolist() == np.repeat(dots["x"], 2).tolist()
    ends = np.log(np.stack([scene.table["low [s]"], scene.table["high [s]"]], axis=1).ravel())
    slope = np.polyfit(np.log(scene.table["time [s]"]), dots["y"], 1)
    assert strokes["y"] == pytest.approx(np.polyval(slope, ends), abs=0.1)


def test_thirty_series_have_five_labels_and_one_for_the_others_within_the_picture():
    scene = live.sweep(gathered("measured", 30)).scene
    assert scene.layers["labels"].fields["texts"] == [*(f"s{i}" for i in range(5)), "others: 25"]
    names = scene.layers["lines"].fields["names"]  # each with the values of both ends
    assert [name.split()[0] for name in names] == [f"s{i}" for i in range(5, 30)]
    ends = (
        text("sweep.at", value=value, x=x)
        for value, x in (("6.00 ms", "64 KiB"), ("18.0 ms", "4 MiB"))
    )
    assert names[0] == text("sweep.time", label="s5", list=text("word.and").join(ends))
    assert {*scene.layers["lines"].fields["dash"]} == {0}
    many = live.sweep(swept, bounds={f"b{i}": f"{i + 1} ms" for i in range(20)}).scene
    assert many.layers["labels"].fields["y"].max() < many.height - 30
    assert np.diff(np.sort(many.layers["labels"].fields["y"])).min() > 16.9


def test_long_names_of_a_race_stay_within_the_picture():
    run = fl.simulate("all_reduce", "ring", FABRICS["crossbar"], "1 MB")
    layers = live.race({LONG: run}).scene.layers
    cut = layers["names"].fields["texts"][0]
    assert cut[-1] == "…" and layers["names"].fields["x"][0] - 0.6 * 12 * len(cut) > 0
    assert layers["way"].fields["names"] == [LONG]


# words --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda: live.fabric(LARGE.without(cables=[20])),
        lambda: live.stepper("all_reduce", "ring", 4, step=1),
        lambda: live.sweep(swept),
        lambda: live.placement(topologies.build("rail_optimised", servers=2)),
        lambda: live.ruler({"copy": "10 GB/s"}, {"NVLink 4": "450 GB/s"}),
    ],
)
def test_titles_and_labels_of_controls_come_from_the_table_of_the_language(
    make, monkeypatch, pseudo
):
    monkeypatch.setenv("FABRICLAB_LANGUAGE", pseudo)
    view = make()
    assert "~" in view.title
    assert all("~" in control.label for control in view.controls.values())


def test_words_of_pictures_come_from_the_table_of_the_language(monkeypatch, pseudo):
    monkeypatch.setenv("FABRICLAB_LANGUAGE", pseudo)
    assert all(
        "~" in note
        for note in live.fabric(RAILS, layout="floor").scene.layers["nodes"].fields["notes"]
    )
    assert live.sweep(swept).scene.said.count("~") > 2
    names = live.stepper("all_reduce", "ring", 4).scene.layers["names"].fields["texts"]
    assert all("~" in name for name in names)


# progress -----------------------------------------------------------------------------------------
@pytest.fixture
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))


def test_a_name_with_dollars_is_drawn_as_it_is(own_file):
    fl.predict("a$_$b", 3, "s")
    fl.reveal("a$_$b", 4, "s")
    shown = fl.progress()._repr_html_()
    assert "<svg" in shown and ">a$_$b<" in shown.replace("\n", "")


def test_an_entry_with_the_name_of_a_section_is_not_forgotten_with_it(own_file):
    fl.predict("31-hall", 3, "s")
    fl.ledger("predictions", 1.0)
    fl.ledger("other", 1.0)
    with pytest.raises(InputRefused, match=r"predictions: 31-hall; ledger: predictions, other"):
        fl.forget("predictions")
    assert [*store.held()["predictions"]] == ["31-hall"]
    fl.forget("ledger: predictions")
    assert [*store.held()["ledger"]] == ["other"] and store.held()["predictions"]
    fl.forget("predictions")
    assert store.held()["predictions"] == {} and [*store.held()["ledger"]] == ["other"]
    fl.ledger("everything", 1.0)
    with pytest.raises(InputRefused, match="ledger: other, everything"):
        fl.forget("everything")


def test_what_has_failed_has_a_colour_of_its_own():
    hurt = FAT.without(cables=[20], nodes=FAT.nodes("leaf")[:1])
    scene = live.fabric(hurt, colour="failure").scene
    drawn, rows = scene.layers["cables"].fields, scene.table
    pairs = [f"{a} – {b}" for a, b in zip(rows["from"], rows["to"], strict=True)]
    failed = {pair for pair, n in zip(pairs, rows["failed"], strict=True) if n}
    red = {
        name
        for name, c in zip(drawn["names"], drawn["colour"], strict=True)
        if c == COLOUR["failed"]
    }
    assert failed and red == failed and {*drawn["colour"]} == {COLOUR["failed"], COLOUR["grey"]}
    floor = live.fabric(hurt, colour="failure", layout="floor").scene
    dead = floor.table["failed links"] > 0
    assert dead.any() and np.array_equal(
        floor.layers["nodes"].fields["colour"] == COLOUR["failed"], dead
    )


def test_a_sentence_says_how_its_numbers_are_written(monkeypatch, tmp_path):
    file = tmp_path / "language.json"
    file.write_text(json.dumps({"x": "{a:time}, {b:rate}, {c:size}, {n:,}, {p:.1f}, {q}"}))
    monkeypatch.setenv("FABRICLAB_LANGUAGE", str(file))
    assert text("x", a=0.7, b=np.float64(5e10), c=2.0**20, n=1024, p=1 / 3, q=0.5) == (
        "700 ms, 50.0 GB/s, 1 MiB, 1,024, 0.3, 0.5"
    )
