"""Live views of timelines, RDMA and traffic: what stands beside the picture, and that all fits into a window."""

import itertools

import numpy as np
import pytest

from fabriclab import engines, gpudirect, live, topologies, units, workload
from fabriclab.catalog import case
from fabriclab.look import COLOUR
from fabriclab.texts import text
from fabriclab.views import timelines
from fabriclab.views.live import rdma, training
from support.live_views import VIEWS, check_that_it_fits, states

NAMES = (
    "bubble",
    "staleness",
    "overlap",
    "priority",
    "both schedules",
    "many buckets",
    "straggler",
    "slow link",
    "request",
    "tcp",
    "queue pair",
    "refused",
    "savings",
    "chunks",
    "eight chunks",
    "traffic",
)


@pytest.mark.parametrize("name", NAMES)
def test_every_state_fits_into_a_small_window(name):
    for scene in states(VIEWS[name]()):
        check_that_it_fits(scene)


@pytest.mark.parametrize("name", NAMES)
def test_boxes_of_one_layer_do_not_hide_each_other(name):
    for panel in VIEWS[name]().scene.panels():
        for layer in panel.layers.values():
            if layer.kind != "boxes" or layer.fields["x"].size > 600:
                continue
            x, y, w, h = (np.asarray(layer.fields[k], dtype=np.float64) for k in "xywh")
            across = np.minimum((x + w)[:, None], x + w) - np.maximum(x[:, None], x)
            down = np.minimum((y + h)[:, None], y + h) - np.maximum(y[:, None], y)
            both = np.minimum(across, down) - 1e9 * np.eye(x.size)
            assert both.max(initial=-1) < 1.01  # thin bars have at least a pixel


def test_a_kind_of_work_has_one_hue_in_all_views():
    hues = {}
    for name, part in (("bubble", "bars"), ("overlap", "0 bars"), ("staleness", "bars")):
        scene = VIEWS[name]().scene
        for kind, colour in zip(
            scene.table.columns.get("what", []), scene.layers[part].fields["colour"], strict=True
        ):
            hues.setdefault(kind, set()).add(float(colour))
    assert hues == {kind: {timelines.hue(kind)} for kind in hues}
    assert set(hues) == {"forward", "backward", "all-reduce", "compute"}
    assert timelines.hue("all-reduce") == COLOUR["dp"]


def test_hues_of_traffic_stand_for_traffic_only():
    traffic = {COLOUR[kind] for kind in ("dp", "tp", "pp", "ep", "cp")}
    unknown = ("a", "b", "c", "d", "e", "f")
    assert not traffic & {*timelines.hues_of(unknown).tolist()}
    assert len({*timelines.hues_of(unknown).tolist()}) == len(timelines.FILLS)
    pair = (
        "all-gather",
        "reduce-scatter",
    )  # of parameters and of gradients, told apart by hatching
    assert {*timelines.hues_of(pair).tolist()} == {COLOUR["dp"]}
    assert timelines.patterns_of(pair).tolist() == [0, 1]
    for name in ("overlap", "chunks", "tokens"):
        for panel in VIEWS[name]().scene.panels():
            drawn = {
                place
                for key, layer in panel.layers.items()
                for place in np.atleast_1d(layer.fields.get("colour", -1.0)).tolist()
                if key not in ("kinds", "0 bars", "part 0 bars")  # all-reduces of gradients
            }
            assert not traffic & drawn


def test_waiting_is_a_hatched_box_and_its_length_keeps_clear_of_the_frame():
    scene = live.overlap(bucket=220.0, priority="both").scene
    frame = scene.layers["lens"].fields
    sides = frame["x"][:2]
    for number in (0, 1):
        waits, length = (scene.layers[f"{number} {part}"].fields for part in ("waits", "length"))
        assert waits["colour"] < 0 and waits["hatch"] == 1
        half = 3.6 * len(length["texts"][0])
        is_beside = np.all(np.abs(sides - length["x"][0]) > half)
        assert is_beside or length["y"][0] + 5 < frame["y"].min()


def test_a_roofline_names_its_roofs_and_marks_the_reading_on_the_axis():
    view = live.roofline(8192)
    layers, table = view.scene.layers, view.scene.table
    row = table["hidden size"].tolist().index(8192)
    (reading,) = layers["read"].fields["texts"]
    assert (
        float(reading) == table["reached [TFLOP/s]"][row]
        and f"feed {reading} of" in view.scene.said
    )
    assert layers["read"].fields["y"][0] == layers["current"].fields["y"][0]
    assert layers["roofs"].fields["texts"][:2] == [
        text("live.roofline.scale-up"),
        text("live.roofline.network"),
    ]
    curves = layers["curves"].fields
    for number in (0, 1):  # above the upper roof, below the lower one
        path = slice(*curves["ptr"][number : number + 2].astype(int))
        x, y = (layers["roofs"].fields[axis][number] for axis in "xy")
        on_roof = np.interp(x, curves["x"][path], curves["y"][path])
        assert (y < on_roof) if number == 0 else (y > on_roof)


