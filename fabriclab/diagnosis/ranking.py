"""Suspects in order: what many signs say together, which cause explains another, and when a run is called healthy."""

from __future__ import annotations

from typing import NamedTuple

from fabriclab import registry
from fabriclab.diagnosis.advice import fitted
from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.comparison import Comparison, figure
from fabriclab.diagnosis.suspects.network import rdma_came_up
from fabriclab.diagnosis.suspicion import Suspicion, cause_words, causes
from fabriclab.importers.lines import Line

__all__ = ["HEALTHY", "Suspect", "rank"]

HEALTHY = "none_healthy"
# A cause, and what follows from it: a fault of its own only if the cause is not there.
_FOLLOWS = {
    "plugin_missing": ("fallback_to_sockets",),
    "ofi_provider_tcp": ("fallback_to_sockets", "plugin_missing"),
    "wrong_hca": ("fallback_to_sockets", "rails_down", "gid_index", "rank_absent"),
    "gid_index": ("rails_down", "firewall", "wrong_hca", "cross_nic", "rank_absent"),
    "cross_nic": ("rails_down", "firewall", "gid_index", "wrong_hca", "rank_absent"),
    "collective_mismatch": ("rank_absent", "straggler"),
    "firewall": ("rails_down",),
    "wrong_socket_ifname": ("firewall", "fallback_to_sockets"),
    "fallback_to_sockets": ("gdr_off", "gdr_distance", "plugin_missing"),
    "shm_too_small": ("fallback_to_sockets", "p2p_disabled"),
    "p2p_disabled": ("fewer_channels",),
    "rails_down": ("one_nic_used", "rank_absent"),
    "mtu_mismatch": ("rails_down", "gid_index", "rank_absent", "firewall"),
    "version_mismatch": ("collective_mismatch", "firewall"),
    "acs": ("rails_down", "iommu"),
    "cpu_binding": ("straggler",),
}
_SURE = 0.7  # from here on a cause takes the weight of what follows from it
_TAKEN = 0.5  # factor
# Speed alone cannot show these, and a good rate does not clear them.
_STOPS = {
    "collective_mismatch",
    "rank_absent",
    "shm_too_small",
    "firewall",
    "gid_index",
    "nvls_fabric_manager",
    "wrong_socket_ifname",
    "acs",
    "wrong_hca",
    "version_mismatch",
}
# What makes a run slow, and never stops it.
_SLOWS = {
    "fallback_to_sockets",
    "ofi_provider_tcp",
    "gdr_off",
    "gdr_distance",
    "one_nic_used",
    "fewer_channels",
    "nic_far",
    "cpu_binding",
    "hash_collisions",
    "p2p_disabled",
}
_CHOSEN = ("p2p_disabled", "shm_disabled")  # costs speed, and stops no run
_AT_MOST = 0.39  # how sure we are that one of them made a run fail
_STOPPED = 0.35  # from here on a cause that stops runs counts as seen
# In warnings that healthy runs print, too.
_HARMLESS = (
    "iommu=pt",
    "amd_iommu=on",
    "HSA_FORCE_FINE_GRAIN_PCIE",
    "NUMA auto balancing",
    "Failed to open libibverbs",
    "is ignored due to",
    "is being ignored",
)
_FACT = 0.85  # a cause this sure stays a finding in a run that is fast enough
_CLEARED = 0.5  # factor for what costs speed, in a run that is as fast as expected
_QUIET = 0.4  # how sure of health we are if nothing was measured, and nothing is said
_HEALTHY = 0.84
_MOSTLY_SHORT = 0.6  # the same if the largest size reaches its band, and half of all sizes do not
_HALF = 0.5  # of the sizes
_LEAST = 0.15
_NO_GAIN = 1.0  # what stops a run has no speed to gain


