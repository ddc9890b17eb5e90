"""Traces: in the Trace Event Format, which browsers show and PyTorch's profiler writes, and in Chakra's schema."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab.core import Fabric, FabricBuilder, Flows, Timeline
from fabriclab.errors import FileFormat
from fabriclab.workload._work import spans

_MICRO = 1e6  # microseconds in a second
_MOST = 127  # kinds of node that a fabric can have


def read_trace(path: str | os.PathLike[str]) -> tuple[Fabric, Flows, Timeline]:
    """Return the complete events (``"ph": "X"``) of a trace; time 0 is the first of them, other events are skipped.

    Parameters
    ----------
    path : path-like
        JSON text: an object with ``traceEvents``, or a list of events, which may lack its last bracket.

    Returns
    -------
    Fabric, Flows, Timeline
        A node for each lane (process and thread), a computation for each event, and when it ran. An engine that runs
        these flows gives the same times.

    Raises
    ------
    FileFormat
        If this is no such file, has no complete event, or one of them has no time; the text names the event.

    References
    ----------
    .. [1] Trace Event Format, Google, 2016, sections "JSON Array Format" and "Complete Events".
    """
    name = Path(path).name
    try:
        text = Path(path).read_text(encoding="utf-8").strip().rstrip(",")
        data = json.loads(text + "]" * (text.startswith("[") and not text.endswith("]")))
        events = data["traceEvents"] if isinstance(data, dict) else data
        called = {_lane(e): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
        whole = [e for e in events if e.get("ph") == "X"]
        times = np.array([[e.get("ts"), e.get("dur")] for e in whole], dtype=np.float64).reshape(
            -1, 2
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{name} is no trace, expected JSON with events in a list or under traceEvents: {error!r:.80}"
        raise FileFormat(msg) from None
    wrong = np.flatnonzero(~np.all(np.isfinite(times), axis=1) | (times[:, 1] < 0))
    if wrong.size or not whole:
        found = f"got {whole[wrong[0]]!r:.80}" if whole else "got none"
        raise FileFormat(
            f'{name}: complete events ("ph": "X") must have ts and dur >= 0, in microseconds; {found}'
        )
    lanes = {lane: i for i, lane in enumerate(dict.fromkeys(map(_lane, whole)))}
    if len(lanes) > _MOST:
        raise FileFormat(
            f"{name} has {len(lanes)} lanes, expected at most {_MOST}; keep the events of one process"
        )
    names = [str(called.get(lane, "lane " + " ".join(lane))) for lane in lanes]
    builder, every = FabricBuilder(names, ()), np.arange(len(names))
    for kind in names:
        builder.add_nodes(kind, 1, tier=0, transit=False)
    labels, label = np.unique([str(e.get("name")) for e in whole], return_inverse=True)
    node, (begin, lasts) = (
        [lanes[_lane(e)] for e in whole],
        (times - [times[:, 0].min(), 0.0]).T / _MICRO,
    )
    flows = Flows.make(
        node, node, 0.0, start=begin + lasts, lag=lasts, label=label, labels=tuple(labels.tolist())
    )
    one, fabric = (
        np.ones(1, np.int64),
        builder.build("trace", {}, endpoint=every, rail=0 * every, server=every),
    )
    end = flows.start.max(keepdims=True)
    return (
        fabric,
        flows,
        Timeline(flows.start, flows.start, np.zeros(0), np.zeros(1), end, one, "trace"),
    )


def _lane(event: dict[str, Any]) -> tuple[str, str]:
    return str(event.get("pid", 0)), str(event.get("tid", 0))


def write_trace(
    path: str | os.PathLike[str], timeline: Timeline, flows: Flows, fabric: Fabric
) -> None:
    """Write a run of a graph as a trace: a lane for each node that sends or computes.

    What takes no time is left out.
    """
    seen = spans(timeline, flows)
    about: dict[str, Any] = {"name": "thread_name", "ph": "M", "pid": 0}
    events = [
        about | {"tid": n, "args": {"name": fabric.name(n)}}
        for n in np.unique(flows.source).tolist()
    ]
    for f in np.flatnonzero(seen.finish > seen.start).tolist():
        events.append(
            {
                "name": flows.labels[flows.label[f]],
                "ph": "X",
                "pid": 0,
                "tid": int(flows.source[f]),
                "ts": seen.start[f] * _MICRO,
                "dur": (seen.finish[f] - seen.start[f]) * _MICRO,
                "args": {"bytes": flows.size[f], "to": fabric.name(int(flows.target[f]))},
            }
        )
    Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


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
    begin, end = fabric.rank_of[flows.source], fabric.rank_of[flows.target]
    wrong = np.flatnonzero((begin < 0) | (end < 0) | (flows.start > 0))
    if wrong.size:
        msg = f"a trace of Chakra has ranks and no starts; flow {wrong[0]} begins or ends at a switch, or has a start"
        raise ValueError(msg)
    books: list[list[Any]] = [[] for _ in range(fabric.n_ranks)]
    # the node of a rank after which a flow has begun or ended there
    seen: dict[tuple[int, int], Any] = {}

    def add(rank: int, f: int, kind: str, **attributes: int) -> Any:
        node = et.Node(
            id=len(books[rank]), name=flows.labels[flows.label[f]], type=getattr(et, f"{kind}_NODE")
        )
        node.attr.append(et.AttributeProto(name="is_cpu_op", bool_val=False))
        node.attr.extend(
            et.AttributeProto(name=key, int64_val=value) for key, value in attributes.items()
        )
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
