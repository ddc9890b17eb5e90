"""What direct networks share: switches with hosts on each, or chips that are ends themselves, and their bisection.

A grid is a product of dimensions: along each of them places are joined as a ring, as a path, or each with each.
Names are kind and coordinates: ``x``, ``y``, ``z``, ``d4``, ... of a grid, ``group`` and ``router``, or ``index``;
``local`` numbers the hosts of a switch. Cable c of a ring or path leads from a place to the next, so its link 2c
goes up and 2c + 1 down.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, FabricBuilder, Ints, check_size
from fabriclab.topologies._clos import Parts


class Axis(NamedTuple):
    """One dimension of a grid; ``load`` and ``cut`` lead to the closed form of the bisection."""

    kind: str
    k: int  # places
    cables: int
    load: float  # ordered pairs of places that use the fullest link, if equally short ways share
    cut: float  # cables between two halves

    def ends(self) -> tuple[Ints, Ints]:
        """Return both ends of each cable."""
        if self.kind == "complete":
            return np.triu_indices(self.k, 1)
        place = np.arange(self.cables)
        return place, (place + 1) % self.k


def path(k: int) -> Axis:
    """Return ``k`` places in a row."""
    return Axis("path", k, k - 1, k * k // 4, 1)


def ring(k: int) -> Axis:
    """Return ``k`` places in a circle; two have one cable, not two."""
    return Axis("ring", k, k, k * k // 4 / 2, 2) if k > 2 else path(k)


def complete(k: int) -> Axis:
    """Return ``k`` places, each joined with each."""
    return Axis("complete", k, k * (k - 1) // 2, 1, k * k / 4) if k > 2 else path(k)


def check(switches: int, cables: int, hosts: int, spines: int = 0) -> None:
    """Refuse a fabric that needs more memory than there is, before it is made; spines have no hosts."""
    units.count(hosts, "hosts", 0)
    what = f"a fabric of {switches * (hosts or 1)} {'hosts' if hosts else 'chips'}"
    check_size(what, switches * (1 + hosts) + spines, cables + switches * hosts)


def assemble(
    asked: Mapping[str, Any], hosts: int, cables: Iterable[tuple[Ints, Ints]], *layers: Mapping[str, Any]
) -> Fabric:
    """Return a fabric of switches with these coordinates; ``cables`` join them by number, ``asked`` is as in `Parts`.

    Two layers are leaves and spines. Hosts are on the first layer; without hosts its nodes are chips, which are
    endpoints, let traffic pass and have as many ports as they use.
    """
    parts = Parts.parse(**asked)
    kinds = ("leaf", "spine") if len(layers) > 1 else ("switch",) if hosts else ("chip",)
    b = FabricBuilder(("host", *kinds) if hosts else kinds, (*layers[0], "local") if hosts else tuple(layers[0]))
    n, end = len(next(iter(layers[0].values()))), np.zeros(0, dtype=np.int64)
    if hosts:
        where: dict[str, Any] = {name: np.repeat(c, hosts) for name, c in layers[0].items()}
        end = b.add_nodes("host", n * hosts, tier=0, transit=False, **where, local=np.tile(np.arange(hosts), n))
    node = np.concatenate([
        b.add_nodes(kind, len(next(iter(layer.values()))), tier=tier, transit=True, radix=parts.radix if hosts else 0,
                    forwarding=parts.forwarding, **layer)
        for tier, (kind, layer) in enumerate(zip(kinds, layers, strict=True), start=hosts > 0)
    ])  # fmt: skip
    parts.join(b, end, np.repeat(node[:n], hosts), parts.host_length)
    for one, other in cables:
        parts.join(b, node[one], node[other], parts.switch_length)
    end = end if hosts else node
    return b.build("direct", {}, endpoint=end, rail=np.zeros(end.size), server=np.arange(end.size))


def grid(axes: Sequence[Axis], hosts: int, asked: Mapping[str, Any], names: Sequence[str] = ()) -> Fabric:
    """Return the product of the dimensions: nodes differ in one coordinate and are joined along it."""
    shape = [axis.k for axis in axes]
    n = math.prod(shape)
    check(n, sum(axis.cables * n // axis.k for axis in axes), hosts)
    number = np.arange(n).reshape(shape)
    rows = ((np.moveaxis(number, i, 0), axis.ends()) for i, axis in enumerate(axes))
    cables = ((row[one].ravel(), row[other].ravel()) for row, (one, other) in rows)
    return assemble(asked, hosts, cables, coordinates(shape, names))


def coordinates(shape: Sequence[int], names: Sequence[str] = ()) -> dict[str, Ints]:
    """Return the coordinates of all nodes of a grid by name."""
    known = names or ["xyz"[i] if i < 3 else f"d{i + 1}" for i in range(len(shape))]
    return dict(zip(known, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))


def bisection(axes: Callable[..., list[Axis]], default: int) -> Callable[..., float | None]:
    """Return the closed form of a family of grids: the fewest links, one way, between two halves of the ends.

    In an exchange of all with all, dimension by dimension, the fullest link carries load x n / k pairs of nodes,
    and n^2 / 4 pairs cross any cut into halves. So no cut has fewer links than the even cut of the dimension with
    the largest load / k has; if that k is odd, no form is known (None). Hosts, ``default`` on each switch, are cut
    off one by one where that takes fewer.
    """

    def form(hosts: int = default, **asked: Any) -> float | None:
        dimensions = axes(**asked)
        n = math.prod(axis.k for axis in dimensions)
        worst = max(dimensions, key=lambda axis: axis.load / axis.k)
        if worst.k % 2:
            return None
        return min(worst.cut * n / worst.k, n * hosts / 2 if hosts else math.inf)

    return form
