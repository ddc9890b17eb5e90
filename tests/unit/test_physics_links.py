"""Links: coding, copper, light, radio and the medium of each cable, by hand, by law and against published figures."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import catalog, economics, physics, topologies
from fabriclab.catalog.tables import data_rows
from fabriclab.core import FabricBuilder
from fabriclab.physics import _facts, coding, electrical, media, optical, wireless
from support.prose import states

CASE = catalog.case()
# How far a model may be from each published figure that did not set its constants: relative, or in dB for decibels.
# A source of its own behind the model: what is farther off than the rest, as it was found to be. Such a bound guards
# only against a change of the model.
WORST = {
    "coding.frame_loss": 0.03,
    "coding.gain": 0.25,
    "coding.fec_latency": 0.2,
    "electrical.loss": 2.7,
    "electrical.reach": 0.5,
    "electrical.bit_energy": 0.04,
    "electrical.beachfront": 0.02,
    "optical.budget": 0.31,
    "optical.channels": 0.03,
    "optical.drift": 0.18,
    "optical.heater": 0.31,
    "optical.delay": 0.09,
    "optical.module": 0.23,
    "wireless.array_gain": 1.6,
    "switching.duty": 1e-4,
    "electrical.beachfront Nubis-PIC": 0.61,
    "optical.heater Dahlem-2011": 0.76,
    "optical.drift Ptasinski-2014": 0.22,
    "optical.budget TIA-FR1": 1.51,
}
HELD = [
    held
    for model in ("coding", "electrical", "optical", "switching", "wireless")
    for held in _facts.held(model)
]
MODELS = {row["model"] for row, _, _ in HELD}


# By hand


@pytest.mark.parametrize(
    ("part", "attribute", "lanes", "symbol_rate", "bits", "codes"),
    [
        ("pcie3", "bandwidth_after_encoding", 16, "8 GHz", 1, ["128b/130b"]),
        ("pcie4", "bandwidth_after_encoding", 16, "16 GHz", 1, ["128b/130b"]),
        ("pcie5", "bandwidth_after_encoding", 16, "32 GHz", 1, ["128b/130b"]),
        ("pcie6", "bandwidth_after_encoding", 16, "32 GHz", 2, ["242B/256B"]),
        ("ib-sdr", "4x_data_rate", 4, "2.5 GHz", 1, ["8b/10b"]),
        ("ib-fdr", "4x_data_rate", 4, "14.0625 GHz", 1, ["64b/66b"]),
        ("ib-edr", "4x_data_rate", 4, "25.78125 GHz", 1, ["64b/66b"]),
        ("ib-edr", "4x_data_rate", 4, "25.78125 GHz", 1, ["RS(528,514)", "256b/257b"]),
        ("ib-hdr", "4x_data_rate", 4, "26.5625 GHz", 2, ["RS(544,514)", "256b/257b"]),
        ("ib-ndr", "4x_data_rate", 4, "53.125 GHz", 2, ["RS(544,514)", "256b/257b"]),
        ("ualink200", "station_bandwidth", 4, "106.25 GHz", 2, ["RS(544,514)", "256b/257b"]),
        ("nvlink4", "bandwidth_per_link", 2, "53.125 GHz", 2, ["RS(544,514)", "256b/257b"]),
    ],
)
def test_rates_of_links_follow_from_lanes_symbols_and_coding(
    part, attribute, lanes, symbol_rate, bits, codes
):
    told = coding.rates(lanes, symbol_rate, bits, *codes)
    assert told.encoded == pytest.approx(catalog.value("links", part, attribute), rel=5e-4)
    assert told.signalled > told.encoded > told.achievable


@pytest.mark.parametrize(
    ("bits", "code", "mbps"),
    [(1, 3 / 4, 1155), (2, 1 / 2, 1540), (2, 13 / 16, 2502.5), (4, 3 / 4, 4620)],
)
def test_rates_of_80211ad_are_below_shannons(bits, code, mbps):
    """Symbols of 1.76 GHz in blocks of 512, of which 64 are no data: rates as tensorcom.com lists them."""
    rate = coding.rates(1, "1.76 GHz", bits * code * 448 / 512).signalled
    assert 8e-6 * rate == pytest.approx(mbps, rel=1e-9)
    assert rate < float(wireless.link("10 m").rate)


def test_the_weakest_signal_of_mcs2_carries_more_than_it_needs():
    """-66 dBm for 770 Mb/s with noise figure 10 dB and loss 5 dB (IEEE 802.11ad, comment 6114 and table 21-3)."""
    eirp = -66 + float(wireless.path_loss("1 m"))
    weak = wireless.link("1 m", eirp=eirp, gain=0, noise_figure=10, implementation=5)
    assert float(weak.received) == pytest.approx(-66)
    assert float(weak.snr) == pytest.approx(-0.3, abs=0.1)
    assert 1.5 < 8e-6 * float(weak.rate) / 770 < 3  # 4 dB from Shannon


def test_row_13_of_the_plan():
    """Six channels of 60 GHz at 2 m and the indoor limit lose to one cable of 400 Gb/s."""
    n, gbps = wireless.band_channels(), lambda **how: 8e-9 * float(wireless.link("2 m", **how).rate)
    assert n == 6
    assert round(gbps(), 1) == 41.3 and round(n * gbps()) == 248
    assert round(n * gbps(lost=10 * math.log10(n))) == 214
    assert round(n * gbps(noise_figure=0, implementation=0)) == 299
    assert wireless.radios("400 Gb/s") == 60
    assert (
        wireless.radios(59 * catalog.value("wireless60", "w60", "phy_rate_max", name="802.11ad"))
        == 59
    )
    for metres in (2, 10):
        row = catalog.wireless60["w60"].spec(
            "snr", name=f"example budget {metres} m, 40 dBm EIRP, 23 dBi Rx, NF 7, IL 5"
        )
        # the row leaves out oxygen
        assert float(wireless.link(metres).snr) == pytest.approx(row.value, abs=0.2)
        loss = catalog.wireless60["w60"].spec(f"at_{metres}_m").value
        assert float(wireless.path_loss(metres)) == pytest.approx(loss + 0.015 * metres, abs=0.05)
    assert float(wireless.path_loss(1.0) - wireless.path_loss(1.0, "5 GHz")) == pytest.approx(
        21.6, abs=0.06
    )


def test_row_12_of_the_plan():
    """All-optical 35 kW, rails 29 kW (33 without splitters of 3 m) and one leaf for each rack 17 kW."""
    both, rails = ("copper", "fibre"), topologies.build("rail_optimised", expand=False)
    racks = topologies.build("rail_optimised", rails=1, expand=False)

    def watts(fabric):
        return sum(power for _, power, _ in media.hall(fabric).values())

    assert media.hall(rails)["fibre"][0] == CASE.cables_host + CASE.cables_spine == 2048
    assert watts(rails) == pytest.approx(CASE.optics_power, rel=1e-12) == 35328
    laid = economics.floor_plan(rails, media=both)
    near = int(
        np.sum((laid.length[::2] == 3) & (laid.endpoint[:, None] == laid.source[::2]).any(axis=0))
    )
    assert media.hall(laid)["copper"] == (CASE.gpus / 8 + near, 0.0, pytest.approx(34400))
    assert (
        watts(laid)
        == pytest.approx(CASE.optics_power_rails_copper - near * (9 + 17 / 2), rel=1e-12)
        == 29308
    )
    laid = economics.floor_plan(racks, media=both)
    assert watts(laid) == pytest.approx(CASE.optics_power_leaf_per_rack, rel=1e-12) == 17408
    every = media.hall(economics.floor_plan(rails), media=media.MEDIA)
    assert sum(cables for cables, _, _ in every.values()) == 2048
    assert sum(power for _, power, _ in every.values()) == pytest.approx(22092)
    assert every["active copper"][0] == 208  # between switches of one row; no NIC has one
    assert every["AEC"][:2] == (240, 240 * 8)  # 5 to 7 m between switches, 400 Gb/s each


@pytest.mark.parametrize(
    ("length", "medium", "watts"),
    [
        ("1 m", "copper", 0.2),
        ("3 m", "AEC", 32),
        ("3.1 m", "fibre", 60),
        ("500 m", "fibre", 60),
        ("2 km", "long fibre", 60),
    ],
)
def test_ports_of_1600_gbps_have_media_of_their_own(length, medium, watts):
    """Lanes of 200 Gb/s: passive copper ends at 1 m instead of 2 m, AEC at 3 m instead of 7 m."""
    best = media.choose(length, "1.6 Tb/s")
    assert (best.medium, best.power) == (medium, pytest.approx(watts))


def test_a_link_of_800_gbps_may_have_lanes_of_either_rate():
    slow, fast = (media.choose("1 m", "800 Gb/s", lane=lane) for lane in ("100 Gb/s", "200 Gb/s"))
    assert (slow.reach, fast.reach) == (2, 1)
    # half of a twin-port plug
    assert fast.power == media.choose("1 m", "1.6 Tb/s").power / 2
    assert "AEC" in media.MEDIA


@pytest.mark.parametrize("rails", [8, 1])
def test_cables_with_their_least_offers_are_the_hall(rails):
    """Lengths and offers, which a learner puts together, give what `hall` does in one call."""
    laid = economics.floor_plan(topologies.build("rail_optimised", rails=rails, expand=False))
    metres = media.lengths(laid)
    for allowed in (("copper", "fibre"), ("fibre",), media.MEDIA):
        found = dict.fromkeys(media.MEDIA, np.zeros(3))
        for where, to in (("to NICs", "NIC"), ("between switches", "switch")):
            for medium, bought in media.least(metres[where], media.offers(to, allowed)).items():
                found[medium] = found[medium] + bought
        hall = media.hall(laid, media=allowed)
        assert {m: x.tolist() for m, x in found.items() if x[0]} == {
            m: pytest.approx(hall[m]) for m in hall
        }


def test_offers_and_lengths_by_hand():
    to_nic, between = media.offers("NIC"), media.offers()
    assert (to_nic["copper"].reach, between["copper"].reach) == (3, 2)
    assert to_nic["fibre"].power == CASE.optic_nic_side + CASE.optic_twin_port / 2 == 17.5
    assert between["AEC"].power == 8 and "AEC" not in to_nic
    longer = {"mine": media.MediumChoice("mine", 8.0, 300.0, 7.0), **to_nic}
    assert media.least([7.0, 3.0], longer)["mine"] == (1, 8.0, 300.0)
    with pytest.raises(ValueError, match="one of 8 m is longer than the 3 m"):
        media.least([8.0], {"copper": to_nic["copper"]})
    with pytest.raises(ValueError, match="got none"):
        media.least([8.0], {})
    with pytest.raises(ValueError, match="to must be one of switch, NIC"):
        media.offers("server")
    with pytest.raises(TypeError, match="fabric must be a Fabric"):
        media.lengths(5)


def test_a_hall_by_hand():
    """One NIC and two switches; a board, and a cable of no capacity, are not counted."""
    b = FabricBuilder(("nic", "switch"), ("local",))
    nic = b.add_nodes("nic", 1, tier=0, transit=False)
    one, two = b.add_nodes("switch", 2, tier=1, transit=True)
    b.add_cables(nic, [one], capacity="400 Gb/s", length="30 m")
    b.add_cables([one], [two], capacity="1600 Gb/s", ports=2, length="4 m")
    b.add_cables([one], [two], capacity="400 Gb/s")
    fabric = b.build("custom", {}, endpoint=nic, rail=[0], server=[0])
    assert media.hall(fabric, media=("copper", "multimode")) == {
        "multimode": (3, 9 + 15 / 2 + 2 * 2 * 15, pytest.approx(700 + 600 / 2 + 2 * 2 * 600))
    }
    assert media.hall(fabric, media=media.MEDIA)["active copper"][:2] == (2, 2 * 2 * 1.5)
    for metres, at_nic, between in (
        (2, "copper", "copper"),
        (3, "copper", "fibre"),
        (3.5, "fibre", "fibre"),
    ):
        cables = media.hall(fabric.shown_as("", length=np.where(fabric.length, metres, 0.0)))
        assert (
            cables[at_nic][0] - 2 * (at_nic == between) == 1
            and cables[between][0] - (at_nic == between) == 2
        )
    # no switch: each end is a NIC's, no splitter
    ring = topologies.build("torus", shape=(4,), rate="400 Gb/s")
    assert [*media.hall(ring.shown_as("", length=np.where(ring.length, 3.0, 0.0)))] == ["fibre"]
    ends = {medium: watts for medium, (_, watts, _) in media.hall(ring, media=("fibre",)).items()}
    assert ends == {"fibre": np.count_nonzero(ring.length[::2]) * 2 * 9}
    assert media.hall(fabric.without(cables=[1]), media=("fibre",))["fibre"][:2] == (1, 9 + 17 / 2)


def test_wavelengths_of_a_fibre():
    lanes = optical.channels("O", "20 nm")
    four = coding.rates(4, "53.125 GHz", 2, "RS(544,514)", "256b/257b")
    # 400GBASE-FR4 uses four of them
    assert lanes == 5 and 8e-9 * four.encoded == pytest.approx(400)
    assert optical.channels("C", "50 GHz") == 87 and optical.channels("C", "200 GHz") == 22


def test_light_by_hand():
    made = optical.budget(0.0, -5.0, "1 km", {"connections": 1.0}, attenuation=0.5)
    assert made == pytest.approx((-1.5, 3.5, 8000))
    assert optical.budget(-9.0, -5.0, 0).reach == 0
    # 8.56 GHz for each K
    assert float(optical.drift(10.0, spacing="100 GHz")) == pytest.approx(0.856, rel=1e-3)
    assert (
        electrical.energy("2 mm")[0] == "UCIe 2.5D" and electrical.energy("2.1 mm")[0] == "UCIe 2D"
    )
    assert float(optical.delay("10 m")) == pytest.approx(
        10 * catalog.value("media", "fibre", "propagation"), rel=1e-3
    )
    assert float(optical.heater(optical.drift(40.0))) == pytest.approx(0.0161, rel=1e-2)
    kinds = {kind: optical.module(kind) for kind in ("dsp", "lpo", "cpo")}
    assert (
        kinds["dsp"].power - kinds["lpo"].power == 7
        and kinds["dsp"].electrical_loss == kinds["lpo"].electrical_loss
    )
    assert kinds["lpo"].equaliser.endswith("host") and kinds["cpo"].electrical_loss == 4


# Published


@pytest.mark.parametrize(
    ("row", "got", "error"), HELD, ids=lambda x: x["source"] if isinstance(x, dict) else ""
)
def test_each_model_against_published_figures(row, got, error):
    off = got - float(row["published"]) if row["unit"].startswith("dB") else error
    print(
        f"{row['model']} {row['given']}: {got:.4g}, published {row['published']} {row['unit']}, off by {off:+.3g}"
    )
    assert abs(off) <= WORST.get(f"{row['model']} {row['source']}", WORST[row["model"]])


def test_each_model_has_two_figures_that_did_not_set_it_and_a_source():
    assert {name.split()[0] for name in WORST} == MODELS
    alone = [row["model"] for row, _, _ in HELD if row["source"] not in SAME]
    assert {model for model in MODELS if alone.count(model) < 2} == {"switching.duty"}  # arithmetic
    known = {row["key"] for row in data_rows("sources")}
    assert {row["source"] for row in _facts.rows("")} <= known
    fitted = {row["source"] for row in _facts.rows("") if row["role"] == "fit"}
    assert not fitted & {row["source"] for row, _, _ in HELD}


# Figures of a table or paper that another figure of it has set: they hold a model to its law, not to the world.
SAME = {"OE-21-9447", "UCIe-1.0"}


def test_a_figure_is_no_check_of_the_source_that_set_the_constant(monkeypatch):
    """Sources of the catalog's constants that a model reads for a figure are none that the figure is from."""
    fact = _facts.fact
    used = []

    def spied(part, attribute, table="link_physics", **where):
        used.append(
            (
                attribute,
                *catalog.__getattr__(table)[part].spec(attribute, **where).source.split("+"),
            )
        )
        return fact(part, attribute, table, **where)

    for module in (electrical, optical, wireless):
        monkeypatch.setattr(module, "fact", spied)
    shared, read = set(), 0
    for row in (r for r in _facts.rows("") if r["role"] == "check"):
        used.clear()
        getattr(getattr(physics, row["model"].split(".")[0]), row["model"].split(".")[1])(
            **json.loads(row["given"])
        )
        named = {
            source
            for attribute, *sources in used
            if attribute != "electrical_loss"
            for source in sources
        }
        read += len(named)
        shared |= {row["source"]} & named
    # the papers of 1317 GB/s/mm at 32 GT/s are two, the figure is one
    assert read > 20 and shared == SAME - {"UCIe-1.0"}


