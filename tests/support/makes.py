"""Calls of make from tests, which make itself may have started."""

import os
import subprocess
from pathlib import Path

# What make tells those that it starts: its options, and how deep they are. A make that inherits them says which
# folder it enters, takes the settings of the outer one, and looks for its free jobs.
_INHERITED = ("MAKE", "MFLAGS")


def make(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run make in a folder as a user would call it there, and return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_INHERITED)}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )
