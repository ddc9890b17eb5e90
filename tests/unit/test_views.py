"""Views: by hand, shape, laws over all views, refusals, display."""

import ast
import gc
import html
import itertools
import os
import re
import subprocess
import sys
import weakref
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from scipy.optimize import isotonic_regression

from fabriclab import (
    catalog,
    collectives,
    metrics,
    registry,
    routing,
    simulation,
    topologies,
    units,
    views,
)
from fabriclab.core import MACHINE_SHARED, FabricBuilder, Flows, Result, Timeline
from fabriclab.look import COLOUR, PALETTE, ROLES, link_width, shade
from fabriclab.simulation import best_rings
from fabriclab.texts import text
from fabriclab.views.alarms import running_sums_scene
from fabriclab.views.axes import scientific, tick_words
from fabriclab.views.bars import Bar, bars_scene, shown_values
from fabriclab.views.fabrics import fabric_scene
from fabriclab.views.layout import marks_of, part_apart
from fabriclab.views.multiples import mini_of, multiples_scene
from fabriclab.views.page import STYLE, plain, printed_hex, spread, three
from fabriclab.views.rulers import band, band_scene, ruler_scene
from fabriclab.views.rulers import marks_of as marks_at
from fabriclab.views.scene import EDGE, Scene, boxes, printed, tick_texts, turned
from fabriclab.views.sweeps import (
    axes_of,
    binary_size,
    collect,
    crossover,
    looks_of,
    readable,
    sweep_scene,
)
from fabriclab.views.timelines import _with_wait, row_height
from fabriclab.views.timelines import timeline_scene as scene_of
from fabriclab.views.trees import double_tree_scene
from fabriclab.views.zoom import rails_of, zoom_scene
from support import ROOT
from support.prose import sentence
from support.ticks import places_of, ticks_of, value_of

SIZES = 2.0 ** np.arange(3, 34, 3)


def predicted(name="ring", alpha=38e-6, beta=366e9, **more):
    return Result(
        "all_reduce",
        "predicted",
        SIZES,
        alpha + SIZES / beta,
        n_ranks=8,
        asked={"algorithm": name},
        **more,
    )


def measured():
    size = 2.0 ** np.arange(10, 23, 4)
    time = 30e-6 + size / 2e9
    return Result(
        "all_reduce",
        "measured",
        size,
        time,
        n_ranks=2,
        low=0.8 * time,
        high=1.9 * time,
        samples=np.outer(time, [0.9, 1.0, 1.2]),
        notes=("the machine was shared",),
    )


def published():
    return Result(
        "all_reduce",
        "published",
        SIZES,
        36e-6 + SIZES / 479e9,
        n_ranks=8,
        source="A. Author, sweep of 2026",
        asked={"algorithm": "nvls"},
    )


def table_zoom():
    return topologies.build("rail_optimised", servers=2, gpus=4, rails=4, radix=8)


def hall():
    return topologies.build("rail_optimised", servers=128, gpus=8, rails=8, radix=64)


def hall_of_nics():
    return topologies.build("rail_optimised", servers=128, radix=64, expand=False)


def star(hosts, switches=1):
    b = FabricBuilder(("host", "switch"), ("index",))
    host = b.add_nodes("host", hosts, tier=0, transit=False, index=range(hosts))
    switch = b.add_nodes("switch", switches, tier=1, transit=True, index=range(switches))
    b.add_cables(host, switch[np.arange(hosts) % switches], capacity=50e9)
    return b.build("star", {}, endpoint=host, rail=np.full(hosts, -1), server=np.arange(hosts))


def mesh(n=8):
    b = FabricBuilder(("gpu",), ("index",))
    gpu = b.add_nodes("gpu", n, tier=0, transit=False, index=range(n))
    i, j = np.triu_indices(n, 1)
    b.add_cables(gpu[i], gpu[j], capacity=64e9)
    return b.build("mesh", {}, endpoint=gpu, rail=range(n), server=np.zeros(n))


def ring_run(n=4, repeat=127):
    group = np.repeat([0, 1], n)
    source = np.tile(np.arange(n), 2)
    labels = ("reduce-scatter", "all-gather")
    flows = Flows.make(
        source,
        (source + 1) % n,
        137e6,
        group=group,
        repeat=[repeat, repeat],
        label=group,
        labels=labels,
    )
    start = np.where(group == 0, 0.0, 2.76e-3 * repeat)
    finish = start + 2.76e-3 * (1 - 0.02 * source)
    period = np.full(2, 2.76e-3)
    return Timeline(
        start, finish, np.zeros(8), [0, 2.76e-3 * repeat], period, [repeat, repeat], "flow"
    ), flows


def graph_run():
    rng = np.random.default_rng(3)
    source, start = rng.integers(0, 8, 40), rng.random(40) * 8e-3
    flows = Flows.make(
        source,
        (source + 1) % 8,
        1e6,
        label=rng.integers(0, 3, 40),
        labels=("grads", "acts", "saves"),
    )
    finish = start + rng.random(40) * 2e-3
    return Timeline(start, finish, np.zeros(16), [0.0], [finish.max()], [1], "flow"), flows


def loads(fabric):
    return np.random.default_rng(1).random(fabric.n_links)


RATES = {"PCIe 5 x16": 63e9, "400 Gb/s NIC": "400 Gb/s", "60 GHz radio": 0.57e9}
PICTURES = {
    "sweep": lambda: views.sweep([predicted(), published(), measured()]),
    "sweep busbw": lambda: views.sweep(
        [predicted(), published(), measured()],
        y="busbw",
        bounds={"NVLink 4": 450e9},
        finding="Half of the peak comes only above 8 MiB: 181 of 368 GB/s",
    ),
    "sweep of many": lambda: views.sweep(
        {f"algorithm number {i}": predicted(beta=1e9 * 1.3**i) for i in range(8)},
        bounds={"bound": "1 ms"},
    ),
    "sweep of ranks": lambda: views.sweep(
        [Result("all_reduce", "predicted", [17.6e9], [0.35 * n], n_ranks=n) for n in (2, 8, 128)],
        x="ranks",
    ),
    "sweep of one": lambda: views.sweep(Result("copy", "measured", [2**26], [6e-3])),
    "ruler": lambda: views.ruler(
        {"memory copy": Result("copy", "measured", [2**26], [6.4e-3]), "all-reduce": measured()},
        RATES,
        caption="Links: datasheets.",
    ),
    "comparison": lambda: views.comparison(
        catalog.links.compare("NDR", "nvlink4", "QDR", "CXL 3.0", "nvlink6")
    ),
    "table zoom": lambda: views.fabric(table_zoom()),
    "loaded": lambda: views.fabric(table_zoom().without(cables=[34]), load=loads(table_zoom())),
    "hall": lambda: views.fabric(hall()),
    "hall with a fault": lambda: views.fabric(hall().without(cables=[5000])),
    "crossbar": lambda: views.fabric(star(8)),
    "nine servers": lambda: views.fabric(
        topologies.build("rail_optimised", servers=9, gpus=3, rails=3, radix=8).without(
            cables=range(60)
        )
    ),
    "mesh": lambda: views.fabric(mesh()),
    "ring": lambda: views.timeline(*ring_run()),
    "graph": lambda: views.timeline(*graph_run()),
    "design": lambda: views.design(hall_of_nics()),
    "design on a circle": lambda: views.design(
        {"family": "torus", "arguments": {"shape": [4, 4], "hosts": 4}, "servers": 8}
    ),
}


@pytest.fixture(scope="module")
def pictures():
    return {name: make() for name, make in PICTURES.items()}


# by hand ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (7, "7.00"),
        (9.996, "10.0"),
        (999.6, "1,000"),
        (-0.0123456, "-0.0123"),
        (40890.0, "40,900"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
    ],
)
def test_three_significant_digits(value, text):
    assert three(value) == text


def test_table_aligns_scales_and_marks():
    rows = [
        {"link": "NIC", "rate [B/s]": 50e9, "cables": 1024},
        {"link": "NVLink 4", "rate [B/s]": 450e9, "cables": 8},
    ]
    assert str(views.table(rows, bold=1, caption="Two links")).splitlines() == [
        "Two links",
        "  link      rate [GB/s]  cables",
        "  NIC              50.0   1,024",
        "> NVLink 4          450       8",
    ]
    shown = views.table(rows, bold=1)._repr_html_()
    assert "<td style='text-align:right'>450</td>" in shown
    assert shown.count("font-weight:bold") == 1
    assert "<tr style='font-weight:bold'><td style='text-align:left'>NVLink 4" in shown


def test_columns_of_one_unit_share_a_prefix_unless_they_are_far_apart():
    near, far = ({"busbw [B/s]": [2.46e9], "low [B/s]": [low]} for low in (164e6, 1e5))
    assert [*str(views.table(near)).split()] == [
        "busbw",
        "[GB/s]",
        "low",
        "[GB/s]",
        "2.46",
        "0.164",
    ]
    assert "low [kB/s]" in str(views.table(far))


def test_spread_of_a_bandwidth_comes_from_the_slow_and_the_fast_end():
    result = Result("all_reduce", "measured", [1e6], [2e-3], n_ranks=2, low=[1e-3], high=[4e-3])
    table = views.sweep(result, y="busbw").table
    assert [table[f"{k} [B/s]"][0] for k in ("low", "busbw", "high")] == [2.5e8, 5e8, 1e9]


def test_folding_starts_above_two_hundred_nodes():
    assert views.fabric(star(199)).table.n_rows == 199
    assert views.fabric(star(200)).table["cables"].tolist() == [200]


def test_table_of_a_result_and_of_a_fabric():
    result = views.table(predicted())
    assert np.array_equal(result["busbw [B/s]"], predicted().busbw)
    assert "8 GiB" in str(result)
    assert (
        dict(zip(*views.table(star(3)).columns.values(), strict=True)) | {"cables": 3}
        == star(3).summary()
    )


def test_spread_by_hand():
    assert np.allclose(spread([0.5, 0.5, 0.9], 0.2), [0.4, 0.6, 0.9])
    assert np.allclose(spread([0.95, 1.0], 0.1), [0.9, 1.0])  # held by the upper end
    assert np.allclose(spread([0.0, -1.0], 0.1), [0.1, 0.0])  # order kept, lower end


def test_fabric_counts_parallel_cables_and_failures():
    table = views.fabric(hall().without(cables=[5000])).table
    up = [i for i, name in enumerate(table["to"]) if name == "16 spines"]
    assert table["cables"][up].tolist() == [32] * 32
    assert table["failed"].sum() == table["failed"][up].sum() == 1
    assert np.isclose(table["together [B/s]"][up].sum(), 50e9 * 1023)


def test_margin_names_the_slowest_and_the_fastest_cable_of_a_row():
    fabric = table_zoom()
    up = int(fabric.links_between(fabric.nodes("leaf")[0], fabric.nodes("spine")[0])[0])
    texts = [t.get_text() for t in views.fabric(fabric.with_capacity([up], 25e9)).axes.texts]
    assert "8 × 25–50 GB/s" in texts and "8 × 50 GB/s" in texts


def test_the_load_of_several_cables_is_their_mean_each_in_its_fuller_direction():
    fabric = table_zoom()
    load = np.zeros(fabric.n_links)
    load[fabric.links_between(fabric.nodes("leaf")[0], fabric.nodes("spine")[0])] = 0.2, 0.6
    table = views.fabric(fabric, load=load).table
    here = table["load"] > 0
    assert (table["load"][here].tolist(), table["fullest"][here].tolist()) == ([0.4], [0.6])


