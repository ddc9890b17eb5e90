"""Lesson 11: what a port carries in one direction, from its lanes to its packets."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from fabriclab import catalog
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    name_of,
    number_of,
    wrong,
)
from fabriclab.registry import register
from fabriclab.texts import text

Carried = Callable[[int, float, float, float, int, float], Any]  # -> rate of the data [B/s]


class Port(NamedTuple):
    """A port of the catalog and the packets that it sends: what the learner's function is called with."""

    lanes: int  # in one direction
    symbols: float  # of a lane [symbols/s]
    bits: float  # of a symbol
    code: float  # share of the bits sent that are left without the codes, 0..1
    data: int  # of a packet [B]
    headers: float  # of a packet, with what lies between packets [B]


# Ports of the catalog with the data of their packets [B]: two levels and four, one lane rate and another, short packets
# and long ones, so that no two mistakes agree.
# source: catalog links; sizes are those that InfiniBand and RoCE allow (256 to 4,096 B), and a cache line
_PORTS: Sequence[tuple[str, int]] = (
    ("400GbE", 4096),
    ("800GbE", 4096),
    ("400GbE", 256),
    ("NDR", 4096),
    ("NDR", 64),
    ("FDR", 2048),
    ("1.6TbE", 1024),
)


@cache
def ports() -> tuple[tuple[str, Port], ...]:
    """Return the ports on which the learner's function is tried, each with its name in words."""
    tried = []
    for name, data in _PORTS:
        part = catalog.links[name]
        framing = ("eth-ovh", "headers_on_wire") if "bE" in name else ("ib-ovh", "headers_local")
        port = Port(
            int(part["lanes"].si),
            part["symbol_rate"].si,
            part["bits_per_symbol"].si,
            float(Fraction(part["coding"].value)),
            data,
            catalog.value("links", *framing),
        )
        tried.append((text("trace.port_carries", port=part.name, data=f"{data:,} B"), port))
    return tuple(tried)


def carried(port: Port) -> float:
    """Return the rate of the data of full packets [B/s], in one direction."""
    after_code = port.lanes * port.symbols * port.bits * port.code / 8
    return after_code * port.data / (port.data + port.headers)


# What somebody with a mistake returns, by its name.
CARRIED_MISTAKES: dict[str, Callable[..., float]] = {
    "bits for bytes": lambda *port: 8 * carried(Port(*port)),
    "both directions counted": lambda *port: 2 * carried(Port(*port)),
    "one lane alone": lambda *port: carried(Port(*port)._replace(lanes=1)),
    "bits of a symbol forgotten": lambda *port: carried(Port(*port)._replace(bits=1)),
    "code forgotten": lambda *port: carried(Port(*port)._replace(code=1)),
    "code the wrong way": lambda *port: carried(Port(*port)._replace(code=1 / port[3])),
    "headers left out": lambda *port: carried(Port(*port)._replace(headers=0)),
    "headers over data": lambda *port: (
        carried(Port(*port)._replace(headers=0)) * (1 - port[5] / port[4])
    ),
}


@register("check", "11-write-carried")
def carried_by_port(answer: Carried) -> Verdict:
    """Run ``answer(lanes, symbols, bits, code, data, headers)``, a rate in B/s, on ports of the catalog."""
    returned = [number_of(answer, *port) for _, port in ports()]
    tried = []
    for (name, port), got in zip(ports(), returned, strict=True):
        right = carried(port)
        tried.append(TriedCase(name, is_same(got, right), "", _rate(got), _rate(right)))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    case = tried[place]
    mistake = mistake_of(returned, CARRIED_MISTAKES, [port for _, port in ports()])
    line = text(
        "function.carried",
        call=name_of(answer),
        name=case.name,
        got=case.got,
        wanted=case.wanted,
    )
    return wrong("11-write-carried", line, mistake, Trace(tuple(tried)))


def _rate(value: float) -> str:
    """Write a rate [B/s] in GB/s with four digits, so that a port and its headers differ."""
    return f"{value / 1e9:,.4g} GB/s"
