"""Readers of what tools print: a text or a file as lines, and the logs of nccl-tests and rccl-tests since 2016.

Every reader of the library takes a path or a text, and tells them apart here.
"""

from fabriclab.importers.lines import (
    Line,
    Scan,
    Source,
    Unread,
    is_text,
    open_source,
    open_text,
    open_whole,
    text_lines,
)
from fabriclab.importers.nccl_tests import read_nccl_tests

__all__ = [
    "Line",
    "Scan",
    "Source",
    "Unread",
    "is_text",
    "open_source",
    "open_text",
    "open_whole",
    "read_nccl_tests",
    "text_lines",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
