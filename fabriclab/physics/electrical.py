"""Copper: how far a rate reaches, the energy per bit over a distance, and the bandwidth of a chip's edge."""

import json
from functools import cache

import numpy as np

from fabriclab import units
from fabriclab.physics._facts import DB, Floats, Numbers, fact, rows, si

# Interfaces in order of reach, with the part of the catalog that has their figures.
_REACH = {"UCIe 2.5D": "ucie-a", "UCIe 2D": "ucie-s", "XSR": "xsr", "LR": "lr"}
_EDGE = {
    "UCIe 2.5D": "ucie-a",
    "UCIe 2D": "ucie-s",
    "LR": "lr",
    "co-packaged": "cpo",
    "pluggable": "pluggable",
}


def _terms(frequency: Numbers, length: Numbers, gauge: Numbers) -> list[Floats]:
    """Return the three terms of the loss (skin effect, dielectric, connectors) without their coefficients.

    Gauge 26 has the relative diameter 1; 39 gauge numbers less make it 92 times as thick.
    """
    ghz, far = si(frequency, "frequency", "frequency") / 1e9, si(length, "length", "length")
    return [
        far * np.sqrt(ghz) * 92 ** ((si(gauge, "count", "gauge", 0, 60) - 26) / 39),
        far * ghz,
        np.sqrt(ghz),
    ]


@cache
def coefficients() -> Floats:
    """Return the least-squares coefficients of the cables in published.csv.

    In dB per m and root GHz (skin effect), per m and GHz (dielectric), and per root GHz (connectors).
    """
    cables = [r for r in rows("electrical.loss") if r["role"] == "fit"]
    terms = np.array([_terms(**json.loads(r["given"])) for r in cables])
    return np.asarray(
        np.linalg.lstsq(terms, np.array([float(r["published"]) for r in cables]), rcond=None)[0]
    )


def loss(frequency: Numbers, length: Numbers, gauge: Numbers = 26) -> Floats:
    """Return the insertion loss [dB] of a copper cable with its two connectors.

    The loss is a sqrt(f) / diameter + b f per metre (skin effect and dielectric), plus c sqrt(f) for the connectors.
    The coefficients are fitted to two Mellanox cables of 30 AWG and to the limits of 40 and 100 Gb/s Ethernet.

    Compared with eleven figures of three other cables, whole dB that their makers wrote into the plugs, the median
    error is 8 %; the worst is 41 %, for 4 dB, and a loss of 18 dB comes out 15 % too low. Seven of the figures are for
    1 m and 30 AWG, as those fitted. No figure above 12.9 GHz entered the fit: see `reach`. Leaves out reflections and
    crosstalk.

    Parameters
    ----------
    frequency : float, str or array_like
        Frequency of the signal; the Nyquist frequency is half of the symbol rate. [Hz]
    length : float, str or array_like
        Length of the cable. [m]
    gauge : float or array_like
        American wire gauge: 26 is thick, 30 thin.

    Examples
    --------
    >>> round(float(loss("12.9 GHz", "2 m", 30)), 1)
    15.3
    """
    return np.asarray(
        sum(
            k * term
            for k, term in zip(coefficients(), _terms(frequency, length, gauge), strict=True)
        )
    )


def reach(symbol_rate: Numbers, budget: float, gauge: Numbers = 26) -> Floats:
    """Return the longest cable [m] whose loss at half of the symbol rate is within ``budget`` [dB]; 0 if there is none.

    Budgets are in ``catalog.link_physics``, such as ``["cr-100g"]["loss_budget"].value``. With the budgets of Ethernet
    the model gives 3.4 m for lanes of 50 Gb/s, where the standard promises at least 3 m (+15 %), 2.5 m for 100 Gb/s and
    at least 2 m (+27 %), and 1.5 m for 200 Gb/s, with the same budget, and at least 1.0 m (+48 %). These are floors:
    single products go farther, such as passive cables of 3 m from a switch to NICs at 100 Gb/s. The fit ends at
    12.9 GHz, so nothing here shows how far the model is off at 200 Gb/s.
    """
    f = si(symbol_rate, "frequency", "symbol_rate", 1e6) / 2
    ends, spare = loss(f, 0.0, gauge), si(budget, "count", "budget", -DB, DB)
    # source: of one metre by definition, since loss grows in proportion to length
    return np.maximum(spare - ends, 0) / (loss(f, 1.0, gauge) - ends)


def energy(length: units.Quantity) -> tuple[str, float]:
    """Return the interface that spans a length with the least energy, and its energy [J/bit] at both ends.

    These are published figures of chips, not one law. A module's figure leaves out the SerDes of its hosts, for which
    the figure of LR holds. The energies are 1 and 3 % above two transceivers over short wires (0.297 and 0.29 pJ/bit).

    Examples
    --------
    >>> energy("1.2 mm"), energy("30 mm")[0]
    (('UCIe 2.5D', 3e-13), 'XSR')
    """
    far = units.length(length, "length")
    fits = {
        name: fact(part, "energy")
        for name, part in _REACH.items()
        if fact(part, "reach_max") >= far
    }
    if not fits:
        name, part = max(_REACH.items(), key=lambda item: fact(item[1], "reach_max"))
        msg = f"no electrical interface without a cable spans {far:g} m; {name} spans {fact(part, 'reach_max'):g} m; "
        raise ValueError(msg + "media.choose has cables")
    name = min(fits, key=lambda name: fits[name])
    return name, fits[name]


def bit_energy(length: units.Quantity) -> float:
    """Return only the energy [J/bit] that `energy` gives."""
    return energy(length)[1]


def beachfront(
    interface: str,
    edge: units.Quantity = "1 mm",  # source: the unit in which densities are quoted
    lane_rate: units.Quantity | None = None,
) -> float:
    """Return the rate [B/s] in one direction that fits through an edge of a chip, or of a faceplate.

    It is the length of the edge times a published density, in proportion to the rate of a lane [B/s] (by default the
    source's), because the pitch of bumps, fibres and cages stays the same.

    Two errors: 1 % below the 5.27 Tb/s/mm in both directions measured on UCIe 2.5D at 16 Gb/s; 60 % above the 0.5
    Tb/s/mm of an optical chip for co-packaging (Nubis, 2025), if that is one direction. The fibres of that chip leave
    at its surface, those of the model in one row at their closest pitch. UCIe's own figure for 4 Gb/s shows only that
    UCIe scales in the same proportion. LR is a lower limit: what a shipped switch chip with lanes of 100 Gb/s needs if
    it is one die, which is not confirmed; nor is the figure for pluggables.

    Examples
    --------
    >>> [round(8e-9 * beachfront(x)) for x in ("pluggable", "LR", "co-packaged", "UCIe 2.5D")]
    [35, 434, 800, 5200]
    """
    part = _EDGE[units.choice(interface, "interface", _EDGE)]
    share = (
        1.0 if lane_rate is None else units.rate(lane_rate, "lane_rate") / fact(part, "lane_rate")
    )
    return fact(part, "edge_density") * 1e3 * units.length(edge, "edge") * share
