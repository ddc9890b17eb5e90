"""The inputs of a decision: what a job needs, what fabrics give, and what a step costs on each of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.catalog import Case
from fabriclab.catalog.tables import read_rows
from fabriclab.core import ReadOnly
from fabriclab.economics import fabrics, skills
from fabriclab.economics.fabrics import ETHERNETS, GO_BACK_N, INFINIBAND, LOSSLESS, NONE, PCIE
from fabriclab.economics.prices import HOUR, YEAR, price_ranges
from fabriclab.economics.ranges import Range

__all__ = [
    "Input",
    "decision_inputs",
    "exposed",
    "go_back_n",
    "input_of",
    "inputs",
    "step_costs",
    "step_times",
]

_WITH_NICS = (*ETHERNETS, INFINIBAND)
_PACKET = 4096.0  # B, illustrative: the largest payload of RoCE and InfiniBand
_MOST_LOST = 0.99  # of the hours of a year


class Input(NamedTuple):
    """An input of a decision: its unit, its quantity for the parser, and where to search for turns.

    Parameters
    ----------
    unit : str
        Unit of the value.
    quantity : str
        As for `fabriclab.units.parse`.
    low, high : float
        Bounds of the value, and of the search.
    what : str
        What it is.
    """

    unit: str
    quantity: str
    low: float
    high: float
    what: str

    def grid(self, points: int) -> NDArray[np.float64]:
        """Return values between the bounds, by equal ratios, or by equal steps where the low one is 0, (points,)."""
        if self.low > 0:
            return np.geomspace(self.low, self.high, points)
        return np.linspace(self.low, self.high, points)

    def parse(self, name: str, value: units.Quantity) -> float:
        """Return a value in SI; one outside the bounds is refused, but 0 is always allowed where it means "none"."""
        number = units.parse(value, self.quantity, name)
        may_be_zero = name in ("sent", "loss", "hours_per_level") or self.low == 0
        if (may_be_zero and number == 0) or self.low <= number <= self.high:
            return number
        raise ValueError(
            f"{name} ({self.what}) must be within {self.low:g}..{self.high:g} {self.unit}, got {value!r}; "
            "give a value within that"
        )


@cache
def inputs() -> Mapping[str, Input]:
    """Return all inputs by name; those of each fabric begin with ``efficiency``, ``price`` or ``lacking``.

    Bounds are wide, so that a turn outside of them means nothing.
    """
    found = {}
    for row in read_rows(Path(__file__).with_name("inputs.csv")):
        bounds = float(row["low"]), float(row["high"])
        found[row["name"]] = Input(row["unit"], row["quantity"], *bounds, row["what"])
    return ReadOnly(found)


def input_of(name: str) -> Input:
    """Return what an input is, from its name; one of a single fabric begins with the name of its kind."""
    table = inputs()
    if name in table:
        return table[name]
    return table[name.partition("_")[0]]


def decision_inputs(job: Case, levels: Mapping[str, int]) -> Mapping[str, Range]:
    """Return all inputs of a decision with their ranges and sources.

    What the job is has one value each; what the world is has a range. Two inputs have no source: ``loss``, the packets
    that are lost where neither credits nor pauses prevent it, and ``hours_per_level``.

    Parameters
    ----------
    job : Case
        The running case, or one with other rows.
    levels : mapping of str to int
        The team, as `fabriclab.economics.team` returns it.
    """
    prices = price_ranges(job)
    gpus = float(job.gpus)
    each = float(job.gpus_per_server)
    found = {
        "gpus": _point(gpus, "GPUs"),
        "sent": _point(job.dp_bytes, "B"),
        "window": _point(job.window, "s"),
        "busy": _point(job.t_compute + job.t_tp, "s"),
        "buckets": _point(job.layers, "1"),
        "nic_rate": _point(job.nic_rate, "B/s"),
        # illustrative: no source says how many packets a fabric without pauses loses
        "loss": Range(1e-5, 1e-3, 1e-2, "1", (), "no source"),
        # illustrative: as in the lesson on transports
        "round_trip": Range(5e-6, 1e-5, 2e-5, "s", (), "no source"),
        "rest": _sum(prices, {"server": 1 / each, "facility": 1 / each}),
        "fabric": _fabric(job, prices),
        "lifetime": prices["lifetime"],
        # illustrative: below it the model of a step cannot tell two fabrics apart
        "tolerance": Range(0.0, 0.005, 0.02, "1", (), "no source"),
        # illustrative: no source says what a lacking level costs
        "hours_per_level": Range(0.0, 8.0, 40.0, "h", (), "no source"),
        "pcie_rate": fabrics.pcie_rate(),
        "pcie_limit": _point(fabrics.pcie_limit(), "GPUs", "ISC25-PCIe"),
    }
    for key in _WITH_NICS:
        found[f"efficiency_{key}"] = fabrics.efficiency(key)
    for key in (*_WITH_NICS, PCIE):
        found[f"price_{key}"] = fabrics.price_factor(key, job)
        lacking = skills.score(levels, key).lacking
        found[f"lacking_{key}"] = _point(lacking, "1", "the team")
    return ReadOnly(found)


def step_times(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the time of a step on each fabric, for numbers or arrays of inputs. [s]."""
    sent = np.asarray(values["sent"], dtype=float)
    window = values["window"]
    buckets = values["buckets"]
    busy = np.asarray(values["busy"], dtype=float)
    found = {NONE: busy + exposed(0 * sent, window, buckets)}
    for key in _WITH_NICS:
        rate = values["nic_rate"] * values[f"efficiency_{key}"] * _kept(key, values)
        found[key] = busy + exposed(sent / rate, window, buckets)
    found[PCIE] = busy + exposed(sent / values["pcie_rate"], window, buckets)
    return ReadOnly({key: found[key] for key in fabrics.options()})


