"""The progress file is the learner's: never lost, never overwritten; ruler, map and report read it."""

import base64
import html
import inspect
import json
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import date, datetime, timedelta

import nbformat
import numpy as np
import pytest

import fabriclab
import lesson_index
from fabriclab import catalog, checks, units, views
from fabriclab.__main__ import main
from fabriclab.catalog import case
from fabriclab.catalog.tables import rows_of
from fabriclab.core.result import MACHINE_SHARED, Result
from fabriclab.course.checks import (
    InputRefused,
    NewerFile,
    Shown,
    check,
    choose_path,
    drill,
    export_progress,
    forget,
    hello,
    import_progress,
    ledger,
    lessons,
    paths,
    predict,
    remember,
    report,
    reveal,
    ruler,
)
from fabriclab.course.checks.courses import numbered
from fabriclab.course.checks.predictions import predictions
from fabriclab.course.progress import store
from fabriclab.course.progress.store import held
from fabriclab.course.questions import questions
from fabriclab.texts import keys, table, text
from fabriclab.views import live
from fabriclab.views.rulers import calibration_scene
from fabriclab.workload.layouts import Layout
from support.prose import sentence


def named(id):
    """Return what a report calls a question."""
    return questions()[id].words.name()


def foretold(id):
    """Return what a report calls a prediction."""
    return text("report.predicted", title=predictions()[id].name())


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.delenv("FABRICLAB_REVEAL", raising=False)
    monkeypatch.delenv("FABRICLAB_TEXT", raising=False)
    monkeypatch.setattr(store, "_memory", {})
    return tmp_path / "mine.json"


def result(what, rate, n_ranks=1):
    return Result(what, "measured", [2**26], [2**26 / rate], n_ranks)


# The file


SCRIPT = """
import fabriclab as fl

fl.check("21-dice")
print("asked")
fl.check("21-dice", "a")
fl.predict("00-copy", 3, "GB/s")
print(fl.check("21-dice", "b").state)
"""


def ran(folder, code, **more):
    """Return what a script of a learner's own prints, and what it says on the error stream."""
    file = folder / "script.py"
    file.write_text(code)
    left_out = ("FABRICLAB_PROGRESS", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    guard = os.environ.get("PYTHONPATH", "")
    library = str(store.Path(fabriclab.__file__).parents[1])
    env = kept | {"PYTHONPATH": os.pathsep.join(filter(None, [library, guard]))} | more
    command = [sys.executable, str(file)]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout, done.stderr


def test_a_script_is_told_once_where_progress_is_kept(tmp_path):
    out, said = ran(tmp_path, SCRIPT)
    place = tmp_path / "fabriclab-progress.json"
    assert out == "asked\nwait\n" and said.count("\n") == 1
    assert said == text("progress.place", path=place) + "\n" and str(place) in said
    assert json.loads(place.read_text())["checks"]["21-dice"]["tries"] == 2
    other = tmp_path / "other.json"
    assert str(other) in ran(tmp_path, SCRIPT, FABRICLAB_PROGRESS=str(other))[1]


def test_a_script_that_stores_nothing_is_told_nothing(tmp_path):
    asks = "import fabriclab as fl\nprint(fl.check('21-dice').state)\nfl.report()\n"
    assert ran(tmp_path, asks) == ("plain\n", "")


def test_a_notebook_is_not_told(tmp_path):
    # the shell of a notebook, without its page
    shell = "from IPython.core.interactiveshell import InteractiveShell as Shell\n"
    shell += f"Shell.instance().run_cell({SCRIPT!r})\n"
    out, said = ran(tmp_path, shell, IPYTHONDIR=str(tmp_path / "ipython"))
    assert "asked\nwait\n" in out and "fabriclab keeps" not in out + said


def test_it_stands_beside_the_notebooks(tmp_path, monkeypatch):
    monkeypatch.delenv("FABRICLAB_PROGRESS")
    monkeypatch.chdir(tmp_path)
    predict("00-copy", 3, "GB/s")
    assert store.path() == tmp_path / "fabriclab-progress.json"
    kept = json.loads(store.path().read_text())
    assert (kept["format"], kept["version"]) == ("fabriclab-progress", 2)
    assert set(store.SECTIONS) < kept.keys() and kept["predictions"]["00-copy"]["value"] == 3.0


def test_entries_of_another_notebook_stay(own_file):
    predict("a", 3, "s")
    other = json.loads(own_file.read_text())
    other["predictions"]["b"] = other["predictions"]["a"]
    other["theirs"] = {"later": "field"}
    own_file.write_text(json.dumps(other))
    predict("c", 4, "s")
    assert list(held()["predictions"]) == ["a", "b", "c"] and held()["theirs"] == {"later": "field"}


HERE = len(lesson_index.FILES)
BROKEN = [
    "",
    "{",
    "[]",
    "3",
    '{"format": "other", "version": 1}',
    '{"format": "fabriclab-progress"}',
    '{"format": "fabriclab-progress", "version": 1, "checks": []}',
    '{"format": "fabriclab-progress", "version": 1, "checks": {"a": 3}}',
    b"\xff\xfe\x00",
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_file_is_moved_aside_and_kept(broken, own_file, caplog):
    data = broken if isinstance(broken, bytes) else broken.encode()
    own_file.write_bytes(data)
    predict("a", 3, "s")
    aside = own_file.with_name("mine.broken-1.json")
    assert (
        aside.read_bytes() == data
        and "moved" in caplog.text
        and list(held()["predictions"]) == ["a"]
    )
    own_file.write_bytes(data)
    predict("b", 3, "s")
    assert aside.read_bytes() == data == own_file.with_name("mine.broken-2.json").read_bytes()


ENTRY = {
    "predictions": {
        "value": 3.0,
        "unit": "s",
        "low": None,
        "high": None,
        "truth": 4.0,
        "model": None,
        "how": "computed",
    },
    "measurements": {"time": 1.0, "busbw": 1e9},
    "checks": {"tries": 1, "right": False, "named": []},
    "drills": {"tries": 2, "right": True, "named": []},
    "ledger": {"step": 4.6, "lesson": "31"},
}
LACKS = [
    (section, {k: v for k, v in entry.items() if k != name})
    for section, entry in ENTRY.items()
    for name in entry
    if name != "truth"
]
ODD = [
    ("predictions", {"value": "3"}),
    ("predictions", {"value": 0}),
    ("predictions", {"truth": -4.0}),
    ("predictions", {"truth": float("nan")}),
    ("predictions", {"how": 3}),
    ("measurements", {"busbw": float("inf")}),
    ("measurements", {"time": None}),
    ("checks", {"named": "one"}),
    ("drills", {"right": "yes"}),
    ("ledger", {"step": -1}),
]


@pytest.mark.parametrize(("section", "entry"), [*LACKS, *((s, ENTRY[s] | odd) for s, odd in ODD)])
def test_a_file_that_a_hand_has_damaged_is_moved_aside(section, entry, own_file, caplog):
    own_file.write_text(
        json.dumps({"format": "fabriclab-progress", "version": 1, section: {"a": entry}})
    )
    for call in (held, report, ruler, ledger, lambda: reveal("a", "1 s")):
        assert call() is not None
    assert caplog.text.count("moved") == 1 and own_file.with_name("mine.broken-1.json").exists()


def test_a_file_that_is_whole_stays(own_file, caplog):
    whole = {section: {"a": entry} for section, entry in ENTRY.items()} | {"chosen": {}}
    whole["checks"]["a"] = whole["checks"]["a"] | {"days": []}
    whole["drills"]["a"] = whole["drills"]["a"] | {"days": ["2026-11-21"]}
    own_file.write_text(json.dumps({"format": "fabriclab-progress", "version": 2, **whole}))
    assert {section: held()[section] for section in whole} == whole and caplog.text == ""
    assert (
        "4.00 s" in str(report(full=True))
        and "your a" in str(ruler())
        and text("reveal.low", factor="1.3") in str(reveal("a", "4 s"))
    )


WRITER = """
import sys
from fabriclab.course.progress import store
print("ready", flush=True)
sys.stdin.readline()
for n in range(200):
    store.put("checks", f"{sys.argv[1]}-{n}", {"tries": 1, "right": False, "named": []})
"""


def test_two_kernels_that_write_at_once_lose_nothing(own_file, root):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": root}
    kernels = [
        subprocess.Popen([sys.executable, "-c", WRITER, name], **pipes) for name in ("one", "two")
    ]
    assert [kernel.stdout.readline() for kernel in kernels] == ["ready\n"] * 2
    for kernel in kernels:
        kernel.stdin.write("go\n")
        kernel.stdin.flush()
    assert [kernel.wait(60) for kernel in kernels] == [0, 0]
    assert held()["checks"].keys() == {f"{name}-{n}" for name in ("one", "two") for n in range(200)}
    assert list(own_file.parent.iterdir()) == [own_file]


@pytest.mark.parametrize("death", ["kill", "before"])
def test_a_lock_that_a_dead_kernel_left_is_free(death, own_file, root):
    lock = own_file.with_name("mine.lock.json")
    lock.touch()
    if death == "kill":
        code = "from fabriclab.course.progress import store\nwith store._locked(store.path()): print('has it', flush=True); input()"  # noqa: E501
        kernel = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        )
        assert kernel.stdout.readline() == b"has it\n"
        kernel.kill()
        kernel.wait(60)
    begin = time.monotonic()
    predict("a", 3, "s")
    assert time.monotonic() - begin < 5 and "a" in held()["predictions"] and not lock.exists()


def test_a_kernel_that_stands_still_stops_nobody(own_file, monkeypatch):
    waits = []
    monkeypatch.setattr(store.time, "sleep", waits.append)
    with store._locked(own_file):
        predict("a", 3, "s")
        assert 5 <= sum(waits) <= 25 and "a" in held()["predictions"]


def test_who_reads_waits_for_who_writes(own_file):
    reader = threading.Thread(target=held)
    with store._locked(own_file):
        reader.start()
        reader.join(0.2)
        assert reader.is_alive()
    reader.join(5)
    assert not reader.is_alive()


def test_where_a_folder_knows_no_locks_it_goes_on(own_file, monkeypatch):
    def refuse(*arguments):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(store.fcntl, "flock", refuse)
    predict("a", 3, "s")
    assert "a" in held()["predictions"]


def test_two_kernels_that_find_a_broken_file_move_it_once(own_file, root):
    code = "import sys\nfrom fabriclab.course.progress import store\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    code += "store.put('ledger', sys.argv[1], {'step': 1, 'lesson': ''})"
    for _ in range(5):
        own_file.write_text("{")
        pipes = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
            "text": True,
        }
        kernels = [
            subprocess.Popen([sys.executable, "-c", code, n], **pipes, cwd=root)
            for n in ("one", "two")
        ]
        assert [kernel.stdout.readline() for kernel in kernels] == ["ready\n"] * 2
        for kernel in kernels:
            kernel.stdin.write("go\n")
            kernel.stdin.flush()
        assert [kernel.wait(60) for kernel in kernels] == [0, 0] and held()["ledger"].keys() == {
            "one",
            "two",
        }
    assert len([*own_file.parent.glob("mine.broken-*.json")]) == 5


