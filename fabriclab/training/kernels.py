"""How long an accelerator computes in a training step, layer by layer, without any waiting for others.

`Roofline` adds up what the tensor cores, attention kernels and memory need of a layer. `Flat` divides operations by one
sustained rate, as the running case does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.running_case import Case
from fabriclab.core import Floats
from fabriclab.tuner import CONSTANTS
from fabriclab.workload.layouts import Layout
from fabriclab.workload.models import Model

__all__ = ["Computation", "Flat", "LayerTimes", "Machine", "Roofline", "machine", "of_case"]

# Part of a peak rate that the best kernels of a kind reach on large inputs. Products of matrices: 76 to 80 % in bf16 on
# H100 and B200, limited by power, as makers of benchmarks report (estimate, from memory, not confirmed). Attention:
# 740 of 989 TFLOP/s forward and 550 to 600 backward, J. Shah et al., FlashAttention-3, NeurIPS 2024; a causal mask
# costs another part. Memory: a copy that streams through HBM reaches 80 to 92 %.
GEMM = 0.80
ATTENTION = 0.55
MEMORY = 0.80
# Size of a head from which attention reaches its rate. A score costs one exponential whatever the size of the head, so
# smaller heads give tensor cores less to do in the same time; the same paper measures 64, 128 and 256.
_FULL_HEAD = 128
# Part of the peak rate of vector units that work in fp32 reaches: the scan of a state-space layer, which decays states,
# and the scores of experts. An estimate, chosen with the published steps in view: when it was tried, 0.5, 0.7 and 1.0
# gave median errors of 9.7, 8.9 and 9.1 % there, and 24.5, 21.7 and 24.2 % at the 90th percentile.
VECTOR = 0.7
# The backward pass of attention computes the scores again: five products of matrices in place of two (T. Dao et al.,
# FlashAttention, NeurIPS 2022).
ATTENTION_BACKWARD = 2.5
# Numbers that a layer reads and writes besides its products of matrices, forward, for each token. Of the hidden size:
# two norms (4) and two residual sums (6); of queries and keys: their positions (2); of the inner size: the gated
# activation (3). The backward pass moves twice as many.
_HIDDEN_PASSES = 10
_QK_PASSES = 2
_INNER_PASSES = 3
# Bytes that a number costs when it is brought to eight bits or fewer before a product: 2 read, and 1 written as it is
# and 1 transposed.
_CAST_BYTES = 4.0
# Numbers moved for each copy of a token that goes to an expert: gathered, sent, received, put back and weighted.
_ROUTE_PASSES = 8
# Bytes that the optimiser moves for each parameter (Adam): weight, both moments in fp32, read and written, gradient in
# fp32 read, and the new weight in bf16 written.
OPTIMISER_BYTES = 6 * 4 + 4 + 2

# Software that multiplies expert by expert launches its kernels for each: a product in each of three passes (forward,
# for the gradient of activations, and of weights) of two layers, and in low precision a cast of each input before it,
# as it is and transposed (NVIDIA TransformerEngine, GroupedLinear).
_EXPERT_PRODUCTS = 2
_CASTS = 3

_LOW = ("fp8", "mxfp8", "nvfp4", "mxfp4")
_PEAKS = {
    "bf16": "bf16",
    "fp16": "bf16",
    "fp8": "fp8",
    "mxfp8": "fp8",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What an accelerator can do at most: facts of the catalog.

    Parameters
    ----------
    name : str
        Identifier in the catalog.
    bf16, fp8, fp4 : float
        Peak rates of dense products of matrices; a precision that it does not have counts as the next wider. [FLOP/s]
    fp32 : float
        Peak rate of its vector units; where the catalog has none, a fourteenth of that of products in bf16, as on the
        H100. [FLOP/s]
    hbm : float
        Rate of its memory. [B/s]
    capacity : float
        Size of its memory. [B]
    """

    name: str
    bf16: float
    fp8: float
    fp4: float
    fp32: float
    hbm: float
    capacity: float

    def peak(self, precision: str) -> float:
        """Return the peak rate of products in a precision. [FLOP/s]."""
        return float(getattr(self, _PEAKS[units.choice(precision, "precision", _PEAKS)]))

    def doubled(self, what: str) -> Machine:
        """Return the same with ``"compute"`` (tensor cores) or ``"memory"`` twice as fast."""
        if what == "memory":
            return replace(self, hbm=2 * self.hbm)
        return replace(self, bf16=2 * self.bf16, fp8=2 * self.fp8, fp4=2 * self.fp4)


@cache
def machine(name: str) -> Machine:
    """Return an accelerator by its identifier in the catalog, such as ``"h100"``."""

    def fact(attribute: str, default: float) -> float:
        try:
            return float(catalog.value("accelerators", name, attribute))
        except (KeyError, ValueError):
            return default

    bf16 = float(catalog.value("accelerators", name, "peak_bf16_dense"))
    fp8 = fact("peak_fp8_dense", bf16)
    return Machine(
        name=name,
        bf16=bf16,
        fp8=fp8,
        fp4=fact("peak_fp4_dense", fp8),
        fp32=fact("peak_fp32_vector", bf16 / 14),
        hbm=float(catalog.value("accelerators", name, "hbm_bandwidth")),
        capacity=float(catalog.value("accelerators", name, "hbm_capacity")),
    )


