"""An exercise of three small questions, for tests of grading; as a program it is fabriclab with only this exercise."""

import functools
import json
import os
import sys

from fabriclab import __main__
from fabriclab.course import judges
from fabriclab.course.grading import commands
from fabriclab.course.grading.limits import Limits
from fabriclab.course.judges import JudgedQuestion, Proxy, Verdict


class Clock:
    """Counts how often it was read."""

    def __init__(self):
        self.time = 0

    def tick(self):
        self.time += 1
        return self.time


def double(ask, rng):
    """Two cases: half of the points for each."""
    cases = [int(x) for x in rng.integers(1, 10**6, 2)]
    right = [type(got := ask("double", x)) in (int, float) and got == 2 * x for x in cases]
    said = () if all(right) else (f"double({cases[right.index(False)]}) is wrong",)
    return Verdict(sum(right) / 2, said, "" if all(right) else "array sent once")


def three(ask, rng):
    clock = Clock()
    got = ask("three", Proxy(clock, ("tick",)))
    return Verdict(float(got == 3 and clock.time == 3), ("The clock was read.",))


def name(ask, rng):
    return Verdict(float(len(ask("name")) == 2))  # surprised by a number


def release(key, student):
    rng = judges.draw(f"{key}{student}", "data")
    return {
        "size": int(rng.integers(1, 10**9)),
        "faults": [int(n) for n in rng.integers(1, 10**9, 3)],
    }


QUESTIONS = {
    f"ex9-{letter}": JudgedQuestion(
        f"ex9-{letter}", (judge.__name__,), points, judge, lambda rng: None
    )
    for letter, judge, points in (("a", double, 10), ("b", three, 10), ("c", name, 5))
}
ANSWERS = {
    "ex9-setup": "import numpy as np\nfactor = 2",
    "ex9-a": "def double(x):\n    ### BEGIN SOLUTION\n    return np.int64(factor) * x\n    ### END SOLUTION",
    "ex9-b": "def three(clock):\n    ### BEGIN SOLUTION\n    while clock.tick() < 3:\n        pass\n    return 3"
    "\n    ### END SOLUTION",
    "ex9-c": "### BEGIN SOLUTION\ndef name(): return 'ab'\n### END SOLUTION",
}


def impatient(wall_s):
    """Return limits whose default for waiting is so short [s]; no test is to wait a minute for code that sleeps."""
    return functools.partial(Limits, wall_s=wall_s)


def cell(id, source):
    solution = id != "ex9-setup"
    marks = {
        "schema_version": 3,
        "grade": False,
        "locked": not solution,
        "solution": solution,
        "grade_id": id,
    }
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": id,
        "metadata": {"nbgrader": marks},
        "outputs": [],
        "source": source,
    }


def book(*more, **answers):
    """Return a notebook with all answers right but those that are given: ``a="..."``, or None to leave a cell out."""
    sources = ANSWERS | {f"ex9-{name}": source for name, source in answers.items()}
    cells = [cell(id, source) for id, source in sources.items() if source is not None]
    return {"cells": [*cells, *more], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def hand_in(folder, student, made):
    """Write a notebook as a student's."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{student}.ipynb").write_bytes(
        made if isinstance(made, bytes) else json.dumps(made).encode()
    )


if __name__ == "__main__":
    judges.questions = lambda: QUESTIONS
    if "WALL_S" in os.environ:
        commands.Limits = impatient(float(os.environ["WALL_S"]))
    sys.exit(__main__.main())
