"""The list of lessons, in the README and in notebooks/index.ipynb: ``make index`` writes both from the headers.

With them it writes the two pages of `lesson_pages`, and the links of lessons to these.
"""

import json
import re
import sys
from functools import partial
from pathlib import Path

import lesson_pages
from fabriclab.catalog.tables import rows_of
from fabriclab.course.checks import courses
from fabriclab.texts import keys, table, text
from lesson_files import FILES, ROOT

HEAD = ("| lesson | the question it answers | learning paths |", "|---|---|---|")
HEAD_WITH_MINUTES = (
    "| lesson | the question it answers | learning paths | minutes to read | to do |",
    "|---|---|---|---|---|",
)
PATHS_HEAD = ("| path | time | lessons | of them exist | also |", "|---|---|---|---|---|")
PLANNED = "*planned*"
EXERCISES = sorted((ROOT / "exercises").glob("*.ipynb"))
STATE = """import fabriclab as fl

fl.lessons()"""


def _question(name: str) -> str:
    """Return the one-line question of a lesson."""
    key = f"lesson.{name}"
    if key not in table():
        raise SystemExit(
            f'add "{key}" to fabriclab/texts_en.json: the question of the lesson in a line'
        )
    return text(key)


def _lessons() -> list[str]:
    """Return the names of all lessons, those that exist and those that are planned, in the order of their numbers."""
    planned = [key.removeprefix("lesson.") for key in keys("lesson.")]
    return sorted({*FILES, *planned})


def _paths() -> list[dict[str, str]]:
    """Return the learning paths that leave lessons out, as rows of their table."""
    return [row for row in rows_of("paths.csv", courses.__file__) if row["lessons"] != "all"]


def rows(folder: str, minutes: bool = False) -> str:
    """Return the table of all lessons; those that exist have a link relative to ``folder``, the others are marked."""
    lines = []
    for name in _lessons():
        number = name.split("_")[0]
        paths = ", ".join(row["path"] for row in _paths() if number in row["lessons"].split())
        if name in FILES:
            path = FILES[name]
            header = json.loads(path.read_text(encoding="utf-8"))["metadata"]["fabriclab"]
            lesson = f"[{number} {header['title']}]({folder}{path.name})"
            times = f" {header['minutes']['read']} | {header['minutes']['do']} |"
        else:
            lesson = f"{number}, {PLANNED}"
            times = " | |"
        line = f"| {lesson} | {_question(name)} | {paths} |"
        lines.append(line + times if minutes else line)
    return "\n".join([*(HEAD_WITH_MINUTES if minutes else HEAD), *lines])


def paths_table() -> str:
    """Return the table of learning paths; numbers of lessons that are only planned are in italics."""
    numbers = {name.split("_")[0] for name in FILES}
    lines = []
    for row in _paths():
        listed = row["lessons"].split()
        shown = " ".join(number if number in numbers else f"*{number}*" for number in listed)
        here = sum(number in numbers for number in listed)
        lines.append(
            f"| {row['path']} | {row['time']} | {shown} | {here} of {len(listed)} | {row['besides']} |"
        )
    return "\n".join([*PATHS_HEAD, *lines])


def _replaced(page: str, first: str, made: str) -> str:
    """Return a page in which the table whose head begins with the column ``first`` is another one."""
    table_there = rf"(?m)^\| {first} \|.*\n(\|.*\n)+"
    return re.sub(table_there, lambda _: made + "\n", page, count=1)


def readme() -> str:
    """Return the README with the tables of today."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    page = _replaced(page, "lesson", rows("notebooks/"))
    return _replaced(page, "path", paths_table())


def pictures() -> str:
    """Return the pictures of the README, each with the bold line above it, as the folder of the lessons sees them."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"(?m)^(?:\*\*.*\*\*\n\n)?!\[.*\]\(docs/img/.*\)$", page)
    return "\n\n".join(shown).replace("(docs/img/", "(../docs/img/")


def notebook() -> str:
    """Return the index as a notebook, which JupyterLab shows as a page; its cell adds what is live."""
    title = {
        file: json.loads(file.read_text("utf-8"))["cells"][0]["source"][0].strip("# \n")
        for file in EXERCISES
    }
    tests = "\n".join(
        f"- [{file.stem}: {name}](../exercises/{file.name})" for file, name in title.items()
    )
    top = f"# Lessons\n\n{pictures()}\n"
    top += "Read the lessons in the order of their numbers, or follow a learning path, which keeps that order and "
    top += f"leaves lessons out. A lesson marked {PLANNED} does not exist yet.\n\n{rows('', minutes=True)}\n\n"
    top += f"{paths_table()}\n\n## Exercises\n\n{tests}\n\n"
    top += "## Words and statements\n\n- [Glossary](glossary.md): every term, and the lesson that teaches it\n"
    top += "- [Errata](errata.md): common statements, how to test each, and what holds\n\n"
    top += "Run the cell below: it adds how far you are in each lesson."
    cells = [
        {
            "cell_type": "markdown",
            "id": "index-top",
            "metadata": {},
            "source": top.splitlines(keepends=True),
        },
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "index-state",
            "metadata": {},
            "outputs": [],
            "source": STATE.splitlines(keepends=True),
        },
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return (
        json.dumps(
            {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5},
            ensure_ascii=False,
            indent=1,
        )
        + "\n"
    )


BOOKS = Path("notebooks")
WRITTEN = {
    Path("README.md"): readme,
    BOOKS / "index.ipynb": notebook,
    BOOKS / "glossary.md": lesson_pages.glossary,
    BOOKS / "errata.md": lesson_pages.errata,
}
WRITTEN |= {BOOKS / FILES[name].name: partial(lesson_pages.linked, name) for name in FILES}

if __name__ == "__main__":
    for place, make in WRITTEN.items():
        made = make()
        if made != (ROOT / place).read_text(encoding="utf-8"):
            (ROOT / place).write_text(made, encoding="utf-8")
            sys.stdout.write(f"written: {place.as_posix()}\n")
