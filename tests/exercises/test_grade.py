"""Grading a class: every notebook gets a grade and a sentence, nothing is lost, and each verdict can be repeated."""

import csv
import errno
import html.parser
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import fabriclab
from fabriclab import __main__
from fabriclab.course import judges
from fabriclab.course.grading import commands, graders, notebooks, results, works
from fabriclab.course.grading.limits import Limits
from fabriclab.course.grading.sandbox import Sandbox, SandboxError
from fabriclab.course.judges import JudgedQuestion, Proxy, Verdict
from fabriclab.course.questions.files import heading
from fabriclab.texts import text
from student_files import student_version
from support import small_exercise
from support.budgets import budget
from support.nbgrader_rules import faults
from support.processor import processor_time
from support.prose import sentence, states
from support.sampling import sampled
from support.small_exercise import ANSWERS, QUESTIONS, book, cell, hand_in, impatient

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="learners' code is run on Linux only"
)
pytestmark = linux
FULL = {"ex9-a": 10, "ex9-b": 10, "ex9-c": 5}
OF_THE_COURSE = judges.questions


@pytest.fixture(autouse=True)
def one_exercise(monkeypatch):
    monkeypatch.setattr(judges, "questions", lambda: QUESTIONS)


@pytest.fixture(scope="module")
def graded_once(tmp_path_factory):
    """Return a folder with a class of one student whose answers are right, and its grades."""
    folder = tmp_path_factory.mktemp("graded")
    hand_in(folder / "room", "ann", book())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judges, "questions", lambda: QUESTIONS)
        assert run("grade", folder / "room", "--out", folder / "grades.csv") == 0
    return folder


@pytest.fixture
def graded(graded_once, tmp_path):
    """Put a copy of a class that is graded into the test's folder."""
    shutil.copytree(graded_once, tmp_path, dirs_exist_ok=True)


def run(*command):
    return __main__.main([str(part) for part in command])


def program(*command, **options):
    """Start fabriclab with the small exercise as a program of its own."""
    whole = [sys.executable, small_exercise.__file__, *map(str, command)]
    # A shell has its background jobs ignore Ctrl-C, and programs inherit that.
    heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen(whole, stderr=subprocess.PIPE, text=True, **heeds, **options)


def table(path):
    """Return the rows of a CSV file: student -> question -> row."""
    found = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert row["question"] not in found.setdefault(row["student"], {}), "graded twice"
            found[row["student"]][row["question"]] = row
    for rows in found.values():
        total = rows.pop("total")
        assert float(total["points"]) == sum(points(rows).values()) and float(total["of"]) > 0
    return found


def notes(path):
    """Return what a teacher is told to look at: student -> sentences."""
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["student"]: row["note"]
            for row in csv.DictReader(file)
            if row["question"] == "total"
        }


def stopped(name, said):
    """Return whether a sentence says that the code of this name ran out of time."""
    return any(sentence(f"sandbox.{key}", name=name).match(said) for key in ("time", "cpu"))


def points(rows):
    return {question: float(row["points"]) for question, row in rows.items()}


def shown(page):
    """Return the text of a page, after a look at what every page must have."""
    source = page.read_text(encoding="utf-8")
    assert (
        source.startswith('<!DOCTYPE html>\n<html lang="en">') and "<script" not in source.lower()
    )
    words, tags = [], []
    parser = html.parser.HTMLParser()
    parser.handle_data = words.append
    parser.handle_starttag = lambda tag, about: tags.append(tag)
    parser.feed(source)
    assert tags.count("h1") == tags.count("main") == tags.count("title") == 1 and "caption" in tags
    assert set(re.findall(r"<th ([^>]*)>", source)) <= {"scope=col", "scope=row"}
    return " ".join(words)


def shown_texts(page):
    return " ".join(re.findall(r">([^<>]+)<", page.read_text(encoding="utf-8")))


# By hand


def test_a_class_by_hand(tmp_path, capsys):
    room, out = tmp_path / "room", tmp_path / "out" / "grades.csv"

    hand_in(room, "ann", book())
    hand_in(
        room / "bob" / "ps9",
        "exercise9",
        book(a="def double(x):\n    return x", c="def name(): return 5"),
    )
    hand_in(room / "bob" / ".ipynb_checkpoints", "exercise9", book())
    (room / "eve").mkdir()
    assert run("grade", room, "--out", out) == 0
    told = table(out)
    assert (
        points(told["ann"]) == FULL
        and [row["sentence"] for row in told["ann"].values()][1] == "The clock was read."
    )
    assert points(told["bob"]) == {"ex9-a": 0, "ex9-b": 10, "ex9-c": 0}
    assert (
        told["bob"]["ex9-a"]["mistake"] == "array sent once"
        and "is wrong" in told["bob"]["ex9-a"]["sentence"]
    )
    failed = sentence("grade.judge").fullmatch(told["bob"]["ex9-c"]["sentence"])
    assert "TypeError" in failed["error"]
    assert {row["sentence"] for row in told["eve"].values()} == {
        text("grade.nothing", exercise="ex9")
    }
    assert float(told["ann"]["ex9-a"]["seconds"]) > 0 and told["ann"]["ex9-a"]["of"] == "10"
    said = capsys.readouterr().err
    assert sentence("grade.done", student="ann", points=25, most=25).search(said)
    counted = [found["n"] for found in sentence("grade.done").finditer(said)]
    assert counted == ["1", "2", "3"]
    assert sentence("grade.ready", n=3).search(said)
    head = json.loads(out.with_suffix(".json").read_bytes())["head"]
    assert {"fabriclab", "python", "numpy", "date", "cores", "active", "limits"} <= head.keys()
    assert head["key"] == "practice" and {"limits", "session"} <= set(head["active"])


def test_pages_say_what_a_reader_needs(tmp_path):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    free = cell("ex9-why", "Since <b>1 < 2</b>")
    free |= {"cell_type": "markdown"}
    hand_in(room, "ann", book(free))
    hand_in(
        room, "<i>bob&", book(a='def double(x):\n    raise ValueError("<script>alert(1)</script>")')
    )
    hand_in(room, "=cmd()", book(a="def double(x):\n    return 2"))
    assert run("grade", room, "--out", out) == 0
    ann, bob = shown(tmp_path / "grades" / "ann.html"), shown(tmp_path / "grades" / "<i>bob&.html")
    assert (
        text("grade.page.total", points=25, of=25) in ann
        and "Since <b>1 < 2</b>" in ann
        and text("grade.page.unscored") in ann
    )
    assert (
        "practice key" in ann
        and "no network" in ann
        and "Times are shown" in ann
        and "fabriclab replay" in ann
    )
    assert "<script>alert(1)</script>" in bob and "15 of 25" in bob
    whole = shown(tmp_path / "grades.html")
    for words in (
        "Protections",
        "practice key",
        "cores:",
        "ex9-a",
        "33 %",
        "array sent once (1)",
        "=cmd()",
        text("grade.page.sum", of=25),
    ):
        assert words in whole
    assert 'href="grades/%3Ci%3Ebob%26.html"' in (tmp_path / "grades.html").read_text()
    assert "'=cmd()" in table(out)  # no formula for a spreadsheet


def test_a_student_file_gets_nothing_and_its_source_everything(tmp_path):
    source = book()
    hand_in(tmp_path / "room", "source", source)
    hand_in(tmp_path / "room", "student", student_version(source))
    assert run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv") == 0
    told = table(tmp_path / "grades.csv")
    assert points(told["source"]) == FULL and set(points(told["student"]).values()) == {0}
    assert {row["sentence"] for row in told["student"].values()} == {text("grade.open")}


@pytest.mark.parametrize("again", ["1", pytest.param("1 2 3 4", marks=pytest.mark.slow)])
def test_the_exercises_of_the_course(root, tmp_path, monkeypatch, again):
    monkeypatch.setattr(judges, "questions", OF_THE_COURSE)
    for source in (root / "solutions").glob("*.ipynb"):
        hand_in(tmp_path / "room" / "solved", source.stem, source.read_bytes())
        hand_in(
            tmp_path / "room" / "open", source.stem, (root / "exercises" / source.name).read_bytes()
        )
    out = tmp_path / "grades.csv"
    assert run("grade", tmp_path / "room", "--out", out) == 0
    of_the_practice_key = table(out)
    assert points(of_the_practice_key["solved"]) == {
        q.id: q.points for q in OF_THE_COURSE().values()
    }
    assert "ex1-a-trust" in shown(tmp_path / "grades" / "solved.html")

    # With another key the solutions are the reference, which is refused unless it gets full marks.
    notebooks.new_key(tmp_path / "key")
    shutil.rmtree(tmp_path / "room" / "solved")
    out = tmp_path / "again.csv"
    given = ["--key", tmp_path / "key", "--reference", root / "solutions"]
    given += [part for number in again.split() for part in ("--exercise", number)]
    assert run("grade", tmp_path / "room", "--out", out, *given) == 0
    for told in (of_the_practice_key, table(out)):
        assert set(points(told["open"]).values()) == {0}
        assert {row["sentence"] for row in told["open"].values()} == {text("grade.open")}


