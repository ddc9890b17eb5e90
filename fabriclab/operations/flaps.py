"""A link that goes down for some seconds: what the job waits, and when it dies of it.

A reliable connection sends again after each time-out, so many times; if the link is back by then the job only stood
still, else its library reports an error, and the job goes back to its last checkpoint. With several paths the wait
ends sooner, when the switches have taken the dead link out. Leaves out time-outs that adapt, the time in which a link
that is up again is trained, and jobs that go on without the ranks behind it.

Examples
--------
A flap of 20 s and one of 40 s at the only cable of a NIC, with the retries of NCCL, in the running case:

>>> import fabriclab as fl
>>> job = fl.operations.Checkpoints.of_case(fl.case())
>>> cost = fl.operations.flap([20, 40], job)
>>> [round(seconds) for seconds in cost.lost], cost.crashes.tolist()
([21, 2952], [False, True])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, units
from fabriclab.core import Flags, Floats
from fabriclab.operations.checkpoints import Checkpoints

__all__ = ["PATHS", "FlapCost", "Retries", "flap", "restart_cost", "worst_ratio"]

#: How packets find their path: over one cable only, by a hash over several, or each packet over all of them.
PATHS = ("one", "ecmp", "spray")

_LONGEST = 31  # largest exponent of a time-out
_MOST = 7  # largest number of retries: a field of three bits


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a reliable connection tries: ``count`` retries, each after 4.096 us x 2^``exponent``.

    Parameters
    ----------
    exponent : int
        The local acknowledgement time-out, as NCCL_IB_TIMEOUT sets it. 1..31
    count : int
        Retries, as NCCL_IB_RETRY_CNT sets them. 1..7

    References
    ----------
    .. [1] InfiniBand Architecture Specification, volume 1, sections 12.7.34 and 12.7.38; NCCL user guide, environment
       variables, which has the product as the time before an error.

    Examples
    --------
    >>> from fabriclab import operations
    >>> round(operations.Retries(20, 7).total), round(operations.Retries(22, 7).total)
    (30, 120)
    """

    exponent: int
    count: int

    def __post_init__(self) -> None:
        """Check both numbers."""
        units.count(self.exponent, "exponent", 1, _LONGEST)
        units.count(self.count, "count", 1, _MOST)

    @classmethod
    def nccl(cls) -> Self:
        """Return the retries that NCCL asks for unless told otherwise: exponent 20, 7 times."""
        return cls(
            exponent=int(catalog.value("nccl_model", "ib", "timeout_exponent")),
            count=int(catalog.value("nccl_model", "ib", "retry_count")),
        )

    @property
    def timeout(self) -> float:
        """Time of one try. [s]."""
        return float(catalog.value("nccl_model", "ib", "timeout_unit") * 2**self.exponent)

    @property
    def total(self) -> float:
        """Time until the connection gives up. [s]."""
        return self.count * self.timeout


class FlapCost(NamedTuple):
    """What flaps cost a job, each column in the shape of their durations.

    Parameters
    ----------
    dark : float64
        How long packets go into the dead link. [s]
    stall : float64
        How long the job stands still: until the first retry after that, or until the connection gives up. [s]
    crashes : bool
        Whether it gives up.
    lost : float64
        The stall, and after a crash the restart and the work to be done again. [s]
    slower : float64
        By which factor traffic over the remaining paths is slower until the link is back; 1 with one path. >= 1
    """

    dark: Floats
    stall: Floats
    crashes: Flags
    lost: Floats
    slower: Floats


