"""Build networks by the name of their topology, from a networkx graph, or by joining copies of a server.

Each topology is a function that registers itself; `names` lists them.

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

from fabriclab import registry, spelling, units
from fabriclab.core import Fabric
from fabriclab.topologies.clusters import compose

# What else people call an argument.
_OTHER_WORDS = {"taper": "oversubscription"}

__all__ = ["build", "compose", "from_lines", "from_networkx", "names", "two_wirings"]


def names() -> tuple[str, ...]:
    """Return the names of all topologies that `build` knows."""
    return registry.names("topology")


def build(family: str, /, **arguments: Any) -> Fabric:
    """Build a network by the name of its topology.

    ``build("dragonfly", p=4, a=8, h=4)`` connects 1,056 GPUs; `names` lists the topologies. Most of them connect hosts
    with one port each, or with ``gpus`` (and ``servers``) the same servers that rails have:
    ``build("leaf_spine", servers=32, gpus=8)``. `compose` joins any other server to any network.

    Parameters
    ----------
    family : str
        Name of the topology, one of `names`.
    **arguments
        Arguments of the topology, by name: sizes as whole numbers; rates, times and lengths as SI numbers
        or strings with a unit. ``help(fabriclab.registry.get("topology", family))`` describes them. ``taper`` is
        another word for ``oversubscription``.

    Returns
    -------
    Fabric
        The network. Its text form is the call that built it.

    Raises
    ------
    ValueError
        If there is no such topology, or a value is outside the range that it can build.
    TypeError
        If an argument is missing or unknown.
    TooLarge
        If the network needs more memory than this machine has.
    """
    family = registry.find("topology", family)
    function = registry.get("topology", family)
    signature = inspect.signature(function)
    arguments = _spelled(arguments, signature)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        listed = ", ".join(signature.parameters)
        questions = [
            spelling.near(name, signature.parameters)
            for name in arguments
            if name not in signature.parameters
        ]
        raise TypeError(
            f"{family}: {error}; its arguments are {listed}{''.join(questions)}"
        ) from None
    asked = {name: _plain(value) for name, value in arguments.items()}
    fabric: Fabric = function(**asked)

    words = [repr(family)]
    for name, value in asked.items():
        words.append(f"{name}={value!r}")
    call = f"topologies.build({', '.join(words)})"
    return fabric.shown_as(call, family=family, asked=asked)


def _spelled(arguments: dict[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return the arguments under the names of the signature, where another word or spelling was used."""
    spelled: dict[str, Any] = {}
    for given, value in arguments.items():
        word = _OTHER_WORDS.get(given, given)
        name = spelling.find(word, signature.parameters) or given
        if name in spelled:
            raise TypeError(
                f"{name} must be given once, got it in two spellings; leave out {given}"
            )
        spelled[name] = value
    return spelled


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python number, and anything else unchanged."""
    if isinstance(value, (np.generic, np.ndarray)) and not value.ndim:
        return value.item()
    return value


def two_wirings(servers: int = 128, gpus: int = 8, radix: int = 64) -> dict[str, Fabric]:
    """Wire the same servers, switches and cables twice, by rail and by rack, and return both networks.

    Wired by rail, a leaf takes the NICs with the same number from ``radix / 2`` servers; wired by rack, it takes all
    NICs of a few neighbouring servers, as in a fat tree. In both, leaves have as many ports up as down. The NICs are
    the endpoints; the inside of a server is left out.

    Parameters
    ----------
    servers : int
        Number of servers; a multiple of ``radix / 2`` fills all leaves. >= 1
    gpus : int
        GPUs per server, each with one NIC; ``radix / 2`` should be a multiple of it. 1..radix // 2
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
    n = units.count(servers, "servers")
    g = units.count(gpus, "gpus")
    ports = units.count(radix, "radix", 2)
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
    """Return the number of switches and cables of a fabric as text."""
    counts = fabric.summary()
    words = [
        f"{counts[kind]} {kind} switches" for kind in ("leaf", "spine", "core") if kind in counts
    ]
    words.append(f"{counts['cables']} cables")
    return ", ".join(words)


