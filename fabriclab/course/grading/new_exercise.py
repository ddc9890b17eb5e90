"""The command ``new-exercise``: a notebook, a judge and its questions side by side, ready to be changed."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from fabriclab.core import write_atomic
from fabriclab.course.questions import own
from fabriclab.course.shown import refuse_if
from fabriclab.texts import text

from .notebooks import Book, as_bytes

_TEMPLATES = Path(__file__).parent / "template"
_QUESTION = "# Question {{letter}}"  # begins the part of a template that each graded question has
_FIRST = "a"  # letter of the first graded question


def run(args: argparse.Namespace) -> int:
    """Make an own exercise with a graded question and one on the way, or add a graded question to it."""
    name = args.name
    own.check_name(name)
    folder = own.FOLDER / name
    if args.question:
        _add(folder, args.question)
        key = "own.added"
    else:
        refuse_if(folder.exists(), "own.exists", folder=folder)
        _make(folder)
        key = "own.made"
    files = ", ".join(path.name for path in _files(folder))
    question = f"{name}-{args.question or _FIRST}"
    said = text(key, folder=folder.as_posix(), files=files, name=name, question=question)
    sys.stdout.write(f"{said}\n")
    return 0


def _files(folder: Path) -> Sequence[Path]:
    """Return the three files of an own exercise."""
    return own.notebook(folder), folder / own.JUDGE, folder / own.QUESTIONS


def _make(folder: Path) -> None:
    """Write the files of a new exercise."""
    notebook, judge, questions = _files(folder)
    folder.mkdir(parents=True)
    notebook.write_bytes(as_bytes(_book(folder.name, _FIRST)))
    judge.write_text(_filled("judge.txt", folder.name, _FIRST), encoding="utf-8")
    questions.write_text(_filled("questions.txt", folder.name, _FIRST), encoding="utf-8")


def _add(folder: Path, letter: str) -> None:
    """Add a graded question: cells of the notebook, a class with a judge, and an entry in the file of questions."""
    notebook, judge, questions = _files(folder)
    id = f"{folder.name}-{letter}"
    refuse_if(not re.fullmatch("[a-z]", letter), "own.letter", letter=letter)
    missing = [path for path in _files(folder) if not path.is_file()]
    refuse_if(missing, "own.no_file", file=", ".join(map(str, missing)), name=folder.name)
    # An id of a cell, a judge or an entry is in quotes or in brackets.
    held = "".join(path.read_text(encoding="utf-8") for path in _files(folder))
    refuse_if(re.search(rf'["\[]{re.escape(id)}["\]]', held), "own.has_question", id=id)

    book = json.loads(notebook.read_bytes())
    new = [cell for cell in _book(folder.name, letter)["cells"] if cell["id"].startswith(id)]
    at = len(book["cells"])
    if book["cells"] and book["cells"][-1]["cell_type"] == "markdown":  # the end of the exercise
        at -= 1
    book["cells"][at:at] = new
    write_atomic(notebook, as_bytes(book))
    for path, template in ((judge, "judge.txt"), (questions, "questions.txt")):
        _, mark, block = _template(template).partition(_QUESTION)
        more = _fill(mark + block, folder.name, letter)
        before = path.read_text(encoding="utf-8").rstrip("\n")
        gap = "\n\n\n" if path == judge else "\n\n"
        write_atomic(path, f"{before}{gap}{more}".encode())


def _book(name: str, letter: str) -> Book:
    """Return the notebook of a new exercise, with its solution."""
    book: Book = json.loads(_filled("notebook.json", name, letter))
    return book


def _template(file: str) -> str:
    return (_TEMPLATES / file).read_text(encoding="utf-8")


def _filled(file: str, name: str, letter: str) -> str:
    return _fill(_template(file), name, letter)


def _fill(template: str, name: str, letter: str) -> str:
    """Fill in the names of a template; functions and classes after the first have their letter, too."""
    more = "" if letter == _FIRST else letter
    words = {
        "name": name,
        "letter": letter,
        "function": f"drain_{more}" if more else "drain",
        "Class": f"Drain{more.upper()}",
    }
    for word, value in words.items():
        template = template.replace("{{" + word + "}}", value)
    return template
