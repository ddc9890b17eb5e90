"""Search for a layout: try those that divide a model and a cluster, and say why the best is best.

Examples
--------
>>> import fabriclab as fl
>>> from fabriclab import training
>>> from fabriclab.workload import models
>>> small = models.preset("Llama 3 8B")
>>> found = training.search(small, fl.system(gpu="H100", servers=2), batch=64, executor=None)
>>> found.best.layout.tp, len(found.front) >= 1
(1, True)
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from fabriclab import units
from fabriclab.core import as_html
from fabriclab.errors import DoesNotFit
from fabriclab.systems import System
from fabriclab.training import kernels
from fabriclab.training.step import PARTS, Schedule, Step, train_step
from fabriclab.workload.layouts import Layout, check
from fabriclab.workload.memory import memory
from fabriclab.workload.models import RECOMPUTE, Model

__all__ = ["Search", "Trial", "candidates", "search"]

_TENSOR = (1, 2, 4, 8, 16, 32, 64)
_CHUNKS = (1, 2, 4)
_MICRO = (1, 2, 4)
_SHARDING = ("zero1", "zero3")
_CHUNKSIZE = 8  # layouts of a task that an executor is given


@dataclass(frozen=True, slots=True)
class Trial:
    """A layout that was tried: time of a step [s], memory of the fullest GPU [B], and what the step is spent on [s]."""

    layout: Layout
    time: float
    memory: float
    parts: tuple[tuple[str, float], ...]

    @property
    def waits(self) -> float:
        """Time of the step that is not computation [s]."""
        return self.time - dict(self.parts)["compute"]


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found.

    Parameters
    ----------
    model : Model
        The model.
    trials : tuple of Trial
        Layouts that were tried and fit into memory, the fastest first.
    too_large : int
        How many did not fit.
    capacity : float
        Memory of an accelerator. [B]
    complete : bool
        False if the search was interrupted.
    """

    model: Model
    trials: tuple[Trial, ...]
    too_large: int
    capacity: float
    complete: bool = True

    @property
    def best(self) -> Trial:
        """The fastest layout."""
        return self.trials[0]

    @property
    def front(self) -> tuple[Trial, ...]:
        """Layouts than which no other is both faster and smaller, the fastest first."""
        kept: list[Trial] = []
        for trial in self.trials:
            if not kept or trial.memory < kept[-1].memory:
                kept.append(trial)
        return tuple(kept)

    @property
    def why(self) -> str:
        """Why the best is best: what it saves against the next layout that differs in how the model is divided."""
        best = self.best
        lines = [
            f"{best.layout} takes {units.format_time(best.time)} and {units.format_size(best.memory)} of "
            f"{units.format_size(self.capacity)}."
        ]
        for name in ("tp", "pp", "dp", "sharding"):
            other = next((t for t in self.trials if _differs(t.layout, best.layout, name)), None)
            if other is not None:
                lines.append(_compared(best, other, name))
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Show the best layout and how many were tried."""
        tried = len(self.trials) + self.too_large
        part = "" if self.complete else "; interrupted"
        return (
            f"<Search for {self.model.name}: {tried} layouts, {self.too_large} too large{part}; "
            f"best {self.best.layout} with {units.format_time(self.best.time)}>"
        )

    def _repr_html_(self) -> str:
        rows = [("layout of the front", "step", "memory")]
        for trial in self.front:
            rows.append(
                (str(trial.layout), units.format_time(trial.time), units.format_size(trial.memory))
            )
        return as_html(rows, repr(self)[1:-1])


def _differs(layout: Layout, best: Layout, name: str) -> bool:
    """Return whether a layout differs from the best in one field."""
    return bool(getattr(layout, name) != getattr(best, name))


def _compared(best: Trial, other: Trial, name: str) -> str:
    """Return in a sentence what the best saves against the fastest layout with another value of a field."""
    mine, its = dict(best.parts), dict(other.parts)
    saved = {part: its[part] - mine[part] for part in PARTS}
    most = max(saved, key=lambda part: saved[part])
    slower = units.format_time(other.time - best.time)
    return (
        f"With {name}={getattr(other.layout, name)} the fastest takes {slower} longer: it spends "
        f"{units.format_time(saved[most])} more on {PARTS[most]}."
    )


def candidates(model: Model, system: System, batch: int) -> Iterator[Layout]:
    """Yield layouts that divide a model, a cluster and a batch; tensor parallelism stays inside a scale-up domain.

    Parameters
    ----------
    model : Model
        The model.
    system : System
        The cluster; each layout uses all of it.
    batch : int
        Sequences of a step. >= 1
    """
    ranks = system.ranks
    wanted = units.count(batch, "batch")
    stages = [n for n in range(1, min(ranks, model.layers) + 1) if ranks % n == 0]
    groups = [n for n in _TENSOR if n <= system.joined]
    experts = [n for n in range(1, model.experts + 1) if model.experts % n == 0] or [1]
    for tp, pp, ep in itertools.product(groups, stages, experts):
        if ranks % (tp * pp):
            continue
        dp = ranks // (tp * pp)
        for micro, chunks, sharding, recompute in itertools.product(
            _MICRO, _CHUNKS, _SHARDING, RECOMPUTE
        ):
            if wanted % (dp * micro) or (pp > 1 and sharding == "zero3"):
                continue
            try:
                layout = Layout(
                    tp=tp,
                    pp=pp,
                    dp=dp,
                    ep=ep,
                    chunks=chunks,
                    microbatch=micro,
                    microbatches=wanted // (dp * micro),
                    sharding=sharding,
                    recompute=recompute,
                    sequence_parallel=tp > 1,
                )
                check(layout, model, ranks)
            except ValueError:
                continue
            yield layout


@dataclass(frozen=True, slots=True)
class _Task:
    """Layouts that one call of a worker tries."""

    model: Model
    system: System
    layouts: tuple[Layout, ...]
    options: tuple[tuple[str, Any], ...]
    capacity: float

    def __call__(self) -> list[Trial | None]:
        """Return a trial for each layout, None where it does not fit."""
        found: list[Trial | None] = []
        for layout in self.layouts:
            needed = memory(self.model, layout).most
            if needed > self.capacity:
                found.append(None)
                continue
            step: Step = train_step(self.model, layout, self.system, **dict(self.options))
            found.append(Trial(layout, step.time, needed, tuple(step.parts.items())))
        return found


def _run(task: _Task) -> list[Trial | None]:
    """Run a task in a worker."""
    return task()


def search(
    model: Model,
    system: System,
    batch: int,
    *,
    layouts: Iterator[Layout] | list[Layout] | None = None,
    executor: Executor | str | None = "processes",
    progress: Callable[[int, int], None] | None = None,
    precision: str = "bf16",
    schedule: Schedule | None = None,
) -> Search:
    """Return the layouts of a training step by their time, with the front of time against memory.

    An interruption (Ctrl-C, or the stop button of a notebook) cancels what has not begun and returns what is known.

    Parameters
    ----------
    model : Model
        The model.
    system : System
        The cluster.
    batch : int
        Sequences of a step. >= 1
    layouts : iterable of Layout, optional
        What to try; by default `candidates`.
    executor : Executor, optional
        Any `concurrent.futures.Executor`, such as that of a Dask cluster. By default one process for each core; None:
        no other process.
    progress : callable, optional
        Called with the number of layouts that are done and of all.
    precision, schedule
        As in `train_step`.

    Raises
    ------
    DoesNotFit
        If no layout fits into memory.
    ValueError
        If no layout divides the model, the cluster and the batch.
    """
    tried = tuple(candidates(model, system, batch) if layouts is None else layouts)
    if not tried:
        raise ValueError(
            f"no layout divides {model.name}, {system.ranks} ranks and a batch of {batch}: take a batch that a power "
            "of two divides more often"
        )
    capacity = kernels.machine(str(system.row["accelerator"])).capacity
    options = (("precision", precision), ("schedule", schedule))
    tasks = []
    for begin in range(0, len(tried), _CHUNKSIZE):
        tasks.append(_Task(model, system, tried[begin : begin + _CHUNKSIZE], options, capacity))

    results: list[Trial | None] = []
    complete = True

    def take(found: list[Trial | None]) -> None:
        results.extend(found)
        if progress is not None:
            progress(len(results), len(tried))

    if executor is None:
        try:
            for task in tasks:
                take(task())
        except KeyboardInterrupt:
            complete = False
    elif isinstance(executor, str):
        units.choice(executor, "executor", ("processes",))
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            complete = _gather(pool, tasks, take)
    else:
        complete = _gather(executor, tasks, take)

    fit = sorted((trial for trial in results if trial is not None), key=lambda trial: trial.time)
    if not fit:
        raise DoesNotFit(
            f"none of {len(results)} layouts of {model.name} fits into {units.format_size(capacity)} on each of "
            f"{system.ranks} GPUs; take more GPUs or a smaller model"
        )
    return Search(model, tuple(fit), len(results) - len(fit), capacity, complete)


def _gather(
    executor: Executor, tasks: list[_Task], take: Callable[[list[Trial | None]], None]
) -> bool:
    """Run tasks on an executor and take their results as they come; return False if interrupted."""
    waiting: list[Future[list[Trial | None]]] = [executor.submit(_run, task) for task in tasks]
    try:
        for done in as_completed(waiting):
            take(done.result())
    except KeyboardInterrupt:
        for future in waiting:
            future.cancel()
        return False
    return True


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
