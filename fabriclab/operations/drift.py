r"""Configuration drift: which switches have other settings than intended, and what that does to traffic.

Day 1 sets all switches alike. Then one is replaced, one gets an urgent change at night, and one misses an update. No
counter tells a setting, so the table of settings is compared: with the intended one, if it is written down; with what
most switches of the same role have, if not; with an earlier table; and at both ends of each cable, which have to agree.

Examples
--------
>>> text = "switch,role,mtu,ecn_kmin\nleaf 0,leaf,4096,400\nleaf 1,leaf,4096,400\nleaf 2,leaf,1500,400\n"
>>> find_drift(read_settings(text))
switch  setting  found  intended  what it does
leaf 2  mtu      1500   4096      packets of the other end's size are dropped, or paths fall back to the smaller one
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fabriclab.core import Fabric, ReadOnly, as_html, as_text
from fabriclab.errors import FileFormat
from fabriclab.importers import text_lines
from fabriclab.operations.readings import Skipped, skipped_lines

__all__ = [
    "Deviation",
    "Drift",
    "Settings",
    "changed",
    "find_drift",
    "mismatched_ends",
    "read_settings",
]

# What a setting that differs does. Names as on a site's own sheet; vendors have others.
EFFECTS: Mapping[str, str] = ReadOnly(
    {
        "mtu": "packets of the other end's size are dropped, or paths fall back to the smaller one",
        "fec": "the link stays down, or corrects fewer errors than the other end expects",
        "speed": "the link stays down, or runs at the lower speed",
        "pfc_priorities": "a lossless class is lossy on this hop: it drops under load, and senders repeat much",
        "pfc_headroom": "packets under way when the pause is sent are dropped",
        "ecn_kmin": "marks come later or earlier than elsewhere: pauses before marks, or senders that slow down early",
        "ecn_kmax": "marks come later or earlier than elsewhere: pauses before marks, or senders that slow down early",
        "ecn_pmax": "senders slow down more or less than those of other switches",
        "dscp_map": "RDMA traffic falls into another class here",
        "routing": "flows stay on one path here, while others are spread",
        "hash_seed": "switches in a row that hash alike use part of their links only",
        "firmware": "defaults and counters differ; compare all other settings after an update",
    }
)
# Settings on which both ends of a cable have to agree.
BOTH_ENDS = ("mtu", "fec", "speed", "pfc_priorities", "dscp_map")


@dataclass(frozen=True)
class Settings:
    """A table of settings: of each switch its role and the value of each setting, and lines that were not understood.

    Parameters
    ----------
    values : mapping of str to mapping of str to str
        Settings by switch. A setting that is not there was left empty.
    roles : mapping of str to str
        Role of each switch, such as ``"leaf"``.
    lines : mapping of str to int
        Line of each switch.
    skipped : tuple of Skipped
        Lines that were not understood.
    """

    values: Mapping[str, Mapping[str, str]]
    roles: Mapping[str, str]
    lines: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all settings, in the order of the table."""
        return tuple(dict.fromkeys(name for row in self.values.values() for name in row))

    def __str__(self) -> str:
        """Return what was understood and what was skipped."""
        read = f"{len(self.values)} switches with {len(self.names)} settings understood"
        return "\n".join([read, *skipped_lines(self.skipped)])

    def __repr__(self) -> str:
        """Show sizes and what was skipped."""
        return f"<Settings: {self}>"


