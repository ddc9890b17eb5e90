"""Questions: the key is computed, every option marked right is right by the model, every wrong one is wrong."""

import html
import itertools
import math
import re
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import catalog, collectives, live, run, simulate, topologies
from fabriclab.course import cards
from fabriclab.course.checks import InputRefused, check, drill, ruler
from fabriclab.course.progress.store import held as progress
from fabriclab.course.questions import find, misconception, questions
from fabriclab.formulas import evaluate, evaluate_all
from fabriclab.routing import route
from fabriclab.texts import keys, text
from support.prose import sentence, states

NUMBERS = [q for q in questions().values() if q.kind == "number"]
PICKS = [q for q in questions().values() if q.kind == "pick"]
DRILLS = [q for q in questions().values() if q.drill]


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.delenv("FABRICLAB_TEXT", raising=False)


@pytest.fixture(scope="module")
def hall():
    return topologies.build("rail_optimised")


def ways(question):
    """Yield every way to fill a question's parameters."""
    for chosen in itertools.product(*question.params.values()):
        yield dict(zip(question.params, chosen, strict=True))


# By hand


@pytest.mark.parametrize(
    ("id", "key"),
    [
        ("00-nic-rate", 100e9),
        ("00-both-ways", 300e9),
        ("00-buffer", 67108864),
        ("00-byte-time", 0.4),
        ("00-ruler", 9),
        ("00b-waiting", 4.8691690),
        ("31-first-sum", 3),
        ("31-race", 44.8016036),
        ("31c-demand", 34.65e9),
        ("31-ring-bytes", 175e6),
        ("31-ring-time", 0.341),
        ("31-one-root", 32),
        ("31-ring-growth", 1.1071429),
    ],
)
def test_keys(id, key):
    assert find(id).key({}) == pytest.approx(key, rel=1e-4 if key < 50 else 1e-6)


def test_the_key_follows_the_case_and_what_is_given():
    case = catalog.case()
    whole = {"s": f"{case['dp_gradients']!r} B", "n": case["dp"], "r": "400 Gb/s"}
    assert find("31-ring-time").key(whole) == pytest.approx(case["t_dp"])
    assert find("31-ring-time").key({"s": "4.4 GB", "n": 8, "r": "200 Gb/s"}) == pytest.approx(
        1.75 * 4.4e9 / 25e9
    )
    states(str(check("31-ring-time", s="4.4 GB", n=8)), "4.4 GB", "8")


def test_a_right_answer_and_the_tries():
    assert check("31-ring-time", "5 s").data == {
        "right": False,
        "counted": True,
        "tries": 1,
        "named": "",
    }
    assert check("31-ring-time", 0.341).data == {"right": False, "counted": False}
    right = check("31-ring-time", "341 ms")
    assert text("check.right", tries=text("check.tries", n=2)) in str(right).split("\n")
    assert str(right).split("\n")[-1] == text("check.key", key="0.341 s")
    assert (
        check("31-ring-time", "6 s").data["tries"] == 2
        and not check("31-ring-time", "6 s").data["right"]
    )
    kept = progress()["checks"]["31-ring-time"]
    assert (kept["tries"], kept["right"], kept["named"]) == (2, True, [])
    assert text("check.first") in str(check("31-ring-bytes", "175 MB"))
    assert progress()["drills"] == {}


def test_a_try_is_dated_and_no_line_is_empty():
    shown = check("31-ring-bytes", "175 MB")
    assert "<div></div>" not in shown._repr_html_() and "" not in str(shown).split("\n")
    assert datetime.fromisoformat(progress()["checks"]["31-ring-bytes"]["when"]).tzinfo is not None


def test_hints_come_one_after_another():
    said = [str(check("31-ring-bytes", f"{n} kB")) for n in (1, 2, 3, 4)]
    hints = [sentence("check.hint").search(line) for line in said]
    assert [hint["level"] for hint in hints] == ["1", "2", "3", "3"]
    states(hints[2]["hint"], "100 MB", "8")


def test_a_right_answer_comes_with_its_reason():
    for q in questions().values():
        assert len(q.words.explained(q.fill({})[1]).split()) >= 7, q.id
    why = find("31-ring-bytes").words.explanation
    assert why in str(check("31-ring-bytes", "175 MB"))
    assert why not in str(check("31-ring-bytes"))
    letter = next(k for k, (_, wrong) in find("00-fabric").options({}).items() if not wrong)
    assert find("00-fabric").words.explanation in str(check("00-fabric", letter))
    right = next(k for k, (_, wrong) in find("00-nic-rate").options({}).items() if not wrong)
    assert "8 bits" in str(drill(1, right))


