"""What a learner's code tries at the walls, as Python itself reports it before the walls refuse it.

A learner's process loads this file, so it imports nothing of the package. The hook cannot be taken off again, but code
that bypasses Python's own functions is not seen. So an attempt that is noted was made, and one that is not noted may
have been made all the same. Nothing here refuses anything: that is left to the walls.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any

# Kinds of attempts, each with the audit events of CPython that belong to it (docs.python.org/3/library/audit_events).
EVENTS = {
    "process": (
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "subprocess.Popen",
    ),
    "signal": ("os.kill", "os.killpg"),
    "network": (
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.sendto",
    ),
    "native": ("ctypes.dlopen",),
    "search": ("gc.get_objects", "gc.get_referents", "gc.get_referrers"),
    "write": (
        "os.chmod",
        "os.chown",
        "os.link",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.truncate",
    ),
}
# The line to the grader is disturbed; the grader notices this itself.
FORGED = "forge"
KINDS = (*EVENTS, "read", FORGED)
_NETWORKS = (socket.AF_INET, socket.AF_INET6)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Watch:
    """An audit hook that tells once of each kind of attempt.

    Parameters
    ----------
    tell : callable
        Called with the name of a kind.
    work : str
        The learner's own folder, in which everything is allowed.
    readable : iterable of str
        Folders and devices that may be read.
    devices : iterable of str
        Devices that may be written to.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        work: str,
        readable: Iterable[str],
        devices: Iterable[str],
    ) -> None:
        self._tell = tell
        self._work = work
        self._readable = tuple(readable)
        self._devices = tuple(devices)
        self._kinds = {event: kind for kind, events in EVENTS.items() for event in events}
        self._kinds |= {"open": "open", "socket.__new__": "network"}
        self._told = set[str]()
        # A learner may patch modules.
        self._whole, self._decoded = os.path.abspath, os.fsdecode

    def start(self) -> None:
        """Watch this process from now on."""
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """Tell of an event if it is an attempt of a kind that has not been told; never raise an error."""
        if event not in self._kinds:
            return
        try:
            kind = self._kind(event, args)
            if kind and kind not in self._told:
                self._told.add(kind)
                self._tell(kind)
        except Exception:  # whatever a learner's objects do, the call goes on as without a hook
            return

    def _kind(self, event: str, args: tuple[Any, ...]) -> str:
        """Return the kind of attempt that an event is, or an empty text."""
        kind = self._kinds[event]
        if event == "socket.__new__":
            return kind if args[1] in _NETWORKS else ""
        if kind == "open":
            path, mode, flags = args
            writes = bool(flags & _WRITES) if mode is None else bool({*"wax+"} & {*mode})
            return "" if self._is_allowed(path, writes) else ("write" if writes else "read")
        if kind == "write":
            return "" if self._is_allowed(args[0], True) else kind
        return kind

    def _is_allowed(self, path: Any, writes: bool) -> bool:
        """Return whether a file may be read, or written to; a number stands for a file that is open already."""
        if isinstance(path, int):
            return True
        whole = self._whole(self._decoded(path))
        allowed = self._devices if writes else self._readable
        return any(
            whole == place or whole.startswith(f"{place}/") for place in (self._work, *allowed)
        )
