"""Students' files from their sources: ``make exercises`` writes those of ``solutions/`` into ``exercises/``."""

import json
import sys
from pathlib import Path

from fabriclab.core import write_atomic
from fabriclab.course.grading.notebooks import as_bytes, student_version


def build(sources, out):
    """Write the student's file of every source."""
    for path in sorted(Path(sources).glob("*.ipynb")):
        write_atomic(Path(out, path.name), as_bytes(student_version(json.loads(path.read_bytes()))))
        sys.stdout.write(f"written: {Path(out, path.name).as_posix()}\n")


if __name__ == "__main__":
    build(*sys.argv[1:])
