r"""A cluster as it is: what a run's own logs say is wrong with it, and what a failed part would cost.

`doctor` reads what tools printed and names suspects in order; `what_if` computes the loss of a part.

Examples
--------
>>> import fabriclab as fl
>>> text = "node1:7:7 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"
>>> fl.doctor(text).suspects[0].cause_id
'p2p_disabled'
>>> fl.what_if(fl.system(gpu="H100", servers=4), "leaf 3").after.time > 0
True
"""

from fabriclab.diagnosis.cluster import system_from_logs, system_of
from fabriclab.diagnosis.comparison import Comparison
from fabriclab.diagnosis.digest import Digest, as_table, digest
from fabriclab.diagnosis.doctor import Diagnosis, doctor
from fabriclab.diagnosis.failures import WhatIf, what_if
from fabriclab.diagnosis.practice_cases import PracticeCase, practice
from fabriclab.diagnosis.ranking import Suspect

__all__ = [
    "Comparison",
    "Diagnosis",
    "Digest",
    "PracticeCase",
    "Suspect",
    "WhatIf",
    "as_table",
    "digest",
    "doctor",
    "practice",
    "system_from_logs",
    "system_of",
    "what_if",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