def test_a_wrong_answer_after_a_right_one_takes_nothing_back():
    check("31-ring-bytes", "175 MB")
    shown = check("31-ring-bytes", "700 MB")
    assert shown.after[0] == text("check.solved") and not sentence("check.hint").search(str(shown))
    told = misconception("31-ring-bytes", "everything to everyone")
    assert told in str(shown) and shown.data == {
        "right": False,
        "counted": False,
        "tries": 1,
        "named": "everything to everyone",
    }
    assert progress()["checks"]["31-ring-bytes"]["right"]


def test_a_named_mistake_and_a_named_factor():
    for answer, name in (("10.91 s", "one root adds everything"), ("0.0426 s", "bits for bytes")):
        shown = check("31-ring-time", answer)
        assert misconception("31-ring-time", name) in str(shown) and shown.data["named"] == name
    factors = [text(key) for key in keys("factor.")]
    shown = check("31-ring-time", "682 ms")
    assert not any(factor in str(shown) for factor in factors) and shown.data["named"] == ""
    shown = check("31-ring-bytes", "350 MB")
    assert text("factor.direction") in str(shown) and shown.data["named"] == "factor direction"
    assert text("factor.prefix") in str(check("31-ring-time", "0.341 ms"))
    assert not any(factor in str(check("31-ring-time", "0.9 s")) for factor in factors)
    assert text("factor.binary") in str(check("00-buffer", "65.5 MB"))
    named = progress()["checks"]["31-ring-time"]["named"]
    assert named == ["one root adds everything", "bits for bytes", "factor prefix"]


def test_a_share_is_told_as_rounded_and_not_as_a_step_of_units():
    for answer in ("14 %", "0.14", 0.14):
        shown = check("24-share", answer)
        assert text("factor.rounded") in str(shown) and text("factor.binary") not in str(shown)
    assert check("24-share", "1/7").data["right"] and shown.data["named"] == "factor rounded"
    # exact; three digits
    both = str(check("24-domain", 71)) + str(check("24-share", "0.147"))
    assert text("factor.rounded") not in both


def test_a_wrong_answer_repeats_the_question_with_its_hint_and_the_line_to_type():
    shown = check("00-typical", "a" if find("00-typical").options({})["a"][1] else "b")
    assert (
        shown.lines == check("00-typical").lines
        and shown.rows == check("00-typical").rows
        and shown.rows
    )
    assert shown.after[0] == text("check.wrong")
    assert sentence("check.hint", level=1).fullmatch(shown.after[-2])
    assert shown.after[-1] == text("check.choice", call='fl.check("00-typical", "?")')
    # not counted either
    assert drill(2, "z").rows == drill(2).rows and drill(2, "z").lines == drill(2).lines
    given = check("31-ring-bytes", "3 MB", s="400 MB", n=4)
    states(given.lines[0], "400 MB", "4")
    assert given.after[-1].endswith("""`fl.check("31-ring-bytes", "? MB", s='400 MB', n=4)`""")
    right = next(k for k, (_, wrong) in find("00-nic-rate").options({}).items() if not wrong)
    assert drill(1, right).lines == drill(1).lines and drill(1, right).rows == ()


def test_notes_are_kept_beside_the_verdict():
    for answer, number in (("0,341 s", 0.341), ("9,7 s", 9.7)):
        assert text("answer.comma", number=number) in str(check("31-ring-time", answer))


def test_tolerance_is_printed_and_held():
    for id, percent in (("31-ring-time", 0.5), ("31-ring-bytes", 1)):
        assert text("check.within", percent=percent) in str(check(id))
    assert sentence("check.number", within=text("check.exact")).search(str(check("31-one-root")))
    for factor, right in ((1.0049, True), (1.0051, False), (0.9951, True), (0.9949, False)):
        assert (
            check("31-ring-time", f"{find('31-ring-time').key({}) * factor!r} s").data["right"]
            is right
        )
    assert check("31-one-root", 32).data["right"] and not check("31-one-root", 32.001).data["right"]


def test_a_drill_names_the_mistake_behind_each_wrong_letter():
    asked = sentence("drill.ask", number=1, n=4).match(str(drill(1)))["asked"]
    states(asked, "800 Gb/s")
    assert "100 GB/s" in str(drill(1))
    call = sentence("check.choice").fullmatch(str(drill(3)).split("\n")[-1])["call"]
    assert call.strip("`") == 'fl.drill(3, "?")'
    options = find("00-nic-rate").options({})
    for letter, (_, name) in options.items():
        shown = drill(1, f" {letter.upper()}) ")
        assert shown.data["right"] is (not name)
        assert not name or misconception("00-nic-rate", name) in str(shown)
    assert progress()["drills"]["00-nic-rate"]["right"] and progress()["checks"] == {}


