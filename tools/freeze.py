"""Freeze what the code does today, and say later what has changed.

The modules of this library are about to be reformatted and moved, and nothing that a learner
sees may change by that. This program runs every live view, question, exercise and engine with
fixed seeds and writes what comes out::

    python tools/freeze.py --write FILE      write what the working tree does
    python tools/freeze.py --compare FILE    say what differs from that, by key
    python tools/freeze.py --compare         the same, against the commit `BASELINE`

Without a file the baseline is made once from a checkout of `BASELINE` and kept in the user's
cache. Differences that are meant stand in ``freeze_expected.toml`` with their reason. The exit
code is 1 if another one is found.

Not asked are: what measures this machine, docstrings, and the programs `grade`, `release` and
`replay` beyond their help (the tests hold those). Cases of exercise 3 are held through verdicts.
No progress file of a user is touched. Numbers
are frozen to the last bit, so both sides must be made on the same kind of machine with the same
packages.

This program, ``freezing/`` and ``freeze_expected.toml`` can be deleted once the modules have
moved and the tests that stay hold what they do.
"""

import argparse
import fnmatch
import gzip
import hashlib
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BASELINE = "9396a5b95d04d8f7d5f7605d25112210543e75d0"
SECTIONS = ("interface", "engines", "questions", "exercises", "scenes")
EXPECTED = HERE / "freeze_expected.toml"
FIXED = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
    "COLUMNS": "80",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}
OURS = ("FABRICLAB_TEXT", "FABRICLAB_REVEAL", "FABRICLAB_LANGUAGE")  # switches that must be off
_GZIP = b"\x1f\x8b"  # how a compressed file begins
_LARGEST = 20_000_000  # bytes of a file that is not compressed
_SHOWN = 160  # characters of a value that a difference shows
_FEW = 12  # parts of a section that are counted one by one
_MOST = 5  # differences shown of one part of a section, unless all are asked for


@dataclass(frozen=True)
class Difference:
    """A key whose value is not what it was; None where there is no value."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Expected:
    """Differences that are meant, and why."""

    name: str
    keys: tuple[str, ...]
    why: str
    after: Mapping[str, str]  # key -> digest of the value that is meant, where others are not

    def covers(self, difference: Difference) -> bool:
        """Return whether a difference is one of these."""
        if difference.key in self.after:
            return digest(difference.after) == self.after[difference.key]
        return any(fnmatch.fnmatchcase(difference.key, pattern) for pattern in self.keys)


def digest(value: str | None) -> str:
    """Return a short name for a value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


# Making -----------------------------------------------------------------------------------------


def make(file: Path, tree: Path, sections: tuple[str, ...] = SECTIONS) -> None:
    """Write what the library in a tree does, in a fresh process with fixed seeds.

    Raises
    ------
    SystemExit
        If that process fails.
    """
    with tempfile.TemporaryDirectory(prefix="fabriclab-freeze-") as folder:
        kept = {name: value for name, value in os.environ.items() if name not in OURS}
        own = {
            "FABRICLAB_PROGRESS": str(Path(folder, "progress.json")),
            "XDG_CACHE_HOME": str(Path(folder, "cache")),
            "PYTHONPATH": os.pathsep.join([str(tree), str(HERE)]),
        }
        # In an empty folder matplotlib would list all fonts anew, which takes long.
        own["MPLCONFIGDIR"] = os.environ.get("MPLCONFIGDIR") or _matplotlib_folder()
        command = [sys.executable, "-X", "utf8", str(HERE / "freeze.py")]
        command += [
            "--inner",
            str(file.resolve()),
            "--tree",
            str(tree),
            "--sections",
            ",".join(sections),
        ]
        work = Path(folder, "work")
        work.mkdir()
        done = subprocess.run(command, cwd=work, env=kept | FIXED | own, check=False)
    if done.returncode:
        sys.exit(f"freezing {tree} failed with exit code {done.returncode}")


def _matplotlib_folder() -> str:
    """Return where matplotlib keeps its list of fonts."""
    import matplotlib

    return matplotlib.get_configdir()


