"""Predictions are stored before the reveal, kept after it, and compared with a factor."""

import html
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import views
from fabriclab.core.result import Result
from fabriclab.course import cards
from fabriclab.course.checks import (
    InputRefused,
    after_guess,
    check,
    ledger,
    predict,
    remember,
    reveal,
)
from fabriclab.course.checks.predictions import how_far, predictions, ruler_ends
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
        text("reveal.compared", **whole, verdict=text("reveal.spot_on"))  # then no range is judged
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
def test_a_form_begins_empty_on_the_ruler_of_its_lesson(asked):
    form = predict(asked.id).live()
    page = form.widget.frame["html"]
    low, high = (re.search(f'data-{end}="([^"]+)"', page)[1] for end in ("low", "high"))
    assert (float(low), float(high)) == (asked.lowest, asked.highest)
    assert re.findall(r'<input [^>]*value="([^"]*)"', page) == ["", "", ""]
    assert "aria-valuenow" not in page and len(re.findall(r'role="slider"[^>]* hidden', page)) == 3
    assert html.escape(asked.asked()) in page and asked.asked().endswith("?")
    assert held()["predictions"] == {}


def pressed(form, name, **fields):
    """Press a button of a form with these fields, and return what the page gets."""
    seq = form.widget.asked["seq"] + 1
    blank = {"low": "", "value": "", "high": ""}
    form.widget.asked = {"seq": seq, "press": name, "fields": blank | fields}
    return form.widget.frame


def typed(form, name, written):
    """Type a number in a field of a form, and return what the page gets."""
    seq = form.widget.asked["seq"] + 1
    form.widget.asked = {"seq": seq, "read": name, "fields": {name: written}}
    return form.widget.frame


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("8,5", 8.5),
        ("8.5", 8.5),
        ("8500 ms", 8.5),
        ("8,5 s", 8.5),
        ("17/2", 8.5),
        ("1,000", 1000.0),
    ],
)
def test_a_field_is_read_as_answers_are(written, number):
    frame = typed(predict("21-by-rack").live(), "value", written)
    assert frame["read"] == {"name": "value", "number": pytest.approx(number)}
    assert frame["problem"] == ""


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("many", "one finite number"),
        ("3 GB", "something else"),
        ("-3", "above 0"),
        ("0", "above 0"),
        ("3 lumps", "lumps"),
    ],
)
def test_what_cannot_be_read_in_a_field_is_refused_with_the_reason(written, why):
    frame = typed(predict("21-by-rack").live(), "value", written)
    assert why in frame["problem"] and "read" not in frame


def test_a_form_stores_what_stands_in_its_fields():
    form = predict("21-by-rack").live()
    assert pressed(form, "store")["problem"] == text("form.move")
    assert "two ends" in pressed(form, "store", value="3", low="1")["problem"]
    assert "must increase" in pressed(form, "store", value="3", low="4", high="5")["problem"]
    assert held()["predictions"] == {}
    frame = pressed(form, "store", value="2,5", low="1", high="3000 ms")
    said = f"2.5 s{text('predict.span', low='1', high='3')}"
    assert frame["said"] == text("predict.stored", said=said) and frame["said"] in frame["html"]
    kept = held()["predictions"]["21-by-rack"]
    assert (kept["low"], kept["value"], kept["high"], kept["unit"]) == (1.0, 2.5, 3.0, "s")
    # shown again, it has the learner's own numbers
    again = predict("21-by-rack").live().widget.frame["html"]
    assert re.findall(r'aria-valuenow="([^"]+)"', again) == ["1.0", "2.5", "3.0"]
    assert re.findall(r'<input [^>]*value="([^"]*)"', again) == ["1", "2.5", "3"]


def test_a_form_takes_no_idea_and_envelopes():
    frame = pressed(predict("21-by-rack").live(), "pass")
    assert sentence("predict.no_idea").fullmatch(frame["said"])
    assert held()["predictions"]["21-by-rack"]["value"] is None
    frame = pressed(predict("33-all", opens="31").live(), "store", value="1")
    assert frame["said"] == text("predict.envelope", said="1 s", lesson="31")


