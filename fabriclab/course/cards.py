"""The cards for what a learner does, as HTML: a guess on its ruler, what came out, a question, the end of a lesson.

A live form puts the same HTML on the page and makes it answer (see `views.live.form`), so a saved notebook looks as
the live one did. ``still=True`` leaves out what needs a kernel: buttons and fields.

Text between backticks is a line to type. A sentence of several lines is shown as it is, in letters of one width.
"""

import functools
import html
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fabriclab.course.judges import Trace
from fabriclab.course.shown import digits
from fabriclab.look import CARDS, both_themes, tick_words, variables
from fabriclab.texts import localised, text, unit_words

if TYPE_CHECKING:
    from fabriclab.views import Picture

__all__ = [
    "Bar",
    "Case",
    "Guess",
    "Verdict",
    "bars",
    "buttons",
    "card",
    "columns",
    "ending",
    "fields",
    "folded",
    "footer",
    "found",
    "question",
    "ruler",
    "short",
    "style",
    "ticks",
    "verdict_box",
]

_STATES = {"right": "fl-is-right", "wrong": "fl-is-wrong", "other": ""}
_SIGNS = {True: "\u2713", False: "\u2715"}
_MOST_LABELS = 10  # labels of a ruler
_MOST_DECADES = 6  # of a ruler that has small ticks
_NEAR = 0.65  # share of a ruler within which two labels would touch on the narrowest card
_ENDS = (
    0.05  # share of a ruler at each end where a label stands beside its place instead of over it
)


@functools.cache
def style() -> str:
    """Return the style element for a card on a page without a live view, in the colours of the page's theme."""
    colours = both_themes(".fl-still", variables("light"), variables("dark"))
    return f"<style>{colours}{CARDS}</style>"


def card(body: str, *, title: str = "", wide: bool = False) -> str:
    """Return a whole card for a page without a live view."""
    kinds = "fl-card fl-still fl-wide" if wide else "fl-card fl-still"
    label = f' role="group" aria-label="{html.escape(title)}"' if title else ""
    return f'<div class="{kinds}" lang="{text("language")}"{label}>{style()}{body}</div>'


def marked(sentence: str) -> str:
    """Return a sentence as HTML; text between backticks becomes code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(sentence))


def _line(sentence: str) -> str:
    """Return a sentence as a paragraph, or several lines as they are."""
    if "\n" in sentence:
        return f"<pre>{html.escape(sentence)}</pre>"
    return f"<p>{marked(sentence)}</p>"


def _top(left: str, right: str, asked: str) -> str:
    """Return the small line of a card, and the question in it."""
    left = html.escape(left[:1].upper() + left[1:])
    tag = f'<div class="fl-tag"><b>{left}</b><span>{html.escape(right)}</span></div>'
    return f'{tag}<p class="fl-asked">{marked(asked)}</p>'


# Verdicts ----------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A part of an answer in code, or a case on which it was tried: its name, and the call in it that is wrong."""

    name: str
    right: bool
    points: str = ""  # such as "4 of 6"
    call: str = ""
    got: str = ""
    wanted: str = ""


class Verdict(NamedTuple):
    """What a card says about an answer."""

    state: str  # right, wrong, or other: not counted
    bold: str
    sentences: Sequence[str] = ()
    cases: Sequence[Case] = ()
    trace: Trace | None = None  # what happened in the case that failed
    pictures: Sequence["Picture"] = ()

    def said(self) -> str:
        """Return the verdict in one line, for a screen reader."""
        return " ".join([self.bold, *self.sentences]).replace("`", "").replace("\n", " ")


def verdict_box(verdict: Verdict) -> str:
    """Return a verdict: its cases as a table, its pictures, then its sentences with the first one in bold."""
    drawn = "".join(f'<div class="fl-drawn">{picture.svg()}</div>' for picture in verdict.pictures)
    lines = "".join(_line(sentence) for sentence in verdict.sentences)
    box = f'<div class="fl-verdict {_STATES[verdict.state]}"><b>{marked(verdict.bold)}</b>{lines}</div>'
    traced = traced_box(verdict.trace) if verdict.trace else ""
    return _cases(verdict.cases) + traced + box + drawn


