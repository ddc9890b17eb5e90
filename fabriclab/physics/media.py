"""Which medium for which cable: the least power or price among those that reach, and the sums for a whole cluster."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Ints, texts
from fabriclab.physics._facts import fact, si

Row = tuple[str, str, str]  # table, part and attribute of a fact


class _Product(NamedTuple):
    """Where the catalog has the reach of a medium, and the power and the price of one of its ends."""

    reach: Row
    power: Row
    price: Row


class _Generation(NamedTuple):
    """The media for lanes of one rate; power and price are those of a module of the ``module`` rate."""

    lane: str
    module: str
    products: dict[str, _Product]


_LANES_100 = _Generation(
    lane="100 Gb/s",  # source: catalog media, dac800
    module="800 Gb/s",  # source: catalog media, dr4x2
    products={
        "copper": _Product(
            reach=("media", "dac800", "reach_max"),
            power=("link_physics", "copper", "power"),
            price=("link_physics", "copper", "price"),
        ),
        "active copper": _Product(
            reach=("media", "acc800", "reach_max"),
            power=("media", "acc800", "power"),
            price=("link_physics", "active", "price"),
        ),
        "AEC": _Product(
            reach=("media", "aec800", "reach_max"),
            power=("media", "aec800", "power"),
            price=("link_physics", "aec", "price"),
        ),
        "multimode": _Product(
            reach=("media", "sr4x2", "reach_max"),
            power=("media", "sr4x2", "power_max"),
            price=("link_physics", "multimode", "price"),
        ),
        "fibre": _Product(
            reach=("media", "dr4x2", "reach_max"),
            power=("media", "dr4x2", "power_max"),
            price=("media", "dr8", "price"),
        ),
        "long fibre": _Product(
            reach=("media", "fr4x2", "reach_max"),
            power=("link_physics", "long", "power"),
            price=("link_physics", "long", "price"),
        ),
    },
)
# Active copper (LACC) is sold for these lanes, but no length of it was found; multimode has no lasers yet.
_LANES_200 = _Generation(
    lane="200 Gb/s",  # source: catalog media, dac1600
    module="1.6 Tb/s",  # source: catalog media, dr4x2-1600
    products={
        "copper": _Product(
            reach=("media", "dac1600", "reach_max"),
            power=("media", "dac1600", "power_max"),
            price=("media", "dac1600", "price"),
        ),
        "AEC": _Product(
            reach=("media", "aec1600", "reach_max"),
            power=("media", "aec1600", "power"),
            price=("media", "aec1600", "price"),
        ),
        "fibre": _Product(
            reach=("media", "dr4x2-1600", "reach_max"),
            power=("media", "dr4x2-1600", "power_max"),
            price=("media", "dr4x2-1600", "price"),
        ),
        "long fibre": _Product(
            reach=("media", "fr4x2-1600", "reach_max"),
            power=("media", "fr4x2-1600", "power_max"),
            price=("media", "fr4x2-1600", "price"),
        ),
    },
)
_GENERATIONS = {generation.lane: generation for generation in (_LANES_100, _LANES_200)}
MEDIA = tuple(_LANES_100.products)
# Cables whose reach and power are known only for two switches: splitters of active copper are no longer sold by
# NVIDIA, and of AEC splitters no figures were found. Source: catalog media, acc800-split and aec800-split.
_BETWEEN_SWITCHES = ("active copper", "AEC")
_COPPER = ("copper", *_BETWEEN_SWITCHES)  # cables with plugs of their own instead of modules
_PORT = "400 Gb/s"  # source: catalog media, sr4


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
    lane: units.Quantity | None = None,
) -> MediumChoice:
    """Return the medium of least power or price that spans a length, for a link of one ``rate`` between two switches.

    A link pays its share of modules of 800 Gb/s, or of 1.6 Tb/s with lanes of 200 Gb/s. Not confirmed by a source are
    the prices of copper, multimode and long fibre, and the power of AEC and of long fibre. Prices at 1.6 Tb/s are
    scaled from 800 Gb/s. The fibre itself, spares and cooling are left out. Slower lanes reach farther in copper
    (`fabriclab.physics.electrical.reach`).

    Parameters
    ----------
    length : float or str
        Length of the link. [m]
    rate : float or str
        Rate in one direction, at most 1.6 Tb/s. [B/s]
    by : str
        What to minimise, ``"power"`` or ``"price"``; the other one decides between equals.
    media : sequence of str
        The media to choose from: copper, active copper, AEC, multimode, fibre and long fibre. Those without a product
        for the lane are left out.
    lane : float or str, optional
        Rate of a lane, 100 or 200 Gb/s; by default 100 Gb/s, and 200 Gb/s for links of more than 800 Gb/s. [B/s]

    Raises
    ------
    ValueError
        If no medium serves the length or the rate; the message names the nearest that does.

    Examples
    --------
    >>> [choose(x, "800 Gb/s").medium for x in ("2 m", "3 m", "7 m", "30 m", "80 m", "2 km")]
    ['copper', 'active copper', 'AEC', 'multimode', 'fibre', 'long fibre']
    >>> [choose(x, "1.6 Tb/s").medium for x in ("1 m", "2 m", "30 m", "2 km")]
    ['copper', 'AEC', 'fibre', 'long fibre']
    """
    far = units.length(length, "length")
    fast = units.rate(rate, "rate")
    by = units.choice(by, "by", ("power", "price"))
    generation = _generation(fast, lane)
    whole = units.rate(generation.module)
    share = min(fast / whole, 1.0)

    asked = [units.choice(medium, "medium", MEDIA) for medium in texts(media, "media")]
    known = []
    for medium in asked:
        if medium in generation.products:
            known.append(_option(generation.products[medium], medium, share))
    if not asked:
        raise ValueError(f"media must name at least one of {', '.join(MEDIA)}, got none")
    if not known:
        raise ValueError(
            f"no product of {', '.join(asked)} for lanes of {generation.lane} is known; add one of "
            f"{', '.join(generation.products)} to media"
        )

    fits = [option for option in known if option.reach >= far]
    if fast > whole or not fits:
        if fits:
            best = min(fits, key=lambda option: option.power)
            advice = "take several links"
        else:
            best = max(known, key=lambda option: option.reach)
            advice = "shorten the cable, or allow more media"
        raise ValueError(
            f"no medium serves {8e-9 * fast:g} Gb/s over {far:g} m; nearest is {best.medium}: "
            f"{generation.module} over {best.reach:g} m; {advice}"
        )
    return min(fits, key=lambda option: (getattr(option, by), option.power, option.price))


def _generation(rate: float, lane: units.Quantity | None) -> _Generation:
    """Return the media for lanes of the rate asked for, or of the slowest that carry ``rate`` [B/s] in one module."""
    if lane is None:
        fits_100 = rate <= units.rate(_LANES_100.module)
        return _LANES_100 if fits_100 else _LANES_200
    asked = units.rate(lane, "lane")
    for generation in _GENERATIONS.values():
        if asked == units.rate(generation.lane):
            return generation
    raise ValueError(f"lane must be one of {', '.join(_GENERATIONS)}, got {lane!r:.60}")


def _option(product: _Product, medium: str, share: float) -> MediumChoice:
    """Return a medium with the power and price of both ends, of which a link uses only a share."""
    values = [fact(part, attribute, table) for table, part, attribute in product]
    far, watts, dollars = values
    return MediumChoice(medium, 2 * share * watts, 2 * share * dollars, far)


def offers(to: str = "switch", media: Sequence[str] = MEDIA) -> dict[str, MediumChoice]:
    """Return what a cable of 400 Gb/s from a switch costs in each medium, whatever its length.

    Power and price are those of both ends: a twin module in a switch serves two cables, so a cable pays half of it. At
    a NIC a cable has a module for one port, or is half of a splitter of passive copper. Media without known figures for
    such a cable are left out: to a NIC these are active copper and AEC (`hall` says why).

    Parameters
    ----------
    to : str
        The other end, ``"switch"`` or ``"NIC"``.
    media : sequence of str
        As in `choose`.

    Returns
    -------
    dict of str to MediumChoice
        In the order of ``media``; power in W, price in USD, reach in m.

    Raises
    ------
    ValueError
        If the end or a medium is unknown.

    Examples
    --------
    >>> {medium: (offer.reach, offer.power) for medium, offer in offers("NIC").items()}
    {'copper': (3.0, 0.0), 'multimode': (50.0, 16.5), 'fibre': (100.0, 17.5), 'long fibre': (2000.0, 17.5)}
    """
    single = units.choice(to, "to", ("switch", "NIC")) == "NIC"
    asked = [units.choice(medium, "medium", MEDIA) for medium in texts(media, "media")]
    share = units.rate(_PORT) / units.rate(_LANES_100.module)
    found = dict[str, MediumChoice]()
    for medium in asked:
        if single and medium in _BETWEEN_SWITCHES:
            continue
        offer = _option(_LANES_100.products[medium], medium, share)
        if single and medium == "copper":
            offer = offer._replace(reach=fact("dac800-split", "reach_max", "media"))
        found[medium] = _with_single_ends(offer, units.rate(_PORT), int(single))
    return found


def lengths(fabric: Fabric) -> dict[str, Floats]:
    """Return the length of each cable of a fabric, by what it joins.

    Cables without length (boards) or capacity are not counted; a bundle of cables counts each of them.

    Parameters
    ----------
    fabric : Fabric
        A fabric whose cables have lengths, such as `economics.floor_plan` returns it.

    Returns
    -------
    dict of str to ndarray
        ``"to NICs"`` and ``"between switches"``: one entry per cable, shortest first. [m]

    Raises
    ------
    TypeError
        If it is no fabric.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> case = topologies.build("rail_optimised", expand=False)
    >>> {where: cables.size for where, cables in lengths(case).items()}
    {'to NICs': 1024, 'between switches': 1024}
    """
    if not isinstance(fabric, Fabric):
        raise TypeError(
            f"fabric must be a Fabric, got {fabric!r:.80}; make one with topologies.build(...)"
        )
    live, ports, _, single = _cables(fabric)
    found = dict[str, Floats]()
    for where, which in (
        ("to NICs", live & (single > 0)),
        ("between switches", live & (single == 0)),
    ):
        found[where] = np.sort(np.repeat(fabric.length[::2][which], ports[which]))
    return found


def least(
    lengths: Sequence[float] | Floats, offers: Mapping[str, MediumChoice]
) -> dict[str, tuple[int, float, float]]:
    """Give each cable the offer of least power that reaches, and return cables, power [W] and price [USD] of each.

    Of two offers of equal power the cheaper one is taken. The fibre itself, spares and cooling are left out.

    Parameters
    ----------
    lengths : sequence of float
        Length of each cable, such as `lengths` returns. [m]
    offers : mapping of str to MediumChoice
        What a cable costs in each medium, such as `offers` returns; add those of your own vendor.

    Raises
    ------
    TypeError, ValueError
        If no offer reaches a cable, or a length or an offer is none.

    Examples
    --------
    >>> least([2.0, 3.0, 8.0], offers("NIC", ["copper", "fibre"]))
    {'copper': (2, 0.0, 200.0), 'fibre': (1, 17.5, 1325.0)}
    """
    known = isinstance(offers, Mapping) and all(
        isinstance(x, MediumChoice) for x in offers.values()
    )
    if not known:
        raise TypeError(
            f"offers must map names to MediumChoice, got {offers!r:.80}; such as media.offers('NIC')"
        )
    by_power = sorted(offers.items(), key=lambda item: (item[1].power, item[1].price))
    out = dict[str, tuple[int, float, float]]()
    for far, n in zip(
        *np.unique(si(lengths, "length", "lengths"), return_counts=True), strict=True
    ):
        fits = [(name, offer) for name, offer in by_power if offer.reach >= far]
        if not fits:
            most = max((offer.reach for offer in offers.values()), default=0.0)
            raise ValueError(
                f"offers must reach every cable; one of {far:g} m is longer than the {most:g} m of the farthest, got "
                f"{', '.join(offers) or 'none'}; add a medium that reaches"
            )
        name, offer = fits[0]
        cables, power, price = out.get(name, (0, 0.0, 0.0))
        out[name] = cables + int(n), power + n * offer.power, price + n * offer.price
    return {
        name: (out[name][0], float(out[name][1]), float(out[name][2]))
        for name in offers
        if name in out
    }


def _cables(fabric: Fabric) -> tuple[Flags, Ints, Floats, Ints]:
    """Return of each of C cables: whether it is laid, its ports, the rate of a port [B/s], and its ends with one port.

    A cable is two links, one for each direction. An end has one port if it is a NIC or a host.
    """
    ports = np.maximum(fabric.ports[::2], 1)  # (C,)
    most = np.maximum(fabric.capacity[::2], fabric.capacity[1::2])  # (C,) [B/s]
    nics = [i for i, kind in enumerate(fabric.kinds) if kind in ("nic", "host")]
    end = ~fabric.transit | np.isin(fabric.kind, nics)  # (N,) nodes whose module has one port
    end[fabric.endpoint] = True
    single = end[fabric.source].reshape(-1, 2).sum(1)  # (C,) 0 to 2
    live = (fabric.length[::2] > 0) & (most > 0)
    return live, ports, most / ports, single


def _with_single_ends(link: MediumChoice, rate: float, single: int) -> MediumChoice:
    """Return a link of a port ``rate`` [B/s] with modules for one port at ``single`` of its ends, if it has modules."""
    if link.medium in _COPPER:
        return link
    modules = rate / units.rate(_PORT)
    watts = single * (modules * fact("sr4", "power_max", "media") - link.power / 2)
    dollars = single * (modules * fact("400g", "price", "media") - link.price / 2)
    return link._replace(power=link.power + watts, price=link.price + dollars)


def hall(
    fabric: Fabric, by: str = "power", media: Sequence[str] = ("copper", "fibre")
) -> dict[str, tuple[int, float, float]]:
    """Return, for each medium chosen, how many cables of a fabric use it, their power [W] and their price [USD].

    Each cable gets the medium that `choose` selects for its length and the rate of its ports. At a NIC it gets a module
    for one port or a splitter of passive copper (3 m), but neither active copper, whose splitters NVIDIA no longer
    sells, nor AEC, for whose splitters no figures were found. Cables without length (boards) or capacity are not
    counted. Lengths are those of the fabric; `fabriclab.economics.floor_plan` computes them.

    Parameters
    ----------
    fabric : Fabric
        A network whose cables have lengths.
    by, media
        As in `choose`; the default media are those of the running case. With all media the running case draws 22
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
    some = [units.choice(m, "medium", MEDIA) for m in texts(media, "media")]
    live, ports, rates, ends = _cables(fabric)
    length = fabric.length[::2]  # (C,) [m]

    # Cables with the same length, port rate and number of single-port ends are handled together.
    cases, which = np.unique(
        np.stack([length, rates, ends], axis=1)[live], axis=0, return_inverse=True
    )
    counts = np.bincount(which, ports[live])
    out: dict[str, tuple[int, float, float]] = {}
    for (far, rate, single), n in zip(cases.tolist(), counts.tolist(), strict=True):
        slow_lanes = rate <= units.rate(_LANES_100.module)
        if single == 1 and slow_lanes and far <= fact("dac800-split", "reach_max", "media"):
            far = 0.0  # copper serves it: to NICs it is a splitter, not the straight cable that `choose` knows
        allowed = [m for m in some if m not in _BETWEEN_SWITCHES or not single]
        link = _with_single_ends(choose(far, rate, by, allowed), rate, int(single))
        cables, power, price = out.get(link.medium, (0, 0.0, 0.0))
        out[link.medium] = cables + int(n), power + n * link.power, price + n * link.price
    return out
