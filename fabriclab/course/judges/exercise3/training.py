"""Exercise 3: a run of a parameter server on the grader's device, the calls of its programs, and the faults found.

Every word of the parameters shows which updates it contains: update k of worker w adds a bit of its own, a different
one in each word. So whatever a learner's program does, the parameters that a worker reads, and those left at the end,
tell the truth.
"""

from __future__ import annotations

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

from .device import RESET, RTS, VERBS, Device, Machine, RequestRefused

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
            raise RequestRefused(
                message(
                    3,
                    "tell",
                    most=_LETTERS,
                    who=", ".join(map(repr, self.run.seats)),
                    got=brief(who, 40),
                )
            )
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
                pair.retired, pair.state = pair.posted, RTS
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
        end = gradient + 8 * run.model.words
        for pair in machine.pairs.values():
            for op in pair.todo:
                if (
                    op.inline is None
                    and not op.fetches
                    and any(at < end and gradient < at + n for at, n, _ in op.wr["sg"])
                ):
                    run.fault("reused", worker=rank, step=self.steps)
        run.read(self, machine.peek(parameters, 8 * run.model.words))
        machine.put(gradient, run.model.update(rank, self.steps))
        run.areas.setdefault(machine.number, []).append((gradient, end - gradient))
        self.steps += 1

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
        n = 8 * self.run.model.words
        self.machine.turn()
        self.machine.own(at, n)
        self.run.areas.setdefault(self.machine.number, []).append((at, n))
        self.run.note(self, why)


