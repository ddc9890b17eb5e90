"""What each collective does, in the sense of MPI: who has which blocks before and after, and the result by numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import registry

__all__ = ["Definition", "at_root", "define", "definition", "everywhere", "own"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Holders = Callable[[int, int, int], Mask]


@dataclass(frozen=True, slots=True)
class Definition:
    """A collective: one place that execution and its oracle read; bounds and results ask for its factor besides.

    So its name stands in `fabriclab.core.result.BUS_FACTORS`, which lists what nccl-tests knows.

    Parameters
    ----------
    before, after : callable (n_ranks, n_blocks, root) -> (n_ranks, n_blocks) bool
        Which blocks each rank has at the start, and must have at the end.
    result : callable (buffers, op, n_ranks, root) -> list of arrays
        What each rank must have at the end, with no part in how `execute` gets there.
    """

    before: Holders
    after: Holders
    result: Callable[[list[Array], np.ufunc, int, int], list[Array]]


def define(name: str, before: Holders, after: Holders) -> Callable[[Callable[..., list[Array]]], Any]:
    """Register the result of a collective together with who has what."""
    return registry.register("definition", name, before=before, after=after)


def definition(collective: str) -> Definition:
    """Return what a collective does; a wrong name is answered with the list."""
    known = registry.names("definition")
    if collective not in known:
        msg = f"collective must be one of {', '.join(known)}, got {collective!r}"
        raise ValueError(msg)
    return Definition(**registry.info("definition", collective), result=registry.get("definition", collective))


def everywhere(n: int, blocks: int, root: int) -> Mask:
    """Every rank has the whole array."""
    return np.ones((n, blocks), dtype=np.bool_)


def own(n: int, blocks: int, root: int) -> Mask:
    """Rank r has block r."""
    if blocks != n:
        msg = f"this collective must have one block per rank ({n}), got {blocks} blocks"
        raise ValueError(msg)
    return np.eye(n, dtype=np.bool_)


def at_root(n: int, blocks: int, root: int) -> Mask:
    """Only the root has anything: the whole array."""
    return np.repeat(np.arange(n) == root, blocks).reshape(n, blocks)


def _total(buffers: list[Array], op: np.ufunc) -> Array:
    out: Array = op.reduce(np.stack(buffers), axis=0)
    return out.astype(buffers[0].dtype)


@define("all_reduce", everywhere, everywhere)
def _all_reduce(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return [_total(buffers, op)] * n


@define("reduce_scatter", everywhere, own)
def _reduce_scatter(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return np.array_split(_total(buffers, op), n)


@define("all_gather", own, everywhere)
def _all_gather(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return [np.concatenate(buffers)] * n


@define("broadcast", at_root, everywhere)
def _broadcast(buffers: list[Array], op: np.ufunc, n: int, root: int) -> list[Array]:
    return buffers * n
