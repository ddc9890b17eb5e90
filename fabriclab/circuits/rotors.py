"""Rotors: optical switches that step through the same matchings for ever, without looking at the traffic.

With n hosts the n - 1 cyclic shifts join each pair once in a cycle, so nothing has to be computed or agreed upon.
Uniform traffic goes at the duty of the switch. Any other traffic may first be spread over all hosts and sent on from
there (Valiant), which makes it uniform and sends every byte twice; so at least half of the duty is reached [1]_ [2]_.

References
----------
.. [1] L. G. Valiant, A scheme for fast parallel communication, SIAM Journal on Computing 11(2), 1982.
.. [2] W. M. Mellette et al., RotorNet: a scalable, low-complexity, optical datacenter network, SIGCOMM 2017.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import engines, units
from fabriclab.circuits.plans import CircuitPlan, Played, direct, over, plan
from fabriclab.circuits.switches import links, network, square
from fabriclab.core import Fabric, Floats, Flows, Ints

_CLOSE = 1e-9  # relative: what rounding may add to a number of cycles


def rotor_matchings(hosts: int) -> Ints:
    """Return the matchings of a rotor, (N - 1, N): in turn k, host i sends to host i + k + 1, modulo N.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.rotor_matchings(4).tolist()
    [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    """
    n = units.count(hosts, "hosts", 2)
    turn = np.arange(1, n)[:, None]
    return np.asarray((np.arange(n) + turn) % n, dtype=np.int64)


def rotor(
    hosts: int,
    hold: units.Quantity,
    *,
    rate: units.Quantity,
    setup: units.Quantity,
    cycles: int = 1,
) -> CircuitPlan:
    """Return the plan of a rotor: each matching is held equally long, and the sequence is repeated.

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 2
    hold : float or str
        How long each matching is held. [s]
    rate : float or str
        Rate of a circuit. [B/s]
    setup : float or str
        Set-up time of each matching. [s]
    cycles : int
        How often all N - 1 matchings come. >= 1
    """
    seconds = units.time(hold, "hold")
    return plan(rotor_matchings(hosts), seconds, rate=rate, setup=setup, cycles=cycles)


def spread(matrix: ArrayLike) -> tuple[Floats, Floats]:
    """Return the two loads of Valiant's detour, (N, N) each: to the host in between, and on from there. [B].

    Each host keeps 1/N of what it sends to another, to send it itself, and gives 1/N to each of the others.
    """
    traffic = square(matrix, "matrix")
    n = len(traffic)
    out = np.repeat(traffic.sum(axis=1, keepdims=True) / n, n, axis=1)
    on = np.repeat(traffic.sum(axis=0, keepdims=True) / n, n, axis=0)
    np.fill_diagonal(out, 0.0)
    np.fill_diagonal(on, 0.0)
    return out, on


def play_rotor(
    matrix: ArrayLike,
    hold: units.Quantity,
    *,
    rate: units.Quantity,
    setup: units.Quantity,
    detour: bool = False,
) -> Played:
    """Send a traffic matrix over a rotor, on the flow engine, for as many cycles as it takes.

    Parameters
    ----------
    matrix : (N, N) float
        Bytes from each host to each other, all there at time 0. [B]
    hold, rate, setup : float or str
        As in `rotor`. [s], [B/s], [s]
    detour : bool
        False: every byte waits for the circuit to its receiver. True: every byte goes by way of a host that all
        traffic is divided among, over two circuits. All hosts first give away what they have, for whole cycles, and
        then send on what has arrived, so that no circuit has to serve both at once.

    Returns
    -------
    Played
        ``throughput`` is the bytes of the matrix over those that all hosts could have sent on circuits that are lit
        all the time, so it is at most the duty of the plan.

    Examples
    --------
    >>> import numpy as np
    >>> from fabriclab import circuits
    >>> everybody = 1e6 * (1 - np.eye(4))
    >>> run = circuits.play_rotor(everybody, "20 us", rate="400 Gb/s", setup="20 us")
    >>> round(run.throughput, 3)
    0.5
    """
    traffic = square(matrix, "matrix")
    n = len(traffic)
    seconds = units.time(hold, "hold")
    one = units.rate(rate)
    if not traffic.any():
        raise ValueError("matrix must have traffic, got zeros only")
    if seconds == 0:
        raise ValueError(f"hold must be > 0 s, got {hold!r}; a circuit carries nothing in no time")
    in_a_cycle = seconds * one  # [B] that a pair can send
    if not detour:
        cycles = _cycles(float(traffic.max()) / in_a_cycle)
        rotation = rotor(n, seconds, rate=one, setup=setup, cycles=cycles)
        fabric = network(n)
        flows, routes = direct(fabric, traffic)
    else:
        out, on = spread(traffic)
        to_relay = _cycles(float(out.max()) / in_a_cycle)
        onwards = _cycles(float(on.max()) / in_a_cycle)
        rotation = rotor(n, seconds, rate=one, setup=setup, cycles=to_relay + onwards)
        fabric = network(n, relay=True)
        half_time = rotation.end * to_relay / (to_relay + onwards)  # [s]
        flows = _two_parts(fabric, traffic, out, on, half_time)
        rank = fabric.rank_of
        routes = over(fabric, links(fabric, rank[flows.source], rank[flows.target]))
    timeline = engines.run(fabric, routes, flows, changes=rotation.changes(fabric))
    return Played(rotation, fabric, flows, routes, timeline, float(traffic.sum()))


def _two_parts(fabric: Fabric, traffic: Floats, out: Floats, on: Floats, half_time: float) -> Flows:
    """Return the flows to the hosts in between, then those onwards, each after all that it passes on has arrived.

    Those onwards start at ``half_time`` at the earliest. [s]
    """
    first = np.nonzero(out)
    second = np.nonzero(on)
    number = np.full(traffic.shape, -1)
    number[first] = np.arange(first[0].size)  # of the flow from each host to each other
    after: list[list[int]] = [[] for _ in range(first[0].size)]
    for relay, receiver in zip(*second, strict=True):
        senders = np.flatnonzero(traffic[:, receiver])
        waits = number[senders[senders != relay], relay]
        after.append(waits.tolist())
    return Flows.make(
        fabric.endpoint[np.concatenate([first[0], second[0]])],
        fabric.endpoint[np.concatenate([first[1], second[1]])],
        np.concatenate([out[first], on[second]]),
        start=np.repeat([0.0, half_time], [first[0].size, second[0].size]),
        after=after,
        label=np.repeat([0, 1], [first[0].size, second[0].size]),
        labels=("to the host between", "onwards"),
    )


def _cycles(often: float) -> int:
    """Return a number of cycles, rounded up, except for what rounding has added."""
    return max(1, int(np.ceil(often * (1 - _CLOSE))))