def test_a_cable_dead_in_one_direction_counts_as_failed():
    picture = views.fabric(star(3).without(links=[5]))
    assert picture.table["failed"].tolist() == [0, 0, 1]
    failed = text("fabric.failed", n=1, all=3)
    assert picture.finding.lower() == f"{failed}.".lower()


def test_rails_are_columns_and_scale_up_stands_below():
    picture = views.fabric(hall())
    rails = {
        text.get_text(): text.get_position()[1]
        for text in picture.axes.texts
        if text.get_text().startswith("rail ")
    }
    assert list(rails) == ["rail 0", "rail 7"] and rails["rail 7"] - rails["rail 0"] > 80
    left = [t for t in picture.axes.texts if t.get_ha() == "right" and t.get_text()[0].isdigit()]
    # from the lowest up
    rows = [t.get_text().split()[1] for t in sorted(left, key=lambda t: -t.get_position()[1])]
    assert rows == ["GPUs", "leaves", "spines"]
    small = views.fabric(table_zoom()).axes.texts
    left = [t for t in small if t.get_ha() == "right" and t.get_text()[0].isdigit()]
    rows = [t.get_text().split()[1] for t in sorted(left, key=lambda t: -t.get_position()[1])]
    assert rows == ["NVLink", "GPUs", "NICs", "leaves", "spine"]


def test_a_stored_result_is_not_called_measured_here():
    stored = Result("copy", "stored", [2**26], [6.4e-3], source="a machine with two cores, 2026")
    picture = views.ruler({"copy": stored, "socket": "2 GB/s"})
    assert picture.table["obtained"].tolist() == ["measured elsewhere", "measured here"]
    faces = [m.get_mfc() for m in picture.axes.lines if m.get_marker() == "o"]
    hollow, full = COLOUR["paper"], COLOUR[ROLES["measured"].colour]
    assert faces == [printed_hex(int(hollow)), printed_hex(int(full))]  # the fastest first
    assert picture.caption == "copy: a machine with two cores, 2026."


def test_a_column_without_any_value_is_left_out():
    assert list(views.table([{"a": 1.0, "b": np.nan}, {"a": np.nan}]).columns) == ["a"]
    assert list(views.ruler({"copy": "1 GB/s"}).table.columns) == ["what", "obtained", "rate [B/s]"]
    rounds = Result("copy", "measured", [2**26], [6.4e-3], samples=[[6.4e-3, 8e-3]])
    table = views.ruler({"copy": rounds, "socket": "1 GB/s"}).table
    assert np.allclose(table["slowest round [B/s]"], [2**26 / 8e-3, np.nan], equal_nan=True)
    assert np.allclose(table["fastest round [B/s]"], [2**26 / 6.4e-3, np.nan], equal_nan=True)


def test_a_ruler_compares_the_fastest_with_the_first():
    rates = {"copy": "10 GB/s", "disc": "1 GB/s", "cache": "50 GB/s"}
    cache = text("ruler.moves", name="Cache", rate=50e9)
    against = text("ruler.against", factor="5.00", name="copy", rate=10e9)
    assert views.ruler(rates).alt == f"{cache}{against}; disc 1.00 GB/s"
    alt = views.ruler({"copy": "10 GB/s"}, {"disc": "1 GB/s"}).alt
    copy = text("ruler.moves", name="Copy", rate=10e9)
    assert alt == copy + text("ruler.against", factor="10.0", name="disc", rate=1e9)
    assert views.ruler({"copy": "10 GB/s"}).finding == f"{copy}."


def test_boxes_of_a_row_stand_evenly_above_their_servers():
    lines = views.fabric(table_zoom()).table
    # from the lowest row to the highest
    assert lines["from"][0] == "NVLink domain 0" and lines["to"][-1] == "spine"
    marks = marks_of(table_zoom(), fold=False)
    place = dict(zip(marks.names, marks.x, strict=True))
    # 0.9 between two servers
    assert np.allclose([place[f"GPU {i} of server 1"] for i in range(4)], 4.9 + np.arange(4))
    assert np.allclose([place[f"NIC {i} of server 0"] for i in range(4)], np.arange(4))
    assert place["NVLink domain 1"] == pytest.approx(6.4) and place["spine"] == pytest.approx(
        (0 + 7.9) / 2
    )
    gaps = np.diff([place[f"leaf {i}"] for i in range(4)])
    assert np.allclose(gaps, 8.9 / 4)


def test_only_the_spread_that_is_drawn_is_in_the_table():
    table = views.sweep({f"run {i}": measured() for i in range(6)}, bounds={"bound": "1 ms"}).table
    known = [
        np.isfinite(table["low [s]"][table["series"] == name]).all()
        for name in ("run 4", "run 5", "bound")
    ]
    assert known == [True, False, False]


def test_repetitions_are_drawn_once():
    drawn = scene_of(*ring_run()).layers
    grey, ticks = drawn["repeats"].fields, drawn["x ticks"].fields
    assert grey["texts"] == ["126 more", "126 more"]
    spans = np.stack([grey["x"], grey["x"] + grey["w"]], axis=1)
    # from the end of the first one on
    assert np.allclose(spans, ticks["x"][1:].reshape(2, 2), atol=1e-2)
    assert ticks["texts"] == ["0 ms", "2.76 ms", "351 ms", "353 ms", "701 ms"]


def test_only_the_lanes_that_end_last_are_drawn():
    picture = views.timeline(*ring_run(40))
    assert scene_of(*ring_run(40)).layers["lanes"].fields["texts"] == [
        f"node {i}" for i in range(16)
    ]
    assert "16 of 40" in picture.caption


def test_too_many_bars_are_cut_and_said_in_words():
    flows = Flows.make(np.zeros(9000, int), np.ones(9000, int), 1e6)
    start = np.arange(9000) % 50 * 1e-3
    run = Timeline(
        start, start + 1e-3 * (1 + np.arange(9000) / 9e3), [0.0], [0.0], [0.06], [1], "flow"
    )
    scene = scene_of(run, flows)
    assert scene.layers["bars"].fields["x"].size == scene.table.n_rows == 4096
    assert "4,096 of 9,000" in scene.caption and scene.table["finish [s]"].max() == run.finish.max()
    # thinner than 4 px: a line between them would hide them
    assert np.all(scene.layers["bars"].fields["edge"] == COLOUR["none"])


def test_kinds_beyond_the_last_colour_are_named_others():
    labels = tuple("abcdefghi")
    flows = Flows.make(range(9), np.full(9, 9), 1e6, label=range(9), labels=labels)
    run = Timeline(np.zeros(9), np.ones(9), [0.0], [0.0], [1.0], [1], "flow")
    drawn = scene_of(run, flows).layers
    assert drawn["kind names"].fields["texts"] == ["a", "b", "c", "d", "others: 5"]
    assert drawn["kinds"].fields["colour"].tolist() == drawn["bars"].fields["colour"][:5].tolist()


def test_a_ruler_of_two_rates_with_one_name_tells_the_fastest():
    found = views.ruler({"copy": "10 GB/s"}, {"copy": "450 GB/s"}).finding
    assert found.startswith(text("ruler.moves", name="Copy", rate=450e9))
    assert sentence("ruler.against", factor="45.0").search(found)


def test_long_captions_take_no_room_from_the_drawing():
    short, long = (
        views.ruler({"copy": "10 GB/s"}, caption=words)
        for words in ("", "A source of facts. " * 40)
    )
    for picture in (short, long):
        picture.figure.draw_without_rendering()
    heights = [p.axes.get_window_extent().height for p in (short, long)]
    assert heights[1] == pytest.approx(heights[0], rel=0.1)


# shape --------------------------------------------------------------------------------------------
def test_draw_chooses_the_view():
    run, flows = ring_run()
    assert views.draw(star(3)).table["cables"].sum() == 3
    assert views.draw([predicted(), measured()]).table.n_rows == SIZES.size + 4
    assert views.draw({"a": predicted()}).table["series"][0] == "a"
    assert views.draw(run, flows=flows).table.n_rows == 8
    assert list(views.draw(catalog.links.compare("NDR", "nvlink4")).table["encoded [B/s]"]) == [
        50e9,
        450e9,
    ]


def test_draw_on_given_axes_returns_them():
    axes = Figure(figsize=(9, 4)).subplots(1, 2)
    assert (
        views.draw(star(4), axes[0], finding="Four hosts meet over 1 switch and 4 cables")
        is axes[0]
    )
    assert views.draw(predicted(), axes[1]) is axes[1]
    assert axes[0].get_title(loc="left").startswith("Four hosts")


def test_five_series_have_marks_and_the_rest_are_pale_grey():
    runs = {f"algorithm number {i}": predicted(beta=1e9 * 1.3**i) for i in range(8)}
    layers = sweep_scene(runs, bounds={"bound": "1 ms"}).layers
    lines, marks = layers["lines"].fields, layers["marks"].fields
    is_pale = lines["width"] < 2
    assert is_pale.tolist() == [False] * 5 + [True] * 3
    # The three others are as grey as the bound.
    assert {*lines["colour"][is_pale].tolist()} == {COLOUR["edge"]}
    looks = [*zip(marks["colour"].tolist(), marks["shape"].tolist(), strict=True)]
    assert len({*looks}) == len(looks) == 5
    assert layers["bounds"].fields["colour"].tolist() == [COLOUR["edge"]]


def test_two_results_of_one_name_stay_two_series():
    table = views.sweep([predicted(), predicted(alpha=1e-6), predicted(alpha=2e-6)]).table
    assert list(dict.fromkeys(table["series"])) == [
        "ring (predicted)",
        "ring (predicted), 8 ranks",
        "ring (predicted), 3",
    ]


def test_alternative_text_names_the_crossover():
    curves = {"early": predicted(alpha=1e-6, beta=1e9), "late": predicted(alpha=100e-6, beta=1e12)}
    at = crossover(*(np.array([r.size, r.time]) for r in curves.values()))
    # 99 us times 1.001 GB/s; lines between points lie a little higher
    assert at == pytest.approx(99.1e3, rel=0.3)
    alt = sweep_scene(curves, cross=True).alt
    in_kib = float(f"{at / 1024:.2g}")
    assert alt.endswith(text("sweep.crossed", at=f"{in_kib:g} KiB"))


@pytest.mark.parametrize(
    ("low", "high"), [(321e9, 603e9), (480e9, 520e9), (1e9, 4.9e9), (2e6, 3e9)]
)
def test_an_axis_has_values_enough_to_read_others_by(low, high):
    sizes = np.array([1e6, 1e9])
    # two ranks: busbw is size / time
    run = Result("all_reduce", "predicted", sizes, sizes / np.array([low, high]), 2)
    _, ends, _, ticks = axes_of(
        collect({"run": [run]}, {}, "size", "busbw"), "size", "busbw", 600.0
    )
    assert 3 <= len(ticks) <= 12 and ends[0] <= min(ticks) and max(ticks) <= ends[1]
    assert ends[0] == 0 and ends[1] > high


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (0.0039, "0.0039"),
        (9.6, "9.6"),
        (512, "510"),
        (2e4, "2·10⁴"),
        (1e-5, "10⁻⁵"),
        (1.2e-10, "1.2·10⁻¹⁰"),
    ],
)
def test_numbers_far_from_one_are_powers_of_ten(value, words):
    assert scientific(value) == words
    assert value_of(words) == pytest.approx(value, rel=0.05)


