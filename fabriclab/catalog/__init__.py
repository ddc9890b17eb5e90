"""Facts about real parts, each with unit, direction, kind of evidence and source, and the running case.

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
from fabriclab.catalog.tables import Comparison, Part, Table, data_rows, load_table, near
from fabriclab.catalog.tables import table_names as tables

__all__ = [
    "Case",
    "Comparison",
    "Part",
    "Table",
    "case",
    "cite",
    "search",
    "sources",
    "tables",
    "value",
]


def value(table: str, part: str, attribute: str, **where: str) -> float:
    """Return a fact as an SI float per direction: B/s, B, s, m, W, FLOP/s, USD or a count.

    Parameters
    ----------
    table, part, attribute : str
        Such as ``"links", "nvlink4", "bandwidth_per_gpu"``.
    **where
        Fields that tell rows apart; see `Part.spec`.

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


def search(words: str) -> dict[str, Table]:
    """Return the facts that have every word in id, name, attribute, note or alias, as one `Table` of each that has any.

    Raises
    ------
    KeyError
        If nothing is found; the text names near parts.
    """
    asked, found = words.lower().split() if isinstance(words, str) else [], {}
    for name in tables():
        table = load_table(name)
        also = {key: [a for a, k in table.aliases.items() if k == key] for key in table}
        told = [
            (s, f"{s.id} {s.name} {s.attribute} {s.note} {also[s.id]}".lower()) for s in table.specs
        ]
        if hits := [s for s, text in told if asked and all(word in text for word in asked)]:
            found[name] = Table(name, hits)
    if not found:
        raise KeyError(
            near(
                words,
                {key for t in map(load_table, tables()) for key in (*t, *t.aliases)},
                "the catalog",
            )
        )
    return found


def sources() -> dict[str, str]:
    """Return key -> citation of every source that the tables name, with its date, or the day it was seen."""
    plain = ("estimate", "derived")
    dated = {
        r["key"]: r["date"] not in r["citation"] and r["kind"] not in plain
        for r in data_rows("sources")
    }
    return {
        r["key"]: r["citation"] + f", {r['date']}" * dated[r["key"]] for r in data_rows("sources")
    }


def cite(source: str) -> str:
    """Return the citations of a source such as ``"MLE-acc+MLE-net"``, one after another."""
    known = sources()
    if missing := [key for key in str(source).split("+") if key not in known]:
        raise KeyError(near(missing[0], known, "the table of sources"))
    return "; ".join(known[key] for key in source.split("+"))


def __getattr__(name: str) -> Any:
    """Load a table, or the published sweeps, on first use."""
    if name == "published":
        return importlib.import_module("fabriclab.catalog.published")
    if name not in tables():
        raise AttributeError(near(name, [*__all__, *tables()], "fabriclab.catalog"))
    return load_table(name)


def __dir__() -> list[str]:
    """Return functions and tables, for completion."""
    return sorted([*__all__, "published", *tables()])
