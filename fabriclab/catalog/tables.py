"""Tables of facts: read from CSV files once, looked up by part and attribute."""

import csv
import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Floats, ReadOnly, Spec, as_html, as_text, html_table

_DATA = Path(__file__).parent / "data"
_OTHER = (
    "aliases",
    "calibration",
    "case",
    "exclusions",
    "failures",
    "fleets",
    "inference",
    "inference_fit",
    "megatron2021",
    "printed_changes",
    "sources",
    "training_fit",
    "training_growth",
    "training_reference",
    "training_steps",
)
_SHOWN = 8  # names that an error lists
# Rates of a link: on the wire, after coding, reached with real packets, and as its vendor quotes it.
RATES = ("signalled", "encoded", "achievable", "quoted")
_ONE_WAY = RATES[:3]
_DIRECTIONS = {"per_direction": " each way", "bidirectional_sum": " both ways together"}


def near(name: object, known: Iterable[str], what: str) -> str:
    """Return the error text for an unknown name: it suggests the most similar names, or lists the first few."""
    names = sorted(known)
    spelt = {n.lower(): n for n in names}
    hits = [spelt[h] for h in difflib.get_close_matches(str(name).lower(), spelt, n=3, cutoff=0.5)]
    if hits:
        advice = f"did you mean {' or '.join(map(repr, hits))}?"
    else:
        advice = f"it has {', '.join(names[:_SHOWN])}"
        if len(names) > _SHOWN:
            advice += f", ... {len(names)} in all"
    return f"{what} has no {name!r:.60}; {advice}"


class Part(ReadOnly[str, Spec]):
    """All facts about one part: ``part["bandwidth_per_gpu"]``, or ``part.spec(attribute, name=...)``."""

    def __init__(self, table: str, specs: list[Spec]) -> None:
        """Keep the Specs of one id; an attribute with several rows is found only with `spec`."""
        self.specs = tuple(specs)
        self.name = specs[0].name
        self.label = f"{table}[{specs[0].id!r}]"
        by_attribute = {s.attribute: self._rows(s.attribute, {}) for s in specs}
        super().__init__({a: rows[0] for a, rows in by_attribute.items() if len(rows) == 1})

    def _rows(self, attribute: str, where: dict[str, str]) -> list[Spec]:
        """Return the Specs that fit; where there are rates per direction and sums of both, only the former."""
        asked = {"attribute": attribute, **where}
        rows = [s for s in self.specs if _fits(s, asked)]
        one_way = [s for s in rows if not s.direction.endswith("bidirectional_sum")]
        return one_way or rows

    def spec(self, attribute: str, **where: str) -> Spec:
        """Return the only Spec of ``attribute`` whose fields equal ``where``.

        A rate per direction is preferred to a sum of both directions.

        Parameters
        ----------
        attribute : str
            Name of the attribute.
        **where
            Fields of `Spec` that distinguish rows, such as ``name="hwLat NET Ring"``,
            ``direction="bidirectional_sum"`` or ``source="Q2-rs"``.

        Raises
        ------
        KeyError
            If no row fits or several do (the message lists them), or if Spec has no such field.
        """
        wrong = sorted(set(where) - set(Spec.__slots__))
        if wrong:
            raise KeyError(near(wrong[0], Spec.__slots__, "a row"))
        rows = self._rows(attribute, where)
        if len(rows) == 1:
            return rows[0]
        known = [s for s in self.specs if s.attribute == attribute]
        if not known:
            raise KeyError(near(attribute, {s.attribute for s in self.specs}, self.label))
        listed = "; ".join(
            f"name={s.name!r}, source={s.source!r}: {s.quoted}" for s in rows or known
        )
        msg = f"{self.label} has {len(rows)} rows of {attribute!r} with {where}; choose by name or source: {listed}"
        raise KeyError(msg)

    __missing__ = spec  # for an attribute that does not exist or has several rows

    def __repr__(self) -> str:
        """Show name and attributes."""
        return f"<Part {self.label} {self.name}: {', '.join(dict.fromkeys(s.attribute for s in self.specs))}>"

    def _repr_html_(self) -> str:
        return html_table(self.specs, self.label)


