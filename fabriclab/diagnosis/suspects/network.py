"""Which network the library took: a plugin that is demanded and missing, or sockets where RDMA was meant."""

from collections.abc import Iterator

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.importers.lines import Line
from fabriclab.registry import register

# What the plugin for libfabric says of it, in the words of its versions.
_NO_PROVIDER = (
    "find any optimal provider",
    "no eligible providers were found",
    "only efa provider is supported",
)
_DIRECT = ("efa", "cxi", "verbs", "psm", "opx", "gni", "usnic")  # source: libfabric, fi_provider(7)
_BUILT_IN = ("ib", "socket", "none", "")  # no plug-in is needed for these


@register("suspect", "plugin that is demanded")
def plugin_that_is_demanded(case: Case) -> Iterator[Suspicion]:
    """Suspect a missing plugin if a network was demanded by name and never came up.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    demanded = case.setting("NCCL_NET", "NCCL_NET_PLUGIN")
    if demanded is None:
        return
    value, line = demanded
    if value.lower() in _BUILT_IN:
        return
    if any(value.lower() in network.lower() for network in case.log.networks):
        return
    if any("provider is" in message.text.lower() for message in case.log.messages):
        return  # it was loaded
    missing = next(case.lines_with("could not find"), None)
    sure = 0.9 if missing else 0.6
    yield Suspicion("plugin_missing", sure, line, f"{value} was asked for and did not come up")


def rdma_came_up(case: Case) -> bool:
    """Return whether the log says that a network other than sockets is used, and no channel goes over sockets.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    networks = [name.lower() for name in case.log.networks]
    over_sockets = any(channel.network == "Socket" for channel in case.log.outside_channels)
    used = bool(networks) and "socket" not in networks
    direct = any(channel.network not in ("", "Socket") for channel in case.log.outside_channels)
    return (used or direct) and not over_sockets and "socket" not in networks


def sockets_between_servers(case: Case) -> Line | None:
    """Return the line that says that sockets are used, if several servers take part, or None.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if not case.several_servers:
        return None
    for name, line in case.log.networks.items():
        if name.lower() == "socket":
            return line
    return None


@register("suspect", "plugin that gave up")
def plugin_that_gave_up(case: Case) -> Iterator[Suspicion]:
    """Suspect sockets if a plugin was found, gave up, and left the servers to TCP.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    sockets = sockets_between_servers(case)
    if sockets is None:
        return
    gave_up = next(case.lines_with("initialization failed"), None)
    if gave_up:
        yield Suspicion("fallback_to_sockets", 0.9, sockets, "the plugin gave up before")
    no_device = next(case.lines_with("no device found"), None)
    if no_device:
        yield Suspicion("fallback_to_sockets", 0.93, no_device)


@register("suspect", "sockets on a cloud")
def sockets_on_a_cloud(case: Case) -> Iterator[Suspicion]:
    """Suspect a missing plugin if a cloud's host takes sockets and its plugin never says a word.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    if sockets_between_servers(case) is None:
        return
    wanted = []
    for name, line in case.set_variables():
        if name.startswith("FI_") or "OFI" in name:
            wanted.append(line)
    spoke = any("NET/OFI" in message.text for message in case.log.messages)
    if wanted and not spoke:
        yield Suspicion(
            "plugin_missing",
            0.85,
            wanted[0],
            "variables for libfabric are set, and its plugin says nothing",
        )


@register("suspect", "plugin that finds no provider")
def plugin_that_finds_no_provider(case: Case) -> Iterator[Suspicion]:
    """Suspect sockets if the plugin for libfabric is there and finds no provider that it can use.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for words in _NO_PROVIDER:
        line = next(case.lines_with(words), None)
        if line and case.several_servers and not rdma_came_up(case):
            why = "the plugin for libfabric finds no provider"
            yield Suspicion("fallback_to_sockets", 0.9, line, why)
            yield Suspicion("ofi_provider_tcp", 0.45, line, why)
            return


@register("suspect", "providers of libfabric")
def providers_of_libfabric(case: Case) -> Iterator[Suspicion]:
    """Suspect TCP if fi_info lists providers, and none of them is that of an RDMA network.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    names = {each.name for each in case.providers}
    if names and not any(name.startswith(_DIRECT) for name in names):
        why = f"fi_info lists {', '.join(sorted(names))} only"
        yield Suspicion("ofi_provider_tcp", 0.82, case.providers[0].line, why)


@register("suspect", "hosts with different networks")
def hosts_with_different_networks(case: Case) -> Iterator[Suspicion]:
    """Suspect sockets if one host takes them, and another has a network for RDMA.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    kinds: dict[bool, tuple[str, str, Line]] = {}
    for host, (name, line) in case.log.network_of.items():
        kinds.setdefault(name.lower() == "socket", (host, name, line))
    if len(kinds) == 2:
        host, _, line = kinds[True]
        other, name, _ = kinds[False]
        why = f"{host} takes sockets, {other} takes {name}"
        yield Suspicion("fallback_to_sockets", 0.9, line, why)


@register("suspect", "devices that cannot be opened")
def devices_that_cannot_be_opened(case: Case) -> Iterator[Suspicion]:
    """Suspect what follows if an RDMA device is seen and cannot be opened: sockets, or one rail less.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    line = next(case.lines_with("unable to open device"), None)
    if line is None or "NET/IB" not in line.text or case.one_server:
        return
    if case.log.devices:
        why = "a device cannot be opened, others are used"
        yield Suspicion("rails_down", 0.7, line, why)
    else:
        why = "a device is seen and cannot be opened, as where a container lacks /dev/infiniband"
        yield Suspicion("fallback_to_sockets", 0.88, line, why)
