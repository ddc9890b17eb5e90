"""Lesson 91: the functions of the assessment."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fabriclab.catalog import published
from fabriclab.core import Floats
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    called,
    compared,
    first_wrong,
    told,
    wrong,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

# Which collective -----------------------------------------------------------------------------------

# Work -> its collective; the words of each are in the texts, as match.<work>.
COLLECTIVES: Mapping[str, str] = {
    "tensor": "all_reduce",
    "data": "all_reduce",
    "gather": "all_gather",
    "scatter": "reduce_scatter",
    "experts": "all_to_all",
    "tables": "all_to_all",
    "stages": "send_recv",
    "start": "broadcast",
}


@register("check", "91-match")
def collective_of(answer: Callable[[str], Any]) -> Verdict:
    """Run ``answer(work)``, which returns the collective that a piece of work needs."""
    tried = []
    named: dict[str, str] = {}
    for work, wanted in COLLECTIVES.items():
        found = called(answer, work)
        if not isinstance(found, str):
            raise Unanswered("kind", text("match.kind", work=work, got=brief(found)))
        named[work] = found.strip().lower().replace("-", "_").replace(" ", "_")
        name = text(f"match.{work}")
        tried.append(TriedCase(name, named[work] == wanted, "", found or '""', wanted))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    # The right one is not told before all are right.
    n_wrong = sum(not case.right for case in tried)
    hidden = [case if case.right else case._replace(wanted="?") for case in tried]
    line = text("match.wrong", n=n_wrong, of=len(tried))
    return wrong("91-match", line, _confused(named), Trace(tuple(hidden)))


def _confused(named: Mapping[str, str]) -> str:
    """Return the name of a mistake that a set of answers shows, or nothing."""
    if named["experts"] == "all_reduce" or named["tables"] == "all_reduce":
        return "sums where nothing is added"
    is_swapped = named["gather"] == "reduce_scatter" or named["scatter"] == "all_gather"
    if is_swapped or named["gather"] == named["scatter"] != "":
        return "halves mixed up"
    if named["stages"] in ("broadcast", "all_reduce"):
        return "a pair taken for a group"
    return ""


# The order of calls ---------------------------------------------------------------------------------

# Call -> the calls that have to come before it.
NEEDS: Mapping[str, tuple[str, ...]] = {
    "open": (),
    "pd": ("open",),
    "mr": ("pd",),
    "cq": ("open",),
    "qp": ("pd", "cq"),
    "init": ("qp",),
    "exchange": ("mr", "qp"),
    "rtr": ("init", "exchange"),
    "rts": ("rtr",),
    "write": ("rts", "mr", "exchange"),
    "poll": ("write",),
}
_IN_ORDER = tuple(NEEDS)


def _moved(call: str, before: str) -> tuple[str, ...]:
    """Return the right order with one call moved in front of another."""
    calls = [one for one in _IN_ORDER if one != call]
    calls.insert(calls.index(before), call)
    return tuple(calls)


# Programs by name: the right one, and others with one call too early, too late or missing.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "right": _IN_ORDER,
    "memory late": _moved("mr", "write"),
    "ready too early": _moved("rtr", "exchange"),
    "polled too early": _moved("poll", "write"),
    "no keys": tuple(call for call in _IN_ORDER if call != "exchange"),
    "queue last": _moved("qp", "cq"),
}


def first_fault(calls: Sequence[str]) -> int:
    """Return the place of the first call that lacks one before it, counted from 0; -1 if none does."""
    done = set[str]()
    for place, call in enumerate(calls):
        if not set(NEEDS[call]) <= done:
            return place
        done.add(call)
    return -1


def _last_fault(calls: Sequence[str]) -> int:
    """Return the place of the last such call, as somebody does who does not stop."""
    done = set[str]()
    found = -1
    for place, call in enumerate(calls):
        if not set(NEEDS[call]) <= done:
            found = place
        done.add(call)
    return found


def _from_one(calls: Sequence[str]) -> int:
    """Return the place counted from 1."""
    found = first_fault(calls)
    return found + 1 if found >= 0 else -1


def _out_of_order(calls: Sequence[str]) -> int:
    """Return the first place where the calls differ from one known order, though others work too."""
    for place, (call, wanted) in enumerate(zip(calls, _IN_ORDER, strict=False)):
        if call != wanted:
            return place
    return -1


@register("check", "91-write-first")
def first_call(answer: Callable[[list[str], dict[str, tuple[str, ...]]], Any]) -> Verdict:
    """Run ``answer(calls, needs)``, which returns the place of the first call that cannot work, or -1."""
    cases = {name: [list(calls), dict(NEEDS)] for name, calls in PROGRAMS.items()}
    # Another order that works: completion queue before the memory.
    other = [*_moved("cq", "mr")]
    cases["another order"] = [other, dict(NEEDS)]
    return compared(
        "91-write-first",
        answer,
        cases,
        lambda calls, needs: first_fault(calls),
        {
            "last fault": lambda calls, needs: _last_fault(calls),
            "counted from 1": lambda calls, needs: _from_one(calls),
            "one order taken for the only one": lambda calls, needs: _out_of_order(calls),
        },
        lambda place: f"{place:g}",
    )


# A model of a sweep ---------------------------------------------------------------------------------

# Sweeps of three machines, one of them with a dip between protocols.
SWEEPS = ("mi300x_1n", "polaris_n8_2.18_all_reduce_env1", "alps_N032_ofi1.13.0")
MOST_ERROR = 0.10  # median error of the held-out sizes that passes; the question prints it


def held_out(name: str) -> tuple[Floats, Floats, Floats, Floats]:
    """Return sizes and times to fit, then those held out: every third size, but neither end. [B], [s]."""
    sweep = published.load(name)
    size = np.asarray(sweep.size, dtype=np.float64)
    times = np.asarray(sweep.time, dtype=np.float64)
    out = np.arange(len(size)) % 3 == 1
    out[-1] = False
    return size[~out], times[~out], size[out], times[out]


def between_points(sizes: Floats, times: Floats, wanted: Floats) -> Floats:
    """Return times on straight lines between the logarithms of the points."""
    logs = np.interp(np.log(wanted), np.log(sizes), np.log(times))
    return np.asarray(np.exp(logs))


def one_line(sizes: Floats, times: Floats, wanted: Floats) -> Floats:
    """Return times on one line through all points, by least squares."""
    slope, start = np.polyfit(sizes, times, 1)
    return np.asarray(start + slope * wanted)


def two_ends(sizes: Floats, times: Floats, wanted: Floats) -> Floats:
    """Return the times of alpha and beta, read at both ends."""
    start = float(np.median(times[:3]))
    return np.asarray(start + (times[-1] - start) / sizes[-1] * wanted)


def nearest_point(sizes: Floats, times: Floats, wanted: Floats) -> Floats:
    """Return the time of the nearest point."""
    places = [int(np.argmin(np.abs(sizes - size))) for size in wanted]
    return np.asarray(times[places])


FIT_MISTAKES: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "one line for a sweep": one_line,
    "alpha and beta alone": two_ends,
    "nearest point": nearest_point,
}


@register("check", "91-write-fit")
def fit_of_sweep(answer: Callable[[Floats, Floats, Floats], Any]) -> Verdict:
    """Run ``answer(sizes, times, wanted)``, which returns the times at sizes that were held out."""
    tried = []
    returned = []
    for name in SWEEPS:
        sizes, times, wanted, truth = held_out(name)
        found = called(answer, sizes.copy(), times.copy(), wanted.copy())
        try:
            got = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError):
            got = np.empty(0)
        if got.shape != wanted.shape or not np.isfinite(got).all():
            raise Unanswered("kind", text("fit.kind", n=len(wanted), got=brief(found)))
        error = float(np.median(np.abs(got / truth - 1)))
        returned.append(got)
        case = text("fit.case", name=name, n=len(wanted))
        limit = text("fit.limit", limit=MOST_ERROR)
        tried.append(TriedCase(case, error <= MOST_ERROR, "", f"{100 * error:.1f} %", limit))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    mistake = ""
    for known, rule in FIT_MISTAKES.items():
        expected = [rule(*held_out(sweep)[:3]) for sweep in SWEEPS]
        if all(np.allclose(a, b, rtol=0.01) for a, b in zip(returned, expected, strict=True)):
            mistake = known
    return wrong("91-write-fit", told(answer, tried[place]), mistake, Trace(tuple(tried)))


# From 1,000 to 10,000 -------------------------------------------------------------------------------


def switches(gpus: int, radix: int) -> int:
    """Return the switches of a network without oversubscription: two tiers as long as they reach, else three."""
    half = radix // 2
    leaves = math.ceil(gpus / half)
    if gpus <= radix * half:
        return leaves + math.ceil(leaves * half / radix)
    return leaves + leaves + math.ceil(leaves * half / radix)


def _two_tiers(gpus: int, radix: int) -> int:
    half = radix // 2
    leaves = math.ceil(gpus / half)
    return leaves + math.ceil(leaves * half / radix)


def _all_down(gpus: int, radix: int) -> int:
    leaves = math.ceil(gpus / radix)
    return leaves + math.ceil(leaves / 2)


def _without_middle(gpus: int, radix: int) -> int:
    half = radix // 2
    leaves = math.ceil(gpus / half)
    if gpus <= radix * half:
        return leaves + math.ceil(leaves * half / radix)
    return leaves + 2 * math.ceil(leaves * half / radix)


PLAN_CASES: Mapping[str, Sequence[int]] = {
    "1,024 GPUs, 64 ports": (1024, 64),
    "2,048 GPUs, 64 ports": (2048, 64),
    "4,096 GPUs, 64 ports": (4096, 64),
    "10,240 GPUs, 64 ports": (10240, 64),
    "10,240 GPUs, 128 ports": (10240, 128),
    "1,000 GPUs, 64 ports": (1000, 64),
}


@register("check", "91-write-plan")
def switches_of_plan(answer: Callable[[int, int], Any]) -> Verdict:
    """Run ``answer(gpus, radix)``, which returns the switches of a network without oversubscription."""
    return compared(
        "91-write-plan",
        answer,
        PLAN_CASES,
        switches,
        {
            "two tiers for ever": _two_tiers,
            "no port up": _all_down,
            "third tier as large as the core": _without_middle,
        },
        lambda count: f"{count:,.0f}",
    )


# The audit ------------------------------------------------------------------------------------------

# illustrative: cables as an auditor reads them, NIC and leaf; leaf -> rail
_RAILS = {"leaf 0.0": 0, "leaf 0.1": 0, "leaf 1.0": 1, "leaf 1.1": 1, "leaf 2.0": 2, "leaf 2.1": 2}
_CABLES: Mapping[str, Sequence[tuple[str, str]]] = {
    "one crossed": (
        ("nic 0.0", "leaf 0.0"),
        ("nic 0.1", "leaf 1.0"),
        ("nic 0.2", "leaf 2.0"),
        ("nic 9.0", "leaf 0.1"),
        ("nic 9.1", "leaf 2.1"),
        ("nic 9.2", "leaf 2.1"),
    ),
    "two swapped": (
        ("nic 1.0", "leaf 1.0"),
        ("nic 1.1", "leaf 0.0"),
        ("nic 1.2", "leaf 2.0"),
        ("nic 8.1", "leaf 1.1"),
    ),
    "none": (("nic 10.0", "leaf 0.1"), ("nic 10.1", "leaf 1.1"), ("nic 10.2", "leaf 2.1")),
}


def crossed(cables: Sequence[tuple[str, str]], rail_of_leaf: Mapping[str, int]) -> list[str]:
    """Return the NICs that end on a leaf of another rail; the number behind the dot is a NIC's rail."""
    return [nic for nic, leaf in cables if rail_of_leaf[leaf] != int(nic.split(".")[1])]


