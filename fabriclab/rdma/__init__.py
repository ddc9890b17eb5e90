"""Remote direct memory access (RDMA): a software device with the names of pyverbs that really moves memory.

Memory regions are shared memory. A WRITE, READ or atomic of one process accesses the memory of another without its
help: the other process may even be suspended. Not yet run on a hardware device.

References
----------
.. [1] rdma-core, pyverbs 44.0, and ibverbs(7); what they leave open follows the InfiniBand Architecture Specification.
"""

import importlib
from typing import Any

from fabriclab.processes import Process
from fabriclab.rdma import enums
from fabriclab.rdma.adapter import Verbs, connect, use, wait
from fabriclab.rdma.device import AH, DEVICE, MR, PD, Context
from fabriclab.rdma.qp import QP
from fabriclab.rdma.queues import CQ, SRQ, CompChannel
from fabriclab.rdma.records import (
    GID,
    SGE,
    WC,
    AHAttr,
    Counters,
    GlobalRoute,
    PyverbsError,
    PyverbsRDMAError,
    PyverbsUserError,
    QPAttr,
    QPCap,
    QPInitAttr,
    RecvWR,
    SendWR,
    SrqAttr,
    SrqInitAttr,
)

__all__ = [
    "AH",
    "CQ",
    "DEVICE",
    "GID",
    "MR",
    "PD",
    "QP",
    "SGE",
    "SRQ",
    "WC",
    "AHAttr",
    "CompChannel",
    "Context",
    "Counters",
    "GlobalRoute",
    "Process",
    "PyverbsError",
    "PyverbsRDMAError",
    "PyverbsUserError",
    "QPAttr",
    "QPCap",
    "QPInitAttr",
    "RecvWR",
    "SendWR",
    "SrqAttr",
    "SrqInitAttr",
    "Verbs",
    "connect",
    "enums",
    "timing",
    "use",
    "wait",
]


def __getattr__(name: str) -> Any:
    """Load the timing model when it is first used, so that processes that only move memory start without it."""
    if name != "timing":
        raise AttributeError(f"fabriclab.rdma has no {name!r}; its names are {', '.join(__all__)}")
    return importlib.import_module("fabriclab.rdma.timing")


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
