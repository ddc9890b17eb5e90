"""Live views of RDMA: states of a queue pair, a request from post to completion, and copies inside a server."""

import functools
import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab import gpudirect, topologies, units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, Flows, Timeline
from fabriclab.rdma import PyverbsRDMAError, QPAttr, enums
from fabriclab.rdma.records import check_step, needs
from fabriclab.texts import text
from fabriclab.views.fabrics import scene_of
from fabriclab.views.live.widget import Choice, Live, Slider, live_view
from fabriclab.views.page import Table
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, ink_on, lines, texts, texts_at
from fabriclab.views.timelines import timeline_scene

_WAYS = ("peer", "pinned", "pageable")
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
        type_, a, b = (
            enums.ibv_qp_type[f"IBV_QPT_{kind}"],
            *(enums.ibv_qp_state[f"IBV_QPS_{s}"] for s in (now, to)),
        )
        mask, why = needs(b, type_), ""
        try:
            check_step(type_, a, QPAttr(b), mask | enums.IBV_QP_STATE)
        except PyverbsRDMAError as error:
            mask, why = 0, str(error).partition(". Errno")[0]  # no such step, so it needs nothing
        attributes = [m.name.removeprefix("IBV_QP_") for m in enums.ibv_qp_attr_mask if m & mask]
        key, colour = ("refused", COLOUR["failed"]) if why else ("taken", COLOUR["predicted"])
        said = text(f"live.queue_pair.{key}", kind=kind, now=now, to=to, n=len(attributes), why=why)
        said += " " + text(f"live.queue_pair.in.{now if why else to}")
        x, y = 12 + 136.0 * np.arange(len(_STATES)), 24.0 + 26.0 * np.arange(len(attributes))
        edge = np.array(
            [colour if s == to else COLOUR["none"] if s == now else COLOUR["grey"] for s in _STATES]
        )
        full = np.where(np.array(_STATES) == to, colour, COLOUR["none"])
        i, j = (_STATES.index(s) for s in (now, to))
        way = np.array([[x[i] + 56, 54], [x[i] + 56, 70], [x[j] + 66, 70], [x[j] + 66, 56]])
        layers = {
            "states": boxes(
                x,
                22.0,
                122.0,
                32.0,
                colour=full,
                edge=edge,
                texts=_STATES,
                names=_STATES,
                ink=np.where(full < 0, COLOUR["ink"], ink_on(colour)),
            ),
            "step": lines([way], width=2.5, colour=colour, dash=float(bool(why))),
            "end": Layer(
                "dots",
                {
                    "x": way[-1:, 0],
                    "y": way[-1:, 1] + 5,
                    "shape": 4.0,
                    "size": 6.0,
                    "colour": colour,
                },
            ),
            "attributes": texts(24, 82 + y, attributes, bold=1.0),
            "meanings": texts(
                220, 82 + y, [text(f"live.queue_pair.{name}") for name in attributes]
            ),
        }
        table = Table({"attribute": attributes or [text("live.queue_pair.none")]})
        return Scene(
            said,
            table,
            layers,
            96.0 + 26 * max(1, len(attributes)),
            f"{said} {', '.join(attributes)}",
        )

    states = Choice(_STATES)
    return live_view(
        "queue_pair",
        locals(),
        scene,
        {"kind": Choice(("RC", "UC", "UD")), "now": states, "to": states},
    )


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
        a, b = (
            np.array([int(row[end]) for row in done], dtype=np.int64)
            for end in ("source", "target")
        )
        who, what = [_who(i) for i in a], [text(f"live.request.{row['step']}") for row in done]
        total: Any = list(
            itertools.accumulate(
                (_added(row["counts"]) for row in done), np.add, initial=_added("")
            )
        )
        counted = ", ".join(
            text(f"live.request.{k}", n=n) for k, n in zip(_COUNTS, total[-1], strict=True)
        )
        said = text(
            "live.request.said",
            way=way,
            step=len(done),
            steps=len(rows),
            list=counted,
            b=np.sum(a == 5),
        )
        y, new = 62.0 + 26 * np.arange(len(done)), np.arange(len(done)) == last
        key = np.where(new, COLOUR["predicted"], COLOUR["grey"])
        paths = [
            np.array([[_LANES[s], v], [_LANES[t], v]]) for s, t, v in zip(a, b, y, strict=True)
        ]
        layers = {
            "machines": texts(
                _LANES[[1, 4]],
                10.0,
                [text("live.request.machine", name=n) for n in "AB"],
                align=1.0,
            ),
            "lanes": lines(
                [np.array([[x, 40], [x, 62 + 26 * len(rows)]]) for x in _LANES],
                colour=COLOUR["grey"],
            ),
            "parts": texts(
                _LANES,
                30.0,
                [text(f"live.request.part{min(i, 5 - i)}") for i in range(6)],
                align=1.0,
                size=11.0,
            ),
            "arrows": lines(paths, width=2.0, colour=key),
            "ends": Layer("dots", {"x": _LANES[b], "y": y, "colour": key}),
            "actors": boxes(
                _LANES[a] - 10,
                y - 9,
                20.0,
                18.0,
                colour=key,
                ink=ink_on(key) if len(done) else 0.0,
                texts=[f"{i + 1}" for i in range(len(done))],
                names=who,
                notes=what,
            ),
            "what": texts(328.0, y, what, bold=new * 1.0),
            "movers": Layer(
                "movers",
                {
                    **lines([p for p in paths[-1:] if np.ptp(p[:, 0])]).fields,
                    "w": 11.0,
                    "h": 11.0,
                    "colour": COLOUR["predicted"],
                },
            ),
        }
        table = (
            Table(
                {
                    "step": np.arange(1, len(done) + 1),
                    "who": who,
                    "what": what,
                    **dict(zip(_COUNTS[:4], np.array(total)[1:].T, strict=False)),
                }
            )
            if done
            else None
        )
        listed = " ".join(
            f"{i}. {w}: {t}." for i, (w, t) in enumerate(zip(who, what, strict=True), 1)
        )
        return Scene(
            said, table, layers, 70.0 + 26 * len(rows), f"{said} {listed}", moves=bool(done)
        )

    ways = Choice(tuple(dict.fromkeys(row["way"] for row in _ROWS)))
    return live_view("request", locals(), scene, {"way": ways, "step": Slider(0, 13, play=True)})


