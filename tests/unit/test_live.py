"""Live views: by hand, the law on widgets, refusals, text mode."""

import functools
import gc
import itertools
import re
import weakref

import ipywidgets
import numpy as np
import pytest

import fabriclab as fl
from fabriclab import collectives, live, look, registry, topologies
from fabriclab.course import cards
from fabriclab.innetwork.compare import HOSTS, compare
from fabriclab.texts import text
from fabriclab.views.layout import spoken_names
from fabriclab.views.live import headrooms, queues, rdma, waits
from fabriclab.views.live.controls import natural, option_name, typed_units
from fabriclab.views.live.form import Form, Turn
from fabriclab.views.live.widget import Live
from fabriclab.views.scene import COLOUR, EDGE, FORM, Layer, Scene, printed, shade, turned
from support import rdma_pairs
from support.live_views import (
    ALPHA,
    DOTS,
    HALL,
    HALL_RACE,
    PIPELINE,
    RAILS,
    REPEATED,
    RUN,
    SHUFFLE,
    SMALL,
    STAR,
    STEP,
    VIEWS,
    counted,
    counts_packets,
    favoured,
    modelled,
    rooted,
    shuffled,
    three_ways,
    two_servers,
    two_ways,
)
from support.prose import sentence
from support.sampling import sampled
from support.ticks import places_of


def kept(obtained, **more):
    return fl.core.Result(
        "copy", obtained, [2**20, 2**24], [1e-3, 2e-3], n_ranks=1, source="a paper", **more
    )


# what curves with a point follow
CURVES = {"slots", "scale", "drift", "noise [mrad]", "distance [m]", "elements", "servers per rack"}
MEASURED = {
    "here": kept("measured", samples=[[1e-3, 1e-3, 2e-3], [2e-3, 2e-3, 3e-3]]),
    "there": kept("published"),
}
LINKS = {"NVLink 4": "450 GB/s"}
# Further views whose line of code must give them again.
CODES = VIEWS | {
    "bounded": lambda: live.sweep(two_ways, controls=ALPHA, bounds={"floor": np.float64(1e-5)}),
    "no fabric": lambda: live.timeline(RUN.timeline, RUN.flows),
    "results": lambda: live.ruler(MEASURED, LINKS),
    "numpy": lambda: live.fabric(
        HALL,
        shuffled,
        controls={"seed": live.Slider(np.int64(0), np.int64(9))},
        open=HALL.endpoint[300],
    ),
}


def held_by(name):
    """Return the variables that the line of code of a view names, beside those of `NAMES`."""
    if name in ("step", "step of four stages"):
        return {"step": STEP if name == "step" else PIPELINE}
    if name == "hall race":
        return {"runs": HALL_RACE}
    return vars(REPEATED if name == "repeated" else RUN)


NAMES = {
    "fl": fl,
    "sheets": DOTS,
    "shuffled": shuffled,
    "two_ways": two_ways,
    "three_ways": three_ways,
    "modelled": modelled,
    "counted": counted,
    "favoured": favoured,
    "rooted": rooted,
    "counts_packets": counts_packets,
    "runs": SMALL,
    "measured": MEASURED,
    "links": LINKS,
    "servings": two_servers(),
}


def drawn_words(scene):
    """Return all words that the picture shows, layer by layer."""
    return [
        layer.fields.get("texts") for panel in scene.panels() for layer in panel.layers.values()
    ]


def arrays(scene):
    """Return all numbers by panel, layer and field, ``0/lines.colour``; without a picture those of the table."""
    if not scene.layers and scene.table is not None:
        return {k: np.asarray(v) for k, v in scene.table.columns.items()}
    fields = {}
    for panel, prefix in zip(scene.panels(), ("", "side "), strict=False):
        for id, layer in panel.layers.items():
            fields |= {f"{prefix}{id}.{k}": v for k, v in layer.fields.items()}
    return {k: v for k, v in fields.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiub"}


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[k], other[k], equal_nan=True) for k in one
    )


# by hand ------------------------------------------------------------------------------------------
def test_a_ring_of_two_by_hand():
    view = live.stepper("all_reduce", "ring", 2)
    assert [view.set(step=s).scene.table["holds"].tolist() for s in range(3)] == [
        [1, 1, 2, 2],
        [3, 1, 2, 3],
        [3, 3, 3, 3],
    ]
    state = text("live.stepper.state_whole", whole=4, cells=4)
    chunk = text("live.stepper.chunk", n=2)
    moved = text("live.stepper.moved_copied", copied="2 blocks")
    told = {"step": 2, "steps": 2, "moved": moved}
    assert view.scene.said == text("live.stepper.said", state=state, chunk=chunk, **told)
    # A packet says which block it carries, and the read-out how many arrays that block sums: 1 at first, then both.
    blocks = [text("live.stepper.block", b=b) for b in (1, 0)]
    for step, order, n in ((1, blocks, "1 array"), (2, blocks[::-1], "2 arrays")):
        layers = view.set(step=step).scene.layers
        assert layers["movers"].fields["texts"] == layers["labels"].fields["texts"] == order
        kind = "copied" if step == 2 else "added"
        notes = [text(f"live.stepper.carried_{kind}", blocks=b, arrays=n) for b in order]
        assert layers["labels"].fields["notes"] == notes
    filled = view.set(step=1).scene.layers["blocks"].fields
    full = view.scene.layers["empty"].fields["h"]
    assert (filled["h"] / full).tolist() == [1, 0.5, 0.5, 1]
    assert filled["late"] and view.scene.layers["movers"].fields["gone"]


@pytest.mark.parametrize("name", ["stepper", "ring", "tree", "switches", "halves", "two trees"])
def test_a_packet_goes_from_its_block_along_its_link_to_the_block_that_it_changes(name):
    view = VIEWS[name]()
    scene = view.scene if view.scene.moves else view.set(step=1).scene
    movers, cells, solid = (scene.layers[k].fields for k in ("movers", "cells", "blocks"))
    ptr = movers["ptr"].astype(int)
    middle = np.stack([cells["x"] + cells["w"] / 2, cells["y"] + cells["h"] / 2], axis=1)
    for point in (ptr[:-1], ptr[1:] - 1):
        at = np.stack([movers["x"][point], movers["y"][point]], axis=1)
        gaps = np.abs(middle - at[:, None]).max(axis=2)
        assert gaps.min(axis=1) == pytest.approx(0, abs=0.01)
    changed = solid["alpha"][gaps.argmin(axis=1)]
    assert np.all(changed == 1) and np.count_nonzero(solid["alpha"] == 1) >= len({*changed})


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8])
def test_each_bar_of_a_ring_has_the_number_of_its_block(n):
    layers = live.stepper("all_reduce", "ring", n, step=1).scene.layers
    numbers, bars = layers["numbers"].fields, layers["empty"].fields
    assert numbers["texts"] == [str(block) for _ in range(n) for block in range(n)]
    assert numbers["x"] == pytest.approx(bars["x"] + bars["w"] / 2, abs=0.01)
    assert np.all(numbers["y"] > bars["y"] + bars["h"] + 5)
    # What the step has changed has a frame and a bold number, and is what the plates name.
    frames, bold = layers["changed"].fields, np.flatnonzero(numbers["bold"])
    assert np.array_equal(frames["x"], bars["x"][bold]) and len(bold) == n
    carried = {text("live.stepper.block", b=numbers["texts"][bar]) for bar in bold}
    assert {*layers["labels"].fields["texts"]} == carried


