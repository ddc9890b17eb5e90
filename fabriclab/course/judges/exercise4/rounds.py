"""Exercise 4: one all-reduce through a learner's switch, on a network that loses, doubles, delays and reorders packets.

On the wire, the numbers that a worker sends are replaced by others, in the same way for all packets. So a sum that was
not made from the answers of the switch is wrong. And each number of a sum must have come in an answer, so that it is
the switch that adds.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.course.judges import Ask, Proxy, Unanswered
from fabriclab.course.judges.shared.numbers import Misread, brief
from fabriclab.course.questions.files import message
from fabriclab.innetwork import DROP, REPLY, ProgramRefused, Switch

from .programs import CLIENT, desk, placed

Header = dict[str, int]
Packet = tuple[Header, list[int]]
# illustrative: a link of 100 Gb/s, and what a network between a few machines may do to packets
_RATE = 12.5e9  # [B/s]
# illustrative: between two machines of a room
_DELAY = 2e-6  # [s]
_LATE = (
    200e-6  # of the late worker's start, and ten times the mean of what its packets take longer [s]
)
_LIMIT = 50e-3  # of a run [s]
_SHORT = 2e-3  # [s] _MOST calls in less time come from timers shorter than a round trip
_MOST = 2000  # calls of workers' methods in a run
PATIENCE = (
    2e-3  # illustrative: timer with which a run of some lost packets may take all of _LIMIT [s]
)
_TWICE = 2  # times its own values: the most that a worker may receive where nothing is lost
_CHUNKS = 12  # of each worker
# Least size of a value, so that the number of a slot or chunk in a payload is not mistaken for one.
_SMALLEST = 2**16


class Crew:
    """A learner's switch program and worker, and what has been found out about the program."""

    def __init__(self, ask: Ask, functions: Sequence[str]) -> None:
        self.ask = ask
        self.program, self.worker = functions
        self._switches = dict[tuple[int, int, int], Switch]()

    def switch(self, workers: int, jobs: int, slots: int) -> Switch:
        """Return a fresh switch with the program for so many workers and slots of each job."""
        key = (workers, jobs, slots)
        if key not in self._switches:
            about = {"workers": workers, "jobs": jobs, "slots": slots}
            described = self.ask(self.program, desk("describe", about=about))
            self._switches[key] = placed(described, jobs * slots)
        switch = self._switches[key]
        switch.clear()
        return switch


class SwitchAnswer(NamedTuple):
    """The answer of a worker: packets, total and timer."""

    packets: list[Packet]
    total: list[int] | None
    timer: float | None  # [s]


def checked(answer: Any, bits: Mapping[str, int], lanes: int) -> SwitchAnswer:
    """Check what a worker has returned; raise Misread if something is wrong with its packets or its timer.

    Parameters
    ----------
    answer : object
        Packets, total and timer, as the learner's process sends them.
    bits : mapping
        Size of each field of a header. [bit]
    lanes : int
        Number of values in a packet.
    """
    packets, total, timer = answer
    for header, values in packets:
        _check_packet(header, values, bits, lanes)
    seconds = None
    if timer is not None:
        seconds = units.time(timer, "timer")
        if not seconds > 0:
            raise Misread(message(4, "timer", got=brief(timer, 40)))
    return SwitchAnswer(packets, total, seconds)


def _check_packet(header: Header, values: list[int], bits: Mapping[str, int], lanes: int) -> None:
    """Raise Misread if a packet does not fit into the fields and lanes of the program."""
    fields = bits.keys() - {"job"}
    if header.keys() != fields:
        got = ", ".join(map(str, header))
        raise Misread(message(4, "header", want=", ".join(fields), got=got))
    for field, value in header.items():
        if type(value) is not int or not 0 <= value < 1 << bits[field]:
            raise Misread(message(4, "bits", field=field, bits=bits[field], got=value))
    if len(values) != lanes or any(not -(2**31) <= value < 2**31 for value in values):
        raise Misread(message(4, "values", lanes=lanes, got=len(values)))


