"""Files that earlier versions have written are still read: progress, a key, and the results of a class.

Those in ``data/earlier`` were written on 2026-11-23 by the last version whose judges stood beside the exercises:
the progress by calls of predict, check, drill, choose_path and remember, the key by ``release --new-key``, and the
results by ``grade`` from two notebooks of exercise 1: "ann" handed in the published solution, "bob" an empty file.
"""

import json
import shutil
import sys

import pytest

import fabriclab as fl
from fabriclab import __main__
from fabriclab.course.grading import notebooks, results
from fabriclab.course.judges import PRACTICE, draw
from fabriclab.course.progress.store import held


@pytest.fixture
def earlier(root):
    return root / "tests" / "data" / "earlier"


@pytest.fixture
def key(earlier, tmp_path):
    file = tmp_path / "class.key"
    shutil.copyfile(earlier / "key.txt", file)
    file.chmod(0o600)
    return file


def test_progress_is_read(earlier, tmp_path, monkeypatch):
    mine = tmp_path / "mine.json"
    shutil.copyfile(earlier / "progress-2.json", mine)
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(mine))
    wanted = json.loads(mine.read_text())
    found = held()
    for section in ("predictions", "measurements", "checks", "drills", "chosen"):
        assert found[section] == wanted[section] != {}
    assert fl.check("31-first-sum", "b").data["counted"] is False  # solved before
    assert fl.check("31-ring-bytes", "175 MB").data["tries"] == 2


def test_progress_is_imported(earlier, tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "new.json"))
    fl.import_progress(str(earlier / "progress-2.json"))
    assert held()["checks"]["31-ring-bytes"]["right"] is True


# The first numbers of a question's cases, drawn by the version that made the files.
DRAWN = {
    "ex1-a": (562432348, 2541949047),
    "ex3-e": (1415451048, 2849882846),
    "ex4-c": (641418938, 2212684210),
}


@pytest.mark.parametrize("id", DRAWN)
def test_a_key_draws_the_same_cases(key, id):
    with_key, practice = DRAWN[id]
    secret = notebooks.read_key(key)
    assert int(draw(secret, id).integers(0, 2**32)) == with_key
    assert int(draw(PRACTICE, id).integers(0, 2**32)) == practice


def test_results_are_read(earlier):
    head, entries = results.load(earlier / "grades-1.json")
    assert head["key"] == "8711e145ca4f"
    assert {entry["student"]: results.totals(entry) for entry in entries} == {
        "ann": ("100", "100"),
        "bob": ("0", "100"),
    }


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls need Linux")
@pytest.mark.parametrize("question", ["ex1-a", "ex1-b", "ex1-c", "ex1-d", "ex1-e"])
def test_a_verdict_is_repeated(earlier, key, question, capsys):
    file = str(earlier / "grades-1.json")
    command = ["replay", file, question, "--student", "ann", "--key", str(key), "--weak"]
    assert __main__.main(command) == 0, capsys.readouterr()
    assert f"ann, {question}: 20 / 20" in capsys.readouterr().out
