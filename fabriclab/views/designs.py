"""Picture of a design of a cluster by its tiers, with the part that a requirement fails on.

A design is what `fabriclab.designs` reads from a sheet. Where cables join switches of one tier, as in a torus or a
dragonfly+, it is drawn on a circle; else in rows of tiers, with the servers in their racks at the bottom.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fabriclab import designs, units
from fabriclab.core import Fabric, Flags, Ints, parts_of
from fabriclab.texts import keys, text
from fabriclab.views.layout import counted
from fabriclab.views.page import Picture, Table, plain
from fabriclab.views.plan_circle import circle_drawing
from fabriclab.views.plan_rows import margin_of, rows_drawing
from fabriclab.views.plans import (
    FAILED,
    OVERLOADED,
    TIGHTEST,
    Drawing,
    Frame,
    Mark,
    Plan,
    plan_layers,
    plan_of,
)
from fabriclab.views.scene import Layer, Scene, heading, printed

__all__ = ["design", "design_scene"]

PRINTED = 700.0  # width of a printed picture [px]
HEIGHT = 384.0  # [px]
_MOST_LOCATED = 4  # so many links have the pods of their ends in words
_TOP = 30.0  # below the title [px]
# What a cable of a refused requirement is: asked for more than it carries, or no use as it is.
_OVERLOADED_BY = ("demand", "all_reduce", "drains")


class Mapped(NamedTuple):
    """A plan of a fabric, and which part of it stands for each node and each cable."""

    plan: Plan
    fabric: Fabric
    box_of_node: Ints  # (N,); -1: none
    bundle_of_cable: Ints  # (C,); -1: within a server


def design(
    design: Mapping[str, Any] | Fabric | designs.Design,
    verdict: designs.Verdict | None = None,
    *,
    finding: str | None = None,
) -> Picture:
    """Draw a design by its tiers, with the part in it that a requirement fails on, or holds on by the least.

    Cables are bundled where they are many; the note of a line says how many it stands for. Leaves out what is inside
    of servers, and lengths.

    Parameters
    ----------
    design : mapping, Fabric or Design
        A design as `designs.read` takes it.
    verdict : Verdict, optional
        What `designs.check` says of one requirement. Without it nothing is marked.
    finding : str, optional
        The sentence above the picture.

    Raises
    ------
    ValueError, TypeError
        If a sheet cannot be read.
    """
    return printed(design_scene(designs.read(design), verdict), finding=finding)


def design_scene(
    design: designs.Design, verdict: designs.Verdict | None = None, width: float = PRINTED
) -> Scene:
    """Return a picture of a design, ``width`` px wide, with the part that a verdict is about."""
    mapped = mapped_design(design)
    drawing = drawing_of(mapped.plan, width)
    said = shape_words(mapped.plan)
    if verdict is not None:
        said = f"{located_words(mapped, verdict)} {said}"
    return Scene(
        said,
        Table(part_columns(mapped.plan, [] if verdict is None else [verdict])),
        design_layers(drawing, mark_of(mapped, verdict)),
        HEIGHT,
        alt=said,
        hint=text("plan.hint"),
        width=width,
    )


# The plan ---------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def mapped_design(design: designs.Design) -> Mapped:
    """Return the plan of a design.

    Servers are boxes. Where cables join switches of one tier and a server is joined to several groups of them, its
    NICs are boxes instead, each in the group of its switch.
    """
    fabric = design.fabric
    server = np.full(fabric.n_nodes, -1)
    server[fabric.endpoint] = fabric.server
    mapped = _mapped(design, server, one_box=True)
    plan = mapped.plan
    if plan.is_flat and np.any((plan.pod < 0) & (plan.switches_of_server > 1)):
        rank = np.full(fabric.n_nodes, -1)
        rank[fabric.endpoint] = np.arange(fabric.n_ranks)
        return _mapped(design, rank, one_box=False)
    return mapped


def _mapped(design: designs.Design, end: Ints, *, one_box: bool) -> Mapped:
    """Return the plan in which nodes with one number ``end``, (N,), are a box of the lowest tier.

    With ``one_box`` that is the server of a node, else its rank.
    """
    fabric = design.fabric
    switch = design.switches
    n_ends = int(end.max()) + 1
    box = end.copy()
    box[switch] = n_ends + np.arange(switch.size)

    one = box[fabric.source[::2]]
    other = box[fabric.target[::2]]
    rate = np.minimum(fabric.capacity[::2], fabric.capacity[1::2])
    drawn = np.flatnonzero((one >= 0) & (other >= 0) & (one != other) & (rate > 0))
    ends = np.stack([one[drawn], other[drawn]], axis=1)
    tier = np.zeros(n_ends + switch.size, dtype=np.int64)
    tier[n_ends:] = 1 + np.unique(fabric.tier[switch], return_inverse=True)[1]

    if one_box:
        names = [text("fabric.server", s=number) for number in range(n_ends)]
    else:
        names = [node_name(design, node) for node in fabric.endpoint.tolist()]
    names += [design.title(number) for number in range(switch.size)]
    kinds = ["server" if one_box else "nic"] * n_ends
    kinds += [fabric.kinds[fabric.kind[node]] for node in switch.tolist()]
    rack = np.full(tier.size, -1)
    has_box = box >= 0
    rack[box[has_box]] = design.racks[has_box]
    node = np.concatenate([np.full(n_ends, -1), switch])
    plan = plan_of(
        names,
        kinds,
        tier=tier,
        rack=rack,
        pod=_pods(fabric, tier, ends, node),
        ends=ends,
        rate=rate[drawn],
    )
    bundle = np.full(fabric.n_cables, -1)
    bundle[drawn] = bundles_of(plan, ends)
    return Mapped(plan, fabric, box, bundle)


def node_name(design: designs.Design, node: int) -> str:
    """Return the name of a node: a switch by the name that the design uses, a NIC by its number in its server."""
    number = np.flatnonzero(design.switches == node)
    if number.size:
        return design.title(int(number[0]))
    fabric = design.fabric
    rank = int(fabric.rank_of[node])
    if rank < 0:
        return fabric.name(node)
    server = int(fabric.server[rank])
    first = int(np.flatnonzero(fabric.server == server)[0])
    return text("fabric.of_server", name=text("plan.nic", n=rank - first), s=server)


def bundles_of(plan: Plan, ends: Ints) -> Ints:
    """Return the bundle of each pair of boxes, (C,), that cables join."""
    low, high = np.sort(ends, axis=1).T
    known_low, known_high = np.sort(np.stack([plan.low, plan.high]), axis=0)
    key = known_low * plan.n_boxes + known_high
    order = np.argsort(key)
    found = np.searchsorted(key[order], low * plan.n_boxes + high)
    return np.asarray(order[found].astype(np.int64))


def _pods(fabric: Fabric, tier: Ints, ends: Ints, node: Ints) -> Ints:
    """Return the pod of each box, (B,); -1 for those that serve the whole cluster.

    ``node`` is the node of each switch, -1 for other boxes. A group of the topology is a pod. Else a pod is what
    remains in one piece without the cables between switches of one tier or, if there are none, without the highest
    tier. If all remains in one piece, or single switches of one tier do, there are no pods.
    """
    is_switch = node >= 0
    if "group" in fabric.coord_names:
        pod = np.full(tier.size, -1)
        pod[is_switch] = fabric.coordinate("group")[node[is_switch]]
        return _with_servers(pod, is_switch, ends)
    low, high = tier[ends].T
    is_flat = bool(np.any((low == high) & (low > 0)))
    if is_flat:
        kept = low != high
    elif tier.max() > 1:
        kept = np.maximum(low, high) < tier.max()
    else:
        return np.full(tier.size, -1)
    part = parts_of(tier.size, ends[kept, 0], ends[kept, 1])
    with_servers = np.unique(part[~is_switch])
    most_switches = np.bincount(part[is_switch]).max(initial=0)
    if with_servers.size < 2 or (is_flat and most_switches < 2):
        return np.full(tier.size, -1)
    number = np.full(int(part.max()) + 1, -1)
    first = [int(np.flatnonzero(part == p)[0]) for p in with_servers.tolist()]
    number[with_servers[np.argsort(first)]] = np.arange(with_servers.size)
    return np.asarray(number[part])


def _with_servers(pod: Ints, is_switch: Flags, ends: Ints) -> Ints:
    """Return the pods of all boxes, given those of switches: a server is in a pod if all its cables lead there."""
    lowest = np.full(pod.size, np.iinfo(np.int64).max)
    highest = np.full(pod.size, -1)
    for here, there in ((ends[:, 0], ends[:, 1]), (ends[:, 1], ends[:, 0])):
        up = ~is_switch[here] & is_switch[there]
        np.minimum.at(lowest, here[up], pod[there[up]])
        np.maximum.at(highest, here[up], pod[there[up]])
    own = np.where(lowest == highest, highest, -1)
    return np.where(is_switch, pod, own)


# The picture ------------------------------------------------------------------------------------


def drawing_of(plan: Plan, width: float) -> Drawing:
    """Return a plan with its places in a picture of a width [px]."""
    if plan.is_flat:
        return circle_drawing(plan, Frame(12.0, _TOP, width - 12.0, HEIGHT - 6))
    return rows_drawing(plan, Frame(margin_of(plan), _TOP, width - 14.0, HEIGHT - 6))


def design_layers(drawing: Drawing, mark: Mark | None) -> dict[str, Layer]:
    """Return the layers of a design: the title, its plan, and the mark in it."""
    key = "plan.title_pods" if drawing.plan.is_flat else "plan.title"
    return {"title": heading(16.0, text(key)), **plan_layers(drawing, mark)}


def mark_of(mapped: Mapped, verdict: designs.Verdict | None) -> Mark | None:
    """Return what a verdict points at: the failing part of a refused requirement, or the tightest of one that holds."""
    if verdict is None or verdict.passed is None:
        return None
    node = np.asarray(verdict.nodes, dtype=np.int64)
    link = np.asarray(verdict.links, dtype=np.int64)
    box = np.unique(mapped.box_of_node[node])
    bundle = np.unique(mapped.bundle_of_cable[link // 2])
    box = box[box >= 0]
    bundle = bundle[bundle >= 0]
    if not box.size and not bundle.size:
        return None
    # What costs most has not failed.
    if verdict.passed or verdict.requirement == "budget":
        return Mark(box, bundle, TIGHTEST, TIGHTEST, room_words(verdict))
    if verdict.requirement not in _OVERLOADED_BY:
        return Mark(box, bundle, FAILED, FAILED, room_words(verdict))
    return Mark(box, bundle, FAILED, OVERLOADED, overload_words(verdict))


# Words ------------------------------------------------------------------------------------------


def requirement_name(requirement: str) -> str:
    """Return the name of a requirement as a learner reads it."""
    return text(f"plan.name_{requirement}")


def has_figures(verdict: designs.Verdict) -> bool:
    """Return whether a verdict compares two figures, and does not only say yes or no."""
    is_answer = verdict.unit == "1" and verdict.asked == 1 and verdict.reached in (0, 1)
    return verdict.passed is not None and not is_answer


def overload_words(verdict: designs.Verdict) -> str:
    """Return how many times a link that carries too little is asked for, such as "1.35 ×"."""
    if not has_figures(verdict) or not verdict.asked or not verdict.reached:
        return room_words(verdict)
    return f"{verdict.asked / verdict.reached:.3g} ×"


def room_words(verdict: designs.Verdict) -> str:
    """Return the margin of a verdict in percent, such as "-12 %"; where 0 is asked, what is reached."""
    if not has_figures(verdict):
        return ""
    if not verdict.asked:
        return amount(float(verdict.reached), verdict.unit)
    percent = round(100 * float(verdict.margin), 2)
    return f"{percent:+.3g} %".replace("-", "−") if percent else "0 %"


def amount(value: float, unit: str) -> str:
    """Return a figure of a verdict with its unit."""
    if not np.isfinite(value):
        return "–"
    if unit == "B/s":
        return plain(units.format_rate(value))
    if unit == "s":
        return plain(units.format_time(value))
    if unit == "USD":
        return text("plan.dollars", millions=value / 1e6)
    if unit == "1":
        return text("plan.percent", value=100 * value)
    return f"{value:,.4g} {unit}".strip()


def against_words(verdict: designs.Verdict) -> str:
    """Return what is reached against what is asked, or alone where none is asked; a unit of a word stands once."""
    reached = amount(float(verdict.reached), verdict.unit)
    if not verdict.asked:
        none = f"plan.none_{verdict.unit}"
        return text(none) if not verdict.reached and none in keys(none) else reached
    asked = amount(float(verdict.asked), verdict.unit)
    unit = asked.partition(" ")[2]
    if unit[:1].isalpha() and verdict.unit not in ("B/s", "s"):
        reached = reached.removesuffix(f" {unit}")
    return text("plan.against", reached=reached, asked=asked)


def answer_words(verdict: designs.Verdict) -> str:
    """Return in short what a verdict without figures says, such as "no such switch is sold"; nothing if not judged."""
    if verdict.passed is None or has_figures(verdict):
        return ""
    key = f"plan.{'met' if verdict.passed else 'refused'}_{verdict.requirement}"
    return text(key) if key in keys(key) else ""


def verdict_words(verdict: designs.Verdict) -> str:
    """Return which requirement holds or fails, by how much, and then where to look."""
    name = requirement_name(verdict.requirement)
    room = f"{100 * abs(float(verdict.margin)):.3g}"
    if verdict.passed is None:
        first = text("plan.open", name=name)
    elif not has_figures(verdict) or (verdict.passed and not verdict.asked):
        first = text("plan.holds" if verdict.passed else "plan.fails", name=name)
    elif not verdict.asked:
        first = text("plan.fails_of_none", name=name, reached=against_words(verdict))
    else:
        figures = against_words(verdict)
        parts = figures_in(verdict)
        if all(part in plain(verdict.words) for part in parts):  # then they stand there
            key = "plan.holds_with" if verdict.passed else "plan.fails_short"
        else:
            key = "plan.holds_by" if verdict.passed else "plan.fails_by"
        first = text(key, name=name, room=room, figures=figures)
    return arrowed(f"{first} {verdict.words}")


def arrowed(words: str) -> str:
    """Return words with the names of links as people write them: "leaf 0 → spine 1"."""
    return words.replace(" -> ", " → ")


def figures_in(verdict: designs.Verdict) -> tuple[str, str]:
    """Return what is reached and what is asked, each with its unit."""
    return amount(float(verdict.reached), verdict.unit), amount(float(verdict.asked), verdict.unit)


def located_words(mapped: Mapped, verdict: designs.Verdict) -> str:
    """Return the words of a verdict, in which a switch at its links has the pod in which the picture shows it.

    The "leaf 0.1" of a topology stands in no pod 0.
    """
    words = verdict_words(verdict)
    plan = mapped.plan
    fabric = mapped.fabric
    links = np.asarray(verdict.links, dtype=np.int64)
    ends = np.unique(mapped.box_of_node[[*fabric.source[links], *fabric.target[links]]])
    for box in ends[ends >= 0].tolist() if 0 < links.size <= _MOST_LOCATED else []:
        name = plan.names[box]
        if plan.pod[box] >= 0 and not plan.pods_are_racks and "." in name:
            where = _in_pod(plan, box)
            words = re.sub(rf"{re.escape(name)}(?![\d.]*\d)", where, words, count=1)
    return words


def _in_pod(plan: Plan, box: int) -> str:
    """Return the name of a switch with its pod: "leaf 0 of pod 1", if one of its two numbers counts the pods."""
    alike = [
        (name.rpartition(" ")[2].split("."), pod)
        for name, kind, pod in zip(plan.names, plan.kinds, plan.pod.tolist(), strict=True)
        if kind == plan.kinds[box]
    ]
    kind, _, numbers = plan.names[box].rpartition(" ")
    for place in (0, 1):
        if all(len(own) == 2 and own[place] == str(pod) for own, pod in alike):
            rest = f"{kind} {numbers.split('.')[1 - place]}"
            return text("plan.of_pod", name=rest, n=plan.pod[box])
    return text("plan.in_pod", name=plan.names[box], n=plan.pod[box])


def shape_words(plan: Plan) -> str:
    """Return what a plan consists of: servers, switches of each kind, and cables."""
    words = [counted(n, kind) for kind, n in kinds_of(plan)]
    cables = counted(int(plan.cables.sum()), "cable")
    racks = np.unique(plan.rack[plan.rack >= 0]).size
    pods = 0 if plan.pods_are_racks else np.unique(plan.pod[plan.pod >= 0]).size
    places = [counted(racks, "rack")] if racks else []
    if pods:
        places.append(counted(pods, "pod"))
    return text("plan.shape", list=", ".join(words), cables=cables, places=", ".join(places))


def kinds_of(plan: Plan) -> list[tuple[str, int]]:
    """Return each kind of box with its number, from the servers up."""
    found = []
    kinds = np.array(plan.kinds)
    for tier in np.unique(plan.tier).tolist():
        for kind in np.unique(kinds[plan.tier == tier]).tolist():
            found.append((kind, int(np.count_nonzero((kinds == kind) & (plan.tier == tier)))))
    return found


def part_columns(plan: Plan, verdicts: Sequence[designs.Verdict]) -> dict[str, Any]:
    """Return the table: a row for each requirement, then one for each kind of part and of cable.

    Figures have units of their own, and are written with them.
    """
    holds = {True: text("word.yes"), False: text("word.no"), None: text("word.open")}
    rows: list[tuple[str, str, str, float, str]] = []
    for verdict in verdicts:
        asked = reached = ""
        room = np.nan
        if has_figures(verdict):
            asked = amount(float(verdict.asked), verdict.unit) if verdict.asked else ""
            reached = amount(float(verdict.reached), verdict.unit)
            if not verdict.asked:
                reached = against_words(verdict)
            room = 100 * float(verdict.margin) if verdict.asked else np.nan
        name = requirement_name(verdict.requirement)
        rows.append((name, asked, reached, room, holds[verdict.passed]))
    for kind, n in kinds_of(plan):
        rows.append((counted(2, kind).split(maxsplit=1)[1], "", f"{n:,}", np.nan, ""))
    for name, n in cable_kinds(plan):
        rows.append((name, "", f"{n:,}", np.nan, ""))
    columns = list(zip(*rows, strict=True))
    heads = ("what", "asked", "reached", "room [%]", "holds")
    return {head: np.array(column) for head, column in zip(heads, columns, strict=True)}


def cable_kinds(plan: Plan) -> list[tuple[str, int]]:
    """Return the number of cables between each two kinds of boxes."""
    pairs: dict[str, int] = {}
    ends = zip(plan.low.tolist(), plan.high.tolist(), plan.cables.tolist(), strict=True)
    for low, high, n in ends:
        name = text("plan.cables", a=plan.kinds[low], b=plan.kinds[high])
        pairs[name] = pairs.get(name, 0) + n
    return sorted(pairs.items())
