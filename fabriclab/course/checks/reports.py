"""`report` and `progress`: all that a learner predicted, measured and answered, and what to review."""

import base64
import html
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fabriclab
from fabriclab import catalog, units
from fabriclab.catalog.tables import data_rows
from fabriclab.core import Floats
from fabriclab.course import cards, judges
from fabriclab.course.checks.courses import (
    answered,
    answers,
    next_lesson,
    numbered,
    path_ending,
    state,
    title_of,
)
from fabriclab.course.checks.predictions import (
    guessed,
    headline,
    how_far,
    judged_guess,
    label,
    ledger,
    named,
    ruler_ends,
)
from fabriclab.course.progress import store
from fabriclab.course.questions import predictions, questions
from fabriclab.course.questions.files import heading, is_own
from fabriclab.course.shown import Shown, digits, refuse_if, shown, times
from fabriclab.texts import keys, text

_MOST = 10  # rows of a table, so that a report stays on one screen
_MOST_BARS = 8  # of the ledger at the end of a lesson
_MOST_BESIDE = (
    8  # checks in the list beside the bars; a longer list stands below them in two columns
)


def report(
    name: str | None = None,
    *,
    full: bool = False,
    share: bool | str = False,
    lesson: str | None = None,
) -> Shown:
    """Show what you found in a lesson, your ledger, what you can do now, and what comes next.

    Parameters
    ----------
    name : str, optional
        Name to write at the top of the full report; by default there is none.
    full : bool
        Show everything instead: the state of each lesson, predictions, measurements, checks, and three take-aways.
    share : bool or str
        Write a picture to show to others instead, in the current folder: what came out, and what you guessed. "dark"
        draws it on a dark background.
    lesson : str, optional
        Number of the lesson, such as "22"; by default the one in which you did something last.

    Raises
    ------
    InputRefused
        A ValueError: there is no such lesson, or there is nothing to share in it yet.
    """
    kept = store.held()
    at_hand = _lesson_named(lesson) if lesson is not None else _lesson_at_hand(kept)
    if share:
        return _shared(at_hand, kept, "dark" if share == "dark" else "light")
    whole = _full_report(name, kept)
    if full or name is not None or not at_hand:
        return whole
    return _LessonReport(at_hand, kept, whole).shown()


def _full_report(name: str | None, kept: dict[str, Any]) -> Shown:
    """Return the report on everything that is stored."""
    states = {}  # file name of a lesson -> its state
    for key in keys("lesson."):
        lesson = key.removeprefix("lesson.")
        states[lesson] = state(lesson, kept)
    begun = [lesson for lesson, how in states.items() if how != "new"]

    made = {"version": fabriclab.__version__, "facts": _facts(), "day": str(store.now().date())}
    head = text("report.head", **made, name=f", {name}" if name else "")

    checks = list(_checks(begun, kept))
    to_look_at = [check for check in checks if check.call]
    to_look_at.sort(key=lambda check: check.tries == "0")  # checks that were tried come first
    lessons = list(_lessons(begun, kept))
    numbers = list(_numbers(kept))
    parts = _part("lessons", lessons[-_MOST:])
    parts += _part("numbers", numbers[-_MOST:])
    parts += _part("checks", to_look_at[:_MOST])

    after = []
    if len(to_look_at) > _MOST:
        after.append(text("report.more", n=len(to_look_at) - _MOST))
    after += _answered_right(checks)
    takeaways = [f"- {sentence}" for sentence in itertools.islice(_takeaways(kept), 3)]
    if takeaways:
        after.append(text("report.takeaways"))
        after += takeaways
    after.append(text("report.file", path=store.path()))

    data = kept | {"name": name, "made_with": made}
    return Shown([head, _counts(states)], parts=parts, extra=_download, after=after, data=data)


def _lesson_named(number: str) -> str:
    """Return the file name of a lesson from its number, such as "22" or "21b", or from its beginning."""
    names = sorted({question.lesson for question in questions().values()})
    found = [name for name in names if f"{name}_".startswith(f"{number}_")]
    if not found and str(number):
        found = [name for name in names if name.startswith(str(number))]
    refuse_if(len(found) != 1, "report.lesson", got=repr(number), known=", ".join(names))
    return found[0]


