"""Live views of switches that add: packets in a pipeline, the pool, integers for floats, trees for jobs, what pays."""

from functools import cache, reduce
from typing import Any

import numpy as np

from fabriclab import topologies, units
from fabriclab.core import Result
from fabriclab.errors import OutOfSlots
from fabriclab.innetwork import MULTICAST, REPLY, Switch, trees
from fabriclab.innetwork.aggregation import LARGEST, Aggregator, Worker
from fabriclab.innetwork.compare import HOSTS, Way, compare, program
from fabriclab.innetwork.quantisation import block_scale, dequantise, error_bound, quantise
from fabriclab.texts import text
from fabriclab.views.fabrics import scene_of
from fabriclab.views.live.widget import Choice, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, ink_on, lines, texts
from fabriclab.views.sweeps import curve, sweep_scene

# What reaches a switch: worker and chunk; "-": lost on its way there, "/A": the answer to A is lost.
_STORIES = {
    "all well": "A0 B0 A1 B1 A2 B2",
    "a packet is lost": "A0- B0 B0 A0 A1 B1 A2 B2",
    "a result is lost": "A0 B0/A B1 A0 A1 A2 B2",
    "a packet comes twice": "A0 A0 B0 A1 B1 A2 B2",
    "a copy comes late": "A0 B0 A1 B1 A0 B2 A2",
}
_X = 72.0 + 46.0 * np.arange(6) + 16.0 * (np.arange(6) // 2)  # of cells [px]
_PARTS = ("seen", "left", "sums")
_LINK = 12.5e9  # illustrative: a link of 100 Gb/s
_HOSTS, _VALUES = 16, 256  # of a block


def packets(
    recognise: Any = None, *, keeps: str = "last chunks", story: str = "all well", step: int = 0
) -> Live:
    """Step through packets of two workers in a switch: what each finds in the registers of a slot, and leaves there.

    Worker A adds 1, 2 and 3 in its three chunks, B adds 10, 20 and 30. Even chunks use version 0 of the slot, odd
    ones version 1. The order of packets is that of the story, whatever the switch answers.

    Parameters
    ----------
    recognise : callable, optional
        The learner's own ``recognise`` of `fabriclab.innetwork.aggregation.Aggregator`, shown as "yours".
    keeps : str
        What the switch keeps of those who have sent: "last chunks", "bitmaps" as published, or "yours".
    story : str
        What the network does: all well, a packet or a result is lost, a packet comes twice, a copy comes late.
    step : int
        How many packets have been sent; beyond the last one nothing follows. 0..8
    """
    kinds = ("yours",) * (recognise is not None) + ("last chunks", "bitmaps")

    def scene(keeps: str, story: str, step: int) -> Scene:
        made = Aggregator(2, 1, lanes=1, published=keeps == "bitmaps")
        made.recognise = recognise if keeps == "yours" else made.recognise  # type: ignore[method-assign]
        switch, team = (
            Switch(made),
            [Worker(i, 10**i * np.arange(1, 4)[:, None], 1) for i in range(2)],
        )
        cells, what, wrong, events = [_cells(switch)], [], [], _STORIES[story].split()[:step]
        for event in events:
            right, packet = (
                11 * (int(event[1]) + 1),
                team["AB".index(event[0])].packet(int(event[1])),
            )
            out = None if event[2:] == "-" else switch.one(*packet)
            cells.append(_cells(switch))
            kind, value = (
                "lost" if out is None else "added" if cells[-1] != cells[-2] else "nothing",
                0,
            )
            if out and out.action in (MULTICAST, REPLY):
                kind, value = "sum" if out.action == MULTICAST else "again", int(out.payload[0])
            wrong.append(value not in (0, right))
            words = (
                text(f"live.packets.{kind}", value=value)
                + text("live.packets.wrong", right=right) * wrong[-1]
            )
            what.append(words + text("live.packets.missed") * ("/" in event))
        n, most, names = (
            len(events),
            len(_STORIES[story].split()),
            [f"{e[0]} {e[1]}" for e in events],
        )
        said = text(
            "live.packets.said", keeps=keeps, story=story, step=n, all=most, wrong=sum(wrong)
        )
        said += " " + text("live.packets.last", who=names[-1], what=what[-1]) if events else ""
        y, held, last = 58 + 26.0 * np.arange(n), np.array(cells), np.arange(n) == n - 1
        key = np.where(wrong, COLOUR["failed"], np.where(last, COLOUR["predicted"], COLOUR["grey"]))
        full = np.where(held[1:] != held[:-1], key[:, None], COLOUR["none"]).ravel()
        stage = {r.name: r.stage for r in switch.accessed}
        heads = [text(f"live.packets.{r}", stage=stage.get(r, "-")) for r in _PARTS]
        heads += [*(("v0", "v1") if keeps == "bitmaps" else "AB"), *["v0", "v1"] * 2]
        layers = {
            "heads": texts(
                np.append(_X[::2] + 44, _X + 21),
                np.repeat([12, 38], [3, 6]),
                heads,
                align=1.0,
                size=11.0,
            ),
            "cells": boxes(
                np.tile(_X, n),
                np.repeat(y, 6),
                42.0,
                20.0,
                colour=full,
                edge=COLOUR["grey"],
                texts=held[1:].ravel().tolist(),
                ink=np.where(full < 0, COLOUR["ink"], ink_on(full)),
            ),
            "actors": boxes(
                0 * y + 12, y, 42.0, 20.0, colour=key, ink=ink_on(key), texts=names, names=names
            ),
            "what": texts(_X[-1] + 68, y + 10, what, bold=last * 1.0),
            "movers": Layer(
                "movers",
                {
                    **lines([np.array([[33, v], [_X[-1] + 55, v]]) for v in y[-1:] + 10]).fields,
                    "w": 12.0,
                    "h": 12.0,
                    "colour": COLOUR["predicted"],
                },
            ),
        }
        columns = {
            k: [" | ".join(c[2 * i : 2 * i + 2]) for c in cells[1:]] for i, k in enumerate(_PARTS)
        }
        table = Table({"who": names, **columns, "what": what}) if n else None
        return Scene(said, table, layers, 274.0, f"{said} {'; '.join(what)}", moves=n > 0)

    return live_view(
        "packets",
        locals(),
        scene,
        {"keeps": Choice(kinds), "story": Choice(tuple(_STORIES)), "step": Slider(0, 8, play=True)},
        held=("recognise",),
    )


def _cells(switch: Switch) -> list[str]:
    """Return what the registers of slot 0 hold: who has sent, how many are left, and the sums."""
    # so far apart are versions, and workers
    s, step = (switch.state, switch.state["left_a"].size // 2)
    bits = [
        "".join(w for k, w in enumerate("AB") if s[f"seen_{v}"][0] >> k & 1)
        for v in "ab"
        if "seen_b" in s
    ]
    last = [
        str(v - 1) if v else ""
        for v in s.get("seen_a", np.zeros(2 * step, int))[: 2 * step : step].tolist()
    ]
    return [
        *(bits or last),
        *map(str, s["left_a"][::step].tolist()),
        *map(str, s["sums_a"][::step, 0].tolist()),
    ]


# illustrative: a delay of 1 us, which the slider changes
def pool(slots: float = 16, delay: float = 1, jobs: int = 1) -> Live:
    """Show which rate the slots of a programmable switch allow each of 16 workers on links of 100 Gb/s.

    Parameters
    ----------
    slots, delay, jobs : float, float, int
        Of the pool, 8..1024; of each link, 0.1..10 [us]; how many share the pool, each with its own workers, 1..8.
    """

    def scene(slots: float, delay: float, jobs: int) -> Scene:
        star = topologies.build("crossbar", hosts=_HOSTS, rate=_LINK, delay=delay * 1e-6)
        # close enough to show where it is full
        at = np.append(np.round(2.0 ** np.arange(3, 10.1, 0.25)), slots)
        grown = [
            trees.grow(star, range(_HOSTS), program(_HOSTS, _HOSTS, jobs, slots=int(k))) for k in at
        ]
        ways = [trees.shared([tree] * jobs)[0] for tree in grown]
        rate, wire = [w.limit() for w in ways], ways[0].mode.payload + ways[0].mode.header
        # the switch's packets, too
        trip, most = (ways[0].round_trip(wire), min(_LINK, wire / ways[0].mode.seconds))
        figures = {
            "rate": units.format_rate(rate[-1]),
            "trip": units.format_time(trip),
            "jobs": jobs,
        }
        said = text(
            "live.pool.said",
            slots=int(slots) // jobs,
            need=int(np.ceil(most * trip / wire)),
            **figures,
        )
        return curve(
            "live.pool", "slots", "rate", at, (rate, np.full(at.size, most)), said, (1e7, 1.5e10)
        )

    delays = Slider(0.1, 10, unit="us", log=True)
    return live_view(
        "pool", locals(), scene, {"slots": Slider(8, 1024), "delay": delays, "jobs": Slider(1, 8)}
    )


def quantisation(bits: int = 20, largest: int = 3, workers: int = 8) -> Live:
    """Show the error of sums of floats as integers, against the scale by which the floats are multiplied.

    What leaves 32 bits stays at the largest or smallest integer.

    Parameters
    ----------
    bits, largest, workers : int
        The scale is two to the ``bits``, 4..36; one of the numbers is two to the ``largest``, 3..20, the others are
        about 1; how many workers, 2..32.
    """

    def scene(bits: int, largest: int, workers: int) -> Scene:
        values = np.random.default_rng(0).standard_normal((workers, 1, _VALUES)).astype(np.float32)
        values[0, 0, 0] = 2.0**largest
        at, error, whole = (
            2.0 ** np.append(np.arange(4, 37), bits),
            [],
            values.sum(axis=0, dtype=np.float64),
        )
        for scale in at:
            sent = quantise(values, [scale]).astype(np.int64)
            total = reduce(lambda a, b: np.clip(a + b, -LARGEST - 1, LARGEST), sent)
            error.append(float(np.abs(dequantise(total, [scale]) - whole).max()))
        bound, agreed = error_bound(workers, at), float(block_scale(values)[0])
        figures = {
            "error": f"{error[-1]:.2g}",
            "bound": f"{bound[-1]:.2g}",
            "agreed": f"{np.log2(agreed):.1f}",
        }
        said = text(
            "live.quantisation.said",
            bits=bits,
            best=f"{error_bound(workers, agreed):.2g}",
            **figures,
        )
        return curve("live.quantisation", "scale", "error", at, (error, bound), said)

    return live_view(
        "quantisation",
        locals(),
        scene,
        {"bits": Slider(4, 36), "largest": Slider(3, 20), "workers": Slider(2, 32)},
    )


def tenants(jobs: int = 4, mode: str = "streaming", quota: int = 1) -> Live:
    """Show the aggregation trees of jobs on a fat tree with 16 hosts, and who gets none.

    Parameters
    ----------
    jobs, quota : int
        How many, each on every fifth host, 1..5; trees of a switch, 1 or 2.
    mode : str
        Of all jobs: streaming or low latency.
    """
    fabric = topologies.build("fat_tree", k=4)

    def scene(jobs: int, mode: str, quota: int) -> Scene:
        manager, without = trees.Manager(fabric, trees=quota), dict[str, str]()
        for first, job in enumerate("ABCDE"[:jobs]):
            try:
                manager.start(job, range(first, _HOSTS, 5), streaming=mode == "streaming")
            except OutOfSlots as refused:
                without[job] = str(refused)
        got = manager.jobs.items()
        load = np.sum(
            [np.bincount([*t.links, *t.links ^ 1], minlength=fabric.n_links) for _, t in got],
            axis=0,
        )
        roots = ", ".join(f"{job}: {fabric.name(int(t.switches[-1]))}" for job, t in got)
        said = text("live.tenants.said", n=len(got), jobs=jobs, roots=roots, most=load.max())
        if without:
            said += " " + text(
                "live.tenants.refused", list=", ".join(without), why=next(iter(without.values()))
            )
        return scene_of(fabric, load / load.max(), said=said)

    modes = Choice(("streaming", "low latency"))
    return live_view(
        "tenants", locals(), scene, {"jobs": Slider(1, 5), "mode": modes, "quota": Choice((1, 2))}
    )


def pays(jobs: int = 1, loss: float = 0.0, converts: str = "as fast as it sends") -> Live:
    """Show the time of an all-reduce over size by the best of hosts' ways and in the network.

    Parameters
    ----------
    jobs, loss : int, float
        That run at once on 16 hosts, 1, 2 or 4; probability for each packet on each link.
    converts : str
        Rate at which a host makes integers of floats and back, for the programmable switch.
    """
    sizes, fabric = (
        8.0 ** np.arange(1.0, 11.0),
        topologies.build("leaf_spine", hosts=_HOSTS, radix=8),
    )

    @cache  # a way back shows at once
    def at(jobs: int, loss: float, host: float) -> list[dict[str, Way]]:
        return [compare(fabric, s, jobs=jobs, loss=loss, host=host) for s in sizes]

    def scene(jobs: int, loss: float, converts: str) -> Scene:
        host, words = np.inf if "as" in converts else units.rate(converts), list[str]()
        ways = at(jobs, loss, host)
        times = {"hosts": np.array([min(w[name].time for name in HOSTS) for w in ways])}
        times |= {
            k.replace("_", " "): np.array([w[k].time for w in ways])
            for k in ways[0]
            if k not in HOSTS
        }
        for name in [*times][1:]:
            low, *_, high = [
                units.format_size(s) for s in sizes[times[name] < times["hosts"]]
            ] * 2 or ["", ""]
            words.append(
                text(f"live.pays.{'range' if low else 'never'}", way=name, low=low, high=high)
            )
        drawn = {
            k: Result("all_reduce", "predicted", sizes, time, _HOSTS // jobs)
            for k, time in times.items()
        }
        return sweep_scene(drawn, said=text("live.pays.said", list=" ".join(words)))

    # illustrative: fast and slow processors
    rates = Choice(("as fast as it sends", "10 GB/s", "2 GB/s"))
    losses = Choice((0.0, 0.001, 0.01, 0.05))
    return live_view(
        "pays", locals(), scene, {"jobs": Choice((1, 2, 4)), "loss": losses, "converts": rates}
    )
