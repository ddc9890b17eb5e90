"""Exercise 4, the judges of a switch program and its worker: without faults (b), and with all faults (c)."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.calls import asker
from fabriclab.course.judges.shared.numbers import Misread
from fabriclab.course.questions.files import message, misconception
from fabriclab.innetwork import ProgramRefused
from fabriclab.registry import register

from .ladders import Ladder
from .moves import is_fault
from .programs import PRELUDE
from .rounds import PATIENCE, Crew, SwitchRun
from .traces import shortest

if TYPE_CHECKING:
    from fabriclab.views import Picture

_NAMED = {
    "around": "sum made without the switch",
    "copies": "the switch only copies",
    "added": "the switch only copies",
    "storm": "storm of packets",
}
_MOST_LINES = 14  # of a trace in a verdict
# Problems that any other run would meet, too.
_FATAL = ("time", "cpu", "slow", "waits", "interrupted", "missing", "stub")


class Kind(NamedTuple):
    """A kind of run: its worth, the numbers of runs and sets, and what goes wrong in the runs."""

    share: float
    runs: int
    sets: int
    options: Mapping[str, Any]


CALM = {"calm": Kind(1.0, 6, 2, {"timers": False})}
HARD = {
    "lossy": Kind(0.4, 12, 2, {"faults": 0.05}),
    "late": Kind(0.1, 4, 1, {"faults": 0.02, "late": 0}),
    "dead": Kind(0.1, 4, 1, {"faults": 0.02, "dead": 0, "jobs": 2}),
    "stranger": Kind(0.4, 12, 2, {"faults": 0.03, "stranger": True, "jobs": 3}),
}


def played(
    ask: Ask, rng: Rng, id: str, functions: Sequence[str], kinds: Mapping[str, Kind]
) -> Verdict:
    """Play and judge all runs; a set counts only if all its runs are right, and the first wrong run is explained."""
    crew = Crew(ask, functions)
    whole = 0.0
    first: tuple[str, SwitchRun] | None = None  # that was wrong, and its kind
    problem: Unanswered | None = None
    for name, kind in kinds.items():
        spoiled = set[int]()
        for i in range(kind.runs):
            # Drawn for every run, so that the next run does not depend on the outcome of this one.
            seed = int(rng.integers(2**31))
            workers = int(rng.integers(2, 5))
            slots = int(2 ** rng.integers(3))
            own_set = i % kind.sets
            if own_set in spoiled or (problem and problem.problem in _FATAL):
                spoiled.add(own_set)
                continue
            run = SwitchRun(seed, workers, slots, **kind.options)
            run.play(crew)
            problem = run.problem or problem
            if run.faults:
                spoiled.add(own_set)
                first = first or (name, run)
        whole += kind.share * (1 - len(spoiled) / kind.sets)

    if not first:
        return Verdict(round(whole, 9))
    name, run = first
    explained = _explained(crew, name, run, calm=kinds is CALM)
    if run.problem and not whole and not explained.traced:
        raise run.problem
    return Verdict(round(whole, 9), tuple(explained.said), explained.mistake)


class Explanation(NamedTuple):
    """The explanation of what was wrong in a run."""

    said: list[str]
    mistake: str  # its name, or nothing
    traced: bool  # whether a short trace shows it


def _explained(crew: Crew, kind: str, run: SwitchRun, *, calm: bool) -> Explanation:
    """Return what was wrong in a run, with the shortest trace to it, if there is one."""
    fault, sentence = next(iter(run.faults.items()))
    said = [sentence]
    if fault != "fit":  # then no packet was sent
        said.insert(0, message(4, "run", kind=message(4, f"kind.{kind}")))
    mistake = _NAMED.get(fault, "")
    if fault == "rule" and run.beyond:
        mistake = "slot beyond the pool"
    if fault == "wrong" and run.in_floats:
        mistake = "sum in floats"

    ladder = None
    raised = run.problem is not None and run.problem.problem == "raised"
    # Where nobody sets a timer and yet nothing ends, a search for an end would try everything in vain.
    unending = run.endless and not run.timers
    if (fault in ("wrong", "hangs", "outside") or raised) and not unending:
        ladder = _shortest_ladder(crew, run, calm=calm, hangs=fault == "hangs")
    if ladder:
        mistake = ladder.mistake()
        faults = sum(map(is_fault, ladder.moves))
        said.append(message(4, "trace", n=len(ladder.moves), faults=faults))
        said += ladder.numbered()[:_MOST_LINES]
        said.append(message(4, "see", functions=f"{crew.program}, {crew.worker}"))
    elif fault in ("hangs", "storm"):
        said += run.last_seen()
        if fault == "hangs" and run.longest_timer >= PATIENCE:
            mistake = "timer too long"
        if unending:
            mistake = "next chunk not sent"
    elif fault == "wrong" and run.unheard and not mistake:
        mistake = "total set too early"
    if mistake:
        said.append(misconception("ex4-c", mistake))
    return Explanation(said, mistake, traced=ladder is not None)


def _shortest_ladder(crew: Crew, run: SwitchRun, *, calm: bool, hangs: bool) -> Ladder | None:
    """Return the shortest trace that breaks the program as a run did, or None."""
    faults = 0 if calm else 3
    found = shortest(crew, faults=faults, stranger=run.jobs > 1, hangs=hangs)
    return Ladder(*found) if found else None


def trace(
    functions: Sequence[Callable[..., Any]], *, tenant: bool = False, calm: bool = False
) -> "Picture | str":
    """Return the shortest trace that breaks a switch program and its worker, as a picture with its lines.

    Parameters
    ----------
    functions : two classes
        The program and the worker.
    tenant : bool
        Whether another job's packets come, too.
    calm : bool
        Whether nothing is lost, doubled or overtaken.
    """
    from .pictures import trace_picture

    names = [cls.__name__ for cls in functions]
    crew = Crew(asker(tuple(names), list(functions)), names)
    try:
        crew.switch(workers=2, jobs=2 if tenant else 1, slots=1)
        found = shortest(crew, faults=0 if calm else 3, stranger=tenant, hangs=True)
    except Unanswered as error:
        return error.said
    except (ProgramRefused, Misread) as error:
        return str(error)
    if not found:
        return message(4, "unbroken")
    return trace_picture(Ladder(*found))


def _example(rng: Rng) -> Any:
    """Return what classes are created with: a job and a worker of it."""
    job = SimpleNamespace(workers=2, jobs=2, slots=2)
    values = rng.integers(-99, 100, 128).astype(np.int32)
    return job, SimpleNamespace(rank=0, workers=2, job=0, slots=2, values=values)


@register("question", "ex4-b", example=_example, prelude=PRELUDE)
def calm(ask: Ask, rng: Rng) -> Verdict:
    """Judge a program and a worker on a network that loses nothing."""
    return played(ask, rng, "ex4-b", ("FirstSwitch", "FirstWorker"), CALM)


@register("question", "ex4-c", example=_example, prelude=PRELUDE)
def hard(ask: Ask, rng: Rng) -> Verdict:
    """Judge a program and a worker under loss, copies, reordering, slow and dead workers, and a hostile tenant."""
    return played(ask, rng, "ex4-c", ("MySwitch", "MyWorker"), HARD)