def _lesson_at_hand(kept: dict[str, Any]) -> str:
    """Return the lesson in which the learner did something last; empty if that was none."""
    begun: dict[str, str] = {}  # time of the last entry of each lesson -> the lesson
    for section in ("predictions", "checks", "drills", "ledger"):
        for id, entry in kept[section].items():
            begun[entry.get("when", "")] = _lesson_of(id, entry)
    return begun[max(begun)] if begun else ""


def _lesson_of(id: str, entry: Mapping[str, Any]) -> str:
    """Return the lesson that an entry of the progress file belongs to; empty if it is none of those that exist."""
    if id in predictions():
        return predictions()[id].lesson
    if id in questions():
        return questions()[id].lesson
    number = str(entry.get("lesson", ""))
    lessons = sorted({question.lesson for question in questions().values()})
    exact = [lesson for lesson in lessons if lesson.startswith(f"{number}_")]
    begins = [lesson for lesson in lessons if number and lesson.startswith(number)]
    return next(iter(exact + begins), "")  # 35 is 35_overlap..., and not 35b_...


class _LessonReport:
    """The end of a lesson: what was found, the ledger, what can be done now, and what comes next."""

    def __init__(self, lesson: str, kept: dict[str, Any], whole: Shown) -> None:
        self.lesson = lesson
        self.kept = kept
        self.whole = whole  # the full report
        self.right = answered(lesson, kept)
        self.next = next_lesson(lesson)
        self.end = _end_of_path(lesson, kept)
        self.found = _found(lesson, kept)

    def shown(self) -> Shown:
        """Return the report as a notebook shows it."""
        lines = [self.state()]
        lines += [f"{finding} {judged}".strip() for finding, judged in self.found]
        bars = self.bars()
        if bars:
            steps = ", ".join(f"{bar.name} {bar.shown}" for bar in bars)
            lines.append(text("report.ledger_line", steps=steps))
        open_calls = [call for _, right, call in self.checks() if not right and call]
        if open_calls:
            lines.append(text("report.open", calls=", ".join(f"`{call}`" for call in open_calls)))
        lines += self.end
        if self.next:
            lines.append(text("report.next", title=self.next[0]))
        lines.append(text("report.rest"))
        return Shown(lines, data=self.whole.data, card=self.card)

    def state(self) -> str:
        """Return in a sentence how far the lesson has come."""
        count = {"right": sum(self.right.values()), "n": len(self.right)}
        how = text(f"state.{state(self.lesson, self.kept)}")
        return text("report.state", title=title_of(self.lesson), state=how, **count)

    def bars(self) -> list[cards.Bar]:
        """Return the last changes of the ledger as bars; the latest of this lesson is the one that matters."""
        entries = list(self.kept["ledger"].items())[-_MOST_BARS:]
        mine = [name for name, entry in entries if _lesson_of("", entry) == self.lesson]
        now = max(mine, key=lambda name: self.kept["ledger"][name].get("when", ""), default="")
        return [
            cards.Bar(name, entry["step"], f"{digits(entry['step'])} s", name == now)
            for name, entry in entries
        ]

    def checks(self) -> list[tuple[str, bool, str]]:
        """Return (name, whether it is right, line to type if not) of all checks, those that are right first."""
        asked = [(questions()[id], right) for id, right in self.right.items()]
        asked.sort(key=lambda pair: (not pair[1], not pair[0].core))
        return [(q.words.name(), right, "" if right else q.call()) for q, right in asked]

    def card(self) -> str:
        """Return the card that ends a lesson."""
        headline, contrast = self.found[0] if self.found else (self.state(), "")
        small = self.state() if self.found else ""
        left = []
        bars = self.bars()
        if bars:
            heading = text("report.case"), text("report.case_unit")
            step = catalog.case().t_step
            now = cards.Bar(text("report.as_it_is"), step, f"{digits(step)} s")
            left.append(cards.headed(*heading, cards.bars(bars, now)))
        others = []
        if len(self.found) > 1:
            others.append(cards.headed(text("report.found"), "", cards.found(self.found[1:])))
        count = text("report.of", n=sum(self.right.values()), total=len(self.right))
        rows = self.checks()
        is_long = len(rows) > _MOST_BESIDE
        able = cards.headed(text("report.able"), count, cards.ticks(rows, wide=is_long))
        links = []
        following = ""
        if self.next:
            title, address = self.next
            words = text("report.next", title=title)
            if address:
                links.append((words, address))
            else:
                following = words
        body = cards.ending(small, headline, contrast)
        if is_long:
            body += cards.columns(left, others, able)
        else:
            body += cards.columns([*left, *others], [able])
        body += cards.sentences(self.end)
        share = text("report.share") if self.found else ""
        body += cards.footer(cards.buttons(links), following, share)
        body += cards.folded(text("report.all"), self.whole._repr_html_() or "")
        number, *_ = self.lesson.split("_")  # the headline is in the card, and would be read twice
        return cards.card(body, title=text("ledger.lesson", number=number), wide=True)


