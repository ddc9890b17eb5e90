"""`doctor`: read what tools printed about a run, hold it against the model, and name suspects in order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fabriclab import systems
from fabriclab.diagnosis.case import read_case
from fabriclab.diagnosis.cluster import system_of
from fabriclab.diagnosis.comparison import compare
from fabriclab.diagnosis.findings import Findings
from fabriclab.diagnosis.page import as_card, as_file, as_page
from fabriclab.diagnosis.ranking import rank
from fabriclab.systems import System

__all__ = ["Diagnosis", "doctor"]


class Diagnosis(Findings):
    """What files say about a run, as a page. `doctor` makes one; see `Findings` for what it holds."""

    def __str__(self) -> str:
        """Return the page as text."""
        return as_page(self)

    def _repr_html_(self) -> str:
        return as_card(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page as an HTML file, which loads nothing from elsewhere, and return its path."""
        target = Path(path)
        target.write_text(as_file(self), encoding="utf-8")
        return target


def doctor(
    *files: str | os.PathLike[str], system: System | str | None = None, **texts: Any
) -> Diagnosis:
    """Read what tools printed about a run, and name what may be wrong, the likeliest first.

    Nothing is sent anywhere, and no GPU is needed. What the files do not show is not claimed: where figures are within
    the band of the model, a run is called healthy.

    Parameters
    ----------
    *files : path or str
        Files, or texts with line ends: output of nccl-tests or rccl-tests, a log with ``NCCL_DEBUG=INFO``,
        ``nvidia-smi topo -m``, ``ibv_devinfo``, ``rdma link``, ``ibdev2netdev``, ``show_gids``, ``ip addr``,
        ``lspci -vv``, ``lsmod``, ``df``, perftest, a list of pairs, variables, messages of PyTorch's watchdog. A table
        whose file is called baseline, reference or healthy is what the run is held against.
    system : System or str, optional
        The cluster, for the model; found in the files unless given.
    **texts
        Further files or texts, by the name to quote them by.

    Returns
    -------
    Diagnosis
        Suspects, and measured against expected. ``print`` shows it as a page.

    Raises
    ------
    ValueError
        If no file is given.
    FileFormat
        If a file does not exist.

    Examples
    --------
    >>> log = '''node1:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
    ... node1:7:9 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab to 33030532 bytes'''
    >>> [suspect.cause_id for suspect in doctor(log).suspects]
    ['shm_too_small']
    """
    if not files and not texts:
        raise ValueError(
            'doctor needs at least one file or text, such as fabriclab.doctor("nccl.log", "bench.txt")'
        )
    case = read_case(files, **texts)
    given = _cluster(system)
    comparisons = compare(case, given)
    return Diagnosis(
        case=case,
        suspects=tuple(rank(case, comparisons)),
        comparisons=tuple(comparisons),
        system=given or system_of(case),
    )


def _cluster(given: System | str | None) -> System | None:
    """Return a cluster that was given, by name or as it is."""
    if given is None or isinstance(given, System):
        return given
    return systems.system(given)
