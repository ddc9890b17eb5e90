"""Exercise 3 (d), the judge of small and large transfers: doorbells, completions, and chunks that overlap."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fabriclab.course.judges import Ask, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.runs import Fault, RunsPart, verdict
from fabriclab.course.questions.files import message
from fabriclab.registry import register

from .device import Op, RequestRefused
from .keys import Lone
from .server import seed
from .training import SERVER

_RUNS = 4  # of each function
_LOCAL_WRITE = 1  # access flag: the owner may write
_ALL_FLAGS = 15  # access flags: the owner may write, and peers may do everything
_FLAG_BYTES = 8  # size of the word behind the region, with which its owner can be notified
_RECEIVES = 4  # requests that the server has posted, for a notification with immediate data
_PIECE_SLOT = 64  # every piece begins at a multiple of this [B]
_PIECES_PER_DOORBELL = 8
_SPARE_DOORBELLS = 2  # beyond those of the pieces, for the notification
_SPARE_COMPLETIONS = 4  # beyond one for each doorbell allowed
_BUFFERS = 3  # of the sender, for all chunks


class Transfer(Lone):
    """A run with a source that sends to a region of the server, which looks at it when it is notified."""

    def __init__(
        self, rng: Rng, size: int, about: Mapping[str, Any], more: Sequence[str] = ()
    ) -> None:
        super().__init__(seed(rng), 1, about, more)
        self.size = size
        self.seen: bytes | None = None  # the region when its owner was notified
        self.sender = self.seats[0].machine
        self.server = self.seats[SERVER].machine
        _, self.address, lkey, rkey = self.server.register(1, size + _FLAG_BYTES, _ALL_FLAGS, None)
        self.flag = self.address + size  # address of the word behind the region

        pair = next(iter(self.server.pairs.values()))
        for i in range(_RECEIVES):
            pair.recv.append({"wr_id": i, "sg": [[self.flag, _FLAG_BYTES, lkey]]})
        self._tell_sender("target", {"addr": self.address, "rkey": rkey, "flag": self.flag})
        self.device.watch = self._look

    def _tell_sender(self, name: str, value: Mapping[str, int]) -> None:
        """Add an entry to what the program of the sender is told."""
        seat = self.seats[0]
        seat.about = {**seat.about, name: value}

    def _look(self) -> None:
        """Copy the region at the moment when its owner is notified."""
        notified = self.server.load(self.flag) or self.server.queues[1].entries
        if self.seen is None and notified:
            self.seen = self.server.peek(self.address, self.size)

    def add_source(self, data: bytes) -> None:
        """Register memory of the sender with something in it, and tell its program where."""
        _, address, lkey, _ = self.sender.register(1, len(data), _LOCAL_WRITE, None)
        self.sender.put(address, data)
        self._tell_sender("source", {"addr": address, "lkey": lkey})


class Small(Transfer):
    """A transfer of many pieces of a few bytes, scattered over both sides."""

    def __init__(self, rng: Rng) -> None:
        n = int(rng.integers(40, 61))
        words = rng.integers(1, 9, n)  # (n,) 8-byte words of each piece
        offsets = _PIECE_SLOT * rng.permutation(n)  # (n,) [B]
        pieces = list[list[int]]()
        for offset, n_words in zip(offsets, words, strict=True):
            pieces.append([int(offset), 8 * int(n_words)])
        size = _PIECE_SLOT * n  # [B]

        super().__init__(rng, size, {"pieces": pieces})
        self.n = n
        self.data = rng.bytes(size)
        self.add_source(self.data)

    def wrong(self) -> list[Fault]:
        """Return what is wrong."""
        if self.seen is None:
            return self.statuses() or [("owner not told", message(3, "told"))]
        if not self._all_arrived(self.seen):
            self.drain()
            late = self._all_arrived(self.server.peek(self.address, self.size))
            return self.statuses() or [(_untimely(late), message(3, "early"))]

        inlined = self.sender.inlined
        if inlined < self.n:
            sentence = message(3, "inline", n=self.n, got=inlined)
            return [("zero copy taken for no copy", sentence)]

        most = math.ceil(self.n / _PIECES_PER_DOORBELL) + _SPARE_DOORBELLS
        doorbells = self.sender.doorbells
        if doorbells > most:
            sentence = message(3, "doorbells", n=self.n, most=most, got=doorbells)
            return [("one doorbell each", sentence)]

        completions = self.device.completions
        if completions > most + _SPARE_COMPLETIONS:
            sentence = message(3, "signalled", most=most, got=completions)
            return [("every request signalled", sentence)]
        return self.left()

    def _all_arrived(self, seen: bytes) -> bool:
        """Return whether every piece was in the region when its owner was notified."""
        for offset, length in self.seats[0].about["pieces"]:
            piece = slice(offset, offset + length)
            if seen[piece] != self.data[piece]:
                return False
        return True


class Large(Transfer):
    """A transfer of a long message, which is made chunk by chunk in a few buffers."""

    def __init__(self, rng: Rng) -> None:
        chunk = 8 * int(rng.integers(12, 25))  # [B]
        chunks = int(rng.integers(10, 16))
        about = {"chunk": chunk, "chunks": chunks, "buffers": _BUFFERS}
        super().__init__(rng, chunk * chunks, about, ("fill",))
        self.data = rng.bytes(chunk * chunks)
        self.chunk = chunk
        self.chunks = chunks
        self.filled = 0  # chunks
        self.overlaps = 0  # chunks that were filled while another one was sent
        self.early = ""  # the sentence about a buffer that was filled too early
        self.device.pace = 0.25  # slow, so that sending a chunk takes longer than making one
        self.add_source(bytes(_BUFFERS * chunk))
        self.seats[0].fill = self._fill  # type: ignore[attr-defined]

    def _fill(self, i: int, address: int) -> None:
        """Make chunk ``i`` at an address, and note whether that buffer was free and the link was busy."""
        self.sender.turn()
        self.sender.own(address, self.chunk)
        if i != self.filled:
            raise RequestRefused(message(3, "fill", want=self.filled, got=i))

        unfinished = self._unfinished()
        if any(self._uses(op, address) for op in unfinished):
            self.early = message(3, "reused", i=i)
        unreported = any(pair.done for pair in self.sender.pairs.values())
        if unfinished or unreported:
            self.overlaps += 1

        begin = i * self.chunk
        self.sender.put(address, self.data[begin : begin + self.chunk])
        self.filled += 1

    def _unfinished(self) -> list[Op]:
        """Return the requests that still need memory of the sender."""
        ops = list[Op]()
        for pair in self.sender.pairs.values():
            for op in pair.todo:
                if op.inline is None:  # inline data was copied when it was posted
                    ops.append(op)
        return ops

    def _uses(self, op: Op, address: int) -> bool:
        """Return whether memory of a request overlaps with the chunk at an address."""
        end = address + self.chunk
        for begin, length, _ in op.wr["sg"]:
            if address < begin + length and begin < end:
                return True
        return False

    def wrong(self) -> list[Fault]:
        """Return what is wrong."""
        if self.seen is None:
            return self.statuses() or [("owner not told", message(3, "told"))]

        # A buffer that was filled too early explains data that are wrong, so it comes first.
        if self.early:
            return [("buffer reused before its completion", self.early)]
        if self.seen != self.data:
            self.drain()
            late = self.server.peek(self.address, self.size) == self.data
            return self.statuses() or [(_untimely(late), message(3, "early"))]
        if 2 * self.overlaps < self.chunks:
            sentence = message(3, "overlap", n=self.chunks, got=self.overlaps)
            return [("one chunk at a time", sentence)]
        return self.left()


def _untimely(late: bool) -> str:
    """Return the name of the mistake if data were not there in time: they came late, or never."""
    return "told before the data" if late else "data missing"


_TRANSFERS: dict[str, type[Small] | type[Large]] = {"small": Small, "large": Large}  # by function


def _example(rng: Rng) -> Any:
    """Return what a program gets to send small pieces."""
    return Small(rng).seats[0].proxy().here()


@register("question", "ex3-d", example=_example)
def sizes(ask: Ask, rng: Rng) -> Verdict:
    """Judge how many small pieces and how a large message is sent."""
    parts = list[RunsPart]()
    stopped = list[Unanswered]()
    for function, transfer in _TRANSFERS.items():
        faults = list[list[Fault]]()
        ended = list[Unanswered]()  # a problem in one function does not stop the other one
        for _ in range(_RUNS):
            run = transfer(rng)
            stop = run.go(ask, function, [0], ended)
            faults.append(run.statuses() or stop or run.wrong())
        parts.append(RunsPart(0.5, faults, sets=2))
        stopped += ended
    return verdict("ex3-d", parts, stopped)
