"""Result: the question, the answer and how it was obtained; one type for predicted, measured and published times."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core._frozen import Value, check_finite, check_shape, freeze
from fabriclab.core.spec import as_html

OBTAINED = ("predicted", "measured", "published", "stored")
MACHINE_SHARED = (
    "the machine is shared"  # in the note of a measurement beside which other programs ran
)
# busbw / algbw of each collective, as nccl-tests counts them; (a, b) stands for a (P - 1) / P + b.
BUS_FACTORS: Mapping[str, tuple[float, float]] = {
    "all_reduce": (2.0, 0.0),
    **dict.fromkeys(
        ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"), (1.0, 0.0)
    ),
    **dict.fromkeys(("broadcast", "reduce", "send_recv", "copy", "sockets"), (0.0, 1.0)),
    **dict.fromkeys(
        ("write", "read", "shared_copy", "tcp", "pickle"), (0.0, 1.0)
    ),  # of `measure.one_sided`
    "barrier": (0.0, 0.0),
}


def bus_factor(what: str, n_ranks: int) -> float:
    """Return busbw / algbw of a collective on ``n_ranks`` ranks, the factor that nccl-tests uses.

    Examples
    --------
    >>> bus_factor("all_reduce", 8)
    1.75
    """
    what = units.choice(what, "collective", BUS_FACTORS)
    n = units.count(n_ranks, "n_ranks")
    a, b = BUS_FACTORS[what]
    return a * (n - 1) / n + b


@dataclass(frozen=True, eq=False)
class Result(Value):
    """One time for each of one or more message sizes, together with how it was obtained.

    Parameters
    ----------
    what : str
        The collective or experiment: a key of `BUS_FACTORS`.
    obtained : str
        ``predicted``, ``measured`` (here and now), ``published`` or ``stored`` (measured elsewhere and kept
        for machines that cannot measure).
    size : array_like, shape (K,)
        Message sizes as nccl-tests counts them. [B], >= 0
    time : array_like, shape (K,)
        Typical time for each size. [s], > 0, or >= 0 if predicted
    n_ranks : int
        Ranks that took part.
    low, high : array_like, shape (K,), optional
        Spread of the time: minimum and 99th percentile of the rounds, or an error band. [s]
    samples : array_like, shape (K, M), optional
        Time of every round that was kept (for collectives the maximum over ranks). [s]
    asked : mapping
        The question: system, algorithm, transport, rounds and so on.
    how : str
        One sentence that says how the numbers were obtained.
    source : str
        Who measured or published it; a published or stored result must have one.
    notes : tuple of str
        What a reader must know. The short form of a result repeats `MACHINE_SHARED`, if a note holds it.

    Raises
    ------
    ValueError
        If shapes differ, a time is not positive (0 is allowed in a prediction), or a published or stored
        result has no source.
    """

    what: str
    obtained: str
    size: NDArray[np.float64]
    time: NDArray[np.float64]
    n_ranks: int = 1
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    samples: NDArray[np.float64] | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes, ranges and source."""
        bus_factor(self.what, self.n_ranks)
        object.__setattr__(self, "obtained", units.choice(self.obtained, "obtained", OBTAINED))
        if self.obtained in ("published", "stored") and not self.source:
            raise ValueError(
                f"a {self.obtained} result needs its source: who measured it, where it stands"
            )
        given = [
            name
            for name in ("size", "time", "low", "high", "samples")
            if getattr(self, name) is not None
        ]
        freeze(self, {**dict.fromkeys(given, np.float64), "asked": dict, "notes": str})
        check_shape(
            self,
            [n for n in ("time", "low", "high") if getattr(self, n) is not None],
            self.size.shape,
        )
        check_finite(self, {"size": " B"})
        # Only a prediction may take no time: one rank has nobody to talk to.
        good = self.time >= 0 if self.obtained == "predicted" else self.time > 0
        if not np.all(np.isfinite(self.time) & good):
            raise ValueError(
                f"time must be finite and > 0 s, got {self.time[~(np.isfinite(self.time) & good)][0]}"
            )
        if self.samples is not None and (
            self.samples.ndim != 2 or len(self.samples) != self.size.size
        ):
            raise ValueError(
                f"samples must have one row per size ({self.size.size}), got {self.samples.shape}"
            )

    @classmethod
    def of_busbw(
        cls,
        what: str,
        busbw: units.Quantity,
        n_ranks: int,
        size: units.Quantity,
        *,
        obtained: str = "predicted",
        source: str = "",
    ) -> "Result":
        """Return the result of one run of which the bus bandwidth is known: its time is that in which it was reached.

        Parameters
        ----------
        what, n_ranks, obtained, source
            As in the class.
        busbw : float or str
            Bus bandwidth that was reached. [B/s], > 0
        size : float or str
            Size of the message. [B]

        Raises
        ------
        ValueError
            If the bus bandwidth is not above 0, or the collective moves no bytes between ``n_ranks`` ranks.

        Examples
        --------
        >>> Result.of_busbw("all_reduce", "50 GB/s", 2, "1 GB").time.tolist()
        [0.02]
        """
        rate = units.rate(busbw, "busbw")
        factor = bus_factor(what, n_ranks)
        if not rate > 0 or not factor:
            raise ValueError(
                f"busbw must be above 0 for a {what} that moves bytes, got {busbw!r} with {n_ranks} ranks"
            )
        total = units.size(size)
        return cls(what, obtained, [total], [factor * total / rate], n_ranks, source=source)  # type: ignore[arg-type]

    @property
    def algbw(self) -> NDArray[np.float64]:
        """Algorithm bandwidth, size / time [B/s], shape (K,)."""
        never = np.full(self.size.shape, np.inf)
        return np.asarray(np.divide(self.size, self.time, out=never, where=self.time > 0))

    @property
    def busbw(self) -> NDArray[np.float64]:
        """Bus bandwidth, algbw times `bus_factor` [B/s], shape (K,); 0 where that factor is 0, as for one rank."""
        factor = bus_factor(self.what, self.n_ranks)
        return self.algbw * factor if factor else np.zeros(self.size.shape)

    def at(self, size: float | str) -> float:
        """Return the time [s] for one of the sizes; any other size is an error, because nothing is extrapolated."""
        hit = np.flatnonzero(np.isclose(self.size, units.size(size), rtol=1e-9, atol=0))
        if not hit.size:
            known = ", ".join(units.format_size(s) for s in self.size[:8])
            raise ValueError(f"size {size!r} was not {self.obtained}; this result has {known}")
        return float(self.time[hit[0]])

    @property
    def _who(self) -> str:
        ranks = f", {self.n_ranks} ranks" if self.n_ranks > 1 else ""
        return f"{self.what.replace('_', '-')}, {self.obtained}{ranks}"

    def __repr__(self) -> str:
        """Show the kind and the sizes, and time and bus bandwidth of the size where the latter is highest.

        A measurement on a busy machine says so.
        """
        sizes = (
            units.format_size(self.size[0]) if self.size.size == 1 else f"{self.size.size} sizes"
        )
        best = int(np.argmax(self.busbw)) if self.size.size else 0
        figure = (
            f"{units.format_time(self.time[best])}, busbw {units.format_rate(self.busbw[best])}"
        )
        busy = f"; {MACHINE_SHARED}" if any(MACHINE_SHARED in note for note in self.notes) else ""
        return f"<Result {self._who}, {sizes}: {figure}{busy}>"

    def _repr_html_(self) -> str:
        spread = [("fastest", self.low), ("99th percentile", self.high)]
        columns = {"size": self.size, "median" if self.samples is not None else "time": self.time}
        columns |= {
            name: value for name, value in spread if value is not None and self.samples is not None
        }
        columns |= {"algbw": self.algbw, "busbw": self.busbw}
        show = {"size": units.format_size, "algbw": units.format_rate, "busbw": units.format_rate}
        cells = [
            [show.get(name, units.format_time)(v) for v in value] for name, value in columns.items()
        ]
        notes = "".join(
            f"<div>{html.escape(line)}</div>" for line in (self.source, *self.notes) if line
        )
        return as_html([columns, *zip(*cells, strict=True)], self._who) + notes
