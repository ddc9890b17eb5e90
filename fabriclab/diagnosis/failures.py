"""What a failed part of a cluster costs: the time of a collective and the step of a job, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fabriclab import catalog, operations, units
from fabriclab.catalog.running_case import Case
from fabriclab.core import Fabric, Ints, ReadOnly, as_html
from fabriclab.errors import NoPath
from fabriclab.simulation import Simulation, simulate
from fabriclab.simulation.library import by_domain
from fabriclab.systems import System
from fabriclab.tuner.system import read

_BY_CHANCE = 0.005  # part of a time that is no rounding; illustrative


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """A collective and a job before and after the loss of some parts; `what_if` makes one.

    Parameters
    ----------
    lost : tuple of str
        Names of the lost parts.
    before, after : Simulation, Simulation or None
        The collective as the library would run it; no ``after`` if it cannot run.
    why : str
        Why it cannot run, if so.
    healthy, hurt : Fabric
        The network before and after.
    cut_off, alone : (C,), (A,) int64
        Ranks that nothing connects any more, and ranks that only neighbours of their server connect.
    nics_left : float
        NICs with a path that the server or rack with the fewest has left, as a fraction.
    job_before, job_after : Case
        The job before, and with NICs that are slower by as much as the collective is.
    """

    lost: tuple[str, ...]
    before: Simulation
    after: Simulation | None
    why: str
    healthy: Fabric
    hurt: Fabric
    cut_off: Ints
    alone: Ints
    nics_left: float
    job_before: Case
    job_after: Case

    @cached_property
    def report(self) -> operations.FaultReport:
        """Bandwidth that is left for uniform traffic, which takes long on large fabrics; see `operations.report`."""
        return operations.report(self.healthy, self.hurt)

    @property
    def slower(self) -> float:
        """How many times as long the collective takes; infinite if it cannot run."""
        if self.after is None:
            return float("inf")
        return self.after.time / self.before.time

    def rows(self) -> list[list[str]]:
        """Return the comparison as a table with its heading."""
        collective = self.before.schedule.collective
        size = units.format_size(float(self.before.result.size[0]))
        table = [["", "before", f"without {', '.join(self.lost)}"]]
        after = "-" if self.after is None else units.format_time(self.after.time)
        table.append([f"{collective} of {size}", units.format_time(self.before.time), after])
        if self.after is None:
            table.append(["why", "", self.why])
        else:
            steps = [units.format_time(job.t_step) for job in (self.job_before, self.job_after)]
            table.append([f"step of a job on {self.job_before.gpus:,} GPUs", *steps])
        table.append(
            [
                "NICs of a scale-up domain that work",
                units.format_share(1.0),
                units.format_share(self.nics_left),
            ]
        )
        table.append(["GPUs without a path of their own", "0", f"{self.alone.size:,}"])
        table.append(["GPUs cut off", "0", f"{self.cut_off.size:,}"])
        return table

    def __repr__(self) -> str:
        """Show what the loss costs in one line."""
        title = f"without {', '.join(self.lost)}"
        if self.after is None:
            return f"<WhatIf {title}: the job stops, since {self.why}>"
        collective = self.before.schedule.collective
        before = units.format_time(self.before.time)
        after = units.format_time(self.after.time)
        step = self.job_after.t_step / self.job_before.t_step - 1
        change = round(self.slower - 1, 6) + 0.0  # no "-0 %"
        words = (
            f"<WhatIf {title}: {collective} {before} -> {after} ({units.format_share(change, signed=True)}), step "
            "of a job on "
            f"{self.job_before.gpus:,} GPUs {units.format_share(step, 1, signed=True)}; {self.alone.size:,} GPUs "
            "send over NICs of their "
            "neighbours"
        )
        if self.slower < 1 - _BY_CHANCE:
            words += "; faster by chance, since the loss changes which flows ECMP puts on one path"
        return words + ">"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def what_if(
    system: System,
    lost: str | Sequence[str],
    collective: str = "all_reduce",
    size: units.Quantity = "1 GiB",
    *,
    job: Case | None = None,
) -> WhatIf:
    """Compare a cluster with and without some of its parts: a collective as the library would run it, and a job.

    A GPU whose NIC or leaf is lost hands its data to its neighbours over the links inside the server, and their NICs
    carry it in equal parts (routing "pxn"). The traffic of the job between servers is slowed by as much as the
    collective. Leaves out the time until the loss is noticed, and the restart from a checkpoint.

    The same part can cost more in one server than in another: in NCCL's trees the NICs of a root or leaf carry half of
    what others do. ECMP hashes flows to paths, and a loss changes the hash. Where many flows share few spines, a loss
    can therefore even make a run faster by chance.

    Parameters
    ----------
    system : System
        The cluster, as `fabriclab.system` makes it.
    lost : str or sequence of str
        Parts by the names that are printed, such as ``"leaf 3.0"``, or by kind and number, such as ``"leaf 3"`` or
        ``"cable 17"``, counted from 0 over the parts of this kind outside the servers.
    collective : str
        The collective.
    size : float or str
        Size of the whole array, as nccl-tests counts it. [B], > 0
    job : Case, optional
        The job, on GPUs of its own number; the running case with 1,024 GPUs unless given.

    Returns
    -------
    WhatIf
        Both runs, both jobs, and what is left of the fabric.

    Raises
    ------
    TypeError
        If ``system`` is no system.
    ValueError
        If no part has this name.
    """
    if not isinstance(system, System):
        raise TypeError(
            f"system must be a System, got {system!r:.80}; make one with fabriclab.system(gpu=..., servers=...)"
        )
    names = [lost] if isinstance(lost, str) or not np.iterable(lost) else list(lost)
    if not names:
        raise ValueError('lost must name at least one part, such as "leaf 3", got none')
    healthy = system.fabric
    hurt = healthy
    for name in names:
        hurt = _without(hurt, name)

    # In a rack of several servers all GPUs hand over to each other.
    facts = read({**system, "collective": collective})
    parted = operations.separated(by_domain(hurt, facts))
    cut_off = np.flatnonzero(parted.cut_off)
    alone = np.flatnonzero(parted.alone)
    before = simulate(collective, "nccl", system, size)
    after = None
    why = ""
    if cut_off.size:
        why = f"{cut_off.size:,} GPUs are cut off"
        whole_servers = np.unique(hurt.server[cut_off]).size
        left = system.servers - whole_servers
        if left > 0:
            why += f"; on the other {left:,} servers it can start again: system.replace(servers={left})"
    else:
        # only the network changes: the library chooses for the same servers as before
        others = replace(system, network=hurt, options=ReadOnly({}))
        try:
            after = simulate(collective, "nccl", others, size)
        except NoPath as lost_path:
            why = f"there is {lost_path}"

    nics_left = _nics_left(by_domain(hurt, facts), alone)
    job_before = catalog.case() if job is None else job
    kept = 0.0
    if after is not None:
        kept = min(1.0, _data_time(before) / _data_time(after))
    job_after = job_before.replace(nic_rate=job_before.nic_rate * max(kept, _ALMOST_NONE))
    return WhatIf(
        lost=tuple(names),
        before=before,
        after=after,
        why=why,
        healthy=healthy,
        hurt=hurt,
        cut_off=cut_off,
        alone=alone,
        nics_left=nics_left,
        job_before=job_before,
        job_after=job_after,
    )


_ALMOST_NONE = 1e-3  # of its rate, in place of a rate of 0, which a job cannot have; illustrative


def _data_time(run: Simulation) -> float:
    """Return the time of a run without its start-up [s], so that a small array slows a job as a large one does."""
    return run.time - float(run.flows.lag[0] * run.flows.repeat.sum())


def _nics_left(hurt: Fabric, alone: Ints) -> float:
    """Return the fraction of its GPUs that still have a path of their own, in the scale-up domain with the fewest."""
    server = hurt.server.astype(np.int64)
    gpus = np.bincount(server)
    lonely = np.bincount(server[alone], minlength=gpus.size)
    present = gpus > 0
    return float(np.min(1 - lonely[present] / gpus[present]))


def _without(fabric: Fabric, name: Any) -> Fabric:
    """Return the fabric without the part of a name."""
    if not isinstance(name, str):
        raise TypeError(f'lost must be names such as "leaf 3", got {name!r:.60}')
    kind, _, number = name.strip().partition(" ")
    groups = ["cable", *fabric.coord_names]  # of nodes, such as a server or a rail
    if kind not in groups or kind in fabric.kinds or not number.isdecimal():
        return fabric.without(nodes=[fabric.node(name)])
    known = list(operations.parts(fabric, kind))
    if int(number) >= len(known):
        raise ValueError(f"lost: this fabric has {kind} 0 to {len(known) - 1}, got {name!r}")
    return operations.fail(fabric, kind, [known[int(number)]])
