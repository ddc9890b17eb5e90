"""What an instructor sees of a class: points, what went wrong, attempts at the walls, equal work, and free texts."""

import contextlib
import csv
import html
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from fabriclab import __main__
from fabriclab.course import judges
from fabriclab.course.grading import class_page, graders, marks, pages, results
from fabriclab.course.grading._attempts import EVENTS, KINDS, Watch
from fabriclab.course.grading._clock import starved
from fabriclab.course.grading.limits import Limits
from fabriclab.course.grading.sandbox import Sandbox
from fabriclab.course.judges import JudgedQuestion, Verdict
from fabriclab.texts import table, text
from support.colour_science import BLINDNESS, contrast, lab, linear
from support.small_exercise import QUESTIONS, book, cell, hand_in

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="learners' code is run on Linux only"
)
TRIED = "import os\ndef double(x):\n    try: {}\n    except BaseException: pass\n    return 2 * x"
# What code tries, and catches when it is refused: it loses nothing, and it is noted.
TRIES = {
    "native": "__import__('ctypes').CDLL(None)",
    "network": "__import__('socket').create_connection(('127.0.0.1', 9), 1)",
    "process": "os.fork() or os._exit(0)",
    "read": "open('/etc/passwd')",
    "search": "__import__('gc').get_objects()",
    "signal": "os.kill(os.getppid(), 0)",
    "write": "open('/etc/motd', 'w')",
}
# What ends an answer, and the words for it.
ERRORS = {
    "syntax": ("def double(x:\n    return 2", "SyntaxError"),
    "division": ("def double(x): return 1 / 0", "ZeroDivisionError"),
    "own error": ("class Bad(Exception): pass\ndef double(x): raise Bad", "code"),
    "memory": ("def double(x): return len(bytearray(8 << 30))", "memory"),
    "leaves": ("import os\ndef double(x): os._exit(0)", "exited"),
    "misspelt": ("def duble(x): return 2 * x", "missing"),
}
FORGES = "import os\ndef double(x):\n    os.write(3, b'{\"id\": 0}\\n')\n    return 2 * x"
COPIES = [f"copy{n}" for n in range(8)]
WHY = {"ann": "=1+1", "native": "Since it is so.", "network": "Since it is so."}


def run(*command):
    return __main__.main([str(part) for part in command])


