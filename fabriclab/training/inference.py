"""Inference: how long a cluster reads a prompt and writes a token, what binds, and what a second box changes.

`serve` answers for a batch of requests. Reading a prompt (*prefill*) passes all its tokens through the layers at once;
writing (*decode*) passes one token of each request, and reads all weights for it. A `Serving` has both, and what a
metric makes of them.

Examples
--------
Llama 3.1 405B in bf16 on 8 MI300X, one request at a time; 8 H100 are too small:

>>> import fabriclab as fl
>>> from fabriclab.workload import layouts, models
>>> model = models.preset("Llama 3.1 405B")
>>> one = fl.training.serve(model, layouts.Layout(tp=8), fl.system(gpu="MI300X", servers=1))
>>> one.sums, one.binds
(252, 'memory')
>>> fl.training.serve(model, layouts.Layout(tp=8), fl.system(gpu="H100", servers=1))  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
fabriclab.errors.DoesNotFit: Llama 3 405B needs 101 GB of weights on each GPU of stage 0 as tp=8, cp=1, pp=1, dp=1...
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np

from fabriclab import units
from fabriclab.core import Floats, Ints, ReadOnly, Value, as_html
from fabriclab.errors import DoesNotFit
from fabriclab.systems import System
from fabriclab.training import kernels
from fabriclab.training.kernels import Machine, Roofline
from fabriclab.training.places import NETWORK, SCALE_UP, Costs, Place
from fabriclab.training.step import Step
from fabriclab.workload.layouts import Layout, check
from fabriclab.workload.memory import check_domain
from fabriclab.workload.models import Model, bytes_of
from fabriclab.workload.volumes import Collective, Ledger, table_parameters, volumes

__all__ = [
    "HALVED",
    "TOKEN_PARTS",
    "Handover",
    "Room",
    "Serving",
    "exchange",
    "handover",
    "largest_batch",
    "room_for_cache",
    "serve",
    "tolerable_latency",
]

TOKEN_PARTS = {
    "weights": "weights read from memory",
    "cache": "keys and values read from memory",
    "compute": "products and attention, where they take longer than reading",
    "activations": "numbers read and written between products",
    "latency": "start-up of collectives",
    "bandwidth": "bytes of collectives",
}
HALVED = ("memory", "compute", "latency", SCALE_UP, NETWORK)
#: Part of the memory that weights leave which servers give to the cache: the default of TensorRT-LLM
#: (kv_cache_free_gpu_mem_fraction). The rest holds activations and buffers.
USABLE = 0.9
#: Tokens of prompts that a pass takes at most: the default of TensorRT-LLM (max_num_tokens).
CHUNK = 8192
# Start-up of a kernel that sends tokens to experts directly and polls for theirs, in place of a start-up for each peer
# as NCCL's all-to-all has. Published latencies of DeepEP less the bytes that they count: the median of the dispatches
# to 16, 64 and 256 ranks, which the other rows of that table test (`fabriclab.validate.inference_report`).
EXCHANGE_STARTUP = 22e-6  # [s]
_LEAST = 1e-12


class Sums(Protocol):
    """Times of collectives: `Costs`, `RateCosts`, `LatencyCosts` or `SweepCosts`."""

    def doubled(self, tier: str) -> Self:
        """Return the same with twice the rate of a tier."""

    def place(self, layout: Layout, line: Collective) -> Place:
        """Return where a line of a ledger runs."""

    def split(self, operation: str, size: float, place: Place) -> tuple[float, float]:
        """Return the start-up of a collective and the time of its data. [s], [s]."""


class Room(NamedTuple):
    """Memory of the fullest GPU [B]: its weights, what they leave for the cache, and the cache of one request on it."""

    weights: float
    free: float
    request: float

    @property
    def requests(self) -> int:
        """Number of requests whose cache fits beside the weights."""
        return int(self.free / self.request)


class Handover(NamedTuple):
    """Cache of a prompt on its way from the GPUs that read it to those that write.

    Parameters
    ----------
    size : float
        Bytes of the cache of one prompt. [B]
    time : float
        Time to send it. [s]
    requests : float
        Requests per second that the link carries at most. [1/s]
    """

    size: float
    time: float
    requests: float


@dataclass(frozen=True, eq=False, kw_only=True)
class _Load:
    """All that an answer depends on, so that it can be asked again with one thing changed."""

    model: Model
    layout: Layout
    machine: Machine
    costs: Sums
    batch: int
    input_tokens: int
    output_tokens: int
    precision: str
    cache: str
    efficiency: float
    direct: bool  # experts by kernels that send directly
    start: float = 1.0  # factor of all start-ups, for what if

    def halved(self, what: str) -> _Load:
        """Return the load with the time of one thing halved: a rate doubled, or start-ups halved."""
        if what == "latency":
            return replace(self, start=self.start / 2)
        if what in ("memory", "compute"):
            return replace(self, machine=self.machine.doubled(what))
        return replace(self, costs=self.costs.doubled(what))

    def answer(self) -> Serving:
        """Return what a server does with this load."""
        return _Evaluation(self).serving()


@dataclass(frozen=True, eq=False)
class Serving(Value):
    """How one instance of a model serves a batch of equal requests.

    Parameters
    ----------
    model, layout : Model, Layout
        What is served, and how it is divided.
    batch : int
        Requests at the same time, all replicas of the layout together.
    input_tokens, output_tokens : int
        Tokens of each prompt, and of each answer.
    first : float
        Time to first token (TTFT): one prompt on an idle instance. [s]
    reading : float
        Time in which the prompts of the whole batch are read, one after another or together. [s]
    token : float
        Time per output token (TPOT) with the whole batch, at the middle of the answer. [s]
    parts : mapping of str to float
        What a token of every request spends its time on, by name in `TOKEN_PARTS`; they add up to ``token``. [s]
    reading_parts : mapping of str to float
        The same of ``reading``.
    sums : int
        Collectives that a token waits for, one after another.
    room : Room
        Memory of the fullest GPU.
    """

    model: Model
    layout: Layout
    batch: int
    input_tokens: int
    output_tokens: int
    first: float
    reading: float
    token: float
    parts: Mapping[str, float]
    reading_parts: Mapping[str, float]
    sums: int
    room: Room
    _again: _Load

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second that all requests get while they are written [1/s]."""
        return self.batch / self.token

    @property
    def each(self) -> float:
        """Tokens per second that one request gets while it is written [1/s]."""
        return 1 / self.token

    @property
    def completion(self) -> float:
        """Time until the whole batch is answered: reading, and a token after the other [s]."""
        return self.reading + (self.output_tokens - 1) * self.token

    @property
    def throughput(self) -> float:
        """Output tokens per second from the time to completion, as clients measure it [1/s].

        Under a steady load the same number comes out, because each request needs its share of both phases.
        """
        return self.batch * self.output_tokens / self.completion

    @property
    def cache(self) -> float:
        """Bytes of keys and values of all requests at their end [B]."""
        tokens = self.input_tokens + self.output_tokens
        return self.batch * self.model.cache_bytes(tokens, self._again.cache)

    def halved(self) -> Mapping[str, float]:
        """Return the time per token if one thing took half the time, for each of `HALVED`. [s]."""
        return ReadOnly({what: self._again.halved(what).answer().token for what in HALVED})

    @property
    def binds(self) -> str:
        """What shortens a token most if it takes half the time: memory, compute, latency, scale-up or network."""
        times = self.halved()
        return min(times, key=times.__getitem__)

    @cached_property
    def sent(self) -> Mapping[str, float]:
        """Bytes that a rank sends for one token of every request, by purpose [B]."""
        ledger = _Evaluation(self._again).decode_ledger
        purposes = {line.purpose for line in ledger}
        return ReadOnly({purpose: ledger.sent(purpose) for purpose in sorted(purposes)})

    def readers(self, each: float) -> int:
        """Return how many requests at a time still get so many tokens per second each, as far as their caches fit.

        Parameters
        ----------
        each : float
            Tokens per second that every request shall get. [1/s], > 0
        """
        if not (units.is_number(each) and each > 0):
            raise ValueError(
                f"each must be a number > 0, such as 15 tokens per second, got {each!r}"
            )
        low = 0
        high = largest_batch(self.room, self.layout) + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.replace(batch=middle).each >= each:
                low = middle
            else:
                high = middle
        return low

    def calibrated(self, throughput: float) -> Serving:
        """Return the same load with the efficiency that brings it to a published `throughput`.

        Parameters
        ----------
        throughput : float
            Output tokens per second from the time to completion. [1/s]

        Raises
        ------
        ValueError
            If the collectives alone take longer.
        """
        computed = self.completion - self.waiting
        left = self.batch * self.output_tokens / throughput - self.waiting
        if not left > 0:
            most = self.batch * self.output_tokens / self.waiting
            raise ValueError(
                f"throughput must be below the {most:.4g} tokens per second that collectives alone allow, got "
                f"{throughput!r}"
            )
        return self.replace(efficiency=self.efficiency * computed / left)

    @property
    def efficiency(self) -> float:
        """Part of the rate of the best kernels that the load was computed with."""
        return self._again.efficiency

    @property
    def waiting(self) -> float:
        """Time of the whole load that collectives take, those of prompts and of all tokens [s]."""
        passes = self.output_tokens - 1
        found = 0.0
        for name in ("latency", "bandwidth"):
            found += self.reading_parts[name] + passes * self.parts[name]
        return found

    def replace(
        self,
        *,
        batch: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        efficiency: float | None = None,
    ) -> Serving:
        """Return the answer to a load with some of its numbers changed; arguments and refusals as in `serve`."""
        load = self._again
        changed = replace(
            load,
            batch=load.batch if batch is None else units.count(batch, "batch"),
            input_tokens=_tokens(input_tokens, "input_tokens", load.input_tokens),
            output_tokens=_tokens(output_tokens, "output_tokens", load.output_tokens),
            efficiency=load.efficiency if efficiency is None else _positive(efficiency),
        )
        _check_fit(changed)
        return changed.answer()

    def __repr__(self) -> str:
        """Show the times of both phases, and the rate of tokens."""
        first = units.format_time(self.first)
        token = units.format_time(self.token)
        return (
            f"<Serving of {self.model.name} ({_short(self.layout)}), batch {self.batch:,}: first token after {first}, "
            f"then one each {token}; {self.tokens_per_second:,.4g} tokens/s>"
        )

    def _repr_html_(self) -> str:
        rows = [("part", "of a token", "of reading")]
        for name, time in self.parts.items():
            reading = units.format_time(self.reading_parts[name])
            rows.append((name, units.format_time(time), reading))
        return as_html(rows, repr(self))


