"""Published training steps as questions: the model, layout and cluster that a row of the table means, and its stack.

A row leaves much unsaid. What it does not say is inferred by rules that look at no result; each rule says why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fabriclab import catalog, systems
from fabriclab.systems import System
from fabriclab.training import kernels
from fabriclab.training.efficiency import USUAL, Kind, efficiency, spread
from fabriclab.training.kernels import Machine, Roofline
from fabriclab.training.places import Costs, RateCosts
from fabriclab.training.step import Schedule, Step, ask
from fabriclab.workload import models
from fabriclab.workload.layouts import Layout, check
from fabriclab.workload.memory import memory
from fabriclab.workload.models import Model

__all__ = ["Asked", "chip_of", "read_row", "step_of_row", "system_of"]


class Chip(NamedTuple):
    """An accelerator of the table: its generation, its row in the catalog, and the words that describe its servers."""

    generation: str
    machine: str
    words: Mapping[str, Any]
    domain: int = 8


# source: catalog, nics cx7 (a ConnectX-7 for each GPU of a DGX B200)
_B200 = {"gpu": "B200", "nics": 8, "rate": "400 Gb/s"}
# illustrative: the rows do not name the NICs of these servers; one of 400 Gb/s for each GPU is the usual choice
_MI355X = {"gpu": "MI355X", "nics": 8, "rate": "400 Gb/s"}
_CHIPS = {
    # source: catalog, nics cx8 (a ConnectX-8 for each GPU)
    "gb300": Chip("blackwell ultra", "gb300", {"gpu": "GB200", "rate": "800 Gb/s"}, 64),
    "gb200": Chip("blackwell", "gb200", {"gpu": "GB200"}, 64),
    "b300": Chip("blackwell ultra", "b300", {"gpu": "B300"}),
    "b200": Chip("blackwell", "b200", _B200),
    "h800": Chip("hopper", "h100", {"gpu": "H100"}),
    "h200": Chip("hopper", "h200", {"gpu": "H200"}),
    "h100": Chip("hopper", "h100", {"gpu": "H100"}),
    "a100": Chip("ampere", "a100", {"gpu": "A100"}),
    "mi355x": Chip("cdna4", "mi355x", _MI355X),
    "mi350x": Chip("cdna4", "mi355x", _MI355X),
    "mi325x": Chip("cdna3", "mi325x", {"gpu": "MI325X"}),
    "mi300x": Chip("cdna3", "mi300x", {"gpu": "MI300X"}),
    # TPUs: chips of a slice reach each other through a torus; here it counts as one domain.
    "tpu7x": Chip("tpu7x", "tpu7x", {}, 0),
    "tpuv6e": Chip("tpu6e", "tpu6e", {}, 0),
    "tpuv5p": Chip("tpu5p", "tpu5p", {}, 0),
}


class Asked(NamedTuple):
    """A row that was understood."""

    model: Model
    layout: Layout
    costs: Costs | RateCosts
    chip: Chip
    precision: str
    stack: str
    task: str

    @property
    def kind(self) -> Kind:
        """What has an efficiency of its own."""
        return Kind(self.stack, self.chip.generation, self.precision)


def read_row(row: Mapping[str, Any]) -> Asked | None:
    """Return what a row means, or None if it names a model, accelerator or batch that is not known."""
    if row["task"] not in ("pretrain", "sft", "lora", "mlperf_pretrain", "mlperf_lora"):
        return None
    model = _model(row)
    chip = chip_of(row["accelerator"])
    gpus = _whole(row["gpus"])
    length = _whole(row["seq_len_tokens"])
    batch = _whole(row["global_batch_seqs"])
    if model is None or chip is None or not gpus or not length or not batch:
        return None
    precision = _precision(row, chip)
    stack = _stack(row)
    costs = _costs(chip, gpus)
    layout = _layout(row, model, gpus, batch, length, stack, chip)
    if layout is None or costs is None:
        return None
    layout = _fit(layout, model, kernels.machine(chip.machine), stack, row["task"])
    return Asked(model, layout, costs, chip, precision, stack, row["task"])


def _whole(text: Any) -> int:
    try:
        return int(float(text))
    except (TypeError, ValueError):
        return 0


_TASKS = re.compile(r"\s*fine-?tuning|\(.*\)", re.I)


def _model(row: Mapping[str, Any]) -> Model | None:
    """Return the model of a row; a recipe may cut its layers."""
    try:
        found = models.preset(_TASKS.sub("", str(row["model"])).strip())
    except ValueError:
        return None
    layers = _whole(row.get("layers"))
    if layers and layers != found.layers:
        if found.pattern:
            return found
        found = found.replace(layers=layers)
    return found


def chip_of(name: str) -> Chip | None:
    """Return the accelerator that a name contains."""
    text = re.sub(r"[^a-z0-9]", "", str(name).lower())
    if "ironwood" in text or "tpu7x" in text:
        return _CHIPS["tpu7x"]
    if "trillium" in text:
        return _CHIPS["tpuv6e"]
    if "blackwellultra" in text and "gb300" not in text:
        return _CHIPS["b300"]
    for key, chip in _CHIPS.items():
        if key in text:
            return chip
    return None


def _precision(row: Mapping[str, Any], chip: Chip) -> str:
    """Return the precision of products; MLPerf rows that do not say train in fp8, as their rules allow since v3.0."""
    text = str(row["precision"]).lower()
    if "nvfp4" in text or "fp4" in text:
        return "nvfp4"
    if "mx" in text:
        return "mxfp8"
    if "fp8" in text or "float8" in text:
        return "fp8"
    if (
        not text
        and "v5.1" in str(row["framework_version"])
        and chip.generation.startswith("blackwell")
    ):
        return "nvfp4"  # the first round with it
    if not text and str(row["task"]).startswith("mlperf") and not chip.generation.startswith("tpu"):
        return "fp8"
    return "bf16"


def _stack(row: Mapping[str, Any]) -> str:
    """Return the name of the software that trained."""
    text = str(row["framework"]).lower()
    if "automodel" in text:
        return "automodel"
    if "titan" in text:
        return "torchtitan"
    if "maxtext" in text:
        return "maxtext"
    if str(row["task"]).startswith("mlperf"):
        return "mlperf"
    if "bridge" in text:
        return "megatron-bridge"
    if "nemo" in text:
        return "nemo"
    return "other"


def _costs(chip: Chip, gpus: int) -> Costs | RateCosts | None:
    """Return the times of collectives on the cluster of a row; None if no cluster of that size is known."""
    if not chip.domain:
        rate = catalog.value("accelerators", chip.machine, "scaleup_bandwidth")
        return RateCosts(scale_up=float(rate), network=float(rate), domain=gpus)
    system = system_of(chip, gpus)
    return None if system is None else Costs(system)


def system_of(chip: Chip, gpus: int) -> System | None:
    """Return the cluster: usual servers; of a rack of 72 GPUs a job takes 64, because layouts are powers of 2."""
    each = 4 if chip.domain == 64 else 8
    if gpus <= chip.domain:
        if each == 4:
            servers = max(1, gpus // 4)
            return systems.system(**chip.words, servers=servers, gpus=min(gpus, 4), domain=gpus)
        words = (
            {k: v for k, v in chip.words.items() if k not in ("nics", "rate")}
            if gpus < 8
            else chip.words
        )
        return systems.system(**words, servers=1, gpus=gpus)
    if gpus % chip.domain:
        return None
    domain = chip.domain if each == 4 else None
    return systems.system(**chip.words, servers=gpus // each, domain=domain)


def _layout(
    row: Mapping[str, Any], model: Model, gpus: int, batch: int, length: int, stack: str, chip: Chip
) -> Layout | None:
    """Return the layout of a row; what it does not say is inferred."""
    tp = _whole(row["tp"]) or 1
    pp = _whole(row["pp"]) or 1
    cp = _whole(row["cp"]) or 1
    ep = max(1, _whole(row["ep"]))
    if not model.is_moe:
        ep = 1
    elif not _whole(row["ep"]) and stack == "automodel":
        ep = min(gpus, model.experts)  # its recipes put experts on all ranks
    if not _whole(row["cp"]) and batch < gpus // (tp * pp):
        cp = -(-gpus // (tp * pp * batch))  # fewer sequences than ranks: each is divided
    dp = gpus // (tp * pp * cp)
    if dp < 1 or dp * tp * pp * cp != gpus:
        return None
    micro = _whole(row["micro_batch_seqs"])
    accumulate = _whole(row["grad_accum"])
    if not micro:
        micro = max(1, batch // dp) if pp == 1 else 1
        if accumulate and pp == 1:
            micro = max(1, batch // dp // accumulate)
    count = max(1, round(batch / (dp * micro)))
    fsdp = _whole(row["fsdp"]) > 1 or stack == "maxtext"
    sharding = "zero1"
    if fsdp:
        # With a pipeline, parameters stay gathered between micro-batches, as torchtitan does by default.
        sharding = "zero3" if pp == 1 else "zero2"
    chunks = max(1, _whole(row["vp"]))
    if not _whole(row["vp"]) and row["task"] in ("sft", "lora") and pp > 1:
        chunks = model.layers // pp  # as the pre-training recipes of the same table
    if stack == "torchtitan":
        chunks = 1
    chunks = min(chunks, model.layers // pp)  # some count the tables as layers
    if pp == 1 or count % pp:
        chunks = 1
    etp = _whole(row["etp"])
    if not etp and stack == "nemo":
        etp = tp  # the default of Megatron-LM; recipes of Megatron-Bridge set 1
    try:
        layout = Layout(
            tp=tp,
            pp=pp,
            cp=cp,
            dp=dp,
            ep=ep,
            etp=etp if ep > 1 else 0,
            chunks=chunks,
            microbatch=micro,
            microbatches=count,
            sequence=length,
            sharding=sharding,
            sequence_parallel=tp > 1,
            context="all_gather" if model.kv_rank else "ring",
        )
        check(layout, model, gpus)
    except ValueError:
        return None
    return layout


# Part of the memory that a framework leaves to the model; the rest holds buffers of libraries and fragments.
_USABLE = 0.92


# Frameworks that checkpoint whole layers where activations do not fit. Recipes of NVIDIA choose a layout that fits, and
# compute single modules again or offload them, which costs little, unless they shard parameters (FSDP).
_WHOLE_LAYERS = ("torchtitan", "automodel", "maxtext")


def _fit(layout: Layout, model: Model, chip: Machine, stack: str, task: str) -> Layout:
    """Return the layout with the least recomputation that lets the step fit into memory.

    Rows do not say what is computed again, and nobody computes again what there is room for.
    """
    kept = layout
    if task.endswith("lora"):
        # Frozen weights have neither gradients nor a state of the optimiser.
        kept = layout.replace(gradient_bytes=1e-3, optimiser_bytes=1e-3)
    if stack not in _WHOLE_LAYERS and layout.sharding != "zero3":
        return layout
    for recompute in ("none", "selective"):
        if memory(model, kept.replace(recompute=recompute)).most <= _USABLE * chip.capacity:
            return layout.replace(recompute=recompute)
    return layout.replace(recompute="full")


_SCHEDULES = {
    "megatron-bridge": Schedule(tensor=True, once=True),
    "nemo": Schedule(tensor=True),
    "mlperf": Schedule(tensor=True),
    "torchtitan": Schedule(tensor=False),
    "automodel": Schedule(tensor=False, once=True),
    "maxtext": Schedule(tensor=True),
    "other": Schedule(tensor=True, once=True, experts=1.0),
}


def _release(row: Mapping[str, Any]) -> float:
    """Return year and month of a release of NVIDIA's containers, such as 26.06; 0 if there is none."""
    found = re.search(r"\b(2\d\.\d\d)", str(row["framework_version"]))
    return float(found.group(1)) if found else 0.0


