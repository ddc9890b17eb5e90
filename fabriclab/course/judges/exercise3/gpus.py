"""Exercise 3 (f), the judge of transfers from GPU to GPU: direct or through the host, with a refused registration.

A transfer between GPUs of two servers has two halves: in one server from the GPU to a NIC, in the other from the NIC to
the GPU. A case is one of them. Its copies are those that `fabriclab.gpudirect.path` finds in a server of the catalog.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as File
from typing import Any, NamedTuple

import numpy as np

from fabriclab import gpudirect, topologies, units
from fabriclab.core import Fabric
from fabriclab.course.judges import Ask, Floats, Proxy, Rng, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief, near, number
from fabriclab.course.judges.shared.parts import Call, QuestionPart, judge, shown
from fabriclab.course.questions.files import message
from fabriclab.registry import register
from fabriclab.texts import text

# illustrative: a transfer moves in pieces of at most this size [B]
CHUNK = 512 * 2**10
CALLS = ("ibv_reg_mr", "ibv_reg_dmabuf_mr")
_CLIENT = File(__file__).with_name("data").joinpath("gpu_client.py").read_text(encoding="utf-8")
_DIRECT = "peer"
_THROUGH_HOST = "pinned"
_MECHANISMS = (_DIRECT, _THROUGH_HOST)
_OTHER_WORDS = {
    "direct": _DIRECT,
    "gpudirect": _DIRECT,
    "gdr": _DIRECT,
    "p2p": _DIRECT,
    "bounce": _THROUGH_HOST,
    "host": _THROUGH_HOST,
    "staged": _THROUGH_HOST,
}
_FAMILIES = ("dgx_h100", "dgx_a100", "mi300x")
_AS_FAST = 0.01  # plans whose times differ by so little are both right
# By so much all other plans of a case are slower, so that no rounding decides.
_CLEARLY_SLOWER = 0.05
_WITHIN = 0.01  # relative error of a time that counts as right
_WITHIN_TAIL = 0.02  # percentiles have several definitions
_NAMED = 2e-3  # relative distance at which a known mistake is recognised
_ROUNDING = 1e-12  # of differences between times of a run [s]
_SETS = 2


# Servers ---------------------------------------------------------------------------------------------------------


@cache
def _fabric(family: str) -> Fabric:
    """Return a server of the catalog."""
    return topologies.build(family)


@cache
def _path(family: str, source: str, target: str, mechanism: str, iommu: str) -> gpudirect.Path:
    """Return a path in a server of the catalog; there are about 1,500 of them."""
    return gpudirect.path(_fabric(family), source, target, mechanism, iommu=iommu)


@cache
def _registration(memory: str, call: str, module: bool) -> tuple[int, str]:
    """Return the errno of a registration, or 0, and what the kernel says."""
    try:
        return 0, gpudirect.register(memory, call, module=module)
    except OSError as error:
        return error.errno or 0, error.strerror or ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a server allows, and how it is set up.

    Parameters
    ----------
    family : str
        Name of a server of the catalog.
    sends : bool
        Whether its GPU sends; otherwise it receives.
    numbers : tuple of int
        The NIC of the catalog's server that stands behind each number of a NIC. The system counts NICs as it finds
        them, so a NIC and a GPU with the same number need not be neighbours.
    memory : str
        Kind of the GPU's memory, ``"gpu"`` or ``"managed"``.
    drivers : mapping of str to frozenset of int
        For each call, the NICs whose drivers can take memory of a GPU with it.
    iommu : str
        As for `fabriclab.gpudirect.path`.
    """

    family: str
    sends: bool
    numbers: tuple[int, ...]
    memory: str
    drivers: Mapping[str, frozenset[int]]
    iommu: str = "off"


