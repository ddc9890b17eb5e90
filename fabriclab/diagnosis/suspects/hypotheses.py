"""Causes tried on the model: the same cluster with one fault, and whether its rate is the one that was measured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.cluster import system_of
from fabriclab.diagnosis.comparison import Estimates, Row, compare, estimates, figure
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.registry import register
from fabriclab.systems import System

_GB = 1e9
_FITS = 0.45  # sure; other faults may cost as much
_UNKNOWN = 0.25
_SHAPE = 0.04  # surer, or less sure, by how rates grow with the size
_MOST, _FEW = 0.7, 0.3  # of the sizes
_LARGE = 2.0**20  # [B]; below it times are those of starting, not of moving


class Hypothesis(NamedTuple):
    """A fault, as a change of the cluster, in words."""

    cause: str
    changes: Mapping[str, Any]
    words: str


def hypotheses(cluster: System) -> list[Hypothesis]:
    """Return the faults to try on a cluster.

    Parameters
    ----------
    cluster : System
        The cluster as it should be.
    """
    if cluster.servers == 1:
        return [Hypothesis("p2p_disabled", {"scale_up": "pcie4"}, "without links between GPUs")]
    found = [
        Hypothesis(
            "fallback_to_sockets", {"transport": "tcp", "nics": 1}, "over TCP on one interface"
        )
    ]
    if cluster.nics > 1:
        found.append(Hypothesis("one_nic_used", {"nics": 1}, "with one NIC"))
        for nics in range(cluster.nics - 1, 1, -1):
            found.append(Hypothesis("rails_down", {"nics": nics}, f"with {nics} NICs"))
    return found


@register("suspect", "faults that fit the rate")
def faults_that_fit_the_rate(case: Case) -> Iterator[Suspicion]:
    """Suspect each fault with which the model gives the measured rate, if the run is slower than its band.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    cluster = system_of(case)
    if cluster is None:
        return
    sound = estimates(cluster)
    models = []
    for each in hypotheses(cluster):
        try:
            models.append((each, estimates(cluster.replace(**each.changes))))
        except (ValueError, TypeError, KeyError):
            continue
    for comparison in compare(case):
        if not comparison.rows or comparison.rows[-1].state != "below":
            continue
        row = comparison.rows[-1]
        table = comparison.table
        # Without a word on the NICs, the servers may simply have fewer of them.
        sure = _FITS if comparison.healthy is False else _UNKNOWN
        if _fits(sound, table.collective, row):
            continue  # it takes no fault to be as slow
        for each, estimated in models:
            if _fits(estimated, table.collective, row):
                why = f"{figure(row.measured)} GB/s is what the model gives {each.words}"
                shape = _fitting(estimated, table.collective, comparison.rows)
                more = _SHAPE if shape >= _MOST else -_SHAPE if shape <= _FEW else 0.0
                yield Suspicion(each.cause, sure + more, table.line, why)


def _fitting(estimated: Estimates, collective: str, rows: Sequence[Row]) -> float:
    """Return the part of the larger sizes whose rates are within the band of a model; what is left of it is shape."""
    large = [row for row in rows if row.size >= _LARGE and row.measured > 0]
    if not large:
        return _FEW
    return sum(_fits(estimated, collective, row) for row in large) / len(large)


def _fits(estimated: Estimates, collective: str, row: Row) -> bool:
    """Return whether a measured rate is within the band of a model."""
    try:
        estimate = estimated(collective, row.size)
    except (ValueError, TypeError, KeyError):
        return False
    moved = estimate.busbw * estimate.time / _GB
    return moved / estimate.high <= row.measured <= moved / estimate.low