def _end_of_path(lesson: str, kept: dict[str, Any]) -> list[str]:
    """Return what came of a learner's path, and what goes with it, if ``lesson`` is its last one; else nothing."""
    path = path_ending(lesson)
    if path is None:
        return []
    name, lessons, besides = path
    checks = [right for each in lessons for right in answered(each, kept).values()]
    revealed = [entry for each in lessons for _, entry in _revealed(each, kept)]
    ranges = [
        entry for entry in revealed if entry["value"] is not None and entry["low"] is not None
    ]
    sentences = [
        text(
            "report.path_ends",
            path=name,
            done=sum(state(each, kept) in ("done", "review") for each in lessons),
            n=len(lessons),
            right=sum(checks),
            total=len(checks),
            held=sum(entry["low"] <= entry["truth"] <= entry["high"] for entry in ranges),
            ranges=len(ranges),
        )
    ]
    if besides:
        sentences.append(text("report.path_besides", besides=besides))
    return sentences


def _found(lesson: str, kept: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what came out in the predictions of a lesson, with the guesses, the greatest surprise first."""
    entries = sorted(_revealed(lesson, kept), key=lambda pair: _surprise(pair[1]), reverse=True)
    return [(headline(id, entry), _guess_in_words(entry)) for id, entry in entries]


def _surprise(entry: Mapping[str, Any]) -> tuple[bool, float]:
    """Return what revealed predictions are ordered by: how far off the guess was, those measured here last.

    What a machine of the learner's does, such as how fast it copies, says little about networks, and a guess at it is
    off for as many reasons as there are machines.
    """
    return entry["how"] != "measured", abs(math.log(entry["factor"] or 1.0))


def _revealed(lesson: str, kept: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the predictions of a lesson whose truth is known."""
    found = []
    for id, entry in kept["predictions"].items():
        if "truth" in entry and id in predictions() and predictions()[id].lesson == lesson:
            found.append((id, entry))
    return found


def _guess_in_words(entry: Mapping[str, Any]) -> str:
    """Return what the learner guessed, and how good it was."""
    if entry["value"] is None:
        return judged_guess(entry)
    return text("report.guessed", said=guessed(entry), judged=judged_guess(entry))


def _shared(lesson: str, kept: dict[str, Any], theme: str) -> Shown:
    """Write the picture to show to others, and show it with its file name; it has no name of a person and no path."""
    entries = [pair for pair in _revealed(lesson, kept) if pair[1]["value"]] if lesson else []
    refuse_if(not entries, "report.nothing_to_share")
    id, entry = max(entries, key=lambda pair: _surprise(pair[1]))
    unit = entry["unit"]
    guess = f"{entry['value']:g} {'' if unit == '1' else unit}".strip()
    said = text("report.i_guessed", guess=guess, verdict=how_far(entry["value"], entry["truth"]))
    file = Path(f"fabriclab-{id}.png")
    marks = [entry[field] for field in ("low", "value", "high") if entry[field]]
    from fabriclab.views.share import share_picture  # matplotlib, which only a picture needs

    alt = share_picture(
        file,
        theme=theme,
        lesson=title_of(lesson),
        number=digits(entry["truth"]),
        unit="" if unit == "1" else unit,
        claim=predictions()[id].claimed() or named(id),
        said=said,
        ends=ruler_ends(id, unit or "1", entry["truth"], *marks),
        guess=(entry["low"], entry["value"], entry["high"]),
        truth=entry["truth"],
    )
    line = text("report.shared", file=file.name)
    drawn = base64.b64encode(file.read_bytes()).decode()
    image = f'<img alt="{html.escape(alt)}" width="600" src="data:image/png;base64,{drawn}">'
    return Shown([line], "good", data={"file": file.name}, extra=lambda: image)


def _counts(states: Mapping[str, str]) -> str:
    """Return in words how many lessons are done, how many exist, and how many are planned."""
    done = sum(how in ("done", "review") for how in states.values())
    core = sum(how == "core" for how in states.values())
    here = len({question.lesson for question in questions().values()})
    return text("report.counts", done=done, core=core, here=here)


def _answered_right(rows: Iterable["CheckRow"]) -> list[str]:
    """Return a sentence with the last ten checks that are right and not due for review, if there are any."""
    right = [f"{row.name} {row.tries}" for row in rows if not row.call]
    if not right:
        return []
    listed = right[-_MOST:]
    if len(right) > _MOST:
        listed.append(text("report.over", n=len(right) - _MOST))
    return [text("report.right", list=", ".join(listed))]


def progress() -> Shown:
    """Show how good your predictions were, your lessons by strength, your ledger, and what to review today.

    ``progress().data`` contains everything that is stored.
    """
    kept = store.held()
    due = []
    for id, entry in answers().items():
        if store.due(entry):
            question = questions()[id]
            due.append((question.words.name(), f"`{question.call()}`"))
    parts = [*_calibration(kept), *_part("topics", _topics()), ledger(), *_part("review", due)]
    after = [] if due else [text("progress.resting")]
    title = text("progress.title", day=store.now().date())
    return Shown([title], parts=parts, after=after, data=kept)


def _opened(kept: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the predictions that had a guess and whose truth was revealed."""
    return {id: e for id, e in kept["predictions"].items() if "truth" in e and e["value"]}


def _calibration(kept: dict[str, Any]) -> list[Shown]:
    """Return a table of guesses compared with the truth, which HTML shows as a picture."""
    opened = _opened(kept)
    finding = " ".join(_calibrated(kept)) or text("progress.unopened")

    def drawn() -> Any:
        names = [named(id) for id in opened]
        ratios = [_ratios(opened.values(), field) for field in ("value", "low", "high")]
        return fabriclab.views.calibration(names, *ratios, finding=finding)

    rows = _part("numbers", _numbers({"predictions": opened, "measurements": {}}))
    if not rows:
        return [Shown([finding])]
    return [replace(part, lines=[finding], picture=drawn) for part in rows]


def _ratios(entries: Iterable[Mapping[str, Any]], field: str) -> Floats:
    """Return guesses, or ends of their ranges, each divided by the truth; NaN where none was given."""
    ratios = [(entry[field] or math.nan) / entry["truth"] for entry in entries]
    return np.asarray(np.clip(ratios, 1e-12, 1e12))  # anything beyond is drawn at the edge


def _topics() -> Iterator[tuple[str, ...]]:
    """Yield a row for each lesson of which a check was tried, the strongest first."""
    hits_of = defaultdict(list)  # lesson -> whether the first answer was right, for each check
    for id, entry in answers().items():
        hits_of[questions()[id].lesson].append(entry["right"] and entry["tries"] == 1)
    for lesson, hits in sorted(hits_of.items(), key=lambda pair: -statistics.mean(pair[1])):
        count = text("report.of", n=sum(hits), total=len(hits))
        yield numbered(lesson), count, units.format_share(statistics.mean(hits))


def _facts() -> str:
    """Return the latest day on which a fact of the catalog was looked up; a lesson's header has that of its own."""
    days = (row["date"] for name in catalog.tables() for row in data_rows(name))
    return max(day for day in days if day.startswith("seen ")).removeprefix("seen ")


def _part(key: str, rows: Iterable[tuple[str, ...]]) -> list[Shown]:
    """Return a table without its empty columns, in a list that is empty if there are no rows."""
    cells = [*rows]
    if not cells:
        return []
    used = [any(column) for column in zip(*cells, strict=True)]
    columns = text(f"report.{key}_columns").split("|")
    head, *body = (tuple(itertools.compress(row, used)) for row in (columns, *cells))
    return [Shown((text(f"report.{key}"),), head=head, rows=body)]


def _lessons(begun: Iterable[str], kept: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each lesson or exercise begun: its state, predictions made, and checks answered right."""
    for lesson in begun:
        made = [
            id in kept["predictions"]
            for id, prediction in predictions().items()
            if prediction.lesson == lesson
        ]
        right = answered(lesson, kept).values()
        yield (
            numbered(lesson),
            text(f"state.{state(lesson, kept)}"),
            text("report.of", n=sum(made), total=len(made)),
            text("report.of", n=sum(right), total=len(right)),
        )

    checks = kept["checks"]
    # The ids of questions begin with the name of their exercise, such as ex4-a.
    names = {id.partition("-")[0] for id in checks if id in judges.questions()}
    for name in sorted(names):
        solved = [checks.get(q.id, {}).get("right", False) for q in judges.exercise(name)]
        how = text("state.done" if all(solved) else "state.begun")
        count = text("report.of", n=sum(solved), total=len(solved))
        if is_own(name):
            title = heading(name)
        else:
            title = text("report.exercise", number=name.removeprefix("ex"))
        yield title, how, "", count


class CheckRow(NamedTuple):
    """A check as a row of a report."""

    name: str
    answer: str  # whether it is right, in words
    tries: str
    call: str  # the line to type if it needs another look; else empty


def _checks(begun: Iterable[str], kept: dict[str, Any]) -> Iterator[CheckRow]:
    """Yield a row for each check of the lessons begun; checks that need another look have the line to type."""
    tried = answers(kept)
    for lesson in begun:
        for id, right in answered(lesson, kept).items():
            tries = tried.get(id, {}).get("tries", 0)
            if right:
                answer = text("word.yes")
            else:
                answer = text("word.not_yet" if tries else "word.not_tried")
            question = questions()[id]
            call = ""
            if not right or store.due(tried[id]):
                call = f"`{question.call()}`"
            yield CheckRow(question.words.name(), answer, str(tries), call)


def _numbers(kept: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each prediction, with guess, model, truth and ratios, then a row for each measurement."""
    for id, entry in kept["predictions"].items():
        model = entry.get("model")
        found = entry.get("truth")
        yield (
            text("report.predicted", title=named(id)),
            guessed(entry),
            "" if model is None else shown(model, entry["unit"]),
            text("report.sealed") if found is None else shown(found, entry["unit"]),
            _ratio(entry["value"], found),
            _ratio(model, found),
        )
    for name, entry in kept["measurements"].items():
        result = f"{units.format_rate(entry['busbw'])}, {units.format_time(entry['time'])}"
        how = text(f"how.{entry.get('obtained', 'measured')}")
        yield text("report.measured", how=how, title=label(name)), "", "", result, "", ""


def _ratio(number: float | None, found: float | None) -> str:
    """Write a number divided by the truth; empty if one of them is unknown."""
    if number is None or found is None:
        return ""
    return digits(number / found)


def _takeaways(kept: dict[str, Any]) -> Iterator[str]:
    """Yield findings from the learner's own numbers, the most certain first."""
    nic = catalog.case()["nic_rate"]
    rate = {name: entry["busbw"] for name, entry in kept["measurements"].items()}
    words = {name: units.format_rate(value) for name, value in rate.items()}
    if "copy" in rate:
        key = "take.faster" if nic >= rate["copy"] else "take.slower"
        yield text(key, factor=times(nic, rate["copy"]), nic=units.format_rate(nic), **words)
    if {"copy", "sockets"} <= rate.keys():
        key = "take.sockets" if rate["copy"] >= rate["sockets"] else "take.noisy"
        yield text(key, factor=times(rate["copy"], rate["sockets"]), **words)
    yield from _calibrated(kept)
    first = [entry["right"] and entry["tries"] == 1 for entry in answers().values()]
    if first:
        yield text("take.first", right=sum(first), n=len(first))


def _calibrated(kept: dict[str, Any]) -> Iterator[str]:
    """Yield sentences on how often the learner's ranges contained the truth, and the median factor of the guesses."""
    opened = _opened(kept).values()
    with_range = [e for e in opened if e["low"] and e["high"]]
    if with_range:
        hits = sum(e["low"] <= e["truth"] <= e["high"] for e in with_range)
        yield text("take.ranges", held=hits, n=len(with_range))
    if opened:
        factors = [max(e["value"] / e["truth"], e["truth"] / e["value"]) for e in opened]
        yield text("take.factor", factor=statistics.median(factors), n=len(opened))


def _download() -> str:
    """Return an HTML link that downloads the progress file, because hubs such as Binder do not keep it."""
    file = store.path()
    if not file.is_file():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    words = html.escape(text("report.download"))
    return f'<a download="{html.escape(file.name)}" href="data:application/json;base64,{data}">{words}</a>'
