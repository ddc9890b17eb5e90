"""Live views of circuits: matchings in turn, and slices of a pod while cubes fail."""

from itertools import pairwise

import numpy as np
import pytest

from fabriclab import circuits, live, units
from fabriclab.look import COLOUR
from fabriclab.views.live import circuit_turns as matchings
from fabriclab.views.live import pod_slices as slices
from support.live_views import VIEWS, check_that_it_fits, states

NAMES = ("matchings", "one matching", "mirrors turn", "slices", "small slices", "two slices")


@pytest.mark.parametrize("name", NAMES)
def test_every_state_fits_into_a_small_window(name):
    for scene in states(VIEWS[name]()):
        check_that_it_fits(scene)


@pytest.mark.parametrize("name", NAMES)
def test_the_finding_stands_on_one_line(name):
    for scene in states(VIEWS[name]()):
        first = scene.said.split(". ")[0]
        assert len(first) <= 100  # illustrative: letters of 18 px in a card of 934 px


# matchings ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("traffic", matchings._TRAFFICS)
def test_all_bytes_are_sent_and_nobody_sends_in_a_set_up(traffic):
    size = 1e9
    begin = matchings.turning(traffic, 1000.0, 0, size)
    end = matchings.turning(traffic, 1000.0, 100, size)
    assert np.array_equal(begin.left, begin.matrix)
    assert np.all(begin.receivers == -1)
    assert end.left.max() <= 1e-6 * size
    assert begin.packets == pytest.approx(size / units.rate("400 Gb/s"), rel=1e-6)
    n = begin.plan.n_configurations
    assert begin.plan.end == pytest.approx(begin.packets + n * 1e-3, rel=1e-6)


def test_what_is_left_falls_only_where_a_circuit_is_lit():
    moments = [matchings.turning("skewed", 1000.0, moment, 1e9) for moment in range(30, 50)]
    total = 0.0
    for before, after in pairwise(moments):
        sent = before.left - after.left
        lit = np.zeros_like(sent, dtype=bool)
        bars = before.plan.lit()
        overlaps = (bars.begin < after.now) & (bars.end > before.now)
        lit[bars.source[overlaps], bars.target[overlaps]] = True
        assert np.all(sent[~lit] == 0)
        total += sent.sum()
    assert total > 0


def test_matchings_of_known_traffic():
    found = {name: matchings.decomposed(name, 1e9).n_matchings for name in matchings._TRAFFICS}
    assert found["ring"] == 1 and found["all_to_all"] == 7
    assert found["skewed"] > 7


@pytest.mark.parametrize("moment", [0, 10, 30, 55, 90, 100])
def test_lit_circuits_are_drawn_where_the_plan_has_them(moment):
    scene = live.matchings(moment=moment).scene
    here = matchings.turning("skewed", 1000.0, moment, 1e9)
    drawn = scene.layers["circuits"].fields["names"]
    letters = "ABCDEFGH"
    wanted = [f"{letters[i]} to {letters[j]}" for i, j in enumerate(here.receivers) if j >= 0]
    assert drawn == wanted
    assert scene.layers["lit cells"].fields["x"].size == len(wanted)
    sends = scene.layers["circuits"].fields["colour"] == COLOUR["queue"]
    assert np.count_nonzero(sends) == np.count_nonzero(here.sends)
    assert scene.layers["turns"].fields["texts"] == ([] if wanted else ["mirrors turn"])


# slices -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 6, 24, 32, 48, 64])
@pytest.mark.parametrize("draw", range(6))
def test_slices_run_on_cubes_that_work(size, draw):
    pod = slices.pod_of(size, 0.99, draw)
    for number in (pod.fixed, pod.joined):
        assert np.array_equal(number == slices._FAILED, ~pod.works)
        running = number[number >= 0]
        assert np.all(np.unique(running, return_counts=True)[1] == size)
    assert pod.running(pod.joined) == pod.works.sum() // size
    assert pod.running(pod.fixed) <= pod.running(pod.joined)
    for block in np.unique(pod.fixed[pod.fixed >= 0]):
        cubes = np.flatnonzero(pod.fixed == block)
        assert np.array_equal(cubes, block * size + np.arange(size))  # its own cubes, and no others


def test_draws_agree_with_the_curves():
    draws = 2000
    size = 16
    found = np.array(
        [
            [pod.running(pod.fixed), pod.running(pod.joined)]
            for pod in (slices.pod_of(size, 0.99, draw) for draw in range(draws))
        ]
    )
    share = found.mean(axis=0) * size / 64
    shares = slices.curves(0.99)
    assert share[0] == pytest.approx(shares["fixed chips"][size - 1], abs=0.02)
    assert share[1] == pytest.approx(shares["any chips"][size - 1], abs=0.01)


def test_with_one_cube_there_is_nothing_to_choose():
    shares = slices.curves(0.995)
    assert shares["fixed chips"][0] == pytest.approx(shares["any chips"][0])
    assert np.all(shares["fixed time"] <= shares["any time"] + 1e-12)
    assert shares["any time"][47] == circuits.any_availability(0.995, 48)


def test_the_picture_counts_what_runs():
    scene = live.slices(size=6, availability=0.999, draw=3).scene
    pod = slices.pod_of(6, 0.999, 3)
    for name, number in (("fixed", pod.fixed), ("joined", pod.joined)):
        assert scene.layers[f"{name} running"].fields["x"].size == np.count_nonzero(number >= 0)
        assert scene.layers[f"{name} failed"].fields["x"].size == pod.down
        total = sum(
            scene.layers[f"{name} {part}"].fields["x"].size
            for part in ("running", "idle", "failed")
        )
        assert total == 64


@pytest.mark.parametrize(
    ("wrong", "words"), [({"size": 65}, "size"), ({"availability": 0.9}, "availability")]
)
def test_wrong_values_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        live.slices(**wrong)


@pytest.mark.parametrize("name", ["matchings", "one matching", "mirrors turn"])
def test_the_name_of_a_curve_stands_at_its_end_and_keeps_apart_from_others(name):
    layers = VIEWS[name]().scene.side.layers
    names, curves = layers["curve names"].fields, layers["curves"].fields
    last = curves["ptr"][1:].astype(int) - 1
    assert np.all(names["x"] > curves["x"].max())
    assert np.abs(names["y"] - curves["y"][last]).max() <= 15
    assert np.diff(np.sort(names["y"])).min() >= 15 - 1e-3