SERVER = "server"
# turns that the device goes on between two programs, so that few of these wait in vain
_AHEAD = (0, 0, 4, 16)
_LATE, _SLOW = 0.35, {SERVER: 0.12}  # how often a slow worker or server has its turn
# turns without anything computed or added (all wait for each other), and in all
_IDLE, _MOST = (1500, 15_000)
_HANDLE = re.compile(r"\w{1,60}/\d{1,9}")  # the name of a program that has begun


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

    def within(self, parameters: bytes) -> list[set[tuple[int, int]]] | None:
        """Return which updates are in each word, or None where something else than updates was added."""
        found = []
        for i, (start, bits) in enumerate(zip(self.start, self.bits, strict=True)):
            value = (int.from_bytes(parameters[8 * i : 8 * i + 8], "little") - start) % 2**64
            if value >> len(bits):
                return None
            found.append(
                {one for one, bit in zip(self.updates, bits, strict=True) if value >> bit & 1}
            )
        return found

    def named(self, gradient: bytes) -> set[tuple[int, int] | None]:
        """Return the updates whose words are in a gradient: one if it is whole; None stands for anything else."""
        found = set[tuple[int, int] | None]()
        for i, bits in enumerate(self.bits):
            value = int.from_bytes(gradient[8 * i : 8 * i + 8], "little")
            bit = value.bit_length() - 1
            found.add(
                self.updates[bits.index(bit)]
                if value == 1 << max(bit, 0) and bit < len(bits)
                else None
            )
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
        self.applied = dict[tuple[int, int], int]()
        self.deaths = dict[int, int]()  # rank -> turn
        self.seats: dict[Any, Seat] = {}
        # completions of messages that had arrived when a program ended
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
            for end in links[rank]:  # whoever of the two posts
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
                before = self.device.now
                names = [*going]
                weights = [_SLOW.get(name, _LATE) if name == self.slow else 1.0 for name in names]
                name = self.rng.choices(names, weights)[0]
                seat = self.seats[name]
                self.device.caller = seat.machine
                for _ in range(self.rng.choice(self.ahead)):
                    self.device.tick()
                try:
                    ended = ask(going[name])
                except Unanswered as error:
                    if not seat.machine.dead:
                        self._stop(error)
                        return
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
                # a turn without a verb leads nowhere
                self.busy += 1 if self.device.now > before else 20
        except Unanswered as error:
            self._stop(error)
            return
        if going:
            self.fault(
                "hangs", who=", ".join(map(str, going)), why=", ".join(map(str, self.deaths)) or "-"
            )

    def _stop(self, error: Unanswered) -> None:
        self.problem = error
        self.fault("stopped", said=error.said)

    def late(self, seat: Seat) -> bool:
        """Return whether the launcher has had time to see that a node is dead."""
        name = next(name for name, one in self.seats.items() if one is seat)
        return name in self.deaths and self.turns > self.deaths[name] + 40

    def note(self, seat: Seat, what: str) -> None:
        """Note what a program did."""
        self.busy = 0
        self.log.append(f"{self.device.now:6} {seat.about['rank']!s:>6} {what}")

    def fault(self, name: str, **words: Any) -> None:
        """Note the first fault of a kind."""
        self.faults.setdefault(name, message(3, f"fault.{name}", **words))

    def read(self, seat: Seat, parameters: bytes) -> None:
        """Judge what a worker has read before its next step."""
        found, step, rank = self.model.within(parameters), seat.steps, seat.about["rank"]
        if found is None:
            self.fault("corrupt", worker=rank, step=step)
            return
        dead = {name for name in self.seats if self.seats[name].machine.dead}
        for worker in range(self.model.workers):
            must = {(worker, k) for k in range(step - self.bound)} if worker not in dead else set()
            if missing := [one for word in found for one in must - word]:
                self.fault(
                    "stale",
                    worker=rank,
                    step=step,
                    bound=self.bound,
                    of=worker,
                    missing=min(missing)[1],
                )
            if any(k >= self.seats[worker].steps for word in found for w, k in word if w == worker):
                self.fault("corrupt", worker=rank, step=step)

    def added(self, gradient: bytes) -> None:
        """Note which update was added, or that it was no update."""
        parts = self.model.named(gradient)
        one = next(iter(parts))
        if len(parts) == 1 and one:
            self.applied[one] = self.applied.get(one, 0) + 1
        elif (
            None not in parts
            and not parts & self.applied.keys()
            and set(self.applied.values()) <= {1}
        ):  # all is new
            self.fault(
                "overrun", parts=", ".join(str(part[1]) for part in sorted(filter(None, parts)))
            )
        else:
            self.fault("torn")

    # Afterwards ------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Let the device finish what was posted."""
        for _ in range(1000):
            if any(
                pair.todo or pair.done
                for machine in self.device.machines
                for pair in machine.pairs.values()
            ):
                self.device.tick()

    def judge(self) -> dict[str, str]:
        """Return all faults by name, beginning with those that explain the others."""
        model, found = self.model, self.model.within(self.final) if self.final else None
        self.drain()
        live = [rank for rank in range(model.workers) if not self.seats[rank].machine.dead]
        if "stopped" not in self.faults:
            if (
                any(self.seats[rank].steps < model.steps for rank in live)
                and "hangs" not in self.faults
            ):
                self.fault("short", steps=model.steps)
            if not self.final and "hangs" not in self.faults:
                self.fault("nothing")
        if self.final:
            sums = [set.intersection(*found), set.union(*found)] if found else []
            missing = sorted(
                (w, k)
                for w in live
                for k in range(self.seats[w].steps)
                if found and (w, k) not in sums[0]
            )
            twice = [one for one, count in self.applied.items() if count > 1]
            if found is None or sums[0] != sums[1]:
                never = sorted(
                    (w, k)
                    for w in live
                    for k in range(self.seats[w].steps)
                    if (w, k) not in self.applied
                )
                if twice and never and not self.loses:
                    self.fault("overrun", parts=f"{never[0][1]}, {twice[0][1]}")
                elif twice:
                    self.fault("doubled", worker=twice[0][0], step=twice[0][1])
                elif not {"torn", "overrun"} & self.faults.keys():
                    self.fault("wrong")
            elif missing:
                self.fault("lost", worker=missing[0][0], step=missing[0][1], n=len(missing))
            else:
                for name in ("torn", "overrun"):
                    self.faults.pop(name, None)  # what a killed worker had begun, and nobody used
        for name, seat in self.seats.items():
            areas = self.areas.get(seat.machine.number, [])
            if any(
                at < end + n and end < at + m for at, m in seat.machine.touched for end, n in areas
            ):
                self.fault("copied", who=name)
            left = seat.machine.waiting(received=False) + self.unread.get(name, 0)
            if left and not seat.machine.dead and not {"stopped", "hangs"} & {*self.faults}:
                self.fault("left", who=name, n=left)
        order = (
            "stopped",
            "copied",
            "reused",
            "torn",
            "overrun",
            "doubled",
            "lost",
            "wrong",
            "corrupt",
            "stale",
            "hangs",
        )
        return dict(
            sorted(
                self.faults.items(),
                key=lambda fault: order.index(fault[0]) if fault[0] in order else 99,
            )
        )
