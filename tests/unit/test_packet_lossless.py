"""Fabrics that lose nothing, and what that costs: headroom, credits, deadlocks, storms, victims, flaps."""

import csv
import re

import numpy as np
import pytest

from fabriclab.core import Changes
from fabriclab.engines.packet import headroom
from fabriclab.errors import Deadlock, Unreachable
from support import packet_runs as runs
from support.packet_runs import DELAY, FRAME, LENGTH, RATE

WIDE = {"window": "10 MB"}


def published(root):
    """Return the rows of the table of headrooms: rate, length, quanta and bytes."""
    # Computed from the cited delays of IEEE 802.3; each row names its sources.
    text = (root / "tests" / "data" / "pfc_ib.csv").read_text("utf-8")
    longest = {"100": 394, "400": 905}  # quanta that IEEE 802.3 allows
    rows = []
    for row in csv.DictReader(text.splitlines()):
        if row["id"] != "pfc_headroom_ex":
            continue
        rate, length = re.match(r"(\d+)G, (\d+) m", row["name"]).groups()
        quanta = longest[rate] if "802.3 maximum" in row["name"] else 60
        rows.append((f"{rate} Gb/s", f"{length} m", quanta, float(row["value"])))
    return rows


# Headroom -------------------------------------------------------------------------------------------------------------


def test_the_calculator_gives_the_published_table(root):
    rows = published(root)
    assert len(rows) == 30
    for rate, length, quanta, size in rows:
        assert headroom(rate, length, quanta=quanta) == size
        assert headroom(rate, length, quanta=quanta, gap=0) == size - 40


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"quanta": 61}, 64),
        ({"frame": 9217}, 2),
        ({"gap": 21}, 2),
        ({"switch_delay": 1e-9}, 100),
        ({"length": LENGTH + 1}, 500),
    ],
)
def test_each_part_of_the_formula_counts_as_often_as_it_happens(change, more):
    base = {"rate": RATE, "length": LENGTH}
    assert headroom(**(base | change)) - headroom(**base) == more


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rate": 0}, "rate"),
        ({"length": "-1 m"}, "length"),
        ({"frame": 63}, "frame"),
        ({"quanta": -1}, "quanta"),
        ({"gap": -1}, "gap"),
        ({"switch_delay": 11.0}, "switch_delay"),
    ],
)
def test_the_calculator_refuses_what_no_link_has(wrong, told):
    with pytest.raises(ValueError, match=told):
        headroom(**({"rate": RATE, "length": LENGTH} | wrong))


def test_the_worst_alignment_needs_nearly_the_bound_and_not_a_byte_less():
    offset, needed = runs.worst_offset()
    assert needed == 72_235
    assert headroom(RATE, LENGTH) == 72_396
    assert headroom(RATE, LENGTH, gap=0) == 72_356
    for memory in (headroom(RATE, LENGTH), headroom(RATE, LENGTH, gap=0), needed):
        assert runs.align(offset, memory) == (0, needed)
    assert runs.align(offset, needed - 1).lost == 1
    assert runs.align(offset, needed - FRAME).lost == 1