class GpuServer:
    """A server whose GPU takes part in a transfer: the paths between GPU and NICs, and who may register memory.

    Leaves out what `fabriclab.gpudirect.path` leaves out, and the time that a registration takes.
    """

    chunk = CHUNK

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.fabric = _fabric(setting.family)
        self.nics = len(setting.numbers)
        self.asked = dict[tuple[int, int], dict[str, int]]()  # GPU and NIC -> call -> errno, or 0

    def proxy(self) -> Proxy:
        """Return what the learner's function gets."""
        values = {"nics": self.nics, "chunk": self.chunk}
        return Proxy(self, ("registration", "path"), values, _CLIENT)

    def registration(self, gpu: int, nic: int, call: str = CALLS[0]) -> list[Any]:
        """Return the errno of a registration and what the kernel says; the errno is 0 if the NIC has the memory."""
        self._check(gpu, nic)
        call = units.choice(call, "call", CALLS)
        error, words = self._answer(nic, call)
        self.asked.setdefault((gpu, nic), {})[call] = error
        return [error, words]

    def register(self, gpu: int, nic: int, call: str = CALLS[0]) -> None:
        """Register memory of a GPU with a NIC, or raise OSError as the kernel refuses it."""
        error, words = self.registration(gpu, nic, call)
        if error:
            raise OSError(error, words)

    def path(self, gpu: int, nic: int, mechanism: str) -> dict[str, Any]:
        """Return the copies of a transfer, each with the parts that it passes, and the flush at its end [s]."""
        found = self.transfer(gpu, nic, mechanism)
        copies = []
        for move, parts in zip(found.moves, found.parts, strict=True):
            copies.append(
                {
                    "parts": [self._as_counted(part) for part in parts],
                    "rate": move.rate,
                    "issue": move.issue,
                    "latency": move.latency,
                }
            )
        return {"copies": copies, "flush": found.flush}

    def transfer(self, gpu: int, nic: int, mechanism: str) -> gpudirect.Path:
        """Return the same path as a value of the library."""
        self._check(gpu, nic)
        mechanism = units.choice(mechanism, "mechanism", _MECHANISMS)
        ends = [f"gpu {gpu}", f"nic {self.setting.numbers[nic]}"]
        if not self.setting.sends:
            ends.reverse()
        return _path(self.setting.family, *ends, mechanism, self.setting.iommu)

    def allows(self, nic: int) -> bool:
        """Return whether the NIC can have the GPU's memory by any call."""
        return not all(self._answer(nic, call)[0] for call in CALLS)

    def is_near(self, gpu: int, nic: int) -> bool:
        """Return whether a GPU and a NIC belong to the same processor: a path between two of them passes both."""
        [parts] = self.transfer(gpu, nic, _DIRECT).parts
        return sum(part.startswith("CPU") for part in parts) < 2

    def _answer(self, nic: int, call: str) -> tuple[int, str]:
        """Return the errno of a registration, or 0, and what the kernel says."""
        module = nic in self.setting.drivers[call]
        return _registration(self.setting.memory, call, module)

    def _as_counted(self, part: str) -> str:
        """Return the name of a part; NICs have the numbers that this server gives them."""
        kind, _, place = part.rpartition(" ")
        if kind == "NIC":
            return f"NIC {self.setting.numbers.index(int(place))}"
        return part

    def _check(self, gpu: int, nic: int) -> None:
        """Refuse a GPU or a NIC that the server does not have."""
        units.count(gpu, "gpu", 0, len(self.fabric.nodes("gpu")) - 1)
        units.count(nic, "nic", 0, self.nics - 1)


class Plan(NamedTuple):
    """How a transfer goes: its NIC and its mechanism."""

    nic: int
    mechanism: str


class Half(NamedTuple):
    """One case: a server, the GPU whose memory moves, and the size of the transfer."""

    server: GpuServer
    gpu: int
    size: int  # [B]

    def time(self, plan: Plan) -> float:
        """Return the time of the transfer [s]."""
        return self.server.transfer(self.gpu, *plan).time(self.size, self.server.chunk)

    def plans(self) -> dict[Plan, float]:
        """Return the time of each plan that the server allows [s]."""
        times = {}
        for nic in range(self.server.nics):
            if self.server.allows(nic):
                plan = Plan(nic, _DIRECT)
                times[plan] = self.time(plan)
            plan = Plan(nic, _THROUGH_HOST)
            times[plan] = self.time(plan)
        return times

    def best(self) -> list[Plan]:
        """Return the fastest plans, the fastest first."""
        times = self.plans()
        limit = min(times.values()) * (1 + _AS_FAST)
        fast = [plan for plan, time in times.items() if time <= limit]
        return sorted(fast, key=times.__getitem__)

    def is_clear(self) -> bool:
        """Return whether all other plans are clearly slower than the fastest ones."""
        times = self.plans()
        fastest = min(times.values())
        for time in times.values():
            if _AS_FAST < time / fastest - 1 < _CLEARLY_SLOWER:
                return False
        return True


class Kind(NamedTuple):
    """A kind of case: its set, between which sizes [B] it is drawn, and a server if only one suits."""

    of_set: int
    smallest: float
    largest: float
    family: str = ""


