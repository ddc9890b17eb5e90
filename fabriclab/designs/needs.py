"""Workloads that a cluster has to carry, and the bandwidth that each demands of a GPU, per tier.

Five of them are known to everybody, and a key draws five more of the same kinds. All stand on the running case: as much
computation in a step, and a model that is divided among eight GPUs. In the fifth many small jobs, whose GPUs are
scattered, share the cluster. Left out: latencies of single messages, and traffic of storage.

Examples
--------
>>> from fabriclab import designs
>>> dense = designs.workloads()[0]
>>> for need in designs.demand(dense):
...     print(need.axis, need.tier, f"{need.bytes / 1e9:.1f} GB in {need.window:.2f} s: {need.rate / 1e9:.1f} GB/s")
DP network 35.0 GB in 0.73 s: 47.9 GB/s
TP server 300.6 GB in 1.51 s: 199.4 GB/s
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Ints
from fabriclab.texts import text

__all__ = [
    "AXES",
    "Demand",
    "Step",
    "Workload",
    "demand",
    "drawable_workloads",
    "drawn_workloads",
    "step",
    "workloads",
]

AXES = ("DP", "FSDP", "TP", "PP", "EP")
NETWORK = "network"
SERVER = "server"

_BYTES = 2  # of a parameter, gradient or activation in bf16
_PASSES = 3  # FSDP gathers parameters in the forward and the backward pass, and scatters gradients
_BLOCKS = (
    2  # all-reduces of a layer in a forward pass: after attention, and after the feed-forward part
)
_WAYS = 2  # forward and backward pass
# illustrative: what all-reduces of TP, and exchanges of EP, may take beside the time in which GPUs compute
_ALLOWED = 0.4
# illustrative: exchanges of scattered jobs may take as long again as the computing; nobody promised them more
_SCATTERED_ALLOWED = 1.0
# illustrative: a key draws quantities of this part of those that everybody knows, or more
_LEAST = 0.6
# 31/32 over 63/64: the rings of a pipeline with two stages have twice as many members as those with four
_MOST = 0.984
# illustrative: servers that a drawn job divides its experts among, and stages of a drawn pipeline
_GROUPS = (16, 32, 64)
_STAGES = (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A training job on all GPUs of a cluster, as far as its network is concerned.

    The model is divided among ``shards`` GPUs of a replica: as many of them as a server has share each matrix (TP), and
    the rest are stages, in addition to those of ``pp``. A replica computes ``microbatches`` micro-batches in a step.

    Parameters
    ----------
    name : str
        Short name, such as ``"dense"``.
    parameters : float
        Parameters whose gradients are summed over all replicas.
    shards : int
        GPUs among which a stage is divided; 1 where the replicas share the parameters instead (FSDP). >= 1
    pp : int
        Stages. >= 1
    microbatches : int
        Micro-batches of a replica in a step. >= 1
    tokens : int
        Tokens of a micro-batch.
    ep : int
        Replicas among which the experts of a layer are divided; 1 without experts. >= 1
    experts_per_token : int
        Experts that a token goes to.
    moe_layers : int
        Layers with experts.
    scattered : bool
        Whether the cluster is shared by jobs of ``ep`` GPUs each, which got the GPUs that were free: each in another
        server, and of any number in it.
    """

    name: str
    parameters: float
    shards: int = 8
    pp: int = 1
    microbatches: int = 4
    tokens: int = 8192
    ep: int = 1
    experts_per_token: int = 0
    moe_layers: int = 0
    scattered: bool = False

    @property
    def is_sharded(self) -> bool:
        """Whether the replicas share the parameters (FSDP)."""
        return self.shards == 1 and not self.scattered

    @property
    def words(self) -> str:
        """The workload in a sentence."""
        key = "designs.workload.dense"
        if self.scattered:
            key = "designs.workload.tenants"
        elif self.ep > 1:
            key = "designs.workload.experts"
        elif self.is_sharded:
            key = "designs.workload.sharded"
        elif self.pp > 1:
            key = "designs.workload.pipeline"
        return text(
            key,
            parameters=self.parameters / 1e9,
            shards=self.shards,
            pp=self.pp,
            ep=self.ep,
            experts=self.experts_per_token,
            layers=self.moe_layers,
        )

    def __repr__(self) -> str:
        """Show the name and the sentence."""
        return f"<Workload {self.name}: {self.words}>"


class Demand(NamedTuple):
    """What one axis of parallelism sends in a step, and how fast it has to be so that nobody waits longer than allowed.

    Parameters
    ----------
    axis : str
        One of `AXES`.
    tier : str
        ``"server"``: inside a scale-up domain; ``"network"``: between servers.
    bytes : float
        What a GPU sends in a step. [B]
    window : float
        Time within which it has to be over. [s]
    """

    axis: str
    tier: str
    bytes: float
    window: float

    @property
    def rate(self) -> float:
        """Bandwidth that a GPU needs, in one direction. [B/s]."""
        return self.bytes / self.window


