"""The notebooks of exercises: their sources, and runs of them as text."""

import os

import nbclient
import nbformat

from fabriclab.texts import text


def book_of(root, number):
    """Return the source of an exercise."""
    return nbformat.read(root / "solutions" / f"exercise{number}.ipynb", 4)


def run_in_text_mode(book, folder, monkeypatch, root):
    """Return the notebook after a run in which each answer is right at the first try."""
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    monkeypatch.setenv("PYTHONPATH", f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    done = nbformat.from_dict(book)
    nbclient.NotebookClient(
        done, timeout=120, resources={"metadata": {"path": str(folder)}}
    ).execute()
    tests = [cell for cell in done.cells if cell.id.endswith("-test")]
    right = text("check.right", tries=text("check.first"))
    assert tests and all(right in str(cell.outputs) for cell in tests)
    return done