def test_a_unit_is_written_once_on_an_axis():
    assert tick_words([0, 25e9, 50e9], units.format_rate) == ("GB/s", ["0", "25", "50"])
    assert tick_words([1e-5, 1e-3], units.format_time) == ("", ["10 µs", "1 ms"])
    layers = sweep_scene([predicted()], "busbw").layers
    assert layers["quantity"].fields["texts"] == [f"{text('sweep.axis_busbw')} [GB/s]"]
    assert layers["x ticks"].fields["texts"][0] == "16 B"


def off_by(*parts):
    """Return a published sweep, and a model whose bus bandwidth is off by these parts."""
    seen = published()
    size = seen.size[: len(parts)]
    time = seen.time[: len(parts)] / (1 + np.array(parts))
    return {"seen": seen, "model": Result("all_reduce", "predicted", size, time, 8)}


def test_the_error_of_a_model_has_a_panel_and_is_the_finding():
    runs = off_by(0.01, -0.02, 0.05)
    scene = sweep_scene(runs, "busbw", error=True)
    assert scene.said == text(
        "sweep.missed", label="model", median="2", most="5", at=units.format_size(SIZES[2])
    )
    off = scene.table["error [%]"]
    assert off[np.isfinite(off)] == pytest.approx([1, -2, 5])
    panel = scene.side.layers
    assert panel["points"].fields["y"] == pytest.approx(places_of(panel, [1, -2, 5]), abs=0.01)
    assert panel["zero"].fields["y"] == pytest.approx(places_of(panel, [0, 0]), abs=0.01)
    assert views.sweep(runs, y="busbw", error=True).finding == scene.said
    late = sweep_scene(runs, "time", error=True).table["error [%]"]
    assert late[np.isfinite(late)][2] == pytest.approx(100 / 1.05 - 100)
    with pytest.raises(ValueError, match="error must have a predicted and a published"):
        views.sweep([predicted()], error=True)


def test_in_the_panel_of_errors_each_model_has_the_mark_beside_its_name():
    runs = off_by(0.01, -0.02, 0.05)
    model = runs["model"]
    runs["textbook"] = Result("all_reduce", "predicted", model.size, 2 * model.time, 8)
    scene = sweep_scene(runs, "time", error=True)
    panel = scene.side.layers
    drawn = panel["points"].fields
    dots = set(zip(drawn["colour"], drawn["shape"], strict=True))
    beside = panel["marks"].fields
    assert dots == set(zip(beside["colour"], beside["shape"], strict=True))
    assert len({shape for _, shape in dots}) == 2


def test_a_model_that_is_far_off_is_cut_and_says_how_far_it_goes():
    runs = off_by(0.01, -0.02, 0.05, -0.04)
    model = runs["model"]
    off = np.array([9.0, 2.0, 0.01, 0.01])  # far above the panel at first, then in it
    runs["textbook"] = Result("all_reduce", "predicted", model.size, model.time * (1 + off), 8)
    panel = sweep_scene(runs, "time", error=True).side.layers
    drawn = panel["lines"].fields
    assert drawn["y"].min() >= 33.9  # the upper end of the panel [px]
    assert panel["beyond"].fields["texts"][0].startswith(text("sweep.beyond", most="+"))
    assert len(panel["named words"].fields["texts"]) == 1  # the largest error of the model


def test_points_of_the_finding_are_marked_and_ring_the_dots_that_are_there():
    runs = {"ring": predicted(), "seen": published()}
    size = float(SIZES[1])
    times = [float(run.time[1]) for run in runs.values()]
    points = {"by the model": (size, 1.5 * times[0]), "as published": (size, times[1])}
    layers = sweep_scene(runs, points=points).layers
    assert layers["named words"].fields["texts"] == list(points)
    assert layers["named"].fields["names"] == ["by the model"]
    order = list(layers)
    assert order.index("named below") < order.index("dots") < order.index("named")
    assert order.index("leaders") < order.index("dots")
    with pytest.raises(ValueError, match="points"):
        views.sweep(runs, points={"far": (size, "1 GiB")})
    with pytest.raises(ValueError, match="the point 'beyond' lies outside of the axes"):
        views.sweep(runs, points={"beyond": (size, 1e9)})


def test_words_of_a_point_with_another_line_between_are_led_to_it():
    sizes = 2.0 ** np.arange(10, 30)
    low, high = (
        Result("all_reduce", "predicted", sizes, start + sizes / 1e10, 8)
        for start in (75e-6, 115e-6)
    )
    point = {"tree/LL from 1 KiB": (1024.0, float(low.time[0]))}
    alone = sweep_scene({"LL": low}, points=point).layers
    assert alone["named leaders"].fields["x"].size == 0
    layers = sweep_scene({"LL": low, "LL128": high}, points=point).layers
    words, leader, dot = (layers[name].fields for name in ("named words", "named leaders", "named"))
    assert (leader["x"][0], leader["y"][0]) == (dot["x"][0], dot["y"][0])
    assert 0 < leader["y"][1] - words["y"][0] < 10  # ends below the words
    assert words["x"][0] <= leader["x"][1] < words["x"][0] + 150


def test_notes_on_a_shared_machine_are_told_once():
    tail = f"{MACHINE_SHARED}, times are upper bounds"
    runs = {
        name: replace(measured(), notes=(f"load {load} on 2 cores: {tail}.",))
        for name, load in (("MPI", 8.9), ("pipe", 7.1))
    }
    below = views.sweep(runs).caption.lower()
    assert below.count(MACHINE_SHARED) == 1 and "load" not in below


def test_numbers_stand_in_bars_that_have_room_and_the_least_are_in_ink():
    run, flows = ring_run()[:2]
    numbers = np.arange(flows.n_flows) + 1
    picture = views.timeline(run, flows, numbers=numbers, title="what is sent")
    assert "what is sent" in {words.get_text() for words in picture.axes.texts}
    with pytest.raises(ValueError, match="numbers must have one for each"):
        views.timeline(run, flows, numbers=[1])


def test_lines_of_several_cables_say_how_many():
    hall = topologies.build("leaf_spine", hosts=32, radix=16)
    plates = fabric_scene(hall, counts=True).layers["counts"].fields["texts"]
    assert plates == [text("fabric.count", n=4)] * 8
    assert "counts" not in fabric_scene(hall).layers


def test_only_what_no_point_passes_is_a_bound():
    most = float(max(predicted().busbw))
    for bound, key, hatched in ((1.1 * most, "most", True), (0.5 * most, "bound", False)):
        layers = sweep_scene([predicted()], "busbw", bounds={"a port": bound}).layers
        words = plain(units.format_rate(bound))
        assert layers["bound words"].fields["texts"] == [
            text(f"sweep.{key}", label="a port", value=words)
        ]
        assert (layers["hatching"].fields["x"].size > 0) is hatched
        line = layers["bounds"].fields["y"]
        assert line == pytest.approx(places_of(layers, [bound, bound]), abs=0.01)
        if hatched:  # above the line
            assert layers["hatching"].fields["y"].max() <= line[0]
    late = sweep_scene([predicted()], bounds={"one copy": "1 us"}).layers
    assert late["hatching"].fields["y"].min() >= late["bounds"].fields["y"][0]  # below the line


def test_a_cursor_reads_every_line_where_it_stands():
    runs = {"ring": predicted(), "binomial_tree": predicted(alpha=10e-6, beta=100e9)}
    at = 2.0**21
    scene = sweep_scene(runs, "time", cursor=at)
    drawn = scene.layers
    seconds = [np.exp(np.interp(21, np.log2(SIZES), np.log(r.time))) for r in runs.values()]
    order = np.argsort(seconds)
    read = drawn["read"].fields
    assert read["y"] == pytest.approx(places_of(drawn, np.sort(seconds)), abs=0.01)
    assert read["colour"].tolist() == [COLOUR[("ring", "direct")[i]] for i in order]
    assert read["x"] == pytest.approx(places_of(drawn, [at, at], "x"), abs=0.01)
    best = ["ring", "binomial tree"][order[0]]
    assert scene.said.startswith(
        text("sweep.best", at="2 MiB", label=best, value=units.format_time(min(seconds)))
    )
    assert drawn["handle"].fields["drag"] == ["cursor"] and "crossing" not in drawn
    assert np.diff(np.sort(drawn["values"].fields["y"])).min() >= 14.9


def test_labels_stand_at_the_ends_of_their_lines_and_never_meet():
    runs = {f"run {i}": predicted(beta=(1 + i / 50) * 1e9) for i in range(5)}
    layers = sweep_scene(runs).layers
    labels, leaders = layers["labels"].fields, layers["leaders"].fields
    assert labels["texts"] == [*runs]
    assert np.diff(np.sort(labels["y"])).min() > 16.9
    ends = leaders["ptr"][1:].astype(int) - 1
    starts = leaders["ptr"][:-1].astype(int)
    assert leaders["y"][ends] == pytest.approx(labels["y"], abs=0.01)
    last = [run.time[-1] for run in runs.values()]
    assert leaders["y"][starts] == pytest.approx(places_of(layers, last), abs=0.01)
    assert leaders["x"][ends].max() < labels["x"].min()


def test_a_short_sweep_is_named_where_it_ends():
    layers = sweep_scene({"ring": predicted(), "here": measured()}).layers
    labels = layers["labels"].fields
    here = labels["texts"].index("here")
    assert labels["x"][here] < layers["axis"].fields["x"].max() - 100
    assert labels["y"][here] == pytest.approx(layers["dots"].fields["y"][-1], abs=0.01)


def test_a_single_predicted_point_is_marked_and_named_where_it_is():
    time = SIZES / 1e9 + 4e3 / SIZES  # first fewer starts, then more bytes
    low = int(np.argmin(time))
    assert 0 < low < SIZES.size - 1
    line = Result("broadcast", "predicted", SIZES, time, 8)
    best = Result("broadcast", "predicted", SIZES[[low]], time[[low]], 8)
    layers = sweep_scene({"chain": line, "best size": best}, cross=True).layers
    point, labels = layers["dots"].fields, layers["labels"].fields
    assert point["colour"].tolist() == [COLOUR["ink"]]
    assert point["y"] == pytest.approx(places_of(layers, [time[low]]), abs=0.01)
    at = labels["texts"].index("best size")
    assert abs(labels["x"][at] - point["x"][0]) < 60 and labels["align"][at] == 1
    assert 15 < abs(labels["y"][at] - point["y"][0]) < 30
    assert layers["leaders"].fields["ptr"].size == 2  # one leader, that of the line
    assert "cross line" not in layers
    alone = sweep_scene({"best size": best}).layers
    assert not alone["dots"].fields["x"].size and "best size" in alone["labels"].fields["texts"]


def test_names_of_two_points_in_one_place_stand_apart_with_a_line_to_each():
    one = Result("all_reduce", "stored", SIZES[[3]], [1e-3], 2, source="a file")
    other = Result("all_reduce", "predicted", SIZES[[3]], [1e-3], 2, low=[8e-4], high=[12e-4])
    layers = sweep_scene({"measured": one, "expected": other}, "busbw").layers
    labels, dots, leaders = (layers[name].fields for name in ("labels", "dots", "leaders"))
    assert sorted(labels["texts"]) == ["expected", "measured"]
    assert np.ptp(labels["y"]) > 16.9 and np.ptp(labels["x"]) == 0
    # A mark beside a name would be read as a second point.
    assert layers["marks"].fields["shape"].size == 0 and dots["x"].size == 1
    assert dots["x"][0] + 5 < leaders["x"].min() and leaders["x"].max() < labels["x"][0]
    assert set(labels["y"]) <= set(leaders["y"])


