"""Where the lessons and the coverage list are, for the programs in this folder and for tests."""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = {path.stem: path for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))}
COVERAGE = ROOT / "tests" / "data" / "coverage.csv"
ROWS = {row["id"]: row for row in csv.DictReader(COVERAGE.read_text("utf-8").splitlines())}
