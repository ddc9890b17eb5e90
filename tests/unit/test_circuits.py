"""Circuits: values by hand, what the flow engine plays, and what is refused."""

import dataclasses

import numpy as np
import pytest

from fabriclab import catalog, circuits, engines, metrics, routing
from fabriclab.circuits import plans
from fabriclab.circuits.matchings import any_perfect, bottleneck, weight
from fabriclab.core import Flows
from fabriclab.errors import FabricError, NoPath
from fabriclab.physics import switching
from fabriclab.topologies import build
from fabriclab.topologies.tpu_slice import PortMap, places, slice_of, swap, wired

RATE = 50e9  # illustrative: a round rate for sums by hand
THREE = np.array([[0, 8e6, 1e6], [1e6, 0, 8e6], [8e6, 1e6, 0]])


# switches and networks ------------------------------------------------------------------------------


def test_switches_come_from_the_catalog():
    palomar = circuits.switch("palomar")
    assert palomar.ports == catalog.value("switches", "palomar", "ports") == 136
    assert palomar.setup == catalog.value("emerging", "ocs-mems", "setup") == 10e-3
    assert palomar.loss == 1.5
    assert circuits.switch("ocs-rotornet").setup == pytest.approx(20e-6)
    assert circuits.switch("ocs-piezo").ports is None
    assert all(circuits.switch(kind).setup > 0 for kind in circuits.kinds())
    assert all(catalog.cite(circuits.switch(kind).source) for kind in circuits.kinds())


def test_a_network_holds_all_circuits_and_all_are_dark():
    fabric = circuits.network(5)
    assert fabric.n_cables == 10 and fabric.n_ranks == 5
    assert not fabric.capacity.any() and not fabric.ports.any()
    link = circuits.links(fabric, [3, 0], [1, 4])
    assert fabric.source[link].tolist() == [3, 0] and fabric.target[link].tolist() == [1, 4]
    with pytest.raises(NoPath):
        routing.route(fabric, metrics.shift(circuits.network(5, packets=RATE)))
    # with a packet switch the hosts meet there, and circuits stay dark
    both = circuits.network(5, packets=RATE)
    assert both.n_cables == 15 and np.count_nonzero(both.capacity) == 10


def test_circuits_that_are_lit_for_good():
    count = np.array([[0, 2, 0], [0, 0, 1], [1, 0, 0]])
    fabric = circuits.lit(circuits.network(3), count, RATE)
    assert fabric.capacity[circuits.links(fabric, 0, 1)] == 2 * RATE
    assert fabric.capacity[circuits.links(fabric, 1, 0)] == 0


# plans and what the engine plays ---------------------------------------------------------------------


def test_a_plan_by_hand():
    plan = circuits.plan([[1, 2, 0], [2, 0, 1]], [3e-3, 1e-3], rate=RATE, setup=1e-3)
    assert plan.begin.tolist() == pytest.approx([1e-3, 5e-3])
    assert plan.end == pytest.approx(6e-3) and plan.duty == pytest.approx(4 / 6)
    assert plan.receivers_at([0.5e-3, 2e-3, 4.5e-3, 5.5e-3, 7e-3])[:, 0].tolist() == [
        -1,
        1,
        -1,
        2,
        -1,
    ]
    assert plan.lit_seconds()[0].tolist() == pytest.approx([0, 3e-3, 1e-3])
    left = plan.bytes_left(1e8 * (1 - np.eye(3)), [0, 2e-3, 4e-3, 6e-3])
    assert left[:, 0, 1].tolist() == pytest.approx([1e8, 5e7, 0, 0])
    assert left[:, 0, 2].tolist() == pytest.approx([1e8, 1e8, 1e8, 5e7])
    bars = plan.lit()
    assert bars.begin.tolist() == pytest.approx([1e-3] * 3 + [5e-3] * 3)
    assert bars.end.tolist() == pytest.approx([4e-3] * 3 + [6e-3] * 3)


