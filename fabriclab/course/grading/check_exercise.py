"""The command ``check-exercise``: what is missing, unused or unfair in an own exercise, before a class gets it."""

import argparse
import ast
import itertools
import json
import re
import sys
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fabriclab.course import judges
from fabriclab.course.judges import JudgedQuestion, Unanswered
from fabriclab.course.judges.shared.function_parts import FunctionPart
from fabriclab.course.judges.shared.numbers import near
from fabriclab.course.judges.shared.parts import Observer, QuestionPart
from fabriclab.course.questions import Question, files, find, own
from fabriclab.course.shown import InputRefused, quantity, refuse_if
from fabriclab.formulas import evaluate
from fabriclab.texts import text

from . import works
from .graders import Graders, grade_all
from .limits import Limits
from .notebooks import CODE_STUB, Book, student_version, submission

# Keys with which mistakes are tried; each draws other cases. The first is that of fl.check.
_KEYS = (judges.PRACTICE, *(f"check {n}" for n in range(1, 20)))
_WRONG_OPTIONS = 3  # beside the right one: letters a to d
_REFERENCE_KEYS = 4  # illustrative: with so many of them the solution is run
_SHORT = 11  # illustrative: shorter lines, such as "return x", may stand elsewhere by chance
_TEXTS = ("title", "prompt", "hints", "explanation")
# Endings of the ids of cells that are no question, and whose setup runs before each answer.
_OTHER_CELLS = ("setup", "data")


class Finding(NamedTuple):
    """Something to mend in an exercise."""

    said: str
    blocks: bool = True  # whether a class may not get it; a missing text has a default


def run(args: argparse.Namespace) -> int:
    """Say what is to mend in an own exercise; return 0 if nothing is."""
    own.check_name(args.name)
    folder = own.FOLDER / args.name
    refuse_if(not folder.is_dir(), "own.unknown", name=args.name, folder=folder, here=Path.cwd())
    found = findings(folder)
    for finding in found:
        sys.stdout.write(f"- {finding.said}\n")
    blocking = sum(finding.blocks for finding in found)
    if blocking:
        said = text("own.check.blocked", name=args.name, n=blocking)
    elif found:
        said = text("own.check.defaults", name=args.name, n=len(found))
    else:
        said = text("own.check.ready", name=args.name, points=_points(args.name))
    sys.stdout.write(f"{said}\n")
    return 1 if found else 0


def refuse_unready(folder: Path) -> list[str]:
    """Raise if an own exercise may not be handed out; else return what could be better, in sentences."""
    found = findings(folder)
    blocking = [finding.said for finding in found if finding.blocks]
    refuse_if(blocking, "own.unready", name=folder.name, said="\n- ".join(["", *blocking]))
    return [finding.said for finding in found]


