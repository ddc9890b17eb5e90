"""Languages: what a translation keeps of its original, how it writes numbers, and what it leaves in English."""

import json
import re
import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest

import fabriclab as fl
from fabriclab import texts
from fabriclab.course import cards
from fabriclab.course.assessment import bank, written
from fabriclab.course.assessment.links import lesson_name
from fabriclab.course.questions import files, predictions, questions
from fabriclab.course.shown import parse_answer
from fabriclab.texts import localised, text

HERE = Path(texts.__file__).parent
ENGLISH = json.loads((HERE / "texts_en.json").read_text("utf-8"))
OTHERS = [language for language in texts.languages() if language != "en"]
# What is no sentence: how a language writes numbers, and its name.
SETTINGS = {"language", "number.decimal", "number.thousands", "number.singular"}


def table_of(language):
    return json.loads((HERE / f"texts_{language}.json").read_text("utf-8"))


def originals():
    """Return key -> original of all that a table may translate besides the English table."""
    found = {}
    of_the_bank = {id: item.question for id, item in bank.items().items()}
    for question in (questions() | of_the_bank).values():
        words = question.words
        found |= {
            f"title.{words.id}": words.title,
            f"q.{words.id}": words.prompt,
            f"{words.id}.why": words.explanation,
            f"{words.id}.right": question.right,
        }
        for place, wrong in enumerate(question.wrong, 1):
            found[f"{words.id}.wrong{place}"] = wrong.option
        for level, hint in enumerate(words.hints, 1):
            found[f"{words.id}.hint{level}"] = hint
    for prediction in predictions().values():
        start = f"guess.{prediction.id}"
        found |= {
            start: prediction.title,
            f"{start}.question": prediction.question,
            f"{start}.claim": prediction.claim,
            f"{start}.why": prediction.explanation,
        }
    for id, mistake in files.mistakes():
        found[f"{id}.mis.{mistake}"] = found[f"mis.{mistake}"] = files.misconception(id, mistake)
    for question in questions().values():
        for wrong in question.wrong:
            found[f"{question.id}.mis.{wrong.mistake}"] = files.misconception(
                question.id, wrong.mistake
            )
    found |= {f"bank.mis.{mistake}": sentence for mistake, sentence in bank.mistakes().items()}
    for item in bank.items().values():
        found |= {f"bank.{item.id}.mis.{mistake}": s for mistake, s in item.own.items()}
    for name, entry in written.interviews().items():
        found[f"interview.{name}.asked"] = entry.asked
        found |= {f"interview.{name}.point{n}": s for n, s in enumerate(entry.points, 1)}
        found |= {f"interview.{name}.trap{n}": s for n, s in enumerate(entry.traps, 1)}
    for line in written.criteria():
        found[f"rubric.{line.name}.asks"] = line.asks
        found |= {f"rubric.{line.name}.mark{n}": s for n, s in enumerate(line.marks, 1)}
    return {key: sentence for key, sentence in found.items() if sentence}


def fields(sentence):
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


@pytest.fixture
def french(monkeypatch, tmp_path):
    monkeypatch.setenv("FABRICLAB_LANGUAGE", "fr")
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.delenv("FABRICLAB_TEXT", raising=False)


# The tables -------------------------------------------------------------------------------------------------------


def test_french_has_forty_sentences_and_more():
    assert "fr" in OTHERS and len(table_of("fr").keys() - SETTINGS) >= 40


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_keeps_the_fields_parts_and_lines_to_type_of_its_original(language):
    known = ENGLISH | originals()
    made = table_of(language)
    assert [key for key in made if key not in known] == []
    for key in made.keys() - SETTINGS:
        sentence, original = made[key], known[key]
        assert fields(sentence) == fields(original), key
        assert sentence.count("|") == original.count("|"), key
        assert re.findall("`([^`]*)`", sentence) == re.findall("`([^`]*)`", original), key
        assert sentence.strip() and sentence == sentence.strip("\t"), key
        assert (sentence[0] == " ", sentence[-1] == " ") == (
            original[0] == " ",
            original[-1] == " ",
        ), key


@pytest.mark.parametrize("language", OTHERS)
def test_no_key_of_a_translation_stands_twice(language):
    file = HERE / f"texts_{language}.json"
    pairs = json.loads(file.read_text("utf-8"), object_pairs_hook=list)
    assert len({key for key, _ in pairs}) == len(pairs)


