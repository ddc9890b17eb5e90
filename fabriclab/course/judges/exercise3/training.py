"""Exercise 3: a run of a parameter server on the grader's device, the calls of its programs, and the faults found.

Every word of the parameters shows which updates it contains: update k of worker w adds a bit of its own, a different
one in each word. So whatever a learner's program does, the parameters that a worker reads, and those left at the end,
tell the truth.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fabriclab.course.judges import Ask, Proxy, Unanswered
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.course.questions.files import message
from fabriclab.rdma import enums as e

from .device import READ, RESET, RTS, VERBS, WRITE, WRITE_IMM, Device, Machine, RequestRefused

CLIENT = Path(__file__).with_name("data").joinpath("client.py").read_text(encoding="utf-8")
ENUMS = {name: int(member) for name, member in vars(e).items() if name.startswith("IBV_")}
_LETTERS = 64  # that a node may send outside the verbs
_APP = ("tell", "hear", "gone", "load", "store", "event", "reconnect")


class Seat:
    """Everything that a program may call: the verbs, and the training around it."""

    def __init__(
        self,
        run: TrainingRun,
        machine: Machine,
        peers: Mapping[Any, int],
        about: Mapping[str, Any],
        more: Sequence[str],
    ) -> None:
        self.run = run
        self.machine = machine
        self.peers = peers  # node -> number of the queue pair to it
        self.about = about
        self.more = (*_APP, *more)  # methods beside the verbs
        self.letters = list[list[Any]]()  # sender and content, not yet heard
        self.sent = 0  # letters
        self.steps = 0  # of training
        self.got = list[Any]()

    def __getattr__(self, name: str) -> Any:
        """Return a verb of the machine."""
        return getattr(self.machine, name)

    def proxy(self) -> Proxy:
        """Return what the learner's code may use."""
        ready = {"pd": 1, "cq": 1, "qps": dict(self.peers)} if self.peers else None
        values = {
            "enums": ENUMS,
            "about": dict(self.about),
            "ready": ready,
            "more": list(self.more),
        }
        return Proxy(self, (*VERBS, *self.more), values, CLIENT)

    # Around the verbs ------------------------------------------------------------------------------------------------

    def tell(self, who: Any, thing: Any) -> None:
        """Send something plain to another node, over the launcher's slow network."""
        self.machine.turn()
        self.sent += 1
        if self.sent > _LETTERS or who not in self.run.seats or len(json.dumps(thing)) > 4096:
            known = ", ".join(map(repr, self.run.seats))
            raise RequestRefused(message(3, "tell", most=_LETTERS, who=known, got=brief(who, 40)))
        me = next(name for name, seat in self.run.seats.items() if seat is self)
        self.run.seats[who].letters.append([me, thing])

    def hear(self) -> Any:
        """Return the sender and the content of the next message over the launcher's network, or None."""
        self.machine.turn()
        return self.letters.pop(0) if self.letters and self.run.rng.random() < 0.5 else None

    def gone(self) -> list[Any]:
        """Return which nodes the launcher has seen die."""
        self.machine.turn()
        return [
            name
            for name, seat in self.run.seats.items()
            if seat.machine.dead and self.run.late(seat)
        ]

    def load(self, at: int) -> int:
        """Return a word of registered memory."""
        self._words(at, 8)
        return self.machine.load(at)

    def store(self, at: int, value: int) -> None:
        """Change a word of registered memory."""
        self._words(at, 8)
        self.machine.store(at, value)

    def event(self) -> bool:
        """Return whether an armed completion queue has had a completion; each such event is reported once."""
        self.machine.turn()
        had_event = bool(self.machine.events)
        self.machine.events = 0
        return had_event

    def reconnect(self, peer: Any) -> None:
        """Bring a queue pair from the error state back to RTS, at both ends."""
        self.machine.turn()
        mine = self.machine.pairs[self.peers[peer]]
        for pair in (mine, mine.node.device.machines[mine.dest[0]].pairs[mine.dest[1]]):
            if pair.state not in (RTS, RESET):
                pair.retired = pair.posted
                pair.state = RTS
                self.run.note(self, "reconnected")

    def _words(self, at: int, n: int) -> None:
        self.machine.turn()
        self.machine.own(at, n)
        if at % 8:
            raise RequestRefused(message(3, "aligned", at=f"{at:#x}"))
        self.machine.touched.append((at, n))

    # Training --------------------------------------------------------------------------------------------------------

    def start(self, at: int) -> None:
        """Put the initial parameters at an address."""
        self._area(at, "start")
        self.machine.put(at, self.run.model.initial())

    def compute(self, parameters: int, gradient: int) -> None:
        """Do a step of training: read the parameters at one address, and put the gradient at another."""
        self._area(parameters, "compute")
        run = self.run
        rank = self.about["rank"]
        machine = self.machine
        machine.own(gradient, 8 * run.model.words)
        if self.steps >= run.model.steps:
            raise RequestRefused(message(3, "enough", steps=run.model.steps))
        size = 8 * run.model.words  # [B]
        if self._is_still_sent(gradient, size):
            run.fault("reused", worker=rank, step=self.steps)
        run.read(self, machine.peek(parameters, size))
        machine.put(gradient, run.model.update(rank, self.steps))
        run.areas.setdefault(machine.number, []).append((gradient, size))
        self.steps += 1

    def _is_still_sent(self, address: int, size: int) -> bool:
        """Return whether a request that has been posted may still read some of these bytes."""
        for pair in self.machine.pairs.values():
            for op in pair.todo:
                if op.inline is not None or op.fetches:
                    continue
                if any(_overlap(at, n, address, size) for at, n, _ in op.wr["sg"]):
                    return True
        return False

    def add(self, to: int, source: int) -> None:
        """Add the gradient at one address to the parameters at another one."""
        self._area(to, "add")
        n = self.run.model.words
        self.machine.own(source, 8 * n)
        self.run.added(self.machine.peek(source, 8 * n))
        for at in range(0, 8 * n, 8):
            self.machine.store(to + at, self.machine.load(to + at) + self.machine.load(source + at))

    def result(self, at: int) -> None:
        """Hand over the final parameters."""
        self._area(at, "result")
        self.run.final = self.run.final or self.machine.peek(at, 8 * self.run.model.words)

    def _area(self, at: int, why: str) -> None:
        """Check that parameters at an address are registered memory, and note what they are for."""
        n = 8 * self.run.model.words
        self.machine.turn()
        self.machine.own(at, n)
        self.run.areas.setdefault(self.machine.number, []).append((at, n))
        self.run.note(self, why)


