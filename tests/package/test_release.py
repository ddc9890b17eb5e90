"""The page of ``make release``: a step that fails is red and stops no other, and what is lost is found."""

import json
import sys
from pathlib import Path

import pytest

import release
import upgrade
from steps import Failed, Log, NotRun, Setting, Step, counted, measured


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path, {"3.11": Path(sys.executable)})


def lines_of(setting, **checks):
    """Return the lines of steps whose checks are given by name."""
    return [release.run(Step(name, check), setting) for name, check in checks.items()]


def fails(setting, log):
    log.note("the reason")
    raise Failed("2 of 3 are lost")


def breaks(setting, log):
    raise ZeroDivisionError("a fault of the check itself")


def lacks(setting, log):
    return str(setting.python("3.13"))


def test_each_step_has_a_line_whatever_happens_in_it(setting):
    lines = lines_of(setting, a=fails, b=breaks, c=lacks, d=lambda setting, log: "7 files")
    assert [line.colour for line in lines] == ["red", "red", "not run", "green"]
    assert lines[0].measured == "2 of 3 are lost"
    assert "ZeroDivisionError" in (setting.folder / "b.log").read_text()
    assert "3.13" in lines[2].measured
    text = release.page(lines, release.state())
    assert "NOT READY: 1 green, 2 red, 1 not run" in text
    assert [line for line in text.splitlines() if line.startswith("green")]


def test_only_a_page_of_all_steps_says_ready(setting, monkeypatch):
    lines = lines_of(setting, a=lambda setting, log: "7 files")
    now = ("a commit", False)
    monkeypatch.setattr(release, "state", lambda: now)
    assert "NO RED LINE in 1 of" in release.page(lines, now)
    monkeypatch.setattr(release, "STEPS", (Step("a", fails),))
    assert release.page(lines, now).splitlines()[-1].startswith("READY")
    assert "NOT READY" in release.page(lines, ("another commit", False))
    monkeypatch.setattr(release, "state", lambda: ("a commit", True))
    assert "READY:" not in release.page(lines, ("a commit", True))


def test_a_command_that_fails_makes_its_step_red_and_names_the_tests(setting, tmp_path):
    said = "FAILED tests/test_a.py::test_b - assert 1 == 2\n=== 1 failed, 3 passed in 0.10s ==="
    program = f"import sys; print({said!r}); sys.exit(1)"
    (line,) = lines_of(setting, a=lambda setting, log: log.run(sys.executable, "-c", program))
    assert (line.colour, line.measured) == ("red", "1 failed, 3 passed")
    assert line.notes == ("tests/test_a.py::test_b - assert 1 == 2",)


def test_a_command_may_not_take_for_ever(setting):
    wait = "import time; time.sleep(60)"
    (line,) = lines_of(
        setting, a=lambda setting, log: log.run(sys.executable, "-c", wait, timeout=1)
    )
    assert line.colour == "red"
    assert "1 s" in line.measured


def test_summaries_of_pytest_are_added_up():
    said = (
        "===== 1 failed, 1200 passed, 3 skipped, 5 warnings in 61.2s (0:01:01) =====\n"
        "42 passed in 2.5s\n"
        "SKIPPED [3] tests/test_a.py:7: no browser\n"
    )
    assert counted(said) == "1 failed, 1,242 passed, 3 skipped"
    assert counted("make: nothing to be done") == ""


def test_reasons_of_skipped_tests_stand_under_the_line(tmp_path):
    said = "SKIPPED [3] tests/test_a.py:7: no browser\nSKIPPED [1] tests/test_b.py:9: no browser\n"
    with (tmp_path / "log").open("w") as file:
        log = Log(file)
        measured(said + "== 2 passed, 4 skipped in 1.00s ==", log)
    assert log.notes == ["skipped 4 x: no browser"]


def test_an_interpreter_counts_if_it_starts(tmp_path):
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    found = release.interpreters([str(shim), str(tmp_path / "none")])
    assert found.get("3.12") != shim
    assert found["{}.{}".format(*sys.version_info[:2])].exists()


@pytest.mark.parametrize(("changed", "names"), [(False, ["a"]), (True, [])])
def test_green_lines_are_kept_for_the_same_commit_only(setting, monkeypatch, changed, names):
    lines = lines_of(setting, a=lambda setting, log: "7 files", b=fails)
    done = {"commit": "abc", "lines": [release.asdict(line) for line in lines]}
    (setting.folder / "page.json").write_text(json.dumps(done))
    monkeypatch.setattr(release, "state", lambda: ("abc", changed))
    assert list(release.kept(setting.folder)) == names
    monkeypatch.setattr(release, "state", lambda: ("abd", False))
    assert release.kept(setting.folder) == {}


EARLIER = {
    "predictions": {"00-copy": {"value": 20.0, "unit": "GB/s"}},
    "checks": {"31-first-sum": {"tries": 1, "right": True}},
}


@pytest.mark.parametrize(
    ("today", "n_lost"),
    [
        (EARLIER, 0),
        (EARLIER | {"checks": {"31-first-sum": {"tries": 1, "right": True, "days": []}}}, 0),
        (EARLIER | {"checks": {"31-first-sum": {"tries": 2, "right": True}}}, 1),
        (EARLIER | {"checks": {}}, 1),
        ({}, 2),
    ],
)
def test_an_entry_that_is_lost_or_changed_is_found(today, n_lost):
    assert len(list(upgrade.differences(EARLIER, today))) == n_lost


def test_a_file_that_is_lost_or_changed_is_found(tmp_path):
    stays, moves, gone = (tmp_path / name for name in ("stays.md", "moves.ipynb", "gone.md"))
    stays.write_text("mine")
    moves.write_text("of today")
    (tmp_path / "moves-mine-20260101-120000.ipynb").write_text("mine")
    with (tmp_path / "log").open("w") as file:
        assert upgrade.look_for_files({stays: b"mine", moves: b"mine"}, Log(file)) == 1
        with pytest.raises(Failed, match="1 of 1"):
            upgrade.look_for_files({gone: b"mine"}, Log(file))


def test_before_the_first_release_there_is_no_earlier_one(setting, monkeypatch):
    monkeypatch.setattr(upgrade, "git", lambda *words, **more: "")
    assert upgrade.last_release() == ""
    with (setting.folder / "log").open("w") as file:
        said = upgrade.upgraded("the release before", setting, Log(file))
    assert "no version has a tag" in said


def test_a_checkout_without_history_is_not_red():
    with pytest.raises(NotRun):
        upgrade.git("rev-parse", "--verify", "no-such-commit")
