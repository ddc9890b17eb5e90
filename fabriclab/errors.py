"""Errors that a caller may react to; wrong arguments raise ValueError or TypeError."""

from typing import Self


class FabricError(Exception):
    """Any state of a fabric, a file or a run that the caller may want to handle."""


class NoPath(FabricError):
    """Two nodes have no path that obeys the transit rules."""


class Unreachable(FabricError):
    """A flow can never end: every route it may use has a link of capacity 0."""


class Deadlock(FabricError):
    """Flows wait for each other in a cycle."""


class TooLarge(FabricError):
    """The answer would need more memory than the machine has."""


class OutOfSlots(FabricError):
    """A switch has no room left for what another job asks of it."""


class FileFormat(FabricError):
    """A file is broken, of another kind, or newer than this version can read."""

    @classmethod
    def at(cls, line: int, what: str) -> Self:
        """Return the error that a line of a text makes."""
        return cls(f"line {line}: {what}")
