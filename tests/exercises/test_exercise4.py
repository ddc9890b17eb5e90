"""Exercise 4: designs that differ get full marks whatever the key, mistakes are named, and traces are the shortest."""

import copy
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from fabriclab import check
from fabriclab.course import judges
from fabriclab.course.grading.graders import Own, grade_cells
from fabriclab.course.grading.limits import Limits
from fabriclab.course.grading.sandbox import Sandbox
from fabriclab.course.judges import PRACTICE, Unanswered, draw, find
from fabriclab.course.judges.exercise4 import floats, switches, traces, worth
from fabriclab.course.judges.exercise4.ladders import Ladder
from fabriclab.course.judges.exercise4.moves import is_fault
from fabriclab.course.judges.exercise4.programs import PRELUDE, Misread, Recorded, desk, placed
from fabriclab.course.judges.exercise4.rounds import Crew, SwitchRun
from fabriclab.course.judges.shared.calls import asker
from fabriclab.course.judges.shared.parts import JudgedCase, NumberPart
from fabriclab.course.questions import misconception
from fabriclab.course.questions.files import message
from fabriclab.innetwork import DROP, REPLY, ProgramRefused, Switch
from fabriclab.innetwork.aggregation import Aggregator, Worker
from fabriclab.innetwork.network import aggregate
from student_files import student_version
from support import exercise4_answers as answers
from support.budgets import budget
from support.exercise4_answers import RIGHT, SETUP, SOLVED, WRONG, but
from support.exercise_books import (
    book_of,
    check_hints_of_functions,
    check_students_file_earns_nothing,
    run_in_text_mode,
)
from support.processor import processor_time
from support.prose import remark, sentence
from support.sampling import sampled

# a wrong answer is searched for its shortest trace each time
KEYS = {True: range(1, 21), False: range(1, 7)}
GOOD = [(id, name) for id, all_of in RIGHT.items() for name in all_of]
BAD = [(id, name) for id, all_of in WRONG.items() for name in all_of]
CLASSES = {"ex4-b": ("FirstSwitch", "FirstWorker"), "ex4-c": ("MySwitch", "MyWorker")}


def functions(code):
    names = {}
    exec(SETUP, names)
    exec(code, names)
    return names


def verdict(id, code, key=PRACTICE):
    question, names = find(id), functions(code)
    ask = asker(question.functions, [names[name] for name in question.functions if name in names])
    return question.judge(ask, draw(str(key), id))


def crew_of(code, id="ex4-c"):
    names = functions(code)
    return Crew(asker(CLASSES[id], [names[name] for name in CLASSES[id]]), CLASSES[id])


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))


# Right and wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "name"), sampled(GOOD, 4))
def test_a_right_answer_gets_full_marks_with_any_key(id, name):
    for key in (PRACTICE, 1):
        found = verdict(id, RIGHT[id][name], key)
        assert (found.part, found.mistake, found.said) == (1, "", ()), (key, found)


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("key", [PRACTICE, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("id", "name"), sampled(BAD, 4))
def test_a_wrong_answer_loses_points_and_its_mistake_is_named(id, name, key):
    found = verdict(id, WRONG[id][name], key)
    assert found.part < 1 and found.mistake == name.partition("/")[0], found
    assert misconception(id, found.mistake) in found.said and len(found.said) >= 2
    assert all("{" not in re.sub(r"header: \{.*\}", "", sentence) for sentence in found.said)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("id", "name"), [*GOOD, *BAD])
def test_no_key_changes_a_verdict(id, name):
    named = "" if name in RIGHT[id] else name.partition("/")[0]
    found = {key: verdict(id, (RIGHT[id] | WRONG[id])[name], key) for key in KEYS[not named]}
    assert {
        key: v for key, v in found.items() if (v.part == 1, v.mistake) != (not named, named)
    } == {}


def test_fractions_and_decimals_are_numbers_in_grading_too():
    twelve = "from decimal import Decimal\ndef gain(n): return [Decimal(2 * n - 2) / n, Decimal(2 * n - 2) / (n + 1)]"
    # What a class of the learner's own says of itself does not count.
    own = "class Own(Fraction):\n    def __float__(self): return 1e9\n"
    fractions = RIGHT["ex4-a"]["fractions"]
    with Sandbox() as box:
        for code, points in (
            (fractions, 10),
            (f"{SOLVED['ex4-a']}\n{twelve}", 10),
            (
                f"from fractions import Fraction\n{own}{fractions}".replace(
                    "ring / 1", "Own(ring)"
                ),
                10,
            ),
        ):
            record, _ = grade_cells(box, PRACTICE, find("ex4-a"), [SETUP, code], "")
            assert record["points"] == points, record


