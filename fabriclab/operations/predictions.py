"""Failures of one fleet predicted from others, and how far off that is.

Every fleet has a rate for each GPU; the model of all fleets is their geometric mean, one vote for each fleet, and how
far the fleets lie apart. It knows neither the GPU nor the age of a fleet nor what is counted, and the studies differ in
all three. So its band is wide, and it is the honest answer to "how often will our new cluster fail?".

Examples
--------
>>> from fabriclab import operations
>>> from fabriclab.units import format_share
>>> for row in operations.transfer("llama3"):
...     error = format_share(row.error, signed=True)
...     print(f"{row.source.key}: {row.predicted:.0f} for {row.published:.0f}, {error}")
rsc1-8: 2318 for 419, +453 %
rsc1-1024: 2625 for 419, +526 %
rsc1-nodes: 719 for 419, +72 %
opt: 2809 for 419, +570 %
infinitehbd: 463 for 419, +10 %
infinitehbd-hardware: 236 for 419, -44 %
lablup: 320 for 419, -24 %
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.catalog.tables import near
from fabriclab.core import Floats
from fabriclab.operations.rates import (
    PARTS,
    Fleet,
    components,
    events_by_part,
    exposure,
    fleet,
    fleets,
    mean_time,
)

__all__ = [
    "ComponentTransfer",
    "FleetFit",
    "HeldOut",
    "Transfer",
    "fit_fleets",
    "held_out",
    "transfer",
    "transfer_components",
]

_HIGH = 0.9  # upper end of a band that has four of five fleets
# Parts whose failures a row counts; all parts unless it is here.
_LIKE = {
    "hardware failures of nodes": ("gpu", "network", "nic", "host"),
    "failures of GPUs": ("gpu",),
}


class FleetFit(NamedTuple):
    """A rate fitted to several fleets, and how far they lie apart.

    Parameters
    ----------
    rate : float
        Geometric mean of the rates of the fleets, for one GPU. [1/s]
    spread : float
        Standard deviation of the logarithm of their rates; exp(spread) is a factor.
    fleets : tuple of str
        Which fleets it has seen.
    """

    rate: float
    spread: float
    fleets: tuple[str, ...]

    def mean_time(self, gpus: ArrayLike) -> Floats:
        """Return the mean time between failures of a job on some GPUs, in the shape of ``gpus``. [s]."""
        return mean_time(self.rate, gpus)

    def band(self, gpus: ArrayLike) -> tuple[Floats, Floats]:
        """Return between which mean times four of five new fleets should lie, each in the shape of ``gpus``. [s].

        The rate of a new fleet is taken from a t distribution of the logarithm, as its mean and its spread are both
        estimated from these few fleets.
        """
        from scipy.stats import t

        n = len(self.fleets)
        wide = t.ppf(_HIGH, n - 1) * self.spread * np.sqrt(1 + 1 / n)
        middle = self.mean_time(gpus)
        return middle * np.exp(-wide), middle * np.exp(wide)


class HeldOut(NamedTuple):
    """A published mean time beside a model that has not seen its fleet.

    Parameters
    ----------
    fleet : Fleet
        The published row.
    model : float
        Mean time by the fit of all other fleets. [s]
    low, high : float
        The band of that fit. [s]
    error : float
        The model over the published time, less 1.
    inside : bool
        Whether the published time lies within the band.
    """

    fleet: Fleet
    model: float
    low: float
    high: float
    error: float
    inside: bool


class Transfer(NamedTuple):
    """Failures of a run, predicted from the rate of one other fleet.

    Parameters
    ----------
    source, target : Fleet
        The fleet whose rate is used, and the run that is predicted.
    predicted, published : float
        Failures of the run.
    mean_time : float
        Mean time between failures that this predicts. [s]
    error : float
        Predicted over published failures, less 1.
    like, like_error : float
        Failures of the run of the kind that the source counts, such as those of GPUs only, and the error against them.
    """

    source: Fleet
    target: Fleet
    predicted: float
    published: float
    mean_time: float
    error: float
    like: float
    like_error: float


class ComponentTransfer(NamedTuple):
    """Failures of one part in a run, predicted from another fleet's failures of that part.

    Parameters
    ----------
    part : str
        One of `fabriclab.operations.PARTS`.
    predicted : float
        Failures by the rate of the other fleet.
    low, high : float
        What 95 of 100 such predictions should lie within, if both fleets were alike and only counting differed.
    published : float
        Failures of the run.
    error : float
        Predicted over published failures, less 1.
    """

    part: str
    predicted: float
    low: float
    high: float
    published: float
    error: float


def fit_fleets(without: Sequence[str] = (), counts: str = "") -> FleetFit:
    """Return the rate of all fleets but some: the geometric mean, in which each fleet counts once.

    Parameters
    ----------
    without : sequence of str
        Fleets that the fit must not see, by `Fleet.fleet`, such as ``["Llama 3"]``.
    counts : str
        Only rows that count this, such as ``"interruptions of a job"``; all rows unless given.

    Raises
    ------
    KeyError
        If there is no such fleet.
    ValueError
        If fewer than two fleets are left.

    Examples
    --------
    >>> from fabriclab import operations
    >>> fit = operations.fit_fleets(without=["Llama 3"])
    >>> round(float(fit.mean_time(16384)) / 3600, 2), len(fit.fleets)
    (1.55, 4)
    """
    if isinstance(without, str):
        raise TypeError(f"without must list fleets, got {without!r}; write [{without!r}]")
    rows = fleets()
    known = {row.fleet for row in rows}
    for name in without:
        if name not in known:
            raise KeyError(near(name, known, "the table of fleets"))
    logarithms: dict[str, list[float]] = {}
    for row in rows:
        if row.fleet not in without and counts in ("", row.counts):
            logarithms.setdefault(row.fleet, []).append(np.log(row.rate))
    if len(logarithms) < 2:
        raise ValueError(
            f"a fit needs two fleets or more, got {sorted(logarithms) or 'none'}; leave out fewer, or count more"
        )
    means = np.array([np.mean(values) for values in logarithms.values()])
    return FleetFit(
        rate=float(np.exp(means.mean())),
        spread=float(means.std(ddof=1)),
        fleets=tuple(logarithms),
    )


def held_out() -> tuple[HeldOut, ...]:
    """Return every published mean time beside the fit of the other fleets.

    Examples
    --------
    >>> from fabriclab import operations
    >>> rows = operations.held_out()
    >>> sum(row.inside for row in rows), len(rows)
    (7, 8)
    """
    found = []
    for row in fleets():
        fit = fit_fleets(without=[row.fleet])
        model = float(fit.mean_time(row.gpus))
        low, high = fit.band(row.gpus)
        found.append(
            HeldOut(
                fleet=row,
                model=model,
                low=float(low),
                high=float(high),
                error=model / row.published - 1,
                inside=bool(low <= row.published <= high),
            )
        )
    return tuple(found)


def transfer(target: str = "llama3") -> tuple[Transfer, ...]:
    """Return the failures of a published run as the rate of each other fleet predicts them.

    Parameters
    ----------
    target : str
        Key of the run, one with counts by component; its GPUs and its length are those of the study.
    """
    run = fleet(target)
    counted = events_by_part(target)
    events = float(sum(counted.values()))
    found = []
    for source in fleets():
        if source.fleet == run.fleet:
            continue
        predicted = events * source.rate / run.rate
        kind = _LIKE.get(source.counts, PARTS)
        like = float(sum(counted.get(part, 0) for part in kind))
        found.append(
            Transfer(
                source=source,
                target=run,
                predicted=predicted,
                published=events,
                mean_time=float(source.mean_time(run.gpus)),
                error=predicted / events - 1,
                like=like,
                like_error=predicted / like - 1,
            )
        )
    return tuple(found)


def transfer_components(
    source: str = "infinitehbd", target: str = "llama3"
) -> tuple[ComponentTransfer, ...]:
    """Return the failures of each part of a run, as the rates of another fleet predict them.

    The interval is that of a count predicted from another count, and no more: where the published number lies outside,
    the fleets differ, or what they count does.

    Examples
    --------
    >>> from fabriclab import operations
    >>> for row in operations.transfer_components()[:3]:
    ...     print(f"{row.part}: {row.predicted:.0f} predicted, {row.published:.0f} published")
    gpu: 125 predicted, 268 published
    network: 32 predicted, 35 published
    nic: 24 predicted, 7 published
    """
    theirs = components(target)
    ratio = exposure(target) / exposure(source)
    found = []
    for part, one in components(source).items():
        if part not in theirs:
            continue
        predicted = one.events * ratio
        published = float(theirs[part].events)
        low, high = _count_from(one.events, ratio)
        found.append(
            ComponentTransfer(
                part=part,
                predicted=predicted,
                low=low,
                high=high,
                published=published,
                error=predicted / published - 1,
            )
        )
    return tuple(sorted(found, key=lambda row: PARTS.index(row.part)))


def _count_from(events: int, ratio: float) -> tuple[float, float]:
    """Return within which 95 of 100 counts lie in ``ratio`` times the time in which ``events`` were counted.

    References
    ----------
    .. [1] A. Gelman and others, Bayesian Data Analysis, 2013, section 2.6: a count predicted from a count is negative
       binomial; the prior is Jeffreys'.
    """
    from scipy.stats import nbinom

    counted = nbinom(events + 0.5, 1 / (1 + ratio))
    return float(counted.ppf(0.025)), float(counted.ppf(0.975))
