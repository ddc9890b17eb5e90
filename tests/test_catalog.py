"""Catalog: the tables of facts, their evidence and how they are looked up."""

import copy
import pickle

import pytest

from fabriclab import catalog
from fabriclab.catalog.tables import data_rows
from fabriclab.core.spec import Spec

TABLES = (
    "accelerators", "emerging", "link_physics", "links", "measured", "media", "memory_path", "nccl_model", "nics",
    "rdma", "reliability", "roadmap", "switches", "systems", "wireless60",
)  # fmt: skip
COLUMNS = "id,name,attribute,value,unit,direction,kind,source,date,confidence,licence,note".split(",")
ALL = [(t, s) for t in TABLES for s in getattr(catalog, t).specs]


def test_by_hand():
    part = catalog.links["nvlink4"]
    assert part["bandwidth_per_gpu"].value == 450
    assert part["bandwidth_per_gpu"].si == 450e9
    assert part.spec("bandwidth_per_gpu", direction="bidirectional_sum").value == 900
    assert part.spec("bandwidth_per_gpu", direction="bidirectional_sum").si == 450e9
    assert catalog.value("links", "nvlink4", "bandwidth_per_gpu") == 450e9
    assert catalog.value("nics", "cx7", "throughput") == 50e9
    assert catalog.value("nccl_model", "hw", "latency_Simple", name="hwLat NET Ring") == pytest.approx(14e-6)
    assert catalog.value("switches", "quantum2", "latency_port_to_port", source="Q2-yobi") == pytest.approx(330e-9)
    assert catalog.value("memory_path", "d2d", "bandwidth") == 396.4e9


def test_shape():
    assert catalog.tables() == TABLES
    counts = {t: len(getattr(catalog, t).specs) for t in TABLES}
    assert counts == {
        "accelerators": 107, "emerging": 64, "link_physics": 64, "links": 133, "measured": 57, "media": 24,
        "memory_path": 62, "nccl_model": 67, "nics": 27, "rdma": 24, "reliability": 21, "roadmap": 42, "switches": 87,
        "systems": 107, "wireless60": 20,
    }  # fmt: skip
    assert all(list(row) == COLUMNS for t in TABLES for row in data_rows(t))
    assert catalog.links is catalog.links


@pytest.mark.parametrize(("table", "spec"), ALL, ids=lambda x: x if isinstance(x, str) else f"{x.id}.{x.attribute}")
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
    if table == "measured" or (table == "memory_path" and spec.source == "MLE-net"):
        assert spec.kind == "measured"
    else:
        assert spec.kind == (known[named[0]]["kind"] if named else "estimate")
    if "memory" in keys:
        assert "from memory, not confirmed" in spec.note
    assert ("not confirmed" in repr(spec)) == ("not confirmed" in spec._repr_html_().split("<td>")[5]) == (
        spec.confidence == "C" or "memory" in keys)  # fmt: skip


def test_law_a_sum_is_twice_its_direction():
    pairs = 0
    for table in TABLES:
        for part in getattr(catalog, table).values():
            for both in part.specs:
                ones = [s for s in part.specs if (s.attribute, s.direction) == (both.attribute, "per_direction")]
                if both.direction == "bidirectional_sum" and len(ones) == 1:
                    assert both.si == pytest.approx(ones[0].si, rel=0.02)
                    pairs += 1
    assert pairs == 6  # five NVLinks, and one measured copy


def test_sources():
    known = catalog.sources()
    assert "nccl-tests" in known["NCCL-tests"].lower()
    assert catalog.cite("MLE-acc+MLE-net") == f"{known['MLE-acc']}; {known['MLE-net']}"
    assert len(known) == len(data_rows("sources"))
    words = ("Meta report details hundreds of", "datacenterdynamics.com/en/news/meta-report", "seen 2026-11-21")
    assert all(word in catalog.cite("Llama3-DCD") for word in words)
    for row in data_rows("sources"):  # each says when, unless it is no source at all
        assert (row["date"] in known[row["key"]]) == (row["key"] not in ("memory", "derived", "FEC-pcisig")), row
    assert known["Llama3-paper"].endswith("configuration), 2024-07") and known["MLE-net"].count("2026-08-22") == 1
    with pytest.raises(KeyError, match=r"has no 'MLE-nett'; did you mean 'MLE-net'"):
        catalog.cite("MLE-acc+MLE-nett")


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda: catalog.links["nvlnk4"], KeyError, "catalog.links has no 'nvlnk4'; did you mean 'nvlink4'"),
        (lambda: catalog.links["nvlink4"]["bandwith_per_gpu"], KeyError, "did you mean 'bandwidth_per_gpu'"),
        (lambda: catalog.value("linkz", "nvlink4", "x"), KeyError, "the catalog has no 'linkz'; did you mean 'links'"),
        (lambda: catalog.value("links", "nvlink4", "zzz"), KeyError, "it has bandwidth_per_gpu, bandwidth_per_link"),
        (lambda: catalog.value("switches", "quantum2", "latency_port_to_port"), KeyError, "2 rows.*330 ns.*Q2-rs"),
        (lambda: catalog.nccl_model["hw"]["latency_LL"], KeyError, "6 rows.*hwLat NET Ring"),
        (lambda: catalog.value("nics", "cx7", "throughput", source="x"), KeyError, "0 rows.*'source': 'x'.*400 Gb/s"),
        (lambda: catalog.value("links", "nvlink4", "bandwidth_per_gpu", foo=1), KeyError, "a row has no 'foo'; it has"),
        (lambda: catalog.value("links", "nvlink4", "bandwidth_per_gpu", sorce="x"), KeyError, "did you mean 'source'"),
        (lambda: catalog.links["x"], KeyError, r"has no 'x'; it has \S+(, \S+){7}, ... \d+ in all"),
        (lambda: catalog.value("links", "pcie5", "signalling_rate"), ValueError, "'32 GT/s per lane', which has no SI"),
        (lambda: catalog.value("media", "dr8", "power"), ValueError, "'14-18 W', which has no SI value"),
        (lambda: catalog.nic, AttributeError, "fabriclab.catalog has no 'nic'; did you mean 'nics'"),
    ],
)  # fmt: skip
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
    with pytest.raises(TypeError, match="this mapping is read-only"):
        change()
    assert not hasattr(data_rows("sources"), "append")
    assert catalog.case().servers == 128 and catalog.value("links", "nvlink4", "bandwidth_per_gpu") == 450e9


def test_tables_and_the_case_are_copied_and_pickled():
    for again in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        assert again(catalog.links)["nvlink4"].spec("bandwidth_per_gpu").si == 450e9
        assert repr(again(catalog.nics)) == repr(catalog.nics)
        assert again(catalog.case(nic_rate="200 Gb/s")).nic_rate == 25e9


def test_display_and_completion():
    assert {"links", "nics", "case", "value", "published"} <= set(dir(catalog))
    assert catalog.__getattr__("published").systems()
    assert list(catalog.links)[:2] == ["pcie3", "pcie4"]
    assert "bandwidth_per_gpu" in catalog.links["nvlink4"]
    assert repr(catalog.nics["cx7"]) == "<Part nics['cx7'] ConnectX-7: throughput>"
    assert "latency_LL" in repr(catalog.nccl_model["hw"])
    assert repr(catalog.nics).startswith("<Table nics: cx5, cx6, cx7")
    assert catalog.nics._repr_html_().count("<tr>") == 28
    assert "MLE-net" in catalog.nics["cx7"]._repr_html_()
    assert isinstance(pickle.loads(pickle.dumps(catalog.nics["cx7"]["throughput"])), Spec)