def test_changes_light_a_link_and_darken_it():
    plan = circuits.plan([[1, 0], [-1, 0]], "1 ms", rate=RATE, setup="1 ms")
    fabric = circuits.network(2)
    changes = plan.changes(fabric)
    rows = list(zip(changes.time, changes.link, changes.capacity, strict=True))
    there, back = circuits.links(fabric, [0, 1], [1, 0]).tolist()
    assert [row for row in rows if row[1] == there] == [(1e-3, there, RATE), (2e-3, there, 0)]
    times = [(time, capacity) for time, link, capacity in rows if link == back]
    assert np.allclose(times, [(1e-3, RATE), (2e-3, 0), (3e-3, RATE), (4e-3, 0)])


def test_without_a_gap_a_link_of_two_configurations_stays_lit():
    plan = circuits.plan([[1, 0], [1, -1], [-1, 0]], 1e-3, rate=RATE, setup=0)
    traffic = np.array([[0, 1e8], [1e8, 0]])
    run = circuits.play(plan, traffic)
    # from 0 to 1 for two turns without a break, from 1 to 0 in the first and the third
    assert np.sort(run.timeline.finish - run.fabric.delay[0]) == pytest.approx([2e-3, 3e-3])


def test_bytes_carried_are_rate_times_lit_time():
    traffic = np.array([[0, 2e8, 0], [0, 0, 1e8], [3e7, 0, 0]])
    plan = circuits.plan([[1, 2, 0], [1, 2, 0]], [1e-3, 3e-3], rate=RATE, setup=1e-3)
    run = circuits.play(plan, traffic)
    carried = np.zeros((3, 3))
    rank = run.fabric.rank_of
    np.add.at(
        carried,
        (rank[run.fabric.source], rank[run.fabric.target]),
        run.timeline.link_bytes,
    )
    assert np.array_equal(carried, traffic)
    sent = run.timeline.finish - run.fabric.delay[0]
    # 200 MB need all of both turns; 100 MB the first and half of the second; 30 MB part of the first
    assert sent == pytest.approx([6e-3, 4e-3, 1.6e-3])
    for flow, (i, j) in enumerate(zip(*np.nonzero(traffic), strict=True)):
        until = plan.carried([sent[flow]])[0, i, j]
        assert until == pytest.approx(traffic[i, j])


def test_a_plan_that_is_too_short_says_for_whom():
    plan = circuits.plan([[1, 0]], "1 ms", rate=RATE, setup=0)
    with pytest.raises(
        ValueError, match=r"50.0 MB from rank 1 to rank 0, and the matrix has 60.0 MB"
    ):
        circuits.play(plan, [[0, 5e7], [6e7, 0]])
    with pytest.raises(ValueError, match="packets needs packet_rate"):
        circuits.play(plan, [[0, 1], [1, 0]], packets=[[0, 1], [0, 0]])


# matchings -------------------------------------------------------------------------------------------


def test_a_decomposition_by_hand():
    parts = circuits.decompose(THREE)
    assert parts.weight.tolist() == [8e6, 1e6]
    assert parts.matchings.tolist() == [[1, 2, 0], [2, 0, 1]]
    # the busiest port has 9 MB, and there are two set-ups
    assert parts.seconds(RATE, "1 ms") == pytest.approx(9e6 / RATE + 2e-3)
    assert parts.plan(RATE, "1 ms").end == pytest.approx(parts.seconds(RATE, "1 ms"))
    assert parts.most == 5


def test_padding_fills_all_ports():
    padded = circuits.pad([[0, 5, 1], [0, 0, 0], [2, 0, 0]])
    assert padded.sum(axis=0).tolist() == padded.sum(axis=1).tolist() == [6, 6, 6]
    assert np.all(padded >= [[0, 5, 1], [0, 0, 0], [2, 0, 0]])