def read_settings(source: str | os.PathLike[str]) -> Settings:
    """Read a table of settings: a header with ``switch``, ``role`` and the settings, then a line for each switch.

    Comments begin with ``#``. A line with another number of cells, without a name, or of a switch that is there already
    is skipped, and said so; an empty cell is a setting that is not known.

    Raises
    ------
    FileFormat
        If the header lacks ``switch`` or ``role``, or no line was understood.
    """
    header: list[str] = []
    values: dict[str, dict[str, str]] = {}
    roles: dict[str, str] = {}
    lines: dict[str, int] = {}
    skipped: list[Skipped] = []
    for number, line in enumerate(text_lines(source), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            cells = [cell.strip() for cell in next(csv.reader([line], strict=True))]
        except csv.Error as error:
            skipped.append(Skipped(number, line, f"not comma-separated: {error}"))
            continue
        if not header:
            header = cells
            _check_header(number, header)
            continue
        why = _unreadable(header, cells, lines)
        if why:
            skipped.append(Skipped(number, line, why))
            continue
        row = dict(zip(header, cells, strict=True))
        name = row.pop("switch")
        roles[name] = row.pop("role")
        lines[name] = number
        values[name] = {setting: value for setting, value in row.items() if value}
    if not values:
        first = f"; {skipped[0]}" if skipped else ""
        raise FileFormat(
            f"no switch was understood; write switch,role,mtu and so on, then a line for each{first}"
        )
    return Settings(ReadOnly(values), ReadOnly(roles), ReadOnly(lines), tuple(skipped))


def _check_header(number: int, header: list[str]) -> None:
    """Refuse a header without the two columns that are needed, or with one column twice."""
    missing = [name for name in ("switch", "role") if name not in header]
    if missing:
        raise FileFormat.at(
            number, f"the header has no column {missing[0]!r}, got {','.join(header)!r:.60}"
        )
    twice = [name for name, times in Counter(header).items() if times > 1]
    if twice:
        raise FileFormat.at(number, f"the header has the column {twice[0]!r} twice; remove one")


def _unreadable(header: list[str], cells: list[str], known: Mapping[str, int]) -> str:
    """Return why a line is no switch, or nothing."""
    if len(cells) != len(header):
        return f"it has {len(cells)} cells, the header {len(header)}"
    row = dict(zip(header, cells, strict=True))
    if not row["switch"] or not row["role"]:
        return "switch or role is empty"
    if row["switch"] in known:
        return f"{row['switch']} is on line {known[row['switch']]} already"
    return ""


class Deviation(NamedTuple):
    """A setting that is not as intended: where, which, its value (empty if not known), and the intended one."""

    switch: str
    setting: str
    found: str
    intended: str

    @property
    def effect(self) -> str:
        """What it does to traffic; empty for settings that are not known here."""
        return EFFECTS.get(self.setting, "")


@dataclass(frozen=True)
class Drift:
    """Deviations of a table of settings, and how the intended values were found."""

    deviations: tuple[Deviation, ...]
    by: str
    undecided: tuple[str, ...] = ()

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each deviation."""
        table = [["switch", "setting", "found", "intended", "what it does"]]
        for d in self.deviations:
            table.append(
                [d.switch, d.setting, d.found or "not set", d.intended or "not set", d.effect]
            )
        return table

    def __repr__(self) -> str:
        """Show the table, or that there is no deviation."""
        open_ = [f"undecided: {each}" for each in self.undecided]
        if not self.deviations:
            return "\n".join([f"<Drift by {self.by}: none>", *open_])
        return "\n".join([as_text(self.rows()), *open_])

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"drift, {self.by}")


def find_drift(
    settings: Settings, intended: Mapping[str, Mapping[str, str]] | None = None
) -> Drift:
    """Return the settings that are not as intended.

    Parameters
    ----------
    settings : Settings
        Table of today.
    intended : mapping of str to mapping of str to str, optional
        Intended settings by role. Unless given, the value that more than half of the switches of a role have counts as
        intended; where no value has a majority, role and setting are listed as undecided, since two halves cannot tell
        which of them drifted.
    """
    goal: Mapping[str, Mapping[str, str]]
    undecided: list[str] = []
    if intended is None:
        goal, undecided = _majority(settings)
        by = "majority of the role"
    else:
        goal = intended
        by = "intended settings"
        unknown = sorted(set(settings.roles.values()) - set(intended))
        undecided = [f"no intended settings for role {role}" for role in unknown]
    found = []
    for switch, row in settings.values.items():
        for setting, value in goal.get(settings.roles[switch], {}).items():
            if row.get(setting, "") != value:
                found.append(Deviation(switch, setting, row.get(setting, ""), value))
    return Drift(tuple(found), by, tuple(undecided))


def _majority(settings: Settings) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return what most switches of each role have, and where there is no majority."""
    goal: dict[str, dict[str, str]] = {}
    undecided = []
    for role in dict.fromkeys(settings.roles.values()):
        members = [switch for switch, of in settings.roles.items() if of == role]
        goal[role] = {}
        for setting in settings.names:
            counts = Counter(settings.values[switch].get(setting, "") for switch in members)
            value, times = counts.most_common(1)[0]
            if 2 * times > len(members):
                goal[role][setting] = value
            else:
                shown = ", ".join(f"{v or 'not set'} x {n}" for v, n in counts.most_common(3))
                undecided.append(f"{role}, {setting}: {shown}")
    return goal, undecided


def changed(before: Settings, after: Settings) -> Drift:
    """Return what has changed from one table to a later one; a switch that is gone or new counts with all settings."""
    found = []
    for switch in dict.fromkeys([*before.values, *after.values]):
        old = before.values.get(switch, {})
        new = after.values.get(switch, {})
        for setting in dict.fromkeys([*old, *new]):
            if old.get(setting, "") != new.get(setting, ""):
                found.append(Deviation(switch, setting, new.get(setting, ""), old.get(setting, "")))
    return Drift(tuple(found), "earlier table")


def mismatched_ends(fabric: Fabric, settings: Settings) -> Drift:
    """Return settings on which the two ends of a cable disagree; the deviation names the end with the higher number.

    Only cables between two switches of the table are looked at, each pair of switches once.
    """
    found = []
    seen = set()
    name = {}
    for switch in settings.values:
        name[fabric.node(switch)] = switch
    for a, b in zip(fabric.source[::2].tolist(), fabric.target[::2].tolist(), strict=True):
        pair = (min(a, b), max(a, b))
        if pair in seen or a not in name or b not in name:
            continue
        seen.add(pair)
        one, other = (name[node] for node in pair)
        for setting in BOTH_ENDS:
            here = settings.values[one].get(setting, "")
            there = settings.values[other].get(setting, "")
            if here and there and here != there:
                found.append(Deviation(f"{other} (cable to {one})", setting, there, here))
    return Drift(tuple(found), "other end of the cable")
