"""One efficiency of computation for each software stack, generation of accelerator and precision.

``catalog/data/training_fit.csv`` lists which efficiency brings the model of a step to the published time, for each
model of `fabriclab.workload.models` that was trained so; ``inference_fit.csv`` does the same for models that were
served. `efficiency` pools them: a constant has seen few models, so it
leans on those of the same stack, generation and precision. With ``without`` it has not seen a model.

Published jobs that grow with their batch take a little longer than their operations and bytes say: ranks wait for one
another, and the slowest of many is slower than the slowest of few. ``training_growth.csv`` lists how much longer, and
`growth` is the one number for all stacks that comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from fabriclab.catalog.tables import data_rows
from fabriclab.core import Floats

__all__ = [
    "GROWTH",
    "INFERENCE",
    "TRAINING",
    "USUAL",
    "Kind",
    "efficiency",
    "growth",
    "pooled",
    "spread",
    "unseen",
]

#: Fitted tables of the catalog.
TRAINING = "training_fit"
INFERENCE = "inference_fit"
GROWTH = "training_growth"
#: Accelerators of a training job whose efficiency the constants mean, the usual size of published ones. Larger jobs
#: reach less, smaller ones more.
USUAL = 256


class Kind(NamedTuple):
    """What has one efficiency: a software stack on a generation of accelerators in a precision."""

    stack: str
    generation: str
    precision: str


# How far, in logarithms, what two efficiencies have in common lets them deviate from the mean of all: the same stack
# says most, because a framework without compiled or fused kernels loses half everywhere, and a kind of its own least.
# Chosen with the published steps in view, as is the scatter of models around their constant; neither is fitted.
_SHARED = {
    (0,): 0.25,
    (1,): 0.15,
    (2,): 0.10,
    (0, 1): 0.10,
    (0, 2): 0.10,
    (0, 1, 2): 0.10,
}
_SCATTER = 0.15


def _covariance(a: Kind, b: Kind) -> float:
    """Return what two kinds have in common: the sum of squares of what they share."""
    total = 0.0
    for places, deviation in _SHARED.items():
        if all(a[place] == b[place] for place in places):
            total += deviation**2
    return total


def pooled(seen: Mapping[tuple[Kind, str], float], kind: Kind) -> float:
    """Return the value of a kind from those that models need, pooled over kinds that have something in common.

    Parameters
    ----------
    seen : mapping of (Kind, str) to float
        Value of each kind and model. > 0
    kind : Kind
        The kind that is asked for; it need not be among them.

    Returns
    -------
    float
        The mean of the posterior of a Gaussian model of logarithms, whose effects have the deviations above.
    """
    kinds = [each for each, _ in seen]
    values = np.log(list(seen.values()))
    middle = float(np.median(values))
    table = np.array([[_covariance(a, b) for b in kinds] for a in kinds])
    weights = np.linalg.solve(table + _SCATTER**2 * np.eye(len(kinds)), values - middle)
    common = np.array([_covariance(kind, each) for each in kinds])
    return math.exp(middle + float(common @ weights))


def unseen(values: Sequence[float], kinds: Sequence[Kind], models: Sequence[str]) -> Floats:
    """Return for each row the best constant that has not seen its model, (N,).

    It is the median of the other models of the same kind, each of which counts with the median of its rows; where there
    are none, it is pooled over all kinds.

    Parameters
    ----------
    values, kinds, models : sequence, length N
        Value, kind and model of each row.
    """
    groups: dict[tuple[Kind, str], list[float]] = {}
    for value, kind, model in zip(values, kinds, models, strict=True):
        groups.setdefault((kind, model), []).append(value)
    medians = {key: float(np.median(group)) for key, group in groups.items()}
    known: dict[tuple[Kind, str], float] = {}
    for kind, model in groups:
        others = {key: value for key, value in medians.items() if key[1] != model}
        alike = [value for (other, _), value in others.items() if other == kind]
        known[kind, model] = float(np.median(alike)) if alike else pooled(others, kind)
    return np.array([known[key] for key in zip(kinds, models, strict=True)])


@cache
def _seen(without: str, table: str = TRAINING) -> Mapping[tuple[Kind, str], float]:
    """Return what each kind and model needs in jobs of usual size, without one model."""
    found = {}
    for row in data_rows(table):
        if row["model"] != without:
            kind = Kind(row["stack"], row["generation"], row["precision"])
            value = float(row["efficiency"])
            if table == TRAINING:
                value *= _slowed(float(row["accelerators"]), without)
            found[kind, row["model"]] = value
    return found


@cache
def growth(without: str = "") -> float:
    """Return which part longer a step takes on twice the accelerators than its operations and bytes explain.

    It is the median over models, each of which counts with the median of its jobs.

    Parameters
    ----------
    without : str
        Model whose jobs are left out; "": none.
    """
    jobs: dict[str, list[float]] = {}
    for row in data_rows(GROWTH):
        if row["model"] != without:
            jobs.setdefault(row["model"], []).append(float(row["per_doubling"]))
    return float(np.median([np.median(each) for each in jobs.values()]))


def _slowed(accelerators: float, without: str) -> float:
    """Return how many times as long as a job of usual size a step takes with the same work for each accelerator."""
    doublings = math.log2(accelerators / USUAL)
    return math.exp(doublings * math.log1p(growth(without)))


@cache
def efficiency(
    kind: Kind, without: str = "", table: str = TRAINING, accelerators: int = USUAL
) -> float:
    """Return the efficiency of a kind, from all models or from all but one.

    Parameters
    ----------
    kind : Kind
        Stack, generation of accelerator, and precision.
    without : str
        Model whose rows are left out; "": none.
    table : str
        Which fitted table of the catalog is read, `TRAINING` or `INFERENCE`.
    accelerators : int
        Size of a training job; see `growth`. >= 1
    """
    value = pooled(_seen(without, table), kind)
    return value if table == INFERENCE else value / _slowed(accelerators, without)


@cache
def spread() -> tuple[float, float]:
    """Return the factors between a time of computation and the ends of its band.

    Of the models that a constant has not seen, four in five need an efficiency inside it.
    """
    ratios = []
    for kind, model in _seen(""):
        ratios.append(efficiency(kind, model) / _seen("")[kind, model])
    low, high = np.quantile(ratios, (0.1, 0.9))
    return float(low), float(high)