# In each set one case needs a direct path that is easily missed, and one has to go through the host.
_KINDS = {
    "any NIC": Kind(0, 64 * 2**10, 16 * 2**20),  # all NICs take the memory by the first call
    "second call": Kind(1, 64 * 2**10, 16 * 2**20),  # all take it, by the second call only
    "far and small": Kind(0, 4 * 2**10, 48 * 2**10),  # those of the other processor only
    "not the nearest": Kind(1, 64 * 2**10, 4 * 2**20, "dgx_h100"),  # all but the nearest
    "managed": Kind(0, 4 * 2**10, 16 * 2**20),  # none
    "far and large": Kind(1, 4 * 2**20, 16 * 2**20),  # those of the other processor only
}


def _half(rng: Rng, kind: str) -> Half:
    """Draw a case of a kind, in which no two plans are nearly as fast."""
    while True:
        half = _any_half(rng, kind)
        if half.is_clear() and _leaves_no_luck(half, kind):
            return half


def _leaves_no_luck(half: Half, kind: str) -> bool:
    """Return whether no best plan has the number of the GPU or, where all NICs take the memory, the first number."""
    best = {plan.nic for plan in half.best()}
    if half.gpu in best or half.server.is_near(half.gpu, half.gpu) != (kind == "far and small"):
        return False
    return kind not in ("any NIC", "second call") or 0 not in best


def _any_half(rng: Rng, kind: str) -> Half:
    """Draw a server that allows what the kind says, a GPU, and a size."""
    about = _KINDS[kind]
    family = about.family or str(rng.choice(_FAMILIES))
    gpu = int(rng.integers(8))
    size = 8 * round(math.exp(rng.uniform(math.log(about.smallest), math.log(about.largest))) / 8)
    sends = bool(rng.integers(2))
    numbers = tuple(rng.permutation(8).tolist())
    iommu = "off"
    # Where the IOMMU sends all traffic up to the processor, no NIC of that processor is nearer than another.
    if kind != "not the nearest":
        iommu = str(rng.choice(["off", "on"]))

    refused_by_all = dict.fromkeys(CALLS, frozenset[int]())
    setting = Setting(family, sends, numbers, "gpu", refused_by_all, iommu)
    takers = _takers(kind, GpuServer(setting), gpu)
    drivers = {CALLS[0]: frozenset[int](), CALLS[1]: takers}
    if kind == "any NIC":
        drivers[CALLS[0]] = takers
    memory = "managed" if kind == "managed" else "gpu"
    server = GpuServer(replace(setting, memory=memory, drivers=drivers))
    return Half(server, gpu, size)


def _takers(kind: str, server: GpuServer, gpu: int) -> frozenset[int]:
    """Return the NICs whose drivers can take the GPU's memory in a case of a kind."""
    nics = range(server.nics)
    if kind.startswith("far"):
        return frozenset(nic for nic in nics if not server.is_near(gpu, nic))
    if kind != "not the nearest":
        return frozenset(nics)
    latencies = [server.transfer(gpu, nic, _DIRECT).latency for nic in nics]
    limit = min(latencies) * (1 + _AS_FAST)
    return frozenset(nic for nic in nics if latencies[nic] > limit)


# The plan --------------------------------------------------------------------------------------------------------


class Planned(NamedTuple):
    """What a learner's function has planned."""

    plan: Plan
    refused: int  # errno
    copies: float
    host: float  # bytes that host memory reads or writes


_KEYS = ("nic", "mechanism", "refused", "copies", "host")


class PlanPart(QuestionPart):
    """A part of the answers of ``plan``: each case has the same call in both parts."""

    def __init__(
        self, name: str, share: float, halves: Sequence[Half], calls: Sequence[Call], after: bool
    ) -> None:
        super().__init__("ex3-f", name, share, calls, sets=_SETS, after=after)
        self.halves = halves

    def set_of(self, case: int) -> int:
        """Return the number of the set that a case is in."""
        return [*_KINDS.values()][case].of_set

    def read(self, case: int, value: Any) -> Planned:
        """Return the plan that a dict describes."""
        if not isinstance(value, dict) or not all(key in value for key in _KEYS):
            raise Misread(message(3, "plan.kind", keys=", ".join(_KEYS), got=brief(value)))
        most = self.halves[case].server.nics - 1
        nic = _entry(value, "nic")
        if nic not in range(most + 1):
            raise Misread(message(3, "plan.nic", most=most, got=brief(value["nic"])))
        mechanism = str(value["mechanism"]).strip().lower()
        mechanism = _OTHER_WORDS.get(mechanism, mechanism)
        if mechanism not in _MECHANISMS:
            raise Misread(message(3, "plan.mechanism", got=brief(value["mechanism"])))
        return Planned(Plan(int(nic), mechanism), *self.counted(value))

    def counted(self, value: Mapping[str, Any]) -> tuple[int, float, float]:
        """Return the errno, the copies and the bytes that a dict tells; what is not judged here may be anything."""
        raise NotImplementedError

    def written(self, case: int, answer: Any = None) -> str:
        """Write the call with the server as a word."""
        half = self.halves[case]
        return f"plan(server, {half.gpu}, {half.size})"


