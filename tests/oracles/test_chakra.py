"""Chakra: what is written is read with the package's own reader and replayed against the engine."""

import builtins

import numpy as np
import pytest
from chakra.schema.protobuf import et_def_pb2 as et
from chakra.src.third_party.utils.protolib import decodeMessage

from fabriclab import collectives, engines, routing, topologies, workload
from fabriclab.core import Flows
from fabriclab.lower import lower

RATE = 1e9
STAR = topologies.build("crossbar", hosts=4, rate=RATE)


def read(files):
    """Return the nodes of each rank."""
    books = []
    for path in files:
        with path.open("rb") as file:
            decodeMessage(file, et.GlobalMetadata())
            book, node = [], et.Node()
            while decodeMessage(file, node):
                book.append(node)
                node = et.Node()
        books.append(book)
    return books


def value(node, name):
    return next(a.int64_val for a in node.attr if a.name == name)


def replayed(books):
    """Return when the last node ends [s]: a send takes bytes / rate and ends as it is received; no port is shared."""
    ended, kinds = {}, et.NodeType
    todo = [(rank, node) for rank, book in enumerate(books) for node in book]
    while todo:
        left = []
        for rank, node in todo:
            waits = [ended.get((rank, dep)) for dep in node.data_deps]
            if node.type == kinds.Value("COMM_RECV_NODE"):
                waits.append(ended.get(("tag", value(node, "comm_tag"))))
            if None in waits:
                left.append((rank, node))
                continue
            took = node.duration_micros / 1e6
            if node.type == kinds.Value("COMM_SEND_NODE"):
                took = value(node, "comm_size") / RATE
            ended[rank, node.id] = max(waits, default=0.0) + took
            if node.type == kinds.Value("COMM_SEND_NODE"):
                ended["tag", value(node, "comm_tag")] = ended[rank, node.id]
        assert len(left) < len(todo), "the graph has a circle"
        todo = left
    return max(ended.values())


def made(name, **more):
    if name == "ring":
        return lower(collectives.build("all_reduce", "ring", 4), STAR, "4 MB", expand=True, **more)
    options = {"stages": range(4), "microbatches": 3, "forward": "1 ms", "backward": "2 ms"}
    return workload.build("pipeline", STAR, "2 MB", **options)


@pytest.mark.parametrize("name", ["ring", "pipeline"])
def test_a_replay_of_the_trace_ends_when_the_engine_ends(name, tmp_path):
    flows = made(name)
    books = read(workload.write_chakra(tmp_path / "step", flows, STAR))
    assert replayed(books) == pytest.approx(
        engines.run(STAR, routing.route(STAR, flows), flows, "ideal").end, rel=1e-6
    )
    sends = [
        (r, value(n, "comm_dst"), n)
        for r, b in enumerate(books)
        for n in b
        if n.type == et.COMM_SEND_NODE
    ]
    receives = {
        value(n, "comm_tag"): (r, n)
        for r, b in enumerate(books)
        for n in b
        if n.type == et.COMM_RECV_NODE
    }
    moves = flows.source != flows.target
    assert len(sends) == len(receives) == moves.sum()
    assert sum(value(n, "comm_size") for _, _, n in sends) == flows.size.sum()
    for rank, target, node in sends:
        there, receive = receives[value(node, "comm_tag")]
        assert (there, value(receive, "comm_src")) == (target, rank)


def test_what_a_trace_cannot_say_is_refused(tmp_path):
    switch = int(np.setdiff1d(np.arange(STAR.n_nodes), STAR.endpoint)[0])
    host, other = STAR.endpoint[:2]
    wrong = [
        (lower(collectives.build("all_reduce", "ring", 4), STAR, "4 MB"), "expand=True"),
        (Flows.make([host], [switch], 1.0), "flow 0 begins or ends at a switch"),
        (Flows.make([host], [other], 1.0, start=1.0), "has a start"),
        (
            Flows.make([host, STAR.endpoint[2]], [other, STAR.endpoint[3]], 1.0, after=[[], [0]]),
            "waits for flow 0",
        ),
    ]
    for flows, said in wrong:
        with pytest.raises(ValueError, match=said):
            workload.write_chakra(tmp_path / "no", flows, STAR)
    assert not list(tmp_path.iterdir())


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def lacking(name, *rest):
        if name.startswith("chakra"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fabriclab\[chakra\]'"):
        workload.write_chakra(tmp_path / "no", made("ring"), STAR)