# Days, older files, files that travel


@pytest.fixture
def clock(monkeypatch):
    """Return a function that sets the day."""

    def at(day, hour=12):
        moment = datetime.fromisoformat(f"{day}T{hour:02}:00:00").astimezone()
        monkeypatch.setattr(store, "now", lambda: moment)

    return at


def right(key="00-fabric", right=True):
    store.put("checks", key, {"tries": 1, "right": right, "named": []})
    return held()["checks"][key]


def test_a_check_comes_back_after_1_7_and_30_days(clock):
    seen = []
    for day in ("2026-01-01", "2026-01-02", "2026-01-09", "2026-02-08", "2026-06-01"):
        before = (date.fromisoformat(day) - timedelta(1)).isoformat()
        clock(before)
        early = seen and store.due(held()["checks"]["00-fabric"])
        clock(day, hour=0)
        seen.append((bool(early), bool(seen) and store.due(held()["checks"]["00-fabric"])))
        entry = right()
    assert seen == [(False, False), (False, True), (False, True), (False, True), (False, False)]
    assert entry["days"] == ["2026-01-01", "2026-01-02", "2026-01-09", "2026-02-08"]


def test_a_right_answer_before_its_day_and_a_wrong_one_move_nothing(clock):
    clock("2026-01-01")
    assert right(right=False)["days"] == [] and not store.due(held()["checks"]["00-fabric"])
    assert right()["days"] == right()["days"] == ["2026-01-01"]
    clock("2026-01-05")
    assert store.due(right(right=False) | {"right": True})


@pytest.fixture
def auckland(monkeypatch):
    """Live where it is tomorrow already."""
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_day_is_the_local_one(auckland, clock):
    clock("2026-01-02", hour=1)
    assert right()["days"] == ["2026-01-02"]
    assert held()["checks"]["00-fabric"]["when"] == "2026-01-01T12:00:00.000+00:00"


def test_a_file_of_version_1_is_migrated(own_file, root, auckland, clock):
    shutil.copy(root / "tests" / "data" / "progress-1.json", own_file)
    clock("2026-08-16")
    old, now = json.loads(own_file.read_text()), held()
    same = old.keys() - {"version", "checks", "drills"}
    assert (old["version"], now["version"]) == (1, 2) and all(
        now[name] == old[name] for name in same
    )
    days = {id: entry["days"] for id, entry in (now["checks"] | now["drills"]).items()}
    assert days == {"00-fabric": [], "00-typical": ["2026-08-15"], "00-nic-rate": ["2026-08-16"]}
    said = str(fabriclab.progress())
    assert named("00-fabric") not in said
    assert re.search(rf'{named("00-typical")} +fl.check\("00-typical"\)', said)
    predict("a", 3, "s")
    assert (
        json.loads(own_file.read_text())["version"] == 2
        and held()["predictions"]["00-copy"]["factor"] == 2.0
    )


@pytest.mark.parametrize(
    "entry", [{"days": []}, {"days": ["soon"]}, {"days": [3]}, {"days": "2026"}]
)
def test_days_that_are_none_are_broken(entry, own_file, caplog):
    whole = {"format": "fabriclab-progress", "version": 2, "checks": {"a": ENTRY["drills"] | entry}}
    own_file.write_text(json.dumps(whole))
    assert held()["checks"] == {} and "moved" in caplog.text


def test_a_file_travels_and_the_newer_entry_stays(own_file, tmp_path, monkeypatch, clock):
    for day, words in (("2026-01-01", ("both", "here first")), ("2026-01-03", ("here last",))):
        clock(day)
        for word in words:
            ledger(word, 1.0)
    assert "x.json" in str(export_progress(tmp_path / "x.json"))
    assert json.loads((tmp_path / "x.json").read_text()) == held()
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "other.json"))
    clock("2026-01-02")
    for word in ("both", "here last", "there"):
        ledger(word, 2.0)
    assert "Entries taken from" in str(import_progress(tmp_path / "x.json")) and str(
        import_progress(str(tmp_path / "x.json"))
    ).count(": 0.")
    assert {name: e["step"] for name, e in held()["ledger"].items()} == {
        "both": 2.0,
        "here last": 1.0,
        "there": 2.0,
        "here first": 1.0,
    }


