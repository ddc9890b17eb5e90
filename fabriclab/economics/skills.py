"""Skills that a fabric asks of the people who run it, and what a team lacks.

The table has each skill with the level that a fabric needs and what goes wrong without it. How many hours a lacking
level costs in a year is in no source that we know: it is an input, and the decision says at which value it turns.

Examples
--------
>>> from fabriclab import economics
>>> team = economics.team("Ethernet")
>>> for fabric in ("multipath", "infiniband"):
...     print(economics.score(team, fabric))
<ScoreCard multipath: 0 of 10 levels lacking>
<ScoreCard infiniband: 6 of 8 levels lacking: subnet_manager, partitions, gateways>
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fabriclab import units
from fabriclab.catalog.tables import near, read_rows
from fabriclab.core import ReadOnly, as_html, as_text

__all__ = ["LEVELS", "ScoreCard", "Skill", "needed_skills", "score", "team"]

LEVELS = ("never done", "has seen it", "does it with help", "does it alone")
_MOST = len(LEVELS) - 1


class Skill(NamedTuple):
    """A skill: its name, the fabrics that need it, the level they need, and what goes wrong without it."""

    name: str
    title: str
    fabrics: tuple[str, ...]
    needed: int
    without_it: str
    lesson: str


@cache
def _table() -> Mapping[str, Skill]:
    """Return all skills by name."""
    found = {}
    for row in read_rows(Path(__file__).with_suffix(".csv")):
        found[row["skill"]] = Skill(
            row["skill"],
            row["title"],
            tuple(row["fabrics"].split()),
            int(row["needed"]),
            row["without_it"],
            row["lesson"],
        )
    return ReadOnly(found)


def needed_skills(fabric: str | None = None) -> tuple[Skill, ...]:
    """Return the skills that a fabric needs, or all of them.

    Parameters
    ----------
    fabric : str, optional
        Such as ``"infiniband"``; see `fabriclab.economics.fabrics`. ``"none"`` needs none.
    """
    table = _table()
    if fabric is None:
        return tuple(table.values())
    asked = units.choice(fabric, "fabric", _fabrics())
    return tuple(skill for skill in table.values() if asked in skill.fabrics)


def _fabrics() -> list[str]:
    """Return the names of all fabrics that the table knows."""
    named = (name for skill in _table().values() for name in skill.fabrics)
    return ["none", *dict.fromkeys(named)]


# Whose skills a team of a kind has: those of these fabrics at the level that they need, the others never done.
_TEAMS = {
    "all": ("tcp", "multipath", "go_back_n", "lossless", "infiniband", "pcie"),
    "Ethernet": ("tcp", "multipath", "go_back_n", "lossless"),
    "IP": ("tcp",),
    "InfiniBand": ("infiniband",),
    "new": (),
}


def team(kind: str = "all", **levels: int) -> Mapping[str, int]:
    """Return a team: the level of each skill, 0 to 3 as in `LEVELS`.

    Parameters
    ----------
    kind : str
        ``"all"``, ``"Ethernet"``, ``"IP"``, ``"InfiniBand"`` or ``"new"``: has the skills of these fabrics, and no
        others.
    **levels
        Levels of single skills, by name. 0..3

    Raises
    ------
    ValueError
        If a skill is unknown or a level is out of range.
    """
    able = _TEAMS[units.choice(kind, "kind", _TEAMS)]
    table = _table()
    found = {}
    for name, skill in table.items():
        found[name] = skill.needed if set(able) & set(skill.fabrics) else 0
    for name, level in levels.items():
        if name not in table:
            raise ValueError(near(name, table, "the table of skills"))
        found[name] = units.count(level, name, 0, _MOST)
    return ReadOnly(found)


@dataclass(frozen=True)
class ScoreCard:
    """What a team lacks for a fabric.

    Parameters
    ----------
    fabric : str
        The fabric.
    levels : mapping of str to int
        Level of the team in each skill that the fabric needs. 0..3
    """

    fabric: str
    levels: Mapping[str, int]

    @property
    def gaps(self) -> Mapping[str, int]:
        """Levels that are lacking, by skill; skills that are good enough are left out."""
        found = {}
        for skill in needed_skills(self.fabric):
            lacking = skill.needed - self.levels[skill.name]
            if lacking > 0:
                found[skill.name] = lacking
        return ReadOnly(found)

    @property
    def lacking(self) -> int:
        """Sum of all levels that are lacking."""
        return sum(self.gaps.values())

    @property
    def needed(self) -> int:
        """Sum of all levels that the fabric needs."""
        return sum(skill.needed for skill in needed_skills(self.fabric))

    @property
    def risks(self) -> tuple[str, ...]:
        """What goes wrong, the largest gap first."""
        table = _table()
        order = sorted(self.gaps.items(), key=lambda item: -item[1])
        return tuple(f"{table[name].title}: {table[name].without_it}" for name, _ in order)

    def rows(self) -> list[list[str]]:
        """Return a table with its heading: each skill with its level, what is needed and what goes wrong."""
        table = [["skill", "has", "needs", "without it", "lesson"]]
        for skill in needed_skills(self.fabric):
            has = str(self.levels[skill.name])
            table.append([skill.title, has, str(skill.needed), skill.without_it, skill.lesson])
        return table

    def draw(self) -> str:
        """Return the table as text."""
        return as_text(self.rows())

    def __repr__(self) -> str:
        """Show how much is lacking, and in what."""
        named = f": {', '.join(self.gaps)}" if self.gaps else ""
        return f"<ScoreCard {self.fabric}: {self.lacking} of {self.needed} levels lacking{named}>"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def score(levels: Mapping[str, int], fabric: str) -> ScoreCard:
    """Return what a team lacks for a fabric.

    Parameters
    ----------
    levels : mapping of str to int
        The team, as `team` returns it; a skill that it does not name counts as never done. 0..3
    fabric : str
        Such as ``"infiniband"``.

    Raises
    ------
    ValueError
        If a skill or the fabric is unknown, or a level is out of range.
    """
    if not isinstance(levels, Mapping):
        raise TypeError(
            f'levels must be a dict of levels by skill, got {levels!r:.60}; write economics.team("Ethernet")'
        )
    whole = team("new", **{str(name): level for name, level in levels.items()})
    asked = units.choice(fabric, "fabric", _fabrics())
    return ScoreCard(
        asked, ReadOnly({skill.name: whole[skill.name] for skill in needed_skills(asked)})
    )
