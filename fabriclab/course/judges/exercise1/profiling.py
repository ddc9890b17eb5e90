"""Exercise 1, profile collectives: the cases of its questions, and the results of each known mistake."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab.catalog.tables import rows_of
from fabriclab.core import bus_factor
from fabriclab.course.judges import Ask, Floats, Rng, Verdict
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


def _machine(seed: int, late: NDArray[np.bool_]) -> VirtualRanks:
    """Return a group of virtual ranks, of which those in ``late`` are always late."""
    return VirtualRanks(np.random.default_rng(seed), late)


def _late(rng: Rng) -> NDArray[np.bool_]:
    """Draw which of a few ranks is late: one that is neither the first nor the last.

    The number of ranks is even, so that the median over ranks is not the time of any of them.
    """
    late = np.zeros(rng.choice([4, 6]), bool)
    late[rng.integers(1, late.size - 1)] = True
    return late


class Benchmark(NamedTuple):
    """One case: a machine of its own, and the size of the all-reduce to time on it."""

    machine: VirtualRanks
    size: int  # [B]


class LatencyPart(QuestionPart):
    """The time of an all-reduce, read off the clocks of virtual ranks."""

    def __init__(self, cases: Sequence[Benchmark]) -> None:
        calls = [Call("latency", (case.machine.proxy(), case.size)) for case in cases]
        super().__init__("ex1-a", "latency", 1.0, calls, sets=3)
        self.cases = cases
        self._readings: dict[int, Readings] = {}

    def readings(self, case: int) -> Readings:
        """Return what the learner's calls have read; all calls are made before the first answer is judged."""
        if case not in self._readings:
            self._readings[case] = Readings(*self.cases[case])
        return self._readings[case]

    def read(self, case: int, value: Any) -> float:
        """Return the time [s]."""
        return number(value, "time")

    def is_right(self, case: int, answer: float) -> bool:
        """Return whether the time is right and comes from enough rounds."""
        readings = self.readings(case)
        return len(readings.rounds) >= FEW and near(answer, readings.truth, WITHIN)

    def mistakes(self, case: int, answer: float) -> list[str]:
        """Return the mistakes in reading the clocks that explain this result."""
        return list(self.readings(case).mistakes(answer))

    def seen(self, case: int, answer: float) -> str:
        """Return a sentence on which side of the right time the answer is, or that too few rounds were timed."""
        machine, size = self.cases[case]
        truth = machine.true(size)
        if near(answer, truth, WITHIN):
            return self.off(case, answer)
        side = "ex.high" if answer > truth else "ex.low"
        return text(side, call=self.written(case), got=shown(answer, "time"))

    def off(self, case: int, answer: float) -> str:
        """Return a sentence with the right time, or one that says that too few rounds were timed."""
        machine, size = self.cases[case]
        truth = machine.true(size)
        words = {
            "call": self.written(case),
            "got": shown(answer, "time"),
            "percent": f"{100 * WITHIN:g}",
        }
        if near(answer, truth, WITHIN):
            return message(1, "latency.off", **words)
        return text("ex.off", **words, truth=shown(truth, "time"))

    def step(self, case: int, answer: float, mistake: str) -> str:
        """Return a sentence on what the same calls give without the mistake."""
        return self.readings(case).step(answer, mistake)

    def remark(self, case: int, answer: float) -> str:
        """Return a remark on slow first rounds."""
        return self.readings(case).remark(answer)


@register("question", "ex1-a", example=lambda rng: VirtualRanks(rng, _late(rng)))
def latency(ask: Ask, rng: Rng) -> Verdict:
    """Judge a benchmark on two machines at three sizes.

    On one machine a single rank is late, on the other all ranks but the one in the same place. So a rank, or a quantile
    over ranks, that gives the right time on one machine does not on the other.
    """
    late = _late(rng)
    sizes = [int(step * rng.integers(low, high)) for step, low, high in _SIZES]

    def times(seed: int) -> list[float]:
        machine = _machine(seed, late)
        return [machine.true(size) for size in sizes]

    seeds = apart(lambda: int(rng.integers(2**32)), times, 1.12)
    cases = list[Benchmark]()
    for seed, who in zip(seeds, (late, ~late), strict=True):
        for size in sizes:
            cases.append(Benchmark(_machine(seed, who), size))
    return judge(ask, LatencyPart(cases))


