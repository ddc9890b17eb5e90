"""Exercise 3, the judges of whole parameter servers: one worker (b), and many with a bound and with failures (e)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabriclab.course.judges import PRACTICE, Ask, Rng, Unanswered, Verdict, draw
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
    **dict.fromkeys(("lost", "stale", "overrun"), "completion taken for delivery"),
}
_ITS_OWN = ("raised", "value", "exited", "asked")  # trouble that one run may have and another not
_INSTEAD = {
    "calm": {"stale": "staleness not bounded"},
    "killed": {"stale": "staleness not bounded", "hangs": "waits for the dead"},
    "lost": dict.fromkeys(
        ("hangs", "lost", "stale", "short", "nothing", "overrun"), "failed completion ignored"
    ),
}


def stops(problem: Unanswered | None) -> bool:
    """Return whether what stopped a run would stop all others, too."""
    return problem is not None and (
        problem.problem not in _ITS_OWN or "NotImplementedError" in problem.said
    )


def seed(rng: Rng) -> int:
    """Draw the seed of a run."""
    return int(rng.integers(2**31))


def _cases_b(rng: Rng) -> list[tuple[str, TrainingRun]]:
    """Return six runs of one worker."""
    return [("one", TrainingRun(seed(rng), 1, int(rng.integers(6, 11)))) for _ in range(6)]


def _losses(rng: Rng, workers: int) -> list[tuple[int, int, bool]]:
    """Return of which requests the answer is lost, and whether they are done: for each worker one of both."""
    first, second = rng.integers(0, 4, workers), rng.integers(4, 8, workers)
    done = rng.permuted([True, True, False])
    lost = [(w, int(first[w]) | int(done[w]), bool(done[w])) for w in range(workers)]
    return lost + [(w, int(second[w]) | int(not done[w]), not done[w]) for w in range(workers)]


def _cases_e(rng: Rng) -> list[tuple[str, TrainingRun]]:
    """Return runs with bounds, with a worker killed, and with a lost answer."""
    out = list[tuple[str, TrainingRun]]()
    for i, kind in enumerate(("calm",) * 4 + ("killed",) * 4 + ("lost",) * 2):
        workers, steps, bound = (
            3,
            int(rng.integers(4, 6 + (kind != "calm"))),
            int(rng.integers(i in (2, 3), 3)),
        )
        one = int(rng.integers(workers))
        more: dict[str, Any] = {"slow": one if i < 2 else SERVER} if kind == "calm" else {}
        if kind == "killed":
            more = {
                "dies": one,
                "dies_at": int(rng.integers(12, 90)),
                "pushes": int(rng.integers(0, 6)),
            }
        if kind == "lost":
            more = {"loses": _losses(rng, workers)}
        out.append((kind, TrainingRun(seed(rng), workers, steps, bound, **more)))
    return out


def played(
    ask: Ask,
    cases: Sequence[tuple[str, TrainingRun]],
    functions: tuple[str, str],
    id: str,
    shares: Mapping[str, float],
    sets: Mapping[str, int],
) -> Verdict:
    """Play the runs of a question and judge what came of them; a set of runs of a kind counts when all are right."""
    said, mistakes, bad = list[str](), list[str](), {kind: set[int]() for kind in shares}
    problems, stopped = list[Unanswered](), False
    for i, (kind, run) in enumerate(cases):
        part = sum(one == kind for one, _ in cases[:i]) % sets[kind]
        if part in bad[kind]:
            continue
        faults: Mapping[str, str] = {}
        if not stopped:
            run.play(
                ask, {SERVER: functions[0], **dict.fromkeys(range(run.model.workers), functions[1])}
            )
            faults = run.judge()
            problems += [run.problem] if run.problem else []
            stopped = stops(run.problem)
        if faults or stopped:
            bad[kind].add(part)
        if faults:
            first, named = next(iter(faults)), _NAMED | _INSTEAD.get(kind, {})
            mistakes += [named[first]] if first in named else []
            if not said:
                said = [
                    message(3, "run", n=i + 1, kind=message(3, f"kind.{kind}")),
                    *list(faults.values())[:2],
                ]
                said += [misconception(id, named[first])] if first in named else []
                said += [message(3, "again", id=id, functions=", ".join(functions), n=i + 1)]
    if (stopped or len(problems) == sum(sets.values())) and all(
        len(bad[kind]) == sets[kind] for kind in sets
    ):
        raise problems[-1]
    whole = sum(share * (1 - len(bad[kind]) / sets[kind]) for kind, share in shares.items())
    return Verdict(round(whole, 9), tuple(dict.fromkeys(said)), (mistakes or [""])[0])


@register("question", "ex3-b", example=lambda rng: replay)
def one_worker(ask: Ask, rng: Rng) -> Verdict:
    """Judge a server with one worker: nothing torn, lost, doubled or copied, and every update seen at once."""
    return played(ask, _cases_b(rng), ("serve", "work"), "ex3-b", {"one": 1.0}, {"one": 2})


# ex3-e -----------------------------------------------------------------------------------------------------------


def finish(times: Sequence[Sequence[float]], bound: int) -> float:
    """Return when the last of the workers has done its last step: none is ever more than ``bound`` steps ahead."""
    ends = list[list[float]]()
    for k in range(len(times[0])):
        start = [
            max(ends[-1][w], max(ends[k - 1 - bound])) if k > bound else ends[-1][w] if k else 0.0
            for w in range(len(times))
        ]
        ends.append([t + row[k] for t, row in zip(start, times, strict=True)])
    return max(ends[-1])


def _times(rng: Rng, steady: bool) -> list[list[float]]:
    """Return how long each step of each worker takes [s]: by chance, or one worker steadily three times as long."""
    workers, steps = int(rng.integers(3, 6)), int(rng.integers(12, 20))
    if not steady:
        return [[float(t) for t in row] for row in rng.exponential(1, (workers, steps))]
    slow = int(rng.integers(workers))
    return [
        [float(rng.uniform(0.9, 1.1)) * (3 if w == slow else 1) for _ in range(steps)]
        for w in range(workers)
    ]


class PacePart(QuestionPart):
    """The time that a bound on staleness gives, in four cases; the steps of a worker are steady in every other one."""

    def __init__(self, rng: Rng) -> None:
        self.steady = (True, False, True, False)
        self.asked = [_pace_case(rng, steady) for steady in self.steady]
        calls = [Call("pace", case) for case in self.asked]
        super().__init__("ex3-e", "pace", 1.0, calls, sets=2)

    def set_of(self, case: int) -> int:
        """Return which set a case is in: each has both kinds."""
        return case // 2

    def read(self, case: int, value: Any) -> float:
        """Return the time [s]."""
        return number(value, "time")

    def is_right(self, case: int, answer: float) -> bool:
        """Return whether the time is right."""
        return near(answer, finish(*self.asked[case]), 0.01)

    def mistakes(self, case: int, answer: float) -> list[str]:
        """Return the mistakes that give this time; a steadily slow worker is not made faster by a bound."""
        times, bound = self.asked[case]
        mean = sum(map(sum, times)) / len(times)
        known = {
            "bound ignored": finish(times, 0),
            "bound off by one": finish(times, bound + 1),
            "bound off by one/less": finish(times, bound - 1),
            "nobody waits": finish(times, 10**6),
            "staleness speeds up a slow worker": mean,
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
    """Judge the part; a function that stops with an error in one case earns nothing."""
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
    """Return times and a bound that no other bound within one gives the same time with."""
    while True:
        times, bound = _times(rng, steady), int(rng.integers(1, 4))
        other = [finish(times, b) for b in (0, bound - 1, bound + 1, 10**6)]
        apart = [*(time / finish(times, bound) for time in other), other[2] / other[3]]
        if steady or min(abs(ratio - 1) for ratio in apart) > 0.02:
            return times, bound


@register(
    "question",
    "ex3-e",
    example=lambda rng: replay,
)
def many_workers(ask: Ask, rng: Rng) -> Verdict:
    """Judge bounded staleness, a worker that is killed, a lost answer, and what a bound is good for."""
    cases, paces = _cases_e(rng), draw("pace", str(rng.integers(2**32)))
    trouble: Unanswered | None = None
    whole = Verdict(0.0)
    try:
        whole = played(
            ask,
            cases,
            ("server", "worker"),
            "ex3-e",
            {"calm": 15 / 35, "killed": 8 / 35, "lost": 7 / 35},
            {"calm": 2, "killed": 2, "lost": 1},
        )
    except Unanswered as error:
        trouble = error
    pace = _paced(ask, PacePart(paces))
    if trouble and not pace.part:
        raise trouble
    said = [*([trouble.said] if trouble else whole.said), *pace.said]
    return Verdict(
        part=round(whole.part + pace.part * 5 / 35, 9),
        said=tuple(dict.fromkeys(said)),
        mistake=whole.mistake or pace.mistake,
    )


def replay(id: str, functions: Sequence[Callable[..., Any]], n: int, last: int = 30) -> list[str]:
    """Play a practice run once more and return what happened in it: turn of the device, who, and what."""
    cases = {"ex3-b": _cases_b, "ex3-e": _cases_e}[id](draw(PRACTICE, id))
    if not 1 <= n <= len(cases):
        raise ValueError(message(3, "replay", n=len(cases), got=n))
    run, begun = cases[n - 1][1], list[Any]()

    def ask(name: str, *node: Any) -> Any:
        try:
            if node:
                mine = node[0].here()
                begun.append(mine.alone(functions[name != SERVER])(mine))
                return f"program/{len(begun) - 1}"
            return next((False for _ in begun[int(name.partition("/")[2])] or ()), True)
        except (Exception, SystemExit) as error:
            raise Unanswered("raised", f"{type(error).__name__}: {error}") from error

    run.play(ask, {SERVER: SERVER, **dict.fromkeys(range(run.model.workers), "worker")})
    return [*run.log[-last:], *run.judge().values()]
