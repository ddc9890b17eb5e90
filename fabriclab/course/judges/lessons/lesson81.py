"""Lesson 81: from how many bytes on a circuit ends before packets."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fabriclab import catalog
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.physics import switching
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_size

Circuit = tuple[float, float, float]  # set-up [s], rate of packets [B/s], rate of the circuit [B/s]
Least = Callable[[float, float, float], Any]  # -> B

# Kind of optical switch in the catalog, and the share of the circuit's rate that packets get.
# illustrative: shares that set each mistake apart
_CASES: tuple[tuple[str, float], ...] = (
    ("ocs-mems", 0.5),
    ("ocs-mems", 0.8),
    ("ocs-piezo", 0.2),
    ("ocs-thermo-optic", 0.9),
)
_NICS = ("cx7", "cx8")
_IN_USE = 0.9  # illustrative: the share in the table above the question
_ROUNDED = 1e-3  # illustrative: a few digits on paper are near enough


@cache
def circuits() -> tuple[Circuit, ...]:
    """Return the circuits on which a function is tried: set-ups and rates of the catalog."""
    cases = list[Circuit]()
    for nic in _NICS:
        rate = float(catalog.value("nics", nic, "throughput"))
        for kind, share in _CASES:
            set_up = float(catalog.value("emerging", kind, "setup"))
            cases.append((set_up, share * rate, rate))
    return tuple(cases)


def break_even(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    """Return the bytes from which on a circuit ends first [B]; packets start at once."""
    return switching.break_even(circuit_rate, set_up, packet_rate, 0.0)


def _on_the_circuit(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    return set_up * circuit_rate


def _by_packets(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    return set_up * packet_rate


def _difference_of_rates(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    return set_up * (circuit_rate - packet_rate)


def _twice(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    return 2 * break_even(set_up, packet_rate, circuit_rate)


def _exchanged(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    return -break_even(set_up, packet_rate, circuit_rate)


def _time(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    return break_even(set_up, packet_rate, circuit_rate) / packet_rate


def _mostly_in_use(set_up: float, packet_rate: float, circuit_rate: float) -> float:
    return switching.bytes_for(_IN_USE, set_up, circuit_rate)


# What somebody with a mistake returns, by its name.
CIRCUIT_MISTAKES: Mapping[str, Callable[[float, float, float], float]] = {
    "bytes of the set-up on the circuit": _on_the_circuit,
    "rate of the circuit forgotten": _by_packets,
    "gain of rates times set-up": _difference_of_rates,
    "set-up counted twice": _twice,
    "rates exchanged": _exchanged,
    "time for bytes": _time,
    "use for 90 % of the time": _mostly_in_use,
}


@register("check", "81-write-circuit")
def least_bytes(answer: Least) -> Verdict:
    """Run ``answer(set_up, packet_rate, circuit_rate)``, the bytes from which on the circuit ends first."""
    cases = {
        text("trace.circuit", setup=set_up, packets=packets, circuit=circuit): (
            set_up,
            packets,
            circuit,
        )
        for set_up, packets, circuit in circuits()
    }
    return compared(
        "81-write-circuit", answer, cases, break_even, CIRCUIT_MISTAKES, format_size, _ROUNDED
    )
