"""Break-even of a fabric: what a better one may cost, and what a cheaper one may lose.

A job pays the whole bill for each second of a step. If a fabric is a part f of the bill, a free one pays as long as the
step grows by less than 1 / (1 - f) - 1. And a fabric that makes a step shorter by a factor may raise the whole bill by
that factor.

Utilisation has two meanings here. The share of time in which a GPU is busy, as ``nvidia-smi`` prints it, counts a
GPU that waits in a collective as busy. Model FLOPs utilisation (MFU) counts useful work alone, and money follows it.

Examples
--------
The case is offered half of its network for nothing:

>>> from fabriclab import catalog, economics
>>> offer = economics.half_for_nothing(catalog.case())
>>> round(offer.growth, 3), round(offer.breaks_even, 3), offer.pays
(0.146, 0.094, False)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, units
from fabriclab.catalog import Case

__all__ = ["Claim", "Offer", "claim", "half_for_nothing", "offer", "worth", "worth_growth"]


def worth_growth(share: ArrayLike) -> Any:
    """Return by which part a step may grow if a fabric that is a part of the bill came for nothing.

    Parameters
    ----------
    share : array_like
        Part of the fabric in the bill. 0..1, 1 excluded

    Examples
    --------
    >>> round(float(worth_growth(0.0862)), 3)
    0.094
    """
    part = np.asarray(share, dtype=float)
    if not (np.all(part >= 0) and np.all(part < 1)):
        raise ValueError(
            f"share must be within 0..1, 1 excluded, got {share!r:.80}; write 0.086 for 8.6 %"
        )
    return 1 / (1 - part) - 1


class Offer(NamedTuple):
    """A cheaper fabric that makes a step longer, and whether it pays.

    Parameters
    ----------
    before, after : float
        Time of a step. [s]
    cost_before, cost_after : float
        What a step costs. [USD]
    growth : float
        By which part of itself the step grows.
    breaks_even : float
        The growth at which nobody gains.
    turns_at : float
        Rate of a NIC at which the offer breaks even: it pays above. [B/s]
    """

    before: float
    after: float
    cost_before: float
    cost_after: float
    growth: float
    breaks_even: float
    turns_at: float

    @property
    def pays(self) -> bool:
        """Whether a step costs less with the offer."""
        return self.cost_after < self.cost_before

    def __repr__(self) -> str:
        """Show the step, the cost and the answer."""
        verb = "pays" if self.pays else "does not pay"
        return (
            f"<Offer {verb}: step {self.before:.2f} to {self.after:.2f} s "
            f"({units.format_share(self.growth, 1, signed=True)}, even at "
            f"{units.format_share(self.breaks_even, 1, signed=True)}), USD per step "
            f"{units.format_share(self.cost_after / self.cost_before - 1, 1, signed=True)}, turns at "
            f"{units.format_rate(self.turns_at)}>"
        )


def offer(
    job: Case,
    rate: units.Quantity,
    price: units.Quantity = 0.0,
    *,
    step: Callable[[Case], float] | None = None,
) -> Offer:
    """Return whether another fabric pays: one with NICs of another rate, for another price.

    Parameters
    ----------
    job : Case
        The running case, or one with other rows.
    rate : float or str
        Rate of each NIC of the fabric on offer. [B/s]
    price : float or str
        Price of the fabric on offer. [USD]
    step : callable, optional
        Time of a step for a case with some rate [s]; by default the case's own. To ask the model of training:
        ``step=lambda job: training.of_case(job).time``.

    Examples
    --------
    >>> offer(catalog.case(), "200 Gb/s")
    <Offer does not pay: step 4.60 to 5.27 s (+14.6 %, even at +9.4 %), USD per step +4.7 %, turns at 30.0 GB/s>
    """
    slower = units.rate(rate)
    new_price = units.parse(price, "price", "price")
    if new_price < 0:
        raise ValueError(
            f"price must be >= 0 USD, got {price!r}; a fabric that is a gift has price 0"
        )
    time = step or _step
    rest = job.price_total - job.price_fabric
    breaks_even = job.price_total / (rest + new_price) - 1
    before = time(job)
    after = time(job.replace(nic_rate=slower))
    limit = before * (1 + breaks_even)

    def too_long(rate: float) -> float:
        """Return by how much a step at a rate is longer than it may be. [s]."""
        return time(job.replace(nic_rate=rate)) - limit

    return Offer(
        before,
        after,
        before * _per_second(job, job.price_total),
        after * _per_second(job, rest + new_price),
        after / before - 1,
        breaks_even,
        crossing(too_long, job.nic_rate / 1e3, job.nic_rate * 1e3),
    )


def half_for_nothing(job: Case, *, step: Callable[[Case], float] | None = None) -> Offer:
    """Return what becomes of a job that is offered a fabric of half its rate for nothing; arguments as in `offer`."""
    return offer(job, job.nic_rate / 2, 0.0, step=step)


def worth(job: Case, gain: ArrayLike) -> Any:
    """Return what a fabric may cost in all if useful work grows by a factor, at the same cost per work. [USD].

    Parameters
    ----------
    job : Case
        The running case, with the fabric that is compared with.
    gain : array_like
        Factor of the useful work: of MFU, not of the share of busy GPUs. > 0

    Examples
    --------
    A fabric with which the MFU rises from 41 to 42 % may cost 28 % more than that of the case:

    >>> round(float(worth(catalog.case(), 42 / 41) / catalog.case().price_fabric), 2)
    1.28
    """
    factor = np.asarray(gain, dtype=float)
    if not np.all(factor > 0):
        raise ValueError(f"gain must be > 0, got {gain!r:.80}; write 1.02 for 2 % more useful work")
    rest = job.price_total - job.price_fabric
    return job.price_total * factor - rest


class Claim(NamedTuple):
    """The claim that a fabric lifts utilisation from one value to another, tested on a job.

    Parameters
    ----------
    low, high : float
        Utilisation before and after, as claimed.
    gain : float
        high / low.
    worth_factor : float
        What the better fabric could cost, in fabrics of the case, if the claim held for useful work.
    needs_premium : float
        By which part of itself MFU has to grow to pay for a fabric that is dearer by ``premium``.
    premium : float
        The dearer fabric's extra price over the price of the case's. [USD]
    best : float
        By which factor a network without any limit shortens the step of the case.
    slow_rate : float
        Rate of a NIC at which the step of the case is so long that the case's own NICs lift it by ``gain``; 0 if no
        rate is that slow. [B/s]
    mfu_slow, mfu_fast : float
        MFU at both rates.
    computing_slow, computing_fast : float
        Share of the step in which a GPU computes, at both rates. ``nvidia-smi`` prints about 100 % at both, since the
        kernels of a collective library run while they wait.
    """

    low: float
    high: float
    gain: float
    worth_factor: float
    needs_premium: float
    premium: float
    best: float
    slow_rate: float
    mfu_slow: float
    mfu_fast: float
    computing_slow: float
    computing_fast: float

    def __repr__(self) -> str:
        """Show what the claim would need."""
        return (
            f"<Claim {units.format_share(self.low)} to {units.format_share(self.high)}: {self.gain:.2f} times, "
            f"worth {self.worth_factor:.1f} fabrics; "
            f"an unlimited network gives {self.best:.3f} times; true only against NICs of "
            f"{units.format_rate(self.slow_rate)}; {self.premium:,.0f} USD more need "
            f"{units.format_share(self.needs_premium, 2, signed=True)}>"
        )


def claim(
    job: Case,
    low: float = 0.40,
    high: float = 0.90,
    *,
    premium: units.Quantity | None = None,
    step: Callable[[Case], float] | None = None,
) -> Claim:
    """Test the claim that a dearer fabric pays, since utilisation rises from 40 to 90 %.

    Parameters
    ----------
    job : Case
        The running case, or one with other rows.
    low, high : float
        Utilisation before and after. 0..1
    premium : float or str, optional
        What the dearer fabric costs more. By default that of switches at their maker's price over those of a reseller.
        [USD]
    step : callable, optional
        As in `offer`.

    Examples
    --------
    >>> tested = claim(catalog.case())
    >>> round(tested.gain, 2), round(tested.worth_factor, 1), round(tested.best, 3)
    (2.25, 15.5, 1.002)
    >>> units.format_rate(tested.slow_rate)
    '5.40 GB/s'
    """
    if not 0 < low < high <= 1:
        raise ValueError(
            f"low and high must be shares with 0 < low < high <= 1, got {low!r} and {high!r}"
        )
    time = step or _step
    extra = _premium(job) if premium is None else units.parse(premium, "price", "premium")
    gain = high / low
    now = time(job)
    fastest = time(job.replace(nic_rate=job.nic_rate * 1e3))

    def too_short(rate: float) -> float:
        """Return by how much the step at a rate is longer than the claim needs. [s]."""
        return time(job.replace(nic_rate=rate)) - gain * now

    slow = crossing(too_short, job.nic_rate / 1e3, job.nic_rate)
    return Claim(
        low,
        high,
        gain,
        float(worth(job, gain) / job.price_fabric),
        extra / job.price_total,
        extra,
        now / fastest,
        slow,
        job.mfu * job.t_step / (gain * now),
        job.mfu * job.t_step / now,
        job.t_compute / (gain * now),
        job.t_compute / now,
    )


def _premium(job: Case) -> float:
    """Return the extra price of switches at their maker's price over those of a reseller. [USD]."""
    dear = catalog.costs["switch"].spec("price", name="64 x 400 Gb/s, NVIDIA")
    return float(job.switches * ((dear.si or 0.0) - job.price_switch))


def crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that does not rise crosses 0, by bisection on a logarithmic scale; 0 if it does not.

    Parameters
    ----------
    function : callable
        Positive at ``low`` and not positive at ``high``.
    low, high : float
        Where to search. 0 < low < high
    """
    if not function(low) > 0 >= function(high):
        return 0.0
    below, above = np.log(low), np.log(high)
    for _ in range(60):  # halves of a factor of 1e6: below 1e-15
        middle = (below + above) / 2
        if function(float(np.exp(middle))) > 0:
            below = middle
        else:
            above = middle
    return float(np.exp(above))


def _step(job: Case) -> float:
    """Return the time of a step by the case's own formula. [s]."""
    return float(job.t_step)


def _per_second(job: Case, price: float) -> float:
    """Return what a second of a whole cluster costs that has cost ``price``. [USD]."""
    return price / job.lifetime
