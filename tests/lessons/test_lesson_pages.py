"""The glossary, the errata page and the links of lessons to both.

That all are up to date is held in test_checks_progress, with the list of lessons.
"""

import ast
import itertools
import json
import re
from collections import Counter

import pytest

import fabriclab as fl
import lesson_pages as pages
from fabriclab.catalog import cite
from fabriclab.catalog.tables import rows_of
from fabriclab.course.checks import courses
from fabriclab.course.checks.statements import rows
from fabriclab.course.questions import find, misconception, questions
from fabriclab.texts import table, text
from support.coverage_pages import from_pages
from support.lesson_gates import ROWS, calls, cells, prose, tree
from support.lesson_runs import FILES, ROOT, load

BOOKS = ROOT / "notebooks"
PAGES = {"glossary": pages.glossary, "errata": pages.errata}
LINK = re.compile(r'\[[^\]]*\]\(([^)\s#]*)(?:#([^)\s]*))?(?:\s"[^"]*")?\)')


def anchors(source):
    return re.findall(r'<a id="([^"]*)">', source)


def prose_of(path):
    nb = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in nb["cells"] if cell["cell_type"] == "markdown"]


# The paths


def test_a_path_promises_the_hours_of_its_lessons():
    for row in rows_of("paths.csv", courses.__file__):
        if row["lessons"] == "all":
            continue
        listed = row["lessons"].split()
        ours = [load(name) for name in FILES if name.split("_")[0] in listed]
        assert len(ours) == len(listed)
        minutes = sum(sum(nb.metadata.fabriclab.minutes.values()) for nb in ours)
        if hours := re.fullmatch(r"([\d.]+) h", row["time"]):
            assert float(hours[1]) == round(minutes / 15) / 4, (row["path"], minutes)
        else:  # sessions of a class, in which there is time for questions, too
            sessions, each = re.fullmatch(r"(\d+) x (\d+) min", row["time"]).groups()
            assert minutes <= int(sessions) * int(each), (row["path"], minutes)


# The tables


def test_each_term_has_one_id_one_meaning_and_names_of_its_own():
    words = pages.words()
    assert len(words) > 280 and {row["definition"] for row in words}.isdisjoint({""})
    assert all(re.fullmatch(r"[a-z0-9-]+", row["id"]) for row in words)
    ids = Counter(row["id"] for row in words)
    assert [id for id, n in ids.items() if n > 1] == []
    assert [row["id"] for row in words if len(set(row["all"])) < len(row["all"])] == []
    assert all(text(f"lesson.{row['lesson']}") for row in words if row["lesson"])
    assert all(
        cite(key) for row in words for key in row["source"].split("+") if key and key != "derived"
    )


def test_each_name_has_one_tip_for_each_of_its_senses():
    given = Counter((row["id"], name) for row in pages.words() for name in row["all"])
    tipped = Counter((tip["id"], name) for tip in pages.tips() for name in tip["all"])
    assert tipped == given and set(tipped.values()) == {1}
    for name, several in pages.senses().items():
        labels = [tip["sense"] for tip in several]
        assert len(set(labels)) == len(labels), name
        assert ("" in labels) == (len(labels) == 1), (
            f"{name}: a sense is named if there are several"
        )
    assert {tip["id"] for tip in pages.senses()["channel"]} == {
        "nccl-channel",
        "optical-channel",
        "radio-channel",
    }


def test_a_tip_is_one_short_sentence_about_one_name():
    said = Counter(tip["tip"] for tip in pages.tips())
    assert [words for words, n in said.items() if n > 1] == []
    for words in said:
        assert words.endswith(".") and not re.search(r"[.!?] ", words), words
        assert words[0].isupper() or words.startswith("nvidia-"), words
        assert not re.search(r'["$`*<>|\[\]]', words), f"a title of a link cannot show {words}"


