"""What the questions of lessons 12 to 12d call right is right by the library, and by what the lessons show."""

import json
import math

import numpy as np
import pytest

from fabriclab import catalog, check, economics, live, topologies
from fabriclab.catalog.tables import data_rows
from fabriclab.course.judges.lessons import lesson12, lesson12c
from fabriclab.course.questions import find, misconception
from fabriclab.physics import coding, media, optical
from support.lesson_runs import FILES
from support.prose import figures, states

CELLS = {}  # of all four, by id
for name, file in FILES.items():
    if name.startswith("12"):
        for cell in json.loads(file.read_text("utf-8"))["cells"]:
            CELLS[cell["id"]] = "".join(cell["source"])
CASE = catalog.case()
# of the running case
RAILS, RACKS = (
    topologies.build("rail_optimised", expand=False, **more) for more in ({}, {"rails": 1})
)
LAID = {fabric: economics.floor_plan(fabric) for fabric in (RAILS, RACKS)}


def watts(fabric, allowed=("copper", "fibre"), **plan):
    return sum(
        w for _, w, _ in media.hall(economics.floor_plan(fabric, **plan), media=allowed).values()
    )


def test_the_optics_of_the_hall_are_those_of_the_answer():
    assert (
        find("12-watts").key({})
        == CASE.optics_power
        == media.hall(RAILS, media=["fibre"])["fibre"][1]
    )


def test_one_cable_in_eight_stays_in_its_rack():
    short = {f: int(np.sum((f.length[::2] > 0) & (f.length[::2] <= 2))) for f in LAID.values()}
    assert [*short.values()] == [CASE.gpus / 8, CASE.gpus]
    assert CASE.leaves == CASE.servers / CASE.servers_per_rack == 32
    assert figures(find("12-stays").words.hints[1]).count("32") == 2  # leaves and racks
    assert media.hall(LAID[RAILS])["copper"][0] / CASE.gpus == pytest.approx(1 / 3, abs=0.01)
    assert 1 - watts(RAILS) / CASE.optics_power == pytest.approx(1 / 6, abs=0.01)
    assert watts(RAILS, servers_per_rack=16) == watts(RACKS)
    states(CELLS["12-metre-ask"], "344", "1024", "29.3", "17.4 kW")


@pytest.mark.parametrize(
    ("id", "far", "medium", "power"),
    [("12-first", 1.5, "copper", 0), ("12-thirty", 30, "multimode", 30)],
)
def test_media_are_those_of_the_answers(id, far, medium, power):
    for by in ("power", "price"):
        assert media.choose(far, "800 Gb/s", by)[:2] == (medium, power)
    right = find(id).right
    assert medium in right.lower()
    states(right, *[f"{power} W"] * (power > 0))


def test_power_and_price_name_the_same_medium_at_every_length():
    for far in np.geomspace(0.5, 2000, 200):
        assert media.choose(far, "800 Gb/s").medium == media.choose(far, "800 Gb/s", "price").medium
    assert misconception("12-thirty", "watts and dollars disagree")


def test_media_mend_more_of_a_hall_with_rails_than_copper_does():
    saved = {m: watts(RAILS) - watts(RAILS, ["copper", "fibre", m]) for m in media.MEDIA[1:]}
    assert (
        saved["active copper"] == 208 * 2 * 15.5 / 2 > saved["multimode"] > saved["long fibre"] == 0
    )
    least, multimode = (
        watts(RAILS, allowed) / 1e3 for allowed in (media.MEDIA, ["copper", "fibre", "multimode"])
    )
    assert (round(least, 1), round(multimode, 1)) == (22.1, 26.6)
    states(find("12-mend").words.hints[2], f"{least:.1f} kW", f"{multimode:.1f} kW")
    states(catalog.media["sr4x2"]["power_max"].note, "17 W")
    assert watts(RAILS, ["copper", "fibre", "long fibre"]) == watts(RAILS)
    lengths = LAID[RAILS].length[(LAID[RAILS].length > 2)]
    assert (lengths.min(), lengths.max()) == (3, 14)
    states(find("12-mend").words.explanation, f"{lengths.min():g} m", f"{lengths.max():g} m")


