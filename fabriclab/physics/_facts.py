"""Helpers of the models: facts of the catalog as numbers, arguments in SI, and published figures to compare with."""

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
DB = 500.0  # [dB] more than any link has, but small enough that 10 to the power of a sum stays finite
_MOST = 1e30  # far above any quantity of a link, but small enough that its square is finite
# A row of published.csv (arguments, role, source, ...), the model's value, and the model's relative error.
Held = tuple[dict[str, str], float, float]


def fact(part: str, attribute: str, table: str = "link_physics", **where: str) -> float:
    """Return a fact in SI, with decibels left as they are; for a range such as "14-18", its middle."""
    return sum(load_table(table)[part].spec(attribute, **where).ends) / 2


def si(value: Any, quantity: str, name: str, least: float = 0.0, most: float = _MOST) -> Floats:
    """Return a text with its unit, a number, or a list of them, as floats in SI; outside ``least..most`` it is refused.

    The ``quantity`` "count" means a plain number: a share, decibels, bits.
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
    """Return a text with its unit, or a number, in SI; a list, or a value outside ``least..most``, is refused."""
    units.parse(value, quantity, name)
    return float(si(value, quantity, name, least, most))


def numbers(value: ArrayLike, name: str, *shape: int) -> NDArray[Any]:
    """Return finite numbers, real or complex, as an array of the given shape.

    In ``shape`` -1 stands for any length; without it any shape is accepted.
    """
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
    """Return the published figures of a model, including those that set its constants (role "fit")."""
    every = read_rows(Path(__file__).with_name("published.csv"))
    return tuple(row for row in every if row["model"].startswith(model))


def held(model: str) -> list[Held]:
    """Return each published figure that did not set a constant of the model, the model's value and its relative error.

    ``model`` is a module of this package, or one of its functions; a ValueError lists those that have figures.

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