def test_beta_is_a_bandwidth_in_every_formula():
    told = [tip["tip"] for tip in pages.tips()] + [row["definition"] for row in pages.words()]
    formulas = [words for words in told if re.search(r"\bbeta\b", words)]
    wrong = r"(?i)\b(?:S|n|bytes|size) ?[*x\u00d7] ?beta|alpha ?/ ?beta|alpha over beta|inverse bandwidth"
    assert [words for words in told if re.search(wrong, words)] == []
    assert sum("alpha x beta" in words for words in formulas) == 2  # n_half: tip and definition
    assert sum("alpha + S / beta" in words for words in formulas) == 2
    assert re.search(wrong, "t = alpha + S*beta") and re.search(wrong, "half of peak = alpha/beta")


def test_french_headings_lead_to_their_entry():
    page = pages.glossary()
    for name in ("matériel", "exemple", "termes liés", "glossaire"):
        assert re.search(rf"\[{name}\]\(#materiel\)", page)
    assert 'id="materiel"' in page


def test_every_statement_is_numbered_sourced_and_placed():
    assert list(rows()) == [f"E{n:02}" for n in range(1, 75)]
    for row in rows().values():
        assert row["statement"] and row["test"] and row["truth"] and row["group"] in pages.GROUPS, (
            row["id"]
        )
        assert set(row["said"]) <= set(pages.TEXTS) and pages.cited(row)
        assert all(text(f"lesson.{lesson}") for lesson in row["lessons"].split())
        assert ("memory" in row["source"]) >= ("not confirmed" in row["truth"]) or row[
            "id"
        ] == "E63"
        for id in (
            set(row["coverage"].split()) & ROWS.keys()
        ):  # the list and the table name the same lesson
            lesson = ROWS[id]["lesson"]
            assert (
                lesson in (*row["lessons"].split(), "glossary", "errata")
                or lesson.startswith("exercise")
                or row["id"] == "E69"
            )
    assert {question.erratum for question in questions().values()} - {""} <= rows().keys()


# The lessons that the table names