# Cards


def press(form, name, **fields):
    """Press a button of a question's card, and return what the page gets."""
    form.widget.asked = {"seq": form.widget.asked["seq"] + 1, "press": name, "fields": fields}
    return form.widget.frame


def marks(page):
    """Return letter -> (its look, whether it can be pressed) of the options on a card."""
    found = re.findall(r'class="fl-option ?([^"]*)" data-press="(.)"( disabled)?>', page)
    return {letter: (look, not shut) for look, letter, shut in found}


def test_a_choice_keeps_wrong_marks_and_leaves_the_others_open():
    options = find("22-far").options({})
    right = next(letter for letter, (_, mistake) in options.items() if not mistake)
    wrong = [letter for letter, (_, mistake) in options.items() if mistake]
    form = check("22-far").live()
    page = form.widget.frame["html"]
    assert marks(page) == dict.fromkeys(options, ("", True))
    assert text("card.keys", first="a", last="d") in page

    frame = press(form, wrong[0])
    because = misconception("22-far", options[wrong[0]][1])
    first = re.split(r"(?<=[.])\s", because)[0]
    assert f"<b>{text('check.wrong')} {first}</b>" in frame["html"]
    assert frame["said"].startswith(f"{text('check.wrong')} {first}")
    assert sentence("check.hint", level=1).search(frame["said"])
    open_ones = {letter: ("", True) for letter in options if letter != wrong[0]}
    assert marks(frame["html"]) == {wrong[0]: ("fl-missed", False), **open_ones}

    frame = press(form, right)
    shut = {letter: ("fl-dim", False) for letter in options}
    assert marks(frame["html"]) == shut | {
        wrong[0]: ("fl-missed", False),
        right: ("fl-hit", False),
    }
    assert text("check.right", tries=text("check.tries", n=2)) in frame["html"]
    assert find("22-far").words.explanation in frame["said"]
    assert progress()["checks"]["22-far"]["tries"] == 2


def test_a_number_is_typed_into_a_field_with_its_unit_beside_it():
    form = check("31-ring-time").live()
    page = form.widget.frame["html"]
    assert 'name="answer"' in page and "<span>s</span>" in page
    assert text("check.within", percent=0.5) in page
    assert press(form, "check", answer="  ")["problem"] == text("card.empty")
    assert progress()["checks"] == {}
    frame = press(form, "check", answer="0,0426")
    told = misconception("31-ring-time", "bits for bytes")
    assert re.split(r"(?<=[.:])\s", told)[0] in frame["html"] and 'value="0,0426"' in frame["html"]
    frame = press(form, "check", answer="fast")
    assert text("check.uncounted") in frame["said"]
    assert progress()["checks"]["31-ring-time"]["tries"] == 1
    frame = press(form, "check", answer="341 ms")
    assert text("check.right", tries=text("check.tries", n=2)) in frame["html"]
    assert text("check.key", key="0.341 s") in frame["said"]


def test_a_plain_number_and_a_share_need_no_unit():
    assert text("check.first") in press(check("24-rings").live(), "check", answer="7")["said"]
    assert text("check.first") in press(check("24-share").live(), "check", answer="14.3 %")["said"]
    other = press(check("31-one-root").live(), "check", answer="32")
    assert text("check.first") in other["said"]


def test_the_card_of_a_typed_answer_goes_on_from_there():
    options = find("22-far").options({})
    wrong = next(letter for letter, (_, mistake) in options.items() if mistake)
    page = check("22-far", wrong).live().widget.frame["html"]
    assert marks(page)[wrong] == ("fl-missed", False)
    assert sentence("check.hint", level=1).search(page)
    assert 'value="5 s"' in check("31-ring-time", "5 s").live().widget.frame["html"]


@pytest.mark.parametrize("question", questions().values(), ids=lambda q: q.id)
def test_outside_a_kernel_a_card_shows_question_options_and_the_line_to_type(question):
    shown = drill(int(question.drill[-1])) if question.drill else check(question.id)
    page = html.unescape(re.sub("<[^>]+>", "", shown._repr_html_().split("</style>")[1]))
    for words in (shown.lines[0], *(option for _, option in shown.rows), shown.after[-1]):
        assert words.replace("`", "") in page
    assert "<button" not in shown._repr_html_() and "<input" not in shown._repr_html_()