@pytest.mark.parametrize("step", ["bottleneck", "weight", "any"])
def test_a_whole_matrix_is_sent_on_circuits_in_the_time_of_the_formula(step):
    traffic = np.random.default_rng(4).integers(0, 10**8, (6, 6)) * (1 - np.eye(6, dtype=int))
    parts = circuits.decompose(traffic, step)
    assert np.array_equal(parts.reconstruct(), parts.padded)
    run = circuits.play(parts.plan(RATE, "1 ms"), traffic)
    assert run.time == pytest.approx(parts.seconds(RATE, "1 ms"))
    assert run.payload == traffic.sum()


def test_bottleneck_and_weight_want_different_things():
    left = np.array([[4, 9, 0], [0, 4, 9], [3, 1, 4]])
    assert bottleneck(left).tolist() == [0, 1, 2]  # smallest entry 4, 12 bytes
    assert weight(left).tolist() == [1, 2, 0]  # smallest entry 3, 21 bytes
    assert sorted(any_perfect(left)) == [0, 1, 2]


def first_free(left):
    """Give each sender the first receiver that is free: a wrong idea that learners have."""
    taken = set()
    row = []
    for sender in range(len(left)):
        choice = next((j for j in range(len(left)) if left[sender, j] > 0 and j not in taken), -1)
        taken.add(choice)
        row.append(choice)
    return row


def changes_it(left):
    columns = any_perfect(left)
    left[0] = 0
    return columns


@pytest.mark.parametrize(
    ("step", "mistake"),
    [
        (lambda left: None, "nothing returned"),
        (lambda left: 3, "no row of receivers"),
        (lambda left: "abc", "no row of receivers"),
        (lambda left: [[0], [1, 2]], "no row of receivers"),
        (lambda left: np.full(len(left), 0.5), "no row of receivers"),
        (lambda left: np.arange(len(left)) + 1, "a receiver that does not exist"),
        (first_free, "a receiver that does not exist"),
        (lambda left: left.argmax(axis=1), "two senders for one receiver"),
        (lambda left: np.arange(len(left)), "an entry without traffic"),
        (lambda left: left * 0, "no row of receivers"),
        (changes_it, "matrix changed"),
    ],
)
def test_a_wrong_step_is_told_what_is_wrong(step, mistake):
    trial = circuits.try_step(step)
    assert trial.mistake == mistake and trial.message


def test_decompose_stops_at_a_wrong_matching():
    with pytest.raises(
        circuits.WrongMatching, match=r"senders 0 and \d both got receiver 1"
    ) as caught:
        circuits.decompose(
            [[0, 2, 1], [0, 0, 1], [0, 1, 0]], lambda left: left.argmax(axis=1) * 0 + 1
        )
    assert caught.value.mistake == "two senders for one receiver"
    # two are enough
    found = circuits.mistake_in(np.ones((3, 3)), [0, 2, 2])
    assert found is not None and found.name == "two senders for one receiver"
    assert circuits.mistake_in(np.ones((3, 3)), [0, 2, 1]) is None


def test_a_right_step_of_five_lines_is_taken():
    from scipy.optimize import linear_sum_assignment

    def mine(left):
        cost = np.where(left > 0, 0, 1)
        return linear_sum_assignment(cost)[1]

    trial = circuits.try_step(mine)
    assert trial.mistake == "" and len(trial.matchings) == len(trial.fewest) == 16
    assert min(trial.matchings) >= 1


# rotors ----------------------------------------------------------------------------------------------


def test_a_rotor_joins_each_pair_once_in_a_cycle():
    plan = circuits.rotor(6, "180 us", rate=RATE, setup="20 us")
    assert plan.n_configurations == 5 and plan.duty == pytest.approx(0.9)
    assert np.allclose(plan.lit_seconds(), 180e-6 * (1 - np.eye(6)))


