"""The helper of tests that read texts: it holds figures, and leaves the words to their editor."""

import pytest

from fabriclab import texts
from support.prose import figures, sentence, states

TEXT = (
    'Two cards take **0.5 to 0.6** [us](glossary.md#us "1 us is 1,000 ns."), of 16, 9 and 5.5 W; '
    "one in three, 1,024 kB, 15%."
)


@pytest.mark.parametrize(
    "said",
    [
        TEXT,
        "For 2 boards: 15 % of 1024 kB. A third takes 5.5 W, others 16 or 9 W, all of them 0.5 and 0.6 us.",
    ],
)
def test_figures_are_found_whatever_words_stand_around_them(said):
    states(said, "2", "0.5 us", "0.6 us", "16 W", "9 W", "5.5 W", "1/3", "1,024 kB", "15 %")
    states("A sixth, about five per cent, seven GPUs.", "1/6", "5 %", "7 GPUs")


@pytest.mark.parametrize(
    "wrong",
    ["3", "0.7 us", "5 W", "6 W", "0.5 W", "1/4", "24 kB", "1,024 kBit", "1,000 ns", "15 us"],
)
def test_a_figure_that_is_not_there_is_missed(wrong):
    with pytest.raises(AssertionError, match=wrong):
        states(TEXT, wrong)


def test_figures_come_in_their_order():
    assert figures("Two of 1,024 in 0.5 s, E12 and 4x4") == ["2", "1024", "0.5"]


def test_a_row_of_the_table_is_found_with_its_fields(monkeypatch):
    rows = {"row": "{who} has {n:,} of {t:time}.", "twice": "{n} and `{n}`: {end}."}
    monkeypatch.setattr("support.prose.table", lambda: rows)
    said = texts.fill(rows["row"], who="ann", n=1024, t=0.5)
    assert sentence("row", n=1024).search(f"Now {said}")["who"] == "Now ann"
    assert sentence("row", t=0.5).fullmatch(said).groupdict() == {"who": "ann", "n": "1,024"}
    assert not sentence("row", n=1023).search(said) and not sentence("row", t=0.6).search(said)
    assert sentence("twice").search("2 and 2: 0.5 s.")["end"] == "0.5 s"
    assert not sentence("twice").search("2 and 3: 0.5 s.")
    with pytest.raises(AssertionError, match="nobody"):
        sentence("row", nobody=1)
