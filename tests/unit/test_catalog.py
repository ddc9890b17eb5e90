"""Catalog: the tables of facts, their evidence and how they are looked up."""

import copy
import pickle
import re

import pytest

from fabriclab import catalog
from fabriclab.catalog.tables import data_rows
from fabriclab.core.spec import Spec

TABLES = (
    "accelerators",
    "costs",
    "emerging",
    "link_physics",
    "links",
    "measured",
    "media",
    "memory_path",
    "nccl_model",
    "nics",
    "rdma",
    "reliability",
    "roadmap",
    "scaleup",
    "switches",
    "systems",
    "wireless60",
)
COLUMNS = "id,name,attribute,value,unit,direction,kind,source,date,confidence,licence,note".split(
    ","
)
ALL = [(t, s) for t in TABLES for s in getattr(catalog, t).specs]


def test_by_hand():
    part = catalog.links["nvlink4"]
    assert part["bandwidth_per_gpu"].value == 450
    assert part["bandwidth_per_gpu"].si == 450e9
    assert part.spec("bandwidth_per_gpu", direction="bidirectional_sum").value == 900
    assert part.spec("bandwidth_per_gpu", direction="bidirectional_sum").si == 450e9
    assert catalog.value("links", "nvlink4", "bandwidth_per_gpu") == 450e9
    assert catalog.value("nics", "cx7", "throughput") == 50e9
    assert catalog.value(
        "nccl_model", "hw", "latency_Simple", name="hwLat NET Ring"
    ) == pytest.approx(14e-6)
    assert catalog.value(
        "switches", "quantum2", "latency_port_to_port", source="Q2-yobi"
    ) == pytest.approx(330e-9)
    assert catalog.value("memory_path", "d2d", "bandwidth") == 396.4e9


def test_shape():
    assert catalog.tables() == TABLES
    counts = {t: len(getattr(catalog, t).specs) for t in TABLES}
    assert counts == {
        "accelerators": 126,
        "costs": 53,
        "emerging": 76,
        "link_physics": 65,
        "links": 498,
        "measured": 85,
        "media": 80,
        "memory_path": 62,
        "nccl_model": 70,
        "nics": 29,
        "rdma": 24,
        "reliability": 21,
        "roadmap": 144,
        "scaleup": 59,
        "switches": 99,
        "systems": 120,
        "wireless60": 40,
    }
    assert all(list(row) == COLUMNS for t in TABLES for row in data_rows(t))
    assert catalog.links is catalog.links


@pytest.mark.parametrize(
    ("table", "spec"), ALL, ids=lambda x: x if isinstance(x, str) else f"{x.id}.{x.attribute}"
)
def test_law_every_row_has_its_evidence(table, spec):
    known = {row["key"]: row for row in data_rows("sources")}
    keys = spec.source.split("+")
    named = [key for key in keys if key != "memory"]
    assert set(keys) <= set(known)
    assert catalog.cite(spec.source)
    assert spec.licence == "facts only"
    assert spec.confidence in ("A", "B", "C")
    dates = [known[k]["date"] for k in named] or ["seen 2026-11-21"]
    assert spec.date == next((date for date in dates if not date.startswith("seen")), dates[0])
    # The rule of data/README.md, by which kinds were given once.
    own_runs = spec.source == "MLE-net" and (
        table == "memory_path" or spec.attribute == "achievable"
    )
    if table == "measured" or own_runs:
        assert spec.kind == "measured"
    else:
        assert spec.kind == (known[named[0]]["kind"] if named else "estimate")
    if "memory" in keys:
        assert "not confirmed" in spec.note
    assert (
        ("not confirmed" in repr(spec))
        == ("not confirmed" in spec._repr_html_().split("<td>")[5])
        == (spec.confidence == "C" or "memory" in keys)
    )


def test_law_a_sum_is_twice_its_direction():
    pairs = 0
    for table in TABLES:
        for part in getattr(catalog, table).values():
            for both in part.specs:
                ones = [
                    s
                    for s in part.specs
                    if (s.attribute, s.direction) == (both.attribute, "per_direction")
                ]
                if both.direction == "bidirectional_sum" and len(ones) == 1:
                    assert both.si == pytest.approx(ones[0].si, rel=0.02)
                    pairs += 1
    assert pairs == 6  # five NVLinks, and one measured copy


