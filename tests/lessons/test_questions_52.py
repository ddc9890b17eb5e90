"""What the questions of lessons 52 and 52b call right and wrong is so in the library."""

import itertools
import re

import numpy as np
import pytest

from fabriclab import catalog, scenarios
from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.lessons import lesson52, lesson52b
from fabriclab.course.questions import find
from fabriclab.physics import frames


def shortest(queues, turn):
    best = turn
    for place in range(len(queues)):
        if queues[place] < queues[best]:
            best = place
    return best


@pytest.mark.parametrize(
    ("choice", "mistake"),
    [
        (shortest, ""),
        (lambda queues, turn: queues.index(min(queues)), ""),
        (lambda queues, turn: turn, "blind to queues"),
        (lambda queues, turn: (turn + 1) % len(queues), "blind to queues"),
        (lambda queues, turn: 0, "always the same uplink"),
        (lambda queues, turn: queues.index(max(queues)), "longest queue"),
    ],
)
def test_balancers_are_judged_and_mistakes_named(choice, mistake):
    is_right, _, found, *_ = lesson52.choice_of_uplink(choice)
    assert (is_right, found) == (not mistake, mistake)


@pytest.mark.parametrize("choice", [lambda queues, turn: None, lambda queues, turn: 99])
def test_a_balancer_that_returns_no_place_is_no_answer(choice):
    with pytest.raises(Unanswered, match=r"place, 0\.\.15|place of a port"):
        lesson52.choice_of_uplink(choice)


def test_goodput_is_judged_and_mistakes_named():
    assert lesson52b.goodput(4096) == pytest.approx(4096 / 4178)
    assert lesson52b.goodput_of_frame(lambda data: data / (data + -data % 4 + 82))[0]
    for name, rule in lesson52b.GOODPUT_MISTAKES.items():
        is_right, _, mistake, *_ = lesson52b.goodput_of_frame(rule)
        assert (is_right, mistake) == (False, name)


def test_go_back_n_keeps_what_the_formula_says():
    # A round trip of 10 us at 50 GB/s holds 122 packets; 16 MB are 3,907.
    path = scenarios.incast(
        1, "16 MB", length="484 m", lossless="none", timeout="50 us", **scenarios.LINE_RATE
    )
    for loss in (3e-3, 1e-2):
        kept = [
            1 - path.play(loss={path.links["port"]: loss}, seed=seed).sent_again
            for seed in range(6)
        ]
        assert np.mean(kept) == pytest.approx((1 - loss) / (1 - loss + loss * 122), abs=0.06)


def test_the_chance_of_three_flows_is_that_of_all_hashes():
    for m in (4, 8):
        all_hashes = list(itertools.product(range(m), repeat=3))
        free = sum(len(set(one)) == 3 for one in all_hashes)
        assert free / len(all_hashes) == (m - 1) * (m - 2) / m**2


def test_go_back_n_bears_spraying_until_a_spine_is_slow():
    healthy, sick = (
        scenarios.ecmp_collision(16, "500 kB", slow_path=share, timeout="100 us")
        for share in (1.0, 0.5)
    )
    hashed, sprayed = (healthy.play(balance=name) for name in ("pinned", "spray"))
    assert sprayed.last_finish < hashed.last_finish
    hashed, sprayed = (sick.play(balance=name) for name in ("pinned", "spray"))
    assert sprayed.last_finish > hashed.last_finish
    assert sprayed.sent_again > 0.5
    assert sprayed.dropped.sum() == 0


def test_a_switch_that_cuts_through_saves_the_packet_less_its_header():
    stored, cut = (
        scenarios.ecmp_collision(1, "4096 B", paths=1, cut_through=how).play(plain=True)
        for how in (False, True)
    )
    # Three switches at 50 GB/s, each of which waits for the header of 64 B.
    assert (stored.last_finish - cut.last_finish) == pytest.approx(3 * (4158 - 64) / 50e9, rel=0.01)


def test_credits_last_as_far_as_the_formula_says():
    # 31 packets of 4,158 B fit into 128 KiB; 262 m is where devices take no time.
    near, far = (scenarios.credit_loop(length, "4 MB").play() for length in ("200 m", "524 m"))
    assert near.goodput[0] > 0.94 * 50e9 * 4096 / 4178
    assert far.goodput[0] == pytest.approx(near.goodput[0] / 2, rel=0.1)


def test_the_type_of_version_1_is_no_protocol_of_routers():
    frame = frames.roce_v1(b"data")
    assert frame["Ethernet"]["type"] == 0x8915
    assert [header.name for header in frame.headers] == ["Ethernet", "GRH", "BTH"]
    assert frames.roce_v2(b"data").overhead == 82


def test_packets_overtake_each_other_where_queues_differ():
    sick = scenarios.ecmp_collision(4, "200 kB", slow_path=0.5, recovery="selective")
    depth = {
        name: scenarios.reorder_depth(sick.play(balance=name, log=20_000))
        for name in ("pinned", "adaptive", "spray")
    }
    assert depth["pinned"] == 0
    assert depth["pinned"] < depth["adaptive"] < depth["spray"]
    with pytest.raises(ValueError, match="give play a longer log"):
        scenarios.reorder_depth(sick.play(balance="spray", log=10))


def test_a_full_buffer_is_told_by_credits_or_by_a_pause():
    ib, roce = catalog.links["infiniband"], catalog.links["rocev2"]
    assert ib["flow_control"].value.startswith("credits")
    assert roce["flow_control"].value.startswith("pause")
    assert {s.attribute for s in ib.specs} == {s.attribute for s in roce.specs}
    words = re.findall("InfiniBand|RoCE|credits|pause", find("52b-full").right)
    assert words == ["InfiniBand", "credits", "RoCE", "pause"]
