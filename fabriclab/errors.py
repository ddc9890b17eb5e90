"""Errors that a caller may want to handle; wrong arguments raise ValueError or TypeError."""

from typing import Self

__all__ = [
    "Deadlock",
    "DoesNotFit",
    "FabricError",
    "FileFormat",
    "FileMissing",
    "NoPath",
    "OutOfSlots",
    "TooLarge",
    "Unreachable",
]


class FabricError(Exception):
    """Base of these errors: any state of a fabric, a file or a run that the caller may want to handle."""


class NoPath(FabricError):
    """Two nodes have no path that obeys the transit rules."""


class Unreachable(FabricError):
    """A flow can never end, because every route that it may use has a link of capacity 0."""


class Deadlock(FabricError):
    """Flows wait for each other in a cycle."""


class DoesNotFit(FabricError):
    """A model needs more memory than its GPUs have, or a group of ranks has more members than its domain."""


class TooLarge(FabricError):
    """The result would need more memory than the machine has."""


class OutOfSlots(FabricError):
    """A switch has not enough room left for another job."""


class FileFormat(FabricError):
    """A file is damaged, of another format, or newer than this version can read."""

    @classmethod
    def at(cls, line: int, what: str) -> Self:
        """Return an error that names the line of the text it is about."""
        return cls(f"line {line}: {what}")


class FileMissing(FileFormat, FileNotFoundError):
    """There is no file of a name, and the name is no text that a tool printed either."""


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