def test_two_servers_are_compared_as_a_ratio_beside_their_curves():
    scene = VIEWS["tokens"]().scene
    first, second = (scene.table[column] for column in list(scene.table.columns)[1:])
    ratio = second / first
    dots = scene.side.layers["dots"].fields
    assert (
        np.argsort(-dots["y"], kind="stable").tolist() == np.argsort(ratio, kind="stable").tolist()
    )
    at = scene.table["requests"].tolist().index(VIEWS["tokens"]().values["batch"])
    assert scene.side.layers["values"].fields["texts"] == [f"{ratio[at]:.3g}"]


@pytest.mark.parametrize("batch", [1, 8, 32, 256])
def test_dots_of_two_servers_do_not_hide_each_other(batch):
    dots = VIEWS["tokens"]().set(batch=batch).scene.layers["current"].fields
    apart = np.hypot(np.diff(dots["x"]), np.diff(dots["y"]))[0]
    assert len({*dots["shape"].tolist()}) == 2
    around = dots["size"][0] - dots["size"][1] > 2  # an open circle around the other mark
    assert dots["size"].sum() <= max(apart, 6.4) + 1e-3 or (apart < 3.2 and around)


def current(scene):
    """Return the places of the dots of the current state in the panel."""
    dots = scene.side.layers["current"].fields
    return dots["x"], dots["y"]


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B", "interleaved"])
def test_the_bubble_of_a_run_lies_on_its_curve(schedule):
    for stages, batches in itertools.product((2, 4, 7), (1, 9, 32)):
        scene = live.bubble(stages, batches, schedule).scene
        shown = training.whole_batches(stages, batches, schedule)
        drawn = scene.side.layers["curves"].fields
        which = int(schedule == "interleaved")
        part = slice(*drawn["ptr"][which : which + 2].astype(int))
        x, y = current(scene)
        if shown <= 32:
            at = np.interp(x[0], drawn["x"][part], drawn["y"][part])
            assert at == pytest.approx(y[0], abs=0.6)


@pytest.mark.parametrize("way", ["ring", "halving_doubling", "binomial_tree"])
def test_the_curve_of_waiting_is_what_the_steps_say(way):
    job = case()
    numbers = training.bucket_numbers(job)
    found = training.exposed_times(job, 14e-6, way)
    for n in (1, 14, 706):
        nearest = int(np.abs(numbers - n).argmin())
        strip = training.strip_of(job, int(numbers[nearest]), 14e-6, way, False)
        assert found[nearest] == pytest.approx(strip.exposed, rel=1e-6)
        assert np.sum(np.diff(strip.waits(), axis=1)) == pytest.approx(strip.exposed, rel=1e-6)


def test_two_schedules_share_one_axis_and_their_waiting_can_be_compared():
    scene = live.overlap(bucket=220.0, priority="both").scene
    first, second = (scene.layers[f"{i} waits"].fields["w"].sum() for i in (0, 1))
    strips = [training.strip_of(case(), 80, 14e-6, "ring", each) for each in (False, True)]
    ends = scene.layers["x ticks"].fields
    assert (ends["texts"][0], ends["texts"][-1]) == ("0 s", "1.5 s")
    scale = (ends["x"][-1] - ends["x"][0]) / 1.5  # px/s, the same for both
    assert first == pytest.approx(strips[0].exposed * scale, abs=0.1)
    assert second == pytest.approx(strips[1].exposed * scale, abs=1.5)  # thin bars stay visible
    assert [f"{strip.exposed:.3f}" for strip in strips] == ["0.263", "0.018"]
    for number, strip in enumerate(strips):
        words = text("live.overlap.waits", time=f"{strip.exposed:.3f} s")
        assert scene.layers[f"{number} length"].fields["texts"] == [words]
    with pytest.raises(ValueError, match="priority must be one of both, got 'none'"):
        live.overlap(priority="none")


def test_one_bucket_overlaps_with_nothing_and_the_slider_says_as_many_digits_as_the_sentence():
    view = live.overlap()
    said = view.scene.said
    assert "1 bucket of 17.6 GB" in said and said.endswith(
        "nothing of it overlaps with the backward pass."
    )
    slider = next(c for c in view.widget.spec["controls"] if c["name"] == "bucket")
    assert slider["high"] == 17_600