def test_sources():
    known = catalog.sources()
    assert "nccl-tests" in known["NCCL-tests"].lower()
    assert catalog.cite("MLE-acc+MLE-net") == f"{known['MLE-acc']}; {known['MLE-net']}"
    assert len(known) == len(data_rows("sources"))
    words = (
        "Meta report details hundreds of",
        "datacenterdynamics.com/en/news/meta-report",
        "seen 2026-11-21",
    )
    assert all(word in catalog.cite("Llama3-DCD") for word in words)
    for row in data_rows("sources"):  # each says when, unless it is no source at all
        assert (row["date"] in known[row["key"]]) == (
            row["key"] not in ("memory", "derived", "FEC-pcisig")
        ), row
    assert (
        known["Llama3-paper"].endswith("), 2024-07") and known["MLE-net"].count("2026-08-22") == 1
    )
    with pytest.raises(KeyError, match=r"has no 'MLE-nett'; did you mean 'MLE-net'"):
        catalog.cite("MLE-acc+MLE-nett")


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (
            lambda: catalog.links["nvlnk4"],
            KeyError,
            "catalog.links has no 'nvlnk4'; did you mean 'nvlink4'",
        ),
        (
            lambda: catalog.links["NRD"],
            KeyError,
            "catalog.links has no 'NRD'; did you mean .*'NDR'",
        ),
        (lambda: catalog.links.compare("NDR", "nvlnk4"), KeyError, "did you mean 'nvlink4'"),
        (
            lambda: catalog.search("retimr"),
            KeyError,
            "the catalog has no 'retimr'; did you mean 'retimer'",
        ),
        (lambda: catalog.search(" "), KeyError, "the catalog has no ' '; it has "),
        (
            lambda: catalog.links["nvlink4"]["bandwith_per_gpu"],
            KeyError,
            "did you mean 'bandwidth_per_gpu'",
        ),
        (
            lambda: catalog.value("linkz", "nvlink4", "x"),
            KeyError,
            "the catalog has no 'linkz'; did you mean 'links'",
        ),
        (
            lambda: catalog.value("links", "nvlink4", "zzz"),
            KeyError,
            "it has achievable, bandwidth_per_gpu, ",
        ),
        (
            lambda: catalog.value("switches", "quantum2", "latency_port_to_port"),
            KeyError,
            "2 rows.*330 ns.*Q2-rs",
        ),
        (lambda: catalog.nccl_model["hw"]["latency_LL"], KeyError, "6 rows.*hwLat NET Ring"),
        (
            lambda: catalog.value("nics", "cx7", "throughput", source="x"),
            KeyError,
            "0 rows.*'source': 'x'.*400 Gb/s",
        ),
        (
            lambda: catalog.value("links", "nvlink4", "bandwidth_per_gpu", foo=1),
            KeyError,
            "a row has no 'foo'; it has",
        ),
        (
            lambda: catalog.value("links", "nvlink4", "bandwidth_per_gpu", sorce="x"),
            KeyError,
            "did you mean 'source'",
        ),
        (
            lambda: catalog.links["?"],
            KeyError,
            r"has no '\?'; it has \S+(, \S+){7}, ... \d+ in all",
        ),
        (
            lambda: catalog.value("links", "pcie5", "signalling_rate"),
            ValueError,
            "'32 GT/s per lane', which has no SI",
        ),
        (
            lambda: catalog.value("media", "dr8", "power"),
            ValueError,
            "'14-18 W', which has no SI value",
        ),
        (
            lambda: catalog.nic,
            AttributeError,
            "fabriclab.catalog has no 'nic'; did you mean 'nics'",
        ),
    ],
)
def test_errors_help(ask, error, text):
    with pytest.raises(error, match=text):
        ask()


