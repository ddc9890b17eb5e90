"""All that has to hold before a release, step by step: ``make release`` runs it and prints one page.

A step that fails stops no other. Each has a line on the page: green, red, or not run where this machine lacks what it
needs; how long it took, what was measured, and its log. The page is written to ``build/release/page.txt``, too, and the
exit status is 0 only if every line is green. Interpreters are found as python3.11, python3.12 and python3.13, or named:
``make release PYTHONS="/path/to/python3.12 /path/to/python3.13"``.

A new check is a line in ``STEPS``: a target of the Makefile, a file of tests that are marked ``release``, or a function
that takes a `Setting` and a `Log` and returns what it measured.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import installs
import upgrade
from steps import ROOT, VERSIONS, Failed, Log, NotRun, Setting, Step, make, make_under

GREEN, RED, MISSING = "green", "red", "not run"

# Files of tests marked release that have a line of their own; the others share the last one.
MARKED = {
    "Binder": "tests/package/test_binder.py",
    "JupyterHub": "tests/browser/test_hub.py",
    "JupyterHub, a class of fifty": "tests/browser/test_hub_load.py",
    "mutants of the solutions": "tests/exercises/test_mutants.py",
    "nbgrader": "tests/exercises/test_nbgrader.py",
    "lessons in every look": "tests/browser/test_lab.py",
}
OTHERS = " ".join(["tests", *(f"--ignore={file}" for file in MARKED.values())])

# What is quick comes first, so that a fault shows in the first hour.
STEPS = (
    Step("lint", make("lint")),
    Step("packages", installs.packages),
    *(Step(f"wheel, Python {v}", partial(installs.wheel, v)) for v in VERSIONS),
    *(Step(f"sdist, Python {v}", partial(installs.sdist, v)) for v in VERSIONS),
    *(Step(f"upgrade from {age}", partial(upgrade.upgraded, age)) for age in upgrade.AGES),
    Step("notebooks", make("notebooks")),
    Step("suite", make("suite")),
    Step("timed tests", make("timed")),
    Step("site", make("site")),
    *(Step(name, make("marked", f"TESTS={file}")) for name, file in MARKED.items()),
    Step("other release tests", make("marked", f"TESTS={OTHERS}")),
    *(Step(f"tests, Python {v}", make_under(v, "unit")) for v in VERSIONS),
    *(Step(f"notebooks, Python {v}", make_under(v, "notebooks")) for v in VERSIONS),
)


@dataclass(frozen=True, slots=True)
class Line:
    """What became of a step."""

    name: str
    colour: str
    seconds: float
    measured: str
    log: str  # relative to the checkout, where it is in it
    notes: Sequence[str] = field(default=())

    def shown(self, width: int) -> str:
        """Return the line of the page, with its notes below."""
        took = str(timedelta(seconds=round(self.seconds)))
        head = f"{self.colour:<8}{self.name:<{width}}  {took:>8}  {self.measured}  [{self.log}]"
        return "\n".join([head, *(f"{'':<10}{note}" for note in self.notes)])


def run(step: Step, setting: Setting) -> Line:
    """Run a step, whatever happens in it, and return its line."""
    path = setting.folder / step.file_name
    begun = time.monotonic()
    with path.open("w", encoding="utf-8") as file:
        log = Log(file)
        try:
            measured = step.check(setting, log)
            colour = GREEN
        except NotRun as reason:
            colour, measured = MISSING, str(reason)
        except Failed as fault:
            colour, measured = RED, str(fault)
        except Exception as error:  # a fault of a check is a red line, and no end of the release
            colour, measured = RED, f"{type(error).__name__}: {error}"
            log.write(traceback.format_exc())
        log.write(f"{colour}: {measured}")
    seconds = time.monotonic() - begun
    return Line(step.name, colour, seconds, measured, relative(path), tuple(log.notes))


def relative(path: Path) -> str:
    """Return a path as somebody in the checkout would type it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def page(lines: Sequence[Line], begun: tuple[str, bool]) -> str:
    """Return the page: a heading, a line per step, and the verdict.

    ``begun`` is the state of the checkout when the first step began. If it is another one now, the lines are of several
    states, and there is no verdict for any of them.
    """
    number = dict.fromkeys((GREEN, RED, MISSING), 0)
    for line in lines:
        number[line.colour] += 1
    if state() != begun:
        verdict = "NOT READY, the checkout changed while the steps ran"
    elif number[RED] or number[MISSING]:
        verdict = "NOT READY"
    elif len(lines) < len(STEPS):
        verdict = f"NO RED LINE in {len(lines)} of {len(STEPS)} steps"
    elif begun[1]:
        verdict = "NO RED LINE, but changes are not committed"
    else:
        verdict = "READY"
    took = timedelta(seconds=round(sum(line.seconds for line in lines)))
    counts = ", ".join(f"{n} {colour}" for colour, n in number.items())
    width = max((len(line.name) for line in lines), default=0)
    body = [line.shown(width) for line in lines]
    return "\n".join([heading(*begun), "", *body, "", f"{verdict}: {counts}; {took} in all."])