@dataclass(frozen=True)
class Comparison:
    """Parts side by side, a row per part and a column per attribute; `fabriclab.views.draw` draws rates of links."""

    parts: tuple[Part, ...]
    attributes: tuple[str, ...]

    @property
    def rates(self) -> Floats:
        """Rates in one direction: signalled, encoded and achievable, (P, 3), in B/s; NaN if not published."""
        table = np.full((len(self.parts), len(_ONE_WAY)), np.nan)
        for i, part in enumerate(self.parts):
            for j, attribute in enumerate(_ONE_WAY):
                if attribute in part:
                    table[i, j] = part[attribute].si
        return table

    def rows(self) -> list[list[str]]:
        """Return the table with its heading: each value with its evidence, rates of links per direction in B/s."""
        table = [["part", *self.attributes]]
        for part in self.parts:
            cells = [self._cell(part, attribute) for attribute in self.attributes]
            table.append([part.name, *cells])
        return table

    def _cell(self, part: Part, attribute: str) -> str:
        """Return all values of an attribute in one cell, each with its evidence and source."""
        values = []
        for spec in part.specs:
            if spec.attribute != attribute:
                continue
            if spec.si and attribute in _ONE_WAY:
                value = units.format_rate(spec.si)
            else:
                value = spec.quoted + _DIRECTIONS.get(spec.direction, "")
            values.append(f"{value} ({spec.evidence}, {spec.source})")
        return " or ".join(values) or "not published"

    def __repr__(self) -> str:
        """Show the table as text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows())


def _fits(spec: Spec, fields: dict[str, str]) -> bool:
    """Return whether a Spec has these values in these fields."""
    return all(getattr(spec, name) == value for name, value in fields.items())


def _plain(word: str) -> str:
    """Return only the letters and digits of a name, so that "PCIe 5" and "pcie5" are the same."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


class CatalogTable(ReadOnly[str, Part]):
    """One table of the catalog: ``table["nvlink4"]`` is a `Part`, which its name and its aliases find as well."""

    def __init__(self, name: str, specs: Iterable[Spec]) -> None:
        """Group the rows by part."""
        self.name = name
        self.specs = tuple(specs)
        by_id: dict[str, list[Spec]] = {}
        for spec in self.specs:
            by_id.setdefault(spec.id, []).append(spec)
        super().__init__({key: Part(name, of_part) for key, of_part in by_id.items()})

        self.aliases: dict[str, str] = {}
        for row in data_rows("aliases"):
            if row["table"] == name and row["id"] in by_id:
                self.aliases[row["alias"]] = row["id"]
        # Every spelling that finds a part. If several parts share a name, the first one gets it. Aliases override
        # names, and ids override both.
        self._spelt = {_plain(part.name): key for key, part in reversed(self.items())}
        for alias, key in self.aliases.items():
            self._spelt[_plain(alias)] = key
        for key in self:
            self._spelt[_plain(key)] = key

    def __contains__(self, part: object) -> bool:
        """Tell whether a part has this id, name or alias."""
        return isinstance(part, str) and _plain(part) in self._spelt

    def __getitem__(self, part: str) -> Part:
        """Return a part by any spelling, such as "NDR" or "InfiniBand NDR"; an error suggests similar names."""
        if part not in self:
            raise KeyError(near(part, [*self, *self.aliases], f"catalog.{self.name}"))
        return super().__getitem__(self._spelt[_plain(part)])

    def get(self, part: str, default: Any = None) -> Any:
        """Return ``table[part]``, or ``default`` if there is none."""
        return self[part] if part in self else default

    def compare(self, *parts: str) -> Comparison:
        """Return the named parts, or all, side by side; for links, only their rates per direction and as quoted."""
        chosen = [self[part] for part in parts] or list(self.values())
        names = dict.fromkeys(s.attribute for part in chosen for s in part.specs)
        rates = [name for name in ("scope", *RATES) if name in names]
        return Comparison(tuple(chosen), tuple(rates or names))

    def _ipython_key_completions_(self) -> list[str]:
        return [*self, *self.aliases]

    def __repr__(self) -> str:
        """Show the ids."""
        return f"<Table {self.name}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        return html_table(self.specs, f"catalog.{self.name}")


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file as dicts of text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(name: str, beside: str) -> list[dict[str, str]]:
    """Return the rows of a CSV table in the folder ``data`` next to the file ``beside``."""
    return read_rows(Path(beside).with_name("data") / name)


@cache
def data_rows(name: str) -> tuple[ReadOnly[str, str], ...]:
    """Return the rows of a file of the catalog; it is read on first use."""
    return tuple(map(ReadOnly, read_rows(_DATA / f"{name}.csv")))


@cache
def table_names() -> tuple[str, ...]:
    """Return the names of all tables of facts; each is an attribute of `fabriclab.catalog`."""
    return tuple(sorted(p.stem for p in _DATA.glob("*.csv") if p.stem not in _OTHER))


@cache
def load_table(name: str) -> CatalogTable:
    """Return a table by name; it is read on first use."""
    if name not in table_names():
        raise KeyError(near(name, table_names(), "the catalog"))
    return CatalogTable(name, map(Spec.from_row, data_rows(name)))
