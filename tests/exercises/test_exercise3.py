"""Exercise 3: whole designs that differ get full marks whatever the key, and each typical mistake is named."""

import errno
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from fabriclab import check, gpudirect, rdma, topologies
from fabriclab.course import judges
from fabriclab.course.grading.graders import Own, grade_cells
from fabriclab.course.grading.limits import Limits
from fabriclab.course.grading.sandbox import Sandbox
from fabriclab.course.judges import PRACTICE, Unanswered, draw, find
from fabriclab.course.judges.exercise3 import gpus, server
from fabriclab.course.judges.exercise3.device import (
    CAS,
    FAA,
    READ,
    SEND,
    WRITE,
    WRITE_IMM,
    Device,
    Machine,
)
from fabriclab.course.judges.exercise3.keys import Tickets
from fabriclab.course.judges.exercise3.pictures import one_write
from fabriclab.course.judges.exercise3.processes import Group, source_of
from fabriclab.course.judges.exercise3.training import TrainingRun
from fabriclab.course.judges.shared.calls import asker
from fabriclab.course.questions import misconception
from fabriclab.rdma import enums as e
from fabriclab.texts import text
from support import exercise3_answers as answers
from support.budgets import budget
from support.exercise3_answers import RIGHT, SOLVED, WRONG, but
from support.exercise_books import (
    book_of,
    check_hints_of_functions,
    check_students_file_earns_nothing,
    run_blank,
    run_in_text_mode,
)
from support.prose import remark, sentence
from support.sampling import sampled

KEYS = range(1, 31)
GOOD = [(id, name) for id, all_of in RIGHT.items() for name in all_of]
BAD = [(id, name) for id, all_of in WRONG.items() for name in all_of]
SETUP = "import numpy as np"


def functions(code):
    names = {"np": np}
    exec(code, names)
    return names


def verdict(id, code, key=PRACTICE):
    question, names = find(id), functions(code)
    ask = asker(question.functions, [names[name] for name in question.functions if name in names])
    return question.judge(ask, draw(str(key), id))


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "mine.json"))


# Right and wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "name"), sampled(GOOD, 4))
def test_a_right_answer_gets_full_marks_with_any_key(id, name):
    for key in (PRACTICE, 1):
        found = verdict(id, RIGHT[id][name], key)
        assert (found.part, found.mistake, found.said) == (1, "", ()), (key, found)


