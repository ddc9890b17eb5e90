"""What direct networks share: switches with hosts on each, or chips that are ends themselves.

Names are kind and coordinates: ``x``, ``y``, ``z``, ``d4``, ... of a grid, ``group`` and ``router``, or ``index``;
``local`` numbers the hosts of a switch.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, FabricBuilder, Ints, check_size
from fabriclab.topologies._clos import Parts


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
