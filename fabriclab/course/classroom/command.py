"""The command ``class``: make the page of a class from a folder of progress files."""

import argparse
import sys
from pathlib import Path
from typing import Any

from fabriclab.course.questions import own
from fabriclab.course.shown import refuse_if
from fabriclab.texts import text


def add_to(parts: Any) -> None:
    """Add the command to the parser of ``python -m fabriclab``."""
    command = parts.add_parser("class", help=text("class.help"), description=text("class.help"))
    command.set_defaults(run=_class)
    command.add_argument("folder", metavar="FOLDER", help=text("class.help.folder"))
    command.add_argument("--out", default="class.html", metavar="FILE", help=text("class.help.out"))
    command.add_argument("--names", action="store_true", help=text("class.help.names"))


def _class(args: argparse.Namespace) -> int:
    """Write the page of a class; return 0, or 1 if a file could not be read."""
    # Loaded here, since no other command needs the questions of all lessons.
    from fabriclab.course.classroom import page
    from fabriclab.course.classroom.collected import collect

    own.load_all()  # an instructor's exercises, whose answers count as well
    out = Path(args.out)
    refuse_if(out.suffix != ".html", "class.out", out=out)
    found = collect(args.folder)
    page.write(found, out, names=args.names)
    for sentence in found.unread:
        sys.stderr.write(f"{sentence}\n")
    sys.stderr.write(text("class.written", n=len(found.students), out=out) + "\n")
    return 1 if found.unread else 0