def test_french_has_its_spaces_before_high_marks():
    """A narrow one before ? ! and ;, and one that does not break before : and %, so that no mark begins a line."""
    for key, sentence in table_of("fr").items():
        words = re.sub("`[^`]*`|{[^}]*}", "", sentence)
        assert not re.search(r"[\w»)] ?[?!;](?!\w)|[\w»] ?:(?= |$)|\d ?%|« | »", words), key


# The choice -------------------------------------------------------------------------------------------------------


def test_what_is_not_translated_is_in_english(monkeypatch, tmp_path):
    made = table_of("fr")
    lacking = next(key for key in ENGLISH if key not in made and "{" not in ENGLISH[key])
    monkeypatch.setenv("FABRICLAB_LANGUAGE", "fr")
    assert text(lacking) == ENGLISH[lacking] and text("word.yes") == "oui"
    assert texts.keys("lesson.") == [key for key in ENGLISH if key.startswith("lesson.")]
    own = tmp_path / "mine.json"
    own.write_text('{"word.yes": "aye"}')
    monkeypatch.setenv("FABRICLAB_LANGUAGE", str(own))
    assert (text("word.yes"), text("word.no")) == ("aye", "no")


def test_an_unknown_language_is_told_with_the_known_ones(monkeypatch):
    monkeypatch.setenv("FABRICLAB_LANGUAGE", "xx")
    with pytest.raises(ValueError, match=r"one of en, fr, .* got 'xx'"):
        text("word.yes")


def test_the_switch_works_from_outside(tmp_path):
    import os

    env = {**os.environ, "FABRICLAB_LANGUAGE": "fr", "FABRICLAB_PROGRESS": str(tmp_path / "p.json")}
    code = "import fabriclab as fl; print(fl.check('31-ring-bytes', '175 MB'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**env, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
    )
    assert "Juste, du premier coup." in done.stdout.decode("utf-8")


# Numbers and plurals ----------------------------------------------------------------------------------------------


def test_numbers_have_the_marks_of_the_language(french):
    for english, in_french in (
        ("1,024", "1\u202f024"),
        ("17.6 GB", "17,6 GB"),
        ("-1,234,567.25 B/s", "-1\u202f234\u202f567,25 B/s"),
        ("15.5 times", "15,5 fois"),
        ("0.5", "0,5"),
    ):
        assert localised(english) == in_french
    for other in ("lesson 31", "0.1.0", "10.0.0.1", "1,02", "fl.check(1.5)", "1.5 to 2", "", "GB"):
        assert localised(other) == other
    assert texts.fill(
        "{a:time}, {b:rate}, {n:,}, {p:.0%}, {s}", a=0.0715, b=5e10, n=4096, p=0.5, s="1,024.5"
    ) == ("71,5 ms, 50,0 GB/s, 4\u202f096, 50 %, 1\u202f024,5")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("fr", ["0 essai", "1 essai", "1,5 essai", "2 essais"]),
        ("en", ["0 essais", "1 essai", "1.5 essais", "2 essais"]),
    ],
)
def test_words_follow_the_plural_of_the_language(monkeypatch, language, words):
    monkeypatch.setenv("FABRICLAB_LANGUAGE", language)
    assert [texts.fill("{n:g} {n:/essai/essais}", n=n) for n in (0, 1, 1.5, 2)] == words


def test_english_writes_numbers_as_before():
    assert localised("1,024.5 GB/s") == "1,024.5 GB/s" and localised("15.5 times") == "15.5 times"


def test_numbers_are_read_as_they_are_written(french):
    assert parse_answer("1\u202f024,5 MB", "MB").value == pytest.approx(1024.5e6)
    assert parse_answer("15,5 fois", "times").value == 15.5


# Cards ------------------------------------------------------------------------------------------------------------


def words_of(page):
    """Return what a card shows, without its style and its tags."""
    import html

    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL))


