"""The page of a class, made from progress files."""

import html
import json
import math
import re

import pytest

from fabriclab.__main__ import main
from fabriclab.course.classroom.collected import collect
from fabriclab.course.classroom.findings import (
    EDGES,
    Answered,
    Topic,
    equal_values,
    topics,
    weakest,
)
from fabriclab.course.classroom.oral import oral_questions
from fabriclab.course.progress import store
from fabriclab.course.questions import predictions, questions
from fabriclab.course.shown import InputRefused
from fabriclab.texts import text
from support.classes import LESSONS, WEAK, make_class


@pytest.fixture
def handed_in(tmp_path):
    folder = tmp_path / "handed_in"
    folder.mkdir()
    return folder


def changed(file, change):
    """Change the content of a progress file by a function."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("seed", range(5))
def test_the_three_weakest_topics_of_a_made_class_stand_on_top(handed_in, seed):
    make_class(handed_in, seed=seed)
    found = weakest(topics(collect(handed_in).students))
    assert {topic.key.split("_")[0] for topic in found} == set(WEAK)
    assert [topic.first for topic in found] == sorted(topic.first for topic in found)
    strong = make_class(handed_in, seed=seed, weak=("11", "21", "31"))
    found = weakest(topics(collect(handed_in).students))
    assert {topic.key.split("_")[0] for topic in found} == {"11", "21", "31"} and strong


def test_the_page_shows_shares_mistakes_guesses_and_minutes(handed_in, tmp_path, capsys):
    names = make_class(handed_in)
    out = tmp_path / "class.html"
    assert main(["class", str(handed_in), "--out", str(out)]) == 0
    assert "30 students" in capsys.readouterr().err
    page = out.read_text()
    talks = (tmp_path / "class-talks.html").read_text()
    assert not any(name in page + talks for name in names) and "student 30" in talks
    found = topics(collect(handed_in).students)
    assert [topic.key.split("_")[0] for topic in found] == list(LESSONS)
    top = page[: page.index("<table")]
    for topic in weakest(found):
        share = f"{100 * topic.first:.0f} %"
        assert topic.title.split(" ", 1)[0] in top and share in top, topic.title
    for topic in found:
        for question in topic.answered:
            n = len(question.entries)
            assert question.n_first + sum(m.n for m in question.mistakes) <= n
            assert question.n_right == n == 30
        for guess in topic.guessed:
            assert sum(guess.bars) == len(guess.factors) == 30
            held, n = guess.ranges
            # A range of a factor of two on both sides holds the truth if the guess is off by less.
            assert held == sum(0.5 <= factor <= 2 for factor in guess.factors) and n == 30
        n_entries = sum(1 for question in topic.answered) + len(topic.guessed)
        if (
            n_entries > 2
        ):  # entries are 2 minutes apart, and the truth of a guess comes a minute later
            assert all(0 < m <= 2 * n_entries for m in topic.minutes)


def test_names_are_shown_where_they_are_asked_for(handed_in, tmp_path):
    names = make_class(handed_in, n=4)
    out = tmp_path / "class.html"
    assert main(["class", str(handed_in), "--out", str(out), "--names"]) == 0
    talks = (tmp_path / "class-talks.html").read_text()
    assert all(name in talks for name in names)


def test_equal_measured_values_are_listed_and_stored_runs_are_not(handed_in, tmp_path):
    names = make_class(handed_in, n=5)
    assert equal_values(collect(handed_in).students) == []
    first, second, third = (handed_in / f"{name}.json" for name in names[:3])
    own = json.loads(first.read_text())["measurements"]
    changed(second, lambda content: content.update(measurements=own))
    (equal,) = equal_values(collect(handed_in).students)
    assert [student.name for student in equal.students] == sorted(names[:2])
    out = tmp_path / "class.html"
    main(["class", str(handed_in), "--out", str(out)])
    assert "memory copy" in out.read_text() and "ask before you judge" in out.read_text()

    stored = {"copy": own["copy"] | {"obtained": "stored"}}
    for file in (first, second, third):
        changed(file, lambda content: content.update(measurements=stored))
    assert equal_values(collect(handed_in).students) == []


def test_a_pause_is_no_work_and_two_entries_tell_no_time(handed_in):
    make_class(handed_in, n=1)
    (file,) = handed_in.iterdir()

    def pause(content):
        entries = content["checks"]
        lesson = [id for id in entries if id.startswith("31-")]
        last = entries[lesson[-1]]
        last["begun"] = last["when"] = "2026-10-01T09:00:00+00:00"

    before = {t.key: t.minutes for t in topics(collect(handed_in).students)}
    changed(file, pause)
    after = {t.key: t.minutes for t in topics(collect(handed_in).students)}
    (key,) = (key for key in before if key.startswith("31_"))
    assert 0 < after[key][0] < before[key][0]
    changed(file, lambda content: content.update(checks={}, drills={}, predictions={}))
    assert topics(collect(handed_in).students) == []


def test_several_files_of_a_student_are_one_and_the_newest_entry_counts(handed_in):
    names = make_class(handed_in, n=2)
    own = handed_in / names[0]
    own.mkdir()
    first = handed_in / f"{names[0]}.json"
    old = json.loads(first.read_text())
    first.rename(own / "fabriclab-progress.json")
    new = json.loads(json.dumps(old))
    id = next(iter(new["checks"]))
    new["checks"][id] |= {"tries": 7, "when": "2027-01-01T00:00:00+00:00"}
    (own / "again.json").write_text(json.dumps(new))
    students = collect(handed_in).students
    assert [student.name for student in students] == sorted(names)
    mine = next(student for student in students if student.name == names[0])
    assert mine.kept["checks"][id]["tries"] == 7
    assert len(mine.kept["predictions"]) == len(old["predictions"])


def test_files_that_cannot_be_read_are_named_and_the_others_count(handed_in, tmp_path, capsys):
    names = make_class(handed_in, n=3)
    (handed_in / f"{names[0]}.json").write_text('{"format": "fabriclab-progress", "version"')
    changed(handed_in / f"{names[1]}.json", lambda content: content.update(version=99))
    (handed_in / "settings.json").write_text("{}")  # something else
    out = tmp_path / "class.html"
    assert main(["class", str(handed_in), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert names[0] in said and names[1] in said and "settings" not in said
    assert "1 student" in said
    # A file may have the name of a student, so the page only counts them.
    page = out.read_text()
    assert text("class.unread.count", n=2) in page and not any(name in page for name in names)


@pytest.mark.parametrize(
    "odd",
    [
        {"begun": "yesterday"},
        {"when": "2026-10-01T09:00:00"},  # beside times with a zone
        {"named": [["a list"]]},
    ],
)
def test_an_edited_entry_costs_its_own_file_only(handed_in, tmp_path, odd):
    names = make_class(handed_in, n=2)

    def edit(content):
        content["checks"][next(iter(content["checks"]))] |= odd

    changed(handed_in / f"{names[0]}.json", edit)
    assert main(["class", str(handed_in), "--out", str(tmp_path / "class.html")]) == 1
    assert [student.name for student in collect(handed_in).students] == [names[1]]


def test_no_sentence_shows_its_fields(handed_in, tmp_path):
    """Some sentences on mistakes name the numbers of an answer, which a page of a class does not have."""
    make_class(handed_in, n=1)
    (file,) = handed_in.iterdir()

    def err_everywhere(content):
        for id, question in questions().items():
            if question.wrong:
                content["checks"][id] = {
                    "tries": 2,
                    "right": False,
                    "named": [wrong.mistake for wrong in question.wrong],
                    "days": [],
                }

    changed(file, err_everywhere)
    out = tmp_path / "class.html"
    main(["class", str(handed_in), "--out", str(out)])
    assert "{" not in out.read_text().partition("</style>")[2]
    assert "{" not in (tmp_path / "class-talks.html").read_text().partition("</style>")[2]


def test_a_topic_is_weak_only_by_the_answers_of_several_students(handed_in):
    names = make_class(handed_in, n=3)
    for name in names:
        changed(
            handed_in / f"{name}.json",
            lambda content: content["checks"].update(
                {id: entry | {"tries": 1} for id, entry in content["checks"].items()}
            ),
        )
        changed(
            handed_in / f"{name}.json",
            lambda content: content["drills"].update(
                {id: entry | {"tries": 1} for id, entry in content["drills"].items()}
            ),
        )
    assert weakest(topics(collect(handed_in).students)) == []
    wrong = {"tries": 3, "right": False, "named": [], "days": []}
    changed(handed_in / f"{names[0]}.json", lambda c: c["checks"].update({"31-one-root": wrong}))
    found = weakest(topics(collect(handed_in).students))
    assert [topic.key.split("_")[0] for topic in found] == ["31"]


@pytest.mark.parametrize("weak", [("24",), ()])
def test_no_lesson_is_named_that_is_as_good_as_the_class(handed_in, tmp_path, weak):
    make_class(handed_in, weak=weak)
    out = tmp_path / "class.html"
    main(["class", str(handed_in), "--out", str(out)])
    found = weakest(topics(collect(handed_in).students))
    if weak:
        assert {topic.key.split("_")[0] for topic in found} >= set(weak) and len(found) < 3
    else:
        assert found == [] or all(topic.first < 0.8 for topic in found)


def _answered(id, *named):
    """Return the answers of a class to a question: the mistakes of each student, who have the numbers 0, 1, ..."""
    entries = tuple({"tries": 2, "right": True, "named": [*names]} for names in named)
    return Answered(id, f"name of {id}", entries, tuple(range(len(entries))))


def test_a_mistake_counts_the_students_of_all_questions_of_a_lesson_each_once():
    most_at_once = _answered("11-vacuum", ["a"], ["a"], ["a"], [], [])
    others = [
        _answered("11-b", ["b"], ["b"], [], [], []),
        _answered("11-c", [], ["b"], ["b"], ["b"], []),
    ]
    topic = Topic("11", "11", (most_at_once, *others), (), (), 5, 5)
    assert topic.mistake == ("b", 4, "name of 11-c, name of 11-b")


def test_the_line_of_a_weak_lesson_names_the_question_and_rows_begin_with_the_hardest(
    handed_in, tmp_path
):
    make_class(handed_in)
    out = tmp_path / "class.html"
    main(["class", str(handed_in), "--out", str(out)])
    page = html.unescape(out.read_text())
    for topic in weakest(topics(collect(handed_in).students)):
        assert f"students, in {topic.mistake.where}" in page
        order = sorted(topic.answered, key=lambda one: one.n_first / len(one.entries))
        section = page[page.index(f'id="{topic.key}"') :]
        places = [section.index(f">{one.name}<") for one in order]
        assert places == sorted(places)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing"], "is no folder"),
        (["."], "has no progress file"),
        ([".", "--out", "class.pdf"], "must end in .html"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(["class", *arguments]) == 2
    assert said in capsys.readouterr().err and not any(tmp_path.iterdir())


def test_questions_for_a_talk_come_from_own_numbers(handed_in):
    make_class(handed_in, n=3)
    for student in collect(handed_in).students:
        asked = oral_questions(student)
        assert 3 <= len(asked) <= 6 and len({*asked}) == len(asked)
        # The largest surprise comes first, with the guess as it was typed.
        opened = student.kept["predictions"]
        worst = max(opened, key=lambda id: abs(math.log(opened[id]["factor"])))
        assert asked[0].startswith(predictions()[worst].asked())
    empty = collect(handed_in).students[0]
    nothing = {section: {} for section in store.SECTIONS}
    assert oral_questions(type(empty)(1, "nobody", nothing)) == []


def test_a_page_carries_no_markup_of_a_student(handed_in, tmp_path):
    make_class(handed_in, n=1)
    (file,) = handed_in.iterdir()
    file.rename(handed_in / "<script>alert(1).json")
    out = tmp_path / "class.html"
    main(["class", str(handed_in), "--out", str(out), "--names"])
    assert "<script>alert" not in (tmp_path / "class-talks.html").read_text() + out.read_text()


def test_an_entry_keeps_the_time_at_which_it_began(monkeypatch, tmp_path):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "own.json"))
    id = next(iter(predictions()))
    entry = {"value": 1.0, "unit": "1", "low": None, "high": None}
    store.put("predictions", id, entry)
    first = store.held()["predictions"][id]
    store.put("predictions", id, entry | {"value": 2.0})
    second = store.held()["predictions"][id]
    assert first["begun"] == first["when"] == second["begun"] <= second["when"]
    assert second["value"] == 2.0


def test_bars_hold_every_guess():
    assert list(EDGES) == sorted(EDGES) and math.prod(EDGES) == pytest.approx(1)


def test_a_folder_must_exist(tmp_path):
    with pytest.raises(InputRefused, match=re.escape(str(tmp_path / "no"))):
        collect(tmp_path / "no")
