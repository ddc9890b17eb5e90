"""Bill of a fabric: price and power of its switches, NICs, transceivers and cables, line by line with sources."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, units
from fabriclab.catalog.tables import data_rows, near
from fabriclab.core import Fabric, Flags, Floats, Ints, ReadOnly, Spec, as_html, as_text
from fabriclab.economics.floor import MEDIA, of_kind, switches

# What a cable has at both ends; the price of the cable includes it.
_ENDS = {
    "fibre": "transceiver",
    "long fibre": "long transceiver",
    "active copper": "active copper end",
}
_HEAD = ("item", "quantity", "USD each", "USD", "source", "date", "W each", "W", "source", "date")
_UNKNOWN = "unknown"
_SHOWN = 6  # groups of items that a line names
# The NVLink switches of a rack, by what fabrics call them: one node for all of them, or a node for each.
_JOINS = {
    "nvlink": "all NVLink switches and cables of",
    "nvswitch": "NVLink switch with cables to",
}
_SWITCH = re.compile(r"switch (\d+) x (\d+) Gb/s")
_PORT_RATE = re.compile(r"(\d+) Gb")  # in "400 Gb/s NDR ports", and in "800 GbE ports"
_SPLIT = re.compile(r"(\d+) ?x ?(\d+)")  # in "or 128 x 200 Gb/s"


@cache
def price_list() -> Mapping[str, tuple[Spec | None, Spec | None]]:
    """Return list price and power, by name, of each part for which a source gives at least one of them, else None.

    Prices are those of the cluster of the course. Its price sheet has one sum for "connector and cable" of a server
    with 16 cables, so the price of a fibre includes the transceivers at both ends. The sheet has no copper: its prices
    are half of those of cables of 2 x 400 Gb/s, from memory and not confirmed. Sources that give a range are left out,
    such as USD 1,100 to 1,400 for a transceiver of 800 Gb/s (``catalog.media["dr8"]``).
    """
    dates = {row["key"]: row["date"] for row in data_rows("sources")}
    case = catalog.case()
    media = catalog.media
    switch = case.row("price_switch")
    switch = replace(switch, date=dates[switch.source])
    server = case.row("price_cables_per_server")
    server = replace(server, date=dates[server.source])

    cables = 2 * case.gpus_per_server  # of a server: to the leaves, and as many between switches
    fibre = replace(
        server,
        value=float(server.value) / cables,
        kind="derived",
        note=f"{server.quoted} / {cables}",
    )
    return ReadOnly(
        {
            "switch 64 x 400 Gb/s": (switch, catalog.switches["quantum2"]["system_power_passive"]),
            "fibre 400 Gb/s": (fibre, None),
            "copper 400 Gb/s": (_half(media["dac800"]["price"]), None),
            "active copper 400 Gb/s": (_half(media["acc800"]["price"]), None),
            "transceiver 400 Gb/s": (None, media["sr4"]["power_max"]),
            "transceiver 2 x 400 Gb/s": (None, media["dr4x2"]["power_max"]),
            "active copper end 2 x 400 Gb/s": (None, media["acc800"]["power"]),
        }
    )


def _half(cable: Spec) -> Spec:
    """Return the price of one of two links that share a cable."""
    return replace(cable, value=float(cable.value) / 2, note=f"{cable.quoted} / 2; {cable.note}")


@cache
def switch_models() -> frozenset[tuple[int, int]]:
    """Return numbers of ports and their rates [Gb/s] of the switches in the catalog, their ports split or not."""
    models = set()
    for part in catalog.switches.values():
        if "ports" not in part:
            continue
        ports = part["ports"]
        rate = _PORT_RATE.search(ports.unit)
        if rate is None:  # NVLink, fibres
            continue
        models.add((int(ports.value), int(rate[1])))
        for number, split in _SPLIT.findall(ports.note):
            models.add((int(number), int(split)))
    return frozenset(models)


def _is_sold(name: str) -> bool:
    """Return whether the catalog has a switch of this name on the bill, and True for anything else."""
    switch = _SWITCH.fullmatch(name)
    return switch is None or (int(switch[1]), int(switch[2])) in switch_models()


@dataclass(frozen=True)
class Item:
    """One line of a bill. A price or power that neither a source nor the reader gives is None and counts as 0."""

    quantity: int
    price: Spec | None  # of one
    power: Spec | None

    def total(self, what: str) -> float:
        """Return the ``"price"`` [USD] or ``"power"`` [W] of all items of this line; 0 if it is not known."""
        spec: Spec | None = getattr(self, what)
        return self.quantity * (spec.si or 0.0) if spec else 0.0


@dataclass(frozen=True, repr=False)
class Bill:
    """Capital and power of a fabric, as `bill` returns it.

    Sums of two bills can be compared only where `missing` names the same items in both.

    Parameters
    ----------
    items : mapping of str to Item
        The lines by name.
    gpus : int
        Endpoints of the fabric.
    bisection : float or None
        Rate between two halves in one direction. [B/s]

    Attributes
    ----------
    capital, power : float
        Sums over all items with a known price, and over all items with a known power. [USD], [W]
    per_gpu, per_gbps : tuple of float
        Capital and power per endpoint, and per Gb/s of bisection (NaN where no bisection was given).
    missing : tuple of str
        Items without a known price or power, which the sums leave out.
    notes : tuple of str
        What the sums leave out, in groups; what of them is not confirmed; and why a figure is NaN.
    """

    items: Mapping[str, Item]
    gpus: int
    bisection: float | None = None

    @property
    def capital(self) -> float:
        """Sum of all items that have a price [USD]."""
        return sum(item.total("price") for item in self.items.values())

    @property
    def power(self) -> float:
        """Sum of all items that have a power [W]."""
        return sum(item.total("power") for item in self.items.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Prices and powers that the sums leave out, such as ``"price of copper 400 Gb/s, 2 m"``."""
        names = []
        for what in ("price", "power"):
            for name, item in self.items.items():
                if not getattr(item, what):
                    names.append(f"{what} of {name}")
        return tuple(names)

    @property
    def per_gpu(self) -> tuple[float, float]:
        """Capital and power per endpoint [USD], [W]."""
        return self.capital / self.gpus, self.power / self.gpus

    @property
    def per_gbps(self) -> tuple[float, float]:
        """Capital and power per Gb/s of bisection [USD per Gb/s], [W per Gb/s]; NaN without it (see `notes`)."""
        if not self.bisection:
            return math.nan, math.nan
        return self.capital / (8e-9 * self.bisection), self.power / (8e-9 * self.bisection)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the sums leave out, in groups; what of them is not confirmed; and why a figure is NaN."""
        notes = [f"without the {group}" for group in self._gaps()]
        for what, unit in (("price", "USD"), ("power", "W")):
            weak = 0.0
            for item in self.items.values():
                spec: Spec | None = getattr(item, what)
                if spec and "not confirmed" in spec.evidence:
                    weak += item.total(what)
            if weak:
                notes.append(
                    f"{weak:,.0f} {unit} of the sum come from sources that are not confirmed"
                )
        if not self.bisection:
            notes.append("per_gbps is NaN without the bisection: bill(..., bisection=...)")
        return tuple(notes)

    def _gaps(self) -> list[str]:
        """Return what the sums leave out: a text for all items that differ in their length alone."""
        lacks: dict[str, dict[str, None]] = {}  # "price", "power", or both of them, by short name
        for name, item in self.items.items():
            for what in ("price", "power"):
                if not getattr(item, what):
                    lacks.setdefault(_short(name), {})[what] = None

        gaps = []
        for short, whats in lacks.items():
            quantity = sum(
                item.quantity for name, item in self.items.items() if _short(name) == short
            )
            text = f"{' and '.join(whats)} of {quantity:,} x {short}"
            if not _is_sold(short):
                text += " (the catalog has no switch with so many ports of that rate)"
            gaps.append(text)
        return gaps

    def _sum(self, what: str) -> str:
        """Return the sum of all prices or powers in words: a number, a lower bound, or unknown."""
        unit = {"price": "USD", "power": "W"}[what]
        known = [item for item in self.items.values() if getattr(item, what)]
        total = sum(item.total(what) for item in known)
        if len(known) == len(self.items):
            return f"{total:,.0f} {unit}"
        return f"at least {total:,.0f} {unit}" if total else f"{what} {_UNKNOWN}"

    def _rows(self) -> list[list[str]]:
        """Return all cells: the head, a row for each item, and the totals."""
        rows = [list(_HEAD)]
        for name, item in self.items.items():
            quantity = f"{item.quantity:,}"
            rows.append([name, quantity, *_cells(item, "price"), *_cells(item, "power")])
        capital = self._sum("price").removesuffix(" USD").removeprefix("price ")
        power = self._sum("power").removesuffix(" W").removeprefix("power ")
        rows.append(["total", "", "", capital, "", "", "", power, "", ""])
        return rows

    def draw(self) -> str:
        """Return the bill as text, one line per item."""
        return as_text(self._rows())

    def __repr__(self) -> str:
        """Show the totals, and what they leave out: in groups, of which the first few are named."""
        if not self.items:
            return f"<Bill: nothing to buy outside the servers of {self.gpus:,} endpoints>"
        gaps = self._gaps()
        left = "; ".join(gaps[:_SHOWN]) or "nothing"
        if len(gaps) > _SHOWN:
            left += f"; and {len(gaps) - _SHOWN} more, see notes"
        sums = f"{self._sum('price')}, {self._sum('power')}"
        return f"<Bill: {sums} for {self.gpus:,} endpoints, without: {left}>"

    def _repr_html_(self) -> str:
        return as_html(self._rows(), repr(self)[1:-1])


def _cells(item: Item, what: str) -> list[str]:
    """Return price or power of one and of all, its source and date."""
    spec: Spec | None = getattr(item, what)
    if spec is None:
        return [_UNKNOWN, "", "", ""]
    source = f"{spec.source} ({spec.evidence})" if spec.date else spec.source
    return [f"{spec.value:,.7g}", f"{item.total(what):,.7g}", source, spec.date]


def bill(
    fabric: Fabric,
    prices: Mapping[str, units.Quantity] | None = None,
    powers: Mapping[str, units.Quantity] | None = None,
    *,
    bisection: units.Quantity | None = None,
) -> Bill:
    """Return the bill of a fabric: price and power of all parts that have to be bought.

    These are cables with a length and a capacity, the switches and NICs at their ends, and a transceiver at each end of
    every fibre; two ports of a switch share a transceiver if the catalog has such a part. Connections on boards,
    anything with capacity 0, and servers are not bought. Switches that join several servers without a cable of some
    length, such as the NVLink switches of a rack or a crossbar, are one item each together with their cables; no price
    of them is known. Leaves out spares, discounts, installation and cooling.

    Parameters
    ----------
    fabric : Fabric
        Any fabric; `floor_plan` gives its cables their lengths and media.
    prices, powers : mapping of str to float or str, optional
        Your price [USD] or power [W] of one item by its name on the bill, such as
        ``{"switch 64 x 400 Gb/s": "50 kUSD"}``; the name of a cable without its length means all lengths. If you give a
        price for transceivers, the list price of fibre, which includes them, is left out.
    bisection : float or str, optional
        Rate between two halves in one direction, for `Bill.per_gbps`, such as the lower bound of
        `fabriclab.metrics.bisection` for the fabric before its floor plan. [B/s]

    Raises
    ------
    ValueError
        If a name is not on the bill, or a value is negative or has the wrong unit.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> hall = bill(topologies.build("rail_optimised"))
    >>> hall.items["switch 64 x 400 Gb/s"].total("price"), hall.capital
    (1728000.0, 4349440.0)
    """
    parts = _parts(fabric)
    own_prices = _own(prices, "price", "USD", parts)
    own_powers = _own(powers, "power", "W", parts)
    # Cables whose ends have a price of their own: the list price of the cable, which has them in it, is left out.
    split = {within for name, (_, within) in parts.items() if name in own_prices}

    items = {}
    for name, (quantity, within) in parts.items():
        short = _short(name)
        price, power = price_list().get(short, (None, None))
        if within and within not in split:
            price = Spec(name, name, "price", 0.0, "USD", source=f"in {within}")
        elif within or short in split:
            price = None
        medium = short.rsplit(" ", 2)[0]
        if medium in MEDIA:
            power = Spec(name, name, "power", 0.0, "W", source="passive, or at its ends")

        own_price = own_prices.get(name) or own_prices.get(short)
        own_power = own_powers.get(name) or own_powers.get(short)
        items[name] = Item(quantity, own_price or price, own_power or power)
    return Bill(
        ReadOnly(items),
        fabric.n_ranks,
        None if bisection is None else units.rate(bisection, "bisection"),
    )


class BillPart(NamedTuple):
    """Number of items of a part, and the cable whose price includes it, if any."""

    quantity: int
    within: str = ""


def _parts(fabric: Fabric) -> dict[str, BillPart]:
    """Return all parts that are bought, by name."""
    capacity = np.maximum(fabric.capacity[::2], fabric.capacity[1::2])  # (C,) of each cable [B/s]
    is_bought = (fabric.length[::2] > 0) & (capacity > 0)
    ports = np.maximum(fabric.ports[::2], 1)

    # Columns of what is bought: one entry for each port pair that a cable of the fabric joins.
    cable = np.repeat(np.arange(fabric.n_cables), np.where(is_bought, ports, 0))
    rate = (capacity / ports)[cable]
    medium = fabric.medium[2 * cable]
    metres = fabric.length[2 * cable]
    node = np.stack([fabric.source[2 * cable], fabric.target[2 * cable]])  # (2, cables)

    parts = _boxes(fabric, rate, node)
    is_switch = switches(fabric)
    for code, port_rate in sorted(set(zip(medium.tolist(), rate.tolist(), strict=True))):
        mine = (medium == code) & (rate == port_rate)
        kind = fabric.media[code]
        cable_name = f"{kind} {_gbps(port_rate)}"
        ends = np.bincount(node[:, mine].ravel(), minlength=fabric.n_nodes)  # at each node
        for name, quantity in _ends(kind, port_rate, ends, is_switch).items():
            parts[name] = BillPart(quantity, within=cable_name)
        for length, quantity in sorted(Counter(metres[mine].tolist()).items()):
            parts[f"{cable_name}, {length:g} m"] = BillPart(quantity)
    return parts | _joins(fabric)


def _joins(fabric: Fabric) -> dict[str, BillPart]:
    """Return by name the switches that join parts of several servers without a cable of some length."""
    server = fabric.coordinate("server")  # (N,) -1 outside the servers
    server[fabric.endpoint] = np.where(fabric.server < 0, server[fabric.endpoint], fabric.server)
    is_join = (fabric.length == 0) & (fabric.capacity > 0) & (server[fabric.source] >= 0)
    is_join &= switches(fabric)[fabric.target]
    node = fabric.target[is_join]
    number = np.bincount(node, minlength=fabric.n_nodes)  # of parts at each node
    apart = np.unique(np.stack([node, server[fabric.source[is_join]]]), axis=1)
    servers = np.bincount(apart[0], minlength=fabric.n_nodes)

    names = []
    for switch in np.flatnonzero(servers > 1).tolist():
        title = _JOINS.get(fabric.kinds[fabric.kind[switch]], "ideal switch with cables to")
        ends = "GPUs" if "NVLink" in title else "ends"
        names.append(f"{title} {number[switch]} {ends}")
    return {name: BillPart(quantity) for name, quantity in Counter(names).items()}


def _boxes(fabric: Fabric, rate: Floats, node: NDArray[np.int32]) -> dict[str, BillPart]:
    """Return switches and NICs by name; cables have a ``rate`` (n,) and two ends ``node`` (2, n)."""
    fastest = np.zeros(fabric.n_nodes)  # port of each node [B/s]
    np.maximum.at(fastest, node, np.stack([rate, rate]))
    used = np.bincount(node.ravel(), minlength=fabric.n_nodes)  # ports
    size = np.where(fabric.radix > 0, fabric.radix, fabric.ports_used)

    parts = {}
    for title, these, ports in (
        ("switch", switches(fabric), size),
        ("nic", of_kind(fabric, "nic", "host"), used),
    ):
        here = these & (used > 0)
        models = zip(ports[here].tolist(), fastest[here].tolist(), strict=True)
        for (n_ports, port_rate), quantity in sorted(Counter(models).items()):
            parts[f"{title} {n_ports} x {_gbps(port_rate)}"] = BillPart(quantity)
    return parts


def _ends(kind: str, rate: float, ends: Ints, is_switch: Flags) -> dict[str, int]:
    """Return how many transceivers of each name stand at cables of a kind and ``rate`` [B/s].

    ``ends`` (N,) are ends of cables at each node. Two ports of a switch share one where there is such a part.
    """
    if kind not in _ENDS:
        return {}
    single_name = f"{_ENDS[kind]} {_gbps(rate)}"
    pair_name = f"{_ENDS[kind]} 2 x {_gbps(rate)}"
    pairs = 0
    if pair_name in price_list():
        pairs = int(np.sum(-(-ends[is_switch] // 2)))
    singles = int(ends[~is_switch].sum() if pairs else ends.sum())

    quantities = {single_name: singles, pair_name: pairs}
    return {name: quantity for name, quantity in quantities.items() if quantity}


def _short(name: str) -> str:
    """Return the name of a part on the bill without its length."""
    return name.split(", ")[0]


def _gbps(rate: float) -> str:
    """Return a rate as text in Gb/s."""
    return f"{rate * 8e-9:.6g} Gb/s"


def _own(
    values: Mapping[str, units.Quantity] | None, what: str, unit: str, parts: Iterable[str]
) -> dict[str, Spec]:
    """Return the reader's prices or powers by name, checked against the names on the bill."""
    known = set(parts) | {_short(name) for name in parts}
    if not isinstance(values, Mapping | None):
        msg = f"{what}s must be a dict such as {{{min(known, default='name')!r}: 1}} [{unit}], got {values!r:.80}"
        raise TypeError(msg)
    own = {}
    for name, value in (values or {}).items():
        if name not in known:
            raise ValueError(near(name, known, "the bill"))
        number = units.parse(value, what, name)
        if number < 0:
            raise ValueError(f"{what} of {name} must be >= 0 {unit}, got {value!r}")
        own[name] = Spec(name, name, what, number, unit, source="the reader")
    return own