@cache
def _launch() -> float:
    """Return the time to launch a kernel [s]: the middle of the catalog's range, as a ratio."""
    return CONSTANTS["launch"]


class LayerTimes(NamedTuple):
    """Times of one micro-batch on one rank: of each layer, (L,), and of what comes before and after all layers [s]."""

    forward: Floats
    backward: Floats
    head_forward: float
    head_backward: float
    attention: Floats  # the part of ``forward`` that ring attention can hide behind


class Computation(Protocol):
    """What a step asks about computation."""

    @property
    def spread(self) -> tuple[float, float]:
        """Factors between a predicted time of computation and the ends of its band."""
        ...

    def layers(self, model: Model, layout: Layout) -> LayerTimes:
        """Return the times of a micro-batch."""
        ...

    def optimiser(self, parameters: float) -> float:
        """Return the time to update so many parameters. [s]."""
        ...

    def doubled(self, what: str) -> Computation:
        """Return the same with ``"compute"`` or ``"memory"`` twice as fast."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Times of kernels that reach a part of the peak rates, and of what only moves numbers through memory.

    Every layer takes the sum of its products at the rate of their precision, attention or scan at that of bf16, and
    passes through memory; all of it divided by one efficiency, which stands for the software. Leaves out launches.

    Parameters
    ----------
    machine : Machine
        The accelerator.
    precision : str
        Of the products with weights: ``"bf16"``, ``"fp8"``, ``"mxfp8"`` or ``"nvfp4"``.
    efficiency : float
        Part of the rate of the best kernels that the software reaches over a whole layer. > 0
    frozen : bool
        Whether weights are not trained, as below adapters of low rank (LoRA): the backward pass then has no products
        for their gradients.
    grouped : bool
        Whether one kernel multiplies all experts of a rank, with activation and casts inside it; False: kernels are
        launched for each expert, and what is between the products passes through memory.
    band : (float, float)
        Factors between a time and the ends of its band.
    """

    machine: Machine
    precision: str = "bf16"
    efficiency: float = 1.0
    frozen: bool = False
    grouped: bool = True
    band: tuple[float, float] = (1.0, 1.0)

    @property
    def spread(self) -> tuple[float, float]:
        """Factors between a predicted time of computation and the ends of its band."""
        return self.band

    @property
    def product_rate(self) -> float:
        """Rate of products with weights, for the best kernels [FLOP/s]."""
        return GEMM * self.machine.peak(self.precision)

    @property
    def score_rate(self) -> float:
        """Rate of the product that gives the scores of all words, which stays in 16 bits [FLOP/s]."""
        return GEMM * self.machine.bf16

    @property
    def vector_rate(self) -> float:
        """Rate of vector units in fp32 [FLOP/s]."""
        return VECTOR * self.machine.fp32

    @property
    def memory_rate(self) -> float:
        """Rate at which numbers stream through memory [B/s]."""
        return MEMORY * self.machine.hbm

    def attention_rate(self, model: Model) -> float:
        """Return the rate of attention, which small heads lower. [FLOP/s]."""
        return ATTENTION * self.machine.bf16 * min(1.0, model.head_size / _FULL_HEAD)

    def layers(self, model: Model, layout: Layout) -> LayerTimes:
        """Return the times of a micro-batch on one rank."""
        length = layout.length(model)
        tokens = layout.tokens(model)
        by_layer = model.layer_flops(length)
        products = by_layer.products * tokens / layout.tp
        core = np.where(model.mamba_layers, 0.0, by_layer.core) * tokens / layout.tp
        scan = np.where(model.mamba_layers, by_layer.core, 0.0) * tokens / layout.tp
        moved = self.moved(model, layout) * tokens / layout.tp
        weights = self._weights(model, layout)

        memory_rate = self.memory_rate
        # Scores of experts are computed in fp32, as Megatron-LM does (moe_router_dtype): 2 operations for each number
        # of a token and expert.
        router = 2.0 * model.hidden * model.experts * model.moe_layers * tokens / layout.tp
        in_products = (products - router) / self.product_rate + router / self.vector_rate
        in_core = core / self.attention_rate(model) + scan / self.vector_rate
        in_memory = (moved + weights) / memory_rate
        forward = in_products + in_core + in_memory + self._launches(model, layout)
        backward = (
            (1 if self.frozen else 2) * in_products + ATTENTION_BACKWARD * in_core + 2 * in_memory
        )
        backward = backward + 2 * self._launches(model, layout)
        if layout.recompute == "full":
            backward = backward + forward
        elif layout.recompute == "selective":
            backward = backward + in_core

        # The scores of all words of the vocabulary are computed in bf16, and their softmax in fp32 (3 passes).
        head = model.head_flops * tokens / layout.tp / self.score_rate
        head += 3 * 4 * model.vocabulary * tokens / layout.tp / memory_rate
        e = self.efficiency
        head_backward = (1 if self.frozen else 2) * head
        return LayerTimes(forward / e, backward / e, head / e, head_backward / e, in_core / e)

    def _launches(self, model: Model, layout: Layout) -> Floats:
        """Return how long each layer waits for launches for single experts in a pass, (L,). [s]."""
        if self.grouped or not model.experts:
            return np.zeros(model.layers)
        each = 1 + (_CASTS if self.precision in _LOW else 0)
        local = model.experts / layout.ep
        return np.asarray(model.moe_layers * local * _EXPERT_PRODUCTS * each * _launch())

    def moved(self, model: Model, layout: Layout) -> Floats:
        """Return the bytes that each layer moves for a token besides its weights, forward, (L,). [B]."""
        size = layout.activation_bytes
        low = self.precision in _LOW
        cast = _CAST_BYTES if low else 0.0
        qk = (model.heads + model.kv_heads) * model.head_size
        attention = _QK_PASSES * qk * size + cast * (model.hidden + model.heads * model.value_size)
        dense = _INNER_PASSES * model.feed_forward * size + cast * (
            model.hidden + model.feed_forward
        )
        mamba_inner = model.mamba_heads * model.mamba_head_size
        # gate, convolution and scan each pass over the inner size
        mamba = 4 * _INNER_PASSES * mamba_inner * size + cast * (model.hidden + mamba_inner)
        expert = 0.0
        if model.experts:
            between = _INNER_PASSES * size * model.expert_feed_forward
            between += cast * (model.expert_hidden + model.expert_feed_forward)
            if self.grouped:
                between = 0.0
            routed = model.experts_per_token * (
                _ROUTE_PASSES * model.expert_hidden * size + between
            )
            shared = (
                model.shared_experts * model.shared_feed_forward * (_INNER_PASSES * size + cast)
            )
            router = 4.0 * 3 * model.experts  # scores in fp32
            expert = routed + shared + router
        total: Floats = (
            model.attention_layers * attention
            + model.feed_forward_layers * dense
            + model.mamba_layers * mamba
            + model.moe_layers * expert
            + _HIDDEN_PASSES * model.hidden * size / (2 if model.pattern else 1)
        )
        return total

    def _weights(self, model: Model, layout: Layout) -> Floats:
        """Return the bytes of weights that each layer of a rank reads in a pass, (L,). [B]."""
        dense = (model.layer_parameters - model.routed_parameters) / layout.tp
        routed = model.routed_parameters / (layout.ep * layout.etp)
        return (dense + routed) * layout.weight_bytes

    def optimiser(self, parameters: float) -> float:
        """Return the time to update so many parameters of a rank. [s]."""
        return parameters * OPTIMISER_BYTES / (MEMORY * self.machine.hbm)

    def doubled(self, what: str) -> Roofline:
        """Return the same with ``"compute"`` (tensor cores) or ``"memory"`` twice as fast."""
        return replace(self, machine=self.machine.doubled(what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """Times of computation at one sustained rate.

    Parameters
    ----------
    rate : float
        Sustained rate. [FLOP/s], > 0
    count : str
        Which operations count: ``"products"``, or ``"parameters"`` for 6 for each parameter; see `Model.flops`.
    """

    rate: float
    count: str = "products"

    @property
    def spread(self) -> tuple[float, float]:
        """Factors of the band: there is none."""
        return 1.0, 1.0

    def layers(self, model: Model, layout: Layout) -> LayerTimes:
        """Return the times of a micro-batch on one rank."""
        tokens = layout.tokens(model) / layout.tp
        by_layer = model.layer_flops(layout.length(model))
        total = model.flops(layout.length(model), recompute=layout.recompute, count=self.count)
        core = by_layer.core
        inner = by_layer.products
        head = model.head_flops
        if self.count == "parameters":
            # Layers of the same operations share what the rule of thumb counts elsewhere.
            inner = inner * (total.forward - core.sum()) / inner.sum()
            head = 0.0
        forward = (inner + core) * tokens / self.rate
        backward = 2 * forward
        if layout.recompute == "full":
            backward = 3 * forward
        elif layout.recompute == "selective":
            backward = backward + core * tokens / self.rate
        head_time = head * tokens / self.rate
        return LayerTimes(
            forward, backward, head_time, 2 * head_time, np.asarray(core * tokens / self.rate)
        )

    def optimiser(self, parameters: float) -> float:
        """Return 0: the running case leaves the optimiser out."""
        return 0.0

    def doubled(self, what: str) -> Flat:
        """Return the same with ``"compute"`` twice as fast; memory plays no part."""
        return replace(self, rate=2 * self.rate) if what == "compute" else self


def of_case(job: Case) -> Flat:
    """Return the computation of a running case: six operations for each parameter, at its sustained rate."""
    return Flat(rate=float(job.sustained_bf16), count="parameters")
