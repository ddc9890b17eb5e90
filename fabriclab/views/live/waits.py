"""Live views of links: what a message's latency is made of, and what it takes to keep data in slower memory."""

from pathlib import Path

import numpy as np

from fabriclab import catalog
from fabriclab.catalog.tables import read_rows
from fabriclab.physics import memory
from fabriclab.texts import text
from fabriclab.views.live.rdma import stacked
from fabriclab.views.live.widget import Choice, Live, Slider, Table, live_view
from fabriclab.views.scene import Scene

# Facts of each part of a message's way: the least and the most count.
_FACTS = read_rows(Path(__file__).with_name("latency.csv"))
_SEQUENCES = 16  # illustrative: served at once
_STATE = 12  # illustrative: bytes of optimiser state of a parameter


def latency(
    way: str = "InfiniBand, RDMA",
    switches: int = 2,
    metres: float = 5.0,  # illustrative: a cable
) -> Live:
    """Show what the latency of a small message between two servers is made of, at least and at most.

    The message's own bytes, waiting in queues and lost packets are left out.

    Parameters
    ----------
    way : str
        Kind of the switches, and what the protocol stack is.
    switches, metres : int, float
        On the way, 0..6; length of each cable, 1..1000 [m].
    """

    def scene(way: str, switches: int, metres: float) -> Scene:
        net, _, stack = way.partition(", ")
        times = {
            stack: 1,
            "adapters": 1,
            net: switches,
            "coding": switches + 1,
            "cables": (switches + 1) * metres,
        }
        rows = [
            [
                s
                for r in _FACTS
                if r["part"] == part
                for s in getattr(catalog, r["table"])[r["id"]].specs
                if s.attribute == r["attribute"]
            ]
            for part in times
        ]
        ends = [[x for s in row for x in s.ends] for row in rows]
        low, high = np.array([[min(e), max(e)] for e in ends]).T * list(times.values())
        names = [
            text(f"live.latency.{k}")
            for k in ("stack", "nic", "switch", "code", "metre", "least", "most")
        ]
        bars = [
            (lane, i, end - t, end)
            for lane, part in enumerate((low, high))
            for i, (t, end) in enumerate(zip(part, np.cumsum(part), strict=True))
            if t
        ]
        sums, most = {"low": low.sum(), "high": high.sum()}, names[high.argmax()]
        said = text("live.latency.said", way=way, n=switches, metres=metres, part=most, **sums)
        sources = [
            " ".join(dict.fromkeys(f"{s.source} ({s.evidence})" for s in row)) for row in rows
        ]
        table = Table({"part": names[:5], "least [s]": low, "most [s]": high, "source": sources})
        return stacked(bars, names[5:], names[:5], said, table)

    ways = Choice(("InfiniBand, RDMA", "Ethernet, RDMA", "Slingshot, RDMA", "Ethernet, kernel TCP"))
    return live_view(
        "latency",
        locals(),
        scene,
        {"way": ways, "switches": Slider(0, 6), "metres": Slider(1, 1000, unit="m", log=True)},
    )


def tiers(weights: str = "HBM", cache: str = "HBM", optimiser: str = "HBM") -> Live:
    """Show what a GPU waits for weights, KV cache and optimiser state in the memory tiers where they lie.

    A GPU of the running case: serving, it reads its weights and the KV cache of 16 whole sequences for each token;
    training, it reads and writes its optimiser state, 12 B a parameter (both illustrative), once a step. What is not
    in HBM comes at the rate of the tier or of a copy from the host. Computing and overlap are left out.

    Parameters
    ----------
    weights, cache, optimiser : str
        Tiers: HBM, DDR or CXL.
    """
    c, copy = catalog.case(), catalog.value("memory_path", "h2d", "bandwidth")
    rates = {
        t: memory.tier(t)[1] if t == "HBM" else min(memory.tier(t)[1], copy)
        for t in ("HBM", "DDR", "CXL")
    }
    # of a sequence
    token = 2 * c.layers * c.kv_heads * c.head_dim * c.gradient_bytes * c.sequence / c.tp
    size = np.array(
        [c.parameters * c.gradient_bytes / c.tp, _SEQUENCES * token, _STATE * c.parameters / c.gpus]
    )

    def scene(**tier: str) -> Scene:
        rate = np.array([rates[t] for t in tier.values()])
        time, names = (
            size * [1, 1, 2] / rate,
            [text(f"live.tiers.{k}") for k in (*tier, "token", "step")],
        )
        bars = [(0, 0, 0.0, time[0]), (0, 1, time[0], time[:2].sum()), (1, 2, 0.0, time[2])]
        said = text(
            "live.tiers.said",
            token=time[:2].sum(),
            rate=1 / time[:2].sum(),
            n=_SEQUENCES,
            state=time[2],
            part=100 * time[2] / c.t_step,
            held=np.sum(size * (rate > copy)),
        )
        table = {
            "what": names[:3],
            "tier": [*tier.values()],
            "size [B]": size,
            "rate [B/s]": rate,
            "time [s]": time,
        }
        return stacked(bars, names[3:], names[:3], said, Table(table))

    return live_view(
        "tiers",
        locals(),
        scene,
        dict.fromkeys(("weights", "cache", "optimiser"), Choice((*rates,))),
    )
