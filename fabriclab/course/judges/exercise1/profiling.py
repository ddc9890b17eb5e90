"""Exercise 1, profile collectives: the cases of its five questions, and what each known mistake gives in them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.catalog.tables import rows_of
from fabriclab.core import bus_factor
from fabriclab.course.judges import Ask, Rng, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief, near, number
from fabriclab.course.judges.shared.parts import (
    Call,
    JudgedCase,
    NumberPart,
    QuestionPart,
    apart,
    judge,
    one_of_pair,
    shown,
)
from fabriclab.course.questions.files import message
from fabriclab.registry import register
from fabriclab.texts import text

from .readings import FEW, WITHIN, Readings
from .virtual import VirtualRanks

# their factor has (n - 1) / n in it
_WHOLE = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


# ex1-a -----------------------------------------------------------------------------------------------------------

_SIZES = ((8, 2, 64), (64, 64, 256), (1024, 64, 96))  # step [B], and from where to where in steps


def _machine(seed: int, who: NDArray[np.bool_]) -> VirtualRanks:
    return VirtualRanks(np.random.default_rng(seed), who)


def _late(rng: Rng) -> NDArray[np.bool_]:
    """Return who of a few ranks is late: one, neither the first nor the last.

    Their number is even, so that the median over ranks is the time of none of them.
    """
    who = np.zeros(rng.choice([4, 6]), bool)
    who[rng.integers(1, who.size - 1)] = True
    return who


class LatencyPart(QuestionPart):
    """The time of an all-reduce, read off the clocks of virtual ranks."""

    def __init__(self, machines: Sequence[VirtualRanks], calls: Sequence[Call]) -> None:
        super().__init__("ex1-a", "latency", 1.0, calls, sets=3)
        self.machines = machines
        self.sizes = [call.arguments[1] for call in calls]
        self._readings: dict[int, Readings] = {}

    def readings(self, case: int) -> Readings:
        """Return what the learner's calls have read; all of them are made before the first is looked at."""
        if case not in self._readings:
            self._readings[case] = Readings(self.machines[case], self.sizes[case])
        return self._readings[case]

    def read(self, case: int, value: Any) -> float:
        """Return the time [s]."""
        return number(value, "time")

    def is_right(self, case: int, answer: float) -> bool:
        """Return whether the time is right and comes from enough rounds."""
        readings = self.readings(case)
        return len(readings.rounds) >= FEW and near(answer, readings.truth, WITHIN)

    def mistakes(self, case: int, answer: float) -> list[str]:
        """Return what a reading of the clocks with that result did wrong."""
        return [*self.readings(case).mistakes(answer)]

    def off(self, case: int, answer: float) -> str:
        """Return how far off the time is, or that too few rounds were timed."""
        truth = self.machines[case].true(self.sizes[case])
        words = {
            "call": self.written(case),
            "got": shown(answer, "time"),
            "percent": f"{100 * WITHIN:g}",
        }
        if near(answer, truth, WITHIN):
            return message(1, "latency.off", **words)
        return text("ex.off", **words, truth=shown(truth, "time"))

    def step(self, case: int, answer: float, mistake: str) -> str:
        """Return what the same calls give without the mistake."""
        return self.readings(case).step(answer, mistake)

    def remark(self, case: int, answer: float) -> str:
        """Return a remark on slow first rounds."""
        return self.readings(case).remark(answer)


@register("question", "ex1-a", example=lambda rng: VirtualRanks(rng, _late(rng)))
def latency(ask: Ask, rng: Rng) -> Verdict:
    """Judge a benchmark on two machines at three sizes.

    On one machine a single rank is late, on the other all but the rank in the same place: a rank, or a quantile over
    ranks, that tells the right time on one of them does not on the other.
    """
    who, sizes = _late(rng), [int(step * rng.integers(lo, hi)) for step, lo, hi in _SIZES]
    seeds = apart(
        lambda: int(rng.integers(2**32)),
        lambda seed: [_machine(seed, who).true(s) for s in sizes],
        1.12,
    )
    machines = [
        _machine(seed, late) for seed, late in zip(seeds, (who, ~who), strict=True) for _ in sizes
    ]
    calls = [
        Call("latency", (machine.proxy(), size))
        for machine, size in zip(machines, 2 * sizes, strict=True)
    ]
    return judge(ask, LatencyPart(machines, calls))


# ex1-b -----------------------------------------------------------------------------------------------------------


