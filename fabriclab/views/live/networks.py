"""Live views of networks: families compared, a twisted torus, traffic on rails, failures, and cuts."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fabriclab import catalog, collectives, metrics, operations, topologies, units
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints
from fabriclab.routing import route
from fabriclab.texts import text
from fabriclab.views.asides import Curve, Spot, curve_panel
from fabriclab.views.common import common_ends
from fabriclab.views.fabrics import MOST_NODES, scene_of
from fabriclab.views.layout import counted, in_load, link_in_words, marks_of
from fabriclab.views.live.controls import routing_name
from fabriclab.views.live.ways import HALL_WIDTH, SIDE_WIDTH, narrowed, uplinks
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.maps import is_direct, places_of
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, heading, ink_on, key, lines, texts
from fabriclab.views.solids import (
    Solid,
    closing,
    solid_axes,
    solid_dots,
    solid_lines,
    solid_of,
    stubs,
)

SIZES = (16, 64, 256, 1024)
# illustrative: for each family and each entry of SIZES, a member with about so many endpoints
_FILE = Path(__file__).with_name("families.json")
FAMILIES: dict[str, list[dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))
_MOST_FAILURES = 32
_MOST_NAMED = 8  # of them, in words
_MOST_FOR_CURVE = (
    512  # endpoints up to which what is left after fewer and more failures is computed, too
)
_CURVE_HEIGHT = 300.0  # of the panel with that curve at most [px]
_CURVE_POINTS = 17  # numbers of failures on that curve
_ALMOST = 0.999  # of the fullest link: as full
_OVERLAP = (
    0.6  # of neighbouring areas: where they only touch, the paper shows through between them [px]
)
_CUT_LINE = 2.6  # width of a line of the cut [px]
_FAMILIES_WIDTH = 216.0  # of the panel that compares families [px]
_FAMILIES_TOP = 46.0  # of the first row [px]
_FAMILY_ROW = 72.0  # greatest height of a row [px]
_FAMILY_LEFT = 12.0  # where their names and their bars begin [px]
_FAMILY_BAR = 100.0  # length of the longest bar [px]
_BAR_THICK = 10.0  # [px]
_NAME_ABOVE, _BAR_BELOW = 8.0, 6.0  # middles of name and bar, from that of the row [px]
_DIAMETER_RIGHT = _FAMILIES_WIDTH - 4  # where the diameters end [px]
_SOLID = (560.0, 390.0)  # width and height of the picture of a torus [px]
_SOLID_ROOM = (536.0, 366.0)  # room for its chips and their cables [px]
# What closing cables need beside the chips: left, above, right and below, in distances between chips.
_FRONT_ROOM = (0.75, 0.42, 0.5, 0.55)
_ALL_ROOM = (1.3, 1.2, 0.5, 0.6)
_PALE = 0.4  # opacity of the ends of cables that are not drawn
_PANEL = 330.0  # width of the bars beside a picture [px]
_MOST_COMPARED = 512  # chips of a torus up to which all twists are compared


def send_rates(fabric: Fabric) -> Floats:
    """Return the total rate of all links out of each endpoint, (P,). [B/s]."""
    of_node = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)  # (N,)
    return np.asarray(of_node[fabric.endpoint])


# Uniform traffic --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UniformTraffic:
    """Uniform all-to-all traffic at the highest rate that the fullest link allows."""

    load: Floats  # (L,) load of each link, as a fraction of its capacity
    diameter: int  # [hops]
    mean_hops: float
    throughput: float  # fraction of line rate at which a rank can send
    rate: float  # mean rate at which a rank sends [B/s]
    cables: int

    @property
    def fields(self) -> dict[str, Any]:
        """The figures under the names that captions use for them."""
        return {
            "diameter": self.diameter,
            "mean": self.mean_hops,
            "part": 100 * self.throughput,
            "rate": self.rate,
            "cables": counted(self.cables, "cable"),
        }


def uniform_traffic(fabric: Fabric) -> UniformTraffic:
    """Return the load and the figures of uniform traffic at the throughput of a fabric."""
    hops = metrics.hops(fabric)
    # Each rank sends at its full rate, in equal parts to all others. [B/s]
    to_each = send_rates(fabric) / (fabric.n_ranks - 1)
    bytes_per_second, *_ = metrics.traffic.uniform_load(fabric, to_each)
    load = bytes_per_second / np.maximum(fabric.capacity, 1.0)
    part = 1 / load.max()  # fraction of line rate at which the fullest link is just full
    return UniformTraffic(
        load=load * part,
        diameter=hops.diameter,
        mean_hops=hops.mean,
        throughput=part,
        rate=part * (fabric.n_ranks - 1) * to_each.mean(),
        cables=fabric.n_cables,
    )


# Explorer ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A network of a family, with its load under uniform traffic and its figures in words."""

    fabric: Fabric
    traffic: UniformTraffic
    caption: str

    @property
    def load(self) -> Floats:
        """The load of each link, (L,)."""
        return self.traffic.load


def explorer(
    family: str = "fat_tree",
    size: int = 64,
    colour: str = "load",
    *,
    families: tuple[str, ...] = tuple(FAMILIES),
) -> Live:
    """Compare families of networks of about equal size: switches, cables, hops, and throughput of uniform traffic.

    Parameters
    ----------
    family : str
        One of ``families``.
    size : int
        Approximate number of endpoints: 16, 64, 256 or 1,024.
    colour : str
        What the colour of a link shows: "load" (under all-to-all traffic at the rate that the fullest link allows) or
        "tier"; in a network without tiers, "tier" shows the axis of each cable.
    families : tuple of str
        Which families to offer.
    """
    arguments = {"family": family, "size": size, "colour": colour, "families": families}
    controls: dict[str, Control] = {
        "family": Choice(families, names=tuple(map(family_name, families))),
        "size": Choice(SIZES),
        "colour": Choice(("load", "tier")),
    }
    return live_view("explorer", arguments, partial(explorer_scene, families), controls)


