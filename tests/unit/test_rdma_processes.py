"""The verbs between processes: a target that is stopped, one that dies, and what is left of them."""

import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from fabriclab import rdma
from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from support.rdma_pairs import (
    FAA,
    OK,
    READ,
    SEND,
    add_forever,
    address,
    attributes,
    completions,
    connected,
    outcome,
    receive,
    request,
    side,
    target,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="this device needs memfd and /proc")


def ran(pid):
    """Return the state of a process, and how much it has run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    return (
        fields[0],
        fields[11:13],
        [line for line in status.splitlines() if "ctxt_switches" in line],
    )


def wait_until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def test_the_time_on_a_core_stands_still_while_a_process_is_stopped():
    mine = side()
    with rdma.Process(target) as process:
        connected(process, mine)
        process.send("busy")
        wait_until(lambda: process.core_time() > 0)
        began = process.core_time()
        wait_until(lambda: process.core_time() > began)
        process.stop()
        stopped = process.core_time()
        time.sleep(0.05)
        assert process.core_time() == stopped > began
        process.kill()


def test_the_memory_of_a_stopped_process_changes():
    mine = side(size=2**20)
    with rdma.Process(target, 2**20) as process:
        peer = connected(process, mine)
        process.send(
            "[mine.qp.post_recv(receive(mine, 100)), mine.mr.write(b'readable', 8, 64)] and None"
        )
        process.recv()
        process.stop()
        before = ran(process.pid)
        mine.mr.write(b"written!", 8)
        add = request(mine, at=16, opcode=FAA)
        add.set_wr_atomic(peer[2], peer[3] + 32, 5, 0)
        for wr in (
            request(mine, peer),
            request(mine, peer, n=2**19, at=2**19, to=2**19),
            add,
            request(mine, peer, READ, at=8, to=64),
            request(mine, opcode=SEND),
        ):
            assert outcome(mine, wr) == OK
        assert mine.mr.read(8, 8) == b"readable"
        assert before == ran(process.pid)
        assert before[0] == "T"
        process.resume()
        process.send(
            "mine.mr.read(8, 0), mine.mr.read(8, 32)[0], mine.mr.read(8, 100), completions(mine.rcq)[0].status"
        )
        assert process.recv() == (b"written!", 5, b"written!", OK)
        process.send("repr(mine.ctx.counters)")
        assert "transfers=0" in process.recv()
        process.send(None)


def test_an_event_of_another_process_wakes_a_sleeper():
    mine = side()
    channel = rdma.CompChannel(mine.ctx)
    mine.rcq = rdma.CQ(mine.ctx, 8, None, channel)
    init = rdma.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=mine.scq, rcq=mine.rcq, sq_sig_all=0)
    mine.qp = rdma.QP(mine.pd, init)
    with rdma.Process(target) as process:
        connected(process, mine)
        mine.qp.post_recv(receive(mine))
        mine.rcq.req_notify()
        process.send("mine.qp.post_send(request(mine, opcode=2))")
        channel.get_cq_event(mine.rcq)
        assert mine.rcq.poll()[1][0].byte_len == 8
        process.send(None)


def test_a_dead_peer_ends_in_retries_and_answers_nobody():
    mine = side()
    with rdma.Process(target) as process:
        peer = connected(process, mine)
        assert outcome(mine, request(mine, peer)) == OK
        process.kill()
        statuses = []

        def fails():
            statuses.append(outcome(mine, request(mine, peer)))
            return statuses[-1] != OK

        wait_until(fails)  # what is written before the death is noticed still succeeds
        assert statuses[-1] == e.IBV_WC_RETRY_EXC_ERR
        assert not mine.qp.peer.alive
        assert outcome(mine, request(mine, peer)) == e.IBV_WC_WR_FLUSH_ERR
    mine.qp.modify(rdma.QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
    token = mine.qp.peer
    del token
    mine.qp.peer = mine.ctx.arena
    with pytest.raises(rdma.PyverbsRDMAError, match="no context answers to GID fe80"):
        mine.qp.to_rtr(attributes(*peer[:2]))


def test_workers_that_die_lose_and_double_nothing():
    mine, rng = side(cqe=1024), np.random.default_rng(7)
    number = np.frombuffer(mine.mr.memory, np.uint64)
    for round_ in range(3):
        number[:] = 0
        pairs, workers = [], []
        srq = rdma.SRQ(mine.pd, rdma.SrqInitAttr(rdma.SrqAttr(max_wr=900)))
        init = rdma.QPInitAttr(
            qp_type=e.IBV_QPT_RC, scq=mine.scq, rcq=mine.rcq, srq=srq, sq_sig_all=0
        )
        for i in range(900):
            srq.post_recv(receive(mine, 64, wr_id=i))
        try:
            for _ in range(2):
                pairs.append(rdma.QP(mine.pd, init))
                workers.append(rdma.Process(add_forever, address(mine), 300))
                peer = workers[-1].recv()
                pairs[-1].to_rts(attributes(*peer[:2]))
                workers[-1].send(pairs[-1].qp_num)
            for worker in workers:
                worker.send("go")
            time.sleep(rng.uniform(0, 0.02))
            workers[0].kill()
            assert workers[1].recv() == "done"
        finally:
            for worker in workers:
                worker.kill()
        told = [wc for _ in range(4) for wc in mine.rcq.poll(300)[1]]
        assert [wc.wr_id for wc in told] == list(range(len(told))), (
            "a buffer was used twice, or lost"
        )
        done = {qp.qp_num: sum(wc.qp_num == qp.qp_num for wc in told) for qp in pairs}
        assert done[pairs[1].qp_num] == 300
        # The one that was killed may have added without having sent.
        assert number[0] - len(told) in (0, 1), round_


def die_with_the_lock(connection, gid):
    peer = _arena.attach(gid)
    with peer.lock():
        connection.send("held")
        connection.recv()
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_kernel_frees_a_lock_whose_holder_died():
    mine = side()
    mine.qp.to_rts(attributes(mine.gid, mine.qp.qp_num))
    mine.qp.post_recv(receive(mine))
    with rdma.Process(die_with_the_lock, mine.gid) as process:
        assert process.recv() == "held"
        process.send("die")
        assert outcome(mine, request(mine, opcode=SEND)) == OK


def test_a_receive_cut_off_in_the_middle_is_finished_by_the_next_one(monkeypatch):
    mine = side()
    mine.qp.to_rts(attributes(mine.gid, mine.qp.qp_num))
    for wr_id in range(2):
        mine.qp.post_recv(receive(mine, wr_id=wr_id))

    def cut(arena):
        if cq := arena.words[_arena.REDO]:
            arena.words[cq + _arena.TAIL] = arena.words[_arena.REDO + 1]
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_arena.Arena, "_redo", cut)
        with pytest.raises(KeyboardInterrupt):
            mine.qp.post_send(request(mine, opcode=SEND))
    mine.qp.post_send(request(mine, opcode=SEND))
    assert [wc.wr_id for wc in completions(mine.rcq, 2)] == [0, 1]


ORPHAN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from fabriclab import rdma
from support.rdma_pairs import target
if __name__ == "__main__":
    process = rdma.Process(target)
    process.recv()
    process.stop()
    print(process.pid, os.getpid(), flush=True)
    os.kill(os.getpid(), 9)
"""


