"""The values that a learner sees, and the reading of answers that a learner types.

Every value shows itself as text, as HTML and as Markdown. Answers are read generously: decimal commas and units with
any prefix are understood, and wrong answers that are off by a well-known factor are recognised.
"""

import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import as_text
from fabriclab.errors import FileFormat
from fabriclab.texts import switched_on, text

# The colour of the stripe only repeats what the sentence says.
STRIPES = {"good": "#009E73", "wait": "#E69F00", "plain": "#888888"}


class _Spoken(Exception):
    """An error that a notebook shows as its sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class InputRefused(_Spoken, ValueError):
    """An argument of a learner's call is wrong; the sentence says how to write it."""


class NewerFile(_Spoken, FileFormat):
    """The progress file was written by a newer fabriclab."""


def refuse_if(wrong: object, key: str, /, **fields: object) -> None:
    """Raise `InputRefused` with the sentence ``key`` if ``wrong`` is true."""
    if wrong:
        raise InputRefused(text(key, **fields))


@dataclass(frozen=True)
class Shown:
    """Sentences and tables that show themselves as text, as HTML or as Markdown; ``data`` has the values in them.

    Text between backticks, in a sentence or a cell, is a line to type.
    """

    lines: Sequence[str]  # sentences above the table; empty ones are left out
    state: str = "plain"  # good, wait (something is missing) or plain
    head: Sequence[str] = ()
    rows: Sequence[tuple[Any, ...]] = ()  # a pair (words, address) is a link
    after: Sequence[str] = ()  # sentences below the table
    data: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence["Shown"] = ()  # further tables, between the first and ``after``
    extra: Callable[[], str] = str  # returns HTML for the end, such as a link; called when shown
    # Returns a picture, which replaces lines, rows and ``after`` in HTML.
    picture: Callable[[], Any] | None = None
    card: Callable[[], str] | None = None  # returns a card, which replaces everything in HTML
    live: Callable[[], Any] | None = None  # returns a live view for the same

    def __repr__(self) -> str:
        """Show everything as plain text."""
        table = []
        for row in (self.head, *self.rows):
            if row:
                table.append([_words(cell) for cell in row])
        parts = [f"\n{part!r}\n" for part in self.parts]
        shown = [*self.lines, as_text(table), *parts, *self.after]
        return "\n".join(filter(None, shown)).replace("`", "")

    def markdown(self) -> str:
        """Return everything as Markdown."""
        rows: list[Sequence[Any]] = []
        if self.rows:
            n_columns = len(self.rows[0])
            rows = [self.head or [""] * n_columns, ["---"] * n_columns, *self.rows]
        table = "\n".join(f"| {' | '.join(map(_words, row))} |" for row in rows)
        parts = [part.markdown() for part in self.parts]
        return "\n\n".join(filter(None, [*self.lines, table, *parts, *self.after]))

    def json(self) -> str:
        """Return ``data`` as JSON."""
        return json.dumps(self.data, indent=1)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """Return what a notebook shows: the live view if there is one, else HTML; in text mode only words."""
        words = {"text/plain": repr(self)}
        html = self._repr_html_()
        if html is None:
            return words
        if self.live is None:
            return words | {"text/html": html}
        data, metadata = self.live().page_bundle()
        return {**data, **words, "text/html": html}, metadata

    def _repr_html_(self) -> str | None:
        """Return everything as HTML beside a coloured stripe, or None in text mode."""
        if switched_on("FABRICLAB_TEXT"):
            return None
        if self.card:
            return self.card()
        inner = "".join(
            [
                _html_lines(self.lines),
                self._html_table(),
                *(part._repr_html_() or "" for part in self.parts),
                _html_lines(self.after),
                self.extra(),
            ]
        )
        if self.picture:
            inner = self.picture()._repr_mimebundle_()["text/html"]
        stripe = f"border-left:4px solid {STRIPES[self.state]};padding-left:8px"
        return f'<div style="{stripe}">{inner}</div>'

    def html(self) -> str:
        """Return sentences and tables as HTML, for a page to print; pictures and cards are left out."""
        parts = [part.html() for part in self.parts]
        inner = [_html_lines(self.lines), self._html_table(), *parts, _html_lines(self.after)]
        return "".join(inner)

    def _html_table(self) -> str:
        """Return the table as HTML, or an empty text if it has no rows."""
        if not self.rows:
            return ""
        head = "".join(_cell("th", cell, ' scope="col"') for cell in self.head)
        lines = [f"<tr>{head}</tr>"]
        for row in self.rows:
            cells = "".join(_cell("td", cell) for cell in row)
            lines.append(f"<tr>{cells}</tr>")
        return f"<table>{''.join(lines)}</table>"


