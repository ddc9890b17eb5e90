"""Collectives: built as Schedules, run on real buffers, timed by closed forms, held against bounds.

Every algorithm is a file that registers itself under ``"<collective>.<algorithm>"``.
"""

from collections.abc import Callable
from typing import Any

from fabriclab import registry, units
from fabriclab.collectives._lower_bounds import Bound, bounds, loggp
from fabriclab.collectives._running import execute, expected, trace
from fabriclab.collectives.algorithm import ClosedForm
from fabriclab.collectives.all_to_all import (
    choose_experts,
    expert_crossover,
    expert_flows,
    expert_tables,
    expert_time,
)
from fabriclab.collectives.msccl import msccl_xml
from fabriclab.collectives.ring import (
    channel_rings,
    leaf_of,
    rail_groups,
    shuffled,
    spine_crossings,
)
from fabriclab.core import Schedule

__all__ = [
    "Bound",
    "algorithms",
    "bounds",
    "build",
    "channel_rings",
    "choose_experts",
    "closed_form",
    "execute",
    "expected",
    "expert_crossover",
    "expert_flows",
    "expert_tables",
    "expert_time",
    "leaf_of",
    "loggp",
    "msccl_xml",
    "rail_groups",
    "shuffled",
    "spine_crossings",
    "trace",
]


def algorithms(collective: str) -> tuple[str, ...]:
    """Return the sorted algorithms of one collective.

    Examples
    --------
    >>> algorithms("reduce_scatter")
    ('binomial_tree', 'bruck', 'halving_doubling', 'one_root', 'pat', 'ring')
    """
    known = [name.split(".", 1) for name in registry.names("collective")]
    units.choice(collective, "collective", dict.fromkeys(what for what, _ in known))
    return tuple(algorithm for what, algorithm in known if what == collective)


def _name(collective: str, algorithm: str) -> str:
    return f"{collective}.{units.choice(algorithm, f'algorithm of {collective}', algorithms(collective))}"


def build(
    collective: str,
    algorithm: str,
    n_ranks: int,
    *,
    root: int = 0,
    segments: int = 1,
    pipelined: bool = False,
    **options: Any,
) -> Schedule:
    """Return the Schedule of a collective, without a network and without a size.

    Parameters
    ----------
    collective, algorithm : str
        Such as ``"all_reduce"`` and ``"ring"``; `algorithms` lists them.
    n_ranks : int
        Ranks that take part; one rank needs no step. >= 1
    root : int
        The rank with the data (broadcast), or through which they pass (one root, trees).
    segments, pipelined : int, bool
        Parts of each block, and whether they overlap; see `Schedule.segmented`.
    **options
        What the algorithm takes besides, such as ``per_server=8``; see its function.

    Raises
    ------
    ValueError
        If a name is unknown or a number is out of its range.
    TypeError
        If the algorithm has no such option.

    Examples
    --------
    >>> build("all_reduce", "ring", 8)
    <Schedule all_reduce ring: 8 ranks, 14 steps>
    """
    schedule: Schedule = registry.get("collective", _name(collective, algorithm))(
        n_ranks, root, **options
    )
    return schedule.segmented(segments, pipelined=pipelined)


def closed_form(collective: str, algorithm: str, **options: Any) -> ClosedForm:
    """Return the textbook time of an algorithm on a crossbar: ``time(n_bytes, n_ranks, alpha, beta, gamma=0.0)``.

    Transfers that meet in a port share it, as in the engine ``flow``: what the root of one_root moves in a step passes
    its port one after another.

    Parameters
    ----------
    collective, algorithm : str
        As in `build`.
    **options
        As in `build`.

    Examples
    --------
    >>> ring, naive = closed_form("all_reduce", "ring"), closed_form("all_reduce", "one_root")
    >>> float(naive(1e9, 128, "0 s", "400 Gb/s") / ring(1e9, 128, "0 s", "400 Gb/s"))
    128.0
    """
    about = registry.info("collective", _name(collective, algorithm))
    form: Callable[..., ClosedForm] | None = about.get("closed_form")
    if form is None:
        raise ValueError(
            f"{collective} {algorithm} registers no closed form; lower it and run an engine"
        )
    return form(**options)
