"""Five wirings of PCIe boxes: bus bandwidth as published, and from rings on their graphs."""

from __future__ import annotations

from dataclasses import dataclass

from fabriclab import catalog, topologies
from fabriclab.simulation import ring_busbw
from fabriclab.topologies.gigaio import WIRINGS, rings
from fabriclab.validate.tables import Rows

__all__ = ["WiringTable", "gigaio"]


@dataclass(frozen=True)
class WiringTable(Rows):
    """Bus bandwidth of PCIe wirings as published and as modelled.

    Parameters
    ----------
    rows : tuple of dict
        One per cell: wiring, collective, published and model [B/s], error (model / published - 1).
    efficiency : float
        The part of the rate of every link that carries data, the same in all cells.
    """

    efficiency: float

    def _cells(self) -> list[list[str]]:
        form = {"published": "{:.3g} GB/s", "model": "{:.3g} GB/s", "error": "{:+.0%}"}
        in_gb = [row | {k: row[k] / 1e9 for k in ("published", "model")} for row in self.rows]
        return [list(self.rows[0]), *([form.get(k, "{}").format(v) for k, v in row.items()] for row in in_gb)]

    def __repr__(self) -> str:
        """Show the efficiency and the errors."""
        low, *_, high = sorted(row["error"] for row in self.rows)
        return f"<WiringTable at {self.efficiency:.0%} of the link rate: errors {low:+.0%} to {high:+.0%}>"


def gigaio(efficiency: float | None = None) -> WiringTable:
    """Return the bus bandwidth of the five PCIe wirings, published and from rings on their graphs.

    RCCL's rings are taken to be as many as a box has cards, each with its part of the data through a card of its
    own (`fabriclab.topologies.gigaio.rings`), and messages to be large; a broadcast goes round in so many pieces
    that all its hops work at once. Left out are start-up, what crossing a processor costs beyond the link that is
    shared there, and what makes one collective differ from another: so the model has one value for a wiring, and
    the published ones differ by up to 16%. The same slides show the default rings of 2s-2rp-split-flat at 75 and
    66 GB/s (all-reduce, all-gather) and better ones at 88 and 99, where the table has 100 and 92: sizes and rings
    are not told, and no model meets both.

    Parameters
    ----------
    efficiency : float, optional
        Part of the rate of every link that carries data; unless given that of a copy between GPUs over PCIe 5.0,
        measured elsewhere, so that nothing is fitted to the table. 0 < efficiency <= 1

    Raises
    ------
    ValueError
        If the efficiency is out of its range.

    References
    ----------
    .. [1] B. Kitor, K. Rygol, Rail optimized PCIe topologies for LLMs, ISC High Performance 2025, and the slides
       on it of 2025.
    """
    copied = catalog.value("memory_path", "p2p-pcie", "bandwidth")
    part = copied / catalog.value("links", "pcie5", "bandwidth_after_encoding") if efficiency is None else efficiency
    if not 0 < part <= 1:
        msg = f"efficiency must be a number above 0 and at most 1, got {efficiency!r}"
        raise ValueError(msg)
    rows = []
    for wiring in WIRINGS:
        fabric = topologies.build("gigaio", wiring=wiring)
        for what in ("all_gather", "all_reduce", "broadcast"):
            seen = catalog.value("systems", f"gigaio-{wiring}", f"busbw_{what}")
            model = part * ring_busbw(what, fabric, rings(fabric))
            rows.append({"wiring": wiring, "collective": what, "published": seen, "model": model,
                         "error": model / seen - 1})  # fmt: skip
    return WiringTable(tuple(rows), part)
