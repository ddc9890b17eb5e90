"""Exercise 4: the shortest way to break a learner's switch and worker, found breadth first over all orders of events.

An event is a packet that arrives or is lost, or a timer that runs out. Faults are copies, losses, timers, packets that
overtake others, and packets of a stranger. Runs without a fault are tried first, then runs with one, then with two.
Therefore no trace with fewer faults, and none with as many faults and fewer events, breaks the same small job. The
state of a worker is the list of everything that has happened to it: wherever its code stores things, its methods are
called again in that order. Packets that have not arrived when the run breaks may be late or lost.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.shared.numbers import Misread
from fabriclab.innetwork import DROP, REPLY

from .moves import Broken, Move, Numbers, State, is_fault, put, without
from .programs import desk
from .rounds import Crew, checked

Found = tuple[list[Move], Broken]
_TOKEN_BITS = 24  # of all workers' values together; the stranger's is above
STRANGER = 1 << _TOKEN_BITS
# most states; most, for each number of faults, of which it is asked if they hang
_STATES, _HANGS = (45_000, 1000)
# of timers that run out, and moves, until it is said that somebody waits for ever
_ROUNDS, _CALM = (10, 300)
# packets of a worker in one call of its methods; histories that are asked for at once
_AT_ONCE, _BATCH = (32, 200)
_MEMORY = 1 << 26  # of all snapshots of the registers [B]


class TraceSearch:
    """A small job, with everything that can happen to it.

    Parameters
    ----------
    crew : Crew
        The learner's classes.
    workers, slots, chunks : int
        Of the one job; each chunk fills a packet.
    stranger : bool
        Whether another tenant sends.
    """

    def __init__(
        self, crew: Crew, workers: int, slots: int, chunks: int, *, stranger: bool = False
    ) -> None:
        self.crew, self.n, self.chunks = crew, workers, chunks
        self.slots, self.jobs = slots, 1 + stranger
        self.switch = crew.switch(workers, self.jobs, slots)
        self.lanes, self.bits = self.switch.program.lanes, _TOKEN_BITS // (workers * chunks)
        self.token = [
            [1 << self.bits * (c * workers + w) for c in range(chunks)] for w in range(workers)
        ]
        self.right = np.repeat(np.sum(self.token, axis=0), self.lanes).tolist()
        self.packets, self._snapshots = Numbers(), Numbers()
        self._histories, self._answers = list[list[tuple[Any, ...]]](), list[tuple[Any, ...]]()
        self._numbers, self._passed = dict[Any, int](), dict[Any, tuple[int, int, int]]()
        self._names, self.states = sorted(self.switch.state), 0

    # What workers and the switch do ----------------------------------------------------------------------------------

    def react(self, state: State, w: int, *event: Any) -> tuple[State, Broken | None]:
        """Return the state after an event at a worker, and whether its total is wrong."""
        key = w, state.workers[w], event
        if key not in self._numbers:
            try:
                self._learn([key])
            except Unanswered as error:
                if error.problem != "raised" or event[0] == "start":
                    raise
                return state, Broken("stopped", w, error.said)
        number = self._numbers[key]
        sent, total, timers = self._answers[number]
        wrong = Broken("wrong", w, total) if total is not None and total != self.right else None
        return state._replace(
            workers=put(state.workers, w, number),
            up=put(state.up, w, state.up[w] + sent),
            timers=put(state.timers, w, state.timers[w] + timers),
        ), wrong

    def _learn(self, keys: Sequence[tuple[int, int, tuple[Any, ...]]]) -> None:
        """Ask what workers answer to a new event after a history that is known, all at once."""
        plays, histories = list[Any](), list[Any]()
        for w, before, event in keys:
            histories.append([*(self._histories[before] if event[0] != "start" else ()), event])
            values = np.repeat(self.token[w], self.lanes).astype(np.int32)
            about = {"rank": w, "workers": self.n, "job": 0, "slots": self.slots, "values": values}
            plays.append([["new", 0, about], *(self._order(*event) for event in histories[-1])])
        answers = self.crew.ask(self.crew.worker, desk("play", orders=plays))
        for key, history, answer in zip(keys, histories, answers, strict=True):
            packets, total, timer = checked(answer, self.switch.program.fields, self.lanes)
            if len(packets) > _AT_ONCE:
                raise Misread("too many to try all orders")
            sent = tuple(
                self.packets.of((tuple(sorted(header.items())), tuple(values)))
                for header, values in packets
            )
            self._numbers[key] = len(self._histories)
            self._histories.append(history)
            self._answers.append((sent, total, sent if timer is not None else ()))

    def _prepare(self, states: Sequence[State]) -> None:
        """Learn at once what the next moves from some states need; code that fails is asked one by one later."""
        events = {"down": "take", "timers": "timeout"}
        keys = dict.fromkeys(
            (w, state.workers[w], (event, number))
            for state in states
            for way, event in events.items()
            if way == "down" or state.faults
            for w in range(self.n)
            for number in getattr(state, way)[w][: None if state.faults else 1]
        )
        new = [key for key in keys if key not in self._numbers]
        with contextlib.suppress(Unanswered):
            for first in range(0, len(new), _BATCH):
                self._learn(new[first : first + _BATCH])

    def _order(self, kind: str, number: int = 0) -> list[Any]:
        """Return an event of a worker's history as a call of one of its methods."""
        if kind == "start":
            return [kind, 0]
        header, values = self.packets[number]
        return [kind, 0, dict(header)] + [list(values)] * (kind == "take")

    def through(self, registers: int, job: int, number: int) -> tuple[int, int, int]:
        """Return registers, action and packet after one has gone through the switch."""
        key = registers, job, number
        if key not in self._passed:
            at, packet = 0, self.packets[number]
            for array in (self.switch.state[name] for name in self._names):
                array[...] = np.frombuffer(
                    self._snapshots[registers], np.int32, array.size, at
                ).reshape(array.shape)
                at += array.nbytes
            action, fields, payload = self.switch.one({**dict(packet[0]), "job": job}, packet[1])
            masked = {
                f: int(fields[f]) & (1 << b) - 1 for f, b in self.switch.program.fields.items()
            } | {"job": job}
            out = (
                tuple(sorted(masked.items())),
                tuple(np.broadcast_to(payload, self.lanes).tolist()),
            )
            self._passed[key] = self._snapshot(), action, self.packets.of(out)
        return self._passed[key]

    def _snapshot(self) -> int:
        return self._snapshots.of(
            b"".join(self.switch.state[name].tobytes() for name in self._names)
        )

    def waiting(self, state: State) -> list[int]:
        """Return the workers that have no total."""
        return [w for w in range(self.n) if self._answers[state.workers[w]][1] is None]

    def start(self, faults: int = 0) -> State:
        """Return the state after all have sent their first packets, with so many faults to come."""
        self.switch.clear()
        empty: tuple[Any, ...] = ((),) * self.n
        state = State(self._snapshot(), (-1,) * self.n, empty, empty, empty, faults)
        for w in range(self.n):
            state, _ = self.react(state, w, "start")
        bits = {f: b for f, b in self.switch.program.fields.items() if f != "job"}
        heard = dict.fromkeys(self.packets[number][0] for sent in state.up for number in sent)
        changed = (
            tuple({**dict(header), field: new}.items())
            for header in heard
            for field, b in bits.items()
            for new in ((1 << b) - 1, dict(header)[field] ^ 1)
            if b
        )
        headers = dict.fromkeys((*heard, *changed)) if self.jobs > 1 else ()
        self.strange = [self.packets.of((header, (STRANGER,) * self.lanes)) for header in headers]
        return state

    # What can happen -------------------------------------------------------------------------------------------------

    def moves(self, state: State, losses: bool = False) -> Iterator[Move]:
        """Yield the moves that are possible, those without a fault first."""
        queues = [
            (way, w, queue) for way in ("up", "down") for w, queue in enumerate(getattr(state, way))
        ]
        yield from ((way, w, 0) for way, w, queue in queues if queue)
        if not state.faults:
            return
        for w in range(self.n):
            yield from (
                ("timeout", w, i)
                for i, one in enumerate(state.timers[w])
                if one not in state.timers[w][:i]
            )
        for way, w, queue in queues:
            for i in range(len(queue)):
                if queue[i] not in queue[:i]:
                    ways = [f"{way} twice", *[f"{way} lost"] * losses, *[way] * (i > 0)]
                    yield from ((kind, w, i) for kind in ways)
        yield from (("stranger", -1, i) for i in range(len(self.strange)))

    def after(self, state: State, move: Move) -> tuple[State, Broken | None]:
        """Return the state after a move, and whether it is broken."""
        kind, w, i = move
        way, _, how = kind.partition(" ")
        if is_fault(move):
            state = state._replace(faults=state.faults - 1)
        if way == "timeout":
            number = state.timers[w][i]
            return self.react(
                state._replace(timers=put(state.timers, w, without(state.timers[w], i))),
                w,
                way,
                number,
            )
        number = self.strange[i] if way == "stranger" else getattr(state, way)[w][i]
        if way == "up" and how != "twice":
            state = state._replace(up=put(state.up, w, without(state.up[w], i)))
        elif way == "down" and how != "twice":
            state = state._replace(down=put(state.down, w, without(state.down[w], i)))
        if how == "lost":
            return state, None
        if way == "down":
            return self.react(state, w, "take", number)
        try:
            registers, action, out = self.through(
                state.registers, self.jobs - 1 if w < 0 else 0, number
            )
        except Exception as error:  # what the program does with this packet no switch can do
            return state, Broken("outside", w, error)
        down = state.down
        for to in () if action == DROP or w < 0 else (w,) if action == REPLY else range(self.n):
            down = put(down, to, (*down[to], out))
        return state._replace(registers=registers, down=down), None

    def hangs(self, state: State) -> Found | None:
        """Return what still arrives, and who waits for ever if no more goes wrong and timers fire when all is quiet."""
        again, arrived, moves = False, list[Move](), list[Move]()
        state = state._replace(faults=0)
        for _ in range(_ROUNDS):
            while move := next(self.moves(state), None):
                state, broken = self.after(state, move)
                moves.append(move)
                if broken or len(moves) > _CALM:  # another fault than waiting for ever
                    return None
            arrived = arrived or moves[:]
            if not self.waiting(state) or not any(state.timers):
                break
            before = state.up
            for w in range(self.n):
                for _ in state.timers[w]:
                    state, _ = self.after(state, ("timeout", w, 0))
            again |= state.up != before
            state = state._replace(faults=0)
        waiting = self.waiting(state)
        return (arrived, Broken("hangs", waiting[0], None, again)) if waiting else None

    def run(self, faults: int, hangs: bool = False, most: int = _STATES) -> Found | None:
        """Return the fewest moves with so many faults that break it, and how; or None if there are none in ``most``."""
        first = self.start(faults)
        came, ways = dict[State, Any]({first: None}), [first]
        self.states, prepared = 1, 0
        if hangs and (found := self.hangs(first)):
            return found
        for n, state in enumerate(ways):  # grows on the way
            if n >= prepared:
                self._prepare(ways[n:])
                prepared = len(ways)
            for move in self.moves(state, hangs):
                after, broken = self.after(state, move)
                if not broken and after in came:
                    continue
                rest = self.hangs(after) if hangs and not broken else None
                if broken or rest:
                    moves = [move]
                    while came[state]:
                        state, move = came[state]
                        moves.insert(0, move)
                    return (moves + rest[0], rest[1]) if rest else (moves, broken)  # type: ignore[return-value]
                came[after] = state, move
                ways.append(after)
            self.states = len(ways)
            if self.states > most or len(self._snapshots) * len(self._snapshots[0]) > _MEMORY:
                return None
        return None


# Which small jobs are tried, one after another: workers, slots, chunks.
_SMALL = ((2, 1, 1), (2, 1, 2), (2, 1, 3), (2, 2, 3), (3, 1, 2))


def shortest(
    crew: Crew, *, faults: int = 3, stranger: bool = False, hangs: bool = False
) -> tuple[TraceSearch, list[Move], Broken] | None:
    """Return a small job, and the fewest moves that break it with the fewest faults; with as many, a wrong sum first.

    ``hangs`` says whether runs that never end are looked for, too.
    """
    left, searches = {False: _STATES, True: 0}, dict[Any, TraceSearch]()
    for many, waits in itertools.product(range(faults + 1), (False, True)[: 1 + hangs]):
        left[True] = (
            _HANGS  # for each number of faults, so that large jobs with few take nothing from small ones
        )
        for small in _SMALL:
            if left[waits] <= 0:
                break
            try:
                search = searches[small] = searches.get(small) or TraceSearch(
                    crew, *small, stranger=stranger
                )
                if found := search.run(many, waits, left[waits]):
                    return search, *found
            except (Unanswered, Misread, ValueError, TypeError, AttributeError):
                return None  # the code has other trouble, which is told
            left[waits] -= search.states
    return None
