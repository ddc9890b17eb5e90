"""The pages of the class: a matrix of students and questions, what went wrong, and all free texts."""

import html
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fabriclab import units
from fabriclab.core import as_html
from fabriclab.texts import table, text

from . import pages
from .pages import link, tag
from .results import Entry, Record, Results, columns, noted, scores, totals, unread

# Signs beside the points of a question that the code kept from being judged; any other trouble is an error.
_SIGNS = {
    **dict.fromkeys(("open", "cell", "none", "other", "file"), "–"),
    "time": "t",
    "judge": "?",
}
_ERROR = "!"
_BARS = 10  # of the histogram
MOST_NAMES = 6  # in a line


def write(results: Results, titles: str, made: Sequence[str]) -> None:
    """Write the page of the class and the page of its free texts.

    Parameters
    ----------
    results : Results
        What to show.
    titles : str
        Headings of the exercises.
    made : sequence of str
        How the results were made, as HTML.
    """
    path = results.table.with_suffix(".html")
    entries = list(results.entries.values())
    texts = path.with_name(f"{path.stem}-texts.html")

    body = list[str]()
    for student, said in results.head["failed"].items():
        body.append(tag("p", text("grade.failed", student=student, said=said)))
    if entries:
        body += [*_matrix(entries, path.stem), *_histogram(entries), *_questions(entries)]
    body += [*_attempts(entries), *_notes(entries)]
    body.append(f"<p>{link(text('grade.page.texts'), texts.name)}</p>")
    body += [tag("h2", text("grade.page.how")), *made]
    pages.write(path, text("grade.page.class", exercises=titles), body)
    _write_texts(texts, entries)


# Points ----------------------------------------------------------------------------------------------------------


def shade(points: float, of: float) -> str:
    """Return the name of the colour for a share of the points: none, some (below half), most or full."""
    if points >= of:
        return "full"
    if points <= 0:
        return "none"
    return "most" if 2 * points >= of else "some"


def _matrix(entries: Sequence[Entry], folder: str) -> list[str]:
    """Return a table with a row for each student, a column for each question, and the medians at the top."""
    names = columns(entries)
    most = sum(names.values())
    head = [text("grade.page.student")]
    head += [f"{name} /{of:g}" for name, of in names.items()]
    head.append(text("grade.page.sum", of=f"{most:g}"))
    top = "".join(f"<th scope=col>{html.escape(cell)}" for cell in head)
    below = "".join(_summary(*row) for row in _summaries(entries, names))
    rows = "".join(_row(entry, names, folder) for entry in entries)
    caption = tag("caption", text("grade.page.matrix", n=len(entries)))
    label = html.escape(text("grade.page.points"))
    scroll = f'<div class=wide><div role=region tabindex=0 aria-label="{label}">'
    inside = f"<table>{caption}<thead><tr>{top}{below}</thead><tbody>{rows}</tbody></table>"
    return [tag("h2", text("grade.page.points")), _key(), f"{scroll}{inside}</div></div>"]


def _row(entry: Entry, names: Mapping[str, float], folder: str) -> str:
    """Return the row of a student, whose name leads to the student's page."""
    student = entry["student"]
    page = link(student, f"{folder}/{pages.page_of(student)}")
    records = {q["question"]: q for q in entry["questions"]}
    found = {name: (points, of) for name, points, of in scores(entry)}
    waiting = unread(entry)
    not_marked = tag("td", text("grade.page.waits"))
    cells = list[str]()
    for name in names:
        if name not in found:
            cells.append("<td>")
            continue
        points, of = found[name]
        record = records.get(name)
        sign = "" if record is None else _sign(record)
        if name in waiting:
            cells.append(not_marked)
            continue
        about = f" title={_quoted(trouble(record['trouble']))}" if record and sign else ""
        cells.append(f"<td class={shade(points, of)}{about}>{points:g}{sign and f' {sign}'}")
    return f"<tr><th scope=row>{page}</th>{''.join(cells)}<td>{totals(entry)[0]}"


def _sign(record: Record) -> str:
    """Return the sign for what kept a question from being judged, or an empty text."""
    return _SIGNS.get(record["trouble"], _ERROR) if record["trouble"] else ""


