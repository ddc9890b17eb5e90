"""Transfers inside a server: their paths by each mechanism, the rates of PCIe, and what tools report about a server."""

from fabriclab.gpudirect.copies import Move, pcie_part
from fabriclab.gpudirect.matrix_paths import MatrixPath
from fabriclab.gpudirect.paths import (
    MECHANISMS,
    Path,
    SlowServer,
    calls,
    misplaced,
    path,
    published,
    register,
    slow_servers,
)
from fabriclab.gpudirect.rdma_ports import RdmaPort, read_ibv_devinfo, read_rdma_link
from fabriclab.gpudirect.tools import Topology, read_topo, topo

__all__ = [
    "MECHANISMS",
    "MatrixPath",
    "Move",
    "Path",
    "RdmaPort",
    "SlowServer",
    "Topology",
    "calls",
    "misplaced",
    "path",
    "pcie_part",
    "published",
    "read_ibv_devinfo",
    "read_rdma_link",
    "read_topo",
    "register",
    "slow_servers",
    "topo",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
