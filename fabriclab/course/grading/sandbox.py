"""Run a learner's code in a process with limits, and call functions in it.

Nothing secret enters that process: it gets code, and then one call at a time. What it sends back is a line of JSON,
checked here. What it can reach is walled off by whatever this machine offers, and ``Sandbox.active`` says by what.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import site
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np

import fabriclab
from fabriclab.texts import text

from ._clock import Spent
from ._session import PATIENCE, CallOutcome, SandboxError, Session, cut
from .limits import Limits

__all__ = ["PATIENCE", "CallOutcome", "Sandbox", "SandboxError", "Session"]
# The program is loaded as a package of another name, so that nothing of fabriclab is in its memory.
_BOOT = (
    "import sys, types; p = types.ModuleType('child'); p.__path__ = sys.argv[1:]; sys.modules['child'] = p; "
    "from child._child import keep; keep()"
)


def _copies_of_this(*places: str) -> list[str]:
    """Return all folders with this package in them that an import could find: they hold the judges.

    Where one is installed, and another one runs from a checkout, a learner's code would find the first.
    """
    searched = [*places, *sys.path, *site.getsitepackages()]
    copies = {fabriclab.__path__[0], *(os.path.join(place, "fabriclab") for place in searched)}
    return sorted(copy for copy in map(os.path.abspath, copies) if os.path.isdir(copy))


class Sandbox:
    """A process with numpy loaded that forks a child for each learner's code; one session at a time.

    Leaves out what the kernel does not offer here: ``active`` has the names of the walls that stand, and the texts
    ``sandbox.has.<name>`` say what they are. Linux only.

    Parameters
    ----------
    limits : Limits
        What each session may use.
    without : collection of str
        Protections to leave out, by their names in ``active``: for tests.
    """

    def __init__(self, limits: Limits | None = None, without: Collection[str] = ()) -> None:
        """Keep what is asked; nothing runs before ``with``."""
        self.limits = limits or Limits()
        self.last_words = ""
        self.active: tuple[str, ...] = ()
        beside_numpy = str(Path(np.__file__).parents[1])
        self._asked: dict[str, Any] = {
            "paths": [beside_numpy],
            "hidden": _copies_of_this(beside_numpy),
            "without": [*without],
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._open: Session | None = None

    def __enter__(self) -> Self:
        """Start, and find out which protections hold."""
        # PR_SET_DUMPABLE: no process of the same user looks into this one
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        first = self.session([])
        self.active = first.active
        first.close()
        return self

    def __exit__(self, *error: object) -> None:
        """End every process and remove the folder."""
        self.close()

    def session(
        self, cells: Sequence[str], prelude: str = "", spent: dict[str, Spent] | None = None
    ) -> Session:
        """Return a new child that has run prelude and cells in one namespace, to be called then; one before is over.

        What the functions have used is added up in ``spent``; sessions that share it share their time, too.
        """
        if self._open:
            self._open.close()
        try:
            self._open = Session(self, cells, prelude, spent)
        except SandboxError:  # the process that forks may have been harmed
            self.close()
            if not self.active:  # at the start: a machine that allows half of what namespaces need
                self._asked["without"] += ["userns", "pidns", "netns", "root"]
            self._open = Session(self, cells, prelude, spent)
        return self._open

    def control(self) -> socket.socket:
        """Return the line to the process that forks, which is started anew if it has died."""
        if (
            self._process is None
            or self._process.poll() is not None
            or select.select([self._control], [], [], 0)[0]
        ):
            self.close()
            self._start()
        return self._control

    def _start(self) -> None:
        """Start the program that forks, in a new folder, and send it what it is to do."""
        self._folder = tempfile.mkdtemp(prefix="fabriclab-")
        os.chmod(self._folder, 0o711)  # the child's user passes on its way to its own folder in it
        limits = asdict(self.limits) | {"cpu_s": self.limits.process_s}
        order = {"limits": limits, "folder": self._folder, **self._asked}
        order["refused"] = text("sandbox.refused", said="{said}")
        env = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        env["PYTHONHASHSEED"] = "0"  # a replay goes through sets in the same order
        # Where Python is one of many on a cluster.
        env |= {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
        command = [
            sys.executable,
            "-s",
            "-P",
            "-B",
            "-X",
            "utf8",
            "-c",
            _BOOT,
            str(Path(__file__).parent),
        ]
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()
        with theirs as line:
            ends = (line.fileno(), self._log, subprocess.STDOUT)
            self._process = subprocess.Popen(
                command, -1, None, *ends, env=env, cwd="/", start_new_session=True
            )
        with contextlib.suppress(BrokenPipeError):  # it is dead already, and the session says why
            self._control.send(json.dumps(order).encode())

    def close(self) -> None:
        """End every process and remove the folder; may be called twice, and a new session starts all again."""
        if self._process is None:
            return
        self._control.close()  # they end when they see this
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._log.seek(0)
        self.last_words = cut("".join(self._log.read().decode(errors="replace").splitlines()[-1:]))
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
