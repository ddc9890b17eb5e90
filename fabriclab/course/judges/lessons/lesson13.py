"""Lesson 13: Shannon's rate of a beam, from its link budget."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from fabriclab import catalog
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.physics import wireless
from fabriclab.registry import register
from fabriclab.texts import text

Rate = Callable[[float, float, float, float, float, float], Any]  # -> rate [bit/s]


class Beam(NamedTuple):
    """A beam and its receiver: what the learner's function is called with."""

    hertz: float  # width of the channel [Hz]
    metres: float  # from sender to receiver
    wavelength: float  # [m]
    sent: float  # power of the sender with its antenna [dBm]
    gain: float  # of the receiving antenna, less what else is lost [dB]
    noise: float  # in the channel, at the receiver [dBm]


_WAVELENGTH = 0.00496  # [m]; source: catalog wireless60, channel 2 of 802.11ad, 60.48 GHz
_ANTENNAS = (16, 256)  # illustrative: arrays beside the catalog's horn
_NEAR, _FAR, _FARTHER = 2.0, 10.0, 20.0  # illustrative: distances of the lessons [m]
_WEAKEST = (
    -66.0
)  # [dBm]; source: IEEE 802.11ad, table 21-3, as tests/unit/test_physics_links.py has it
_WEAK_RECEIVER = 15.0  # noise figure and losses [dB]; source: IEEE 802.11ad, comment 6114


@cache
def beams() -> dict[str, Beam]:
    """Return the beams on which the learner's function is tried, by their names in words."""
    sender, _, _, horn, heat, _, losses = wireless.budget_steps(_NEAR)
    own = Beam(
        hertz=catalog.value("wireless60", "w60", "bandwidth"),
        metres=_NEAR,
        wavelength=_WAVELENGTH,
        sent=sender.change,
        gain=horn.change,
        noise=losses.level,
    )
    channels = wireless.band_channels()
    small, large = (float(wireless.array_gain(n)) for n in _ANTENNAS)
    far = own._replace(metres=_FAR, gain=large)
    hidden = own._replace(metres=_FARTHER, gain=small - wireless.blockage())
    wide = far._replace(
        hertz=channels * own.hertz, gain=own.gain, noise=own.noise + 10 * math.log10(channels)
    )
    weak = own._replace(gain=0.0, noise=heat.change + _WEAK_RECEIVER)
    weak = weak._replace(sent=weak.sent + _WEAKEST - received(weak))
    return {
        text("trace.beam_clear", metres=own.metres): own,
        text("trace.beam_clear", metres=far.metres): far,
        text("trace.beam_behind", metres=hidden.metres): hidden,
        text("trace.beam_band", metres=wide.metres): wide,
        text("trace.beam_weak"): weak,
    }


def received(beam: Beam) -> float:
    """Return the power that arrives at the receiver, in free space [dBm]."""
    lost = 20 * math.log10(4 * math.pi * beam.metres / beam.wavelength)
    return beam.sent + beam.gain - lost


def over_noise(beam: Beam) -> float:
    """Return how far the signal lies above the noise [dB]."""
    return received(beam) - beam.noise


def beam_rate(*numbers: float) -> float:
    """Return Shannon's rate of a `Beam` [bit/s]."""
    beam = Beam(*numbers)
    return beam.hertz * math.log2(1 + 10 ** (over_noise(beam) / 10))


def _decibels_for_a_ratio(*numbers: float) -> float:
    beam = Beam(*numbers)
    return beam.hertz * math.log2(1 + abs(over_noise(beam)))


def _twenty_for_ten(*numbers: float) -> float:
    beam = Beam(*numbers)
    return beam.hertz * math.log2(1 + 10 ** (over_noise(beam) / 20))


def _natural_logarithm(*numbers: float) -> float:
    return beam_rate(*numbers) * math.log(2)


def _logarithm_to_ten(*numbers: float) -> float:
    return beam_rate(*numbers) * math.log10(2)


def _loss_of_ten_logarithms(*numbers: float) -> float:
    beam = Beam(*numbers)
    half = 10 * math.log10(4 * math.pi * beam.metres / beam.wavelength)
    return beam_rate(*beam._replace(sent=beam.sent + half))


def _four_pi_forgotten(*numbers: float) -> float:
    beam = Beam(*numbers)
    return beam_rate(*beam._replace(sent=beam.sent + 20 * math.log10(4 * math.pi)))


def _gain_forgotten(*numbers: float) -> float:
    return beam_rate(*Beam(*numbers)._replace(gain=0.0))


def _noise_forgotten(*numbers: float) -> float:
    return beam_rate(*Beam(*numbers)._replace(noise=0.0))


def _noise_added(*numbers: float) -> float:
    beam = Beam(*numbers)
    return beam_rate(*beam._replace(noise=-beam.noise))


def _bytes_for_bits(*numbers: float) -> float:
    return beam_rate(*numbers) / 8


def _gigabits(*numbers: float) -> float:
    return beam_rate(*numbers) / 1e9


def _loss_added(*numbers: float) -> float:
    beam = Beam(*numbers)
    lost = 20 * math.log10(4 * math.pi * beam.metres / beam.wavelength)
    return beam_rate(*beam._replace(sent=beam.sent + 2 * lost))


def _hertz_forgotten(*numbers: float) -> float:
    beam = Beam(*numbers)
    return beam_rate(*numbers) / beam.hertz


def _one_forgotten(*numbers: float) -> float:
    beam = Beam(*numbers)
    return beam.hertz * over_noise(beam) / 10 * math.log2(10)


# What somebody with a mistake returns, by its name.
RATE_MISTAKES: dict[str, Callable[..., float]] = {
    "decibels taken for a ratio": _decibels_for_a_ratio,
    "20 for 10 in the exponent": _twenty_for_ten,
    "natural logarithm": _natural_logarithm,
    "logarithm to base 10": _logarithm_to_ten,
    "10 log for the distance": _loss_of_ten_logarithms,
    "4 pi of free space forgotten": _four_pi_forgotten,
    "gain forgotten": _gain_forgotten,
    "noise forgotten": _noise_forgotten,
    "noise added": _noise_added,
    "divided by eight": _bytes_for_bits,
    "Gb/s for bit/s": _gigabits,
    "loss added": _loss_added,
    "width forgotten": _hertz_forgotten,
    "1 forgotten": _one_forgotten,
}


@register("check", "13-write-rate")
def rate_of_beam(answer: Rate) -> Verdict:
    """Run ``answer(hertz, metres, wavelength, sent, gain, noise)``, a rate in bit/s, on beams of the catalog."""
    cases: dict[str, Sequence[float]] = {**beams()}
    return compared("13-write-rate", answer, cases, beam_rate, RATE_MISTAKES, _written)


def _written(value: float) -> str:
    """Write a rate [bit/s] in Gb/s with four digits."""
    return f"{value / 1e9:,.4g} Gb/s"