def test_no_line_runs_through_an_open_mark():
    layers = sweep_scene({"seen": published(), "model": predicted()}).layers
    leaders, dots = layers["leaders"].fields, layers["dots"].fields
    assert leaders["x"][0] - dots["x"].max() == pytest.approx(6, abs=0.01)
    drawing = views.sweep({"seen": published()}).svg()
    paper = f"fill: var(--fl{COLOUR['paper']:.0f},"
    assert drawing.count(paper) >= SIZES.size


def test_beside_published_dots_the_marks_of_lines_are_filled():
    runs = {"model": predicted("x"), "textbook": predicted("y", beta=9e9)}
    alone = sweep_scene(runs).layers["marks"].fields["shape"].tolist()
    beside = sweep_scene({**runs, "seen": published()}).layers["marks"].fields["shape"].tolist()
    assert alone == [1, 7] and beside[:1] == [3] and 1 in beside


def test_ids_become_names_in_a_sweep():
    runs = {"dgx_h100": predicted(), "halving_doubling": predicted(), "A b_c": predicted()}
    assert sweep_scene(runs).layers["labels"].fields["texts"] == [
        "DGX H100",
        "halving-doubling",
        "A b_c",
    ]
    id = "xx_10n_g1_all_reduce"
    seen = catalog.published.load(id)
    name = f"H100, {text('sweep.ranks', n=10)}"
    assert sweep_scene({id: seen}).layers["labels"].fields["texts"] == [name]


def test_links_of_one_rate_share_a_row_that_has_both_names():
    layers = ruler_scene(marks_at({"copy": "50 GB/s"}, {"NDR": "50 GB/s", "CX7": "50 GB/s"})).layers
    rows = layers["rows"].fields
    assert sorted(rows["names"]) == ["NDR = CX7", "copy"]
    note = rows["notes"][rows["names"].index("NDR = CX7")]
    assert text("ruler.ndr") in note
    # pointing anywhere in a row reads it: name, bar and dot lie within
    for part in ("names", "dots", "rates"):
        drawn = layers[part].fields
        for x, y, left, top, w, h in zip(
            drawn["x"], drawn["y"], rows["x"], rows["y"], rows["w"], rows["h"], strict=True
        ):
            assert left < x < left + w and top < y < top + h
    own = [name == "copy" for name in rows["names"]]
    assert (layers["bars"].fields["colour"] == COLOUR["ink"]).tolist() == own


def test_lines_change_places_only_where_both_are():
    rising, falling = np.array([[1.0, 10.0], [1.0, 10.0]]), np.array([[5.0, 100.0], [20.0, 2.0]])
    assert crossover(rising, falling) is None  # 10 against 11.7 where the first one ends
    assert crossover(rising, falling / [[5.0], [1.0]]) == pytest.approx(
        5.44, abs=0.01
    )  # x = 20 / x**0.769


def test_a_hundred_thousand_nodes_are_blocks():
    assert "100,000 hosts" in views.fabric(star(100_000, 4)).finding
    assert fabric_scene(star(100_000, 4)).layers["nodes"].fields["x"].size == 2


# laws ---------------------------------------------------------------------------------------------
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.2))
def test_spread_keeps_gap_and_order_and_moves_least(wanted, gap):
    got = spread(wanted, gap, -np.inf, np.inf)
    order = np.argsort(wanted, kind="stable")
    assert np.all(np.diff(got[order]) >= gap - 1e-12)
    steps = gap * np.arange(len(wanted))
    assert np.allclose(got[order], isotonic_regression(np.asarray(wanted)[order] - steps).x + steps)


@pytest.mark.parametrize("name", PICTURES)
def test_alternative_text_states_a_finding(pictures, name):
    alt = pictures[name].alt
    assert len(alt.split()) >= 6
    assert re.search(r"\d", alt)
    assert not alt.lower().startswith(("figure", "plot"))
    assert alt.startswith(pictures[name].finding.rstrip("."))
    assert pictures[name].finding.endswith((".", "!", "?"))


def texts_of(figure):
    renderer = figure.canvas.get_renderer()
    figure.draw_without_rendering()
    seen = (
        t
        for t in figure.findobj(Text)
        if t.get_visible() and t.get_text().strip() and t.figure is not None
    )
    hidden = {
        t
        for ax in figure.axes
        if not ax.axison
        for axis in (ax.xaxis, ax.yaxis)
        for t in axis.findobj(Text)
    }
    return [(t, t.get_window_extent(renderer)) for t in seen if t not in hidden]


@pytest.mark.parametrize("language", ["en", "pseudo"])
@pytest.mark.parametrize("name", PICTURES)
def test_texts_are_large_inside_and_apart(pictures, name, language, monkeypatch, pseudo):
    if language == "pseudo":
        monkeypatch.setenv("FABRICLAB_LANGUAGE", pseudo)
    picture = pictures[name] if language == "en" else PICTURES[name]()
    assert ("~" in picture.alt) == (language == "pseudo")
    figure = picture.figure
    texts = texts_of(figure)
    for words, box in texts:
        assert words.get_fontsize() * 700 / 504 >= 11, words.get_text()
        assert box.x0 >= -1 and box.y0 >= -1, words.get_text()
        assert box.x1 <= figure.bbox.width + 1 and box.y1 <= figure.bbox.height + 1, (
            words.get_text()
        )
    for (a, box), (b, other) in itertools.combinations(texts, 2):
        inner = (
            min(box.x1, other.x1) - max(box.x0, other.x0),
            min(box.y1, other.y1) - max(box.y0, other.y0),
        )
        assert min(inner) < 1, (a.get_text(), b.get_text())


def positions(values, pixels):
    """Return how far pixels are from where a logarithmic axis through the first and the last of them has the values."""
    line = np.polyfit(np.log(values[[0, -1]]), pixels[[0, -1]], 1)
    return np.abs(np.polyval(line, np.log(values)) - pixels).max()


@pytest.mark.parametrize("y", ["time", "busbw"])
def test_table_of_a_sweep_is_what_was_drawn(y):
    scene = sweep_scene([predicted(), published(), measured()], y)
    series, across, up, low, high = scene.table.columns.values()
    line, dots, strokes = (scene.layers[k].fields for k in ("lines", "dots", "spread"))
    assert [n.partition(" at 8 B and ")[0].split()[:2] for n in line["names"]] == [
        ["ring", "(predicted)"]
    ]
    assert " at 8 B and " in line["names"][0]  # both ends can be read with the keys
    first, rest = series == "ring (predicted)", np.isfinite(low)
    drawn = [np.concatenate([line[k], dots[k]]) for k in "xy"]
    assert first[: line["x"].size].all() and drawn[0].size == series.size
    assert positions(across, drawn[0]) < 0.01
    # time is on a logarithmic axis, bus bandwidth on a linear one from 0
    assert drawn[1] == pytest.approx(places_of(scene.layers, up), abs=0.01)
    assert bool(min(ticks_of(scene.layers)[0]) == 0) == (y == "busbw")
    ends = np.stack([low[rest], high[rest]], axis=1).ravel()
    assert strokes["x"].tolist() == np.repeat(drawn[0][rest], 2).tolist()
    assert strokes["y"] == pytest.approx(places_of(scene.layers, ends), abs=0.01)


@pytest.mark.parametrize(
    "name", ["table zoom", "loaded", "hall", "hall with a fault", "crossbar", "mesh"]
)
def test_table_of_a_fabric_is_what_was_drawn(pictures, name):
    axes, table = pictures[name].axes, pictures[name].table
    lines = next(
        c
        for c in axes.collections
        if isinstance(c, LineCollection) and len(c.get_segments()) == table.n_rows
    )
    more, width = table["together [B/s]"], np.asarray(lines.get_linewidths()) / 0.72  # [px]
    if "load" in table.columns:
        works = table["failed"] < table["cables"]
        assert width[works] == pytest.approx(link_width(table["fullest"][works]), abs=1e-5)
    else:
        order = np.argsort(more, kind="stable")
        assert np.all(np.diff(width[order]) >= -1e-9)  # never thinner with more capacity
        assert np.unique(width).size == np.unique(more).size
        assert width.min() >= 0.8 - 1e-6
    crosses = [line for line in axes.lines if line.get_marker() == ROLES["failed"].marker]
    assert len(crosses) == np.count_nonzero(table["failed"])
    if "load" in table.columns:
        dead = table["failed"] == table["cables"]
        places = np.where(dead, COLOUR["failed"], shade(table["fullest"]))
        expected = [printed_hex(int(place)) for place in places]
        assert [matplotlib.colors.to_hex(colour) for colour in lines.get_colors()] == expected


@pytest.mark.parametrize("name", [None, star(8).name], ids=["numbers", "names"])
def test_table_of_a_timeline_is_what_was_drawn(name):
    scene = scene_of(*graph_run(), name)
    bars, ticks, lanes = (scene.layers[k].fields for k in ("bars", "x ticks", "lanes"))
    slope = np.polyfit([units.time(t) for t in ticks["texts"]], ticks["x"], 1)
    for column, x in (("start [s]", bars["x"]), ("finish [s]", bars["x"] + bars["w"])):
        assert np.allclose(np.polyval(slope, scene.table[column]), x, atol=0.5)
    lane = np.abs(lanes["y"] - (bars["y"] + bars["h"] / 2)[:, None]).argmin(axis=1)
    assert [lanes["texts"][i] for i in lane] == scene.table["lane"].tolist()


def test_a_time_that_computation_waits_is_marked_above_the_lanes():
    run = Timeline([0.0, 0.9], [0.5, 1.98], [0.0], [0.0], [1.98], [1], "flow")
    flows = Flows.make([0, 0], [1, 1], 1.0, label=[0, 1], labels=("forward", "backward"))
    assert scene_of(run, flows).layers["x ticks"].fields["texts"][-1] == "2 s"
    drawn = _with_wait(scene_of(run, flows), run, (0.5, 0.9))
    bars, mark, words = (drawn.layers[k].fields for k in ("bars", "wait", "wait words"))
    gap = [bars["x"][0] + bars["w"][0], bars["x"][1]]
    assert [mark["x"][0], mark["x"][-1]] == pytest.approx(gap, abs=0.1)
    assert mark["y"].max() < bars["y"].min() and words["texts"] == ["waits 400 ms"]
    kinds = drawn.layers["kinds"].fields
    assert words["y"][0] - 6 >= (kinds["y"] + kinds["h"]).max()
    assert drawn.height > np.max(bars["y"] + bars["h"])
    assert "wait" not in _with_wait(scene_of(run, flows), run, (0.5, 0.5)).layers
    with pytest.raises(ValueError, match="waits must be within"):
        views.timeline(run, flows, waits=(0.5, 2.0))


def bars_of(scene):
    bars = scene.layers["bars"].fields
    return [Bbox.from_bounds(*box) for box in np.stack([bars[k] for k in "xywh"], axis=1)]


def test_flows_at_one_time_share_a_lane_without_overlap():
    for a, b in itertools.combinations(bars_of(scene_of(*graph_run())), 2):
        assert min(min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)) < 1e-3
    after = Timeline([0, 1], [1, 2], [0.0], [0.0], [2.0], [1], "flow")
    alone = bars_of(scene_of(after, Flows.make([0, 0], [1, 1], 1.0)))
    # one after the other: each has the lane
    assert [box.height for box in alone] == pytest.approx([0.78 * row_height(1)] * 2)
    assert 16 * row_height(16) <= 320