def findings(folder: Path) -> list[Finding]:
    """Return all that is to mend in an own exercise: files first, then texts, notebook and judging."""
    missing = [
        path.name
        for path in (own.notebook(folder), folder / own.JUDGE, folder / own.QUESTIONS)
        if not path.is_file()
    ]
    if missing:
        return [_finding("file", file=", ".join(missing), folder=folder)]
    try:
        content = tomllib.loads((folder / own.QUESTIONS).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        return [_finding("toml", file=own.QUESTIONS, error=error)]

    entries = {id: entry for id, entry in content.items() if isinstance(entry, dict)}
    found = [*_keys(entries)]
    if not content.get("title"):
        found.append(_finding("no_title", blocks=False, file=own.QUESTIONS, default=folder.name))
    if any(finding.blocks for finding in found):
        return found
    try:
        own.load(folder)
        book = json.loads(own.notebook(folder).read_bytes())
    except InputRefused as error:
        return [*found, Finding(str(error))]
    except ValueError as error:
        return [*found, _finding("json", file=own.notebook(folder).name, error=error)]

    try:
        found += _cells(folder.name, book, entries)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = str(error) if isinstance(error, ValueError) else repr(error)
        return [*found, _finding("notebook", error=problem)]
    found += _wrong_options(entries)
    found += _on_the_way(entries)
    code = ast.parse((folder / own.JUDGE).read_text(encoding="utf-8-sig"))
    literals = {node.value for node in ast.walk(code) if isinstance(node, ast.Constant)}
    # What is said of these questions explains why their solution has no points.
    explained = entries.keys() - _marks(book).keys()
    # An error in a judge costs the author one finding instead of a traceback.
    for question in judges.exercise(folder.name):
        try:
            found += _sentences(question, entries[question.id], literals)
            found += _judging(question)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            line = own.line(error, folder / own.JUDGE)
            found.append(_finding("judge", id=question.id, error=said, line=line))
            explained.add(question.id)
    found += _solved(folder, book, explained)
    return found


def _finding(problem: str, /, *, blocks: bool = True, **fields: object) -> Finding:
    return Finding(text(f"own.check.{problem}", **fields), blocks)


def _points(name: str) -> int:
    return sum(question.points for question in judges.exercise(name))


# Texts -----------------------------------------------------------------------------------------------------------


def _keys(entries: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield each key that an entry lacks or that nobody reads."""
    for id, entry in entries.items():
        kind = entry.get("kind")
        needed: tuple[str, ...] = ("functions", "points")
        optional: tuple[str, ...] = files.OF_EXERCISE
        if kind in files.KINDS:
            needed = ("kind", *files.KINDS[kind][0])
            optional = (*files.OF_LESSON, *files.KINDS[kind][1])
        elif kind is not None:
            yield _finding("kind", id=id, kind=kind, known=", ".join(files.KINDS))
            continue
        no_list = [key for key in ("hints", "wrong") if not isinstance(entry.get(key, []), list)]
        if no_list:
            yield _finding("no_list", id=id, key=no_list[0])
            continue
        defaults = files.default_texts(id, entry)
        for key in _TEXTS:
            if key == "hints" and len(entry.get(key, ())) < len(files.HINTS):
                n = len(entry.get(key, ()))
                yield _finding("hints", blocks=False, id=id, n=n, of=len(files.HINTS))
            elif not entry.get(key, key == "hints"):
                default = defaults.get(key) or "-"
                yield _finding("text", blocks=False, id=id, key=key, default=default)
        if kind in ("choice", "pick") and len(entry.get("wrong", ())) != _WRONG_OPTIONS:
            yield _finding("options", id=id, n=len(entry.get("wrong", ())), of=_WRONG_OPTIONS)
        for key in needed:
            if key not in _TEXTS and key not in entry:
                yield _finding("key", id=id, key=key)
        points = entry.get("points", 1)
        if kind is None and isinstance(points, int | float) and points <= 0:
            yield _finding("no_points", id=id, points=points)
        for key in entry:
            if key not in (*needed, *optional, *_TEXTS):
                yield _finding("unused", id=id, key=key)
        for function in entry.get("hints_of", {}):
            if function not in entry.get("functions", ()):
                yield _finding("unused", id=id, key=f"hints_of.{function}")


def _wrong_options(entries: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield each known wrong answer, of questions that are not graded, without a sentence."""
    for id, entry in entries.items():
        for wrong in entry.get("wrong", ()):
            if not files.misconception(id, wrong["mistake"]):
                yield _finding("slip", blocks=False, id=id, mistake=wrong["mistake"])


def _on_the_way(entries: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield questions on the way that cannot be asked, and their wrong answers that count as right."""
    for id, entry in entries.items():
        if entry.get("kind") not in ("choice", "number", "pick"):
            continue
        try:
            for mistake, given in _counted_as_right(find(id)).items():
                setting = ", ".join(f"{name} = {value}" for name, value in given.items()) or "-"
                yield _finding("right", id=id, mistake=mistake, setting=setting)
        except Exception as error:
            said = (
                str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            )
            yield _finding("aside", id=id, error=said)


def _counted_as_right(question: Question) -> dict[str, Mapping[str, str]]:
    """Return each wrong answer that is right, too, with the quantities of the first case in which it is."""
    if question.kind == "choice":
        return {wrong.mistake: {} for wrong in question.wrong if wrong.option == question.right}
    quantity(question.unit)  # raises if there is no such unit
    found = dict[str, Mapping[str, str]]()
    for values in itertools.product(*question.params.values()):
        given = dict(zip(question.params, values, strict=True))
        names, _ = question.fill(given)
        for wrong in question.wrong:
            if near(evaluate(wrong.formula, names), question.key(given), question.tolerance):
                found.setdefault(wrong.mistake, given)
    return found


def _sentences(
    question: JudgedQuestion, entry: Mapping[str, Any], literals: Container[object]
) -> Iterator[Finding]:
    """Yield each mistake of a judge without a sentence, and each sentence without a mistake.

    A judge that is no `FunctionPart` may name a mistake anywhere, so all its ``literals`` count.
    """
    mistakes = set[str]()
    for part in _observed(question, judges.PRACTICE, _unanswered).parts:
        if isinstance(part, FunctionPart):
            mistakes |= part.slips().keys()
            if part.question != question.id:
                name = type(part).__name__
                yield _finding("other", id=question.id, name=name, question=part.question)
                return  # its sentences are noted for that question
    for mistake in sorted(mistakes):
        if not files.misconception(question.id, mistake):
            yield _finding("slip", blocks=False, id=question.id, mistake=mistake)
    for mistake in entry.get("misconceptions", {}):
        if mistake not in mistakes and mistake not in literals:
            yield _finding("unused", id=question.id, key=f"misconceptions.{mistake}")


# The notebook ----------------------------------------------------------------------------------------------------


def _cells(name: str, book: Book, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield what is wrong with the cells of a notebook."""
    marks = _marks(book)
    code = ""
    before = set[str]()
    for place, cell in enumerate(book["cells"]):
        id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if id and id in before:
            yield _finding("twice", id=id)
        before.add(id)
        if cell["cell_type"] == "code":
            code += "".join(cell["source"]) + "\n"
            if cell.get("outputs"):
                yield _finding("outputs", cell=cell.get("id", place + 1))

    for id, entry in entries.items():
        if "kind" in entry and f'"{id}"' not in code:
            yield _finding("not_asked", id=id)
        if "kind" in entry:
            continue
        if id not in marks and f"{id}-test" not in marks:
            yield _finding("no_cells", id=id)
            continue
        if not marks.get(id, {}).get("solution"):
            yield _finding("no_cell", id=id)
        test = marks.get(f"{id}-test", {})
        if not test.get("grade") or f'fl.check("{id}"' not in code:
            yield _finding("no_test", id=id)
        elif test.get("points") != entry.get("points"):
            yield _finding("points", id=id, cell=test.get("points"), file=entry.get("points"))
    yield from _asked(name, book, entries)
    if f"{name}-setup" not in marks:
        yield _finding("no_setup", id=f"{name}-setup")
    known = {f"{name}-{ending}" for ending in _OTHER_CELLS}
    known |= {id for entry in entries for id in (entry, f"{entry}-test")}
    for id, about in marks.items():
        is_text = about.get("grade") and about.get("solution")  # a free text, which a person reads
        if id not in known and not is_text:
            yield _finding("stray", id=id)
    yield from _told(book)


def _marks(book: Book) -> dict[str, Mapping[str, Any]]:
    """Return what the cells are to a grader, by their ids; of two cells with the same id the last counts."""
    marks = (cell["metadata"].get("nbgrader", {}) for cell in book["cells"])
    return {about["grade_id"]: about for about in marks if about.get("grade_id")}


def _asked(name: str, book: Book, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield each question that a cell asks and nobody wrote, and each function that a graded cell does not pass on."""
    calls = re.compile(rf"""fl\.check\(\s*["']({name}-\w+)["']([^)]*)\)""")
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        for id, arguments in calls.findall("".join(cell["source"])):
            if id not in entries:
                yield _finding("asks_unknown", id=id)
                continue
            graded = cell["metadata"].get("nbgrader", {}).get("grade_id") == f"{id}-test"
            passed = re.findall(r"\w+", arguments)
            for function in entries[id].get("functions", ()) if graded else ():
                if function not in passed:
                    yield _finding("not_passed", id=id, function=function)


def _told(book: Book) -> Iterator[Finding]:
    """Yield each line of a solution that students would see, and each answer that nothing replaces."""
    shown = student_version(book)
    public = {
        line.strip() for cell in shown["cells"] for line in "".join(cell["source"]).split("\n")
    }
    for before, after in zip(book["cells"], shown["cells"], strict=True):
        about = before["metadata"].get("nbgrader", {})
        lines = "".join(before["source"]).split("\n")
        if before["cell_type"] != "code" or not about.get("solution"):
            continue
        if "### BEGIN SOLUTION" not in "".join(before["source"]):
            yield _finding("no_marks", id=about.get("grade_id"))
        elif not any(stub.strip() in "".join(after["source"]) for stub in CODE_STUB):
            yield _finding("open", id=about.get("grade_id"))
        inside = False
        for line in lines:
            if "### BEGIN SOLUTION" in line or "### END SOLUTION" in line:
                inside = "BEGIN" in line
            elif inside and len(line.strip()) > _SHORT and line.strip() in public:
                yield _finding("told", id=about.get("grade_id"), line=line.strip())


# Judging ---------------------------------------------------------------------------------------------------------


def _unanswered(name: str, *arguments: Any) -> Any:
    raise Unanswered("asked", name)


def _observed(question: JudgedQuestion, key: str, answer: judges.Ask) -> Observer:
    observer = Observer(answer)
    try:
        question.judge(observer, judges.draw(key, question.id))
    except Unanswered:
        pass
    return observer


def _judging(question: JudgedQuestion) -> Iterator[Finding]:
    """Yield what is unfair in a judge: functions that are not asked, shares, mistakes and constants with points."""
    observer = _observed(question, judges.PRACTICE, _unanswered)
    if not observer.parts:
        return  # the judge asks before it makes parts, so only its reference can be tried
    for name in sorted({*question.functions} ^ observer.asked):
        key = "not_called" if name in question.functions else "not_listed"
        yield _finding(key, id=question.id, function=name)
    share = sum(part.share for part in observer.parts)
    if abs(share - 1) > 1e-9:  # rounding
        yield _finding("share", id=question.id, share=f"{share:g}")

    if _drawn(question) != _drawn(question):
        yield _finding("redrawn", id=question.id)
        return  # mistakes would be told of other cases each time

    numbers = dict[tuple[str, str], bool]()  # function, mistake; whether it led to a number
    earning = dict[tuple[str, str], None]()  # function, mistake; without order, each once
    misnamed = dict[tuple[str, str], str]()
    for key in _KEYS:
        parts = _observed(question, key, _unanswered).parts
        for part in parts:
            if not isinstance(part, FunctionPart):
                continue
            for mistake in part.slips():
                got = any(part.slipped(mistake, call.arguments) is not None for call in part.calls)
                numbers[part.function, mistake] = (
                    numbers.get((part.function, mistake), False) or got
                )
                worth, named = _judged(question, key, parts, part, mistake)
                if worth > 0:
                    earning[part.function, mistake] = None
                elif named and named != mistake:
                    misnamed[part.function, mistake] = named
            fault = part.unfair([call.arguments for call in part.calls])
            if fault and fault not in part.slips():
                earning[part.function, fault] = None
    for (function, mistake), is_number in numbers.items():
        if not is_number:
            yield _finding("no_number", id=question.id, function=function, mistake=mistake)
    for function, mistake in earning:
        yield _finding("earns", id=question.id, function=function, mistake=mistake)
    for (function, mistake), named in misnamed.items():
        yield _finding("named", id=question.id, function=function, mistake=mistake, named=named)


def _drawn(question: JudgedQuestion) -> list[str]:
    """Return the cases that the practice key draws, as text, without the addresses of objects."""
    parts = _observed(question, judges.PRACTICE, _unanswered).parts
    calls = [repr(call) for part in parts if isinstance(part, FunctionPart) for call in part.calls]
    return [re.sub(r" at 0x[0-9a-fA-F]+", "", call) for call in calls]


def _judged(
    question: JudgedQuestion,
    key: str,
    parts: Sequence[QuestionPart],
    wrong: FunctionPart,
    mistake: str,
) -> tuple[float, str]:
    """Return what a mistake in one part earns of that part if all else is right, and the mistake that is named."""
    known = {part.function: part for part in parts if isinstance(part, FunctionPart)}

    def answer(name: str, *arguments: Any) -> Any:
        if name not in known:
            raise Unanswered("asked", name)
        if name != wrong.function:
            return known[name].true(*arguments)
        slipped = wrong.slipped(mistake, arguments)
        if slipped is None:
            raise Unanswered("asked", name)
        return slipped

    try:
        verdict = question.judge(answer, judges.draw(key, question.id))
    except Unanswered:
        return 0.0, ""
    worth = sum(part.worth for part in verdict.parts if part.name == wrong.name)
    return worth, verdict.mistake


def _solved(folder: Path, book: Book, explained: Container[str]) -> Iterator[Finding]:
    """Yield questions for which the solution lacks points or a blank file has some, unless they are ``explained``."""
    blank = student_version(book)
    runs = [("reference", book, key) for key in _KEYS[:_REFERENCE_KEYS]]
    runs.append(("blank", blank, judges.PRACTICE))
    told = set[tuple[str, str]]()
    for kind, notebook, key in runs:
        work = works.chosen(kind, {kind: submission(notebook)}, [folder.name], {})
        with Graders(key, Limits(), own=True) as graders:
            ((_, entry),) = grade_all(graders, [work])
        assert not isinstance(entry, str)  # its file was read
        for record in entry["questions"]:
            id = record["question"]
            is_wrong = record["points"] < record["of"] if kind == "reference" else record["points"]
            if is_wrong and (kind, id) not in told and id not in explained:
                told.add((kind, id))
                about = {"points": f"{record['points']:g}", "of": record["of"]}
                yield _finding(kind, id=id, said=" ".join(record["said"]), **about)