@dataclass(frozen=True)
class Together:
    """Several values that a notebook shows one below the other, each as if it ended a cell of its own."""

    things: tuple[Any, ...]

    def __repr__(self) -> str:
        """Show the words of all values, with empty lines between them."""
        return "\n\n".join(map(str, self.things))

    def _ipython_display_(self) -> None:
        """Show each value in a notebook in its own form: live view, picture, table or text."""
        from IPython.display import display

        for thing in self.things:
            display(thing)  # type: ignore[no-untyped-call]


def _html_lines(sentences: Sequence[str]) -> str:
    """Return sentences as HTML, each in a line of its own; empty ones are left out."""
    return "".join(f"<div>{_html(sentence)}</div>" for sentence in sentences if sentence)


def _html(sentence: str) -> str:
    """Return a sentence as HTML; text between backticks becomes code."""
    code = r'<code style="white-space:nowrap">\1</code>'
    return re.sub("`([^`]+)`", code, html.escape(sentence))


def _words(cell: Any) -> str:
    """Return the words of a cell, which is a value or a link (words, address)."""
    return str(cell[0] if isinstance(cell, tuple) else cell)


def _cell(tag: str, cell: Any, scope: str = "") -> str:
    """Return a table cell as HTML, aligned left, because a notebook would align it right."""
    words = _html(_words(cell))
    linked = f'<a href="{html.escape(cell[1])}">{words}</a>' if isinstance(cell, tuple) else words
    return f'<{tag}{scope} style="text-align:left">{linked}</{tag}>'


# Unit -> quantity ("" for a plain number) and factor to SI.
_KNOWN = units.UNITS | {
    "dB": ("level", 1.0),
    "x": ("", 1.0),
    "times": ("", 1.0),
    "1": ("", 1.0),
    "%": ("", 0.01),
}
SI = {kind: unit for unit, (kind, factor) in _KNOWN.items() if factor == 1.0}
_DIGITS = r"[\d.,_]*\d\.?(?:[eE][-+]?\d+)?"
_GAP = re.compile(
    r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))"
)  # thousands apart, as French writes them
# The same with plain spaces, which also separate numbers, so that only whole groups of three are read.
_SPACED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(?: \d{3})+(?![\d ]*\d)")
_TENS = re.compile(r"(?:\*|x|\u00d7|\u00b7)\s*10\s*(?:\^|\*\*)\s*([-+]?\d{1,2})(?!\d)\s*(.*)")
# The unit of a size or a rate with its noun written out, such as GByte or Mbit/s.
_WRITTEN_OUT = re.compile(r"([kKMGTP]i?)?(?:(?P<byte>[Bb]ytes?)|[Bb]its?)(/s)?")
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}  # of a plain number
_SUGGESTIONS = ("did you mean", "read in two ways")  # in an error that proposes a unit
_FORM = re.compile(rf"\s*([-+]?{_DIGITS}(?:\s*/\s*{_DIGITS})?)\s*(\S.*?)?\s*\Z")
_PARTS = re.compile(rf"({_DIGITS})\s*([^\W\d_]+)[\s,]*")
_SUM = re.compile(rf"\s*(?:{_PARTS.pattern}){{2,4}}\Z")  # such as 13 min 37 s
# Ratios by which people are often wrong, too high or too low, each recognised within half a percent.
_FACTORS = {2.0: "direction", 8.0: "bits"}
_FACTORS |= {1.024**exponent: "binary" for exponent in range(1, 5)}
_FACTORS |= dict.fromkeys((1e3, 1024.0, 1e6, 1e9), "prefix")
# Only sizes and rates have directions, bits and powers of 1,024; a plain number has no prefix either.
_KINDS = {
    "direction": ("size", "rate"),
    "bits": ("size", "rate"),
    "binary": ("size", "rate"),
    "prefix": ("size", "rate", "time"),
}


@dataclass(frozen=True)
class Answer:
    """A learner's number in SI; ``note`` says how it was read, ``problem`` why it was not (no try is counted then)."""

    value: float = math.nan
    note: str = ""
    problem: str = ""


