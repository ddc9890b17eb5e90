"""Measurements: small but real runs, every answer checked, every way out taken once."""

import json
import math
import multiprocessing
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from multiprocessing import resource_tracker
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import measure, rdma
from fabriclab.core.result import MACHINE_SHARED, Result, bus_factor
from fabriclab.errors import TooLarge
from fabriclab.measure import _collectives, _host, _launch, _rounds, _shm
from support.prose import figures, states

FOUR = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")
SHORT = {"rounds": 5, "warmup": 1}
# none, fewer items than ranks, not a multiple, a multiple
ODD_SIZES = ["0 B", "8 B", "36 B", 4 * 1001, "64 KiB"]
needs_mpi = pytest.mark.skipif(not _launch.has_mpi(), reason="mpi4py or mpiexec is not installed")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No test inherits what another found out about mpiexec, or that it runs inside a job."""
    monkeypatch.setattr(_collectives, "_failed", {})
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class Alone:
    """A communicator of one rank whose faults a test chooses."""

    rank, size, about = 0, 1, "nothing"

    def __init__(self, items, rows=((0.0,),)):
        self.send, self.recv, self.rows = (
            np.zeros(items, np.float32),
            np.zeros(items, np.float32),
            np.array(rows),
        )

    def barrier(self):
        pass

    def all_reduce(self, n):
        self.recv[:n] = self.send[:n]

    def gather(self, numbers):
        return self.rows + numbers


# ------------------------------------------------------------------ by hand


def test_slices_by_hand():
    assert _rounds.slices(10, 4) == [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 10)]
    assert _rounds.slices(2, 3) == [slice(0, 1), slice(1, 2), slice(2, 2)]
    assert _rounds.slices(0, 2) == [slice(0, 0), slice(0, 0)]


def test_a_round_takes_as_long_as_its_slowest_rank():
    comm = Alone(4, rows=[[0, 20, 0, 0], [10, 0, 30, 0]])
    (times,) = _rounds.timed(comm, "all_reduce", [4], 3, 0, lambda done: None)
    assert np.round(times) == pytest.approx([10, 20, 30])


def test_rounds_are_summed_up_as_median_minimum_and_99th_percentile():
    result = _rounds.summed_up("all_reduce", [8, 16], [[5, 1, 3], [2, 2, 8]], {}, "", ["note"], 2)
    assert result.time.tolist() == [3, 2]
    assert result.low.tolist() == [1, 2]
    assert result.high == pytest.approx([4.96, 7.88])
    assert result.busbw == pytest.approx([8 / 3, 8])


def test_memory_copy_counts_each_byte_once():
    result = measure.copy(["1 MiB", 100], repeats=3)
    assert result.size.tolist() == [2**20, 100]
    assert result.busbw == pytest.approx(result.size / np.median(result.samples, axis=1))
    assert "twice" in result.how
    assert result.at(100) < 1e-4  # of one copy, though many are timed together


def test_load_note_by_hand():
    assert figures(_launch.load_note(np.array([3.12, math.nan, -2]))) == ["3.1", "2"]
    both = _launch.load_note(np.array([3.1, 0.02, -2]))
    assert figures(both) == ["3.1", "2", "2"]
    states(both, "2 cores", "2 %")
    assert "upper bounds" in _launch.load_note(np.array([0.0, 0.5, -1]))


def test_the_short_form_of_a_measurement_says_that_the_machine_was_busy():
    for others, busy in ((0.02, False), (0.5, True)):
        note = _launch.load_note(np.array([0.0, others, -2]))
        result = Result("copy", "measured", [8], [1e-6], notes=(note,))
        assert (MACHINE_SHARED in repr(result)) == busy


def test_cores_follow_the_quota_of_a_container(tmp_path):
    quota, usable = tmp_path / "cpu.max", _launch.cores(tmp_path / "none")
    quota.write_text("50000 100000\n")
    assert _launch.cores(quota) == 1
    quota.write_text(f"{usable * 100000 - 50000} 100000\n")
    assert _launch.cores(quota) == usable
    quota.write_text("1000000000 100000\n")
    assert _launch.cores(quota) == usable
    quota.write_text("max 100000\n")
    assert _launch.cores(quota) == usable


# ------------------------------------------------------------------ shape


def test_copy_and_sockets_by_default():
    for result in (measure.copy(), measure.sockets()):
        assert (result.obtained, result.n_ranks, result.size.tolist()) == ("measured", 1, [2**26])
        assert result.samples.shape == (1, 5)
        assert result.low[0] <= result.time[0] <= result.high[0]
        assert any("load" in note for note in result.notes)


def test_bytes_come_from_another_process():
    result = measure.sockets([1, "100 kB"], repeats=2)
    assert result.asked == {"repeats": 2}
    assert result.samples.shape == (2, 2)
    assert np.all(result.samples > 0)


@pytest.mark.parametrize("what", FOUR)
def test_collectives_between_processes(what, monkeypatch):
    done = []
    monkeypatch.setattr(_launch, "text_bar", lambda: lambda n, of: done.append((n, of)))
    result = getattr(measure, what)(ODD_SIZES, 3, "shm", oversubscribe=True, **SHORT)
    assert (result.what, result.obtained, result.n_ranks) == (what, "measured", 3)
    assert result.size.tolist() == [0, 8, 36, 4004, 65536]
    assert result.samples.shape == (5, 5)
    assert np.all(result.samples > 0)
    assert result.busbw == pytest.approx(result.size / result.time * bus_factor(what, 3))
    assert result.asked == {"transport": "shm", "ranks": 3, **SHORT}
    assert done[-1] == (25, 25)
    assert any("3 ranks shared" in note for note in result.notes) == (_launch.cores() < 3)


@needs_mpi
def test_mpi_is_the_first_choice():
    result = measure.all_reduce("8 B", **SHORT)
    assert (result.asked["transport"], result.n_ranks) == ("mpi", 2)
    assert not any("instead" in note for note in result.notes)


@pytest.mark.skipif(not _launch.has("torch"), reason="torch is not installed")
@pytest.mark.parametrize("what", FOUR)
def test_collectives_over_gloo(what):
    result = getattr(measure, what)(ODD_SIZES, 3, "gloo", oversubscribe=True, **SHORT)
    assert (result.asked["transport"], result.samples.shape) == ("gloo", (5, 5))
    assert "Gloo" in result.how


JOB = """
import sys
from fabriclab import measure
for what in sys.argv[1:]:
    r = getattr(measure, what)(["0 B", "8 B", "36 B", 4004, "64 KiB"], rounds=5, warmup=1)
    about = (r.what, r.n_ranks, r.size.tolist(), r.asked, r.how, r.notes, r.samples.tobytes().hex())
    sys.stdout.write("\\n%r\\n" % (about,))
    sys.stdout.flush()
