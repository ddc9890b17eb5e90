"""The commands ``grade``, ``replay`` and ``release``: their arguments, their messages and their exit codes."""

import argparse
import errno
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fabriclab.course import judges
from fabriclab.course.shown import InputRefused, refuse_if
from fabriclab.texts import text

from . import notebooks, report, works
from .graders import Graders, grade_all
from .limits import Limits
from .results import Results, heading, load, noted, totals, weak
from .sandbox import SandboxError


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _walled(graders: Graders, allowed: bool) -> None:
    """Raise if learners' code would run without protections, unless that was ``allowed``; then warn."""
    if weak(graders.active):
        refuse_if(not allowed, "grade.weak")
        _say(text("grade.made.weak"))


def _grade(given: argparse.Namespace) -> int:
    """Grade a folder; return 0 if every student has a grade, 1 if some could not be graded, 130 after Ctrl-C."""
    out, folder, key = Path(given.out), Path(given.folder), notebooks.read_key(given.key, _say)
    limits, names, begun = (
        Limits().scaled(given.time_factor),
        notebooks.read_names(given.per_student),
        time.monotonic(),
    )
    refuse_if(out.suffix != ".csv", "grade.out", out=out)
    refuse_if(given.own_work and folder.is_dir(), "grade.own_folder", folder=folder)
    room = works.collect(folder, out.with_suffix("").resolve())
    here = folder.exists() and any(room.values())
    refuse_if(not here, "grade.no_notebook", folder=folder)
    for name in works.left_out(folder, room, names):
        del room[name]
        _say(text("grade.left_out", name=name, folder=folder))
    due, others = works.due(
        room, [f"ex{name}" if name.isdigit() else name for name in given.exercise or ()]
    )
    answers, setups = works.reference(Path(given.reference or "solutions"))
    solved = works.chosen("", answers, due, {})
    handed_in = [works.chosen(student, held, due, setups) for student, held in room.items()]
    _say(text("grade.due", due=", ".join(due)))
    for name, n in others.items():
        _say(text("grade.due.not", name=name, n=n, of=len(room)))
    with Graders(key, limits, len(handed_in) * len(solved.due), own=given.own_work) as graders:
        if given.own_work:
            _say(text("grade.own_work"))
        _walled(graders, given.weak)
        if given.reference:
            _check_reference(graders, solved, given.reference)
        out.parent.mkdir(parents=True, exist_ok=True)
        results = Results(out, heading(notebooks.fingerprint(key), limits, graders.active))
        failed = dict[str, str]()
        try:
            n = _grade_class(graders, handed_in, results, failed)
        finally:
            entries = results.entries.values()
            report.remark([*entries], key, names, solved, room)
            results.write()
            report.write(results, failed)
            for entry in entries:
                if said := " ".join(noted(entry)):
                    _say(text("grade.note", student=entry["student"], said=said))
    seconds = f"{time.monotonic() - begun:.1f}"
    _say(text("grade.ready", n=n, seconds=seconds, out=out, page=out.with_suffix(".html")))
    return 1 if failed else 0


def _check_reference(graders: Graders, solved: works.Work, folder: str) -> None:
    """Raise unless the reference gets full marks for each question that is due."""
    ((_, entry),) = grade_all(graders, [solved])
    if isinstance(entry, str):
        raise SandboxError(entry)
    for q in entry["questions"]:
        refuse_if(
            q["points"] < q["of"],
            "grade.reference",
            folder=folder,
            **q | {"said": " ".join(q["said"])},
        )
    _say(text("grade.reference.right", folder=folder))


def _grade_class(
    graders: Graders, room: Sequence[works.Work], results: Results, failed: dict[str, str]
) -> int:
    """Grade all new or changed work, store results and failures as they come, and return how many were graded."""
    left = [
        work for work in room if results.entries.get(work.student, {}).get("digest") != work.digest
    ]
    if len(left) < len(room):
        _say(text("grade.kept", n=len(room) - len(left)))
    for work, entry in grade_all(graders, left):
        if isinstance(entry, str):
            failed[work.student] = entry
            _say(text("grade.failed", student=work.student, said=entry))
            continue
        results.add(entry)
        points, most = totals(entry)
        n = sum(one.student in results.entries for one in room)
        _say(text("grade.done", n=n, of=len(room), student=work.student, points=points, most=most))
    return len(left) - len(failed)


