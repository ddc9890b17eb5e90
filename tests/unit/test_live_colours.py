"""Colours that meet in a live view, as marks of one form, are told apart by colour-blind readers in both themes."""

import itertools

import numpy as np
import pytest

from fabriclab.look import COLOUR, PALETTE, SHADES, TOKENS
from support.colour_science import BLINDNESS, lab, linear
from support.live_views import VIEWS
from support.sampling import sampled

APART = 20.0  # CIE 1976 difference, as for the groups of colours in test_look.py
NAMES = {int(COLOUR[name]): name for name in TOKENS if name in COLOUR}
# What recedes, is an area behind others, or is the ink of the current state beside grey.
QUIET = {
    "paper",
    "sunk",
    "line",
    "hair",
    "edge",
    "ink",
    "soft",
    "domain",
    "node",
    "gpu",
    "drained",
    "failed",
}
# The fifth tenant of a switch: each has its letter in the box, and its own pattern and dash.
LETTERED = {"tenant_d", "direct"}


def distance(one, other):
    """Return the smallest difference of two places of the palette, over both themes and all kinds of sight."""
    found = []
    for theme in ("light", "dark"):
        for kind in BLINDNESS:
            seen = [
                lab(
                    np.clip(
                        np.array(BLINDNESS[kind]) @ linear(getattr(PALETTE[place], theme)), 0, 1
                    )
                )
                for place in (one, other)
            ]
            found.append(float(np.linalg.norm(seen[0] - seen[1])))
    return min(found)


def marks(panel):
    """Return kind of mark -> hues of all that are filled with one; hatched boxes and words are told by form."""
    found = {}
    for layer in panel.layers.values():
        if layer.kind == "texts" or "colour" not in layer.fields:
            continue
        colours = np.asarray(layer.fields["colour"], dtype=float)
        hatched = np.asarray(layer.fields.get("hatch", 0.0)) > 0
        for place in np.unique(np.where(hatched, -1.0, colours)):
            is_hue = 0 <= place < len(PALETTE) - SHADES and NAMES.get(int(place), "on") not in QUIET
            if is_hue and not NAMES[int(place)].endswith(("wash", "ink")):
                found.setdefault(layer.kind, set()).add(int(place))
    return found


@pytest.mark.parametrize("name", sampled(VIEWS, 8))
def test_hues_of_a_view_are_apart(name):
    for panel in VIEWS[name]().scene.panels():
        for kind, hues in marks(panel).items():
            for one, other in itertools.combinations(sorted(hues), 2):
                if {NAMES[one], NAMES[other]} == LETTERED:
                    continue
                assert distance(one, other) >= APART, (kind, NAMES[one], NAMES[other])