@pytest.mark.parametrize("key", [PRACTICE, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("id", "name"), sampled(BAD, 4))
def test_a_wrong_answer_loses_points_and_its_mistake_is_named(id, name, key):
    found = verdict(id, WRONG[id][name], key)
    assert found.part < 1 and found.mistake == name.partition("/")[0], found
    assert misconception(id, found.mistake) in found.said and len(found.said) >= 2
    assert all("{" not in sentence for sentence in found.said)


@pytest.mark.slow
@pytest.mark.parametrize(("id", "name"), [*GOOD, *BAD])
def test_no_key_changes_a_verdict(id, name):
    named = "" if name in RIGHT[id] else name.partition("/")[0]
    found = {key: verdict(id, (RIGHT[id] | WRONG[id])[name], key) for key in KEYS}
    assert {
        key: v for key, v in found.items() if (v.part == 1, v.mistake) != (not named, named)
    } == {}


def test_there_are_enough_of_both():
    assert all(len(all_of) >= 5 for all_of in RIGHT.values())
    assert {name.partition("/")[0] for name in [name for _, name in BAD]} >= {
        "completion taken for delivery",
        "zero copy taken for no copy",
        "staleness speeds up a slow worker",
    }


@pytest.mark.parametrize(
    ("id", "code", "part"),
    [
        ("ex3-a", answers.WRONG_A["everything allowed"], 2 / 3),
        ("ex3-a", answers.WRONG_A["lkey for rkey"], 1 / 3),
        ("ex3-d", answers.only("ex3-d", "small"), 1 / 2),
        ("ex3-d", answers.only("ex3-d", "large"), 1 / 2),
        ("ex3-d", answers.WRONG_D["one chunk at a time"], 1 / 2),
        ("ex3-e", answers.only("ex3-e", "pace"), 1 / 7),
        ("ex3-e", answers.WRONG_E["nobody waits"], 6 / 7),
        ("ex3-e", answers.WRONG_E["waits for the dead"], 22 / 28),
        ("ex3-e", answers.WRONG_E["failed completion ignored"], 22 / 28),
        ("ex3-f", answers.only("ex3-f", "took"), 4 / 20),
        ("ex3-f", answers.WRONG_F["copy by the NIC forgotten"], 16 / 20),
        ("ex3-f", answers.COPIES_AS_A_LIST, 16 / 20),
        ("ex3-f", answers.WRONG_F["always through the host"], 10 / 20),
        ("ex3-f", answers.WRONG_F["one call only"], 10 / 20),
        ("ex3-f", answers.WRONG_F["refusal not told"], 10 / 20),
        ("ex3-f", answers.WRONG_F["queue forgotten"], 14 / 20),
    ],
)
def test_parts_of_a_question_count_as_the_text_states(id, code, part):
    assert verdict(id, code).part == pytest.approx(part)


def test_an_entry_of_a_plan_that_is_no_number_is_named():
    assert '"copies" must be one number' in " ".join(
        verdict("ex3-f", answers.COPIES_AS_A_LIST).said
    )


def test_a_request_that_failed_is_told_by_its_names():
    said = " ".join(verdict("ex3-a", answers.WRONG_A["lkey for rkey"]).said)
    names = {"opcode": "IBV_WR_RDMA_WRITE", "status": "IBV_WC_REM_ACCESS_ERR"}
    assert remark(3, "status", **names).search(said)


@pytest.mark.parametrize("id", RIGHT)
def test_the_same_key_gives_the_same_runs(id):
    wrong = next(iter(WRONG[id].values()))
    assert verdict(id, wrong, "7") == verdict(id, wrong, "7")


@pytest.mark.parametrize("name", answers.CHEATS)
def test_programs_share_nothing_but_what_they_send(name):
    id, code = answers.CHEATS[name]
    try:
        assert verdict(id, code).part == 0
    except Unanswered as stop:
        words = {
            "the worker has the parameters": "no attribute 'start'",
            "the node of another": "another program",
        }
        assert words[name] in stop.said


def test_what_has_stopped_a_program_is_told_before_what_it_lacks():
    said = verdict(
        "ex3-a", but("ex3-a", ("    rights = ", "    ctx.query_nothing()\n    rights = "))
    ).said
    assert "query_nothing" in said[0]


def test_answers_of_nothing_earn_nothing():
    for id in RIGHT:
        question = find(id)
        for value in (None, 0, "x/1", [1], {"a": 1}, True, "5 s"):
            found = question.judge(lambda *call, value=value: value, draw("junk", id))
            assert found.part == 0 and found.said, (id, value)


# Between GPUs ---------------------------------------------------------------------------------------------------------


def halves(key):
    rng = draw(str(key), "ex3-f").spawn(3)[1]
    return {kind: gpus._half(rng, kind) for kind in gpus._KINDS}


def test_times_of_many_sizes_are_those_of_the_library():
    for half in halves(1).values():
        for plan in half.plans():
            path = half.server.transfer(half.gpu, *plan)
            sizes = np.array([8.0, 5e5, 524288.0, 524289.0, 4e6])
            times = [path.time(size, gpus.CHUNK) for size in sizes]
            assert gpus.alone(path, sizes) == pytest.approx(times)
            # Host memory is read or written at each end of a copy that is a processor's.
            ends = [end for copy in path.parts for end in (copy[0], copy[-1])]
            assert path.host_traffic == sum(end.startswith("CPU") for end in ends)


def test_each_case_asks_for_what_its_name_says():
    for key in range(4):
        for kind, half in halves(key).items():
            best = half.best()[0]
            takes = [half.server.allows(nic) for nic in range(half.server.nics)]
            assert best.mechanism == ("pinned" if kind in ("managed", "far and large") else "peer")
            assert any(takes) == (kind != "managed") and all(takes) == (
                kind in ("any NIC", "second call")
            )
            by_first_call = [
                half.server.registration(half.gpu, nic)[0] for nic in range(half.server.nics)
            ]
            assert (0 in by_first_call) == (kind == "any NIC")
            if kind == "far and small":
                assert not half.server.is_near(half.gpu, best.nic)


def test_a_nic_that_is_near_has_no_path_of_class_sys():
    for family in gpus._FAMILIES:
        numbers = tuple(range(8))
        open_to_all = gpus.Setting(
            family, True, numbers, "gpu", {call: frozenset() for call in gpus.CALLS}
        )
        server_, matrix = gpus.GpuServer(open_to_all), gpudirect.topo(topologies.build(family))
        for gpu in range(8):
            for nic in numbers:
                is_far = matrix.relation(f"GPU{gpu}", f"NIC{nic}") == "SYS"
                assert server_.is_near(gpu, nic) != is_far


def test_a_refused_registration_is_an_error_of_the_system():
    node = judges.example("ex3-f")
    with pytest.raises(OSError, match="nvidia-peermem") as caught:
        node.register(0, 0)
    assert caught.value.errno == errno.EFAULT
    [case] = judges.practice("ex3-f")["plan"][5:6]  # managed memory or far NICs, drawn for all
    assert hasattr(case[0], "register") and case[0].nics == 8
    with pytest.raises(ValueError, match="nic must be"):
        node.path(0, 9, "peer")


def test_the_same_plan_is_wrong_without_a_registration_and_right_with_it():
    for kind, half in halves(2).items():
        part = gpus.ChoicePart("plan", 1.0, [half], [], after=False)
        plan = half.best()[0]
        silent = gpus.Planned(plan, 0, 0, 0)
        assert not part.is_right(0, silent), kind
        refusals = [half.server.registration(half.gpu, plan.nic, call)[0] for call in gpus.CALLS]
        refused = 0 if 0 in refusals else refusals[0]
        assert part.is_right(0, gpus.Planned(plan, refused, 0, 0)), kind


def test_the_first_try_does_not_give_the_answer_away():
    found = verdict("ex3-f", answers.WRONG_F["direct at any price"])
    assert found.seen and found.steps and not set(found.seen) & set(found.steps)
    best = next(part for part in found.parts if part.name == "plan").wanted
    assert best.startswith("pinned, NIC") and best not in " ".join(found.seen)
    assert best in " ".join(found.said)


def test_the_picture_says_in_words_what_it_shows():
    picture = one_write()
    assert picture.table.n_rows == 6 and len(picture.alt) > 200
    assert {"who", "what", "names"} <= set(picture.table.columns)
    assert 'role="img"' in picture.svg()


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
    "name", sampled(["server-driven", "compare and swap", "immediates and events"], 3)
)
def test_other_designs_do_so_behind_the_walls(name, box):
    record, _ = grade_cells(box, "another", find("ex3-e"), [SETUP, answers.RIGHT_E[name]], "")
    assert (record["points"], record["said"]) == (28, [])