def _trace(rng: Rng) -> tuple[list[list[Any]], float]:
    """Return events of a training loop, two at a time of both kinds, and the rate of the link."""
    rate, at, events = (
        float(rng.uniform(10e9, 90e9)),
        float(rng.uniform(0.02, 0.06)),
        list[list[Any]](),
    )
    for _ in range(4):
        work = rng.uniform(8e-3, 14e-3)
        for what, start, part in (
            ("compute", 0.0, 1.0),
            ("compute", 0.8, 0.4),
            ("all_reduce", 0.5, rng.uniform(0.45, 0.5)),
            ("all_gather", 0.85, rng.uniform(0.65, 0.7)),
            ("reduce_scatter", 1.1, rng.uniform(0.2, 0.25)),
        ):
            begin, end = at + work * start, at + work * (start + part)
            moved = 0 if what == "compute" else int(rate * (end - begin) * rng.uniform(0.3, 0.45))
            events.append([what, float(begin), float(end), moved])
        at += work * rng.uniform(1.7, 1.9)
    return sorted(events, key=lambda event: event[1]), rate


def _times(events: list[list[Any]], rate: float) -> dict[str, float]:
    """Return the times [s] that right and wrong answers about a trace are made of."""
    edges = np.unique([event[1:3] for event in events])
    runs = np.array([(start <= edges[:-1]) & (edges[:-1] < end) for _, start, end, _ in events])
    link = np.array([event[0] != "compute" for event in events])
    comm, comp, length = runs[link].sum(axis=0), runs[~link].any(axis=0), np.diff(edges)
    parts = {
        "whole": comm >= 0,
        "comm": comm > 0,
        "each": comm,
        "alone": (comm > 0) & ~comp,
        "hidden": (comm > 0) & comp,
        "twice": comm * ~comp,
        "idle": ~comp,
    }
    out = {name: float(length @ part) for name, part in parts.items()}
    moved = sum(event[3] for event in events) / rate
    return out | {"moved": moved, "last": events[-1][2] - events[0][1], "end": float(edges[-1])}


def _rates(name: str, size: int, time: float, n: int) -> dict[str, float]:
    """Return the quantities that right and wrong rates of a collective are made of."""
    factor = bus_factor(name, n)
    passes = 2 if name == "all_reduce" else 1  # of the array through the port of a rank
    return {
        "size": float(size),
        "time": time,
        "plain": size / time,
        "n": n,
        "factor": factor,
        "passes": passes,
        "part": factor / passes,  # of the array that a pass moves
        "factor_as_2": 2.0 if name == "all_reduce" else factor,
        "blocks": n if name in _WHOLE else 1,
    }


@register("question", "ex1-b", example=_trace)
def rates(ask: Ask, rng: Rng) -> Verdict:
    """Judge the definitions of nccl-tests for six collectives, and the use of a link in two traces."""
    timed = [
        (name, int(2 ** rng.integers(20, 31)), float(rng.uniform(1e-3, 0.05)), int(n))
        for name in (*_WHOLE, "broadcast", "reduce")
        for n in rng.choice([3, 4, 6, 8], 2, False)
    ]
    quantities = [_rates(*one) for one in timed]

    def numbers(trace: Any) -> list[float]:
        times = _times(*trace)
        return [times[name] / times["whole"] for name in ("moved", "alone")]

    traces = apart(lambda: _trace(rng), numbers, 1.03)
    loops = [JudgedCase(trace, _times(*trace)) for trace in traces]
    plain = [
        JudgedCase((size, time), q) for (_, size, time, _), q in zip(timed, quantities, strict=True)
    ]
    bus = [JudgedCase(arguments, q) for arguments, q in zip(timed, quantities, strict=True)]
    return judge(
        ask,
        NumberPart("ex1-b", "algbw", plain),
        NumberPart("ex1-b", "busbw", bus),
        NumberPart("ex1-b", "used", loops),
        NumberPart("ex1-b", "exposed", loops),
    )


# ex1-d -----------------------------------------------------------------------------------------------------------

Job = Mapping[str, Any]  # what was recorded of it
Figures = Mapping[str, float]  # by name

_FIGURES = ("alpha_share", "nic_use", "uplink_use", "late_share", "byte_skew")
# illustrative: cause -> its decisive figure, and from where to where each figure of such a job may lie
_CAUSES = {row["cause"]: row for row in rows_of("causes.csv", __file__)}
_ALIKE = (("bandwidth", "skew"), ("bandwidth", "oversubscription"), ("latency", "straggler"))
# The cause and what was answered -> why; see also `_confusion`.
_CONFUSED = {
    ("skew", "bandwidth"): "full NIC means bandwidth",
    ("oversubscription", "bandwidth"): "NIC blamed for the uplink",
    ("latency", "bandwidth"): "bandwidth blamed for many steps",
}


