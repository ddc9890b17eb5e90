"""Topologies: families of fabrics, each one file that registers itself; fabrics of graphs, and copies of a server.

Examples
--------
>>> from fabriclab import topologies
>>> topologies.build("leaf_spine", hosts=64, radix=16).summary()
{'host': 64, 'leaf': 8, 'spine': 4, 'cables': 128, 'ranks': 64, 'servers': 64}
"""

import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import registry, units
from fabriclab.core import Fabric, check_size
from fabriclab.core.fabric import LINK_ARRAYS, NODE_ARRAYS

__all__ = ["build", "compose", "from_networkx", "names", "two_wirings"]


def names() -> tuple[str, ...]:
    """Return the names of all families."""
    return registry.names("topology")


def build(family: str, /, **arguments: Any) -> Fabric:
    """Return a fabric of one family.

    Parameters
    ----------
    family : str
        One of `names`.
    **arguments
        Arguments of the family, by name: sizes as whole numbers, rates, times and lengths as SI numbers
        or strings with a unit. ``fabriclab.registry.get("topology", family)`` has their documentation.

    Returns
    -------
    Fabric
        Its text form is the call that built it.

    Raises
    ------
    ValueError
        If there is no such family, or a value is outside what it can build.
    TypeError
        If an argument is missing or unknown.
    TooLarge
        If the fabric needs more memory than there is.
    """
    function = registry.get("topology", family)
    signature = inspect.signature(function)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise TypeError(
            f"{family}: {error}; its arguments are {', '.join(signature.parameters)}"
        ) from None
    asked = {
        k: v.item() if isinstance(v, (np.generic, np.ndarray)) and not v.ndim else v
        for k, v in arguments.items()
    }
    fabric: Fabric = function(**asked)
    call = ", ".join([repr(family), *(f"{k}={v!r}" for k, v in asked.items())])
    return fabric.shown_as(f"topologies.build({call})", family=family, asked=asked)


def two_wirings(servers: int = 128, gpus: int = 8, radix: int = 64) -> dict[str, Fabric]:
    """Return two networks of the same servers, switches and cables: wired by rail, and wired by rack.

    By rail a leaf takes the NICs with one number, of ``radix / 2`` servers; by rack it takes all NICs of a few
    neighbouring servers, as in a fat tree. Both have as many ports up as down. NICs are the endpoints: the inside of
    a server is left out.

    Parameters
    ----------
    servers : int
        Servers; a multiple of ``radix / 2`` fills all leaves. >= 1
    gpus : int
        GPUs of a server, each with one NIC; ``radix / 2`` should be a multiple of it. 1..radix // 2
    radix : int
        Ports of a switch. >= 2

    Returns
    -------
    dict
        ``{"by rail": Fabric, "by rack": Fabric}``; rank r is NIC r modulo ``gpus`` of server r // ``gpus`` in both.

    Raises
    ------
    ValueError
        If a leaf has too few ports for a server, the servers need more than three tiers, or the two wirings would
        need different numbers of switches or cables.

    Examples
    --------
    >>> for name, fabric in two_wirings(servers=8, gpus=4, radix=16).items():
    ...     print(name, fabric.summary())
    by rail {'nic': 32, 'leaf': 4, 'spine': 2, 'cables': 64, 'ranks': 32, 'servers': 8}
    by rack {'nic': 32, 'leaf': 4, 'spine': 2, 'cables': 64, 'ranks': 32, 'servers': 8}
    """
    n, g, ports = (
        units.count(servers, "servers"),
        units.count(gpus, "gpus"),
        units.count(radix, "radix", 2),
    )
    down = ports // 2
    if g > down:
        raise ValueError(
            f"gpus must be within 1..{down}, since by rack one leaf takes all NICs of a server and has {down} of its "
            f"{ports} ports for them, got {g}; take radix={2 * g} and a multiple of {g} servers"
        )

    size = {"servers": n, "gpus": g, "radix": ports, "expand": False}
    rack = build("rail_optimised", rails=1, **size)
    rail = build("rail_optimised", rails=g, **size)
    if rail.summary() != rack.summary():
        raise ValueError(
            f"servers, gpus and radix must need the same parts for both wirings; servers={n}, gpus={g}, radix={ports} "
            f"need {_parts(rail)} by rail, but {_parts(rack)} by rack; {_filling(n, g, down)}"
        )
    return {"by rail": rail, "by rack": rack}