def test_a_comparison_shows_the_rates_of_each_link():
    compared = catalog.links.compare("QDR", "nvlink6", "nvlink4")
    picture = views.comparison(compared)
    slowest = text("ruler.against", factor="450", name="InfiniBand QDR", rate=4e9)
    fastest = text("ruler.moves", name="NVLink 6", rate=1.8e12)
    assert picture.finding == f"{fastest}{slowest}."
    for column, rates in zip(("signalled", "encoded", "achievable"), compared.rates.T, strict=True):
        np.testing.assert_array_equal(picture.table[f"{column} [B/s]"], rates)
    assert picture.table["as quoted"][2].startswith("900 GB/s both ways together (datasheet")


def test_table_of_a_ruler_is_what_was_drawn():
    scene = ruler_scene(marks_at({"memory copy": measured()}, RATES))
    ticks, dots, strokes = (scene.layers[k].fields for k in ("x ticks", "dots", "rounds"))
    slope = np.polyfit(np.log([units.rate(t) for t in ticks["texts"]]), ticks["x"], 1)
    assert np.allclose(np.polyval(slope, np.log(scene.table["rate [B/s]"])), dots["x"], atol=0.5)
    assert np.all(np.diff(scene.table["rate [B/s]"]) < 0)
    row = scene.table["what"].tolist().index("memory copy")
    ends = [scene.table[f"{k} round [B/s]"][row] for k in ("slowest", "fastest")]
    assert np.allclose(
        np.polyval(slope, np.log(ends)), [strokes["x"].min(), strokes["x"].max()], atol=0.5
    )


@pytest.mark.parametrize("family", registry.names("topology"))
def test_every_topology_can_be_drawn_whole_and_folded(family):
    fabric = topologies.build(family, **registry.info("topology", family)["small"])
    table = views.fabric(fabric).table
    hidden = (
        0  # PCIe switches that only pass on what one GPU and one NIC send are drawn with the NIC
    )
    if "pcie" in fabric.kinds and not any("PCIe" in name for name in table["to"]):
        hidden = fabric.nodes("pcie").size
        assert np.all(np.bincount(fabric.source)[fabric.nodes("pcie")] == 2)
    assert table["cables"].sum() == fabric.n_cables - hidden
    assert views.fabric(fabric, load=np.zeros(fabric.n_links)).table["load"].max() == 0


def test_a_zoom_shows_every_gpu_and_the_loads_of_the_run():
    """In a ring of each rail in order, every NIC sends all the time.

    Each leaf passes one hop up and one down, over two spines or over one and the same.
    """
    fabric = hall()
    rings = np.array(collectives.rail_groups(fabric))
    run = simulation.simulate("all_reduce", "ring", fabric, "1 GB", placement=rings)
    busy = run.timeline.utilisation(fabric.capacity)
    parts = rails_of(fabric, busy)
    assert parts.nic_load.shape == (128, 8) and parts.leaf.shape == (8, 4)
    assert np.allclose(parts.nic_load, busy.max())
    spines = np.sum(parts.up_load > 0, axis=2)
    assert spines.min() >= 1 and spines.max() == 2
    scene = zoom_scene(parts)
    dots = scene.layers["all gpus"].fields
    places = {*zip(dots["x"].tolist(), dots["y"].tolist(), strict=True)}
    assert len(places) == 1024 and scene.height <= 390
    assert np.array_equal(dots["colour"], shade(parts.nic_load.ravel()))
    assert scene.layers["rail nics"].fields["x"].size == 128
    assert scene.table["in the cluster"].tolist() == [1024, 1024, 32, 16]
    loads = {"nic": 99, "up": 99, "busy": int(spines.sum()), "pairs": 512}
    assert text("zoom.loads", **loads) in scene.said
    idle = zoom_scene(rails_of(fabric, np.full(fabric.n_links, np.nan)))
    assert "scale" not in idle.layers and set(idle.layers["to rails"].fields["width"]) == {1.0}


@pytest.mark.parametrize("load", [None, 0.5])
def test_each_step_of_a_zoom_stands_alone_within_its_picture(load):
    fabric = hall()
    share = np.full(fabric.n_links, np.nan if load is None else load)
    parts = rails_of(fabric, share)
    whole = zoom_scene(parts)
    alone = {name: zoom_scene(parts, name) for name in ("server", "rail", "all")}
    for name, scene in alone.items():
        assert scene.said == whole.said and str(scene.table) == str(whole.table)
        assert scene.width < 620 and scene.height <= 390
        assert [n for n in scene.layers if n.endswith(" title")] == [f"{name} title"]
        for layer in scene.layers.values():
            if layer.kind == "boxes":
                assert np.min(layer.fields["x"]) >= 0
                assert np.max(layer.fields["x"] + layer.fields["w"]) <= scene.width
            elif layer.kind == "dots":
                assert 0 <= np.min(layer.fields["x"]) <= np.max(layer.fields["x"]) <= scene.width
    assert alone["server"].layers["gpus"].fields["x"].size == 8
    rail = alone["rail"].layers
    assert rail["rail nics"].fields["x"].size == 128
    assert rail["spans"].fields["texts"][1] == text("zoom.servers", first=32, last=63)
    assert alone["all"].layers["all gpus"].fields["x"].size == 1024


def test_small_multiples_draw_what_lies_between_gpus():
    servers = {name: topologies.build(name) for name in ("mi300x", "dgx_h100")}
    minis = {name: mini_of(f, np.full(f.n_links, np.nan)) for name, f in servers.items()}
    scene = multiples_scene(servers, minis, {"mi300x": "seven links each"})
    # 28 pairs of GPUs on a mesh; behind chips each of eight GPUs is joined to each of four chips
    assert scene.table["lines drawn"].tolist() == [28, 32]
    assert scene.table["nodes drawn"].tolist() == [8, 12]
    assert scene.table["note"].tolist() == ["seven links each", "8 GPUs"]
    assert scene.height <= 390
    for name in servers:
        path = scene.layers[f"{name} cables"].fields
        assert path["ptr"].size - 1 == len(minis[name].pairs)


def test_small_multiples_draw_rings_and_their_ranks_in_ink():
    servers = {name: topologies.build("mi300x") for name in ("all", "four")}
    rings = {"four": best_rings(servers["four"], [1, 3, 4, 6])}
    minis = {
        name: mini_of(f, np.full(f.n_links, np.nan), rings=rings.get(name))
        for name, f in servers.items()
    }
    scene = multiples_scene(servers, minis, {})
    inked = {}
    for name, mini in minis.items():
        cables, nodes = (scene.layers[f"{name} {part}"].fields for part in ("cables", "nodes"))
        bold = cables["colour"] == COLOUR["ink"]
        assert np.all(cables["width"][bold] > cables["width"].min())
        assert bold.sum() == mini.lit.sum()
        inked[name] = np.flatnonzero(nodes["colour"] == COLOUR["ink"]).tolist(), int(bold.sum())
    # Rings over four chips of a mesh use all six links between them, and no other.
    assert inked == {"all": ([], 0), "four": ([1, 3, 4, 6], 6)}
    assert {
        tuple(pair) for pair in np.sort(minis["four"].pairs[minis["four"].lit]).tolist()
    } == set(itertools.combinations((1, 3, 4, 6), 2))


def test_small_multiples_say_how_many_cables_a_line_stands_for():
    nets = {
        "tree": topologies.build("leaf_spine", hosts=64, radix=16),
        "torus": topologies.build("torus", shape=(8, 8), hosts=1),
    }
    minis = {
        name: mini_of(f, np.full(f.n_links, np.nan), no_hosts=True) for name, f in nets.items()
    }
    hint = multiples_scene(nets, minis, {}).hint
    assert len(minis["tree"].pairs) == 32  # 8 leaves, 4 spines; 64 cables
    assert text("multiples.bundles", name="tree", n=2) in hint
    assert text("multiples.bundles", name="torus", n=2) not in hint


def test_small_multiples_share_one_scale_of_loads():
    nets = {
        "torus": topologies.build("torus", shape=(4, 4), hosts=1),
        "tree": topologies.build("leaf_spine", hosts=16, radix=8),
    }
    rng = np.random.default_rng(0)
    load = {name: rng.random(f.n_links) for name, f in nets.items()}
    minis = {name: mini_of(f, load[name]) for name, f in nets.items()}
    for name, fabric in nets.items():
        inner = ~np.isin(fabric.source, fabric.endpoint) & ~np.isin(fabric.target, fabric.endpoint)
        drawn = inner if name == "torus" else np.ones(fabric.n_links, bool)
        assert minis[name].load.max() == load[name][drawn].max()
    scene = multiples_scene(nets, minis, {})
    for name in nets:
        colours = scene.layers[f"{name} cables"].fields["colour"]
        assert colours.tolist() == shade(np.sort(minis[name].load)).tolist()


def test_bars_are_as_long_as_their_numbers():
    picture = views.bars({"one root": 89.6, "ring": "700 ms", "nothing": 0.0})
    assert picture.table["time [s]"] == pytest.approx([89.6, 0.7, 0.0])
    assert picture.table.bold == (2,)
    scene = bars_scene([Bar("", "one root", 89.6), Bar("", "ring", 0.7)], "s", {1})
    bar = scene.layers["bars"].fields
    assert bar["w"][0] / bar["w"][1] == pytest.approx(128)
    assert bar["colour"].tolist() == [COLOUR["hair"], COLOUR["ink"]]
    hues = [Bar("", name, 1.0) for name in ("ring", "double tree", "NVLS")]
    colours = bars_scene(hues, "s", set()).layers["bars"].fields["colour"]
    assert colours.tolist() == [COLOUR["ring"], COLOUR["tree"], COLOUR["in_switch"]]


def test_a_time_that_is_short_beside_others_takes_them_all_to_its_unit():
    assert shown_values([2.48, 0.488, 4.54e-3], "s") == ["2,480 ms", "488 ms", "4.54 ms"]
    assert shown_values([2.1, 0.07], "s") == ["2.10 s", "0.0700 s"]


def test_one_of_what_is_counted_is_in_the_singular():
    assert shown_values([1, 2.0], "arrays") == ["1 array", "2 arrays"]
    assert shown_values([1.0, 1.5], "switches") == ["1 switch", "1.50 switches"]
    assert shown_values([1, 2], "times") == ["1 times", "2 times"]


def test_groups_of_bars_share_one_axis():
    picture = views.bars({"a": {"x": 1.0, "y": 4.0}, "b": {"x": 2.0}}, "times")
    assert picture.table["group"].tolist() == ["a", "a", "b"]
    assert picture.table["number [times]"].tolist() == [1, 4, 2]
    assert picture.table.bold == (1,)
    assert picture.finding == ("A: from 1.00 times (x) to 4.00 times (y).")


def test_the_best_bar_of_each_group_can_be_in_ink():
    groups = {"a": {"x": 1.0, "y": 4.0}, "b": {"x": 3.0, "y": 2.0}}
    assert views.bars(groups, "times", best_of_each=True).table.bold == (1, 2)
    assert views.bars(groups, best_of_each=True).table.bold == (0, 3)
    assert views.bars(groups, bold="x", best_of_each=True).table.bold == (0, 2)
    assert views.bars(groups, bold="b").table.bold == (2, 3)
    equal = {"a": {"x": 1.0, "y": 1.0 + 1e-9, "z": 2.0}}
    assert views.bars(equal, best_of_each=True).table.bold == (0, 1)
    assert views.bars(equal["a"]).table.bold == (0, 1)


