"""Services beside the jobs: what a server, a rack of eight and a hall of a thousand need, and what fails with each.

One server needs power, a launcher and a disk. From eight servers on they have to agree on users, names, files and the
image they run; that is what scaling out costs beside cables. With a thousand of them somebody has to be told when a
part fails, and settings have to be kept equal. The inventory is the course's own; its column ``note`` names items of
the sources that it answers.

Examples
--------
>>> [len(needed(n)) for n in (1, 8, 1000)]
[3, 15, 21]
>>> fails_with("names and addresses").stopped_at_once
()
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fabriclab import units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import as_html, as_text

__all__ = ["Outcome", "Service", "fails_with", "inventory", "needed"]

# What stops when a service fails, the gravest first.
STOPS = {
    "running": "jobs that run",
    "new": "jobs that should start",
    "repair": "repairs and changes",
    "silent": "nothing, and nobody notices",
}


class Service(NamedTuple):
    """A service: from how many servers on it is needed, what stops without it, after how long, and what it depends on.

    Parameters
    ----------
    name : str
        Its name.
    needed_from : int
        Servers from which on a site needs it: 1, 8 or 1000.
    stops : str
        ``"running"`` jobs, ``"new"`` jobs, ``"repair"``, or ``"silent"``.
    delay : float
        Time until it shows, illustrative. [s]
    depends : tuple of str
        Services without which it fails, too.
    does, failure, note : str
        What it does, what happens when it fails, and what it answers.
    """

    name: str
    needed_from: int
    stops: str
    delay: float
    depends: tuple[str, ...]
    does: str
    failure: str
    note: str


@cache
def inventory() -> tuple[Service, ...]:
    """Return all services."""
    services = []
    for row in read_rows(Path(__file__).with_name("services.csv")):
        depends = tuple(name for name in row["depends"].split("|") if name)
        services.append(
            Service(
                name=row["service"],
                needed_from=int(row["needed_from"]),
                stops=row["stops"],
                delay=float(row["delay_s"]),
                depends=depends,
                does=row["does"],
                failure=row["failure"],
                note=row["note"],
            )
        )
    return tuple(services)


def needed(servers: int) -> tuple[Service, ...]:
    """Return the services that a site with so many servers needs, in the order of the inventory.

    The borders at 8 and 1,000 servers are the course's own; a site of 100 needs what one of 8 does.
    """
    n = units.count(servers, "servers")
    return tuple(service for service in inventory() if service.needed_from <= n)


@dataclass(frozen=True)
class Outcome:
    """What fails with a service.

    Parameters
    ----------
    service : Service
        The one that failed first.
    also : tuple of Service
        Services that depend on it, directly or through others, in the order of the inventory.
    """

    service: Service
    also: tuple[Service, ...]

    @property
    def stopped_at_once(self) -> tuple[str, ...]:
        """Services whose failure stops running jobs without delay."""
        every = (self.service, *self.also)
        return tuple(s.name for s in every if s.stops == "running" and s.delay == 0)

    @property
    def worst(self) -> str:
        """The gravest thing that stops: one of ``"running"``, ``"new"``, ``"repair"`` and ``"silent"``."""
        order = list(STOPS)
        return min((s.stops for s in (self.service, *self.also)), key=order.index)

    def rows(self) -> list[list[str]]:
        """Return a table of texts."""
        table = [["service", "stops", "after", "what happens"]]
        for each in (self.service, *self.also):
            after = units.format_time(each.delay) if each.delay else "at once"
            table.append([each.name, STOPS[each.stops], after, each.failure])
        return table

    def __repr__(self) -> str:
        """Show the table."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"{self.service.name} fails")


def fails_with(name: str, servers: int = 1000) -> Outcome:
    """Return what fails when a service fails, at a site with so many servers.

    Parameters
    ----------
    name : str
        A service of the inventory.
    servers : int
        Servers of the site; services that it does not have cannot fail with others. >= 1
    """
    there = {service.name: service for service in needed(servers)}
    first = there[units.choice(name, "name", there)]
    failed = {first.name}
    while True:
        more = {s.name for s in there.values() if failed.intersection(s.depends)} - failed
        if not more:
            break
        failed |= more
    also = [s for s in there.values() if s.name in failed and s is not first]
    return Outcome(first, tuple(also))
