"""What the questions of lesson 13 call right is right by the library, and by what the lesson shows."""

import json
import math
import re

import numpy as np
import pytest

from fabriclab import catalog, metrics, topologies
from fabriclab.core import Flows
from fabriclab.course.questions import find
from fabriclab.physics import held, optical, wireless
from fabriclab.views import live
from support.lesson_runs import FILES
from support.prose import states

LESSON = json.loads(FILES["13_wireless_and_hybrid"].read_text("utf-8"))
CELLS = {c["id"]: "".join(c["source"]) for c in LESSON["cells"]}


def carried(**where):
    """Return what the reader's beam carries in the view [Gb/s]."""
    table = live.beam(**where).scene.table
    return table["carried [Gb/s]"][table["series"] == "your beam"][0]


def power(hosts, spine, servers):
    """Return what the cables of the hall draw in the view [kW]."""
    table = live.hybrid(hosts, spine, servers).scene.table
    return table["power [kW]"][table["series"] == "your racks"][0]


@pytest.mark.parametrize("k", [100, 1000])
def test_a_stronger_signal_adds_its_logarithm_of_the_channel(k):
    more = wireless.link("2 m", lost=-10 * math.log10(k)).rate - wireless.link("2 m").rate
    assert float(more) == pytest.approx(
        find("13-stronger").key({"k": k, "w": "2.16 GHz"}), rel=1e-3
    )


def test_the_beam_wins_by_the_hertz_and_loses_by_their_number():
    channels, one = wireless.band_channels(), wireless.link("2 m")
    width, lanes = (
        catalog.value("wireless60", "w60", "bandwidth"),
        catalog.value("links", "NDR", "lanes"),
    )
    wires, cable = (
        lanes * catalog.value("link_physics", "cr-100g", "nyquist"),
        catalog.value("links", "NDR", "encoded"),
    )
    # "five times as many bits per hertz"
    assert one.rate / width * wires / cable == pytest.approx(5.1, abs=0.05)
    assert wires / (channels * width) == pytest.approx(8.2, abs=0.05)  # "eight times as many hertz"
    hertz = [round(wires / 1e9), round(channels * width / 1e9)]
    assert hertz == [106, 13]
    states(find("13-why").words.hints[2], *(f"{n} GHz" for n in hertz))


@pytest.mark.parametrize("rate", ["400 Gb/s", "800 Gb/s"])
def test_a_cable_is_worth_as_many_radios_as_the_answer_says(rate):
    assert find("13-radios").key({"c": "6.76 Gb/s", "r": rate}) == wireless.radios(rate)


@pytest.mark.parametrize("d", ["10 m", "5 m", "2 m"])
def test_free_space_takes_what_the_answer_says(d):
    key = find("13-loss").key({"f": "60 GHz", "d": d})
    oxygen = 0.015 * float(d.split()[0])
    assert float(wireless.path_loss(d, "60 GHz")) - oxygen == pytest.approx(key, abs=0.01)


def test_without_the_person_comes_back_most():
    person = {"way": "behind a person"}
    now = carried(distance=10, elements=256, **person)
    ways = {
        "right": carried(distance=10, elements=256),
        "wrong1": carried(distance=10, elements=1024, **person),
        "wrong2": carried(distance=2, elements=256, **person),
        "wrong3": now + wireless.band_channels() * 2.16,
    }
    heights = [
        live.beam(**w).scene.layers["dots"].fields["y"][0]
        for w in (
            {"distance": 10, "elements": 256},
            {"distance": 2, "elements": 256} | person,
            {"distance": 10, "elements": 1024} | person,
            {"distance": 10, "elements": 256} | person,
        )
    ]
    # more stands higher, whatever else is set
    assert heights == sorted(heights) and heights[0] < heights[1]
    assert max(ways, key=ways.get) == "right" and min(ways.values()) > now
    assert (ways["right"] - now) / (ways["wrong2"] - now) > 1.7
    # "No setting reaches it, in one polarisation": not at the shortest way with the most elements.
    assert carried(distance=2, elements=1024) < 400
    assert carried(distance=10, elements=1024) - carried(
        distance=10, elements=256
    ) == pytest.approx(2 * wireless.band_channels() * 2.16, rel=1e-3)


def test_behind_a_person_few_elements_fall_below_what_80211ad_sends():
    few = {"gain": wireless.array_gain(16), "lost": wireless.blockage()}
    real = catalog.value("wireless60", "w60", "phy_rate_max", name="802.11ad")
    assert wireless.link(10, **few).rate > real > wireless.link(20, **few).rate
    assert 0.5 < wireless.link(2, lost=wireless.blockage()).rate / wireless.link(2).rate < 0.6


@pytest.mark.parametrize("k", [16, 64, 256, 1024])
def test_a_neighbour_arrives_39_db_over_noise_though_both_ends_point(k):
    own = wireless.link("2 m", gain=wireless.array_gain(k))
    less = 2 * wireless.misalignment(np.arctan(0.2 / 2), k)
    assert own.snr - less > 38.5
    assert (
        wireless.link("2 m", gain=wireless.array_gain(k), lost=own.snr - less).rate < 0.5 * own.rate
    )