def parse_answer(answer: Any, unit: str, bare: str = "") -> Answer:
    """Read a number that a learner typed, and convert it to SI.

    Parameters
    ----------
    answer : number, numpy scalar, str, or a list or array of one
        The answer, such as ``"0.7 s"``, ``"700 ms"``, ``"0,7 s"``, ``"7/10 s"``, or 1.6 if the question has no unit.
    unit : str
        The unit that the question asks for; "1" and "times" take a plain number or a percentage, "dB" a plain number.
    bare : str
        Unit of a number that is given without one; if empty, the problem says that a unit is missing.

    Examples
    --------
    >>> parse_answer("0,7 s", "s").value, parse_answer(0.7, "s").problem
    (0.7, 'Which unit? Write it in quotes with the number, such as "0.7 s".')
    """
    asked, _ = quantity(unit)
    if isinstance(answer, (list, tuple, np.ndarray)) and np.size(answer) == 1:
        answer = np.asarray(answer, dtype=object).item()
    written, spaces = _without_gaps(str(answer)) if _may_be_number(answer) else ("", False)
    summed = _sum(written, asked)
    if summed is not None:
        return summed
    match = _FORM.match(written)

    # An example with the learner's own number would drop or change what stands behind it, so it has another one.
    example = f"0.7 {unit}" if asked else "0.7"
    if match is None or (match[2] or "").startswith("/"):
        return Answer(problem=text("answer.kind", got=f"{answer!r:.60}", example=example))
    written_number = match[1]
    scale, written_unit = _scaled(match[2] or "")
    if written_unit == text("unit.times"):
        written_unit = "times"
    if not asked and written_unit in _PREFIXES:
        scale *= _PREFIXES[written_unit]
        written_unit = ""
    written_unit = written_unit or bare or {"": "1", "level": unit}.get(asked, "")
    if not written_unit:
        own = f"{' '.join(written.split())} {unit}"
        return Answer(problem=text("answer.which", example=own))

    number, note = _number(written_number)
    if not math.isfinite(number):
        return Answer(problem=text("answer.finite"))
    if spaces:
        note = text("answer.spaces", number=number)
    number *= scale
    is_plain = "/" not in written_number and scale == 1
    proposed = written_number if is_plain else f"{number:.10g}"
    try:
        kind, factor = quantity(written_unit, proposed, example)
    except InputRefused as error:
        return Answer(problem=str(error))
    if kind != asked:
        wanted = units.printed(unit) if asked else text("answer.number")
        return Answer(problem=text("answer.other", got=written_unit, unit=wanted))
    si = number * factor
    if not math.isfinite(si):
        return Answer(problem=text("answer.finite"))
    return Answer(si, note)


def _without_gaps(written: str) -> tuple[str, bool]:
    """Return a text without the gaps between groups of three digits, and whether plain spaces were among them."""
    bare = _GAP.sub("", written)
    match = _SPACED.match(bare)
    if match is None:
        return bare, False
    return match[0].replace(" ", "") + bare[match.end() :], True


def _sum(written: str, asked: str) -> Answer | None:
    """Return the sum of numbers with falling units of the quantity asked for, such as 13 min 37 s; else None."""
    if not _SUM.match(written):
        return None
    total = 0.0
    last = math.inf
    for digits_of_part, unit in _PARTS.findall(written):
        kind, factor = _KNOWN.get(unit, ("", 0.0))
        number, _ = _number(digits_of_part)
        if not asked or kind != asked or factor >= last or not math.isfinite(number):
            return None
        total += number * factor
        last = factor
    return Answer(total, text("answer.sum", number=total, unit=SI[asked]))


def _scaled(unit: str) -> tuple[float, str]:
    """Return the factor in front of a unit, such as million, and the unit without it, as the library spells it."""
    scale = 1.0
    tens = _TENS.fullmatch(unit)
    if tens:
        scale = 10.0 ** int(tens[1])
        unit = tens[2]
    first, _, rest = unit.partition(" ")
    factors = dict(zip(text("unit.scales").split("|"), (1e3, 1e6, 1e9, 1e12), strict=True))
    if first.lower() in factors:
        scale *= factors[first.lower()]
        unit = rest.strip()
    if unit.lower() in text("unit.percent").split("|"):
        return scale, "%"
    spelled = _WRITTEN_OUT.fullmatch(unit)
    if spelled and spelled[1]:
        unit = f"{spelled[1]}{'B' if spelled['byte'] else 'b'}{spelled[3] or ''}"
    return scale, unit


def _may_be_number(answer: Any) -> bool:
    """Return whether an answer is a text or a number; True and False count as neither."""
    if isinstance(answer, (bool, np.bool_)):
        return False
    return isinstance(answer, str) or hasattr(answer, "__float__")


