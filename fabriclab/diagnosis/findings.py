"""What a diagnosis consists of, for the page that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.comparison import Comparison
from fabriclab.diagnosis.ranking import Suspect
from fabriclab.systems import System

__all__ = ["Findings"]


@dataclass(frozen=True, repr=False)
class Findings:
    """What files say about a run.

    Parameters
    ----------
    case : Case
        All that was read.
    suspects : tuple of Suspect
        The likeliest first. A run whose largest size reaches its band, and of which no message says otherwise, has
        ``none_healthy`` on top.
    comparisons : tuple of Comparison
        Measured against expected, a table each.
    system : System or None
        The cluster, as far as the files describe it.
    """

    case: Case
    suspects: tuple[Suspect, ...]
    comparisons: tuple[Comparison, ...] = ()
    system: System | None = None

    def as_list(self) -> list[dict[str, Any]]:
        """Return the suspects as plain values, the likeliest first: cause_id, evidence, setting, gain and sure."""
        return [
            {
                "cause_id": suspect.cause_id,
                "evidence": suspect.evidence,
                "setting": suspect.setting,
                "gain": round(suspect.gain, 2),
                "sure": round(suspect.sure, 2),
            }
            for suspect in self.suspects
        ]

    def __repr__(self) -> str:
        """Name the first suspect."""
        if not self.suspects:
            if any(each.below for each in self.comparisons):
                return "<Diagnosis: the run is below its band, and nothing says why>"
            return "<Diagnosis: nothing to go by>"
        first = self.suspects[0]
        return f"<Diagnosis: {first.title} ({first.cause_id}), {first.sure:.2f} sure>"