def test_there_are_enough_of_both():
    assert all(len(all_of) >= 5 for all_of in RIGHT.values())
    assert {name.partition("/")[0] for _, name in BAD} >= {
        "packets counted instead of workers",
        "slot reused too early",
        "n times faster",
        "no scale",
        "no room for the sum",
    }


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    ("id", "code", "part"),
    [
        ("ex4-a", answers.only("ex4-a", "wire"), 1 / 2),
        ("ex4-a", answers.WRONG_A["n times faster"], 1 / 2),
        ("ex4-c", answers.WRONG_C["header of a stranger trusted"], 18 / 30),
        ("ex4-d", answers.WRONG_D["nothing to scale"], 11.5 / 15),
        ("ex4-e", answers.only("ex4-e", "clean"), 3 / 15),
        ("ex4-e", answers.WRONG_E["steps cost nothing"], 9 / 15),
        ("ex4-f", answers.only("ex4-f", "tenants"), 3 / 10),
        ("ex4-f", answers.only("ex4-f", "speed"), 4 / 10),
    ],
)
def test_parts_of_a_question_count_as_the_text_states(id, code, part):
    assert verdict(id, code).part == pytest.approx(part)


@pytest.mark.parametrize("id", RIGHT)
def test_the_same_key_gives_the_same_runs(id):
    wrong = next(iter(WRONG[id].values()))
    assert verdict(id, wrong, "7") == verdict(id, wrong, "7")


def test_answers_of_nothing_earn_nothing():
    for id in RIGHT:
        question = find(id)
        for value in (None, 0, "x/1", [1], {"a": 1}, True, "5 s", [[], None, None], {"steps": []}):
            found = question.judge(lambda *call, value=value: value, draw("junk", id))
            assert found.part == 0 and found.said, (id, value)


WIDER = (
    ("self.lanes, self.last = 32", "self.lanes, self.last = 64"),
    ("reshape(-1, 32)", "reshape(-1, 64)"),
)
TWICE = (
    "        again, stale",
    "        self.newest.access(slot, lambda old: (old, old))\n        again, stale",
)
RULES = {
    "no product": [("packet.chunk + 1 ", "packet.chunk * packet.slot ")],
    "one access per array": [TWICE],
    "12 stages": WIDER,
    "needs a field job": [('{"job": 2,', '{"tenant": 2,'), ("packet.job", "packet.tenant")],
    "16 to 64": [("self.lanes, self.last = 32", "self.lanes, self.last = 8")],
    "four for each slot": [("2 * pool, lanes", "5 * pool, lanes")],
    "a switch program is a class": [("class MySwitch(Program)", "class MySwitch(Bare)")],
}


@pytest.mark.parametrize("words", RULES)
def test_a_rule_that_is_broken_is_named(words):
    bare = "class Bare:\n    register = lambda *a, **k: None\n\n" * ("class" in words)
    try:
        said = verdict("ex4-c", bare + but("ex4-c", *RULES[words])).said
    except Unanswered as stop:
        said = [stop.said]
    assert words in " ".join(said)


def test_packets_of_another_form_are_told():
    for words, change in {
        "must have the fields": ('"worker": self.me.rank,', '"rank": self.me.rank,'),
        "has 2 bits": ('"worker": self.me.rank,', '"worker": 7,'),
        "carries 32 values": (
            "return header, self.chunks[chunk]",
            "return header, self.chunks[chunk][:-1]",
        ),
        "a time above 0": ('"50 us"', "0.0"),
    }.items():
        found = verdict("ex4-c", but("ex4-c", change))
        assert found.part == 0 and words in " ".join(found.said), found


