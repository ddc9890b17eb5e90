"""The gates of an executed lesson: its numbers are printed, its answers are kept, its pictures speak."""

import math
import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any, NamedTuple

from fabriclab import units
from support.lesson_gates import about, cells, prose, where


class Number(NamedTuple):
    """A number as written: in its unit, in SI, half of its last digit, the quantity ("bare" without a unit)."""

    value: float
    factor: float
    half: float
    kind: str
    text: str


LONG = {"hours": 3600.0, "days": 86400.0, "seconds": 1.0}
UNITS = {
    **units.UNITS,
    **{word: ("time", s) for word, s in LONG.items()},
    "%": ("", 0.01),
    "times": ("", 1.0),
}
DOLLARS = {"k": 1e3, "M": 1e6, "billion": 1e9}
FORM = re.compile(
    r"(?<![\w.,])(USD )?([-+−]?(?:\d{1,3}(?:[,\u202f\u2009]\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"(?:[ \u00a0\u202f]?("
    + "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
    + r")(?![\w/]))?"
    r"(?(1)(?: (k|M|billion)\b)?)"
)


def numbers(text: str) -> list[Number]:
    found = []
    for match in FORM.finditer(text):
        dollars, written, unit, scale = match.groups()
        clean = re.sub(r"[,\u202f\u2009]", "", written).replace("−", "-")
        mantissa, _, power = clean.lower().partition("e")
        half = 0.5 * 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
        kind, factor = (
            ("price", DOLLARS.get(scale, 1.0)) if dollars else UNITS.get(unit, ("bare", 1.0))
        )
        found.append(Number(float(clean), factor, half, kind, match.group().strip()))
    return found


def says(printed: Number, wanted: Number) -> bool:
    """Return whether something printed bears out a number in prose, to the digits that prose gives."""
    value = (
        printed.value if printed.kind == "bare" else printed.value * printed.factor / wanted.factor
    )
    if printed.kind == "bare" and wanted.half == 0.5 and abs(wanted.value) < 10:
        return False  # a lone digit without its unit stands on any page
    return (
        printed.kind in ("bare", wanted.kind)
        and abs(value - wanted.value) <= wanted.half * 1.000001
    )


def output_text(output: Any) -> str:
    """Return the words of one output: streams, plain text, and HTML without tags and without ticks of a ruler."""
    data = output.get("data", {})
    page = re.sub(
        r'<(style|script).*?</\1>|<div class="fl-axis".*?</div>|<[^>]*>',
        " ",
        data.get("text/html", ""),
        flags=re.DOTALL,
    )
    return "\n".join([output.get("text", ""), data.get("text/plain", ""), unescape(page)])


def printed(cell: Any) -> str:
    return "\n".join(output_text(output) for output in cell.get("outputs", []))


def gate_numbers(nb: Any) -> Iterator[str]:
    known = [n for cell in cells(nb, "code") for n in numbers(printed(cell))]
    known += [n for text in about(nb).get("given", []) for n in numbers(text)]
    for cell in cells(nb, "markdown"):
        cited = {
            key: source
            for key, source in cell.metadata.get("cites", {}).items()
            if str(source).strip()
        }
        sources = [n for key in cited for n in numbers(key)]
        for number in numbers(prose(cell.source)):
            if number.kind != "bare" and not any(
                says(other, number) for other in [*known, *sources]
            ):
                yield f"cell {cell.id} says {number.text!r}, which no cell prints and nothing gives or cites"


def gate_secrets(
    nb: Any, predictions: Mapping[str, Any], elsewhere: Mapping[str, Any]
) -> Iterator[str]:
    """Find the truth of a prediction before its time; ``elsewhere`` has executed earlier lessons by name."""
    given = {n.text for text in about(nb).get("given", []) for n in numbers(text)}
    made, shown = where(nb, "predict"), where(nb, "reveal")
    for id, entry in predictions.items():
        if "truth" not in entry or entry["how"] in ("measured", "stored"):
            continue
        truth = numbers(f"{entry['truth']!r} {entry['unit']}")[0]
        kind = truth.kind.replace("bare", "")
        before = [(cell, "") for cell in nb.cells[: made.get(id, shown.get(id, 0))]]
        others = {
            lesson: other.cells
            for lesson, other in elsewhere.items()
            if id in where(other, "predict")
        }
        before += [(cell, f" of {lesson}") for lesson, group in others.items() for cell in group]
        for cell, place in before:
            text = (
                prose(cell.source)
                if cell.cell_type == "markdown"
                else cell.source + "\n" + printed(cell)
            )
            # A bare number of a table may have its unit in the head, as in "time [ms]".
            heads = [UNITS[u] for u in re.findall(r"\[([^\]\s]+)\]", text) if u in UNITS]
            for n in numbers(text):
                bare = n.kind == "bare" and abs(n.value) >= 20 * n.half
                factors = (
                    [f for k, f in heads if k == kind] if bare else [n.factor] * (n.kind == kind)
                )
                same = any(
                    math.isclose(n.value * f, truth.value * truth.factor, rel_tol=0.02)
                    for f in factors
                )
                if same and n.text not in given:
                    yield f"cell {cell.id}{place} says {n.text!r} before prediction {id} asks for it"


def gate_patience(nb: Any, predictions: Mapping[str, Any]) -> Iterator[str]:
    """Find the truth of a prediction in the cell that reveals it, although nothing was predicted."""
    for id, place in where(nb, "reveal").items():
        entry = predictions[id]
        if entry["how"] not in ("measured", "stored"):
            truth = numbers(f"{entry['truth']!r} {entry['unit']}")[0]
            for n in numbers(printed(nb.cells[place])):
                if n.kind == truth.kind and math.isclose(
                    n.value * n.factor, truth.value * truth.factor, rel_tol=0.02
                ):
                    yield f"cell {nb.cells[place].id} says {n.text!r}, and nothing was predicted as {id}"


def gate_answers(progress: Mapping[str, Any]) -> Iterator[str]:
    for id, entry in {**progress.get("checks", {}), **progress.get("drills", {})}.items():
        if entry["right"]:
            yield f"the notebook answers its own question {id}; leave that to the learner"


def pictures(nb: Any) -> Iterator[tuple[str, str | None]]:
    """Yield the cell and the alternative text of each picture in the outputs."""
    for cell in cells(nb, "code"):
        for output in cell.outputs:
            data = output.get("data", {})
            for mime in (m for m in data if m.startswith("image/")):
                yield cell.id, output.get("metadata", {}).get(mime, {}).get("alt")
            for tag in re.findall(r"<(?:img|svg)\b[^>]*>", data.get("text/html", "")):
                alt = re.search(r"\b(?:alt|aria-label)=\"([^\"]*)\"", tag)
                yield cell.id, unescape(alt.group(1)) if alt else None


def gate_pictures(nb: Any) -> Iterator[str]:
    for id, alt in pictures(nb):
        if alt is None or len(alt.split()) < 6 or re.match(r"\W*(figure|plot)", alt, re.IGNORECASE):
            yield f"a picture of cell {id} has the alternative text {alt!r}: say the finding in six words or more"


def gate_text_mode(nb: Any) -> Iterator[str]:
    for cell in cells(nb, "code"):
        for output in cell.outputs:
            data = output.get("data", {})
            live = [m for m in data if m.startswith("image/") or "widget" in m]
            if live or re.search(r"<(img|svg|canvas|script)\b", data.get("text/html", "")):
                yield f"cell {cell.id} still draws {live or 'in HTML'} in text mode"
            if data and not data.get("text/plain", "").strip():
                yield f"cell {cell.id} says nothing as plain text"
