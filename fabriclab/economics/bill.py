"""Bill: what the switches, NICs, transceivers and cables of a fabric cost and draw, line by line with source."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.tables import data_rows, near
from fabriclab.core import Fabric, ReadOnly, Spec, as_html, as_text
from fabriclab.economics.floor import MEDIA, of_kind, switches

# What stands at both ends of a cable; the price of the cable is with it.
_ENDS = {
    "fibre": "transceiver",
    "long fibre": "long transceiver",
    "active copper": "active copper end",
}
_HEAD = ("item", "quantity", "USD each", "USD", "source", "date", "W each", "W", "source", "date")


@cache
def price_list() -> Mapping[str, tuple[Spec | None, Spec | None]]:
    """Return name -> list price and power of each part that a source gives one of; None where none does.

    Prices are those of the running case. Its sheet has one sum for "connector and cable" of a server with 16
    cables, so the price of a fibre is that with the transceivers at both ends. Sources that give a range are left
    out, such as USD 1,100 to 1,400 for a transceiver of 800 Gb/s (``catalog.media["dr8"]``).
    """
    dates, case, media = (
        {r["key"]: r["date"] for r in data_rows("sources")},
        catalog.case(),
        catalog.media,
    )
    rows = (case.row("price_switch"), case.row("price_cables_per_server"))
    switch, server = (replace(row, date=dates[row.source]) for row in rows)
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
            "transceiver 400 Gb/s": (None, media["sr4"]["power_max"]),
            "transceiver 2 x 400 Gb/s": (None, media["dr4x2"]["power_max"]),
            "active copper end 2 x 400 Gb/s": (None, media["acc800"]["power"]),
        }
    )


@dataclass(frozen=True)
class Item:
    """One line of a bill. A price or power that no source and no reader gives is None and counts nothing."""

    quantity: int
    price: Spec | None  # of one
    power: Spec | None

    def total(self, what: str) -> float:
        """Return ``"price"`` [USD] or ``"power"`` [W] of all; 0 where it is not known."""
        spec: Spec | None = getattr(self, what)
        return self.quantity * (spec.si or 0.0) if spec else 0.0


@dataclass(frozen=True, repr=False)
class Bill:
    """Capital and power of a fabric, as `bill` returns it.

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
        Sums of what has a price, and of what has a power. [USD], [W]
    per_gpu, per_gbps : tuple of float
        Both for each endpoint, and for each Gb/s of bisection.
    missing : tuple of str
        What has no price or no power, and is left out of the sums.
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
        """What the sums leave out, such as ``"price of copper 400 Gb/s, 2 m"``."""
        both = [
            (k, what)
            for what in ("price", "power")
            for k, item in self.items.items()
            if not getattr(item, what)
        ]
        return tuple(f"{what} of {name}" for name, what in both)

    @property
    def per_gpu(self) -> tuple[float, float]:
        """Capital and power for each endpoint [USD], [W]."""
        return self.capital / self.gpus, self.power / self.gpus

    @property
    def per_gbps(self) -> tuple[float, float]:
        """Capital and power for each Gb/s of bisection [USD per Gb/s], [W per Gb/s]."""
        if not self.bisection:
            msg = f"bisection must be above 0 B/s, got {self.bisection}; give it: bill(fabric, bisection=...)"
            raise ValueError(msg)
        return self.capital / (8e-9 * self.bisection), self.power / (8e-9 * self.bisection)

    def _rows(self) -> list[list[str]]:
        lines = [
            [name, f"{i.quantity:,}", *_cells(i, "price"), *_cells(i, "power")]
            for name, i in self.items.items()
        ]
        return [
            [*_HEAD],
            *lines,
            ["total", "", "", f"{self.capital:,.0f}", "", "", "", f"{self.power:,.0f}", "", ""],
        ]

    def draw(self) -> str:
        """Return the bill as text, one line per item."""
        return as_text(self._rows())

    def __repr__(self) -> str:
        """Show the totals, and what they leave out."""
        left = ", ".join(self.missing) or "nothing"
        return f"<Bill: {self.capital:,.0f} USD, {self.power:,.0f} W for {self.gpus} endpoints, without: {left}>"

    def _repr_html_(self) -> str:
        return as_html(self._rows(), repr(self)[1:-1])


def _cells(item: Item, what: str) -> list[str]:
    if (spec := getattr(item, what)) is None:
        return ["none", "", "", ""]
    source = f"{spec.source} ({spec.evidence})" if spec.date else spec.source
    return [f"{spec.value:,.7g}", f"{item.total(what):,.7g}", source, spec.date]


