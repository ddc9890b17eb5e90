"""Published gains of optical circuit switches, beside what can be computed here.

Computed in size: the duty of RotorNet and of Mordia, the circuits and the aggregate rate of a TPU v4 pod, and the
goodput of its slices of 3,072 chips at 99.0 % host availability. As a bound: the share of its power that optical
switches draw. In sign and rough size: the power that a data centre saves without spine switches (Jupiter), and power
for each port against a packet switch. In sign only: the capital saved, which depends on what an optical switch costs,
and nobody publishes that; and the shorter flow completion time, which depends on the sizes of flows. Not computed: five
times the capacity, which ten years of faster switches and links have part in.

The model of Jupiter is a leaf-spine network of the course's own parts, with the spines taken out: a leaf keeps its
ports and modules, spine ports and their modules go, and each leaf uplink takes one port of an optical switch. It leaves
out that traffic may cross a further leaf (a mean of 1.4 blocks is published, where a spine makes it 2), and that real
blocks have two stages of switches; with three ports of switches above a block of four ports, as in five stages, the
saving of power is 43 %.

Examples
--------
>>> from fabriclab import circuits
>>> for row in circuits.published()[:2]:
...     print(f"{row.what}: {row.theirs:.3g} {row.unit} published, {row.ours:.3g} here")
RotorNet, share of time in which circuits carry bytes: 0.9 1 published, 0.9 here
Mordia, share of time in which circuits carry bytes: 0.879 1 published, 0.879 here
"""

from __future__ import annotations

from typing import NamedTuple

from fabriclab import catalog, units
from fabriclab.circuits.slices import goodput
from fabriclab.circuits.switches import switch
from fabriclab.core.spec import Spec
from fabriclab.physics import switching

_HOST_AVAILABILITY = 0.99  # source: TPUv4, figure 4; recalled, not confirmed
_SLICE = 48  # cubes, 3,072 chips; the same figure


class Gain(NamedTuple):
    """A published gain and what is computed here; None where it cannot be."""

    what: str
    theirs: float
    ours: float | None
    unit: str
    agrees: str  # "size", "rough size", "sign", "bound", "not comparable" or "not computed"
    confirmed: bool  # whether the published figure was read in a source
    source: str
    note: str


class PortPower(NamedTuple):
    """Power for each port of a light path through a switch. [W]."""

    optical: float  # port of an optical switch
    packet: float  # port of a packet switch, its module included
    ratio: float


class Saving(NamedTuple):
    """What a leaf uplink costs with a spine and without one, and the share that is saved."""

    with_spine: float
    direct: float
    share: float


class Uplink(NamedTuple):
    """Parts of one leaf uplink, each in W or in USD."""

    port: float  # of a packet switch, without module
    module: float  # at one end of a fibre, with half of the fibre
    optical: float  # port of an optical switch


def port_power() -> PortPower:
    """Return the power of a port of an optical switch and of a packet switch with its modules.

    On its way through an optical switch light needs no module. Through a packet switch it needs two, one for each port,
    so each port has its module's power too. The power of both switches is recalled, not confirmed by a source.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> power = circuits.port_power()
    >>> round(power.optical, 2), round(power.packet, 1), round(power.ratio)
    (0.79, 20.2, 25)
    """
    parts = _watts()
    packet = parts.port + parts.module
    return PortPower(parts.optical, packet, packet / parts.optical)


def _watts() -> Uplink:
    """Return the power of the parts of a leaf uplink of 400 Gb/s. [W]."""
    packet = catalog.switches["quantum2"]
    optical = catalog.switches["palomar"]
    twin = catalog.value("media", "dr4x2", "power_max")  # a module of two ports
    return Uplink(
        port=packet["system_power_passive"].si / packet["ports"].si,
        module=twin / 2,
        optical=optical["power"].si / optical["ports"].si,
    )


def _dollars(optical_port: float) -> Uplink:
    """Return the price of the parts of a leaf uplink of 400 Gb/s, as the running case has them. [USD]."""
    case = catalog.case()
    fibres = 2 * case.gpus_per_server  # of a server: to the leaves, and as many between switches
    return Uplink(
        port=case.price_switch / case.switch_ports,
        module=case.price_cables_per_server / fibres / 2,
        optical=optical_port,
    )


