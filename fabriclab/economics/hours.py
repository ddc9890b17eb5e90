"""Cost of a GPU-training-hour and of useful work: servers, fabric, facility and electricity, with watts and ranges.

The price of a port says little: what a job pays is an hour of a GPU that works, and what it gets is the work that is
useful. `gpu_hour` computes both from prices; `price_ranges` has what sources print for each of them.

Examples
--------
>>> from fabriclab import catalog, economics
>>> hour = economics.gpu_hour(catalog.case())
>>> round(hour.owned, 2), round(hour.training, 2)
(1.4, 1.54)
>>> round(float(sum(hour.watts.values())))
1345
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, units
from fabriclab.catalog import Case
from fabriclab.catalog.tables import near
from fabriclab.core import Floats, ReadOnly, as_html, as_text
from fabriclab.economics.prices import HOUR, price_ranges
from fabriclab.economics.ranges import Draws, Range, Swing, draw, one_at_a_time

__all__ = ["GpuHour", "gpu_hour", "hour_draws", "hour_swings"]

_EFLOP = 1e18

# What each input is parsed as; the others are plain numbers.
_QUANTITY = {
    "server": "price",
    "switch": "price",
    "cables": "price",
    "facility": "price",
    "lifetime": "time",
    "server_power": "power",
    "switch_power": "power",
}
# Shares that divide: 0 is refused.
_SHARES = ("used", "goodput", "mfu")
_PARTS_OF_ONE = ("resale",)  # 0 is allowed
PARTS = ("servers", "fabric", "facility", "electricity")


@dataclass(frozen=True, eq=False)
class GpuHour:
    """Cost and power of an hour of one GPU, and of the work that it does in it. All arrays have one shape, or none.

    Parameters
    ----------
    parts : mapping of str to float or ndarray
        Cost of an hour that is owned, used or not, by name in `PARTS`. [USD]
    watts : mapping of str to float or ndarray
        Power for each GPU of ``"servers"``, ``"switches"`` and ``"modules"``, without the hall. [W]
    used : float or ndarray
        Share of the hours in which a GPU works for somebody. 0..1
    goodput : float or ndarray
        Share of a job's time that is not lost to failures, restarts and checkpoints. 0..1
    flops : float or ndarray
        Useful operations each second on one GPU. [FLOP/s]
    """

    parts: Mapping[str, Any]
    watts: Mapping[str, Any]
    used: Any
    goodput: Any
    flops: Any

    @property
    def owned(self) -> Any:
        """Cost of an hour that one owns, without electricity: what the case calls the price of a GPU-hour. [USD]."""
        return self.parts["servers"] + self.parts["fabric"] + self.parts["facility"]

    @property
    def training(self) -> Any:
        """Cost of an hour of useful training: all parts, over the hours that are used and not lost. [USD].

        Electricity is counted for each hour, used or not: a GPU that waits draws less, which is left out.
        """
        return (self.owned + self.parts["electricity"]) / (self.used * self.goodput)

    @property
    def eflop(self) -> Any:
        """Cost of 1e18 useful operations. [USD]."""
        return self.training / (self.flops * HOUR / _EFLOP)

    @property
    def tflops(self) -> Any:
        """Cost of one useful TFLOP/s for an hour. [USD]."""
        return self.training / (self.flops / 1e12)

    @property
    def watts_per_tflops(self) -> Any:
        """Power of machines and fabric for each useful TFLOP/s. [W]."""
        return sum(self.watts.values()) / (self.flops / 1e12)

    @property
    def fabric_watts(self) -> Any:
        """Power of switches and modules for each GPU; also the watt-hours of a GPU-hour. [W]."""
        return self.watts["switches"] + self.watts["modules"]

    @property
    def fabric_share(self) -> Any:
        """Share of the fabric in what is owned."""
        return self.parts["fabric"] / self.owned

    def rows(self) -> list[list[str]]:
        """Return a table with its heading; of arrays the median."""
        table = [["part", "USD per GPU-hour", "W per GPU"]]
        power = {
            "servers": self.watts["servers"],
            "fabric": self.fabric_watts,
        }
        for name, cost in self.parts.items():
            watts = f"{np.median(power[name]):,.1f}" if name in power else ""
            table.append([name, f"{np.median(cost):.4f}", watts])
        table.append(
            [
                "every hour, with electricity",
                f"{np.median(self.owned + self.parts['electricity']):.4f}",
                "",
            ]
        )
        table.append(["GPU-training-hour", f"{np.median(self.training):.4f}", ""])
        return table

    def draw(self) -> str:
        """Return the table as text."""
        return as_text(self.rows())

    def __repr__(self) -> str:
        """Show the cost of an hour, of useful work, and the power."""
        return (
            f"<GpuHour: USD {np.median(self.training):.2f} for an hour of training, "
            f"USD {np.median(self.eflop):.2f} for 1e18 useful FLOP, "
            f"{np.median(self.watts_per_tflops):.2f} W for each useful TFLOP/s>"
        )

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def gpu_hour(job: Case | None = None, **inputs: ArrayLike | str) -> GpuHour:
    """Return what an hour of a GPU costs, and what its useful work costs.

    Capital is divided by all hours of the life, without interest. Only the servers can be sold afterwards (``resale``),
    and the sum for facility and operations is the same for a short life as for a long one. The price sheet has
    "facility and operations" as one sum and does not say whether electricity is in it: with ``electricity=0`` it is.
    Staff is not counted.

    Parameters
    ----------
    job : Case, optional
        The running case, or one with other rows: it has the number of servers, switches and cables.
    **inputs
        Any of the inputs, as an SI number, a string with a unit, or an array, by the names of `price_ranges`:
        ``server``, ``switch``, ``cables`` and ``facility`` (of a server) [USD], ``lifetime`` [s], ``resale`` (part of
        the servers' price that they bring after it, 0..1), ``used``, ``goodput``, ``mfu`` (shares, 0..1),
        ``server_power``, ``switch_power`` [W], ``pue`` (>= 1) and ``electricity`` [USD per kWh]. By default the middle
        of its range.

    Raises
    ------
    ValueError
        If an input is unknown or out of its range.

    Examples
    --------
    >>> hour = gpu_hour(electricity=0)
    >>> round(hour.owned, 3), round(hour.training, 3), round(catalog.case().price_gpu_hour, 3)
    (1.405, 1.405, 1.405)
    >>> round(gpu_hour(used=0.8, electricity=0).training, 2)
    1.76
    """
    job = job or catalog.case()
    ranges = price_ranges(job)
    values = {name: reach.middle for name, reach in ranges.items()}
    for name, value in inputs.items():
        if name not in values:
            raise ValueError(near(name, values, "the list of inputs of gpu_hour"))
        values[name] = _parsed(name, value)

    gpus = float(job.gpus)
    hours = values["lifetime"] / HOUR
    per_server = float(job.gpus_per_server)
    # A third tier of switches has more cables than the price of a server's cables counts.
    tiers = (1 + job.cables_spine / job.cables_host) / 2
    parts = {
        "servers": values["server"] * (1 - values["resale"]) / per_server / hours,
        "fabric": (job.switches * values["switch"] / gpus + tiers * values["cables"] / per_server)
        / hours,
        "facility": values["facility"] / per_server / hours,
    }
    watts = {
        "servers": values["server_power"] / per_server,
        "switches": job.switches * values["switch_power"] / gpus,
        "modules": float(job.optics_power) / gpus,
    }
    kilowatts = sum(watts.values()) / 1e3
    parts["electricity"] = kilowatts * values["pue"] * values["electricity"]
    flops = values["mfu"] * float(job.peak_bf16)
    return GpuHour(ReadOnly(parts), ReadOnly(watts), values["used"], values["goodput"], flops)


def _parsed(name: str, value: ArrayLike | str) -> Any:
    """Return an input as an SI number or array, checked."""
    if isinstance(value, str):
        number: Any = units.parse(value, _QUANTITY.get(name, "count"), name)
    else:
        number = np.asarray(value, dtype=float)
        number = float(number) if number.ndim == 0 else number
    least, most, bound = 0.0, np.inf, ">= 0"
    if name in _SHARES:
        least, most, bound = 1e-6, 1.0, "a share within 0..1, 0 excluded"
    elif name in _PARTS_OF_ONE:
        most, bound = 1.0, "a part within 0..1"
    elif name == "pue":
        least, bound = 1.0, ">= 1: a hall draws what its machines draw, and more"
    elif name == "lifetime":
        least, bound = HOUR, "at least an hour, in seconds"
    low = float(np.min(number))
    high = float(np.max(number))
    if not (least <= low and high <= most and np.all(np.isfinite(number))):
        raise ValueError(
            f"{name} must be {bound}, got {value!r:.80}; see economics.price_ranges()[{name!r}]"
        )
    return number


def hour_swings(job: Case | None = None, what: str = "training") -> tuple[Swing, ...]:
    """Return what each input does to the cost when it alone moves to its ends, the widest swing first.

    Parameters
    ----------
    job : Case, optional
        The running case, or one with other rows.
    what : str
        ``"training"``: a GPU-training-hour; ``"eflop"``: 1e18 useful operations. [USD]

    Examples
    --------
    >>> hour_swings()[0].name
    'lifetime'
    """
    return one_at_a_time(_of(job, what), _moving(job, what))


def hour_draws(
    job: Case | None = None,
    n: int = 10_000,
    *,
    rng: np.random.Generator,
    what: str = "training",
) -> Draws:
    """Return the cost for ``n`` draws of all inputs at once; arguments as in `hour_swings` and `ranges.draw`."""
    return draw(_of(job, what), _moving(job, what), n, rng=rng)


def _of(job: Case | None, what: str) -> Any:
    """Return the function from inputs to the cost that is asked for."""
    asked = units.choice(what, "what", ("training", "eflop"))

    def cost(**inputs: Any) -> Floats:
        """Return the cost for some inputs."""
        return np.asarray(getattr(gpu_hour(job, **inputs), asked))

    return cost


def _moving(job: Case | None, what: str) -> Mapping[str, Range]:
    """Return the ranges of the inputs that the cost depends on."""
    ranges = dict(price_ranges(job))
    if what == "training":
        del ranges["mfu"]
    return ReadOnly(ranges)
