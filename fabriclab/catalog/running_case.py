"""The running case: one training job on one hall of machines that all lessons speak of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from fabriclab import units
from fabriclab.catalog.sheet import FORMULAS, last_finish
from fabriclab.catalog.tables import data_rows, near
from fabriclab.core import ReadOnly, Spec, html_table, si_factor

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
    return Case({r["key"]: Spec.from_row(r) for r in rows if r["kind"] != "derived"}).replace(**changes)


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
            self._known[name] = _number(self.given[name]) if name in self.given else FORMULAS[name](self)
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

    def replace(self, **changes: float | str) -> Case:
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
        given = {**self.given, **{name: _changed(self.given[name], value) for name, value in changes.items()}}
        new = dataclasses.replace(self, given=ReadOnly(given))
        if new.tp * new.dp != new.gpus:
            msg = f"tp x dp must be the number of GPUs, got {new.tp} x {new.dp} for {new.gpus}; change them together"
            raise ValueError(msg)
        return new

    def exposed(self, *, buckets: int | None = None, step_latency: float | str = 0.0, t_dp: float | str | None = None,
                window: float | str | None = None) -> float:  # fmt: skip
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
        return last_finish([span * (i + 1) / n for i in range(n)], [cost] * n) - span

    def row(self, name: str) -> Spec:
        """Return a row with unit, kind, source and note; of a derived one the formula is the source."""
        number = self[name]
        if name in self.given:
            return self.given[name]
        text = next(row for row in data_rows("case") if row["key"] == name)
        factor = si_factor(text["unit"])
        value = number if factor == 1 else number / (factor or 1)
        return Spec("case", _NAME, name, value, text["unit"], kind="derived", source=text["source"], note=text["note"])

    def strip(self, *, step: bool = True, share: bool = True, days: bool = True, bill: bool = True) -> str:
        """Return the line that opens every lesson; a field that is switched off shows a dash."""
        fields = (f"step {self.t_step:.2f} s" if step else "step -", f"{100 * self.mfu:.0f}%" if share else "-",
                  f"{self.run_hours / 24:.1f} days" if days else "- days",
                  f"USD {self.price_run / 1e6:.2f} M" if bill else "USD -")  # fmt: skip
        return " | ".join(fields)

    def __repr__(self) -> str:
        """Show what is given, never what a lesson lets the reader predict."""
        changed = ", ".join(key for key, spec in self.given.items() if spec.source == _CHANGED) or "nothing"
        return f"<Case: {self.gpus} GPUs, NIC {units.format_rate(self.nic_rate)}, {changed} changed>"

    def _repr_html_(self) -> str:
        return html_table(self.given.values(), f"{_NAME}: given rows; see a derived one with row(name)")


def _number(spec: Spec) -> float:
    """Return the SI value, as an int where the row is a whole count."""
    number = spec.si or 0.0
    return int(number) if si_factor(spec.unit) == 1.0 and number.is_integer() else number


def _changed(old: Spec, value: float | str) -> Spec:
    """Return ``old`` with another value, read in the quantity of its unit."""
    quantity, name, factor, given = "", old.attribute, si_factor(old.unit) or 1.0, old.si or 0.0
    if old.unit in units.UNITS:
        quantity = units.UNITS[old.unit][0]
        number = units.rate(value, name) if quantity == "rate" else units.parse(value, quantity, name)
    else:
        bare = value.removesuffix(old.unit).strip() if isinstance(value, str) else ""
        number = float(bare) * factor if bare.replace(".", "", 1).isdigit() else units.parse(value, "count", name)
    zero, most = number == 0 and quantity in _MAY_BE_ZERO, 1.0 if old.unit == "fraction" else given * 1e4
    if not (zero or given / 1e4 <= number <= most):
        msg = f'{name} must be near the {given:g} (SI) of the case, got {value!r}; write it as "{old.quoted}"'
        raise ValueError(msg)
    if not quantity and factor == 1 and isinstance(_number(old), int) and not number.is_integer():
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    note = f"{old.quoted} in the case"
    return Spec(old.id, old.name, name, number / factor, old.unit, source=_CHANGED, note=note)
