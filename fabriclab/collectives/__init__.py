"""Build collectives as schedules, run them on real buffers, time them by closed forms and compare them with bounds.

Every algorithm is a function that registers itself under ``"<collective>.<algorithm>"``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from fabriclab import registry, units
from fabriclab.collectives._lower_bounds import Bound, bounds, loggp
from fabriclab.collectives._running import execute, expected, trace
from fabriclab.collectives.algorithm import ClosedForm
from fabriclab.collectives.all_to_all import (
    choose_experts,
    expected_tokens,
    expert_crossover,
    expert_flows,
    expert_tables,
    expert_time,
    in_steps,
)
from fabriclab.collectives.msccl import msccl_xml
from fabriclab.collectives.ring import (
    channel_rings,
    leaf_of,
    levels,
    rail_groups,
    ring_pairs,
    shuffled,
    spine_crossings,
)
from fabriclab.core import Schedule
from fabriclab.texts import table, text

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
    "expected_tokens",
    "expert_crossover",
    "expert_flows",
    "expert_tables",
    "expert_time",
    "find",
    "in_steps",
    "leaf_of",
    "levels",
    "loggp",
    "msccl_xml",
    "rail_groups",
    "ring_pairs",
    "shuffled",
    "spine_crossings",
    "title",
    "trace",
]


def algorithms(collective: str) -> tuple[str, ...]:
    """Return the names of all algorithms for a collective, sorted.

    Examples
    --------
    >>> algorithms("reduce_scatter")
    ('binomial_tree', 'bruck', 'halving_doubling', 'one_root', 'pat', 'ring')
    """
    known = [name.split(".", 1) for name in registry.names("collective")]
    collective = units.choice(collective, "collective", dict.fromkeys(what for what, _ in known))
    return tuple(algorithm for what, algorithm in known if what == collective)


class CollectiveName(NamedTuple):
    """Registered names of a collective and its algorithm, however they were spelled."""

    collective: str
    algorithm: str

    @property
    def registered(self) -> str:
        """Name in the registry."""
        return f"{self.collective}.{self.algorithm}"


def find(collective: str, algorithm: str) -> CollectiveName:
    """Return the registered names of a collective and its algorithm; capitals and dashes make no difference.

    Examples
    --------
    >>> find("All-Reduce", "halving-doubling").registered
    'all_reduce.halving_doubling'
    """
    known = [name.split(".", 1)[0] for name in registry.names("collective")]
    first = units.choice(collective, "collective", dict.fromkeys(known))
    second = units.choice(algorithm, f"algorithm of {first}", algorithms(first))
    return CollectiveName(first, second)


def title(algorithm: str) -> str:
    """Return the name of an algorithm as papers write it, for tables and pictures.

    Parameters
    ----------
    algorithm : str
        Registered name, such as one of `algorithms`. A name without a title of its own gets blanks for its underscores.

    Examples
    --------
    >>> [title(name) for name in ("halving_doubling", "nvls_two_shot", "ring")]
    ['halving-doubling', 'NVLS, two shots', 'ring']
    """
    name = str(algorithm)
    key = f"algorithm.{name}"
    return text(key) if key in table() else name.replace("_", " ")


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
    """Build the schedule of a collective: who sends which block to whom in each step.

    A schedule knows neither a network nor a size; `fabriclab.simulate` adds both.

    Parameters
    ----------
    collective, algorithm : str
        Names such as ``"all_reduce"`` and ``"ring"``; `algorithms` lists the algorithms of a collective.
    n_ranks : int
        Number of ranks that take part; one rank needs no step. >= 1
    root : int
        Rank that has the data (broadcast), or through which all data passes (one root, trees). 0..n_ranks - 1
    segments, pipelined : int, bool
        Number of parts of each block, and whether these overlap; see `Schedule.segmented`.
    **options
        Further arguments of the algorithm, such as ``per_server=8``; its function describes them.

    Raises
    ------
    ValueError
        If a name is unknown or a number is out of range.
    TypeError
        If the algorithm has no such option.

    Examples
    --------
    >>> build("all_reduce", "ring", 8)
    <Schedule all_reduce ring: 8 ranks, 14 steps>
    """
    schedule: Schedule = registry.get("collective", find(collective, algorithm).registered)(
        n_ranks, root, **options
    )
    return schedule.segmented(segments, pipelined=pipelined)


def closed_form(collective: str, algorithm: str, **options: Any) -> ClosedForm:
    """Return the textbook formula for the time of an algorithm, as a function to call with sizes and rates.

    Call it as ``time(n_bytes, n_ranks, alpha, beta, gamma=0.0)``. The network is a crossbar. Transfers that meet in a
    port share it, as in the engine ``flow``: all that the root of ``one_root`` moves in a step has to pass its one
    port.

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
    about = registry.info("collective", find(collective, algorithm).registered)
    form: Callable[..., ClosedForm] | None = about.get("closed_form")
    if form is None:
        raise ValueError(
            f"{collective} {algorithm} registers no closed form; lower it and run an engine"
        )
    return form(**options)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