def _cases(cases: Sequence[Case]) -> str:
    """Return the parts of an answer as a table; a part that failed has the call that is wrong beside its name."""
    if not cases:
        return ""
    with_points = any(case.points for case in cases)
    words = text("card.cases" if with_points else "card.tried").split("|")
    head = '<th scope="col"></th>'
    for place, word in enumerate(words):
        kind = ' class="fl-number"' if place else ""
        head += f'<th scope="col"{kind}>{html.escape(word)}</th>'
    rows = []
    for case in cases:
        sign = _sign(case.right)
        failed = "" if case.right else ' class="fl-failed"'
        calls = f" <code>{html.escape(case.call)}</code>" if case.call else ""
        name = html.escape(case.name)
        later = case.got and not case.wanted  # the right value comes with the next try
        wanted = text("card.later") if later else case.wanted
        cells = [case.got, wanted, *([case.points] if with_points else [])]
        numbers = ""
        for place, cell in enumerate(cells):
            kind = "fl-number fl-later" if later and place == 1 else "fl-number"
            numbers += f'<td class="{kind}">{html.escape(cell)}</td>'
        rows.append(f"<tr{failed}><td>{sign}</td><td>{name}{calls}</td>{numbers}</tr>")
    return f'<table class="fl-cases"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def traced_box(trace: Trace) -> str:
    """Return what happened in a case that failed: a small table with its wrong cells marked, and where to look."""
    head = "".join(f'<th scope="col">{html.escape(word)}</th>' for word in trace.head)
    rows = []
    for place, (name, *cells) in enumerate(trace.rows):
        row = f'<th scope="row">{html.escape(name)}</th>'
        for column, cell in enumerate(cells, 1):
            if (place, column) in trace.wrong:
                row += f'<td class="fl-amiss">{html.escape(cell)} {_sign(False)}</td>'
            else:
                row += f"<td>{html.escape(cell)}</td>"
        rows.append(f"<tr>{row}</tr>")
    table = ""
    if rows:
        table = f"<div><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    lines = "".join(_line(sentence) for sentence in (trace.said, trace.look) if sentence)
    return f'<div class="fl-trace">{table}{lines}</div>' if table or lines else ""


def _sign(right: bool) -> str:
    """Return the sign of what is right or wrong, with its word for a screen reader."""
    kind = "fl-good" if right else "fl-bad"
    word = text("word.right" if right else "word.wrong")
    return f'<i class="{kind}" role="img" aria-label="{html.escape(word)}">{_SIGNS[right]}</i>'


# Questions ---------------------------------------------------------------------------------------


def question(
    name: str,
    note: str,
    asked: str,
    answer: str,
    *,
    verdict: Verdict | None = None,
    type_in: str = "",
    below: str = "",
) -> str:
    """Return the body of a question's card.

    Parameters
    ----------
    name, note : str
        The small line: name of the question, and for example the tolerance.
    asked : str
        The question.
    answer : str
        HTML of what the answer is given with: `choices` or `number`; empty for code.
    verdict : Verdict, optional
        What is said about the last answer.
    type_in : str
        A sentence with the line to type instead.
    below : str
        HTML below the verdict, such as a button that goes on.
    """
    judged = verdict_box(verdict) if verdict else ""
    typed = f'<p class="fl-type">{marked(type_in)}</p>' if type_in else ""
    return f'<div class="fl-body">{_top(name, note, asked)}{answer}{judged}{typed}{below}</div>'


