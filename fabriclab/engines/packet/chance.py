"""Random numbers of the engine, which are the same in plain Python and compiled."""

from typing import Any

from fabriclab.compiled import kernel
from fabriclab.engines.packet.state import RANDOM

ONE = 1 << 32  # a chance c is the event that a draw is below c * ONE


@kernel()
def draw(whole: Any) -> int:
    """Return a random whole number within 0..2^32 - 1 (xorshift of 32 bits [1]_).

    References
    ----------
    .. [1] G. Marsaglia, Xorshift RNGs, Journal of Statistical Software 8(14), 2003: shifts 13, 17 and 5.
    """
    x = whole[RANDOM]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    whole[RANDOM] = x
    return x