# ex1-b -----------------------------------------------------------------------------------------------------------

Trace = tuple[
    list[list[Any]], float
]  # events [name, begin, end, bytes], and the rate of the link [B/s]


def _trace(rng: Rng) -> Trace:
    """Draw the events of a training loop, with up to two at a time of both kinds, and the rate of the link."""
    rate = float(rng.uniform(10e9, 90e9))
    step_begins = float(rng.uniform(0.02, 0.06))  # [s]
    events = list[list[Any]]()
    steps = 4
    for step in range(steps):
        work = rng.uniform(8e-3, 14e-3)  # [s]
        plan = [  # name, and begin and length as parts of the work
            ("compute", 0.0, 1.0),
            ("compute", 0.8, 0.4),
            ("all_reduce", 0.5, rng.uniform(0.45, 0.5)),
            ("all_gather", 0.85, rng.uniform(0.65, 0.7)),
            ("reduce_scatter", 1.1, rng.uniform(0.2, 0.25)),
        ]
        # One begins while nothing runs; not in the last step, where what begins last must not end last.
        if step < steps - 1:
            plan.append(("all_to_all", 1.57, 0.11))
        for name, start, length in plan:
            begin = step_begins + work * start
            end = step_begins + work * (start + length)
            moved = 0
            if name != "compute":
                moved = int(rate * (end - begin) * rng.uniform(0.3, 0.45))
            events.append([name, float(begin), float(end), moved])
        step_begins += work * rng.uniform(1.7, 1.9)
    return sorted(events, key=lambda event: event[1]), rate


def _times(events: list[list[Any]], rate: float) -> dict[str, float]:
    """Return the times [s] in the formulas for right and wrong answers about a trace."""
    edges = np.unique(
        [event[1:3] for event in events]
    )  # (P + 1,) ends of pieces in which nothing changes
    length = np.diff(edges)  # (P,) [s]
    begins = np.array([event[1] for event in events])[:, None]
    ends = np.array([event[2] for event in events])[:, None]
    runs = (begins <= edges[:-1]) & (edges[:-1] < ends)  # (E, P) whether an event runs in a piece
    computes = np.array([event[0] == "compute" for event in events])  # (E,)

    transfers = runs[~computes].sum(axis=0)  # (P,) collectives that run
    busy = transfers > 0
    working = runs[computes].any(axis=0)
    counted = {
        "whole": np.ones(length.size),
        "comm": busy,
        "each": transfers,
        "alone": busy & ~working,
        "hidden": busy & working,
        "twice": np.where(working, 0, transfers),
        "idle": ~working,
        "computing": working,
        "computes": runs[computes].sum(axis=0),
    }
    times = {name: float(length @ count) for name, count in counted.items()}
    times["moved"] = sum(event[3] for event in events) / rate
    times["last"] = events[-1][2] - events[0][1]
    times["end"] = float(edges[-1])
    return times


def _rates(name: str, size: int, time: float, n: int) -> dict[str, float]:
    """Return the quantities in the formulas for right and wrong rates of a collective."""
    factor = bus_factor(name, n)
    passes = 1  # of the array through the port of a rank
    factor_as_2 = factor
    if name == "all_reduce":
        passes = 2
        factor_as_2 = 2.0
    whole_factor = 1  # what is left of the factor if // divides
    if name in _WHOLE:
        whole_factor = passes * (n - 1) // n
    return {
        "size": float(size),
        "time": time,
        "plain": size / time,
        "n": n,
        "factor": factor,
        "passes": passes,
        "part": factor / passes,  # of the array that a pass moves
        "factor_as_2": factor_as_2,
        "whole_factor": whole_factor,
        "blocks": n if name in _WHOLE else 1,
    }