@pytest.mark.parametrize("what", ["nic", "link"])
@pytest.mark.parametrize("ranks", [5, 16])
def test_the_times_beside_a_straggler_are_those_of_the_engine(what, ranks):
    view = live.straggler(ranks=ranks, what=what)
    healthy, ends, _ = view._make.args
    for way in ("ring", "binomial_tree"):
        run = healthy(way)
        for rank in (0, ranks - 2):
            slowed = training.slowed_run(run, what, rank, 6.0)
            flows = slowed.flows
            star = run.fabric
            if what == "link":
                out = np.flatnonzero(star.source == star.endpoint[rank])
                star = star.with_capacity(out, case().nic_rate / 6)
            assert engines.run(star, run.routes, flows).end == pytest.approx(slowed.timeline.end)
            where = 0 if way == "ring" else rank  # each rank of a ring has the same part in it
            assert ends(way, where)[training._FACTORS.index(6.0)] == pytest.approx(
                slowed.timeline.end
            )
    # The picture shows loads, so no hue stands for an algorithm: the one that is drawn is in ink.
    colours = view.scene.side.layers["curves"].fields["colour"]
    assert colours.tolist() == [COLOUR["ink"], COLOUR["soft"]]


def test_messages_on_time_are_grey_and_the_latest_is_the_fullest_of_the_scale():
    scene = live.straggler().scene
    colour, late = scene.layers["bars"].fields["colour"], scene.table["late [s]"]
    assert np.all((colour == COLOUR["hair"]) == (late <= 1e-9))
    assert colour[late.argmax()] == colour.max()
    assert np.all(np.diff(colour[np.argsort(late)][np.sort(late) > 1e-9]) >= 0)


@pytest.mark.parametrize("way", live.request().controls["way"].options)
def test_bars_of_a_message_are_its_counters(way):
    view = live.request(way, 0)
    for step in range(14):
        scene = view.set(step=step).scene
        counted = scene.side.layers["counted"].fields["w"] / rdma._COUNT
        names = ("calls", "copies", "doorbells", "transfers")
        now = [scene.table[k][-1] for k in names] if step else [0] * 4
        assert counted.tolist() == pytest.approx(now)
        steps = rdma._REQUESTS[way][:step]
        # a packet first, and then the number that it causes
        moves = bool(steps) and steps[-1].source != steps[-1].target
        assert bool(scene.layers["movers"].fields["x"].size) == moves
        assert scene.side.layers["counted"].fields["late"] == moves


@pytest.mark.parametrize("kind", ["RC", "UC", "UD"])
def test_no_arrow_of_a_queue_pair_passes_behind_another_state(kind):
    for now, to in itertools.product(rdma._STATES, repeat=2):
        path = rdma.change_path(now, to)
        for state, left, top in zip(rdma._STATES, rdma._STATE_LEFT, rdma._STATE_TOP, strict=True):
            if state in (now, to):
                continue
            inside = (np.abs(path - [left + 41, top + 18]) < [41, 18]).all(axis=1)
            assert not inside.any(), (now, to, state)
    pairs = rdma.possible_changes(kind)
    assert ("INIT", "RTR") in pairs and ("RESET", "RTS") not in pairs
    assert all((state, "RESET") in pairs and (state, "ERR") in pairs for state in ("RTR", "RTS"))


@pytest.mark.parametrize("mechanism", ["pinned", "pageable"])
def test_the_best_chunk_is_marked_on_the_curve(mechanism):
    scene = live.chunks(64.0, mechanism).scene
    way = gpudirect.path(topologies.build("dgx_h100"), "gpu 0", "gpu 1", mechanism)
    sizes = 1024 * 2.0 ** np.arange(5, 14)
    times = [way.time("8 MiB", float(size)) for size in sizes]
    curves = scene.side.layers["curves"].fields
    y = curves["y"][: sizes.size]  # downwards: the least time is the lowest point
    assert int(y.argmax()) == int(np.argmin(times))
    best = units.format_size(float(sizes[np.argmin(times)]))
    assert any(best in name for name in scene.side.layers["sample names"].fields["texts"])


def test_traffic_marks_the_fullest_receiver_and_leaves_empty_cells_empty():
    scene = live.traffic([[0, 6, 0], [0, 0, 0], [0, 3, 0]]).scene
    assert scene.layers["map"].fields["ptr"].size - 1 == 2
    colours = scene.layers["taken"].fields["colour"]
    assert (colours == COLOUR["ink"]).tolist() == [False, True, False]
    ordered = scene.side.layers["ordered"].fields["h"]
    assert ordered.tolist() == pytest.approx([ordered[0], 0, 0])
    assert scene.side.layers["fullest"].fields["texts"] == [
        text("live.traffic.top", name="GPU 1", times=3.0)
    ]


def test_a_slowed_ring_needs_no_division_of_links():
    star = topologies.build("crossbar", hosts=8, rate=1e9)
    healthy = training.healthy_run(star, "1 MB", 1e-5, "ring")
    flows = workload.slowed(healthy.flows, [star.endpoint[2]], factor=5.0)
    one, other = (engines.run(star, healthy.routes, flows, e) for e in ("flow", "ideal"))
    assert other.finish == pytest.approx(one.finish)
