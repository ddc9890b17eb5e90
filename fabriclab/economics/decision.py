"""Which fabric for a job: the cheapest for a step, with reasons, counter-examples, and what would turn the answer.

A fabric is judged by what a step of the job costs on it: the price of a second of the whole cluster, times the step
with what its network leaves exposed, over the share of hours that lacking skills leave. `decide` compares InfiniBand,
four kinds of Ethernet, PCIe fabrics and no network at all, and answers with numbers. Costs within a tolerance count as
equal, and of equal fabrics the first of this order is taken: kernel TCP, lossy Ethernet with many paths and then with
go-back-N, lossless Ethernet, InfiniBand. The order is a choice: first what runs on any Ethernet, last what one maker
sells.
`Decision.turns` says for each input at which value the answer would be another one; with ``tolerance=0`` that is where
two costs cross.

Examples
--------
>>> from fabriclab import catalog, economics
>>> found = economics.decide(catalog.case())
>>> found.answer, found.runner_up
('infiniband', 'lossless')
>>> for turn in found.turns("price_infiniband", "efficiency_lossless"):
...     print(turn)
<Turn price_infiniband: 1 now, lossless above 1.07, within what sources print>
<Turn efficiency_lossless: 0.895 now, lossless above 0.929>
>>> (crossing,) = economics.decide(tolerance=0).turns("price_infiniband")
>>> crossing.then
'lossless Ethernet above 1.13'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import catalog, units
from fabriclab.catalog import Case
from fabriclab.catalog.tables import near
from fabriclab.core import Ints, ReadOnly, as_html, as_text
from fabriclab.economics import fabrics, skills
from fabriclab.economics.fabrics import CounterExample
from fabriclab.economics.needs import Input, decision_inputs, input_of, step_costs, step_times
from fabriclab.economics.ranges import Draws, Range, draw
from fabriclab.economics.tree import Tree, tree_of
from fabriclab.economics.words import in_words

__all__ = ["Decision", "Turn", "decide"]

_POINTS = 2001  # of a scan of one input
_HALVINGS = 50


class Turn(NamedTuple):
    """A value of one input at which the answer changes, while all others stay.

    Parameters
    ----------
    name : str
        The input.
    now : float
        Its value.
    value : float
        Where the answer changes, in the direction of the value; NaN if it does not within the range that is searched.
    answer : str
        What is cheaper beyond.
    above : bool
        Whether the other answer lies above the value, else below it.
    within : bool
        Whether the value lies between the ends that sources print: then the answer is not sure. False for an input
        without a source.
    """

    name: str
    now: float
    value: float
    answer: str
    above: bool
    within: bool

    @property
    def then(self) -> str:
        """What is cheaper beyond the turn, and where that is, in words."""
        if not np.isfinite(self.value):
            return "no value turns the answer"
        side = "above" if self.above else "below"
        return f"{in_words(self.answer)} {side} {self.value:.3g}"

    def __repr__(self) -> str:
        """Show the value now, and what is cheaper beyond the turn."""
        if not np.isfinite(self.value):
            return f"<Turn {self.name}: {self.now:.3g} now, no value turns the answer>"
        side = "above" if self.above else "below"
        unsure = ", within what sources print" if self.within else ""
        return (
            f"<Turn {self.name}: {self.now:.3g} now, {self.answer} {side} {self.value:.3g}{unsure}>"
        )


@dataclass(frozen=True, eq=False)
class Decision:
    """The cheapest fabric for a job, and why.

    Parameters
    ----------
    ranges : mapping of str to Range
        All inputs: what they are is in `fabriclab.economics.needs.inputs`.
    values : mapping of str to float
        The value of each that decides.
    """

    ranges: Mapping[str, Range]
    values: Mapping[str, float]

    @property
    def costs(self) -> Mapping[str, float]:
        """What a step costs on each fabric, cheapest first; inf where the job cannot run on it. [USD]."""
        gpus = self.values["gpus"]
        found = {key: gpus * float(cost) for key, cost in step_costs(self.values).items()}
        return ReadOnly(dict(sorted(found.items(), key=lambda item: item[1])))

    @property
    def steps(self) -> Mapping[str, float]:
        """How long a step takes on each fabric. [s]."""
        return ReadOnly({key: float(time) for key, time in step_times(self.values).items()})

    @property
    def answer(self) -> str:
        """The fabric on which a step costs least, or within the tolerance of it: the first in `fabrics.options`."""
        keys = [*fabrics.options()]
        return keys[int(_chosen_at(self.values))]

    @property
    def runner_up(self) -> str:
        """The fabric that is next in cost; empty if the job can run on one alone."""
        rest = [key for key, cost in self.costs.items() if key != self.answer and cost < np.inf]
        return rest[0] if rest else ""

    @property
    def tree(self) -> Tree:
        """The decision as a tree: its questions with numbers, and the path to the answer."""
        return tree_of(self.values, self.costs, self.steps)

    @property
    def counter_examples(self) -> tuple[CounterExample, ...]:
        """Systems that did otherwise than the answer says; empty where the sources name none."""
        return fabrics.counter_examples(self.answer)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this answer, in sentences with the numbers that were computed."""
        values = self.values
        costs = self.costs
        steps = self.steps
        answer = self.answer
        need = values["sent"] / values["window"]
        said = [
            f"Each GPU sends {values['sent'] / 1e9:.3g} GB in a step and can hide them for {values['window']:.3g} s: "
            f"a NIC has to reach {need / 1e9:.3g} GB/s.",
            f"On {answer} a step takes {steps[answer]:.3f} s and costs {costs[answer]:.4f} USD.",
        ]
        for key, cost in costs.items():
            if key == answer or cost == np.inf:
                continue
            longer = steps[key] / steps[answer] - 1
            dearer = cost / costs[answer] - 1
            text = (
                f"On {key} it takes {steps[key]:.3f} s ({units.format_share(longer, 1, signed=True)}) and costs "
                f"{units.format_share(dearer, 1, signed=True)}"
            )
            lacking = 0.0 if key == fabrics.NONE else values[f"lacking_{key}"]
            if lacking:
                hours = lacking * values["hours_per_level"]
                text += (
                    f", with {hours:.3g} hours a year lost to {lacking:g} lacking levels of skill"
                )
            said.append(text + ".")
        if costs[fabrics.PCIE] == np.inf:
            said.append(
                f"A PCIe fabric is measured with up to {values['pcie_limit']:g} GPUs; the job has {values['gpus']:,g}."
            )
        return tuple(said)

    def turns(self, *names: str) -> tuple[Turn, ...]:
        """Return at which value of each input the answer changes, all others as they are.

        Both directions are searched, in 2,001 points and then by bisection, over the bounds of `needs.inputs`; of two
        turns the nearer one is returned, by ratio. Turns of two inputs at once are left out: `draws` has them.

        Parameters
        ----------
        *names : str
            Names of inputs; by default all, those that turn the answer first, the nearest by ratio first.
        """
        asked = names or tuple(self.values)
        for name in asked:
            if name not in self.values:
                raise ValueError(near(name, self.values, "the list of inputs of the decision"))
        found = [self._turn(name) for name in asked]
        if names:
            return tuple(found)
        return tuple(sorted(found, key=_distance))

    def draws(self, n: int = 10_000, *, rng: np.random.Generator) -> Draws:
        """Return which fabric is cheapest for ``n`` draws of all inputs: the value is its place in `fabrics.options`.

        The inputs that a source gives one value for stay there. See `share` for the part of each answer.
        """

        def place(**inputs: Any) -> Ints:
            """Return the place of the cheapest fabric in each draw, (n,)."""
            return np.broadcast_to(_chosen_at(inputs), (n,))

        around = {}
        for name, reach in self.ranges.items():
            moved = self.values[name]
            around[name] = (
                reach if moved == reach.middle else Range(moved, moved, moved, reach.unit)
            )
        return draw(place, around, n, rng=rng)

    def share(self, n: int = 10_000, *, rng: np.random.Generator) -> Mapping[str, float]:
        """Return in which part of the draws each fabric is cheapest, the most frequent first."""
        place = self.draws(n, rng=rng).value
        found = {key: float(np.mean(place == i)) for i, key in enumerate(fabrics.options())}
        return ReadOnly(dict(sorted(found.items(), key=lambda item: -item[1])))

    def _turn(self, name: str) -> Turn:
        """Return the nearest turn of one input."""
        now = self.values[name]
        reach = self.ranges[name]
        best = Turn(name, now, np.nan, self.answer, True, False)
        for above in (False, True):
            found = self._first_change(name, input_of(name), above=above)
            if found is None:
                continue
            value, answer = found
            has_range = bool(reach.sources) and reach.low < reach.high
            within = has_range and reach.low <= value <= reach.high
            turn = Turn(name, now, value, answer, above, within)
            if _distance(turn) < _distance(best):
                best = turn
        return best

    def _first_change(self, name: str, known: Input, *, above: bool) -> tuple[float, str] | None:
        """Return the value nearest to now on one side at which another fabric is cheapest, and that fabric."""
        now = self.values[name]
        grid = known.grid(_POINTS)
        side = grid[grid > now] if above else grid[grid < now][::-1]
        if not side.size:
            return None
        winner = self._winners(name, side)
        keys = [*fabrics.options()]
        is_other = winner != keys.index(self.answer)
        if not is_other.any():
            return None
        first = int(np.argmax(is_other))
        far = float(side[first])
        here = max(float(side[first - 1]) if first else now, 0.0)
        for _ in range(_HALVINGS):
            middle = (here + far) / 2
            if self._winners(name, np.array([middle]))[0] == keys.index(self.answer):
                here = middle
            else:
                far = middle
        return far, keys[int(self._winners(name, np.array([far]))[0])]

    def _winners(self, name: str, values: NDArray[np.float64]) -> Ints:
        """Return the place of the cheapest fabric for each value of an input, in the shape of ``values``."""
        return np.broadcast_to(_chosen_at({**self.values, name: values}), values.shape)

    def rows(self) -> list[list[str]]:
        """Return a table with its heading: each fabric with its step and its cost, cheapest first."""
        table = [["fabric", "step [s]", "USD per step", "against the answer"]]
        costs = self.costs
        for key, cost in costs.items():
            if cost == np.inf:
                table.append([key, "", "cannot run", ""])
                continue
            more = cost / costs[self.answer] - 1
            table.append(
                [
                    key,
                    f"{self.steps[key]:.3f}",
                    f"{cost:.4f}",
                    units.format_share(more, 1, signed=True),
                ]
            )
        return table

    def draw(self) -> str:
        """Return the table as text."""
        return as_text(self.rows())

    def __repr__(self) -> str:
        """Show the answer and the runner-up."""
        if not self.runner_up:
            return f"<Decision: {self.answer}>"
        more = self.costs[self.runner_up] / self.costs[self.answer] - 1
        return f"<Decision: {self.answer}; {self.runner_up} costs {units.format_share(more, 1, signed=True)}>"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def decide(
    job: Case | None = None,
    levels: Mapping[str, int] | None = None,
    **changes: units.Quantity,
) -> Decision:
    """Return which fabric a job should run on, and what would turn the answer.

    Leaves out what has no number here: delivery times, who else sells it, other tenants, and what a fabric is worth
    after the job. Latency counts as far as it is in the efficiency of large sums. All fabrics have the same NIC rate.

    Parameters
    ----------
    job : Case, optional
        The running case, or one with other rows.
    levels : mapping of str to int, optional
        The team, as `fabriclab.economics.team` returns it; by default one that lacks nothing.
    **changes
        Inputs with another value, by name: see `fabriclab.economics.needs.inputs`.

    Raises
    ------
    ValueError
        If an input is unknown, or out of its range.

    Examples
    --------
    A job whose GPUs send little is as fast on any Ethernet, so skill and price decide:

    >>> decide(sent="0.4 GB").answer
    'tcp'
    """
    known = job or catalog.case()
    ranges = decision_inputs(known, skills.team() if levels is None else levels)
    values = {name: reach.middle for name, reach in ranges.items()}
    for name, value in changes.items():
        if name not in values:
            raise ValueError(near(name, values, "the list of inputs of the decision"))
        values[name] = input_of(name).parse(name, value)
    return Decision(ReadOnly(ranges), ReadOnly(values))


def chosen(costs: Mapping[str, Any], tolerance: ArrayLike) -> Ints:
    """Return the place of the first fabric whose cost is within a tolerance of the least, in the shape of the costs.

    Parameters
    ----------
    costs : mapping of str to float or ndarray
        Cost of a step on each fabric. [USD]
    tolerance : array_like
        By which part a cost may be above the least. >= 0
    """
    *columns, above = np.broadcast_arrays(*costs.values(), np.asarray(tolerance, dtype=float))
    table = np.stack(columns)  # (fabrics, ...)
    good_enough = table <= table.min(axis=0) * (1 + above)
    return np.asarray(np.argmax(good_enough, axis=0))


def _chosen_at(values: Mapping[str, Any]) -> Ints:
    """Return the place of the fabric that is chosen for numbers or arrays of inputs."""
    return chosen(step_costs(values), values["tolerance"])


def _distance(turn: Turn) -> float:
    """Return how far a turn is from now, as the logarithm of a ratio; inf where nothing turns."""
    if not np.isfinite(turn.value):
        return np.inf
    if turn.now <= 0 or turn.value <= 0:
        return 10.0 + abs(turn.value - turn.now)
    return abs(float(np.log(turn.value / turn.now)))
