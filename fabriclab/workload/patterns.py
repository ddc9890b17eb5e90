"""Point-to-point patterns on a fabric: parameter server, pipeline, broadcast, streaming input."""

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Flows
from fabriclab.registry import register
from fabriclab.workload._work import Work, nodes_of, times_of

# Who hands the model to the k-th node: the first node; the one before; in a binomial tree k without its highest bit.
_PARENT = {
    "one_root": lambda k: np.zeros_like(k),
    "chain": lambda k: k - 1,
    "tree": lambda k: k - 2 ** (np.frexp(k)[1] - 1),
}


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
    """Return the steps of training over a parameter server.

    Each server holds an equal part (shard) of the model. A worker computes, pushes a part of its gradient to each
    server, pulls the new parts, and goes on when it has all. Leaves out the time to add.

    Parameters
    ----------
    fabric : Fabric
        Where.
    size : float or str
        Size of the model, which is that of a gradient. [B], >= 0
    servers, workers : array_like of int
        Their ranks; a rank may be both, and sends nothing to itself then.
    compute : array_like or str
        Time of a step, one for all, or (W,), or (steps, W). [s]
    steps : int
        Steps of each worker. >= 1
    staleness : int, optional
        Before it begins a step, a worker waits for the gradients of all from so many steps before the last one: 0 is
        synchronous, and no worker is ever more than ``staleness`` steps ahead; None waits for nobody. >= 0

    Returns
    -------
    Flows
        Labelled compute, push, update (a shard has the gradients of all) and pull.

    References
    ----------
    .. [1] M. Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014.
    .. [2] Q. Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, NIPS 2013.
    """
    worker, server = nodes_of(fabric, workers, "workers"), nodes_of(fabric, servers, "servers")
    behind = steps if staleness is None else units.count(staleness, "staleness", 0)
    takes = times_of(compute, "compute", units.count(steps, "steps"), worker.size)
    part, work, updates = units.size(size) / server.size, Work(), []
    pull = np.full((worker.size, server.size), -1)
    for t in range(steps):
        done = work.add("compute", worker, lag=takes[t], stream=worker, after=[pull])
        push = work.add("push", worker[:, None], server, size=part, after=[done[:, None, None]])
        updates.append(work.add("update", server, after=[push.T]))
        known = [updates[t - behind][:, None]] if t >= behind else []
        pull = work.add("pull", server, worker[:, None], size=part, after=[push[..., None], *known])
    return work.flows()


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
    """Return steps that each read a batch from storage and compute on it.

    With loads of time l that no other disturbs and computations of time c, one buffer takes steps (l + c), two or
    more l + (steps - 1) max(l, c) + c; more than two help where times vary.

    Parameters
    ----------
    fabric : Fabric
        Where.
    size : float or str
        Size of a batch of one worker. [B], >= 0
    sources, workers : array_like of int
        Ranks of the storage servers and of the workers; worker w reads from source w modulo their number.
    compute : array_like or str
        Time of a step, one for all, or (W,), or (steps, W). [s]
    steps : int
        Batches of each worker. >= 1
    buffers : int
        Batches that a worker has room for, the one that it works on too. >= 1

    Returns
    -------
    Flows
        Labelled load and compute.

    References
    ----------
    .. [1] D. G. Murray et al., tf.data: a machine learning data processing framework, VLDB 14(12), 2021.
    """
    worker, source = nodes_of(fabric, workers, "workers"), nodes_of(fabric, sources, "sources")
    n, room = worker.size, units.count(buffers, "buffers")
    takes = times_of(compute, "compute", units.count(steps, "steps"), n)
    number, work = np.arange(steps * n).reshape(steps, n), Work()
    free = np.append(np.full((min(room, steps), n), -1), number.size + number[:-room], axis=0)
    part = np.full(number.shape, units.size(size))
    load = work.add(
        "load", np.resize(source, n), worker, size=part, stream=worker, after=[free[..., None]]
    )
    work.add("compute", worker, lag=takes, stream=fabric.n_nodes + worker, after=[load[..., None]])
    return work.flows()


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
    """Return the flows that bring a model from the first rank to all others, each rank sending one at a time.

    With hops of equal rate it takes n - 1 times the time of one copy from one root, ceil(log2 n) times over the tree
    in one segment, and (n - 2 + s) / s times over the chain in s segments.

    Parameters
    ----------
    fabric : Fabric
        Where.
    size : float or str
        Size of the model. [B], >= 0
    ranks : array_like of int
        The n ranks, the root first.
    way : str
        ``"one_root"``, ``"tree"`` (binomial) or ``"chain"``.
    segments : int
        Equal parts that are handed on as soon as they have come. >= 1
    lag : float or str
        Software time of each segment and hop before its first byte. [s], >= 0

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication operations in MPICH, 2005.
    """
    node, s = nodes_of(fabric, ranks, "ranks", 2), units.count(segments, "segments")
    k = np.arange(1, node.size)
    parent = _PARENT[units.choice(way, "way", _PARENT)](k)
    number = np.arange(s * k.size).reshape(s, -1)  # of the segment that comes to k
    have = np.where(parent > 0, number[:, parent - 1], -1)
    part = np.full(number.shape, units.size(size) / s)
    work = Work()
    wait = units.latency(lag, "lag")
    work.add(
        "segment",
        node[parent],
        node[k],
        size=part,
        lag=wait,
        stream=parent,
        after=[have[..., None]],
    )
    return work.flows()


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
    """Return one step of a pipeline.

    Activations and their gradients are sent beside the computation. Without sending time and with equal stages, each
    stage is idle for (p - 1) / (chunks m + p - 1) of the step: the bubble of p stages and m micro-batches.

    Parameters
    ----------
    fabric : Fabric
        Where.
    size : float or str
        Activation of a micro-batch between two stages. [B], >= 0
    stages : array_like of int
        Rank of each of the p stages.
    microbatches : int
        Number of micro-batches; a multiple of p if there are several chunks.
    forward, backward : array_like or str
        Time of a micro-batch in a stage, with all its chunks; one for all, or (p,). [s]
    order : str
        ``"gpipe"`` has all forwards first and holds the activations of m micro-batches; ``"1f1b"`` holds those of p
        at most, in the same time.
    chunks : int
        Parts of the model that each stage has, as far from each other as can be: interleaved 1F1B. >= 1

    Returns
    -------
    Flows
        Labelled forward, backward and send.

    References
    ----------
    .. [1] Y. Huang et al., GPipe, NeurIPS 2019 (arXiv:1811.06965).
    .. [2] D. Narayanan et al., Efficient large-scale language model training on GPU clusters, SC 2021, section 2.2.
    """
    node = nodes_of(fabric, stages, "stages")
    p, m, v = node.size, units.count(microbatches, "microbatches"), units.count(chunks, "chunks")
    if order not in ("gpipe", "1f1b") or (v > 1 and (m % p or order == "gpipe")):
        msg = f'order must be "gpipe" or "1f1b", and with several chunks "1f1b" with microbatches a multiple of {p} '
        msg += f"stages; got {order!r}, chunks={v}, microbatches={m}"
        raise ValueError(msg)
    # Unit k of a stage: p micro-batches through its first chunk, the same through the next, then the next p.
    d, k = np.arange(p)[:, None], np.arange(m * v)
    chunk, micro = k % (p * v) // p, k // (p * v) * p + k % p
    ahead = 2 * (p - d - 1) + (v - 1) * p if v > 1 else p - d - 1
    warm = np.full_like(d, m * v) if order == "gpipe" else np.minimum(ahead, m * v)
    # A micro-batch passes 2 p v places: forward through all chunks of all stages, then back.
    turn, device = np.empty((m, 2 * p * v)), np.arange(p * v) % p
    turn[micro, chunk * p + d] = k + np.maximum(k - warm, 0)
    turn[micro, p * v + chunk * p + p - 1 - d] = k + np.minimum(warm + k + 1, m * v)
    device = np.append(device, device[::-1])
    work, come = Work(), np.full(turn.shape, -1)
    come[:, 1:] = 2 * m * p * v + np.arange(m * (2 * p * v - 1)).reshape(m, -1)
    done = []
    for label, takes, span in (
        ("forward", forward, slice(0, p * v)),
        ("backward", backward, slice(p * v, None)),
    ):
        lag, here = times_of(takes, label, p) / v, device[span]
        done.append(
            work.add(
                label,
                node[here],
                lag=np.broadcast_to(lag[here], turn[:, span].shape),
                stream=here,
                turn=turn[:, span],
                after=[come[:, span, None]],
            )
        )
    ready = np.concatenate(done, axis=1)[:, :-1]
    a, b = device[:-1], device[1:]  # the last stage turns round and sends nothing
    sent = np.broadcast_to(np.where(a == b, 0.0, units.size(size)), ready.shape)
    work.add("send", node[a], node[b], size=sent, after=[ready[..., None]])
    return work.flows()
