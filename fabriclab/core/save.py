"""Write a file so that nobody ever reads a part of it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["write_atomic"]


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` so that a reader sees the old file or the new one, never a part."""
    goal = Path(path)
    part = goal.with_name(f".{goal.name}.{secrets.token_hex(8)}")
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(goal)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
