"""Answers to exercise 3: designs that differ and are right, and one for each known mistake.

The wrong ones are the solution with one thing changed, so a mistake is what is named and nothing else.
"""

# ruff: noqa: E501
import json

from support import ROOT

BOOK = json.loads((ROOT / "solutions" / "exercise3.ipynb").read_text(encoding="utf-8"))
SOLVED = {
    cell["id"]: "".join(cell["source"]) for cell in BOOK["cells"] if cell["cell_type"] == "code"
}


def but(id, *changes):
    """Return the solution with some of its text replaced; what is replaced must be there."""
    code = SOLVED[id]
    for old, new in changes:
        assert old in code, f"{id} does not hold {old!r}"
        code = code.replace(old, new)
    return code


def only(id, name):
    """Return one function of the solution."""
    return next(
        f"def {part}"
        for part in f"\n{SOLVED[id]}".split("\ndef ")[1:]
        if part.startswith(f"{name}(")
    )


# Whole designs of (e), which are right for (b), too --------------------------------------------------------------------

COMMON = '''
def request(node, mr, opcode, at, length, rkey, to, wr_id=1, flags=2, next_wr=None):
    wr = node.rdma.SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, sg=[node.rdma.SGE(at, length, mr.lkey)],
                          send_flags=flags, next_wr=next_wr)
    wr.set_wr_rdma(rkey, to)
    return wr

def finish(node, peer, make):
    """Post what make() returns until it has worked; its last request has the wr_id 1. False if the peer is dead."""
    while True:
        node.qps[peer].post_send(make())
        failed = last = False
        while not last:
            for wc in node.cq.poll(8)[1]:
                failed |= wc.status != 0
                last |= wc.wr_id == 1
            yield
        if not failed:
            return True
        if peer in node.gone():
            return False
        node.reconnect(peer)
'''

# The server reads gradients out of the workers' memory, and writes parameters into it. Workers post nothing.
DRIVEN = (
    COMMON
    + """
def server(node):
    v, n, W = node.rdma.enums, node.length, node.workers
    mr = node.rdma.MR(node.pd, n * (1 + W) + 16 * W, 1)
    state, go = mr.buf + n * (1 + W), mr.buf + n * (1 + W) + 8 * W
    node.start(mr.buf)
    cards, added, sent, dead = {}, [0] * W, [0] * W, set()
    while len(cards) < W:
        if letter := node.hear():
            cards[letter[0]] = letter[1]
        dead.update(node.gone())
        if len(cards) + len(dead - cards.keys()) >= W:
            break
        yield
    while any(added[w] < node.steps for w in range(W) if w not in dead):
        for w in range(W):
            if w in dead or w not in cards or added[w] == node.steps:
                continue
            base, rkey = cards[w]
            ahead = min([added[u] for u in range(W) if u not in dead])
            if sent[w] == added[w] and ahead >= added[w] - node.bound:
                node.store(go + 8 * w, added[w] + 1)
                def push():
                    flag = request(node, mr, v.IBV_WR_RDMA_WRITE, go + 8 * w, 8, rkey, base + 2 * n)
                    return request(node, mr, v.IBV_WR_RDMA_WRITE, mr.buf, n, rkey, base, 0, 0, flag)
                if not (yield from finish(node, w, push)):
                    dead.add(w)
                    continue
                sent[w] += 1
            look = lambda: request(node, mr, v.IBV_WR_RDMA_READ, state + 8 * w, 8, rkey, base + 2 * n + 8)
            if not (yield from finish(node, w, look)):
                dead.add(w)
            elif node.load(state + 8 * w) > added[w]:
                slot = mr.buf + n * (1 + w)
                pull = lambda: request(node, mr, v.IBV_WR_RDMA_READ, slot, n, rkey, base + n)
                if not (yield from finish(node, w, pull)):
                    dead.add(w)
                else:
                    node.add(mr.buf, slot)
                    added[w] += 1
        dead.update(node.gone())
        yield
    node.result(mr.buf)

def worker(node):
    n = node.length
    mr = node.rdma.MR(node.pd, 2 * n + 16, 7)
    node.tell("server", [mr.buf, mr.rkey])
    for step in range(node.steps):
        while node.load(mr.buf + 2 * n) <= step:
            yield
        node.compute(mr.buf, mr.buf + n)
        node.store(mr.buf + 2 * n + 8, step + 1)
"""
)

