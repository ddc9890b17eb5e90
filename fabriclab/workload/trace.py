"""Read and write traces in the Trace Event Format (browsers, PyTorch's profiler) and in the schema of Chakra."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab.core import Fabric, FabricBuilder, Floats, Flows, Timeline
from fabriclab.errors import FileFormat
from fabriclab.importers import open_text
from fabriclab.workload._work import spans

_MICRO = 1e6  # microseconds in a second
_MOST = 127  # kinds of node that a fabric can have


def read_trace(source: str | os.PathLike[str]) -> tuple[Fabric, Flows, Timeline]:
    """Read the complete events (``"ph": "X"``) of a trace; the first one begins at time 0, other events are skipped.

    Parameters
    ----------
    source : path or str
        A file with JSON, or its text: an object with ``traceEvents``, or a list of events, which may lack its last
        bracket.

    Returns
    -------
    Fabric, Flows, Timeline
        A node for each lane (process and thread), a computation for each event, and when it ran. An engine that runs
        these flows gives the same times.

    Raises
    ------
    FileFormat
        If the file is not a trace, has no complete event, or a complete event has no time; the message names the event.

    References
    ----------
    .. [1] Trace Event Format, Google, 2016, sections "JSON Array Format" and "Complete Events".
    """
    name, text, _ = open_text(source)
    try:
        events = _events(text)
        lane_names = {_lane(e): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
        complete = [e for e in events if e.get("ph") == "X"]
        times = np.array([[e.get("ts"), e.get("dur")] for e in complete], dtype=np.float64)
        times = times.reshape(-1, 2)  # (E, 2) start and duration [us]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{name} is no trace, expected JSON with events in a list or under traceEvents: {error!r:.80}"
        raise FileFormat(msg) from None
    wrong = np.flatnonzero(~np.all(np.isfinite(times), axis=1) | (times[:, 1] < 0))
    if wrong.size or not complete:
        found = f"got {complete[wrong[0]]!r:.80}" if complete else "got none"
        raise FileFormat(
            f'{name}: complete events ("ph": "X") must have ts and dur >= 0, in microseconds; {found}'
        )
    lanes = list(dict.fromkeys(map(_lane, complete)))
    if len(lanes) > _MOST:
        raise FileFormat(
            f"{name} has {len(lanes)} lanes, expected at most {_MOST}; keep the events of one process"
        )

    fabric = _fabric_of_lanes(
        [str(lane_names.get(lane, "lane " + " ".join(lane))) for lane in lanes]
    )
    flows = _computations(complete, times, lanes)
    timeline = Timeline(
        flows.start,
        flows.start,
        np.zeros(0),
        np.zeros(1),
        flows.start.max(keepdims=True),
        np.ones(1, np.int64),
        "trace",
    )
    return fabric, flows, timeline


def _events(text: str) -> list[dict[str, Any]]:
    """Return the events of a trace, which may lack its last bracket."""
    text = text.strip().rstrip(",")
    if text.startswith("[") and not text.endswith("]"):
        text += "]"
    data = json.loads(text)
    events: list[dict[str, Any]] = data["traceEvents"] if isinstance(data, dict) else data
    return events


def _fabric_of_lanes(names: list[str]) -> Fabric:
    """Return a fabric without links, with a node of its own kind for each lane."""
    builder = FabricBuilder(names, ())
    for kind in names:
        builder.add_nodes(kind, 1, tier=0, transit=False)
    every = np.arange(len(names))
    return builder.build("trace", {}, endpoint=every, rail=np.zeros_like(every), server=every)


def _computations(
    events: list[dict[str, Any]], times: Floats, lanes: list[tuple[str, str]]
) -> Flows:
    """Return a computation for each event, which ends when the event ended; ``times`` (E, 2) are in microseconds."""
    number = {lane: i for i, lane in enumerate(lanes)}
    node = [number[_lane(event)] for event in events]
    begin = (times[:, 0] - times[:, 0].min()) / _MICRO  # [s]
    lasts = times[:, 1] / _MICRO  # [s]
    labels, label = np.unique([str(event.get("name")) for event in events], return_inverse=True)
    return Flows.make(
        node, node, 0.0, start=begin + lasts, lag=lasts, label=label, labels=tuple(labels.tolist())
    )


def _lane(event: dict[str, Any]) -> tuple[str, str]:
    """Return process and thread of an event."""
    return str(event.get("pid", 0)), str(event.get("tid", 0))


def write_trace(
    path: str | os.PathLike[str], timeline: Timeline, flows: Flows, fabric: Fabric
) -> None:
    """Write a run of a graph as a trace, with a lane for each node that sends or computes.

    Flows that take no time are left out.
    """
    seen = spans(timeline, flows)
    events: list[dict[str, Any]] = []
    for node in np.unique(flows.source).tolist():
        args = {"name": fabric.name(node)}
        events.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": node, "args": args})
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
    """Write flows as Chakra execution traces [1]_: ``prefix.0.et`` has what rank 0 computes, sends and receives.

    The lag of a message becomes a computation before its send. Times are whole microseconds, as in the schema. Leaves
    out what the schema cannot express: rate limits, weights, and the order within streams beyond what flows wait for. A
    trace has no routes; the simulator that reads it has a network of its own.

    Returns
    -------
    list of Path
        The files, one per rank.

    Raises
    ------
    ModuleNotFoundError
        If the package mlc-chakra, which contains the schema, is not installed.
    ValueError
        If a flow begins or ends at a switch, has a start time of its own, or waits for a flow that neither begins nor
        ends at its rank, or if the flows are not a graph.

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
        raise ValueError(
            "flows must be a graph, since a Chakra trace gives each flow its own dependencies, got groups that run one "
            "after another; make them again with lower(schedule, fabric, size, expand=True), or with flows.expanded()"
        )
    begin = fabric.rank_of[flows.source]
    end = fabric.rank_of[flows.target]
    at_switch = np.flatnonzero((begin < 0) | (end < 0))
    if at_switch.size:
        flow = int(at_switch[0])
        ends = f"{fabric.name(int(flows.source[flow]))} to {fabric.name(int(flows.target[flow]))}"
        raise ValueError(
            f"flow {flow} begins or ends at a switch ({ends}), and a Chakra trace has ranks only; "
            "take an algorithm in which no switch adds or copies"
        )
    started = np.flatnonzero(flows.start > 0)
    if started.size:
        flow = int(started[0])
        raise ValueError(
            f"flow {flow} has a start of {flows.start[flow]:g} s, and a Chakra trace has no times; "
            "leave out start, and let the flow wait for others (after) or for a lag"
        )
    traces = _ChakraTraces(et, flows, fabric.n_ranks)
    for f, (source, target) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        traces.add_flow(f, source, target)
    for f, rank in enumerate(begin.tolist()):
        traces.add_dependencies(f, rank)

    files = [Path(f"{os.fspath(prefix)}.{rank}.et") for rank in range(fabric.n_ranks)]
    for path, nodes in zip(files, traces.nodes, strict=True):
        with path.open("wb") as file:
            for message in (et.GlobalMetadata(version="1.0.0"), *nodes):
                encodeMessage(file, message)
    return files


