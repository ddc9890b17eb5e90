"""Facts of the catalog as numbers, arguments as SI numbers or arrays, and the published figures of each model."""

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.catalog.tables import load_table, read_rows
from fabriclab.core import column

Floats = NDArray[np.float64]
Numbers = units.Quantity | Floats
LIGHT = 299792458.0  # speed of light in vacuum [m/s], by definition of the metre
DB = 500.0  # decibels that no link has; a power of ten of their sum is still finite
_MOST = 1e30  # far above any quantity of a link, and squares of it are still finite
# Given, role and source of a published figure; what the model gives; the relative error of the model.
Held = tuple[dict[str, str], float, float]


def fact(part: str, attribute: str, table: str = "link_physics", **where: str) -> float:
    """Return a fact in SI, decibels as they are; of a range such as "14-18" the middle."""
    return sum(load_table(table)[part].spec(attribute, **where).ends) / 2


def si(value: Any, quantity: str, name: str, least: float = 0.0, most: float = _MOST) -> Floats:
    """Return text with its unit, a number, or a list of them, in SI as floats; outside ``least..most`` it is refused.

    A ``quantity`` "count" is a plain number: a share, decibels, bits.
    """
    plain = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    read = np.vectorize(lambda v: units.parse(v, quantity, name), otypes=[float])
    got = np.asarray(value if plain else read(value), dtype=float)
    if not ((got >= least) & (got <= most)).all():
        bound = f">= {least:g}"
        if most < _MOST or (got > most).any():
            bound += f" and <= {most:g}"
        raise ValueError(
            f"{name} must be finite and {bound} in SI, got {value!r:.80}; give a value within that"
        )
    return got


def one(value: Any, quantity: str, name: str, least: float = 0.0, most: float = _MOST) -> float:
    """Return text with its unit, or a number, in SI; a list, or what is outside ``least..most``, is refused."""
    units.parse(value, quantity, name)
    return float(si(value, quantity, name, least, most))


def numbers(value: ArrayLike, name: str, *shape: int) -> NDArray[Any]:
    """Return finite numbers, real or complex, as an array of this shape (-1 for any length, none for any shape)."""
    given = column(value, name)
    fits = given.ndim == len(shape)
    if fits:
        fits = all(n in (-1, m) for n, m in zip(shape, given.shape, strict=True))
    if (shape and not fits) or given.dtype.kind not in "iufc" or not np.isfinite(given).all():
        wanted = f"{shape or 'any'}".replace("-1", "any")
        raise ValueError(
            f"{name} must be finite numbers of shape {wanted}, got {given.shape} {value!r:.60}; write an array"
        )
    return given


@cache
def rows(model: str) -> tuple[dict[str, str], ...]:
    """Return the published figures of a model, those that set its constants (role "fit") among them."""
    every = read_rows(Path(__file__).with_name("published.csv"))
    return tuple(row for row in every if row["model"].startswith(model))


def held(model: str) -> list[Held]:
    """Return each published figure that did not set the constants of a model, what the model gives, and its error.

    ``model`` is a module of this package, or one of its functions; a ValueError names those that have figures.

    Examples
    --------
    >>> [(r["source"], round(error, 2)) for r, _, error in held("coding.frame_loss")]
    [('LLFEC-1.0', 0.02), ('LLFEC-1.0', 0.01)]
    """
    known: set[str] = set()
    for row in rows(""):
        known.add(row["model"])
        known.add(row["model"].split(".")[0])
    out = []
    for row in rows(units.choice(model, "model", sorted(known))):
        if row["role"] != "check":
            continue
        module, name = row["model"].split(".")
        function = getattr(importlib.import_module(f"fabriclab.physics.{module}"), name)
        result: Any = function(**json.loads(row["given"]))
        if row["field"]:
            result = getattr(result, row["field"])
        value = float(result)
        out.append((row, value, value / float(row["published"]) - 1))
    return out