def test_bars_of_published_values_are_outlined_and_say_so():
    groups = {"a": {"model": 1.0, "seen": 4.0}, "b": {"model": 3.0, "seen": 2.0}}
    picture = views.bars(groups, "times", bold="seen", published="seen", caption="Four runs.")
    assert picture.caption == "Outlined: published. Four runs."
    picture = views.bars(groups, "times", published="seen", source="A. Author, 2025")
    assert picture.caption == "Outlined: published, A. Author, 2025."
    assert picture.table["how"].tolist() == ["", "published", "", "published"]
    with pytest.raises(ValueError, match="published names no bar: heard"):
        views.bars(groups, published="heard")

    rows = [Bar("", "model", 1.0), Bar("", "seen", 4.0), Bar("", "seen first", 3.0)]
    bar = bars_scene(rows, "times", {1}, published={1, 2}).layers["bars"].fields
    assert bar["colour"].tolist() == [COLOUR["hair"], COLOUR["none"], COLOUR["none"]]
    assert bar["edge"].tolist() == [COLOUR["none"], COLOUR["ink"], COLOUR["edge"]]
    assert bar["notes"] == ["1.00 times", "4.00 times, published", "3.00 times, published"]
    hues = [Bar("", "ring", 1.0), Bar("", "NVLS", 1.0)]
    bar = bars_scene(hues, "s", set(), published={1}).layers["bars"].fields
    assert bar["colour"].tolist() == [COLOUR["ring"], COLOUR["none"]]
    assert bar["edge"].tolist() == [COLOUR["none"], COLOUR["in_switch"]]


def test_the_sentence_above_groups_of_bars_compares_within_a_group():
    picture = views.bars({"near": {"x": 1.0, "y": 2.0}, "far": {"x": 10.0, "y": 30.0}}, "times")
    assert picture.finding == ("Far: from 10.0 times (x) to 30.0 times (y).")
    cut = views.bars({"near": {"x": 1, "y": 2}, "far": {"x": 0, "y": 30}}, "GPUs")
    assert cut.finding == "Far: from 0 GPUs (x) to 30 GPUs (y)."
    # A name that says something itself is a sentence, and the bars come after it.
    assert cut.table.bold == (3,)
    # Ink is in the group that the sentence is about, not on the longest of all bars.
    longest = {"near": {"x": 90.0, "y": 91.0}, "far": {"x": 10.0, "y": 30.0}}
    assert views.bars(longest, "times").table.bold == (3,)
    assert views.bars(longest, "times", finding="Near is long.").table.bold == (1,)
    told = views.bars({"far: thrice as long": {"x": 10.0, "y": 30.0}}, "times")
    assert told.finding == "Far: thrice as long. From 10.0 times (x) to 30.0 times (y)."


def test_bars_say_a_factor_or_how_far_apart_they_are_and_use_names():
    far = views.bars({"one_root": 89.6, "ring": 0.7})
    assert far.finding == "From 0.700 s (ring) to 89.6 s (one root). A factor of 128."
    assert far.table["what"].tolist() == ["one root", "ring"]
    assert views.bars({"a": 1.17, "b": 1.18}).finding.endswith("They are 0.85 % apart.")
    assert views.bars({"a": 1.0, "b": 1.0}).finding == "All are 1.00 s."
    # Three digits would not show the difference, or show another one.
    assert views.bars({"a": 1.1749, "b": 1.1763}).finding == "All are within 0.12 % of 1.17 s."
    assert views.bars({"one_root": 1.0, "ring": 2.0}, bold="one_root").table.bold == (0,)


def test_bars_with_long_names_leave_them_out_of_the_sentence_above():
    long = "8 GPUs, pairs on the fullest link: 1"
    assert views.bars({long: 2.0, "two": 1.0}).finding.startswith(
        "From 1.00 s (two) to 2.00 s (8 GPUs"
    )
    pair = {long: 2.0, long.replace("8", "16"): 1.0}
    assert views.bars(pair).finding == "From 1.00 s to 2.00 s. A factor of 2.00."
    group = "pieces of a flow: 16, twice as long as all others"
    assert views.bars({group: pair}).finding.endswith(". From 1.00 s to 2.00 s. A factor of 2.00.")


def test_a_size_where_lines_cross_has_two_digits_and_a_binary_prefix():
    sizes = (8.0, 1000.0, 186_372.0, 19.8e6, 3e15)
    assert [binary_size(size) for size in sizes] == [
        "8 B",
        "1,000 B",
        "180 KiB",
        "19 MiB",
        "2,700 TiB",
    ]


def test_what_is_measured_and_predicted_of_one_thing_shares_a_hue():
    named = {"mesh": "predicted", "chips": "predicted"}
    named |= {"mesh, measured": "published", "chips, measured": "published"}
    mesh, chips, *measured = (look["colour"] for look in looks_of(list(named.items())))
    assert mesh != chips
    assert measured == [mesh, chips]


def test_a_torus_of_three_axes_shows_the_ends_of_cables_around_the_edge():
    grids = {name: topologies.build(name, shape=(4, 4, 4), hosts=0) for name in ("torus", "hyperx")}
    torus, hyperx = (mini_of(f, np.full(f.n_links, np.nan)) for f in grids.values())
    assert torus.cut.sum() == 3 * 16 and set(torus.span[torus.cut].tolist()) == {3}
    assert not hyperx.cut.any()  # its other long cables pass chips as well
    for mini in (torus, hyperx):
        assert np.unique(mini.place.round(6), axis=0).shape == (64, 2)  # no chip hides another
        assert 0 <= mini.place.min() and mini.place.max() <= 1


def test_the_sentence_above_small_multiples_counts_cables():
    grids = {name: topologies.build(name, shape=(4, 4), hosts=0) for name in ("torus", "mesh")}
    assert (
        views.multiples(grids).finding
        == "For 16 chips, the torus takes 32 cables, and the mesh takes 24."
    )


def test_small_multiples_draw_the_cables_to_hosts_in_all_or_in_none():
    nets = {
        "torus": topologies.build("torus", shape=(4, 4), hosts=1),
        "fat tree": topologies.build("leaf_spine", hosts=16, radix=8),
    }
    picture = views.multiples(nets)
    assert picture.finding.endswith("16 of each lead to hosts and are not drawn.")
    switches = [int((~np.isin(np.arange(f.n_nodes), f.endpoint)).sum()) for f in nets.values()]
    assert picture.table["nodes drawn"].tolist() == switches
    trees = {name: topologies.build("fat_tree", k=k) for name, k in (("small", 4), ("large", 6))}
    assert views.multiples(trees).table["nodes drawn"][0] == trees["small"].n_nodes


def test_the_line_below_a_sweep_names_a_repository_without_file_and_commit():
    for source, short in (
        ("A: a/b-c:d/e.out", "A: a/b-c"),
        ("A: a/b@0123abc:d.md", "A: a/b"),
        ("a/b @0123abc (2026-08-22), c/D.md and e.md", "a/b (2026-08-22)"),
    ):
        runs = {name: replace(published(), source=source) for name in ("one", "other")}
        runs = {name: replace(run, notes=("as logged",)) for name, run in runs.items()}
        assert views.sweep(runs).caption == f"Published by {short}. As logged."
    assert views.sweep({"model": predicted()}).caption == ""


def test_one_measured_size_stands_on_an_axis_with_the_band_of_what_is_expected():
    size = SIZES[[3]]
    expected = Result("all_reduce", "predicted", size, [1e-3], 2, low=[8e-4], high=[2e-3])
    scene = band_scene(*(float(size[0]) / t for t in (1e-3, 1e-3, 2e-3, 8e-4)))
    area = scene.layers["band"].fields
    at = float(np.ravel(scene.layers["measured"].fields["x"])[0])
    left = float(np.ravel(area["x"])[0])
    assert left < at < left + float(np.ravel(area["w"])[0])
    assert band(expected, expected).table["bus bandwidth [B/s]"][2] < expected.busbw[0]


def test_bars_name_routings_networks_and_servers_as_engineers_do():
    picture = views.bars({"dgx_h100": {"minimal": 1.0, "ugal_g": 4.0}}, "times", bold="ugal_g")
    assert picture.table["group"].tolist() == ["DGX H100", "DGX H100"]
    assert picture.table["what"].tolist() == ["minimal", "UGAL-G"]
    assert picture.table.bold == (1,)


def test_counts_keep_all_their_digits():
    scene = bars_scene([Bar("", "a", 2048), Bar("", "b", 32)], "cables", set())
    assert scene.layers["values"].fields["texts"] == ["2,048 cables", "32 cables"]
    counted = views.bars({"a": np.int64(2048), "b": 1024}, "").finding
    assert counted.startswith("From 1,024 (b) to 2,048 (a).")

    whole = bars_scene([Bar("", "a", 63.0), Bar("", "b", 6.0)], "messages", set())
    assert whole.layers["values"].fields["texts"] == ["63 messages", "6 messages"]
    broken = bars_scene([Bar("", "a", 63.0), Bar("", "b", 5.5)], "messages", set())
    assert broken.layers["values"].fields["texts"] == ["63 messages", "5.50 messages"]
    shares = bars_scene([Bar("", "a", 100.0), Bar("", "b", 50.0)], "%", set())
    assert shares.layers["values"].fields["texts"] == ["100 %", "50.0 %"]


@pytest.mark.parametrize(
    ("values", "unit", "words"),
    [
        ([0.309, 0.0215], "s", ["309 ms", "21.5 ms"]),
        ([2.48, 0.263, 0.071, 0.0], "s", ["2.48 s", "0.263 s", "0.0710 s", "0 s"]),
        ([0.314, 53e-6], "s", ["314 ms", "0.0530 ms"]),
        ([50e-3, 35e-6], "s", ["50.0 ms", "0.0350 ms"]),
        ([0.0, 0.0], "s", ["0 s", "0 s"]),
        ([89.6, 351e-6], "s", ["89.6 s", "351 µs"]),  # no unit suits both
        ([3.35e12, 50e9], "B/s", ["3,350 GB/s", "50.0 GB/s"]),
        ([999.6e6, 50e6], "B/s", ["1,000 MB/s", "50.0 MB/s"]),
        ([33.5e12, 50e9], "B/s", ["33.5 TB/s", "0.0500 TB/s"]),
        ([3.76e9, 448 * 2**20], "B", ["3.76 GB", "0.470 GB"]),
        ([3136 * 2**20, 0, 448 * 2**20], "B", ["3.29 GB", "0 GB", "0.470 GB"]),
        ([17.2e9, 2**30], "B", ["17.2 GB", "1.07 GB"]),
        ([2**20, 16 * 2**10], "B", ["1,024 KiB", "16 KiB"]),
        ([512.0, 8.0], "B", ["512 B", "8 B"]),
        ([17.6e9, 4096.0], "B", ["17.6 GB", "4 KiB"]),
    ],
)
def test_one_unit_serves_all_bars_of_a_picture(values, unit, words):
    rows = [Bar("", str(i), value) for i, value in enumerate(values)]
    scene = bars_scene(rows, unit, set())
    assert scene.layers["values"].fields["texts"] == words
    assert list(scene.layers["bars"].fields["notes"]) == words


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_picture_of_many_bars_is_as_high_as_a_card_allows(groups):
    rows = [Bar(f"group {i * groups // 16}", f"bar {i}", 1.0 + i) for i in range(16)]
    scene = bars_scene(rows, "times", set())
    assert scene.height <= 412
    bar, names = scene.layers["bars"].fields, scene.layers["names"].fields
    assert bar["y"] + bar["h"] / 2 == pytest.approx(names["y"])
    assert np.all(np.diff(names["y"]) >= 17.5)  # texts are 12 px high
    assert np.all(bar["y"][1:] - (bar["y"] + bar["h"])[:-1] >= 6)
    few = bars_scene(rows[:4], "times", set()).layers["names"].fields["y"]
    assert np.diff(few) == pytest.approx(26)


