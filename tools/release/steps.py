"""What a step of a release is: a check with a name, which says what it measured and writes a log."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13")  # of Python; those of pyproject.toml
_MOST_NOTES = 8  # under a line of the page; all of them stand in the log
_COUNTED = r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)"
_SUMMARY = re.compile(r"^=* ?\d+ [a-z]+.* in \d[\d.]*s\b.*$", re.MULTILINE)
_BROKEN = re.compile(r"^(?:FAILED|ERROR) (\S.*)$", re.MULTILINE)
_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (?:\S+?:\d+: |\S+: )?(.*)$", re.MULTILINE)


class Failed(Exception):
    """A check found a fault; its text stands on the page."""


class NotRun(Exception):
    """Something that a check needs is missing on this machine; its text stands on the page."""


@dataclass(slots=True)
class Log:
    """The log of one step: what its commands print, and what stands under its line on the page."""

    file: TextIO
    notes: list[str] = field(default_factory=list)

    def write(self, line: str) -> None:
        """Write a line into the log."""
        self.file.write(f"{line}\n")
        self.file.flush()

    def note(self, *lines: str) -> None:
        """Write lines into the log and under the line of the step on the page."""
        for line in lines:
            self.write(line)
        self.notes += lines

    def run(
        self,
        *command: object,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> str:
        """Run a command and return what it printed, on both streams; the log has it, too.

        Raises
        ------
        Failed
            If its exit status is not 0, or it takes longer than ``timeout`` [s].
        """
        words = [str(word) for word in command]
        self.write(f"$ {' '.join(words)}")
        begin = self.file.tell()
        try:
            status = subprocess.run(
                words,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=self.file,
                stderr=subprocess.STDOUT,
                timeout=timeout,
            ).returncode
        except subprocess.TimeoutExpired:
            raise Failed(f"{Path(words[0]).name} took longer than {timeout:g} s") from None
        with open(self.file.name, encoding="utf-8", errors="replace") as written:
            written.seek(begin)
            printed = written.read()
        self.file.seek(0, os.SEEK_END)
        if status != 0:
            self.note(*_BROKEN.findall(printed)[:_MOST_NOTES])
            counts = counted(printed)
            raise Failed(counts or f"{Path(words[0]).name} ended with status {status}")
        return printed


@dataclass(frozen=True, slots=True)
class Setting:
    """What all steps share."""

    folder: Path  # in which the release works: logs, packages, environments
    pythons: Mapping[str, Path]  # the interpreters that were found, by version

    def python(self, version: str) -> Path:
        """Return an interpreter; raise NotRun if this machine has none of that version."""
        if version not in self.pythons:
            raise NotRun(
                f"no python{version} was found; name one with --python, or PYTHONS= of make"
            )
        return self.pythons[version]


Check = Callable[[Setting, Log], str]


@dataclass(frozen=True, slots=True)
class Step:
    """A line of the page: its name, and the check, which returns what it measured."""

    name: str
    check: Check

    @property
    def file_name(self) -> str:
        """Return the name of its log."""
        return re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-") + ".log"


def make(*targets: str) -> Check:
    """Return a check that runs targets of the Makefile and counts the tests that they ran."""

    def check(setting: Setting, log: Log) -> str:
        # A test of a browser that is not there fails, where it would otherwise be skipped.
        printed = log.run("make", *targets, env=os.environ | {"FABRICLAB_BROWSER": "1"})
        return measured(printed, log)

    return check


def make_under(version: str, *targets: str) -> Check:
    """Return a check that runs targets of the Makefile in an environment of another version of Python."""

    def check(setting: Setting, log: Log) -> str:
        if sys.version_info[:2] == tuple(map(int, version.split("."))):
            return "the version that runs all other lines"
        python = setting.python(version)
        place = setting.folder / f"tests-{version}"
        return make(*targets, f"VENV={place}", f"PYTHON={python}")(setting, log)

    return check


def measured(printed: str, log: Log) -> str:
    """Return how many tests a command ran, or what mypy said; the reasons of skipped tests become notes."""
    reasons: Counter[str] = Counter()
    for times, reason in _SKIPPED.findall(printed):
        reasons[reason] += int(times)
    skipped = [f"skipped {times} x: {reason}" for reason, times in reasons.most_common()]
    log.note(*skipped[:_MOST_NOTES])
    if len(skipped) > _MOST_NOTES:
        log.note(f"and {len(skipped) - _MOST_NOTES} more reasons to skip, in the log")
    return counted(printed) or last_line(printed)


def counted(printed: str) -> str:
    """Return the sum of all summaries of pytest, such as "1,204 passed, 3 skipped"; empty without one."""
    totals: Counter[str] = Counter()
    for summary in _SUMMARY.finditer(printed):
        for number, kind in re.findall(_COUNTED, summary[0]):
            totals[kind.rstrip("s") if kind == "errors" else kind] += int(number)
    shown = [kind for kind in totals if kind != "deselected"]
    return ", ".join(f"{totals[kind]:,} {kind}" for kind in shown)


def last_line(printed: str) -> str:
    """Return the last line that is not empty and was not printed by make itself."""
    lines: Sequence[str] = [
        line
        for line in printed.splitlines()
        if line.strip() and not re.match(r"make(\[\d+\])?:", line)
    ]
    return lines[-1].strip() if lines else "nothing was printed"
