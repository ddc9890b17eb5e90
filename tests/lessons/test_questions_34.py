"""What the questions and sentences of lesson 34 call right and wrong is so in the library."""

import json
import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import catalog, collectives, live, topologies, units
from fabriclab.course.questions import find
from fabriclab.engines import run
from fabriclab.routing import route
from support import ROOT

CASE = catalog.case()
TOKEN = 2 * CASE.hidden
LINKS = {"nic": CASE.nic_rate, "nvlink": CASE.nvlink_per_gpu}
CELLS = {
    cell["id"]: "".join(cell["source"])
    for cell in json.loads((ROOT / "notebooks/34_all_to_all_and_skew.ipynb").read_text("utf-8"))[
        "cells"
    ]
}


def told(cell, function, **values):
    """Return what the function of a cell of the lesson draws, and its sentence."""
    names = {"np": np, "fl": fl, "coll": collectives, "case": CASE, "token": TOKEN, "links": LINKS}
    exec(CELLS[cell].split("\nhands")[0].split("\nfl.live")[0], names)
    return names[function](**values)


@pytest.fixture(scope="module")
def rails():
    return topologies.build("rail_optimised", servers=8)


def dispatch(rails, popular, way="spray", tokens=4096):
    share = np.array([popular] + 63 * [1]) / (63 + popular)
    flows = collectives.expert_flows(
        rails, [np.tile(tokens * share, (64, 1)) * (1 - np.eye(64))], TOKEN
    )
    return run(rails, route(rails, flows, way), flows).end


def test_steps_do_not_help_and_each_pays_its_latency(rails):
    rank, block = np.arange(64), 64 * TOKEN / CASE.nic_rate
    for order, blocks in ((lambda step: (rank + step) % 64, 63), (lambda step: rank ^ step, 56)):
        tables = [64 * (1 - np.eye(64)) * (order(step)[:, None] == rank) for step in range(64)]
        flows = collectives.expert_flows(rails, tables, TOKEN)
        end = run(rails, route(rails, flows, "spray"), flows).end
        # Beyond the blocks: latency of each step, and the steps inside a server over NVLink.
        assert blocks * block < end < 1.08 * blocks * block and end > 1.05 * dispatch(rails, 1)
    assert dispatch(rails, 1) == pytest.approx(56 * block, rel=2e-3)


def test_a_relay_at_the_target_takes_the_favourite_in_over_other_cards(rails):
    fair = dispatch(rails, 1)
    found = {way: dispatch(rails, 2, way) / fair for way in ("spray", "pxn", "rail_aligned")}
    assert found == pytest.approx({"spray": 1.968, "pxn": 1.968, "rail_aligned": 1.107}, abs=2e-3)
    assert found["spray"] == pytest.approx(find("34-skew").key({"e": 64}), rel=1e-3)


@pytest.mark.parametrize(("s", "g"), [(16, 4), (8, 8)])
def test_a_relay_divides_the_messages_as_the_answer_says(s, g):
    by_card = []
    for way in ("direct", "hierarchical"):
        plan = collectives.build(
            "all_to_all", way, s * g, **{"per_server": g} if way == "hierarchical" else {}
        )
        pairs = [set(zip(p.source.tolist(), p.target.tolist(), strict=True)) for p in plan.steps()]
        by_card.append(sum(a // g != b // g for step in pairs for a, b in step))
    assert by_card[0] / by_card[1] == find("34-messages").key({"s": s, "g": g})


FORMS = ("low latency, one copy per choice", "high throughput, one copy per server")


@pytest.mark.parametrize("start", [1.0, 10.0, 50.0])
def test_the_sentence_names_the_tokens_from_which_one_copy_pays(start):
    for choices in (8, 4):
        drawn, said = told("34-crossover", "forms", choices=choices, start=start)
        n = int(re.search(r"pays from (\d+) tokens", said)[1])
        low, high = (drawn[form] for form in FORMS)
        gap = np.interp([(n - 1) * TOKEN, (n + 1) * TOKEN], low.size, low.time - high.time)
        assert gap[0] < 0 < gap[1]
    drawn, said = told("34-crossover", "forms", choices=2, start=start)
    assert said.endswith("never pays.") and np.all(drawn[FORMS[1]].time > drawn[FORMS[0]].time)


@pytest.mark.parametrize("ranks", [8, 64, 512])
def test_the_sentence_names_where_pairwise_overtakes_bruck(ranks):
    view = live.sweep(
        lambda ranks: told("34-starts", "ways", ranks=ranks, start=14.0),
        controls={"ranks": live.Choice((8, 64, 512))},
        ranks=ranks,
    )
    size = units.size(re.search(r"up to (\S+ \S+)\. ", view.scene.said)[1])
    bruck, pairwise = (
        collectives.closed_form("all_to_all", way)(size, ranks, 14e-6, CASE.nic_rate)
        for way in ("bruck", "pairwise")
    )
    assert bruck == pytest.approx(pairwise, rel=0.01)
    mark = view.scene.layers["crossing"].fields["texts"][0]
    assert units.size(mark.split("near ")[1]) == pytest.approx(
        size, rel=0.05
    ) and view.scene.said in str(view)


def test_nvlink_makes_the_forecast_later_than_the_check():
    question, chosen = find("34-crossover"), collectives.choose_experts(64, 128, 8)
    pays, free = (
        collectives.expert_crossover(chosen, 7168, alpha=45e-6, **LINKS | more)
        for more in ({}, {"nvlink": 1e14})
    )
    assert 1.3 < pays / free < 1.6
    inside = collectives.expert_tables(chosen)[1].sum() / (64 * 128)
    # copies of a token that NVLink passes on, as the question says
    assert inside == pytest.approx(7, rel=0.01)
    slow = {"a": 45e-6, "b": 50e9, "c": 2, "s": 8e3, "v": LINKS["nvlink"]}
    counted = next(formula for name, formula, _ in question.wrong if name == "NVLink counted")
    assert fl.formulas.evaluate(counted, slow) > 1.3 * question.key({})
