"""Lesson 21: switches of a network of servers."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from fabriclab import metrics, topologies
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    explained,
    mistake_of,
    name_of,
    number_of,
)
from fabriclab.registry import register
from fabriclab.texts import text

Count = Callable[[int, int], Any]  # GPUs and ports of a switch -> number of switches
# GPUs and ports of a switch. Networks of two and three tiers in which every port is in use.
NETWORKS: Sequence[tuple[int, int]] = (
    (1024, 64),
    (2048, 64),
    (8192, 64),
    (4096, 64),
    (128, 16),
    (1024, 16),
    (8192, 128),
)
_GPUS_OF_SERVER = 8
COUNT_MISTAKES: dict[str, Callable[[int, int], float]] = {
    "NIC ports only": lambda gpus, radix: gpus / radix,
    "leaves only": lambda gpus, radix: 2 * gpus / radix,
    "two tiers always": lambda gpus, radix: 3 * gpus / radix,
    "three tiers always": lambda gpus, radix: 5 * gpus / radix,
    "ports up from the top": lambda gpus, radix: (_ports_of(gpus, radix) + 1) * gpus / radix,
    "two tiers of whole leaves": lambda gpus, radix: _ports_of(gpus / 2, radix) * gpus / radix,
    "full is too many": lambda gpus, radix: _ports_of(gpus + 1, radix) * gpus / radix,
    "ports for switches": lambda gpus, radix: _ports_of(gpus, radix) * gpus,
}


def _ports_of(gpus: float, radix: int) -> int:
    """Return the switch ports of each GPU in two tiers, or in three if so many GPUs do not fit on two."""
    return 3 if gpus <= radix * radix / 2 else 5


@cache
def built_switches(gpus: int, radix: int) -> int:
    """Build one network of servers on rails, with as many ports up as down, and count its switches."""
    servers = gpus // _GPUS_OF_SERVER
    return metrics.switches(
        topologies.build("rail_optimised", servers=servers, radix=radix, expand=False)
    )


@register("check", "21-write-switches")
def switches(answer: Count) -> Verdict:
    """Run ``answer(gpus, radix)``; right is the number of switches of the network that the library builds."""
    returned = []
    for gpus, radix in NETWORKS:
        returned.append(number_of(answer, gpus, radix))

    cases = tuple(
        _count_case(name_of(answer), *each, found)
        for each, found in zip(NETWORKS, returned, strict=True)
    )
    for (gpus, radix), found, tried in zip(NETWORKS, returned, cases, strict=True):
        if not tried.right:
            right = built_switches(gpus, radix)
            line = text(
                "function.switches", gpus=gpus, radix=radix, got=f"{found:.6g}", right=right
            )
            name = mistake_of(returned, COUNT_MISTAKES, NETWORKS)
            trace = Trace(cases, look=text("trace.look_switches", gpus=gpus))
            return False, [line, *explained("21-write-switches", name)], name, trace
    return True, [], ""


def _count_case(name: str, gpus: int, radix: int, found: float) -> TriedCase:
    """Return the case of a network, and whether a number of switches is that of the network that the library builds."""
    right = built_switches(gpus, radix)
    is_right = bool(np.isclose(found, right, rtol=ROUNDING))
    went_in = text("trace.network", gpus=gpus, radix=radix)
    call = f"{name}({gpus}, {radix})"
    return TriedCase(went_in, is_right, call, f"{found:,.6g}", f"{right:,}")