def _used_and_exposed(trace: Trace) -> list[float]:
    """Return the two fractions of the whole time that a question asks of a trace."""
    times = _times(*trace)
    return [times["moved"] / times["whole"], times["alone"] / times["whole"]]


@register("question", "ex1-b", example=_trace)
def rates(ask: Ask, rng: Rng) -> Verdict:
    """Judge rates as nccl-tests defines them, for six collectives, and the use of a link in two traces."""
    algbw = list[JudgedCase]()
    busbw = list[JudgedCase]()
    for name in (*_WHOLE, "broadcast", "reduce"):
        for n in rng.choice([3, 4, 6, 8], 2, False).tolist():
            size = int(2 ** rng.integers(20, 31))
            time = float(rng.uniform(1e-3, 0.05))
            quantities = _rates(name, size, time, n)
            algbw.append(JudgedCase((size, time), quantities))
            busbw.append(JudgedCase((name, size, time, n), quantities))

    traces = apart(lambda: _trace(rng), _used_and_exposed, 1.03)
    loops = [JudgedCase(trace, _times(*trace)) for trace in traces]
    return judge(
        ask,
        NumberPart("ex1-b", "algbw", algbw),
        NumberPart("ex1-b", "busbw", busbw),
        NumberPart("ex1-b", "used", loops),
        NumberPart("ex1-b", "exposed", loops),
    )


# ex1-d -----------------------------------------------------------------------------------------------------------

Record = dict[str, Any]  # what was recorded of a job
Figures = Mapping[str, float]  # by the names of _FIGURES

_FIGURES = ("alpha_share", "nic_use", "uplink_use", "late_share", "byte_skew")
# illustrative: cause -> its decisive figure, and from where to where each figure of such a job may lie
_CAUSES = {row["cause"]: row for row in rows_of("causes.csv", __file__)}
_ALIKE = (("bandwidth", "skew"), ("bandwidth", "oversubscription"), ("latency", "straggler"))
# The cause and what was answered -> why; see also `_confusion`.
_CONFUSED = {
    ("skew", "bandwidth"): "full NIC means bandwidth",
    ("oversubscription", "bandwidth"): "NIC blamed for the uplink",
    ("latency", "bandwidth"): "bandwidth blamed for many steps",
    ("latency", "straggler"): "start-up time overlooked",
    ("latency", "oversubscription"): "start-up time overlooked",
}
_BESIDE = "evidence beside the point"
_RANKS = 8  # of a recorded job
_STEPS = 14  # of each of its all-reduces: 2 (n - 1)


def _record(rng: Rng, cause: str) -> Record:
    """Draw the record of a job whose all-reduces suffer from ``cause``."""
    limits = np.array([_CAUSES[cause][name].split(" to ") for name in _FIGURES], float)  # (5, 2)
    alpha_share, nic_use, uplink_use, late_share, byte_skew = rng.uniform(*limits.T)
    ops = int(rng.integers(20, 40))
    alpha = rng.uniform(5e-6, 15e-6)  # [s]
    nic_rate = rng.uniform(20e9, 60e9)  # illustrative: of no real job [B/s]
    uplink_rate = rng.uniform(60e9, 200e9)  # illustrative: of no real job [B/s]

    # How long each all-reduce takes once the last rank has come, and how long the first rank waits for it.
    length = alpha * _STEPS / alpha_share * (1 + 0.02 * rng.uniform(-1, 1, ops))  # (ops,) [s]
    mean_wait = length.mean() * late_share / (1 - late_share)
    wait = mean_wait * (1 + 0.05 * rng.uniform(-1, 1, ops))  # (ops,) [s]
    enter = _arrivals(rng, wait, same_rank_late=cause == "straggler")  # (ops, ranks) [s]
    early = rng.uniform(0, 0.02, (ops, _RANKS))  # parts of the shortest all-reduce
    early[:, rng.integers(_RANKS)] = 0
    leave = (wait + length)[:, None] - length.min() * early  # (ops, ranks) [s]
    begin = np.cumsum(1.3 * (wait + length))[:, None]  # (ops, 1) [s]

    sent = _bytes_sent(rng, byte_skew)  # (ranks,)
    uplinks = rng.permutation([1, *rng.uniform(0.8, 0.95, 3)])  # (4,)
    nic_bytes = sent / sent.max() * nic_use * nic_rate * length.sum()
    uplink_bytes = uplinks * uplink_use * uplink_rate * length.sum()
    return {
        "enter": (begin + enter).tolist(),
        "leave": (begin + leave).tolist(),
        "alpha": float(alpha),
        "steps": _STEPS,
        "bytes": [int(b) for b in nic_bytes],
        "nic_rate": float(nic_rate),
        "uplink_bytes": [int(b) for b in uplink_bytes],
        "uplink_rate": float(uplink_rate),
    }


