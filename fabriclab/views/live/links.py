"""Live views of links: media, wavelengths, rings that drift, beams that miss, light that multiplies, circuits."""

from functools import partial

import numpy as np

from fabriclab import catalog, topologies, units
from fabriclab.core import Result
from fabriclab.economics.floor import floor_plan, of_kind
from fabriclab.physics import coding, media, optical, photonic, switching, wireless
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    Scene,
    boxes,
    lines,
    log_axis,
    shade,
    texts,
    texts_at,
    tick_layers,
)
from fabriclab.views.sweeps import curve, sweep_scene

_FASTEST = "800 Gb/s"  # source: catalog links, InfiniBand XDR
# Grid -> the fastest symbol rate that fits its spacing, as a signal is at least as wide as its symbol rate.
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
# How a beam stands -> by how much the array points off [degrees].
_WAYS, _RACKS = (
    {"clear": 0.0, "behind a person": 0.0, "1 degree off": 1.0, "3 degrees off": 3.0},
    (1, 2, 4, 8, 16),
)
# What a tier allows -> media; no passive copper is long enough between switches.
_ALLOWED = {"fibre": ("fibre",), "copper, fibre": ("copper", "fibre"), "all": media.MEDIA}


# illustrative: 30 m, which the slider changes
def medium(length: float = 30.0, rate: str = "800 Gb/s", by: str = "power") -> Live:
    """Show how far each medium reaches, what both ends of a link draw or cost, and which one is least.

    Parameters
    ----------
    length, rate, by : float, str, str
        Of the cable, 0.5..2000 [m]; of one direction; "power" or "price".
    """

    def scene(length: float, rate: str, by: str) -> Scene:
        best, every = (
            media.choose(length, rate, by),
            [media.choose(0.0, rate, by, [m]) for m in media.MEDIA],
        )
        watts, dollars, reach = np.array([m[1:] for m in every], dtype=np.float64).T
        cost, y = (watts if by == "power" else dollars), 36 + 30.0 * np.arange(reach.size)
        to_x, part = log_axis(0.5, 2400, 110, 430), units.rate(rate) / units.rate(_FASTEST)
        wide = 1 + 110 * part * cost / cost.max()
        key = np.where([m == best for m in every], COLOUR["predicted"], COLOUR["tint"])
        look = {
            "colour": np.where(reach >= length, key, COLOUR["none"]),
            "edge": COLOUR["grey"],
            "round": 0.0,
        }
        here, told = float(to_x(length)), [text(f"live.medium.{by}", of=c) for c in cost.tolist()]
        layers = {
            **tick_layers(np.geomspace(1, 1000, 4), to_x, "{:g} m".format, (28, 184), True),
            "reach": boxes(110, y, to_x(reach) - 110, 18.0, **look, names=media.MEDIA, notes=told),
            "cost": boxes(470, y, wide, 18.0, **look),
            "words": texts(wide + 476, y + 9, told),
            "here": lines([np.array([[here, 20], [here, 184]])], width=2.0, dash=1.0),
            "names": texts(102, y + 9, media.MEDIA, align=2.0),
            "top": texts_at((here, 10, f"{length:g} m", 1), (470, 10, text("live.medium.both"), 0)),
        }
        table = Table(
            {"medium": media.MEDIA, "reach [m]": reach, "power [W]": watts, "price [USD]": dollars}
        )
        said = text("live.medium.said", length=length, rate=rate, best=best, by=by)
        return Scene(said, table, layers, 208.0, said)

    # source: catalog links, InfiniBand EDR to XDR
    rates = Choice(("100 Gb/s", "200 Gb/s", "400 Gb/s", _FASTEST))
    far, least = Slider(0.5, 2000, unit="m", log=True), Choice(("power", "price"))
    return live_view("medium", locals(), scene, {"length": far, "rate": rates, "by": least})


