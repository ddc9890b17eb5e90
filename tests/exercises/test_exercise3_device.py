"""Exercise 3: random programs end on the grader's device as they end on that of the course."""

import random
import time

import pytest

from fabriclab import rdma
from fabriclab.course.judges.exercise3.device import Device, Machine
from support import rdma_pairs

SIZE = 256
PATIENCE = 20  # s, for what takes some milliseconds on a quiet machine


def drawn(draw):
    """Return a request as numbers: pieces, keys that are wrong now and then, places that are not there."""
    opcode = draw.randrange(7)
    lengths = [draw.choice([0, 8, 8, 16, 24, 4, 3]) for _ in range(draw.choice([1, 1, 2, 3]))]
    lengths = [8] if opcode >= 5 and draw.random() < 0.85 else lengths
    to = draw.choice([8 * draw.randrange(24)] * 9 + [draw.randrange(-8, 260)])
    offsets = [draw.choice([8 * draw.randrange(29), draw.randrange(230)]) for _ in lengths]
    flags = draw.choice([2, 2, 2, 0, 3, 10]) if opcode < 4 else draw.choice([2, 2, 3, 0])
    return opcode, lengths, offsets, draw.random() < 0.04, draw.random() < 0.04, to, flags


def completions(side):
    return [wc for queue in (side.scq, side.rcq) for wc in queue.poll(64)[1]]


@pytest.mark.parametrize("seed", range(200))
def test_random_programs_end_alike_on_both_devices(seed):
    draw = random.Random(seed)
    rights, every = draw.choice([15, 15, 15, 2, 4, 8, 7]), draw.random() < 0.3
    access = [draw.choice([15, 15, 15, 3, 5, 7, 9]) for _ in range(2)]
    device = Device(seed)
    mine = [Machine(device, 0), Machine(device, 1)]
    device.machines += mine
    pairs, real = (
        device.connect(*mine),
        [rdma_pairs.side(size=SIZE, max_recv_wr=16) for _ in range(2)],
    )
    places, regions = [], []
    for i in range(2):
        pairs[i].access, pairs[i].every, real[i].qp._all = rights, every, int(every)
        peer = real[1 - i]
        attr = rdma_pairs.attributes(peer.gid, peer.qp.qp_num, qp_access_flags=rights, rnr_retry=7)
        real[i].qp.to_rts(attr)
        places.append(mine[i].register(1, SIZE, access[i], None)[1:])
        regions.append(rdma.MR(real[i].pd, SIZE, access[i]))
        data = draw.randbytes(SIZE)
        mine[i].put(places[i][0], data)
        regions[i].memory[:] = data
    for step in range(draw.randrange(3, 12)):
        me, far = draw.choice([(0, 1), (1, 0)])
        (at, lkey, _), mr = places[me], regions[me]
        if draw.random() < 0.35:
            n, offset, off = (
                draw.choice([0, 8, 16, 40]),
                8 * draw.randrange(27),
                int(draw.random() < 0.1),
            )
            mine[me].post_recv(
                pairs[me].number, [{"wr_id": step, "sg": [[at + offset, n, lkey + off]]}]
            )
            real[me].qp.post_recv(
                rdma.RecvWR(step, 1, [rdma.SGE(mr.buf + offset, n, mr.lkey + off)])
            )
            continue
        todo = [drawn(draw) for _ in range(draw.choice([1, 1, 2, 3]))]
        if any(one[0] >= 4 for one in todo):
            todo = todo[:1]  # what it fetches may come before or after others have read the place
        if len(pairs[far].recv) < sum(one[0] in (1, 2, 3) for one in todo):
            continue
        plain, chain = [], None
        for i, (opcode, lengths, offsets, bad, wrong, to, flags) in reversed([*enumerate(todo)]):
            flags |= 2 * (i == len(todo) - 1)
            pieces = [*zip(offsets, lengths, strict=True)]
            plain.insert(
                0,
                {
                    "wr_id": 10 * step + i,
                    "opcode": opcode,
                    "imm_data": 7,
                    "send_flags": flags,
                    "compare_add": 5,
                    "swap": 9,
                    "rkey": places[far][2] + wrong,
                    "remote_addr": places[far][0] + to,
                    "sg": [[at + offset, n, lkey + bad] for offset, n in pieces],
                },
            )
            sg = [rdma.SGE(mr.buf + offset, n, mr.lkey + bad) for offset, n in pieces]
            chain = rdma.SendWR(10 * step + i, opcode, len(sg), 7, sg, flags, chain)
            where = regions[far].rkey + wrong, regions[far].buf + to
            chain.set_wr_atomic(*where, 5, 9) if opcode >= 5 else chain.set_wr_rdma(*where)
        mine[me].post_send(pairs[me].number, plain)
        real[me].qp.post_send(chain)
        while pairs[me].todo or pairs[me].done:
            device.tick()
        while (
            real[me].qp.done < real[me].qp.posted
        ):  # a peer in the state of error is given up in some milliseconds
            time.sleep(1e-3)
        for i in range(2):
            one = [entry[:4] for entry in mine[i].poll(1, 64)]
            other = completions(real[i])
            # The sender is done before the thread of the other end is, when that one has no core for a while.
            last = time.monotonic() + PATIENCE
            while time.monotonic() < last and (
                len(other) < len(one) or pairs[i].state != real[i].qp.qp_state
            ):
                time.sleep(1e-3)
                other += completions(real[i])
            told = [[wc.wr_id, wc.status, wc.opcode, wc.byte_len] for wc in other]
            ends = [sorted(e if e[1] == 0 else e[:2] for e in entries) for entries in (one, told)]
            assert ends[0] == ends[1]
            assert pairs[i].state == real[i].qp.qp_state
            assert mine[i].peek(places[i][0], SIZE) == bytes(regions[i].memory)
    for side in real:
        side.ctx.close()
