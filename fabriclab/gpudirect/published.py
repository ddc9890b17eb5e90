"""Published figures of copies inside a server beside what the model gives for them."""

from pathlib import Path

from fabriclab import catalog, topologies
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Spec
from fabriclab.gpudirect.paths import path
from fabriclab.gpudirect.pcie import fact

_LONG = 2.0**30  # bytes of a copy that is long enough for its start not to count


def published() -> tuple[tuple[Spec, float, str], ...]:
    """Return the published figures that the model has a path for, what the model gives [SI], and why a row counts not.

    A row that sets a constant of the model does not count; the text is empty for a row that counts. The processors,
    GPUs and drives of a row may be others than those of the server that stands for it; PCIe and NVLink are of the same
    generation. The latency is that of one line, there and back. Six rows are missed: that latency (-51 %: its source
    times 32 loads of 4 B one by one, and how many are under way at once is not told); a kernel of an H100 that reads
    host memory (+49 %), and a copy to an A100 against one from it (+158 %), whose sources ask for the cause; peer
    access of RTX 4090, which later drivers took away (+191 %), of A6000 over a way that is not told (+30 %), and
    between AMD processors, where NCCL plans with less than was measured (-21 %).

    That packets of a kernel hold 128 B on PCIe as they do on NVLink is inferred, after the three rows of kernels on
    PCIe had been seen: with 256 B they are +9 %, +64 % and +15.2 % off, with 128 B +1 %, +49 % and +5 %.

    Examples
    --------
    >>> [row.id for row, model, why in published() if not why and abs(model / row.si - 1) > 0.15]
    ['p2p-pcie', 'h2d-h100-kernel', 'p2p-pcie4-far', 'p2p-pcie4-root', 'h2d-pcie4-both', 'p2p-a40-far']
    """
    rows = []
    for r in read_rows(Path(__file__).with_suffix(".csv")):
        spec = getattr(catalog, r["table"])[r["part"]].spec(r["attribute"], name=r["name"])
        asked = (r[k] for k in ("source", "target", "mechanism"))
        way = path(topologies.build(r["server"]), *asked, back=r["back"], kernel=r["by"] == "kernel")
        rate = int(r["factor"]) * _LONG / way.time(_LONG, fact(r["chunk"], "chunk") if r["chunk"] else None)
        model = 2 * way.moves[0].latency if r["attribute"] == "latency_min" else rate
        rows.append((spec, model, r["why"] if r["role"] == "sets" else ""))
    return tuple(rows)