def test_rotors_are_played():
    n = 8
    uniform = 1e6 * (1 - np.eye(n))
    one_partner = (n - 1) * 1e6 * np.roll(np.eye(n), 1, axis=1)
    hold = 1e6 / RATE
    direct = circuits.play_rotor(uniform, hold, rate=RATE, setup=hold / 9)
    assert direct.throughput == pytest.approx(0.9)
    # one of seven turns serves a pair, so the rotor passes a seventh; the last turns of a cycle are not needed
    slow = circuits.play_rotor(one_partner, hold, rate=RATE, setup=hold / 9)
    assert 1 / 7 <= slow.throughput / 0.9 < 1 / 6
    # with detours any traffic gets at least half of the duty: 8 / 14 for eight hosts
    even = (n - 1) * 1e6 / n / RATE
    for traffic in (uniform, one_partner):
        run = circuits.play_rotor(traffic, even, rate=RATE, setup=even / 9, detour=True)
        assert run.throughput / 0.9 == pytest.approx(n / (2 * (n - 1)))


def test_detours_send_every_byte_twice_but_what_stays():
    out, on = circuits.spread(np.array([[0, 6, 0], [0, 0, 3], [0, 0, 0]]))
    assert out.tolist() == [[0, 2, 2], [1, 0, 1], [0, 0, 0]]
    assert on.tolist() == [[0, 2, 1], [0, 0, 1], [0, 2, 0]]


# few turns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_there_are_as_many_turns_as_the_busiest_host_has_partners(seed):
    traffic = circuits.skewed(8, "1 GB", seed=seed)
    traffic[traffic < traffic.max() / 12] = 0.0
    partners = max((traffic > 0).sum(axis=1).max(), (traffic > 0).sum(axis=0).max())
    found = circuits.fewest_turns(traffic, rate=RATE, setup="10 ms")
    assert found.n_configurations == partners
    assert not found.bytes_left(traffic, [found.end])[0].any()
    run = circuits.play(found, traffic)
    assert run.time <= found.end * (1 + 1e-9)


def test_few_turns_are_faster_where_a_turn_takes_long():
    traffic = circuits.skewed(8, "1 GB", seed=0)
    full = circuits.decompose(traffic)
    for setup, few_wins in (("20 us", False), ("1 ms", True), ("10 ms", True)):
        few = circuits.fewest_turns(traffic, rate=RATE, setup=setup)
        assert (few.end < full.seconds(RATE, setup)) == few_wins


# hybrids ---------------------------------------------------------------------------------------------


def test_a_single_message_is_divided_where_both_end_together():
    # 4 GB: packets carry 12.5 GB/s from the start, a circuit 50 GB/s after 10 ms
    split = circuits.hybrid(
        [[0, 4e9], [0, 0]], circuit_rate=RATE, packet_rate=RATE / 4, setup="10 ms"
    )
    seconds = (4e9 + 10e-3 * RATE) / (RATE * 5 / 4)
    assert split.seconds == pytest.approx(seconds)
    assert split.by_packet[0, 1] == pytest.approx(seconds * RATE / 4)
    assert split.play().time == pytest.approx(seconds)
    assert split.packets_alone == pytest.approx(0.32) and split.circuits_alone == pytest.approx(
        0.09
    )
    assert split.best == "hybrid"


def test_alone_a_message_breaks_even_where_physics_says():
    level = switching.break_even(RATE, "10 ms", RATE / 4, 0)
    for factor, first in ((0.99, "packets"), (1.01, "circuits")):
        split = circuits.hybrid(
            [[0, factor * level], [0, 0]],
            circuit_rate=RATE,
            packet_rate=RATE / 4,
            setup="10 ms",
            matchings=0,
        )
        assert split.break_even == level
        times = {"packets": split.packets_alone, "circuits": split.circuits_alone}
        assert min(times, key=times.get) == first