def explorer_scene(families: tuple[str, ...], family: str, size: int, colour: str) -> Scene:
    """Return a picture of the member of a family with about ``size`` endpoints, and bars of all ``families``."""
    member = family_member(family, size)
    load = member.load if colour == "load" else None
    drawn = scene_of(member.fabric, load, colour, said=member.caption)
    if len(families) == 1:
        return drawn  # there is nothing to compare it with
    return replace(drawn, side=families_panel(families, family, size, drawn.height))


def family_name(family: str) -> str:
    """Return the name of a family of networks as engineers write it, such as "Slim Fly" for "slim_fly"."""
    return text(f"family.{family}")


def families_panel(families: tuple[str, ...], family: str, size: int, height: float) -> Scene:
    """Return bars of what an all-to-all gives an endpoint of each family, and the diameters; the present one is ink."""
    members = [family_member(name, size) for name in families]
    rows = family_rows(families, family, height)
    rates = np.array([member.traffic.rate for member in members])  # (R,) [B/s]
    parts = [member.traffic.throughput for member in members]
    diameters = [member.traffic.diameter for member in members]
    share_title = text("live.explorer.share")
    diameter_title = text("live.explorer.diameter")
    layers = {
        "families": family_names(rows),
        "share title": texts(_FAMILY_LEFT, [22.0], [share_title], colour=COLOUR["soft"]),
        "share bars": share_bars(rows, rates, parts, share_title),
        "share numbers": share_numbers(rows, rates),
        "diameter title": texts(
            _DIAMETER_RIGHT, [22.0], [diameter_title], align=2.0, colour=COLOUR["soft"]
        ),
        "diameter numbers": diameter_numbers(rows, diameters),
    }
    return Scene("", layers=layers, height=height, width=_FAMILIES_WIDTH)


class FamilyRows(NamedTuple):
    """Where the families that are compared stand, one row for each. R rows."""

    names: list[str]
    top: Floats  # (R,) [px]
    pitch: float  # height of a row [px]
    is_now: Flags  # (R,) whether it is the family that is drawn

    @property
    def middle(self) -> Floats:
        """Middles of the rows, (R,) [px]."""
        return self.top + self.pitch / 2

    @property
    def bold(self) -> Floats:
        """Weight of the words of each row, (R,)."""
        return self.is_now.astype(float)

    @property
    def ink(self) -> Floats:
        """Colour of the words of each row, (R,)."""
        return np.where(self.is_now, COLOUR["ink"], COLOUR["soft"])


def family_rows(families: tuple[str, ...], family: str, height: float) -> FamilyRows:
    """Return a row for each family, in a panel of so many px."""
    pitch = min(_FAMILY_ROW, (height - _FAMILIES_TOP - 10) / len(families))
    return FamilyRows(
        names=[family_name(name) for name in families],
        top=_FAMILIES_TOP + pitch * np.arange(len(families), dtype=np.float64),
        pitch=pitch,
        is_now=np.array([name == family for name in families]),
    )


def family_names(rows: FamilyRows) -> Layer:
    """Return the name of each family, above its bar."""
    return texts(
        _FAMILY_LEFT, rows.middle - _NAME_ABOVE, rows.names, bold=rows.bold, colour=rows.ink
    )


def share_lengths(rates: Floats) -> Floats:
    """Return the length of the bar of each rate, (R,) [px]; the longest one has the same length in all panels."""
    return np.asarray(_FAMILY_BAR * rates / rates.max())


def share_bars(rows: FamilyRows, rates: Floats, parts: list[float], title: str) -> Layer:
    """Return a bar for the rate of an endpoint of each family [B/s], with the ``parts`` of its links in the note.

    Endpoints have different numbers of links, so that the parts themselves cannot be compared.
    """
    notes = [
        text("live.explorer.bar", rate=units.format_rate(rate), share=f"{100 * part:.3g}")
        for rate, part in zip(rates.tolist(), parts, strict=True)
    ]
    return boxes(
        _FAMILY_LEFT,
        rows.middle + _BAR_BELOW - _BAR_THICK / 2,
        share_lengths(rates),
        _BAR_THICK,
        colour=np.where(rows.is_now, COLOUR["ink"], COLOUR["hair"]),
        round=2.0,
        glide=True,
        names=[f"{name}: {title}" for name in rows.names],
        notes=notes,
    )


def share_numbers(rows: FamilyRows, rates: Floats) -> Layer:
    """Return the rate of an endpoint of each family behind its bar."""
    return texts(
        _FAMILY_LEFT + share_lengths(rates) + 6,
        rows.middle + _BAR_BELOW,
        [units.format_rate(rate) for rate in rates.tolist()],
        bold=rows.bold,
        colour=rows.ink,
    )


def diameter_numbers(rows: FamilyRows, diameters: list[int]) -> Layer:
    """Return the diameter of each family at the right edge."""
    return texts(
        _DIAMETER_RIGHT,
        rows.middle + _BAR_BELOW,
        [f"{diameter:.3g}" for diameter in diameters],
        align=2.0,
        bold=rows.bold,
        colour=rows.ink,
    )


@cache
def family_member(family: str, size: int) -> FamilyMember:
    """Return the member of a family with about ``size`` endpoints, under uniform traffic."""
    fabric = topologies.build(family, **FAMILIES[family][SIZES.index(size)])
    traffic = uniform_traffic(fabric)
    endpoint_kind = fabric.kinds[fabric.kind[fabric.endpoint[0]]]
    caption = text(
        "live.explorer.said",
        ends=counted(fabric.n_ranks, endpoint_kind),
        links=links_in_words(fabric),
        switches=counted(int(np.sum(fabric.tier > 0)), "switch"),
        **traffic.fields,
    )
    return FamilyMember(fabric, traffic, caption)


