"""Line coding and forward error correction: the rate that is left, the probability of a lost frame, and the latency.

`rates` is arithmetic on published lanes, symbols and codes, `word_error` is a binomial tail; the rest are models.
"""

import math
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.physics._facts import Floats, Numbers, one, si

# Share of the bits sent that are data, by definition. A codeword of RS(n,k) has n symbols of 10 bits, k of them data.
# The RS codes of Ethernet carry whole blocks of 256b/257b, into which blocks of 64b/66b are packed first. So the last
# symbol of RS(272,258) stays empty; LLFEC-1.0 writes RS(272,257+1).
FRACTIONS = {
    "8b/10b": 8 / 10,
    "64b/66b": 64 / 66,
    "128b/130b": 128 / 130,
    "256b/257b": 256 / 257,
    "242B/256B": 242 / 256,
}
RS = {f"RS({n},{k})": (n, k) for n, k in ((528, 514), (544, 514), (272, 258))}
_SYMBOL = 10  # bits
FRACTIONS |= {name: _SYMBOL * k // 257 * 257 / (_SYMBOL * n) for name, (n, k) in RS.items()}
_GAP = 20  # bytes of preamble and gap around a frame of Ethernet


class Rates(NamedTuple):
    """Rates of a link in one direction [B/s]: on the wire, after coding, and of the data in full packets."""

    signalled: float
    encoded: float
    achievable: float


def rates(
    lanes: int, symbol_rate: units.Quantity, bits: float, *codes: str, packet: int = 4096
) -> Rates:
    """Return the three rates of a link: signalled, encoded and achievable.

    Leaves out acknowledgements, flow control, clock compensation gaps and waiting, so measured rates are lower.

    Parameters
    ----------
    lanes : int
        Lanes in one direction; wavelengths of a fibre count as lanes. >= 1
    symbol_rate : float or str
        Symbols per second on one lane, such as ``"53.125 GHz"``. [symbols/s]
    bits : float
        Bits per symbol: 1 for NRZ, 2 for PAM4. >= 0.001
    *codes : str
        Codes nested inside each other, of `FRACTIONS`.
    packet : int
        Data per packet, sent with the headers of RoCEv2 on Ethernet. [B], >= 1

    Examples
    --------
    >>> r = rates(8, "53.125 GHz", 2, "RS(544,514)", "256b/257b")
    >>> [round(8e-9 * x, 2) for x in r]
    [850.0, 800.0, 784.3]
    """
    symbols = units.count(lanes, "lanes") * one(symbol_rate, "frequency", "symbol_rate", 1e6)
    sent = symbols * one(bits, "count", "bits", 1e-3) / 8
    data = sent * math.prod(FRACTIONS[units.choice(code, "code", FRACTIONS)] for code in codes)
    headers = catalog.value("links", "eth-ovh", "headers_on_wire")
    return Rates(sent, data, data / (1 + headers / units.count(packet, "packet")))


def word_error(ber: Numbers, code: str) -> Floats:
    """Return the probability that a codeword has more wrong symbols than the code can correct, which is (n - k) / 2.

    This is the binomial tail of independent bit errors; bursts, such as those of decision feedback in a receiver, are
    worse. ``ber`` is the bit error ratio before correction, above 0 and at most 0.5; the result has its shape.
    """
    from scipy.special import betainc

    n, k = RS[units.choice(code, "code", RS)]
    bad = si(ber, "count", "ber")
    if not ((bad > 0) & (bad <= 0.5)).all():
        raise ValueError(
            f"ber must be > 0 and at most 0.5, got {ber!r:.80}; write a ratio such as 2.4e-4"
        )
    # P(at least `errors` wrong symbols of n); a symbol is wrong with probability 1 - (1 - ber)^10.
    errors = (n - k) // 2 + 1
    return np.asarray(betainc(errors, n - errors + 1, -np.expm1(_SYMBOL * np.log1p(-bad))))


def frame_loss(
    ber: Numbers, code: str = "RS(544,514)", size: int = 64, interleaved: int = 1
) -> Floats:
    """Return the probability that an Ethernet frame is lost after correction.

    A frame is lost with any codeword that contains a part of it: the interleaved codewords, and sometimes one more
    [2]_. Compared with the bit error ratios that [1]_ gives for a loss of 6.2e-10, the errors are 2 % and 1 %.

    Parameters
    ----------
    ber, code
        As in `word_error`.
    size : int
        Size of the frame without preamble and gap. [B], >= 1
    interleaved : int
        Codewords that take turns on the wire. >= 1

    References
    ----------
    .. [1] 25G/50G Ethernet Consortium, Low Latency Reed Solomon FEC Specification 1.0, 2018, annex A.
    .. [2] Ultra Ethernet Specification 1.0, section 6.3: FLR = UCR (CIR + 1 / FPC).
    """
    code = units.choice(code, "code", RS)
    symbols = RS[code][0]
    bits = symbols * _SYMBOL * FRACTIONS[code] * FRACTIONS["256b/257b"]
    frames = bits / (8 * (units.count(size, "size") + _GAP))  # frames per codeword
    return np.minimum(
        word_error(ber, code) * (units.count(interleaved, "interleaved") + 1 / frames), 1.0
    )


def gain(code: str, ber: float = 1e-12) -> float:
    """Return the coding gain [dB]: how much weaker a signal may be for the same ``ber`` after correction.

    Assumes Gaussian noise and two levels, ignores the loss of the higher symbol rate, and takes a codeword that cannot
    be corrected to have one wrong bit in each of the fewest symbols that make it so. The results lie within the
    published ranges: 5 to 5.5 dB for RS(528,514) and 6 to 6.5 dB for RS(544,514) (Intel AN 846).
    """
    from scipy import optimize, special

    n, k = RS[units.choice(code, "code", RS)]
    each = ((n - k) // 2 + 1) / (n * _SYMBOL)  # share of wrong bits in a word that is not corrected
    if not 1e-18 <= (ber := units.parse(ber, "count", "ber")) <= 1e-6:
        raise ValueError(
            f"ber must be within 1e-18..1e-6, got {ber!r}; it is that after correction"
        )
    # The bit error ratio before correction that leaves `ber` after it
    before = 10 ** optimize.brentq(
        lambda x: math.log10(each * float(word_error(10**x, code)) / ber), -6, -2
    )
    return 20 * math.log10(special.ndtri(ber) / special.ndtri(before))


def fec_latency(code: str, rate: units.Quantity) -> float:
    """Return the time [s] that a receiver takes to correct errors on a link of the line ``rate`` [B/s].

    It is the time of two codewords: one to receive, one to correct and mark. That is 3 % above the published 99 and 198
    ns at 50 Gb/s and 19 % below the middle of the 101 to 151 ns at 100 Gb/s, where the processing does not become
    faster with the line. Leaves out interleaving: each further codeword adds the time to receive it, which is 51 ns at
    100 Gb/s, the block time of P802.3ck (2018). Two interleaved codewords would take 177 ns there, and one the 126 ns
    in the middle of the range.
    """
    return 2 * RS[units.choice(code, "code", RS)][0] * _SYMBOL / 8 / units.rate(rate, "rate")
