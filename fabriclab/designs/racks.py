"""Where the boxes of a design stand, and what its cables are then: lengths and media.

A design either leaves its racks to `fabriclab.economics.floor_plan`, or gives the rack of each server and switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fabriclab import spelling, units
from fabriclab.core import Fabric, Ints
from fabriclab.economics.floor import MEDIA, node_racks, propagation, reach, switches

__all__ = ["PLAN", "Floor", "place", "read_floor"]


class Floor(NamedTuple):
    """Sizes of a hall, as in `fabriclab.economics.floor_plan`."""

    servers_per_rack: int = 4
    switches_per_rack: int = 8
    racks_per_row: int = 16
    rack_width: float = 0.6  # illustrative: as the floor plan has it [m]
    row_pitch: float = 3.0  # illustrative: as the floor plan has it [m]
    slack: float = 2.0  # illustrative: as the floor plan has it [m]
    media: tuple[str, ...] = tuple(MEDIA)


PLAN = Floor()


def read_floor(given: Any) -> Floor:
    """Return the hall that a sheet describes.

    Parameters
    ----------
    given : mapping or None
        Some of the fields of `Floor`; the others keep their values.
    """
    if given is None:
        return PLAN
    if not isinstance(given, Mapping):
        raise TypeError(
            f"floor must be a dict such as {{'servers_per_rack': 4}}, got {given!r:.80}"
        )
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in Floor._fields:
            question = spelling.near(str(key), Floor._fields)
            raise ValueError(
                f"floor has no {key!r:.60}{question}; it has {', '.join(Floor._fields)}"
            )
        if key == "media":
            names = [value] if isinstance(value, str) else list(value)
            values[key] = tuple(units.choice(name, "media", MEDIA) for name in names)
            if not names:
                raise ValueError("media must name at least one medium, got none")
        elif key.endswith("per_rack") or key == "racks_per_row":
            values[key] = units.count(value, key, 1, 1000)
        else:
            values[key] = units.length(value, key)
            least = getattr(PLAN, key)
            if values[key] < least:
                raise ValueError(
                    f"{key} must be at least {least:g} m, as wide as racks and aisles are, got {value!r}"
                )
    return PLAN._replace(**values)


class Placed(NamedTuple):
    """A fabric with lengths and media, and the rack of each node."""

    fabric: Fabric
    racks: Ints


def place(
    fabric: Fabric,
    plan: Floor,
    *,
    server_racks: Ints | None = None,
    switch_racks: Ints | None = None,
    media: Sequence[str | None] = (),
) -> Placed:
    """Return a fabric in its racks.

    Parameters
    ----------
    fabric : Fabric
        The network; all of its cables are laid.
    plan : Floor
        Sizes of the hall.
    server_racks : (S,) int, optional
        Rack of each server; by default they fill racks in order.
    switch_racks : (N,) int, optional
        Rack of each switch, -1 where the floor plan chooses it.
    media : sequence of str or None
        Medium of each cable; None, and by default: the first of the hall's that reaches, active copper between switches
        only.
    """
    racks = node_racks(fabric, plan.servers_per_rack, plan.switches_per_rack)
    if server_racks is not None:
        racks[fabric.endpoint] = server_racks[fabric.server]
        _move_leaves(fabric, racks)
    if switch_racks is not None:
        racks = np.where(switch_racks >= 0, switch_racks, racks)
    row, column = np.divmod(racks, plan.racks_per_row)
    one, other = fabric.source, fabric.target
    metres = plan.rack_width * np.abs(column[one] - column[other])
    metres += plan.row_pitch * np.abs(row[one] - row[other]) + plan.slack
    metres = np.ceil(metres - 1e-9)

    is_switch = switches(fabric)
    between = is_switch[one] & is_switch[other]
    names = tuple(MEDIA)
    choice = np.full(fabric.n_links, names.index(plan.media[-1]))
    open_ = np.ones(fabric.n_links, dtype=np.bool_)
    for name in plan.media:
        fits = open_ & (metres <= reach(name))
        if name == "active copper":
            fits &= between
        choice[fits] = names.index(name)
        open_ &= ~fits
    for cable, own in enumerate(media):
        if own is not None:
            choice[2 * cable : 2 * cable + 2] = names.index(own)

    code = {name: i for i, name in enumerate(names)}
    per_metre = np.array([propagation(name) for name in names])
    was = np.array([propagation(name) for name in fabric.media])[fabric.medium]
    delay = np.maximum(fabric.delay - fabric.length * was + metres * per_metre[choice], 0.0)
    used = tuple(name for name in names if np.any(choice == code[name]))
    number = np.array([used.index(name) if name in used else -1 for name in names])
    placed = fabric.shown_as(
        "", length=metres, medium=number[choice].astype(np.int8), media=used, delay=delay
    )
    return Placed(placed, racks)


def _move_leaves(fabric: Fabric, racks: Ints) -> None:
    """Put the switches of servers into the racks of these, in turns, as `fabriclab.economics.floor_plan` does."""
    end = fabric.rank_of >= 0
    up = end[fabric.source] & ~end[fabric.target]
    low = np.full(fabric.n_nodes, np.iinfo(np.int64).max)
    high = np.full(fabric.n_nodes, -1)
    np.minimum.at(low, fabric.target[up], racks[fabric.source[up]])
    np.maximum.at(high, fabric.target[up], racks[fabric.source[up]])
    leaf = np.argsort(low, kind="stable")[: np.count_nonzero(high >= 0)]
    turn = np.arange(leaf.size) - np.searchsorted(low[leaf], low[leaf])
    racks[leaf] = low[leaf] + turn % (high[leaf] - low[leaf] + 1)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
