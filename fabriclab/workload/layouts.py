"""How a training job is divided among ranks: tensor, context, pipeline, data and expert parallelism, and sharding.

A `Layout` numbers its ranks as Megatron does: the tensor-parallel rank counts fastest, then context, data and pipeline.
The experts of a layer see the same ranks in another division: expert tensor parallelism counts fastest, then the expert
group, then the copies of each expert.

Examples
--------
>>> from fabriclab.workload import layouts, models
>>> small = layouts.Layout(tp=2, pp=2, dp=2)
>>> small.ranks, small.groups("tp").tolist()
(8, [[0, 1], [2, 3], [4, 5], [6, 7]])
>>> small.groups("dp").tolist(), small.groups("pp").tolist()
([[0, 2], [1, 3], [4, 6], [5, 7]], [[0, 4], [1, 5], [2, 6], [3, 7]])
>>> layouts.check(layouts.Layout(tp=6), models.preset("Llama 3 70B"))
Traceback (most recent call last):
    ...
ValueError: tp must divide the 64 heads of Llama 3 70B, got 6; the nearest that do are 4 and 8
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.catalog.running_case import Case
from fabriclab.core import Ints
from fabriclab.workload.models import RECOMPUTE, Model

__all__ = ["CONTEXT", "GROUPS", "SHARDING", "Layout", "check", "divisors_near", "of_case"]

SHARDING = ("ddp", "zero1", "zero2", "zero3")
CONTEXT = ("ring", "all_gather", "ulysses")
GROUPS = (
    "tp",
    "cp",
    "pp",
    "dp",
    "dp_cp",
    "ep",
    "etp",
    "edp",
    "shard",
    "replica",
    "expert_shard",
    "expert_replica",
    "table",
)
_OTHER_NAMES = {"none": "ddp", "fsdp": "zero3", "hsdp": "zero3"}
_COUNTS = ("tp", "cp", "pp", "dp", "ep", "chunks", "microbatch", "microbatches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A division of a training step among ranks, with the batch of a replica and the precision of what is sent.

    Parameters
    ----------
    tp, cp, pp, dp : int
        Ranks among which matrices, sequences, layers and the batch are divided. >= 1
    ep : int
        Ranks among which the experts of a layer are divided; they are ranks of one stage. >= 1
    etp : int
        Ranks among which the matrices of an expert are divided; 0: 1 with expert parallelism, else tp. >= 0
    chunks : int
        Parts of the model on each stage (interleaved pipeline). >= 1
    microbatch, microbatches : int
        Sequences of a micro-batch, and micro-batches of a replica in a step. >= 1
    sequence : int
        Tokens of a sequence; 0: as many as the model trains with. >= 0
    sharding : str
        What the data-parallel ranks of a layout share instead of keeping copies: ``"ddp"`` nothing, ``"zero1"`` the
        state of the optimiser, ``"zero2"`` gradients, too, ``"zero3"`` (FSDP) parameters, too.
    shard : int
        Ranks that share; 0: all that hold the same parameters (data and context parallel). Fewer are hybrid sharding:
        groups of so many share, and copies between groups are summed. Divides cp x dp.
    reshard : bool
        With ``"zero3"``: whether parameters are given back after the forward pass, and gathered again for the backward.
    sequence_parallel : bool
        Whether the tensor-parallel ranks divide the tokens between matrices, too. The all-reduces become an all-gather
        and a reduce-scatter of the same bytes.
    scatter_gather : bool
        Whether each tensor-parallel rank sends its part of an activation to the next stage, which gathers it.
        Sequence parallelism sends parts in any case.
    context : str
        How attention sees all tokens of a sequence that is divided: ``"ring"`` passes keys and values on,
        ``"all_gather"`` collects them, ``"ulysses"`` exchanges tokens for heads.
    recompute : str
        What the backward pass computes again: ``"none"``, ``"selective"`` or ``"full"``; see `Model.flops`.
    weight_bytes, gradient_bytes, activation_bytes, optimiser_bytes : float
        Bytes of a number as it is kept and sent, and of the optimiser's state of a parameter (Adam: a copy in fp32 and
        two moments). [B], > 0
    dispatch_bytes : float
        Bytes of a number sent to an expert in the forward pass; 0: as an activation. fp8: 1. [B], >= 0

    References
    ----------
    .. [1] D. Narayanan et al., Efficient large-scale language model training on GPU clusters, SC 2021
       (arXiv:2104.04473).
    .. [2] S. Rajbhandari et al., ZeRO, SC 2020 (arXiv:1910.02054).
    .. [3] V. Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023
       (arXiv:2205.05198): sequence parallelism.
    .. [4] H. Liu et al., Ring attention with blockwise transformers, 2023 (arXiv:2310.01889).
    .. [5] S. A. Jacobs et al., DeepSpeed Ulysses, 2023 (arXiv:2309.14509).
    """

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    etp: int = 0
    chunks: int = 1
    microbatch: int = 1
    microbatches: int = 1
    sequence: int = 0
    sharding: str = "ddp"
    shard: int = 0
    reshard: bool = True
    sequence_parallel: bool = False
    scatter_gather: bool = False
    context: str = "ring"
    recompute: str = "none"
    weight_bytes: float = 2.0
    gradient_bytes: float = 2.0
    activation_bytes: float = 2.0
    optimiser_bytes: float = 12.0
    dispatch_bytes: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges and that the groups divide each other; fill in what follows from other fields."""
        for name in _COUNTS:
            units.count(getattr(self, name), name)
        units.count(self.sequence, "sequence", 0)
        units.count(self.etp, "etp", 0)
        units.count(self.shard, "shard", 0)
        for name in ("reshard", "sequence_parallel", "scatter_gather"):
            units.flag(getattr(self, name), name)
        for name in ("weight_bytes", "gradient_bytes", "activation_bytes", "optimiser_bytes"):
            _positive(getattr(self, name), name)
        given = _OTHER_NAMES.get(str(self.sharding).strip().lower(), self.sharding)
        self._set("sharding", units.choice(given, "sharding", SHARDING))
        self._set("context", units.choice(self.context, "context", CONTEXT))
        self._set("recompute", units.choice(self.recompute, "recompute", RECOMPUTE))
        if not self.etp:
            self._set("etp", 1 if self.ep > 1 else self.tp)
        if not self.dispatch_bytes:
            self._set("dispatch_bytes", self.activation_bytes)
        _positive(self.dispatch_bytes, "dispatch_bytes")
        if not self.shard:
            self._set("shard", self.copies)
        self._check_groups()

    def _set(self, name: str, value: Any) -> None:
        """Set a field of this frozen value while it is made."""
        object.__setattr__(self, name, value)

    def _check_groups(self) -> None:
        """Refuse groups that do not divide each other."""
        if self.stage_ranks % (self.ep * self.etp):
            near = _or(
                divisors_near(self.stage_ranks // math.gcd(self.stage_ranks, self.etp), self.ep)
            )
            raise ValueError(
                f"ep x etp must divide the tp x cp x dp = {self.stage_ranks} ranks of a stage, got "
                f"{self.ep} x {self.etp}; the nearest ep that do are {near}"
            )
        if self.copies % self.shard:
            near = _or(divisors_near(self.copies, self.shard))
            raise ValueError(
                f"shard must divide the cp x dp = {self.copies} ranks that hold the same parameters, got "
                f"{self.shard}; the nearest that do are {near}"
            )
        if self.chunks > 1 and self.pp == 1:
            raise ValueError(f"chunks must be 1 without a pipeline (pp=1), got {self.chunks}")
        if self.chunks > 1 and self.microbatches % self.pp:
            below = self.microbatches // self.pp * self.pp
            near = _or([m for m in (below, below + self.pp) if m])
            raise ValueError(
                f"microbatches must be a multiple of the {self.pp} stages with several chunks, got "
                f"{self.microbatches}; the nearest are {near}"
            )

    # ---- ranks ---------------------------------------------------------------------------------------------------

    @property
    def ranks(self) -> int:
        """Number of ranks: tp x cp x pp x dp."""
        return self.stage_ranks * self.pp

    @property
    def stage_ranks(self) -> int:
        """Number of ranks of a stage: tp x cp x dp."""
        return self.tp * self.cp * self.dp

    @property
    def copies(self) -> int:
        """Number of ranks that hold the same parameters, those of routed experts excepted: cp x dp."""
        return self.cp * self.dp

    @property
    def edp(self) -> int:
        """Number of ranks that hold the same routed experts: tp x cp x dp / (ep x etp)."""
        return self.stage_ranks // (self.ep * self.etp)

    @property
    def expert_shard(self) -> int:
        """Number of ranks that share a routed expert: the copies that the tp x shard ranks of a sharing group hold."""
        copies = self.shard * self.tp // (self.ep * self.etp)
        return math.gcd(max(1, copies), self.edp)

    def size_of(self, group: str) -> int:
        """Return the number of ranks in a group of this name."""
        name = units.choice(group, "group", GROUPS)
        sizes = {
            "tp": self.tp,
            "cp": self.cp,
            "pp": self.pp,
            "dp": self.dp,
            "dp_cp": self.copies,
            "ep": self.ep,
            "etp": self.etp,
            "edp": self.edp,
            "shard": self.shard,
            "replica": self.copies // self.shard,
            "expert_shard": self.expert_shard,
            "expert_replica": self.edp // self.expert_shard,
            "table": min(self.pp, 2),
        }
        return sizes[name]

    def groups(self, group: str) -> Ints:
        """Return the ranks of all groups of a kind, (groups, size): each row is one group.

        Parameters
        ----------
        group : str
            ``"tp"``, ``"cp"``, ``"pp"``, ``"dp"``; ``"dp_cp"``, the copies of a parameter; ``"ep"``, ``"etp"`` and
            ``"edp"``, the same for routed experts; ``"shard"`` and ``"replica"``, into which sharding divides the
            copies, and ``"expert_shard"`` and ``"expert_replica"``; ``"table"``, the first and last stage.
        """
        name = units.choice(group, "group", GROUPS)
        rank = np.arange(self.ranks)
        dense = rank.reshape(self.pp, self.dp, self.cp, self.tp)
        copies = rank.reshape(self.pp, self.copies // self.shard, self.shard, self.tp)
        expert = rank.reshape(self.pp, self.edp, self.ep, self.etp)
        apart = self.edp // self.expert_shard
        expert_copies = rank.reshape(self.pp, apart, self.expert_shard, self.ep * self.etp)
        ends = dense[:: max(1, self.pp - 1)]
        tables = {
            "pp": (dense, 0),
            "dp": (dense, 1),
            "cp": (dense, 2),
            "tp": (dense, 3),
            "dp_cp": (rank.reshape(self.pp, self.copies, self.tp), 1),
            "edp": (expert, 1),
            "ep": (expert, 2),
            "etp": (expert, 3),
            "replica": (copies, 1),
            "shard": (copies, 2),
            "expert_replica": (expert_copies, 1),
            "expert_shard": (expert_copies, 2),
            "table": (ends, 0),
        }
        table, axis = tables[name]
        members: Ints = np.moveaxis(table, axis, -1).reshape(-1, table.shape[axis])
        return members

    # ---- batch ---------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Sequences of a step."""
        return self.dp * self.microbatches * self.microbatch

    def with_batch(self, sequences: int) -> Layout:
        """Return this layout with as many micro-batches as a step of this many sequences needs.

        Raises
        ------
        ValueError
            If dp x microbatch does not divide the sequences.
        """
        wanted = units.count(sequences, "sequences")
        together = self.dp * self.microbatch
        if wanted % together:
            below = wanted // together * together
            near = _or([n for n in (below, below + together) if n])
            raise ValueError(
                f"dp x microbatch = {self.dp} x {self.microbatch} must divide the {wanted} sequences of a step; "
                f"the nearest batches are {near}"
            )
        return self.replace(microbatches=wanted // together)

    @property
    def bubble(self) -> float:
        """Time that a stage waits, as a part of the time it computes: (pp - 1) / (chunks x microbatches)."""
        return (self.pp - 1) / (self.chunks * self.microbatches)

    # ---- layers --------------------------------------------------------------------------------------------------

    def parts(self, model: Model) -> list[list[Ints]]:
        """Return the layers of each chunk of each stage.

        Chunk c of stage p is part c x pp + p of the model. If the layers do not divide, some parts have one layer less:
        the last part, which has the output table, then the first, then those before the last.
        """
        n = self.pp * self.chunks
        sizes = np.full(n, -(-model.layers // n))
        short = n * sizes[0] - model.layers
        order = [n - 1, 0, *range(n - 2, 0, -1)]
        sizes[order[:short]] -= 1
        pieces = np.split(np.arange(model.layers), np.cumsum(sizes)[:-1])
        return [pieces[stage :: self.pp] for stage in range(self.pp)]

    def stages(self, model: Model) -> list[Ints]:
        """Return the layers of each stage, all chunks together."""
        return [np.concatenate(chunks) for chunks in self.parts(model)]

    def tokens(self, model: Model) -> int:
        """Return the tokens of a micro-batch on each rank between two layers, without sequence parallelism."""
        return self.microbatch * self.length(model) // self.cp

    def length(self, model: Model) -> int:
        """Return the tokens of a sequence."""
        return self.sequence or model.sequence

    def replace(self, **changes: Any) -> Layout:
        """Return this layout with some fields changed; ``etp`` and ``shard`` follow where they had their default."""
        if "etp" not in changes and self.etp == (1 if self.ep > 1 else self.tp):
            changes["etp"] = 0
        if "shard" not in changes and self.shard == self.copies:
            changes["shard"] = 0
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        """Return the layout in a line."""
        shown = [f"{name}={getattr(self, name)}" for name in ("tp", "cp", "pp", "dp")]
        for name, usual in (("chunks", 1), ("ep", 1), ("microbatch", 1), ("recompute", "none")):
            if getattr(self, name) != usual:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join([*shown, self.sharding])


def of_case(job: Case, **changes: Any) -> Layout:
    """Return the layout of a running case: tensor parallelism in servers, ZeRO-1 across them.

    As in the case, each sum in a layer is an all-reduce. Its memory counts on ``sequence_parallel=True``, which sends
    the same bytes.
    """
    layout = Layout(
        tp=int(job.tp),
        dp=int(job.dp),
        microbatch=int(job.microbatch_sequences),
        microbatches=int(job.microbatches),
        sequence=int(job.sequence),
        sharding="zero1",
        gradient_bytes=job.gradient_bytes,
    )
    return layout.replace(**changes)


def check(layout: Layout, model: Model, ranks: int | None = None) -> None:
    """Refuse a layout that a model, or a number of ranks, cannot be divided by.

    Layers may divide unevenly (see `Layout.parts`), and a table of tokens is padded.

    Raises
    ------
    ValueError
        If something does not divide; the error names the nearest numbers that do.
    """
    if ranks is not None and layout.ranks != ranks:
        _refuse_ranks(layout, units.count(ranks, "ranks"))
    most = model.layers
    if layout.chunks > 1:
        most += 2  # the first chunk and the last one may have no layer, only the table of tokens or of outputs
    if layout.pp * layout.chunks > most:
        raise ValueError(
            f"pp x chunks must be at most the {model.layers} layers of {model.name}, and two more if the chunks at "
            f"both ends have no layer; got {layout.pp} x {layout.chunks}"
        )
    for name, wanted, of in _divisions(layout, model):
        value = getattr(layout, name)
        if wanted % value:
            near = _or(divisors_near(wanted, value))
            raise ValueError(
                f"{name} must divide the {wanted} {of} of {model.name}, got {value}; the nearest that do are {near}"
            )
    _check_heads(layout, model)
    _check_experts(layout, model)


def _divisions(layout: Layout, model: Model) -> list[tuple[str, int, str]]:
    """Return what must divide: the field of the layout, the number, and its name."""
    length = layout.length(model)
    wanted = []
    if model.attention_layers.any():
        wanted.append(("tp", model.heads, "heads"))
    if model.feed_forward_layers.any():
        wanted.append(("tp", model.feed_forward, "inner sizes of the feed-forward part"))
    if model.mamba_layers.any():
        wanted.append(("tp", model.mamba_heads, "heads of a Mamba layer"))
    wanted.append(("cp", length, "tokens of a sequence"))
    if layout.sequence_parallel:
        wanted.append(("tp", length // layout.cp, "tokens of a sequence that a rank has"))
    if layout.cp > 1 and layout.context == "ulysses":
        wanted.append(("cp", model.heads // layout.tp, f"heads that each of {layout.tp} ranks has"))
    if model.is_moe:
        wanted.append(("ep", model.experts, "experts"))
        wanted.append(("etp", model.expert_feed_forward, "inner sizes of an expert"))
    return wanted


def _check_heads(layout: Layout, model: Model) -> None:
    """Refuse tensor parallelism that neither divides the heads of keys and values nor is a multiple of them."""
    if model.kv_rank or not model.attention_layers.any():
        return
    if model.kv_heads % layout.tp and layout.tp % model.kv_heads:
        fitting = []
        for n in range(1, model.heads + 1):
            divides = model.heads % n == 0
            if divides and (model.kv_heads % n == 0 or n % model.kv_heads == 0):
                fitting.append(n)
        near = _or(_beside(fitting, layout.tp))
        raise ValueError(
            f"tp must divide the {model.kv_heads} heads of keys and values of {model.name}, or be a multiple of "
            f"them, got {layout.tp}; the nearest are {near}"
        )


def _check_experts(layout: Layout, model: Model) -> None:
    """Refuse expert parallelism without experts, or with tokens that the tensor-parallel ranks all have."""
    if layout.ep > 1 and not model.is_moe:
        raise ValueError(f"ep must be 1, because {model.name} has no experts, got {layout.ep}")
    if layout.ep > 1 and layout.tp > 1 and not layout.sequence_parallel:
        raise ValueError(
            f"sequence_parallel must be True with ep={layout.ep} and tp={layout.tp}: without it each of the "
            f"{layout.tp} tensor-parallel ranks would send the same tokens to the experts"
        )


def _refuse_ranks(layout: Layout, ranks: int) -> None:
    """Raise the error for a layout that is not as large as the system, with the dp that makes it so."""
    product = f"tp x cp x pp x dp = {layout.tp} x {layout.cp} x {layout.pp} x {layout.dp} = {layout.ranks}"
    others = layout.tp * layout.cp * layout.pp
    if ranks % others == 0:
        advice = f"dp={ranks // others} uses them all"
    elif ranks > others:
        advice = f"dp={ranks // others} uses {ranks // others * others} of them"
    else:
        advice = f"a replica alone needs {others}: choose a smaller tp, cp or pp"
    raise ValueError(
        f"a layout must have as many ranks as the system, {ranks}, got {product}; {advice}"
    )


def divisors_near(number: int, value: int) -> list[int]:
    """Return the divisors of a number next to a value: the largest below and the smallest above it.

    Examples
    --------
    >>> divisors_near(64, 6), divisors_near(61, 8)
    ([4, 8], [1, 61])
    """
    divisors = [n for n in range(1, number + 1) if number % n == 0]
    return _beside(divisors, value)


def _beside(numbers: list[int], value: int) -> list[int]:
    """Return of rising numbers the largest below a value and the smallest above it."""
    below = [n for n in numbers if n < value][-1:]
    above = [n for n in numbers if n > value][:1]
    return below + above


def _or(numbers: list[int]) -> str:
    """Return numbers as words of a sentence."""
    return " and ".join(map(str, numbers))


def _positive(value: float, name: str) -> None:
    """Refuse bytes of a number that are not above 0."""
    if not (units.is_number(value) and 0 < value < math.inf):
        raise ValueError(f"{name} must be a number of bytes > 0, such as 2 for bf16, got {value!r}")


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
