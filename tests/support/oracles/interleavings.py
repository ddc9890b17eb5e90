"""Every order in which the packets of an aggregation can meet faults, walked state by state.

A state is what the switch, the workers and the links hold, and how many faults are still to come. Links are queues; a
fault takes one from its budget: a packet is lost, is doubled, overtakes the one before it, or a timer fires early.

Slots are walked one at a time: `apart` proves that chunks of two slots access no common cell, so what happens to one
slot commutes with what happens to another one, and every run of all slots is a merge of runs of single slots with at
most the same faults.
"""

import itertools
from typing import NamedTuple

import numpy as np

from fabriclab.innetwork.aggregation import Chunk, Worker
from fabriclab.innetwork.pipeline import DROP, REPLY
from fabriclab.innetwork.switch import Switch


class Budget(NamedTuple):
    """How many faults may come in all; overtaking is counted for each link, timers for each worker and chunk."""

    losses: int = 2
    doubles: int = 1
    overtakings: int = 1
    timers: int = 1


FAULTS = Budget()


class Wrong(Exception):
    """A run that ends with a wrong sum or never ends; with the events that lead there."""


class Walk:
    """All runs of ``workers`` workers with ``chunks`` chunks each over ``slots`` slots of a program.

    ``made`` returns a program for (workers, slots). Only chunks of ``slot`` are sent.
    """

    def __init__(self, made, workers=2, slots=2, chunks=4, budget=FAULTS, worker=Worker, slot=0):
        self.n, self.slots, self.budget, self.slot = workers, slots, budget, slot
        self.chunks, self.mine = chunks, range(slot, chunks, slots)
        self.all = sum(1 << c for c in self.mine)
        self.switch = Switch(made(workers, slots))
        values = [[[1 << (w + c * workers)] for c in range(chunks)] for w in range(workers)]
        self.workers = [worker(w, np.array(values[w]), slots) for w in range(workers)]
        self.right = [sum(values[w][c][0] for w in range(workers)) for c in range(chunks)]
        self.names = sorted(self.switch.state)
        self.shapes = [self.switch.state[name].shape for name in self.names]
        self.cuts = np.cumsum([self.switch.state[name].size for name in self.names])[:-1]
        self.known, self.taken = {}, {}

    def at_switch(self, registers, worker, chunk):
        """Return (registers after, action, chunk of the answer, its value) of a packet that arrives."""
        key = registers, worker, chunk
        if key not in self.known:
            parts = np.split(np.frombuffer(registers, np.int32), self.cuts)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True):
                self.switch.state[name][...] = part.reshape(shape)
            header, payload = self.workers[worker].packet(chunk)
            action, out, total = self.switch.one(header, payload)
            after = b"".join(self.switch.state[name].tobytes() for name in self.names)
            self.known[key] = after, action, {**header, **out}["chunk"], int(total[0])
        return self.known[key]

    def apart(self):
        """Return whether no cell is accessed by chunks of two slots."""
        used = {}
        for w, c in itertools.product(range(self.n), range(self.chunks)):
            header = {
                f: np.array([v], np.int32) for f, v in self.workers[w].packet(c).header.items()
            }
            for register, cell in enumerate(self.switch._accessed_cells(None, header, None, None)):
                used.setdefault((register, int(np.ravel(cell)[0])), set()).add(c % self.slots)
        return all(len(slots) == 1 for slots in used.values())

    def start(self):
        registers = b"".join(
            np.zeros_like(self.switch.state[name]).tobytes() for name in self.names
        )
        up = (tuple(self.mine[:1]),) * self.n
        down = ((),) * self.n
        done = (0,) * self.n  # a bit for each chunk
        losses, doubles, overtakings, _ = self.budget
        return (
            registers,
            done,
            up,
            down,
            losses,
            doubles,
            (overtakings,) * (2 * self.n),
            (0,) * self.n,
        )

    def arrive_up(self, state, w, i):
        registers, done, up, down, *faults = state
        registers, action, chunk, total = self.at_switch(registers, w, up[w][i])
        up = put(up, w, up[w][:i] + up[w][i + 1 :])
        if action != DROP:
            for to in [w] if action == REPLY else range(self.n):
                down = put(down, to, (*down[to], (chunk, total)))
        return registers, done, up, down, *faults

    def arrive_down(self, state, w, i):
        registers, done, up, down, *faults = state
        chunk, total = down[w][i]
        down = put(down, w, down[w][:i] + down[w][i + 1 :])
        after, sent = self.at_worker(w, done[w], chunk, total)
        return registers, put(done, w, after), put(up, w, up[w] + sent), down, *faults

    def at_worker(self, w, done, chunk, total):
        """Return (what is done after, chunks sent) of an answer that arrives; the worker itself decides."""
        key = w, done, chunk, total
        if key not in self.taken:
            worker = self.workers[w]
            worker.done[:] = [done >> c & 1 for c in range(self.chunks)]
            sent = worker.take(Chunk({"chunk": chunk}, np.array([total], np.int32)))
            for c in np.flatnonzero(worker.done):
                if not done >> c & 1 and worker.total[c, 0] != self.right[c]:
                    raise Wrong(
                        f"worker {w} takes {worker.total[c, 0]} for chunk {c}, whose sum is {self.right[c]}"
                    )
            after = sum(1 << int(c) for c in np.flatnonzero(worker.done))
            self.taken[key] = after, (sent.header["chunk"],) if sent else ()
        return self.taken[key]

    def outstanding(self, done, w):
        """Return the chunks that worker w has sent and has no sum of."""
        return [
            c
            for c in self.mine
            if not done[w] >> c & 1 and (c < self.slots or done[w] >> (c - self.slots) & 1)
        ]

    def steps(self, state):
        """Yield (what happens, the state after it)."""
        registers, done, up, down, losses, doubles, over, timers = state
        for links, arrive, name in ((up, self.arrive_up, "up"), (down, self.arrive_down, "down")):
            for w in range(self.n):
                if not links[w]:
                    continue
                yield (
                    f"{name} {w}: {links[w][0]} arrives",
                    lambda w=w, arrive=arrive: arrive(state, w, 0),
                )
                link = w + self.n * (name == "down")
                if over[link] and len(links[w]) > 1 and links[w][0] != links[w][1]:
                    less = put(over, link, over[link] - 1)
                    changed = (registers, done, up, down, losses, doubles, less, timers)
                    yield (
                        f"{name} {w}: {links[w][1]} overtakes",
                        lambda w=w, a=arrive, c=changed: a(c, w, 1),
                    )
                head, rest = links[w][0], links[w][1:]
                ways = []
                if losses:
                    ways.append(("is lost", rest, losses - 1, doubles))
                if doubles:
                    ways.append(("is doubled", (head, *rest, head), losses, doubles - 1))
                for what, queue, *left in ways:
                    both = (put(up, w, queue), down) if name == "up" else (up, put(down, w, queue))
                    after = (registers, done, *both, *left, over, timers)
                    yield f"{name} {w}: {head} {what}", lambda after=after: after
        for w in range(self.n):
            for c in self.outstanding(done, w):
                if timers[w] >> (4 * c) & 15 < self.budget.timers:
                    fired = put(timers, w, timers[w] + (1 << 4 * c))
                    after = (
                        registers,
                        done,
                        put(up, w, (*up[w], c)),
                        down,
                        losses,
                        doubles,
                        over,
                        fired,
                    )
                    yield f"timer of worker {w} for chunk {c}", lambda after=after: after

    def finishes(self, state):
        """Return whether the workers finish from here if nothing more goes wrong and timers fire when all is quiet."""
        for _ in range(4 * self.chunks * self.n):
            while any(state[2]) or any(state[3]):
                for w in range(self.n):
                    if state[2][w]:
                        state = self.arrive_up(state, w, 0)
                    if state[3][w]:
                        state = self.arrive_down(state, w, 0)
            if all(d == self.all for d in state[1]):
                return True
            registers, done, _, *rest = state
            state = (
                registers,
                done,
                tuple(tuple(self.outstanding(done, w)) for w in range(self.n)),
                *rest,
            )
        return False

    def run(self, most=None):
        """Return the number of states; raise Wrong at the first bad one."""
        first = self.start()
        came = {first: None}
        ways = [first]
        while ways:
            state = ways.pop()
            quiet = True
            for what, make in self.steps(state):
                quiet = False
                try:
                    after = make()
                except Wrong as bad:
                    raise Wrong("\n".join([*self.trace(came, state), what, str(bad)])) from None
                if after not in came:
                    came[after] = state, what
                    ways.append(after)
            if quiet or not (any(state[2]) or any(state[3])):
                if not self.finishes(state):
                    raise Wrong("\n".join([*self.trace(came, state), "nobody goes on from here"]))
            if most and len(came) > most:
                raise OverflowError(f"more than {most:,} states")
        return len(came)

    def trace(self, came, state):
        told = []
        while came[state]:
            state, what = came[state]
            told.append(what)
        return told[::-1]


def put(queues, at, value):
    return (*queues[:at], value, *queues[at + 1 :])