def links_in_words(fabric: Fabric) -> str:
    """Return in words how many links an endpoint has: "4 links", or a range if endpoints differ."""
    links = np.bincount(fabric.source, minlength=fabric.n_nodes)[fabric.endpoint]  # (P,)
    words = counted(int(links.max()), "link")
    if np.ptp(links):
        return text("fabric.to", rate=links.min()) + " " + words
    return words


# Twist ------------------------------------------------------------------------------------------


def twist(shape: tuple[int, ...] = (4, 4, 8), shift: int = 0, cables: str = "front") -> Live:
    """Show a torus whose closing cables can be shifted: the same cables then give other routes.

    The torus is a solid that a reader can turn. Beside it stand the rate of an all-to-all and the longest route for
    every shift, in a torus of at most 512 chips.

    Parameters
    ----------
    shape : tuple of int
        Length of each side; some sides have k chips, the others 2k.
    shift : int
        By how many places along the long sides the cables that close a short side are shifted; 0 is the plain torus.
    cables : str
        Which closing cables are drawn in full: those of the "front", or "all". Of the others only the ends are drawn.
    """
    arguments = {"shape": shape, "shift": shift, "cables": cables}
    twists = Twists(tuple(shape), int(np.argmin(shape)))
    controls: dict[str, Control] = {
        "shift": Slider(0, max(shape) - 1),
        "cables": Choice(("front", "all")),
    }
    return live_view("twist", arguments, partial(twist_scene, twists), controls)


class Twists:
    """A torus with each of its twists, and the figures of uniform traffic on it."""

    def __init__(self, shape: tuple[int, ...], short: int) -> None:
        """Prepare a torus whose cables along the axis ``short`` are shown as rings."""
        self.shape = shape
        self.short = short
        self.rate = catalog.value("links", "ici-tpu4", "bandwidth_per_link")
        self.fabric = cache(self._fabric)
        self.traffic = cache(self._traffic)

    def _fabric(self, shift: int) -> Fabric:
        """Return the torus with a twist."""
        return topologies.build("twisted_torus", shape=self.shape, shift=shift, rate=self.rate)

    def _traffic(self, shift: int) -> UniformTraffic:
        """Return the figures of uniform traffic on the torus with a twist."""
        return uniform_traffic(self.fabric(shift))

    def known(self, shift: int) -> list[int]:
        """Return the shifts to compare: all, or in a large torus only this one and none."""
        if np.prod(self.shape) <= _MOST_COMPARED:
            return list(range(max(self.shape)))
        return sorted({0, shift})


def twist_scene(twists: Twists, shift: int, cables: str) -> Scene:
    """Return a picture of a twisted torus in which one ring along the short axis is lit."""
    fabric = twists.fabric(shift)
    traffic = twists.traffic(shift)
    short = twists.short
    grid = [fabric.coord[:, i].astype(np.int64) for i in range(len(fabric.coord_names))]
    around = _FRONT_ROOM if cables == "front" else _ALL_ROOM
    solid = solid_of(grid, (_SOLID[0] / 2, _SOLID[1] / 2), _SOLID_ROOM, short, around)
    ring = short_ring(fabric, short, solid)
    plain = ""
    if shift:
        plain = text("live.twist.plain", part=100 * twists.traffic(0).throughput)
    caption = text(
        "live.twist.said",
        shift=shift,
        plain=plain,
        axis=fabric.coord_names[short],
        ring=counted(len(ring), "chip"),
        **traffic.fields,
    )
    more = text("live.twist.more", along=loads_in_words(fabric, traffic.load), **traffic.fields)
    drawn = scene_of(fabric, traffic.load, said=caption)
    if drawn.wrong:  # too large to be drawn
        return drawn
    full = text("live.twist.drawn_front" if cables == "front" else "live.twist.drawn_all")
    return replace(
        drawn,
        alt=f"{drawn.alt} {more} {full}",
        layers=twist_layers(fabric, solid, ring, short, traffic.load, cables),
        width=_SOLID[0],
        height=_SOLID[1],
        side=twist_panel(twists, shift),
    )


def loads_in_words(fabric: Fabric, load: Floats) -> str:
    """Return in words the load of the fullest link of each axis of a torus, such as "x 50 %, y 100 %"."""
    by_axis = load.reshape(len(fabric.coord_names), -1)  # cables are numbered axis by axis
    percent = 100 * by_axis.max(axis=1)
    pairs = zip(fabric.coord_names, percent, strict=True)
    return ", ".join(f"{name} {part:.3g} %" for name, part in pairs)


def short_ring(fabric: Fabric, short: int, solid: Solid) -> list[int]:
    """Return the chips of one ring along the axis ``short`` of a torus, in their order.

    The ring begins on the side towards the reader, at the corner above on the left.
    """
    corner = np.lexsort((solid.place[:, 0], solid.place[:, 1], -solid.place[:, 2]))
    first = int(corner[0])

    # Every second link is the forward direction of a cable, and cables are numbered axis by axis.
    next_chip = fabric.target[::2].reshape(len(fabric.coord_names), -1)[short]  # (N,)
    ring = [first]
    chip = int(next_chip[first])
    while chip != first:
        ring.append(chip)
        chip = int(next_chip[chip])
    return ring


def chip_name(fabric: Fabric, chip: int) -> str:
    """Return the name of a chip by its coordinates, such as "chip 3 0 2"."""
    return text("live.twist.chip", place=" ".join(str(int(c)) for c in fabric.coord[chip]))