# The server does nothing. A version is parameters and what is in them; workers put theirs beside it and swap a pointer.
SWAPPED = (
    COMMON
    + """
def server(node):
    n, W = node.length, node.workers
    one = n + 8 * W
    mr = node.rdma.MR(node.pd, 8 + one * (1 + 2 * W), 15)
    node.start(mr.buf + 8)
    for w in range(W):
        node.tell(w, [mr.buf, mr.rkey])
    while True:
        at = mr.buf + 8 + one * (node.load(mr.buf) % 64)
        gone = node.gone()
        if all(node.load(at + n + 8 * w) == node.steps for w in range(W) if w not in gone):
            # A worker that died may have swapped since we looked.
            if mr.buf + 8 + one * (node.load(mr.buf) % 64) == at:
                break
        yield
    node.result(at)

def worker(node):
    v, n, W, me = node.rdma.enums, node.length, node.workers, node.rank
    one = n + 8 * W
    mr = node.rdma.MR(node.pd, one + n + 24, 1)
    mine, grad, pointer, again, old = mr.buf, mr.buf + one, mr.buf + one + n, mr.buf + one + n + 8, mr.buf + one + n + 16
    while (letter := node.hear()) is None:
        yield
    base, rkey = letter[1]
    place = lambda slot: base + 8 + one * slot
    READ = v.IBV_WR_RDMA_READ

    def pull():
        while True:
            yield from finish(node, "server", lambda: request(node, mr, READ, pointer, 8, rkey, base))
            slot = node.load(pointer) % 64
            yield from finish(node, "server", lambda: request(node, mr, READ, mine, one, rkey, place(slot)))
            yield from finish(node, "server", lambda: request(node, mr, READ, again, 8, rkey, base))
            if node.load(again) == node.load(pointer):
                return slot

    def swap(slot):
        wr = node.rdma.SendWR(wr_id=1, opcode=v.IBV_WR_ATOMIC_CMP_AND_SWP, num_sge=1,
                              sg=[node.rdma.SGE(old, 8, mr.lkey)])
        now = node.load(pointer)
        wr.set_wr_atomic(rkey, base, now, (now // 64 + 1) * 64 + slot)
        return wr

    for step in range(node.steps):
        while True:
            slot = yield from pull()
            if min(node.load(mine + n + 8 * w) for w in range(W) if w not in node.gone()) >= step - node.bound:
                break
        node.compute(mine, grad)
        while node.load(mine + n + 8 * me) <= step:   # not in it yet
            node.add(mine, grad)
            node.store(mine + n + 8 * me, step + 1)
            free = 1 + 2 * me if slot != 1 + 2 * me else 2 + 2 * me
            yield from finish(node, "server", lambda: request(node, mr, v.IBV_WR_RDMA_WRITE, mine, one, rkey, place(free)))
            yield from finish(node, "server", lambda: swap(free))
            slot = yield from pull()
"""
)

# Writes with immediate tell the server, which sends an answer; regions of their own; sleeping on events.
TOLD = '''
def wait(node, wanted):
    """Sleep until a completion with a wr_id has come; return whether all went well."""
    well = True
    while True:
        node.cq.req_notify()
        found = node.cq.poll(8)[1]
        well &= all(wc.status == 0 for wc in found)
        if any(wc.wr_id == wanted for wc in found):
            return well
        if not found:
            while not node.event():
                yield
        yield

def server(node):
    v, n, W = node.rdma.enums, node.length, node.workers
    MR, SGE = node.rdma.MR, node.rdma.SGE
    params = MR(node.pd, n, v.IBV_ACCESS_LOCAL_WRITE + v.IBV_ACCESS_REMOTE_READ)
    slots = [MR(node.pd, n, v.IBV_ACCESS_LOCAL_WRITE + v.IBV_ACCESS_REMOTE_WRITE) for _ in range(W)]
    clocks = MR(node.pd, 8 * W, v.IBV_ACCESS_LOCAL_WRITE + v.IBV_ACCESS_REMOTE_READ)
    post = lambda w: node.qps[w].post_recv(node.rdma.RecvWR(w, 1, [SGE(clocks.buf, 8, clocks.lkey)]))
    node.start(params.buf)
    for w in range(W):
        for _ in range(4):
            post(w)
        node.tell(w, [params.buf, params.rkey, slots[w].buf, slots[w].rkey, clocks.buf, clocks.rkey])
    added, dead = [0] * W, set()
    while any(added[w] < node.steps for w in range(W) if w not in dead):
        late = set(node.gone())
        for wc in node.cq.poll(16)[1]:
            if wc.status:
                continue
            w = wc.wr_id
            post(w)
            if wc.imm_data == added[w] + 1:           # else it is told twice
                node.add(params.buf, slots[w].buf)
                added[w] += 1
                node.store(clocks.buf + 8 * w, added[w])
        for w in late - dead:
            dead.add(w)
            node.store(clocks.buf + 8 * w, 2**62)
        yield
    while node.cq.poll(16)[0]:
        yield
    node.result(params.buf)

def worker(node):
    rdma, v, n, W, me = node.rdma, node.rdma.enums, node.length, node.workers, node.rank
    params, grad, clocks = (rdma.MR(node.pd, size, 1) for size in (n, n, 8 * W))
    while (letter := node.hear()) is None:
        yield
    at, key, slot, slot_key, clock, clock_key = letter[1]
    number = 10

    def do(opcode, mr, length, to, rkey, imm=0):
        nonlocal number
        while True:
            number += 1
            wr = rdma.SendWR(wr_id=number, opcode=opcode, num_sge=1, imm_data=imm,
                             sg=[rdma.SGE(mr.buf, length, mr.lkey)])
            wr.set_wr_rdma(rkey, to)
            node.qps["server"].post_send(wr)
            if (yield from wait(node, number)):
                return
            node.reconnect("server")

    for step in range(node.steps):
        while True:
            yield from do(v.IBV_WR_RDMA_READ, clocks, 8 * W, clock, clock_key)
            seen = [node.load(clocks.buf + 8 * w) for w in range(W)]
            if seen[me] >= step and min(seen) >= step - node.bound:
                break
        yield from do(v.IBV_WR_RDMA_READ, params, n, at, key)
        node.compute(params.buf, grad.buf)
        yield from do(v.IBV_WR_RDMA_WRITE_WITH_IMM, grad, n, slot, slot_key, step + 1)
'''

PACE = """
def pace(times, bound):
    ends = [[0.0] * len(times)]
    for k in range(len(times[0])):
        gate = max(ends[max(0, k - bound)])
        ends.append([max(t, gate) + row[k] for t, row in zip(ends[-1], times)])
    return f"{max(ends[-1])} s"
"""


def renamed(code):
    """Return programs of (e) as an answer to (b)."""
    return code.replace("def server(", "def serve(").replace("def worker(", "def work(")


