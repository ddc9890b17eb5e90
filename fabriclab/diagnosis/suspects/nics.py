"""NICs, their ports and their PCIe links: one that carries all, some that are down, links below what they can."""

import re
from collections.abc import Iterator

from fabriclab import catalog
from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.nccl_log import Channel
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.importers.lines import Line
from fabriclab.registry import register
from fabriclab.texts import text

_NIC = re.compile(r"mellanox|connectx|broadcom|ethernet|infiniband|network", re.IGNORECASE)
_FAILED_DEVICE = re.compile(
    r"\bon ((?:mlx\d_|bnxt_re|roce|rdma|ionic_)\w+)\b.*?(?:timed out|failed)"
)
_USUAL_MTU = 1500  # of Ethernet: IEEE 802.3; a larger one was set on purpose
_ONE_LANE = 30.0  # Gb/s of PCIe Gen5 per lane and direction, of which about 9/10 reach the wire: 27
_USABLE = 0.9
_NEAR = ("PIX", "PXB")
_MANY = 3  # idle NICs: more than a host has for storage and management
_GB = 1e9
# Numbers of chips, as ibstat prints them, and their row in the catalog of NICs.
_SOLD = {"cx7": 200.0}  # [Gb/s], lowest; source: NVIDIA, ConnectX-7 user manual, specifications
CARDS = {"MT4119": "cx5", "MT4123": "cx6", "MT4129": "cx7", "MT4131": "cx8"}


@register("suspect", "NICs of the channels")
def nics_of_the_channels(case: Case) -> Iterator[Suspicion]:
    """Suspect that one NIC is used if all channels between servers go through one, and more are listed.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    listed = max((len(of_host) for of_host in case.log.devices.values()), default=0)
    runs: dict[int, list[Channel]] = {}
    for channel in case.log.outside_channels:
        if channel.network.lower() != "socket":
            runs.setdefault(case.log.run_of.get(channel.line.file, 0), []).append(channel)
    for outside in runs.values():
        used = {channel.device for channel in outside}
        if listed > 1 and len(used) == 1 and len({c.number for c in outside}) > 1:
            sure = 0.9 if case.log.local_ranks != 1 or listed > 2 else 0.7
            far = any(not pair.enabled for pair in case.log.distances)
            if far and listed <= 2:
                sure = 0.5  # the other one may be no NIC for GPUs
            why = f"all channels use NIC {used.pop()} of {listed}"
            yield Suspicion("one_nic_used", sure, outside[-1].line, why)


@register("suspect", "NICs that are left out")
def nics_that_are_left_out(case: Case) -> Iterator[Suspicion]:
    """Suspect that one NIC is used if the library has one, and the host has others of its kind that are up.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    named = case.setting("NCCL_IB_HCA")
    for host, of_host in case.log.devices.items():
        if len(of_host) != 1 or not case.several_servers:
            continue
        (used,) = of_host.values()
        for file, ports in case.ports.items():
            mine = next((port for port in ports if port.device == used.name), None)
            if mine is None:
                continue
            idle = [
                p.device for p in ports if p.up and p.layer == mine.layer and p.rate >= mine.rate
            ]
            idle = sorted(set(idle) - {used.name})
            if idle:
                verb = "is" if len(idle) == 1 else "are"
                why = f"{host} uses {used.name} only, and {', '.join(idle)} of {file} {verb} up"
                where = named[1] if named else case.log.device_lines[host]
                sure = 0.87 if len(idle) >= _MANY else 0.7
                bare = _without_address(case, file, idle)
                if bare:
                    why += f", {', '.join(bare.values())} without an IPv4 address"
                setting = f"NCCL_IB_HCA={','.join(sorted({used.name, *idle}))}"
                if bare:
                    setting = text(
                        "doctor.advice.address_setting", netdev=min(bare.values()), hca=setting
                    )
                if bare:
                    action = text(
                        "doctor.advice.no_address",
                        devices=", ".join(bare),
                        netdevs=", ".join(bare.values()),
                    )
                else:
                    action = text("doctor.advice.left_out", devices=", ".join(idle))
                yield Suspicion("one_nic_used", sure, where, why, instead=setting, action=action)
                return
        near = set()
        for topology in case.topologies.values():
            for gpu in topology.names:
                if gpu.startswith("GPU"):
                    near |= {n for n in topology.nearest(gpu) if topology.relation(gpu, n) in _NEAR}
        if len(near) > 1:
            why = f"{host} uses {used.name} only, and {len(near)} NICs are near its GPUs"
            where = named[1] if named else case.log.device_lines[host]
            yield Suspicion("one_nic_used", 0.87 if len(near) > _MANY else 0.7, where, why)
            return