def test_metres_inside_racks_take_the_copper_away():
    reach = [catalog.value("media", part, "reach_max") for part in ("dac800", "dac800-split")]
    assert (
        reach == [2, 3]
        and round(watts(RAILS, slack="3 m")) == 33088
        and watts(RACKS, slack="3 m") == watts(RACKS)
    )
    assert watts(RAILS, slack="4 m") == watts(RACKS, slack="4 m") == CASE.optics_power
    states(CELLS["12-medium-ask"], "4 m", "33.1 kW", "128")
    # a cable of 0 m would be a board
    touching = media.hall(economics.floor_plan(RACKS, slack="0 m"))
    assert sum(cables for cables, _, _ in touching.values()) == 2048


def test_modules_draw_what_the_answers_say():
    dsp, lpo, cpo = (optical.module(k) for k in ("dsp", "lpo", "cpo"))
    assert (dsp.power, lpo.power, cpo.power) == (16, 9, 5.5)
    each = [f"{k.power:g} W" for k in (dsp, lpo, cpo)]
    states(misconception("12-cpo", "rate decides power"), *each)
    saved = f"{dsp.power - lpo.power:g} W"
    assert saved == "7 W"
    states(find("12-lpo").words.prompt, saved)
    states(CELLS["12-modules-ask"], saved)
    assert "host" in lpo.equaliser and "host" in find("12-lpo").right
    assert lpo.electrical_loss == dsp.electrical_loss == 22
    times = [f"{k.power / cpo.power:.1f}" for k in (dsp, lpo)]
    states(find("12-cpo").words.hints[2], *times)
    assert catalog.roadmap["cpo-ib"]["system"].value == "shipping"
    davisson = catalog.roadmap["cpo-th6"]
    assert (davisson["silicon"].value, davisson["system"].value) == ("shipping", "announced")
    states(davisson["system"].name, "102.4 Tb/s")
    assert catalog.roadmap["cpo-eth"]["system"].value == "shipping"


def test_the_delay_of_a_fibre():
    assert find("12-delay").key({}) == pytest.approx(float(optical.delay("500 m")), rel=1e-3)
    longest = LAID[RAILS].length.max()
    assert optical.delay(longest) < catalog.value(
        "switches", "quantum2", "latency_port_to_port", source="Q2-rs"
    )


def test_wavelengths_and_grids():
    each = coding.rates(1, "106.25 GHz", 2, "RS(544,514)", "256b/257b")
    assert find("12b-waves").key({}) == pytest.approx(12.8e12 / 8 / each.encoded)
    assert each.signalled / each.encoded == pytest.approx(17 / 16)
    full = [
        live.wavelengths(256, 2, f"C {s} GHz").scene.table["rate [B/s]"][0] * 8e-12
        for s in (50, 100, 200)
    ]
    assert full == pytest.approx([4.35, 4.4, 4.4])
    states(CELLS["12b-drift-ask"], "4.4 Tb/s")
    one_fibre = live.wavelengths(32, 8).scene.table
    assert one_fibre.n_rows == 1
    assert one_fibre["rate [B/s]"][0] * 8e-12 == pytest.approx(
        12.8
    )  # as much as the question asks for


def test_at_15_kelvin_only_the_widest_spacing_is_near():
    share = {s: float(optical.drift(15.0, spacing=s * 1e9)) for s in (50, 100, 200, 400)}
    said = find("12b-ring").words.hints[2]
    states(said, f"{share[400]:.2f}", "400 GHz", f"{share[200]:.2f}", "200 GHz")
    assert figures(said) == [f"{share[400]:.2f}", "400", f"{share[200]:.2f}", "200"]
    for measured in (
        60e-12,
        68.6e-12,
        83e-12,
        90e-12,
    ):  # a kelvin, in published.csv: the answer is that of all of them
        part = measured / float(optical.drift(1.0))
        assert [s for s, of in share.items() if part * of < 0.5] == [400]
    states(find("12b-ring").right, "400 GHz")


