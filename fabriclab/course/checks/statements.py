"""Common claims, each with a way to test it and the truth: the table behind the errata page."""

import functools
from collections.abc import Mapping

from fabriclab import catalog
from fabriclab.catalog.tables import near, rows_of
from fabriclab.course.shown import InputRefused, Shown
from fabriclab.texts import table, text


@functools.cache
def rows() -> Mapping[str, Mapping[str, str]]:
    """Return id -> row of the table, in its order; ``lessons`` and ``coverage`` are lists separated by spaces."""
    return {row["id"]: row for row in rows_of("errata.csv", __file__)}


def cited(row: Mapping[str, str]) -> dict[str, str]:
    """Return key -> citation for each source of a row."""
    words = table()
    found = {}
    for key in row["source"].split("+"):
        found[key] = words.get(f"errata.source.{key}") or catalog.cite(key)
    return found


def errata(id: str) -> Shown:
    """Show a row of the errata page: the claim, how to test it, and the truth with its sources.

    Parameters
    ----------
    id : str
        Number of the row, such as ``"E27"``.

    Raises
    ------
    InputRefused
        A ValueError: there is no such row; the sentence suggests the nearest.
    """
    row = rows().get(str(id).upper())
    if row is None:
        raise InputRefused(near(id, rows(), text("errata.table")))
    title = text("errata.title", id=row["id"], kind=row["kind"])
    values = (row["statement"], row["test"], row["truth"], "; ".join(cited(row).values()))
    names = text("errata.rows").split("|")
    return Shown((title,), rows=[*zip(names, values, strict=True)], data=dict(row))