RIGHT_A = {
    "in one step": SOLVED["ex3-a"],
    "step by step": but(
        "ex3-a",
        (
            "    qp.to_rts(attr)\n",
            "    qp.to_init(attr)\n    qp.to_rtr(attr)\n    qp.to_rts(attr)\n",
        ),
    ),
    "one region for all": but(
        "ex3-a",
        ("    mine = rdma.MR(pd, 8, v.IBV_ACCESS_LOCAL_WRITE)\n", "    mine = mr\n"),
        ("node.store(mine.buf, node.word)", "node.store(mine.buf + 64, node.word)"),
        ("rdma.SGE(mine.buf, 8", "rdma.SGE(mine.buf + 64, 8"),
    ),
    "inline, unsignalled by default": but(
        "ex3-a",
        ("sq_sig_all=1", "sq_sig_all=0"),
        ("QPCap(max_send_wr=4)", "QPCap(max_send_wr=4, max_inline_data=8)"),
        (
            "sg=[rdma.SGE(mine.buf, 8, mine.lkey)])",
            "sg=[rdma.SGE(mine.buf, 8, mine.lkey)], send_flags=10)",
        ),
    ),
    "two queues": but("ex3-a", ("scq=cq, rcq=cq", "scq=cq, rcq=rdma.CQ(ctx, 4)")),
}
RIGHT_B = {
    "one region, a flag": SOLVED["ex3-b"],
    "server-driven": renamed(DRIVEN),
    "compare and swap": renamed(SWAPPED),
    "immediates and events": renamed(TOLD),
    "that of (e)": renamed(SOLVED["ex3-e"]),
}
RIGHT_C = {
    "fetch and add": SOLVED["ex3-c"],
    "one region for all, polled in a loop": but("ex3-c", ("node.cq.poll(1)", "node.cq.poll(16)")),
    "compare and swap": """
def ticket(node):
    rdma, v = node.rdma, node.rdma.enums
    mr = rdma.MR(node.pd, 8, 1)
    guess = 0
    for _ in range(node.tickets):
        while True:
            wr = rdma.SendWR(opcode=v.IBV_WR_ATOMIC_CMP_AND_SWP, num_sge=1, sg=[rdma.SGE(mr.buf, 8, mr.lkey)])
            wr.set_wr_atomic(node.counter["rkey"], node.counter["addr"], guess, guess + 1)
            node.qps["server"].post_send(wr)
            while not node.cq.poll(1)[0]:
                yield
            if node.load(mr.buf) == guess:
                break
            guess = node.load(mr.buf)
        node.got(guess)
        guess += 1
""",
    "all at once": """
def ticket(node):
    rdma, v = node.rdma, node.rdma.enums
    mr = rdma.MR(node.pd, 8 * node.tickets, 1)
    chain = None
    for i in range(node.tickets):
        chain = rdma.SendWR(opcode=v.IBV_WR_ATOMIC_FETCH_AND_ADD, num_sge=1, next_wr=chain,
                            sg=[rdma.SGE(mr.buf + 8 * i, 8, mr.lkey)])
        chain.set_wr_atomic(node.counter["rkey"], node.counter["addr"], 1, 0)
    node.qps["server"].post_send(chain)
    done = 0
    while done < node.tickets:
        done += node.cq.poll(4)[0]
        yield
    for i in range(node.tickets):
        node.got(node.load(mr.buf + 8 * i))
""",
    "slept on events": but(
        "ex3-c",
        (
            "        while not (done := node.cq.poll(1)[1]):\n            yield\n",
            "        node.cq.req_notify()\n        while not node.event():\n            yield\n"
            "        done = node.cq.poll(1)[1]\n",
        ),
        ("        node.qps", "        node.cq.req_notify()\n        node.qps"),
    ),
}
RIGHT_D = {
    "eight with a doorbell, and a flag": SOLVED["ex3-d"],
    "sixteen with a doorbell": but(
        "ex3-d", ("len(every), 8)", "len(every), 16)"), ("first + 8]", "first + 16]")
    ),
    "told by an immediate": but(
        "ex3-d",
        (
            '    post(flag.buf, target["flag"], 8, flag.lkey)\n',
            "    wr = rdma.SendWR(opcode=v.IBV_WR_RDMA_WRITE_WITH_IMM, num_sge=1, imm_data=1,\n"
            "                     sg=[rdma.SGE(flag.buf, 8, flag.lkey)])\n"
            '    wr.set_wr_rdma(target["rkey"], target["flag"])\n    qp.post_send(wr)\n',
        ),
    ),
    "told by a message": but(
        "ex3-d",
        (
            '    post(flag.buf, target["flag"], 8, flag.lkey)\n',
            "    wr = rdma.SendWR(opcode=v.IBV_WR_SEND, num_sge=1,\n"
            "                     sg=[rdma.SGE(flag.buf, 8, flag.lkey)])\n    qp.post_send(wr)\n",
        ),
    ),
    "two buffers of three": but(
        "ex3-d", ("wait(i - node.buffers + 1)", "wait(i - 1)"), ("i % node.buffers", "i % 2")
    ),
}
RIGHT_E = {
    "slots and clocks": SOLVED["ex3-e"],
    "server-driven": DRIVEN + PACE,
    "compare and swap": SWAPPED + PACE,
    "immediates and events": TOLD + PACE,
    "no worker ahead of another": but(
        "ex3-e", ("min(clocks) >= step - node.bound", "min(clocks) >= step")
    ),
}
RIGHT_B["send and receive"] = """
def serve(node):
    r,v,n=node.rdma,node.rdma.enums,node.length
    mr=r.MR(node.pd,2*n,1); qp=node.qps[0]
    node.start(mr.buf)
    def wait(what):
        while what not in seen:
            for wc in node.cq.poll(4)[1]:
                assert wc.status==0
                seen.add(wc.wr_id)
            yield
        seen.discard(what)
    seen=set()
    for k in range(node.steps):
        qp.post_recv(r.RecvWR(7,1,[r.SGE(mr.buf+n,n,mr.lkey)]))
        qp.post_send(r.SendWR(8,v.IBV_WR_SEND,1,0,[r.SGE(mr.buf,n,mr.lkey)]))
        yield from wait(8)
        yield from wait(7)
        node.add(mr.buf,mr.buf+n)
    node.result(mr.buf)
def work(node):
    r,v,n=node.rdma,node.rdma.enums,node.length
    mr=r.MR(node.pd,2*n,1); qp=node.qps["server"]
    seen=set()
    def wait(what):
        while what not in seen:
            for wc in node.cq.poll(4)[1]:
                assert wc.status==0
                seen.add(wc.wr_id)
            yield
        seen.discard(what)
    for k in range(node.steps):
        qp.post_recv(r.RecvWR(1,1,[r.SGE(mr.buf,n,mr.lkey)]))
        yield from wait(1)
        node.compute(mr.buf,mr.buf+n)
        qp.post_send(r.SendWR(2,v.IBV_WR_SEND,1,0,[r.SGE(mr.buf+n,n,mr.lkey)]))
        yield from wait(2)
"""
RIGHT_B["empty write with immediate"] = but(
    "ex3-b",
    (
        "    node.start(params)\n",
        "    node.start(params)\n    empty = node.rdma.RecvWR(9, 1, [node.rdma.SGE(mr.buf, 0, mr.lkey)])\n"
        "    for _ in range(8):\n        node.qps[0].post_recv(empty)\n",
    ),
    (
        "        while node.load(sent) < step:     # the flag comes after the data\n            yield\n",
        "        while not (found := node.cq.poll(1)[1]):\n            yield\n        assert found[0].imm_data == step\n"
        "        node.qps[0].post_recv(empty)\n",
    ),
    (
        "flag = move(WRITE, sent, 2*n, 8)\n",
        "flag = rdma.SendWR(0, v.IBV_WR_RDMA_WRITE_WITH_IMM, 1, step + 1, [rdma.SGE(sent, 0, mr.lkey)])\n",
    ),
)
RIGHT_C["variables of a module"] = """
COUNT, WAITS = 0, {}
def post(node, wr):
    global COUNT
    COUNT += 1
    wr.wr_id = COUNT
    WAITS[COUNT] = True
    node.qps["server"].post_send(wr)

def ticket(node):
    r,v=node.rdma,node.rdma.enums
    mr=r.MR(node.pd,8,v.IBV_ACCESS_LOCAL_WRITE)
    wr=r.SendWR(0,v.IBV_WR_ATOMIC_FETCH_AND_ADD,1,0,[r.SGE(mr.buf,8,mr.lkey)])
    wr.set_wr_atomic(node.counter["rkey"],node.counter["addr"],1,0)
    for _ in range(node.tickets):
        post(node, wr)
        while not (d:=node.cq.poll()[1]): yield
        assert d[0].wr_id == COUNT and WAITS.pop(COUNT) and not WAITS and d[0].opcode==v.IBV_WC_FETCH_ADD and d[0].byte_len==8
        node.got(node.load(mr.buf))
"""
# Programs that share what processes do not share
CHEATS = {
    "the worker has the parameters": (
        "ex3-b",
        """
def serve(node):
    yield
def work(node):
    n=node.length
    mr=node.rdma.MR(node.pd,2*n,1)
    node.start(mr.buf)
    for s in range(node.steps):
        node.compute(mr.buf, mr.buf+n); node.add(mr.buf, mr.buf+n); yield
    node.result(mr.buf)
""",
    ),
    "a variable for all": (
        "ex3-c",
        """
S={}
def ticket(node):
    rdma,v=node.rdma,node.rdma.enums
    k=node.counter["rkey"],node.counter["addr"]
    mr=rdma.MR(node.pd,8,1)
    def do(op):
        wr=rdma.SendWR(opcode=op,num_sge=1,sg=[rdma.SGE(mr.buf,8,mr.lkey)])
        wr.set_wr_rdma(*k); node.qps["server"].post_send(wr)
        while not node.cq.poll(1)[0]: yield
    if 'k' not in S:
        S["k"]=None
        yield from do(v.IBV_WR_RDMA_READ)
        S["k"]=node.load(mr.buf)
    while S["k"] is None: yield
    for _ in range(node.tickets):
        node.got(S["k"]); S["k"]+=1
        yield
    node.store(mr.buf,S["k"])
    yield from do(v.IBV_WR_RDMA_WRITE)
""",
    ),
    "the node of another": (
        "ex3-b",
        """
import gc
def serve(node):
    mr = node.rdma.MR(node.pd, 2 * node.length, 15)
    node.start(mr.buf)
    node.tell(0, [mr.buf])
    while node.load(mr.buf + node.length) == 0:
        yield
    node.result(mr.buf)

def work(node):
    while (letter := node.hear()) is None:
        yield
    others = [o for o in gc.get_objects() if type(o) is type(node) and getattr(o, "rank", 0) == "server"]
    for other in others:
        other.load(letter[1][0])
""",
    ),
}
RIGHT_F = {
    "asks every NIC": SOLVED["ex3-f"],
    "DMA-BUF first": but(
        "ex3-f",
        ('("ibv_reg_mr", "ibv_reg_dmabuf_mr")', '("ibv_reg_dmabuf_mr", "ibv_reg_mr")'),
    ),
    "texts with units, other words, arrays": but(
        "ex3-f",
        (
            '{"nic": nic, "mechanism": mechanism,',
            '{"nic": np.int64(nic), "mechanism": {"peer": "direct", "pinned": "bounce"}[mechanism],',
        ),
        ('"host": crossings * size}', '"host": f"{crossings * size} B"}'),
        (
            "return np.percentile(times, [50, 99])",
            'return [f"{1e6 * np.percentile(times, at):.4f} us" for at in (50, 99)]',
        ),
    ),
    "fastest plan first, asked only then": """
import heapq

def took(path, size, chunk):
    # Every piece through every copy: a copy begins a piece when it and the copy before are done with theirs.
    pieces = -(-size // chunk)
    ends = [0.0] * len(path["copies"])
    for _ in range(pieces):
        before = 0.0
        for i, copy in enumerate(path["copies"]):
            before = ends[i] = max(before, ends[i]) + copy["issue"] + size / pieces / copy["rate"]
    return ends[-1] + sum(copy["latency"] for copy in path["copies"]) + path["flush"]

def plan(server, gpu, size):
    queue, last = [], {}
    for nic in range(server.nics):
        for mechanism in ("peer", "pinned"):
            path = server.path(gpu, nic, mechanism)
            heapq.heappush(queue, (took(path, size, server.chunk), nic, mechanism))
    while True:
        _, nic, mechanism = heapq.heappop(queue)
        for call in ("ibv_reg_mr", "ibv_reg_dmabuf_mr"):
            try:
                server.register(gpu, nic, call)
            except OSError as error:
                last[nic] = error.errno
            else:
                last[nic] = 0
                break
        if mechanism == "pinned" or not last[nic]:
            return {
                "nic": nic, "mechanism": mechanism, "refused": last[nic] if mechanism == "pinned" else 0,
                "copies": {"peer": 1, "pinned": 2}[mechanism], "host": {"peer": 0, "pinned": 2}[mechanism] * size,
            }

def tail(path, chunk, sizes, arrivals):
    own = np.array([took(path, size, chunk) for size in sizes])
    # The end of each is the latest over all k of: arrival of k, and all transfers from k on.
    done = np.cumsum(own)
    ends = done + np.maximum.accumulate(np.array(arrivals) - (done - own))
    times = np.sort(ends - np.array(arrivals))
    return float(times[len(times) // 2]), float(times[int(0.99 * len(times))])
""",
    "two helpers and a queue of idle moments": """
def seconds_of(path, pieces, size):
    return np.array([copy["issue"] + size / pieces / copy["rate"] for copy in path["copies"]])

def took(path, size, chunk):
    pieces = (size + chunk - 1) // chunk
    steps = seconds_of(path, pieces, size)
    slowest = steps.max()
    return np.float64(steps.sum() - slowest + pieces * slowest + path["flush"] + sum(c["latency"] for c in path["copies"]))

def plan(server, gpu, size):
    plans = []
    for nic in range(server.nics):
        error_number = 0
        try:
            server.register(gpu, nic)
        except OSError:
            try:
                server.register(gpu, nic, "ibv_reg_dmabuf_mr")
            except OSError as error:
                error_number = error.errno
        if not error_number:
            plans.append([nic, "peer", 0])
        else:
            plans.append([nic, "pinned", error_number])
    def time_of(one):
        return took(server.path(gpu, one[0], one[1]), size, server.chunk)
    nic, mechanism, refused = sorted(plans, key=time_of)[0]
    parts = [copy["parts"] for copy in server.path(gpu, nic, mechanism)["copies"]]
    host = sum((p[0][:3] == "CPU") + (p[-1][:3] == "CPU") for p in parts) * size
    return dict(nic=nic, mechanism=mechanism.upper(), refused=refused, copies=len(parts), host=host)

def tail(path, chunk, sizes, arrivals):
    waits, left, before = [], 0.0, arrivals[0]
    for size, now in zip(sizes, arrivals):
        left = max(0.0, left - (now - before)) + took(path, size, chunk)
        before = now
        waits.append(left)
    return [np.median(waits), np.quantile(waits, 0.99)]
""",
}
RIGHT = {
    "ex3-a": RIGHT_A,
    "ex3-b": RIGHT_B,
    "ex3-c": RIGHT_C,
    "ex3-d": RIGHT_D,
    "ex3-e": RIGHT_E,
    "ex3-f": RIGHT_F,
}