def test_small_entries_go_by_packet():
    traffic = np.full((6, 6), 1e6) - 1e6 * np.eye(6)
    traffic[np.arange(6), (np.arange(6) + 1) % 6] = 5e9
    split = circuits.hybrid(traffic, circuit_rate=RATE, packet_rate=RATE / 10, setup="10 ms")
    assert split.hold.size == 1
    assert np.all(split.by_packet[traffic == 1e6] == 1e6)
    assert split.seconds < min(split.circuits_alone, split.packets_alone)
    assert np.allclose(split.by_circuit + split.by_packet, traffic)
    assert split.play().time == pytest.approx(split.seconds)
    few = circuits.hybrid(traffic / 1e4, circuit_rate=RATE, packet_rate=RATE / 10, setup="10 ms")
    assert few.hold.size == 0 and few.best == "packets"
    with pytest.raises(ValueError, match="all of the traffic goes by packet"):
        few.plan()


# topologies for phases and jobs ----------------------------------------------------------------------


def test_a_ring_never_wants_other_circuits():
    ring = circuits.choose_topology(
        "all_reduce", "ring", 8, "1 GiB", circuits=2, rate=RATE, setup="10 ms"
    )
    assert ring.set_ups == 0 and ring.best == "job" and ring.crossing == np.inf
    seconds = 2 * 7 / 8 * 2**30 / (2 * RATE)
    assert ring.per_phase == ring.per_job == pytest.approx(seconds) == ring.by_packets


def test_partners_of_halving_and_doubling_share_the_ports_of_a_job():
    choice = circuits.choose_topology(
        "all_reduce", "halving_doubling", 8, "1 GiB", circuits=3, rate=RATE, setup="10 ms"
    )
    # three partners: each phase gets all three circuits, the job one for each partner
    assert np.all(choice.for_job.sum(axis=1) == 3) and choice.for_job.max() == 1
    assert np.all(choice.for_phase.max(axis=(1, 2)) == 3)
    busy = 2 * 7 / 8 * 2**30 / (3 * RATE)
    assert choice.phase_busy.sum() == pytest.approx(busy) and choice.per_job == pytest.approx(
        3 * busy
    )
    # the partners change 2 x 3 - 2 times; the last phase of one all-reduce is the first of the next
    assert choice.set_ups == 4
    assert choice.per_phase == pytest.approx(busy + 40e-3) and choice.best == "job"
    assert choice.longest_setup == pytest.approx(2 * busy / 4)
    other = dataclasses.replace(choice, setup=choice.longest_setup * 0.99)
    assert other.best == "phase"
    # at the size of the crossing both take the same time
    at = circuits.choose_topology(
        "all_reduce", "halving_doubling", 8, choice.crossing, circuits=3, rate=RATE, setup="10 ms"
    )
    assert at.per_phase == pytest.approx(at.per_job)


def test_the_plan_of_phases_is_played():
    choice = circuits.choose_topology(
        "all_reduce", "halving_doubling", 8, "1 GiB", circuits=3, rate=RATE, setup="10 ms"
    )
    traffic = np.tensordot(choice.repeat, choice.matrix, axes=1)
    run = circuits.play(choice.plan(), traffic)
    # one more set-up than in a sequence of all-reduces: the first
    assert run.time == pytest.approx(choice.per_phase + 10e-3)


def test_all_to_all_on_a_ring_of_circuits_is_passed_on():
    choice = circuits.choose_topology(
        "all_to_all", "direct", 6, "6 MB", circuits=1, rate=RATE, setup="1 ms"
    )
    # each link of a ring carries 1 + 2 + ... + 5 blocks of 1 MB
    assert choice.per_job == pytest.approx(15e6 / RATE)
    fabric = circuits.lit(circuits.network(6, relay=True, length=0), choice.for_job, RATE)
    traffic = choice.matrix[0]
    source, target = np.nonzero(traffic)
    flows = Flows.make(source, target, traffic[source, target])
    run = engines.run(fabric, routing.route(fabric, flows, "spray"), flows)
    assert run.link_bytes.max() / RATE == pytest.approx(choice.per_job)


