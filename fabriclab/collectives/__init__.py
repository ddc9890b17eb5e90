"""Collectives: built as Schedules, run on real buffers, timed by closed forms, held against bounds.

Every algorithm is a file that registers itself under ``"<collective>.<algorithm>"``.
"""

from fabriclab.collectives._building import algorithms, build, closed_form
from fabriclab.collectives._lower_bounds import Bound, binding, bounds
from fabriclab.collectives._running import block_slices, execute, expected, trace
from fabriclab.collectives.experts import choose_experts, expert_crossover, expert_flows, expert_tables, expert_time
from fabriclab.collectives.loggp import loggp
from fabriclab.collectives.msccl import msccl_xml
from fabriclab.collectives.placement import channel_rings, leaf_of, rail_groups, spine_crossings

__all__ = [
    "Bound", "algorithms", "binding", "block_slices", "bounds", "build", "channel_rings", "choose_experts",
    "closed_form", "execute", "expected", "expert_crossover", "expert_flows", "expert_tables", "expert_time",
    "leaf_of", "loggp", "msccl_xml", "rail_groups", "spine_crossings", "trace",
]  # fmt: skip
