"""Published rates of copies inside a server beside what the model gives for them."""

from pathlib import Path

from fabriclab import catalog, topologies
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Spec
from fabriclab.gpudirect.paths import path
from fabriclab.gpudirect.pcie import fact

_LONG = 2.0**30  # bytes of a copy that is long enough for its start not to count


def published() -> tuple[tuple[Spec, float, str], ...]:
    """Return the published rates that the model has a path for, what the model gives [B/s], and why a row counts not.

    A row that sets a constant of the model does not count, and neither does one that is outside of it; the text is
    empty for a row that counts. The processors, GPUs and drives of a row may be others than those of the server that
    stands for it; PCIe and NVLink are of the same generation. Left out is the latency of ``p2p-pcie``: 32 loads of
    4 B, of which is not told how many are under way at once.

    Examples
    --------
    >>> max(abs(model / row.si - 1) for row, model, why in published() if not why) < 0.15
    True
    """
    rows = []
    for r in read_rows(Path(__file__).with_suffix(".csv")):
        spec = getattr(catalog, r["table"])[r["part"]].spec(
            r["attribute"], **({"name": r["name"]} if r["name"] else {})
        )
        fabric, ends = topologies.build(r["server"]), (r["source"], r["target"])
        way = path(fabric, *ends, r["mechanism"], back=r["back"], kernel=r["by"] == "kernel")
        time = way.time(_LONG, fact(r["chunk"], "chunk") if r["chunk"] else None)
        rows.append((spec, int(r["factor"]) * _LONG / time, r["why"] if r["role"] != "counts" else ""))
    return tuple(rows)