def _entry(value: Mapping[str, Any], key: str, kind: str = "") -> float:
    """Return a number out of a plan; raise Misread, which names the entry, if it is none."""
    try:
        return number(value[key], kind)
    except Misread:
        raise Misread(message(3, "plan.entry", key=key, got=brief(value[key]))) from None


class ChoicePart(PlanPart):
    """The NIC and the mechanism, and the refusal that is told where the transfer goes through the host."""

    def counted(self, value: Mapping[str, Any]) -> tuple[int, float, float]:
        """Return the errno that a dict tells."""
        refused = 0 if value["refused"] is None else _entry(value, "refused")
        return int(refused), math.nan, math.nan

    def is_right(self, case: int, answer: Planned) -> bool:
        """Return whether the plan is one of the fastest, is allowed, and tells of a refusal where there was one."""
        half = self.halves[case]
        return answer.plan in half.best() and not self._untold(half, answer)

    def _refusals(self, half: Half, nic: int) -> dict[str, int]:
        """Return the errno, or 0, of each call by which the learner's function has asked for this NIC."""
        return half.server.asked.get((half.gpu, nic), {})

    def _untold(self, half: Half, answer: Planned) -> bool:
        """Return whether a registration is missing, or its refusal is not told."""
        answers = [*self._refusals(half, answer.plan.nic).values()]
        if answer.plan.mechanism == _DIRECT:
            return 0 not in answers or answer.refused != 0
        return answer.refused not in answers or answer.refused == 0

    def mistakes(self, case: int, answer: Planned) -> list[str]:
        """Return the mistakes by which somebody plans so."""
        half = self.halves[case]
        nic, mechanism = answer.plan
        asked = self._refusals(half, nic)
        best = half.best()
        found = list[str]()
        if mechanism == _DIRECT and 0 not in asked.values():
            found.append("direct without a registration")
        if mechanism == _THROUGH_HOST and not half.server.asked:
            found.append("always through the host")
        if mechanism == _THROUGH_HOST and len(asked) == 1 and half.server.allows(nic):
            found.append("one call only")
        if answer.plan in best:
            return found or ["refusal not told"]
        if mechanism == _DIRECT and best[0].mechanism == _THROUGH_HOST:
            found.append("direct at any price")
        if (
            mechanism == _THROUGH_HOST
            and best[0].mechanism == _DIRECT
            and not half.server.allows(nic)
        ):
            found.append("host as soon as one NIC refuses")
        if nic == half.gpu:
            found.append("NIC with the number of the GPU")
        takers = [each for each in range(half.server.nics) if half.server.allows(each)]
        if mechanism == _DIRECT and takers[:1] == [nic]:
            found.append("first NIC that takes it")
        return found

    def seen(self, case: int, answer: Planned) -> str:
        """Return a sentence with the plan, which does not say which one is right."""
        half = self.halves[case]
        words = {"call": self.written(case), "got": _in_words(answer.plan)}
        if answer.plan in half.best():
            return message(3, "plan.told", **words, refused=answer.refused)
        return message(3, "plan.seen", **words)

    def off(self, case: int, answer: Planned) -> str:
        """Return a sentence with the fastest plan."""
        half = self.halves[case]
        best = half.best()
        if answer.plan in best:
            return self.seen(case, answer)
        return message(
            3,
            "plan.off",
            call=self.written(case),
            got=_in_words(answer.plan),
            want=_in_words(best[0]),
        )

    def step(self, case: int, answer: Planned, mistake: str) -> str:
        """Return a sentence with the times of both plans."""
        half = self.halves[case]
        best = half.best()[0]
        takers = ", ".join(str(nic) for nic in range(half.server.nics) if half.server.allows(nic))
        return message(
            3,
            "plan.step",
            takers=takers or "-",
            best=_in_words(best),
            best_time=shown(half.time(best), "time"),
            got=_in_words(answer.plan),
            time=shown(half.time(answer.plan), "time"),
        )

    def compared(self, case: int, answer: Planned) -> tuple[str, str]:
        """Return the plan and the fastest one, in words."""
        return _in_words(answer.plan), _in_words(self.halves[case].best()[0])


def _in_words(plan: Plan) -> str:
    """Return a plan as people say it."""
    return f"{plan.mechanism}, NIC {plan.nic}"


