"""The decision as a tree: questions with numbers, answers as leaves, and the path that lights up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from fabriclab import units
from fabriclab.core import ReadOnly
from fabriclab.economics import fabrics
from fabriclab.economics.fabrics import (
    ETHERNETS,
    GO_BACK_N,
    INFINIBAND,
    LOSSLESS,
    MULTIPATH,
    NONE,
    PCIE,
    TCP,
)

__all__ = ["Branch", "Edge", "Tree", "tree_of"]


class Branch(NamedTuple):
    """A question of the tree: a number, its threshold, and where each answer leads.

    Parameters
    ----------
    key : str
        Its name.
    question : str
        The question in words.
    value, threshold : float
        What is compared: yes if value <= threshold.
    unit : str
        Unit of both; "1" for a cost over that of the cheapest fabric.
    detail : str
        Further numbers, in words.
    yes, no : str
        The branch or the answer that follows.
    """

    key: str
    question: str
    value: float
    threshold: float
    unit: str
    detail: str
    yes: str
    no: str

    @property
    def holds(self) -> bool:
        """Whether the answer is yes."""
        return self.value <= self.threshold

    @property
    def follows(self) -> str:
        """The branch or the answer that follows."""
        return self.yes if self.holds else self.no


class Edge(NamedTuple):
    """A line of the drawing: from a question to what follows, with its label, and whether it is on the path."""

    source: str
    target: str
    label: str
    lit: bool


@dataclass(frozen=True)
class Tree:
    """A decision as questions and answers.

    Parameters
    ----------
    branches : mapping of str to Branch
        The questions by key, the first one at the top. Two ways lead to the question about sockets.
    leaves : mapping of str to str
        The answers: the name of each fabric by key.
    """

    branches: Mapping[str, Branch]
    leaves: Mapping[str, str]

    @property
    def path(self) -> tuple[str, ...]:
        """Keys from the top question to the answer."""
        key = next(iter(self.branches))
        found = [key]
        while key in self.branches:
            key = self.branches[key].follows
            found.append(key)
        return tuple(found)

    @property
    def answer(self) -> str:
        """The key of the answer."""
        return self.path[-1]

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All lines of the drawing, two from each question."""
        path = self.path
        steps = set(pairwise(path))
        found = []
        for key, branch in self.branches.items():
            for label, target in (("yes", branch.yes), ("no", branch.no)):
                found.append(Edge(key, target, label, (key, target) in steps))
        return tuple(found)

    @property
    def depth(self) -> Mapping[str, int]:
        """How many questions lie above each question and each answer at most: the row in which it is drawn."""
        rows = {next(iter(self.branches)): 0}
        for key, branch in self.branches.items():  # a question stands after all that lead to it
            for target in (branch.yes, branch.no):
                rows[target] = max(rows.get(target, 0), rows[key] + 1)
        return ReadOnly(rows)

    def draw(self) -> str:
        """Return the tree as text, a line for each question; ``>`` marks the path."""
        path = self.path
        lines = []
        for key, branch in self.branches.items():
            mark = ">" if key in path else " "
            said = "yes" if branch.holds else "no"
            lines.append(f"{mark} {branch.question} {branch.detail}: {said} -> {branch.follows}")
        lines.append(f"> {self.leaves[self.answer]}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Show the path."""
        return f"<Tree: {' > '.join(self.path)}>"


def tree_of(
    values: Mapping[str, float], costs: Mapping[str, float], times: Mapping[str, float]
) -> Tree:
    """Return the tree of a decision.

    A fabric is good enough if a step costs no more than the tolerance above the cheapest of all. Fabrics are asked
    about in their order in `fabriclab.economics.fabrics.options`, so the answer is the first that is good enough: a
    choice, which takes what runs on any Ethernet first, and what one maker sells last.

    Parameters
    ----------
    values : mapping of str to float
        Inputs of the decision.
    costs : mapping of str to float
        Cost of a step on each fabric, inf where the job cannot run. [USD]
    times : mapping of str to float
        Time of a step on each fabric. [s]
    """
    sent = float(values["sent"])
    gpus = float(values["gpus"])
    limit = float(values["pcie_limit"])
    numbers = _Numbers(costs, times, 1 + float(values["tolerance"]))
    with_nics = (*ETHERNETS, INFINIBAND)
    lossy = (MULTIPATH, GO_BACK_N)
    branches = (
        Branch(
            "stays",
            "Does a GPU send nothing to other servers?",
            sent,
            0.0,
            "B",
            f"{sent / 1e9:.3g} GB in a step",
            NONE,
            "few",
        ),
        Branch(
            "few",
            "Do all GPUs fit on one PCIe fabric?",
            gpus,
            limit,
            "GPUs",
            f"{gpus:,g} GPUs, measured up to {limit:,g}",
            "boxes",
            "sockets",
        ),
        numbers.ask("boxes", "Is a network of NICs good enough?", with_nics, "sockets", PCIE),
        numbers.ask("sockets", "Is kernel TCP good enough?", (TCP,), TCP, "lossy"),
        numbers.ask("lossy", "Is lossy Ethernet with RDMA good enough?", lossy, "paths", "pauses"),
        numbers.ask("paths", "Are many paths good enough?", (MULTIPATH,), MULTIPATH, GO_BACK_N),
        numbers.ask(
            "pauses", "Is lossless Ethernet good enough?", (LOSSLESS,), LOSSLESS, INFINIBAND
        ),
    )
    leaves = {key: option.name for key, option in fabrics.options().items()}
    return Tree(ReadOnly({branch.key: branch for branch in branches}), ReadOnly(leaves))


@dataclass(frozen=True)
class _Numbers:
    """Costs and times of a step on each fabric, and by which factor a cost may lie above the cheapest."""

    costs: Mapping[str, float]
    times: Mapping[str, float]
    factor: float

    def ask(self, key: str, question: str, ones: tuple[str, ...], yes: str, no: str) -> Branch:
        """Return the question whether one of some fabrics is good enough."""
        least = min(self.costs.values())
        best = min(ones, key=self.costs.__getitem__)
        value = self.costs[best] / least
        detail = (
            f"{best} {self.times[best]:.2f} s, {self.costs[best]:.4g} USD a step, "
            f"{units.format_share(value - 1, 1, signed=True)} "
            f"(may be {units.format_share(self.factor - 1, 1, signed=True)})"
        )
        return Branch(key, question, value, self.factor, "1", detail, yes, no)
