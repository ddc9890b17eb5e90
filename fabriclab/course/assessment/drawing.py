"""Draw questions from the bank: topics in turn, numbers and the order of options anew for each seed."""

import random
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fabriclab import units
from fabriclab.course.assessment.bank import Item, chosen, items
from fabriclab.course.judges.answers import JUDGES, Verdict
from fabriclab.course.shown import quantity, refuse_if, with_prefix
from fabriclab.texts import text

__all__ = ["Drawn", "draw", "given_away", "letter_of"]

_LETTERS = "abcd"


@dataclass(frozen=True)
class Drawn:
    """A question as it is asked: with its numbers, or with its options in their order.

    Parameters
    ----------
    item : Item
        The question of the bank.
    given : mapping of str to str
        Values of its quantities.
    options : mapping of str to (str, str)
        Letter -> option and name of the mistake, which is empty for the right one; empty for a number.
    """

    item: Item
    given: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def asked(self) -> str:
        """The question, with its numbers filled in."""
        question = self.item.question
        return question.words.asked(question.fill(self.given)[1])

    @property
    def truth(self) -> float | str:
        """The right number in SI, computed by its formula, or the letter of the right option."""
        if not self.options:
            return float(self.item.question.key(self.given))
        return next(letter for letter, (_, mistake) in self.options.items() if not mistake)

    @property
    def key(self) -> str:
        """The right answer in words."""
        truth = self.truth
        if isinstance(truth, str):
            return f"{truth}) {self.options[truth][0]}"
        question = self.item.question
        if not question.tolerance:
            number = truth / quantity(question.unit)[1]
            unit = "" if question.unit == "1" else f" {units.printed(question.unit)}"
            return f"{number:,.10g}{unit}"
        return with_prefix(truth, question.unit)

    def judge(self, answer: object) -> Verdict:
        """Say whether an answer is right, and name the mistake if it is a known one."""
        if not self.options:
            right, said, mistake, _ = JUDGES["number"](self.item.question, answer, self.given)
            if mistake:
                said = [*said[:1], self.item.because(mistake)] if _is_named(self, mistake) else said
            return Verdict(right, [sentence for sentence in said if sentence], mistake)
        letter = letter_of(answer)
        if letter not in self.options:
            return Verdict(None, [text("check.choices", got=repr(answer))])
        mistake = self.options[letter][1]
        if not mistake:
            return Verdict(True, [])
        return Verdict(False, [self.item.because(mistake)], mistake)

    def __repr__(self) -> str:
        """Show the question and its options."""
        lines = [self.asked]
        lines += [f"  {letter}) {option}" for letter, (option, _) in self.options.items()]
        return "\n".join(lines)


def letter_of(answer: object) -> str:
    """Return the letter of an option as somebody may type it: ``b``, ``B)`` or ``b) with its words``."""
    return str(answer).strip().lower().partition(")")[0].rstrip(".")


def _is_named(drawn: Drawn, mistake: str) -> bool:
    """Return whether a mistake is one of those that the bank names, and not a general slip."""
    return mistake in {wrong.mistake for wrong in drawn.item.question.wrong}


def draw(
    seed: int | str,
    *,
    topics: Iterable[str] | None = None,
    levels: Iterable[str] | None = None,
    n: int = 12,
    seen: Iterable[str] = (),
    beside: Iterable[str] = (),
) -> list[Drawn]:
    """Draw questions, with topics as equally often as their number allows.

    Parameters
    ----------
    seed : int or str
        The same seed gives the same questions with the same numbers.
    topics, levels : str or iterable of str, optional
        Topics and levels to draw from; all unless given. `bank.TOPICS` and `bank.LEVELS` list them.
    n : int
        How many questions. No question comes twice, so there may be fewer.
    seen : iterable of str
        Numbers of questions that come last, since somebody has seen them before.
    beside : iterable of str
        Numbers of questions in the same test; those that give one of them away are left out.

    Returns
    -------
    list of Drawn
        The questions in the order in which to ask them.

    Raises
    ------
    InputRefused
        A ValueError: there is no such topic or level, or ``n`` is below 1.

    Examples
    --------
    >>> [one] = draw(7, topics="topology", levels="apply", n=1)
    >>> one.judge(one.key).right
    True
    """
    refuse_if(n < 1, "exam.n", got=n)
    pool = chosen(topics, levels)
    rng = _rng(seed, "order")
    rng.shuffle(pool)
    known = set(seen)
    kept_out = given_away(beside)
    pool.sort(key=lambda item: item.id in known)  # stable: the order within each half stays

    drawn: list[Drawn] = []
    asked = Counter[str]()  # topic -> questions so far
    while pool and len(drawn) < n:
        # Of the questions that come next, one of a topic that has been asked least.
        best = min(pool, key=lambda item: (item.id in known, asked[item.topic]))
        pool.remove(best)
        if best.id in kept_out:
            continue
        kept_out |= given_away([best.id])
        asked[best.topic] += 1
        drawn.append(_set(best, seed))
    return drawn


def given_away(asked: Iterable[str]) -> set[str]:
    """Return the numbers of the questions that must not stand beside those that were asked."""
    return {other for id in asked if id in items() for other in items()[id].not_with}


def _set(item: Item, seed: int | str) -> Drawn:
    """Choose the numbers of a question, or the order of its options."""
    rng = _rng(seed, item.id)
    question = item.question
    if question.kind == "number":
        return Drawn(item, given=rng.choice(item.settings()))
    pairs = question.choices()
    rng.shuffle(pairs)
    return Drawn(item, options=dict(zip(_LETTERS, pairs, strict=True)))


def _rng(seed: int | str, what: str) -> random.Random:
    """Return a generator that depends on the seed and on what is drawn; the same on every machine."""
    return random.Random(zlib.crc32(f"{seed}\n{what}".encode()))
