"""A scenario: a fabric, the traffic on it and how its switches and senders are set, ready to be played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from fabriclab.core import Changes, Fabric, Flows, ReadOnly, Routes, as_html
from fabriclab.engines.packet import Settings, Trace, play

__all__ = ["LINE_RATE", "Scenario", "merged"]

_ENDLESS = "1 TB"  # illustrative: a window that no flow here fills
# Senders that never slow down.
LINE_RATE: Mapping[str, Any] = ReadOnly(
    {"control": "window", "control_options": ReadOnly({"window": _ENDLESS})}
)
_MOST_FLOWS = 8  # flows that are watched unless somebody asks for others


@dataclass(frozen=True, eq=False)
class Scenario:
    """A fabric, its traffic and its settings, ready to be played as often as one likes.

    Parameters
    ----------
    name : str
        Name of the builder that made it.
    shows : str
        One sentence: what there is to see.
    fabric, flows : Fabric, Flows
        The network, and a graph of flows on it.
    routes : Routes
        Paths of connections that a hash chose: what runs with ``balance="pinned"``.
    paths : Routes, optional
        All paths of each flow, among which any other balancer chooses; ``routes`` if there is one path only.
    config : mapping
        Fields of `fabriclab.engines.packet.Settings`.
    changes : Changes, optional
        Links that change during the run.
    links : mapping of str to int
        Links that are worth watching, the most important one first. Each run watches them.
    groups : mapping of str to sequence of int
        Flows that belong together, such as ``"victim"``.
    """

    name: str
    shows: str
    fabric: Fabric
    flows: Flows
    routes: Routes
    paths: Routes | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes | None = None
    links: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the mappings, and refuse settings that do not exist."""
        groups = {name: tuple(int(f) for f in flows) for name, flows in self.groups.items()}
        links = {name: int(link) for name, link in self.links.items()}
        for name, value in (("config", self.config), ("links", links), ("groups", groups)):
            object.__setattr__(self, name, ReadOnly(value))
        self.settings()

    def settings(self, **config: Any) -> Settings:
        """Return the settings of a run; ``config`` has settings that differ from those of the scenario."""
        given = merged(self.config, config)
        given.setdefault("watch_links", tuple(self.links.values()))
        given.setdefault("watch_flows", self._interesting())
        return Settings.of(given)

    def play(self, *, plain: bool = False, seed: int | None = None, **config: Any) -> Trace:
        """Run the scenario packet by packet, with some settings changed.

        Parameters
        ----------
        plain : bool
            Run plain Python even if compiled kernels are at hand; the results are the same.
        seed : int, optional
            Seed of all that is random in the run; the same numbers every time unless given.
        **config
            Settings that differ from those of the scenario, such as ``lossless="none"``. A new ``control`` or
            ``balance`` drops the options of the old one.

        Returns
        -------
        Trace
            What the run leaves: times, counters, and series of ``links`` and of the first flows of each group.
        """
        settings = self.settings(**config)
        rng = None if seed is None else np.random.default_rng(seed)
        routes = self.routes
        if settings.balance != "pinned" and self.paths is not None:
            routes = self.paths
        return play(self.fabric, routes, self.flows, self.changes, settings, rng, plain=plain)

    def with_(self, **config: Any) -> Self:
        """Return the same scenario with some settings changed."""
        return replace(self, config=merged(self.config, config))

    def _interesting(self) -> tuple[int, ...]:
        """Return flows of all groups in turn, a few of each, or the first flows if there are no groups."""
        groups = list(self.groups.values()) or [tuple(range(self.flows.n_flows))]
        each = max(1, _MOST_FLOWS // len(groups))
        chosen: list[int] = []
        for flows in groups:
            chosen += [f for f in flows[:each] if f not in chosen]
        return tuple(sorted(chosen[:_MOST_FLOWS]))

    def rows(self) -> list[list[str]]:
        """Return what the scenario consists of as a table of texts."""
        table = [["part", "value"]]
        table.append(["fabric", repr(self.fabric)])
        table.append(["flows", repr(self.flows)])
        for name, value in self.config.items():
            table.append([name, str(value)])
        for name, link in self.links.items():
            table.append([name, f"link {link}, {self.fabric.link_name(link)}"])
        for name, flows in self.groups.items():
            table.append([name, f"{len(flows)} flows, from flow {flows[0]} on"])
        return table

    def __repr__(self) -> str:
        """Show the name, the size, and what there is to see."""
        return f"<Scenario {self.name}: {self.flows.n_flows} flows. {self.shows}>"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"{self.name}: {self.shows}")


def merged(config: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with some of them changed; a new control or balance comes without the options of the old one."""
    both = dict(config)
    for name in ("control", "balance"):
        if name in changed and changed[name] != both.get(name):
            both.pop(f"{name}_options", None)
    both.update(changed)
    return both
