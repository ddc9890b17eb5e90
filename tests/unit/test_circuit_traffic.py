"""Skewed traffic: whole bytes, nothing on the diagonal, the busiest host at its size."""

import numpy as np
import pytest

from fabriclab import circuits


@pytest.mark.parametrize("hosts", [2, 3, 8, 16])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_busiest_host_has_the_size_and_nobody_sends_to_itself(hosts, seed):
    size = 1e9
    matrix = circuits.skewed(hosts, size, seed=seed)
    sums = np.concatenate([matrix.sum(axis=0), matrix.sum(axis=1)])
    assert matrix.shape == (hosts, hosts)
    assert np.array_equal(matrix, np.floor(matrix)) and np.all(np.diag(matrix) == 0)
    assert np.all(matrix[~np.eye(hosts, dtype=bool)] > 0)
    assert 0.999 * size < sums.max() <= size


def test_a_few_entries_have_most_of_the_bytes():
    entries = np.sort(circuits.skewed(16, "1 GB").ravel())[::-1]
    tenth = entries.size // 10
    assert entries[:tenth].sum() > 0.4 * entries.sum()


def test_the_seed_decides():
    one = circuits.skewed(8, "1 GB", seed=1)
    assert np.array_equal(one, circuits.skewed(8, "1 GB", seed=1))
    assert not np.array_equal(one, circuits.skewed(8, "1 GB", seed=2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1, "1 GB"), "hosts"),
        ((8, 0), "size"),
        ((8, "10 B"), "whole byte"),
        ((8, "1 GB/s"), "size"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        circuits.skewed(*arguments)
