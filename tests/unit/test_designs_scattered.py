"""Jobs with scattered GPUs: closed forms, the rule of both ways out of a server, and what never matters."""

import dataclasses

import numpy as np
import pytest

from fabriclab import catalog, designs
from fabriclab.designs.brief import demand as requirement
from fabriclab.designs.exam import Carrying, Exam
from fabriclab.designs.network import Network
from fabriclab.designs.scattered import between_sockets, exchange
from support.exercise2_designs import SERVERS, family, rails

TENANTS = designs.workloads()[4]
NIC = float(catalog.case().nic_rate)


def sent(gpus=8):
    """Return what a GPU sends in a step [B]."""
    (need,) = designs.demand(TENANTS, gpus)
    return need.bytes


def found(sheet, workload=TENANTS):
    """Return time [s] and fullest link of the exchange on a design."""
    loads = designs.loads(designs.read(sheet), workload)
    return loads.by_axis["EP"], loads.fullest["EP"]


def joined(groups):
    """Return rails of which those of each group have spines of their own, and as many cables up as down."""
    sheet = rails(spines=0)
    for number, group in enumerate(groups):
        for i in range(2 * len(group)):
            name = f"spine {8 * number + i}"
            sheet["switches"].append({"name": name, "ports": 64, "rate": "400 Gb/s", "tier": 2})
            cables = [
                [f"leaf {rail}.{b}", name, 16 // len(group)] for rail in group for b in range(4)
            ]
            sheet["cables"] += cables
    return sheet


# Closed forms


@pytest.mark.parametrize("wiring", [8, 1])
def test_with_as_many_cables_up_as_down_the_own_nic_is_the_limit(wiring):
    time, link = found(family("rail_optimised", rails=wiring))
    assert time == pytest.approx(sent() / NIC) and link >= 0


@pytest.mark.parametrize("up", [4, 10, 16])
def test_a_taper_divides_what_leaves_a_leaf(up):
    time, _ = found(rails(spines=up // 2, each=2))
    leave = 32 * sent() * (1024 - 8 - 31) / (1024 - 8)
    assert time == pytest.approx(leave / (up * NIC))


@pytest.mark.parametrize("name", ["rail-only", "planes without spines"])
def test_without_spines_half_of_the_bytes_pass_between_the_cpus(name):
    """Four GPUs on a socket, and half of their targets are on rails of the other one."""
    time, link = found(designs.examples()[name])
    assert link == -1
    assert time == pytest.approx(4 * sent() / 2 / between_sockets())
    assert between_sockets() == 22e9


def test_servers_of_four_have_two_gpus_on_a_socket():
    time, _ = found(family("rail_only", servers=256, gpus=4, rails=4, radix=256, rate="200 Gb/s"))
    assert time == pytest.approx(max(sent(4) / 25e9, 2 * sent(4) / 2 / between_sockets()))


def test_a_nic_of_the_same_socket_is_preferred():
    """If each half of the rails has spines, and both halves have NICs on both sockets, nothing passes between these."""
    halves = joined([(0, 1, 2, 3), (4, 5, 6, 7)])
    mixed = joined([(0, 2, 4, 6), (1, 3, 5, 7)])
    time, link = found(halves)
    assert link == -1 and time == pytest.approx(4 * sent() / 2 / between_sockets())
    time, link = found(mixed)
    assert link >= 0 and time == pytest.approx(sent() / NIC)


def test_thin_cables_between_rails_are_used_and_not_passed_by():
    """A GPU sends from its own NIC as long as that has a path, so a thin path is worse than none."""
    thin = rails(spines=1, each=1)
    assert found(thin)[0] > 4 * found(designs.examples()["rail-only"])[0]


def test_no_way_by_the_nics_of_both_gpus():
    """Servers on rails 0 and 1 meet others on rails 1 and 2: for rail 2 the first ones have no NIC at all."""
    cables = []
    for server in range(4):
        first = 0 if server < 2 else 1
        for nic in range(2):
            cables.append([f"server {server} nic {nic}", f"leaf {first + nic}"])
    sheet = {
        "servers": 4,
        "gpus": 2,
        "switches": [{"name": f"leaf {i}"} for i in range(3)],
        "cables": cables,
    }
    design = designs.read(sheet)
    got = exchange(design.network, 2, 6.0)
    # GPUs of servers 0 and 1 send to NIC 1 of servers 2 and 3, which are on rail 2; and the other way to rail 0.
    assert got.lost[0, 2] == got.lost[2, 0] == pytest.approx(2 * 1.0)
    assert got.lost[0, 1] == 0
    total = got.out.sum() + got.lost.sum()
    assert total == pytest.approx(4 * 2 * 6.0)
    loads = designs.loads(design, TENANTS)
    out = np.isin(design.fabric.source, design.fabric.endpoint)
    all_ = designs.demand(TENANTS, 2, 4)[0].bytes
    assert loads.link[out].sum() == pytest.approx(4 * 2 * all_)
    # What crosses the CPUs on its way to NICs that are reached, and half of what is lost at either end, half of that in
    # each direction.
    lost = 2 * 2 * all_ / 6 * 2  # out of and into a server
    assert loads.by_axis["EP"] == pytest.approx((got.cpus / 6 * all_ + lost / 4) / 22e9)


# What holds for every design


@pytest.mark.parametrize(
    "name", ["torus of leaves", "twin rails", "two planes", "unequal taper", "own rules"]
)
def test_bytes_are_kept(name):
    design = designs.read(designs.examples()[name])
    loads = designs.loads(design, TENANTS)
    out = np.isin(design.fabric.source, design.fabric.endpoint)
    into = np.isin(design.fabric.target, design.fabric.endpoint)
    assert loads.link[out].sum() == pytest.approx(design.servers * 8 * sent())
    assert loads.link[into].sum() == pytest.approx(design.servers * 8 * sent())


def test_a_nic_of_several_ports_uses_them_by_their_rates():
    got = exchange(designs.read(designs.examples()["two planes"]).network, 8, 8.0)
    assert np.allclose(got.out, 4.0) and np.allclose(got.into, 4.0)


def test_ports_of_unequal_rates_get_unequal_parts():
    """Server 1 has a port of 200 and one of 100 Gb/s on the same switch: two thirds and one third pass there."""
    cables = [["server 0 nic 0", "leaf 0"]]
    for rate in ("200 Gb/s", "100 Gb/s"):
        cables.append({"from": "server 1 nic 0", "to": "leaf 0", "rate": rate})
    sheet = {"servers": 2, "gpus": 1, "switches": [{"name": "leaf 0"}], "cables": cables}
    net = designs.read(sheet).network
    got = exchange(net, 1, 6.0)
    for sent_or_taken in (got.out, got.into):
        share = dict(zip(net.port_rate.tolist(), sent_or_taken.tolist(), strict=True))
        assert share == pytest.approx({50e9: 6.0, 25e9: 4.0, 12.5e9: 2.0})


def test_a_port_sends_to_the_nearest_port_of_the_other_nic():
    """Server 1 has a port on either leaf, and server 0 one on leaf 0: nothing for server 1 crosses to leaf 1."""
    cables = [
        [f"server {server} nic 0", f"leaf {leaf}"] for server, leaf in ((0, 0), (1, 0), (1, 1))
    ]
    leaves = [{"name": f"leaf {i}"} for i in range(2)]
    sheet = {"servers": 2, "gpus": 1, "switches": leaves, "cables": [*cables, ["leaf 0", "leaf 1"]]}
    net = designs.read(sheet).network
    got = exchange(net, 1, 6.0)
    place = list(zip(net.port_server.tolist(), net.port_switch.tolist(), strict=True))
    one, other = (net.port_switch[net.port_server == 0][0], net.port_switch[net.port_server == 1])
    far = int(other[other != one][0])
    assert dict(zip(place, got.into.tolist(), strict=True)) == {
        (0, int(one)): 6.0,
        (1, int(one)): 6.0,
        (1, far): 0.0,
    }
    # Back to server 0 both ports send.
    assert got.out[place.index((1, far))] == got.between[far, one] == pytest.approx(3.0)


def test_the_order_of_servers_does_not_matter():
    sheet = rails(spines=8)
    sheet["order"] = np.random.default_rng(2).permutation(SERVERS).tolist()
    assert found(sheet) == found(rails(spines=8))


def test_a_network_knows_the_nic_of_each_port():
    fabric = designs.read(designs.examples()["twin rails"]).fabric
    net = Network.of(fabric, SERVERS)
    rank = fabric.rank_of[fabric.source[net.port_link]]
    assert np.array_equal(net.port_nic, rank % 8) and np.array_equal(net.port_server, rank // 8)
    left = net.without(np.array([0]))
    assert left.port_nic.size == left.port_server.size < net.port_nic.size


# In the requirement and in the step


def test_what_the_cpus_limit_is_told():
    """Servers of eight whose jobs send more than the CPUs pass on are refused, and told where."""
    exam = Exam(designs.read(designs.examples()["rail-only"]))
    heavy = dataclasses.replace(TENANTS, moe_layers=2 * TENANTS.moe_layers)
    exam.known = [Carrying(heavy, designs.loads(exam.design, heavy))]
    exam.drawn = []
    told = requirement.bandwidth(exam)
    assert not told.passed and told.links == ()
    assert "between the two CPUs" in told.words and "22" not in told.unit
    assert told.reached == pytest.approx(11e9)


def test_each_second_of_the_exchange_is_one_of_the_step():
    wide = designs.read(family("rail_optimised"))
    thin = designs.read(rails(spines=5))
    gap = designs.step_time(thin, TENANTS).total - designs.step_time(wide, TENANTS).total
    exchanges = [designs.loads(hall, TENANTS).by_axis["EP"] for hall in (thin, wide)]
    assert gap == pytest.approx(exchanges[0] - exchanges[1])
    assert designs.step_time(wide, TENANTS).tensor == 0


def test_large_jobs_do_not_feel_that_rails_are_apart():
    """A network without spines is as fast as any for jobs that have whole servers: Rail-only, arXiv 2307.12169."""
    apart, wide = (
        designs.read(designs.examples()["rail-only"]),
        designs.read(family("rail_optimised")),
    )
    for workload in designs.workloads()[:4]:
        one, other = (designs.loads(hall, workload).by_axis for hall in (apart, wide))
        assert one == pytest.approx(other)


@pytest.mark.parametrize("name", ["torus of leaves", "rail-only"])
def test_what_a_key_draws_is_in_the_same_places(name):
    exam = Exam(designs.read(designs.examples()[name]), key=3)
    drawn = exam.drawn[-1]
    alone = designs.loads(exam.design, drawn.workload)
    assert drawn.workload.moe_layers < TENANTS.moe_layers
    assert drawn.loads.by_axis == pytest.approx(alone.by_axis)
    assert drawn.loads.fullest == alone.fullest
    assert np.allclose(drawn.loads.link, alone.link)
