"""Published costs and powers beside what is computed here; docs/cost_checks.md has the table.

Not fitted: prices of single modules against the price sheet's cables, three years of a server, rents, the copper of a
rack, and the claims about InfiniBand and Ethernet. Of the price sheet's own shares and of the power calculator the
arithmetic is checked, since their prices are inputs here; of rails without spines the structure, since the sizes were
chosen so that one or two of three tiers go away.

Examples
--------
>>> from fabriclab import economics
>>> rows = {row.what: row for row in economics.published_costs()}
>>> row = rows["copper of a rack of 72 GPUs, power saved"]
>>> row.theirs, round(row.ours / 1e3, 1)
((20000.0, 20000.0), 22.0)
"""

from __future__ import annotations

from typing import NamedTuple

from fabriclab import catalog, units
from fabriclab.catalog import Case
from fabriclab.catalog.clos import rail_plan
from fabriclab.core import Spec
from fabriclab.economics.breakeven import crossing
from fabriclab.economics.fabrics import INFINIBAND, LOSSLESS, efficiency
from fabriclab.economics.hours import gpu_hour
from fabriclab.economics.prices import HOUR, SHEET_SERVERS, SHEET_SWITCHES, YEAR, rows

__all__ = ["PublishedCost", "published_costs"]

# The rail-only paper has networks of this size; recalled, not confirmed. With these switches a full network has three
# tiers, and rails of 128 GPUs have two of them, or one.
_RAIL_GPUS = 32768
_RAIL_DOMAIN = 256  # GPUs of a scale-up domain, so as many rails
_RAIL_RADIX = {"one tier": 64, "two tiers": 128}  # ports of a switch
_TWIN = 2  # ports that share a module


class PublishedCost(NamedTuple):
    """A published cost or power and what is computed here.

    Parameters
    ----------
    what : str
        What is compared.
    theirs : tuple of float
        Both ends of what is published; equal for one number.
    ours : float or None
        What is computed; None where it cannot be.
    unit : str
        Unit of all three: ``"USD"``, ``"W"``, or ``"1"`` for a share or a factor.
    agrees : str
        ``"size"`` (within 10 % of the nearer end), ``"rough size"`` (within 25 %), ``"inside"``, ``"bound"`` (a bound
        is kept), ``"differs"`` or ``"not computed"``.
    fitted : bool
        Whether the same source gave an input of what is computed.
    confirmed : bool
        Whether the published figure was read in a source.
    source, note : str
        Key of the source, and what is computed.
    """

    what: str
    theirs: tuple[float, float]
    ours: float | None
    unit: str
    agrees: str
    fitted: bool
    confirmed: bool
    source: str
    note: str

    @property
    def error(self) -> float:
        """How far ours lies outside of what is published, as a part of the nearer end; NaN if not computed."""
        if self.ours is None:
            return float("nan")
        low, high = self.theirs
        if self.ours < low:
            return self.ours / low - 1
        return max(self.ours / high - 1, 0.0)


def published_costs() -> tuple[PublishedCost, ...]:
    """Return all published costs and powers with what is computed, or why it is not."""
    job = catalog.case()
    return (
        *_shares(job),
        *_parts(job),
        *_hours(job),
        *_claims(job),
        *_rails(job),
        *_watts(job),
        *_left_out(),
    )


def _row(
    what: str,
    spec: Spec,
    ours: float | None,
    unit: str,
    agrees: str,
    note: str,
    *,
    fitted: bool = False,
) -> PublishedCost:
    """Return the comparison with a row of the catalog."""
    confirmed = "not confirmed" not in spec.evidence
    return PublishedCost(what, spec.ends, ours, unit, agrees, fitted, confirmed, spec.source, note)


def _one(part: str, attribute: str) -> Spec:
    """Return the only row of a part and an attribute in the table of costs."""
    (spec,) = rows(part, attribute)
    return spec


def _shares(job: Case) -> list[PublishedCost]:
    """Return shares of the network in the price of a cluster, servers and network alone."""

    def share(fabric: float, servers: float) -> float:
        return fabric / (fabric + servers * job.price_server)

    one_tier = catalog.costs["cables"].spec(
        "price", name="connectors and cables of a server, one tier"
    )
    servers = 64  # of the sheet's 512 GPUs, on 8 switches
    rails_alone = job.rails * job.price_switch + servers * float(one_tier.si or 0.0)
    large = job.replace(servers=4096, dp=4096)
    here = share(job.price_fabric, job.servers)
    return [
        _row(
            "network in servers and network, 512 GPUs",
            _one("network-share", "share_512"),
            share(rails_alone, servers),
            "1",
            "size",
            "8 switches on rails alone, at the sheet's prices",
            fitted=True,
        ),
        _row(
            "network in servers and network, 1,024 GPUs",
            _one("network-share", "share_1024"),
            here,
            "1",
            "size",
            "48 switches, at the sheet's prices",
            fitted=True,
        ),
        _row(
            "network in servers and network, 32,768 GPUs",
            _one("network-share", "share_32768"),
            share(large.price_fabric, large.servers),
            "1",
            "size",
            "2,560 switches in three tiers; cables by their number, from the price in two tiers",
            fitted=True,
        ),
        _row(
            "network in a cluster, a course's rule",
            _one("network-share", "share"),
            here,
            "1",
            "differs",
            "1,024 GPUs; even at the high ends of all prices of the network it is 12 %",
        ),
    ]


