"""The memory that a device shares: one segment without a name for each context, with tables that peers read.

The owner's memory regions, queue pairs and receive queues stand in its segment. Whoever wants to reach it opens the
segment once, through the descriptor that the GID names, and from then on needs nothing of the owner's process: it may
be stopped. A segment is gone when the last process that maps it is. Locks are byte ranges of the segment, which the
kernel frees when their holder dies; what it was about to change is then finished by the next holder (`Arena.lock`).
"""

import contextlib
import ctypes
import errno
import mmap
import os
import secrets
import struct
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing import connection

from fabriclab.rdma import enums as e
from fabriclab.rdma.records import PyverbsRDMAError, RecvWR

with contextlib.suppress(ImportError):  # Windows has none, and `own` says so
    import fcntl

PAGE, ROWS = mmap.PAGESIZE, 1 << 16  # ROWS of each table
# Words of 8 bytes: what the header, a queue pair, and a queue hold, in this order. CHANGES is another number after each
# change of a table; REDO and the three words after it are a step that a dead process may have left undone.
CHANGES, TOKEN, BASE, REDO = range(1, 5)
STATE, PD, ACCESS, RQ, RCQ, SHARED, TYPE, DEST, DEST_TOKEN, PSN, QKEY, RNR_TIMER, READS = range(13)
# SGES of receive queues, four of completion queues
HEAD, TAIL, ARMED, OVERRUN, SIZE, SGES, PIPE, NUMBER = range(8)
QUEUE = struct.Struct("<4Q")  # the first four of them
# key, access, first address, address after the last, protection domain
MR_ROW = struct.Struct("<IIQQQ")
QP_ROW = struct.Struct("<10Q")  # the first ten of them
CQE = struct.Struct("<Q7I")
CQE_FIELDS = ("wr_id", "status", "opcode", "byte_len", "qp_num", "src_qp", "imm_data", "wc_flags")
CQE_ROOM, QUEUE_ROOM, _QP_ROOM = 40, 64, 128
MR_TABLE = PAGE
_QP_TABLE = MR_TABLE + ROWS * MR_ROW.size
_DATA = _QP_TABLE + ROWS * _QP_ROOM
_SPAN = 1 << 38  # addresses, not memory: a page is there once it is written
_FLOCK = struct.Struct("hhqqi4x")
Spans = Sequence[tuple[int, int]]  # (offset, bytes) in a segment

# by token: one for each in a process
_open: "weakref.WeakValueDictionary[int, Arena]" = weakref.WeakValueDictionary()
_watched: set[int] = set()  # tokens of segments whose process has a thread that waits for its end


