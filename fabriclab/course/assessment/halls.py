"""A hall to audit: a design that the library builds, with three faults drawn from a list.

Nothing in the hall says that it is broken. What was built is written down as an auditor gets it: which NIC ends on
which leaf, over which cable; ports up and down; the settings of the switches; and a rate that was measured for each
NIC. What was intended is the fabric.
"""

import csv
import io
import random
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabriclab import topologies, units
from fabriclab.core import Fabric
from fabriclab.course.shown import Shown, refuse_if
from fabriclab.engines.packet import headroom
from fabriclab.operations import Settings, read_settings
from fabriclab.physics import media
from fabriclab.texts import text

__all__ = ["FAULTS", "Hall", "audit"]

# illustrative: a hall that fits on a page, wired by rail, every leaf with as many ports up as down
_SERVERS, _GPUS, _RADIX = 16, 4, 16
_RACK = 4  # illustrative: servers in a rack
_RATE = "400 Gb/s"  # illustrative: that of the running case
_FRAME = 9216  # illustrative: longest frame of the hall [B]
_BETWEEN = 30.0  # illustrative: length of cables between leaves and spines [m]
_NEAR, _FAR = 1.5, 12.0  # illustrative: from a NIC to a leaf in its rack, and in the next racks [m]
_SHORT = 3.0  # illustrative: cable for which the too small headroom was set [m]
_SPARE = 1.2  # illustrative: headroom that was set, as a multiple of what is needed
_KMIN, _XOFF = 400_000, 1_000_000  # illustrative: marks begin well below the pause [B]
_REACHED = (0.955, 0.985)  # illustrative: part of line rate that a healthy NIC was measured with
_PLANTED = 3


@dataclass(frozen=True)
class Hall:
    """What an auditor gets of a hall.

    Parameters
    ----------
    seed : int or str
        Number of the hall.
    fabric : Fabric
        What was intended.
    cables : list of dict
        For each NIC the leaf that it was found on, and medium and length of its cable. [m]
    ports : list of dict
        For each leaf the cables down to NICs and up to spines.
    settings : str
        Settings of all switches, as `fabriclab.operations.read_settings` takes them; sizes in bytes.
    measured : list of dict
        Rate that each NIC reached towards a healthy one. [B/s]
    """

    seed: int | str
    fabric: Fabric
    cables: list[dict[str, Any]]
    ports: list[dict[str, Any]]
    settings: str
    measured: list[dict[str, Any]]
    planted: Mapping[str, str] = field(repr=False)  # name of the fault -> place

    @property
    def rate(self) -> float:
        """Line rate of all ports. [B/s]."""
        return units.rate(_RATE)

    @property
    def longest(self) -> float:
        """Length of the longest cable between two switches. [m]."""
        return float(self.fabric.length.max())

    @property
    def frame(self) -> int:
        """Longest frame, with headers and checksum. [B]."""
        return _FRAME

    def table_of_settings(self) -> Settings:
        """Return the settings as a table that `fabriclab.operations.find_drift` compares."""
        return read_settings(self.settings)

    def rail_of_leaf(self) -> dict[str, int]:
        """Return the rail that each leaf was intended for."""
        return _rails(self.fabric)

    def judge(self, found: Mapping[str, str], *, tell: bool = False) -> Shown:
        """Say which of the named faults are there, and how many are missed.

        Parameters
        ----------
        found : mapping of str to str
            Name of a fault -> its place, such as ``{"mtu": "leaf 3"}``. `FAULTS` lists the names.
        tell : bool
            Tell the planted faults as well.

        Raises
        ------
        InputRefused
            A ValueError: there is no such fault.
        """
        rows = []
        right = 0
        for name, place in found.items():
            refuse_if(name not in FAULTS, "audit.fault", got=name, known=", ".join(FAULTS))
            if name not in self.planted:
                key = "audit.absent"
            elif " ".join(str(place).lower().split()) != self.planted[name].lower():
                key = "audit.elsewhere"
            else:
                key = "audit.right"
                right += 1
            rows.append((name, place, text(key)))
        missed = len(self.planted) - right
        lines = [text("audit.found", n=right, of=len(self.planted))]
        after = [text("audit.missed", n=missed)] if missed else []
        if tell:
            after += [
                text("audit.told", name=name, place=place, why=text(f"audit.{name}"))
                for name, place in self.planted.items()
            ]
        data = {"right": right, "missed": missed, "false": len(found) - right}
        head = text("audit.head").split("|")
        state = "wait" if missed else "good"
        return Shown(lines, state, head=head, rows=rows, after=after, data=data)

    def __repr__(self) -> str:
        """Show the size of the hall."""
        return f"<Hall {self.seed}: {self.fabric.n_ranks} GPUs, {len(self.ports)} leaves>"


