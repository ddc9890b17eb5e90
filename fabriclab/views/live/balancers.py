"""A live view of load balancing: the same flows by a hash, by flowlets, by adaptive routing and by spraying."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab import compiled, scenarios, units
from fabriclab.core import Floats, Ints
from fabriclab.engines.packet import LOG_KINDS, Settings, Trace
from fabriclab.routing.ecmp import expected_fullest
from fabriclab.scenarios.parts import hashed
from fabriclab.texts import text
from fabriclab.views.common import common_ends
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
)

# The balancers that a reader compares, from left to right, with the options of each.
_BALANCERS: Mapping[str, Mapping[str, Any]] = {
    "hash": {"balance": "pinned"},
    "flowlet": {
        "balance": "flowlet",
        # illustrative: longer than the queues here, as a gap has to be
        "balance_options": {"gap": "5 us"},
    },
    "adaptive": {"balance": "adaptive"},
    "spray": {"balance": "spray"},
}
_SEEDLESS = ("adaptive", "spray")
_TRANSPORTS = ("go_back_n", "selective")
_MOST_FLOWS = 32
_MOST_SPINES = 32
_SLOW = 0.5  # part of its rate that a slow spine has
_STARTS = "2 us"  # illustrative: ranks of a collective do not begin at the same instant
_TIMEOUT = "200 us"  # illustrative: short, as the whole run is
_TRIES = 50  # illustrative: no connection gives up within a run
_LINES = 400_000  # of the log: more than any run here has
_STORED = Settings().payload + Settings().header  # of a full packet [B]

# The picture in px: a column for each balancer.
_WIDTH = 880.0
_HEIGHT = 384.0
_LEFT = 56.0
_GAP = 18.0
_LETTER = 6.0  # width of a letter of 11 px [px]
_UPPER = (90.0, 204.0)  # top and foot of the bars
_LOWER = (262.0, 350.0)  # top and foot of the dots
_EVEN = 1.05  # times the mean: uplinks that take longer for what they carry are in ink
_ALIKE = 0.99  # of the longest such time: as long
# Ticks of the lower axis: the first row that has one near its end.
_TICKS = ((1.0, 1.5, 2.0, 3.0, 4.0), (1.0, 2.0, 5.0, 10.0), (1.0, 3.0, 10.0, 30.0, 100.0, 300.0))
_ROOM_ABOVE = 1.08  # of an axis above its highest value


@dataclass(frozen=True)
class Case:
    """Equal flows from one leaf to another, each from a host of its own to another one."""

    flows: int
    seed: int
    transport: str
    slow: bool
    spines: int
    size: float  # of each flow [B]


@dataclass(frozen=True, eq=False)
class Spread:
    """What a balancer does with the flows. S spines, F flows.

    Parameters
    ----------
    load : (S,) float64
        What each uplink of the first leaf has carried, packets sent again included, in flows.
    slowdown : (F,) float64
        Time of each flow over its time with the network to itself, all of whose spines run at full rate.
    late : int
        Packets that came after a later one of the same flow.
    again : float
        Share of the packets sent that had been sent before, 0..1.
    moves : int
        How often a flow changed its uplink.
    end : float
        When the last flow ended [s].
    is_compiled : bool
        Whether compiled kernels ran.
    """

    load: Floats
    slowdown: Floats
    late: int
    again: float
    moves: int
    end: float
    is_compiled: bool

    @property
    def worst(self) -> float:
        """Slowdown of the slowest flow."""
        return float(self.slowdown.max())


def collisions(
    *,
    flows: int = 16,
    seed: int = 0,
    transport: str = "selective",
    slow: bool = True,
    spines: int = 16,
    size: units.Quantity = "256 KiB",
    shown: Sequence[str] = ("flows", "seed", "transport"),
) -> Live:
    """Show how the same flows spread over the same spines by a hash, by flowlets, by adaptive routing and by spraying.

    Each flow has a host of its own on either leaf, so only the uplinks are shared. Bars show what each uplink carries,
    dots how much longer each flow takes than alone. The packet engine plays all four; flows start up to 2 us apart and
    send at line rate, so a flow has no gaps of its own, and a flowlet ends only where pauses make one of 5 us. A sender
    without an acknowledgement waits for 200 us. Switches pause instead of losing packets (PFC).

    Parameters
    ----------
    flows : int
        Number of flows, 2..32.
    seed : int
        Seed of the hash, and of the paths that flowlets draw, 0..19.
    transport : str
        "go_back_n": a packet that comes out of order counts as a loss, and all from there on are sent again;
        "selective": packets are taken in any order.
    slow : bool
        Whether the last spine runs at half rate.
    spines : int
        Number of spines, and so of paths, 2..32.
    size : float or str
        Bytes of each flow, 16 KiB..1 MiB.
    shown : sequence of str
        Which of the first four arguments a reader can set: at most three.
    """
    arguments = {
        "flows": flows,
        "seed": seed,
        "transport": transport,
        "slow": slow,
        "spines": spines,
        "size": size,
        "shown": tuple(shown),
    }
    scene = partial(
        collision_scene,
        spines=units.count(spines, "spines", 2, _MOST_SPINES),
        size=_checked_size(size),
    )
    return view_of("collisions", arguments, scene, _controls(), shown)


def _checked_size(size: units.Quantity) -> float:
    """Return the bytes of a flow, which must be few enough for a picture to follow its controls."""
    least, most = 16 * 1024.0, 1024.0**2
    found = units.size(size, "size")
    if not least <= found <= most:
        raise ValueError(f"size must be within 16 KiB..1 MiB for each flow, got {size!r}")
    return found


def _controls() -> dict[str, Control]:
    """Return everything that a reader may set."""
    names = tuple(text(f"live.collisions.{transport}") for transport in _TRANSPORTS)
    spines = (text("live.collisions.all_equal"), text("live.collisions.one_slow"))
    return {
        "flows": Slider(2, _MOST_FLOWS),
        "seed": Slider(0, 19),
        "transport": Choice(_TRANSPORTS, names=names),
        "slow": Choice((False, True), names=spines),
    }


# The runs ---------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def unhashed(case: Case) -> scenarios.Scenario:
    """Return the flows of a case with all their paths, for any seed."""
    return scenarios.ecmp_collision(
        case.flows,
        case.size,
        paths=case.spines,
        slow_path=_SLOW if case.slow else 1.0,
        jitter=_STARTS,
        timeout=_TIMEOUT,
        retries=_TRIES,
        recovery=case.transport,
        sample=None,
        watch_links=(),
        watch_flows=(),
    )


@lru_cache(maxsize=64)
def scenario_of(case: Case) -> scenarios.Scenario:
    """Return the flows of a case, the path of each by a hash, and all paths."""
    scenario = unhashed(replace(case, seed=0))
    return replace(scenario, routes=hashed(scenario.fabric, scenario.flows, case.seed))


@lru_cache(maxsize=8)
def time_alone(size: float) -> float:
    """Return how long a flow takes with the network to itself, all of whose spines run at full rate. [s]."""
    return float(scenarios.ecmp_collision(1, size, paths=1, sample=None).play().alone[0])


def spread(case: Case, balancer: str) -> Spread:
    """Return what a balancer does with the flows of a case; adaptive routing and spraying do not ask for the seed."""
    if balancer in _SEEDLESS:
        return played(replace(case, seed=0), balancer)
    return played(case, balancer)


@lru_cache(maxsize=256)
def played(case: Case, balancer: str) -> Spread:
    """Return what the packet engine says of a balancer."""
    scenario = scenario_of(case)
    # Flowlets draw their paths in the run itself; all others start alike whatever the hash.
    seed = case.seed if balancer == "flowlet" else 0
    trace = scenario.play(seed=seed, log=_LINES, **_BALANCERS[balancer])
    fabric = scenario.fabric
    first_leaf = int(fabric.source[scenario.links["fullest uplink"]])  # any uplink begins there
    uplinks = np.flatnonzero((fabric.source == first_leaf) & (fabric.tier[fabric.target] == 2))
    packets = case.size / Settings().payload
    return Spread(
        load=trace.sent[uplinks] / (packets * _STORED),
        slowdown=trace.duration / time_alone(case.size),
        late=late_packets(trace),
        again=trace.sent_again,
        moves=changes_of_path(trace, uplinks),
        end=trace.last_finish,
        is_compiled=trace.compiled,
    )


def late_packets(trace: Trace) -> int:
    """Return how many packets came after a later one of the same connection, by the log."""
    came = trace.log[trace.log[:, 1] == LOG_KINDS.index("came")]
    late = 0
    for connection in np.unique(came[:, 3]):
        numbers = came[came[:, 3] == connection, 4]
        late += int(np.count_nonzero(numbers < np.maximum.accumulate(numbers)))
    return late


def changes_of_path(trace: Trace, uplinks: Ints) -> int:
    """Return how often a connection's next packet took another uplink than the one before, by the log."""
    is_sent = trace.log[:, 1] == LOG_KINDS.index("sent")
    sent = trace.log[is_sent & np.isin(trace.log[:, 5], uplinks)]
    changes = 0
    for connection in np.unique(sent[:, 3]):
        links = sent[sent[:, 3] == connection, 5]
        changes += int(np.count_nonzero(np.diff(links)))
    return changes


