"""The commands of instructors, such as ``grade`` and ``release``: arguments, messages and exit codes."""

import argparse
import errno
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fabriclab.course import judges
from fabriclab.course.questions import own
from fabriclab.course.shown import InputRefused, refuse_if
from fabriclab.texts import text

from . import check_exercise, marks, new_exercise, notebooks, report, works
from .class_page import MOST_NAMES, grouped, line_of, names
from .graders import Graders, grade_all
from .limits import Limits
from .results import Results, check_selection, heading, load, totals, unread, weak
from .sandbox import SandboxError

# illustrative: to start a process takes about as long as to judge a few questions
_QUESTIONS_OF_A_PROCESS = 4


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _check_walls(graders: Graders, allowed: bool) -> None:
    """Raise if learners' code would run without protections, unless that was ``allowed``; then warn."""
    if weak(graders.active):
        refuse_if(not allowed, "grade.weak")
        _say(text("grade.made.weak"))


def _grade(args: argparse.Namespace) -> int:
    """Grade a folder; return 0 if every student has a grade, 1 if some could not be graded, 130 after Ctrl-C."""
    out = Path(args.out)
    folder = Path(args.folder)
    key = notebooks.read_key(args.key, _say)
    limits = Limits().scaled(args.time_factor)
    listed = notebooks.read_names(args.per_student)
    begun = time.monotonic()
    refuse_if(out.suffix != ".csv", "grade.out", out=out)
    refuse_if(args.own_work and folder.is_dir(), "grade.own_folder", folder=folder)

    submissions = works.collect(folder, out.with_suffix("").resolve())  # by student
    has_notebooks = folder.exists() and any(submissions.values())
    refuse_if(not has_notebooks, "grade.no_notebook", folder=folder)
    for name in works.left_out(folder, submissions, listed):
        del submissions[name]
        _say(text("grade.left_out", name=name, folder=folder))

    asked = [f"ex{name}" if name.isdigit() else name for name in args.exercise or ()]
    due, others = works.due(submissions, asked)
    check_selection(out, due)
    own_solutions = Path(args.reference or "solutions")
    if not own_solutions.exists():
        refuse_if(args.reference, "grade.place", path=own_solutions, here=Path.cwd())
        _say(text("grade.no_solutions", path=own_solutions, here=Path.cwd()))
    answers, setups = works.reference(own_solutions)
    solved = works.chosen("", answers, due, {})
    handed_in = [
        works.chosen(student, files, due, setups) for student, files in submissions.items()
    ]
    _say(text("grade.due", due=", ".join(due)))
    for name, n in others.items():
        _say(text("grade.due.not", name=name, n=n, of=len(submissions)))

    n_processes = math.ceil(len(handed_in) * len(solved.due) / _QUESTIONS_OF_A_PROCESS)
    with Graders(key, limits, n_processes, own=args.own_work) as graders:
        if args.own_work:
            _say(text("grade.own_work"))
        _check_walls(graders, args.weak)
        if args.reference:
            _check_reference(graders, solved, args.reference)
        out.parent.mkdir(parents=True, exist_ok=True)
        results = Results(out, heading(notebooks.fingerprint(key), limits, graders.active))
        results.head["hide_truth"] = args.hide_truth
        failed = dict[str, str]()
        try:
            n = _grade_class(graders, handed_in, results, failed)
        finally:
            entries = [*results.entries.values()]
            report.remark(entries, key, listed, solved, submissions)
            marks.level(entries)
            results.head["failed"] = failed
            results.write()
            report.write(results)
            late = [
                e["student"] for e in entries if "time" in {q["trouble"] for q in e["questions"]}
            ]
            if late:
                _say(text("grade.late", n=len(late), students=names(late)))
            for note, students in grouped(entries).items():
                _say(line_of(note, students, MOST_NAMES))
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
    graders: Graders, handed_in: Sequence[works.Work], results: Results, failed: dict[str, str]
) -> int:
    """Grade all new or changed work, store results and failures as they come, and return how many were graded."""
    left = list[works.Work]()
    for work in handed_in:
        earlier = results.entries.get(work.student, {})
        if earlier.get("digest") != work.digest:
            left.append(work)
    if len(left) < len(handed_in):
        _say(text("grade.kept", n=len(handed_in) - len(left)))

    done = len(handed_in) - len(left)
    for work, entry in grade_all(graders, left):
        if isinstance(entry, str):
            failed[work.student] = entry
            _say(text("grade.failed", student=work.student, said=entry))
            continue
        results.add(entry)
        points, most = totals(entry)
        done += 1
        _say(
            text(
                "grade.done",
                n=done,
                of=len(handed_in),
                student=work.student,
                points=points,
                most=most,
            )
        )
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


