r"""Read counters that tools print, and say which lines were understood, which were skipped, and why.

Logs of counters are torn: two programs write into one file, a line ends in the middle, a counter has a name that only
one vendor knows. `read_counters` reads what ``perfquery``, ``ethtool -S`` and exporters for Prometheus print, in any
mixture; `read_telemetry` reads the lines of a series over time. Neither refuses a file for one bad line, and neither
skips one in silence.

Examples
--------
>>> print(read_counters("# Port counters: Lid 5 port 1\nSymbolErrorCounter:....1542\nPortXmitDis"))
1 of 2 lines with counters understood
  line 3 skipped: 'PortXmitDis': neither a counter with a number nor a header of a port
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab.core import Floats, Ints, ReadOnly, as_html, as_text
from fabriclab.errors import FileFormat
from fabriclab.importers import text_lines
from fabriclab.operations.causes import COUNTERS
from fabriclab.operations.telemetry import Telemetry

__all__ = ["CounterLog", "CounterValue", "Series", "Skipped", "read_counters", "read_telemetry"]

# What tools call our counters. InfiniBand: IBA specification, PortCounters, as infiniband-diags prints them and as
# node_exporter names them; Ethernet: counters of the mlx5 driver in ethtool.
NAMES: Mapping[str, str] = ReadOnly(
    {
        "SymbolErrorCounter": "symbol_errors",
        "PortXmitDiscards": "discards",
        "PortXmitWait": "pauses",
        "node_infiniband_symbol_error_total": "symbol_errors",
        "node_infiniband_port_transmit_wait_total": "pauses",
        "node_infiniband_port_discards_transmitted_total": "discards",
        "rx_corrected_bits_phy": "bit_errors",
        "rx_symbol_err_phy": "symbol_errors",
        "rx_prio3_pause": "pauses",
        "rx_ecn_mark": "ecn_marks",
        "rx_discards_phy": "discards",
        "tx_discards_phy": "discards",
    }
)
# Largest value of counters that stop there until somebody clears them; source: IBA specification, PortCounters.
STICKY: Mapping[str, int] = ReadOnly(
    {"SymbolErrorCounter": 2**16 - 1, "PortXmitDiscards": 2**16 - 1, "PortXmitWait": 2**32 - 1}
)

_PERFQUERY = re.compile(r"([A-Z][A-Za-z0-9]+):\.+(\S+)")
_PERFQUERY_PORT = re.compile(r"# Port (?:extended )?counters: Lid (\d+) port (\d+)")
_SELECTORS = ("PortSelect", "CounterSelect", "CounterSelect2")  # what was asked, no counters
_ETHTOOL = re.compile(r"([a-z][a-z0-9_]*):\s+(\S+)")
_ETHTOOL_PORT = re.compile(r"(?:NIC statistics(?: for (\S+?))?:)")
_EXPOSED = re.compile(r"([a-zA-Z_:][\w:]*)\{(.*)\}\s+(\S+)(?:\s+(\d+))?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SHOWN = 8  # skipped lines that a text shows


class Skipped(NamedTuple):
    """A line that was not understood: its number from 1, its text, and why; readers here have one text, so no file."""

    line: int
    text: str
    why: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"line {self.line} skipped: {self.text!r:.60}: {self.why}"


class CounterValue(NamedTuple):
    """A counter that was read: line, port, the tool's name, our name (empty if we have none), value, and a warning."""

    line: int
    port: str
    name: str
    counter: str
    value: float
    warning: str = ""


def skipped_lines(skipped: tuple[Skipped, ...]) -> list[str]:
    """Return skipped lines as text, cut after the first ones."""
    lines = [f"  {each}" for each in skipped[:_SHOWN]]
    if len(skipped) > _SHOWN:
        lines.append(f"  and {len(skipped) - _SHOWN} more; the field skipped has all of them")
    return lines


