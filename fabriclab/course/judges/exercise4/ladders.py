"""Exercise 4: the shortest trace as lines of text, as arrows of a picture, and with the mistake behind it."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from fabriclab.course.questions.files import message
from fabriclab.innetwork import DROP, REPLY

from .moves import Broken, Move, State, is_fault
from .traces import STRANGER, TraceSearch

_LETTERS = "ABCDEFGH"  # of the workers' values
_STRANGE = (-1, -1)  # in the place of worker and chunk: the value of the stranger
_ANY = 99  # faults that may still come while a trace is replayed: no limit
_LINKS = ("up", "down")


class Place(NamedTuple):
    """A place in the picture where an arrow starts or ends."""

    lane: int  # a worker, the switch or the tenant
    row: int  # the event; 0 is the start


class Arrow(NamedTuple):
    """A packet, as an arrow of the picture."""

    start: Place
    end: Place
    words: str
    fate: str  # arrived, lost, strange, or on its way

    @property
    def arrives(self) -> bool:
        """Whether the packet reaches the end of the arrow."""
        return self.fate not in ("lost", "on its way")


class Note(NamedTuple):
    """A word in the picture."""

    lane: int
    row: int
    words: str


class Ladder:
    """A trace, described event by event.

    Parameters
    ----------
    search, moves, broken
        The result of `shortest`.

    Attributes
    ----------
    lines : list of str
        One for each event, and one that says what is wrong.
    arrows : list of Arrow
        The packets, for the picture.
    notes : list of Note
        The timers that run out, for the picture.
    overtaken : bool
        Whether a packet of an older chunk comes after one of a newer chunk.
    """

    def __init__(self, search: TraceSearch, moves: Sequence[Move], broken: Broken) -> None:
        """Play the trace again, and note who does what."""
        self.search = search
        self.moves = moves
        self.broken = broken
        self.lines = list[str]()
        self.arrows = list[Arrow]()
        self.notes = list[Note]()
        self.overtaken = False
        self._reached = set[
            tuple[int, int]
        ]()  # worker and chunk of the values that the switch has had
        self._answers = list[
            tuple[int, set[int]]
        ]()  # what the switch did, and the chunks in what it sent
        # For each chunk whether the switch had it from all workers when it first answered with a value of it.
        self._told_with_all = dict[int, bool]()
        self.switch_lane = search.n
        self.tenant_lane = search.n + 1

        self._newest_chunk = [-1] * search.n  # that the switch has had from each worker
        state = search.start(_ANY)
        # For each packet that is on a link, in the order of the state: the row in which it was sent.
        self._sent_in = {
            "up": [[0] * len(packets) for packets in state.up],
            "down": [[0] * len(packets) for packets in state.down],
        }
        for row, move in enumerate(moves, 1):
            state = self._tell(row, move, state)
        self._draw_what_is_on_its_way(state)
        self.lines.append(self._end())

    # The run ---------------------------------------------------------------------------------------------------------

    def _tell(self, row: int, move: Move, before: State) -> State:
        """Add the line of a move, and its arrow or note; return the state after it."""
        kind, w, _ = move
        number = self._packet_of(move, before)
        after, _ = self.search.after(before, move)

        link = kind.partition(" ")[0]
        if link == "up" and not kind.endswith("lost"):
            self._note_chunk(w, number)
        if link in _LINKS:
            self._draw_packet(row, move, number)
        elif link == "stranger":
            start = Place(self.tenant_lane, row)
            end = Place(self.switch_lane, row)
            self.arrows.append(Arrow(start, end, self._words_of(number), "strange"))
        else:
            self.notes.append(Note(w, row, message(4, "trace.timer")))

        self._note_new_packets(row, after)
        self.lines.append(self._line(row, kind, w, number, before, after))
        return after

    def _packet_of(self, move: Move, state: State) -> int:
        """Return the number of the packet in a move."""
        kind, w, i = move
        link = kind.partition(" ")[0]
        if link == "up":
            return state.up[w][i]
        if link == "down":
            return state.down[w][i]
        if link == "timeout":
            return state.timers[w][i]
        return self.search.strange[i]

    def _note_chunk(self, w: int, number: int) -> None:
        """Note the chunk of a packet that the switch gets from a worker."""
        _, values = self.search.packets[number]
        held = self.counts(values[0])
        self._reached.update(held)
        chunk = max((chunk for _, chunk in held), default=-1)
        if chunk < self._newest_chunk[w]:
            self.overtaken = True
        self._newest_chunk[w] = max(self._newest_chunk[w], chunk)

    def _draw_packet(self, row: int, move: Move, number: int) -> None:
        """Add the arrow of a packet that arrives or is lost; of one that comes twice, a copy stays on the link."""
        kind, w, i = move
        link = kind.partition(" ")[0]
        sent_in = self._sent_in[link][w]
        sent = sent_in[i] if kind.endswith("twice") else sent_in.pop(i)

        sender, receiver = self._ends(link, w)
        fate = "lost" if kind.endswith("lost") else "arrived"
        words = self._words_of(number)
        self.arrows.append(Arrow(Place(sender, sent), Place(receiver, row), words, fate))

    def _ends(self, link: str, w: int) -> tuple[int, int]:
        """Return the lanes of the sender and the receiver on a link of a worker."""
        if link == "up":
            return w, self.switch_lane
        return self.switch_lane, w

    def _note_new_packets(self, row: int, state: State) -> None:
        """Note the row in which an event has sent packets."""
        for link, packets_of in zip(_LINKS, (state.up, state.down), strict=True):
            for w, packets in enumerate(packets_of):
                sent_in = self._sent_in[link][w]
                sent_in += [row] * (len(packets) - len(sent_in))

    def _draw_what_is_on_its_way(self, state: State) -> None:
        """Add an arrow for each packet that has not arrived at the end."""
        for link, packets_of in zip(_LINKS, (state.up, state.down), strict=True):
            for w, packets in enumerate(packets_of):
                sender, receiver = self._ends(link, w)
                for number, sent in zip(packets, self._sent_in[link][w], strict=True):
                    start = Place(sender, sent)
                    end = Place(receiver, sent + 1)
                    self.arrows.append(Arrow(start, end, self._words_of(number), "on its way"))

    # Words -----------------------------------------------------------------------------------------------------------

    def letter(self, w: int) -> str:
        """Return the letter that stands for the values of a worker."""
        return _LETTERS[w % len(_LETTERS)]

    def counts(self, value: int) -> dict[tuple[int, int], int]:
        """Return how often the value of each worker's chunk is in a sum; (-1, -1) stands for the stranger's value."""
        s = self.search
        value %= 2**32
        found = {_STRANGE: value // STRANGER}
        for chunk, w in itertools.product(range(s.chunks), range(s.n)):
            place = s.bits * (chunk * s.n + w)
            found[w, chunk] = value >> place & (1 << s.bits) - 1
        return {of: times for of, times in found.items() if times}

    def named(self, values: Sequence[int]) -> str:
        """Return the content of a payload in words, such as A0 + B0 for the values of chunk 0 of workers A and B."""
        parts = list[tuple[int, int, str]]()
        for (w, chunk), times in self.counts(values[0]).items():
            name = "X" if w < 0 else f"{_LETTERS[w]}{chunk}"
            if times > 1:
                name = f"{times} {name}"
            parts.append((chunk, w, name))
        return " + ".join(name for _, _, name in sorted(parts)) or "0"

    def _words_of(self, number: int) -> str:
        """Return the content of a packet in words, given its number."""
        _, values = self.search.packets[number]
        return self.named(values)

    def _line(self, row: int, kind: str, w: int, number: int, before: State, after: State) -> str:
        """Return the sentence about an event, and what follows from it."""
        fields, _ = self.search.packets[number]
        event = message(
            4,
            "trace." + kind.replace(" ", "_"),
            worker=w,
            what=self._words_of(number),
            header=", ".join(f"{field} {value}" for field, value in fields if field != "job"),
        )
        if kind not in ("up", "up twice", "stranger"):
            then = self._sent_by(w, before, after)
        elif self.broken.kind == "outside" and row == len(self.moves):
            return event
        else:
            then = self._done_by_switch(w, number, before)
        return f"{event} {then}".rstrip()

    def _sent_by(self, w: int, before: State, after: State) -> str:
        """Return the sentence about the packets that a worker has sent in an event, or nothing."""
        if w < 0:
            return ""
        new = after.up[w][len(before.up[w]) :]
        sent = ", ".join(map(self._words_of, new))
        return message(4, "trace.sends", what=sent) if sent else ""

    def _done_by_switch(self, w: int, number: int, before: State) -> str:
        """Return the sentence about what the switch does with a packet of a worker, or of the stranger."""
        job = self.search.jobs - 1 if w < 0 else 0
        _, action, out = self.search.through(before.registers, job, number)
        _, values = self.search.packets[out]
        if action != DROP:
            self._note_answer(action, {chunk for _, chunk in self.counts(values[0])})
        key = "trace.tells"
        if action == DROP:
            key = "trace.keeps"
        elif action == REPLY:
            key = "trace.replies"
        return message(4, key, what=self._words_of(out))

    def _note_answer(self, action: int, chunks: set[int]) -> None:
        """Note what the switch did, and the chunks in what it sent."""
        self._answers.append((action, chunks))
        for chunk in chunks:
            everybody = all((w, chunk) in self._reached for w in range(self.search.n))
            self._told_with_all.setdefault(chunk, everybody)

    def _end(self) -> str:
        """Return the sentence on what is wrong in the end."""
        kind, w, total, _ = self.broken
        if kind == "outside":
            return message(4, "trace.outside", error=total)
        if kind in ("hangs", "stopped"):
            return message(4, f"trace.{kind}", worker=w, error=total)

        s = self.search
        chunk = self._wrong_chunk()
        if chunk is None:
            return message(4, "trace.length", worker=w, got=len(total), want=len(s.right))
        got = self.named([int(total[chunk * s.lanes])])
        want = self.named([s.right[chunk * s.lanes]])
        return message(4, "trace.wrong", worker=w, chunk=chunk, got=got, want=want)

    def _wrong_chunk(self) -> int | None:
        """Return the first chunk whose sum is wrong, or None if the total is not a list of as many whole numbers."""
        total = self.broken.total
        right = self.search.right
        if len(total) != len(right):
            return None
        if not all(map(_is_whole, total)):
            return None
        for i, (got, want) in enumerate(zip(total, right, strict=True)):
            if int(got) != want:
                return i // self.search.lanes
        raise AssertionError("a trace with a wrong total has a wrong value")

    def numbered(self) -> list[str]:
        """Return the lines with event numbers."""
        numbered = [f"{number}. {line}" for number, line in enumerate(self.lines[:-1], 1)]
        return [*numbered, self.lines[-1]]

    # The mistake -----------------------------------------------------------------------------------------------------

    def mistake(self) -> str:
        """Return the name of the mistake that this trace shows, or nothing."""
        strange = any(kind == "stranger" for kind, *_ in self.moves)
        if self.broken.kind == "outside":
            return "header of a stranger trusted" if strange else ""
        if self.broken.kind == "stopped":
            return ""
        if self.broken.kind == "hangs":
            return "slots shared with a tenant" if strange else self._mistake_of_waiting()
        return self._mistake_of_sum()

    def _mistake_of_waiting(self) -> str:
        """Return the mistake after which a worker waits for ever."""
        if not any(map(is_fault, self.moves)):
            return self._mistake_of_silence()
        if not any(kind.endswith("lost") for kind, *_ in self.moves):
            return ""
        if not self.broken.again:
            return "nobody sends again"
        return "slot reused too early" if self.search.chunks > 1 else "result not kept"

    def _mistake_of_silence(self) -> str:
        """Return the mistake after which a worker waits for ever though nothing went wrong on the network."""
        for chunk in range(self.search.chunks):
            actions = [action for action, chunks in self._answers if chunk in chunks]
            if not all((w, chunk) in self._reached for w in range(self.search.n)):
                return "next chunk not sent" if chunk else ""
            if not actions:
                return "count not reset" if chunk else "last packet not recognised"
            if all(action == REPLY for action in actions):
                return "told to one worker only"
        return "total not set"

    def _mistake_of_sum(self) -> str:
        """Return the mistake behind a wrong sum, judged by whose values are in the first wrong one."""
        s = self.search
        chunk = self._wrong_chunk()
        if chunk is None:
            return ""
        found = self.counts(int(self.broken.total[chunk * s.lanes]))
        times_here = [times for (_, of), times in found.items() if of == chunk]
        other_chunks = [of for _, of in found if of not in (chunk, -1)]

        if _STRANGE in found:
            return "slots shared with a tenant"
        if any(times > 1 for times in times_here):
            if self.overtaken:
                return "old packet taken for a new one"
            return "packets counted instead of workers"
        if other_chunks:
            if self._is_more_than_slots():
                return "more chunks than slots"
            if found == {(w, other_chunks[0]): 1 for w in range(s.n)}:
                return "old answer taken for a new one"
            return "slot reused too early" if any(map(is_fault, self.moves)) else "old sum kept"
        if len(times_here) < s.n:
            return self._mistake_of_missing(chunk, nothing=not found)
        return ""

    def _mistake_of_missing(self, chunk: int, *, nothing: bool) -> str:
        """Return the mistake behind a sum in which nothing is twice, and one value or all of them are missing."""
        calm = not any(map(is_fault, self.moves))
        if nothing and self._is_more_than_slots():
            return "more chunks than slots"
        if nothing and all(chunks for _, chunks in self._answers):
            return "total set too early"
        if calm and (nothing or self._told_with_all.get(chunk)):
            return "sum left in the switch"
        return "told before all have sent"

    def _is_more_than_slots(self) -> bool:
        """Return whether a worker begins with more packets than there are slots."""
        first = self.search.start(_ANY)
        return any(len(packets) > self.search.slots for packets in first.up)


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number; one that was computed with floats is, too."""
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
