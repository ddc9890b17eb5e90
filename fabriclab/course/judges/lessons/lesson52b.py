"""Lesson 52b: the share of a cable that carries data."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    explained,
    mistake_of,
    number_of,
)
from fabriclab.physics import frames
from fabriclab.registry import register
from fabriclab.texts import text

Goodput = Callable[[int], Any]  # data [B] -> share of the cable, 0..1

# illustrative: a full packet, small ones, and sizes that are no multiple of 4 B
_SIZES = (4096, 1024, 64, 1, 4095, 257)  # [B]
_IN_FRAME = 62  # source: RoCE v2, as in `fabriclab.physics.frames`
_AROUND = 20  # source: IEEE 802.3, preamble and gap


def goodput(data: int) -> float:
    """Return the share of the cable that carries data in a frame of RoCE v2, 0..1."""
    return frames.roce_v2(bytes(data)).goodput


# What somebody with a mistake returns, by its name.
GOODPUT_MISTAKES: dict[str, Callable[[int], float]] = {
    "preamble and gap forgotten": lambda data: data / (data + -data % 4 + _IN_FRAME),
    "padding forgotten": lambda data: data / (data + _IN_FRAME + _AROUND),
    "overhead over data": lambda data: 1 - (_IN_FRAME + _AROUND + -data % 4) / data,
}


@register("check", "52b-write-goodput")
def goodput_of_frame(answer: Goodput) -> Verdict:
    """Run ``answer(data)``, the share of the cable that carries data, 0..1, on frames of several sizes."""
    cases = [(size,) for size in _SIZES]
    returned = [number_of(answer, size) for size in _SIZES]
    right = [goodput(size) for size in _SIZES]
    tried = tuple(
        TriedCase(
            text("trace.goodput", data=f"{size:,} B"),
            bool(np.isclose(got, want, rtol=ROUNDING, atol=0)),
            "",
            f"{got:.4g}",
            f"{want:.4g}",
        )
        for size, got, want in zip(_SIZES, returned, right, strict=True)
    )
    for size, got, want, done in zip(_SIZES, returned, right, tried, strict=True):
        if not done.right:
            line = text(
                "function.goodput", data=f"{size:,} B", got=f"{got:.4g}", right=f"{want:.4g}"
            )
            mistake = mistake_of(returned, GOODPUT_MISTAKES, cases)
            return False, [line, *explained("52b-write-goodput", mistake)], mistake, Trace(tried)
    return True, [], ""
