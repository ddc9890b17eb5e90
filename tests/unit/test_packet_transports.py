"""Transports as presets, and what the engine does for them: grants, trimming, losses, paces."""

import pytest

from fabriclab import registry
from fabriclab.engines.packet import play, transport
from support.packet_stars import GBIT, many_to_one, star

SMALL = {"payload": 1000, "jitter": 1e-6}


@pytest.mark.parametrize("name", registry.names("transport"))
def test_every_transport_carries_an_incast_to_its_end(name):
    fabric = star(5)
    routes, flows = many_to_one(fabric, 4, 100e3)
    trace = play(fabric, routes, flows, config=transport(name) | SMALL, plain=True)
    ideal = 4 * 100e3 / (100 * GBIT)
    assert ideal < trace.finish.max() < 3 * ideal + 20e-6
    lossy = transport(name)["lossless"] == "none"
    assert lossy or trace.dropped.sum() == 0


def test_a_transport_takes_its_own_arguments_and_settings():
    settings = transport("roce", parameters="paper", buffer="16 MB")
    assert settings["control_options"] == {"parameters": "paper"}
    assert settings["buffer"] == "16 MB"


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="transport"):
        transport("token_ring")
    with pytest.raises(ValueError, match="colour"):
        transport("roce", colour="red")


def incast(config, n=8, size=200e3):
    """Return the trace of an incast on 100 Gb/s as plain Python."""
    fabric = star(n + 1)
    routes, flows = many_to_one(fabric, n, size)
    return play(fabric, routes, flows, config=config | SMALL, plain=True)


def test_grants_leave_no_queue_but_that_of_first_windows():
    n = 8
    first = 10e3
    granted = incast(transport("receiver_driven", first_window=first))
    free = incast({"control": "window"})
    headers = 1.1
    assert granted.peak.max() < n * first * headers
    assert free.peak.max() > 2 * n * first
    assert granted.finish.max() < 1.1 * free.finish.max()


def test_a_first_window_that_is_not_given_fills_the_path():
    """It is 100 Gb/s times the round trip of 4.2 us; more would be no admission at all."""
    granted = incast({"grants": True})
    assert granted.peak.max() < 8 * 60e3
    assert incast({"control": "window"}).peak.max() > 8 * 60e3


def test_a_packet_that_is_lost_needs_no_second_grant():
    settings = transport("receiver_driven", first_window=5e3, lossless="none")
    trace = incast(settings | {"loss": 0.02, "reorder": 20e-6, "timeout": 200e-6}, n=2, size=100e3)
    assert trace.resent.sum() > 0
    assert trace.lost.sum() > 0


def test_cut_packets_overtake_the_data():
    """With room for all headers none is lost, and the end comes in one and a half times what the port needs."""
    trace = incast(transport("uec", rate="100 Gb/s", round_trip="4.5 us"), n=16, size=100e3)
    assert trace.resent.sum() > 50
    assert trace.dropped.sum() == 0
    headers, data = trace.peak.max(axis=0)
    assert 0 < headers < data
    assert trace.finish.max() < 1.5 * 16 * 100e3 / (100 * GBIT)


def test_a_loss_that_is_told_by_order_reaches_the_control_loop():
    """One packet in 200 is lost: a TCP stays slow, where a window that hears nothing does not."""
    fabric = star(2, delay=5e-6)
    routes, flows = many_to_one(fabric, 1, 2e6)
    lossy = {"lossless": "none", "recovery": "selective", "reorder": 5e-6, "loss": 0.005} | SMALL
    tcp = play(fabric, routes, flows, config=lossy | {"control": "aimd"}, plain=True)
    deaf = play(fabric, routes, flows, config=lossy, plain=True)
    assert tcp.duration[0] > 1.5 * deaf.duration[0]


def test_a_paced_sender_does_not_sleep_over_a_rate_that_rises():
    """The least rate of the cards is 1 Mb/s, at which a packet takes 34 ms; the queue is gone after 1 ms."""
    fabric = star(9)
    routes, flows = many_to_one(fabric, 8, 1e6)
    trace = play(fabric, routes, flows, config=transport("roce", payload=4096, jitter=1e-6))
    assert trace.finish.max() < 4 * 8e6 / (100 * GBIT)
