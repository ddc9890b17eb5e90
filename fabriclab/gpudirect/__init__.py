"""Inside the server: paths of a transfer by each mechanism, rates of PCIe, and what a server tells of itself."""

from fabriclab.gpudirect.copies import Move
from fabriclab.gpudirect.devices import RdmaPort, read_ibv_devinfo, read_rdma_link
from fabriclab.gpudirect.paths import CALLS, MECHANISMS, Path, path
from fabriclab.gpudirect.pcie import pcie_part
from fabriclab.gpudirect.topo import Topology, read_topo, topo

__all__ = [
    "CALLS", "MECHANISMS", "Move", "Path", "RdmaPort", "Topology", "path", "pcie_part", "read_ibv_devinfo",
    "read_rdma_link", "read_topo", "topo",
]  # fmt: skip
