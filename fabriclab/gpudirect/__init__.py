"""Inside the server: paths of a transfer by each mechanism, rates of PCIe, and what a server tells of itself."""

from fabriclab.gpudirect.copies import Move, pcie_part
from fabriclab.gpudirect.paths import MECHANISMS, Path, calls, misplaced, path, published, register
from fabriclab.gpudirect.tools import (
    RdmaPort,
    Topology,
    read_ibv_devinfo,
    read_rdma_link,
    read_topo,
    topo,
)

__all__ = [
    "MECHANISMS",
    "Move",
    "Path",
    "RdmaPort",
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
    "topo",
]