def _number(written: str) -> tuple[float, str]:
    """Return the number in a text and, if it has a comma, a note on how the comma was read."""
    if "/" in written:
        (above, note), (below, other) = map(_number, re.split(r"\s*/\s*", written))
        return above / below if below else math.nan, note or other

    key = ""
    decimal = written
    if units.GROUPED.fullmatch(written):
        key = "answer.thousands"
        decimal = written.replace(",", "")
    elif "," in written:
        key = "answer.comma"
        decimal = written.replace(",", ".")
    try:
        number = float(decimal)
    except ValueError:
        return math.nan, ""
    return number, text(key, number=number) if key else ""


def quantity(unit: str, number: str = "1", example: str = "") -> tuple[str, float]:
    """Return the quantity of a unit ("" for a plain number) and its factor to SI; raise InputRefused if it is unknown.

    The error suggests a spelling with ``number``, which is the number that the learner wrote; where none is similar, it
    gives ``example``, if there is one.
    """
    if unit not in _KNOWN:
        try:
            units.parse(
                f"{number} {unit}", "rate", "this number"
            )  # its error suggests what may be meant
        except ValueError as error:
            problem = str(error)
            if example and not any(words in problem for words in _SUGGESTIONS):
                problem = text("answer.unknown", got=unit, example=example)
            raise InputRefused(problem) from None
    return _KNOWN[unit.strip()]


def unit_in(written: Any) -> str:
    """Return the unit after the number in a string, or an empty text."""
    match = _FORM.match(_without_gaps(written)[0]) if isinstance(written, str) else None
    return _scaled(match[2] or "")[1] if match else ""


def named_factor(value: float, truth: float, kind: str) -> str | None:
    """Return the name of the slip if ``value`` differs from the truth by a well-known factor, else None.

    ``kind`` is the quantity, which decides which factors are likely.
    """
    if value * truth <= 0:
        return None
    ratio = max(value / truth, truth / value)
    for factor, name in _FACTORS.items():
        if kind in _KINDS[name] and math.isclose(ratio, factor, rel_tol=5e-3):
            return name
    return None


def is_rounded(value: float, truth: float) -> bool:
    """Return whether a number is the truth rounded or cut off to one or two digits, and within 5 % of it."""
    if value == 0 or not math.isclose(value, truth, rel_tol=0.05):
        return False
    exponent = math.floor(math.log10(abs(truth)))
    for step in (10.0**exponent, 10.0 ** (exponent - 1)):
        cut_off = math.floor(abs(truth) / step + 1e-9)
        rounded = math.floor(abs(truth) / step + (0.5 + 1e-9))
        if any(math.isclose(abs(value), step * count) for count in (cut_off, rounded)):
            return True
    return False


def times(a: float, b: float) -> str:
    """Write the ratio of the larger of two numbers to the smaller: 1.2, 8.0 or 128."""
    ratio = max(a / b, b / a)
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def digits(number: float) -> str:
    """Write a number with three significant digits and all digits before the point: 0.700, 128 or 12,345."""
    if number == 0 or not 1e-3 <= abs(number) < 1e9:
        return f"{number:.3g}"
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:#.3g}".rstrip(".")


def shown(number: float, unit: str | None) -> str:
    """Write a number with its unit, as `digits` does."""
    return digits(number) if unit in (None, "1") else f"{digits(number)} {units.printed(unit)}"


def with_prefix(value: float, unit: str) -> str:
    """Write a number in SI with four digits, in a unit or in the same one with the prefix that fits: 56.83 kW.

    Examples
    --------
    >>> with_prefix(56832.0, "W"), with_prefix(4e6, "1"), with_prefix(0.283, "%")
    ('56.83 kW', '4,000,000', '28.3 %')
    """
    number = value / quantity(unit)[1]
    base = re.sub(r"\A[kMGTPEpnuµm](?=.)", "", unit)  # nobody writes kUSD, so money stays as it is
    fits = unit == "USD" or number == 0 or 1e-2 <= abs(number) < 1e4
    if not fits and unit in units.UNITS and units.UNITS.get(base, ("",))[0] == quantity(unit)[0]:
        scaled, prefix = units.scale(value / quantity(base)[1])
        if prefix + base in units.UNITS:
            number = scaled
            unit = prefix + base
    rounded = float(f"{number:.4g}")
    decimals = 0 if rounded == 0 else max(0, 3 - math.floor(math.log10(abs(rounded))))
    written = f"{rounded:,.{decimals}f}"
    if decimals:
        written = written.rstrip("0").rstrip(".")
    return written if unit == "1" else f"{written} {units.printed(unit)}"
