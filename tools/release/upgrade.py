"""A learner of an earlier version takes today's: nothing that was answered, guessed or written may be lost.

An earlier version is cloned, and its own Makefile makes the learner's copies. There, in a kernel that has that version,
`learner.py` works through lessons: it guesses, answers, notes measurements and saves the notebooks with what it wrote.
Then the clone goes to today's commit, as ``git pull`` would take it, today's Makefile renews the copies, and every
entry and every file is looked for. The old version runs with the packages of today, since those of its own days are
not kept; only its own code is old.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steps import ROOT, Failed, Log, NotRun, Setting

LEARNER = Path(__file__).with_name("learner.py")
LESSONS = ("00_start_here", "31_all_reduce")  # in every version that had lessons
EXERCISE = "exercise1"
NOTE = "A note of mine."
_PATIENCE = 1800  # [s] for the lessons of a learner
_PROGRESS = "fabriclab-progress.json"
Entries = dict[str, dict[str, dict[str, Any]]]  # of a progress file: section, name, fields


def git(*words: str, cwd: Path = ROOT) -> str:
    """Return what git prints; raise NotRun if it fails, as in a checkout without history."""
    done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotRun(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def last_release() -> str:
    """Return the newest tag before today's commit; empty before the first release."""
    tags = git("tag", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-creatordate")
    return tags.partition("\n")[0]


def first_with(text: str, *places: str) -> str:
    """Return the oldest commit in which a text came into some files."""
    commits = git("log", "--reverse", "--format=%H", f"-S{text}", "--", *places)
    if not commits:
        raise NotRun(f"no commit has {text!r}; is the history here?")
    return commits.splitlines()[0]


# The versions from which a learner may come.
AGES: dict[str, Callable[[], str]] = {
    "the release before": last_release,
    "the first lessons": lambda: first_with("fl.check(", "notebooks"),
    "the first copies": lambda: first_with("WORK ?= work/notebooks", "Makefile"),
    "150 commits ago": lambda: git("rev-parse", "HEAD~150"),
}


@dataclass(frozen=True, slots=True)
class Room:
    """The checkout of a learner, and the folder in which the notebooks are opened."""

    clone: Path
    work: Path

    @property
    def progress(self) -> Path:
        """Return the file in which the version of the learner keeps progress."""
        return self.work / _PROGRESS

    def files(self) -> dict[Path, bytes]:
        """Return the notebooks and notes in the learner's folders, without what make keeps for itself."""
        outer = self.clone / "work" if (self.clone / "work").is_dir() else self.work
        paths = [path for path in outer.rglob("*") if path.suffix in (".ipynb", ".md", ".txt")]
        return {path: path.read_bytes() for path in paths if ".last" not in path.parts}


def upgraded(age: str, setting: Setting, log: Log) -> str:
    """Work as a learner in an earlier version, take today's, and look for everything again."""
    earlier = AGES[age]()
    if not earlier:
        return "no version has a tag yet, so the other lines of this kind stand for it"
    room = moved_in(earlier, setting.folder / "learner", log)
    shipped = room.files()
    learn(room, log)
    entries = entries_of(room.progress)
    written = {path: data for path, data in room.files().items() if shipped.get(path) != data}
    n_entries = sum(map(len, entries.values()))
    if n_entries < 10 or len(written) < 3:
        raise Failed(f"the learner left {n_entries} entries and {len(written)} files, too few")

    git("checkout", "--quiet", git("rev-parse", "HEAD"), cwd=room.clone)
    work = room.clone / "work" / "notebooks"
    log.run("make", "copies", cwd=room.clone, env=variables(room.clone))
    today = Room(room.clone, work)
    beside = look_for_files(written, log)
    look_for_entries(entries, entries_read_today(today, log), log)
    look_at_copies(today, log)

    # Work goes on in today's version; what was there stays.
    learn(today, log)
    after = entries_of(today.progress)
    lost = [name for name in names_of(entries) if name not in names_of(after)]
    if lost:
        log.note(*(f"lost while work went on: {name}" for name in lost[:8]))
        raise Failed(f"{len(lost)} entries were lost while work went on")
    kinds = ", ".join(f"{len(named)} {section}" for section, named in entries.items() if named)
    silent = no_longer_asked(entries, today)
    if silent:
        log.note(f"kept, though no lesson asks it now: {', '.join(silent)}")
    shutil.rmtree(room.clone)
    return (
        f"{earlier[:8]} of {git('log', '-1', '--format=%cs', earlier)}: {kinds}; "
        f"{len(written)} files of the learner's, {beside} of them now beside a new lesson; nothing lost"
    )


def moved_in(commit: str, clone: Path, log: Log) -> Room:
    """Return the room of a learner in an earlier version, with the copies that its Makefile makes."""
    shutil.rmtree(clone, ignore_errors=True)
    log.run("git", "clone", "--quiet", "--no-checkout", ROOT, clone)
    git("checkout", "--quiet", commit, cwd=clone)
    if "\ncopies:" not in (clone / "Makefile").read_text(encoding="utf-8"):
        return Room(clone, clone / "notebooks")  # lessons were opened where they were
    log.run("make", "copies", cwd=clone, env=variables(clone))
    return Room(clone, clone / "work" / "notebooks")


def variables(clone: Path) -> dict[str, str]:
    """Return the variables of a learner: the version of the clone, and no setting of ours."""
    own = ("FABRICLAB_", "MAKE", "MFLAGS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return env | {"PYTHONPATH": str(clone)}


def learn(room: Room, log: Log) -> None:
    """Let the learner work through the lessons, fill in an exercise and write a page of notes."""
    env = variables(room.clone) | {"FABRICLAB_PROGRESS": str(room.progress)}
    for lesson in LESSONS:
        log.run(
            *(sys.executable, LEARNER, room.work / f"{lesson}.ipynb"),
            *("--into", own_name(room, lesson)),
            cwd=room.work,
            env=env,
            timeout=_PATIENCE,
        )
    (room.work / "notes.md").write_text(f"{NOTE}\n", encoding="utf-8")
    exercise = room.work.parent / "exercises" / f"{EXERCISE}.ipynb"
    if exercise.is_file() and "work" in exercise.parts:
        fill_in(exercise)


def own_name(room: Room, lesson: str) -> Path:
    """Return where a learner saves a lesson: where git owns it, under a name of the learner's own."""
    name = lesson if room.work.parent.name == "work" else f"my_{lesson}"
    return room.work / f"{name}.ipynb"


def fill_in(exercise: Path) -> None:
    """Write an answer into each cell of code, as a learner would type it, and save the notebook."""
    book = json.loads(exercise.read_text(encoding="utf-8"))
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = [*cell["source"], f"\n# {NOTE}"]
    exercise.write_text(json.dumps(book, indent=1), encoding="utf-8")


def entries_of(progress: Path) -> Entries:
    """Return the entries of a progress file, by section."""
    whole = json.loads(progress.read_text(encoding="utf-8"))
    return {section: named for section, named in whole.items() if isinstance(named, dict)}


def names_of(entries: Entries) -> list[str]:
    """Return section and name of every entry."""
    return [f"{section}: {name}" for section, named in entries.items() for name in named]


def no_longer_asked(entries: Entries, room: Room) -> list[str]:
    """Return the names of answers and guesses that the questions of today do not have."""
    files = (room.clone / "fabriclab" / "course" / "questions").glob("*.toml")
    known = "\n".join(file.read_text(encoding="utf-8") for file in files)
    asked = [*entries.get("checks", ()), *entries.get("predictions", ())]
    return [name for name in asked if f"[{name}]" not in known and f".{name}]" not in known]


def entries_read_today(room: Room, log: Log) -> Entries:
    """Return what today's version reads from the learner's file, by its own export."""
    out = room.work / "export.json"
    out.unlink(missing_ok=True)
    env = variables(room.clone) | {"FABRICLAB_PROGRESS": str(room.progress)}
    program = (sys.executable, "-m", "fabriclab", "progress")
    log.run(*program, "export", out, cwd=room.work, env=env)
    log.run(*program, cwd=room.work, env=env)
    found = entries_of(out)
    out.unlink()
    return found


def look_for_entries(earlier: Entries, today: Entries, log: Log) -> None:
    """Raise Failed unless each entry is there, with every field as it was."""
    lost = list(differences(earlier, today))
    if lost:
        log.note(*lost[:8])
        raise Failed(f"{len(lost)} fields of {len(names_of(earlier))} entries are lost or changed")


def differences(earlier: Entries, today: Entries) -> Iterator[str]:
    """Yield each field of an entry that is not as it was."""
    for section, named in earlier.items():
        for name, fields in named.items():
            found = today.get(section, {}).get(name)
            if found is None:
                yield f"{section}: {name} is lost"
                continue
            for field, value in fields.items():
                if found.get(field) != value:
                    yield f"{section}: {name}: {field} was {value!r} and is {found.get(field)!r}"


def look_for_files(written: dict[Path, bytes], log: Log) -> int:
    """Raise Failed unless each file that the learner wrote is there to the byte; return how many moved aside."""
    beside = 0
    for path, data in written.items():
        kept = [*path.parent.glob(f"{path.stem}-mine-*{path.suffix}")]
        if path.is_file() and path.read_bytes() == data:
            continue
        if any(copy.read_bytes() == data for copy in kept):
            beside += 1
            continue
        log.note(f"{path.name} is lost")
    if log.notes:
        raise Failed(f"{len(log.notes)} of {len(written)} files of the learner's are lost")
    return beside


def look_at_copies(room: Room, log: Log) -> None:
    """Raise Failed unless every lesson of today is there, git has nothing to say, and a second try changes nothing."""
    for lesson in (room.clone / "notebooks").glob("*.ipynb"):
        if (room.work / lesson.name).read_bytes() != lesson.read_bytes():
            raise Failed(f"{lesson.name} among the copies is not today's")
    before = room.files()
    log.run("make", "copies", cwd=room.clone, env=variables(room.clone))
    if room.files() != before:
        raise Failed("make copies changes files when it runs a second time")
    changed = git("status", "--porcelain", "--untracked-files=no", cwd=room.clone)
    if changed:
        raise Failed(f"git sees changes of the learner's: {changed.splitlines()[0]}")
