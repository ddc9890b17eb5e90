"""Ranks and nodes against each other: calls that differ, one that is missing, one that is slow."""

import math
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.host_tools import Timeout
from fabriclab.diagnosis.nccl_log import Call
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.diagnosis.trials import Trial
from fabriclab.registry import register

_SPEAKS = re.compile(r"\W*(?:\S{1,40}\s)?\W?rank[\s:=_\-]*(\d{1,6})\b", re.IGNORECASE)
# What programs print when a rank has run out of data, or has left its loop.
_ENDED = re.compile(
    r"exhaust|stopiteration|ran out of|out of data|no more (?:data|batch|sample|item)"
    r"|end of (?:the )?(?:data|epoch|file)|finished (?:epoch|training|after)|empty (?:batch|shard)"
    r"|(?:epoch|loop|training|shard|loader)\b.{0,20}\b(?:done|finished|complete|ended)"
    r"|skipping (?:batch|step|the rest)",
    re.IGNORECASE,
)
_CRASHED = re.compile(
    r"traceback|out of memory|segmentation fault|\bkilled\b|exitcode|exit code|(?:error|exception):",
    re.IGNORECASE,
)
_CONSEQUENCE = 0.45  # how sure, at most, of a cause for what another failure explains
_LATER = 1.15  # of the median; a rank that takes longer is slow
_BY_CHANCE = (
    100  # times as many orders of trials as hosts, so that no host is at their end by chance
)
_SLOWER = 0.8  # of the median; below it a pair is slow


@register("suspect", "calls that differ")
def calls_that_differ(case: Case) -> Iterator[Suspicion]:
    """Suspect different collectives if ranks time out in calls of other numbers, kinds or sizes.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if not case.timeouts:
        return
    # Where the network itself reports errors, ranks wait because of them.
    most = _CONSEQUENCE if case.completions or case.queue_pairs else 1.0
    first_of: dict[int, Timeout] = {}  # a rank in several groups has a watchdog for each
    for timeout in case.timeouts:
        first_of.setdefault(timeout.rank, timeout)
    stopped = list(first_of.values())
    calls = Counter((t.number, t.kind, t.elements) for t in stopped)
    usual = calls.most_common(1)[0][0]
    others = [t for t in stopped if (t.number, t.kind, t.elements) != usual]
    if others:
        odd = others[0]
        same_number = odd.number == usual[0]
        ahead = odd.number > usual[0]
        what = f"rank {odd.rank} is in call {_call(odd.number, odd.kind, odd.elements)}"
        why = f"{what}, others in {_call(*usual)}"
        sure = 0.93 if ahead or same_number else 0.6
        yield Suspicion("collective_mismatch", min(sure, most), odd.line, why)
        if not (ahead or same_number):
            yield Suspicion("rank_absent", min(0.85, most), odd.line, why)
        return
    ranks = {t.rank for t in case.timeouts}
    world = case.log.ranks or max(ranks) + 1
    missing = sorted(set(range(world)) - ranks)
    first = case.timeouts[0]
    if missing and len(missing) <= len(ranks):
        yield from _last_words(case, missing, first.number)
        names = ", ".join(map(str, missing[:4]))
        why = f"all wait in call {first.number} but rank {names}"
        yield Suspicion("rank_absent", min(0.85, most), first.line, why)
    else:
        why = "all that print wait in the same call"
        yield Suspicion("rank_absent", min(0.5, most), first.line, why)


@register("suspect", "records of calls")
def records_of_calls(case: Case) -> Iterator[Suspicion]:
    """Suspect different collectives if ranks record calls of one number that differ in kind, type, count or root.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for group in case.log.calls_of_ranks:
        by_number: dict[int, dict[int, list[Call]]] = {}
        for rank, calls in group.items():
            for call in calls:
                by_number.setdefault(call.number, {}).setdefault(rank, []).append(call)
        for number in sorted(by_number):
            of_rank = by_number[number]
            if len(of_rank) < 2 or len({len(calls) for calls in of_rank.values()}) > 1:
                continue  # several calls of a group have one number, and a torn line may hide some
            found = _odd_call(of_rank)
            if found:
                rank, call, usual = found
                here, there = _recorded(call), _recorded(usual)
                why = f"call {number} is {here} on rank {rank}, and {there} on others"
                yield Suspicion("collective_mismatch", 0.93, call.line, why)
                return


