"""Circuits: what holds for any traffic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import circuits

RATE = 50e9  # illustrative: a round rate
LOW_SETUP = 1e-4  # illustrative: between the technologies of the catalog


@st.composite
def traffic(draw, most=7):
    """Return a matrix of whole bytes with some zeros, and with one entry at least."""
    n = draw(st.integers(2, most))
    entry = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 10**9))
    rows = draw(st.lists(st.lists(entry, min_size=n, max_size=n), min_size=n, max_size=n))
    matrix = np.array(rows, dtype=np.float64)
    np.fill_diagonal(matrix, 0)
    matrix[0, 1] += 1
    return matrix


@given(traffic(), st.sampled_from(["bottleneck", "weight", "any"]))
def test_matchings_add_up_to_the_padded_matrix(matrix, step):
    parts = circuits.decompose(matrix, step)
    assert np.array_equal(parts.reconstruct(), parts.padded)
    assert np.all(parts.padded >= matrix)
    busiest = max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())
    assert np.all(parts.padded.sum(axis=0) == busiest)
    assert np.all(parts.padded.sum(axis=1) == busiest)
    assert parts.weight.sum() == busiest
    assert parts.n_matchings <= parts.most
    assert np.all(np.sort(parts.matchings, axis=1) == np.arange(len(matrix)))


@given(traffic(most=5), st.floats(0.1, 10))
def test_matrices_of_fractions_come_back_to_rounding(matrix, factor):
    scaled = matrix * factor / 3
    parts = circuits.decompose(scaled)
    largest = max(scaled.sum(axis=0).max(), scaled.sum(axis=1).max())
    assert np.all(np.abs(parts.reconstruct() - parts.padded) <= 1e-8 * largest)
    assert np.all(parts.padded >= scaled - 1e-15 * largest)


@given(traffic(most=5), st.sampled_from([0.0, LOW_SETUP]))
def test_a_plan_played_takes_the_time_of_the_formula_and_carries_all(matrix, setup):
    parts = circuits.decompose(matrix)
    plan = parts.plan(RATE, setup)
    run = circuits.play(plan, matrix)
    assert plan.end == pytest.approx(parts.seconds(RATE, setup))
    assert run.time <= plan.end * (1 + 1e-9)
    # what each circuit carried is its rate times the time in which it was lit and had something to send
    left = plan.bytes_left(matrix, [plan.end])[0]
    assert left.max() <= 1e-6 * matrix.max()
    assert run.timeline.link_bytes.sum() == matrix.sum()


@given(traffic(most=5), st.sampled_from([1e-6, 1e-4, 1e-2]))
def test_a_hybrid_is_never_slower_than_packets_and_loses_no_byte(matrix, setup):
    split = circuits.hybrid(matrix, circuit_rate=RATE, packet_rate=RATE / 8, setup=setup)
    assert split.seconds <= split.packets_alone * (1 + 1e-12)
    assert np.allclose(split.by_circuit + split.by_packet, matrix)
    assert np.all(split.by_circuit >= 0) and np.all(split.by_packet >= -1e-6)
    if split.hold.size:
        room = split.plan().lit_seconds() * RATE
        assert np.all(split.by_circuit <= room * (1 + 1e-9))
        assert split.play().time == pytest.approx(split.seconds)


@given(st.integers(3, 7), st.integers(0, 2**20))
def test_with_detours_a_rotor_gives_any_permutation_half_of_its_duty(n, seed):
    order = np.random.default_rng(seed).permutation(n)
    partner = np.zeros((n, n))
    partner[order, np.roll(order, 1)] = n * 1e6
    hold = 1e6 / RATE
    run = circuits.play_rotor(partner, hold, rate=RATE, setup=hold / 4, detour=True)
    assert run.throughput >= 0.5 * 0.8


@given(st.floats(0.9, 0.9999), st.integers(1, 64))
def test_any_cubes_are_whole_at_least_as_often_as_fixed_ones(host, needed):
    free = circuits.any_availability(host, needed)
    assert free >= circuits.fixed_availability(host, needed) * (1 - 1e-9)
    assert circuits.goodput(host, needed) >= circuits.goodput(host, needed, fixed=True) * (1 - 1e-9)


@given(traffic(), st.integers(1, 8))
def test_circuits_that_serve_traffic_fit_the_ports(matrix, each):
    counts = circuits.serve(matrix, each)
    assert counts.sum(axis=0).max() <= each and counts.sum(axis=1).max() <= each
    assert not np.diag(counts).any()
    assert circuits.seconds_on(matrix, counts, RATE) > 0