@pytest.mark.slow
@pytest.mark.alone
def test_thirty_submissions_take_at_most_20_s(root, tmp_path, monkeypatch):
    monkeypatch.setattr(judges, "questions", OF_THE_COURSE)
    for n in range(30):
        hand_in(
            tmp_path / "room", f"s{n:02}", (root / "solutions" / "exercise1.ipynb").read_bytes()
        )
    begun = processor_time()
    assert run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv") == 0
    # 20 s on two cores that do nothing else.
    assert processor_time() - begun <= budget(2 * 20) and len(table(tmp_path / "grades.csv")) == 30


def test_which_notebook_counts(tmp_path):
    room, answers = tmp_path / "room", dict.fromkeys("bc")
    hand_in(room / "two", "copy", book(**answers))
    hand_in(room / "two", "exercise9", book())
    hand_in(room / "broken", "a", b"{")
    hand_in(room / "broken", "b", book())
    hand_in(room / "other", "a", {"cells": [], "metadata": {}, "nbformat": 4})
    assert run("grade", room, "--out", tmp_path / "grades.csv") == 0
    told = table(tmp_path / "grades.csv")
    assert points(told["two"]) == points(told["broken"]) == FULL
    assert "copy.ipynb" in shown(tmp_path / "grades" / "two.html")
    assert told["other"]["ex9-a"]["sentence"] == text("grade.no_cells", exercise="ex9")


def test_links_are_not_followed_names_stay_apart_and_the_answered_file_counts(tmp_path):
    reference = tmp_path / "reference.ipynb"
    hand_in(tmp_path, "reference", book())
    folder = tmp_path / "class"
    (folder / "mallory").mkdir(parents=True)
    (folder / "mallory" / "ex9.ipynb").symlink_to(reference)
    for name in (b"M\xfcller", b"M\xf6ller"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name + b".ipynb")).write_bytes(
            reference.read_bytes()
        )
    (folder / "carol").mkdir()
    stub = "def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    hand_in(folder / "carol", "a_handout", book(**dict.fromkeys("abc", stub)))
    hand_in(folder / "carol", "b_final", book())
    found = works.collect(folder)
    assert [*found] == ["M%dcf6ller", "M%dcfcller", "carol", "mallory"]
    chosen = {name: works.chosen(name, held, ["ex9"], {}) for name, held in found.items()}
    by_name = {name: [book for _, book in work.due] for name, work in chosen.items()}
    assert {book.problem for book in by_name["mallory"]} == {text("grade.file.link")}
    sources = [c.source for found in by_name["carol"] for c in found.cells]
    assert sources and all("NotImplementedError" not in source for source in sources)


def test_a_class_whose_files_are_all_broken_has_a_row_for_each_question(tmp_path):
    hand_in(tmp_path / "room", "ann", b"{")
    assert run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv") == 0
    told = table(tmp_path / "grades.csv")["ann"]
    assert {row["sentence"] for row in told.values()} == {
        text("grade.file.broken")
    } and told.keys() == FULL.keys()


def test_a_name_that_is_missing_is_looked_for_in_the_cells_before(tmp_path):
    setup = "import numpy as np"  # without factor, which a cell of the learner's defines
    own = [cell("", "1 / 0"), cell("", "factor = 2")]
    made = book(setup=setup)
    made["cells"] = [*own, *made["cells"]]
    hand_in(tmp_path / "room", "before", made)
    after = book(*own, setup=setup)
    hand_in(tmp_path / "room", "after", after)
    assert run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv") == 0
    told = table(tmp_path / "grades.csv")
    assert points(told["before"]) == FULL
    assert (
        points(told["after"]) == FULL | {"ex9-a": 0}
        and "NameError" in told["after"]["ex9-a"]["sentence"]
    )


# Hostile notebooks

