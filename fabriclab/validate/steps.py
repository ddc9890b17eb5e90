"""The model of a training step beside published steps, and beside the best constant utilisation.

Every constant is fitted without the model that it predicts: whatever `predict_step` says of a published row, the
efficiency that it used has not seen any row of that model, by whomever it was trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.catalog.tables import data_rows
from fabriclab.core import Floats
from fabriclab.training import published
from fabriclab.training.efficiency import Kind, unseen
from fabriclab.training.step import Step
from fabriclab.validate.tables import ReportTable
from fabriclab.workload.volumes import volumes

__all__ = [
    "RESULTS",
    "HeldStep",
    "PaperStep",
    "StepReport",
    "grown_jobs",
    "held_steps",
    "paper_pairs",
    "paper_steps",
    "predict_step",
    "step_report",
]

#: Columns of ``catalog/data/training_steps.csv`` that are results, or tell them; no prediction reads them.
RESULTS = (
    "step_time_s",
    "step_time_origin",
    "tokens_per_s_total",
    "tokens_per_s_per_gpu",
    "model_tflops_per_gpu",
    "mfu_pct",
    "minutes_to_target",
    "note",
)
_APART = 1.05  # two layouts whose times differ by less are no pair
_LAYOUT = ("micro_batch_seqs", "tp", "pp", "cp", "vp", "ep", "etp", "fsdp")
_SAME = ("task", "accelerator", "gpus", "global_batch_seqs", "seq_len_tokens", "framework")
_HEAD = """\
Training steps, predicted with efficiencies that have not seen the model. median, p90: of |predicted / published - 1|.
The constant is the median utilisation (MFU) of other models of the same stack, generation and precision; where there
is none, it is pooled over kinds that have something in common, as the efficiencies are."""


def predict_step(row: Mapping[str, Any]) -> float | None:
    """Return the time that a training step takes. [s].

    Parameters
    ----------
    row : mapping
        Columns of ``catalog/data/training_steps.csv`` without those of `RESULTS`; an unknown number is ``""``.

    Returns
    -------
    float or None
        Seconds for each step; None if the row names a model or an accelerator that is not known, lacks its batch, or is
        no training step alone (reinforcement learning generates, too).
    """
    try:
        step = _step(row)
    except (KeyError, ValueError, ZeroDivisionError):
        return None
    return None if step is None else step.time


def _step(row: Mapping[str, Any]) -> Step | None:
    """Return the step of a row without its results."""
    asked = {name: row.get(name, "") for name in _columns() if name not in RESULTS}
    return published.step_of_row(
        {name: "" if cell is None else cell for name, cell in asked.items()}
    )


def _columns() -> tuple[str, ...]:
    """Return the columns of the table."""
    return tuple(data_rows("training_steps")[0])


class HeldStep(NamedTuple):
    """A published step beside its prediction."""

    row: Mapping[str, str]
    kind: Kind
    model: str
    seconds: float
    step: Step

    @property
    def error(self) -> float:
        """Predicted over published time, minus 1."""
        return self.step.time / self.seconds - 1

    @property
    def flops(self) -> float:
        """Operations of the model in the step, on each accelerator."""
        return self.step.flops_per_gpu * self.step.time

    @property
    def mfu(self) -> float:
        """Published utilisation: from the time and the operations of the model, counted as everywhere here."""
        return self.flops / (self.seconds * self.step.peak)


@dataclass(frozen=True)
class StepReport:
    """The tables that `step_report` returns.

    Parameters
    ----------
    parts : mapping of str to ReportTable
        Tables by heading.
    counts : str
        How many rows were predicted, and how many constants there are.
    """

    parts: Mapping[str, ReportTable]
    counts: str

    def __str__(self) -> str:
        """Return the tables as text."""
        tables = "\n\n".join(f"{head}\n{part}" for head, part in self.parts.items())
        return f"{_HEAD}\n\n{tables}\n\n{self.counts}"


def held_steps(every: int = 1) -> tuple[HeldStep, ...]:
    """Return published steps beside predictions whose efficiency has not seen their model.

    Parameters
    ----------
    every : int
        1 for all of ``catalog/data/training_steps.csv``; n for every n-th row that has a time, which takes less. >= 1
    """
    rows = [row for row in data_rows("training_steps") if row["step_time_s"]]
    return tuple(_held(rows[:: units.count(every, "every")]))


def step_report() -> StepReport:
    """Return the errors of the model of a step on published ones, beside the best constant."""
    rows = [row for row in data_rows("training_steps") if row["step_time_s"]]
    held = list(_held(rows))
    constant = _constant(held)
    parts = {
        "steps of models whose efficiency was fitted without them": _by_stack(held, constant),
        "which of two layouts is faster": _pairs(held),
        "changes that communication causes inside one stack": _changes(held),
        "largest errors, by stack and model": _largest(held),
        "steps that papers print, with the efficiency that other models need": _papers(),
    }
    kinds = len({each.kind for each in held})
    models = len({each.model for each in held})
    counts = (
        f"{len(held)} of {len(rows)} published steps predicted; {kinds} efficiencies, {models} models. "
        "The constants of kernels (fabriclab.training.kernels) are shared by all, and chosen with the table in view."
    )
    return StepReport({head: ReportTable(tuple(part)) for head, part in parts.items()}, counts)


def _held(rows: Iterable[Mapping[str, str]]) -> Iterable[HeldStep]:
    """Yield the published steps that can be predicted."""
    for row in rows:
        asked = published.read_row(row)
        step = _step(row)
        if asked is not None and step is not None:
            yield HeldStep(row, asked.kind, asked.model.name, float(row["step_time_s"]), step)


def _constant(held: list[HeldStep]) -> Floats:
    """Return the errors of a constant utilisation for each kind, which has not seen the model, (N,)."""
    used = np.array([each.mfu for each in held])
    known = unseen(used.tolist(), [each.kind for each in held], [each.model for each in held])
    return np.asarray(used / known - 1)  # time is operations over rate


def _by_stack(held: list[HeldStep], constant: Floats) -> list[dict[str, Any]]:
    """Return the errors of all rows, of each stack, and of dense models and experts."""
    errors = np.array([each.error for each in held])
    stacks = np.array([each.kind.stack for each in held])
    moe = np.array([each.step.model.is_moe for each in held])
    every = np.ones(len(held), dtype=np.bool_)
    choices = {"all": every, "dense models": ~moe, "with experts": moe}
    for stack in sorted(set(stacks)):
        choices[stack] = stacks == stack
    table = []
    for name, chosen in choices.items():
        table.append({"rows of": name, **_quantiles(errors[chosen], constant[chosen])})
    groups: dict[tuple[Kind, str], list[int]] = {}
    for i, each in enumerate(held):
        groups.setdefault((each.kind, each.model), []).append(i)
    ours = np.array([np.median(np.abs(errors[i])) for i in groups.values()])
    theirs = np.array([np.median(np.abs(constant[i])) for i in groups.values()])
    table.append({"rows of": "each stack and model once", **_quantiles(ours, theirs)})
    return table


def _quantiles(errors: Floats, constant: Floats) -> dict[str, Any]:
    """Return median and 90th percentile of two lists of errors."""
    found: dict[str, Any] = {"number": errors.size}
    for name, values in (("", errors), ("constant ", constant)):
        found[f"{name}median"] = float(np.median(np.abs(values)))
        found[f"{name}p90"] = float(np.quantile(np.abs(values), 0.9))
    return found


def _pairs(held: list[HeldStep]) -> list[dict[str, Any]]:
    """Return how often the faster of two layouts is named, by our model and by the one that exposes fewer bytes."""
    groups: dict[tuple[str, ...], list[HeldStep]] = {}
    for each in held:
        key = (each.model, str(each.step.model.layers), each.kind.precision)
        groups.setdefault((*key, *(each.row[name] for name in _SAME)), []).append(each)
    right: dict[str, list[tuple[bool, bool]]] = {"all": [], "of one release": []}
    models: dict[str, list[tuple[bool, bool]]] = {}
    for members in groups.values():
        for a, b in itertools.combinations(members, 2):
            apart = max(a.seconds, b.seconds) / min(a.seconds, b.seconds) > _APART
            if _layout(a) == _layout(b) or not apart:
                continue
            a_wins = a.seconds < b.seconds
            ours = (a.step.time < b.step.time) == a_wins
            fewer = _exposed(a) != _exposed(b) and (_exposed(a) < _exposed(b)) == a_wins
            right["all"].append((ours, fewer))
            models.setdefault(a.model, []).append((ours, fewer))
            if a.row["framework_version"] == b.row["framework_version"]:
                right["of one release"].append((ours, fewer))
    table = []
    for name, hits in {**right, **models}.items():
        if hits:
            share = np.mean(hits, axis=0)
            table.append(
                {
                    "pairs": name,
                    "number": len(hits),
                    "model right": float(share[0]),
                    "fewer exposed bytes": float(share[1]),
                }
            )
    return table


def _layout(each: HeldStep) -> tuple[str, ...]:
    """Return the layout of a row; nothing, 0 and 1 are the same."""
    return tuple(each.row[name] if each.row[name] not in ("", "0") else "1" for name in _LAYOUT)


def _exposed(each: HeldStep) -> float:
    """Return the bytes that a rank sends inside micro-batches: of tensors, contexts, experts and stages. [B]."""
    ledger = volumes(each.step.model, each.step.layout)
    return ledger.sent("tensor", "table", "context", "experts", "pipeline")


def grown_jobs(held: Iterable[HeldStep]) -> tuple[tuple[HeldStep, HeldStep], ...]:
    """Return jobs that a source ran on few and on many accelerators, with the same work for each: the smallest first.

    Parameters
    ----------
    held : iterable of HeldStep
        As `held_steps` returns them.
    """
    groups: dict[tuple[str, ...], dict[int, HeldStep]] = {}
    for each in held:
        same = tuple(
            each.row[n] for n in (*_LAYOUT, "task", "accelerator", "seq_len_tokens", "source_id")
        )
        version = each.row["framework_version"]
        per_gpu = each.step.tokens / each.step.ranks
        layers = str(each.step.model.layers)
        key = (each.model, layers, each.kind.precision, version, f"{per_gpu:g}", *same)
        groups.setdefault(key, {})[int(float(each.row["gpus"]))] = each
    found = []
    for members in groups.values():
        sizes = sorted(members)
        if len(sizes) > 1:
            found.append((members[sizes[0]], members[sizes[-1]]))
    return tuple(found)


def _changes(held: list[HeldStep]) -> list[dict[str, Any]]:
    """Return published and predicted ratios of steps that differ in the number of accelerators only."""
    table = []
    for few, many in grown_jobs(held):
        table.append(
            _ratio(
                f"{few.model} {few.kind.precision}",
                int(float(few.row["gpus"])),
                int(float(many.row["gpus"])),
                few.seconds,
                many.seconds,
                few.step.time,
                many.step.time,
            )
        )
    return [*table, *_reference_changes()]


def _ratio(
    what: str,
    few: int,
    many: int,
    before: float,
    after: float,
    before_model: float,
    after_model: float,
) -> dict[str, Any]:
    """Return one row of the table of changes."""
    published_ratio = after / before
    ours = after_model / before_model
    sign = bool(np.sign(round(published_ratio - 1, 3)) == np.sign(round(ours - 1, 3)))
    return {
        "what": what,
        "GPUs": f"{few} to {many}",
        "published ratio": f"{published_ratio:.3f}",
        "model ratio": f"{ours:.3f}",
        "sign": "right" if sign or abs(published_ratio - 1) < 0.005 else "wrong",
        "points apart": f"{100 * abs(ours - published_ratio):.1f}",
    }


class PaperStep(NamedTuple):
    """A step that a paper prints, beside the model.

    ``seconds`` is its published time; ``derived`` tells that it follows from a published rate.
    """

    model: str
    software: str
    gpus: int
    batch: int
    seconds: float
    derived: bool
    step: Step

    @property
    def error(self) -> float:
        """Predicted over published time, minus 1."""
        return self.step.time / self.seconds - 1


@cache
def paper_steps() -> tuple[PaperStep, ...]:
    """Return the steps of ``training_reference.csv`` and ``megatron2021.csv`` that say enough, beside the model.

    No efficiency was fitted to them: no A100 is among the rows that set one, so it is pooled over other generations.
    It is the same for all sizes of a job, so that what the model says of more GPUs comes of the pipeline and of
    communication alone.

    What a table does not print is taken as follows.

    - Micro-batches have one sequence.
    - A stage has as many chunks as its source names: six and three for the models of MegaScale and of 2205.05198 with
      175 and 530 billion parameters. Llama 3 has eight: its report (2024, section 3.3) leaves the first chunk and the
      last one without a layer, and 126 layers are 16 x 8 - 2 only if all others have one.
    - The runs of 2021 interleaved (2104.04473, section 5.1), and their table does not say how much. They get the fewest
      equal chunks that are more than one. With one layer to a chunk, the other end, the steps of 76 and 310 billion
      parameters are 1.5 and 3.2 % shorter; the one of 1008 billion allows no other number.
    - All others have one chunk.
    """
    found = []
    for row in data_rows("training_reference"):
        step = _reference_step(row) if row["iter_time_s"] else None
        if step is not None:
            model, _, software = row["model"].partition(" / ")
            derived = "iter time derived" in row["note"]
            seconds = float(row["iter_time_s"])
            batch = int(row["batch_seqs"])
            found.append(
                PaperStep(
                    model, software, int(row["gpus"]), batch, seconds, derived=derived, step=step
                )
            )
    for row in data_rows("megatron2021"):
        step = _megatron_step(row)
        if step is not None:
            seconds = float(row["iter_time_s_derived"])
            gpus = int(row["gpus_A100_80"])
            batch = int(row["batch"])
            found.append(
                PaperStep(
                    step.model.name,
                    "Megatron-LM 2021",
                    gpus,
                    batch,
                    seconds,
                    derived=True,
                    step=step,
                )
            )
    return tuple(found)


def paper_pairs() -> tuple[tuple[PaperStep, PaperStep], ...]:
    """Return pairs of steps of papers that differ in the number of GPUs only: fewer first, at the same batch."""
    runs: dict[tuple[str, str, int], list[PaperStep]] = {}
    for each in paper_steps():
        if each.step.layout.recompute == "none":
            runs.setdefault((each.model, each.software, each.batch), []).append(each)
    pairs: list[tuple[PaperStep, PaperStep]] = []
    for alike in runs.values():
        alike.sort(key=lambda each: each.gpus)
        pairs.extend(itertools.pairwise(alike))
    return tuple(pairs)


def _papers() -> list[dict[str, Any]]:
    """Return published and predicted time of each step of a paper, and of all of them the errors."""
    table = []
    for each in paper_steps():
        table.append(
            {
                "model": f"{each.model} {each.software}".strip(),
                "GPUs": each.gpus,
                "batch": each.batch,
                "published [s]": f"{each.seconds:.2f}",
                "model [s]": f"{each.step.time:.2f}",
                "error": units.format_share(each.error, signed=True),
            }
        )
    return table


def _reference_changes() -> list[dict[str, Any]]:
    """Return the changes at a fixed batch of jobs that papers print."""
    table = []
    for few, many in paper_pairs():
        name = f"{few.model} {few.software}".strip()
        table.append(
            _ratio(
                f"{name}, batch {few.batch}",
                few.gpus,
                many.gpus,
                few.seconds,
                many.seconds,
                few.step.time,
                many.step.time,
            )
        )
    return table


_SELECTIVE = " selective recompute + SP"
_LLAMA_CHUNKS = 8  # source: Llama 3 report 2024, section 3.3: 126 layers = 16 stages x 8 chunks - 2
_MEGASCALE_CHUNKS = 6  # source: MegaScale, NSDI 2024, section 6.1
_LARGE_CHUNKS = 3  # source: 2205.05198, section 6, for the models of 175 and 530 billion parameters


def _reference_step(row: Mapping[str, str]) -> Step | None:
    """Return the step of a row of ``training_reference.csv``, or None if it does not print its layout."""
    name, _, software = row["model"].partition(" / ")
    tp, pp, cp = (int(row[key] or 0) for key in ("TP", "PP", "CP"))
    recompute = ""
    if name.endswith(_SELECTIVE):
        name = name.removesuffix(_SELECTIVE)
        recompute = "selective"
    chunks = 1
    if name.startswith("Llama 3"):
        chunks = _LLAMA_CHUNKS
    if name == "GPT 530B":
        chunks = _LARGE_CHUNKS
    if software:
        tp, pp, cp, chunks = 8, 8, 1, _MEGASCALE_CHUNKS  # the note of the table: TP8 PP8
    if name.startswith("MT-NLG"):
        return None  # its note counts recomputation, and its batch differs from the runs beside it
    if not tp or not pp:
        return None
    step = _paper_step(
        name,
        accelerator=row["accelerator"],
        gpus=row["gpus"],
        seq_len_tokens=row["seq"],
        global_batch_seqs=row["batch_seqs"],
        tp=str(tp),
        pp=str(pp),
        cp=str(max(1, cp)),
        vp=str(chunks),
        recompute=recompute,
    )
    if step is not None and pp > 1 and step.layout.chunks != chunks:
        # `published` allows no more chunks than layers, and in Llama 3 two chunks have none.
        step = step.again(step.layout.replace(chunks=chunks))
    return step


def _fewest_chunks(layers: int) -> int:
    """Return the fewest equal chunks, but more than one, into which the layers of a stage divide."""
    for chunks in range(2, layers + 1):
        if layers % chunks == 0:
            return chunks
    return 1


def _megatron_step(row: Mapping[str, str]) -> Step | None:
    """Return the step of a row of ``megatron2021.csv``, whose runs computed all activations again."""
    pp = int(row["PP"])
    chunks = 1
    if pp > 1:
        chunks = _fewest_chunks(int(row["layers"]) // pp)
    return _paper_step(
        f"Megatron {float(row['params_B']):g}B",
        accelerator="A100",
        gpus=row["gpus_A100_80"],
        seq_len_tokens="2048",
        global_batch_seqs=row["batch"],
        tp=row["TP"],
        pp=row["PP"],
        vp=str(chunks),
        recompute="full",
    )


def _paper_step(name: str, *, recompute: str = "", **columns: str) -> Step | None:
    """Return the step of a model in bf16 by Megatron-LM, with micro-batches of one sequence."""
    asked = dict.fromkeys(_columns(), "")
    asked.update(
        task="pretrain",
        model=name,
        precision="BF16",
        micro_batch_seqs="1",
        framework="Megatron-LM",
        **columns,
    )
    return published.step_of_row(asked, grows=False, recompute=recompute)


def _largest(held: list[HeldStep]) -> list[dict[str, Any]]:
    """Return the stacks and models with the largest median error."""
    groups: dict[tuple[str, ...], list[HeldStep]] = {}
    for each in held:
        groups.setdefault((*each.kind, each.model), []).append(each)
    worst = sorted(groups, key=lambda key: -float(np.median([abs(e.error) for e in groups[key]])))
    table = []
    for key in worst[:12]:
        errors = [each.error for each in groups[key]]
        table.append(
            {
                "stack": key[0],
                "generation": key[1],
                "precision": key[2],
                "model": key[3],
                "rows": len(errors),
                "median error": units.format_share(np.median(errors), signed=True),
                "experts sent by": groups[key][0].step.tiers.get("experts", ""),
            }
        )
    return table


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
