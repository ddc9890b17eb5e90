"""Radio at 60 GHz: the rate of a beam over a distance, and the number of radios that replace a cable.

Free space, the array factor and Shannon's rate are laws; `band_channels` and `radios` are arithmetic, `blockage` is
a fact. Two things can be wrong: the absorption by oxygen, which is taken at its peak for the whole band, and the losses
of antennas and receivers; see `beam_width` (two horns) and `link` (the weakest signal of 802.11ad).
"""

import math
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.physics._facts import DB, LIGHT, Floats, Numbers, fact, si
from fabriclab.texts import text

_NOISE = 10 * math.log10(1.380649e-23 * 290 * 1e3)  # Boltzmann's constant at 290 K [dBm/Hz]
_CARRIER = "60.48 GHz"  # source: catalog wireless60, channel 2 of 802.11ad
# Defaults of a link: sender, receiving antenna, noise figure, implementation loss.
_DEFAULTS = {
    "FCC indoor EIRP": "average_limit",
    "horn antenna gain": "value",
    "receiver noise figure": "value",
    "implementation loss": "value",
}


class RadioLink(NamedTuple):
    """Received power [dBm], signal-to-noise ratio [dB], and Shannon's rate [B/s] of one channel, of any shape."""

    received: Floats
    snr: Floats
    rate: Floats


class BudgetStep(NamedTuple):
    """A step of a link budget: name, change [dB], level after it [dBm], and how well its figure is known."""

    name: str
    change: float
    level: float
    evidence: str


class Beside(NamedTuple):
    """What a beam gets beside others.

    How much weaker than its own signal all neighbours together arrive [dB], how far above the noise that is [dB], and
    Shannon's rate with noise and neighbours [B/s].
    """

    weaker: float
    over_noise: float
    rate: float


def _w60(name: str, attribute: str = "value") -> float:
    """Return a fact of the table on 60 GHz by the name of its row."""
    return fact("w60", attribute, "wireless60", name=name)


def path_loss(distance: Numbers, frequency: Numbers = _CARRIER) -> Floats:
    """Return the loss [dB] between isotropic antennas over ``distance`` [m]: free space (Friis) and oxygen.

    Oxygen absorbs as at 60 GHz, 0.15 dB in 10 m, whatever the frequency. 60 GHz loses 21.65 dB more than 5 GHz; 21.6 is
    published. Leaves out walls, floors and reflections, which add and fade.
    """
    far = si(distance, "length", "distance", 1e-2)
    free = 20 * np.log10(4 * np.pi * far * si(frequency, "frequency", "frequency", 1e6) / LIGHT)
    return np.asarray(free + _w60("oxygen absorption", "attenuation") * far / 1e3)


def array_gain(elements: Numbers) -> Floats:
    """Return the gain [dBi] of a square array with elements half a wavelength apart: pi per element, without losses."""
    return np.asarray(10 * np.log10(np.pi * si(elements, "count", "elements", 1.0)))


def beam_width(elements: Numbers) -> Floats:
    """Return the half-power beam width [rad] of a square array: 102 degrees over the number of elements on a side.

    Together with `array_gain` it gives a beam of 30 degrees 15.6 dBi, where a horn has 15, and one of 15 degrees 21.6,
    where a horn has 20: real antennas lose 0.6 and 1.6 dB.
    """
    return np.asarray(
        2 * np.arcsin(np.minimum(0.886 / np.sqrt(si(elements, "count", "elements", 1.0)), 1.0))
    )


def misalignment(angle: Numbers, elements: Numbers) -> Floats:
    """Return the loss [dB] of a beam that points ``angle`` [rad] away, in the plane of one side of the array."""
    side = np.sqrt(si(elements, "count", "elements", 1.0))
    # Half of the phase difference between neighbouring elements
    step = np.pi / 2 * np.sin(si(angle, "count", "angle", -np.inf))
    # Array factor: sin(side x step) / (side x sin(step)), which is 1 straight ahead
    whole = np.where(
        np.abs(step) < 1e-9, 1.0, np.sin(side * step) / np.where(step == 0, 1, side * np.sin(step))
    )
    return np.asarray(-20 * np.log10(np.maximum(np.abs(whole), 1e-6)))


def link(
    distance: Numbers,
    *,
    eirp: Numbers | None = None,
    gain: Numbers | None = None,
    lost: Numbers = 0.0,
    noise_figure: float | None = None,
    implementation: float | None = None,
    bandwidth: units.Quantity | None = None,
) -> RadioLink:
    """Return the power received over a distance, and the most that one channel could carry.

    Shannon's rate is a bound for perfect coding: the 6.76 Gb/s of 802.11ad at 2 m are a sixth of it. Noise figure,
    implementation loss and horn gain are the catalog's, recalled and not confirmed by a source.

    Parameters
    ----------
    distance : float, str or array_like
        [m]
    eirp : float or array_like, optional
        Power of the sender including the gain of its antenna, by default the indoor limit. [dBm]
    gain : float or array_like, optional
        Gain of the receiving antenna, such as `array_gain`, by default the catalog's horn. [dBi]
    lost : float or array_like
        Further losses, such as `misalignment`, or `blockage` by a person. [dB]
    noise_figure, implementation : float, optional
        Noise figure and implementation loss of the receiver, by default the catalog's. [dB]
    bandwidth : float or str, optional
        Bandwidth of the channel, by default that of 802.11ad. [Hz]

    Examples
    --------
    >>> one = link("2 m")
    >>> round(float(one.snr), 1), round(8e-9 * float(one.rate), 1)
    (57.5, 41.3)
    """
    own = zip((eirp, gain, noise_figure, implementation), _DEFAULTS.items(), strict=True)
    sent, caught, worse, poor = (
        _w60(*row) if x is None else si(x, "count", row[0], -DB, DB) for x, row in own
    )
    width = si(
        _w60("802.11ad channel", "bandwidth") if bandwidth is None else bandwidth,
        "frequency",
        "bandwidth",
        1e6,
    )
    received = np.asarray(sent + caught - path_loss(distance) - si(lost, "count", "lost", -DB, DB))
    snr = np.asarray(received - poor - worse - _NOISE - 10 * np.log10(width))
    return RadioLink(received, snr, np.asarray(width / 8 * np.log2(1 + 10 ** (snr / 10))))