def without_spine(parts: Uplink, block_ports: int = 2, spine_ports: int = 1) -> Saving:
    """Return what taking out the spine saves for each uplink of a block, in the unit of the parts.

    With a spine an uplink takes the ports of its block, a module at each end and the ports of the spine. Without one it
    takes the ports of its block, one module and a port of an optical switch; the other end is another block's uplink.

    Parameters
    ----------
    parts : Uplink
        Power or price of a port, a module and a port of an optical switch.
    block_ports : int
        Ports of packet switches in a block for each uplink: 2 for a leaf (down and up), 4 for two stages. >= 1
    spine_ports : int
        Ports of packet switches in the spine for each uplink: 1 for a spine, 3 for one of two stages. >= 1
    """
    block = units.count(block_ports, "block_ports") * parts.port
    spine = units.count(spine_ports, "spine_ports") * parts.port
    with_spine = block + 2 * parts.module + spine
    direct = block + parts.module + parts.optical
    return Saving(with_spine, direct, 1 - direct / with_spine)


def power_saving(block_ports: int = 2, spine_ports: int = 1) -> Saving:
    """Return the power that a network saves without its spine, for each uplink of a block. [W].

    Parameters
    ----------
    block_ports, spine_ports : int
        As in `without_spine`. >= 1

    Examples
    --------
    >>> from fabriclab import circuits
    >>> round(circuits.power_saving().share, 2), round(circuits.power_saving(4, 3).share, 2)
    (0.37, 0.43)
    """
    return without_spine(_watts(), block_ports, spine_ports)


def capital_saving(optical_port: float = 0.0, block_ports: int = 2, spine_ports: int = 1) -> Saving:
    """Return the capital that a network saves without its spine, for each uplink of a block. [USD].

    Parameters
    ----------
    optical_port : float
        Price of a port of an optical switch, which nobody publishes; at 0 the result is the most that can be saved.
        [USD], >= 0
    block_ports, spine_ports : int
        As in `without_spine`. >= 1

    Examples
    --------
    >>> from fabriclab import circuits
    >>> round(circuits.capital_saving().share, 2)
    0.41
    """
    price = units.parse(optical_port, "count", "optical_port")
    if price < 0:
        raise ValueError(f"optical_port must be >= 0 USD, got {optical_port!r}")
    return without_spine(_dollars(price), block_ports, spine_ports)


def price_for(share: float, block_ports: int = 2, spine_ports: int = 1) -> float:
    """Return the price of a port of an optical switch at which a share of the capital is saved. [USD].

    Examples
    --------
    >>> from fabriclab import circuits
    >>> round(circuits.price_for(0.30))
    312
    """
    free = capital_saving(0.0, block_ports, spine_ports)
    return (1 - units.parse(share, "count", "share")) * free.with_spine - free.direct


def pod_rate() -> float:
    """Return the rate of all circuits of a TPU v4 pod together, in one direction. [B/s].

    Examples
    --------
    >>> from fabriclab import circuits
    >>> round(circuits.pod_rate() / 1e12, 2)
    138.24
    """
    return pod_circuits() * catalog.value("links", "ici-tpu4", "bandwidth_per_link")


def pod_circuits() -> int:
    """Return the number of circuits of a TPU v4 pod: 64 cubes with 96 fibres, two to a circuit."""
    pod = catalog.systems["tpu4pod"]
    cubes = pod["chips"].si / pod["cube"].si
    return int(cubes * pod["fibres_per_cube"].si / 2)


def power_share_of_pod() -> float:
    """Return the power of all optical switches of a TPU v4 pod over the mean power of its chips alone."""
    pod = catalog.systems["tpu4pod"]
    chips = pod["chips"].si * catalog.value("accelerators", "tpu4", "power_mean")
    return float(pod["ocs"].si * catalog.value("switches", "palomar", "power") / chips)


def published() -> tuple[Gain, ...]:
    """Return all published gains of optical circuit switches in the catalog, beside what is computed here."""
    return (
        _of_duty("RotorNet", "ocs-rotornet"),
        _of_duty("Mordia", "ocs-mordia"),
        *_of_pod(),
        _of_port(),
        *_of_jupiter(),
    )


def _beside(
    row: Spec,
    ours: float | None,
    *,
    what: str,
    unit: str,
    agrees: str,
    note: str,
    confirmed: bool = True,
    theirs: float | None = None,
) -> Gain:
    """Return the figure of a row of the catalog beside what is computed here.

    ``theirs`` is given where the published figure has to be computed from that of the row.
    """
    published_figure = row.si if theirs is None else theirs
    if published_figure is None:
        msg = f"{what} is published as {row.quoted!r}, which has no SI value; give the figure as theirs="
        raise ValueError(msg)
    return Gain(
        what=what,
        theirs=published_figure,
        ours=ours,
        unit=unit,
        agrees=agrees,
        confirmed=confirmed,
        source=row.source,
        note=note,
    )


