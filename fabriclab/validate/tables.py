"""Two models of the time of a collective on a published system, and the errors of models.

The models are ours and the textbook ring, which ours has to beat. Errors on published sweeps are given by regime
(small, middle and large sizes); errors of the flow engine are for five wirings of PCIe boxes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, topologies, units
from fabriclab.catalog import published
from fabriclab.collectives import title
from fabriclab.core import Floats, Result, as_html, as_text, bus_factor
from fabriclab.simulation import ring_busbw
from fabriclab.topologies.gigaio import WIRINGS, in_words, rings
from fabriclab.tuner import calibration, check, estimate
from fabriclab.tuner.plans import PROTOCOLS
from fabriclab.tuner.system import System, read

Model = Callable[[dict[str, Any], float], float | None]
REGIMES = ("lat", "mid", "bw")
_FORMS: dict[str, Callable[[float], str]] = {
    "published": units.format_rate,
    "model": units.format_rate,
    "error": partial(units.format_share, signed=True),
}
CAP = 1e9  # stands for the infinite error of a missing prediction, so that quantiles stay defined


def predict(
    sweep: Mapping[str, Any],
    size_bytes: units.Quantity,
    *,
    calibrated: bool = True,
    without: str = "",
) -> float | None:
    """Return the time that `fabriclab.estimate` predicts for a collective, in microseconds.

    Parameters
    ----------
    sweep : mapping
        A row of `catalog.published.systems`; an unknown number is ``""``. Names (sweep, system, source) are ignored.
    size_bytes : float or str
        Message size as nccl-tests counts it. [B], > 0
    calibrated, without
        As in `fabriclab.estimate`.

    Returns
    -------
    float or None
        Time in microseconds; None if the row does not say enough, names something the catalog does not have, or
        the size is 0.

    Raises
    ------
    ValueError, TypeError
        If ``sweep`` is not such a row, or ``size_bytes`` is not a size.
    """
    size = units.size(size_bytes, "size_bytes")
    check(sweep)
    calibration(without if units.flag(calibrated, "calibrated") else "")  # refuses a wrong name
    try:
        return 1e6 * estimate(sweep, size=size, calibrated=calibrated, without=without).time
    except (KeyError, ValueError, ZeroDivisionError):
        return None


def textbook(
    sweep: Mapping[str, Any],
    size_bytes: units.Quantity,
    *,
    protocol: str = "LL",
    split: bool = False,
) -> float | None:
    """Return the textbook time of a collective: steps x latency + factor x size / rate.

    This is a ring on links at the rate of their datasheets: inside a server the rate per direction of the GPU's own
    links, between servers all NICs of a server. The latency per step is the constant of NCCL's cost model for one of
    its protocols. In a run on several servers every step counts as one between servers, although most hops of a ring
    stay inside a server; ``split`` counts them apart. Nothing is fitted. Leaves out protocols, trees, in-network
    reduction, software start-up and the difference between line rate and payload.

    Parameters
    ----------
    sweep, size_bytes
        As in `predict`, which also raises the same errors.
    protocol : str
        ``LL`` has the shortest steps, 2.7 us between servers and 0.6 us over NVLink; ``Simple``, for large messages,
        14 and 3.4 us; ``LL128`` is between them.
    split : bool
        Whether steps inside a server take the latency of the links there. As NCCL counts, a ring that goes around once
        has one step between servers fewer than there are servers, and all others are inside.

    Returns
    -------
    float or None
        Time in microseconds; None as in `predict`.
    """
    size_bytes = units.size(size_bytes, "size_bytes")
    protocol = units.choice(protocol, "protocol", PROTOCOLS)
    split = units.flag(split, "split")
    check(sweep)
    try:
        system = read(sweep)
    except (KeyError, ValueError):
        return None
    rate = system.peak
    factor = bus_factor(system.what, system.ranks)
    gpus = sweep["gpus_per_node"] or 1

    if system.servers > 1:
        if system.what == "all_to_all":
            # a GPU sends its blocks for other servers through its share of NICs
            outside = (system.ranks - system.local) / system.ranks
            share = system.wire * sweep["nics_per_node"] / gpus  # [B/s]
            if outside / share > factor / rate:
                factor = outside
                rate = share
        elif system.what == "send_recv":  # one GPU of a server talks to the next server
            rate = min(rate, system.wire * max(1, system.nics // gpus))
        else:  # all GPUs of a server do
            rate = min(rate, system.wire * system.nics)

    if size_bytes <= 0:
        return None
    return 1e6 * (_waiting(system, protocol, split) + factor * size_bytes / rate)


def _waiting(system: System, protocol: str, split: bool) -> float:
    """Return the latency of all steps of the textbook model [s]; ``split`` counts those inside a server apart."""
    steps = {"all_reduce": 2 * (system.ranks - 1), "send_recv": 1}.get(
        system.what, system.ranks - 1
    )
    between = 0
    if system.servers > 1:
        between = steps
        if split:
            between = {
                "all_reduce": 2 * (system.servers - 1),
                "send_recv": 1,
                "all_to_all": system.ranks - system.local,
            }.get(system.what, system.servers - 1)

    waiting = 0.0
    inside = "PCI" if system.kind == "shm" else "NVLINK"
    for link, count in (("NET", between), (inside, steps - between)):
        if count:
            latency = catalog.value(
                "nccl_model", "hw", f"latency_{protocol}", name=f"hwLat {link} Ring"
            )
            waiting += count * latency
    return waiting


def regimes(result: Result) -> NDArray[np.str_]:
    """Return the regime of each size: ``bw``, ``lat`` or ``mid``, shape (K,).

    A size is ``bw`` if it has at least half of the sweep's highest bandwidth. It is ``lat`` if it takes less than twice
    the shortest time of a sweep that begins at 64 KiB or less. Every other size is ``mid``.
    """
    fast = result.algbw >= 0.5 * result.algbw.max()
    short = (result.time < 2 * result.time.min()) & (result.size.min() <= 2**16)
    return np.where(fast, "bw", np.where(short, "lat", "mid"))


@dataclass(frozen=True, repr=False)
class ReportTable:
    """Rows that show themselves as text and as HTML, with fractions as percentages and NaN as an empty cell.

    Parameters
    ----------
    rows : tuple of dict
        All with the same keys.
    efficiency : float
        In the table of `gigaio`: the fraction of every link's rate that carries data, the same in all rows.
    """

    rows: tuple[dict[str, Any], ...]
    efficiency: float = 1.0

    def _cells(self) -> list[list[str]]:
        cells = [list(self.rows[0])]
        for row in self.rows:
            cells.append([_show(name, cell) for name, cell in row.items()])
        return cells

    def __repr__(self) -> str:
        """Return the table as text."""
        return as_text(self._cells())

    def _repr_html_(self) -> str:
        return as_html(self._cells())


def _show(name: str, cell: Any) -> str:
    """Return a cell as text."""
    if name == "wiring":
        return in_words(str(cell))
    if name == "collective":
        return title(str(cell))
    if not isinstance(cell, float):
        return str(cell)
    if name in _FORMS:
        return _FORMS[name](cell)
    if np.isnan(cell):
        return ""
    if cell >= CAP:
        return "none"
    return units.format_share(cell)


def table(model: Model = predict) -> ReportTable:
    """Return the error of a model on every published sweep: |predicted / measured - 1|.

    Parameters
    ----------
    model : callable
        Takes a row of `catalog.published.systems` and a size [B], returns microseconds or None.

    Returns
    -------
    ReportTable
        One row per sweep: sweep, collective, ranks, cover (share of sizes with a prediction), and the median and 90th
        percentile in each regime, ``lat``, ``lat_p90`` and so on; NaN where a sweep has no size in that regime.

    Raises
    ------
    TypeError
        If ``model`` is not callable.
    """
    if not callable(model):
        raise TypeError(
            f"model must be a function of a sweep and a size, such as validate.predict, got {model!r}"
        )
    return ReportTable(tuple(_of_sweep(model, about) for about in published.systems()))


def median_errors(
    model: Model = textbook, collective: str = "all_reduce", **options: Any
) -> dict[str, float]:
    """Return the median error of a model on the published sweeps of one collective, at small, medium and large sizes.

    A size counts as large or small by `regimes`: large where a sweep reaches half of its highest bandwidth, small where
    latency decides. The error is |predicted / measured - 1|: 0.23 means that half of the sweeps are predicted to better
    than 23 %. Leaves out how the errors of one sweep differ from size to size; `table` has a row for each.

    Parameters
    ----------
    model : callable
        As in `table`.
    collective : str
        Collective by its name, such as ``"all_reduce"``.
    **options
        Handed on to the model by name, such as ``protocol="Simple"`` to `textbook`.

    Returns
    -------
    dict of str to float
        ``"small"``, ``"medium"`` and ``"large"`` -> median over sweeps of the median of a sweep. [1]

    Raises
    ------
    ValueError
        If no sweep of that collective is published here.
    TypeError
        If ``model`` is not callable.

    Examples
    --------
    >>> from fabriclab.units import format_share
    >>> {size: format_share(error) for size, error in median_errors(textbook).items()}
    {'small': '80 %', 'medium': '56 %', 'large': '23 %'}
    """
    if options:
        model = partial(model, **options)
    rows = [row for row in table(model).rows if row["collective"] == collective]
    if not rows:
        known = sorted({row["collective"] for row in table(model).rows})
        raise ValueError(
            f"collective must be one with published sweeps, {', '.join(known)}, got {collective!r}"
        )
    found = {}
    for size, regime in (("small", "lat"), ("medium", "mid"), ("large", "bw")):
        found[size] = float(np.nanmedian([row[regime] for row in rows]))
    return found


def errors(model: Model, about: dict[str, Any]) -> tuple[Result, Floats]:
    """Return a published sweep and |predicted / measured - 1| for each size, (K,); 1e9 where there is no prediction."""
    result = published.load(about["sweep_id"])
    guess = np.array([model(about, size) for size in result.size], dtype=float)  # None becomes NaN
    usable = np.isfinite(guess) & (guess > 0)
    return result, np.where(usable, np.abs(guess * 1e-6 / result.time - 1), CAP)


def score(sweeps: Iterable[tuple[NDArray[np.str_], Floats]]) -> dict[str, float]:
    """Return the median of sweep medians and the 90th percentile of points in each regime; NaN without points.

    Each sweep is given by the regime and the error of each of its sizes.
    """
    given = list(sweeps)
    scores: dict[str, float] = {}
    for name in REGIMES:
        parts = [error[regime == name] for regime, error in given if (regime == name).any()]
        scores[name] = np.nan
        scores[f"{name}_p90"] = np.nan
        if parts:
            scores[name] = float(np.median([np.median(part) for part in parts]))
            scores[f"{name}_p90"] = float(np.quantile(np.concatenate(parts), 0.9))
    return scores


def _of_sweep(model: Model, about: dict[str, Any]) -> dict[str, Any]:
    """Return the row of one sweep: its name, coverage and errors."""
    result, error = errors(model, about)
    row = {"sweep": about["sweep_id"], "collective": result.what, "ranks": result.n_ranks}
    return {**row, "cover": float(np.mean(error < CAP)), **score([(regimes(result), error)])}


def gigaio(efficiency: float | None = None) -> ReportTable:
    """Return the bus bandwidth of five PCIe wirings, as published and as computed from rings on their graphs.

    The model assumes as many of RCCL's rings as a box has cards, each with its share of the data through a card of its
    own (`fabriclab.topologies.gigaio.rings`), and large messages; a broadcast goes round in so many pieces that all its
    hops work at once. Leaves out start-up, the cost of crossing a processor beyond the link that is shared there, and
    what distinguishes one collective from another. So the model has one value per wiring, while the published ones
    differ by up to 16 %. The same slides show the default rings of 2s-2rp-split-flat at 75 and 66 GB/s (all-reduce,
    all-gather) and better ones at 88 and 99, where the table has 100 and 92: sizes and rings are not given, and no
    model meets both.

    Parameters
    ----------
    efficiency : float, optional
        Fraction of every link's rate that carries data. By default it is that of a copy between GPUs over PCIe 5.0,
        measured elsewhere, so that nothing is fitted to the table. 0 < efficiency <= 1

    Returns
    -------
    ReportTable
        One row per wiring and collective: wiring, collective, published and model [B/s], error (model / published - 1).

    Raises
    ------
    ValueError
        If the efficiency is out of its range.

    References
    ----------
    .. [1] B. Kitor, K. Rygol, Rail optimized PCIe topologies for LLMs, ISC High Performance 2025, and the slides
       on it of 2025.
    """
    if efficiency is None:
        copied = catalog.value("memory_path", "p2p-pcie", "bandwidth")
        part = copied / catalog.value("links", "pcie5", "bandwidth_after_encoding")
    else:
        part = efficiency
    if not hasattr(part, "__float__") or not 0 < part <= 1:
        raise ValueError(f"efficiency must be a number above 0 and at most 1, got {efficiency!r}")
    rows = []
    for wiring in WIRINGS:
        fabric = topologies.build("gigaio", wiring=wiring)
        for what in ("all_gather", "all_reduce", "broadcast"):
            seen = catalog.value("systems", f"gigaio-{wiring}", f"busbw_{what}")
            model = part * ring_busbw(what, fabric, rings(fabric))
            rows.append(
                {
                    "wiring": wiring,
                    "collective": what,
                    "published": seen,
                    "model": model,
                    "error": model / seen - 1,
                }
            )
    return ReportTable(tuple(rows), part)