def _parts(job: Case) -> list[PublishedCost]:
    """Return prices of cables, modules and switches."""
    nic = sum(catalog.media["400g"]["price"].ends) / 2
    twin = sum(catalog.media["dr8"]["price"].ends) / 2
    modules = job.gpus * nic + job.optic_twin_modules * twin
    sheet = catalog.costs["cables"].spec(
        "price", name="connectors and cables of a server, two tiers"
    )
    return [
        _row(
            "cables and modules of a server in two tiers",
            sheet,
            modules / job.servers,
            "USD",
            "size",
            "8 modules of 400 Gb/s and 12 of 800 at their mean price (Lux-cost), without fibres",
        ),
        _row(
            "transceivers of 1,024 GPUs at list, more than",
            _one("optics", "price_min"),
            modules,
            "USD",
            "bound",
            "1,024 modules of 400 Gb/s and 1,536 of 800 at their mean price (Lux-cost)",
        ),
        _row(
            "optics of 1,024 GPUs, a price of 2026",
            _one("optics", "price"),
            SHEET_SERVERS * job.price_cables_per_server,
            "USD",
            "differs",
            "the sheet of 2024; the low end of the range of cables is this row",
        ),
        _row(
            "48 switches, a price of 2026",
            _one("switches", "price"),
            SHEET_SWITCHES * job.price_switch,
            "USD",
            "differs",
            "the sheet of 2024; the low end of the range of switches is this row",
        ),
    ]


def _hours(job: Case) -> list[PublishedCost]:
    """Return costs of a server and of a GPU-hour."""
    three_years = 3 * YEAR
    short = gpu_hour(job, lifetime=three_years)
    server = float(short.training) * job.gpus_per_server * three_years / HOUR
    hour = float(gpu_hour(job).training)
    rent = _one("gpu-hour", "price")
    return [
        _row(
            "server of 8 H100 with hall and electricity, 3 years",
            _one("server-3-years", "price"),
            server,
            "USD",
            "size",
            "every hour, with its part of the fabric; no interest, no staff",
        ),
        _row(
            "own H100, an hour",
            _one("gpu-hour", "own"),
            hour,
            "USD",
            "differs",
            "every hour of 4 years; the page's own cost of a server over 3 years is 2.14 to 3.09 USD per GPU-hour",
        ),
        _row(
            "rent of an H100, an hour, 2026",
            rent,
            hour,
            "USD",
            "differs",
            "cost at every hour of 4 years; a rent also pays for hours that nobody rents, interest, staff and a profit",
        ),
        _row(
            "rent of an H800, as DeepSeek-V3 counts it",
            _one("gpu-hour", "assumed"),
            hour,
            "USD",
            "rough size",
            "cost of an H100",
        ),
    ]


def _claims(job: Case) -> list[PublishedCost]:
    """Return claims about InfiniBand and Ethernet."""
    ratio = efficiency(LOSSLESS).middle / efficiency(INFINIBAND).middle
    gain = _step(job, efficiency(LOSSLESS).middle) / _step(job, efficiency(INFINIBAND).middle) - 1
    dearer = float(_one("ib-ethernet", "price_ratio").si or 1.0)
    cheap_bill = job.price_total - job.price_fabric * (1 - 1 / dearer)
    needed = job.price_total / cheap_bill - 1
    claimed = _one("ib-ethernet", "gain")
    limit = (1 + claimed.ends[0]) * _step(job, efficiency(INFINIBAND).middle)
    rate = crossing(lambda part: _step(job, part) - limit, 0.01, 1.0)
    return [
        _row(
            "RoCE over InfiniBand, throughput",
            _one("ib-ethernet", "throughput_ratio"),
            ratio,
            "1",
            "inside",
            "bus bandwidth of 512 GPUs on Slingshot over 20 GPUs on InfiniBand, each over its own line rate",
        ),
        _row(
            "InfiniBand over Ethernet, performance of a job",
            claimed,
            gain,
            "1",
            "differs",
            f"step of the case at those rates; 15 % needs an Ethernet at {units.format_share(rate)} of line rate, "
            "and paying "
            f"2.3 times for the network needs {units.format_share(needed, 1)}",
        ),
    ]


def _step(job: Case, part: float) -> float:
    """Return the time of the case's step with NICs at a part of their rate. [s]."""
    return float(job.replace(nic_rate=job.nic_rate * part).t_step)


