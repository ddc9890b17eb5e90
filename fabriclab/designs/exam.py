"""A design under examination: everything that several requirements need, each computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fabriclab.core import Flags
from fabriclab.designs.failures import FLOOR, Fault, Healthy, fault, healthy
from fabriclab.designs.needs import (
    Workload,
    demand,
    drawable_workloads,
    drawn_workloads,
    step,
    workloads,
)
from fabriclab.designs.network import FAR
from fabriclab.designs.prices import bill_of
from fabriclab.designs.sheets import Design
from fabriclab.designs.traffic import Loads, loads, mean_step
from fabriclab.economics import Bill
from fabriclab.texts import text

__all__ = ["FIGURES", "Exam", "Verdict", "figures", "others", "verdict"]

FIGURES = ("cost", "time", "power", "switches", "cables", "cost_per_gpu", "left")
_SHOWN = 4000  # numbers of parts that a verdict names at most


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a requirement says about a design.

    Parameters
    ----------
    requirement : str
        Name of the requirement.
    passed : bool or None
        Whether the design meets it; None if that cannot be told before another one is met.
    asked, reached : float
        The figure that is asked for, and the one that the design reaches.
    unit : str
        Unit of both.
    margin : float
        Room as a part of what is asked for; below 0 what is lacking.
    words : str
        The verdict in a sentence: which part, by how much, and where to look.
    nodes, links : tuple of int
        The part that decides, as numbers in the fabric of the design.
    """

    requirement: str
    passed: bool | None
    asked: float
    reached: float
    unit: str
    margin: float
    words: str
    nodes: tuple[int, ...] = ()
    links: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        plain = asdict(self)
        plain["nodes"] = list(self.nodes)
        plain["links"] = list(self.links)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Verdict:
        """Return a verdict from plain data."""
        parts = {name: tuple(plain[name]) for name in ("nodes", "links")}
        return cls(**{**plain, **parts})

    def __repr__(self) -> str:
        """Show name, result and sentence."""
        result = {True: "met", False: "not met", None: "open"}[self.passed]
        return f"<Verdict {self.requirement}: {result}. {self.words}>"


def verdict(
    requirement: str,
    *,
    asked: float,
    reached: float,
    unit: str,
    words: str,
    most: bool = False,
    passed: bool | None = None,
    nodes: Any = (),
    links: Any = (),
) -> Verdict:
    """Return a verdict, with its margin.

    Parameters
    ----------
    requirement, asked, reached, unit, words : str, float
        As in `Verdict`.
    most : bool
        Whether what is asked for is the most that is allowed, and not the least.
    passed : bool, optional
        The result, unless it follows from the figures.
    nodes, links : array_like of int
        The part that decides.
    """
    gap = asked - reached if most else reached - asked
    margin = gap / abs(asked) if asked else float(np.sign(gap)) * abs(gap)
    if passed is None:
        passed = bool(margin >= -1e-9)
    if not passed:
        margin = -abs(margin)
    numbers = [tuple(int(x) for x in np.asarray(part).ravel()[:_SHOWN]) for part in (nodes, links)]
    return Verdict(
        requirement,
        passed,
        float(asked),
        float(reached),
        unit,
        float(margin),
        words,
        numbers[0],
        numbers[1],
    )


def rate_left(requirement: str, hurt: Fault, words: str) -> Verdict:
    """Return a verdict on the rate of the all-reduce that a failure or a drain leaves, held against `FLOOR`."""
    return verdict(
        requirement,
        asked=FLOOR,
        reached=hurt.left,
        unit="1",
        words=words,
        nodes=hurt.nodes,
        links=[hurt.link] if hurt.link >= 0 else (),
    )


def others(number: int) -> str:
    """Return in brackets how many other parts are alike; nothing if there are none."""
    if number == 1:
        return text("designs.other")
    return text("designs.others", n=number) if number > 1 else ""


class Carrying(NamedTuple):
    """A workload, and what it puts on the design."""

    workload: Workload
    loads: Loads


class Exam:
    """A design with what has been found out about it.

    Parameters
    ----------
    design : Design
        The design.
    key : str or int
        The key that draws workloads and prices.
    """

    def __init__(self, design: Design, key: str | int = "") -> None:
        self.design = design
        self.key = key

    @cached_property
    def bill(self) -> Bill:
        """The bill at list prices."""
        return bill_of(self.design)

    @cached_property
    def known(self) -> list[Carrying]:
        """The workloads that everybody knows, on the design."""
        return [Carrying(job, loads(self.design, job)) for job in workloads()]

    @cached_property
    def drawn(self) -> list[Carrying]:
        """The workloads that the key draws, on the design."""
        found = []
        for job in drawn_workloads(self.key):
            alike = next((one for one in self.known if one.workload.scattered), None)
            if job.scattered and alike is not None:
                # Their places are those of the known ones, and only the bytes differ.
                sent = [demand(w, self.design.gpus)[0].bytes for w in (job, alike.workload)]
                found.append(Carrying(job, alike.loads.scaled(sent[0] / sent[1])))
            else:
                found.append(Carrying(job, loads(self.design, job)))
        return found

    @cached_property
    def drawable(self) -> list[Carrying]:
        """The largest workloads that a key may draw in other places, on the design."""
        return [Carrying(job, loads(self.design, job)) for job in drawable_workloads()]

    @cached_property
    def healthy(self) -> Healthy:
        """The all-reduce before anything fails."""
        return healthy(self.design)

    @cached_property
    def faults(self) -> list[Fault]:
        """What is left after each switch has failed alone."""
        return [fault(self.design, [node], self.healthy) for node in self.design.switches.tolist()]

    @cached_property
    def reaches(self) -> Flags:
        """Whether servers of each class have a path to those of each other one, (C, C)."""
        net = self.design.network
        classes = net.classes
        n = len(classes.ports)
        to_class = np.full((net.n, n), FAR)
        for c, (switch, _) in enumerate(classes.ports):
            if switch.size:
                to_class[:, c] = net.hops[:, switch].min(axis=1)
        found = np.zeros((n, n), dtype=np.bool_)
        for c, (switch, _) in enumerate(classes.ports):
            if switch.size:
                found[c] = to_class[switch].min(axis=0) < FAR
        return found

    @cached_property
    def time(self) -> float:
        """Mean step of the workloads that everybody knows [s]."""
        each = []
        for job, on_links in self.known:
            each.append(step(job, dict(on_links.by_axis), self.design.gpus).total)
        return mean_step(self.design, each)

    def figures(self) -> dict[str, float]:
        """Return what can be told in numbers about the design, by `FIGURES`."""
        design = self.design
        cost = float(self.bill.capital)
        return {
            "cost": cost,
            "time": self.time,
            "power": float(self.bill.power),
            "switches": float(design.network.n),
            "cables": float(np.count_nonzero(design.fabric.capacity > 0) // 2),
            "cost_per_gpu": cost / (design.servers * design.gpus),
            "left": min((f.left for f in self.faults), default=1.0),
        }


def figures(design: Design) -> dict[str, float]:
    """Return cost [USD], time [s], power [W], switches, cables, cost_per_gpu [USD] and left (0..1) of a design.

    ``time`` is the mean step of the workloads that everybody knows, ``left`` the part of the all-reduce that the worst
    failure of a switch leaves.

    Raises
    ------
    NoPath
        If two servers that talk have no path.
    """
    return Exam(design).figures()


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
