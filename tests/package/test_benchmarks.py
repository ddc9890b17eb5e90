"""Interleaved pairs: the ratio, and when it proves nothing."""

import os

import pytest

from pairs import Pairs, interleaved
from support.prose import states


def pairs(ours, peer, load=0.0):
    return Pairs(tuple(ours), tuple(peer), load, 2)


def test_ratio_is_the_median_of_the_pairs():
    found = pairs([1.0, 2.0, 10.0], [5.0, 10.4, 49.0])
    assert found.ratios == pytest.approx([5.0, 5.2, 4.9])
    assert found.ratio == pytest.approx(5.0)
    assert found.quartiles == pytest.approx((4.95, 5.1))
    assert found.verdict(5.0) == "reached"
    assert found.verdict(5.1) == "missed"


def test_a_busy_machine_proves_nothing():
    assert pairs([1.0, 1.0], [9.0, 9.0], load=1.0).verdict(5) == "reached"
    busy = pairs([1.0, 1.0], [9.0, 9.0], load=1.01)
    assert busy.verdict(5) == "not conclusive"
    states(busy.line("x", 5), "1.0", "2 cores")


def test_a_wide_spread_proves_nothing():
    wide = pairs([1.0, 1.0, 1.0, 1.0], [2.0, 4.0, 8.0, 16.0])
    assert wide.verdict(1) == "not conclusive"
    assert "too far apart" in wide.line("x", 1)


def test_sides_take_turns_and_a_float_is_a_time(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.25, 0.0, 0.0))
    calls = []

    def ours():
        calls.append("ours")
        return 2.0

    def peer():
        calls.append("peer")

    found = interleaved(ours, peer, n_pairs=2)
    assert calls == ["ours", "peer", "peer", "ours"]
    assert found.ours == (2.0, 2.0)
    assert all(0 <= time < 1 for time in found.peer)
    assert found.load == 0.25


def test_one_pair_is_refused():
    with pytest.raises(ValueError, match="n_pairs must be >= 2, got 1"):
        interleaved(list, list, n_pairs=1)
