"""Exercise 4: the shortest way to break a learner's switch and worker, found breadth first over all orders of events.

An event is a packet that arrives or is lost, or a timer that runs out. Faults are copies, losses, timers, packets that
overtake others, and packets of a stranger. Runs without a fault are tried first, then runs with one, then with two.
Therefore no trace with fewer faults, and none with as many faults and fewer events, breaks the same small job. The
state of a worker is the list of everything that has happened to it: wherever its code stores things, its methods are
called again in that order. Packets that have not arrived when the run breaks may be late or lost.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.shared.numbers import Misread
from fabriclab.innetwork import DROP, REPLY

from .moves import Broken, Move, Numbers, State, is_fault, put, without
from .programs import desk
from .rounds import Crew, checked

# A worker, the number of its history, and what happens next: the kind of event and the number of a packet.
EventKey = tuple[int, int, str, int]

_TOKEN_BITS = 24  # of all workers' values together; the stranger's is above
STRANGER = 1 << _TOKEN_BITS
_MOST_STATES = 45_000  # of all small jobs together
_MOST_HANGS = (
    1000  # states, for each number of faults, that are tried for workers that wait for ever
)
_MOST_IDLE_ROUNDS = (
    10  # rounds of timers that run out, until it is said that somebody waits for ever
)
_MOST_MOVES = 300  # without a fault, until it is said that a run has another trouble than waiting
# illustrative: events of a worker in a trace. A worker of a small job needs about ten, and each one more makes all
# events before it be played again; a worker that sends for ever would never come to an end.
_MOST_EVENTS = 40
_MOST_PACKETS = 32  # of a worker in one call of its methods
_BATCH = 200  # histories that are asked for at once
_MEMORY = 1 << 26  # of all snapshots of the registers [B]


class Trace(NamedTuple):
    """The moves that break a small job, and how it ends."""

    moves: list[Move]
    broken: Broken


class Reaction(NamedTuple):
    """What a worker answers to an event; packets go by numbers."""

    sent: tuple[int, ...]
    total: list[int] | None
    timers: tuple[int, ...]  # the packets that the worker has set a timer for


class Forwarded(NamedTuple):
    """What the switch does with a packet; registers and packets go by numbers."""

    registers: int  # after it
    action: int
    packet: int  # that leaves the switch


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
        self.crew = crew
        self.n = workers
        self.slots = slots
        self.chunks = chunks
        self.jobs = 2 if stranger else 1
        self.switch = crew.switch(workers, self.jobs, slots)
        self.lanes = self.switch.program.lanes

        # Each worker's chunk holds a power of two, so that a sum tells how often each chunk is in it.
        self.bits = _TOKEN_BITS // (workers * chunks)
        self.token = [
            [self._token(worker, chunk) for chunk in range(chunks)] for worker in range(workers)
        ]
        self.right = np.repeat(np.sum(self.token, axis=0), self.lanes).tolist()

        self.states = 0  # that the last run has reached
        self.packets = Numbers()
        self.strange = list[int]()  # packets that the stranger may send
        self._snapshots = Numbers()  # of the registers
        self._numbers = dict[EventKey, int]()  # of the history that ends with an event
        self._histories = list[list[tuple[str, int]]]()
        self._reactions = list[Reaction]()  # to the last event of each history
        self._forwarded = dict[tuple[int, int, int], Forwarded]()

    def _token(self, worker: int, chunk: int) -> int:
        """Return the value that stands for a worker's chunk."""
        return 1 << self.bits * (chunk * self.n + worker)

    # What workers and the switch do ----------------------------------------------------------------------------------

    def react(
        self, state: State, w: int, kind: str, number: int = 0
    ) -> tuple[State, Broken | None]:
        """Return the state after an event at a worker, and whether its total is wrong."""
        key = (w, state.workers[w], kind, number)
        if key not in self._numbers:
            try:
                self._learn([key])
            except Unanswered as error:
                if error.problem != "raised" or kind == "start":
                    raise
                return state, Broken("stopped", w, error.said)

        history = self._numbers[key]
        sent, total, timers = self._reactions[history]
        after = state._replace(
            workers=put(state.workers, w, history),
            up=put(state.up, w, state.up[w] + sent),
            timers=put(state.timers, w, state.timers[w] + timers),
        )
        if total is not None and total != self.right:
            return after, Broken("wrong", w, total)
        return after, None

    def _learn(self, keys: Sequence[EventKey]) -> None:
        """Ask what workers answer to a new event after a history that is known, all at once."""
        histories = list[list[tuple[str, int]]]()
        for _, before, kind, number in keys:
            known = [] if kind == "start" else self._histories[before]
            histories.append([*known, (kind, number)])

        orders = list[list[Any]]()
        for (w, *_), history in zip(keys, histories, strict=True):
            values = np.repeat(self.token[w], self.lanes).astype(np.int32)
            about = {"rank": w, "workers": self.n, "job": 0, "slots": self.slots, "values": values}
            made = ["new", 0, about]
            orders.append([made, *(self._order(kind, number) for kind, number in history)])

        answers = self.crew.ask(self.crew.worker, desk("play", orders=orders))
        for key, history, answer in zip(keys, histories, answers, strict=True):
            reaction = self._reaction(answer)
            self._numbers[key] = len(self._histories)
            self._histories.append(history)
            self._reactions.append(reaction)

    def _reaction(self, answer: Any) -> Reaction:
        """Return what a worker has answered, checked, with numbers for its packets."""
        packets, total, timer = checked(answer, self.switch.program.fields, self.lanes)
        if len(packets) > _MOST_PACKETS:
            raise Misread("too many to try all orders")
        sent = tuple(
            self.packets.of((tuple(sorted(header.items())), tuple(values)))
            for header, values in packets
        )
        return Reaction(sent, total, sent if timer is not None else ())

    def _order(self, kind: str, number: int) -> list[Any]:
        """Return an event of a worker's history as a call of one of its methods."""
        if kind == "start":
            return [kind, 0]
        header, values = self.packets[number]
        if kind == "take":
            return [kind, 0, dict(header), list(values)]
        return [kind, 0, dict(header)]

    def _prepare(self, states: Sequence[State]) -> None:
        """Learn at once what the next moves from some states need; code that fails is asked one by one later."""
        keys = dict.fromkeys(key for state in states for key in self._next_events(state))
        new = [key for key in keys if key not in self._numbers]
        with contextlib.suppress(Unanswered):
            for first in range(0, len(new), _BATCH):
                self._learn(new[first : first + _BATCH])

    def _next_events(self, state: State) -> Iterator[EventKey]:
        """Yield the events that a worker may see next; without a fault, packets arrive in order and timers wait."""
        for w in range(self.n):
            arriving = state.down[w] if state.faults else state.down[w][:1]
            for number in arriving:
                yield w, state.workers[w], "take", number
        if not state.faults:
            return
        for w in range(self.n):
            for number in state.timers[w]:
                yield w, state.workers[w], "timeout", number

    def through(self, registers: int, job: int, number: int) -> Forwarded:
        """Return registers, action and packet after one has gone through the switch."""
        key = (registers, job, number)
        if key not in self._forwarded:
            self._restore(registers)
            header, values = self.packets[number]
            action, fields, payload = self.switch.one({**dict(header), "job": job}, values)

            bits = self.switch.program.fields
            out = {field: int(fields[field]) & (1 << size) - 1 for field, size in bits.items()}
            out["job"] = job
            sums = np.broadcast_to(payload, self.lanes).tolist()
            packet = (tuple(sorted(out.items())), tuple(sums))
            self._forwarded[key] = Forwarded(self._snapshot(), action, self.packets.of(packet))
        return self._forwarded[key]

    def _registers(self) -> list[NDArray[np.int32]]:
        """Return the registers of the switch in a fixed order; it makes new ones when it is cleared."""
        return [array for _, array in sorted(self.switch.state.items())]

    def _snapshot(self) -> int:
        """Return the number of what the registers hold now."""
        return self._snapshots.of(b"".join(array.tobytes() for array in self._registers()))

    def _restore(self, snapshot: int) -> None:
        """Put into the registers what they held at a snapshot."""
        at = 0  # [B]
        for array in self._registers():
            held = np.frombuffer(self._snapshots[snapshot], np.int32, array.size, at)
            array[...] = held.reshape(array.shape)
            at += array.nbytes

    def waiting(self, state: State) -> list[int]:
        """Return the workers that have no total."""
        return [w for w in range(self.n) if self._reactions[state.workers[w]].total is None]

    def start(self, faults: int = 0) -> State:
        """Return the state after all have sent their first packets, with so many faults to come."""
        self.switch.clear()
        empty: tuple[Any, ...] = ((),) * self.n
        state = State(self._snapshot(), (-1,) * self.n, empty, empty, empty, faults)
        for w in range(self.n):
            state, _ = self.react(state, w, "start")
        self.strange = self._packets_of_stranger(state) if self.jobs > 1 else []
        return state

    def _packets_of_stranger(self, first: State) -> list[int]:
        """Return packets with the headers of the first ones, and with those that differ from one in one field."""
        heard = dict.fromkeys(self.packets[number][0] for sent in first.up for number in sent)
        headers = dict(heard)
        for header in heard:
            for field, bits in self.switch.program.fields.items():
                if field == "job" or not bits:
                    continue
                fields = dict(header)
                for value in ((1 << bits) - 1, fields[field] ^ 1):
                    changed = tuple({**fields, field: value}.items())
                    headers.setdefault(changed)
        return [self.packets.of((header, (STRANGER,) * self.lanes)) for header in headers]

    # What can happen -------------------------------------------------------------------------------------------------

    def moves(self, state: State, losses: bool = False) -> Iterator[Move]:
        """Yield what can happen, what needs no fault first."""
        queues = [("up", w, queue) for w, queue in enumerate(state.up)]
        queues += [("down", w, queue) for w, queue in enumerate(state.down)]
        for link, w, queue in queues:
            if queue:
                yield link, w, 0
        if not state.faults:
            return

        for w, timers in enumerate(state.timers):
            for i, number in enumerate(timers):
                if number not in timers[:i]:
                    yield "timeout", w, i
        for link, w, queue in queues:
            for i, number in enumerate(queue):
                if number in queue[:i]:
                    continue
                yield f"{link} twice", w, i
                if losses:
                    yield f"{link} lost", w, i
                if i > 0:
                    yield link, w, i
        for i in range(len(self.strange)):
            yield "stranger", -1, i

    def after(self, state: State, move: Move) -> tuple[State, Broken | None]:
        """Return the state after a move, and whether it is broken."""
        kind, w, i = move
        link, _, fault = kind.partition(" ")
        if is_fault(move):
            state = state._replace(faults=state.faults - 1)

        if link == "stranger":
            return self._forward(state, w, self.strange[i])
        if link == "timeout":
            number = state.timers[w][i]
            timers = put(state.timers, w, without(state.timers[w], i))
            return self.react(state._replace(timers=timers), w, "timeout", number)

        packets = state.up if link == "up" else state.down
        number = packets[w][i]
        if fault != "twice":
            rest = put(packets, w, without(packets[w], i))
            state = state._replace(up=rest) if link == "up" else state._replace(down=rest)
        if fault == "lost":
            return state, None
        if link == "down":
            return self.react(state, w, "take", number)
        return self._forward(state, w, number)

    def _forward(self, state: State, w: int, number: int) -> tuple[State, Broken | None]:
        """Return the state after a packet of a worker, or of the stranger (-1), has gone through the switch."""
        job = self.jobs - 1 if w < 0 else 0
        try:
            registers, action, packet = self.through(state.registers, job, number)
        except Exception as error:  # the program asks for something that no switch can do
            return state, Broken("outside", w, error)

        receivers: Sequence[int] = range(self.n)
        if action == DROP or w < 0:
            receivers = ()
        elif action == REPLY:
            receivers = (w,)
        down = state.down
        for to in receivers:
            down = put(down, to, (*down[to], packet))
        return state._replace(registers=registers, down=down), None

    def hangs(self, state: State) -> Trace | None:
        """Return what still arrives, and who waits for ever if no more goes wrong and timers fire when all is quiet."""
        sent_again = False
        arrived = list[Move]()  # until it was quiet for the first time
        moves = list[Move]()
        state = state._replace(faults=0)
        for _ in range(_MOST_IDLE_ROUNDS):
            while move := next(self.moves(state), None):
                state, broken = self.after(state, move)
                moves.append(move)
                if broken or len(moves) > _MOST_MOVES:  # another fault than waiting for ever
                    return None
            arrived = arrived or moves[:]
            if not self.waiting(state) or not any(state.timers):
                break

            before = state.up
            state = self._let_timers_run_out(state)
            sent_again = sent_again or state.up != before

        waiting = self.waiting(state)
        if not waiting:
            return None
        return Trace(arrived, Broken("hangs", waiting[0], None, sent_again))

    def _goes_on_too_long(self, state: State) -> bool:
        """Return whether a worker has had more events than any trace needs."""
        return any(len(self._histories[history]) > _MOST_EVENTS for history in state.workers)

    def _let_timers_run_out(self, state: State) -> State:
        """Return the state after all timers that are set have run out, without a fault to come."""
        for w in range(self.n):
            for _ in state.timers[w]:
                state, _ = self.after(state, ("timeout", w, 0))
        return state._replace(faults=0)

    def run(self, faults: int, hangs: bool = False, most: int = _MOST_STATES) -> Trace | None:
        """Return the fewest moves with so many faults that break it, and how; or None if there are none in ``most``."""
        first = self.start(faults)
        self.states = 1
        if hangs and (trace := self.hangs(first)):
            return trace

        came_from = dict[State, tuple[State, Move] | None]({first: None})
        queue = [first]
        prepared = 0
        for n, state in enumerate(queue):  # the queue grows during the loop
            if n >= prepared:
                self._prepare(queue[n:])
                prepared = len(queue)
            for move in self.moves(state, hangs):
                after, broken = self.after(state, move)
                if broken:
                    return Trace([*_moves_to(state, came_from), move], broken)
                if after in came_from:
                    continue
                if hangs and (rest := self.hangs(after)):
                    moves = [*_moves_to(state, came_from), move, *rest.moves]
                    return Trace(moves, rest.broken)
                came_from[after] = (state, move)
                if not self._goes_on_too_long(after):
                    queue.append(after)
            self.states = len(queue)
            memory = len(self._snapshots) * len(self._snapshots[0])  # [B]
            if self.states > most or memory > _MEMORY:
                return None
        return None