def test_where_numbers_would_meet_the_changed_block_and_the_ends_have_theirs():
    numbers = live.stepper("all_reduce", "ring", 16, step=3).scene.layers["numbers"].fields
    places = zip(numbers["x"], numbers["y"], numbers["texts"], numbers["bold"], strict=True)
    for _, box in itertools.groupby(
        sorted(places, key=lambda p: (p[1], p[0] // 62)), lambda p: p[1]
    ):
        shown = sorted(box)
        apart = [b[0] - a[0] for a, b in itertools.pairwise(shown)]
        assert min(apart) > 13  # two digits of 11 px
    bold = [
        words for words, is_bold in zip(numbers["texts"], numbers["bold"], strict=True) if is_bold
    ]
    assert sorted(map(int, bold)) == list(range(16))


@pytest.mark.parametrize("name", ["stepper", "ring", "large ring", "tree", "root", "halves"])
def test_arrowheads_point_to_the_boxes_that_receive(name):
    scene = VIEWS[name]().set(step=1).scene
    heads, used = scene.layers["heads"].fields, scene.layers["loaded"].fields
    tips = np.stack([heads["x"][1::3], heads["y"][1::3]], axis=1)
    ends = used["ptr"][1:].astype(int) - 1
    arrive = np.stack([used["x"][ends], used["y"][ends]], axis=1)
    assert {*map(tuple, arrive.tolist())} <= {*map(tuple, tips.tolist())}
    before = np.stack([used["x"][ends - 1], used["y"][ends - 1]], axis=1)
    ahead = arrive - before
    for end, way in zip(arrive, ahead, strict=True):
        which = np.flatnonzero((tips == end).all(axis=1))
        tails = np.stack([heads["x"], heads["y"]], axis=1).reshape(-1, 3, 2)[which][:, [0, 2]]
        assert np.all((end - tails) @ way > 0)
        assert np.hypot(*(end - tails).reshape(-1, 2).T) == pytest.approx(
            8 * np.hypot(1, 0.55), abs=0.1
        )


@pytest.mark.parametrize("name", ["stepper", "root", "halves", "routes"])
def test_the_legend_of_a_stepper_says_what_its_plates_mean(name):
    scene = VIEWS[name]().scene
    words = scene.layers["key_words"].fields
    assert words["texts"][:2] == [text("live.stepper.key_changed"), text("live.stepper.key_kept")]
    plate = "key_sum" if name == "root" else "key_plate"
    assert words["texts"][-1] == text(f"live.stepper.{plate}")
    ends = words["x"] + [6.6 * len(each) for each in words["texts"]]
    assert ends[-1] < scene.width and np.all(ends[:-1] < words["x"][1:])
    boxes = [scene.layers[k].fields for k in ("cards", "labels", "empty")]
    assert all(np.all(box["y"] + box["h"] < words["y"][0] - 8) for box in boxes if box["x"].size)


def test_the_list_tells_what_the_first_gpu_does_and_marks_the_present_step():
    side = live.stepper("all_reduce", "ring", 8, step=3).scene.side
    row = side.layers["row"].fields
    steps, sends, gets = (side.layers[k].fields for k in ("steps", "sends", "gets"))
    assert steps["texts"] == [str(step) for step in range(1, 15)]
    here = np.flatnonzero(steps["bold"])
    assert here.tolist() == [2] and row["y"][0] < steps["y"][2] < row["y"][0] + row["h"][0]
    assert sends["texts"][2] == text("live.stepper.sends", blocks="5")
    block = text("live.stepper.block", b="4")
    assert gets["texts"][2] == text("live.stepper.sum", blocks=block, n=4)
    assert gets["texts"][6] == text(
        "live.stepper.complete", blocks=text("live.stepper.block", b="0")
    )
    large = live.stepper("all_reduce", "ring", 16)
    for step in range(1, 31):
        steps = large.set(step=step).scene.side.layers["steps"].fields
        assert steps["texts"][np.flatnonzero(steps["bold"])[0]] == str(step)
        assert steps["y"].max() < large.scene.height - 16


@pytest.mark.parametrize(
    ("algorithm", "first", "second"),
    [
        ("ring", "reduce_scatter", "all_gather"),
        ("halving_doubling", "reduce_scatter", "all_gather"),
        ("binomial_tree", "reduce", "broadcast"),
        ("double_tree", "reduce", "broadcast"),
        ("nvls_two_shot", "in_switch", "from_switch"),
        ("recursive_doubling", "all_reduce", "all_reduce"),
    ],
)
def test_phases_have_their_names(algorithm, first, second):
    side = live.stepper("all_reduce", algorithm, 8).scene.side
    heads = side.layers["heads"].fields["texts"]
    phases = {one: text(f"live.stepper.phase.{one}") for one in (first, second)}
    assert list(dict.fromkeys(heads)) == list(phases.values())


@pytest.mark.parametrize("name", registry.names("collective"))
@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_every_algorithm_can_be_stepped_and_ends_as_its_definition_says(name, n):
    what, algorithm = name.split(".")
    view = live.stepper(what, algorithm, n)
    last = view.set(step=view.controls["step"].high).scene.table
    whole = n * (n + 1) // 2
    found = last["holds"].reshape(-1, collectives.build(what, algorithm, n).n_blocks)[:n]
    if what == "all_reduce":
        assert (found == whole).all()
    elif what == "reduce_scatter":
        assert np.diag(found).tolist() == [whole] * n
    elif what in ("all_gather", "barrier"):
        assert (found == np.arange(1, n + 1)).all()
    elif what == "all_to_all":
        assert np.all(found[np.tile(np.eye(n, dtype=bool), n)].reshape(n, n) == np.arange(1, n + 1))
    elif what == "send_recv":
        assert [found[r, r - 1] for r in range(n)] == [r or n for r in range(n)]
    else:  # the root is rank 0
        assert (found[0] == {"reduce": whole, "gather": np.arange(1, n + 1)}.get(what, 1)).all()
        assert (
            what in ("reduce", "gather")
            or (np.diag(found) if what == "scatter" else found == 1).all()
        )


def test_chunks_move_along_the_links_of_their_route():
    view = live.stepper(
        "all_reduce", "ring", 4, fabric=topologies.build("leaf_spine", hosts=8, radix=4), step=1
    )
    movers = view.scene.layers["movers"].fields
    # Block, box, host, along the drawn cables, host, box, block; between the leaves also over the spines.
    ptr, cards = movers["ptr"].astype(int), view.scene.layers["cards"].fields
    cables = view.scene.layers["cables"].fields
    drawn = {*zip(cables["x"].tolist(), cables["y"].tolist(), strict=True)}
    ways = [slice(start + 2, stop - 2) for start, stop in itertools.pairwise(ptr)]
    for way in ways:
        assert {*zip(movers["x"][way].tolist(), movers["y"][way].tolist(), strict=True)} <= drawn
    top = [movers["y"][way].min() for way in ways]  # y grows downwards: spines stand above leaves
    assert top[0] == top[2] > top[1] == top[3]
    over = cards["x"] + cards["w"] / 2
    assert np.allclose(movers["x"][ptr[:-1] + 1], over)
    assert np.allclose(movers["x"][ptr[1:] - 2], np.roll(over, -1))


def test_values_add_up_in_a_switch_by_hand():
    view = live.stepper("all_reduce", "nvls_two_shot", 2, step=1)
    assert view.scene.table["rank"].tolist() == ["0"] * 2 + ["1"] * 2 + ["switch 0"] * 2
    assert [view.set(step=s).scene.table["holds"].tolist()[-2:] for s in range(3)] == [
        [0, 0],
        [3, 3],
        [3, 3],
    ]
    bars = view.set(step=1).scene.layers
    assert (bars["blocks"].fields["h"] / bars["empty"].fields["h"]).tolist() == [0.5] * 4 + [1] * 2
    ends = {"source": text("live.stepper.rank", r=1), "target": text("live.stepper.switch", r=0)}
    move = text("live.stepper.moves", **ends, blocks="0–1") + text("live.stepper.added")
    assert move in view.scene.alt and text("live.stepper.listed", n=2) in str(view)
    movers = view.scene.layers["movers"].fields  # both packets meet in one block of the switch
    end = movers["ptr"][1:].astype(int) - 1
    assert np.ptp(movers["x"][end]) == np.ptp(movers["y"][end]) == 0 and len(end) == 2


def test_switches_stand_where_they_are_placed():
    fabric = topologies.build("leaf_spine", hosts=8, radix=4)
    nodes = [*fabric.nodes("leaf"), *fabric.nodes("spine")[[0, 0, 0]]]
    view = live.stepper(
        "all_reduce", "aggregation_tree", 8, fabric=fabric, switches=nodes, options={"radix": 2}
    )
    sums = [3, 7, 11, 15, 10, 26, 36]
    for step, known in ((1, 4), (2, 6), (3, 7)):
        scene = view.set(step=step).scene
        assert scene.table["holds"].tolist()[8:] == sums[:known] + [0] * (7 - known)
        movers, box = (scene.layers[k].fields for k in ("movers", "nodes"))
        # Block and box of the switch come last, and before them its node: a leaf, then a spine.
        last, rows = movers["ptr"][1:].astype(int) - 3, np.unique(box["y"])
        assert np.all(movers["y"][last] == rows[int(step == 1)] + box["h"][0] / 2)
    assert np.all(view.set(step=6).scene.table["holds"][:8] == 36)


def test_a_block_opens_and_closes():
    view = live.fabric(topologies.build("rail_optimised", servers=136))  # more than a hall shows
    closed = view.scene.layers["nodes"].fields
    gpus = closed["names"].index("136 GPUs, rail 0")
    view.set(open=closed["picks"][gpus])
    opened = view.scene.layers["nodes"].fields
    assert len(opened["names"]) == len(closed["names"]) + 135
    member = opened["names"].index("GPU 0 of server 5")
    assert opened["picks"][member] is None
    assert view.set(open=None).scene.layers["nodes"].fields["names"] == closed["names"]


def test_a_hall_has_a_cell_for_each_gpu_and_a_line_for_the_cables_of_each_leaf():
    view = live.fabric(HALL, shuffled, controls=SHUFFLE, seed=3)
    run = shuffled(3)
    share = run.timeline.utilisation(HALL.capacity)
    scene = view.scene
    cells = scene.layers["ranks"].fields
    assert len(cells["names"]) == 1024 and scene.height <= 390
    assert cells["names"][9] == "GPU 1 of server 1"
    across, down = np.unique(cells["x"]), np.unique(cells["y"])
    assert (across.size, down.size) == (128, 8)
    # A cell is lit by the fullest of its GPU's links to the network: GPU, PCIe switch, NIC and leaf.
    for rank in (0, 300, 1023):
        server, rail = divmod(rank, 8)
        chain = [HALL.node(f"{kind} {server}.{rail}") for kind in ("gpu", "pcie", "nic")]
        out = np.isin(HALL.source, chain) | np.isin(HALL.target, chain)
        nvlink = HALL.kinds.index("nvlink")
        out &= (HALL.kind[HALL.source] != nvlink) & (HALL.kind[HALL.target] != nvlink)
        assert cells["colour"][rank] == pytest.approx(shade(share[out].max()))
    # One line stands for 32 cables of a leaf to the spines, and shows the fullest of them.
    table = scene.table
    up = np.array([to == "16 spines" for to in table["to"]])
    assert table["cables"][up].tolist() == [32] * 32 and up.sum() == 32
    leaf = HALL.nodes("leaf")[5]
    links = np.flatnonzero((HALL.source == leaf) & (HALL.tier[HALL.target] > HALL.tier[leaf]))
    both = np.maximum(share[links], share[links ^ 1])
    row = next(i for i, name in enumerate(table["from"]) if name == "leaf 5" and up[i])
    assert table["fullest"][row] == pytest.approx(both.max())
    assert table["fullest"][row] > 1.1 * table["load"][row]
    assert table["load"][row] == pytest.approx(both.mean())

    box = scene.layers["nodes"].fields
    opened = view.set(open=box["picks"][box["names"].index("leaf 5")]).scene
    mine = [
        to for a, to in zip(opened.table["from"], opened.table["to"], strict=True) if a == "leaf 5"
    ]
    assert sorted(mine) == sorted(f"spine {n}" for n in range(16))
    below = [
        a for a, to in zip(opened.table["from"], opened.table["to"], strict=True) if to == "leaf 5"
    ]
    assert len(below) == 32 and set(below) == {f"server {n}" for n in range(32, 64)}
    again = opened.layers["nodes"].fields
    assert again["picks"][again["names"].index("leaf 5")] is None


def test_placement_runs_its_rings_once_for_each_seed_and_routing(monkeypatch):
    runs = []

    def counted(*arguments, **more):
        runs.append(more["method"])
        return fl.simulate(*arguments, **more)

    monkeypatch.setattr("fabriclab.views.live.ways.simulate", counted)
    view = live.placement(HALL, seed=1)
    first = view.scene
    for values in ({"seed": 2}, {"colour": "rail"}, {"seed": 1, "colour": "load"}):
        view.set(**values)
    assert len(runs) == 2
    assert str(view.scene.table) == str(first.table) and view.scene.said == first.said
    view.set(routing="spray")
    assert runs == ["ecmp", "ecmp", "spray"]


def test_placement_unfolds_the_cables_of_the_fullest_leaf():
    view = live.placement(HALL, seed=1)
    run = fl.simulate(
        "all_reduce", "ring", HALL, "1 GB", placement=collectives.shuffled(RAILS, 1), method="ecmp"
    )
    flows = run.timeline.link_bytes / (run.flows.size[0] * run.timeline.repeat.sum())
    leaf = HALL.source[np.argmax(np.where(np.isin(HALL.source, HALL.nodes("leaf")), flows, 0))]
    up = (HALL.source == leaf) & (HALL.tier[HALL.target] > HALL.tier[leaf])
    bars = view.scene.side.layers["bars"].fields
    assert bars["x"].size == 32 and np.all(np.diff(bars["x"]) > 0)
    tall = bars["h"] / bars["h"].max() * flows[up].max()
    links = np.flatnonzero(up)[np.argsort(HALL.target[up], kind="stable")]
    # An idle cable has a bar of 1 px.
    assert np.round(tall, 1) == pytest.approx(np.round(flows[links], 1))
    in_ink = np.flatnonzero(bars["colour"] == COLOUR["ink"])
    assert in_ink.tolist() == [int(bars["h"].argmax())]
    spine = HALL.name(HALL.target[np.flatnonzero(up & (flows == flows[up].max()))[0]])
    named = text("live.placement.most", n=float(flows.max()), other=spine)
    assert view.scene.side.layers["most"].fields["texts"] == [named]
    assert f"{flows.max():.3g} flows meet" in view.scene.said


@pytest.mark.parametrize(
    ("seed", "flows", "title"),
    [
        (2, 5, "flows on the cables up from "),
        (5, 5, "flows on the cables down into "),  # four on the fullest uplink
    ],
)
def test_placement_unfolds_cables_in_the_direction_of_the_fullest(seed, flows, title):
    scene = live.placement(HALL, seed=seed).scene
    run = fl.simulate(
        "all_reduce", "ring", HALL, "1 GB", placement=collectives.shuffled(RAILS, seed)
    )
    fullest = np.flatnonzero(run.sharers() == flows)
    assert run.sharers().max() == flows and f"{flows} flows meet" in scene.said
    assert scene.side.layers["most"].fields["texts"][0].startswith(f"{flows}, spine ")
    shown = scene.side.layers["bar title"].fields["texts"][0]
    leaf = scene.layers["fullest name"].fields["texts"][0]
    assert shown == title + leaf
    spoken = spoken_names(HALL)
    ends = [(spoken[HALL.source[link]], spoken[HALL.target[link]]) for link in fullest]
    bars = scene.side.layers["bars"].fields
    name = bars["names"][int(bars["h"].argmax())]
    assert any(name.startswith(f"{a} to {b}, ") and leaf in (a, b) for a, b in ends)
    assert all(leaf in other for other in bars["names"])


def test_wirings_light_one_ring_in_its_order():
    small = {
        name: topologies.build(
            "rail_optimised", servers=8, gpus=4, rails=rails, radix=16, expand=False
        )
        for name, rails in (("by rail", 4), ("by rack", 1))
    }
    view = live.wirings(small)
    assert list(view.controls) == ["ring", "seed"]
    table = view.scene.table
    spine = np.array([name.startswith("spine") for name in table["to"]])
    lit = np.array(table["carries"]) > 0
    by_rail = np.array([name == "by rail" for name in table["wired"]])
    assert not np.any(lit & spine & by_rail) and np.any(lit & spine & ~by_rail)
    names = [n for n, on in zip(table["from"], lit & by_rail & ~spine, strict=True) if on]
    assert names == [] or all(name.startswith("NIC 0 of server") for name in names)
    groups = np.array(collectives.rail_groups(small["by rail"]))
    for seed in (0, 4):
        scene = view.set(seed=seed, ring=2).scene
        turn = collectives.shuffled(groups, seed)[2]
        order = scene.layers["order"].fields
        servers = small["by rail"].server[turn]
        assert order["texts"] == [str(n) for n in range(8)]  # counted from 0, as servers are
        assert np.argsort(np.argsort(order["x"])).tolist() == servers.tolist()
        place = sentence("live.wirings.place", server=f"server {servers[3]}", n=3)
        assert place.fullmatch(order["names"][3])
    hops = collectives.spine_crossings(small["by rack"], collectives.shuffled(groups, 4))
    assert f"by rack, {hops} of 32 hops" in scene.said and "by rail, 0 of 32" in scene.said


def test_options_have_names_for_readers():
    view = live.server()
    spec = next(c for c in view.widget.spec["controls"] if c["name"] == "server")
    assert spec["options"] == ("mi300x", "dgx1v", "dgx_h100")
    assert spec["names"] == ("8 × MI300X", "DGX-1V", "DGX H100")
    assert view.controls["server"] == eval(repr(view.controls["server"]), {"fl": fl})
    assert "names" not in view.widget.spec["controls"][1]
    assert repr(live.Choice((1, 2), "n")) == "fl.live.Choice((1, 2), 'n')"


@pytest.mark.parametrize(("workers", "jitter", "step"), [(8, 0.1, 0), (64, 0.2, 7), (2, 0.0, 99)])
def test_all_workers_wait_for_the_slowest(workers, jitter, step):
    scene = live.slowest(workers, jitter, step).scene
    work = np.random.default_rng(step).normal(1, jitter, workers)
    computes, waits = scene.table["computes [s]"], scene.table["waits [s]"]
    assert np.allclose(computes, work) and np.allclose(computes + waits, work.max())
    last = int(work.argmax())
    said = {"step": step, "last": last, "time": work.max(), "idle": 100 * waits.mean() / work.max()}
    assert sentence("live.slowest.said", **said).match(scene.said)
    bars = scene.layers["computes"].fields
    assert np.flatnonzero(bars["colour"] == COLOUR["ink"]).tolist() == [last]
    # What a worker computes and what it waits reach the same line together.
    hatched = scene.layers["waits"].fields
    ends = np.asarray(hatched["y"])
    assert np.ptp(ends) < 1e-9 and np.allclose(ends + hatched["h"], bars["y"])


def test_more_workers_make_a_step_longer_and_jitter_makes_it_worse():
    curves = {}
    for jitter in (0.0, 0.1, 0.2):
        panel = live.slowest(8, jitter).scene.side
        curves[jitter] = waits.mean_step_times(jitter)
        assert "curves" in panel.layers
    assert np.allclose(curves[0.0], 1)
    assert np.all(np.diff(curves[0.1]) > 0) and np.all(np.diff(curves[0.2]) > 0)
    # mean of the largest of n normal times: 1 + 1.42 s.d. for 8, 1 + 3.24 s.d. for 1,024
    at = np.searchsorted(waits.worker_numbers(), [8, 1024])
    assert curves[0.1][at] == pytest.approx([1.142, 1.324], abs=0.02)


def test_the_roulette_counts_all_seeds():
    scene = live.roulette(32, 32, 7).scene
    seeds = scene.side.layers["seeds"].fields
    most = [int(live.roulette(32, 32, seed).scene.table["flows"].max()) for seed in range(100)]
    counts = np.bincount(most)
    assert seeds["names"] == [f"{n} flows" for n in np.flatnonzero(counts)]
    assert seeds["h"] / seeds["h"].max() == pytest.approx(counts[counts > 0] / counts.max())
    shown = np.flatnonzero(seeds["colour"] == COLOUR["ink"])
    assert [seeds["names"][i] for i in shown] == [f"{most[7]} flows"]


def test_each_tenant_has_its_own_lines():
    view = live.tenants(5, "low latency", 2)
    drawn = view.scene.layers["trees"].fields
    looks = {}
    for name, colour, dash in zip(drawn["names"], drawn["colour"], drawn["dash"], strict=True):
        looks.setdefault(name.rpartition(" ")[2], set()).add((float(colour), float(dash)))
    assert sorted(looks) == list("ABCDE") and all(len(look) == 1 for look in looks.values())
    assert len({look for of_job in looks.values() for look in of_job}) == 5
    assert len(drawn["names"]) == sum(len(jobs.split(", ")) for jobs in view.scene.table["trees"])
    hosts = view.scene.layers["nodes"].fields
    letters = dict(zip(hosts["names"], hosts["texts"], strict=True))
    assert letters["host 7, job C"] == "C" and letters["host 15, job A"] == "A"
    # Lines of one link stand beside each other.
    pairs = [i for i, name in enumerate(drawn["notes"]) if ", " in name]
    start = drawn["ptr"].astype(int)[:-1]
    places = {(drawn["x"][start[i]], drawn["y"][start[i]]) for i in pairs}
    assert len(pairs) > 1 and len(places) == len(pairs)
    refused = live.tenants(5, "streaming", 1).scene.layers["nodes"].fields
    hollow = {
        name
        for name, c in zip(refused["names"], refused["colour"], strict=True)
        if c == COLOUR["paper"]
    }
    assert hollow == {f"host {n}, job E" for n in (4, 9, 14)}


def test_each_tenant_has_its_own_pattern_beside_its_letter():
    layers = live.tenants(5, "low latency", 2).scene.layers
    hosts, strokes = layers["nodes"].fields, layers["patterns"].fields
    dots = layers["pattern dots"].fields
    ends = strokes["ptr"].astype(int)[1:-1]
    marks = list(zip(np.split(strokes["x"], ends), np.split(strokes["y"], ends), strict=True))
    marks += list(zip(dots["x"][:, None], dots["y"][:, None], strict=True))
    seen = {}
    for x, y in marks:
        inside = (x.min() >= hosts["x"]) & (x.max() <= hosts["x"] + hosts["w"])
        inside &= (y.min() >= hosts["y"]) & (y.max() <= hosts["y"] + hosts["h"])
        (box,) = np.flatnonzero(inside)
        middle = hosts["x"][box] + hosts["w"][box] / 2
        assert x.max() < middle - 5 or x.min() > middle + 5  # the letter is free
        form = "dot" if x.size == 1 else "level" if np.ptp(y) == 0 else "slanted"
        seen.setdefault(hosts["texts"][box], set()).add(form)
    assert seen == {"B": {"slanted"}, "C": {"dot"}, "D": {"level"}}


@pytest.mark.parametrize("name", ["mix", "fabric", "paths", "distance", "torus 3", "placement"])
def test_a_scale_of_loads_says_of_what(name):
    for panel in VIEWS[name]().scene.panels():
        layers = panel.layers
        if "idle" in layers:
            named = layers["scale name"].fields
            assert named["texts"], "the scale has no name"
            break
    else:
        pytest.fail("no scale of loads")


@pytest.mark.parametrize("name", ["cut", "cut tree", "cut fly", "tenants"])
def test_no_name_of_a_scale_of_loads_stands_without_its_scale(name):
    layers = VIEWS[name]().scene.layers
    assert "idle" not in layers
    words = {text("fabric.scale"), text("fabric.scale_of")}
    for layer in layers.values():
        assert not words & set(layer.fields.get("texts", []))


def test_cables_that_several_routes_share_are_as_strong_as_others():
    assert np.all(VIEWS["routes"]().scene.layers["loaded"].fields["alpha"] == 1.0)


def test_plates_of_neighbours_on_links_to_switches_keep_apart():
    plates = VIEWS["switches"]().scene.layers["labels"].fields
    x = np.sort(plates["x"])
    assert np.diff(x).min() > float(np.max(plates["w"])) + 8


def test_lines_that_change_places_are_marked_where_they_do():
    view = live.sweep(two_ways, controls=ALPHA)
    said = view.scene.layers["crossing"].fields["texts"]
    ring, tree = (two_ways(1, 4)[k] for k in ("ring", "binomial_tree"))
    assert tree.at("64 KiB") < ring.at("64 KiB")
    assert tree.at("1 MiB") > ring.at("1 MiB")
    assert said == [text("sweep.change", at="180 KiB")]  # 186 kB


@pytest.mark.parametrize(
    ("way", "opcode"), [("WRITE", 0), ("WRITE with immediate", 1), ("SEND", 2), ("READ", 4)]
)
def test_a_request_counts_what_the_device_counts(way, opcode):
    a, b = rdma_pairs.pair()
    if opcode in (1, 2):
        b.qp.post_recv(rdma_pairs.receive(b))
    assert rdma_pairs.outcome(a, rdma_pairs.request(a, b, opcode)) == rdma_pairs.OK
    b.rcq.poll()
    whole = live.request(way, 13)
    device = {
        k: getattr(a.ctx.counters, k) + getattr(b.ctx.counters, k)
        for k in ("copies", "doorbells", "transfers", "polled")
    }
    assert [whole.scene.table[k][-1] for k in ("copies", "doorbells", "transfers")] == [
        *device.values()
    ][:3]
    assert (
        rdma.count_in_words("completions", device["polled"]) in whole.scene.said
        and whole.scene.table["calls"].sum() == 0
    )
    assert ("program B" in whole.scene.table["who"]) == (opcode in (1, 2))


def test_steps_of_a_queue_pair_are_judged_by_the_device():
    view = live.queue_pair("RC", "RESET", "RTS")
    refused = sentence("live.queue_pair.refused", kind="RC", now="RESET", to="RTS")
    assert refused.search(view.scene.said) and "Errno" not in view.scene.said
    (reason,) = view.scene.table[text("live.queue_pair.refusal")]
    panel = view.scene.side.layers
    assert reason == " ".join(panel["reason"].fields["texts"]) and "Errno" not in reason
    assert reason not in view.scene.said and reason in view.scene.alt  # it is said once
    assert not len(panel["attributes"].fields["x"])
    assert view.set(now="RTR").scene.table["attribute"].tolist() == [
        "TIMEOUT",
        "RETRY_CNT",
        "RNR_RETRY",
        "MAX_QP_RD_ATOMIC",
        "SQ_PSN",
    ]
    assert view.set(kind="UD").scene.table["attribute"].tolist() == ["SQ_PSN"]


def test_a_bubble_of_two_stages_by_hand():
    table = live.bubble(2, 2, "1F1B").scene.table
    rows = zip(
        *(table[k].tolist() for k in ("stage", "what", "number", "start [s]", "finish [s]")),
        strict=True,
    )
    found = sorted((round(a), round(b), s, w[0], n) for s, w, n, a, b in rows)
    assert found == [
        (0, 1, 0, "f", 1),
        (1, 2, 0, "f", 2),
        (1, 2, 1, "f", 1),
        (2, 4, 1, "b", 1),
        (4, 5, 1, "f", 2),
        (4, 6, 0, "b", 1),
        (5, 7, 1, "b", 2),
        (7, 9, 0, "b", 2),
    ]
    third = live.bubble(2, 2, "1F1B").scene
    assert sentence("live.bubble.said", stages=2, m=2, share=100 / 3).search(third.said)
    assert sentence("live.bubble.form", form=100 / 3).search(third.hint)
    more = text("live.bubble.more", stages=5, m=10)
    assert more in live.bubble(5, 7, "interleaved").scene.said
    for schedule, held in (
        ("GPipe", 8),
        ("1F1B", 4),
    ):  # all micro-batches, or one for each stage from here on
        scene = live.bubble(4, 8, schedule).scene
        assert sentence("live.bubble.said", schedule=schedule).search(scene.said)
        assert sentence("live.bubble.form", held=held).search(scene.hint)


def test_synchronous_workers_begin_together_and_stale_ones_when_they_may():
    def steps(staleness):
        table = live.staleness(staleness, "one worker", 4).scene.table
        return (table[k].reshape(-1, 4) for k in ("start [s]", "finish [s]"))  # a row for each step

    start, finish = steps(0)
    assert np.ptp(start, axis=1) == pytest.approx(0, abs=1e-5)
    start, finish = steps(2)
    last = finish.max(axis=1, keepdims=True)
    # as far ahead as allowed, and no further
    assert np.all(start[3:] >= last[:-3]) and np.any(start[2:] < last[:-2])


def test_flows_of_repeated_steps_run_at_every_time():
    view = VIEWS["repeated"]()
    t = REPEATED.timeline
    for at in range(1, 100):
        time = at / 100 * t.end
        # Each step waits 5 us and then all 8 flows move; the delay at the end is none.
        waits = np.mod(time, t.period[0]) < 5e-6
        told = sentence("timeline.said", busy=0 if waits else 8, n=16)
        said = view.set(at=time).scene.said
        assert told.search(said), at
        turn = int(np.mod(time, 7 * t.period[0]) / t.period[0]) + 1  # a group is repeated 7 times
        assert waits or text("timeline.turn", turn=turn, n=7) in said, at
        first, second = view.scene.layers["turns"].fields["texts"]
        here, other = (1, 0) if time >= 7 * t.period[0] else (0, 1)
        begun = t.group_start.copy()
        begun[here] += (turn - 1) * t.period[here]
        turns = {here: turn, other: 1}
        for group, drawn in enumerate([first, second]):
            start = f"{1e6 * begun[group]:.4g} µs"
            words = text("timeline.drawn_in", g=group, turn=turns[group], n=7, start=start)
            assert drawn == words, at
    assert view.scene.layers["repeats"].fields["texts"] == ["6 more", "6 more"]


def test_the_line_stands_at_its_own_time_within_the_repetition_that_is_drawn():
    view = VIEWS["repeated"]()  # in repetition 6 of 7, from 90 to 97.5 us
    layers = view.scene.layers
    assert layers["repeats"].fields["texts"] == ["6 more", "5 more", "1 more"]
    ticks = dict(zip(layers["x ticks"].fields["texts"], layers["x ticks"].fields["x"], strict=True))
    share = (96.6 - 90) / 7.5
    here = ticks["90 µs"] + share * (ticks["97.5 µs"] - ticks["90 µs"])
    assert layers["now"].fields["x"] == pytest.approx(here, abs=0.05)
    assert view.set(at=0).scene.said.startswith("At 0 of 105 µs")


def test_a_press_takes_the_values_that_stand_on_the_page():
    seen = []
    view = Live(
        "x(",
        lambda n: Scene(str(n)),
        {"n": live.Slider(0, 9)},
        {"n": 1},
        "t",
        buttons={"Go": lambda v: seen.append(dict(v.values))},
    )
    view.widget.asked = {"seq": 1, "values": {"n": 7}, "press": "Go"}
    assert seen == [{"n": 7}]


def test_a_slider_goes_past_a_value_at_which_the_function_fails():
    def picky(n):
        return Scene(str(1 // (n - 3)))

    view = Live("x(", picky, {"n": live.Slider(0, 9)}, {"n": 1}, "t")
    for seq, n in enumerate((3, 4), 1):
        view.widget.asked = {"seq": seq, "values": {"n": n}}
        assert view.values == {"n": n} and view.widget.frame["wrong"] == (n == 3)
    assert view.scene.said == "1"


@pytest.mark.parametrize("bad", [(10, 1), (0, 10, 0), (0, 10, -1), (np.nan, 1)])
def test_sliders_that_cannot_be_are_refused(bad):
    with pytest.raises(ValueError, match="a slider needs low < high and step > 0"):
        live.Slider(*bad)
    with pytest.raises(ValueError, match="a slider needs 0 < low < high"):
        live.Slider(0, 10, log=True)
    with pytest.raises(ValueError, match="runs must be simulations"):
        live.race({})


@pytest.mark.parametrize("name", ["cursor", "ruler", "drift", "medium", "pool", "incast"])
def test_titles_stand_below_the_beginning_of_the_finding(name):
    layers = VIEWS[name]().scene.layers
    title = layers["quantity" if "quantity" in layers else "title"].fields
    assert np.ravel(title["x"])[0] == EDGE


def test_every_copy_of_a_transfer_has_its_number():
    bars = VIEWS["savings"]().scene.layers["bars"].fields
    for words, name, width in zip(bars["texts"], bars["names"], bars["w"], strict=True):
        number, by = name.rpartition(", ")[2].split()
        assert words == (f"{number} {by}" if width > 50 else number)
    assert {"1", "2 CPU"} <= set(bars["texts"])


def test_a_race_runs_in_real_proportions():
    runs = {way: fl.simulate("all_reduce", way, STAR, "1 GB") for way in ("one_root", "ring")}
    view = live.race(runs)
    slider = view.controls["seconds"]
    slow, fast = (float(runs[way].time) for way in ("one_root", "ring"))
    assert slider.low == 0 and not slider.log and slow <= slider.high < 1.02 * slow
    beats = (slider.high - slider.low) / slider.step
    assert beats * slider.beat == pytest.approx(12_000) and beats >= 100
    assert "one_root (2 steps), ring (30 steps)" in view.scene.said  # 16 ranks: 2 (n - 1) steps
    assert view.scene.layers["ahead"].fields["texts"] == ["2 steps ahead", "30 steps ahead"]
    chart = view.scene.side.layers
    for axis in "xy":  # nothing tells the end before the race has begun
        places = np.concatenate([chart["curves"].fields[axis], chart["here"].fields[axis]])
        assert places == pytest.approx(places[0])
    half = view.set(seconds=slow / 2).scene
    assert not half.layers["ahead"].fields["texts"]
    assert half.side.layers["promise"].fields["texts"] == [""]
    assert half.table["part [%]"] == pytest.approx([50, 100], abs=0.1)
    assert sentence("live.race.some", fast="ring", slow="one_root").match(half.said)
    assert half.layers["state"].fields["bold"].tolist() == [0, 1]
    hues = [look.algorithm(way).colour for way in runs]
    assert half.layers["bars"].fields["colour"].tolist() == hues
    end = view.set(seconds=slider.high).scene.said
    told = sentence("live.race.all", fast="ring", slow="one_root").search(end)
    assert float(told["factor"]) == pytest.approx(slow / fast, rel=0.01)
    now = half.side.layers["now"].fields["x"][0]
    start = half.side.layers["x ticks"].fields["x"][0]
    stop = view.set(seconds=slider.high).scene.side.layers["here"].fields["x"].max()
    assert (now - start) / (stop - start) == pytest.approx(slow / 2 / slider.high, rel=1e-4)
    assert live.race(runs, log=True).controls["seconds"].log


def test_a_run_of_a_race_has_the_look_of_the_algorithm_that_ran():
    ways = {"tree": "binomial_tree", "a double tree": "double_tree", "by rail": "ring"}
    runs = {name: fl.simulate("all_reduce", way, STAR, "1 MB") for name, way in ways.items()}
    marks = live.race(runs).scene.layers["marks"].fields
    # A label without an algorithm in it says nothing of one; runs of one algorithm would look alike.
    looks = [look.algorithm(way) for way in ("binomial_tree", "double_tree", "by rail")]
    assert marks["colour"].tolist() == [one.colour for one in looks]
    assert marks["shape"].tolist() == [one.shape for one in looks]


def test_values_are_of_pythons_own_types_and_within_the_ends():
    assert live.Slider(0, 11, 3).check(11, "n") == 11
    assert live.Slider(0.5, 3.5).check(0.5, "n") == 0.5
    assert type(live.Choice((4, 64)).check(np.int64(64), "n")) is int
    assert repr(live.Slider(1234567, 12345678)) == "fl.live.Slider(1234567, 12345678)"


def test_only_a_change_of_values_is_shown_as_motion():
    view = VIEWS["stepper"]()
    view.widget.asked = {"seq": 1, "values": {"step": 2}}
    assert view.widget.frame["moves"]
    view.widget.asked = {"seq": 2, "values": {"step": 2}, "table": True}
    assert not view.widget.frame["moves"] and "<table" in view.widget.frame["table"]


def test_traffic_by_hand():
    view = live.traffic([[0, 6, 0], [0, 0, 0], [0, 3, 0]])
    assert view.scene.said == text("live.traffic.said", rank=1, times=3)
    assert (view.scene.table["takes in"].tolist(), view.scene.table["sends"].tolist()) == (
        [0, 9, 0],
        [6, 0, 3],
    )
    for wrong in ([[0, 1]], [[0, 0], [0, 0]], [[0, -1], [1, 0]], [[1]]):
        with pytest.raises(ValueError, match=r"table must be \(n, n\) .*2..128 ranks"):
            live.traffic(wrong)


def test_packets_by_hand():
    view = live.packets(counts_packets, keeps="yours", story="a packet comes twice", step=2)
    what = text("live.packets.sum", value=2) + text("live.packets.wrong", right=11)
    assert sentence("live.packets.said", step=2, wrong=text("live.packets.one")).search(
        view.scene.said
    )
    assert view.scene.said.endswith(text("live.packets.last", who="A 0", what=what))
    assert view.scene.table["sums"].tolist() == ["1 | 0", "2 | 0"]
    rows = {
        k: view.set(keeps=k, story="all well", step=8).scene.table
        for k in ("yours", "bitmaps", "last chunks")
    }
    assert {k: t["seen"][-1] for k, t in rows.items()} == {
        "yours": " | ".join([text("live.packets.not_kept")] * 2),
        "bitmaps": " | AB",
        "last chunks": "3 | 3",
    }
    for t in rows.values():
        assert t["sums"].tolist() == [
            *("1 | 0", "11 | 0", "11 | 2", "11 | 22"),
            *("3 | 22", "33 | 22", "33 | 4", "33 | 44"),
        ]
        twice = ["1 | 0", "0 | 0", "0 | 1", "0 | 0"]
        assert t["left"].tolist() == twice * 2
    right = sentence("live.packets.said", wrong=text("live.packets.none"))
    told = {
        story: [
            bool(right.search(view.set(keeps=k, story=story, step=8).scene.said))
            for k in ("yours", "bitmaps", "last chunks")
        ]
        for story in view.controls["story"].options
    }
    assert told == {
        "all well": [1, 1, 1],
        "a packet is lost": [0, 1, 1],
        "a result is lost": [0, 1, 1],
        "a packet comes twice": [0, 1, 1],
        "a copy comes late": [0, 0, 1],
    }


def test_packets_travel_from_worker_to_switch_to_worker():
    view = live.packets(story="a result is lost", step=2)
    movers, workers, switch = (view.scene.layers[k].fields for k in ("movers", "workers", "switch"))
    ptr = movers["ptr"].astype(int)
    assert ptr.size - 1 == 2  # the sum goes to both
    assert np.all(movers["x"][ptr[:-1]] == workers["x"][1])  # both come from worker B
    inside = (movers["x"] > switch["x"][0]) & (movers["x"] < (switch["x"] + switch["w"])[0])
    assert inside.sum() == 4
    ends = movers["x"][ptr[1:] - 1]
    assert ends[1] == workers["x"][1] and ends[0] > (workers["x"] + workers["w"])[0]
    cross = view.scene.layers["lost"].fields
    assert cross["x"].tolist() == [ends[0]] and view.scene.layers["cells"].fields["late"]
    assert view.set(step=1).scene.layers["lost"].fields["x"].size == 0


def test_a_late_copy_that_is_added_again_has_the_colour_and_the_sign_of_wrong():
    view = live.packets(keeps="bitmaps", story="a copy comes late", step=5)
    words = view.scene.side.layers["what"].fields
    assert words["texts"][4].startswith("✕ ") and words["colour"][4] == COLOUR["wrong"]
    assert text("live.packets.none_yet") in view.scene.said
    assert view.scene.layers["movers"].fields["colour"] == COLOUR["wrong"]
    kept = view.set(keeps="last chunks").scene
    assert COLOUR["wrong"] not in kept.side.layers["what"].fields["colour"].tolist()
    assert kept.layers["movers"].fields["colour"] == COLOUR["queue"]


@pytest.mark.parametrize("story", live.packets().controls["story"].options)
def test_slider_and_sentence_of_packets_agree(story):
    view = live.packets(story=story)
    last = view.controls["step"].high
    told = sentence("live.packets.said", step=last, all=last)
    assert told.search(view.set(step=last).scene.said)
    assert view.scene.table.n_rows == last == len(view.scene.side.layers["names"].fields["texts"])


def test_a_pool_is_full_at_the_bandwidth_delay_product():
    def pool(*state):
        view, told = live.pool(*state).scene, sentence("live.pool.said")
        rate, series = (view.table[k] for k in ("rate [B/s]", "series"))
        most = next(name for name in series if name.startswith("links and switch allow"))
        own = (float(rate[series == k][0]) for k in ("your pool", most))
        return int(told.search(view.said)["need"]), *own

    for delay, jobs in ((1, 1), (10, 1), (1, 4)):
        need, _, most = pool(16, delay, jobs)
        rate = [pool(k * jobs, delay, jobs)[1] for k in (need // 2, need - 1, need)]
        assert rate[0] < 0.51 * rate[2] and rate[1] < rate[2] == most
    assert pool(8)[2] == 12.5e9
    assert pool(need, 1, 2)[1] < 0.52 * pool(need)[1]
    # Jobs with slots enough divide the time of the switch: 17 passes of a packet for each of eight.
    assert pool(512, 0.1, 8)[1:] == pytest.approx([332 * 1.25e9 / 17 / 8] * 2)


def test_the_bend_of_a_pool_is_marked_where_it_is_full():
    for jobs in (1, 4):
        scene = live.pool(16, 1, jobs).scene
        need = int(sentence("live.pool.said").search(scene.said)["need"])
        knee = scene.layers["knee"].fields
        curve = scene.layers["lines"].fields
        before = knee["x"][0] - 4.0  # [px]
        assert np.interp(before, curve["x"], curve["y"]) > knee["y"][0] + 0.5  # still rising
        assert curve["y"][curve["x"] > knee["x"][0]] == pytest.approx(knee["y"][0])
        assert f"{need} slots" in scene.layers["knee name"].fields["texts"][0]
    assert "knee" not in live.pool(16, 10, 8).scene.layers  # beyond the end of the axis


def test_errors_of_sums_stay_within_their_bound_up_to_the_agreed_scale():
    table = live.quantisation(20, 10).scene.table
    error, bound = (
        table["error"][table["series"] == s] for s in ("largest error", "bound without overflow")
    )
    fits = 2.0 ** np.arange(4, 37) <= 2.0**17
    assert np.all(error[fits] <= bound[fits]) and np.all(error[-10:] > 1e3 * bound[-10:])
    # each number fits into 32 bits, their sums do not
    crowd = live.quantisation(27, 3, 32).scene.table
    assert crowd["error"][crowd["series"] == "your scale"][0] > 0.5


def test_a_tenant_without_a_tree_is_told_why():
    said = live.tenants(5, "streaming", 1).scene.said
    refused = sentence("live.tenants.refused")
    assert sentence("live.tenants.said", n=4, jobs=5).match(said)
    assert refused.search(said)["list"] == "E" and "core 0 by A" in said
    assert "links by A" in live.tenants(5, "streaming", 2).scene.said
    all_five = live.tenants(5, "low latency", 2).scene.said
    assert sentence("live.tenants.said", n=5, jobs=5).match(all_five)
    assert not any(refused.search(live.tenants(jobs).scene.said) for jobs in range(1, 5))


def test_what_pays_follows_loss_and_the_rate_of_hosts():
    def wins(way, *kinds):
        ranges = [text(f"live.pays.{kind}", low=low, high=high) for kind, low, high in kinds]
        return text("live.pays.wins", way=way, ranges=text("word.and").join(ranges))

    view = live.pays()
    assert wins("low latency", ("up_to", "", "15 KiB")) in view.scene.said
    assert wins("program", ("always", "", "")) in view.scene.said
    lossy = view.set(loss=0.01).scene.said  # hosts wait for timers, too
    assert wins("program", ("up_to", "", "3.8 KiB"), ("range", "12 KiB", "8.9 MiB")) in lossy
    assert wins("streaming", ("beyond", "2 MiB", "")) in lossy
    slow = view.set(loss=0.0, converts="2 GB/s").scene.said
    assert wins("program", ("up_to", "", "27 KiB")) in slow
    assert wins("streaming", ("beyond", "2 MiB", "")) in slow


def test_an_algorithm_of_switches_wins_up_to_where_its_line_crosses_that_of_the_hosts():
    table = live.pays().scene.table
    cost = {
        name: compare(topologies.build("leaf_spine", hosts=16, radix=8), size)
        for name, size in (("before", "15 KiB"), ("after", "16 KiB"))
    }
    best = {name: min(of[way].time for way in HOSTS) for name, of in cost.items()}
    assert cost["before"]["low_latency"].time < best["before"]
    assert cost["after"]["low_latency"].time > best["after"]
    assert np.unique(table["size [B]"]).size == 14


def test_the_line_of_a_queue_passes_through_its_peak():
    run = queues.played(queues.Incast(8, "dcqcn", "pause", 4e6, 2**20, fl.case().nic_rate))
    assert run.curve[1].max() == run.peak > run.queue.max()
    assert np.all(np.diff(run.curve[0]) > 0)
    assert np.isin(run.times, run.curve[0]).all()


def test_the_medium_is_the_least_of_those_that_reach():
    for far, medium, watts in (
        (1.5, "copper", 0),
        (3.0, "active copper", 3),
        (7.0, "AEC", 16),
        (30.0, "multimode", 30),
    ):
        scene = live.medium(far).scene
        least = {"length": far, "best.medium": medium, "best.power": watts}
        assert sentence("live.medium.said", **least).search(scene.said)
        full = scene.layers["reach"].fields["colour"] >= 0
        assert full.tolist() == (scene.table["reach [m]"] >= far).tolist()
        at = np.flatnonzero(scene.layers["reach"].fields["colour"] == COLOUR["predicted"])
        assert scene.table["medium"][at].tolist() == [medium]


def test_the_only_medium_that_reaches_is_not_called_the_least():
    scene = live.medium(400.0).scene
    assert sentence("live.medium.only", **{"best.medium": "long fibre"}).search(scene.said)
    dimmed = scene.layers["words"].fields["colour"] == COLOUR["soft"]
    assert dimmed.tolist() == (scene.table["reach [m]"] < 400).tolist()


def test_so_many_wavelengths_fill_so_many_fibres():
    told = sentence("live.wavelengths.said", total="12.8 Tb/s", fibres="3 fibres")
    assert told.search(live.wavelengths(128).scene.said)
    few = live.wavelengths(5, 1, "O 20 nm").scene
    assert sentence("live.wavelengths.said", total="500 Gb/s", fibres="1 fibre").search(few.said)
    assert few.layers["rates"].fields["texts"] == ["500 Gb/s"]
    assert [live.wavelengths(n).scene.table["wavelengths"].tolist() for n in (44, 45)] == [
        [44],
        [44, 1],
    ]
    symbols = {"C 50 GHz": 87 * 50, "C 100 GHz": 44 * 100, "C 200 GHz": 22 * 200}
    for grid, full in symbols.items():  # of PAM4
        assert live.wavelengths(256, 2, grid).scene.table["rate [B/s]"][0] == pytest.approx(
            full * 1e9 / 8
        )
    assert live.wavelengths(32, 8).scene.table["rate [B/s]"].tolist() == [
        pytest.approx(12.8e12 / 8)
    ]


def test_a_ring_that_warms_by_20_kelvin_is_nearly_on_its_neighbour():
    # 20 x 1.55 um x 1.86e-4 / 4.2, of 1.60 nm; 77 mW move a filter by 13.1 nm
    scene = live.drift(20, 200).scene
    told = sentence("live.drift.said", kelvin=20, nm=1.37, share=0.86, spacing=200, heat=8.1)
    assert told.search(scene.said)
    drifts = scene.table["drift"]  # at 1, 2, 4 and so on to 64 K, at 80 K, then at 20 K
    assert drifts[[2, 8]] == pytest.approx([0.1713, 0.8565], abs=1e-4)


def test_a_beam_falls_by_two_bits_per_hertz_at_twice_the_distance():
    near, far = (live.beam(d).scene.table["carried [Gb/s]"][25] for d in (2, 4))
    assert near - far == pytest.approx(6 * 2.16 * 2, rel=0.01)
    assert sentence("live.beam.said", wide=12.7).search(live.beam().scene.said)
    assert "over" in live.beam(over="elements").code


def test_media_of_a_tier_are_counted_by_hand():
    counted = live.hybrid("copper, fibre", "fibre", 4).scene.hint
    told = sentence("live.hybrid.more", a="344 copper, 680 fibre", b="1,024 fibre")
    assert told.search(counted)
    # A short cable to a NIC saves the module there and half of a twin module: 344 x (9 + 8.5) W of 35,328 W.
    assert live.hybrid("copper, fibre", "fibre").scene.table["power [kW]"][2] == pytest.approx(
        35.328 - 0.344 * 17.5
    )


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1048576, "KiB", "1 GiB"),
        (0.00016, "s", "160 µs"),
        (0.1, "us", "100 ns"),
        (999, "us", "999 µs"),
        (1000, "us", "1 ms"),
        (17600, "MB", "17.6 GB"),
        (0.01, "GB/s", "10 MB/s"),
        (0.5, "m", "0.5 m"),
        (2000, "m", "2 km"),
        (41, "%", "41 %"),
        (1024, "", "1,024"),
        (-12288.5, "", "-12,288.5"),
    ],
)
def test_a_slider_shows_its_value_in_the_natural_unit(value, unit, shown):
    assert natural(value, unit) == shown


@pytest.mark.parametrize(
    ("option", "shown"),
    [(1024, "1,024"), (0.0, "0"), (0.001, "0.001"), ("ugal_g", "UGAL-G"), (True, "True")],
)
def test_an_option_without_a_name_is_written_as_in_a_sentence(option, shown):
    assert option_name(option) == shown


def test_the_options_of_a_view_are_written_as_in_a_sentence():
    losses = next(c for c in live.pays().widget.spec["controls"] if c["name"] == "loss")
    assert losses["names"] == ("0", "0.001", "0.01", "0.05")


def test_a_slider_takes_every_unit_of_its_quantity_and_no_other():
    assert typed_units("KiB")["GiB"] == 2**20
    assert typed_units("KiB")["MB"] == pytest.approx(1e6 / 1024)
    assert typed_units("s")["µs"] == typed_units("s")["us"] == 1e-6
    assert typed_units("GB/s")["Gb/s"] == 0.125
    assert "GB/s" not in typed_units("s") and "s" not in typed_units("KiB")
    assert typed_units("%") == {"%": 1.0}


def test_names_above_a_bar_keep_clear_of_each_other_and_of_lines():
    rng = np.random.default_rng(0)
    for _ in range(60):
        middle = np.sort(rng.uniform(96, 800, 5))
        if rng.random() < 0.5:  # all short pieces at one place
            middle = np.sort(rng.uniform(96, 740) + rng.exponential(12, 5))
        wide = 7.0 * rng.integers(12, 24, 5)
        places = waits.label_places(middle.tolist(), wide.tolist())
        for one, other in itertools.combinations(places, 2):
            assert one.agrees(other)
        assert all(4 <= place.left and place.right <= 876 for place in places)


# laws ---------------------------------------------------------------------------------------------
@functools.cache
def standard(name):
    """Return a view in its first state, for tests that leave it there."""
    return VIEWS[name]()


@pytest.mark.parametrize("name", sampled(VIEWS, 4))
def test_each_control_changes_the_arrays(name):
    view = VIEWS[name]()
    start = dict(view.values)
    for control, kind in view.controls.items():
        seen = [view.set(**start | {control: value}).scene for value in kind.samples()]
        assert len(seen) > 1
        for one, other in itertools.combinations(seen, 2):
            is_same = same(arrays(one), arrays(other)) and drawn_words(one) == drawn_words(other)
            assert not is_same, control
        assert len({s.alt for s in seen}) == len(seen), control


@pytest.mark.parametrize("name", sampled(CODES, 3))
def test_the_printed_code_reproduces_the_state(name):
    view = CODES[name]()
    for control, kind in view.controls.items():
        view.set(**{control: kind.samples()[-1]})
    # the view's own line
    again = eval(view.code, NAMES | held_by(name))
    assert again.values == view.values
    assert same(arrays(again.scene), arrays(view.scene))
    assert str(again.scene.table) == str(view.scene.table)
    assert again.code == view.code


@pytest.mark.parametrize("name", VIEWS)
def test_the_table_holds_the_numbers_that_are_drawn(name):
    scene = standard(name).scene
    table, drawn = scene.table, scene.layers
    if "cut" in table.columns:
        shown = {
            n
            for part in ("cables", "stubs")
            if part in drawn
            for n, c in zip(*(drawn[part].fields[k] for k in ("names", "colour")), strict=True)
            if c == COLOUR["ink"]
        }
        rows = list(zip(*(table[k] for k in ("from", "to", "cut")), strict=True))
        assert shown == {f"{a} – {b}" for a, b, n in rows if n and b != "within"}
        if "hosts" in drawn:  # their links, within a place, are told by their dots
            dots = np.asarray(drawn["hosts"].fields["colour"])
            assert np.sum(dots == COLOUR["ink"]) == sum(n for _, b, n in rows if b == "within")
    elif "closing" in drawn:  # a torus with a twist
        lines = [drawn[part].fields for part in ("links", "ring", "closing", "stubs")]
        notes = {
            n.replace("chip ", ""): w
            for f in lines
            for n, w in zip(f["names"], f["notes"], strict=True)
        }
        assert len(notes) == table["cables"].sum()  # stubs come in pairs of one name
        for a, b, load in zip(*(table[k] for k in ("from", "to", "load")), strict=True):
            ends = [name.replace("chip ", "").replace(".", " ") for name in (a, b)]
            note = notes.get(" – ".join(ends), notes.get(" – ".join(ends[::-1])))
            assert note == text("fabric.load", percent=100 * load)
    elif "lane" in table.columns and "start [s]" not in table.columns:
        # a step: bars of each lane, added up by kind
        ticks = drawn["x ticks"].fields
        seconds = [fl.units.time(tick) for tick in ticks["texts"]]
        pixel = np.polyfit(ticks["x"], seconds, 1)[0]  # [s]
        each = np.asarray(drawn["bars"].fields["w"]) * pixel
        names = drawn["bars"].fields["names"]
        kinds = [column for column in table.columns if column.endswith("[s]")]
        narrow = each < 1.01 * each.min()  # they may be drawn wider than they are

        def widened(chosen):
            """Return by how much bars may be longer than they say."""
            return 1e-3 * each[chosen].sum() + each[chosen & narrow].sum() + 1e-9

        for row, lane in enumerate(table[text("live.step.lane")]):
            is_here = np.array([name.startswith(f"{lane}, ") for name in names])
            in_all = sum(table[kind][row] for kind in kinds)
            assert each[is_here].sum() == pytest.approx(in_all, abs=widened(is_here))
            for kind in kinds[1:]:
                is_kind = np.array([f"{name} [s]" == f"{lane}, {kind}" for name in names])
                assert each[is_kind].sum() == pytest.approx(table[kind][row], abs=widened(is_kind))
    elif "queue [B]" in table.columns:  # an incast: queue, bars of marks and pauses, crosses, rates
        ticks = drawn["y ticks"].fields["texts"]
        places = [float(tick != "0") and fl.units.size(tick) for tick in ticks]
        to_y = np.polyfit(places, drawn["y ticks"].fields["y"], 1)
        # The line has further points, where the queue is longest in each bin.
        at = drawn["moments"].fields["x"][::2]
        line = drawn["queue"].fields
        assert np.interp(at, line["x"], line["y"]) == pytest.approx(
            np.polyval(to_y, table["queue [B]"]), abs=0.6
        )
        times = [fl.units.time(t) for t in drawn["x ticks"].fields["texts"]]
        to_x = np.polyfit(times, drawn["x ticks"].fields["x"], 1)
        assert at == pytest.approx(np.polyval(to_x, table["time [s]"]), abs=0.6)
        marked = table["marked [%]"] > 0
        assert drawn["marked"].fields["h"] == pytest.approx(
            np.maximum(24 * table["marked [%]"][marked] / 100, 2), abs=0.1
        )
        heights = -np.diff(drawn["paused"].fields["y"])[::2]  # two bars for each bin
        paused = np.repeat(table["senders paused [%]"][table["senders paused [%]"] > 0], 2)
        assert heights == pytest.approx(np.maximum(24 * paused / 100, 2), abs=0.1)
        crosses = drawn["lost"].fields["x"]  # some of them, where they would lie on each other
        assert (crosses.size > 0) == bool(np.any(table["lost"]))
        assert crosses.size <= np.count_nonzero(table["lost"]) and np.all(np.diff(crosses) >= 9)
        rates = [
            float(tick[0] != "0") and fl.units.rate(tick)
            for tick in drawn["rate ticks"].fields["texts"]
        ]
        to_y = np.polyfit(rates, drawn["rate ticks"].fields["y"], 1)
        one = np.minimum(table["sender 1 [B/s]"], max(rates))
        assert drawn["rate one"].fields["y"] == pytest.approx(np.polyval(to_y, one), abs=0.6)
    elif "control loop" in table.columns:
        first = drawn[next(key for key in drawn if key.endswith(" y ticks"))].fields
        places = [float(tick != "0") and fl.units.size(tick) for tick in first["texts"]]
        to_y = np.polyfit(places, first["y"], 1)
        queues = [layer.fields for key, layer in drawn.items() if key.endswith(" queue")]
        assert len(queues) == table.n_rows
        for queue, peak in zip(queues, table["peak queue [kB]"], strict=True):
            # The line has a point every few microseconds, so it may pass beside the peak, and never above it.
            assert np.polyval(to_y, 1e3 * peak) - 0.6 <= queue["y"].min()
    elif "where" in table.columns and "seen" in drawn:  # packets in a switch
        assert drawn["seen"].fields["names"] == table["packet"].tolist()
        notes = [note.split(", ")[0] for note in drawn["seen"].fields["notes"]]
        assert notes == table["where"].tolist()
    elif "slowest flow" in table.columns:  # balancers beside each other
        ticks = drawn["hash y ticks"].fields
        to_y = np.polyfit([float(tick) for tick in ticks["texts"]], ticks["y"], 1)
        for way, most in zip(
            ("hash", "flowlet", "adaptive", "spray"),
            table["flows on the fullest uplink"],
            strict=True,
        ):
            bars = drawn[f"{way} bars"].fields
            assert bars["h"].max() == pytest.approx(-to_y[0] * most, abs=0.6)
    elif "first pause [s]" in table.columns:  # pauses in a fabric
        is_wide = drawn["links"].fields["width"] > 1
        names = np.array(drawn["links"].fields["names"])
        assert names[is_wide].tolist() == table["link"][table["now"] == "paused"].tolist()
        assert drawn["signs"].fields["x"].size == np.count_nonzero(is_wide)
    elif "lit from [s]" in table.columns:  # matchings in turn
        ticks = drawn["strip ticks"].fields
        to_x = np.polyfit([fl.units.time(tick) for tick in ticks["texts"]], ticks["x"], 1)
        lit = drawn["lit"].fields
        assert lit["x"] == pytest.approx(np.polyval(to_x, table["lit from [s]"]), abs=0.6)
        wide = np.maximum(to_x[0] * table["held [s]"], 0.5)
        assert lit["w"] == pytest.approx(wide, abs=0.6)
        is_now = np.array(lit["colour"]) == COLOUR["queue"]
        assert np.array_equal(is_now, table["state"] == text("live.matchings.is_lit"))
        now_lit = table["circuits"][is_now].sum()
        assert len(drawn["circuits"].fields["names"]) == now_lit
    elif "part of the time" in table.columns:  # goodput over the checkpoint interval
        bar = drawn["bar"].fields
        whole = bar["x"][-1] + bar["w"][-1] - bar["x"][0]
        shares = table["at this interval [%]"]
        assert bar["w"] == pytest.approx(np.maximum(whole * shares / 100, 1.5), abs=1.0)
        ticks = drawn["y ticks"].fields
        shown = [float(tick.split()[0]) for tick in ticks["texts"]]
        to_y = np.polyfit(shown, ticks["y"], 1)
        best = table["at the best interval [%]"][0]
        assert drawn["current"].fields["y"] == pytest.approx(np.polyval(to_y, shares[:1]), abs=0.6)
        assert drawn["best"].fields["y"] == pytest.approx(np.polyval(to_y, [best]), abs=0.6)
    elif "times as much as now" in table.columns:  # networks by cost of an hour and time of a step
        ticks = drawn["x ticks"].fields
        to_x = np.polyfit([float(tick.split()[0]) for tick in ticks["texts"]], ticks["x"], 1)
        ups = drawn["y ticks"].fields
        to_y = np.polyfit(np.log([fl.units.time(tick) for tick in ups["texts"]]), ups["y"], 1)
        two, others = drawn["two"].fields, drawn["networks"].fields
        x = np.concatenate([two["x"], others["x"]])
        y = np.concatenate([two["y"], others["y"]])
        assert x == pytest.approx(np.polyval(to_x, table["USD for a GPU-hour"]), abs=0.6)
        assert y == pytest.approx(np.polyval(to_y, np.log(table["step [s]"])), abs=0.6)
    elif "times the cheapest" in table.columns:  # a decision
        bars = scene.panels()[1].layers["bars"].fields
        more = table["times the cheapest"] - 1
        longest = 0.01 if more.max() < 0.01 else 0.1
        wide = np.maximum(270 * np.minimum(more / longest, 1), 1)
        assert bars["w"] == pytest.approx(wide, abs=0.6)
        assert np.array_equal(bars["colour"] == COLOUR["ink"], table["answer"] == "yes")
    elif "slices now" in table.columns:  # a pod twice
        for row, key in enumerate(("fixed", "joined")):
            running = drawn[f"{key} running"].fields
            now, each = table["slices now"][row], table["cubes each"][row]
            assert running["x"].size == now * each
            assert len(set(running["texts"])) == now
            assert drawn[f"{key} failed"].fields["x"].size == table["failed cubes"][row]
    elif "what is under way" in table.columns:
        ticks = drawn["x ticks"].fields
        to_x = np.polyfit([fl.units.size(tick) for tick in ticks["texts"]], ticks["x"], 1)
        kilobytes = table["kilobytes [kB]"]
        sizes = drawn["sizes"].fields
        n = sizes["w"].size
        assert sizes["w"] == pytest.approx(np.maximum(1e3 * kilobytes[:n] * to_x[0], 1), abs=0.6)
        assert kilobytes[:n].sum() == pytest.approx(kilobytes[n], abs=1e-3)
        assert drawn["yours"].fields["w"] == pytest.approx(
            1e3 * kilobytes[n + 2] * to_x[0], abs=0.6
        )
        assert drawn["lost"].fields["w"] == pytest.approx(1e3 * kilobytes[n + 3] * to_x[0], abs=0.6)
    elif "over" in table.columns:
        rows = zip(*(table[k] for k in ("by", "over", "rate [B/s]", "time [s]")), strict=True)
        told = [
            f"{by}: {over}, {fl.units.format_rate(r)}, {fl.units.format_time(t)}"
            for by, over, r, t in rows
        ]
        assert (
            drawn["words"].fields["texts"][-table.n_rows :]
            == told
            == drawn["copies"].fields["names"]
        )
    elif "who" in table.columns and "actors" in drawn:
        assert drawn["actors"].fields["names"] == table["who"].tolist()
        assert drawn["what"].fields["texts"] == table["what"].tolist()
    elif "who" in table.columns:
        told = scene.side.layers
        n = table.n_rows
        assert told["names"].fields["texts"][:n] == table["who"].tolist()
        assert [what.removeprefix("✕ ") for what in told["what"].fields["texts"][:n]] == table[
            "what"
        ].tolist()
        cells = drawn["cells"].fields["texts"]
        assert [" | ".join(cells[k : k + 2]) for k in (0, 2, 4)] == [
            table[part][-1] for part in ("seen", "left", "sums")
        ]
    elif "copies" in table.columns:
        bars, ticks = drawn["bars"].fields, drawn["x ticks"].fields
        slope = np.polyfit([fl.units.time(t) for t in ticks["texts"]], ticks["x"], 1)
        last = np.cumsum(table["copies"]) - 1
        assert (bars["x"] + bars["w"])[last] == pytest.approx(
            np.polyval(slope, table["time [s]"]), abs=0.5
        )
    elif "words" in drawn and "cables" in drawn:  # a map: each cable as a line, or as two stubs
        layers = [drawn[part].fields for part in ("cables", "stubs") if part in drawn]
        shown = {n: c for f in layers for n, c in zip(f["names"], f["colour"], strict=True)}
        # Of a bundle the fullest cable is shown; idle ones are hairlines.
        colours = np.where(table["load"] == 0, COLOUR["hair"], shade(table["fullest"]))
        rows = zip(table["from"], table["to"], colours, strict=True)
        assert shown == {f"{a} – {b}": pytest.approx(c) for a, b, c in rows if b != "within"}
    elif "carries" in table.columns:
        lit = [
            layers["cables"] for layers in (drawn, {"cables": scene.side.layers["right cables"]})
        ]
        colours = np.concatenate([layer.fields["colour"] for layer in lit])
        wanted = np.where(np.array(table["carries"]) > 0, COLOUR["ring"], COLOUR["hair"])
        assert np.array_equal(colours, wanted)
    elif "trees" in table.columns:
        names = drawn["trees"].fields["names"]
        for one, other, jobs in zip(*(table[k] for k in ("from", "to", "trees")), strict=True):
            shown = [n for n in names if n.startswith(f"{one} – {other},")]
            assert shown == [f"{one} – {other}, job {job}" for job in jobs.split(", ")]
    elif "cables" in drawn and "load" in table.columns and name != "opened":
        load = table["fullest"]
        working = np.where(load > 0, shade(load), COLOUR["hair"])
        colours = np.where(table["failed"] == table["cables"], COLOUR["failed"], working)
        assert np.allclose(drawn["cables"].fields["colour"], colours)
        idle = drawn["cables"].fields["width"][load == 0]
        assert idle.max(initial=0) < drawn["cables"].fields["width"][load > 0].min(initial=9)
    elif "cells" in drawn:
        # Each bar has the number of arrays in its sum, or the share of blocks that it stands for.
        notes, full = drawn["cells"].fields["notes"], drawn["empty"].fields["h"]
        heights = drawn["blocks"].fields["h"] / full
        if len(notes) == table.n_rows and name != "two trees":
            found = np.sort(heights)
            arrays_in = table["from ranks"] / table["from ranks"][table["from ranks"] > 0].max()
            assert np.count_nonzero(found) == np.count_nonzero(arrays_in)
            assert [int(n.split(",")[0]) for n in notes if "," in n] == [
                value for value in table["holds"].tolist() if value
            ]
    elif "endpoint" in table.columns:
        assert np.allclose(drawn["nodes"].fields["colour"], shade(table["load"]))
        assert len(drawn["nodes"].fields["names"]) == 1024
    elif "part [%]" in table.columns:
        bars = drawn["bars"].fields["w"] / drawn["way"].fields["w"]
        least = 1.0 / drawn["way"].fields["w"]  # so wide is a bar that has hardly begun
        assert bars == pytest.approx(np.maximum(table["part [%]"] / 100, least), rel=1e-5)
    elif "0 bars" in drawn:  # strips: all bars of a schedule, then those of the next
        ticks = drawn["x ticks"].fields
        slope = np.polyfit([fl.units.time(t) for t in ticks["texts"]], ticks["x"], 1)
        bars = [drawn[part].fields for part in ("0 bars", "1 bars") if part in drawn]
        left, width = (np.concatenate([each[k] for each in bars]) for k in "xw")
        begin, end = (np.polyval(slope, table[k]) for k in ("start [s]", "finish [s]"))
        # Thin bars of a kind that follow each other are drawn as one, so each bar begins and ends with some row, and
        # each row lies in a bar.
        assert np.all(np.abs(left[:, None] - begin).min(axis=1) < 0.5)
        assert np.all(np.abs((left + width)[:, None] - end).min(axis=1) < 0.6)
        covers = (left < begin[:, None] + 0.5) & (left + width > end[:, None] - 0.6)
        assert np.all(covers.any(axis=1))
        wide = end - begin > 4  # such a bar stands alone
        assert np.all(np.abs(left[:, None] - begin[wide]).min(axis=0) < 0.5)
    elif "bars" in drawn and "start [s]" in table.columns:
        bars, ticks = drawn["bars"].fields, drawn["x ticks"].fields
        if name == "repeated":
            return  # its axis is folded; test_flows_of_repeated_steps reads it
        slope = np.polyfit([fl.units.time(t) for t in ticks["texts"]], ticks["x"], 1)
        assert bars["x"] == pytest.approx(np.polyval(slope, table["start [s]"]), abs=0.5)
        assert bars["x"] + bars["w"] == pytest.approx(
            np.polyval(slope, table["finish [s]"]), abs=0.5
        )
    elif "over a spine [GB]" in table.columns:
        tiers = ("over a spine [GB]", "leaf [GB]", "inside a server [GB]")
        sizes = np.concatenate([table[tier] for tier in tiers])
        bars = drawn["sent"].fields["w"]
        shown = sizes * bars.max() / sizes.max()
        assert bars == pytest.approx(np.where(sizes > 0, np.maximum(shown, 1), 0), abs=0.5)
        waits = drawn["step"].fields["w"][1:]
        ticks = drawn["x ticks"].fields
        slope = np.polyfit([fl.units.time(t) for t in ticks["texts"]], ticks["x"], 1)[0]
        assert waits == pytest.approx(table["waits [s]"] * slope, abs=0.8)
    elif "source" in table.columns or "tier" in table.columns:
        bars, ticks = drawn["bars"].fields, drawn["x ticks"].fields
        slope = np.polyfit([fl.units.time(t) for t in ticks["texts"]], ticks["x"], 1)[0]
        times = np.concatenate(
            [table[k] for k in ("time [s]", "least [s]", "most [s]") if k in table.columns]
        )
        assert np.sort(bars["w"]) == pytest.approx(np.sort(times[times > 0]) * slope, abs=0.5)
    elif "takes in" in table.columns:
        bars, most = drawn["taken"].fields["h"], max(table["takes in"].max(), table["sends"].max())
        assert bars == pytest.approx(54 * table["takes in"] / most, rel=1e-5)
        assert drawn["sent"].fields["w"] == pytest.approx(54 * table["sends"] / most, rel=1e-5)
        cells = favoured(2, 1)
        full = cells[cells > 0]  # what is empty shows the ground
        assert np.allclose(drawn["map"].fields["colour"], shade(full / cells.max()))
    elif "flows" in table.columns:
        bars, unit = drawn["bars"].fields, drawn["bars"].fields["h"].max() / table["flows"].max()
        assert np.maximum(table["flows"] * unit, 1) == pytest.approx(bars["h"], rel=1e-5)
    elif "reach [m]" in table.columns:
        bars, ticks = drawn["reach"].fields, drawn["x ticks"].fields
        slope = np.polyfit(np.log([fl.units.length(t) for t in ticks["texts"]]), ticks["x"], 1)
        assert bars["x"] + bars["w"] == pytest.approx(
            np.polyval(slope, np.log(table["reach [m]"])), abs=0.5
        )
        assert bars["names"] == tuple(table["medium"])
        price = table["price [USD]"]  # at half of the fastest rate
        assert drawn["cost"].fields["w"] == pytest.approx(
            1 + 200 / 2 * price / price.max(), rel=1e-5
        )
    elif "wavelengths" in table.columns:
        filled = drawn["slots"].fields["colour"].reshape(table.n_rows, -1) != COLOUR["none"]
        assert filled.sum(axis=1).tolist() == table["wavelengths"].tolist()
    elif table.columns.keys() & CURVES:
        # the curve through the point of the present state, what it is compared with, and its like
        parts = [drawn[part].fields["y"] for part in ("lines", "bounds", "others")]
        here = drawn["dots"].fields["names"][0].partition(",")[0]
        across, seen = ([*table.columns.values()][i] for i in (1, 2))
        n = table["series"].tolist().index(here) + 1  # points of the curve
        order = np.append(np.argsort(across[:n], kind="stable"), np.arange(n, seen.size))
        assert np.concatenate(parts) == pytest.approx(places_of(drawn, seen[order]), abs=0.5)
        assert drawn["dots"].fields["y"] == pytest.approx(
            places_of(drawn, seen[n - 1 : n]), abs=0.5
        )
        assert drawn["dots"].fields["colour"] == COLOUR["ink"]
    elif "rate [B/s]" in table.columns:
        ticks = drawn["x ticks"].fields
        at = np.log([fl.units.rate(t) for t in ticks["texts"]])
        # links of one rate share a dot
        rates = table["rate [B/s]"]
        if name == "whole ruler":
            rates = np.unique(rates.round(-3))[::-1]
        assert drawn["dots"].fields["x"] == pytest.approx(
            np.polyval(np.polyfit(at, ticks["x"], 1), np.log(rates)), abs=0.1
        )
        named = " = ".join(drawn["rows"].fields["names"]).split(" = ")
        assert named == table["what"].tolist()
    elif "computes [s]" in table.columns:
        ticks = drawn["y ticks"].fields
        at = [float(tick.removesuffix(" s")) for tick in ticks["texts"]]
        line = np.polyfit(at, ticks["y"], 1)  # from seconds to pixels
        computes = table["computes [s]"]
        assert drawn["computes"].fields["y"] == pytest.approx(np.polyval(line, computes), abs=0.5)
        assert drawn["waits"].fields["y"] == pytest.approx(
            np.polyval(line, computes.max()), abs=0.5
        )
    elif "attribute" in table.columns:
        listed = VIEWS[name]().scene.side.layers["attributes"].fields["texts"]
        assert (listed or [text("live.queue_pair.none")]) == table["attribute"].tolist()
    elif text("live.queue_pair.refusal") in table.columns:
        (reason,) = table[text("live.queue_pair.refusal")]
        assert " ".join(VIEWS[name]().scene.side.layers["reason"].fields["texts"]) == reason
    elif "requests" in table.columns:
        at = VIEWS[name]().values["batch"]
        row = table["requests"].tolist().index(at)
        rates = [table[column][row] for column in list(table.columns)[1:]]
        shown = [float(words.replace(",", "")) for words in drawn["values"].fields["texts"]]
        assert shown == [float(f"{rate:.3g}") for rate in rates]
        heights = drawn["dots"].fields["y"].reshape(2, -1)
        order = np.argsort(-np.concatenate([table[c] for c in list(table.columns)[1:]]))
        assert np.all(np.diff(heights.ravel()[order]) >= -1e-9)
    elif "all packets arrive" in table.columns:  # a rollout with all its orders
        cells = [table[f"after {n}"].tolist() for n in (1, 2, 3)]
        beside = scene.side.layers
        assert beside["names"].fields["texts"] == table["order"].tolist()
        assert beside["cells"].fields["texts"] == [
            cell for row in zip(*cells, strict=True) for cell in row
        ]
        is_safe = table["all packets arrive"] == text("live.rollout.yes")
        assert np.array_equal(beside["names"].fields["bold"] == 1, is_safe)
    elif "has changed" in table.columns:  # a rollout by itself
        assert drawn["rule words"].fields["texts"] == table["rule"].tolist()
        has_changed = table["has changed"] == text("live.rollout.yes")
        assert np.array_equal(drawn["rule words"].fields["bold"] == 1, has_changed)
    elif "clicked" in table.columns:  # timings of groups of servers
        listed = scene.side.layers
        if listed["clicks"].fields["texts"]:
            assert listed["clicks"].fields["texts"] == table["clicked"].tolist()
        cells = listed["cells"].fields["texts"]
        rails = [cells[k : k + 8] for k in range(0, len(cells), 8)]
        slowest = [word for word in table["slowest rail [times healthy]"].tolist() if word]
        fastest = [word for word in table["fastest rail [times healthy]"].tolist() if word]
        assert [max(row, key=float) for row in rails] == slowest
        assert [min(row, key=float) for row in rails] == fastest
    elif "mean of the first ten" in table.columns:  # counters of links
        links = drawn["links"].fields
        last = links["y"][links["ptr"][1:].astype(int) - 1]
        samples = table["last sample"][np.argsort(table["link"])]
        assert np.all(np.diff(last[np.argsort(samples, kind="stable")]) <= 1e-3)
        assert table.n_rows == len(links["names"])
    elif "tenant A [GB/s]" in table.columns:
        bars, rest = (scene.side.layers[part].fields for part in ("bars", "rest"))
        rates = np.stack([table[f"tenant {tenant} [GB/s]"] for tenant in "AB"], axis=1)
        assert bars["w"] == pytest.approx(rest["w"][0] * rates.ravel() / 50, abs=0.01)
    elif "holds" in table.columns:  # a design with its requirements
        listed = scene.side.layers
        names = listed["requirements"].fields["texts"]
        n = len(names)
        assert table["what"][:n].tolist() == names
        signs = {"yes": "✓", "no": "✕", "open": "–"}
        words = {text(f"word.{key}"): sign for key, sign in signs.items()}
        assert [words[state] for state in table["holds"][:n]] == listed["signs"].fields["texts"]
        room = table["room [%]"][:n]
        bars = listed["bars"].fields
        known = np.isfinite(room)
        most = np.minimum(np.abs(room[known]) / 50, 1)  # bars end at 50 %, after 42 px
        assert bars["w"][known] == pytest.approx(42.0 * most, abs=0.01)
        ends = bars["x"][known] + np.where(room[known] < 0, bars["w"][known], 0)
        assert ends == pytest.approx(np.ravel(listed["zero"].fields["x"])[0])
        cables = [row.startswith(text("plan.cables", a="", b="")[:7]) for row in table["what"]]
        in_all = sum(int(n.replace(",", "")) for n in table["reached"][np.array(cables)])
        told = [int(note.split()[0].replace(",", "")) for note in drawn["cables"].fields["notes"]]
        assert sum(told) == in_all > 0
    elif "state" in table.columns:  # a gallery
        dots, ticks = drawn["designs"].fields, drawn["x ticks"].fields
        is_power = drawn["x name"].fields["texts"] == [text("live.gallery.axis_power")]
        axis = "power [W]" if is_power else "million USD"
        value = [float(tick) for tick in ticks["texts"]]
        in_unit = np.array(value) * (1e3 if axis == "power [W]" else 1)
        to_x = np.polyfit(in_unit, ticks["x"], 1)
        assert dots["x"] == pytest.approx(np.polyval(to_x, table[axis]), abs=0.05)
        steps = [float(tick.split()[0]) for tick in drawn["y ticks"].fields["texts"]]
        to_y = np.polyfit(steps, drawn["y ticks"].fields["y"], 1)
        assert dots["y"] == pytest.approx(np.polyval(to_y, table["step [s]"]), abs=0.05)
        assert [f"design {label}" for label in table["design"]] == dots["names"]
        on_front = table["state"] == text("live.gallery.front")
        assert np.array_equal(dots["shape"] == 0, on_front)
    elif "lines" in drawn:
        is_bound = np.isin(table["series"], ["one NIC", "one array"])
        at = np.concatenate([drawn[part].fields["y"] for part in ("lines", "dots")])
        values = table[[*table.columns][2]][~is_bound]
        assert np.sort(at) == pytest.approx(np.sort(places_of(drawn, values)), abs=0.5)
    else:
        assert name in ("opened", "small fabric", "failures", "table", "roofline")
    if "margins" in drawn and not table.columns.keys() & {"over", "trees"}:
        assert (
            drawn["cables"].fields["ptr"].size - 1
            == len(drawn["cables"].fields["names"])
            == table.n_rows
        )
        failed, broken = table["failed"], drawn["cables"].fields["form"] == FORM["failed"]
        assert np.array_equal(broken, failed == table["cables"])
        assert drawn["failed"].fields["x"].size == np.count_nonzero(failed[~broken])


@pytest.mark.parametrize("name", VIEWS)
def test_only_numbers_that_changed_are_sent(name):
    view = VIEWS[name]()
    whole = len(view.widget.numbers)
    assert whole == 4 * sum(a.size for a in arrays(view.scene).values() if view.scene.layers)
    view.widget.asked = {"seq": 1, "values": dict(view.values)}
    assert view.widget.numbers == b""
    assert view.widget.frame["seq"] == 1


@pytest.mark.parametrize("name", VIEWS)
def test_a_state_can_be_printed(name):
    picture = standard(name).picture()
    assert picture.figure.axes
    assert len(picture.alt) > 20


# Written as SVG, a picture costs twice as much as drawn. Every kind of layer is in the sample.
@pytest.mark.parametrize("name", sampled(VIEWS, 6))
def test_a_printed_state_is_an_element_of_the_page(name):
    assert standard(name).picture().svg().startswith("<svg role=")


# refusals -----------------------------------------------------------------------------------------
def test_wrong_values_are_refused_by_name():
    view = live.stepper("all_reduce", "ring", 4)
    for values, error, words in (
        ({"step": 7}, ValueError, r"step must be within 0\.\.6, got 7"),
        ({"step": "two"}, TypeError, "step must be a number, got 'two'"),
        ({"stop": 1}, ValueError, "control of this view must be one of step, got 'stop'"),
    ):
        with pytest.raises(error, match=words):
            view.set(**values)
    assert view.values == {"step": 0}
    with pytest.raises(ValueError, match="colour must be one of 'tier', 'rail', got 'blue'"):
        live.fabric(HALL, colour="blue")
    with pytest.raises(ValueError, match=r"ranks of a stepper .* within 1\.\.16, got 17"):
        live.stepper("all_reduce", "ring", 17)
    with pytest.raises(ValueError, match=r"blocks times segments of .* within 1\.\.256, got 512"):
        live.stepper("all_to_all", "direct", 16, segments=2)
    with pytest.raises(ValueError, match=r"a node .*for each switch"):
        live.stepper("all_reduce", "nvls_two_shot", 4, switches=[4, 4])
    with pytest.raises(ValueError, match=r"nodes of fabric must be within 1\.\.200, got "):
        live.stepper("all_reduce", "ring", 4, fabric=HALL)


def test_nothing_to_draw_is_said_in_words():
    empty = fl.core.FabricBuilder(("host",), ("i",))
    host = empty.add_nodes("host", 2, tier=0, transit=False, i=range(2))
    alone = empty.build("alone", {}, endpoint=host, rail=[0, 0], server=[0, 1])
    for view, words in (
        (live.fabric(alone), "Nothing to draw: this fabric has 0 links"),
        (live.fabric(STAR, np.full(STAR.n_links, np.nan)), "some loads are NaN"),
        (live.sweep({}), "nothing to draw"),
    ):
        assert words in view.scene.said
        assert view.scene.wrong
        assert view.scene.height == 0
        assert words in str(view)
        assert view.widget.frame["said"] == view.scene.said


def test_a_fabric_of_100_000_nodes_is_drawn_as_blocks_and_its_largest_block_is_not_opened():
    large = topologies.build("rail_optimised", servers=4096)
    view = live.fabric(large)
    assert large.n_nodes > 100_000
    assert len(view.scene.layers["nodes"].fields["names"]) < 60
    closed = arrays(view.scene)
    assert "4,096 members" in view.set(open=0).scene.said
    assert same(arrays(view.scene), closed)  # said in words, and the picture stays
    assert "32,768 cells" in view.set(layout="floor", open=None).scene.said and view.scene.layers


def test_an_error_of_the_learners_function_is_told_and_the_view_goes_on():
    def picky(seed):
        if seed == 3:
            msg = "three is not liked"
            raise RuntimeError(msg)
        return shuffled(seed)

    view = live.fabric(HALL, picky, controls=SHUFFLE)
    view.widget.asked = {"seq": 1, "values": {"seed": 3, "colour": "load", "open": None}}
    assert view.widget.frame["said"] == "RuntimeError: three is not liked"
    assert view.widget.frame["wrong"]
    view.widget.asked = {"seq": 2, "values": {"seed": 4, "colour": "load", "open": None}}
    assert not view.widget.frame["wrong"]
    assert view.values["seed"] == 4


def test_ends_of_routes_are_called_by_the_names_of_their_boxes():
    small = topologies.build("dragonfly", p=2, a=4, h=2)
    for view, kind in ((VIEWS["paths"](), "host"), (live.paths(small), text("trace.rank"))):
        labels = {control["name"]: control["label"] for control in view.widget.spec["controls"]}
        assert labels["source"] == text("live.paths.from", kind=kind)
        assert labels["target"] == text("live.paths.to", kind=kind)


def test_all_tiers_of_switches_have_names_in_their_boxes_or_all_have_numbers():
    for name in ("paths", "small fabric"):
        nodes = VIEWS[name]().scene.layers["nodes"].fields
        pairs = zip(nodes["names"], nodes["texts"], strict=True)
        drawn = {
            words.isdigit() for of, words in pairs if of.split()[0] in ("leaf", "spine", "core")
        }
        assert len(drawn) == 1


def test_a_way_is_told_in_the_order_of_travel():
    small = topologies.build("dragonfly", p=2, a=4, h=2)
    view = live.paths(small, target=8, routing="minimal", routings=("minimal", "valiant"))
    ends = {"a": "rank 0", "b": "rank 8"}
    assert view.scene.said == text("live.paths.single", routing="minimal", hops=4, **ends)
    listed = view.scene.side.layers["route links"].fields["texts"]
    way = ["rank 0", "switch 0 of group 0", "switch 3 of group 1", "switch 0 of group 1", "rank 8"]
    assert listed == [f"{way[0]} → {way[1]}", *(f"→ {node}" for node in way[2:])]
    assert view.scene.layers["steps"].fields["texts"] == ["1", "2", "3", "4"]
    assert view.scene.side.layers["crossed numbers"].fields["texts"] == ["4", "6"]
    told = sentence("live.paths.said", routing="Valiant", hops=6, links=25, **ends)
    assert told.fullmatch(view.set(routing="valiant").scene.said)


def test_a_learners_function_may_return_the_fabric_and_the_sentence():
    def half(part):
        return (STAR.without(cables=[0]), np.full(STAR.n_links, part / 10), f"Set to {part}.")[
            : 3 if part > 5 else 2
        ]

    view = live.fabric(STAR, half, controls={"part": live.Slider(0, 10)}, said="All alike.")
    assert (
        view.set(part=2).scene.said == "All alike." and view.set(part=8).scene.said == "Set to 8."
    )
    assert view.scene.table["load"].max() == 0.8 and view.scene.table["failed"].sum() == 1


def test_an_error_is_shown_in_words_and_no_text_tells_of_the_state_before():
    def picky(n):
        if n > 2:
            raise ValueError("too many")
        return Scene(f"{n} it is.", fl.views.table({"n": [n]}), {"dot": dot()}, 20.0, alt=f"{n}")

    def dot():
        return Layer("dots", {"x": np.array([3.0]), "y": np.array([3.0])})

    view = live.Live("x(", picky, {"n": live.Slider(0, 5)}, {"n": 1}, "picky")
    view.widget.asked = {"seq": 1, "values": {"n": 3}}
    assert view.widget.frame["alt"] == view.scene.said == "ValueError: too many"
    assert not view.widget.frame["counted"] and view.widget.frame["layers"]
    assert view._repr_mimebundle_()[0]["text/html"] == view.scene.said
    view.widget.asked = {"seq": 2, "values": {"n": 2}}
    assert view.widget.frame["counted"] and not view.widget.frame["wrong"]


# forms --------------------------------------------------------------------------------------------
def test_a_form_answers_every_request_even_if_its_function_fails():
    def press(name, fields):
        if name == "bad":
            raise KeyError("gone")
        return Turn(f"<p>{fields['a']}</p>", said="done")

    form = Form("title", "<p>first</p>", "the words", press)
    assert not form._is_filled  # nothing is sent before it is shown
    assert form.widget.frame["html"] == "<p>first</p>"
    form.widget.asked = {"seq": 4, "press": "bad", "fields": {}}
    frame = form.widget.frame
    assert (frame["seq"], frame["html"], frame["problem"]) == (
        4,
        "<p>first</p>",
        "KeyError: 'gone'",
    )
    form.widget.asked = {"seq": 5, "press": "good", "fields": {"a": "5"}}
    assert (form.widget.frame["html"], form.widget.frame["said"]) == ("<p>5</p>", "done")
    form.widget.asked = {"seq": 6, "press": "bad", "fields": {}}
    assert form.widget.frame["html"] == "<p>5</p>"  # as it was before the failure
    assert str(form) == "the words\nKeyError: 'gone'"


def test_a_form_in_text_mode_is_its_words(monkeypatch):
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    form = fl.check("22-hosts").live()
    assert form.widget.spec["as_text"] and "fl.check" in form.widget.frame["text"]
    assert set(form._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert set(fl.check("22-hosts")._repr_mimebundle_()) == {"text/plain"}


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((0.01, 1000.0), ["1,000 s", "100", "10", "1", "0.1", "0.01"]),
        ((1.2, 1.4), ["1.4 s", "1.2"]),
        (
            (1e-4, 1e5),
            [
                "10\u2075 s",
                "10,000",
                "1,000",
                "100",
                "10",
                "1",
                "0.1",
                "0.01",
                "0.001",
                "10\u207b\u2074",
            ],
        ),
        (
            (1.0, 1e12),
            ["10\u00b9\u00b2 s", "10\u00b9\u2070", "10\u2078", "10\u2076", "10,000", "100", "1"],
        ),
    ],
)
def test_a_ruler_has_a_label_at_each_power_or_each_second_one(ends, labels):
    page = cards.ruler(ends, "s", cards.Guess())
    axis = page[page.index("fl-axis") :]
    assert re.findall(r"<span[^>]*>([^<]+)</span>", axis) == labels
    assert all(0 <= float(place) <= 100 for place in re.findall(r"left:([0-9.]+)%", page))


# display ------------------------------------------------------------------------------------------
def test_a_saved_live_table_keeps_its_rows_with_and_without_a_kernel():
    view = VIEWS["table"]()
    page, _ = view._repr_mimebundle_()
    assert "<td" in page["text/html"]
    view.widget.asked = {"seq": 1, "values": {}, "whole": True}
    assert "<td" in view.widget.frame["table"]


def test_a_live_table_can_be_drawn_as_bars():
    def shares(n):
        columns = {
            "what": ["a", "b", "sum"],
            "x [%]": [n, 2.0, np.nan],
            "y [%]": [3.0, 3.0, np.nan],
        }
        return fl.views.table(columns, caption="Said.")

    view = live.table(shares, {"n": live.Slider(1, 9)}, n=5, bars=["x [%]", "y [%]"])
    scene = view.scene
    assert scene.said == "Said." and scene.table["x [%]"][0] == 5
    bars = scene.layers["bars"].fields
    assert bars["names"] == ["a", "b", "a", "b"]  # no bar where there is no value
    ink = np.asarray(bars["colour"]) == COLOUR["ink"]
    assert ink.tolist() == [True, False, True, True]  # the longest of each group
    assert scene.layers["groups"].fields["texts"] == ["x", "y"]
    assert "bars=('x [%]', 'y [%]')" in view.code


def test_text_mode_shows_words_table_and_code(monkeypatch):
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    bundle = live.stepper("all_reduce", "ring", 4, step=3)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert sentence("live.stepper.said", step=3, steps=6).search(bundle["text/plain"])
    for words in (
        "from ranks",
        "step: 0 .. 6",
        "fl.live.stepper('all_reduce', 'ring', 4, step=3)",
    ):
        assert words in bundle["text/plain"]


def test_a_page_without_a_kernel_gets_a_printed_picture():
    data, _ = live.stepper("all_reduce", "ring", 4)._repr_mimebundle_()
    assert data["text/html"].startswith("<figure")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_view_is_a_widget_that_boxes_take():
    view, other = live.stepper("all_reduce", "ring", 4), live.roulette()
    assert isinstance(view, ipywidgets.Widget) and isinstance(view, Live)
    for box in (ipywidgets.VBox([view]), ipywidgets.HBox([view, other])):
        data = box._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in data
        addresses = [f"IPY_MODEL_{child.model_id}" for child in box.children]
        assert box.get_state("children") == {"children": addresses}
    assert text("live.stepper.before", steps=6) in repr(ipywidgets.VBox([view]))
    state = view.get_state()
    assert state["frame"]["said"] == view.scene.said and state["numbers"]
    assert view.widget is view
    view.set(step=2)
    assert sentence("live.stepper.said", step=2, steps=6).match(view.frame["said"])
    view.asked = {"seq": 1, "values": {"step": 3}}
    assert sentence("live.stepper.said", step=3, steps=6).match(view.scene.said)


def test_a_view_that_is_not_shown_sends_nothing_and_is_freed():
    view = live.stepper("all_reduce", "ring", 4).set(step=2)
    assert view.comm is None and not view.frame
    gone = weakref.ref(view)
    del view
    gc.collect()
    assert gone() is None


def test_a_view_can_be_asked_for_before_it_is_shown():
    view = live.roulette()
    said = view.widget.frame["said"]
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert view.frame["said"] == said


def test_in_text_mode_a_box_holds_the_words_of_a_view(monkeypatch):
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    view = live.stepper("all_reduce", "ring", 4)
    box = ipywidgets.VBox([view])
    assert "application/vnd.jupyter.widget-view+json" in box._repr_mimebundle_()
    assert box.get_state("children")["children"] == [f"IPY_MODEL_{view.model_id}"]
    assert view.spec["as_text"] and view.frame["text"] == str(view)
    view.set(step=3)
    assert sentence("live.stepper.said", step=3, steps=6).search(view.frame["text"])


def test_buttons_are_pressed_by_hand():
    pressed = []
    view = Live(
        "x(", lambda: Scene("ready"), {}, {}, "buttons", buttons={"Go": lambda v: pressed.append(v)}
    )
    view.widget.asked = {"seq": 1, "values": {}, "press": "Go"}
    view.widget.asked = {"seq": 2, "values": {}, "press": "Stop"}  # there is no such button
    assert pressed == [view]


def test_layers_hold_float32_as_the_browser_does():
    layer = Layer("dots", {"x": np.arange(3), "names": ["a", "b", "c"], "size": 4.0, "shape": None})
    assert layer.fields["x"].dtype == np.float32
    assert "shape" not in layer.fields
    assert printed(
        Scene("a dot", None, {"dots": Layer("dots", {"x": np.ones(1), "y": np.ones(1)})}, 20.0)
    ).table


# what fits ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", ["InfiniBand, RDMA", "Ethernet, kernel TCP"])
@pytest.mark.parametrize("switches", [0, 1, 6])
def test_names_of_the_parts_of_a_latency_never_meet(way, switches):
    scene = live.latency(way, switches, 200.0).scene
    names, bars = scene.layers["parts"].fields, scene.layers["bars"].fields
    lines = scene.layers["leaders"].fields
    leaders = lines["x"][lines["ptr"][:-1].astype(int)]  # where each line begins below its name
    spans = []
    places = zip(names["x"], names["y"], names["texts"], names["align"], leaders, strict=True)
    for x, y, words, align, leader in places:
        for letter in (5.0, 7.0):  # whatever the font, the line meets the name that it leads to
            left = x - align / 2 * letter * len(words)
            assert left <= leader <= left + letter * len(words)
        left = x - align / 2 * 0.58 * 12 * len(words)
        right = left + 0.58 * 12 * len(words)
        spans.append((left, right, y))
        assert left > 0 and right < scene.width
        assert not np.any((y > bars["y"] - 4) & (y < bars["y"] + bars["h"]))
    for one, other in itertools.combinations(spans, 2):
        beside = min(one[1], other[1]) - max(one[0], other[0]) <= 0
        assert beside or abs(one[2] - other[2]) >= 15
    # the largest part of each bar is named in bold
    most = [scene.table[k].max() for k in ("least [s]", "most [s]")]
    assert int(sum(names["bold"])) == len(most)
    told = {w for w, bold in zip(names["texts"], names["bold"], strict=True) if bold}
    assert all(any(fl.units.format_time(t) in w for w in told) for t in most)


@pytest.mark.parametrize(
    "name",
    [
        *("sweep", "cursor", "model", "bound", "medium", "wavelengths", "few wavelengths"),
        *("drift", "beam", "aim", "hybrid", "mzi mesh", "circuit", "ruler", "whole ruler"),
        *("latency", "tiers"),
    ],
)
def test_a_curve_or_ruler_fits_with_its_controls(name):
    view = VIEWS[name]()
    for key, control in view.controls.items():
        for value in control.samples():
            scene = view.set(**{key: value}).scene
            assert not scene.wrong
            for panel in scene.panels():
                assert 80 <= panel.height + 30 <= 420
            assert sum(panel.width for panel in scene.panels()) == 880


@pytest.mark.parametrize("name", ["incast", "incast lossy", "control loops", "two loops"])
def test_ticks_beside_a_queue_fit_where_a_picture_is_smallest(name):
    small = 0.8  # of a picture on a phone, where letters keep their size
    layers = VIEWS[name]().scene.layers
    ticks = [
        layer.fields for key, layer in layers.items() if key.endswith(("y ticks", "rate ticks"))
    ]
    assert len(ticks) == 2
    for tick in ticks:
        for x, words in zip(tick["x"], tick["texts"], strict=True):
            assert 0.56 * 12 * len(words) / small <= x


def test_fibres_of_many_wavelengths_fill_the_width():
    for values in ((256, 2, "C 50 GHz"), (256, 1, "O 20 nm"), (44, 8, "C 100 GHz")):
        scene = live.wavelengths(*values).scene
        slots = scene.layers["slots"].fields
        assert (slots["x"] + slots["w"]).max() > 780 and slots["w"].min() > 4
        assert (slots["y"] + slots["h"]).max() < scene.height <= 360


@pytest.mark.parametrize("server", ["dgx_h100", "dgx_a100"])
def test_the_box_of_a_drive_meets_no_other_box(server):
    layers = live.copies("peer", source="nvme", server=server).scene.layers
    drive, nodes = layers["drives"].fields, layers["nodes"].fields
    (name,) = drive["names"]
    assert layers["drive names"].fields["texts"] == [text("live.copies.box", n=name.split()[-1])]
    left, top, wide, tall = (float(drive[key][0]) for key in ("x", "y", "w", "h"))
    apart = (nodes["x"] > left + wide) | (nodes["x"] + nodes["w"] < left)
    apart |= (nodes["y"] > top + tall) | (nodes["y"] + nodes["h"] < top)
    assert np.all(apart)


def test_marks_of_a_measurement_and_their_spread_stay_while_the_model_moves():
    here = fl.core.Result(
        "all_reduce",
        "measured",
        [2**25, 2**30],
        [2e-3, 4e-2],
        n_ranks=10,
        low=[1.9e-3, 3e-2],
        high=[3e-3, 5e-2],
    )

    def beside(lag=14):
        return {"here": here, **modelled(lag)}

    view = live.sweep(beside, y="busbw", controls={"lag": live.Slider(1, 40)}, lag=14)
    before = view.scene.layers
    after = view.set(lag=30).scene.layers
    marks = [i for i, name in enumerate(before["dots"].fields["names"]) if "here" in name]
    assert len(marks) == 2 and before["spread"].fields["x"].size == 4
    for name in ("spread", "dots"):
        for one in ("x", "y"):
            # The axis may follow a little.
            np.testing.assert_allclose(before[name].fields[one], after[name].fields[one], atol=1)
    mark = before["dots"].fields["y"][marks]
    low, high = before["spread"].fields["y"].reshape(2, 2).T
    assert np.all((np.minimum(low, high) < mark) & (mark < np.maximum(low, high)))
    assert not np.allclose(before["lines"].fields["y"], after["lines"].fields["y"], atol=2)
    assert view.picture().figure.axes


def test_the_values_beside_dots_keep_clear_of_the_curves():
    side = live.overlap(bucket=220, priority="both").scene.side
    curve, values = side.layers["curves"].fields, side.layers["values"].fields
    places = zip(values["x"], values["y"], values["texts"], values["align"], strict=True)
    for x, y, words, align in places:
        left = x - align / 2 * 7 * len(words)
        inside = (curve["x"] > left) & (curve["x"] < left + 7 * len(words))
        assert not np.any(inside & (np.abs(curve["y"] - y) < 7))


# incasts and headroom -----------------------------------------------------------------------------
def test_what_senders_send_is_what_the_port_passes_and_stores():
    case = queues.Incast(4, "window", "pause", 2e6, 2**18, 50e9)
    run = queues.played(case)
    sent = (run.rates * np.diff(run.times)[:, None]).sum()
    packets = 4 * 2**18 / 4096
    assert sent == pytest.approx(4 * 2**18 + packets * (62 + 20), rel=0.02)
    assert run.queue.max() <= run.peak and run.drops == run.lost.sum() == 0
    assert run.goodput == pytest.approx(4 * 2**18 / run.finish)
    # From the first byte on, three of four ports' worth of data pile up until windows or pauses stop it.
    assert run.finish > 4 * 2**18 / 50e9


def test_without_a_loop_senders_keep_line_rate():
    run = queues.played(queues.Incast(8, "window", "none", 16e6, 2**20, 50e9))
    # The port takes one of eight parts away, and the other seven wait with their headers.
    assert run.peak == pytest.approx(7 * 2**20 * 4158 / 4096, rel=0.02)
    assert run.drops == 0


def test_without_pauses_a_small_buffer_loses_and_with_them_it_does_not():
    cases = {
        how: queues.played(queues.Incast(12, "window", how, 1e6, 2**18, 50e9))
        for how in ("pause", "none")
    }
    lossy, lossless = cases["none"], cases["pause"]
    assert lossy.drops > 0 and lossy.pauses == 0 and np.isnan(lossy.first_pause)
    assert lossless.drops == 0 and lossless.pauses > 0
    assert 0 < lossless.first_pause < lossless.times[-1]
    assert lossless.finish < lossy.finish
    # The queue passes neither what the threshold allows nor, with pauses, that and all headroom.
    assert lossy.peak <= lossy.limit + 4158
    assert lossless.peak > lossless.limit - 12 * 4158


@pytest.mark.parametrize(
    ("rate", "length", "frame", "quanta"), [(400, 100.0, 9216, 60), (100, 3.0, 1536, 394)]
)
def test_a_headroom_of_the_sum_loses_nothing_and_one_below_the_stored_loses_a_frame(
    rate, length, frame, quanta
):
    cable = headrooms.Cable(rate * 1e9 / 8, length, frame, quanta)
    assert sum(cable.parts.values()) == pytest.approx(cable.needed, abs=1.0)
    enough = headrooms.outcome(cable, float(np.ceil(cable.needed)))
    assert enough.lost == 0 and 0.5 * cable.needed < enough.stored <= cable.needed
    assert headrooms.outcome(cable, enough.stored).lost == 0
    assert headrooms.outcome(cable, enough.stored - 1).lost == 1
    # No other byte of the frame at which the threshold is reached stores more.
    others = [cable.frames_after(np.array(o)) * frame + o for o in range(0, frame, 97)]
    assert max(others) <= enough.stored == cable.following * frame + cable.worst_offset


def test_a_band_that_cannot_fill_leaves_its_room_to_the_rates():
    high = []
    for control, lossless in (("dcqcn", "pause"), ("window", "pause"), ("window", "none")):
        scene = live.incast(control=control, lossless=lossless, shown=("senders",)).scene
        assert ("marked name" in scene.layers) == (control == "dcqcn")
        assert ("paused name" in scene.layers) == (lossless == "pause")
        assert (text("live.incast.bars_marks") in scene.hint) == (control == "dcqcn")
        assert (text("live.incast.bars_pauses") in scene.hint) == (lossless == "pause")
        high.append(np.ptp(scene.layers["rate grid"].fields["y"]))
    assert np.diff(high) == pytest.approx([36.0, 36.0])  # a band with the gap above it


def test_what_cannot_be_shown_of_an_incast_is_refused_by_name():
    with pytest.raises(ValueError, match=r"shown must be one of .*, got 'size'"):
        live.incast(shown=("size",))
    with pytest.raises(ValueError, match="at most 3 controls"):
        live.incast(shown=("senders", "control", "lossless", "buffer"))
    with pytest.raises(ValueError, match=r"size must be within 64 KiB\.\.4 MiB for each sender"):
        live.incast(size="1 GB")
    with pytest.raises(ValueError, match=r"senders must be within 2\.\.32, got 99"):
        live.incast(senders=99, shown=("control",))
    with pytest.raises(ValueError, match="at least two control loops"):
        live.control_loops(loops=("hpcc",))


# axes in common -----------------------------------------------------------------------------------
def kept(view, **values):
    """Ask a view, as the browser does, to keep its present values beside others; return the scenes: kept, present."""
    view.widget.asked = {"seq": 1, "values": view.values, "kept": {"kept 1": dict(view.values)}}
    view.widget.asked = {
        "seq": 2,
        "values": view.values | values,
        "kept": view.widget.asked["kept"],
    }
    return view._beside["kept 1"], view.scene


def test_settings_beside_each_other_have_the_same_axis():
    view = live.latency("InfiniBand, RDMA", 3)
    alone = view.scene.layers["bars"].fields["w"].sum()
    before, now = kept(view, way="Ethernet, kernel TCP")
    ticks = [scene.layers["x ticks"].fields for scene in (before, now)]
    assert ticks[0]["texts"] == ticks[1]["texts"] and np.array_equal(ticks[0]["x"], ticks[1]["x"])
    # A bar of the same time has the same length in both, and what was kept has shrunk with the axis.
    both = [scene.layers["bars"].fields["w"] for scene in (before, now)]
    cables = [scene.table["most [s]"][-1] for scene in (before, now)]
    assert cables[0] == cables[1] and both[0][-1] == pytest.approx(both[1][-1], rel=0.01)
    assert both[0].sum() < 0.5 * alone
    # What the browser gets for the kept one is drawn with these axes.
    assert {layer["kept"] for layer in view.frame["layers"]} == {"", "kept 1"}
    assert [panel["width"] for panel in view.frame["kept"]["kept 1"]] == [before.width]
    # Once it is put away the present one is alone again.
    view.widget.asked = {"seq": 3, "values": view.values, "kept": {}}
    assert view.frame["kept"] == {} and not view._beside
    assert np.array_equal(
        view.scene.layers["bars"].fields["w"],
        live.latency("Ethernet, kernel TCP", 3).scene.layers["bars"].fields["w"],
    )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("incast lossy", {"senders": 4}),
        ("two loops", {"senders": 8}),
        ("short cable", {"headroom": 90.0}),
        ("overlap", {"bucket": 100}),
        ("eight chunks", {"chunk": 64}),
        ("model", {"lag": 45}),
        ("pool", {"delay": 10}),
        ("savings", {"size": 8e6}),
        ("shuffled", {"seed": 0}),
        ("traffic", {"popular": 1}),
    ],
)
def test_every_axis_of_settings_beside_each_other_ends_alike(name, change):
    before, now = kept(VIEWS[name](), **change)
    compared = 0
    for one, other in zip(before.panels(), now.panels(), strict=True):
        columns = ("window x ticks", "window y ticks", "hpcc x ticks")
        for layer in ("x ticks", "y ticks", "ticks", "bar ticks", *columns):
            if layer in one.layers:
                ticks = [panel.layers[layer].fields["texts"] for panel in (one, other)]
                assert ticks[0] == ticks[1]
                compared += 1
    assert compared


