"""The program that every process of a measurement runs: ``python -m fabriclab.measure._worker JSON``.

The first rank answers with lines of JSON: ready, done (rounds so far), times (of one size) or wrong.
"""

import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.shared_memory import SharedMemory
from typing import Any

from fabriclab.measure._host import answer
from fabriclab.measure._rounds import Communicator, GlooRanks, MpiRanks, WrongAnswer, timed
from fabriclab.measure._shm import SharedMemoryRanks


def main() -> None:
    """Do what the argument asks for, and exit when the process that asked is gone."""
    ask = json.loads(sys.argv[1])
    threading.Thread(target=_leave_with_parent, args=(ask,), daemon=True).start()
    if "port" in ask:
        answer(ask["port"])
    else:
        _measure(ask)
    if ask["transport"] != "mpi":
        os._exit(0)  # arrays still use the segment, so an orderly exit would complain


def _leave_with_parent(ask: Mapping[str, Any]) -> None:
    """End this process, and delete what it may leave behind, when the other end of its lifeline closes."""
    line = 0
    with contextlib.suppress(OSError):
        # mpiexec does not tell its ranks that its standard input has ended, so they have a named pipe.
        if "lifeline" in ask:
            # Non-blocking, so that it returns even if the other end is gone.
            line = os.open(ask["lifeline"], os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(line, True)
        while os.read(line, 1):
            pass
    with contextlib.suppress(OSError, ValueError):
        SharedMemory(ask["name"]).unlink()
    shutil.rmtree(ask["scratch"], ignore_errors=True)
    os._exit(1)


def _communicator(ask: Mapping[str, Any]) -> Communicator:
    """Return this rank's side of the transport asked for."""
    items = max(1, *ask["counts"])
    if ask["transport"] == "mpi":
        return MpiRanks(items)
    if ask["transport"] == "gloo":
        return GlooRanks(items, ask["rank"], ask["ranks"], f"file://{ask['scratch']}/meet")
    return SharedMemoryRanks(ask["rank"], ask["ranks"], items, ask["rounds"] + 1, ask["name"])


def _measure(ask: Mapping[str, Any]) -> None:
    """Time the collective among the ranks; the first rank reports on standard output."""
    comm = _communicator(ask)
    if comm.size != ask["ranks"]:
        sys.exit(
            f"{ask['ranks']} ranks were started, {comm.size} met: mpiexec is not of the MPI that mpi4py found"
        )
    comm.barrier()
    say = _say if comm.rank == 0 else lambda **_: None
    last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.5:
            last = time.monotonic()
            say(done=done)

    say(ready=comm.about)
    try:
        for times in timed(comm, ask["what"], ask["counts"], ask["rounds"], ask["warmup"], report):
            say(times=times.tolist())
    except WrongAnswer as error:
        say(wrong=str(error))


def _say(**line: Any) -> None:
    """Write one line of JSON to standard output."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
