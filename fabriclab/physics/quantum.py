"""Quantum links as density matrices: what Bob can learn, what a pair is worth, and how many pairs a fibre gives.

States are (4, 4) density matrices of Alice's and Bob's qubits. The model is compared with published links; only what a
row names as given sets a constant:

=========================================  ========  ==========  ======
what                                       model     published   error
=========================================  ========  ==========  ======
pairs over 6 km, constants from 33 km      1 / 18 s  1 / 19 s    +4 %
fidelity after 11 and 23 km (6, 33 given)  .78 .69   .80 .72     -2 -4 %
teleported over a pair of fidelity 0.61    0.74      0.702       +5 %
CHSH of a pair of fidelity 0.92            2.53      2.42        +4 %
CHSH of pairs of 0.85 and 0.99             2.26 2.79 2.36 2.74   -4 +2 %
=========================================  ========  ==========  ======

The last row assumes that the ends of two published ranges belong to the same pair. For `pair_rate` and `teleport` one
published figure each was found; `repeaterless` is the bound of a theorem, `bits_per_pair` is arithmetic, and the rest
is the algebra of states.

The model breaks where noise is not depolarising (memories lose phase first), and between laboratories: the rate of one
apparatus says nothing about another.

Examples
--------
>>> round(fidelity(channel(pair(), depolarising(0.1), "bob")), 3)
0.925
>>> round(chsh(pair()), 6)
2.828427
>>> bits_per_pair("400 Gb/s", 5e5)
800000.0
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.physics._facts import Floats, Numbers, numbers, one, si

Matrix = NDArray[np.complex128]
PAULI = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
# rows: (P x 1) on |00> + |11>
BELL = np.einsum("kij,jl->kil", PAULI, np.eye(2)).reshape(4, 4) / np.sqrt(2)
GLASS = 2e8  # m/s, light in fibre, 2/3 of c


def pair(quality: float = 1.0) -> Matrix:
    """Return a Werner pair of the given fidelity, 1/4..1: the Bell state (|00> + |11>) / sqrt 2 mixed with noise."""
    if not 0.25 <= units.parse(quality, "count", "quality") <= 1:
        raise ValueError(
            f"quality must be a fidelity within 0.25..1, got {quality!r}; 0.25 is noise alone"
        )
    bell = np.outer(BELL[0], BELL[0])
    return np.asarray((4 * quality - 1) / 3 * bell + (1 - quality) / 3 * np.eye(4))


def channel(state: ArrayLike, kraus: ArrayLike, who: str) -> Matrix:
    """Return the state after a channel, or a measurement nobody reads, on one qubit; ``kraus`` has shape (k, 2, 2)."""
    ops = numbers(kraus, "kraus", -1, 2, 2)
    both = numbers(state, "state", 4, 4)
    eye = np.eye(2)
    if not np.allclose(np.einsum("kji,kjl->il", ops.conj(), ops), eye, atol=1e-9):
        raise ValueError(
            "kraus must keep the trace: the sum of K^H K must be 1; for one outcome alone divide by hand"
        )
    if units.choice(who, "who", ("alice", "bob")) == "alice":
        wide = [np.kron(k, eye) for k in ops]
    else:
        wide = [np.kron(eye, k) for k in ops]
    return np.asarray(sum(k @ both @ k.conj().T for k in wide))


def reduced(state: ArrayLike, who: str = "bob") -> Matrix:
    """Return the (2, 2) state with everything that ``who`` can measure without news from the other side."""
    bob = units.choice(who, "who", ("alice", "bob")) == "bob"
    traced = "iaib->ab" if bob else "aibi->ab"
    return np.asarray(np.einsum(traced, numbers(state, "state", 4, 4).reshape(2, 2, 2, 2)))


def depolarising(p: float) -> Matrix:
    """Return the Kraus operators (4, 2, 2) that replace a qubit by noise with probability ``p``."""
    if not 0 <= units.parse(p, "count", "p") <= 1:
        raise ValueError(f"p must be a probability within 0..1, got {p!r}; 1 is noise alone")
    return np.asarray(np.sqrt([1 - 0.75 * p, p / 4, p / 4, p / 4])[:, None, None] * PAULI)


def fidelity(state: ArrayLike) -> float:
    """Return the fidelity of a pair: its overlap with the Bell state (|00> + |11>) / sqrt 2."""
    return float((BELL[0].conj() @ _density(state) @ BELL[0]).real)


def chsh(state: ArrayLike) -> float:
    """Return the largest CHSH value that the state can show; above 2, no shared list of answers explains it [1]_.

    References
    ----------
    .. [1] R., P. and M. Horodecki, Physics Letters A 200, 1995, pp. 340-344.
    """
    both = _density(state)
    axes = PAULI[1:]
    correlation = np.zeros((3, 3))  # of each axis of Alice with each of Bob
    for i, alice in enumerate(axes):
        for j, bob in enumerate(axes):
            correlation[i, j] = np.trace(both @ np.kron(alice, bob)).real
    # 2 sqrt(s1^2 + s2^2), with the two largest singular values of the correlation matrix
    singular = np.linalg.svd(correlation)[1]
    return float(2 * np.sqrt((singular[:2] ** 2).sum()))


def teleport(qubit: ArrayLike, state: ArrayLike, bits: int = 2) -> Matrix:
    """Return Bob's qubit (2, 2) after Alice measured ``qubit`` (2,) with her half of a pair and sent him ``bits``.

    The bits name the outcome of her Bell measurement. With both Bob undoes it; with fewer he knows only that it is one
    of several, and gets their mixture.
    """
    sent = numbers(qubit, "qubit", 2)
    known = units.count(bits, "bits", 0, 2)
    if not np.isclose(np.linalg.norm(sent), 1):
        raise ValueError(
            f"qubit must have length 1, got {np.linalg.norm(sent):g}; divide it by its length"
        )
    whole = np.kron(np.outer(sent, sent.conj()), _density(state))
    bob = np.zeros((2, 2), dtype=complex)
    for outcome in range(4):
        project = np.kron(BELL[outcome].conj(), np.eye(2)).reshape(2, 8)
        undo = PAULI[outcome & ~((1 << (2 - known)) - 1)]  # by the first bits of the outcome
        bob += undo @ project @ whole @ project.conj().T @ undo.conj().T
    return bob


def _density(state: ArrayLike) -> Matrix:
    """Return the density matrix of a pair, or raise an error if the matrix is not one."""
    both = numbers(state, "state", 4, 4)
    if not (np.allclose(both, both.conj().T, atol=1e-9) and np.isclose(np.trace(both), 1)):
        raise ValueError(
            f"state must be Hermitian of trace 1, got trace {np.trace(both):g}; take one of pair or channel"
        )
    least = np.linalg.eigvalsh(both)[0]
    if least < -1e-9:
        raise ValueError(
            f"state must have no negative eigenvalue, got {least:g}; take one of pair or channel"
        )
    return both


def pair_rate(
    length: Numbers, chance: float, overhead: float, loss: float = 0.2, flights: int = 2
) -> Floats:
    """Return the heralded pairs per second between two memories with a station in the middle.

    In each try both memories send a photon half way and wait for the result; both photons must arrive, which has the
    probability 10^(-loss length / 10).

    Parameters
    ----------
    length : float or ndarray
        Length of the fibre between the memories. [m]
    chance, overhead : float
        Probability that a try succeeds without fibre, and the time of a try without the flight [s], > 0.
    loss : float
        Attenuation of the fibre. [dB/km]
    flights : int
        Number of half lengths that a try waits for: 2 if the result returns along the same fibre, 1 if the fibre is a
        coil at the node.
    """
    far = si(length, "length", "length")
    takes = one(overhead, "time", "overhead", 1e-12)
    without_fibre = one(chance, "count", "chance", 0, 1)
    arrive = without_fibre * 10 ** (-one(loss, "count", "loss", 0, 1e4) * far / 1e4)
    flight = units.count(flights, "flights") * far / 2 / GLASS  # [s]
    return np.asarray(arrive / (takes + flight))


def repeaterless(length: Numbers, loss: float = 0.2) -> Floats:
    """Return the most pairs per use of a fibre of ``length`` [m] without repeaters (PLOB, Nature Comm. 8, 2017).

    The bound is -log2(1 - eta), where eta is the share of light that arrives.
    """
    lost = si(length, "length", "length", 1e-3) * one(loss, "count", "loss", 1e-3, 1e4) / 1e4
    return np.asarray(-np.log1p(-(10**-lost)) / np.log(2))  # keeps the digits of a tiny eta


def stored(quality: float, waited: Numbers, memory: float) -> Floats:
    """Return the fidelity of a pair after it waited [s] in a memory whose depolarising time is ``memory`` [s]."""
    kept = np.exp(-si(waited, "time", "waited") / one(memory, "time", "memory", 1e-12))
    return np.asarray(0.25 + (one(quality, "count", "quality", 0, 1) - 0.25) * kept)


def bits_per_pair(port: units.Quantity, pairs: float) -> float:
    """Return the bits that a port carries while a quantum link makes one pair.

    ``port`` is a rate [B/s], ``pairs`` the pairs per second.
    """
    return 8 * units.rate(port, "port") / one(pairs, "count", "pairs", 1e-9)