def test_no_alignment_needs_more_than_the_worst_one():
    offset, needed = runs.worst_offset()
    for other in (0, FRAME // 2, offset - 1, offset + 1, FRAME - 1):
        found = runs.align(other, needed)
        assert found.lost == 0
        assert found.stored < needed


def test_a_pause_that_waits_for_no_frame_leaves_with_the_byte_that_reaches_the_threshold():
    offset, needed = runs.worst_offset(waits=False)
    assert needed == 72_235 - FRAME
    assert runs.align(offset, needed, waits=False) == (0, needed)
    assert runs.align(offset, needed - 1, waits=False).lost == 1
    # Two bytes earlier in the frame, and one frame less follows.
    assert runs.align(offset + 2, needed, waits=False) == (0, needed + 2 - FRAME)


@pytest.mark.parametrize("share", [0.125, 1.0, 8.0])
def test_a_dynamic_threshold_is_a_share_of_what_it_leaves_free(share):
    """Alone at a switch, an ingress takes x bytes until x = share (buffer - x)."""
    fabric = runs.star(2, delay=50e-9)
    routes = runs.along([0, 3])
    flows = runs.between(fabric, routes, 300 * 4096)
    config = {
        "pause_share": share,
        "buffer": 500e3,
        "control_options": WIDE,
        "storms": ((3, 0.0, "200 us"),),
    }
    most = []
    runs.walk(
        runs.Scenario(fabric, routes, flows, config),
        lambda lists, settings: most.append((lists.queues[0].shared, lists.nodes[2].buffer)),
    )
    shared, buffer = max(most)
    assert shared == int(share * buffer / (1 + share))


def test_at_70_kb_one_alignment_in_four_loses():
    # The offsets that fill more than 70,000 B are 5,489..7,723, of 9,236 B from frame to frame: 24.2 %.
    offsets = range(0, FRAME + runs.GAP, 770)
    losing = [min(offset, FRAME - 1) for offset in offsets]
    lost = [runs.align(offset, 70_000).lost > 0 for offset in losing]
    assert np.mean(lost) == pytest.approx(0.242, abs=1 / len(lost))


@pytest.mark.parametrize(
    ("rate", "delay", "frame", "response"),
    [(12.5e9, 15e-9, 1500, 307.2e-9), (12.5e9, 5e-6, 9216, 0.0), (100e9, 150e-9, 4096, 1e-6)],
)
def test_the_worst_alignment_of_other_links_is_the_bound_of_the_engine(
    rate, delay, frame, response
):
    link = {"rate": rate, "delay": delay, "frame": frame, "response": response}
    offset, needed = runs.worst_offset(**link)
    bound = rate * (2 * delay + response) + 2 * frame + 64 + 20
    assert bound - 3 * frame / 4 < needed <= bound
    assert runs.align(offset, needed, **link) == (0, needed)
    assert runs.align(offset, needed - 1, **link).lost == 1


def test_a_pause_that_is_taken_back_before_it_works_stops_nobody():
    """The port is free at once: the end of the pause comes before the sender has obeyed, and undoes it."""
    trace = runs.run(
        runs.star(2, delay=50e-9),
        [[0, 3]],
        400 * 4096,
        xoff=1,
        reserve=0,
        xon_gap=0,
        response="10 us",
        control_options=WIDE,
    )
    alone = runs.run(
        runs.star(2, delay=50e-9), [[0, 3]], 400 * 4096, lossless="none", control_options=WIDE
    )
    assert trace.finish[0] == alone.finish[0]
    assert trace.pauses.sum() == 0


# Credits --------------------------------------------------------------------------------------------------------------


def with_credits(rate, length, *, payload=256, credit=131_072):
    """Return the share of line rate that a cable of a length carries, and what it should be in so short a run."""
    delay = length * 5e-9
    frame = payload + 26  # InfiniBand: local and base transport headers, two checksums
    n = 4 * credit // payload
    trace = runs.run(
        runs.star(2, rate=rate, delay=[delay, 0.0]),
        [[0, 3]],
        n * payload,
        payload=payload,
        header=26,
        gap=0,
        lossless="credits",
        credit=credit,
        control_options={"window": "100 MB"},
        timeout="1 s",
    )
    at_once = credit // frame
    round_trip = max(at_once * frame / rate, 2 * delay + frame / rate)
    whole, rest = divmod(n, at_once)
    expected = n * frame / rate / (whole * round_trip + rest * frame / rate)
    return n * frame / (trace.finish[0] - delay) / rate, expected, trace


# 128 KiB for each lane: 1,049 m at 100 Gb/s and 262 m at 400 Gb/s (tests/data/pfc_ib.csv).
@pytest.mark.parametrize(("rate", "reach"), [(12.5e9, 1049), (50e9, 262)])
def test_credits_reach_as_far_as_they_fill_the_cable(rate, reach):
    for part in (0.5, 0.95):
        assert with_credits(rate, part * reach)[0] == pytest.approx(1.0, abs=0.005)
    assert with_credits(rate, reach)[0] == pytest.approx(1.0, abs=0.01)
    for times in (1.5, 2, 4):
        # Beyond it: what is granted, once in each round trip.
        share, expected, _ = with_credits(rate, times * reach)
        assert share == pytest.approx(expected, rel=0.005)
        assert expected == pytest.approx(1 / times, rel=0.12)


def test_credits_lose_nothing_and_pause_nobody():
    share, _, trace = with_credits(50e9, 1000)
    assert share < 0.3
    assert trace.pauses.sum() == trace.drops.sum() == trace.resent.sum() == 0


# Deadlock, storms -----------------------------------------------------------------------------------------------------


def ring(n=3):
    """Return a ring of switches with a host each, and paths of which each crosses two cables of the ring."""
    cables = [(host, n + host) for host in range(n)]
    cables += [(n + i, n + (i + 1) % n) for i in range(n)]
    fabric = runs.network(cables, n, n, delay=50e-9)
    paths = []
    for host in range(n):
        first, second = n + host, n + (host + 1) % n
        paths.append([2 * host, 2 * first, 2 * second, 2 * ((host + 2) % n) + 1])
    return fabric, paths


RING = {"buffer": 500e3, "control_options": WIDE}


@pytest.mark.parametrize("config", [{}, {"fair": True, "xoff": 1, "reserve": 0}])
def test_a_ring_of_three_switches_freezes(config):
    fabric, paths = ring()
    names = r"switch 2 -> switch 0 -> switch 1 -> switch 2"
    turned = (
        r"switch 0 -> switch 1 -> switch 2 -> switch 0|switch 1 -> switch 2 -> switch 0 -> switch 1"
    )
    with pytest.raises(Deadlock, match=f"circle: ({names}|{turned}).*3 of 3 flows.*watchdog"):
        runs.run(fabric, paths, 1e6, **(RING | config))


def test_credits_freeze_the_ring_too():
    fabric, paths = ring()
    with pytest.raises(Deadlock, match="circle"):
        runs.run(fabric, paths, 1e6, lossless="credits", credit=20_000, control_options=WIDE)


def test_a_watchdog_clears_the_ring_and_packets_pay():
    fabric, paths = ring()
    trace = runs.run(fabric, paths, 1e6, watchdog="50 us", timeout="200 us", **RING)
    assert np.all(np.isfinite(trace.finish))
    assert trace.dropped.sum() > 0
    assert trace.finish.min() > 50e-6


def test_a_ring_whose_flows_cross_one_cable_does_not_freeze():
    fabric, paths = ring()
    short = [[path[0], path[1], 2 * ((host + 1) % 3) + 1] for host, path in enumerate(paths)]
    trace = runs.run(fabric, short, 1e6, **RING)
    assert trace.resent.sum() == 0


@pytest.mark.parametrize("seed", range(3))
def test_routes_up_and_down_never_freeze(seed):
    """All to all on leaves and spines, with so little buffer that nearly every cable is paused."""
    rng = np.random.default_rng(seed)
    fabric = runs.leaf_spine(rate=[RATE] * 4 + [RATE / 4] * 4)
    paths = []
    for begin in range(4):
        for end in range(4):
            if begin != end:
                choices = runs.leaf_spine_paths(begin, end)
                paths.append(choices[int(rng.integers(len(choices)))])
    trace = runs.run(fabric, paths, 200e3, xoff=5_000, control_options=WIDE)
    assert trace.pauses.sum() > 40
    assert trace.drops.sum() == trace.resent.sum() == 0


# Hosts 0 and 1 on one leaf, 2 and 3 on the other; a spine in between. The card of host 2 goes mad.
STORM_CABLES = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]
STORM_PATHS = [[0, 8, 11, 5], [2, 8, 11, 7]]
STORM = {"buffer": 1e6, "control_options": {"window": "2 MB"}, "storms": ((5, 0.0, "300 us"),)}


