"""The model of inference beside published runs, and beside the best constant utilisation.

Every efficiency is fitted without the model that it predicts: whatever `predict_inference` says of a published row,
the efficiency that it used has not seen any row of that model. Only throughput under full load is fitted; latencies,
pairs of layouts, and exchanges with experts are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.catalog.tables import data_rows
from fabriclab.core import Floats
from fabriclab.training import kernels, served
from fabriclab.training.efficiency import Kind, unseen
from fabriclab.training.inference import Serving
from fabriclab.validate.tables import ReportTable

__all__ = ["INFERENCE_RESULTS", "InferenceReport", "inference_report", "predict_inference"]

#: Columns of ``catalog/data/inference.csv`` that are results; no prediction reads them.
INFERENCE_RESULTS = (
    "output_tokens_per_s",
    "ratio",
    "ttft_ms",
    "tpot_ms",
    "e2e_latency_s",
    "comm_latency_us",
    "note",
)
_HEAD = """\
Inference, predicted with efficiencies that have not seen the model. median, p90: of |predicted / published - 1|.
The constant is the median utilisation of other models of the same stack, accelerator and precision; where there is
none, it is pooled over kinds that have something in common, as the efficiencies are."""


def predict_inference(row: Mapping[str, Any]) -> float | None:
    """Return the output tokens per second that a published load gets, all GPUs together. [1/s].

    Parameters
    ----------
    row : mapping
        Columns of ``catalog/data/inference.csv`` without those of `INFERENCE_RESULTS`; an unknown number is ``""``.

    Returns
    -------
    float or None
        Tokens per second, from the time to completion; None if the row names a model or accelerator that is not known,
        or asks for something else.
    """
    try:
        found = served.serving_of_row(_asked(row))
    except (KeyError, ValueError, ZeroDivisionError):
        return None
    return None if found is None else found.throughput


def _asked(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without its results."""
    columns = data_rows("inference")[0]
    return {name: row.get(name, "") for name in columns if name not in INFERENCE_RESULTS}


class _Held(NamedTuple):
    """A published throughput beside its prediction."""

    row: Mapping[str, str]
    kind: Kind
    published: float
    serving: Serving

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.serving.model.name

    @property
    def error(self) -> float:
        """Predicted over published rate, minus 1."""
        return self.serving.throughput / self.published - 1

    @property
    def utilisation(self) -> float:
        """Operations of all tokens, read and written, at the published rate, as a part of the peak."""
        found = self.serving
        tokens = (found.input_tokens + found.output_tokens) / found.output_tokens
        work = 2.0 * found.model.active_parameters * tokens * self.published
        peak = kernels.machine(self.kind.generation).peak(self.kind.precision)
        return work / (found.layout.ranks * peak)


@dataclass(frozen=True)
class InferenceReport:
    """The tables that `inference_report` returns.

    Parameters
    ----------
    parts : mapping of str to ReportTable
        Tables by heading.
    counts : str
        How many rows were predicted.
    """

    parts: Mapping[str, ReportTable]
    counts: str

    def __str__(self) -> str:
        """Return the tables as text."""
        tables = "\n\n".join(f"{head}\n{part}" for head, part in self.parts.items())
        return f"{_HEAD}\n\n{tables}\n\n{self.counts}"


def inference_report() -> InferenceReport:
    """Return the errors of the model of inference on published runs, beside the best constant."""
    rows = data_rows("inference")
    held = []
    loads = [row for row in rows if row["kind"] in ("serving_throughput", "static_batch")]
    for row in loads:
        served_row = served.serving_of_row(_asked(row))
        asked = served.read_row(row)
        if served_row is not None and asked is not None:
            held.append(_Held(row, asked.kind, float(row["output_tokens_per_s"]), served_row))
    parts = {
        "throughput of models whose efficiency was fitted without them": _throughput(held),
        "ratio of two layouts of Llama 3.1 405B on 8 H200, with efficiency 1": _pairs(),
        "latency of a whole batch, and of a first token": _latencies(rows),
        "dispatch to experts and combine, with one start-up for all": _exchanges(rows),
    }
    kinds = len({each.kind for each in held})
    counts = (
        f"{len(held)} of {len(loads)} published loads predicted; {kinds} efficiencies, "
        f"{len({each.model for each in held})} models."
    )
    return InferenceReport({head: ReportTable(tuple(part)) for head, part in parts.items()}, counts)


