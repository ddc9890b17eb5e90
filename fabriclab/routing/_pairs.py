"""From flows to pairs of nodes, each seen once by a method, and from its rows back to flows."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Fabric, Flows, Routes
from fabriclab.core._arrays import expand, pointer, rows_of
from fabriclab.core._frozen import check_within, whole
from fabriclab.routing._ways import Ints, Rows, Seed, hashed


def by_pair(
    fabric: Fabric, flows: Flows, choose: Callable[[Ints, Ints, Seed], Rows], seed: int = 0,
    entropy: ArrayLike | None = None,
) -> Routes:  # fmt: skip
    """Return the routes that ``choose(source, target, seed)`` gives, as many rows for each pair as for the others."""
    for name in ("source", "target"):
        check_within(getattr(flows, name), f"{name} of a flow", 0, fabric.n_nodes - 1)
    moving = np.flatnonzero(flows.source != flows.target)
    given, what = np.zeros(flows.n_flows, int) if entropy is None else entropy, "one per flow, such as its queue pair"
    fields, code = np.unique(whole(given, "entropy", flows.size.shape, what)[moving], return_inverse=True)
    ends = flows.source[moving].astype(np.int64) * fabric.n_nodes + flows.target[moving]
    pairs, inverse = np.unique(ends * max(fields.size, 1) + code, return_inverse=True)
    ends, code = np.divmod(pairs, max(fields.size, 1))
    own: Seed = seed if entropy is None else hashed(seed, fields[code])
    return _for_flows(fabric, choose(ends // fabric.n_nodes, ends % fabric.n_nodes, own), moving, inverse, pairs.size)


def _for_flows(fabric: Fabric, rows: Rows, moving: NDArray[np.int64], inverse: Ints, n_pairs: int) -> Routes:
    """Give each flow the rows of its pair."""
    each = (rows.ptr.size - 1) // max(n_pairs, 1)
    delay = np.bincount(rows_of(rows.ptr), weights=fabric.delay[rows.link] * rows.use, minlength=rows.ptr.size - 1)
    wanted = (inverse[:, None] * each + np.arange(each)).ravel()
    lengths = np.diff(rows.ptr)[wanted]
    entries = expand(rows.ptr[wanted], lengths)
    n = wanted.size
    return Routes(
        ptr=pointer(lengths), link=rows.link[entries].astype(np.int32), use=rows.use[entries],
        flow=np.repeat(moving, each).astype(np.int32), share=np.full(n, 1.0 / max(each, 1)), delay=delay[wanted],
        kind=np.full(n, rows.kind, dtype=np.int8), adaptive=np.zeros(n, dtype=np.bool_),
    )  # fmt: skip
