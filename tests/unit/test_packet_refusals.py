"""What the packet engine refuses: each message says what was given, what is allowed and what to do."""

import numpy as np
import pytest

from fabriclab.core import Changes, Flows
from fabriclab.engines.packet import Settings, play
from fabriclab.errors import NoPath, Unreachable
from support import packet_runs as runs

STAR = [[0, 3]]


def fabric():
    return runs.star(3, delay=50e-9)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"paylaod": 1024}, r"'paylaod'.*knows payload.*did you mean 'payload'"),
        ({"payload": 0}, r"payload must be .*1.*got 0"),
        ({"control": "hpc"}, r"'hpc'.*did you mean 'hpcc'"),
        ({"balance": "sprays"}, r"'sprays'.*did you mean 'spray'"),
        ({"recovery": "none"}, r"recovery must be one of go_back_n, selective, got 'none'"),
        ({"lossless": "pfc"}, r"lossless must be one of pause, credits, none, got 'pfc'"),
        ({"buffer": 100}, r"buffer must hold a packet of 4158 B, got 100"),
        ({"pause_share": 0}, r"pause_share must be within 0..64, without 0, got 0"),
        ({"retries": -1}, r"retries must be >= 0, got -1"),
        ({"sample": 0}, r"sample must be at least 1 ps, got 0"),
        ({"marking": (5, 4, 0.1)}, r"marking needs 0 <= Kmin < Kmax .* got \(5, 4, 0.1\)"),
        ({"trim": True}, r'trim needs recovery="selective"'),
        (
            {"timeout": 0, "recovery": "selective"},
            r"timeout must be > 0 s, or a lost packet is never sent again",
        ),
        ({"loss": 1}, r"loss must be within 0..1, without 1, got 1; with 1 no packet would"),
        ({"loss": {77: 0.1}}, r"loss names link 77, and there are 6, numbered from 0"),
        ({"watch_links": (6,)}, r"watch_links names link 6, and there are 6"),
        ({"watch_flows": (1,)}, r"watch_flows names flow 1, and there are 1"),
        ({"receivers": {3: 1e9}}, r"receivers names rank 3, and there are 3"),
        ({"storms": ((9, 0.0, 1.0),)}, r"storms names link 9, and there are 6"),
        ({"storms": ((1, 1.0, 1.0),)}, r"must begin before it ends, got \(1, 1.0, 1.0\)"),
        ({"storms": ((1, 0.0),)}, r"\(link, begin, end\)"),
        ({"storms": ((0, 0.0, 1.0),)}, r"link 0 .* leads to a switch.*take a link from a switch"),
        (
            {"storms": ((3, 0.0, 1.0),), "receivers": {1: 1e9}},
            r"slow receiver as well; take one of both",
        ),
        ({"classes": {"bulk": 1}}, r"classes names 'bulk', and the flows have the labels flow"),
        ({"classes": {"flow": 16}}, r"classes\['flow'\] must be within 0..15, got 16"),
        ({"buffer": 30e3}, r"buffer of 30000 B is too small: headroom and reserve"),
        (
            {"headroom": 100, "xoff": 100, "reserve": 0},
            r"packet of 4158 B never finds room.*leave 200 B, so this scenario cannot end; give",
        ),
        (
            {"lossless": "none", "drop_share": 1e-5},
            r"never finds room .*drop_share of the buffer leave 320 B",
        ),
        ({"lossless": "credits", "credit": 4157}, r"credit must hold a packet of 4158 B.*4157"),
    ],
)
def test_settings_out_of_range_are_refused(config, told):
    given = {"buffer": 32e6} | config
    with pytest.raises(ValueError, match=told):
        runs.run(fabric(), STAR, 1e6, **given)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"fair": 1}, r"fair must be True or False, got 1"),
        ({"classes": 3}, r"classes must be a mapping.*got 3"),
        (
            {"control_options": {"windwo": 1}},
            r"control_options has 'windwo'.*'window' does not know.*options are window; did you mean",
        ),
        (
            {"balance": "flowlet", "balance_options": {"pause": 1}},
            r"balance_options has 'pause'.*'flowlet' does not know; its options are gap",
        ),
    ],
)
def test_settings_of_a_wrong_type_are_refused(config, told):
    with pytest.raises(TypeError, match=told):
        runs.run(fabric(), STAR, 1e6, **config)


def test_a_flow_without_a_route_is_refused():
    routes = runs.along([0, 3])
    flows = Flows.make([0, 0], [1, 2], 1e6)
    with pytest.raises(NoPath, match=r"flow 1 from host 0 to host 2 has 1e\+06 B and no route"):
        play(fabric(), routes, flows, plain=True)


def test_a_row_whose_links_do_not_meet_is_refused():
    routes = runs.along([0, 3], [0, 2])
    flows = Flows.make([0, 0], [1, 2], 1e6)
    with pytest.raises(ValueError, match=r"flow 1 has a row that is no path: .* followed by"):
        play(fabric(), routes, flows, plain=True)


def test_a_link_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"routes.link names link 8, and there are 6"):
        play(fabric(), runs.along([0, 8]), Flows.make(0, 1, 1e6), plain=True)
    change = Changes(np.array([0.0]), np.array([8]), np.array([0.0]))
    with pytest.raises(ValueError, match=r"changes.link names link 8, and there are 6"):
        runs.run(fabric(), STAR, 1e6, changes=change)


def test_a_link_without_capacity_is_refused():
    dead = fabric().without(links=[3])
    with pytest.raises(
        Unreachable, match=r"flow 0 crosses .*\(link 3\), which has no capacity; route"
    ):
        play(dead, runs.along([0, 3]), Flows.make(0, 1, 1e6), plain=True)


def test_groups_in_order_are_refused():
    flows = Flows.make([0, 0], [1, 1], 1e6, group=[0, 1], repeat=[1, 1])
    with pytest.raises(
        ValueError, match=r"one graph of flows, got 2 groups in order; call flows.exp"
    ):
        play(fabric(), runs.along([0, 3], [0, 3]), flows, plain=True)


@pytest.mark.parametrize("timeout", ["1 ms", 0])
def test_a_run_in_which_nothing_happens_any_more_says_why(timeout):
    down = Changes(np.array([10e-6]), np.array([3]), np.array([0.0]))
    told = "flow 0 gave up: 8 times" if timeout else "flow 0 can never end: .* timeout is 0 s"
    with pytest.raises(Unreachable, match=told):
        runs.run(fabric(), STAR, 1e6, changes=down, timeout=timeout)


def test_all_settings_have_a_line_in_the_docstring():
    for name in Settings.__dataclass_fields__:
        assert name in (Settings.__doc__ or "")
