"""The bill of a design at list prices, and at prices that a key draws.

The catalog has prices of 64-port switches of 400 Gb/s and of 800 Gb/s, and of cables of 400 Gb/s. Other
switches and cables cost and draw in proportion to their rate, as if they were parts of those, or several of them. The
price of a NIC is in that of its server.

Examples
--------
>>> from fabriclab import designs
>>> rails = designs.read({"family": "rail_optimised"})
>>> round(designs.bill_of(rails).capital / 1e6, 2), designs.BUDGET / 1e6
(3.97, 3.9)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fabriclab import catalog
from fabriclab.core import Ints, ReadOnly, Spec
from fabriclab.designs.needs import random
from fabriclab.designs.sheets import Design
from fabriclab.economics import Bill, Item, bill, price_list
from fabriclab.economics.bill import switch_models

__all__ = [
    "BUDGET",
    "SPREAD",
    "Model",
    "Prices",
    "at_prices",
    "bill_of",
    "declared_ports",
    "drawn_prices",
    "list_prices",
    "models",
    "sold",
]

# illustrative: less than what rails at 1:1 cost with leaves beside servers, 3.97 M USD, so that as many ports up as
# down is too dear unless somebody thinks of where switches stand; at 2:1 they are 3.50 M USD, and 3.85 M if all prices
# are 10 % higher
BUDGET = 3_900_000.0  # [USD]
# illustrative: sources differ by more, see economics.price_ranges
SPREAD = 0.10

_SWITCH = re.compile(r"switch (?P<ports>\d+) x (?P<rate>[\d.]+) Gb/s")
_CABLE = re.compile(r"(?P<medium>[a-z ]+) (?P<rate>[\d.]+) Gb/s(, .*)?")
_END = re.compile(r"(?P<kind>[a-z ]+) (?P<twin>2 x )?(?P<rate>[\d.]+) Gb/s")
_BASE = 400.0  # Gb/s, of the cables and switches of the price list
_FAST = 800.0  # Gb/s, of the switch of catalog.media["sw64x800"]
_FAST_PORTS = 64  # of that switch
_NIC = "nic "
_KNOWN = " 400 Gb/s"  # source: economics.price_list, the ends of its names


class Prices(NamedTuple):
    """Factors by which prices differ from the list: of switches, of fibre with its modules, and of copper."""

    switches: float = 1.0
    fibre: float = 1.0
    copper: float = 1.0

    def factor(self, item: str) -> float:
        """Return the factor of an item by its name on the bill."""
        if item.startswith("switch"):
            return self.switches
        return self.copper if "copper" in item else self.fibre


def list_prices() -> Prices:
    """Return the list prices: all factors are 1."""
    return Prices()


def drawn_prices(key: str | int) -> Prices:
    """Return the prices that a key draws: each group within 10 % of the list, up or down."""
    rng = random(key, "prices")
    switches, fibre, copper = rng.uniform(1 - SPREAD, 1 + SPREAD, 3).tolist()
    return Prices(switches, fibre, copper)


def bill_of(design: Design, prices: Prices | None = None) -> Bill:
    """Return the bill of a design: its switches, and its cables with their modules.

    Parameters
    ----------
    design : Design
        The design.
    prices : Prices, optional
        Factors of the list prices; the list unless given.
    """
    known = bill(design.fabric)
    items = {}
    lines = {name: item for name, item in known.items.items() if not name.startswith("switch")}
    lines = {**_switch_items(design), **lines}
    for name, item in lines.items():
        price = item.price or _price(name)
        power = item.power or _power(name)
        items[name] = Item(item.quantity, price, power)
    return at_prices(Bill(ReadOnly(items), known.gpus), prices or list_prices())


def _switch_items(design: Design) -> dict[str, Item]:
    """Return the switches of a design by model: with the ports and rates that they have, whatever is plugged in."""
    live = np.zeros(design.fabric.n_nodes, dtype=np.bool_)
    live[design.fabric.source[design.fabric.capacity > 0]] = True
    node = design.switches[live[design.switches]]
    models = zip(
        declared_ports(design)[node].tolist(), design.port_rate[node].tolist(), strict=True
    )
    items = {}
    for (ports, rate), quantity in sorted(Counter(models).items()):
        name = f"switch {ports} x {rate * 8e-9:.6g} Gb/s"
        items[name] = Item(quantity, *price_list().get(name, (None, None)))
    return items


def at_prices(known: Bill, prices: Prices) -> Bill:
    """Return a bill at list prices with other prices."""
    items: dict[str, Item] = {}
    for name, item in known.items.items():
        price = item.price
        if price is not None:
            price = replace(price, value=float(price.value) * prices.factor(name))
        items[name] = replace(item, price=price)
    return Bill(ReadOnly(items), known.gpus)


def declared_ports(design: Design) -> Ints:
    """Return the ports of each switch: those that the design says, or those in use if they are more, (N,)."""
    ports = np.maximum(design.ports, design.fabric.ports_used)
    ports[design.fabric.endpoint] = 0
    return ports


def sold(ports: int, rate: float) -> bool:
    """Return whether the catalog has a switch with so many ports of a rate [B/s], its ports split or not."""
    gbps = rate * 8e-9
    return abs(gbps - round(gbps)) < 1e-6 and (ports, round(gbps)) in switch_models()


class Model(NamedTuple):
    """A switch that is sold.

    Parameters
    ----------
    ports : int
        Number of its ports.
    rate : float
        Rate of each, in one direction. [B/s]
    price : float
        List price. [USD]
    power : float
        Power without modules. [W]
    source : str
        Where the price comes from, and how it follows.
    """

    ports: int
    rate: float
    price: float
    power: float
    source: str


def models() -> Mapping[str, Model]:
    """Return the switches of the catalog by name, with their ports, prices and power.

    Examples
    --------
    >>> from fabriclab import designs
    >>> for name in ("64 x 400 Gb/s", "128 x 200 Gb/s", "128 x 400 Gb/s"):
    ...     print(name, f"{designs.models()[name].price:,.0f} USD")
    64 x 400 Gb/s 36,000 USD
    128 x 200 Gb/s 36,000 USD
    128 x 400 Gb/s 200,000 USD
    """
    found = {}
    for ports, gbps in sorted(switch_models(), key=lambda model: (model[1], model[0])):
        item = f"switch {ports} x {gbps} Gb/s"
        price, power = price_list().get(item, (None, None))
        price, power = price or _price(item), power or _power(item)
        assert price is not None and power is not None
        found[f"{ports} x {gbps} Gb/s"] = Model(
            ports, gbps * 1e9 / 8, float(price.value), float(power.value), price.source
        )
    return ReadOnly(found)


def _price(name: str) -> Spec | None:
    """Return the list price of an item that `fabriclab.economics.bill` has no price of."""
    if name.startswith(_NIC):
        return _derived(name, "price", 0.0, "USD", "in the price of the server")
    switch = _SWITCH.fullmatch(name)
    if switch is not None:
        total = int(switch["ports"]) * float(switch["rate"])
        if float(switch["rate"]) == _FAST or (total == _FAST_PORTS * _FAST):
            base = catalog.media["sw64x800"]["price"]
            return _derived(
                name,
                "price",
                sum(base.ends) / 2 * total / (_FAST_PORTS * _FAST),
                "USD",
                f"{base.source}: middle of {base.quoted}, by the rate of all ports",
            )
        job = catalog.case()
        part = total / (int(job.switch_ports) * _BASE)
        return _derived(
            name,
            "price",
            float(job.price_switch) * part,
            "USD",
            f"{job.row('price_switch').source}, by the rate of all ports",
        )
    cable = _CABLE.fullmatch(name)
    if cable is None or name.startswith("transceiver"):
        return None
    medium = cable["medium"]
    factor = float(cable["rate"]) / _BASE
    if medium == "long fibre":
        medium = "fibre"
        factor *= _farther()
    known = price_list().get(f"{medium}{_KNOWN}", (None, None))[0]
    if known is None:
        return None
    return _derived(
        name, "price", float(known.value) * factor, "USD", f"{known.source}, by its rate"
    )


def _farther() -> float:
    """Return the price of modules for long fibre over those for fibre, from the row of modules of 1.6 Tb/s."""
    near, far = (catalog.media[part]["price"] for part in ("dr4x2-1600", "fr4x2-1600"))
    return float(sum(far.ends) / sum(near.ends))


def _power(name: str) -> Spec | None:
    """Return the power of an item that `fabriclab.economics.bill` has no power of; None where nothing is near."""
    if name.startswith(_NIC):
        return _derived(name, "power", 0.0, "W", "in the power of the server")
    switch = _SWITCH.fullmatch(name)
    if switch is not None:
        known = catalog.switches["quantum2"]["system_power_passive"]
        total = int(switch["ports"]) * float(switch["rate"])
        part = total / (int(catalog.case().switch_ports) * _BASE)
        return _derived(
            name,
            "power",
            float(known.value) * part,
            "W",
            f"{known.source}, by the rate of all ports",
        )
    end = _END.fullmatch(name)
    if end is None:
        return None
    kind = end["kind"].removeprefix("long ")
    known_end = price_list().get(f"{kind}{_KNOWN}", (None, None))[1]
    if known_end is None:
        known_end = price_list().get(f"{kind} 2 x 400 Gb/s", (None, None))[1]
        if known_end is None:
            return None
        known_end = replace(known_end, value=float(known_end.si or 0.0) / 2, unit="W")
    twin = 2 if end["twin"] else 1
    watts = float(known_end.si or 0.0) * twin * float(end["rate"]) / _BASE
    return _derived(name, "power", watts, "W", f"{known_end.source}, by its rate")


def _derived(name: str, what: str, value: float, unit: str, source: str) -> Spec:
    """Return a price or power that follows from another one."""
    return Spec(name, name, what, value, unit, kind="derived", source=source)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
