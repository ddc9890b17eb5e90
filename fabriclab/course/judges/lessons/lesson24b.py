"""Lesson 24b: one port of a label, in one direction."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from fabriclab import catalog
from fabriclab.course.judges.lessons.lesson24 import rate_in_words
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

OnePort = Callable[[float, bool, int, int], Any]  # -> rate of a port in one direction [B/s]


class Label(NamedTuple):
    """A label and what it counts: what the learner's function is called with."""

    number: float  # [bit/s] or [B/s]
    bits: bool
    directions: int  # 1 or 2
    ports: int


# Ports or links that a label of the catalog adds up, by table, part and attribute of the label.
# source: catalog (rows ports, links_per_gpu, links_per_gpu_scaleup, lanes); 21 ports of Gaudi 3: Habana-net
_LABELS: Mapping[tuple[str, str, str], int] = {
    ("links", "nvlink4", "quoted"): 18,
    ("links", "nvlink5", "quoted"): 18,
    ("switches", "nvswitch3", "capacity"): 64,
    ("switches", "quantum2", "capacity"): 64,
    ("switches", "spectrum4", "capacity"): 64,
    ("accelerators", "gaudi3", "scaleup_bandwidth"): 21,
    ("links", "xgmi-mi300x", "quoted"): 1,
    ("nics", "cx8", "throughput"): 1,
}


@cache
def labels() -> dict[str, Label]:
    """Return the labels on which the learner's function is tried, by their names in words."""
    tried = dict[str, Label]()
    for (table, part, attribute), ports in _LABELS.items():
        spec = getattr(catalog, table)[part][attribute]
        bits = "b/s" in spec.unit
        directions = 2 if "bidirectional" in spec.direction else 1
        number = spec.si * directions * (8 if bits else 1)
        counted = text("trace.both_directions" if directions == 2 else "trace.one_direction")
        case = text("trace.label", part=spec.name, label=spec.quoted, counted=counted, ports=ports)
        tried[case] = Label(number, bits, directions, ports)
    return tried


def one_port(label: float, bits: bool, directions: int, ports: int) -> float:
    """Return what one port carries in one direction [B/s]."""
    return label / directions / ports / (8 if bits else 1)


def _bits_for_bytes(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, False, directions, ports)


def _both_directions(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, bits, 1, ports)


def _always_halved(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, bits, 2, ports)


def _sum_of_ports(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, bits, directions, 1)


def _always_eighth(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, True, directions, ports)


def _eight_times(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, False, directions, ports) * (8 if bits else 1)


def _directions_multiplied(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, bits, 1, ports) * directions


def _gigabytes(label: float, bits: bool, directions: int, ports: int) -> float:
    return one_port(label, bits, directions, ports) / 1e9


# What somebody with a mistake returns, by its name.
PORT_MISTAKES: Mapping[str, Callable[..., float]] = {
    "bits for bytes": _bits_for_bytes,
    "both directions counted": _both_directions,
    "always halved": _always_halved,
    "ports not divided": _sum_of_ports,
    "always divided by eight": _always_eighth,
    "multiplied by eight": _eight_times,
    "directions multiplied": _directions_multiplied,
    "GB for B": _gigabytes,
}


@register("check", "24b-write-port")
def port_of_a_label(answer: OnePort) -> Verdict:
    """Run ``answer(label, bits, directions, ports)``, a rate in B/s, on labels of the catalog."""
    return compared("24b-write-port", answer, labels(), one_port, PORT_MISTAKES, rate_in_words)