# The picture ------------------------------------------------------------------------------------


def collision_scene(
    flows: int, seed: int, transport: str, slow: bool, spines: int, size: float
) -> Scene:
    """Return a column for each balancer: its uplinks as bars, and its flows as dots."""
    case = Case(flows, seed, transport, bool(slow), spines, size)
    found = {name: spread(case, name) for name in _BALANCERS}
    said = collision_words(case, found)
    expected = expected_fullest(flows, spines)
    highest = max(expected, *(float(one.load.max()) for one in found.values()))
    _, top = common_ends("load", 0.0, max(_ROOM_ABOVE * highest, np.ceil(highest)))
    slowest = max(one.worst for one in found.values())
    _, longest = common_ends("slowdown", 1.0, max(2.0, 1.15 * slowest))
    wide = (_WIDTH - _LEFT - 12 - _GAP * (len(found) - 1)) / len(found)
    layers: dict[str, Layer] = {
        "title": heading(16.0, text("live.collisions.loads")),
        "lower title": heading(_LOWER[0] - 22, text("live.collisions.slowdowns")),
    }
    for place, (name, one) in enumerate(found.items()):
        left = _LEFT + place * (wide + _GAP)
        sides = (left, left + wide)
        column = {
            "name": texts(left, 38.0, [text(f"live.collisions.{name}")], bold=1.0, size=13.0),
            "numbers": texts(
                left,
                np.array([54.0, 68.0]),
                number_words(name, one),
                size=11.0,
                colour=COLOUR["soft"],
            ),
            **load_layers(case, one, sides, top, first=place == 0),
            **slowdown_layers(one, sides, longest, first=place == 0),
        }
        if name == "hash":
            column |= expected_layers(expected, one, sides, top)
        layers |= {f"{name} {key}": layer for key, layer in column.items()}
    is_slow = not all(one.is_compiled for one in found.values())
    slow_words = compiled.note() if is_slow else ""
    return Scene(
        said,
        collision_table(found),
        layers,
        _HEIGHT,
        alt=f"{said} {setting_words(case)}",
        hint=" ".join(
            filter(
                None,
                [
                    text(f"live.collisions.hint_{'slow' if case.slow else 'equal'}"),
                    text("live.collisions.hint"),
                    slow_words,
                ],
            )
        ),
        width=_WIDTH,
    )


