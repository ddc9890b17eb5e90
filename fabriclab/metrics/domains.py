"""Scale-up domains: how the links of the GPUs are spread over switch chips, and how many ports are left."""

from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric

OWN_LINKS = ("nvlink", "xgmi")  # media of links that belong to the GPUs and not to a network


class Domain(NamedTuple):
    """A scale-up domain in numbers.

    Parameters
    ----------
    gpus, chips : int
        GPUs that are joined, and switch chips that join them (0 for a mesh).
    layers : int
        Layers of switch chips, one above the other.
    to_a_chip : int
        Most links of one GPU to one chip; 0 without chips.
    ports_used, ports_free : int
        Ports of all chips.
    gpu_rate : float
        What all links of a GPU send in one direction. [B/s]
    """

    gpus: int
    chips: int
    layers: int
    to_a_chip: int
    ports_used: int
    ports_free: int
    gpu_rate: float


def domain(fabric: Fabric) -> Domain:
    """Return how the GPUs of a server or rack are joined: by which chips, in how many layers, with which ports left.

    Parameters
    ----------
    fabric : Fabric
        One scale-up domain, such as ``fl.topologies.build("nvl72")``.

    Raises
    ------
    ValueError
        If the fabric has no GPUs with links of their own.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> joined = domain(topologies.build("dgx_h100"))
    >>> joined.chips, joined.layers, joined.ports_used, joined.ports_free
    (4, 1, 144, 112)
    """
    media = np.isin(np.array(fabric.media)[fabric.medium], OWN_LINKS)  # (L,)
    own = media & (fabric.source == fabric.endpoint[0])
    if not own.any():
        raise ValueError(
            f"domain needs GPUs with links of their own ({', '.join(OWN_LINKS)}), got {fabric}"
        )

    is_chip = np.zeros(fabric.n_nodes, dtype=bool)
    if "nvswitch" in fabric.kinds:
        is_chip[fabric.nodes("nvswitch")] = True
    to_chips = own & is_chip[fabric.target]
    used = fabric.ports_used[is_chip]
    return Domain(
        gpus=fabric.n_ranks,
        chips=int(is_chip.sum()),
        layers=int(np.unique(fabric.tier[is_chip]).size),
        to_a_chip=int(fabric.ports[to_chips].max()) if to_chips.any() else 0,
        ports_used=int(used.sum()),
        ports_free=int((fabric.radix[is_chip] - used).sum()),
        gpu_rate=float(fabric.capacity[own].sum()),
    )