def twist_layers(
    fabric: Fabric, solid: Solid, ring: list[int], short: int, load: Floats, cables: str
) -> dict[str, Layer]:
    """Return the layers of a twisted torus: cables, the ends of those not drawn, the lit ring, and chips."""
    axes = len(fabric.coord_names)
    source = fabric.source[::2].astype(np.int64)  # of each cable
    target = fabric.target[::2].astype(np.int64)
    axis = np.repeat(np.arange(axes), source.size // axes)
    size = fabric.coord.max(axis=0) + 1
    is_closing = fabric.coord[source, axis] == size[axis] - 1
    in_ring = np.isin(source, ring) & (axis == short)
    # All of "front" have both ends on the side towards the reader.
    front = solid.place[source, 2] > solid.place[:, 2].max() - 0.5 * solid.unit
    shown = is_closing & ((axis == short) & front if cables == "front" else True)

    names = [
        f"{chip_name(fabric, int(a))} – {chip_name(fabric, int(b))}"
        for a, b in zip(source, target, strict=True)
    ]
    fuller = np.maximum(load[::2], load[1::2])
    notes = [in_load(part) for part in fuller.tolist()]

    def of(which: Any) -> dict[str, Any]:
        """Return the names and notes of some cables."""
        here = np.arange(source.size)[which]
        return {"names": [names[i] for i in here], "notes": [notes[i] for i in here]}

    grey = COLOUR["edge"]
    runs = solid.place[np.stack([source, target], axis=1)]  # (C, 2, 3)
    straight = ~is_closing & ~in_ring
    links = solid_lines(list(runs[straight]), solid, width=0.9, colour=grey, **of(straight))

    rung = ~is_closing & in_ring
    lit = solid_lines(
        list(runs[rung]), solid, width=3.2, colour=COLOUR["ring"], strong=1.0, **of(rung)
    )

    hidden = np.flatnonzero(is_closing & ~shown)
    last, first = stubs(solid, source[hidden], target[hidden], axis[hidden])
    both_ends = np.concatenate([hidden, hidden])
    ends = solid_lines(
        last + first, solid, width=0.9, colour=grey, dash=4.0, alpha=_PALE, **of(both_ends)
    )

    curves: list[Floats] = []
    drawn: list[int] = []  # the cable of each curve
    for i in range(axes):
        here = np.flatnonzero(shown & (axis == i))
        curves += closing(solid, source[here], target[here], i)
        drawn += here.tolist()
    is_lit = in_ring[drawn]
    closings = solid_lines(
        curves,
        solid,
        width=np.where(is_lit, 3.2, 1.2),
        colour=np.where(is_lit, COLOUR["ring"], grey),
        strong=is_lit.astype(float),
        ghost=True,
        glide=True,
        **of(drawn),
    )
    return {
        "links": links,
        "stubs": ends,
        "closing": closings,
        "ring": lit,
        "chips": chip_dots(fabric, solid, ring),
        "words": solid_axes(solid, fabric.coord_names),
    }


def chip_dots(fabric: Fabric, solid: Solid, ring: list[int]) -> Layer:
    """Return a dot for each chip; those of the ring are larger and lit."""
    of_ring = np.isin(np.arange(fabric.n_nodes), ring)
    height = solid.place[:, 2]
    is_front = height > height.max() - 1
    return solid_dots(
        solid.place,
        solid,
        size=np.where(of_ring, 5.0, 3.2),
        colour=np.where(of_ring, COLOUR["ring"], COLOUR["node"]),
        # Chips of the front lie before the cables that leave from them.
        lift=np.where(is_front, 4.0, 0.75) * solid.unit,
        names=[chip_name(fabric, i) for i in range(fabric.n_nodes)],
        notes=[text("live.twist.in_ring" if lit else "live.twist.off_ring") for lit in of_ring],
    )


# All twists beside it --------------------------------------------------------------------------


def twist_panel(twists: Twists, shift: int) -> Scene:
    """Return bars of the rate and of the longest route for each twist, and the load of each axis for this one."""
    known = twists.known(shift)
    traffic = [twists.traffic(k) for k in known]
    names = [str(k) for k in known]
    now = known.index(shift)
    fabric = twists.fabric(shift)
    by_axis = twists.traffic(shift).load.reshape(len(fabric.coord_names), -1).max(axis=1)
    before = twists.traffic(0).load.reshape(len(fabric.coord_names), -1).max(axis=1)
    axes = list(fabric.coord_names)
    plain = known.index(0) if shift else None  # without a twist there is nothing to compare with
    layers = bar_chart(
        "rate",
        8.0,
        (text("live.twist.rate"), text("live.twist.rate_unit"), text("live.twist.shift")),
        names,
        np.array([100 * t.throughput for t in traffic]),
        now,
        plain,
    )
    layers |= bar_chart(
        "route",
        140.0,
        (text("live.twist.route"), text("live.twist.route_unit"), text("live.twist.shift")),
        names,
        np.array([float(t.diameter) for t in traffic]),
        now,
        plain,
    )
    layers |= bar_chart(
        "load",
        272.0,
        (text("live.twist.fullest"), text("live.twist.load_unit"), text("live.twist.axis")),
        axes,
        100 * by_axis,
        None,
        None,
        before=100 * before if shift else None,
    )
    return Scene("", layers=layers, height=_SOLID[1], width=_PANEL)


def bar_chart(
    name: str,
    top: float,
    words: tuple[str, str, str],
    names: list[str],
    values: Floats,
    now: int | None,
    plain: int | None,
    before: Floats | None = None,
) -> dict[str, Layer]:
    """Return a small chart of bars: the present one in ink with its number, the others grey.

    Parameters
    ----------
    name : str
        Beginning of the names of its layers.
    top : float
        Upper edge of the chart. [px]
    words : tuple of str
        Title, unit, and what the bars stand for.
    names, values : list of str, ndarray
        Name and length of each bar.
    now, plain : int, optional
        Number of the bar of the present state, and of the one that is dotted because all others are compared with it.
        Without a present one all bars are ink and have numbers.
    before : ndarray, optional
        Values to draw dotted around the bars.
    """
    title, unit, what = words
    left, right = 22.0, _PANEL - 18.0
    high, low = top + 44.0, top + 98.0
    pitch = min((right - left - 46) / len(names), 34.0)
    highest = max(float(values.max()), 0.0 if before is None else float(before.max()), 1e-9)
    _, highest = common_ends(name, 0.0, highest)
    bars = BarPlaces(
        x=left + pitch * (np.arange(len(names), dtype=np.float64) + 0.2),
        wide=0.6 * pitch,
        low=low,
        unit=(low - high) / highest,
        is_now=np.ones(values.size, bool) if now is None else np.arange(values.size) == now,
    )
    numbered = bars.is_now.copy()
    dotted = np.zeros(values.size, dtype=bool)
    if before is not None:
        dotted[:] = True
    if plain is not None:
        numbered[plain] = True
        dotted[plain] = True

    axis = [np.array([[left, low], [right, low]])]
    ghost = bars.outlines(values if before is None else before, dotted)
    layers = {
        "title": heading(top + 8, title, left),
        "unit": texts(right, [top + 8], [unit], align=2.0, colour=COLOUR["soft"]),
        "axis": lines(axis, width=1.0, colour=COLOUR["line"]),
        "bars": chart_bars(bars, values, [f"{what} {n}" for n in names], (title, unit)),
        "numbers": chart_numbers(bars, values, np.flatnonzero(numbered)),
        "ticks": chart_ticks(bars, names, has_present=now is not None),
        "what": texts(right, [low + 11], [what], align=2.0, colour=COLOUR["soft"]),
        "plain": lines(ghost, width=1.2, dash=2.0, colour=COLOUR["edge"]),
    }
    return {f"{name} {part}": layer for part, layer in layers.items()}


class BarPlaces(NamedTuple):
    """Where the bars of a small chart stand.

    ``x`` are their left edges and ``wide`` is their width [px], ``low`` is their foot, ``unit`` the height of a value
    of 1 [px], and ``is_now`` tells the bar of the present state.
    """

    x: Floats
    wide: float
    low: float
    unit: float
    is_now: Flags

    def outlines(self, values: Floats, chosen: Flags) -> list[Floats]:
        """Return a path around each chosen bar, of the height of a value."""
        paths = []
        for i in np.flatnonzero(chosen):
            up = self.low - self.unit * values[i]
            left, right = self.x[i] - 1.5, self.x[i] + self.wide + 1.5
            paths.append(np.array([[left, self.low], [left, up], [right, up], [right, self.low]]))
        return paths


def chart_bars(bars: BarPlaces, values: Floats, names: list[str], words: tuple[str, str]) -> Layer:
    """Return the bars of a small chart; ``words`` are its title and its unit."""
    title, unit = words
    tall = bars.unit * values
    return boxes(
        bars.x,
        bars.low - tall,
        bars.wide,
        tall,
        colour=np.where(bars.is_now, COLOUR["ink"], COLOUR["hair"]),
        round=2.0,
        glide=True,
        names=names,
        notes=[f"{title} {value:.3g} {unit}" for value in values],
    )


def chart_numbers(bars: BarPlaces, values: Floats, here: Ints) -> Layer:
    """Return the values of some bars, above them."""
    is_now = bars.is_now[here]
    return texts(
        bars.x[here] + bars.wide / 2,
        bars.low - bars.unit * values[here] - 9,
        [f"{value:.3g}" for value in values[here]],
        align=1.0,
        bold=is_now.astype(float),
        colour=np.where(is_now, COLOUR["ink"], COLOUR["soft"]),
    )


def chart_ticks(bars: BarPlaces, names: list[str], has_present: bool) -> Layer:
    """Return the names below the bars: all, or where they are many every second or third and the present one."""
    is_now = bars.is_now
    every = -(-len(names) // 12)
    here = []
    for i in range(len(names)):
        is_beside = every > 1 and is_now[max(i - 1, 0) : i + 2].any()
        if is_now[i] or (i % every == 0 and not is_beside):
            here.append(i)
    return texts(
        bars.x[here] + bars.wide / 2,
        bars.low + 11,
        [names[i] for i in here],
        align=1.0,
        bold=is_now[here].astype(float) if has_present else 0.0,
        colour=np.where(is_now[here], COLOUR["ink"], COLOUR["soft"]),
    )


# Mix --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of ranks that send to each other: the source and the target of each."""

    source: Ints  # (F,)
    target: Ints  # (F,)


def mix(
    fabric: Fabric,
    share: int = 0,
    routing: str = "spray",
    colour: str = "load",
    *,
    routings: tuple[str, ...] = ("spray", "pxn"),
) -> Live:
    """Show rings on the rails mixed with all-to-all: how much traffic stays on a leaf, and how much crosses a spine.

    Every GPU sends the same number of bytes: one part in equal shares to all GPUs of other servers, and the rest to
    the next GPU of its rail.

    Parameters
    ----------
    fabric : Fabric
        A fabric with rails, such as ``topologies.build("rail_optimised", servers=16)``.
    share : int
        Share of the bytes that are all-to-all traffic. [%]
    routing, colour : str
        One of ``routings``; what the colour of a link shows: load, tier or rail.
    routings : tuple of str
        Routings to offer. "spray", shown as "own NIC", sends from the GPU's own NIC; "pxn" sends over NVLink to the GPU
        on the target's rail, whose NIC then sends.
    """
    arguments = {
        "fabric": fabric,
        "share": share,
        "routing": routing,
        "colour": colour,
        "routings": routings,
    }
    controls: dict[str, Control] = {
        "share": Slider(0, 100, 5, unit="%"),
        "routing": Choice(routings, names=tuple(map(exit_name, routings))),
        "colour": Choice(("load", "tier", "rail")),
    }
    ring_load = cache(partial(load_of_pairs, fabric, rail_neighbours(fabric)))
    all_load = cache(partial(load_of_pairs, fabric, pairs_of_servers(fabric)))
    scene = partial(mix_scene, fabric, ring_load, all_load, uplinks(fabric))
    return live_view("mix", arguments, scene, controls)


def exit_name(routing: str) -> str:
    """Return the name of a routing by how it leaves a server; how switches spread the packets matters little here."""
    return text("live.mix.own_nic") if routing == "spray" else routing_name(routing)


def rail_neighbours(fabric: Fabric) -> Pairs:
    """Pair each GPU with the next GPU of its rail."""
    groups = np.array(collectives.rail_groups(fabric))  # (rails, servers)
    return Pairs(groups.ravel(), np.roll(groups, -1, axis=-1).ravel())


def pairs_of_servers(fabric: Fabric) -> Pairs:
    """Pair each GPU with every GPU of another server."""
    server = fabric.server  # (P,)
    source, target = np.nonzero(server[:, None] != server[None, :])
    return Pairs(source, target)


def load_of_pairs(fabric: Fabric, pairs: Pairs, routing: str) -> Floats:
    """Return what each link carries (L,) if every GPU sends a total of 1, in equal shares to its targets."""
    source = fabric.endpoint[pairs.source]
    target = fabric.endpoint[pairs.target]
    flows = Flows.make(source, target, 1.0)
    carried = route(fabric, flows, routing).link_bytes(flows, fabric.n_links)
    return carried * fabric.n_ranks / pairs.source.size


def mix_scene(
    fabric: Fabric,
    ring_load: Callable[[str], Floats],
    all_load: Callable[[str], Floats],
    uplinks: Ints,
    share: int,
    routing: str,
    colour: str,
) -> Scene:
    """Return a picture of a fabric under both kinds of traffic, of which ``share`` per cent are all-to-all.

    ``ring_load`` and ``all_load`` return what each link carries (L,) of their kind, given the name of a routing;
    ``uplinks`` are the links from leaves to spines.
    """
    part = share / 100
    carried = (1 - part) * ring_load(routing) + part * all_load(routing)  # (L,)
    over_spine = float(carried[uplinks].sum()) / fabric.n_ranks
    time = carried / fabric.capacity  # (L,)
    caption = text(
        "live.mix.said",
        share=share,
        routing=exit_name(routing),
        spine=100 * over_spine,
        leaf=100 * (1 - over_spine),
    )
    fullest = np.flatnonzero(time > _ALMOST * time.max())
    if fullest.size == 1:  # of several, none would be seen to be the one
        caption += " " + text("live.mix.fullest", link=link_in_words(fabric, int(fullest[0])))
    return scene_of(fabric, time / time.max(), colour, said=caption)


# Failures ---------------------------------------------------------------------------------------


def failures(
    fabric: Fabric,
    what: str = "cable",
    count: int = 1,
    seed: int = 0,
    *,
    kinds: tuple[str, ...] = ("cable", "leaf", "spine"),
) -> Live:
    """Show a fabric in which some parts, chosen at random, have failed, and the bandwidth that is left.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    what : str
        One of ``kinds``.
    count : int
        Number of parts that fail, at most 32.
    seed : int
        Seed of the random choice.
    kinds : tuple of str
        Kinds of parts that may fail, as in `fabriclab.operations.parts`.
    """
    arguments = {"fabric": fabric, "what": what, "count": count, "seed": seed, "kinds": kinds}
    parts = {kind: list(operations.parts(fabric, kind)) for kind in kinds}
    fewest = min(_MOST_FAILURES, *map(len, parts.values()))
    controls: dict[str, Control] = {
        "what": Choice(kinds),
        "count": Slider(0, fewest),
        "seed": Slider(0, 20),
    }
    even = np.rint(np.linspace(0, fewest, _CURVE_POINTS)).astype(np.int64)
    counts = np.unique(np.append(even, min(1, fewest)))  # the first failure may cost most
    curve = cache(partial(bandwidth_left, fabric, parts, counts))
    scene = partial(failures_scene, fabric, parts, lambda *of: Curve("", counts, curve(*of)))
    return live_view("failures", arguments, scene, controls)


def failures_scene(
    fabric: Fabric,
    parts: Mapping[str, list[Any]],
    curve: Callable[[str, int], Curve],
    what: str,
    count: int,
    seed: int,
) -> Scene:
    """Return a picture of a fabric in which ``count`` parts of the kind ``what`` have failed, chosen by ``seed``.

    Beside a small fabric stands the bandwidth that is left after each number of failures of this draw, a ``curve``.
    """
    candidates = parts[what]
    drawn_by_lot = np.random.default_rng(seed).permutation(len(candidates))[:count]
    failed = [candidates[i] for i in drawn_by_lot]
    damaged = operations.fail(fabric, what, failed)
    report = operations.report(fabric, damaged)
    caption = text(
        "live.failures.said",
        n=len(failed),
        what=counted(len(candidates), what),
        part=100 * report.bandwidth,
        cut=counted(report.cut_off.size, "rank"),
    )
    through_neighbours = np.setdiff1d(report.alone, report.cut_off).size
    if through_neighbours:
        ranks = counted(through_neighbours, "rank")
        caption += " " + text("live.failures.alone", ranks=ranks)
    if fabric.n_ranks > _MOST_FOR_CURVE:
        return scene_of(damaged, None, "failure", said=caption)
    if is_direct(damaged):
        drawn = narrowed(scene_of(damaged, None, "failure", said=caption))
    else:
        drawn = scene_of(damaged, None, "failure", said=caption, width=HALL_WIDTH)
    if drawn.wrong:
        return drawn
    if failed:
        drawn = replace(drawn, alt=f"{drawn.alt} {failed_in_words(fabric, what, failed)}")
    side = left_panel(curve(what, seed), what, count, report.bandwidth, drawn.height)
    return replace(drawn, side=side)


def failed_in_words(fabric: Fabric, what: str, failed: Sequence[int]) -> str:
    """Return which parts of the kind ``what`` have failed, for those who cannot see their colour."""
    named = sorted(failed)[:_MOST_NAMED]
    if what == "cable":
        names = [link_in_words(fabric, 2 * cable) for cable in named]
    else:
        names = [f"{what} {number}" for number in named]
    key = "live.failures.named" if len(failed) <= _MOST_NAMED else "live.failures.named_some"
    return text(key, names="; ".join(names), n=len(failed) - len(named))


def left_panel(curve: Curve, what: str, count: int, share: float, height: float) -> Scene:
    """Return the panel of the share of the bandwidth that is left over the number of failures, with this one in ink."""
    panel = curve_panel(
        text("live.failures.left"),
        text("live.failures.failed", what=counted(2, what).split(" ", 1)[1]),
        [curve],
        [Spot(count, share, text("live.failures.share", share=100 * share))],
        show_x=lambda value: f"{value:g}",
        show_y=lambda value: f"{100 * value:.0f} %",
        height=min(height, _CURVE_HEIGHT),
        width=SIDE_WIDTH,
    )
    return replace(panel, height=height)


def bandwidth_left(
    fabric: Fabric, parts: Mapping[str, list[Any]], counts: Ints, what: str, seed: int
) -> Floats:
    """Return the share of the bandwidth that is left after each number of failures of one draw, (C,)."""
    drawn = np.random.default_rng(seed).permutation(len(parts[what]))
    left = []
    for count in counts.tolist():
        damaged = operations.fail(fabric, what, [parts[what][i] for i in drawn[:count]])
        left.append(operations.report(fabric, damaged).bandwidth)
    return np.array(left)


# Cut --------------------------------------------------------------------------------------------


# What the boxes and the lines of a cut look like, in the order of its key: the first half is full on a tinted area,
# the other half hollow on a grey one. Links that are cut are ink.
_CUT_LINE = 4.0  # width of the sample of a cut cable in the key [px]
_ONE, _OTHER, _BOTH = COLOUR["node"], COLOUR["paper"], COLOUR["line"]
_AREAS = {_ONE: COLOUR["domain"], _OTHER: COLOUR["sunk"]}
_MOST_AREA = 14.0  # how far an area reaches beyond a box [px]
_MOST_AREA_OF_GRID = (
    60.0  # the same in a grid of two axes, where it fills the room between boxes [px]
)


def cut(fabric: Fabric, first: int = 0, order: str = "in order") -> Live:
    """Split the ranks into halves, and show the smallest set of links that separates them.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    first : int
        Place in the order at which the first half begins.
    order : str
        Order of the ranks: "in order", "every other" rank first, or "shuffled".
    """
    arguments = {"fabric": fabric, "first": first, "order": order}
    orders = rank_orders(fabric.n_ranks)
    bound = metrics.bisection(fabric).lower
    scene = partial(cut_scene, fabric, orders, bound)
    controls: dict[str, Control] = {
        "first": Slider(0, fabric.n_ranks - 1),
        "order": Choice(tuple(orders)),
    }
    return live_view("cut", arguments, scene, controls)


def rank_orders(ranks: int) -> dict[str, Ints]:
    """Return the orders (P,) that the ranks can be split in, by name."""
    in_order = np.arange(ranks)
    return {
        "in order": in_order,
        "every other": np.argsort(in_order % 2, kind="stable"),
        "shuffled": np.random.default_rng(0).permutation(ranks),
    }


def cut_scene(
    fabric: Fabric, orders: Mapping[str, Ints], bound: float, first: int, order: str
) -> Scene:
    """Return a picture of a fabric with the smallest set of links that separates one half of the ranks from the other.

    The first half begins at place ``first`` of an order. Separating any half takes links of at least ``bound`` [B/s].
    """
    size = fabric.n_ranks // 2
    half = np.roll(orders[order], -first)[:size]
    links = metrics.cut(fabric, half)
    rate = float(fabric.capacity[links].sum())  # [B/s]
    own = send_rates(fabric)  # (P,) [B/s]
    # No cut needs more than the ranks of a half can send, and none is below the bound.
    is_full = bound >= np.sort(own)[-size:].sum()
    caption = text(
        "live.cut.full" if is_full else "live.cut.said",
        cables=counted(links.size, "cable"),
        rate=rate,
        part=100 * rate / own[half].sum(),
        least=bound,
    )

    is_cut = np.isin(np.arange(fabric.n_links), links).astype(float)  # (L,)
    drawn = scene_of(fabric, is_cut, said=caption, hall=False)
    if drawn.wrong:
        return drawn
    is_grid = is_direct(fabric) and len(fabric.coord_names) == 2
    reach = _MOST_AREA_OF_GRID if is_grid else _MOST_AREA
    picture = halved(drawn, box_colours(fabric, half), reach)
    halves = text("live.cut.halves", order=order, first=first)
    return replace(picture, alt=f"{picture.alt or caption} {halves}")


def box_colours(fabric: Fabric, half: Ints) -> Floats:
    """Return the colour of each box (B,): its ranks are all of one half, all of the other, or of both or none."""
    if is_direct(fabric):
        box_of_node = places_of(fabric).of_node
    else:
        box_of_node = marks_of(fabric, fabric.n_nodes > MOST_NODES, through=True).of_node
    boxes = int(box_of_node.max()) + 1
    ranks = np.bincount(box_of_node[fabric.endpoint], minlength=boxes)  # (B,)
    of_half = np.bincount(box_of_node[fabric.endpoint[half]], minlength=boxes)  # (B,)

    all_of_half = (of_half > 0) & (of_half == ranks)
    none_of_half = (of_half == 0) & (ranks > 0)
    return np.select([all_of_half, none_of_half], [_ONE, _OTHER], _BOTH)


def halved(drawn: Scene, colours: Floats, reach: float) -> Scene:
    """Return the picture of a cut with its own colours and words; in ``drawn``, links of the cut have load 1.

    ``colours`` are the colours of the boxes, which show the halves; areas behind them reach at most ``reach`` further
    [px].
    """
    table = cut_table(drawn)
    nodes = drawn.layers["nodes"]
    layers = {name: layer for name, layer in drawn.layers.items() if name not in ("case", "idle")}
    layers["nodes"] = half_nodes(nodes, colours)
    cut_of = cut_by_name(table)
    for name in ("cables", "stubs"):
        if name in layers:
            layers[name] = cut_lines(layers[name], cut_of)
    if "host links" in layers:  # only those that are cut have a load, and so a line
        fields = layers["host links"].fields
        look = {"colour": COLOUR["ink"], "width": _CUT_LINE}
        layers["host links"] = Layer("lines", {**fields, **look})
    layers |= cut_key(drawn, colours, sum(cut.cut for cut in cut_of.values()))
    if "hosts" in layers:  # dots beside the boxes: ink where the link to the switch is cut
        dots = layers["hosts"].fields
        is_cut = dots["colour"] != COLOUR["hair"]
        inks = np.where(is_cut, COLOUR["ink"], COLOUR["edge"])
        layers["hosts"] = Layer("dots", {**dots, "colour": inks})
    elif nodes.kind == "boxes":
        layers = {"areas": areas(nodes, colours, reach), **layers}
    return replace(drawn, layers=layers, alt=drawn.said, table=Table(table))


def half_nodes(nodes: Layer, colours: Floats) -> Layer:
    """Return the boxes, dots or bands of a picture in the colours of the halves; those of the other half are hollow."""
    fields = dict(nodes.fields)
    if nodes.kind == "boxes":
        hollow = np.where(colours == _ONE, COLOUR["none"], COLOUR["node"])
        return Layer(
            "boxes", {**fields, "colour": colours, "edge": hollow, "ink": half_ink(colours)}
        )
    if nodes.kind == "dots":
        return Layer("dots", {**fields, "colour": COLOUR["node"], "shape": (colours != _ONE) * 1.0})
    bands = np.where(colours == _OTHER, COLOUR["hair"], colours)
    return Layer("lines", {**fields, "colour": bands})


def half_ink(colours: Floats) -> Floats:
    """Return the colour of the text in each box: ink on a hollow one."""
    return np.where(colours == _ONE, ink_on(colours), COLOUR["ink"])


def areas(nodes: Layer, colours: Floats, reach: float) -> Layer:
    """Return a tinted area behind each box of a half; areas of neighbours touch, so that a half looks like one."""
    box = nodes.fields
    x, y = box["x"] + box["w"] / 2, box["y"] + box["h"] / 2
    which = np.flatnonzero(colours != _BOTH)
    across = apart(x, y, box["w"], reach)
    down = apart(y, x, box["h"], reach)
    across, down = across + _OVERLAP, down + _OVERLAP
    return boxes(
        box["x"][which] - across,
        box["y"][which] - down,
        box["w"][which] + 2 * across,
        box["h"][which] + 2 * down,
        colour=np.array([_AREAS[colour] for colour in colours[which].tolist()]),
        round=0.0,
    )


def apart(along: Floats, level: Floats, size: Floats, most: float) -> float:
    """Return half the least room between two boxes that stand on one level, ``most`` if there is more [px]."""
    room = [2 * most]
    for here in np.unique(np.round(level)):
        row = np.flatnonzero(np.round(level) == here)
        row = row[np.argsort(along[row])]
        if row.size > 1:
            gaps = np.diff(along[row]) - (size[row][1:] + size[row][:-1]) / 2
            room.append(float(max(gaps.min(), 2.0)))
    return min(room) / 2


def cut_table(drawn: Scene) -> dict[str, Any]:
    """Return the table of a picture, with the number of cut cables in each line instead of the load."""
    table = dict(drawn.table.columns) if drawn.table else {}
    table["cut"] = np.rint(table.pop("load") * table["cables"]).astype(int)
    del table["fullest"]
    return table


@dataclass(frozen=True, slots=True)
class CutCables:
    """Number of cables that are drawn as one line, and of those among them that are cut."""

    cables: int
    cut: int

    @property
    def note(self) -> str:
        """Both numbers in words."""
        return text("live.cut.note", cables=counted(self.cables, "cable"), n=self.cut)


def cut_by_name(table: Mapping[str, Any]) -> dict[str, CutCables]:
    """Return the cables of each line of a picture, by the name of the line."""
    rows = zip(table["from"], table["to"], table["cables"], table["cut"], strict=True)
    return {f"{a} – {b}": CutCables(int(cables), cut) for a, b, cables, cut in rows}


def cut_lines(layer: Layer, cut_of: Mapping[str, CutCables]) -> Layer:
    """Return lines among which those with cut cables are ink, and all others hairlines."""
    fields = {name: value for name, value in layer.fields.items() if name != "flow"}
    is_cut = np.array([cut_of[name].cut > 0 for name in fields["names"]])
    look = {
        "colour": np.where(is_cut, COLOUR["ink"], COLOUR["hair"]),
        "alpha": 1.0,
        "strong": is_cut.astype(float),
        "width": np.where(is_cut, _CUT_LINE, 1.0),
        "notes": [cut_of[name].note for name in fields["names"]],
    }
    return Layer("lines", {**fields, **look})


def cut_key(drawn: Scene, colours: Floats, n_cut: int) -> dict[str, Layer]:
    """Return a key to what occurs, with the number of cut cables, drawn where the scale of loads would be."""
    looks = {"one": _ONE, "other": _OTHER, "both": _BOTH}
    names = [
        text(f"live.cut.{name}") if colour in colours else "" for name, colour in looks.items()
    ]
    names.append(text("live.cut.cut", cables=counted(n_cut, "cable")))
    y = float(drawn.layers["scale"].fields["y"][0]) - 6
    layers = key(y, "", names, [*looks.values(), COLOUR["ink"]])
    samples = layers["scale"].fields
    is_line = samples["colour"] == COLOUR["ink"]  # what is cut is a line in the picture, too
    edges = np.where((samples["colour"] == _ONE) | is_line, COLOUR["none"], COLOUR["node"])
    high = np.where(is_line, _CUT_LINE, samples["h"])
    place = samples["y"] + (samples["h"] - high) / 2
    return {**layers, "scale": Layer("boxes", {**samples, "edge": edges, "y": place, "h": high})}