def test_both_polarisations_draw_level_with_the_cable_at_the_legal_power():
    n, cable = wireless.band_channels(), catalog.value("links", "NDR", "4x_data_rate")
    legal, full = (2 * n * wireless.link("2 m", lost=10 * math.log10(k)).rate for k in (2 * n, 2))
    assert legal == pytest.approx(cable, rel=0.01) and full > 1.15 * cable


def test_the_array_that_carries_most_points_as_well_as_it_must():
    most = {
        n: carried(distance=10, elements=n, way="3 degrees off", over="elements")
        for n in (64, 361, 1024)
    }
    assert max(most, key=most.get) == 361
    table = live.beam(10, way="3 degrees off", over="elements").scene.table
    curve = table["series"] == "beam"
    assert table["elements"][curve][np.argmax(table["carried [Gb/s]"][curve])] == 361
    assert carried(distance=10, elements=1024, way="1 degree off", over="elements") > carried(
        distance=10, elements=361, way="1 degree off", over="elements"
    )


@pytest.mark.parametrize("servers", [1, 2, 4, 8, 16])
def test_which_tier_saves_more_depends_on_the_servers_of_a_rack(servers):
    nics, switches = power("all", "fibre", servers), power("fibre", "all", servers)
    assert max(nics, switches) < power("fibre", "fibre", servers) < 40
    if servers in (4, 8):  # as the explanation says, nearly the same
        assert nics == pytest.approx(switches, rel=0.04)
    else:
        assert (nics < switches) == (servers == 16)
    if servers in (2, 16):
        said = find("13-tier").words.hints[2]
        states(said, f"{nics:.1f} kW", f"{switches:.1f} kW", str(servers))
    drawn = live.hybrid("all", "all", servers).scene.layers["dots"].fields["y"][0]
    # less stands lower
    assert drawn > live.hybrid("fibre", "fibre", servers).scene.layers["dots"].fields["y"][0]


def test_a_domain_sends_what_the_answer_says():
    rack, each = (
        topologies.build("nvl72"),
        catalog.value("accelerators", "gb200", "scaleup_bandwidth"),
    )
    # all at once, and none gets less
    sent = Flows.make(rack.endpoint, np.roll(rack.endpoint, 1), each)
    assert metrics.throughput(rack, sent).part == pytest.approx(1.0)
    assert sent.size.sum() == find("13-total").key({"n": 72, "r": "900 GB/s"})


def test_a_pair_of_a_mesh_is_hardly_nearer_than_the_network():
    mesh, nic = topologies.build("mi300x"), catalog.value("nics", "cx7", "throughput")
    pair = mesh.capacity[mesh.links_between(0, 1)].sum()
    assert (
        pair / nic
        == pytest.approx(find("13-parity").key({"a": "64 GB/s", "b": "400 Gb/s"}))
        == 1.28
    )


def test_platforms_have_9_to_48_times_as_much_inside():
    """The rows of errata E26: every ratio by its catalog rows, as the cell computes them."""
    cell = CELLS["13-ratio"].rsplit("display", 1)[0]
    import fabriclab as fl

    names = {"fl": fl, "v": catalog.value}
    exec(cell, names)  # the lesson's own lines
    ratios = {row["with"]: round(row["ratio"], 1) for row in names["rows"]}
    assert ratios == {
        "DGX-1V": 24.0,
        "EFA v1 (P4d)": 48.0,
        "DGX A100": 12.0,
        "DGX/HGX H100": 9.0,
        "GB200 compute tray": 18.0,
        "DGX B300": 9.0,
        "MI300X OAM UBB 8-way": 9.0,
    }
    assert (
        "not confirmed"
        in {row["with"]: row["NICs are"] for row in names["rows"]}["MI300X OAM UBB 8-way"]
    )


def test_a_full_buffer_is_told_by_credits_or_by_a_pause():
    ib, roce = catalog.links["infiniband"], catalog.links["rocev2"]
    assert ib["flow_control"].value.startswith("credits") and roce["flow_control"].value.startswith(
        "pause"
    )
    assert {s.attribute for s in ib.specs} == {s.attribute for s in roce.specs}
    words = re.findall("InfiniBand|RoCE|credits|pause", find("13-full").right)
    assert words == ["InfiniBand", "credits", "RoCE", "pause"]


@pytest.mark.parametrize("d", ["50 km", "10 km"])
def test_light_between_halls_takes_what_the_answer_says(d):
    assert find("13-across").key({"d": d, "s": "4.9 ns"}) == pytest.approx(
        2 * float(optical.delay(d)), rel=2e-3
    )


def test_the_gain_of_an_array_is_held_against_two_horns():
    assert [round(got - float(row["published"]), 1) for row, got, _ in held("wireless")] == [
        0.6,
        1.6,
    ]
