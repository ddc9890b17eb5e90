"""The switch ports that one GPU needs in a network of one, two or three tiers, drawn as a ladder of switches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.texts import text
from fabriclab.views.page import Picture, Table
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    ink_on,
    lines,
    printed,
    texts,
)

_NAMES = ("leaf", "spine", "core")
MOST = len(_NAMES)
_WIDTH = 300.0  # of one ladder [px]
_BOX, _HIGH = 110.0, 50.0  # a switch
_RUNG = 88.0  # from one tier to the next
_PORT = 20.0
_TITLE = 58.0


def tiers(
    counts: Iterable[int] = (2, 3), *, radix: int = 64, finding: str | None = None
) -> Picture:
    """Draw one GPU's share of a network with so many tiers: every cable on the path up, and the ports at its ends.

    Each switch has as many ports up as down, except at the top, where all lead down. So each cable of a GPU goes on as
    one cable to the next tier, and a tier adds the two ports at the ends of that cable.

    Parameters
    ----------
    counts : iterable of int
        Numbers of tiers to draw side by side. Each 1..3
    radix : int
        Ports of a switch; even. >= 2
    finding : optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If a number is out of its range, or there is none.
    """
    numbers = [units.count(n, "number of tiers", 1, MOST) for n in counts]
    if not numbers:
        raise ValueError("tiers needs at least one number of tiers, such as (2, 3), got none")
    ports = units.count(radix, "radix", 2)
    if ports % 2:
        raise ValueError(f"radix must be even, so that half of the ports lead up, got {ports}")
    return printed(tiers_scene(numbers, ports), finding=finding)


def ports_per_gpu(n_tiers: int) -> int:
    """Return the switch ports that each GPU needs: two for each tier, but only one for the tier at the top."""
    return 2 * n_tiers - 1


def most_gpus(n_tiers: int, radix: int) -> int:
    """Return the largest number of GPUs: all ports of the top lead down, and half of those of each tier below it."""
    below_the_top: int = (radix // 2) ** (n_tiers - 1)
    return radix * below_the_top


def tiers_scene(numbers: list[int], radix: int) -> Scene:
    """Return the ladders side by side; the table has a row for each."""
    height = _TITLE + _RUNG * max(numbers) + 34
    layers: dict[str, Layer] = {}
    for place, n_tiers in enumerate(numbers):
        for name, layer in _ladder(n_tiers, radix, 16 + _WIDTH * place, height).items():
            layers[f"{name} {place}"] = layer
    table = Table(
        {
            "tiers": numbers,
            "ports per GPU": [ports_per_gpu(n) for n in numbers],
            "GPUs, at most": [most_gpus(n, radix) for n in numbers],
        }
    )
    parts = [text("tiers.part", tiers=n, ports=ports_per_gpu(n)) for n in numbers]
    said = text("tiers.said", parts="; ".join(parts), radix=radix)
    return Scene(said, table, layers, height, said, width=16 + _WIDTH * len(numbers))


def _ladder(n_tiers: int, radix: int, left: float, height: float) -> dict[str, Layer]:
    """Return one ladder: the GPU's NIC below, a switch for each tier above it, and numbered ports."""
    foot = height - 26
    x = left + 70.0
    tier = np.arange(n_tiers)
    top = foot - _RUNG * (tier + 1)  # y of the upper edge of each switch
    bottom = top + _HIGH
    lower = np.concatenate([[foot], top[:-1]])  # where each cable begins
    cables = [np.array([[x, a], [x, b]]) for a, b in zip(lower, bottom, strict=True)]
    # Ports: the lower end of a cable (but the NIC's own is no switch port), and its upper end.
    port_y: Floats = np.stack([bottom, top], axis=1).ravel()[: ports_per_gpu(n_tiers)]
    up = radix // 2
    notes = [text("tiers.half", up=up)] * (n_tiers - 1) + [text("tiers.top", radix=radix)]
    node = COLOUR["node"]
    title = text("tiers.title", tiers=n_tiers, ports=ports_per_gpu(n_tiers))
    reach = text("tiers.reach", gpus=most_gpus(n_tiers, radix))
    return {
        "title": heading(16.0, title, left),
        "reach": texts(left, 36.0, [reach], colour=COLOUR["soft"]),
        "cables": lines(cables, width=3.0, colour=COLOUR["edge"]),
        "switches": boxes(
            x - _BOX / 2,
            top,
            _BOX,
            _HIGH,
            colour=node,
            round=4.0,
            texts=[text(f"tiers.{_NAMES[t]}") for t in tier],
            ink=ink_on(np.full(n_tiers, node)),
        ),
        "ports": boxes(
            x - _PORT / 2,
            port_y - _PORT / 2,
            _PORT,
            _PORT,
            colour=COLOUR["accent"],
            round=3.0,
            texts=[str(i + 1) for i in range(port_y.size)],
            ink=ink_on(np.full(port_y.size, COLOUR["accent"])),
        ),
        "notes": texts(
            np.full(n_tiers, x + _BOX / 2 + 10), top + _HIGH / 2, notes, colour=COLOUR["soft"]
        ),
        "nic": boxes(
            x - 34,
            foot - 2,
            68.0,
            24.0,
            colour=COLOUR["gpu"],
            round=4.0,
            texts=[text("tiers.nic")],
            ink=ink_on(np.array([COLOUR["gpu"]])),
        ),
    }