def _rails(job: Case) -> list[PublishedCost]:
    """Return savings of rails without spines where one tier of three goes away, and where two do."""
    found = []
    for attribute, unit in (("saving", "cost"), ("saving_power", "power")):
        spec = _one("rail-only", attribute)
        for end, (tiers, radix) in zip(spec.ends, _RAIL_RADIX.items(), strict=True):
            saved = rail_saving(job, radix, _RAIL_DOMAIN)[unit]
            note = (
                f"32,768 GPUs in domains of {_RAIL_DOMAIN}, switches of {radix} ports: sizes chosen so that {tiers} of "
                "three go away"
            )
            what = f"rails without spines, {tiers} less, {unit} saved"
            found.append(
                PublishedCost(what, (end, end), saved, "1", "size", True, True, spec.source, note)
            )
    return found


def rail_saving(job: Case, radix: int, domain: int) -> dict[str, float]:
    """Return which part of ``"cost"`` and ``"power"`` rails without spines save on 32,768 GPUs.

    Parameters
    ----------
    job : Case
        The running case, for the prices and powers of its parts.
    radix : int
        Ports of a switch.
    domain : int
        GPUs of a scale-up domain, each with a rail of its own.
    """
    full = _network(job, radix)
    alone = _network(job, radix, domain)
    return {unit: 1 - alone[unit] / full[unit] for unit in full}


def _network(job: Case, radix: int, domain: int = 0) -> dict[str, float]:
    """Return cost [USD] and power [W] of a network for 32,768 GPUs: a full one, or rails alone of domains of GPUs.

    A switch costs and draws as much for each port as that of the case.
    """
    gpus = _RAIL_GPUS
    room = radix // 2
    if domain:
        servers = gpus // domain
        plan = rail_plan(servers, domain, domain, radix, room, joined=1).clos
        networks = domain
    else:
        each = int(job.gpus_per_server)
        plan = rail_plan(gpus // each, each, each, radix, room).clos
        networks = 1
    switches = networks * sum(plan.switches)
    between = networks * plan.cables
    scale = radix / job.switch_ports
    cable = job.price_cables_per_server / (2 * job.gpus_per_server)
    watts = float(catalog.switches["quantum2"]["system_power_passive"].si or 0.0)
    ports = gpus + 2 * between
    modules = gpus * job.optic_nic_side + ports / _TWIN * job.optic_twin_port
    return {
        "cost": switches * scale * job.price_switch + (gpus + between) * cable,
        "power": switches * scale * watts + modules,
    }


def _watts(job: Case) -> list[PublishedCost]:
    """Return powers."""
    nvlink = catalog.links["nvlink5"]
    links = 72 * float(nvlink["links_per_gpu"].si or 0.0)
    twin = catalog.value("media", "dr4x2", "power_max")
    ends = 2 * links / _TWIN
    hour = gpu_hour(job)
    ten_thousand = 1e4 * float(sum(hour.watts.values()))
    energy = _one("hall-10k", "energy_per_year")
    tariff = _one("electricity", "price")
    dollars = _one("hall-10k", "price")
    pluggable = catalog.value("media", "dr4x2-1600", "power_max", source="CPO-nbc")
    packaged = catalog.media["cpo"].spec("power", name="Co-packaged optics, 1.6 Tb/s")
    return [
        PublishedCost(
            "copper of a rack of 72 GPUs, power saved",
            _one("nvl72", "saving_power").ends,
            ends * twin,
            "W",
            "rough size",
            False,
            False,
            "memory",
            "1,296 NVLinks of 400 Gb/s, two on a module of 17 W at both ends; 19.4 kW with modules of 15 W",
        ),
        _row(
            "co-packaged over pluggable, power",
            catalog.media["cpo"]["power_vs_pluggable"],
            pluggable / float(packaged.si or 1.0),
            "1",
            "size",
            "30 W over 9 W, both from the same source, which says 3.5",
            fitted=True,
        ),
        _row(
            "10,000 H100, machines",
            _one("hall-10k", "power"),
            ten_thousand,
            "W",
            "differs",
            "10.2 kW a server, the highest, and the fabric; theirs is 1.3 times the GPUs; 8.4 MW at 6.2 kW a server",
        ),
        PublishedCost(
            "10,000 H100, electricity of a year",
            (float(dollars.value) * 1e6, float(dollars.value) * 1e6),
            float(energy.value) * 1e6 * float(tariff.si or 0.0),
            "USD",
            "size",
            True,
            True,
            dollars.source,
            "their energy times their price: the arithmetic holds",
        ),
    ]


def _left_out() -> list[PublishedCost]:
    """Return published figures for which nothing can be computed."""
    nothing = "what it was counted on is not published"
    left = (
        ("optical circuit switches of Google, saved, more than", 3e9, "USD", "SemiAnalysis-OCS"),
        ("lasers of a fabric of 128,000 GPUs, pluggable over co-packaged", 5.0, "1", "Lambda-CPO"),
    )
    return [
        PublishedCost(
            what, (value, value), None, unit, "not computed", False, True, source, nothing
        )
        for what, value, unit, source in left
    ]
