"""Exercise 4: one all-reduce through a learner's switch, on a network that loses, doubles, delays and reorders packets.

What a worker sends is replaced on the wire by other numbers, the same way for all packets. So a sum that was not made
from what the switch has answered is another one. And each number of a sum must have come in an answer: the switch adds.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.course.judges import Ask, Proxy, Unanswered
from fabriclab.course.judges.shared.numbers import Misread, brief
from fabriclab.course.questions.files import message
from fabriclab.innetwork import DROP, REPLY, ProgramRefused, Switch

from .programs import CLIENT, desk, placed

Header = dict[str, int]
Packet = tuple[Header, list[int]]
# illustrative: a link of 100 Gb/s, and what a network between a few machines may do to packets
_RATE, _DELAY, _LATE, _LIMIT = 12.5e9, 2e-6, 200e-6, 50e-3  # [B/s], [s]
_SHORT = 2e-3  # so many calls in less time come from timers below a round trip [s]
_MOST = 2000  # calls of workers' methods in a run
_TWICE = 2  # times its values, that a worker may receive where nothing is lost
# of the values, so that numbers of slots or chunks in a payload are not taken for them
_SMALLEST = 2**16


class Crew:
    """A learner's switch program and worker, and what has been learned of the program."""

    def __init__(self, ask: Ask, functions: Sequence[str]) -> None:
        self.ask, (self.program, self.worker) = ask, functions
        self._switches = dict[tuple[int, int, int], Switch]()

    def switch(self, workers: int, jobs: int, slots: int) -> Switch:
        """Return a fresh switch with the program for so many workers and slots of each job."""
        key = workers, jobs, slots
        if key not in self._switches:
            about = dict(zip(("workers", "jobs", "slots"), key, strict=True))
            self._switches[key] = placed(
                self.ask(self.program, desk("describe", about=about)), jobs * slots
            )
        self._switches[key].clear()
        return self._switches[key]


def checked(
    answer: Any, bits: Mapping[str, int], lanes: int
) -> tuple[list[Packet], list[int] | None, float | None]:
    """Return packets, total and timer [s] of a worker's answer; Misread says what is wrong with them."""
    packets, total, timer = answer
    for header, values in packets:
        if header.keys() != bits.keys() - {"job"}:
            raise Misread(
                message(
                    4,
                    "header",
                    want=", ".join(bits.keys() - {"job"}),
                    got=", ".join(map(str, header)),
                )
            )
        if wrong := [
            f for f, v in header.items() if type(v) is not int or not 0 <= v < 1 << bits[f]
        ]:
            raise Misread(
                message(4, "bits", field=wrong[0], bits=bits[wrong[0]], got=header[wrong[0]])
            )
        if len(values) != lanes or any(not -(2**31) <= v < 2**31 for v in values):
            raise Misread(message(4, "values", lanes=lanes, got=len(values)))
    wait = None if timer is None else units.time(timer, "timer")
    if wait is not None and not wait > 0:
        raise Misread(message(4, "timer", got=brief(timer, 40)))
    return packets, total, wait


