"""However a measurement ends, no process, no shared memory and no folder stays behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fabriclab import measure
from fabriclab.measure import _launch

psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc and /dev/shm")
# A shell starts what runs in the background with interrupts ignored; a person's Python does not ignore them.
RUN = """
import signal, sys
from fabriclab import measure
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begin", flush=True)
measure.all_reduce("64 KiB", 2, sys.argv[1], rounds=1_000_000)
"""
needs_mpi = pytest.mark.skipif(not _launch.has_mpi(), reason="mpi4py or mpiexec is not installed")
needs_torch = pytest.mark.skipif(not _launch.has("torch"), reason="torch is not installed")
TRANSPORTS = ["shm", pytest.param("mpi", marks=needs_mpi), pytest.param("gloo", marks=needs_torch)]


def left_by(pid):
    """Return what in shared memory and in the temporary folder carries the mark of process ``pid``."""
    places = (
        Path("/dev/shm"),
        Path(os.environ.get("TMPDIR", "/") if "TMPDIR" in os.environ else "/dev/shm"),
    )
    return [p for place in places for p in place.glob(f"fabriclab-{pid}-*")]


def wait_until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def alive(processes):
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_interrupt_and_sudden_death_leave_nothing(transport, how, root):
    command = [sys.executable, "-c", RUN, transport]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        me, expected = psutil.Process(run.pid), 3 if transport == "mpi" else 2
        try:
            wait_until(lambda: len(me.children(recursive=True)) >= expected)
            time.sleep(0.4)  # let them measure
            family = me.children(recursive=True)
            assert len(alive(family)) == expected
        finally:
            run.send_signal(how)
            end = threading.Timer(20, run.kill)  # so that a failure is no hang
            end.start()
        assert run.wait() != 0
        end.cancel()
        if how == signal.SIGINT:
            assert "KeyboardInterrupt" in run.stderr.read()
            assert alive(family) == []  # at once
        wait_until(lambda: not alive(family))
        wait_until(lambda: not left_by(run.pid))


def test_workers_that_hang_are_ended_with_advice(monkeypatch):
    monkeypatch.setattr(_launch, "SILENCE_LIMIT", 1.5)
    family = []

    def stop_one(done, of):
        if not family:
            # A test before this one may have left the tracker of shared memory that Python keeps.
            children = psutil.Process().children()
            family.extend(p for p in children if "fabriclab.measure._worker" in p.cmdline())
            family[0].suspend()

    monkeypatch.setattr(_launch, "text_bar", lambda: stop_one)
    with pytest.raises(
        TimeoutError, match=r'no sign of life for 1\.5 s.*smaller size.*transport="shm"'
    ):
        measure.all_reduce("64 KiB", 2, "shm", rounds=1_000_000)
    assert alive(family) == []
    assert left_by(os.getpid()) == []


def test_what_a_deaf_mpiexec_started_is_ended_too(monkeypatch, tmp_path):
    script = tmp_path / "mpiexec"
    script.write_text("#!/bin/sh\ntrap '' TERM\nsleep 86397 &\nsleep 86398\n")
    script.chmod(0o755)
    monkeypatch.setenv("FABRICLAB_MPIEXEC", str(script))
    monkeypatch.setattr(_launch, "START_LIMIT", 0.3)
    monkeypatch.setitem(_launch._NEEDS, "mpi", ("numpy", ""))
    with pytest.raises(measure.NotMeasured, match="did not start"):
        measure.all_reduce("8 B", 2, "mpi")
    # A killed process takes a moment to end on a busy machine.
    found = psutil.process_iter
    wait_until(
        lambda: (
            not [
                p
                for p in found(["cmdline"])
                if (p.info["cmdline"] or [""])[-1] in ("86397", "86398")
            ]
        )
    )


def test_a_worker_that_dies_is_reported_with_its_last_words(monkeypatch):
    def kill_one(done, of):
        for p in psutil.Process().children():
            if '"rank": 1' in " ".join(p.cmdline()):
                p.kill()

    monkeypatch.setattr(_launch, "text_bar", lambda: kill_one)
    with pytest.raises(
        measure.NotMeasured,
        match=r"2 ranks over shm .*code -9",
    ):
        measure.all_reduce("64 KiB", 2, "shm", rounds=1_000_000)
    monkeypatch.setitem(_launch._NEEDS, "shm", ("numpy", ""))
    monkeypatch.setattr(
        _launch, "worker", lambda ask: [sys.executable, "-c", "raise RuntimeError('out of ideas')"]
    )
    with pytest.raises(measure.NotMeasured, match=r"last words: .*out of ideas"):
        measure.all_reduce("8 B", 2, "shm")
