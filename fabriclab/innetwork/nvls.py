"""NVLink SHARP against rings: the bound by bytes, one efficiency for each generation, and what NCCL chooses."""

from functools import cache

from fabriclab import catalog, units
from fabriclab.catalog import published
from fabriclab.core import bus_factor
from fabriclab.tuner.plans import plans
from fabriclab.tuner.system import System, read

# Row of catalog.measured with all-reduces of 8 GiB by default and by rings, links, accelerator.
_ROWS = {"Hopper": ("h200-n", "nvlink4", "H200"), "Blackwell": ("b200-n", "nvlink5", "B200")}
SETS = 8  # GPUs whose row sets the efficiency, and counts in no error
_RULE = "bus to algorithm bandwidth NVLS and NVLSTree"  # of the NCCL versions that the rows ran


def _system(ranks: int, generation: str) -> System:
    _, links, name = _ROWS[units.choice(generation, "generation", _ROWS)]
    row = published.system("h100x8_nvls") | {"ranks": units.count(ranks, "ranks", 3), "accelerator": name}
    return read(row | {"scale_up": f"{links}-nvswitch", "gpus_per_node": ranks, "scale_up_domain_gpus": ranks})


def bound(ranks: float) -> float:
    """Return the most that NVLS gains over a ring: a port passes S (n + 1) / n each way in place of 2 S (n - 1) / n.

    Examples
    --------
    >>> [round(bound(n), 2) for n in (2, 4, 8)]
    [0.67, 1.2, 1.56]
    """
    return 2 * (ranks - 1) / (ranks + 1)


def measured(ranks: int, generation: str) -> float:
    """Return the gain of NCCL's default over rings for 8 GiB; KeyError where nobody measured."""
    row, _, name = _ROWS[generation]
    where = {"name": f"{ranks}x {name} all-reduce 8 GiB"}
    by_default, by_ring = (catalog.value("measured", row, f"busbw{x}", **where) for x in ("", "_ring"))
    return by_default / by_ring


@cache
def efficiency(generation: str) -> float:
    """Return the part of the bound that a generation reaches: the only constant, set by its row of 8 GPUs."""
    return measured(SETS, generation) / bound(SETS)


def chosen(ranks: int, generation: str) -> bool:
    """Return whether NCCL takes NVLS for large arrays, by its own constants: both rates times the same links."""
    part = catalog.value("nccl_model", "nvls", "factor", name=f"NVLS efficiency {generation}")
    return part * catalog.value("nccl_model", "algbw", "factor", name=_RULE) > 1 / bus_factor("all_reduce", ranks)


def times(ranks: int, size: units.Quantity, generation: str = "Hopper") -> dict[str, float]:
    """Return the time of an all-reduce in one server by a ring and by NVLS, and their ratio as ``gain``.

    Both start in the time of an empty all-reduce, measured; NVLS works a loop of bytes through its switches, half of
    which comes on top.

    Parameters
    ----------
    ranks : int
        GPUs. >= 3
    size : float or str
        Of the array. [B]
    generation : str
        Hopper or Blackwell.
    """
    s, total = _system(ranks, generation), units.size(size)
    start, per_byte = published.load("h100x8_ring").time[0], bus_factor("all_reduce", ranks) / s.own
    loop = next(p.loop for p in plans(s) if p.loop)
    ring = start + total * per_byte
    nvls = start + (total + min(total, loop) / 2) * per_byte / (efficiency(generation) * bound(ranks))
    return {"ring": ring, "nvls": nvls, "gain": ring / nvls}


def default_gain(ranks: int, generation: str, size: units.Quantity = "8 GiB") -> float:
    """Return the gain of what NCCL takes over a ring; 1 where it takes the ring."""
    return times(ranks, size, generation)["gain"] if chosen(ranks, generation) else 1.0


def stops(generation: str) -> int:
    """Return the largest number of GPUs, up to 8, with which NVLS does not pay."""
    return max(n for n in range(3, 9) if default_gain(n, generation) <= 1)