def test_bars_of_settings_beside_each_other_have_one_scale():
    before, now = kept(VIEWS["twist"](), shift=2)
    bars = [scene.side.layers["load bars"].fields["h"] for scene in (before, now)]
    # Without a shift the cables along x are half as full as those along y, with a shift of 2 both are full.
    assert bars[0] == pytest.approx([0.5 * bars[1][0], bars[1][1]], rel=0.01)


def test_a_view_without_axes_keeps_what_was_pinned_as_it_is():
    view = VIEWS["stepper"]()
    view.widget.asked = {"seq": 1, "values": {"step": 2}, "kept": {"kept 1": {"step": 0}}}
    assert not view._beside and view.frame["kept"] == {} and view.values == {"step": 2}


def test_a_slider_ends_where_a_message_has_no_more_steps():
    view = live.request("WRITE", step=13)
    assert view.values["step"] == 8 == view.scene.limits["step"]
    assert view.set(way="TCP socket", step=13).values["step"] == view.scene.limits["step"] == 12
    assert view.set(way="SEND").values["step"] == view.scene.limits["step"]
    assert f"step={view.values['step']}" in view.code


# room ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_lanes_of_a_race_fill_its_panel(n):
    runs = {f"run {i}": fl.simulate("all_reduce", "ring", STAR, "1 MB") for i in range(n)}
    scene = live.race(runs).scene
    way = scene.layers["way"].fields
    assert np.all(way["x"] + way["w"] < scene.width - 60)
    assert np.all(way["w"] > 0.6 * scene.width)
    apart = np.diff(way["y"])
    assert np.all(apart > way["h"][1:] + 8)
    assert way["y"][0] >= 0 and way["y"][-1] + way["h"][-1] <= scene.height