def _arrivals(rng: Rng, wait: Floats, *, same_rank_late: bool) -> Floats:
    """Draw how long after the first rank each one enters, (ops, ranks) [s]; in each row one is late by ``wait``."""
    ops = np.arange(wait.size)
    if same_rank_late:
        late = np.full(wait.size, rng.integers(_RANKS))
    else:
        late = rng.integers(_RANKS, size=wait.size)
    enter = rng.uniform(0.05, 0.3, (wait.size, _RANKS)) * wait[:, None]
    enter[ops, late] = wait
    enter[ops, (late + 1) % _RANKS] = 0
    return enter


def _bytes_sent(rng: Rng, skew: float) -> Floats:
    """Draw what each rank sends, in relative numbers; one of them is ``skew`` times the mean over all."""
    sent = 1 + 0.01 * rng.uniform(-1, 1, _RANKS)
    hot = rng.integers(_RANKS)
    others = sent.sum() - sent[hot]
    sent[hot] = skew * others / (_RANKS - skew)
    return sent


def _figures(
    record: Mapping[str, Any],
    start: Callable[..., Any] = np.max,
    over: Callable[..., Any] = np.max,
    least: Callable[..., Any] = np.mean,
    wait: float | None = None,
    work: float | None = None,
) -> dict[str, float]:
    """Return the five figures of a job; the defaults give the right ones.

    Parameters
    ----------
    record : mapping
        The record of the job.
    start : function
        Gives the start of an all-reduce's work from the times at which ranks enter; the last rank has to be there.
    over : function
        Selects which port, and which late rank, counts.
    least : function
        Gives the number, from the bytes of all ranks, with which the largest is compared.
    wait, work : float, optional
        Sums over all operations in place of those that follow from the above. [s]
    """
    enter = np.array(record["enter"])  # (ops, ranks) [s]
    first = enter.min(axis=1)
    end = np.array(record["leave"]).max(axis=1)  # (ops,)
    busy = float((end - start(enter, axis=1)).sum()) if work is None else work
    late_share = float((over(enter, axis=1) - first).sum() / (end - first).sum())
    if wait is not None or work is not None:
        waited = float((enter.max(axis=1) - first).sum()) if wait is None else wait
        late_share = waited / (waited + busy)
    return {
        "alpha_share": len(end) * record["steps"] * record["alpha"] / busy,
        "nic_use": float(over(record["bytes"])) / record["nic_rate"] / busy,
        "uplink_use": float(over(record["uplink_bytes"])) / record["uplink_rate"] / busy,
        "late_share": late_share,
        "byte_skew": max(record["bytes"]) / float(least(record["bytes"])),
    }


@dataclass(frozen=True, slots=True)
class Job:
    """One case: the record of a job that is slow for a known cause, and its right figures."""

    cause: str
    record: Record
    figures: Figures
    call: Call  # of the function that is judged

    @property
    def decisive(self) -> str:
        """Name of the figure that proves the cause."""
        return _CAUSES[self.cause]["decisive"]