def rows(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def words(page):
    """Return the words of a page."""
    return html.unescape(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")))


def made_for(student, **answers):
    """Return a notebook with a free text."""
    why = cell("ex9-why", WHY.get(student, "YOUR ANSWER HERE")) | {"cell_type": "markdown"}
    return book(why, **answers)


def graded(folder, *more):
    """Grade a made class; return where its table is."""
    room = folder / "room"
    for name, source in TRIES.items():
        hand_in(room, name, made_for(name, a=TRIED.format(source) + f"  # {name}"))
    for name, (source, _) in ERRORS.items():
        hand_in(room, name, made_for(name, a=source))
    for name in COPIES:
        wrong = "def double(x):\n    y = x\n    return y"
        hand_in(room, name, made_for(name, a=wrong, c="def name(): return 'xy'"))
    hand_in(room, "forge", made_for("forge", a=FORGES))
    hand_in(room, "ann", made_for("ann"))
    out = folder / "grades.csv"
    assert run("grade", room, "--out", out, *more) == 0
    return out


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judges, "questions", lambda: QUESTIONS)
        return graded(tmp_path_factory.mktemp("class"))


@pytest.fixture
def copied(out, tmp_path, monkeypatch):
    """Return a copy of the results that a test may change."""
    monkeypatch.setattr(judges, "questions", lambda: QUESTIONS)
    for file in out.parent.glob("grades*.*"):
        shutil.copyfile(file, tmp_path / file.name)
    return tmp_path / "grades.csv"


def records(out):
    """Return the record of question a of each student."""
    _, entries = results.load(out.with_suffix(".json"))
    return {entry["student"]: entry["questions"][0] for entry in entries}


# Points


@linux
def test_the_matrix_holds_each_student_once_as_page_and_as_table(out):
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    head, *found = rows(out.with_name("grades-matrix.csv"))
    assert head == ["student", "ex9-a /10", "ex9-b /10", "ex9-c /5", "total /25"]
    assert [row[0] for row in found] == sorted([*TRIES, *ERRORS, *COPIES, "forge", "ann"])
    for student, *points, total in found:
        link = f'<a href="grades/{student.replace(" ", "%20")}.html">{student}</a>'
        assert page.count(link) == 1, student
        cells = page.partition(link)[2].partition("<tr>")[0]
        shown = re.findall(r"<td[^>]*>([\d.]+)", cells)
        assert shown == [*points, total]
        assert float(total) == sum(map(float, points))


@linux
def test_medians_full_marks_and_the_histogram_are_counted(out):
    shown = words(out.with_suffix(".html"))
    n = len(TRIES) + len(ERRORS) + len(COPIES) + 2
    # Full marks in question a: all who only tried, and ann; wrong are the copies, the errors and the forger.
    full = len(TRIES) + 1
    assert re.search(rf"Full marks\s+{100 * full / n:.0f} %\s+100 %\s+100 %", shown)
    assert re.search(r"Median\s+0\s+10\s+5\s+15\b", shown)
    bars = dict(re.findall(r"([\d.]+ to (?:below )?[\d.]+)\s+(\d+)", shown))
    assert bars == {
        **{f"{2.5 * k:g} to below {2.5 * k + 2.5:g}": "0" for k in range(9)},
        "15 to below 17.5": str(n - full),
        "22.5 to 25": str(full),
    }


def test_a_share_of_points_has_a_colour():
    shares = {0: "none", 4.99: "some", 5: "most", 9.99: "most", 10: "full"}
    assert {points: class_page.shade(points, 10) for points in shares} == shares


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_can_be_read_and_told_apart_by_everybody(theme):
    ink = ("#16191d", "#eaedf1")[theme]
    colours = [hues[theme] for hues in pages.SHADES.values()]
    assert min(contrast(colour, ink) for colour in colours) >= 4.5
    for matrix in BLINDNESS.values():
        seen = [lab(matrix @ linear(colour)) for colour in colours]
        apart = [abs(one - other).max() for one, other in itertools.pairwise(seen)]
        assert min(apart) > 5 and abs(seen[0] - seen[-1]).max() > 20


# What went wrong


@linux
def test_trouble_is_told_by_its_kind(out):
    found = records(out)
    shown = words(out.with_suffix(".html"))
    for student, (_, kind) in ERRORS.items():
        assert found[student]["trouble"] == kind
        assert f"{table().get(f'grade.trouble.{kind}', kind)} (1)" in shown
    assert found["forge"]["trouble"] == "protocol"


@linux
def test_attempts_at_the_walls_are_listed_by_kind_and_cost_nothing(out):
    found = records(out)
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    for kind in TRIES:
        assert kind in found[kind]["tried"] and found[kind]["points"] == 10, found[kind]
    assert found["forge"]["tried"] == ["forge"] and found["forge"]["points"] == 0
    for student in ("ann", *COPIES, *ERRORS):
        assert found[student]["tried"] == []
    part = page.partition(text("grade.page.attempts"))[2].partition("<h2>")[0]
    for kind in (*TRIES, "forge"):
        (line,) = re.findall(
            rf"<li>{re.escape(text(f'grade.tried.{kind}'))} \(\d+\): (.*?)</li>", part
        )
        assert f"{kind} (ex9-a)" in line
    assert "ann" not in part and "copy0" not in part


def test_each_kind_of_attempt_has_words():
    assert {f"grade.tried.{kind}" for kind in KINDS} == {
        key for key in table() if key.startswith("grade.tried.")
    }


@pytest.mark.parametrize("kind", EVENTS)
def test_each_event_is_told_once_and_never_refused(kind):
    told = []
    watch = Watch(told.append, "/work", ["/usr"], ["/dev/null"])
    for event in EVENTS[kind] * 2:
        watch.hook(event, ("/elsewhere", 0))
    assert told == [kind]


FOLDER = "/work"  # where a learner's code runs behind the walls
FILES = {
    ("mine.txt", "w", 0): "",
    (f"{FOLDER}/deep/mine.txt", "a", 0): "",
    ("/usr/lib/x.py", "r", 0): "",
    ("/usr/../etc/passwd", "r", 0): "read",
    ("/user", "r", 0): "read",
    (b"/etc/passwd", "rb", 0): "read",
    ("/usr/lib/x.py", "r+", 0): "write",
    ("/etc/x", None, 1): "write",
    ("/etc/x", None, 0): "read",
    ("/dev/null", "w", 0): "",
    (f"{FOLDER}2/x", "w", 0): "write",
    (3, "wb", 0): "",
}


@pytest.mark.parametrize("args", FILES)
def test_a_file_is_an_attempt_outside_of_the_own_folder_only(args, monkeypatch):
    monkeypatch.setattr("os.getcwd", lambda: "/work")
    told = []
    Watch(told.append, "/work", ["/usr", "/dev/null"], ["/dev/null"]).hook("open", args)
    assert told == [FILES[args]] * bool(FILES[args])


def test_a_watch_survives_what_a_learner_hands_to_python():
    class Path:
        def __fspath__(self):
            raise RuntimeError

    told = []
    watch = Watch(told.append, "/work", [], [])
    for event, args in (("open", (Path(), "r", 0)), ("open", ()), ("socket.__new__", (1,))):
        watch.hook(event, args)
    assert told == []


@linux
def test_a_solution_of_the_course_tries_nothing(root):
    made = json.loads((root / "solutions" / "exercise4.ipynb").read_bytes())
    cells = {one["id"]: "".join(one["source"]) for one in made["cells"]}
    with Sandbox() as box:
        for id in ("ex4-a", "ex4-b"):
            ways = [cells["ex4-setup"], cells[id]]
            record, _ = graders.grade_cells(box, "practice", judges.find(id), ways, "")
            assert record["points"] == record["of"] and record["tried"] == []


@linux
@pytest.mark.parametrize("told", ['"party"', "[]", "5"])
def test_a_forged_attempt_ends_the_session_and_a_flood_is_counted(told):
    line = f'{{"tried": {told}}}\\n'
    code = f"import os\ndef f():\n    for _ in range(200): os.write(3, b'{line}')\n    return 1"
    known = code.replace(told, '"network"')
    with Sandbox(Limits(requests=100)) as box:
        session = box.session([code])
        assert session.call("f").problem == "protocol" and session.tried == {"forge"}
        session = box.session([known])
        assert session.call("f").problem == "requests" and session.tried == {"network"}


# Equal work and free texts


@linux
def test_a_group_of_equal_notebooks_is_told_once(out):
    shown = words(out.with_suffix(".html"))
    about = {"n": 8, "questions": "ex9-a, ex9-c"}
    assert shown.count(text("grade.note.code", students=", ".join(COPIES), **about)) == 1
    first = text("grade.page.more", names=", ".join(COPIES[:6]), n=2)
    notes = [row[6] for row in rows(out) if row[0] in COPIES and row[1] == "total"]
    alike = text("grade.note.code", students=first, **about)
    assert len(notes) == 8 and all(note.endswith(alike) for note in notes)


def test_many_names_are_cut_in_a_line_and_whole_on_the_page():
    many = [f"s{n}" for n in range(8)]
    note = f"Equal: {class_page.names(many)}."
    assert class_page.line_of(note, many, 6) == note == "Equal: s0, s1, s2, s3, s4, s5 and 2 more."
    assert class_page.line_of(note, many, 8) == f"Equal: {', '.join(many)}."
    assert "s7" not in class_page.line_of("From an earlier run.", many, 6)


@linux
def test_who_wrote_no_text_stands_in_one_line_and_equal_texts_stand_once(out):
    shown = words(out.with_name("grades-texts.html"))
    without = [name for name in sorted(records(out)) if name not in WHY]
    assert text("grade.page.empty", n=len(without), names=", ".join(without)) in shown
    assert shown.count("Since it is so.") == 1 and "native, network" in shown


def marks_table(out, change=lambda table: None, points=5):
    """Make a table of points, change its cells, and return it: rows by student."""
    path = out.with_name("marks.csv")
    assert run("marks", out.with_suffix(".json"), path, "--points", points) == 0
    head, *found = rows(path)
    by_name = {row[0]: dict(zip(head, row, strict=True)) for row in found}
    change(by_name)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *(row.values() for row in by_name.values())])
    return path