def heading(commit: str, changed: bool) -> str:
    """Return what was checked, when, and on what."""
    version = installs.version()
    date = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return (
        f"fabriclab {version}, commit {commit[:8]}{' with uncommitted changes' if changed else ''}, "
        f"{date}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores"
    )


def state() -> tuple[str, bool]:
    """Return the commit of the checkout, and whether its files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    return git("rev-parse", "HEAD"), bool(git("status", "--porcelain"))


def interpreters(named: Iterable[str]) -> dict[str, Path]:
    """Return the interpreters by version: those that were named, and else those on the path.

    An interpreter counts only if it starts and says that version, since a shim may stand for one that is not installed.
    """
    candidates = [*named, *(f"python{version}" for version in VERSIONS), sys.executable]
    found: dict[str, Path] = {}
    for candidate in candidates:
        place = shutil.which(candidate)
        if place is None:
            continue
        code = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"
        done = subprocess.run([place, "-c", code], capture_output=True, text=True)
        if done.returncode == 0:
            version, path = done.stdout.splitlines()
            if version in VERSIONS:
                found.setdefault(version, Path(path))
    return found


def kept(folder: Path) -> dict[str, Line]:
    """Return the green lines of an earlier run, if it was of this very commit without changes."""
    commit, changed = state()
    lines = {}
    with contextlib.suppress(FileNotFoundError):
        earlier = json.loads((folder / "page.json").read_text(encoding="utf-8"))
        if earlier["commit"] == commit and not changed:
            lines = {line["name"]: Line(**line) for line in earlier["lines"]}
    return {name: line for name, line in lines.items() if line.colour == GREEN}


def main() -> int:
    """Run the steps that were chosen, print the page and return 1 unless every line is green."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", nargs="+", action="extend", default=[], metavar="PROGRAM")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="steps whose names begin so")
    parser.add_argument("--list", action="store_true", help="print the names of the steps")
    parser.add_argument(
        "--resume", action="store_true", help="keep the green lines of the same commit"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "release")
    given = parser.parse_args()
    chosen = [step for step in STEPS if any(map(step.name.startswith, given.only or [""]))]
    if given.list or not chosen:
        print("\n".join(step.name for step in STEPS))
        return 0 if given.list else 2

    given.folder.mkdir(parents=True, exist_ok=True)
    setting = Setting(given.folder.resolve(), interpreters(given.python))
    before = kept(setting.folder) if given.resume else {}
    commit, changed = state()
    lines: list[Line] = []
    for step in STEPS:
        if step.name in before:
            lines.append(before[step.name])
        elif step in chosen:
            print(f"{datetime.now():%H:%M} {step.name} ...", file=sys.stderr, flush=True)
            lines.append(run(step, setting))
            done = {"commit": "" if changed else commit, "lines": [asdict(line) for line in lines]}
            (setting.folder / "page.json").write_text(json.dumps(done, indent=1), "utf-8")
    text = page(lines, (commit, changed))
    (setting.folder / "page.txt").write_text(f"{text}\n", encoding="utf-8")
    print(text)
    return 0 if all(line.colour == GREEN for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
