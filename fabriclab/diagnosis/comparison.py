"""What a run should reach, held against what it reached: by the model with its band, or by an earlier run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, tuner
from fabriclab.core import Result, bus_factor
from fabriclab.core.result import BUS_FACTORS
from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.cluster import facts_of, system_of
from fabriclab.diagnosis.tables import BandwidthTable
from fabriclab.systems import System

__all__ = ["Comparison", "Row", "compare", "estimates", "figure", "slower_runs"]

_GB = 1e9
_SLOW = 0.8  # of a baseline: below it a run is slower than runs differ
_FULL = 0.9  # of what the NICs of a server carry
# How a system with one server describes itself.
_ONE_SERVER = re.compile(r"^1 server x (\d+) (\S+) \(\1 ranks\)")
_NEARLY = 0.95  # of the lower end of the band: runs differ by some percent
_UNCLEAR = 0.85  # of the lower end of the band: above it neither is sure
# Why a run below its band is not called slow.
_CLOSE = "close"  # so close to the band that another run may reach it
_FULL_NICS = "full"  # a ring over NICs that are full; the model has another algorithm send less
_NOT_FAR = "unclear"
_FEWER_NICS = "assumed"  # the servers may have fewer NICs than the model takes for granted
_REACHED = 0.8  # of a NIC's rate, which a good all-reduce of a large size reaches

# What the model needs, and logs rarely say.
_SUPPOSED = {
    "nics": "how many NICs a server has",
    "rate": "the rate of a NIC",
    "transport": "the transport",
    "fabric": "how the servers are joined",
}

Estimates = Callable[[str, float], tuner.Estimate]


class Row(NamedTuple):
    """A size [B] with its bus bandwidth as measured and as expected, and the band of the latter [GB/s]."""

    size: float
    measured: float
    expected: float
    low: float
    high: float

    @property
    def state(self) -> str:
        """Whether the measured value is below, within or above the band."""
        if self.measured < self.low:
            return "below"
        if self.measured > self.high:
            return "above"
        return "within"


@dataclass(frozen=True)
class Comparison:
    """Measured bus bandwidths against expected ones.

    Parameters
    ----------
    table : BandwidthTable
        What was measured.
    rows : tuple of Row
        Sizes that both have; empty if nothing is expected.
    by : str
        What the expectation comes from, in words.
    healthy : bool or None
        Whether the largest size reaches its band; False only if it is so far below that the run counts as slow. None
        if that cannot be told, which includes every run below its band that is not called slow.
    near : str
        Why a run below its band is not called slow: ``close``, ``unclear``, ``full`` (its NICs are) or ``assumed``
        (what the model takes for granted may not hold); empty otherwise.
    binds : str
        What limits the largest size by the model; empty without one.
    gain : float
        How many times as fast the largest size would be as expected; 1 if unknown.
    note : str
        What the model says of its own limits.
    """

    table: BandwidthTable
    rows: tuple[Row, ...]
    by: str
    healthy: bool | None
    binds: str = ""
    gain: float = 1.0
    note: str = ""
    near: str = ""

    @property
    def below(self) -> bool:
        """Whether the largest size lies below its band, by however little."""
        return bool(self.rows) and self.rows[-1].state == "below"

    @property
    def short(self) -> list[Row]:
        """The rows that lie below their band."""
        return [row for row in self.rows if row.state == "below"]

    @property
    def sound(self) -> bool:
        """Whether the figures clear what costs speed: the band is all but reached, or the NICs are full."""
        return bool(self.healthy) or self.near in (_CLOSE, _FULL_NICS)

    def results(self) -> tuple[Result, Result] | None:
        """Return measured and expected bus bandwidth as two results for a picture; None where nothing is expected."""
        rows = [row for row in self.rows if row.measured > 0 and row.expected > 0]
        ranks = self.table.ranks
        if not rows or ranks < 2 or self.table.collective not in BUS_FACTORS:
            return None
        collective = self.table.collective
        sizes = np.array([row.size for row in rows])
        moved = bus_factor(collective, ranks) * sizes / _GB  # what a bus bandwidth divides, (K,)
        measured_time = moved / np.array([row.measured for row in rows])
        expected_time = moved / np.array([row.expected for row in rows])
        shortest = moved / np.array([row.high for row in rows])
        longest = moved / np.array([row.low for row in rows])
        measured = Result(
            collective,
            "measured",
            sizes,
            measured_time,
            ranks,
            source=self.table.name,
            asked={"label": "measured"},
        )
        expected = Result(
            collective,
            "predicted",
            sizes,
            expected_time,
            ranks,
            low=shortest,
            high=longest,
            source=self.by,
            asked={"label": "expected"},
        )
        return measured, expected


def compare(case: Case, cluster: System | None = None) -> list[Comparison]:
    """Return a comparison of each measured table: with a baseline if there is one, else with the model.

    Parameters
    ----------
    case : Case
        What the files say.
    cluster : System, optional
        The cluster; found in the files unless given.
    """
    known = facts_of(case)
    assumed = cluster is None and "nics" not in known
    supposed = [] if cluster else [words for name, words in _SUPPOSED.items() if name not in known]
    given = cluster is not None
    cluster = cluster or system_of(case)
    models: dict[int, tuple[System, Estimates]] = {}  # by number of servers
    found = []
    faster = {id(table): best for table, best in slower_runs(case)}
    for table in case.measured:
        baseline = _baseline_of(table, case)
        if baseline is not None:
            found.append(_by_other(table, baseline, f"the earlier run “{baseline.name}”"))
        elif cluster is not None and table.collective:
            servers = cluster.servers if given else len(set(table.hosts)) or cluster.servers
            if servers not in models:
                model = _of_servers(cluster, servers)
                models[servers] = (model, estimates(model))
            model, estimated = models[servers]
            found.append(_by_model(table, model, estimated, assumed and model.servers > 1))
            if supposed and model.nics:
                by = f"{found[-1].by}; assumed, since no file says: {', '.join(supposed)}"
                found[-1] = replace(found[-1], by=by)
        else:
            found.append(_by_nics(case, table))
        best = faster.get(id(table))
        if (
            best and found[-1].healthy is not False
        ):  # what the same test reached counts more than a model
            by = f"the fastest run of the same test, in {best.name}"
            found[-1] = _by_other(table, best, by)
    return found


def _of_servers(cluster: System, servers: int) -> System:
    """Return a cluster with so many servers; the cluster itself if that makes none."""
    if servers == cluster.servers:
        return cluster
    try:
        return cluster.replace(servers=servers)
    except (ValueError, TypeError, KeyError):
        return cluster


def slower_runs(case: Case) -> list[tuple[BandwidthTable, BandwidthTable]]:
    """Return the tables that are slower than the fastest one of the same test on as many ranks, with that one.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    tests: dict[tuple[str, int], list[BandwidthTable]] = {}
    for table in case.measured:
        if table.ranks and table.collective and table.peak > 0:
            tests.setdefault((table.collective, table.ranks), []).append(table)
    found = []
    for tables in tests.values():
        best = max(tables, key=lambda table: table.peak)
        for table in tables:
            if table is not best and _by_other(table, best, "").healthy is False:
                found.append((table, best))
    return found


