"""The running case: one training job on one hall of machines that all lessons speak of.

Derived rows are computed from the given ones: `case.csv` has a formula for each but those of `_COMPUTED`. Numbers
there: 2 bytes of a bf16 weight, 4 all-reduces in a layer (two forward, two backward), seconds of an hour and of a day.
Letters in its sources: P parameters, L layers, h hidden, V vocabulary, s sequence, b sequences of a micro-batch,
m micro-batches, t and d the tensor- and data-parallel groups.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog.clos import ClosPlan, rail_plan
from fabriclab.catalog.tables import data_rows, near
from fabriclab.core import ReadOnly, Spec, html_table, si_factor
from fabriclab.formulas import evaluate

_SWEEP_BYTES = 2**27  # the row "134 MB" of the published sweeps


def last_finish(ready: ArrayLike, cost: ArrayLike) -> float:
    """Return when the last of several jobs ends that one server does in order.

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


def _clos(c: Any) -> ClosPlan:
    """Return the plan that the topology ``rail_optimised`` builds, in three tiers where two do not do.

    So the campus of 16,384 GPUs has 1,280 switches. The sheet the prices are from has 768: a network of two
    tiers for each rail, and nothing between rails, which is no full fat tree.
    """
    down = c.switch_ports // 2
    return rail_plan(c.servers, c.gpus_per_server, c.rails, c.switch_ports, down).clos


def _true_sizes(c: Any) -> float:
    """Return the exposed time with a bucket per layer and one for each table of the vocabulary."""
    table = c.vocabulary * c.hidden
    layer = (c.parameters - c.hidden - 2 * table) / c.layers
    size = np.array([table + c.hidden, *[layer] * c.layers, table])
    ready = c.window * np.array([0, *range(1, c.layers + 1), c.layers]) / c.layers
    return last_finish(ready, c.t_dp * size / size.sum()) - float(c.window)


def _published_time(sweep: str) -> float:
    from fabriclab.catalog import published

    return published.load(sweep).at(_SWEEP_BYTES)


def _over_network(c: Any) -> float:
    """Return the step with both sums on the NIC: gradients get it only while the GPU computes."""
    idle = c.t_compute * c.backward_share / c.microbatches
    return float(c.t_compute + c.tp_bytes / c.nic_rate + c.exposed(window=idle))


_COMPUTED: dict[str, Callable[[Any], float]] = {
    "steps": lambda c: round(c.training_tokens / c.tokens_per_step),
    "leaves": lambda c: _clos(c).switches[0],
    "spines": lambda c: _clos(c).switches[1],
    "cores": lambda c: _clos(c).switches[2],
    "cables_spine": lambda c: _clos(c).cables,
    "optic_twin_modules": lambda c: math.ceil((c.cables_host + 2 * c.cables_spine) / 2),
    "t_tp_h100_134MB_ring": lambda c: c.tp_allreduces * _published_time("h100x8_ring"),
    "t_tp_h100_134MB_nvls": lambda c: c.tp_allreduces * _published_time("h100x8_nvls"),
    "t_dp_exposed": lambda c: c.exposed(),
    "t_dp_exposed_14us": lambda c: c.exposed(step_latency=c.ring_step_latency),
    "t_dp_exposed_true_sizes": _true_sizes,
    "ledger_fp32_gradients": lambda c: c.replace(gradient_bytes=4).t_step,
    "ledger_one_nic_quarter": lambda c: c.replace(nic_rate=c.nic_rate / 4).t_step,
    "ledger_tp_over_network": _over_network,
    "ledger_half_rate": lambda c: c.replace(nic_rate=c.nic_rate / 2).t_step,
    "ledger_one_root": lambda c: c.t_compute + c.t_tp + c.exposed(t_dp=c.t_one_root),
}
FORMULAS = _COMPUTED | {
    r["key"]: partial(evaluate, r["formula"]) for r in data_rows("case") if r["formula"]
}


_NAME = "the running case"
_CHANGED = "changed by the reader"
_MAY_BE_ZERO = ("time", "price", "power")


