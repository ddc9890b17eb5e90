"""The device: contexts, protection domains, and memory regions that peers may access."""

import errno
import os
import weakref
from types import SimpleNamespace
from typing import Any, Self

from fabriclab.core import check_memory
from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from fabriclab.rdma.records import GID, Counters, PyverbsRDMAError, PyverbsUserError, shown

DEVICE = "fabriclab0"
_FIRST_NUMBER = 17
_MOST = _arena.ROWS - _FIRST_NUMBER  # how many numbers a context can give out
_ACCESS = sum(e.ibv_access_flags)
_FIRST_TAG = (
    0x41  # lowest byte of a key; another one each time that the rest of the key is used again
)
_WRITES = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC


class Closes:
    """An object that first closes what was made from it, then itself, and does so only once."""

    def __init__(self, *makers: "Closes") -> None:
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        self.closed = False
        for maker in makers:
            if maker.closed:
                raise PyverbsUserError(
                    f"the {type(maker).__name__} that this {type(self).__name__} needs is closed"
                )
            maker._made.add(self)

    def close(self) -> None:
        """Release what the device holds for this object and for what was made from it."""
        if self.closed:
            return
        for made in list(self._made):
            made.close()
        self.closed = True
        self._close()

    def _close(self) -> None:
        """Release what the device holds for this object alone."""

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the object."""
        self.close()


class Context(Closes):
    """The device as one process has opened it.

    Parameters
    ----------
    name : str
        `DEVICE`, the only device there is.
    adversary : int, optional
        Seed of a device at its worst (see `fabriclab.rdma._wire`); 0 for the normal one. By default the environment
        variable FABRICLAB_ADVERSARY decides, so that other people's code can be tested without a change.

    Raises
    ------
    PyverbsUserError
        If the name is another one.
    PyverbsRDMAError
        If the system cannot share memory as this device does.
    """

    def __init__(self, *, name: str = DEVICE, adversary: int | None = None) -> None:
        if name != DEVICE:
            raise PyverbsUserError(
                f"there is no device {name!r} here; the device in software is {DEVICE!r}"
            )
        super().__init__()
        self.name = name
        self.counters = Counters()
        self.arena = _arena.own()
        if adversary is None:
            self.adversary = os.environ.get("FABRICLAB_ADVERSARY", "0")
        else:
            self.adversary = str(adversary)
        self._numbers = iter(
            range(_FIRST_NUMBER, _arena.ROWS)
        )  # of queue pairs and of other objects
        self.freed = list[int]()  # keys of closed regions, each with a new tag, for reuse

    def number(self) -> int:
        """Return a number that no object of this context has had before."""
        number = next(self._numbers, 0)
        if not number:
            raise PyverbsRDMAError(
                f"a context makes {_MOST} queues and regions; all are used up", errno.ENOMEM
            )
        return number

    def query_device(self) -> SimpleNamespace:
        """Return the limits of the device."""
        return SimpleNamespace(max_qp=_MOST, max_mr=_MOST, max_sge=32, max_qp_rd_atom=16)

    def query_port(self, port_num: int) -> SimpleNamespace:
        """Return the attributes of the only port."""
        self.query_gid(port_num, 0)
        return SimpleNamespace(
            state=4, max_mtu=e.IBV_MTU_4096, active_mtu=e.IBV_MTU_4096, lid=0, gid_tbl_len=1
        )

    def query_gid(self, port_num: int, index: int) -> GID:
        """Return the address that peers need to reach this context."""
        if (port_num, index) != (1, 0):
            raise PyverbsRDMAError(
                f"the device has port 1 with GID 0, got {port_num} and {index}", errno.EINVAL
            )
        return GID(self.arena.gid)

    def query_pkey(self, port_num: int, index: int) -> int:
        """Return the only partition key, the default one."""
        self.query_gid(port_num, index)
        return 0xFFFF

    def _close(self) -> None:
        self.arena.words[_arena.TOKEN] = 0


class PD(Closes):
    """A protection domain: a queue pair can access only memory of its own domain."""

    def __init__(self, creator: Context) -> None:
        super().__init__(creator)
        self.context = creator
        self.number = creator.number()


class AH(Closes):
    """An address handle: where to send datagrams."""

    def __init__(self, pd: PD, *, attr: Any) -> None:
        super().__init__(pd)
        self.peer = _arena.attach(attr.gr.dgid.gid)


class MR(Closes):
    """A registered memory region, which is shared memory.

    Parameters
    ----------
    creator : PD
        Protection domain of the region.
    length : int
        [B], > 0
    access : int
        Sum of `ibv_access_flags`; remote writes and atomics also need LOCAL_WRITE.
    address : int, optional
        Address in a region of this context, to register a part of it once more; by default new memory is made.

    Raises
    ------
    PyverbsRDMAError
        If the flags contradict each other, or ``address`` is not memory of this context, which no peer could map.
    TooLarge
        If there is not enough memory.
    """

    def __init__(
        self, creator: PD, length: int = 0, access: int = 0, address: int | None = None
    ) -> None:
        super().__init__(creator)
        unknown = access & ~_ACCESS
        only_peers_write = access & _WRITES and not access & e.IBV_ACCESS_LOCAL_WRITE
        if length <= 0 or unknown or only_peers_write:
            msg = "a region has a length > 0, flags of the device, and LOCAL_WRITE if peers may write: got length "
            raise PyverbsRDMAError(f"{msg}{length}, access {access:#x}", errno.EINVAL)
        self.pd = creator
        self.length = length
        self.context = creator.context
        arena = self.context.arena
        self._made_here = address is None
        if address is None:
            check_memory(length, f"a memory region of {length} B", "register less")
            self.at = arena.alloc(length)
        else:
            self.at = arena.inside(address, length)
        if self.at < 0:
            msg = f"address {address:#x} with {length} B is not in a region of this context, so no peer could map it; "
            raise PyverbsRDMAError(
                msg + "leave address out, and use the memory that is made", errno.EFAULT
            )

        if self.context.freed:
            key = self.context.freed.pop()
        else:
            key = self.context.number() << 8 | _FIRST_TAG
        self.lkey = key
        self.rkey = key
        self.buf = arena.base + self.at
        self._place = _arena.MR_TABLE + (self.lkey >> 8) * _arena.MR_ROW.size
        _arena.MR_ROW.pack_into(
            arena.map, self._place, self.lkey, access, self.buf, self.buf + length, creator.number
        )
        arena.changed()

    @property
    def memory(self) -> memoryview:
        """The bytes of the region, for ``numpy.frombuffer``; what peers write appears here."""
        return self.context.arena.bytes[self.at : self.at + self.length]

    def read(self, length: int, offset: int) -> bytes:
        """Return a copy of ``length`` bytes that begin at ``offset``."""
        self._check(length, offset)
        return bytes(self.memory[offset : offset + length])

    def write(self, data: str | bytes, length: int, offset: int = 0) -> None:
        """Copy the first ``length`` bytes of ``data`` into the region at ``offset``."""
        self._check(length, offset)
        raw = data.encode() if isinstance(data, str) else data
        if len(raw) < length:
            raise PyverbsUserError(f"{length} B were to be written, and data has {len(raw)}")
        self.memory[offset : offset + length] = raw[:length]

    def _check(self, length: int, offset: int) -> None:
        if self.closed or offset < 0 or length < 0 or offset + length > self.length:
            where = "a closed region" if self.closed else f"a region of {self.length} B"
            raise PyverbsUserError(f"{length} B at offset {offset} are not in {where}")
        self.context.counters.copies += 1

    def _close(self) -> None:
        _arena.MR_ROW.pack_into(self.context.arena.map, self._place, 0, 0, 0, 0, 0)
        self.context.arena.changed()
        next_tag = (self.lkey + 1) % 256
        self.context.freed.append(self.lkey & ~0xFF | next_tag)
        if self._made_here:
            self.context.arena.free(self.at, self.length)

    __repr__ = shown("buf", "length", "lkey", "rkey")
