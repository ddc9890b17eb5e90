# mypy: ignore-errors
"""What a learner's program sees of the grader's device: the names of pyverbs, in the process of the learner.

This file is sent there as text, so it imports nothing of the course. All that matters happens on the other side of
``raw``, whose methods take and return plain numbers.
"""

from collections import namedtuple
from types import FunctionType, SimpleNamespace

WC = namedtuple("WC", "wr_id status opcode byte_len qp_num src_qp imm_data wc_flags vendor_err")


class PyverbsError(Exception):
    """Any error of the verbs."""


class PyverbsRDMAError(PyverbsError):
    """A call that the device refused."""


class PyverbsUserError(PyverbsError):
    """A wrong argument."""


def asked(method, *args):
    """Return what the device answers; a process that was killed ends here."""
    try:
        return method(*args)
    except ValueError as error:
        if str(error) == "killed":
            raise SystemExit("killed") from None
        raise PyverbsRDMAError(str(error)) from None


class GID:
    """An address of a context."""

    def __init__(self, val="0000:0000:0000:0000:0000:0000:0000:0000"):
        self.gid = val


class GlobalRoute:
    """Where packets go."""

    def __init__(self, dgid=None, flow_label=0, sgid_index=0, hop_limit=1, traffic_class=0):
        self.dgid, self.sgid_index = dgid or GID(), sgid_index


class AHAttr:
    """A path."""

    def __init__(
        self, dlid=0, sl=0, src_path_bits=0, static_rate=0, is_global=0, port_num=1, gr=None
    ):
        self.gr, self.is_global, self.port_num = gr or GlobalRoute(), is_global, port_num


class QPCap:
    """Room of the queues of a queue pair."""

    def __init__(
        self, max_send_wr=1, max_recv_wr=10, max_send_sge=1, max_recv_sge=1, max_inline_data=0
    ):
        self.max_send_wr, self.max_recv_wr, self.max_inline_data = (
            max_send_wr,
            max_recv_wr,
            max_inline_data,
        )
        self.max_send_sge, self.max_recv_sge = max_send_sge, max_recv_sge


class QPInitAttr:
    """What a queue pair is made from."""

    def __init__(
        self, qp_type=4, qp_context=None, scq=None, rcq=None, srq=None, cap=None, sq_sig_all=1
    ):
        self.qp_type, self.send_cq, self.recv_cq, self.cap, self.sq_sig_all = (
            qp_type,
            scq,
            rcq,
            cap,
            sq_sig_all,
        )


class QPAttr:
    """What a step of a queue pair sets."""

    def __init__(self, qp_state=1, cur_qp_state=0):
        self.qp_state, self.cur_qp_state, self.ah_attr = qp_state, cur_qp_state, AHAttr()
        self.qp_access_flags = self.pkey_index = self.qkey = self.dest_qp_num = self.rq_psn = (
            self.sq_psn
        ) = 0
        self.timeout = self.retry_cnt = self.rnr_retry = self.min_rnr_timer = 0
        self.max_rd_atomic = self.max_dest_rd_atomic = 0
        self.port_num, self.path_mtu = 1, 3


class SGE:
    """A piece of registered memory."""

    def __init__(self, addr, length, lkey):
        self.addr, self.length, self.lkey = addr, length, lkey


class RecvWR:
    """A buffer for one message to come."""

    def __init__(self, wr_id=0, num_sge=0, sg=None, next_wr=None):
        self.wr_id, self.sg, self.next_wr = wr_id, pieces(sg, num_sge), next_wr

    def plain(self):
        """Return it as plain numbers."""
        return {"wr_id": self.wr_id, "sg": [[s.addr, s.length, s.lkey] for s in self.sg]}


class SendWR:
    """One operation of the sender's side."""

    def __init__(
        self, wr_id=0, opcode=2, num_sge=0, imm_data=0, sg=None, send_flags=2, next_wr=None
    ):
        self.wr_id, self.opcode, self.imm_data, self.sg = (
            wr_id,
            opcode,
            imm_data,
            pieces(sg, num_sge),
        )
        self.send_flags, self.next_wr = send_flags, next_wr
        self.rkey = self.remote_addr = self.compare_add = self.swap = 0

    def set_wr_rdma(self, rkey, addr):
        """Name the remote memory."""
        self.rkey, self.remote_addr = rkey, addr

    def set_wr_atomic(self, rkey, addr, compare_add, swap):
        """Name the remote 8 bytes, what to compare with or to add, and what to put there."""
        self.rkey, self.remote_addr, self.compare_add, self.swap = (
            rkey,
            addr,
            compare_add % 2**64,
            swap % 2**64,
        )

    def plain(self):
        """Return it as plain numbers."""
        names = (
            "wr_id",
            "opcode",
            "imm_data",
            "send_flags",
            "rkey",
            "remote_addr",
            "compare_add",
            "swap",
        )
        numbers = {name: int(getattr(self, name)) for name in names}
        return numbers | {"sg": [[s.addr, s.length, s.lkey] for s in self.sg]}


def pieces(sg, num_sge):
    """Return the pieces of a request, of which there must be one at least."""
    if not sg or not num_sge or num_sge > len(sg):
        raise PyverbsUserError(f"A WR needs at least one SGE, got sg={sg!r}, num_sge={num_sge}")
    return sg[:num_sge]


def chain(wr):
    """Return a chain of requests as plain numbers."""
    found = []
    while wr is not None:
        found.append(wr.plain())
        wr = wr.next_wr
    return found