def test_nothing_is_left(tmp_path, root):
    places = ("/dev/shm", tempfile.gettempdir(), tmp_path)
    before = {(place, name) for place in places for name in os.listdir(place)}
    (tmp_path / "orphan.py").write_text(ORPHAN)
    command = [sys.executable, str(tmp_path / "orphan.py"), str(root / "tests")]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -9, done.stderr
    pids = done.stdout.split()
    for pid in pids:
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}/cmdline").exists() or ran(pid)[0] == "Z")
    left = []
    for place in places:
        for name in os.listdir(place):
            # The number of the process as a word of its own: others' names may hold its digits.
            words = re.split(r"[^0-9a-zA-Z]+", name)
            if (place, name) not in before and any(pid in words for pid in pids):
                left.append(name)
    assert left == []


def test_memory_is_no_part_of_dev_shm():
    mine = side(size=2**27)
    room = os.statvfs("/dev/shm").f_bavail
    np.frombuffer(mine.mr.memory, np.uint8)[:] = 1  # 128 MiB; a container has 64
    assert abs(os.statvfs("/dev/shm").f_bavail - room) * os.statvfs("/dev/shm").f_frsize < 2**26


def test_without_memfd_a_file_without_a_name_serves_and_without_both_the_error_says_so(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    mine = side()
    assert "(deleted)" in os.readlink(f"/proc/self/fd/{mine.ctx.arena.fd}")
    with rdma.Process(target) as process:
        peer = connected(process, mine)
        mine.mr.write(b"in file.", 8)
        assert outcome(mine, request(mine, peer, to=8)) == OK
        assert outcome(mine, request(mine, peer, READ, at=8, to=8)) == OK
        assert mine.mr.read(8, 8) == b"in file."
        process.send("mine.qp.post_send(request(mine, opcode=2))")
        mine.qp.post_recv(receive(mine, 64))
        assert completions(mine.rcq)[0].byte_len == 8
        process.send(None)
    monkeypatch.delattr(os, "O_TMPFILE")
    with pytest.raises(rdma.PyverbsRDMAError, match=r"needs Linux.*/proc.*container"):
        rdma.Context()


def test_segments_go_with_their_contexts():
    def maps():
        return Path("/proc/self/maps").read_text().count("memfd:rdma")

    def make():
        a, b = side(), side()
        a.qp.to_rts(attributes(b.gid, b.qp.qp_num))
        a.ctx.close()
        b.ctx.close()

    def meet(peer):
        one = side()
        one.qp.to_rts(attributes(*peer[:2]))
        one.ctx.close()

    def held():
        gc.collect()
        return maps(), len(os.listdir("/proc/self/fd")), threading.active_count()

    with rdma.Process(target) as process:
        peer = process.recv()
        make()
        meet(peer)
        before = held()
        for _ in range(5):
            make()
            meet(peer)
        assert held() == before
        process.kill()
    wait_until(lambda: held()[2] < before[2])  # its watcher ends with it


def test_code_of_a_file_is_checked_before_it_is_started(tmp_path):
    file = tmp_path / "worker.py"
    file.write_text("def main(connection, n):\n    connection.send(n + 1)\n    raise SystemExit\n")
    with rdma.Process(f"{file}:main", 4) as process:
        assert process.recv() == 5
        with pytest.raises(EOFError):
            process.recv()
    file.write_text("def main(connection:\n    pass")
    with pytest.raises(SyntaxError):
        rdma.Process(f"{file}:main", 4)


def test_silence_is_an_error():
    with rdma.Process(target) as process:
        process.recv()
        with pytest.raises(TimeoutError, match=r"sent nothing within 0\.1 s"):
            process.recv(0.1)
        process.kill()
