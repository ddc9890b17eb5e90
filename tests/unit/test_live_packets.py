"""Live views of single packets, of load balancing and of pauses: what they show is what the packet engine says."""

from dataclasses import replace

import numpy as np
import pytest

from fabriclab import live
from fabriclab.look import COLOUR
from fabriclab.views.live import balancers, crossings, pause_maps
from support.live_views import VIEWS, check_that_it_fits, states

ANSWERS = tuple(crossings.ANSWERS)
STORED = 4096 + 62  # of a full packet [B]
NAMES = (
    "inside switch",
    "marks",
    "drops",
    "trims",
    "credits",
    "collisions",
    "reordering",
    "even spines",
    "pause map",
    "watched",
    "slow receiver",
)


@pytest.mark.parametrize("name", NAMES)
def test_every_state_fits_into_a_small_window(name):
    for scene in states(VIEWS[name]()):
        check_that_it_fits(scene)


# packets in a switch ------------------------------------------------------------------------------
@pytest.mark.parametrize("forwarding", ["store", "cut"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_journeys_add_up_to_the_counters_of_the_run(answer, forwarding):
    trace = crossings.traced(answer, forwarding)
    run = crossings.crossed(answer, forwarding)
    journeys = run.journeys
    assert len(trace.log) < crossings.LINES
    assert np.count_nonzero(~journeys.is_again) == trace.packets.sum() == 80
    assert np.count_nonzero(journeys.is_again) == trace.resent.sum()
    assert np.count_nonzero(journeys.is_marked) == trace.marks.sum()
    assert np.count_nonzero(np.isfinite(journeys.lost)) == trace.dropped.sum()
    wanted = trace.drops.sum() if answer == "trim" else 0
    assert np.count_nonzero(journeys.is_cut) == wanted
    # The engine's peak counts a packet that comes at the very moment at which another one leaves.
    out = list(crossings.network().outputs)
    peak = trace.peak[out].sum(axis=1) / STORED
    if answer != "trim":
        assert np.all(run.waiting.max(axis=0) <= peak)
        assert np.all(run.waiting.max(axis=0) >= peak - 1)
    kinds = {"mark": "marked", "pause": "stops", "credit": "stops", "drop": "lost", "trim": "cut"}
    happened = {
        "marked": journeys.is_marked.any(),
        "stops": any(len(stops) for stops in run.stops),
        "lost": np.isfinite(journeys.lost).any(),
        "cut": journeys.is_cut.any(),
    }
    assert [kind for kind, did in happened.items() if did] == [kinds[answer]]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_packet_needs_its_length_its_cable_and_the_switch(answer):
    whole, quick = (crossings.crossed(answer, way) for way in ("store", "cut"))
    for run, length in ((whole, whole.packet), (quick, 0.0)):
        journeys = run.journeys
        came_in = np.isfinite(journeys.queued)
        took = (journeys.queued - journeys.sent)[came_in]
        least = run.cable + run.forwarding + length
        # With cut-through, the header of 64 bytes and a gap of 20 have to be there.
        assert took.min() == pytest.approx(least, abs=2e-9)
        is_full = np.isfinite(journeys.came) & ~journeys.is_cut
        on_cable = (journeys.came - journeys.left)[is_full]
        assert on_cable == pytest.approx(run.packet + run.cable, abs=1e-11)


@pytest.mark.parametrize("answer", ["pause", "credit"])
def test_a_stopped_host_begins_no_packet(answer):
    run = crossings.crossed(answer, "store")
    for sender, stops in enumerate(run.stops):
        sent = run.journeys.sent[run.journeys.sender == sender]
        for begin, end in stops:
            assert not np.any((sent > begin + 1e-12) & (sent < end - 1e-12))
        assert sender in run.stopped_at(stops[0].mean())
    assert run.stopped_at(0.0) == []


def test_only_without_loss_does_the_free_port_wait_for_the_full_one():
    victim = {a: crossings.crossed(a, "store").finish[3] for a in ANSWERS}
    assert min(victim["pause"], victim["credit"]) > max(
        victim["mark"], victim["drop"], victim["trim"]
    )
    # With marks, C and D share the host's port in turn until all of both is sent.
    alone = crossings.crossed("mark", "store").alone[3]
    assert victim["mark"] < 1.5 * alone


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_packet_is_at_one_place(answer):
    view = live.inside_switch(answer=answer)
    run = crossings.crossed(answer, "store")
    journeys = run.journeys
    for moment in range(0, 7000, 700):
        scene = view.set(moment=moment).scene
        now = view.values["moment"] / 1e9
        layers = scene.layers
        there = sum((layers[part].fields["w"] > 0).astype(int) for part in ("coming", "inside"))
        waits = (journeys.queued <= now) & ~(journeys.left <= now)
        assert np.all(layers["inside"].fields["w"][waits] > 0)
        assert np.all(there[journeys.sent >= now] == 0)
        names = layers["seen"].fields["names"]
        begun = np.count_nonzero(journeys.sent < now)
        over = np.count_nonzero((journeys.came <= now) | (journeys.lost <= now))
        assert len(names) == begun - over
        # On a cable packets follow each other and do not overlap.
        for part, of in (("coming", journeys.sender), ("leaving", journeys.port)):
            fields = layers[part].fields
            for lane in range(3):
                is_here = (of == lane) & (fields["w"] > 0)
                order = np.argsort(fields["x"][is_here])
                left = fields["x"][is_here][order]
                right = left + fields["w"][is_here][order]
                assert np.all(left[1:] >= right[:-1] - 0.01)
        marked = layers["leaving"].fields["colour"] == COLOUR["marked"]
        assert np.array_equal(marked, journeys.is_marked & (journeys.left <= now))


@pytest.mark.parametrize("answer", ["pause", "mark"])
def test_no_packet_is_without_its_letter_where_more_of_it_is_seen(answer):
    view = live.inside_switch(answer=answer, forwarding="cut")
    for moment in range(0, 4000, 120):
        layers = view.set(moment=moment).scene.layers
        wide = np.array([layers[part].fields["w"] for part in ("coming", "inside", "leaving")])
        has_rest = (wide > 0).sum(axis=0) > 1
        assert np.all((wide == 0) | (wide >= 12) | ~has_rest)
        corners = layers["corners"].fields
        begins = [layers[part].fields["x"] for part in ("inside", "leaving")]
        wide = [layers[part].fields["w"] for part in ("inside", "leaving")]
        begin, wide = np.concatenate(begins), np.concatenate(wide)
        for x in corners["x"][::2]:  # a corner cuts a third of a packet off, above its letter
            cut = begin + wide - x
            assert any((cut > 0) & (cut <= 0.36 * wide) & (cut <= 8.1))


# load balancing -----------------------------------------------------------------------------------
def case(**values):
    given = {"flows": 12, "seed": 0, "transport": "selective", "slow": True}
    return balancers.Case(**(given | {"spines": 8, "size": 65536.0} | values))


def test_every_uplink_carries_what_the_flows_send():
    for name in balancers._BALANCERS:
        found = balancers.spread(case(), name)
        assert found.load.sum() == pytest.approx(12, rel=1e-6)  # nothing is sent twice
        assert found.again == 0 and found.slowdown.min() > 0.99
    hashed = balancers.spread(case(), "hash")
    assert hashed.load == pytest.approx(np.round(hashed.load)) and hashed.late == 0
    assert hashed.moves == 0
    scenario = balancers.scenario_of(case())
    uplink = scenario.routes.link[scenario.routes.ptr[:-1] + 1]
    _, counts = np.unique(uplink, return_counts=True)
    assert sorted(hashed.load[hashed.load > 0].round()) == sorted(counts)
    sprayed = balancers.spread(case(), "spray")
    assert sprayed.load.max() - sprayed.load.min() < 12 / 16 and sprayed.late > 0


def test_packets_out_of_order_are_counted_as_the_log_has_them():
    scenario = balancers.scenario_of(case())
    trace = scenario.play(seed=0, log=balancers._LINES, balance="spray")
    assert len(trace.log) < balancers._LINES
    highest = {}
    late = 0
    for _, kind, _, connection, number, _ in trace.log.tolist():
        if kind == 2:  # came
            late += number < highest.get(connection, -1)
            highest[connection] = max(number, highest.get(connection, -1))
    assert late == balancers.spread(case(), "spray").late


def test_go_back_n_pays_for_reordering_and_selective_repeat_does_not():
    equal = balancers.spread(case(flows=8, slow=False, size=262144.0), "spray")
    hashed = balancers.spread(case(flows=8, slow=False, size=262144.0), "hash")
    assert equal.worst < 1.3 < hashed.worst
    back, selective = (
        balancers.spread(case(transport=way, size=262144.0), "spray")
        for way in ("go_back_n", "selective")
    )
    assert back.again > 0.3 and selective.again == 0
    assert back.worst > 3 * selective.worst
    assert balancers.spread(case(transport="go_back_n", size=262144.0), "hash").again == 0


def test_what_cannot_be_shown_of_load_balancing_is_refused_by_name():
    with pytest.raises(ValueError, match=r"size must be within 16 KiB\.\.1 MiB for each flow"):
        live.collisions(size="1 GB")
    with pytest.raises(ValueError, match=r"spines must be within 2\.\.32, got 99"):
        live.collisions(spines=99)
    with pytest.raises(ValueError, match=r"shown must be one of .*, got 'size'"):
        live.collisions(shown=("size",))


# pauses in a fabric -------------------------------------------------------------------------------
def storm(**values):
    given = {"cause": "broken card", "watchdog": False, "load": 1.0}
    return pause_maps.Case(**(given | {"leaves": 2, "hosts": 3} | values))


@pytest.mark.parametrize("cause", ["broken card", "slow receiver"])
@pytest.mark.parametrize("watchdog", [False, True])
def test_pauses_of_the_log_last_as_long_as_the_counters_say(cause, watchdog):
    one = storm(cause=cause, watchdog=watchdog)
    found = pause_maps.spreading(one)
    trace = pause_maps.scenario_of(one).play(log=pause_maps._LINES)
    assert len(trace.log) < pause_maps._LINES
    lasted = np.array([np.diff(pauses).sum() for pauses in found.pauses])
    assert lasted == pytest.approx(trace.paused.sum(axis=1), abs=1e-9)
    assert [len(pauses) for pauses in found.pauses] == trace.pauses.sum(axis=1).tolist()
    times, count = found.steps()
    for step in range(0, times.size, 7):
        assert count[step] == np.count_nonzero(found.paused_at(times[step]))


def test_all_payload_comes_and_a_watchdog_helps_against_a_broken_card():
    off, on = (pause_maps.spreading(storm(watchdog=on)) for on in (False, True))
    flows = pause_maps.scenario_of(storm()).flows
    healthy = flows.label == 0
    packets = np.ceil(flows.size[healthy] / 4096).sum()
    assert on.finish < 200e-6
    came = (on.rate * np.diff(on.edges)).sum() / 4096
    assert packets <= came <= 1.2 * packets  # go-back-N takes some packets in twice
    assert on.finish < off.finish and on.discarded > 0 == off.discarded


def test_a_pause_spreads_from_the_broken_host_and_ends_with_it():
    one = pause_maps.scenario_of(storm())
    found = pause_maps.spreading(storm())
    first = [pauses[0, 0] if len(pauses) else np.inf for pauses in found.pauses]
    port = one.links["broken host's port"]
    assert int(np.argmin(first)) == port and first[port] == pytest.approx(10e-6)
    assert found.pauses[port][0, 1] == pytest.approx(130e-6)
    few, many = (
        np.count_nonzero([len(pauses) for pauses in pause_maps.spreading(storm(load=load)).pauses])
        for load in (0.2, 1.0)
    )
    assert few < many


def test_in_ink_are_all_uplinks_that_take_longest_for_what_they_carry():
    for slow in (False, True):
        load = np.full(8, 2.0)
        given = case(slow=slow)
        one = balancers.spread(given, "hash")
        even = balancers.load_layers(given, replace(one, load=load), (0, 80), 4.0, first=False)
        is_ink = even["bars"].fields["colour"] == COLOUR["ink"]
        assert is_ink.tolist() == [False] * 7 + [
            slow
        ]  # of equal ones none; a slow one takes longer
        load[:2] = 4.0
        two = balancers.load_layers(given, replace(one, load=load), (0, 80), 4.0, first=False)
        is_ink = two["bars"].fields["colour"] == COLOUR["ink"]
        assert is_ink.tolist() == [True, True] + [False] * 5 + [slow]
