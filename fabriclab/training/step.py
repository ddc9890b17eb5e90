"""The time of a training step: computation, what is sent, and what of it nothing hides.

Examples
--------
The step of the running case, from its own rates:

>>> import fabriclab as fl
>>> from fabriclab import training
>>> step = training.of_case(fl.case())
>>> round(step.time, 2)
4.6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog.running_case import Case
from fabriclab.core import ReadOnly, Value, as_html
from fabriclab.systems import System
from fabriclab.training import kernels
from fabriclab.training.kernels import Computation, Machine, Roofline
from fabriclab.training.places import NETWORK, SCALE_UP, Costs, Place, RateCosts, costs_of_case
from fabriclab.workload import layouts, models
from fabriclab.workload.layouts import Layout
from fabriclab.workload.models import Model
from fabriclab.workload.volumes import Collective, volumes

__all__ = [
    "DOUBLED",
    "PARTS",
    "Phase",
    "Pieces",
    "Schedule",
    "StageTimes",
    "Step",
    "ask",
    "of_case",
    "train_step",
]

PARTS = {
    "compute": "computation of the slowest stage",
    "tensor": "sums inside layers",
    "context": "keys and values of divided sequences",
    "experts": "tokens on their way to experts and back",
    "pipeline": "activations between stages",
    "bubble": "waiting for the first and the last micro-batch to pass all stages",
    "parameters": "parameters that are gathered",
    "gradients": "sums of gradients",
    "optimiser": "update of the parameters",
}
DOUBLED = ("compute", "memory", SCALE_UP, NETWORK)
_INSIDE = {"tensor": "tensor", "table": "tensor", "context": "context", "experts": "experts"}
_STATE = {
    "gradients": "gradients",
    "expert_gradients": "gradients",
    "tied_table": "gradients",
    "parameters": "parameters",
    "expert_parameters": "parameters",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What software hides behind computation, and how it sends tokens to experts.

    Parameters
    ----------
    tensor : bool
        Whether the sums of tensor parallelism are sent in as many pieces as there are ranks while products are
        computed: then the first piece, and what products are too short for, is exposed.
    context : bool
        Whether keys and values of other ranks arrive while attention computes with those that are there.
    experts : float
        Part of the exchange with experts that is hidden behind another micro-batch. 0..1
    once : bool
        Whether a token goes once to each rank, or across the network to each domain, even if several of its experts are
        there, as dispatchers such as DeepEP do.
    domains : int
        To how many domains a token is sent at most, if the router limits them; 0: no limit.
    gradients : bool
        Whether gradients are summed while the last backward pass computes, and parameters gathered during the first
        forward pass.
    pipeline : bool
        Whether messages of an interleaved pipeline are sent while another chunk is computed.
    tables : bool
        Whether tables of tokens count as parts of their own: with sums inside them and buckets of their gradients.
        False: their parameters are a part of all buckets alike, as in the running case.
    """

    tensor: bool = False
    context: bool = True
    experts: float = 0.0
    once: bool = False
    domains: int = 0
    gradients: bool = True
    pipeline: bool = True
    tables: bool = True


class Phase(NamedTuple):
    """A part of a step on its slowest stage: name, start and finish [s]."""

    name: str
    start: float
    finish: float


class StageTimes(NamedTuple):
    """What one micro-batch costs on one stage: computation forward and backward, and exposed communication by part.

    ``exposed`` has the parts ``"tensor"``, ``"context"``, ``"experts"`` and ``"pipeline"`` of both passes. [s]
    """

    forward: float
    backward: float
    exposed: Mapping[str, float]

    @property
    def compute(self) -> float:
        """Computation of both passes. [s]."""
        return self.forward + self.backward

    @property
    def waits(self) -> float:
        """Exposed communication of both passes. [s]."""
        return sum(self.exposed.values())

    @property
    def time(self) -> float:
        """Both passes, with what they wait for. [s]."""
        return self.compute + self.waits