def _grouped(row: Mapping[str, Any], asked: Asked) -> bool:
    """Return whether one kernel multiplies all experts of a rank.

    Megatron-Bridge has it since 0.5.1 (container 26.06) in its recipes for DeepSeek-V3 and Qwen3 in MXFP8, with graphs
    of the whole iteration (release notes of 0.5.1).
    """
    if asked.stack == "megatron-bridge":
        return (
            _release(row) >= 26.06
            and asked.precision == "mxfp8"
            and asked.model.name.startswith(("DeepSeek", "Qwen3"))
        )
    return asked.stack not in ("nemo", "automodel")


def step_of_row(
    row: Mapping[str, Any],
    *,
    value: float | None = None,
    without: str | None = None,
    grows: bool = True,
    recompute: str = "",
) -> Step | None:
    """Return the step that a row asks for; None if the row does not say enough.

    Parameters
    ----------
    row : mapping
        Columns of ``catalog/data/training_steps.csv``; no result is read.
    value : float, optional
        Efficiency of computation; by default the pooled one of its kind for jobs of its size. > 0
    without : str, optional
        Model that the efficiency has not seen; by default the model of the row.
    grows : bool
        Whether the efficiency falls with the size of the job, as `fabriclab.training.efficiency.growth` says; if
        not, it is that of a job of usual size.
    recompute : str
        What the backward pass computes again, if the source says so: ``"none"``, ``"selective"`` or ``"full"``.
    """
    asked = read_row(row)
    if asked is None:
        return None
    if recompute:
        asked = asked._replace(layout=asked.layout.replace(recompute=recompute))
    chip = kernels.machine(asked.chip.machine)
    band = (1.0, 1.0)
    if value is None:
        band = spread()
        unseen = asked.model.name if without is None else without
        size = asked.layout.ranks if grows else USUAL
        value = efficiency(asked.kind, unseen, accelerators=size)
    schedule = _SCHEDULES[asked.stack]
    if asked.model.name == "DeepSeek-V3":
        # Its router sends a token to at most 4 nodes (DeepSeek-V3 technical report, 2024, section 2.1.2).
        schedule = replace(schedule, domains=4)
    computation = Roofline(
        machine=chip,
        precision=asked.precision,
        efficiency=value,
        frozen=asked.task.endswith("lora"),
        grouped=_grouped(row, asked),
        band=band,
    )
    return ask(
        asked.model,
        asked.layout,
        computation,
        asked.costs,
        schedule,
        chip.peak(asked.precision),
    )


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
