"""The program that runs learners' code for `sandbox`. It knows no solution, no key and no case.

There are three generations of processes. The *keeper* only starts the next one and cleans up at the end. The
*zygote*, the first process in the namespaces, imports numpy and waits. A *child*, forked from it for each session,
runs the code of one learner.
"""

import contextlib
import gc
import importlib
import itertools
import json
import os
import random
import resource
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

# Relative imports, because the package itself must not be loaded here: it contains the solutions.
from . import _walls as walls
from ._answers import Answers
from ._attempts import Watch

# what the parent asks for at the start: folder, limits, paths, hidden, without, refused
Order = Mapping[str, Any]
# Modules that answers may need, loaded early because the learner's user may not be able to read them.
PRELOAD = (
    "numpy numpy.fft numpy.polynomial numpy.random array asyncio concurrent.futures copy csv dataclasses datetime "
    "fractions functools heapq inspect itertools math pprint queue statistics string tempfile textwrap threading "
    "traceback typing uuid zlib"
).split()


def holds(name: str, order: Order, active: list[str], protect: Callable[[], object]) -> bool:
    """Try to switch on a protection; if it holds, add its name to ``active`` and return True."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        if name not in order["without"] and protect() is not False:
            active.append(name)
            return True
    return False


def keep() -> None:
    """Be the keeper: start the zygote in namespaces of its own, and clean up after it ends."""
    control = socket.socket(fileno=os.dup(0))
    order = json.loads(control.recv(1 << 16))
    with open(os.devnull, "r+b", 0) as null:
        os.dup2(null.fileno(), 0)
    walls.prctl(walls.SUBREAPER, 1)
    active: list[str] = []
    user = os.getuid() if "user" in order["without"] else walls.free_user()
    if user == os.getuid():
        # The kernel's limit will count all threads that this user already runs.
        order["limits"]["processes"] += sum(
            map(walls.tasks_of, filter(str.isdigit, os.listdir("/proc")))
        )
        holds("userns", order, active, walls.own_users)
    holds("pidns", order, active, lambda: walls.c("unshare", walls.NEWPID))
    zygote = os.fork()
    if not zygote:
        try:
            walls.prctl(walls.DEATH_SIGNAL, signal.SIGKILL)
            be_zygote(control, order, active, user)
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
        finally:
            os._exit(0)
    control.close()
    os.waitid(os.P_PID, zygote, os.WEXITED | os.WNOWAIT)
    walls.sweep(zygote, user)
    for name in ("work", "root", ""):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(order["folder"], name))


def be_zygote(control: socket.socket, order: Order, active: list[str], user: int) -> None:
    """Be the zygote: load what children need, enter the namespaces, and fork a child for each session.

    As much as possible is prepared here, because a child has to copy each page of memory that it writes to.
    """
    walls.prctl(walls.SUBREAPER, 1)
    sys.path += order["paths"]
    for name in PRELOAD:
        importlib.import_module(name)
    memory = os.open("/proc/self/statm", os.O_RDONLY)
    holds("netns", order, active, lambda: walls.c("unshare", walls.NEWNET | walls.NEWIPC))
    root = order["folder"] + "/root"
    work = order["folder"] + "/work"
    rooted = holds(
        "root", order, active, lambda: walls.own_root(root, work, order["paths"], order["hidden"])
    )
    # The limit applies to the memory that a learner adds.
    order["limits"]["memory"] += int(os.read(memory, 100).split()[0]) * resource.getpagesize()
    made: dict[str, Any] = {"limits": walls.limits_for_children(order["limits"])}
    holds(
        "landlock",
        order,
        [],
        lambda: made.update(landlock=walls.rules_of_landlock(order["paths"], order["hidden"])),
    )
    holds("seccomp", order, [], lambda: made.update(seccomp=walls.filter_of_calls()))
    answers = Answers(order["refused"])
    readable = walls.readable(order["paths"])

    def start(line: int) -> None:
        """Run one session in this process, which has just been forked."""
        wall_in(line, order, active, user, work, made)
        # Else a search for a folder for temporary files would look like an attempt to write elsewhere.
        tempfile.tempdir = work
        answers.serve(active, lambda tell: Watch(tell, work, readable, walls.DEVICES).start())

    walls.prctl(walls.DUMPABLE, 0)  # a child of the same user cannot look into this process
    os.environ.clear()
    gc.freeze()
    size = rooted * 4 * order["limits"]["file_size"]
    fork_sessions(control, user, lambda: walls.fresh_folder(work, user, size), start)
    if not rooted:
        walls.remove(work)


def fork_sessions(
    control: socket.socket, user: int, clear: Callable[[], None], start: Callable[[int], None]
) -> None:
    """Run one session after another, until the parent is gone."""
    limits = walls.limits_here()
    while (
        limits == walls.limits_here()
    ):  # if not, a child of the same user has changed them, which would affect later sessions
        message, files, _, _ = socket.recv_fds(control, 100, 1)
        if not message:
            return
        if not files:
            continue  # the parent has ended a session whose child was already gone
        clear()
        pid = os.fork()
        if not pid:
            try:
                start(files[0])
            finally:
                os._exit(1)
        wait = select.poll()
        process = os.pidfd_open(pid)
        wait.register(control, select.POLLIN)
        wait.register(process, select.POLLIN)
        os.close(files[0])  # so that the parent notices when the child closes its end
        wait.poll()
        os.close(process)
        control.send(json.dumps(walls.sweep(pid, user)).encode())


def wall_in(
    line: int, order: Order, active: list[str], user: int, work: str, made: Mapping[str, Any]
) -> None:
    """Give up all rights of this process and all open files except the line to the parent; discard what it prints."""
    os.setsid()
    for here, there in ((0, 1), (0, 2), (line, 3)):
        os.dup2(here, there)
    os.chdir(work)
    os.umask(0o077)
    active.append("session")
    walls.prctl(walls.NO_NEW_PRIVS, 1)
    holds("limits", order, active, lambda: [*itertools.starmap(resource.setrlimit, made["limits"])])
    holds("landlock", order, active, lambda: walls.landlock(made["landlock"], work))
    holds("user", order, active, lambda: walls.become(user))
    walls.drop_rights()
    holds("seccomp", order, active, lambda: walls.filter_calls(made["seccomp"]))
    os.closerange(4, 1000)
    random.seed(0)  # so that a replay draws the same numbers
    numpy = sys.modules["numpy"]
    numpy.random.seed(0)
    made_anew = numpy.random.default_rng
    numpy.random.default_rng = lambda seed=None: made_anew(0 if seed is None else seed)