def _quoted(words: str) -> str:
    return f'"{html.escape(words)}"'


def _summaries(entries: Sequence[Entry], names: Mapping[str, float]) -> list[tuple[str, list[str]]]:
    """Return the medians of all columns and of the total, and the share of full marks."""
    sums = [sum(points for _, points, _ in scores(entry)) for entry in entries]
    medians, full = list[str](), list[str]()
    for name, of in names.items():
        points = _points_in(entries, name)
        medians.append(f"{statistics.median(points):g}")
        full.append(units.format_share(sum(one >= of for one in points) / len(points)))
    most = sum(names.values())
    medians.append(f"{statistics.median(sums):g}")
    full.append(units.format_share(sum(one >= most for one in sums) / len(sums)))
    return [(text("grade.page.median"), medians), (text("grade.page.full"), full)]


def _points_in(entries: Sequence[Entry], name: str) -> list[float]:
    """Return the points of all who have a column."""
    return [points for entry in entries for at, points, _ in scores(entry) if at == name]


def _summary(name: str, cells: Sequence[str]) -> str:
    return f"<tr><th scope=row>{html.escape(name)}</th><td>{'<td>'.join(cells)}"


def _key() -> str:
    """Return what the colours and the signs of the matrix mean."""
    shades = [
        tag("span", text(f"grade.shade.{name}"), f' class="key {name}"') for name in pages.SHADES
    ]
    signs = tag("p", text("grade.page.signs"))
    return f"<p>{' '.join(shades)}</p>{signs}"


def _histogram(entries: Sequence[Entry]) -> list[str]:
    """Return how many students have a total in each tenth of the points."""
    most = sum(columns(entries).values())
    count = Counter[int]()
    for entry in entries:
        points = sum(points for _, points, _ in scores(entry))
        count[min(int(_BARS * points / most), _BARS - 1) if most else 0] += 1
    head = "".join(f"<th scope=col>{cell}" for cell in text("grade.page.bars").split("|"))
    rows = list[str]()
    for bar in reversed(range(_BARS)):
        low, high = (most * edge / _BARS for edge in (bar, bar + 1))
        key = "grade.page.from_to" if bar == _BARS - 1 else "grade.page.below"
        range_ = text(key, low=f"{low:g}", high=f"{high:g}")
        width = 100 * count[bar] / max(count.values())
        drawn = f'<span class=bar style="width:{width:.0f}%"></span>' if count[bar] else ""
        rows.append(f"<tr><th scope=row>{range_}</th><td>{count[bar]}<td>{drawn}")
    caption = tag("caption", text("grade.page.histogram", n=len(entries)))
    title = tag("h2", text("grade.page.totals"))
    return [title, f"<table class=hist>{caption}<tr>{head}{''.join(rows)}</table>"]


# What went wrong -------------------------------------------------------------------------------------------------


def _questions(entries: Sequence[Entry]) -> list[str]:
    """Return how many had each question right, and what went wrong most often."""
    records = dict[str, list[Record]]()  # by question
    for entry in entries:
        for q in entry["questions"]:
            records.setdefault(q["question"], []).append(q)
    rows = [_row_of_question(name, of_question) for name, of_question in records.items()]
    shown = as_html(
        [text("grade.page.shares").split("|"), *rows], text("grade.page.share", n=len(entries))
    )
    return [tag("h2", text("grade.page.questions")), shown]


def _row_of_question(name: str, records: Sequence[Record]) -> tuple[str, ...]:
    """Return a question as a row: title, who had it right, points, misconceptions, and other trouble by its kind."""
    points = [q["points"] for q in records]
    right = sum(q["points"] >= q["of"] for q in records) / len(records)
    most = f"{records[0]['of']:g}"
    median = f"{statistics.median(points):g} / {most}"
    mean = f"{statistics.mean(points):.1f} / {most}"
    often = Counter(q["mistake"] for q in records if q["mistake"]).most_common(3)
    kinds = Counter(q["trouble"] for q in records if q["trouble"]).most_common()
    mistakes = "; ".join(f"{mistake} ({n})" for mistake, n in often)
    others = "; ".join(f"{trouble(kind)} ({n})" for kind, n in kinds)
    return (
        pages.title(name),
        units.format_share(right),
        median,
        mean,
        mistakes or "-",
        others or "-",
    )


