"""Twelve designs by twelve approaches, for the gallery and for tests; each meets all requirements.

Examples
--------
>>> from fabriclab import designs
>>> len(designs.examples())
12
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fabriclab import units
from fabriclab.core import ReadOnly
from fabriclab.designs.exam import Exam
from fabriclab.designs.failures import FLOOR, fault
from fabriclab.designs.fronts import front
from fabriclab.designs.nights import NIGHTS
from fabriclab.designs.sheets import Design, read

__all__ = ["APPROACHES", "complete", "examples", "plan_drains"]

_SERVERS = 128  # source: the running case
_RAILS = 8
_PER_LEAF = 32  # servers on a leaf whose other 32 ports lead up
_BLOCKS = _SERVERS // _PER_LEAF
_PER_RACK = 4  # source: the running case
_POINTS = 3  # of a front, at least: source: the brief of exercise 2
_LEAF = {"ports": 64, "rate": "400 Gb/s"}  # source: the running case
_SPLIT = {"ports": 128, "rate": "200 Gb/s"}  # source: the same switch with its ports split

Sheet = dict[str, Any]


@cache
def examples() -> Mapping[str, Sheet]:
    """Return the sheets of twelve designs, by name of their approach."""
    found = {}
    for name, approach in APPROACHES.items():
        found[name] = complete({"name": name, **approach()})
    return ReadOnly(found)


def complete(sheet: Sheet, beside: Mapping[str, Sheet] | None = None) -> Sheet:
    """Return a sheet with an order of drains, and with a front and a choice that are true.

    Parameters
    ----------
    sheet : dict
        A design.
    beside : mapping of str to dict, optional
        The other designs of its front, by name; rails with some tapers unless given. Those that beat it are left out.

    Raises
    ------
    ValueError
        If nearly all of them beat it.
    """
    design = read(sheet)
    figures = Exam(design).figures()
    name = design.name
    points = {name: (figures["cost"], figures["time"])}
    for other, known in (beside or _TAPERS).items():
        point = _point(known)
        if other != name and front([points[name], point])[0]:
            points[other] = point
    if len(points) < _POINTS:
        raise ValueError(
            f"{name} is beaten by all but {len(points) - 1} of {', '.join(beside or _TAPERS)}"
        )
    following = list(points)[1]
    return {
        **sheet,
        "front": [{"name": n, "cost": cost, "time": time} for n, (cost, time) in points.items()],
        "choice": {
            "name": name,
            "reasons": {"cost": figures["cost"], "left": figures["left"]},
            "next": following,
            "difference": {"cost": points[name][0] - points[following][0]},
        },
        "drains": plan_drains(design),
    }


_known_points: dict[str, tuple[float, float]] = {}


def _point(sheet: Sheet) -> tuple[float, float]:
    """Return cost and time of a design, which is computed once."""
    key = repr(sheet)
    if key not in _known_points:
        figures = Exam(read(sheet)).figures()
        _known_points[key] = (figures["cost"], figures["time"])
    return _known_points[key]


def plan_drains(design: Design, nights: int = NIGHTS, floor: float = FLOOR) -> list[list[str]]:
    """Return an order of drains that keeps the floor: each switch in the first night that bears it.

    Parameters
    ----------
    design : Design
        The design.
    nights : int
        Most nights. >= 1
    floor : float
        Part of the all-reduce that has to be left. 0..1

    Raises
    ------
    ValueError
        If this way finds none; another order may exist.
    """
    most = units.count(nights, "nights")
    whole = Exam(design).healthy
    plan: list[list[int]] = [[] for _ in range(most)]
    switches = design.switches.tolist()
    room = -(-len(switches) // most)
    for number, node in enumerate(switches):
        # Neighbours in the list serve the same servers, so they go to different nights.
        order = [(number + i) % most for i in range(most)]
        order.sort(key=lambda i: len(plan[i]) >= room)
        for i in order:
            left = fault(design, [*plan[i], node], whole)
            if left.left >= floor and not left.cut_off:
                plan[i].append(node)
                break
        else:
            raise ValueError(
                f"no night of {most} bears {design.title(number)} beside what it drains already; allow more nights, or "
                "a lower floor"
            )
    title = {node: design.title(i) for i, node in enumerate(switches)}
    return [[title[node] for node in night] for night in plan if night]


# ---- the approaches --------------------------------------------------------------------------------------------------


def _leaf(rail: int, block: int) -> str:
    """Return the name of the leaf of a rail that serves a block of 32 servers."""
    return f"leaf {rail}.{block}"


def _leaves() -> list[Sheet]:
    """Return a leaf for each rail and block."""
    names = [_leaf(rail, block) for rail in range(_RAILS) for block in range(_BLOCKS)]
    return [{"name": name, "tier": 1, **_LEAF} for name in names]


def _on_rails(shift: Callable[[int], int] = lambda server: 0) -> list[list[Any]]:
    """Return the cables from servers to leaves; NIC j of a server is on rail j + its shift, modulo 8."""
    cables = []
    for server in range(_SERVERS):
        for nic in range(_RAILS):
            rail = (nic + shift(server)) % _RAILS
            cables.append([f"server {server} nic {nic}", _leaf(rail, server // _PER_LEAF)])
    return cables


def _spines(number: int, **model: Any) -> list[Sheet]:
    """Return spines."""
    return [{"name": f"spine {i}", "tier": 2, **_LEAF, **model} for i in range(number)]


def _design(switches: list[Sheet], cables: list[Any], **rest: Any) -> Sheet:
    """Return a sheet of 128 servers."""
    return {"servers": _SERVERS, "gpus": 8, "switches": switches, "cables": cables, **rest}


def _tapered() -> Sheet:
    """Return rails with two ports down for each port up."""
    return {
        "family": "rail_optimised",
        "arguments": {"servers": _SERVERS, "oversubscription": 2},
    }


def _two_planes() -> Sheet:
    """Return NICs with two ports of 200 Gb/s each, in a network of its own for each port."""
    return {"family": "dual_tor", "arguments": {"servers": _SERVERS, "oversubscription": 4}}


def _spineless() -> Sheet:
    """Return a switch for each rail and plane with a port of 200 Gb/s for each server, and nothing between them."""
    switches, cables = [], []
    for rail in range(_RAILS):
        for plane in range(2):
            name = f"rail {rail}.{plane}"
            switches.append({"name": name, "tier": 1, **_SPLIT})
            cables += [[f"server {server} nic {rail}", name] for server in range(_SERVERS)]
    return _design(switches, cables)


def _twin_rails() -> Sheet:
    """Return NICs with two ports of 200 Gb/s, on their own rail and on the next one."""
    switches = [{**leaf, **_SPLIT} for leaf in _leaves()] + _spines(12, **_SPLIT)
    cables: list[list[Any]] = []
    for step in range(2):
        cables += _on_rails(lambda server, step=step: step)  # type: ignore[misc]
    for leaf in _leaves():
        cables += [[leaf["name"], f"spine {i}", 4] for i in range(12)]
    return _design(switches, cables)


def _rail_only() -> Sheet:
    """Return one switch with 128 ports for each rail, and nothing between them."""
    switches = [{**_LEAF, "name": f"rail {j}", "ports": 128} for j in range(_RAILS)]
    cables = []
    for server in range(_SERVERS):
        cables += [[f"server {server} nic {j}", f"rail {j}"] for j in range(_RAILS)]
    return _design(switches, cables)


def _rotated() -> Sheet:
    """Return a leaf-spine network in which each server is plugged one rail on from the one before."""
    cables = _on_rails(lambda server: server % _RAILS)
    spines = _spines(10)
    for leaf in _leaves():
        cables += [[leaf["name"], spine["name"], 2] for spine in spines]
    return _design([*_leaves(), *spines], cables)


def _side_by_side(sheet: Sheet) -> Sheet:
    """Return a sheet whose switches stand in two racks beside those of the servers, so that copper joins them."""
    for number, box in enumerate(sheet["switches"]):
        box["rack"] = _SERVERS // _PER_RACK + number % 2
    return {**sheet, "server_racks": [server // _PER_RACK for server in range(_SERVERS)]}


def _middle() -> Sheet:
    """Return rails with as many ports up as down, whose leaves stand beside the spines and not beside servers."""
    spines = _spines(16)
    cables = _on_rails()
    for leaf in _leaves():
        cables += [[leaf["name"], spine["name"], 2] for spine in spines]
    return _side_by_side(_design([*_leaves(), *spines], cables))


def _groups() -> Sheet:
    """Return a dragonfly+: groups of two rails with spines of their own, joined spine to spine."""
    groups = _RAILS // 2
    each = 4  # spines of a group
    switches, cables = _leaves(), _on_rails()
    for group in range(groups):
        for i in range(each):
            switches.append({"name": f"spine {group}.{i}", "tier": 2, **_LEAF})
            for rail in (2 * group, 2 * group + 1):
                for block in range(_BLOCKS):
                    cables.append([_leaf(rail, block), f"spine {group}.{i}", 4])
    for one in range(groups):
        for other in range(one + 1, groups):
            cables += [[f"spine {one}.{i}", f"spine {other}.{i}", 10] for i in range(each)]
    return _side_by_side(_design(switches, cables))


def _torus() -> Sheet:
    """Return a torus of 8 x 4 leaves and no spine: thick cables along a rail, thinner ones between rails."""
    cables = _on_rails()
    for rail in range(_RAILS):
        for block in range(_BLOCKS):
            cables.append([_leaf(rail, block), _leaf(rail, (block + 1) % _BLOCKS), 10])
            cables.append([_leaf(rail, block), _leaf((rail + 1) % _RAILS, block), 6])
    return _design(_leaves(), cables)


def _direct() -> Sheet:
    """Return four groups of 32 servers without spines: a leaf is joined to those of its rail and of its group."""
    cables = _on_rails()
    for rail in range(_RAILS):
        for one in range(_BLOCKS):
            for other in range(one + 1, _BLOCKS):
                # Experts of 64 servers are in two neighbouring groups.
                is_pair = one // 2 == other // 2
                cables.append([_leaf(rail, one), _leaf(rail, other), 11 if is_pair else 3])
    for block in range(_BLOCKS):
        for one in range(_RAILS):
            for other in range(one + 1, _RAILS):
                cables.append([_leaf(one, block), _leaf(other, block), 2])
    return _side_by_side(_design(_leaves(), cables))


def _unequal() -> Sheet:
    """Return rails of three leaves; the middle one serves parts of two groups of experts, and gets more uplinks."""
    each = 43  # servers on a leaf
    cables: list[list[Any]] = []
    leaves = []
    spines = _spines(7)
    for server in range(_SERVERS):
        for nic in range(_RAILS):
            cables.append([f"server {server} nic {nic}", _leaf(nic, server // each)])
    for rail in range(_RAILS):
        for block, up in enumerate((2, 3, 2)):
            leaves.append({"name": _leaf(rail, block), "tier": 1, **_LEAF})
            cables += [[_leaf(rail, block), spine["name"], up] for spine in spines]
    return _side_by_side(_design([*leaves, *spines], cables))


def _own_rules() -> Sheet:
    """Return ten spines, and rules by which traffic for each block of servers has eight of them."""
    spines = [f"spine {i}" for i in range(10)]
    cables = _on_rails()
    names = [leaf["name"] for leaf in _leaves()]
    for name in names:
        cables += [[name, spine, 2] for spine in spines]
    rules: dict[str, dict[str, list[str]]] = {}
    for here in names:
        rules[here] = {}
        for rail in range(_RAILS):
            for block in range(_BLOCKS):
                goal = _leaf(rail, block)
                if goal != here:
                    rules[here][goal] = [spines[(3 * block + i) % 10] for i in range(8)]
    return _side_by_side(_design([*_leaves(), *_spines(10)], cables, routing=rules))


APPROACHES: dict[str, Callable[[], Sheet]] = {
    "rails at 2:1": _tapered,
    "two planes": _two_planes,
    "planes without spines": _spineless,
    "rail-only": _rail_only,
    "twin rails": _twin_rails,
    "rotated rails": _rotated,
    "dragonfly+": _groups,
    "torus of leaves": _torus,
    "direct groups": _direct,
    "switches side by side": _middle,
    "unequal taper": _unequal,
    "own rules": _own_rules,
}


def _tapers(*ratios: int) -> dict[str, Sheet]:
    """Return rails with so many leaf ports down for each port up."""
    found = {}
    for ratio in ratios:
        arguments = {"servers": _SERVERS, "oversubscription": ratio}
        found[f"rails at {ratio}:1"] = {"family": "rail_optimised", "arguments": arguments}
    return found


_TAPERS = _tapers(1, 2, 3, 4)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