def _by_server(cables: Sequence[tuple[str, str]], rail_of_leaf: Mapping[str, int]) -> list[str]:
    """Return the NICs of somebody who takes the number of the server for the rail."""
    found = []
    for nic, leaf in cables:
        server = int(nic.split()[1].split(".")[0])
        if rail_of_leaf[leaf] != server:
            found.append(nic)
    return found


def _by_leaf_number(
    cables: Sequence[tuple[str, str]], rail_of_leaf: Mapping[str, int]
) -> list[str]:
    """Return the NICs of somebody who compares with the number of the leaf within its rail."""
    del rail_of_leaf
    return [nic for nic, leaf in cables if leaf.split(".")[1] != nic.split(".")[1]]


def _healthy(cables: Sequence[tuple[str, str]], rail_of_leaf: Mapping[str, int]) -> list[str]:
    """Return the NICs that are plugged rightly."""
    wrongly = crossed(cables, rail_of_leaf)
    return [nic for nic, _ in cables if nic not in wrongly]


_CROSSED_MISTAKES = {
    "server for rail": _by_server,
    "number of the leaf for its rail": _by_leaf_number,
    "right ones returned": _healthy,
}


@register("check", "91-write-crossed")
def crossed_nics(answer: Callable[..., Any]) -> Verdict:
    """Run ``answer(cables, rail_of_leaf)``, which returns the NICs that end on a leaf of another rail."""
    tried = []
    returned = []
    for name, cables in _CABLES.items():
        found = called(answer, [*cables], dict(_RAILS))
        is_list = isinstance(found, list | tuple | set)
        if not is_list or not all(isinstance(nic, str) for nic in found):
            raise Unanswered("kind", text("crossed.kind", got=brief(found)))
        returned.append(sorted(found))
        wanted = crossed(cables, _RAILS)
        got = ", ".join(sorted(found)) or "-"
        same = sorted(found) == sorted(wanted)
        tried.append(
            TriedCase(text("crossed.case", name=name), same, "", got, ", ".join(wanted) or "-")
        )
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    mistake = ""
    for known, rule in _CROSSED_MISTAKES.items():
        if returned == [sorted(rule(cables, _RAILS)) for cables in _CABLES.values()]:
            mistake = known
    return wrong("91-write-crossed", told(answer, tried[place]), mistake, Trace(tuple(tried)))