class Pieces(NamedTuple):
    """What a step is put together from, as one would note it on paper: of its slowest stage, in seconds.

    Parameters
    ----------
    compute : float
        Computation of one micro-batch, both passes. [s]
    sums : float
        What a micro-batch waits for communication that nothing hides, mostly sums of tensor parallelism. [s]
    microbatches, stages, chunks : int
        Micro-batches of a replica, stages of its pipeline, and parts of the model on each stage.
    gradients : float
        Time to sum all gradients, and with sharding to gather the new parameters. [s]
    overlap : float
        How much of that the passes can hide at most. [s]
    last : float
        What is exposed in any case: the bucket that is ready when the backward pass ends, or needed when the forward
        pass begins. [s]
    """

    compute: float
    sums: float
    microbatches: int
    stages: int
    chunks: int
    gradients: float
    overlap: float
    last: float


@dataclass(frozen=True, eq=False)
class Step(Value):
    """A training step: its time, what it consists of, and what would change it.

    Parameters
    ----------
    model, layout : Model, Layout
        What is trained, and how it is divided.
    ranks : int
        Number of accelerators.
    time, low, high : float
        Time of the step and its band. [s]
    parts : mapping of str to float
        What the slowest stage spends the step on, by name in `PARTS`; they add up to ``time``. Of communication only
        what is exposed counts. [s]
    sent : mapping of str to float
        How long communication takes in all, hidden or not, by the same names. [s]
    tiers : mapping of str to str
        What carries it: ``"scale-up"`` or ``"network"``.
    peak : float
        Peak rate in the precision of the products, for `mfu`; 0 if unknown. [FLOP/s]
    stages : tuple of StageTimes
        What a micro-batch costs on each stage, (pp,).
    windows : mapping of str to (float, float)
        How much of ``"gradients"`` and ``"parameters"`` the passes can hide at most, and what is exposed in any case.
        [s]
    """

    model: Model
    layout: Layout
    ranks: int
    time: float
    low: float
    high: float
    parts: Mapping[str, float]
    sent: Mapping[str, float]
    tiers: Mapping[str, str]
    peak: float
    stages: tuple[StageTimes, ...]
    windows: Mapping[str, tuple[float, float]]
    _again: _Question

    @property
    def costs(self) -> Costs | RateCosts:
        """Times of collectives that the step was computed with."""
        return self._again.costs

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.layout.batch * self.layout.length(self.model)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second, all accelerators together [1/s]."""
        return self.tokens / self.time

    @property
    def flops_per_gpu(self) -> float:
        """Operations of the model per second on each accelerator, recomputation not counted [FLOP/s]."""
        each = self.model.flops(self.layout.length(self.model)).model
        return each * self.tokens_per_second / self.ranks

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: `flops_per_gpu` as a part of the peak rate; NaN without one."""
        return self.flops_per_gpu / self.peak if self.peak else float("nan")

    @property
    def exposed(self) -> Mapping[str, float]:
        """Communication that nothing hides, by kind [s]."""
        kinds = ("tensor", "context", "experts", "pipeline", "parameters", "gradients")
        return ReadOnly({name: self.parts[name] for name in kinds})

    @property
    def timeline(self) -> tuple[Phase, ...]:
        """Phases of the slowest stage, one after another; computation and waits of micro-batches take turns inside."""
        order = (
            "parameters",
            "bubble",
            "compute",
            "tensor",
            "context",
            "experts",
            "pipeline",
            "gradients",
            "optimiser",
        )
        now = 0.0
        phases = []
        for name in order:
            if self.parts[name] > 0:
                phases.append(Phase(name, now, now + self.parts[name]))
                now += self.parts[name]
        return tuple(phases)

    @property
    def slowest(self) -> StageTimes:
        """The stage on which a micro-batch takes longest: the others wait for it."""
        return max(self.stages, key=lambda stage: stage.time)

    @property
    def pieces(self) -> Pieces:
        """What the step is put together from on paper; stages that are not the slowest count as slow as it."""
        slowest = self.slowest
        gradients = sum(self.sent.get(name, 0.0) for name in self.windows)
        return Pieces(
            compute=slowest.compute,
            sums=slowest.waits,
            microbatches=self.layout.microbatches,
            stages=self.layout.pp,
            chunks=self.layout.chunks,
            gradients=gradients,
            overlap=sum(overlap for overlap, _ in self.windows.values()),
            last=sum(last for _, last in self.windows.values()),
        )

    def faster(self, what: str) -> Step:
        """Return the step with one thing twice as fast: ``"compute"``, ``"memory"``, ``"scale-up"`` or ``"network"``.

        The layout stays as it is, so this is what a purchase would change before anybody changes the software.
        """
        return self._again.doubled(units.choice(what, "what", DOUBLED)).answer()

    def again(self, layout: Layout) -> Step:
        """Return the step of the same model with another layout, at the same rates of computation and communication."""
        layouts.check(layout, self.model)
        return replace(self._again, layout=layout).answer()

    def doubled(self) -> Mapping[str, float]:
        """Return the time of the step if one thing were twice as fast, for each of `DOUBLED`. [s]."""
        return ReadOnly({what: self.faster(what).time for what in DOUBLED})

    @property
    def binds(self) -> str:
        """The resource that shortens the step most if it is twice as fast: compute, memory, scale-up or network."""
        times = self.doubled()
        return min(times, key=times.__getitem__)

    def __repr__(self) -> str:
        """Show the time with its band, and the largest exposed communication."""
        time = units.format_time(self.time)
        low = units.format_time(self.low)
        high = units.format_time(self.high)
        share = f", {units.format_share(self.mfu)} of peak" if self.peak else ""
        return f"<Step of {self.model.name} on {self.ranks:,} GPUs ({self.layout}): {time} ({low} to {high}){share}>"

    def _repr_html_(self) -> str:
        rows = [("part", "time", "sent in all")]
        for name, time in self.parts.items():
            sent = units.format_time(self.sent[name]) if name in self.sent else ""
            rows.append((name, units.format_time(time), sent))
        return as_html(rows, repr(self))


