"""Parts of a question whose truth and known mistakes are Python functions, side by side in one class.

This is the base class for judges of own exercises; docs/write_an_exercise.md has an example.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from fabriclab import units
from fabriclab.course.judges import Rng
from fabriclab.course.judges.shared.numbers import KIND_OF, UNIT, near, number
from fabriclab.course.judges.shared.parts import RECOGNISED, Call, QuestionPart, shown
from fabriclab.course.questions import files
from fabriclab.texts import text

_DRAWS = 100  # illustrative: how often cases are drawn anew until they tell all mistakes apart
_EXACT_DIGITS = 12  # illustrative: so many tell apart what an exact answer and a slip give
_Method = TypeVar("_Method", bound=Callable[..., Any])


def slip(mistake: str) -> Callable[[_Method], _Method]:
    """Return a decorator for a method that returns what somebody with a known mistake returns.

    The method's docstring is the sentence that a learner reads about it.

    Parameters
    ----------
    mistake : str
        Short name of the mistake, as the page of the class counts it.

    Raises
    ------
    ValueError
        If there is no name, as in a bare ``@slip``.
    """
    if not isinstance(mistake, str) or not mistake:
        raise ValueError('a slip needs a short name of the mistake: @slip("arrivals forgotten")')

    def mark(method: _Method) -> _Method:
        method._mistake = mistake  # type: ignore[attr-defined]
        return method

    return mark


class FunctionPart(QuestionPart):
    """What a function must return: the true function, known mistakes, and how cases are drawn, in one class.

    A subclass has the attributes below, the methods `true` and `draw`, and a method with `slip` for each known mistake.
    Cases are drawn until no known mistake and no constant answer is right in a whole set, if `draw` can do that; so
    none of them earns points.

    Parameters
    ----------
    rng : Generator
        Draws the cases: from the teacher's key in grading, from the public practice key in ``fl.check``.
    share : float
        Fraction of the question's points that the part earns. [0..1]
    """

    question: str  # id, such as queues-a
    function: ClassVar[str]  # name of the function that a learner writes, and of the part
    unit: ClassVar[str] = "1"  # of what it returns: "s", "B", "B/s", or "1" for a plain number
    within: ClassVar[float] = 0.01  # illustrative: relative error that counts as right; 0: exact
    n_cases: ClassVar[int] = 4  # illustrative
    n_sets: ClassVar[int] = 2  # a set counts only if all its cases are right

    def __init_subclass__(cls, **more: Any) -> None:
        """Note the sentences about the mistakes, which feedback and the pages of the class show."""
        super().__init_subclass__(**more)
        cls._check()
        for mistake, method in cls.slips().items():
            sentence = " ".join(inspect.cleandoc(method.__doc__ or "").split())
            files.tell(cls.question, mistake, sentence)

    @classmethod
    def _check(cls) -> None:
        """Raise if an attribute has a value that only grading would stumble over, or two slips have one name."""
        units.choice(cls.unit, f"{cls.__name__}: unit", KIND_OF, exact=True)
        if isinstance(cls.within, bool) or not isinstance(cls.within, int | float):
            raise ValueError(f"{cls.__name__}: within must be a number, got {cls.within!r:.40}")
        named = [method._mistake for method in vars(cls).values() if hasattr(method, "_mistake")]
        twice = sorted({mistake for mistake in named if named.count(mistake) > 1})
        if twice:
            raise ValueError(f"{cls.__name__}: two slips have the name {twice[0]!r}")

    def __init__(self, rng: Rng, share: float = 1.0) -> None:
        for _ in range(_DRAWS):
            cases = [self.draw(rng) for _ in range(self.n_cases)]
            if not self.unfair(cases):
                break
        calls = [Call(self.function, case) for case in cases]
        question, name = self.question, self.function
        super().__init__(question, name, share, calls, sets=self.n_sets)

    def true(self, *arguments: Any, **named: Any) -> float:
        """Return what is right, in SI."""
        raise NotImplementedError

    def draw(self, rng: Rng) -> tuple[Any, ...]:
        """Return the arguments of a call."""
        raise NotImplementedError

    @classmethod
    def example(cls, rng: Rng) -> tuple[Any, ...]:
        """Return arguments to try the function on, which are never used for grading."""
        return cls.draw(cls.__new__(cls), rng)

    @classmethod
    @functools.cache  # it is looked up for each case that is drawn
    def slips(cls) -> Mapping[str, Callable[..., Any]]:
        """Return the methods that make a known mistake, by its name, in their order."""
        found = {}
        for base in reversed(cls.__mro__):
            for method in vars(base).values():
                if hasattr(method, "_mistake"):
                    found[method._mistake] = method
        return found

    def slipped(self, mistake: str, arguments: Sequence[Any]) -> float | None:
        """Return what somebody with a mistake returns, or None if the mistake leads to no number."""
        method = self.slips()[mistake]
        try:
            slipped = method(self, *arguments)
            if slipped is None:
                raise TypeError(f"{type(self).__name__}.{method.__name__} returns None")
            number = float(slipped)
        except (ArithmeticError, ValueError):
            return None
        return number if math.isfinite(number) else None  # arrays of numpy divide by 0 to inf

    def unfair(self, cases: Sequence[Sequence[Any]]) -> str:
        """Return which known mistake, or ``constant``, is right in a whole set of cases; empty if none is."""
        truths = [float(self.true(*case)) for case in cases]
        wrong = {
            mistake: [self.slipped(mistake, case) for case in cases] for mistake in self.slips()
        }
        for n in range(self.n_sets):
            places = range(n, len(cases), self.n_sets)
            for mistake, found in wrong.items():
                if all(self._fits(found[place], truths[place]) for place in places):
                    return mistake
            for constant in truths:
                if all(self._fits(constant, truths[place]) for place in places):
                    return "constant"
        return ""

    def _fits(self, got: float | None, wanted: float) -> bool:
        return got is not None and near(got, wanted, self.within)

    def _truth(self, case: int) -> float:
        return float(self.true(*self.calls[case].arguments))

    def _shown(self, value: float) -> str:
        if not self.within:  # rounded, a wrong number could look like the right one
            return f"{value:.{_EXACT_DIGITS}g} {UNIT[KIND_OF[self.unit]]}".strip()
        return shown(value, KIND_OF[self.unit])

    def read(self, case: int, value: Any) -> float:
        """Return the number that the function returned, in SI; raise Misread if there is none."""
        return number(value, KIND_OF[self.unit])

    def is_right(self, case: int, answer: float) -> bool:
        """Return whether a number is right."""
        return self._fits(answer, self._truth(case))

    def mistakes(self, case: int, answer: float) -> list[str]:
        """Return the known mistakes that lead to a wrong number."""
        arguments = self.calls[case].arguments
        fitting = []
        for mistake in self.slips():
            slipped = self.slipped(mistake, arguments)
            if slipped is not None and near(answer, slipped, max(self.within, RECOGNISED)):
                fitting.append(mistake)
        return fitting

    def compared(self, case: int, answer: float) -> tuple[str, str]:
        """Return the number that was returned, and the right one."""
        return self._shown(answer), self._shown(self._truth(case))

    def seen(self, case: int, answer: float) -> str:
        """Return a sentence with the call, the number, and on which side of the right one it is."""
        side = "ex.high" if answer > self._truth(case) else "ex.low"
        return text(side, call=self.written(case), got=self._shown(answer))

    def off(self, case: int, answer: float) -> str:
        """Return a sentence with the call, the number, and the right one."""
        got, truth = self.compared(case, answer)
        key = "ex.off" if self.within else "ex.off_exact"
        percent = f"{100 * self.within:g}"
        return text(key, call=self.written(case), got=got, truth=truth, percent=percent)
