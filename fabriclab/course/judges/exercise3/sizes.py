"""Exercise 3 (d), the judge of small and large transfers: doorbells, completions, and chunks that overlap."""

from collections.abc import Mapping, Sequence
from typing import Any

from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.runs import Fault, RunsPart, verdict
from fabriclab.course.questions.files import message
from fabriclab.registry import register

from .device import RequestRefused
from .keys import Lone
from .server import seed
from .training import SERVER


class Transfer(Lone):
    """A run with a source that sends to a region of the server, which looks at it when it is notified."""

    def __init__(
        self, rng: Rng, size: int, about: Mapping[str, Any], more: Sequence[str] = ()
    ) -> None:
        super().__init__(seed(rng), 1, about, more)
        self.told: bytes | None = None
        self.size = size
        self.mine = self.seats[0].machine
        self.server = self.seats[SERVER].machine
        _, self.to, lkey, rkey = self.server.register(1, size + 8, 15, None)
        flag = self.to + size  # address of the word behind the region
        pair = next(iter(self.server.pairs.values()))
        for i in range(4):
            pair.recv.append({"wr_id": i, "sg": [[flag, 8, lkey]]})
        target = {"addr": self.to, "rkey": rkey, "flag": flag}
        self.seats[0].about = {**self.seats[0].about, "target": target}
        self.device.watch = self._look

    def _look(self) -> None:
        """Copy the region at the moment when its owner is notified."""
        told = self.server.load(self.to + self.size) or self.server.queues[1].entries
        if self.told is None and told:
            self.told = self.server.peek(self.to, self.size)

    def source(self, data: bytes) -> dict[str, int]:
        """Register memory of the sender with something in it."""
        _, at, lkey, _ = self.mine.register(1, len(data), 1, None)
        self.mine.put(at, data)
        return {"addr": at, "lkey": lkey}


class Small(Transfer):
    """A transfer of many pieces of a few bytes, scattered over both sides."""

    def __init__(self, rng: Rng) -> None:
        n = int(rng.integers(40, 61))
        lengths = [8 * int(k) for k in rng.integers(1, 9, n)]
        places = 64 * rng.permutation(n)
        pieces = [[int(at), length] for at, length in zip(places, lengths, strict=True)]
        super().__init__(rng, 64 * n, {"pieces": pieces})
        self.n = n
        self.data = rng.bytes(64 * n)
        self.seats[0].about = {**self.seats[0].about, "source": self.source(self.data)}

    def wrong(self) -> list[Fault]:
        """Return what is wrong."""
        pieces = self.seats[0].about["pieces"]
        most = -(-self.n // 8) + 2
        doorbells = self.mine.doorbells
        completions = self.device.completions
        if self.told is None:
            return self.statuses() or [("", message(3, "told"))]
        if any(self.told[at : at + n] != self.data[at : at + n] for at, n in pieces):
            return self.statuses() or [("told before the data", message(3, "early"))]
        if self.mine.inlined < self.n:
            sentence = message(3, "inline", n=self.n, got=self.mine.inlined)
            return [("zero copy taken for no copy", sentence)]
        if doorbells > most:
            sentence = message(3, "doorbells", n=self.n, most=most, got=doorbells)
            return [("one doorbell each", sentence)]
        if completions > most + 4:
            sentence = message(3, "signalled", most=most, got=completions)
            return [("every request signalled", sentence)]
        return self.left()


class Large(Small):
    """A transfer of a long message, which is made chunk by chunk in a few buffers."""

    def __init__(self, rng: Rng) -> None:
        chunk = 8 * int(rng.integers(12, 25))  # [B]
        chunks = int(rng.integers(10, 16))
        about = {"chunk": chunk, "chunks": chunks, "buffers": 3}
        Transfer.__init__(self, rng, chunk * chunks, about, ("fill",))
        self.data = rng.bytes(chunk * chunks)
        self.chunk = chunk
        self.chunks = chunks
        self.filled = 0  # chunks
        self.overlaps = 0  # chunks that were filled while another one was sent
        self.early = ""  # the sentence about a buffer that was filled too early
        self.device.pace = 0.25  # so that a chunk takes longer than what a program does with it
        self.seats[0].about = {**self.seats[0].about, "source": self.source(bytes(3 * chunk))}
        self.seats[0].fill = self._fill  # type: ignore[attr-defined]

    def _fill(self, i: int, at: int) -> None:
        """Make chunk ``i`` at an address."""
        self.mine.turn()
        self.mine.own(at, self.chunk)
        if i != self.filled:
            raise RequestRefused(message(3, "fill", want=self.filled, got=i))
        ops = [op for pair in self.mine.pairs.values() for op in pair.todo if op.inline is None]
        if any(
            at < place + n and place < at + self.chunk for op in ops for place, n, _ in op.wr["sg"]
        ):
            self.early = message(3, "reused", i=i)
        self.overlaps += bool(ops) or any(pair.done for pair in self.mine.pairs.values())
        self.mine.put(at, self.data[i * self.chunk : (i + 1) * self.chunk])
        self.filled += 1

    def wrong(self) -> list[Fault]:
        """Return what is wrong."""
        if self.told is None:
            return self.statuses() or [("", message(3, "told"))]
        if self.early and self.told != self.data:
            return [("buffer reused before its completion", self.early)]
        if self.told != self.data:
            return self.statuses() or [("told before the data", message(3, "early"))]
        if self.early:
            return [("buffer reused before its completion", self.early)]
        if 2 * self.overlaps < self.chunks:
            return [
                ("one chunk at a time", message(3, "overlap", n=self.chunks, got=self.overlaps))
            ]
        return self.left()


@register(
    "question",
    "ex3-d",
    example=lambda rng: Small(rng).seats[0].proxy().here(),
)
def sizes(ask: Ask, rng: Rng) -> Verdict:
    """Judge how many small pieces and how a large message is sent."""
    parts = list[RunsPart]()
    stopped = list[Unanswered]()
    for function, kind in (("small", Small), ("large", Large)):
        faults, ended = list[list[Fault]](), list[Unanswered]()
        for _ in range(4):
            run = kind(rng)
            stop = run.go(ask, function, [0], ended)
            faults.append(run.statuses() or stop or run.wrong())
        parts.append(RunsPart(0.5, faults, sets=2))
        stopped += ended
    return verdict("ex3-d", parts, stopped)
