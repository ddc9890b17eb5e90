"""One measurement at a time: whoever comes second waits, and says for whom and for how long.

Two measurements at the same time share cores, caches and the memory bus, so each would report the other one's work as
its own time. A file in the temporary folder, locked by whoever measures, lets them take turns, also between users. The
operating system frees the lock when its holder ends, however it ends. Nobody waits longer than `PATIENCE`: a holder may
have been stopped, and a cell that never ends helps no one. Such a measurement runs beside the other one and says so.
"""

import contextlib
import json
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fabriclab.core import MACHINE_SHARED
from fabriclab.texts import text

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PLACE = (
    "FABRICLAB_TURNS"  # a file in place of the usual one: containers of one machine can share it
)
# illustrative: longer than 20 measurements of a lesson take, shorter than a class waits for a cell [s]
PATIENCE = 90.0
_LOOK_AGAIN = 0.05  # illustrative: while another process measures [s]
_TELL_AFTER = 1.0  # illustrative: a shorter wait is not worth a line [s]
_LONGEST_RECORD = 500  # [B] more than the record of a holder needs
_mine = threading.RLock()  # a measurement may run within another one of the same thread
_depth = 0  # of measurements in this process; only who has `_mine` reads or changes it


class Holder(NamedTuple):
    """Who has the turn, as it wrote into the file."""

    pid: int
    what: str
    since: float  # [s] of the clock on the wall


def place() -> Path:
    """Return the file that measurements of this machine lock: ``FABRICLAB_TURNS``, or one in the temporary folder."""
    return Path(os.environ.get(PLACE) or Path(tempfile.gettempdir(), "fabriclab-measures.lock"))


@contextlib.contextmanager
def turn(what: str) -> Iterator[list[str]]:
    """Have the machine for one measurement, as far as other measurements go; yield notes on what that took.

    Parameters
    ----------
    what : str
        What is measured, which those who wait are told.
    """
    global _depth
    begun = time.monotonic()
    got = _mine.acquire(timeout=PATIENCE)
    if not got:  # another thread of this process has been measuring for all that time
        yield [text("measure.beside", pid=os.getpid(), waited=PATIENCE, shared=MACHINE_SHARED)]
        return
    file: BinaryIO | None = None
    notes: list[str] = []
    try:
        _depth += 1
        if _depth == 1:
            try:
                file = _opened(place())
                notes += _wait(file, what, begun)
            except OSError as error:
                notes.append(text("measure.no_turns", place=place(), error=error.strerror or error))
        yield notes
    finally:
        _depth -= 1
        if file:
            file.close()  # which frees the lock
        _mine.release()


def _opened(lock: Path) -> BinaryIO:
    """Open the file for reading and writing; make it, for all users, if it is not there.

    Raises
    ------
    OSError
        If it cannot be opened, or is no regular file.
    """
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        # Linux refuses O_CREAT for another user's file in a folder like /tmp (fs.protected_regular).
        number = os.open(lock, flags)
    except FileNotFoundError:
        try:
            number = os.open(lock, flags | os.O_CREAT | os.O_EXCL, 0o666)
            with contextlib.suppress(OSError, AttributeError):
                os.fchmod(number, 0o666)  # whatever the umask is
        except FileExistsError:  # somebody else was quicker
            number = os.open(lock, flags)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(0, "it is not a regular file")
    return os.fdopen(number, "r+b", buffering=0)


def _wait(file: BinaryIO, what: str, begun: float) -> list[str]:
    """Wait for the lock, at most until `PATIENCE` after ``begun``; return notes if that took time or was in vain."""
    line = _Line()
    holder = None
    while not _lock(file):
        waited = time.monotonic() - begun
        holder = _holder(file) or holder
        if waited > PATIENCE:
            line.end(waited)
            pid = holder.pid if holder else "?"
            return [text("measure.beside", pid=pid, waited=waited, shared=MACHINE_SHARED)]
        if waited > _TELL_AFTER:
            line.tell(holder, waited)
        time.sleep(_LOOK_AGAIN)
    waited = time.monotonic() - begun
    _write(file, Holder(os.getpid(), what, time.time()))
    if not line.told:
        return []
    line.end(waited)
    return [text("measure.waited", waited=waited)]


class _Line:
    """What a person reads meanwhile: in a notebook or terminal a line that counts the seconds, elsewhere one line."""

    def __init__(self) -> None:
        notebook = "ipykernel" in sys.modules
        # A notebook shows what goes to stderr in red, as if it were an error.
        self.out = sys.stdout if notebook else sys.stderr
        self.counts = notebook or (self.out is not None and self.out.isatty())
        self.told = 0.0  # [s] of the monotonic clock, when it was told last; 0: not yet

    def tell(self, holder: Holder | None, waited: float) -> None:
        """Say who waits for whom and for how long; once in a second at most."""
        if self.told and (not self.counts or time.monotonic() - self.told < 1):
            return
        self.told = time.monotonic()
        fields = {"pid": os.getpid(), "waited": waited, "most": PATIENCE}
        if holder:
            busy = max(0.0, time.time() - holder.since)
            self._put(text("measure.turn", other=holder.pid, what=holder.what, busy=busy, **fields))
        else:
            self._put(text("measure.turn_unknown", **fields))

    def end(self, waited: float) -> None:
        """Say that the wait is over."""
        if self.told:
            self._put(text("measure.turn_over", waited=waited), "\n")

    def _put(self, sentence: str, end: str = "") -> None:
        if self.out is None:  # Python without a console
            return
        # Carriage return, then the sentence, as wide as the longest one
        self.out.write(f"\r{sentence:<150}{end}" if self.counts else f"{sentence}\n")
        self.out.flush()


def _lock(file: BinaryIO) -> bool:
    """Lock the file if no other process has it; return whether it is locked now."""
    try:
        if sys.platform == "win32":
            file.seek(_LONGEST_RECORD)  # beside the record, which others can then read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _write(file: BinaryIO, holder: Holder) -> None:
    """Tell those who wait who has the turn."""
    with contextlib.suppress(OSError):  # a full disk costs no more than the name
        file.seek(0)
        file.truncate()
        file.write(json.dumps(holder).encode())


def _holder(file: BinaryIO) -> Holder | None:
    """Return who has the turn; None if the file does not say. Every user can write it, so nothing in it is trusted."""
    try:
        file.seek(0)
        pid, what, since = json.loads(file.read(_LONGEST_RECORD))
        since = float(since)
    except (OSError, ValueError, TypeError, OverflowError, RecursionError):
        return None
    known = isinstance(pid, int) and isinstance(what, str) and what.isidentifier()
    return Holder(pid, what[:30], since) if known and 0 < since <= time.time() else None
