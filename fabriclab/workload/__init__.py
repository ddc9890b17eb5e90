"""Describe the computation and communication of training steps as flows with dependencies.

Every pattern is a function that registers itself. A computation is a flow of size 0 whose lag is its duration, so the
engines can time everything.

What those computations and messages are in a real job follows from its model and layout: the module `models` has the
shapes of published models, `layouts` divides one among ranks, `volumes` writes the ledger of what a step sends, and
`memory` counts what each GPU keeps.

Examples
--------
>>> from fabriclab import engines, routing, topologies, workload
>>> star = topologies.build("crossbar", hosts=4, rate="400 Gb/s")
>>> flows = workload.build("pipeline", star, 0, stages=range(4), microbatches=8, forward="1 ms", backward="2 ms")
>>> timeline = engines.run(star, routing.route(star, flows), flows)
>>> round(timeline.end * 1e3, 9)  # (8 + 4 - 1) x (1 + 2) ms
33.0
>>> round(1 - workload.busy(timeline, flows, flows.source == star.endpoint[0]) / timeline.end, 6)  # 3 / 11
0.272727

Gradients of three layers, summed while the backward goes on:

>>> step = workload.build("data_parallel", 1.0, 2.0, [4e6, 1e6, 1e6], lambda b: 0.5 + b / 1e6, bucket="2 MB")
>>> lanes = workload.streams(step)
>>> timeline = engines.run(lanes, routing.route(lanes, step), step)
>>> sums = workload.labelled(step, "reduce")
>>> timeline.end, workload.exposed(timeline, step, ~sums, sums)
(14.0, 5.0)
"""

from typing import Any

from fabriclab import registry
from fabriclab.core import Flows
from fabriclab.workload._work import busy, exposed, labelled, longest_wait, slowed, spans
from fabriclab.workload.steps import bucket_wait, streams
from fabriclab.workload.trace import read_trace, write_chakra, write_trace

__all__ = [
    "bucket_wait",
    "build",
    "busy",
    "exposed",
    "labelled",
    "longest_wait",
    "names",
    "read_trace",
    "slowed",
    "spans",
    "streams",
    "write_chakra",
    "write_trace",
]


def names() -> tuple[str, ...]:
    """Return the names of all patterns that `build` knows."""
    return registry.names("workload")


def build(pattern: str, /, *arguments: Any, **options: Any) -> Flows:
    """Build the flows of a workload by the name of its pattern.

    `names` lists the patterns; ``help(fabriclab.registry.get("workload", pattern))`` describes the arguments of one.
    """
    flows: Flows = registry.get("workload", pattern)(*arguments, **options)
    return flows


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
