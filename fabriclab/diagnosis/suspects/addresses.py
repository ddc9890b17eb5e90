"""Addresses of RDMA connections and of the first connection: which network each end is in."""

import ipaddress
import re
from collections.abc import Iterable, Iterator

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.nccl_log import Channel
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.importers.lines import Line
from fabriclab.registry import register

_MAPPED = "::ffff:"
_KNOWN_ADDRESS = re.compile(
    r"(?:address: |ip=|tcp://|MASTER_ADDR[=:] ?|master_addr[=:] ?|--host[= ])(\d+\.\d+\.\d+\.\d+)"
)
# Statuses of a completion: the memory was refused at this end, at the other, the peer never acknowledged.
REFUSED = (
    4,
    10,
)  # source: rdma-core, libibverbs/verbs.h: IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR
_LOST = 12  # source: rdma-core, libibverbs/verbs.h: IBV_WC_RETRY_EXC_ERR
_TOO_LONG = 1  # source: rdma-core, libibverbs/verbs.h: IBV_WC_LOC_LEN_ERR
# Interfaces that exist on one host only, or lead to its own containers.
_VIRTUAL = re.compile(r"(?:docker|virbr|br-|veth|cni|flannel|cali|lo)\d*$|(?:br-|veth|cali)\w+$")
_OWN = (
    "172.17.",
    "127.",
    "169.254.",
    "192.168.122.",
)  # of containers, of the host itself, of none, of libvirt
_FIREWALLS = ("firewalld", "ufw", "iptables", "nftables")
# How sure a failed connection makes us of a firewall, by its reason.
_BLOCKED = {"no route": 0.75, "timed out": 0.5, "refused": 0.4, "aborted": 0.35}
_ANSWERS = 0.2  # more, if something else points to it
_VERSION = re.compile(r"NCCL version (\d{1,3})\.(\d{1,3})")
_CHOOSES = (
    2,
    21,
)  # source: NVIDIA, NCCL documentation, NCCL_IB_GID_INDEX: chosen automatically since 2.21
_TIMED_OUT = 110
_SAME_NET = 24  # bits of an address that nodes of one rail share, usually
_FAR_NET = 16


def _kind(gid: str) -> str:
    """Return whether a GID is empty, of IPv4, link-local or another one."""
    if gid in ("", "::", "::,"):
        return "empty"
    if gid.startswith(_MAPPED):
        return "ipv4"
    if gid.lower().startswith("fe80"):
        return "link"
    return "other"


def _network(gid: str, bits: int) -> str:
    """Return the network of the IPv4 address in a GID; empty if there is none."""
    try:
        address = ipaddress.ip_address(gid.removeprefix(_MAPPED))
    except ValueError:
        return ""
    return str(ipaddress.ip_network(f"{address}/{bits}", strict=False))


@register("suspect", "GIDs of queue pairs")
def gids_of_queue_pairs(case: Case) -> Iterator[Suspicion]:
    """Suspect the GID index if the ends of a connection have an empty one, or two kinds of them.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    infiniband = "IB" in _layers(case)
    ends = [(pair.local, pair.remote, pair.line) for pair in case.queue_pairs if pair.told]
    for lost in case.completions:
        if lost.status == _LOST and lost.local and lost.remote:
            ends.append((lost.local, lost.remote, lost.line))
    for local, remote, line in ends:
        kinds = {_kind(local), _kind(remote)}
        if "empty" in kinds:
            yield Suspicion("gid_index", 0.94, line, "one end offers an empty GID")
        elif kinds == {"ipv4", "link"}:
            yield Suspicion(
                "gid_index", 0.92, line, "one end has an IPv4 address, the other only fe80"
            )
        elif kinds == {"link"} and not infiniband:
            yield Suspicion("gid_index", 0.75, line, "both ends use fe80 on RoCE")


@register("suspect", "tables of GIDs")
def tables_of_gids(case: Case) -> Iterator[Suspicion]:
    """Suspect the GID index if a node's table has none of that index, or one of version 1.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    setting = case.setting("NCCL_IB_GID_INDEX")
    if setting is None or not setting[0].strip().lstrip("-").isdecimal():
        return
    index = int(setting[0])
    for file, rows in case.gids.items():
        devices = dict.fromkeys(row.device for row in rows)
        for device in devices:
            of_device = [row for row in rows if row.device == device]
            chosen = [row for row in of_device if row.row == index]
            if not chosen:
                yield Suspicion(
                    "gid_index", 0.9, setting[1], f"{device} has no GID {index} in {file}"
                )
            elif "v1" in chosen[0].version.replace(" ", "").lower() or not chosen[0].ipv4:
                usable = [row.row for row in of_device if row.ipv4 and "2" in row.version]
                if usable and index not in usable:
                    yield Suspicion(
                        "gid_index", 0.85, chosen[0].line, f"index {usable[0]} is IPv4, version 2"
                    )