def freeze(file: Path, tree: Path, sections: tuple[str, ...]) -> None:
    """Run the sections in this process and write what they give.

    Raises
    ------
    SystemExit
        If the library comes from elsewhere than the tree.
    """
    import fabriclab

    place = Path(fabriclab.__file__).resolve().parents[1]
    if place != tree.resolve():
        sys.exit(f"fabriclab must come from {tree}, got {place}")
    _say(f"fabriclab from {place}")
    frozen: dict[str, Any] = {}
    for name in sections:
        begun = time.monotonic()
        module = importlib.import_module(f"freezing.{name}")
        frozen[name] = module.frozen()
        count = sum(1 for _ in leaves(frozen[name]))
        _say(f"{name}: {count:,} values in {time.monotonic() - begun:.1f} s{_parts(frozen[name])}")
    write(file, frozen)
    _say(f"written: {file.name}, {file.stat().st_size / 1e6:.1f} MB")


def _parts(section: Mapping[str, Any]) -> str:
    """Return how many entries each part of a section has, if that fits on a line."""
    counts = [f"{key} {len(part)}" for key, part in section.items() if isinstance(part, Mapping)]
    return f" ({', '.join(counts)})" if len(counts) <= _FEW else ""


def _say(sentence: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def write(file: Path, frozen: Mapping[str, Any]) -> None:
    """Write frozen values as JSON, compressed if they are many or the file is named so."""
    data = json.dumps(frozen, indent=0, ensure_ascii=False, sort_keys=True).encode()
    if file.suffix == ".gz" or len(data) > _LARGEST:
        data = gzip.compress(data, mtime=0)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def read(file: Path) -> dict[str, Any]:
    """Return frozen values from a file."""
    data = file.read_bytes()
    if data.startswith(_GZIP):
        data = gzip.decompress(data)
    return json.loads(data)


def baseline() -> Path:
    """Return the frozen values of `BASELINE`; what is not in the cache is made first."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fabriclab")
    # Another version of this program asks other things, so its answers are others.
    file = cache / f"freeze-{BASELINE[:12]}-{_own_hash()}.json.gz"
    if file.exists():
        return file
    _say(f"making the baseline from commit {BASELINE[:12]}")
    repository = HERE.parent
    with tempfile.TemporaryDirectory(prefix="fabriclab-baseline-") as folder:
        tree = Path(folder, "tree")
        add = ["git", "worktree", "add", "--quiet", "--detach", str(tree), BASELINE]
        subprocess.run(add, cwd=repository, check=True)
        try:
            part = file.with_name(f"part-{file.name}")
            part.parent.mkdir(parents=True, exist_ok=True)
            make(part, tree)
            part.replace(file)
        finally:
            remove = ["git", "worktree", "remove", "--force", str(tree)]
            subprocess.run(remove, cwd=repository, check=True)
    return file


def _own_hash() -> str:
    """Return a hash of this program, of what it asks, and of what it runs with."""
    files = [
        HERE / "freeze.py",
        *sorted(HERE.glob("freezing/*.py")),
        *sorted(HERE.glob("freezing/data/*")),
    ]
    packages = [f"{name} {version(name)}" for name in ("numpy", "scipy", "matplotlib")]
    whole = hashlib.sha256(f"{sys.version} {packages}".encode())
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:8]


# Comparing --------------------------------------------------------------------------------------


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield key and text of every value within nested tables; a list is one value."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from leaves(part, f"{key}/{name}" if key else name)
    else:
        yield key, json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Renamed:
    """A class that has another name now, wherever a key that fits ``where`` or its value names it."""

    where: str
    before: str
    after: str

    def apply(self, key: str, value: str) -> tuple[str, str]:
        """Return a key and its value with the name of today."""
        if not fnmatch.fnmatchcase(key, self.where):
            return key, value
        word = rf"\b{self.before}\b"
        return re.sub(word, self.after, key), re.sub(word, self.after, value)


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], renamed: Iterable[Renamed] = ()
) -> list[Difference]:
    """Return every key whose value is not the same in both, in the order of keys."""
    old, new = {}, dict(leaves(after))
    for key, value in leaves(before):
        for row in renamed:
            key, value = row.apply(key, value)
        old[key] = value
    found = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            found.append(Difference(key, old.get(key), new.get(key)))
    return found


def expected() -> tuple[list[Expected], list[Renamed]]:
    """Return the differences and the new names that are meant, as ``freeze_expected.toml`` lists them."""
    rows = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))
    renamed = [Renamed(**row) for row in rows.pop("renamed", [])]
    differing = [
        Expected(name, tuple(row.get("keys", ())), row["why"], row.get("after", {}))
        for name, row in rows.items()
    ]
    return differing, renamed


def report(found: list[Difference], meant: list[Expected], every: bool) -> int:
    """Print differences, the unexpected ones first, and return how many those are."""
    unexpected = [d for d in found if not any(row.covers(d) for row in meant)]
    for section in dict.fromkeys(d.key.split("/")[0] for d in unexpected):
        part = [d for d in unexpected if d.key.split("/")[0] == section]
        print(f"\n== {section}: {len(part)} different")
        _list(part, every)
    for row in meant:
        part = [d for d in found if row.covers(d)]
        if part:
            print(f"\n== expected: {row.name}, {len(part)} different. {row.why}")
            _list(part, every)
        else:
            patterns = ", ".join((*row.keys, *row.after))
            print(f"\n== expected, but not found: {row.name} ({patterns}); remove this row")
    print(f"\n{len(found)} differences, {len(unexpected)} of them not expected")
    return len(unexpected)


def _list(found: list[Difference], every: bool) -> None:
    """Print differences, of each part of a section the first few."""
    parts: dict[str, list[Difference]] = {}
    for difference in found:
        part = "/".join(difference.key.split("/")[:2])
        parts.setdefault(part, []).append(difference)
    for part, of_part in parts.items():
        shown = of_part if every else of_part[:_MOST]
        for difference in shown:
            _show(difference)
        if len(of_part) > len(shown):
            print(f"  … and {len(of_part) - len(shown)} more in {part}; --all shows them")


def _show(difference: Difference) -> None:
    """Print one difference, from a little before the place where the two values part."""
    before, after = difference.before, difference.after
    start = 0
    if before is not None and after is not None:
        pairs = zip(before, after, strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        start = max(0, same - _SHOWN // 4)
    print(f"  {difference.key}")
    print(f"    before: {_short(before, start)}")
    print(f"    after:  {_short(after, start)}  [{digest(after)}]")


def _short(value: str | None, start: int) -> str:
    """Return a part of a value that fits on a line."""
    if value is None:
        return "(not there)"
    part = value[start : start + _SHOWN].replace("\n", "⏎")
    return f"{'…' if start else ''}{part}{'…' if start + _SHOWN < len(value) else ''}"


# Command line -----------------------------------------------------------------------------------


def main() -> int:
    """Do what the command line asks, and return the exit code."""
    parser = argparse.ArgumentParser(
        description="Freeze what the code does, and say what has changed."
    )
    parser.add_argument(
        "--write", metavar="FILE", type=Path, help="write what the working tree does"
    )
    parser.add_argument(
        "--compare", metavar="FILE", type=Path, nargs="?", const=Path(), help="say what differs"
    )
    parser.add_argument(
        "--sections", default=",".join(SECTIONS), help="only these, such as scenes,questions"
    )
    parser.add_argument(
        "--all", action="store_true", help="show every difference, however many there are"
    )
    parser.add_argument("--inner", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, default=HERE.parent, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sections = tuple(given.sections.split(","))
    if strange := set(sections) - set(SECTIONS):
        parser.error(
            f"--sections must be of {', '.join(SECTIONS)}, got {', '.join(sorted(strange))}"
        )
    if given.inner:
        freeze(given.inner, given.tree, sections)
        return 0
    if given.write:
        make(given.write, given.tree, sections)
        return 0
    if given.compare is None:
        parser.error("one of --write and --compare is needed")
    meant, renamed = expected()
    before = read(given.compare if given.compare.name else baseline())
    with tempfile.TemporaryDirectory(prefix="fabriclab-compare-") as folder:
        file = Path(folder, "now.json")
        make(file, given.tree, sections)
        after = read(file)
    asked = {name: before[name] for name in sections if name in before}
    found = differences(asked, after, renamed)
    return 1 if report(found, meant, given.all) else 0


if __name__ == "__main__":
    sys.exit(main())