@pytest.mark.alone
def test_a_question_takes_a_part_of_the_limit_of_time(strict):
    record, _ = grade_cells(strict, PRACTICE, find("ex3-e"), [SETUP, SOLVED["ex3-e"]], "")
    assert record["points"] == 28 and record["seconds"] < budget(4)


@pytest.mark.parametrize("name", sampled(answers.RIGHT_E, 3))
def test_an_answer_asks_the_device_far_less_often_than_it_may(name):
    for key in (PRACTICE, "1"):
        asked, names = 0, functions(answers.RIGHT_E[name])
        question = find("ex3-e")
        cases = server._cases_e(draw(key, "ex3-e"))
        ask = asker(question.functions, [names[one] for one in question.functions])
        for _, run in cases:
            run.play(ask, {"server": "server", 0: "worker", 1: "worker", 2: "worker"})
            asked += sum(machine.calls for machine in run.device.machines)
        assert asked < Limits().requests / 2


LOOPS = {
    "loops": "    while True: pass\n",
    "yields for ever": "    while True: yield\n",
    "polls for ever": "    while True:\n        node.cq.poll(1)\n        yield\n",
    "adds for ever": "    mr = node.rdma.MR(node.pd, node.length, 1)\n"
    "    while True:\n        node.add(mr.buf, mr.buf)\n        yield\n",
    "raises": "    yield\n    raise ValueError('no')\n",
    "exits": "    yield\n    raise SystemExit\n",
    "leaves": "    import os\n    yield\n    os._exit(0)\n",
    "takes all memory": "    yield\n    x = bytearray(1 << 40)\n",
    "prints megabytes": "    print('x' * (1 << 22))\n    yield\n",
    "returns nonsense": "    return {1: object()}\n    yield\n",
    "forges a name": "    return 'serve/1'\n",
    "asks nonsense": "    node.tell([], {})\n    yield\n",
    "posts nonsense": "    r, qp = node.rdma, [*node.qps.values()][0]\n"
    "    qp.post_send(r.SendWR(-5, 99, 1, 0, [r.SGE(-1, 2**70, 0)]))\n    yield\n",
    "changes the client": "    node.rdma.MR.__init__ = None\n    type(node).__getattr__ = lambda *a: 1\n    yield\n",
    "floods letters": "    while True: node.tell('server', [0] * 100)\n    yield\n",
    "registers for ever": "    while True: node.rdma.MR(node.pd, 4096, 1)\n    yield\n",
    "queues for ever": "    while True: node.rdma.CQ(node.rdma.Context(name=''), 4096)\n    yield\n",
}


