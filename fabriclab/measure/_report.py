"""What all measurements share: sizes at the door, rounds summed up as a Result, and those kept of another machine."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Result

Sizes = float | str | Sequence[float | str] | NDArray[Any]


def sizes_of(size: Sizes, step: int, low: int) -> list[int]:
    """Return one or more sizes as whole bytes; each a multiple of ``step`` and at least ``low``."""
    plain: Any = size.tolist() if hasattr(size, "tolist") else size  # numpy's numbers and arrays, and other arrays
    out = []
    many = isinstance(plain, Sequence) and not isinstance(plain, str | bytes)
    for one in plain if many else [plain]:
        n = units.size(one)
        if n < low or n % step:
            near = units.format_size(max(low, round(n / step) * step))
            msg = f'size must be >= {low} B and a multiple of {step} B, got {one!r}; the nearest is "{near}"'
            raise ValueError(msg)
        out.append(int(n))
    if not out:
        raise ValueError('size must hold at least one size, got an empty sequence; write "4 MiB"')
    return out


def summed_up(
    what: str, sizes: Sequence[int], times: ArrayLike, asked: Mapping[str, Any], how: str, notes: Sequence[str],
    n: int = 1,
) -> Result:  # fmt: skip
    """Return rounds (sizes, rounds) [s] of ``n`` ranks as a Result: median, minimum, 99th percentile."""
    t = np.asarray(times, dtype=float)
    return Result(
        what, "measured", np.array(sizes), np.median(t, axis=1), n, low=t.min(axis=1),
        high=np.percentile(t, 99, axis=1), samples=t, asked=asked, how=how, notes=tuple(notes),
    )  # fmt: skip


def stored(what: str) -> Result:
    """Return the stored measurement of ``copy``, ``sockets`` or a collective on two ranks, over all its sizes.

    Raises
    ------
    ValueError
        If nothing is stored under that name.
    """
    file: dict[str, Any] = json.loads((files(__package__) / "stored.json").read_text(encoding="utf-8"))
    if not isinstance(what, str) or what not in file["results"]:
        raise ValueError(f"nothing is stored for {what!r}; choose one of {', '.join(file['results'])}")
    return Result(what, "stored", **file["results"][what], source=f"{file['machine']}, {file['date']}")


def nearest(what: str, sizes: Iterable[float], why: str) -> Result:
    """Return the stored sizes nearest to ``sizes`` [B]; the first note says that, and why nothing was measured."""
    full = stored(what)
    near = [int(np.argmin(np.abs(np.log2(full.size + 1) - np.log2(size + 1)))) for size in sizes]
    shown = ", ".join(units.format_size(full.size[i]) for i in near)
    note = f"not measured here: {why}; shown is what a {full.source} took for {shown}"
    columns: dict[str, Any] = {name: getattr(full, name)[near] for name in ("size", "time", "low", "high")}
    return replace(full, **columns, notes=(note, *full.notes))