def shown(lesson):
    """Return what a reader sees: the prose, the texts in code, and those of the questions and views that it opens."""
    nb, asked = load(lesson), set()
    found = [pages.OURS.sub(r"\1", cell.source) for cell in cells(nb, "markdown")]
    for cell in cells(nb, "code"):
        found += [
            n.value
            for n in ast.walk(tree(cell))
            if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        for function, first in calls(cell):
            asked |= {("live", function)} | (
                {first} if function in ("check", "predict", "reveal") else set()
            )
            asked |= {
                q.id
                for q in questions().values()
                if function == "drill" and q.drill == f"units/{first}"
            }
    found += [words for key, words in table().items() if tuple(key.split(".")[:2]) in asked]
    for id in asked & questions().keys():
        found += sentences(id)
    return "\n".join(map(str, found))


def sentences(id):
    """Return all sentences of a question."""
    question = find(id)
    words = question.words
    options = [question.right, *(wrong.option for wrong in question.wrong)]
    because = [misconception(id, wrong.mistake) for wrong in question.wrong]
    own = [words.title, words.prompt, *words.hints, words.explanation]
    return [*own, *options, *because]


def says(names, words):
    """Tell whether a text has a name of a term, as link_words reads one, or with a space for a hyphen."""
    parts = [part for name in names for part in name.split(" / ")]
    forms = [r"[\s-]".join(map(re.escape, re.split(r"[\s-]", part))) for part in parts]
    either = (
        f"(?i:{form})" if part == part.lower() else form
        for form, part in zip(forms, parts, strict=True)
    )
    return re.search(rf"(?<!\w)(?:{'|'.join(either)})(?:s|es)?(?!\w)", words) is not None


@pytest.mark.parametrize("lesson", FILES)
def test_a_lesson_says_each_term_that_the_glossary_sends_readers_to_it_for(lesson):
    words, mine = shown(lesson), [row for row in pages.words() if row["lesson"] == lesson]
    assert mine and [row["term"] for row in mine if not says(row["all"], words)] == []


@pytest.mark.parametrize(
    ("names", "words", "found"),
    [
        (["rail switch"], "Rail switches", True),
        (["direct network"], "a direct-network", True),
        (["CXL.io / .cache"], "by .cache", True),
        (["BER"], "a number in September", False),
        (["BER"], "the ber", False),
        (["OAM"], "foam, OAMx", False),
        (["slot pool"], "a pool of slots", False),
    ],
)
def test_a_name_is_found_as_a_word(names, words, found):
    assert says(names, words) is found


def test_what_a_lesson_shows_has_its_questions_and_views():
    words = shown("11_electrical_links")
    share = find("11-share").words
    assert share.explanation in words and share.prompt in words
    assert "After encoding" in shown("11d_links_side_by_side")
    assert next(said for key, said in table().items() if key.startswith("live.latency.")) in words
    assert find("12-lpo").words.explanation not in words


# The pages


@pytest.mark.parametrize(
    "path", [*(BOOKS / f"{name}.md" for name in PAGES), *FILES.values()], ids=lambda path: path.stem
)
def test_no_link_between_lessons_and_pages_is_dead(path):
    source = path.read_text(encoding="utf-8") if path.suffix == ".md" else "\n".join(prose_of(path))
    for file, anchor in LINK.findall(source):
        if "://" in file:
            continue
        goal = path if not file else (BOOKS / file).resolve()
        assert goal.exists(), (file, anchor)
        if anchor and goal.suffix == ".md" and goal.parent == BOOKS:
            assert anchor in anchors(goal.read_text(encoding="utf-8")), (file, anchor)


@pytest.mark.parametrize("page", PAGES)
def test_anchors_are_unique_and_headings_in_order(page):
    source = PAGES[page]()
    assert [a for a, n in Counter(anchors(source)).items() if n > 1] == []
    levels = [len(marks) for marks in re.findall(r"^(#+) ", source, re.MULTILINE)]
    assert (
        levels[0] == 1
        and levels.count(1) == 1
        and all(b <= a + 1 for a, b in itertools.pairwise(levels))
    )
    letters = re.findall(r"^\*\*(\S+)\*\* \[", source, re.MULTILINE)
    assert letters == sorted(letters) and len(letters) >= 24 * (page == "glossary")


def test_a_lesson_that_does_not_exist_is_planned_and_needs_no_edit_when_it_comes(monkeypatch):
    lesson = next(
        row["lesson"]
        for row in pages.words()
        if row["lesson"] and all(f"({row['lesson']}.ipynb)" in make() for make in PAGES.values())
    )
    words = lesson.replace("_", " ")
    there = FILES[lesson]
    monkeypatch.delitem(FILES, lesson)
    for make in PAGES.values():
        assert f"{words} (planned)" in make() and f"({lesson}.ipynb)" not in make()
    monkeypatch.setitem(FILES, lesson, there)
    for make in PAGES.values():
        assert f"[{words}]({lesson}.ipynb)" in make() and f"{words} (planned)" not in make()


def test_the_pages_cover_their_rows_and_only_the_errata_page_names_authors():
    for page, make in PAGES.items():
        mine = {id for id, row in ROWS.items() if row["lesson"] == page}
        source = make()
        assert mine and mine <= from_pages([source])
        # the id is an anchor, and no reader sees it
        assert re.findall(r"(?<!\w)C\d{3}(?!\w)", source) == []
        for id in mine if page == "errata" else ():
            (row,) = (row for row in rows().values() if id in row["coverage"].split())
            key, begin = row["id"], f'| <a id="{id.lower()}"></a>{ROWS[id]["item"]} | '
            (line,) = (line for line in source.splitlines() if line.startswith(begin))
            holds, more, _ = line.removeprefix(begin).split(" |")
            assert row["truth"].startswith(holds) and holds.endswith(".") and len(holds) > 20
            assert more == f" see [{key}](#{key.lower()})"
            # the item repeats no figure of the statement
            assert not re.search(r"\d+ ?[GT][Bb]/s|\d ?[un]s\b", ROWS[id]["item"])
    names = re.compile("AI Infrastructure Lab|AI Training Networks|Deterministic Data")
    assert names.search(pages.errata())
    shown = (repr(fl.errata(id)) for id in rows())
    for source in (
        pages.glossary(),
        *shown,
        *("\n".join(prose_of(path)) for path in FILES.values()),
    ):
        assert not names.search(source)


def test_the_glossary_shows_each_name_with_its_own_tip_and_each_sense_in_the_index():
    page = pages.glossary()
    assert "[channel (NCCL)](#nccl-channel) · [channel (optical)](#optical-channel)" in page
    entry = page.split('<a id="ecmp">')[1].split("\n- <a")[0]
    (row,) = (row for row in pages.words() if row["id"] == "ecmp")
    assert f"**{row['term']}**: {row['definition'].rstrip('.')}. Lesson: " in entry
    for name in ("ECMP", "hash polarisation", "entropy"):
        (tip,) = pages.senses()[name]
        assert f"  - *{name}*: {tip['tip']}" in entry
    assert "  - " not in page.split('<a id="pareto-front">')[1].split("\n- <a")[0].split("\n## ")[0]


# The links in lessons


def test_a_term_is_linked_once_where_prose_first_uses_it():
    first, second = pages.link_words(
        ["# The NIC\n\n`NIC` and [NIC](x.md): NICs, a NIC", "Radix and NIC; $radix$"]
    )
    assert re.findall(r"\[(\w+)\]\(glossary\.md#(\S*) ", first + second) == [
        ("NICs", "hca"),
        ("Radix", "radix"),
    ]
    assert first.startswith("# The NIC\n\n`NIC` and [NIC](x.md): [NICs]") and second.endswith(
        "and NIC; $radix$"
    )


def test_forms_of_one_name_are_linked_once_and_show_its_tip():
    (made,) = pages.link_words(["A bus bandwidth (busbw), an lkey, an rkey, Bus bandwidths"])
    tips = [pages.senses()[name][0]["tip"] for name in ("busbw", "lkey", "rkey")]
    assert pages.LINKED.findall(made) == [
        ("bus bandwidth", "busbw", tips[0]),
        ("lkey", "pd", tips[1]),
        ("rkey", "pd", tips[2]),
    ]


def made_up(source, **header):
    """Return a lesson with one cell of prose below its head."""
    shown = [{"cell_type": "markdown", "source": [words]} for words in ("# A lesson", source)]
    return {"metadata": {"fabriclab": header}, "cells": shown}


@pytest.mark.parametrize(
    ("senses", "id"),
    [
        ({}, None),
        ({"channel": "nccl-channel"}, "nccl-channel"),
        ({"channel": "optical-channel"}, "optical-channel"),
        ({"channel": "radio-channel"}, "radio-channel"),
    ],
)
def test_a_name_with_several_senses_is_linked_in_the_sense_that_the_lesson_states(senses, id):
    (made,) = pages.link_words(["Channels have a rate"], stated=senses)
    found = pages.LINKED.findall(made)
    assert [goal for _, goal, _ in found] == ([id] if id else [])
    assert pages.wrong_links(made_up(made, senses=senses)) == []
    for other in ("nccl-channel", "optical-channel", "radio-channel"):
        if id and other != id:
            (fault,) = pages.wrong_links(made_up(made, senses={"channel": other}))
            assert fault == f"'Channels' leads to '{id}' and means '{other}'"
    if id:
        (fault,) = pages.wrong_links(made_up(made))
        assert "states no sense" in fault


def test_an_ordinary_word_is_linked_only_where_the_lesson_says_what_it_means():
    source = "A plane of switches"
    assert pages.link_words([source]) == [source]
    (made,) = pages.link_words([source], stated={"plane": "rail"})
    assert pages.LINKED.findall(made)[0][:2] == ("plane", "rail")


def test_a_title_that_is_not_the_tip_of_its_name_is_refused():
    (made,) = pages.link_words(["An lkey"])
    swapped = made.replace(pages.senses()["lkey"][0]["tip"], pages.senses()["rkey"][0]["tip"])
    assert pages.wrong_links(made_up(made)) == []
    (fault,) = pages.wrong_links(made_up(swapped))
    assert "is not its tip" in fault


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"channel": "rail"}, r"'channel' with the ids \['optical-channel', .*got 'rail'"),
        ({"chanel": "nccl-channel"}, r"'chanel' with the ids \[\], got 'nccl-channel'"),
    ],
)
def test_a_sense_that_the_glossary_does_not_have_is_refused(stated, said):
    with pytest.raises(ValueError, match=said):
        pages.link_words(["A channel"], stated=stated)


