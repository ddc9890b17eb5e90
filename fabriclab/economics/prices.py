"""What sources print for each input of a GPU-hour: low, middle and high value, with the sources."""

from __future__ import annotations

from collections.abc import Mapping

from fabriclab import catalog
from fabriclab.catalog import Case
from fabriclab.catalog.tables import data_rows
from fabriclab.core import ReadOnly, Spec
from fabriclab.economics.ranges import Range, of_specs

__all__ = ["price_ranges"]

HOUR = 3600.0  # s
YEAR = 8766 * HOUR  # s, as the running case counts it
MONTH = YEAR / 12
# Yobitel-NDR and AscentOptics have one price for all parts of a cluster of 1,024 GPUs, of these sizes.
SHEET_SWITCHES = 48
SHEET_SERVERS = 128


def price_ranges(job: Case | None = None) -> Mapping[str, Range]:
    """Return low, middle and high value of each input of `gpu_hour`, with sources.

    The middle is what the running case uses, so that the middle of all is the case. Ends are what sources print: they
    are years and kinds of buyers apart, and no source prints a distribution.

    Parameters
    ----------
    job : Case, optional
        The running case, or one with other rows.

    Examples
    --------
    >>> price_ranges()["switch"]
    <Range 36,000 (11,458.3 to 50,000) USD: H100-sheet, Yobitel-NDR>
    """
    known = job or catalog.case()
    return ReadOnly({**_capital(known), **_use(known), **_power(known)})


def _capital(job: Case) -> dict[str, Range]:
    """Return the ranges of what is bought once, and of how long it lasts."""
    return {
        "server": of_specs(
            job.price_server,
            rows("server", "price"),
            "USD",
            note="2023 to 2026; with 8 NICs in the case",
        ),
        "switch": of_specs(
            job.price_switch,
            rows("switch", "price"),
            "USD",
            note="64 x 400 Gb/s; from a reseller, from NVIDIA, and a price of 2026",
        ).widened(of_specs(job.price_switch, rows("switches", "price"), scale=1 / SHEET_SWITCHES)),
        "cables": _cables(job),
        "facility": _facility(job),
        "lifetime": of_specs(
            job.lifetime, rows("life", "years"), "s", note="the middle is the case's assumption"
        ),
        "resale": of_specs(
            0.0, rows("resale", "share_4"), "1", note="of the servers, after 4 years; 0 in the case"
        ),
    }


def _cables(job: Case) -> Range:
    """Return what cables and modules of a server cost in two tiers, its share of the upper tier with it."""
    middle = job.price_cables_per_server
    sheet = catalog.costs["cables"].spec(
        "price", name="connectors and cables of a server, two tiers"
    )
    whole = rows("optics", "price")
    per_server = of_specs(middle, whole, scale=1 / SHEET_SERVERS)
    by_part = _modules(job)
    note = "with modules; 2024 to 2026; the high end is added up from prices of modules"
    return of_specs(middle, (sheet,), "USD", note=note).widened(per_server).widened(by_part)


def _modules(job: Case) -> Range:
    """Return the price of the modules of a server's cables, from those of single modules."""
    nic = catalog.media["400g"]["price"]
    twin = catalog.media["dr8"]["price"]  # of two ports of a switch
    each = int(job.gpus_per_server)
    ends = []
    for nic_end, twin_end in zip(nic.ends, twin.ends, strict=True):
        to_leaf = nic_end + twin_end / 2
        between_switches = twin_end  # half a twin at both ends
        ends.append(each * (to_leaf + between_switches))
    middle = sum(ends) / 2
    return Range(min(ends), middle, max(ends), "USD", (nic.source,))


def _facility(job: Case) -> Range:
    """Return what the hall costs for a server over its life; at the high end rent of its space."""
    sheet = float(job.price_facility_per_server)
    (colocation,) = (spec for spec in rows("facility", "price") if spec.name == "colocation")
    kilowatts = job.server_power / 1e3
    rent = max(colocation.ends) * kilowatts * job.lifetime / MONTH
    note = "of a server over its life; no source says whether electricity is in it"
    return Range(sheet, sheet, max(sheet, rent), "USD", ("H100-sheet", colocation.source), note)


def _use(job: Case) -> dict[str, Range]:
    """Return the ranges of what makes an hour useful."""
    llama = [row for row in data_rows("training_reference") if row["model"] == "Llama 3 405B"]
    shares = [float(row["mfu_pct"]) / 100 for row in llama]
    note = "the source prints 75 to 85 %; the case counts every hour"
    return {
        "used": of_specs(1.0, rows("use", "share"), "1", note=note),
        "goodput": of_specs(1.0, rows("goodput", "share"), "1", note="the case counts no failures"),
        "mfu": Range(
            min(*shares, job.mfu),
            float(job.mfu),
            max(*shares, job.mfu),
            "1",
            tuple(dict.fromkeys(row["source"].partition(":")[0] for row in llama)),
            "Llama 3 405B on 8,192 and 16,384 GPUs",
        ),
    }


def _power(job: Case) -> dict[str, Range]:
    """Return the ranges of power, and of what it costs."""
    quantum = catalog.switches["quantum2"]
    passive = float(quantum["system_power_passive"].si or 0.0)
    modules = job.switch_ports / 2 * job.optic_twin_port
    busy = float(quantum["system_power_max"].si or 0.0) - modules
    (mean_pue,) = (spec for spec in rows("pue", "ratio") if spec.name.startswith("power of"))
    (tariff,) = rows("electricity", "price")
    return {
        "server_power": of_specs(job.server_power, rows("server", "power"), "W"),
        "switch_power": Range(
            passive,
            passive,
            max(busy, passive),
            "W",
            ("memory",),
            f"without modules; highest power less {modules:g} W of modules; not confirmed",
        ),
        "pue": of_specs(mean_pue.si or 1.0, rows("pue", "ratio"), "1"),
        "electricity": of_specs(tariff.si or 0.0, rows("electricity", "price_range"), "USD/kWh"),
    }


def rows(part: str, attribute: str) -> tuple[Spec, ...]:
    """Return the rows of the table of costs for a part and an attribute."""
    found = tuple(spec for spec in catalog.costs[part].specs if spec.attribute == attribute)
    if not found:
        known = sorted({spec.attribute for spec in catalog.costs[part].specs})
        raise KeyError(f"costs[{part!r}] has no {attribute!r}; it has {', '.join(known)}")
    return found
