"""What the questions of lessons 44, 44b and 44c call right and wrong is so in the library."""

import itertools

import numpy as np
import pytest

from fabriclab import catalog, circuits
from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.lessons import lesson44, lesson44c
from fabriclab.course.questions import find
from fabriclab.formulas import evaluate

POD = circuits.cube_availability(0.99)


# lesson 44 ----------------------------------------------------------------------------------------
def test_a_choice_is_judged_and_mistakes_named():
    assert lesson44.time_of_any(lesson44.any_whole) == (True, [], "")
    for name, rule in lesson44.ANY_MISTAKES.items():
        is_right, said, mistake, trace = lesson44.time_of_any(rule)
        assert (is_right, mistake) == (False, name)
        assert len(said) == 2 and not all(case.right for case in trace.cases)
    named = {name for name, _, _ in find("44-write-any").wrong}
    assert named == set(lesson44.ANY_MISTAKES)


def test_other_ways_to_count_a_choice_are_right():
    def by_drawing_all(needed, cubes, whole):
        whole_cubes = np.ones(1)
        for _ in range(cubes):
            whole_cubes = np.convolve(whole_cubes, [1 - whole, whole])
        return whole_cubes[needed:].sum()

    assert lesson44.time_of_any(by_drawing_all)[0]
    assert lesson44.time_of_any(lambda *case: 1 - (1 - lesson44.any_whole(*case)))[0]


def test_the_function_of_the_learner_is_what_the_library_computes():
    assert lesson44.any_whole(48, 64, POD) == pytest.approx(circuits.any_availability(0.99, 48))
    assert lesson44.any_whole(2, 3, 0.9) == pytest.approx(0.972)


@pytest.mark.parametrize("nothing", [lambda *case: None, lambda *case: "0.9", lambda: 1.0])
def test_no_share_costs_no_try(nothing):
    with pytest.raises(Unanswered):
        lesson44.time_of_any(nothing)


def test_half_of_the_pod_is_a_bad_thing_to_ask_for():
    shares = {k: circuits.goodput(0.99, k) for k in range(1, 65)}
    assert all(shares[k] < shares[32] for k in range(55, 65))
    assert all(shares[k] > shares[32] for k in range(33, 55))
    assert shares[32] < min(shares[24], shares[48])
    assert shares[24] == pytest.approx(0.746, abs=5e-4)
    assert shares[32] == pytest.approx(0.500, abs=5e-4)
    assert shares[48] == pytest.approx(0.742, abs=5e-4)


def test_the_set_up_of_the_questions_is_that_of_the_catalog():
    assert (
        circuits.switch("palomar").setup == catalog.value("emerging", "ocs-mems", "setup") == 0.01
    )


# lesson 44c ---------------------------------------------------------------------------------------
def longest_held(left):
    """Return the matching whose smallest entry is largest, by trying all orders: what the third hint says."""
    best = 0
    chosen = None
    for order in itertools.permutations(range(len(left))):
        least = min(left[i, j] for i, j in enumerate(order))
        if least > best:
            best = least
            chosen = order
    return chosen


def first_found(left):
    for order in itertools.permutations(range(len(left))):
        if all(left[i, j] > 0 for i, j in enumerate(order)):
            return list(order)
    return None


def largest_first(left):
    left = left.copy()
    receivers = [0] * len(left)
    for _ in receivers:
        i, j = np.unravel_index(left.argmax(), left.shape)
        receivers[i] = int(j)
        left[i] = -1
        left[:, j] = -1
    return receivers


def emptied(left):
    chosen = longest_held(left)
    left[np.arange(len(left)), list(chosen)] = 0
    return chosen


def senders(left):
    return np.argsort(longest_held(left))


def without_the_diagonal(left):
    left = left.copy()
    np.fill_diagonal(left, 0)
    return longest_held(left)


MISTAKES = {
    "senders of the receivers": senders,
    "two senders for one receiver": lambda left: left.argmax(axis=1),
    "an entry without traffic": largest_first,
    "a receiver that does not exist": lambda left: [1 + j for j in longest_held(left)],
    "matrix changed": emptied,
    "held too briefly": first_found,
}


@pytest.mark.parametrize("step", [longest_held, "bottleneck", "weight"])
def test_steps_that_hold_long_are_right(step):
    answer = step
    if isinstance(step, str):
        answer = getattr(circuits.matchings, step)
    assert lesson44c.next_matching(answer) == (True, [], "")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_has_its_name_and_its_explanation(mistake):
    is_right, said, found, trace = lesson44c.next_matching(MISTAKES[mistake])
    assert not is_right and found == mistake
    assert len(said) == 2 and not trace.cases[-1].right


@pytest.mark.parametrize("seed", range(4))
def test_any_matching_does_not_pass_by_luck(seed):
    rng = np.random.default_rng(seed)

    def any_matching(left):
        return circuits.matchings.any_perfect(left * rng.permutation(left.size).reshape(left.shape))

    mixed = [lesson44c.mixed(number) for number in lesson44c._SEEDS]
    drawn = sum(circuits.decompose(matrix, any_matching).n_matchings for matrix in mixed)
    fewest = sum(circuits.decompose(matrix).n_matchings for matrix in mixed)
    assert drawn > lesson44c._PATIENCE * fewest


