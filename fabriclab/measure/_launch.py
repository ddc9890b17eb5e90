"""Start the ranks of a measurement as processes, listen to the first one, and clean up whatever happens.

The first part finds out what this machine offers, and how busy it was during a measurement.
"""

import contextlib
import importlib.util
import json
import math
import os
import queue
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import MACHINE_SHARED, Floats, check_memory
from fabriclab.errors import FabricError
from fabriclab.measure._rounds import YIELDS, WrongAnswer

MPIEXEC = "FABRICLAB_MPIEXEC"
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_HUB = "JUPYTERHUB_USER"  # JupyterHub names the user to each server that it starts


def has(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    return module in sys.modules or importlib.util.find_spec(module) is not None


def has_mpi() -> bool:
    """Return whether ranks can use MPI: mpi4py is installed, and there is an mpiexec to start them."""
    return has("mpi4py") and mpiexec() is not None


def mpiexec() -> str | None:
    """Return the path of mpiexec, from FABRICLAB_MPIEXEC, next to this Python, or on the search path, else None."""
    beside = os.path.dirname(sys.executable or "")
    return (
        os.environ.get(MPIEXEC) or shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")
    )


def cores(quota_file: Path = _QUOTA) -> int:
    """Return the number of cores that this process may use; the quota of a container is rounded up."""
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    try:
        quota, period = quota_file.read_text(encoding="ascii").split()
        return max(1, min(usable, math.ceil(float(quota) / float(period))))
    except (OSError, ValueError):  # no container, or one without a quota, where the file says "max"
        return usable


def load_average() -> float:
    """Return the load average of the last minute; NaN if unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan


class Load:
    """Load of the machine from the moment this object is made, by load average and by processor time."""

    def __init__(self) -> None:
        self._load = load_average()
        self._then = _ticks()

    def figures(self) -> NDArray[np.float64]:
        """Return load average at the start, share of processor time that others took, and -cores; NaN if unknown."""
        now = _ticks()
        taken = now.taken - self._then.taken
        total = now.total - self._then.total
        own = now.own - self._then.own
        others = math.nan
        if total >= _FEW_TICKS:
            others = max(0.0, taken - own) / total
        return np.array([self._load, others, -cores()])


def load_note(figures: NDArray[np.float64]) -> str:
    """Return the sentence on the machine's load during a measurement, made from `Load.figures`."""
    load = float(figures[0])
    others = float(figures[1])
    n = -int(figures[2])
    note = f"load {load:.1f} on {n} core"
    if n > 1:
        note += "s"
    if math.isnan(others):
        shared = load > 0.5 * n
    else:
        shared = others > 0.1
        note += f", other programs took {100 * others:.0f} % of the processor time"
    if os.environ.get(_HUB):  # what others do there changes from one second to the next
        shared = True
        note += ", on a JupyterHub"
    if shared:
        note += f": {MACHINE_SHARED}, times are upper bounds and rates lower bounds"
    return note


_FEW_TICKS = 50  # a tick lasts 10 ms, and a share of fewer of them means nothing


class _Ticks(NamedTuple):
    """Processor ticks of all cores."""

    taken: float  # by all programs, and by other guests of the host
    total: float
    own: float  # by this process and its ended children


def _ticks() -> _Ticks:
    """Return the processor ticks so far; zeros if the system does not count them."""
    try:
        first_line = Path("/proc/stat").read_text(encoding="ascii").split("\n")[0]
    except OSError:
        return _Ticks(0.0, 0.0, 0.0)
    # user, nice, system, idle, iowait, irq, softirq, steal
    field = [float(word) for word in first_line.split()[1:9]]
    idle, waiting = field[3], field[4]
    own = os.times()
    seconds = own.user + own.system + own.children_user + own.children_system
    return _Ticks(
        taken=sum(field) - idle - waiting,
        total=sum(field),
        own=seconds * os.sysconf("SC_CLK_TCK"),
    )


Progress = Callable[[int, int], None]
START_LIMIT = 10.0  # [s] until the ranks are ready
# [s] between two signs of life; the first rank gives one every half second, between rounds
SILENCE_LIMIT = 60.0
_SHM = Path("/dev/shm")
_NEEDS = {"mpi": ("mpi4py", "fabriclab[mpi]"), "gloo": ("torch", "fabriclab[gloo]")}
# Open MPI on one machine, without privileges, network or a core for each rank. Other MPIs ignore these names.
_OPEN_MPI: Mapping[str, str] = json.loads(Path(__file__).with_name("open_mpi.json").read_bytes())
# If mpiexec saw these variables of a batch system or of an outer mpiexec, it would look for other machines.
_OUTER = ("SLURM_", "PBS_", "LSB_", "PMI_", "PMIX_", "PRTE_", "OMPI_COMM_WORLD", "OMPI_UNIVERSE")
Ask = Mapping[str, Any]  # what, counts (float32 per size), ranks, transport, rounds, warmup
Ranks = list[Popen[bytes]]


class NotMeasured(FabricError):
    """The processes of a measurement did not start, or ended too early."""


def run_ranks(ask: Ask) -> tuple[str, Floats]:
    """Start ``ranks`` processes for ``what``; return the name of the library and the times [s] (sizes, rounds).

    Raises
    ------
    NotMeasured
        If something is missing, or if they do not start within `START_LIMIT` or end too early; it quotes their last
        output.
    TimeoutError
        If they started and then gave no sign of life for `SILENCE_LIMIT`.
    WrongAnswer
        If a receive buffer contains a wrong number.
    TooLarge
        If the shared memory cannot take the buffers.
    """
    token = f"fabriclab-{os.getpid()}-{secrets.token_hex(3)}"
    if ask["transport"] == "shm" and _SHM.exists():
        need = 2**20 + 8 * (max(ask["counts"]) + ask["rounds"]) * ask["ranks"]
        room = shutil.disk_usage(_SHM).free
        advice = (
            "ask for a smaller size, or give the container more shared memory (docker: --shm-size)"
        )
        check_memory(need, f"shared by {ask['ranks']} ranks, {ask['what']}", advice, available=room)
    # The files that Open MPI maps: in memory if possible, and deleted with the folder
    base = str(_SHM) if os.access(_SHM, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory("", f"{token}-", base, True) as scratch,
        tempfile.TemporaryFile() as log,
    ):
        full = {**ask, "scratch": scratch, "name": token}
        line = None
        try:
            if ask["transport"] == "mpi" and hasattr(os, "mkfifo"):
                full["lifeline"] = f"{scratch}/lifeline"
                os.mkfifo(full["lifeline"])
                line = open(full["lifeline"], "r+b", buffering=0)
            with started(_commands(full), environment(full), log, line) as ranks:
                return _listen(ranks, ask, text_bar())
        except NotMeasured as error:
            log.seek(0)
            printed = log.read().decode(errors="replace").splitlines()
            words = [text.strip() for text in printed if text.strip(" -")]
            msg = str(error)
            if words:
                msg += f" (its last words: {' / '.join(words[-8:])})"
            raise NotMeasured(msg) from None


def _commands(ask: Ask) -> list[list[str]]:
    """Return the commands that start the ranks: one command for all ranks over MPI, else one for each."""
    module, extra = _NEEDS.get(ask["transport"], ("numpy", ""))
    if not has(module) or (module == "mpi4py" and not has_mpi()):
        raise NotMeasured(f"{ask['transport']} is not installed: pip install '{extra}'")
    if ask["transport"] == "mpi":
        return [[mpiexec() or "", "-n", str(ask["ranks"]), *worker(ask)]]
    return [worker({**ask, "rank": rank}) for rank in range(ask["ranks"])]


def worker(ask: Ask) -> list[str]:
    """Return the command of one process; with -P, a learner's file named like a module is not imported by mistake."""
    return [sys.executable, "-P", "-m", "fabriclab.measure._worker", json.dumps(ask)]


def environment(ask: Ask) -> dict[str, str]:
    """Return the environment for the processes that ``ask`` describes."""
    env = {}
    for name, value in os.environ.items():
        if not name.startswith(_OUTER) or "_MCA_" in name:
            env[name] = value
    paths = [str(Path(__file__).parents[2])]  # this very package, wherever the notebook found it
    if env.get("PYTHONPATH"):
        paths.append(env["PYTHONPATH"])
    env["PYTHONPATH"] = os.pathsep.join(paths)
    env["OMP_NUM_THREADS"] = "1"
    if ask["transport"] == "mpi":
        # Ranks wait by polling. If not every rank has a free core, one that waits would occupy a core for a time slice.
        crowded = ask["ranks"] + load_average() > cores() + 0.5
        mine = {
            YIELDS: str(int(crowded)),
            "HOME": ask["scratch"],
            "OMPI_MCA_btl_sm_backing_directory": ask["scratch"],
        }
        return {**_OPEN_MPI, **mine, **env, "TMPDIR": ask["scratch"]}
    return {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo", **env}


@contextlib.contextmanager
def started(
    commands: list[list[str]], env: dict[str, str], log: IO[bytes], line: IO[bytes] | None = None
) -> Iterator[Ranks]:
    """Run processes in sessions of their own, with their errors written to ``log``; in the end none of them is left.

    They exit when ``line`` closes, or without it their standard input: at the latest when this process ends.
    """
    ranks: Ranks = []
    patience = 0.0  # [s] none after an error
    stdin = DEVNULL if line else PIPE
    try:
        for command in commands:
            try:
                rank = Popen(
                    command, env=env, stdin=stdin, stdout=PIPE, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise NotMeasured(f"no process could be started ({error})") from error
            ranks.append(rank)
            rank.stdin = rank.stdin or line
        yield ranks
        patience = 3.0
    finally:
        _stop(ranks, patience)


def _stop(ranks: Ranks, patience: float) -> None:
    """Let the processes end by themselves, then close their lifelines, then terminate, then kill their sessions."""
    steps: tuple[Callable[[Popen[bytes]], None], ...] = (_close, Popen.terminate, Popen.kill)
    for seconds, step in zip((patience, 1.0, 0.5), steps, strict=True):
        end = time.monotonic() + seconds
        while _running(ranks) and time.monotonic() < end:
            time.sleep(0.005)
        for rank in _running(ranks):
            step(rank)
    for rank in ranks:
        for pid in _session(rank.pid):  # ranks that their mpiexec could not end
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _close(rank)
        rank.wait()


def _running(ranks: Ranks) -> Ranks:
    """Return the processes that are still running."""
    return [rank for rank in ranks if rank.poll() is None]


def _close(rank: Popen[bytes]) -> None:
    """Close the lifeline of a process."""
    with contextlib.suppress(OSError):
        rank.stdin.close()  # type: ignore[union-attr]


def _session(leader: int) -> list[int]:
    """Return the processes of a session; none if the system has no /proc."""
    found: list[int] = []
    if sys.platform != "linux":
        return found
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(name)) == leader:
                found.append(int(name))
    return found


def _listen(ranks: Ranks, ask: Ask, progress: Progress) -> tuple[str, Floats]:
    """Return the name of the library and the times (sizes, rounds) [s] that the first rank reports."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(ranks[0].stdout, lines), daemon=True).start()
    about = ""
    heard = time.monotonic()  # the last sign of life
    rows: list[list[float]] = []
    while len(rows) < len(ask["counts"]):
        try:
            line = lines.get(timeout=0.1)  # illustrative: how often it looks [s]
        except queue.Empty:
            _check_alive(ranks, ask, bool(about), time.monotonic() - heard)
            continue
        if not line:
            raise NotMeasured(f"{_who(ask)} ended before their answer")
        message = json.loads(line) if line.startswith(b"{") else {}
        if not message:
            continue
        if "wrong" in message:
            raise WrongAnswer(message["wrong"])
        heard = time.monotonic()
        about = message.get("ready", about)
        if "times" in message:
            rows.append(message["times"])
        done = max(message.get("done", 0), len(rows) * ask["rounds"])
        progress(done, ask["rounds"] * len(ask["counts"]))
    return about, np.array(rows)


def _read(out: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Put all lines of a stream into a queue, and an empty line at its end."""
    with out:
        for line in out:
            lines.put(line)
    lines.put(b"")


def _who(ask: Ask) -> str:
    return f"{ask['ranks']} ranks over {ask['transport']}"


def _check_alive(ranks: Ranks, ask: Ask, ready: bool, silent: float) -> None:
    """Raise the error that explains the silence, if a process failed or a time limit has passed."""
    for rank in ranks:
        code = rank.poll()
        if code:
            raise NotMeasured(
                f"{_who(ask)} ended before their answer, one of them with code {code}"
            )
    if not ready and silent > START_LIMIT:
        raise NotMeasured(f"{_who(ask)} did not start within {START_LIMIT:g} s")
    if silent > SILENCE_LIMIT:
        msg = f"{ask['what']} among {_who(ask)} gave no sign of life for {SILENCE_LIMIT:g} s and was ended; ask for a "
        raise TimeoutError(
            msg + 'smaller size or fewer ranks, or for another transport, such as transport="shm"'
        )


def text_bar() -> Progress:
    """Return a progress bar of one line, shown from 2 s on if a person can see it."""
    start = time.monotonic()
    notebook = "ipykernel" in sys.modules
    # A notebook shows what goes to stderr in red, as if it were an error.
    out = sys.stdout if notebook else sys.stderr
    seen = notebook or out.isatty()

    def show(done: int, of: int) -> None:
        if seen and time.monotonic() - start > 2:
            line = f"\rround {done} of {of} [{'#' * (30 * done // of):.<30}]"
            if done == of:
                line += "\n"
            out.write(line)
            out.flush()

    return show
