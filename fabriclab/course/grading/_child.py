"""The program that runs learners' code for `sandbox`. It knows no reference, no key and no case.

Three generations: the *keeper* starts, cleans up at the end, and does nothing else; the *zygote*, first process of
the namespaces, has numpy imported and waits; a *child*, forked for each session, runs the code of one learner.
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
from collections.abc import Callable, Mapping
from typing import Any

# Relative, since the package itself is not loaded here: it would bring the reference.
from . import _walls as walls
from ._answers import Answers

# folder, limits, paths, hidden, without, refused: what the parent asks for at the start
Order = Mapping[str, Any]
# Loaded before there is a learner, whose user may not be able to read it: what answers may need.
PRELOAD = (
    "numpy numpy.fft numpy.polynomial numpy.random array asyncio concurrent.futures copy csv dataclasses datetime "
    "fractions functools heapq inspect itertools math pprint queue statistics string tempfile textwrap threading "
    "traceback typing uuid zlib"
).split()


def holds(name: str, order: Order, active: list[str], protect: Callable[[], object]) -> bool:
    """Try one protection, note it in ``active`` if it holds, and return whether it does."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        if name not in order["without"] and protect() is not False:
            active.append(name)
            return True
    return False


def keep() -> None:
    """Start the zygote in namespaces of its own, and leave nothing behind when it ends."""
    control = socket.socket(fileno=os.dup(0))
    order = json.loads(control.recv(1 << 16))
    with open(os.devnull, "r+b", 0) as null:
        os.dup2(null.fileno(), 0)
    walls.prctl(walls.SUBREAPER, 1)
    active: list[str] = []
    user = os.getuid() if "user" in order["without"] else walls.free_user()
    if user == os.getuid():
        # The kernel will count all that this user runs.
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
    """Load what children need, go into the namespaces, and fork a child for each session.

    Whatever can be made here is made here, since a child copies each page of memory that it writes to.
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
    # The limit is for what a learner adds.
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

    def start(line: int) -> None:
        """Run one session in this process, which has just been forked."""
        wall_in(line, order, active, user, work, made)
        answers.serve(active)

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
    ):  # else a child of the same user has changed them, and others would suffer
        message, files, _, _ = socket.recv_fds(control, 100, 1)
        if not message:
            return
        if not files:
            continue  # the parent ends a session whose child was gone
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
        os.close(files[0])  # or the parent would not see that the child closes its own
        wait.poll()
        os.close(process)
        control.send(json.dumps(walls.sweep(pid, user)).encode())


def wall_in(
    line: int, order: Order, active: list[str], user: int, work: str, made: Mapping[str, Any]
) -> None:
    """Give up all rights of this process, and every file but the line to the parent; what it prints goes nowhere."""
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
    random.seed(0)  # a replay draws the same numbers
    numpy = sys.modules["numpy"]
    numpy.random.seed(0)
    made_anew = numpy.random.default_rng
    numpy.random.default_rng = lambda seed=None: made_anew(0 if seed is None else seed)