def _constant(held: list[_Held]) -> Floats:
    """Return the errors of a constant utilisation for each kind, which has not seen the model, (N,)."""
    used = np.array([each.utilisation for each in held])
    known = unseen(used.tolist(), [each.kind for each in held], [each.model for each in held])
    return np.asarray(known / used - 1)


def _throughput(held: list[_Held]) -> list[dict[str, Any]]:
    """Return the errors of all loads, of each accelerator and of each model."""
    errors = np.array([each.error for each in held])
    constant = _constant(held)
    gpu = np.array([each.kind.generation for each in held])
    model = np.array([each.model for each in held])
    choices = {"all": np.ones(len(held), dtype=np.bool_)}
    for name in sorted(set(gpu)):
        choices[name] = gpu == name
    for name in sorted(set(model)):
        choices[name] = model == name
    table = []
    for name, chosen in choices.items():
        found: dict[str, Any] = {"rows of": name, "number": int(chosen.sum())}
        for word, values in (("", errors[chosen]), ("constant ", constant[chosen])):
            found[f"{word}median"] = float(np.median(np.abs(values)))
            found[f"{word}p90"] = float(np.quantile(np.abs(values), 0.9))
        table.append(found)
    return table


def _pairs() -> list[dict[str, Any]]:
    """Return published and predicted ratios of tensor and pipeline parallelism."""
    table = []
    for row in data_rows("inference"):
        if row["source_id"] != "nvidia_tp_pp" or not row["ratio"]:
            continue
        mine = _ratio_side(row, row["tp"], row["pp"])
        other = _ratio_side(row, row["pp"], row["tp"])
        ours = mine / other
        told = float(row["ratio"])
        table.append(
            {
                "case": row["kind"].replace("_", " "),
                "faster": "tensor" if int(row["tp"]) > 1 else "pipeline",
                "published ratio": f"{told:.2f}",
                "model ratio": f"{ours:.2f}",
                "sign": "right" if (ours > 1) == (told > 1) else "wrong",
            }
        )
    return table


def _ratio_side(row: Mapping[str, str], tp: str, pp: str) -> float:
    """Return tokens per second of one layout: of one request, or of as many as fit."""
    load = {**_asked(row), "kind": "serving_throughput", "tp": tp, "pp": pp}
    found = served.serving_of_row(load, value=1.0)
    assert found is not None
    return found.each if row["kind"] == "least_latency" else found.throughput


def _latencies(rows: tuple[Mapping[str, str], ...]) -> list[dict[str, Any]]:
    """Return the errors of times, by stack and size of the batch."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row["kind"] not in ("latency_batch", "first_token_latency"):
            continue
        found = served.serving_of_row(_asked(row))
        if found is None:
            continue
        if row["kind"] == "latency_batch":
            error = found.completion / float(row["e2e_latency_s"]) - 1
        else:
            error = found.first / (float(row["ttft_ms"]) * 1e-3) - 1
        some = "1 to 8" if int(row["batch"]) <= 8 else "16 to 128"
        key = (row["kind"].replace("_", " "), f"{row['framework']}, {row['accelerator']}", some)
        groups.setdefault(key, []).append(error)
    table = []
    for (kind, stack, batch), errors in groups.items():
        table.append(
            {
                "time": kind,
                "stack": stack,
                "batch": batch,
                "number": len(errors),
                "median": float(np.median(np.abs(errors))),
                "mean error": units.format_share(float(np.mean(errors)), signed=True),
            }
        )
    return table


def _exchanges(rows: tuple[Mapping[str, str], ...]) -> list[dict[str, Any]]:
    """Return published and predicted times of exchanges with experts."""
    table = []
    for row in rows:
        ours = served.exchange_of_row(_asked_exchange(row))
        if ours is None:
            continue
        told = float(row["comm_latency_us"]) * 1e-6
        fitted = row["comm_op"] == "moe_dispatch" and row["ep"] in ("16", "64", "256")
        table.append(
            {
                "ranks": row["ep"],
                "kernel": row["comm_op"].removeprefix("moe_"),
                "published [µs]": f"{1e6 * told:.0f}",
                "model [µs]": f"{1e6 * ours:.0f}",
                "error": units.format_share(ours / told - 1, signed=True),
                "used for the start-up": "yes" if fitted else "",
            }
        )
    return table


def _asked_exchange(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row of an exchange, with a mark in place of its result."""
    return {**_asked(row), "comm_latency_us": "asked" if row["comm_latency_us"] else ""}


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