HOSTILE = {  # the question's cell, and a word of the sentence; all other questions stay right
    "loop": ("def double(x):\n    while True: pass", "stopped"),
    "sleeps": ("import time\ndef double(x):\n    time.sleep(60)", "longer than"),
    "loop in the cell": ("while True: pass", "stopped"),
    "exception": ("def double(x):\n    return 1 / 0", "ZeroDivisionError"),
    "syntax": ("def double(x:\n    return 2", "SyntaxError"),
    "sys.exit": ("import sys\ndef double(x):\n    sys.exit('10 points')", "10 points"),
    "os._exit": ("import os\ndef double(x):\n    os._exit(0)", "ended its own process"),
    "interrupt": ("def double(x):\n    raise KeyboardInterrupt", "KeyboardInterrupt"),
    "builtins": (
        "import builtins\nfor n in ('abs', 'len', 'isinstance', 'type', 'print', 'float'):\n"
        "    setattr(builtins, n, lambda *a, **k: True)\ndef double(x):\n    return 0",
        "wrong",
    ),
    "json": (
        "import json\njson.dumps = json.encoder.c_make_encoder = lambda *a, **k: '{}'\ndef double(x):\n"
        "    return 0",
        "wrong",
    ),
    "lying float": (
        "class F(float):\n    __eq__ = __ge__ = __le__ = lambda *a: True\n    __hash__ = None\n"
        "def double(x):\n    return F(1)",
        "wrong",
    ),
    "lying array": (
        "class A(np.ndarray):\n    def tolist(self): return 0\ndef double(x):\n"
        "    return np.zeros(3).view(A)",
        "wrong",
    ),
    "nan": ("def double(x):\n    return float('nan')", "wrong"),
    "huge number": ("def double(x):\n    return 10 ** 100_000", "cannot be compared"),
    "deep list": (
        "def double(x):\n    a = []\n    for _ in range(10**5): a = [a]\n    return a",
        "cannot be compared",
    ),
    "long answer": ("def double(x):\n    return 'x' * 10**8", "."),
    "outlives": (
        "import os, ctypes\nctypes.CDLL(None).prctl(15, b'MARKER')\ndef double(x):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            while True: pass\n        os._exit(0)\n    return 2 * x",
        ".",
    ),
    "8 GiB": ("def double(x):\n    return len(bytearray(8 << 30))", "memory"),
    "50 MB": ("def double(x):\n    for _ in range(25): print('x' * 10**6)\n    return 0", "wrong"),
    "endless output": ("def double(x):\n    while True: print('x' * 10**6)", "was stopped"),
    "reference": ("def double(x):\n    raise ValueError(open('SECRET').read())", "Error"),
    "forged": (
        "import os\ndef double(x):\n    print('{\"value\": %d}' % (2 * x))\n"
        '    os.write(3, b\'{"id": "0", "value": %d}\\n\' % (2 * x))\n    return 0',
        "disturbed",
    ),
    "network": (
        "import socket\ndef double(x):\n    socket.create_connection(('127.0.0.1', 9), 1)",
        "Error",
    ),
    "kills": (
        "import os, signal\ndef double(x):\n    os.kill(os.getppid(), signal.SIGKILL)\n    return 0",
        ".",
    ),
    "signs": (
        "def double(x):\n    raise ValueError('\\x1b[31m \\ud800 \\u202e \\0 </pre><script>')",
        ".",
    ),
    "segfault": ("import ctypes\ndef double(x):\n    ctypes.string_at(0)", "."),
    "deleted": (None, "missing"),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Grade all hostile notebooks at once, beside good ones; return the table, the secret and what was left."""
    folder = tmp_path_factory.mktemp("hostile")
    secret, marker, temporary = folder / "reference.txt", f"fl-{os.getpid()}", folder / "tmp"
    secret.write_text("the secret reference")
    temporary.mkdir()
    for student, (source, _) in HOSTILE.items():
        made = source and source.replace("MARKER", marker).replace("SECRET", str(secret))
        hand_in(folder / "room", student, book(a=made))
    reordered = book()
    reordered["cells"].reverse()
    hand_in(folder / "room", "reordered", reordered)
    hand_in(
        folder / "room",
        "twice",
        book(cell("ex9-a", "def double(x): return 0"), cell("ex9-a", "1 / 0")),
    )
    hand_in(folder / "room", "good", book())
    done = program(
        "grade",
        folder / "room",
        "--out",
        folder / "grades.csv",
        "--time-factor",
        "0.1",
        env=dict(os.environ, TMPDIR=str(temporary), WALL_S="20"),
    )
    _, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    named = [
        process.pid for process in psutil.process_iter(["name"]) if process.info["name"] == marker
    ]
    return table(folder / "grades.csv"), folder, [*named, *temporary.iterdir()]


@pytest.mark.parametrize("student", HOSTILE)
def test_a_hostile_notebook_costs_its_own_question_only(hostile, student):
    told = hostile[0][student]
    assert points(told) == FULL | {"ex9-a": 0}, told["ex9-a"]["sentence"]
    assert HOSTILE[student][1] in told["ex9-a"]["sentence"]


def test_order_and_copies_cost_nothing(hostile):
    told = hostile[0]
    assert points(told["reordered"]) == points(told["twice"]) == points(told["good"]) == FULL
    assert told["twice"]["ex9-a"]["sentence"] == text("grade.twice", id="ex9-a")


def test_nothing_is_left_and_nothing_got_out(hostile):
    told, folder, left = hostile
    assert left == [] and len(told) == len(HOSTILE) + 3
    for file in [*(folder / "grades").iterdir(), folder / "grades.csv", folder / "grades.html"]:
        words = file.read_text(encoding="utf-8")
        assert "the secret reference" not in words and not re.search("[\0\x1b\u202e\ud800]", words)
        assert file.suffix == ".csv" or "<script" not in words
    for entry in results.load(folder / "grades.json")[1]:
        assert "the secret reference" not in str([q["said"] for q in entry["questions"]])


# Nothing is lost


def class_of(room, n, source="import time\ndef double(x):\n    time.sleep(0.2)\n    return 2 * x"):
    for k in range(n):
        hand_in(room, f"s{k:02}", book(a=source))


def wait_for(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def lines(path):
    return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    class_of(room, 8)
    (temporary := tmp_path / "tmp").mkdir()
    first = program("grade", room, "--out", out, env=dict(os.environ, TMPDIR=str(temporary)))
    wait_for(lambda: lines(out.with_suffix(".json")) > 2 + 2)
    children = psutil.Process(first.pid).children(recursive=True)
    first.kill()
    first.wait()
    kept = results.load(out.with_suffix(".json"))[1]
    assert 0 < len(kept) < 8
    wait_for(
        lambda: not any(child.is_running() for child in children) and not [*temporary.iterdir()]
    )
    with out.with_suffix(".json").open("ab") as file:
        file.write(b'{"student": "s07", "quest')  # a line that a kill has cut
    hand_in(room, kept[0]["student"], book(a="def double(x):\n    return 0"))
    second = program("grade", room, "--out", out)
    _, said = second.communicate(timeout=120)
    assert second.returncode == 0 and text("grade.kept", n=len(kept) - 1) in said
    assert not [entry for entry in kept[1:] if f"] {entry['student']}:" in said]
    told = table(out)
    assert len(told) == 8 and all(
        points(rows) == FULL for name, rows in told.items() if name != kept[0]["student"]
    )
    assert points(told[kept[0]["student"]]) == FULL | {"ex9-a": 0}
    third = json.loads(out.with_suffix(".json").read_bytes())["results"]
    assert [entry["student"] for entry in third] == sorted(told) == list(told)
    before = out.read_bytes()
    assert run("grade", room, "--out", out) == 0 and out.read_bytes() == before


def test_the_file_of_results_can_be_read_after_every_student(tmp_path):
    head = results.heading("practice", Limits(), ("session",))
    kept = results.Results(tmp_path / "grades.csv", head)
    for n in range(3):
        kept.add(results._ENTRY | {"student": f"s{n}", "texts": {}, "questions": []})
        found = json.loads((tmp_path / "grades.json").read_bytes())
        assert (
            [entry["student"] for entry in found["results"]]
            == [f"s{k}" for k in range(n + 1)]
            == [*kept.entries]
        )
        assert results.load(tmp_path / "grades.json") == (head, found["results"])


def test_control_c_keeps_what_was_graded(tmp_path):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    class_of(room, 60)  # more than are graded before the signal arrives
    running = program("grade", room, "--out", out)
    wait_for(lambda: lines(out.with_suffix(".json")) > 2)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and text("grade.stopped") in said and "Traceback" not in said
    told = json.loads(out.with_suffix(".json").read_bytes())["results"]
    assert 0 < len(told) < 60 and table(out).keys() == {entry["student"] for entry in told}
    assert out.with_suffix(".html").exists()


def test_a_student_of_an_earlier_run_is_marked_until_there_is_work_again(tmp_path, capsys):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    for student in ("ann", "bob"):
        hand_in(room, student, book())
    earlier = text("grade.note.earlier")
    assert run("grade", room, "--out", out) == 0 and earlier not in notes(out)["bob"]
    (room / "bob.ipynb").unlink()
    assert run("grade", room, "--out", out) == 0
    assert text("grade.note", student="bob", said=earlier) in capsys.readouterr().err
    assert earlier in notes(out)["bob"] and earlier not in notes(out)["ann"]
    assert shown(tmp_path / "grades.html").count(earlier) == 1
    hand_in(room, "bob", book())
    assert run("grade", room, "--out", out) == 0 and earlier not in notes(out)["bob"]


def test_results_of_two_kinds_are_not_mixed(graded, tmp_path, capsys):
    room, out, key = tmp_path / "room", tmp_path / "grades.csv", tmp_path / "key"
    notebooks.new_key(key)
    before = out.read_bytes(), out.with_suffix(".json").read_bytes()
    for other in (["--key", key], ["--time-factor", "2"]):
        assert run("grade", room, "--out", out, *other) == 2
        assert sentence("grade.results.other").search(capsys.readouterr().err)
    assert (out.read_bytes(), out.with_suffix(".json").read_bytes()) == before
    out.with_suffix(".json").write_text('{"head": 1}')
    assert run("grade", room, "--out", out) == 2
    assert sentence("grade.results.foreign").search(capsys.readouterr().err)


def test_work_that_is_graded_again_is_counted_from_what_is_kept(tmp_path, capsys):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    class_of(room, 4)
    assert run("grade", room, "--out", out) == 0
    class_of(room, 2, "def double(x):\n    return 0")
    capsys.readouterr()
    assert run("grade", room, "--out", out) == 0
    counted = [
        found["n"] for found in sentence("grade.done", of=4).finditer(capsys.readouterr().err)
    ]
    assert counted == ["3", "4"]


def test_a_machine_that_fails_costs_nobody_a_grade(tmp_path, monkeypatch, capsys):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    hand_in(room, "ann", book())
    honest = Sandbox.session

    def failing(box, cells, *more):
        if any("def broken" in cell for cell in cells):
            raise SandboxError(text("sandbox.start", said="no room"))
        if any("def killed" in cell for cell in cells):
            os.kill(os.getpid(), signal.SIGKILL)  # as a machine that is out of memory does
        return honest(box, cells, *more)

    monkeypatch.setattr(Sandbox, "session", failing)
    hand_in(room, "bob", book(b="def broken(): pass"))
    hand_in(room, "cyd", book(b="def killed(): pass"))
    assert run("grade", room, "--out", out) == 1
    said = capsys.readouterr().err
    assert sentence("grade.failed", student="bob").search(said) and "no room" in said
    died = text("grade.died", code=-9)
    assert sentence("grade.failed", student="cyd", said=died).search(said)
    assert table(out).keys() == {"ann"} and points(table(out)["ann"]) == FULL
    failed = sentence("grade.failed", student="bob").search(shown(tmp_path / "grades.html"))
    assert "no room" in failed["said"]
    monkeypatch.setattr(Sandbox, "session", honest)
    hand_in(room, "bob", book())
    assert run("grade", room, "--out", out) == 0 and points(table(out)["bob"]) == FULL


def test_the_class_page_counts_what_is_no_misconception(tmp_path, monkeypatch, capsys):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    why = cell("ex9-why", "Because I think so.") | {"cell_type": "markdown"}
    hand_in(room, "ann", book(why, a="def double(x):\n    while True: pass"))
    hand_in(
        room,
        "bob",
        book(
            why | {"source": "YOUR ANSWER HERE"}, a="import fabriclab\ndef double(x): return 2 * x"
        ),
    )
    hand_in(room, "cyd", student_version(book()))
    hand_in(room, "dan", book(a=None, c="def name(): return 5"))
    hand_in(room, "eve", b"{")
    assert run("grade", room, "--out", out, "--time-factor", "0.1") == 0
    assert sentence("grade.late", n=1, students="ann").search(capsys.readouterr().err)
    page, told = shown(tmp_path / "grades.html"), table(out)
    for trouble in ("time", "open", "cell", "file", "judge"):
        assert f"{text(f'grade.trouble.{trouble}')} (1)" in page
    assert stopped("double", told["ann"]["ex9-a"]["sentence"])
    assert text("grade.module") in told["bob"]["ex9-a"]["sentence"]
    assert "ModuleNotFoundError (1)" in page
    assert told["eve"]["ex9-a"]["seconds"] == ""
    texts = shown_texts(tmp_path / "grades-texts.html")
    assert texts.count("Because I think so.") == 1
    assert text("grade.page.empty", n=4, names="bob, cyd, dan, eve") in texts
    monkeypatch.setattr(judges, "questions", OF_THE_COURSE)
    hand_in(tmp_path / "one", "ann", book(cell("ex1-a", "1")))
    assert run("grade", tmp_path / "one", "--out", tmp_path / "one.csv") == 0
    page = shown(tmp_path / "one.html")
    assert heading("ex1") in page and heading("ex1-b") in page


HANGS = "def {}(sizes, *more):\n    while True: pass\n"


def test_a_function_that_hangs_costs_itself_only(tmp_path, monkeypatch, root):
    monkeypatch.setattr(judges, "questions", OF_THE_COURSE)
    made = json.loads((root / "solutions" / "exercise1.ipynb").read_bytes())
    for one in made["cells"]:
        if one["metadata"].get("nbgrader", {}).get("grade_id") == "ex1-c":
            one["source"] = "".join(one["source"]) + "\n" + HANGS.format("half_size")
        if one["metadata"].get("nbgrader", {}).get("grade_id") == "ex1-d":
            one["source"] = "while True: pass"
    hand_in(tmp_path / "room", "ann", made)
    assert (
        run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv", "--time-factor", "0.2")
        == 0
    )
    told = table(tmp_path / "grades.csv")["ann"]
    assert points(told) == {"ex1-a": 20, "ex1-b": 20, "ex1-c": 16, "ex1-d": 0, "ex1-e": 20}
    assert stopped("half_size", told["ex1-c"]["sentence"])
    assert stopped(text("grade.cells"), told["ex1-d"]["sentence"])
    assert float(told["ex1-c"]["seconds"]) < 2 and float(told["ex1-d"]["seconds"]) < 2


def each(ask, rng):
    """Three functions that are asked in turns, 20 times each: a third of the points for each."""
    right = dict.fromkeys(("first", "second", "third"), True)
    for number in range(20):
        for function in right:
            try:
                found = ask(function, number)
                if isinstance(found, str):  # of a generator: what lets it go on
                    found = ask(found)
                right[function] &= found == number
            except judges.Unanswered:
                right[function] = False
    return Verdict(sum(right.values()) / 3)


WORKS = "def {}(n):\n    end = time.process_time() + 0.016\n    while time.process_time() < end: pass\n    return n\n"
STALLS = {
    "spins at once": "def second(n):\n    while True: pass\n",
    "spins at the end": "def second(n):\n    while n == 19: pass\n    return n\n",
    "spends it bit by bit": WORKS.replace("0.016", "0.04").format("second"),
    "spins behind a generator": "def second(n):\n    while True: pass\n    yield\n",
    "leaves its process": "import os\ndef second(n): os._exit(0)\n",
}


@pytest.mark.parametrize("name", sampled(STALLS, 3))
def test_a_function_that_stalls_leaves_the_others_all_of_their_time(name):
    question = JudgedQuestion("ex9-a", ("first", "second", "third"), 30, each, lambda rng: None)
    code = "import time\n" + WORKS.format("first") + STALLS[name] + WORKS.format("third")
    with Sandbox(Limits(cpu_s=0.4)) as box:  # of which the other two need 0.32 s each
        record, _ = graders.grade_cells(box, "practice", question, [code], "")
    assert record["points"] == 20
    assert record["trouble"] == ("exited" if name == "leaves its process" else "time")
    assert record["seconds"] < 1.3


# Side by side


def countdown(ask, rng):
    """Judge with as much work as the answer asks for, as any loop over an answer does."""
    n = ask("n")
    while n > 0:
        n -= 1
    return Verdict(1.0)


def ticks(ask, rng):
    """Judge with many calls to and fro, which a judge in the same process would slow down."""
    clock = small_exercise.Clock()
    return Verdict(float(ask("tick", Proxy(clock, ("tick",))) == clock.time == 2000))


def loop(ask, rng):
    return Verdict(float(ask("loop") == 1))


BESIDE = {
    f"ex9-{letter}": JudgedQuestion(
        f"ex9-{letter}", ("n", "tick", "loop"), 10, judge, lambda rng: None
    )
    for letter, judge in (("a", countdown), ("b", ticks), ("c", loop))
}
HONEST = {
    "a": "def n(): return 5",
    "b": "def tick(clock):\n    for _ in range(2000): n = clock.tick()\n    return n",
    # As much work as takes 0.3 s on a core of its own; the limit is 2 s.
    "c": "import time\ndef loop():\n    end = time.process_time() + 0.3\n"
    "    while time.process_time() < end: pass\n    return 1",
}
GREEDY = {
    "judge": HONEST | {"a": "def n(): return 10**15"},
    "calls": HONEST | {"b": "def tick(clock):\n    while True: clock.tick()"},
    "threads": HONEST
    | {
        "c": (
            "import hashlib, threading\ndata = bytes(1 << 20)\ndef work():\n    while True: hashlib.sha256(data)\n"
            "def loop():\n    for _ in range(12): threading.Thread(target=work).start()\n    work()"
        )
    },
}


@pytest.mark.alone
@pytest.mark.parametrize("how", sampled(sorted(GREEDY, reverse=True), 3))
def test_one_greedy_answer_takes_no_time_from_others(tmp_path, monkeypatch, how):
    monkeypatch.setattr(judges, "questions", lambda: BESIDE)
    room, alone = tmp_path / "room", tmp_path / "alone"
    hand_in(room, "a greedy one", book(**GREEDY[how]))
    for folder in (room, alone):
        for n in range(3):
            hand_in(folder, f"honest{n}", book(**HONEST))
    told = {}
    for folder in (alone, room):
        out = tmp_path / f"{folder.name}.csv"
        assert run("grade", folder, "--out", out, "--time-factor", "0.4") == 0
        told[folder.name] = {name: rows for name, rows in table(out).items() if "honest" in name}
    for rows in (rows for students in told.values() for rows in students.values()):
        assert points(rows) == dict.fromkeys(BESIDE, 10), rows
    for question in BESIDE:
        before, after = (
            [float(rows[question]["seconds"] or 0) for rows in told[name].values()]
            for name in ("alone", "room")
        )
        assert sorted(after)[1] < 2 * sorted(before)[1] + 0.1, (question, before, after)
    greedy = table(tmp_path / "room.csv")["a greedy one"]
    lost = {"judge": "ex9-a", "calls": "ex9-b", "threads": "ex9-c"}[how]
    assert points(greedy) == dict.fromkeys(BESIDE, 10) | {lost: 0}


def test_an_answer_that_takes_too_long_to_judge_is_told_and_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(judges, "questions", lambda: BESIDE)
    hand_in(tmp_path / "room", "ann", book(**GREEDY["judge"]))
    out = tmp_path / "grades.csv"
    assert run("grade", tmp_path / "room", "--out", out, "--time-factor", "0.1") == 0
    row = table(out)["ann"]["ex9-a"]
    assert float(row["points"]) == 0 and text("grade.judge.long", seconds="0.5") in row["sentence"]
    assert f"{text('grade.trouble.judge')} (1)" in shown(tmp_path / "grades.html")
    assert (
        run("replay", out.with_suffix(".json"), "ex9-a") == 0 and "0.5 s" in capsys.readouterr().out
    )


def test_the_time_of_a_judge_ends_it_in_the_middle_of_c_code(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    slow = JudgedQuestion(
        "ex9-a",
        ("n",),
        10,
        lambda ask, rng: Verdict(float(sum(range(ask("n"))) > 0)),
        lambda rng: None,
    )
    monkeypatch.setattr(judges, "questions", lambda: {"ex9-a": slow})
    with graders.Graders("practice", Limits(judge_s=0.3)) as made:
        job = ("ex9-a", [["def n(): return 10**13"]], "")
        found = dict(made.grade([job, ("ex9-a", [["def n(): return 3"]], "")]))
    assert (
        "0.3 s" in found[0]["said"][0]
        and found[0]["trouble"] == "judge"
        and found[1]["points"] == 10
    )
    wait_for(lambda: not [*tmp_path.iterdir()])  # the sandbox of the process that was ended, too


def test_each_grader_has_a_core_of_its_own_which_no_answer_can_leave(monkeypatch):
    judge = lambda ask, rng: Verdict(1.0, (json.dumps(ask("n")),))  # noqa: E731
    monkeypatch.setattr(
        judges, "questions", lambda: {"ex9-a": JudgedQuestion("ex9-a", ("n",), 1, judge, None)}
    )
    code = (
        "import os, time\ndef n():\n    time.sleep(0.3)\n    try: os.sched_setaffinity(0, range(os.cpu_count()))\n"
        "    except OSError: pass\n    return list(os.sched_getaffinity(0))"
    )
    mine = os.sched_getaffinity(0)
    with graders.Graders("practice", Limits(), len(mine)) as made:
        found = [
            record["said"][0]
            for _, record in made.grade([("ex9-a", [[code]], "")] * min(len(mine), 8))
        ]
    assert len({*found}) == len(found) and all(len(json.loads(cores)) == 1 for cores in found)
    assert os.sched_getaffinity(0) == mine


def test_graders_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = psutil.Process().children(recursive=True)
    with graders.Graders("practice", Limits(), 2) as made:
        assert 2 <= len(psutil.Process().children(recursive=True)) - len(before) and [
            *tmp_path.iterdir()
        ]
        assert dict(made.grade([("ex9-c", [[ANSWERS["ex9-c"]]], "")]))[0]["points"] == 5
    assert psutil.Process().children(recursive=True) == before and [*tmp_path.iterdir()] == []


# Weak walls


def test_without_a_root_and_landlock_nothing_is_run_unless_asked(tmp_path, monkeypatch, capsys):
    honest = Sandbox.__init__
    weak = {"without": ("userns", "pidns", "netns", "root", "landlock")}
    monkeypatch.setattr(Sandbox, "__init__", lambda self, limits=None: honest(self, limits, **weak))
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    hand_in(room, "ann", book())
    assert run("grade", room, "--out", out) == 2 and not out.exists()
    assert "give --weak" in capsys.readouterr().err
    assert run("grade", room, "--out", out, "--weak") == 0
    said = "Weak walls (--weak)"
    assert said in capsys.readouterr().err and said in shown(tmp_path / "grades.html")
    assert said in shown(tmp_path / "grades" / "ann.html") and said in notes(out)["ann"]
    assert json.loads(out.with_suffix(".json").read_bytes())["head"]["weak"] is True
    assert (
        run("replay", out.with_suffix(".json"), "ex9-a") == 2
        and "give --weak" in capsys.readouterr().err
    )
    assert run("replay", out.with_suffix(".json"), "ex9-a", "--weak") == 0
    monkeypatch.setattr(Sandbox, "__init__", honest)
    with graders.Graders("practice", Limits()) as made:
        assert results.weak(made.active) or run("grade", room, "--out", out) == 2


# Replay


def test_a_replay_of_a_verdict_that_met_the_time_limit_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands, "Limits", impatient(12))
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    hand_in(
        room, "ann", book(a="import time\ndef double(x):\n    time.sleep(0.18)\n    return 2 * x")
    )
    assert run("grade", room, "--out", out, "--time-factor", "0.02") == 0
    for more, code, said in (
        ([], 0, sentence("grade.replay.same")),
        (["--time-factor", "4"], 1, sentence("grade.replay.other", points=0)),
    ):
        assert run("replay", out.with_suffix(".json"), "ex9-a", *more) == code
        told = capsys.readouterr().out
        at = said.search(told).start()
        assert told.index("ex9-a: ") < at < told.index(text("grade.replay.time"))
    assert (
        run("replay", out.with_suffix(".json"), "ex9-b") == 0
        and "time limit" not in capsys.readouterr().out
    )


@pytest.mark.parametrize("factor", [1, 0.05])
def test_results_of_a_strict_clock_on_the_wall_are_replayed_with_a_fair_one(
    tmp_path, capsys, factor
):
    """Earlier versions wrote files whose limit on the wall was that of processor time."""
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    slow = "import time\ndef double(x):\n    time.sleep(0.2)\n    return 2 * x"
    hand_in(room, "ann", book(a=slow))
    assert run("grade", room, "--out", out) == 0
    assert points(table(out)["ann"]) == FULL

    def as_before(whole):
        limits = whole["head"]["limits"]
        limits["wall_s"] = limits["cpu_s"] = factor * 5.0

    changed(out.with_suffix(".json"), as_before)
    assert run("replay", out.with_suffix(".json"), "ex9-a") == 0
    assert text("grade.replay.same") in capsys.readouterr().out


def test_a_verdict_is_repeated_from_the_file_alone(tmp_path, capsys):
    room, out, key = tmp_path / "room", tmp_path / "grades.csv", tmp_path / "key"
    notebooks.new_key(key)
    hand_in(room, "ann", book())
    hand_in(
        room,
        "bob",
        book(cell("ex9-a", "1"), a="import random\ndef double(x):\n    return random.random()"),
    )
    assert run("grade", room, "--out", out, "--key", key) == 0
    told, elsewhere = table(out), tmp_path / "elsewhere.json"
    elsewhere.write_bytes(out.with_suffix(".json").read_bytes())
    assert key.read_text().strip() not in elsewhere.read_text()
    for student, question in (
        ("ann", "ex9-a"),
        ("ann", "ex9-b"),
        ("bob", "ex9-a"),
        ("bob", "ex9-c"),
    ):
        capsys.readouterr()
        assert run("replay", elsewhere, question, "--student", student, "--key", key) == 0
        said = capsys.readouterr().out
        assert (
            f"{student}, {question}: {told[student][question]['points'].removesuffix('.0')} /"
            in said
        )
        assert said.splitlines()[1] == text("grade.replay.same")
        assert f"fabriclab {fabriclab.__version__}" in said
    changed = elsewhere.read_text().replace("random.random()", "2 * x")
    elsewhere.write_text(changed)
    assert run("replay", elsewhere, "ex9-a", "--student", "bob", "--key", key) == 1
    assert sentence("grade.replay.other", points=0).search(capsys.readouterr().out)
    for wrong, said in (
        ([elsewhere, "ex9-a", "--student", "bob"], sentence("grade.replay.key")),
        (
            [elsewhere, "ex9-a", "--key", key],
            sentence("grade.replay.student", known="ann, bob"),
        ),
        ([elsewhere, "ex9-z", "--student", "bob", "--key", key], "ex9-a, ex9-b, ex9-c"),
        ([key, "ex9-a"], sentence("grade.results.foreign", fault="it must be an object")),
        ([tmp_path / "nowhere", "ex9-a"], "No such file"),
    ):
        assert run("replay", *wrong) == 2 and re.search(said, capsys.readouterr().err)


def changed(path, change):
    """Change a file of results as an editor would."""
    whole = json.loads(path.read_bytes())
    change(whole)
    first = json.dumps({"head": whole["head"], "results": []}).removesuffix("]}")
    path.write_text(f"{first}\n" + ",\n".join(map(json.dumps, whole["results"])) + "\n]}\n")


EDITS = {
    "results[0].questions[0].points must be a number": lambda w: w["results"][0]["questions"][
        0
    ].update(points="10"),
    "results[0].questions[0].of must be a number": lambda w: w["results"][0]["questions"][0].update(
        of=float("nan")
    ),
    "results[0].questions[1].said must be a list": lambda w: w["results"][0]["questions"][1].update(
        said="right"
    ),
    "results[0].questions[1].cells[0] must be a text": lambda w: w["results"][0]["questions"][
        1
    ].update(cells=[1]),
    "results[0].questions[1].token must be a text": lambda w: w["results"][0]["questions"][
        1
    ].update(token="\ud800"),
    "results[0].questions must be a list": lambda w: w["results"][0].pop("questions"),
    "results[0].student must be a text": lambda w: w["results"][0].update(student=["ann"]),
    "results[0].texts.why must be a text": lambda w: w["results"][0]["texts"].update(why=5),
    "results[1] must be an object": lambda w: w["results"].insert(1, 5),
    "head.limits.wall_s must be a number": lambda w: w["head"]["limits"].pop("wall_s"),
    "head.limits.files must be a whole number": lambda w: w["head"]["limits"].update(files=-1),
    "head.limits.more must be left out": lambda w: w["head"]["limits"].update(more=None),
    "head.active must be a list": lambda w: w["head"].update(active="all"),
    "head.weak must be true or false": lambda w: w["head"].update(weak=0),
    "head must be an object": lambda w: w.update(head=5),
    "head.format must be fabriclab-grades-1": lambda w: w["head"].update(format="grades-2"),
}


@pytest.mark.parametrize("said", EDITS)
def test_a_file_of_results_that_was_changed_is_refused_with_what_is_wrong(
    graded, tmp_path, capsys, said
):
    out = tmp_path / "grades.csv"
    changed(out.with_suffix(".json"), EDITS[said])
    before = out.with_suffix(".json").read_bytes()
    for command in (
        ["replay", out.with_suffix(".json"), "ex9-a"],
        ["grade", tmp_path / "room", "--out", out],
    ):
        capsys.readouterr()
        assert run(*command) == 2
        told = capsys.readouterr().err
        foreign = sentence("grade.results.foreign", fault=said).search(told)
        assert foreign and foreign["path"].endswith("grades.json"), told
    assert out.with_suffix(".json").read_bytes() == before


@pytest.mark.parametrize(
    "foreign", [b"", b"5", b"[1]", b"{", b'{"head": {}}', b"\xff", b"[" * 10**5, b'{"head": [']
)
def test_foreign_files_of_results_are_refused(tmp_path, capsys, foreign):
    hand_in(tmp_path / "room", "ann", book())
    (tmp_path / "grades.json").write_bytes(foreign)
    assert run("replay", tmp_path / "grades.json", "ex9-a") == 2
    assert run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv") == 2
    told = sentence("grade.results.foreign").findall(capsys.readouterr().err)
    assert len(told) == 2 and all("grades.json" in path for path, *_ in told)


def test_walls_and_troubles_of_another_version_are_shown_as_they_are(graded, tmp_path):
    out = tmp_path / "grades.csv"

    def edit(whole):
        whole["results"][0]["active"] = ["moat"]
        whole["results"][0]["questions"][0]["trouble"] = "late"

    changed(out.with_suffix(".json"), edit)
    assert run("grade", tmp_path / "room", "--out", out) == 0
    assert "moat" in shown(next((tmp_path / "grades").glob("*.html"))) and "late (1)" in shown(
        tmp_path / "grades.html"
    )


def test_results_behind_other_walls_are_not_mixed(graded, tmp_path, capsys):
    out = tmp_path / "grades.csv"
    for walls in ([], ["limits", "landlock", "seccomp"]):
        changed(
            out.with_suffix(".json"), lambda whole, walls=walls: whole["head"].update(active=walls)
        )
        assert run("grade", tmp_path / "room", "--out", out) == 2
        assert "behind other walls" in capsys.readouterr().err


# The table


def test_no_part_of_a_cell_is_a_formula_for_a_spreadsheet():
    cells = [
        "=1+1",
        "a;=1+1",
        "a;\t=1",
        "a\t@b",
        "a, -3",
        'a;"=1',
        "a\n+1",
        "\uff1d1",
        " =1",
        "right; 5 = 5",
        "a-b",
    ]
    line = results.as_csv([(*cells, 5)]).decode()
    assert line.endswith(',"a-b","5"\n')
    for separator in ",;\t|":
        for row in csv.reader(line.splitlines(), delimiter=separator):
            assert not [
                cell
                for cell in row
                if cell.strip(" \"'")[:1] in set("=+-@\uff1d") and "'" not in cell
            ], row
    assert '"right; 5 = 5"' in line


# Refusals


def test_the_reference_must_get_full_marks(tmp_path, capsys):
    hand_in(tmp_path / "room", "ann", book())
    hand_in(tmp_path / "solutions", "exercise9", book())
    out = tmp_path / "grades.csv"
    assert run("grade", tmp_path / "room", "--out", out, "--reference", tmp_path / "solutions") == 0
    assert table(out).keys() == {"ann"}
    assert "gets full marks" in capsys.readouterr().err
    out.unlink(), out.with_suffix(".json").unlink()
    for wrong in (book(b="def three(clock): return 3"), book(c=None), b"{"):
        hand_in(tmp_path / "solutions", "exercise9", wrong)
        assert (
            run("grade", tmp_path / "room", "--out", out, "--reference", tmp_path / "solutions")
            == 2
        )
        assert (
            sentence("grade.reference").search(capsys.readouterr().err)["of"] in {"10", "5", "15"}
            and not out.exists()
        )
    assert run("grade", tmp_path / "room", "--out", out, "--reference", tmp_path / "nowhere") == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--out", "grades.txt"], "must end in .csv"),
        (["--time-factor", "0"], "above 0"),
        (["--key", "empty"], "holds no key: 64"),
        (["--key", "nowhere"], "No such file"),
        (["--own-work"], "is a folder"),
    ],
)
def test_what_is_refused_is_told(tmp_path, capsys, monkeypatch, more, said):
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("")
    hand_in(tmp_path / "room", "ann", book())
    assert (
        run("grade", "room", "--out", "grades.csv", *more) == 2 and said in capsys.readouterr().err
    )
    assert not Path("grades.csv").exists()


def test_a_full_disk_is_told_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    out = tmp_path / "grades.csv"
    hand_in(tmp_path / "room", "ann", book())
    hand_in(tmp_path / "room", "bob", book())
    full = [False, True]

    def sync(file):
        if full and full.pop(0):
            full.extend([True] * 9)
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync)
    assert run("grade", tmp_path / "room", "--out", out) == 2
    said = capsys.readouterr().err
    full_disk = text("grade.full", path=out, error="No space left on device")
    assert full_disk in said and "None" not in said
    full.clear()
    assert run("grade", tmp_path / "room", "--out", out) == 0 and table(out).keys() == {
        "ann",
        "bob",
    }


def test_what_cannot_be_read_is_not_graded(tmp_path, monkeypatch, capsys):
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    hand_in(room, "ann", book())
    hand_in(room, "bob", book())
    hand_in(room / "cyd", "ex9", book())
    hand_in(room / "dan" / "deep", "ex9", book())
    denied = {room / "bob.ipynb", room / "dan" / "deep"}
    honest = Path.read_bytes, os.scandir

    def read(path):
        if path in denied:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return honest[0](path)

    def scan(path):
        if Path(path) in denied:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return honest[1](path)

    monkeypatch.setattr(Path, "read_bytes", read)
    monkeypatch.setattr(os, "scandir", scan)
    assert run("grade", room, "--out", out) == 1
    said = capsys.readouterr().err
    assert table(out).keys() == {"ann", "cyd"} and sentence("grade.ready", n=2).search(said)
    for name, file in (("bob", "bob.ipynb"), ("dan", "dan/deep")):
        unread = text("grade.file.unread", file=file, error="Permission denied")
        failed = text("grade.failed", student=name, said=unread)
        assert failed in said and failed in shown(tmp_path / "grades.html")
    denied.clear()
    assert run("grade", room, "--out", out) == 0 and points(table(out)["dan"]) == FULL
    denied.add(room)
    assert (
        run("grade", room, "--out", out) == 2
        and "room: Permission denied" in capsys.readouterr().err
    )


# Which exercises are due


def both(*numbers):
    """Return questions of several exercises, all like ex9-c."""
    ids = [f"ex{n}-{letter}" for n in numbers for letter in "ab"]
    return {
        id: JudgedQuestion(id, ("name",), 5, small_exercise.name, lambda rng: None) for id in ids
    }


def test_an_exercise_is_due_if_most_students_hold_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(judges, "questions", lambda: both(7, 8))
    one = {"cells": [cell("ex7-a", "def name(): return 'ab'")], "metadata": {}, "nbformat": 4}
    for name in ("ann", "bob", "cyd"):
        hand_in(tmp_path / "room", name, one)
    hand_in(tmp_path / "room", "eve", {**one, "cells": [*one["cells"], cell("ex8-a", "1")]})
    (tmp_path / "room" / "fay").mkdir()

    def due(*more):
        out = tmp_path / f"{len([*tmp_path.glob('*.csv')])}.csv"
        assert run("grade", tmp_path / "room", "--out", out, *more) == 0
        return {*table(out)["ann"]}, capsys.readouterr().err

    asked, said = due()
    assert asked == {"ex7-a", "ex7-b"}
    assert sentence("grade.due.not", name="ex8", n=1, of=5).search(said)
    assert due("--exercise", "8")[0] == {"ex8-a", "ex8-b"} == due("--exercise", "ex8")[0]
    assert due("--exercise", "7", "--exercise", "8")[0] == {*both(7, 8)}
    hand_in(tmp_path / "room", "ann", {**one, "cells": [*one["cells"], cell("ex8-a", "1")]})
    assert due()[0] == {"ex7-a", "ex7-b"}  # half is not more than half
    hand_in(tmp_path / "room", "bob", {**one, "cells": [*one["cells"], cell("ex8-a", "1")]})
    assert due()[0] == {*both(7, 8)}
    assert run("grade", tmp_path / "room", "--out", tmp_path / "x.csv", "--exercise", "9") == 2
    refused = text("grade.exercise", name="ex9", known="ex7, ex8")
    assert refused in capsys.readouterr().err


def test_results_of_one_exercise_are_not_replaced_by_those_of_another(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(judges, "questions", lambda: both(7, 8))
    monkeypatch.chdir(tmp_path)
    for name in ("ann", "bob"):
        for number in (7, 8):
            made = book(cell(f"ex{number}-a", "def name(): return 'ab'"), a=None, b=None, c=None)
            hand_in(Path("room", name), f"exercise{number}", made)
    first = ["grade", "room", "--out", "grades-ex7.csv", "--exercise", "7"]
    assert run(*first) == 0
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    started = []
    monkeypatch.setattr(graders.Graders, "__enter__", started.append)
    capsys.readouterr()
    for more in (["--exercise", "8"], []):
        assert run(*first[:4], *more) == 2
        other = "grades-ex7-ex8.csv" if not more else "grades-ex8.csv"
        told = sentence("grade.results.exercises", held="ex7", other=other, again="--exercise 7")
        assert told.search(capsys.readouterr().err)
    assert {path: path.read_bytes() for path in before} == before and not started
    monkeypatch.undo()
    monkeypatch.setattr(judges, "questions", lambda: both(7, 8))
    monkeypatch.chdir(tmp_path)
    assert run(*first) == 0  # the same selection goes on
    assert text("grade.kept", n=2) in capsys.readouterr().err
    assert run(*first[:3], "grades-ex8.csv", "--exercise", "8") == 0


def test_the_class_page_tells_another_exercise_from_no_notebook(tmp_path, monkeypatch):
    monkeypatch.setattr(judges, "questions", lambda: both(7, 8))
    made = book(cell("ex8-a", "1"), a=None, b=None, c=None)
    for name in ("ann", "bob"):
        hand_in(tmp_path / "room" / name, "exercise8", made)
    (tmp_path / "room" / "cyd").mkdir()
    hand_in(tmp_path / "room" / "dan", "exercise7", b"{")
    out = tmp_path / "grades.csv"
    assert run("grade", tmp_path / "room", "--out", out, "--exercise", "7") == 0
    page = shown(tmp_path / "grades.html")
    for trouble, n in (("other", 2), ("none", 1), ("file", 1)):
        assert f"{text(f'grade.trouble.{trouble}')} ({n})" in page
    assert table(out)["ann"]["ex7-a"]["sentence"] == text("grade.no_cells", exercise="ex7")


def test_where_no_exercise_is_held_by_most_all_that_occur_are_due(tmp_path, monkeypatch):
    monkeypatch.setattr(judges, "questions", lambda: both(6, 7, 8))
    for name, number in (("ann", 7), ("bob", 8)):
        hand_in(tmp_path / "room", name, book(cell(f"ex{number}-a", "1"), a=None, b=None, c=None))
    assert run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv") == 0
    assert table(tmp_path / "grades.csv")["ann"].keys() == both(7, 8).keys()


def test_a_lost_setup_cell_is_replaced_by_that_of_the_exercise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "solutions", "exercise9", book())
    lost = book()
    del lost["cells"][0]
    hand_in(tmp_path / "room", "ann", lost)
    markdown = book()
    markdown["cells"][0]["cell_type"] = "markdown"
    hand_in(tmp_path / "room", "bob", markdown)
    hand_in(tmp_path / "room", "cyd", book(setup="import numpy as np\nfactor = 3"))
    assert run("grade", "room", "--out", "grades.csv") == 0
    told = table(Path("grades.csv"))
    assert points(told["ann"]) == points(told["bob"]) == FULL and points(told["cyd"]) == FULL | {
        "ex9-a": 0
    }
    assert text("grade.setup", exercise="ex9") in notes(Path("grades.csv"))["ann"]
    assert text("grade.setup", exercise="ex9") in shown(tmp_path / "grades" / "ann.html")
    assert run("replay", "grades.json", "ex9-a", "--student", "ann") == 0


def test_a_folder_without_notebooks_is_told(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert run("grade", folder, "--out", tmp_path / "grades.csv") == 2
        assert text("grade.no_notebook", folder=folder) in capsys.readouterr().err
    with pytest.raises(SystemExit) as error:
        run("grade", tmp_path)
    assert error.value.code == 2


# One's own work


def test_own_work_needs_no_sandbox(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "darwin")
    hand_in(tmp_path, "mine", book(c="raise SystemExit"))
    assert run("grade", tmp_path / "mine.ipynb", "--out", tmp_path / "grades.csv") == 2
    assert "Linux" in capsys.readouterr().err
    assert (
        run("grade", tmp_path / "mine.ipynb", "--out", tmp_path / "grades.csv", "--own-work") == 0
    )
    told = table(tmp_path / "grades.csv")["mine"]
    assert text("grade.own_work") in capsys.readouterr().err
    assert points(told) == FULL | {"ex9-c": 0}
    assert text("grade.made.none") in shown(tmp_path / "grades" / "mine.html")


def test_students_are_told_the_limits(root):
    limits = Limits()
    states(
        (root / "exercises" / "GRADING.md").read_text(encoding="utf-8"),
        *(f"{n:g} seconds" for n in (limits.cpu_s, limits.wall_s, limits.judge_s)),
        f"{limits.question_s / 60:g} minutes",
        f"{limits.memory >> 30} GiB",
        f"{notebooks.MOST >> 20} MiB",
        f"{notebooks.MOST_CELLS:,} cells",
        f"{limits.requests:,} times",
    )


# Release


@pytest.fixture
def classroom(tmp_path, monkeypatch):
    """Return a folder with a key, a list of students and the source of the exercise."""
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "solutions", "exercise9", book())
    hand_in(tmp_path / "exercises", "exercise9", student_version(book()))
    Path("list").write_text("# class of 2026\nann\nBob B.-C\n\n")
    assert run("release", "--new-key", "class.key") == 0
    return tmp_path


def data_of(path):
    cells = {
        c["metadata"]["nbgrader"]["grade_id"]: c for c in json.loads(path.read_bytes())["cells"]
    }
    return cells, "".join(cells["ex9-data"]["source"])


def test_a_key_is_secret_and_never_overwritten(classroom, capsys):
    mode, key = stat.S_IMODE(Path("class.key").stat().st_mode), notebooks.read_key("class.key")
    assert mode == 0o600 and len(bytes.fromhex(key)) == 32
    assert (
        run("release", "--new-key", "class.key") == 2 and "still needed" in capsys.readouterr().err
    )
    assert notebooks.read_key("class.key") == key and notebooks.fingerprint(key) not in key
    assert (
        notebooks.token(key, "ann")
        != notebooks.token(key, "bob")
        != notebooks.token(key + "0", "bob")
    )


@pytest.mark.parametrize(
    ("rights", "code", "key"),
    [
        (0o600, 0, ""),
        (0o640, 0, "told"),
        (0o604, 0, "told"),
        (0o620, 2, "open"),
        (0o602, 2, "open"),
    ],
)
def test_a_key_that_others_can_reach_is_told_or_refused(classroom, capsys, rights, code, key):
    said = text(f"grade.key.{key}", path="class.key") if key else ""
    hand_in(Path("in"), "ann", book())
    Path("class.key").chmod(rights)
    capsys.readouterr()
    assert run("grade", "in", "--key", "class.key", "--out", "grades.csv") == code
    told = capsys.readouterr().err
    assert said in told
    assert key or not any(sentence(f"grade.key.{k}").search(told) for k in ("told", "open"))
    assert (
        run("release", "9", "--key", "class.key", "--out", "handout") == code
        and said in capsys.readouterr().err
    )


def test_a_class_gets_one_file_with_its_numbers(classroom):
    assert run("release", "9", "--key", "class.key", "--out", "handout") == 0
    cells, data = data_of(Path("handout/exercise9.ipynb"))
    assert list(cells) == ["ex9-setup", "ex9-data", "ex9-a", "ex9-b", "ex9-c"]
    assert re.fullmatch(r"# .*\nsize = \d+\nfaults = \[\d+, \d+, \d+\]", data)
    assert (
        cells["ex9-data"]["metadata"]["editable"] is False
        and faults({"cells": [*cells.values()]}) == []
    )
    assert "BEGIN SOLUTION" not in Path("handout/exercise9.ipynb").read_text()
    assert run("release", "--new-key", "other.key") == 0
    assert run("release", "exercises/exercise9.ipynb", "--key", "other.key", "--out", "other") == 0
    assert data_of(Path("other/exercise9.ipynb"))[1] != data


def test_solutions_are_never_handed_out(classroom, capsys):
    hidden = cell("ex9-test", "### BEGIN HIDDEN TESTS\nassert True\n### END HIDDEN TESTS")
    for made in (
        book(),
        book(hidden, **dict.fromkeys("abc")),
        book(a="def double(x): return 2 * x"),
    ):
        hand_in(Path("given"), "exercise9", made)
        assert (
            run("release", "given/exercise9.ipynb", "--key", "class.key", "--out", "handout") == 2
        )
        assert (
            "exercise9.ipynb holds solutions" in capsys.readouterr().err
            and not Path("handout").exists()
        )


def test_each_student_gets_numbers_and_cases_of_their_own(classroom, capsys):
    assert (
        run("release", "9", "--key", "class.key", "--per-student", "list", "--out", "handout") == 0
    )
    files = {name: Path("handout", name, "exercise9.ipynb") for name in ("ann", "Bob B.-C")}
    assert data_of(files["ann"])[1] != data_of(files["Bob B.-C"])[1]
    assert "ann" not in files["ann"].read_text()
    for name, path in files.items():
        made = json.loads(path.read_bytes())
        for one in made["cells"]:
            id = one["metadata"]["nbgrader"]["grade_id"]
            one["source"] = {"ex9-a": "def double(x): return x"}.get(
                id, ANSWERS.get(id, one["source"])
            )
        hand_in(Path("in", name), "exercise9", made)
    assert (
        run("grade", "in", "--key", "class.key", "--out", "grades.csv", "--reference", "solutions")
        == 0
    )
    told = table(Path("grades.csv"))
    assert told["ann"]["ex9-a"]["sentence"] != told["Bob B.-C"]["ex9-a"]["sentence"]
    again = run("replay", "grades.json", "ex9-a", "--student", "ann", "--key", "class.key")
    assert again == 0 and told["ann"]["ex9-a"]["sentence"] in capsys.readouterr().out
    assert (
        run("release", "9", "--key", "class.key", "--per-student", "list", "--out", "handout") == 2
    )
    assert "is there already" in capsys.readouterr().err


def test_real_names_are_folders_and_are_found_again(classroom):
    names = ["Shane O'Neil", "Zoë Müller-Łuk", "Bob Jr.", 'n<b>&"1', "李雷"]
    Path("list").write_text("\ufeff" + "\r\n".join(names), encoding="utf-8")
    assert (
        run("release", "9", "--key", "class.key", "--per-student", "list", "--out", "handout") == 0
    )
    tokens = {
        json.loads(path.read_bytes())["metadata"]["fabriclab"]["student"]
        for path in Path("handout").glob("*/*")
    }
    key = notebooks.read_key("class.key")
    assert tokens == {notebooks.token(key, name) for name in names}
    # as some systems write it
    assert notebooks.token(key, "Zoe\u0308") == notebooks.token(key, "Zo\u00eb")
    assert run("grade", "handout", "--key", "class.key", "--out", "grades.csv") == 0
    assert (
        all(not note for note in notes(Path("grades.csv")).values())
        and len(table(Path("grades.csv"))) == 5
    )
    page = shown(Path("grades", "Shane O'Neil.html"))
    assert (
        """--student 'Shane O'"'"'Neil' --key KEY_FILE""" in page
        and "python -m fabriclab replay" in page
    )


def test_a_file_of_somebody_else_is_noted(classroom, capsys):
    mine = {"ann": "n = 5", "bob": "n = 6", "cyd": "n = 7"}
    for name, owner in (("ann", "ann"), ("bob", "ann"), ("cyd_99", "cyd"), ("dan", "eve")):
        made = book(
            *[cell("", mine.get(name, "n = 8"))],
            b=f"# {name}\ndef three(clock): return '{name}'",
            a=f"def double(x): return '{name}'",
            c=f"def name(): return '{name}'",
        )
        made["metadata"] = {
            "fabriclab": {"student": notebooks.token(notebooks.read_key("class.key"), owner)}
        }
        hand_in(Path("in", name), "exercise9", made)
    Path("list").write_text("ann\nbob\ncyd\neve")
    assert (
        run("grade", "in", "--key", "class.key", "--per-student", "list", "--out", "grades.csv")
        == 0
    )
    told = notes(Path("grades.csv"))
    owner, other = sentence("grade.note.owner"), text("grade.note.owner", owner="ann")
    same = text("grade.note.token", n=2, students="ann, bob")
    assert other in told["bob"] and same in told["bob"] and same in told["ann"]
    assert not owner.search(told["ann"]) and told["cyd_99"] == ""
    assert told["dan"] == text("grade.note.owner", owner="eve")
    assert other in shown(Path("grades.html"))
    assert sentence("grade.note", student="bob").search(capsys.readouterr().err)
    assert not owner.search(shown(Path("grades", "bob.html")))  # it is the teacher's to ask


def test_the_same_code_and_the_published_solution_are_noted(classroom):
    own = {
        "a": "def double(x):\n    return x+x",
        "b": "def three(clock):\n    return 0",
        "c": "def name(): return 'cd'",
    }
    hand_in(Path("in"), "ann", book(**own))
    hand_in(
        Path("in"),
        "bob",
        book(
            **own | {"a": "def double(x):  # mine\n  return x + x", "c": "def name(): return 'ef'"}
        ),
    )
    bare = {name: re.sub("### .*", "", ANSWERS[f"ex9-{name}"]) for name in "bc"}
    hand_in(Path("in"), "cyd", book(a="def double(x): return 2.0 * x", **bare))
    hand_in(
        Path("in"),
        "dan",
        book(a="def double(x):\n    ### BEGIN SOLUTION\n    return x", b=None, c=None),
    )
    for name in ("eve", "fay"):
        hand_in(Path("in"), name, student_version(book()))
    assert run("grade", "in", "--out", "grades.csv") == 0
    told, right = notes(Path("grades.csv")), points(table(Path("grades.csv"))["ann"])
    same = text("grade.note.code", n=2, students="ann, bob", questions="ex9-a, ex9-b")
    assert told["ann"] == same and same in told["bob"]
    for name, asked in (("cyd", "ex9-b, ex9-c"), ("dan", "ex9-a")):
        assert text("grade.note.published", questions=asked) in told[name]
    assert told["eve"] == told["fay"] == "" and right == FULL | {"ex9-b": 0}


@pytest.mark.parametrize("names", ["../up", "a/b", ".hidden", "a\nA", "x" * 200, "a\\b", "nul\0"])
def test_names_that_are_no_folders_are_refused(classroom, capsys, names):
    Path("list").write_text(names)
    assert (
        run("release", "9", "--key", "class.key", "--per-student", "list", "--out", "handout") == 2
    )
    assert "cannot be folders" in capsys.readouterr().err and not Path("handout").exists()


def test_what_release_lacks_is_told(classroom, capsys):
    both = ["7", "--key", "class.key"]
    for given, said in (
        (["9"], "Missing: --key --out."),
        (both, "Missing: --out."),
        (["7", "--out", "x"], "Missing: --key."),
        (["7", "--key", "class.key", "--out", "x"], "no exercise 7"),
    ):
        assert run("release", *given) == 2 and said in capsys.readouterr().err
    assert (
        run("release", "9", "--new-key", "k2", "--out", "x") == 0
        and Path("x/exercise9.ipynb").exists()
    )


@pytest.mark.parametrize("more", [(), ("--own-work",)])
def test_where_nothing_lies_nothing_is_graded(classroom, capsys, more):
    assert run("grade", "nowhere/exercise9.ipynb", *more, "--out", "grades.csv") == 2
    told = text("grade.no_notebook", folder="nowhere/exercise9.ipynb")
    assert told in capsys.readouterr().err and not Path("grades.csv").exists()


def test_a_folder_without_a_notebook_is_no_student_where_files_are_handed_in(
    tmp_path, monkeypatch, capsys
):
    for name in ("ann", "bob"):
        hand_in(tmp_path / "room", name, book(a=None, b=None, c=None))
    (tmp_path / "room" / "teacher").mkdir()
    (tmp_path / "room" / "teacher" / "sheet.md").write_text("a sheet")
    assert [*works.collect(tmp_path / "room")] == ["ann", "bob", "teacher"]
    (tmp_path / "room" / "fay").mkdir()
    room = works.collect(tmp_path / "room")
    assert works.left_out(tmp_path / "room", room) == ["teacher"]
    assert works.left_out(tmp_path / "room", room, ["ann", "teacher"]) == []
    assert run("grade", tmp_path / "room", "--out", tmp_path / "grades.csv") == 0
    assert sentence("grade.left_out", name="teacher").search(capsys.readouterr().err)
    assert "teacher" not in (tmp_path / "grades.csv").read_text()


def test_a_folder_without_a_notebook_is_a_student_where_each_has_a_folder(tmp_path):
    hand_in(tmp_path / "ann", "mine", book(a=None, b=None, c=None))
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "report.pdf").write_text("no notebook")
    room = works.collect(tmp_path)
    assert [*room] == ["ann", "bob"]
    assert works.left_out(tmp_path, room) == []


def test_the_folder_of_the_exercises_lists_exercises_only(root):
    room = works.collect(root / "exercises")
    names = room.keys() - {*works.left_out(root / "exercises", room)}
    assert names == {"exercise1", "exercise2", "exercise3", "exercise4"}