def choices(options: Mapping[str, str], marks: Mapping[str, bool], *, still: bool) -> str:
    """Return options by letter as buttons of the full width; ``marks`` has those that were chosen."""
    solved = any(marks.values())
    items = []
    for letter, option in options.items():
        kinds = ["fl-option"]
        mark = '<i aria-hidden="true"></i>'
        if letter in marks:
            kinds.append("fl-hit" if marks[letter] else "fl-missed")
            mark = _sign(marks[letter])
        elif solved:
            kinds.append("fl-dim")
        inner = f"<kbd>{letter}</kbd><span>{marked(option)}</span>{mark}"
        look = " ".join(kinds)
        if still:
            items.append(f'<li><div class="{look}">{inner}</div></li>')
        else:
            shut = " disabled" if solved or letter in marks else ""
            items.append(
                f'<li><button type="button" class="{look}" data-press="{letter}"{shut}>{inner}</button></li>'
            )
    return f'<ol class="fl-options">{"".join(items)}</ol>'


def number(unit: str, typed: str, *, still: bool) -> str:
    """Return a field for a number with its unit and a button; without a kernel only what was typed."""
    unit_shown = f"<span>{html.escape(unit_words(unit))}</span>" if unit else ""
    if still:
        told = html.escape(text("card.yours", answer=typed))
        return f"<p>{told}</p>" if typed else ""
    answer_in = text("card.answer_in", unit=unit_words(unit)) if unit else text("card.answer")
    label = html.escape(answer_in)
    check = press_button("check", text("card.check"), "fl-main")
    return (
        f'<div class="fl-row"><input class="fl-field" name="answer" data-enter="check" inputmode="decimal"'
        f' autocomplete="off" aria-label="{label}" value="{html.escape(typed)}">{unit_shown}'
        f"{check}</div>"
    )


def press_button(name: str, label: str, look: str = "") -> str:
    """Return a button that the page tells Python about."""
    return f'<button type="button" class="fl-press {look}" data-press="{name}">{html.escape(label)}</button>'


# Guesses -----------------------------------------------------------------------------------------


class Guess(NamedTuple):
    """A guess with its range, each in the unit of its ruler; what has not been set is None."""

    low: float | None = None
    value: float | None = None
    high: float | None = None


def short(value: float) -> str:
    """Write a number with at most three digits and without zeros at its end, as people type it."""
    return f"{float(f'{value:.3g}'):.10g}" if 1e-6 <= value < 1e9 else f"{value:.3g}"


def _part(value: float, ends: tuple[float, float]) -> float:
    """Return where a value is on a ruler, from 0 at its lower end to 1; beyond an end, the end.

    A ruler is logarithmic, or linear if it begins at 0.
    """
    lowest, highest = ends
    if lowest == 0:
        return min(max(value / highest, 0.0), 1.0)
    return min(max(math.log(value / lowest) / math.log(highest / lowest), 0.0), 1.0)


def _at(part: float) -> str:
    """Return the place of a part of a ruler as CSS."""
    return f"left:{100 * part:.2f}%"


def ruler(
    ends: tuple[float, float],
    unit: str,
    guess: Guess,
    *,
    truth: float | None = None,
    still: bool = True,
) -> str:
    """Return a guess on a ruler, which is logarithmic unless it begins at 0, with the truth if it is known.

    On a live card each of the three numbers has a handle that can be moved; without a guess they are hidden.
    """
    values = guess._asdict()
    parts = {name: 0.0 if v is None else _part(v, ends) for name, v in values.items()}
    marks = []
    band = None not in (guess.low, guess.high)
    if band or not still:
        shown = "" if band else " hidden"
        width = 100 * (parts["high"] - parts["low"])
        marks.append(
            f'<div class="fl-band" style="{_at(parts["low"])};width:{width:.2f}%"{shown}></div>'
        )
    if still:
        marks += _still_marks(parts, guess, truth, ends, unit)
    else:
        for name, value in values.items():
            marks.append(_handle(name, value, parts[name], ends, unit))
        marks.append('<b class="fl-label" aria-hidden="true" hidden></b>')
        marks.append(f'<span class="fl-hint">{html.escape(text("card.click"))}</span>')

    lowest, highest = ends
    told = text("card.ruler", low=short(lowest), high=short(highest), unit=_unit(unit)).strip()
    role = "group"
    if still:
        role = "img"
        told = _told(guess, unit, truth) or told
    high = " fl-high" if truth is not None and guess.value is not None else ""
    return (
        f'<div class="fl-ruler{high}" role="{role}" aria-label="{html.escape(told)}"'
        f' data-low="{lowest!r}" data-high="{highest!r}" data-unit="{html.escape(_unit(unit))}">'
        f"{_axis(ends, unit)}{''.join(marks)}</div>"
    )


