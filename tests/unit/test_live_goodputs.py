"""The live view of goodput: what it draws is what the formula says, at every size and interval."""

import itertools

import numpy as np
import pytest

from fabriclab import catalog, live, operations
from fabriclab.views.live import goodputs
from support.live_views import VIEWS, check_that_it_fits, states

NAMES = ("checkpoints", "large job", "one size")
STATES = list(itertools.product(goodputs._SIZES, (1.0, 6.2, 77.0, 1440.0), goodputs._RESTARTS))


@pytest.mark.parametrize("name", NAMES)
def test_every_state_fits_into_a_small_window(name):
    for scene in states(VIEWS[name]()):
        check_that_it_fits(scene)


@pytest.mark.parametrize("name", NAMES)
def test_the_finding_stands_on_one_line(name):
    for scene in states(VIEWS[name]()):
        first = scene.said.split(". ")[0]
        assert len(first) <= 105  # illustrative: letters of 18 px in a card of 934 px


@pytest.mark.parametrize(("gpus", "interval", "restart"), STATES)
def test_the_table_has_the_parts_of_the_formula(gpus, interval, restart):
    case = catalog.case()
    job = operations.Checkpoints(case.checkpoint_write, restart, case.mtbf * case.gpus / gpus)
    table = live.checkpoints(gpus, interval, restart).scene.table
    wanted = [100 * float(part) for part in job.spent(60 * interval)]
    assert table["at this interval [%]"] == pytest.approx(wanted)
    assert sum(table["at this interval [%]"]) == pytest.approx(100)
    best = table["at the best interval [%]"][0]
    assert best == pytest.approx(100 * float(job.goodput(job.best)))
    assert best >= table["at this interval [%]"][0]


@pytest.mark.parametrize("restart", goodputs._RESTARTS)
@pytest.mark.parametrize("gpus", goodputs._SIZES)
def test_no_point_of_the_curve_is_above_the_diamond_and_the_band_loses_one_point(gpus, restart):
    here = goodputs.state_of(gpus, 60.0, restart)
    minutes, goodput = goodputs.over_intervals(gpus, restart)
    assert goodput.max() <= here.most
    short, long = (seconds / 60 for seconds in here.job.within(0.01))
    inside = (minutes > short) & (minutes < long)
    assert np.array_equal(inside, goodput > here.most - 0.01)


def test_the_chart_over_the_size_ends_where_the_sizes_end():
    sizes, best, twice = goodputs.over_sizes(600.0)
    for place, gpus in ((0, 1024), (-1, 131_072)):
        here = goodputs.state_of(gpus, 60.0, 600.0)
        assert sizes[place] == pytest.approx(gpus)
        assert best[place] == pytest.approx(here.most)
        assert twice[place] == pytest.approx(float(here.job.goodput(2 * here.job.best)))
    assert np.all(np.diff(best) < 0) and np.all(twice < best)


def test_a_quicker_restart_helps_the_large_job_more():
    gains = []
    for gpus in goodputs._SIZES:
        slow, quick = (goodputs.state_of(gpus, 60.0, restart).most for restart in (600.0, 60.0))
        gains.append(quick - slow)
    assert gains == sorted(gains) and gains[0] > 0


def test_an_author_can_hide_what_would_tell_an_answer():
    view = live.checkpoints(overview=False, shown=("interval",))
    assert view.scene.side is None
    assert "131,072" not in view.scene.said + view.scene.alt


def test_the_interval_must_be_on_the_axis():
    with pytest.raises(ValueError, match=r"interval must be within 1\.\.1440"):
        live.checkpoints(interval=0.5)
    with pytest.raises(ValueError, match="gpus must be one of"):
        live.checkpoints(gpus=8)


def test_the_largest_number_of_gpus_has_room_below_its_axis():
    side = live.checkpoints(131_072).scene.side
    ticks = side.layers["x ticks"].fields
    letter = 7.0  # [px], of a digit at 12 px
    widest = ticks["x"] + letter * np.array([len(word) for word in ticks["texts"]]) / 2
    assert ticks["texts"][-1] == "131,072" and widest.max() < side.width
