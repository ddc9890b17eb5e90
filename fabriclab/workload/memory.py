"""What a layout keeps in the memory of each GPU, and which layout near to it fits.

Examples
--------
>>> import fabriclab as fl
>>> from fabriclab.workload import layouts, memory, models
>>> case = fl.case()
>>> model, layout = models.of_case(case), layouts.of_case(case)
>>> print(memory.memory(model, layout.replace(sequence_parallel=True)))
stage 0: 59.1 GB (weights 17.6 GB, gradients 17.6 GB, optimiser 827 MB, activations 22.5 GB, logits 501 MiB)
>>> memory.check_fit(model, layout.replace(sharding="ddp"), "80 GB")  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
fabriclab.errors.DoesNotFit: the running case needs 202 GB on each GPU of stage 0 ...
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.errors import DoesNotFit
from fabriclab.workload.layouts import SHARDING, Layout, check
from fabriclab.workload.models import RECOMPUTE, Model
from fabriclab.workload.volumes import table_parameters

__all__ = ["ACTIVATIONS", "Memory", "check_domain", "check_fit", "memory", "nearest"]

ACTIVATIONS = ("shape", "rule")
_RULE = 34  # bytes of a token, layer and hidden size: Korthikanti et al. 2023, equation 1 without its last term
_LOGIT_BYTES = 4.0  # scores are kept in fp32 until the loss
# Layers whose parameters a rank has gathered at a time: the one that computes, and the next one.
_GATHERED = 2


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each GPU of each stage, (pp,), at the moment when they are most. [B].

    Parameters
    ----------
    weights, gradients, optimiser : (pp,) array
        The state of training.
    activations : (pp,) array
        What the backward pass needs of all micro-batches under way.
    logits : (pp,) array
        Scores of a micro-batch for each row of the vocabulary.
    gathered : (pp,) array
        Parameters of the layers at work, if ranks share parameters.
    """

    weights: Floats
    gradients: Floats
    optimiser: Floats
    activations: Floats
    logits: Floats
    gathered: Floats

    @property
    def state(self) -> Floats:
        """Weights, gradients and state of the optimiser, (pp,). [B]."""
        return self.weights + self.gradients + self.optimiser

    @property
    def total(self) -> Floats:
        """All of it, (pp,). [B]."""
        return self.state + self.activations + self.logits + self.gathered

    @property
    def most(self) -> float:
        """Bytes on the GPUs of the fullest stage. [B]."""
        return float(self.total.max())

    def __str__(self) -> str:
        """Return what the fullest stage keeps in a line."""
        stage = int(self.total.argmax())
        parts = []
        for name in ("weights", "gradients", "optimiser", "activations", "logits", "gathered"):
            size = float(getattr(self, name)[stage])
            if size:
                parts.append(f"{name} {units.format_size(size)}")
        return f"stage {stage}: {units.format_size(self.most)} ({', '.join(parts)})"


def memory(
    model: Model, layout: Layout, *, activations: str = "shape", stored_scores: bool = False
) -> Memory:
    """Return what each GPU keeps.

    Left out: buffers of collectives and kernels, fragmentation, and the runtime, together a few GB. Tokens are taken to
    go to all experts alike.

    Parameters
    ----------
    model : Model
        The model.
    layout : Layout
        How it is divided.
    activations : str
        ``"shape"`` counts the inputs of each product from the sizes of the model; ``"rule"`` takes 34 bytes for each
        token, layer and hidden size, which [1]_ counts for a feed-forward part of four times the hidden size, all of it
        divided by tp. The running case uses the rule.
    stored_scores : bool
        Whether the scores of attention are kept (5 bytes for each head and pair of tokens), as before FlashAttention;
        ``recompute="selective"`` and ``"full"`` drop them.

    References
    ----------
    .. [1] V. Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023
       (arXiv:2205.05198), equations 1 to 5.
    """
    check(layout, model)
    how = units.choice(activations, "activations", ACTIVATIONS)
    by_layer = _activations(
        model, layout, how, stored_scores=units.flag(stored_scores, "stored_scores")
    )
    columns: dict[str, list[float]] = {name: [] for name in Memory.__dataclass_fields__}
    parts = layout.parts(model)
    for stage, chunks in enumerate(parts):
        layers = np.concatenate(chunks)
        dense = (model.layer_parameters - model.routed_parameters)[layers]
        routed = model.routed_parameters[layers]
        tables = table_parameters(model, layout, stage)
        own = (dense.sum() + sum(tables)) / layout.tp
        own_routed = routed.sum() / (layout.ep * layout.etp)
        for name, bytes_each, since in (
            ("weights", layout.weight_bytes, "zero3"),
            ("gradients", layout.gradient_bytes, "zero2"),
            ("optimiser", layout.optimiser_bytes, "zero1"),
        ):
            shared = SHARDING.index(layout.sharding) >= SHARDING.index(since)
            among = layout.shard if shared else 1
            among_experts = layout.expert_shard if shared else 1
            columns[name].append(bytes_each * (own / among + own_routed / among_experts))
        columns["activations"].append(_under_way(layout, by_layer, chunks, stage))
        columns["logits"].append(_logits(model, layout, stage))
        at_work = dense / layout.tp + routed / (layout.ep * layout.etp)
        columns["gathered"].append(_gathered(layout, at_work, tables))
    return Memory(**{name: np.array(values) for name, values in columns.items()})


