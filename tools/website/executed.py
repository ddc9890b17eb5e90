"""Run the lessons for the site, each in a kernel of its own, and keep what their cells showed.

The outputs are those of ``make notebooks``: predictions are revealed, and nobody has answered a question. In each
kernel `website.recorder` keeps what the views answer. A lesson that has been run with the same library is not run
again.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 1200  # s; of a cell with its views, on a machine that has other work
MEASURES = re.compile(r"\bmeasure\.")  # a lesson that measures this machine runs alone
START = "from website import recorder\nrecorder.install({folder!r})\ndel recorder"


def library_digest() -> str:
    """Return what tells one version of the library, and of the recorder, from another."""
    found = hashlib.sha256()
    files = [*(ROOT / "fabriclab").rglob("*"), Path(__file__).with_name("recorder.py")]
    for file in sorted(files):
        if file.is_file() and "__pycache__" not in file.parts:
            found.update(file.relative_to(ROOT).as_posix().encode())
            found.update(file.read_bytes())
    return found.hexdigest()


def run_all(books: Iterable[Path], work: Path, jobs: int) -> dict[str, Any]:
    """Return the executed notebooks by name; those that measure this machine run last, one after the other."""
    books = list(books)
    library = library_digest()
    alone = [book for book in books if MEASURES.search(book.read_text(encoding="utf-8"))]
    beside = [book for book in books if book not in alone]
    made = {}
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as place:
        desk = Path(place)  # where lessons find each other, and may write
        shutil.copytree(ROOT / "notebooks", desk / "notebooks")
        shutil.copytree(ROOT / "exercises", desk / "exercises")
        for group, workers in ((beside, jobs), (alone, 1)):
            with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                runs = [pool.submit(run, book, work, desk, library) for book in group]
                made |= {book.stem: one.result() for book, one in zip(group, runs, strict=True)}
    return made


def kept(book: Path, folder: Path) -> Any:
    """Return a lesson as ``make notebooks`` has kept it, or None if it has not, or has run another version of it."""
    file = folder / f"{book.stem}.json"
    if not file.exists():
        return None
    made = json.loads(file.read_text(encoding="utf-8"))
    if made["source"] != hashlib.sha256(book.read_bytes()).hexdigest():
        return None
    return nbformat.reads(made["nb"], as_version=nbformat.NO_CONVERT)


def run(book: Path, work: Path, desk: Path, library: str) -> Any:
    """Return an executed notebook, which was run before with the same library or is run now."""
    if nb := at_hand(book, work, library):
        return nb
    begin = time.perf_counter()
    nb = execute(book, work / "views" / book.stem, desk, work)
    nb["metadata"]["website"] = digest(book, library)
    file = work / "executed" / f"{book.stem}.ipynb"
    file.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, file)
    sys.stdout.write(f"ran {book.stem}: {time.perf_counter() - begin:.1f} s\n")
    sys.stdout.flush()
    return nb


def execute(book: Path, views: Path, desk: Path, work: Path) -> Any:
    """Run a notebook from its first cell to its last; an error in a cell is one of this build, too."""
    nb = nbformat.read(book, as_version=nbformat.NO_CONVERT)
    nb.cells.insert(0, nbformat.v4.new_code_cell(START.format(folder=str(views))))
    shutil.rmtree(views, ignore_errors=True)
    progress = work / "progress" / book.stem / "fabriclab-progress.json"
    progress.parent.mkdir(parents=True, exist_ok=True)
    progress.unlink(missing_ok=True)
    # The guard keeps the kernel from the network, as in the tests.
    path = [str(ROOT / "tests" / "guard"), str(ROOT), str(ROOT / "tools")]
    settings = os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "FABRICLAB_PROGRESS": str(progress),
        "FABRICLAB_REVEAL": "1",
        "FABRICLAB_TEXT": "",
    }
    client = nbclient.NotebookClient(
        nb,
        timeout=TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(desk / "notebooks")}},
        store_widget_state=False,
        extra_arguments=["--IPKernelApp.log_level=40"],
    )
    client.execute(env=settings)
    nb.cells.pop(0)
    return nb


def at_hand(book: Path, work: Path, library: str) -> Any:
    """Return a lesson that was run before for the site, with the same library, or None."""
    file = work / "executed" / f"{book.stem}.ipynb"
    if not file.exists():
        return None
    nb = nbformat.read(file, as_version=nbformat.NO_CONVERT)
    return nb if nb["metadata"].get("website") == digest(book, library) else None


def digest(book: Path, library: str) -> str:
    """Return what tells a run of a lesson with a library from others."""
    return hashlib.sha256(book.read_bytes() + library.encode()).hexdigest()
