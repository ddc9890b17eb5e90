"""The shared memory of a device: one anonymous segment per context, with tables that peers read.

A segment contains the owner's memory regions, queue pairs and receive queues. A peer opens it once, through the file
descriptor that the GID names, and from then on needs nothing from the owner's process, which may be suspended. A
segment disappears when the last process that maps it ends. Locks are byte ranges of the segment, which the kernel
releases when their holder dies; the next holder then finishes what the dead one was about to change (`Arena.lock`).
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
from enum import IntEnum
from multiprocessing import connection
from typing import NamedTuple

from fabriclab.rdma import enums as e
from fabriclab.rdma.records import PyverbsRDMAError, RecvWR

with contextlib.suppress(ImportError):  # missing on Windows, where `own` raises the error
    import fcntl

PAGE = mmap.PAGESIZE
ROWS = 1 << 16  # rows of each table


class HeaderWord(IntEnum):
    """Words of 8 bytes at the start of a segment; word 0 is the one that processes lock."""

    CHANGES = 1  # a new random number after each change of a table
    TOKEN = 2  # random name of the segment, 0 once its context is closed
    BASE = 3  # address of the segment in the process that owns it
    # The next four are the last stage of a receive, which a dead process may have left undone; see `Arena.complete`.
    REDO = 4  # row of the completion queue, 0 if nothing is left to do
    REDO_TAIL = 5  # its next TAIL
    REDO_RQ = 6  # row of the receive queue
    REDO_HEAD = 7  # its next HEAD


class QueuePairWord(IntEnum):
    """Words of 8 bytes in the row of a queue pair: those of its attributes that peers read."""

    STATE = 0  # one of `ibv_qp_state`
    PD = 1  # number of its protection domain
    ACCESS = 2  # what peers may do, a sum of `ibv_access_flags`
    RQ = 3  # row of its receive queue
    RCQ = 4  # row of the completion queue of its receives
    SHARED = 5  # 1 if the receive queue is shared with other pairs, else 0
    TYPE = 6  # one of `ibv_qp_type`
    DEST = 7  # number of the queue pair that it is connected to
    DEST_TOKEN = 8  # token of the segment of that pair
    PSN = 9  # number of the first packet that it expects (rq_psn)
    QKEY = 10  # key that a datagram must carry
    # source: 11 is a place in our own table
    RNR_TIMER = 11  # code of the time that a sender waits when there is no buffer (min_rnr_timer)
    READS = 12  # READs and atomics that it answers at once (max_dest_rd_atomic)


class QueueWord(IntEnum):
    """Words of 8 bytes at the start of a queue of completions or of receive buffers."""

    HEAD = 0  # entries taken out so far
    TAIL = 1  # entries put in so far
    ARMED = 2  # 1: the next completion makes an event, 2: the next solicited or failed one
    OVERRUN = 3  # 1 once a completion found no room
    SIZE = 4  # capacity, in entries
    SGES = 5  # in a receive queue: largest number of pieces of a buffer
    PIPE = 6  # in a completion queue: file descriptor of its channel, in the process that owns it
    NUMBER = 7  # in a completion queue: the number that its events carry


# The members as names of this module. A lookup through the class takes 67 ns longer (88 ns instead of 21 ns, CPython
# 3.11), and the quick path of a WRITE, which takes about 1 us in all, makes four lookups.
CHANGES = HeaderWord.CHANGES
TOKEN = HeaderWord.TOKEN
BASE = HeaderWord.BASE
REDO = HeaderWord.REDO
REDO_TAIL = HeaderWord.REDO_TAIL
REDO_RQ = HeaderWord.REDO_RQ
REDO_HEAD = HeaderWord.REDO_HEAD
STATE = QueuePairWord.STATE
PD = QueuePairWord.PD
ACCESS = QueuePairWord.ACCESS
RQ = QueuePairWord.RQ
RCQ = QueuePairWord.RCQ
SHARED = QueuePairWord.SHARED
TYPE = QueuePairWord.TYPE
DEST = QueuePairWord.DEST
DEST_TOKEN = QueuePairWord.DEST_TOKEN
PSN = QueuePairWord.PSN
QKEY = QueuePairWord.QKEY
RNR_TIMER = QueuePairWord.RNR_TIMER
READS = QueuePairWord.READS
HEAD = QueueWord.HEAD
TAIL = QueueWord.TAIL
ARMED = QueueWord.ARMED
OVERRUN = QueueWord.OVERRUN
SIZE = QueueWord.SIZE
SGES = QueueWord.SGES
PIPE = QueueWord.PIPE
NUMBER = QueueWord.NUMBER

QUEUE = struct.Struct("<4Q")  # HEAD to OVERRUN
QP_ROW = struct.Struct("<10Q")  # STATE to PSN
# key, access, first address, address after the last, number of the protection domain
MR_ROW = struct.Struct("<IIQQQ")
CQE = struct.Struct("<Q7I")
CQE_FIELDS = ("wr_id", "status", "opcode", "byte_len", "qp_num", "src_qp", "imm_data", "wc_flags")
CQE_ROOM = 40  # [B] entry of a completion queue
QUEUE_ROOM = 64  # [B] words in front of the entries of a queue
_QP_ROOM = 128  # [B] row of a queue pair
_BUFFER_WORDS = 2  # per receive buffer: its number, and how many pieces it has
_PIECE_WORDS = 3  # per piece: address, length and key

# Where the tables and the data begin. [B]
MR_TABLE = PAGE
_QP_TABLE = MR_TABLE + ROWS * MR_ROW.size
_DATA = _QP_TABLE + ROWS * _QP_ROOM
_SPAN = 1 << 38  # [B] of address space, not of memory: a page takes memory only once it is written
_FLOCK = struct.Struct("hhqqi4x")

Spans = Sequence[tuple[int, int]]  # (offset, bytes) in a segment


class Piece(NamedTuple):
    """A piece of a receive buffer."""

    addr: int
    length: int  # [B]
    lkey: int


class Buffer(NamedTuple):
    """A buffer of a receive queue."""

    wr_id: int
    pieces: list[Piece]


# Segments that this process has mapped, by token, so that it maps none of them twice.
_open: "weakref.WeakValueDictionary[int, Arena]" = weakref.WeakValueDictionary()
_watched: set[int] = set()  # tokens of segments for which a thread waits until their process ends


class Arena:
    """A segment as this process maps it, either its own or a peer's."""

    def __init__(self, fd: int, pid: int, number: int, token: int = 0) -> None:
        self.fd = fd
        self.pid = pid
        self.alive = True
        weakref.finalize(self, os.close, fd)
        self.map = mmap.mmap(fd, os.fstat(fd).st_size)
        self.bytes = memoryview(self.map)
        self.words = self.bytes.cast("Q")
        self.token = token or self.words[TOKEN]
        self.base = self.words[BASE]
        self._end = _DATA
        self._thread = threading.Lock()
        # process, file descriptor and token in the form of a link-local address
        digits = f"fe80{pid:06x}{number:06x}{self.token:016x}"
        self.gid = ":".join(digits[i : i + 4] for i in range(0, 32, 4))

    def alloc(self, size: int) -> int:
        """Return the offset of ``size`` new bytes, all zero; no address is ever used twice."""
        at = self._end
        self._end = at + _whole_pages(size)
        if self._end > _SPAN:
            raise PyverbsRDMAError(
                f"all addresses of this context are used up, {size} B more were asked", errno.ENOMEM
            )
        return at

    def free(self, at: int, size: int) -> None:
        """Return the memory of an allocation to the operating system."""
        self.map.madvise(mmap.MADV_REMOVE, at, _whole_pages(size))

    def queue(self, room: int, sges: int = 0) -> int:
        """Make a queue for completions, or for buffers of ``sges`` pieces, and return its row."""
        if room < 1 or sges < 0:
            raise PyverbsRDMAError(
                f"a queue has room for 1 at least, got {room} (of {sges} SGEs)", errno.EINVAL
            )
        buffer = 8 * (_BUFFER_WORDS + _PIECE_WORDS * sges)  # [B]
        row = self.alloc(QUEUE_ROOM + room * max(CQE_ROOM, buffer)) // 8
        self.words[row + SIZE] = room
        self.words[row + SGES] = sges
        return row

    def inside(self, addr: int, length: int, _key: int = 0) -> int:
        """Return the offset of an address in memory that `alloc` gave out; -1 for any other address."""
        at = addr - self.base
        if _DATA <= at <= self._end - length:
            return at
        return -1

    def changed(self) -> None:
        """Mark that a table has changed, so that every process repeats its checks."""
        self.words[CHANGES] = secrets.randbits(63)

    def region(self, key: int) -> tuple[int, int, int, int, int]:
        """Return the row of the table of regions that belongs to ``key``: the fields of `MR_ROW`."""
        return MR_ROW.unpack_from(self.map, MR_TABLE + (key >> 8 & 0xFFFF) * MR_ROW.size)

    def find(self, key: int, addr: int, length: int, access: int, pd: int) -> int:
        """Return the offset of registered memory; -1 if key, bounds, access rights or protection domain forbid it."""
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
        """Lock bytes of the segment against all other processes and threads.

        The kernel releases the lock when its holder dies. A holder that is only suspended keeps it, and the others
        wait.
        """
        take = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, length, 0)
        release = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, at, length, 0)
        with self._thread:
            fcntl.fcntl(self.fd, fcntl.F_OFD_SETLKW, take)
            try:
                if at == 0:
                    self._redo()
                yield
            finally:
                fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, release)

    def _redo(self) -> None:
        """Finish a receive: the completion becomes visible and its buffer is used up, either both or neither."""
        words = self.words
        cq = words[REDO]
        if cq:
            words[cq + TAIL] = words[REDO_TAIL]
            words[words[REDO_RQ] + HEAD] = words[REDO_HEAD]
            words[REDO] = 0

    def _buffer(self, rq: int, number: int) -> int:
        """Return the word where a buffer of a receive queue begins.

        Its first words are its number and its count of pieces; address, length and key of each piece follow.
        """
        place = number % self.words[rq + SIZE]
        words_each = _BUFFER_WORDS + _PIECE_WORDS * self.words[rq + SGES]
        return rq + QUEUE_ROOM // 8 + place * words_each

    def post(self, rq: int, wr: RecvWR) -> None:
        """Add a buffer to a receive queue; the device checks its keys only when a message arrives."""
        words = self.words
        tail = words[rq + TAIL]
        if len(wr.sg) > words[rq + SGES]:
            raise PyverbsRDMAError(
                f"the receive queue takes {words[rq + SGES]} SGEs, got {len(wr.sg)}", errno.EINVAL
            )
        if tail - words[rq + HEAD] >= words[rq + SIZE]:
            raise PyverbsRDMAError(
                f"the receive queue has its {words[rq + SIZE]} buffers (max_recv_wr)", errno.ENOMEM
            )
        at = self._buffer(rq, tail)
        words[at] = wr.wr_id
        words[at + 1] = len(wr.sg)
        at += _BUFFER_WORDS
        for piece in wr.sg:
            words[at] = piece.addr
            words[at + 1] = piece.length
            words[at + 2] = piece.lkey
            at += _PIECE_WORDS
        words[rq + TAIL] = tail + 1

    def receive(self, rq: int) -> Buffer:
        """Return the oldest buffer of a receive queue, which must not be empty."""
        words = self.words
        at = self._buffer(rq, words[rq + HEAD])
        first = at + _BUFFER_WORDS
        end = first + _PIECE_WORDS * words[at + 1]
        found = []
        for i in range(first, end, _PIECE_WORDS):
            found.append(Piece(words[i], words[i + 1], words[i + 2]))
        return Buffer(words[at], found)

    def complete(self, cq: int, rq: int, entry: Sequence[int], solicited: bool = False) -> bool:
        """Use up the oldest buffer of ``rq`` and add ``entry`` to ``cq``; the caller has the lock.

        The new counts of both queues are written down before either queue changes, and REDO last. If this process dies
        in between, the next holder of the lock finishes the change (`_redo`).

        Returns
        -------
        bool
            False if the completion queue has no room, which makes it unusable.
        """
        words = self.words
        tail = words[cq + TAIL]
        if tail - words[cq + HEAD] >= words[cq + SIZE]:
            words[cq + OVERRUN] = 1
            return False
        place = tail % words[cq + SIZE]
        CQE.pack_into(self.map, 8 * cq + QUEUE_ROOM + place * CQE_ROOM, *entry)

        words[REDO_TAIL] = tail + 1
        words[REDO_RQ] = rq
        words[REDO_HEAD] = words[rq + HEAD] + 1
        words[REDO] = cq
        self._redo()

        status = entry[1]
        self.notify(cq, solicited or status != 0)
        return True

    def notify(self, cq: int, solicited: bool) -> None:
        """Put an event into the completion channel, if the queue is armed for it."""
        words = self.words
        armed = words[cq + ARMED]
        if armed == 1 or (armed and solicited):
            words[cq + ARMED] = 0
            with contextlib.suppress(OSError):  # raised if the owner is gone
                path = f"/proc/{self.pid}/fd/{words[cq + PIPE]}"
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, words[cq + NUMBER].to_bytes(8, "little"))
                os.close(pipe)

    def fail(self, qp_num: int) -> None:
        """Put a queue pair of this segment into the error state and flush its receive queue, unless that is shared."""
        words = self.words
        row = qp_row(qp_num)
        words[row + STATE] = e.ibv_qp_state.IBV_QPS_ERR
        self.changed()

        rq = words[row + RQ]
        flushed = (
            e.IBV_WC_WR_FLUSH_ERR,
            e.IBV_WC_RECV,
            0,
            qp_num,
            0,
            0,
            0,
        )  # CQE_FIELDS after the first
        with self.lock():
            fits = True
            while fits and not words[row + SHARED] and words[rq + HEAD] != words[rq + TAIL]:
                entry = (self.receive(rq).wr_id, *flushed)
                fits = self.complete(words[row + RCQ], rq, entry)


