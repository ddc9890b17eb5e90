"""What nbgrader asks of the metadata of a notebook (its schema 3): the rules that ours need, written anew."""

import re

GRADE_ID = re.compile(r"[a-zA-Z0-9_-]+")
KINDS = {
    "schema_version": (int,),
    "grade": (bool,),
    "locked": (bool,),
    "solution": (bool,),
    "task": (bool,),
    "grade_id": (str,),
    "points": (int, float),
    "checksum": (str,),
    "cell_type": (str,),
}


def faults(book):
    """Return what nbgrader would refuse in the metadata of a notebook, a sentence for each."""
    found, ids = [], set()
    for cell in book["cells"]:
        if (marks := cell["metadata"].get("nbgrader")) is None:
            continue
        name, kind, id = f"cell {cell.get('id')!r}", cell["cell_type"], marks.get("grade_id", "")
        unlike = {
            key: value for key, value in marks.items() if type(value) not in KINDS.get(key, ())
        }
        found += [
            f"{name}: {key} may not be there with the value {value!r}"
            for key, value in unlike.items()
        ]
        found += [
            f"{name}: {key} is missing"
            for key in ("grade", "locked", "solution")
            if key not in marks
        ]
        grade, solution, task = (marks.get(key) for key in ("grade", "solution", "task"))
        wrong = {
            "schema_version must be 3": marks.get("schema_version") != 3,
            "grade_id must be letters, digits, _ and -": not GRADE_ID.fullmatch(str(id)),
            f"grade_id {id!r} is used twice": id in ids,
            "a graded cell needs points of at least 0": grade and not marks.get("points", -1) >= 0,
            "a text is graded and a solution, or neither": kind == "markdown"
            and not task
            and grade != solution,
            "a task must be a text": task and kind != "markdown",
        }
        found += [f"{name}: {said}" for said, holds in wrong.items() if holds]
        ids.add(id)
    return found
