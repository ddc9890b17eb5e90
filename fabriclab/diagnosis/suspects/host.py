"""What the host gives the processes: shared memory, cores, channels, one version of the library."""

from collections.abc import Iterator

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.registry import register

_SMALL = 2.0**30  # [B]; containers have 64 MiB unless told otherwise
_FULL = 0.9
_FEW = 4  # channels


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
            yield Suspicion("shm_too_small", 0.93, mount.line, f"{mount.used:.0%} of it is used")
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


@register("suspect", "versions")
def versions(case: Case) -> Iterator[Suspicion]:
    """Suspect the versions of the library if there are several.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    found = case.log.versions
    if len(found) > 1:
        first, second = list(found)[:2]
        failed = bool(case.log.warnings)
        yield Suspicion(
            "version_mismatch", 0.8 if failed else 0.5, found[second], f"{first} and {second}"
        )


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
    counts = case.log.channel_counts
    if len(counts) > 1:
        least = min(counts)
        yield Suspicion(
            "fewer_channels", 0.6, counts[least], f"{least} here, {max(counts)} on other ranks"
        )
