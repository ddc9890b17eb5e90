"""Exercise 3: one run of a parameter server on the grader's device, and what went wrong in it.

Every word of the parameters tells which updates are in it: update k of worker w adds a bit of its own, in each word
another one. So whatever a learner's program does, what a worker reads and what is left at the end is the truth.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fabriclab.exercises import Ask, Unanswered
from fabriclab.texts import text

from .seats import Seat
from .verbs import Device, Machine

SERVER = "server"
_AHEAD = (
    0,
    0,
    4,
    16,
)  # turns that the device goes on between two programs, so that few of these wait in vain
_LATE, _SLOW = 0.35, {SERVER: 0.12}  # how often a slow worker or server has its turn
_IDLE, _MOST = (
    1500,
    15_000,
)  # turns without anything computed or added (all wait for each other), and in all
_HANDLE = re.compile(r"\w{1,60}/\d{1,9}")  # the name of a program that has begun


class Model:
    """The parameters, and the updates that workers compute."""

    def __init__(self, rng: random.Random, workers: int, steps: int, words: int) -> None:
        self.workers, self.steps, self.words = workers, steps, words
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
        """Return which updates are in each word, or None where what was added is no sum of updates."""
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


class Run:
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
        self.bound, self.dies, self.slow, self.loses = bound, dies, slow, loses
        self.model = Model(self.rng, workers, steps, self.rng.randrange(16, 29))
        self.faults, self.log, self.final = dict[str, str](), list[str](), b""
        self.areas = dict[int, list[tuple[int, int]]]()
        self.problem: Unanswered | None = None
        self.applied, self.deaths = dict[tuple[int, int], int](), dict[int, int]()
        self.seats: dict[Any, Seat] = {}
        self.unread = dict[
            Any, int
        ]()  # completions of messages that had arrived when a program ended
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
        """Run the programs, one turn of one of them after another, until all have ended or nothing happens any more."""
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
                self.busy += (
                    1 if self.device.now > before else 20
                )  # a turn without a verb leads nowhere
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
        self.faults.setdefault(name, text(f"ex3.fault.{name}", **words))

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
        """Note which update was added, or that it is none."""
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
        """Return all faults by name, those first that explain the others."""
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
