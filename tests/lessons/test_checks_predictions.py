"""Predictions are stored before the reveal, kept after it, and compared with a factor."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import views
from fabriclab.core.result import Result
from fabriclab.course.checks import (
    InputRefused,
    after_guess,
    check,
    ledger,
    predict,
    remember,
    reveal,
)
from fabriclab.course.checks.predictions import _asking, predictions
from fabriclab.course.progress.store import held
from fabriclab.texts import text
from support.prose import figures, sentence, states


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.delenv("FABRICLAB_REVEAL", raising=False)
    monkeypatch.delenv("FABRICLAB_TEXT", raising=False)
    return tmp_path / "mine.json"


def copied(rate=9.8e9, obtained="measured", size=2**26):
    return Result(
        "copy", obtained, [size / 4, size], [size / 4 / rate, size / rate], source="a test"
    )


# By hand


def test_a_prediction_is_stored_and_compared():
    stored = str(predict("00-copy", 10, "GB/s", low=3, high=30))
    assert sentence("predict.stored").fullmatch(stored) and figures(stored) == ["10", "3", "30"]
    states(stored, "10 GB/s")
    whole = {"said": "10 GB/s", "how": text("how.measured"), "truth": "9.80 GB/s"}
    assert str(reveal("00-copy", copied())).split("\n") == [
        text("reveal.compared", **whole, verdict=text("reveal.spot_on")),
        text("reveal.held", low=3, high="30 GB/s"),
    ]
    entry = held()["predictions"]["00-copy"]
    assert entry["factor"] == pytest.approx(10 / 9.8) and entry["truth"] == pytest.approx(9.8)
    assert (entry["unit"], entry["how"], entry["low"], entry["high"]) == (
        "GB/s",
        "measured",
        3.0,
        30.0,
    )
    assert held()["measurements"]["copy"]["busbw"] == pytest.approx(9.8e9)


@pytest.mark.parametrize(
    ("value", "way", "factor"),
    [
        (0.8, "spot_on", None),
        (0.7 * 1.149, "spot_on", None),
        (0.7 * 1.16, "high", "1.2"),
        (0.7 / 1.16, "low", "1.2"),
        (5.6, "high", "8.0"),
        (0.7 / 8, "low", "8.0"),
        (89.6, "high", "128"),
        (0.7 * 9.96, "high", "10"),
    ],
)
def test_verdicts(value, way, factor):
    predict("31-hall", value, "s")
    verdict = text(f"reveal.{way}", factor=factor)
    told = sentence("reveal.compared", how=text("how.computed"), truth="0.700 s", verdict=verdict)
    assert told.fullmatch(str(reveal("31-hall", 0.7, "s")))


def test_the_range_may_miss():
    predict("31-hall", 2, "s", low=1, high=3)
    assert text("reveal.missed", low=1, high="3 s") in str(reveal("31-hall", "700 ms"))
    predict("edge", 2, "s", low=0.7, high=3)
    assert text("reveal.held", low=0.7, high="3 s") in str(reveal("edge", 0.7))


def test_the_range_comes_in_any_unit():
    predict("31-hall", 0.7, "s", low="500 ms", high="0,9")
    assert (held()["predictions"]["31-hall"]["low"], held()["predictions"]["31-hall"]["high"]) == (
        0.5,
        0.9,
    )
    assert figures(str(predict("31-hall", 0.5, "s", low=0.5, high=0.5))) == ["0.5", "0.5", "0.5"]


@pytest.mark.parametrize("asked", predictions().values(), ids=lambda asked: asked.id)
def test_a_form_begins_with_a_bet_inside_its_ruler(asked):
    ends = asked.lowest, asked.highest
    values = _asking(asked.id, asked.unit, ends, None, None).values
    assert ends[0] < values["low"] < values["value"] < values["high"] < ends[1]
    # less than half of the ruler
    assert values["high"] / values["low"] < (ends[1] / ends[0]) ** 0.5


def test_a_truth_comes_in_any_form():
    for number, truth in enumerate(
        [(0.7,), (700, "ms"), ("700 ms",), ("700", "ms"), ("0,7 s",), (np.float64(0.7),)]
    ):
        predict(f"a{number}", 0.7, "s")
        assert reveal(f"a{number}", *truth).data["truth"] == pytest.approx(0.7)
    predict("bits", 400, "Gb/s")
    assert reveal("bits", 5e10).data["truth"] == pytest.approx(400)
    predict("time", 1, "ms")
    assert reveal("time", copied()).data["truth"] == pytest.approx(2**26 / 9.8e9 * 1e3)
    predict("share", 50, "%")
    assert reveal("share", 0.41).data["truth"] == pytest.approx(41)


def test_a_model_is_compared_too():
    predict("31-hall", 0.7, "s")
    shown = reveal("31-hall", 0.7, "s", model=1.4)
    verdict = text("reveal.high", factor="2.0")
    assert text("reveal.model", model="1.40 s", verdict=verdict) in str(shown)
    assert shown.data["model"] == pytest.approx(1.4)


@pytest.mark.parametrize("arguments", [(None,), (None, "GB/s")])
def test_no_idea_is_welcome(arguments):
    shown = predict("00-copy", *arguments)
    assert (shown.data["value"], shown.data["low"], shown.data["high"]) == (None, 0.1, 1000.0)
    said = text("predict.nothing", low="0.1", high="1000", unit="GB/s")
    assert str(shown) == text("predict.no_idea", said=said)
    truth = {"how": text("how.measured"), "truth": "9.80 GB/s"}
    assert str(reveal("00-copy", copied())) == text("reveal.no_idea", **truth)


def test_it_may_change_until_the_reveal_and_not_after():
    predict("00-copy", 10, "GB/s")
    predict("00-copy", "20 GB/s")
    assert held()["predictions"]["00-copy"]["value"] == 20.0
    reveal("00-copy", copied())
    assert str(predict("00-copy", 9.8, "GB/s")) == text("predict.kept", said="20 GB/s")
    assert held()["predictions"]["00-copy"]["value"] == 20.0


def test_the_reveal_waits():
    waiting = reveal("00-copy", copied())
    said = str(waiting)
    assert sentence("reveal.first").fullmatch(said)["call"].startswith('fl.predict("00-copy"')
    assert "\n" not in said
    assert "9.8" not in str(waiting) and waiting.state == "wait"
    assert held()["predictions"] == held()["measurements"] == {}
    truth = {"how": text("how.measured"), "truth": "9.80 GB/s"}
    assert text("reveal.skipped", **truth) in str(reveal("00-copy", copied(), anyway=True))
    assert held()["predictions"]["00-copy"]["skipped"] is True
    assert text("predict.skipped") in str(predict("00-copy", 10, "GB/s"))


def test_a_number_says_how_it_came_about():
    shown = reveal("00-copy", "9.8 GB/s", anyway=True, obtained="published")
    assert str(shown) == text("reveal.skipped", how=text("how.published"), truth="9.80 GB/s")
    with pytest.raises(
        ValueError, match="obtained must be one of computed, measured, published, stored"
    ):
        reveal("00-copy", "9.8 GB/s", anyway=True, obtained="guessed")


def test_teachers_and_servers_skip_it(monkeypatch):
    monkeypatch.setenv("FABRICLAB_REVEAL", "1")
    assert f"{text('how.measured')} 9.80 GB/s" in str(reveal("00-copy", copied()))
    assert held()["predictions"] == {}
    monkeypatch.setenv("FABRICLAB_REVEAL", "0")
    assert sentence("reveal.first").fullmatch(str(reveal("00-copy", copied())))


def test_a_prediction_for_a_later_lesson_says_which():
    stored = str(predict("31-hall", 0.5, "s", opens="31"))
    assert stored == text("predict.envelope", said="0.5 s", lesson="31")
    whole = {"said": "0.5 s", "how": text("how.computed"), "truth": "0.700 s"}
    verdict = text("reveal.low", factor="1.4")
    assert str(reveal("31-hall", 0.7, "s")) == text("reveal.compared", **whole, verdict=verdict)


def test_only_own_measurements_are_kept():
    remember(copied(), "my copy")
    remember(copied(obtained="stored"), "theirs")
    remember(copied(obtained="published"), "paper")
    kept = held()["measurements"]
    assert list(kept) == ["my copy", "theirs"]
    assert (kept["my copy"]["size"], kept["my copy"]["n_ranks"]) == (2**26, 1)
    remember(Result("copy", "measured", [8], [1e-6], notes=("the machine was shared",)))
    assert held()["measurements"]["copy"]["notes"] == ["the machine was shared"]
    # nothing moves, so there is no rate
    remember(Result("all_reduce", "measured", [8], [1e-6], n_ranks=1))
    assert list(held()["measurements"]) == ["my copy", "theirs", "copy"]


def test_the_ledger_keeps_changes():
    ledger("one root adds everything", 93.5, lesson="31")
    shown = ledger("no overlap", 5.29, "35")
    assert shown.rows == (("one root adds everything", "93.5", "31"), ("no overlap", "5.29", "35"))
    kept = ledger().data["no overlap"]
    assert (kept["step"], kept["lesson"]) == (5.29, "35")
    assert ledger("no overlap", "5290 ms").data["no overlap"]["step"] == pytest.approx(5.29)
    for step in (None, 0, -1.0, float("nan"), "5 GB"):
        with pytest.raises(InputRefused, match="finite number above 0"):
            ledger("nothing", step)
    assert list(held()["ledger"]) == ["one root adds everything", "no overlap"]


# Laws


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.sampled_from(["s", "ms", "us"]))
def test_the_factor_does_not_depend_on_units(said, truth, unit):
    predict(f"{said} {truth} {unit}", said, "ms")
    scale = {"s": 1e-3, "ms": 1.0, "us": 1e3}[unit]
    entry = reveal(f"{said} {truth} {unit}", truth * scale, unit).data
    assert entry["factor"] == pytest.approx(said / truth) and entry["truth"] == pytest.approx(truth)


# Refusals


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3,), "Which unit"),
        (("3",), "Which unit"),
        ((3, "Gbps"), "Gb/s.*GB/s"),
        ((3, "lumps"), "lumps"),
        ((-3, "s"), "above 0"),
        ((0, "s"), "above 0"),
        ((float("nan"), "s"), "finite"),
        ((True, "s"), "finite"),
        (("fast", "s"), "one number"),
        ((3, "s", 4, 5), "must rise"),
        ((3, "s", 1, 2), "must rise"),
        ((3, "s", 0, 5), "must rise"),
        ((3, "s", 1), "two ends"),
        ((3, "s", None, 5), "two ends"),
        ((3, "s", "one", 5), "finite"),
        ((3, "s", "1 GB", 5), "something else"),
        (("3 GB", "s"), "something else"),
        ((None, "lumps"), "lumps"),
    ],
)
def test_what_is_wrong_is_named(arguments, words):
    with pytest.raises(InputRefused, match=words):
        predict("98-any", *arguments)
    assert held()["predictions"] == {}


@pytest.mark.parametrize(
    ("id", "arguments", "words"),
    [
        (
            "00-gradients",
            (1, "GB"),
            r'asks for s, and GB .*fl\.predict\("00-gradients", \.\.\., "s"\)',
        ),
        ("00-gradients", ("1 GB",), "asks for s, and 1 GB"),
        ("00-copy", (3, "s"), "asks for GB/s, and s"),
        ("00-copy", (None, "s"), "asks for GB/s"),
        ("00-copy", (None, "lumps"), "lumps"),
        ("00-gradients", (3,), r'fl\.predict\("00-gradients", \.\.\., "s"\)'),
    ],
)
def test_a_unit_of_another_kind_is_refused_at_once(id, arguments, words):
    with pytest.raises(InputRefused, match=words):
        predict(id, *arguments)
    assert held()["predictions"] == {}
    predict("00-gradients", "700 ms")  # another prefix is welcome
    assert predict("00-copy", None).data["unit"] == "GB/s"


def test_a_stored_prediction_of_another_kind_is_asked_again(own_file, monkeypatch):
    old = {"value": 1.0, "unit": "GB", "low": None, "high": None}
    kept = {"format": "fabriclab-progress", "version": 1, "predictions": {"00-gradients": old}}
    own_file.write_text(json.dumps(kept))
    said = str(reveal("00-gradients", 0.7, "s"))
    assert 'fl.predict("00-gradients", ..., "s")' in said and "0.7" not in said
    monkeypatch.setenv("FABRICLAB_REVEAL", "1")
    assert f"{text('how.computed')} 0.700 s" in str(reveal("00-gradients", 0.7, "s"))
    predict("00-gradients", 1, "s")
    assert text("reveal.high", factor="1.4") in str(reveal("00-gradients", 0.7, "s"))


@pytest.mark.parametrize("id", ["", None, 3])
def test_a_prediction_has_a_name(id):
    with pytest.raises(InputRefused, match="names the prediction"):
        predict(id, 3, "s")


@pytest.mark.parametrize(
    "truth", [(0.0,), (-1.0,), (float("inf"),), (1, "GB"), ("1 GB",), (float("nan"),), ("what",)]
)
def test_an_impossible_truth_is_refused(truth):
    predict("31-hall", 3, "s")
    with pytest.raises(InputRefused, match="finite"):
        reveal("31-hall", *truth)
    assert "truth" not in held()["predictions"]["31-hall"]


def test_a_refusal_is_shown_as_one_sentence():
    with pytest.raises(InputRefused) as caught:
        predict("00-copy", 3)
    assert caught.value._render_traceback_() == [str(caught.value)]


# Display


def test_a_sentence_shows_itself(monkeypatch):
    shown = predict("a<b", 3, "s")
    page = shown._repr_html_()
    assert str(shown) in page and "3 s" in page and "border-left" in page
    assert json.loads(shown.json())["value"] == 3.0
    assert "&lt;" in reveal("c<d", 1, "s")._repr_html_()
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    assert shown._repr_html_() is None and repr(shown) == str(shown)


# After the guess


def test_nothing_is_shown_before_the_guess_is_in():
    times = views.times({"by rack": 2.1})
    for things in ((times,), (times, "a secret")):
        said = str(after_guess("21-by-rack", *things))
        assert sentence("after_guess.first").fullmatch(said) and "\n" not in said
        assert 'fl.predict("21-by-rack", ..., "s")' in said
        assert "2.10" not in said and "secret" not in said
    assert held()["predictions"] == {}


@pytest.mark.parametrize("value", [3, None])
def test_a_guess_opens_what_waits_for_it(value):
    predict("21-by-rack", value, "s")
    times = views.times({"by rack": 2.1})
    shown = after_guess("21-by-rack", times, "So `x` it is.", 3)
    assert str(shown) == f"{times}\n\nSo x it is.\n\n3" and "2.10 s" in str(times)
    assert len(shown.things) == 3 and shown.things[2] == 3


def test_a_reveal_without_a_guess_opens_it_too(monkeypatch):
    assert sentence("after_guess.first").fullmatch(str(after_guess("21-by-rack", "open")))
    reveal("21-by-rack", 2.1, "s", anyway=True)
    assert str(after_guess("21-by-rack", "open")) == "open"
    monkeypatch.setenv("FABRICLAB_REVEAL", "1")
    assert str(after_guess("21-eight-times", "open")) == "open"


def test_a_guess_of_ones_own_opens_what_waits_for_it():
    with pytest.raises(InputRefused, match=sentence("after_guess.own")):
        after_guess("my-own", "open")
    predict("my-own", 3, "s")
    assert str(after_guess("my-own", "open")) == "open"


def test_a_guess_of_an_older_file_in_another_unit_does_not_count(own_file):
    predict("mine", 3, "GB/s")
    kept = json.loads(own_file.read_text())
    kept["predictions"]["21-by-rack"] = kept["predictions"].pop("mine")
    own_file.write_text(json.dumps(kept))
    assert sentence("after_guess.first").fullmatch(str(after_guess("21-by-rack", "open")))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("21-by-rak", 1), "has no '21-by-rak'; did you mean '21-by-rack'"),
        (("21-by-rack",), "needs something to show"),
        (("", 1), "names the prediction"),
        ((3, 1), "names the prediction"),
    ],
)
def test_what_cannot_wait_for_a_guess_is_refused(given, words):
    with pytest.raises(InputRefused, match=words):
        after_guess(*given)


@pytest.mark.parametrize("mode", ["", "1"])
def test_a_notebook_shows_each_thing_in_its_own_form(monkeypatch, mode):
    monkeypatch.setenv("FABRICLAB_TEXT", mode)
    predict("21-by-rack", 3, "s")
    seen = []
    monkeypatch.setattr("IPython.display.display", seen.append)
    things = views.times({"by rack": 2.1}), views.live.roulette(), check("21-dice")
    after_guess("21-by-rack", *things, "words")._ipython_display_()
    assert tuple(seen[:3]) == things and str(seen[3]) == "words"
