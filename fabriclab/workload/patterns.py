"""Point-to-point patterns on a fabric: parameter server, pipeline, broadcast, streaming input."""

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Floats, Flows, Ints
from fabriclab.registry import register
from fabriclab.workload._work import FlowsBuilder, nodes_of, times_of


def _from_first(k: Ints) -> Ints:
    """Return the parent of node k = 1, 2, ...: the first node."""
    return np.zeros_like(k)


def _from_previous(k: Ints) -> Ints:
    """Return the parent of node k = 1, 2, ...: the node before it."""
    return k - 1


def _from_binomial(k: Ints) -> Ints:
    """Return the parent of node k = 1, 2, ... in a binomial tree: k without its highest bit."""
    bits = np.frexp(k)[1]  # number of binary digits of k
    return np.asarray(k - 2 ** (bits - 1))


_PARENT = {"one_root": _from_first, "chain": _from_previous, "tree": _from_binomial}


@register(
    "workload",
    "parameter_server",
    small={"size": 2.0**20, "servers": [0, 1], "workers": [1, 2, 3], "steps": 3},
)
def parameter_server(
    fabric: Fabric,
    size: units.Quantity,
    *,
    servers: ArrayLike,
    workers: ArrayLike,
    compute: ArrayLike = 0.0,
    steps: int = 1,
    staleness: int | None = 0,
) -> Flows:
    """Build the flows of training with a parameter server.

    Each server has an equal part (shard) of the model. A worker computes, pushes a part of its gradient to each server,
    pulls the new parts of the model, and begins the next step when it has them all. Leaves out the time to add.

    Parameters
    ----------
    fabric : Fabric
        The network.
    size : float or str
        Size of the model, and of a gradient. [B], >= 0
    servers, workers : array_like of int
        Ranks of the servers and of the workers; a rank may be both, and then sends nothing to itself.
    compute : array_like or str
        Computing time of a step: one for all, (W,) or (steps, W). [s]
    steps : int
        Steps of each worker. >= 1
    staleness : int, optional
        How many steps a worker may be ahead of the slowest. Before each step it waits for the gradients of all workers
        from ``staleness`` steps before its last one. 0 is synchronous training; with None it waits for nobody. >= 0

    Returns
    -------
    Flows
        Flows labelled compute, push, update (a shard has the gradients of all workers) and pull.

    References
    ----------
    .. [1] M. Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014.
    .. [2] Q. Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, NIPS 2013.
    """
    worker = nodes_of(fabric, workers, "workers")  # (W,)
    server = nodes_of(fabric, servers, "servers")  # (S,)
    behind = steps if staleness is None else units.count(staleness, "staleness", 0)
    takes = times_of(compute, "compute", units.count(steps, "steps"), worker.size)  # (steps, W)
    shard = units.size(size) / server.size  # [B]

    builder = FlowsBuilder()
    updates = []  # (S,) update of each server, for each step
    pull = np.full((worker.size, server.size), -1)  # nothing to wait for in the first step
    for t in range(steps):
        done = builder.add("compute", worker, lag=takes[t], stream=worker, after=[pull])
        push = builder.add("push", worker[:, None], server, size=shard, after=[done[:, None, None]])
        updates.append(builder.add("update", server, after=[push.T]))

        pull_after = [push[..., None]]
        if t >= behind:
            pull_after.append(updates[t - behind][:, None])
        pull = builder.add("pull", server, worker[:, None], size=shard, after=pull_after)  # (W, S)
    return builder.flows()


