"""Exercise 4: the shortest trace as a list of lines, as a picture, and by the name of the mistake behind it."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fabriclab.course.questions.files import message
from fabriclab.innetwork import DROP, REPLY

from .moves import Broken, Move, State, is_fault
from .traces import STRANGER, TraceSearch

if TYPE_CHECKING:
    from fabriclab.views import Picture

_LETTERS = "ABCDEFGH"
_ROW, _TOP, _LEFT, _RIGHT = 34.0, 44.0, 100.0, 620.0  # [px]


class Ladder:
    """A trace, told event by event.

    Parameters
    ----------
    search, moves, broken
        What `shortest` has found.

    Attributes
    ----------
    lines : list of str
        One for each event, and one that says what is wrong.
    arrows : list
        For the picture: lane and row of both ends, words, and whether it has arrived.
    """

    def __init__(self, search: TraceSearch, moves: Sequence[Move], broken: Broken) -> None:
        """Let it all happen once more, and note who does what."""
        self.search, self.moves, self.broken = search, moves, broken
        self.lines, self.arrows = list[str](), list[tuple[Any, ...]]()
        self.notes = list[tuple[int, int, str]]()  # lane, row, words
        n = search.n
        state = search.start(99)
        # whether an older chunk's packet comes after a newer one
        self.overtaken, newest = (False, [-1] * n)
        rows = {way: [[0] * len(sent) for sent in getattr(state, way)] for way in ("up", "down")}
        for row, (kind, w, i) in enumerate(moves, 1):
            way = kind.partition(" ")[0]
            links = {"up": state.up, "down": state.down, "timeout": state.timers}.get(way)
            number = links[w][i] if links else search.strange[i]
            before = state
            state, _ = search.after(state, (kind, w, i))
            words = self.named(search.packets[number][1])
            if way == "up" and not kind.endswith("lost"):
                chunk = max((c for _, c in self.counts(search.packets[number][1][0])), default=-1)
                self.overtaken |= chunk < newest[w]
                newest[w] = max(newest[w], chunk)
            if way in rows:
                sent = rows[way][w][i] if kind.endswith("twice") else rows[way][w].pop(i)
                ends = ((w, sent), (n, row)) if way == "up" else ((n, sent), (w, row))
                self.arrows.append((*ends, words, "lost" if kind.endswith("lost") else "arrived"))
            elif way == "stranger":
                self.arrows.append(((n + 1, row), (n, row), words, "strange"))
            else:
                self.notes.append((w, row, message(4, "trace.timer")))
            for to in range(n):
                rows["up"][to] += [row] * (len(state.up[to]) - len(rows["up"][to]))
                rows["down"][to] += [row] * (len(state.down[to]) - len(rows["down"][to]))
            self.lines.append(self._line(row, kind, w, number, before, state))
        for way, links in (("up", state.up), ("down", state.down)):
            for w, packets in enumerate(links):
                for packet, sent in zip(packets, rows[way][w], strict=True):
                    a, b = (w, n) if way == "up" else (n, w)
                    words = self.named(search.packets[packet][1])
                    self.arrows.append(((a, sent), (b, sent + 1), words, "on its way"))
        self.lines.append(self._end())

    # Words -----------------------------------------------------------------------------------------------------------

    def counts(self, value: int) -> dict[tuple[int, int], int]:
        """Return how often the value of each worker's chunk is in a sum; (-1, -1) is the stranger's."""
        s = self.search
        value %= 2**32
        found = {(-1, -1): value // STRANGER}
        for c, w in itertools.product(range(s.chunks), range(s.n)):
            found[w, c] = value >> s.bits * (c * s.n + w) & (1 << s.bits) - 1
        return {of: times for of, times in found.items() if times}

    def named(self, values: Sequence[int]) -> str:
        """Return what a payload holds, such as A0 + B0: the values of workers A and B of their chunks 0."""
        found = sorted(self.counts(values[0]).items(), key=lambda one: one[0][::-1])
        parts = (
            (f"{m} " if m > 1 else "") + (f"{_LETTERS[w]}{c}" if w >= 0 else "X")
            for (w, c), m in found
        )
        return " + ".join(parts) or "0"

    def _line(self, row: int, kind: str, w: int, number: int, before: State, after: State) -> str:
        s, (fields, values) = self.search, self.search.packets[number]
        header = ", ".join(f"{f} {v}" for f, v in fields if f != "job")
        about = {"worker": w, "what": self.named(values), "header": header}
        if kind in ("up", "up twice", "stranger"):
            if self.broken.kind == "outside" and row == len(self.moves):
                return message(4, "trace." + kind.replace(" ", "_"), **about)
            _, action, out = s.through(before.registers, s.jobs - 1 if w < 0 else 0, number)
            deed = "keeps" if action == DROP else "replies" if action == REPLY else "tells"
            then = message(4, f"trace.{deed}", what=self.named(s.packets[out][1]))
        else:
            new = after.up[w][len(before.up[w]) :] if w >= 0 else ()
            sent = ", ".join(self.named(s.packets[one][1]) for one in new)
            then = message(4, "trace.sends", what=sent) if sent else ""
        return f"{message(4, 'trace.' + kind.replace(' ', '_'), **about)} {then}".rstrip()

    def _end(self) -> str:
        kind, w, total, _ = self.broken
        if kind == "outside":
            return message(4, "trace.outside", error=total)
        if kind in ("hangs", "stopped"):
            return message(4, f"trace.{kind}", worker=w, error=total)
        chunk = self._wrong_chunk()
        s = self.search
        if chunk is None:
            return message(4, "trace.length", worker=w, got=len(total), want=len(s.right))
        got, want = (self.named([part[chunk * s.lanes]]) for part in (total, s.right))
        return message(4, "trace.wrong", worker=w, chunk=chunk, got=got, want=want)

    def _wrong_chunk(self) -> int | None:
        s, total = self.search, self.broken.total
        if len(total) != len(s.right) or not all(
            isinstance(v, int | float) and v == int(v) for v in total
        ):
            return None
        self.broken = self.broken._replace(total=[*map(int, total)])
        return (
            next(i for i, (a, b) in enumerate(zip(total, s.right, strict=True)) if a != b)
            // s.lanes
        )

    def numbered(self) -> list[str]:
        """Return the lines with the numbers of the events."""
        return [*(f"{n}. {line}" for n, line in enumerate(self.lines[:-1], 1)), self.lines[-1]]

    def mistake(self) -> str:
        """Return the name of the mistake that this trace shows, or nothing."""
        kind, _, total, again = self.broken
        strange = any(way == "stranger" for way, *_ in self.moves)
        if kind == "outside":
            return "header of a stranger trusted" if strange else ""
        if kind == "stopped":
            return ""
        if kind == "hangs":
            lost = any(way.endswith("lost") for way, *_ in self.moves)
            if strange:
                return "slots shared with a tenant"
            if not lost or not again:
                return "nobody sends again" if lost else ""
            return "slot reused too early" if self.search.chunks > 1 else "result not kept"
        chunk = self._wrong_chunk()
        if chunk is None:
            return ""
        s = self.search
        found = self.counts(total[chunk * s.lanes])
        here = {w: m for (w, c), m in found.items() if c == chunk}
        others = [one for one in found if one[1] not in (chunk, -1)]
        if (-1, -1) in found:
            return "slots shared with a tenant"
        if any(m > 1 for m in here.values()):
            return (
                "old packet taken for a new one"
                if self.overtaken
                else "packets counted instead of workers"
            )
        if others:
            whole = {(w, others[0][1]): 1 for w in range(s.n)}
            calm = not any(map(is_fault, self.moves))
            return (
                "old answer taken for a new one"
                if found == whole
                else ("old sum kept" if calm else "slot reused too early")
            )
        return "told before all have sent" if len(here) < s.n else ""

    # Picture ---------------------------------------------------------------------------------------------------------

    def picture(self) -> "Picture":
        """Return the trace as lanes of the workers and the switch, with time downwards and an arrow for each packet."""
        from fabriclab.views.page import Table
        from fabriclab.views.scene import COLOUR, Layer, Scene, lines, printed, texts

        s = self.search
        # the switch stands beside the first worker
        order = [0, s.n, *range(1, s.n)] + [s.n + 1] * (s.jobs > 1)
        x = {
            lane: float(at)
            for lane, at in zip(order, np.linspace(_LEFT, _RIGHT, len(order)), strict=True)
        }
        names = {s.n: message(4, "trace.switch"), s.n + 1: message(4, "trace.tenant")}
        y = [_TOP + _ROW * row for row in range(len(self.moves) + 2)]
        paths = [np.array([[x[a], y[i]], [x[b], y[j]]]) for (a, i), (b, j), _, _ in self.arrows]
        for path, (*_, how) in zip(paths, self.arrows, strict=True):
            if how in ("lost", "on its way"):
                path[1] = path[0] + 0.6 * (path[1] - path[0])
        colour = np.array(
            [
                COLOUR["failed" if how in ("lost", "strange") else "predicted"]
                for *_, how in self.arrows
            ]
        )
        dash = np.array([float(how in ("lost", "on its way")) for *_, how in self.arrows])
        starts, tips = (np.array([path[end] for path in paths]).reshape(-1, 2) for end in (0, 1))
        earlier = [
            [a for a, *_ in self.arrows[:i]].count(one[0]) for i, one in enumerate(self.arrows)
        ]
        # where arrows from one place are apart
        part = np.array([[0.3 + 0.25 * min(same, 2)] for same in earlier])
        places = starts + part * (tips - starts)  # of the words: near whoever sends
        layers = {
            "lanes": lines(
                [np.array([[x[k], _TOP - 16], [x[k], y[-1]]]) for k in order], colour=COLOUR["grey"]
            ),
            "names": texts(
                [x[lane] for lane in order],
                _TOP - 28,
                [
                    names.get(
                        lane, message(4, "trace.worker", worker=lane, letter=_LETTERS[lane % 8])
                    )
                    for lane in order
                ],
                align=1.0,
                bold=1.0,
            ),
            "arrows": lines(paths, width=2.0, colour=colour, dash=dash),
            "ends": Layer("dots", {"x": tips[:, 0], "y": tips[:, 1], "colour": colour}),
            "what": texts(
                places[:, 0], places[:, 1] - 9, [words for _, _, words, _ in self.arrows], align=1.0
            ),
            "timers": texts(
                [x[lane] + 6 for lane, _, _ in self.notes],
                [y[row] for _, row, _ in self.notes],
                [words for *_, words in self.notes],
            ),
            "numbers": texts(
                _LEFT - 60, y[1:-1], [f"{row}" for row in range(1, len(self.moves) + 1)]
            ),
        }
        table = Table({"event": [*map(str, range(1, len(self.lines))), ""], "what": self.lines})
        return printed(Scene(self.lines[-1], table, layers, y[-1] + 10, " ".join(self.lines)))
