"""Fabric: the nodes, directed links and endpoints of a network, as read-only arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core._arrays import Floats, Ids, pointer
from fabriclab.core._frozen import (
    Value,
    check_finite,
    check_shape,
    check_within,
    column,
    freeze,
    frozen,
)
from fabriclab.core._node_names import read_ends, read_node_name, rows_named, rows_near

NODE_ARRAYS = {"kind": np.int8, "tier": np.int8, "transit": np.bool_, "radix": np.int32}
LINK_ARRAYS = {
    "source": np.int32,
    "target": np.int32,
    "capacity": np.float64,
    "delay": np.float64,
    "ports": np.int16,
    "medium": np.int8,
    "length": np.float64,
}
_END_ARRAYS = {"endpoint": np.int32, "rail": np.int32, "server": np.int32}
_NUMBERED = re.compile(r"(?P<kind>cable|link)\s*(?P<number>\d+)", re.IGNORECASE)
_NAMED = {
    "links": "'link 12' or 'leaf 0 -> spine 1'",
    "cables": "'cable 12' or 'leaf 0 - spine 1'",
}
_SHOWN = 100  # up to so many numbers are written out in full


@dataclass(frozen=True, eq=False)
class Fabric(Value):
    """A network of N nodes, L directed links and R endpoints; each endpoint is the node of one rank.

    Cable c is the links 2c and 2c + 1, so the reverse of link l is ``l ^ 1``. Node and link numbers
    never change: `without` sets capacities to 0 and keeps everything else.

    Parameters
    ----------
    kinds : tuple of str
        Names of the node kinds, such as ``("gpu", "nic", "leaf", "spine")``.
    kind : (N,) int8
        Index into ``kinds``.
    tier : (N,) int8
        Height above the endpoints (0).
    transit : (N,) bool
        Whether traffic between other nodes may pass through; False for GPUs and hosts.
    radix : (N,) int32
        Number of ports of the node; 0 where no limit is known.
    coord : (N, C) int32
        Position of the node in its topology, -1 where a coordinate does not apply.
    coord_names : tuple of str
        Names of the C coordinates, such as ``("server", "local")``.
    source, target : (L,) int32
        Ends of each directed link.
    capacity : (L,) float64
        Rate of the link in its direction; 0 means that it has failed. [B/s], >= 0
    delay : (L,) float64
        Propagation delay plus the fixed forwarding time of the target. [s], >= 0
    ports : (L,) int16
        Ports that the link occupies at each end (18 NVLinks are stored as one link with 18 ports).
    medium : (L,) int8
        Index into ``media``.
    length : (L,) float64
        Length of the cable, 0 on a board. [m], >= 0
    media : tuple of str
        Names of the media, such as ``("nvlink", "pcie")``.
    endpoint : (R,) int32
        Node of each rank, in rank order.
    rail, server : (R,) int32
        Rail and server of each rank.
    family, asked : str, mapping
        Name of the topology, and the arguments it was built with.

    Attributes
    ----------
    call : str
        Python expression that builds this fabric, changes included; empty if it was made by hand or by
        `dataclasses.replace`.

    Raises
    ------
    ValueError
        If shapes disagree, a number is out of range, a cable connects a node to itself, or a node uses more
        ports than its radix.
    """

    kinds: tuple[str, ...]
    kind: NDArray[np.int8]
    tier: NDArray[np.int8]
    transit: NDArray[np.bool_]
    radix: Ids
    coord: Ids
    coord_names: tuple[str, ...]
    source: Ids
    target: Ids
    capacity: Floats
    delay: Floats
    ports: NDArray[np.int16]
    medium: NDArray[np.int8]
    length: Floats
    media: tuple[str, ...]
    endpoint: Ids
    rail: Ids
    server: Ids
    family: str = "custom"
    asked: Mapping[str, Any] = field(default_factory=dict)
    call: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Freeze all arrays, then check shapes, ranges and ports."""
        freeze(
            self, {**NODE_ARRAYS, **LINK_ARRAYS, **_END_ARRAYS, "coord": np.int32, "asked": dict}
        )
        freeze(self, dict.fromkeys(("kinds", "coord_names", "media"), str))
        groups = (
            (NODE_ARRAYS, self.kind.size),
            (LINK_ARRAYS, self.source.size),
            (_END_ARRAYS, self.endpoint.size),
        )
        for names, n in groups:
            check_shape(self, names, (n,))
        check_shape(self, ["coord"], (self.kind.size, len(self.coord_names)))
        self._check_links()

    def _check_links(self) -> None:
        """Raise an error for links, endpoints or ports that contradict each other."""
        there, back = (self.source[0::2], self.target[0::2]), (self.target[1::2], self.source[1::2])
        if not all(map(np.array_equal, there, back)):
            raise ValueError(
                "links must come in pairs: link 2c + 1 is link 2c in the other direction"
            )
        bounds = dict.fromkeys(("source", "target", "endpoint"), self.kind.size)
        for name, n in (bounds | {"kind": len(self.kinds), "medium": len(self.media)}).items():
            check_within(getattr(self, name), name, 0, n - 1)
        loops = np.flatnonzero(self.source == self.target)
        if loops.size:
            raise ValueError(
                f"cable {loops[0] // 2} joins {self.name(int(self.source[loops[0]]))} to itself; name two"
            )
        if np.unique(self.endpoint).size != self.endpoint.size:
            raise ValueError("endpoint must name each node once: one rank per endpoint")
        check_finite(self, {"capacity": " B/s", "delay": " s", "length": " m", "ports": " ports"})
        used = self.ports_used
        over = np.flatnonzero((self.radix > 0) & (used > self.radix))
        if over.size:
            node = int(over[0])
            msg = f"{self.name(node)} needs {used[node]} ports and has {self.radix[node]}; "
            raise ValueError(
                msg + "take a switch with more ports, fewer hosts per switch, or a further tier"
            )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.kind.size)

    @property
    def n_links(self) -> int:
        """Number of directed links."""
        return int(self.source.size)

    @property
    def n_cables(self) -> int:
        """Number of cables and on-board connections; each has two links."""
        return self.n_links // 2

    @property
    def n_ranks(self) -> int:
        """Number of endpoints."""
        return int(self.endpoint.size)

    @cached_property
    def ports_used(self) -> NDArray[np.int64]:
        """Ports in use at each node, (N,)."""
        return frozen(
            np.bincount(self.source, weights=self.ports, minlength=self.n_nodes), np.int64
        )

    @cached_property
    def out(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Outgoing links of each node as compressed rows: row pointer (N + 1,) and link numbers (L,)."""
        order = np.argsort(self.source, kind="stable")
        return frozen(pointer(np.bincount(self.source, minlength=self.n_nodes)), np.int64), frozen(
            order, np.int64
        )

    @cached_property
    def rank_of(self) -> NDArray[np.int64]:
        """Rank of each node, -1 where the node has none, (N,)."""
        ranks = np.full(self.n_nodes, -1)
        ranks[self.endpoint] = np.arange(self.n_ranks)
        return frozen(ranks, np.int64)

    def coordinate(self, name: str) -> NDArray[np.int64]:
        """Return one coordinate of every node, (N,); -1 where it does not apply or the fabric does not have it."""
        known = name in self.coord_names
        return (
            self.coord[:, self.coord_names.index(name)].astype(np.int64)
            if known
            else np.full(self.n_nodes, -1)
        )

    def nodes(self, kind: str) -> NDArray[np.int64]:
        """Return the numbers of all nodes of one kind."""
        kind = units.choice(kind, "kind", self.kinds)
        return np.flatnonzero(self.kind == self.kinds.index(kind))

    def name(self, node: int) -> str:
        """Return the name of a node, made of its kind and its coordinates, such as ``"gpu 3.5"``."""
        number = units.count(node, "node", 0, self.n_nodes - 1)
        where = ".".join(str(c) for c in self.coord[number] if c >= 0)
        return f"{self.kinds[self.kind[number]]} {where}".strip()

    def node(self, name: str) -> int:
        """Return the number of the node with a name such as ``"gpu 3.5"``; the opposite of `name`.

        Capitals and gaps make no difference (``"GPU3.5"``). Where no node has exactly that name, ``"leaf 3"`` is the
        leaf number 3 in order, counted from 0, and ``"nic 3 of server 4"`` is ``"nic 4.3"``. A part of the only server
        may be named as tools print it: ``"GPU5"`` and ``"NIC0"`` (nvidia-smi), ``"mlx5_0"`` (ibv_devinfo),
        ``"NET/IB/0"`` (NCCL).

        Raises
        ------
        ValueError
            If there is no such node, or more than one; the error names those that may be meant.

        Examples
        --------
        >>> from fabriclab import topologies
        >>> server = topologies.build("dgx_h100")
        >>> server.name(server.node("NIC3"))
        'nic 0.3'
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a text such as 'gpu 3.5', got {name!r:.80}")
        kind, numbers, printed = read_node_name(name, self.kinds)
        members = self.nodes(kind)
        found = members[rows_named(self.coord[members], numbers, printed=printed)]
        if found.size == 1:
            return int(found[0])

        if found.size:
            close = found[:3]
            problem = f"names {found.size} nodes"
        else:
            close = members[rows_near(self.coord[members], numbers, printed=printed)]
            problem = "names no node"
        question = " or ".join(repr(self.name(int(node))) for node in close)
        raise ValueError(f"{name!r:.80} {problem} of this fabric; did you mean {question}?")

    def link_name(self, link: int) -> str:
        """Return the name of a link, such as ``"leaf 0.1 -> spine 3"``."""
        number = units.count(link, "link", 0, self.n_links - 1)
        return f"{self.name(int(self.source[number]))} -> {self.name(int(self.target[number]))}"

    def links_between(self, a: int, b: int) -> NDArray[np.int64]:
        """Return all links from node ``a`` to node ``b``."""
        first, last = (
            units.count(n, name, 0, self.n_nodes - 1) for name, n in (("a", a), ("b", b))
        )
        return np.flatnonzero((self.source == first) & (self.target == last))

    def with_capacity(self, links: ArrayLike, capacity: units.Quantity) -> Self:
        """Return a copy of this fabric in which the given links have another capacity [B/s].

        Links are numbers or names, such as ``"leaf 0.1 -> spine 3"``. To slow down a cable in both directions, give
        both of its links, or its name, ``"leaf 0.1 - spine 3"``.
        """
        number = self._numbers_of(links, "links")
        value = units.rate(capacity, "capacity", may_be_zero=True)
        return self._with(number, value, f"with_capacity({_listed(number)}, {value!r})")

    def without(
        self,
        *parts: ArrayLike,
        links: ArrayLike = (),
        cables: ArrayLike = (),
        nodes: ArrayLike = (),
    ) -> Self:
        """Return a copy of this fabric in which links, cables (both directions) or all links of nodes have failed.

        A failed link stays in place with capacity 0.

        Parameters
        ----------
        *parts : str or int, or rows of them
            What has failed: a node by its name (``"leaf 0.1"``, see `node`) or number; all cables between two nodes
            (``"leaf 0.1 - spine 3"``) or their links in one direction (``"leaf 0.1 -> spine 3"``); one of them by its
            number (``"cable 12"``, ``"link 25"``).
        links, cables, nodes : row of int or str, optional
            Numbers or names of links, cables and nodes.

        Raises
        ------
        ValueError
            If there is no part with such a name or number.
        TypeError
            If a number is not whole.

        Examples
        --------
        >>> from fabriclab import topologies
        >>> hall = topologies.build("leaf_spine", hosts=8, radix=4)
        >>> hall.without("spine 1", "leaf 0 - spine 0")
        topologies.build('leaf_spine', hosts=8, radix=4).without(cables=[8], nodes=[13])
        """
        named = self._sorted_parts(parts)
        link = np.union1d(self._numbers_of(links, "links"), named["links"])
        cable = np.union1d(self._numbers_of(cables, "cables"), named["cables"])
        node = np.union1d(self._numbers_of(nodes, "nodes"), named["nodes"])
        of_nodes = np.flatnonzero(np.isin(self.source, node) | np.isin(self.target, node))
        every = np.concatenate([link, 2 * cable, 2 * cable + 1, of_nodes])
        named = {"links": link, "cables": cable, "nodes": node}
        return self._with(
            every,
            0.0,
            f"without({', '.join(f'{k}={_listed(v)}' for k, v in named.items() if v.size)})",
        )

    def _sorted_parts(self, parts: tuple[ArrayLike, ...]) -> dict[str, NDArray[np.int64]]:
        """Return the numbers of links, cables and nodes among parts that are given by name, or by number if nodes."""
        named: dict[str, list[int]] = {"links": [], "cables": [], "nodes": []}
        for row in parts:
            items = _items(row)
            if not any(isinstance(item, str) for item in items):
                named["nodes"] += _numbers(row, "nodes", self.n_nodes).tolist()
                continue
            for item in items:
                kind = _kind_of_part(item)
                named[kind] += self._numbers_of([item], kind).tolist()
        return {kind: _numbers(numbers, kind, 2**31) for kind, numbers in named.items()}

    def _numbers_of(self, value: ArrayLike, kind: str) -> NDArray[np.int64]:
        """Return the numbers of ``"links"``, ``"cables"`` or ``"nodes"`` that are given by number or name."""
        bound = {"links": self.n_links, "cables": self.n_cables, "nodes": self.n_nodes}[kind]
        items = _items(value)
        if not any(isinstance(item, str) for item in items):
            return _numbers(value, kind, bound)

        numbers: list[int] = []
        for item in items:
            if not isinstance(item, str):
                numbers += _numbers(item, kind, bound).tolist()
            elif kind == "nodes":
                numbers.append(self.node(item))
            else:
                numbers += self._links_named(item, kind, bound).tolist()
        return _numbers(numbers, kind, bound)

    def _links_named(self, text: str, kind: str, bound: int) -> NDArray[np.int64]:
        """Return the numbers of the ``"links"`` or ``"cables"`` with a name such as "leaf 0 - spine 1" or "cable 7"."""
        numbered = _NUMBERED.fullmatch(text.strip())
        ends = read_ends(text)
        if numbered and f"{numbered['kind'].lower()}s" == kind:
            return _numbers(int(numbered["number"]), kind, bound)
        if ends is None or (ends.one_way and kind == "cables"):
            example = _NAMED[kind]
            raise ValueError(
                f"{kind} must be numbers, or names such as {example}, got {text!r:.80}; name both ends"
            )

        links = self._links_joining(self.node(ends.one), self.node(ends.other))
        if kind == "cables":
            return links // 2
        if ends.one_way:
            return links
        return np.concatenate([links, links ^ 1])

    def _links_joining(self, one: int, other: int) -> NDArray[np.int64]:
        """Return all links from one node to another; if there is none, the error names neighbours of the first."""
        links = self.links_between(one, other)
        if not links.size:
            neighbours = np.unique(self.target[self.source == one])[:3]
            names = " or ".join(repr(self.name(int(node))) for node in neighbours)
            raise ValueError(
                f"no cable joins {self.name(one)!r} and {self.name(other)!r}; "
                f"did you mean one from {self.name(one)!r} to {names or 'nothing'}?"
            )
        return links

    def _with(self, links: NDArray[np.int64], capacity: float, change: str) -> Self:
        """Return a copy with another capacity on some links; ``change`` is the call that made it."""
        changed = self.capacity.copy()
        changed[links] = capacity
        return self.shown_as(self.call and f"{self.call}.{change}", capacity=changed)

    def shown_as(self, call: str, **fields: Any) -> Self:
        """Return a copy with other fields that shows itself as ``call``, the expression that builds it."""
        new = replace(self, **fields)
        object.__setattr__(new, "call", call)
        return new

    def summary(self) -> dict[str, int]:
        """Return the number of nodes of each kind, of cables, of ranks and of servers."""
        counts = {k: int(np.count_nonzero(self.kind == i)) for i, k in enumerate(self.kinds)}
        servers = int(np.unique(self.server[self.server >= 0]).size)
        return {**counts, "cables": self.n_cables, "ranks": self.n_ranks, "servers": servers}

    def to_networkx(self, *, bundled: bool = False) -> Any:
        """Return the fabric as a networkx graph with one edge per link, or with one per pair of nodes.

        An edge has the link's capacity, delay and ports, and its number as key. A node has its name, kind, tier,
        transit and radix, and an endpoint also its server and rail.

        Parameters
        ----------
        bundled : bool
            Whether parallel links become one edge, which then has their number as ``cables`` and the sum of their
            ``capacity`` [B/s]. Some functions of networkx, such as ``maximum_flow_value``, accept only such a graph.
        """
        import networkx as nx

        graph = nx.MultiDiGraph()
        for i, kind in enumerate(self.kind):
            facts = {c: getattr(self, c)[i].item() for c in ("tier", "transit", "radix")}
            graph.add_node(i, name=self.name(i), kind=self.kinds[kind], **facts)
        for rank, node in enumerate(self.endpoint.tolist()):
            graph.add_node(
                node, endpoint=True, server=int(self.server[rank]), rail=int(self.rail[rank])
            )
        for i, ends in enumerate(zip(self.source.tolist(), self.target.tolist(), strict=True)):
            graph.add_edge(
                *ends,
                key=i,
                **{c: getattr(self, c)[i].item() for c in ("capacity", "delay", "ports")},
            )
        if not bundled:
            return graph

        pairs = nx.DiGraph()
        pairs.add_nodes_from(graph.nodes(data=True))
        for a, b, capacity in graph.edges(data="capacity"):
            together = pairs.get_edge_data(a, b, {"cables": 0, "capacity": 0.0})
            pairs.add_edge(
                a, b, cables=together["cables"] + 1, capacity=together["capacity"] + capacity
            )
        return pairs

    def __repr__(self) -> str:
        """Show the expression that builds this fabric; without one, the number of its nodes, cables and ranks."""
        if self.call:
            return self.call
        counts = [f"{n} {what}" for what, n in self.summary().items() if what != "servers"]
        counts += (
            [f"{failed} links of capacity 0"] if (failed := int(np.sum(self.capacity == 0))) else []
        )
        return f"<Fabric {self.family}: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{k}<td>{v}" for k, v in self.summary().items())
        return f"<table><caption>{self.family}</caption>{cells}</table>"


