"""How much network a workload needs: bytes through the NIC of a GPU, the time that hides them, and the rate to buy.

The rule "InfiniBand for training, Ethernet for inference" names workloads. What decides is a number: the bytes that
each GPU sends to other servers, over the time in which it has something else to do. `workloads` computes it for six.

Examples
--------
>>> from fabriclab import catalog, economics
>>> for row in economics.assign(economics.workloads(catalog.case())):
...     print(f"{row.need / 1e9:5.2f} GB/s  {row.tier:10}  {row.workload.name}")
47.88 GB/s  400 Gb/s    pre-training, 128 servers
42.22 GB/s  400 Gb/s    fine-tuning of all weights, 8 servers
 0.12 GB/s  100 Gb/s    fine-tuning of adapters, 8 servers
 0.00 GB/s  none        serving on one server
 1.15 GB/s  100 Gb/s    serving, prompts and answers on different servers
24.70 GB/s  200 Gb/s    serving, experts spread over 9 servers
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, units
from fabriclab.catalog import Case
from fabriclab.catalog.tables import data_rows
from fabriclab.core import Floats
from fabriclab.economics.breakeven import crossing
from fabriclab.workload import models
from fabriclab.workload.models import Model

__all__ = [
    "Assignment",
    "RightSize",
    "Workload",
    "assign",
    "network_waits",
    "nic_rates",
    "smallest_rate",
    "workloads",
]

NONE = "none"
SCALE_UP = "scale-up"
_SERVED = "IN0509"  # the published row of experts on 72 H100
_TUNING_SERVERS = 8  # illustrative: with 4, the state of the optimizer does not fit into 80 GB
_ADAPTER_RANK = 16  # illustrative: a rank that is often taken
_FP8 = 1.0  # bytes of a number on its way to an expert
_BF16 = 2.0  # bytes of a number on its way back


class Workload(NamedTuple):
    """What a GPU sends through its NIC, and the time that may hide it.

    Parameters
    ----------
    name : str
        What is done.
    size : float
        Bytes that a GPU sends to other servers in one unit of work: a step, or a token. [B]
    time : float
        How long the GPU has something else to do in that unit. [s]
    why : str
        Formula of both in words, and what it leaves out.
    """

    name: str
    size: float
    time: float
    why: str

    @property
    def need(self) -> float:
        """Rate of a NIC that sends the bytes in that time. [B/s]."""
        return self.size / self.time


class Assignment(NamedTuple):
    """A workload and the smallest NIC that carries it.

    Parameters
    ----------
    workload : Workload
        The workload.
    need : float
        Rate that it needs of each GPU's NIC. [B/s]
    rate : float
        The smallest line rate that gives it; 0 if it needs none, and inf if no NIC is fast enough. [B/s]
    tier : str
        That rate in Gb/s, ``"none"``, or ``"scale-up"`` where no NIC is fast enough.
    """

    workload: Workload
    need: float
    rate: float
    tier: str


def nic_rates() -> Floats:
    """Return the line rates of the NICs in the catalog, each once, slowest first, (R,). [B/s]."""
    found = {
        spec.si
        for spec in catalog.nics.specs
        if spec.attribute == "throughput" and spec.unit == "Gb/s"
    }
    return np.array(sorted(rate for rate in found if rate))


def workloads(job: Case | None = None) -> tuple[Workload, ...]:
    """Return six workloads with what they send, from the shapes of models and published rates.

    Leaves out storage, checkpoints and input data, start-up latencies (for which a faster NIC does nothing), and that
    traffic comes in bursts.

    Parameters
    ----------
    job : Case, optional
        The running case, or one with other rows.
    """
    known = job or catalog.case()
    model = models.of_case(known)
    return (
        Workload(
            f"pre-training, {int(known.servers)} servers",
            known.dp_bytes,
            known.window,
            "gradients of a GPU, over the last backward pass; one tensor-parallel group in a server",
        ),
        _tuning(known, "fine-tuning of all weights", known.gradient_bytes * known.parameters),
        _tuning(
            known,
            "fine-tuning of adapters",
            known.gradient_bytes * adapters(model, _ADAPTER_RANK),
        ),
        Workload(
            "serving on one server", 0.0, known.window, "all sums of a layer stay in the server"
        ),
        _two_pools(known, model),
        _experts(known),
    )


def _tuning(job: Case, name: str, gradients: float) -> Workload:
    """Return a fine-tuning in which all tensor-parallel groups sum ``gradients`` of a replica. [B]."""
    n = _TUNING_SERVERS
    sent = 2 * (n - 1) / n * gradients / job.tp
    why = "as pre-training; the window is that of all weights, also for adapters, whose backward pass is shorter"
    return Workload(f"{name}, {n} servers", sent, job.window, why)


def adapters(model: Model, rank: int) -> float:
    """Return the parameters of low-rank adapters at all matrices of all layers: rank x (inputs + outputs) of each.

    Dense models with gated feed-forward layers, such as the running case.
    """
    hidden = model.hidden
    queries = model.heads * model.head_size
    keys = model.kv_heads * model.head_size
    attention = 2 * (hidden + queries) + 2 * (hidden + keys)  # queries and output; keys and values
    feed_forward = 3 * (hidden + model.feed_forward)
    return float(rank * model.layers * (attention + feed_forward))


def _two_pools(job: Case, model: Model) -> Workload:
    """Return serving in which some servers read prompts and send their keys and values to others that answer."""
    flops = 2.0 * model.parameters  # of a token that is read; attention left out
    time = flops / job.sustained_bf16
    why = "keys and values of a token, over the time to read it at the case's sustained rate"
    name = "serving, prompts and answers on different servers"
    return Workload(name, model.cache_bytes(1), time, why)


def _experts(job: Case) -> Workload:
    """Return serving of a model whose experts are spread over servers, at a published rate."""
    (row,) = (row for row in data_rows("inference") if row["row_id"] == _SERVED)
    model = models.preset(row["model"])
    gpus = int(row["gpus"])
    tokens = float(row["output_tokens_per_s"]) / gpus
    inside = job.gpus_per_server / gpus  # experts on GPUs of the token's own server
    copies = model.experts_per_token * (1 - inside)
    layers = int(model.moe_layers.sum())
    sent = layers * copies * model.hidden * (_FP8 + _BF16)
    servers = gpus // int(job.gpus_per_server)
    why = "a token to its experts in fp8 and back in bf16, at the published tokens per second of a GPU"
    return Workload(f"serving, experts spread over {servers} servers", sent, 1 / tokens, why)


def assign(
    these: Iterable[Workload],
    *,
    rates: ArrayLike | None = None,
    efficiency: float = 1.0,
) -> tuple[Assignment, ...]:
    """Return the smallest NIC for each workload.

    Parameters
    ----------
    these : iterable of Workload
        The workloads.
    rates : array_like, shape (R,), optional
        Line rates to choose from; by default those of the catalog. [B/s]
    efficiency : float
        Part of a line rate that a collective reaches. 0..1
    """
    if not 0 < efficiency <= 1:
        raise ValueError(
            f"efficiency must be within 0..1, 0 excluded, got {efficiency!r}; 1 is line rate"
        )
    sold = _rates(rates)
    found = []
    for workload in these:
        need = workload.need
        enough = sold[efficiency * sold >= need]
        if need == 0:
            found.append(Assignment(workload, need, 0.0, NONE))
        elif enough.size:
            rate = float(enough[0])
            found.append(Assignment(workload, need, rate, f"{rate * 8e-9:g} Gb/s"))
        else:
            found.append(Assignment(workload, need, np.inf, SCALE_UP))
    return tuple(found)


class _Step(Protocol):
    """What `network_waits` reads of a training step: exposed communication by part, and what carries each part."""

    @property
    def exposed(self) -> Mapping[str, float]: ...

    @property
    def tiers(self) -> Mapping[str, str]: ...


def network_waits(step: _Step) -> float:
    """Return how long a training step waits for the network: exposed communication that NICs carry. [s].

    Parameters
    ----------
    step : fabriclab.training.Step
        A training step.
    """
    return float(
        sum(time for name, time in step.exposed.items() if step.tiers.get(name) == "network")
    )


class RightSize(NamedTuple):
    """The smallest NIC with which a step waits no longer than a target.

    Parameters
    ----------
    target : float
        Longest exposed time. [s]
    rates, exposed : ndarray of float, shape (R,)
        Line rates, and the exposed time with each. [B/s], [s]
    rate : float
        The smallest of them that keeps the target; inf if none does. [B/s]
    turns_at : float
        Rate at which the target is met exactly; 0 if any rate between the tenth of the slowest and ten times the
        fastest meets it, or none does. [B/s]
    """

    target: float
    rates: Floats
    exposed: Floats
    rate: float
    turns_at: float

    def __repr__(self) -> str:
        """Show the rate and what it leaves exposed."""
        if not np.isfinite(self.rate):
            return f"<RightSize: no NIC leaves {units.format_time(self.target)} or less>"
        left = float(self.exposed[self.rates == self.rate][0])
        return (
            f"<RightSize: {self.rate * 8e-9:g} Gb/s leaves {units.format_time(left)} of at most "
            f"{units.format_time(self.target)}; turns at {self.turns_at * 8e-9:.4g} Gb/s>"
        )


def smallest_rate(
    exposed: Callable[[float], float],
    target: units.Quantity,
    *,
    rates: ArrayLike | None = None,
) -> RightSize:
    """Return the smallest NIC rate with which a training step waits for its network no longer than a target.

    Parameters
    ----------
    exposed : callable
        Exposed time for a rate of the NICs in B/s. [s]
    target : float or str
        Longest exposed time. [s]
    rates : array_like, shape (R,), optional
        Line rates to choose from; by default those of the catalog. [B/s]

    Examples
    --------
    >>> from fabriclab import catalog
    >>> smallest_rate(lambda rate: catalog.case(nic_rate=rate).t_dp_exposed, "50 ms")
    <RightSize: 400 Gb/s leaves 8.75 ms of at most 50.0 ms; turns at 362.8 Gb/s>
    """
    longest = units.time(target, "target")
    sold = _rates(rates)
    waits = np.array([float(exposed(float(rate))) for rate in sold])
    enough = sold[waits <= longest]
    rate = float(enough[0]) if enough.size else np.inf

    def too_long(rate: float) -> float:
        """Return by how much the exposed time at a rate is above the target. [s]."""
        return float(exposed(rate)) - longest

    turn = crossing(too_long, float(sold[0]) / 10, float(sold[-1]) * 10)
    return RightSize(longest, sold, waits, rate, turn)


def _rates(rates: ArrayLike | None) -> Floats:
    """Return line rates as a sorted column, checked."""
    if rates is None:
        return nic_rates()
    sold = np.sort(np.atleast_1d(np.asarray(rates, dtype=float)))
    if sold.ndim != 1 or not sold.size or not np.all((sold >= 1e6) & np.isfinite(sold)):
        raise ValueError(
            f"rates must be a list of rates in B/s, each at least 1e6, got {rates!r:.80}; 400 Gb/s are 50e9"
        )
    return sold