def test_a_function_is_judged_on_a_card_without_a_form():
    shown = check("31-write-ring", lambda rank, step, n: rank)
    page = shown._repr_html_()
    assert shown.live is None and "fl-is-wrong" in page
    assert (
        re.split(r"(?<=[.])\s", misconception("31-write-ring", "own block every time"))[0] in page
    )
    assert (
        "fl-is-right"
        in check("31-write-ring", lambda rank, step, n: (rank - step) % n)._repr_html_()
    )


def rows(shown):
    """Return the cells of the table of cases on a card."""
    page = shown._repr_html_().split("</style>")[1]
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("<tr")[1:]]
    return [[html.unescape(re.sub("<[^>]+>", "", cell)) for cell in row] for row in cells]


@pytest.mark.parametrize(
    ("id", "wrong", "cases", "inside"),
    [
        (
            "31-write-ring",
            lambda rank, step, n: (rank + step) % n,
            [["\u2713", "2 ranks", "", ""], ["\u2715", "your_function(0, 1, 3)", "1", "2"]],
            # what is sent and arrives before, then what is sent
            [["0", "1", "2"], ["2", "0", "1"], ["1 \u2715", "2 \u2715", "0 \u2715"]],
        ),
        (
            "31-write-ring",
            lambda rank, step, n: step % n,
            [["\u2715", "your_function(1, 0, 2)", "0", ""]],
            [["0", "0 \u2715"]],
        ),
        (
            "34-write-order",
            lambda rank, step, n: (rank + step) % (n - 1),
            [["\u2715", "4 ranks", "", ""]],
            [["0 \u2715", "1", "2", "0 \u2715"]],
        ),
        (
            "34-write-order",
            lambda rank, step, n: (rank + step) % n if n < 16 else rank,
            [["\u2713", "4 ranks", "", ""], ["\u2713", "8", "", ""], ["\u2715", "16", "", ""]],
            [["0 \u2715", *["0 \u2715"] * 15]],
        ),
        (
            "00-write-rate",
            lambda size, times: size / times.mean(),
            [["\u2715", "64 MiB", "7.758e+09 B/s", "7.740e+09 B/s"]],
            [["8.79 ms", "8.67 ms", "8.69 ms", "8.62 ms", "8.48 ms"]],
        ),
        (
            "21-write-switches",
            lambda gpus, radix: 3 * gpus / radix,
            [
                ["✓", "1,024 GPUs", "48", "48"],
                ["✓", "2,048 GPUs", "96", "96"],
                ["✕", "8,192 GPUs", "384", "640"],
            ],
            [],
        ),
        (
            "31-write-time",
            lambda size, n, rate, latency: 3.0,
            [["\u2715", "32 MiB, 10 ranks", "3.000 s", ""]],
            [],
        ),
    ],
)
def test_a_function_that_is_wrong_is_traced_in_a_block_of_its_own(id, wrong, cases, inside):
    shown = check(id, wrong)
    page = html.unescape(page_of_card(shown))
    for row, (sign, name, got, right) in zip(rows(shown), cases, strict=False):
        assert row[0] == sign and name in row[1]
        assert not got or row[2] == got
        assert not right or row[3] == right
    trace, verdict = page.split('class="fl-trace"')[1].split('<div class="fl-verdict')
    found = [re.findall("<td[^>]*>(.*?)</td>", row) for row in trace.split("<tr>")[2:]]
    assert [[re.sub("<[^>]+>", "", cell) for cell in row] for row in found] == inside
    # the case is in its block and not once more in the verdict, and text has all of it
    first = shown.after[1]
    assert first not in verdict and first in str(shown)
    for cell in itertools.chain(rows(shown)[0][2:], *inside):
        assert cell.replace(" \u2715", "") in str(shown)


def page_of_card(shown):
    return shown._repr_html_().split("</style>", 1)[1]


def test_the_line_to_type_stands_where_no_function_was_passed():
    call = 'fl.check("31-write-ring", your_function)'
    wrong = check("31-write-ring", lambda rank, step, n: rank)
    unread = check("31-write-ring", lambda rank, step, n: None)
    for shown in (wrong, unread):
        assert call not in html.unescape(shown._repr_html_()) and call not in str(shown)
    for shown in (check("31-write-ring"), check("31-write-ring", 3)):
        assert call in html.unescape(shown._repr_html_()) and call in str(shown)
    call = text("check.function", call='fl.check("ex4-a", [wire, gain])').replace("`", "")
    functions = [lambda *given: 3] * 2
    assert call in str(check("ex4-a")) and call in str(check("ex4-a", [3, 4]))
    assert call not in str(check("ex4-a", functions))


