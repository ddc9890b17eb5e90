"""Routes: which links each flow uses, with which part of its bytes and of its rate."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fabriclab.core._arrays import expand, pointer, rows_of
from fabriclab.core._frozen import Value, check_finite, check_pointer, check_shape, check_within, freeze
from fabriclab.core.flows import Flows

PATH = 0
SPRAY = 1
TREE = 2
_KINDS = ("path", "spray", "tree")


@dataclass(frozen=True, eq=False)
class Routes(Value):
    """Compressed rows of link numbers; row r belongs to flow ``flow[r]``.

    Several rows of one flow are subflows: each moves ``share`` of the flow's bytes at its own rate,
    and the flow ends with the last.

    Parameters
    ----------
    ptr : (R + 1,) int64
        Row r holds the entries ``ptr[r]:ptr[r + 1]``.
    link : (E,) int32
        Link of each entry; on a path in the order of travel.
    use : (E,) float64
        Part of the row's rate that the link carries: 1 on a path and in a tree, a fraction in a spray.
    flow : (R,) int32
        Flow of each row.
    share : (R,) float64
        Part of the flow's bytes that the row moves; the rows of a flow sum to 1.
    delay : (R,) float64
        Time from the last byte sent to the last byte arrived. [s]
    kind : (R,) int8
        `PATH`, `SPRAY` or `TREE`.
    adaptive : (R,) bool
        Marks the rows of a flow among which an engine chooses.

    Raises
    ------
    ValueError
        If shapes disagree or a use or share is out of its range.
    """

    ptr: NDArray[np.int64]
    link: NDArray[np.int32]
    use: NDArray[np.float64]
    flow: NDArray[np.int32]
    share: NDArray[np.float64]
    delay: NDArray[np.float64]
    kind: NDArray[np.int8]
    adaptive: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes and ranges."""
        freeze(self, {"ptr": np.int64, "link": np.int32, "use": np.float64, "flow": np.int32, "share": np.float64,
                      "delay": np.float64, "kind": np.int8, "adaptive": np.bool_})  # fmt: skip
        check_pointer(self.ptr, self.link.size, "ptr")
        check_shape(self, ("flow", "share", "delay", "kind", "adaptive"), (self.n_rows,))
        check_shape(self, ["use"], self.link.shape)
        for name, value in (("use", self.use), ("share", self.share)):
            if not np.all((value >= 0) & (value <= 1 + 1e-9)):
                raise ValueError(f"{name} must be within 0..1, got {value.min():g}..{value.max():g}")
        check_within(self.flow, "flow", 0)
        check_within(self.link, "link", 0)
        if not np.all(np.isin(self.kind, (PATH, SPRAY, TREE))):
            raise ValueError(f"kind must be {PATH}, {SPRAY} or {TREE} (PATH, SPRAY, TREE), got {np.unique(self.kind)}")
        check_finite(self, {"delay": " s"})

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.ptr.size - 1)

    def row(self, r: int) -> NDArray[np.int32]:
        """Return the links of row ``r``."""
        return self.link[self.ptr[r] : self.ptr[r + 1]]

    def of_rows(self, rows: NDArray[np.integer], **columns: NDArray[Any]) -> Self:
        """Return some of the rows, with these columns in place of theirs."""
        lengths = np.diff(self.ptr)[rows]
        entries = expand(self.ptr[rows], lengths)
        kept = {name: getattr(self, name)[rows] for name in ("flow", "share", "delay", "kind", "adaptive")}
        kept |= {"ptr": pointer(lengths), "link": self.link[entries], "use": self.use[entries]}
        return type(self)(**kept | columns)

    def hops(self) -> NDArray[np.float64]:
        """Return the links that each row crosses, in the mean over its paths, (R,)."""
        return np.bincount(rows_of(self.ptr), weights=self.use, minlength=self.n_rows).astype(np.float64)

    def link_bytes(self, flows: Flows, n_links: int) -> NDArray[np.float64]:
        """Return the bytes that all flows (with their repeats) put on each link, (n_links,)."""
        moved = (flows.size * flows.repeat[flows.group])[self.flow] * self.share
        return np.bincount(self.link, moved[rows_of(self.ptr)] * self.use, n_links).astype(np.float64)

    def __repr__(self) -> str:
        """Show how many rows of which kind there are."""
        kinds = ", ".join(f"{np.count_nonzero(self.kind == k)} {n}" for k, n in enumerate(_KINDS) if k in self.kind)
        return f"<Routes: {kinds or 'no rows'}; {self.link.size} links>"
