"""Live views of links to come: how exactly light multiplies, and when an optical circuit pays."""

from functools import partial

import numpy as np

from fabriclab import catalog
from fabriclab.core import Result
from fabriclab.physics import photonic, switching
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Live, Slider, live_view
from fabriclab.views.scene import Scene
from fabriclab.views.sweeps import curve, sweep_scene

_SWITCHES = {"piezo": "ocs-piezo", "3D MEMS": "ocs-mems", "thermo-optic": "ocs-thermo-optic",
             "silicon MEMS": "ocs-silicon-mems", "tunable laser": "ocs-wavelength"}  # fmt: skip
_ROWS = 32  # of all random matrices of a picture together


def mzi_mesh(size: int = 16, bits: int = 8, noise: float = 10.0) -> Live:
    """Show the error of a product of matrices by light, against the noise of the phases that hold the matrix.

    Parameters
    ----------
    size, bits : int, int
        Rows and columns of the matrix, 4, 8 or 16; bits with which each phase is set, 4..16.
    noise : float
        Of each phase [mrad], 0.1..100.
    """

    def scene(size: int, bits: int, noise: float) -> Scene:
        at, off = np.append(np.geomspace(0.1, 100, 6), noise), list[float]()
        a, x = np.random.default_rng(0).standard_normal((2, _ROWS // size, size, size))
        for sigma in at:
            # The same noise for all, scaled: a smooth curve.
            noisy = partial(photonic.disturb, sigma=sigma / 1e3, bits=bits, rng=np.random.default_rng(1))
            made = [photonic.product(*both, noisy) for both in zip(a, x, strict=True)]
            off.append(2.0 ** -photonic.effective_bits(a @ x, made))
        figures = {"size": size, "bits": bits, "noise": noise, "trusted": -np.log2(off[-1]), "best": -np.log2(off[0])}
        said = text("live.mzi_mesh.said", cells=size * (size - 1), **figures)
        return curve("live.mzi_mesh", "noise", "off", at, (off, np.full(at.size, 2.0**-8)), said)

    noises = Slider(0.1, 100, unit="mrad", log=True)
    return live_view("mzi_mesh", locals(), scene, {"size": Choice((4, 8, 16)), "bits": Slider(4, 16), "noise": noises})


def circuit(kind: str = "3D MEMS", left: int = 50) -> Live:
    """Show the time to send bytes over an optical circuit that is set up for them, and over packet switches.

    Parameters
    ----------
    kind : str
        Of optical switch: piezo, 3D MEMS, thermo-optic, silicon MEMS or tunable laser.
    left : int
        Which part of the rate of a port packets get beside other traffic, 10..100 [%]; a circuit has all of it.
    """
    rate = catalog.value("nics", "cx7", "throughput")
    sizes, wait = np.geomspace(64, 2**34, 15), 3 * catalog.value("switches", "th5", "latency")  # leaf, spine, leaf

    def scene(kind: str, left: int) -> Scene:
        setup, slow = catalog.value("emerging", _SWITCHES[kind], "setup"), rate * left / 100
        least, busy = switching.break_even(rate, setup, slow, wait), switching.bytes_for(0.9, setup, rate)
        pays = "never" if least == np.inf else "always" if least == 0 else "from"
        said = text("live.circuit.said", kind=kind, left=left, setup=setup, busy=busy)
        times = {"circuit": setup + sizes / rate, "packets": wait + sizes / slow}
        return sweep_scene({k: Result("send_recv", "predicted", sizes, t, 2) for k, t in times.items()},
                           said=said + text(f"live.circuit.{pays}", least=least))  # fmt: skip

    return live_view("circuit", locals(), scene, {"kind": Choice(tuple(_SWITCHES)), "left": Slider(10, 100, unit="%")})