class Step(NamedTuple):
    """How long a step takes, and of what it is made. [s]."""

    compute: float
    tensor: float
    exposed: float

    @property
    def total(self) -> float:
        """Time of the whole step [s]."""
        return self.compute + self.tensor + self.exposed


def workloads() -> tuple[Workload, ...]:
    """Return the five workloads that everybody knows.

    ``"dense"`` is the running case: TP 8 inside servers and DP across them. ``"sharded"`` gathers the parameters of the
    same model when it needs them (FSDP), ``"pipeline"`` has four stages (PP), and ``"experts"`` exchanges tokens among
    the experts of 64 servers (EP); half of its parameters are no experts'. Under ``"tenants"`` small jobs share the
    cluster, placed by a scheduler on GPUs that are free [1]_: 32 GPUs each, all in different servers. They exchange
    tokens with GPUs of other numbers, and the GPUs beside them belong to others, so nobody there relays.

    References
    ----------
    .. [1] M. Jeon et al., Analysis of large-scale multi-tenant GPU clusters for DNN training workloads, USENIX ATC
       2019: jobs are spread over many servers where no server has enough GPUs free.
    """
    job = catalog.case()
    size = float(job.parameters)
    layers = int(job.layers)
    return (
        Workload(name="dense", parameters=size),
        Workload(name="sharded", parameters=size, shards=1, microbatches=1, tokens=4096),
        Workload(name="pipeline", parameters=size, pp=4, microbatches=16),
        # illustrative: experts in every second layer, on 64 servers
        Workload(
            name="experts",
            parameters=size / 2,
            ep=64,
            experts_per_token=4,
            moe_layers=layers // 2,
        ),
        # illustrative: a small model on 32 GPUs, with experts in 12 layers; each GPU computes tokens of its own
        Workload(
            name="tenants",
            parameters=0.0,  # its gradients are few, and left out
            shards=1,
            tokens=4096,
            ep=32,
            experts_per_token=2,
            moe_layers=12,
            scattered=True,
        ),
    )