def _without_address(case: Case, file: str, devices: list[str]) -> dict[str, str]:
    """Return the devices on Ethernet whose network interface is listed and has no IPv4 address, with the interface."""
    ports = case.ports[file]
    netdevs = {port.device: port.netdev for port in ports if port.netdev}
    infiniband = {port.device for port in ports if port.layer == "InfiniBand"}
    listed = {each.name: each for each in case.interfaces.get(file, ())}
    found = {}
    for device in devices:
        interface = listed.get(netdevs.get(device, ""))
        if interface and not interface.addresses and device not in infiniband:
            found[device] = interface.name
    return found


@register("suspect", "two functions of one adapter")
def two_functions_of_one_adapter(case: Case) -> Iterator[Suspicion]:
    """Suspect that one NIC is used if an adapter has two PCIe functions, and a test drives one near its PCIe limit.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    nics = [device for device in case.pcie if _NIC.search(device.title)]
    up = {port.device for ports in case.ports.values() for port in ports if port.up}
    driven = {row.device for row in case.perftest if row.device}
    if len(nics) < 2 or len(up) < 2 or len(driven) != 1:
        return
    limit = min(device.width for device in nics) * _ONE_LANE * _USABLE
    best = max(row.rate for row in case.perftest)
    if 0.75 * limit < best <= 1.1 * limit:
        idle = sorted(up - driven)
        where = nics[-1].line
        yield Suspicion(
            "one_nic_used",
            0.85,
            where,
            f"{best:.0f} Gb/s is what one function can, and {', '.join(idle)} is idle",
        )


@register("suspect", "rails that do not answer")
def rails_that_do_not_answer(case: Case) -> Iterator[Suspicion]:
    """Suspect rails that are down if a list says so, or connections over some devices time out.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    dead = [answer for answer in case.answers if not answer.answers]
    alive = [answer for answer in case.answers if answer.answers]
    if dead and len(dead) + len(alive) > 1:
        yield Suspicion(
            "rails_down",
            0.86,
            dead[0].line,
            f"{len(dead)} of {len(dead) + len(alive)} do not answer",
        )
    failed: dict[str, Line] = {}
    for line in case.lines_with("timed out"):
        found = _FAILED_DEVICE.search(line.text)
        if found:
            failed.setdefault(found[1], line)
    if len(failed) > 1:
        yield Suspicion(
            "rails_down", 0.88, next(iter(failed.values())), f"on {', '.join(sorted(failed))}"
        )


@register("suspect", "ports that are down")
def ports_that_are_down(case: Case) -> Iterator[Suspicion]:
    """Suspect rails that are down if some of a host's ports are, and the host uses several.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    some_down = False
    for file, of_file in case.ports.items():
        ports = case.ports_of_job(of_file)
        some_down = some_down or any(not port.up for port in ports)
        down = [port for port in ports if not port.up]
        if not down or len(down) == len(ports):
            continue
        usual = len(down) == len(ports) - len(down)  # the second port of each card is often free
        yield Suspicion(
            "rails_down",
            0.3 if usual else 0.75,
            down[0].line,
            f"{len(down)} of {len(ports)} ports are down in {file}",
        )
    counts = {host: len(of_host) for host, of_host in case.log.devices.items()}
    if len(set(counts.values())) > 1:
        host = min(counts, key=lambda each: counts[each])
        most = max(counts.values())
        several = "NIC" if counts[host] == 1 else "NICs"
        why = f"{host} uses {counts[host]} {several}, others {most}"
        if not some_down:
            why += "; no file shows a port that is down"
        where = case.log.device_lines[host]
        yield Suspicion("rails_down", 0.8 if some_down else 0.45, where, why)


@register("suspect", "rates of ports")
def rates_of_ports(case: Case) -> Iterator[Suspicion]:
    """Suspect a link below the others if an active port that the job may use runs at a lower rate than most of them.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    used = {device.name for of_host in case.log.devices.values() for device in of_host.values()}
    ports = []
    for of_file in case.ports.values():
        known = used & {port.device for port in of_file}  # else the job ran on another host's ports
        for port in case.ports_of_job(of_file):
            if port.up and port.rate and (not known or port.device in known):
                ports.append(port)
    for port in ports:
        entry = CARDS.get(port.card)
        if entry and port.rate < round(8 / _GB * catalog.value("nics", entry, "throughput")):
            name = catalog.nics[entry]["throughput"].name
            sold = port.rate >= _SOLD.get(entry, float("inf"))
            if sold and len({each.rate for each in ports}) == 1:
                continue  # cards of this name are sold with that rate, and all ports have it
            why = f"{port.device} is a {name} and runs at {port.rate:g} Gb/s; is the other end made for that?"
            yield Suspicion("link_low", 0.62, port.line, why)
            break
    if len(ports) < 2:
        return
    usual = max(port.rate for port in ports)
    slow = [port for port in ports if port.rate < usual]
    for port in slow[:1]:
        sure = 0.88 if len(slow) < len(ports) - len(slow) or len(ports) == 2 else 0.55
        why = f"{port.device} runs at {port.rate:g} Gb/s, others at {usual:g}"
        yield Suspicion("link_low", sure, port.line, why)


