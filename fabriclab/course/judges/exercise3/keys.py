"""Exercise 3, the judges of single steps: keys and a connection (a), and an atomic operation (c)."""

from collections.abc import Mapping, Sequence
from typing import Any

from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.runs import Fault, RunsPart, verdict
from fabriclab.course.questions.files import message
from fabriclab.rdma import enums
from fabriclab.registry import register

from .device import CAS, FAA, READ, REM_ACCESS, RTS
from .server import seed, stops
from .training import SERVER, TrainingRun

_RIGHTS = {"write": 2, "read": 4, "atomic": 8}


class Lone(TrainingRun):
    """A run whose programs are not a parameter server: several nodes, each with something to do."""

    def __init__(
        self, seed: int, workers: int, about: Mapping[str, Any], more: Sequence[str] = ()
    ) -> None:
        super().__init__(seed, workers, 4)
        self.got, self.ahead = dict[Any, list[Any]](), (0,)
        for name, seat in self.seats.items():
            seat.about = {**about, "rank": name, "workers": workers}
            seat.more = ("tell", "hear", "load", "store", "event", *more)
        self.seats[SERVER].machine.domains.add(1)

    def go(
        self, ask: Ask, function: str, names: Sequence[Any], stopped: list[Unanswered]
    ) -> list[Fault]:
        """Play a function on some nodes, unless a problem has stopped it for all runs; return that problem."""
        if not stopped:
            self.play(ask, dict.fromkeys(names, function))
        stopped += [self.problem] if self.problem and stops(self.problem) else []
        return [("", sentence) for sentence in self.faults.values()] or [
            ("", error.said) for error in stopped[:1]
        ]

    def left(self) -> list[Fault]:
        """Return the fault if there are completions that nobody has polled."""
        self.drain()
        for name, seat in self.seats.items():
            if n := seat.machine.waiting(received=False) + self.unread.get(name, 0):
                return [("completions left", message(3, "fault.left", who=name, n=n))]
        return []

    def statuses(self) -> list[Fault]:
        """Return in words the first request that has failed."""
        out = list[Fault]()
        for pair, op, status in self.device.statuses[:1]:
            name, mine = "", pair.node.regions
            far = self.device.machines[pair.dest[0]].regions
            if status == REM_ACCESS and any(op.wr["rkey"] in (r.rkey, r.lkey) for r in mine):
                name = "own key for the peer's"
            elif status == REM_ACCESS and any(op.wr["rkey"] == r.lkey for r in far):
                name = "lkey for rkey"
            ended, asked = (
                enums.ibv_wc_status(status).name,
                enums.ibv_wr_opcode(op.wr["opcode"]).name,
            )
            out.append((name, message(3, "status", status=ended, opcode=asked)))
        return out


# ex3-a -----------------------------------------------------------------------------------------------------------


class Meeting(Lone):
    """A run of two nodes that do not know each other yet."""

    def __init__(self, rng: Rng, rights: Sequence[str]) -> None:
        length = 64 * int(rng.integers(4, 40))
        self.rights, self.length = rights, length
        super().__init__(seed(rng), 2, {"length": length, "rights": [*rights]})
        for machine in self.device.machines:
            for made in (machine.pairs, machine.queues, machine.domains):
                made.clear()
        self.words = {rank: int(rng.integers(2**40, 2**60)) for rank in range(2)}
        for rank in range(2):
            seat = self.seats[rank]
            seat.peers, seat.about = {}, {**seat.about, "peer": 1 - rank, "word": self.words[rank]}

    def regions(self) -> list[Fault]:
        """Return what is wrong with the rights of regions."""
        want = 1 * ("write" in self.rights or "atomic" in self.rights) + sum(
            _RIGHTS[right] for right in self.rights
        )
        for rank in range(2):
            open_to_peers = [
                r for r in self.seats[rank].machine.regions if r.access > 0 and r.access & 14
            ]
            if wide := [r for r in open_to_peers if r.access & 14 & ~want]:
                said = message(3, "rights.wide", access=f"{wide[0].access:#x}", want=f"{want:#x}")
                return [("everything allowed", said)]
            if not any(
                r.access & 15 in (want, want | 1) and r.length >= self.length for r in open_to_peers
            ):
                given = (
                    ", ".join(
                        f"{r.length} B {r.access:#x}" for r in self.seats[rank].machine.regions
                    )
                    or "-"
                )
                return [
                    (
                        "",
                        message(
                            3, "rights.none", want=f"{want:#x}", length=self.length, given=given
                        ),
                    )
                ]
        return []

    def connected(self) -> list[Fault]:
        """Return what is wrong with the queue pairs."""
        for rank in range(2):
            states = [pair.state for pair in self.seats[rank].machine.pairs.values()]
            if not any(
                pair.state == RTS and pair.peer for pair in self.seats[rank].machine.pairs.values()
            ):
                return self.statuses() or [
                    ("", message(3, "connected", rank=rank, states=states or "-"))
                ]
        return []

    def arrived(self) -> list[Fault]:
        """Return what is wrong with the words that both nodes had to write."""
        for rank in range(2):
            seat, word = self.seats[1 - rank], self.words[rank]
            starts = [r.at for r in seat.machine.regions if r.access & 2]
            if not any(seat.machine.load(at) == word for at in starts):
                return self.statuses() or [("", message(3, "word", rank=rank))]
        return self.left()