class BytesPart(PlanPart):
    """The copies of the planned path, and the bytes that they move through host memory."""

    def counted(self, value: Mapping[str, Any]) -> tuple[int, float, float]:
        """Return the copies and the bytes that a dict tells."""
        return 0, _entry(value, "copies"), _entry(value, "host", "size")

    def _path(self, case: int, answer: Planned) -> gpudirect.Path:
        half = self.halves[case]
        return half.server.transfer(half.gpu, *answer.plan)

    def _truth(self, case: int, answer: Planned) -> tuple[float, float]:
        """Return the number of copies and the bytes in host memory of the plan that was made."""
        path = self._path(case, answer)
        return float(path.copies), float(path.host_traffic * self.halves[case].size)

    def is_right(self, case: int, answer: Planned) -> bool:
        """Return whether both numbers are right for this plan."""
        return (answer.copies, answer.host) == self._truth(case, answer)

    def mistakes(self, case: int, answer: Planned) -> list[str]:
        """Return the mistakes that give one of the two numbers."""
        half = self.halves[case]
        path = self._path(case, answer)
        copies, host = self._truth(case, answer)
        pieces = math.ceil(half.size / half.server.chunk)
        passed = sum(part.startswith("CPU") for copy in path.parts for part in copy)
        found = list[str]()
        if answer.copies != copies:
            if answer.copies == copies - 1:
                found.append("copy by the NIC forgotten")
            if answer.copies == copies * pieces:
                found.append("copies of each piece")
        if answer.host != host:
            if host and answer.host == half.size:
                found.append("host memory counted once")
            if answer.host == passed * half.size:
                found.append("passing processors counted")
            if answer.host == len(path.moves) * half.size:
                found.append("every copy counted in the host")
            if answer.host == path.host_traffic:
                found.append("times for bytes")
        return found

    def seen(self, case: int, answer: Planned) -> str:
        """Return a sentence with both numbers."""
        words = {"call": self.written(case), "got": _in_words(answer.plan)}
        return message(
            3, "bytes.seen", **words, copies=f"{answer.copies:g}", host=_bytes(answer.host)
        )

    def off(self, case: int, answer: Planned) -> str:
        """Return a sentence with both right numbers."""
        copies, host = self._truth(case, answer)
        right = message(3, "bytes.off", copies=f"{copies:g}", host=_bytes(host))
        return f"{self.seen(case, answer)} {right}"

    def step(self, case: int, answer: Planned, mistake: str) -> str:
        """Return the copies with the parts that each one passes."""
        copies = "; ".join(" - ".join(copy) for copy in self._path(case, answer).parts)
        return message(3, "bytes.step", copies=copies)


def _bytes(value: float) -> str:
    """Write a size in whole bytes."""
    return f"{value:,.0f} B"


# Times -----------------------------------------------------------------------------------------------------------


class Timed(NamedTuple):
    """One case of ``took``: a path, its plain form, and a size [B]."""

    path: gpudirect.Path
    plain: Mapping[str, Any]
    size: int


def _one_after_another(path: gpudirect.Path, size: float, chunk: int) -> float:
    """Return the time if no copy overlaps with another one [s]."""
    pieces = math.ceil(size / chunk)
    steps = [move.issue + size / pieces / move.rate for move in path.moves]
    return pieces * sum(steps) + sum(move.latency for move in path.moves) + path.flush


def _no_starts(path: gpudirect.Path, size: float, chunk: int) -> float:
    """Return the time if only the first piece had to be issued [s]."""
    pieces = math.ceil(size / chunk)
    each = [size / pieces / move.rate for move in path.moves]
    return sum(each) + (pieces - 1) * max(each) + path.latency


def _rate_only(path: gpudirect.Path, size: float, chunk: int) -> float:
    """Return the time by the lowest rate alone [s]."""
    return size / path.rate


def _whole(path: gpudirect.Path, size: float, chunk: int) -> float:
    """Return the time if each copy waited for the whole one before [s]."""
    return path.time(size)


def _no_flush(path: gpudirect.Path, size: float, chunk: int) -> float:
    """Return the time without the flush [s]."""
    return path.time(size, chunk) - path.flush