@pytest.mark.parametrize("code", sorted(coding.RS))
def test_codes_of_ethernet_keep_its_line_rates(code):
    """Lanes of 26.5625 GBd and PAM4 carry 50 Gb/s with either code; 528 symbols fit lanes of 25.78125 GBd."""
    lane = ("25.78125 GHz", 1, 25) if code == "RS(528,514)" else ("26.5625 GHz", 2, 50)
    assert 8e-9 * coding.rates(1, *lane[:2], code, "256b/257b").encoded == pytest.approx(
        lane[2], rel=1e-12
    )


def test_lists_are_read_with_their_units():
    assert (
        electrical.loss("10 GHz", ["1 m", "2 m"]).tolist()
        == electrical.loss("10 GHz", [1, 2]).tolist()
    )


def test_docstrings_state_the_errors():
    by = {row["model"]: [] for row, _, _ in HELD}
    for row, _, error in HELD:
        by[row["model"]].append(error)
    loss = np.abs(by["electrical.loss"])
    codes, budget = by["coding.fec_latency"], by["optical.budget"]
    dense = by["electrical.beachfront"]
    for held_up, errors in [
        (electrical.loss, [np.median(loss), loss.max()]),
        (electrical.reach, by["electrical.reach"]),
        (coding.frame_loss, by["coding.frame_loss"]),
        (coding.fec_latency, [codes[0], -codes[2]]),
        (optical.drift, [-e for e in by["optical.drift"]]),
        (optical.budget, [*budget[:4], budget[7]]),
        (optical.heater, by["optical.heater"]),
        (electrical.beachfront, [dense[-1], -dense[0]]),
        (optical.module, by["optical.module"][:1]),
    ]:
        states(held_up.__doc__, *(f"{100 * e:.0f} %" for e in errors))
    states(optical.budget.__doc__, *(f"{round(100 * e, 1):g} %" for e in budget[4:7]))