def test_a_term_that_a_lesson_leaves_unlinked_gets_no_link():
    assert pages.link_words(["Low latency"], unlinked=["latency"]) == ["Low latency"]


@pytest.mark.parametrize("name", FILES)
def test_each_link_of_a_lesson_shows_the_tip_of_its_name_in_the_sense_that_the_lesson_states(name):
    nb = json.loads(FILES[name].read_text(encoding="utf-8"))
    assert pages.wrong_links(nb) == []
    linked = {
        title for cell in nb["cells"] for *_, title in pages.LINKED.findall("".join(cell["source"]))
    }
    for word, id in nb["metadata"]["fabriclab"].get("senses", {}).items():
        meant = next(tip["tip"] for tip in pages.senses()[word] if tip["id"] == id)
        assert meant in linked, f"the header states what {word!r} means, and no link shows it"


@pytest.mark.parametrize("words", ["NVLink SHARP", "GPUDirect RDMA"])
def test_the_longest_name_wins(words):
    (made,) = pages.link_words([f"Here is {words}."])
    assert made.startswith(f"Here is [{words}](glossary.md#{words.lower().replace(' ', '-')} ")


def test_a_title_with_brackets_is_no_prose():
    assert prose('a [b](glossary.md#b "c (d) e") f') == "a b f"


