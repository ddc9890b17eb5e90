"""A live view of pauses that spread: one broken card or slow receiver, and the links that it stops."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab import catalog, compiled, scenarios, units
from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.engines.packet import LOG_KINDS, Settings, Trace
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.layout import along_curve
from fabriclab.views.live.queues import view_of
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table
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

_CAUSES = ("broken card", "slow receiver")
_FROM = 10e-6  # illustrative: chosen for a short run [s]
_UNTIL = 130e-6  # illustrative: chosen for a short run [s]
_TRAFFIC = 60e-6  # illustrative: what the hosts send without a fault takes so long [s]
_WATCHDOG = "40 us"  # illustrative: real ones wait for 100 ms and more, as their runs are longer
_TIMEOUT = "100 us"  # illustrative: short, as the whole run is
_TRIES = 50  # illustrative: no connection gives up within a run
_SLOWER = 10  # times that a slow receiver is slower than its port
_BUFFER = "2 MB"  # illustrative: memory that fills soon
_LINES = 400_000  # of the log: more than any run here has
_PAYLOAD = Settings().payload  # of a full packet [B]
_ON_WIRE = _PAYLOAD + Settings().header + Settings().gap  # [B]
_BIN = 4e-6  # illustrative: over so long a rate is a mean [s]
_MICRO = 1e6  # microseconds in a second
_LAST = 200  # illustrative: a while after the card is well again [us]
_STEP = 2  # illustrative: many steps within a pause [us]
_BEAT = 200.0  # illustrative: slow enough to follow the pauses by eye [ms]
_FULL = 100  # percent
_MOST_LEAVES, _MOST_HOSTS = 4, 4

# The picture in px.
_WIDTH = 560.0
_SIDE = 320.0
_HEIGHT = 384.0
_EDGES = (26.0, 534.0)
_ROWS = (58.0, 194.0, 328.0)  # middles of spines, leaves and hosts
_SWITCH = (64.0, 24.0)  # width and height
_HOST = (22.0, 20.0)
_APART = 3.0  # of the two directions of a cable from its middle
_SIGN = 9.0  # side of the sign of a pause
_SIGN_BARS = 1.6  # from its middle to each of its two bars
_POINTS = 49  # of a path, so many that a thick line has no corners
_SIGN_POINT = 12  # the one on which the sign stands
_UPPER = (44.0, 168.0)  # top and foot of the curve of paused links
_LOWER = (230.0, 340.0)  # top and foot of the curve of the rate
_SIDES = (64.0, 300.0)


class Case(NamedTuple):
    """What is broken where, and how much is sent."""

    cause: str
    watchdog: bool
    load: float  # of the rate of a port, 0..1
    leaves: int
    hosts: int  # on each leaf


@dataclass(frozen=True, eq=False)
class Spreading:
    """Pauses in a fabric, link by link. L links, B bins of time.

    Parameters
    ----------
    pauses : sequence of (P, 2) float64
        For each link, when it was paused, and when it went on [s].
    edges : (B + 1,) float64
        Ends of the bins [s].
    rate : (B,) float64
        Payload that came to healthy hosts in each bin, over its length [B/s].
    finish : float
        When the last flow between healthy hosts ended [s].
    discarded : int
        Packets that the watchdog threw away.
    is_compiled : bool
        Whether compiled kernels ran.
    """

    pauses: tuple[Floats, ...]
    edges: Floats
    rate: Floats
    finish: float
    discarded: int
    is_compiled: bool

    def paused_at(self, moment: float) -> Flags:
        """Return which links are paused at a time [s], (L,)."""
        return np.array(
            [np.any((p[:, 0] <= moment) & (moment < p[:, 1])) for p in self.pauses], dtype=bool
        )

    def steps(self) -> tuple[Floats, Ints]:
        """Return when the number of paused links changes, and the number from then on."""
        every = np.concatenate([np.zeros((0, 2)), *self.pauses])
        times = np.unique(np.concatenate([[0.0], every.ravel()]))
        began = np.searchsorted(np.sort(every[:, 0]), times, side="right")
        ended = np.searchsorted(np.sort(every[:, 1]), times, side="right")
        return times, began - ended


def pause_map(
    *,
    moment: int = 60,  # illustrative: when pauses have spread [us]
    watchdog: bool = False,
    load: int = 80,
    cause: str = "broken card",
    leaves: int = 4,
    hosts: int = 4,
    shown: Sequence[str] = ("moment", "watchdog", "load"),
) -> Live:
    """Show how one card that pauses its switch, or one slow receiver, pauses link after link of a fabric.

    Every host sends to all others, at the rate of a NIC of the running case times ``load``, for 60 us if nothing is
    wrong. A broken card pauses its switch from 10 to 130 us. The watchdog of a switch throws away what waits in a queue
    that has been paused for 40 us; real ones wait for 100 ms and more. Times are short, as the run is. Senders keep
    their rate whatever happens, and ask again for what is missing after 100 us. The packet engine plays it.

    Parameters
    ----------
    moment : int
        Time since all began, 0..200 [us].
    watchdog : bool
        Whether switches have a watchdog.
    load : int
        What each host sends, 20..100 [% of its port].
    cause : str
        "broken card": host 1 pauses its switch and takes nothing in; "slow receiver": host 1 takes in a tenth of the
        rate of its port.
    leaves, hosts : int
        Leaves, and hosts on each of them, 2..4; there are as many spines as hosts on a leaf.
    shown : sequence of str
        Which of the first four arguments a reader can set: at most three.
    """
    arguments = {
        "moment": moment,
        "watchdog": watchdog,
        "load": load,
        "cause": cause,
        "leaves": leaves,
        "hosts": hosts,
        "shown": tuple(shown),
    }
    scene = partial(
        pause_scene,
        leaves=units.count(leaves, "leaves", 2, _MOST_LEAVES),
        hosts=units.count(hosts, "hosts", 2, _MOST_HOSTS),
    )
    return view_of("pause_map", arguments, scene, _controls(), shown)


def _controls() -> dict[str, Control]:
    """Return everything that a reader may set."""
    switched = (text("live.pause_map.off"), text("live.pause_map.on"))
    causes = tuple(text(f"live.pause_map.{cause.split()[0]}") for cause in _CAUSES)
    return {
        "moment": Slider(0, _LAST, _STEP, unit="us", play=True, beat=_BEAT),
        "watchdog": Choice((False, True), names=switched),
        "load": Slider(20, _FULL, 20, unit="%"),
        "cause": Choice(_CAUSES, names=causes),
    }


# The run ----------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def scenario_of(case: Case) -> scenarios.Scenario:
    """Return all hosts sending to all others at a part of their rate, with one of them that is not well."""
    rate = catalog.case().nic_rate
    others = case.leaves * case.hosts - 1
    size = case.load * rate * _TRAFFIC / others * _PAYLOAD / _ON_WIRE
    config: dict[str, Any] = {
        "watchdog": _WATCHDOG if case.watchdog else None,
        "timeout": _TIMEOUT,
        "retries": _TRIES,
        "sample": None,
        "watch_links": (),
        "watch_flows": (),
    }
    if case.cause == "slow receiver":
        config["storms"] = ()
        config["receivers"] = {0: rate / _SLOWER}
    storm = scenarios.pause_storm(
        case.leaves,
        case.hosts,
        float(round(size)),
        begin=_FROM,
        end=_UNTIL,
        rate=rate,
        buffer=_BUFFER,
        **config,
    )
    limit = np.full(storm.flows.n_flows, case.load * rate / others)
    return replace(storm, flows=replace(storm.flows, limit=limit))


@lru_cache(maxsize=64)
def spreading(case: Case) -> Spreading:
    """Return what pauses did in a run."""
    scenario = scenario_of(case)
    trace = scenario.play(log=_LINES)
    healthy = trace.flows_of("between healthy hosts")
    edges = np.arange(0.0, _LAST / _MICRO + _BIN / 2, _BIN)
    return Spreading(
        pauses=pauses_of(trace, scenario.fabric.n_links),
        edges=edges,
        rate=rate_of(trace, healthy, edges),
        finish=float(trace.finish[healthy].max()),
        discarded=int(trace.dropped.sum()),
        is_compiled=trace.compiled,
    )


def pauses_of(trace: Trace, n_links: int) -> tuple[Floats, ...]:
    """Return for each link when a pause began and ended, (P, 2) [s], by the log."""
    pause, resume = LOG_KINDS.index("pause"), LOG_KINDS.index("resume")
    found = []
    for link in range(n_links):
        lines_of = trace.log[trace.log[:, 5] == link]
        began = lines_of[lines_of[:, 1] == pause, 0] * 1e-12
        ended = lines_of[lines_of[:, 1] == resume, 0] * 1e-12
        ended = np.append(ended, np.full(began.size - ended.size, trace.end))
        found.append(np.stack([began, ended], axis=1))
    return tuple(found)


def rate_of(trace: Trace, flows: Ints, edges: Floats) -> Floats:
    """Return the rate at which some flows came in each bin of time, (B,) [B/s]. Each packet counts as full."""
    came = trace.log[trace.log[:, 1] == LOG_KINDS.index("came")]
    is_ours = np.isin(trace.flow[came[:, 3]], flows)
    packets, _ = np.histogram(came[is_ours, 0] * 1e-12, edges)
    return np.asarray(packets * _PAYLOAD / np.diff(edges))


# The picture ------------------------------------------------------------------------------------


def pause_scene(
    moment: int, watchdog: bool, load: int, cause: str, leaves: int, hosts: int
) -> Scene:
    """Return the fabric with its paused links at a moment, and beside it the count of them and the rate over time."""
    case = Case(cause, bool(watchdog), load / _FULL, leaves, hosts)
    scenario = scenario_of(case)
    here = spreading(case)
    other = spreading(case._replace(watchdog=not case.watchdog))
    now = moment / _MICRO  # [s]
    paused = here.paused_at(now)
    said = pause_words(case, scenario.fabric, here, other, paused, now)
    return Scene(
        said,
        pause_table(scenario.fabric, here, paused),
        fabric_layers(case, scenario.fabric, here, paused, now),
        _HEIGHT,
        alt=f"{said} {setting_words(case)}",
        hint=" ".join(filter(None, [text("live.pause_map.hint"), slow_words(here)])),
        width=_WIDTH,
        side=Scene(
            "",
            layers=curve_layers(case, here, other, now, scenario.fabric.n_links),
            height=_HEIGHT,
            width=_SIDE,
        ),
    )


def discarded_words(n: int) -> str:
    """Return how many packets a watchdog threw away."""
    if n == 0:
        return text("live.pause_map.keeps_all")
    return text("live.pause_map.discards", n=n)


def slow_words(run: Spreading) -> str:
    """Return why a run took seconds, if it ran as plain Python and the next one will, too."""
    return "" if run.is_compiled else compiled.note()


def pause_words(
    case: Case, fabric: Fabric, here: Spreading, other: Spreading, paused: Flags, now: float
) -> str:
    """Return the finding: how many links and hosts stand still now; then what the watchdog changes."""
    n_hosts = case.leaves * case.hosts
    is_from_host = ~fabric.transit[fabric.source]
    still = int(np.count_nonzero(paused & is_from_host))
    with_it, without = (here, other) if case.watchdog else (other, here)
    key = "live.pause_map.stand_still" if np.any(paused) else "live.pause_map.all_send"
    happens = text(
        key,
        paused=int(np.count_nonzero(paused)),
        links=fabric.n_links,
        still=still,
        hosts=n_hosts,
    )
    return text(
        "live.pause_map.said",
        time=now,
        happens=happens,
        without=without.finish,
        with_it=with_it.finish,
        discarded=discarded_words(with_it.discarded),
    )


def setting_words(case: Case) -> str:
    """Return what the controls say, for those who do not see them."""
    watched = text("live.pause_map.watched" if case.watchdog else "live.pause_map.unwatched")
    cause = text(f"live.pause_map.one_{case.cause.split()[0]}")
    return text("live.pause_map.setting", watched=watched, load=case.load, cause=cause)


def pause_table(fabric: Fabric, here: Spreading, paused: Flags) -> Table:
    """Return a row for each link that is ever paused: whether it is paused now, when first, how often, how long."""
    ever = [link for link, pauses in enumerate(here.pauses) if pauses.size]
    if not ever:
        return Table({"link": ["-"], "now": [text("live.pause_map.none_paused")]})
    return Table(
        {
            "link": [link_name(fabric, link) for link in ever],
            "now": [text(f"live.pause_map.{'is' if paused[link] else 'is_not'}") for link in ever],
            "first pause [s]": [float(here.pauses[link][0, 0]) for link in ever],
            "pauses": [len(here.pauses[link]) for link in ever],
            "paused in all [s]": [float(np.diff(here.pauses[link]).sum()) for link in ever],
        },
        apart=("first pause [s]", "paused in all [s]"),
    )


# Layers -----------------------------------------------------------------------------------------


def node_places(case: Case, fabric: Fabric) -> Floats:
    """Return the middle of each node, (nodes, 2) [px]: hosts under their leaf, leaves under the spines."""
    left, right = _EDGES
    places = np.zeros((fabric.n_nodes, 2))
    for tier, row in zip((2, 1, 0), _ROWS, strict=True):
        nodes = np.flatnonzero(fabric.tier == tier)
        share = (np.arange(nodes.size) + 0.5) / nodes.size
        if tier == 0:
            # Hosts of a leaf stand closer to each other than to those of the next one.
            pitch = (right - left) / case.leaves
            leaf, place = np.divmod(np.arange(nodes.size), case.hosts)
            within = (place - (case.hosts - 1) / 2) * min(30.0, 0.86 * pitch / case.hosts)
            places[nodes, 0] = left + pitch * (leaf + 0.5) + within
        else:
            places[nodes, 0] = left + (right - left) * share
        places[nodes, 1] = row
    return places


def link_paths(fabric: Fabric, places: Floats) -> list[Floats]:
    """Return a curve for each link; the two directions of a cable run side by side."""
    along = along_curve(_POINTS)
    eased = along * along * (3 - 2 * along)
    half = {0: _HOST[1] / 2, 1: _SWITCH[1] / 2, 2: _SWITCH[1] / 2}
    paths = []
    for link in range(fabric.n_links):
        ends = [int(fabric.source[link]), int(fabric.target[link])]
        upper, lower = sorted(ends, key=lambda node: places[node, 1])
        top = places[upper] + [0, half[int(fabric.tier[upper])]]
        foot = places[lower] - [0, half[int(fabric.tier[lower])]]
        reach = _SWITCH[0] / 2 - 8
        width = _EDGES[1] - _EDGES[0]
        # Cables leave a switch side by side, in the order of their other ends.
        top[0] += reach * 2 * ((foot[0] - _EDGES[0]) / width - 0.5)
        if fabric.tier[lower] > 0:
            foot[0] += reach * 2 * ((places[upper, 0] - _EDGES[0]) / width - 0.5)
        goes_up = ends[1] == upper
        aside = -_APART if goes_up else _APART
        x = foot[0] + (top[0] - foot[0]) * eased + aside
        y = foot[1] + (top[1] - foot[1]) * along
        path = np.stack([x, y], axis=1)
        paths.append(path if goes_up else path[::-1])
    return paths


def fabric_layers(
    case: Case, fabric: Fabric, here: Spreading, paused: Flags, now: float
) -> dict[str, Layer]:
    """Return the fabric: paused links wide with their sign where packets wait, all others thin."""
    places = node_places(case, fabric)
    paths = link_paths(fabric, places)
    signs = sign_places(paths, paused)
    title = text("live.pause_map.title_map", time=now)
    return {
        "title": heading(16.0, title),
        "links": link_lines(fabric, paths, here, paused, now),
        "signs": sign_boxes(signs),
        "sign bars": sign_bars(signs),
        **node_layers(case, fabric, places),
    }


def link_lines(
    fabric: Fabric, paths: Sequence[Floats], here: Spreading, paused: Flags, now: float
) -> Layer:
    """Return a line for each link, wide and coloured if it is paused."""
    links = range(fabric.n_links)
    return lines(
        paths,
        width=np.where(paused, 2.8, 0.8),
        colour=np.where(paused, COLOUR["paused"], COLOUR["hair"]),
        names=[link_name(fabric, link) for link in links],
        notes=[link_words(here.pauses[link], now) for link in links],
    )


def sign_places(paths: Sequence[Floats], paused: Flags) -> Floats:
    """Return the middle of the sign of each paused link, near the beginning of its path, (P, 2) [px]."""
    middles = [paths[link][_SIGN_POINT] for link in np.flatnonzero(paused).tolist()]
    return np.array(middles).reshape(-1, 2)


def sign_boxes(signs: Floats) -> Layer:
    """Return the outline of each sign of a pause."""
    corner = signs - _SIGN / 2
    return boxes(
        corner[:, 0],
        corner[:, 1],
        _SIGN,
        _SIGN,
        colour=COLOUR["paper"],
        edge=COLOUR["paused"],
        round=1.0,
    )


def sign_bars(signs: Floats) -> Layer:
    """Return the two upright bars in each sign of a pause."""
    paths = []
    for x, y in signs:
        for bar in (x - _SIGN_BARS, x + _SIGN_BARS):
            paths.append(np.array([[bar, y - 2.4], [bar, y + 2.4]]))
    return lines(paths, width=1.4, colour=COLOUR["paused"])


def node_name(fabric: Fabric, node: int) -> str:
    """Return the name of a node by its kind and its number in its row, such as "leaf 2"."""
    tier = int(fabric.tier[node])
    number = int(np.searchsorted(np.flatnonzero(fabric.tier == tier), node)) + 1
    return text(f"live.pause_map.{('host', 'leaf', 'spine')[tier]}", n=number)


def link_name(fabric: Fabric, link: int) -> str:
    """Return the name of a link, such as "leaf 2 to spine 1"."""
    first = node_name(fabric, int(fabric.source[link]))
    second = node_name(fabric, int(fabric.target[link]))
    return text("live.pause_map.link", first=first, second=second)


def link_words(pauses: Floats, now: float) -> str:
    """Return whether a link is paused at a time [s], and since when, or for how long it has been so in all."""
    for begin, end in pauses.tolist():
        if begin <= now < end:
            return text("live.pause_map.since", time=begin)
    so_far = float(np.diff(np.minimum(pauses, now)).sum())
    if so_far > 0:
        return text("live.pause_map.was", time=so_far)
    return text("live.pause_map.never")


def node_layers(case: Case, fabric: Fabric, places: Floats) -> dict[str, Layer]:
    """Return switches and hosts with their names, and the host that is not well as an outline."""
    ill = int(fabric.endpoint[0])
    is_broken = case.cause == "broken card"
    x, y = places[ill]
    crosses = {
        "x": np.array([x] if is_broken else []),
        "y": np.array([y] if is_broken else []),
        "size": 5.0,
        "shape": 2.0,
        "colour": COLOUR["failed"],
    }
    said = text(f"live.pause_map.ill_{case.cause.split()[0]}")
    below = y + _HOST[1] / 2 + 11
    return {
        "switches": switch_boxes(fabric, places),
        "hosts": host_boxes(fabric, places, ill, is_broken),
        "cross": Layer("dots", crosses),
        "ill": texts(x - _HOST[0] / 2, below, [said], bold=1.0),
    }


def switch_boxes(fabric: Fabric, places: Floats) -> Layer:
    """Return a box with its name for each switch."""
    switches = np.flatnonzero(fabric.tier > 0)
    wide, high = _SWITCH
    return boxes(
        places[switches, 0] - wide / 2,
        places[switches, 1] - high / 2,
        wide,
        high,
        colour=COLOUR["switch"],
        texts=[node_name(fabric, node) for node in switches.tolist()],
        ink=COLOUR["node_ink"],
    )


def host_boxes(fabric: Fabric, places: Floats, ill: int, is_broken: bool) -> Layer:
    """Return a box with its number for each host; the one that is ill has an edge, and is empty if it is broken."""
    hosts = np.flatnonzero(fabric.tier == 0)
    wide, high = _HOST
    is_empty = (hosts == ill) & is_broken
    return boxes(
        places[hosts, 0] - wide / 2,
        places[hosts, 1] - high / 2,
        wide,
        high,
        colour=np.where(is_empty, COLOUR["paper"], COLOUR["host"]),
        edge=np.where(hosts == ill, COLOUR["ink"], COLOUR["none"]),
        texts=["" if is_empty[k] else f"{k + 1}" for k in range(hosts.size)],
        ink=COLOUR["paper"],
    )


def curve_layers(
    case: Case, here: Spreading, other: Spreading, now: float, n_links: int
) -> dict[str, Layer]:
    """Return the number of paused links and the rate into healthy hosts over time; grey is the other watchdog."""
    to_x = log_axis(0, _LAST / _MICRO, *_SIDES)
    highest = max(int(run.steps()[1].max()) for run in (here, other))
    _, top = common_ends("links", 0.0, 1.08 * max(highest, 4))
    _, fastest = common_ends("rate", 0.0, 1.08 * max(here.rate.max(), other.rate.max()))
    to_count = log_axis(0, top, _UPPER[1], _UPPER[0])
    to_rate = log_axis(0, fastest, _LOWER[1], _LOWER[0])
    counts = [count_path(run, to_x, to_count) for run in (here, other)]
    rates = [rate_path(run, to_x, to_rate) for run in (here, other)]
    x = float(to_x(now))
    ticks = to_ticks(top, 4)
    count_grid = tick_layers(ticks, to_count, lambda n: f"{n:.0f}", _SIDES, False)
    rate_grid = tick_layers(to_ticks(fastest, 3), to_rate, units.format_rate, _SIDES, False)
    times = to_ticks(_LAST / _MICRO, 4)
    count = int(np.count_nonzero(here.paused_at(now)))
    key = "live.pause_map.other_without" if case.watchdog else "live.pause_map.other_with"
    if all(np.array_equal(one, twin) for one, twin in (counts, rates)):
        key = "live.pause_map.other_same"
    return {
        "title": heading(16.0, text("live.pause_map.title_count", n=n_links)),
        "y grid": count_grid["y grid"],
        "y ticks": count_grid["y ticks"],
        "other count": lines(counts[1:], width=1.3, dash=1.0, colour=COLOUR["edge"]),
        "count": lines(counts[:1], width=2.0, colour=COLOUR["paused"], area=float(_UPPER[1])),
        "other name": texts(
            _SIDES[1],
            _UPPER[0] - 10,
            [text(key)],
            align=2.0,
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "rate title": heading(_LOWER[0] - 26, text("live.pause_map.title_rate")),
        "rate grid": rate_grid["y grid"],
        "rate ticks": rate_grid["y ticks"],
        "other rate": lines(rates[1:], width=1.3, dash=1.0, colour=COLOUR["edge"]),
        "rate": lines(rates[:1], width=2.0, colour=COLOUR["rate"]),
        "x ticks": texts(
            to_x(times),
            _LOWER[1] + 13,
            tick_texts(times, units.format_time),
            align=1.0,
            colour=COLOUR["soft"],
        ),
        "moment": lines(
            [
                np.array([[x, _UPPER[0] - 4], [x, _UPPER[1]]]),
                np.array([[x, _LOWER[0] - 4], [x, _LOWER[1]]]),
            ],
            width=1.4,
        ),
        "moment dot": Layer(
            "dots", {"x": np.array([x]), "y": to_count(np.array([count])), "size": 4.0}
        ),
    }


def to_ticks(top: float, n: int) -> Floats:
    """Return round values from 0 up to the end of an axis."""
    places = np.array(MaxNLocator(n, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top))
    return np.asarray(places[(places >= 0) & (places <= top * (1 + 1e-9))])


def count_path(run: Spreading, to_x: Any, to_y: Any) -> Floats:
    """Return the steps of the number of paused links, up to the end of the axis, (2K, 2) [px]."""
    times, count = run.steps()
    last = _LAST / _MICRO
    kept = times <= last
    steps = np.repeat(np.append(times[kept], last), 2)[1:-1]
    return np.stack([to_x(steps), to_y(np.repeat(count[kept], 2))], axis=1)


def rate_path(run: Spreading, to_x: Any, to_y: Any) -> Floats:
    """Return the rate into healthy hosts, a point in the middle of each bin, (B, 2) [px]."""
    middle = (run.edges[1:] + run.edges[:-1]) / 2
    return np.stack([to_x(middle), to_y(run.rate)], axis=1)
