"""Policies as a text in TOML: topology, tenants, demands and drains, with errors that name line and key.

::

    [topology]
    family = "leaf_spine"
    hosts = 16
    radix = 8

    [[tenant]]
    name = "train"
    ranks = "0-7"
    partition = 1
    weight = 3

    [[demand]]
    from = 0
    to = 9
    rate = "40 Gb/s"

    [[drain]]
    part = "spine 1"

Instead of a family, ``[[cable]]`` tables with ``ends = "s - a"`` and a ``rate`` describe a network cable by cable;
``hosts = ["s", "d"]`` under ``[topology]`` then names its ranks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fabriclab import topologies, units
from fabriclab.core import Fabric, FabricBuilder, Flows
from fabriclab.errors import FabricError, FileFormat
from fabriclab.importers import is_text
from fabriclab.routing.shortest import FAR, ShortestPathSearch
from fabriclab.sdn._toml_lines import lines_of
from fabriclab.sdn.controller import Controller
from fabriclab.sdn.tenants import Tenant, Tenants, Vrf, partition_key

__all__ = ["Policy", "read_policy"]

_Found = TypeVar("_Found")
_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")

# Keys of each table, with what is expected.
_KEYS: Mapping[str, Mapping[str, str]] = {
    "topology": {"family": "a name such as 'leaf_spine'", "hosts": "a number, or names of nodes"},
    "cable": {"ends": "two nodes such as 's - a'", "rate": "a rate such as '400 Gb/s'"},
    "tenant": {
        "name": "a name",
        "ranks": "ranks such as '0-7, 12' or [0, 1]",
        "partition": "a number 1..32767",
        "member": "'full' or 'limited'",
        "vrf": "a name",
        "imports": "names of VRFs",
        "weight": "a number > 0",
        "class": "a number 0..7, 0 goes first",
        "limit": "a rate such as '10 Gb/s'",
    },
    "friends": {"tenants": "two names of tenants"},
    "demand": {
        "from": "a rank or the name of its node",
        "to": "a rank or the name of its node",
        "rate": "a rate such as '40 Gb/s'",
        "weight": "a number > 0",
    },
    "drain": {"part": "a switch or cable such as 'spine 1' or 'leaf 0 - spine 1'"},
}
_SINGLE = ("topology",)
_MOST_NODES = 100  # of a network that is described cable by cable: each node is a kind of its own


@dataclass(frozen=True, eq=False)
class Policy:
    """What a policy file says.

    Parameters
    ----------
    fabric : Fabric
        The network.
    tenants : Tenants or None
        The tenants.
    demands : Flows or None
        The demands; sizes are rates [B/s].
    drains : tuple of str
        What is to be drained.
    """

    fabric: Fabric
    tenants: Tenants | None
    demands: Flows | None
    drains: tuple[str, ...]

    def controller(self, **arguments: Any) -> Controller:
        """Return a controller of the network that has been asked for all that the policy wants, and has not planned."""
        made = Controller(self.fabric, **arguments)
        if self.tenants is not None:
            made.set_tenants(self.tenants)
        if self.demands is not None:
            made.demand(self.demands)
        for part in self.drains:
            made.drain(part)
        return made


class _Lines:
    """Lines of a text on which tables begin and keys stand."""

    def __init__(self, text: str) -> None:
        self.at = lines_of(text)

    def of(self, table: str, index: int = 0, key: str = "") -> int:
        """Return the line of a key, or of the table if it does not have that key."""
        paths = [(table, index), (table,)]
        if key:
            paths = [(table, index, key), (table, key), *paths]
        return next((self.at[path] for path in paths if path in self.at), 1)


class _Table:
    """A table of the file: its values, and errors with the line of each."""

    def __init__(self, lines: _Lines, name: str, index: int, values: Mapping[str, Any]) -> None:
        self.lines = lines
        self.name = name
        self.index = index
        self.values = values

    def wrong(self, key: str, what: str) -> FileFormat:
        """Return the error for a key of this table."""
        where = f"{self.name}.{key}" if key else self.name
        return FileFormat.at(self.lines.of(self.name, self.index, key), f"{where}: {what}")

    def read(self, key: str, reader: Callable[[Any], _Found], expected: str = "") -> _Found:
        """Return the value of a key that must be there, as a reader understands it.

        ``expected`` says what the key has to hold where that is not what `_KEYS` says.
        """
        expected = expected or _KEYS[self.name][key]
        if key not in self.values:
            raise self.wrong(key, f"is missing; expected {expected}")
        try:
            return reader(self.values[key])
        except (ValueError, TypeError, KeyError) as error:
            message = error.args[0] if error.args else error
            raise self.wrong(key, f"expected {expected}: {message}") from None

    def read_or(self, key: str, reader: Callable[[Any], _Found], usual: _Found) -> _Found:
        """Return the value of a key, or the usual one if it is not there."""
        return self.read(key, reader) if key in self.values else usual

    def check_keys(self) -> None:
        """Refuse keys that this table does not have."""
        known = _KEYS[self.name]
        for key in self.values:
            try:
                units.choice(key, "key", known, exact=True)
            except ValueError as error:
                raise self.wrong(key, str(error)) from None


def read_policy(source: str | Path) -> Policy:
    """Read a policy from a file or from its text.

    Parameters
    ----------
    source : str or Path
        A file, or its text.

    Returns
    -------
    Policy
        The network, tenants, demands and drains.

    Raises
    ------
    FileFormat
        If something is missing, unknown or wrong; the message names the line, the key, and what was expected.

    Examples
    --------
    >>> policy = read_policy('''
    ... [topology]
    ... family = "leaf_spine"
    ... hosts = 8
    ... radix = 4
    ... [[drain]]
    ... part = "spine 1"
    ... ''')
    >>> policy.drains
    ('spine 1',)
    """
    text = str(source)
    if not is_text(source):
        try:
            text = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise FileFormat(
                f"cannot read {source}: {error.strerror}; give a path, or the text itself"
            ) from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            byte = error.object[error.start]
            raise FileFormat.at(
                line, f"expected text in UTF-8, got the byte {byte:#04x}; save {source} as UTF-8"
            ) from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else len(text.splitlines())
        raise FileFormat.at(line, f"no TOML: {error}; expected key = value, or [table]") from None
    lines = _Lines(text)
    tables = _tables(content, lines)
    fabric = _fabric(tables)
    tenants = _tenants(tables, fabric)
    return Policy(fabric, tenants, _demands(tables, fabric), _drains(tables, fabric))


def _tables(content: Mapping[str, Any], lines: _Lines) -> dict[str, list[_Table]]:
    """Return all tables by name; unknown ones, and keys outside of tables, are refused."""
    found: dict[str, list[_Table]] = {name: [] for name in _KEYS}
    for name, value in content.items():
        line = lines.of(name)
        try:
            units.choice(name, "table", _KEYS, exact=True)
        except ValueError as error:
            raise FileFormat.at(line, str(error)) from None
        form = f"[{name}]" if name in _SINGLE else f"[[{name}]]"
        is_list = isinstance(value, list) and all(isinstance(item, dict) for item in value)
        if name in _SINGLE and isinstance(value, dict):
            found[name].append(_Table(lines, name, 0, value))
        elif name not in _SINGLE and is_list:
            found[name] += [_Table(lines, name, i, item) for i, item in enumerate(value)]
        else:
            raise FileFormat.at(line, f"{name}: expected a table {form}, got {value!r:.60}")
    return found


def _fabric(tables: Mapping[str, list[_Table]]) -> Fabric:
    """Return the network, by its family or cable by cable."""
    if not tables["topology"]:
        raise FileFormat.at(
            1,
            "topology: is missing; expected a table [topology] with a family, or with hosts and [[cable]]s",
        )
    table = tables["topology"][0]
    if tables["cable"]:
        return _by_cables(table, tables["cable"])
    family = table.read("family", _text)
    arguments = {key: value for key, value in table.values.items() if key != "family"}
    try:
        return topologies.build(family, **arguments)
    except (ValueError, TypeError, FabricError) as error:
        message = str(error)
        raise table.wrong(_first_named(arguments, message), message) from None


def _first_named(keys: Iterable[str], message: str) -> str:
    """Return the key that a message names first, or that of the family."""
    place = {}
    for key in keys:
        found = re.search(rf"\b{re.escape(key)}\b", message)
        if found:
            place[key] = found.start()
    return min(place, key=place.__getitem__, default="family")


def _by_cables(table: _Table, cables: list[_Table]) -> Fabric:
    """Return a network whose nodes and cables are listed."""
    if "family" in table.values:
        raise table.wrong(
            "family", "expected either a family or [[cable]]s, got both; remove one of them"
        )
    table.check_keys()
    hosts = table.read("hosts", _names, 'names of nodes such as ["s", "d"], beside [[cable]]s')
    ends = []
    for cable in cables:
        cable.check_keys()
        ends.append(cable.read("ends", _two_names))
    rates = [cable.read("rate", _rate) for cable in cables]
    nodes = list(dict.fromkeys(name for pair in ends for name in pair))
    if len(nodes) > _MOST_NODES:
        raise table.wrong(
            "hosts",
            f"at most {_MOST_NODES} nodes can be described cable by cable, got {len(nodes)}",
        )
    for host in hosts:
        if host not in nodes:
            raise table.wrong(
                "hosts", f"no cable leads to {host!r}; nodes with cables are {', '.join(nodes)}"
            )
    ordered = [*hosts, *(name for name in nodes if name not in hosts)]
    builder = FabricBuilder(ordered, ())
    for name in ordered:
        is_host = name in hosts
        builder.add_nodes(name, 1, tier=0 if is_host else 1, transit=not is_host)
    number = {name: i for i, name in enumerate(ordered)}
    for cable, pair, rate in zip(cables, ends, rates, strict=True):
        if pair[0] == pair[1]:
            raise cable.wrong("ends", f"a cable joins two nodes, got {pair[0]!r} twice")
        builder.add_cables(number[pair[0]], number[pair[1]], capacity=rate)
    n = len(hosts)
    return builder.build("custom", {}, endpoint=np.arange(n), rail=np.zeros(n), server=np.arange(n))


def _tenants(tables: Mapping[str, list[_Table]], fabric: Fabric) -> Tenants | None:
    """Return the tenants, or None if there are none."""
    members: list[Tenant] = []
    for table in tables["tenant"]:
        table.check_keys()
        made = _tenant(table, fabric)
        for other in members:
            if other.name == made.name:
                raise table.wrong(
                    "name", f"expected a name of its own, got {other.name!r} for the second time"
                )
            shared = sorted(set(other.ranks) & set(made.ranks))
            if shared:
                raise table.wrong(
                    "ranks", f"rank {shared[0]} belongs to tenant {other.name} already"
                )
        members.append(made)
    known = {member.vrf.name for member in members if member.vrf is not None}
    for table, member in zip(tables["tenant"], members, strict=True):
        if member.vrf is not None and member.vrf.imports:
            table.read("imports", lambda value: _known_vrfs(value, known))
    friends = []
    for table in tables["friends"]:
        table.check_keys()
        pair = table.read("tenants", lambda value: _two_of(value, [t.name for t in members]))
        friends.append(pair)
    return Tenants(tuple(members), tuple(friends)) if members else None


def _tenant(table: _Table, fabric: Fabric) -> Tenant:
    """Return the tenant that a table describes."""
    for key, other in (("member", "partition"), ("imports", "vrf")):
        if key in table.values and other not in table.values:
            raise table.wrong(key, f"expected {other} in the same table, which is missing")
    keys: tuple[int, ...] = ()
    if "partition" in table.values:
        member = table.read_or("member", _member, "full")
        partition = table.read("partition", _partition)
        keys = (partition_key(partition, full=member == "full"),)
    vrf = None
    if "vrf" in table.values:
        none: list[str] = []
        imports = table.read_or("imports", _names, none)
        vrf = Vrf(table.read("vrf", _text), tuple(imports))
    return Tenant(
        name=table.read("name", _text),
        ranks=tuple(table.read("ranks", lambda value: _ranks(value, fabric.n_ranks))),
        keys=keys,
        vrf=vrf,
        weight=table.read_or("weight", _positive, 1.0),
        priority=table.read_or("class", _class, 0),
        limit=table.read_or("limit", _rate, np.inf),
    )


def _demands(tables: Mapping[str, list[_Table]], fabric: Fabric) -> Flows | None:
    """Return the demands as flows, or None if there are none."""
    ends: list[tuple[int, int]] = []
    sizes = []
    weights = []
    for table in tables["demand"]:
        table.check_keys()
        source = table.read("from", lambda value: _node(fabric, value))
        target = table.read("to", lambda value: _node(fabric, value))
        if source == target:
            raise table.wrong(
                "to", f"expected another node than from, got {fabric.name(source)} twice"
            )
        ends.append((source, target))
        sizes.append(table.read("rate", _rate))
        weights.append(table.read_or("weight", _positive, 1.0))
    if not ends:
        return None
    source_column, target_column = np.array(ends).T
    goals = np.unique(target_column)
    hops = ShortestPathSearch(fabric).table(goals)  # (N, D)
    lost = np.flatnonzero(hops[source_column, np.searchsorted(goals, target_column)] >= FAR)
    if lost.size:
        one, other = map(fabric.name, ends[lost[0]])
        raise tables["demand"][lost[0]].wrong(
            "to",
            f"expected a node that a path leads to, got {other}, and none leads there from {one}",
        )
    return Flows.make(source_column, target_column, np.array(sizes), weight=np.array(weights))


def _drains(tables: Mapping[str, list[_Table]], fabric: Fabric) -> tuple[str, ...]:
    """Return what is to be drained, after a check that it is there."""
    parts = []
    for table in tables["drain"]:
        table.check_keys()
        part = table.read("part", _text)
        table.read("part", lambda value: fabric.without(value))
        parts.append(part)
    return tuple(parts)


def _member(value: Any) -> str:
    """Return the kind of member of a partition."""
    return units.choice(value, "member", ("full", "limited"))


def _partition(value: Any) -> int:
    """Return the number of a partition."""
    return units.count(value, "partition", 1, 0x7FFF)


def _class(value: Any) -> int:
    """Return a class of traffic."""
    return units.count(value, "class", 0, 7)


def _text(value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"got {value!r:.60}")
    return value


def _rate(value: Any) -> float:
    """Return a rate; a small number is one whose unit was forgotten."""
    if units.is_number(value) and 0 < value < 1e6:  # what `units.rate` takes at least [B/s]
        raise ValueError(f"a number counts bytes per second, got {value!r}; write '{value:g} Gb/s'")
    return units.rate(value)


def _known_vrfs(value: Any, known: set[str]) -> list[str]:
    """Return names of VRFs that some tenant has."""
    return [units.choice(name, "VRF", sorted(known), exact=True) for name in _names(value)]


def _names(value: Any) -> list[str]:
    """Return a list of texts, each once."""
    if not isinstance(value, list) or not value:
        raise TypeError(f"a list of names, got {value!r:.60}")
    found = [_text(item) for item in value]
    twice = [name for name in found if found.count(name) > 1]
    if twice:
        raise ValueError(f"each name once, got {twice[0]!r} twice")
    return found


def _two_names(value: Any) -> tuple[str, str]:
    """Return the two ends of a cable."""
    parts = [part.strip() for part in _text(value).split(" - ")]
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"got {value!r:.60}")
    return parts[0], parts[1]


def _two_of(value: Any, known: list[str]) -> tuple[str, str]:
    """Return two names of tenants."""
    names = _names(value)
    if len(names) != 2:
        raise ValueError(f"two names, got {len(names)}")
    one, other = (units.choice(name, "tenant", known, exact=True) for name in names)
    return one, other


def _positive(value: Any) -> float:
    """Return a number above 0."""
    if not (units.is_number(value) and 0 < value < np.inf):
        raise ValueError(f"got {value!r:.60}")
    return float(value)


def _ranks(value: Any, n_ranks: int) -> list[int]:
    """Return ranks that are written as "0-7, 12" or as a list."""
    found: list[int] = []
    if isinstance(value, list):
        found = [units.count(item, "rank", 0, n_ranks - 1) for item in value]
    else:
        for part in _text(value).split(","):
            match = _RANGE.fullmatch(part)
            if match is None:
                raise ValueError(f"got {part.strip()!r:.60}")
            low = int(match[1])
            high = int(match[2] or low)
            if high < low:
                raise ValueError(f"a range rises, got {part.strip()!r}")
            units.count(high, "rank", 0, n_ranks - 1)
            found += range(low, high + 1)
    if not found or len(set(found)) != len(found):
        raise ValueError(f"each rank once, got {value!r:.60}")
    return found


def _node(fabric: Fabric, value: Any) -> int:
    """Return the node of a rank that is given by number or by the name of its node."""
    if isinstance(value, str):
        node = fabric.node(value)
        if fabric.rank_of[node] < 0:
            raise ValueError(f"{value!r} is no rank")
        return node
    return int(fabric.endpoint[units.count(value, "rank", 0, fabric.n_ranks - 1)])