@pytest.mark.parametrize(
    "change",
    [
        lambda: catalog.links.pop("nvlink4"),
        lambda: catalog.links["nvlink4"].update(bandwidth_per_gpu=None),
        lambda: data_rows("sources")[0].clear(),
        lambda: catalog.case().given.pop("servers"),
    ],
)
def test_a_reader_cannot_change_what_all_others_read(change):
    with pytest.raises(TypeError, match="read-only"):
        change()
    assert not hasattr(data_rows("sources"), "append")
    assert (
        catalog.case().servers == 128
        and catalog.value("links", "nvlink4", "bandwidth_per_gpu") == 450e9
    )


def test_tables_and_the_case_are_copied_and_pickled():
    for again in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        assert again(catalog.links)["nvlink4"].spec("bandwidth_per_gpu").si == 450e9
        assert repr(again(catalog.nics)) == repr(catalog.nics)
        assert again(catalog.case(nic_rate="200 Gb/s")).nic_rate == 25e9


def recomputed(part, *, bits=1.0):
    """Return signalled and encoded rate [B/s] from lanes, symbol rate, bits per symbol and coding."""
    data, sent = map(float, part["coding"].value.split("/"))
    signalled = part["lanes"].si * part["symbol_rate"].si * part["bits_per_symbol"].si * bits / 8
    return signalled, signalled * data / sent


CODED = [part for part in catalog.links.values() if "coding" in part]
# Rows of another source that tell the same rate: attribute, and the field of the part that it is multiplied by.
AGAIN = {
    "raw_bandwidth": 0,
    "x16_raw_bandwidth": 0,
    "bandwidth_after_encoding": 1,
    "4x_data_rate": 1,
    "bandwidth_per_gpu": 1,
    "station_bandwidth": 1,
}


@pytest.mark.parametrize("part", CODED, ids=lambda p: p.specs[0].id)
def test_law_derived_rates_follow_from_lanes_symbols_and_coding(part):
    rates = recomputed(part)
    assert (part["signalled"].si, part["encoded"].si) == pytest.approx(rates, rel=1e-6)
    assert part["encoded"].si <= part["signalled"].si
    if "achievable" in part:
        assert part["achievable"].si < part["encoded"].si
    for attribute, which in AGAIN.items():
        if (
            attribute in part
        ):  # PCIe 6 and 7 are rounded to whole GB/s by their source, FDR to four digits
            assert part[attribute].si == pytest.approx(rates[which], rel=1e-3), attribute
    if "lane_signalling" in part:
        assert part["lane_signalling"].si * part["lanes"].si == pytest.approx(rates[0], rel=1e-9)
    if "raw_signalling_per_link" in part:
        assert part["raw_signalling_per_link"].si * part["links_per_gpu"].si == pytest.approx(
            rates[0], rel=1e-9
        )
    assert recomputed(part, bits=2.0)[0] == 2 * rates[0]


def test_every_family_of_links_has_its_rates():
    coded = {part.specs[0].id for part in CODED}
    assert {f"pcie{n}" for n in range(3, 8)} | {f"nvlink{n}" for n in range(1, 6)} <= coded
    assert {f"ib-{n}" for n in ("sdr", "ddr", "qdr", "fdr", "edr", "hdr", "ndr", "xdr")} <= coded
    assert {f"cxl{n}" for n in ("1.1", "2.0", "3.0", "3.1", "3.2")} <= coded
    assert {
        "eth-100g",
        "eth-200g",
        "eth-400g",
        "eth-800g",
        "eth-1600g",
        "ualink200",
        "wigig",
    } <= coded
    assert {"nvlink-c2c", "xgmi-mi250x", "xgmi-mi300x", "xgmi-mi355x"} <= coded and len(coded) == 35
    assert [
        catalog.value("links", f"ici-tpu{n}", "encoded") / 1e9
        for n in ("4", "5e", "5p", "6e", "7x")
    ] == [270, 200, 600, 400, 600]
    for part in CODED:  # what a vendor quotes is the rate of data, or that of the wire; 802.11ad quotes another mode
        if (
            "quoted" in part
            and part["quoted"].si is not None
            and part is not catalog.links["wigig"]
        ):
            assert part["encoded"].si * 0.9999 <= part["quoted"].si <= part["signalled"].si, (
                part.label
            )


