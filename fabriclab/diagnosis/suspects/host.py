"""What the host gives the processes: shared memory, cores, channels, one version of the library."""

from collections.abc import Iterator, Mapping

from fabriclab import units
from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.comparison import slower_runs
from fabriclab.diagnosis.host_tools import Packaged
from fabriclab.diagnosis.nccl_log import Cores
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.importers.lines import Line
from fabriclab.registry import register

_SMALL = 2.0**30  # [B]; containers have 64 MiB unless told otherwise
_FULL = 0.9
_FEW = 4  # channels
_ONE_CORE = 2  # threads of a core


@register("suspect", "shared memory")
def shared_memory(case: Case) -> Iterator[Suspicion]:
    """Suspect shared memory that is small, or nearly full.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for mount in case.mounts:
        if mount.where != "/dev/shm":
            continue
        if mount.used >= _FULL:
            yield Suspicion(
                "shm_too_small", 0.93, mount.line, f"{units.format_share(mount.used)} of it is used"
            )
        elif mount.size < _SMALL:
            yield Suspicion("shm_too_small", 0.6, mount.line, "a container's default is 64 MB")


@register("suspect", "cores of the processes")
def cores_of_the_processes(case: Case) -> Iterator[Suspicion]:
    """Suspect the binding if a process may use no core near its GPU, or all of a host share one core.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    single: dict[tuple[str, str], int] = {}
    for affinity in case.log.affinities:
        if not affinity.chosen.strip():
            yield Suspicion(
                "cpu_binding",
                0.85,
                affinity.line,
                f"GPU {affinity.gpu} is near cores {affinity.near}, its process has {affinity.given}",
            )
        given = affinity.given.strip()
        if given.isdecimal():
            key = (affinity.host, given)
            single[key] = single.get(key, 0) + 1
            if single[key] > 1:
                yield Suspicion(
                    "cpu_binding", 0.88, affinity.line, f"several processes have core {given} only"
                )


@register("suspect", "cores that are few")
def cores_that_are_few(case: Case) -> Iterator[Suspicion]:
    """Suspect the binding if a process has a core or two, several share a few, or a slower run of two has fewer.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    hosts: dict[tuple[str, str], list[Cores]] = {}
    for each in case.log.cores:
        if each.number:
            hosts.setdefault((each.line.file, each.host), []).append(each)
    for (_, host), of_host in hosts.items():
        gpus = {each.gpu for each in of_host}
        least = min(of_host, key=lambda each: each.number)
        alike = len({each.which for each in of_host}) == 1
        if least.number <= _ONE_CORE:
            why = f"the process of GPU {least.gpu} on {host} has {least.number} of its cores"
            yield Suspicion("cpu_binding", 0.8, least.line, why)
            break
        if alike and len(gpus) > 2 and least.number <= len(gpus):
            why = f"{len(gpus)} processes of {host} share {least.number} cores"
            yield Suspicion("cpu_binding", 0.72, least.line, why)
            break
    slower = {table.name for table, _ in slower_runs(case)}
    numbers: dict[str, dict[int, Cores]] = {}  # by file, then GPU
    for each in case.log.cores:
        numbers.setdefault(each.line.file, {}).setdefault(each.gpu, each)
    for file, of_file in numbers.items():
        for other, of_other in numbers.items():
            fewer = [
                gpu
                for gpu in of_file.keys() & of_other.keys()
                if 2 * of_file[gpu].number <= of_other[gpu].number
            ]
            if fewer and (file in slower or not case.measured):
                each = of_file[min(fewer)]
                why = f"{each.number} cores for GPU {each.gpu} in {file}, {of_other[each.gpu].number} in {other}"
                yield Suspicion("cpu_binding", 0.85 if file in slower else 0.6, each.line, why)
                return


@register("suspect", "processes that are bound")
def processes_that_are_bound(case: Case) -> Iterator[Suspicion]:
    """Suspect the binding if processes have one core each, as a launcher does it unless told otherwise, or share one.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    few = [each for each in case.bindings if 0 < each.cores <= _ONE_CORE]
    if not few:
        return
    which = [each.which for each in few]
    shared = next((each for each in few if which.count(each.which) > 1), None)
    if shared and len(few) > 2:
        why = f"{shared.who} and others have the same core"
        yield Suspicion("cpu_binding", 0.88, shared.line, why)
    elif 2 * len(few) > len(case.bindings):
        why = f"{few[0].who} has {few[0].cores} of the cores of its host"
        yield Suspicion("cpu_binding", 0.75, few[0].line, why)