def give(by_name):
    by_name["ann"] |= {"points": "4", "remark": "Why <not> 5?"}
    by_name["native"] |= {"points": "2,5"}


@linux
def test_points_for_free_texts_are_merged_everywhere(copied, capsys):
    path = marks_table(copied, give)
    assert [row[0] for row in rows(path)[1:]] == ["ann", "native", "network"]
    assert rows(path)[1][-1] == "'=1+1"  # no formula for a spreadsheet
    assert run("marks", copied.with_suffix(".json"), path) == 1
    left = text("grade.marks.left", name="ex9-why", n=1, students="network")
    assert left in capsys.readouterr().err
    found = {(row[0], row[1]): row for row in rows(copied)}
    assert found["ann", "ex9-why"][2:6] == ["4.0", "5.0", "", "Why <not> 5?"]
    assert found["native", "ex9-why"][2:4] == ["2.5", "5.0"]
    assert found["network", "ex9-why"][6] == text("grade.marks.unread")
    assert found["copy0", "ex9-why"][2:7] == ["0.0", "5.0", "", "", ""]  # wrote nothing
    assert found["ann", "total"][2:4] == ["29", "30"] and found["copy0", "total"][3] == "30"
    head, *matrix = rows(copied.with_name("grades-matrix.csv"))
    assert head[-2:] == ["ex9-why /5", "total /30"] and matrix[0][-2:] == ["4", "29"]
    page = words(copied.with_suffix("") / "ann.html")
    assert text("grade.page.remark", remark="Why <not> 5?") in page and "4 / 5" in page
    assert "<not>" not in (copied.with_suffix("") / "ann.html").read_text(encoding="utf-8")
    assert text("grade.page.waits") in words(copied.with_suffix(".html"))
    shown = words(copied.with_name("grades-texts.html"))
    assert text("grade.marks.of", student="ann", points=4, of=5) in shown
    assert text("grade.marks.of_none", student="network") in shown


