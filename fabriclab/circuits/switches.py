"""Optical circuit switches, and networks of hosts whose circuits stay dark until they are set up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder, Floats, Ints, check_size

_FIBRE_LENGTH = "30 m"  # illustrative: from a host to the optical switch of its hall
_PALOMAR = "palomar"


@dataclass(frozen=True, slots=True)
class OpticalSwitch:
    """An optical circuit switch: it joins an input fibre to an output fibre and looks at no packet.

    Leaves out the wavelengths that it passes, and mirrors that stick.

    Parameters
    ----------
    name : str
        What it is called.
    setup : float
        Time from the command to a new circuit that carries bytes; its ports are dark meanwhile. [s], >= 0
    ports : int, optional
        Inputs, and as many outputs; None where no source gives them.
    loss : float, optional
        Loss of light from input to output, for the ``losses`` of `fabriclab.physics.optical.budget`; None where no
        source gives one number. [dB]
    power : float, optional
        Power of the whole switch. [W]
    source : str
        Where set-up time and ports come from, as `fabriclab.catalog.cite` reads it.
    """

    name: str
    setup: float
    ports: int | None = None
    loss: float | None = None
    power: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        """Check the ranges."""
        units.time(self.setup, "setup")
        if self.ports is not None:
            units.count(self.ports, "ports", 2)


def kinds() -> tuple[str, ...]:
    """Return the names of the optical switches that `switch` knows."""
    known = [_PALOMAR]
    for name, part in catalog.emerging.items():
        if name.startswith("ocs-") and "setup" in part:
            known.append(name)
    return tuple(known)


def switch(kind: str = _PALOMAR) -> OpticalSwitch:
    """Return an optical switch of the catalog.

    ``"palomar"`` is the switch of TPU v4 pods, with 136 ports and the set-up time that the catalog chooses for 3D MEMS;
    the others are technologies, whose ports and loss are None where the catalog has no single number.

    Parameters
    ----------
    kind : str
        One of `kinds`.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.switch("palomar").setup
    0.01
    """
    kind = units.choice(kind, "kind", kinds())
    if kind == _PALOMAR:
        part = catalog.switches[_PALOMAR]
        mirrors = catalog.emerging["ocs-mems"]["setup"]
        return OpticalSwitch(
            name=part.name,
            setup=mirrors.si,
            ports=int(part["ports"].si),
            loss=float(part["insertion_loss"].value),
            power=float(part["power"].si),
            source=f"{part['ports'].source}+{mirrors.source}",
        )

    part = catalog.emerging[kind]
    setup = part["setup"]
    return OpticalSwitch(name=setup.name, setup=setup.si, source=setup.source)


def network(
    hosts: int,
    *,
    packets: units.Quantity | None = None,
    relay: bool = False,
    switch: OpticalSwitch | None = None,
    length: units.Quantity = _FIBRE_LENGTH,
) -> Fabric:
    """Build hosts on optical switches: every possible circuit is a cable, and all of them are dark.

    A cable of two hosts stands for the circuits between them, one link for each direction. Its capacity is 0 until
    `CircuitPlan.changes` lights it during a run, or `lit` for good. The optical switch is no node, since a circuit
    carries no other traffic. There are n (n - 1) / 2 such cables for n hosts. Their ``ports`` are 0, because a host
    needs a port only for a circuit that is lit.

    Parameters
    ----------
    hosts : int
        Number of hosts, which are the ranks. >= 2
    packets : float or str, optional
        Adds one non-blocking packet switch that joins all hosts at this rate, for a hybrid of both. [B/s]
    relay : bool
        Whether hosts pass on what is not for them, as over two circuits in turn.
    switch : OpticalSwitch, optional
        Refuses more hosts than its ports; there is one such switch for each circuit that a host has at a time.
    length : float or str
        Fibre from a host to the optical switch; illustrative. [m]

    Raises
    ------
    ValueError
        If the switch has too few ports.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> fabric = circuits.network(4)
    >>> fabric.n_cables, fabric.capacity.max().item()
    (6, 0.0)
    """
    n = units.count(hosts, "hosts", 2)
    if switch is not None and switch.ports is not None and n > switch.ports:
        raise ValueError(
            f"hosts must be within 2..{switch.ports}, the ports of {switch.name}, got {n}; "
            "take fewer hosts, or groups of hosts on switches of their own"
        )
    metres = units.length(length, "length")
    check_size(f"{n} hosts on an optical switch", n + 1, n * (n - 1) // 2 + n)

    builder = FabricBuilder(("host", "switch"), ("index",))
    host = builder.add_nodes(
        "host", n, tier=0, transit=units.flag(relay, "relay"), index=np.arange(n)
    )
    one, other = np.triu_indices(n, 1)
    to_switch = metres * catalog.value("media", "fibre", "propagation")  # [s]
    builder.add_cables(
        host[one],
        host[other],
        capacity=0.0,
        delay=2 * to_switch,
        ports=0,
        medium="circuit",
        length=2 * metres,
    )
    if packets is not None:
        forwarding = catalog.value("switches", "quantum2", "latency_port_to_port", source="Q2-yobi")
        hub = builder.add_nodes("switch", 1, tier=1, transit=True, forwarding=forwarding, index=0)
        builder.add_cables(
            host,
            hub,
            capacity=units.rate(packets, "packets"),
            delay=to_switch,
            medium="fibre",
            length=metres,
        )
    return builder.build("circuits", {}, endpoint=host, rail=np.zeros(n), server=np.arange(n))


def links(fabric: Fabric, source: ArrayLike, target: ArrayLike) -> Ints:
    """Return the link of the circuit from each rank of ``source`` to that of ``target``, in their shape.

    A link between two endpoints is a circuit; where several join the same two, the first counts.

    Raises
    ------
    ValueError
        If two of the ranks have no circuit, or the fabric has none at all.
    """
    n = fabric.n_ranks
    sender = np.asarray(source, dtype=np.int64)
    receiver = np.asarray(target, dtype=np.int64)
    from_rank = fabric.rank_of[fabric.source]
    to_rank = fabric.rank_of[fabric.target]
    circuit = np.flatnonzero((from_rank >= 0) & (to_rank >= 0))
    if not circuit.size:
        raise ValueError(
            f"fabric must have links between its hosts, got {fabric!r:.80}; take circuits.network(hosts)"
        )

    key = from_rank[circuit] * n + to_rank[circuit]
    order = np.argsort(key, kind="stable")
    wanted = sender * n + receiver
    place = np.minimum(np.searchsorted(key[order], wanted), circuit.size - 1)
    found = key[order][place] == wanted
    if not np.all(found):
        lost = int(np.flatnonzero(~found)[0])
        ends = (int(sender.ravel()[lost]), int(receiver.ravel()[lost]))
        raise ValueError(
            f"no circuit can join rank {ends[0]} to rank {ends[1]} of {n}; "
            "name two different ranks of circuits.network(hosts)"
        )
    return np.asarray(circuit[order][place], dtype=np.int64)


def lit(fabric: Fabric, circuits: ArrayLike, rate: units.Quantity) -> Fabric:
    """Return a copy of a fabric in which circuits are lit for good, as for the whole of a job.

    Parameters
    ----------
    fabric : Fabric
        One of `network`, or any other with a link for each circuit.
    circuits : (N, N) int
        Circuits from each rank to each other; several of a pair share one link.
    rate : float or str
        Rate of one circuit. [B/s]
    """
    count = square(circuits, "circuits", fabric.n_ranks)
    source, target = np.nonzero(count)
    link = links(fabric, source, target)
    one = units.rate(rate)
    capacity: Floats = fabric.capacity.copy()
    capacity[link] = one * count[source, target]
    return fabric.shown_as("", capacity=capacity)


def square(matrix: ArrayLike, name: str, n: int | None = None) -> Floats:
    """Return a matrix of traffic or of circuits as floats, (N, N), or say what is wrong with it.

    Raises
    ------
    ValueError
        If it is not square, has a negative or an infinite entry, or one on its diagonal.
    """
    try:
        table = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a square of numbers, a row for each sender, got {matrix!r:.60}"
        ) from None
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] < 2:
        raise ValueError(
            f"{name} must have a row and a column for each of 2 or more hosts, got the shape {table.shape}"
        )
    if n is not None and len(table) != n:
        raise ValueError(f"{name} must have {n} rows, one for each rank, got {len(table)}")
    wrong = np.argwhere(~(np.isfinite(table) & (table >= 0)))
    if wrong.size:
        i, j = wrong[0].tolist()
        raise ValueError(f"{name}[{i}, {j}] must be finite and >= 0, got {table[i, j]:g}")
    own = np.flatnonzero(np.diag(table))
    if own.size:
        i = int(own[0])
        raise ValueError(
            f"{name}[{i}, {i}] must be 0, since no host sends to itself, got {table[i, i]:g}"
        )
    return table