def _moves_to(state: State, came_from: dict[State, tuple[State, Move] | None]) -> list[Move]:
    """Return the moves from the start to a state that a search has reached."""
    moves = list[Move]()
    while step := came_from[state]:
        state, move = step
        moves.append(move)
    return moves[::-1]


class BrokenJob(NamedTuple):
    """A small job, and the fewest moves that break it."""

    search: TraceSearch
    moves: list[Move]
    broken: Broken


# Which small jobs are tried, one after another: workers, slots, chunks.
_SMALL = ((2, 1, 1), (2, 1, 2), (2, 1, 3), (2, 2, 3), (3, 1, 2))


def shortest(
    crew: Crew, *, faults: int = 3, stranger: bool = False, hangs: bool = False
) -> BrokenJob | None:
    """Return a small job, and the fewest moves that break it with the fewest faults; with as many, a wrong sum first.

    ``hangs`` says whether runs that never end are looked for, too.
    """
    searches = dict[tuple[int, int, int], TraceSearch]()
    states_left = _MOST_STATES
    for count in range(faults + 1):
        # Runs that never end have a limit for each number of faults, so that large jobs with few faults
        # take nothing from small ones.
        limits = [(False, states_left)]
        if hangs:
            limits.append((True, _MOST_HANGS))

        for waits, limit in limits:
            left = limit
            for small in _SMALL:
                if left <= 0:
                    break
                try:
                    if small not in searches:
                        searches[small] = TraceSearch(crew, *small, stranger=stranger)
                    search = searches[small]
                    found = search.run(count, waits, left)
                except (Unanswered, Misread, ValueError, TypeError, AttributeError):
                    return None  # the code has another fault, which is reported instead
                if found:
                    return BrokenJob(search, found.moves, found.broken)
                left -= search.states
            if not waits:
                states_left = left
    return None
