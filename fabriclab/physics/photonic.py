"""Photonic computing: matrix products in a mesh of Mach-Zehnder interferometers, their accuracy and their energy.

One figure sets the noise: random unitaries on a chip of 20 modes (fidelity 0.974, so 0.10 rad per phase). Two others
test the model: the SU(4) core of another chip, 0.997 where 0.998 is published (error -0.1 %), and permutations on the
chip of 20 modes, 0.976 where 0.995 is published (-2 %). There the model breaks, because interferometers that are fully
open or closed are set far better than the rest. Fidelity is the mean over inputs of the sum of |u| |v|, as in both
papers. `settings`, `mesh` and `product` are algebra, `effective_bits` is a definition and `io` arithmetic; no published
figure was found for the bits of a product.

An interferometer is two 50:50 couplers around one phase, with a second phase before them. n modes need n (n - 1) / 2 of
them for any unitary matrix (Reck et al., PRL 73, 1994); any other matrix is two meshes with attenuators between them.

Examples
--------
>>> import numpy as np
>>> phases, out = settings(np.eye(3)[[1, 2, 0]])
>>> phases.shape, out.shape
((3, 2), (3,))
>>> float(io(128, 128, 1e9, 0.0, cores=4)[0])  # the published processor counts 65.5e12
65536000000000.0
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.physics._facts import numbers, one, si

Complex = NDArray[np.complex128]
Float = NDArray[np.float64]


def _mzi(theta: float, phi: float) -> Complex:
    """Return the matrix (2, 2) of an interferometer with the phase ``theta`` inside and ``phi`` before it [rad]."""
    s = np.sin(theta / 2)
    c = np.cos(theta / 2)
    e = np.exp(1j * phi)
    return np.asarray(1j * np.exp(0.5j * theta) * np.array([[e * s, c], [e * c, -s]]))


def _places(n: int) -> list[tuple[int, int]]:
    """Return (row that it clears, upper mode) of each interferometer, in the order in which light passes them."""
    return [(row, mode) for row in range(n - 1, 0, -1) for mode in range(row)]


def settings(unitary: ArrayLike) -> tuple[Float, Float]:
    """Return the phases of the triangular mesh that multiplies by ``unitary``.

    Parameters
    ----------
    unitary : array_like
        Square, complex. (n, n)

    Returns
    -------
    tuple of ndarray
        Phases inside and before each interferometer, (n (n - 1) / 2, 2), and behind the mesh, (n,). [rad]
        `mesh` gives the matrix back within 1e-12.

    Raises
    ------
    ValueError
        If the matrix is not unitary.
    """
    work = numbers(unitary, "unitary", -1, -1).astype(complex)
    n = len(work)
    if work.shape != (n, n) or not np.allclose(work @ work.conj().T, np.eye(n), atol=1e-9):
        raise ValueError(
            f"unitary must have orthonormal rows (n, n), got {work.shape}; for any other use product"
        )
    phases, out = _settings_of(work.tobytes(), n)
    return phases.copy(), out.copy()


@lru_cache(maxsize=256)
def _settings_of(numbers_of_matrix: bytes, n: int) -> tuple[Float, Float]:
    """Return the phases of the mesh of a unitary matrix; those of a matrix that was asked for before are kept."""
    work = np.frombuffer(numbers_of_matrix, dtype=complex).reshape(n, n).copy()
    phases = np.zeros((n * (n - 1) // 2, 2))
    for i, (row, mode) in enumerate(_places(n)):
        a, b = work[row, mode : mode + 2]
        theta = 2 * np.arctan2(abs(b), abs(a))
        phi = np.angle(a) - np.angle(b) + np.pi
        phases[i] = theta, phi
        work[:, mode : mode + 2] = work[:, mode : mode + 2] @ _mzi(*phases[i]).conj().T
    return phases, np.angle(np.diag(work))


def mesh(phases: Float, out: Float) -> Complex:
    """Return the matrix (n, n) of a triangular mesh with these phases [rad], as `settings` returns them."""
    behind = numbers(out, "out", -1)
    n = len(behind)
    light = np.eye(n, dtype=complex)
    pairs = numbers(phases, "phases", n * (n - 1) // 2, 2)
    for (_, mode), pair in zip(_places(n), pairs, strict=True):
        light[mode : mode + 2] = _mzi(*pair) @ light[mode : mode + 2]
    return np.asarray(np.exp(1j * behind)[:, None] * light)


def disturb(phases: Float, sigma: float, bits: int, rng: np.random.Generator) -> Float:
    """Return the phases as a chip sets them: rounded to ``bits`` over 2 pi (48 is as good as exact), plus normal noise.

    ``sigma`` is the standard deviation of the noise. [rad]
    """
    step = 2 * np.pi / 2 ** units.count(bits, "bits", 1, 48)
    exact = si(phases, "count", "phases", -1e9, 1e9)
    wide = one(sigma, "count", "sigma")
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a Generator, got {rng!r:.80}; write np.random.default_rng(1)")
    return np.asarray(np.round(exact / step) * step + wide * rng.standard_normal(exact.shape))


def product(
    matrix: ArrayLike, vectors: Complex, noise: Callable[[Float], Float], leak: float = 0.0
) -> Complex:
    """Return ``matrix @ vectors`` as two meshes with ``noise`` compute it, with one wavelength for each column.

    The singular values sit between the meshes as exact attenuators. All wavelengths pass the same phases, so they share
    the same errors. Leaves out loss, unequal couplers, heat that spreads, and noise of detectors.

    Parameters
    ----------
    matrix, vectors : array_like, ndarray
        (m, n) and (n, w).
    noise : callable
        Maps phases to phases, such as ``lambda x: disturb(x, 0.01, 8, rng)``.
    leak : float
        Share of a wavelength's amplitude that leaks into each neighbour.
    """
    if not callable(noise):
        raise TypeError(
            f"noise must be a function of phases, got {noise!r:.80}; lambda x: x leaves them alone"
        )
    # matrix = left x diag(scale) x right: mesh, attenuators, mesh
    left, scale, right = np.linalg.svd(numbers(matrix, "matrix", -1, -1))
    sent = numbers(vectors, "vectors", len(right), -1)
    part = one(leak, "count", "leak", 0, 1)
    second = mesh(*map(noise, settings(left)))
    first = mesh(*map(noise, settings(right)))
    k = len(scale)
    out = second[:, :k] * scale @ (first @ sent)[:k]
    above = np.eye(sent.shape[1], k=1)
    neighbours = above + above.T  # (w, w)
    return np.asarray(out + part * out @ neighbours)


def effective_bits(exact: ArrayLike, actual: ArrayLike) -> float:
    """Return the bits of a product that can be trusted: log2 of the RMS of ``exact`` over the RMS of the error."""
    right = numbers(exact, "exact")
    wrong = np.linalg.norm(numbers(actual, "actual", *right.shape) - right)
    if not wrong:
        return np.inf
    return float(np.log2(np.linalg.norm(right) / wrong))


def io(
    rows: int, columns: int, clock: float, conversion: float, cores: int = 1
) -> tuple[float, float]:
    """Return products per second and energy [J] per product of a mesh between ``columns`` and ``rows`` converters.

    The light multiplies without energy of its own; ``conversion`` [J] is paid for each element that goes in or out, so
    the energy per product falls as 1 / n. ``clock`` is in vectors per second. Leaves out laser, heaters and memory.
    """
    high = units.count(rows, "rows")
    wide = units.count(columns, "columns")
    energy = one(conversion, "count", "conversion") * (high + wide) / (high * wide)
    products = units.count(cores, "cores") * high * wide * one(clock, "frequency", "clock")
    return products, energy