def _job(rng: Rng, cause: str) -> dict[str, Any]:
    """Return what was recorded of a job whose all-reduces suffer from ``cause``."""
    ends = np.array([_CAUSES[cause][name].split(" to ") for name in _FIGURES], float)
    share, nic, uplink, late, skew = rng.uniform(*ends.T)
    n, ops, steps, alpha = 8, int(rng.integers(20, 40)), 14, rng.uniform(5e-6, 15e-6)
    rate, trunk = rng.uniform(20e9, 60e9), rng.uniform(60e9, 200e9)  # illustrative: of no real job
    length = alpha * steps / share * (1 + 0.02 * rng.uniform(-1, 1, ops))
    wait = length.mean() * late / (1 - late) * (1 + 0.05 * rng.uniform(-1, 1, ops))
    late_rank = np.full(ops, rng.integers(n)) if cause == "straggler" else rng.integers(n, size=ops)
    enter = rng.uniform(0.05, 0.3, (ops, n)) * wait[:, None]
    enter[np.arange(ops), late_rank] = wait
    enter[np.arange(ops), (late_rank + 1) % n] = 0
    at = np.cumsum(1.3 * (wait + length))[:, None]
    early = rng.uniform(0, 0.02, (ops, n)) * (np.arange(n) != rng.integers(n))
    leave = (wait + length)[:, None] - length.min() * early
    sent = 1 + 0.01 * rng.uniform(-1, 1, n)
    hot = rng.integers(n)
    sent[hot] = skew * (sent.sum() - sent[hot]) / (n - skew)
    trunks = rng.permutation([1, *rng.uniform(0.8, 0.95, 3)])
    return {
        "enter": (at + enter).tolist(),
        "leave": (at + leave).tolist(),
        "alpha": float(alpha),
        "steps": steps,
        "bytes": [int(b) for b in sent / sent.max() * nic * rate * length.sum()],
        "nic_rate": float(rate),
        "uplink_bytes": [int(b) for b in trunks * uplink * trunk * length.sum()],
        "uplink_rate": float(trunk),
    }


def _figures(
    job: Mapping[str, Any],
    start: Callable[..., Any] = np.max,
    over: Callable[..., Any] = np.max,
    least: Callable[..., Any] = np.mean,
) -> dict[str, float]:
    """Return the five figures; other choices of ``start``, ``over`` and ``least`` give known wrong ones."""
    enter, end = np.array(job["enter"]), np.array(job["leave"]).max(axis=1)
    busy = float((end - start(enter, axis=1)).sum())
    begun = enter.min(axis=1)
    return {
        "alpha_share": len(end) * job["steps"] * job["alpha"] / busy,
        "nic_use": float(over(job["bytes"])) / job["nic_rate"] / busy,
        "uplink_use": float(over(job["uplink_bytes"])) / job["uplink_rate"] / busy,
        "late_share": float((over(enter, axis=1) - begun).sum() / (end - begun).sum()),
        "byte_skew": max(job["bytes"]) / float(least(job["bytes"])),
    }


class CausePart(QuestionPart):
    """What slows a job down."""

    def __init__(
        self, calls: Sequence[Call], causes: Sequence[str], figures: Sequence[Figures]
    ) -> None:
        super().__init__("ex1-d", "cause", 0.5, calls, sets=3)
        self.causes = causes
        self.figures = figures

    def read(self, case: int, value: Any) -> str:
        """Return the cause that is named."""
        value = one_of_pair(value, 0)
        if not isinstance(value, str) or value.strip().lower() not in _CAUSES:
            raise Misread(message(1, "cause.kind", known=", ".join(_CAUSES), got=brief(value)))
        return value.strip().lower()

    def is_right(self, case: int, answer: str) -> bool:
        """Return whether it is the cause."""
        return answer == self.causes[case]

    def mistakes(self, case: int, answer: str) -> list[str]:
        """Return why one takes this cause for another."""
        mistake = _confusion(self.causes[case], answer)
        return [mistake] if mistake else []

    def off(self, case: int, answer: str) -> str:
        """Return which cause it is."""
        return message(1, "cause.off", got=answer, cause=self.causes[case])

    def step(self, case: int, answer: str, mistake: str) -> str:
        """Return the figure that stands out."""
        decisive = _CAUSES[self.causes[case]]["decisive"]
        return message(
            1, "cause.step", decisive=decisive, proof=shown(self.figures[case][decisive])
        )

    def written(self, case: int) -> str:
        """Return the call, and which of the two values is meant."""
        return f"{super().written(case)}[0]"


