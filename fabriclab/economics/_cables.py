"""What bill, floor plan and legality share: how far and how fast a medium carries, and which nodes are switches."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog
from fabriclab.core import Fabric

# Medium -> the parts of catalog.media with its reach and its propagation, the cheapest medium first: copper costs
# least (source: LinkX-LACC), and optics cost more the farther they reach (source: Lux-cost).
MEDIA: Final = {
    "copper": ("dac800", "acc800"),
    "active copper": ("acc800", "acc800"),
    "fibre": ("dr4x2", "fibre"),
    "long fibre": ("fr4x2", "fibre"),
}


def reach(medium: str) -> float:
    """Return how far a medium reaches [m]; without end where no source says."""
    return catalog.value("media", MEDIA[medium][0], "reach_max") if medium in MEDIA else np.inf


def propagation(medium: str) -> float:
    """Return the time per metre [s/m]; 0 where no source says."""
    return catalog.value("media", MEDIA[medium][1], "propagation") if medium in MEDIA else 0.0


def of_kind(fabric: Fabric, *kinds: str) -> NDArray[np.bool_]:
    """Tell for every node whether it is of one of the kinds, (N,)."""
    return np.isin(fabric.kind, [code for code, kind in enumerate(fabric.kinds) if kind in kinds])


def switches(fabric: Fabric) -> NDArray[np.bool_]:
    """Tell for every node whether it is a switch: lets traffic pass, and is neither endpoint nor NIC, (N,)."""
    out: NDArray[np.bool_] = fabric.transit & ~of_kind(fabric, "nic")
    out[fabric.endpoint] = False
    return out
