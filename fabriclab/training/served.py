"""Published inference as questions: the model, layout, cluster and load that a row of the table means, and its stack.

What a row does not say is inferred by rules that look at no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fabriclab import catalog, units
from fabriclab.catalog.tables import data_rows
from fabriclab.errors import DoesNotFit
from fabriclab.systems import System
from fabriclab.training.efficiency import INFERENCE, Kind, efficiency
from fabriclab.training.inference import Serving, exchange, largest_batch, serve
from fabriclab.training.places import SCALE_UP, Costs, place_of
from fabriclab.training.published import chip_of, system_of
from fabriclab.workload import models
from fabriclab.workload.layouts import Layout
from fabriclab.workload.models import Model

__all__ = [
    "Asked",
    "TwoBoxes",
    "exchange_of_row",
    "needed",
    "published_runs",
    "read_row",
    "serving_of_row",
    "two_boxes",
]

#: Kinds of rows of ``catalog/data/inference.csv`` that `serving_of_row` answers.
KINDS = ("serving_throughput", "static_batch", "latency_batch", "first_token_latency")
_PRECISIONS = {"FP4": "nvfp4", "FP8": "fp8", "FP16": "fp16", "BF16": "bf16"}
# Requests at a time of one instance at most: the default of TensorRT-LLM (max_batch_size).
_MOST = 2048
# Rate of NVLink of an H800 as its table of exchanges states it: "~160 GB/s", of 370 that a library gets on an H100.
_H800 = 160 / 370
_LEAST = 0.1  # part of a time that computes at least, so that no row asks for infinite speed


class Asked(NamedTuple):
    """A row that was understood."""

    model: Model
    layout: Layout
    system: System
    precision: str
    batch: int  # 0: as many as fit
    input_tokens: int
    output_tokens: int
    kind: Kind


def published_runs(source: str) -> tuple[Mapping[str, str], ...]:
    """Return the published runs of inference of one source.

    Parameters
    ----------
    source : str
        ``source_id`` in ``catalog/data/inference.csv``, such as ``"gigaio_isc25"`` (one and two boxes of GPUs) or
        ``"nvidia_tp_pp"`` (tensor against pipeline parallelism).

    Examples
    --------
    >>> runs = published_runs("gigaio_isc25")
    >>> runs[0]["gpus"], runs[0]["output_tokens_per_s"]
    ('8', '24.58')
    """
    rows = data_rows("inference")
    name = units.choice(source, "source", tuple({row["source_id"]: 0 for row in rows}))
    return tuple(row for row in rows if row["source_id"] == name)


# What sets a published wiring apart: each box on one root port of the host, or half of its cables on each; and four
# cables for each box in place of two.
_TITLES = {
    "1s-2rp-std-cascade": "standard",
    "1s-2rp-split-cascade": "split",
    "2s-2rp-split-flat": "split, more cables",
}


class TwoBoxes(NamedTuple):
    """One of the published wirings of two boxes of 8 GPUs.

    Parameters
    ----------
    title : str
        What sets it apart.
    name : str
        Name of the wiring, as in `fabriclab.topologies.gigaio`.
    one, two : float
        Tokens per second of Llama 3.1 405B on one box and on both. [1/s]
    busbw : float
        Bus bandwidth of a large all-reduce over both boxes. [B/s]
    """

    title: str
    name: str
    one: float
    two: float
    busbw: float


def two_boxes() -> tuple[TwoBoxes, ...]:
    """Return the published wirings of two boxes on which Llama 3.1 405B was served.

    References
    ----------
    .. [1] B. Kitor, K. Rygol, Rail optimized PCIe topologies for LLMs, ISC High Performance 2025.
    """
    rates: dict[str, dict[str, float]] = {}
    for row in published_runs("gigaio_isc25"):
        rates.setdefault(row["system"], {})[row["gpus"]] = float(row["output_tokens_per_s"])
    found = []
    for wiring, by_gpus in rates.items():
        busbw = catalog.value("systems", f"gigaio-{wiring}", "busbw_all_reduce")
        found.append(TwoBoxes(_TITLES[wiring], wiring, by_gpus["8"], by_gpus["16"], float(busbw)))
    return tuple(found)


def _whole(text: Any) -> int:
    try:
        return int(float(text))
    except (TypeError, ValueError):
        return 0


def read_row(row: Mapping[str, Any]) -> Asked | None:
    """Return what a row means, or None if it names a model, accelerator or precision that is not known."""
    chip = chip_of(str(row["accelerator"]))
    precision = _PRECISIONS.get(str(row["precision"]))
    gpus = _whole(row["gpus"])
    read = _whole(row["input_tokens"])
    if chip is None or precision is None or not gpus or not read:
        return None
    try:
        model = models.preset(str(row["model"]))
    except ValueError:
        return None
    system = system_of(chip, gpus)
    tp = max(1, _whole(row["tp"]))
    pp = max(1, _whole(row["pp"]))
    if system is None or gpus % (tp * pp):
        return None
    layout = Layout(tp=tp, pp=pp, dp=gpus // (tp * pp), ep=max(1, _whole(row["ep"])))
    if precision in ("fp8", "nvfp4"):
        layout = layout.replace(dispatch_bytes=1.0)
    kind = Kind(str(row["framework"]), chip.machine, precision)
    batch = _whole(row["batch"])
    written = max(1, _whole(row["output_tokens"]))
    return Asked(model, layout, system, precision, batch, read, written, kind)


def serving_of_row(
    row: Mapping[str, Any], *, value: float | None = None, without: str | None = None
) -> Serving | None:
    """Return how the load of a row is served; None if the row does not say enough, or it does not fit.

    Under a load that never ends, as many requests are served at a time as have room, at most 2,048.

    Parameters
    ----------
    row : mapping
        Columns of ``catalog/data/inference.csv``; no result is read.
    value : float, optional
        Efficiency; by default the pooled one of its kind. > 0
    without : str, optional
        Model that the efficiency has not seen; by default the model of the row.
    """
    asked = read_row(row)
    if asked is None or row["kind"] not in KINDS:
        return None
    if value is None:
        unseen = asked.model.name if without is None else without
        value = efficiency(asked.kind, unseen, INFERENCE)
    try:
        one = serve(
            asked.model,
            asked.layout,
            asked.system,
            input_tokens=asked.input_tokens,
            output_tokens=asked.output_tokens,
            precision=asked.precision,
            efficiency=value,
        )
    except (DoesNotFit, ValueError):
        return None
    most = min(largest_batch(one.room, asked.layout), _MOST)
    batch = min(asked.batch, most) if asked.batch else most
    return one.replace(batch=max(1, batch))


def needed(row: Mapping[str, Any]) -> tuple[Kind, str, float] | None:
    """Return kind, model and the efficiency that brings the model to the published rate of tokens, or None."""
    asked = read_row(row)
    if asked is None or row["kind"] not in ("serving_throughput", "static_batch"):
        return None
    served = serving_of_row(row, value=1.0)
    if served is None or not row["output_tokens_per_s"]:
        return None
    published = float(row["output_tokens_per_s"])
    computed = served.completion - served.waiting
    seconds = served.batch * served.output_tokens / published
    value = computed / max(seconds - served.waiting, _LEAST * seconds)
    return asked.kind, asked.model.name, value


def exchange_of_row(row: Mapping[str, Any]) -> float | None:
    """Return the time of a dispatch to experts, or of combining what comes back; None for other rows. [s]."""
    if row["kind"] != "comm_kernel" or not row["tokens_per_rank"] or not row["comm_latency_us"]:
        return None
    ranks = _whole(row["ep"])
    # The row names DeepSeek-V3's shape, and servers of 8 H800 with a NIC of 400 Gb/s for each.
    chip = chip_of("H800")
    system = None if chip is None else system_of(chip, ranks)
    if system is None:
        return None
    costs = replace(Costs(system), faster={SCALE_UP: _H800})
    place = place_of(Layout(dp=ranks, ep=ranks), "ep", costs.domain)
    sent = 1.0 + 4 / 128 if row["comm_payload"] == "FP8" else 2.0  # a scale in fp32 for 128 numbers
    model = models.preset("DeepSeek-V3")
    return exchange(model, _whole(row["tokens_per_rank"]), costs, place, sent_bytes=sent)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