# Laws


@given(st.floats(1e-6, 1e-3), st.floats(1.05, 3), st.sampled_from(sorted(coding.RS)))
def test_law_more_errors_lose_more_frames(ber, factor, code):
    assert coding.word_error(ber, code) < coding.word_error(ber * factor, code) <= 1
    one, four = coding.frame_loss(ber, code), coding.frame_loss(ber, code, interleaved=4)
    assert coding.word_error(ber, code) < one < four <= 1


def test_law_the_tail_is_the_sum_of_its_terms():
    n, k, p = 272, 258, 1 - (1 - 1e-3) ** 10
    terms = [math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range((n - k) // 2 + 1, n + 1)]
    assert coding.word_error(1e-3, f"RS({n},{k})") == pytest.approx(sum(terms), rel=1e-10)
    assert coding.word_error(np.array([1e-3, 1e-4]), "RS(528,514)").shape == (2,)


@given(st.floats(1e9, 60e9), st.floats(0.1, 5), st.sampled_from([24, 26, 28, 30]))
def test_law_a_cable_as_long_as_its_reach_spends_its_budget(f, metres, gauge):
    lost = float(electrical.loss(f, metres, gauge))
    assert float(electrical.reach(2 * f, lost, gauge)) == pytest.approx(metres)
    assert lost < electrical.loss(1.1 * f, metres, gauge) and lost < electrical.loss(
        f, metres, gauge + 1
    )
    assert electrical.reach(2 * f, 0.0, gauge) == 0


@given(st.floats(0.1, 100), st.floats(0, 40))
def test_law_losses_and_distance_add_up(metres, lost):
    near, far = wireless.link(metres, lost=lost), wireless.link(2 * metres, lost=lost)
    assert float(near.snr - far.snr) == pytest.approx(20 * math.log10(2) + 0.015 * metres)
    assert float(wireless.link(metres).snr - near.snr) == pytest.approx(lost, abs=1e-9)
    assert far.rate < near.rate


@given(st.integers(1, 40))
def test_law_at_half_of_its_width_a_beam_has_half_its_power(side):
    n = side**2
    assert float(wireless.misalignment(0.0, n)) == 0
    if side >= 4:
        assert float(wireless.misalignment(wireless.beam_width(n) / 2, n)) == pytest.approx(
            3.01, abs=0.25
        )
    assert float(wireless.array_gain(4 * n) - wireless.array_gain(n)) == pytest.approx(
        6.02, abs=0.01
    )


@given(st.floats(0.5, 1999), st.floats(1e9, 1e11), st.sampled_from(["power", "price"]))
def test_law_no_other_medium_that_reaches_is_cheaper(metres, rate, by):
    best = media.choose(metres, rate, by)
    assert best.reach >= metres
    others = [
        media.choose(metres, rate, by, [m])
        for m in media.MEDIA
        if media.choose(0, rate, media=[m]).reach >= metres
    ]
    assert getattr(best, by) == min(getattr(other, by) for other in others)


def test_law_curves_keep_their_shape():
    x = np.geomspace(0.1, 10, 5)
    for curve in (
        electrical.loss("12.9 GHz", x),
        wireless.path_loss(x),
        wireless.link(x).rate,
        optical.delay(x),
        optical.drift(x),
        wireless.beam_width(x + 1),
        electrical.reach(x * 1e10, 20.0),
    ):
        assert curve.shape == (5,) and np.isfinite(curve).all()


# Refusals


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda: media.choose("3 km", "800 Gb/s"),
            "no medium serves 800 Gb/s over 3000 m; nearest is long fibre.*2000 m",
        ),
        (
            lambda: media.choose("30 m", "3.2 Tb/s"),
            "no medium serves 3200 Gb/s over 30 m; nearest is fibre: 1.6 Tb/s over 500 m; take sev",
        ),
        (
            lambda: media.choose("30 m", "1.6 Tb/s", media=["multimode"]),
            "no product of multimode for lanes of 200 Gb/s is known; add one of copper, AEC, fib",
        ),
        (
            lambda: media.choose("1 m", "1.6 Tb/s", lane="100 Gb/s"),
            "nearest is copper: 800 Gb/s over 2 m; take several links",
        ),
        (
            lambda: media.choose("1 m", lane="50 Gb/s"),
            "lane must be one of 100 Gb/s, 200 Gb/s, got '50 Gb/s'",
        ),
        (
            lambda: media.choose("3 m", media=("copper",)),
            "over 3 m; nearest is copper: 800 Gb/s over 2 m; shorten",
        ),
        (lambda: media.choose("3 m", media=()), "media must name at least one of copper"),
        (lambda: media.choose("3 m", by="weight"), "by must be one of power, price"),
        (lambda: media.choose("3 m", media=["fiber"]), "did you mean 'fibre'"),
        (lambda: coding.rates(4, "25 GHz", 1, "64/66"), "code must be one of 8b/10b"),
        (lambda: coding.rates(4, "25 Gb/s", 1), "symbol_rate must be a frequency"),
        (
            lambda: coding.word_error(0.0, "RS(544,514)"),
            "ber must be > 0 and at most 0.5, got 0.0; write a ratio",
        ),
        (lambda: coding.gain("RS(544,514)", 0.1), "ber must be within 1e-18..1e-6, got 0.1"),
        (
            lambda: electrical.loss("-1 GHz", 1.0),
            "frequency must be finite and >= 0 in SI, got '-1 GHz'",
        ),
        (
            lambda: electrical.energy("2 m"),
            "no electrical interface without a cable spans 2 m; LR spans 1 m",
        ),
        (lambda: electrical.beachfront("SerDes"), "interface must be one of UCIe 2.5D"),
        (
            lambda: optical.budget(0, -5, 1.0, {"coupling": -3}),
            "losses must be >= 0 dB.*'coupling': -3",
        ),
        (
            lambda: optical.budget(math.nan, -5, 1.0),
            "launch and sensitivity in dBm, got .*nan and -5; give numbers",
        ),
        (lambda: optical.budget(0, -5, 1.0, attenuation=math.nan), "attenuation > 0 dB/km"),
        (lambda: optical.drift(math.nan), "kelvin must be finite"),
        (lambda: optical.drift("20 K"), "kelvin has the unknown unit 'K'"),
        (
            lambda: electrical.loss(["1 GHz", "x"], 1.0),
            "frequency must be a number with a unit, got 'x'",
        ),
        (lambda: electrical.loss(1e9, 1.0, gauge=-3), "gauge must be finite and >= 0"),
        (lambda: electrical.reach("26 GHz", math.nan), "budget must be finite"),
        (lambda: wireless.link("2 m", eirp=math.nan), "FCC indoor EIRP must be finite"),
        (lambda: wireless.misalignment(math.nan, 16), "angle must be finite"),
        (lambda: optical.channels("X", "100 GHz"), "band must be one of O, E, S, C, L"),
        (lambda: optical.module("aoc"), "kind must be one of dsp, lpo, cpo"),
        (lambda: wireless.link(0.0), "distance must be finite and >= 0.01 in SI, got 0.0"),
        (lambda: wireless.array_gain(0), "elements must be finite and >= 1 in SI, got 0"),
    ],
)
def test_errors_help(ask, text):
    with pytest.raises(ValueError, match=text):
        ask()


def test_the_front_door():
    assert all(hasattr(physics, name) for name in physics.__all__) and physics.coding is coding