def wavelengths(count: int = 16, bits: int = 2, grid: str = "C 100 GHz") -> Live:
    """Show how many fibres so many wavelengths fill, and what they carry, with the codes of Ethernet.

    Parameters
    ----------
    count, bits, grid : int, int, str
        Of wavelengths, 1..256; of a symbol: 1, 2 (PAM4), or 8 (16 levels in two polarisations); band and spacing.
    """

    def scene(count: int, bits: int, grid: str) -> Scene:
        most, each = (
            optical.channels(*grid.split(" ", 1)),
            coding.rates(1, _GRIDS[grid], bits, *_CODES).encoded,
        )
        # wavelengths of each fibre
        full = np.minimum(most, count - most * np.arange(-(-count // most)))
        fibre, place = np.divmod(np.arange(full.size * most), most)
        # [px], and its name
        high, wide, one = (min(24.0, 260 / full.size), 600 / most, text("live.wavelengths.fibre"))
        on = np.where(place < full[fibre], shade(bits / 8), COLOUR["none"])  # brighter: more bits
        told = {
            "each": 8e-9 * each,
            "total": 8e-12 * count * each,
            "fibres": full.size,
            "grid": grid,
            "most": most,
        }
        slots = boxes(
            90 + wide * place,
            10 + high * fibre,
            0.8 * wide,
            0.8 * high,
            colour=on,
            edge=COLOUR["grey"],
            names=[f"{one} {f + 1}, {p + 1}" for f, p in np.ndindex(full.size, most)],
        )
        table = Table(
            {"fibre": np.arange(full.size) + 1, "wavelengths": full, "rate [B/s]": full * each}
        )
        ends = [(82, 10 + high * (i + 0.4), f"{one} {i + 1}", 2) for i in {0, full.size - 1}]
        said = text("live.wavelengths.said", count=count, **told)
        return Scene(
            said, table, {"slots": slots, "ends": texts_at(*ends)}, 20 + high * full.size, said
        )

    many, grids = Slider(1, 256), Choice(tuple(_GRIDS))
    return live_view(
        "wavelengths", locals(), scene, {"count": many, "bits": Choice((1, 2, 8)), "grid": grids}
    )


def drift(kelvin: int = 20, spacing: int = 200) -> Live:
    """Show how far a silicon ring drifts, as a part of the spacing of channels, and the heater that holds it.

    Parameters
    ----------
    kelvin, spacing : int
        Change of its temperature, 1..80 [K]; of the channels: 50, 100, 200 or 400 [GHz].
    """

    def scene(kelvin: int, spacing: int) -> Scene:
        at = np.append(2 ** np.arange(7), kelvin)
        moved, share = optical.drift(at), optical.drift(at, spacing=spacing * 1e9)
        told = {"nm": 1e9 * moved[-1], "share": share[-1], "heat": 1e3 * optical.heater(moved)[-1]}
        said = text("live.drift.said", kelvin=kelvin, spacing=spacing, **told)
        # half way to the neighbour
        return curve(
            "live.drift", "kelvin", "drift", at, (share, np.full(at.size, 0.5)), said, (0.02, 15)
        )

    return live_view(
        "drift", locals(), scene, {"kelvin": Slider(1, 80), "spacing": Choice((50, 100, 200, 400))}
    )


def beam(
    distance: float = 2,  # illustrative: the slider changes it
    elements: int = 64,
    way: str = "clear",
    *,
    over: str = "distance",
) -> Live:
    """Show what a beam in all channels at 60 GHz carries, against a cable.

    A perfect code, one polarisation, the indoor limit of power in each channel; a square array receives.

    Parameters
    ----------
    distance, elements : float, int
        How far, 2..50 [m]; of the array: 4, 16, 36, 64, 144, 256, 361, 576 or 1024.
    way : str
        "clear", "behind a person", or the array points "1 degree off" or "3 degrees off".
    over : str
        What the curve follows: distance, or elements.
    """
    near = units.choice(over, "over", ("distance", "elements")) == "distance"

    def scene(distance: float, elements: int, way: str) -> Scene:
        at = (
            np.append(np.geomspace(2, 50, 25), distance)
            if near
            else np.append(np.arange(2.0, 33) ** 2, elements)
        )
        n, wide = (
            (np.full(at.size, elements) if near else at),
            np.degrees(wireless.beam_width(elements)),
        )
        lost = wireless.misalignment(np.radians(_WAYS[way]), n) + wireless.blockage() * (
            way == "behind a person"
        )
        got = wireless.link(at if near else distance, gain=wireless.array_gain(n), lost=lost)
        rate, cable = (
            8e-9 * wireless.band_channels() * got.rate,
            8e-9 * catalog.value("links", "NDR", "4x_data_rate"),
        )
        said = text(
            "live.beam.said",
            far=distance,
            n=elements,
            way=way,
            wide=wide,
            snr=got.snr[-1],
            rate=rate[-1],
        )
        return curve(
            "live.beam", over, "carried", at, (rate, np.full(at.size, cable)), said, (0, 420)
        )

    kinds = {
        "elements": Choice((4, 16, 36, 64, 144, 256, 361, 576, 1024)),
        "way": Choice(tuple(_WAYS)),
    }
    return live_view(
        "beam", locals(), scene, {"distance": Slider(2, 50, unit="m", log=True), **kinds}
    )


def hybrid(hosts: str = "fibre", spine: str = "all", servers: int = 4) -> Live:
    """Show the power of all cables of the running case over the servers of a rack, by what each tier may use.

    Parameters
    ----------
    hosts, spine : str
        Media of cables to NICs and between switches: "fibre" or "all", and to NICs "copper, fibre".
    servers : int
        Of a rack: 1, 2, 4, 8 or 16.
    """
    case, bare = catalog.case(), topologies.build("rail_optimised", expand=False)
    laid = {n: floor_plan(bare, n) for n in _RACKS}
    nic = of_kind(bare, "nic")[bare.source] | of_kind(bare, "nic")[bare.target]

    def scene(hosts: str, spine: str, servers: int) -> Scene:
        at, tiers = np.append(_RACKS, servers), ((nic, hosts), (~nic, spine))
        bills = [
            [media.hall(f.shown_as("", length=f.length * t), media=_ALLOWED[m]) for t, m in tiers]
            for f in (laid[n] for n in at.tolist())
        ]
        watts, price = (
            np.array(
                [np.sum([r[1:] for tier in b for r in tier.values()], axis=0) for b in bills]
            ).T
            / 1e3
        )
        a, b = (
            ", ".join(f"{medium} {row[0]}" for medium, row in tier.items()) for tier in bills[-1]
        )
        told = {
            "power": watts[-1],
            "price": price[-1] / 1e3,
            "rack": servers * case.server_power / 1e3,
        }
        said = text("live.hybrid.said", n=servers, a=a, b=b, **told)
        return curve(
            "live.hybrid",
            "servers",
            "power",
            at,
            (watts, 0 * at + case.optics_power / 1e3),
            said,
            (0, 40),
        )

    kinds = {"hosts": Choice(tuple(_ALLOWED)), "spine": Choice(("fibre", "all"))}
    return live_view("hybrid", locals(), scene, {**kinds, "servers": Choice(_RACKS)})


def mzi_mesh(size: int = 16, bits: int = 8, noise: float = 10.0) -> Live:
    """Show the error of a product of matrices by light, against the noise of the phases that hold the matrix.

    Parameters
    ----------
    size, bits : int, int
        Rows and columns of the matrix, 4, 8 or 16; bits with which each phase is set, 4..16.
    noise : float
        Of each phase [mrad], 0.1..100.
    """

    def scene(size: int, bits: int, noise: float) -> Scene:
        at, off = np.append(np.geomspace(0.1, 100, 6), noise), list[float]()
        # 32 rows in all
        a, x = np.random.default_rng(0).standard_normal((2, 32 // size, size, size))
        for sigma in at:
            # The same noise for all, scaled: a smooth curve.
            noisy = partial(
                photonic.disturb, sigma=sigma / 1e3, bits=bits, rng=np.random.default_rng(1)
            )
            made = [photonic.product(*both, noisy) for both in zip(a, x, strict=True)]
            off.append(2.0 ** -photonic.effective_bits(a @ x, made))
        figures = {
            "size": size,
            "bits": bits,
            "noise": noise,
            "trusted": -np.log2(off[-1]),
            "best": -np.log2(off[0]),
        }
        said = text("live.mzi_mesh.said", cells=size * (size - 1), **figures)
        return curve(
            "live.mzi_mesh", "noise", "off", at, (off, np.full(at.size, 2.0**-8)), said, (1e-4, 1)
        )

    noises = Slider(0.1, 100, unit="mrad", log=True)
    return live_view(
        "mzi_mesh",
        locals(),
        scene,
        {"size": Choice((4, 8, 16)), "bits": Slider(4, 16), "noise": noises},
    )


def circuit(kind: str = "3D MEMS", left: int = 50) -> Live:
    """Show the time to send bytes over an optical circuit that is set up for them, and over packet switches.

    Parameters
    ----------
    kind : str
        Of optical switch: piezo, 3D MEMS, thermo-optic, silicon MEMS or tunable laser.
    left : int
        Which part of the rate of a port packets get beside other traffic, 10..100 [%]; a circuit has all of it.
    """
    rate = catalog.value("nics", "cx7", "throughput")
    # leaf, spine, leaf
    sizes, wait = (np.geomspace(64, 2**34, 15), 3 * catalog.value("switches", "th5", "latency"))

    def scene(kind: str, left: int) -> Scene:
        setup, slow = catalog.value("emerging", _SWITCHES[kind], "setup"), rate * left / 100
        least, busy = (
            switching.break_even(rate, setup, slow, wait),
            switching.bytes_for(0.9, setup, rate),
        )
        pays = "never" if least == np.inf else "always" if least == 0 else "from"
        said = text("live.circuit.said", kind=kind, left=left, setup=setup, busy=busy)
        times = {"circuit": setup + sizes / rate, "packets": wait + sizes / slow}
        return sweep_scene(
            {k: Result("send_recv", "predicted", sizes, t, 2) for k, t in times.items()},
            said=said + text(f"live.circuit.{pays}", least=least),
        )

    return live_view(
        "circuit",
        locals(),
        scene,
        {"kind": Choice(tuple(_SWITCHES)), "left": Slider(10, 100, unit="%")},
    )