def _tokens(given: int | None, name: str, before: int) -> int:
    """Return a number of tokens that was given, or the one before."""
    return before if given is None else units.count(given, name)


def _positive(efficiency: float) -> float:
    """Return an efficiency, or refuse it."""
    if not (units.is_number(efficiency) and efficiency > 0):
        raise ValueError(f"efficiency must be a number > 0, such as 0.8, got {efficiency!r}")
    return float(efficiency)


def _short(layout: Layout) -> str:
    """Return the parts of a layout that divide a model at inference."""
    shown = [f"{name}={getattr(layout, name)}" for name in ("tp", "pp", "dp", "ep")]
    return ", ".join(text for text in shown if not text.endswith("=1")) or "1 GPU"


class _Stage(NamedTuple):
    """Times of one pass through a stage [s], by part, and how many collectives it waits for."""

    parts: Mapping[str, float]
    sums: int

    @property
    def time(self) -> float:
        return sum(self.parts.values())


class _Evaluation:
    """Compute both phases of a load, pass by pass and stage by stage."""

    def __init__(self, load: _Load) -> None:
        self.load = load
        self.model = load.model
        self.layout = load.layout
        self.stages = load.layout.stages(load.model)
        self.weight = bytes_of(load.precision)
        self.roofline = Roofline(machine=load.machine, precision=load.precision)
        each = -(-load.batch // load.layout.dp)  # requests of a replica
        # Micro-batches that stages work on at the same time.
        self.groups = min(load.layout.pp, each)
        self.requests = -(-each // self.groups)  # of a micro-batch

    # ---- both phases ---------------------------------------------------------------------------------------------

    def serving(self) -> Serving:
        """Return both phases."""
        load = self.load
        written = [self.decode(stage) for stage in range(self.layout.pp)]
        parts = self.in_turn(written)
        one = self.prefill(1)
        whole = self.prefill(-(-load.batch // self.layout.dp))
        return Serving(
            model=self.model,
            layout=self.layout,
            batch=load.batch,
            input_tokens=load.input_tokens,
            output_tokens=load.output_tokens,
            first=sum(one.values()),
            reading=sum(whole.values()),
            token=sum(parts.values()),
            parts=ReadOnly(parts),
            reading_parts=ReadOnly(whole),
            sums=sum(stage.sums for stage in written),
            room=self.room(),
            _again=load,
        )

    def in_turn(self, stages: list[_Stage]) -> dict[str, float]:
        """Return the parts of the time between two tokens of a request.

        A micro-batch passes all stages. With as many micro-batches as stages the slowest stage sets the pace.
        """
        slowest = max(stages, key=lambda stage: stage.time)
        through = sum(stage.time for stage in stages)
        parts = dict.fromkeys(TOKEN_PARTS, 0.0)
        if self.groups * slowest.time > through:
            for name in parts:
                parts[name] = self.groups * slowest.parts[name]
            return parts
        for stage in stages:
            for name in parts:
                parts[name] += stage.parts[name]
        return parts

    def decode(self, stage: int) -> _Stage:
        """Return one pass that writes a token of each request of a micro-batch."""
        load = self.load
        context = load.input_tokens + load.output_tokens // 2
        seen = self.model.attended(context, causal=False)
        size = self.model.kv_size * bytes_of(load.cache)
        cache = seen * size * self.requests * _cache_share(self.model, self.layout)
        key = self.model.head_size
        value = self.model.value_size
        if self.model.kv_rank:
            # Latent attention works on what it keeps: a head has scores and a sum of that size.
            key = self.model.kv_rank + self.model.rope_size
            value = self.model.kv_rank
        core = 2.0 * self.model.heads * (key + value) * seen
        return self.passed(stage, self.requests, core, cache, scores=self.requests)

    def prefill(self, requests: int) -> dict[str, float]:
        """Return the parts of the time in which a replica reads the prompts of so many requests."""
        load = self.load
        total = requests * load.input_tokens
        passes = -(-total // CHUNK)
        tokens = -(-total // passes)
        core = self.model.layer_flops(load.input_tokens).core - self.scan()
        nothing = np.zeros(self.model.layers)
        scores = max(1, round(requests / passes))
        stages = [
            self.passed(stage, tokens, core, nothing, scores=scores)
            for stage in range(self.layout.pp)
        ]
        slowest = max(stages, key=lambda stage: stage.time)
        parts = dict.fromkeys(TOKEN_PARTS, 0.0)
        for name in parts:
            through = sum(stage.parts[name] for stage in stages)
            parts[name] = through + (passes - 1) * slowest.parts[name]
        return parts

    # ---- one pass through a stage --------------------------------------------------------------------------------

    def passed(
        self, stage: int, tokens: int, core: Floats, cache: Floats, *, scores: int
    ) -> _Stage:
        """Return the times of a pass of so many tokens.

        Parameters
        ----------
        stage : int
            Number of the stage.
        tokens : int
            Tokens of each replica. >= 1
        core : (L,) array
            Operations of attention for one token in each layer.
        cache : (L,) array
            Bytes of keys and values that a rank reads in each layer. [B]
        scores : int
            Tokens of which the scores of all words are needed.
        """
        layers = self.stages[stage]
        tp = self.layout.tp
        kernel = self.roofline
        memory_rate = kernel.memory_rate

        weights = self.weights_read(tokens)[layers] / memory_rate
        by_layer = self.model.layer_flops(self.load.input_tokens)
        products = by_layer.products[layers] * tokens / tp / kernel.product_rate
        read = cache[layers] / memory_rate
        attention = core[layers] * tokens / tp / kernel.attention_rate(self.model)
        scan = self.scan()[layers] * tokens / tp / kernel.vector_rate

        parts = dict.fromkeys(TOKEN_PARTS, 0.0)
        # A kernel computes while it reads, so the longer of both counts.
        parts["weights"] = float(weights[weights >= products].sum())
        parts["cache"] = float(read[read >= attention].sum())
        parts["compute"] = float(products[weights < products].sum())
        parts["compute"] += float(attention[read < attention].sum() + scan.sum())
        moved = kernel.moved(self.model, self.layout)[layers]
        parts["activations"] = float(moved.sum()) * tokens / tp / memory_rate
        if stage == self.layout.pp - 1:
            table = self.model.table_parameters * self.layout.activation_bytes / tp / memory_rate
            words = self.model.head_flops * scores / tp / kernel.score_rate
            parts["weights" if table >= words else "compute"] += max(table, words)
        for name in parts:
            parts[name] /= self.load.efficiency

        latency, bandwidth, sums = self.collectives(self.ledger(tokens), stage)
        parts["latency"] = latency
        parts["bandwidth"] = bandwidth
        return _Stage(parts, sums)

    def weights_read(self, tokens: int) -> Floats:
        """Return the bytes of weights that a rank reads in each layer, (L,). [B].

        Of routed experts only those are read that a token goes to; tokens are taken to choose at random.
        """
        model, layout = self.model, self.layout
        dense = (model.layer_parameters - model.routed_parameters) / layout.tp
        routed = model.routed_parameters / (layout.ep * layout.etp)
        if model.is_moe:
            together = tokens * max(1, layout.ep * layout.etp // layout.tp)
            missed = (1 - model.experts_per_token / model.experts) ** together
            routed = routed * (1 - missed)
        return np.asarray((dense + routed) * self.weight)

    def scan(self) -> Floats:
        """Return the operations of state-space layers for one token, (L,)."""
        core = self.model.layer_flops(self.load.input_tokens).core
        return np.where(self.model.mamba_layers, core, 0.0)

    # ---- what is sent --------------------------------------------------------------------------------------------

    @cached_property
    def decode_ledger(self) -> Ledger:
        """What a token of each request of a micro-batch sends."""
        return self.ledger(self.requests)

    def ledger(self, tokens: int) -> Ledger:
        """Return what a forward pass of so many tokens sends."""
        layout = self.layout
        if layout.sequence_parallel:
            tokens = -(-tokens // layout.tp) * layout.tp
        once = layout.replace(microbatch=1, microbatches=1, chunks=1, sequence=tokens)
        lines = []
        for line in volumes(self.model, once).only("tensor", "experts", "pipeline"):
            if line.moment == "forward":
                lines.append(line)
        return Ledger(once, tuple(lines))

    def collectives(self, ledger: Ledger, stage: int) -> tuple[float, float, int]:
        """Return start-ups and data of what a stage sends in a pass, and how many collectives there are. [s], [s]."""
        latency = 0.0
        bandwidth = 0.0
        number = 0
        for line in ledger.only(stage=stage):
            place = self.load.costs.place(ledger.layout, line)
            startup, data = self.load.costs.split(line.operation, line.size, place)
            if line.purpose == "experts" and line.operation == "all_to_all" and self.load.direct:
                startup = EXCHANGE_STARTUP
            latency += self.load.start * startup * line.count
            bandwidth += data * line.count
            if line.operation != "send":
                number += round(line.count)
        return latency, bandwidth, number

    # ---- memory --------------------------------------------------------------------------------------------------

    def room(self) -> Room:
        """Return the memory of the fullest GPU."""
        tokens = self.load.input_tokens + self.load.output_tokens
        return room_for_cache(
            self.model,
            self.layout,
            self.load.machine,
            tokens=tokens,
            precision=self.load.precision,
            cache=self.load.cache,
        )


def room_for_cache(
    model: Model,
    layout: Layout,
    machine: Machine,
    *,
    tokens: int,
    precision: str = "bf16",
    cache: str = "bf16",
    usable: float = USABLE,
) -> Room:
    """Return what weights and the cache of one request take of the fullest GPU of a replica.

    Left out: activations and buffers, for which the part that is not usable has room. ``free`` is 0 if the weights
    alone do not fit.

    Parameters
    ----------
    model, layout, machine : Model, Layout, Machine
        What is served, how it is divided, and on what.
    tokens : int
        Tokens of a request, prompt and answer. >= 1
    precision, cache : str
        Precision of weights and of keys and values, as in `fabriclab.workload.models.BYTES`.
    usable : float
        Part of the memory that weights leave which the cache may take. 0..1
    """
    check(layout, model)
    kept = np.where(model.windowed_layers, min(tokens, model.window or tokens), tokens)
    in_layers = kept * model.attention_layers * model.kv_size * bytes_of(cache)
    share = _cache_share(model, layout)
    fullest = Room(0.0, 0.0, _LEAST)
    least = math.inf
    for stage, layers in enumerate(layout.stages(model)):
        dense = (model.layer_parameters - model.routed_parameters)[layers].sum() / layout.tp
        routed = model.routed_parameters[layers].sum() / (layout.ep * layout.etp)
        tables = sum(table_parameters(model, layout, stage)) / layout.tp
        weights = (dense + routed) * bytes_of(precision) + tables * layout.activation_bytes
        request = max(_LEAST, float(in_layers[layers].sum()) * share)
        fits = usable * (machine.capacity - weights) / request
        if fits < least:
            least = fits
            fullest = Room(float(weights), max(0.0, float(fits) * request), request)
    return fullest


def _cache_share(model: Model, layout: Layout) -> float:
    """Return which part of the keys and values of a request each tensor-parallel rank keeps.

    Heads are divided; where there are more ranks than heads, and for latent attention, ranks keep copies.
    """
    if model.kv_rank:
        return 1.0
    return 1 / min(layout.tp, model.kv_heads)


def largest_batch(room: Room, layout: Layout) -> int:
    """Return how many requests fit into the memory of all replicas of a layout."""
    return room.requests * layout.dp


def serve(
    model: Model,
    layout: Layout,
    system: System,
    *,
    batch: int = 1,
    input_tokens: int = 1024,
    output_tokens: int = 128,
    precision: str = "bf16",
    cache: str = "",
    efficiency: float = 1.0,
    costs: Sums | None = None,
    inside: tuple[str, ...] = (),
    direct: bool = True,
) -> Serving:
    """Return how a cluster serves a batch of equal requests, and why.

    Kernels are those of `fabriclab.training.kernels`: the best kernels of a kind, divided by ``efficiency``. Left out:
    the host, launches of kernels, sampling, requests of different lengths, experts that are chosen more often than
    others, and speculative decoding.

    Parameters
    ----------
    model : Model
        The model.
    layout : Layout
        How one instance is divided: ``tp``, ``pp`` and ``ep``, and ``dp`` replicas of what tensor parallelism divides,
        each with its own requests. Its ranks are all GPUs of the system.
    system : System
        The cluster.
    batch : int
        Requests at the same time. >= 1
    input_tokens, output_tokens : int
        Tokens of each prompt and of each answer. >= 1
    precision : str
        Precision of weights and products; tables of tokens stay in 16 bits.
    cache : str
        Precision of keys and values; by default fp8 if products have at most 8 bits, else bf16.
    efficiency : float
        Part of the rate of the best kernels that is reached. > 0
    costs : Costs, RateCosts, LatencyCosts or SweepCosts, optional
        Times of collectives; by default `fabriclab.estimate` on the system.
    inside : tuple of str
        Groups that must stay inside a scale-up domain, such as ``("tp",)``.
    direct : bool
        Whether tokens reach experts by kernels that send directly, as DeepEP does. False: by NCCL's all-to-all, which
        has a start-up for each peer.

    Returns
    -------
    Serving
        Times of both phases, their parts, and what binds.

    Raises
    ------
    ValueError
        If the layout does not divide the model, or has not as many ranks as the system.
    DoesNotFit
        If weights or cache do not fit into memory, or a group reaches out of its domain.
    """
    check(layout, model, system.ranks)
    units.count(batch, "batch")
    if inside:
        check_domain(layout, system.joined, inside)
    chip = kernels.machine(str(system.row["accelerator"]))
    load = _Load(
        model=model,
        layout=layout,
        machine=chip,
        costs=Costs(system) if costs is None else costs,
        batch=batch,
        input_tokens=units.count(input_tokens, "input_tokens"),
        output_tokens=units.count(output_tokens, "output_tokens"),
        precision=precision,
        cache=cache or ("fp8" if bytes_of(precision) <= bytes_of("mxfp8") else "bf16"),
        efficiency=_positive(efficiency),
        direct=direct,
    )
    _check_fit(load)
    return load.answer()


def _check_fit(load: _Load) -> None:
    """Refuse a load whose weights, or whose cache, do not fit into the memory of a GPU."""
    room = _Evaluation(load).room()
    fitting = largest_batch(room, load.layout)
    has = units.format_size(load.machine.capacity)
    if not fitting:
        stages = load.layout.stages(load.model)
        raise DoesNotFit(
            f"{load.model.name} needs {units.format_size(room.weights)} of weights on each GPU of stage "
            f"{_fullest(load, stages)} as {load.layout} in {load.precision}, with room for the cache of a request, "
            f"and a GPU has {has}; {_advice(load)}"
        )
    if load.batch > fitting:
        tokens = load.input_tokens + load.output_tokens
        needed = room.request * -(-load.batch // load.layout.dp)
        raise DoesNotFit(
            f"the cache of {load.batch:,} requests of {tokens:,} tokens needs {units.format_size(needed)} on each GPU, "
            f"and beside {units.format_size(room.weights)} of weights {units.format_size(room.free)} of its {has} are "
            f"left for it; batch={fitting} fits"
        )


def _fullest(load: _Load, stages: list[Ints]) -> int:
    """Return the number of the stage with most weights."""
    sizes = [int(load.model.layer_parameters[layers].sum()) for layers in stages]
    return int(np.argmax(sizes))


def _advice(load: _Load) -> str:
    """Return the nearest layout that fits: more ranks for a replica, first from data parallelism."""
    layout = load.layout
    for factor in (2, 4, 8, 16, 32, 64):
        for name in ("tp", "pp"):
            dp = layout.dp // factor if layout.dp % factor == 0 else 1
            changed = {name: factor * getattr(layout, name), "dp": dp}
            try:
                other = layout.replace(**changed)
                room = room_for_cache(
                    load.model, other, load.machine, tokens=1, precision=load.precision
                )
            except ValueError:
                continue
            if room.requests:
                gpus = f"{other.ranks} GPUs" if other.ranks != layout.ranks else "the same GPUs"
                return (
                    f"the nearest layout that fits is {_short(other)} on {gpus}, with "
                    f"{units.format_size(room.weights)}"
                )
    return "no layout of up to 64 times as many GPUs fits: take a smaller precision"


def handover(model: Model, tokens: int, rate: units.Quantity, *, cache: str = "bf16") -> Handover:
    """Return what it takes to send the cache of a prompt from the GPUs that read it to those that write.

    Parameters
    ----------
    model : Model
        The model.
    tokens : int
        Tokens of the prompt. >= 1
    rate : float or str
        Rate between the two pools, of all links together that send it. [B/s], > 0
    cache : str
        Precision of keys and values.

    Examples
    --------
    >>> from fabriclab.workload import models
    >>> sent = handover(models.preset("Llama 3 70B"), 1024, "50 GB/s")
    >>> round(sent.size / 1e6, 1), round(sent.time * 1e3, 2)
    (335.5, 6.71)
    """
    size = model.cache_bytes(tokens, cache)
    each = size / units.rate(rate, "rate")
    return Handover(size, each, 1 / each)


def exchange(
    model: Model,
    tokens: int,
    costs: Sums,
    place: Place,
    *,
    sent_bytes: float = 1.0,
) -> float:
    """Return the time in which every rank of a group sends its tokens to experts, or gets them back. [s].

    A token goes to each of its experts by itself, as in the low-latency kernels of DeepEP.

    Parameters
    ----------
    model : Model
        A model with experts.
    tokens : int
        Tokens of each rank. >= 1
    costs : Costs, RateCosts, LatencyCosts or SweepCosts
        Times of collectives.
    place : Place
        Where the group is.
    sent_bytes : float
        Bytes of a number that is sent: 1 for fp8 (its scales left out), 2 for bf16. [B], > 0
    """
    if not model.is_moe:
        raise ValueError(f"model must have experts, {model.name} has none")
    size = (
        units.count(tokens, "tokens") * model.experts_per_token * model.expert_hidden * sent_bytes
    )
    _, data = costs.split("all_to_all", size, place)
    return EXCHANGE_STARTUP + data


def tolerable_latency(work: Serving | Step, limit: float) -> float:
    """Return the largest start-up of one collective with which a limit is still kept, on average. [s].

    Parameters
    ----------
    work : Serving or Step
        What waits for collectives.
    limit : float
        For a `Serving` the tokens per second that each request shall get [1/s]; for a `Step` the longest step [s]. > 0

    Returns
    -------
    float
        Start-up of each collective of a token, one after another. For a step: of each collective inside its layers on
        the slowest stage, which nothing hides; infinite if it has none.

    Raises
    ------
    ValueError
        If the limit cannot be kept even without any latency.

    Examples
    --------
    >>> import fabriclab as fl
    >>> step = fl.training.of_case(fl.case())
    >>> round(1e6 * tolerable_latency(step, step.time + 0.1), 1)  # 1,280 all-reduces in a step
    78.1
    """
    if not (units.is_number(limit) and limit > 0):
        raise ValueError(f"limit must be a number > 0, got {limit!r}")
    if isinstance(work, Serving):
        rest = work.token - work.parts["latency"]
        number = work.sums
        wanted = 1 / limit
        unit = f"{1 / rest:.4g} tokens per second"
    else:
        startups, number = _of_step(work)
        rest = work.time - startups
        wanted = limit
        unit = units.format_time(rest)
    if wanted < rest:
        raise ValueError(
            f"limit must be within reach: without any latency it is {unit}, got {limit:g}"
        )
    return (wanted - rest) / number if number else math.inf


def _of_step(step: Step) -> tuple[float, int]:
    """Return the start-ups inside the layers of the stage that has most of them, and their number. [s]."""
    costs = step.costs
    ledger = volumes(step.model, step.layout).only("tensor", "context", "experts")
    startups = np.zeros(step.layout.pp)
    number = np.zeros(step.layout.pp)
    for line in ledger:
        startup, _ = costs.split(line.operation, line.size, costs.place(step.layout, line))
        startups[line.stage] += startup * line.count
        number[line.stage] += line.count
    stage = int(number.argmax())
    return float(startups[stage]), round(number[stage])


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