def test_a_form_in_another_unit_has_its_ruler_in_that_unit():
    page = predict("21-by-rack", unit="ms").live().widget.frame["html"]
    asked = predictions()["21-by-rack"]
    assert f'data-low="{asked.lowest * 1000!r}"' in page and "10\u2075 ms" in page


@pytest.mark.parametrize(
    ("values", "ends"),
    [((), (0.01, 100.0)), ((0.002,), (0.001, 100.0)), ((350.0,), (0.01, 1000.0))],
)
def test_a_ruler_grows_where_a_number_lies_beyond_it(values, ends):
    assert ruler_ends("21-by-rack", "s", *values) == pytest.approx(ends)


def test_outside_a_kernel_a_form_shows_its_question_and_the_line_to_type():
    page = predict("21-by-rack")._repr_html_()
    assert html.escape(predictions()["21-by-rack"].asked()) in page
    assert "<button" not in page and "<input" not in page
    assert html.escape('fl.predict("21-by-rack", ..., "s")') in page


def places(page):
    """Return where the marks of a ruler stand, in percent of its length."""
    return {
        name: float(re.search(f'class="fl-hand fl-{name}" style="left:([0-9.]+)%', page)[1])
        for name in ("best", "truth")
    }


def test_the_reveal_shows_guess_range_and_truth_on_the_ruler_of_the_form():
    predict("22-detour", 3, "times", low=0.5, high=20)
    shown = reveal("22-detour", 15.5, "times")
    page = shown._repr_html_()
    asked = predictions()["22-detour"]
    assert f"15.5 times {asked.claim}." in page and html.escape(asked.explanation) in page
    assert text("card.held", verdict=text("reveal.low", factor="5.2")) in page
    assert text("card.how", how=text("how.computed")) in page
    assert f'data-low="{asked.lowest!r}" data-high="{float(asked.highest)!r}"' in page

    def part(value):
        return 100 * np.log(value / asked.lowest) / np.log(asked.highest / asked.lowest)

    assert places(page) == {
        "best": pytest.approx(part(3), abs=0.01),
        "truth": pytest.approx(part(15.5), abs=0.01),
    }
    left, width = map(
        float, re.search('fl-band" style="left:([0-9.]+)%;width:([0-9.]+)%', page).groups()
    )
    assert (left, left + width) == (
        pytest.approx(part(0.5), abs=0.02),
        pytest.approx(part(20), abs=0.02),
    )
    # as text the sentences are those of every reveal
    assert str(shown).startswith("You said 3 times") and asked.explanation not in str(shown)


@pytest.mark.parametrize(
    ("guess", "ends", "key"),
    [
        (3, (1, 4), "missed"),
        (3, (1, 40), "held"),
        (15, (1, 4), "order"),
        (15.1, (15, 15.2), "spot_on"),
        (3, None, "off"),
        (None, None, "no_idea"),
    ],
)
def test_a_revealed_guess_is_judged_in_one_sentence(guess, ends, key):
    low, high = ends or (None, None)
    if key == "order":
        with pytest.raises(InputRefused):
            predict("22-detour", guess, "times", low=low, high=high)
        return
    predict("22-detour", guess, "times", low=low, high=high)
    verdict = text("reveal.low", factor="5.2")
    page = reveal("22-detour", 15.5, "times")._repr_html_()
    assert text(f"card.{key}", verdict=verdict) in page
    for other in {"missed", "held", "spot_on", "off", "no_idea"} - {key}:
        assert f" {text(f'card.{other}', verdict=verdict)}<" not in page


def test_labels_of_guess_and_truth_that_would_touch_stand_in_two_rows():
    predict("22-detour", 14, "times")
    assert "fl-over" in reveal("22-detour", 15.5, "times")._repr_html_().split("</style>")[1]
    predict("23-twist", 0.2, "times")
    assert "fl-over" not in reveal("23-twist", 60, "times")._repr_html_().split("</style>")[1]