def _filling(servers: int, gpus: int, down: int) -> str:
    """Return advice on arguments that fill all leaves, each with ``down`` ports for NICs, in both wirings."""
    if down % gpus:
        more = -(-down // gpus) * gpus
        return f"take radix={2 * more} and a multiple of {more} servers, which fill all leaves"
    more = -(-servers // down) * down
    return f"take servers={more} or another multiple of {down}, which fill all leaves"


def from_lines(lines: Iterable[tuple[int, int]], capacity: units.Quantity) -> Fabric:
    """Return the fabric of a drawing: ranks 0 to n - 1, which pass on traffic of others, and a cable for each line.

    Parameters
    ----------
    lines : iterable of pairs of int
        The two ranks that a line joins. Each rank from 0 to the largest has at least one.
    capacity : float or str
        Rate of each cable in one direction. [B/s]

    Raises
    ------
    ValueError
        If there is no line, or the drawing is not in one piece.

    Examples
    --------
    >>> from_lines([(0, 1), (1, 2), (2, 3), (3, 0)], "50 GB/s").n_cables
    4
    """
    import networkx as nx

    pairs = [(int(a), int(b)) for a, b in lines]
    if not pairs:
        raise ValueError("from_lines needs at least one line, such as (0, 1)")
    graph = nx.empty_graph(max(max(pair) for pair in pairs) + 1)
    graph.add_edges_from(pairs)
    for mark in ("endpoint", "transit"):
        nx.set_node_attributes(graph, True, mark)
    return from_networkx(graph, capacity)


def from_networkx(
    graph: Any, capacity: units.Quantity | None = None, *, endpoints: str = "endpoint"
) -> Fabric:
    """Turn a networkx graph into a fabric.

    An edge of an undirected graph becomes a cable; an edge of a directed graph becomes one of the two links of a
    cable. Nodes and ranks are numbered in the order of ``graph.nodes``. An endpoint becomes a host and any other node
    a switch, unless its attributes give something else. Leaves out names, coordinates, media and lengths.

    Parameters
    ----------
    graph : networkx.Graph or a subclass
        A connected graph. Edges may have the attributes ``capacity`` (``"400 Gb/s"`` or [B/s]), ``delay`` (``"1 us"``
        or [s]) and ``ports``; nodes ``kind``, ``tier``, ``transit`` and ``radix``; endpoints ``server`` and ``rail``.
    capacity : float or str, optional
        Rate of the edges that have none of their own. [B/s]
    endpoints : str
        Name of the node attribute that is true for endpoints.

    Raises
    ------
    ValueError
        If the graph is not connected or has no endpoint; if only some endpoints have a server; if an edge has no
        rate, an impossible rate, or the same node at both ends; or if a directed edge has no edge that leads back.

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
    _check_connected(graph)
    is_end = np.array([bool(d.get(endpoints)) for _, d in graph.nodes(data=True)])  # (N,)
    if not is_end.any():
        raise ValueError(
            f"graph must have endpoints, got no node whose attribute {endpoints!r} is true; "
            f"set it with networkx.set_node_attributes(graph, {{node: True, ...}}, {endpoints!r})"
        )
    bare = [node for node, d in graph.nodes(data=True) if d.get(endpoints) and "server" not in d]
    if 0 < len(bare) < is_end.sum():
        raise ValueError(
            f"server must be set for all endpoints or for none, got none for {bare[0]!r}; set it too"
        )

    def of_nodes(name: str, default: Iterable[Any]) -> list[Any]:
        """Return an attribute of all nodes; a node without it gets its entry of ``default``."""
        rows = zip(graph.nodes(data=True), default, strict=True)
        return [attributes.get(name, other) for (_, attributes), other in rows]

    n = is_end.size
    end = np.flatnonzero(is_end).astype(np.int32)
    kind = of_nodes("kind", np.where(is_end, "host", "switch").tolist())
    kinds = tuple(dict.fromkeys(kind))
    tier = np.array(of_nodes("tier", np.where(is_end, 0, 1)))
    transit = np.array(of_nodes("transit", ~is_end))
    radix = np.array(of_nodes("radix", [0] * n))
    rail = np.array(of_nodes("rail", [0] * n))
    server = np.array(of_nodes("server", np.cumsum(is_end) - 1))
    return Fabric(
        kinds=kinds,
        kind=np.array([kinds.index(k) for k in kind]),
        coord_names=("index",),
        coord=np.arange(n, dtype=np.int32)[:, None],
        tier=tier,
        transit=transit,
        radix=radix,
        media=("cable",),
        endpoint=end,
        rail=rail[end],
        server=server[end],
        family="from_networkx",
        **_links(graph, capacity),
    )


def _check_connected(graph: Any) -> None:
    """Refuse a graph that is not connected or has no nodes."""
    import networkx as nx

    if graph.is_directed():
        components = nx.weakly_connected_components(graph)
    else:
        components = nx.connected_components(graph)
    parts = sorted(components, key=len)
    if len(parts) != 1:
        lone = f", such as the {len(parts[0])} nodes with {next(iter(parts[0]))!r}" if parts else ""
        raise ValueError(
            f"graph must be connected, got {len(parts)} parts{lone}; join them, or make a fabric of each"
        )


def _links(graph: Any, capacity: units.Quantity | None) -> dict[str, Any]:
    """Return the columns of all links, with the two links of each cable next to each other."""
    number = {node: i for i, node in enumerate(graph)}
    rows = []
    for u, v, attributes in graph.edges(data=True):
        if u == v:
            raise ValueError(
                f"graph must have no edge from a node to itself, got one at {u!r}; remove it"
            )
        edge = f"of the edge {u!r} - {v!r}"
        rate = attributes.get("capacity", capacity)
        if rate is None:
            raise ValueError(
                f"capacity {edge} is missing; set it (capacity='400 Gb/s'), or give one for all without"
            )
        rate = units.rate(rate, f"capacity {edge}", may_be_zero=True)
        delay = units.latency(attributes.get("delay", 0.0), f"delay {edge}")
        rows.append((number[u], number[v], rate, delay, attributes.get("ports", 1)))
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)  # (edges, 5)

    if graph.is_directed():
        table = table[_paired(graph, table[:, 0], table[:, 1])]
    else:
        table = np.repeat(table, 2, axis=0)
        table[1::2, :2] = table[1::2, 1::-1]  # the second link of a cable leads back
    source, target, rates, delays, ports = table.T
    none = np.zeros(len(table))
    return {
        "source": source,
        "target": target,
        "capacity": rates,
        "delay": delays,
        "ports": ports,
        "medium": none,
        "length": none,
    }


def _paired(graph: Any, source: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int64]:
    """Return the edge numbers of a directed graph in an order that puts each edge next to one that leads back."""
    low = np.minimum(source, target).astype(np.int64)
    high = np.maximum(source, target).astype(np.int64)
    pair = low * len(graph) + high  # the same for both directions of a cable
    up = np.flatnonzero(source < target)
    down = np.flatnonzero(source > target)
    up = up[np.argsort(pair[up], kind="stable")]
    down = down[np.argsort(pair[down], kind="stable")]

    for u, v in graph.edges():
        if graph.number_of_edges(u, v) != graph.number_of_edges(v, u):
            raise ValueError(
                f"graph must have as many edges from {u!r} to {v!r} as back: a cable has two directions; "
                "add the other one (capacity=0, if it is dead), or give an undirected graph"
            )
    return np.stack([up, down], axis=1).ravel()


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
