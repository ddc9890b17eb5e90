"""The running case: one training job on one cluster, which all lessons use.

Derived rows are computed from the given ones: each has its formula in `case.csv`, except those of `_COMPUTED`. Numbers
in these formulas: 2 bytes per bf16 weight, 4 all-reduces per layer (two forward, two backward), seconds per hour and
per day. Letters in the sources: P parameters, L layers, h hidden size, V vocabulary, s sequence length, b sequences per
micro-batch, m micro-batches, t and d sizes of the tensor- and data-parallel groups.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog.clos import ClosPlan, rail_plan
from fabriclab.catalog.tables import data_rows, near
from fabriclab.core import ReadOnly, Spec, html_table, si_factor
from fabriclab.formulas import evaluate

_SWEEP_BYTES = 2**27  # the row "134 MB" of the published sweeps


def last_finish(ready: ArrayLike, cost: ArrayLike) -> float:
    """Return when the last of several jobs ends if one server processes them in the given order.

    Parameters
    ----------
    ready, cost : array_like, shape (N,)
        When each job may start, and how long it takes. [s]

    Returns
    -------
    float
        max over i of ready[i] + cost[i] + ... + cost[N-1]. [s]
    """
    tail = np.cumsum(np.asarray(cost, dtype=float)[::-1])[::-1]
    return float(np.max(np.asarray(ready, dtype=float) + tail))


def _clos(job: Case) -> ClosPlan:
    """Return the plan that the topology ``rail_optimised`` builds, in three tiers where two do not suffice.

    So the campus of 16,384 GPUs has 1,280 switches. The sheet that the prices come from has 768: a two-tier network for
    each rail and nothing between the rails, which is not a full fat tree.
    """
    ports = int(job.switch_ports)
    plan = rail_plan(
        servers=int(job.servers),
        gpus=int(job.gpus_per_server),
        rails=int(job.rails),
        radix=ports,
        room=ports // 2,
    )
    return plan.clos


def _leaves(job: Case) -> int:
    """Return the number of leaf switches."""
    return _clos(job).switches[0]


def _spines(job: Case) -> int:
    """Return the number of spine switches."""
    return _clos(job).switches[1]


def _cores(job: Case) -> int:
    """Return the number of core switches; 0 in two tiers."""
    return _clos(job).switches[2]


def _cables_between_switches(job: Case) -> int:
    """Return the number of cables between switches."""
    return _clos(job).cables


def _twin_modules(job: Case) -> int:
    """Return the number of transceivers in switches, each of which serves two ports."""
    ports = job.cables_host + 2 * job.cables_spine
    return math.ceil(ports / 2)


def _steps(job: Case) -> int:
    """Return the number of training steps in the whole run."""
    return round(job.training_tokens / job.tokens_per_step)


def _published_tp_time(job: Case, sweep: str) -> float:
    """Return the time of a step's tensor-parallel all-reduces if each takes as long as in a published sweep [s]."""
    from fabriclab.catalog import published

    return job.tp_allreduces * published.load(sweep).at(_SWEEP_BYTES)


def _published_tp_time_ring(job: Case) -> float:
    """Return the time of a step's tensor-parallel all-reduces as rings of 8 H100, from a published sweep [s]."""
    return _published_tp_time(job, "h100x8_ring")


def _published_tp_time_nvls(job: Case) -> float:
    """Return the time of a step's tensor-parallel all-reduces if NVLink switches reduce, from a published sweep [s]."""
    return _published_tp_time(job, "h100x8_nvls")


def _exposed(job: Case) -> float:
    """Return the exposed time of the gradient all-reduce with one bucket per layer [s]."""
    return job.exposed()


def _exposed_with_latency(job: Case) -> float:
    """Return the exposed time if each step of the ring also has its software latency [s]."""
    return job.exposed(step_latency=job.ring_step_latency)


def _exposed_with_true_sizes(job: Case) -> float:
    """Return the exposed time with buckets of their true sizes: one per layer and one per vocabulary table [s]."""
    layers = int(job.layers)
    table = job.vocabulary * job.hidden  # parameters
    layer = (job.parameters - job.hidden - 2 * table) / layers
    sizes = np.array([table + job.hidden, *[layer] * layers, table])  # (layers + 2,)
    layers_done = np.array([0, *range(1, layers + 1), layers])  # when each bucket is ready
    ready = job.window * layers_done / layers  # [s]
    cost = job.t_dp * sizes / sizes.sum()  # [s]
    return last_finish(ready, cost) - float(job.window)


def _step_with_fp32_gradients(job: Case) -> float:
    """Return the time of a step with gradients of 4 bytes [s]."""
    return job.replace(gradient_bytes=4).t_step


def _step_with_quarter_nic(job: Case) -> float:
    """Return the time of a step with NICs at a quarter of their rate [s]."""
    return job.replace(nic_rate=job.nic_rate / 4).t_step


