"""Views of designs and of a gallery: by hand, laws over the twelve examples, and what fits."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

from fabriclab import designs, live, topologies, views
from fabriclab.designs.approaches import APPROACHES
from fabriclab.look import COLOUR
from fabriclab.texts import table, text
from fabriclab.views.designs import drawing_of, has_figures, mapped_design, mark_of
from fabriclab.views.live import galleries
from fabriclab.views.plan_circle import groups_of
from fabriclab.views.plans import FAILED, OVERLOADED, TIGHTEST, Mark, plan_layers, plan_of
from fabriclab.views.scene import EDGE, FORM
from support.live_views import (
    DOTS,
    IN_RACKS,
    IN_RAILS,
    ON_TORUS,
    TAPERED,
    VIEWS,
    check_that_it_fits,
    states,
)
from support.sampling import sampled

NAMES = (
    *("design", "design in racks", "design on a torus", "gallery"),
    "gallery of dots",
)
EXAMPLES = tuple(APPROACHES)  # by name alone: designs.examples() examines each
DEAR = {  # above the budget, but good to look at
    "rails at 1:1": {"family": "rail_optimised"},
    "three tiers": {"family": "rail_optimised", "arguments": {"tiers": 3, "oversubscription": 3}},
}
WIDTHS = (560.0, 700.0)


@pytest.fixture(scope="module")
def plans():
    sheets = {**designs.examples(), **DEAR}
    return {name: mapped_design(designs.read(sheet)) for name, sheet in sheets.items()}


def shown(words):
    """Return words of a verdict as a picture writes them."""
    return words.replace(" -> ", " → ")


def verdict(requirement="demand", passed=False, **more):
    fields = {
        "asked": 50e9,
        "reached": 31e9,
        "unit": "B/s",
        "margin": -0.38,
        "words": "Leaf 3 is full.",
    }
    return designs.Verdict(requirement, passed, **(fields | more))


# plans --------------------------------------------------------------------------------------------
def test_rails_have_pods_of_the_servers_that_share_leaves(plans):
    plan = plans["rails at 1:1"].plan
    leaves = np.array(plan.kinds) == "leaf"
    assert np.bincount(plan.pod[plan.is_server]).tolist() == [32] * 4
    assert np.bincount(plan.pod[leaves]).tolist() == [8] * 4
    assert np.all(plan.pod[np.array(plan.kinds) == "spine"] == -1)
    assert np.all(plan.cables[plan.is_server[plan.low]] == 1)


def test_what_remains_in_one_piece_has_no_pods(plans):
    for name in ("rail-only", "three tiers"):
        assert np.all(plans[name].plan.pod == -1)


def test_racks_of_a_plan_are_those_of_the_design(plans):
    design = designs.read(DEAR["rails at 1:1"])
    plan = mapped_design(design).plan
    _, of_rack = np.unique(plan.rack[plan.is_server], return_inverse=True)
    assert of_rack.tolist() == (np.arange(128) // 4).tolist()
    switches = plan.rack[~plan.is_server]
    assert switches.tolist() == design.racks[design.switches].tolist()


def test_servers_in_several_groups_are_drawn_as_nics(plans):
    plan = plans["dragonfly+"].plan
    assert set(plan.kinds) == {"nic", "leaf", "spine"} and plan.is_flat
    group = groups_of(plan)
    to_leaf = plan.is_server[plan.low]
    assert np.all(group[plan.low[to_leaf]] == group[plan.high[to_leaf]])


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_cable_of_a_design_belongs_to_a_bundle(plans, name):
    design = designs.read(designs.examples()[name])
    mapped = mapped_design(design)
    fabric = design.fabric
    works = np.minimum(fabric.capacity[::2], fabric.capacity[1::2]) > 0
    bundle = mapped.bundle_of_cable
    assert np.array_equal(bundle >= 0, works)
    cable = np.flatnonzero(works)
    ends = np.sort(mapped.box_of_node[[fabric.source[2 * cable], fabric.target[2 * cable]]], axis=0)
    plan = mapped.plan
    drawn = np.sort([plan.low[bundle[cable]], plan.high[bundle[cable]]], axis=0)
    assert np.array_equal(ends, drawn)
    assert plan.cables.sum() == works.sum()
    assert np.array_equal(np.bincount(bundle[cable]), plan.cables)


def test_cables_between_two_boxes_are_one_bundle_with_the_slowest_rate():
    plan = plan_of(
        ["server 0", "leaf 0"],
        ["server", "leaf"],
        tier=np.array([0, 1]),
        rack=np.array([0, 0]),
        pod=np.array([-1, -1]),
        ends=np.array([[0, 1], [1, 0], [0, 1]]),
        rate=np.array([50e9, 25e9, 50e9]),
    )
    assert (plan.low.tolist(), plan.high.tolist()) == ([0], [1])
    assert (plan.cables.tolist(), plan.rate.tolist()) == ([3], [25e9])


# pictures -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_boxes_of_a_design_stand_apart_and_within_the_picture(plans, name, width):
    drawing = drawing_of(plans[name].plan, width)
    left, right = drawing.x - drawing.width / 2, drawing.x + drawing.width / 2
    top, bottom = drawing.y - drawing.height / 2, drawing.y + drawing.height / 2
    assert left.min() >= 0 and right.max() <= width and top.min() >= 24 and bottom.max() <= 384
    across = np.minimum(right[:, None], right) - np.maximum(left[:, None], left)
    down = np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)
    meet = np.minimum(across, down)
    np.fill_diagonal(meet, -1)
    assert meet.max() < 1.5  # px; squares on a circle may touch at their corners


@pytest.mark.parametrize("name", EXAMPLES)
def test_lines_of_rows_stand_for_all_cables_and_lead_from_box_to_box(plans, name):
    plan = plans[name].plan
    drawing = drawing_of(plan, 560.0)
    bundles = drawing.lines
    assert len(bundles.paths) == len(bundles.names)
    if not drawing.in_rows:
        return
    assert np.all(bundles.of_bundle >= 0)
    for bundle in range(0, plan.low.size, 97):
        path = bundles.paths[bundles.of_bundle[bundle]]
        low, high = plan.low[bundle], plan.high[bundle]
        assert path[0, 1] >= drawing.y[low] - drawing.height[low] * 6 - 6
        assert path[-1, 1] >= drawing.y[high] and path[0, 1] > path[-1, 1]


def test_a_rack_that_two_pods_share_is_drawn_in_both(plans):
    plan = plans["rails at 2:1"].plan
    shared = [
        r
        for r in np.unique(plan.rack)
        if np.unique(plan.pod[plan.is_server & (plan.rack == r)]).size > 1
    ]
    assert shared
    drawing = drawing_of(plan, 560.0)
    for pod in np.unique(plan.pod[plan.pod >= 0]):
        here = plan.pod == pod
        servers, leaves = here & plan.is_server, here & ~plan.is_server
        for members in (servers, leaves):
            others = (plan.pod >= 0) & ~here & (plan.tier == plan.tier[members][0])
            inside = (drawing.x[others] > drawing.x[members].min()) & (
                drawing.x[others] < drawing.x[members].max()
            )
            assert not inside.any()


def test_what_demand_fails_on_is_drawn_with_two_rails():
    view = live.design(TAPERED)
    found = designs.check(TAPERED, "demand")
    assert view.values["requirement"] == "demand" and found.passed is False
    fabric = designs.read(TAPERED).fabric
    lines = view.scene.layers["marked cables"].fields
    ends = {
        fabric.name(int(node))
        for node in (fabric.source[found.links[0]], fabric.target[found.links[0]])
    }
    assert lines["form"] == FORM["overloaded"] and lines["colour"] == COLOUR["overloaded"]
    assert set(lines["names"][0].split(" – ")) == ends
    share = text(
        "plan.fails_by",
        name=text("plan.name_demand"),
        room=f"{-100 * found.margin:.3g}",
        figures="",
    )
    said = view.scene.said
    # The words hold both figures, which stand there once; the leaf's name is no number of a pod.
    assert said.startswith(share.split(":")[0]) and said.count("GB/s") == 2
    assert "leaf 0 of pod\u00a01 → spine 0" in said
    assert shown(found.words) in said.replace("leaf 0 of pod\u00a01", "leaf 0.1")


def test_the_footer_explains_the_strokes_that_are_drawn_and_no_others():
    double, edge = text("live.design.overloaded"), text("live.design.tightest")
    view = live.design(TAPERED)
    hint = view.set(requirement="demand").scene.hint
    assert double in hint and edge not in hint
    holds = next(v.requirement for v in designs.grade(TAPERED).verdicts if v.passed and v.links)
    hint = view.set(requirement=holds).scene.hint
    assert double not in hint and edge in hint


def test_a_failed_switch_and_the_servers_that_it_cuts_off_have_crosses():
    scene = live.design(
        {**IN_RACKS, "arguments": {"hosts": 1024, "radix": 64}, "servers": 128}
    ).scene
    crosses, nodes = scene.layers["crosses"].fields, scene.layers["nodes"].fields
    assert crosses["x"].size == 1 + 4 and crosses["shape"] == 2
    middle = nodes["x"] + nodes["w"] / 2
    crossed = [
        name
        for name, x, y in zip(nodes["names"], middle, nodes["y"] + nodes["h"] / 2, strict=True)
        if np.any(np.hypot(crosses["x"] - x, crosses["y"] - y) < 0.1)
    ]
    assert crossed == ["server 0", "server 1", "server 2", "server 3", "leaf 0"]
    assert scene.layers["plate"].fields["texts"] == ["32 GPUs"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_plate_stands_within_the_picture_and_beside_what_it_is_about(plans, name):
    mapped = plans[name]
    for form in (FAILED, OVERLOADED):
        for requirement, passed in (("demand", False), ("ports", False), ("demand", True)):
            bundle = mapped.plan.low.size // 2
            cable = int(np.flatnonzero(mapped.bundle_of_cable == bundle)[0])
            node = int(np.flatnonzero(mapped.box_of_node >= 0)[-1])
            mark = mark_of(mapped, verdict(requirement, passed, nodes=(node,), links=(2 * cable,)))
            assert mark.bundles.tolist() == [bundle]
            layers = plan_layers(drawing_of(mapped.plan, 560.0), mark._replace(line_form=form))
            plate = layers["plate"].fields
            assert plate["x"][0] >= 0 and plate["x"][0] + plate["w"][0] <= 560
            assert plate["y"][0] >= 20 and plate["y"][0] + plate["h"][0] <= 384
            box = layers["nodes"].fields
            marked = mark.boxes[0]
            apart = (
                (box["x"][marked] > plate["x"][0] + plate["w"][0])
                | (box["x"][marked] + box["w"][marked] < plate["x"][0])
                | (box["y"][marked] > plate["y"][0] + plate["h"][0])
                | (box["y"][marked] + box["h"][marked] < plate["y"][0])
            )
            assert apart


def test_what_holds_has_an_edge_of_ink_and_no_cross(plans):
    mapped = plans["rails at 1:1"]
    node = int(np.flatnonzero(mapped.box_of_node == mapped.plan.n_boxes - 1)[0])
    mark = mark_of(mapped, verdict("ports", True, nodes=(node,), margin=0.02))
    assert (mark.box_form, mark.line_form) == (TIGHTEST, TIGHTEST)
    layers = plan_layers(drawing_of(mapped.plan, 560.0), mark)
    assert "crosses" not in layers
    in_ink = layers["nodes"].fields["edge"] == COLOUR["ink"]
    assert np.flatnonzero(in_ink).tolist() == mark.boxes.tolist()


def test_what_costs_most_has_not_failed(plans):
    mapped = plans["rails at 1:1"]
    over = verdict("budget", False, unit="USD", nodes=(int(mapped.box_of_node.size - 1),))
    assert mark_of(mapped, over).box_form == TIGHTEST


def test_many_marked_cables_are_marked_by_the_lines_that_stand_for_them(plans):
    mapped = plans["rails at 1:1"]
    drawing = drawing_of(mapped.plan, 560.0)
    many = np.flatnonzero(mapped.plan.low == 130)
    mark = Mark(np.zeros(0, int), many, line_form=OVERLOADED)
    lines = plan_layers(drawing, mark)["marked cables"].fields
    assert set(lines["names"]) == {drawing.lines.names[i] for i in drawing.lines.of_bundle[many]}


def test_a_verdict_without_figures_says_so_and_has_no_plate(plans):
    open_ = verdict(passed=None, asked=1.0, reached=0.0, unit="1", margin=-1.0)
    refused = verdict("choice", False, asked=1.0, reached=0.0, unit="1", margin=-1.0)
    assert not has_figures(open_) and not has_figures(refused)
    assert mark_of(plans["rail-only"], open_) is None
    assert mark_of(plans["rail-only"], refused) is None  # no part is at fault
    assert mark_of(plans["rail-only"], replace(refused, nodes=(1030,))).plate == ""
    picture = views.design(designs.examples()["rail-only"], refused)
    assert picture.finding.startswith(text("plan.fails", name=text("plan.name_choice")))


@pytest.mark.parametrize("sheet", [TAPERED, IN_RACKS, *designs.examples().values()])
def test_each_judged_line_of_the_list_says_how_it_stands(sheet):
    view = live.design(sheet)
    layers = view.scene.side.layers
    signs, figures = layers["signs"].fields["texts"], layers["figures"].fields["texts"]
    assert len(signs) == len(figures) == 10
    for sign, figure in zip(signs, figures, strict=True):
        assert bool(figure) == (sign != "–")


def test_the_printed_picture_says_which_requirement_by_how_much_and_where():
    found = designs.check(TAPERED, "demand")
    picture = views.design(TAPERED, found)
    assert (
        shown(found.words) in picture.alt.replace("leaf 0 of pod\u00a01", "leaf 0.1")
        and text("plan.name_demand") in picture.finding
    )
    assert picture.svg().startswith("<svg role=")
    assert views.design(designs.read(TAPERED)).table["reached"].tolist()[0] == "128"
    with pytest.raises(ValueError, match="family"):
        views.design({"name": "nothing"})


def test_a_design_is_named_by_its_example_or_given_as_a_sheet():
    name = EXAMPLES[1]
    assert live.design(name).code.startswith(f"fl.live.design({name!r}, requirement=")
    with pytest.raises(ValueError, match="rail-only"):
        live.design("rails")
    with pytest.raises(ValueError, match="requirement must be one of"):
        live.design(TAPERED, "beauty")
    assert live.design(designs.examples()[name]).code.startswith("fl.live.design(sheet, ")
    with pytest.raises(TypeError, match="a design must be a dict"):
        live.design(None)


def test_a_fabric_is_a_design_too():
    hall = topologies.build("rail_optimised", servers=16, expand=False)
    view = live.design(hall, "size")
    sheet = live.design(designs.sheet_of(hall), "size")
    assert view.scene.said == sheet.scene.said
    assert view.code.startswith("fl.live.design(fl.topologies.build('rail_optimised', servers=16")
    assert live.design(designs.read(hall), "size").code.startswith("fl.live.design(sheet, ")


def test_a_design_that_holds_is_shown_where_it_could_be_bought_with_less_room():
    view = live.design(EXAMPLES[0])
    shown = designs.check(designs.examples()[EXAMPLES[0]], view.values["requirement"])
    assert shown.passed and shown.unit in ("B/s", "USD", "1")


# what fits ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_every_state_fits_into_a_small_window(name):
    for scene in states(VIEWS[name]()):
        check_that_it_fits(scene)


@pytest.mark.parametrize("name", NAMES)
def test_the_finding_stands_on_one_line(name):
    for scene in states(VIEWS[name]()):
        first = scene.said.split(". ")[0]
        assert len(first) <= 100  # illustrative: letters of 18 px in a card of 934 px


@pytest.mark.parametrize("name", NAMES)
def test_titles_of_both_panels_begin_below_the_finding(name):
    scene = VIEWS[name]().scene
    assert np.ravel(scene.layers["title"].fields["x"])[0] == EDGE
    assert np.ravel(scene.side.layers["list title"].fields["x"])[0] == EDGE


@pytest.mark.parametrize("language", ["en", "pseudo"])
@pytest.mark.parametrize("name", sampled((*NAMES, *EXAMPLES), 3))
def test_words_stay_within_the_picture_and_apart(name, language, monkeypatch, pseudo):
    if language == "pseudo":
        monkeypatch.setenv("FABRICLAB_LANGUAGE", pseudo)
    view = VIEWS[name]() if name in VIEWS else live.design(name)
    figure = view.picture().figure
    renderer = figure.canvas.get_renderer()
    figure.draw_without_rendering()
    seen = []
    for words in figure.findobj(Text):
        if words.get_visible() and words.get_text().strip() and words.axes is not None:
            seen.append((words.get_text(), words.get_window_extent(renderer)))
    for words, box in seen:
        assert box.x0 >= -1 and box.x1 <= figure.bbox.width + 1, words
    for (words, box), (others, other) in itertools.combinations(seen, 2):
        across = min(box.x1, other.x1) - max(box.x0, other.x0)
        down = min(box.y1, other.y1) - max(box.y0, other.y0)
        assert min(across, down) < 1.5, (words, others)


# gallery ------------------------------------------------------------------------------------------
def exhibit(cost, time, passed=True, **more):
    fields = dict.fromkeys(("power", "left", "switches", "cables"), 1.0) | more
    return galleries.Exhibit("", "", cost, time, passed=passed, **fields)


def test_a_front_by_hand():
    shown = galleries.Gallery(
        (
            exhibit(1e6, 6.0),
            exhibit(2e6, 5.0),
            exhibit(2e6, 5.5),
            exhibit(3e6, 4.0, passed=False),
            exhibit(3e6, 5.0),
        ),
        "cost",
    )
    assert shown.on_front.tolist() == [True, True, False, False, False]
    assert [shown.beaten_by(number) for number in range(5)] == [-1, -1, 1, -1, 1]
    assert shown.x.tolist() == [1, 2, 2, 3, 3]
    by_power = galleries.Gallery(
        (exhibit(1e6, 6.0, power=2e3), exhibit(2e6, 6.0, power=1e3)), "power"
    )
    assert by_power.on_front.tolist() == [False, True]


def test_a_front_of_one_design_is_told_without_two_ends():
    shown = galleries.Gallery((exhibit(1e6, 5.0), exhibit(2e6, 6.0)), "cost")
    assert galleries.front_words(shown) == text("live.gallery.single", n=2, label="")


def test_the_line_along_the_front_has_a_step_for_each_design():
    scene = live.gallery(DOTS).scene
    line, dots = scene.layers["front"].fields, scene.layers["designs"].fields
    points = np.stack([line["x"], line["y"]], axis=1)
    front = np.flatnonzero(dots["shape"] == 0)
    assert front.tolist() == [0, 1]
    on_line = np.stack([dots["x"], dots["y"]], axis=1)[front]
    assert points[::2] == pytest.approx(on_line)
    assert points[1].tolist() == [dots["x"][1], dots["y"][0]]  # until then nothing is gained
    crossed = np.flatnonzero(dots["shape"] == 2)
    assert crossed.tolist() == [3]


def test_a_chosen_design_is_ink_and_all_others_are_grey():
    for chosen in range(len(DOTS)):
        scene = live.gallery(DOTS, "ABCD"[chosen]).scene
        dots = scene.layers["designs"].fields
        assert np.flatnonzero(dots["colour"] == COLOUR["ink"]).tolist() == [chosen]
        assert np.argmax(dots["size"]) == chosen and scene.table.bold == (chosen,)
        label = scene.side.layers["list title"].fields["texts"]
        assert label == [text("live.gallery.design", label="ABCD"[chosen])]
    assert dots["picks"] == ["A", "B", "C", "D"] and dots["pick"] == "chosen"


def test_a_gallery_names_nobody():
    sheets = [{**sheet, "name": "Ada's own"} for sheet in (IN_RAILS, IN_RACKS, ON_TORUS)]
    view = live.gallery(sheets, "B")
    shown = str(view.scene.table) + view.scene.said + view.scene.alt
    assert "Ada" not in shown and "leaf-spine" in shown


def test_dots_have_cost_and_time_only_and_so_no_choice_of_an_axis():
    view = live.gallery(DOTS, "B")
    assert (
        list(view.controls) == ["chosen"]
        and view.code == "fl.live.gallery(sheets, against='cost', chosen='B')"
    )
    assert list(view.scene.table.columns) == [
        "design",
        "family",
        "million USD",
        "step [s]",
        "state",
    ]
    with pytest.raises(ValueError, match="chosen must be one of 'A'"):
        live.gallery(DOTS, "Z")
    with pytest.raises(ValueError, match="sheets must be 2"):
        live.gallery(DOTS[:1])


def test_the_twelve_examples_are_the_gallery_by_default():
    scene = live.gallery().scene
    assert sorted(scene.table["family"]) == sorted(EXAMPLES)
    figures = {
        name: designs.grade(sheet).figures for name, sheet in list(designs.examples().items())[:2]
    }
    for name, known in figures.items():
        row = scene.table["family"].tolist().index(name)
        assert scene.table["million USD"][row] == pytest.approx(known["cost"] / 1e6)
        assert scene.table["step [s]"][row] == pytest.approx(known["time"])


def test_figures_beside_a_gallery_place_the_chosen_design_among_all():
    view = live.gallery([IN_RAILS, IN_RACKS, ON_TORUS])
    for chosen, label in enumerate(view.controls["chosen"].options):
        side = view.set(chosen=label).scene.side.layers
        own, others = side["own"].fields, side["others"].fields
        rows = own["y"].size
        every = others["x"].reshape(rows, -1)
        assert own["x"] == pytest.approx(every[:, chosen])
        assert side["values"].fields["texts"][0] == text(
            "live.gallery.figure_cost", value=float(view.scene.table["million USD"][chosen])
        )


def test_letters_go_on_after_z():
    assert [galleries.letter(n) for n in (0, 25, 26, 51, 52)] == ["A", "Z", "AA", "AZ", "BA"]


@pytest.mark.parametrize(("low", "high"), [(2.7, 4.1), (0.0, 1.0), (29.3, 65.7), (4.78, 4.781)])
def test_ticks_are_round_and_few(low, high):
    ticks = galleries.round_ticks(low, high)
    assert 2 <= ticks.size <= 7 and low - 1e-9 <= ticks[0] and ticks[-1] <= high + 1e-9
    step = np.diff(ticks)
    assert step == pytest.approx(step[0])
    assert float(f"{step[0]:.1e}"[:3]) in (1.0, 2.0, 2.5, 5.0)


def test_the_family_of_a_list_of_cables_is_told_by_its_tiers(plans):
    told = {name: galleries.family_word(designs.examples()[name]) for name in EXAMPLES}
    assert told["rail-only"] == text("live.gallery.one_tier")
    assert told["torus of leaves"] == text("live.gallery.direct")
    assert told["dragonfly+"] == text("live.gallery.groups")
    assert told["rails at 2:1"] == table()["family.rail_optimised"]
    assert told["rotated rails"] == text("live.gallery.tiers", n=2)