def _overlap(at: int, size: int, other: int, other_size: int) -> bool:
    """Return whether two areas of memory have a byte in common."""
    return at < other + other_size and other < at + size


SERVER = "server"
# Ticks of the device between the turns of two programs, so that few programs wait in vain.
_AHEAD = (0, 0, 4, 16)
# Weight of a slow worker or server when the next turn is drawn; that of the others is 1.
_LATE = 0.35
_SLOW = {SERVER: 0.12}
_IDLE = 1500  # turns without anything computed or added: all wait for each other
_MOST = 15_000  # turns in all
_NO_VERB = 20  # what a turn without a verb, which leads nowhere, counts for among idle turns
_NOTICED = 40  # turns until the launcher has seen that a node is dead
_HANDLE = re.compile(r"\w{1,60}/\d{1,9}")  # the name of a program that has begun
_DEEPEST = 3  # functions within each other whose lines are told
_SEVERAL = 3  # steps, or gradients added, from which on what is always missing was never sent


Update = tuple[int, int]  # a worker, and its step


class Model:
    """The parameters, and the updates that workers compute."""

    def __init__(self, rng: random.Random, workers: int, steps: int, words: int) -> None:
        self.workers = workers
        self.steps = steps
        self.words = words
        self.start = [rng.randrange(2**64) for _ in range(words)]
        self.bits = [rng.sample(range(workers * steps), workers * steps) for _ in range(words)]
        self.updates = [(w, k) for w in range(workers) for k in range(steps)]

    def update(self, worker: int, step: int) -> bytes:
        """Return the gradient of a worker's step."""
        return b"".join(
            (1 << bits[worker * self.steps + step]).to_bytes(8, "little") for bits in self.bits
        )

    def initial(self) -> bytes:
        """Return the first parameters."""
        return b"".join(word.to_bytes(8, "little") for word in self.start)

    def within(self, parameters: bytes) -> list[set[Update]] | None:
        """Return which updates are in each word, or None where what was added is no sum of updates."""
        found = []
        for i, (start, bits) in enumerate(zip(self.start, self.bits, strict=True)):
            value = (int.from_bytes(parameters[8 * i : 8 * i + 8], "little") - start) % 2**64
            if value >> len(bits):
                return None
            updates = zip(self.updates, bits, strict=True)
            found.append({update for update, bit in updates if value >> bit & 1})
        return found

    def named(self, gradient: bytes) -> set[Update | None]:
        """Return the updates whose words are in a gradient: one if it is whole; None stands for anything else."""
        found = set[Update | None]()
        for i, bits in enumerate(self.bits):
            value = int.from_bytes(gradient[8 * i : 8 * i + 8], "little")
            bit = value.bit_length() - 1
            has_one_bit = value > 0 and value == 1 << bit
            if has_one_bit and bit < len(bits):
                found.add(self.updates[bits.index(bit)])
            else:
                found.add(None)
        return found


