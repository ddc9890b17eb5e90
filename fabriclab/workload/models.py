"""Transformers in numbers: what a model stores and what a token costs, from the shape that its makers published.

`preset` has the models of published training runs and benchmarks; each row of ``models.csv`` beside this file names its
source. A `Model` of one's own takes the same fields.

Examples
--------
>>> from fabriclab.workload import models
>>> gpt = models.preset("gpt-3 175b")
>>> round(gpt.parameters / 1e9, 1), gpt.attention
(174.6, 'MHA')
>>> moe = models.preset("deepseek_v3")
>>> round(moe.parameters / 1e9), round(moe.active_parameters / 1e9, 1)
(671, 37.6)

A step over a token costs three times its forward pass, and a fourth pass where activations are computed again:

>>> once = gpt.flops(2048)
>>> again = gpt.flops(2048, recompute="full")
>>> round(once.total / once.forward), round(again.total / again.forward, 2)
(3, 4.0)
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import spelling, units
from fabriclab.catalog import case
from fabriclab.catalog.running_case import Case
from fabriclab.catalog.tables import near, read_rows
from fabriclab.core import Flags, Floats, Ints

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BYTES",
    "RECOMPUTE",
    "Flops",
    "LayerFlops",
    "Model",
    "bytes_of",
    "of_case",
    "preset",
    "preset_names",
    "preset_row",
]

#: Bytes of a stored number. The block formats have one scale of a byte for 32 numbers (OCP Microscaling Formats 1.0,
#: 2023) or, in NVFP4, for 16.
BYTES = {
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "mxfp8": 1 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
}
RECOMPUTE = ("none", "selective", "full")
_BLOCKS = "M*-E"  # letters of `pattern`: Mamba, attention, feed-forward, experts
_COUNTS = "products", "parameters"
_BIASES = "none", "qkv", "all"
_NORMS = "rms", "layer"
# Floating-point operations of the recurrence of Mamba-2, for each inner channel, state and token: Megatron-LM,
# megatron/training/training.py, mamba_layer_flops.
_SCAN = 7
_KNOWN = 256  # models whose layers are counted once


class Flops(NamedTuple):
    """Floating-point operations of one token in a training step; a product and its sum are two."""

    forward: float
    backward: float
    recomputed: float

    @property
    def total(self) -> float:
        """Operations of the whole step, with what is computed again."""
        return self.forward + self.backward + self.recomputed

    @property
    def model(self) -> float:
        """Operations without what is computed again: those that model FLOPs utilisation (MFU) counts."""
        return self.forward + self.backward


class LayerFlops(NamedTuple):
    """Forward operations of one token in each layer, (L,).

    ``products`` are those with weights; ``core`` has those between tokens: attention scores and sums, or the scan of a
    state-space layer.
    """

    products: Floats
    core: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The shape of a transformer, dense or with experts, and what follows from it.

    Each layer has attention and a feed-forward part, unless ``pattern`` says otherwise. Left out: norms of queries and
    keys, attention sinks, extra heads that predict further tokens, and encoders of images.

    Parameters
    ----------
    name : str
        Name that messages print.
    layers, hidden, heads : int
        Number of layers, size of the vector that a token is between them, and attention heads. >= 1
    kv_heads : int, optional
        Heads of keys and values, which divide the heads; by default as many. >= 1
    head_size : int, optional
        Size of a head's query and key (with latent attention: of the part without position) and, unless ``value_size``
        is given, of its value; by default hidden / heads. >= 1
    feed_forward : int, optional
        Inner size of a dense feed-forward part; by default 4 x hidden. >= 1
    gated : bool
        True if the feed-forward parts, experts too, have three matrices (SwiGLU, GeGLU), False if two.
    vocabulary : int
        Rows of the table of tokens. >= 1
    tied : bool
        True if input and output use one table.
    sequence : int
        Tokens of a sequence in training, unless a method is given another length. >= 1
    positions : int
        Learned position vectors. >= 0
    norm : str
        ``"rms"``, one vector for each norm, or ``"layer"``, two.
    biases : str
        Which matrices have a bias: ``"none"``, ``"qkv"`` or ``"all"``.
    experts : int
        Routed experts of a layer of experts; 0 for a dense model.
    experts_per_token : int
        Routed experts that a token visits. 1..experts
    expert_feed_forward : int
        Inner size of a routed expert. >= 1 if there are experts
    expert_hidden : int, optional
        Size of the vector that is sent to an expert; by default ``hidden``. If smaller, a matrix before and one after
        the experts change the size (latent experts).
    shared_experts, shared_feed_forward : int
        Experts that every token visits, and the inner size of each; 0: that of a routed one.
    dense_layers : int
        Layers at the beginning that have no experts.
    moe_every : int
        Of the others, every n-th has experts. >= 1
    query_rank, kv_rank, rope_size, value_size : int
        Latent attention (MLA): sizes to which queries (0: not), and keys and values, are compressed, size of the part
        of a head that carries the position, and size of its value. ``kv_rank`` = 0: ordinary attention.
    window, full_every : int
        Tokens to which a token attends, 0 for all; every n-th layer with attention attends to all, 0 for none. >= 0
    pattern : str
        For models whose layers differ in kind: one letter a layer, ``M`` for Mamba-2, ``*`` attention, ``-``
        feed-forward and ``E`` experts; then each layer is only that.
    mamba_heads, mamba_head_size, mamba_state, mamba_groups, mamba_kernel : int
        Shape of a Mamba-2 layer.

    Raises
    ------
    ValueError
        If a number is out of range or the fields contradict each other.

    References
    ----------
    .. [1] D. Narayanan et al., Efficient large-scale language model training on GPU clusters, SC 2021
       (arXiv:2104.04473): parameters and operations of the GPT family.
    .. [2] DeepSeek-AI, DeepSeek-V2, 2024 (arXiv:2405.04434), section 2.1: latent attention.
    .. [3] T. Dao, A. Gu, Transformers are SSMs, ICML 2024 (arXiv:2405.21060): Mamba-2.
    """

    name: str = "a model"
    layers: int
    hidden: int
    heads: int
    kv_heads: int = 0
    head_size: int = 0
    feed_forward: int = 0
    gated: bool = True
    vocabulary: int
    tied: bool = False
    sequence: int = 8192
    positions: int = 0
    norm: str = "rms"
    biases: str = "none"
    experts: int = 0
    experts_per_token: int = 0
    expert_feed_forward: int = 0
    expert_hidden: int = 0
    shared_experts: int = 0
    shared_feed_forward: int = 0
    dense_layers: int = 0
    moe_every: int = 1
    query_rank: int = 0
    kv_rank: int = 0
    rope_size: int = 0
    value_size: int = 0
    window: int = 0
    full_every: int = 0
    pattern: str = ""
    mamba_heads: int = 0
    mamba_head_size: int = 0
    mamba_state: int = 0
    mamba_groups: int = 1
    mamba_kernel: int = 4

    def __post_init__(self) -> None:
        """Check the ranges, and fill in what follows from other fields."""
        for field in dataclasses.fields(self):
            if field.type == "int":
                least = 1 if field.name in _AT_LEAST_ONE else 0
                units.count(getattr(self, field.name), field.name, least)
            elif field.type == "bool":
                units.flag(getattr(self, field.name), field.name)
        units.choice(self.norm, "norm", _NORMS)
        units.choice(self.biases, "biases", _BIASES)

        self._default("kv_heads", self.heads)
        if not self.head_size and self.hidden % self.heads:
            msg = f"head_size must be given, because {self.heads} heads do not divide hidden = {self.hidden}"
            raise ValueError(msg)
        self._default("head_size", self.hidden // self.heads)
        self._default("value_size", self.head_size)
        self._default("feed_forward", 4 * self.hidden)
        if self.heads % self.kv_heads:
            msg = f"kv_heads must divide heads = {self.heads}, got {self.kv_heads}"
            raise ValueError(msg)
        self._check_pattern()
        if self.experts:
            self._check_experts()

    def _default(self, name: str, value: int) -> None:
        """Set a field that was left at 0."""
        if not getattr(self, name):
            object.__setattr__(self, name, value)

    def _check_pattern(self) -> None:
        """Refuse a pattern that has other letters, or is not as long as the model."""
        if not self.pattern:
            return
        strange = set(self.pattern) - set(_BLOCKS)
        if strange or len(self.pattern) != self.layers:
            msg = (
                f"pattern must have one letter of {_BLOCKS!r} for each of the {self.layers} layers, got "
                f"{len(self.pattern)} letters, {self.pattern!r:.60}"
            )
            raise ValueError(msg)
        if "M" in self.pattern and not (self.mamba_heads and self.mamba_head_size):
            raise ValueError("mamba_heads and mamba_head_size must be >= 1 in a pattern with M")
        if "E" in self.pattern and not self.experts:
            raise ValueError("experts must be >= 1 in a pattern with E, got 0")

    def _check_experts(self) -> None:
        """Refuse experts that contradict each other, and fill in their sizes."""
        units.count(self.experts_per_token, "experts_per_token", 1, self.experts)
        units.count(self.expert_feed_forward, "expert_feed_forward", 1)
        units.count(self.dense_layers, "dense_layers", 0, self.layers)
        self._default("expert_hidden", self.hidden)
        if self.shared_experts:
            self._default("shared_feed_forward", self.expert_feed_forward)

    # ---- which layers have what ----------------------------------------------------------------------------------

    @property
    def is_moe(self) -> bool:
        """Whether some layers have experts."""
        return bool(self.moe_layers.any())

    @property
    def attention(self) -> str:
        """Kind of attention: MLA (latent), MQA (one head of keys and values), GQA (groups share one) or MHA."""
        if self.kv_rank:
            return "MLA"
        if self.kv_heads == self.heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def attention_layers(self) -> Flags:
        """Which layers have attention, (L,)."""
        return self._has("*")

    @property
    def windowed_layers(self) -> Flags:
        """Which layers attend to a window only, (L,)."""
        if not self.window:
            return np.zeros(self.layers, dtype=np.bool_)
        if not self.full_every:
            return self.attention_layers
        number = np.cumsum(self.attention_layers)  # 1, 2, ... of the layers with attention
        windowed: Flags = self.attention_layers & (number % self.full_every != 0)
        return windowed

    @property
    def moe_layers(self) -> Flags:
        """Which layers have experts, (L,)."""
        return _moe_layers(self)

    @property
    def feed_forward_layers(self) -> Flags:
        """Which layers have a dense feed-forward part, (L,)."""
        return self._has("-") if self.pattern else ~self.moe_layers

    @property
    def mamba_layers(self) -> Flags:
        """Which layers are Mamba-2 layers, (L,)."""
        return self._has("M") if self.pattern else np.zeros(self.layers, dtype=np.bool_)

    def _has(self, letter: str) -> Flags:
        """Return which layers have this letter in the pattern, (L,); without a pattern all of them."""
        if not self.pattern:
            return np.ones(self.layers, dtype=np.bool_)
        return np.array([kind == letter for kind in self.pattern])

    # ---- parameters ----------------------------------------------------------------------------------------------

    @property
    def attention_parameters(self) -> int:
        """Parameters of the matrices of one attention part; without biases."""
        out = self.heads * self.value_size * self.hidden
        if not self.kv_rank:
            query = self.hidden * self.heads * self.head_size
            return query + self.hidden * self.kv_heads * (self.head_size + self.value_size) + out
        query_size = self.heads * (self.head_size + self.rope_size)
        if self.query_rank:
            query = self.query_rank * (self.hidden + query_size)
        else:
            query = self.hidden * query_size
        down = self.hidden * (self.kv_rank + self.rope_size)
        up = self.kv_rank * self.heads * (self.head_size + self.value_size)
        return query + down + up + out

    @property
    def feed_forward_parameters(self) -> int:
        """Parameters of the matrices of one dense feed-forward part; without biases."""
        return self._matrices * self.hidden * self.feed_forward

    @property
    def expert_parameters(self) -> int:
        """Parameters of the matrices of one routed expert; 0 without experts."""
        return self._matrices * self.expert_hidden * self.expert_feed_forward

    @property
    def shared_parameters(self) -> int:
        """Parameters of one layer of experts that every token uses: shared experts, router, matrices around them."""
        if not self.experts:
            return 0
        shared = self.shared_experts * self._matrices * self.hidden * self.shared_feed_forward
        router = self.hidden * self.experts
        around = 0
        if self.expert_hidden != self.hidden:
            around = 2 * self.hidden * self.expert_hidden
        return shared + router + around

    @property
    def mamba_parameters(self) -> int:
        """Parameters of the two matrices of a Mamba-2 layer."""
        inner = self.mamba_heads * self.mamba_head_size
        states = 2 * self.mamba_groups * self.mamba_state
        return self.hidden * (2 * inner + states + self.mamba_heads) + inner * self.hidden

    @property
    def _matrices(self) -> int:
        """Number of matrices of a feed-forward part."""
        return 3 if self.gated else 2

    @property
    def matrix_parameters(self) -> Ints:
        """Parameters of the matrices that every token meets, of each layer, (L,); routed experts are not among them."""
        return _matrix_parameters(self)

    @property
    def routed_parameters(self) -> Ints:
        """Parameters of all routed experts of each layer, (L,); expert parallelism divides them."""
        return self.moe_layers * (self.experts * self.expert_parameters)

    @property
    def vector_parameters(self) -> Ints:
        """Parameters of norms, biases and the small tensors of Mamba-2, of each layer, (L,)."""
        return _vector_parameters(self)

    @property
    def layer_parameters(self) -> Ints:
        """Parameters of each layer, (L,)."""
        return self.matrix_parameters + self.routed_parameters + self.vector_parameters

    @property
    def table_parameters(self) -> int:
        """Parameters of one table of tokens: rows times hidden size."""
        return self.vocabulary * self.hidden

    @property
    def input_parameters(self) -> int:
        """Parameters before the first layer: the table of tokens and learned positions."""
        return self.table_parameters + self.positions * self.hidden

    @property
    def output_parameters(self) -> int:
        """Parameters after the last layer: its norm, and the table of tokens unless it is the input's."""
        norm = self.hidden * (2 if self.norm == "layer" else 1)
        return norm + (0 if self.tied else self.table_parameters)

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        return int(self.layer_parameters.sum()) + self.input_parameters + self.output_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that a token meets: all but the routed experts that it does not visit."""
        if not self.experts:
            return self.parameters
        idle = (
            self.routed_parameters.sum() // self.experts * (self.experts - self.experts_per_token)
        )
        return self.parameters - int(idle)

    # ---- operations ----------------------------------------------------------------------------------------------

    def attended(self, sequence: int | None = None, *, causal: bool = True) -> Floats:
        """Return with how many tokens a token is compared in each layer, on average, (L,).

        Parameters
        ----------
        sequence : int, optional
            Tokens of a sequence; by default those of training. >= 1
        causal : bool
            Count only the tokens before each one: half of the sequence, or a window after its first tokens. False
            counts all, as reports of the Megatron family do.
        """
        s = float(self._sequence(sequence))
        width = min(float(self.window), s)
        everything = s / 2 if causal else s
        in_window = width - width**2 / (2 * s) if causal else width
        seen = np.where(self.windowed_layers, in_window, everything)
        return np.where(self.attention_layers, seen, 0.0)

    def layer_flops(self, sequence: int | None = None, *, causal: bool = True) -> LayerFlops:
        """Return the forward operations of one token in each layer; arguments as in `attended`."""
        routed = self.moe_layers * (self.experts_per_token * self.expert_parameters)
        products = 2.0 * (self.matrix_parameters + routed)
        key_size = self.head_size + (self.rope_size if self.kv_rank else 0)
        each = 2.0 * self.heads * (key_size + self.value_size)  # a score and its share of the sum
        inner = self.mamba_heads * self.mamba_head_size
        scan = _SCAN * inner * self.mamba_state
        core = self.attended(sequence, causal=causal) * each + self.mamba_layers * scan
        return LayerFlops(products, core)

    @property
    def head_flops(self) -> float:
        """Forward operations of one token after the last layer: its score for every row of the vocabulary."""
        return 2.0 * self.table_parameters

    def flops(
        self,
        sequence: int | None = None,
        *,
        causal: bool = True,
        recompute: str = "none",
        trained: bool = True,
        count: str = "products",
    ) -> Flops:
        """Return the operations of one token in a training step.

        Products with weights and between tokens are counted; norms, activations and softmax are left out.

        Parameters
        ----------
        sequence, causal
            As in `attended`.
        recompute : str
            What the backward pass computes again: ``"none"``, ``"selective"`` (the part between tokens, whose results
            are large and cheap), or ``"full"`` (all layers).
        trained : bool
            False if the weights are frozen, as below adapters of low rank (LoRA): then the backward pass has no
            products for gradients of weights.
        count : str
            ``"products"``, or ``"parameters"`` for the rule of thumb of 6 operations for each parameter, which counts
            norms and the input table as if they were multiplied. The running case uses it.

        References
        ----------
        .. [1] V. Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023
           (arXiv:2205.05198): selective recomputation.
        """
        mode = units.choice(recompute, "recompute", RECOMPUTE)
        rule = units.choice(count, "count", _COUNTS)
        by_layer = self.layer_flops(sequence, causal=causal)
        core = float(by_layer.core.sum())
        in_layers = float(by_layer.products.sum())
        products = in_layers + self.head_flops
        if rule == "parameters":
            products = 2.0 * self.active_parameters
        forward = products + core
        backward = products * (2 if units.flag(trained, "trained") else 1) + 2 * core
        again = {"none": 0.0, "selective": core, "full": in_layers + core}[mode]
        return Flops(forward, backward, again)

    def _sequence(self, sequence: int | None) -> int:
        """Return the tokens of a sequence: a given number, or those of training."""
        return self.sequence if sequence is None else units.count(sequence, "sequence")

    # ---- bytes ---------------------------------------------------------------------------------------------------

    def weight_bytes(self, precision: str = "bf16") -> float:
        """Return the size of all weights in a precision of `BYTES`. [B]."""
        return self.parameters * bytes_of(precision)

    def cache_bytes(self, tokens: int = 1, precision: str = "bf16") -> float:
        """Return what attention keeps of some tokens of one sequence while it generates: the KV cache [B].

        A layer with a window keeps the tokens of its window only. The state of Mamba-2 layers, which does not grow, is
        left out.
        """
        kept = units.count(tokens, "tokens")
        in_window = np.where(self.windowed_layers, min(kept, self.window), kept)
        total = float((in_window * self.attention_layers).sum())
        return total * self.kv_size * bytes_of(precision)

    @property
    def kv_size(self) -> int:
        """Numbers that attention keeps of a token in one layer: keys and values, or what both are computed from."""
        if self.kv_rank:
            return self.kv_rank + self.rope_size
        return self.kv_heads * (self.head_size + self.value_size)

    def replace(self, **changes: Any) -> Model:
        """Return this model with some fields changed; those that were filled in, such as ``head_size``, stay."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        """Return the model in a line."""
        total = f"{self.parameters / 1e9:.4g} billion parameters"
        if self.is_moe:
            total += f", {self.active_parameters / 1e9:.3g} of them for each token"
        return f"{self.name}: {self.layers} layers of {self.hidden}, {total}"


@lru_cache(maxsize=_KNOWN)
def _moe_layers(model: Model) -> Flags:
    """Return which layers have experts, (L,)."""
    if model.pattern:
        return _sealed(model._has("E"))
    if not model.experts:
        return _sealed(np.zeros(model.layers, dtype=np.bool_))
    layer = np.arange(model.layers) - model.dense_layers
    return _sealed((layer >= 0) & (layer % model.moe_every == model.moe_every - 1))


@lru_cache(maxsize=_KNOWN)
def _matrix_parameters(model: Model) -> Ints:
    """Return the parameters of the matrices that every token meets, of each layer, (L,)."""
    return _sealed(
        model.attention_layers * model.attention_parameters
        + model.feed_forward_layers * model.feed_forward_parameters
        + model.moe_layers * model.shared_parameters
        + model.mamba_layers * model.mamba_parameters
    )


@lru_cache(maxsize=_KNOWN)
def _vector_parameters(model: Model) -> Ints:
    """Return the parameters of norms, biases and the small tensors of Mamba-2, of each layer, (L,)."""
    norm = model.hidden * (2 if model.norm == "layer" else 1)
    # With a pattern there is one norm before each layer, else one before each of its two parts.
    norms = np.full(model.layers, norm if model.pattern else 2 * norm)
    if model.kv_rank:
        norms = norms + model.attention_layers * (model.query_rank + model.kv_rank)
    inner = model.mamba_heads * model.mamba_head_size
    channels = inner + 2 * model.mamba_groups * model.mamba_state
    small = channels * (model.mamba_kernel + 1) + 3 * model.mamba_heads + inner
    return _sealed(norms + _bias_parameters(model) + model.mamba_layers * small)


def _bias_parameters(model: Model) -> Ints:
    """Return the parameters of the biases of each layer, (L,)."""
    none = np.zeros(model.layers, dtype=np.int64)
    if model.biases == "none":
        return none
    values = model.kv_heads * (model.head_size + model.value_size)
    qkv = model.heads * model.head_size + values
    if model.biases == "qkv":
        return none + model.attention_layers * qkv
    inputs = model._matrices - 1  # matrices that lead into a feed-forward part
    dense = inputs * model.feed_forward + model.hidden
    expert = inputs * model.expert_feed_forward + model.expert_hidden
    total: Ints = (
        model.attention_layers * (qkv + model.hidden)
        + model.feed_forward_layers * dense
        + model.moe_layers * (model.experts * (expert + 1))
    )
    return total


def _sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that is kept for later calls, so that nobody can write to it."""
    array.flags.writeable = False
    return array


_CASE = "the running case"
_CASE_NAMES = ("therunningcase", "runningcase", "thecase", "case")
_AT_LEAST_ONE = ("layers", "hidden", "heads", "vocabulary", "sequence", "moe_every")
_TEXTS = ("norm", "biases", "pattern")
_FLAGS = ("gated", "tied")


def bytes_of(precision: str) -> float:
    """Return the bytes of a number in a precision of `BYTES`, with its share of the scales."""
    found = spelling.find(precision, BYTES)
    if found is None:
        raise ValueError(near(precision, BYTES, "the list of precisions"))
    return BYTES[found]


def of_case(job: Case) -> Model:
    """Return the model of a running case, from its rows; `preset` knows it as ``"the running case"``."""
    return Model(
        name=_CASE,
        layers=int(job.layers),
        hidden=int(job.hidden),
        heads=int(job.heads),
        kv_heads=int(job.kv_heads),
        head_size=int(job.head_dim),
        feed_forward=int(job.feed_forward),
        vocabulary=int(job.vocabulary),
        sequence=int(job.sequence),
    )


@cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    """Return the rows of the table of models, by name."""
    return {row["name"]: row for row in read_rows(Path(__file__).with_suffix(".csv"))}


@cache
def _names() -> Mapping[str, str]:
    """Return the name of the row for each compact name or other name."""
    found = {}
    for name, row in _rows().items():
        for alias in (name, *row["aliases"].split(";")):
            found[_compact(alias)] = name
    found.pop("", None)
    return found


def _compact(text: str) -> str:
    """Return a text without capitals, spaces and signs, so that ``LLAMA3.1_405B`` is ``Llama 3.1 405B``."""
    return re.sub(r"[^a-z0-9]", "", spelling.key(text))


def preset_names() -> tuple[str, ...]:
    """Return the names of all models that `preset` knows."""
    return (_CASE, *_rows())


def preset_row(name: str) -> Mapping[str, str]:
    """Return the row of a model with its source, how sure it is, and the parameters that its makers state.

    Columns beside the fields of a `Model`: ``source``; ``confirmed``, which says where the shape was read, or that it
    is recalled; ``published_total_b`` and ``published_active_b``, in billions; and ``note``.

    Raises
    ------
    ValueError
        If no row, or other name in a row, spells the name.
    """
    found = _names().get(_compact(name)) if isinstance(name, str) else None
    if found is None:
        raise ValueError(near(name, preset_names(), "the list of models"))
    return _rows()[found]


def preset(name: str, **changes: Any) -> Model:
    """Return a published model by its name in any spelling, optionally with some fields changed.

    Examples
    --------
    >>> preset("LLAMA3.1_405B").layers
    126
    >>> preset("the running case").parameters
    70553706496
    """
    if isinstance(name, str) and _compact(name) in _CASE_NAMES:
        return of_case(case()).replace(**changes)
    row = preset_row(name)
    given: dict[str, Any] = {"name": row["name"]}
    for field in dataclasses.fields(Model):
        text = row.get(field.name, "")
        if not text or field.name == "name":
            continue
        if field.name in _TEXTS:
            given[field.name] = text
        elif field.name in _FLAGS:
            given[field.name] = text == "yes"
        else:
            given[field.name] = int(text)
    return Model(**{**given, **changes})


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