def test_what_is_no_progress_file_is_left_where_it_is(own_file, tmp_path, monkeypatch):
    ledger("a", 1.0)
    kept, other = own_file.read_text(), tmp_path / "other.json"
    with pytest.raises(FileExistsError, match=r"mine\.json"):
        export_progress(own_file)
    for broken in BROKEN:
        other.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        with pytest.raises(InputRefused, match=sentence("progress.foreign", path=other)):
            import_progress(other)
    other.write_text('{"format": "fabriclab-progress", "version": 3}')
    with pytest.raises(NewerFile):
        import_progress(other)
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(other))
    with pytest.raises(NewerFile):
        export_progress(tmp_path / "none.json")
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(own_file))
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        import_progress(tmp_path / "nowhere.json")
    assert own_file.read_text() == kept and {path.name for path in tmp_path.iterdir()} == {
        "mine.json",
        "other.json",
    }


def test_nothing_is_forgotten_by_accident(own_file):
    filled()
    before = own_file.read_text()
    for what in (None, "", "all", "0"):
        with pytest.raises(
            InputRefused, match=r"predictions: 00-copy, 31-hall, 00-other; measurements"
        ):
            forget(what)
    assert own_file.read_text() == before
    forget("00-copy")
    assert list(held()["predictions"]) == ["31-hall", "00-other"] and held()["measurements"]
    forget("predictions")
    assert (
        held()["predictions"] == {} and list(held()["checks"]) == ["00-fabric"] and held()["drills"]
    )
    assert "everything" in str(forget("everything")) and not any(
        held()[name] for name in store.SECTIONS
    )
    with pytest.raises(InputRefused, match=sentence("progress.forget", known="-")):
        forget()


def test_the_command_line_does_the_same(own_file, tmp_path, capsys):
    ledger("a", 1.0)
    file = str(tmp_path / "x.json")
    assert main(["progress"]) == main(["progress", "export", file]) == 0
    assert (
        main(["progress", "export", file])
        == main(["progress", "forget"])
        == main(["progress", "forget", "b"])
        == 1
    )
    refused = sentence("progress.forget").findall(capsys.readouterr().err)
    assert len(refused) == 2 and held()["ledger"]
    assert main(["progress", "forget", "everything"]) == 0 and held()["ledger"] == {}
    assert main(["progress", "import", file]) == 0 and list(held()["ledger"]) == ["a"]
    assert main([]) == 0 and "is ready" in capsys.readouterr().out
    for wrong in (["progress", "export"], ["progress", "import"], ["progress", "burn"], ["grow"]):
        with pytest.raises(SystemExit):
            main(wrong)


def test_a_newer_file_is_refused_and_left(own_file):
    newer = json.dumps(
        {"format": "fabriclab-progress", "version": 3, "predictions": "in another form"}
    )
    own_file.write_text(newer)
    for call in (lambda: predict("a", 3, "s"), report, lambda: check("00-fabric", "a")):
        with pytest.raises(NewerFile, match=sentence("progress.newer", found=3, known=2)) as caught:
            call()
    assert own_file.read_text() == newer and caught.value._render_traceback_() == [
        str(caught.value)
    ]


def test_a_file_that_cannot_be_written_lives_in_memory(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "nowhere" / "mine.json"))
    predict("a", 3, "s")
    predict("b", 3, "s")
    assert list(held()["predictions"]) == ["a", "b"]
    assert caplog.text.count("cannot be stored") == 1 and not (tmp_path / "nowhere").exists()


def test_a_file_below_a_file_lives_in_memory(own_file, monkeypatch, caplog):
    own_file.write_text("mine")
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(own_file / "mine.json"))
    predict("a", 3, "s")
    assert (
        "a" in held()["predictions"]
        and own_file.read_text() == "mine"
        and "cannot be stored" in caplog.text
    )


def test_a_file_that_cannot_be_read_is_left(tmp_path, monkeypatch, caplog):
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "folder"))
    predict("a", 3, "s")
    assert (
        "a" in held()["predictions"]
        and (tmp_path / "folder").is_dir()
        and "cannot be stored" in caplog.text
    )