def _unit(unit: str) -> str:
    """Return a unit as it stands after a number: nothing for a plain number."""
    return "" if unit == "1" else unit_words(unit)


def _with_unit(value: float, unit: str) -> str:
    """Write a number with its unit, as people type it."""
    return localised(f"{short(value)} {_unit(unit)}".strip())


def _told(guess: Guess, unit: str, truth: float | None) -> str:
    """Return what a ruler shows, for a screen reader."""
    words = []
    if guess.value is not None:
        words.append(text("card.you", value=_with_unit(guess.value, unit)))
    if guess.low is not None and guess.high is not None:
        words.append(text("card.range", low=short(guess.low), high=short(guess.high)))
    if truth is not None:
        words.append(text("card.truth", value=f"{digits(truth)} {_unit(unit)}".strip()))
    return ", ".join(words)


def _handle(
    name: str, value: float | None, part: float, ends: tuple[float, float], unit: str
) -> str:
    """Return a handle of a live ruler, which is hidden while its number is not set."""
    look = "fl-best" if name == "value" else "fl-grip"
    label = html.escape(text(f"form.{name}"))
    lowest, highest = ends
    shown = " hidden"
    told = ""
    if value is not None:
        shown = ""
        said = html.escape(_with_unit(value, unit))
        told = f' aria-valuenow="{value!r}" aria-valuetext="{said}"'
    return (
        f'<span class="fl-hand {look}" role="slider" tabindex="0" data-hand="{name}" aria-label="{label}"'
        f' aria-valuemin="{lowest!r}" aria-valuemax="{highest!r}"{told} style="{_at(part)}"{shown}></span>'
    )


def _still_marks(
    parts: Mapping[str, float],
    guess: Guess,
    truth: float | None,
    ends: tuple[float, float],
    unit: str,
) -> list[str]:
    """Return dot and diamond with their numbers; where these would touch, that of the truth stands higher."""
    marks = []
    there = None if truth is None else _part(truth, ends)
    if guess.value is not None:
        here = parts["value"]
        if there is not None:
            left, right = sorted((here, there))
            marks.append(
                f'<span class="fl-gap fl-late" style="{_at(left)};width:{100 * (right - left):.2f}%"></span>'
            )
        marks.append(f'<span class="fl-hand fl-best" style="{_at(here)}"></span>')
        said = text("card.you", value=_with_unit(guess.value, unit))
        marks.append(_label(said, here))
    if truth is not None and there is not None:
        marks.append(f'<span class="fl-hand fl-truth" style="{_at(there)}"></span>')
        over = guess.value is not None and abs(there - parts["value"]) < _NEAR
        look = " fl-late fl-over" if over else " fl-late"
        said = text("card.truth", value=f"{digits(truth)} {_unit(unit)}".strip())
        marks.append(_label(said, there, look))
    return marks


def _label(words: str, part: float, look: str = "") -> str:
    """Return a label over a place of a ruler; the nearer an end, the more of it stands on the inner side."""
    place = f"{_at(part)};transform:translateX(-{100 * part:.0f}%)"
    return f'<b class="fl-label{look}" aria-hidden="true" style="{place}">{html.escape(words)}</b>'


def _axis(ends: tuple[float, float], unit: str) -> str:
    """Return the axis of a ruler: a tick and a number at each power of ten, with the unit at the last one.

    A linear ruler has them at each fifth, and small ticks at each twentieth.
    """
    lowest, highest = ends
    if lowest == 0:
        return _axis_of(
            [highest * i / 5 for i in range(6)], [highest * i / 20 for i in range(21)], ends, unit
        )
    first = math.ceil(math.log10(lowest) - 1e-9)
    last = math.floor(math.log10(highest) + 1e-9)
    places = [10.0**power for power in range(first, last + 1)]
    if len(places) < 2:
        places = [lowest, highest]
    ticks = []
    if len(places) <= _MOST_DECADES + 1:
        for power in range(first - 1, last + 1):
            ticks += [digit * 10.0**power for digit in range(2, 10)]
    return _axis_of(places, ticks, ends, unit)