"""


@needs_mpi
def test_ranks_of_a_job_measure_together_and_agree(root, tmp_path):
    env = _launch.environment({"transport": "mpi", "ranks": 3, "scratch": str(tmp_path)})
    command = [_launch.mpiexec(), "-n", "3", sys.executable, "-c", JOB, *FOUR]
    done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=60)
    for what in FOUR:
        lines = [
            line
            for line in done.stdout.splitlines()
            if line.startswith(f"('{what}', 3, [0.0, 8.0, 36.0, 4004.0, 65536.0]")
        ]
        assert len(lines) == 3, done.stderr
        assert len(set(lines)) == 1
        assert "MPI" in lines[0]


# ------------------------------------------------------------------ laws


def in_threads(size, items, numbers, work):
    """Run ``work(comm)`` on ``size`` ranks of the shared memory collectives, as threads of this process."""
    out, kept = [None] * size, (resource_tracker.register, resource_tracker.unregister)
    name = f"fabriclab-{os.getpid()}-{time.monotonic_ns() % 10**9}"

    def run(rank):
        comm = _shm.SharedMemoryRanks(rank, size, items, numbers, name)
        out[rank] = work(comm)
        for turn in range(20):  # the rows of a call stay until all have read them
            rows = comm.gather(np.full(numbers, float(rank + turn)))
            assert rows[:, 0].tolist() == list(range(turn, size + turn))
        memory = comm.__dict__.pop("_memory")
        comm.__dict__.clear()  # views go first, then the segment closes
        del comm, rows
        memory.close()

    try:
        ranks = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(timeout=60)
            assert not rank.is_alive()
    finally:
        resource_tracker.register, resource_tracker.unregister = kept
    return out


@given(
    what=st.sampled_from(FOUR), size=st.integers(1, 5), n=st.integers(0, 40), seed=st.integers(0, 9)
)
def test_shared_memory_collectives_equal_numpy(what, size, n, seed):
    block = -(-n // size)
    data = np.random.default_rng(seed).integers(0, 99, (size, max(n, 1))).astype(np.float32)

    def work(comm):
        comm.send[: data.shape[1]] = data[comm.rank]
        comm.recv[:] = -1
        getattr(comm, what)(n)
        return comm.recv.copy()

    parts = [slice(min(r * block, n), min((r + 1) * block, n)) for r in range(size)]
    for rank, got in enumerate(in_threads(size, max(n, 1), 1, work)):
        mine = parts[rank]
        right = {
            "all_reduce": data[:, :n].sum(axis=0),
            "reduce_scatter": data[:, mine].sum(axis=0),
            "all_gather": np.concatenate(
                [data[r, : p.stop - p.start] for r, p in enumerate(parts)]
            ),
            "broadcast": data[0, :n],
        }[what]
        if what != "broadcast" or rank:
            assert got[: right.size].tolist() == right.tolist()


@given(n=st.integers(0, 300), size=st.integers(1, 20))
def test_slices_cover_everything_once(n, size):
    parts = _rounds.slices(n, size)
    assert [i for p in parts for i in range(n)[p]] == list(range(n))
    assert max(p.stop - p.start for p in parts) == -(-n // size)


@pytest.mark.parametrize("what", FOUR)
@pytest.mark.parametrize("size", [2, 3])
def test_one_wrong_number_on_one_rank_is_found(what, size):
    def work(comm):
        good = getattr(comm, what)

        def bad(n):
            good(n)
            if comm.rank == size - 1:
                comm.recv[2] += 1

        setattr(comm, what, bad)
        with pytest.raises(
            measure.WrongAnswer, match=rf"{what} of 48 B on {size} ranks .* 1 wrong number"
        ):
            list(_rounds.timed(comm, what, [12], 2, 0, lambda done: None))
        return True

    assert in_threads(size, 12, 3, work) == [True] * size


def test_a_collective_that_does_nothing_is_found_though_its_warm_up_was_right():
    comm = Alone(6)
    calls = iter([comm.all_reduce, lambda n: None, lambda n: None])
    comm.all_reduce = lambda n: next(calls)(n)
    with pytest.raises(measure.WrongAnswer, match="6 wrong"):
        list(_rounds.timed(comm, "all_reduce", [6], 2, 1, lambda done: None))


def test_the_pattern_is_checked_beyond_one_step():
    comm = Alone(_rounds._STEP + 9)
    assert (
        len(list(_rounds.timed(comm, "all_reduce", [comm.send.size], 1, 0, lambda done: None))) == 1
    )
    comm.recv[-1] += 1
    assert _rounds._wrong(comm, "all_reduce", comm.send.size) == 1


def test_a_wrong_answer_between_processes_is_raised_here(monkeypatch):
    code = (
        "from fabriclab.measure import _shm, _worker\n"
        "_shm.SharedMemoryRanks.all_reduce = lambda self, n: self.barrier()\n_worker.main()"
    )
    monkeypatch.setattr(
        _launch, "worker", lambda ask: [sys.executable, "-P", "-c", code, json.dumps(ask)]
    )
    with pytest.raises(
        measure.WrongAnswer,
        match=r"all_reduce of 40 B on 2 ranks over shared memory .* 20 wrong numbers",
    ):
        measure.all_reduce(40, 2, "shm", **SHORT)


def test_waiting_ranks_yield_where_not_each_has_a_core_to_itself(monkeypatch):
    for load, n, crowded in ((0.2, 4, "0"), (0.8, 4, "1"), (0.0, 5, "1"), (math.nan, 4, "0")):
        monkeypatch.setattr(_launch, "cores", lambda: 4)
        monkeypatch.setattr(_launch, "load_average", lambda load=load: load)
        assert (
            _launch.environment({"transport": "mpi", "ranks": n, "scratch": ""})[_launch.YIELDS]
            == crowded
        )


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": "5 B"}, r"multiple of 4 B, got '5 B'; the nearest is \"4 B\""),
        ({"size": -4}, "size"),
        ({"size": []}, "at least one size"),
        ({"size": "4 Mbps"}, "read in two ways"),
        ({"ranks": 0}, "ranks must be >= 1, got 0"),
        ({"ranks": 10**4}, r"cores available, got 10000; oversubscribe=True"),
        ({"rounds": 0}, "rounds must be >= 1"),
        ({"warmup": -1}, "warmup must be >= 0"),
        ({"transport": "nccl"}, "one of mpi, gloo, shm, got .*; or None"),
        ({"transport": 5}, "one of mpi, gloo, shm, got .*; or None"),
        ({"ranks": "2"}, "ranks must be a whole number, got '2'"),
        ({"rounds": 5.0}, "rounds must be a whole number"),
        ({"rounds": 10**15}, "needs about .* fewer ranks or rounds"),
        ({"oversubscribe": "no"}, "oversubscribe must be True or False, got 'no'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(settings, words, monkeypatch):
    monkeypatch.setattr(
        _launch, "Popen", lambda *args, **more: pytest.fail("a process was started")
    )
    for function in (measure.all_reduce, measure.broadcast):
        with pytest.raises((ValueError, TypeError, TooLarge), match=words):
            function(**settings)


@pytest.mark.parametrize(
    "function", [measure.copy, measure.sockets, *(getattr(measure, what) for what in FOUR)]
)
def test_what_is_no_size_is_refused_before_anything_starts(function, monkeypatch):
    monkeypatch.setattr(
        _launch, "Popen", lambda *args, **more: pytest.fail("a process was started")
    )
    for size in (
        None,
        True,
        b"4 MiB",
        {4: 8},
        {4},
        [[4, 8]],
        np.array([[4, 8]]),
        3j,
        [None],
        iter([4]),
    ):
        with pytest.raises(
            TypeError, match=r'size must be a number or a string with a unit, got .*write "1 MiB"'
        ):
            function(size)
    for size in (
        "4",
        "4 Mbps",
        "1 s",
        math.nan,
        -8,
        1e30,
        np.int64(-8),
        np.array([]),
        np.array(["x"]),
    ):
        with pytest.raises(ValueError, match=r"size (must|needs|has)"):
            function(size)


@pytest.mark.parametrize(
    ("size", "right"),
    [
        (np.int64(1000), [1000]),
        (np.float32(64), [64]),
        (np.array(8), [8]),
        (np.array([8, 16]), [8, 16]),
        (["1 KiB", np.int32(4)], [1024, 4]),
        (np.array(["1 KiB", "4 B"]), [1024, 4]),
        (range(4, 12, 4), [4, 8]),
    ],
)
def test_numbers_of_numpy_are_numbers(size, right):
    assert measure.copy(size, repeats=np.int64(1)).size.tolist() == right
    assert _rounds.sizes_of(size, 4, 0) == right


def test_copy_and_sockets_refuse_nothing_and_never():
    for function in (measure.copy, measure.sockets):
        with pytest.raises(ValueError, match="size must be >= 1 B"):
            function(0)
        with pytest.raises(ValueError, match="repeats must be >= 1"):
            function(8, repeats=0)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(_launch.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    if _launch._SHM.exists():
        with pytest.raises(TooLarge, match=r"shared by 2 ranks.*shm-size"):
            measure.all_reduce("1 KiB", 2, "shm")
    monkeypatch.setenv("FABRICLAB_MEMORY", "1 MiB")
    for call in (measure.copy, measure.sockets, measure.all_reduce):
        with pytest.raises(TooLarge, match="1 MiB can be had"):
            call("2 MiB")


def test_a_copy_that_copies_nothing_is_found(monkeypatch):
    monkeypatch.setattr(_host.np, "copyto", lambda target, source: None)
    with pytest.raises(measure.WrongAnswer, match="copy of 100 B"):
        measure.copy(100)


def test_bytes_that_change_on_the_way_are_found(monkeypatch):
    # here, not in the other process
    monkeypatch.setattr(_host, "_pattern", lambda n: np.zeros(n, np.uint8))
    with pytest.raises(measure.WrongAnswer, match="100 B through a socket"):
        measure.sockets(100)


def test_an_early_end_of_the_connection_is_no_measurement():
    here, there = socket.socketpair()
    there.close()
    with here, pytest.raises((measure.NotMeasured, BrokenPipeError)):
        _host._receive(here, memoryview(bytearray(4)))


# ------------------------------------------------------------------ ways out


def test_an_mpiexec_that_hangs_is_given_up_once(monkeypatch, tmp_path):
    starts = tmp_path / "starts"
    monkeypatch.setenv(
        "FABRICLAB_MPIEXEC", program(tmp_path / "mpiexec", f"echo x >> {starts}; sleep 300")
    )
    monkeypatch.setattr(_launch, "START_LIMIT", 0.5)
    monkeypatch.setattr(_launch, "_NEEDS", {"mpi": ("numpy", "")})  # mpi4py itself is never reached
    begin = time.monotonic()
    with pytest.raises(measure.NotMeasured, match=r"2 ranks over mpi .*0\.5 s"):
        measure.all_reduce("8 B", transport="mpi", **SHORT)
    assert time.monotonic() - begin < 6
    monkeypatch.setattr(_launch, "START_LIMIT", 10)
    monkeypatch.setenv(
        "FABRICLAB_MPIEXEC",
        program(tmp_path / "mpiexec", f"echo x >> {starts}; echo boom >&2; exit 3"),
    )
    for _ in range(2):
        result = measure.all_reduce("8 B", **SHORT)
        assert result.asked["transport"] == "shm"
        assert "2 ranks over mpi" in result.notes[0] and "shared memory" in result.notes[0]
    assert starts.read_text().split() == ["x", "x"]
    with pytest.raises(measure.NotMeasured, match="last words: boom"):
        measure.all_reduce("8 B", transport="mpi", **SHORT)


def test_one_sided_operations_and_what_else_moves_bytes():
    found = measure.one_sided((1, 8, "64 KiB"), repeats=2)
    assert list(found) == ["write", "read", "shared_copy", "tcp", "pickle"]
    for way, result in found.items():
        assert (result.what, result.obtained) == (way, "measured")
        assert result.size.tolist() == [1, 8, 2**16]
        assert result.samples.shape == (3, 2)
    assert found["write"].time[1] < found["pickle"].time[1]
    assert multiprocessing.active_children() == []


def test_one_sided_refusals_and_stored_measurement(monkeypatch):
    with pytest.raises(ValueError, match="size must be >= 1 B"):
        measure.one_sided(0)
    with pytest.raises(ValueError, match="repeats"):
        measure.one_sided(8, repeats=0)
    monkeypatch.setattr(_host, "_other", slice)  # a process that answers nothing, and ends
    found = measure.one_sided((8, "16 MiB"), repeats=1)
    assert {result.obtained for result in found.values()} == {"stored"}
    assert "not measured here: " in found["write"].notes[0]
    assert found["write"].size.tolist() == [8, 2**24]


def test_a_transfer_that_times_itself_is_run_once_or_a_stored_one_stands_in():
    found, seen = measure.once(lambda: (2e-6, "seen"), "1 KiB")
    assert (found.what, found.obtained, seen) == ("write", "measured", "seen")
    assert found.size.tolist() == [1024] and found.time.tolist() == [2e-6]

    def without_a_device():
        raise rdma.PyverbsRDMAError("no shared memory here")

    found, seen = measure.once(without_a_device)
    assert found.obtained == "stored" and seen is None
    assert "not measured here: no shared memory here" in found.notes[0]
    with pytest.raises(ZeroDivisionError):
        measure.once(lambda: (1 / 0, None))


def test_a_time_is_that_of_one_transfer_and_stands_at_its_way(monkeypatch):
    receive = _host._receive
    monkeypatch.setattr(
        _host, "_receive", lambda link, room: (time.sleep(0.05), receive(link, room))
    )
    found = measure.one_sided(8, repeats=1)
    assert [way for way, result in found.items() if result.time[0] > 0.05] == ["tcp"]
    monkeypatch.setattr(_host, "timeit", lambda do, number: 1e-5 * number)
    assert _host._in_turns([int, str], 3) == pytest.approx(np.full((2, 3), 1e-5))


def test_a_request_that_moves_nothing_is_found_even_with_one_byte(monkeypatch):
    monkeypatch.setattr(_host._Side, "runs", lambda self, opcode, mr, n: lambda: None)
    with pytest.raises(measure.WrongAnswer, match="of 1 B between two processes"):
        measure.one_sided(1, repeats=1)


def test_wrong_bytes_of_another_process_are_no_measurement(monkeypatch):
    monkeypatch.setattr(_host, "_pattern", lambda n: np.arange(n, dtype=np.uint8) + np.uint8(1))
    with pytest.raises(measure.WrongAnswer, match="of 8 B between two processes"):
        measure.one_sided(8, repeats=1)


def test_no_process_at_all_leads_to_the_stored_measurement(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("FABRICLAB_MPIEXEC", str(tmp_path / "mpiexec"))
    result = measure.sockets("1 MiB", repeats=2)
    assert (result.obtained, result.size.tolist()) == ("stored", [2**20])
    assert "not measured here: " in result.notes[0] and "no process" in result.notes[0]
    result = measure.all_reduce(["4 MiB", "100 kB"])
    assert (result.obtained, result.n_ranks) == ("stored", 2)
    assert result.size.tolist() == [2**22, 2**17]
    assert "no process" in result.notes[0]
    assert "2-core cloud machine" in result.notes[0]
    with pytest.raises(measure.NotMeasured, match="no process"):
        measure.all_reduce("8 B", transport="shm")


def test_no_socket_leads_to_the_stored_measurement(monkeypatch):
    def refuse(*args):
        raise PermissionError("no sockets here")

    monkeypatch.setattr(_host.socket, "create_server", refuse)
    result = measure.sockets()
    assert result.obtained == "stored"
    assert "no sockets here" in result.notes[0]


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(_launch, "has", lambda module: module == "numpy")
    for transport in ("mpi", "gloo"):
        with pytest.raises(
            measure.NotMeasured,
            match=rf"{transport} is not installed: pip install 'fabriclab\[{transport}",
        ):
            measure.all_reduce("8 B", transport=transport)
    assert measure.all_reduce("8 B", **SHORT).asked["transport"] == "shm"


def test_a_file_of_the_learner_is_not_taken_for_a_module(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(tmp_path)
    assert measure.all_reduce("8 B", 1, "shm", **SHORT).obtained == "measured"


# ------------------------------------------------------------------ stored


@pytest.mark.parametrize("what", ["copy", "sockets", *_host._WAYS, *FOUR])
def test_stored_measurements_say_where_they_are_from(what):
    result = measure.stored(what)
    assert (result.what, result.obtained) == (what, "stored")
    assert "2-core cloud machine" in result.source
    assert "2026" in result.source
    assert np.all(np.diff(result.size) > 0)
    assert np.all((result.low <= result.time) & (result.time <= result.high))
    assert any("load" in note for note in result.notes)
    assert result.how


def test_stored_refusals():
    with pytest.raises(ValueError, match="nothing is stored for 'reduce'; choose one of copy"):
        measure.stored("reduce")
    with pytest.raises(ValueError, match=r"nothing is stored for \[\]; choose one of copy"):
        measure.stored([])


# ------------------------------------------------------------------ display


def test_machine_says_what_is_here():
    assert 1 <= measure.cores() <= os.cpu_count()
    assert measure.has_mpi() == (_launch.has("mpi4py") and bool(_launch.mpiexec()))


def test_the_bar_is_one_line_for_people_only(monkeypatch):
    class Terminal(list):
        write, flush, isatty = list.append, lambda self: None, lambda self: True

    for sees, wanted in ((True, 2), (False, 0)):
        screen = Terminal()
        screen.isatty = lambda sees=sees: sees
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
        bar, now = _launch.text_bar(), time.monotonic()
        bar(1, 4)
        monkeypatch.setattr(_launch.time, "monotonic", lambda now=now: now + 3)
        bar(2, 4)
        bar(4, 4)
        monkeypatch.undo()
        assert len(screen) == wanted
        if wanted:
            assert screen[0] == f"\rround 2 of 4 [{'#' * 15}{'.' * 15}]"
            assert screen[1] == f"\rround 4 of 4 [{'#' * 30}]\n"
