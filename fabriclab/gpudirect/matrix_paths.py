"""Paths as the matrix of ``nvidia-smi topo -m`` shows them: what they pass, and what the matrix cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

from fabriclab.core import as_html
from fabriclab.gpudirect.tools import Topology

__all__ = ["MatrixPath", "matrix_path"]

# What lies between two parts, by the class of their pair. Source: the legend that nvidia-smi topo -m prints.
_BETWEEN = {
    "NV": ("NVLink",),
    "PIX": ("one PCIe switch",),
    "PXB": ("several PCIe switches",),
    "PHB": ("the PCIe root of one processor",),
    "NODE": ("several PCIe roots of one processor",),
    "SYS": ("one processor", "the link between processors", "another processor"),
}
_IN_WORDS = {
    "NV": "over NVLink",
    "PIX": "over one PCIe switch",
    "PXB": "over several PCIe switches",
    "PHB": "over the PCIe root of one processor",
    "NODE": "over several PCIe roots of one processor",
    "SYS": "over two processors and the link between them",
}
_RATE = "rate and latency: generation and lanes of the PCIe links (LnkSta of lspci -vv)"
_NVLINK = "rate and latency: generation of the NVLinks, and whether switches join them (nvidia-smi nvlink -s)"
_ACS = "whether bridges send the requests up to the processor all the same (ACSCtl of lspci -vv)"
_IOMMU = "whether the IOMMU translates addresses (iommu on the kernel's command line)"
_MODULE = "whether the NIC is given the GPU's memory (nvidia_peermem or DMA-BUF; NCCL's log then says GDRDMA)"
_MAKER = "maker of the processors, and rate of the link between them (lscpu)"
_HOST = "how GPU and NIC are attached to the processor whose memory is used"
_COPIES = {"nvlink": 1, "peer": 1, "cpu": 1, "pinned": 2, "pageable": 4}


@dataclass(frozen=True, repr=False)
class MatrixPath:
    """A path between two parts of a server, as far as the matrix of ``nvidia-smi topo -m`` shows it.

    Parameters
    ----------
    source, target : str
        The two parts, as the matrix names them.
    mechanism : str
        How the bytes are moved, as for `path`.
    relation : str
        Class of the pair, such as ``"PIX"`` or ``"NV18"``.
    parts : tuple of str
        What a transfer passes, in words, both ends included.
    unknown : tuple of str
        What the matrix cannot tell, and which tool can.
    """

    source: str
    target: str
    mechanism: str
    relation: str
    parts: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def copies(self) -> int:
        """Number of times the bytes are copied."""
        return _COPIES[self.mechanism]

    def __repr__(self) -> str:
        """Show ends, class and what lies between them in one line."""
        between = _IN_WORDS[_kind(self.relation)]
        if self.copies > 1:
            between = "through host memory"
        return (
            f"<MatrixPath {self.source} to {self.target}, {self.mechanism}: {self.relation}, {between}; "
            "its rate is not in a matrix>"
        )

    def draw(self) -> str:
        """Return the path as text, with what the matrix cannot tell below it."""
        lines = [f"{' - '.join(self.parts)} ({self.relation})", "The matrix does not tell:"]
        lines += [f"- {words}" for words in self.unknown]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [("path", " - ".join(self.parts)), ("class", self.relation)]
        rows += [("not in the matrix", words) for words in self.unknown]
        return as_html(rows, repr(self)[1:-1])


def _kind(relation: str) -> str:
    """Return a class without the number of links."""
    return relation.rstrip("0123456789")


def matrix_path(matrix: Topology, source: str, target: str, mechanism: str) -> MatrixPath:
    """Return the path between two parts of a matrix by a mechanism of `fabriclab.gpudirect.path`.

    Parameters
    ----------
    matrix : Topology
        From `read_topo` or `topo`.
    source, target : str
        Two different parts by name, such as ``"GPU0"`` and ``"NIC3"``, or by device.
    mechanism : str
        ``"nvlink"``, ``"peer"``, ``"pinned"``, ``"pageable"`` or ``"cpu"``.

    Raises
    ------
    ValueError
        If a part does not exist, or the mechanism does not join the two.
    """
    a = matrix.name_of(source)
    b = matrix.name_of(target)
    relation = matrix.relation(a, b)
    kind = _kind(relation)
    gpus = [name for name in (a, b) if name.startswith("GPU")]
    if a == b or not gpus:
        raise ValueError(
            f"source and target must be two parts of which one is a GPU, got {a!r} and {b!r}"
        )
    if mechanism == "cpu":
        raise ValueError(
            "cpu joins a GPU and host memory, and a matrix of nvidia-smi topo -m has no row for memory; "
            f"got {a!r} and {b!r}"
        )
    if mechanism == "nvlink" and kind != "NV":
        raise ValueError(
            f"nvlink joins GPUs with NVLinks, and {a} and {b} are {relation}; take peer"
        )
    if mechanism == "peer" and kind == "NV":
        raise ValueError(
            f"{a} and {b} are joined by NVLink ({relation}), which hides their PCIe path; take nvlink"
        )

    if mechanism in ("pinned", "pageable"):
        return MatrixPath(a, b, mechanism, relation, (a, "host memory", b), (_RATE, _HOST, _IOMMU))
    if kind == "NV":
        return MatrixPath(a, b, mechanism, relation, (a, *_BETWEEN["NV"], b), (_NVLINK,))
    unknown = [_RATE, _IOMMU]
    if kind in ("PIX", "PXB"):
        unknown.append(_ACS)
    if kind == "SYS":
        unknown.append(_MAKER)
    if len(gpus) == 1:
        unknown.append(_MODULE)
    return MatrixPath(a, b, mechanism, relation, (a, *_BETWEEN[kind], b), tuple(unknown))
