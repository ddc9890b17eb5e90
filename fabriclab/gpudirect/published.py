"""Published rates of copies inside a server beside what the model gives for them."""

from pathlib import Path
from typing import NamedTuple

from fabriclab import catalog, topologies
from fabriclab.catalog.tables import read_rows
from fabriclab.gpudirect.paths import path
from fabriclab.gpudirect.pcie import fact

_LONG = 2.0**30  # bytes of a copy that is long enough for its start not to count


class Row(NamedTuple):
    """A published rate and the model's [B/s]; one that sets a constant, or lies outside the model, does not count."""

    what: str
    published: float
    model: float
    counts: bool
    why: str
    source: str

    @property
    def error(self) -> float:
        """How far the model is off, as a part of what is published."""
        return self.model / self.published - 1


def published() -> tuple[Row, ...]:
    """Return the published rates that the model has a path for.

    The processors, GPUs and drives of a row may be others than those of the server that stands for it, but PCIe and
    NVLink are of the same generation. Left out is the latency of ``p2p-pcie``: 32 loads of 4 B, of which is not told
    how many are under way at once.

    Examples
    --------
    >>> max(abs(row.error) for row in published() if row.counts) < 0.15
    True
    """
    rows = []
    for r in read_rows(Path(__file__).with_suffix(".csv")):
        where = {"name": r["name"]} if r["name"] else {}
        spec = getattr(catalog, r["table"])[r["part"]].spec(r["attribute"], **where)
        way = path(topologies.build(r["server"]), r["source"], r["target"], r["mechanism"], back=r["back"],
                   kernel=r["by"] == "kernel")  # fmt: skip
        chunk = fact(r["chunk"], "chunk") if r["chunk"] else None
        model = _LONG / way.time(_LONG, chunk) * int(r["factor"])
        rows.append(Row(spec.name, float(spec.si or 0.0), model, r["role"] == "counts", r["why"], spec.source))
    return tuple(rows)
