"""The gates of a lesson, as functions: each takes a notebook and returns sentences, one per fault.

``test_lessons.py`` says what a notebook states and applies them; nothing here is a test.
"""

import ast
import builtins
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from typing import Any

from fabriclab.course.checks import statements
from fabriclab.course.questions import questions
from lesson_files import ROWS

DUTIES = ("predict", "experiment", "compare", "break", "check")
SHAPES = ("measurement", "puzzle", "detective", "design", "duel", "build")
FORMS = {  # what a notebook is -> the duties that its cells have
    "lesson": DUTIES,
    "short": ("experiment", "check"),  # one idea, half as long, beside a lesson: 21b
    "note": (),  # tables to look things up in
}
BANNED = re.compile(r"\b(simply|just|obviously|easy|easily|of course)\b", re.IGNORECASE)
STALE = re.compile(
    r"(predict|prediction|explore|break|break it|check|check yourself|experiment|compare|your turn|introduction|"
    r"summary|conclusion)\W*"
)
NEED_ANSWER = ("skill", "question", "exercise", "demo")
NEED_PROOF = ("fact", "figure", "table")
CLAIMS, NEAR = 4, 2  # rows that a cell claims at most; how many cells away a proof may stand
FASTEST = 240  # words a minute: what is promised is not faster than people read silently
LINE_LENGTH = 72  # JupyterLab shows it whole in a window of 1,024 pixels, beside the file browser and a scroll bar


# What a notebook holds -------------------------------------------------------------------------------------------


def cells(nb: Any, kind: str) -> list[Any]:
    return [cell for cell in nb.cells if cell.cell_type == kind]


def about(nb: Any) -> Mapping[str, Any]:
    return nb.metadata.get("fabriclab", {})


def form(nb: Any) -> str:
    return str(about(nb).get("form", "lesson"))


def duties(cell: Any) -> list[str]:
    found = cell.metadata.get("duty", [])
    return [found] if isinstance(found, str) else list(found)


def tree(cell: Any) -> ast.Module:
    """Return the parsed code of a cell; lines of the notebook's own commands are left out."""
    return parsed(cell.source)


@cache
def parsed(source: str) -> ast.Module:
    """Return parsed code, as `tree` does."""
    if source.startswith("%%"):
        return ast.parse("")
    return ast.parse(
        "\n".join("pass" if re.match(r"\s*[%!]", line) else line for line in source.split("\n"))
    )


