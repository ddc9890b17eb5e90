"""Live views of an incast: its queue, marks, pauses, losses and rates on one time axis, and control loops compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab import catalog, routing, topologies, units
from fabriclab.core import Fabric, Floats, Flows, Ints, Routes
from fabriclab.engines.packet import Settings, play, setup, state
from fabriclab.engines.packet.settings import LOSSLESS
from fabriclab.engines.packet.trace import jain
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.page import plain
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
    tick_texts,
)
from fabriclab.views.sweeps import crowding, densely

_ENDLESS = (
    1e12  # illustrative: a window that no flow here fills, so that senders keep line rate [B]
)
# The loops that a reader compares, with the parameters of each: DCQCN as cards are shipped.
_LOOPS: dict[str, dict[str, Any]] = {
    "window": {"window": _ENDLESS},
    "dcqcn": {"parameters": "nvidia"},
    "hpcc": {},
    "swift": {},
}
_SWITCHES = ("pause", "none")  # of `LOSSLESS`
_KB = 1e3
_MB = 1e6
_MOST_SENDERS = 32
_MOST_COMPARED = 16  # senders of several incasts at once
_PAYLOAD = Settings().payload  # of a full packet [B]
_SAMPLES = 1600  # of a run, up to its time limit
_PATIENCE = 4  # time limit of a run, in times that the hot port needs without any pause or loss
_TIMEOUT = "200 us"  # illustrative: short, as the whole run is
_TRIES = 50  # illustrative: no connection gives up within a run
_TURNS = 8  # packets of a sender with its fair share over which its rate is a mean
_BEYOND = 1.5  # a threshold higher than so many peaks of the queue is told in words alone

# The microscope in px: queue, marks, pauses and rates above each other, with names on the right.
_WIDTH = 880.0
_LEFT, _RIGHT = 66.0, 716.0  # on the left is room for ticks in a small picture
_BINS = 112  # moments that a reader can visit
_UPPER = (30.0, 176.0)  # top and foot of the panel of the queue
_BAND = 24.0  # height of a band of marks or pauses
_BAND_GAP = 12.0  # above each
_TITLE_ROOM = 38.0  # above the panel of rates, which has what remains
_FOOT = 350.0  # of all
_HEIGHT = 388.0
_NAMES_AT = _RIGHT + 14
_CROSSES_APART = 9.0  # of lost packets [px]
_LINES_APART = 14.0  # least distance between two names

# The comparison in px: a column for each loop.
_COLUMN_LEFT = 66.0
_LEGEND_LEFT = 178.0  # behind the title of the rates
_COLUMN_GAP = 18.0
_COLUMN_UPPER = (74.0, 208.0)
_COLUMN_LOWER = (266.0, 348.0)
_COLUMN_HEIGHT = 384.0
_COLUMN_BINS = 40
_SMALL_LETTER = 7.0  # width of a letter of 11 px [px]


@dataclass(frozen=True, eq=False)
class Run:
    """What happened in an incast. K bins of time, N senders.

    Parameters
    ----------
    times : (K + 1,) float64
        Ends of the bins [s].
    queue : (K + 1,) float64
        Bytes in the queue of the hot port at these times [B].
    curve : (2, M) float64
        Times [s] and bytes in the queue [B] that its line is drawn through: these, and the longest queue of each bin.
    marked, paused : (K,) float64
        Share of the packets that were marked in each bin, and of the time of all senders that was paused.
    lost : (K,) int64
        Packets that the hot port refused in each bin.
    rates : (K, N) float64
        What each sender sent around each bin, as a mean over several packets (see `_smooth_rates`) [B/s].
    peak, mean : float
        Longest queue, and its mean while anybody sends [B].
    low, high, limit : float
        Queues from which packets are marked, from which all are marked (nan: never), and from which senders are paused
        or, without pauses, packets are lost [B].
    first_pause, finish : float
        When a sender was paused first (nan: never), and when the last one ended (inf: later than the run) [s].
    pauses, marks, drops, unfinished : int
        How often a sender was told to pause; packets marked and lost; senders that did not end.
    goodput, fairness : float
        Payload that arrived over the time that it took [B/s]; Jain's index of what had come from each sender when the
        first one ended.
    end : float
        End of the last event, or of the run [s].
    """

    times: Floats
    queue: Floats
    curve: Floats
    marked: Floats
    paused: Floats
    lost: Any
    rates: Floats
    peak: float
    mean: float
    low: float
    high: float
    limit: float
    first_pause: float
    finish: float
    pauses: int
    marks: int
    drops: int
    unfinished: int
    goodput: float
    fairness: float
    end: float


@dataclass(frozen=True)
class Incast:
    """An incast: senders that all send the same number of bytes to one receiver, through one switch, from time 0."""

    senders: int
    control: str
    lossless: str
    buffer: float  # [B]
    size: float  # of each sender [B]
    rate: float  # of each port [B/s]


# The microscope ---------------------------------------------------------------------------------


def incast(
    *,
    senders: int = 8,
    control: str = "dcqcn",
    lossless: str = "pause",
    buffer: float = 2.0,
    size: units.Quantity = "1 MiB",
    rate: units.Quantity | None = None,
    shown: Sequence[str] = ("senders", "control", "lossless"),
) -> Live:
    """Show an incast under the microscope: queue, marks, pauses and losses of the hot port, and the senders' rates.

    All senders begin at the same moment to send ``size`` bytes to one receiver. The packet engine plays it; pointer and
    arrow keys scrub through its time. DCQCN has the parameters that cards are shipped with. Acknowledgements and
    notices wait in no queue.

    Parameters
    ----------
    senders : int
        Number of senders, 2..32.
    control : str
        Control loop of the senders: "window" (none: they send at line rate), "dcqcn", "hpcc" or "swift".
    lossless : str
        "pause" (PFC) or "none": then a full buffer loses packets, and senders go back to the first missing one.
    buffer : float
        Memory of the switch, 1..16 [MB].
    size, rate : float or str
        Bytes of each sender, 64 KiB..4 MiB; rate of every port, that of a NIC of the running case unless given.
        [B], [B/s]
    shown : sequence of str
        Which of the first four arguments a reader can set: at most three.

    Examples
    --------
    In a lesson on buffers, where the loop does not matter:

    >>> from fabriclab import live
    >>> view = live.incast(control="window", shown=("senders", "lossless", "buffer"))
    >>> list(view.controls)
    ['senders', 'lossless', 'buffer']
    """
    arguments = {
        "senders": senders,
        "control": control,
        "lossless": lossless,
        "buffer": buffer,
        "size": size,
        "rate": rate,
        "shown": tuple(shown),
    }
    scene = partial(incast_scene, size=_checked_size(size), rate=_checked_rate(rate))
    return view_of("incast", arguments, scene, _controls(), shown)


def _checked_size(size: units.Quantity) -> float:
    """Return the bytes of a sender, which must be few enough for a picture to follow its controls."""
    least, most = 64 * 1024.0, 4 * 1024.0**2
    found = units.size(size, "size")
    if not least <= found <= most:
        raise ValueError(f"size must be within 64 KiB..4 MiB for each sender, got {size!r}")
    return found


def _checked_rate(rate: units.Quantity | None) -> float:
    """Return the rate of the ports, that of a NIC of the running case unless given. [B/s]."""
    if rate is None:
        return catalog.case().nic_rate
    return units.rate(rate, "rate")


def _controls() -> dict[str, Control]:
    """Return everything that a reader may set."""
    return {
        "senders": Slider(2, _MOST_SENDERS),
        "control": Choice(tuple(_LOOPS), names=tuple(loop_name(loop) for loop in _LOOPS)),
        "lossless": Choice(
            _SWITCHES, names=tuple(text(f"live.incast.{name}") for name in _SWITCHES)
        ),
        "buffer": Slider(1.0, 16.0, 0.5, unit="MB", log=True),
    }


def loop_name(loop: str) -> str:
    """Return the name of a control loop as engineers write it, such as "DCQCN"."""
    return text(f"live.loop.{loop}")


def view_of(
    name: str,
    arguments: dict[str, Any],
    scene: Any,
    controls: dict[str, Control],
    shown: Sequence[str],
) -> Live:
    """Build a view of which a reader sets some arguments, and the author the others."""
    chosen = {}
    for key in dict.fromkeys(shown):
        name_of_control = units.choice(key, "shown", tuple(controls))
        chosen[name_of_control] = controls[name_of_control]
    fixed = {}
    for key, control in controls.items():
        if key not in chosen:
            fixed[key] = control.check(arguments[key], key)
    return live_view(name, arguments, partial(scene, **fixed), chosen)


class Network(NamedTuple):
    """Senders and a receiver around one switch, and what they send."""

    fabric: Fabric
    flows: Flows
    routes: Routes
    hot: int  # link to the receiver
    ports: tuple[int, ...]  # links of the senders


@lru_cache(maxsize=64)
def network_of(senders: int, size: float, rate: float) -> Network:
    """Return the network of an incast: host 0 receives, all others send."""
    fabric = topologies.build("leaf_spine", hosts=senders + 1, radix=64, rate=rate)
    hosts = fabric.endpoint
    flows = Flows.make(hosts[1:], np.full(senders, hosts[0]), np.full(senders, size))
    routes = routing.route(fabric, flows, "paths")
    hot = int(np.flatnonzero(fabric.target == hosts[0])[0])
    ports = tuple(int(np.flatnonzero(fabric.source == host)[0]) for host in hosts[1:])
    return Network(fabric, flows, routes, hot, ports)


@lru_cache(maxsize=256)
def played(case: Incast) -> Run:
    """Return what happens in an incast."""
    n = case.senders
    network = network_of(n, case.size, case.rate)
    fabric, flows, routes = network.fabric, network.flows, network.routes
    hot = network.hot
    least = n * case.size / case.rate
    until = _PATIENCE * least + 50e-6  # illustrative: time for a few round trips
    settings = Settings(
        control=case.control,
        control_options=_LOOPS[case.control],
        lossless=units.choice(case.lossless, "lossless", LOSSLESS),
        buffer=case.buffer,
        timeout=_TIMEOUT,
        retries=_TRIES,
        until=until,
        sample=until / _SAMPLES,
        watch_links=(hot, *network.ports),
        watch_flows=tuple(range(n)),
    )
    layout = setup.lay_out(fabric, routes, flows, None, settings, None)
    trace = play(fabric, routes, flows, None, settings)
    return _run_of(case, trace, _thresholds(case, layout, hot, int(fabric.source[hot])), hot)


class Thresholds(NamedTuple):
    """Queues of a port at which something begins [B]."""

    low: float  # marks, nan for never
    high: float  # marks on every packet
    limit: float  # pauses or, without pauses, losses


def _thresholds(case: Incast, layout: Any, hot: int, switch: int) -> Thresholds:
    """Return the queues from which a port marks, marks all, and pauses its senders or loses packets. [B]."""
    low = float(layout.state.queues["mark_from"][hot])
    high = float(layout.state.queues["mark_all"][hot])
    if high < 0:
        low = high = np.nan
    shared = float(layout.state.nodes["buffer"][switch])
    if case.lossless == "none":
        share = float(layout.state.real[state.DROP_SHARE])
        return Thresholds(low, high, share * shared / (1 + share))
    # Each of the N ingresses holds the same: x = share (shared - N x).
    share = float(layout.state.real[state.PAUSE_SHARE])
    each = share * shared / (1 + share * case.senders)
    reserve = float(layout.state.whole[state.RESERVE])
    return Thresholds(low, high, case.senders * (each + reserve))


def _run_of(case: Incast, trace: Any, thresholds: Thresholds, hot: int) -> Run:
    """Return what a trace tells of an incast, in bins of its own length."""
    finish = float(trace.finish.max())
    is_done = np.isfinite(trace.finish)
    end = min(trace.end, finish)
    last = int(min(np.searchsorted(trace.times, end), len(trace.times) - 1))
    at = np.unique(np.linspace(0, last, min(last, _BINS) + 1).astype(int))
    times = trace.times[at]
    long = np.diff(times)

    sent = np.diff(trace.queue_sent[at], axis=0)  # (K, 1 + N) [B]
    marks = np.diff(trace.queue_marks[at, 0])
    frame = float(
        trace.sent[hot] / max(1, trace.packets.sum())
    )  # about, as packets may be sent twice
    packets = np.maximum(sent[:, 0] / frame, marks)
    paused_time = trace.queue_paused_time[at, 1:]  # (K + 1, N) [s]
    ever = np.flatnonzero(trace.queue_paused_time[:, 1:].max(axis=1) > 0)
    first_pause = np.nan
    if ever.size:
        first_pause = float(trace.times[ever[0]] - trace.queue_paused_time[ever[0], 1:].max())

    first_end = min(float(trace.finish.min()), end)
    here = int(min(np.searchsorted(trace.times, first_end), last))
    came = trace.received[here].astype(np.float64)
    came_bytes = float(np.minimum(trace.received[last] * _PAYLOAD, case.size).sum())
    if is_done.all():
        came_bytes = case.senders * case.size
    return Run(
        times=times,
        queue=trace.queue[at, 0],
        curve=_through_peaks(trace.times, trace.queue[:, 0], at, float(trace.peak[hot].max())),
        marked=np.divide(marks, packets, out=np.zeros(marks.size), where=packets > 0),
        paused=np.diff(paused_time, axis=0).mean(axis=1) / long,
        lost=np.diff(trace.queue_drops[at, 0]),
        rates=_smooth_rates(trace.queue_sent[at, 1:], times, frame * case.senders / case.rate),
        peak=float(trace.peak[hot].max()),
        mean=float(trace.queue[: last + 1, 0].mean()),
        low=thresholds.low,
        high=thresholds.high,
        limit=thresholds.limit,
        first_pause=first_pause,
        finish=finish,
        pauses=int(trace.pauses.sum()),
        marks=int(trace.marks.sum()),
        drops=int(trace.dropped.sum()),
        unfinished=int(np.count_nonzero(~is_done)),
        goodput=came_bytes / end,
        fairness=jain(came),
        end=end,
    )


def _through_peaks(times: Floats, queue: Floats, ends: Ints, peak: float) -> Floats:
    """Return times and lengths of a queue (2, M): at the ``ends`` of bins, and where it is longest in each bin.

    Its ``peak`` may lie between two samples; it takes the place of the largest.
    """
    longest = [first + int(queue[first:last].argmax()) for first, last in pairwise(ends.tolist())]
    drawn = np.union1d(ends, longest)
    lengths = queue[drawn].astype(np.float64)
    lengths[lengths.argmax()] = peak
    return np.stack([times[drawn], lengths])


def _smooth_rates(sent: Floats, times: Floats, turn: float) -> Floats:
    """Return the rates of senders, (K, N) [B/s], from what they have sent at each time, (K + 1, N).

    Packets leave one by one, so a shorter mean than some packets would jump between nothing and the rate of the port.
    ``turn`` is the time in which each sender has its turn once [s]; the mean is over at least `_TURNS` of them.
    """
    bins = times.size - 1
    half = int(np.ceil((_TURNS * turn / (times[-1] / bins) - 1) / 2))
    half = max(0, min(half, bins))
    first = np.maximum(np.arange(bins) - half, 0)
    last = np.minimum(np.arange(1, bins + 1) + half, bins)
    return np.asarray((sent[last] - sent[first]) / (times[last] - times[first])[:, None])


def bytes_words(size: float) -> str:
    """Return bytes with a decimal prefix, as switch buffers are sold: "1.5 MB"."""
    if size < 1:
        return "0 B"
    number, prefix = units.scale(float(f"{size:.2e}"))
    return f"{number:.3g} {prefix}B"


class Panels(NamedTuple):
    """Top and foot of the panels of an incast that depend on its settings. [px]."""

    marks: tuple[float, float] | None  # None: no switch marks packets
    pauses: tuple[float, float] | None  # None: no switch pauses senders
    rates: tuple[float, float]


def panels_of(run: Run, lossless: str) -> Panels:
    """Return where the panels of an incast are: what cannot happen has no band, and the rates take its room."""
    foot = _UPPER[1]
    marks = pauses = None
    if run.low > 0:
        marks = (foot + _BAND_GAP, foot + _BAND_GAP + _BAND)
        foot = marks[1]
    if lossless == "pause":
        pauses = (foot + _BAND_GAP, foot + _BAND_GAP + _BAND)
        foot = pauses[1]
    return Panels(marks, pauses, (foot + _TITLE_ROOM, _FOOT))


def incast_scene(
    senders: int, control: str, lossless: str, buffer: float, size: float, rate: float
) -> Scene:
    """Return queue, marks, pauses and rates above each other, over one time axis."""
    run = played(Incast(senders, control, lossless, buffer * _MB, size, rate))
    said = incast_words(run, senders, control, lossless, buffer)
    _, end = common_ends("time", 0.0, run.end)
    to_x = log_axis(0, end, _LEFT, _RIGHT)
    panels = panels_of(run, lossless)
    top = panels.rates[0]
    fair = max(_FOOT - (_FOOT - top) / senders, top + 2.4 * _LINES_APART)
    return Scene(
        said,
        incast_table(run),
        {
            "title": heading(14.0, text("live.incast.queue")),
            **queue_layers(run, to_x, (_LEFT, _RIGHT), _UPPER),
            **threshold_names(run, lossless, senders),
            **mark_layers(run, to_x, panels.marks),
            **pause_layers(run, to_x, panels.pauses),
            "rate title": heading(top - 18, text("live.incast.rates")),
            **rate_layers(run, to_x, (_LEFT, _RIGHT), panels.rates, rate),
            "rate names": texts(
                _NAMES_AT,
                np.array([top + 4, top + 19, fair]),
                [
                    text("live.incast.one"),
                    text("live.incast.others", n=senders - 1),
                    text("live.incast.fair", rate=rate / senders),
                ],
                bold=np.array([1.0, 0.0, 0.0]),
                colour=np.array([COLOUR["rate"], COLOUR["rate"], COLOUR["soft"]]),
            ),
            **time_ticks(end, to_x, _FOOT, 7),
            "axis": texts(
                _RIGHT,
                _FOOT + 29,
                [text("live.incast.axis")],
                align=2.0,
                colour=COLOUR["soft"],
            ),
            **moments(run, to_x, (_UPPER[0], _FOOT), senders, lossless),
        },
        _HEIGHT,
        alt=said,
        hint=incast_hint(run, panels),
        width=_WIDTH,
    )


def incast_hint(run: Run, panels: Panels) -> str:
    """Return what a reader can do, and what bars and crosses say where there are any."""
    words = [text("live.incast.hint")]
    bars = [text("live.incast.bars_marks")] if panels.marks else []
    if panels.pauses:
        bars.append(text("live.incast.bars_pauses"))
    if bars:
        words.append(text("live.incast.hint_bars", list=", ".join(bars)))
    if run.drops:
        words.append(text("live.incast.hint_lost"))
    return " ".join(words)


def incast_words(run: Run, senders: int, control: str, lossless: str, buffer: float) -> str:
    """Return the finding: the longest queue, the first pause and what was lost, and then the settings."""
    lost = text("live.incast.lost", n=run.drops) if run.drops else text("live.incast.none_lost")
    key = "live.incast.said" if lossless == "pause" else "live.incast.said_lossy"
    paused = text("live.incast.never_paused")
    if run.pauses:
        paused = text("live.incast.first", time=run.first_pause)
    ended = text("live.incast.done", time=run.finish)
    if run.unfinished:
        ended = text("live.incast.open", n=run.unfinished, time=run.end)
    return text(
        key,
        peak=bytes_words(run.peak),
        paused=paused,
        lost=lost,
        limit=bytes_words(run.limit),
        n=senders,
        loop=loop_name(control),
        pauses=text(f"live.incast.{lossless}"),
        buffer=bytes_words(buffer * _MB),
        ended=ended,
    )


def incast_table(run: Run) -> Table:
    """Return each bin of time as a row: the state at its end, and what happened in it."""
    return Table(
        {
            "time [s]": run.times[1:],
            "queue [B]": run.queue[1:],
            "marked [%]": 100 * run.marked,
            "senders paused [%]": 100 * run.paused,
            "lost": run.lost,
            "sender 1 [B/s]": run.rates[:, 0],
            "mean of senders [B/s]": run.rates.mean(axis=1),
        },
        apart=("time [s]",),
    )


# Layers -----------------------------------------------------------------------------------------


def queue_layers(
    run: Run,
    to_x: Any,
    sides: tuple[float, float],
    ends: tuple[float, float],
    top: float = 0.0,
    prefix: str = "",
    ticks: bool = True,
) -> dict[str, Layer]:
    """Return a queue as an area under a line, its thresholds as dotted lines, and crosses where packets are lost."""
    highest = top or queue_top(run)
    to_y = log_axis(0, highest, ends[1], ends[0])
    path = np.stack([to_x(run.curve[0]), to_y(run.curve[1])], axis=1)
    levels = [level for level in (run.low, run.high, run.limit) if level <= highest]
    across = [np.array([[sides[0], to_y(level)], [sides[1], to_y(level)]]) for level in levels]
    lossy = np.flatnonzero(run.lost > 0)
    # A packet is lost where the queue is longest: at the beginning or at the end of its bin.
    lossy = lossy + (run.queue[lossy + 1] >= run.queue[lossy])
    places = np.array(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, highest))
    places = places[(places >= 0) & (places <= highest)]
    grid = tick_layers(places, to_y, lambda size: bytes_words(size) if size else "0", sides, False)
    crosses = apart(to_x(run.times[lossy]))
    lossy = lossy[crosses]
    layers = {f"{prefix}y grid": grid["y grid"]}
    if ticks:
        layers[f"{prefix}y ticks"] = grid["y ticks"]
    return layers | {
        f"{prefix}queue": lines(
            [path],
            width=2.0,
            colour=COLOUR["queue"],
            area=float(ends[1]),
            ghost=True,
        ),
        f"{prefix}thresholds": lines(across, width=1.2, dash=2.0, colour=COLOUR["soft"]),
        f"{prefix}lost": Layer(
            "dots",
            {
                "x": to_x(run.times[lossy]),
                "y": to_y(run.queue[lossy]),
                "size": 4.0,
                "shape": 2.0,
                "colour": COLOUR["lost"],
            },
        ),
    }


def apart(x: Floats) -> Ints:
    """Return which of some places (K,), from left to right, are drawn if no two may lie on each other [px]."""
    kept: list[int] = []
    for i, place in enumerate(x.tolist()):
        if not kept or place - x[kept[-1]] >= _CROSSES_APART:
            kept.append(i)
    return np.array(kept, dtype=np.int64)


def queue_top(run: Run) -> float:
    """Return the end of the axis of a queue: its peak, and the thresholds that are not far above it. [B]."""
    levels = [run.peak, run.limit]
    levels += [level for level in (run.low, run.high) if level <= _BEYOND * max(levels)]
    _, top = common_ends("queue", 0.0, 1.06 * max(levels))
    return top


def threshold_names(run: Run, lossless: str, senders: int) -> dict[str, Layer]:
    """Return the names of the thresholds at the right ends of their lines, and of the lowest one above the axis."""
    top = queue_top(run)
    to_y = log_axis(0, top, _UPPER[1], _UPPER[0])
    key = "xoff" if lossless == "pause" else "full"
    levels = {"low": run.low, "high": run.high, key: run.limit}
    words_of = {name: bytes_words(level) for name, level in levels.items() if level > 0}
    if lossless == "pause":  # a switch pauses by what each cable has brought
        words_of["xoff"] = f"{senders} × {bytes_words(run.limit / senders)}"
    shown = sorted(
        (float(to_y(level)), text(f"live.incast.{name}", size=words_of[name]))
        for name, level in levels.items()
        if level <= top
    )
    places: list[float] = []
    for y, _ in shown:
        places.append(max(y, places[-1] + _LINES_APART) if places else y)
    words = [name for _, name in shown]
    beyond = [
        text(f"live.incast.{name}_beyond", size=bytes_words(level))
        for name, level in levels.items()
        if level > top
    ]
    if beyond:
        places.append(_UPPER[0] - 16)
        words.append(beyond[0])
    return {"threshold names": texts(_NAMES_AT, np.array(places), words, colour=COLOUR["soft"])}


def mark_layers(run: Run, to_x: Any, ends: tuple[float, float] | None) -> dict[str, Layer]:
    """Return the bars of marked packets, each with its corner cut off, and their name."""
    if ends is None:
        return {"marked": boxes([], [], [], [])}
    x = to_x(run.times)
    some = np.flatnonzero(run.marked > 0)
    wide = np.maximum(np.diff(x)[some] - 1.0, 1.0)
    high = np.maximum(_BAND * run.marked[some], 2.0)
    top = ends[1] - high
    cut = np.minimum(3.0, np.minimum(wide, high) / 2)
    right = x[some] + wide
    corners = [
        np.array([[r - c - 0.8, y - 0.8], [r + 0.8, y + c + 0.8]])
        for r, y, c in zip(right, top, cut, strict=True)
    ]
    return {
        "marked": boxes(x[some], top, wide, high, colour=COLOUR["marked"], round=0.0),
        "corners": lines(corners, width=2.2, colour=COLOUR["paper"]),
        **band_words("marked", text("live.incast.marks", n=run.marks), ends),
    }


def pause_layers(run: Run, to_x: Any, ends: tuple[float, float] | None) -> dict[str, Layer]:
    """Return upright bars, as high as the share of the senders that are paused, and their name."""
    if ends is None:
        return {"paused": lines([])}
    x = to_x(run.times)
    uprights = []
    for left, end, share in zip(x[:-1], x[1:], run.paused, strict=True):
        if share <= 0:
            continue
        upper = ends[1] - max(2.0, share * _BAND)
        for at in (left + 0.25 * (end - left), left + 0.75 * (end - left)):
            uprights.append(np.array([[at, ends[1]], [at, upper]]))
    return {
        "paused": lines(uprights, width=1.4, colour=COLOUR["paused"]),
        **band_words("paused", text("live.incast.pauses", n=run.pauses), ends),
    }


def band_words(role: str, name: str, ends: tuple[float, float]) -> dict[str, Layer]:
    """Return the foot of a band, its name on the right, and on the left what its height stands for."""
    foot = np.array([[_LEFT, ends[1]], [_RIGHT, ends[1]]])
    return {
        f"{role} foot": lines([foot], width=1.0, colour=COLOUR["line"]),
        f"{role} name": texts(_NAMES_AT, sum(ends) / 2, [name], bold=1.0, colour=COLOUR[role]),
        f"{role} tick": texts(
            _LEFT - 6, ends[0] + 4, ["100 %"], align=2.0, size=11.0, colour=COLOUR["soft"]
        ),
    }


def rate_layers(
    run: Run,
    to_x: Any,
    sides: tuple[float, float],
    ends: tuple[float, float],
    rate: float,
    prefix: str = "rate ",
    ticks: bool = True,
) -> dict[str, Layer]:
    """Return the rate of each sender as a line: the first one strong, the others thin; dotted is the fair share."""
    to_y = log_axis(0, rate, ends[1], ends[0])
    middle = to_x((run.times[1:] + run.times[:-1]) / 2)
    n = run.rates.shape[1]
    paths = [
        np.stack([middle, to_y(np.minimum(run.rates[:, sender], rate))], axis=1)
        for sender in range(n)
    ]
    fair = float(to_y(rate / n))
    grid = tick_layers(np.array([0.0, rate / 2, rate]), to_y, units.format_rate, sides, False)
    layers = {f"{prefix}grid": grid["y grid"]}
    if ticks:
        layers[f"{prefix}ticks"] = grid["y ticks"]
    return layers | {
        f"{prefix}fair": lines(
            [np.array([[sides[0], fair], [sides[1], fair]])],
            dash=2.0,
            width=1.2,
            colour=COLOUR["soft"],
        ),
        f"{prefix}others": lines(paths[1:], width=0.9, alpha=0.6, colour=COLOUR["rate"]),
        f"{prefix}one": lines(paths[:1], width=2.0, colour=COLOUR["rate"]),
    }


def time_ticks(end: float, to_x: Any, foot: float, n: int) -> dict[str, Layer]:
    """Return the ticks of the time axis."""
    places = np.array(MaxNLocator(n, steps=[1, 2, 2.5, 5, 10]).tick_values(0, end))
    places = places[(places >= 0) & (places <= end)]
    words = tick_texts(places, units.format_time)
    return {
        "x ticks": texts(to_x(places), foot + 12, words, align=1.0, colour=COLOUR["soft"]),
    }


def moments(
    run: Run, to_x: Any, ends: tuple[float, float], senders: int, lossless: str
) -> dict[str, Layer]:
    """Return a line for each moment that a reader can visit by pointer or arrow keys: unseen until it is read."""
    x = to_x(run.times[1:])
    names = []
    notes = []
    for k, time in enumerate(run.times[1:].tolist()):
        names.append(plain(units.format_time(time)))
        notes.append(
            text(
                "live.incast.moment",
                queue=bytes_words(float(run.queue[k + 1])),
                marked=100 * float(run.marked[k]),
                paused=senders * float(run.paused[k]),
                n=senders,
                lost=int(run.lost[k]),
                rate=float(run.rates[k].mean()),
            )
        )
    paths = [np.array([[at, ends[0]], [at, ends[1]]]) for at in x]
    return {"moments": lines(paths, width=1.0, alpha=0.0, names=names, notes=notes)}


# Control loops side by side ---------------------------------------------------------------------


def control_loops(
    *,
    senders: int = 8,
    lossless: str = "pause",
    buffer: float = 4.0,
    size: units.Quantity = "1 MiB",
    rate: units.Quantity | None = None,
    loops: Sequence[str] = tuple(_LOOPS),
    shown: Sequence[str] = ("senders", "lossless", "buffer"),
) -> Live:
    """Show the same incast under several control loops beside each other: queues above, rates below, equal axes.

    Parameters
    ----------
    senders : int
        Number of senders, 2..16.
    lossless, buffer, size, rate : str, float, float or str
        As in `incast`. [MB], [B], [B/s]
    loops : sequence of str
        Two to four of "window", "dcqcn", "hpcc" and "swift", from left to right.
    shown : sequence of str
        Which of the first three arguments a reader can set.
    """
    chosen = tuple(dict.fromkeys(units.choice(loop, "loops", tuple(_LOOPS)) for loop in loops))
    if len(chosen) < 2:
        raise ValueError(f"loops needs at least two control loops to compare, got {loops!r}")
    arguments = {
        "senders": senders,
        "lossless": lossless,
        "buffer": buffer,
        "size": size,
        "rate": rate,
        "loops": tuple(loops),
        "shown": tuple(shown),
    }
    controls = _controls()
    del controls["control"]
    controls["senders"] = Slider(2, _MOST_COMPARED)
    scene = partial(loops_scene, size=_checked_size(size), rate=_checked_rate(rate), loops=chosen)
    return view_of("control_loops", arguments, scene, controls, shown)


def loops_scene(
    senders: int,
    lossless: str,
    buffer: float,
    size: float,
    rate: float,
    loops: tuple[str, ...],
) -> Scene:
    """Return a column for each control loop: its queue above, the rates of its senders below."""
    runs = {
        loop: played(Incast(senders, loop, lossless, buffer * _MB, size, rate)) for loop in loops
    }
    said = loops_words(runs)
    _, end = common_ends("time", 0.0, max(run.end for run in runs.values()))
    _, top = common_ends("queue", 0.0, 1.06 * max(max(r.peak, r.limit) for r in runs.values()))
    wide = (_WIDTH - _COLUMN_LEFT - 12 - _COLUMN_GAP * (len(loops) - 1)) / len(loops)
    layers: dict[str, Layer] = {
        "title": heading(16.0, text("live.control_loops.queue")),
        "legend": texts(
            _LEGEND_LEFT,
            _COLUMN_LOWER[0] - 20,
            [text("live.control_loops.legend")] if any(r.pauses for r in runs.values()) else [],
            bold=1.0,
            colour=COLOUR["paused"],
        ),
        "rate title": heading(_COLUMN_LOWER[0] - 20, text("live.control_loops.rates")),
    }
    for place, (loop, run) in enumerate(runs.items()):
        left = _COLUMN_LEFT + place * (wide + _COLUMN_GAP)
        sides = (left, left + wide)
        to_x = log_axis(0, end, *sides)
        first = place == 0
        column = {
            **queue_layers(run, to_x, sides, _COLUMN_UPPER, top, "", first),
            **rate_layers(run, to_x, sides, _COLUMN_LOWER, rate, "rate ", first),
            **time_ticks(end, to_x, _COLUMN_LOWER[1], 3),
            **column_thresholds(run, lossless, to_x, sides, top),
            "name": texts(left + 2, 40.0, [loop_name(loop)], bold=1.0, size=13.0),
            "numbers": texts(
                left + 2, 56.0, [column_words(run, lossless)], colour=COLOUR["soft"], size=11.0
            ),
            "pauses": lines(pause_bars(run, to_x), width=1.2, colour=COLOUR["paused"]),
            **moments(run, to_x, (_COLUMN_UPPER[0], _COLUMN_LOWER[1]), senders, lossless),
        }
        names = column["moments"].fields["names"]
        column["moments"].fields["names"][:] = [f"{loop_name(loop)}, {name}" for name in names]
        layers |= {f"{loop} {name}": layer for name, layer in column.items()}
    return Scene(
        said,
        loops_table(runs),
        layers,
        _COLUMN_HEIGHT,
        alt=f"{said} {loops_setting(senders, lossless, buffer)}",
        hint=loops_hint(runs),
        width=_WIDTH,
    )


def loops_hint(runs: dict[str, Run]) -> str:
    """Return what a reader can do, and what crosses and dots say where there are any."""
    words = [text("live.control_loops.hint")]
    if any(run.drops for run in runs.values()):
        words.append(text("live.control_loops.hint_lost"))
    words.append(text("live.control_loops.hint_fair"))
    return " ".join(words)


def column_thresholds(
    run: Run, lossless: str, to_x: Any, sides: tuple[float, float], top: float
) -> dict[str, Layer]:
    """Return the names of the thresholds of a column, above their lines, where they cover least of the queue."""
    to_y = log_axis(0, top, _COLUMN_UPPER[1], _COLUMN_UPPER[0])
    key = "xoff" if lossless == "pause" else "full"
    levels = {"low": run.low, "high": run.high, key: run.limit}
    shown = [(float(to_y(level)), name) for name, level in levels.items() if level <= top]
    y = np.array([place - 8 for place, _ in shown])
    limit = bytes_words(run.limit)
    words = [text(f"live.control_loops.{name}", size=limit) for _, name in shown]
    curve = densely(np.stack([to_x(run.curve[0]), to_y(run.curve[1])], axis=1)).T  # (2, K)
    middle = (sides[0] + sides[1]) / 2
    places = ((sides[1], 2.0), (middle, 1.0), (sides[0] + 2, 0.0))  # and how words stand at them
    covered = []
    for x, align in places:
        points = 0
        for height, word in zip(y, words, strict=True):
            wide = _SMALL_LETTER * len(word)
            points += crowding(x - align / 2 * wide, height, wide, curve)
        covered.append(points)
    x, align = places[int(np.argmin(covered))]
    return {
        "names of thresholds": texts(
            x, y, words, align=align, size=11.0, colour=COLOUR["soft"], halo=1.0
        )
    }


def pause_bars(run: Run, to_x: Any) -> list[Floats]:
    """Return upright bars between the two panels of a column, as high as the share of paused senders."""
    foot = _COLUMN_UPPER[1] + 20
    most = 16.0
    middle = to_x((run.times[1:] + run.times[:-1]) / 2)
    bars = []
    for at, share in zip(middle, run.paused, strict=True):
        if share > 0:
            bars.append(np.array([[at, foot], [at, foot - max(2.0, most * share)]]))
    return bars


def column_words(run: Run, lossless: str) -> str:
    """Return the numbers above a column: its peak, and its pauses or losses."""
    if lossless == "pause":
        return text("live.control_loops.paused", peak=bytes_words(run.peak), n=run.pauses)
    return text("live.control_loops.lost", peak=bytes_words(run.peak), n=run.drops)


def loops_words(runs: dict[str, Run]) -> str:
    """Return the finding: which loop keeps the shortest queue, and which brings most through."""
    shortest = min(runs, key=lambda loop: runs[loop].mean)
    longest = max(runs, key=lambda loop: runs[loop].mean)
    fastest = max(runs, key=lambda loop: runs[loop].goodput)
    return text(
        "live.control_loops.said",
        short=loop_name(shortest),
        mean=bytes_words(runs[shortest].mean),
        long=loop_name(longest),
        most=bytes_words(runs[longest].mean),
        fast=loop_name(fastest),
        rate=runs[fastest].goodput,
        same=runs[shortest].goodput,
    )


def loops_setting(senders: int, lossless: str, buffer: float) -> str:
    """Return what the controls say, for those who do not see them."""
    return text(
        "live.control_loops.setting",
        n=senders,
        pauses=text(f"live.incast.{lossless}"),
        buffer=bytes_words(buffer * _MB),
    )


def loops_table(runs: dict[str, Run]) -> Table:
    """Return a row for each control loop."""
    every = list(runs.values())
    return Table(
        {
            "control loop": [loop_name(loop) for loop in runs],
            "peak queue [kB]": [run.peak / _KB for run in every],
            "mean queue [kB]": [run.mean / _KB for run in every],
            "pauses": [run.pauses for run in every],
            "lost": [run.drops for run in every],
            "goodput [B/s]": [run.goodput for run in every],
            "fairness": [run.fairness for run in every],
        }
    )
