"""Live views of the verbs: the states of a queue pair, and a work request from its post to its completion."""

from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab.catalog.tables import read_rows
from fabriclab.rdma import PyverbsRDMAError, QPAttr, enums
from fabriclab.rdma.records import check_step, needs
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Live, Slider, live_view
from fabriclab.views.page import Table
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, ink_on, lines, texts

_STATES = ("RESET", "INIT", "RTR", "RTS", "ERR")
_COUNTS = ("calls", "copies", "doorbells", "transfers", "completions")
_LANES = 30.0 + 54.0 * np.arange(6)  # program, kernel and NIC of A, then of B [px]
_ROWS = read_rows(Path(__file__).with_name("requests.csv"))


def queue_pair(kind: str = "RC", now: str = "INIT", to: str = "RTR") -> Live:
    """Show which attributes a step of a queue pair needs, whether the device takes the step, and what it allows.

    Parameters
    ----------
    kind : str
        RC, UC or UD.
    now, to : str
        States: RESET, INIT, RTR, RTS or ERR.
    """

    def scene(kind: str, now: str, to: str) -> Scene:
        type_, a, b = (enums.ibv_qp_type[f"IBV_QPT_{kind}"], *(enums.ibv_qp_state[f"IBV_QPS_{s}"] for s in (now, to)))
        mask, why = needs(b, type_), ""
        try:
            check_step(type_, a, QPAttr(b), mask | enums.IBV_QP_STATE)
        except PyverbsRDMAError as error:
            mask, why = 0, str(error).partition(". Errno")[0]  # no such step, so it needs nothing
        attributes = [m.name.removeprefix("IBV_QP_") for m in enums.ibv_qp_attr_mask if m & mask]
        names = {"kind": kind, "now": now, "to": to, "n": len(attributes)}
        said, colour = text(f"live.queue_pair.{'refused' if why else 'taken'}", **names, why=why), COLOUR["predicted"]
        colour = COLOUR["failed"] if why else colour
        said += " " + text(f"live.queue_pair.in.{now if why else to}")
        x, y = 12 + 136.0 * np.arange(len(_STATES)), 24.0 + 26.0 * np.arange(len(attributes))
        key = np.array([colour if s == to else COLOUR["none"] if s == now else COLOUR["grey"] for s in _STATES])
        full = np.where(np.array(_STATES) == to, colour, COLOUR["none"])
        i, j = (_STATES.index(s) for s in (now, to))
        way = np.array([[x[i] + 56, 54], [x[i] + 56, 70], [x[j] + 66, 70], [x[j] + 66, 56]])
        layers = {
            "states": boxes(x, 22.0, 122.0, 32.0, colour=full, edge=key, texts=_STATES, names=_STATES,
                            ink=np.where(full < 0, COLOUR["ink"], ink_on(colour))),
            "step": lines([way], width=2.5, colour=colour, dash=float(bool(why))),
            "end": Layer("dots", {"x": way[-1:, 0], "y": way[-1:, 1] + 5, "shape": 4.0, "size": 6.0, "colour": colour}),
            "attributes": texts(24, 82 + y, attributes, bold=1.0),
            "meanings": texts(220, 82 + y, [text(f"live.queue_pair.{name}") for name in attributes]),
        }  # fmt: skip
        table = Table({"attribute": attributes or [text("live.queue_pair.none")]})
        return Scene(said, table, layers, 96.0 + 26 * max(1, len(attributes)), f"{said} {', '.join(attributes)}")

    states = Choice(_STATES)
    return live_view("queue_pair", locals(), scene, {"kind": Choice(("RC", "UC", "UD")), "now": states, "to": states})


def request(way: str = "WRITE", step: int = 4) -> Live:
    """Step through a message between two machines: who acts, what is done, and what has been counted.

    Parameters
    ----------
    way : str
        WRITE, READ, SEND, WRITE with immediate, TCP socket, or set-up.
    step : int
        How many steps are done; beyond the last one nothing follows. 0..13
    """

    def scene(way: str, step: int) -> Scene:
        rows = [row for row in _ROWS if row["way"] == way]
        done, last = rows[:step], max(0, min(step, len(rows)) - 1)
        a, b = (np.array([int(row[end]) for row in done], dtype=np.int64) for end in ("source", "target"))
        who, what = [_who(i) for i in a], [text(f"live.request.{row['step']}") for row in done]
        total: Any = list(accumulate((_added(row["counts"]) for row in done), np.add, initial=_added("")))
        counted = ", ".join(text(f"live.request.{k}", n=n) for k, n in zip(_COUNTS, total[-1], strict=True))
        said = text("live.request.said", way=way, step=len(done), steps=len(rows), list=counted, b=np.sum(a == 5))
        y, new = 62.0 + 26 * np.arange(len(done)), np.arange(len(done)) == last
        key = np.where(new, COLOUR["predicted"], COLOUR["grey"])
        paths = [np.array([[_LANES[s], v], [_LANES[t], v]]) for s, t, v in zip(a, b, y, strict=True)]
        layers = {
            "machines": texts(_LANES[[1, 4]], 10.0, [text("live.request.machine", name=n) for n in "AB"], align=1.0),
            "lanes": lines([np.array([[x, 40], [x, 62 + 26 * len(rows)]]) for x in _LANES], colour=COLOUR["grey"]),
            "parts": texts(_LANES, 30.0, [text(f"live.request.part{min(i, 5 - i)}") for i in range(6)], align=1.0,
                           size=11.0),
            "arrows": lines(paths, width=2.0, colour=key),
            "ends": Layer("dots", {"x": _LANES[b], "y": y, "colour": key}),
            "actors": boxes(_LANES[a] - 10, y - 9, 20.0, 18.0, colour=key, ink=ink_on(key) if len(done) else 0.0,
                            texts=[f"{i + 1}" for i in range(len(done))], names=who, notes=what),
            "what": texts(328.0, y, what, bold=new * 1.0),
            "movers": Layer("movers", {**lines([p for p in paths[-1:] if np.ptp(p[:, 0])]).fields, "w": 11.0, "h": 11.0,
                                       "colour": COLOUR["predicted"]}),
        }  # fmt: skip
        table = Table({"step": np.arange(1, len(done) + 1), "who": who, "what": what,
                       **dict(zip(_COUNTS[:4], np.array(total)[1:].T, strict=False))}) if done else None  # fmt: skip
        listed = " ".join(f"{i}. {w}: {t}." for i, (w, t) in enumerate(zip(who, what, strict=True), 1))
        return Scene(said, table, layers, 70.0 + 26 * len(rows), f"{said} {listed}", moves=bool(done))

    ways = Choice(tuple(dict.fromkeys(row["way"] for row in _ROWS)))
    return live_view("request", locals(), scene, {"way": ways, "step": Slider(0, 13, play=True)})


def _who(lane: int) -> str:
    return text(f"live.request.part{min(lane, 5 - lane)}") + " " + "AB"[lane // 3]


def _added(counts: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    name, _, n = counts.partition("=")
    return np.array([int(n or 0) * (k == name) for k in _COUNTS])
