"""Average run lengths of the CUSUM test, compared with published tables."""

import pytest

from fabriclab.operations import Cusum

# Two-sided CUSUM with k = 1/2: D. C. Montgomery, Introduction to Statistical Quality Control, table "ARL performance of
# the tabular CUSUM with k = 1/2 and h = 4 or h = 5" (recalled; after J. M. Lucas and R. B. Crosier, Technometrics 24,
# 1982). A one-sided test has twice the run length of a two-sided one without a shift, and the same at large shifts.
PUBLISHED = [
    (4, 1.00, 8.38),
    (4, 1.50, 4.75),
    (4, 2.00, 3.34),
    (4, 3.00, 2.19),
    (5, 1.00, 10.4),
    (5, 1.50, 5.75),
    (5, 2.00, 4.01),
    (5, 3.00, 2.57),
]


@pytest.mark.parametrize(("limit", "mean", "length"), PUBLISHED)
def test_delay_after_a_shift(limit, mean, length):
    assert Cusum(1, limit).run_length(mean) == pytest.approx(length, rel=0.006)


@pytest.mark.parametrize(("limit", "two_sided"), [(4, 168), (5, 465)])
def test_false_alarms_without_a_shift(limit, two_sided):
    assert Cusum(1, limit).run_length(0) / 2 == pytest.approx(two_sided, rel=0.003)
