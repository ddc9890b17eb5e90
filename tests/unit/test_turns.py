"""Measurements of a machine take turns: none overlaps, nobody waits for ever, and who waits is told why."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from fabriclab import measure
from fabriclab.core.result import MACHINE_SHARED
from fabriclab.measure import _collectives, _launch, _turns
from support.prose import states

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
# A process that was started in the background ignores an interrupt, and so do those that it starts.
HOLD = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from fabriclab.measure._turns import turn
with turn("copy") as notes:
    begun = time.time()
    print("has it", flush=True)
    time.sleep(float(sys.argv[1]))
    ended = time.time()
print(begun, ended, *notes, flush=True)
"""


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """Return the file that only measurements of this test lock."""
    lock = tmp_path / "measures.lock"
    monkeypatch.setenv("FABRICLAB_TURNS", str(lock))
    return lock


@pytest.fixture
def holder(root):
    """Return what starts a process that has the turn for some seconds; whatever is left of it is ended."""
    started = []

    def start(seconds, wait=True):
        command = [sys.executable, "-c", HOLD, str(seconds)]
        process = subprocess.Popen(
            command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        if wait:
            assert process.stdout.readline() == "has it\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_no_two_measurements_overlap(holder):
    processes = [holder(0.3, wait=False) for _ in range(4)]
    spans = []
    for process in processes:
        out, _ = process.communicate(timeout=60)
        begun, ended, *_ = out.split("\n")[1].split()
        spans.append((float(begun), float(ended)))
    spans.sort()
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_who_waits_is_told_for_whom_and_for_how_long(holder, capfd, monkeypatch):
    monkeypatch.setattr(_turns, "_TELL_AFTER", 0.2)
    other = holder(1.0)
    result = measure.copy(8, repeats=1)
    told = "".join(capfd.readouterr())  # where ipykernel is loaded, it goes to the standard output
    states(told, str(other.pid), str(os.getpid()), "90 s")
    assert "copy" in told
    assert "waited" in " ".join(result.notes)


def test_a_short_wait_is_not_worth_a_line(holder, capfd):
    holder(0.2)
    measure.copy(8, repeats=1)
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_holder_that_dies_holds_nobody_up(holder, how):
    other = holder(60)
    other.send_signal(how)
    begun = time.monotonic()
    result = measure.copy(8, repeats=1)
    assert time.monotonic() - begun < 10
    assert not any("waited" in note or "beside" in note for note in result.notes)


def test_a_rank_that_outlives_its_starter_has_no_turn(holder, root):
    """What a measurement starts inherits no lock: a child that is left over must not hold up a class."""
    code = (
        "import subprocess, sys, time\nfrom fabriclab.measure._turns import turn\n"
        "with turn('copy'):\n child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        " print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE) as run:
        child = int(run.stdout.readline())
        try:
            run.kill()
            run.wait()
            with _turns.turn("copy") as notes:
                assert notes == []
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_holder_that_is_stopped_is_measured_beside_and_that_is_said(holder, monkeypatch):
    monkeypatch.setattr(_turns, "PATIENCE", 0.4)
    other = holder(60)
    other.send_signal(signal.SIGSTOP)
    result = measure.copy(8, repeats=1)
    assert MACHINE_SHARED in repr(result)
    states(" ".join(result.notes), str(other.pid))
    assert "beside" in " ".join(result.notes)
    other.kill()
    other.wait()
    assert "beside" not in " ".join(measure.copy(8, repeats=1).notes)


def test_a_measurement_within_another_one_waits_for_nobody():
    begun = time.monotonic()
    with _turns.turn("once"):
        with _turns.turn("copy") as notes:
            assert notes == []
        with pytest.raises(ZeroDivisionError), _turns.turn("copy"):
            raise ZeroDivisionError
        # ... and the outer one still has its turn
        with _turns._opened(_turns.place()) as file:
            assert not _turns._lock(file)
    assert time.monotonic() - begun < 1
    with _turns._opened(_turns.place()) as file:
        assert _turns._lock(file)


def test_an_error_gives_the_turn_back(monkeypatch):
    def fail(ask):
        raise measure.NotMeasured("no")

    monkeypatch.setattr(_collectives, "run_ranks", fail)
    with pytest.raises(measure.NotMeasured):
        measure.all_reduce("1 KiB", transport="shm")
    with _turns.turn("copy") as notes:
        assert notes == []


@pytest.mark.parametrize(
    "record", [b"", b"{", b"\xff" * 600, b"[1]", b"[" * 600, b'[1, "a b", 0]', b'["x", "y", "z"]', b'[1, "c", NaN]']
)  # fmt: skip
def test_whatever_stands_in_the_file_only_a_name_is_lost(record, place, holder, capfd, monkeypatch):
    monkeypatch.setattr(_turns, "_TELL_AFTER", 0.1)
    monkeypatch.setattr(_turns, "PATIENCE", 0.3)
    holder(30)
    place.write_bytes(record)
    with _turns.turn("copy") as notes:
        assert "beside" in notes[0]
    assert "another process" in "".join(capfd.readouterr())


def test_a_file_that_cannot_be_locked_costs_no_measurement(place, tmp_path):
    place.mkdir()
    result = measure.copy(8, repeats=1)
    assert result.obtained == "measured"
    assert f"{place} could not be locked" in " ".join(result.notes)
    place.rmdir()
    target = tmp_path / "another's"
    target.write_text("kept")
    place.symlink_to(target)  # nobody is led to write into a file of another one
    measure.copy(8, repeats=1)
    assert target.read_text() == "kept"


def test_every_user_may_lock_the_file(place):
    before = os.umask(0o077)
    try:
        measure.copy(8, repeats=1)
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o666
    assert json.loads(place.read_text())[0] == os.getpid()


def test_on_a_hub_a_machine_is_said_to_be_shared(monkeypatch):
    quiet = _launch.Load().figures() * 0 + [0.0, 0.0, -2]
    assert MACHINE_SHARED not in _launch.load_note(quiet)
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    assert MACHINE_SHARED in _launch.load_note(quiet)
    assert MACHINE_SHARED in repr(measure.copy(8, repeats=1))