class TrainingRun:
    """A group of programs on one device: workers by their rank, and the server."""

    def __init__(
        self,
        seed: int,
        workers: int,
        steps: int,
        bound: int = 0,
        *,
        dies: int = -1,
        dies_at: int = 0,
        pushes: int = 0,
        loses: Sequence[tuple[int, int, bool]] = (),
        slow: Any = None,
    ) -> None:
        self.rng = random.Random(seed + 2)
        self.device = Device(seed, self.rng.choice([0.25, 0.5, 0.9]))
        self.bound = bound
        self.dies = dies
        self.slow = slow
        self.loses = loses
        self.model = Model(self.rng, workers, steps, self.rng.randrange(16, 29))
        self.faults = dict[str, str]()  # name -> sentence, the first one first
        self.log = list[str]()
        self.final = b""  # parameters
        self.areas = dict[int, list[tuple[int, int]]]()
        self.problem: Unanswered | None = None
        self.applied = dict[Update, int]()
        self.additions = 0  # of anything to the parameters
        self.always_empty = set(
            range(self.model.words)
        )  # words without a bit in all that was added
        self.deaths = dict[int, int]()  # rank -> turn
        self.seats: dict[Any, Seat] = {}
        # Completions of messages that had arrived, and were not polled, when a program ended.
        self.unread = dict[Any, int]()
        self.turns = self.busy = 0
        self.ahead: Sequence[int] = _AHEAD
        for _ in range(workers + 1):
            self.device.machines.append(Machine(self.device, len(self.device.machines)))
        links = {
            rank: self.device.connect(self.device.machines[0], self.device.machines[rank + 1])
            for rank in range(workers)
        }
        about = {"workers": workers, "steps": steps, "bound": bound, "length": 8 * self.model.words}
        peers = {rank: mine.number for rank, (mine, _) in links.items()}
        self.seats[SERVER] = Seat(
            self,
            self.device.machines[0],
            peers,
            {**about, "rank": SERVER},
            ("start", "add", "result"),
        )
        for rank, (_, mine) in links.items():
            self.seats[rank] = Seat(
                self, mine.node, {SERVER: mine.number}, {**about, "rank": rank}, ("compute", "add")
            )
        for rank, which, done in loses:
            for end in links[rank]:  # either end may be the one that posts
                end.losses[which] = done
        if dies >= 0:
            links[dies][1].node.dies_at = dies_at
            links[dies][1].node.dies_after = [
                pushes,
                8 * self.model.words,
                1 + self.rng.randrange(3),
            ]

    # What programs do ------------------------------------------------------------------------------------------------

    def play(self, ask: Ask, programs: Mapping[Any, str]) -> None:
        """Run the programs in turns until all have ended or nothing happens any more."""
        going = dict[Any, str]()
        try:
            for name, function in programs.items():
                self.device.caller = self.seats[name].machine
                begun = ask(function, self.seats[name].proxy())
                if isinstance(begun, str) and _HANDLE.fullmatch(begun):
                    going[name] = begun
            while going and self.busy < _IDLE and self.turns < _MOST:
                self._take_turn(ask, going)
        except Unanswered as error:
            self._stop(error)
            return
        if going:
            dead = ", ".join(map(str, self.deaths)) or "-"
            stand = [_where(ask, name, handle) for name, handle in going.items()]
            self.fault("hangs", who=", ".join(stand), why=dead)

    def _take_turn(self, ask: Ask, going: dict[Any, str]) -> None:
        """Let one program go on to its next yield; those that have ended, or been killed, leave ``going``."""
        before = self.device.now
        name = self._drawn(going)
        seat = self.seats[name]
        self.device.caller = seat.machine
        for _ in range(self.rng.choice(self.ahead)):
            self.device.tick()

        try:
            ended = ask(going[name])
        except Unanswered:
            if not seat.machine.dead:
                raise
            ended = True
        if seat.machine.dead and name not in self.deaths:
            self.deaths[name] = self.turns
            self.note(seat, "killed")
            ended = True
        if ended:
            self.unread[name] = seat.machine.waiting(received=True)
            del going[name]
            self.note(seat, "ended")

        self.turns += 1
        self.busy += 1 if self.device.now > before else _NO_VERB

    def _drawn(self, going: Mapping[Any, str]) -> Any:
        """Draw the program that has the next turn; a slow one has fewer."""
        names = [*going]
        weights = [1.0] * len(names)
        if self.slow in going:
            weights[names.index(self.slow)] = _SLOW.get(self.slow, _LATE)
        return self.rng.choices(names, weights)[0]

    def _stop(self, error: Unanswered) -> None:
        self.problem = error
        self.fault("stopped", said=error.said)

    def late(self, seat: Seat) -> bool:
        """Return whether the launcher has had time to see that a node is dead."""
        name = next(name for name, other in self.seats.items() if other is seat)
        return name in self.deaths and self.turns > self.deaths[name] + _NOTICED

    def note(self, seat: Seat, what: str) -> None:
        """Note what a program did."""
        self.busy = 0
        self.log.append(f"{self.device.now:6} {seat.about['rank']!s:>6} {what}")

    def fault(self, name: str, **words: Any) -> None:
        """Note the first fault of a kind."""
        self.faults.setdefault(name, message(3, f"fault.{name}", **words))

    def read(self, seat: Seat, parameters: bytes) -> None:
        """Judge what a worker has read before its next step."""
        found = self.model.within(parameters)
        step = seat.steps
        rank = seat.about["rank"]
        if found is None:
            self.fault("corrupt", worker=rank, step=step)
            return

        in_all = set.intersection(*found)  # words
        in_any = set.union(*found)
        for worker in range(self.model.workers):
            dead = self.seats[worker].machine.dead
            oldest = None if dead else self._oldest_missing(in_all, worker, step)
            if oldest is not None:
                self.fault(
                    "stale", worker=rank, step=step, bound=self.bound, of=worker, missing=oldest
                )
            if any(w == worker and k >= self.seats[worker].steps for w, k in in_any):
                self.fault("corrupt", worker=rank, step=step)

    def _oldest_missing(self, read: set[Update], worker: int, step: int) -> int | None:
        """Return the first update of a worker that must have been read before a step, and was not; or None."""
        for k in range(step - self.bound):
            if (worker, k) not in read:
                return k
        return None

    def added(self, gradient: bytes) -> None:
        """Note which update was added, or that it was no update."""
        self.additions += 1
        self.always_empty &= _empty_words(gradient)
        parts = self.model.named(gradient)
        updates = sorted(part for part in parts if part is not None)
        if len(updates) < len(parts):
            self.fault("torn")
        elif len(updates) == 1:
            update = updates[0]
            self.applied[update] = self.applied.get(update, 0) + 1
        elif self.applied.keys().isdisjoint(updates) and set(self.applied.values()) <= {1}:
            self.fault("overrun", parts=", ".join(str(k) for _, k in updates))  # all is new
        else:
            self.fault("torn")

    # Afterwards ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Let the device finish what was posted."""
        for _ in range(1000):
            if self._is_busy():
                self.device.tick()

    def _is_busy(self) -> bool:
        """Return whether a queue pair still has something to do."""
        for machine in self.device.machines:
            if any(pair.todo or pair.done for pair in machine.pairs.values()):
                return True
        return False

    def judge(self) -> dict[str, str]:
        """Return all faults by name, those first that explain the others."""
        self.drain()
        self._judge_ends()
        if self.final:
            self._judge_sum()
        self._judge_requests()
        for name, seat in self.seats.items():
            self._judge_habits(name, seat)
        return dict(sorted(self.faults.items(), key=_place_of_fault))

    def _live(self) -> list[int]:
        """Return the workers that have not been killed."""
        return [rank for rank in range(self.model.workers) if not self.seats[rank].machine.dead]

    def _judge_ends(self) -> None:
        """Note a worker that has trained too little, and parameters that nobody has handed over."""
        if {"stopped", "hangs"} & self.faults.keys():
            return
        if any(self.seats[rank].steps < self.model.steps for rank in self._live()):
            self.fault("short", steps=self.model.steps)
        if not self.final:
            self.fault("nothing")

    def _judge_sum(self) -> None:
        """Note what is wrong with the final parameters."""
        found = self.model.within(self.final)
        computed = [(w, k) for w in self._live() for k in range(self.seats[w].steps)]
        if found is None or any(word != found[0] for word in found):
            self._judge_unequal_words(computed)
            return
        missing = [update for update in computed if update not in found[0]]
        if missing:
            worker, step = missing[0]
            self.fault("lost", worker=worker, step=step, n=len(missing))
            return
        for name in ("torn", "overrun"):
            self.faults.pop(name, None)  # what a killed worker had begun, and nobody used

    def _judge_unequal_words(self, computed: Sequence[Update]) -> None:
        """Note why the words of the final parameters are not the same sum of updates."""
        twice = [update for update, count in self.applied.items() if count > 1]
        never = [update for update in computed if update not in self.applied]
        if twice and never and not self.loses:
            self.fault("overrun", parts=f"{never[0][1]}, {twice[0][1]}")
        elif twice:
            worker, step = twice[0]
            self.fault("doubled", worker=worker, step=step)
        elif not {"torn", "overrun"} & self.faults.keys():
            self.fault("wrong")

    def _judge_requests(self) -> None:
        """Note what the requests explain: a part that was never sent, one pull for all steps, a slot that is shared."""
        missing = len(self.always_empty)
        enough = self.additions >= _SEVERAL
        if "torn" in self.faults and enough and 0 < missing < self.model.words:
            del self.faults["torn"]
            self.fault("part", n=8 * missing, length=8 * self.model.words)
        if "stale" in self.faults:
            for rank in self._live():
                steps = self.seats[rank].steps
                pulls = self._pulled(rank) / (8 * self.model.words)
                if steps >= _SEVERAL and 1 <= pulls < 2:
                    self.fault("once", worker=rank, steps=steps)
        if {"part", "torn", "overrun", "doubled", "lost", "wrong"} & self.faults.keys():
            both = self._shared_slot()
            if both:
                self.fault("slot", one=both[0], other=both[1])

    def _pulled(self, rank: int) -> int:
        """Return the bytes that requests brought to a worker, without those for a word of each worker or less."""
        mine = self.seats[rank].machine
        least = 8 * self.model.workers
        fetched = [n for _, kind, _, n in mine.requests if kind == READ and n > least]
        brought = []
        for to, kind, _, n in self.seats[SERVER].machine.requests:
            if to == mine.number and kind < READ and n > least:
                brought.append(n)
        return sum(fetched) + sum(brought)

    def _shared_slot(self) -> tuple[int, int] | None:
        """Return two workers that write more than a word to the same place, or None."""
        written = list[tuple[int, int, int]]()  # worker, address and length
        for rank in range(self.model.workers):
            for _, kind, at, n in self.seats[rank].machine.requests:
                if kind in (WRITE, WRITE_IMM) and n > 8:
                    written.append((rank, at, n))
        places = sorted(set(written), key=lambda place: place[1])
        for (one, at, n), (other, next_at, next_n) in itertools.pairwise(places):
            if one != other and _overlap(at, n, next_at, next_n):
                return min(one, other), max(one, other)
        return None

    def _judge_habits(self, name: Any, seat: Seat) -> None:
        """Note a program that has copied parameters or gradients itself, or has left completions."""
        areas = self.areas.get(seat.machine.number, [])
        if any(
            _overlap(at, n, area, size) for at, n in seat.machine.touched for area, size in areas
        ):
            self.fault("copied", who=name)
        left = seat.machine.waiting(received=False) + self.unread.get(name, 0)
        if left and not seat.machine.dead and not {"stopped", "hangs"} & self.faults.keys():
            self.fault("left", who=name, n=left)


