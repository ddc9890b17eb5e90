"""What the topology of a server and the map of a fabric show: narrow links, NICs behind another socket, slow cables."""

from collections import Counter
from collections.abc import Iterator

from fabriclab.diagnosis.case import Case
from fabriclab.diagnosis.suspicion import Suspicion
from fabriclab.registry import register

_HALF = 0.5
_MBIT = 1000  # Mb/s in a Gb/s
_USABLE = 0.9  # of what a lane signals, after encoding and the headers of packets


@register("suspect", "topology of the server")
def topology_of_the_server(case: Case) -> Iterator[Suspicion]:
    """Suspect narrow PCIe links, NICs without GPUDirect, and GPUs whose socket has no NIC, in a topology of NCCL.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    for topology in case.xml:
        rates = {net.name: net.speed / _MBIT for net in topology.nets}  # [Gb/s]
        gpus = [device for device in topology.devices if device.title not in rates]
        for device in topology.devices:
            width = f"{device.title}: x{device.width} at {device.speed:g} GT/s"
            # What a device can do is not in the file: a NIC needs its rate, a GPU as much as other GPUs have.
            carries = device.width * device.speed * _USABLE
            rate = rates.get(device.title, 0.0)
            if 0 < carries < rate:
                why = f"{width} carries {carries:.0f} of its {rate:.0f} Gb/s"
                yield Suspicion("pcie_width", 0.8, device.line, why)
            elif device in gpus and 0 < device.width < max(each.width for each in gpus):
                yield Suspicion("pcie_width", 0.8, device.line, f"{width}, others are wider")
        without = [net for net in topology.nets if not net.gdr]
        if without and len(without) == len(topology.nets):
            yield Suspicion("gdr_off", 0.75, without[0].line, "gdr is 0 for every NIC")
        sockets = {net.cpu for net in topology.nets}
        alone = [gpu for gpu, cpu in topology.gpus.items() if sockets and cpu not in sockets]
        if alone and len(topology.nets) > 1:
            why = f"no NIC at the processor of GPU {', '.join(alone)}"
            yield Suspicion("nic_far", 0.7, topology.nets[0].line, why)


@register("suspect", "cables of the fabric")
def cables_of_the_fabric(case: Case) -> Iterator[Suspicion]:
    """Suspect a cable that runs with fewer lanes, or at another rate, than most do.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    links = case.links
    if len(links) < 3:
        return
    usual, times = Counter((link.lanes, link.speed) for link in links).most_common(1)[0]
    if times < _HALF * len(links):
        return
    for link in links:
        if link.lanes < usual[0]:
            why = f"{link.node.name} to {link.far_name}: {link.lanes}x{link.speed}, others {usual[0]}x{usual[1]}"
            yield Suspicion("link_low", 0.85, link.line, why)
            return
    odd = [link for link in links if (link.lanes, link.speed) != usual]
    if odd:
        link = odd[0]
        why = f"{link.node.name} to {link.far_name}: {link.lanes}x{link.speed}, others {usual[0]}x{usual[1]}"
        yield Suspicion("link_low", 0.5, link.line, why)


@register("suspect", "leaves of slow pairs")
def leaves_of_slow_pairs(case: Case) -> Iterator[Suspicion]:
    """Suspect flows that meet if all slow pairs cross leaf switches, and no fast one does.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    known = [pair for pair in case.pairs if pair.a in case.leaves and pair.b in case.leaves]
    if len(known) < 4:
        return
    across = [pair for pair in known if case.leaves[pair.a] != case.leaves[pair.b]]
    within = [pair for pair in known if case.leaves[pair.a] == case.leaves[pair.b]]
    if not across or not within:
        return
    slowest_within = min(pair.rate for pair in within)
    if max(pair.rate for pair in across) < 0.9 * slowest_within:
        why = "every pair that crosses leaf switches is slower than every pair below one"
        yield Suspicion("hash_collisions", 0.75, across[0].line, why)


@register("suspect", "security groups")
def security_groups(case: Case) -> Iterator[Suspicion]:
    """Suspect a firewall if a security group lets its own members in or out for some protocols only.

    Parameters
    ----------
    case : Case
        What the files say.
    """
    groups = case.security_groups
    if not groups or any(group.inward and group.outward for group in groups):
        return  # an interface may have several groups, and what one of them lets pass does pass
    for group in groups:
        sides = [
            side
            for side, lets in (("inbound", group.inward), ("outbound", group.outward))
            if not lets
        ]
        rules = " and no ".join(sides)
        why = f"{group.id} has no {rules} rule for all protocols that names the group itself"
        if group.rules:
            why += f" ({group.rules})"
        yield Suspicion("firewall", 0.85, group.line, why)
