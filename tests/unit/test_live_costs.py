"""Live views of costs: an offer beside the present network, and a decision as a tree that lights up."""

import numpy as np
import pytest

from fabriclab import catalog, economics, live
from fabriclab.look import COLOUR
from fabriclab.views.live import cost_fronts, decision_trees
from support.live_views import VIEWS, check_that_it_fits, states

NAMES = ("cost front", "half for half", "small job", "decision", "small decision", "sixteen GPUs")
CASE = catalog.case()


@pytest.mark.parametrize("name", NAMES)
def test_every_state_fits_into_a_small_window(name):
    for scene in states(VIEWS[name]()):
        check_that_it_fits(scene)


@pytest.mark.parametrize("name", NAMES)
def test_the_finding_stands_on_one_line(name):
    for scene in states(VIEWS[name]()):
        first = scene.said.split(". ")[0]
        assert len(first) <= 100  # illustrative: letters of 18 px in a card of 934 px


# cost front ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("rate", "price"), [(200.0, 0.0), (200.0, 50.0), (800.0, 200.0)])
def test_an_offer_costs_what_the_library_says(rate, price):
    sent = CASE.dp_bytes / 1e9
    here = cost_fronts.offered(rate, price, sent)
    offer = economics.offer(CASE, rate * 1.25e8, CASE.price_fabric * price / 100)
    assert here.step[:2] == pytest.approx([offer.before, offer.after])
    assert here.cost[:2] == pytest.approx([offer.cost_before, offer.cost_after])


def test_the_gift_pays_from_where_the_library_says():
    sent = CASE.dp_bytes / 1e9
    turn = economics.half_for_nothing(CASE).turns_at
    assert cost_fronts.pays_from(0.0, sent) * 1.25e8 == pytest.approx(turn)
    assert cost_fronts.offered(cost_fronts.pays_from(0.0, sent), 0.0, sent).more[1] == (
        pytest.approx(0.0, abs=1e-9)
    )


def test_no_rate_pays_at_a_high_price_and_every_rate_for_a_job_that_sends_little():
    assert live.cost_front(price=150).scene.said.endswith("no rate pays.")
    assert "each rate" in live.cost_front(price=25, sent=5.0).scene.said


def test_a_step_is_never_longer_with_a_faster_network():
    step = cost_fronts.step_of(np.geomspace(100, 1600, 40), 35.0)
    assert np.all(np.diff(step) < 0)


@pytest.mark.parametrize(("price", "pays"), [(0, True), (100, False), (200, False)])
def test_the_side_of_the_line_says_whether_the_offer_pays(price, pays):
    here = cost_fronts.offered(300.0, price, 35.0)
    on_line = (
        here.hour[0] * here.step[0] / here.hour[1]
    )  # step of the same cost at the offer's hour
    assert (here.step[1] < on_line) == pays == (here.more[1] < 0)


# decision -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sent", "price", "team", "gpus"),
    [
        (35.0, 100, "all", 1024),
        (0.4, 100, "Ethernet", 1024),
        (35.0, 150, "all", 1024),
        (1.0, 150, "new", 16),
    ],
)
def test_the_lit_path_leads_to_the_answer(sent, price, team, gpus):
    scene = live.decision(sent, price, team, gpus=gpus).scene
    found = economics.decide(
        levels=economics.team(team), sent=sent * 1e9, price_infiniband=price / 100, gpus=gpus
    )
    edges = scene.layers["edges"].fields
    lit = np.flatnonzero(edges["colour"] == COLOUR["ink"])
    assert len(lit) == len(found.tree.path) - 1
    left, top, _ = decision_trees.corner(found.answer)
    last = edges["ptr"][1:][lit].astype(int) - 1
    ends = set(zip(edges["x"][last].tolist(), edges["y"][last].tolist(), strict=True))
    assert (left, top + decision_trees._HIGH / 2) in ends
    assert "names" not in edges  # a box is read, and not the line below it
    chosen = np.flatnonzero(scene.layers["answer names"].fields["bold"])
    assert len(chosen) == 1
    answers = scene.layers["answers"].fields
    assert answers["names"][chosen[0]] == decision_trees.name_of(found.answer)
    table = scene.table
    row = table["network"].tolist().index(decision_trees.name_of(found.answer))
    assert table["answer"][row] == "yes"
    assert table["USD for a step"][row] == pytest.approx(found.costs[found.answer])


def test_every_question_and_answer_has_a_place_of_its_own():
    tree = economics.decide().tree
    keys = {*tree.branches, *tree.leaves}
    assert keys == set(decision_trees._PLACES)
    assert len(set(decision_trees._PLACES.values())) == len(keys)


def test_a_dearer_infiniband_turns_the_answer():
    (turn,) = economics.decide(CASE, sent=35.0e9).turns("price_infiniband")
    below = live.decision(price=int(100 * turn.value)).scene.said
    above = live.decision(price=int(100 * turn.value) + 1).scene.said
    assert below.startswith("The answer is InfiniBand")
    assert above.startswith("The answer is lossless Ethernet")


def test_costs_that_are_nearly_equal_are_told_as_the_same():
    close = live.decision(0.1).scene.said
    assert close.endswith("On InfiniBand it costs the same, within 0.05 %.")
    found = economics.decide(sent=0.1e9)
    more = found.costs[found.runner_up] / found.costs[found.answer] - 1
    assert abs(more) < decision_trees._NEARLY
    for sent in (0.1, 0.4, 1, 5, 10, 20, 29, 34, 35, 60):
        assert " 0.0 %" not in live.decision(sent).scene.said


def test_where_all_networks_cost_nearly_the_same_the_bars_have_a_scale_of_their_own():
    near, far = (live.decision(*asked).scene.side for asked in ((0.4, 100, "Ethernet"), (35.0,)))
    for side, longest, digits in ((near, 0.01, 2), (far, 0.10, 1)):
        told = side.layers["costs"].fields["texts"]
        assert all(len(words.split(".")[-1].removesuffix(" %")) == digits for words in told)
        more = np.array([float(words.split("+")[1].removesuffix(" %")) / 100 for words in told])
        drawn = side.layers["bars"].fields["w"] / decision_trees._BAR_WIDE
        assert drawn == pytest.approx(np.minimum(more / longest, 1), abs=0.01)


@pytest.mark.parametrize(("price", "sent"), [(0, 5.0), (25, 6.0), (0, 70.0), (200, 70.0)])
def test_all_that_an_offer_costs_lies_within_the_axes(price, sent):
    foot, top = cost_fronts._Y_ENDS
    for rate in (100.0, 1600.0):
        scene = live.cost_front(rate, price, sent).scene
        drawn = [scene.layers["networks"], scene.layers["two"], scene.side.layers["curve"]]
        for layer in drawn:
            assert np.all((layer.fields["y"] <= foot) & (layer.fields["y"] >= top))


def test_the_card_of_a_decision_has_room_for_a_finding_of_two_lines():
    assert live.decision().widget.spec["room"] == 2
    assert "room" not in live.cost_front().widget.spec


def test_no_name_of_the_decision_is_a_key():
    for layer in live.decision().scene.layers.values():
        assert not any("_" in name for name in layer.fields.get("names", ()))


def test_a_decision_refuses_jobs_without_gpus():
    with pytest.raises(ValueError, match="gpus"):
        live.decision(gpus=0)