def _parts(fabric: Fabric) -> str:
    """Return the switches and cables of a fabric in words."""
    made = fabric.summary()
    tiers = [f"{made[kind]} {kind} switches" for kind in ("leaf", "spine", "core") if kind in made]
    return ", ".join([*tiers, f"{made['cables']} cables"])


def _filling(servers: int, gpus: int, down: int) -> str:
    """Return what to write so that all leaves with ``down`` ports for NICs are full in both wirings."""
    if down % gpus:
        more = -(-down // gpus) * gpus
        return f"take radix={2 * more} and a multiple of {more} servers, which fill all leaves"
    more = -(-servers // down) * down
    return f"take servers={more} or another multiple of {down}, which fill all leaves"


def from_networkx(
    graph: Any, capacity: units.Quantity | None = None, *, endpoints: str = "endpoint"
) -> Fabric:
    """Return a graph as a fabric: an edge is a cable, and in a directed graph one of the two links of a cable.

    Leaves out names, coordinates, media and lengths. Nodes are numbered in the order of ``graph.nodes``, and so are
    the ranks. A node that is an endpoint is a host unless it has other attributes; any other is a switch.

    Parameters
    ----------
    graph : networkx.Graph or a subclass
        Connected. Edges may have ``capacity`` (``"400 Gb/s"`` or [B/s]), ``delay`` (``"1 us"`` or [s]) and ``ports``;
        nodes ``kind``, ``tier``, ``transit``, ``radix``, and endpoints ``server`` and ``rail``.
    capacity : float or str, optional
        Rate of the edges that have none of their own. [B/s]
    endpoints : str
        Node attribute that is true for endpoints.

    Raises
    ------
    ValueError
        If the graph is in parts or has no endpoint, only some endpoints have a server, an edge has no rate, a rate
        that cannot be, or the same node at both ends, or a directed edge has none that leads back.

    Examples
    --------
    >>> import networkx as nx
    >>> graph = nx.cycle_graph(4)
    >>> nx.set_node_attributes(graph, {0: True, 2: True}, "endpoint")
    >>> from_networkx(graph, "400 Gb/s").summary()
    {'host': 2, 'switch': 2, 'cables': 4, 'ranks': 2, 'servers': 2}
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise TypeError(
            f"graph must be a networkx graph, got {type(graph).__name__}; build one with networkx.Graph()"
        )
    found = (
        nx.weakly_connected_components(graph)
        if graph.is_directed()
        else nx.connected_components(graph)
    )
    parts = sorted(found, key=len)
    if len(parts) != 1:
        lone = f", such as the {len(parts[0])} nodes with {next(iter(parts[0]))!r}" if parts else ""
        raise ValueError(
            f"graph must be connected, got {len(parts)} parts{lone}; join them, or make a fabric of each"
        )
    is_end = np.array([bool(d.get(endpoints)) for _, d in graph.nodes(data=True)])
    if not is_end.any():
        msg = f"graph must have endpoints, got no node whose attribute {endpoints!r} is true; set it with "
        raise ValueError(
            msg + f"networkx.set_node_attributes(graph, {{node: True, ...}}, {endpoints!r})"
        )

    bare = [node for node, d in graph.nodes(data=True) if d.get(endpoints) and "server" not in d]
    if 0 < len(bare) < is_end.sum():
        raise ValueError(
            f"server must be set for all endpoints or for none, got none for {bare[0]!r}; set it too"
        )

    def of_nodes(name: str, default: Iterable[Any]) -> list[Any]:
        return [d.get(name, x) for (_, d), x in zip(graph.nodes(data=True), default, strict=True)]

    n, end = is_end.size, np.flatnonzero(is_end).astype(np.int32)
    kind = of_nodes("kind", np.where(is_end, "host", "switch").tolist())
    kinds = tuple(dict.fromkeys(kind))
    return Fabric(
        kinds=kinds,
        kind=np.array([kinds.index(k) for k in kind]),
        coord_names=("index",),
        coord=np.arange(n, dtype=np.int32)[:, None],
        tier=np.array(of_nodes("tier", np.where(is_end, 0, 1))),
        transit=np.array(of_nodes("transit", ~is_end)),
        radix=np.array(of_nodes("radix", [0] * n)),
        media=("cable",),
        endpoint=end,
        rail=np.array(of_nodes("rail", [0] * n))[end],
        server=np.array(of_nodes("server", np.cumsum(is_end) - 1))[end],
        family="from_networkx",
        **_links(graph, capacity),
    )


def _links(graph: Any, capacity: units.Quantity | None) -> dict[str, Any]:
    """Return the columns of all links, the two of each cable side by side."""
    names, rows = list(graph), []
    number = {name: i for i, name in enumerate(names)}
    for u, v, d in graph.edges(data=True):
        edge, rate = f"of the edge {u!r} - {v!r}", d.get("capacity", capacity)
        if u == v:
            raise ValueError(
                f"graph must have no edge from a node to itself, got one at {u!r}; remove it"
            )
        if rate is None:
            raise ValueError(
                f"capacity {edge} is missing; set it (capacity='400 Gb/s'), or give one for all without"
            )
        rate = units.rate(rate, f"capacity {edge}", may_be_zero=True)
        delay = units.latency(d.get("delay", 0.0), f"delay {edge}")
        rows.append((number[u], number[v], rate, delay, d.get("ports", 1)))
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    if not graph.is_directed():
        table = np.repeat(table, 2, axis=0)
        table[1::2, :2] = table[1::2, 1::-1]
    a, b = table[:, :2].astype(np.int64).T
    if graph.is_directed():
        key = np.minimum(a, b) * len(names) + np.maximum(a, b)
        there, back = (
            x[np.argsort(key[x], kind="stable")]
            for x in (np.flatnonzero(a < b), np.flatnonzero(a > b))
        )
        if lone := [
            (u, v)
            for u, v in graph.edges()
            if graph.number_of_edges(u, v) != graph.number_of_edges(v, u)
        ]:
            u, v = lone[0]
            msg = f"graph must have as many edges from {u!r} to {v!r} as back: a cable has two directions; add the "
            raise ValueError(
                msg + "other one (capacity=0, if it is dead), or give an undirected graph"
            )
        table = table[np.stack([there, back], axis=1).ravel()]
    columns = dict(zip(("source", "target", "capacity", "delay", "ports"), table.T, strict=True))
    return {**columns, "medium": 0 * table[:, 0], "length": 0 * table[:, 0]}


def compose(server: Fabric, fabric: Fabric, count: int) -> Fabric:
    """Return ``count`` copies of a server, joined by a fabric: endpoint s q + i of it becomes NIC i of server s.

    q is the number of NICs of a server, its nodes of the kind ``nic``; the cables of an endpoint then hang on the
    NIC. Ranks are those of the servers, copy by copy. GPU j of g has the rail of NIC j q // g, so that each NIC
    serves GPUs of neighbouring numbers. Switches of the fabric stand above the NICs. All nodes of a copy have its
    number as the coordinate ``server``; of a rack, whose nodes are in several servers already, those are counted on.

    Parameters
    ----------
    server : Fabric
        GPUs as endpoints, and NICs that let traffic pass, such as ``topologies.build("dgx_h100")``.
    fabric : Fabric
        Any network whose endpoints are NICs or hosts, ``count`` times q of them.
    count : int
        Number of servers. >= 1

    Raises
    ------
    ValueError
        If the server has no NIC that lets traffic pass, or the fabric has another number of endpoints.
    TooLarge
        If the result needs more memory than there is.
    """
    for name, value in (("server", server), ("fabric", fabric)):
        if not isinstance(value, Fabric):
            raise TypeError(
                f"{name} must be a Fabric, got {value!r:.80}; make one with topologies.build(...)"
            )
    n, nodes = units.count(count, "count"), server.n_nodes
    nic = server.nodes("nic") if "nic" in server.kinds else np.zeros(0, np.int64)
    if not nic.size or not server.transit[nic].all():
        msg = f"server must have nodes of the kind 'nic' that let traffic pass, got the kinds {', '.join(server.kinds)}"
        raise ValueError(msg + "; take a server of topologies.names(), or add NICs to yours")
    if fabric.n_ranks != n * nic.size:
        msg = f"fabric must have {n * nic.size} endpoints ({n} servers with {nic.size} NICs each), got {fabric.n_ranks}"
        raise ValueError(msg + "; build it for as many hosts, or change count")
    rest = np.setdiff1d(np.arange(fabric.n_nodes), fabric.endpoint)
    check_size(
        f"a fabric of {n} servers", n * nodes + rest.size, n * server.n_cables + fabric.n_cables
    )
    first = np.arange(n)[:, None] * nodes  # node 0 of every copy
    place = np.zeros(fabric.n_nodes, dtype=np.int64)
    place[rest], place[fabric.endpoint] = n * nodes + np.arange(rest.size), (first + nic).ravel()

    def both(name: str, keep: Any = slice(None)) -> NDArray[Any]:
        return np.concatenate([np.tile(getattr(server, name), n), getattr(fabric, name)[keep]])

    column: dict[str, Any] = {k: both(k, rest) for k in NODE_ARRAYS} | {
        k: both(k) for k in LINK_ARRAYS
    }
    inside, links = n * nodes, n * server.n_links
    column["tier"][inside:] += server.tier[nic].max()
    for name in ("source", "target"):
        column[name] = np.concatenate(
            [(first + getattr(server, name)).ravel(), place[getattr(fabric, name)]]
        )
    kinds, column["kind"][inside:] = _joined(server.kinds, fabric.kinds, column["kind"][inside:])
    media, column["medium"][links:] = _joined(server.media, fabric.media, column["medium"][links:])
    names = [*["server"] * ("server" not in fabric.coord_names), *fabric.coord_names]
    names = list(dict.fromkeys([*names, *server.coord_names]))
    coord = np.full((inside + rest.size, len(names)), -1)
    coord[:inside, [names.index(c) for c in server.coord_names]] = np.tile(server.coord, (n, 1))
    coord[inside:, [names.index(c) for c in fabric.coord_names]] = fabric.coord[rest]
    each = int(server.server.max(initial=0)) + 1  # servers of a copy: a rack has several
    copy = np.repeat(np.arange(n) * each, nodes)
    coord[:inside, names.index("server")] = copy + np.maximum(
        coord[:inside, names.index("server")], 0
    )
    near = np.arange(server.n_ranks) * nic.size // server.n_ranks
    joined = Fabric(
        kinds=kinds,
        media=media,
        coord=coord,
        coord_names=tuple(names),
        **column,
        endpoint=(first + server.endpoint).ravel(),
        rail=fabric.rail.reshape(n, -1)[:, near].ravel(),
        server=(np.arange(n)[:, None] * each + server.server).ravel(),
        family="compose",
        asked={"server": server.family, "fabric": fabric.family, "count": n},
    )
    calls = server.call and fabric.call
    return (
        joined.shown_as(f"topologies.compose({server.call}, {fabric.call}, {n})")
        if calls
        else joined
    )


def _joined(
    one: tuple[str, ...], other: tuple[str, ...], code: NDArray[Any]
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Return the names of both and what the numbers ``code`` of the other become; a name not in use is left out."""
    used = np.unique(code)
    names = tuple(dict.fromkeys([*one, *(other[i] for i in used)]))
    return names, np.array([names.index(other[i]) for i in used])[np.searchsorted(used, code)]
