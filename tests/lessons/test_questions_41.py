"""What the questions of lessons 41 to 41c call right is right on the device in software and in the model of a NIC."""

import sys
import threading
import time
from multiprocessing import Pipe

import numpy as np
import pytest

from fabriclab import catalog, core, engines, gpudirect, live, rdma, routing, topologies
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson41
from fabriclab.course.questions import find, misconception
from fabriclab.rdma import enums, timing
from support import rdma_pairs as pairs

WAYS = live.request().controls["way"].options


def stepped(way):
    return live.request(way, 13).scene.table


@pytest.mark.skipif(sys.platform != "linux", reason="this device needs memfd and /proc")
def test_pairs_are_connected_with_themselves_and_over_a_pipe():
    alone = pairs.side()
    assert rdma.connect(alone.qp, alone.mr) == (alone.mr.rkey, alone.mr.buf)
    assert pairs.outcome(alone, pairs.request(alone, alone, n=8, to=64)) == pairs.OK
    one, other, ends = pairs.side(), pairs.side(), Pipe()
    thread = threading.Thread(target=rdma.connect, args=(other.qp, other.mr, ends[1]))
    thread.start()
    rkey, place = rdma.connect(one.qp, one.mr, ends[0])
    thread.join()
    assert (rkey, place) == (other.mr.rkey, other.mr.buf) and other.qp.qp_state == enums.IBV_QPS_RTS
    one.mr.memory[:8] = b"over it!"
    assert (
        pairs.outcome(one, pairs.request(one, other)) == pairs.OK
        and other.mr.read(8, 0) == b"over it!"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="this device needs memfd and /proc")
def test_the_target_checks_the_key_and_a_completion_tells_the_poster_only():
    a, b = pairs.pair()
    wrong = pairs.request(a, (0, 0, b.mr.rkey + 1, b.mr.buf))
    assert pairs.outcome(a, wrong) == enums.IBV_WC_REM_ACCESS_ERR
    a, b = pairs.pair()
    assert pairs.outcome(a, pairs.request(a, b)) == pairs.OK and b.rcq.poll() == (0, [])
    b.qp.post_recv(pairs.receive(b))
    assert (
        pairs.outcome(a, pairs.request(a, b, pairs.WRITE_IMM)) == pairs.OK and b.rcq.poll()[0] == 1
    )
    with pytest.raises(rdma.PyverbsRDMAError, match="it sends in IBV_QPS_RTS"):
        (one := pairs.side()).qp.post_send(pairs.request(one))


def test_program_b_and_the_kernels_act_where_the_answers_say():
    idle = {way for way in WAYS if "program B" not in stepped(way)["who"]} - {"set-up"}
    assert idle == {"WRITE", "READ"}
    kernels = {way: any(who.startswith("kernel") for who in stepped(way)["who"]) for way in WAYS}
    assert {way for way, acts in kernels.items() if acts} == {"set-up", "TCP socket"}
    assert stepped("set-up")["calls"][-1] == 8 and stepped("WRITE")["calls"][-1] == 0
    assert stepped("TCP socket")["copies"][-1] == timing.offload(8)["kernel"]["copies"]


def test_types_of_pairs_need_what_the_answer_says():
    rc, uc, ud = (
        set(live.queue_pair(kind).scene.table["attribute"]) for kind in ("RC", "UC", "UD")
    )
    assert rc - uc == {"MAX_DEST_RD_ATOMIC", "MIN_RNR_TIMER"} and len(rc) == 6
    assert uc > {"AV", "DEST_QPN"} and ud == {"none"}


@pytest.mark.parametrize("rate", ["200 Gb/s", "400 Gb/s"])
def test_cores_and_host_memory_are_those_of_the_model(rate):
    asked = {"r": rate, "p": "9 kB", "c": 5800, "h": "3.4 GHz"}
    model = timing.offload("1 MB", rate)
    assert (
        find("41-cores").key(asked) == pytest.approx(model["kernel"]["cores"])
        and model["RDMA"]["cores"] < 0.01
    )
    assert (
        find("41-bus").key({"s": "1 MB"})
        == model["kernel"]["memory bytes"]
        == 3 * model["RDMA"]["memory bytes"]
    )