def _replay(args: argparse.Namespace) -> int:
    """Repeat one verdict from a file of results alone; return 0 if it is the same, 1 if not."""
    key = notebooks.read_key(args.key, _say)
    head, entries = load(Path(args.results))
    own = notebooks.fingerprint(key)
    refuse_if(head["key"] != own, "grade.replay.key", key=head["key"], given=own)
    students = {entry["student"]: entry for entry in entries}
    name = args.student or (next(iter(students)) if len(students) == 1 else None)
    refuse_if(
        name not in students, "grade.replay.student", student=name or "-", known=", ".join(students)
    )
    asked = {q["question"]: q for q in students[name]["questions"]}
    id = args.question
    known = asked.keys() & judges.questions().keys()
    refuse_if(id not in known, "grade.replay.question", question=id, known=", ".join(asked))
    old = new = asked[id]
    if old["cells"]:
        with Graders(key, _limits_of(head).scaled(args.time_factor)) as graders:
            _check_walls(graders, args.weak)
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
    if "time" in (old["trouble"], new["trouble"]):
        lines.append(text("grade.replay.time"))
    lines.append(text("grade.made.with", **head))
    sys.stdout.write("\n".join([*lines, ""]))
    return 0 if same else 1


def _marks(args: argparse.Namespace) -> int:
    """Make the table of free texts, or merge its points and remarks; return 0 if every text has points, else 1."""
    file = Path(args.results)
    head, entries = load(file)
    table = Path(args.table)
    if args.points is not None:
        n = marks.new(table, entries, args.points)
        _say(text("grade.marks.made", n=n, path=table, results=file))
        return 0
    results = Results(file.with_suffix(".csv"), head)
    for sentence in marks.merge(table, results.entries):
        _say(sentence)
    results.write()
    report.write(results)
    left = dict[str, list[str]]()  # free text -> students
    for student, entry in results.entries.items():
        for name in unread(entry):
            left.setdefault(name, []).append(student)
    for name, students in left.items():
        about = {"name": name, "n": len(students), "students": names(students)}
        _say(text("grade.marks.left", **about))
    _say(text("grade.marks.merged", path=table, out=results.table))
    return 1 if left else 0


def _release(args: argparse.Namespace) -> int:
    """Write a key, or the files of a class."""
    if args.new_key:
        notebooks.new_key(Path(args.new_key))
        _say(text("grade.key.made", path=args.new_key))
    if not args.exercise:
        return 0
    key = args.key or args.new_key
    missing = list[str]()
    if not key:
        missing.append("--key")
    if not args.out:
        missing.append("--out")
    if missing:
        about = {"lacks": " ".join(missing), "exercises": " ".join(args.exercise)}
        raise InputRefused(text("grade.release.missing", **about))

    sources = [_source(name) for name in dict.fromkeys(args.exercise)]
    files = Counter(source.name for source in {*sources})
    twice = [name for name, n in files.items() if n > 1]
    refuse_if(twice, "grade.release.same", name=", ".join(twice))
    for source in sources:
        if own.is_exercise(source.parent):
            for sentence in check_exercise.refuse_unready(source.parent):
                _say(sentence)
    listed = notebooks.read_names(args.per_student)
    secret = notebooks.read_key(key, _say)
    written = notebooks.release(sources, secret, Path(args.out), listed)
    _say(text("grade.release.done", n=len(written), first=written[0]))
    return 0


def _source(name: str) -> Path:
    """Return the students' notebook of an exercise that was given by its number, its name or its file."""
    if own.is_exercise(own.FOLDER / name):
        return own.notebook(own.FOLDER / name)
    if not name.isdigit():
        here = ", ".join(folder.name for folder in own.folders()) or "-"
        refuse_if(not Path(name).is_file(), "grade.release.source", source=name, own=here)
        return Path(name)
    source = Path(f"exercises/exercise{name}.ipynb")
    refuse_if(not source.parent.is_dir(), "grade.place", path="exercises", here=Path.cwd())
    known = sorted(file.stem.removeprefix("exercise") for file in source.parent.glob("*.ipynb"))
    refuse_if(not source.is_file(), "grade.release.unknown", name=name, known=", ".join(known))
    return source


def add_to(parts: Any) -> None:
    """Add the commands to the parser of ``python -m fabriclab``, with their arguments from a table."""
    arguments = json.loads(Path(__file__).with_name("arguments.json").read_bytes())
    commands = {
        "grade": _grade,
        "marks": _marks,
        "replay": _replay,
        "release": _release,
        "new-exercise": new_exercise.run,
        "check-exercise": check_exercise.run,
    }
    for name, function in commands.items():
        command = parts.add_parser(
            name, help=text(f"grade.help.{name}"), description=function.__doc__
        )
        command.register("type", "float", float)  # the table names the type as a string
        command.set_defaults(run=function)
        for argument, about in arguments[name].items():
            command.add_argument(argument, **about | {"help": text(f"grade.help.{about['help']}")})


def run(args: argparse.Namespace) -> int:
    """Run a command and return its exit code; 2 if it was refused, with a sentence on how to correct it."""
    try:
        if args.run in (_grade, _marks, _replay):
            own.load_all()
        return int(args.run(args))
    except KeyboardInterrupt:
        _say(text("grade.stopped"))
        return 130
    except OSError as error:
        path = error.filename or getattr(args, "out", "-")
        disk_is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        key = "grade.full" if disk_is_full else "grade.file"
        _say(text(key, path=path, error=error.strerror or error))
    except (InputRefused, SandboxError) as error:
        _say(str(error))
    return 2
