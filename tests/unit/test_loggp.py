"""LogGP: by hand, laws, refusals."""

import pytest

from fabriclab import collectives

US = 1e-6
MACHINE = {"latency": 5 * US, "overhead": 2 * US, "gap": 3 * US, "rate": 1e9}


def time(collective, algorithm, n, size, **more):
    return collectives.loggp(collectives.build(collective, algorithm, n), size, **(MACHINE | more))


# by hand ------------------------------------------------------------------------------------------
def test_one_message_by_hand():
    assert time("send_recv", "direct", 2, 1001) == pytest.approx((2 + 1 + 5 + 2) * US)
    assert time("send_recv", "direct", 2, 1) == pytest.approx(9 * US)


def test_messages_of_one_rank_are_a_gap_apart():
    # The root sends seven messages of 1,001 B: o, seven times 1 us of bytes, six gaps, L, o.
    assert time("broadcast", "one_root", 8, 1001) == pytest.approx((2 + 7 + 6 * 3 + 5 + 2) * US)
    assert time("broadcast", "one_root", 8, 1001, overhead=4 * US) == pytest.approx(
        (4 + 7 + 6 * 4 + 5 + 4) * US
    )
    # as many come in
    assert time("gather", "one_root", 8, 8008) == pytest.approx((2 + 7 + 6 * 3 + 5 + 2) * US)


def test_all_blocks_for_one_receiver_are_one_message():
    # Two servers of 8: seven messages of 2 B inside, then one of 8 B; directly 15 messages of 1 B.
    short = {"latency": 2 * US, "overhead": US, "gap": US}
    assert time("all_to_all", "hierarchical", 16, 16, **short) == pytest.approx(
        (4 + 6 + 0.007 + 4 + 0.007) * US
    )
    assert time("all_to_all", "direct", 16, 16, **short) == pytest.approx((4 + 14) * US)
    pat, bruck = (time("all_gather", how, 16, 16_000, **short) for how in ("pat", "bruck"))
    assert pat == pytest.approx(bruck)  # as many messages, as many bytes


# laws ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "algorithm", ["ring", "halving_doubling", "recursive_doubling", "binomial_tree"]
)
@pytest.mark.parametrize("n", [1, 2, 7, 16])
def test_with_one_message_at_a_time_it_is_alpha_and_beta(algorithm, n):
    for size in (1e5, 1e9):
        alpha = 2 * MACHINE["overhead"] + MACHINE["latency"] - 1 / MACHINE["rate"]
        form = collectives.closed_form("all_reduce", algorithm)(size, n, alpha, MACHINE["rate"])
        assert time("all_reduce", algorithm, n, size) == pytest.approx(float(form), rel=1e-12)


def test_few_steps_of_many_messages_lose_to_a_tree_although_alpha_and_beta_say_no():
    root, tree = (
        collectives.closed_form("all_reduce", how) for how in ("one_root", "binomial_tree")
    )
    assert float(root(8, 128, 9 * US, 1e9)) < float(tree(8, 128, 9 * US, 1e9))
    assert time("all_reduce", "one_root", 128, 8) > 5 * time("all_reduce", "binomial_tree", 128, 8)


def test_switches_have_no_port_of_their_own():
    two = time("all_reduce", "aggregation_tree", 64, 1001)
    assert two == pytest.approx(2 * (2 + 1 + 5 + 2) * US)


# refusals -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"gap": "3 GB"}, "gap"),
        ({"latency": -1}, "latency"),
        ({"rate": 0}, "rate"),
        ({"overhead": "soon"}, "overhead"),
    ],
)
def test_bad_numbers_are_refused_by_name(more, words):
    with pytest.raises(ValueError, match=words):
        time("all_reduce", "ring", 4, 8, **more)