@register("suspect", "GID index that nobody set")
def gid_index_that_nobody_set(case: Case) -> Iterator[Suspicion]:
    """Suspect the GID index if packets between RoCE ports are lost, and the library took index 0 unasked.

    Up to NCCL 2.20 index 0 was used unless another one was set; it is a link-local address of RoCE version 1 on most
    hosts, which no router passes on.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    lost = next((each.line for each in case.completions if each.status == _LOST), None)
    if lost is None or case.setting("NCCL_IB_GID_INDEX") or _chooses_gid(case):
        return
    if _layers(case) != {"RoCE"}:
        return
    for file, rows in case.gids.items():
        used = [row for row in rows if row.row == 0]
        usable = [row.row for row in rows if row.ipv4 and "2" in row.version]
        if used and usable and 0 not in usable:
            why = f"no GID index is set, so index 0 is used; in {file} index {usable[0]} is IPv4, version 2"
            yield Suspicion("gid_index", 0.88, lost, why)
            return
    yield Suspicion("gid_index", 0.6, lost, "no GID index is set on RoCE, so index 0 is used")


def _layers(case: Case) -> set[str]:
    """Return the link layers of the devices that the library uses."""
    return {each.layer for of_host in case.log.devices.values() for each in of_host.values()}


def _chooses_gid(case: Case) -> bool:
    """Return whether the library is new enough to choose a GID itself, or does not say its version."""
    for line in case.lines_with("nccl version "):
        found = _VERSION.search(line.text)
        if found and (int(found[1]), int(found[2])) < _CHOOSES:
            return False
    return True


@register("suspect", "networks of queue pairs")
def networks_of_queue_pairs(case: Case) -> Iterator[Suspicion]:
    """Suspect rails that are not joined, or a wrong device, if both ends are in different networks.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    pairs = [
        pair
        for pair in case.queue_pairs
        if _kind(pair.local) == "ipv4" and _kind(pair.remote) == "ipv4"
    ]
    apart = [
        pair
        for pair in pairs
        if _network(pair.local, _SAME_NET) != _network(pair.remote, _SAME_NET)
    ]
    if not apart:
        for pair in pairs:
            if pair.error == _TIMED_OUT:
                yield Suspicion("rails_down", 0.55, pair.line, "same network, and no answer")
                yield Suspicion("firewall", 0.35, pair.line)
        return
    counts = {len(of_host) for of_host in case.log.devices.values()}
    several = max(counts, default=0) > 1
    uneven = len(counts) > 1  # so a number stands for one device here, and for another one there
    shared = _of_a_common_network(case)
    setting = f"NCCL_IB_HCA={','.join(shared)}" if shared else ""
    crossing = _crosses(case.log.outside_channels)
    for pair in apart:
        if several and crossing:
            yield Suspicion(
                "cross_nic", 0.9, pair.line, "its channel leaves on one NIC, and arrives on another"
            )
            yield Suspicion("wrong_hca", 0.5, pair.line, instead=setting)
        elif several and uneven:
            why = "the two ends are in different networks, and hosts list different numbers of devices"
            yield Suspicion("wrong_hca", 0.8, pair.line, why, instead=setting)
            yield Suspicion("cross_nic", 0.45, pair.line, why)
        elif several:
            yield Suspicion("cross_nic", 0.6, pair.line, "the two ends are in different networks")
            why = "the two ends are in different networks"
            yield Suspicion("wrong_hca", 0.62, pair.line, why, instead=setting)
        else:
            yield Suspicion("wrong_hca", 0.88, pair.line, "the two ends are in different networks")
            yield Suspicion("cross_nic", 0.4, pair.line)