def step_costs(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a step costs for each GPU on each fabric, for numbers or arrays of inputs. [USD].

    The price of all parts over the life, times the step, over the share of hours that are not lost for want of skill;
    inf where the job cannot run: without a network if it sends anything, on a PCIe fabric that is too small.
    """
    found = {}
    for key, time in step_times(values).items():
        price = values["rest"] + _price(key, values) * values["fabric"]
        per_second = price / values["lifetime"]
        found[key] = per_second * time / (1 - _lost(key, values))
    sends = np.asarray(values["sent"]) > 0
    found[NONE] = np.where(sends, np.inf, found[NONE])
    too_many = np.asarray(values["gpus"]) > values["pcie_limit"]
    found[PCIE] = np.where(too_many, np.inf, found[PCIE])
    return ReadOnly(found)


def exposed(total: ArrayLike, window: ArrayLike, buckets: ArrayLike) -> Any:
    """Return what of a sum in equal buckets a window does not hide, for arrays: as `Case.exposed` without latency.

    Parameters
    ----------
    total : array_like
        Time of the whole sum. [s]
    window : array_like
        Time in which the buckets become ready one after another. [s]
    buckets : array_like
        How many there are. >= 1
    """
    whole = np.asarray(total, dtype=float)
    span = np.asarray(window, dtype=float)
    n = np.asarray(buckets, dtype=float)
    first_decides = span / n + whole
    last_decides = span + whole / n
    return np.maximum(first_decides, last_decides) - span


def go_back_n(loss: ArrayLike, in_flight: ArrayLike) -> Any:
    """Return which part of its rate go-back-N keeps: a lost packet takes all that are on their way with it.

    (1 - p) / (1 - p + W p), for a share p of lost packets and W packets on their way.

    Parameters
    ----------
    loss : array_like
        Part of packets that are lost. 0..1
    in_flight : array_like
        Packets on their way. >= 1

    Examples
    --------
    >>> round(float(go_back_n(0.01, 122)), 2)
    0.45
    """
    p = np.asarray(loss, dtype=float)
    return (1 - p) / (1 - p + np.asarray(in_flight, dtype=float) * p)


def _kept(key: str, values: Mapping[str, Any]) -> Any:
    """Return which part of its rate a fabric keeps where packets are lost."""
    loss = np.asarray(values["loss"], dtype=float)
    if key in (INFINIBAND, LOSSLESS):
        return np.ones_like(loss)
    if key == GO_BACK_N:
        in_flight = values["nic_rate"] * values["round_trip"] / _PACKET
        return go_back_n(loss, np.maximum(in_flight, 1.0))
    return 1 - loss


def _lost(key: str, values: Mapping[str, Any]) -> Any:
    """Return the share of hours that are lost for want of skill."""
    if key == NONE:
        return 0.0
    hours = values[f"lacking_{key}"] * np.asarray(values["hours_per_level"], dtype=float)
    return np.minimum(hours * HOUR / YEAR, _MOST_LOST)


def _price(key: str, values: Mapping[str, Any]) -> Any:
    """Return the price of a fabric over that of the case's."""
    return 0.0 if key == NONE else values[f"price_{key}"]


def _point(value: float, unit: str, source: str = "the case") -> Range:
    """Return an input that has one value."""
    return Range(float(value), float(value), float(value), unit, (source,))


def _sum(prices: Mapping[str, Range], factors: Mapping[str, float]) -> Range:
    """Return the sum of several ranges, each times a factor."""
    low = sum(factor * prices[name].low for name, factor in factors.items())
    middle = sum(factor * prices[name].middle for name, factor in factors.items())
    high = sum(factor * prices[name].high for name, factor in factors.items())
    sources = [source for name in factors for source in prices[name].sources]
    return Range(low, middle, high, "USD", tuple(dict.fromkeys(sources)))


def _fabric(job: Case, prices: Mapping[str, Range]) -> Range:
    """Return the price of the case's fabric for each GPU. [USD]."""
    tiers = (1 + job.cables_spine / job.cables_host) / 2
    factors = {"switch": job.switches / job.gpus, "cables": tiers / job.gpus_per_server}
    return _sum(prices, factors)