def test_a_prediction_of_ones_own_is_revealed_by_its_name():
    predict("mine", 3, "s")
    assert text("card.named", name="Mine", truth="4.00 s") in reveal("mine", 4, "s")._repr_html_()


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
    said = text("predict.nothing")
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
    assert f"{text('how.measured')}: 9.80 GB/s" in str(reveal("00-copy", copied()))
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
    assert [row[:2] for row in shown.rows] == [
        ("one root adds everything", "93.5"),
        ("no overlap", "5.29"),
    ]
    places = [text("ledger.lesson", number=number) for number in (31, 35)]
    assert [row[2] for row in shown.rows] == places
    # a file name of a lesson is not shown
    named = ledger("four stages", 5.46, "33_point_to_point_and_broadcast").rows[-1]
    assert named[2] == text("ledger.lesson", number=33)
    assert ledger("as it is", 4.6).rows[-1][2] == ""
    kept = ledger().data["no overlap"]
    assert (kept["step"], kept["lesson"]) == (5.29, "35")
    assert ledger("no overlap", "5290 ms").data["no overlap"]["step"] == pytest.approx(5.29)
    for step in (None, 0, -1.0, float("nan"), "5 GB"):
        with pytest.raises(InputRefused, match="finite number above 0"):
            ledger("nothing", step)
    changes = ["one root adds everything", "no overlap", "four stages", "as it is"]
    assert list(held()["ledger"]) == changes


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
        (("fast", "s"), "one finite number"),
        ((3, "s", 4, 5), "must increase"),
        ((3, "s", 1, 2), "must increase"),
        ((3, "s", 0, 5), "must increase"),
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
            "33-all",
            (1, "GB"),
            r'asks for s, but GB .*fl\.predict\("33-all", \.\.\., "s"\)',
        ),
        ("33-all", ("1 GB",), "asks for s, but 1 GB"),
        ("00-copy", (3, "s"), "asks for GB/s, but s"),
        ("00-copy", (None, "s"), "asks for GB/s"),
        ("00-copy", (None, "lumps"), "lumps"),
        ("33-all", (3,), r'fl\.predict\("33-all", \.\.\., "s"\)'),
    ],
)
def test_a_unit_of_another_kind_is_refused_at_once(id, arguments, words):
    with pytest.raises(InputRefused, match=words):
        predict(id, *arguments)
    assert held()["predictions"] == {}
    predict("33-all", "700 ms")  # another prefix is welcome
    assert predict("00-copy", None).data["unit"] == "GB/s"


def test_a_stored_prediction_of_another_kind_is_asked_again(own_file, monkeypatch):
    old = {"value": 1.0, "unit": "GB", "low": None, "high": None}
    kept = {"format": "fabriclab-progress", "version": 1, "predictions": {"33-all": old}}
    own_file.write_text(json.dumps(kept))
    said = str(reveal("33-all", 0.7, "s"))
    assert 'fl.predict("33-all", ..., "s")' in said and "0.7" not in said
    monkeypatch.setenv("FABRICLAB_REVEAL", "1")
    assert f"{text('how.computed')}: 0.700 s" in str(reveal("33-all", 0.7, "s"))
    predict("33-all", 1, "s")
    assert text("reveal.high", factor="1.4") in str(reveal("33-all", 0.7, "s"))


@pytest.mark.parametrize("id", ["", None, 3])
def test_a_prediction_has_a_name(id):
    with pytest.raises(InputRefused, match="name of the prediction"):
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


def test_a_cell_asks_for_its_guess_once(monkeypatch):
    cell = SimpleNamespace(execution_count=7)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: cell))
    assert sentence("reveal.first").fullmatch(str(reveal("21-by-rack", 2.1, "s")))
    assert after_guess("21-by-rack", "open").things == ()
    assert sentence("after_guess.first").fullmatch(str(after_guess("21-eight-times", "open")))
    cell.execution_count += 1
    assert sentence("after_guess.first").fullmatch(str(after_guess("21-by-rack", "open")))


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