@pytest.mark.parametrize("shape", [(2, 4), (4, 8), (4, 4, 8), (2, 2, 4)])
@pytest.mark.parametrize("cables", ["front", "all"])
def test_a_torus_fills_its_panel(shape, cables):
    scene = live.twist(shape, 0, cables).scene
    drawn = [layer.fields for layer in scene.layers.values() if "z" in layer.fields]
    x, y = (
        np.concatenate([turned(*(f[k] for k in "xyz"))[i] + f["middle"][i] for f in drawn])
        for i in (0, 1)
    )
    assert x.min() > 0 and x.max() < scene.width and y.min() > 0 and y.max() < scene.height
    assert max(np.ptp(x) / scene.width, np.ptp(y) / scene.height) > 0.7


def test_lanes_of_chunks_are_as_high_as_the_panel_beside_them():
    for mechanism in ("pinned", "pageable"):
        scene = live.chunks(1024.0, mechanism).scene
        bars = scene.layers["bars"].fields
        assert (bars["y"] + bars["h"]).max() - bars["y"].min() > 0.5 * scene.side.height
        lanes = scene.layers["lanes"].fields["y"]
        middles = np.unique(np.round(bars["y"] + bars["h"] / 2, 2))
        assert middles == pytest.approx(lanes, abs=0.1 * float(lanes[1] - lanes[0]))