class Run:
    """Workers of one or several jobs, a switch, and the links between them.

    Parameters
    ----------
    seed : int
        Of all that is drawn.
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
        self.rng, self.workers, self.slots, self.jobs = random.Random(seed), workers, slots, jobs
        self.faulty, self.late, self.stranger, self.timers = faults, late, stranger, timers
        self.dead, self.dies = dead, self.rng.randrange(2, 9) if dead >= 0 else 0
        self.members = [(job, rank) for job in range(jobs - stranger) for rank in range(workers)]
        self.faults = dict[str, str]()
        self.problem: Unanswered | None = None

    # What happens ----------------------------------------------------------------------------------------------------

    def play(self, crew: Crew) -> None:
        """Run until all that can finish have finished."""
        try:
            self.switch = crew.switch(self.workers, self.jobs, self.slots)
            self._prepare()
            self._turns = self._orders()
            crew.ask(crew.worker, Proxy(self, ("next",), {"way": "serve"}, CLIENT))
        except Unanswered as error:
            self.problem = error
            self.faults.setdefault("stopped", error.said)
        except (ProgramRefused, Misread) as error:
            self.faults.setdefault(
                "fit" if isinstance(error, ProgramRefused) else "packet", str(error)
            )
        else:
            self._afterwards()

    def _prepare(self) -> None:
        """Draw what workers hold, and what stands for it on the wire."""
        n, each = len(self.members), 12 * self.switch.program.lanes
        draw = np.random.default_rng(self.rng.randrange(2**32))
        self.given = (_SMALLEST + 4 * draw.permutation(n * each).reshape(n, each)) * draw.choice(
            [-1, 1], (n, each)
        )
        wire = draw.integers(-(2**26), 2**26, (n, each))
        self.wire = dict(zip(self.given.ravel().tolist(), wire.ravel().tolist(), strict=True))
        jobs = np.array([job for job, _ in self.members])
        self.right, self.held = (
            [values[jobs == job].sum(0).tolist() for job in set(jobs.tolist())]
            for values in (wire, self.given)
        )
        self.events = list[tuple[float, int, str, int, tuple[Any, ...]]]()
        self.serial, self.now, self.free = itertools.count(), 0.0, Counter[tuple[str, int]]()
        self.totals, self.finish = dict[int, Any](), dict[int, float]()
        self.burst = False  # whether one timer has sent several packets
        self.calls, self.words = Counter[int](), Counter[tuple[str, int]]()
        self.heard = [set[int]() for _ in self.members]  # what answers have carried to each
        # headers of the last packet and the last answer
        self.last = [dict[str, Header]() for _ in self.members]

    def next(self, answer: Any) -> Any:
        """Take what a worker has returned; return the next call of a worker's method, or None."""
        try:
            return self._turns.send(answer)
        except StopIteration:
            return None

    def _orders(self) -> Generator[list[Any], Any, None]:
        for who, (job, rank) in enumerate(self.members):
            about = {"rank": rank, "workers": self.workers, "job": job, "slots": self.slots}
            yield ["new", who, {**about, "values": self.given[who].astype(np.int32)}]
            self._at(_LATE if who == self.late else self.rng.uniform(0, _DELAY), "start", who)
        while self.events and not self.faults and not self._over():
            self.now, _, kind, who, what = heapq.heappop(self.events)
            if self.now > _LIMIT:
                return
            if kind == "up":
                self._arrives(who, *what)
            elif who != self.dead or self.calls[who] < self.dies:
                self.calls[who] += 1
                if kind == "take":
                    self.heard[who].update(what[1])
                    self.last[who]["take"] = what[0]
                sent = len(self._took(who, (yield [kind, who, *what])))
                self.burst |= kind == "timeout" and sent > 1
                if sum(self.calls.values()) > _MOST or len(self.events) > 10 * _MOST:
                    name = "storm" if self.burst or self.now < _SHORT else "hangs"
                    self.faults[name] = message(
                        4, "storm", most=f"{_MOST:,}", time=units.format_time(self.now)
                    )

    def _at(self, time: float, kind: str, who: int, *what: Any) -> None:
        heapq.heappush(self.events, (time, next(self.serial), kind, who, what))

    def _over(self) -> bool:
        must = [
            who
            for who, (job, _) in enumerate(self.members)
            if self.dead < 0 or job != self.members[self.dead][0]
        ]
        # Where one is dead, the others of its job get some time to report what cannot be right.
        return all(
            who in self.finish and self.now > (1 + (self.dead >= 0)) * self.finish[who]
            for who in must
        )

    def _took(self, who: int, answer: Any) -> list[Packet]:
        """Send the packets of a worker, judge its total, and return the packets."""
        try:
            packets, total, timer = checked(
                answer, self.switch.program.fields, self.switch.program.lanes
            )
        except (Misread, ValueError, TypeError, AttributeError) as error:
            self.faults["packet"] = str(error)
            return []
        for header, values in packets:
            self.last[who]["up"] = header
            self._move("up", who, "up", header, [self.wire.get(v, v) for v in values])
            if self.timers and timer is not None:
                self._at(self.now + timer, "timeout", who, header)
        if total is not None and who not in self.totals:
            self.totals[who], self.finish[who] = total, self.now
            job, rank = self.members[who]
            if total == self.held[job]:
                self.faults["around"] = message(4, "around", worker=rank)
            elif total != self.right[job]:
                self.faults["wrong"] = message(4, "wrong", worker=rank, job=job)
            elif not self.heard[who].issuperset(total):
                self.faults["added"] = message(4, "added", worker=rank)
        return packets

    def _move(self, way: str, link: int, kind: str, *packet: Any) -> None:
        """Put a packet on a link: it may be lost, doubled or late."""
        size = 4 * self.switch.program.lanes
        self.free[way, link] = begin = max(self.now, self.free[way, link]) + size / _RATE  # type: ignore[assignment]
        self.words[way, link] += self.switch.program.lanes
        lost, doubled, slow = (
            self.rng.random() < p for p in (self.faulty, self.faulty, self.faulty / 2)
        )
        for copy in range((1 + doubled) * (not lost)):
            late = self.rng.expovariate(1 / (4 * _DELAY)) if slow or copy else 0.0
            late += self.rng.expovariate(1 / _LATE) * 0.1 if link == self.late else 0.0
            self._at(begin + _DELAY + late, kind, link, *packet)

    def _arrives(self, who: int, header: Header, values: list[int]) -> None:
        """Let a packet go through the switch, maybe after one of the stranger."""
        if self.stranger and self.rng.random() < 0.5:
            bits = self.switch.program.fields
            like = self.rng.random() < 0.5  # what it has overheard, with something changed
            drawn = {
                f: header[f]
                if like and self.rng.random() < 0.8
                else self.rng.randrange(1 << bits[f])
                for f in header
            }
            self._through(
                -1, self.jobs - 1, drawn, [self.rng.randrange(-(2**31), 2**31)] * len(values)
            )
        if not self.faults:
            self._through(who, self.members[who][0], header, values)

    def _through(self, who: int, job: int, header: Header, values: list[int]) -> None:
        try:
            action, fields, payload = self.switch.one({**header, "job": job}, values)
            out = {f: int(fields[f]) & (1 << b) - 1 for f, b in self.switch.program.fields.items()}
            words = np.broadcast_to(np.asarray(payload, np.int32), len(values)).tolist()
        except Exception as error:  # outside of a register, or a shape that a switch cannot hold
            name = "outside" if isinstance(error, ProgramRefused) and who < 0 else "rule"
            self.faults[name] = message(4, f"{name}", error=error, header=header)
            return
        if action != DROP and who >= 0:
            for to in (
                [who]
                if action == REPLY
                else [i for i, (j, _) in enumerate(self.members) if j == job]
            ):
                self._move("down", to, "take", {**out, "job": job}, words)

    # Afterwards ------------------------------------------------------------------------------------------------------

    def _waiting(self) -> list[int]:
        """Return who has no total, in jobs of which nobody is dead."""
        over = {job for who, (job, _) in enumerate(self.members) if who == self.dead}
        return [
            who
            for who, (job, _) in enumerate(self.members)
            if who not in self.finish and job not in over
        ]

    def last_seen(self) -> list[str]:
        """Return what the first worker without a total has sent and heard last; nothing if all have one."""
        out = list[str]()
        for who in self._waiting()[:1]:
            headers = (self.last[who].get(way, {}).items() for way in ("up", "take"))
            told = [
                ", ".join(f"{f} {v}" for f, v in h if f != "job") or message(4, "nothing")
                for h in headers
            ]
            job, rank = self.members[who]
            out.append(message(4, "last", worker=rank, job=job, sent=told[0], heard=told[1]))
        return out

    def _afterwards(self) -> None:
        """Note who has not finished, and who did the work of the switch."""
        if (waiting := self._waiting()) and not self.faults:
            who = ", ".join(str(self.members[i][1]) for i in waiting)
            self.faults["hangs"] = message(4, "hangs", who=who, time=units.format_time(self.now))
        most = _TWICE * len(self.given[0])
        if not self.faulty and not self.faults and max(self.words.values()) > most:
            self.faults["copies"] = message(
                4, "copies", n=max(self.words.values()), have=len(self.given[0])
            )
