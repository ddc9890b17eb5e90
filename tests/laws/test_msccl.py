"""A schedule as MSCCL XML: read back and run by its own rules, in any order that they allow, it does the collective."""

import tracemalloc
from collections import defaultdict
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import collectives, registry
from fabriclab.collectives import build, expected, msccl
from fabriclab.collectives.algorithm import at_root, definition
from fabriclab.errors import TooLarge
from support.sampling import few

NAMES = [
    name
    for name in registry.names("collective")
    if not build(*name.split("."), 4).n_switches and name.split(".")[0] in msccl._KNOWN
]


def replay(text, memory, rng):
    """Run the thread blocks on ``memory`` (gpu, buffer) -> chunks; which of those that can go on does so is drawn."""
    blocks, wires, done = {}, defaultdict(list), defaultdict(int)
    for gpu in ElementTree.fromstring(text):
        for tb in gpu:
            assert [int(s.get("s")) for s in tb] == list(range(len(tb)))
            blocks[int(gpu.get("id")), int(tb.get("id"))] = (
                int(tb.get("send")),
                int(tb.get("recv")),
                [s.attrib for s in tb],
            )

    def ready(at):
        _, recv, steps = blocks[at]
        if done[at] == len(steps):
            return False
        step, other = steps[done[at]], (at[0], int(steps[done[at]]["depid"]))
        if other[1] >= 0:
            assert blocks[other][2][int(step["deps"])]["hasdep"] == "1"
            if done[other] <= int(step["deps"]):
                return False
        return not step["type"].startswith("r") or bool(wires[recv, at[0]])

    while can := [at for at in blocks if ready(at)]:
        at = can[rng.integers(len(can))]
        (send, recv, steps), gpu = blocks[at], at[0]
        step, count = steps[done[at]], int(steps[done[at]]["cnt"])
        here, there = ((memory[gpu, step[f"{e}buf"]], int(step[f"{e}off"])) for e in ("src", "dst"))
        source, target = (m[k : k + count] for m, k in (here, there))
        if step["type"] == "s":
            wires[gpu, send].append(source.copy())
        elif step["type"] == "cpy":
            target[:] = source
        elif step["type"] != "nop":
            came = wires[recv, gpu].pop(0)
            assert came.size == target.size == count
            target[:] = {"r": came, "rrc": came + target}[step["type"]]
        done[at] += 1
    # else some wait for each other
    assert all(done[at] == len(steps) for at, (_, _, steps) in blocks.items())
    assert not any(wires.values())


@pytest.mark.parametrize("name", NAMES)
@few(10)
@given(n=st.integers(1, 7), segments=st.integers(1, 2), seed=st.integers(0, 2**32), data=st.data())
def test_what_is_read_back_does_the_collective(name, n, segments, seed, data):
    root, rng = data.draw(st.integers(0, n - 1)), np.random.default_rng(seed)
    plan = build(*name.split("."), n, root=root, segments=segments)
    about = definition(plan.collective)
    before, after = (
        np.repeat(f(n, plan.n_blocks, root), segments, axis=1) for f in (about.before, about.after)
    )
    values = rng.integers(-99, 99, before.shape)
    given = [row[has] for row, has in zip(values, before, strict=True)]
    wanted = expected(
        plan.collective,
        given[root] if about.before is at_root else [g for g in given if g.size],
        n_ranks=n,
        root=root,
    )
    text = collectives.msccl_xml(plan)
    tree = ElementTree.fromstring(text)
    one = tree.get("inplace") == "1"
    memory = {
        (r, b): np.full(int(gpu.get(f"{b}_chunks")), 10**6)
        for r, gpu in enumerate(tree)
        for b in "ios"
    }
    home = "o" if one and not before[root].all() else "i"
    for r in range(n):
        memory[r, home][np.flatnonzero(before[r]) if one else slice(None)] = given[r]
    replay(text, memory, rng)
    for r in range(n):
        assert np.array_equal(memory[r, home][after[r]] if one else memory[r, "o"], wanted[r])


def test_a_ring_of_two_by_hand():
    tree = ElementTree.fromstring(collectives.msccl_xml(build("reduce_scatter", "ring", 2)))
    assert (tree.get("coll"), tree.get("nchunksperloop"), len(tree)) == ("reducescatter", "2", 2)
    assert (tree.get("minBytes"), tree.get("maxBytes")) == ("0", "0")  # 0: no limit
    send, receive = tree[0]
    assert (send.get("send"), send.get("recv"), receive.get("send"), receive.get("recv")) == (
        "1",
        "-1",
        "-1",
        "1",
    )
    assert {k: send[0].get(k) for k in ("type", "srcbuf", "srcoff", "cnt")} == {
        "type": "s",
        "srcbuf": "i",
        "srcoff": "1",
        "cnt": "1",
    }
    assert (receive[0].get("type"), receive[0].get("dstoff"), receive[0].get("depid")) == (
        "rrc",
        "0",
        "-1",
    )


def test_it_is_said_what_has_no_place_in_it(monkeypatch):
    with pytest.raises(ValueError, match="switches or blocks of several"):
        collectives.msccl_xml(build("all_reduce", "aggregation_tree", 4))
    with pytest.raises(ValueError, match="switches or blocks of several"):
        collectives.msccl_xml(build("all_to_all", "direct", 2, traffic=[[0, 1], [2, 0]]))
    for name in ("barrier.dissemination", "send_recv.direct"):
        with pytest.raises(
            ValueError, match=f"collective must be one of all_reduce, .* got '{name.split('.')[0]}'"
        ):
            collectives.msccl_xml(build(*name.split("."), 4))
    monkeypatch.setenv("FABRICLAB_MEMORY", "1 GiB")
    with pytest.raises(TooLarge, match="take fewer ranks or segments"):
        collectives.msccl_xml(build("all_reduce", "ring", 1024))


@pytest.mark.parametrize(
    "name", ["all_reduce.ring", "all_gather.halving_doubling", "all_to_all.direct"]
)
def test_the_memory_estimate_is_above_the_peak(name):
    plan = build(*name.split("."), 32)
    tracemalloc.start()
    collectives.msccl_xml(plan)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    blocks = sum(int(g.count.sum()) * g.repeat for g in plan.groups)
    assert peak < blocks * msccl._MOVE_BYTES
