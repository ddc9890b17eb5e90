"""What is wrong with a part, and what that does to the counters of its links, for `fabriclab.operations.observe`.

Which counters a cause raises, and where, follows from how the parts work; by how much is illustrative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric, Floats, Ints, ReadOnly

__all__ = ["BASE_INTERVAL", "COUNTERS", "EFFECTS", "Cause", "Levels", "incident"]

# What is counted in each interval, on which side of a link, and what it is called where it is read.
COUNTERS: Mapping[str, str] = ReadOnly(
    {
        "bit_errors": "bits that the receiver of the link corrected",
        "symbol_errors": "codewords that the receiver of the link could not correct",
        "pauses": "pause frames that stopped the sender of the link",
        "ecn_marks": "packets that the queue in front of the link marked",
        "discards": "packets that the queue in front of the link dropped",
        "temperature": "temperature of the module that sends into the link [deg C]",
    }
)

# The background; illustrative, all of it: orders of magnitude that leave room for what causes add.
_LOG_BER = -8.0  # decimal logarithm of the bit error ratio before correction, in the median
_LINKS_SPREAD = 0.7  # standard deviation from link to link, in decades
_SAMPLES_SPREAD = 0.1  # from sample to sample, in decades
_PAUSES = 20.0  # frames in an interval of 30 s at full load
_MARKS = 2000.0  # packets in an interval of 30 s at full load
_WARM = 45.0  # deg C in the median
_WARM_SPREAD = 3.0  # deg C from link to link
_WARM_NOISE = 0.5  # deg C from sample to sample
BASE_INTERVAL = 30.0  # illustrative: interval of the two counts above


class Cause(NamedTuple):
    """Why counters change: what is wrong, where, from when on, and how strongly.

    Parameters
    ----------
    kind : str
        One of `cause_kinds`, such as ``"dirty connector"``.
    where : str
        A link in the direction of its bits, such as ``"leaf 0 -> spine 1"`` (the first of parallel ones) or ``"link
        25"``, for a connector or module; a node, such as ``"spine 1"``, for all others.
    start : float
        When it begins. [s]
    strength : float
        1 is illustrative; 2 is twice as far from healthy, in decades for bit errors. > 0
    """

    kind: str
    where: str
    start: float = 0.0
    strength: float = 1.0

    def __str__(self) -> str:
        """Return kind and place."""
        return f"{self.kind} at {self.where}"


class Levels:
    """Expected counters of each link in each interval, (T, L), to which causes are added."""

    def __init__(
        self, fabric: Fabric, link: Ints, time: Floats, load: Floats, rng: np.random.Generator
    ) -> None:
        shape = (time.size, link.size)
        self.fabric = fabric
        self.link = link
        self.time = time
        self.rng = rng
        spread = rng.normal(0.0, _LINKS_SPREAD, link.size)
        self.log_ber = _LOG_BER + spread + rng.normal(0.0, _SAMPLES_SPREAD, shape)
        warm = _WARM + rng.normal(0.0, _WARM_SPREAD, link.size)
        self.temperature = warm + rng.normal(0.0, _WARM_NOISE, shape)
        scale = time[0] / BASE_INTERVAL
        self.pauses = np.tile(_PAUSES * scale * load[:, None], link.size)
        self.ecn_marks = np.tile(_MARKS * scale * load[:, None], link.size)
        self.discards = np.zeros(shape)
        self.onsets = {counter: np.full(link.size, -1, dtype=np.int64) for counter in COUNTERS}

    def since(self, cause: Cause) -> Floats:
        """Return how long a cause has acted at the end of each interval, (T,) [s]; negative before it."""
        return self.time - cause.start

    def acts(self, cause: Cause, places: Ints, *counters: str) -> None:
        """Note that a cause acts on counters of links from its start on."""
        first = int(np.searchsorted(self.time, cause.start, side="right"))
        for counter in counters:
            old = self.onsets[counter][places]
            self.onsets[counter][places] = np.where(old >= 0, np.minimum(old, first), first)

    def leaving(self, node: int) -> Ints:
        """Return the places of links that leave a node."""
        return np.flatnonzero(self.fabric.source[self.link] == node)

    def entering(self, node: int) -> Ints:
        """Return the places of links that enter a node."""
        return np.flatnonzero(self.fabric.target[self.link] == node)

    def one(self, where: str) -> Ints:
        """Return the place of a link, named ``"leaf 0 -> spine 1"`` or by its number, ``"link 25"``, (1,)."""
        source, arrow, target = where.partition(" -> ")
        if arrow:
            known = self.fabric.links_between(self.fabric.node(source), self.fabric.node(target))
        elif where.startswith("link ") and where[5:].isdecimal():
            known = np.array([int(where[5:])])
        else:
            raise ValueError(
                f"where must name a link in the direction of its bits, such as 'leaf 0 -> spine 1', got {where!r:.60}"
            )
        places = np.flatnonzero(np.isin(self.link, known))
        if not places.size:
            raise ValueError(
                f"no working link outside the servers is {where!r:.60}; draw the fabric"
            )
        return places[:1]

    def node(self, where: str) -> int:
        """Return a node by name that has cables outside the servers."""
        node = self.fabric.node(where)
        if not self.leaving(node).size:
            raise ValueError(f"{where} has no cable outside the servers; name a switch or a NIC")
        return int(node)


def _dirty_connector(levels: Levels, cause: Cause) -> None:
    """Add decades of bit errors at once, with spikes, as dust moves; the module stays cool."""
    place = levels.one(cause.where)
    active = levels.since(cause) > 0
    spikes = np.minimum(levels.rng.exponential(0.6, active.size), 2.6)  # decades; illustrative
    levels.log_ber[:, place] += (active * (2.0 + spikes) * cause.strength)[:, None]
    levels.acts(cause, place, "bit_errors", "symbol_errors")


def _bad_module(levels: Levels, cause: Cause) -> None:
    """Let a module grow warm within an hour, and its bit errors rise by a decade in each hour."""
    place = levels.one(cause.where)
    since = np.maximum(levels.since(cause), 0.0)
    warmer = 18.0 * (1 - np.exp(-since / 1800.0))  # illustrative: deg C, and half an hour
    decades = np.minimum(since / 3600.0, 4.7)  # illustrative: one in an hour
    levels.temperature[:, place] += (cause.strength * warmer)[:, None]
    levels.log_ber[:, place] += (cause.strength * decades)[:, None]
    levels.acts(cause, place, "bit_errors", "symbol_errors", "temperature")


def _slow_nic(levels: Levels, cause: Cause) -> None:
    """Let a NIC pause its switch, whose queue marks packets and pauses those that feed it; no bit is wrong."""
    node = levels.node(cause.where)
    into = levels.entering(node)
    active = levels.since(cause) > 0
    levels.pauses[np.ix_(active, into)] *= 40.0 * cause.strength
    levels.ecn_marks[np.ix_(active, into)] *= 15.0 * cause.strength
    switches = np.unique(levels.fabric.source[levels.link[into]])
    for switch in switches.tolist():
        feeds = np.setdiff1d(levels.entering(switch), levels.leaving(node))
        levels.pauses[np.ix_(active, feeds)] *= 1 + 2.0 * cause.strength  # victims
    levels.acts(cause, into, "pauses", "ecn_marks")


def _hot_switch(levels: Levels, cause: Cause) -> None:
    """Warm all modules of a switch within a quarter of an hour, and their bit errors with them."""
    out = levels.leaving(levels.node(cause.where))
    since = np.maximum(levels.since(cause), 0.0)
    part = 1 - np.exp(-since / 900.0)  # illustrative: a quarter of an hour
    levels.temperature[:, out] += (25.0 * cause.strength * part)[:, None]
    levels.log_ber[:, out] += (0.8 * cause.strength * part)[:, None]
    levels.acts(cause, out, "temperature", "bit_errors")


def _ecn_too_high(levels: Levels, cause: Cause) -> None:
    """Let a switch mark next to nothing, so that its queues grow until it pauses those that feed it."""
    node = levels.node(cause.where)
    active = levels.since(cause) > 0
    out = levels.leaving(node)
    feeds = levels.entering(node)
    levels.ecn_marks[np.ix_(active, out)] *= 0.02 / cause.strength
    levels.pauses[np.ix_(active, feeds)] *= 30.0 * cause.strength
    levels.acts(cause, out, "ecn_marks")
    levels.acts(cause, feeds, "pauses")


def _ecn_too_low(levels: Levels, cause: Cause) -> None:
    """Let a switch mark packets although its queues are short: senders slow down, and nobody pauses."""
    out = levels.leaving(levels.node(cause.where))
    active = levels.since(cause) > 0
    levels.ecn_marks[np.ix_(active, out)] *= 30.0 * cause.strength
    levels.pauses[np.ix_(active, out)] *= 0.2
    levels.acts(cause, out, "ecn_marks")


def _no_headroom(levels: Levels, cause: Cause) -> None:
    """Let a switch drop packets that arrive after it has asked for a pause, on the links that feed it."""
    feeds = levels.entering(levels.node(cause.where))
    active = levels.since(cause) > 0
    levels.discards[np.ix_(active, feeds)] += (
        0.3 * cause.strength * levels.pauses[np.ix_(active, feeds)]
    )
    levels.acts(cause, feeds, "discards")


EFFECTS: Mapping[str, Callable[[Levels, Cause], None]] = {
    "dirty connector": _dirty_connector,
    "bad module": _bad_module,
    "slow NIC": _slow_nic,
    "hot switch": _hot_switch,
    "ECN threshold too high": _ecn_too_high,
    "ECN threshold too low": _ecn_too_low,
    "missing headroom": _no_headroom,
}


def incident() -> Cause:
    """Return the cause of a night on which eight links raise an alert, for lessons that do not tell it beforehand."""
    return Cause("ECN threshold too high", "leaf 1", start=1800.0)  # illustrative: after 30 min
