"""Small networks and random programs of flows, for tests of the engines."""

import numpy as np
from hypothesis import strategies as st

from fabriclab import engines
from fabriclab.core import SPRAY, Changes, FabricBuilder, Flows, Routes
from support.oracles.routes import from_paths

inf = float("inf")


# cases by hand count in MiB: rates that parts have, and the same bits as with small whole numbers
MiB = 2.0**20


def made(source, target, size, *, limit=inf, **columns):
    """Return flows with sizes in MiB and limits in MiB/s."""
    return Flows.make(
        source, target, np.multiply(size, MiB), limit=np.multiply(limit, MiB), **columns
    )


def turns(time, link, capacity):
    """Return changes to capacities in MiB/s."""
    return Changes(time, link, np.multiply(capacity, MiB))


def line(*capacity, delay=0.0):
    """Return nodes in a row; link 2i goes from node i to node i + 1 with ``capacity[i]`` MiB/s."""
    builder = FabricBuilder(("host",), ("place",))
    n = len(capacity) + 1
    nodes = builder.add_nodes("host", n, tier=0, transit=True, place=np.arange(n))
    builder.add_cables(nodes[:-1], nodes[1:], capacity=np.multiply(capacity, MiB), delay=delay)
    return builder.build("line", {}, endpoint=nodes, rail=np.zeros(n), server=np.arange(n))


def run_line(capacity, paths, size, *, changes=None, delay=0.0, engine="flow", **columns):
    """Run flows on a line; flow i crosses the links 2p of ``paths[i]``."""
    fabric = line(*capacity)
    ends = [(p[0], p[-1] + 1) if p else (0, 0) for p in paths]
    flows = made([a for a, _ in ends], [b for _, b in ends], size, **columns)
    rows = [i for i, p in enumerate(paths) if p]
    routes = from_paths([[2 * k for k in paths[i]] for i in rows], flow=rows, delay=delay)
    return engines.run(fabric, routes, flows, engine, changes=changes)


def pack(rows):
    """Return ptr, link and use of rows given as lists of (link, use)."""
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(int)
    flat = [entry for row in rows for entry in row]
    return (
        ptr,
        np.array([k for k, _ in flat], dtype=int),
        np.array([u for _, u in flat], dtype=float),
    )


@st.composite
def programs(draw):
    """Return capacities, rows, flows and changes with small numbers, so that many things fall together."""
    n_links, n = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    whole = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    flows, rows = [], []
    for f in range(n):
        after = draw(st.lists(st.integers(0, f - 1), max_size=2, unique=True)) if f else []
        limit = draw(st.sampled_from([inf, inf, 2.0, 5.0]))
        flows.append(
            {
                "size": whole(0, 4) * 6.0,
                "start": whole(0, 2) * 1.0,
                "lag": draw(st.sampled_from([0.0, 0.5])),
                "after": after,
                "weight": draw(st.sampled_from([1.0, 1.0, 3.0])),
                "limit": limit,
            }
        )
        for share in draw(st.sampled_from([[1.0], [1.0], [0.5, 0.5], [0.75, 0.25]])):
            links = draw(
                st.dictionaries(
                    st.integers(0, n_links - 1), st.sampled_from([1.0, 0.5]), min_size=1, max_size=3
                )
            )
            rows.append(
                {
                    "flow": f,
                    "links": links,
                    "share": share,
                    "delay": draw(st.sampled_from([0.0, 0.25])),
                }
            )
    capacity = [float(whole(1, 8)) for _ in range(n_links)]
    changes = sorted(
        (whole(0, 12) / 2, whole(0, n_links - 1), float(whole(1, 8))) for _ in range(whole(0, 3))
    )
    return capacity, rows, flows, changes


def run_program(capacity, rows, flows, changes):
    columns = {
        k: [f[k] for f in flows] for k in ("size", "start", "lag", "after", "weight", "limit")
    }
    # The oracle knows no nodes: every flow goes from the first to the second.
    flows = made(0, 1, **columns)
    ptr, link, use = pack([list(row["links"].items()) for row in rows])
    kind, choice = np.full(len(rows), SPRAY), np.zeros(len(rows), bool)
    routes = Routes(
        ptr,
        link * 2,
        use,
        *([r[k] for r in rows] for k in ("flow", "share", "delay")),
        kind,
        choice,
    )
    times = np.array(changes).reshape(-1, 3)
    moved = turns(times[:, 0], times[:, 1].astype(int) * 2, times[:, 2])
    return engines.run(line(*capacity), routes, flows, changes=moved), routes, flows
