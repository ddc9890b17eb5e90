"""Training steps as streams of computation and communication, whose collectives take a given time.

Nodes 0, 1, ... are the computation of the ranks, and the last node is their communication. Run the flows on `streams`.
"""

from __future__ import annotations

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
    """Return the time of a collective for small examples [s]: one second per MB."""
    return size / 1e6


_SMALL: dict[str, Any] = {
    "forward": [1.0, 2.0, 1.0],
    "backward": [2.0, 4.0, 2.0],
    "sizes": [4e6, 1e6, 3e6],
    "cost": _a_second_for_each_mb,
}


def streams(flows: Flows) -> Fabric:
    """Build a fabric without links whose nodes are the streams of a step, so that a timeline has a lane for each."""
    n = int(flows.source.max())
    b = FabricBuilder(("compute", "communication"), ("rank",))
    rank = {"rank": np.arange(n)} if n > 1 else {}  # the only one needs no number
    b.add_nodes("compute", n, tier=0, transit=False, **rank)
    b.add_nodes("communication", 1, tier=0, transit=False)
    return b.build(
        "streams", {}, endpoint=np.arange(n + 1), rail=np.zeros(n + 1), server=np.arange(n + 1)
    )


def bucket_wait(ready: ArrayLike, send: ArrayLike) -> float:
    """Return how long the next forward pass waits for gradient buckets when the backward pass has ended [s].

    Buckets are all-reduced one at a time, in the order in which they become ready. The pass waits for all of them; with
    the pattern ``data_parallel`` it can also wait for each layer alone.

    Parameters
    ----------
    ready : (B,) array_like
        When each bucket is ready, in ascending order. The last one is ready when the backward pass ends. [s]
    send : (B,) array_like, or one number for all buckets
        Time of the all-reduce of each bucket. [s]

    Raises
    ------
    ValueError
        If there is no bucket, the times do not fit together, or one of them is negative.

    Examples
    --------
    The first all-reduce ends at 2.5 s and the second at 4 s, and the backward pass has ended at 2 s:

    >>> bucket_wait([1, 2], [1.5, 1.5])
    2.0
    """
    n = units.count(np.size(ready), "buckets in ready")
    begins = times_of(ready, "ready", n)
    takes = times_of(send, "send", n)
    units.time(float(begins.min()), "ready")
    units.time(float(takes.min()), "send")
    if np.any(np.diff(begins) < 0):
        raise ValueError(f"ready must ascend, got {begins!r:.60}")

    network_free = 0.0  # [s]
    for is_ready, takes_so_long in zip(begins.tolist(), takes.tolist(), strict=True):
        network_free = max(network_free, is_ready) + takes_so_long
    return network_free - float(begins[-1])


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
    """Build the backward pass of a step and the forward pass of the next one, with gradients all-reduced in buckets.

    Gradients become ready from the last layer to the first. A bucket is full with the layer that brings it to its size;
    it can be sent when it is ready on all ranks. One collective runs at a time and is not interrupted.

    Parameters
    ----------
    forward, backward : array_like
        Time of each layer: (L,), or (R, L) if ranks differ. [s]
    sizes : (L,) array_like
        Size of the gradient of each layer. [B]
    cost : callable
        Function from the size of an all-reduce [B] to its time [s], for arrays.
    bucket : float or str
        Size at which a bucket is full: 0 for one bucket per layer (wait-free backward), inf for a single bucket. [B]
    priority : bool
        True: of the waiting buckets the one that the next forward pass needs first is sent first, and each layer waits
        only for its own bucket. False: buckets are sent in the order in which they become ready, and the next forward
        pass waits for all of them.

    Returns
    -------
    Flows
        Flows labelled backward, all-reduce and forward.

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
        needed_first = -np.arange(takes.size)  # the forward pass begins with the last bucket
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
    """Return the bucket of each gradient, (L,); a bucket that reaches the size ``full`` takes no more gradients."""
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
    """Return the turn of each job on a server that always takes the ready job with the lowest ``rank``."""
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
    """Build a training step in which each rank stores only a part of all parameters (ZeRO stage 3, FSDP).

    The parameters of a layer are all-gathered before its forward pass and again before its backward pass; then its
    gradients are reduce-scattered. One collective runs at a time. If the same computation releases an all-gather and a
    reduce-scatter, the all-gather goes first.

    Parameters
    ----------
    forward, backward, sizes : (L,) array_like
        Times [s], and size of the parameters [B], of each layer.
    cost : callable
        Function from the size of an all-gather or reduce-scatter [B] to its time [s], for arrays.
    prefetch : int
        Number of layers that are gathered ahead; with 0 an all-gather waits until the layer before has finished. >= 0

    Returns
    -------
    Flows
        Flows labelled forward, backward, all-gather and reduce-scatter.

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
    """Build layers that each compute and then all-reduce their activations, in chunks of the batch.

    A chunk needs only its own sum, so one chunk is sent while the next one is computed. Leaves out that small matrix
    products are less efficient.

    Parameters
    ----------
    compute, sizes : (L,) array_like
        Time [s] and size of the activation [B] of each layer, for the whole batch.
    cost : callable
        Function from the size of an all-reduce [B] to its time [s], for arrays.
    chunks : int
        Number of parts of the batch. >= 1

    Returns
    -------
    Flows
        Flows labelled compute and all-reduce.

    References
    ----------
    .. [1] G. Wang et al., Domino, 2024 (arXiv:2409.15241).
    """
    moved = si(sizes, "sizes", units.size)
    c = units.count(chunks, "chunks")
    n = units.count(moved.size, "layers in sizes")
    takes = times_of(compute, "compute", n)
    chunk_takes = np.repeat(takes[:, None] / c, c, axis=1)  # (L, c)

    # A chunk waits for its all-reduce in the layer before; all-reduces are numbered after all computations.
    number = np.arange(n * c).reshape(n, c)
    none = np.full((1, c), -1)
    before = np.append(none, number.size + number[:-1], axis=0)

    builder = FlowsBuilder()
    done = builder.add("compute", 0, lag=chunk_takes, stream=0, after=[before[..., None]])
    sums = times_of(cost(moved / c), "cost", n)[:, None]
    builder.add("all-reduce", 1, lag=sums, stream=np.ones_like(done), after=[done[..., None]])
    return builder.flows()