def _of_duty(name: str, key: str) -> Gain:
    """Return the published and the computed duty of a network whose slots include their set-up."""
    part = catalog.emerging[key]
    setup = switch(key).setup
    slot = part["slot"].si
    row = part["duty"]
    return _beside(
        row,
        switching.duty(slot - setup, setup),
        what=f"{name}, share of time in which circuits carry bytes",
        unit="1",
        agrees="size",
        confirmed="memory" not in row.source,
        note=f"set-up {units.format_time(setup)} in a slot of {units.format_time(slot)}",
    )


def _of_pod() -> tuple[Gain, ...]:
    """Return what is published of a TPU v4 pod."""
    pod = catalog.systems["tpu4pod"]
    cubes = pod["chips"].si / pod["cube"].si
    link_rate = catalog.value("links", "ici-tpu4", "bandwidth_per_link")
    return (
        _beside(
            pod["ocs"],
            float(pod_circuits()),
            what="TPU v4 pod, switches times cubes",
            theirs=pod["ocs"].si * cubes,
            unit="circuits",
            agrees="size",
            note="48 switches with a circuit for each of 64 cubes; 64 x 96 / 2",
        ),
        _beside(
            pod["all_reduce"],
            pod["chips"].si * 6 * link_rate,
            what="TPU v4 pod, all-reduce bandwidth",
            unit="B/s",
            agrees="size",
            note="links of all chips, both directions; circuits are a quarter: 138 TB/s in each direction",
        ),
        _beside(
            pod["goodput_ocs"],
            goodput(_HOST_AVAILABILITY, _SLICE),
            what="TPU v4 pod, goodput of slices of 3K chips at 99.0 % host availability",
            unit="1",
            agrees="size",
            confirmed=False,
            note="one slice of 48 of 64 cubes, in 98.9 % of the time",
        ),
        _beside(
            pod["goodput_fixed_max"],
            goodput(_HOST_AVAILABILITY, _SLICE, fixed=True),
            what="the same without optical switches, at most",
            unit="1",
            agrees="not comparable",
            confirmed=False,
            note="48 fixed cubes are hardly ever whole; what the paper counts there is not known here",
        ),
        _beside(
            pod["ocs_power_share"],
            power_share_of_pod(),
            what="TPU v4 pod, share of power of optical switches, less than",
            unit="1",
            agrees="bound",
            note="of the chips' mean power alone; the published share counts optical parts of links too",
        ),
    )


def _of_port() -> Gain:
    """Return the power of a large packet switch over that of an optical one with as many ports."""
    packet = catalog.switches["eps-136"]["power"]
    optical = catalog.switches["palomar"]["power"]
    return _beside(
        packet,
        port_power().ratio,
        what="packet switch with 136 ports over Palomar, power",
        theirs=packet.si / optical.si,
        unit="times",
        agrees="rough size",
        confirmed=False,
        note="ours: a port of 400 Gb/s of Quantum-2 with its module over a port of Palomar",
    )


def _of_jupiter() -> tuple[Gain, ...]:
    """Return what is published of Jupiter, whose spine was replaced by optical switches."""
    jupiter = catalog.systems["jupiter"]
    return (
        _beside(
            jupiter["power_saving"],
            power_saving().share,
            what="Jupiter, power saved",
            unit="1",
            agrees="rough size",
            note="a leaf-spine network without its spine; 0.43 with blocks and spines of two stages",
        ),
        _beside(
            jupiter["capex_saving"],
            capital_saving().share,
            what="Jupiter, capital saved",
            unit="1",
            agrees="sign",
            note="the most, with optical switches for nothing; 0.30 at 312 USD for a port of them",
        ),
        _beside(
            jupiter["fct_saving"],
            latency_saved(),
            what="Jupiter, flow completion time saved",
            unit="1",
            agrees="sign",
            note="ours: of the latency of an idle network, so of a flow of no bytes; a long flow saves nothing",
        ),
        _beside(
            jupiter["capacity_gain"],
            None,
            what="Jupiter, speed and capacity over a decade",
            unit="times",
            agrees="not computed",
            note="faster generations of switches and links have part in it",
        ),
    )


def latency_saved(blocks: float | None = None) -> float:
    """Return the share of an idle network's latency that is saved without a spine.

    A packet crosses the switch of its block, those of other blocks on the way and that of the receiver, with fibres
    between them. With a spine that is three switches; without one, one more than the mean path length.

    Parameters
    ----------
    blocks : float, optional
        Mean number of block-to-block links on the way; the published 1.4 unless given. >= 1
    """
    length = catalog.value("systems", "jupiter", "path_length") if blocks is None else blocks
    return float(1 - (length + 1) / 3)