# Typical mistakes ------------------------------------------------------------------------------------------------------

WRONG_A = {
    "nothing allowed": but("ex3-a", (" + sum(flags[r] for r in node.rights)", "")),
    "key and address swapped": but(
        "ex3-a", ("wr.set_wr_rdma(rkey, addr)", "wr.set_wr_rdma(addr, rkey)")
    ),
    "own region for the peer's": but(
        "ex3-a",
        ("node.store(mine.buf, node.word)", "node.store(mr.buf, node.word)"),
        ("    qp.post_send(wr)\n", "    return\n    qp.post_send(wr)\n"),
    ),
    "part of a word": but("ex3-a", ("rdma.SGE(mine.buf, 8,", "rdma.SGE(mine.buf, 4,")),
    "everything allowed": but(
        "ex3-a",
        ("    mr = rdma.MR(pd, node.length, rights)\n", "    mr = rdma.MR(pd, node.length, 15)\n"),
    ),
    "own key for the peer's": but(
        "ex3-a", ("wr.set_wr_rdma(rkey, addr)", "wr.set_wr_rdma(mr.rkey, addr)")
    ),
    "lkey for rkey": but(
        "ex3-a", ("                          mr.rkey])", "                          mr.lkey])")
    ),
    "not brought to RTS": but("ex3-a", ("qp.to_rts(attr)", "qp.to_rtr(attr)")),
    "not brought to RTS/nothing sent": but(
        "ex3-a", ("qp.to_rts(attr)", "qp.to_rtr(attr)"), ("    qp.post_send(wr)\n", "    return\n")
    ),
    "not brought to RTS/not even to RTR": but("ex3-a", ("qp.to_rts(attr)", "qp.to_init(attr)")),
    "own number for the peer's": but(
        "ex3-a",
        (
            "attr.dest_qp_num, attr.qp_access_flags = number, rights",
            "attr.dest_qp_num, attr.qp_access_flags = qp.qp_num, rights",
        ),
    ),
    "pair lets nobody in": but(
        "ex3-a",
        (
            "attr.dest_qp_num, attr.qp_access_flags = number, rights",
            "attr.dest_qp_num = number",
        ),
    ),
    "never ends": but("ex3-a", ("    node.tell(node.peer, [", "    str(["))
    .replace("    str([", "    keys = [")
    .replace("mr.rkey])", "mr.rkey]"),
}
WRONG_B = {
    "added twice": but(
        "ex3-b", ("        node.add(params, slot)\n", "        node.add(params, slot)\n" * 2)
    ),
    "computed before the pull has ended": but(
        "ex3-b",
        (
            "        yield from done(move(READ, params, 0, n))\n        node.compute(params, grad)\n",
            "        pull = done(move(READ, params, 0, n))\n        next(pull, None)\n"
            "        node.compute(params, grad)\n        yield from pull\n",
        ),
    ),
    "completion taken for delivery": but(
        "ex3-b",
        (
            "            yield from done(move(READ, added, 2*n + 8, 8))\n",
            "            node.store(added, step)\n",
        ),
    ),
    "completion taken for delivery/pushed on": but(
        "ex3-b",
        (
            "        while node.load(added) < step:    # the server says what is in\n"
            "            yield from done(move(READ, added, 2*n + 8, 8))\n",
            "",
        ),
    ),
    "last word taken for all": but(
        "ex3-b",
        (
            "    for step in range(1, node.steps + 1):\n",
            "    seen = 0\n    for step in range(1, node.steps + 1):\n",
        ),
        (
            "        while node.load(sent) < step:     # the flag comes after the data\n            yield\n",
            "        while node.load(slot + n - 8) == seen:\n            yield\n        seen = node.load(slot + n - 8)\n",
        ),
    ),
    "last word taken for all/flag first": but(
        "ex3-b",
        (
            "        flag = move(WRITE, sent, 2*n, 8)\n        yield from done(move(WRITE, grad, n, n, flag, flags=0))\n",
            "        data = move(WRITE, grad, n, n)\n        yield from done(move(WRITE, sent, 2*n, 8, data, flags=0))\n",
        ),
    ),
    "copied by the processor": but(
        "ex3-b",
        (
            "2 * n + 16, v.IBV_ACCESS_LOCAL_WRITE\n                      + v.IBV_ACCESS_REMOTE_WRITE",
            "3 * n + 16, v.IBV_ACCESS_LOCAL_WRITE\n                      + v.IBV_ACCESS_REMOTE_WRITE",
        ),
        (
            "        node.add(params, slot)\n",
            "        mr.write(mr.read(n, n), n, 2*n + 16)\n"
            "        node.add(params, mr.buf + 2*n + 16)\n        mr.write(mr.read(n, 0), n, 0)\n",
        ),
    ),
    "copied by the processor/worker": but(
        "ex3-b",
        (
            "        node.store(sent, step + 1)\n",
            "        node.store(sent, step + 1)\n        mr.write(mr.read(n, n), n, n)\n",
        ),
    ),
    "buffer reused before its completion": but(
        "ex3-b",
        (
            "        yield from done(move(WRITE, grad, n, n, flag, flags=0))\n",
            "        flag.send_flags = 0\n        qp.post_send(move(WRITE, grad, n, n, flag, flags=0))\n"
            "        if step < node.steps - 1:\n            node.compute(params, grad)\n",
        ),
        (
            "        node.compute(params, grad)\n        node.store",
            "        if not step:\n            node.compute(params, grad)\n        node.store",
        ),
    ),
    "completions left": but(
        "ex3-b",
        (
            "        yield from done(move(WRITE, grad, n, n, flag, flags=0))\n",
            "        if step < node.steps - 1:\n            yield from done(move(WRITE, grad, n, n, flag, flags=0))\n"
            "        else:\n            qp.post_send(move(WRITE, grad, n, n, flag, flags=0))\n",
        ),
    ),
}
PULL = "        yield from done(move(READ, params, 0, n))\n"
PULL_ONCE = (PULL, f"        if not step:\n    {PULL}")
WRONG_B |= {
    "part of a gradient": but(
        "ex3-b", ("move(WRITE, grad, n, n,", "move(WRITE, grad, n, n // 16 * 8,")
    ),
    "part of a gradient/all but a word": but(
        "ex3-b", ("move(WRITE, grad, n, n,", "move(WRITE, grad, n, n - 8,")
    ),
    "pulled only once": but("ex3-b", PULL_ONCE),
    "result not handed over": but("ex3-b", ("    node.result(params)\n", "")),
    "never ends": but(
        "ex3-b", ("        node.store(added, step)           # only now it is in\n", "")
    ),
    "never ends/a helper without yield from": but(
        "ex3-b",
        (
            "            yield from done(move(READ, added, 2*n + 8, 8))\n",
            "            done(move(READ, added, 2*n + 8, 8))\n            yield\n",
        ),
    ),
}
WRONG_C = {
    "read and write for an atomic": """
def ticket(node):
    rdma, v = node.rdma, node.rdma.enums
    mr = rdma.MR(node.pd, 8, 1)
    def do(opcode):
        wr = rdma.SendWR(opcode=opcode, num_sge=1, sg=[rdma.SGE(mr.buf, 8, mr.lkey)])
        wr.set_wr_rdma(node.counter["rkey"], node.counter["addr"])
        node.qps["server"].post_send(wr)
        while not node.cq.poll(1)[0]:
            yield
    for _ in range(node.tickets):
        yield from do(v.IBV_WR_RDMA_READ)
        number = node.load(mr.buf)
        node.store(mr.buf, number + 1)
        yield from do(v.IBV_WR_RDMA_WRITE)
        node.got(number)
""",
    "counter not raised by one": but("ex3-c", ('["addr"], 1, 0)', '["addr"], 8, 0)')),
    "counter not used": """
def ticket(node):
    for i in range(node.tickets):
        node.got(node.rank * node.tickets + i)
        yield
""",
    "reported before the completion": but(
        "ex3-c",
        ("        node.got(node.load(mr.buf))       # what was there before the sum\n", ""),
        (
            "        while not (done",
            "        node.got(node.load(mr.buf))\n        while not (done",
        ),
    ),
    "same number for several": but("ex3-c", ('["addr"], 1, 0)', '["addr"], 0, 1)')),
    "same number for several/swap not repeated": but(
        "ex3-c",
        ("    for _ in", "    node.store(mr.buf, 0)\n    for _ in"),
        ("FETCH_AND_ADD", "CMP_AND_SWP"),
        ('["addr"], 1, 0)', '["addr"], node.load(mr.buf), node.load(mr.buf) + 1)'),
    ),
    "too few tickets": but("ex3-c", ("range(node.tickets)", "range(node.tickets - 1)")),
    "new value for the old one": but(
        "ex3-c", ("node.got(node.load(mr.buf))", "node.got(node.load(mr.buf) + 1)")
    ),
}
WRONG_D = {
    "zero copy taken for no copy": but(
        "ex3-d",
        ("send_flags=v.IBV_SEND_INLINE\n                             + last", "send_flags=last"),
    ),
    "one doorbell each": but(
        "ex3-d", ("len(every), 8)", "len(every))"), ("first + 8]", "first + 1]")
    ),
    "every request signalled": but(
        "ex3-d",
        ("+ last * v.IBV_SEND_SIGNALED", "+ v.IBV_SEND_SIGNALED"),
        (
            "        while not (done := node.cq.poll(1)[1]):\n            yield\n        if done[0].status",
            "        left = len(every[first:first + 8])\n        while left:\n            left -= node.cq.poll(8)[0]\n"
            "            yield\n        if left",
        ),
    ),
    "data missing": but("ex3-d", ('target["addr"] + at, length', 'target["addr"], length')),
    "data missing/last piece": but("ex3-d", ("in node.pieces]", "in node.pieces[:-1]]")),
    "data missing/last chunk": but(
        "ex3-d",
        ("in range(node.chunks)", "in range(node.chunks - 1)"),
        ("wait(node.chunks + 1)", "wait(node.chunks)"),
    ),
    "owner not told": but(
        "ex3-d", ('    every.append((flag.buf, target["flag"], 8, flag.lkey))\n', "")
    ),
    "told before the data": but(
        "ex3-d", ("    every.append((flag.buf", "    every.insert(0, (flag.buf")
    ),
    "buffer reused before its completion": but(
        "ex3-d", ("wait(i - node.buffers + 1)", "wait(i - node.buffers)")
    ),
    "one chunk at a time": but("ex3-d", ("wait(i - node.buffers + 1)", "wait(i)")),
}
WRONG_E = {
    "staleness not bounded": but(
        "ex3-e", ("clocks[me] >= step and min(clocks) >= step - node.bound", "clocks[me] >= step")
    ),
    "staleness not bounded/one more": but(
        "ex3-e", ("step - node.bound:", "step - node.bound - 1:")
    ),
    "waits for the dead": but("ex3-e", ("dead = node.gone()", "dead = []")),
    "failed completion ignored": but(
        "ex3-e",
        (
            '            if not failed:\n                return\n            node.reconnect("server")\n',
            "            return\n",
        ),
    ),
    "failed completion ignored/counted as done": but(
        "ex3-e",
        (
            '            if not failed:\n                return\n            node.reconnect("server")\n',
            '            if failed:\n                node.reconnect("server")\n            return\n',
        ),
    ),
    "repeated what had arrived": but(
        "ex3-e",
        ("        node.store(sent, step + 1)        # a number, not a count to add to\n", ""),
        (
            "        flag = move(WRITE, sent, n * (1 + many) + 8 * me, 8)\n",
            "        flag = move(v.IBV_WR_ATOMIC_FETCH_AND_ADD, sent, 0, 8)\n"
            "        flag.set_wr_atomic(rkey, base + n * (1 + many) + 8 * me, 1, 0)\n",
        ),
        (
            "                      + v.IBV_ACCESS_REMOTE_WRITE + v.IBV_ACCESS_REMOTE_READ)",
            "                      + 14)",
        ),
    ),
    "completion taken for delivery": but(
        "ex3-e", ("clocks[me] >= step and min(clocks)", "min(clocks)")
    ),
    "staleness speeds up a slow worker": but(
        "ex3-e", ("    return float(end.max())", "    return float(np.sum(times) / len(times))")
    ),
    "staleness speeds up a slow worker/spread": but(
        "ex3-e",
        (
            "    return float(end.max())",
            "    return float(np.sum(times, axis=1).max() / (1 + bound / 10))",
        ),
    ),
    "workers added up": but("ex3-e", ("return float(end.max())", "return float(np.sum(times))")),
    "steps taken for workers": but(
        "ex3-e",
        (
            "end = np.zeros(len(times))",
            "times = np.transpose(times)\n    end = np.zeros(len(times))",
        ),
    ),
    "other unit of time": but(
        "ex3-e", ("return float(end.max())", "return 1e3 * float(end.max())")
    ),
    "bound ignored": but("ex3-e", ("slowest[max(0, k - bound)]", "slowest[k]")),
    "bound off by one": but(
        "ex3-e", ("slowest[max(0, k - bound)]", "slowest[max(0, k - bound - 1)]")
    ),
    "nobody waits": but("ex3-e", ("slowest[max(0, k - bound)]", "slowest[0]")),
}
WRONG_E |= {
    "part of a gradient": but(
        "ex3-e",
        ("move(WRITE, grad, n * (1 + me), n,", "move(WRITE, grad, n * (1 + me), n // 16 * 8,"),
    ),
    "pulled only once": but("ex3-e", PULL_ONCE),
    "one slot for all workers": but(
        "ex3-e",
        ("move(WRITE, grad, n * (1 + me), n,", "move(WRITE, grad, n, n,"),
        ("mr.buf + n * (1 + w))", "mr.buf + n)"),
    ),
    "result not handed over": but("ex3-e", ("    node.result(mr.buf)\n", "")),
    "never ends": but("ex3-e", ("node.store(mr.buf + added + 8 * w, steps[w])", "pass")),
}
COPIES_AS_A_LIST = but("ex3-f", ('"copies": len(path["copies"])', '"copies": path["copies"]'))
WRONG_F = {
    "each copy waits for the whole": but(
        "ex3-f", ("    pieces = int(np.ceil(size / chunk))", "    pieces = 1")
    ),
    "pieces one after another": but(
        "ex3-f",
        ("(sum(steps) + (pieces - 1) * max(steps)", "(pieces * sum(steps)"),
    ),
    "starts of pieces forgotten": but(
        "ex3-f",
        (
            '[copy["issue"] + size / pieces / copy["rate"]',
            '[size / pieces / copy["rate"]',
        ),
        ('sum(copy["latency"] for', 'sum(copy["latency"] + copy["issue"] for'),
    ),
    "rate only": but(
        "ex3-f",
        (
            "    pieces = int(np.ceil(size / chunk))",
            '    return size / min(copy["rate"] for copy in path["copies"])\n    pieces = 1',
        ),
    ),
    "flush forgotten": but("ex3-f", ('+ latency + path["flush"])', "+ latency)")),
    "pieces rounded down": but(
        "ex3-f", ("int(np.ceil(size / chunk))", "max(1, int(size // chunk))")
    ),
    "latencies forgotten": but("ex3-f", ('+ latency + path["flush"])', "+ 0)")),
    "direct without a registration": but(
        "ex3-f", ("refused = refusal(nic)", "refused = 0 * refusal(nic)")
    ),
    "direct without a registration/not asked": but(
        "ex3-f", ("refused = refusal(nic)", "refused = 0")
    ),
    "always through the host": but("ex3-f", ("refused = refusal(nic)", "refused = 14")),
    "one call only": but("ex3-f", ('("ibv_reg_mr", "ibv_reg_dmabuf_mr")', '("ibv_reg_mr",)')),
    "refusal not told": but("ex3-f", ('"refused": refused,', '"refused": 0,')),
    "direct at any price": but(
        "ex3-f",
        (
            "        if time < least:",
            '        if mechanism == "pinned":\n            time += 1\n        if time < least:',
        ),
    ),
    "host as soon as one NIC refuses": but(
        "ex3-f",
        (
            "    for nic in range(server.nics):",
            "    def near(nic):\n"
            '        return took(server.path(gpu, nic, "peer"), size, server.chunk)\n'
            "    for nic in [min(range(server.nics), key=near)]:",
        ),
    ),
    "NIC with the number of the GPU": but(
        "ex3-f", ("    for nic in range(server.nics):", "    for nic in [gpu]:")
    ),
    "first NIC that takes it": but(
        "ex3-f",
        (
            "        time = took(path, size, server.chunk)\n",
            "        time = took(path, size, server.chunk)\n"
            '        if mechanism == "peer" and best and best["mechanism"] == "peer":\n'
            "            continue\n"
            '        if mechanism == "pinned":\n            time += 1\n',
        ),
    ),
    "copy by the NIC forgotten": but(
        "ex3-f", ('"copies": len(path["copies"])', '"copies": len(path["copies"]) - 1')
    ),
    "copies of each piece": but(
        "ex3-f",
        (
            '"copies": len(path["copies"])',
            '"copies": len(path["copies"]) * int(np.ceil(size / server.chunk))',
        ),
    ),
    "host memory counted once": but(
        "ex3-f", ('"host": crossings * size', '"host": crossings * size / 2')
    ),
    "passing processors counted": but(
        "ex3-f", ("for end in (0, -1)]", 'for end in range(len(copy["parts"]))]')
    ),
    "every copy counted in the host": but(
        "ex3-f", ('"host": crossings * size', '"host": len(path["copies"]) * size')
    ),
    "times for bytes": but("ex3-f", ('"host": crossings * size', '"host": crossings')),
    "queue forgotten": but("ex3-f", ("max(free, arrival)", "arrival")),
    "waiting only": but(
        "ex3-f",
        ("times.append(free - arrival)", "times.append(free - arrival - took(path, size, chunk))"),
    ),
    "time of the end": but("ex3-f", ("times.append(free - arrival)", "times.append(free)")),
    "mean for the median": but(
        "ex3-f",
        (
            "return np.percentile(times, [50, 99])",
            "return [np.mean(times), np.percentile(times, 99)]",
        ),
    ),
    "longest for the 99th percentile": but("ex3-f", ("[50, 99]", "[50, 100]")),
    "95th percentile": but("ex3-f", ("[50, 99]", "[50, 95]")),
    "all at once": but("ex3-f", ("max(free, arrival)", "free"), ("free - arrival", "free")),
}
WRONG = {
    "ex3-a": WRONG_A,
    "ex3-b": WRONG_B,
    "ex3-c": WRONG_C,
    "ex3-d": WRONG_D,
    "ex3-e": WRONG_E,
    "ex3-f": WRONG_F,
}
