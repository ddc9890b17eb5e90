"""Lists of trials: one record per line, with the hosts that took part and one figure."""

from __future__ import annotations

import csv
import json
import re
from typing import Any, NamedTuple

from fabriclab.diagnosis.tables import rate_in
from fabriclab.importers.lines import Line, Source, unprefixed

__all__ = ["Trial", "read_trials"]

_LEAST = 4  # records; fewer do not tell hosts apart
_MOST = 100_000  # records that are kept
_BEFORE = 1_000  # lines without a record, after which a text is taken for another one
_HOSTS_KEY = re.compile(
    r"^(?:nodes?|hosts?|host_?names?|node_?list|host_?list|machines?|servers?)$", re.I
)
_RATE_KEY = re.compile(
    r"bus_?bw|alg_?bw|^bw|_bw$|bandwidth|gbps|gb/s|gb_s|through_?put|tflops|tokens|samples|^rate$",
    re.I,
)
_TIME_KEY = re.compile(r"time|seconds|duration|latency|elapsed|_(?:s|ms|us)$", re.I)
_STAMP = re.compile(r"stamp|^ts$|date|^time$|start|^end", re.I)  # when, and not how long
_HOST = re.compile(r"^[A-Za-z][\w.\-]*\d[\w.\-]*$|^\d+\.\d+\.\d+\.\d+$")
_HOST_SPLIT = re.compile(r"[\s,;+|\"'\[\]()]+")


class Trial(NamedTuple):
    """A trial: the hosts that took part, a figure that is larger the faster it was, as printed, and its line."""

    hosts: frozenset[str]
    speed: float
    printed: str
    line: Line


def read_trials(source: Source) -> list[Trial]:
    """Return the records of a list of trials: JSON with an object per line, or a table with a heading.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    found: list[Trial] = []
    columns: tuple[str, int, int, str] | None = None
    for place, line in enumerate(source.lines):
        if (place > _BEFORE and not found) or len(found) >= _MOST:
            break
        text = unprefixed(line.text).strip().lstrip("#").strip()
        if text.startswith("{"):
            trial = _of_json(text, line)
        else:
            head = _heading(text)
            if head:
                columns = head
                continue
            trial = _of_row(text, line, columns) if columns else None
        if trial:
            found.append(trial)
    several = len({trial.hosts for trial in found}) > 1
    return found if len(found) >= _LEAST and several else []


def _of_json(text: str, line: Line) -> Trial | None:
    """Return the trial of a line with a JSON object; None if it is none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    hosts = frozenset[str]()
    for key, value in record.items():
        hosts = hosts or _hosts_in(
            value if _HOSTS_KEY.match(key) or isinstance(value, list) else ""
        )
    try:
        figures = {key: float(value) for key, value in record.items() if _is_number(value)}
    except OverflowError:  # a number of hundreds of figures
        return None
    return _trial(hosts, figures, line)


def _is_number(value: Any) -> bool:
    """Return whether a value of JSON is a number, and neither true nor false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _hosts_in(value: Any) -> frozenset[str]:
    """Return the hosts in a list or a text; none if something in it is no host, or only one is."""
    parts = value if isinstance(value, list) else _HOST_SPLIT.split(str(value))
    names = [part for part in parts if part != ""]
    if len(names) < 2 or not all(isinstance(name, str) and _HOST.match(name) for name in names):
        return frozenset()
    return frozenset(names)


def _trial(hosts: frozenset[str], figures: dict[str, float], line: Line) -> Trial | None:
    """Return a trial of its hosts and its figures by name; None without hosts, or without a figure of its speed."""
    if not hosts:
        return None
    for key, value in figures.items():
        if _RATE_KEY.search(key) and value > 0:
            return Trial(hosts, value, f"{key} {value:g}", line)
    for key, value in figures.items():
        if _TIME_KEY.search(key) and not _STAMP.search(key) and value > 0:
            return Trial(hosts, 1 / value, f"{key} {value:g}", line)
    return None


def _cells(text: str, separator: str) -> list[str]:
    """Return the cells of a row; an empty separator stands for two spaces or more."""
    if separator == ",":
        try:
            return [cell.strip() for cell in next(csv.reader([text]), [])]
        except csv.Error:
            return []
    cells = text.strip("| ").split(separator) if separator else re.split(r"\s{2,}", text)
    return [cell.strip() for cell in cells]


def _heading(text: str) -> tuple[str, int, int, str] | None:
    """Return separator, place of the hosts, place of the figure and its name if a line is a heading; None otherwise."""
    for separator in ("\t", "|", ",", ""):
        if separator and separator not in text:
            continue
        cells = _cells(text, separator)
        hosts = [place for place, cell in enumerate(cells) if _HOSTS_KEY.match(cell)]
        rates = [place for place, cell in enumerate(cells) if _RATE_KEY.search(cell)]
        times = [
            place
            for place, cell in enumerate(cells)
            if _TIME_KEY.search(cell) and not _STAMP.search(cell)
        ]
        figure = [place for place in (*rates, *times) if place not in hosts]
        if hosts and figure:
            return separator, hosts[0], figure[0], cells[figure[0]]
    return None


def _of_row(text: str, line: Line, columns: tuple[str, int, int, str]) -> Trial | None:
    """Return the trial of a row of a table; None if the line is no such row."""
    separator, hosts, figure, name = columns
    try:
        cells = _cells(text, separator)
        printed = cells[figure].split()[0]
        speed = rate_in(printed)
        trial = None if speed is None else _trial(_hosts_in(cells[hosts]), {name: speed}, line)
    except IndexError:
        return None
    return trial and trial._replace(printed=f"{name} {printed}")