def _activations(model: Model, layout: Layout, how: str, *, stored_scores: bool) -> Floats:
    """Return the bytes that each layer keeps of a micro-batch on each rank, (L,)."""
    tokens = layout.tokens(model)
    a = layout.activation_bytes
    t = layout.tp
    outside = (
        t if layout.sequence_parallel else 1
    )  # by what the tokens between the products are divided
    if layout.recompute == "full":
        return np.full(model.layers, a * tokens * model.hidden / outside)
    if how == "rule":
        kept = np.full(model.layers, _RULE / 2 * a * tokens * model.hidden / t)
    else:
        h = model.hidden
        per_token = np.zeros(model.layers)
        norms = 1 if model.pattern else 2
        per_token += norms * h / outside
        head = model.head_size + (model.rope_size if model.kv_rank else 0)
        kv_heads = model.heads if model.kv_rank else model.kv_heads
        inside = model.heads * (head + model.value_size) + kv_heads * (head + model.value_size)
        per_token += model.attention_layers * (h / outside + inside / t)
        matrices = 3 if model.gated else 2
        per_token += model.feed_forward_layers * (h / outside + matrices * model.feed_forward / t)
        per_token += model.moe_layers * _expert_numbers(model, layout, matrices, outside)
        inner = model.mamba_heads * model.mamba_head_size
        states = 2 * model.mamba_groups * model.mamba_state
        scan = 2 * inner + states + model.mamba_heads + inner + states + 2 * inner
        per_token += model.mamba_layers * (h / outside + scan / t)
        kept = a * tokens * per_token
    if stored_scores and layout.recompute == "none":
        # Scores and probabilities in half precision, and a mask of one byte, for each pair of tokens.
        pairs = model.attended(layout.length(model), causal=False) * tokens
        kept = kept + 5 * pairs * model.heads / t
    return kept


def _expert_numbers(model: Model, layout: Layout, matrices: int, outside: int) -> float:
    """Return how many numbers a layer of experts keeps for each token of a rank."""
    visits = model.experts_per_token / outside
    split = layout.etp if layout.ep > 1 or layout.etp < layout.tp else layout.tp / outside
    routed = visits * (2 * model.expert_hidden + matrices * model.expert_feed_forward / split)
    shared = model.shared_experts * matrices * model.shared_feed_forward / layout.tp
    return model.hidden / outside + routed + shared


def _under_way(layout: Layout, by_layer: Floats, chunks: list[np.ndarray], stage: int) -> float:
    """Return the bytes of the activations of all micro-batches that a stage has begun and not ended, in 1F1B order."""
    p, v, m = layout.pp, layout.chunks, layout.microbatches
    warm_up = p - stage - 1 if v == 1 else 2 * (p - stage - 1) + (v - 1) * p
    begun = min(warm_up + 1, m * v)  # chunks of micro-batches
    total = 0.0
    for chunk, layers in enumerate(chunks):
        # In the warm-up p micro-batches pass the first chunk, then the same the next one, and so on round.
        rounds, rest = divmod(begun, p * v)
        here = rounds * p + min(max(rest - chunk * p, 0), p)
        total += here * float(by_layer[layers].sum())
    return total


def _logits(model: Model, layout: Layout, stage: int) -> float:
    """Return the bytes of the scores of a micro-batch, on the last stage."""
    if stage < layout.pp - 1:
        return 0.0
    return layout.tokens(model) * model.vocabulary * _LOGIT_BYTES / layout.tp


def _gathered(layout: Layout, at_work: Floats, tables: list[int]) -> float:
    """Return the bytes of the parameters that a rank has gathered while it computes."""
    if layout.sharding != "zero3" or layout.shard == 1:
        return 0.0
    if not layout.reshard:
        return layout.weight_bytes * (float(at_work.sum()) + sum(tables) / layout.tp)
    layers = np.sort(at_work)[-_GATHERED:].sum()
    return layout.weight_bytes * max(float(layers), max(tables, default=0) / layout.tp)


def check_fit(
    model: Model,
    layout: Layout,
    capacity: units.Quantity,
    *,
    domain: int | None = None,
    activations: str = "shape",
) -> None:
    """Refuse a layout whose fullest GPU needs more memory than it has.

    Parameters
    ----------
    model, layout, activations
        As in `memory`.
    capacity : float or str
        Memory of a GPU. [B], > 0
    domain : int, optional
        Ranks of a scale-up domain, which the proposed layout keeps its tensor parallelism inside.

    Raises
    ------
    DoesNotFit
        With what the fullest stage needs, and the nearest layout of as many ranks and the same batch that fits.
    """
    room = units.size(capacity, "capacity", may_be_zero=False)
    kept = memory(model, layout, activations=activations)
    if kept.most <= room:
        return
    stage = int(kept.total.argmax())
    found = nearest(model, layout, room, domain=domain, activations=activations)
    if found is None:
        advice = "no layout of as many ranks and the same batch fits: take more GPUs, or smaller micro-batches"
    else:
        needs = units.format_size(memory(model, found, activations=activations).most)
        advice = f"the nearest layout that fits is {_changes(layout, found)}, with {needs}"
    raise DoesNotFit(
        f"{model.name} needs {units.format_size(kept.most)} on each GPU of stage {stage} as {layout}, and a GPU has "
        f"{units.format_size(room)}; {kept}; {advice}"
    )


