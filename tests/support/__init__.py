"""What tests share: answers of learners, browsers, executed lessons, random fabrics, oracles; nothing is a test."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
