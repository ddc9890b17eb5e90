"""Real measurements on this machine: memory copies, sockets, one-sided transfers, and collectives between processes."""

from fabriclab.measure._collectives import all_gather, all_reduce, broadcast, reduce_scatter
from fabriclab.measure._host import copy, once, one_sided, sockets
from fabriclab.measure._launch import NotMeasured, cores, has_mpi
from fabriclab.measure._rounds import WrongAnswer, stored

__all__ = [
    "NotMeasured",
    "WrongAnswer",
    "all_gather",
    "all_reduce",
    "broadcast",
    "copy",
    "cores",
    "has_mpi",
    "once",
    "one_sided",
    "reduce_scatter",
    "sockets",
    "stored",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