def _by_other(table: BandwidthTable, other: BandwidthTable, by: str) -> Comparison:
    """Compare with another run; a fifth less is within what runs differ by."""
    before = dict(zip(other.sizes, other.busbw, strict=True))
    rows = []
    for size, measured in zip(table.sizes, table.busbw, strict=True):
        if size in before and before[size] > 0 and measured == measured:
            expected = before[size]
            rows.append(Row(size, measured, expected, _SLOW * expected, expected / _SLOW))
    healthy = None
    gain = 1.0
    if rows:
        healthy = rows[-1].state != "below"
        gain = rows[-1].expected / rows[-1].measured if rows[-1].measured else 1.0
    return Comparison(table, tuple(rows), by, healthy, gain=gain)


def estimates(cluster: System) -> Estimates:
    """Return the model of a cluster; a long log repeats the same sizes, and each is estimated once.

    Parameters
    ----------
    cluster : System
        The cluster.
    """

    @cache
    def estimated(collective: str, size: float) -> tuner.Estimate:
        return tuner.estimate(cluster, collective, size)

    return estimated


def _by_model(
    table: BandwidthTable, cluster: System, estimated: Estimates, assumed: bool
) -> Comparison:
    """Compare with the model of `fabriclab.estimate` and its band.

    If the NICs are ``assumed`` to be those of the usual server, a run below the band is called slow only if one such
    NIC would be faster: the servers may have fewer or slower ones.
    """
    rows = []
    binds = ""
    note = ""
    for size, measured in zip(table.sizes, table.busbw, strict=True):
        if size <= 0 or measured != measured:
            continue
        try:
            estimate = estimated(table.collective, size)
        except (ValueError, TypeError, KeyError) as error:
            return Comparison(table, (), f"no model of this run: {error}", None)
        expected = estimate.busbw / _GB
        low = min(expected, expected * estimate.time / estimate.high)
        high = max(expected, expected * estimate.time / estimate.low)
        rows.append(Row(size, measured, expected, low, high))
        binds = estimate.binds
        note = estimate.note
    if not rows:
        return Comparison(table, (), "no row with a size", None)
    last = rows[-1]
    healthy: bool | None = last.state != "below"
    near = ""
    full = (
        cluster.nics * cluster.rate / _GB if cluster.servers > 1 and cluster.nics else float("inf")
    )
    if healthy is False:
        if last.measured >= _NEARLY * last.low:
            near = _CLOSE
        elif table.collective == "all_reduce" and last.measured >= _FULL * full:
            near = _FULL_NICS
        elif last.measured >= _UNCLEAR * last.low:
            near = _NOT_FAR
        elif assumed and last.measured >= _least(cluster, table.collective, last.size):
            near = _FEWER_NICS
        if near:
            healthy = None
    gain = last.expected / last.measured if last.measured > 0 else 1.0
    described = repr(cluster).removeprefix("<System: ").removesuffix(">")
    # In one server all ranks are its GPUs, which need not be counted twice.
    described = _ONE_SERVER.sub(r"\1 \2 in one server", described).replace(
        " x ", " \N{MULTIPLICATION SIGN} "
    )
    by = f"the model for {described}"
    return Comparison(table, tuple(rows), by, healthy, binds, gain, note, near)