def test_a_storm_spreads_upstream_and_stops_who_has_nothing_to_do_with_it():
    fabric = runs.network(STORM_CABLES, 4, 3, delay=50e-9)
    quiet = STORM | {"storms": ()}
    before = runs.run(fabric, STORM_PATHS, [4e6, 1e6], **quiet)
    trace = runs.run(fabric, STORM_PATHS, [4e6, 1e6], **STORM)
    stopped = trace.paused[:, 0]
    assert stopped[5] == pytest.approx(300e-6)
    assert np.all(stopped[[11, 8, 0, 2]] > 250e-6)
    assert stopped[11] > stopped[8]
    assert trace.finish[1] > before.finish[1] + 250e-6
    assert trace.dropped.sum() == 0


def test_a_watchdog_stops_the_storm():
    fabric = runs.network(STORM_CABLES, 4, 3, delay=50e-9)
    trace = runs.run(fabric, STORM_PATHS, [4e6, 1e6], watchdog="20 us", timeout="100 us", **STORM)
    assert trace.paused[5, 0] == pytest.approx(20e-6)
    assert trace.finish[1] < 100e-6
    assert trace.dropped[0] > 0
    assert trace.dropped[1] == 0


# Victims, flaps, slow receivers, loss ---------------------------------------------------------------------------------

