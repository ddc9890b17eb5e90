"""Grade a design: every requirement on it, and a report of plain data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fabriclab import registry, units
from fabriclab.core import Fabric
from fabriclab.designs.exam import Exam, Verdict, verdict
from fabriclab.designs.sheets import Design, read
from fabriclab.errors import FabricError, NoPath
from fabriclab.texts import text

__all__ = ["Dot", "Report", "check", "gallery", "grade", "requirements"]

registry.add_kind("requirement", "fabriclab.designs.brief")


def requirements() -> tuple[str, ...]:
    """Return the names of all requirements, in the order in which they are judged."""
    found = registry.names("requirement")
    return tuple(sorted(found, key=lambda name: registry.info("requirement", name)["place"]))


@dataclass(frozen=True)
class Report:
    """What all requirements say about a design.

    Parameters
    ----------
    name : str
        Name of the design.
    verdicts : tuple of Verdict
        One for each requirement, in their order; none if the sheet cannot be read.
    figures : mapping of str to float
        Cost, time and the rest of `fabriclab.designs.FIGURES`, as far as they can be computed.
    seconds : float
        Processor time of grading. [s]
    error : str
        Why the sheet cannot be read; empty if it can.
    """

    name: str
    verdicts: tuple[Verdict, ...]
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether the design meets all requirements."""
        return bool(self.verdicts) and all(v.passed for v in self.verdicts)

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The requirements that are not met."""
        return tuple(v for v in self.verdicts if v.passed is False)

    def __getitem__(self, requirement: str) -> Verdict:
        """Return the verdict of a requirement."""
        name = units.choice(requirement, "requirement", [v.requirement for v in self.verdicts])
        return next(v for v in self.verdicts if v.requirement == name)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "name": self.name,
            "passed": self.passed,
            "error": self.error,
            "seconds": self.seconds,
            "figures": dict(self.figures),
            "verdicts": [v.as_dict() for v in self.verdicts],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Report:
        """Return a report from plain data."""
        verdicts = tuple(Verdict.from_dict(v) for v in plain["verdicts"])
        return cls(
            plain["name"], verdicts, dict(plain["figures"]), plain["seconds"], plain["error"]
        )

    def __str__(self) -> str:
        """Return a line for each requirement."""
        if self.error:
            return self.error
        lines = []
        for v in self.verdicts:
            mark = {True: "met", False: "not met", None: "open"}[v.passed]
            lines.append(f"{v.requirement:10}  {mark:7}  {v.words}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Show the name and how many requirements are met."""
        met = sum(v.passed is True for v in self.verdicts)
        return f"<Report {self.name!r}: {met} of {len(requirements())} requirements met>"


def grade(sheet: Mapping[str, Any] | Fabric | Design, key: str | int = "") -> Report:
    """Return what all requirements say about a design.

    Parameters
    ----------
    sheet : mapping, Fabric or Design
        The design; see `read`.
    key : str or int
        The key that draws workloads and prices beside those that everybody knows.
    """
    began = time.process_time()
    name = "a design"
    if isinstance(sheet, Mapping):
        name = str(sheet.get("name") or sheet.get("family") or name)
    try:
        design = read(sheet)
    except (TypeError, ValueError, FabricError) as error:
        return Report(name, (), {}, time.process_time() - began, str(error))
    exam = Exam(design, key)
    verdicts: dict[str, Verdict] = {}
    for requirement in requirements():
        verdicts[requirement] = _checked(exam, requirement, verdicts)
    figures = _figures(exam) if verdicts["routes"].passed else {}
    return Report(design.name, tuple(verdicts.values()), figures, time.process_time() - began)


def check(
    design: Mapping[str, Any] | Fabric | Design, requirement: str, key: str | int = ""
) -> Verdict:
    """Return what one requirement says about a design.

    Parameters
    ----------
    design : mapping, Fabric or Design
        The design; see `read`.
    requirement : str
        One of `requirements`.
    key : str or int
        As in `grade`.

    Raises
    ------
    ValueError, TypeError
        If the sheet cannot be read.
    """
    name = units.choice(requirement, "requirement", requirements())
    exam = Exam(read(design), key)
    before: dict[str, Verdict] = {}
    for needed in registry.info("requirement", name).get("needs", ()):
        before[needed] = _checked(exam, needed, before)
    return _checked(exam, name, before)


def _checked(exam: Exam, requirement: str, known: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict of a requirement, or an open one if another has to be met first."""
    for needed in registry.info("requirement", requirement).get("needs", ()):
        if not known[needed].passed:
            return _open(requirement, needed)
    judge: Callable[[Exam], Verdict] = registry.get("requirement", requirement)
    try:
        return judge(exam)
    except NoPath:
        return _open(requirement, "routes")


def _open(requirement: str, needed: str) -> Verdict:
    """Return the verdict of a requirement that cannot be judged yet."""
    words = text("designs.open", needed=needed)
    found = verdict(requirement, asked=1, reached=0, unit="1", words=words, passed=False)
    return Verdict(found.requirement, None, 1.0, 0.0, "1", -1.0, words)


def _figures(exam: Exam) -> dict[str, float]:
    """Return the figures of a design, without those that are not finite."""
    try:
        found = exam.figures()
    except NoPath:
        return {}
    return {name: value for name, value in found.items() if math.isfinite(value)}


class Dot(NamedTuple):
    """A design in a gallery: cost [USD], time [s], whether it meets all requirements, and a letter for its name."""

    cost: float
    time: float
    passed: bool
    label: str


def gallery(sheets: Any, key: str | int = "") -> tuple[Dot, ...]:
    """Return designs as anonymous dots, cheapest first, without those that have no cost or time.

    Parameters
    ----------
    sheets : iterable of mapping, Fabric, Design or Report
        The designs, or their reports.
    key : str or int
        As in `grade`.
    """
    reports = [s if isinstance(s, Report) else grade(s, key) for s in sheets]
    shown = [r for r in reports if {"cost", "time"} <= set(r.figures)]
    shown.sort(key=lambda r: (r.figures["cost"], r.figures["time"]))
    return tuple(
        Dot(r.figures["cost"], r.figures["time"], r.passed, _letter(i)) for i, r in enumerate(shown)
    )


def _letter(number: int) -> str:
    """Return A to Z, then AA and on."""
    higher, lower = divmod(number, 26)
    last = chr(ord("A") + lower)
    return _letter(higher - 1) + last if higher else last


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