# refusals -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: views.sweep([]), "nothing to draw"),
        (lambda: views.bars({}), "names with numbers"),
        (lambda: views.bars({"a": -1.0}), "must be within"),
        (lambda: views.bars({"a": float("inf")}, "times"), "finite and >= 0"),
        (lambda: views.bars({"a": 1.0}, bold="b"), "bold names no bar: b"),
        (lambda: views.bars({str(i): 1.0 for i in range(17)}), "number of bars"),
        (lambda: views.multiples({"one": star(3)}), "2 to 6 fabrics, got 1"),
        (
            lambda: views.multiples({"a": star(3), "b": star(3)}, load={"c": np.zeros(6)}),
            "not drawn: c",
        ),
        (lambda: views.zoom(star(8)), "without gpu, nic, leaf, spine"),
        (lambda: views.zoom(hall(), part="rack"), "rack"),
        (
            lambda: views.sweep(Result("all_reduce", "measured", [8.0], [1e-6]), y="busbw"),
            "one rank has busbw 0",
        ),
        (lambda: views.sweep(predicted(), y="speed"), "y must be one of time, busbw, got 'speed'"),
        (lambda: views.sweep(predicted(), x="hosts"), "x must be one of size, ranks"),
        (
            lambda: views.sweep(predicted(), finding="Figure 3: time against size"),
            "finding must be a sentence",
        ),
        (lambda: views.ruler({}), "at least one rate"),
        (lambda: views.ruler({"copy": 10.0}), "copy must be within 1e"),
        (
            lambda: views.ruler({"sum": Result("all_reduce", "predicted", [1e6], [1e-3])}),
            "sum must have a rate above 0",
        ),
        (
            lambda: views.fabric(star(3), load=np.full(6, np.nan)),
            "load must hold one finite number >= 0 for each of 6",
        ),
        (lambda: views.fabric(star(3), load=[1.0]), r"got shape \(1,\)"),
        (lambda: views.timeline(ring_run()[0], graph_run()[1]), "must be of one run"),
        (
            lambda: views.draw(catalog.links.compare("KP4")),
            r"links with an encoded rate, got RS.*catalog.links.compare",
        ),
        (lambda: views.table([]), "nothing to show"),
        (lambda: views.table({"a": [1], "b": [1, 2]}), "columns of one length"),
        (
            lambda: views.table([dict.fromkeys("abcdefgh", 1)]),
            r"g, h\) must be within 1\.\.7, got 8",
        ),
    ],
)
def test_errors_say_what_and_how_to_mend_it(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_fabric_without_cables_is_refused():
    b = FabricBuilder(("host",), ("index",))
    host = b.add_nodes("host", 2, tier=0, transit=False, index=range(2))
    with pytest.raises(ValueError, match=sentence("fabric.empty", links=0)):
        views.fabric(b.build("bare", {}, endpoint=host, rail=[0, 0], server=[0, 1]))


def test_draw_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match=r"got str; views\.table shows rows"):
        views.draw("fabric")


# display ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PICTURES)
def test_notebook_shows_theme_colours_alt_text_and_table(pictures, name):
    shown = pictures[name]._repr_mimebundle_()["text/html"]
    label = re.search(r'role="img" aria-label="([^"]+)"', shown).group(1)
    assert html.unescape(label) == pictures[name].alt
    svg = shown[shown.index("<svg") : shown.index("</svg>")]
    assert "currentColor" in svg and "<style" not in svg
    # Every colour of the drawing is a variable, which the style sheet of the card sets in both themes.
    assert not re.search(r"(?<!,)#[0-9a-f]{6}", svg)
    for place, light in re.findall(r"var\(--fl(\d+),(#[0-9a-f]{6})\)", svg):
        assert PALETTE[int(place)].light == light
        assert shown.count(f"--fl{place}:{PALETTE[int(place)].dark};") == 2
    assert shown.index('class="fl-finding"') < shown.index("<svg") and "<table>" in shown
    ids = re.findall(r' id="([^"]+)"', shown)
    # made from content: twice on a page is the same
    assert all(re.fullmatch(r"\w*[0-9a-f]{8,}", i) for i in ids)
    narrow = name.startswith("design")
    assert f'width="{700 if narrow else 880}"' in shown


def test_text_mode_shows_finding_and_table(monkeypatch, pictures):
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    picture = pictures["sweep busbw"]
    shown = picture._repr_mimebundle_()
    assert "<svg" not in shown["text/html"] and "<table>" in shown["text/html"]
    assert shown["text/plain"].startswith("Half of the peak comes only above 8 MiB")
    assert "A. Author, sweep of 2026" in shown["text/plain"]
    assert repr(picture) == "<Picture: Half of the peak comes only above 8 MiB: 181 of 368 GB/s.>"


def test_long_tables_say_how_many_rows_are_left():
    table = views.table({"n": np.arange(164)})
    for said in (str(table), html.unescape(table._repr_html_())):
        assert sentence("table.more", n=36).search(said)
    assert repr(table) == "<Table of 164 rows: n>"


def test_sources_and_notes_stand_below(pictures):
    assert (
        pictures["sweep"].caption
        == "Published: A. Author, sweep of 2026. All-reduce (measured here): the machine was shared."
    )


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_pictures_are_saved(tmp_path, pictures, suffix):
    path = pictures["crossbar"].save(tmp_path / f"fabric{suffix}")
    assert path.stat().st_size > 2000
    assert suffix == ".pdf" or pictures["crossbar"].alt.encode() in path.read_bytes()


def test_pictures_leave_settings_alone_and_are_freed():
    before = dict(matplotlib.rcParams)
    picture = views.fabric(star(8))
    picture.svg()
    assert dict(matplotlib.rcParams) == before
    figure = weakref.ref(picture.figure)
    del picture
    gc.collect()
    assert figure() is None


def test_same_picture_same_bytes():
    assert PICTURES["crossbar"]().svg() == PICTURES["crossbar"]().svg()


def test_views_use_no_window():
    code = (
        "import sys, fabriclab; print('matplotlib' in sys.modules); "
        "fabriclab.views; print('matplotlib.pyplot' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert out.stdout.split() == ["False", "False"]


def test_style_names_are_settings():
    assert set(STYLE) <= set(matplotlib.rcParams)


# Named times --------------------------------------------------------------------------------------
def test_times_have_a_unit_each():
    table = views.times(
        {"one root": 89.6, "ring": 0.70035, "step": "5.83 ms", "start": 22e-6, "none": 0}
    )
    assert str(table).splitlines() == [
        "what         time",
        "one root   89.6 s",
        "ring      0.700 s",
        "step      5.83 ms",
        "start     22.0 µs",
        "none          0 s",
    ]
    assert table["time [s]"].tolist() == [89.6, 0.70035, 5.83e-3, 22e-6, 0]
    page = table._repr_html_()
    assert all(f">{words}</td>" in page for words in ("89.6 s", "0.700 s", "22.0 µs"))
    assert isinstance(table, views.Table) and repr(table) == "<Table of 5 rows: what, time [s]>"


def test_times_can_be_told_as_multiples_of_the_shortest():
    table = views.times({"hashed": 2.1, "sprayed": 0.7}, ratio=True, bold=1, caption="By rack")
    assert table["times the shortest"] == pytest.approx([3, 1])
    assert str(table).startswith("By rack\n") and "\n> sprayed  0.700 s" in str(table)


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3), st.floats(1e-9, 1e6), min_size=1, max_size=8
    )
)
def test_law_a_shown_time_is_the_time(named):
    table = views.times(named)
    lines = str(table).splitlines()[1:]
    assert table["what"].tolist() == list(named)
    for line, seconds in zip(lines, named.values(), strict=True):
        shown = " ".join(line.split()[1:]).replace(",", "")
        assert units.time(shown) == pytest.approx(seconds, rel=6e-3)


@pytest.mark.parametrize(
    ("named", "error", "words"),
    [
        ({}, ValueError, "at least one name with its time, such as .* got none"),
        ([0.7], TypeError, r"names with times, such as .* got \[0.7\]"),
        ({"ring": -1}, ValueError, "time of 'ring' must be within .* got -1"),
        ({"ring": np.nan}, ValueError, "time of 'ring' must be finite, got nan"),
        ({"ring": "3"}, ValueError, "time of 'ring' needs its unit, got '3'"),
        ({"ring": "3 GB"}, ValueError, "time of 'ring' must be a time, got the size"),
        ({"ring": None}, TypeError, "time of 'ring' must be a number or a string"),
    ],
)
def test_what_is_no_time_is_refused(named, error, words):
    with pytest.raises(error, match=words):
        views.times(named)


def test_a_ratio_to_nothing_is_refused():
    with pytest.raises(ValueError, match=r"got 'b' with 0 s; .*ratio"):
        views.times({"a": 1, "b": 0}, ratio=True)


# Tiers and uplinks --------------------------------------------------------------------------------
def test_tiers_have_the_ports_and_the_hosts_of_networks_that_are_built():
    table = views.tiers((1, 2, 3), radix=8).table
    assert table["ports per GPU"].tolist() == [1, 3, 5]
    assert table["GPUs, at most"].tolist() == [8, 32, 128]
    tree = topologies.build("fat_tree", k=8)  # three full tiers
    assert tree.n_ranks == 128 and metrics.switches(tree) == 5 * 128 / 8
    two = topologies.build("leaf_spine", hosts=32, radix=8)
    assert two.n_ranks == 32 and metrics.switches(two) == 3 * 32 / 8


@pytest.mark.parametrize(
    ("asked", "words"), [(((),), "at least one"), (((4,),), "1..3"), (((0,),), "1..3")]
)
def test_tiers_that_cannot_be_drawn_are_refused(asked, words):
    with pytest.raises(ValueError, match=words):
        views.tiers(*asked)
    with pytest.raises(ValueError, match="even"):
        views.tiers(radix=7)


@pytest.mark.parametrize("ranks", range(2, 17))
def test_who_is_at_the_bottom_of_one_tree_passes_on_in_the_other(ranks):
    table = views.double_tree(ranks).table
    ends = [
        {rank for rank, role in zip(table["rank"], table[name], strict=True) if "bottom" in role}
        for name in ("first tree", "second tree")
    ]
    assert not ends[0] & ends[1]
    assert len(ends[0]) == len(ends[1]) == ranks // 2
    plan = collectives.build("all_reduce", "double_tree", ranks)
    assert plan.sent().max() <= 2  # half of the array up each tree, and to two ranks below


def test_a_rank_of_a_double_tree_sends_two_arrays():
    table = views.double_tree(8).table
    assert table["first tree"][1] == "at the bottom, below 2"
    assert table["second tree"][1] == "below 3, above 0 and 2"
    assert collectives.build("all_reduce", "double_tree", 8).sent()[1] == pytest.approx(2)


