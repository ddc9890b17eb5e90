"""The commands ``grade``, ``replay`` and ``release``: what is typed, what is said, and the exit code."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fabriclab import exercises
from fabriclab.checks import Refused
from fabriclab.grading import copies, grade, own, release, report
from fabriclab.grading.results import Entry, Results, cores, heading, load, noted, totals
from fabriclab.grading.sandbox import Limits, Sandbox, SandboxError
from fabriclab.texts import text

__all__ = ["add_to", "run"]


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def _scaled(limits: Limits, factor: float) -> Limits:
    if not 0 < factor <= 100:
        raise Refused(text("grade.factor", factor=factor))
    return limits.scaled(factor)


def _grade(given: argparse.Namespace) -> int:
    """Grade a folder; return 0 if every student has a grade, 1 if some could not be graded, 130 after Ctrl-C."""
    out, key = Path(given.out), release.read_key(given.key)
    if out.suffix != ".csv":
        raise Refused(text("grade.out", out=out))
    names = release.read_names(given.per_student)
    pages = out.with_suffix("")
    works = grade.collect(Path(given.folder), [*exercises.questions().values()], pages.resolve())
    limits, failed, begun = _scaled(Limits(), given.time_factor), [], time.monotonic()
    due = [question for question, _ in works[0].due]
    solved = grade.reference(Path(given.reference or "solutions"), due)
    published = {id: copies.bare(source) for id, source in grade.answers(solved).items()}
    with ExitStack() as stack:
        if given.own_work:
            if Path(given.folder).is_dir():
                raise Refused(text("grade.own_folder", folder=given.folder))
            _say(text("grade.own_work"))
            boxes: list[Any] = [own.Own()]
        else:
            boxes = [stack.enter_context(Sandbox(limits)) for _ in range(min(cores(), len(works), 8))]
        if given.reference:
            grade.check_reference(boxes[0], key, Path(given.reference), solved)
            _say(text("grade.reference.right", folder=given.reference))
        out.parent.mkdir(parents=True, exist_ok=True)
        results = Results(out, heading(release.fingerprint(key), limits, boxes[0].active))
        digests = {name: entry["digest"] for name, entry in results.entries.items()}
        left = [work for work in works if digests.get(work.student) != work.digest]
        if len(left) < len(works):
            _say(text("grade.kept", n=len(works) - len(left)))

        def done(work: grade.Work, entry: Entry | SandboxError) -> None:
            if isinstance(entry, SandboxError):
                failed.append(work.student)
                return _say(text("grade.failed", student=work.student, said=entry))
            results.add(entry)
            report.write_page(pages, results.head, entry)
            points, most = totals(entry)
            n = sum(work.student in results.entries for work in works)
            _say(text("grade.done", n=n, of=len(works), student=work.student, points=points, most=most))

        try:
            grade.grade_all(left, key, boxes, done)
        finally:
            copies.remark([*results.entries.values()], key, names, published)
            results.write()
            entries = [*results.entries.values()]
            report.write_summary(out.with_suffix(".html"), results.head, entries, failed)
            report.write_texts(out.with_name(f"{out.stem}-texts.html"), entries)
            for entry in entries:
                if said := " ".join(noted(entry)):
                    _say(text("grade.note", student=entry["student"], said=said))
    seconds = f"{time.monotonic() - begun:.1f}"
    _say(text("grade.ready", n=len(left), seconds=seconds, out=out, page=out.with_suffix(".html")))
    return 1 if failed else 0


def _replay(given: argparse.Namespace) -> int:
    """Repeat one verdict from a file of results alone; return 0 if it is the same, 1 if not."""
    key, (head, entries) = release.read_key(given.key), load(Path(given.results))
    if head["key"] != release.fingerprint(key):
        raise Refused(text("grade.replay.key", key=head["key"], given=release.fingerprint(key)))
    students = {entry["student"]: entry for entry in entries}
    name = given.student or (next(iter(students)) if len(students) == 1 else None)
    if name not in students:
        raise Refused(text("grade.replay.student", student=name or "-", known=", ".join(students)))
    asked = {q["question"]: q for q in students[name]["questions"]}
    if given.question not in asked.keys() & exercises.questions().keys():
        raise Refused(text("grade.replay.question", question=given.question, known=", ".join(asked)))
    old = new = asked[given.question]
    if old["cells"]:
        with Sandbox(_scaled(Limits(**head["limits"]), given.time_factor)) as box:
            new, _ = grade.grade_cells(box, key, exercises.find(given.question), old["cells"], old["token"])
    same = all(new[part] == old[part] for part in ("points", "of", "mistake"))
    # What was noted about the file, such as that a cell is there twice, stands after the verdict.
    same = same and new["said"] == old["said"][: len(new["said"])]
    lines = [f"{name}, {given.question}: {new['points']:g} / {new['of']:g} {new['mistake']}".rstrip(), *new["said"]]
    told = {"points": f"{old['points']:g}", "said": " ".join(old["said"])}
    lines += [text("grade.replay.same") if same else text("grade.replay.other", **told), report.versions(head)]
    lines[-1:-1] = [text("grade.replay.time")] * ("time" in (old["trouble"], new["trouble"]))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if same else 1


def _release(given: argparse.Namespace) -> int:
    """Write a key, or the files of a class."""
    if given.new_key:
        release.new_key(Path(given.new_key))
        _say(text("grade.key.made", path=given.new_key))
    if not given.exercise:
        return 0
    key = given.key or given.new_key
    if lacks := " ".join(["--key"] * (not key) + ["--out"] * (not given.out)):
        raise Refused(text("grade.release.missing", lacks=lacks))
    source = Path(given.exercise)
    if given.exercise.isdigit():
        source = Path("solutions", f"exercise{given.exercise}.ipynb")
    if not source.is_file():
        raise Refused(text("grade.release.source", source=source))
    students = release.read_names(given.per_student)
    written = release.release(source, release.read_key(key), Path(given.out), students)
    _say(text("grade.release.done", n=len(written), first=written[0]))
    return 0


def add_to(parts: Any) -> None:
    """Add the three commands to the parser of ``python -m fabriclab``."""
    one = parts.add_parser("grade", help=text("grade.help.grade"), description=_grade.__doc__)
    one.set_defaults(run=_grade)
    one.add_argument("folder", metavar="FOLDER", help=text("grade.help.folder"))
    one.add_argument("--out", metavar="FILE.csv", required=True, help=text("grade.help.out"))
    one.add_argument("--reference", metavar="DIR", help=text("grade.help.reference"))
    one.add_argument("--key", metavar="FILE", help=text("grade.help.key"))
    one.add_argument("--time-factor", metavar="X", type=float, default=1.0, help=text("grade.help.factor"))
    one.add_argument("--per-student", metavar="LIST", help=text("grade.help.class"))
    one.add_argument("--own-work", action="store_true", help=text("grade.help.own"))
    one = parts.add_parser("replay", help=text("grade.help.replay"), description=_replay.__doc__)
    one.set_defaults(run=_replay)
    one.add_argument("results", metavar="RESULT.json", help=text("grade.help.results"))
    one.add_argument("question", metavar="QUESTION", help=text("grade.help.asked"))
    one.add_argument("--student", metavar="NAME", help=text("grade.help.student"))
    one.add_argument("--key", metavar="FILE", help=text("grade.help.key"))
    one.add_argument("--time-factor", metavar="X", type=float, default=1.0, help=text("grade.help.factor"))
    one = parts.add_parser("release", help=text("grade.help.release"), description=_release.__doc__)
    one.set_defaults(run=_release)
    one.add_argument("exercise", metavar="EXERCISE", nargs="?", help=text("grade.help.exercise"))
    one.add_argument("--key", metavar="FILE", help=text("grade.help.release_key"))
    one.add_argument("--per-student", metavar="LIST", help=text("grade.help.per_student"))
    one.add_argument("--out", metavar="DIR", help=text("grade.help.folder_out"))
    one.add_argument("--new-key", metavar="FILE", help=text("grade.help.new_key"))


def run(given: argparse.Namespace) -> int:
    """Do what was asked and return its exit code; 2 if it was refused, with a sentence that says how to mend it."""
    try:
        return int(given.run(given))
    except KeyboardInterrupt:
        _say(text("grade.stopped"))
        return 130
    except OSError as error:
        _say(text("grade.file", path=error.filename, error=error.strerror))
    except (Refused, SandboxError) as error:
        _say(str(error))
    return 2
