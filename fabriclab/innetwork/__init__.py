"""In-network reduction: switches that add what hosts send."""

from fabriclab.innetwork.expressions import ProgramRefused, look_up, saturating_add, where
from fabriclab.innetwork.pipeline import (
    DROP,
    MULTICAST,
    REPLY,
    UP,
    Packet,
    Program,
    Register,
    devices,
)
from fabriclab.innetwork.switch import Outcome, Switch

__all__ = [
    "DROP",
    "MULTICAST",
    "REPLY",
    "UP",
    "Outcome",
    "Packet",
    "Program",
    "ProgramRefused",
    "Register",
    "Switch",
    "devices",
    "look_up",
    "saturating_add",
    "where",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
