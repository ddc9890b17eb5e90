"""What links, memory and emerging parts can do; each figure has its source, and each model its limits.

Examples
--------
>>> from fabriclab import physics
>>> physics.media.choose("2 m", "800 Gb/s").medium
'copper'
"""

from fabriclab.physics import (
    coding,
    electrical,
    frames,
    media,
    memory,
    optical,
    photonic,
    quantum,
    switching,
    wireless,
)
from fabriclab.physics._facts import held

__all__ = [
    "coding",
    "electrical",
    "frames",
    "held",
    "media",
    "memory",
    "optical",
    "photonic",
    "quantum",
    "switching",
    "wireless",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
