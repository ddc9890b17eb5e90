"""Memory beyond the GPU: weights behind a slow link, tables of features, varying demand, and parameters in a pool."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.training.inference import Serving

__all__ = [
    "ParameterPool",
    "demand_traces",
    "lookups_per_second",
    "parameter_pool",
    "with_far_weights",
]


def with_far_weights(
    serving: Serving, share: float, rate: units.Quantity, *, ahead: bool = True
) -> float:
    """Return the time per output token if a share of the weights comes over a link to far memory. [s].

    Every pass reads all weights of a rank once, wherever they are. Weights of later layers are known in advance, so the
    link can fetch them while memory reads others; then the longer of both counts.

    Parameters
    ----------
    serving : Serving
        The server with all weights in the memory of its GPUs.
    share : float
        Part of the weights of each GPU that is kept in far memory. 0..1
    rate : float or str
        Rate of the link of each GPU. [B/s], > 0
    ahead : bool
        Whether the link fetches ahead. False: layers wait for theirs, and both times add up.

    Examples
    --------
    >>> import fabriclab as fl
    >>> from fabriclab.workload import layouts, models
    >>> model = models.preset("Llama 3 70B")
    >>> near = fl.training.serve(model, layouts.Layout(tp=8), fl.system(gpu="H100", servers=1))
    >>> round(with_far_weights(near, 0.0, "64 GB/s") / near.token, 6)
    1.0
    >>> 0.02 < near.token / with_far_weights(near, 1.0, "64 GB/s") < 0.05  # the rates alone are 64 : 2,680
    True
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 to 1, got {share!r}")
    link = units.rate(rate, "rate")
    layout = serving.layout
    bytes_read = serving.room.weights * layout.pp  # each pass goes through all stages
    near = (1 - share) * serving.parts["weights"]
    far = share * bytes_read / link
    rest = serving.token - serving.parts["weights"]
    return rest + (max(near, far) if ahead else near + far)


def lookups_per_second(latency: float, in_flight: int, size: float, rate: units.Quantity) -> float:
    """Return how many records of a table in far memory a reader gets per second [1/s].

    Little's law: requests under way = rate of requests x latency. So a reader with ``in_flight`` requests under way
    gets in_flight / latency of them per second, until their bytes fill the link.

    Parameters
    ----------
    latency : float
        Time from a request to its data, on a link that is not full. [s], > 0
    in_flight : int
        Requests that the reader has under way at a time. >= 1
    size : float
        Bytes of a record. [B], > 0
    rate : float or str
        Rate of the link. [B/s], > 0

    Examples
    --------
    >>> lookups_per_second(1e-6, 64, 256, "64 GB/s")
    64000000.0
    >>> lookups_per_second(1e-6, 1024, 256, "64 GB/s")
    250000000.0
    """
    for name, value in (("latency", latency), ("size", size)):
        if not (units.is_number(value) and value > 0):
            raise ValueError(f"{name} must be a number > 0, got {value!r}")
    by_latency = units.count(in_flight, "in_flight") / latency
    return min(by_latency, units.rate(rate, "rate") / size)


def demand_traces(
    rng: np.random.Generator,
    hosts: int,
    times: int,
    *,
    requests: float,
    size: float,
    together: float = 0.0,
) -> Floats:
    """Return the memory that the requests of each host want over time, drawn at random, (times, hosts). [B].

    The number of requests under way follows Poisson's law, as with independent arrivals. Sizes are exponential.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    hosts, times : int
        Number of hosts, and of moments far enough apart to be independent. >= 1
    requests : float
        Mean number of requests under way on a host. > 0
    size : float
        Mean bytes of a request. [B], > 0
    together : float
        How far all hosts rise and fall together: the relative deviation of a load that they share. 0: independent. >= 0
    """
    shape = (units.count(times, "times"), units.count(hosts, "hosts"))
    if not requests > 0 or not size > 0 or together < 0:
        raise ValueError(
            f"requests and size must be > 0 and together >= 0, got {requests!r}, {size!r} and {together!r}"
        )
    load = np.ones((shape[0], 1))
    if together:
        load = rng.gamma(1 / together**2, together**2, (shape[0], 1))
    number = rng.poisson(requests * load, shape)
    wanted: Floats = rng.gamma(np.maximum(number, 1), size) * (number > 0)
    return wanted


class ParameterPool(NamedTuple):
    """Rates that workers and servers of parameters need, beside a ring of the workers [B/s].

    Parameters
    ----------
    worker, server : float
        Busier direction of the link of each worker, and of each server.
    bisection : float
        What crosses a cut between all workers and all servers in the busier direction.
    ring : float
        What each worker sends if the workers sum in a ring of their own instead.
    ring_bisection : float
        What crosses a cut through the middle of that ring, in each direction.
    """

    worker: float
    server: float
    bisection: float
    ring: float
    ring_bisection: float


def parameter_pool(
    workers: int, servers: int, *, push: float, pull: float, seconds: float
) -> ParameterPool:
    """Return what network it takes to keep parameters and optimiser on servers apart from the workers.

    Each worker pushes its gradients and pulls new parameters once a step; servers have equal parts. What this gives is
    freedom of hardware: servers need memory and no GPUs. What it costs is the bisection: every byte crosses between
    the two kinds, while in a ring only two neighbours cross any cut.

    Parameters
    ----------
    workers, servers : int
        Number of each. >= 1
    push, pull : float
        Bytes of gradients that a worker sends, and of parameters that it gets, in a step. [B], >= 0
    seconds : float
        Time in which both happen, at the same time. [s], > 0

    Examples
    --------
    >>> pool = parameter_pool(128, 16, push=17.6e9, pull=17.6e9, seconds=0.731)
    >>> round(pool.worker / 1e9, 1), round(pool.server / 1e9, 1), round(pool.bisection / pool.ring_bisection, 1)
    (24.1, 192.6, 64.5)
    """
    n = units.count(workers, "workers", 2)
    m = units.count(servers, "servers")
    if not (push >= 0 and pull >= 0 and seconds > 0):
        raise ValueError(
            f"push and pull must be >= 0 B and seconds > 0, got {push!r}, {pull!r} and {seconds!r}"
        )
    busier = max(push, pull) / seconds
    ring = 2 * (n - 1) / n * push / seconds
    # A ring crosses a cut twice, once in each direction.
    return ParameterPool(busier, n * busier / m, n * busier, ring, ring)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
