"""Expert dispatch and combine: by hand, counted another way, and timed on rails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import engines, routing, topologies
from fabriclab.collectives import (
    build,
    choose_experts,
    expected_tokens,
    expert_crossover,
    expert_flows,
    expert_tables,
    expert_time,
    in_steps,
)

FORMS = ("high_throughput", "low_latency")


def drawn(n, tokens, choices, seed=0):
    """Return choices of different ranks for each token."""
    return np.random.default_rng(seed).permuted(np.tile(np.arange(n), (n, tokens, 1)), axis=2)[
        ..., :choices
    ]


def test_two_servers_of_two_by_hand():
    """Rank 0 sends one token to ranks 1, 2 and 3, the others keep theirs."""
    chosen = [[[1, 2, 3]], [[1, 1, 1]], [[2, 2, 2]], [[3, 3, 3]]]
    (direct,) = expert_tables(chosen, "low_latency", per_server=2)
    assert np.argwhere(direct).tolist() == [[0, 1], [0, 2], [0, 3]]
    copy, forward = expert_tables(chosen, per_server=2)
    assert np.argwhere(copy).tolist() == [[0, 2]]  # one over the rail
    assert np.argwhere(forward).tolist() == [[0, 1], [2, 3]]  # from where it is
    back = expert_tables(chosen, per_server=2, combine=True)
    assert all(np.array_equal(a, b.T) for a, b in zip(back, (forward, copy), strict=True))
    # Direct, 2 tokens pass the NIC of rank 0 in 20 us; with copies 1 in 10 us, then 1 over NVLink in 1 us.
    found = expert_crossover(
        chosen, "1 MB", alpha="30 us", nic="100 GB/s", nvlink="1 TB/s", per_server=2
    )
    assert found == pytest.approx(30 / (20 - 10 - 1))


def test_a_favourite_gets_its_share_and_the_experts_of_a_token_differ():
    chosen = choose_experts(8, 20_000, 1, popular=2)
    held = np.bincount(chosen.ravel(), minlength=8) / chosen.size
    # 3 standard deviations of 160,000 draws
    assert held == pytest.approx([2 / 9] + 7 * [1 / 9], abs=0.003)
    many = np.sort(choose_experts(6, 50, 4, popular=9, seed=1), axis=-1)
    assert (
        many.shape == (6, 50, 4)
        and np.all(np.diff(many) > 0)
        and many.min() == 0
        and many.max() == 5
    )
    for wrong in ({"popular": 0}, {"popular": np.inf}, {"choices": 9}, {"tokens": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            choose_experts(**{"n_ranks": 8, "tokens": 4, "choices": 2, **wrong})


def test_time_of_steps_by_hand():
    """Rank 0 has 3 tokens for its neighbour and 2 for rank 2; then nobody has any; then rank 2 has 1 for rank 3."""
    tables = np.zeros((3, 4, 4))
    tables[0, 0, [1, 2]], tables[2, 2, 3] = (3, 2), 1
    rates = {"nic": "1 GB/s", "nvlink": "10 GB/s", "per_server": 2}
    assert expert_time(tables, "1 MB", alpha="5 ms", **rates) == pytest.approx(
        5e-3 + 2e-3 + 5e-3 + 0.1e-3
    )
    assert expert_time(np.zeros((1, 4, 4)), "1 MB", alpha="5 ms", **rates) == 0


@given(
    st.sampled_from([(4, 2), (6, 3), (8, 4), (5, 1)]),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 999),
)
def test_tables_count_what_loops_over_tokens_count(size, tokens, choices, seed):
    n, g = size
    chosen = np.random.default_rng(seed).integers(0, n, (n, tokens, choices))
    wanted = [np.zeros((n, n), int) for _ in range(3)]
    for rank in range(n):
        for token in chosen[rank]:
            for to in token:
                wanted[2][rank, to] += to != rank
            for server in {int(to) // g for to in token}:
                relay = server * g + rank % g
                wanted[0][rank, relay] += relay != rank
                for to in {int(to) for to in token if to // g == server}:
                    wanted[1][relay, to] += to != relay
    found = [
        *expert_tables(chosen, per_server=g),
        *expert_tables(chosen, "low_latency", per_server=g),
    ]
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_the_form_with_copies_keeps_to_its_rails_and_wins_from_the_crossover_on():
    # bytes in FP8
    hall, g, token = (topologies.build("rail_optimised", servers=4, rate="400 Gb/s"), 8, 7168.0)
    n = hall.n_ranks
    copy, forward = expert_tables(drawn(n, 64, 8), per_server=g)
    source, target = np.nonzero(copy)
    assert np.all(source % g == target % g)
    source, target = np.nonzero(forward)
    assert np.all(source // g == target // g)

    def time(tokens, form):
        flows = expert_flows(
            hall, expert_tables(drawn(n, tokens, 8), form, per_server=g), token, lag="20 us"
        )
        return engines.run(hall, routing.route(hall, flows, "spray"), flows).end

    found = expert_crossover(
        drawn(n, 64, 8), token, alpha="20 us", nic="400 Gb/s", nvlink="450 GB/s", per_server=g
    )
    assert 40 < found < 60
    for factor in (0.7, 1.4):
        slower = time(int(factor * found), "high_throughput") > time(
            int(factor * found), "low_latency"
        )
        assert slower == (factor < 1)


def test_within_one_server_no_step_is_saved():
    rates = {"alpha": "20 us", "nic": "50 GB/s", "nvlink": "450 GB/s", "per_server": 4}
    assert expert_crossover(drawn(4, 8, 2), 7168, **rates) == np.inf
    # two experts on a rank
    assert expert_crossover([[[1, 1]], [[0, 0]], [[3, 3]], [[2, 2]]], 7168, **rates) == 0


def test_equal_times_but_for_rounding_never_cross():
    chosen = np.random.default_rng(137).integers(0, 8, (8, 4, 2))
    assert (
        expert_crossover(chosen, 7168, alpha=5e-6, nic=50e9, nvlink=400e9, per_server=4) == np.inf
    )


@pytest.mark.parametrize(
    ("tables", "error", "said"),
    [
        (np.zeros((1, 4, 4), int), ValueError, "ranks of tables must be within 1..2, got 4"),
        ([[1, 2], [3, 4]], ValueError, r"shape \(steps, n, n\), got \(2, 2\)"),
        ([], ValueError, r"got \(0,\)"),
        ([[[0, -1], [1, 0]]], ValueError, "tokens >= 0 .* -1"),
        ([[[0, 1], [1]]], ValueError, "tables must be .* lengths"),
        ([[["x"]]], TypeError, "tables must be plain numbers"),
    ],
)
def test_tables_that_are_none_are_refused(tables, error, said):
    with pytest.raises(error, match=said):
        expert_flows(topologies.build("crossbar", hosts=2, rate=1e9), tables, 1)
    if "within" not in said:
        with pytest.raises(error, match=said):
            expert_time(tables, 1, alpha=0, nic=1e9, nvlink=1e9)


def test_a_table_is_traffic_of_an_all_to_all():
    (table,) = expert_tables(drawn(4, 10, 2), "low_latency", per_server=2)
    plan = build("all_to_all", "direct", 4, traffic=table)
    assert plan.parts.reshape(4, 4) == pytest.approx(
        table / max(table.sum(axis=0).max(), table.sum(axis=1).max())
    )


@pytest.mark.parametrize(
    ("chosen", "form", "options", "said"),
    [
        ([[0, 1], [1, 0]], FORMS[0], {}, "shape (n, tokens, choices), got int64 (2, 2)"),
        ([[[0, 2]], [[0, 1]]], FORMS[0], {}, "ranks 0..n - 1"),
        (np.zeros((2, 0, 2), int), FORMS[0], {}, "got int64 (2, 0, 2)"),
        ([[[0.5]], [[1.0]]], FORMS[0], {}, "got float64"),
        ([[[0]], [[1]]], "fast", {}, "one of high_throughput, low_latency, got 'fast'"),
        ([[[0]], [[1]], [[2]]], FORMS[0], {"per_server": 2}, "multiple of per_server, got 3 and 2"),
    ],
)
def test_what_does_not_fit_is_named(chosen, form, options, said):
    with pytest.raises(ValueError) as error:
        expert_tables(chosen, form, **options)
    assert said in str(error.value)


def test_expected_tokens_are_the_mean_of_draws_and_copies_share_them():
    table = expected_tokens(4, 100, popular=2)
    assert table.tolist()[1] == [40, 0, 20, 20] and table.diagonal().tolist() == [0, 0, 0, 0]
    chosen = choose_experts(8, 20_000, 1, popular=3)
    drawn_table = expert_tables(chosen, "low_latency")[0]
    assert drawn_table.sum(axis=0) == pytest.approx(
        expected_tokens(8, 20_000, popular=3).sum(axis=0), rel=0.03
    )
    # two of the five shares at the first of two copies, and one more for the second one's own expert
    assert expected_tokens(4, 100, popular=2, copies=2)[3].tolist() == [20, 40, 20, 0]
    assert expected_tokens(1, 5).tolist() == [[0.0]]
    for wrong in ({"popular": 0}, {"popular": np.inf}, {"copies": 5}, {"tokens": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            expected_tokens(**{"n_ranks": 4, "tokens": 4, **wrong})


@pytest.mark.parametrize("order", ["shifted", "swapped", "one target"])
def test_steps_carry_all_of_a_table_once(order):
    table = np.arange(64.0).reshape(8, 8)
    steps = in_steps(table, order)
    assert len(steps) == 8 and np.array_equal(np.sum(steps, axis=0), table)
    served = [np.count_nonzero(step.sum(axis=0)) for step in steps]
    assert max(served) == (1 if order == "one target" else 8)
    assert all(np.count_nonzero(step, axis=1).max() <= 1 for step in steps)


def test_an_order_is_a_function_or_a_known_name():
    def own(rank, step, n):
        return np.int64((rank - step) % n)

    assert len(in_steps(np.ones((3, 3)), own)) == 3
    for wrong, error in (("sideways", ValueError), (lambda *_: None, TypeError)):
        with pytest.raises(error):
            in_steps(np.ones((4, 4)), wrong)
    with pytest.raises(ValueError, match=r"within 0\.\.3"):
        in_steps(np.ones((4, 4)), lambda rank, step, n: n)
    with pytest.raises(ValueError, match="shape"):
        in_steps(np.ones((2, 3)), "shifted")
