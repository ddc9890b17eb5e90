"""What the tests of all families ask of a build: an estimate of memory that holds, refusals that say why."""

import tracemalloc

import pytest

from fabriclab import topologies
from fabriclab.core.builder import _LINK_BYTES, _NODE_BYTES


def bytes_of(fabric):
    return fabric.n_nodes * _NODE_BYTES + fabric.n_links * _LINK_BYTES


def estimate_holds(make):
    """Say that the memory set aside for a fabric is what its build takes at its peak, or up to twice as much."""
    make()
    tracemalloc.start()
    try:
        fabric = make()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= bytes_of(fabric) <= 2 * peak


def refused(cases, error=ValueError):
    """Return a test: each build, by name and what is asked of it, is refused in these words."""

    @pytest.mark.parametrize(("name", "asked", "text"), cases)
    def test(name, asked, text):
        with pytest.raises(error, match=text):
            topologies.build(name, **asked)

    return test
