"""What holds for every registered control loop and every balancer, with the example of the recipe in CONTRIBUTING."""

from dataclasses import fields

import numpy as np
import pytest

from fabriclab import compiled, registry, routing, topologies
from fabriclab.core import Flows
from fabriclab.engines import packet

EACH = 100e3  # what each of four hosts sends to the fifth [B]


def incast(config, plain=False):
    fabric = topologies.build("leaf_spine", hosts=8, radix=4, rate="100 Gb/s")
    flows = Flows.make(fabric.endpoint[1:5], fabric.endpoint[:1], np.full(4, EACH))
    routes = routing.route(fabric, flows, "paths", subflows=2)
    return fabric, packet.play(fabric, routes, flows, config=config, plain=plain)


def settings(kind, name):
    """Return settings under which a control loop has the feedback that it asks for."""
    return {kind: name, "lossless": "pause", "sample": 5e-6, "watch_flows": (0, 1, 2, 3)}


def names(kind):
    return [(kind, name) for name in registry.names(kind)]


@pytest.mark.parametrize(("kind", "name"), [*names("control"), *names("balance")])
def test_an_incast_ends_and_takes_no_less_than_its_cable_does(kind, name):
    fabric, trace = incast(settings(kind, name), plain=True)
    assert np.isfinite(trace.finish).all()
    at_line_rate = 4 * EACH / fabric.capacity[0]
    assert at_line_rate < trace.finish.max() < 10 * at_line_rate
    assert not trace.dropped.any()  # pauses keep every packet
    assert (trace.window[1:] > 0).all() and (trace.rate[1:] > 0).all()


@pytest.mark.parametrize(("kind", "name"), [*names("control"), *names("balance")])
def test_the_compiled_form_gives_the_same_to_the_bit(kind, name):
    if not compiled.ready():
        pytest.skip("the kernels are not compiled: python -m fabriclab.compiled")
    _, plain = incast(settings(kind, name), plain=True)
    _, fast = incast(settings(kind, name))
    assert fast.compiled and not plain.compiled
    for field in fields(plain):
        if field.name != "compiled":
            assert np.array_equal(getattr(plain, field.name), getattr(fast, field.name)), field