def test_longer_splitters_take_most_of_the_difference_between_wirings_away():
    """As the cell of splitters computes it, with the lists that it names."""
    acc, aec = (media.offers("switch")[name] for name in ("active copper", "AEC"))
    assert (acc.power, acc.reach, aec.power, aec.reach) == (1.5, 5, 8, 7)
    states(CELLS["12-splitters-ask"], "1.5 W", "5 m", "8 W", "7 m")
    metres = media.lengths(LAID[RAILS])
    up = media.least(metres["between switches"], media.offers("switch", ["copper", "fibre"]))
    drawn, fibres = [], []
    for more in ({}, {"ACC": acc}, {"AEC": aec}, {"ACC": acc, "AEC": aec}):
        found = media.least(metres["to NICs"], media.offers("NIC", ["copper", "fibre"]) | more)
        drawn.append(sum(w for _, w, _ in [*found.values(), *up.values()]) / 1e3)
        fibres.append(found["fibre"][0])
    assert [round(x, 1) for x in drawn] == [29.3, 21.1, 23.8, 20.4] and fibres == [680, 168, 96, 96]
    states(CELLS["12-metre-ask"], "168", *[f"{x:.1f} kW" for x in drawn[1:]])
    racks = watts(RACKS) / 1e3
    assert (drawn[1] - racks) / (drawn[0] - racks) < 1 / 3


# The functions that learners write


def by_loop(lengths, reach, power):
    total = 0
    for length in lengths:
        fits = [power[i] for i in range(len(reach)) if reach[i] >= length]
        total += min(fits)
    return total


def by_arrays(lengths, reach, power):
    fits = np.asarray(reach)[None, :] >= np.asarray(lengths)[:, None]
    return np.where(fits, power, np.inf).min(axis=1).sum()


def by_watts(lengths, reach, power):
    order = sorted(zip(power, reach, strict=True))
    return sum(next(w for w, r in order if r >= length) for length in lengths)


@pytest.mark.parametrize("rule", [by_loop, by_arrays, by_watts])
def test_a_right_sum_of_watts_is_right(rule):
    assert check("12-write-watts", rule).data["right"]


def test_the_example_on_paper_and_the_hall_are_cases_of_the_judge():
    paper, nics, between, _ = lesson12.cables().values()
    assert lesson12.all_watts(*paper) == 17.5
    hall = media.hall(LAID[RAILS], media=media.MEDIA)
    assert lesson12.all_watts(*nics) == 680 * 17.5
    assert lesson12.all_watts(*between) == pytest.approx(
        208 * 1.5 + hall["AEC"][1] + (1024 - 208 - 240) * 15
    )


def by_time(window, rate, metres):
    seconds = 2 * metres * 4.9e-9
    reached = window / seconds
    return 1 if reached > rate else reached / rate


def by_least(window, rate, metres):
    return np.minimum(1, window / (rate * 2 * metres * 4.9e-9))


@pytest.mark.parametrize("rule", [by_time, by_least])
def test_a_right_share_of_a_long_link_is_right(rule):
    assert check("12c-write-share", rule).data["right"]


# Light on the chip


def test_co_packaged_switches_halve_the_light_of_the_cluster():
    engine = optical.module("cpo").power
    nics = CASE.cables_host * CASE.optic_nic_side
    after = CASE.optic_twin_modules * engine + nics
    assert CASE.optics_power / after == pytest.approx(2, rel=1e-9)
    assert nics > after / 2
    states(CELLS["12b-colours-ask"], "35.3", f"{after / 1e3:.1f} kW", f"{nics / 1e3:.1f} kW")
    above = CASE.cables_spine * CASE.optic_twin_port
    assert above / 1e3 == pytest.approx(watts(RACKS) / 1e3)
    assert round(CASE.optic_twin_port / engine, 1) == 3.1
    spines = above - CASE.cables_spine // 2 * (CASE.optic_twin_port - engine)  # leaves keep modules
    assert round(above / spines, 1) == 1.5
    states(CELLS["12b-colours-ask"], f"{above / 1e3:.1f} kW", f"{spines / 1e3:.1f} kW")
    assert find("12b-both").key({"n": "1024", "m": "9 W"}) == 1024 * (5.5 + 9)


def test_a_million_hours_let_expect_less_than_one_failure():
    rate = next(
        float(row["value"])
        for row in data_rows("failures")
        if row["row_id"] == "FA0080"  # SIGCOMM 2024, percent of links a month
    )
    expected = find("12b-hours").key({})
    assert expected == pytest.approx(1e6 / 730 * rate / 100) and round(expected, 1) == 0.8
    assert round(100 * math.exp(-expected)) == 46
    states(CELLS["12b-end"], "0.057 %", "46 %", "0.8")