def _who(lane: int) -> str:
    return text(f"live.request.part{min(lane, 5 - lane)}") + " " + "AB"[lane // 3]


def _added(counts: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    name, _, n = counts.partition("=")
    return np.array([int(n or 0) * (k == name) for k in _COUNTS])


def copies(
    mechanism: str = "pinned",
    relation: str = "PIX",
    iommu: str = "off",
    *,
    source: str = "nic",
    server: str = "dgx_h100",
    size: units.Quantity = "64 MiB",
) -> Live:
    """Show the copies of a transfer to GPU 0 on the picture of its server, each with its rate and time.

    Parameters
    ----------
    mechanism : str
        peer, pinned or pageable; see `fabriclab.gpudirect.path`.
    relation : str
        Class of GPU 0 and the NIC at the source, as `nvidia-smi topo -m` prints it.
    iommu : str
        off or on.
    source : str
        What sends: "nic"; or the drive or GPU that is beside that NIC, "nvme" or "gpu".
    server : str
        A topology of one server.
    size : float or str
        Of the transfer. [B]
    """
    fabric, number = _classes(server, source)

    def scene(mechanism: str, relation: str, iommu: str) -> Scene:
        ends = f"{source} {number[relation]}", "gpu 0"
        way = gpudirect.path(fabric, *ends, mechanism, iommu=iommu)
        drawn, total = scene_of(fabric), units.size(size)
        over, times = (
            [" – ".join(m.over) for m in way.moves],
            [m.issue + m.latency + total / m.rate for m in way.moves],
        )
        words = [
            text("live.copies.copy", by=m.by, over=parts, rate=m.rate, time=time)
            for m, parts, time in zip(way.moves, over, times, strict=True)
        ]
        said = text(
            "live.copies.said",
            a=ends[0],
            b=ends[1],
            n=way.copies,
            links=way.hops,
            host=way.host_traffic,
            time=way.time(total),
            size=total,
        )
        said += " " + text("live.copies.flush", time=way.flush) if way.flush else ""
        table = Table(
            {
                "copy": np.arange(1, way.copies + 1),
                "by": [m.by for m in way.moves],
                "over": over,
                "rate [B/s]": [m.rate for m in way.moves],
                "time [s]": times,
            }
        )
        layers, height = _numbered(drawn, way.moves, words), drawn.height + 20 * way.copies + 8
        return replace(
            drawn,
            said=said,
            alt=f"{said} {'; '.join(words)}",
            table=table,
            layers=layers,
            height=height,
        )

    return live_view(
        "copies",
        locals(),
        scene,
        {
            "mechanism": Choice(_WAYS),
            "relation": Choice(tuple(number)),
            "iommu": Choice(("off", "on")),
        },
    )


def savings(
    size: float = 1000.0, source: str = "nic", relation: str = "PIX", *, server: str = "dgx_h100"
) -> Live:
    """Compare what a transfer to GPU 0 takes by each mechanism: the time of each copy, bytes of host memory, cores.

    Parameters
    ----------
    size : float
        Of the transfer, in one piece. [kB]
    source, relation, server : str
        As in `copies`.
    """
    fabric, number = _classes(server, source)

    def scene(size: float, source: str, relation: str) -> Scene:
        size *= 1e3
        ways = [gpudirect.path(fabric, f"{source} {number[relation]}", "gpu 0", m) for m in _WAYS]
        bars = []
        for lane, way in enumerate(ways):
            ends = np.cumsum([0.0, *(m.issue + m.latency + size / m.rate for m in way.moves)])
            ends[-1] += way.flush
            bars += [(lane, i, a, b) for i, (a, b) in enumerate(itertools.pairwise(ends))]
        copies = [
            text("live.savings.copy", n=i + 1) for i in range(max(way.copies for way in ways))
        ]
        times = [way.time(size) for way in ways]
        table = Table(
            {
                "mechanism": list(_WAYS),
                "copies": [way.copies for way in ways],
                "time [s]": times,
                "host memory [B]": [way.host_traffic * size for way in ways],
                "cores at 400 Gb/s": [way.cores(size) for way in ways],  # source: nics, cx7
            }
        )
        said = text(
            "live.savings.said",
            size=size,
            **dict(zip(_WAYS, times, strict=True)),
            saved=times[1] - times[0],
            part=100 * (1 - times[0] / times[1]),
            host=ways[1].host_traffic * size,
        )
        return stacked(bars, list(_WAYS), copies, said, table)

    kinds, sizes = Choice(("nic", "nvme")), Slider(1, 1e6, unit="kB", log=True)
    return live_view(
        "savings",
        locals(),
        scene,
        {"size": sizes, "source": kinds, "relation": Choice(tuple(number))},
    )


def chunks(
    chunk: float = 1024.0,
    mechanism: str = "pinned",
    *,
    server: str = "dgx_h100",
    size: units.Quantity = "8 MiB",
) -> Live:
    """Show how the chunks of a transfer from GPU 0 to GPU 1 pass its copies, one after the other.

    Parameters
    ----------
    chunk : float
        Size of a chunk. [KiB]
    mechanism : str
        pinned or pageable.
    server : str
        As in `copies`.
    size : float or str
        Of the transfer. [B]
    """
    fabric, total = topologies.build(server), units.size(size)

    def scene(chunk: float, mechanism: str) -> Scene:
        way = gpudirect.path(fabric, "gpu 0", "gpu 1", mechanism)
        pieces = max(1, math.ceil(total / (chunk * 1024)))
        step = np.array([m.issue + total / pieces / m.rate for m in way.moves])
        # when the first chunk has passed a copy
        late = np.cumsum(step) + np.cumsum([m.latency for m in way.moves])
        last = late[:, None] + np.maximum.accumulate(step)[:, None] * np.arange(pieces)
        bars = [(i, 0, b - step[i], b) for i, row in enumerate(last) for b in row]
        lanes = [f"{i + 1} {m.by} {m.over[-1]}" for i, m in enumerate(way.moves)]
        best, at = min((way.time(total, 1024.0 * 2**k), 2**k) for k in range(5, 14))
        said = text(
            "live.chunks.said",
            size=total,
            n=pieces,
            each=total / pieces,
            at=1024.0 * at,
            time=last.max(),
            whole=way.time(total),
            best=best,
        )
        return stacked(bars, lanes, [text("live.chunks.chunk")], said)

    return live_view(
        "chunks",
        locals(),
        scene,
        {"chunk": Slider(32, 8192, unit="KiB", log=True), "mechanism": Choice(_WAYS[1:])},
    )


@functools.cache
def _classes(server: str, source: str) -> tuple[Fabric, dict[str, str]]:
    """Return a server, and for each class the number of a NIC that is so far from GPU 0, where the source may be."""
    fabric = topologies.build(server)
    matrix = gpudirect.topo(fabric)
    far = {matrix.relation("GPU0", n): n[3:] for n in matrix.names if n[:3] == "NIC"}
    return fabric, {relation: n for relation, n in far.items() if (source, n) != ("gpu", "0")}


def _numbered(
    drawn: Scene, moves: tuple[gpudirect.Move, ...], words: list[str]
) -> dict[str, Layer]:
    """Return a picture with copies as lines that stand apart, their numbers, and below it what each of them is."""
    n, (box, cable) = len(moves), (drawn.layers[k].fields for k in ("nodes", "cables"))
    spots = dict(
        zip(
            box["names"],
            np.stack([box["x"] + box["w"] / 2, box["y"] + box["h"] / 2], axis=1),
            strict=True,
        )
    )
    points = np.split(np.stack([cable["x"], cable["y"]], axis=1), cable["ptr"][1:-1].astype(int))
    ways = {
        tuple(name.split(" – ")): line for name, line in zip(cable["names"], points, strict=True)
    }
    ways |= {(b, a): line[::-1] for (a, b), line in ways.items()}
    over, beside = [], []
    for i, move in enumerate(moves):
        names, aside = (
            [x if "." in x else x.replace(" ", " 0.") for x in move.over],
            9.0 * (i - (n - 1) / 2),
        )
        if names[0] not in spots:  # a drive: below what it hangs on
            spots[names[0]] = spots[names[1]] + np.array([25.0, 34.0])
            beside.append((*(spots[names[0]] + 4.0), move.over[0], 0))
        # a copy within host memory stands beside its processor
        within, legs = (len({*names}) == 1, [])
        for a, b in itertools.pairwise(names):  # the port of a GPU is no part, but it is drawn
            ports = [m for m in spots if (a, m) in ways and (m, b) in ways][
                : not within and (a, b) not in ways
            ]
            legs += [
                ways.get(x, np.array([spots[k] for k in x]))
                for x in itertools.pairwise([a, *ports, b])
            ]
        over.append(np.concatenate(legs) + np.array([90 + 2.5 * aside if within else aside, 0.0]))
    key = np.array([COLOUR[k] for k in ("predicted", "failed", "other1", "other2")])[
        np.arange(n) % 4
    ]
    low = drawn.height + 12 + 20 * np.arange(n)
    x, y = (
        np.concatenate(
            [[line[-2:].mean(axis=0) for line in over], np.stack([0 * low + 18, low], axis=1)]
        ).T
        - 9
    )
    return {
        **{k: drawn.layers[k] for k in ("servers", "places", "margins")},
        "cables": replace(drawn.layers["cables"], fields={**cable, "alpha": 0.2}),
        "copies": lines(over, width=4.0, colour=key, names=words),
        "nodes": drawn.layers["nodes"],
        "numbers": boxes(
            x,
            y,
            18.0,
            18.0,
            colour=np.tile(key, 2),
            ink=ink_on(np.tile(key, 2)),
            round=9.0,
            texts=[str(i % n + 1) for i in range(2 * n)],
        ),
        "words": texts_at(
            *beside, *((34.0, float(y), word, 0) for y, word in zip(low, words, strict=True))
        ),
    }


def stacked(
    bars: list[Any], lanes: list[str], labels: list[str], said: str, table: Table | None = None
) -> Scene:
    """Return spans of time (lane, label, start, finish) as bars, with a sentence and a table, or one of the spans."""
    lane, label, start, finish = np.array(bars).T
    flows = Flows.make(lane, len(lanes), 0.0, label=label, labels=tuple(labels))
    made = timeline_scene(
        Timeline(
            start,
            finish,
            np.zeros(1),
            np.zeros(1),
            np.max(finish, keepdims=True),
            np.ones(1, np.int64),
            "model",
        ),
        flows,
        lanes.__getitem__,
    )
    table = table or Table(
        {"lane": [lanes[int(i)] for i in lane], "start [s]": start, "finish [s]": finish}
    )
    return replace(made, said=said, alt=said, table=table)
