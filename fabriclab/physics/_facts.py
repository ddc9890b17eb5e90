"""Facts of the catalog as numbers, arguments as SI numbers or arrays, and the published figures of each model."""

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.catalog.tables import load_table, read_rows

Floats = NDArray[np.float64]
Numbers = units.Quantity | Floats
# Given, role and source of a published figure; what the model gives; the relative error of the model.
Held = tuple[dict[str, str], float, float]


def fact(part: str, attribute: str, table: str = "link_physics", **where: str) -> float:
    """Return a fact in SI, decibels as they are; of a range such as "14-18" the middle."""
    return sum(load_table(table)[part].spec(attribute, **where).ends) / 2


def si(value: Numbers, quantity: str, name: str, least: float = 0.0) -> Floats:
    """Return text with its unit, a number, or a list of them, in SI as floats; below ``least`` it is refused."""
    got = np.asarray(np.vectorize(lambda v: units.parse(v, quantity, name), otypes=[float])(value))
    if not (np.isfinite(got).all() and (got >= least).all()):
        msg = f"{name} must be finite and >= {least:g} in SI, got {value!r:.80}; write {name} with its unit"
        raise ValueError(msg)
    return got


@cache
def rows(model: str) -> tuple[dict[str, str], ...]:
    """Return the published figures of a model, those that set its constants (role "fit") among them."""
    return tuple(r for r in read_rows(Path(__file__).with_name("published.csv")) if r["model"].startswith(model))


def held(model: str) -> list[Held]:
    """Return each published figure that did not set the constants of a model, what the model gives, and its error.

    Examples
    --------
    >>> [(r["source"], round(error, 2)) for r, _, error in held("coding.frame_loss")]
    [('LLFEC-1.0', 0.02), ('LLFEC-1.0', 0.01)]
    """
    out = []
    for r in rows(model):
        if r["role"] == "check":
            module, name = r["model"].split(".")
            got: Any = getattr(importlib.import_module(f"fabriclab.physics.{module}"), name)(**json.loads(r["given"]))
            got = float(getattr(got, r["field"]) if r["field"] else got)
            out.append((r, got, got / float(r["published"]) - 1))
    return out
