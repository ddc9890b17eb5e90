"""Control loops of senders: one file each, which registers itself.

A control loop is three functions over the numbers that it keeps of a connection. ``on_start`` sets its first window and
rate, ``on_send`` is called before each packet and lets time pass, and ``on_feedback`` is called with each
acknowledgement. They write the window [B] and the rate [B/s] to two places of the array ``own``, from which the engine
reads them; the places from ``OWN`` on are theirs. Where a loop waits for a clock, it catches up before the next packet.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fabriclab.compiled import kernel
from fabriclab.engines.packet import signatures

__all__ = ["Control", "Marking", "Place", "do_nothing"]


class Place(NamedTuple):
    """Where a control loop works: what it may scale its parameters by."""

    rate: float  # of the fastest port of a sender [B/s]
    round_trip: float  # longest of an empty path, there and back [s]
    payload: int  # of a full packet [B]


class Marking(NamedTuple):
    """When switches mark: never below a queue of ``low``, with chance ``most`` just below ``high``, always above it."""

    low: float  # Kmin [B]
    high: float  # Kmax [B]
    most: float = 1.0  # Pmax


class Control(NamedTuple):
    """A control loop, ready to run.

    Parameters
    ----------
    parameters : sequence of float
        What its functions read as their first argument.
    on_start, on_send, on_feedback : callable
        Kernels; see `fabriclab.engines.packet.signatures`.
    marking : Marking, optional
        How switches mark for it unless the settings say otherwise; a port of another rate scales it.
    mark_gap : float
        A receiver passes a mark on at most once in this time. [s]
    telemetry : bool
        Whether switches write their queues into the packets.
    """

    parameters: Sequence[float]
    on_start: Callable[..., None]
    on_feedback: Callable[..., None]
    on_send: Callable[..., None]
    marking: Marking | None = None
    mark_gap: float = 0.0
    telemetry: bool = False


@kernel(signatures.on_send)
def do_nothing(parameters: Any, own: Any, i: int, now: int, size: int) -> None:
    """Let no time pass: for a loop that acts on acknowledgements alone."""
    return
