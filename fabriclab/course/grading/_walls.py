"""The protections of Linux: namespaces, a root of its own, Landlock, limits, another user, a filter of system calls.

The program that runs learners' code loads this file, so it imports nothing of the package.
"""

import contextlib
import ctypes
import itertools
import math
import os
import resource
import signal
import stat
import struct
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

# Flags of unshare, one for each namespace.
NEWNS = 0x20000
NEWIPC = 0x8000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000
# Flags of mount, and one of umount2.
RDONLY = 1
NOSUID = 2
NODEV = 4
REMOUNT = 32
BIND = 4096
REC = 16384
PRIVATE = 1 << 18
DETACH = 2
# Properties of prctl.
DEATH_SIGNAL = 1
DUMPABLE = 4
SECCOMP = 22
SUBREAPER = 36
NO_NEW_PRIVS = 38
CHANGE_USER = 0b11000001  # capabilities: chown, setgid, setuid
HEADROOM = 64 << 20  # memory beyond the learner's limit, to report that it has run out [B]
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo")
NONE = 0xFFFFFFFF


def _calls(refused: str) -> dict[str, tuple[int, int]]:
    """Return name -> numbers on x86-64 and on 64-bit Arm, for all system calls that are refused in a given way.

    ``refused`` is "always", or "on others" for calls that may act only on the calling process or its group.
    """
    with open(os.path.join(os.path.dirname(__file__), "calls.csv")) as file:
        rows = [line.split(",") for line in file]
    return {
        name: (int(x86 or NONE), int(arm or NONE))
        for name, x86, arm, how, _ in rows
        if how == refused
    }


CALLS = _calls("always")
OWN = _calls("on others")
# Refused with these second arguments, which would make the kernel send signals to another process.
ASKED = {"fcntl": (72, 25, (8, 15)), "ioctl": (16, 29, (0x8901, 0x8902))}
# column, AUDIT_ARCH, clone
MACHINES = {"x86_64": (0, 0xC000003E, 56), "aarch64": (1, 0xC00000B7, 220)}
MYSELF = 0x4D594944  # placeholder for the process number in a filter
LIBC = ctypes.CDLL(None, use_errno=True)


def c(name: str, *args: Any) -> int:
    """Call a function of the C library; raise OSError if it fails."""
    done: int = LIBC[name](*(ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in args))
    if done < 0:
        raise OSError(ctypes.get_errno(), name)
    return done


def prctl(what: int, value: int) -> None:
    """Change a property of this process."""
    c("prctl", what, value, 0, 0, 0)


def free_user() -> int:
    """Return an unused user number, near the end of the range that exists here, or our own if we cannot change user."""
    with open("/proc/self/uid_map") as table, open("/proc/self/status") as status:
        first, _, count = map(int, table.read().splitlines()[-1].split())
        rights = next(int(line.split()[1], 16) for line in status if line.startswith("CapEff"))
    last = min(first + count, 2**31) - 10_000 - os.getpid() % 1000
    return last if last > 0 and rights & CHANGE_USER == CHANGE_USER else os.getuid()


