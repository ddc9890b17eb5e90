"""One interface to the verbs, through pyverbs if there is a device and through the software device elsewhere.

`connect` connects a queue pair to that of a peer, and `wait` polls until a request has completed.
"""

import importlib
import time
from typing import Any

from fabriclab.rdma import enums
from fabriclab.rdma.device import MR
from fabriclab.rdma.enums import TABLE
from fabriclab.rdma.qp import QP
from fabriclab.rdma.queues import CQ
from fabriclab.rdma.records import GID, WC, AHAttr, GlobalRoute, QPAttr

_HOMES: dict[str, str] = TABLE["homes"]  # module of pyverbs -> its names, separated by blanks
_EVERY_RIGHT = (
    enums.IBV_ACCESS_LOCAL_WRITE
    | enums.IBV_ACCESS_REMOTE_WRITE
    | enums.IBV_ACCESS_REMOTE_READ
    | enums.IBV_ACCESS_REMOTE_ATOMIC
)


class Verbs:
    """The names of the verbs; ``DEVICE`` is the name to open with ``Context``, ``about`` describes the device."""

    def __init__(self, device: str, about: str, names: dict[str, Any]) -> None:
        self.DEVICE = device
        self.about = about
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        """Raise an error that lists the existing names; it is called only for names that do not exist."""
        raise AttributeError(f"{self!r} has no {name!r}; it has {', '.join(sorted(vars(self)))}")

    def __repr__(self) -> str:
        """Show which device it is."""
        return f"<Verbs: {self.about}>"


def use(device: str = "") -> Verbs:
    """Return the verbs of a device, by default of the first one that pyverbs finds, or else of the software device.

    Both have the names of pyverbs; ``MR.memory``, ``Context.counters`` and `Process` exist for the software device
    only. Not yet run on a hardware device.

    Raises
    ------
    PyverbsUserError
        If there is no device of this name.

    Examples
    --------
    >>> verbs = use("fabriclab0")
    >>> verbs, verbs.Context(name=verbs.DEVICE).query_pkey(1, 0)
    (<Verbs: the device in software>, 65535)
    """
    found: list[str] = []
    why = "pyverbs finds no device"
    try:
        entries = importlib.import_module("pyverbs.device").get_device_list()
        found = [entry.name.decode() for entry in entries]
    except Exception as error:  # pyverbs is not installed, or finds no driver
        why = f"{why} ({error})"
    if found and device in ("", *found):
        return _by_pyverbs(device or found[0])

    here = importlib.import_module(__package__)
    if device not in ("", here.DEVICE):
        raise here.PyverbsUserError(
            f"there is no device {device!r}; there are {', '.join([*found, here.DEVICE])}"
        )
    names = {}
    for listed in _HOMES.values():
        for name in listed.split():
            names[name] = getattr(here, name)
    names["enums"] = here.enums
    about = "the device in software"
    if not device:
        about += f": {why}"
    return Verbs(here.DEVICE, about, names)


def _by_pyverbs(device: str) -> Verbs:
    """Return the verbs of a device that pyverbs found."""
    homes = {home: importlib.import_module(f"pyverbs.{home}") for home in (*_HOMES, "enums")}
    names = {}
    for home, listed in _HOMES.items():
        for name in listed.split():
            names[name] = getattr(homes[home], name)
    names["enums"] = homes["enums"]
    return Verbs(device, f"{device}, by pyverbs", names)


def connect(qp: QP, mr: MR, pipe: Any = None) -> tuple[int, int]:
    """Connect a reliable queue pair to that of the process at the other end of a pipe, which must do the same.

    Both processes exchange their addresses and keys, and wait for each other. Without a pipe the pair is connected to
    itself.

    Returns
    -------
    tuple of int
        Key (rkey) and address of the peer's region.
    """
    peer = (qp.pd.context.query_gid(1, 0).gid, qp.qp_num, mr.rkey, mr.buf)
    if pipe is not None:
        pipe.send(peer)
        peer = pipe.recv()
    gid, qp_num, rkey, address = peer

    attr = QPAttr()
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(gid)), is_global=1)
    attr.dest_qp_num = qp_num
    attr.qp_access_flags = _EVERY_RIGHT  # so that the flags of the region decide
    attr.max_rd_atomic = 1
    attr.max_dest_rd_atomic = 1
    # illustrative: patient enough for a busy machine, 4.096 us x 2^10 three times
    attr.timeout = 10
    attr.retry_cnt = 3
    attr.rnr_retry = 3
    # source: code 1 is 10 us, InfiniBand specification, encoding of RNR NAK timers
    attr.min_rnr_timer = 1
    qp.to_rts(attr)

    if pipe is not None:
        pipe.send("ready")
        pipe.recv()
    return rkey, address


def wait(cq: CQ, seconds: float = 10.0) -> WC:  # illustrative: far longer than a request takes
    """Poll a completion queue until it has a completion, and return that one.

    A failed request completes, too: look at ``status`` of what is returned. A thread that polls keeps a core busy.

    Parameters
    ----------
    cq : CQ
        The queue to poll.
    seconds : float
        How long to poll. [s], >= 0

    Raises
    ------
    TimeoutError
        If no request has completed after this time, for example because none was posted with a completion.

    Examples
    --------
    >>> from fabriclab.rdma import CQ, Context
    >>> wait(CQ(Context(), 16), seconds=0.01)
    Traceback (most recent call last):
    TimeoutError: nothing completed within 0.01 s: is this the queue of the request, and was it posted signalled?
    """
    end = time.monotonic() + seconds
    while True:
        _, found = cq.poll()
        if found:
            return found[0]
        if time.monotonic() >= end:
            msg = f"nothing completed within {seconds:g} s: "
            raise TimeoutError(
                msg + "is this the queue of the request, and was it posted signalled?"
            )
