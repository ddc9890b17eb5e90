"""What the questions of lessons 13 and 13b call right is right by the library, and by what the lessons show."""

import json
import math

import numpy as np
import pytest

from fabriclab import catalog, check
from fabriclab.course.judges.lessons import lesson13, lesson13b
from fabriclab.course.questions import find
from fabriclab.physics import held, wireless
from fabriclab.views import live
from support.lesson_runs import FILES
from support.prose import states

CELLS = {}  # of both lessons, by id
for name, file in FILES.items():
    if name.startswith("13"):
        for cell in json.loads(file.read_text("utf-8"))["cells"]:
            CELLS[cell["id"]] = "".join(cell["source"])


def carried(**where):
    """Return what the reader's beam carries in the view [Gb/s]."""
    table = live.beam(**where).scene.table
    return table["carried [Gb/s]"][table["series"] == "your beam"][0]


# Functions that learners write ---------------------------------------------------------------------------------------


def in_ratios(hertz, metres, wavelength, sent, gain, noise):
    arrives = 10 ** ((sent + gain) / 10) * (wavelength / (4 * math.pi * metres)) ** 2
    return hertz * math.log(1 + arrives / 10 ** (noise / 10), 2)


def in_decibels(hertz, metres, wavelength, sent, gain, noise):
    lost = 20 * np.log10(4 * np.pi * metres / wavelength)
    above = sent + gain - lost - noise
    return hertz * np.log2(1 + 10 ** (above / 10))


def rounded(*beam):
    return round(in_ratios(*beam))


def as_arrows(side, angle):
    turn = np.pi * np.sin(angle)
    return abs(np.exp(1j * turn * np.arange(side)).sum() / side) ** 2


def as_array_factor(side, angle):
    half = math.pi * math.sin(angle) / 2
    return (math.sin(side * half) / (side * math.sin(half))) ** 2


def in_sines_and_cosines(side, angle):
    across = along = 0.0
    for place in range(side):
        along += math.cos(place * math.pi * math.sin(angle))
        across += math.sin(place * math.pi * math.sin(angle))
    return (along**2 + across**2) / side**2


@pytest.mark.parametrize(
    ("question", "rule"),
    [
        ("13-write-rate", in_ratios),
        ("13-write-rate", in_decibels),
        ("13-write-rate", rounded),
        ("13b-write-heard", as_arrows),
        ("13b-write-heard", as_array_factor),
        ("13b-write-heard", in_sines_and_cosines),
    ],
)
def test_a_right_function_is_right_however_it_counts(question, rule):
    assert check(question, rule).data["right"]


def test_the_functions_of_the_judges_are_those_of_the_library():
    beam = next(iter(lesson13.beams().values()))
    assert lesson13.beam_rate(*beam) == pytest.approx(8 * wireless.link("2 m").rate, rel=1e-3)
    for side, angle in lesson13b.rows().values():
        lost = float(wireless.misalignment(angle, side**2))
        assert -10 * math.log10(lesson13b.heard(side, angle)) == pytest.approx(lost)
    weak = list(lesson13.beams().values())[-1]
    assert lesson13.received(weak) == pytest.approx(-66, abs=0.1)  # of MCS 2
    assert -1 < lesson13.over_noise(weak) < 0  # below the noise, as the lesson says


# Beams ---------------------------------------------------------------------------------------------------------------


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


def test_the_gain_of_an_array_is_held_against_two_horns():
    assert [round(got - float(row["published"]), 1) for row, got, _ in held("wireless")] == [
        0.6,
        1.6,
    ]


@pytest.mark.parametrize(("elements", "above"), [(16, 50.4), (64, 52.8), (256, 38.7), (1024, 40.9)])
def test_one_neighbour_arrives_39_db_over_noise_and_takes_more_than_half(elements, above):
    alone, one = (wireless.beside("2 m", "0.2 m", elements, n) for n in (0, 1))
    assert one.over_noise == pytest.approx(above, abs=0.05) and one.rate < 0.5 * alone.rate
    assert 2 * one.rate < alone.rate  # two of them had better take turns
    if elements >= 256:  # "hundreds of elements"
        among_ten = wireless.beside("2 m", "0.2 m", elements, 9).rate
        assert among_ten > catalog.value("wireless60", "w60", "phy_rate_max", name="802.11ad")


def test_a_tenth_is_left_beside_a_neighbour():
    alone, one = (wireless.beside("2 m", "0.2 m", 64, n) for n in (0, 1))
    states(CELLS["13-role-ask"], f"{100 * one.rate / alone.rate:.1f} %", f"{8e-9 * one.rate:.2f}")
    assert 10 ** (-one.weaker / 10) == pytest.approx(1 / 3, rel=0.01)  # "a third of the power"


def test_real_radios_use_a_hertz_less_well_than_the_cable():
    value = catalog.value
    rates = {
        "ad": (2.16e9, value("wireless60", "w60", "phy_rate_max", name="802.11ad")),
        "ay": (4.32e9, value("wireless60", "ay", "phy_rate_max")),
        "thz": (
            value("wireless60", "thz", "bandwidth"),
            value("wireless60", "thz", "rate"),
        ),
        "cable": (
            4 * value("link_physics", "cr-100g", "nyquist"),
            value("links", "NDR", "4x_data_rate"),
        ),
    }
    bits = {name: 8 * rate / hertz for name, (hertz, rate) in rates.items()}
    assert max(bits, key=bits.get) == "cable"
    states(CELLS["13-cables-ask"], "2.3 to 3.1 bits", f"{bits['cable']:.1f}")
    assert [round(bits[name], 1) for name in ("ay", "ad")] == [2.3, 3.1]


@pytest.mark.parametrize(("d", "h", "costs"), [("10 m", "3 m", 1.3), ("5 m", "3 m", 3.9)])
def test_a_path_over_the_ceiling_costs_what_the_answer_says(d, h, costs):
    key = find("13b-ceiling").key({"d": d, "h": h})
    straight, up = float(d.split()[0]), float(h.split()[0])
    longer = math.hypot(straight, 2 * up)
    free = wireless.path_loss(longer) - wireless.path_loss(straight) - 0.015 * (longer - straight)
    assert key == pytest.approx(float(free)) == pytest.approx(costs, abs=0.05)
    if (d, h) == ("10 m", "3 m"):
        states(CELLS["13b-built-ask"], f"{key:.1f} dB", f"{longer:.1f} m")


def test_all_four_systems_say_what_was_built_and_what_was_computed():
    shown = [catalog.wireless60[name] for name in ("flyways", "mirror", "firefly", "projector")]
    assert all(system["built"].value and system["computed"].value for system in shown)
    assert "simulation" in find("13b-shown").right


def test_a_budget_ends_where_the_link_does():
    for metres in (2, 10, 50):
        steps, one = wireless.budget_steps(metres), wireless.link(metres)
        assert steps[3].level == pytest.approx(float(one.received))
        assert steps[3].level - steps[-1].level == pytest.approx(float(one.snr))
        assert steps[-1].level == pytest.approx(sum(step.change for step in steps[4:]))