def trouble(kind: str) -> str:
    """Return what kept code from answering, in words; errors of Python go by their own names."""
    return table().get(f"grade.trouble.{kind}", kind)


def _attempts(entries: Sequence[Entry]) -> list[str]:
    """Return what students' code tried at the walls: each kind once, with the students and their questions."""
    found = dict[str, dict[str, list[str]]]()  # kind -> student -> questions
    for entry in entries:
        for q in entry["questions"]:
            for kind in q["tried"]:
                of_kind = found.setdefault(kind, {})
                of_kind.setdefault(entry["student"], []).append(q["question"])
    body = [tag("h2", text("grade.page.attempts"))]
    if not found:
        return [*body, tag("p", text("grade.page.attempts.none"))]
    body.append(tag("p", text("grade.page.attempts.what")))
    rows = list[str]()
    for kind, who in sorted(found.items()):
        named = [f"{student} ({', '.join(questions)})" for student, questions in who.items()]
        words = table().get(f"grade.tried.{kind}", kind)
        line = text("grade.page.attempt", kind=words, n=len(who), who=", ".join(named))
        rows.append(tag("li", line))
    return [*body, f"<ul>{''.join(rows)}</ul>"]


def grouped(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Return each note for the teacher once, with the students whom it is about."""
    found = dict[str, list[str]]()
    for entry in entries:
        for note in noted(entry):
            found.setdefault(note, []).append(entry["student"])
    return found


def line_of(note: str, students: Sequence[str], most: int) -> str:
    """Return a note in a line with the names of the students, at most so many; they stand in it once."""
    own = names(students)
    if len(students) > 1 and own in note:
        return note.replace(own, names(students, most))
    return text("grade.note", student=names(students, most), said=note)


def names(students: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return names in a line; of many only the first, with the number of the others."""
    first = ", ".join(students[:most])
    if len(students) <= most:
        return first
    return text("grade.page.more", names=first, n=len(students) - most)


def _notes(entries: Sequence[Entry]) -> list[str]:
    """Return the notes on students: each once, with all names, as for equal code of a whole group."""
    found = grouped(entries)
    if not found:
        return []
    largest_first = sorted(found.items(), key=lambda one: -len(one[1]))
    rows = [tag("li", line_of(note, students, len(students))) for note, students in largest_first]
    return [tag("h2", text("grade.page.notes")), f"<ul>{''.join(rows)}</ul>"]


# Free texts ------------------------------------------------------------------------------------------------------


def _write_texts(path: Path, entries: Sequence[Entry]) -> None:
    """Write one page with all free texts: each text once, and who has written none in one line."""
    body = list[str]()
    for name in sorted({name for entry in entries for name in entry["texts"]}):
        written = dict[str, list[Entry]]()  # text -> students
        none = list[str]()
        for entry in entries:
            words = entry["texts"].get(name, "")
            if words.strip():
                written.setdefault(words.strip(), []).append(entry)
            else:
                none.append(entry["student"])
        body.append(tag("h2", name))
        for words, same in written.items():
            body.append(tag("h3", ", ".join(entry["student"] for entry in same)))
            body.append(tag("pre", words))
            body += [tag("p", _mark(entry, name)) for entry in same if name in entry["marks"]]
        if none:
            body.append(tag("p", text("grade.page.empty", n=len(none), names=", ".join(none))))
    pages.write(path, text("grade.page.texts"), body)


def _mark(entry: Entry, name: str) -> str:
    """Return the points for a free text in words."""
    if name in unread(entry):
        return text("grade.marks.of_none", student=entry["student"])
    mark = entry["marks"][name]
    points = {"points": f"{mark['points']:g}", "of": f"{mark['of']:g}"}
    said = text("grade.marks.of", student=entry["student"], **points)
    return f"{said} {mark['remark']}".strip()
