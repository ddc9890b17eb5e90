"""A lesson is corrected in mid-term: `make copies`, which a hub runs at each start of a server, loses no answer."""

import json
import os
import shutil
import sys

import pytest

from support import ROOT
from support.makes import make

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not shutil.which("make"), reason="needs make"
)
LESSON, EXERCISE = "notebooks/31_all_reduce.ipynb", "exercises/exercise1.ipynb"
PROGRESS = "fabriclab-progress.json"


@pytest.fixture
def course(tmp_path):
    """Return a course of one lesson and one exercise, as a teacher has it."""
    place = tmp_path / "course"
    for path in (LESSON, EXERCISE, "docs/img/hero.gif", "Makefile"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, place / path)
    return place


@pytest.fixture
def home(course, tmp_path):
    """Return the folder of a student, with first copies."""
    place = tmp_path / "home" / "fabriclab"
    assert pull(course, place) == ""
    return place


def pull(course, home):
    """Bring the lessons as a hub does, and return what was said."""
    done = make("-s", "copies", f"WORK={home}/notebooks", folder=course)
    assert done.returncode == 0, done.stderr
    return done.stdout


def correct(course, path, old, new):
    """Correct a lesson as its teacher does."""
    text = (course / path).read_text()
    assert text.count(old) == 1
    (course / path).write_text(text.replace(old, new))


def answer(home, path, id, source):
    """Write into a cell, keep an output, and save, as JupyterLab does."""
    book = json.loads((home / path).read_text())
    (cell,) = (cell for cell in book["cells"] if cell["id"] == id)
    cell["source"] = source
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "seen"}]
    (home / path).write_text(json.dumps(book))
    return (home / path).read_bytes()


def kept(home, path):
    """Return the files that were kept beside a copy, in the order of their names."""
    stem, ending = os.path.splitext(path)
    return sorted((home / path).parent.glob(f"{os.path.basename(stem)}-mine-*{ending}"))


def test_a_copy_that_was_only_read_is_replaced(course, home):
    correct(course, LESSON, "ranks; try 8, then 16", "ranks; try 8, or 32")
    assert pull(course, home) == ""
    assert (home / LESSON).read_bytes() == (course / LESSON).read_bytes()
    assert kept(home, LESSON) == []


def test_what_a_student_wrote_is_kept_to_the_byte_and_named(course, home):
    mine = answer(home, LESSON, "31-write", "def block_to_send(rank, step, n):\n    return 1")
    solved = answer(home, EXERCISE, "ex1-c", "def fit(sizes, times):\n    return 1, 2")
    correct(course, LESSON, "ranks; try 8, then 16", "ranks; try 8, or 32")
    correct(course, EXERCISE, "What may you predict?", "What may you foretell?")
    told = pull(course, home)
    for path, old in ((LESSON, mine), (EXERCISE, solved)):
        (file,) = kept(home, path)
        assert file.read_bytes() == old
        assert str(file) in told
        assert (home / path).read_bytes() == (course / path).read_bytes()
    assert pull(course, home) == ""  # and nothing more happens at the next start
    assert len(kept(home, LESSON)) == len(kept(home, EXERCISE)) == 1


def test_an_answer_to_a_lesson_that_did_not_change_stays_where_it_is(course, home):
    mine = answer(home, LESSON, "31-write", "def block_to_send(rank, step, n):\n    return 1")
    correct(course, EXERCISE, "What may you predict?", "What may you foretell?")
    assert pull(course, home) == ""
    assert (home / LESSON).read_bytes() == mine


def test_two_corrections_keep_both_versions_of_the_student(course, home):
    versions = []
    for number, (old, new) in enumerate(
        (("try 8, then 16", "try 8, or 32"), ("try 8, or 32", "8"))
    ):
        versions.append(answer(home, LESSON, "31-write", f"answer = {number}"))
        correct(course, LESSON, old, new)
        pull(course, home)
        for file in kept(home, LESSON):  # their names hold the second: make them differ
            if "-of-" not in file.name:
                file.rename(file.with_stem(f"{file.stem}-of-{number}"))
    assert [file.read_bytes() for file in kept(home, LESSON)] == versions


def test_a_correction_that_the_student_made_too_is_no_conflict(course, home):
    correct(course, LESSON, "try 8, then 16", "try 8, or 32")
    shutil.copy(course / LESSON, home / LESSON)
    assert pull(course, home) == ""
    assert kept(home, LESSON) == []


def test_progress_stays_whatever_is_pulled(course, home):
    files = [home / "notebooks" / PROGRESS, home.parent / PROGRESS]
    for file in files:
        file.write_text('{"format": "fabriclab-progress"}')
    correct(course, LESSON, "try 8, then 16", "try 8, or 32")
    (course / "notebooks" / PROGRESS).write_text("of the teacher, who tried the lesson")
    pull(course, home)
    assert {file.read_text() for file in files} == {'{"format": "fabriclab-progress"}'}


def test_a_deleted_copy_comes_fresh_and_a_withdrawn_lesson_stays(course, home):
    (home / EXERCISE).unlink()
    (course / LESSON).unlink()
    mine = (home / LESSON).read_bytes()
    pull(course, home)
    assert (home / EXERCISE).read_bytes() == (course / EXERCISE).read_bytes()
    assert (home / LESSON).read_bytes() == mine