def test_a_step_that_forbids_the_diagonal_is_told_where_and_why():
    with pytest.raises(Unanswered, match=r"host 3 has none.*stays dark"):
        lesson44c.next_matching(without_the_diagonal)


@pytest.mark.parametrize("nothing", [lambda left: None, lambda left: "ABCD", lambda left: 1 / 0])
def test_no_answer_costs_no_try(nothing):
    with pytest.raises(Unanswered):
        lesson44c.next_matching(nothing)


def test_the_worked_example_comes_out_as_the_lesson_says():
    matrix = 1e9 * np.array(lesson44c._LESSON)
    found = circuits.decompose(matrix)
    assert found.weight.tolist() == [6e9, 4e9, 2e9, 2e9]
    assert found.matchings[0].tolist() == [3, 0, 1, 2]  # A to D, B to A, C to B, D to C
    assert np.array_equal(found.reconstruct(), matrix)
    assert found.seconds("400 Gb/s", "10 ms") == pytest.approx(0.28 + 4 * 0.010)
    assert np.all(matrix.sum(axis=0) == 14e9) and np.all(matrix.sum(axis=1) == 14e9)


def test_only_some_first_matchings_lose_no_time():
    matrix = np.array(lesson44c._LESSON, dtype=float)
    sender = range(4)
    together = {}
    for receiver in itertools.permutations(sender):
        lit = matrix[sender, receiver]
        if not lit.any():
            continue
        held = lit[lit > 0].min()
        left = matrix.copy()
        left[sender, receiver] -= np.minimum(lit, held)
        busiest = max(left.sum(axis=0).max(), left.sum(axis=1).max())
        together[receiver] = held + busiest
    assert together[tuple(largest_first(matrix))] == 22
    assert sorted(order for order, total in together.items() if total == 14) == [
        (2, 0, 3, 1),
        (2, 3, 0, 1),
        (2, 3, 1, 0),
        (3, 0, 1, 2),
    ]


def test_any_step_takes_seven_matchings_at_most_for_the_matrix_of_the_lesson():
    rng = np.random.default_rng(1)

    def any_matching(left):
        return circuits.matchings.any_perfect(left * rng.permutation(left.size).reshape(left.shape))

    matrix = np.array(lesson44c._LESSON, dtype=float)
    assert np.count_nonzero(matrix) - len(matrix) + 1 == 7
    assert max(circuits.decompose(matrix, any_matching).n_matchings for _ in range(20)) <= 7


@pytest.mark.parametrize("servers", [8, 16, 128])
def test_halving_and_doubling_turns_as_often_as_the_question_says(servers):
    matrix = circuits.phases("all_reduce", "halving_doubling", servers, "1 GiB").matrix
    partners = matrix > 0
    before = np.roll(partners, 1, axis=0)
    turns = np.count_nonzero(np.any(partners != before, axis=(1, 2)))
    assert turns == evaluate(find("44c-turns").formula, {"n": servers})


def test_on_circuits_that_stay_a_message_of_halving_and_doubling_crosses_four():
    choice = circuits.choose_topology(
        "all_reduce",
        "halving_doubling",
        8,
        "17.6 GB",
        circuits=1,
        rate="400 Gb/s",
        setup="10 ms",
    )
    assert choice.per_job == pytest.approx(4 * choice.by_packets)


# lesson 44b ---------------------------------------------------------------------------------------
def test_all_circuits_carry_what_44b_counts():
    assert circuits.pod_circuits() == 64 * 96 / 2
    assert circuits.pod_rate() == 64 * 96 / 2 * 45e9


def test_circuits_and_packets_together_halve_the_time():
    found = circuits.hybrid(
        circuits.skewed(8, "1 GB"),
        circuit_rate="400 Gb/s",
        packet_rate="100 Gb/s",
        setup="10 ms",
    )
    assert found.packets_alone == pytest.approx(80e-3, rel=1e-3)
    assert found.circuits_alone == pytest.approx(93.08e-3, rel=1e-3)
    assert found.seconds == pytest.approx(41.0e-3, rel=2e-3)
    assert found.hold.size == 2
    assert found.circuit_seconds == pytest.approx(34.4e-3, rel=2e-3)
    left = found.by_packet[:, 0]  # column A decides
    assert left.sum() / found.packet_rate == pytest.approx(found.seconds, rel=1e-6)
    assert found.by_packet[1, 0] == found.matrix[1, 0] == np.sort(found.matrix.ravel())[-4]
    assert found.play().time == pytest.approx(found.seconds, rel=1e-3)
    on_circuits = found.matrix[found.by_circuit > 0]
    by_packet_alone = found.matrix[found.by_circuit == 0]
    assert on_circuits.mean() > 2 * by_packet_alone.mean()  # the large entries take the circuits


def test_a_detour_makes_a_ring_four_times_as_fast_on_a_rotor():
    setup = circuits.switch("ocs-rotornet").setup
    ring = 504e6 * np.roll(np.eye(8), 1, axis=1)
    time = {}
    for detour in (False, True):
        run = circuits.play_rotor(ring, "180 us", rate="400 Gb/s", setup=setup, detour=detour)
        time[detour] = run.time
    assert time[False] == pytest.approx(77.2e-3, rel=1e-3)
    assert time[True] == pytest.approx(19.6e-3, rel=1e-3)
