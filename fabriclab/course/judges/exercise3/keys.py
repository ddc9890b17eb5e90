"""Exercise 3, the judges of single steps: keys and a connection (a), and an atomic operation (c)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.runs import Fault, RunsPart, verdict
from fabriclab.course.questions.files import message
from fabriclab.rdma import enums
from fabriclab.registry import register

from .device import CAS, FAA, INIT, READ, REM_ACCESS, RTR, RTS, Pair, Region
from .server import seed, stops
from .training import SERVER, TrainingRun

_RIGHTS = {"write": 2, "read": 4, "atomic": 8}  # access flags
_LOCAL_WRITE = 1
_BY_PEERS = 14  # all flags of what peers may do
_ALL_FLAGS = 15


class Lone(TrainingRun):
    """A run whose programs are not a parameter server: several nodes, each with something to do."""

    def __init__(
        self, seed: int, workers: int, about: Mapping[str, Any], more: Sequence[str] = ()
    ) -> None:
        super().__init__(seed, workers, 4)
        self.got = dict[Any, list[Any]]()
        self.ahead = (0,)
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
        if self.problem and stops(self.problem):
            stopped.append(self.problem)
        if self.faults:
            return [("", sentence) for sentence in self.faults.values()]
        return [("", stopped[0].said)] if stopped else []

    def with_hang(self, found: list[Fault]) -> list[Fault]:
        """Return faults; if programs have not ended, the first one says where they stand."""
        if not found or "hangs" not in self.faults:
            return found
        (name, said), *others = found
        hang = self.faults["hangs"]
        if hang not in said:
            said = f"{said} {hang}"
        return [(name or "never ends", said), *others]

    def left(self) -> list[Fault]:
        """Return the fault if there are completions that nobody has polled."""
        self.drain()
        for name, seat in self.seats.items():
            if n := seat.machine.waiting(received=False) + self.unread.get(name, 0):
                return [("completions left", message(3, "fault.left", who=name, n=n))]
        return []

    def statuses(self) -> list[Fault]:
        """Return the first request that has failed, in words."""
        if not self.device.statuses:
            return []
        pair, op, status = self.device.statuses[0]
        ended = enums.ibv_wc_status(status).name
        asked = enums.ibv_wr_opcode(op.wr["opcode"]).name
        sentence = message(3, "status", status=ended, opcode=asked)
        if status != REM_ACCESS:
            return [("", sentence)]

        rkey = op.wr["rkey"]
        near = pair.node.regions
        there = self.device.machines[pair.dest[0]]
        far = there.regions
        at_end = there.pairs.get(pair.dest[1])
        mistake = ""
        if any(op.wr.get("remote_addr") == region.rkey for region in far):
            mistake = "key and address swapped"
        elif any(rkey in (region.rkey, region.lkey) for region in near):
            mistake = "own key for the peer's"
        elif any(rkey == region.lkey for region in far):
            mistake = "lkey for rkey"
        elif at_end and not at_end.access & _BY_PEERS:
            mistake = "pair lets nobody in"
        return [(mistake, sentence)]


# ex3-a -----------------------------------------------------------------------------------------------------------


class Meeting(Lone):
    """A run of two nodes that do not know each other yet."""

    def __init__(self, rng: Rng, rights: Sequence[str]) -> None:
        length = 64 * int(rng.integers(4, 40))
        self.rights = rights
        self.length = length
        super().__init__(seed(rng), 2, {"length": length, "rights": [*rights]})
        for machine in self.device.machines:
            machine.pairs.clear()
            machine.queues.clear()
            machine.domains.clear()
        self.words = {rank: int(rng.integers(2**40, 2**60)) for rank in range(2)}
        for rank in range(2):
            seat = self.seats[rank]
            seat.peers = {}
            seat.about = {**seat.about, "peer": 1 - rank, "word": self.words[rank]}

    def regions(self) -> list[Fault]:
        """Return what is wrong with the rights of regions."""
        want = sum(_RIGHTS[right] for right in self.rights)
        if "write" in self.rights or "atomic" in self.rights:
            want += _LOCAL_WRITE  # a region that peers write to must be writable here, too
        for rank in range(2):
            regions = self.seats[rank].machine.regions
            open_to_peers = [r for r in regions if r.access > 0 and r.access & _BY_PEERS]
            wide = [r for r in open_to_peers if r.access & _BY_PEERS & ~want]
            if wide:
                said = message(3, "rights.wide", access=f"{wide[0].access:#x}", want=f"{want:#x}")
                return [("everything allowed", said)]
            if not any(self._fits(region, want) for region in open_to_peers):
                given = ", ".join(f"{r.length} B {r.access:#x}" for r in regions) or "-"
                said = message(3, "rights.none", want=f"{want:#x}", length=self.length, given=given)
                return [("" if open_to_peers or not regions else "nothing allowed", said)]
        return []

    def _fits(self, region: Region, want: int) -> bool:
        """Return whether a region is long enough and has the rights that are asked for; its owner may write to it."""
        access = region.access & _ALL_FLAGS
        return access in (want, want | _LOCAL_WRITE) and region.length >= self.length

    def connected(self) -> list[Fault]:
        """Return what is wrong with the queue pairs."""
        every_pair = [pair for rank in range(2) for pair in self.seats[rank].machine.pairs.values()]
        mistakes = list(filter(None, map(self._mistake_of_pair, every_pair)))
        for rank in range(2):
            pairs = self.seats[rank].machine.pairs.values()
            if not any(pair.state == RTS and pair.peer for pair in pairs):
                states = [pair.state for pair in pairs] or "-"
                said = message(3, "connected", rank=rank, states=states)
                if mistakes:
                    return [(mistakes[0], said)]
                return self.statuses() or [("", said)]
        return []

    def _mistake_of_pair(self, pair: Pair) -> str:
        """Return why a queue pair is not connected, or nothing."""
        if pair.used_early or (pair.state in (INIT, RTR) and not self.problem):
            return "not brought to RTS"
        machine, number = pair.dest
        there = self.device.machines[machine]
        if there is not pair.node and number == pair.number and number not in there.pairs:
            return "own number for the peer's"
        return ""

    def arrived(self) -> list[Fault]:
        """Return what is wrong with the words that both nodes had to write."""
        for rank in range(2):
            peer = self.seats[1 - rank].machine
            starts = [region.at for region in peer.regions if region.access & _RIGHTS["write"]]
            if not any(peer.load(at) == self.words[rank] for at in starts):
                mistake = self._mistake(rank, [peer.load(at) for at in starts])
                return self.statuses() or [(mistake, message(3, "word", rank=rank))]
        return self.left()

    def _mistake(self, rank: int, found: list[int]) -> str:
        """Return why the word of a node is not in the region of its peer, from the first words there, or nothing."""
        word = self.words[rank]
        if any(there and there == word % 2**32 for there in found):
            return "part of a word"
        own = self.seats[rank].machine
        if any(r.access & _BY_PEERS and own.load(r.at) == word for r in own.regions):
            return "own region for the peer's"
        return ""


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
        # A program that stopped, with no failed request, explains what is missing afterwards.
        first = stop if run.problem and not run.device.statuses else []
        steps = (run.regions(), run.connected(), run.arrived() or stop)
        for part, found in zip(faults, steps, strict=True):
            if found and first:
                found = [(found[0][0], first[0][1])]
            part.append(run.with_hang(found))
    return verdict("ex3-a", [RunsPart(1 / 3, part) for part in faults], stopped)


# ex3-c -----------------------------------------------------------------------------------------------------------


class Tickets(Lone):
    """A run with a counter on the server, from which workers draw numbers."""

    def __init__(self, rng: Rng) -> None:
        self.first = int(rng.integers(10, 10**6))
        self.each = int(rng.integers(4, 8))  # tickets that each worker draws
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
            shown = f"{sorted(numbers, key=str)[:8]}"
            asked = f"{want[0]} to {want[-1]}"
            sentence = message(3, "tickets", want=asked, n=len(want), got=shown)
            return [(self._mistake(numbers, want), sentence)]
        if self.seats[SERVER].machine.load(self.at) != self.first + len(want):
            return [("", message(3, "counter", want=self.first + len(want)))]
        return []

    def _mistake(self, numbers: list[Any], want: list[int]) -> str:
        """Return the mistake that gives these numbers, or nothing."""
        posted = self.device.opcodes
        if len(numbers) == len(want) and READ in posted and not posted & {CAS, FAA}:
            return "read and write for an atomic"
        if sorted(n for n in numbers if isinstance(n, int)) == [n + 1 for n in want]:
            return "new value for the old one"
        if not posted & {CAS, FAA}:
            return "counter not used"
        drawn = sorted({n for n in numbers if isinstance(n, int)})
        steps = {after - before for before, after in pairwise(drawn)}
        if drawn == want[: len(drawn)]:
            # All that stands there was drawn.
            return "same number for several" if len(numbers) > len(drawn) else "too few tickets"
        if drawn and drawn[0] < want[0]:
            return "reported before the completion"
        if len(numbers) == len(want) and drawn[0] == want[0] and steps and min(steps) > 1:
            return "counter not raised by one"
        return ""


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
        found = (stop if run.problem else run.drawn()) or run.left() or stop
        faults.append(run.with_hang(found))
    return verdict("ex3-c", [RunsPart(1.0, faults, sets=2)], stopped)
