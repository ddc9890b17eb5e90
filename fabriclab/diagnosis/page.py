"""The page of a diagnosis: as text for a terminal, as a card for a notebook, as a file of its own."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fabriclab import units
from fabriclab.core import as_html, as_text
from fabriclab.diagnosis.comparison import figure
from fabriclab.diagnosis.ranking import HEALTHY, Suspect
from fabriclab.diagnosis.suspicion import cause_words
from fabriclab.texts import text

if TYPE_CHECKING:
    from fabriclab.diagnosis.comparison import Comparison
    from fabriclab.diagnosis.findings import Findings
    from fabriclab.views import Picture

__all__ = ["as_card", "as_file", "as_page", "pictures"]

_SHOWN = 5  # suspects on the page
_ROWS = 8  # sizes of a comparison on the page
_EVIDENCE = 300  # characters of a line that are quoted
_BAR = 30  # characters of the longest bar
# Words for how sure we are, from the surest down.
_SURE = ((0.85, "doctor.sure.shown"), (0.65, "doctor.sure.likely"), (0.4, "doctor.sure.possible"))
_DIGITS = 3  # of a rate in a sentence
_MOST_DIGITS = 7  # the same, for a rate that is nearly the end of its band
_GAIN = 1.1  # times; less is not worth a promise
_GB = 1e9
# The names of facts stand in a column beside the facts; the doubled class outweighs the rules of a notebook.
_STYLE = (
    "<style>.fl-doctor{max-width:1100px}.fl-doctor>details{margin-top:12px}"
    ".fl-doctor dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 20px;margin:8px 0 0 18px}"
    ".fl-doctor.fl-doctor dt,.fl-doctor.fl-doctor dd{float:none;width:auto;margin:0;padding:0}"
    ".fl-doctor.fl-doctor dt{font-weight:600}"
    ".fl-doctor dd code{white-space:pre-wrap;overflow-wrap:anywhere}</style>"
)


def as_page(diagnosis: Findings) -> str:
    """Return the page as text of about 100 columns.

    Parameters
    ----------
    diagnosis : Findings
        What `doctor` found.
    """
    parts = [_title(diagnosis), ""]
    parts += [text("doctor.read"), as_text(_read(diagnosis))]
    parts += [f"  {skipped}" for skipped in left_out(diagnosis)]
    for comparison in diagnosis.comparisons:
        parts += ["", *_comparison_lines(comparison)]
    if diagnosis.suspects:
        parts += ["", text("doctor.suspects")]
    else:
        parts += ["", *no_suspect(diagnosis)]
    for number, suspect in enumerate(diagnosis.suspects[:_SHOWN], 1):
        parts += _suspect_lines(number, suspect, diagnosis)
    parts += ["", text("doctor.limits")]
    return "\n".join(parts)


def _title(diagnosis: Findings) -> str:
    """Return the heading of the page."""
    many = len(diagnosis.case.understood)
    return text("doctor.title_one" if many == 1 else "doctor.title", n=many)


def left_out(diagnosis: Findings) -> list[str]:
    """Return what was not read or not understood, in sentences."""
    shown = {suspect.where.file for suspect in diagnosis.suspects if suspect.where}
    found = list(diagnosis.case.skipped)
    empty = {each.file for each in diagnosis.case.understood if not each.lines}
    for name in diagnosis.case.headless:
        found.append(text("doctor.headless", name=name))
    for name in diagnosis.case.unread:
        if name in empty:
            found.append(text("doctor.empty", name=name))
        elif name not in shown and name not in diagnosis.case.headless:
            found.append(text("doctor.unread", name=name))
    spark = diagnosis.case.unified_memory
    outside = diagnosis.case.log.outside_channels
    if spark and outside and not any(channel.gdr for channel in outside):
        found.append(text("doctor.unified", line=f"{spark.file}:{spark.number}"))
    for line in diagnosis.case.no_rows:
        found.append(text("doctor.no_row", line=f"{line.file}:{line.number}"))
    return found


def no_suspect(diagnosis: Findings) -> list[str]:
    """Return what to say if there is no suspect: whether the run is slow, and which files would tell more."""
    below = [each for each in diagnosis.comparisons if each.below]
    lines = [text("doctor.none")]
    if any(each.healthy is False for each in below):
        lines = [text("doctor.slow")]
    elif below:
        lines = [text("doctor.below_band"), text("doctor.below_band_means")]
    elif diagnosis.case.end_unknown:
        lines = [text("doctor.cannot_tell")]
    missing = []
    if not diagnosis.case.log.messages:
        missing.append("NCCL_DEBUG=INFO")
    if not diagnosis.case.topologies:
        missing.append("nvidia-smi topo -m")
    if not diagnosis.case.ports:
        missing.append("ibstat, ibv_devinfo")
    if not diagnosis.case.tables and not diagnosis.case.no_rows:
        missing.append("nccl-tests")
    if missing:
        lines.append(text("doctor.more", files=", ".join(missing)))
    return lines


def _read(diagnosis: Findings) -> list[tuple[str, str, str]]:
    """Return what was understood of each file, as rows."""
    rows = []
    for each in diagnosis.case.understood:
        rows.append((f"  {each.file}", text("doctor.lines", n=each.lines), each.words))
    return rows


def _comparison_lines(comparison: Comparison) -> list[str]:
    """Return a comparison as a heading and a table with bars."""
    table = comparison.table
    what = table.collective.replace("_", "-") or text("doctor.bandwidth")
    heading = text("doctor.measured", what=what, file=table.name)
    if not comparison.rows:
        said = text("doctor.reached", rate=figure(table.peak))
        because = text("doctor.unknown")
        if comparison.by.startswith("no "):  # why there is no model
            because = comparison.by
        elif comparison.by:
            because = text("doctor.fits" if comparison.healthy else "doctor.held", by=comparison.by)
        return [heading, f"  {said} {because}"]
    largest = max(max(row.measured, row.expected) for row in comparison.rows)
    rows = [("  " + text("doctor.size"), *text("doctor.columns").split("|"), "")]
    for row in comparison.rows[-_ROWS:]:
        bar = "=" * max(1, round(_BAR * row.measured / largest)) if row.measured > 0 else ""
        lacks = round(_BAR * row.expected / largest) - len(bar)
        rows.append(
            (
                f"  {units.format_size(row.size)}",
                figure(row.measured),
                figure(row.expected),
                f"{figure(row.low)} to {figure(row.high)}",
                bar + "." * max(0, lacks),
            )
        )
    lines = [heading, as_text(rows), *(f"  {words}" for words in verdict(comparison))]
    lines.append("  " + text("doctor.by", by=comparison.by))
    if comparison.binds and comparison.healthy is not False:
        lines.append("  " + text("doctor.binds", binds=comparison.binds))
    if comparison.note:
        lines.append("  " + text("doctor.note", note=comparison.note))
    return lines


def verdict(comparison: Comparison) -> list[str]:
    """Return in sentences where the measured rates lie: the largest size in its band or not, and which sizes below.

    Parameters
    ----------
    comparison : Comparison
        A comparison that has rows.
    """
    if not comparison.rows:
        return []
    last = comparison.rows[-1]
    digits = _DIGITS
    while digits < _MOST_DIGITS and figure(last.measured, digits) == figure(last.low, digits):
        digits += 1  # a rate just below its band must not read as if it were the end of the band
    words = {
        "size": units.format_size(last.size),
        "rate": figure(last.measured, digits),
        "low": figure(last.low, digits),
        "high": figure(last.high, digits),
    }
    found = [text(f"doctor.verdict.{last.state}", **words)]
    if comparison.below:
        part = f"{math.floor(100 * last.measured / last.low)} %"  # 99.6 % is not all of it
        found[0] += " " + text(f"doctor.verdict.{comparison.near or 'slow'}", part=part)
    short = comparison.short
    if short and len(comparison.rows) > 1:
        found.append(
            text(
                "doctor.verdict.short",
                n=len(short),
                of=len(comparison.rows),
                first=units.format_size(short[0].size),
                last=units.format_size(short[-1].size),
            )
        )
    return found


def _suspect_lines(number: int, suspect: Suspect, diagnosis: Findings) -> list[str]:
    """Return a suspect as lines of text."""
    sure = text(sureness(suspect.sure))
    lines = [f"{number}. {suspect.title} ({suspect.cause_id}): {sure}"]
    for key, words in suspect_facts(suspect, diagnosis):
        lines.append(f"   {text(key)}: {words}")
    return lines


def suspect_facts(suspect: Suspect, diagnosis: Findings) -> list[tuple[str, str]]:
    """Return what the page says of a suspect, as pairs of the key of a heading and words."""
    facts = []
    if suspect.where:
        facts.append(("doctor.seen", str(suspect.where)[:_EVIDENCE]))
    if suspect.why:
        facts.append(("doctor.why", suspect.why))
    because = "doctor.means" if suspect.cause_id == HEALTHY else "doctor.because"
    facts.append((because, cause_words(suspect.cause_id, "because")))
    facts.append(("doctor.action", suspect.action))
    setting = suspect.typed
    if setting:
        facts.append(("doctor.setting", setting))
    slow = [each for each in diagnosis.comparisons if each.healthy is False]
    if suspect.gain > _GAIN and slow:
        size = units.format_size(slow[0].rows[-1].size)
        words = text("doctor.gain", gain=figure(suspect.gain, 2), size=size, by=slow[0].by)
        facts.append(("doctor.gains", words))
    return facts


def sureness(sure: float) -> str:
    """Return the key of the words for how sure we are."""
    for least, key in _SURE:
        if sure >= least:
            return key
    return "doctor.sure.weak"


def pictures(diagnosis: Findings) -> list[Picture]:
    """Return measured against expected, a picture for each table that has both.

    Parameters
    ----------
    diagnosis : Findings
        What `doctor` found.
    """
    from fabriclab.views import sweep
    from fabriclab.views.rulers import band

    found = []
    for comparison in diagnosis.comparisons:
        both = comparison.results()
        if not both:
            continue
        measured, expected = both
        file, by = comparison.table.name, comparison.by
        if measured.size.size == 1:
            picture = band(measured, expected, finding=_finding(comparison))
            caption = text("doctor.caption", file=file, by=by)
        else:
            results = {"measured": measured, "expected": expected}
            picture = sweep(results, y="busbw", finding=_finding(comparison))
            caption = text("doctor.caption_bars", file=file, by=by)
        found.append(replace(picture, caption=caption))
    return found


def _finding(comparison: Comparison) -> str:
    """Return in a sentence how the largest size compares with what is expected."""
    from fabriclab.views.page import plain

    row = [row for row in comparison.rows if row.measured > 0][-1]
    size = units.format_size(row.size)
    rate = plain(units.format_rate(_GB * row.measured))
    if row.state == "within":
        return text("doctor.within", size=size, rate=rate)
    ratio = row.expected / row.measured
    key = "doctor.below" if row.state == "below" else "doctor.above"
    times = ratio if row.state == "below" else 1 / ratio
    return text(key, size=size, rate=rate, times=figure(times, 2))


def as_card(diagnosis: Findings) -> str:
    """Return the page as HTML for a notebook.

    Parameters
    ----------
    diagnosis : Findings
        What `doctor` found.
    """
    parts = [f'<div class="fl-doctor">{_STYLE}']
    head = [("", *text("doctor.read_columns").split("|"))]
    files = [(name.strip(), lines, words) for name, lines, words in _read(diagnosis)]
    shown: Sequence[Suspect] = diagnosis.suspects[:_SHOWN]
    if shown:
        first = shown[0]
        sure = text(sureness(first.sure))
        sure = html.escape(f"{sure[:1].upper()}{sure[1:]}.")
        parts.append(f"<p><b>{html.escape(first.title)}.</b> {sure}</p>")
    else:
        first_words = html.escape(no_suspect(diagnosis)[0])
        parts.append(f"<p><b>{first_words}</b></p>")
    for picture in pictures(diagnosis):
        parts.append(picture._repr_mimebundle_()["text/html"])
    for comparison in diagnosis.comparisons:
        parts += [f"<p>{html.escape(words)}</p>" for words in verdict(comparison)]
    for number, suspect in enumerate(shown, 1):
        opened = " open" if number == 1 else ""
        title = f"{number}. {suspect.title} ({text(sureness(suspect.sure))})"
        facts = []
        for key, words in suspect_facts(suspect, diagnosis):
            tag = "code" if key in ("doctor.seen", "doctor.setting") else "span"
            facts.append(f"<dt>{html.escape(text(key))}<dd><{tag}>{html.escape(words)}</{tag}>")
        parts.append(
            f"<details{opened}><summary>{html.escape(title)}</summary><dl>{''.join(facts)}</dl></details>"
        )
    skipped = "".join(f"<p>{html.escape(words)}</p>" for words in left_out(diagnosis))
    table = as_html([head[0][1:], *files], text("doctor.read"))
    if not shown:
        parts += [f"<p>{html.escape(words)}</p>" for words in no_suspect(diagnosis)[1:]]
    parts.append(f"<details><summary>{text('doctor.read')}</summary>{table}{skipped}</details>")
    parts.append(f"<p><small>{html.escape(text('doctor.limits'))}</small></p></div>")
    return "".join(parts)


def as_file(diagnosis: Findings) -> str:
    """Return the page as an HTML file of its own, which loads nothing from elsewhere.

    Parameters
    ----------
    diagnosis : Findings
        What `doctor` found.
    """
    title = html.escape(_title(diagnosis))
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:900px;margin:2rem auto;padding:0 1rem}"
        "code{white-space:pre-wrap;overflow-wrap:anywhere}"
        "summary{cursor:pointer;font-weight:600;margin:.6rem 0}td,th{text-align:left;padding:.1rem .8rem .1rem 0}"
        "@media (prefers-color-scheme:dark){body{background:#16181d;color:#e6e6e6}}"
    )
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    view = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    return f"{head}{view}<style>{style}</style><h1>{title}</h1>{as_card(diagnosis)}</html>\n"