@pytest.mark.parametrize("n", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_the_time_through_the_switch_is_that_of_a_run_that_follows_every_packet(n):
    rng = np.random.default_rng(32)
    for _ in range(n):
        design = worth.Design(
            int(rng.integers(16, 65)), int(rng.integers(1, 200)), int(rng.integers(1, 400))
        )
        case = worth._draw_times(rng, design, large=bool(rng.integers(2)) and design.slots > 50)
        size, _, rate, delay = case.arguments
        send = (4 * design.lanes + design.header) / rate
        trip = 2 * (delay + send)
        back, free = [], 0.0
        for packet in range(-(-size // (4 * design.lanes))):
            leaves = free
            if packet >= design.slots:
                leaves = max(free, back[packet - design.slots])
            free = leaves + send
            back.append(leaves + trip)
        _, truth = NumberPart("ex4-e", "times", [case]).true(0)
        assert truth == pytest.approx(back[-1], rel=1e-9)


# Traces --------------------------------------------------------------------------------------------------------------


def found_by(code, id="ex4-c", **options):
    found = traces.shortest(crew_of(code, id), **options)
    assert found
    return Ladder(*found)


def orders(code, workers, slots, chunks, most, faults, stranger):
    """Yield each run of a small job up to ``most`` events, as its number of events and faults and whether it is wrong.

    Another way to do it: objects are copied, nothing is kept, and no two runs are told apart.
    """
    names = functions(code)
    switch = Switch(
        names["MySwitch"](
            type("Job", (), {"workers": workers, "jobs": 1 + stranger, "slots": slots})()
        )
    )
    lanes = switch.program.lanes
    bits = 24 // (workers * chunks)
    token = [[1 << bits * (c * workers + w) for c in range(chunks)] for w in range(workers)]
    right = np.repeat(np.sum(token, axis=0), lanes)
    members, up, down, timers = [], [], [[] for _ in range(workers)], []
    for w in range(workers):
        values = np.repeat(token[w], lanes).astype(np.int32)
        about = {"rank": w, "workers": workers, "job": 0, "slots": slots, "values": values}
        members.append(names["MyWorker"](type("Me", (), about)()))
        up.append(list(members[w].start()))
        timers.append([header for header, _ in up[w]])
    plain = {f: b for f, b in switch.program.fields.items() if f != "job"}
    strange = [up[0][0][0]]
    for sent in up:
        strange += [
            {**sent[0][0], f: v}
            for f, b in plain.items()
            for v in ((1 << b) - 1, sent[0][0][f] ^ 1)
        ]

    def walk(state, members, up, down, timers, events, left):
        if events == most:
            return
        heads = [
            (way, w, i, copies)
            for way, links in (("up", up), ("down", down))
            for w in range(workers)
            for i in range(len(links[w]))
            for copies in (0, 1)
        ]
        moves = [
            *heads,
            *(("timeout", w, i, 0) for w in range(workers) for i in range(len(timers[w]))),
        ]
        for way, w, i, copies in [
            *moves,
            *(("stranger", 0, i, 0) for i in range(len(strange) * stranger)),
        ]:
            cost = 1 if copies or way in ("timeout", "stranger") else int(i > 0)
            if cost > left:
                continue
            for name, array in switch.state.items():
                array[...] = state[name]
            new = copy.deepcopy((members, up, down, timers))
            out, wrong = [], False
            if way in ("up", "stranger"):
                header, values = new[1][w][i] if way == "up" else (strange[i], [1 << 24] * lanes)
                try:
                    action, fields, payload = switch.one(
                        {**header, "job": int(way == "stranger")}, values
                    )
                except ProgramRefused:
                    yield events + 1, faults - left + cost, True
                    continue
                if way == "up" and not copies:
                    del new[1][w][i]
                for to in (
                    ()
                    if action == DROP or way == "stranger"
                    else (w,)
                    if action == REPLY
                    else range(workers)
                ):
                    new[2][to].append((fields, payload))
            elif way == "down":
                header, values = new[2][w][i] if copies else new[2][w].pop(i)
                out = new[0][w].take(dict(header), values)
            else:
                out = new[0][w].timeout(new[3][w].pop(i))
            new[1][w].extend(out or [])
            new[3][w].extend(header for header, _ in out or [])
            total = new[0][w].total
            wrong = total is not None and (np.asarray(total) != right).any()
            yield events + 1, faults - left + cost, wrong
            if not wrong:
                yield from walk(
                    {n: a.copy() for n, a in switch.state.items()}, *new, events + 1, left - cost
                )

    yield from walk(
        {n: a.copy() for n, a in switch.state.items()}, members, up, down, timers, 0, faults
    )


SHORT = {
    "packets counted instead of workers": 3,
    "told before all have sent": 3,
    "header of a stranger trusted": 1,
    "slots shared with a tenant": 3,
    "old answer taken for a new one": 4,
}


@pytest.mark.parametrize("name", SHORT)
def test_no_trace_is_shorter(name):
    stranger = "tenant" in name or "stranger" in name
    ladder = found_by(answers.WRONG_C[name], stranger=stranger)
    faults, n = sum(map(is_fault, ladder.moves)), len(ladder.moves)
    assert (n, faults) == (SHORT[name], 1) and ladder.mistake() == name
    job = ladder.search.n, ladder.search.slots, ladder.search.chunks
    shorter = orders(answers.WRONG_C[name], *job, n - 1, 1, stranger)
    assert not any(wrong for *_, wrong in shorter)
    calm = orders(answers.WRONG_C[name], *job, 12 if job[2] == 1 else 8, 0, stranger)
    assert not any(wrong for *_, wrong in calm)
    as_long = [
        (events, cost)
        for events, cost, wrong in orders(answers.WRONG_C[name], *job, n, 1, stranger)
        if wrong
    ]
    assert (n, 1) in as_long


def test_two_packets_are_enough():
    ladder = found_by(SOLVED["ex4-b"], "ex4-b")
    assert [kind for kind, *_ in ladder.moves] == ["up twice", "up", "down"]
    wrong = remark(4, "trace.wrong", worker=0, got="2 A0", chunk=0, want="A0 + B0")
    assert wrong.fullmatch(ladder.lines[-1])
    assert len(ladder.lines) == 4 and remark(4, "trace.up_twice").search(ladder.lines[0])


def test_a_trace_without_a_fault_comes_before_one_with_faults():
    ladder = found_by(answers.WRONG_C["old sum kept"])
    assert not any(map(is_fault, ladder.moves)) and len(ladder.moves) == 11
    wrong = {"worker": 0, "got": "A0 + B0 + A2 + B2", "chunk": 2, "want": "A2 + B2"}
    assert remark(4, "trace.wrong", **wrong).fullmatch(ladder.lines[-1])


def test_a_slot_that_is_reused_early_hangs_after_a_loss():
    ladder = found_by(answers.WRONG_C["slot reused too early/one place"], hangs=True)
    assert [kind for kind, *_ in ladder.moves] == ["up", "up", "down lost", "down", "up"]
    assert "waits for ever" in ladder.lines[-1] and ladder.mistake() == "slot reused too early"


def test_large_jobs_with_few_faults_leave_time_for_small_ones_with_more():
    again = "return [] if self.done[chunk] else [self.packet(chunk)]"
    ladder = found_by(but("ex4-c", (again, f"self.timer = None\n        {again}")), hangs=True)
    assert ladder and sum(map(is_fault, ladder.moves)) == 2 and "waits for ever" in ladder.lines[-1]


def test_who_waits_is_told_where_no_small_job_shows_it():
    place = "((packet.chunk >> self.bits) & 1)"
    found = verdict("ex4-c", but("ex4-c", (place, f"where(packet.slot == 3, 0, {place})")))
    assert 0 < found.part < 1 and not found.mistake
    seen = (
        r"Worker \d of job 0 waits. Its last packet had .*chunk \d+.* that it got had .*chunk \d+.*"
    )
    assert re.fullmatch(seen, found.said[-1])


def test_no_run_is_told_of_a_program_that_does_not_fit():
    for change in (WIDER, RULES["16 to 64"]):
        assert not any(
            remark(4, "run").search(line) for line in verdict("ex4-c", but("ex4-c", *change)).said
        )


@pytest.mark.parametrize(
    "name",
    sampled(["newest chunk of each worker", "sequence numbers and a bitmap", "result cache"], 2),
)
@pytest.mark.parametrize("options", sampled([{"stranger": True}, {}, {"hangs": True}], 3))
def test_right_designs_have_no_trace(name, options):
    assert traces.shortest(crew_of(answers.RIGHT_C[name]), faults=2, **options) is None


def test_a_trace_is_a_picture_with_its_list():
    names = functions(SOLVED["ex4-b"])
    shown = switches.trace([names["FirstSwitch"], names["FirstWorker"]])
    words = str(shown)
    assert remark(4, "trace.wrong", want="A0 + B0").search(shown.finding)
    reached = [remark(4, key).findall(words) for key in ("trace.up", "trace.up_twice")]
    assert sum(map(len, reached)) == 2
    assert shown.svg().count("<path") > 5
    arrows = found_by(SOLVED["ex4-b"], "ex4-b").arrows
    # two packets and an answer; the rest is on its way
    assert [how for *_, how in arrows].count("arrived") == 3
    names = functions(SOLVED["ex4-c"])
    assert switches.trace([names["MySwitch"], names["MyWorker"]], tenant=True) == message(
        4, "unbroken"
    )
    with_tenant = functions(answers.WRONG_C["slots shared with a tenant"])
    shown = switches.trace([with_tenant["MySwitch"], with_tenant["MyWorker"]], tenant=True)
    assert remark(4, "trace.stranger").search(str(shown))


def test_code_that_is_not_written_or_fails_has_a_sentence_for_a_trace():
    stub = "\n".join(
        f"class {name}:\n    def __init__(self, x):\n        raise NotImplementedError()"
        for name in ("MySwitch", "MyWorker")
    )
    names = functions(stub)
    assert "not written" in switches.trace([names["MySwitch"], names["MyWorker"]])
    late = but(
        "ex4-c", ("        chunk += self.me.slots\n", '        raise ValueError("never mind")\n')
    )
    assert "never mind" in found_by(late).lines[-1]
    found = verdict("ex4-c", late)
    assert found.part == 0 and any("never mind" in line for line in found.said)


# Runs ----------------------------------------------------------------------------------------------------------------


def test_runs_meet_all_faults_and_strangers():
    crew, again, strange = crew_of(SOLVED["ex4-c"]), 0, 0
    for seed in range(20):
        run = SwitchRun(seed, 3, 2, 3, faults=0.05, stranger=True)
        run.play(crew)
        assert not run.faults and len(run.finish) == 6
        chunks = 12 * 6
        again += sum(run.words[w] for w in run.words if w[0] == "up") // 32 - chunks
        strange += run.jobs == 3
    assert again > 60 and strange == 20


def test_the_sum_is_that_of_what_went_over_the_wire():
    crew, run = crew_of(SOLVED["ex4-c"]), SwitchRun(5, 3, 2)
    run.play(crew)
    assert run.totals[0] == run.right[0] != run.held[0]
    assert run.held[0] == run.given.sum(0).tolist()


def test_who_dies_or_is_late_is_not_waited_for_by_the_other_job():
    crew, dead = crew_of(SOLVED["ex4-c"]), SwitchRun(3, 3, 2, 2, faults=0.02, dead=0)
    dead.play(crew)
    assert not dead.faults and {*dead.finish} == {3, 4, 5} and dead.calls[0] == dead.dies
    late = SwitchRun(3, 3, 2, faults=0.02, late=1)
    late.play(crew)
    assert not late.faults and min(late.finish.values()) > 200e-6


def test_the_program_is_the_same_after_it_was_described():
    for code in answers.RIGHT_C.values():
        names = functions(code)
        job = type("Job", (), {"workers": 3, "jobs": 2, "slots": 2})()
        mine, theirs = Switch(names["MySwitch"](job)), crew_of(code).switch(3, 2, 2)
        assert (mine.stages, mine.arrays, mine.memory) == (
            theirs.stages,
            theirs.arrays,
            theirs.memory,
        )
        rng, fields = np.random.default_rng(0), mine.program.fields
        for _ in range(300):
            header = {f: int(rng.integers(1 << min(b, 3))) for f, b in fields.items()} | {
                "job": int(rng.integers(2))
            }
            if "slot" in header:
                header["slot"] &= 1
            values = rng.integers(-99, 99, mine.program.lanes)
            one, other = mine.one(header, values), theirs.one(header, values)
            assert (
                one.action == other.action
                and one.fields == other.fields
                and (one.payload == other.payload).all()
            )


# As the name of a field it would be a line of the switch's own code.
_CODE = "a = __import__('sys').__dict__.update(forged=1)  #"


def test_forged_descriptions_are_no_programs():
    right = crew_of(SOLVED["ex4-c"])
    said = right.ask("MySwitch", desk("describe", about={"workers": 2, "jobs": 2, "slots": 2}))
    placed(said, 4)
    forged = {
        "a name that is code": lambda d: d["registers"][0].__setitem__(
            0, "x'] or exit() or state['x"
        ),
        "a field that is code": lambda d: (
            d["ends"].insert(len(d["fields"]), 0),
            d["fields"].update({_CODE: 2}),
        ),
        "an operation that is code": lambda d: d["steps"].insert(0, ["exit()", [], []]),
        "an unknown operation": lambda d: d["steps"].append(["*", [0, 1], []]),
        "a step from later": lambda d: d["steps"][3].__setitem__(1, [99]),
        "no end": lambda d: d["steps"].remove(next(s for s in d["steps"] if s[0] == "end")),
        "no such value": lambda d: d["ends"].__setitem__(0, 10**6),
        "another action": lambda d: d["actions"].__setitem__(0, 7),
        "too long": lambda d: d["steps"].extend([["p_slot", [], []]] * 6000),
        "a float": lambda d: d["fields"].update(slot=2.0),
    }
    for name, change in forged.items():
        bad = copy.deepcopy(said)
        change(bad)
        with pytest.raises((Misread, ProgramRefused)):
            placed(bad, 4)
            raise AssertionError(name)
    assert not hasattr(sys, "forged")
    with pytest.raises(Misread):
        Recorded([1, 2])


def key_to(part, design, **quantities):
    """Return the last right number of a part of ex4-e, for a design."""
    case = JudgedCase((), {**design._asdict(), **quantities})
    return NumberPart("ex4-e", part, [case]).true(0)[-1]


def test_times_are_those_of_the_simulated_network():
    for lanes, slots, chunks in ((32, 4, 400), (32, 64, 400), (16, 16, 300)):
        rate, delay, n = 12.5e9, 2e-6, 3
        values = np.ones((n, chunks, lanes))
        workers = [Worker(w, values[w], slots) for w in range(n)]
        switch = Switch(Aggregator(n, slots, lanes=lanes))
        took = aggregate(workers, switch, rate=rate, delay=delay).finish.max()
        design = worth.Design(lanes, 0, slots)  # the library's network leaves out headers
        time = key_to("times", design, size=4 * lanes * chunks, n=n, rate=rate, delay=delay)
        assert time == pytest.approx(took, rel=0.06)


def test_sums_of_floats_saturate_on_the_way():
    x = np.repeat([[1.0], [1.0], [-1.0], [-1.0]], 64, axis=1).astype(np.float32)
    names = functions(answers.KNOWN.replace("/ block.n / block.limit", "/ block.limit"))
    ask = asker(floats.FUNCTIONS, [names[name] for name in floats.FUNCTIONS])
    found = floats.summed(ask, floats.Block("mixed", x, 1.0))
    assert found.hit and found.got == pytest.approx(-1, abs=1e-6)  # 2**31 - 1, less twice as much


def test_a_pool_of_the_right_size_fills_the_link():
    link = {"rate": 12.5e9, "delay": 2e-6}
    need = int(key_to("pool", worth.Design(32, 40, 64), **link))
    size = 2**26

    def time(slots):
        return key_to("times", worth.Design(32, 40, slots), size=size, n=8, **link)

    assert time(need) == pytest.approx(size * (1 + 40 / 128) / 12.5e9, rel=0.01)
    assert time(need // 2) == pytest.approx(2 * time(need), rel=0.05)


# In the walls of the grader ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def box():
    with Sandbox() as box:
        yield box


@pytest.fixture(scope="module")
def strict():
    with Sandbox() as box:
        yield box


@pytest.fixture(scope="module")
def brief():
    with Sandbox(Limits(cpu_s=1)) as box:  # for code that uses up all of it
        yield box


@pytest.mark.parametrize("id", RIGHT)
def test_the_solution_gets_full_marks_behind_the_walls_and_without_them(id, box):
    for where in (box, Own()):
        record, _ = grade_cells(where, "another", find(id), [SETUP, SOLVED[id]], "")
        assert (record["points"], record["said"]) == (find(id).points, [])


@pytest.mark.parametrize(
    "name",
    sampled(["sequence numbers and a bitmap", "result cache", "one at a time, backing off"], 3),
)
def test_other_designs_do_so_behind_the_walls(name, box):
    record, _ = grade_cells(box, "another", find("ex4-c"), [SETUP, answers.RIGHT_C[name]], "")
    assert (record["points"], record["said"]) == (30, [])


@pytest.mark.parametrize(
    "name", sampled(["packets counted instead of workers", "slot reused too early/one place"], 2)
)
def test_traces_are_the_same_behind_the_walls(name, box):
    record, _ = grade_cells(box, PRACTICE, find("ex4-c"), [SETUP, answers.WRONG_C[name]], "")
    assert record["said"] == [*verdict("ex4-c", answers.WRONG_C[name]).said]
    assert record["mistake"] == name.partition("/")[0]


@pytest.mark.parametrize("name", answers.CHEATS)
def test_cheats_earn_nothing(name, box):
    record, _ = grade_cells(box, PRACTICE, find("ex4-c"), [SETUP, answers.CHEATS[name]], "")
    assert record["points"] == 0 and record["said"] and record["trouble"] != "judge", record


def test_floats_that_are_added_beside_the_switch_earn_nothing(box):
    for code in (answers.BESIDE, answers.BESIDE.replace("held[-block.n:]", "held[:block.n]")):
        record, _ = grade_cells(box, PRACTICE, find("ex4-d"), [SETUP, code], "")
        assert record["points"] == 0 and "is off by" in " ".join(record["said"]), record


@pytest.mark.parametrize("name", sampled(answers.LOOPS, 2))
def test_bad_workers_end_with_a_sentence(name, brief, box):
    code = but(
        "ex4-b",
        (
            '        slot = header["slot"]\n',
            f"        {answers.LOOPS[name]}\n        slot = header['slot']\n",
        ),
    )
    record, _ = grade_cells(brief, PRACTICE, find("ex4-b"), [SETUP, code], "")
    assert (
        record["points"] == (20 if name == "prints megabytes" else 0)
        and record["trouble"] != "judge"
    ), record
    assert record["said"] or name == "prints megabytes"
    good, _ = grade_cells(box, PRACTICE, find("ex4-a"), [SETUP, SOLVED["ex4-a"]], "")
    assert good["points"] == 10


@pytest.mark.parametrize(
    "line",
    [
        "while True: pass",
        "self.register('x', 2.5)",
        "import os; os._exit(3)",
        "self.fields = {'job': 2} | {f'f{i}': 8 for i in range(10**4)}",
        "self.register('x y', 3)",
        "self.apply = 5",
        "self.registers = [1]",
    ],
)
def test_bad_programs_end_with_a_sentence(line, brief):
    code = but("ex4-b", ("    def apply(self", f"        {line}\n\n    def apply(self"))
    record, _ = grade_cells(brief, PRACTICE, find("ex4-b"), [SETUP, code], "")
    assert record["points"] == 0 and record["said"] and record["trouble"] != "judge", record


def test_nothing_that_the_judge_knows_is_in_the_learners_process(box):
    spy = """        import gc, sys
        seen = sorted(m for m in sys.modules if 'fabriclab' in m)
        held = [o for o in gc.get_objects() if type(o).__name__ in ('Run', 'Search', 'Switch')]
        raise ValueError(f'{seen} {len(held)}')
        slot, last ="""
    code = but("ex4-b", ("        slot, last =", spy))
    record, _ = grade_cells(box, PRACTICE, find("ex4-b"), [SETUP, code], "")
    names = (
        "",
        ".catalog.tables",
        ".errors",
        ".innetwork",
        ".innetwork.expressions",
        ".innetwork.pipeline",
        ".units",
    )
    assert f"{[f'fabriclab{name}' for name in names]} 0" in " ".join(record["said"])
    assert "def judged" not in PRELUDE and "Aggregator" not in PRELUDE


def test_errors_name_the_line_of_the_learner(box):
    code = but(
        "ex4-b",
        ("        slot, last = packet.slot", "        slot, last = packet.slot * packet.slot"),
    )
    record, _ = grade_cells(box, PRACTICE, find("ex4-b"), [SETUP, code], "")
    line = 1 + code.split("\n").index(
        next(one for one in code.split("\n") if "* packet.slot" in one)
    )
    assert "product" in record["said"][0] and f"(cell 2, line {line})" in record["said"][0]


@pytest.mark.alone
def test_a_question_takes_a_part_of_the_limit_of_time(strict):
    record, _ = grade_cells(strict, PRACTICE, find("ex4-c"), [SETUP, SOLVED["ex4-c"]], "")
    assert record["points"] == 30 and record["seconds"] < budget(2)


@pytest.mark.parametrize(
    "name",
    sampled(answers.WRONG_C, 10),
)
def test_a_mistake_has_its_name_behind_strict_walls(strict, name):
    record, _ = grade_cells(strict, PRACTICE, find("ex4-c"), [SETUP, answers.WRONG_C[name]], "")
    assert record["mistake"] == name.partition("/")[0], record


@pytest.mark.slow
@pytest.mark.alone
def test_a_class_is_graded_in_a_minute(root, tmp_path):
    books = tmp_path / "collected"
    books.mkdir()
    source = json.loads((root / "solutions" / "exercise4.ipynb").read_text())
    (books / "ada.ipynb").write_text(json.dumps(source))
    (books / "ben.ipynb").write_text(json.dumps(student_version(source)))
    for name, code in [*answers.WRONG_C.items(), *answers.CHEATS.items()]:
        book = copy.deepcopy(source)
        next(cell for cell in book["cells"] if cell["id"] == "ex4-c")["source"] = code
        (books / f"{re.sub('[^a-z]', '-', name)}.ipynb").write_text(json.dumps(book))
    begin = processor_time()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fabriclab",
            "grade",
            str(books),
            "--out",
            str(tmp_path / "rows.csv"),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    graded = [row.groupdict() for row in sentence("grade.done", most=100).finditer(done.stderr)]
    got = {row["student"]: float(row["points"]) for row in graded}
    assert (got["ada"], got["ben"]) == (100, 0)
    assert sum(70 <= points < 80 for points in got.values()) >= len(answers.CHEATS)
    assert processor_time() - begin < budget(2 * 60)  # a minute on two cores that do nothing else


# In a notebook -------------------------------------------------------------------------------------------------------


def test_a_check_names_the_mistake_and_shows_the_trace():
    names = functions(answers.WRONG_C["packets counted instead of workers"])
    shown = check("ex4-c", [names["MySwitch"], names["MyWorker"]])
    assert shown.data["named"] == "packets counted instead of workers"
    first = next(line for line in str(shown).splitlines() if "1. " in line)
    assert re.search(r"\b1\. A0 ", first) and re.search(r"\b0\b", first.split("A0", 1)[1])
    assert "trace([MySwitch, MyWorker])" in str(shown)


@pytest.mark.parametrize("id", ["ex4-a", "ex4-e", "ex4-f"])
def test_a_case_that_is_named_can_be_run(id):
    for code in WRONG[id].values():
        for name, i in verdict(id, code).failed:
            case = judges.practice(id)[name][i]
            assert functions(code)[name](*case) is not None


def test_a_stub_is_told_apart(root):
    empty = student_version(book_of(root, 4))
    for q in judges.exercise(4):
        code = next("".join(cell["source"]) for cell in empty["cells"] if cell["id"] == q.id)
        with pytest.raises(Unanswered) as caught:
            verdict(q.id, code)
        assert caught.value.problem == "stub"


def test_an_endless_loop_is_stopped(monkeypatch):
    monkeypatch.setattr("fabriclab.course.judges.shared.calls._PATIENCE", 0.1)
    begin = time.process_time()
    with pytest.raises(Unanswered, match="longer than"):
        verdict(
            "ex4-c",
            but(
                "ex4-c",
                (
                    "    def take(self, header, values):\n",
                    "    def take(self, header, values):\n        while True: pass\n",
                ),
            ),
        )
    assert time.process_time() - begin < 5


def test_every_question_has_three_hints_for_each_of_its_functions():
    check_hints_of_functions(judges.exercise(4))


def test_an_example_can_be_tried():
    job, me = judges.example("ex4-b")
    names = functions(SOLVED["ex4-b"])
    assert (
        Switch(names["FirstSwitch"](job)).stages <= 12
        and len(names["FirstWorker"](me).start()) == me.slots
    )
    for id in ("ex4-a", "ex4-d", "ex4-e", "ex4-f"):
        args = judges.example(id)
        first = functions(SOLVED[id])[
            {"ex4-e": "times", "ex4-f": "speed"}.get(id, find(id).functions[0])
        ]
        assert first(*args) is not None


# The notebook --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def book(root):
    return book_of(root, 4)


def test_a_students_file_earns_nothing(book, box):
    check_students_file_earns_nothing(book, judges.exercise(4), SETUP, box)


@pytest.mark.slow
@pytest.mark.alone
def test_the_notebook_runs(book, tmp_path, monkeypatch, root):
    done = run_in_text_mode(book, tmp_path, monkeypatch, root)
    shown = {cell.id: str(cell.outputs) for cell in done.cells if cell.cell_type == "code"}
    assert (
        remark(4, "trace.wrong", got="2 A0", chunk=0, want="A0 + B0").search(shown["ex4-two-show"])
        and "[0, 1, 0]" in shown["ex4-b-try"]
    )
    assert message(4, "unbroken") in shown["ex4-c-show"] and "switch" in shown["ex4-e-show"]
    sheet = (root / "exercises" / "teacher" / "exercise_4.md").read_text()
    told = [int(n) for n in re.search(r"\*\*(\d+), (\d+) and (\d+) %\*\*", sheet).groups()]
    assert told == [round(100 * 0.95 ** (2 * n)) for n in (4, 16, 64)]
    assert all(f"{n}%" in shown["ex4-e-loss"] for n in told)


def test_a_change_of_the_solution_that_is_not_there_is_an_error():
    with pytest.raises(AssertionError, match="does not hold"):
        but("ex4-a", ("no such line", ""))
