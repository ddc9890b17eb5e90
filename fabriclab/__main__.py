"""`python -m fabriclab`: show what works here, your progress, grades of exercises, and the errors of our model."""

import argparse
import sys

import fabriclab
from fabriclab import validate
from fabriclab.course import checks
from fabriclab.course.grading import commands


def main(argv: list[str] | None = None) -> int:
    """Run a command (by default the greeting), print its result, and return the exit code."""
    parser = argparse.ArgumentParser(prog="fabriclab", description=__doc__)
    parser.add_argument("--version", action="version", version=f"fabriclab {fabriclab.__version__}")
    parser.set_defaults(deed=checks.hello, on=None, run=None)
    parts = parser.add_subparsers()
    commands.add_to(parts)
    wrong = parts.add_parser(
        "validate", help="how far predicted times are from published measurements"
    )
    wrong.add_argument(
        "on", nargs="?", choices=("collectives", "steps", "inference"), metavar="WHAT"
    )
    wrong.set_defaults(deed=_errors)
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
    try:
        sys.stdout.write(f"{given.deed(*filter(None, [given.on]))}\n")
    except (checks.InputRefused, checks.NewerFile, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _errors(on: str = "") -> str:
    """Return the errors of our models of collectives, of training steps and of inference, or of one of them."""
    reports = {
        "collectives": validate.report,
        "steps": validate.step_report,
        "inference": validate.inference_report,
    }
    chosen = [on] if on else list(reports)
    return "\n\n\n".join(str(reports[name]()) for name in chosen)


if __name__ == "__main__":
    sys.exit(main())
