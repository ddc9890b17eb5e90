"""Play one scenario under several settings, and put the results side by side."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fabriclab import registry, units
from fabriclab.core import Floats, ReadOnly, as_html, as_text
from fabriclab.engines.packet import Trace
from fabriclab.engines.packet.control import Control, Place
from fabriclab.errors import FabricError
from fabriclab.scenarios.scenario import Scenario, merged

__all__ = ["Comparison", "Matrix", "compare", "feedback_of", "matrix"]

# Figures of a run, by the name under which a comparison lists them.
FIGURES: Mapping[str, Callable[[Run], float]] = ReadOnly(
    {
        "peak queue [B]": lambda run: run.peak_queue,
        "mean queue [B]": lambda run: run.mean_queue,
        "marks": lambda run: float(run.trace.marks.sum()),
        "pauses": lambda run: float(run.trace.pauses.sum()),
        "paused [s]": lambda run: float(run.trace.paused.sum()),
        "drops": lambda run: float(run.trace.dropped.sum()),
        "sent again": lambda run: run.trace.sent_again,
        "goodput [B/s]": lambda run: run.goodput,
        "fairness": lambda run: run.trace.fairness,
        "slowdown p99": lambda run: run.slowdown(0.99),
        "last finish [s]": lambda run: run.trace.last_finish,
    }
)


@dataclass(frozen=True, eq=False)
class Run:
    """A scenario that was played once, under a name."""

    name: str
    feedback: str
    scenario: Scenario
    trace: Trace

    @property
    def peak_queue(self) -> float:
        """Longest queue of any port of a switch during the run [B]."""
        fabric = self.scenario.fabric
        in_switch = fabric.transit[fabric.source]
        return float(self.trace.peak.sum(axis=1)[in_switch].max(initial=0.0))

    @property
    def mean_queue(self) -> float:
        """Mean queue of the scenario's first link over all samples of the run [B]; nan without samples."""
        links = list(self.scenario.links.values())
        if not links or links[0] not in self.trace.watched_links or not len(self.trace.queue):
            return float("nan")
        return float(self.trace.queue_of(links[0]).mean())

    @property
    def goodput(self) -> float:
        """Payload of all flows that ended, over the time of the last one [B/s]."""
        ended = np.isfinite(self.trace.finish)
        last = float(self.trace.finish[ended].max(initial=0.0))
        return float(self.trace.size[ended].sum()) / last if last > 0 else 0.0

    def slowdown(self, share: float) -> float:
        """Return the slowdown that a share of the flows does not exceed."""
        known = self.trace.slowdown[self.trace.size > 0]
        return float(np.quantile(known, share, method="inverted_cdf")) if known.size else np.nan


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of one scenario under several settings, side by side."""

    scenario: Scenario
    runs: tuple[Run, ...]

    def __getitem__(self, name: str) -> Trace:
        """Return the trace of a run by its name."""
        for run in self.runs:
            if run.name == name:
                return run.trace
        raise KeyError(f"no run {name!r}; the runs are {', '.join(r.name for r in self.runs)}")

    def figure(self, name: str) -> Floats:
        """Return one figure of all runs, (runs,); see `FIGURES`."""
        name = units.choice(name, "figure", FIGURES, exact=True)
        return np.array([FIGURES[name](run) for run in self.runs])

    def rows(self) -> list[list[str]]:
        """Return a table of texts: a row for each run, its feedback and its figures with their units."""
        table = [["run", "feedback", *(name.split(" [")[0] for name in FIGURES)]]
        for run in self.runs:
            cells = [_cell(name, figure(run)) for name, figure in FIGURES.items()]
            table.append([run.name, run.feedback, *cells])
        return table

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"{self.scenario.name}: {self.scenario.shows}")


def _cell(name: str, value: float) -> str:
    """Return a figure with its unit."""
    if name.endswith("[B]"):
        return units.format_size(round(value)) if np.isfinite(value) else "-"
    if name.endswith("[s]"):
        return units.format_time(value)
    if name.endswith("[B/s]"):
        return units.format_rate(value)
    if name == "sent again":
        return units.format_share(value, 1)
    if name in ("fairness", "slowdown p99"):
        return f"{value:.3f}" if name == "fairness" else f"{value:.2f}"
    return f"{value:,.0f}"


def compare(
    scenario: Scenario, configs: Mapping[str, Mapping[str, Any]], *, seed: int | None = None
) -> Comparison:
    """Play a scenario once under each of several settings.

    Parameters
    ----------
    scenario : Scenario
        What is played.
    configs : mapping of str to mapping
        Name of each run -> settings that differ from those of the scenario.
    seed : int, optional
        Seed of all that is random in the runs, the same for each.

    Examples
    --------
    >>> from fabriclab import scenarios
    >>> few = scenarios.incast(2, "40 kB")
    >>> table = scenarios.compare(few, {"plain": {"control": "window"}, "DCQCN": {}})
    >>> [row[:2] for row in table.rows()]
    [['run', 'feedback'], ['plain', 'none'], ['DCQCN', 'marks (ECN)']]
    """
    runs = []
    for name, config in configs.items():
        trace = scenario.play(seed=seed, **config)
        settings = merged(scenario.config, config)
        feedback = feedback_of(settings.get("control", "window"))
        if settings.get("grants"):
            feedback = "grants" if feedback == "none" else f"{feedback}, grants"
        runs.append(Run(name, feedback, scenario, trace))
    return Comparison(scenario, tuple(runs))


def feedback_of(control: str | Callable[..., Any]) -> str:
    """Return in words what a control loop listens to."""
    if callable(control):
        return ", ".join(inspect.signature(control).parameters)
    name = registry.find("control", control)
    about = registry.info("control", name)
    if "feedback" in about:
        return str(about["feedback"])
    if name == "window":
        return "none"
    # illustrative: any place will do, as the kind of feedback does not depend on it
    loop: Control = registry.get("control", name)(Place(rate=50e9, round_trip=1e-5, payload=4096))
    if loop.telemetry:
        return "queues and rates (INT)"
    if loop.marking is not None:
        return "marks (ECN)"
    return "round-trip time"


@dataclass(frozen=True, eq=False)
class Matrix:
    """Runs of one scenario for each pair of settings: a transport and a load balance."""

    scenario: Scenario
    transports: tuple[str, ...]
    balances: tuple[str, ...]
    traces: tuple[tuple[Trace | None, ...], ...]  # (transports, balances); None: a flow gave up
    reasons: Mapping[tuple[str, str], str]  # why

    def last_finish(self) -> Floats:
        """Return when the last flow ended, (transports, balances), inf where one never did [s]."""
        table = np.full((len(self.transports), len(self.balances)), np.inf)
        for i, row in enumerate(self.traces):
            for j, trace in enumerate(row):
                if trace is not None:
                    table[i, j] = trace.last_finish
        return table

    def rows(self) -> list[list[str]]:
        """Return a table of texts: when the last flow ended, and which share of all packets was sent again."""
        table = [["transport", *self.balances]]
        for name, row in zip(self.transports, self.traces, strict=True):
            cells = [name]
            for trace in row:
                if trace is None:
                    cells.append("gave up")
                elif trace.sent_again:
                    again = f"{units.format_share(trace.sent_again, 1)} sent again"
                    cells.append(f"{units.format_time(trace.last_finish)}, {again}")
                else:
                    cells.append(units.format_time(trace.last_finish))
            table.append(cells)
        return table

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"{self.scenario.name}: last finish")


def matrix(
    scenario: Scenario,
    transports: Mapping[str, Mapping[str, Any]],
    balances: Mapping[str, Mapping[str, Any]],
    *,
    seed: int | None = None,
) -> Matrix:
    """Play a scenario for each pair of a transport and a load balance.

    Parameters
    ----------
    scenario : Scenario
        What is played.
    transports, balances : mapping of str to mapping
        Name -> settings, such as ``{"go-back-N": {"recovery": "go_back_n"}}`` and ``{"spray": {"balance": "spray"}}``.
    seed : int, optional
        Seed of all that is random in the runs.
    """
    traces = []
    reasons = {}
    for transport, one in transports.items():
        row: list[Trace | None] = []
        for balance, other in balances.items():
            try:
                row.append(scenario.play(seed=seed, **{**one, **other}))
            except FabricError as error:
                row.append(None)
                reasons[transport, balance] = str(error)
        traces.append(tuple(row))
    return Matrix(scenario, tuple(transports), tuple(balances), tuple(traces), ReadOnly(reasons))