def own_users() -> None:
    """Enter a user namespace, in which any user may make the other namespaces."""
    user = os.getuid()
    group = os.getgid()
    c("unshare", NEWUSER)
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount ``source`` at ``target``."""
    c("mount", source.encode(), target.encode(), kind and kind.encode(), flags, data.encode())


def readable(paths: Iterable[str]) -> set[str]:
    """Return the folders and devices that a child may read: the installation, libraries, devices and ``paths``."""
    installed = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    return {
        os.path.abspath(path)
        for path in (*installed, *LIBRARIES, *DEVICES, *paths)
        if os.path.exists(path)
    }


def within(path: str, hidden: str) -> str:
    """Return the name of ``hidden`` below ``path``, with links resolved; empty if it is not below."""
    inner = os.path.relpath(os.path.realpath(hidden), os.path.realpath(path))
    return (
        "" if inner.split(os.sep)[0] == os.pardir else os.path.normpath(os.path.join(path, inner))
    )


def own_root(root: str, work: str, paths: Iterable[str], hidden: Collection[str]) -> None:
    """Make ``root`` the root of this process, with all that is readable except ``hidden``, and with ``work``."""
    c("unshare", NEWNS)
    mount("none", "/", None, REC | PRIVATE)
    os.mkdir(root)
    mount("tmpfs", root, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    os.makedirs(root + work)
    for path in sorted(readable(paths)):
        target = root + path
        if os.path.lexists(target):
            continue  # in a folder that is already mounted
        os.makedirs(target if os.path.isdir(path) else os.path.dirname(target), exist_ok=True)
        if not os.path.isdir(path):
            os.close(os.open(target, os.O_CREAT))
        mount(path, target, None, BIND | REC)
        # The kernel requires the flags of the original, such as those against programs and devices, to be repeated.
        mount("none", target, None, REMOUNT | BIND | RDONLY | (os.statvfs(path).f_flag & 0xE))
    for path, folder in itertools.product(readable(paths), hidden):
        inside = within(path, folder)
        if inside and os.path.isdir(root + inside):
            mount("tmpfs", root + inside, "tmpfs", RDONLY | NOSUID | NODEV, "size=4k,mode=755")
    mount("none", root, None, REMOUNT | BIND | RDONLY | NOSUID | NODEV)
    os.chroot(root)
    os.chdir("/")


def fresh_folder(work: str, user: int, size: int) -> None:
    """Replace the work folder by an empty one; if ``size`` is above 0, it is in memory and has so many bytes."""
    if size:
        with contextlib.suppress(OSError):  # the first time there is nothing to unmount
            c("umount2", work.encode(), DETACH)
        mount(
            "tmpfs",
            work,
            "tmpfs",
            NOSUID | NODEV,
            f"size={size},nr_inodes=1000,mode=700,uid={user}",
        )
        return
    remove(work)
    os.mkdir(work, stat.S_IRWXU)
    if user != os.getuid():
        os.chown(work, user, -1)


def limits_for_children(limits: Mapping[str, Any]) -> list[tuple[int, tuple[int, int]]]:
    """Return the arguments of setrlimit for a child."""
    cpu = math.ceil(limits["cpu_s"])
    memory = limits["memory"]
    size = limits["file_size"]
    tasks = limits["processes"]
    files = limits["files"]
    wanted = {
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_AS: (memory, memory + HEADROOM),
        resource.RLIMIT_FSIZE: (size, size),
        resource.RLIMIT_NPROC: (tasks, tasks),
        resource.RLIMIT_NOFILE: (files, files),
        resource.RLIMIT_CORE: (0, 0),
    }
    most = {kind: resource.getrlimit(kind)[1] % 2**64 for kind in wanted}  # -1 means no limit
    return [
        (kind, (min(soft, most[kind]), min(hard, most[kind])))
        for kind, (soft, hard) in wanted.items()
    ]


def limits_here() -> list[tuple[int, int]]:
    """Return all limits of this process."""
    return [resource.getrlimit(kind) for kind in range(16)]


def around(path: str, hidden: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield the parts of a path that may be read, which exclude ``hidden``, each with its rights for Landlock.

    The right to list a folder extends to everything below it, so names in ``hidden`` can be listed, but not read.
    """
    inside = [within(path, folder) for folder in hidden]
    if not any(inside):
        # a folder: run, read and list; a file: read
        yield path, 13 if os.path.isdir(path) and not os.path.islink(path) else 4
    elif path not in inside:
        yield path, 8  # list only
        for name in os.listdir(path):
            part = os.path.join(path, name)
            # A link to a folder above or inside a hidden one would allow reading what is below its target.
            leads_there = any(within(part, folder) or within(folder, part) for folder in hidden)
            if not (os.path.islink(part) and leads_there):
                yield from around(part, hidden)


def rules_of_landlock(paths: Iterable[str], hidden: Collection[str]) -> list[bytes]:
    """Return the rules for Landlock: first all rights that it handles, then the rights for each readable path."""
    version = c("syscall", 444, None, 0, 1)
    files = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
    rules = [struct.pack("QQQ", files, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]]
    parts = [(device, 6) for device in DEVICES]  # read and write
    for path in readable(paths).difference(DEVICES):
        parts += around(path, hidden)
    for part, allowed in parts:
        with contextlib.suppress(OSError):
            rules.append(struct.pack("=Qi", allowed, os.open(part, os.O_PATH | os.O_CLOEXEC)))
    return rules


