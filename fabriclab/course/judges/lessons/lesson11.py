"""Lesson 11: what a port carries in one direction, from its lanes to its packets."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from fabriclab import catalog
from fabriclab.course.judges.shared.functions import Verdict, compared
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
def ports() -> dict[str, Port]:
    """Return the ports on which the learner's function is tried, by their names in words."""
    tried = dict[str, Port]()
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
        tried[text("trace.port_carries", port=part.name, data=f"{data:,} B")] = port
    return tried


def carried(*numbers: float) -> float:
    """Return the rate of the data of full packets of a `Port` [B/s], in one direction."""
    port = Port(*numbers)  # type: ignore[arg-type]
    after_code = port.lanes * port.symbols * port.bits * port.code / 8
    return after_code * port.data / (port.data + port.headers)


def _taking(**fields: Any) -> Callable[..., float]:
    """Return what somebody calculates who takes another number for some fields of a `Port`."""
    return lambda *numbers: carried(*Port(*numbers)._replace(**fields))


def _bits_for_bytes(*numbers: float) -> float:
    return 8 * carried(*numbers)


def _both_directions(*numbers: float) -> float:
    return 2 * carried(*numbers)


def _code_the_wrong_way(*numbers: float) -> float:
    port = Port(*numbers)  # type: ignore[arg-type]
    return carried(*port._replace(code=1 / port.code))


def _headers_over_data(*numbers: float) -> float:
    port = Port(*numbers)  # type: ignore[arg-type]
    return carried(*port._replace(headers=0)) * (1 - port.headers / port.data)


# What somebody with a mistake returns, by its name.
CARRIED_MISTAKES: dict[str, Callable[..., float]] = {
    "bits for bytes": _bits_for_bytes,
    "both directions counted": _both_directions,
    "one lane alone": _taking(lanes=1),
    "bits of a symbol forgotten": _taking(bits=1),
    "code forgotten": _taking(code=1),
    "code the wrong way": _code_the_wrong_way,
    "headers left out": _taking(headers=0),
    "headers over data": _headers_over_data,
}


@register("check", "11-write-carried")
def carried_by_port(answer: Carried) -> Verdict:
    """Run ``answer(lanes, symbols, bits, code, data, headers)``, a rate in B/s, on ports of the catalog."""
    return compared("11-write-carried", answer, ports(), carried, CARRIED_MISTAKES, _rate)


def _rate(value: float) -> str:
    """Write a rate [B/s] in GB/s with four digits, so that a port and its headers differ."""
    return f"{value / 1e9:,.4g} GB/s"