@linux
def test_points_are_kept_while_a_text_is_the_same(copied, tmp_path, capsys):
    def give_all(by_name):
        give(by_name)
        by_name["network"]["points"] = "1"

    path = marks_table(copied, give_all)
    assert run("marks", copied.with_suffix(".json"), path) == 0
    room = tmp_path / "room"
    for name in ("ann", "native", "new"):
        hand_in(room, name, made_for(name, a="def double(x): return x"))
    made = made_for("native", a="def double(x): return x")
    made["cells"][-1]["source"] = "Another text."
    hand_in(room, "native", made)
    assert run("grade", room, "--out", copied) == 0
    _, entries = results.load(copied.with_suffix(".json"))
    kept = {entry["student"]: entry["marks"]["ex9-why"] for entry in entries}
    assert kept["ann"]["points"] == 4 and kept["ann"]["read"]
    assert kept["network"]["points"] == 1
    assert kept["native"] == {"points": 0, "of": 5, "remark": "", "read": False}
    assert kept["new"]["of"] == 5
    # The row was written about the earlier text.
    capsys.readouterr()
    assert run("marks", copied.with_suffix(".json"), path) == 1
    said = capsys.readouterr().err
    assert text("grade.marks.changed", student="native", name="ex9-why", path=path) in said


BROKEN = {
    "student": lambda table: table["ann"].update(student="Anne"),
    "text": lambda table: table["ann"].update(text="ex9-y"),
    "many": lambda table: table["ann"].update(points="6"),
    "number": lambda table: table["ann"].update(points="good"),
    "of_differs": lambda table: table["ann"].update(of="7"),
    "twice": lambda table: table["network"].update(student="ann"),
}
SAID = {
    "student": ["“Anne”", "ann, copy0", "Correct the name"],
    "text": ["“ex9-y”", "ex9-why", "Correct the name"],
    "many": ["ann has 6 points for ex9-why", "5 are the most", "raise the column of"],
    "number": ["column points holds “good”", "2.5", "from 0 to"],
    "of_differs": ["7 and 5 for ex9-why", "one number"],
    "twice": ["ann ex9-why", "Delete one"],
}


@linux
@pytest.mark.parametrize("fault", BROKEN)
def test_a_wrong_row_says_what_was_given_and_expected_and_changes_nothing(copied, capsys, fault):
    path = marks_table(copied, BROKEN[fault])
    before = copied.with_suffix(".json").read_bytes(), copied.read_bytes()
    assert run("marks", copied.with_suffix(".json"), path) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in (*SAID[fault], "othing was changed", "marks.csv")), said
    assert (copied.with_suffix(".json").read_bytes(), copied.read_bytes()) == before


