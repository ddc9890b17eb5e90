"""Exercise 3: what one program of a run may ask for, besides the verbs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabriclab.exercises import Proxy
from fabriclab.rdma import enums as e
from fabriclab.texts import text

from .pairs import RESET, RTS
from .verbs import VERBS, Machine, Refused

if TYPE_CHECKING:
    from .training import Run

CLIENT = Path(__file__).with_name("data").joinpath("client.py").read_text(encoding="utf-8")
ENUMS = {name: int(member) for name, member in vars(e).items() if name.startswith("IBV_")}
_LETTERS = 64  # that a node may send outside the verbs
_APP = ("tell", "hear", "gone", "load", "store", "event", "reconnect")


class Seat:
    """What one program may ask for: the verbs, and what the training around it does."""

    def __init__(
        self,
        run: Run,
        machine: Machine,
        peers: Mapping[Any, int],
        about: Mapping[str, Any],
        more: Sequence[str],
    ) -> None:
        self.run, self.machine, self.letters, self.sent, self.peers = (
            run,
            machine,
            list[list[Any]](),
            0,
            peers,
        )
        self.about, self.more, self.steps, self.got = about, (*_APP, *more), 0, list[Any]()

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
            raise Refused(
                text(
                    "ex3.tell",
                    most=_LETTERS,
                    who=", ".join(map(repr, self.run.seats)),
                    got=f"{who!r:.40}",
                )
            )
        me = next(name for name, seat in self.run.seats.items() if seat is self)
        self.run.seats[who].letters.append([me, thing])

    def hear(self) -> Any:
        """Return the sender and the content of the next letter, or None."""
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
        """Say whether an armed completion queue has had a completion; such an event is reported once."""
        self.machine.turn()
        self.machine.events, had = 0, bool(self.machine.events)
        return had

    def reconnect(self, peer: Any) -> None:
        """Bring a queue pair that is in the state of error back to RTS, at both ends."""
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
            raise Refused(text("ex3.aligned", at=f"{at:#x}"))
        self.machine.touched.append((at, n))

    # Training --------------------------------------------------------------------------------------------------------

    def start(self, at: int) -> None:
        """Put the first parameters at an address."""
        self._area(at, "start")
        self.machine.put(at, self.run.model.initial())

    def compute(self, parameters: int, gradient: int) -> None:
        """Do a step of training: read the parameters, and put the gradient there."""
        self._area(parameters, "compute")
        run, rank, machine = self.run, self.about["rank"], self.machine
        machine.own(gradient, 8 * run.model.words)
        if self.steps >= run.model.steps:
            raise Refused(text("ex3.enough", steps=run.model.steps))
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
