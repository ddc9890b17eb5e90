"""NVLink SHARP against rings: the bound by bytes, one efficiency for each generation, and what NCCL chooses."""

from functools import cache
from typing import NamedTuple

from fabriclab import catalog, units
from fabriclab.catalog import published
from fabriclab.core import bus_factor
from fabriclab.tuner.plans import plans
from fabriclab.tuner.system import System, read


class _Measured(NamedTuple):
    """GPUs whose all-reduces of 8 GiB were measured twice: with NCCL's default, and with rings."""

    part: str  # of catalog.measured
    links: str
    accelerator: str


# Both rates of a row come from one program, nccl-tests, so their ratio compares algorithms and not programs. A program
# of PyTorch measured 1 % more with 8 H200, but no rings of 8 GiB.
_MEASURED = {
    "Hopper": _Measured(part="h200-n", links="nvlink4", accelerator="H200"),
    "Blackwell": _Measured(part="b200-n", links="nvlink5", accelerator="B200"),
}
SETS = 8  # GPUs whose row sets the efficiency, and counts in no error
# Row of the program of PyTorch, under h200-ar.
_SECOND_SOURCE = "8x H200 all-reduce, NCCL 2.27.7, default (Ring/LL <=1MiB, NVLS >=2MiB), 8GiB"
# Factor by which the NCCL versions of the measured runs rate NVLS.
_NVLS_FACTOR = "bus to algorithm bandwidth NVLS and NVLSTree"


def _system(ranks: int, generation: str) -> System:
    """Return the description of one server with ``ranks`` GPUs of a generation."""
    gpus = _MEASURED[units.choice(generation, "generation", _MEASURED)]
    server = {
        "ranks": units.count(ranks, "ranks", 3),
        "accelerator": gpus.accelerator,
        "scale_up": f"{gpus.links}-nvswitch",
        "gpus_per_node": ranks,
        "scale_up_domain_gpus": ranks,
    }
    return read(published.system("h100x8_nvls") | server)


def bound(ranks: float) -> float:
    """Return the largest possible gain of NVLS over a ring.

    A port carries S (n + 1) / n in each direction instead of 2 S (n - 1) / n.

    Examples
    --------
    >>> [round(bound(n), 2) for n in (2, 4, 8)]
    [0.67, 1.2, 1.56]
    """
    return 2 * (ranks - 1) / (ranks + 1)


def measured(ranks: int, generation: str) -> float:
    """Return the measured gain of NCCL's default over rings at 8 GiB; raises KeyError if nobody measured it.

    With 4 H200, and with 4 and 5 B200, the default took rings, too, so the gain of NVLS there is not measured.
    """
    gpus = _MEASURED[generation]
    name = f"{ranks}x {gpus.accelerator} all-reduce 8 GiB"
    by_default = catalog.value("measured", gpus.part, "busbw", name=name)
    by_ring = catalog.value("measured", gpus.part, "busbw_ring", name=name)
    return by_default / by_ring


@cache
def efficiency(generation: str) -> float:
    """Return the fraction of the bound that a generation reaches: the only constant, set by its row of 8 GPUs."""
    return measured(SETS, generation) / bound(SETS)


def conflict(generation: str) -> float:
    """Return by how much a second source's rate of 8 GPUs would raise the efficiency; NaN where there is none.

    For 8 H200 the constant's row has 473.1 GB/s and the other program 477.45 GB/s at 8 GiB. 473.1 is also that
    program's rate at 4 GiB, so a slip cannot be ruled out. The row stays, since its two rates belong together.
    """
    if generation != "Hopper":
        return float("nan")
    used = catalog.value("measured", "h200-n", "busbw", name="8x H200 all-reduce 8 GiB")
    second = catalog.value("measured", "h200-ar", "busbw", name=_SECOND_SOURCE)
    return second / used - 1


def chosen(ranks: int, generation: str) -> bool:
    """Return whether NCCL takes NVLS for large arrays, by its own constants: both rates times the same links.

    So says the rule of the versions before 2026. With 4 H200 it is wrong: it takes NVLS, by 6 %, and the measured run
    took rings. The B200 were measured with the chooser of their cloud, which agrees with it from 4 to 8.
    """
    row = f"NVLS efficiency {generation}"
    nccl_efficiency = catalog.value("nccl_model", "nvls", "factor", name=row)
    nvls_rate = nccl_efficiency * catalog.value("nccl_model", "algbw", "factor", name=_NVLS_FACTOR)
    ring_rate = 1 / bus_factor("all_reduce", ranks)
    return nvls_rate > ring_rate


def times(ranks: int, size: units.Quantity, generation: str = "Hopper") -> dict[str, float]:
    """Return the time of an all-reduce in one server by a ring and by NVLS, and their ratio as ``gain``.

    Both start in the time of an empty all-reduce, measured; NVLS works a loop of bytes through its switches, half of
    which comes on top. From 32 MiB up on 8 H100, ``gain`` is at most 3.3 % off; both times are too short there, NVLS by
    up to 5.9 % and rings by up to 8.0 %, which the ratio partly hides. Of 8 H200 no rings are published for each size,
    so there only times can be compared: NVLS is 10.6 % too fast at 32 MiB and 7.7 % at 64 MiB (that run has the
    overhead of PyTorch in each call), and within 5 % from 128 MiB up.

    Parameters
    ----------
    ranks : int
        GPUs. >= 3
    size : float or str
        Of the array. [B]
    generation : str
        Hopper or Blackwell.
    """
    system = _system(ranks, generation)
    total = units.size(size)
    start = published.load("h100x8_ring").time[0]
    per_byte = bus_factor("all_reduce", ranks) / system.own  # of a ring [s/B]
    loop = next(plan.loop for plan in plans(system) if plan.loop)

    ring = start + total * per_byte
    reached = efficiency(generation) * bound(ranks)
    nvls = start + (total + min(total, loop) / 2) * per_byte / reached
    return {"ring": ring, "nvls": nvls, "gain": ring / nvls}


def default_gain(ranks: int, generation: str, size: units.Quantity = "8 GiB") -> float:
    """Return the gain over a ring of the algorithm that NCCL chooses; 1 if it chooses the ring."""
    return times(ranks, size, generation)["gain"] if chosen(ranks, generation) else 1.0


def stops(generation: str) -> int:
    """Return the largest number of GPUs, up to 8, with which NVLS does not pay.

    For Hopper a near tie decides, as `around` shows: 4 by a gain of 0.998, and 3 if the other source's rate is right.
    """
    return max(n for n in range(3, 9) if default_gain(n, generation) <= 1)


def around(generation: str) -> list[dict[str, float]]:
    """Return the gains at 8 GiB of as many GPUs as `stops` says, and of one less and one more.

    Returns
    -------
    list of dict
        For each number of ``GPUs`` the gain of ``NVLS`` by the model, whoever chooses; what it is with the ``other
        rate`` of 8 GPUs, see `conflict`; and ``measured``, NaN where nobody did.
    """
    last = stops(generation)
    more = 1 + conflict(generation)
    rows = []
    for ranks in range(last - 1, last + 2):
        gain = times(ranks, "8 GiB", generation)["gain"]
        rows.append(
            {
                "GPUs": ranks,
                "NVLS": gain,
                "other rate": gain * more,
                "measured": measured(ranks, generation) if ranks > 3 else float("nan"),
            }
        )
    return rows
