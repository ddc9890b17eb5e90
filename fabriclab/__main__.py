"""`python -m fabriclab`: a greeting that says what works on this machine."""

from __future__ import annotations

import argparse
import sys

import fabriclab


def main(argv: list[str] | None = None) -> int:
    """Print the greeting, or with ``--version`` the version, and return the exit code."""
    parser = argparse.ArgumentParser(prog="fabriclab", description=__doc__)
    parser.add_argument("--version", action="version", version=f"fabriclab {fabriclab.__version__}")
    parser.parse_args(argv)
    sys.stdout.write(f"{fabriclab.hello()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