# Two sites


def test_a_ring_over_1000_km_passes_the_long_hops_four_times():
    ranks, far = 128, float(optical.delay(1e6))
    send = CASE.dp_gradients / ranks / CASE.nic_rate

    def ring(delay):
        free, have = np.zeros(ranks), np.zeros(ranks)
        for _ in range(2 * (ranks - 1)):
            free = np.maximum(free, have) + send
            have = np.roll(free + delay, 1)
        return have.max()

    delay = np.zeros(ranks)
    delay[[63, 127]] = far
    assert ring(delay) - ring(np.zeros(ranks)) == pytest.approx(4 * far, rel=1e-6)
    assert ring(delay) == pytest.approx(0.7196, abs=1e-3)
    # what the colleague expects is that of a ring whose hops are all long
    assert ring(np.full(ranks, far)) == pytest.approx(ring(np.zeros(ranks)) + 254 * far, rel=1e-6)


def test_a_window_of_8_mib_reaches_a_third_at_50_km():
    part = lesson12c.share(8 * 2**20, 50e9, 50e3)
    assert part == pytest.approx(0.342, abs=1e-3)
    assert float(optical.delay(1.0)) == pytest.approx(lesson12c.PER_METRE, rel=1e-3)
    states(CELLS["12c-end"], "34 %", "24.5 MB")
    assert find("12c-bdp").key({}) == pytest.approx(78.4e6)
    bears = catalog.media["zr400"]["loss_max"].value  # dB
    assert 90 * 0.25 > bears  # at 0.25 dB/km: why a span of 90 km has amplifiers


# Denser racks


def power(hosts, spine, servers):
    """Return what the cables of the hall draw in the view [kW]."""
    table = live.hybrid(hosts, spine, servers).scene.table
    return table["power [kW]"][table["series"] == "your racks"][0]


@pytest.mark.parametrize("servers", [1, 2, 4, 8, 16])
def test_which_tier_saves_more_depends_on_the_servers_of_a_rack(servers):
    nics, switches = power("all", "fibre", servers), power("fibre", "all", servers)
    assert max(nics, switches) < power("fibre", "fibre", servers) < 40
    if servers in (4, 8):  # as the explanation says, nearly the same
        assert nics == pytest.approx(switches, rel=0.04)
    else:
        assert (nics < switches) == (servers == 16)
    if servers in (2, 16):
        said = find("12d-tier").words.hints[2]
        states(said, f"{nics:.1f} kW", f"{switches:.1f} kW", str(servers))
    drawn = live.hybrid("all", "all", servers).scene.layers["dots"].fields["y"][0]
    # less stands lower
    assert drawn > live.hybrid("fibre", "fibre", servers).scene.layers["dots"].fields["y"][0]


@pytest.mark.parametrize(
    ("servers", "near", "up"), [(4, 344, 448), (8, 608, 864), (16, 1024, 1024)]
)
def test_denser_racks_bring_copper_within_reach(servers, near, up):
    metres = media.lengths(economics.floor_plan(RAILS, servers))
    copper, aec = media.offers("NIC")["copper"].reach, media.offers("switch")["AEC"].reach
    assert int((metres["to NICs"] <= copper).sum()) == near
    assert int((metres["between switches"] <= aec).sum()) == up
    if servers == 4:
        assert int((metres["to NICs"] <= 5).sum()) == 856
        states(CELLS["12d-dense-ask"], "344", "856")
    if servers == 8:
        states(CELLS["12d-end"], "608", "864", "12.4 kW")


def test_a_saving_in_cables_is_less_than_a_hundredth_of_the_servers():
    before, after = (watts(RAILS, media.MEDIA, servers_per_rack=n) for n in (4, 8))
    given = {"a": "22.1 kW", "b": "12.4 kW", "n": "128", "s": "10.2 kW"}
    share = find("12d-share").key(given)
    assert share == pytest.approx((before - after) / (CASE.servers * CASE.server_power), rel=0.01)
    assert share < 0.01
