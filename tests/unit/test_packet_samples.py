"""What samples of a queue count: they end at the totals of the run."""

import numpy as np
import pytest

from fabriclab.views.live import queues


@pytest.mark.parametrize("lossless", ["pause", "none"])
def test_marks_losses_and_pauses_of_the_samples_add_up_to_those_of_the_run(lossless):
    run = queues.played(queues.Incast(6, "dcqcn", lossless, 1e6, 2**17, 50e9))
    assert run.lost.sum() == run.drops
    assert (run.drops > 0) == (lossless == "none")
    assert np.any(run.marked > 0) == (run.marks > 0)
    assert np.any(run.paused > 0) == (run.pauses > 0) == (lossless == "pause")
    assert np.all((run.paused >= 0) & (run.paused <= 1 + 1e-9))
    assert np.all((run.marked >= 0) & (run.marked <= 1))