@linux
def test_tables_of_other_spreadsheets_are_read_and_other_files_are_refused(copied, capsys):
    path = marks_table(copied, give)
    plain = rows(path)
    for separator in ";\t":
        lines = [separator.join(f'"{cell}"' for cell in row) for row in plain]
        path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
        assert run("marks", copied.with_suffix(".json"), path) == 1
        assert results.load(copied.with_suffix(".json"))[1][0]["marks"]["ex9-why"]["points"] == 4
    for content, key in ((b"\xff\xfe", "encoding"), (b"a,b\n", "columns")):
        path.write_bytes(content)
        capsys.readouterr()
        assert run("marks", copied.with_suffix(".json"), path) == 2
        assert (
            text(f"grade.marks.{key}", path=path, lacks="", known="")[:20]
            in capsys.readouterr().err
        )
    assert run("marks", copied.with_suffix(".json"), path, "--points", 5) == 2  # is there already
    assert path.read_bytes() == b"a,b\n"
    path.unlink()
    assert run("marks", copied.with_suffix(".json"), path) == 2
    assert run("marks", copied.with_suffix(".json"), path, "--points", 0) == 2
    said = capsys.readouterr().err
    assert text("grade.marks.missing", path=path) in said and not path.exists()


def test_a_name_that_looks_like_a_formula_is_found_again(tmp_path):
    entry = {"student": "=ann", "texts": {"ex9-why": "so"}, "questions": [{"question": "ex9-a"}]}
    entry["marks"] = {}
    path = tmp_path / "marks.csv"
    assert marks.new(path, [entry], 5) == 1
    assert "'=ann" in path.read_text()
    path.write_text(path.read_text().replace('"ex9-why",""', '"ex9-why","3"'))
    assert marks.merge(path, {"=ann": entry}) == []
    assert entry["marks"]["ex9-why"]["points"] == 3


# A busy machine