def _step_with_half_nic(job: Case) -> float:
    """Return the time of a step with NICs at half of their rate [s]."""
    return job.replace(nic_rate=job.nic_rate / 2).t_step


def _step_with_tp_over_network(job: Case) -> float:
    """Return the time of a step with both all-reduces on the NIC; gradients get it only while the GPU computes [s]."""
    idle = job.t_compute * job.backward_share / job.microbatches
    return float(job.t_compute + job.tp_bytes / job.nic_rate + job.exposed(window=idle))


def _step_through_one_root(job: Case) -> float:
    """Return the time of a step whose gradients are all reduced at one root [s]."""
    return job.t_compute + job.t_tp + job.exposed(t_dp=job.t_one_root)


_COMPUTED: dict[str, Callable[[Case], float]] = {
    "steps": _steps,
    "leaves": _leaves,
    "spines": _spines,
    "cores": _cores,
    "cables_spine": _cables_between_switches,
    "optic_twin_modules": _twin_modules,
    "t_tp_h100_134MB_ring": _published_tp_time_ring,
    "t_tp_h100_134MB_nvls": _published_tp_time_nvls,
    "t_dp_exposed": _exposed,
    "t_dp_exposed_14us": _exposed_with_latency,
    "t_dp_exposed_true_sizes": _exposed_with_true_sizes,
    "ledger_fp32_gradients": _step_with_fp32_gradients,
    "ledger_one_nic_quarter": _step_with_quarter_nic,
    "ledger_tp_over_network": _step_with_tp_over_network,
    "ledger_half_rate": _step_with_half_nic,
    "ledger_one_root": _step_through_one_root,
}


def _formulas() -> dict[str, Callable[[Case], float]]:
    """Return a function for each derived row, by name: one of this file, or the formula of the table."""
    formulas = dict(_COMPUTED)
    for row in data_rows("case"):
        if row["formula"]:
            formulas[row["key"]] = partial(evaluate, row["formula"])
    return formulas


FORMULAS = _formulas()

_NAME = "the running case"
_CHANGED = "changed by the reader"
_MAY_BE_ZERO = ("time", "price", "power")


def case(**changes: float | str) -> Case:
    """Return the running case, optionally with some of its given rows changed.

    Parameters
    ----------
    **changes
        New values of given rows, by name: an SI number, or a string with a unit.

    Examples
    --------
    >>> case().gpus, case(nic_rate="200 Gb/s").nic_rate
    (1024, 25000000000.0)
    """
    return _unchanged().replace(**changes) if changes else _unchanged()