def _axis_of(
    places: Sequence[float], ticks: Sequence[float], ends: tuple[float, float], unit: str
) -> str:
    """Return an axis with ticks and numbers at some places, and with small ticks at others."""
    lowest, highest = ends
    every = math.ceil(len(places) / _MOST_LABELS)
    words = []
    for place in places:
        words.append(f'<i class="fl-power" style="{_at(_part(place, ends))}"></i>')
    small = []
    for tick in ticks:
        if lowest <= tick <= highest:
            small.append(f'<i style="{_at(_part(tick, ends))}"></i>')
    for count, place in enumerate(places[::-1][::every]):
        part = _part(place, ends)
        label = tick_words(place) if count else f"{tick_words(place)} {_unit(unit)}".strip()
        label = localised(label)
        kinds = ["fl-second"] if count % 2 else []  # left out where a card is narrow
        if part > 1 - _ENDS:
            kinds.append("fl-to")
        elif part < _ENDS / 5:
            kinds.append("fl-from")
        look = " ".join(kinds)
        words.append(f'<span class="{look}" style="{_at(part)}">{html.escape(label)}</span>')
    return f'<div class="fl-axis" aria-hidden="true">{"".join(small + words)}</div>'


def fields(typed: Mapping[str, str]) -> str:
    """Return the three fields of a guess with its two buttons."""
    boxes = []
    for name in ("low", "value", "high"):
        label = html.escape(text(f"form.{name}"))
        written = html.escape(localised(typed.get(name, "")))
        boxes.append(
            f'<label>{label}<input class="fl-field" name="{name}" data-read inputmode="decimal"'
            f' autocomplete="off" value="{written}"></label>'
        )
    row = press_button("pass", text("form.no_idea"), "fl-quiet")
    row += press_button("store", text("form.commit"), "fl-main")
    return f'<div class="fl-three">{"".join(boxes)}<span class="fl-end">{row}</span></div>'


def asked_guess(name: str, note: str, asked: str, inner: str) -> str:
    """Return the body of a card about a guess: small line, question or finding, and what belongs to it."""
    return f'<div class="fl-body">{_top(name, note, asked)}{inner}</div>'


def sentences(lines: Iterable[str]) -> str:
    """Return sentences in secondary type."""
    return "".join(f'<p class="fl-type">{marked(line)}</p>' for line in lines if line)


# The end of a lesson -----------------------------------------------------------------------------


_BROKEN = 3.0  # times the next shorter bar from which on bars are broken, so that the others can be told apart
_LONGEST = 75  # of a bar [% of its column], which leaves room for its number


class Bar(NamedTuple):
    """A bar with its name and its number in words; ``now`` is the one that matters here."""

    name: str
    value: float
    shown: str
    now: bool = False


def ending(small: str, headline: str, contrast: str) -> str:
    """Return the head of the last card of a lesson."""
    tag = f'<div class="fl-tag"><b>{html.escape(small)}</b></div>'
    soft = f"<p>{marked(contrast)}</p>" if contrast else ""
    return f'<div class="fl-end-head">{tag}<h2>{html.escape(headline)}</h2>{soft}</div>'


def columns(left: Sequence[str], right: Sequence[str], below: str = "") -> str:
    """Return two columns of parts, of which one that would be empty is left out, and a part below them."""
    parts = [
        f'<div class="fl-column">{"".join(column)}</div>' for column in (left, right) if column
    ]
    beside = f'<div class="fl-columns">{"".join(parts)}</div>' if parts else ""
    return beside + (f'<div class="fl-below">{below}</div>' if below else "")


