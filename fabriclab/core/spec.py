"""Spec: one fact about a part, with the unit its source uses, its value in SI and the evidence for it."""

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from fabriclab import units

EVIDENCE = ("datasheet", "standard", "measured", "literature")
KINDS = (*EVIDENCE, "estimate", "derived", "illustrative")
DIRECTIONS = (
    "n/a",
    "per_direction",
    "bidirectional_sum",
    "aggregate_per_direction",
    "aggregate_bidirectional_sum",
    "unstated",
)
# Units that tables quote but `units.parse` does not accept.
_EXTRA = {
    "ns/m": 1e-9,
    "GBd": 1e9,
    "pJ/bit": 1e-12,
    "Gpkt/s": 1e9,
    "billion": 1e9,
    "years": 8766 * 3600.0,
}
_REMARK = re.compile(r" (?:per|of) .*| \(.*\)")


def si_factor(unit: str) -> float | None:
    """Return the factor from a quoted unit to SI: 1 for a count, None if the unit has no SI value here.

    Remarks after the unit are ignored. Transfers per second and decibels have no SI value:
    "GT/s per lane" is not a rate of bytes.

    Examples
    --------
    >>> si_factor("us per step"), si_factor("ports"), si_factor("GT/s per lane")
    (1e-06, 1.0, None)
    """
    bare = _REMARK.sub("", unit)
    if bare.startswith(("GT/s", "dB")):
        return None
    return units.UNITS[bare][1] if bare in units.UNITS else _EXTRA.get(bare, 1.0)


@dataclass(frozen=True, slots=True)
class Spec:
    """One attribute of one part, as its source quotes it and in SI.

    Signalled, encoded and achievable rate of a link are three separate Specs.

    Parameters
    ----------
    id, name, attribute : str
        Short name of the part, its name for people, and which of its properties this is.
    value : float or str
        Value as quoted; a range or a word stays text.
    unit, direction : str
        Unit as quoted, and one of `DIRECTIONS`; a sum of both directions is halved for ``si``.
    kind : str
        One of `KINDS`. Those of `EVIDENCE` need a source, an estimate needs a note.
    source, date, confidence, licence, note : str
        Keys of the table of sources joined by "+", or a citation; its date; A (read in the source), B (second
        hand) or C (recalled, not confirmed by a source); terms of use; remarks.

    Attributes
    ----------
    si : float or None
        Value per direction in B, s, B/s, m, W, FLOP/s, USD or a count; None for text and for units
        without an SI value.

    Raises
    ------
    ValueError
        If kind, direction or confidence is unknown, a number is not finite, or evidence is missing.
    """

    id: str
    name: str
    attribute: str
    value: float | str
    unit: str
    direction: str = "n/a"
    kind: str = "illustrative"
    source: str = ""
    date: str = ""
    confidence: str = ""
    licence: str = ""
    note: str = ""
    si: float | None = field(init=False)

    def __post_init__(self) -> None:
        """Check kind, direction, confidence and evidence, and compute the SI value."""
        factor, number = (
            si_factor(self.unit),
            None if isinstance(self.value, str) else float(self.value),
        )
        problem = ""
        for key, known in (
            ("kind", KINDS),
            ("direction", DIRECTIONS),
            ("confidence", ("", "A", "B", "C")),
        ):
            if getattr(self, key) not in known:
                problem = f"{key} must be one of {', '.join(filter(None, known))}, got {getattr(self, key)!r}"
        if self.kind in EVIDENCE and not self.source:
            problem = (
                f"kind {self.kind} needs a source; name it, or make this an estimate with a note"
            )
        if self.kind == "estimate" and not self.note:
            problem = "an estimate needs a note that says where the number comes from"
        if number is not None and not math.isfinite(number):
            problem = f"value must be finite, got {number} {self.unit}"
        if problem:
            raise ValueError(f"{self.id}.{self.attribute}: {problem}")
        ways = 2 if self.direction.endswith("bidirectional_sum") else 1
        object.__setattr__(
            self, "si", None if number is None or factor is None else number * factor / ways
        )

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> "Spec":
        """Return the Spec of a table row whose cells are text; a value that is not a number stays text."""
        cells = {f.name: row[f.name] for f in fields(cls) if f.init and f.name in row}
        value: float | str
        try:
            value = float(cells.pop("value"))
        except ValueError:
            value = row["value"]
        return cls(value=value, **cells)

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest value of a range such as "14-18"; both are equal for a single number.

        In SI and per direction; a unit without an SI value is kept as quoted.
        """
        told = self.value.split("-") if isinstance(self.value, str) else [self.value]
        try:
            numbers = [float(x) * (si_factor(self.unit) or 1.0) for x in told]
        except ValueError:
            msg = f"{self.id}.{self.attribute} must be a number or a range such as 14-18, got {self.value!r:.60}"
            raise ValueError(f"{msg}; read it as text") from None
        ways = 2 if self.direction.endswith("bidirectional_sum") else 1
        return min(numbers) / ways, max(numbers) / ways

    @property
    def evidence(self) -> str:
        """Kind of evidence, with "not confirmed" added if any part of the value is recalled, not read in a source."""
        weak = self.confidence == "C" or "memory" in self.source.split("+")
        return f"{self.kind}, not confirmed" if weak else self.kind

    @property
    def quoted(self) -> str:
        """Value and unit as the source writes them."""
        digits = {str: "", int: ","}.get(type(self.value), ",.7g")
        value = f"{self.value:{digits}}"
        return value if self.unit in ("text", "formula") else f"{value} {units.printed(self.unit)}"

    def __repr__(self) -> str:
        """Show part, value, kind and source in one line."""
        way = "" if self.direction == "n/a" else f" {self.direction}"
        why = ", ".join(filter(None, (self.evidence, self.source, self.confidence)))
        return f"<Spec {self.id}.{self.attribute}: {self.quoted}{way} ({why})>"

    def _repr_html_(self) -> str:
        return html_table([self], self.name)


def html_table(specs: Iterable[Spec], caption: str) -> str:
    """Return Specs as a small HTML table with the value as quoted, its evidence, source, date and note."""
    head = (
        "id",
        "name",
        "attribute",
        "quoted",
        "direction",
        "evidence",
        "source",
        "date",
        "confidence",
        "note",
    )
    return as_html([head, *([getattr(s, key) for key in head] for s in specs)], caption)


def as_html(rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """Return rows of cells as an HTML table; the first row and the first column are headings."""
    head, *body = ([html.escape(cell) for cell in row] for row in rows)
    top = "".join(f"<th scope=col>{cell}" for cell in head)
    under = "".join(f"<tr><th scope=row>{'<td>'.join(row)}" for row in body)
    return f"<table><caption>{html.escape(caption)}</caption><tr>{top}{under}</table>"


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines of text, each column as wide as its longest cell."""
    width = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, width)).rstrip() for row in rows)