def test_energies_are_in_joules_and_a_cable_has_one_price():
    assert {s.unit for _, s in ALL if "J" in s.unit} == {"pJ/bit"}
    assert catalog.value("link_physics", "lr", "energy") == pytest.approx(5e-12)
    for cable, end in (("dac800", "copper"), ("acc800", "active"), ("aec800", "aec")):
        assert catalog.value("media", cable, "price") == 2 * catalog.value(
            "link_physics", end, "price"
        )


def test_tables_tell_one_rate_of_a_tpu():
    for n in ("4", "5e", "5p", "6e", "7x"):
        rate = catalog.value("links", f"ici-tpu{n}", "encoded")
        assert catalog.value("accelerators", f"tpu{n}", "scaleup_bandwidth") == rate, n


def test_what_others_tell_of_a_standard_is_no_standard():
    """A page, a press report or a proposal about a standard is literature, a vendor's note a datasheet."""
    told = [r for r in data_rows("sources") if r["kind"] == "standard"]
    press = re.compile(
        "Converge Digest|itwissen|true-telecom|[Pp]roposed|ad hoc|objectives|public course"
    )
    assert len(told) > 3 and not [r["key"] for r in told if press.search(r["citation"])]
    keys = [r["key"].lower() for r in data_rows("sources")]
    assert len(set(keys)) == len(keys)


def test_a_part_has_several_names():
    links = catalog.links
    assert links["PCIe 5.0"] is links["PCIe Gen5"] is links["pcie5"]
    assert (
        catalog.value("media", "OM3", "reach_max") == 30
        and catalog.value("media", "OM4", "reach_max") == 50
    )
    assert (
        catalog.media["2xFR4"] is catalog.media["fr4x2"]
        and catalog.media["2xDR4"] is catalog.media["dr4x2"]
    )
    assert links["NDR"] is links["ib-ndr"] is links["InfiniBand NDR"] is links["ndr"]
    assert (
        links["PCIe 5"] is links["pcie5"]
        and links["NVLink-4"] is links["nvlink4"]
        and links["400gbe"]["lanes"]
    )
    assert (
        catalog.value("links", "NDR", "4x_data_rate")
        == catalog.value("nics", "ConnectX-7", "throughput")
        == 50e9
    )
    for row in data_rows("aliases"):
        table = getattr(catalog, row["table"])
        assert row["alias"] not in table.keys() and table[row["alias"]] is table[row["id"]], row
    assert {"NDR", "nvlink4"} <= set(links._ipython_key_completions_())
    assert copy.deepcopy(links)["NDR"].name == "InfiniBand NDR"


def test_keys_are_completed_where_the_learner_types():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell(
        user_ns={"links": catalog.links}
    )
    assert "links['NDR" in shell.complete("links['ND")[1]


def test_search_tells_the_tables_that_have_every_word():
    found = catalog.search("retimer power")
    assert list(found) == ["media"] and {"aec800", "retimer-pcie6"} <= set(found["media"])
    assert all("power" in s.attribute or "power" in s.note for s in found["media"].specs)
    assert "ib-ndr" in catalog.search("ndr")["links"] and "cx7" in catalog.search("NDR")["nics"]


def test_compare_tells_rates_and_conventions_apart():
    both = catalog.links.compare("NDR", "nvlink4", "nvlink6")
    assert both.rates.tolist()[:2] == [
        [53.125e9, 50e9, pytest.approx(49.69e9, rel=1e-3)],
        [pytest.approx(478.125e9), 450e9, 376e9],
    ]
    head, ndr, nvlink, rubin = both.rows()
    assert head == ["part", "scope", "signalled", "encoded", "achievable", "quoted"]
    assert ndr[5] == "400 Gb/s each way (literature, IB-jp)" and nvlink[5].startswith(
        "900 GB/s both ways together"
    )
    assert nvlink[4] == "376 GB/s (measured, NCCL-1264)" and rubin[2] == "not published"
    assert both._repr_html_().count("<tr>") == 4 and "NVLink 4" in repr(both)