def headed(heading: str, more: str, inner: str) -> str:
    """Return a part of the last card under its heading."""
    soft = f" <em>{html.escape(more)}</em>" if more else ""
    return f"<h3>{html.escape(heading)}{soft}</h3>{inner}"


def longest_whole(values: Sequence[float]) -> float:
    """Return the longest of some bars that is drawn whole.

    Those that are longer are broken: there, one bar is three times as long as the next, and at least two bars of
    different lengths are below it, which could not be told apart beside it.

    Examples
    --------
    >>> longest_whole([4.41, 93.5, 9.47, 4.60]), longest_whole([0.70, 89.6])
    (9.47, 89.6)
    """
    ordered = sorted(set(values))
    for shorter, longer in itertools.pairwise(ordered):
        if longer >= _BROKEN * shorter and shorter > ordered[0]:
            return shorter
    return ordered[-1]


def bars(rows: Sequence[Bar], line: Bar | None = None) -> str:
    """Return bars on one scale that begins at zero, with their names and numbers.

    Bars much longer than the others are drawn as long as there is room, with a break in them. ``line`` is a value that
    is marked in all rows, such as the one that the others are compared with.
    """
    whole = longest_whole([row.value for row in rows])
    longest = max(whole, line.value) if line else whole
    mark = ""
    below = []
    if line:
        mark = f'<s style="left:{_LONGEST * line.value / longest:.1f}%"></s>'
        below.append(text("card.line", value=line.shown, name=line.name))
    if any(row.value > whole for row in rows):
        below.append(text("card.broken"))
    cells = []
    for row in rows:
        kind = ' class="fl-now"' if row.now else ""
        look = ' class="fl-broken"' if row.value > whole else ""
        width = f"width:{_LONGEST * min(row.value / longest, 1.0):.1f}%"
        bar = f'<i{look} style="{width}"></i>{mark}<b>{html.escape(localised(row.shown))}</b>'
        cells.append(f"<span{kind}>{html.escape(row.name)}</span><div{kind}>{bar}</div>")
    told = sentences([" ".join(below)])
    return f'<div class="fl-bars">{"".join(cells)}</div>{told}'


def ticks(done: Sequence[tuple[str, bool, str]], *, wide: bool = False) -> str:
    """Return a list of (name, whether it is done, what to type): done ones have a tick, open ones a circle.

    ``wide`` writes it in two columns where there is room.
    """
    items = []
    for name, right, call in done:
        sign = (
            _sign(True) if right else f'<i role="img" aria-label="{text("word.open")}">\u25cb</i>'
        )
        more = f" <em><code>{html.escape(call)}</code></em>" if call else ""
        name = name[:1].upper() + name[1:]
        items.append(f"<li>{sign}<span>{html.escape(name)}{more}</span></li>")
    look = "fl-ticks fl-wide" if wide else "fl-ticks"
    return f'<ul class="{look}">{"".join(items)}</ul>'


def found(rows: Iterable[tuple[str, str]]) -> str:
    """Return findings, each with what was guessed."""
    items = [
        f"<div>{html.escape(finding)} <em>{html.escape(said)}</em></div>" for finding, said in rows
    ]
    return f'<div class="fl-found">{"".join(items)}</div>'


def buttons(links: Sequence[tuple[str, str]]) -> str:
    """Return links (words, address) as buttons; the first is the main one."""
    out = []
    for place, (words, address) in enumerate(links):
        look = "" if place else " fl-main"
        out.append(
            f'<a class="fl-press{look}" href="{html.escape(address)}">{html.escape(words)}</a>'
        )
    return "".join(out)


def footer(inner: str, following: str, end: str) -> str:
    """Return the footer of the last card: buttons, what follows in words, and a sentence at its end."""
    if following:
        inner += f"<b>{html.escape(following)}</b>"
    return f'<div class="fl-foot">{inner}<span class="fl-end">{marked(end)}</span></div>'


def folded(words: str, inner: str) -> str:
    """Return what unfolds below the last card."""
    return f"<details><summary>{html.escape(words)}</summary><div>{inner}</div></details>"
