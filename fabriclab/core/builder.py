"""FabricBuilder: collect nodes and cables as arrays, then make a Fabric of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core._frozen import check_within, frozen, si, spread, texts
from fabriclab.core._memory import check_memory
from fabriclab.core.fabric import LINK_ARRAYS, NODE_ARRAYS, Fabric

# Peak memory of a build per node and per link, measured and rounded up; checked by a test. [B]
_NODE_BYTES = 250
_LINK_BYTES = 120


def check_size(what: str, nodes: int, cables: int) -> None:
    """Raise an error if a fabric of this size would not fit into memory, before anything is allocated.

    Raises
    ------
    TooLarge
        With ``what`` would be built, the memory it needs, and the memory available.
    """
    needed = nodes * _NODE_BYTES + 2 * cables * _LINK_BYTES
    check_memory(
        needed,
        what,
        "build a smaller one, or leave out what the family can leave out (expand=False)",
    )


class FabricBuilder:
    """Collect nodes and cables as arrays, then make a `Fabric`; all topology files use it.

    Parameters
    ----------
    kinds : sequence of str
        Node kinds in the order of their numbers.
    coord_names : sequence of str
        Names of the coordinates.
    """

    def __init__(self, kinds: Sequence[str], coord_names: Sequence[str]) -> None:
        self.kinds, self.coord_names = texts(kinds, "kinds"), texts(coord_names, "coord_names")
        self._nodes: list[dict[str, Any]] = []
        self._cables: list[dict[str, Any]] = []
        self._media: list[str] = []
        self.n_nodes = 0

    def add_nodes(
        self,
        kind: str,
        n: int,
        *,
        tier: ArrayLike,
        transit: ArrayLike,
        radix: ArrayLike = 0,
        forwarding: ArrayLike = 0.0,
        **coord: ArrayLike,
    ) -> NDArray[np.int64]:
        """Add ``n`` nodes of one kind and return their numbers (n,); keyword arguments give their coordinates by name.

        ``forwarding`` is added to the delay of every link that ends at the node. [s]
        """
        for what, name, known in (
            ("kind", kind, self.kinds),
            *(("coordinate", c, self.coord_names) for c in coord),
        ):
            units.choice(name, what, known, "; name it in FabricBuilder(...)", exact=True)
        table = np.full((units.count(n, "n", 0), len(self.coord_names)), -1, dtype=np.int32)
        given = {
            "kind": self.kinds.index(kind),
            "tier": tier,
            "transit": transit,
            "radix": radix,
            **coord,
        }
        columns = {k: frozen(v, NODE_ARRAYS.get(k, np.int32), k) for k, v in given.items()}
        block = spread(
            {**columns, "forwarding": si(forwarding, "forwarding", units.latency)}, len(table)
        )
        for name in coord:
            table[:, self.coord_names.index(name)] = block.pop(name)
        self._nodes.append({**block, "coord": table})
        first, self.n_nodes = self.n_nodes, self.n_nodes + n
        return np.arange(first, self.n_nodes)

    def add_cables(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        capacity: ArrayLike,
        delay: ArrayLike = 0.0,
        ports: ArrayLike = 1,
        medium: str = "board",
        length: ArrayLike = 0.0,
    ) -> None:
        """Add cables between nodes ``a`` and ``b`` (broadcast together); each becomes two links, one per direction.

        A capacity, delay or length that all cables share may be a text with its unit. [B/s], [s], [m]
        """
        ends = [frozen(a, np.int32, "a"), frozen(b, np.int32, "b")]
        for name, end in zip("ab", ends, strict=True):
            check_within(end, name, 0, self.n_nodes - 1, "; add nodes first")
        if medium not in self._media:
            self._media.append(medium)
        columns = spread(
            {
                "a": ends[0],
                "b": ends[1],
                "capacity": si(capacity, "capacity", partial(units.rate, may_be_zero=True)),
                "delay": si(delay, "delay", units.latency),
                "ports": frozen(ports, np.int16, "ports"),
                "medium": np.int8(self._media.index(medium)),
                "length": si(length, "length", units.length),
            }
        )
        self._cables.append(
            {k: v.ravel() for k, v in zip(LINK_ARRAYS, columns.values(), strict=True)}
        )

    def build(
        self,
        family: str,
        asked: Mapping[str, Any],
        *,
        endpoint: ArrayLike,
        rail: ArrayLike,
        server: ArrayLike,
    ) -> Fabric:
        """Return the `Fabric` of all nodes and cables added so far.

        ``endpoint``, ``rail`` and ``server`` describe the ranks; ``family`` and ``asked`` are the name of the topology
        and its arguments.
        """
        if not self._nodes:
            raise ValueError("a fabric needs nodes; add some with add_nodes before build")
        column = {
            k: np.concatenate([block[k] for block in self._nodes])
            for k in (*NODE_ARRAYS, "coord", "forwarding")
        }
        forwarding, cables = column.pop("forwarding"), self._cables
        parts = {
            k: [np.zeros(0, t), *(block[k] for block in cables)] for k, t in LINK_ARRAYS.items()
        }
        # Cable c becomes the links 2c and 2c + 1; the second one gets its ends swapped.
        link: dict[str, Any] = {k: np.repeat(np.concatenate(v), 2) for k, v in parts.items()}
        link["source"][1::2], link["target"][1::2] = (
            link["target"][0::2],
            link["source"][0::2].copy(),
        )
        link["delay"] += forwarding[link["target"]]
        return Fabric(
            kinds=self.kinds,
            coord_names=self.coord_names,
            media=tuple(self._media),
            endpoint=np.asarray(endpoint),
            rail=np.asarray(rail),
            server=np.asarray(server),
            family=family,
            asked=asked,
            **column,
            **link,
        )