@pytest.mark.parametrize("name", sampled(LOOPS, 5))
def test_bad_programs_end_with_a_sentence(name, brief, box):
    code = f"def serve(node):\n{LOOPS[name]}\ndef work(node):\n{LOOPS[name]}"
    record, _ = grade_cells(brief, PRACTICE, find("ex3-b"), [SETUP, code], "")
    assert record["points"] == 0 and record["said"] and record["trouble"] != "judge", record
    good, _ = grade_cells(box, PRACTICE, find("ex3-c"), [SETUP, SOLVED["ex3-c"]], "")
    assert good["points"] == 8


def test_nothing_that_the_judge_knows_is_in_the_learners_process(box):
    spy = (
        "def ticket(node):\n    import gc, sys\n    seen = [m for m in sys.modules if 'fabriclab' in m]\n"
        "    words = [o for o in gc.get_objects() if type(o).__name__ in ('Device', 'TrainingRun', 'Model')]\n"
        "    raise ValueError(f'{seen} {len(words)}')\n    yield\n"
    )
    record, _ = grade_cells(box, PRACTICE, find("ex3-c"), [SETUP, spy], "")
    assert "[] 0" in record["said"][0]


# The device ----------------------------------------------------------------------------------------------------------


def both():
    """Return two connected nodes of the grader's device, with a region each."""
    device = Device(5)
    one, other = Machine(device, 0), Machine(device, 1)
    device.machines += [one, other]
    return device, [
        (machine, pair, machine.register(1, 64, 15, None))
        for machine, pair in zip((one, other), device.connect(one, other), strict=True)
    ]


def wr(opcode, at, n, key, rkey=0, to=0, **more):
    numbers = {"wr_id": 1, "imm_data": 3, "send_flags": 2, "compare_add": 5, "swap": 9, **more}
    return {**numbers, "opcode": opcode, "sg": [[at, n, key]], "rkey": rkey, "remote_addr": to}


def outcome(machine, pair, request):
    machine.post_send(pair.number, [request])
    for _ in range(3000):
        if found := machine.poll(1, 1):
            return found[0]
    raise TimeoutError