def _odd_call(of_rank: dict[int, list[Call]]) -> tuple[int, Call, Call] | None:
    """Return a rank whose call is another than that of most ranks, with both calls; None if all are alike."""
    for place in range(len(next(iter(of_rank.values())))):
        if len({_what(calls[place]) for calls in of_rank.values()}) == 1:
            continue
        calls = {rank: calls[place] for rank, calls in sorted(of_rank.items())}
        counts = Counter(_what(call) for call in calls.values())
        usual = counts.most_common(1)[0][0]
        example = next(call for call in calls.values() if _what(call) == usual)
        for rank, call in calls.items():
            if _what(call) != usual:
                return rank, call, example
    return None


def _what(call: Call) -> tuple[str, int, int, int]:
    """Return what all ranks must have in common in a call."""
    return call.kind, call.elements, call.datatype, call.root


def _recorded(call: Call) -> str:
    """Return a recorded call in words."""
    return f"{call.kind} (count {call.elements}, datatype {call.datatype}, root {call.root})"


def _call(number: int, kind: str, elements: int) -> str:
    """Return a call in words, with what is printed of it."""
    return f"{number} ({kind}, {elements:,} elements)" if elements else f"{number} ({kind})"


@register("suspect", "ranks that ended")
def ranks_that_ended(case: Case) -> Iterator[Suspicion]:
    """Suspect a rank that a launcher says ended first, while others wait in a collective.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    waiting = {timeout.rank for timeout in case.timeouts}
    for each in case.ended_ranks:
        if each.rank in waiting:
            continue  # the watchdog ended it
        killed = each.how.startswith(("exit code -", "signal"))
        why = f"rank {each.rank} ended first ({each.how})"
        if waiting:
            yield Suspicion("rank_absent", 0.9, each.line, f"{why}, while others waited")
        elif killed and not case.failure:
            yield Suspicion("rank_absent", 0.6, each.line, why)
        return


@register("suspect", "ranks that RAS reports")
def ranks_that_ras_reports(case: Case) -> Iterator[Suspicion]:
    """Suspect a rank that has launched fewer operations than the others, by NCCL's own report.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for each in case.launched:
        why = (
            f"rank {each.rank} has launched {each.operations} operations, most ranks {each.others}"
        )
        if each.operations < each.others:
            yield Suspicion("rank_absent", 0.88, each.line, why)
        elif each.operations > each.others:
            yield Suspicion("collective_mismatch", 0.7, each.line, why)


@register("suspect", "figures of nodes")
def figures_of_nodes(case: Case) -> Iterator[Suspicion]:
    """Suspect a node whose own figure is far below that of the others.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if not case.nodes:
        return
    median = float(np.median([node.value for node in case.nodes]))
    slow = [node for node in case.nodes if node.value < _SLOWER * median]
    if 0 < len(slow) <= len(case.nodes) // 4 + 1:
        node = min(slow, key=lambda each: each.value)
        why = f"{node.name} has {node.value:g}, the median of {len(case.nodes)} nodes is {median:g}"
        yield Suspicion("slow_node", 0.85, node.line, why)


@register("suspect", "clocks of GPUs")
def clocks_of_gpus(case: Case) -> Iterator[Suspicion]:
    """Suspect a straggler if the clock of a GPU is far below that of the others.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if len(case.clocks) < 4:
        return
    median = float(np.median([each.clock for each in case.clocks]))
    slow = [each for each in case.clocks if each.clock < _SLOWER * median]
    if 0 < len(slow) <= len(case.clocks) // 4:
        gpu = min(slow, key=lambda each: each.clock)
        why = f"GPU {gpu.gpu} runs at {gpu.clock:.0f} MHz, the median is {median:.0f} MHz"
        yield Suspicion("straggler", 0.85, gpu.line, why)


def _last_words(case: Case, missing: list[int], number: int) -> Iterator[Suspicion]:
    """Suspect what the program itself prints of the ranks that a collective lacks: that they ended, or crashed."""
    for source in case.sources:
        for line in source.lines_with("rank"):
            found = _SPEAKS.match(line.text)
            if not found or int(found[1]) not in missing:
                continue
            if _ENDED.search(line.text):
                why = f"rank {found[1]} had no more to do, and all others wait in call {number}"
                yield Suspicion("collective_mismatch", 0.88, line, why)
                return
            if _CRASHED.search(line.text):
                why = f"rank {found[1]} failed, and all others wait in call {number}"
                yield Suspicion("rank_absent", 0.9, line, why)
                return


