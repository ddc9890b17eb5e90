"""A plain window: so many bytes may be on their way, whatever happens."""

from typing import Any

from fabriclab import units
from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures
from fabriclab.engines.packet.control import Control, Place, do_nothing
from fabriclab.engines.packet.state import LINE, RATE, WINDOW
from fabriclab.registry import register


@register("control", "window")
def window(place: Place, window: units.Quantity | None = None) -> Control:
    """Return a control loop that keeps the same window from beginning to end, and reacts to nothing.

    Parameters
    ----------
    place : Place
        Rate and round trip of the network.
    window : float or str, optional
        Bytes that may be on their way; twice the bytes that fill the longest path unless given. [B], > 0
    """
    if window is None:
        size = 2 * place.rate * place.round_trip + 2 * place.payload
    else:
        size = units.size(window, "window", may_be_zero=False)
    return Control((size,), start, stay, do_nothing)


@kernel(signatures.on_start)
def start(parameters: Any, own: Any, i: int, now: int) -> None:
    """Open the window."""
    own[i + WINDOW] = parameters[0]
    own[i + RATE] = own[i + LINE]


@kernel(signatures.on_feedback)
def stay(
    parameters: Any,
    own: Any,
    i: int,
    now: int,
    trip: int,
    acked: int,
    marked: int,
    lost: int,
    load: float,
) -> None:
    """Change nothing."""
    return
