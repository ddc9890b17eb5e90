"""An all-reduce between processes over UDP: exact under loss, no storms, and nobody left when one of them ends."""

import itertools
import os
import signal
import time
from functools import partial

import numpy as np
import psutil
import pytest

from fabriclab.errors import FabricError
from fabriclab.innetwork import ProgramRefused, udp


def numbers(n, chunks, lanes, seed=0):
    return (
        np.random.default_rng(seed).integers(-(2**31), 2**31, (n, chunks, lanes)).astype(np.int32)
    )


def exact(values, **options):
    """Run it, and compare with the sum that wraps at 32 bits."""
    found = udp.exchange(values, **options)
    want = np.sum(values, 0, dtype=np.int32)
    assert len(found.totals) == len(values)
    assert all(np.array_equal(total, want) for total in found.totals)
    assert found.sent - found.again == len(values) * len(want)
    assert found.goodput == want.nbytes / found.time
    return found


def held():
    """Return the sockets for UDP of this process, and its children but for Python's own."""
    me = psutil.Process()
    return me.net_connections("udp"), [
        c for c in me.children() if "resource_tracker" not in "".join(c.cmdline())
    ]


@pytest.mark.parametrize(
    ("loss", "n", "chunks", "lanes", "slots"),
    [
        (0.0, 2, 1500, 32, 512),
        (0.001, 3, 700, 8, 64),
        (0.01, 2, 1500, 256, 512),
        (0.05, 2, 3000, 32, 512),
        (0.2, 2, 9, 1, 2),
    ],
)
def test_sums_are_exact_and_nothing_is_left(loss, n, chunks, lanes, slots):
    before = held()
    found = exact(numbers(n, chunks, lanes), slots=slots, loss=loss, seed=4)
    if loss >= 0.01:
        # Of a chunk's packets and answers, each worker loses some: it sends again at least for each of its own.
        assert found.again > 1.5 * loss * n * chunks
    assert held() == before


def test_a_window_fits_into_a_small_buffer(monkeypatch):
    monkeypatch.setattr(udp, "_BUFFER", 4096)  # room for three packets
    assert exact(numbers(2, 200, 256)).again < 60  # without: all but the first, at once


def test_a_port_loses_by_its_seed_and_takes_whole_packets_only():
    ports = [udp._Port(1, 0.2, (7, number), (1, 1, 200)) for number in (0, 0, 1)]
    sent = np.zeros(200, ports[0].layout)
    sent["chunk"], sent["version"] = np.arange(200), np.arange(200) % 2
    got = []
    for port in ports:
        port.send(sent, port.address)
        port.socket.sendto(b"a stranger", port.address)
        port.socket.sendto(sent[:2].tobytes(), port.address)  # whose beginning is a packet
        got.append(port.take(1.0)["chunk"].tolist())
        assert port.strays.value == 2
        port.socket.close()
    assert got[0] == got[1] != got[2]
    assert all(130 < len(g) < 185 and g == sorted(g) for g in got)


def strange(port, to):
    """Send what has the size of a packet and is none of the run."""
    packets = np.zeros(6, port.layout)
    packets["worker"], packets["slot"] = (2, 2**31, 0, 0, 0, 0), (0, 0, 8, 2**16 - 1, 0, 0)
    packets["version"], packets["job"], packets["chunk"] = (
        (0, 0, 0, 1, 7, 0),
        (0, 0, 0, 0, 0, 1),
        (0, 0, 0, 9, 8, 0),
    )
    port.send(packets, to)


def disturbed(role, connection, port, *rest):
    """Do as the role does; a stranger sends to it before it begins, and a worker to the switch."""
    strange(port, port.address)
    if role == "_work":
        strange(port, rest[0])
    getattr(udp, role)(connection, port, *rest)


ROLES = {role: getattr(udp, role) for role in ("_work", "_switch")}


def test_strangers_end_nobody_and_are_counted(monkeypatch):
    for role in ROLES:
        monkeypatch.setattr(udp, role, partial(disturbed, role))
    assert exact(numbers(2, 200, 8), slots=8, loss=0.05).strays == 6 * (3 + 2)


# ------------------------------------------------------------------ who is late, and who ends


class Slow:
    """A pipe whose news comes a second late."""

    def __init__(self, connection):
        self.send, self.recv = connection.send, lambda: (connection.recv(), time.sleep(1))


def late(connection, port, server, number, *rest):
    udp._work(Slow(connection) if number else connection, port, server, number, *rest)


def test_a_worker_that_waits_for_a_late_one_does_not_send_in_a_storm(monkeypatch):
    monkeypatch.setattr(udp, "_work", late)
    # 512 packets each 10 ms would be 50,000, and half of the window each time, down to 32, still more than 3,000.
    assert exact(numbers(2, 600, 8)).again < 1500