def _items(value: ArrayLike) -> list[Any]:
    """Return what a value consists of, without changing it: a text or number is one item, and an iterator none."""
    if isinstance(value, str) or np.isscalar(value):
        return [value]
    if isinstance(value, np.ndarray) and value.dtype.kind != "U":
        return []
    if isinstance(value, (Set, Sequence, np.ndarray)):
        return list(value)
    return []


def _kind_of_part(item: Any) -> str:
    """Return whether a part that is named is one of the ``"links"``, ``"cables"`` or ``"nodes"``."""
    if not isinstance(item, str):
        return "nodes"
    numbered = _NUMBERED.fullmatch(item.strip())
    if numbered:
        return f"{numbered['kind'].lower()}s"
    ends = read_ends(item)
    if ends is None:
        return "nodes"
    return "links" if ends.one_way else "cables"


def _numbers(value: ArrayLike, name: str, bound: int) -> NDArray[np.int64]:
    """Return node, link or cable numbers, sorted and each once; a mask or a fraction is refused."""
    number = column(list(value) if isinstance(value, (Set, Iterator)) else value, name)
    if number.ndim > 1 or (number.size and number.dtype.kind not in "iu"):
        msg = (
            f"{name} must be whole numbers in one row, got {number.dtype} of shape {number.shape}; "
        )
        raise TypeError(msg + "of a mask take np.flatnonzero")
    check_within(number := np.unique(number.astype(np.int64)), name, 0, bound - 1)
    return number


def _listed(number: NDArray[np.int64]) -> str:
    """Return numbers as text that Python can read back, unless a long list without a pattern had to be shortened."""
    values = number.tolist()
    if number.size <= _SHOWN:
        return repr(values)
    step = values[1] - values[0]
    if step > 0 and np.all(np.diff(number) == step):
        return repr(range(values[0], values[-1] + 1, step))
    return f"[{', '.join(map(str, values[:8]))}, ... {number.size} in all]"