@dataclass(frozen=True, eq=False)
class _Question:
    """All that a step depends on, so that it can be asked again with one thing changed."""

    model: Model
    layout: Layout
    computation: Computation
    costs: Costs | RateCosts
    schedule: Schedule
    peak: float

    def doubled(self, what: str) -> _Question:
        """Return the question with one resource twice as fast."""
        if what in (SCALE_UP, NETWORK):
            return replace(self, costs=self.costs.doubled(what))
        return replace(self, computation=self.computation.doubled(what))

    def answer(self) -> Step:
        """Return the step."""
        return _Evaluation(self).step()


class _Evaluation:
    """Compute a step from its ledger, stage by stage."""

    def __init__(self, asked: _Question) -> None:
        self.asked = asked
        self.model = asked.model
        self.layout = asked.layout
        self.schedule = asked.schedule
        self.ledger = volumes(asked.model, asked.layout)
        self.times = asked.computation.layers(asked.model, asked.layout)
        self.places: dict[tuple[str, bool], Place] = {}
        self.sent = dict.fromkeys(PARTS, 0.0)
        self.tiers: dict[str, str] = {}
        self.windows: dict[str, tuple[float, float]] = {}
        self.bands: list[tuple[float, float, float]] = []  # time, and its band as factors

    def step(self) -> Step:
        """Return the step."""
        layout = self.layout
        stages = [self.stage(number) for number in range(layout.pp)]
        slowest = max(range(layout.pp), key=lambda number: stages[number].time)
        found = stages[slowest]
        m = layout.microbatches

        parts = dict.fromkeys(PARTS, 0.0)
        parts["compute"] = m * (found.forward + found.backward)
        for name, time in found.exposed.items():
            parts[name] += m * time
        others = sum(stage.time for stage in stages) - found.time
        parts["bubble"] = others / layout.chunks
        # The first stage ends last; it has the gradients that come last, too.
        self.state(0, stages[0], parts)
        parts["optimiser"] = self.optimiser()

        time = sum(parts.values())
        low, high = self.band(parts)
        lines = self.lines_time(slowest)
        return Step(
            model=self.model,
            layout=layout,
            ranks=layout.ranks,
            time=time,
            low=low,
            high=high,
            parts=ReadOnly(parts),
            sent=ReadOnly(lines),
            tiers=ReadOnly(dict(self.tiers)),
            peak=self.asked.peak,
            stages=tuple(stages),
            windows=ReadOnly(self.windows),
            _again=self.asked,
        )

    # ---- one micro-batch -----------------------------------------------------------------------------------------

    def stage(self, number: int) -> StageTimes:
        """Return the times of a micro-batch on a stage."""
        layers = self.layout.stages(self.model)[number]
        forward = float(self.times.forward[layers].sum())
        backward = float(self.times.backward[layers].sum())
        if number == self.layout.pp - 1:
            forward += self.times.head_forward
            backward += self.times.head_backward
        exposed = dict.fromkeys(("tensor", "context", "experts", "pipeline"), 0.0)
        sums: dict[str, float] = dict.fromkeys(exposed, 0.0)
        for line in self.ledger.only(*_INSIDE, "pipeline", stage=number):
            if line.purpose == "table" and not self.schedule.tables:
                continue
            time = self.cost(line) * line.count / self.layout.microbatches
            sums[_INSIDE.get(line.purpose, "pipeline")] += time
        exposed["tensor"] = self.exposed_tensor(sums["tensor"], forward + backward)
        attention = (1 + kernels.ATTENTION_BACKWARD) * float(self.times.attention[layers].sum())
        exposed["context"] = sums["context"]
        if self.schedule.context:
            first = sums["context"] / self.layout.cp
            exposed["context"] = max(first, sums["context"] - attention)
        exposed["experts"] = (1 - self.schedule.experts) * sums["experts"]
        exposed["pipeline"] = sums["pipeline"]
        if self.schedule.pipeline and self.layout.chunks > 1:
            exposed["pipeline"] = max(0.0, sums["pipeline"] - forward - backward)
        return StageTimes(forward, backward, ReadOnly(exposed))

    def exposed_tensor(self, sent: float, computed: float) -> float:
        """Return what is exposed of the sums of tensor parallelism in a micro-batch. [s]."""
        if not self.schedule.tensor or self.layout.tp == 1:
            return sent
        return max(sent / self.layout.tp, sent - computed)

    def cost(self, line: Collective) -> float:
        """Return the time of one collective of a line. [s]."""
        key = (line.group, line.operation == "send")
        if key not in self.places:
            self.places[key] = self.asked.costs.place(self.layout, line)
        place = self.places[key]
        size = line.size
        if line.purpose == "experts" and line.operation == "all_to_all" and self.schedule.once:
            size *= self.copies(place)
        name = _INSIDE.get(line.purpose) or _STATE.get(line.purpose, "pipeline")
        if self.tiers.get(name) != NETWORK:
            self.tiers[name] = place.tier
        time = self.asked.costs.time(line.operation, size, place)
        low, high = self.asked.costs.band(line.operation, size, place)
        self.bands.append((time * line.count, low, high))
        return time

    def copies(self, place: Place) -> float:
        """Return how many copies of a token are sent as a part of its experts, each rank or domain counted once.

        Experts are taken to be drawn at random: k draws among n places meet n (1 - (1 - 1/n)^k) of them.
        """
        k = self.model.experts_per_token
        n = place.inside if place.domains == 1 else place.domains
        met = n * (1 - (1 - 1 / n) ** k)
        if self.schedule.domains and place.domains > 1:
            met = min(met, float(self.schedule.domains))
        return met / k

    # ---- parameters and gradients --------------------------------------------------------------------------------

    def state(self, number: int, stage: StageTimes, parts: dict[str, float]) -> None:
        """Add what is exposed of parameters that are gathered and gradients that are summed."""
        for name in ("parameters", "gradients"):
            for moment in ("last backward", "before the forward"):
                parts[name] += self.exposed_once(name, moment, number, stage)
        for moment, computed in (("forward", stage.forward), ("backward", stage.backward)):
            lines = [
                line for line in self.ledger.only(*_STATE, stage=number) if line.moment == moment
            ]
            total = 0.0
            last = 0.0
            gathered = 0.0
            for line in lines:
                each = self.cost(line)
                total += each * line.count / self.layout.microbatches
                last = max(last, each)
                if _STATE[line.purpose] == "parameters":
                    gathered += each * line.count / self.layout.microbatches
            if not total:
                continue
            waits = total
            if self.schedule.gradients:
                window = self.window(computed, stage, "parameters")
                waits = max(0.0, total - window)
            share = gathered / total
            m = self.layout.microbatches
            parts["parameters"] += share * (m * waits + (last if self.schedule.gradients else 0.0))
            parts["gradients"] += (1 - share) * (
                m * waits + (last if self.schedule.gradients else 0.0)
            )

    def exposed_once(self, name: str, moment: str, number: int, stage: StageTimes) -> float:
        """Return what is exposed of collectives that run once in a step. [s]."""
        lines = [
            line
            for line in self.ledger.only(*_STATE, stage=number)
            if line.moment == moment and _STATE[line.purpose] == name
        ]
        total = 0.0
        buckets = 0
        last = 0.0
        for line in lines:
            each = self.cost(line)
            total += each * line.count
            buckets = max(buckets, line.layers)
            if line.layers > 1 or self.schedule.tables:
                last = max(last, each)
        if not total:
            return 0.0
        if not self.schedule.gradients:
            return total
        if not self.schedule.tables:
            last = total / buckets
        # Chunks of an interleaved pipeline end their last micro-batch one after another.
        stretch = (
            self.layout.chunks - 1
        ) * self.layout.pp / self.layout.chunks + 1 / self.layout.chunks
        computed = stage.backward if moment == "last backward" else stage.forward
        span = stretch * self.window(computed, stage, name)
        self.windows[name] = (span * (1 - 1 / buckets), last)
        return max(span / buckets + total, span + last) - span

    def window(self, computed: float, stage: StageTimes, name: str) -> float:
        """Return how long a pass of a micro-batch lets something else be sent. [s].

        Waits for what another tier carries count, those for the same tier do not: there both would share it.
        """
        share = computed / (stage.forward + stage.backward)
        tier = self.tiers.get(name, NETWORK)
        free = computed
        for other, time in stage.exposed.items():
            halves = 0.5 if other == "tensor" else share
            if self.tiers.get(other) != tier:
                free += halves * time
        return free

    def optimiser(self) -> float:
        """Return the time to update the parameters that a rank of the first stage keeps. [s]."""
        layout = self.layout
        layers = layout.stages(self.model)[0]
        routed = self.model.routed_parameters[layers].sum() / (layout.ep * layout.etp)
        dense = (self.model.layer_parameters - self.model.routed_parameters)[
            layers
        ].sum() / layout.tp
        dense += self.model.input_parameters / layout.tp
        if layout.sharding != "ddp":
            dense /= layout.shard
            routed /= layout.expert_shard
        return self.asked.computation.optimiser(float(dense + routed))

    # ---- summaries -----------------------------------------------------------------------------------------------

    def lines_time(self, number: int) -> dict[str, float]:
        """Return how long the communication of a stage takes in all, hidden or not, by part. [s]."""
        total: dict[str, float] = {}
        for line in self.ledger.only(stage=number):
            name = _INSIDE.get(line.purpose) or _STATE.get(line.purpose, "pipeline")
            total[name] = total.get(name, 0.0) + self.cost(line) * line.count
        return total

    def band(self, parts: Mapping[str, float]) -> tuple[float, float]:
        """Return the ends of the band of the step: those of computation and of exposed communication, added up. [s]."""
        computed = parts["compute"] + parts["bubble"] + parts["optimiser"]
        waits = sum(parts.values()) - computed
        weight = sum(time for time, _, _ in self.bands) or 1.0
        low = sum(time * factor for time, factor, _ in self.bands) / weight if self.bands else 1.0
        high = sum(time * factor for time, _, factor in self.bands) / weight if self.bands else 1.0
        below, above = self.asked.computation.spread
        return computed * below + waits * low, computed * above + waits * high


