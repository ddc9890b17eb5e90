"""Exercise 1, profile collectives: the cases of its five questions, and what each known mistake gives in them."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.catalog.tables import rows_of
from fabriclab.core import bus_factor
from fabriclab.course.judges import Ask, Rng, Verdict
from fabriclab.course.judges.shared.numbers import Misread, near, number
from fabriclab.registry import register
from fabriclab.texts import text

from .cases import Part, apart, judge, shown
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


@register(
    "question",
    "ex1-a",
    functions=("latency",),
    points=20,
    example=lambda rng: VirtualRanks(rng, _late(rng)),
)
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
    calls = [
        ("latency", _machine(seed, late).proxy(), size)
        for seed, late in zip(seeds, (who, ~who), strict=True)
        for size in sizes
    ]

    @functools.cache  # all calls are made before the first is looked at
    def read(i: int) -> Readings:
        return Readings(calls[i][1].target, calls[i][2])

    return judge(
        ask,
        Part(
            "latency",
            1.0,
            calls,
            lambda i, got: {},
            WITHIN,
            "time",
            sets=3,
            truth=[comm.target.true(size) for _, comm, size in calls],
            right=lambda i, got: len(read(i).rounds) >= FEW and near(got, read(i).truth, WITHIN),
            tags=lambda i, got: [*read(i).mistakes(got)],
            step=lambda i, got, name: read(i).step(got, name),
            remark=lambda i, got: read(i).remark(got),
        ),
    )


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


@register(
    "question", "ex1-b", functions=("algbw", "busbw", "utilisation"), points=20, example=_trace
)
def rates(ask: Ask, rng: Rng) -> Verdict:
    """Judge the definitions of nccl-tests for six collectives, and the use of a link in two traces."""
    cases = [
        (name, int(2 ** rng.integers(20, 31)), float(rng.uniform(1e-3, 0.05)), int(n))
        for name in (*_WHOLE, "broadcast", "reduce")
        for n in rng.choice([3, 4, 6, 8], 2, False)
    ]
    rows = [
        {
            "size": float(size),
            "time": time,
            "plain": size / time,
            "n": n,
            "factor": bus_factor(name, n),
            "whole": name in _WHOLE,
            "pair": name == "all_reduce",
        }
        for name, size, time, n in cases
    ]

    def numbers(trace: Any) -> list[float]:
        times = _times(*trace)
        return [times[name] / times["whole"] for name in ("moved", "alone")]

    traces = apart(lambda: _trace(rng), numbers, 1.03)
    spent, use = [_times(*trace) for trace in traces], [("utilisation", *trace) for trace in traces]
    return judge(
        ask,
        Part(
            "algbw",
            0.2,
            [("algbw", *case[1:3]) for case in cases],
            lambda i, got: rows[i],
            0.01,
            "rate",
        ),
        Part(
            "busbw", 0.4, [("busbw", *case) for case in cases], lambda i, got: rows[i], 0.01, "rate"
        ),
        Part("used", 0.2, use, lambda i, got: spent[i], 0.01, place=0),
        Part("exposed", 0.2, use, lambda i, got: spent[i], 0.01, place=1),
    )


# ex1-d -----------------------------------------------------------------------------------------------------------

_FIGURES = ("alpha_share", "nic_use", "uplink_use", "late_share", "byte_skew")
# illustrative: cause -> its decisive figure, and from where to where each figure of such a job may lie
_CAUSES = {row["cause"]: row for row in rows_of("causes.csv", __file__)}
_ALIKE = (("bandwidth", "skew"), ("bandwidth", "oversubscription"), ("latency", "straggler"))
_CONFUSED = {
    (row["cause"], row["answer"]): row["mistake"] for row in rows_of("confused.csv", __file__)
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


def _evidence(value: Any) -> dict[str, float]:
    """Read two figures by name."""
    if not isinstance(value, dict) or len(value) != 2 or not value.keys() <= set(_FIGURES):
        raise Misread(text("ex1.evidence.kind", known=", ".join(_FIGURES), got=f"{value!r:.60}"))
    return {str(name): number(figure, "") for name, figure in value.items()}


def _cause(value: Any) -> str:
    if not isinstance(value, str) or value.strip().lower() not in _CAUSES:
        raise Misread(text("ex1.cause.kind", known=", ".join(_CAUSES), got=f"{value!r:.60}"))
    return value.strip().lower()


@register(
    "question",
    "ex1-d",
    functions=("bottleneck",),
    points=20,
    example=lambda rng: {cause: _job(rng, cause) for cause in _CAUSES},
)
def bottleneck(ask: Ask, rng: Rng) -> Verdict:
    """Judge a diagnosis of jobs that look alike in twos: the cause, and two true figures, the decisive one among."""
    causes = [str(cause) for cause in rng.permutation(rng.permuted(_ALIKE, axis=1)).T.flat]
    jobs, proofs = (
        [_job(rng, cause) for cause in causes],
        [_CAUSES[cause]["decisive"] for cause in causes],
    )
    true, calls = [_figures(job) for job in jobs], [("bottleneck", job) for job in jobs]

    def facts(i: int, got: Any) -> dict[str, Any]:
        proof = shown(true[i][proofs[i]])
        return {"cause": causes[i], "decisive": proofs[i], "proof": proof, "all": shown(true[i])}

    def spoiled(i: int, got: dict[str, float]) -> list[str]:
        job, f = jobs[i], true[i]
        slips = {
            "waiting counted as work": _figures(job, start=np.min),
            "mean for the fullest": _figures(job, over=np.mean),
            "largest over smallest": _figures(job, least=np.min),
            "steps forgotten": {**f, "alpha_share": f["alpha_share"] / job["steps"]},
            **{
                name: {key: factor * value for key, value in f.items()}
                for name, factor in (
                    ("bits for bytes/x", 8),
                    ("bits for bytes", 1 / 8),
                    ("percent for a part", 100),
                )
            },
        }
        off = {name: value for name, value in got.items() if not near(value, f[name], 0.02)}
        fits = [
            slip
            for slip, g in slips.items()
            if all(near(value, g[name], 0.02) for name, value in off.items())
        ]
        return fits if off else ["evidence beside the point"]

    def right(i: int, got: Any) -> bool:
        return proofs[i] in got and all(
            near(value, true[i][name], 0.02) for name, value in got.items()
        )

    return judge(
        ask,
        Part(
            "cause",
            0.5,
            calls,
            facts,
            0.02,
            place=0,
            sets=3,
            truth=causes,
            read=_cause,
            tags=lambda i, got: [
                _CONFUSED[pair] for pair in [(causes[i], got)] if pair in _CONFUSED
            ],
        ),
        Part(
            "evidence",
            0.5,
            calls,
            facts,
            0.02,
            place=1,
            sets=3,
            after=True,
            truth=true,
            read=_evidence,
            right=right,
            tags=spoiled,
        ),
    )