def test_a_broken_file_that_cannot_be_moved_is_left(own_file, monkeypatch, caplog):
    own_file.write_text("{")

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.rename", refuse)
    predict("a", 3, "s")
    assert own_file.read_text() == "{" and "a" in held()["predictions"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


# The ruler


def test_the_ruler_places_own_rates_beside_links():
    shown = ruler(result("copy", 10e9), result("sockets", 2.5e9), result("all_reduce", 1e9, 2))
    names = [row[0] for row in shown.rows]
    mine = ["400 Gb/s NIC", "your memory copy", "your loopback socket", "your all-reduce"]
    mine.append("60 GHz radio")
    assert [name for name in names if name in mine] == mine
    assert shown.data["400 Gb/s NIC"] == catalog.value("nics", "cx7", "throughput")
    copy = text("ruler.mine", name=text("measured.copy"))
    assert text("ruler.faster", name="400 Gb/s NIC", factor="5.0", mine=copy) in shown.after
    assert text("ruler.slower", name="60 GHz radio", factor="12", mine=copy) in shown.after
    assert list(held()["measurements"]) == ["copy", "sockets", "all_reduce"]
    rows = [row for row in shown.rows if row[0] in mine]
    assert [row[1] for row in rows] == [
        "50.0 GB/s",
        "10.0 GB/s",
        "2.50 GB/s",
        "1.00 GB/s",
        "845 MB/s",
    ]
    assert [len(row[2]) for row in rows] == [19, 12, 6, 2, 1]  # ten dots for ten times the rate


def test_a_guess_is_told_that_the_machine_was_busy():
    from dataclasses import replace

    predict("00-copy", 8, "GB/s")
    quiet = result("copy", 2e9)
    busy = replace(quiet, notes=(f"load 9: {MACHINE_SHARED}",))
    assert text("reveal.busy") in reveal("00-copy", busy)._repr_html_()
    assert text("reveal.busy") not in reveal("00-copy", quiet)._repr_html_()


def test_a_stored_run_on_the_ruler_is_nobodys_own():
    from dataclasses import replace

    stored = replace(result("sockets", 20e9), obtained="stored", source="a machine of ours")
    shown = ruler(result("copy", 10e9), stored)
    names = [row[0] for row in shown.rows]
    sockets = text("ruler.stored", name=text("measured.sockets"))
    assert sockets in names and not any(name.startswith("your loopback") for name in names)
    assert all(sockets not in sentence for sentence in shown.after)  # own rates are compared


def test_a_link_as_fast_as_the_own_rate_is_not_called_slower():
    nic = catalog.value("nics", "cx7", "throughput")
    shown = ruler(result("copy", 1.01 * nic))
    copy = text("ruler.mine", name=text("measured.copy"))
    assert text("ruler.equal", name="400 Gb/s NIC", mine=copy) in shown.after


def test_the_ruler_is_drawn_where_html_is_shown(monkeypatch):
    shown = ruler(result("copy", 10e9))
    page = shown._repr_html_()
    assert 'role="img"' in page and "400 Gb/s NIC" in page and "memory copy" in page
    # the picture, with its numbers, stands for the rows
    assert page.count("<table") == 1 and "...." not in page
    copy = text("ruler.mine", name=text("measured.copy"))
    alt = text("ruler.slower", name="60 GHz radio", factor="12", mine=copy).removesuffix(".")
    assert f'aria-label="{alt}' in page
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    assert shown._repr_html_() is None


def test_only_what_was_measured_is_drawn_as_mine():
    model = Result("copy", "predicted", [2**26], [2**26 / 70e9])
    shown = ruler(result("copy", 10e9), model)
    assert {name: rate for name, rate in shown.data.items() if "your" in name} == {
        "your memory copy": pytest.approx(10e9)
    }
    assert "10.0 GB/s" in shown._repr_html_() and "70.0 GB/s" not in shown._repr_html_()
    assert list(held()["measurements"]) == ["copy"]


def test_a_ruler_has_all_links():
    shown = ruler()
    assert {row["name"] for row in rows_of("ruler.csv", checks.__file__)} == shown.data.keys()
    assert "Nothing has been measured" in shown.after[-1]
    assert list(shown.data.values()) == sorted(shown.data.values(), reverse=True)


def test_links_of_the_ruler_are_those_of_the_catalog():
    wanted = {
        "PCIe 5": 63.015e9,
        "NVLink 4": 450e9,
        "400 Gb/s NIC": 50e9,
        "60 GHz radio": 0.845e9,
        "NDR": 50e9,
        "HBM3": 3350e9,
    }
    assert wanted.items() <= {k: pytest.approx(v) for k, v in ruler().data.items()}.items()


def test_what_is_no_result_is_refused_by_the_ruler():
    with pytest.raises(InputRefused, match=sentence("ruler.kind", got="'NVLink 40'")):
        ruler("NVLink 40")


# The map


def lesson(folder, name, **header):
    path = folder / f"{name}.ipynb"
    path.write_text(
        json.dumps(
            {"cells": [], "metadata": {"fabriclab": header}, "nbformat": 4, "nbformat_minor": 5}
        )
    )


@pytest.mark.parametrize("start", [".", "..", "../exercises"])
def test_lessons_that_are_here_are_links(tmp_path, monkeypatch, start):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (tmp_path / "exercises").mkdir()
    lesson(folder, "31_all_reduce", title="Add the gradients", minutes={"read": 12, "do": 15})
    monkeypatch.chdir(folder / start)
    shown = lessons("one evening")
    assert [row[0] for row in shown.rows] == [
        "00_start_here",
        "21_fat_tree_and_rails",
        "31_all_reduce",
    ] or [row[0] for row in shown.rows] == [
        "00_start_here",
        "31_all_reduce",
        "21_fat_tree_and_rails",
    ]
    title, minutes, state = next(row[1:] for row in shown.rows if row[0] == "31_all_reduce")
    told = text("lessons.minutes", read=12, do=15), text("state.new")
    assert (title[0], minutes, state) == ("Add the gradients", *told)
    assert (store.Path.cwd() / title[1]).resolve() == folder / "31_all_reduce.ipynb"
    assert all(
        row[3] == "planned" and isinstance(row[1], str)
        for row in shown.rows
        if row[0] != "31_all_reduce"
    )
    assert f'<a href="{title[1]}">Add the gradients</a>' in shown._repr_html_() and (
        text("lessons.title", n=3, here=1) in str(shown)
    )


def test_every_path_keeps_the_order_of_the_lessons_and_is_stored():
    in_order = lessons().data["lessons"]
    assert in_order == sorted(in_order)
    for row in rows_of("paths.csv", checks.__file__):
        path = lessons(row["path"]).data["lessons"]
        assert path == [name for name in in_order if name in path]
    assert [name[:2] for name in lessons("one evening").data["lessons"]] == ["00", "21", "31"]
    assert len(lessons("the whole").rows) == len(lessons().rows) == len(keys("lesson."))
    assert "one evening" in str(choose_path("one evening"))
    assert held()["chosen"]["path"]["name"] == "one evening"
    with pytest.raises(InputRefused, match=r'"two evenings".*"one evening"'):
        choose_path("two evenings")
    assert held()["chosen"]["path"]["name"] == "one evening"


def test_paths_name_lessons_that_are_planned():
    for row in rows_of("paths.csv", checks.__file__):
        numbers = row["lessons"].split()
        assert numbers == ["all"] or len(lessons(row["path"]).rows) == len(numbers)
    assert "one evening" in str(paths())


def test_paths_say_how_many_of_their_lessons_exist_here(tmp_path, monkeypatch):
    lesson(tmp_path, "00_start_here", title="Meet", minutes={"read": 1, "do": 1})
    lesson(tmp_path, "31_all_reduce", title="Add", minutes={"read": 1, "do": 1})
    monkeypatch.chdir(tmp_path)
    counted = {name: here for name, _, _, here, _ in paths().rows}
    assert counted["one evening"] == "2 of 3" and counted["operations"] == "2 of 10"
    numbers = {name: listed for name, _, listed, _, _ in paths().rows}
    assert numbers["one evening"] == "00 (21) 31"
    assert numbers["operations"] == "00 (01) (21) 31 (32) (51) (52) (61) (62) (63)"
    times = {name: time for name, time, *_ in paths().rows}
    assert times["operations"] == text("paths.later", time="7.25 h")
    lesson(tmp_path, "21_fat_tree_and_rails", title="Wire", minutes={"read": 1, "do": 1})
    times, numbers = ({row[0]: row[i] for row in paths().rows} for i in (1, 2))
    assert (times["one evening"], numbers["one evening"]) == ("2.75 h", "00 21 31")
    (tmp_path / "21_fat_tree_and_rails.ipynb").unlink()
    assert counted["the whole"] == f"2 of {len(lessons().rows)}"


def of(lesson):
    """Return the questions of a lesson."""
    return [q for q in questions().values() if q.lesson == lesson]


# Right answers to the questions that ask for a function.
FUNCTIONS = {
    "00-write-rate": lambda size, times: size / np.median(times),
    "21-write-switches": lambda gpus, radix: (3 if gpus <= radix**2 / 2 else 5) * gpus / radix,
    "22-write-detours": lambda groups, size: (groups - 2) / (2 * size),
    "63-write-hour": lambda price, hours, watts, tariff, used, goodput: (
        (price + 1e-3 * watts * hours * tariff) / (hours * used * goodput)
    ),
    "71-write-bytes": lambda tp, layers, m, tokens, h: 16 * layers * m * (tp - 1) / tp * tokens * h,
    "71-layout": lambda: Layout(tp=4, dp=256, microbatches=2, sharding="zero3"),
}


def is_solved_here(question):
    """Return whether `solve` knows an answer."""
    return question.kind != "function" or question.id in FUNCTIONS


def solve(question):
    """Answer a question right: with a function, with a letter where there are letters, else with the number."""
    if question.kind == "function":
        check(question.id, FUNCTIONS[question.id])
        return
    letters = (
        question.options({})
        if question.drill or question.kind not in ("number", "function")
        else {}
    )
    right = next((k for k, (_, wrong) in letters.items() if not wrong), None) or question.shown(
        question.key({})
    )
    drill(int(question.drill.partition("/")[2]), right) if question.drill else check(
        question.id, right
    )


def test_a_lesson_is_new_begun_done():
    states = [checks.courses.state("00_start_here")]
    predict("00-copy", 3, "GB/s")
    for question in of("00_start_here"):
        states.append(checks.courses.state("00_start_here"))
        solve(question)
    assert (
        states[0] == "new"
        and set(states[1:]) == {"begun"}
        and checks.courses.state("00_start_here") == "done"
    )
    assert checks.courses.state("31_all_reduce") == "new"


@pytest.mark.parametrize("place", lesson_index.WRITTEN)
def test_the_list_of_lessons_is_up_to_date(place, root):
    assert (root / place).read_text(encoding="utf-8") == lesson_index.WRITTEN[place](), (
        "write it anew: make index"
    )


def test_the_list_of_lessons_follows_their_headers(tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text(
        "Before\n\n![What it is](docs/img/hero.gif)\n\n**What you see.**\n\n![Left](docs/img/a.png)\n\n"
        "| lesson | old |\n|---|---|\n| a | b |\n\n"
        "| path | old |\n|---|---|\n| a | b |\n\n| other | table |\n"
    )
    lesson(
        tmp_path, "21_fat_tree_and_rails", title="Shuffle the rails", minutes={"read": 12, "do": 15}
    )
    monkeypatch.setattr(lesson_index, "ROOT", tmp_path)
    monkeypatch.setattr(
        lesson_index, "FILES", {path.stem: path for path in tmp_path.glob("*.ipynb")}
    )
    asked = text("lesson.21_fat_tree_and_rails")
    paths_of_it = "one evening, short course, one term, operations"
    row = (
        f"[21 Shuffle the rails](notebooks/21_fat_tree_and_rails.ipynb) | {asked} | {paths_of_it} |"
    )
    page = lesson_index.readme()
    lines = page.splitlines()
    assert f"| {row}" in lines and "old" not in page and "| a | b |" not in lines
    assert lines[0] == "Before" and lines[-1] == "| other | table |"
    assert f"| 31, *planned* | {text('lesson.31_all_reduce')} | {paths_of_it} |" in lines
    assert "| one evening | 2.75 h | *00* 21 *31* | 1 of 3 |  |" in lines
    planned = [line for line in lines if "*planned*" in line]
    assert len(planned) == len(lessons().rows) - 1
    book = nbformat.reads(lesson_index.notebook(), as_version=4)
    nbformat.validate(book)
    assert (
        f"(21_fat_tree_and_rails.ipynb) | {asked} | {paths_of_it} | 12 | 15 |"
        in book.cells[0].source
        and "![What it is](../docs/img/hero.gif)" in book.cells[0].source
        and "**What you see.**\n\n![Left](../docs/img/a.png)\n" in book.cells[0].source
        and "fl.lessons()" in book.cells[1].source
    )


# The report


def filled():
    remember(result("copy", 10e9))
    remember(result("sockets", 2.5e9))
    predict("00-copy", 20, "GB/s", low=15, high=30)
    reveal("00-copy", result("copy", 10e9), model=5e9)
    predict("31-hall", 0.5, "s", opens="31")
    predict("00-other", None)
    check("00-fabric", "z")
    right = next(k for k, (_, wrong) in questions()["00-fabric"].options({}).items() if not wrong)
    wrong = next(k for k, (_, wrong) in questions()["00-fabric"].options({}).items() if wrong)
    check("00-fabric", wrong)
    check("00-fabric", right)
    drill(
        1, next(k for k, (_, wrong) in questions()["00-nic-rate"].options({}).items() if not wrong)
    )


@pytest.mark.parametrize(("sockets", "key"), [(2.5e9, "take.sockets"), (20e9, "take.noisy")])
def test_a_socket_that_seems_faster_than_a_copy_was_measured_beside_other_programs(sockets, key):
    for what, rate in (("copy", 10e9), ("sockets", sockets)):
        fabriclab.remember(Result(what, "measured", [2**26], [2**26 / rate], n_ranks=2))
    said = str(report(full=True))
    factor = {"take.sockets": "4.0", "take.noisy": "2.0"}[key]
    assert text(key, sockets=units.format_rate(sockets), factor=factor) in said


def test_the_report_is_one_screen():
    filled()
    said = str(report("Ada", full=True))
    assert f"fabriclab {fabriclab.__version__}" in said and "Ada" in said
    assert text("report.counts", done=0, core=0, here=HERE, planned=len(keys("lesson."))) in said
    first, other = len(of("00_start_here")), len(of("31_all_reduce"))
    assert re.search(rf"{numbered('00_start_here')} +begun +1 of 2 +2 of {first}\n", said)
    assert re.search(rf"{numbered('31_all_reduce')} +begun +0 of 1 +0 of {other}\n", said)
    guess, sealed = f"20 GB/s{text('predict.span', low='15', high='30')}", text("report.sealed")
    row = rf"{foretold('00-copy')} +{guess} +5.00 GB/s +10.0 GB/s +2.00 +0.500"
    assert re.search(row, said) and re.search(rf"31-hall +0.5 s +{sealed}", said)
    anything = sentence("predict.nothing").pattern
    assert re.search(rf"00-other +{anything} +{sealed}", said)
    assert re.search(rf"{text('measured.copy')} +10.0 GB/s, 6.71 ms", said)
    tries = f"{named('00-nic-rate')} 1, {named('00-fabric')} 2"
    assert text("report.right", list=tries) in said
    assert text("take.faster", nic="50.0 GB/s", factor="5.0", copy="10.0 GB/s") in said
    assert text("take.sockets", sockets="2.50 GB/s", factor="4.0") in said
    assert text("take.ranges", held=0, n=1) in said
    assert not sentence("take.factor").search(said) and str(store.path()) in said
    again = [(row[0], row[-1]) for row in report(full=True).parts[-1].rows if row[-1]]
    assert len(again) == 10 and again[:2] == [
        (named("00-both-ways"), "`fl.drill(2)`"),
        (named("00-buffer"), "`fl.drill(3)`"),
    ]
    assert (named("00-typical"), '`fl.check("00-typical")`') in again
    assert named("00-fabric") not in dict(again)
    assert re.search(rf"{named('00-typical')} +{text('word.not_tried')} +0 +fl.check", said)
    assert text("report.more", n=first + other - 2 - 10) in said
    assert said.count("\n") < 40


def test_the_report_stays_on_one_screen():
    for question in questions().values():
        store.put("checks", question.id, {"tries": 1, "right": False, "named": []})
    for i in range(60):
        predict(f"{i:02}-some", 3, "s")
        ledger(f"change {i}", 3.0)
    assert (
        str(report(full=True)).count("\n") < 50
        and "59-some" in str(report(full=True))
        and "49-any" not in str(report(full=True))
    )
    said = str(report(full=True))
    assert f"{numbered('72_a_training_step')} " in said
    assert (
        numbered("00_start_here") not in said and "_" not in said.split(text("report.numbers"))[0]
    )
    assert len(report(full=True).data["predictions"]) == 60


def test_a_report_reads_the_file_a_few_times_however_much_is_stored(monkeypatch):
    for question in list(questions().values())[::20]:
        store.put("checks", question.id, {"tries": 1, "right": False, "named": []})
    read = []
    kept = store.held
    monkeypatch.setattr(store, "held", lambda: read.append(1) or kept())
    report()
    assert len(read) < 10


def test_a_report_of_nothing_is_short():
    said = str(report(full=True))
    assert sentence("report.counts", done=0, here=HERE).search(said)
    assert text("report.takeaways") not in said and text("report.checks") not in said
    assert "None" not in said


def test_columns_without_a_word_are_left_out():
    predict("00-copy", 20, "GB/s")
    assert next(part.head for part in report(full=True).parts if "came out" in part.head) == (
        "what",
        "you said",
        "came out",
    )


def test_every_check_and_prediction_has_a_title():
    assert all(question.words.name() for question in questions().values())
    assert all(prediction.name() for prediction in predictions().values())


def test_nothing_is_open_in_a_lesson_that_is_done():
    for question in of("00_start_here"):
        solve(question)
    said, n = str(report(full=True)), len(of("00_start_here"))
    assert text("report.checks") not in said and sentence("report.counts", done=1).search(said)
    assert re.search(
        rf"{numbered('00_start_here')} +{text('state.done')} +0 of 2 +{n} of {n}", said
    )


def test_a_fast_machine_is_told_so():
    remember(result("copy", 100e9))
    assert sentence("take.slower", copy="100 GB/s", factor="2.0").search(str(report(full=True)))


def test_the_report_can_be_taken_away(own_file):
    filled()
    link = re.search(
        r'<a download="mine.json" href="data:application/json;base64,([^"]+)">',
        report(full=True)._repr_html_(),
    )
    assert json.loads(base64.b64decode(link.group(1))) == json.loads(own_file.read_text())
    written = report(full=True).markdown()
    assert (
        f"| {named('00-both-ways')} | {text('word.not_tried')} | 0 |" in written
        and "| --- | --- | --- |" in written
        and "Progress" not in written[:20]
    )
    data = json.loads(report("Ada", full=True).json())
    facts = data["made_with"].pop("facts")  # day on which the newest fact was looked up
    assert "2026-11-23" <= facts <= str(date.today())
    assert data["made_with"] == {
        "version": fabriclab.__version__,
        "day": str(store.now().date()),
    }
    assert data["name"] == "Ada" and data["predictions"]["31-hall"]["value"] == 0.5
    assert json.loads(report(full=True).json())["name"] is None


# The end of a lesson


def page_of(shown):
    """Return the HTML of a card without its style sheet."""
    return shown._repr_html_().split("</style>", 1)[1]


def core_of(lesson, wanted=True):
    return [question for question in of(lesson) if question.core is wanted]


def test_the_core_of_a_lesson_is_done_before_the_lesson_is():
    further = [question.lesson for question in questions().values() if not question.core]
    lesson = next(name for name in further if all(map(is_solved_here, core_of(name))))
    for question in core_of(lesson):
        assert checks.courses.state(lesson) in ("new", "begun")
        solve(question)
    assert checks.courses.state(lesson) == "core"
    said = str(report())
    right, n = len(core_of(lesson)), len(of(lesson))
    state = {"state": text("state.core"), "right": right, "n": n}
    assert sentence("report.state", **state).search(said)
    open_ones = [question.call() for question in core_of(lesson, wanted=False)]
    assert text("report.open", calls=", ".join(open_ones)) in said
    assert sentence("report.counts", done=0, core=1).search(str(report(full=True)))
    for question in core_of(lesson, wanted=False):
        solve(question)
    assert checks.courses.state(lesson) == "done"
    assert sentence("report.counts", done=1, core=0).search(str(report(full=True)))


def core_cells(lesson):
    """Return the sources of a lesson's cells up to the one that says that the core is over."""
    cells = nbformat.read(lesson_index.ROOT / "notebooks" / f"{lesson}.ipynb", as_version=4).cells
    ends = [i for i, cell in enumerate(cells) if "**You have the core.**" in cell.source]
    end = ends[0] if ends else len(cells)  # a short lesson is all core
    return "\n".join(cell.source for cell in cells[:end])


@pytest.mark.parametrize("lesson", sorted({q.lesson for q in questions().values()}))
def test_the_core_has_the_checks_that_a_lesson_asks_before_it_goes_further(lesson):
    source = core_cells(lesson)
    for question in of(lesson):
        # such as fl.check("22-far" or fl.drill(1
        assert (question.call().rstrip(")") in source) is question.core, question.id


def test_the_end_of_a_lesson_is_about_the_lesson_at_hand(clock):
    clock("2026-01-01")
    filled()
    assert "00" in str(report()) or "Measure" in str(report())
    clock("2026-01-02")
    check("31-ring-time", "341 ms")
    assert str(report()) == str(report(lesson="31")) != str(report(lesson="00"))
    clock("2026-01-03")
    ledger("no overlap", 5.29, "35")
    assert str(report()) == str(report(lesson="35_overlap"))
    for wrong in ("99", "", "3"):
        with pytest.raises(InputRefused, match="lesson must be the number"):
            report(lesson=wrong)


def test_the_end_of_a_lesson_shows_what_was_found_the_greatest_surprise_first(clock):
    clock("2026-01-01")
    predict("22-rings", 10, "s", low=5, high=20)
    reveal("22-rings", 2.8, "s")
    predict("22-detour", 3, "times", low=0.5, high=20)
    reveal("22-detour", 15.5, "times")
    predict("21-by-rack", 1000, "s")
    reveal("21-by-rack", 2.1, "s")  # of another lesson
    for name, step in (("as it is", 4.41), ("minimal routes", 9.47), ("detours", 4.6)):
        ledger(name, step, "" if name == "as it is" else "22_dragonfly")
        clock(f"2026-01-0{2 + round(step) % 7}")
    shown = report(lesson="22")
    first, second = (
        f"{n} {predictions()[id].claim}."
        for n, id in (("15.5 times", "22-detour"), ("2.80 s", "22-rings"))
    )
    said = str(shown)
    assert said.index(first) < said.index(second) and "2.10 s" not in said
    assert said.count("\n") < 8
    page = page_of(shown)
    assert f"<h2>{first}</h2>" in page
    verdict = text("card.held", verdict=text("reveal.low", factor="5.2"))
    guess = f"3 times{text('predict.span', low='0.5', high='20')}"
    assert text("report.guessed", said=guess, judged=verdict) in page
    widths = [float(w) for w in re.findall(r'<i style="width:([0-9.]+)%"></i>', page)]
    assert np.divide(widths, max(widths)) == pytest.approx(
        np.divide([4.41, 9.47, 4.6], 9.47), abs=2e-3
    )
    now = re.findall(r'<span class="fl-now">([^<]+)</span>', page)
    assert len(now) == 1 and now[0] in ("minimal routes", "detours")


def test_what_this_machine_does_is_no_headline_beside_a_surprise(clock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clock("2026-01-01")
    predict("00-copy", 1000, "GB/s")
    reveal("00-copy", result("copy", 10e9))
    assert "10.0 GB/s" in re.search("<h2>(.*?)</h2>", page_of(report(lesson="00")))[1]
    predict("00-race", 3, "times")
    reveal("00-race", 128.0, "times")
    page = page_of(report(lesson="00"))
    assert "128 times" in re.search("<h2>(.*?)</h2>", page)[1]
    assert report(lesson="00", share=True).data == {"file": "fabriclab-00-race.png"}


def bars_of(page):
    """Return (width, whether it is broken) of the bars of a card, and where its line is, all in percent."""
    drawn = re.findall(r'<i( class="fl-broken")? style="width:([0-9.]+)%"></i>', page)
    lines = {float(place) for place in re.findall(r'<s style="left:([0-9.]+)%"></s>', page)}
    assert len(lines) == 1
    return [(float(width), bool(broken)) for broken, width in drawn], lines.pop()


def test_one_long_bar_does_not_flatten_the_others():
    steps = {"a": 4.41, "one root": 93.5, "hashed": 9.47, "slow": 4.6, "in the switch": 4.68}
    for name, step in steps.items():
        ledger(name, step, "22_dragonfly")
    page = page_of(report(lesson="22"))
    widths, line = bars_of(page)
    assert [broken for _, broken in widths] == [False, True, False, False, False]
    whole = [width for width, broken in widths if not broken]
    shown = [step for step in steps.values() if step < 90]
    assert np.divide(whole, max(whole)) == pytest.approx(np.divide(shown, 9.47), abs=2e-3)
    assert line / max(whole) == pytest.approx(case().t_step / 9.47, abs=2e-3)
    assert "93.5 s" in page and text("card.broken") in page


def test_two_bars_keep_their_proportion():
    for name, step in (("as it is", 4.6), ("one root", 93.5)):
        ledger(name, step, "22_dragonfly")
    widths, _ = bars_of(page_of(report(lesson="22")))
    assert [broken for _, broken in widths] == [False, False]
    assert widths[1][0] / widths[0][0] == pytest.approx(93.5 / 4.6, rel=0.02)
    assert text("card.broken") not in page_of(report(lesson="22"))


@pytest.mark.parametrize("lesson", sorted({q.lesson for q in questions().values()}))
def test_the_end_of_a_lesson_hides_no_check(lesson):
    store.put("checks", of(lesson)[0].id, {"tries": 1, "right": True, "named": []})
    body = html.unescape(page_of(report(lesson=lesson)).split("<details>")[0])
    for question in of(lesson)[1:]:
        assert question.call() in body
    assert body.count("<li>") == len(of(lesson))


def test_the_end_of_a_lesson_lists_what_can_be_done_and_what_is_open():
    for question in of("22_dragonfly")[:2]:
        solve(question)
    page = html.unescape(page_of(report()))
    done, left = of("22_dragonfly")[:2], core_of("22_dragonfly")[2:]
    body, everything = page.split("<details>")
    total = len(core_of("22_dragonfly"))
    assert body.count('aria-label="right"') == 2 and text("report.of", n=2, total=total) in body
    for question in done:
        assert question.call() not in body
    for question in left[:4]:
        assert question.call() in body
    # what was the report before is folded below
    assert (
        sentence("report.counts", done=0).search(everything)
        and text("report.file", path=store.path()) in everything
    )


def test_the_next_lesson_is_the_next_that_is_not_done_on_the_chosen_path():
    exist = sorted({q.lesson for q in questions().values()})
    after = exist[exist.index("22_dragonfly") + 1 :]
    title = checks.courses.title_of
    assert checks.courses.next_lesson("22_dragonfly")[0] == title(after[0])
    for question in of(after[0]):
        solve(question)
    assert checks.courses.next_lesson("22_dragonfly")[0] == title(after[1])
    assert checks.courses.next_lesson(exist[-1]) is None


def test_the_first_lessons_lead_along_the_shortest_path_until_it_is_done(monkeypatch):
    title, following = checks.courses.title_of, checks.courses.next_lesson
    assert following("00_start_here")[0] == title("21_fat_tree_and_rails")
    assert following("21_fat_tree_and_rails")[0] == title("31_all_reduce")
    exist = sorted({q.lesson for q in questions().values()})
    after = exist[exist.index("31_all_reduce") + 1]
    assert following("31_all_reduce")[0] == title(after)
    states = {"21_fat_tree_and_rails": "done"}
    monkeypatch.setattr(checks.courses, "state", lambda name, kept: states.get(name, "new"))
    assert following("00_start_here")[0] == title("31_all_reduce")
    choose_path("short course")
    assert following("00_start_here")[0] == title("00b_training_and_inference_traffic")
    assert following("00b_training_and_inference_traffic")[0] == title("11_electrical_links")


def test_the_last_lesson_of_a_path_says_what_came_of_the_path():
    ends = sentence("report.path_ends", path="one evening")
    evening = ("00_start_here", "21_fat_tree_and_rails", "31_all_reduce")
    for question in of("00_start_here"):
        solve(question)
    assert not ends.search(str(report(lesson="21")))
    total = sum(len(of(name)) for name in evening)
    said = str(report(lesson="31"))
    assert ends.search(said)
    assert f"{len(of('00_start_here'))} of {total}" in said and "1 of 3" in said
    assert ends.search(report(lesson="31").card())
    choose_path("short course")
    assert not ends.search(str(report(lesson="31")))
    assert sentence("report.path_ends", path="short course").search(str(report(lesson="71")))


def test_a_report_of_nothing_or_with_a_name_is_the_full_one():
    assert str(report()) == str(report(full=True))
    check("31-ring-time", "341 ms")
    assert "Ada" in str(report("Ada"))


def test_what_is_shared_is_a_picture_of_one_number_and_nothing_private(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputRefused, match="nothing to show"):
        report(share=True)
    check("31-ring-time", "341 ms")
    with pytest.raises(InputRefused, match="nothing to show"):
        report(share=True)
    predict("22-detour", 3, "times", low=0.5, high=20)
    reveal("22-detour", 15.5, "times")
    shown = report(share=True, lesson="22")
    assert shown.data == {"file": "fabriclab-22-detour.png"}
    assert str(shown) == text("report.shared", file="fabriclab-22-detour.png")
    corners = {}
    for theme in (True, "dark"):
        report(share=theme, lesson="22")
        with Image.open(tmp_path / "fabriclab-22-detour.png") as image:
            assert image.size == (1200, 630)
            told = image.text["Title"]
            corners[theme] = image.convert("RGB").getpixel((5, 5))
            assert str(tmp_path) not in str(image.text)
    assert corners == {True: (255, 255, 255), "dark": (0x15, 0x18, 0x1C)}
    guess = text("report.i_guessed", guess="3 times", verdict=text("reveal.low", factor="5.2"))
    for words in ("15.5", "as much gets through", guess):
        assert words in told
    assert [file.name for file in tmp_path.glob("*.png")] == ["fabriclab-22-detour.png"]
    assert told in html.unescape(shown._repr_html_())


# Progress


def test_progress_is_calibration_strength_ledger_and_reviews(clock):
    clock("2026-01-01")
    filled()
    predict("31-above-bound", 100, "s")
    reveal("31-above-bound", 50.0, "s")
    ledger("no overlap", 5.29, "35")
    check("31-ring-time", "341 ms")
    calibration, topics, changes = fabriclab.progress().parts
    assert calibration.lines == [
        f"{text('take.ranges', held=0, n=1)} {text('take.factor', factor=2.0, n=2)}"
    ]
    guesses = [foretold("00-copy"), foretold("31-above-bound")]
    assert [row[0] for row in calibration.rows] == guesses
    assert calibration.rows[0][1:] == (
        f"20 GB/s{text('predict.span', low='15', high='30')}",
        "5.00 GB/s",
        "10.0 GB/s",
        "2.00",
        "0.500",
    )
    assert topics.rows == [
        (numbered("31_all_reduce"), "1 of 1", "100 %"),
        (numbered("00_start_here"), "1 of 2", "50 %"),
    ]
    assert changes.rows == (("no overlap", "5.29", text("ledger.lesson", number=35)),)
    assert text("progress.resting") in str(fabriclab.progress())
    clock("2026-01-02")
    review = fabriclab.progress().parts[-1]
    ids = ("00-fabric", "00-nic-rate", "31-ring-time")
    assert {row[0] for row in review.rows} == {named(id) for id in ids}
    assert (named("31-ring-time"), '`fl.check("31-ring-time")`') in review.rows
    assert fabriclab.progress().data == held()
    assert text("progress.title", day="2026-01-02") in str(fabriclab.progress())
    assert re.search(
        rf"{named('00-fabric')} +{text('word.yes')} +2 +fl.check", str(report(full=True))
    )
    right("31-ring-time")
    assert named("31-ring-time") not in str(fabriclab.progress().parts[-1])


def test_a_review_is_done_by_answering_again(clock):
    clock("2026-01-01")
    check("31-ring-time", "341 ms")
    clock("2026-01-03")
    assert named("31-ring-time") in str(fabriclab.progress().parts[-1])
    check("31-ring-time", "341 ms")
    assert held()["checks"]["31-ring-time"]["tries"] == 1
    assert text("progress.resting") in str(fabriclab.progress())


def test_progress_of_nothing_says_so(monkeypatch):
    assert text("progress.unopened") in str(fabriclab.progress())
    assert (
        text("progress.resting") in fabriclab.progress()._repr_html_()
        and "<svg" not in fabriclab.progress()._repr_html_()
    )


def test_the_calibration_is_drawn_where_html_is_shown(monkeypatch):
    filled()
    page = fabriclab.progress()._repr_html_()
    assert page.count("<svg") == 1 and text("progress.near", near=1, n=1) in page
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    assert fabriclab.progress()._repr_html_() is None
    assert foretold("00-copy") in str(fabriclab.progress())


@pytest.mark.parametrize(("said", "truth"), [(1e300, 1e-300), (1e-300, 1e300)])
def test_a_guess_of_another_world_is_drawn_at_the_edge(said, truth):
    predict("31-hall", said, "s")
    reveal("31-hall", truth, "s")
    assert "<svg" in fabriclab.progress()._repr_html_() and "31-hall" in str(fabriclab.progress())


def test_a_lesson_that_is_done_comes_back(clock):
    clock("2026-01-01")
    for question in questions().values():
        if question.lesson == "00_start_here":
            store.put(
                "drills" if question.drill else "checks",
                question.id,
                {"tries": 1, "right": True, "named": []},
            )
    done = sentence("report.counts", done=1)
    assert checks.courses.state("00_start_here") == "done" and done.search(str(report(full=True)))
    clock("2026-01-02")
    assert checks.courses.state("00_start_here") == "review" and done.search(str(report(full=True)))
    assert re.search(
        rf"{numbered('00_start_here')} +{text('state.review')}", str(report(full=True))
    )


NAN = math.nan


def test_guesses_of_all_units_share_one_scale():
    picture = views.calibration(["a", "b", "c"], [2.0, 0.5, 0.49], [1.5, NAN, 0.1], [3.0, NAN, 1.0])
    assert picture.finding == text("progress.near", near=2, n=3) and picture.table.n_rows == 3
    assert picture.table["guess / truth"].tolist() == [2.0, 0.5, 0.49]
    assert picture.table["high / truth"][2] == 1.0 and math.isnan(picture.table["low / truth"][1])
    layers = calibration_scene(
        ["a", "b", "c"], [2.0, 0.5, 0.49], [1.5, NAN, 0.1], [3.0, NAN, 1.0]
    ).layers
    names, dots, bars, ticks, beside = (
        layers[k].fields for k in ("names", "dots", "ranges", "x ticks", "ratios")
    )
    scale = np.polyfit(ticks["x"], np.log([float(t) for t in ticks["texts"]]), 1)
    assert np.exp(np.polyval(scale, dots["x"])) == pytest.approx([2.0, 0.5, 0.49], rel=1e-3)
    assert np.exp(np.polyval(scale, bars["x"])) == pytest.approx([1.5, 3.0, 0.1, 1.0], rel=1e-3)
    assert names["y"].tolist() == dots["y"].tolist() == sorted({*dots["y"]})  # the first on top
    assert bars["y"].tolist() == dots["y"][[0, 0, 2, 2]].tolist()
    assert names["x"].max() < bars["x"].min() and bars["x"].max() < beside["x"].min()
    far = calibration_scene(["a"], [1e12], [NAN], [NAN]).layers
    assert far["names"].fields["x"][0] < far["dots"].fields["x"][0] < far["ratios"].fields["x"][0]
    drawn = views.calibration(["a"], [1e12], [NAN], [NAN], finding="Far off")
    assert drawn.alt == f"Far off. {text('progress.near', near=0, n=1)}"


@pytest.mark.parametrize(
    "wrong",
    [
        ([], [], [], []),
        (["a"], [0.0], [NAN], [NAN]),
        (["a"], [NAN], [1.0], [2.0]),
        (["a", "b"], [1], [1], [1]),
        (["a"], [1.0], [-1.0], [2.0]),
        (["a"], [math.inf], [1.0], [2.0]),
    ],
)
def test_a_calibration_of_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match="ratio, low and high must hold"):
        views.calibration(*wrong)


# What learners see


def test_hello_is_one_line(own_file):
    said = str(hello())
    assert "\n" not in said and fabriclab.__version__ in said and str(own_file) in said
    assert "Cores" in said and "MPI" in said and "GPU" in said and hello().state == "good"


def test_the_front_door_has_the_names():
    for name in (
        "hello",
        "predict",
        "progress",
        "report",
        "ruler",
        "drill",
        "export_progress",
        "forget",
    ):
        assert getattr(fabriclab, name) is getattr(checks, name)


def test_no_key_of_a_text_stands_twice():
    """A second one would silently replace the first."""
    file = store.Path(fabriclab.__file__).with_name("texts_en.json")
    pairs = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=list)
    times = Counter(key for key, _ in pairs)
    assert [key for key, n in times.items() if n > 1] == []


def test_every_text_is_used_and_every_field_is_filled():
    library = store.Path(fabriclab.__file__).parent
    code = "".join(path.read_text() for path in library.rglob("*.py"))
    dynamic = (
        "lesson.",
        "topic.",
        "level.",
        "match.",
        "calibration.",
        "audit.",
        "live.loop.",
        "live.incast.",
        "live.loops.",
        "live.control_loops.",
        "live.headroom.",
        "live.inside_switch.",
        "live.collisions.",
        "live.pause_map.",
        "live.matchings.",
        "live.slices.",
        "trace.matching_",
        "doctor.verdict.",
        "live.queues.",
        "how.",
        "factor.",
        "state.",
        "measured.",
        "report.",
        "drill.",
        "check.",
        "live.word.",
        "form.",
        "ex.",
        "sandbox.",
        "kind.",
        "family.",
        "routing.",
        "algorithm.",
        "sweep.",
        "fabric.says_",
        "fabric.in_",
        "fabric.of_",
        "server.",
        "zoom.",
        "fabric.key_",
        "fabric.server",
        "fabric.box",
        "live.roulette.",
        "live.slowest.",
        "live.cut.",
        "live.distance.",
        "live.explorer.",
        "live.stepper.",
        "live.savings.",
        "live.straggler.",
        "live.packets.",
        "live.pays.",
        "live.pool.",
        "live.quantisation.",
        "live.beam.",
        "live.hybrid.",
        "live.latency.",
        "live.tiers.",
        "live.medium.",
        "live.drift.",
        "live.wavelengths.",
        "live.mzi_mesh.",
        "live.circuit.",
        "grade.shade.",
        "grade.tried.",
        "grade.trouble.",
        "grade.kind.",
        "live.queue_pair.",
        "live.request.",
        "errata.source.",
        "live.copies.",
        "live.step.",
        "live.roofline.",
        "live.tokens.",
        "live.parallelism.",
        "live.rollout.",
        "live.shared_fabric.",
        "live.checkpoints.",
        "live.sick_nic.",
        "live.sick_link.",
        "live.cost_front.",
        "live.gallery.",
        "own.check.",
        "plan.met_",
        "plan.name_",
        "plan.none_",
        "plan.refused_",
        "live.decision.",
        "tiers.",
    )
    views_of = {
        name: getattr(live, name)
        for name in live.__all__
        if inspect.isfunction(getattr(live, name))
    }
    by_name = {
        f"live.{name}.{k}"
        for name, of in views_of.items()
        for k in ("title", *inspect.signature(of).parameters)
    }
    by_name |= {
        f"live.control.{k}" for of in views_of.values() for k in inspect.signature(of).parameters
    }
    commands = json.loads(
        (store.Path(checks.__file__).parents[1] / "grading" / "arguments.json").read_bytes()
    )
    by_name |= {f"grade.help.{k}" for k in commands}
    by_name |= {
        f"grade.help.{about['help']}" for each in commands.values() for about in each.values()
    }
    unused = [
        key
        for key in keys("")
        if not key.startswith(dynamic) and key not in by_name and f'"{key}"' not in code
    ]
    assert unused == []


@pytest.mark.parametrize("word", ["simply", "just", "obviously", "easy", "of course"])
def test_no_text_talks_down(word):
    assert [key for key in keys("") if re.search(rf"\b{word}\b", table()[key], re.IGNORECASE)] == []


def test_a_table_shows_itself():
    shown = Shown(
        ("Two",), head=("a", "b"), rows=(("x", ("y<", "z.html")), ("long", "1")), after=("End",)
    )
    assert str(shown) == "Two\na     b\nx     y<\nlong  1\nEnd"
    assert re.search(r'<td[^>]*><a href="z.html">y&lt;</a></td>', shown._repr_html_())
    assert re.search(r'<th scope="col"[^>]*>a</th>', shown._repr_html_())
    assert shown.markdown() == "Two\n\n| a | b |\n| --- | --- |\n| x | y< |\n| long | 1 |\n\nEnd"
    assert text("word.yes") == "yes"
    line = Shown(("Type `a<b`.",), head=("x", "y"), rows=(("1", "`f(2)`"),))
    assert (
        str(line) == "Type a<b.\nx  y\n1  f(2)"
        and '<code style="white-space:nowrap">a&lt;b</code>.' in line._repr_html_()
    )
    assert (
        '<code style="white-space:nowrap">f(2)</code>' in line._repr_html_()
        and "`f(2)`" in line.markdown()
    )


def test_the_ledger_is_shown_by_itself():
    assert text("ledger.title", n=0) in str(ledger())