def test_what_is_no_function_is_not_counted():
    assert not check("31-write-ring", 3).data["counted"]
    assert "31-write-ring" not in progress()["checks"]
    said = str(check("31-write-ring", lambda rank, step, n: None))
    assert (
        "None for rank 0 in step 0 of 2 ranks. It must return a block number, here 0 or 1." in said
    )
    assert "(This try is not counted.)" in said


def test_parts_of_an_exercise_are_rows_with_points_and_the_call_that_failed():
    given = [lambda size, time: size / time, lambda *a: 2.0, lambda *a: (0.5, 0.5)]
    at_first = rows(check("ex1-b", given))[1]
    assert at_first[2:] == ["2.00 B/s", text("card.later"), "0 of 8"]
    shown = check("ex1-b", given)
    algbw, busbw, used, exposed = rows(shown)
    assert algbw == ["\u2713", "algbw", "", "", "4 of 4"]
    assert busbw[1].startswith("busbw busbw('") and busbw[2:] == ["2.00 B/s", "1.29 GB/s", "0 of 8"]
    assert busbw[0] == used[0] == exposed[0] == "\u2715"
    assert used[2] == "0.5" and used[4] == exposed[4] == "0 of 4"
    # what the table says is not said again below it, but as text it is
    off = next(line for line in shown.after if "1.29 GB/s" in line and "2.00 B/s" in line)
    assert off not in html.unescape(shown._repr_html_()) and off in str(shown)


def test_several_lines_are_shown_as_they_are():
    page = cards.verdict_box(cards.Verdict("wrong", "No.", ["one\n  two", "`three`"]))
    assert "<pre>one\n  two</pre>" in page and "<p><code>three</code></p>" in page


# Shape


def test_the_table_is_whole():
    assert [q.drill for q in DRILLS] == [f"units/{n}" for n in (1, 2, 3, 4)]
    assert {question.row for question in questions().values()} >= {
        "Q57",
        "Q58",
        "Q59",
        "Q60",
        "Q27",
        "Q28",
        "Q88",
        "Q89",
        "Q90",
    }
    for q in questions().values():
        assert q.id.startswith(q.lesson.split("_")[0] + "-") and f"lesson.{q.lesson}" in keys(
            "lesson."
        )
        assert q.kind in ("number", "pick", "choice", "function") and str(check(q.id)).strip()
        assert len(q.wrong) >= 3
        if not q.drill:
            assert len(q.words.hints) == 3


# Laws


@pytest.mark.parametrize("question", NUMBERS, ids=lambda q: q.id)
def test_every_wrong_answer_is_wrong_and_every_right_one_right(question):
    for given_ in ways(question):
        names, _ = question.fill(given_)
        right = question.key(given_)
        slack = max(question.tolerance, 5e-3)
        answers = [right, *(evaluate(formula, names) for _, formula, _ in question.wrong)]
        assert all(math.isfinite(a) and a > 0 for a in answers)
        for a, b in itertools.combinations(answers, 2):
            assert not math.isclose(a, b, rel_tol=slack), (question.id, given_, a, b)
        assert check(question.id, f"{right!r} " + _si(question.unit), **given_).data["right"]
        for name, formula, _ in question.wrong:
            shown = check(
                question.id, f"{evaluate(formula, names)!r} " + _si(question.unit), **given_
            )
            assert not shown.data["right"] and shown.data["named"] == name


def _si(unit):
    return {
        "%": "",
        "TB": "B",
        "GB": "B",
        "MB": "B",
        "kB": "B",
        "bit": "B",
        "ms": "s",
        "ns": "s",
        "us": "s",
        "h": "s",
        "1": "",
    }.get(unit, "B/s" if unit.endswith("/s") else unit)


@pytest.mark.parametrize("question", DRILLS, ids=lambda q: q.id)
def test_options_read_as_what_they_are(question):
    for given_ in ways(question):
        options = question.options(given_)
        assert (
            len({words for words, _ in options.values()}) == 4
            and [n for _, n in options.values()].count("") == 1
        )
        for words, name in options.values():
            assert check(question.id, words.replace(",", ""), **given_).data["right"] is (
                not name
            ), words