class CausePart(QuestionPart):
    """The cause that slows a job down, by its name."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__("ex1-d", "cause", 0.5, [job.call for job in jobs], sets=len(_ALIKE))
        self.jobs = jobs
        self.evidence = EvidencePart(jobs)
        self._figures = dict[int, Figures]()  # that came with the cause, by case

    def read(self, case: int, value: Any) -> str:
        """Return the cause that the answer names."""
        cause = one_of_pair(value, 0)
        if not isinstance(cause, str) or cause.strip().lower() not in _CAUSES:
            raise Misread(message(1, "cause.kind", known=", ".join(_CAUSES), got=brief(cause)))
        with contextlib.suppress(Misread):
            self._figures[case] = self.evidence.read(case, value)
        return cause.strip().lower()

    def is_right(self, case: int, answer: str) -> bool:
        """Return whether this is the cause."""
        return answer == self.jobs[case].cause

    def mistakes(self, case: int, answer: str) -> list[str]:
        """Return the mistakes in the figures that led to this cause, and the one that confuses the two causes."""
        found = list[str]()
        if case in self._figures:
            found = self.evidence.mistakes(case, self._figures[case])
        # True figures do not explain a wrong cause.
        found = [mistake for mistake in found if mistake != _BESIDE]
        mistake = _confusion(self.jobs[case].cause, answer)
        return [*found, mistake] if mistake else found

    def off(self, case: int, answer: str) -> str:
        """Return a sentence with the true cause."""
        return message(1, "cause.off", got=answer, cause=self.jobs[case].cause)

    def step(self, case: int, answer: str, mistake: str) -> str:
        """Return a sentence on the figure that stands out."""
        job = self.jobs[case]
        proof = shown(job.figures[job.decisive])
        return message(1, "cause.step", decisive=job.decisive, proof=proof)

    def written(self, case: int, answer: Any = None) -> str:
        """Return the call, and which of the two values is meant."""
        return f"{super().written(case)}[0]"


class EvidencePart(QuestionPart):
    """Two true figures of a job, including the decisive one; the part counts only if the cause is right."""

    within = 0.02
    recognised = (
        0.006  # as far as three digits tell; there are many mistakes, so some lie near each other
    )

    def __init__(self, jobs: Sequence[Job]) -> None:
        calls = [job.call for job in jobs]
        super().__init__("ex1-d", "evidence", 0.5, calls, sets=len(_ALIKE), after=True)
        self.jobs = jobs

    def read(self, case: int, value: Any) -> Figures:
        """Return the two figures, name -> value."""
        value = one_of_pair(value, 1)
        if not isinstance(value, dict) or len(value) != 2 or not value.keys() <= set(_FIGURES):
            known = ", ".join(_FIGURES)
            raise Misread(message(1, "evidence.kind", known=known, got=brief(value)))
        return {str(name): number(figure, "") for name, figure in value.items()}

    def is_right(self, case: int, answer: Figures) -> bool:
        """Return whether both figures are true and the decisive one is among them."""
        job = self.jobs[case]
        return job.decisive in answer and not self._wrong(answer, job.figures)

    def mistakes(self, case: int, answer: Figures) -> list[str]:
        """Return the mistakes that explain all wrong figures."""
        job = self.jobs[case]
        wrong = self._wrong(answer, job.figures)
        if not wrong:
            return [_BESIDE]
        known = _figures_by_mistake(job)
        return [
            mistake
            for mistake, figures in known.items()
            if not self._wrong(wrong, figures, self.recognised)
        ]

    def _wrong(self, answer: Figures, figures: Figures, within: float = within) -> Figures:
        """Return those figures of an answer that differ from ``figures``."""
        return {
            name: value for name, value in answer.items() if not near(value, figures[name], within)
        }

    def seen(self, case: int, answer: Figures) -> str:
        """Return a sentence with the two figures."""
        return text("ex.seen", call=self.written(case, answer), got=shown(answer))

    def off(self, case: int, answer: Figures) -> str:
        """Return a sentence with the two figures and their right values."""
        return message(
            1,
            "evidence.off",
            got=shown(answer),
            percent=f"{100 * self.within:g}",
            decisive=self.jobs[case].decisive,
        )

    def step(self, case: int, answer: Figures, mistake: str) -> str:
        """Return a sentence with the cause and all figures."""
        job = self.jobs[case]
        return message(1, "evidence.step", cause=job.cause, all=shown(job.figures))

    def written(self, case: int, answer: Any = None) -> str:
        """Return the call, and which of the two values is meant."""
        return f"{super().written(case)}[1]"


def _confusion(cause: str, answer: str) -> str:
    """Return the name of the mistake that confuses a cause with another one, if it is known."""
    if cause == "straggler" and answer != "skew":
        return "straggler taken for the network"
    if answer == "skew":
        return "byte_skew taken for a part"
    return _CONFUSED.get((cause, answer), "")


def _figures_by_mistake(job: Job) -> dict[str, Figures]:
    """Return the figures that each known mistake gives for a job."""
    record = job.record
    right = job.figures
    share_of_one_step = right["alpha_share"] / record["steps"]
    late_share = right["late_share"]
    enter = np.array(record["enter"])  # (ops, ranks) [s]
    leave = np.array(record["leave"])  # (ops, ranks) [s]
    waits_of_all = float((enter.max(axis=1, keepdims=True) - enter).sum())
    stays_of_all = float((leave - enter).sum())
    works_of_all = float((leave - enter.max(axis=1, keepdims=True)).sum())
    work = float((leave.max(axis=1) - enter.max(axis=1)).sum())
    # As if a row were a rank, and a column an operation.
    wait_in_columns = float(np.ptp(enter, axis=0).sum())
    work_in_columns = float((leave.max(axis=0) - enter.max(axis=0)).sum())
    ports_added = {
        **right,
        "nic_use": right["nic_use"] * sum(record["bytes"]) / max(record["bytes"]),
        "uplink_use": right["uplink_use"]
        * sum(record["uplink_bytes"])
        / max(record["uplink_bytes"]),
    }
    return {
        "waiting counted as work": _figures(record, start=np.min),
        "mean for the fullest": _figures(record, over=np.mean),
        "largest over smallest": _figures(record, least=np.min),
        "steps forgotten": {**right, "alpha_share": share_of_one_step},
        "operations forgotten": {**right, "alpha_share": right["alpha_share"] / len(enter)},
        "waiting held against work": {**right, "late_share": late_share / (1 - late_share)},
        "ranks added up": _figures(record, wait=waits_of_all),
        "ranks added up/stays": _figures(record, work=stays_of_all),
        "ranks added up/works": _figures(record, wait=waits_of_all, work=works_of_all),
        "ranks added up/works only": _figures(record, work=works_of_all),
        "ranks added up/stays too": _figures(record, wait=waits_of_all, work=stays_of_all),
        "ports added up": ports_added,
        "time of the job for work": _figures(record, work=float(leave.max() - enter.min())),
        "operations taken for ranks": _figures(record, wait=wait_in_columns, work=work),
        "operations taken for ranks/x": _figures(
            record, wait=wait_in_columns, work=work_in_columns
        ),
        "operations taken for ranks/work": _figures(record, work=work_in_columns),
        "bits for bytes/x": _scaled(right, 8),
        "bits for bytes": _scaled(right, 1 / 8),
        "percent for a part": _scaled(right, 100),
    }


def _scaled(figures: Figures, factor: float) -> Figures:
    """Return all figures times a factor."""
    return {name: factor * value for name, value in figures.items()}


def _examples(rng: Rng) -> dict[str, Record]:
    """Return the record of one job for each cause."""
    return {cause: _record(rng, cause) for cause in _CAUSES}


def _causes(rng: Rng) -> list[str]:
    """Return all causes in random order: one of each pair that looks alike, then the others in the same order."""
    pairs = rng.permutation(rng.permuted(_ALIKE, axis=1))  # (pairs, 2)
    return [*pairs[:, 0].tolist(), *pairs[:, 1].tolist()]


@register("question", "ex1-d", example=_examples)
def bottleneck(ask: Ask, rng: Rng) -> Verdict:
    """Judge the diagnosis of jobs, pairs of which look alike: the cause, and two true figures, one of them decisive."""
    jobs = list[Job]()
    for cause in _causes(rng):
        record = _record(rng, cause)
        call = Call("bottleneck", (record,))
        jobs.append(Job(cause, record, _figures(record), call))
    return judge(ask, CausePart(jobs), EvidencePart(jobs))
