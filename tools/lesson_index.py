"""The list of lessons, in the README and in notebooks/index.ipynb: ``make index`` writes both from the headers.

With them it writes the two pages of `lesson_pages`, and the links of lessons to these.
"""

import json
import re
import sys
from functools import partial
from pathlib import Path

import lesson_pages
from fabriclab.texts import table, text
from lesson_files import FILES, ROOT

HEAD = ("| lesson | question | minutes to read | to do |", "|---|---|---|---|")
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


def rows(folder: str) -> str:
    """Return the table of the lessons that exist, with links relative to ``folder``."""
    lines = []
    for name, path in FILES.items():
        header = json.loads(path.read_text(encoding="utf-8"))["metadata"]["fabriclab"]
        link = f"[{name[:2]} {header['title']}]({folder}{path.name})"
        minutes = header["minutes"]
        lines.append(f"| {link} | {_question(name)} | {minutes['read']} | {minutes['do']} |")
    return "\n".join([*HEAD, *lines])


def readme() -> str:
    """Return the README with the table of today."""
    old = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(
        r"(?m)^\| lesson \|.*\n(\|.*\n)+", lambda _: rows("notebooks/") + "\n", old, count=1
    )


def notebook() -> str:
    """Return the index as a notebook, which JupyterLab shows as a page; its cell adds what is live."""
    title = {
        file: json.loads(file.read_text("utf-8"))["cells"][0]["source"][0].strip("# \n")
        for file in EXERCISES
    }
    tests = "\n".join(
        f"- [{file.stem}: {name}](../exercises/{file.name})" for file, name in title.items()
    )
    top = f"# Lessons\n\n{rows('')}\n\n## Exercises\n\n{tests}\n\n"
    top += "## Words and statements\n\n- [Glossary](glossary.md): every term, and the lesson that teaches it\n"
    top += "- [Errata](errata.md): common statements, how to test each, and what holds\n\n"
    top += "Run the cell below: it adds your state, and the lessons that are planned."
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
            {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1
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