@register(
    "workload",
    "streaming",
    small={"size": 2.0**20, "sources": [0], "workers": [1, 2, 3], "steps": 4},
)
def streaming(
    fabric: Fabric,
    size: units.Quantity,
    *,
    sources: ArrayLike,
    workers: ArrayLike,
    compute: ArrayLike = 0.0,
    steps: int = 1,
    buffers: int = 2,
) -> Flows:
    """Build the flows of training with streaming input: each step reads a batch from storage and computes on it.

    If a load takes time l undisturbed and a computation takes time c, the steps take steps (l + c) with one buffer, and
    l + (steps - 1) max(l, c) + c with two or more. More than two buffers help if times vary.

    Parameters
    ----------
    fabric : Fabric
        The network.
    size : float or str
        Size of a batch of one worker. [B], >= 0
    sources, workers : array_like of int
        Ranks of the storage servers and of the workers; worker w reads from source w modulo the number of sources.
    compute : array_like or str
        Computing time of a step: one for all, (W,) or (steps, W). [s]
    steps : int
        Batches of each worker. >= 1
    buffers : int
        Batches for which a worker has room, including the batch that it computes on. >= 1

    Returns
    -------
    Flows
        Flows labelled load and compute.

    References
    ----------
    .. [1] D. G. Murray et al., tf.data: a machine learning data processing framework, VLDB 14(12), 2021.
    """
    worker = nodes_of(fabric, workers, "workers")
    source = nodes_of(fabric, sources, "sources")
    n = worker.size
    room = units.count(buffers, "buffers")
    takes = times_of(compute, "compute", units.count(steps, "steps"), n)  # (steps, n)

    # A load waits until the computation ``room`` steps earlier has freed its buffer.
    number = np.arange(steps * n).reshape(
        steps, n
    )  # numbers of loads; computations are numbered after them
    none = np.full((min(room, steps), n), -1)
    frees = np.append(none, number.size + number[:-room], axis=0)  # (steps, n)

    builder = FlowsBuilder()
    batch = np.full(number.shape, units.size(size))
    load = builder.add(
        "load", np.resize(source, n), worker, size=batch, stream=worker, after=[frees[..., None]]
    )
    builder.add(
        "compute", worker, lag=takes, stream=fabric.n_nodes + worker, after=[load[..., None]]
    )
    return builder.flows()


@register("workload", "broadcast", small={"size": 2.0**20, "ranks": range(4), "segments": 3})
def broadcast(
    fabric: Fabric,
    size: units.Quantity,
    *,
    ranks: ArrayLike,
    way: str = "chain",
    segments: int = 1,
    lag: units.Quantity = 0.0,
) -> Flows:
    """Build the flows that bring a model from the first rank to all others; each rank sends one copy at a time.

    If all hops have the same rate, it takes n - 1 times as long as one copy from one root, ceil(log2 n) times as long
    over the tree in one segment, and (n - 2 + s) / s times as long over the chain in s segments.

    Parameters
    ----------
    fabric : Fabric
        The network.
    size : float or str
        Size of the model. [B], >= 0
    ranks : array_like of int
        The n ranks, the root first.
    way : str
        Algorithm: ``"one_root"``, ``"tree"`` (binomial) or ``"chain"``.
    segments : int
        Number of equal parts, each of which is passed on as soon as it has arrived. >= 1
    lag : float or str
        Software time of each segment and hop before its first byte. [s], >= 0

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication operations in MPICH, 2005.
    """
    node = nodes_of(fabric, ranks, "ranks", 2)
    s = units.count(segments, "segments")
    k = np.arange(1, node.size)  # (n - 1,) all but the root
    parent = _PARENT[units.choice(way, "way", _PARENT)](k)

    number = np.arange(s * k.size).reshape(
        s, -1
    )  # (s, n - 1) number of the flow that brings a segment to rank k
    arrival = np.where(
        parent > 0, number[:, parent - 1], -1
    )  # at the parent; the root has all from the start
    segment = np.full(number.shape, units.size(size) / s)  # [B]
    builder = FlowsBuilder()
    builder.add(
        "segment",
        node[parent],
        node[k],
        size=segment,
        lag=units.latency(lag, "lag"),
        stream=parent,
        after=[arrival[..., None]],
    )
    return builder.flows()