def ask(
    model: Model,
    layout: Layout,
    computation: Computation,
    costs: Costs | RateCosts,
    schedule: Schedule,
    peak: float = 0.0,
) -> Step:
    """Return a step from the times of computation and communication; `train_step` finds both for a cluster.

    Parameters
    ----------
    model, layout : Model, Layout
        What is trained, and how it is divided.
    computation : Computation
        Times of layers, such as `Roofline` or `Flat`.
    costs : Costs or RateCosts
        Times of collectives.
    schedule : Schedule
        What is hidden.
    peak : float
        Peak rate for the utilisation; 0: unknown. [FLOP/s]
    """
    return _Question(model, layout, computation, costs, schedule, peak).answer()


def train_step(
    model: Model,
    layout: Layout,
    system: System,
    *,
    precision: str = "bf16",
    computation: Computation | None = None,
    schedule: Schedule | None = None,
    slowdowns: Mapping[str, float] | None = None,
) -> Step:
    """Return how long a training step takes on a cluster, and why.

    Parameters
    ----------
    model, layout : Model, Layout
        What is trained, and how it is divided.
    system : System
        The cluster; the layout uses all of it.
    precision : str
        Of the products with weights, as in `Roofline`.
    computation : Computation, optional
        Times of layers; by default the best kernels at 80 % of their rate.
    schedule : Schedule, optional
        What the software hides.
    slowdowns : mapping of str to float, optional
        By what factor groups of a kind slow each other down on the cables of the fabric, as
        `fabriclab.training.contention.slowdowns` finds it. Without it the network never blocks.

    Returns
    -------
    Step
        The step with its parts.
    """
    layouts.check(layout, model, system.ranks)
    chip = _machine(system)
    known = computation or Roofline(machine=chip, precision=precision, efficiency=0.8)
    costs = Costs(system, slowdowns=ReadOnly(slowdowns or {}))
    asked = _Question(model, layout, known, costs, schedule or Schedule(), chip.peak(precision))
    return asked.answer()