def collision_words(case: Case, found: Mapping[str, Spread]) -> str:
    """Return the finding: the slowest flow by each balancer, and what reordering costs."""
    best = min(found, key=lambda name: found[name].worst)
    worst = max(found, key=lambda name: found[name].worst)
    again = max(found, key=lambda name: found[name].again)
    key = "live.collisions.said"
    if found[again].again > 0:
        key = "live.collisions.said_again"
    return text(
        key,
        best=text(f"live.collisions.in_{best}"),
        least=found[best].worst,
        worst=text(f"live.collisions.in_{worst}"),
        most=found[worst].worst,
        late=found["spray"].late,
        again=found[again].again,
        again_by=text(f"live.collisions.in_{again}"),
    )


def setting_words(case: Case) -> str:
    """Return what the controls say, for those who do not see them."""
    return text(
        "live.collisions.setting",
        flows=case.flows,
        spines=case.spines,
        slow=text("live.collisions.with_slow") if case.slow else "",
        transport=text(f"live.collisions.{case.transport}"),
        seed=case.seed,
    )


def number_words(name: str, one: Spread) -> list[str]:
    """Return the two lines above a column: the slowest flow, and what came late or was sent again."""
    words = text("live.collisions.late", n=one.late)
    if name == "flowlet":
        words = text("live.collisions.moves", n=one.moves)
    if one.again > 0:
        words = ", ".join([words, text("live.collisions.again", share=one.again)])
    return [text("live.collisions.slowest", n=one.worst), words]


def collision_table(found: Mapping[str, Spread]) -> Table:
    """Return a row for each balancer."""
    rows = [collision_row(name, one) for name, one in found.items()]
    columns = {}
    for column in rows[0]:
        columns[column] = [row[column] for row in rows]
    return Table(columns, apart=("last ends [s]",))


def collision_row(name: str, one: Spread) -> dict[str, Any]:
    """Return what the table says of a balancer, by the names of the columns."""
    return {
        "by": text(f"live.collisions.{name}"),
        "flows on the fullest uplink": float(one.load.max()),
        "slowest flow": one.worst,
        "median flow": float(np.median(one.slowdown)),
        "out of order": one.late,
        "sent again [%]": 100 * one.again,
        "last ends [s]": one.end,
    }


# Layers -----------------------------------------------------------------------------------------