def budget_steps(distance: Numbers) -> list[BudgetStep]:
    """Return the link budget of one channel over a distance, step by step: first the signal, then the noise.

    The level after the fourth step is the power that `link` receives, the last one is the noise, and the difference of
    the two is the ``snr`` of `link`.

    Parameters
    ----------
    distance : float or str
        [m]

    Returns
    -------
    list of BudgetStep
        Sender, free space, oxygen and receiving antenna; then heat, noise and losses of the receiver. dB and dBm.

    Examples
    --------
    >>> steps = budget_steps("2 m")
    >>> signal, noise = steps[3], steps[-1]
    >>> round(signal.level, 1), round(noise.level, 1), round(signal.level - noise.level, 1)
    (-11.1, -68.6, 57.5)
    """
    far = float(si(distance, "length", "distance", 1e-2))
    oxygen = _w60("oxygen absorption", "attenuation") * far / 1e3
    sent, horn, figure, losses = (_w60(*row) for row in _DEFAULTS.items())
    heat = _NOISE + 10 * math.log10(_w60("802.11ad channel", "bandwidth"))
    known = {spec.name: spec.evidence for spec in catalog.wireless60["w60"].specs}
    computed = text("wireless.computed")
    signal = (
        (text("wireless.sender"), sent, known["FCC indoor EIRP"]),
        (text("wireless.free_space"), oxygen - float(path_loss(far)), computed),
        (text("wireless.oxygen"), -oxygen, known["oxygen absorption"]),
        (text("wireless.antenna"), horn, known["horn antenna gain"]),
    )
    noise = (
        (text("wireless.heat"), heat, computed),
        (text("wireless.receiver"), figure, known["receiver noise figure"]),
        (text("wireless.losses"), losses, known["implementation loss"]),
    )
    steps = []
    for part in (signal, noise):
        level = 0.0
        for name, change, evidence in part:
            level += change
            steps.append(BudgetStep(name, change, level, evidence))
    return steps


def beside(distance: Numbers, gap: Numbers, elements: Numbers, neighbours: int = 1) -> Beside:
    """Return what a beam can carry beside others of the same channel, all parallel and alike in one row.

    Sender and receiver are square arrays that both point straight ahead, so of a neighbour they hear what
    `misalignment` leaves at both ends. The receiver takes what it hears of others as noise. Leaves out that an array
    may be told not to listen in a neighbour's direction, or all signals be told apart together (MIMO). The formula is
    that of the far field, which begins at the square of the array's width, times 2, over the wavelength: 2.5 m with
    1,024 elements.

    Parameters
    ----------
    distance, gap : float or str
        Length of a beam, and distance between beams. [m]
    elements : int
        Antennas of each array.
    neighbours : int
        How many beams send at the same time: the nearest on both sides in turn, and so on. >= 0

    Examples
    --------
    >>> one = beside("2 m", "0.2 m", 64)
    >>> round(one.weaker, 1), round(8e-9 * one.rate, 1)
    (4.8, 4.3)
    """
    far = float(si(distance, "length", "distance", 1e-2))
    apart = float(si(gap, "length", "gap", 1e-3))
    count = units.count(neighbours, "neighbours", 0)
    alone = link(far, gain=array_gain(elements))
    places = apart * ((np.arange(count) + 2) // 2)  # (N,) of the neighbours [m]
    lost = 2 * misalignment(np.arctan(places / far), elements)
    lost = lost + path_loss(np.hypot(far, places)) - path_loss(far)
    heard = float(np.sum(10 ** (-lost / 10)))  # of the neighbours, own signal 1
    noise = float(10 ** (-alone.snr / 10))
    weaker = -10 * math.log10(heard) if heard else math.inf
    width = fact("w60", "bandwidth", "wireless60")
    rate = width / 8 * math.log2(1 + 1 / (noise + heard))
    return Beside(weaker, float(alone.snr) - weaker, rate)


def blockage() -> float:
    """Return the loss [dB] caused by a person in the beam: the middle of the published 20 to 30 dB."""
    return _w60("human blockage", "attenuation")


def band_channels() -> int:
    """Return how many whole channels of 802.11ad fit into the band from 57 to 71 GHz."""
    low, high = catalog.wireless60["w60"].spec("band").ends
    return int((high - low) // fact("w60", "bandwidth", "wireless60"))


def radios(rate: units.Quantity) -> int:
    """Return how many radios at the top rate of 802.11ad carry a rate [B/s] in one direction."""
    return math.ceil(units.rate(rate, "rate") / fact("w60", "phy_rate_max", "wireless60"))