@pytest.fixture
def busy():
    """Let this test share its core with five programs that never rest."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(5)]
    yield
    for load in loads:
        load.kill()
        load.wait()
    os.sched_setaffinity(0, mine)


@linux
@pytest.mark.skipif(starved("self") == 0, reason="this kernel has no scheduler statistics")
def test_a_busy_machine_costs_nothing_and_a_sleeper_is_stopped_all_the_same(busy):
    code = (
        "import time\ndef works():\n    end = time.process_time() + 0.25\n"
        "    while time.process_time() < end: pass\n    return 1\n"
        "def sleeps(): time.sleep(30)\n"
    )
    # illustrative: so short that the wait for a core alone is longer
    limits = Limits(wall_s=0.6, cpu_s=0.5)
    with Sandbox(limits) as box, contextlib.closing(box.session([code])) as session:
        begin = time.monotonic()
        found = session.call("works")
        waited = time.monotonic() - begin
        assert found.value == 1 and waited > 1.2 * limits.wall_s, (found, waited)
        begin = time.monotonic()
        assert session.call("sleeps").problem == "time"
        assert time.monotonic() - begin < 25


# True values


def told(ask, rng):
    """Judge a number whose verdict, as in every exercise, says the case and the right answer."""
    x = int(rng.integers(10**6, 10**7))
    got = ask("double", x)
    said = (f"double({x}) is {2 * x}, and yours is {got}.",)
    return Verdict(0.0, said, "array sent once")


@linux
def test_true_values_are_hidden_until_the_command_runs_without_the_option(tmp_path, monkeypatch):
    question = JudgedQuestion("ex9-a", ("double",), 10, told, lambda rng: None)
    monkeypatch.setattr(judges, "questions", lambda: {"ex9-a": question})
    room, out = tmp_path / "room", tmp_path / "grades.csv"
    hand_in(room, "ann", book(a="def double(x):\n    return x", b=None, c=None))
    hand_in(room, "bob", book(a="def double(x):\n    raise ValueError(x)", b=None, c=None))
    hand_in(room, "cyd", book(a=None, b=None, c=None))
    assert run("grade", room, "--out", out, "--exercise", "9", "--hide-truth") == 0
    secret = re.search(r"double\((\d+)\)", out.read_text())[1]
    hidden = {
        name: (tmp_path / "grades" / f"{name}.html").read_text() for name in ("ann", "bob", "cyd")
    }
    for page in hidden.values():
        assert secret not in page and str(2 * int(secret)) not in page
        assert text("grade.page.hidden") in page
    assert text("grade.page.failed", trouble="ValueError") in hidden["bob"]
    assert text("grade.no_cells", exercise="ex9") in hidden["cyd"]
    # Nothing is run again, and now the page says it all.
    monkeypatch.setattr(graders.Graders, "grade", lambda *_: iter(()))
    assert run("grade", room, "--out", out, "--exercise", "9") == 0
    assert secret in (tmp_path / "grades" / "ann.html").read_text()


@linux
def test_points_for_texts_do_not_bring_hidden_values_to_light(tmp_path, monkeypatch):
    monkeypatch.setattr(judges, "questions", lambda: QUESTIONS)
    wrong = made_for("ann", a="def double(x):\n    return x")
    hand_in(tmp_path / "room", "ann", wrong)
    out = tmp_path / "grades.csv"
    assert run("grade", tmp_path / "room", "--out", out, "--hide-truth") == 0
    path = marks_table(out, lambda table: table["ann"].update(points="5"))
    assert run("marks", out.with_suffix(".json"), path) == 0
    page = words(tmp_path / "grades" / "ann.html")
    assert "is wrong" not in page and "5 / 5" in page


# Functions whose cases are drawn from so many that none comes twice; an ``ex4-a`` gain has 30 cases in all.
WIDE = {"ex1-b": ("algbw", "busbw"), "ex4-a": ("wire",), "ex4-f": ("speed", "extra")}


@pytest.mark.parametrize("id", WIDE)
def test_practice_cases_are_no_cases_of_a_class(id):
    """What `check` says in a notebook tells nothing about the cases that a class is graded with."""

    def asked(key):
        calls = set()

        def ask(name, *arguments):
            if name in WIDE[id]:
                calls.add((name, repr(arguments)))
            raise judges.Unanswered("asked", "asked")

        with contextlib.suppress(judges.Unanswered):
            judges.find(id).judge(ask, judges.draw(key, id))
        return calls

    practice, of_a_class = asked(judges.PRACTICE), asked("a" * 64)
    assert len(practice) >= 4 and len(of_a_class) >= 4 and not practice & of_a_class


# Release


def test_several_exercises_are_released_at_once_or_none(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(judges, "questions", lambda: QUESTIONS)
    monkeypatch.chdir(tmp_path)
    assert run("release", "--new-key", "class.key") == 0
    key = ["--key", "class.key", "--out", "handout"]
    capsys.readouterr()
    assert run("release", "1", "4", *key) == 2
    place = text("grade.place", path="exercises", here=tmp_path)
    assert place in capsys.readouterr().err
    stub = book(a="raise NotImplementedError()", b=None, c=None)
    for number in (1, 4):
        hand_in(tmp_path / "exercises", f"exercise{number}", stub)
    assert run("release", "1", "5", *key) == 2
    unknown = text("grade.release.unknown", name=5, known="1, 4")
    assert unknown in capsys.readouterr().err and not (tmp_path / "handout").exists()
    hand_in(tmp_path / "handout", "exercise4", stub)
    assert run("release", "1", "4", *key) == 2
    assert not (tmp_path / "handout" / "exercise1.ipynb").exists()
    (tmp_path / "handout" / "exercise4.ipynb").unlink()
    (tmp_path / "list").write_text("ann\nbob")
    assert run("release", "1", "4", *key, "--per-student", "list") == 0
    written = {str(path.relative_to(tmp_path / "handout")) for path in tmp_path.glob("handout/*/*")}
    assert written == {f"{name}/exercise{n}.ipynb" for name in ("ann", "bob") for n in (1, 4)}


@linux
def test_grading_outside_of_the_course_says_where_to_start(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(judges, "questions", lambda: QUESTIONS)
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "room", "ann", book())
    place = {"path": "solutions", "here": tmp_path}
    command = ["grade", "room", "--out", "grades.csv"]
    assert run(*command, "--reference", "solutions") == 2
    assert text("grade.place", **place) in capsys.readouterr().err
    assert run(*command) == 0
    assert text("grade.no_solutions", **place) in capsys.readouterr().err
