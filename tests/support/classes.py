"""A made class: progress files of students who know some lessons better than others."""

import json
import random
from datetime import UTC, datetime, timedelta

from fabriclab.course.progress import store
from fabriclab.course.questions import predictions, questions

LESSONS = ("00", "11", "21", "24", "31", "32", "35", "41", "51", "62")
WEAK = ("24", "35", "51")  # in which most first answers are wrong
_GAP = timedelta(minutes=2)  # between two entries of a student


def make_class(folder, n=30, seed=0, weak=WEAK):
    """Write a progress file for each of ``n`` students into a folder, and return their names."""
    rng = random.Random(seed)
    names = [f"student-{letter}{k}" for k in range(n) for letter in "ab"][:n]
    for name in names:
        content = {"format": store.FORMAT, "version": store.VERSION}
        content |= {section: {} for section in store.SECTIONS}
        now = datetime(2026, 9, 1, 9, tzinfo=UTC) + timedelta(days=rng.randrange(5))
        ability = rng.gauss(0, 0.1)
        for number in LESSONS:
            for guess in predictions().values():
                if guess.lesson.split("_")[0] == number:
                    now += _GAP
                    content["predictions"][guess.id] = _guess(rng, guess, now)
            share = (0.4 if number in weak else 0.8) + ability
            for question in questions().values():
                if question.lesson.split("_")[0] == number:
                    now += _GAP
                    section = "drills" if question.drill else "checks"
                    content[section][question.id] = _answer(rng, question, share, now)
        rate = rng.uniform(5e9, 12e9)
        content["measurements"]["copy"] = {
            "time": 2**26 / rate,
            "busbw": rate,
            "obtained": "measured",
            "when": now.isoformat(),
        }
        (folder / f"{name}.json").write_text(json.dumps(content))
    return names


def _guess(rng, guess, now):
    """Return a revealed guess that is off by a factor, with a range of a factor of two on both sides."""
    truth = (guess.lowest * guess.highest) ** 0.5 if guess.lowest > 0 else guess.highest / 2
    value = truth * 2 ** rng.gauss(0, 1.5)
    return {
        "value": value,
        "unit": guess.unit,
        "low": value / 2,
        "high": value * 2,
        "truth": truth,
        "model": None,
        "how": "computed",
        "factor": value / truth,
        "begun": now.isoformat(),
        "when": (now + _GAP / 2).isoformat(),
    }


def _answer(rng, question, share, now):
    """Return an answer that is right at first with a probability, and otherwise after a mistake of the question."""
    first = rng.random() < share
    named = []
    if not first and question.wrong:
        named = [rng.choice(question.wrong[:2]).mistake]
    return {
        "tries": 1 if first else 2,
        "right": True,
        "named": named,
        "days": [str(now.date())],
        "begun": now.isoformat(),
        "when": now.isoformat(),
    }
