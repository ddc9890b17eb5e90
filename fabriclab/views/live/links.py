"""Live views of links: media, wavelengths, drifting rings, radio beams, optical matrix products, optical circuits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from fabriclab import catalog, topologies, units
from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.economics.floor import floor_plan, of_kind
from fabriclab.physics import coding, media, optical, photonic, switching, wireless
from fabriclab.texts import text
from fabriclab.views.axes import scientific
from fabriclab.views.layout import counted
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    texts_at,
    tick_layers,
)
from fabriclab.views.sweeps import (
    Series,
    binary_size,
    capitalised,
    curve,
    first_crossing,
    series_scene,
)

_FASTEST = "800 Gb/s"  # source: catalog links, InfiniBand XDR
# source: catalog links, InfiniBand EDR to XDR
_RATES = ("100 Gb/s", "200 Gb/s", "400 Gb/s", _FASTEST)
# Grid -> the highest symbol rate that fits its spacing, because a signal is at least as wide as its symbol rate.
_GRIDS = {
    "C 50 GHz": "26.5625 GHz",  # source: catalog links, InfiniBand HDR
    "C 100 GHz": "53.125 GHz",  # source: catalog links, InfiniBand NDR
    "C 200 GHz": "106.25 GHz",  # source: catalog links, InfiniBand XDR
    "O 20 nm": "106.25 GHz",  # source: catalog links, InfiniBand XDR
}
_CODES = ("RS(544,514)", "256b/257b")
_SWITCHES = {
    "piezo": "ocs-piezo",
    "3D MEMS": "ocs-mems",
    "thermo-optic": "ocs-thermo-optic",
    "silicon MEMS": "ocs-silicon-mems",
    "tunable laser": "ocs-wavelength",
}
# State of a beam -> pointing error of the array [degrees].
_BEAMS = {"clear": 0.0, "behind a person": 0.0, "1 degree off": 1.0, "3 degrees off": 3.0}
_ARRAYS = (4, 16, 36, 64, 144, 256, 361, 576, 1024)  # number of elements of square arrays
_KELVIN = (1, 80)  # ends of the slider of drift [K]
_SPACINGS = (50, 100, 200, 400)  # of channels [GHz]
_DISTANCES = (2, 50)  # illustrative: ends of the slider of beam [m]
_NOISES = (0.1, 100)  # ends of the slider of mzi_mesh [mrad]
_SIZES = (4, 8, 16)  # rows and columns of a matrix
_SERVERS_PER_RACK = (1, 2, 4, 8, 16)
# What a tier may use -> media; no passive copper cable is long enough between switches.
_ALLOWED = {"fibre": ("fibre",), "copper, fibre": ("copper", "fibre"), "all": media.MEDIA}

_OF_SPINE = ("fibre", "all")

# The picture of media, in px: names, then bars of the reach, then bars of the cost.
_WIDTH = 880.0
_REACH_LEFT, _REACH_RIGHT = 120, 520
_COST_LEFT, _COST_WIDTH = 580, 200
_FIRST_ROW = 44.0
_ROWS = 280.0  # height of all rows together at most
_ROW_STEP = min(38.0, _ROWS / len(media.MEDIA))
_ROW_HEIGHT = 0.6 * _ROW_STEP
_LAST_ROW = _FIRST_ROW + _ROW_STEP * len(media.MEDIA)  # where the row after the last would begin

# The picture of fibres, in px: one or two rows of slots for each fibre.
_SLOTS_LEFT, _SLOTS_RIGHT = 76.0, 790.0
_SLOTS_TOP = 14.0
_SLOTS_HEIGHT = 316.0
_MOST_IN_A_ROW = 24  # slots
_TALLEST_SLOT = 34.0


# Medium -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MediumRows:
    """Reach and cost of one cable in each medium: arrays with one entry per medium."""

    length: float  # of the cable [m]
    reach: Floats  # (M,) [m]
    watts: Floats  # (M,) power of both ends [W]
    dollars: Floats  # (M,) price of both ends and the cable [USD]
    cost: Floats  # (M,) power or price, whichever is compared
    relative_rate: float  # rate of the cable, as a fraction of the highest rate offered
    is_best: Flags  # (M,)
    notes: list[str]  # the cost in words

    @property
    def top(self) -> Floats:
        """Upper edge of each row [px]."""
        return _FIRST_ROW + _ROW_STEP * np.arange(self.reach.size, dtype=np.float64)

    @property
    def reaches(self) -> Flags:
        """Whether each medium reaches as far as the cable is long, (M,)."""
        return np.asarray(self.reach >= self.length)

    @property
    def colours(self) -> Floats:
        """Colour of each row; a medium that does not reach far enough has none."""
        colours = np.where(self.is_best, COLOUR["ink"], COLOUR["hair"])
        return np.where(self.reaches, colours, COLOUR["none"])

    @property
    def cost_width(self) -> Floats:
        """Length of each bar of cost [px]; at the highest rate the longest bar has `_COST_WIDTH` + 1."""
        return np.asarray(1 + _COST_WIDTH * self.relative_rate * self.cost / self.cost.max())


# illustrative: 30 m, which the slider changes
def medium(length: float = 30.0, rate: str = "800 Gb/s", by: str = "power") -> Live:
    """Show how far each medium reaches, the power or price of a link in it, and which medium is the best choice.

    Parameters
    ----------
    length, rate, by : float, str, str
        Length of the cable, 0.5..2000 [m]; rate in one direction; what to compare, "power" or "price".
    """
    arguments = {"length": length, "rate": rate, "by": by}
    controls: dict[str, Control] = {
        "length": Slider(0.5, 2000, unit="m", log=True),
        "rate": Choice(_RATES),
        "by": Choice(("power", "price")),
    }
    return live_view("medium", arguments, medium_scene, controls)


def medium_scene(length: float, rate: str, by: str) -> Scene:
    """Return the reach and the cost of all media as bars, for a cable of ``length`` metres."""
    best = media.choose(length, rate, by)
    rows = medium_rows(length, rate, by, best)
    x_of = log_axis(0.5, 2400, _REACH_LEFT, _REACH_RIGHT)
    here = float(x_of(length))  # of the chosen length [px]
    middle = rows.top + _ROW_HEIGHT / 2  # of each row [px]

    ticks = tick_layers(np.geomspace(1, 1000, 4), x_of, metres_in_words, (32, _LAST_ROW), True)
    length_line = np.array([[here, 30], [here, _LAST_ROW]])
    bold = rows.is_best.astype(np.float64)
    # What does not reach so far cannot be chosen, however little it takes.
    ink = np.where(rows.reaches, COLOUR["ink"], COLOUR["soft"])
    layers = {
        **ticks,
        "reach": reach_layer(rows, x_of(rows.reach)),
        "cost": cost_layer(rows),
        "words": texts(_COST_LEFT + 6 + rows.cost_width, middle, rows.notes, bold=bold, colour=ink),
        "here": lines([length_line], width=1.5),
        "handle": Layer(
            "dots",
            {
                "x": np.array([here]),
                "y": np.array([30.0]),
                "size": 6.0,
                "colour": COLOUR["ink"],
                "drag": ["length"],
                "drag_ends": x_of([0.5, 2000]),
            },
        ),
        "length": texts([here + 10], 32.0, [f"{length:g} m"], bold=1.0, halo=1.0),
        "names": texts(_REACH_LEFT - 10, middle, media.MEDIA, align=2.0, bold=bold, colour=ink),
        "title": heading(12.0, text("live.medium.reach")),
        "cost title": heading(12.0, text(f"live.medium.both_{by}"), _COST_LEFT),
    }
    columns = {
        "medium": media.MEDIA,
        "reach [m]": rows.reach,
        "power [W]": rows.watts,
        "price [USD]": rows.dollars,
    }
    key = "live.medium.only" if rows.reaches.sum() == 1 else "live.medium.said"
    caption = text(key, length=length, rate=rate, best=best, by=by)
    more = text("live.medium.more")
    height = _LAST_ROW + 24.0
    return Scene(
        caption, Table(columns), layers, height, f"{caption} {more}", width=_WIDTH, hint=more
    )


def medium_rows(length: float, rate: str, by: str, best: media.MediumChoice) -> MediumRows:
    """Return the reach and the cost of every medium at ``rate``, and which of them is ``best``."""
    cables = [media.choose(0.0, rate, by, [medium]) for medium in media.MEDIA]
    reach = np.array([cable.reach for cable in cables], dtype=np.float64)
    watts = np.array([cable.power for cable in cables], dtype=np.float64)
    dollars = np.array([cable.price for cable in cables], dtype=np.float64)
    cost = watts if by == "power" else dollars
    return MediumRows(
        length=length,
        reach=reach,
        watts=watts,
        dollars=dollars,
        cost=cost,
        relative_rate=units.rate(rate) / units.rate(_FASTEST),
        is_best=np.array([cable == best for cable in cables]),
        notes=[text(f"live.medium.{by}", of=value) for value in cost.tolist()],
    )


def metres_in_words(length: float) -> str:
    """Write a length [m] in metres or kilometres."""
    return f"{length:g} m" if length < 1000 else f"{length / 1000:g} km"


def reach_layer(rows: MediumRows, ends: Floats) -> Layer:
    """Return a bar for each medium, from the left edge to the end of its reach, ``ends`` (M,) [px]."""
    return boxes(
        float(_REACH_LEFT),
        rows.top,
        ends - _REACH_LEFT,
        _ROW_HEIGHT,
        colour=rows.colours,
        edge=COLOUR["edge"],
        round=2.0,
        names=media.MEDIA,
        notes=rows.notes,
    )


def cost_layer(rows: MediumRows) -> Layer:
    """Return a bar for each medium, whose length shows its power or price."""
    return boxes(
        _COST_LEFT,
        rows.top,
        rows.cost_width,
        _ROW_HEIGHT,
        colour=rows.colours,
        edge=COLOUR["edge"],
        round=2.0,
    )


# Wavelengths ------------------------------------------------------------------------------------


def wavelengths(count: int = 16, bits: int = 2, grid: str = "C 100 GHz") -> Live:
    """Show how many fibres a number of wavelengths needs, and the rate that they carry with the codes of Ethernet.

    Parameters
    ----------
    count, bits, grid : int, int, str
        Number of wavelengths, 1..256; bits per symbol: 1, 2 (PAM4), or 8 (16 levels in two polarisations); band and
        spacing of the channels.
    """
    arguments = {"count": count, "bits": bits, "grid": grid}
    controls: dict[str, Control] = {
        "count": Slider(1, 256),
        "bits": Choice((1, 2, 8)),
        "grid": Choice(tuple(_GRIDS), names=tuple(map(grid_name, _GRIDS))),
    }
    return live_view("wavelengths", arguments, wavelengths_scene, controls)


def grid_name(grid: str) -> str:
    """Return the name of a grid of channels by its band and spacing, such as "C band, 100 GHz"."""
    band, spacing = grid.split(" ", 1)
    return text("live.wavelengths.grid_name", band=band, spacing=spacing)


def wavelengths_scene(count: int, bits: int, grid: str) -> Scene:
    """Return a row of slots for each fibre; ``count`` of all slots are filled with wavelengths."""
    band, spacing = grid.split(" ", 1)
    most = optical.channels(band, spacing)
    rate = coding.rates(1, _GRIDS[grid], bits, *_CODES).encoded  # rate of a wavelength [B/s]
    fibres = -(-count // most)
    used = np.minimum(most, count - most * np.arange(fibres))  # (F,) wavelengths on each fibre
    height = min(_TALLEST_SLOT * rows_of_slots(most), _SLOTS_HEIGHT / fibres)  # of a fibre [px]
    bottom = _SLOTS_TOP + height * fibres

    layers = {
        "slots": slots_layer(used, most, height, colour=_BITS[bits]),
        "ends": fibre_names(fibres, height),
        "rates": fibre_rates(used * rate, height),
        "band": texts(
            _SLOTS_LEFT, [bottom + 14], [band_in_words(band, spacing)], colour=COLOUR["soft"]
        ),
    }
    caption = text(
        "live.wavelengths.said",
        count=counted(count, "wavelength"),
        each=8e-9 * rate,
        total=bits_per_second(count * rate),
        fibres=counted(fibres, "fibre"),
        band=band,
        spacing=spacing,
        most=most,
    )
    columns = {"fibre": np.arange(fibres) + 1, "wavelengths": used, "rate [B/s]": used * rate}
    return Scene(caption, Table(columns), layers, bottom + 28, alt=caption, width=_WIDTH)


def band_in_words(band: str, spacing: str) -> str:
    """Return in words where a band lies, and how far apart the slots of its channels are."""
    low, high = optical.BANDS[band]
    return text("live.wavelengths.in_band", band=band, low=low, high=high, spacing=spacing)


def bits_per_second(rate: float) -> str:
    """Write a rate [B/s] in Gb/s, or in Tb/s from 1 Tb/s on."""
    gigabits = 8e-9 * rate
    return f"{gigabits:.3g} Gb/s" if gigabits < 1000 else f"{gigabits / 1000:.3g} Tb/s"


def rows_of_slots(most: int) -> int:
    """Return in how many rows the ``most`` slots of a fibre are drawn."""
    return 1 if most <= _MOST_IN_A_ROW else 2


# Colour of a wavelength by the bits of a symbol.
_BITS = {1: COLOUR["hair"], 2: COLOUR["soft"], 8: COLOUR["ink"]}
_SLOT_NUMBER = 22.0  # least width and height of a slot with its number [px]
_ROW_SHARE = 0.86  # of the height of a fibre its slots take; the rest keeps fibres apart


def slots_layer(used: Ints, most: int, height: float, colour: float) -> Layer:
    """Return ``most`` slots for each fibre, in one or two rows, of which the first ``used`` (F,) are filled.

    ``height`` is that of a fibre with all its rows [px]; the ``colour`` is the darker the more bits a symbol has. A
    slot with room for it has its number.
    """
    n_rows = rows_of_slots(most)
    in_a_row = -(-most // n_rows)
    width = (_SLOTS_RIGHT - _SLOTS_LEFT) / in_a_row
    fibre, slot = np.divmod(np.arange(used.size * most), most)  # (F * most,) each
    row, column = np.divmod(slot, in_a_row)
    is_used = slot < used[fibre]
    word = text("live.wavelengths.fibre")
    numbers = zip(fibre + 1, slot + 1, strict=True)
    names = [f"{word} {of_fibre}, {of_slot}" for of_fibre, of_slot in numbers]
    gap = min(3.0, 0.15 * width)  # between neighbours [px]
    step = _ROW_SHARE * height / n_rows  # from row to row
    has_room = width > _SLOT_NUMBER and step > _SLOT_NUMBER
    return boxes(
        _SLOTS_LEFT + width * column,
        _SLOTS_TOP + height * fibre + step * row,
        width - gap,
        step - slot_gap(step),
        colour=np.where(is_used, colour, COLOUR["none"]),
        texts=[str(n) if has_room else "" for n in (slot + 1).tolist()],
        ink=np.where(
            is_used, COLOUR["ink" if colour == COLOUR["hair"] else "paper"], COLOUR["soft"]
        ),
        edge=COLOUR["hair"],
        round=2.0,
        names=names,
    )


def slot_gap(step: float) -> float:
    """Return the room between two rows of slots that are ``step`` apart [px]."""
    return min(3.0, 0.15 * step)


def fibre_middle(fibre: int, height: float) -> float:
    """Return the middle of the rows of a fibre [px]."""
    taken = _ROW_SHARE * height
    return _SLOTS_TOP + height * fibre + (taken - slot_gap(taken)) / 2


def fibre_names(fibres: int, height: float) -> Layer:
    """Return the names of all fibres beside their rows; of many only those of the first and the last."""
    word = text("live.wavelengths.fibre")
    names = []
    for fibre in named_fibres(fibres, height):
        middle = fibre_middle(fibre, height)
        names.append((_SLOTS_LEFT - 10, middle, f"{word} {fibre + 1}", 2))
    return texts_at(*names)


def fibre_rates(rates: Floats, height: float) -> Layer:
    """Return what each named fibre carries (F,) [B/s], to the right of its rows."""
    words = []
    for fibre in named_fibres(rates.size, height):
        middle = fibre_middle(fibre, height)
        words.append((_SLOTS_RIGHT + 10, middle, bits_per_second(rates[fibre]), 0))
    return texts_at(*words)


def named_fibres(fibres: int, height: float) -> list[int]:
    """Return the numbers of the fibres that have a name: all if there is room, else the first and the last."""
    return list(range(fibres)) if height >= 15 else sorted({0, fibres - 1})


# Drift ------------------------------------------------------------------------------------------


def drift(kelvin: int = 20, spacing: int = 200) -> Live:
    """Show how far temperature shifts a silicon ring, as a fraction of the channel spacing, and the heat to correct it.

    Parameters
    ----------
    kelvin, spacing : int
        Change of the ring's temperature, 1..80 [K]; spacing of the channels: 50, 100, 200 or 400 [GHz].
    """
    arguments = {"kelvin": kelvin, "spacing": spacing}
    controls: dict[str, Control] = {
        "kelvin": Slider(*_KELVIN, unit="K"),
        "spacing": Choice(_SPACINGS),
    }
    return live_view("drift", arguments, drift_scene, controls)


def drift_scene(kelvin: int, spacing: int) -> Scene:
    """Return the drift over the change of temperature as a curve, with the power of the heater in words."""
    changes = np.append([1, 2, 4, 8, 16, 32, 64, 80], kelvin)  # (K,) [K]; the last is the slider's
    moved = optical.drift(changes)  # (K,) [m]
    share = optical.drift(changes, spacing=spacing * 1e9)  # (K,) fraction of the spacing
    to_the_middle = np.full(changes.size, 0.5)  # of the way to the next channel
    others = {}
    for other in _SPACINGS:
        if other != spacing:
            others[f"{other} GHz"] = optical.drift(changes, spacing=other * 1e9)
    caption = text(
        "live.drift.said",
        kelvin=kelvin,
        spacing=spacing,
        nm=1e9 * moved[-1],
        share=share[-1],
        heat=1e3 * optical.heater(moved)[-1],
        index=float(catalog.link_physics["silicon"]["group_index"].value),
    )
    return curve(
        "live.drift",
        x="kelvin",
        y="drift",
        at=changes,
        values=(share, to_the_middle),
        said=caption,
        ends=(0.02, 15),
        others=others,
        chosen=f"{spacing} GHz",
        drag=("kelvin", _KELVIN),
    )


# Beam -------------------------------------------------------------------------------------------


def beam(
    distance: float = 2,  # illustrative: the slider changes it
    elements: int = 64,
    way: str = "clear",
    *,
    over: str = "distance",
) -> Live:
    """Show the rate of a radio beam that uses all channels at 60 GHz, compared with a cable.

    Assumes a perfect code, one polarisation and the indoor power limit in each channel; the receiver is a square array.

    Parameters
    ----------
    distance, elements : float, int
        Distance, 2..50 [m]; elements of the array: 4, 16, 36, 64, 144, 256, 361, 576 or 1024.
    way : str
        State of the beam: "clear", "behind a person", or with the array pointing "1 degree off" or "3 degrees off".
    over : str
        Quantity on the x axis of the curve: "distance" or "elements".
    """
    over = units.choice(over, "over", ("distance", "elements"))
    arguments = {"distance": distance, "elements": elements, "way": way, "over": over}
    controls: dict[str, Control] = {
        "distance": Slider(*_DISTANCES, unit="m", log=True),
        "elements": Choice(_ARRAYS),
        "way": Choice(tuple(_BEAMS)),
    }
    scene = partial(beam_scene, over)
    return live_view("beam", arguments, scene, controls)


def beam_scene(over: str, distance: float, elements: int, way: str) -> Scene:
    """Return the rate of a beam over its length or over the number of elements of its array, as a curve."""
    # The last point of each curve is the state of the controls.
    others = {}
    if over == "distance":
        points = np.append(np.geomspace(2, 50, 25), distance)  # (K,) [m]
        link = beam_link(points, np.full(points.size, elements), way)
        chosen = text("live.beam.array", n=elements)
        for n in _ARRAYS:
            if n != elements:
                other = beam_link(points, np.full(points.size, n), way)
                others[text("live.beam.array", n=n)] = gigabits(other)
    else:
        points = np.append(np.arange(2.0, 33) ** 2, elements)  # (K,) elements of square arrays
        distances = np.full(points.size, distance)
        link = beam_link(distances, points, way)
        chosen = way
        for state in _BEAMS:
            if state != way:
                others[state] = gigabits(beam_link(distances, points, state))
    rate = gigabits(link)  # (K,) [Gb/s]
    cable = 8e-9 * catalog.value("links", "NDR", "4x_data_rate")  # [Gb/s]

    caption = text(
        "live.beam.said",
        far=distance,
        n=elements,
        way=way,
        wide=np.degrees(wireless.beam_width(elements)),
        snr=link.snr[-1],
        rate=rate[-1],
    )
    return curve(
        "live.beam",
        x=over,
        y="carried",
        at=points,
        values=(rate, np.full(points.size, cable)),
        said=caption,
        ends=(0, 420),
        others=others,
        chosen=chosen,
        drag=("distance", _DISTANCES) if over == "distance" else None,
    )


def beam_link(distances: Floats, arrays: Floats, way: str) -> wireless.RadioLink:
    """Return the radio links over distances (K,) [m] with arrays of so many elements (K,), in a state of the beam."""
    lost = wireless.misalignment(np.radians(_BEAMS[way]), arrays)  # (K,) [dB]
    if way == "behind a person":
        lost = lost + wireless.blockage()
    return wireless.link(distances, gain=wireless.array_gain(arrays), lost=lost)


def with_hint(scene: Scene, hint: str) -> Scene:
    """Return a scene with more sentences below its picture; a screen reader hears them after the finding."""
    return replace(scene, hint=hint, alt=f"{scene.alt or scene.said} {hint}")


def gigabits(link: wireless.RadioLink) -> Floats:
    """Return what the whole band carries over each of the links [Gb/s]."""
    return np.asarray(8e-9 * wireless.band_channels() * link.rate)


# Hybrid -----------------------------------------------------------------------------------------


# Medium -> number of cables, their power [W] and their price [USD].
CablesByMedium = dict[str, tuple[int, float, float]]


@dataclass(frozen=True, slots=True)
class CableBill:
    """The cables of a network by medium: ``hosts`` to NICs, ``spine`` between switches."""

    hosts: CablesByMedium
    spine: CablesByMedium

    @property
    def totals(self) -> Floats:
        """Power [W] and price [USD] of all cables, (2,)."""
        rows = [*self.hosts.values(), *self.spine.values()]
        return np.asarray(np.sum([row[1:] for row in rows], axis=0))


def hybrid(hosts: str = "fibre", spine: str = "all", servers: int = 4) -> Live:
    """Show the power of all cables of the running case over the number of servers in a rack, for the media allowed.

    Parameters
    ----------
    hosts, spine : str
        Media allowed for cables to NICs and between switches: "fibre" or "all"; to NICs also "copper, fibre".
    servers : int
        Servers in a rack: 1, 2, 4, 8 or 16.
    """
    arguments = {"hosts": hosts, "spine": spine, "servers": servers}
    controls: dict[str, Control] = {
        "hosts": Choice(tuple(_ALLOWED), names=tuple(map(allowed_name, _ALLOWED))),
        "spine": Choice(_OF_SPINE, names=tuple(map(allowed_name, _OF_SPINE))),
        "servers": Choice(_SERVERS_PER_RACK),
    }
    case = catalog.case()
    network = topologies.build("rail_optimised", expand=False)
    laid = {n: floor_plan(network, n) for n in _SERVERS_PER_RACK}
    bills = {}
    for to_hosts in _ALLOWED:
        for of_spine in _OF_SPINE:
            bills[to_hosts, of_spine] = [cable_bill(laid[n], to_hosts, of_spine) for n in laid]
    scene = partial(hybrid_scene, case, bills)
    return live_view("hybrid", arguments, scene, controls)


def hybrid_scene(
    case: catalog.Case,
    bills: Mapping[tuple[str, str], list[CableBill]],
    hosts: str,
    spine: str,
    servers: int,
) -> Scene:
    """Return the power of all cables over the number of servers in a rack as a curve, with their price in words.

    ``bills`` holds the cables for each choice of media, one for each number of servers in a rack.
    """
    per_rack = np.append(_SERVERS_PER_RACK, servers)  # (K,); the last is the state of the control
    here = _SERVERS_PER_RACK.index(servers)
    watts = {}  # choice of media -> power of all cables (K,) [W]
    for choice, of_racks in bills.items():
        each = [bill.totals[0] for bill in of_racks]
        watts[choice] = np.append(each, each[here])
    kilowatts = watts[hosts, spine] / 1e3
    bill = bills[hosts, spine][here]
    others = {}
    for choice, power in watts.items():
        if choice not in ((hosts, spine), ("fibre", "fibre")):  # all fibre is the dotted line
            others[media_in_words(*choice)] = power / 1e3
    all_fibre = np.full(per_rack.size, case.optics_power / 1e3)  # [kW], the same for any rack

    caption = text(
        "live.hybrid.said",
        n=counted(servers, "server"),
        power=kilowatts[-1],
        price=bill.totals[1] / 1e3 / 1e3,
        rack=servers * case.server_power / 1e3,
    )
    more = text(
        "live.hybrid.more",
        a=counts_in_words(bill.hosts),
        b=counts_in_words(bill.spine),
    )
    drawn = curve(
        "live.hybrid",
        x="servers",
        y="power",
        at=per_rack,
        values=(kilowatts, all_fibre),  # the curve, and what it is compared with
        said=caption,
        ends=(0, 40),  # of the vertical axis [kW]
        others=others,
        chosen=media_in_words(hosts, spine),
    )
    head = texts(
        drawn.width - EDGE, [12.0], [text("live.hybrid.head")], align=2.0, colour=COLOUR["soft"]
    )
    layers = {**drawn.layers, "label head": head}
    if hosts == spine == "fibre":  # the line in ink is that of fibre, and has one name
        del layers["bound words"]
    return with_hint(replace(drawn, layers=layers), more)


def cable_bill(laid: Fabric, hosts: str, spine: str) -> CableBill:
    """Return the cables of a network on a floor plan, given the media that each tier may use."""
    is_nic = of_kind(laid, "nic")  # (N,)
    to_nic = is_nic[laid.source] | is_nic[laid.target]  # (L,)
    return CableBill(
        hosts=media.hall(with_cables(laid, to_nic), media=_ALLOWED[hosts]),
        spine=media.hall(with_cables(laid, ~to_nic), media=_ALLOWED[spine]),
    )


def with_cables(laid: Fabric, which: Flags) -> Fabric:
    """Return a network that counts only the links ``which`` (L,): all others have length 0."""
    return laid.shown_as("", length=laid.length * which)


def media_in_words(hosts: str, spine: str) -> str:
    """Return which media are allowed to NICs and between switches."""
    return text("live.hybrid.media", hosts=allowed_name(hosts), spine=allowed_name(spine))


def allowed_name(allowed: str) -> str:
    """Return what a choice of media is called."""
    return text("live.hybrid.all") if allowed == "all" else allowed


def counts_in_words(cables: CablesByMedium) -> str:
    """Return the number of cables of each medium, such as "1,024 copper, 512 fibre"."""
    return ", ".join(f"{row[0]:,} {medium}" for medium, row in cables.items())


# Products by light ------------------------------------------------------------------------------


def mzi_mesh(size: int = 16, bits: int = 8, noise: float = 10.0) -> Live:
    """Show the error of an optical matrix product over the noise of the phases that represent the matrix.

    Parameters
    ----------
    size, bits : int, int
        Number of rows and of columns of the matrix, 4, 8 or 16; bits of resolution of each phase, 4..16.
    noise : float
        Noise of each phase [mrad], 0.1..100.
    """
    arguments = {"size": size, "bits": bits, "noise": noise}
    controls: dict[str, Control] = {
        "size": Choice(_SIZES),
        "bits": Slider(4, 16),
        "noise": Slider(*_NOISES, unit="mrad", log=True),
    }
    return live_view("mzi_mesh", arguments, mzi_mesh_scene, controls)


def mzi_mesh_scene(size: int, bits: int, noise: float) -> Scene:
    """Return the error of optical matrix products over the noise of the phases as a curve."""
    noises = np.append(np.geomspace(*_NOISES, 7), noise)  # (K,) [mrad]; the last is the slider's
    errors = [product_error(size, each, bits) for each in noises.tolist()]
    caption = text(
        "live.mzi_mesh.said",
        error=scientific(errors[-1]),
        trusted=-np.log2(errors[-1]),
        best=-np.log2(errors[0]),
    )
    more = text("live.mzi_mesh.more", cells=size * (size - 1), size=size, bits=bits, noise=noise)
    eight_bits = np.full(noises.size, 2.0**-8)
    drawn = curve(
        "live.mzi_mesh",
        x="noise",
        y="off",
        at=noises,
        values=(errors, eight_bits),
        said=caption,
        ends=(1e-4, 1),
        chosen=f"{size} × {size}",
        drag=("noise", _NOISES),
    )
    return with_hint(drawn, more)


@lru_cache(maxsize=4096)
def product_error(size: int, milliradians: float, bits: int) -> float:
    """Return the relative error of optical products of random matrices and vectors, for the noise of the phases.

    The same random numbers are scaled to each amount of noise, so that the curve over the noise is smooth.
    """
    count = 32 // size  # number of matrices; they have 32 rows together
    matrices, vectors = np.random.default_rng(0).standard_normal((2, count, size, size))
    rng = np.random.default_rng(1)
    noise = partial(photonic.disturb, sigma=milliradians / 1e3, bits=bits, rng=rng)
    products = []
    for matrix, columns in zip(matrices, vectors, strict=True):
        products.append(photonic.product(matrix, columns, noise))
    error: float = 2.0 ** -photonic.effective_bits(matrices @ vectors, products)
    return error


# Circuit ----------------------------------------------------------------------------------------


def circuit(kind: str = "3D MEMS", left: int = 50) -> Live:
    """Compare the time of a message over an optical circuit, set up for this message, and over packet switches.

    Parameters
    ----------
    kind : str
        Optical switch: piezo, 3D MEMS, thermo-optic, silicon MEMS or tunable laser.
    left : int
        Share of a port's rate that packets get beside other traffic, 10..100 [%]; a circuit has all of it.
    """
    arguments = {"kind": kind, "left": left}
    controls: dict[str, Control] = {
        "kind": Choice(tuple(_SWITCHES)),
        "left": Slider(10, 100, unit="%"),
    }
    return live_view("circuit", arguments, circuit_scene, controls)


def circuit_scene(kind: str, left: int) -> Scene:
    """Return the time over a circuit and over packet switches as two curves over size."""
    rate = catalog.value("nics", "cx7", "throughput")  # rate of a port [B/s]
    packet_rate = rate * left / 100  # [B/s]
    setup = catalog.value("emerging", _SWITCHES[kind], "setup")  # [s]
    delay = 3 * catalog.value("switches", "th5", "latency")  # of leaf, spine and leaf together [s]

    sizes = np.geomspace(64, 2**34, 57)  # [B]
    rows = [
        (f"{kind} circuit", setup + sizes / rate, {"colour": COLOUR["ink"], "mark": 1.0}),
        # A packet that passes is a full square in the whole course; its hue is not for a time.
        ("packets", delay + sizes / packet_rate, {"colour": COLOUR["soft"], "mark": 3.0}),
    ]
    for other, id in _SWITCHES.items():
        if other != kind:
            seconds = catalog.value("emerging", id, "setup") + sizes / rate
            rows.append((other, seconds, {"colour": COLOUR["edge"], "width": 1.2, "alpha": 1.0}))
    nothing = np.full(sizes.size, np.nan)
    series = []
    for name, seconds, look in rows:
        points = np.array([sizes, seconds, nothing, nothing])
        series.append(Series(name, "predicted", points, look))
    caption = text("live.circuit.said", kind=capitalised(kind), setup=setup)
    more = text("live.circuit.more", left=left, busy=switching.bytes_for(0.9, setup, rate))
    least = switching.break_even(rate, setup, packet_rate, delay)  # [B]
    crossing = first_crossing(series)
    if crossing is not None:
        least = crossing  # as the picture rounds it
    if not least:
        more = f"{text('live.circuit.because')} {more}"
    # All circuits meet at large sizes, so the others are named at small ones.
    others = [other for other in _SWITCHES if other != kind]
    said = f"{circuit_pays(least)} {caption}"
    drawn = series_scene(series, "size", "time", said, cross=True, at_start=others)
    return with_hint(drawn, more)


def circuit_pays(least: float) -> str:
    """Return in words the size from which a circuit is faster; ``least`` [B] may be 0 or infinite."""
    if least == np.inf:
        return text("live.circuit.never", least=least)
    if least == 0:
        return text("live.circuit.always", least=least)
    return text("live.circuit.from", least=binary_size(least))
