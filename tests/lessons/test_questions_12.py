"""What the questions of lesson 12 call right is right by the library, and by what the lesson shows."""

import json

import numpy as np
import pytest

from fabriclab import catalog, economics, live, topologies
from fabriclab.course.questions import find, misconception
from fabriclab.physics import coding, media, optical
from support.lesson_runs import FILES
from support.prose import figures, states

LESSON = json.loads(FILES["12_optical_links"].read_text("utf-8"))
CELLS = {c["id"]: "".join(c["source"]) for c in LESSON["cells"]}
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
    states(CELLS["12-medium-ask"], "1/3", "1/6")


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
    states(CELLS["12-modules-ask"], "4 m")
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
    states(CELLS["12-modules-ask"], saved, f"{dsp.power:g} W")
    assert "host" in lpo.equaliser and "host" in find("12-lpo").right
    assert lpo.electrical_loss == dsp.electrical_loss == 22
    times = [f"{k.power / cpo.power:.1f}" for k in (dsp, lpo)]
    states(find("12-cpo").words.hints[2], *times)
    assert catalog.roadmap["cpo-ib"]["system"].value == "shipping"
    davisson = catalog.roadmap["cpo-th6"]
    assert (davisson["silicon"].value, davisson["system"].value) == ("shipping", "announced")
    states(davisson["system"].name, "102.4 Tb/s")
    states(CELLS["12-delay-ask"], "102.4 Tb/s")


def test_the_delay_of_a_fibre():
    assert find("12-delay").key({}) == pytest.approx(float(optical.delay("100 m")), rel=1e-3)
    longest = LAID[RAILS].length.max()
    assert optical.delay(longest) < catalog.value(
        "switches", "quantum2", "latency_port_to_port", source="Q2-rs"
    )


def test_wavelengths_and_grids():
    each = coding.rates(1, "106.25 GHz", 2, "RS(544,514)", "256b/257b")
    assert find("12-waves").key({}) == pytest.approx(12.8e12 / 8 / each.encoded)
    assert each.signalled / each.encoded == pytest.approx(17 / 16)
    full = [
        live.wavelengths(256, 2, f"C {s} GHz").scene.table["rate [B/s]"][0] * 8e-12
        for s in (50, 100, 200)
    ]
    assert full == pytest.approx([4.35, 4.4, 4.4])
    states(CELLS["12-built-ask"], "4.4 Tb/s")
    assert live.wavelengths(32, 8).scene.table.n_rows == 1 and 32 * 400 == 12800


def test_at_15_kelvin_only_the_widest_spacing_is_near():
    share = {s: float(optical.drift(15.0, spacing=s * 1e9)) for s in (50, 100, 200, 400)}
    said = find("12-ring").words.hints[2]
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
    states(find("12-ring").right, "400 GHz")
