"""``make site``: run the lessons, write the sources of all pages, let Sphinx make them, and check the result.

    python -m website.build                    all lessons
    python -m website.build --only 21 31       run these alone; the other pages have no outputs
    python -m website.build --kept build/executed      run nothing: take what make notebooks has kept

The site is ``build/site``: files that any static host can serve, at any address.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat

import lesson_index
from lesson_files import FILES, ROOT
from website import checks, executed, pages, reference

WORK = ROOT / "build" / "website"
SITE = ROOT / "build" / "site"
PARTS = {
    "0": "Start here",
    "1": "Links",
    "2": "Topologies",
    "3": "Collectives",
    "4": "RDMA, switches and circuits",
    "5": "Congestion and loss",
    "6": "Operation and cost",
    "7": "Workloads",
    "8": "What comes next",
    "9": "Assessment",
}
# Documents that are pages, beside all of docs/.
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "exercises/GRADING.md",
    "notebooks/glossary.md",
    "notebooks/errata.md",
)
# These stand first among the documents.
ABOUT = (
    "docs/site",
    "docs/install",
    "README",
    "docs/library",
    "docs/teaching",
    "CONTRIBUTING",
    "exercises/GRADING",
)
# Two leaves below a spine.
ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M8 4 3.5 12M8 4l4.5 8" stroke="#868f9a" \
stroke-width="1.5"/><circle cx="8" cy="4" r="3" fill="#0b62b8"/><circle cx="3.5" cy="12" r="2.5" fill="#56606b"/>\
<circle cx="12.5" cy="12" r="2.5" fill="#56606b"/></svg>
"""
WELCOME = """# fabriclab

![{alt}](docs/img/hero.gif)

:::{{container}} fl-recorded
This is a recording, so its slider and its buttons do not answer; in [lesson 22](notebooks/22_dragonfly.ipynb) you move
them yourself. *Minimal* sends each packet the shortest way, and *Valiant* by way of a group that is drawn at random.
:::

{lead}

This site has the whole course, with everything that its cells showed when the site was built. It needs no
installation and no server: pictures with controls answer from states that were computed beforehand, and questions say
whether a first answer is right. To change a cell, to measure your own machine, or to keep what you answer,
[install the course](docs/install.md). See [what works here and what does
not](docs/site.md#what-works-without-a-kernel).

Begin with [lesson 00](notebooks/00_start_here.ipynb), or search in the field at the side. On a phone it is behind the
three lines at the top.

## Lessons

{lessons}

### Learning paths

:::{{container}} fl-rows fl-paths
{paths}
:::

## Words, statements, library

- [Glossary](notebooks/glossary.md): every term, and the lesson that teaches it
- [Errata](notebooks/errata.md): common statements, how to test each, and what holds
- [Exercises](exercises/exercise1.ipynb), which are graded when you run them: {exercises}
- [API reference](api/index.rst) of the library, and [how to use it without the course](docs/library.md)

{trees}
"""