def test_copies_grow_with_the_size_and_asking_does_not():
    small, large = (timing.protocols(n) for n in ("64 B", "1 MiB"))
    assert small["eager"] < small["rendezvous"] and large["rendezvous"] < large["eager"] / 5
    copy = 2 / timing.fact("cpu-copy", "bandwidth")
    for n in (2**12, 2**22):
        asks = timing.protocols(n)["rendezvous"] - (timing.protocols(n)["eager"] - copy * n)
        assert 1e-6 < asks < 4e-6, n
    key = find("41-eager").key({"c": "12 GB/s", "t": "2 us"})
    assert key == pytest.approx(timing.crossover(), rel=0.1)


def test_the_stack_of_a_kernel_is_longer_than_a_whole_write_and_a_card_is_not():
    way = timing.budget("WRITE", 8, inline=True)
    assert timing.offload(8)["kernel"]["time"] > 5 * way.time and way.time < 5e-6
    assert catalog.value("rdma", "nic", "latency") < 1e-6
    assert timing.budget("WRITE", 8, inline=True, switches=2).time > way.time
    assert timing.budget("WRITE", 8, inline=True, cable=9).time > way.time


def test_times_of_idle_cards_are_met_to_a_fifth_and_not_to_the_median():
    off = [
        abs(model / real - 1) for row, real, model in timing.published() if row["role"] == "counts"
    ]
    assert np.median(off) < 0.05 < 0.15 < max(off) < 0.21


def test_memory_of_gpus_needs_more_than_rdma():
    server = topologies.build("dgx_h100")
    assert [gpudirect.path(server, "gpu 0", "nic 0", how).copies for how in ("pinned", "peer")] == [
        2,
        1,
    ]
    assert gpudirect.path(server, "gpu 0", "nic 0", "pinned").host_traffic == 2


def test_posters_and_pairs():
    told = timing.posters(8)
    assert told["host"]["time"] < told["proxy"]["time"] < told["gpu"]["time"]
    assert told["gpu"]["rate"] > 20 * told["host"]["rate"] > 20 * told["proxy"]["rate"]
    n, g = 64, 8
    assert (
        find("41c-pairs").key({"n": n, "g": g}) * n / g
        == timing.connections(n)["reliable"]["queue pairs"]
    )


def test_a_port_is_read_as_the_answers_say():
    text = "hca_id: mlx5_0\ntransport: InfiniBand (0)\nport: 1\nstate: PORT_ACTIVE (4)\nmax_mtu: 4096 (5)\n"
    text += "active_mtu: 1024 (3)\nlink_layer: Ethernet\nactive_width: 4X (2)\nactive_speed: 25.0 Gbps (32)\n"
    (port,) = gpudirect.read_ibv_devinfo(text)
    assert port.rate == find("41c-rate").key({"w": 4, "s": "25 Gb/s"})
    assert (port.link_layer, port.facts["active_mtu"][:4], port.state) == (
        "Ethernet",
        "1024",
        "ACTIVE",
    )


def test_a_small_message_waits_behind_large_ones():
    star = topologies.build("crossbar", hosts=33)
    late = []
    for others in (0, 31):
        flows = core.Flows.make(
            star.endpoint[1 : others + 2],
            star.endpoint[np.zeros(others + 1, int)],
            np.r_[2**16, np.full(others, 2**24)],
        )
        late.append(engines.run(star, routing.route(star, flows), flows).finish[0])
    assert late[1] == pytest.approx(32 * late[0])


# Functions -----------------------------------------------------------------------------------------------------------


def by_count(cq):
    number = 0
    while number == 0:
        number, found = cq.poll(1)
    return found[0]


def with_patience(cq):
    end = time.monotonic() + 5
    while time.monotonic() < end:
        _, found = cq.poll(num_entries=1)
        for completion in found:
            return completion
    raise TimeoutError


def by_calling_itself(cq):
    _, found = cq.poll()
    return found[0] if found else by_calling_itself(cq)


@pytest.mark.parametrize(
    "rule", [lesson41.wait, rdma.wait, by_count, with_patience, by_calling_itself]
)
def test_every_loop_that_waits_for_the_next_completion_is_right(rule):
    assert check("41-write-wait", rule).data["right"]


def test_a_loop_without_end_is_stopped_and_wrong():
    def only_successes_of_request_9(cq):
        while True:
            _, found = cq.poll()
            if found and found[0].wr_id == 9:
                return found[0]

    shown = check("41-write-wait", only_successes_of_request_9)
    assert not shown.data["right"] and "empty queue without end" in str(shown)


def test_a_loop_that_throws_failures_away_is_told_what_it_took():
    shown = check("41-write-wait", lesson41.WAIT_MISTAKES["failures thrown away"])
    assert "completion 2, 0 left in the queue" in str(shown)
    assert misconception("41-write-wait", "failures thrown away") in str(shown)


