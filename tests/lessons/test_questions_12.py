"""What the questions of lesson 12 call right is right by the library, and by what the lesson shows."""

import json
import re

import numpy as np
import pytest

from fabriclab import catalog, economics, live, topologies
from fabriclab.course.questions import find, misconception
from fabriclab.physics import coding, media, optical
from support.lesson_runs import FILES

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


def prose():
    lesson = json.loads(FILES["12_optical_links"].read_text("utf-8"))
    words = " ".join(" ".join("".join(c["source"]) for c in lesson["cells"]).split())
    # terms without their links
    return re.sub(r"\[([^\]]+)\]\(glossary\.md#[^ ]* \"[^\"]*\"\)", r"\1", words)


def test_the_optics_of_the_hall_are_those_of_the_answer():
    assert (
        find("12-watts").key({})
        == CASE.optics_power
        == media.hall(RAILS, media=["fibre"])["fibre"][1]
    )


def test_one_cable_in_eight_stays_in_its_rack():
    short = {f: int(np.sum((f.length[::2] > 0) & (f.length[::2] <= 2))) for f in LAID.values()}
    assert [*short.values()] == [CASE.gpus / 8, CASE.gpus]
    assert (
        CASE.leaves == CASE.servers / CASE.servers_per_rack == 32
        and "32 leaves stand in 32" in find("12-stays").words.hints[1]
    )
    assert media.hall(LAID[RAILS])["copper"][0] / CASE.gpus == pytest.approx(1 / 3, abs=0.01)
    assert 1 - watts(RAILS) / CASE.optics_power == pytest.approx(1 / 6, abs=0.01)
    assert watts(RAILS, servers_per_rack=16) == watts(RACKS)
    assert "one in three of the cables to NICs, and saves a sixth" in prose()


@pytest.mark.parametrize(
    ("id", "far", "medium", "power"),
    [("12-first", 1.5, "copper", 0), ("12-thirty", 30, "multimode", 30)],
)
def test_media_are_those_of_the_answers(id, far, medium, power):
    for by in ("power", "price"):
        assert media.choose(far, "800 Gb/s", by)[:2] == (medium, power)
    right = find(id).right
    assert medium in right.lower() and (not power or f"{power} W" in right)


def test_power_and_price_name_the_same_medium_at_every_length():
    for far in np.geomspace(0.5, 2000, 200):
        assert media.choose(far, "800 Gb/s").medium == media.choose(far, "800 Gb/s", "price").medium
    assert "both name the same medium at every length" in misconception(
        "12-thirty", "watts and dollars disagree"
    )


def test_media_mend_more_of_a_hall_with_rails_than_copper_does():
    saved = {m: watts(RAILS) - watts(RAILS, ["copper", "fibre", m]) for m in media.MEDIA[1:]}
    assert (
        saved["active copper"] == 208 * 2 * 15.5 / 2 > saved["multimode"] > saved["long fibre"] == 0
    )
    assert (
        round(watts(RAILS, media.MEDIA) / 1e3, 1) == 23.8
        and "23.8 kW" in find("12-mend").words.hints[2]
    )
    assert (
        round(watts(RAILS, ["copper", "fibre", "multimode"]) / 1e3, 1) == 26.6
        and "26.6 kW" in find("12-mend").words.hints[2]
    )
    assert "17 W" in catalog.media["sr4x2"]["power_max"].note
    assert watts(RAILS, ["copper", "fibre", "long fibre"]) == watts(RAILS)
    lengths = LAID[RAILS].length[(LAID[RAILS].length > 2)]
    assert (lengths.min(), lengths.max()) == (3, 14) and "3 to 14 m" in find(
        "12-mend"
    ).words.explanation


def test_metres_inside_racks_take_the_copper_away():
    reach = [catalog.value("media", part, "reach_max") for part in ("dac800", "dac800-split")]
    assert (
        reach == [2, 3]
        and round(watts(RAILS, slack="3 m")) == 33088
        and watts(RACKS, slack="3 m") == watts(RACKS)
    )
    assert watts(RAILS, slack="4 m") == watts(RACKS, slack="4 m") == CASE.optics_power
    assert "both halls are back at the start" in prose()
    # a cable of 0 m would be a board
    touching = media.hall(economics.floor_plan(RACKS, slack="0 m"))
    assert sum(cables for cables, _, _ in touching.values()) == 2048


def test_modules_draw_what_the_answers_say():
    dsp, lpo, cpo = (optical.module(k) for k in ("dsp", "lpo", "cpo"))
    assert (dsp.power, lpo.power, cpo.power) == (16, 9, 5.5) and "16, 9 and 5.5 W" in misconception(
        "12-cpo", "rate decides power"
    )
    assert (
        dsp.power - lpo.power == 7
        and "7 W less" in find("12-lpo").words.prompt
        and "about 7 of 16 W" in prose()
    )
    assert (
        lpo.equaliser == "long-reach SerDes of the host"
        and lpo.electrical_loss == dsp.electrical_loss == 22
    )
    assert (
        f"{dsp.power / cpo.power:.1f}" in find("12-cpo").words.hints[2]
        and f"{lpo.power / cpo.power:.1f}" in find("12-cpo").words.hints[2]
    )
    assert (
        catalog.roadmap["cpo-ib"]["status"].value == "shipping"
        and "one *co-packaged optics switch* ships, for InfiniBand" in prose()
    )


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
    assert (
        full == pytest.approx([4.35, 4.4, 4.4]) and "holds about 4.4 Tb/s at any spacing" in prose()
    )
    assert live.wavelengths(32, 8).scene.table.n_rows == 1 and 32 * 400 == 12800


def test_at_15_kelvin_only_the_widest_spacing_is_near():
    share = {s: float(optical.drift(15.0, spacing=s * 1e9)) for s in (50, 100, 200, 400)}
    assert f"{share[400]:.2f} of 400 GHz, {share[200]:.2f} of 200" in find("12-ring").words.hints[2]
    for measured in (
        60e-12,
        68.6e-12,
        83e-12,
        90e-12,
    ):  # a kelvin, in published.csv: the answer is that of all of them
        part = measured / float(optical.drift(1.0))
        assert [s for s, of in share.items() if part * of < 0.5] == [
            400
        ] and "400 GHz alone" in find("12-ring").right