def bill(
    fabric: Fabric,
    prices: Mapping[str, units.Quantity] | None = None,
    powers: Mapping[str, units.Quantity] | None = None,
    *,
    bisection: units.Quantity | None = None,
) -> Bill:
    """Return what a fabric costs and draws.

    Bought are cables that have a length and a capacity, the switches and NICs at their ends, and a transceiver
    at both ends of every fibre: two ports of a switch share one where the catalog has such a part. Boards,
    and what has capacity 0, are not bought, nor are servers. Left out: spares, discounts, installation, cooling.

    Parameters
    ----------
    fabric : Fabric
        Any; `floor_plan` gives its cables their lengths and media.
    prices, powers : mapping of str to float or str, optional
        Your price [USD] or power [W] of one item by its name on the bill, such as
        ``{"switch 64 x 400 Gb/s": "50 kUSD"}``; the name of a cable without its length stands for all lengths.
        With a price for transceivers, the list price of fibre, which has them in it, is left out.
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
    parts, items = _parts(fabric), {}
    priced, drawn = _own(prices, "price", "USD", parts), _own(powers, "power", "W", parts)
    split = {within for name, (_, within) in parts.items() if name in priced}
    for name, (quantity, within) in parts.items():
        short = name.split(", ")[0]
        price, power = price_list().get(short, (None, None))
        if within:
            price = (
                None
                if within in split
                else Spec(name, name, "price", 0.0, "USD", source=f"in {within}")
            )
        elif short in split:
            price = None
        if short.rsplit(" ", 2)[0] in MEDIA:
            power = Spec(name, name, "power", 0.0, "W", source="passive, or at its ends")
        mine, draws = (own.get(name) or own.get(short) for own in (priced, drawn))
        items[name] = Item(quantity, mine or price, draws or power)
    return Bill(
        ReadOnly(items),
        fabric.n_ranks,
        None if bisection is None else units.rate(bisection, "bisection"),
    )


def _parts(fabric: Fabric) -> dict[str, tuple[int, str]]:
    """Return name -> quantity, and the cable whose price covers the part, of all that is bought."""
    live = np.maximum(fabric.capacity[::2], fabric.capacity[1::2]) * (fabric.length[::2] > 0)
    ports = np.maximum(fabric.ports[::2], 1)
    # one entry for each that is bought
    cable = np.repeat(np.arange(fabric.n_cables), ports * (live > 0))
    rate, medium, metres = (live / ports)[cable], fabric.medium[2 * cable], fabric.length[2 * cable]
    node, fastest = (
        np.stack([fabric.source[2 * cable], fabric.target[2 * cable]]),
        np.zeros(fabric.n_nodes),
    )
    np.maximum.at(fastest, node, np.stack([rate, rate]))
    used, box, out = np.bincount(node.ravel(), minlength=fabric.n_nodes), switches(fabric), {}
    size = np.where(fabric.radix > 0, fabric.radix, fabric.ports_used)
    for what, these, number in (
        ("switch", box, size),
        ("nic", of_kind(fabric, "nic", "host"), used),
    ):
        here = these & (used > 0)
        for (k, r), n in sorted(
            Counter(zip(number[here].tolist(), fastest[here].tolist(), strict=True)).items()
        ):
            out[f"{what} {k} x {_gbps(r)}"] = n, ""
    for code, r in sorted(set(zip(medium.tolist(), rate.tolist(), strict=True))):
        mine, kind, speed = (medium == code) & (rate == r), fabric.media[code], _gbps(r)
        if end := _ENDS.get(kind):
            at = np.bincount(node[:, mine].ravel(), minlength=fabric.n_nodes)
            pairs = int(np.sum(-(-at[box] // 2))) * (f"{end} 2 x {speed}" in price_list())
            single = int(at[~box].sum() if pairs else at.sum())
            ends = {f"{end} {speed}": single, f"{end} 2 x {speed}": pairs}
            out |= {name: (n, f"{kind} {speed}") for name, n in ends.items() if n}
        out |= {
            f"{kind} {speed}, {m:g} m": (n, "")
            for m, n in sorted(Counter(metres[mine].tolist()).items())
        }
    return out


def _gbps(rate: float) -> str:
    return f"{rate * 8e-9:.6g} Gb/s"


def _own(
    values: Mapping[str, units.Quantity] | None, what: str, unit: str, parts: Iterable[str]
) -> dict[str, Spec]:
    """Return the reader's figures by name, checked against the names on the bill."""
    known, out = {k for name in parts for k in (name, name.split(", ")[0])}, {}
    if not isinstance(values, Mapping | None):
        msg = f"{what}s must be a dict such as {{{min(known, default='name')!r}: 1}} [{unit}], got {values!r:.80}"
        raise TypeError(msg)
    for name, value in (values or {}).items():
        if name not in known:
            raise ValueError(near(name, known, "the bill"))
        if (number := units.parse(value, what, name)) < 0:
            raise ValueError(f"{what} of {name} must be >= 0 {unit}, got {value!r}")
        out[name] = Spec(name, name, what, number, unit, source="the reader")
    return out
