"""What the questions of lesson 41 call right and wrong is so on the device in software and in the model of a card."""

import sys
import threading
from multiprocessing import Pipe

import numpy as np
import pytest

from fabriclab import catalog, core, engines, gpudirect, live, rdma, routing, topologies
from fabriclab.course.questions import find
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
        find("41-pairs").key({"n": n, "g": g}) * n / g
        == timing.connections(n)["reliable"]["queue pairs"]
    )


def test_a_port_is_read_as_the_answers_say():
    text = "hca_id: mlx5_0\ntransport: InfiniBand (0)\nport: 1\nstate: PORT_ACTIVE (4)\nmax_mtu: 4096 (5)\n"
    text += "active_mtu: 1024 (3)\nlink_layer: Ethernet\nactive_width: 4X (2)\nactive_speed: 25.0 Gbps (32)\n"
    (port,) = gpudirect.read_ibv_devinfo(text)
    assert port.rate == find("41-rate").key({"w": 4, "s": "25 Gb/s"})
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