CASES = {
    "write": (WRITE, {}, 0),
    "read": (READ, {}, 0),
    "add": (FAA, {}, 0),
    "swap": (CAS, {}, 0),
    "send": (SEND, {}, 0),
    "write with immediate": (WRITE_IMM, {}, 0),
    "other key": (WRITE, {"rkey": 1}, 10),
    "bad lkey": (WRITE, {"key": 1}, 4),
    "beyond and odd": (FAA, {"to": 68}, 10),
    "long without a key": (CAS, {"n": 16, "key": 1}, 4),
    "beyond": (WRITE, {"to": 64}, 10),
    "before": (READ, {"to": -8}, 10),
    "odd atomic": (FAA, {"to": 4}, 9),
    "long atomic": (CAS, {"n": 16}, 1),
    "inline": (WRITE, {"flags": 10}, 0),
    "pair without the right": (WRITE, {"rights": 5}, 10),
}


@pytest.mark.parametrize("name", CASES)
def test_the_device_says_what_that_of_the_course_says(name):
    opcode, more, status = CASES[name]
    n = more.get("n", 8)
    _, [(mine, pair, (_, at, lkey, _)), (far, its, (_, to, far_key, rkey))] = both()
    mine.store(at, 77), far.store(to, 5)
    its.access = rights = more.get("rights", 15)
    far.post_recv(its.number, [{"wr_id": 4, "sg": [[to + 32, 8, far_key]]}])
    request = wr(
        opcode, at, n, more.get("key", lkey), more.get("rkey", rkey), to + more.get("to", 0)
    )
    simulated = outcome(mine, pair, request | {"send_flags": more.get("flags", 2)})

    from support import rdma_pairs

    a, b = rdma_pairs.pair(size=64, changes={"qp_access_flags": rights})
    words = [np.frombuffer(side.mr.memory, np.uint64) for side in (a, b)]
    words[0][0], words[1][0] = 77, 5
    b.qp.post_recv(rdma.RecvWR(4, 1, [rdma.SGE(b.mr.buf + 32, 8, b.mr.lkey)]))
    real = rdma.SendWR(
        1, opcode, 1, 3, [rdma.SGE(a.mr.buf, n, more.get("key", a.mr.lkey))], more.get("flags", 2)
    )
    where = more.get("rkey", b.mr.rkey), b.mr.buf + more.get("to", 0)
    real.set_wr_atomic(*where, 5, 9) if opcode >= CAS else real.set_wr_rdma(*where)
    a.qp.post_send(real)
    [wc] = rdma_pairs.completions(a.scq)
    assert (simulated[1], wc.status) == (status, status)
    assert (pair.state, its.state) == (a.qp.qp_state, b.qp.qp_state)
    assert [mine.load(at + i) for i in range(0, 64, 8)] == words[0].tolist()
    assert [far.load(to + i) for i in range(0, 64, 8)] == words[1].tolist()
    if status == 0:
        assert simulated[2:4] == [wc.opcode, wc.byte_len]
    seen = [wc for _, found in [b.rcq.poll(1)] for wc in found]
    its_own = far.poll(1, 1)
    assert [one[:4] for one in its_own] == [
        [w.wr_id, w.status, w.opcode, w.byte_len] for w in seen if not w.status
    ] or status


def test_the_client_has_the_names_and_the_order_of_the_course():
    import inspect

    node = judges.example("ex3-c")
    for name in (
        "SGE",
        "SendWR",
        "RecvWR",
        "QPCap",
        "QPInitAttr",
        "MR",
        "CQ",
        "AHAttr",
        "GlobalRoute",
    ):
        mine, course = (
            list(inspect.signature(getattr(where, name)).parameters) for where in (node.rdma, rdma)
        )
        assert mine[: len(course)] == course, name
    known = {name: int(value) for name, value in vars(e).items() if name.startswith("IBV_")}
    assert vars(node.rdma.enums) == known
    fresh, real = node.rdma.QPAttr(), rdma.QPAttr()
    assert all(
        getattr(fresh, name) == getattr(real, name) for name in vars(fresh) if name != "ah_attr"
    )