def test_when_to_change():
    rows = circuits.when_to_change("10 ms", {"phase": "5 ms", "step": "4.6 s"})
    assert [row.pays for row in rows] == [False, True]
    assert rows[0].duty == pytest.approx(1 / 3)
    assert circuits.when_to_change("10 ms", {"x": "90 ms"}, share=0.9)[0].pays


# slices ----------------------------------------------------------------------------------------------


def test_a_swap_moves_circuits_and_keeps_the_torus():
    before = slice_of((8, 8, 8), [9, 3, 60, 17, 1, 2, 4, 5])
    exchange = swap(before, failed=60, spare=33)
    assert exchange.moved == 96 and exchange.kept == 8 * 48 - 96
    assert 60 not in exchange.after.cubes and 33 in exchange.after.cubes
    # every circuit that moved had an end at the failed cube
    gone = before.rows() - exchange.after.rows()
    assert len(gone) == 96 and all(60 in row[1:] for row in gone)
    assert all(33 in row[1:] for row in exchange.after.rows() - before.rows())
    at = np.array(np.unravel_index(np.arange(512), (8, 8, 8)))  # (3, 512) places of the slice
    number = np.ravel_multi_index(tuple(at // 4), (2, 2, 2))  # of the cube at each place
    for ports in (before, exchange.after):
        found = places(ports)
        assert np.array_equal(np.sort(found), np.arange(512))
        # each place has the chip of the right cube, and of the right corner of it
        expected = np.column_stack([ports.cubes[number], *(at % 4)])
        assert np.array_equal(wired(ports).coord[found], expected)


def test_a_cube_that_closes_its_own_ring_moves_fewer_circuits():
    exchange = swap(slice_of((4, 4, 8)), failed=1, spare=63)
    # two neighbours along z only: 32 circuits; its own rings along x and y: 32
    assert (exchange.moved, exchange.kept) == (64, 32)


def test_what_is_built_from_ports_is_the_torus_for_networkx_too():
    import networkx as nx

    exchange = swap(slice_of((4, 4, 8), [7, 31]), failed=31, spare=0)
    asked = nx.Graph(build("torus", shape=(4, 4, 8)).to_networkx().to_undirected())
    for ports in (exchange.before, exchange.after):
        real = nx.Graph(wired(ports).to_networkx().to_undirected())
        assert nx.vf2pp_is_isomorphic(real, asked)
    # two circuits whose lower ends were exchanged make another graph
    wrong = crossed(exchange.after)
    real = nx.Graph(wired(wrong).to_networkx().to_undirected())
    assert not nx.vf2pp_is_isomorphic(real, asked)
    with pytest.raises(FabricError, match="make no torus of this shape: the cable up along x"):
        places(wrong)


def crossed(ports: PortMap) -> PortMap:
    """Return the circuits of a slice with the lower ends of two of them exchanged."""
    lower = ports.lower.copy()
    first, second = np.flatnonzero(ports.ocs == 0)[:2]
    lower[[first, second]] = lower[[second, first]]
    return dataclasses.replace(ports, lower=lower)


def test_twisted_slices_are_built_from_their_ports():
    ports = slice_of((4, 8, 8), [9, 3, 60, 17], twisted=True)
    assert np.unique(places(ports)).size == 256
    with pytest.raises(FabricError):  # the circuits of a twisted torus are no plain one
        places(dataclasses.replace(ports, twisted=False))


def test_a_port_has_one_circuit():
    ports = slice_of((4, 4, 8))
    lower = ports.lower.copy()
    lower[0] = 1 - lower[0]
    with pytest.raises(
        ValueError, match=r"lower face of cube \d must have one circuit in switch 0"
    ):
        wired(dataclasses.replace(ports, lower=lower))


def test_availability_by_hand():
    assert circuits.hosts_of_a_cube() == 16
    assert circuits.fixed_availability(0.5, 1) == 0.5**16
    assert circuits.any_availability(0.9, 2, 2) == pytest.approx(0.9**32)
    cube = 0.9**16
    assert circuits.any_availability(0.9, 1, 2) == pytest.approx(1 - (1 - cube) ** 2)
    # two cubes in slices of one: each that works counts
    assert circuits.goodput(0.9, 1, 2) == pytest.approx(cube)
    assert circuits.goodput(0.9, 1, 2, fixed=True) == pytest.approx(cube)
    assert circuits.goodput(1, 48) == 0.75 and circuits.goodput(1, 16, fixed=True) == 1


# refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: circuits.switch("palomer"), "palomar"),
        (lambda: circuits.network(1), "hosts must be >= 2"),
        (
            lambda: circuits.network(137, switch=circuits.switch("palomar")),
            r"hosts must be within 2\.\.136, the ports of Palomar OCS, got 137",
        ),
        (lambda: circuits.links(circuits.network(3), 1, 1), "no circuit can join rank 1 to rank 1"),
        (lambda: circuits.links(build("crossbar", hosts=4), 0, 1), "links between its hosts"),
        (lambda: circuits.pad([[0, 1, 2]]), r"matrix must have a row and a column.*\(1, 3\)"),
        (
            lambda: circuits.pad([[0, -1], [1, 0]]),
            r"matrix\[0, 1\] must be finite and >= 0, got -1",
        ),
        (lambda: circuits.pad([[0, 1], [1, 2]]), r"matrix\[1, 1\] must be 0, since no host sends"),
        (lambda: circuits.decompose(np.zeros((2, 2))), "matrix must have traffic"),
        (lambda: circuits.decompose(THREE, "best"), "step must be one of"),
        (
            lambda: circuits.plan([[1, -1, 1]], 1, rate=RATE, setup=0),
            "matching 0 sends to rank 1 from 2 ranks",
        ),
        (lambda: circuits.plan([[3, 0, 1]], 1, rate=RATE, setup=0), r"within -1\.\.2, got 3"),
        (lambda: circuits.plan([[1.0, 0.0]], 1, rate=RATE, setup=0), "must be whole numbers"),
        (lambda: circuits.plan([[1, 0]], 0, rate=RATE, setup=0), "hold must be one time > 0 s"),
        (lambda: circuits.play_rotor(np.zeros((2, 2)), 1, rate=RATE, setup=0), "must have traffic"),
        (lambda: circuits.play_rotor(THREE, 0, rate=RATE, setup=0), "hold must be > 0 s"),
        (lambda: circuits.any_availability(0.9, 65), r"needed must be within 1\.\.64"),
        (lambda: circuits.fixed_availability(99, 48), r"host must be within 0\.\.1.*99 % is 0.99"),
        (lambda: slice_of((4, 4, 8), [1]), r"cubes must name 2 different cubes .* got 1"),
        (lambda: slice_of((4, 4, 8), [1, 1]), r"2 \(1 different\)"),
        (lambda: slice_of((4, 4, 8), [1, 64]), r"cubes must be within 0\.\.63, got 64"),
        (
            lambda: swap(slice_of((4, 4, 8)), 5, 6),
            r"failed must be a cube of the slice, \[0, 1\], got 5",
        ),
        (
            lambda: swap(slice_of((4, 4, 8)), 1, 0),
            "spare must be a cube that the slice does not have",
        ),
    ],
)
def test_refusals_say_what_was_expected(ask, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ask()


def test_a_plan_with_several_circuits_has_no_single_receiver():
    plan = circuits.plan(np.array([[[0, 1, 1], [1, 0, 1], [1, 1, 0]]]), 1e-3, rate=RATE, setup=0)
    with pytest.raises(ValueError, match="one circuit for each rank"):
        plan.receivers()
    assert plans.Played.__doc__