@pytest.mark.parametrize("ranks", [1, 17])
def test_trees_with_too_few_or_too_many_ranks_are_refused(ranks):
    with pytest.raises(ValueError, match=r"ranks must be within 2\.\.16"):
        views.double_tree(ranks)


def test_the_busiest_leaf_shows_the_flows_of_each_of_its_cables():
    wired = topologies.two_wirings(servers=128, gpus=8, radix=64)
    rings = collectives.rail_groups(wired["by rail"])
    run = simulation.simulate("all_reduce", "ring", wired["by rack"], "1 GB", placement=rings)
    picture = views.busiest_leaf(run)
    flows = picture.table["flows"]
    assert (flows.size, flows.sum(), flows.max()) == (32, 8, run.sharers().max()) == (32, 8, 3)
    assert np.sum(flows == 0) == 26
    small = topologies.two_wirings(servers=8, gpus=4, radix=16)["by rail"]
    inside = simulation.simulate(
        "all_reduce", "ring", small, "1 GB", placement=collectives.rail_groups(small)
    )
    with pytest.raises(ValueError, match="none does"):
        views.busiest_leaf(inside)


def test_running_sums_end_with_the_alarm_and_name_both_links():
    picture = views.running_sums(
        {"healthy NIC": [0, 0.4, 0.1], "sick NIC": [0.8, 1.9, 3.1]}, limit=1.5
    )
    said = (
        "The sum of the sick NIC passes 1.5 with sample 2. The sum of the healthy NIC gets to 0.4."
    )
    assert picture.finding == said
    assert picture.table["alarm with sample"].tolist() == ["none", "2"]
    assert picture.table["highest sum"].tolist() == [0.4, pytest.approx(1.9)]
    scene = running_sums_scene(
        {"healthy NIC": [0, 0.4, 0.1], "sick NIC": [0.8, 1.9, 3.1]}, limit=1.5
    )
    points = np.diff(scene.layers["sums"].fields["ptr"])
    assert points.tolist() == [4, 3]  # from sum 0 on; the line of the sick link ends with its alarm
    at_alarm = scene.layers["alarms"].fields
    level = scene.layers["limit"].fields["y"][0]
    assert at_alarm["x"].size == 1 and at_alarm["y"][0] < level  # above the limit
    quiet = views.running_sums({"healthy NIC": [0.2, 0.0]}, limit=1.5)
    assert quiet.finding == "The sum of the healthy NIC gets to 0.2."


@pytest.mark.parametrize(
    ("sums", "limit", "said"),
    [
        ({}, 1.0, "draw fewer links"),
        ({name: [0.0] for name in "abcde"}, 1.0, "got 5"),
        ({"a": [0.0, -1.0]}, 1.0, "finite numbers >= 0"),
        ({"a": [[0.0]]}, 1.0, "shape"),
        ({"a": []}, 1.0, "shape"),
        ({"a": [float("nan")]}, 1.0, "finite"),
        ({"a": [0.0]}, 0.0, "limit must be above 0"),
        ({"a": [0.0]}, "2", "limit must be above 0"),
    ],
)
def test_running_sums_refuse_what_they_cannot_draw(sums, limit, said):
    with pytest.raises(ValueError, match=said):
        views.running_sums(sums, limit)


def test_a_circle_of_links_stands_close_to_its_list():
    for name, size, rule in (
        ("dragonfly", {"p": 2, "a": 4, "h": 2}, "minimal"),
        ("torus", {"shape": (4, 4, 4)}, "dimension_order"),
    ):
        fabric = topologies.build(name, **size)
        flows = metrics.uniform(fabric)
        circle = routing.deadlock(fabric, routing.route(fabric, flows, rule))
        scene = fabric_scene(fabric, loop=circle)
        drawn = []
        for layer in scene.layers.values():
            fields = layer.fields
            if layer.kind == "texts" or not len(fields.get("x", ())):
                continue
            x = np.asarray(fields["x"], dtype=float)
            if "z" in fields:
                x = fields["middle"][0] + turned(x, fields["y"], fields["z"])[0]
            drawn += [x.min(), np.max(x + fields.get("w", 0.0))]
        assert 0 <= min(drawn) < 60 and 0 <= scene.width - max(drawn) < 60
        # A number lies on no box, and no two numbers lie on each other.
        numbers = seen_places(scene.layers["loop numbers"])
        for part in ("nodes", "hosts"):
            if part not in scene.layers:
                continue
            fields = scene.layers[part].fields
            half = np.atleast_1d(fields["w"]) / 2 if "w" in fields else fields["size"]
            apart = np.abs(numbers[:, None] - seen_places(scene.layers[part])) - half
            assert apart.min() > 7
        between = np.abs(numbers[:, None] - numbers) + 99 * np.eye(numbers.size)
        assert between.min() > 8


def seen_places(layer):
    """Return the middle of each item as it is drawn, x as real and y as imaginary part [px]."""
    fields = layer.fields
    x, y = np.asarray(fields["x"], dtype=float), np.asarray(fields["y"], dtype=float)
    if "z" in fields:
        x, y, _ = turned(x, y, fields["z"])
        return x + fields["middle"][0] + 1j * (y + fields["middle"][1])
    return x + fields.get("w", 0.0) / 2 + 1j * (y + fields.get("h", 0.0) / 2)


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("bruck", "Bruck"),
        ("pxn", "PXN"),
        ("rail_aligned", "rail-aligned"),
        ("ib-ndr", "InfiniBand NDR"),
        ("all_reduce ring", "all-reduce ring"),
        ("GPUs x 2", "GPUs × 2"),
        ("label, x 0.50", "label, × 0.50"),
        ("8 x MI300X", "8 × MI300X"),
        ("NVLink", "NVLink"),
        ("mesh x torus", "mesh x torus"),
        ("in order", "in order"),
    ],
)
def test_ids_are_shown_as_engineers_write_them(label, shown):
    assert readable(label) == shown


def test_the_axis_of_sizes_says_what_they_are_of():
    result = Result("all_reduce", "predicted", [2**20, 2**24], [1e-3, 9e-3], 8)
    for name, shown in (("", text("sweep.axis_size")), ("bucket size", "bucket size")):
        words = views.sweep({"ring": result}, x_name=name).axes.texts
        assert shown in [word.get_text() for word in words]


# marks that keep apart ----------------------------------------------------------------------------
def test_ranks_of_a_double_tree_keep_clear_of_the_edges():
    for n in (2, 8, 16):
        scene = double_tree_scene(n)
        for place in range(2):
            box = scene.layers[f"ranks {place}"].fields
            assert box["x"].min() >= EDGE and (box["x"] + box["w"]).max() <= scene.width - EDGE


def test_curves_above_a_small_drawing_keep_clear_of_its_words():
    fabrics = {name: topologies.build(name, shape=(4, 4)) for name in ("hyperx", "mesh")}
    minis = {name: mini_of(f, np.full(f.n_links, np.nan)) for name, f in fabrics.items()}
    layers = multiples_scene(fabrics, minis, {}).layers
    assert layers["hyperx cables"].fields["y"].min() >= layers["notes"].fields["y"].max() + 24


def dots_of(values):
    """Return the dots of measured results with these times at one size."""
    results = {
        f"library {i}": Result("all_reduce", "measured", [1024, 2**20], [value, 1.0], n_ranks=2)
        for i, value in enumerate(values)
    }
    return sweep_scene(results).layers["dots"].fields


def test_dots_that_would_hide_each_other_stand_side_by_side():
    near = dots_of([1.0e-3, 1.01e-3, 1.02e-3])
    places = np.stack([near["x"], near["y"]], axis=1)
    for one, other in itertools.combinations(places, 2):
        assert np.hypot(*(one - other)) >= 2 * 3.8 - 0.1
    assert near["x"].reshape(3, 2).mean(axis=0) == pytest.approx(dots_of([1e-3])["x"], abs=0.01)
    apart = dots_of([1e-3, 1e-2, 1e-1])["x"].reshape(3, 2)
    assert np.ptp(apart[:, 0]) == 0 and np.ptp(apart[:, 1]) > 0  # only those of one place move


def test_the_panel_of_errors_has_ticks_and_ink_lies_over_grey():
    size = 2.0 ** np.arange(3, 31)
    seen = Result(
        "all_reduce", "published", size, 1e-5 + size / 1e10, n_ranks=8, source="a made-up run"
    )
    models = {
        name: Result("all_reduce", "predicted", size, factor * seen.time, 8)
        for name, factor in (("model", 1.1), ("textbook", 2.0))
    }
    side = sweep_scene({"seen": seen, **models}, error=True).side.layers
    assert len(side["x ticks"].fields["texts"]) >= 3
    assert side["lines"].fields["colour"].tolist() == [COLOUR["soft"], COLOUR["ink"]]
    assert side["points"].fields["colour"][-1] == COLOUR["ink"]


# frames of boxes ----------------------------------------------------------------------------------
def test_a_frame_in_ink_is_drawn_and_none_is_none():
    named = [COLOUR["ink"], COLOUR["none"], COLOUR["line"]]
    x = np.array([10.0, 40.0, 70.0])
    framed = boxes(x, 10.0, 20.0, 20.0, colour=COLOUR["paper"], edge=np.array(named))
    bare = boxes(100.0, 10.0, 20.0, 20.0, colour=COLOUR["paper"])
    drawn = []
    for layer in (framed, bare):
        picture = printed(Scene("Four boxes.", layers={"boxes": layer}, height=40.0))
        patches = [a for a in picture.axes.patches if isinstance(a, FancyBboxPatch)]
        drawn.append([to_hex(patch.get_edgecolor(), keep_alpha=True) for patch in patches])
    nothing = to_hex("none", keep_alpha=True)
    hexes = [f"{printed_hex(int(COLOUR[name]))}ff" for name in ("ink", "line")]
    assert drawn == [[hexes[0], nothing, hexes[1]], [nothing]]


def numbers_in(value):
    """Yield the numbers that an expression may have as its value or as an element of it; conditions have none."""
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
        yield value
    elif not isinstance(value, ast.Compare | ast.Subscript):
        for part in ast.iter_child_nodes(value):
            yield from numbers_in(part)


def test_the_frame_of_a_box_is_a_named_colour():
    # 0 is ink and -1 is no frame, which a bare number doesn't say
    found = []
    for path in sorted((ROOT / "fabriclab").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            values = []
            if isinstance(node, ast.Call):
                values = [word.value for word in node.keywords if word.arg == "edge"]
            elif isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                values = [value for name, value in pairs if getattr(name, "value", None) == "edge"]
            found += [f"{path.name}:{n.lineno}" for value in values for n in numbers_in(value)]
    assert found == []


# strokes and ticks --------------------------------------------------------------------------------
def test_zero_has_the_unit_of_the_next_tick():
    assert tick_texts([0.0, 5e-5, 1e-4], units.format_time) == ["0 µs", "50 µs", "100 µs"]
    assert tick_texts([0.0, 4.0], "{:g}".format) == ["0", "4"]


def test_lines_side_by_side_leave_room_and_the_fuller_of_two_stays_the_wider():
    width, pair = np.array([4.5, 3.0, 4.5, 0.8]), np.array([0, 0, 1, 0])
    busy = np.array([True, True, True, False])
    part = part_apart(width, np.array([3.0, 9.0, 9.0, 3.0]), pair, busy)
    assert part[2] == 1 and part[0] == part[1] == pytest.approx(0.7 * 3.0 / 4.5)
    assert np.diff(part[:2] * width[:2])[0] < 0
