"""Lesson 24c: the class of a path between a GPU and a NIC, as ``nvidia-smi topo -m`` prints it."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from fabriclab import catalog, topologies
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    called,
    first_wrong,
    name_of,
    told,
    wrong,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.gpudirect.copies import Server
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.topologies.servers import SERVERS

PathClass = Callable[[int, int], Any]  # PCIe switches, processors -> one of CLASSES
CLASSES = ("PIX", "PXB", "NODE", "SYS")  # from near to far
# Servers and the pairs that are asked. source: fabriclab.gpudirect.topo, which reads the wiring of the catalog
_PAIRS: Sequence[tuple[str, int, int]] = (
    ("dgx_h100", 0, 0),
    ("dgx_h100", 0, 1),
    ("dgx_h100", 0, 4),
    ("mi300x", 0, 1),
    ("mi300x", 1, 2),
    ("dgx_a100", 3, 4),
)
# On a DGX A100 a byte passes several bridges of one switch chip, and no processor. source: NCCL-1505
_BRIDGES = ("DGX A100", 2)


@cache
def paths() -> dict[str, tuple[int, int]]:
    """Return the numbers of switches and processors with which the function is tried, by the path in words."""
    tried = dict[str, tuple[int, int]]()
    for server, gpu, nic in _PAIRS:
        walked = Server(topologies.build(server))
        passed = " ".join(
            walked.walk(walked.end(f"gpu {gpu}"), walked.end(f"nic {nic}")).over[1:-1]
        )
        case = text(
            "trace.path", server=catalog.systems[SERVERS[server]["facts"]].name, gpu=gpu, nic=nic
        )
        tried[case] = passed.count("pcie"), passed.count("cpu")
    server, bridges = _BRIDGES
    tried[text("trace.path_bridges", server=server, n=bridges)] = bridges, 0
    return tried


def path_class(switches: int, cpus: int) -> str:
    """Return the class of a path that passes so many PCIe switches and processors."""
    if cpus > 1:
        return "SYS"
    if cpus == 1:
        return "NODE"
    return "PXB" if switches > 1 else "PIX"


def _switches_first(switches: int, cpus: int) -> str:
    return "PXB" if switches > 1 else path_class(switches, cpus)


def _cpu_is_sys(switches: int, cpus: int) -> str:
    return "SYS" if cpus else path_class(switches, cpus)


def _cpu_is_node(switches: int, cpus: int) -> str:
    return "NODE" if cpus else path_class(switches, cpus)


def _no_pxb(switches: int, cpus: int) -> str:
    return path_class(min(switches, 1), cpus)


def _swapped(switches: int, cpus: int) -> str:
    return {"PIX": "PXB", "PXB": "PIX"}.get(path_class(switches, cpus), path_class(switches, cpus))


def _host_bridge(switches: int, cpus: int) -> str:
    found = path_class(switches, cpus)
    return "PHB" if found == "NODE" else found


def _arguments_swapped(switches: int, cpus: int) -> str:
    return path_class(cpus, switches)


# What somebody with a mistake returns, by its name.
PATH_MISTAKES: Mapping[str, PathClass] = {
    "switches before processors": _switches_first,
    "every processor is SYS": _cpu_is_sys,
    "every processor is NODE": _cpu_is_node,
    "no PXB": _no_pxb,
    "PIX and PXB swapped": _swapped,
    "PHB for NODE": _host_bridge,
    "arguments swapped": _arguments_swapped,
}


@register("check", "24c-write-path")
def class_of_a_path(answer: PathClass) -> Verdict:
    """Run ``answer(switches, cpus)``, one of four words, on paths of servers of the catalog."""
    cases = paths()
    returned = []
    for case in cases.values():
        found = called(answer, *case)
        if not isinstance(found, str):
            call = f"{name_of(answer)}({case[0]}, {case[1]})"
            raise Unanswered("kind", text("function.path_kind", call=call, got=brief(found)))
        returned.append(found.strip().upper())
    tried = tuple(
        TriedCase(name, got == path_class(*case), "", got, path_class(*case))
        for (name, case), got in zip(cases.items(), returned, strict=True)
    )
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    line = told(answer, tried[place])
    mistake = ""
    for name, rule in PATH_MISTAKES.items():
        if returned == [rule(*case) for case in cases.values()]:
            mistake = name
            break
    return wrong("24c-write-path", line, mistake, Trace(tried))