class _ChakraTraces:
    """Nodes of the traces of all ranks, as messages of Chakra's schema ``et``, whose classes are in its package."""

    def __init__(self, et: Any, flows: Flows, n_ranks: int) -> None:
        self.et = et
        self.flows = flows
        self.nodes: list[list[Any]] = [[] for _ in range(n_ranks)]
        self.first: list[Any] = []  # the node of each flow that waits for others
        # the node of a rank after which a flow has begun or ended there
        self.seen: dict[tuple[int, int], Any] = {}

    def add_flow(self, f: int, source: int, target: int) -> None:
        """Add the nodes of a flow: a computation for its lag, and a send and a receive if it leaves its rank."""
        lag = self.flows.lag[f]
        if source == target or lag > 0:
            compute = self._add_node(source, f, "COMP")
            compute.duration_micros = round(lag * 1e6)
        else:
            compute = None
        if source != target:
            size = round(self.flows.size[f])
            send = self._add_node(
                source, f, "COMM_SEND", comm_dst=target, comm_size=size, comm_tag=f
            )
            receive = self._add_node(
                target, f, "COMM_RECV", comm_src=source, comm_size=size, comm_tag=f
            )
            self.seen[source, f] = send
            self.seen[target, f] = receive
            if compute is not None:
                send.data_deps.append(compute.id)
        else:
            self.seen[source, f] = compute
        self.first.append(self.seen[source, f] if compute is None else compute)

    def add_dependencies(self, f: int, rank: int) -> None:
        """Let the first node of a flow wait for those nodes of its rank that mark other flows as finished."""
        begin, end = self.flows.after_ptr[f], self.flows.after_ptr[f + 1]
        for other in self.flows.after[begin:end].tolist():
            if (rank, other) not in self.seen:
                msg = f"flow {f} of rank {rank} waits for flow {other}, which neither begins nor ends at that rank"
                raise ValueError(msg)
            self.first[f].data_deps.append(self.seen[rank, other].id)

    def _add_node(self, rank: int, f: int, kind: str, **attributes: int) -> Any:
        """Add a node to the trace of a rank and return it."""
        node = self.et.Node(
            id=len(self.nodes[rank]),
            name=self.flows.labels[self.flows.label[f]],
            type=getattr(self.et, f"{kind}_NODE"),
        )
        node.attr.append(self.et.AttributeProto(name="is_cpu_op", bool_val=False))
        for name, value in attributes.items():
            node.attr.append(self.et.AttributeProto(name=name, int64_val=value))
        self.nodes[rank].append(node)
        return node