def landlock(rules: list[bytes], work: str) -> None:
    """Restrict this process to the rules and to writing in ``work``.

    If the kernel supports it, TCP and signals to other processes are refused, too.
    """
    mine = c("syscall", 444, rules[0], len(rules[0]), 0)
    for rule in (*rules[1:], rules[0][:8] + struct.pack("i", os.open(work, os.O_PATH))):
        c("syscall", 445, mine, 1, rule, 0)
    c("syscall", 446, mine, 0)


def become(user: int) -> bool:
    """Change to a user who owns nothing; return whether there is one."""
    if user == os.getuid():
        return False
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    return True


def drop_rights() -> None:
    """Give up all capabilities, and arrange to die with the parent, which a change of user has cleared."""
    c("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))
    prctl(DEATH_SIGNAL, signal.SIGKILL)


def filter_of_calls() -> bytes:
    """Return a filter with which the kernel refuses `CALLS`, `OWN` on other processes, `ASKED`, and new processes."""
    column, machine, clone = MACHINES[os.uname().machine if sys.maxsize > 2**32 else ""]
    load, equal, at_least, any_bit, end = 0x20, 0x15, 0x35, 0x45, 6  # instructions of the filter
    go_on, refuse, unknown = 0x7FFF0000, 0x50001, 0x50026  # the last two: EPERM, ENOSYS
    code = [(load, 0, 0, 4), (equal, 1, 0, machine), (end, 0, 0, refuse), (load, 0, 0, 0)]
    code += [(at_least, 0, 1, 1 << 30), (end, 0, 0, refuse)]  # x32 calls

    def rule(number: int, verdict: int, argument: int = 0, *tests: tuple[int, int, int]) -> None:
        """Add the verdict on a call; a test of its argument may give another verdict."""
        body = [(load, 0, 0, 16 + 8 * argument)]
        for test, value, other in tests:
            body += [(test, 0, 1, value), (end, 0, 0, other)]
        code.extend([(equal, 0, len(body) + 1, number), *body, (end, 0, 0, verdict)])

    for numbers in CALLS.values():
        rule(numbers[column], refuse)
    for numbers in OWN.values():
        rule(numbers[column], refuse, 0, (equal, 0, go_on), (equal, MYSELF, go_on))
    for x86, arm, values in ASKED.values():
        rule((x86, arm)[column], go_on, 1, *((equal, value, refuse) for value in values))
    rule(clone, refuse, 0, (any_bit, 0x10000, go_on))  # threads are allowed
    rule(435, unknown)  # clone3, whose flags are in memory; the C library then uses clone
    return b"".join(struct.pack("HBBI", *line) for line in [*code, (end, 0, 0, go_on)])


def filter_calls(program: bytes) -> None:
    """Make the kernel refuse calls from now on."""
    words = program.replace(struct.pack("I", MYSELF), struct.pack("I", os.getpid()))
    kept = ctypes.create_string_buffer(words, len(words))
    c("prctl", SECCOMP, 2, struct.pack("HxxxxxxQ", len(words) // 8, ctypes.addressof(kept)), 0, 0)


def tasks_of(pid: str) -> int:
    """Return the number of threads of a process of our user, all of which count for the kernel's limit; else 0."""
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{pid}").st_uid == os.getuid():
            return len(os.listdir(f"/proc/{pid}/task"))
    return 0


def remove(folder: str) -> None:
    """Remove a folder, even if rights in it were taken away or it is very deep."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError:
        os.spawnlp(os.P_WAIT, "chmod", "chmod", "-R", "u+rwx", folder)
        os.spawnlp(os.P_WAIT, "rm", "rm", "-rf", folder)


def sweep(child: int, user: int) -> tuple[int, float]:
    """Kill a child and all its descendants; return its wait status and its CPU time [s]."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(OSError):
            kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    with contextlib.suppress(ChildProcessError):
        while True:  # its descendants are our children by now
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                kill_rest(user)
                time.sleep(0.001)
    return status, usage.ru_utime + usage.ru_stime


def kill_rest(user: int) -> None:
    """Kill all other processes of the namespace or, without one, of the child's user, or at least our own children."""
    with contextlib.suppress(OSError):
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        elif user != os.getuid():
            if not os.fork():
                os.setresuid(user, user, user)
                os.kill(-1, signal.SIGKILL)
                os._exit(0)
        else:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
