"""By how much groups of a layout slow each other down when they run at once on the cables of a real fabric.

`fabriclab.training.places` gives every group its share of the NICs and takes the network behind them as one that never
blocks. Here the groups of a kind run together on the fabric of the system, so that flows that are hashed to one cable
share it, and so do all flows above leaves with fewer cables up than down.

Examples
--------
>>> import numpy as np
>>> import fabriclab as fl
>>> from fabriclab.training import contention
>>> from fabriclab.workload.layouts import Layout
>>> hall = fl.system(gpu="H100", servers=128)
>>> layout = Layout(tp=8, dp=128)
>>> contention.slowdowns(layout, hall)["dp_cp"]
1.0

A restart put the servers into another order:

>>> order = np.random.default_rng(1).permutation(128)
>>> contention.slowdowns(layout, hall, servers=order)["dp_cp"] > 2
True
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.core import Ints, ReadOnly
from fabriclab.simulation import simulate
from fabriclab.systems import System
from fabriclab.training.places import NETWORK, Place, place_of
from fabriclab.workload.layouts import Layout

__all__ = ["slowdowns"]

# Kinds of groups by what they run: sums, and exchanges of every member with every other.
_SUMS = ("tp", "cp", "dp_cp", "shard", "replica")
_SUMS_OF_EXPERTS = ("edp", "expert_shard", "expert_replica")
_EXCHANGES = ("ep",)
_SIZE = 1e9  # [B]; so large that the delays of cables and switches do not count beside it


def slowdowns(
    layout: Layout,
    system: System,
    *,
    method: str = "ecmp",
    seed: int = 0,
    servers: ArrayLike | None = None,
) -> Mapping[str, float]:
    """Return by what factor the groups of each kind are slower when all of them run at once.

    All groups of one kind start together; kinds do not meet. Groups with one member in a server run a ring, those with
    several a reduction in two levels, and experts exchange tokens with every other member. The yardstick is the same
    algorithm on one group alone, with its packets sprayed over all cables.

    Parameters
    ----------
    layout : Layout
        How the job is divided.
    system : System
        The cluster; its fabric carries the groups.
    method, seed : str, int
        As in `fabriclab.routing.route`.
    servers : array_like, shape (servers,), optional
        Server of the first GPUs of the job, of the next ones, and so on, each as many as a server has; in order
        unless given.

    Returns
    -------
    mapping of str to float
        Factor by kind of group, as `Layout.groups` names them; kinds inside one scale-up domain are left out. >= 1

    Raises
    ------
    ValueError
        If layout and system differ in the number of ranks, or the servers are no permutation.
    """
    if layout.ranks != system.ranks:
        raise ValueError(
            f"layout has {layout.ranks:,} ranks and the system {system.ranks:,} GPUs; both must be equal"
        )
    gpu = _gpus(system, servers)
    found: dict[str, float] = {}
    known: dict[bytes, float] = {}
    kinds = (*_SUMS, *_SUMS_OF_EXPERTS, *_EXCHANGES) if layout.ep > 1 else _SUMS
    for kind in kinds:
        members = layout.groups(kind)
        place = place_of(layout, kind, system.joined, gpu)
        if members.shape[1] == 1 or place.tier != NETWORK:
            continue
        exchange = kind in _EXCHANGES
        key = members.tobytes() + bytes([exchange])
        if key not in known:
            known[key] = _slowdown(system, gpu[members], place, exchange, method, seed)
        found[kind] = known[key]
    return ReadOnly(found)


def _gpus(system: System, servers: ArrayLike | None) -> Ints:
    """Return the GPU of each rank, (ranks,)."""
    number = np.arange(system.ranks).reshape(system.servers, system.gpus)
    if servers is None:
        return number.ravel()
    order = np.asarray(servers)
    if order.shape != (system.servers,) or not np.array_equal(
        np.sort(order), np.arange(system.servers)
    ):
        raise ValueError(
            f"servers must hold each of 0..{system.servers - 1} once, got an array of shape {order.shape}; "
            f"numpy.random.default_rng(1).permutation({system.servers}) makes such an order"
        )
    placed: Ints = number[order].ravel()
    return placed


def _slowdown(
    system: System, placement: Ints, place: Place, exchange: bool, method: str, seed: int
) -> float:
    """Return the time of all groups at once over that of the first alone."""
    together = _time(system, placement, place, exchange, method, seed)
    alone = _time(system, placement[:1], place, exchange, "spray", seed)
    return max(1.0, together / alone)


def _time(
    system: System, placement: Ints, place: Place, exchange: bool, method: str, seed: int
) -> float:
    """Return the time of groups that run at once. [s]."""
    collective = "all_to_all" if exchange else "all_reduce"
    algorithm = "direct" if exchange else "ring"
    options = None
    if not exchange and place.inside > 1 and placement.shape[1] % place.inside == 0:
        algorithm = "hierarchical"
        options = {"per_server": place.inside}
    run = simulate(
        collective,
        algorithm,
        system.fabric,
        _SIZE,
        placement=placement,
        method=method,
        seed=seed,
        options=options,
    )
    return float(run.time)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