@dataclass(frozen=True)
class CounterLog:
    """Counters of ports, as tools printed them, and the lines that were not understood."""

    values: tuple[CounterValue, ...]
    skipped: tuple[Skipped, ...]

    @property
    def warnings(self) -> tuple[CounterValue, ...]:
        """Values that were read and mean less than they seem to, such as a counter that has stopped."""
        return tuple(value for value in self.values if value.warning)

    def of(self, counter: str) -> dict[str, float]:
        """Return a counter of `COUNTERS` by port; where a port has several such counters, their sum."""
        found: dict[str, float] = {}
        for value in self.values:
            if value.counter == counter:
                found[value.port] = found.get(value.port, 0.0) + value.value
        return found

    def rows(self) -> list[list[str]]:
        """Return a table of texts: the counters that have a name here, a row for each port."""
        known = [counter for counter in COUNTERS if self.of(counter)]
        columns = [self.of(counter) for counter in known]
        ports = dict.fromkeys(value.port for value in self.values)
        table = [["port", *known]]
        for port in ports:
            table.append([port, *(f"{c[port]:g}" if port in c else "-" for c in columns)])
        return table

    def __str__(self) -> str:
        """Return what was understood and what was skipped."""
        lines = [
            f"{len(self.values)} of {len(self.values) + len(self.skipped)} lines with counters understood",
            *skipped_lines(self.skipped),
        ]
        lines += [f"  line {v.line}: {v.name} of {v.port}: {v.warning}" for v in self.warnings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Show the table, then what was skipped."""
        return f"{as_text(self.rows())}\n{self}"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), str(self))


def read_counters(source: str | os.PathLike[str]) -> CounterLog:
    """Read counters as ``perfquery``, ``ethtool -S`` or an exporter for Prometheus print them.

    Empty lines and comments are no counters. A counter without a name in `COUNTERS` is read, and `CounterLog.of` does
    not find it. ``PortXmitWait`` counts ticks, not frames: compare it with itself only.

    Parameters
    ----------
    source : path or str
        A file, or its text.

    Raises
    ------
    FileFormat
        If no line was understood.
    """
    values: list[CounterValue] = []
    skipped: list[Skipped] = []
    port = ""
    for number, raw in enumerate(text_lines(source), start=1):
        line = raw.strip()
        header = _port_of(line)
        if header is not None:
            port = header
        elif line and not line.startswith("#"):
            found = _counter(number, line, port)
            if isinstance(found, Skipped):
                skipped.append(found)
            elif found.name not in _SELECTORS:
                values.append(found)
    if not values:
        first = f"; {skipped[0]}" if skipped else ""
        raise FileFormat(
            "no counter was understood; give what perfquery, ethtool -S or an exporter for Prometheus prints"
            + first
        )
    return CounterLog(tuple(values), tuple(skipped))


def _port_of(line: str) -> str | None:
    """Return the port that a header names, or None for any other line."""
    if found := _PERFQUERY_PORT.match(line):
        return f"lid {found[1]} port {found[2]}"
    if found := _ETHTOOL_PORT.match(line):
        return found[1] or "interface"
    return None


def _counter(number: int, line: str, port: str) -> CounterValue | Skipped:
    """Return the counter of a line, or why there is none."""
    exposed = _EXPOSED.fullmatch(line)
    plain = _PERFQUERY.fullmatch(line) or _ETHTOOL.fullmatch(line)
    if exposed:
        name, labels, text, _ = exposed.groups()
        port = _labelled(labels)
        if not port:
            return Skipped(
                number, line, 'its labels name no device; they look like device="mlx5_0",port="1"'
            )
    elif plain:
        name, text = plain.groups()
    else:
        return Skipped(number, line, "neither a counter with a number nor a header of a port")
    if not port:
        return Skipped(number, line, "no header before it says of which port it is")
    value = _number(text)
    if value is None:
        return Skipped(number, line, f"{name} must be a number >= 0, got {text!r:.40}")
    warning = ""
    if name in STICKY and value >= STICKY[name]:
        warning = f"stopped at its largest value {STICKY[name]:,}; clear it and read again"
    return CounterValue(number, port, name, NAMES.get(name, ""), value, warning)


def _labelled(labels: str) -> str:
    """Return the port that labels of Prometheus name; empty if they name no device."""
    found = dict(_LABEL.findall(labels))
    device = found.get("device", "")
    if not device:
        return ""
    parts = [found.get("instance", ""), device, found.get("port", "")]
    return " ".join(part for part in parts if part)


def _number(text: str) -> float | None:
    """Return a counter as a number; None if it is none, or negative, or not finite."""
    try:
        value = float(int(text, 16)) if text.lower().startswith("0x") else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


@dataclass(frozen=True, eq=False)
class Series:
    """Telemetry that was read, and what was not: skipped lines, and samples that are missing."""

    telemetry: Telemetry
    understood: int
    skipped: tuple[Skipped, ...]

    @property
    def missing(self) -> Mapping[str, int]:
        """Samples without a value, by counter; they are NaN, which raises no alarm."""
        values = self.telemetry.values.items()
        return {counter: int(np.isnan(table).sum()) for counter, table in values}

    def __str__(self) -> str:
        """Return what was understood and what was skipped."""
        lines = [
            f"{self.understood} of {self.understood + len(self.skipped)} lines understood",
            *skipped_lines(self.skipped),
        ]
        lines += [f"  {counter}: {n} samples missing" for counter, n in self.missing.items() if n]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Show the telemetry and what was skipped."""
        return f"{self.telemetry!r}\n{self}"


class _Sample(NamedTuple):
    """A line of a series that was understood."""

    time: float
    link: str
    counter: str
    value: float


def read_telemetry(source: str | os.PathLike[str]) -> Series:
    """Read counters over time from lines ``time,link,counter,value``, as `Telemetry.text` writes them.

    Samples of all links at one time form an interval. A sample that is missing is NaN. Of two lines for the same sample
    the first counts. The causes are unknown, so the onsets are -1.

    Parameters
    ----------
    source : path or str
        A file, or its text.

    Raises
    ------
    FileFormat
        If the header is another one, or no line was understood.
    """
    lines = text_lines(source)
    header = [cell.strip() for cell in lines[0].split(",")] if lines else []
    if header != ["time", "link", "counter", "value"]:
        raise FileFormat(
            f"line 1 must be time,link,counter,value, got {','.join(header)!r:.60}; write this header above the lines"
        )
    samples: dict[tuple[float, str, str], _Sample] = {}
    skipped: list[Skipped] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        found = _sample(line)
        if isinstance(found, str):
            skipped.append(Skipped(number, line, found))
        elif found[:3] in samples:
            skipped.append(Skipped(number, line, "a line above has this sample already"))
        else:
            samples[found[:3]] = found
    if not samples:
        first = f"; {skipped[0]}" if skipped else ""
        raise FileFormat(
            f"no line was understood; a line is such as 30,nic 0 -> leaf 0,pauses,12{first}"
        )
    return Series(_table(list(samples.values())), len(samples), tuple(skipped))


def _sample(line: str) -> _Sample | str:
    """Return the sample of a line, or why there is none."""
    try:
        cells = next(csv.reader([line], strict=True))
    except csv.Error as error:
        return f"not comma-separated: {error}"
    if len(cells) != 4:
        return f"a line has 4 cells, time,link,counter,value, this one {len(cells)}"
    time_text, link, counter, text = (cell.strip() for cell in cells)
    time = _number(time_text)
    value = _number(text)
    if time is None or not time > 0:
        return f"time must be a number of seconds > 0, got {time_text!r:.40}"
    if counter not in COUNTERS:
        return f"counter must be one of {', '.join(COUNTERS)}, got {counter!r:.40}"
    if not link:
        return "the link has no name"
    if value is None:
        return f"value must be a number >= 0, got {text!r:.40}"
    return _Sample(time, link, counter, value)


def _table(samples: list[_Sample]) -> Telemetry:
    """Return samples as arrays over times and links."""
    time = np.unique([sample.time for sample in samples])
    names = tuple(dict.fromkeys(sample.link for sample in samples))
    place = {name: i for i, name in enumerate(names)}
    row = np.searchsorted(time, [sample.time for sample in samples])
    column: Ints = np.array([place[sample.link] for sample in samples], dtype=np.int64)
    value: Floats = np.array([sample.value for sample in samples])
    which = np.array([sample.counter for sample in samples])
    values = {}
    for counter in COUNTERS:
        mine = which == counter
        if mine.any():
            table = np.full((time.size, len(names)), np.nan)
            table[row[mine], column[mine]] = value[mine]
            values[counter] = table
    nowhere = {counter: np.full(len(names), -1, dtype=np.int64) for counter in COUNTERS}
    return Telemetry(time, np.arange(len(names)), names, ReadOnly(values), (), ReadOnly(nowhere))