class EvidencePart(QuestionPart):
    """Two true figures of a job, among them the one that proves the cause; it counts if the cause is right."""

    within = 0.02

    def __init__(
        self,
        calls: Sequence[Call],
        jobs: Sequence[Job],
        causes: Sequence[str],
        figures: Sequence[Figures],
    ) -> None:
        super().__init__("ex1-d", "evidence", 0.5, calls, sets=3, after=True)
        self.jobs = jobs
        self.causes = causes
        self.figures = figures
        self.decisive = [_CAUSES[cause]["decisive"] for cause in causes]

    def read(self, case: int, value: Any) -> Figures:
        """Return the two figures by name."""
        value = one_of_pair(value, 1)
        if not isinstance(value, dict) or len(value) != 2 or not value.keys() <= set(_FIGURES):
            known = ", ".join(_FIGURES)
            raise Misread(message(1, "evidence.kind", known=known, got=brief(value)))
        return {str(name): number(figure, "") for name, figure in value.items()}

    def is_right(self, case: int, answer: Figures) -> bool:
        """Return whether both figures are true and the decisive one is among them."""
        return self.decisive[case] in answer and not self._untrue(case, answer)

    def _untrue(self, case: int, answer: Figures) -> Figures:
        true = self.figures[case]
        return {
            name: value
            for name, value in answer.items()
            if not near(value, true[name], self.within)
        }

    def mistakes(self, case: int, answer: Figures) -> list[str]:
        """Return the mistakes that give all figures that are not true."""
        untrue = self._untrue(case, answer)
        if not untrue:
            return ["evidence beside the point"]
        return [
            mistake
            for mistake, spoiled in _spoiled(self.jobs[case], self.figures[case]).items()
            if all(near(value, spoiled[name], self.within) for name, value in untrue.items())
        ]

    def off(self, case: int, answer: Figures) -> str:
        """Return the two figures, and what they must be."""
        return message(
            1,
            "evidence.off",
            got=shown(answer),
            percent=f"{100 * self.within:g}",
            decisive=self.decisive[case],
        )

    def step(self, case: int, answer: Figures, mistake: str) -> str:
        """Return the cause and all figures."""
        figures = shown(self.figures[case])
        return message(1, "evidence.step", cause=self.causes[case], all=figures)

    def written(self, case: int) -> str:
        """Return the call, and which of the two values is meant."""
        return f"{super().written(case)}[1]"


def _confusion(cause: str, answer: str) -> str:
    """Return the name of the mistake that takes a cause for another one, if it is known."""
    if cause == "straggler" and answer != "skew":
        return "straggler taken for the network"
    if answer == "skew":
        return "byte_skew taken for a part"
    return _CONFUSED.get((cause, answer), "")


def _spoiled(job: Job, true: Figures) -> dict[str, Figures]:
    """Return the figures that known mistakes give."""
    scaled = {
        "bits for bytes/x": 8,
        "bits for bytes": 1 / 8,
        "percent for a part": 100,
    }
    return {
        "waiting counted as work": _figures(job, start=np.min),
        "mean for the fullest": _figures(job, over=np.mean),
        "largest over smallest": _figures(job, least=np.min),
        "steps forgotten": {**true, "alpha_share": true["alpha_share"] / job["steps"]},
        **{
            name: {key: factor * value for key, value in true.items()}
            for name, factor in scaled.items()
        },
    }


@register("question", "ex1-d", example=lambda rng: {cause: _job(rng, cause) for cause in _CAUSES})
def bottleneck(ask: Ask, rng: Rng) -> Verdict:
    """Judge a diagnosis of jobs that look alike in twos: the cause, and two true figures, the decisive one among."""
    causes = [str(cause) for cause in rng.permutation(rng.permuted(_ALIKE, axis=1)).T.flat]
    jobs = [_job(rng, cause) for cause in causes]
    figures = [_figures(job) for job in jobs]
    calls = [Call("bottleneck", (job,)) for job in jobs]
    return judge(ask, CausePart(calls, causes, figures), EvidencePart(calls, jobs, causes, figures))