def largest(number, inline, polled):
    return inline or number <= max(polled, default=-1)


def of_numpy(number, inline, polled):
    return np.any(np.array(polled, dtype=int) >= number) | inline


def as_whole_number(number, inline, polled):
    return int(largest(number, inline, polled))


@pytest.mark.parametrize("rule", [lesson41.may_reuse, largest, of_numpy, as_whole_number])
def test_a_right_rule_of_reuse_is_right(rule):
    assert check("41-write-reuse", rule).data["right"]


@pytest.mark.parametrize("found", [2, 1.0, "yes", [True]])
def test_what_is_neither_true_nor_false_is_not_counted(found):
    assert not check("41-write-reuse", lambda number, inline, polled: found).data["counted"]


def sent(rule, seed, n=12, every=4):
    """Return what arrives of ``n`` words through two buffers that are written again as soon as a rule allows it."""
    mine = pairs.side(adversary=seed)
    rkey, place = rdma.connect(mine.qp, mine.mr)
    polled = []
    for number in range(n):
        before = number - 2  # the request that had this buffer
        while before >= 0 and not rule(before, False, polled):
            polled += [wc.wr_id for wc in mine.scq.poll()[1]]
        at = 8 * (number % 2)
        mine.mr.memory[at : at + 8] = number.to_bytes(8, "little")
        signalled = enums.IBV_SEND_SIGNALED if number % every in (1, every - 1) else 0
        target = (0, 0, rkey, place + 1024)
        wr = pairs.request(mine, target, at=at, to=8 * number, send_flags=signalled, wr_id=number)
        mine.qp.post_send(wr)
    while n - 1 not in polled:
        polled += [wc.wr_id for wc in mine.scq.poll()[1]]
    return np.frombuffer(mine.mr.memory, np.uint64)[128 : 128 + n].tolist()


@pytest.mark.skipif(sys.platform != "linux", reason="this device needs memfd and /proc")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_rule_of_reuse_loses_nothing_on_a_slow_device_and_posting_on_does(seed):
    whole = list(range(12))
    assert sent(lesson41.may_reuse, seed) == whole
    assert sent(lambda number, inline, polled: True, 0) == whole  # a quick device hides the mistake
    assert sent(lambda number, inline, polled: True, seed) != whole


@pytest.mark.skipif(sys.platform != "linux", reason="this device needs memfd and /proc")
def test_an_inline_payload_is_free_at_once_on_a_slow_device():
    mine = pairs.side(adversary=1)
    rkey, place = rdma.connect(mine.qp, mine.mr)
    flags = enums.IBV_SEND_SIGNALED | enums.IBV_SEND_INLINE
    for step in range(3):
        mine.mr.memory[:8] = step.to_bytes(8, "little")
        wr = pairs.request(mine, (0, 0, rkey, place), to=64 + 8 * step, send_flags=flags)
        mine.qp.post_send(wr)
    assert [rdma.wait(mine.scq).status for _ in range(3)] == [0, 0, 0]
    assert np.frombuffer(mine.mr.memory, np.uint64)[8:11].tolist() == [0, 1, 2]


def test_the_numbers_of_the_lessons_are_those_of_the_model():
    one = timing.budget("WRITE", 8192).time
    assert one == pytest.approx(3.24e-6, abs=5e-9) and 8192 / one == pytest.approx(2.5e9, abs=5e7)
    assert timing.crossover() == pytest.approx(11.5e3, rel=0.005)
    assert timing.crossover(register=True) == pytest.approx(35.5e6, rel=0.005)
    way = timing.budget("WRITE", 8, inline=True)
    assert (way.one_way, way.time) == pytest.approx((1.46e-6, 2.56e-6), abs=5e-9)
    longer = timing.budget("WRITE", 8, inline=True, switches=2)
    assert longer.one_way - way.one_way == pytest.approx(0.44e-6, abs=5e-9)
    page = timing.registration("1 GiB")
    assert page == pytest.approx(2**30 / timing.fact("cpu-copy", "bandwidth"), rel=0.03)


def test_numbers_of_statuses_are_those_of_the_lesson():
    names = {5: "IBV_WC_WR_FLUSH_ERR", 10: "IBV_WC_REM_ACCESS_ERR", 12: "IBV_WC_RETRY_EXC_ERR"}
    assert {number: enums.ibv_wc_status(number).name for number in names} == names
