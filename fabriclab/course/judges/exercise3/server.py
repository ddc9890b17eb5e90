"""Exercise 3, the judges of whole parameter servers: one worker (b), and many with a bound and with failures (e)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fabriclab.course.judges import PRACTICE, Ask, Rng, Unanswered, Verdict, draw
from fabriclab.course.judges.shared.calls import place_of
from fabriclab.course.judges.shared.numbers import near, number
from fabriclab.course.judges.shared.parts import Call, QuestionPart, judge
from fabriclab.course.questions import misconception
from fabriclab.course.questions.files import message
from fabriclab.registry import register

from .training import SERVER, TrainingRun

_NAMED = {
    "reused": "buffer reused before its completion",
    "copied": "copied by the processor",
    "torn": "last word taken for all",
    "doubled": "repeated what had arrived",
    "left": "completions left",
    "lost": "completion taken for delivery",
    "stale": "completion taken for delivery",
    "overrun": "completion taken for delivery",
    "part": "part of a gradient",
    "once": "pulled only once",
    "slot": "one slot for all workers",
    "nothing": "result not handed over",
    "hangs": "never ends",
}
_ITS_OWN = ("raised", "value", "exited", "asked")  # problems that need not occur in every run
# Kind of run -> fault -> the mistake behind it in such runs, which takes precedence over _NAMED.
_INSTEAD = {
    "one": {"doubled": "added twice", "corrupt": "computed before the pull has ended"},
    "calm": {"stale": "staleness not bounded", "doubled": "added twice"},
    "killed": {
        "stale": "staleness not bounded",
        "hangs": "waits for the dead",
        "doubled": "added twice",
    },
    "lost": {
        "torn": "failed completion ignored",
        "corrupt": "repeated what had arrived",
        "hangs": "failed completion ignored",
        "lost": "failed completion ignored",
        "stale": "failed completion ignored",
        "short": "failed completion ignored",
        "nothing": "failed completion ignored",
        "overrun": "failed completion ignored",
    },
}


def stops(problem: Unanswered | None) -> bool:
    """Return whether a problem that stopped a run would also stop all others."""
    if problem is None:
        return False
    return problem.problem not in _ITS_OWN or "NotImplementedError" in problem.said


def seed(rng: Rng) -> int:
    """Draw the seed of a run."""
    return int(rng.integers(2**31))


class RunOfKind(NamedTuple):
    """A run of a parameter server, and what goes wrong in it: one, calm, killed or lost."""

    kind: str
    run: TrainingRun


class KindOfRun(NamedTuple):
    """The worth of a kind of run, and its number of sets; a set counts only if all its runs are right."""

    share: float
    sets: int


def _cases_b(rng: Rng) -> list[RunOfKind]:
    """Draw six runs with one worker."""
    cases = list[RunOfKind]()
    for _ in range(6):
        of_run = seed(rng)
        steps = int(rng.integers(6, 11))
        cases.append(RunOfKind("one", TrainingRun(of_run, workers=1, steps=steps)))
    return cases


def _losses(rng: Rng, workers: int) -> list[tuple[int, int, bool]]:
    """Draw for which requests of each worker the answer is lost: one that is done, and one that is not.

    A request that is done has an odd number.
    """
    first = rng.integers(0, 4, workers).tolist()
    second = rng.integers(4, 8, workers).tolist()
    first_done = rng.permuted([True, True, False]).tolist()
    lost = list[tuple[int, int, bool]]()
    for w in range(workers):
        lost.append((w, first[w] | int(first_done[w]), first_done[w]))
    for w in range(workers):
        done = not first_done[w]
        lost.append((w, second[w] | int(done), done))
    return lost


def _cases_e(rng: Rng) -> list[RunOfKind]:
    """Draw runs with bounds on staleness, with a killed worker, and with a lost answer."""
    workers = 3
    cases = list[RunOfKind]()
    for i, kind in enumerate(("calm",) * 4 + ("killed",) * 4 + ("lost",) * 2):
        most_steps = 5 if kind == "calm" else 6
        steps = int(rng.integers(4, most_steps + 1))
        least_bound = 1 if i in (2, 3) else 0
        bound = int(rng.integers(least_bound, 3))
        one = int(rng.integers(workers))

        options: dict[str, Any] = {}
        if kind == "calm":
            options["slow"] = one if i < 2 else SERVER
        elif kind == "killed":
            options["dies"] = one
            options["dies_at"] = int(rng.integers(12, 90))
            options["pushes"] = int(rng.integers(0, 6))
        elif kind == "lost":
            options["loses"] = _losses(rng, workers)
        cases.append(RunOfKind(kind, TrainingRun(seed(rng), workers, steps, bound, **options)))
    return cases


def played(
    ask: Ask,
    cases: Sequence[RunOfKind],
    functions: tuple[str, str],
    id: str,
    kinds: Mapping[str, KindOfRun],
) -> Verdict:
    """Play the runs of a question, and judge their results.

    Parameters
    ----------
    ask : function
        Runs a call of the learner's code.
    cases : sequence of RunOfKind
        The runs. The runs of a kind are distributed over its sets in turn.
    functions : tuple of str
        Names of the programs for the server and for a worker.
    id : str
        Id of the question.
    kinds : mapping
        Worth of each kind of run.

    Raises
    ------
    Unanswered
        If no set is right, and either the problem would stop all other runs, or one run of each set has stopped.
    """
    server, worker = functions
    said = list[str]()
    mistakes = list[str]()
    spoiled = {kind: set[int]() for kind in kinds}
    met = dict.fromkeys(kinds, 0)  # runs of each kind so far
    problems = list[Unanswered]()
    stopped = False
    for n, (kind, run) in enumerate(cases, 1):
        own_set = met[kind] % kinds[kind].sets
        met[kind] += 1
        if own_set in spoiled[kind]:
            continue
        if stopped:
            spoiled[kind].add(own_set)
            continue

        run.play(ask, {SERVER: server, **dict.fromkeys(range(run.model.workers), worker)})
        faults = run.judge()
        if run.problem:
            problems.append(run.problem)
        stopped = stops(run.problem)
        if faults or stopped:
            spoiled[kind].add(own_set)
        if not faults:
            continue
        mistake = _mistake(kind, next(iter(faults)))
        if mistake:
            mistakes.append(mistake)
        if not said:
            said.append(message(3, "run", n=n, kind=message(3, f"kind.{kind}")))
            said += list(faults.values())[:2]
            if "hangs" in faults:
                said.append(faults["hangs"])  # which says where each program stands
            if mistake:
                said.append(misconception(id, mistake))
            said.append(message(3, "again", id=id, functions=", ".join(functions), n=n))

    nothing_is_right = all(len(spoiled[kind]) == kinds[kind].sets for kind in kinds)
    all_sets = sum(kind.sets for kind in kinds.values())
    if nothing_is_right and (stopped or len(problems) == all_sets):
        raise problems[-1]
    earned = sum(kind.share * (1 - len(spoiled[name]) / kind.sets) for name, kind in kinds.items())
    return Verdict(round(earned, 9), tuple(dict.fromkeys(said)), mistakes[0] if mistakes else "")


def _mistake(kind: str, fault: str) -> str:
    """Return the name of the mistake behind a fault in runs of a kind, or an empty text."""
    instead = _INSTEAD.get(kind, {})
    return instead.get(fault) or _NAMED.get(fault, "")


def _example(rng: Rng) -> Callable[..., list[str]]:
    """Return the function that plays a practice run again."""
    return replay


@register("question", "ex3-b", example=_example)
def one_worker(ask: Ask, rng: Rng) -> Verdict:
    """Judge a server with one worker: no update torn, lost, doubled or copied, and each visible at once."""
    return played(
        ask, _cases_b(rng), ("serve", "work"), "ex3-b", {"one": KindOfRun(share=1.0, sets=2)}
    )


# ex3-e -----------------------------------------------------------------------------------------------------------


_NO_BOUND = 10**6  # more steps than there are


def finish(times: Sequence[Sequence[float]], bound: int) -> float:
    """Return when the last worker finishes its last step, if no worker is ever more than ``bound`` steps ahead.

    Parameters
    ----------
    times : sequence of sequences
        Time of each step of each worker. [s]
    bound : int
        A step begins when all workers have finished the step that is ``bound + 1`` before it.
    """
    steps = len(times[0])
    ends = list[list[float]]()  # of each step, of each worker [s]
    for step in range(steps):
        begins = [0.0] * len(times)
        if step > 0:
            begins = ends[-1]
        if step > bound:
            all_done = max(ends[step - 1 - bound])
            begins = [max(begin, all_done) for begin in begins]
        ends.append([begin + row[step] for begin, row in zip(begins, times, strict=True)])
    return max(ends[-1])


def _times(rng: Rng, steady: bool) -> list[list[float]]:
    """Draw the time of each step of each worker [s]: random, or three times as long for one steadily slow worker."""
    workers = int(rng.integers(3, 6))
    steps = int(rng.integers(12, 20))
    if not steady:
        times: list[list[float]] = rng.exponential(1, (workers, steps)).tolist()
        return times
    slow = int(rng.integers(workers))
    even = rng.uniform(0.9, 1.1, (workers, steps))
    even[slow] *= 3
    steady_times: list[list[float]] = even.tolist()
    return steady_times


class PacePart(QuestionPart):
    """The time with a bound on staleness, in four cases; in every other case one worker is steadily slow."""

    def __init__(self, rng: Rng) -> None:
        self.steady = (True, False, True, False)
        self.asked = [_pace_case(rng, steady) for steady in self.steady]  # times and bound
        calls = [Call("pace", case) for case in self.asked]
        super().__init__("ex3-e", "pace", 1.0, calls, sets=2)

    def set_of(self, case: int) -> int:
        """Return the number of the set that a case is in; each set has both kinds of cases."""
        return case // 2

    def read(self, case: int, value: Any) -> float:
        """Return the time [s]."""
        return number(value, "time")

    def is_right(self, case: int, answer: float) -> bool:
        """Return whether the time is right."""
        return near(answer, finish(*self.asked[case]), 0.01)

    def mistakes(self, case: int, answer: float) -> list[str]:
        """Return the mistakes that give this time, such as that a bound makes a steadily slow worker faster."""
        times, bound = self.asked[case]
        mean = sum(map(sum, times)) / len(times)
        known = {
            "bound ignored": finish(times, 0),
            "bound off by one": finish(times, bound + 1),
            "bound off by one/less": finish(times, bound - 1),
            "nobody waits": finish(times, _NO_BOUND),
            "staleness speeds up a slow worker": mean,
            "workers added up": sum(map(sum, times)),
            "steps taken for workers": finish(list(map(list, zip(*times, strict=True))), bound),
            "other unit of time": 1e3 * finish(times, bound),
        }
        found = [mistake for mistake, time in known.items() if near(answer, time, 1e-6)]
        if not found and self.steady[case] and answer < 0.99 * finish(times, bound):
            return ["staleness speeds up a slow worker"]
        return found

    def off(self, case: int, answer: float) -> str:
        """Return the right time."""
        times, bound = self.asked[case]
        want = finish(times, bound)
        return message(3, "pace.off", got=f"{answer:.4g} s", want=f"{want:.4g} s", bound=bound)


def _paced(ask: Ask, part: PacePart) -> Verdict:
    """Judge the part; a function that fails in one case earns nothing."""
    stopped = list[Unanswered]()

    def asked(*call: Any) -> Any:
        if stopped:
            raise stopped[0]
        try:
            return ask(*call)
        except Unanswered as error:
            stopped.append(error)
            raise

    try:
        found = judge(asked, part)
    except Unanswered as error:
        return Verdict(0.0, (error.said,))
    return Verdict(0.0, (stopped[0].said,)) if stopped else found


def _pace_case(rng: Rng, steady: bool) -> tuple[list[list[float]], int]:
    """Draw times and a bound; unless one worker is steadily slow, bounds larger or smaller by one give another time."""
    while True:
        times = _times(rng, steady)
        bound = int(rng.integers(1, 4))
        if steady:
            return times, bound

        right = finish(times, bound)
        others = [finish(times, other) for other in (0, bound - 1, bound + 1, _NO_BOUND)]
        ratios = [time / right for time in others]
        ratios.append(others[2] / others[3])
        if min(abs(ratio - 1) for ratio in ratios) > 0.02:
            return times, bound


_CALM = KindOfRun(share=12 / 28, sets=2)
_KILLED = KindOfRun(share=6 / 28, sets=2)
_LOST = KindOfRun(share=6 / 28, sets=1)
_PACE = 4 / 28  # of the points


@register("question", "ex3-e", example=_example)
def many_workers(ask: Ask, rng: Rng) -> Verdict:
    """Judge bounded staleness, a killed worker, a lost answer, and what a bound is good for."""
    cases = _cases_e(rng)
    paces = draw("pace", str(rng.integers(2**32)))
    kinds = {"calm": _CALM, "killed": _KILLED, "lost": _LOST}
    trouble: Unanswered | None = None
    training = Verdict(0.0)
    try:
        training = played(ask, cases, ("server", "worker"), "ex3-e", kinds)
    except Unanswered as error:
        trouble = error
        training = Verdict(0.0, (error.said,))

    pace = _paced(ask, PacePart(paces))
    if trouble and not pace.part:
        raise trouble
    return Verdict(
        part=round(training.part + pace.part * _PACE, 9),
        said=tuple(dict.fromkeys([*training.said, *pace.said])),
        mistake=training.mistake or pace.mistake,
    )


def replay(id: str, functions: Sequence[Callable[..., Any]], n: int, last: int = 30) -> list[str]:
    """Play a practice run again, and return its events: turn of the device, who acted, and what happened."""
    draw_cases = {"ex3-b": _cases_b, "ex3-e": _cases_e}[id]
    cases = draw_cases(draw(PRACTICE, id))
    if not 1 <= n <= len(cases):
        raise ValueError(message(3, "replay", n=len(cases), got=n))
    run = cases[n - 1].run
    begun = list[Any]()  # programs

    def ask(name: str, *node: Any) -> Any:
        try:
            if node:
                mine = node[0].here()
                program = functions[0] if name == SERVER else functions[1]
                begun.append(mine.alone(program)(mine))
                return f"program/{len(begun) - 1}"
            number = int(name.partition("/")[2].removesuffix("?"))
            if name.endswith("?"):
                return place_of(begun[number])
            for _ in begun[number] or ():
                return False  # it has had a turn and has not ended
            return True
        except (Exception, SystemExit) as error:
            raise Unanswered("raised", f"{type(error).__name__}: {error}") from error

    run.play(ask, {SERVER: SERVER, **dict.fromkeys(range(run.model.workers), "worker")})
    return [*run.log[-last:], *run.judge().values()]