def check_domain(layout: Layout, domain: int, groups: tuple[str, ...] = ("tp",)) -> None:
    """Refuse a layout of which some groups are larger than a scale-up domain, or do not lie in one.

    Parameters
    ----------
    layout : Layout
        The layout; rank k is GPU k of the system.
    domain : int
        Ranks of a scale-up domain, such as ``fl.system(...).joined``. >= 1
    groups : tuple of str
        Kinds of groups that shall stay inside; see `Layout.groups`.

    Raises
    ------
    DoesNotFit
        With how far a group reaches, and the nearest size that stays inside.
    """
    size = units.count(domain, "domain")
    for name in groups:
        members = layout.groups(name)
        domains = members // size
        spread = domains.max(axis=1) - domains.min(axis=1)
        if not spread.any():
            continue
        row = int(spread.argmax())
        reach = np.unique(domains[row]).size
        ranks = members.shape[1]
        if ranks > size:
            allowed = [n for n in range(1, size + 1) if ranks % n == 0]
            advice = f"at most {size} fit; the nearest that divides is {max(allowed)}"
        else:
            advice = "its ranks are not in one domain: choose smaller groups before it in the order tp, cp, dp, pp"
        raise DoesNotFit(
            f"a {name} group has {ranks} ranks in {reach} scale-up domains of {size} GPUs, such as ranks "
            f"{members[row, 0]} to {members[row, -1]}; {advice}"
        )


def nearest(
    model: Model,
    layout: Layout,
    capacity: units.Quantity,
    *,
    domain: int | None = None,
    activations: str = "shape",
) -> Layout | None:
    """Return the layout nearest to one that fits into memory, or None; it has as many ranks and the same batch.

    Near means few doublings of tp, cp, pp and ep; a further step of sharding or of recomputation counts as one.

    Parameters
    ----------
    model, layout, capacity, domain, activations
        As in `check_fit`.
    """
    room = units.size(capacity, "capacity", may_be_zero=False)
    state = layout.weight_bytes + layout.gradient_bytes + layout.optimiser_bytes
    if state * model.parameters / layout.ranks > room:
        return None  # all GPUs together have not enough for one copy
    for candidate in sorted(
        _candidates(model, layout, domain), key=lambda other: _distance(layout, other)
    ):
        try:
            check(candidate, model)
        except ValueError:
            continue
        if memory(model, candidate, activations=activations).most <= room:
            return candidate
    return None


def _candidates(model: Model, layout: Layout, domain: int | None) -> Iterator[Layout]:
    """Yield layouts of as many ranks and the same batch."""
    ranks = layout.ranks
    divisors = [n for n in range(1, min(ranks, 4096) + 1) if ranks % n == 0]
    narrow = [n for n in divisors if n <= min(64, domain or 64)]
    sizes_ep = [n for n in divisors if model.is_moe and n <= model.experts] or [1]
    modes = itertools.product(SHARDING, RECOMPUTE)
    for (sharding, recompute), tp, pp, ep in itertools.product(modes, narrow, divisors, sizes_ep):
        if pp > model.layers or ranks % (tp * pp * layout.cp):
            continue
        dp = ranks // (tp * pp * layout.cp)
        if layout.batch % (dp * layout.microbatch):
            continue
        try:
            yield layout.replace(
                tp=tp,
                pp=pp,
                dp=dp,
                ep=ep,
                etp=0,
                shard=0,
                chunks=layout.chunks if pp > 1 else 1,
                microbatches=layout.batch // (dp * layout.microbatch),
                sharding=sharding,
                recompute=recompute,
                sequence_parallel=layout.sequence_parallel or (ep > 1 and tp > 1),
            )
        except ValueError:
            continue


def _distance(layout: Layout, other: Layout) -> float:
    """Return how far two layouts are from each other."""
    far = 0.0
    for name in ("tp", "cp", "pp", "ep"):
        far += abs(math.log2(getattr(other, name) / getattr(layout, name)))
    far += abs(SHARDING.index(other.sharding) - SHARDING.index(layout.sharding))
    return far + abs(RECOMPUTE.index(other.recompute) - RECOMPUTE.index(layout.recompute))


def _changes(layout: Layout, other: Layout) -> str:
    """Return what differs between two layouts, as arguments."""
    changed = []
    for name in ("tp", "cp", "pp", "dp", "ep", "sharding", "recompute"):
        value = getattr(other, name)
        if value != getattr(layout, name):
            changed.append(f"{name}={value!r}")
    return ", ".join(changed)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