def random(key: str | int, what: str) -> np.random.Generator:
    """Return the generator of what a key draws, which is the same on every machine."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise TypeError(f"key must be a text or a whole number, got {key!r:.80}")
    digest = hashlib.sha256(f"designs {what} {key}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def drawn_workloads(key: str | int) -> tuple[Workload, ...]:
    """Return five workloads that a key draws: models of other sizes, other stages, and other numbers of experts.

    None of them needs more of a GPU than its kind among `workloads`, and groups of experts lie within those. What a
    smaller group puts on a cable between two leaves may be more, though: `drawable_workloads` has the most.

    Parameters
    ----------
    key : str or int
        The key of a class or a learner.
    """
    rng = random(key, "workloads")
    dense, sharded, pipeline, experts, tenants = workloads()
    stages = int(rng.choice(_STAGES))  # more of them would send more often
    drawn = (
        dense,
        sharded,
        replace(pipeline, pp=stages, microbatches=4 * stages),
        replace(
            experts,
            # Groups end where those of `workloads` end, or within them: none crosses a border that no known one does.
            ep=int(rng.choice(_GROUPS)),
            experts_per_token=int(rng.integers(2, 5)),
        ),
    )
    found = []
    for known in drawn:
        part = float(rng.uniform(_LEAST, _MOST))
        found.append(replace(known, name=f"drawn {known.name}", parameters=known.parameters * part))
    fewer = int(tenants.moe_layers * float(rng.uniform(_LEAST, _MOST)))
    found.append(replace(tenants, name=f"drawn {tenants.name}", moe_layers=fewer))
    return tuple(found)


def drawable_workloads() -> tuple[Workload, ...]:
    """Return the largest workloads that a key may draw and whose places are not those of any of `workloads`.

    Among fewer servers an exchange sends more to each of them. Where leaves are joined directly, that may be more than
    a cable carries, so a design has to meet these under any key.
    """
    _, _, pipeline, experts, _ = workloads()
    found = []
    for ep in _GROUPS:
        if ep != experts.ep:
            found.append(replace(experts, name=f"experts in groups of {ep}", ep=ep))
    for pp in _STAGES:
        if pp != pipeline.pp:
            most = replace(pipeline, pp=pp, microbatches=4 * pp)
            size = most.parameters * _MOST
            found.append(replace(most, name=f"pipeline of {pp} stages", parameters=size))
    return tuple(found)


def demand(workload: Workload, gpus: int = 8, servers: int | None = None) -> tuple[Demand, ...]:
    """Return what a workload demands of each GPU, one `Demand` for each axis and tier that it uses.

    A ring of d replicas sends 2 (d - 1) / d of the gradients; an exchange of e ranks (e - 1) / e of what a rank has.
    Gradients have to be summed while the backward pass of the last micro-batch runs; parameters (FSDP) and activations
    (PP) move while GPUs compute; sums inside layers (TP) and exchanges (EP) wait for nothing and may take 0.4 of the
    computing time, those of scattered jobs as much as the computing time.

    Parameters
    ----------
    workload : Workload
        The workload.
    gpus : int
        GPUs of a server. With fewer than ``shards`` the model has so many more stages, at most one for each
        server. >= 1
    servers : int, optional
        Servers of the cluster; by default those of the running case's 1,024 GPUs. >= 1
    """
    job = catalog.case()
    each = units.count(gpus, "gpus")
    n = -(-int(job.gpus) // each) if servers is None else units.count(servers, "servers")
    compute = float(job.t_compute)
    message = workload.tokens * job.hidden * _BYTES  # activations of a micro-batch [B]
    found = []

    if workload.scattered:
        buffer = message * workload.experts_per_token
        times = 2 * _WAYS * workload.moe_layers * workload.microbatches
        sent = times * buffer * (workload.ep - 1) / workload.ep
        return (Demand("EP", NETWORK, sent, _SCATTERED_ALLOWED * compute),)

    if workload.is_sharded:
        whole = _PASSES * _BYTES * workload.parameters
        if n > 1:
            found.append(Demand("FSDP", NETWORK, whole / each * (n - 1) / n, compute))
        if each > 1:
            found.append(Demand("FSDP", SERVER, whole * (each - 1) / each, compute))
        return tuple(found)

    tp = min(workload.shards, each)
    stages = min(stages_of(workload, each), n)
    replicas = n // stages
    gradients = _BYTES * workload.parameters / (tp * stages)
    window = float(job.window) * int(job.microbatches) / workload.microbatches
    if replicas > 1:
        found.append(Demand("DP", NETWORK, 2 * (replicas - 1) / replicas * gradients, window))
    if tp > 1:
        sums = _WAYS * _BLOCKS * int(job.layers) / stages * workload.microbatches
        found.append(Demand("TP", SERVER, sums * message * 2 * (tp - 1) / tp, _ALLOWED * compute))
    if stages > 1:
        sends = _WAYS * workload.microbatches
        found.append(Demand("PP", NETWORK, sends * message / tp, compute))
    if workload.ep > 1 and replicas > 1:
        exchanges = 2 * _WAYS * workload.moe_layers / stages * workload.microbatches
        buffer = message / tp * workload.experts_per_token
        size = float(np.mean([len(group) for group in expert_groups(workload, replicas)]))
        found.append(
            Demand("EP", NETWORK, exchanges * buffer * (size - 1) / size, _ALLOWED * compute)
        )
    return tuple(found)


def stages_of(workload: Workload, gpus: int) -> int:
    """Return the number of stages on servers of ``gpus`` GPUs."""
    if workload.is_sharded:
        return 1
    return workload.pp * (workload.shards // min(workload.shards, gpus))


def expert_groups(workload: Workload, replicas: int) -> list[Ints]:
    """Return the places of replicas that share experts: groups of about ``ep`` neighbours, as equal as can be."""
    groups = max(1, round(replicas / workload.ep))
    return np.array_split(np.arange(replicas), groups)


def step(workload: Workload, seconds: dict[str, float], gpus: int = 8) -> Step:
    """Return the time of a step in which the axes take these times on the network.

    Gradients are summed as in the running case: one bucket per layer, each as soon as it is ready. Of parameters and
    activations on the network only what takes longer than the computation is waited for, of exchanges all. Leaves out
    that axes may meet on a link, and the rates inside servers of other sizes.

    Parameters
    ----------
    workload : Workload
        The workload.
    seconds : mapping of str to float
        Time of each axis on the network. [s]
    gpus : int
        GPUs of a server. >= 1
    """
    job = catalog.case()
    computing = float(job.t_compute)
    needs = {(need.axis, need.tier): need for need in demand(workload, gpus)}
    tensor = 0.0
    if ("TP", SERVER) in needs:
        tensor = needs["TP", SERVER].bytes / float(job.tp_busbw)

    exposed = seconds.get("EP", 0.0)
    if "DP" in seconds:
        exposed += job.exposed(t_dp=seconds["DP"], window=needs["DP", NETWORK].window)
    for axis in ("FSDP", "PP"):
        exposed += max(0.0, seconds.get(axis, 0.0) - computing)
    bubble = (stages_of(workload, gpus) - 1) / workload.microbatches
    return Step(computing * (1 + bubble), tensor, exposed)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