def _of_a_common_network(case: Case) -> list[str]:
    """Return the devices that have, by the GIDs of every host, an address in a network that all hosts have."""
    if len(case.gids) < 2:
        return []
    devices: dict[str, set[str]] = {}  # by network
    hosts: dict[str, set[str]] = {}
    for file, rows in case.gids.items():
        for row in rows:
            network = _network(row.ipv4, _SAME_NET) if row.ipv4 else ""
            if network and not row.ipv4.startswith(_OWN):
                devices.setdefault(network, set()).add(row.device)
                hosts.setdefault(network, set()).add(file)
    common = [network for network, files in hosts.items() if len(files) == len(case.gids)]
    return sorted({device for network in common for device in devices[network]})


def _crosses(channels: Iterable[Channel]) -> bool:
    """Return whether a channel is sent on a NIC of another number than it is received on."""
    seen: dict[tuple[int, int, int], dict[str, set[int]]] = {}  # NICs by direction
    for channel in channels:
        key = (channel.number, channel.source, channel.target)
        by_direction = seen.setdefault(key, {})
        by_direction.setdefault(channel.direction, set()).add(channel.device)
        for direction, devices in by_direction.items():
            if direction != channel.direction and devices - {channel.device}:
                return True
    return False


@register("suspect", "peers that do not answer")
def peers_that_do_not_answer(case: Case) -> Iterator[Suspicion]:
    """Suspect rails that are down if RDMA gets no answer, and other causes of the same silence, less.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    lost = [each for each in case.completions if each.status == _LOST]
    if lost:
        yield Suspicion(
            "rails_down", 0.5, lost[0].line, "the peer did not acknowledge what was sent"
        )
    crossing = case.setting("NCCL_CROSS_NIC")
    if lost and crossing and crossing[0].strip() in ("1", "2"):
        why = "channels may change rails, and RDMA gets no answer"
        yield Suspicion("cross_nic", 0.6, crossing[1], why)
    longer = next((each for each in case.completions if each.status == _TOO_LONG), None)
    if longer:
        yield Suspicion("mtu_mismatch", 0.5, longer.line, "what came is longer than was agreed")
        yield Suspicion("collective_mismatch", 0.45, longer.line, "what came is longer than asked")
    for pair in case.queue_pairs:
        if pair.told:
            continue
        if "timed out" in pair.words:
            yield Suspicion(
                "rails_down", 0.55, pair.line, "the peer's queue pair cannot be reached"
            )
            if "RoCE" in _layers(case):
                yield Suspicion("gid_index", 0.5, pair.line)
        elif "RoCE" in _layers(case) or not _layers(case):
            yield Suspicion("gid_index", 0.6, pair.line, f"{pair.words} for a queue pair on RoCE")
        else:
            yield Suspicion("wrong_hca", 0.5, pair.line, f"{pair.words} for a queue pair")


@register("suspect", "link types that are mixed")
def link_types_that_are_mixed(case: Case) -> Iterator[Suspicion]:
    """Suspect a wrong device if a host's list has ports of InfiniBand and of Ethernet, and a connection fails.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    failed = [each.line for each in case.queue_pairs]
    failed += [each.line for each in case.completions if each.status == _LOST]
    if not failed:
        return
    for host, of_host in case.log.devices.items():
        names: dict[str, list[str]] = {}
        for device in of_host.values():
            names.setdefault(device.layer, []).append(device.name)
        if len(names) > 1:
            few = min(names, key=lambda layer: len(names[layer]))
            why = f"{', '.join(names[few])} of {host} is {few}, the other ports are not"
            yield Suspicion("wrong_hca", 0.85, case.log.device_lines[host], why)
            return


@register("suspect", "devices that were named")
def devices_that_were_named(case: Case) -> Iterator[Suspicion]:
    """Suspect a wrong device if a port that was named is down, or of another link type than the ports beside it.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    named = case.setting("NCCL_IB_HCA")
    if named is None or named[0].startswith("^"):
        return
    for file, ports in case.ports.items():
        mine = case.allowed_ports(ports)
        others = [port for port in ports if port not in mine and port.up]
        if not mine or not others:
            continue
        if not any(port.up for port in mine):
            why = f"{mine[0].device} is down in {file}, and {others[0].device} is up"
            yield Suspicion("wrong_hca", 0.85, named[1], why)
            return
        fastest = max((port.rate for port in mine if port.up), default=0.0)
        best = max(port.rate for port in others)
        alike = [port for port in others if port.rate == best]
        if 0 < 2 * fastest <= best and len(alike) >= len(mine):
            why = f"{mine[0].device} runs at {fastest:g} Gb/s, {alike[0].device} at {best:g}"
            yield Suspicion("wrong_hca", 0.75, named[1], why)
            return


@register("suspect", "device that does not exist")
def device_that_does_not_exist(case: Case) -> Iterator[Suspicion]:
    """Suspect a wrong device if one was named and the library found none.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    named = case.setting("NCCL_IB_HCA")
    if named is None:
        return
    none = next(case.lines_with("no device found"), None)
    names = [name.split(":")[0].strip("^=") for name in named[0].split(",") if name]
    known = {
        device.name for of_host in case.log.devices.values() for device in of_host.values()
    } | {port.device for ports in case.ports.values() for port in ports}
    if none and not known:
        yield Suspicion("wrong_hca", 0.86, named[1], "and no device was found")
    elif known and not named[0].startswith("^"):
        lost = [name for name in names if not any(each.startswith(name) for each in known)]
        if lost:
            yield Suspicion("wrong_hca", 0.8, named[1], f"no device is called {', '.join(lost)}")