def test_a_question_speaks_french_as_text_and_as_a_card(french):
    asked = "Combien d'octets chaque rang envoie-t-il\u202f?"
    wrong = fl.check("31-ring-bytes", "300 MB")
    for shown in (str(wrong), words_of(wrong._repr_html_())):
        for part in (asked, "Pas encore.", "C'est le doublement récursif", "Indice 1 sur 3"):
            assert part in shown
        assert "Hint" not in shown and "Not yet" not in shown
    assert 'lang="fr"' in wrong._repr_html_()
    form = fl.check("22-far").live()
    assert form.widget.spec["words"]["language"] == "fr"
    options = {letter: words for letter, (words, _) in questions()["22-far"].options({}).items()}
    assert all(
        words in cards.html.unescape(form.widget.frame["html"]) for words in options.values()
    )
    assert "Vérifier" in fl.check("31-ring-bytes").live().widget.frame["html"]


def test_a_prediction_speaks_french_from_the_guess_to_the_truth(french):
    form = fl.predict("22-detour").live()
    for part in ("Devinez d'abord", "au moins", "meilleure estimation", "au plus", "Aucune idée"):
        assert part in words_of(form.widget.frame["html"])
    typed = {"low": "1,5", "value": "8,5", "high": "20"}
    form.widget.asked = {"seq": 1, "press": "store", "fields": typed}
    assert form.widget.frame["said"] == (
        "Enregistré\u00a0: 8,5 fois, entre 1,5 et 20. Exécutez maintenant la cellule suivante."
    )
    revealed = fl.reveal("22-detour", 15.5)
    assert "Vous aviez dit 8,5 fois\u202f; résultat du calcul\u00a0: 15,5 fois." in str(revealed)
    card = words_of(revealed._repr_html_())
    for part in (
        "15,5 fois plus de données",
        "votre intervalle\u00a0: de 1,5 à 20 fois",
        "1\u202f000 fois",
        "0,01",
    ):
        assert part in card
    assert "times" not in card and "1,000" not in card


def test_a_live_view_speaks_french(french):
    view = fl.live.stepper("all_reduce", "ring", 4, step=1)
    assert "Après 1 étape sur 6" in str(view) and view.title.startswith("étapes de")
    words = view.widget.spec["words"]
    assert (words["decimal"], words["thousands"], words["play"]) == (",", "\u202f", "Lecture")


def test_a_card_of_the_assessment_has_no_word_outside_the_table(monkeypatch, tmp_path):
    """With a language in which every letter a, e, i, o and u has an accent, a plain one is a sentence in the code."""
    accents = str.maketrans("aeiouAEIOU", "áéíóúÁÉÍÓÚ")

    def accented(sentence):
        parts = re.split(r"({[^}]*}|`[^`]*`)", sentence)
        return "".join(
            part if place % 2 else part.translate(accents) for place, part in enumerate(parts)
        )

    table = {key: accented(sentence) for key, sentence in (ENGLISH | originals()).items()}
    file = tmp_path / "accented.json"
    file.write_text(json.dumps(table | {key: ENGLISH[key] for key in SETTINGS}))
    monkeypatch.setenv("FABRICLAB_LANGUAGE", str(file))
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))
    monkeypatch.delenv("FABRICLAB_TEXT", raising=False)
    page = "12 words 12 words 12 words 12 words 12 words 12 words"
    shown = {
        "a test": fl.exam("917"),
        "a choice": fl.check("91-rails", "a"),
        "a number": fl.check("91-media", "1 W"),
        "a guess": fl.predict("91-border"),
        "an interview": fl.interview("rails", page),
        "its points": fl.interview("rails", page, has="a"),
        "a rating": fl.rate("12", page),
        "ratings": fl.rate("12", page, [1, 1, 1, 1, 1]),
        "calibration": fl.calibration(),
    }
    left = {}
    for name, thing in shown.items():
        seen = re.sub(
            "<code>.*?</code>|<code .*?</code>", " ", thing._repr_html_(), flags=re.DOTALL
        )
        seen = seen.replace(lesson_name("21_fat_tree_and_rails"), "")  # the title of a notebook
        found = re.findall(r"(?<![\w.-])[a-z]*[aeiou][a-z]{3,}(?![\w.-])", words_of(seen))
        if found:
            left[name] = found
    assert left == {}


def test_an_interview_speaks_french(french):
    page = " ".join(["mot"] * 12)
    shown = str(fl.interview("rails", page))
    assert "Pourquoi les rails aident-ils" in shown and "32 sauts sur 1\u202f024" in shown
    assert "contient 1 point sur 4" in str(fl.interview("rails", page, has="b"))