@pytest.mark.parametrize("name", FILES)
def test_a_lesson_is_what_it_was_but_for_its_links(name):
    """Links away, the made lesson and the committed one have the same words; what is made again stays."""
    made = json.loads(pages.linked(name))
    bare = ["".join(cell["source"]) for cell in made["cells"]]
    assert any("glossary.md#" in source for source in bare)
    headings = re.findall(r"^#.*$", "\n".join(bare), re.MULTILINE)
    assert not any("glossary.md" in source for source in (bare[0], *headings))
    used = [title for *_, title in pages.LINKED.findall("\n".join(bare))]
    assert len(used) == len(set(used))  # each name once
    named = re.findall(r'\[(E\d\d)\]\(errata\.md#e\d\d "([^"]*)"\)', "\n".join(bare))
    assert dict(named) == {row["id"]: row["statement"] for row in pages.treated(name, made)}


def test_every_question_on_a_statement_stands_in_a_lesson_that_names_it():
    for question in questions().values():
        if question.erratum and question.lesson in FILES:
            prose = "\n".join(prose_of(FILES[question.lesson]))
            assert f"(errata.md#{question.erratum.lower()} " in prose, question.id


# What a lesson shows


@pytest.mark.parametrize("id", ["E27", "e27"])
def test_a_lesson_and_the_page_say_the_same(id):
    shown, row = fl.errata(id), rows()["E27"]
    part = pages.errata().split('<a id="e27">')[1].split("\n### ")[0]
    for way in (repr(shown), shown.markdown()):
        assert all(row[key] in way and row[key] in part for key in ("statement", "test", "truth"))
    assert "NVIDIA/nccl" in repr(shown) and "E27" in repr(shown)


@pytest.mark.parametrize("id", ["E99", "", None, 27])
def test_a_row_that_is_not_there_is_refused_with_the_nearest(id):
    with pytest.raises(ValueError, match=text("errata.table")):
        fl.errata(id)


def test_notebooks_are_written_as_jupyterlab_writes_them():
    """Or the first edit of a cell would change every line with a µ in it."""
    for path in [*BOOKS.glob("*.ipynb"), *(ROOT / "solutions").glob("*.ipynb")]:
        kept = path.read_text(encoding="utf-8")
        assert kept == json.dumps(json.loads(kept), ensure_ascii=False, indent=1) + "\n", path.name