def test_pieces_of_a_write_land_in_any_order_and_a_flag_behind_it_waits():
    torn = last_first = 0
    for seed in range(60):
        device = Device(seed, 0.3)
        device.machines += [Machine(device, 0), Machine(device, 1)]
        pair, _ = device.connect(*device.machines)
        mine, far = device.machines
        _, at, lkey, _ = mine.register(1, 72, 1, None)
        _, to, _, rkey = far.register(1, 72, 3, None)
        for i in range(0, 72, 8):
            mine.store(at + i, 1)
        mine.post_send(
            pair.number,
            [
                wr(WRITE, at, 64, lkey, rkey, to, send_flags=0),
                wr(WRITE, at + 64, 8, lkey, rkey, to + 64),
            ],
        )
        while not mine.poll(1, 1):
            words = [far.load(to + i) for i in range(0, 72, 8)]
            torn += 0 < sum(words[:8]) < 8
            last_first += words[7] == 1 and sum(words[:8]) < 8
            assert words[8] == 0 or sum(words) == 9
    assert torn > 100 and last_first > 30


def test_what_a_worker_reads_is_known_word_by_word():
    run = TrainingRun(3, 2, 3)
    model = run.model
    one = np.frombuffer(model.initial(), np.uint64) + np.frombuffer(model.update(1, 2), np.uint64)
    assert all(words == {(1, 2)} for words in model.within(one.tobytes()))
    assert model.named(model.update(0, 1)) == {(0, 1)} and None in model.named(
        bytes(8 * model.words)
    )
    twice = one + np.frombuffer(model.update(1, 2), np.uint64)
    found = model.within(twice.tobytes())
    assert found is None or len({frozenset(words) for words in found}) > 1


def test_kills_hit_pushes_in_the_middle():
    torn = 0
    for key in range(12):
        names = functions(SOLVED["ex3-e"])
        for kind, run in server._cases_e(draw(str(key), "ex3-e")):
            if kind == "killed":
                question = find("ex3-e")
                ask = asker(question.functions, [names[name] for name in question.functions])
                run.play(ask, {"server": "server", 0: "worker", 1: "worker", 2: "worker"})
                for rank in run.deaths:
                    machine, size = run.device.machines[0], 8 * run.model.words
                    slot = machine.peek(machine.base + size * (1 + rank), size)
                    torn += any(slot) and len(run.model.named(slot)) > 1
    assert torn >= 3


def test_counters_of_tickets_are_in_the_memory_of_the_server():
    run = Tickets(np.random.default_rng(0))
    assert (
        run.seats["server"].machine.load(run.at) == run.first
        and run.seats[0].about["counter"]["addr"] == run.at
    )


# Between real processes ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "solved.py"
    path.write_text(f"{SETUP}\n{SOLVED['ex3-e']}")
    return path


def killed(program, root, kills, seed):
    """Return how often a worker was killed at a random point before it had ended; nothing may be wrong."""
    path = f"{root}{os.pathsep}{root / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    code = f"from support import killed_workers; killed_workers.main({str(program)!r}, {kills}, {seed})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout.split()[0])


def test_a_worker_killed_at_a_random_point_harms_nobody(program, root):
    assert killed(program, root, 6, 1) == 6


@pytest.mark.release
@pytest.mark.alone
def test_a_thousand_workers_killed_at_random_points_harm_nobody(program, root):
    begin = time.monotonic()
    assert killed(program, root, 1000, 2) == 1000
    assert time.monotonic() - begin < 600


def test_programs_that_are_not_written_start_no_process():
    def server(node):
        raise NotImplementedError()

    with pytest.raises(NotImplementedError, match=sentence("ex.stub", name="server")):
        Group(server, server)


@pytest.mark.parametrize(
    "name", sampled(["compare and swap", "server-driven", "immediates and events"], 3)
)
def test_other_designs_run_between_processes_too(name, tmp_path):
    path = tmp_path / "design.py"
    path.write_text(f"{SETUP}\n{answers.RIGHT_E[name]}")
    with Group("server", "worker", 2, str(path)) as group:
        for options in ({}, {"adversary": 3}, {"kill": 0, "after": 0.01, "adversary": 4}):
            assert group.run(5, 1, "4 KiB", **options)["problems"] == []