@cache  # no case can be changed, so all who ask get the same one, with what was derived from it
def _unchanged() -> Case:
    """Return the running case as the table has it."""
    given = {}
    for row in data_rows("case"):
        if row["kind"] != "derived":
            columns = {**row, "id": "case", "name": _NAME, "attribute": row["key"]}
            given[row["key"]] = Spec.from_row(columns)
    return Case(given).replace()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Case:
    """The running case: its given rows and all rows that follow from them, as attributes and items in SI.

    A row whose name ends with a unit (``run_hours``, ``llama3_days``, ``price_gpu_hour``) is in that
    unit. Left out: the payload being less than line rate, the latency of ring steps, the optimiser, and data loading.

    Parameters
    ----------
    given : mapping of str to Spec
        The given rows; `case` reads them from the catalog.
    """

    given: Mapping[str, Spec]
    _known: dict[str, float] = dataclasses.field(default_factory=dict, init=False)

    def __getitem__(self, name: str) -> float:
        """Return the value of a row, given or computed from the given ones."""
        if not isinstance(name, str) or (name not in self.given and name not in FORMULAS):
            raise KeyError(near(name, self, "the case"))
        if name not in self._known:
            if name in self.given:
                self._known[name] = _number(self.given[name])
            else:
                self._known[name] = FORMULAS[name](self)
        return self._known[name]

    def __getattr__(self, name: str) -> float:
        """Return the value of a row, as ``case[name]`` does."""
        if name.startswith("_"):  # copy and display look these up before the rows exist
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(*error.args) from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all rows, given ones first."""
        return iter([*self.given, *FORMULAS])

    def __dir__(self) -> list[str]:
        """Return the names of methods and rows, for tab completion."""
        return sorted([*object.__dir__(self), *self])

    def replace(self, **changes: float | str) -> Self:
        """Return a new case with some given rows changed; all derived rows follow.

        Raises
        ------
        ValueError
            If a row is not a given one, a value is out of range, or tp x dp differs from the number of GPUs.
        """
        for name in changes:
            if name not in self.given:
                hint = "; it is derived: change what it follows from" if name in FORMULAS else ""
                raise ValueError(near(name, self.given, "the given part of the case") + hint)
        given = dict(self.given)
        for name, value in changes.items():
            given[name] = _changed(self.given[name], value)
        new = dataclasses.replace(self, given=ReadOnly(given))
        if new.tp * new.dp != new.gpus:
            msg = f"tp x dp must be the number of GPUs, got {new.tp} x {new.dp} for {new.gpus}; change them together"
            raise ValueError(msg)
        return new

    def exposed(
        self,
        *,
        buckets: int | None = None,
        step_latency: float | str = 0.0,
        t_dp: float | str | None = None,
        window: float | str | None = None,
    ) -> float:
        """Return the exposed time of the gradient all-reduce [s]: the part that the backward pass does not overlap.

        Buckets of equal size become ready one after another during the last backward pass and are reduced in
        that order on one NIC.

        Parameters
        ----------
        buckets : int, optional
            Number of buckets, by default one per layer.
        step_latency : float or str
            Latency of each of the 2 (dp - 1) steps of a ring. [s]
        t_dp, window : float or str, optional
            Time of the whole all-reduce without latency, and of the backward pass that overlaps it; by default those of
            the case. [s]
        """
        if buckets is None:
            buckets = int(self.layers)
        if t_dp is None:
            t_dp = self.t_dp
        if window is None:
            window = self.window
        n = units.count(buckets, "buckets")
        total = units.time(t_dp, "t_dp")
        span = units.time(window, "window")
        ring_steps = 2 * (self.dp - 1)
        cost = total / n + ring_steps * units.time(step_latency, "step_latency")  # of a bucket [s]

        # `last_finish` of equal buckets: either the first or the last bucket decides.
        return max(span / n + n * cost, span + cost) - span

    def row(self, name: str) -> Spec:
        """Return a row with its unit, kind, source and note; for a derived row the source is its formula."""
        number = self[name]
        if name in self.given:
            return self.given[name]
        text = next(row for row in data_rows("case") if row["key"] == name)
        factor = si_factor(text["unit"])
        value = number if factor == 1 else number / (factor or 1)
        return Spec(
            "case",
            _NAME,
            name,
            value,
            text["unit"],
            kind="derived",
            source=text["source"],
            note=text["note"],
        )

    def strip(
        self, *, step: bool = True, share: bool = True, days: bool = True, bill: bool = True
    ) -> str:
        """Return the line that opens every lesson; a field that is switched off shows a dash."""
        fields = (
            f"step {self.t_step:.2f} s" if step else "step -",
            units.format_share(self.mfu) if share else "-",
            f"{self.run_hours / 24:.1f} days" if days else "- days",
            f"USD {self.price_run / 1e6:.2f} M" if bill else "USD -",
        )
        return " | ".join(fields)

    def __repr__(self) -> str:
        """Show what is given, but nothing that a lesson asks the reader to predict."""
        names = [name for name, spec in self.given.items() if spec.source == _CHANGED]
        changed = ", ".join(names) or "nothing"
        nic_rate = units.format_rate(self.nic_rate)
        return f"<Case: {self.gpus} GPUs, NIC {nic_rate}, {changed} changed>"

    def _repr_html_(self) -> str:
        return html_table(
            self.given.values(), f"{_NAME}: given rows; see a derived one with row(name)"
        )


def _number(spec: Spec) -> float:
    """Return the SI value, as an int if the row is a whole count."""
    number = spec.si or 0.0
    return int(number) if si_factor(spec.unit) == 1.0 and number.is_integer() else number


def _changed(old: Spec, value: float | str) -> Spec:
    """Return the row ``old`` with another value, read with the quantity of its unit."""
    name = old.attribute
    factor = si_factor(old.unit) or 1.0
    quantity = units.UNITS[old.unit][0] if old.unit in units.UNITS else ""
    number = _parsed(old, value, quantity, factor)

    before = old.si or 0.0
    most = 1.0 if old.unit == "fraction" else before * 1e4
    may_be_zero = quantity in _MAY_BE_ZERO
    if not (before / 1e4 <= number <= most or (may_be_zero and number == 0)):
        msg = f'{name} must be near the {before:g} (SI) of the case, got {value!r}; write it as "{old.quoted}"'
        raise ValueError(msg)
    is_count = not quantity and factor == 1 and isinstance(_number(old), int)
    if is_count and not number.is_integer():
        raise ValueError(f"{name} must be a whole number, got {value!r}")

    note = f"{old.quoted} in the case"
    return Spec(old.id, old.name, name, number / factor, old.unit, source=_CHANGED, note=note)


def _parsed(old: Spec, value: float | str, quantity: str, factor: float) -> float:
    """Return a value in SI; without a ``quantity`` it is a plain number, or one followed by the unit of the row."""
    name = old.attribute
    if quantity == "rate":
        return units.rate(value, name)
    if quantity:
        return units.parse(value, quantity, name)

    if isinstance(value, str):
        digits = value.removesuffix(old.unit).strip()
        if digits.replace(".", "", 1).isdigit():
            return float(digits) * factor
    return units.parse(value, "count", name)
