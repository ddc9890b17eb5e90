"""`python -m fabriclab`: show what works here, your progress, grades of exercises, and the errors of our model."""

import argparse
import json
import sys
from pathlib import Path

import fabriclab
from fabriclab import errors
from fabriclab.course import checks
from fabriclab.course.classroom import command as class_command
from fabriclab.course.grading import commands
from fabriclab.texts import text


def main(argv: list[str] | None = None) -> int:
    """Run a command (by default the greeting), print its result, and return the exit code."""
    parser = argparse.ArgumentParser(prog="fabriclab", description=__doc__)
    parser.add_argument("--version", action="version", version=f"fabriclab {fabriclab.__version__}")
    parser.set_defaults(deed=checks.hello, on=None, run=None, diagnose=False)
    parts = parser.add_subparsers()
    commands.add_to(parts)
    class_command.add_to(parts)
    wrong = parts.add_parser(
        "validate", help="how far predicted times are from published measurements"
    )
    wrong.add_argument(
        "on", nargs="?", choices=("collectives", "steps", "inference"), metavar="WHAT"
    )
    wrong.set_defaults(deed=_errors)
    logs = parts.add_parser("doctor", help="what the logs of a run say is wrong with it")
    logs.add_argument("files", nargs="+", metavar="FILE")
    logs.add_argument("--json", action="store_true", help="print the suspects as JSON")
    logs.add_argument("--html", metavar="FILE", help="write the page as an HTML file")
    logs.add_argument(
        "--system",
        metavar="NAME",
        help="the cluster: a TOML file, such as one with gpu and servers, or the name of a published system",
    )
    logs.set_defaults(run=None, diagnose=True)
    progress = parts.add_parser("progress", help="what you predicted and answered")
    progress.set_defaults(deed=checks.progress)
    deeds = progress.add_subparsers()
    for name, deed, many in (
        ("export", checks.export_progress, None),
        ("import", checks.import_progress, None),
        ("forget", checks.forget, "?"),
    ):
        one = deeds.add_parser(name, help=(deed.__doc__ or "").partition("\n")[0])
        one.set_defaults(deed=deed)
        one.add_argument("on", nargs=many, metavar="WHAT" if many else "FILE")
    given = parser.parse_args(argv)
    if given.run:
        return int(commands.run(given))
    if given.diagnose:
        return _diagnose(given)
    try:
        sys.stdout.write(f"{given.deed(*filter(None, [given.on]))}\n")
    except (checks.InputRefused, checks.NewerFile, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _diagnose(given: argparse.Namespace) -> int:
    """Print what files say about a run; files that cannot be read are named, and the others count."""
    readable = []
    for name in given.files:
        if Path(name).is_file():
            readable.append(name)
        elif Path(name).is_dir():
            sys.stderr.write(text("doctor.folder", name=name.rstrip("/")) + "\n")
        else:
            sys.stderr.write(text("doctor.no_file", name=name) + "\n")
    if not readable:
        return 1
    if given.system and not _names_a_system(given.system):
        names = ", ".join(sorted(row["sweep_id"] for row in fabriclab.catalog.published.systems()))
        sys.stderr.write(text("doctor.no_system", name=given.system, names=names) + "\n")
        return 1
    try:
        found = fabriclab.doctor(*readable, system=given.system)
    except (ValueError, KeyError, errors.FileFormat) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if given.html:
        found.save(given.html)
    shown = json.dumps(found.as_list(), indent=1) if given.json else str(found)
    sys.stdout.write(f"{shown}\n")
    return 0


def _names_a_system(name: str) -> bool:
    """Return whether a name is that of a file, or of a published system."""
    known = {row["sweep_id"] for row in fabriclab.catalog.published.systems()}
    return name in known or Path(name).is_file()


def _errors(on: str = "") -> str:
    """Return the errors of our models of collectives, of training steps and of inference, or of one of them."""
    validate = fabriclab.validate  # loaded here, since no other command needs the models
    reports = {
        "collectives": validate.report,
        "steps": validate.step_report,
        "inference": validate.inference_report,
    }
    chosen = [on] if on else list(reports)
    return "\n\n\n".join(str(reports[name]()) for name in chosen)


if __name__ == "__main__":
    sys.exit(main())
