"""Jobs whose GPUs are scattered over a cluster: what they put on its links, and on the CPUs of its servers.

A scheduler gave each job the GPUs that were free, each in another server and of any number there. So on average every
NIC sends as much to each NIC of all other servers. The GPUs beside a job's GPU belong to other jobs, and so nobody
relays over the scale-up domain: PXN hands data to a GPU of the same job [1]_. A GPU sends from its own NIC as long as
that has a path to the NIC of its target. Where it has none, as between rails that no switch joins, the data cross the
CPUs of the server to the NIC that is nearest to the target's, and what changes the socket shares the link between the
two CPUs.

Left out: the fluctuations of single placements, PCIe within a socket, which has more room, and whether a job's library
finds the way over the CPUs by itself.

References
----------
.. [1] NVIDIA, NCCL user guide, NCCL_PXN_DISABLE: inter-node communication over a NIC that is not local, by NVLink and
   an intermediate GPU. GPUs of a communicator are all that NCCL knows.

Examples
--------
Rails without a switch between them, and rails with as many ports up as down:

>>> from fabriclab import designs
>>> tenants = designs.workloads()[4]
>>> for name, arguments in (("rail_only", {"radix": 128}), ("rail_optimised", {})):
...     hall = designs.read({"family": name, "arguments": {"servers": 128, **arguments}})
...     print(name, f"{designs.loads(hall, tenants).by_axis['EP']:.2f} s")
rail_only 2.27 s
rail_optimised 0.50 s
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fabriclab import catalog
from fabriclab.core import Flags, Floats, Ints
from fabriclab.designs.network import FAR, Network

__all__ = ["Exchange", "between_sockets", "exchange"]

_SOCKETS = 2  # of a server


def between_sockets() -> float:
    """Return the rate at which data of GPUs pass from one CPU of a server to the other, as NCCL plans with. [B/s]."""
    return float(catalog.value("memory_path", "upi-spr", "bandwidth"))


class Exchange(NamedTuple):
    """What scattered jobs put on a network.

    Parameters
    ----------
    between : (n, n) float64
        Bytes from the switch at which they enter to that at which they leave. [B]
    out, into : (p,) float64
        Bytes out of and into each port. [B]
    cpus : float
        Most bytes that pass from one CPU of a server to the other, in one direction. [B]
    lost : (S, S) float64
        Bytes from server to server that find no way by the NICs of both GPUs. [B]
    """

    between: Floats
    out: Floats
    into: Floats
    cpus: float
    lost: Floats


@dataclass(frozen=True)
class _Ends:
    """NICs of a network in classes of equal ports, and servers in kinds of equal NICs.

    Parameters
    ----------
    net : Network
        The network.
    gpus : int
        NICs of a server.
    """

    net: Network
    gpus: int

    @cached_property
    def port(self) -> Ints:
        """Ports of each NIC, server after server, (S G, K); -1 where it has fewer."""
        nic = self.net.port_server * self.gpus + self.net.port_nic
        order = np.argsort(nic, kind="stable")
        place = np.arange(nic.size) - np.searchsorted(nic[order], nic[order])
        found = np.full((self.net.servers * self.gpus, int(place.max(initial=0)) + 1), -1)
        found[nic[order], place] = order
        return found

    @cached_property
    def _classes(self) -> tuple[Floats, Ints]:
        there = self.port >= 0
        switch = np.where(there, self.net.port_switch[self.port], -1)
        rate = np.where(there, self.net.port_rate[self.port], 0.0)
        table, of = np.unique(np.hstack([switch, rate]), axis=0, return_inverse=True)
        return table, of.reshape(self.net.servers, self.gpus)

    @property
    def switch(self) -> Ints:
        """Switch of each port of a NIC of each class, (C, K); -1 where it has fewer."""
        return self._classes[0][:, : self.port.shape[1]].astype(np.int64)

    @property
    def rate(self) -> Floats:
        """Rate of each port of a NIC of each class, (C, K). [B/s]."""
        return self._classes[0][:, self.port.shape[1] :]

    @property
    def of_nic(self) -> Ints:
        """Class of each NIC, (S, G)."""
        return self._classes[1]

    @cached_property
    def kinds(self) -> tuple[Ints, Ints]:
        """Classes of the NICs of each kind of server, (P, G), and the kind of each server, (S,)."""
        table, of = np.unique(self.of_nic, axis=0, return_inverse=True)
        return table, of.ravel()

    @cached_property
    def hops(self) -> Ints:
        """Fewest hops from a NIC of each class to one of each other class, (C, C)."""
        switch = self.switch
        there = switch >= 0
        found = np.full((len(switch), len(switch)), FAR)
        for one in range(len(switch)):
            for here in switch[one][there[one]].tolist():
                near = np.where(there, self.net.hops[here][switch], FAR).min(axis=1)
                found[one] = np.minimum(found[one], near)
        return found

    def ways(self, one: int) -> Floats:
        """Return the part of the bytes from each port of a class to each port of all others, (K, C, K).

        A port takes part by its rate, unless it reaches no port of the other NIC; it sends to those that are nearest.
        """
        switch, rate = self.switch, self.rate
        there = switch >= 0
        hops = np.where(there[None], self.net.hops[switch[one][:, None, None], switch[None]], FAR)
        hops[~there[one]] = FAR
        least = hops.min(axis=2)  # (K, C)
        sends = np.where(least < FAR, rate[one][:, None], 0.0)
        takes = np.where((hops == least[:, :, None]) & (hops < FAR), rate[None], 0.0)
        return _parts(sends, 0)[:, :, None] * _parts(takes, 2)


def _parts(weights: Floats, axis: int) -> Floats:
    """Return weights over their sum along an axis; 0 where that is 0."""
    total = weights.sum(axis=axis, keepdims=True)
    found: Floats = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return found


def exchange(net: Network, gpus: int, size: float) -> Exchange:
    """Return what it puts on a network if each GPU sends evenly to all GPUs of other servers.

    Parameters
    ----------
    net : Network
        The network.
    gpus : int
        GPUs and NICs of a server.
    size : float
        What each GPU sends. [B]
    """
    ends = _Ends(net, gpus)
    kinds, of_server = ends.kinds
    members = np.bincount(of_server, minlength=len(kinds))
    n = len(ends.switch)
    own = np.stack([np.bincount(kind, minlength=n) for kind in kinds])  # (P, C)
    targets = members @ own - own  # NICs of each class in other servers, (P, C)
    each = size / (net.servers * gpus - gpus)  # to one NIC [B]

    leaves, crossing, is_lost = _leaves(ends)
    cpus = each * float(np.max(np.einsum("pdc,pc->pd", crossing, targets), initial=0.0))

    # From a NIC of each kind to all NICs of a class, (P, G, C).
    sent = each * leaves * targets[:, None, :]
    total = np.zeros((n, n))
    senders = np.zeros((n, n))  # GPUs whose bytes for one NIC of a class leave by NICs of a class
    for kind, classes in enumerate(kinds):
        np.add.at(total, classes, members[kind] * sent[kind])
        np.add.at(senders, classes, members[kind] * leaves[kind])
    inside = np.stack([leaves[kind][:, classes] for kind, classes in enumerate(kinds)])  # (P, G, G)

    between = np.zeros((net.n, net.n))
    out = np.zeros((len(kinds), gpus, ends.port.shape[1]))
    into = np.zeros_like(out)
    there = ends.switch >= 0
    for one in range(n):
        way = ends.ways(one)
        for here in np.flatnonzero(there[one]).tolist():
            load = total[one][:, None] * way[here]
            between[ends.switch[one, here]] += np.bincount(
                ends.switch[there], load[there], minlength=net.n
            )
        place = np.nonzero(kinds == one)
        out[place] = np.einsum("mc,kcl->mk", sent[place], way)
        from_others = senders[one][kinds] - np.einsum("pg,pgj->pj", kinds == one, inside)
        into += each * from_others[:, :, None] * way.sum(axis=0)[kinds]
    lost: Floats = each * gpus * (is_lost @ own.T)[of_server][:, of_server].astype(np.float64)
    np.fill_diagonal(lost, 0.0)
    return Exchange(between, *_on_ports(ends, out, into), cpus, lost)


def _leaves(ends: _Ends) -> tuple[Floats, Floats, Flags]:
    """Return by which NICs bytes leave a server of each kind.

    The first array, (P, G, C), counts the GPUs whose bytes for a NIC of a class leave by each NIC; the second,
    (P, 2, C), those that change the socket for it, by direction; the third, (P, C), says which classes no NIC of a kind
    reaches.
    """
    kinds, _ = ends.kinds
    gpus = ends.gpus
    socket = np.arange(gpus) * _SOCKETS // gpus
    shares_socket = socket[:, None] == socket
    leaves = np.zeros((len(kinds), gpus, len(ends.switch)))
    crossing = np.zeros((len(kinds), _SOCKETS, len(ends.switch)))
    is_lost = np.zeros((len(kinds), len(ends.switch)), dtype=np.bool_)
    for kind, classes in enumerate(kinds):
        hops = ends.hops[classes]  # (G, C)
        best = hops.min(axis=0)
        is_lost[kind] = best >= FAR
        nearest = (hops == best) & (best < FAR)
        keeps = hops < FAR
        near = nearest[None] & shares_socket[:, :, None]  # (GPU, NIC, C)
        part = _parts(np.where(near.any(axis=1, keepdims=True), near, nearest[None]) * 1.0, 1)
        part = np.where(keeps[:, None, :], np.eye(gpus)[:, :, None], part)
        leaves[kind] = part.sum(axis=0)
        for one in range(_SOCKETS):
            moved = part[np.ix_(socket == one, socket != one)]
            crossing[kind, one] = moved.sum(axis=(0, 1))
    return leaves, crossing, is_lost


def _on_ports(ends: _Ends, out: Floats, into: Floats) -> tuple[Floats, Floats]:
    """Return bytes by kind, NIC and port, (P, G, K), as bytes of each port of the network, (p,)."""
    _, of_server = ends.kinds
    has = ends.port >= 0
    found = []
    for load in (out, into):
        every = load[of_server].reshape(ends.port.shape)
        on_port = np.zeros(ends.net.port_server.size)
        on_port[ends.port[has]] = every[has]
        found.append(on_port)
    return found[0], found[1]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
