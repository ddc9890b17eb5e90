"""Light: the power budget of a fibre, its wavelengths, rings that drift with temperature, and the power of modules."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.physics._facts import DB, LIGHT, Floats, Numbers, fact, one, si

# Bands of ITU-T [nm], and the anchors of its coarse grid (20 nm apart) and its dense grid (at 193.1 THz).
BANDS = {
    "O": (1260, 1360),
    "E": (1360, 1460),
    "S": (1460, 1530),
    "C": (1530, 1565),
    "L": (1565, 1625),
}
_COARSE, _DENSE = 1271e-9, 193.1e12
_WHOLE = "800 Gb/s"  # source: catalog media, dr8


class OpticalBudget(NamedTuple):
    """Power received [dBm], its margin over what the receiver needs [dB], and the longest possible fibre [m]."""

    received: float
    margin: float
    reach: float


class Module(NamedTuple):
    """Power of one end [W], what that figure leaves out, who equalises, and the electrical loss to the module [dB]."""

    power: float
    left_out: str
    equaliser: str
    electrical_loss: float


def budget(
    launch: float,
    sensitivity: float,
    length: Numbers,
    losses: Mapping[str, float] | None = None,
    attenuation: float | None = None,
) -> OpticalBudget:
    """Return the power budget of one optical lane.

    Received = launch - losses - attenuation x length. Leaves out dispersion, which ends a link with lanes of 100 Gb/s
    after some km: enter its penalty as a loss.

    Compared with the limits of standards, which are sums by this same formula and not measurements, the reach is 3, 10
    and 10 % too far against the 40, 30 and 15 km of 40GBASE-ER4 for three attenuations, which are rounded down, and
    30 % too far for the 2 km of FR4, a limit with a reserve. With the catalog's fibre and connections it is 5, 7.5 and
    17.5 % too far for the 10 km of 10GBASE-LR, 100GBASE-LR1 and 40GBASE-LR4, and 150 % too far for the 2 km of
    100GBASE-FR1, which has 3.0 dB for connections.

    Parameters
    ----------
    launch, sensitivity : float
        Power of the laser, and the power that the receiver needs. [dBm]
    length : float or str
        Length of the fibre. [m]
    losses : mapping of str to float, optional
        Such as ``{"modulator": 6, "coupling": 3}``; by default the connections of a channel in the catalog. [dB]
    attenuation : float, optional
        Attenuation of the fibre, by default the catalog's. [dB/km], > 0

    Examples
    --------
    >>> laser = budget(10.0, -6.0, "2 km", {"modulator": 6, "coupling in": 2, "coupling out": 2, "connections": 2})
    >>> round(laser.received, 1), round(laser.margin, 1), round(laser.reach)
    (-2.8, 3.2, 10000)
    """
    lost = {"connections": fact("osmf", "connections")} if losses is None else losses
    per_km = fact("osmf", "attenuation") if attenuation is None else attenuation
    given = [launch, sensitivity, per_km, *(lost.values() if isinstance(lost, Mapping) else [None])]
    if not (
        all(units.is_number(x) and abs(x) <= DB for x in given)
        and per_km > 0
        and min([0, *given[3:]]) >= 0
    ):
        msg = f"got {lost!r:.80}, {per_km!r:.20}, {launch!r:.20} and {sensitivity!r:.20}; give numbers that are finite"
        raise ValueError(
            f"losses must be >= 0 dB, attenuation > 0 dB/km, launch and sensitivity in dBm, {msg}"
        )
    spare = launch - sum(lost.values()) - sensitivity
    far = one(length, "length", "length")
    return OpticalBudget(
        spare + sensitivity - per_km * far / 1e3,
        spare - per_km * far / 1e3,
        max(spare, 0) / per_km * 1e3,
    )


def channels(band: str, spacing: units.Quantity) -> int:
    """Return the number of channels of the ITU grid in a band; the spacing is a frequency or a wavelength.

    It gives 5, 3, 2 and 3 coarse channels of 20 nm in the bands O, S, C and L, as the standard does, and 44 dense ones
    of 100 GHz in the C band, where the grid of ITU-T has 45 that begin 1 nm earlier. For the data that they carry, use
    `fabriclab.physics.coding.rates` with the channels as lanes.

    Examples
    --------
    >>> channels("O", "20 nm"), channels("C", "100 GHz"), channels("C", "50 GHz")
    (5, 44, 87)
    """
    low, high = (nm * 1e-9 for nm in BANDS[units.choice(band, "band", BANDS)])
    coarse = isinstance(spacing, str) and spacing.strip().endswith("m")
    first, last, anchor = (low, high, _COARSE) if coarse else (LIGHT / high, LIGHT / low, _DENSE)
    step = one(
        spacing, *(("length", "spacing", 1e-12) if coarse else ("frequency", "spacing", 1e9))
    )
    return (
        int(np.floor((last - anchor) / step + 1e-9) - np.ceil((first - anchor) / step - 1e-9)) + 1
    )


def delay(length: Numbers, index: float = 1.468) -> Floats:
    """Return the time [s] that light takes through a fibre with the group ``index``; 4.9 ns/m by default.

    Within 0.5 % of two other fibres; one vendor says 4.5 ns/m, most round to 5.
    """
    return np.asarray(
        si(length, "length", "length") * si(index, "count", "index", 1.0, 10.0) / LIGHT
    )


def drift(
    kelvin: Numbers,
    wavelength: units.Quantity = "1550 nm",  # source: about the middle of the C band of ITU-T
    spacing: units.Quantity | None = None,
) -> Floats:
    """Return how far the resonance of a silicon ring moves [m] when its temperature rises by ``kelvin``.

    The shift is wavelength / group index x thermo-optic coefficient, as if all light were in silicon. With a
    ``spacing`` of channels [Hz] it is given in spacings: at 1 the ring sits on its neighbour's wavelength. The result
    is 17 % below the 83 pm/K measured on one ring, 14 % below 80 pm/K of interferometers, 8 % below the middle of 60 to
    90 pm/K, and 22 % below an air-clad ring.

    Examples
    --------
    >>> round(float(drift(1.0)) * 1e12, 1), round(float(drift(20.0, spacing="200 GHz")), 2)
    (68.6, 0.86)
    """
    metres = one(wavelength, "length", "wavelength", 1e-9)
    warmer = si(kelvin, "count", "kelvin", -1e4, 1e4)
    moved = warmer * metres * fact("silicon", "thermo_optic") / fact("silicon", "group_index")
    each = 1.0 if spacing is None else metres**2 * si(spacing, "frequency", "spacing", 1e6) / LIGHT
    return np.asarray(moved / each)


def heater(shift: Numbers) -> Floats:
    """Return the power [W] of a heater that moves a silicon filter by ``shift`` [m]; it is proportional to the shift.

    The figure is that of one device; others differ in size and construction. It is 76 % above rings of 27 uW/GHz
    (Dahlem et al., 2011), 3 % above the middle of the 0.1 to 0.25 nm/mW of usual rings, and 30 % above a second heater
    of its own paper. Undercut heaters need 1 to 4 mW for a whole FSR, ten to a hundred times less.
    """
    return np.asarray(
        si(shift, "length", "shift")
        * fact("silicon", "heater_power")
        / fact("silicon", "heater_shift")
    )


def module(kind: str, rate: units.Quantity = _WHOLE) -> Module:
    """Return the power of one end of an optical link at a rate, what that figure leaves out, and who equalises.

    ``kind`` is ``"dsp"``, ``"lpo"`` (linear pluggable: the module without its DSP) or ``"cpo"`` (co-packaged). Power is
    proportional to the rate. The LPO is the module less its DSP: 20 % below one published figure, and 6 % above the
    middle of the 8 to 9 W of another. Its host's SerDes works as hard as before, so nothing is added. CPO is one
    product; another one (9 W for 1.6 Tb/s) draws 18 % less.

    Examples
    --------
    >>> [module(kind).power for kind in ("dsp", "lpo", "cpo")]
    [16.0, 9.0, 5.5]
    """
    kind = units.choice(kind, "kind", ("dsp", "lpo", "cpo"))
    whole, dsp = fact("dr8", "power", "media"), fact("dsp800", "power", "media")
    watts = {"dsp": whole, "lpo": whole - dsp, "cpo": fact("cpo", "power")}[kind]
    out, who = (str(catalog.link_physics[kind][name].value) for name in ("left_out", "equaliser"))
    return Module(
        watts * units.rate(rate, "rate") / units.rate(_WHOLE),
        out,
        who,
        fact(kind, "electrical_loss"),
    )