@register("suspect", "interface of the first connection")
def interface_of_the_first_connection(case: Case) -> Iterator[Suspicion]:
    """Suspect a wrong interface if it has no address, is down, or leads to another network than the nodes are in.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    named = case.setting("NCCL_SOCKET_IFNAME")
    if named:
        # A leading ^ excludes all names of the list, so none is asked for.
        excludes = named[0].startswith("^")
        wanted = [] if excludes else [name.strip("=") for name in named[0].split(",")]
        for file, interfaces in case.interfaces.items():
            found = [each for each in interfaces if any(each.name.startswith(n) for n in wanted)]
            if wanted and not found:
                yield Suspicion(
                    "wrong_socket_ifname", 0.88, named[1], f"{file} has no interface {named[0]}"
                )
            elif found and not any(each.addresses for each in found):
                yield Suspicion(
                    "wrong_socket_ifname",
                    0.96,
                    found[0].line,
                    f"{found[0].name} has no IPv4 address",
                )

    known = {address for address, _ in _known_addresses(case)}
    near = {_network(address, _FAR_NET) for address in known}
    for tried in case.tcp_failures:
        refused = tried.reason == "no route"  # as a firewall answers
        if tried.address and near and _network(tried.address, _FAR_NET) not in near:
            yield Suspicion(
                "wrong_socket_ifname",
                0.6 if refused else 0.92,
                tried.line,
                "a launcher names the nodes by addresses of another network",
            )
        elif tried.address.startswith(_OWN):
            yield Suspicion("wrong_socket_ifname", 0.85, tried.line, "an address of this host only")

    for host, (name, address, line) in case.log.bootstraps.items():
        if _VIRTUAL.match(name) and case.several_servers:
            sure = 0.85 if case.failure or case.tcp_failures else 0.8
            yield Suspicion("wrong_socket_ifname", sure, line, f"{host} uses {name} ({address})")

    networks: dict[str, tuple[str, str, Line]] = {}
    for host, (name, address, line) in case.log.bootstraps.items():
        networks.setdefault(_network(address, _FAR_NET), (host, name, line))
    if len(networks) > 1 and "" not in networks:
        host, name, line = list(networks.values())[-1]
        yield Suspicion(
            "wrong_socket_ifname", 0.7, line, f"{host} uses {name}, in another network than others"
        )


@register("suspect", "connections that are not let through")
def connections_that_are_not_let_through(case: Case) -> Iterator[Suspicion]:
    """Suspect a firewall if a TCP connection fails, more so if the host answers a ping.

    A refused connection alone may come from a peer that has ended, and a time-out from one that was never started.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    answering = {ping.address for ping in case.pings if ping.received}
    guarded = next(
        (each for each in case.services if each.name in _FIREWALLS and each.active), None
    )
    for tried in case.tcp_failures:
        sure = _BLOCKED.get(tried.reason, 0.0)
        why = f"the connection ended with: {tried.reason}"
        if tried.address in answering:
            sure += _ANSWERS
            why += f", and {tried.address} answers a ping"
        if guarded:
            sure += _ANSWERS
            why += f", and {guarded.name} is active"
        if sure > _ANSWERS:
            yield Suspicion("firewall", min(sure, 0.9), tried.line, why)


def _known_addresses(case: Case) -> Iterator[tuple[str, Line]]:
    """Yield the addresses by which a launcher knows the nodes."""
    for word in ("address: ", "ip=", "tcp://", "master_addr", "--host"):
        for line in case.lines_with(word):
            for found in _KNOWN_ADDRESS.finditer(line.text):
                yield found[1], line
