"""Find the name that somebody means: in capitals or not, with dashes or underscores, in British or American spelling.

It also reads the names of parts that tools print: ``GPU0`` and ``NIC0`` (nvidia-smi), ``mlx5_0`` (ibv_devinfo) and
``NET/IB/0`` (NCCL).
"""

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

_GAPS = re.compile(r"[\s_-]+")
# American endings: optimize, optimized, optimizing, optimization.
_AMERICAN = re.compile(r"(?<=[a-z]{2})iz(?=e|ing|ation)")
# What tools call a part: the kind that is meant, and the number.
_PRINTED = (
    ("gpu", re.compile(r"(?:cuda:|gpu/|gpu)(\d+)", re.I)),
    ("nic", re.compile(r"(?:nic/|nic|hca/|hca|net/(?:[a-z]+/)?)(\d+)(?:/.*)?", re.I)),
    # Devices of RDMA drivers, with the port behind a colon.
    (
        "nic",
        re.compile(
            r"(?:mlx\d_|bnxt_re|efa_|irdma|ionic_|hfi\d_|erdma_)(\d+)(?::\d+)?(?:/.*)?", re.I
        ),
    ),
)


class PrintedPart(NamedTuple):
    """A part as a tool names it: its kind, ``"gpu"`` or ``"nic"``, and its number."""

    kind: str
    number: int


def key(text: str) -> str:
    """Return a text in the form in which all its spellings are equal.

    Examples
    --------
    >>> key("Rail-Optimized"), key("rail optimised")
    ('rail_optimised', 'rail_optimised')
    """
    lower = _GAPS.sub("_", text.strip().lower())
    return _AMERICAN.sub("is", lower)


def find(text: object, known: Iterable[str]) -> str | None:
    """Return the known name that a text spells, or None if there is none, or more than one.

    Examples
    --------
    >>> find("rail-optimized", ["leaf_spine", "rail_optimised"])
    'rail_optimised'
    """
    names = list(known)
    if not isinstance(text, str):
        return None
    if text in names:
        return text
    wanted = key(text)
    fitting = [name for name in names if key(name) == wanted]
    return fitting[0] if len(fitting) == 1 else None


def near(text: object, known: Iterable[str]) -> str:
    """Return a question that names what may be meant, such as ``"; did you mean 'ring'?"``, or an empty text."""
    by_key = {key(name): name for name in known}
    close = difflib.get_close_matches(key(str(text)), by_key)
    if not close:
        return ""
    names = [repr(by_key[word]) for word in close]
    return f"; did you mean {' or '.join(names)}?"


def printed_part(text: str) -> PrintedPart | None:
    """Return the part that a tool calls by this name, or None if it is no such name.

    Examples
    --------
    >>> printed_part("GPU3"), printed_part("mlx5_0")
    (PrintedPart(kind='gpu', number=3), PrintedPart(kind='nic', number=0))
    """
    for kind, pattern in _PRINTED:
        match = pattern.fullmatch(text.strip())
        if match:
            return PrintedPart(kind, int(match[1]))
    return None
