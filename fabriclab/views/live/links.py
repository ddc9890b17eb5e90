"""Live views of links: where a beam is blocked, how narrow it may be, and which media a hall allows on each tier."""

import numpy as np

from fabriclab import catalog, topologies, units
from fabriclab.economics.floor import floor_plan, of_kind
from fabriclab.physics import media, wireless
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Live, Slider, live_view
from fabriclab.views.scene import Scene
from fabriclab.views.sweeps import curve

# How a beam stands -> by how much the array points off [degrees].
_WAYS, _RACKS = {"clear": 0.0, "a person": 0.0, "1 degree off": 1.0, "3 degrees off": 3.0}, (1, 2, 4, 8, 16)
# What a tier allows -> media; no passive copper is long enough between switches.
_ALLOWED = {"fibre": ("fibre",), "copper, fibre": ("copper", "fibre"), "all": media.MEDIA}


def beam(distance: float = 2, elements: int = 64, way: str = "clear", *, over: str = "distance") -> Live:
    """Show what a beam in all channels at 60 GHz carries, against a cable.

    A perfect code, the indoor limit of power in each channel, a square array as the receiving antenna.

    Parameters
    ----------
    distance, elements : float, int
        How far, 2..50 [m]; of the array, 4..1024.
    way : str
        "clear", "a person" stands in it, or the array points "1 degree off" or "3 degrees off".
    over : str
        What the curve follows: distance, or elements.
    """
    near = units.choice(over, "over", ("distance", "elements")) == "distance"

    def scene(distance: float, elements: int, way: str) -> Scene:
        at = np.append(np.geomspace(2, 50, 25), distance) if near else np.append(np.arange(2.0, 33) ** 2, elements)
        n = np.full(at.size, elements) if near else at
        lost = wireless.misalignment(np.radians(_WAYS[way]), n) + wireless.blockage() * (way == "a person")
        got = wireless.link(at if near else distance, gain=wireless.array_gain(n), lost=lost)
        rate, cable = 8e-9 * wireless.band_channels() * got.rate, 8e-9 * catalog.value("links", "NDR", "4x_data_rate")
        wide = np.degrees(wireless.beam_width(elements))
        said = text("live.beam.said", far=distance, n=elements, way=way, wide=wide, snr=got.snr[-1], rate=rate[-1])
        return curve("live.beam", over, "carried", at, (rate, np.full(at.size, cable)), said)

    far, many = Slider(2, 50, unit="m", log=True), Slider(4, 1024)
    return live_view("beam", locals(), scene, {"distance": far, "elements": many, "way": Choice(tuple(_WAYS))})


def hybrid(hosts: str = "fibre", spine: str = "fibre", servers: int = 4) -> Live:
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
        bills = [[media.hall(f.shown_as("", length=f.length * t), media=_ALLOWED[m]) for t, m in tiers]
                 for f in (laid[n] for n in at.tolist())]  # fmt: skip
        watts, price = np.array([np.sum([r[1:] for tier in b for r in tier.values()], axis=0) for b in bills]).T
        a, b = (", ".join(f"{medium} {row[0]}" for medium, row in tier.items()) for tier in bills[-1])
        told = {"power": watts[-1] / 1e3, "price": price[-1] / 1e6, "rack": servers * case.server_power / 1e3}
        said = text("live.hybrid.said", n=servers, a=a, b=b, **told)
        return curve("live.hybrid", "servers", "power", at, (watts / 1e3, 0 * at + case.optics_power / 1e3), said)

    kinds = {"hosts": Choice(tuple(_ALLOWED)), "spine": Choice(("fibre", "all"))}
    return live_view("hybrid", locals(), scene, {**kinds, "servers": Choice(_RACKS)})