def qp_row(qp_num: int) -> int:
    """Return the number of the word where the row of a queue pair begins."""
    return (_QP_TABLE + qp_num % ROWS * _QP_ROOM) // 8


def _whole_pages(size: int) -> int:
    """Return ``size`` rounded up to whole pages, at least one [B]."""
    return -(-max(size, 1) // PAGE) * PAGE


def pieces(spans: Spans, targets: Spans, step: int = _SPAN) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a copy: offset in the source, offset in the target, and bytes, at most ``step`` of them.

    If ``step`` is a multiple of 8, a copy is cut only between two words of the target, never within one.
    """
    rest = iter(spans)
    at = 0
    left = 0  # [B] of the span at hand
    for to, room in targets:
        while room:
            while not left:
                at, left = next(rest, (0, -1))
            if left < 0:
                return
            size = min(left, room, step - to % 8)
            yield at, to, size
            at += size
            to += size
            left -= size
            room -= size


def own() -> Arena:
    """Make the segment of a context of this process.

    It is an anonymous memory file, or an unnamed temporary file if the system has no memory files.

    Raises
    ------
    PyverbsRDMAError
        If the system has neither.
    """
    try:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("rdma")
        else:  # a Python built for an old C library
            fd = os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR)
        os.ftruncate(fd, _SPAN)
    except (AttributeError, OSError) as cause:
        msg = f"this device needs Linux, with files without a name and /proc: {cause!r}; use the container or Binder"
        raise PyverbsRDMAError(msg, errno.EOPNOTSUPP) from None
    token = secrets.randbits(63) | 1
    arena = Arena(fd, os.getpid(), fd, token)
    arena.base = ctypes.addressof(ctypes.c_char.from_buffer(arena.map))
    arena.words[BASE] = arena.base
    arena.words[TOKEN] = token
    _open[token] = arena
    return arena


def attach(gid: str) -> Arena:
    """Map and return the segment that a GID names.

    Raises
    ------
    PyverbsRDMAError
        If no living process of this user has it.
    """
    digits = gid.replace(":", "")
    pid = int(digits[4:10], 16)
    number = int(digits[10:16], 16)  # of the descriptor
    token = int(digits[16:], 16)
    known = _open.get(token)
    if known and known.alive:
        return known

    path = f"/proc/{pid}/fd/{number}"
    arena = None
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
    """Wait until a process ends, and mark its segment as dead; a suspended process is alive."""
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        pidfd = os.pidfd_open(pid)
        connection.wait([pidfd])
        os.close(pidfd)
    _watched.discard(token)
    dead = _open.get(token)
    if dead:
        dead.alive = False
        dead.changed()
