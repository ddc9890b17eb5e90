"""In text mode the whole course is asked, hinted at, judged and passed in words alone.

``FABRICLAB_TEXT=1`` is for a terminal, a screen reader or a page without scripts. What a card shows stands in the
words, too: question, options, the line to type, the verdict with the mistake, hint and explanation.
"""

import pytest

import fabriclab as fl
from fabriclab.course import judges
from fabriclab.course.assessment import bank, sitting, written
from fabriclab.course.questions import asides, files, predictions, questions
from fabriclab.course.shown import quantity
from fabriclab.formulas import evaluate
from fabriclab.texts import text

LESSONS = [name for name in files.names() if not name.startswith("exercise")]
ASKED = questions() | asides()
# Returned for any arguments until one is judged: most functions return a number, a text or a collection.
WRONG = (0, -7, "", "none", [], (), {}, 1e9, None, False, [0], (0, 0))


@pytest.fixture(autouse=True)
def text_mode(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    monkeypatch.chdir(tmp_path)


def words(shown):
    """Return what a notebook shows in text mode, which is nothing but words."""
    bundle = shown._repr_mimebundle_()
    assert set(bundle) == {"text/plain"}
    return bundle["text/plain"]


def plain(sentence):
    return sentence.replace("`", "")


def answered(question, answer=None):
    if question.drill:
        number = int(question.drill.removeprefix("units/"))
        return fl.drill(number) if answer is None else fl.drill(number, answer)
    return fl.check(question.id, answer)


def has_options(question):
    return question.kind in ("choice", "pick") or bool(question.drill)


def answers_of(question):
    """Return the right answer as a learner types it, and the wrong ones with the names of their mistakes."""
    if has_options(question):
        options = question.options({})
        wrong = [(letter, mistake) for letter, (_, mistake) in options.items() if mistake]
        return next(letter for letter, (_, mistake) in options.items() if not mistake), wrong
    factor = quantity(question.unit)[1]
    unit = "" if question.unit == "1" else question.unit
    names, _ = question.fill({})
    wrong = []
    for one in question.wrong:
        wrong.append((f"{evaluate(one.formula, names) / factor!r} {unit}", one.mistake))
    return f"{question.key({}) / factor!r} {unit}", wrong


# Lessons ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LESSONS, "exercise2"])
def test_every_question_is_asked_hinted_at_and_passed(name):
    for question in ASKED.values():
        if files.name_of(question.id) != name or question.kind == "function":
            continue
        asked = words(answered(question))
        _, quantities = question.fill({})
        assert plain(question.words.asked(quantities)) in asked
        assert f"fl.{'drill' if question.drill else 'check'}(" in asked
        if has_options(question):
            for letter, (option, _) in question.options({}).items():
                assert f"{letter}  {plain(option)}" in asked, question.id
        right, wrong = answers_of(question)
        for tries, (answer, mistake) in enumerate(wrong[:3], 1):
            said = words(answered(question, answer))
            assert text("check.wrong") in said and "fl." in said, question.id
            because = files.sentence_of(question.id, mistake)
            assert plain(because) in said, (question.id, mistake)
            hint = question.words.hint(tries, quantities)
            assert plain(hint) in said, (question.id, tries)
        passed = answered(question, right)
        assert passed.data["right"], question.id
        said = words(passed)
        assert plain(question.words.explained(quantities)) in said
        assert text("check.right", tries=text("check.tries", n=1 + len(wrong[:3]))) in said


@pytest.mark.parametrize("name", LESSONS)
def test_every_question_for_a_function_says_what_is_wrong_and_hints(name):
    for question in ASKED.values():
        if files.name_of(question.id) != name or question.kind != "function":
            continue
        asked = words(fl.check(question.id))
        assert plain(question.words.asked(question.fill({})[1])) in asked
        assert f'fl.check("{question.id}", your_function)' in asked
        for value in WRONG:
            judged = fl.check(question.id, lambda *given, value=value: value)
            said = words(judged)
            assert plain(question.words.asked(question.fill({})[1])) in said
            assert not judged.data["right"]
            if not judged.data["counted"]:
                assert text("check.uncounted") in said
                continue
            hint = question.words.hint(judged.data["tries"], question.fill({})[1])
            assert text("check.wrong") in said and plain(hint) in said
            for case in judged.parts[0].rows if judged.parts else ():
                assert all(str(cell) in said for cell in case), question.id
            break


@pytest.mark.parametrize("id", judges.questions())
def test_every_question_of_an_exercise_is_asked_in_words(id):
    question = judges.find(id)
    asked = words(fl.check(id))
    assert plain(question.words.asked({})) in asked
    assert all(function in asked for function in question.functions)
    said = words(fl.check(id, [lambda *given: None] * len(question.functions)))
    assert plain(question.words.asked({})) in said
    assert text("check.uncounted") in said or text("check.wrong") in said


def test_every_prediction_is_asked_stored_and_revealed():
    for prediction in predictions().values():
        asked = words(fl.predict(prediction.id))
        assert prediction.asked() in asked and f'fl.predict("{prediction.id}"' in asked
        guess = prediction.highest / 2
        assert f"{guess:e}"[0] in words(fl.predict(prediction.id, guess, prediction.unit))
        told = words(fl.reveal(prediction.id, guess * 2, prediction.unit))
        assert text("reveal.spot_on") not in told and prediction.unit.removesuffix("1") in told


# Lesson 91 --------------------------------------------------------------------------------------------------------


def test_a_drawn_test_is_taken_to_its_end_in_words():
    """With all that a reader sees in text mode; each fifth answer is wrong, and the verdict says so."""
    asked = set()
    for place in range(1, 81):
        shown = fl.exam(1)
        seen = words(shown)
        drawn = sitting._Test("1").next()
        if drawn is None:
            break
        asked.add(drawn.item.id)
        assert (
            text("exam.heading", number=1, place=place, topic=bank.topic_name(drawn.item.topic))
            in seen
        )
        assert plain(drawn.asked) in seen and "fl.exam('1'," in seen
        assert all(plain(option) in seen for option, _ in drawn.options.values())
        wrong = place % 5 == 0
        if not wrong:
            answer = drawn.truth if drawn.options else drawn.key
        elif drawn.options:
            answer = next(letter for letter, (_, mistake) in drawn.options.items() if mistake)
        else:
            factor = quantity(drawn.item.question.unit)[1]
            unit = drawn.item.question.unit.removesuffix("1")
            answer = f"{drawn.item.answers(drawn.given)[1] / factor!r} {unit}"
        said = words(fl.exam(1, answer))
        key = "exam.wrong" if wrong else "exam.right"
        assert plain(text(key, key=drawn.key)) in said
    assert drawn is None and len(asked) == place - 1 >= 8
    assert text("exam.rule") in seen and " / " in seen and shown.data["level"]


def test_every_question_of_the_bank_can_be_read_and_passed_in_words():
    for item in fl.assessment.items().values():
        [drawn] = fl.assessment.draw(7, topics=item.topic, levels=item.level, n=1)
        assert drawn.asked in repr(drawn) and drawn.judge(drawn.key).right
        assert all(option in repr(drawn) for option, _ in drawn.options.values())


def test_interviews_and_pages_are_written_and_marked_in_words():
    page = "These are twelve words or more of an answer that somebody would give."
    for name, interview in written.interviews().items():
        assert interview.asked in words(fl.interview(name))
        points = words(fl.interview(name, page))
        letters = "abcdefgh"[: len(interview.points)]
        for letter, point in zip(letters, interview.points, strict=True):
            assert f"{letter})  {plain(point)}" in points
        said = words(fl.interview(name, page, has=letters))
        assert text("interview.has", n=len(letters), of=len(letters)) in said
    rubric = words(fl.rubric())
    assert all(line.asks in rubric and line.marks[2] in rubric for line in written.criteria())
    assert "claim" in words(fl.rate("claim", ""))
    assert all(line.asks in words(fl.rate("claim", page)) for line in written.criteria())
    fl.rate("claim", page, [2, 1, 0, 1, 2])
    assert "B" in words(fl.rate("claim", page, [2, 2, 0, 1, 2], by="B"))


def test_a_hall_strengths_and_calibration_have_their_numbers_in_words():
    hall = fl.audit(1)
    told = words(hall.judge({}, tell=True))
    assert all(place in told for place in hall.planted.values())
    assert text("calibration.nothing") in words(fl.calibration())
    for prediction in list(predictions().values())[:6]:
        middle = prediction.highest / 4
        fl.predict(prediction.id, middle, prediction.unit, middle / 2, middle * 2)
        fl.reveal(prediction.id, middle * 1.5, prediction.unit)
    held = words(fl.calibration())
    assert "6 of 6 ranges" in held and "100 %" in held
    drawn = sitting._Test("1").next()
    fl.exam(1, drawn.truth if drawn.options else drawn.key)
    assert "1 / 1" in words(fl.strengths()) and "100 %" in words(fl.strengths())
    sheet = fl.assessment.sheet("monday", 8, key=True)
    assert all(key in words(sheet) for key in sheet.data["key"])