def _limits_of(head: Mapping[str, Any]) -> Limits:
    """Return the limits with which results were made, with at least as much wall-clock time as is fair now.

    Earlier versions limited wall-clock time as strictly as processor time, so that a busy machine cost points. So the
    ratio of the wall-clock limit to the processor limit is at least that of the defaults.
    """
    limits = Limits(**head["limits"])
    usual = Limits()
    fair = limits.cpu_s / usual.cpu_s * usual.wall_s
    return replace(limits, wall_s=max(limits.wall_s, fair))


def _replay(given: argparse.Namespace) -> int:
    """Repeat one verdict from a file of results alone; return 0 if it is the same, 1 if not."""
    key, (head, entries) = notebooks.read_key(given.key, _say), load(Path(given.results))
    own = notebooks.fingerprint(key)
    refuse_if(head["key"] != own, "grade.replay.key", key=head["key"], given=own)
    students = {entry["student"]: entry for entry in entries}
    name = given.student or (next(iter(students)) if len(students) == 1 else None)
    refuse_if(
        name not in students, "grade.replay.student", student=name or "-", known=", ".join(students)
    )
    asked = {q["question"]: q for q in students[name]["questions"]}
    id, known = given.question, asked.keys() & judges.questions().keys()
    refuse_if(id not in known, "grade.replay.question", question=id, known=", ".join(asked))
    old = new = asked[id]
    if old["cells"]:
        with Graders(key, _limits_of(head).scaled(given.time_factor)) as graders:
            _walled(graders, given.weak)
            ((_, new),) = graders.grade([(id, [old["cells"]], old["token"])])
        if isinstance(new, str):
            raise SandboxError(new)
    same = all(new[part] == old[part] for part in ("points", "of", "mistake"))
    # Notes about the file, such as a cell that is there twice, follow the verdict.
    # For code that met a limit, earlier versions had other sentences.
    met_a_limit = old["trouble"] == new["trouble"] == "time"
    same = same and (met_a_limit or new["said"] == old["said"][: len(new["said"])])
    other = text("grade.replay.other", points=f"{old['points']:g}", said=" ".join(old["said"]))
    lines = [f"{name}, {id}: {new['points']:g} / {new['of']:g} {new['mistake']}".rstrip()]
    lines += [text("grade.replay.same") if same else other, *new["said"]]
    lines += [text("grade.replay.time")] * ("time" in (old["trouble"], new["trouble"]))
    sys.stdout.write("\n".join([*lines, text("grade.made.with", **head), ""]))
    return 0 if same else 1


def _release(given: argparse.Namespace) -> int:
    """Write a key, or the files of a class."""
    if given.new_key:
        notebooks.new_key(Path(given.new_key))
        _say(text("grade.key.made", path=given.new_key))
    if not given.exercise:
        return 0
    key = given.key or given.new_key
    if lacks := " ".join(["--key"] * (not key) + ["--out"] * (not given.out)):
        raise InputRefused(text("grade.release.missing", lacks=lacks))
    source = Path(
        f"exercises/exercise{given.exercise}.ipynb" if given.exercise.isdigit() else given.exercise
    )
    refuse_if(not source.is_file(), "grade.release.source", source=source)
    names = notebooks.read_names(given.per_student)
    written = notebooks.release(source, notebooks.read_key(key, _say), Path(given.out), names)
    _say(text("grade.release.done", n=len(written), first=written[0]))
    return 0


def add_to(parts: Any) -> None:
    """Add the three commands to the parser of ``python -m fabriclab``, with their arguments from a table."""
    arguments = json.loads(Path(__file__).with_name("arguments.json").read_bytes())
    for name, deed in (("grade", _grade), ("replay", _replay), ("release", _release)):
        command = parts.add_parser(name, help=text(f"grade.help.{name}"), description=deed.__doc__)
        command.register("type", "float", float)  # the name "float" in the table
        command.set_defaults(run=deed)
        for argument, about in arguments[name].items():
            command.add_argument(argument, **about | {"help": text(f"grade.help.{about['help']}")})


def run(given: argparse.Namespace) -> int:
    """Run a command and return its exit code; 2 if it was refused, with a sentence on how to correct it."""
    try:
        return int(given.run(given))
    except KeyboardInterrupt:
        _say(text("grade.stopped"))
        return 130
    except OSError as error:
        path, full = (
            error.filename or getattr(given, "out", "-"),
            error.errno in (errno.ENOSPC, errno.EDQUOT),
        )
        _say(text("grade.full" if full else "grade.file", path=path, error=error.strerror or error))
    except (InputRefused, SandboxError) as error:
        _say(str(error))
    return 2