def case(**changes: float | str) -> Case:
    """Return the running case, with any given row changed.

    Parameters
    ----------
    **changes
        Given rows by name: an SI number, or a string with a unit.

    Examples
    --------
    >>> case().gpus, case(nic_rate="200 Gb/s").nic_rate
    (1024, 25000000000.0)
    """
    rows = [{**r, "id": "case", "name": _NAME, "attribute": r["key"]} for r in data_rows("case")]
    return Case({r["key"]: Spec.from_row(r) for r in rows if r["kind"] != "derived"}).replace(
        **changes
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Case:
    """Given rows and everything that follows from them, as attributes and items in SI.

    A row whose name ends with its unit (``run_hours``, ``llama3_days``, ``price_gpu_hour``) is in that
    unit. Left out: payload below line rate, latency of ring steps, optimiser and data loading.

    Parameters
    ----------
    given : mapping of str to Spec
        The given rows; `case` reads them from the catalog.
    """

    given: Mapping[str, Spec]
    _known: dict[str, float] = dataclasses.field(default_factory=dict, init=False)

    def __getitem__(self, name: str) -> float:
        """Return a row by name: given, or computed from the given ones."""
        if not isinstance(name, str) or (name not in self.given and name not in FORMULAS):
            raise KeyError(near(name, self, "the case"))
        if name not in self._known:
            self._known[name] = (
                _number(self.given[name]) if name in self.given else FORMULAS[name](self)
            )
        return self._known[name]

    def __getattr__(self, name: str) -> float:
        """Return a row by name."""
        if name.startswith("_"):  # asked by copy and display before there are rows
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(*error.args) from None

    def __iter__(self) -> Iterator[str]:
        """Run over the names of all rows, given ones first."""
        return iter([*self.given, *FORMULAS])

    def __dir__(self) -> list[str]:
        """Return methods and rows, for completion."""
        return sorted([*object.__dir__(self), *self])

    def replace(self, **changes: float | str) -> Self:
        """Return a new case with some given rows changed; all derived rows follow.

        Raises
        ------
        ValueError
            If a row is not a given one, a value is out of range, or tp x dp is not the number of GPUs.
        """
        for name in changes:
            if name not in self.given:
                hint = "; it is derived: change what it follows from" if name in FORMULAS else ""
                raise ValueError(near(name, self.given, "the given part of the case") + hint)
        given = {
            **self.given,
            **{name: _changed(self.given[name], value) for name, value in changes.items()},
        }
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
        """Return the time [s] of the gradient sum that the backward pass does not hide.

        Equal buckets become ready one after another during the last backward pass and are summed in
        that order on one NIC.

        Parameters
        ----------
        buckets : int, optional
            Number of buckets, one per layer unless given.
        step_latency : float or str
            Latency of each of the 2 (dp - 1) steps of a ring. [s]
        t_dp, window : float or str, optional
            Time of the whole sum without latency, and of the pass that hides it; those of the case. [s]
        """
        n = units.count(int(self.layers) if buckets is None else buckets, "buckets")
        total = units.time(self.t_dp if t_dp is None else t_dp, "t_dp")
        span = units.time(self.window if window is None else window, "window")
        cost = total / n + 2 * (self.dp - 1) * units.time(step_latency, "step_latency")
        # `last_finish` of equal buckets: the first, or the last
        return max(span / n + n * cost, span + cost) - span

    def row(self, name: str) -> Spec:
        """Return a row with unit, kind, source and note; of a derived one the formula is the source."""
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
            f"{100 * self.mfu:.0f}%" if share else "-",
            f"{self.run_hours / 24:.1f} days" if days else "- days",
            f"USD {self.price_run / 1e6:.2f} M" if bill else "USD -",
        )
        return " | ".join(fields)

    def __repr__(self) -> str:
        """Show what is given, never what a lesson lets the reader predict."""
        changed = (
            ", ".join(key for key, spec in self.given.items() if spec.source == _CHANGED)
            or "nothing"
        )
        return (
            f"<Case: {self.gpus} GPUs, NIC {units.format_rate(self.nic_rate)}, {changed} changed>"
        )

    def _repr_html_(self) -> str:
        return html_table(
            self.given.values(), f"{_NAME}: given rows; see a derived one with row(name)"
        )


def _number(spec: Spec) -> float:
    """Return the SI value, as an int where the row is a whole count."""
    number = spec.si or 0.0
    return int(number) if si_factor(spec.unit) == 1.0 and number.is_integer() else number


def _changed(old: Spec, value: float | str) -> Spec:
    """Return ``old`` with another value, read in the quantity of its unit."""
    quantity, name, factor, given = "", old.attribute, si_factor(old.unit) or 1.0, old.si or 0.0
    if old.unit in units.UNITS:
        quantity = units.UNITS[old.unit][0]
        number = (
            units.rate(value, name) if quantity == "rate" else units.parse(value, quantity, name)
        )
    else:
        bare = value.removesuffix(old.unit).strip() if isinstance(value, str) else ""
        number = (
            float(bare) * factor
            if bare.replace(".", "", 1).isdigit()
            else units.parse(value, "count", name)
        )
    zero, most = (
        number == 0 and quantity in _MAY_BE_ZERO,
        1.0 if old.unit == "fraction" else given * 1e4,
    )
    if not (zero or given / 1e4 <= number <= most):
        msg = f'{name} must be near the {given:g} (SI) of the case, got {value!r}; write it as "{old.quoted}"'
        raise ValueError(msg)
    if not quantity and factor == 1 and isinstance(_number(old), int) and not number.is_integer():
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    note = f"{old.quoted} in the case"
    return Spec(old.id, old.name, name, number / factor, old.unit, source=_CHANGED, note=note)