class _Built:
    """A hall while it is written down, before its faults are planted and after."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.fabric = topologies.build(
            "rail_optimised",
            servers=_SERVERS,
            gpus=_GPUS,
            rails=_GPUS,
            radix=_RADIX,
            rate=_RATE,
            switch_length=_BETWEEN,
        )
        self.rails = _rails(self.fabric)
        self.leaves = list(self.rails)
        self.cables = self._cables()
        half = _RADIX // 2
        self.ports: list[dict[str, Any]] = [
            {"leaf": leaf, "down": half, "up": half} for leaf in self.leaves
        ]
        self.settings = self._settings()
        rate = units.rate(_RATE)
        self.measured = []
        for cable in self.cables:
            part = rng.uniform(*_REACHED)
            self.measured.append({"NIC": cable["NIC"], "rate [B/s]": round(rate * part, -7)})

    def _cables(self) -> list[dict[str, Any]]:
        """Return the cable of each NIC: to the leaf of its rail that serves its server."""
        cables = []
        per_leaf = _RADIX // 2
        for server in range(_SERVERS):
            for rail in range(_GPUS):
                of_rail = [leaf for leaf, of in self.rails.items() if of == rail]
                leaf = of_rail[server // per_leaf]
                # The leaf stands in the first rack of its servers.
                near = server % per_leaf < _RACK
                length = round((_NEAR if near else _FAR) + self.rng.uniform(0.0, 0.4), 1)
                medium = media.choose(length, _RATE, by="price").medium
                name = f"nic {server}.{rail}"
                cables.append({"NIC": name, "leaf": leaf, "medium": medium, "length [m]": length})
        return cables

    def _settings(self) -> list[dict[str, Any]]:
        """Return the settings of all switches, all of one role alike."""
        rows = []
        spines = _RADIX // 4
        for name, role in [
            *((leaf, "leaf") for leaf in self.leaves),
            *((f"spine {i}", "spine") for i in range(spines)),
        ]:
            needed = headroom(_RATE, _BETWEEN, frame=_FRAME)
            rows.append(
                {
                    "switch": name,
                    "role": role,
                    "mtu": _FRAME,
                    "ecn_kmin": _KMIN,
                    "pfc_xoff": _XOFF,
                    "pfc_headroom": round(_SPARE * needed, -3),
                    "dscp_map": "26:3",
                }
            )
        return rows

    def switch(self, place: str) -> dict[str, Any]:
        """Return the row of settings of a switch."""
        return next(row for row in self.settings if row["switch"] == place)


def _rails(fabric: Fabric) -> dict[str, int]:
    """Return leaf -> the rail that it serves, by the names of the fabric."""
    found = {}
    for node in range(fabric.n_nodes):
        name = fabric.name(node)
        if name.startswith("leaf"):
            found[name] = int(fabric.coordinate("rail")[node])
    return found


# Faults: each changes a hall, and returns where it is.


def _uplinks(hall: _Built) -> str:
    row = hall.rng.choice(hall.ports)
    row["up"] = row["up"] // 2
    return str(row["leaf"])


def _rail(hall: _Built) -> str:
    cable = hall.rng.choice(hall.cables)
    others = [leaf for leaf, rail in hall.rails.items() if rail != hall.rails[cable["leaf"]]]
    cable["leaf"] = hall.rng.choice(others)
    return str(cable["NIC"])


def _reach(hall: _Built) -> str:
    far = [cable for cable in hall.cables if cable["length [m]"] > _FAR]
    cable = hall.rng.choice(far)
    cable["medium"] = "copper"
    return str(cable["NIC"])


def _mtu(hall: _Built) -> str:
    row = hall.rng.choice(hall.settings)
    row["mtu"] = 1500  # illustrative: the default of Ethernet
    return str(row["switch"])


def _headroom(hall: _Built) -> str:
    row = hall.rng.choice(hall.settings)
    row["pfc_headroom"] = round(headroom(_RATE, _SHORT, frame=_FRAME), -3)
    return str(row["switch"])


def _marks(hall: _Built) -> str:
    row = hall.rng.choice(hall.settings)
    row["ecn_kmin"] = 2 * _XOFF
    return str(row["switch"])


def _class(hall: _Built) -> str:
    row = hall.rng.choice(hall.settings)
    row["dscp_map"] = "26:0"
    return str(row["switch"])


def _slow(hall: _Built) -> str:
    row = hall.rng.choice(hall.measured)
    row["rate [B/s]"] = round(row["rate [B/s]"] / 4, -7)
    return str(row["NIC"])


_PLANT: Mapping[str, Callable[[_Built], str]] = {
    "uplinks": _uplinks,
    "rail": _rail,
    "reach": _reach,
    "mtu": _mtu,
    "headroom": _headroom,
    "marks": _marks,
    "class": _class,
    "slow": _slow,
}
FAULTS = tuple(_PLANT)


def audit(seed: int | str = 1) -> Hall:
    """Return a hall with three planted faults, each of another kind; the same seed gives the same hall.

    Leaves out faults that come together, such as a whole rack that is wired wrongly.

    Examples
    --------
    >>> hall = audit(1)
    >>> hall.judge({}).data["missed"]
    3
    """
    rng = random.Random(zlib.crc32(f"audit {seed}".encode()))
    hall = _Built(rng)
    planted: dict[str, str] = {}
    names = list(FAULTS)
    rng.shuffle(names)
    for name in names[:_PLANTED]:
        planted[name] = _PLANT[name](hall)
    plugged = Counter(cable["leaf"] for cable in hall.cables)
    for row in hall.ports:
        row["down"] = plugged[row["leaf"]]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(hall.settings[0]), lineterminator="\n")
    writer.writeheader()
    for row in hall.settings:
        writer.writerow({key: _whole(value) for key, value in row.items()})
    return Hall(
        seed=seed,
        fabric=hall.fabric,
        cables=hall.cables,
        ports=hall.ports,
        settings=file.getvalue(),
        measured=hall.measured,
        planted=planted,
    )


def _whole(value: Any) -> Any:
    """Return a number of bytes without a decimal point."""
    return int(value) if isinstance(value, float) else value