@register("suspect", "versions of packages")
def versions_of_packages(case: Case) -> Iterator[Suspicion]:
    """Suspect the versions of the library if lists of packages of two files name different ones.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    of_files: dict[str, Packaged] = {}
    for each in case.packages:
        of_files.setdefault(each.line.file, each)
    if len({each.version for each in of_files.values()}) > 1:
        first, *others = of_files.values()
        other = next(each for each in others if each.version != first.version)
        why = f"{first.version} in {first.line.file}, {other.version} in {other.line.file}"
        yield Suspicion("version_mismatch", 0.8 if case.failure else 0.6, other.line, why)


@register("suspect", "services of the host")
def services_of_the_host(case: Case) -> Iterator[Suspicion]:
    """Suspect the fabric manager if its service is there and does not run.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for service in case.services:
        if "fabricmanager" in service.name and not service.active:
            why = f"{service.name} is not active"
            yield Suspicion("nvls_fabric_manager", 0.86, service.line, why)


@register("suspect", "versions")
def versions(case: Case) -> Iterator[Suspicion]:
    """Suspect the versions of the library if hosts have different ones.

    One host that has two of them was measured with both, as in a comparison of versions.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    # Hosts of one version are alike, so one of each is compared, and only with the first.
    kinds: dict[frozenset[str], tuple[str, dict[str, Line]]] = {}
    for host, of_host in case.log.versions.items():
        kinds.setdefault(frozenset(of_host), (host, of_host))
    if not kinds:
        return
    (host, of_host), *others = kinds.values()
    for other, of_other in others:
        if of_host.keys() & of_other.keys():
            continue
        (first, before), (second, line) = next(iter(of_host.items())), next(iter(of_other.items()))
        runs = {case.log.run_of.get(each.file, 0) for each in (before, line)}
        if len(runs) > 1 and not case.failure:
            continue  # two runs that both went well
        why = f"{host} has {first}, {other} has {second}"
        yield Suspicion("version_mismatch", 0.8 if case.log.warnings else 0.5, line, why)
        return


@register("suspect", "channels that are allowed")
def channels_that_are_allowed(case: Case) -> Iterator[Suspicion]:
    """Suspect too few channels if a variable limits them.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    limit = case.setting("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS")
    if limit and limit[0].strip().isdecimal():
        few = int(limit[0]) <= _FEW
        yield Suspicion(
            "fewer_channels", 0.88 if few else 0.5, limit[1], f"at most {limit[0].strip()}"
        )
    plans: dict[tuple[int, str], dict[int, Line]] = {}  # lines by run and kind, then count
    for (file, kind, count), line in case.log.channel_counts.items():
        plan = plans.setdefault((case.log.run_of.get(file, 0), kind), {})
        plan.setdefault(count, line)
    # A program with groups of several sizes has a plan for each, and those differ without a fault.
    sizes = {size for members in case.log.members.values() for size, _ in members}
    for (_, kind), counts in plans.items():
        if len(counts) > 1 and kind == "coll channels" and len(sizes) < 2:
            least = min(counts)
            why = f"{least} here, {max(counts)} on other ranks"
            yield Suspicion("fewer_channels", 0.6, counts[least], why)
    yield from _plans_of_runs(case, plans)


def _plans_of_runs(
    case: Case, plans: Mapping[tuple[int, str], Mapping[int, Line]]
) -> Iterator[Suspicion]:
    """Suspect too few channels if runs of one test differ in rate, and their logs in the plan of channels."""
    if not any(slower_runs(case)):
        return
    for kind in dict.fromkeys(kind for _, kind in plans):
        most = {run: max(counts) for (run, each), counts in plans.items() if each == kind}
        fewest = min(most, key=lambda run: most[run])
        if most[fewest] < max(most.values()):
            line = plans[fewest, kind][most[fewest]]
            why = f"{most[fewest]} {kind} in this run, {max(most.values())} in another"
            yield Suspicion(
                "fewer_channels", 0.7, line, f"{why}, and runs of one test differ in rate"
            )