# Hosts 0 and 1 on one switch, 2 (at a quarter of the rate) and 3 on the other. Both flows share the cable between.
VICTIM_CABLES = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)]
VICTIM_RATES = [RATE, RATE, RATE / 4, RATE, RATE]
VICTIM_PATHS = [[0, 8, 5], [2, 8, 7]]


def test_a_pause_makes_a_victim_of_a_flow_that_goes_elsewhere():
    """Behind a cable that is paused for the slow port, the flow to the fast one gets the rate of the slow one."""
    fabric = runs.network(VICTIM_CABLES, 4, 2, rate=VICTIM_RATES, delay=50e-9)
    labels = {"label": [0, 1], "labels": ("slow", "victim")}
    finish = {}
    for name, config in {
        "pause": {},
        "loss": {"lossless": "none", "buffer": 32e6},
        "class": {"classes": {"victim": 1}},
    }.items():
        given = {"buffer": 1e6, "control_options": {"window": "2 MB"}} | config
        trace = runs.run(fabric, VICTIM_PATHS, 4e6, columns=labels, **given)
        finish[name] = trace.finish[1]
    assert finish["pause"] > 4e6 / (RATE / 4) * 0.95
    assert finish["loss"] < 0.5 * finish["pause"]
    assert finish["class"] < 0.4 * finish["pause"]


@pytest.mark.parametrize("recovery", ["go_back_n", "selective"])
@pytest.mark.parametrize("link", [0, 3])
def test_a_flap_is_survived_if_it_is_shorter_than_all_tries(link, recovery):
    """Eight tries of 100 us: 0.7 ms without a cable cost 0.7 ms, 0.9 ms cost the connection, at either end."""
    given = {"timeout": "100 us", "retries": 7, "recovery": recovery}
    fabric = runs.star(2, delay=50e-9)

    def flap(down):
        return Changes(
            np.array([20e-6, 20e-6 + down]), np.array([link, link]), np.array([0.0, RATE])
        )

    calm = runs.run(fabric, [[0, 3]], 4e6, **given)
    trace = runs.run(fabric, [[0, 3]], 4e6, changes=flap(0.7e-3), **given)
    assert trace.finish[0] == pytest.approx(calm.finish[0] + 0.7e-3, abs=101e-6)
    with pytest.raises(Unreachable, match=r"flow 0 gave up: 8 times .* after \d+ of 977 packets"):
        runs.run(fabric, [[0, 3]], 4e6, changes=flap(0.9e-3), **given)