def _rounded_down(path: gpudirect.Path, size: float, chunk: int) -> float:
    """Return the time if the number of pieces were rounded down [s]."""
    pieces = max(1, int(size // chunk))
    return path.time(size, size / pieces)


def _no_latency(path: gpudirect.Path, size: float, chunk: int) -> float:
    """Return the time without latencies and flush [s]."""
    return path.time(size, chunk) - sum(move.latency for move in path.moves) - path.flush


_TIME_MISTAKES: Mapping[str, Callable[[gpudirect.Path, float, int], float]] = {
    "each copy waits for the whole": _whole,
    "pieces one after another": _one_after_another,
    "starts of pieces forgotten": _no_starts,
    "rate only": _rate_only,
    "flush forgotten": _no_flush,
    "pieces rounded down": _rounded_down,
    "latencies forgotten": _no_latency,
}


class TimePart(QuestionPart):
    """The time of one transfer."""

    def __init__(self, share: float, cases: Sequence[Timed]) -> None:
        calls = [Call("took", (case.plain, case.size, CHUNK)) for case in cases]
        super().__init__("ex3-f", "took", share, calls, sets=_SETS)
        self.cases = cases

    def set_of(self, case: int) -> int:
        """Return the number of the set that a case is in; each set has a direct path and one through the host."""
        return case // 2

    def truth(self, case: int) -> float:
        """Return the right time [s]."""
        return self.cases[case].path.time(self.cases[case].size, CHUNK)

    def read(self, case: int, value: Any) -> float:
        """Return the time [s]."""
        return number(value, "time")

    def is_right(self, case: int, answer: float) -> bool:
        """Return whether the time is right."""
        return near(answer, self.truth(case), _WITHIN)

    def mistakes(self, case: int, answer: float) -> list[str]:
        """Return the mistakes that give this time."""
        path, _, size = self.cases[case]
        return [
            name
            for name, rule in _TIME_MISTAKES.items()
            if near(answer, rule(path, size, CHUNK), _NAMED)
        ]

    def seen(self, case: int, answer: float) -> str:
        """Return a sentence on which side of the right time the answer is."""
        side = "ex.high" if answer > self.truth(case) else "ex.low"
        return text(side, call=self.written(case), got=shown(answer, "time"))

    def off(self, case: int, answer: float) -> str:
        """Return a sentence with the right time."""
        got, truth = self.compared(case, answer)
        return text(
            "ex.off", call=self.written(case), got=got, truth=truth, percent=f"{100 * _WITHIN:g}"
        )

    def step(self, case: int, answer: float, mistake: str) -> str:
        """Return the number of pieces, and how long each copy takes for one of them."""
        path, _, size = self.cases[case]
        pieces = math.ceil(size / CHUNK)
        steps = [shown(move.issue + size / pieces / move.rate, "time") for move in path.moves]
        return message(
            3, "took.step", n=pieces, steps=", ".join(steps), flush=shown(path.flush, "time")
        )

    def compared(self, case: int, answer: float) -> tuple[str, str]:
        """Return the time and the right one."""
        return shown(answer, "time"), shown(self.truth(case), "time")

    def written(self, case: int, answer: Any = None) -> str:
        """Write the call with the path as a word."""
        return f"took(path, {self.cases[case].size}, {CHUNK})"


_TIMES = (_DIRECT, _THROUGH_HOST) * _SETS  # mechanism of each case
# Which mistakes a case of each mechanism tells from the right answer.
_TOLD_BY = {
    _DIRECT: ("rate only", "flush forgotten", "latencies forgotten"),
    _THROUGH_HOST: (
        "each copy waits for the whole",
        "pieces one after another",
        "starts of pieces forgotten",
        "rate only",
        "pieces rounded down",
    ),
}


def _timed(rng: Rng, mechanism: str) -> Timed:
    """Draw a path and a size: small on a direct path, where latency counts, and several pieces through the host."""
    while True:
        half = _any_half(rng, "any NIC")
        nic = int(rng.integers(half.server.nics))
        path = half.server.transfer(half.gpu, nic, mechanism)
        size = int(rng.integers(500, 8000)) * 8  # [B]
        if mechanism == _THROUGH_HOST:
            size = int(rng.integers(3 * CHUNK // 8, 12 * CHUNK // 8)) * 8
        right = path.time(size, CHUNK)
        others = [_TIME_MISTAKES[name](path, size, CHUNK) for name in _TOLD_BY[mechanism]]
        if all(abs(other / right - 1) > 2 * _WITHIN for other in others):
            return Timed(path, half.server.path(half.gpu, nic, mechanism), size)


# The tail --------------------------------------------------------------------------------------------------------

_TRANSFERS = 1500
_SMALLEST = 4 * 2**10  # [B]
_OCTAVES = 10  # sizes are spread evenly over so many doublings
_BUSY = (0.6, 0.75)  # fraction of the time in which the path through the host is busy


class Load(NamedTuple):
    """Transfers that queue for a path."""

    sizes: Floats  # (N,) [B]
    arrivals: Floats  # (N,) [s], rising


def spent(path: gpudirect.Path, load: Load) -> Floats:
    """Return how long each transfer takes from its arrival to its end, (N,) [s]; the path serves one at a time."""
    service = alone(path, load.sizes)
    return waiting(service, load.arrivals) + service


def alone(path: gpudirect.Path, sizes: Floats, chunk: float = CHUNK) -> Floats:
    """Return how long each transfer takes on a path that is idle, (N,) [s]: `gpudirect.Path.time` of all sizes."""
    pieces = np.maximum(1, np.ceil(sizes / chunk))
    issue = np.array([move.issue for move in path.moves])[:, None]
    rate = np.array([move.rate for move in path.moves])[:, None]
    steps = issue + sizes / pieces / rate  # (copies, N) [s]
    latency = sum(move.latency for move in path.moves) + path.flush
    return np.asarray(steps.sum(axis=0) + (pieces - 1) * steps.max(axis=0) + latency)


def waiting(service: Floats, arrivals: Floats) -> Floats:
    """Return how long each transfer waits for those before it, (N,) [s]."""
    waits = np.zeros(service.size)
    free = 0.0  # when the path is free again [s]
    for i, arrival in enumerate(arrivals):
        waits[i] = max(0.0, free - arrival)
        free = max(free, arrival) + service[i]
    return waits


def _ends(values: Floats) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    median, high = np.percentile(values, [50, 99])
    return float(median), float(high)


def _load(rng: Rng, host: gpudirect.Path) -> Load:
    """Draw sizes that are spread evenly over their logarithm, and arrivals at random moments (Poisson)."""
    sizes = np.round(_SMALLEST * 2 ** rng.uniform(0, _OCTAVES, _TRANSFERS))
    gap = alone(host, sizes).mean() / rng.uniform(*_BUSY)
    return Load(sizes, np.cumsum(rng.exponential(gap, _TRANSFERS)))


class Queued(NamedTuple):
    """One case of ``tail``: a path, its plain form, and the transfers that queue for it."""

    path: gpudirect.Path
    plain: Mapping[str, Any]
    load: Load


class TailPart(QuestionPart):
    """The median and the 99th percentile of the time that transfers spend."""

    def __init__(self, share: float, cases: Sequence[Queued]) -> None:
        calls = list[Call]()
        for case in cases:
            sizes = case.load.sizes.astype(int).tolist()
            calls.append(Call("tail", (case.plain, CHUNK, sizes, case.load.arrivals.tolist())))
        super().__init__("ex3-f", "tail", share, calls, sets=_SETS)
        self.cases = cases

    def set_of(self, case: int) -> int:
        """Return the number of the set that a case is in; each set has a direct path and one through the host."""
        return case // 2

    def truth(self, case: int) -> tuple[float, float]:
        """Return the right median and the right 99th percentile [s]."""
        return _ends(spent(self.cases[case].path, self.cases[case].load))

    def read(self, case: int, value: Any) -> tuple[float, float]:
        """Return the two times [s]."""
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise Misread(text("ex.pair", got=brief(value)))
        return number(value[0], "time"), number(value[1], "time")

    def _first_off(self, case: int, answer: tuple[float, float]) -> int | None:
        """Return the place of the first time that is wrong."""
        for place, (got, right) in enumerate(zip(answer, self.truth(case), strict=True)):
            if not near(got, right, _WITHIN_TAIL):
                return place
        return None

    def is_right(self, case: int, answer: tuple[float, float]) -> bool:
        """Return whether both times are right."""
        return self._first_off(case, answer) is None

    def mistakes(self, case: int, answer: tuple[float, float]) -> list[str]:
        """Return the mistakes that give the times that are wrong."""
        right = self.truth(case)
        found = list[str]()
        for name, known in _tail_mistakes(self.cases[case]).items():
            explained = [
                near(got, true, _WITHIN_TAIL) or _is_same(got, wrong)
                for got, true, wrong in zip(answer, right, known, strict=True)
            ]
            if all(explained):
                found.append(name)
        return found

    def seen(self, case: int, answer: tuple[float, float]) -> str:
        """Return a sentence on which side of the right time the first wrong one is."""
        place = self._first_off(case, answer) or 0
        side = "ex.high" if answer[place] > self.truth(case)[place] else "ex.low"
        return text(side, call=self.written(case, answer), got=shown(answer[place], "time"))

    def off(self, case: int, answer: tuple[float, float]) -> str:
        """Return a sentence with the right time."""
        got, truth = self.compared(case, answer)
        call = self.written(case, answer)
        return text("ex.off", call=call, got=got, truth=truth, percent=f"{100 * _WITHIN_TAIL:g}")

    def step(self, case: int, answer: tuple[float, float], mistake: str) -> str:
        """Return when the first transfers come, begin and end."""
        path, _, load = self.cases[case]
        service = alone(path, load.sizes)
        waits = waiting(service, load.arrivals)
        first = int(np.flatnonzero(waits > 0)[0])
        return message(
            3,
            "tail.step",
            n=first,
            arrival=shown(float(load.arrivals[first]), "time"),
            wait=shown(float(waits[first]), "time"),
            own=shown(float(service[first]), "time"),
        )

    def compared(self, case: int, answer: tuple[float, float]) -> tuple[str, str]:
        """Return the first time that is wrong, and the right one."""
        place = self._first_off(case, answer) or 0
        return shown(answer[place], "time"), shown(self.truth(case)[place], "time")

    def written(self, case: int, answer: Any = None) -> str:
        """Write the call, and which of the two times is meant."""
        place = None if answer is None else self._first_off(case, answer)
        return "tail(path, ...)" + ("" if place is None else f"[{place}]")


def _is_same(got: float, known: float) -> bool:
    """Return whether a time is the one that a known mistake gives; it may be 0, but for rounding."""
    return near(got, known, _NAMED) or abs(got - known) < _ROUNDING


def _tail_mistakes(case: Queued) -> dict[str, tuple[float, float]]:
    """Return the two times [s] that somebody with each mistake returns."""
    path, _, load = case
    service = alone(path, load.sizes)
    waits = waiting(service, load.arrivals)
    times = waits + service
    median, high = _ends(times)
    whole = alone(path, load.sizes, chunk=np.inf)
    return {
        "queue forgotten": _ends(service),
        "waiting only": _ends(waits),
        "time of the end": _ends(load.arrivals + times),
        "mean for the median": (float(times.mean()), high),
        "longest for the 99th percentile": (median, float(times.max())),
        "95th percentile": (median, float(np.percentile(times, 95))),
        "each copy waits for the whole": _ends(waiting(whole, load.arrivals) + whole),
        "all at once": _ends(np.cumsum(service)),
    }


def _queued(rng: Rng) -> list[Queued]:
    """Draw transfers, and let them queue for a direct path and for the one through the host of the same pair."""
    while True:
        half = _any_half(rng, "any NIC")
        nic = half.best()[0].nic
        paths = {each: half.server.transfer(half.gpu, nic, each) for each in _MECHANISMS}
        load = _load(rng, paths[_THROUGH_HOST])
        cases = list[Queued]()
        for mechanism, path in paths.items():
            cases.append(Queued(path, half.server.path(half.gpu, nic, mechanism), load))
        if all(map(_tells_mistakes, cases)):
            return cases


def _tells_mistakes(case: Queued) -> bool:
    """Return whether every mistake gives another answer, and every definition of a percentile the same one."""
    times = spent(case.path, case.load)
    right = _ends(times)
    for known in _tail_mistakes(case).values():
        error = max(abs(got / true - 1) for got, true in zip(known, right, strict=True))
        if 1e-9 < error < 2 * _WITHIN_TAIL:
            return False
    low = np.percentile(times, 99, method="lower")
    high = np.percentile(times, 99, method="higher")
    return bool(high - low < _WITHIN_TAIL / 2 * right[1])


# The question ----------------------------------------------------------------------------------------------------

_SHARES = {"took": 4 / 20, "plan": 6 / 20, "bytes": 4 / 20, "tail": 6 / 20}


def _example(rng: Rng) -> Any:
    """Return a server to try calls on: ibv_reg_mr is refused by all its NICs, and one of them refuses both calls."""
    return _any_half(rng, "not the nearest").server.proxy().here()


@register("question", "ex3-f", example=_example)
def gpu_to_gpu(ask: Ask, rng: Rng) -> Verdict:
    """Judge times, the choice of a path with a refused registration, its copies and bytes, and the tail of a queue."""
    time_rng, plan_rng, tail_rng = rng.spawn(3)
    halves = [_half(plan_rng, kind) for kind in _KINDS]
    calls = [Call("plan", (half.server.proxy(), half.gpu, half.size)) for half in halves]
    queued = list[Queued]()
    for _ in range(_SETS):
        queued += _queued(tail_rng)
    return judge(
        ask,
        TimePart(_SHARES["took"], [_timed(time_rng, mechanism) for mechanism in _TIMES]),
        ChoicePart("plan", _SHARES["plan"], halves, calls, after=False),
        BytesPart("bytes", _SHARES["bytes"], halves, calls, after=True),
        TailPart(_SHARES["tail"], queued),
    )