def test_after_a_form_for_a_guess_of_ones_own_the_answer_waits():
    name = "share that a failed leaf leaves"
    with pytest.raises(InputRefused, match=sentence("after_guess.own")):
        after_guess(name, "open")
    predict(name, unit="%")  # a form, and nothing is stored
    said = str(after_guess(name, "open"))
    assert sentence("after_guess.first").fullmatch(said)
    assert name in said and '"%"' in said
    predict(name, 80, "%")
    assert str(after_guess(name, "open")) == "open"


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
        (("", 1), "name of the prediction"),
        ((3, 1), "name of the prediction"),
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


def test_small_numbers_are_written_as_people_type_them():
    shown = predict("31-above-bound", 0.00019, "s", low=0.000063, high=0.00057)
    said = f"0.00019 s{text('predict.span', low='0.000063', high='0.00057')}"
    assert str(shown) == text("predict.stored", said=said)
    revealed = reveal("31-above-bound", 89.6, "s")
    seen = re.sub(r"<style>.*?</style>|<[^>]*>", " ", revealed.card())
    for words in (str(revealed), seen):
        assert "0.000063" in words and "e-05" not in words


def test_an_envelope_names_the_lesson_by_its_number():
    shown = predict("33-all", 1, "s", opens="31_all_reduce")
    assert str(shown) == text("predict.envelope", said="1 s", lesson="31")


@pytest.mark.parametrize(("guess", "over"), [(5.0, True), (9.0, True), (1.1, False)])
def test_the_labels_of_guess_and_truth_share_a_row_only_where_both_fit_on_a_narrow_card(
    guess, over
):
    drawn = cards.ruler((1.0, 100.0), "s", cards.Guess(None, guess, None), truth=90.0)
    assert ("fl-over" in drawn) == over


# Shares in percent ---------------------------------------------------------------------------------------------------


def test_a_share_is_guessed_on_a_linear_ruler_and_judged_by_its_difference():
    form = predict("my own share", unit="%")
    page = form._repr_html_()
    assert 'data-low="0.0" data-high="100.0"' in page and "100 %" in page
    predict("my own share", 80, "%")
    found = reveal("my own share", 87.5, "%")
    assert "7.5 percentage points too low" in str(found) and "spot on" not in str(found)
    assert "left:80.00%" in found._repr_html_() and "left:87.50%" in found._repr_html_()
    predict("another share", 86, "%")
    assert "spot on" in str(reveal("another share", 87.5, "%"))
    predict("a third share", 120, "%")
    assert 'data-high="1000.0"' in reveal("a third share", 87.5, "%")._repr_html_()


def test_a_share_may_be_guessed_as_nothing():
    assert "Stored: 0 %" in str(predict("nothing left", 0, "%", low=0, high=5))
    assert held()["predictions"]["nothing left"]["value"] == 0
    page = predict("nothing left", unit="%")._repr_html_()
    assert 'value="0"' in page or "left:0.00%" in page
    found = reveal("nothing left", 87.5, "%")
    assert "87.5 percentage points too low" in str(found) and "range, 0 to 5 %" in str(found)
    assert "left:0.00%" in found._repr_html_()
    assert held()["predictions"]["nothing left"]["factor"] == 0
    with pytest.raises(InputRefused, match="0 % or more"):
        predict("less than nothing", -1, "%")
    with pytest.raises(InputRefused, match="0 % or more"):
        predict("less than nothing", 3, "%", low=-1, high=5)
    with pytest.raises(InputRefused, match="above 0"):
        predict("a time", 0, "s")


def test_shares_of_lessons_keep_their_own_ends():
    asked = next(p for p in predictions().values() if p.unit == "%")
    assert ruler_ends(asked.id, "%") == (asked.lowest, asked.highest)
    assert how_far(80, 87.5) == "spot on" and how_far(80, 87.5, share=True).startswith("7.5")
