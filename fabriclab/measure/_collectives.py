"""Real timings of collectives, between processes of this machine or among the ranks of a cluster job."""

import math
import os
from typing import Any

from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Result, check_memory
from fabriclab.measure._launch import (
    Ask,
    Load,
    NotMeasured,
    cores,
    has,
    load_note,
    mpiexec,
    run_ranks,
)
from fabriclab.measure._rounds import (
    GlooRanks,
    MpiRanks,
    Sizes,
    nearest,
    sizes_of,
    summed_up,
    timed,
)
from fabriclab.measure._turns import turn
from fabriclab.texts import text

TRANSPORTS = ("mpi", "gloo", "shm")
# Why an mpiexec did not start, by its path, so that nobody has to wait for it a second time.
_failed: dict[str | None, list[str]] = {}


def all_reduce(
    size: Sizes = "4 MiB",
    ranks: int | None = None,
    transport: str | None = None,
    *,
    rounds: int = 100,
    warmup: int = 10,
    oversubscribe: bool = False,
    _what: str = "all_reduce",
) -> Result:
    """Time an all-reduce (sum of float32) between processes, and check its result.

    The processes are started here: over MPI if that starts within 10 s, otherwise over built-in shared
    memory. If none can be started, a stored measurement is returned, and a note says so. A process
    that is a rank of an mpiexec, srun or torchrun job measures with the other ranks of that job instead,
    and each of them returns the same Result. From 2 s on, a line of text shows how many rounds are done.
    Outside a job, measurements of a machine take turns: one that comes while another runs waits for at most 90 s.

    Parameters
    ----------
    size : float, str or sequence of them
        Size as nccl-tests counts it, a multiple of 4; the processes are started once for all sizes. [B], >= 0
    ranks : int, optional
        Number of processes, by default 2; from 1 to the number of cores (2 are always allowed). In a job it is the
        size of the job.
    transport : str, optional
        ``mpi``, ``gloo`` (needs torch) or ``shm`` forces one of them; an error is raised if it fails.
    rounds, warmup : int
        Rounds that count, >= 1, and rounds before them that do not, >= 0.
    oversubscribe : bool
        Allow more processes than cores; the times then include the scheduler.

    Returns
    -------
    Result
        Median over rounds, minimum and 99th percentile [s]; a sample is the maximum over ranks.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TooLarge
        If the buffers do not fit into memory.
    NotMeasured
        If the transport asked for does not start.
    TimeoutError
        If the processes start and then hang.
    WrongAnswer
        If a receive buffer contains a wrong number.
    """
    sizes = sizes_of(size, 4, 0)
    if transport is not None:
        transport = units.choice(
            transport, "transport", TRANSPORTS, "; or None for what works here"
        )
    oversubscribe = units.flag(oversubscribe, "oversubscribe")
    ask: dict[str, Any] = {
        "what": _what,
        "counts": [n // 4 for n in sizes],
        "rounds": units.count(rounds, "rounds"),
        "warmup": units.count(warmup, "warmup", 0),
    }
    job = _job(transport)
    if job:
        return _in_job(job, sizes, ranks, ask)

    n = units.count(2 if ranks is None else ranks, "ranks")
    ask["ranks"] = n
    most = max(2, cores())
    if n > most and not oversubscribe:
        msg = f"ranks must be <= {most} with {cores()} cores available, got {n}; oversubscribe=True allows more"
        raise ValueError(msg)
    # Every rank keeps the times of all ranks.
    need = n * (2 * max(sizes) + 8 * n * ask["rounds"])
    check_memory(need, f"{_what} on {n} ranks", "ask for less, or for fewer ranks or rounds")

    why: list[str] = []  # why the transports tried so far did not work
    if transport:
        names = [transport]
    else:
        why.extend(_failed.get(mpiexec(), []))
        names = ["shm"] if why else ["mpi", "shm"]
    with turn(_what) as notes:
        load = Load()
        for name in names:
            ask["transport"] = name
            try:
                about, times = run_ranks(ask)
            except NotMeasured as error:
                if transport:
                    raise
                why.append(str(error).split(" (its last words")[0])
                _failed[mpiexec()] = why[:1]
                continue
            notes += [
                f'{reason}; measured over shared memory instead (transport="mpi" tells more)'
                for reason in why
            ]
            notes.append(load_note(load.figures()))
            return _reported(ask, sizes, times, about, notes)
    return nearest(_what, sizes, why[-1])


def reduce_scatter(
    size: Sizes = "4 MiB", ranks: int | None = None, transport: str | None = None, **more: Any
) -> Result:
    """Time a reduce-scatter; ``size`` is the send buffer of a rank, everything else is as in `all_reduce`."""
    return all_reduce(size, ranks, transport, _what="reduce_scatter", **more)


def all_gather(
    size: Sizes = "4 MiB", ranks: int | None = None, transport: str | None = None, **more: Any
) -> Result:
    """Time an all-gather; ``size`` is the receive buffer of a rank, everything else is as in `all_reduce`."""
    return all_reduce(size, ranks, transport, _what="all_gather", **more)


def broadcast(
    size: Sizes = "4 MiB", ranks: int | None = None, transport: str | None = None, **more: Any
) -> Result:
    """Time a broadcast; ``size`` is the buffer of the root, rank 0, everything else is as in `all_reduce`."""
    return all_reduce(size, ranks, transport, _what="broadcast", **more)


def _job(transport: str | None) -> str:
    """Return "mpi" or "gloo" if this process is a rank of a running job with several ranks, else ""."""
    names = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
    by_mpi = any(os.environ.get(name, "1") not in ("", "1") for name in names)
    if transport in (None, "mpi") and by_mpi and has("mpi4py"):
        return "mpi"
    by_torchrun = "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"
    if transport in (None, "gloo") and by_torchrun and has("torch"):
        return "gloo"
    return ""


def _in_job(job: str, sizes: list[int], ranks: int | None, ask: dict[str, Any]) -> Result:
    """Measure among the ranks of the job; every rank returns the same Result."""
    load = Load()
    items = max(1, *ask["counts"])
    comm = MpiRanks(items) if job == "mpi" else GlooRanks(items)
    if comm.size == 1:
        msg = f"the job has several ranks and {comm.about} sees one: start it with the mpiexec of that library"
        raise NotMeasured(msg)
    if ranks not in (None, comm.size):
        raise ValueError(
            f"ranks must be {comm.size}, the size of the job, or None inside it; got {ranks!r}"
        )
    ask |= {"ranks": comm.size, "transport": job}
    times = list(
        timed(comm, ask["what"], ask["counts"], ask["rounds"], ask["warmup"], lambda done: None)
    )
    figures = comm.gather(load.figures()).max(axis=0)
    figures[1] = math.nan  # a rank cannot tell the other ranks from other programs
    return _reported(ask, sizes, times, comm.about, [load_note(figures)])


def _reported(ask: Ask, sizes: list[int], times: ArrayLike, about: str, notes: list[str]) -> Result:
    """Return the times as a Result, with a note if there were more ranks than cores."""
    n = ask["ranks"]
    available = cores()
    how = text("measure.collective", about=about, **ask)
    asked = {name: ask[name] for name in ("transport", "ranks", "rounds", "warmup")}
    if n > available:
        notes = [text("measure.crowd", ranks=n, cores=available), *notes]
    return summed_up(ask["what"], sizes, times, asked, how, notes, n)
