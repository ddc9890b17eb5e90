"""Advice that fits what the files show: a setting that tells slow runs from fast ones, none that they have already."""

from __future__ import annotations

import re

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.comparison import slower_runs
from fabriclab.diagnosis.suspicion import Suspicion, cause_words
from fabriclab.texts import text

__all__ = ["fitted"]

# Causes of which figures alone tell, so that what a faster run had set says more than a setting from a book.
_BY_FIGURES = ("hash_collisions", "fewer_channels")
_ASSIGNED = re.compile(r"([A-Z][A-Z0-9_]+)=([\w.^=-]+)")
_SAYS_NOTHING = ("NCCL_DEBUG", "NCCL_TOPO_DUMP", "NCCL_GRAPH_DUMP")  # starts of names


def fitted(case: Case, suspicion: Suspicion) -> Suspicion:
    """Return a suspicion with the setting and the action that fit what the files show.

    Parameters
    ----------
    case : Case
        What the files say.
    suspicion : Suspicion
        The strongest one of its cause.
    """
    if suspicion.instead or suspicion.action:
        return suspicion
    if suspicion.cause in _BY_FIGURES:
        return _from_runs(case, suspicion)
    if suspicion.cause == "nvls_fabric_manager":
        return _of_fabric_manager(case, suspicion)
    return suspicion


def _from_runs(case: Case, suspicion: Suspicion) -> Suspicion:
    """Return a suspicion with what the fastest run had set and slower ones had not, or else with nothing they had."""
    slower = slower_runs(case)
    slow = {table.name for table, _ in slower}
    fast = {best.name for _, best in slower} - slow
    set_in = _settings(case)
    if fast and slow and all(name in set_in for name in slow | fast):
        best = min(fast)
        differs = []
        for name, value in sorted(set_in[best].items()):
            if all(set_in[each].get(name) != value for each in slow):
                differs.append(f"{name}={value}")
        for name in sorted(set.intersection(*(set(set_in[each]) for each in slow))):
            if name not in set_in[best]:
                differs.append(f"unset {name}")
        if differs:
            action = text("doctor.advice.runs", file=best)
            if any("ADAPTIVE_ROUTING" in each for each in differs):
                action += " " + text("doctor.advice.adaptive")
            return suspicion._replace(instead="; ".join(differs), action=action)
    usual = _ASSIGNED.fullmatch(cause_words(suspicion.cause, "setting"))
    names = slow or {table.name for table in case.measured}
    if usual and any(set_in.get(each, {}).get(usual[1]) == usual[2] for each in names):
        instead = text("doctor.advice.was_set", setting=usual[0])
        return suspicion._replace(instead=instead, gains=False)
    return suspicion


def _settings(case: Case) -> dict[str, dict[str, str]]:
    """Return the variables that each file has, by name."""
    found: dict[str, dict[str, str]] = {}
    pairs = [(each.name, each.value, each.line) for each in case.log.settings]
    pairs += [(each.name, each.value, each.line) for each in case.variables]
    for name, value, line in pairs:
        if not name.startswith(_SAYS_NOTHING):
            found.setdefault(line.file, {}).setdefault(name, value.strip())
    return found


def _of_fabric_manager(case: Case, suspicion: Suspicion) -> Suspicion:
    """Return a suspicion that does not advise to start a fabric manager that runs."""
    services = [each for each in case.services if "fabricmanager" in each.name]
    if not services or not all(each.active for each in services):
        return suspicion
    where = f"{services[0].line.file}:{services[0].line.number}"
    return suspicion._replace(
        instead=text("doctor.advice.fabric_manager_setting"),
        action=text("doctor.advice.fabric_manager", where=where),
    )