@register("suspect", "pairs of nodes")
def pairs_of_nodes(case: Case) -> Iterator[Suspicion]:
    """Suspect a node if it is in all slow pairs, and flows that meet if slow pairs have no node in common.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if not case.pairs:
        return
    rates = np.array([pair.rate for pair in case.pairs])
    slow = [pair for pair in case.pairs if pair.rate < _SLOWER * np.median(rates)]
    if not slow:
        return
    in_slow = Counter(name for pair in slow for name in (pair.a, pair.b))
    in_all = Counter(name for pair in case.pairs for name in (pair.a, pair.b))
    node, times = in_slow.most_common(1)[0]
    if times == len(slow) and times > 1:
        why = f"{node} is in all {times} slow pairs, and in no other"
        if in_all[node] > times:
            why = f"{node} is in all {times} slow pairs, and in {in_all[node] - times} others"
        yield Suspicion("slow_node", 0.95 if in_all[node] == times else 0.7, slow[0].line, why)
    elif len(slow) > 1:
        yield Suspicion("hash_collisions", 0.6, slow[0].line, "slow pairs have no node in common")
    else:
        yield Suspicion("slow_node", 0.4, slow[0].line)


@register("suspect", "trials of groups of hosts")
def trials_of_groups_of_hosts(case: Case) -> Iterator[Suspicion]:
    """Suspect a node if each trial with it is slower than each one without, or it alone is in all that are far slower.

    Trials may fall apart so by chance: of n trials with k of a node, one order in n over k has these last.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    by_host: dict[str, list[Trial]] = {}
    for trial in case.trials:
        for host in trial.hosts:
            by_host.setdefault(host, []).append(trial)
    speeds = sorted(trial.speed for trial in case.trials)
    all_slow = []
    for host, trials in by_host.items():
        number = len(trials)
        if not 1 < number < len(speeds) - 1:
            continue
        slowest, fastest = speeds[number], max(trial.speed for trial in trials)
        # The slowest trials are those with the host if none of its own is as fast as the one after as many.
        if fastest < slowest and _orders(len(speeds), number) > math.log(_BY_CHANCE * len(by_host)):
            all_slow.append(host)
    if len(all_slow) == 1:
        (host,) = all_slow
        slow = by_host[host]
        best = max(slow, key=lambda each: each.speed)
        others = [trial for trial in case.trials if host not in trial.hosts]
        worst = min(others, key=lambda each: each.speed)
        why = (
            f"all {len(slow)} trials with {host} are slower than the {len(others)} without it: at best "
            f"{best.printed}, the others at worst {worst.printed}"
        )
        yield Suspicion("slow_node", 0.88, slow[0].line, why)
        return
    if all_slow or not speeds:
        return
    limit = _SLOWER * float(np.median(speeds))
    slow = [trial for trial in case.trials if trial.speed < limit]
    common = frozenset.intersection(*(trial.hosts for trial in slow)) if len(slow) > 1 else ()
    if len(common) == 1:
        (host,) = common
        fast = len(by_host[host]) - len(slow)
        why = f"{host} is in all {len(slow)} slow trials, and in {fast} of the {len(speeds) - len(slow)} others"
        yield Suspicion("slow_node", 0.85 if not fast else 0.6, slow[0].line, why)


def _orders(n: int, k: int) -> float:
    """Return the logarithm of n over k."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@register("suspect", "times of ranks")
def times_of_ranks(case: Case) -> Iterator[Suspicion]:
    """Suspect a straggler if a rank's own time is longer than that of all others.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    by_rank: dict[int, list[float]] = {}
    for each in case.rank_times:
        by_rank.setdefault(each.rank, []).append(each.seconds)
    if len(by_rank) < 3:
        return
    typical = {rank: float(np.median(times)) for rank, times in by_rank.items()}
    median = float(np.median(list(typical.values())))
    slow = [rank for rank, time in typical.items() if time > _LATER * median]
    if 0 < len(slow) <= len(typical) // 4 + 1:
        rank = max(slow, key=lambda each: typical[each])
        line = next(each.line for each in case.rank_times if each.rank == rank)
        why = f"rank {rank} takes {typical[rank]:.3g} s, the median of ranks is {median:.3g} s"
        yield Suspicion("straggler", 0.86, line, why)
