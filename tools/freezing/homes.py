"""Where things live that the front door does not offer: here, and in the commit that is the baseline.

Everything else is reached through names such as ``fl.check``, ``fl.live``, ``fl.registry`` and ``fl.exercises``.
"""

import contextlib
import importlib
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import fabriclab

# Of each, the place of today and that of the baseline.
ASKER = ("fabriclab.course.judges.shared.calls:asker", "fabriclab.checks.exercises:_asker")
STORE = ("fabriclab.course.progress.store", "fabriclab.checks.store")


def home(*places: str) -> Any:
    """Return the first module, or member of a module (``module:name``), that is there.

    Raises
    ------
    ImportError
        If there is none; the new place belongs into the table of this file.
    """
    for place in places:
        module, _, name = place.partition(":")
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        return getattr(found, name) if name else found
    raise ImportError(f"none of {', '.join(places)} is there; add the new place to {__file__}")


def asker() -> Any:
    """Return what makes, of a learner's functions, the callable that a judge asks."""
    return home(*ASKER)


@contextlib.contextmanager
def one_moment() -> Iterator[None]:
    """Make every answer of the same moment, so that no day or time of the clock is frozen."""
    moment = datetime(2026, 1, 5, 12, tzinfo=UTC)
    with mock.patch.object(home(*STORE), "now", lambda: moment):
        yield


def library_file(name: str) -> Path:
    """Return the one file of this name inside the library, wherever it stands.

    Raises
    ------
    FileNotFoundError
        If there is not exactly one.
    """
    root = Path(fabriclab.__file__).parent
    found = sorted(root.rglob(name))
    if len(found) != 1:
        raise FileNotFoundError(f"{name} must be in the library once, got {len(found)}")
    return found[0]


# Questions: in tables and the table of sentences once, in a file for each lesson and exercise today ---------------


def question_files() -> dict[str, dict[str, Any]]:
    """Return the files of questions by name; empty for a library that has none."""
    folder = Path(fabriclab.__file__).parent / "course" / "questions"
    return {
        file.stem: tomllib.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("*.toml"))
    }


def question_rows() -> list[dict[str, str]]:
    """Return the questions of lessons as rows of the table that held them once."""
    rows = []
    for held in question_files().values():
        for id, entry in held.items():
            if "lesson" not in held or "-" not in id:
                continue
            quantities = entry.get("quantities", {})
            wrong = entry.get("wrong", [])
            pairs = [f"{one.get('formula', '')} # {one['mistake']}" for one in wrong]
            plain = ("kind", "drill", "row", "formula", "unit", "erratum")
            rows.append(
                {
                    "id": id,
                    "lesson": held["lesson"],
                    **{key: entry.get(key, "") for key in plain},
                    "params": ";".join(f"{n}={'|'.join(ways)}" for n, ways in quantities.items()),
                    "tolerance": str(entry.get("tolerance", 0)),
                    "misformulas": "; ".join(pairs),
                }
            )
    return rows


def prediction_rows() -> list[dict[str, str]]:
    """Return the predictions of lessons as rows of the table that held them once."""
    return [
        {
            "id": id,
            "lesson": held["lesson"],
            "unit": entry["unit"],
            "from": str(entry["lowest"]),
            "to": str(entry["highest"]),
        }
        for held in question_files().values()
        for id, entry in held.get("predictions", {}).items()
    ]


def question_sentences() -> dict[str, str]:
    """Return the sentences of questions, by the keys that they had in the table of sentences."""
    found: dict[str, str] = {}
    for name, held in question_files().items():
        mistakes = dict(held.get("misconceptions", {}))
        for id, entry in held.items():
            if "-" not in id:
                continue
            found |= sentences_of(id, entry, "lesson" in held)
            known = [*entry.get("wrong", [])]
            for part_name, part in entry.get("parts", {}).items():
                for returned in part["returns"]:
                    known += returned.get("wrong", [])
                    if "step" in returned:
                        found[f"{id.split('-')[0]}.{part_name}.step"] = returned["step"]
            mistakes |= {w["mistake"]: w["misconception"] for w in known if "misconception" in w}
            mistakes |= entry.get("misconceptions", {})
        found |= {f"mis.{mistake}": said for mistake, said in mistakes.items()}
        for id, entry in held.get("predictions", {}).items():
            found[f"guess.{id}"] = entry["title"]
        short = name.replace("exercise", "ex")
        found |= {f"{short}.{key}": said for key, said in held.get("messages", {}).items()}
        if "title" in held:
            found[f"grade.title.{short}"] = held["title"]
    return found


def sentences_of(id: str, entry: dict[str, Any], of_lesson: bool) -> dict[str, str]:
    """Return the sentences of one question by their earlier keys."""
    found = {f"q.{id}": entry["prompt"], f"{id}.why": entry["explanation"]}
    if of_lesson:
        found[f"title.{id}"] = entry["title"]
    else:
        found[f"grade.title.{id}"] = f"{id} {entry['title']}"
    if "right" in entry:
        found[f"{id}.right"] = entry["right"]
        for place, wrong in enumerate(entry["wrong"], 1):
            found[f"{id}.wrong{place}"] = wrong["option"]
    hints = {id: entry.get("hints", [])}
    hints |= {f"{id}.{name}": own for name, own in entry.get("hints_of", {}).items()}
    for start, those in hints.items():
        found |= {f"{start}.hint{level}": hint for level, hint in enumerate(those, 1)}
    return found
