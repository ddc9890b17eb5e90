"""What all measurements share: sizes at the door, and rounds summed up as a Result."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core.result import Result

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