def _machine(system: System) -> Machine:
    """Return the accelerator of a system."""
    return kernels.machine(str(system.row["accelerator"]))


def of_case(job: Case, *, layout: Layout | None = None, placement: ArrayLike | None = None) -> Step:
    """Return the step of a running case from its own rates, as lesson 00 shows it.

    Gradients are summed by one all-reduce per layer during the last backward pass; the layout of the case itself
    (`fabriclab.workload.layouts.of_case`) splits the sum and hides one half behind the next forward pass.

    Parameters
    ----------
    job : Case
        The running case, or one with other rows.
    layout : Layout, optional
        How the model is divided; by default as in the case, with whole gradients on each rank.
    placement : array_like of int, shape (ranks,), optional
        GPU of each rank; by default rank k sits on GPU k, so that tensor parallelism stays in servers.

    Examples
    --------
    Ranks dealt out to servers like cards: the GPUs that share a layer sit in eight servers.

    >>> import numpy as np
    >>> import fabriclab as fl
    >>> rank = np.arange(1024)
    >>> dealt = of_case(fl.case(), placement=rank % 128 * 8 + rank // 128)
    >>> round(dealt.time, 2), dealt.tiers["tensor"]
    (9.78, 'network')
    """
    model = models.of_case(job)
    asked = _Question(
        model,
        layout or layouts.of_case(job, sharding="ddp"),
        kernels.of_case(job),
        costs_of_case(job, placement),
        Schedule(tables=False),
        float(job.peak_bf16),
    )
    return asked.answer()
