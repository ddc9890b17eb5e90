"""Steps of training as streams of computation and communication, whose collectives take a given time.

Nodes 0, 1, ... are the computation of the ranks and the last node is their communication: run them on `streams`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, FabricBuilder, Floats, Flows, Ints, si
from fabriclab.registry import register
from fabriclab.workload._work import FlowsBuilder, times_of

Cost = Callable[[Floats], ArrayLike]


def _a_second_for_each_mb(size: Floats) -> Floats:
    """Return the time of a collective in small examples [s]."""
    return size / 1e6


_SMALL: dict[str, Any] = {
    "forward": [1.0, 2.0, 1.0],
    "backward": [2.0, 4.0, 2.0],
    "sizes": [4e6, 1e6, 3e6],
    "cost": _a_second_for_each_mb,
}


def streams(flows: Flows) -> Fabric:
    """Return a fabric without links whose nodes are the streams of a step; a timeline has a lane for each."""
    n = int(flows.source.max())
    b = FabricBuilder(("compute", "communication"), ("rank",))
    b.add_nodes("compute", n, tier=0, transit=False, rank=np.arange(n))
    b.add_nodes("communication", 1, tier=0, transit=False)
    return b.build(
        "streams", {}, endpoint=np.arange(n + 1), rail=np.zeros(n + 1), server=np.arange(n + 1)
    )


@register("workload", "data_parallel", small=_SMALL)
def data_parallel(
    forward: ArrayLike,
    backward: ArrayLike,
    sizes: ArrayLike,
    cost: Cost,
    *,
    bucket: units.Quantity = 0.0,
    priority: bool = False,
) -> Flows:
    """Return the backward of a step and the forward of the next one, with gradients all-reduced in buckets.

    Gradients are ready from the last layer to the first; a bucket is full with the layer that brings it to its size,
    and goes when all ranks have it. One collective runs at a time and is not interrupted.

    Parameters
    ----------
    forward, backward : array_like
        Time of each layer, (L,), or (R, L) for ranks that differ. [s]
    sizes : (L,) array_like
        Gradient of each layer. [B]
    cost : callable
        Time of an all-reduce of so many bytes [s]; takes and gives arrays.
    bucket : float or str
        Size from which on a bucket is full: 0 for each layer by itself (wait-free backward), inf for one. [B]
    priority : bool
        Of the buckets that wait, the one goes first that the next forward needs first, and each layer waits for its
        own bucket only. Otherwise they go as they are ready, and the next forward waits for all.

    Returns
    -------
    Flows
        Labelled backward, all-reduce and forward.

    References
    ----------
    .. [1] S. Li et al., PyTorch distributed: experiences on accelerating data parallel training, VLDB 13(12), 2020.
    .. [2] H. Zhang et al., Poseidon, USENIX ATC 2017 (wait-free backward).
    .. [3] Y. Peng et al., A generic communication scheduler for distributed DNN training acceleration, SOSP 2019.
    """
    moved = si(sizes, "sizes", units.size)
    full = np.inf if bucket == np.inf else units.size(bucket, "bucket")
    ranks = max(len(np.atleast_2d(forward)), len(np.atleast_2d(backward)))
    n = units.count(moved.size, "layers in sizes")
    forward_times = times_of(forward, "forward", ranks, n)  # (R, L)
    backward_times = times_of(backward, "backward", ranks, n)[
        :, ::-1
    ]  # in the order of the backward

    gradients = moved[::-1]  # in the order of the backward
    bucket_of = _buckets(gradients, full)  # (L,)
    last_layer = np.append(np.flatnonzero(np.diff(bucket_of)), n - 1)  # (B,) of each bucket
    bucket_sizes = np.bincount(bucket_of, gradients).astype(np.float64)  # (B,) [B]
    takes = times_of(cost(bucket_sizes), "cost", last_layer.size)

    builder = FlowsBuilder()
    rank = np.arange(ranks)
    done = builder.add("backward", rank[:, None], lag=backward_times, stream=rank[:, None])
    turn: ArrayLike = 0.0
    if units.flag(priority, "priority"):
        ready = np.cumsum(backward_times, axis=1).max(axis=0)[last_layer]  # (B,) [s]
        needed_first = -np.arange(takes.size)  # the next forward begins with the last bucket
        turn = _served(ready, takes, needed_first)
    sums = builder.add(
        "all-reduce", ranks, lag=takes, stream=ranks, turn=turn, after=[done[:, last_layer].T]
    )

    needs = sums[bucket_of[::-1]] if priority else sums[-1:]
    builder.add(
        "forward",
        rank[:, None],
        lag=forward_times,
        stream=rank[:, None],
        turn=1.0,
        after=[needs[:, None]],
    )
    return builder.flows()


def _buckets(gradients: Floats, full: float) -> Ints:
    """Return the bucket of each gradient; one that reaches the size ``full`` takes no more."""
    bucket_of = np.zeros(gradients.size, dtype=np.int64)
    bucket = 0
    filled = 0.0
    for i, size in enumerate(gradients):
        bucket_of[i] = bucket
        filled += size
        if filled >= full:
            bucket += 1
            filled = 0.0
    return bucket_of


def _served(ready: Floats, takes: Floats, rank: Ints) -> Floats:
    """Return the turn of each job on one server that takes, of those that are ready, the one of lowest rank."""
    turn = np.zeros(ready.size)
    now = 0.0
    waits = np.ones(ready.size, dtype=np.bool_)
    for place in range(ready.size):
        now = max(now, ready[waits].min())
        job = np.argmin(np.where(waits & (ready <= now), rank, np.inf))
        turn[job] = place
        waits[job] = False
        now += takes[job]
    return turn


@register("workload", "sharded", small=_SMALL)
def sharded(
    forward: ArrayLike, backward: ArrayLike, sizes: ArrayLike, cost: Cost, *, prefetch: int = 1
) -> Flows:
    """Return a step whose ranks each hold a part of all parameters (ZeRO stage 3, FSDP).

    A layer is gathered before its forward and again before its backward; then its gradients are reduce-scattered.
    One collective runs at a time; a gather goes before a reduce-scatter that the same computation lets go.

    Parameters
    ----------
    forward, backward, sizes : (L,) array_like
        Time [s] and parameters [B] of each layer.
    cost : callable
        Time of an all-gather, or of a reduce-scatter, of so many bytes [s]; takes and gives arrays.
    prefetch : int
        Layers that are gathered ahead: with 0 a gather waits until the layer before is done. >= 0

    Returns
    -------
    Flows
        Labelled forward, backward, all-gather and reduce-scatter.

    References
    ----------
    .. [1] S. Rajbhandari et al., ZeRO, SC 2020. [2] Y. Zhao et al., PyTorch FSDP, VLDB 16(12), 2023, section 3.3.
    """
    moved = si(sizes, "sizes", units.size)
    early = 1 + units.count(prefetch, "prefetch", 0)
    n = units.count(moved.size, "layers in sizes")
    forward_times = times_of(forward, "forward", n)
    backward_times = times_of(backward, "backward", n)[::-1]
    takes = times_of(cost(moved), "cost", n)
    both_takes = np.append(takes, takes[::-1])  # (2 L,) of a gather for each computation

    # Computation k is the forward of layer k, or, from n on, a backward; its gather has the number 2 n + k.
    k = np.arange(2 * n)
    gathered = (2 * n + k)[:, None]
    freed = np.where(k >= early, k - early, -1)[:, None]  # computation after which gather k may go
    builder = FlowsBuilder()
    builder.add("forward", 0, lag=forward_times, stream=0, after=[gathered[:n]])
    builder.add("backward", 0, lag=backward_times, stream=0, after=[gathered[n:]])
    gather_turn = 2 * (k - early)  # before the reduce-scatter after the same computation
    builder.add("all-gather", 1, lag=both_takes, stream=1, turn=gather_turn, after=[freed])
    scatter_turn = 2 * k[n:] + 1
    builder.add(
        "reduce-scatter",
        1,
        lag=both_takes[n:],
        stream=1,
        turn=scatter_turn,
        after=[k[n:, None]],
    )
    return builder.flows()


@register(
    "workload",
    "tensor_parallel",
    small={"compute": [2.0, 3.0], "sizes": [4e6, 1e6], "cost": _SMALL["cost"]},
)
def tensor_parallel(compute: ArrayLike, sizes: ArrayLike, cost: Cost, *, chunks: int = 1) -> Flows:
    """Return layers that each compute and then all-reduce, cut into chunks of the batch.

    A chunk needs its own sum only, so one chunk is sent while the next is computed. Leaves out that small matrix
    products are less efficient.

    Parameters
    ----------
    compute, sizes : (L,) array_like
        Time [s] and activation [B] of each layer, for the whole batch.
    cost : callable
        Time of an all-reduce of so many bytes [s]; takes and gives arrays.
    chunks : int
        Parts of the batch. >= 1

    Returns
    -------
    Flows
        Labelled compute and all-reduce.

    References
    ----------
    .. [1] G. Wang et al., Domino, 2024 (arXiv:2409.15241).
    """
    moved = si(sizes, "sizes", units.size)
    c = units.count(chunks, "chunks")
    n = units.count(moved.size, "layers in sizes")
    takes = times_of(compute, "compute", n)
    chunk_takes = np.repeat(takes[:, None] / c, c, axis=1)  # (L, c)

    # A chunk waits for its all-reduce of the layer before; these are numbered after all computations.
    number = np.arange(n * c).reshape(n, c)
    none = np.full((1, c), -1)
    before = np.append(none, number.size + number[:-1], axis=0)

    builder = FlowsBuilder()
    done = builder.add("compute", 0, lag=chunk_takes, stream=0, after=[before[..., None]])
    sums = times_of(cost(moved / c), "cost", n)[:, None]
    builder.add("all-reduce", 1, lag=sums, stream=np.ones_like(done), after=[done[..., None]])
    return builder.flows()
