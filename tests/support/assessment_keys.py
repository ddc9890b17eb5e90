"""Right answers of the question bank by the library: built, simulated or computed, without the formulas of the bank.

Each function takes the quantities of a question as floats, named as in the bank, and returns the answer in SI.
"""

import math

import numpy as np

from fabriclab import catalog, circuits, economics, metrics, operations, topologies, units
from fabriclab.core import bus_factor
from fabriclab.course.judges.lessons import lesson33
from fabriclab.economics import needs
from fabriclab.engines.packet import headroom
from fabriclab.innetwork import quantisation
from fabriclab.operations import young_interval
from fabriclab.physics import coding, quantum, switching, wireless
from fabriclab.workload import models

GB = 1e9
KEYS = {}


def key(*ids):
    """Register a function as the key of questions."""

    def keep(function):
        for id in ids:
            KEYS[id] = function
        return function

    return keep


@key("Q27")
def _(s, n):
    return s * 1e6 * bus_factor("all_reduce", int(n))


@key("Q33")
def _(n, a):
    return a * GB * bus_factor("all_reduce", int(n))


@key("Q88")
def _(s, n, r):
    return s * GB * bus_factor("all_reduce", int(n)) / units.parse(f"{r:g} Gb/s", "rate")


@key("Q142")
def _(p, t, d):
    return bus_factor("all_reduce", int(d)) * p * 1e9 / t * np.dtype(np.float16).itemsize


@key("Q99")
def _(n, s):
    return bus_factor("all_to_all", int(n)) * s * 1e6


@key("Q111")
def _(n):
    return bus_factor("all_reduce", int(n)) / bus_factor("broadcast", int(n))


@key("Q57")
def _(r):
    return units.parse(f"{r:g} Gb/s", "rate")


@key("Q58")
def _(m):
    return units.parse(f"{m:g} MiB", "size")


@key("Q62")
def _(g, l):  # noqa: E741
    return coding.rates(int(l), g * 1e9, 1, "128b/130b").encoded


@key("Q85")
def _(c):
    cable = coding.rates(16, 16e9, 1, "128b/130b").encoded
    return c * round(cable, -8)


@key("Q61")
def _(b):
    return b * GB / catalog.value("links", "nvlink4", "bandwidth_per_gpu")


@key("Q64")
def _(n, t):
    case = catalog.case()
    return n * case.optic_nic_side + t * case.optic_twin_port


@key("Q68")
def _(f, d):
    # the question has c = 3e8 m/s
    exact = float(wireless.path_loss(d, f * 1e9))
    return exact + 20 * math.log10(299_792_458 / 3e8)


@key("Q70")
def _(p):
    most = int(p) * int(p) // 2
    fabric = topologies.build("leaf_spine", hosts=most, radix=int(p))
    assert fabric.n_ranks == most
    try:
        topologies.build("leaf_spine", hosts=most + 1, radix=int(p))
    except ValueError:
        return float(most)
    raise AssertionError(f"two tiers took one host more than {most}")


@key("Q71")
def _(s, p):
    fabric = topologies.build("rail_optimised", servers=int(s), radix=int(p), expand=False)
    return float(len(fabric.nodes("leaf")))


@key("Q73")
def _(h):
    fabric = topologies.build("dragonfly", p=int(h), a=2 * int(h), h=int(h))
    return float(fabric.n_ranks)


@key("Q77")
def _(x, y, z):
    shape = (int(x), int(y), int(z))
    return float(metrics.hops(topologies.build("torus", shape=shape)).diameter)


@key("Q95")
def _(p, m):
    return lesson33.bubble(int(p), int(m))


@key("Q106")
def _(r, t):
    return units.parse(f"{r:g} Gb/s", "rate") * units.parse(f"{t:g} us", "time")


@key("Q115")
def _(h, r):
    return switching.duty(h * 1e-3, r * 1e-3)


@key("Q116")
def _(h, a):
    of_cube = circuits.slices.cube_availability(a / 100)
    return of_cube ** (h / circuits.slices.hosts_of_a_cube())


@key("Q125")
def _(l, r):  # noqa: E741
    rate = f"{r:g} Gb/s"
    return headroom(rate, l) - headroom(rate, 0.0)


@key("Q128")
def _(w, p):
    return float(needs.go_back_n(p, w))


@key("Q132")
def _(n):
    return float(operations.rounds_needed(int(n)))


@key("Q135")
def _(m, c):
    return young_interval(c, m * 3600.0)


@key("Q136")
def _(d, g):
    return operations.rates.expected(1 / (3.09 * 3600 * 16384), g, d * 86400.0)


@key("Q38")
def _(n):
    return float(operations.rates.mean_time(1 / (37 * 3600 * 16384), n))


@key("Q139")
def _(f):
    return float(economics.worth_growth(f / 100))


@key("Q149")
def _(l, k):  # noqa: E741
    shape = models.preset("llama3_70b")
    kept = shape.cache_bytes(1)
    return kept * (l / shape.layers) * (k / shape.kv_heads)


@key("Q152")
def _(r, q):
    return quantum.bits_per_pair(f"{r:g} Gb/s", q) / 8  # in bytes, the SI of sizes


@key("Q163")
def _(n, v):
    low, high = 1.0, 2.0**33
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        if quantisation.overflows(v, int(n), middle):
            high = middle
        else:
            low = middle
    return low