def calls(cell: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name of each called function and its first argument, if that is a constant."""
    for node in ast.walk(tree(cell)):
        if isinstance(node, ast.Call):
            name = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            first = (
                node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            )
            yield name, first


def where(nb: Any, name: str) -> dict[str, int]:
    """Return the first argument of each call of a function ``name`` -> the first cell that makes it."""
    found: dict[str, int] = {}
    for number, cell in enumerate(nb.cells):
        for function, first in calls(cell) if cell.cell_type == "code" else ():
            if function == name and first is not None:
                found.setdefault(str(first), number)
    return found


def prose(source: str) -> str:
    """Return Markdown without code, tags and addresses."""
    source = re.sub(r"```.*?```|`[^`]*`|<[^>]*>", " ", source, flags=re.DOTALL)
    return re.sub(r'!?\[([^\]]*)\]\((?:"[^"]*"|[^)"])*\)', r"\1", source)


def core_end(nb: Any) -> int:
    """Return the number of the cell that closes the core, or the number of cells."""
    ends = [i for i, cell in enumerate(nb.cells) if cell.metadata.get("section") == "core-end"]
    return ends[0] if ends else len(nb.cells)


# Gates without a run ---------------------------------------------------------------------------------------------


def gate_format(nb: Any, name: str) -> Iterator[str]:
    if (nb.nbformat, nb.nbformat_minor) != (4, 5):
        yield f"nbformat is {nb.nbformat}.{nb.nbformat_minor}, not 4.5"
    if nb.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    ids = [cell.get("id") for cell in nb.cells]
    if len(set(ids)) < len(ids) or not all(ids):
        yield "cell ids are missing or not unique"
    for cell in cells(nb, "code"):
        if cell.outputs or cell.execution_count is not None:
            yield f"cell {cell.id} is committed with its output; clear it"


def gate_header(nb: Any, name: str) -> Iterator[str]:
    header, first = about(nb), nb.cells[0].source
    missing = {
        "title",
        "minutes",
        "needs",
        "objectives",
        "version",
        "facts",
    } - header.keys()
    if form(nb) not in FORMS:
        yield f"form {form(nb)!r} is none of {tuple(FORMS)}"
        return
    if form(nb) == "lesson" and "shape" not in header:
        missing.add("shape")
    if missing:
        yield f"metadata.fabriclab lacks {sorted(missing)}"
        return
    for wanted in (f"# {header['title']}\n", *(goal["text"] for goal in header["objectives"])):
        if wanted not in first + "\n":
            yield f"the first cell does not show {wanted!r}"
    minutes = [str(header["minutes"][part]) for part in ("read", "do")]
    everywhere = "\n".join(cell.source for cell in cells(nb, "markdown"))
    for wanted in (*minutes, header["version"], header["facts"]):
        if wanted not in everywhere:
            yield f"no cell shows {wanted!r}: minutes, version and date of facts stand at the foot"
    if not first.startswith("# "):
        yield "the first cell does not begin with the title"
    words = sum(len(prose(cell.source).split()) for cell in cells(nb, "markdown"))
    if words > FASTEST * header["minutes"]["read"]:
        yield f"{words} words, folds included, are more than {FASTEST} for each minute to read"
    fewest, most = {"lesson": (3, 3), "short": (1, 3), "note": (0, 3)}[form(nb)]
    if not fewest <= len(header["objectives"]) <= most:
        wanted = "three" if fewest == most else f"{fewest} to {most}"
        yield f"there are {len(header['objectives'])} objectives, not {wanted}"
    if header.get("shape", SHAPES[0]) not in SHAPES:
        yield f"shape {header['shape']!r} is none of {SHAPES}"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", header["facts"]) or date.fromisoformat(
        header["facts"]
    ) > date(2100, 1, 1):
        yield f"the date of facts {header['facts']!r} is no date"
    for lesson in header["needs"]:
        if not re.fullmatch(r"\d\d[a-z]?_\w+", lesson) or lesson >= name:
            yield f"needs {lesson!r}, which is no earlier lesson"


def gate_duties(nb: Any, name: str) -> Iterator[str]:
    found = {duty for cell in cells(nb, "code") for duty in duties(cell)}
    if missing := set(FORMS[form(nb)]) - found:
        yield f"no code cell has the duty {sorted(missing)}"
    if unknown := {duty for cell in nb.cells for duty in duties(cell)} - set(DUTIES):
        yield f"unknown duty {sorted(unknown)}"
    if form(nb) == "note":
        return
    core = [cell for cell in nb.cells[: core_end(nb)] if cell.cell_type == "code"]
    places = [i for i, cell in enumerate(core, 1) if "experiment" in duties(cell)]
    if not places or places[0] > math.ceil(len(core) / 3):
        yield f"the experiment is in code cells {places} of {len(core)}, not in the first third of the core"


def gate_core(nb: Any, name: str) -> Iterator[str]:
    ends = [cell for cell in nb.cells if cell.metadata.get("section") == "core-end"]
    if form(nb) == "lesson" and (len(ends) != 1 or ends[0].cell_type != "markdown"):
        yield "there is not one Markdown cell with section core-end, which closes the core"
    after = [cell for cell in nb.cells[core_end(nb) + 1 :] if cell.cell_type == "code"]
    if ends and after and "you have the core" not in ends[0].source.lower():
        yield 'code follows the close of the core, and the close does not say "you have the core"'
    for cell in cells(nb, "code"):
        for line in (line for line in cell.source.split("\n") if len(line) > LINE_LENGTH):
            yield f"cell {cell.id} has a line of {len(line)} characters, more than {LINE_LENGTH}: {line.strip():.30}"


def gate_learner(nb: Any, name: str) -> Iterator[str]:
    code = cells(nb, "code")
    mine = sum(bool(cell.metadata.get("learner")) for cell in code)
    if form(nb) != "note" and 3 * mine < len(code):
        yield f"the learner changes or writes {mine} of {len(code)} code cells, less than one in three"
    for cell in code:
        kinds = {type(node) for node in ast.walk(tree(cell))}
        if ast.ClassDef in kinds:
            yield f"cell {cell.id} defines a class; models live in the package"
        if kinds & {ast.FunctionDef, ast.AsyncFunctionDef} and not cell.metadata.get("learner"):
            yield f"cell {cell.id} defines a function, and is no cell that the learner writes"


# What `fl` offers that is seen only as the last line of a cell, or in `display`.
SEEN_AT_THE_END = re.compile(r"fl\.(after_guess|check|predict|reveal|live\.\w+|views\.\w+)")


def gate_seen(nb: Any, name: str) -> Iterator[str]:
    for cell in cells(nb, "code"):
        for step in tree(cell).body[:-1]:
            if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call):
                called = ast.unparse(step.value.func)
                if SEEN_AT_THE_END.fullmatch(called):
                    yield f"cell {cell.id} shows nothing of {called}, because it is not the last line"


def gate_prose(nb: Any, name: str) -> Iterator[str]:
    texts = [cell.source for cell in cells(nb, "markdown")]
    for cell in nb.cells:
        for hit in BANNED.findall(
            prose(cell.source) if cell.cell_type == "markdown" else cell.source
        ):
            yield f"cell {cell.id} says {hit!r}"
    for line in (line for text in texts for line in text.split("\n") if line.startswith("#")):
        if STALE.fullmatch(line.lstrip("# ").lower()):
            yield f"heading {line!r} names a duty; say the question or the finding"


def gate_predictions(nb: Any, name: str, earlier: Mapping[str, Any]) -> Iterator[str]:
    made, shown = where(nb, "predict"), where(nb, "reveal")
    if len(made) > 2:
        yield f"there are {len(made)} predictions, more than two"
    for id, place in shown.items():
        if id in made and made[id] >= place:
            yield f"prediction {id} comes after its reveal, or in the same cell"
        if id not in made and not any(id in where(other, "predict") for other in earlier.values()):
            yield f"{id} is revealed, and neither this lesson nor an earlier one predicts it"
    cell_of = {place: id for id, place in made.items()}
    for number, cell in enumerate(nb.cells):
        if "predict" in duties(cell) and number not in cell_of:
            yield f"cell {cell.id} has the duty predict, and predicts nothing"


def gate_questions(nb: Any, name: str) -> Iterator[str]:
    table = questions()
    asked = set(where(nb, "check"))
    for number in where(nb, "drill"):
        asked |= {q.id for q in table.values() if q.drill == f"units/{number}"}
    if unknown := asked - table.keys():
        yield f"{sorted(unknown)} is asked, and not in the table of questions"
    if left := {q.id for q in table.values() if q.lesson == name} - asked:
        yield f"{name.split('_')[0]}.toml has {sorted(left)}, and no cell asks it with fl.check or fl.drill"
    for goal in about(nb).get("objectives", []):
        drill = goal["check"].removeprefix("drill:")
        proofs = {q.id for q in table.values() if q.drill.startswith(f"{drill}/")} or {
            goal["check"]
        }
        if not proofs <= asked:
            yield f"the objective {goal['text']!r} is proved by {goal['check']!r}, which no cell asks"


def gate_covers(nb: Any, name: str) -> Iterator[str]:
    for cell, id, fault in unfounded(nb):
        yield f"cell {cell.id} covers {id}: {fault}"


def unfounded(nb: Any) -> Iterator[tuple[Any, str, str]]:
    """Yield the cell, the row and the fault of each claim that does not hold.

    ``covers`` names with each row the words of the cell that teach it, so that a claim moved to another cell is
    found: the id of a question, a piece of code, or words of one row of a table.
    """
    for number, cell in enumerate(nb.cells):
        claims = cell.metadata.get("covers", {})
        if not isinstance(claims, Mapping):
            yield from ((cell, id, "no words of the cell are named") for id in claims)
            continue
        rows = table_rows(cell)
        for id, said in claims.items():
            if id not in ROWS:
                yield cell, id, "it is no row of the list"
            elif len(claims) > CLAIMS and (not rows or len(rows) < len(claims)):
                yield cell, id, f"one of {len(claims)} rows, and a cell claims {CLAIMS} at most"
            elif fault := (
                fault_in_table(nb, number, id, said)
                if cell.cell_type == "markdown"
                else fault_in_code(nb, cell, id, said)
            ):
                yield cell, id, fault


def fault_in_code(nb: Any, cell: Any, id: str, said: str) -> str:
    """Return what is wrong with a claim of a code cell, or nothing."""
    kind = ROWS[id]["kind"]
    if kind in NEED_ANSWER:
        demo = views if kind == "demo" else lambda each: set()
        held = [each for each in cells(nb, "code") if said in asked(each) | demo(each)]
        missing = f"a row of kind {kind} names a question of the cell, and {said!r} is none"
    else:
        held = [each for each in cells(nb, "code") if said in each.source]
        missing = f"the cell does not hold {said!r}"
    if cell not in held:
        return missing
    if len(held) > 1:
        return f"{len(held)} cells hold {said!r}"
    return "" if asked(cell) or shows(cell) else "the cell asks nothing, and shows nothing computed"


def fault_in_table(nb: Any, number: int, id: str, said: str) -> str:
    """Return what is wrong with a claim of a Markdown cell, or nothing."""
    cell, kind = nb.cells[number], ROWS[id]["kind"]
    if not table_rows(cell):
        return "it is covered with prose alone"
    if kind in NEED_ANSWER:
        return f"a row of kind {kind} needs a question"
    mine = [row for row in table_rows(cell) if said in row]
    held = [row for each in cells(nb, "markdown") for row in table_rows(each) if said in row]
    if len(mine) != 1 or len(held) != 1:
        return f"{said!r} stands in {len(mine)} rows of its table, {len(held)} of the lesson's"
    claims = cell.metadata["covers"]
    if any(other != id and words in mine[0] for other, words in claims.items()):
        return "another claim names the same row of the table"
    near = nb.cells[max(0, number - NEAR) : number + NEAR + 1]
    if kind in NEED_PROOF and not any(proves(each, id) for each in near):
        return f"no question, output or erratum stands within {NEAR} cells"
    return ""


def table_rows(cell: Any) -> list[str]:
    """Return the rows of the tables of a Markdown cell, as a reader sees them."""
    if cell.cell_type != "markdown":
        return []
    return [line for line in prose(cell.source).split("\n") if re.match(r"\|(?![-:| ]*$)", line)]


def asked(cell: Any) -> set[str]:
    """Return the ids of the questions, drills and predictions that a cell asks."""
    return {str(first) for f, first in calls(cell) if f in ("check", "drill", "predict")}


def views(cell: Any) -> set[str]:
    """Return the live views that a cell opens, such as ``fl.live.mix``."""
    nodes = [node for node in ast.walk(tree(cell)) if isinstance(node, ast.Call)]
    return {view for node in nodes if (view := ast.unparse(node.func)).startswith("fl.live.")}


def shows(cell: Any) -> bool:
    """Tell whether code shows what it has not itself written down, as ``print(1)`` does."""
    body = tree(cell).body
    names = [node for node in ast.walk(tree(cell)) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    others = {node.id for node in names} - own - {*dir(builtins), "display"}
    told = {function for function, _ in calls(cell)} & {"print", "display"}
    return bool(others and (told or isinstance(body[-1], ast.Expr)))


def proves(cell: Any, id: str) -> bool:
    """Tell whether a cell asks or shows something, or leads to an erratum of the row."""
    if cell.cell_type == "code" and (asked(cell) or shows(cell)):
        return True
    linked = re.findall(r"(?i)errata(?:\.md#|\(\")(e\d\d)", cell.source)
    found = (statements.rows().get(key.upper(), {"coverage": ""}) for key in linked)
    return any(id in row["coverage"].split() for row in found)


STATIC = (
    gate_format,
    gate_header,
    gate_duties,
    gate_core,
    gate_learner,
    gate_seen,
    gate_prose,
    gate_questions,
    gate_covers,
)
