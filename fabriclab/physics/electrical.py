"""Copper: how far a rate reaches, what a bit costs over a distance, and how much a chip's edge carries."""

import json
from functools import cache

import numpy as np

from fabriclab import units
from fabriclab.physics._facts import DB, Floats, Numbers, fact, rows, si

# Interfaces by how far they reach, with the table and part of the catalog that has each figure.
_REACH = {"UCIe 2.5D": "ucie-a", "UCIe 2D": "ucie-s", "XSR": "xsr", "LR": "lr"}
_EDGE = {
    "UCIe 2.5D": "ucie-a",
    "UCIe 2D": "ucie-s",
    "LR": "lr",
    "co-packaged": "cpo",
    "pluggable": "pluggable",
}


def _terms(frequency: Numbers, length: Numbers, gauge: Numbers) -> list[Floats]:
    """Return what skin, dielectric and both connectors grow with: gauge 26 is 1 across, 39 less is 92."""
    ghz, far = si(frequency, "frequency", "frequency") / 1e9, si(length, "length", "length")
    return [
        far * np.sqrt(ghz) * 92 ** ((si(gauge, "count", "gauge", 0, 60) - 26) / 39),
        far * ghz,
        np.sqrt(ghz),
    ]


@cache
def coefficients() -> Floats:
    """Return the least-squares terms of the cables in published.csv [dB]: per m and root GHz, m and GHz, root GHz."""
    cables = [r for r in rows("electrical.loss") if r["role"] == "fit"]
    terms = np.array([_terms(**json.loads(r["given"])) for r in cables])
    return np.asarray(
        np.linalg.lstsq(terms, np.array([float(r["published"]) for r in cables]), rcond=None)[0]
    )


def loss(frequency: Numbers, length: Numbers, gauge: Numbers = 26) -> Floats:
    """Return the insertion loss [dB] of a copper cable with its two connectors.

    a sqrt(f) / diameter + b f for each metre, and c sqrt(f) for the ends: skin effect, dielectric, connectors.
    The terms are fitted to two Mellanox cables of 30 AWG and to the limits of 40 and 100 Gb/s Ethernet.
    Held against eleven figures of three other cables, whole dB that their makers wrote into the plugs, it is
    8% off (median), at worst 41% for 4 dB, and 15% too low for 18 dB; seven are of 1 m and 30 AWG, as those fitted.
    Nothing above 12.9 GHz set it: see `reach`. Leaves out reflections and crosstalk.

    Parameters
    ----------
    frequency : float, str or array_like
        Of the signal; that of Nyquist is half of the symbol rate. [Hz]
    length : float, str or array_like
        Of the cable. [m]
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
    """Return how long [m] a cable may be for a loss ``budget`` [dB] of the cable at half of the symbol rate; 0 if none.

    Budgets are in ``catalog.link_physics``, such as ``["cr-100g"]["loss_budget"].value``. With those of Ethernet it
    gives 3.4 m at lanes of 50 Gb/s where the standard has 3 m (+15%), 2.5 at 100 Gb/s for 2 (+27%), and 1.5 at
    200 Gb/s, with the same budget, for 1.0 (+48%): too far, the more so the farther the rate is from what was fitted.
    """
    f = si(symbol_rate, "frequency", "symbol_rate", 1e6) / 2
    ends, spare = loss(f, 0.0, gauge), si(budget, "count", "budget", -DB, DB)
    # source: of one metre by definition, since loss grows in proportion to length
    return np.maximum(spare - ends, 0) / (loss(f, 1.0, gauge) - ends)


def energy(length: units.Quantity) -> tuple[str, float]:
    """Return the interface of least energy that spans a length, and its energy [J/bit] at both ends.

    Published figures of chips, not one law; a module's figure leaves out the SerDes of its hosts, which is that of
    LR. 1 and 3% above two transceivers over short wires (0.297 and 0.29 pJ/bit).

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
    """Return the energy [J/bit] of `energy` alone."""
    return energy(length)[1]


def beachfront(
    interface: str,
    edge: units.Quantity = "1 mm",  # source: the unit in which densities are quoted
    lane_rate: units.Quantity | None = None,
) -> float:
    """Return the rate [B/s] of one direction that an edge of a chip, or of a faceplate, carries.

    Edge times published density, in proportion to the rate of a lane [B/s] (that of the source unless given): the
    pitch of bumps, fibres and cages stays. 1% below 5.27 Tb/s/mm in both directions measured on UCIe 2.5D at
    16 Gb/s; 60% above the 0.5 Tb/s/mm of an optical chip for co-packaging (Nubis, 2025) if that is one direction; its
    fibres leave at the surface, those of the model in one row at their closest pitch. What UCIe itself has for 4 Gb/s
    shows only that it scales so too. LR is a least figure: what a shipped switch chip of lanes of 100 Gb/s needs if it
    is one die, not confirmed; nor is the pluggable one.

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