def test_a_wrong_program_is_found_between_processes(tmp_path):
    path = tmp_path / "late.py"
    path.write_text(f"{SETUP}\n{answers.WRONG_E['staleness not bounded']}")
    with Group("server", "worker", 2, str(path)) as group:
        late = group.run(8, 0, "4 KiB", delays={0: "20 ms"})["problems"]
    assert late and remark(3, "fault.stale").search(late[0])


def test_the_code_of_a_notebook_is_taken_with_what_it_uses():
    names = {"np": np, "__name__": "__main__"}
    import linecache

    source = "LIMIT = 3\ndef helper(n):\n    return n + LIMIT\ndef server(node):\n    yield helper(1)\ndef other(): pass\n"  # noqa: E501
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(True), "<cell>")
    exec(compile(source, "<cell>", "exec"), names)
    code = source_of(names["server"])
    assert "def helper" in code and "LIMIT = 3" in code and "def other" not in code
    exec(code, made := {})
    assert [*made["server"](None)] == [4]


# In a notebook -------------------------------------------------------------------------------------------------------


def test_a_check_names_the_mistake_and_how_to_see_it():
    names = functions(answers.WRONG_B["completion taken for delivery"])
    shown = check("ex3-b", [names["serve"], names["work"]])
    assert shown.data[
        "named"
    ] == "completion taken for delivery" and 'replay("ex3-b", [serve, work], 1)' in str(shown)
    log = server.replay("ex3-b", [names["serve"], names["work"]], 1)
    assert any("compute" in line for line in log)
    assert any(remark(3, "fault.stale").search(line) for line in log)
    with pytest.raises(ValueError, match=remark(3, "replay", n=6, got=7)):
        server.replay("ex3-b", [names["serve"], names["work"]], 7)


def test_a_stub_is_told_apart():
    for id in RIGHT:
        code = "\n".join(
            f"def {name}(*a):\n    raise NotImplementedError()" for name in find(id).functions
        )
        with pytest.raises(Unanswered) as caught:
            verdict(id, code)
        assert caught.value.problem == "stub"


def test_an_endless_loop_is_stopped(monkeypatch):
    monkeypatch.setattr("fabriclab.course.judges.shared.calls._PATIENCE", 0.1)
    begin = time.process_time()
    with pytest.raises(Unanswered, match="longer than"):
        verdict(
            "ex3-b",
            "def serve(node):\n    while True: pass\n    yield\ndef work(node):\n    yield\n",
        )
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("name", sampled(["yields for ever", "polls for ever", "adds for ever"], 3))
def test_programs_that_go_on_for_ever_are_ended_in_a_notebook_too(name):
    begin = time.process_time()
    found = verdict("ex3-b", f"def serve(node):\n{LOOPS[name]}\ndef work(node):\n{LOOPS[name]}")
    assert found.part == 0 and remark(3, "fault.hangs").search(" ".join(found.said))
    assert time.process_time() - begin < 10


def test_a_hang_says_at_which_lines_the_programs_stand(box):
    code = WRONG["ex3-b"]["never ends"]
    lines = code.splitlines()
    outside = next(i for i, line in enumerate(lines, 1) if "done(move(READ, added" in line)
    inside = next(i for i, line in enumerate(lines, 1) if "while not (found" in line) + 1
    waits = next(i for i, line in enumerate(lines, 1) if "node.load(sent) < step" in line) + 1
    places = ((waits, "serve"), (outside, "work"), (inside, "done"))
    record, _ = grade_cells(box, PRACTICE, find("ex3-b"), [SETUP, code], "")
    for sentences in (verdict("ex3-b", code).said, record["said"]):
        for line, function in places:
            assert remark(3, "line", line=line, function=function).search(" ".join(sentences))