@pytest.mark.parametrize("question", PICKS, ids=lambda q: q.id)
def test_a_number_to_pick_has_one_right_button(question):
    options = question.options({})
    assert (
        len({words for words, _ in options.values()}) == 4
        and [n for _, n in options.values()].count("") == 1
    )
    assert check(question.id).rows == [(letter, words) for letter, (words, _) in options.items()]
    for letter, (_, name) in options.items():
        assert check(question.id, letter).data["right"] is (not name)


def test_exact_answers_are_shown_as_people_write_them():
    assert text("check.key", key="32 times") in str(check("31-one-root", 32))
    assert [words for words, _ in find("31-first-sum").options({}).values()] == ["2", "3", "4", "6"]


def test_a_number_without_a_unit_is_asked_as_one():
    assert 'fl.check("24-rings", "?")' in str(check("24-rings"))
    assert text("check.key", key="0.143") in str(check("24-share", "0,143")).split("\n")
    assert check("24-share", "14.3 %").data["right"] and check("24-rings", "7").data["right"]


def test_a_count_may_name_what_it_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "p.json"))
    assert not check("81-blast", "512 ports").data["right"]
    for other in ("32 GB", "32 links"):  # a unit, and a noun of another question
        assert text("check.uncounted") in str(check("81-blast", other))
    other = sentence("answer.other", unit=text("answer.number")).search(
        str(check("81-blast", "32 GB"))
    )
    assert "GB" in other["got"]
    assert check("81-blast", "32 ports").data["right"]


def test_the_right_sentence_is_not_always_in_one_place():
    letters = {
        q.id: [k for k, (_, n) in q.options({}).items() if not n]
        for q in questions().values()
        if q.kind == "choice"
    }
    assert (
        all(len(found) == 1 for found in letters.values())
        and len({found[0] for found in letters.values()}) >= 2
    )


def test_the_butterfly_options_are_what_the_schedules_send():
    for n in (2, 4, 8, 16):
        least = 2 * (n - 1) / n
        sent = {
            a: collectives.build("all_reduce", a, n).sent().max()
            for a in ("recursive_doubling", "halving_doubling", "ring")
        }
        assert sent["halving_doubling"] == pytest.approx(least) == pytest.approx(sent["ring"])
        assert sent["recursive_doubling"] == pytest.approx(math.log2(n)) and (
            sent["recursive_doubling"] > least
        ) == (n > 2)


def test_the_ring_questions_are_what_the_schedule_sends():
    for n in (4, 8, 16, 32):
        schedule = collectives.build("all_reduce", "ring", n)
        assert schedule.sent().max() * 1e8 == pytest.approx(
            find("31-ring-bytes").key({"s": "100 MB", "n": n})
        )
    one, ring = (collectives.build("all_reduce", a, 8) for a in ("one_root", "ring"))
    through_root = one.sent()[0] + one.received()[0]
    assert through_root / ring.sent().max() == pytest.approx(find("31-one-root").key({"n": 8}))


def test_the_stepper_shows_the_first_whole_block_after_the_step_that_is_right():
    view = live.stepper("all_reduce", "ring", 4)
    whole = [max(view.set(step=step).scene.table["from ranks"]) == 4 for step in range(7)]
    assert whole.index(True) == find("31-first-sum").key({})


def test_the_race_shows_the_root_halfway_when_the_answer_says_so(hall):
    case, groups = catalog.case(), collectives.rail_groups(hall)
    root = simulate("all_reduce", "one_root", hall, case.dp_gradients, placement=groups)
    view, key = live.race({"root": root}), find("31-race").key({})
    ended = [view.set(seconds=key * part).scene.table["steps ended"][0] for part in (0.99, 1.01)]
    assert ended == ["0 / 2", "1 / 2"]


def test_the_ruler_says_how_many_times_as_fast_nvlink_is():
    table = ruler().live().set(rate=50.0).scene.table
    faster = 1 / table["your link / this"][list(table["what"]).index("NVLink 4")]
    assert faster == pytest.approx(find("00-ruler").key({}))


def test_what_is_said_of_shuffles_is_true_of_all_that_the_view_offers(hall):
    size, groups = catalog.case().dp_gradients, np.array(collectives.rail_groups(hall))
    view, hops, times = live.placement(hall, size), [], {"ecmp": [], "spray": []}
    for seed in range(view.controls["seed"].low, view.controls["seed"].high + 1):
        order = collectives.shuffled(groups, seed)
        hops.append(collectives.spine_crossings(hall, order))
        assert f"{hops[-1]:,} of 1,024" in view.set(seed=seed).scene.said
        for how, kept in times.items():
            kept.append(
                simulate("all_reduce", "ring", hall, size, placement=order, method=how).time
            )
    slow = np.array(times["ecmp"])
    # the right one; wrong2 is not
    assert slow[1:].min() >= 3 * slow[0] and max(times["spray"]) < 1.01 * slow[0]
    assert hops[8] > hops[15] and slow[8] < slow[15]  # wrong1 is not, as the hint says
    for routing in ("ecmp", "spray"):  # which hops cross does not depend on it
        assert f"{hops[-1]:,} of 1,024" in view.set(routing=routing).scene.said


