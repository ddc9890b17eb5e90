"""A live view of two tenants on one fabric: who gets how much of the cables that both use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab import catalog
from fabriclab.core import Floats
from fabriclab.engines.flow import max_min_rates
from fabriclab.texts import text
from fabriclab.views.layout import along_curve
from fabriclab.views.live.switches import pattern_strokes
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, heading, ink_on, lines, texts

TENANTS = "AB"
_HOSTS = 2  # of each tenant on each leaf
_SPINES = 2
_MOST_FLOWS = 16
_THREE = 3.0  # illustrative: what tenant B has paid for, in times of tenant A
# How the fabric is shared: weight of each tenant, or None if each flow counts; and whether spines are shared.
_SHARINGS: Mapping[str, tuple[tuple[float, float] | None, bool]] = {
    "flow": (None, True),
    "tenant": ((1.0, 1.0), True),
    "weight": ((1.0, _THREE), True),
    "spine": (None, False),
}
_GIGA = 1e9

# The picture in px.
_WIDTH = 560.0
_SIDE = 320.0
_HEIGHT = 384.0
_SPINE_X = (190.0, 370.0)
_LEAF_X = (140.0, 420.0)
_SPINE_Y, _LEAF_Y, _HOST_Y = 76.0, 204.0, 302.0
_SWITCH = (72.0, 26.0)
_HOST = (34.0, 26.0)
_PITCH = 54.0  # of hosts
_POINTS = 49  # of a curve, so many that a thick line has no corners
_ASIDE = 4.0  # of a tenant's line from the middle of a cable
_THICK = 6.0  # line of a tenant that has a whole NIC
_DASH = (0.0, 1.0)
_BAR_LEFT, _BAR_WIDE, _BAR_HIGH = 20.0, 280.0, 22.0
_BAR_TOP, _BAR_STEP = 76.0, 76.0
_LETTER_ROOM = 14.0  # a shorter part of a bar is without its letter


class Case(NamedTuple):
    """How the spines are shared, and how many flows each tenant has."""

    sharing: str
    flows: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Shares:
    """What each tenant gets.

    Parameters
    ----------
    rate : (2,) float64
        Rate of all flows of a tenant together [B/s].
    spine, host : (2, 2) float64
        Of it over each spine, and from each host, by tenant [B/s].
    """

    rate: Floats
    spine: Floats
    host: Floats

    @property
    def part(self) -> Floats:
        """Part of what both tenants get, (2,)."""
        return np.asarray(self.rate / self.rate.sum())


def shares_of(case: Case) -> Shares:
    """Return the max-min fair rates of both tenants.

    Each host has a NIC of the running case, and a spine carries half as much, so both spines together carry one NIC's
    rate. A flow is spread evenly over the spines that its tenant may use; flow k of a tenant goes from its host k mod 2
    on the first leaf to the same on the second one.
    """
    nic = catalog.case().nic_rate
    n_nics = len(TENANTS) * _HOSTS
    # Links: NICs of the first leaf, NICs of the second, up to the spines, down from them.
    capacity = np.concatenate([np.full(2 * n_nics, nic), np.full(2 * _SPINES, nic / _SPINES)])
    weights, is_shared = _SHARINGS[case.sharing]
    link: list[int] = []
    use: list[float] = []
    ptr = [0]
    weight = []
    owner = []
    for tenant, flows in enumerate(case.flows):
        spines = list(range(_SPINES)) if is_shared else [tenant]
        for k in range(flows):
            host = tenant * _HOSTS + k % _HOSTS
            link += [host, n_nics + host]
            use += [1.0, 1.0]
            for spine in spines:
                link += [2 * n_nics + spine, 2 * n_nics + _SPINES + spine]
                use += [1.0 / len(spines)] * 2
            ptr.append(len(link))
            weight.append(1.0 if weights is None else weights[tenant] / flows)
            owner.append(tenant * _HOSTS + k % _HOSTS)
    each = max_min_rates(ptr, link, capacity, use=use, weight=weight)
    of_host = np.bincount(owner, each, n_nics).astype(np.float64).reshape(len(TENANTS), _HOSTS)
    rate = of_host.sum(axis=1)
    over = np.full((len(TENANTS), _SPINES), 1.0 / _SPINES) if is_shared else np.eye(_SPINES)
    return Shares(rate, rate[:, None] * over, of_host)


def shared_fabric(sharing: str = "flow", flows_a: int = 8, flows_b: int = 1) -> Live:
    """Show two tenants on one fabric of two leaves and two spines, and what part of the spines each of them gets.

    Both send from the first leaf to the second one as fast as they can. Rates are max-min fair, as the flow engine has
    them: leaves out packets, queues and how senders find their rates.

    Parameters
    ----------
    sharing : str
        "flow": each flow counts the same; "tenant": each tenant does, whatever its number of flows; "weight": tenant B
        counts three times; "spine": tenant A has spine 1 and tenant B spine 2.
    flows_a, flows_b : int
        Flows of tenant A, 1..16, and of tenant B, 0..16.
    """
    arguments = {"sharing": sharing, "flows_a": flows_a, "flows_b": flows_b}
    names = tuple(text(f"live.shared_fabric.choice_{each}") for each in _SHARINGS)
    controls: dict[str, Control] = {
        "sharing": Choice(tuple(_SHARINGS), names=names),
        "flows_a": Slider(1, _MOST_FLOWS),
        "flows_b": Slider(0, _MOST_FLOWS),
    }
    return live_view("shared_fabric", arguments, sharing_scene, controls)


def sharing_scene(sharing: str, flows_a: int, flows_b: int) -> Scene:
    """Return the fabric with the rates of both tenants, and bars of all four ways to share beside it."""
    every = {each: shares_of(Case(each, (flows_a, flows_b))) for each in _SHARINGS}
    case = Case(sharing, (flows_a, flows_b))
    here = every[sharing]
    said = share_words(case, here)
    return Scene(
        said,
        share_table(every),
        {
            **cable_layers(here),
            **node_layers(),
            **number_layers(case, here),
        },
        _HEIGHT,
        alt=f"{said} {setting_words(case)}",
        hint=text("live.shared_fabric.hint"),
        width=_WIDTH,
        side=bar_scene(every, sharing),
    )


# Words ------------------------------------------------------------------------------------------


def sharing_name(sharing: str) -> str:
    """Return the name of a way to share."""
    return text(f"live.shared_fabric.by_{sharing}")


def flow_words(n: int) -> str:
    """Return a number of flows in words."""
    return text("live.shared_fabric.one_flow") if n == 1 else text("live.shared_fabric.flows", n=n)


def share_words(case: Case, here: Shares) -> str:
    """Return the finding: what each tenant gets, and what stays idle if only one sends."""
    first, second = (flow_words(n) for n in case.flows)
    total = catalog.case().nic_rate
    key = "said" if case.flows[1] else "alone"
    return text(
        f"live.shared_fabric.{key}",
        flows_a=first,
        flows_b=second,
        rate_a=here.rate[0] / _GIGA,
        rate_b=here.rate[1] / _GIGA,
        part=here.part[0],
        total=total / _GIGA,
        idle=(total - here.rate.sum()) / _GIGA,
    )


def setting_words(case: Case) -> str:
    """Return what the controls say, for those who do not see them."""
    return text(
        "live.shared_fabric.setting",
        sharing=sharing_name(case.sharing),
        flows_a=flow_words(case.flows[0]),
        flows_b=flow_words(case.flows[1]),
    )


def share_table(every: Mapping[str, Shares]) -> Table:
    """Return a row for each way to share."""
    runs = list(every.values())
    return Table(
        {
            "shared": [sharing_name(each) for each in every],
            "tenant A [GB/s]": [run.rate[0] / _GIGA for run in runs],
            "tenant B [GB/s]": [run.rate[1] / _GIGA for run in runs],
            "A of both [%]": [100 * run.part[0] for run in runs],
        }
    )


# Layers -----------------------------------------------------------------------------------------


def host_x(leaf: int, host: int) -> float:
    """Return the middle of a host below its leaf, 0 to 3 from the left. [px]."""
    n = len(TENANTS) * _HOSTS
    return _LEAF_X[leaf] + _PITCH * (host - (n - 1) / 2)


def curve(x0: float, y0: float, x1: float, y1: float, aside: float) -> Floats:
    """Return a curve that leaves and arrives upright, moved aside, (P, 2) [px]."""
    along = along_curve(_POINTS)
    eased = along * along * (3 - 2 * along)
    return np.stack([x0 + aside + (x1 - x0) * eased, y0 + (y1 - y0) * along], axis=1)


def cable_layers(here: Shares) -> dict[str, Layer]:
    """Return all cables as hairlines, and on them a line for each tenant that uses them, as thick as its rate."""
    nic = catalog.case().nic_rate
    idle, paths, owners, rates, names = [], [], [], [], []
    for leaf in range(2):
        for host in range(len(TENANTS) * _HOSTS):
            tenant = host // _HOSTS
            x = host_x(leaf, host)
            port = _LEAF_X[leaf] + 0.3 * (x - _LEAF_X[leaf])
            ends = (x, _HOST_Y - _HOST[1] / 2, port, _LEAF_Y + _SWITCH[1] / 2)
            idle.append(curve(*ends, 0.0))
            path = curve(*ends, 0.0)
            paths.append(path if leaf == 0 else path[::-1])
            owners.append(tenant)
            rates.append(here.host[tenant, host % _HOSTS])
            names.append(text("live.shared_fabric.nic", tenant=TENANTS[tenant], leaf=leaf + 1))
        for spine in range(_SPINES):
            ends = (
                _LEAF_X[leaf] + 0.12 * (_SPINE_X[spine] - _LEAF_X[leaf]),
                _LEAF_Y - _SWITCH[1] / 2,
                _SPINE_X[spine] + 0.1 * (_LEAF_X[leaf] - _SPINE_X[spine]),
                _SPINE_Y + _SWITCH[1] / 2,
            )
            idle.append(curve(*ends, 0.0))
            for tenant, aside in enumerate((-_ASIDE, _ASIDE)):
                path = curve(*ends, aside)
                paths.append(path if leaf == 0 else path[::-1])
                owners.append(tenant)
                rates.append(here.spine[tenant, spine])
                names.append(
                    text(
                        "live.shared_fabric.cable",
                        tenant=TENANTS[tenant],
                        leaf=leaf + 1,
                        spine=spine + 1,
                    )
                )
    rate = np.array(rates)
    used = np.flatnonzero(rate > 0)
    owner = np.array(owners)[used]
    return {
        "cables": lines(idle, width=0.8, colour=COLOUR["hair"]),
        "tenants": lines(
            [paths[k] for k in used],
            width=1.2 + _THICK * rate[used] / nic,
            colour=np.where(owner == 0, COLOUR["tenant_a"], COLOUR["tenant_b"]),
            dash=np.where(owner == 0, *_DASH),
            names=[names[k] for k in used],
            notes=[text("live.shared_fabric.rate", rate=rate[k] / _GIGA) for k in used],
        ),
    }


def node_layers() -> dict[str, Layer]:
    """Return switches, and hosts with the letter of their tenant; those of B have lines in their boxes."""
    wide, high = _SWITCH
    x = np.array([*_SPINE_X, *_LEAF_X])
    y = np.array([_SPINE_Y] * _SPINES + [_LEAF_Y] * 2)
    words = [text("live.shared_fabric.spine", n=n + 1) for n in range(_SPINES)]
    words += [text("live.shared_fabric.leaf", n=n + 1) for n in range(2)]
    hosts = np.array([host_x(leaf, host) for leaf in range(2) for host in range(4)])
    tenant = np.tile(np.arange(len(TENANTS) * _HOSTS) // _HOSTS, 2)
    colour = np.where(tenant == 0, COLOUR["tenant_a"], COLOUR["tenant_b"])
    host_wide, host_high = _HOST
    return {
        "switches": boxes(
            x - wide / 2,
            y - high / 2,
            wide,
            high,
            colour=COLOUR["switch"],
            ink=COLOUR["node_ink"],
            texts=words,
        ),
        "hosts": boxes(
            hosts - host_wide / 2,
            _HOST_Y - host_high / 2,
            host_wide,
            host_high,
            colour=colour,
            ink=ink_on(colour),
            texts=[TENANTS[t] for t in tenant.tolist()],
        ),
        "patterns": slanted_lines(hosts[tenant == 1]),
    }


def slanted_lines(hosts: Floats) -> Layer:
    """Return the pattern of tenant B on both sides of the letter of its hosts, given their middles [px]."""
    wide, high = _HOST
    margin = (wide - _LETTER_ROOM) / 2
    strokes: list[Floats] = []
    for middle in hosts.tolist():
        for left in (middle - wide / 2, middle + wide / 2 - margin):
            strokes += pattern_strokes("B", left + 1, _HOST_Y - high / 2 + 2, margin - 2, high - 4)
    return lines(strokes, width=1.2, colour=COLOUR["paper"])


def number_layers(case: Case, here: Shares) -> dict[str, Layer]:
    """Return what each tenant sends below its hosts, and what crosses each spine above it."""
    middle = [host_x(0, 2 * tenant) + _PITCH / 2 for tenant in range(2)]
    below = _HOST_Y + _HOST[1] / 2
    flows = [flow_words(n) for n in case.flows]
    rates = [text("live.shared_fabric.rate", rate=rate / _GIGA) for rate in here.rate]
    capacity = catalog.case().nic_rate / _SPINES / _GIGA
    spines = []
    for spine in range(_SPINES):
        one, other = here.spine[:, spine] / _GIGA
        spines.append(text("live.shared_fabric.over", a=one, b=other, total=capacity))
    return {
        "flows": texts(middle, below + 16, flows, align=1.0, size=12.0, colour=COLOUR["soft"]),
        "rates": texts(middle, below + 34, rates, align=1.0, bold=1.0, size=13.0),
        "receive": texts(
            _LEAF_X[1],
            below + 16,
            [text("live.shared_fabric.receives")],
            align=1.0,
            size=12.0,
            colour=COLOUR["soft"],
        ),
        "spines": texts(
            np.array(_SPINE_X), _SPINE_Y - _SWITCH[1] / 2 - 14, spines, align=1.0, size=12.0
        ),
    }


def bar_scene(every: Mapping[str, Shares], sharing: str) -> Scene:
    """Return a bar for each way to share: tenant A, tenant B, and what neither gets; the present one is framed."""
    total = catalog.case().nic_rate
    top = _BAR_TOP + _BAR_STEP * np.arange(len(every), dtype=np.float64)
    here = top[list(every).index(sharing)]
    layers = {
        "title": heading(
            16.0, text("live.shared_fabric.title_bars", total=total / _GIGA), _BAR_LEFT
        ),
        "names": way_names(every, sharing, top),
        "words": rate_words(every, top),
        "rest": boxes(
            _BAR_LEFT, top, _BAR_WIDE, _BAR_HIGH, colour=COLOUR["sunk"], edge=COLOUR["line"]
        ),
        "bars": rate_bars(every, total, top),
        "here": boxes(
            _BAR_LEFT - 4,
            here - 4,
            _BAR_WIDE + 8,
            _BAR_HIGH + 8,
            colour=COLOUR["none"],
            edge=COLOUR["ink"],
        ),
    }
    return Scene("", layers=layers, height=_HEIGHT, width=_SIDE)


def way_names(every: Mapping[str, Shares], sharing: str, top: Floats) -> Layer:
    """Return the name of each way to share above its bar, the present one in bold."""
    names = [sharing_name(each) for each in every]
    is_here = np.array([float(each == sharing) for each in every])
    return texts(_BAR_LEFT, top - 14, names, size=12.0, bold=is_here)


def rate_words(every: Mapping[str, Shares], top: Floats) -> Layer:
    """Return what both tenants get, above the right end of each bar."""
    words = []
    for run in every.values():
        rate_a, rate_b = run.rate
        words.append(text("live.shared_fabric.both", a=rate_a / _GIGA, b=rate_b / _GIGA))
    right = _BAR_LEFT + _BAR_WIDE
    return texts(right, top - 14, words, align=2.0, size=11.0, colour=COLOUR["soft"])


def rate_bars(every: Mapping[str, Shares], total: float, top: Floats) -> Layer:
    """Return two bars end to end for each way to share, as long as the rates of tenants A and B [B/s]."""
    left, wide, letters, names, notes = [], [], [], [], []
    for way, run in every.items():
        at = _BAR_LEFT
        for tenant, rate in zip(TENANTS, run.rate, strict=True):
            length = _BAR_WIDE * float(rate) / total
            left.append(at)
            wide.append(length)
            letters.append(tenant if length > _LETTER_ROOM else "")
            names.append(f"{sharing_name(way)}, {tenant}")
            notes.append(text("live.shared_fabric.rate", rate=rate / _GIGA))
            at += length
    colour = np.tile([COLOUR["tenant_a"], COLOUR["tenant_b"]], len(every))
    return boxes(
        np.array(left),
        np.repeat(top, len(TENANTS)),
        np.array(wide),
        _BAR_HIGH,
        colour=colour,
        ink=ink_on(colour),
        texts=letters,
        names=names,
        notes=notes,
        glide=True,
    )