def main(argv: list[str] | None = None) -> int:
    """Build the site, print what it has, and return 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="numbers of the lessons to run; all unless given")
    parser.add_argument(
        "--kept", type=Path, help="folder of make notebooks; its lessons are not run"
    )
    parser.add_argument("--jobs", type=int, default=2, help="lessons that run at the same time")
    parser.add_argument("--out", type=Path, default=SITE)
    asked = parser.parse_args(argv)
    begin = time.perf_counter()
    numbers = {path: name.split("_")[0] for name, path in FILES.items()}
    books = [path for path, number in numbers.items() if asked.only is None or number in asked.only]
    made = {}
    if asked.kept:  # pictures and questions of these lessons do not answer
        library = executed.library_digest()
        for book in books:
            nb = executed.at_hand(book, WORK, library) or executed.kept(book, asked.kept)
            made |= {book.stem: nb} if nb else {}
    made |= executed.run_all([book for book in books if book.stem not in made], WORK, asked.jobs)
    ran = time.perf_counter() - begin
    source = WORK / "source"
    with tempfile.TemporaryDirectory(dir=WORK) as place:
        answers = write_sources(Path(place) / "source", made)
        renew(Path(place) / "source", source)
    make_pages(source, asked.out, asked.jobs)
    found = checks.read(asked.out)
    sys.stdout.write(
        f"{len(made)} lessons run or at hand: {ran:.0f} s; with all pages: {time.perf_counter() - begin:.0f} s\n"
    )
    views = [f"{name}: {', '.join(told)}" for name, told in answers.items() if told]
    sys.stdout.write("How live views answer:\n" + "".join(f"  {view}\n" for view in views))
    sys.stdout.write(found.report())
    return 1 if found.problems else 0


def write_sources(source: Path, made: dict[str, Any]) -> dict[str, list[str]]:
    """Write the sources of all pages, and what the pages load; return how the views of each lesson answer."""
    shutil.copytree(ROOT / "docs" / "img", source / "docs" / "img")
    shutil.copytree(ROOT / "notebooks" / "img", source / "notebooks" / "img")
    documents = [
        *DOCUMENTS,
        *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md"))),
    ]
    exercises = sorted((ROOT / "exercises").glob("*.ipynb"))
    known = {
        *documents,
        *(file.relative_to(source).as_posix() for file in source.rglob("*") if file.is_file()),
        *(file.relative_to(ROOT).as_posix() for file in [*FILES.values(), *exercises]),
    }
    for name in documents:
        text = (ROOT / name).read_text(encoding="utf-8").replace("(index.ipynb)", "(../index.md)")
        if name == "README.md":  # its moving picture stands on the first page
            text = re.sub(r"!\[[^\]]*\]\(docs/img/hero\.gif\)\n\n", "", text)
        folder = str(Path(name).parent) if "/" in name else ""
        _write(source / name, pages.with_links(text, folder, known | {"index.md"}))

    styles: list[str] = []
    answers: dict[str, list[str]] = {}
    static = source / "_static"
    for file in [*FILES.values(), *exercises]:
        name = file.relative_to(ROOT).as_posix()
        nb = made.get(file.stem) or nbformat.read(file, as_version=nbformat.NO_CONVERT)
        records = {
            path.name.removesuffix(".json.gz"): path.read_bytes()
            for path in (WORK / "views" / file.stem).glob("*.json.gz")
            if file.stem in made
        }
        page = pages.lesson(nb, file.stem, records)
        for cell in page.nb.cells:
            if cell["cell_type"] == "markdown":
                text = cell["source"].replace("(index.ipynb)", "(../index.md)")
                cell["source"] = pages.with_links(
                    text, str(Path(name).parent), known | {"index.md"}
                )
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(page.nb, source / name)
        styles += page.styles
        answers[file.stem] = page.answers
        for place, text in page.records.items():
            _write(static / "views" / f"{place}.js", text)
    _write(static / "icon.svg", ICON)
    _write(static / "site.js", pages.program())
    _write(static / "site.css", pages.style_sheet(styles))
    for name, text in reference.pages().items():
        _write(source / "api" / name, text)
    _write(source / "index.md", welcome(exercises))
    shutil.copy(Path(__file__).with_name("conf.py"), source / "conf.py")
    return answers


def renew(new: Path, source: Path) -> None:
    """Make the folder of sources as the new one is, and leave alone what has not changed, which Sphinx then skips."""
    fresh = {file.relative_to(new): file for file in new.rglob("*") if file.is_file()}
    for file in [file for file in source.rglob("*") if file.is_file()]:
        if file.relative_to(source) not in fresh:
            file.unlink()
    for name, file in fresh.items():
        if not (source / name).exists() or (source / name).read_bytes() != file.read_bytes():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, source / name)


def _write(file: Path, text: str) -> None:
    """Write a file and the folders that it needs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def welcome(exercises: list[Path]) -> str:
    """Return the first page: what the course is, the lessons, and what stands in the side bar."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = re.search(r"!\[([^\]]*)\]\(docs/img/hero\.gif\)\n\n(.*?)\n\n", readme, re.DOTALL)
    assert picture, "the README begins with a picture and a paragraph"
    trees = []
    for part, caption in PARTS.items():
        entries = [_entry(path) for name, path in FILES.items() if name.startswith(part)]
        trees.append(_tree(caption, entries))
    titles = {
        file: nbformat.read(file, 4).cells[0]["source"].split("\n")[0].strip("# ")
        for file in exercises
    }
    documents = {f"docs/{file.stem}" for file in (ROOT / "docs").glob("*.md")}
    trees += [
        _tree("Exercises", [f"{title} <exercises/{file.stem}>" for file, title in titles.items()]),
        _tree(
            "Look up", ["Glossary <notebooks/glossary>", "Errata <notebooks/errata>", "api/index"]
        ),
        _tree("About the course", [*ABOUT, *sorted(documents.difference(ABOUT))]),
    ]
    listed = ", ".join(f"[{title}](exercises/{file.name})" for file, title in titles.items())
    return WELCOME.format(
        alt=picture[1],
        lead=picture[2],
        lessons=by_part(lesson_index.rows("notebooks/", minutes=True)),
        paths=lesson_index.paths_table(),
        exercises=listed,
        trees="\n\n".join(trees),
    )


def by_part(table: str) -> str:
    """Return the table of lessons as one table for each part, below its name."""
    first, line, *rows = table.split("\n")
    parts = []
    for part, caption in PARTS.items():
        here = [row for row in rows if re.match(rf"\| \[?{part}", row)]
        if here:
            listed = "\n".join([first, line, *here])
            parts.append(f"### {caption}\n\n:::{{container}} fl-rows fl-lessons\n{listed}\n:::")
    return "\n\n".join(parts)


def _entry(path: Path) -> str:
    """Return the line of a lesson in the side bar: its number and its title."""
    header = json.loads(path.read_text(encoding="utf-8"))["metadata"]["fabriclab"]
    return f"{path.stem.split('_')[0]} {header['title']} <notebooks/{path.stem}>"


def _tree(caption: str, entries: list[str]) -> str:
    """Return a group of the side bar."""
    lines = "\n".join(entries)
    return f"```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n{lines}\n```"


def make_pages(source: Path, out: Path, jobs: int) -> None:
    """Let Sphinx make the pages; what has not changed is left as it is."""
    doctrees = WORK / "doctrees"
    shutil.rmtree(out / "_static", ignore_errors=True)
    for page in out.rglob("*.html"):
        place = source / page.relative_to(out).with_suffix("")
        if page.parent != out and not any(
            place.with_suffix(end).exists() for end in (".md", ".rst", ".ipynb")
        ):
            page.unlink()
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-j", str(jobs)]
    if not (out / "searchindex.js").exists():  # the index is added to, so it begins with every page
        command.append("-a")
    command += ["-d", str(doctrees), str(source), str(out)]
    subprocess.run(command, check=True)
    (
        out / ".nojekyll"
    ).touch()  # GitHub Pages would leave out folders that begin with an underscore


if __name__ == "__main__":
    raise SystemExit(main())