def dying(role, victim, connection, port, *rest):
    """Do as the role does, and die after a few packets."""
    calls, take = itertools.count(), port.take

    def third(wait):
        if next(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return take(wait)

    if victim in (None, rest[1]):
        port.take = third
    getattr(udp, role)(connection, port, *rest)


@pytest.mark.parametrize(
    ("role", "victim", "name"), [("_work", 1, "worker 1"), ("_switch", None, "the switch")]
)
def test_who_ends_is_named_and_nobody_is_left(monkeypatch, role, victim, name):
    before, start = held(), time.monotonic()
    monkeypatch.setattr(udp, role, partial(dying, role, victim))
    with pytest.raises(FabricError, match=rf"^{name} \(process \d+\) ended before"):
        udp.exchange(numbers(2, 20_000, 8))
    assert time.monotonic() - start < 30  # half of the patience
    assert held() == before


def stopping(early, connection, port, *rest):
    """Work, and be stopped before or within the hand-over of the result: after what one call gives to the system."""
    send, write = connection.send, connection._send

    def stop(*what):
        if what:
            write(*what)
        os.kill(os.getpid(), signal.SIGSTOP)

    def last(thing):
        if thing != "ready":
            connection._send = stop
            if early:
                stop()
        send(thing)

    connection.send = last
    udp._work(connection, port, *rest)


def test_a_worker_that_is_stopped_while_it_hands_over_holds_nobody_up(monkeypatch):
    before, start = held(), time.monotonic()
    monkeypatch.setattr(udp, "_work", partial(stopping, False))
    exact(numbers(2, 2000, 32), patience="20 s")
    monkeypatch.setattr(udp, "_work", partial(stopping, True))
    with pytest.raises(TimeoutError, match=r"worker 0, worker 1; .*patience"):
        udp.exchange(numbers(2, 2000, 32), patience="3 s")
    assert time.monotonic() - start < 25 and held() == before


def test_who_is_late_is_named_and_nobody_is_left(monkeypatch):
    before = held()
    with pytest.raises(TimeoutError, match="worker 0, worker 1, the switch;"):
        udp.exchange(numbers(2, 4, 1), patience="10 ms")
    assert held() == before


ONE = np.ones((4, 2), np.int32)


@pytest.mark.parametrize(
    ("error", "match", "values", "options"),
    [
        (
            ValueError,
            r"of one shape; got \['int32 \(4, 2\)', 'int32 \(3, 2\)'\]",
            [ONE, ONE[:3]],
            {},
        ),
        (ValueError, r"got \['int32 \(2,\)'", [ONE[0], ONE[0]], {}),
        (ValueError, r"got \['int32 \(0, 2\)'", [ONE[:0]], {}),
        (ValueError, r"whole numbers of 32 bits.* got \['float64 \(4, 2\)'", [ONE / 3], {}),
        (
            ValueError,
            r"whole numbers of 32 bits.* got \['int64 \(4, 2\)'",
            [ONE.astype(np.int64) << 31],
            {},
        ),
        (ValueError, r"workers must be within 1..32, got 0", [], {}),
        (ValueError, r"workers must be within 1..32, got 33", [ONE] * 33, {}),
        (
            ProgramRefused,
            r"parser: .* 256 values, not 62 and 257",
            [np.ones((1, 257), np.int32)],
            {},
        ),
        (ProgramRefused, r"register 'seen': .* a stage has 720896 B", [ONE], {"slots": 20_000}),
        (ValueError, r"slots must be >= 1, got 0", [ONE], {"slots": 0}),
        (ValueError, r"loss must be a probability within 0..0.2, got 0.3", [ONE], {"loss": 0.3}),
        (
            ValueError,
            r"loss must be a probability within 0..0.2, got nan",
            [ONE],
            {"loss": float("nan")},
        ),
        (ValueError, r"seed must be >= 0, got -1", [ONE], {"seed": -1}),
        (ValueError, r"patience", [ONE], {"patience": "5 m"}),
    ],
)
def test_what_is_refused_starts_no_process(monkeypatch, error, match, values, options):
    monkeypatch.setattr(udp, "Process", None)
    before = held()
    with pytest.raises(error, match=match):
        udp.exchange(values, **options)
    assert held() == before


@pytest.mark.slow
@pytest.mark.alone
def test_64_mib_at_five_percent_in_twelve_seconds():
    found = exact(numbers(2, 65_536, 256), loss=0.05, seed=1)
    print(
        f"64 MiB at 5% loss: {found.time:.2f} s, {found.again} of {found.sent} packets sent again"
    )
    assert found.time <= 12


def test_without_processes_the_same_protocol_is_simulated(monkeypatch):
    values = numbers(3, 60, 4)

    def refused(*_, **__):
        raise OSError("no sockets here")

    real = udp.exchange_or_simulate(values, slots=8, loss=0.05)
    monkeypatch.setattr(udp, "exchange", refused)
    simulated = udp.exchange_or_simulate(values, slots=8, loss=0.05)
    for ran in (real, simulated):
        assert all(np.array_equal(total, sum(values)) for total in ran.totals)
        assert ran.sent == 3 * 60 + ran.again and 0 < ran.part_again < 0.6
    assert real.how.startswith("over UDP") and "no sockets here" in simulated.how


def test_wrong_values_are_refused_and_not_simulated():
    with pytest.raises(ValueError, match="whole numbers"):
        udp.exchange_or_simulate([np.array([[0.5]])])
