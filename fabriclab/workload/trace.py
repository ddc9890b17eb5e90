"""Traces in the Trace Event Format, which chrome://tracing and Perfetto show and PyTorch's profiler writes."""

import json
import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from fabriclab.core import Fabric, FabricBuilder, Flows, Timeline
from fabriclab.errors import FileFormat
from fabriclab.workload.measures import spans

_MICRO: Final = 1e6  # microseconds in a second
_MOST: Final = 127  # kinds of node that a fabric can have


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
        times = np.array([[e.get("ts"), e.get("dur")] for e in whole], dtype=np.float64).reshape(-1, 2)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{name} is no trace, expected JSON with events in a list or under traceEvents: {error!r:.80}"
        raise FileFormat(msg) from None
    wrong = np.flatnonzero(~np.all(np.isfinite(times), axis=1) | (times[:, 1] < 0))
    if wrong.size or not whole:
        found = f"got {whole[wrong[0]]!r:.80}" if whole else "got none"
        raise FileFormat(f'{name}: complete events ("ph": "X") must have ts and dur >= 0, in microseconds; {found}')
    lanes = {lane: i for i, lane in enumerate(dict.fromkeys(map(_lane, whole)))}
    if len(lanes) > _MOST:
        raise FileFormat(f"{name} has {len(lanes)} lanes, expected at most {_MOST}; keep the events of one process")
    names = [str(called.get(lane, "lane " + " ".join(lane))) for lane in lanes]
    builder, every = FabricBuilder(names, ()), np.arange(len(names))
    for kind in names:
        builder.add_nodes(kind, 1, tier=0, transit=False)
    labels, label = np.unique([str(e.get("name")) for e in whole], return_inverse=True)
    node, (begin, lasts) = [lanes[_lane(e)] for e in whole], (times - [times[:, 0].min(), 0.0]).T / _MICRO
    flows = Flows.make(node, node, 0.0, start=begin + lasts, lag=lasts, label=label, labels=tuple(labels.tolist()))
    one, fabric = np.ones(1, np.int64), builder.build("trace", {}, endpoint=every, rail=0 * every, server=every)
    end = flows.start.max(keepdims=True)
    return fabric, flows, Timeline(flows.start, flows.start, np.zeros(0), np.zeros(1), end, one, "trace")


def _lane(event: dict[str, Any]) -> tuple[str, str]:
    return str(event.get("pid", 0)), str(event.get("tid", 0))


def write_trace(path: str | os.PathLike[str], timeline: Timeline, flows: Flows, fabric: Fabric) -> None:
    """Write a run of a graph as a trace: a lane for each node that sends or computes.

    What takes no time is left out.
    """
    seen = spans(timeline, flows)
    events: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": n, "args": {"name": fabric.name(n)}}
        for n in np.unique(flows.source).tolist()
    ]
    for f in np.flatnonzero(seen.finish > seen.start).tolist():
        events.append({
            "name": flows.labels[flows.label[f]], "ph": "X", "pid": 0, "tid": int(flows.source[f]),
            "ts": seen.start[f] * _MICRO, "dur": (seen.finish[f] - seen.start[f]) * _MICRO,
            "args": {"bytes": flows.size[f], "to": fabric.name(int(flows.target[f]))},
        })  # fmt: skip
    Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