@register(
    "question",
    "ex3-a",
    example=lambda rng: Meeting(rng, ["write"]).seats[0].proxy().here(),
)
def meet(ask: Ask, rng: Rng) -> Verdict:
    """Judge registration, exchange of keys and connection, in three runs with different rights."""
    runs = [Meeting(rng, rights) for rights in (["write"], ["read", "write"], ["write", "atomic"])]
    faults: list[list[list[Fault]]] = [[], [], []]
    stopped = list[Unanswered]()
    for run in runs:
        stop = run.go(ask, "meet", [0, 1], stopped)
        # it explains what is missing
        first = stop if run.problem and not run.device.statuses else []
        for part, found in zip(
            faults, (run.regions(), run.connected(), run.arrived() or stop), strict=True
        ):
            part.append(found and (first or found))
    return verdict("ex3-a", [RunsPart(1 / 3, part) for part in faults], stopped)


# ex3-c -----------------------------------------------------------------------------------------------------------


class Tickets(Lone):
    """A run with a counter on the server, from which workers draw numbers."""

    def __init__(self, rng: Rng) -> None:
        self.first, self.each = int(rng.integers(10, 10**6)), int(rng.integers(4, 8))
        super().__init__(seed(rng), 3, {"tickets": self.each}, ("got",))
        server = self.seats[SERVER].machine
        _, at, _, rkey = server.register(1, 8, 15, None)
        server.store(at, self.first)
        self.at = at
        for name, seat in self.seats.items():
            seat.about = {**seat.about, "counter": {"addr": at, "rkey": rkey}}
            seat.got = lambda number, name=name: self.got.setdefault(name, []).append(number)  # type: ignore[assignment]

    def drawn(self) -> list[Fault]:
        """Return what is wrong with the numbers that workers drew."""
        numbers = [n for rank in range(3) for n in self.got.get(rank, [])]
        want = [*range(self.first, self.first + 3 * self.each)]
        if not all(isinstance(n, int) for n in numbers) or sorted(numbers) != want:
            posted = self.device.opcodes
            name = ""
            if len(numbers) == len(want) and not posted & {CAS, FAA} and posted & {READ}:
                name = "read and write for an atomic"
            elif sorted(n for n in numbers if isinstance(n, int)) == [n + 1 for n in want]:
                name = "new value for the old one"
            shown = f"{sorted(numbers, key=str)[:8]}"
            return [
                (
                    name,
                    message(3, "tickets", want=f"{want[0]} to {want[-1]}", n=len(want), got=shown),
                )
            ]
        if self.seats[SERVER].machine.load(self.at) != self.first + len(want):
            return [("", message(3, "counter", want=self.first + len(want)))]
        return []


@register(
    "question",
    "ex3-c",
    example=lambda rng: Tickets(rng).seats[0].proxy().here(),
)
def ticket(ask: Ask, rng: Rng) -> Verdict:
    """Judge a counter that several workers draw numbers from at the same time."""
    faults, stopped = list[list[Fault]](), list[Unanswered]()
    for _ in range(4):
        run = Tickets(rng)
        stop = run.go(ask, "ticket", range(3), stopped)
        faults.append((stop if run.problem else run.drawn()) or run.left() or stop)
    return verdict("ex3-c", [RunsPart(1.0, faults, sets=2)], stopped)