class MR:
    """A registered memory region."""

    def __init__(self, creator, length=0, access=0, address=None):
        self.raw, self.length = creator.raw, length
        self.number, self.buf, self.lkey, self.rkey = asked(
            self.raw.register, creator.number, length, access, address
        )

    def read(self, length, offset):
        """Return a copy of bytes."""
        return bytes(asked(self.raw.read, self.number, length, offset))

    def write(self, data, length, offset=0):
        """Copy bytes into the region."""
        data = data.encode() if isinstance(data, str) else bytes(data)
        asked(self.raw.write, self.number, list(data[:length]), offset)

    @property
    def memory(self):
        """Say what stands in its place here."""
        raise PyverbsUserError(
            "use node.load, node.store, node.add and node.compute: they do the same in grading"
        )

    def close(self):
        """Forget the keys."""
        asked(self.raw.forget, self.number)


class PD:
    """A protection domain."""

    def __init__(self, creator, number=0):
        self.raw, self.number = creator.raw, number or asked(creator.raw.domain)


class CQ:
    """A completion queue."""

    def __init__(self, context, cqe=1, cq_context=None, channel=None, comp_vector=0, number=0):
        self.raw, self.cqe, self.number = context.raw, cqe, number or asked(context.raw.queue, cqe)

    def poll(self, num_entries=1):
        """Return how many completions there were, and these."""
        found = [WC(*one) for one in asked(self.raw.poll, self.number, num_entries)]
        return len(found), found

    def req_notify(self, solicited_only=False):
        """Arm the queue: its next completion makes one event."""
        asked(self.raw.arm, self.number)


class QP:
    """A queue pair of type RC."""

    def __init__(self, creator, init_attr, qp_attr=None, number=0):
        self.raw, self.qp_num = creator.raw, number
        if not number:
            i, cap = init_attr, init_attr.cap or QPCap()
            if i.send_cq is None or i.recv_cq is None:
                raise PyverbsUserError("a queue pair needs scq and rcq")
            room = [cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_inline_data]
            queues = [i.send_cq.number, i.recv_cq.number]
            self.qp_num = asked(
                self.raw.pair, creator.number, i.qp_type, queues, room, int(i.sq_sig_all)
            )
        if qp_attr is not None:
            self.to_init(qp_attr)

    @property
    def qp_state(self):
        """Where the pair stands."""
        return asked(self.raw.state, self.qp_num)

    def _step(self, attr, state):
        numbers = {name: v for name, v in vars(attr).items() if isinstance(v, int)}
        asked(self.raw.modify, self.qp_num, state, numbers | {"gid": attr.ah_attr.gr.dgid.gid})
        attr.qp_state = state

    def to_init(self, qp_attr):
        """Go from RESET to INIT."""
        self._step(qp_attr, 1)

    def to_rtr(self, qp_attr):
        """Go to RTR, by way of INIT if need be."""
        if self.qp_state != 1:
            self.to_init(qp_attr)
        self._step(qp_attr, 2)

    def to_rts(self, qp_attr):
        """Go to RTS, by way of INIT and RTR if need be."""
        if self.qp_state != 2:
            self.to_rtr(qp_attr)
        self._step(qp_attr, 3)

    def modify(self, qp_attr, mask):
        """Go to the state that the attributes name."""
        self._step(qp_attr, qp_attr.qp_state)

    def post_send(self, wr, bad_wr=None):
        """Post a chain with one doorbell."""
        asked(self.raw.post_send, self.qp_num, chain(wr))

    def post_recv(self, wr, bad_wr=None):
        """Add buffers for messages to come."""
        asked(self.raw.post_recv, self.qp_num, chain(wr))


class Context:
    """The device, opened."""

    def __init__(self, raw):
        self.raw = raw

    def query_gid(self, port_num=1, index=0):
        """Return the address that peers need."""
        return GID(asked(self.raw.gid))


def alone(program):
    """Return a program whose variables are its own, as in a process: all programs run in one here."""
    if type(program) is not FunctionType:
        return program
    shared = program.__globals__
    names = {
        name: thing.copy() if hasattr(type(thing), "copy") else thing
        for name, thing in shared.items()
    }

    def mine(function):
        made = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    for name, thing in shared.items():
        if type(thing) is FunctionType and thing.__globals__ is shared:
            names[name] = mine(thing)
    return mine(program)


def client(raw):
    """Return a node of the parameter server."""
    mine = Context(raw)
    names = {**raw.enums}
    rdma = SimpleNamespace(
        AHAttr=AHAttr,
        GID=GID,
        GlobalRoute=GlobalRoute,
        QPCap=QPCap,
        QPInitAttr=QPInitAttr,
        QPAttr=QPAttr,
        SGE=SGE,
        RecvWR=RecvWR,
        SendWR=SendWR,
        MR=MR,
        PD=PD,
        CQ=CQ,
        QP=QP,
        WC=WC,
        Context=lambda name="": mine,
        enums=SimpleNamespace(**names),
        DEVICE="fabriclab0",
        PyverbsError=PyverbsError,
        PyverbsRDMAError=PyverbsRDMAError,
        PyverbsUserError=PyverbsUserError,
    )
    node = SimpleNamespace(rdma=rdma, alone=alone, **raw.about)
    if raw.ready:
        node.pd, node.cq = PD(mine, raw.ready["pd"]), CQ(mine, 64, number=raw.ready["cq"])
        node.qps = {
            peer: QP(node.pd, None, number=number) for peer, number in raw.ready["qps"].items()
        }

    def verb(method):
        return lambda *args: asked(method, *args)

    for name in raw.more:
        setattr(node, name, verb(getattr(raw, name)))
    return node