@pytest.mark.parametrize("lossless", ["pause", "credits"])
def test_a_slow_receiver_slows_its_senders_to_its_own_rate(lossless):
    trace = runs.run(
        runs.star(3, delay=50e-9),
        [[0, 3], [4, 3], [0, 5]],
        [2e6, 2e6, 1e6],
        receivers={1: 10e9},
        lossless=lossless,
        buffer=1e6,
        control_options={"window": "2 MB"},
        timeout="10 ms",
    )
    # What its buffer holds at the end has come already.
    wire = 4e6 * (4096 + runs.HEADER) / 4096
    stored = 2 * 65536 + 64e3
    assert (wire - stored) / 10e9 < trace.finish[:2].max() < wire / 10e9 + 10e-6
    assert trace.drops.sum() == trace.resent.sum() == 0
    # The flow from host 0 to host 2 shares its port with one that stands still.
    assert trace.finish[2] > 3 * 1e6 / RATE


def loss_share(recovery, n, seed, *, plain):
    """Return the goodput of one flow at 50 GB/s and a round trip of 10 us, of which 1 % of 4,096 B packets get lost."""
    one_way = 4.9e-6  # with a packet on each of two links, 10 us there and back
    trace = runs.run(
        runs.star(2, delay=[one_way, 0.0]),
        [[0, 3]],
        n * 4096,
        header=0,
        gap=0,
        recovery=recovery,
        reorder="100 ns" if recovery == "selective" else None,
        loss={0: 0.01},
        lossless="none",
        timeout="15 us",
        control_options={"window": "2 MB"},
        rng=np.random.default_rng(seed),
        plain=plain,
    )
    return n * 4096 / RATE / (trace.finish[0] - one_way)


def test_one_loss_in_a_hundred_halves_go_back_n_and_leaves_selective_alone():
    """Closed form: a loss costs go-back-N the 122 packets in flight, (1 - p) / (1 - p + 122 p) = 45 %."""
    expected = 0.99 / (0.99 + 0.01 * RATE * 10e-6 / 4096)
    assert expected == pytest.approx(0.45, abs=0.005)
    is_fast = not runs.PLAIN
    n, within = (40_000, 0.02) if is_fast else (4_000, 0.08)
    found = {}
    for recovery in ("go_back_n", "selective"):
        shares = [loss_share(recovery, n, seed, plain=runs.PLAIN) for seed in range(4)]
        found[recovery] = np.mean(shares)
    assert found["go_back_n"] == pytest.approx(expected, abs=within)
    # The last packets that get lost are sent again after all others: at most a timeout and two round trips.
    end = 35e-6 / (n * 4096 / RATE)
    assert 0.985 - end < found["selective"] < 0.995


def test_a_receiver_that_grants_lets_lost_packets_be_sent_again():
    trace = runs.run(
        runs.star(2, delay=50e-9),
        [[0, 3]],
        200 * 4096,
        grants=True,
        recovery="selective",
        loss=0.05,
        timeout="100 us",
        lossless="none",
        rng=np.random.default_rng(1),
    )
    assert trace.resent.sum() >= trace.dropped.sum() > 0


def test_the_parts_of_a_flow_add_up_to_its_bytes():
    """Two rows of half of an odd number of bytes: no byte is sent twice."""
    fabric = runs.leaf_spine()
    first, second = runs.leaf_spine_paths(0, 2)
    trace = runs.run(fabric, [(0, first), (0, second)], 7363, header=0, payload=64)
    assert trace.sent[0] == 7363


def test_delay_is_headroom():
    """The engine counts the delay of both directions of a link, propagation and forwarding."""
    settings = runs.Settings(payload=FRAME - runs.HEADER, response=runs.RESPONSE)
    needed = runs.headroom_needed(RATE, RATE, DELAY, DELAY, settings)
    assert needed == headroom(RATE, LENGTH)
    assert runs.headroom_needed(RATE, RATE, DELAY, 2 * DELAY, settings) == needed + RATE * DELAY
    slower = runs.headroom_needed(RATE, RATE / 2, DELAY, DELAY, settings)
    assert slower == needed + FRAME + runs.GAP + 84