def test_scale_up_in_2026_is_one_table():
    table = catalog.scaleup.compare()
    head, *body = table.rows()
    assert {"max_accelerators", "semantics", "hop_latency", "status"} <= set(head) and len(
        body
    ) == 11
    for part in table.parts:
        assert part["semantics"].value.startswith(("memory", "messages"))
        assert any(
            word in part["status"].value
            for word in ("shipping", "announced", "production", "specification")
        )
        assert all(s.date for s in part.specs)
    assert catalog.scaleup["Kyber"]["status"].value == "announced for 2027"
    assert catalog.scaleup["NVL72"]["max_accelerators"].si == catalog.value(
        "systems", "nvl72", "gpus"
    )
    assert "<td>2026-06-04<td>A<td>" in catalog.scaleup._repr_html_()


def test_rows_that_were_looked_up_again():
    # docs.habana.ai: 21 ports of 200 Gb/s scale up, and all 24 would be 600 GB/s
    ports = catalog.value("nics", "gaudi3", "throughput_per_card") / 24
    assert catalog.value("accelerators", "gaudi3", "scaleup_bandwidth") == 21 * ports == 525e9
    # a Rubin GPU has two cards of 800 Gb/s
    cards = catalog.nics["ConnectX-9"]
    assert cards["throughput"].quoted == "800 Gb/s"
    assert cards["throughput_per_gpu"].si == 2 * cards["throughput"].si
    # switches with optics beside the chip
    assert catalog.value("switches", "th6-davisson", "capacity") == 12.8e12
    # NVIDIA no longer sells splitters of active copper to NICs
    assert catalog.media["acc800-split"]["status"].value.startswith("discontinued")


TRANSPORTS = ("infiniband", "rocev2", "EFA/SRD", "Spectrum-X")


def test_four_transports_are_compared_attribute_by_attribute():
    head, *rows = catalog.links.compare(*TRANSPORTS).rows()
    assert head[1:5] == ["flow_control", "addressing", "routing", "congestion_signal"]
    assert set(head[5:]) == {"ordering", "operations"}
    assert not [row for row in rows if "not published" in row]
    assert catalog.links["EFA"] is catalog.links["SRD"] is catalog.links["efa-srd"]
    efa, spectrum = catalog.links["EFA"], catalog.links["Spectrum-X"]
    assert "RDMA READ and RDMA WRITE" in efa["operations"].value
    assert efa["flow_control"].value.startswith("none")
    assert "pause" in spectrum["flow_control"].value and "packet" in spectrum["routing"].value


def test_training_with_gpt_neox_is_stored_as_its_slides_have_it():
    """Four jobs with two libraries: what the library gains is the same in samples as in FLOP/s."""
    jobs = {key: part for key, part in catalog.measured.items() if key.startswith("neox")}
    assert len(jobs) == 4 and sum(len(part.specs) for part in jobs.values()) == 16
    for key, part in jobs.items():
        samples = part["samples_rccl_own"].si / part["samples_rccl_6_1"].si
        flops = part["flops_rccl_own"].si / part["flops_rccl_6_1"].si
        assert samples == pytest.approx(flops, abs=0.004), key
        assert {spec.source for spec in part.specs} == {"ISC25-PCIe"}
    assert catalog.measured["neox-13b-zero1"]["samples_rccl_own"].si == 14.33
    assert catalog.measured["neox-13b-zero1"]["flops_rccl_own"].si == 199.8e12


def test_display_and_completion():
    assert {"links", "nics", "case", "value", "published"} <= set(dir(catalog))
    assert catalog.__getattr__("published").systems()
    assert list(catalog.links)[:2] == ["pcie3", "pcie4"]
    assert "bandwidth_per_gpu" in catalog.links["nvlink4"]
    assert repr(catalog.nics["cx7"]) == "<Part nics['cx7'] ConnectX-7: throughput>"
    assert "latency_LL" in repr(catalog.nccl_model["hw"])
    assert repr(catalog.nics).startswith("<Table nics: cx5, cx6, cx7")
    assert catalog.nics._repr_html_().count("<tr>") == 30
    assert "MLE-net" in catalog.nics["cx7"]._repr_html_()
    assert isinstance(pickle.loads(pickle.dumps(catalog.nics["cx7"]["throughput"])), Spec)