class SwitchRun:
    """Workers of one or several jobs, a switch, and the links between them.

    Parameters
    ----------
    seed : int
        Seed of everything random.
    workers, slots, jobs : int
        Workers and slots of each job, and how many jobs the switch serves.
    faults : float
        Probability that a packet is lost, that it is doubled, and half of that to be overtaken. 0..1
    late, dead : int
        The worker of job 0 that begins late and is slow, or that dies on its way.
    stranger : bool
        Whether the last job is a tenant that sends whatever fits into a header.
    timers : bool
        Whether `timeout` is called.
    """

    def __init__(
        self,
        seed: int,
        workers: int = 3,
        slots: int = 3,
        jobs: int = 1,
        *,
        faults: float = 0.0,
        late: int = -1,
        dead: int = -1,
        stranger: bool = False,
        timers: bool = True,
    ) -> None:
        self.rng = random.Random(seed)
        self.workers = workers
        self.slots = slots
        self.jobs = jobs
        self.faulty = faults
        self.late = late
        self.dead = dead
        self.dies = self.rng.randrange(2, 9) if dead >= 0 else 0  # after so many calls
        self.stranger = stranger
        self.timers = timers
        tenants = jobs - 1 if stranger else jobs  # the last job may have no workers here
        self.members = [(job, rank) for job in range(tenants) for rank in range(workers)]
        self.faults = dict[str, str]()  # name -> sentence, the first one first
        self.problem: Unanswered | None = None
        self.beyond = False  # whether a packet chose a cell that does not exist
        self.endless = False  # whether the calls of a run came to no end
        self.longest_timer = 0.0  # of a worker [s]
        # Whether a wrong total holds numbers that no answer has carried to its worker.
        self.unheard = False
        # Whether a wrong total is right but for its rounding to floats of 32 bits.
        self.in_floats = False

    # What happens ----------------------------------------------------------------------------------------------------

    def play(self, crew: Crew) -> None:
        """Run until all workers that can finish have finished."""
        try:
            self.switch = crew.switch(self.workers, self.jobs, self.slots)
            self._prepare()
            self._turns = self._orders()
            crew.ask(crew.worker, Proxy(self, ("next",), {"way": "serve"}, CLIENT))
        except Unanswered as error:
            self.problem = error
            self.faults.setdefault("stopped", error.said)
        except ProgramRefused as error:
            self.faults.setdefault("fit", str(error))
        except Misread as error:
            self.faults.setdefault("packet", str(error))
        else:
            self._afterwards()

    def _prepare(self) -> None:
        """Draw the values of workers, and the numbers that replace them on the wire."""
        n = len(self.members)
        each = _CHUNKS * self.switch.program.lanes
        draw = np.random.default_rng(self.rng.randrange(2**32))
        values = _SMALLEST + 4 * draw.permutation(n * each).reshape(n, each)
        self.given = values * draw.choice([-1, 1], (n, each))  # (n, each) all different
        wire = draw.integers(-(2**26), 2**26, (n, each))
        self.wire = dict(zip(self.given.ravel().tolist(), wire.ravel().tolist(), strict=True))

        self.right = self._sums(wire)
        self.held = self._sums(self.given)
        self.events = list[tuple[float, int, str, int, tuple[Any, ...]]]()
        self.serial = itertools.count()
        self.now = 0.0
        self.free = Counter[tuple[str, int]]()  # from when on each link is free [s]
        self.totals = dict[int, Any]()
        self.finish = dict[int, float]()  # [s]
        self.burst = False  # whether one timer has sent several packets
        self.calls = Counter[int]()
        self.words = Counter[tuple[str, int]]()  # values that each link has carried
        self.heard = [set[int]() for _ in self.members]  # what answers have carried to each
        # headers of the last packet and the last answer
        self.last = [dict[str, Header]() for _ in self.members]

    def _sums(self, values: NDArray[np.int64]) -> list[list[int]]:
        """Return the sum over the workers of each job."""
        jobs = np.array([job for job, _ in self.members])
        return [values[jobs == job].sum(0).tolist() for job in sorted(set(jobs.tolist()))]

    def next(self, answer: Any) -> Any:
        """Process what a worker has returned; return the next call of a worker's method, or None at the end."""
        try:
            return self._turns.send(answer)
        except StopIteration:
            return None

    def _orders(self) -> Generator[list[Any], Any, None]:
        """Yield calls of workers' methods until the run is over; each call receives what the method has returned."""
        for who, (job, rank) in enumerate(self.members):
            about = {"rank": rank, "workers": self.workers, "job": job, "slots": self.slots}
            yield ["new", who, {**about, "values": self.given[who].astype(np.int32)}]
            begin = _LATE if who == self.late else self.rng.uniform(0, _DELAY)
            self._at(begin, "start", who)

        while self.events and not self.faults and not self._over():
            self.now, _, kind, who, arguments = heapq.heappop(self.events)
            if self.now > _LIMIT:
                return
            if kind == "up":
                self._arrives(who, *arguments)
            elif who != self.dead or self.calls[who] < self.dies:
                self.calls[who] += 1
                if kind == "take":
                    header, values = arguments
                    self.heard[who].update(values)
                    self.last[who]["take"] = header
                answer = yield [kind, who, *arguments]
                sent = len(self._took(who, answer))
                if kind == "timeout" and sent > 1:
                    self.burst = True
                self._check_for_storm()

    def _check_for_storm(self) -> None:
        """Note a fault if a run has had too many calls or events."""
        if sum(self.calls.values()) <= _MOST and len(self.events) <= 10 * _MOST:
            return
        self.endless = True
        # Without timers nobody is too hasty: workers that answer each other for ever wait, however fast they do it.
        is_hasty = self.timers and (self.burst or self.now < _SHORT)
        name = "storm" if is_hasty else "hangs"
        time = units.format_time(self.now)
        self.faults[name] = message(4, "storm", most=f"{_MOST:,}", time=time)

    def _at(self, time: float, kind: str, who: int, *arguments: Any) -> None:
        """Schedule an event for a worker, or for a packet of a worker, at a time [s]."""
        heapq.heappush(self.events, (time, next(self.serial), kind, who, arguments))

    def _over(self) -> bool:
        """Return whether all workers that must finish have finished."""
        patience = 1
        members = range(len(self.members))
        waited_for = list(members)
        if self.dead >= 0:
            # When a worker is dead, the others of its job get some time, in which they may report a wrong sum.
            patience = 2
            dead_job, _ = self.members[self.dead]
            waited_for = [who for who in members if self.members[who][0] != dead_job]
        return all(
            who in self.finish and self.now > patience * self.finish[who] for who in waited_for
        )

    def _took(self, who: int, answer: Any) -> list[Packet]:
        """Send the packets of a worker, judge its total, and return the packets."""
        program = self.switch.program
        try:
            packets, total, timer = checked(answer, program.fields, program.lanes)
        except (Misread, ValueError, TypeError, AttributeError) as error:
            self.faults["packet"] = str(error)
            return []
        self.longest_timer = max(self.longest_timer, timer or 0.0)
        for header, values in packets:
            self.last[who]["up"] = header
            self._move("up", who, "up", header, [self.wire.get(value, value) for value in values])
            if self.timers and timer is not None:
                self._at(self.now + timer, "timeout", who, header)
        if total is not None and who not in self.totals:
            self.totals[who] = total
            self.finish[who] = self.now
            self._judge_total(who, total)
        return packets

    def _judge_total(self, who: int, total: Any) -> None:
        """Note a fault if a total is wrong, or was not made by the switch."""
        job, rank = self.members[who]
        if total == self.held[job]:
            self.faults["around"] = message(4, "around", worker=rank)
        elif total != self.right[job]:
            self.faults["wrong"] = message(4, "wrong", worker=rank, job=job)
            numbers = isinstance(total, list) and all(isinstance(t, int | float) for t in total)
            self.unheard = numbers and not self.heard[who].issuperset(total)
            self.in_floats = total == np.array(self.right[job], np.float32).tolist()
        elif not self.heard[who].issuperset(total):
            self.faults["added"] = message(4, "added", worker=rank)

    def _move(self, link: str, who: int, kind: str, *packet: Any) -> None:
        """Put a packet on a worker's link, ``up`` or ``down``: it may be lost, doubled or late."""
        lanes = self.switch.program.lanes
        begin = max(self.now, self.free[link, who]) + 4 * lanes / _RATE
        self.free[link, who] = begin  # type: ignore[assignment]
        self.words[link, who] += lanes

        lost = self.rng.random() < self.faulty
        doubled = self.rng.random() < self.faulty
        slow = self.rng.random() < self.faulty / 2
        if lost:
            return
        self._at(begin + _DELAY + self._extra(who, slow), kind, who, *packet)
        if doubled:
            self._at(begin + _DELAY + self._extra(who, True), kind, who, *packet)

    def _extra(self, who: int, slow: bool) -> float:
        """Draw how much longer than others a packet takes [s]."""
        extra = 0.0
        if slow:
            extra = self.rng.expovariate(1 / (4 * _DELAY))
        if who == self.late:
            extra += self.rng.expovariate(1 / _LATE) * 0.1
        return extra

    def _arrives(self, who: int, header: Header, values: list[int]) -> None:
        """Let a packet go through the switch, maybe after one of the stranger."""
        if self.stranger and self.rng.random() < 0.5:
            drawn = self._strange_header(header)
            value = self.rng.randrange(-(2**31), 2**31)
            self._through(-1, self.jobs - 1, drawn, [value] * len(values))
        if not self.faults:
            job, _ = self.members[who]
            self._through(who, job, header, values)

    def _strange_header(self, header: Header) -> Header:
        """Draw a header that a stranger sends: completely random, or an overheard one with something changed."""
        bits = self.switch.program.fields
        overheard = self.rng.random() < 0.5
        drawn = Header()
        for field in header:
            if overheard and self.rng.random() < 0.8:
                drawn[field] = header[field]
            else:
                drawn[field] = self.rng.randrange(1 << bits[field])
        return drawn

    def _through(self, who: int, job: int, header: Header, values: list[int]) -> None:
        """Let a packet go through the switch, and send its answer; -1 stands for the stranger, who hears none."""
        try:
            action, fields, payload = self.switch.one({**header, "job": job}, values)
            out = {f: int(fields[f]) & (1 << b) - 1 for f, b in self.switch.program.fields.items()}
            words = np.broadcast_to(np.asarray(payload, np.int32), len(values)).tolist()
        except Exception as error:  # outside of a register, or a shape that a switch cannot hold
            refused = isinstance(error, ProgramRefused)  # a cell that does not exist
            name = "outside" if refused and who < 0 else "rule"
            self.faults[name] = message(4, f"{name}", error=error, header=header)
            self.beyond = refused
            return
        if action == DROP or who < 0:
            return
        receivers = [who]
        if action != REPLY:
            receivers = [i for i, (of, _) in enumerate(self.members) if of == job]
        for to in receivers:
            self._move("down", to, "take", {**out, "job": job}, words)

    # Afterwards ------------------------------------------------------------------------------------------------------

    def _waiting(self) -> list[int]:
        """Return the workers without a total, in jobs in which no worker is dead."""
        dead_job = -1
        if self.dead >= 0:
            dead_job, _ = self.members[self.dead]
        return [
            who
            for who, (job, _) in enumerate(self.members)
            if who not in self.finish and job != dead_job
        ]

    def last_seen(self) -> list[str]:
        """Return what the first worker without a total has sent and received last; empty if all have a total."""
        waiting = self._waiting()
        if not waiting:
            return []
        who = waiting[0]
        job, rank = self.members[who]
        sent = _header_words(self.last[who].get("up", {}))
        heard = _header_words(self.last[who].get("take", {}))
        return [message(4, "last", worker=rank, job=job, sent=sent, heard=heard)]

    def _afterwards(self) -> None:
        """Note which workers have not finished, and which have done the work of the switch."""
        if self.faults:
            return
        waiting = self._waiting()
        if waiting:
            who = ", ".join(str(self.members[i][1]) for i in waiting)
            self.faults["hangs"] = message(4, "hangs", who=who, time=units.format_time(self.now))
            return
        if self.faulty:
            return
        carried = max(self.words.values())
        own = len(self.given[0])
        if carried > _TWICE * own:
            self.faults["copies"] = message(4, "copies", n=carried, have=own)


def _header_words(header: Header) -> str:
    """Return the fields of a header in words, or that there was none."""
    words = [f"{field} {value}" for field, value in header.items() if field != "job"]
    return ", ".join(words) or message(4, "nothing")
