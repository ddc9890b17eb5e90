"""Facts about real parts, each with its unit, direction, kind of evidence and source, and the running case.

Examples
--------
>>> from fabriclab import catalog
>>> catalog.links["nvlink4"]["bandwidth_per_gpu"].quoted
'450 GB/s'
>>> catalog.value("nics", "cx7", "throughput")
50000000000.0
>>> catalog.links["NDR"].name
'InfiniBand NDR'
>>> sorted(catalog.search("retimer"))
['emerging', 'media']
"""

import importlib
from typing import Any

from fabriclab.catalog.running_case import Case, case
from fabriclab.catalog.tables import CatalogTable, Comparison, Part, data_rows, load_table, near
from fabriclab.catalog.tables import table_names as tables
from fabriclab.core import Spec

__all__ = [
    "Case",
    "CatalogTable",
    "Comparison",
    "Part",
    "case",
    "cite",
    "search",
    "sources",
    "tables",
    "value",
]


def value(table: str, part: str, attribute: str, **where: str) -> float:
    """Return a fact as an SI number per direction: in B/s, B, s, m, W, FLOP/s or USD, or a count.

    Parameters
    ----------
    table, part, attribute : str
        Such as ``"links", "nvlink4", "bandwidth_per_gpu"``.
    **where
        Fields that distinguish rows of the same attribute; see `Part.spec`.

    Raises
    ------
    KeyError
        If there is no such row, or more than one.
    ValueError
        If the fact is text or has no SI value.
    """
    spec = load_table(str(table))[part].spec(str(attribute), **where)
    if spec.si is None:
        msg = f"{part}.{attribute} is {spec.quoted!r}, which has no SI value; read it with catalog.{table}[{part!r}]"
        raise ValueError(msg)
    return spec.si


def search(words: str) -> dict[str, CatalogTable]:
    """Return the facts that contain every word in their id, name, attribute, note or an alias.

    Returns
    -------
    dict of str to CatalogTable
        The facts found, by the name of their table.

    Raises
    ------
    KeyError
        If nothing is found; the message suggests parts with similar names.
    """
    asked = words.lower().split() if isinstance(words, str) else []
    found: dict[str, CatalogTable] = {}
    known: set[str] = set()
    for name in tables():
        table = load_table(name)
        known.update(table, table.aliases)
        hits = [spec for spec in table.specs if asked and _has_words(table, spec, asked)]
        if hits:
            found[name] = CatalogTable(name, hits)
    if not found:
        raise KeyError(near(words, known, "the catalog"))
    return found


def _has_words(table: CatalogTable, spec: Spec, words: list[str]) -> bool:
    """Return whether id, name, attribute, note and aliases of a fact together contain all words."""
    aliases = [alias for alias, key in table.aliases.items() if key == spec.id]
    text = f"{spec.id} {spec.name} {spec.attribute} {spec.note} {aliases}".lower()
    return all(word in text for word in words)


def sources() -> dict[str, str]:
    """Return the citation of every source that the tables name, by its key, with its date or the day it was read."""
    found = {}
    for row in data_rows("sources"):
        citation = row["citation"]
        if row["date"] not in citation and row["kind"] not in ("estimate", "derived"):
            citation += f", {row['date']}"
        found[row["key"]] = citation
    return found


def cite(source: str) -> str:
    """Return the citations of a source such as ``"MLE-acc+MLE-net"``, separated by semicolons.

    Raises
    ------
    KeyError
        If a key is not in the table of sources.
    """
    known = sources()
    missing = [key for key in str(source).split("+") if key not in known]
    if missing:
        raise KeyError(near(missing[0], known, "the table of sources"))
    return "; ".join(known[key] for key in source.split("+"))


def __getattr__(name: str) -> Any:
    """Load a table, or the published sweeps, when it is first used."""
    if name == "published":
        return importlib.import_module("fabriclab.catalog.published")
    if name not in tables():
        raise AttributeError(near(name, [*__all__, *tables()], "fabriclab.catalog"))
    return load_table(name)


def __dir__() -> list[str]:
    """Return the names of functions and tables, for tab completion."""
    return sorted([*__all__, "published", *tables()])