@register("suspect", "PCIe links")
def pcie_links(case: Case) -> Iterator[Suspicion]:
    """Suspect a PCIe link that runs with fewer lanes or at a lower speed than it can.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for device in case.pcie:
        if not device.width or not device.cap_width:
            continue
        narrow = device.width < device.cap_width
        slow = device.speed < device.cap_speed
        if narrow or slow:
            sure = 0.9 if narrow or _NIC.search(device.title) else 0.6
            is_so, can_be = f"x{device.width}", f"x{device.cap_width}"
            if device.cap_speed:  # not every tool prints it
                is_so += f" at {device.speed:g} GT/s"
                can_be += f" at {device.cap_speed:g}"
            yield Suspicion(
                "pcie_width", sure, device.line, f"{device.address}: {is_so} of {can_be}"
            )


@register("suspect", "MTUs")
def mtus(case: Case) -> Iterator[Suspicion]:
    """Suspect the MTU if the same port or interface has another one on another host.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    seen: dict[str, tuple[str, str]] = {}
    for file, ports in case.ports.items():
        for port in ports:
            if not port.mtu or not port.up:
                continue
            before = seen.setdefault(port.device, (port.mtu, file))
            if before[0] != port.mtu:
                why = f"{port.device}: {port.mtu} here, {before[0]} in {before[1]}"
                yield Suspicion("mtu_mismatch", 0.88, port.line, why)
    found: dict[str, tuple[int, str]] = {}
    for file, interfaces in case.interfaces.items():
        for each in interfaces:
            if each.name == "lo" or not each.up or not each.mtu:
                continue
            other = found.setdefault(each.name, (each.mtu, file))
            if other[0] != each.mtu:
                why = f"{each.name}: {each.mtu} here, {other[0]} in {other[1]}"
                yield Suspicion("mtu_mismatch", 0.85, each.line, why)


@register("suspect", "probes of the MTU")
def probes_of_the_mtu(case: Case) -> Iterator[Suspicion]:
    """Suspect the MTU if small packets pass and large ones are lost, be it of ping or of RDMA, or a switch takes less.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for ping in case.pings:
        passed = [
            p for p in case.pings if p.address == ping.address and p.received and p.size < ping.size
        ]
        if ping.sent and not ping.received and passed:
            why = f"packets with {ping.size} B of data are lost, those with {passed[0].size} B pass"
            yield Suspicion("mtu_mismatch", 0.92, ping.line, why)
            break
    interfaces = [each for of_file in case.interfaces.values() for each in of_file if each.up]
    sizes = [(each.name, each.mtu) for each in interfaces]
    sizes += [(each.name, each.mtu) for each in case.host_mtus]
    of_host = []
    for name, mtu in sizes:
        if mtu > _USUAL_MTU and not name.startswith(("lo", "ib", "docker")):
            of_host.append(mtu)
    active = []
    for ports in case.ports.values():
        for of_rdma in case.ports_of_job(ports):
            if of_rdma.up and of_rdma.layer == "Ethernet" and of_rdma.mtu.isdecimal():
                active.append(int(of_rdma.mtu))
    largest = max((*of_host, *active), default=0)
    up = [port for port in case.switch_ports if port.up]
    small = [port for port in up if port.mtu < largest]
    if small and 2 * len(small) >= len(up):
        takes = f"{len(small)} of {len(up)} ports of the switch take {small[0].mtu} B"
        why = f"the host sends up to {largest} B, and {takes}"
        yield Suspicion("mtu_mismatch", 0.88 if case.failure else 0.7, small[0].line, why)
    largest = max(active, default=0)
    tried = [row for row in case.perftest if 0 < row.mtu < largest and row.rate > 0]
    if tried and case.failure:
        why = f"RDMA runs with an MTU of {tried[0].mtu} B, and the job, whose ports have {largest} B, fails"
        yield Suspicion("mtu_mismatch", 0.7, tried[0].line, why)
