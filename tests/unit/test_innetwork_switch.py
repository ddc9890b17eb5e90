"""A switch program: what it may say, where it stands on the stages, and that batches give what single packets give."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from fabriclab.innetwork import (
    DROP,
    MULTICAST,
    REPLY,
    Program,
    ProgramRefused,
    Switch,
    devices,
    look_up,
    saturating_add,
    where,
)


def program(apply, fields=None, lanes=4, **registers):
    """Return a program of a function of (program, packet)."""
    made = type(
        "Made", (Program,), {"fields": fields or {"x": 8, "y": 8}, "lanes": lanes, "apply": apply}
    )()
    for name, options in registers.items():
        setattr(made, name, made.register(name, **options))
    return made


class Counter(Program):
    """Counts packets of each kind, adds up their payload, and tells every third."""

    lanes = 4

    def __init__(self):
        self.fields = {"kind": 4}
        self.seen = self.register("seen", 16)
        self.sums = self.register("sums", 16, lanes=4)

    def apply(self, packet):
        count = self.seen.access(packet.kind, lambda n: (where(n == 2, 0, n + 1), n))

        def add(total):
            new = where(count == 0, packet.payload, total + packet.payload)
            return new, new

        packet.payload = self.sums.access(packet.kind, add)
        packet.multicast(count == 2)


def test_three_packets_by_hand():
    switch = Switch(Counter())
    for n, action in ((1, DROP), (2, DROP), (3, MULTICAST), (4, DROP)):
        out = switch.one({"kind": 5}, [n, -n, 0, 2**31 - 1])
        assert out.action == action and out.fields == {"kind": 5}
        if n == 3:
            assert out.payload.tolist() == [6, -6, 0, 2**31 - 3]  # 3 (2^31 - 1) wraps
    assert switch.state["seen_a"].tolist() == [0] * 5 + [1] + [0] * 10
    switch.clear()
    assert (
        not switch.state["sums_a"].any()
        and switch.one({"kind": 5}, [1] * 4).payload.tolist() == [1] * 4
    )


def test_stages_and_memory():
    switch = Switch(Counter())
    assert (
        switch.arrays[:3] == [1, 2, 0]
        and switch.memory[:3] == [64, 2 * 16 * 8, 0]
        and switch.stages == 2
    )
    assert repr(switch) == "<Switch: Counter on tofino1, 2 of 12 stages>"
    wide = program(
        lambda s, p: s.r.access(p.x, lambda a: (a + p.payload, a)),
        lanes=32,
        r={"size": 8, "lanes": 32},
    )
    # 32 values of 32 bits in pairs, four arrays a stage
    assert Switch(wide).arrays == [4, 4, 4, 4] + [0] * 8


REFUSED = {
    "product": (lambda s, p: p.x * p.y, "no product of two values"),
    "reversed product": (lambda s, p: 3 * p.x, "no product"),
    "quotient": (lambda s, p: p.x / 2, "cannot divide"),
    "whole quotient": (lambda s, p: p.x // 2, "shift right by a constant"),
    "remainder": (lambda s, p: p.x % 2, "mask with &"),
    "float": (lambda s, p: p.x + 0.5, "32-bit integers only"),
    "float of": (lambda s, p: float(p.x), "no floating point"),
    "branch": (lambda s, p: 1 if p.x == 1 else 2, "cannot branch"),
    "and": (lambda s, p: where(p.x == 1 and p.y == 1, 1, 2), "cannot branch"),
    "loop": (lambda s, p: [0 for _ in range(p.x)], "cannot loop"),
    "over": (lambda s, p: list(p.x), "cannot loop"),
    "shift by a field": (lambda s, p: 1 << p.x, "a switch shifts by a constant"),
    "far shift": (lambda s, p: p.x << 32, "from 0 to 31"),
    "large": (lambda s, p: p.x + 2**32, "does not fit into 32 bits"),
    "truth value": (lambda s, p: p.x + True, "32-bit integers only"),
    "condition as a number": (lambda s, p: p.x + (p.y == 1), r"where\(condition, 1, 0\)"),
    "number as a condition": (lambda s, p: where(p.x, 1, 2), "needs a condition"),
    "unknown field": (lambda s, p: p.set("z", 1), "no field 'z' in the header; it has x, y"),
    "twice": (
        lambda s, p: [s.r.access(0, lambda a: (a, a)) for _ in range(2)],
        "stage 0, register 'r': one access",
    ),
    "far back": (
        lambda s, p: s.r.access(0, lambda a: (a + 1 + 1 + 1 + 1 + 1, a)),
        "at most 4 operations",
    ),
    "one value": (
        lambda s, p: s.r.access(0, lambda a: a + 1),
        "update must return two values, the new content",
    ),
    "table inside": (
        lambda s, p: s.r.access(0, lambda a: (look_up(a, [1]), a)),
        "an update has no table: look up out",
    ),
    "long": (lambda s, p: p.set("x", sum([p.x] * 13)), "stage 13: tofino1 has 12 stages"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_switch_cannot_do_is_refused_with_the_rule(case):
    apply, rule = REFUSED[case]
    with pytest.raises(ProgramRefused, match=rule):
        Switch(program(apply, r={"size": 8}))


def test_what_does_not_fit_is_refused():
    many = program(
        lambda s, p: [r.access(0, lambda a: (a, a)) for r in s.registers],
        **{f"r{i}": {"size": 1} for i in range(49)},
    )
    with pytest.raises(
        ProgramRefused, match=r"stage 12, register 'r48': tofino1 has 12 stages of 4 arrays"
    ):
        Switch(many)
    with pytest.raises(ProgramRefused, match=r"register 'r': 720900 B; a stage has 720896 B"):
        Switch(program(lambda s, p: s.r.access(0, lambda a: (a, a)), r={"size": 11 * 2**14 + 1}))
    with pytest.raises(ProgramRefused, match=r"stage 0: .*180225 .*720900 B.*720896 B"):
        Switch(program(lambda s, p: p.set("x", look_up(p.x, range(11 * 2**14 + 1)))))
    too_many = range(11 * 2**14 + 1)
    with pytest.raises(ProgramRefused, match=r"180225 .*720900 B.*720896 B"):
        Switch(program(lambda s, p: setattr(p, "payload", p.payload + look_up(p.x, too_many))))
    with pytest.raises(
        ProgramRefused,
        match=r"parser: small .*64 bits .*16 values.*16 and 32",
    ):
        Switch(program(lambda s, p: None, lanes=32), "small")
    with pytest.raises(ProgramRefused, match="a name of its own"):
        program(lambda s, p: None, **{"no name": {"size": 1}})
    assert devices()["tofino1"].approximate and devices()["tofino1"].source


def test_the_largest_power_of_two_of_pairs_in_a_stage_is_that_of_the_published_program():
    def first(size):
        return Switch(
            program(
                lambda s, p: [r.access(0, lambda a, b: ((a, b), a)) for r in s.registers],
                **{f"r{i}": {"size": size, "pair": True} for i in range(4)},
            )
        ).arrays[0]

    assert first(16_384) == 4 and first(32_768) < 4  # source: p4app-switchML, configuration.p4


def test_fields_leave_with_their_bits():
    def apply(s, p):
        p.set("x", p.x + 1)
        p.set("y", p.y - 1)

    switch = Switch(program(apply))
    out = switch.one({"x": 255, "y": 0}, [0] * 4)
    assert out.fields == {"x": 0, "y": 255} and switch.one(out.fields, [0] * 4).fields == {
        "x": 1,
        "y": 254,
    }
    many = switch.many({"x": [255, 1], "y": [0, 2]}, np.zeros((2, 4)))
    assert many.fields["x"].tolist() == [0, 2] and many.fields["y"].tolist() == [255, 1]


def test_an_access_outside_a_register_is_refused_with_its_stage():
    for index, where_ in ((lambda p: p.x, 0), (lambda p: p.x + 0, 1)):
        switch = Switch(
            program(
                lambda s, p, index=index: s.r.access(index(p), lambda a: (a + 1, a)), r={"size": 8}
            )
        )
        with pytest.raises(ProgramRefused, match=f"stage {where_}, register 'r': cell 8 of 8"):
            switch.one({"x": 8, "y": 0}, [0] * 4)
        with pytest.raises(
            ProgramRefused, match=f"stage {where_}, register 'r': cells 1 to 8 of 8"
        ):
            switch.many({"x": [1, 8], "y": [0, 0]}, np.zeros((2, 4)))


@pytest.mark.parametrize(
    "fields", [{"x": 1}, {"x": 1, "y": 256}, {"x": 1, "y": -1}, {"x": 1, "y": 1, "z": 1}]
)
def test_a_packet_that_the_parser_cannot_read(fields):
    with pytest.raises(ValueError, match="'x': 8, 'y': 8"):
        Switch(program(lambda s, p: None)).one(fields, [0] * 4)
    with pytest.raises(ValueError, match="carries 4 values"):
        Switch(program(lambda s, p: None)).one({"x": 1, "y": 1}, [0] * 5)


def test_numbers_wrap_or_saturate_as_declared():
    def apply(s, p):
        p.set("x", p.x + 1)
        p.set("y", saturating_add(p.y, 1))

    out = Switch(program(apply, {"x": 32, "y": 32})).one({"x": 2**31 - 1, "y": 2**31 - 1}, [0] * 4)
    assert out.fields == {"x": 2**31, "y": 2**31 - 1}


FIELDS = {"x": 3, "y": 3, "z": 32}
NUMBERS = st.one_of(st.sampled_from(["x", "y", "z", "old"]), st.integers(-(2**31), 2**31 - 1))
TREES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "&", "|", "^", "sat", "<<", ">>"]), inner, inner),
        st.tuples(st.sampled_from(["where<", "where=="]), inner, inner, inner, inner),
        st.tuples(st.just("look"), inner),
    ),
    max_leaves=6,
)
PLAIN = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "sat": saturating_add,
}


def build(tree, names):
    """Return the value that a drawn tree stands for."""
    if isinstance(tree, str):
        return names[tree]
    if isinstance(tree, int):
        return tree
    op, *parts = tree
    made = [build(p, names) for p in parts]
    if op == "look":
        return look_up(made[0], [5, -7, 2**31 - 1, 0])
    if op.startswith("where"):
        a, b, c, d = made
        first = a + names["x"] if isinstance(a, int) else a
        return where(first < b if op == "where<" else first == b, c, d)
    if op in ("<<", ">>"):
        left = names["y"] + made[0] if isinstance(made[0], int) else made[0]
        return left << 3 if op == "<<" else left >> 2
    return PLAIN[op](made[0] if not isinstance(made[0], int) else names["x"] ^ made[0], made[1])


def direct(tree, names):
    """Return the number that a drawn tree stands for, computed without the library."""
    if not isinstance(tree, tuple):
        return names.get(tree, tree)
    op, a, *rest = tree[0], *(direct(part, names) for part in tree[1:])
    if op == "look":
        return [5, -7, 2**31 - 1, 0][a] if 0 <= a < 4 else 0
    if op == "sat":  # as `build`, which needs a value on the left
        a = names["x"] ^ a if isinstance(tree[1], int) else a
        return max(-(2**31), min(2**31 - 1, a + rest[0]))
    if op.startswith("where"):
        a = signed(a + names["x"]) if isinstance(tree[1], int) else a
        return rest[1] if (a < rest[0] if op == "where<" else a == rest[0]) else rest[2]
    if op in ("<<", ">>"):
        a = signed(names["y"] + a) if isinstance(tree[1], int) else a
        return signed(a * 8) if op == "<<" else a // 4
    a = names["x"] ^ a if isinstance(tree[1], int) else a
    return signed(
        {"+": a + rest[0], "-": a - rest[0], "&": a & rest[0], "|": a | rest[0], "^": a ^ rest[0]}[
            op
        ]
    )


def signed(number):
    return int.from_bytes((number % 2**32).to_bytes(4, "little"), "little", signed=True)


class Pure(Program):
    """A drawn expression of fields, without registers."""

    fields, lanes = FIELDS, 1

    def __init__(self, tree):
        self.tree = tree

    def apply(self, p):
        p.set("z", build(self.tree, {"x": p.x, "y": p.y, "z": p.z, "old": p.z}))


def placed(tree):
    """Return a switch with the expression, or reject one whose chain is too long."""
    try:
        return Switch(Pure(tree))
    except ProgramRefused:
        reject()


@settings(max_examples=200)
@example((">>", "z", 0), 0, 0, 2**31)
@example(("<<", "z", 0), 0, 0, 2**29)
@example(("look", "z"), 0, 0, 2**32 - 1)
@example(("sat", "z", -1), 0, 0, 2**31)
@example(("where<", "z", "x", 1, 2), 0, 0, 2**31)
@given(TREES, st.integers(0, 7), st.integers(0, 7), st.integers(0, 2**32 - 1))
def test_expressions_mean_what_they_say(tree, x, y, z):
    switch = placed(tree)
    names = {"x": x, "y": y, "z": signed(z), "old": signed(z)}
    assert switch.one({"x": x, "y": y, "z": z}, [0]).fields["z"] == direct(tree, names) % 2**32


class Drawn(Program):
    """A program of drawn expressions over two registers, one of which is found by what the other one held."""

    fields = FIELDS
    lanes = 2

    def __init__(self, first, second, chained):
        self.first, self.second, self.chained = first, second, chained
        self.a, self.b = self.register("a", 8, pair=True), self.register("b", 8, lanes=2)

    def apply(self, p):
        names = {"x": p.x, "y": p.y, "z": p.z, "old": p.z}
        before = build(self.first, names)
        old = self.a.access(p.x, lambda lo, hi: ((hi + 1, lo ^ before), lo))
        names["old"] = old
        after = build(self.second, names)
        index = old & 7 if self.chained else p.y
        p.payload = self.b.access(
            index, lambda total: (where(old == 0, p.payload, total + p.payload), total)
        )
        p.set("z", after)
        p.reply(old < 3)
        p.multicast(p.y == 1)


@settings(max_examples=60)
@given(TREES, TREES, st.booleans(), st.integers(0, 2**32 - 1))
def test_batches_give_what_single_packets_give(first, second, chained, seed):
    try:
        one, many = Switch(Drawn(first, second, chained)), Switch(Drawn(first, second, chained))
    except ProgramRefused:
        return  # too long a chain, or too much for one update
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    fields = {name: rng.integers(0, 1 << bits, n) for name, bits in FIELDS.items()}
    payload = rng.integers(-(2**31), 2**31, (n, 2)).astype(np.int32)
    # the registers, computed without the library
    lo, hi, sums = ([0] * 8, [0] * 8, np.zeros((8, 2), np.int32))
    cut = int(rng.integers(0, n + 1))
    batches = [
        many.many({f: v[part] for f, v in fields.items()}, payload[part])
        for part in (slice(0, cut), slice(cut, n))
        if len(payload[part])
    ]
    for i, (batch, k) in enumerate((b, k) for b in batches for k in range(len(b.payload))):
        single = one.one({f: int(v[i]) for f, v in fields.items()}, payload[i])
        assert single.action == batch.action[k] and np.array_equal(single.payload, batch.payload[k])
        assert all(single.fields[f] == batch.fields[f][k] for f in FIELDS)
        names = {f: signed(int(v[i])) for f, v in fields.items()}
        x, y, old = names["x"], names["y"], lo[names["x"]]
        lo[x], hi[x] = signed(hi[x] + 1), old ^ direct(first, {**names, "old": names["z"]})
        cell = old & 7 if chained else y
        total = sums[cell].copy()
        sums[cell] = payload[i] if old == 0 else total + payload[i]
        want = {"x": x, "y": y, "z": direct(second, {**names, "old": old}) % 2**32}
        assert single.fields == want and np.array_equal(single.payload, total)
        assert single.action == (MULTICAST if y == 1 else REPLY if old < 3 else DROP)
    for name in one.state:
        assert np.array_equal(one.state[name], many.state[name])


@settings(max_examples=60)
@given(TREES, st.integers(0, 7), st.integers(0, 7), st.integers(0, 2**32 - 1))
def test_what_comes_out_goes_in_again(tree, x, y, z):
    switch = placed(tree)
    out = switch.one({"x": x, "y": y, "z": z}, [0])
    batch = switch.many({"x": [x], "y": [y], "z": [z]}, [[0]])
    again, anew = switch.one(out.fields, out.payload), switch.many(batch.fields, batch.payload)
    assert again.fields == {f: v[0] for f, v in anew.fields.items()}
    assert (
        again.fields
        == switch.one({f: v[0] for f, v in batch.fields.items()}, batch.payload[0]).fields
    )


def test_some_packets_are_dropped_replied_and_multicast():
    switch = Switch(Drawn("x", "y", False))
    seen = {
        switch.one({"x": x, "y": y, "z": 9}, [1, 2]).action
        for x, y in itertools.product(range(4), range(4))
        for _ in range(9)
    }
    assert seen == {DROP, REPLY, MULTICAST}