def load_layers(
    case: Case, one: Spread, sides: tuple[float, float], top: float, *, first: bool
) -> dict[str, Layer]:
    """Return a bar for each uplink, the busiest in ink, and a dotted line at an even share."""
    to_y = log_axis(0, top, _UPPER[1], _UPPER[0])
    n = one.load.size
    pitch = (sides[1] - sides[0]) / n
    x = sides[0] + pitch * (np.arange(n) + 0.15)
    y = to_y(one.load)
    time = busy_times(case, one)
    is_longest = (time.max() > _EVEN * time.mean()) & (time >= _ALIKE * time.max())
    ticks = np.array(MaxNLocator(4, integer=True).tick_values(0, top))
    ticks = ticks[(ticks >= 0) & (ticks <= top)]
    grid = tick_layers(ticks, to_y, lambda n: f"{n:.0f}", sides, False)
    even = float(to_y(case.flows / n))
    layers = {"y grid": grid["y grid"]}
    if first:
        layers["y ticks"] = grid["y ticks"]
    layers |= {
        "bars": boxes(
            x,
            y,
            0.7 * pitch,
            _UPPER[1] - y,
            colour=np.where(is_longest, COLOUR["ink"], COLOUR["edge"]),
            round=1.0,
            glide=True,
            ghost=True,
            names=[text("live.collisions.uplink", n=spine + 1) for spine in range(n)],
            notes=[text("live.collisions.load", flows=float(load)) for load in one.load],
        ),
        "even": lines(
            [np.array([[sides[0], even], [sides[1], even]])],
            width=1.2,
            dash=2.0,
            colour=COLOUR["soft"],
        ),
    }
    if case.slow:
        layers["slow"] = texts(
            sides[1],
            _UPPER[1] + 11,
            [text("live.collisions.half_rate")],
            align=2.0,
            size=11.0,
            colour=COLOUR["soft"],
        )
    return layers


def expected_layers(
    expected: float, one: Spread, sides: tuple[float, float], top: float
) -> dict[str, Layer]:
    """Return a dashed line at the flows that a random hash puts on the fullest uplink on average."""
    y = float(log_axis(0, top, _UPPER[1], _UPPER[0])(expected))
    words = text("live.collisions.expected", n=expected)
    # The name stands over those bars beside each other that are lowest.
    step = (sides[1] - sides[0]) / one.load.size  # [px]
    many = min(int(np.ceil(_LETTER * len(words) / step)), one.load.size)
    windows = np.lib.stride_tricks.sliding_window_view(one.load, many)
    first = int(windows.max(axis=1).argmin())
    return {
        "expected": lines(
            [np.array([[sides[0], y], [sides[1], y]])], width=1.4, dash=1.0, colour=COLOUR["ink"]
        ),
        "expected name": texts(
            sides[0] + step * (first + many / 2),
            y - 8,
            [words],
            align=1.0,
            size=11.0,
            halo=1.0,
        ),
    }


def busy_times(case: Case, one: Spread) -> Floats:
    """Return how long each uplink takes for what it carries, in times of a flow at full rate, (S,)."""
    rate = np.ones(one.load.size)
    if case.slow:
        rate[-1] = _SLOW
    return np.asarray(one.load / rate)


def slowdown_layers(
    one: Spread, sides: tuple[float, float], longest: float, *, first: bool
) -> dict[str, Layer]:
    """Return a dot for each flow, from the quickest to the slowest, over a logarithmic axis."""
    to_y = log_axis(1.0, longest, _LOWER[1], _LOWER[0])
    grid = tick_layers(
        slowdown_ticks(longest),
        to_y,
        lambda n: text("live.collisions.times", n=n),
        sides,
        False,
    )
    order = np.argsort(one.slowdown, kind="stable")
    values = np.maximum(one.slowdown[order], 1.0)
    n = values.size
    x = sides[0] + (sides[1] - sides[0]) * (np.arange(n) + 0.5) / n
    is_slowest = np.arange(n) == n - 1
    layers = {"lower grid": grid["y grid"]}
    if first:
        layers["lower ticks"] = grid["y ticks"]
    return layers | {
        "flows": Layer(
            "dots",
            {
                "x": x,
                "y": to_y(values),
                "size": np.where(is_slowest, 5.0, 3.2),
                "colour": np.where(is_slowest, COLOUR["ink"], COLOUR["edge"]),
                "glide": True,
                "names": [text("live.collisions.flow", n=int(flow) + 1) for flow in order],
                "notes": [
                    text("live.collisions.takes", n=float(value)) for value in one.slowdown[order]
                ],
            },
        ),
        "axis": texts(
            sides[1],
            _LOWER[1] + 14,
            [text("live.collisions.order")],
            align=2.0,
            size=11.0,
            colour=COLOUR["soft"],
        ),
    }


def slowdown_ticks(longest: float) -> Floats:
    """Return the ticks of a logarithmic axis of slowdowns from 1 to ``longest``."""
    for row in _TICKS:
        if longest < 1.5 * row[-1]:
            break
    ticks = np.array(row)
    return np.asarray(ticks[ticks <= longest])