@pytest.mark.parametrize(
    "place", ["9", "[['serve']]", "[[1, 'serve']]", "[['a b', 3]]", "None", "1 / 0"]
)
def test_what_a_process_says_of_its_place_is_not_believed_blindly(place, box):
    """A learner's code can change what answers in its own process."""
    spoil = f"""
def serve(node):
    for name in [name for name in globals() if name.endswith("?")]:
        globals()[name] = lambda: {place}
    while True:
        yield

def work(node):
    while True:
        yield
"""
    record, _ = grade_cells(box, PRACTICE, find("ex3-b"), [SETUP, spoil], "")
    assert record["points"] == 0 and record["trouble"] != "judge"
    assert remark(3, "fault.hangs").search(" ".join(record["said"]))


def test_a_replay_says_where_programs_stand_that_hang():
    names = functions(WRONG["ex3-b"]["never ends"])
    shown = server.replay("ex3-b", [names["serve"], names["work"]], 1)
    assert any(remark(3, "line", function="serve").search(line) for line in shown)


def test_every_question_has_three_hints_for_each_of_its_functions():
    check_hints_of_functions(judges.exercise(3))


# The notebook --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def book(root):
    return book_of(root, 3)


def test_a_students_file_earns_nothing(book, box):
    check_students_file_earns_nothing(book, judges.exercise(3), SETUP, box)


def test_a_blank_notebook_runs_from_top_to_bottom(book, tmp_path, monkeypatch, root):
    done = run_blank(book, tmp_path, monkeypatch, root, without=["ex3-stale"])
    shown = {cell.id: str(cell.outputs) for cell in done.cells if cell.cell_type == "code"}
    firsts = {
        "ex3-b-log": "serve",
        "ex3-f-see": "took",
        "ex3-real": "server",
        "ex3-plot": "measure",
    }
    for id, name in firsts.items():
        assert text("ex.first", name=name) in shown[id], id


def test_a_part_that_is_written_does_not_help_a_class_that_is_not():
    class Half:
        def ready(self):
            return 1

        def open(self):
            raise NotImplementedError()

    assert judges.written(len, Half.ready) and not judges.written(Half)


@pytest.mark.slow
@pytest.mark.alone
def test_the_notebook_runs(book, tmp_path, monkeypatch, root):
    done = run_in_text_mode(book, tmp_path, monkeypatch, root)
    shown = {cell.id: str(cell.outputs) for cell in done.cells if cell.cell_type == "code"}
    assert shown["ex3-real"].count("wrong: nothing") == 2 and "'server': 0" in shown["ex3-real"]
    speeds = [float(n) for n in re.findall(r" (\d+\.\d)(?:\\n|')", shown["ex3-stale"])]
    assert speeds[3:] == [33.3] * 3 and speeds[0] < 40 < 70 < speeds[1] < 80 < 90 < speeds[2]
    assert "WRITE" in shown["ex3-plot"] and "TCP socket" in shown["ex3-plot"]
    sheet = (root / "exercises" / "teacher" / "exercise_3.md").read_text()
    told = re.search(r"\*\*(\d+), (\d+) and (\d+) %\*\*", sheet)
    assert [round(speed) for speed in speeds[:3]] == [int(n) for n in told.groups()]
    busy = re.findall(r"70\.0\s+\w+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", shown["ex3-f-see"])
    direct, host = ([float(n) for n in row] for row in busy)
    told = re.search(
        r"has ([\d.]+) of the rate.*median grows by ([\d.]+).*\s([\d.]+)\. Ask", sheet, re.DOTALL
    )
    factors = [host[2] / direct[2], host[0] / direct[0], host[1] / direct[1]]
    assert factors == pytest.approx([float(n) for n in told.groups()], rel=0.02)


def test_a_change_of_the_solution_that_is_not_there_is_an_error():
    with pytest.raises(AssertionError, match="does not hold"):
        but("ex3-a", ("no such line", ""))


def test_questions_load_on_a_system_without_locks_of_files(root):
    code = "import sys; sys.modules['fcntl'] = None\n"
    code += "from fabriclab.course import judges; print(len(judges.exercise(3)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "6\n", done.stderr
