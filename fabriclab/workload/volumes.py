"""What a layout sends in a training step: each collective with its bytes, its count, its group and its moment.

`volumes` writes the ledger of a step. A `Ledger` adds it up by purpose, turns it into traffic between ranks and tells
which tier of a fabric carries it.

Examples
--------
The running case sends 301 GB for its tensor parallelism and 35 GB for its gradients, per GPU and step:

>>> import fabriclab as fl
>>> from fabriclab.workload import layouts, models, volumes
>>> case = fl.case()
>>> ledger = volumes.volumes(models.of_case(case), layouts.of_case(case))
>>> ledger.sent("tensor") == case.tp_bytes
True
>>> round(ledger.sent("gradients", "parameters") / case.dp_bytes, 9)
1.0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.collectives.ring import leaf_of
from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.workload.layouts import Layout, check
from fabriclab.workload.models import Model

__all__ = ["MOMENTS", "PURPOSES", "TIERS", "Collective", "Ledger", "Traffic", "volumes"]

PURPOSES = {
    "tensor": "activations inside layers whose matrices are divided",
    "table": "activations at the divided tables of tokens, and the loss",
    "context": "keys and values, or heads, of a divided sequence",
    "pipeline": "activations from stage to stage",
    "experts": "tokens on their way to experts and back",
    "parameters": "parameters that ranks share",
    "gradients": "sums of gradients of parameters that all tokens use",
    "expert_parameters": "parameters of routed experts that ranks share",
    "expert_gradients": "sums of gradients of routed experts",
    "tied_table": "sum of the gradients of a table that the first and the last stage have",
}
MOMENTS = ("forward", "backward", "recomputation", "last backward", "before the forward")
TIERS = ("scale-up", "leaf", "spine")
# A rank sends (n - 1) / n of the size so many times: in rings, and in exchanges of all pairs.
_PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
_SEND = "send"
# For each token the ranks agree on the largest score, the score of the right token and the sum, in fp32: Megatron-LM,
# megatron/core/tensor_parallel/cross_entropy.py.
_LOSS_BYTES = 3 * 4.0


@dataclass(frozen=True, slots=True)
class Collective:
    """One line of a ledger: a collective, or a message, that every group of a stage repeats in a step.

    Parameters
    ----------
    purpose : str
        Why it is sent; see `PURPOSES`.
    operation : str
        ``"all_reduce"``, ``"all_gather"``, ``"reduce_scatter"``, ``"all_to_all"`` or ``"send"``.
    group : str
        Kind of group; see `Layout.groups`. A message goes to the next or the one before in the group.
    ranks : int
        Members of a group. >= 2
    stage : int
        Stage whose ranks send it.
    moment : str
        When it is sent; see `MOMENTS`.
    size : float
        Bytes that are reduced, gathered or scattered, of the buffer of a rank that is exchanged, or of a message. [B]
    layers : int
        Layers, or other parts of the stage such as a table, that have it. >= 1
    each : float
        How often each of them has it in a micro-batch, or in a step if its moment comes once a step.
    count : float
        How often a rank has it in a step.
    """

    purpose: str
    operation: str
    group: str
    ranks: int
    stage: int
    moment: str
    size: float
    layers: int
    each: float
    count: float

    @property
    def sent_each(self) -> float:
        """Bytes that a rank sends each time: of a ring, or of an exchange of all pairs. [B]."""
        if self.operation == _SEND:
            return self.size
        return _PASSES[self.operation] * (self.ranks - 1) / self.ranks * self.size

    @property
    def sent(self) -> float:
        """Bytes that a rank sends in a step. [B]."""
        return self.count * self.sent_each


class Traffic(NamedTuple):
    """Bytes between pairs of ranks in a step: source, target and size of each pair that talks, (N,)."""

    source: Ints
    target: Ints
    size: Floats

    def matrix(self, ranks: int) -> Floats:
        """Return the table of what each rank sends to each other, (ranks, ranks). [B]."""
        table = np.zeros((ranks, ranks))
        np.add.at(table, (self.source, self.target), self.size)
        return table

    def moved(self, place: Ints) -> Traffic:
        """Return the same bytes with rank k on GPU ``place[k]``, so that both ends are GPUs, (ranks,)."""
        return Traffic(place[self.source], place[self.target], self.size)

    def between_servers(self, ranks: int, per_server: int) -> Floats:
        """Return the table of what each server sends to each other, (servers, servers). [B].

        Ranks fill the servers in order, ``per_server`` each; what stays in a server is left out.
        """
        servers = ranks // per_server
        blocks = self.matrix(ranks).reshape(servers, per_server, servers, per_server)
        table: Floats = blocks.sum(axis=(1, 3))
        np.fill_diagonal(table, 0.0)
        return table

    def relayed(self, per_server: int) -> float:
        """Return the share of the bytes between servers that change rail, 0 if no byte leaves a server.

        Ranks fill the servers in order, and GPU k of a server is on rail k, so the ends of these bytes have different
        numbers in their servers.
        """
        leaves = self.source // per_server != self.target // per_server
        changes_rail = self.source % per_server != self.target % per_server
        outside = float(self.size[leaves].sum())
        return float(self.size[leaves & changes_rail].sum()) / outside if outside else 0.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of a step: all collectives of a layout. It iterates over its lines.

    Parameters
    ----------
    layout : Layout
        Whose groups the lines name.
    lines : tuple of Collective
        The collectives.
    """

    layout: Layout
    lines: tuple[Collective, ...]

    def __iter__(self) -> Iterator[Collective]:
        """Iterate over the lines."""
        return iter(self.lines)

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def only(self, *purposes: str, stage: int | None = None) -> Ledger:
        """Return the lines of some purposes, or of all, on one stage, or on all."""
        known = [units.choice(purpose, "purpose", PURPOSES) for purpose in purposes] or PURPOSES
        chosen = []
        for line in self.lines:
            if line.purpose in known and stage in (None, line.stage):
                chosen.append(line)
        return Ledger(self.layout, tuple(chosen))

    def sent(self, *purposes: str) -> float:
        """Return the bytes that a rank sends in a step, on the stage whose ranks send most. [B]."""
        return float(self.by_stage(*purposes).max())

    def by_stage(self, *purposes: str) -> Floats:
        """Return the bytes that a rank of each stage sends in a step, (pp,). [B]."""
        total = np.zeros(self.layout.pp)
        for line in self.only(*purposes):
            total[line.stage] += line.sent
        return total

    def groups(self, line: Collective) -> Ints:
        """Return the ranks of the groups that run a line, (groups, size); senders first in a message, (messages, 2)."""
        layout = self.layout
        members = layout.groups(line.group)
        if line.operation == _SEND:
            step = 1 if line.moment in ("forward", "recomputation") else -1
            other = (line.stage + step) % layout.pp
            return members[:, [line.stage, other]]
        if line.group == "table":
            return members
        here: Ints = members[members[:, 0] // layout.stage_ranks == line.stage]
        return here

    def traffic(self, *purposes: str) -> Traffic:
        """Return what each rank sends to each other one in a step, for some purposes or for all.

        Reductions and gatherings go around a ring of the group in the order of its ranks; exchanges go directly.
        """
        ranks = self.layout.ranks
        pairs = [np.zeros(0, dtype=np.int64)]
        sizes = [np.zeros(0)]
        for line in self.only(*purposes):
            if line.group == "table" and line.stage:
                continue  # the ring of both stages is that of the first
            source, target = _pairs(line, self.groups(line))
            share = line.sent
            if line.operation == "all_to_all":
                share /= line.ranks - 1
            pairs.append(source * ranks + target)
            sizes.append(np.full(source.size, share))
        pair, place = np.unique(np.concatenate(pairs), return_inverse=True)
        size = np.bincount(place, np.concatenate(sizes), pair.size).astype(np.float64)
        return Traffic(pair // ranks, pair % ranks, size)

    def tiers(
        self,
        fabric: Fabric,
        *purposes: str,
        domain: int | None = None,
        placement: ArrayLike | None = None,
    ) -> dict[str, float]:
        """Return the bytes of a step that each tier of a fabric carries, all ranks together. [B].

        A byte is counted once, in the highest tier on its way: ``"scale-up"`` inside a scale-up domain, ``"leaf"``
        between domains on one leaf switch, ``"spine"`` above. Without leaf switches all that leaves a domain counts as
        ``"spine"``.

        Parameters
        ----------
        fabric : Fabric
            The network, such as ``fl.system(...).fabric``.
        *purposes : str
            As in `sent`.
        domain : int, optional
            Endpoints in a scale-up domain, which follow each other, such as ``fl.system(...).joined``; by default a
            domain is a server. >= 1
        placement : array_like of int, shape (ranks,), optional
            Endpoint of each rank; by default rank k is endpoint k.
        """
        where = np.arange(self.layout.ranks) if placement is None else np.asarray(placement)
        if where.size != self.layout.ranks or np.unique(where).size != where.size:
            raise ValueError(
                f"placement must name a different endpoint for each of {self.layout.ranks} ranks, got {where.size}"
            )
        if where.max() >= fabric.n_ranks:
            raise ValueError(
                f"the fabric must have an endpoint for each of {self.layout.ranks} ranks, it has {fabric.n_ranks}"
            )
        home = np.asarray(fabric.server, dtype=np.int64)
        if domain is not None:
            home = np.arange(fabric.n_ranks) // units.count(domain, "domain")
        leaf = np.full(fabric.n_ranks, -1)
        if "leaf" in fabric.kinds:
            leaf = leaf_of(fabric)
        flows = self.traffic(*purposes)
        source, target = where[flows.source], where[flows.target]
        inside = home[source] == home[target]
        same_leaf = (leaf[source] == leaf[target]) & (leaf[source] >= 0)
        parts = (inside, ~inside & same_leaf, ~inside & ~same_leaf)
        return {
            tier: float(flows.size[part].sum()) for tier, part in zip(TIERS, parts, strict=True)
        }

    def draw(self) -> str:
        """Return the ledger as a table of text, one line for each collective."""
        rows = [
            "stage purpose            operation      group          ranks       size  count  moment"
        ]
        for line in self.lines:
            rows.append(
                f"{line.stage:5} {line.purpose:18} {line.operation:14} {line.group:14} {line.ranks:5} "
                f"{units.format_size(line.size):>10} {line.count:6g}  {line.moment}"
            )
        return "\n".join(rows)


def _pairs(line: Collective, members: Ints) -> tuple[Ints, Ints]:
    """Return source and target of each message that a line sends: along a ring, or between all pairs of a group."""
    if line.operation == _SEND:
        return members[:, 0], members[:, 1]
    if line.operation == "all_to_all":
        a, b = np.nonzero(~np.eye(line.ranks, dtype=np.bool_))
        return members[:, a].ravel(), members[:, b].ravel()
    return members.ravel(), np.roll(members, -1, axis=1).ravel()


class _Writer:
    """Collect the lines of a ledger, stage by stage."""

    def __init__(self, model: Model, layout: Layout) -> None:
        self.model = model
        self.layout = layout
        self.lines: list[Collective] = []
        self.stage = 0
        self.layers = np.zeros(0, dtype=np.int64)  # of the stage
        self.tokens = layout.tokens(model)
        self.state = self.tokens * model.hidden * layout.activation_bytes  # [B] between two layers

    def add(
        self,
        purpose: str,
        operation: str,
        group: str,
        moment: str,
        size: float,
        layers: int = 1,
        each: float = 1.0,
        *,
        once: bool = False,
    ) -> None:
        """Add a line, unless its group has one member only or nothing is sent; ``once`` is once in a step."""
        ranks = self.layout.size_of(group)
        if ranks < 2 or not layers or not each or not size:
            return
        count = layers * each * (1 if once else self.layout.microbatches)
        self.lines.append(
            Collective(
                purpose,
                operation,
                group,
                ranks,
                self.stage,
                moment,
                float(size),
                int(layers),
                each,
                count,
            )
        )

    def summed(
        self, purpose: str, group: str, moments: tuple[str, ...], size: float, layers: int
    ) -> None:
        """Add an all-reduce of an activation, or, with sequence parallelism, its two halves, at some moments."""
        for moment in moments:
            if self.layout.sequence_parallel:
                self.add(purpose, "all_gather", group, moment, size, layers)
                self.add(purpose, "reduce_scatter", group, moment, size, layers)
            else:
                self.add(purpose, "all_reduce", group, moment, size, layers)

    def has(self, which: Flags) -> int:
        """Return how many layers of the stage are among those selected, (L,)."""
        return int(np.sum(which[self.layers]))

    @property
    def passes(self) -> tuple[str, ...]:
        """Moments at which the forward pass of a layer and its backward pass send activations."""
        if self.layout.recompute == "full":
            return ("forward", "recomputation", "backward")
        return ("forward", "backward")

    # ---- activations ---------------------------------------------------------------------------------------------

    def tensor(self) -> None:
        """Write what tensor parallelism sends: a sum after attention, feed-forward, Mamba, and shared experts."""
        model, layout = self.model, self.layout
        sums = self.has(model.attention_layers) + self.has(model.mamba_layers)
        sums += self.has(model.feed_forward_layers)
        moe = self.has(model.moe_layers)
        if layout.ep == 1 and layout.etp == layout.tp:
            sums += moe  # the matrices of experts are divided as those of a dense layer
        elif model.shared_experts:
            sums += moe
        self.summed("tensor", "tp", self.passes, self.state, sums)

    def tables(self) -> None:
        """Write what the divided tables send: a sum after the input, one before the output, and the loss."""
        layout = self.layout
        parallel = layout.sequence_parallel
        if self.stage == 0:
            self.add(
                "table", "reduce_scatter" if parallel else "all_reduce", "tp", "forward", self.state
            )
            if parallel:
                self.add("table", "all_gather", "tp", "backward", self.state)
        if self.stage == layout.pp - 1:
            if parallel:
                self.add("table", "all_gather", "tp", "forward", self.state)
            self.add(
                "table",
                "reduce_scatter" if parallel else "all_reduce",
                "tp",
                "backward",
                self.state,
            )
            self.add("table", "all_reduce", "tp", "forward", self.tokens * _LOSS_BYTES)

    def context(self) -> None:
        """Write what attention sends of a divided sequence."""
        model, layout = self.model, self.layout
        n = self.has(model.attention_layers)
        bytes_of_token = layout.activation_bytes / layout.tp
        query = model.heads * (model.head_size + (model.rope_size if model.kv_rank else 0))
        out = model.heads * model.value_size
        if model.kv_rank:
            keys, values = query, out
        else:
            # A head of keys and values that fewer ranks than heads would share is copied.
            copied = max(1, layout.tp // model.kv_heads)
            keys = copied * model.kv_heads * model.head_size
            values = copied * model.kv_heads * model.value_size
        again = ("recomputation",) if layout.recompute != "none" else ()
        if layout.context == "ulysses":
            for size in (query, keys, values, out):
                for moment in ("forward", *again, "backward"):
                    self.add(
                        "context",
                        "all_to_all",
                        "cp",
                        moment,
                        self.tokens * size * bytes_of_token,
                        n,
                    )
            return
        # Around a ring a rank sends its own part n - 1 times, which is what it sends to gather all parts.
        both = self.tokens * layout.cp * (keys + values) * bytes_of_token
        for moment in ("forward", *again, "backward"):
            self.add("context", "all_gather", "cp", moment, both, n)
        self.add("context", "reduce_scatter", "cp", "backward", both, n)

    def experts(self) -> None:
        """Write the exchanges of tokens with experts: dispatch and combine, and their gradients back."""
        model, layout = self.model, self.layout
        n = self.has(model.moe_layers)
        own = self.tokens // layout.tp if layout.sequence_parallel else self.tokens
        numbers = own * model.experts_per_token * model.expert_hidden
        for moment in self.passes:
            out = layout.activation_bytes if moment == "backward" else layout.dispatch_bytes
            back = layout.activation_bytes
            # The ranks that divide the matrices of an expert need all its tokens, and sum what comes out.
            self.add("experts", "all_to_all", "ep", moment, numbers * out, n)
            self.add("experts", "all_to_all", "ep", moment, numbers * back, n)
            if layout.ep > 1:
                together = numbers * layout.etp
                self.add("experts", "all_gather", "etp", moment, together * out, n)
                self.add("experts", "reduce_scatter", "etp", moment, together * back, n)

    def pipeline(self) -> None:
        """Write the activations that a stage sends on, and their gradients that it sends back."""
        layout = self.layout
        last = layout.pp - 1
        size = self.state
        if layout.sequence_parallel or layout.scatter_gather:
            size /= layout.tp
        # The last part of the model has no next one, and the first none before it.
        forward = layout.chunks - (self.stage == last)
        backward = layout.chunks - (self.stage == 0)
        self.add("pipeline", _SEND, "pp", "forward", size, each=forward)
        self.add("pipeline", _SEND, "pp", "backward", size, each=backward)
        if layout.scatter_gather and not layout.sequence_parallel and last:
            self.add("pipeline", "all_gather", "tp", "forward", self.state, each=backward)
            self.add("pipeline", "all_gather", "tp", "backward", self.state, each=forward)

    # ---- parameters and gradients --------------------------------------------------------------------------------

    def state_of_layers(self) -> None:
        """Write the sums of gradients and the gathering of parameters: layer by layer, then the tables."""
        model, layout = self.model, self.layout
        dense = (model.layer_parameters - model.routed_parameters)[self.layers] / layout.tp
        routed = model.routed_parameters[self.layers] / (layout.ep * layout.etp)
        for parameters, n in _counted(dense):
            self.shared(parameters, n, "", "shard", "replica")
        for parameters, n in _counted(routed):
            self.shared(parameters, n, "expert_", "expert_shard", "expert_replica")
        for parameters in table_parameters(model, layout, self.stage):
            self.shared(parameters / layout.tp, 1, "", "shard", "replica")

    def shared(self, parameters: float, n: int, kind: str, shard: str, replica: str) -> None:
        """Write what n equal parts of a model send for their parameters and gradients."""
        layout = self.layout
        gradient = parameters * layout.gradient_bytes
        weight = parameters * layout.weight_bytes
        gradients, weights = f"{kind}gradients", f"{kind}parameters"
        if layout.sharding == "ddp":
            whole = "edp" if kind else "dp_cp"
            self.add(gradients, "all_reduce", whole, "last backward", gradient, n, once=True)
            return
        if layout.sharding == "zero1":
            self.add(gradients, "reduce_scatter", shard, "last backward", gradient, n, once=True)
        else:
            # Without room for whole gradients they are summed after each micro-batch.
            self.add(gradients, "reduce_scatter", shard, "backward", gradient, n)
        part = gradient / layout.size_of(shard)
        self.add(gradients, "all_reduce", replica, "last backward", part, n, once=True)
        if layout.sharding == "zero3":
            self.add(weights, "all_gather", shard, "forward", weight, n)
            if layout.reshard:
                self.add(weights, "all_gather", shard, "backward", weight, n)
        else:
            self.add(weights, "all_gather", shard, "before the forward", weight, n, once=True)

    def tied_table(self) -> None:
        """Write the sum of the gradients of a table that the first and the last stage have."""
        model, layout = self.model, self.layout
        if model.tied and layout.pp > 1 and self.stage in (0, layout.pp - 1):
            size = model.table_parameters / layout.tp * layout.gradient_bytes
            self.add("tied_table", "all_reduce", "table", "last backward", size, once=True)


def _counted(values: Floats) -> list[tuple[float, int]]:
    """Return each different value that is not 0, with how often it occurs."""
    found, times = np.unique(values[values > 0], return_counts=True)
    return list(zip(found.tolist(), times.tolist(), strict=True))


def table_parameters(model: Model, layout: Layout, stage: int) -> list[int]:
    """Return the parameters of the parts of a stage that are no layers: the input table, and the output table."""
    parts = []
    if stage == 0:
        parts.append(model.input_parameters)
    if stage == layout.pp - 1:
        copied = model.table_parameters if model.tied and layout.pp > 1 else 0
        parts.append(model.output_parameters + copied)
    return parts


def volumes(model: Model, layout: Layout) -> Ledger:
    """Return the ledger of a training step: what each rank of each stage sends.

    Bytes are those of rings and of direct exchanges; switches that reduce, and two-level algorithms, send less. Left
    out: what sequence parallelism gathers again for the gradients of weights, the exchanges of context-parallel Mamba
    layers, and numbers of a few bytes, such as norms of gradients. Norms of tensor-parallel layers are counted as if
    they were divided, too. Tokens are taken to go to all experts alike.

    Parameters
    ----------
    model : Model
        The model.
    layout : Layout
        How it is divided.

    Raises
    ------
    ValueError
        If the layout does not divide the model; see `fabriclab.workload.layouts.check`.
    """
    check(layout, model)
    writer = _Writer(model, layout)
    for stage, layers in enumerate(layout.stages(model)):
        writer.stage = stage
        writer.layers = layers
        writer.tensor()
        writer.tables()
        writer.context()
        writer.experts()
        writer.pipeline()
        writer.state_of_layers()
        writer.tied_table()
    return Ledger(layout, tuple(writer.lines))


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