def figure(value: float, digits: int = 3) -> str:
    """Return a number with so many digits that count, and large ones without an exponent: 200, not 2e+02.

    Parameters
    ----------
    value : float
        A rate or a ratio.
    digits : int
        Digits that count.
    """
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) < 10**digits:
        return f"{value:.{digits}g}"
    return f"{rounded:,.0f}"


def _least(cluster: System, collective: str, size: float) -> float:
    """Return the lower end of the band with a single NIC in each server [GB/s]; infinite if there is no model of it."""
    try:
        estimate = tuner.estimate(cluster.replace(nics=1), collective, size)
    except (ValueError, TypeError, KeyError):
        return float("inf")
    return estimate.busbw * estimate.time / estimate.high / _GB


@cache
def _nic_rates() -> tuple[float, ...]:
    """Return the rates of the NICs in the catalog [Gb/s], each once."""
    rates = set()
    for name, facts in catalog.nics.items():
        if "throughput" in facts:
            rates.add(round(8 / _GB * catalog.value("nics", name, "throughput")))
    return tuple(sorted(rates))


def _baseline_of(table: BandwidthTable, case: Case) -> BandwidthTable | None:
    """Return the earlier run of the same test with as many ranks; what a file does not say may be anything."""
    for other in case.baselines:
        same_test = other.collective == table.collective or not (
            other.collective and table.collective
        )
        as_many = other.ranks == table.ranks or not (other.ranks and table.ranks)
        if same_test and as_many:
            return other
    return None


def _printed_rate(case: Case) -> float:
    """Return the largest rate of a port that the files print [Gb/s]; 0 if none."""
    rates = [each.rate for each in case.nic_rates]
    for ports in case.ports.values():
        rates += [port.rate for port in case.ports_of_job(ports) if port.up]
    return max(rates, default=0.0)


def _of_nics(nics: int, rate: str, each: float) -> str:
    """Return in words what NICs can carry, and what they would carry of a table [Gb/s]."""
    if nics == 1:
        return f"one NIC {rate}, which carries {each:.0f} Gb/s then"
    return f"{nics} NICs {rate} each, which carry {each:.0f} Gb/s each then"


def _by_nics(case: Case, table: BandwidthTable) -> Comparison:
    """Compare with the rates that NICs are sold with, if neither GPU nor baseline is known.

    A large all-reduce over n NICs of a server moves its bus bandwidth over them, so each carries the n-th part. If
    that is just below one of the usual rates, the run is taken to be limited by its NICs.
    """
    nics = max((len(of_host) for of_host in case.log.devices.values()), default=0)
    if not nics or not table.peak or not case.several_servers:
        return Comparison(table, (), "", None)
    each = table.peak / nics * 8
    printed = _printed_rate(case)
    tested = max((row.rate for row in case.perftest), default=0.0)
    if printed or tested:
        # What perftest measures is not the rate of the NIC, and is held for it only where no port tells a higher one.
        rate_in_words = f"of {printed:g} Gb/s"
        if tested > printed:
            printed = tested
            rate_in_words = f"of which a test of RDMA alone gets {tested:.0f} Gb/s"
        by = _of_nics(nics, rate_in_words, each)
        healthy = True if each >= _REACHED * printed else None
        return Comparison(table, (), by, healthy)
    for rate in _nic_rates():
        if _REACHED <= each / rate <= 1:
            by = _of_nics(nics, f"of {rate:.0f} Gb/s", each)
            return Comparison(table, (), by, True)
    return Comparison(table, (), "", None)
