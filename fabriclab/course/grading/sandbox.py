"""Run a learner's code in a process with limits, and call its functions.

Nothing secret enters that process: it gets code, and then one call at a time. It answers with a line of JSON, which is
checked here. The process is walled in with all protections that this machine offers; ``Sandbox.active`` names them.
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
# The program is loaded as a package with another name, so that nothing else of fabriclab is in its memory.
_BOOT = (
    "import sys, types; p = types.ModuleType('child'); p.__path__ = sys.argv[1:]; sys.modules['child'] = p; "
    "from child._child import keep; keep()"
)


def _copies_of_this(*places: str) -> list[str]:
    """Return all copies of this package that an import could find, because they contain the judges.

    If one copy is installed and another one runs from a checkout, a learner's code would find the installed copy.
    """
    searched = [*places, *sys.path, *site.getsitepackages()]
    copies = {fabriclab.__path__[0], *(os.path.join(place, "fabriclab") for place in searched)}
    return sorted(copy for copy in map(os.path.abspath, copies) if os.path.isdir(copy))


class Sandbox:
    """A process with numpy loaded that forks a child for the code of each learner, one session at a time.

    It has only those protections that the kernel offers here. ``active`` has their names, and the texts
    ``sandbox.has.<name>`` explain them. Linux only.

    Parameters
    ----------
    limits : Limits
        Limits for each session.
    without : collection of str
        Protections to leave out, by their names in ``active``; for tests.
    """

    def __init__(self, limits: Limits | None = None, without: Collection[str] = ()) -> None:
        """Store the arguments; nothing runs before ``with``."""
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
        """Start the process, and find out which protections hold."""
        # PR_SET_DUMPABLE: no process of the same user can inspect this one
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        first = self.session([])
        self.active = first.active
        first.close()
        return self

    def __exit__(self, *error: object) -> None:
        """End all processes and remove the folder."""
        self.close()

    def session(
        self, cells: Sequence[str], prelude: str = "", spent: dict[str, Spent] | None = None
    ) -> Session:
        """Return a session with a new child, which has run prelude and cells in one namespace; end an earlier session.

        ``spent`` adds up the time that functions have used, so sessions that share it also share their time limits.
        """
        if self._open:
            self._open.close()
        try:
            self._open = Session(self, cells, prelude, spent)
        except SandboxError:  # the process that forks may be damaged
            self.close()
            if not self.active:  # at the start: the machine may allow only some of the namespaces
                self._asked["without"] += ["userns", "pidns", "netns", "root"]
            self._open = Session(self, cells, prelude, spent)
        return self._open

    def control(self) -> socket.socket:
        """Return the socket to the process that forks, after starting it anew if it has died."""
        if (
            self._process is None
            or self._process.poll() is not None
            or select.select([self._control], [], [], 0)[0]
        ):
            self.close()
            self._start()
        return self._control

    def _start(self) -> None:
        """Start the program that forks, in a new folder, and send it its orders."""
        self._folder = tempfile.mkdtemp(prefix="fabriclab-")
        os.chmod(self._folder, 0o711)  # the child's user has to reach its own folder in it
        limits = asdict(self.limits) | {"cpu_s": self.limits.process_s}
        order = {"limits": limits, "folder": self._folder, **self._asked}
        order["refused"] = text("sandbox.refused", said="{said}")
        env = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        env["PYTHONHASHSEED"] = "0"  # so that a replay iterates over sets in the same order
        # On a cluster with several versions of Python, the right one may need it.
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
        with contextlib.suppress(BrokenPipeError):  # it is dead; the session will report why
            self._control.send(json.dumps(order).encode())

    def close(self) -> None:
        """End all processes and remove the folder. May be called twice; a new session starts everything again."""
        if self._process is None:
            return
        self._control.close()  # the processes end when they notice this
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
