"""Other processes: started afresh (spawn), connected by a pipe, and ended together with the one that started them."""

import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

_PR_SET_PDEATHSIG = 1  # source: linux/prctl.h


class Process:
    """A running process that calls ``code(connection, *args)``; used in a ``with`` statement, it ends with the block.

    Parameters
    ----------
    code : callable or str
        A function of a module, or a file and a function in it: ``"worker.py:main"``.
    *args : object
        Anything that can be pickled.

    Raises
    ------
    SyntaxError
        If the file does not compile; no process is started then.
    """

    def __init__(self, code: Callable[..., Any] | str, *args: Any) -> None:
        if isinstance(code, str):
            path = code.partition(":")[0]
            compile(Path(path).read_text(encoding="utf-8"), path, "exec")
        fresh = multiprocessing.get_context("spawn")
        self.connection, theirs = fresh.Pipe()
        self._process = fresh.Process(
            target=_main, args=(os.getpid(), theirs, code, args), daemon=True
        )
        self._process.start()
        theirs.close()
        self.pid = self._process.pid or 0

    def send(self, thing: Any) -> None:
        """Send anything that can be pickled."""
        self.connection.send(thing)

    def recv(self, timeout: float = 30.0) -> Any:  # illustrative: far more than an answer takes [s]
        """Return the next object that the process sends.

        Raises
        ------
        TimeoutError
            If nothing comes within ``timeout`` [s].
        EOFError
            If the process has ended.
        """
        if not self.connection.poll(timeout):
            raise TimeoutError(f"process {self.pid} sent nothing within {timeout:g} s")
        return self.connection.recv()

    def stop(self) -> None:
        """Suspend the process; from here on it does not execute a single instruction."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a suspended process continue."""
        os.kill(self.pid, signal.SIGCONT)

    def core_time(self) -> int:
        """Return how long the process has been on a core since it began [ns]; two equal answers: it ran nothing.

        References
        ----------
        .. [1] Linux, Documentation/scheduler/sched-stats.rst: the first field of /proc/<pid>/schedstat.
        """
        fields = Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii").split()
        return int(fields[0])

    def kill(self) -> None:
        """End the process at once, whatever it is doing."""
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        """Return the process itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Wait up to 3 s for the process to end by itself (0 s after an error), then end it."""
        patience = 0 if kind else 3.0  # [s] none after an error
        self._process.join(patience)
        self.kill()
        self.connection.close()


def _main(parent: int, connection: Any, code: Any, args: tuple[Any, ...]) -> None:
    """Call ``code`` in the new process, which ends when its parent does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    if isinstance(code, str):
        path, _, name = code.partition(":")
        sys.path.insert(0, str(Path(path).resolve().parent))
        code = getattr(importlib.import_module(Path(path).stem), name)
    code(connection, *args)