@pytest.mark.parametrize("rate", ["100 Gb/s", "50 Gb/s"])
def test_the_wait_is_what_the_case_says(rate):
    assert check("00b-waiting", f"{catalog.case(nic_rate=rate).t_dp_exposed} s", r=rate).data[
        "right"
    ]


def test_the_median_is_what_an_outlier_does_not_move():
    calm, hit = np.array([9.0, 10, 11, 12, 12]), np.array([3.0, 10, 11, 12, 12])
    assert (
        np.median(calm) == np.median(hit)
        and calm.mean() != hit.mean()
        and hit.max() > np.median(hit)
    )


def test_what_is_said_of_a_relay_and_of_few_tokens_is_true():
    small = topologies.build("rail_optimised", servers=8, gpus=4, rails=4, radix=16)
    share = np.array([8] + 31 * [1]) / 39
    flows = collectives.expert_flows(small, [np.tile(share, (32, 1)) * (1 - np.eye(32))], "1 GB")
    time = {
        way: run(small, route(small, flows, way), flows).end
        for way in ("spray", "pxn", "rail_aligned")
    }
    assert time["rail_aligned"] < 0.4 * time["pxn"] and time["pxn"] == pytest.approx(
        time["spray"], rel=1e-3
    )
    fullest = []
    for tokens in (8, 512):
        table = collectives.expert_tables(collectives.choose_experts(64, tokens, 8), "low_latency")[
            0
        ].sum(axis=0)
        fullest.append(table.max() / table.mean())
    assert fullest[0] > 1.15 > 1.05 > fullest[1]


def test_what_moves_the_mark_of_bruck():
    def mark(ranks, start):
        size = np.geomspace(1e3, 1e10, 2000)
        two = (
            collectives.closed_form("all_to_all", how)(size, ranks, start, 50e9)
            for how in ("bruck", "pairwise")
        )
        return size[np.argmax(np.subtract(*two) > 0)]

    assert mark(8, 14e-6) < mark(64, 14e-6) < mark(512, 14e-6) and mark(64, 1e-6) < mark(
        64, 14e-6
    ) < mark(64, 50e-6)


# A function


@pytest.mark.parametrize(
    "rule", [lambda r, s, n: (r + s) % n, lambda r, s, n: (s - r) % n, lambda r, s, n: r ^ s]
)
def test_every_order_in_which_no_two_meet_is_right(rule):
    assert check("34-write-order", rule).data["right"]


@pytest.mark.parametrize(
    ("rule", "words", "name"),
    [
        (lambda r, s, n: s, sentence("function.meet", count=4, at=0, of=0), "all to one"),
        (
            lambda r, s, n: (r + 1) % n,
            sentence("function.pair", at=1, count=4),
            "always the same",
        ),
        (
            lambda r, s, n: (r + s) % (n - 1),
            sentence("function.meet", count=2, at=0, of=0),
            "wraps too early",
        ),
        (lambda r, s, n: (r + 2 * s) % n, sentence("function.pair", of=0, at=0, count=2), ""),
    ],
)
def test_orders_in_which_ranks_meet_are_told(rule, words, name):
    shown = check("34-write-order", rule)
    assert not shown.data["right"] and shown.data["named"] == name and words.search(str(shown))
    assert not check("34-write-order", lambda r, s, n: None).data["counted"]


@pytest.mark.parametrize(
    "rule",
    [lambda r, s, n: (r - s) % n, lambda rank, step, n: np.int64((rank + n * step - step) % n)],
)
def test_the_usual_ring_is_right(rule):
    lines = str(check("31-write-ring", rule)).split("\n")
    at = lines.index(text("check.right", tries=text("check.first")))
    assert lines[at + 1] == find("31-write-ring").words.explanation


def test_another_ring_is_as_good():
    def later(rank, step, n):
        return (rank + 1 - step) % n

    def shuffled(rank, step, n):
        return (2 * (rank - step)) % n if n % 2 else (rank - step) % n

    for rule in (later, shuffled):
        shown = check("31-write-ring", rule)
        assert shown.data["right"] and text("check.another") in str(shown)


