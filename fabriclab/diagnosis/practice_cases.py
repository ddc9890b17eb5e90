"""Cases to practise on: logs that were re-created from the facts of public cases of trouble, with their causes.

The message formats are those of the tools; host names, addresses, times and the lines around the evidence were made for
this collection (see ``practice/README.md``). No text of a posted log was copied.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from fabriclab import units

__all__ = ["PracticeCase", "practice"]

_FOLDER = Path(__file__).with_name("practice")


class PracticeCase(NamedTuple):
    """A case to practise on.

    Parameters
    ----------
    id : str
        Such as ``"c17"``.
    symptom : str
        What somebody complained of.
    files : tuple of Path
        What a diagnosis may read.
    cause_id, cause : str
        What was wrong, by name and in words.
    evidence : str
        What shows it.
    evidence_file, evidence_token : str
        File, and a text that stands in the line that shows it.
    fix : str
        What mended it.
    difficulty : str
        easy, medium or hard.
    facts_from : str
        Where the facts are published.
    """

    id: str
    symptom: str
    files: tuple[Path, ...]
    cause_id: str
    cause: str
    evidence: str
    evidence_file: str
    evidence_token: str
    fix: str
    difficulty: str
    facts_from: str

    def __repr__(self) -> str:
        """Show the complaint, and not the cause."""
        return f"<PracticeCase {self.id}: {self.symptom}>"


def practice(id: str | None = None) -> Any:
    """Return a case to practise on, or the names of all.

    Parameters
    ----------
    id : str, optional
        Name of a case.

    Returns
    -------
    PracticeCase or tuple of str
        The case, or all names without ``id``.

    Raises
    ------
    ValueError
        If there is no such case; the error lists all names.

    Examples
    --------
    >>> practice("c49").symptom
    'some pairs of nodes reach about 49 GB/s, others about 88'
    """
    names = tuple(sorted(path.name for path in _FOLDER.iterdir() if path.is_dir()))
    if id is None:
        return names
    name = units.choice(id, "id", names, exact=True)
    folder = _FOLDER / name
    about = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    return PracticeCase(
        id=name,
        symptom=about["symptom"],
        files=tuple(folder / file for file in about["files"]),
        cause_id=about["cause_id"],
        cause=about["cause"],
        evidence=about["evidence"],
        evidence_file=about["evidence_file"],
        evidence_token=about["evidence_token"],
        fix=about["fix"],
        difficulty=about["difficulty"],
        facts_from=about["facts_from"],
    )
