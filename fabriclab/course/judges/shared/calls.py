"""Call a learner's functions in this process, with copies of the arguments and with limits on the time."""

import contextlib
import copy
import decimal
import fractions
import itertools
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fabriclab.course.judges import Ask, Proxy, Unanswered
from fabriclab.texts import text

_PATIENCE = 2.0  # processor time for one call of a learner's function [s]
_WAITING = 5  # times as much wall-clock time, because other programs may use the cores
_AGAIN = 0.05  # until the next alarm, if the code continues nevertheless [s]


class _Late(BaseException):
    """A call took too long; code that catches this gets it again, see `_alarm`."""

    def __init__(self, problem: str) -> None:
        """Store the problem: ``slow`` for processor time, ``waits`` for wall-clock time."""
        super().__init__(problem)
        self.problem = problem


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Stop the code that runs within when its processor time or its waiting time is over, if the system can do that.

    A bare ``except:`` in a loop catches an alarm. So each alarm is raised again some lines later, one line later than
    the time before, and sooner or later that line is outside of every ``try``. This does not stop code whose handlers
    call it again, deeper and deeper; a learner has to interrupt such code, and in grading its process ends when its
    time is used up.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    alarms = itertools.count()
    over = False
    caller = sys._getframe(2)  # the frame that called __enter__, which called this

    def stop(number: int, frame: types.FrameType | None) -> None:
        lines = next(alarms)
        problem = "waits" if number == signal.SIGALRM else "slow"

        def again(frame: types.FrameType, event: str, value: object) -> Any:
            nonlocal lines
            if over:
                return None
            if event == "line":
                lines -= 1
                if lines < 0:
                    raise _Late(problem)
            return again

        if over:
            return
        sys.settrace(lambda *_: None)
        while frame is not None and frame is not caller:  # a debugger may trace the caller
            if not frame.f_globals.get("__name__", "").startswith("fabriclab."):
                frame.f_trace = again
            frame = frame.f_back
        raise _Late(problem)

    trace = sys.gettrace()
    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    worked = signal.setitimer(signal.ITIMER_PROF, _PATIENCE, _AGAIN)
    waited = signal.setitimer(signal.ITIMER_REAL, _WAITING * _PATIENCE, _AGAIN)
    try:
        yield
    finally:
        over = True
        sys.settrace(trace)
        signal.setitimer(signal.ITIMER_PROF, *worked)
        signal.setitimer(signal.ITIMER_REAL, *waited)
        for number, handler in before.items():
            if handler is not None:  # a handler that Python has not installed cannot be restored
                signal.signal(number, handler)


def asker(names: tuple[str, ...], functions: list[Callable[..., Any]]) -> Ask:
    """Return ``ask``, which runs a call of a learner's function in this process.

    Functions are found by their names or, if none has a name that is asked for, by their places. If as many functions
    come as are asked for, those without such a name, as a lambda, are found by their places, too.
    """
    if strange := [f for f in functions if not callable(f)]:
        raise Unanswered(problem="kind", said=text("function.kind", got=f"{strange[0]!r:.60}"))
    known = {getattr(f, "__name__", ""): f for f in functions}
    places = dict(zip(names, functions, strict=False))
    if not known.keys() & set(names):
        known = places
    elif len(functions) == len(names):
        unnamed = {n: f for n, f in places.items() if getattr(f, "__name__", "") not in names}
        known = unnamed | known

    gone: dict[str, Unanswered] = {}  # functions that ran too long, which are not called again

    def ask(name: str, *arguments: Any) -> Any:
        if name in gone:
            raise gone[name]
        if name not in known:
            raise _unanswered(name, "missing")
        worked, waited = time.process_time(), time.perf_counter()
        try:
            with _alarm():
                found = kept(called(known[name], *map(handed, arguments)), known)
            worked = time.process_time() - worked
            waited = time.perf_counter() - waited
            if worked > _PATIENCE:
                raise _Late("slow")
            if waited > _WAITING * _PATIENCE:
                raise _Late("waits")
        except _Late as error:
            gone[name] = _unanswered(name, error.problem)
            raise gone[name] from None
        except KeyboardInterrupt:
            gone[name] = _unanswered(name, "interrupted")
            raise gone[name] from None
        except (Exception, SystemExit) as error:
            problem = "stub" if isinstance(error, NotImplementedError) else "raised"
            raise _unanswered(name, problem, error=type(error).__name__, words=str(error)) from None
        return found

    return ask


def _unanswered(name: str, problem: str, **words: str) -> Unanswered:
    limit = _WAITING * _PATIENCE if problem == "waits" else _PATIENCE
    return Unanswered(problem, text(f"ex.{problem}", name=name, limit=f"{limit:g}", **words))


def handed(argument: Any) -> Any:
    """Return a copy of an argument or, for a proxy, an object with its methods."""
    return argument.here() if isinstance(argument, Proxy) else copy.deepcopy(argument)


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; if its first argument has the method ``alone``, the function gets variables of its own."""
    return getattr([*arguments, 0][0], "alone", lambda same: same)(function)(*arguments)


def kept(value: Any, names: dict[str, Any]) -> Any:
    """Return a plain value or, for a generator, the name of a new function in ``names``.

    Each call of that function continues the generator, and returns whether it has ended. A function whose name ends
    in a question mark besides returns where the generator stands.
    """
    if not isinstance(value, types.GeneratorType):
        return plain(value)
    name = f"{value.__name__}/{len(names)}"
    names[name] = lambda: next((False for _ in value), True)
    names[f"{name}?"] = lambda: place_of(value)
    return name


def place_of(program: Any) -> list[list[Any]]:
    """Return the name of the function and the line where a generator waits, and the same of each that it waits for."""
    place = []
    while isinstance(program, types.GeneratorType) and program.gi_frame is not None:
        place.append([program.__name__, program.gi_frame.f_lineno])
        program = program.gi_yieldfrom
    return place


def plain(value: Any) -> Any:
    """Convert a value to plain numbers, lists and dicts, as a judge gets it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, fractions.Fraction | decimal.Decimal):
        return float(value)
    for kind in (str, float, int):  # because a learner's own class may compare or print as it likes
        if isinstance(value, kind) and not isinstance(value, bool):
            return kind(value) if kind is not str else str.__str__(value)
    return value
