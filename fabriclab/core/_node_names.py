"""Read the names of nodes: a kind and coordinates, such as ``"leaf 0.1"``, or a part as a tool prints it."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import spelling, units

_NAME = re.compile(r"(?P<kind>.+?)[\s/:_-]*(?P<numbers>\d+(?:\.\d+)*)?")
_OF_SERVER = re.compile(r"(?P<part>.+?)\s+(?:of|in|on)\s+server\s+(?P<server>\d+)", re.IGNORECASE)
_CABLE = re.compile(r"\s*(?:<->|\s-\s|\s–\s)\s*")
_LINK = re.compile(r"\s*(?:->|→)\s*")
_SUGGESTED = 3


class NodeName(NamedTuple):
    """A kind of node, the coordinates in its name, and whether it is a part of some server, as a tool prints it."""

    kind: str
    numbers: tuple[int, ...]
    printed: bool = False


class TwoEnds(NamedTuple):
    """Names of the nodes that a cable or a link joins."""

    one: str
    other: str
    one_way: bool


def read_node_name(text: str, kinds: tuple[str, ...]) -> NodeName:
    """Return the kind and the numbers in a name; an error for an unknown kind lists the ``kinds``."""
    of_server = _OF_SERVER.fullmatch(text.strip())
    if of_server:
        part = read_node_name(of_server["part"], kinds)
        return NodeName(part.kind, (int(of_server["server"]), *part.numbers))
    printed = spelling.printed_part(text)
    if printed and spelling.find(printed.kind, kinds):
        return NodeName(units.choice(printed.kind, "kind", kinds), (printed.number,), printed=True)
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"node must have a name such as '{kinds[0]} 0', got {text!r:.80}; fabric.name(0) shows one"
        )
    kind = units.choice(
        match["kind"], "kind of node", kinds, f" in {text!r:.80}", other_words=_as_printed(kinds)
    )
    numbers = tuple(int(number) for number in (match["numbers"] or "").split(".") if number)
    return NodeName(kind, numbers)


def _as_printed(kinds: tuple[str, ...]) -> dict[str, str]:
    """Return other words for kinds of nodes, as far as there are such nodes."""
    words = {
        "tor": "leaf",
        "edge": "leaf",
        "aggregation": "spine",
        "hca": "nic",
        "card": "nic",
        "accelerator": "gpu",
        "nvswitch": "nvlink",
    }
    return {word: kind for word, kind in words.items() if kind in kinds and word not in kinds}


def read_ends(text: str) -> TwoEnds | None:
    """Return the ends in the name of a cable ("leaf 0 - spine 1") or link ("leaf 0 -> spine 1"); None for a node."""
    for pattern, one_way in ((_CABLE, False), (_LINK, True)):
        ends = pattern.split(text.strip())
        if len(ends) == 2:
            return TwoEnds(ends[0], ends[1], one_way)
    return None


def rows_named(
    coord: NDArray[np.integer], numbers: tuple[int, ...], *, printed: bool = False
) -> NDArray[np.int64]:
    """Return the rows of ``coord``, (n, C), whose coordinates, without those that do not apply (-1), are ``numbers``.

    If there is none, a single number is that of a row in order; or, where a tool ``printed`` it, the last coordinate,
    such as that of a GPU in its server.
    """
    applies = coord >= 0  # (n, C)
    same_length = np.flatnonzero(applies.sum(axis=1) == len(numbers))
    values = coord[same_length][applies[same_length]].reshape(same_length.size, len(numbers))
    exact = same_length[np.all(values == np.array(numbers, dtype=np.int64), axis=1)]
    if exact.size or len(numbers) != 1:
        return exact
    if printed:
        return np.flatnonzero(_last(coord) == numbers[0])
    return np.arange(len(coord))[numbers[0] : numbers[0] + 1]


def rows_near(
    coord: NDArray[np.integer], numbers: tuple[int, ...], *, printed: bool = False
) -> NDArray[np.int64]:
    """Return the rows of ``coord`` whose names come nearest to ``numbers``, at most a few."""
    applies = coord >= 0
    same_length = np.flatnonzero(applies.sum(axis=1) == len(numbers))
    if same_length.size and numbers:
        values = coord[same_length][applies[same_length]].reshape(same_length.size, len(numbers))
        differs = values != np.array(numbers, dtype=np.int64)
        distance = np.abs(values - np.array(numbers, dtype=np.int64)).sum(axis=1)
        order = np.lexsort((distance, differs.sum(axis=1)))
        return same_length[order[:_SUGGESTED]]
    if len(numbers) == 1 and not printed:  # in order, beyond the last one
        return np.arange(len(coord))[-1:]
    if numbers:
        distance = np.abs(_last(coord) - numbers[-1])
    else:
        distance = np.zeros(len(coord))
    return np.argsort(distance, kind="stable")[:_SUGGESTED]


def _last(coord: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the last coordinate of each row that applies, (n,); -1 where none does."""
    last = np.full(len(coord), -1, dtype=np.int64)
    for values in coord.T:
        last = np.where(values >= 0, values, last)
    return last