def flap(
    duration: ArrayLike | str,
    checkpoints: Checkpoints,
    interval: units.Quantity | None = None,
    *,
    retries: Retries | None = None,
    path: str = "one",
    paths: int = 2,
    detect: units.Quantity = "1 s",  # illustrative: a routing protocol with timers of its own
) -> FlapCost:
    """Return what flaps of some durations cost a job that waits for every one of its connections.

    With ``"one"`` path the link is dark for as long as it is down. With ``"ecmp"`` the switches take it out of the hash
    after ``detect``; connections that were hashed to it then wait for their next retry. With ``"spray"`` lost packets
    are sent again one by one as soon as the path is taken out, so nobody waits for a time-out.

    Parameters
    ----------
    duration : array_like or str
        How long the link is down. [s], >= 0
    checkpoints : Checkpoints
        The job, for the cost of a crash.
    interval : float or str, optional
        Work between two checkpoints; the best one unless given. [s]
    retries : Retries, optional
        How long connections try; as NCCL does unless given.
    path : str
        One of `PATHS`.
    paths : int
        Equal paths with the one that flaps: uplinks of a leaf, ports of a NIC on two leaves, planes. >= 2
    detect : float or str
        Time until the dead path is taken out; not used with ``"one"``. [s]

    Raises
    ------
    ValueError
        If a number is outside its range, or ``path`` is unknown.
    """
    down = np.asarray(
        units.time(duration, "duration") if isinstance(duration, str) else duration,
        dtype=np.float64,
    )
    if not np.all((down >= 0) & np.isfinite(down)):
        raise ValueError(f'duration must be finite and >= 0 s, got {duration!r:.60}; write "20 s"')
    kind = units.choice(path, "path", PATHS)
    many = units.count(paths, "paths", 2)
    tries = Retries.nccl() if retries is None else retries

    dark = down
    if kind != "one":
        dark = np.minimum(down, units.time(detect, "detect"))
    # An exact multiple of the time-out is not one retry more because of rounding.
    until_retry = np.ceil(dark / tries.timeout * (1 - 1e-12)) * tries.timeout
    waits = dark if kind == "spray" else until_retry
    crashes = dark >= tries.total
    stall = np.where(crashes, tries.total, waits)
    lost = stall + np.where(crashes, restart_cost(checkpoints, interval), 0.0)
    slower = np.where((kind != "one") & (down > dark), many / (many - 1), 1.0)
    return FlapCost(
        dark=np.asarray(dark),
        stall=np.asarray(stall),
        crashes=np.asarray(crashes),
        lost=np.asarray(lost),
        slower=np.asarray(slower),
    )


def restart_cost(checkpoints: Checkpoints, interval: units.Quantity | None = None) -> float:
    """Return what a crash costs: the restart, and half an interval of work and checkpoint to be done again. [s].

    Parameters
    ----------
    checkpoints : Checkpoints
        The job.
    interval : float or str, optional
        Work between two checkpoints; the best one unless given. [s]
    """
    spacing = checkpoints.best if interval is None else units.time(interval, "interval")
    return checkpoints.restart + (spacing + checkpoints.write) / 2


def worst_ratio(patience: units.Quantity, cost: units.Quantity) -> float:
    """Return how many times the least possible loss is lost at worst, by a job that waits so long before it crashes.

    Whoever knew how long the link is down would wait if that is shorter than the cost of a crash, and crash at once
    else. At worst the link comes back just after the job gave up. Waiting for as long as a crash costs loses twice the
    least, and no other fixed time promises less.

    Parameters
    ----------
    patience : float or str
        Time until the connection gives up. [s], > 0
    cost : float or str
        What a crash costs, by `restart_cost`. [s], > 0

    References
    ----------
    .. [1] A. R. Karlin and others, Algorithmica 3, 1988, pp. 79-119 (snoopy caching): rent or buy.

    Examples
    --------
    >>> from fabriclab import operations
    >>> operations.worst_ratio("600 s", "600 s"), round(operations.worst_ratio("30 s", "2922 s"))
    (2.0, 98)
    """
    wait = units.time(patience, "patience")
    crash = units.time(cost, "cost")
    for name, seconds in (("patience", wait), ("cost", crash)):
        if not seconds > 0:
            raise ValueError(f'{name} must be > 0 s, got {seconds!r}; write "30 s"')
    return (wait + crash) / min(wait, crash)
