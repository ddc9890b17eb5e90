"""Words of pictures and cards: microseconds are printed µs, and a number stays on one line with its unit."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

import fabriclab
from fabriclab import units, views
from fabriclab.texts import unbroken, unit_words, wrapped
from fabriclab.views.scene import Scene, printed
from support.live_views import VIEWS

HERE = Path(fabriclab.__file__).parent
# "us" as a unit: after a number or a field, or in the head of a column. Not the "us" in "give us 5".
TYPED = re.compile(r"[\d}] ?us\b|\[us\]")
GAP = "\u00a0"


def words_of(view):
    """Return every text that a view shows: sentences, labels, ticks, notes, its table and the ends of its sliders."""
    found = [view.title, str(view.scene.table or "")]
    for scene in view.scene.panels():
        found += [scene.said, scene.alt, scene.hint, scene.caption]
        for layer in scene.layers.values():
            for value in layer.fields.values():
                if isinstance(value, list | tuple) or np.ndim(value):
                    found += [word for word in value if isinstance(word, str)]
    for control in view.widget.spec["controls"]:
        shown = {key: value for key, value in control.items() if key not in ("unit", "units")}
        found.append(json.dumps(shown, ensure_ascii=False, default=str))
    return found


@pytest.mark.parametrize("name", VIEWS)
def test_no_view_prints_us(name):
    for words in words_of(VIEWS[name]()):
        assert not TYPED.search(words), words


def sentences(value):
    """Return all texts within the value of a file of sentences."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [words for part in inner for words in sentences(part)]


def test_no_sentence_of_the_language_table_prints_us():
    table = json.loads((HERE / "texts_en.json").read_text("utf-8"))
    assert [words for words in sentences(table) if TYPED.search(words)] == []


def test_no_question_prints_us():
    tomllib = pytest.importorskip("tomllib")
    for file in (HERE / "course").rglob("*.toml"):
        found = sentences(tomllib.loads(file.read_text("utf-8")))
        assert [words for words in found if TYPED.search(re.sub("`[^`]*`", "", words))] == [], file


def test_no_code_goes_around_the_unit_formatter():
    """A field of an f-string with " us" behind it would print what `units.printed` and `units.format_time` mend."""
    found = []
    for file in HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                for part in node.values:
                    if isinstance(part, ast.Constant) and re.match(r" ?us\b", str(part.value)):
                        found.append(f"{file.name}:{node.lineno}")
    assert found == []


def test_both_spellings_are_typed_and_one_is_printed():
    assert units.parse("5 us", "time") == units.parse("5 µs", "time") == pytest.approx(5e-6)
    assert units.format_time(5e-6) == "5.00 µs"
    assert (unit_words("us"), unit_words("GB/s")) == ("µs", "GB/s")
    table = views.table({"wait [us]": [5.0], "as text [us]": ["5"]})
    assert str(table).split("\n")[0].split() == ["wait", "[µs]", "as", "text", "[µs]"]
    assert table["wait [us]"] == [5.0]


@pytest.mark.parametrize("unit", [*units.UNITS, "%", "×", "/ s", "/ min", "dB", "°C"])
def test_a_number_and_its_unit_are_joined(unit):
    joined = f"76.4 {unit}".replace(" ", GAP)
    assert unbroken(f"It has 76.4 {unit}, and more") == f"It has {joined}, and more"


@pytest.mark.parametrize("words", ["8 GPUs", "12 / 30 steps", "leaf 3 sends", "4 x 4", "n / P"])
def test_what_is_no_unit_may_begin_a_line(words):
    assert unbroken(words) == words
    assert unbroken("USD 12") == f"USD{GAP}12"


def test_finding_footer_and_caption_of_a_card_keep_a_number_and_its_unit_on_one_line():
    picture = printed(
        Scene("It makes 76.4 / min. Before 2 / s.", hint="At 50 GB/s.", caption="In 5 µs.")
    )
    page = picture._repr_mimebundle_()["text/html"]
    for words in ("76.4 / min", "2 / s", "50 GB/s", "5 µs"):
        assert words.replace(" ", GAP) in page
    table = views.table({"n": [1]}, caption="It makes 76.4 / min.")
    assert f"76.4{GAP}/{GAP}min" in table._repr_html_()


def test_a_drawn_text_is_wrapped_between_words_and_not_before_a_unit():
    assert wrapped("a ring takes 76.4 ms", 17) == ["a ring takes", "76.4 ms"]