class Suspect(NamedTuple):
    """A cause in its place in the order, with all that shows it.

    Parameters
    ----------
    cause_id : str
        Name of the cause, as in ``causes.toml``.
    sure : float
        How sure the files make us, 0 to 1.
    where : Line or None
        The line that shows it best.
    why : str
        What the line or the figures say, in words.
    gain : float
        How many times as fast the largest size would be by the model or the earlier run; 1 if unknown.
    unset : tuple of str
        Variables to unset, which the files show to be set.
    also : str
        A setting that helps because of the sign that was seen; empty if there is none.
    instead, then : str
        Setting and action in place of those of the cause, because of what the files show; empty to keep those.
    """

    cause_id: str
    sure: float
    where: Line | None
    why: str
    gain: float
    unset: tuple[str, ...] = ()
    also: str = ""
    instead: str = ""
    then: str = ""

    @property
    def title(self) -> str:
        """What is wrong."""
        return cause_words(self.cause_id, "title")

    @property
    def setting(self) -> str:
        """The variable or command to try; the action where there is none."""
        return self.typed or self.action

    @property
    def action(self) -> str:
        """What to try, and how to confirm it."""
        return self.then or cause_words(self.cause_id, "action")

    @property
    def typed(self) -> str:
        """The variable or command to try, as it is typed; empty where there is none."""
        unset = f"unset {' '.join(self.unset)}" if self.unset else ""
        parts = (unset, self.instead or cause_words(self.cause_id, "setting"), self.also)
        return "; ".join(part for part in parts if part)

    @property
    def evidence(self) -> str:
        """The line that shows it, and why, as text."""
        parts = [str(self.where) if self.where else "", self.why]
        return "; ".join(part for part in parts if part)


def rank(case: Case, comparisons: list[Comparison]) -> list[Suspect]:
    """Return the suspects in order, the likeliest first.

    Parameters
    ----------
    case : Case
        What the files say.
    comparisons : list of Comparison
        Measured against expected.
    """
    strongest = _strongest(case)
    weights = {cause: suspicion.sure for cause, suspicion in strongest.items()}
    explained = set[str]()
    for cause in sorted(strongest, key=lambda each: -strongest[each].sure):
        if cause in explained or strongest[cause].sure < _SURE:
            continue  # what follows from something else explains nothing itself
        for other in _FOLLOWS.get(cause, ()):
            if (
                other in weights
                and other not in explained
                and strongest[other].sure <= strongest[cause].sure
            ):
                explained.add(other)
                weights[other] *= _TAKEN

    stops = [strongest[cause].sure for cause in strongest if cause in _STOPS]
    stopped = case.log.warnings or _failed(case)
    if stopped and not case.tables and max(stops, default=0.0) >= _STOPPED:
        for cause in weights:  # the run ended in an error, which no lack of speed explains
            if cause in _SLOWS:
                weights[cause] *= _TAKEN

    if case.failure and not case.measured:
        for cause in weights:  # somebody set these for a test, or every such machine prints them
            where = strongest[cause].where
            if cause in _CHOSEN or (cause == "fallback_to_sockets" and _is_notice(where)):
                weights[cause] = min(weights[cause], _AT_MOST)

    for cause in weights:
        if _got_around(case, cause, strongest[cause].where):
            weights[cause] = min(weights[cause], _AT_MOST)

    states = [each.healthy for each in comparisons if each.healthy is not None]
    below = any(each.below for each in comparisons)
    fast = bool(states) and all(states) and not below
    judged = [each.sound for each in comparisons if each.sound or each.healthy is not None]
    if judged and all(judged):
        ended = not _failed(case)
        for cause in weights:
            stops_runs = cause in _STOPS
            if (stops_runs and ended) or (not stops_runs and strongest[cause].sure < _FACT):
                weights[cause] *= _CLEARED

    gain = max((each.gain for each in comparisons if each.healthy is False), default=1.0)
    found = []
    for cause, weight in weights.items():
        if weight >= _LEAST:
            suspicion = fitted(case, strongest[cause])
            possible = _NO_GAIN if cause in _STOPS or not suspicion.gains else gain
            unset = _to_unset(case, cause)
            shown = (suspicion.where, suspicion.why)
            advised = (suspicion.also, suspicion.instead, suspicion.action)
            found.append(Suspect(cause, weight, *shown, possible, unset, *advised))
    health = _health(case, comparisons, fast, states)
    if health and (fast or not any(suspect.sure > _QUIET for suspect in found)):
        found.append(health)
    return sorted(found, key=lambda suspect: -suspect.sure)


