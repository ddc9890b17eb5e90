"""Measured bandwidths by themselves: against a baseline, against other runs, and against each other."""

from collections.abc import Iterator

from fabriclab.core import bus_factor
from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.diagnosis.tables import BandwidthTable
from fabriclab.registry import register

_LOST = 8.0  # times slower: what sockets cost where NICs of 400 Gb/s are many
_WORSE = 1.3  # times slower than before: more than runs differ
_ABOVE = 1.1
_GBIT = 0.125  # GB/s
_APART = 1.5  # times between runs of the same size
_DIFFER = 1.25  # times between runs of a test, above which they are told apart
_FILLED = 0.75  # of what a NIC carries


@register("suspect", "before and now")
def before_and_now(case: Case) -> Iterator[Suspicion]:
    """Suspect the network's plugin or driver if the same machine ran many times faster before, without an error now.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if not case.baselines or not case.measured:
        return
    before = max(table.peak for table in case.baselines)
    now = max(table.peak for table in case.measured)
    if now <= 0 or before / now < _LOST or not case.several_servers:
        return
    where = case.measured[0].line
    why = f"{before:.0f} GB/s before, {now:.0f} GB/s now, and no result is wrong"
    # Hardware that ran before is still there: what is gone is what lets the library use it.
    yield Suspicion("plugin_missing", 0.55, where, why)
    yield Suspicion("fallback_to_sockets", 0.5, where, why)
    yield Suspicion("rails_down", 0.3, where, why)


@register("suspect", "runs that differ")
def runs_that_differ(case: Case) -> Iterator[Suspicion]:
    """Suspect a node if it is in all slow runs of a test and in no fast one, and flows that meet if there is no such.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    tests: dict[tuple[str, int], list[BandwidthTable]] = {}
    for table in case.measured:
        if table.peak > 0:
            tests.setdefault((table.collective, table.ranks), []).append(table)
    for tables in tests.values():
        peaks = [table.peak for table in tables]
        if len(tables) < 3 or max(peaks) <= _DIFFER * min(peaks):
            continue
        slow = [table for table in tables if table.peak * _DIFFER < max(peaks)]
        fast = [table for table in tables if table.peak * _DIFFER >= max(peaks)]
        in_all = set.intersection(*(set(table.hosts) for table in slow))
        only_slow = sorted(in_all - {host for table in fast for host in table.hosts})
        slowest = min(tables, key=lambda table: table.peak)
        many = len({frozenset(table.hosts) for table in tables}) > 1
        if many and len(slow) > 1 and len(only_slow) == 1:
            why = f"{only_slow[0]} is in all {len(slow)} slow runs, and in none of the {len(fast)} others"
            yield Suspicion("slow_node", 0.85, slowest.line, why)
        elif max(peaks) > _APART * min(peaks):
            why = f"{min(peaks):.0f} to {max(peaks):.0f} GB/s in {len(peaks)} runs"
            yield Suspicion("hash_collisions", 0.6, slowest.line, why)


@register("suspect", "less than one NIC carries in a test of its own")
def less_than_one_nic_carries(case: Case) -> Iterator[Suspicion]:
    """Suspect flows that meet if perftest fills a NIC with several flows, and the library sends by one and does not.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if not case.perftest or not case.several_servers or case.setting("NCCL_IB_QPS_PER_CONNECTION"):
        return
    outside = [channel for channel in case.log.outside_channels if channel.network != "Socket"]
    nics = max((len(of_host) for of_host in case.log.devices.values()), default=0)
    alone = max(case.perftest, key=lambda row: row.rate)
    if not outside or not nics or alone.flows < 2 or not all(channel.gdr for channel in outside):
        return
    for table in case.measured:
        each = table.peak / nics / _GBIT
        if 0 < each < _FILLED * alone.rate:
            bonded = "bond" in alone.device
            why = f"{alone.flows} flows reach {alone.rate:.0f} Gb/s, the library {each:.0f} Gb/s for each NIC"
            yield Suspicion("hash_collisions", 0.7 if bonded else 0.5, table.line, why)
            return


@register("suspect", "ratio of the bandwidths")
def ratio_of_the_bandwidths(case: Case) -> Iterator[Suspicion]:
    """Suspect a misread table if bus bandwidth is not algorithm bandwidth times the factor of the collective.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for table in case.measured:
        off = table.misread_by
        if not 0.97 < off < 1.03:
            factor = bus_factor(table.collective, table.ranks)
            why = f"the factor of {table.collective} on {table.ranks} ranks is {factor:.3g}"
            yield Suspicion("misread_busbw", 0.5, table.line, why)


@register("suspect", "more than the NICs carry")
def more_than_the_nics_carry(case: Case) -> Iterator[Suspicion]:
    """Suspect a misread bus bandwidth if it is above what the NICs of a server can carry.

    On two servers a tree sends each byte over the network once in each direction, and switches that add halve what is
    sent; the factor of the bus bandwidth counts a ring.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    rates = [port.rate for ports in case.ports.values() for port in ports if port.up and port.rate]
    rates += [each.rate for each in case.nic_rates if each.rate]
    nics = max((len(of_host) for of_host in case.log.devices.values()), default=0)
    for ports in case.ports.values():
        nics = nics or sum(port.up for port in ports)
    for each in case.nic_rates:
        nics = nics or each.nics
    nics = nics or len(case.nic_rates)
    if not rates or not nics or not case.several_servers:
        return
    limit = nics * max(rates) * _GBIT
    for table in case.measured:
        if table.peak > _ABOVE * limit:
            why = f"{table.peak:.3g} GB/s is more than {nics} NICs carry ({limit:.3g} GB/s)"
            yield Suspicion("misread_busbw", 0.6, table.line, why)
            return