@pytest.mark.parametrize(
    ("rule", "words", "named"),
    [
        (lambda r, s, n: r, "", "own block every time"),
        (lambda r, s, n: (r + s) % n, "", "against the ring"),
        (lambda r, s, n: s % n, sentence("function.lacks", ranks=0), "same block for all"),
        (lambda r, s, n: r - s, "returned -1", ""),
        (lambda r, s, n: (r - s) % (n + 1), "wrap", ""),
        (lambda r, s, n: 1 / 0, "ZeroDivisionError", ""),
        (lambda r, s: r, "TypeError", ""),
        (lambda r, s, n: exit(), "SystemExit", ""),
        (lambda r, s, n: None, sentence("function.block", got="None", numbers="0 or 1"), ""),
        (lambda r, s, n: 0.0, sentence("function.block", got="0.0", numbers="0 or 1"), ""),
        (lambda r, s, n: True, sentence("function.block", got="True", numbers="0 or 1"), ""),
        (lambda r, s, n: (r - s) % n if s < n else 0, "wrong block", ""),
        (lambda r, s, n: (r - s) % n if n < 9 else r, sentence("function.ring", n=9), ""),
        (
            lambda r, s, n: (r - s) % n if n < 3 else 0,
            f"{sentence('function.ring', block=0).pattern} {sentence('function.twice', ranks=0).pattern}",
            "",
        ),
        (3, sentence("function.kind", got="3"), ""),
    ],
)
def test_a_wrong_ring_is_told_what_happened(rule, words, named):
    shown = check("31-write-ring", rule)
    assert not shown.data["right"] and re.search(words, str(shown))
    assert not named or misconception("31-write-ring", named) in str(shown)
    # what did not run to the end is no try and costs no hint
    ran = "31-write-ring" in progress()["checks"]
    hinted = bool(sentence("check.hint", level=1).search(str(shown)))
    assert ran is shown.data["counted"] is hinted
    assert shown.data.get("named", "") == named
    assert ran or text("check.uncounted") in str(shown)


def test_the_ring_of_the_library_is_as_usual_as_any():
    for first in (0, -1):
        assert text("check.another") not in str(
            check("31-write-ring", lambda r, s, n, k=first: (r - s + k) % n)
        )
    assert text("check.another") in str(check("31-write-ring", lambda r, s, n: (r - s + 1) % n))


def test_an_interrupt_is_no_answer():
    def stopped(rank, step, n):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("31-write-ring", stopped)


# The evaluator


@given(st.floats(0.1, 1e3), st.floats(0.1, 1e3))
def test_formulas_are_arithmetic(a, b):
    names = {"a": a, "b": b}
    for formula in ("a+b", "a-b", "a*b", "a/b", "2**3*a", "(a+b)/2", "a/(b*8)"):
        assert evaluate(formula, names) == pytest.approx(eval(formula, {}, names))
    assert evaluate("log2(a)", names) == math.log2(a)
    assert evaluate("log10(pi * a)", names) == math.log10(math.pi * a)
    assert evaluate("max(a, b) // 1", names) == max(a, b) // 1
    assert evaluate_all({"c": "2 * a", "d": "c + b"}, names) == names | {"c": 2 * a, "d": 2 * a + b}


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os')",
        "c",
        "a.real",
        "[a]",
        "a if a else a",
        "sin(a)",
        "max(a)",
        "'a'",
        "True < a",
        "a@a",
        "log2(a, a)",
    ],
)
def test_nothing_else_is_evaluated(formula):
    with pytest.raises(ValueError, match="may hold"):
        evaluate(formula, {"a": 1.0})


# Refusals


def test_unknown_questions_are_answered_with_the_known():
    with pytest.raises(InputRefused, match=r"31-ring-tim.*31-ring-time"):
        check("31-ring-tim", 3)
    with pytest.raises(InputRefused, match="00-fabric"):
        check("nothing")
    with pytest.raises(InputRefused, match=sentence("check.param", name="m", known="s, n, r")):
        check("31-ring-time", "3 s", m=4)
    with pytest.raises(InputRefused, match=sentence("drill.unknown", n=4, number=5)):
        drill(5)


@pytest.mark.parametrize("answer", ["e", "", 2, "50 GB/s"])
def test_a_letter_is_asked_for_and_not_counted(answer):
    shown = drill(1, answer)
    assert sentence("check.choices").search(str(shown)) and progress()["drills"] == {}
    for said in (str(shown), str(check("00-fabric", answer))):
        assert text("check.uncounted") in said
    assert progress()["checks"] == {}
