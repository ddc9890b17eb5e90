"""The fabrics among which a decision chooses: what published sweeps reach on them, and what they cost.

Examples
--------
>>> from fabriclab.economics import fabrics
>>> fabrics.efficiency("infiniband").middle > fabrics.efficiency("tcp").high
True
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog import Case, published
from fabriclab.catalog.tables import read_rows
from fabriclab.core import ReadOnly
from fabriclab.economics.prices import rows
from fabriclab.economics.ranges import Range

__all__ = [
    "ETHERNETS",
    "CounterExample",
    "Option",
    "counter_examples",
    "efficiency",
    "options",
    "pcie_limit",
    "pcie_rate",
    "price_factor",
    "reached",
]

NONE = "none"
TCP = "tcp"
MULTIPATH = "multipath"
GO_BACK_N = "go_back_n"
LOSSLESS = "lossless"
INFINIBAND = "infiniband"
PCIE = "pcie"
ETHERNETS = (TCP, MULTIPATH, GO_BACK_N, LOSSLESS)
_HERE = Path(__file__)


class Option(NamedTuple):
    """A fabric: its name, what happens to a lost packet, the sweeps that show it, and a note."""

    key: str
    name: str
    loss: str
    factor: float
    sweeps: tuple[str, ...]
    note: str


class CounterExample(NamedTuple):
    """A system that did otherwise than an answer says: what it shows, and the source."""

    system: str
    shows: str
    source: str


@cache
def options() -> Mapping[str, Option]:
    """Return all fabrics by key; of those that cost about the same a decision takes the first."""
    found = {}
    for row in read_rows(_HERE.with_suffix(".csv")):
        found[row["key"]] = Option(
            row["key"],
            row["name"],
            row["loss"],
            float(row["factor"]),
            tuple(row["sweeps"].split()),
            row["note"],
        )
    return ReadOnly(found)


@cache
def counter_examples(answer: str) -> tuple[CounterExample, ...]:
    """Return systems that did otherwise than an answer says; empty where the sources name none."""
    asked = units.choice(answer, "answer", options())
    return tuple(
        CounterExample(row["system"], row["shows"], row["source"])
        for row in read_rows(_HERE.with_name("counterexamples.csv"))
        if row["answer"] == asked
    )


@cache
def efficiency(key: str) -> Range:
    """Return which part of the NICs' line rate an all-reduce of large size reaches on a fabric: of published sweeps.

    The bus bandwidth of a sweep at its best size, over the rate of all NICs of a server; where two servers sum as a
    tree, over 2 (P - 1) / P of it. The middle is the sweep with the most ranks. The sweeps differ in size, servers,
    transport and software, and sweeps of one fabric lie as far apart as two fabrics do. Links inside the servers limit
    some of them, so these are lower bounds. A PCIe fabric has no NICs: see `pcie_rate`.

    Parameters
    ----------
    key : str
        One of `options` with sweeps.
    """
    parts = reached(key)
    largest = max(parts, key=lambda name: int(published.system(name)["ranks"]))
    option = options()[key]
    ends = min(parts.values()), max(parts.values())
    return Range(ends[0], parts[largest], ends[1], "1", option.sweeps, option.note)


@cache
def reached(key: str) -> Mapping[str, float]:
    """Return which part of the NICs' line rate each sweep of a fabric reaches at its best size, by name of the sweep.

    Parameters
    ----------
    key : str
        One of `options` with sweeps.

    Examples
    --------
    >>> {name: round(part, 3) for name, part in reached("tcp").items()}
    {'polaris_n8_2.18_all_reduce_env1': 0.149, 'polaris_n128_2.18_all_reduce_env1': 0.093}
    """
    option = options()[units.choice(key, "key", options())]
    if not option.sweeps:
        raise ValueError(
            f"{key} has no sweep over NICs; take one of tcp, multipath, lossless, infiniband"
        )
    found = {}
    for name in option.sweeps:
        row = published.system(name)
        nics = row["nics_per_node"] * units.rate(f"{row['nic_gbps']} Gb/s")
        best = float(np.max(published.load(name).busbw))
        found[name] = best / (nics * option.factor)
    return ReadOnly(found)


@cache
def pcie_rate() -> Range:
    """Return the rate between boxes for each GPU of a PCIe fabric, of five published wirings. [B/s].

    An all-reduce over two boxes of 8 GPUs sends its bus bandwidth through the cables between them, so each GPU has an
    eighth of it.
    """
    found = []
    for part in catalog.systems.values():
        if part.specs[0].id.startswith("gigaio-") and "busbw_all_reduce" in part:
            found.append(float(part["busbw_all_reduce"].si or 0.0))
    gpus = catalog.case().gpus_per_server
    each = np.sort(found) / gpus
    return Range(
        float(each[0]),
        float(np.median(each)),
        float(each[-1]),
        "B/s",
        ("ISC25-PCIe",),
        "five wirings",
    )


@cache
def pcie_limit() -> int:
    """Return the number of GPUs on the largest PCIe fabric that a source measures."""
    return 2 * int(catalog.case().gpus_per_server)


def price_factor(key: str, job: Case | None = None) -> Range:
    """Return the price of a fabric over that of the case's, whose price is that of InfiniBand switches and cables.

    Sources do not agree which is dearer: one says that InfiniBand costs 2.3 times as much in all, another has Ethernet
    switches of 800 Gb/s that cost more for each port. The middle of all is 1. No source has a price of a PCIe fabric.

    Parameters
    ----------
    key : str
        One of `options`.
    job : Case, optional
        The running case, or one with other rows.
    """
    known = job or catalog.case()
    asked = units.choice(key, "key", options())
    if asked == NONE:
        return Range(0.0, 0.0, 0.0, "1", ("nothing is bought",))
    if asked == PCIE:
        return Range(0.25, 1.0, 4.0, "1", (), "no source: a factor of four either way")
    switches = float(known.switches * known.price_switch)
    if asked == INFINIBAND:
        vendor = max(spec.si or 0.0 for spec in rows("switch", "price"))
        dear = (known.switches * vendor + known.price_cables) / known.price_fabric
        return Range(1.0, 1.0, dear, "1", ("H100-sheet",), "from a reseller and from NVIDIA")
    (claimed,) = rows("ib-ethernet", "price_ratio")
    ethernet = catalog.media["sw64x800"]["price"]
    ports = 2 * known.switch_ports  # of 400 Gb/s
    dearest = max(ethernet.ends) * known.switch_ports / ports * known.switches
    high = (dearest + known.price_cables) / (switches + known.price_cables)
    note = "sources disagree; the middle is an assumption"
    sources = (claimed.source, ethernet.source)
    return Range(1 / (claimed.si or 1.0), 1.0, high, "1", sources, note)