def _got_around(case: Case, cause: str, where: Line | None) -> bool:
    """Return whether a variable was set in a run that went well, beside another one that failed: a way around it."""
    if where is None or "set_so" not in causes()[cause]:
        return False
    went_well = {table.name for table in case.measured}
    failed = {each.file for each in case.waits} | {each.line.file for each in case.timeouts}
    failed |= {each.line.file for each in case.completions}
    failed |= {each.line.file for each in case.queue_pairs}
    if case.failure:
        failed.add(case.failure.file)
    return where.file in went_well and bool(failed - went_well)


def _failed(case: Case) -> bool:
    """Return whether anything says that a run stopped, be it the library, a watchdog or a table without a row."""
    failed = case.failure or case.timeouts or case.waits or case.ended_ranks
    return bool(failed or case.tcp_failures or case.queue_pairs or case.completions)


def _to_unset(case: Case, cause: str) -> tuple[str, ...]:
    """Return the variables that cause it and are set, in the files, to a value that does."""
    found = []
    for entry in causes()[cause].get("unset", ()):
        name, _, value = entry.partition("=")
        given = case.setting(name)
        if given and (not value or given[0].strip().lower() == value):
            found.append(name)
    return tuple(found)


def _is_notice(where: Line | None) -> bool:
    """Return whether a line only tells which network was found, as it does on every machine without RDMA."""
    return where is not None and "WARN" not in where.text and " set by " not in where.text


def _ruled_out(case: Case) -> set[str]:
    """Return the causes that the log itself excludes, whatever a single line of it may sound like."""
    excluded = set()
    if rdma_came_up(case):
        # That no plugin was found is a notice then: the built-in network for RDMA is used.
        excluded |= {"plugin_missing", "fallback_to_sockets"}
    outside = [channel for channel in case.log.outside_channels if channel.network != "Socket"]
    if (outside and all(channel.gdr for channel in outside)) or case.unified_memory:
        # Where GPUs share the memory of the processor, GPUDirect RDMA is not supported, and its absence no fault.
        excluded |= {"gdr_off", "gdr_distance"}
    return excluded


def _strongest(case: Case) -> dict[str, Suspicion]:
    """Return the strongest suspicion of each cause."""
    strongest: dict[str, Suspicion] = {}
    excluded = _ruled_out(case)
    for name in registry.names("suspect"):
        for suspicion in registry.get("suspect", name)(case):
            if suspicion.cause in excluded:
                continue
            before = strongest.get(suspicion.cause)
            if before is None or suspicion.sure > before.sure:
                strongest[suspicion.cause] = suspicion
    return strongest


def _health(
    case: Case, comparisons: list[Comparison], fast: bool, states: list[bool]
) -> Suspect | None:
    """Return how sure we are that nothing is wrong; None if the run is slow, stopped or unknown."""
    wrong = sum(table.wrong for table in case.measured)
    if fast and not wrong:
        best = next(each for each in comparisons if each.healthy)
        fits = f"expected by {best.by}" if best.rows else f"that fits {best.by}"
        why = f"{figure(best.table.peak)} GB/s at the largest sizes; {fits}"
        short = any(each.rows and len(each.short) >= _HALF * len(each.rows) for each in comparisons)
        return Suspect(
            HEALTHY, _MOSTLY_SHORT if short else _HEALTHY, best.table.line, why, _NO_GAIN
        )
    below = any(each.below for each in comparisons)
    if states or wrong or below or case.end_unknown:
        return None  # what stopped without a word looks like what runs on
    loud = [m for m in case.log.warnings if not any(word in m.text for word in _HARMLESS)]
    quiet = (not loud or case.ended_well) and not case.timeouts
    if quiet and (case.log.messages or case.tables or case.pairs or case.topologies):
        why = "no message points to a fault, and nothing shows whether the rate is right"
        return Suspect(HEALTHY, _QUIET, None, why, 1.0)
    return None
