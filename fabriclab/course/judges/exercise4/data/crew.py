# mypy: ignore-errors
"""What runs beside the classes of exercise 4 in a learner's process: it makes them, and passes on what they return.

This file is sent there as text. A switch program goes back as the operations that it has recorded, a worker's packets
as plain numbers; all that matters is done, and checked, on the other side.
"""

from operator import index
from types import SimpleNamespace

import numpy as np


def described(made):
    """Return a program as plain steps: its header, its registers, and what it does with a packet."""
    from fabriclab.innetwork.pipeline import Packet, Program, value_of

    if not isinstance(made, Program):
        raise TypeError(f"a switch program is a class {type(made).__name__}(Program)")
    accessed, steps, known, kept = [], [], {}, []
    for register in made.registers:
        register.place = lambda register: accessed.append(register) or register.stage
    packet = Packet(made.fields)
    made.apply(packet)

    def number(value):
        if id(value) not in known:
            args = [number(arg) for arg in value.args]
            steps.append([value.op, args, list(value.entries)])
            known[id(value)] = len(steps) - 1
            kept.append(value)  # so that no other one gets its identity
        return known[id(value)]

    for register in accessed:
        steps.append(["begin", [number(register.index)], [made.registers.index(register)]])
        for half, value in enumerate(register.memory):
            steps.append(["memory", [], [half]])
            known[id(value)] = len(steps) - 1
        steps.append(["end", [number(value) for value in (*register.new, register.out)], []])
    wanted = [*packet.fields.values(), packet.payload, *(when for _, when in packet.actions)]
    ends = [number(value_of(value)) for value in wanted]
    return {
        "fields": dict(made.fields),
        "lanes": index(made.lanes),
        "steps": steps,
        "ends": ends,
        "registers": [
            [r.name, index(r.size), bool(r.pair), index(r.lanes)] for r in made.registers
        ],
        "actions": [action for action, _ in packet.actions],
    }


def obey(crew, cls, order):
    """Make a worker, or call one of its methods; return its packets, its total, and its timer."""
    what, who, *rest = order
    if what == "new":
        about = {**rest[0], "values": np.array(rest[0]["values"], np.int32)}
        crew[who], sent = cls(SimpleNamespace(**about)), ()
    elif what == "take":
        sent = crew[who].take(dict(rest[0]), np.array(rest[1], np.int32))
    else:
        sent = getattr(crew[who], what, lambda *_: ())(*map(dict, rest))
    worker = crew[who]
    packets = [
        [{f: index(v) for f, v in dict(header).items()}, [*map(index, values)]]
        for header, values in sent or ()
    ]
    total = getattr(worker, "total", None)
    return [
        packets,
        None if total is None else np.ravel(total).tolist(),
        getattr(worker, "timer", None),
    ]


def served(cls):
    """Return what obeys one order after another until the simulation ends."""

    def serve(node):
        crew, answer = {}, None
        while (order := node.raw.next(answer)) is not None:
            answer = obey(crew, cls, order)
        return True

    return serve


def played(cls):
    """Return what obeys lists of orders, each with a fresh worker, and returns the last answer of each."""

    def play(node):
        return [
            [obey(crew, cls, order) for order in orders][-1]
            for crew, orders in (({}, o) for o in node.raw.orders)
        ]

    return play


def client(raw):
    """Return what a learner's class is called with."""
    ways = {
        "describe": lambda cls: lambda node: described(cls(SimpleNamespace(**node.raw.about))),
        "serve": served,
        "play": played,
    }
    return SimpleNamespace(raw=raw, alone=ways[raw.way])
