"""Which medium for which cable: the least power or price among those that reach, and the sums for a whole cluster."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, texts
from fabriclab.physics._facts import fact


class _MediumFacts(NamedTuple):
    """Table, part and attribute of each fact about a medium: its reach, and power and price of one end at 800 Gb/s."""

    reach: tuple[str, str, str]
    power: tuple[str, str, str]
    price: tuple[str, str, str]


# Ends are those of switches; a single port at a NIC has a module of its own.
_MEDIA = {
    "copper": _MediumFacts(
        reach=("media", "dac800", "reach_max"),
        power=("link_physics", "copper", "power"),
        price=("link_physics", "copper", "price"),
    ),
    "active copper": _MediumFacts(
        reach=("media", "acc800", "reach_max"),
        power=("media", "acc800", "power"),
        price=("link_physics", "active", "price"),
    ),
    "multimode": _MediumFacts(
        reach=("media", "sr4x2", "reach_max"),
        power=("media", "sr4x2", "power_max"),
        price=("link_physics", "multimode", "price"),
    ),
    "fibre": _MediumFacts(
        reach=("media", "dr4x2", "reach_max"),
        power=("media", "dr4x2", "power_max"),
        price=("media", "dr8", "price"),
    ),
    "long fibre": _MediumFacts(
        reach=("media", "fr4x2", "reach_max"),
        power=("link_physics", "long", "power"),
        price=("link_physics", "long", "price"),
    ),
}
MEDIA = tuple(_MEDIA)
_PORT = "400 Gb/s"  # source: catalog media, sr4
_MODULE = "800 Gb/s"  # source: catalog media, dr4x2


class MediumChoice(NamedTuple):
    """A medium, the power [W] and the price [USD] of both ends of a link, and its reach [m]."""

    medium: str
    power: float
    price: float
    reach: float


def choose(
    length: units.Quantity,
    rate: units.Quantity = _PORT,
    by: str = "power",
    media: Sequence[str] = MEDIA,
) -> MediumChoice:
    """Return the medium of least power or price that spans a length, for a link of one ``rate`` between two switches.

    A link pays its share of modules of 800 Gb/s. Prices of copper, multimode and long fibre, and the power of long
    fibre, are recalled, not confirmed by a source; the fibre itself, spares and cooling are left out. Every reach comes
    from a data sheet for lanes of 100 Gb/s: in copper, slower lanes reach farther
    (`fabriclab.physics.electrical.reach`).

    Parameters
    ----------
    length : float or str
        Length of the link. [m]
    rate : float or str
        Rate in one direction, at most 800 Gb/s. [B/s]
    by : str
        What to minimise, ``"power"`` or ``"price"``; the other one decides between equals.
    media : sequence of str
        The media to choose from: copper, active copper, multimode, fibre and long fibre.

    Raises
    ------
    ValueError
        If no medium serves the length or the rate; the message names the nearest that does.

    Examples
    --------
    >>> [choose(x, "800 Gb/s").medium for x in ("2 m", "3 m", "30 m", "80 m", "2 km")]
    ['copper', 'active copper', 'multimode', 'fibre', 'long fibre']
    """
    far = units.length(length, "length")
    fast = units.rate(rate, "rate")
    whole = units.rate(_MODULE)
    units.choice(by, "by", ("power", "price"))
    share = min(fast / whole, 1.0)
    known = []
    for medium in texts(media, "media"):
        known.append(_option(units.choice(medium, "medium", _MEDIA), share))
    if not known:
        raise ValueError(f"media must name at least one of {', '.join(_MEDIA)}, got none")
    fits = [option for option in known if option.reach >= far]
    if fast > whole or not fits:
        if fits:
            best = min(fits, key=lambda option: option.power)
            advice = "take several links"
        else:
            best = max(known, key=lambda option: option.reach)
            advice = "shorten the cable, or allow more media"
        raise ValueError(
            f"no medium serves {units.format_rate(fast)} over {far:g} m; nearest is {best.medium}: "
            f"{_MODULE} over {best.reach:g} m; {advice}"
        )
    return min(fits, key=lambda option: (getattr(option, by), option.power, option.price))


def _option(medium: str, share: float) -> MediumChoice:
    """Return a medium with the power and price of both ends, of which a link uses only a share."""
    values = [fact(part, attribute, table) for table, part, attribute in _MEDIA[medium]]
    far, watts, dollars = values
    return MediumChoice(medium, 2 * share * watts, 2 * share * dollars, far)


def hall(
    fabric: Fabric, by: str = "power", media: Sequence[str] = ("copper", "fibre")
) -> dict[str, tuple[int, float, float]]:
    """Return, for each medium chosen, how many cables of a fabric use it, their power [W] and their price [USD].

    Each cable gets the medium that `choose` selects for its length and the rate of its ports. At a NIC it gets a module
    for one port or a splitter of passive copper (3 m), but no active copper, because splitters of it are no longer
    sold. Cables without length (boards) or capacity are not counted. Lengths are those of the fabric;
    `fabriclab.economics.floor_plan` computes them.

    Parameters
    ----------
    fabric : Fabric
        A network whose cables have lengths.
    by, media
        As in `choose`; the default media are those of the running case. With all five media the running case draws 24
        kW.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> case = topologies.build("rail_optimised", expand=False)
    >>> {medium: (cables, round(watts)) for medium, (cables, watts, _) in hall(case).items()}
    {'fibre': (2048, 35328)}
    """
    if not isinstance(fabric, Fabric):
        raise TypeError(
            f"fabric must be a Fabric, got {fabric!r:.80}; make one with topologies.build(...)"
        )
    some = [units.choice(m, "medium", _MEDIA) for m in texts(media, "media")]
    # A cable is two links, one per direction; C is the number of cables.
    ports = np.maximum(fabric.ports[::2], 1)  # (C,)
    most = np.maximum(fabric.capacity[::2], fabric.capacity[1::2])  # (C,) [B/s]
    length = fabric.length[::2]  # (C,) [m]
    nics = [i for i, kind in enumerate(fabric.kinds) if kind in ("nic", "host")]
    end = ~fabric.transit | np.isin(fabric.kind, nics)  # (N,) nodes whose module has one port
    end[fabric.endpoint] = True
    ends = end[fabric.source].reshape(-1, 2).sum(1)  # (C,) number of such ends of a cable, 0 to 2
    live = (length > 0) & (most > 0)

    # Cables with the same length, port rate and number of single-port ends are handled together.
    cases, which = np.unique(
        np.stack([length, most / ports, ends], axis=1)[live], axis=0, return_inverse=True
    )
    counts = np.bincount(which, ports[live])
    out: dict[str, tuple[int, float, float]] = {}
    for (far, rate, single), n in zip(cases.tolist(), counts.tolist(), strict=True):
        if single == 1 and far <= fact("dac800-split", "reach_max", "media"):
            far = 0.0  # copper serves it: to NICs it is a splitter, not the straight cable that `choose` knows
        allowed = [m for m in some if m != "active copper" or not single]
        link = choose(far, rate, by, allowed)
        watts = link.power
        dollars = link.price
        if link.medium not in (
            "copper",
            "active copper",
        ):  # modules for one port replace half a link's
            modules = rate / units.rate(_PORT)
            watts += single * (modules * fact("sr4", "power_max", "media") - link.power / 2)
            dollars += single * (modules * fact("400g", "price", "media") - link.price / 2)
        cables, power, price = out.get(link.medium, (0, 0.0, 0.0))
        out[link.medium] = cables + int(n), power + n * watts, price + n * dollars
    return out
