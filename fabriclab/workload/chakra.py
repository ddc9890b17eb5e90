"""Traces in the schema of Chakra, which ASTRA-sim reads: one file for each rank."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab.core import Fabric, Flows

__all__ = ["write_chakra"]


def write_chakra(prefix: str | os.PathLike[str], flows: Flows, fabric: Fabric) -> list[Path]:
    """Write flows as execution traces of Chakra [1]_: ``prefix.0.et`` is what rank 0 computes, sends and receives.

    A lag before a send is a computation before it. Times are whole microseconds, as the schema has them. What the
    schema has no word for is left out: limits of rates, weights, streams and turns beyond what flows wait for. A trace
    names no way; the simulator that reads it has a network of its own.

    Returns
    -------
    list of Path
        The files, a rank each.

    Raises
    ------
    ModuleNotFoundError
        Without the package mlc-chakra, which holds the schema.
    ValueError
        If a flow begins or ends at a switch, has a start of its own, or waits for one that neither begins
        nor ends at its rank, or if flows are no graph.

    References
    ----------
    .. [1] S. Sridharan et al., Chakra, 2023 (arXiv:2305.14516); the package mlc-chakra, schema/protobuf/et_def.proto.
    """
    try:
        from chakra.schema.protobuf import et_def_pb2 as et
        from chakra.src.third_party.utils.protolib import encodeMessage
    except ModuleNotFoundError as error:
        msg = "Chakra's schema comes with the package mlc-chakra; install it with: pip install 'fabriclab[chakra]'"
        raise ModuleNotFoundError(msg) from error
    if flows.group[-1:].any() or (flows.repeat > 1).any():
        msg = "a trace of Chakra is a graph, and these flows are groups in order; lower the schedule with expand=True"
        raise ValueError(msg)
    ranks = np.full(fabric.n_nodes, -1)
    ranks[fabric.endpoint] = np.arange(fabric.n_ranks)
    begin, end = ranks[flows.source], ranks[flows.target]
    wrong = np.flatnonzero((begin < 0) | (end < 0) | (flows.start > 0))
    if wrong.size:
        msg = f"a trace of Chakra has ranks and no starts; flow {wrong[0]} begins or ends at a switch, or has a start"
        raise ValueError(msg)
    books: list[list[Any]] = [[] for _ in range(fabric.n_ranks)]
    seen: dict[tuple[int, int], Any] = {}  # the node of a rank after which a flow has begun or ended there

    def add(rank: int, f: int, kind: str, **attributes: int) -> Any:
        node = et.Node(id=len(books[rank]), name=flows.labels[flows.label[f]], type=getattr(et, f"{kind}_NODE"))
        node.attr.append(et.AttributeProto(name="is_cpu_op", bool_val=False))
        node.attr.extend(et.AttributeProto(name=key, int64_val=value) for key, value in attributes.items())
        books[rank].append(node)
        return node

    first: list[Any] = []  # the node of each flow that waits for others
    for f, (source, target) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        about, own = {"comm_size": round(flows.size[f]), "comm_tag": f}, source == target
        compute = add(source, f, "COMP") if own or flows.lag[f] > 0 else None
        if compute is not None:
            compute.duration_micros = round(flows.lag[f] * 1e6)
        if not own:
            seen[source, f] = add(source, f, "COMM_SEND", comm_dst=target, **about)
            seen[target, f] = add(target, f, "COMM_RECV", comm_src=source, **about)
            if compute is not None:
                seen[source, f].data_deps.append(compute.id)
        first.append(seen[source, f] if compute is None else compute)
        seen.setdefault((source, f), compute)
    for f, rank in enumerate(begin.tolist()):
        waits = flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]].tolist()
        unseen = [g for g in waits if (rank, g) not in seen]
        if unseen:
            msg = f"flow {f} of rank {rank} waits for flow {unseen[0]}, which neither begins nor ends at that rank"
            raise ValueError(msg)
        first[f].data_deps.extend(seen[rank, g].id for g in waits)
    files = [Path(f"{os.fspath(prefix)}.{rank}.et") for rank in range(fabric.n_ranks)]
    for path, book in zip(files, books, strict=True):
        with path.open("wb") as file:
            for message in (et.GlobalMetadata(version="1.0.0"), *book):
                encodeMessage(file, message)
    return files