# Faults that explain others come first, and those that are not here last.
_ORDER = (
    "stopped",
    "slot",
    "copied",
    "reused",
    "part",
    "torn",
    "overrun",
    "doubled",
    "lost",
    "wrong",
    "corrupt",
    "once",
    "stale",
    "hangs",
)


def _where(ask: Ask, name: Any, handle: str) -> str:
    """Return a node with the lines at which its program waits, as far as they can be told."""
    try:
        told = ask(f"{handle}?")
    except Unanswered:
        told = []
    lines = []
    for place in told[:_DEEPEST] if isinstance(told, list) else []:
        if _is_place(place):
            function, line = place
            lines.append(message(3, "line", line=line, function=function))
    return message(3, "stands", who=name, lines=", ".join(lines)) if lines else str(name)


def _is_place(told: Any) -> bool:
    """Return whether a learner's process has told the name of a function and a line."""
    if not isinstance(told, list) or len(told) != 2:
        return False
    function, line = told
    return isinstance(function, str) and function.isidentifier() and isinstance(line, int)


def _empty_words(gradient: bytes) -> set[int]:
    """Return the places of the words of a gradient that are 0."""
    words = range(len(gradient) // 8)
    return {i for i in words if not any(gradient[8 * i : 8 * i + 8])}


def _place_of_fault(fault: tuple[str, str]) -> int:
    """Return the place of a fault, given as name and sentence, among all that a run has."""
    name, _ = fault
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