@register(
    "workload",
    "pipeline",
    small={"size": 2.0**20, "stages": range(4), "microbatches": 8, "forward": 1.0, "backward": 2.0},
)
def pipeline(
    fabric: Fabric,
    size: units.Quantity,
    *,
    stages: ArrayLike,
    microbatches: int,
    forward: ArrayLike,
    backward: ArrayLike,
    order: str = "1f1b",
    chunks: int = 1,
) -> Flows:
    """Build the flows of one training step of a pipeline of stages.

    Activations and their gradients are sent while stages compute. With equal stages, and if sending takes no time,
    each stage is idle for (p - 1) / (chunks m + p - 1) of the step: the bubble of p stages and m micro-batches.

    Parameters
    ----------
    fabric : Fabric
        The network.
    size : float or str
        Size of the activation of a micro-batch between two stages. [B], >= 0
    stages : array_like of int
        Rank of each of the p stages.
    microbatches : int
        Number of micro-batches, m; a multiple of p if there are several chunks.
    forward, backward : array_like or str
        Time of a micro-batch in a stage, with all its chunks: one for all, or (p,). [s]
    order : str
        ``"gpipe"`` runs all forward passes first and stores the activations of m micro-batches; ``"1f1b"`` takes the
        same time but stores those of p micro-batches at most.
    chunks : int
        Number of parts of the model on each stage, as far apart as possible (interleaved 1F1B). >= 1

    Returns
    -------
    Flows
        Flows labelled forward, backward and send.

    References
    ----------
    .. [1] Y. Huang et al., GPipe, NeurIPS 2019 (arXiv:1811.06965).
    .. [2] D. Narayanan et al., Efficient large-scale language model training on GPU clusters, SC 2021, section 2.2.
    """
    node = nodes_of(fabric, stages, "stages")
    p = node.size
    m = units.count(microbatches, "microbatches")
    v = units.count(chunks, "chunks")
    if order not in ("gpipe", "1f1b") or (v > 1 and (m % p or order == "gpipe")):
        raise ValueError(
            f'order must be "gpipe" or "1f1b", and with several chunks "1f1b" with microbatches a multiple of {p} '
            f"stages; got {order!r}, chunks={v}, microbatches={m}"
        )
    n_forward = (
        p * v
    )  # places of a micro-batch: forward through all chunks of all stages, then back
    n_places = 2 * n_forward
    turn = _pipeline_turns(p, m, v, order)  # (m, places)
    stage = np.arange(n_forward) % p
    stage = np.append(stage, stage[::-1])  # (places,)

    # Computations are numbered first, then the sends, each from one place to the next.
    n_computations = m * n_places
    arrival = np.full((m, n_places), -1)  # the send that brings what a computation needs
    arrival[:, 1:] = n_computations + np.arange(m * (n_places - 1)).reshape(m, -1)

    builder = FlowsBuilder()

    def compute(label: str, takes: ArrayLike, places: slice) -> Ints:
        """Add the computations of some places and return their numbers, (m, places)."""
        here = stage[places]
        lag = times_of(takes, label, p) / v  # (p,) time of a chunk
        return builder.add(
            label,
            node[here],
            lag=np.broadcast_to(lag[here], turn[:, places].shape),
            stream=here,
            turn=turn[:, places],
            after=[arrival[:, places, None]],
        )

    forwards = compute("forward", forward, slice(0, n_forward))
    backwards = compute("backward", backward, slice(n_forward, None))

    done = np.concatenate([forwards, backwards], axis=1)[:, :-1]  # before each send
    here = stage[:-1]
    following = stage[1:]  # the last stage turns round and sends nothing
    sent = np.where(here == following, 0.0, units.size(size))
    builder.add(
        "send",
        node[here],
        node[following],
        size=np.broadcast_to(sent, done.shape),
        after=[done[..., None]],
    )
    return builder.flows()


def _pipeline_turns(p: int, m: int, v: int, order: str) -> Floats:
    """Return the turn of each computation on its stage, (m, 2 p v).

    A micro-batch passes 2 p v places: forward through all ``v`` chunks of all ``p`` stages, then back. A stage first
    runs some forward passes, its warm-up, then alternates between forward and backward passes, and then runs the
    backward passes that are left.
    """
    stage = np.arange(p)[:, None]
    k = np.arange(m * v)
    # Unit k of a stage: p micro-batches through its first chunk, then the same through the next chunk and so on; then
    # the next p micro-batches.
    chunk = k % (p * v) // p
    micro = k // (p * v) * p + k % p

    if order == "gpipe":
        warm_up = np.full_like(stage, m * v)
    elif v > 1:
        warm_up = np.minimum(2 * (p - stage - 1) + (v - 1) * p, m * v)
    else:
        warm_up = np.minimum(p - stage - 1, m * v)

    turn = np.empty((m, 2 * p * v))
    turn[micro, chunk * p + stage] = k + np.maximum(k - warm_up, 0)
    turn[micro, p * v + chunk * p + p - 1 - stage] = k + np.minimum(warm_up + k + 1, m * v)
    return turn