class Arena:
    """A segment as this process maps it, its own or a peer's."""

    def __init__(self, fd: int, pid: int, number: int, token: int = 0) -> None:
        self.fd, self.pid, self.alive = fd, pid, True
        weakref.finalize(self, os.close, fd)
        self.map = mmap.mmap(fd, os.fstat(fd).st_size)
        self.bytes = memoryview(self.map)
        self.words = self.bytes.cast("Q")
        self.token, self.base = token or self.words[TOKEN], self.words[BASE]
        self._end, self._thread = _DATA, threading.Lock()
        digits = f"fe80{pid:06x}{number:06x}{self.token:016x}"  # process, descriptor and token as a link-local address
        self.gid = ":".join(digits[i : i + 4] for i in range(0, 32, 4))

    def alloc(self, size: int) -> int:
        """Return the offset of ``size`` fresh bytes, all zero; addresses are used once only."""
        at = self._end
        self._end = at + -(-max(size, 1) // PAGE) * PAGE
        if self._end > _SPAN:
            raise PyverbsRDMAError(
                f"all addresses of this context are used up, {size} B more were asked", errno.ENOMEM
            )
        return at

    def free(self, at: int, size: int) -> None:
        """Give the memory of an allocation back to the machine."""
        self.map.madvise(mmap.MADV_REMOVE, at, -(-max(size, 1) // PAGE) * PAGE)

    def queue(self, room: int, sges: int = 0) -> int:
        """Return the row of a new queue for completions, or for buffers of ``sges`` pieces."""
        if room < 1 or sges < 0:
            raise PyverbsRDMAError(
                f"a queue has room for 1 at least, got {room} (of {sges} SGEs)", errno.EINVAL
            )
        row = self.alloc(QUEUE_ROOM + room * max(CQE_ROOM, 16 + 24 * sges)) // 8
        self.words[row + SIZE], self.words[row + SGES] = room, sges
        return row

    def inside(self, addr: int, length: int, _key: int = 0) -> int:
        """Return the offset of memory that `alloc` handed out, -1 for any other."""
        return addr - self.base if _DATA <= addr - self.base <= self._end - length else -1

    def changed(self) -> None:
        """Let everybody check again, after a change of a table."""
        self.words[CHANGES] = secrets.randbits(63)

    def region(self, key: int) -> tuple[int, int, int, int, int]:
        """Return the row of the table of regions where ``key`` would stand."""
        return MR_ROW.unpack_from(self.map, MR_TABLE + (key >> 8 & 0xFFFF) * MR_ROW.size)

    def find(self, key: int, addr: int, length: int, access: int, pd: int) -> int:
        """Return the offset of registered memory, or -1 if key, bounds, access or protection domain forbid it."""
        known, granted, start, end, owner = self.region(key)
        if (
            known != key
            or addr < start
            or addr + length > end
            or granted & access != access
            or owner != pd
        ):
            return -1
        return int(addr - self.base)

    @contextlib.contextmanager
    # source: the InfiniBand specification, an atomic has 8 B
    def lock(self, at: int = 0, length: int = 8) -> Iterator[None]:
        """Hold bytes of the segment against all other processes and threads.

        The kernel frees them when the holder dies; a holder that is only stopped keeps them, and the others wait.
        """
        with self._thread:
            fcntl.fcntl(
                self.fd, fcntl.F_OFD_SETLKW, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, length, 0)
            )
            try:
                if not at:
                    self._redo()
                yield
            finally:
                fcntl.fcntl(
                    self.fd,
                    fcntl.F_OFD_SETLK,
                    _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, at, length, 0),
                )

    def _redo(self) -> None:
        """Finish a receive: the completion becomes visible and its buffer is used up, both or neither."""
        words = self.words
        if cq := words[REDO]:
            words[cq + TAIL] = words[REDO + 1]
            words[words[REDO + 2] + HEAD] = words[REDO + 3]
            words[REDO] = 0

    def _buffer(self, rq: int, number: int) -> int:
        """Return where a receive queue keeps a buffer: number, count of pieces, and address, length, key of each."""
        return (
            rq + QUEUE_ROOM // 8 + number % self.words[rq + SIZE] * (2 + 3 * self.words[rq + SGES])
        )

    def post(self, rq: int, wr: RecvWR) -> None:
        """Add a buffer; the device looks at its keys when a message comes."""
        words, tail = self.words, self.words[rq + TAIL]
        if len(wr.sg) > words[rq + SGES]:
            raise PyverbsRDMAError(
                f"the receive queue takes {words[rq + SGES]} SGEs, got {len(wr.sg)}", errno.EINVAL
            )
        if tail - words[rq + HEAD] >= words[rq + SIZE]:
            raise PyverbsRDMAError(
                f"the receive queue has its {words[rq + SIZE]} buffers (max_recv_wr)", errno.ENOMEM
            )
        fields = (
            wr.wr_id,
            len(wr.sg),
            *(n for piece in wr.sg for n in (piece.addr, piece.length, piece.lkey)),
        )
        for i, value in enumerate(fields, self._buffer(rq, tail)):
            words[i] = value
        words[rq + TAIL] = tail + 1

    def receive(self, rq: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Return number and pieces of the oldest buffer; the queue must hold one."""
        words, at = self.words, self._buffer(rq, self.words[rq + HEAD])
        return words[at], [
            (words[i], words[i + 1], words[i + 2])
            for i in range(at + 2, at + 2 + 3 * words[at + 1], 3)
        ]

    def complete(self, cq: int, rq: int, entry: Sequence[int], solicited: bool = False) -> bool:
        """Use up the oldest buffer of ``rq`` and tell ``cq``; False if there is no room. The lock must be held."""
        words, tail = self.words, self.words[cq + TAIL]
        if tail - words[cq + HEAD] >= words[cq + SIZE]:
            words[cq + OVERRUN] = 1
            return False
        CQE.pack_into(self.map, 8 * cq + QUEUE_ROOM + tail % words[cq + SIZE] * CQE_ROOM, *entry)
        words[REDO + 1], words[REDO + 2], words[REDO + 3] = tail + 1, rq, words[rq + HEAD] + 1
        words[REDO] = cq
        self._redo()
        self.notify(cq, solicited or entry[1] != 0)
        return True

    def notify(self, cq: int, solicited: bool) -> None:
        """Put an event into the completion channel, if the queue was armed for one."""
        words = self.words
        if words[cq + ARMED] == 1 or (words[cq + ARMED] and solicited):
            words[cq + ARMED] = 0
            with contextlib.suppress(OSError):  # its owner is gone
                pipe = os.open(
                    f"/proc/{self.pid}/fd/{words[cq + PIPE]}", os.O_WRONLY | os.O_NONBLOCK
                )
                os.write(pipe, words[cq + NUMBER].to_bytes(8, "little"))
                os.close(pipe)

    def fail(self, qp_num: int) -> None:
        """Put a queue pair of this segment into the error state and flush its own receive queue."""
        words, row = self.words, qp_row(qp_num)
        words[row + STATE] = e.ibv_qp_state.IBV_QPS_ERR
        self.changed()
        rq, fits, told = (
            words[row + RQ],
            True,
            (e.IBV_WC_WR_FLUSH_ERR, e.IBV_WC_RECV, 0, qp_num, 0, 0, 0),
        )
        with self.lock():
            while fits and not words[row + SHARED] and words[rq + HEAD] != words[rq + TAIL]:
                fits = self.complete(words[row + RCQ], rq, (self.receive(rq)[0], *told))


def qp_row(qp_num: int) -> int:
    """Return where the row of a queue pair begins, in words."""
    return (_QP_TABLE + qp_num % ROWS * _QP_ROOM) // 8


def pieces(spans: Spans, targets: Spans, step: int = _SPAN) -> Iterator[tuple[int, int, int]]:
    """Return what to copy: from where, to where, and how many bytes at a time, ``step`` at most."""
    rest, (at, n) = iter(spans), (0, 0)
    for to, room in targets:
        while room:
            while not n:
                at, n = next(rest, (0, -1))
            if n < 0:
                return
            yield at, to, (k := min(n, room, step - to % 8))
            at, to, n, room = at + k, to + k, n - k, room - k


def own() -> Arena:
    """Make a segment for a context of this process: memory without a name, or where there is none, a file without one.

    Raises
    ------
    PyverbsRDMAError
        Where the system has neither.
    """
    try:  # a Python built for an old C library has no memfd_create
        has_memfd = hasattr(os, "memfd_create")
        fd = (
            os.memfd_create("rdma")
            if has_memfd
            else os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR)
        )
        os.ftruncate(fd, _SPAN)
    except (AttributeError, OSError) as cause:
        msg = f"this device needs Linux, with files without a name and /proc: {cause!r}; use the container or Binder"
        raise PyverbsRDMAError(msg, errno.EOPNOTSUPP) from None
    token = secrets.randbits(63) | 1
    arena = Arena(fd, os.getpid(), fd, token)
    arena.base = ctypes.addressof(ctypes.c_char.from_buffer(arena.map))
    arena.words[BASE], arena.words[TOKEN] = arena.base, token
    _open[token] = arena
    return arena


def attach(gid: str) -> Arena:
    """Map the segment that a GID names.

    Raises
    ------
    PyverbsRDMAError
        If no living process of this user has it.
    """
    digits = gid.replace(":", "")
    pid, number, token = int(digits[4:10], 16), int(digits[10:16], 16), int(digits[16:], 16)
    if (known := _open.get(token)) and known.alive:
        return known
    path, arena = f"/proc/{pid}/fd/{number}", None
    with contextlib.suppress(OSError):
        if os.stat(path).st_size == _SPAN:
            arena = Arena(os.open(path, os.O_RDWR | os.O_CLOEXEC), pid, number)
    if arena is None or arena.words[TOKEN] != token:
        msg = f"no context answers to GID {gid}: its process has ended, or closed it, or belongs to another user"
        raise PyverbsRDMAError(msg, errno.EHOSTUNREACH)
    arena = _open.setdefault(token, arena)
    if token not in _watched:
        _watched.add(token)
        threading.Thread(target=_watch, args=(pid, token), daemon=True).start()
    return arena


def _watch(pid: int, token: int) -> None:
    """Wait for the end of a process; a stopped one is alive."""
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        connection.wait([pidfd := os.pidfd_open(pid)])
        os.close(pidfd)
    _watched.discard(token)
    if dead := _open.get(token):
        dead.alive = False
        dead.changed()
