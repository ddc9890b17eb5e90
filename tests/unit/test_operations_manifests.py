"""Manifests and logs of counters: what is missing and on which line, what was understood, and what was skipped."""

import re

import pytest

from fabriclab import operations
from fabriclab.errors import FileFormat
from fabriclab.operations import check_manifests, example_manifest, read_counters, read_telemetry
from fabriclab.operations.yaml_nodes import read_documents

GOOD = example_manifest()
NETWORKS = "k8s.v1.cni.cncf.io/networks"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"


def line_with(text, part, nth=1):
    """Return the number of the line on which a part stands for the nth time."""
    hits = [i for i, line in enumerate(text.splitlines(), 1) if part in line]
    return hits[nth - 1]


# pods ---------------------------------------------------------------------------------------------
def test_the_example_has_all_it_needs():
    report = check_manifests(GOOD)
    assert report.ok and report.findings == () and report.skipped == ()
    assert (report.pods, report.ways) == (("Pod trainer",), ("SR-IOV",))
    assert report.attachments[0].plugins == ("ib-sriov", "rdma")


MISTAKES = [
    # what is changed; on which part of the changed text the finding stands; its grade and a word of it
    ((f"    {NETWORKS}: rail-0\n", ""), ("  annotations:", 2), "missing", "rail_0"),
    ((NETWORKS, NETWORKS[:-1]), (NETWORKS[:-1], 1), "missing", "nobody reads it"),
    ((f"{NETWORKS}: rail-0", f"{NETWORKS}: rail-1"), (NETWORKS, 1), "wrong", "not defined"),
    (
        (f"{NETWORKS}: rail-0", f"{NETWORKS}: other/rail-0"),
        (NETWORKS, 1),
        "wrong",
        "is in namespace default",
    ),
    (
        ("          nvidia.com/rail_0: 1\n        requests", "        requests"),
        ("nvidia.com/rail_0: 1", 1),
        "missing",
        "in requests and not in limits",
    ),
    (
        ("nvidia.com/rail_0: 1\n      sec", "nvidia.com/rail_0: 2\n      sec"),
        ("rail_0: 2", 1),
        "wrong",
        "in limits",
    ),
    (("nvidia.com/rail_0: 1", "nvidia.com/rail_1: 1"), ("limits:", 1), "missing", "needs a device"),
    (
        ("nvidia.com/rail_0: 1", "nvidia.com/rail_0: one"),
        ("rail_0: one", 1),
        "wrong",
        "whole number",
    ),
    (('add: ["IPC_LOCK"]', 'add: ["NET_RAW"]'), ("NET_RAW", 1), "missing", "IPC_LOCK"),
    ((f"    {RESOURCE}: nvidia.com/rail_0\n", ""), ("annotations:", 1), "missing", RESOURCE),
    ((RESOURCE, "k8s.v1.cni.cncf.io/resourcename"), ("resourcename", 1), "missing", "misspelt"),
    (('{"type": "rdma"}', '{"type": "rdma"'), ("      ]", 1), "wrong", "no JSON"),
    (('"type": "ib-sriov"', '"kind": "ib-sriov"'), ("config:", 1), "check", "none is known"),
]


@pytest.mark.parametrize(("change", "at", "grade", "word"), MISTAKES)
def test_a_mistake_is_found_on_its_line(change, at, grade, word):
    text = GOOD.replace(*change)
    assert text != GOOD
    found = [
        f
        for f in check_manifests(text).findings
        if f.grade == grade and word in f"{f.where} {f.what}"
    ]
    assert found, check_manifests(text)
    assert found[0].line == line_with(text, *at)
    assert check_manifests(text).ok == (grade == "check")


def test_ethernet_and_infiniband_are_not_mixed_up():
    plain = GOOD[: GOOD.index("---")]
    body = plain[: plain.index("  config:")]

    def findings(config):
        return [f.what for f in check_manifests(f"{body}  config: '{config}'\n").findings]

    assert any("no VLANs" in w for w in findings('{"type": "ib-sriov", "vlan": 5}'))
    assert any(
        "no partition keys" in w for w in findings('{"type": "sriov", "pkey": "0x5", "ipam": {}}')
    )
    assert any("no GID" in w for w in findings('{"type": "sriov"}'))
    assert any(
        "link_state must be" in w for w in findings('{"type": "ib-sriov", "link_state": "up"}')
    )
    assert any("names no type" in w for w in findings('{"name": "x"}'))
    assert any("must be an object" in w for w in findings("[1]"))
    assert findings('{"type": "ib-sriov", "pkey": "0x5"}') == []


def test_three_ways_to_a_device():
    pod = GOOD[GOOD.index("---") + 4 :]
    shared = pod.replace(f"    {NETWORKS}: rail-0\n", "    a: b\n").replace(
        "nvidia.com/rail_0", "rdma/hca"
    )
    assert check_manifests(shared).ways == ("shared device",)
    assert check_manifests(shared).ok
    none = re.sub(r" +rdma/hca: 1\n", "", shared)
    report = check_manifests(none)
    assert report.ways == ("no RDMA",) and not report.ok
    assert "over TCP" in report.findings[0].what
    host = none.replace("spec:", "spec:\n  hostNetwork: true")
    assert check_manifests(host).ways == ("host networking",)
    assert any("/dev/infiniband" in f.what for f in check_manifests(host).findings)
    both = pod.replace("spec:", "spec:\n  hostNetwork: true")
    assert any("Multus attaches no network" in f.what for f in check_manifests(both).findings)
    inside = "kind: Job\nmetadata:\n  name: j\nspec:\n  template:\n" + "\n".join(
        f"    {line}" for line in shared.splitlines()[2:]
    )
    assert check_manifests(inside).pods == ("Job j",)
    assert check_manifests(inside).ways == ("shared device",)


def test_gpus_without_a_nic_of_their_own_are_noted():
    eight = GOOD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 8").replace(
        "mountPath: /dev/shm", "mountPath: /x"
    )
    report = check_manifests(eight)
    assert report.ok
    assert [f.grade for f in report.findings] == ["check", "check"]
    assert {"64 MiB" in f.what or "share NICs" in f.what for f in report.findings} == {True}


def test_what_is_not_understood_is_named():
    text = GOOD.replace("      image: ", "\timage: ").replace(
        "      volumeMounts:", "      &anchor x"
    )
    report = check_manifests(text + "---\nkind: Service\n")
    assert [s.line for s in report.skipped][:1] == [line_with(text, "\timage")]
    assert any("anchor" in str(s) or "neither" in str(s) for s in report.skipped)
    assert not report.ok
    assert "Service on line" in report.ignored[0]
    assert "skipped" in str(report)


@pytest.mark.parametrize(
    "text", ["\n", "kind: Service\nmetadata: {}\n", "just words\nand more\n", "- 1\n- 2\n"]
)
def test_a_text_without_pods_is_refused(text):
    with pytest.raises(FileFormat, match="must hold a Pod or a NetworkAttachmentDefinition"):
        check_manifests(text)


def test_the_same_key_twice_keeps_the_first():
    documents, skipped = read_documents(["a: 1", "b: 2", "a: 3"])
    assert documents[0].plain() == {"a": 1, "b": 2}
    assert skipped[0].line == 3 and "line 1 already" in skipped[0].why


def test_a_value_that_is_given_up_takes_no_line_with_it():
    documents, skipped = read_documents(
        ["a: [1,", "b: 2", "c: 'x", "d: 3", "e:", "  - {x: 1", "  - 5", "f: 1\x01"]
    )
    assert documents[0].plain() == {"b": 2, "d": 3, "e": [5]}
    assert [s.line for s in skipped] == [1, 3, 6, 8]
    for skip, word in zip(skipped, ("sequence", "quoted", "mapping", "characters"), strict=True):
        assert word in skip.why


def test_values_are_those_of_kubernetes_and_stand_on_their_lines():
    text = "a: yes\nb: 2026-01-01\nc: 0x10\nd:\n- 1.5\n- e: |\n    x\n\n  f: 'it''s'\n---\n~\n--- # two\n[g]\n"
    documents, skipped = read_documents(text.splitlines())
    assert skipped == []
    values = {"a": "yes", "b": "2026-01-01", "c": 16, "d": [1.5, {"e": "x\n", "f": "it's"}]}
    assert [document.plain() for document in documents] == [values, ["g"]]
    first, second = documents
    assert (first.line, first.get("d").line, first.get("c").line, second.line) == (1, 4, 3, 13)
    item = first.get("d").items[1]
    assert (item.line, item.get("e").line, item.get("f").line) == (6, 6, 9)
    assert item.get("e").keeps_lines and not item.get("f").keeps_lines


def test_an_alias_is_the_value_that_it_names_even_of_itself():
    documents, skipped = read_documents(["a: &x {b: 1}", "c: *x", "d: &y [*y]", "? [1]", ": 2"])
    assert documents[0].get("c") is documents[0].get("a")
    assert documents[0].get("d").items[0] is documents[0].get("d")
    assert [s.line for s in skipped] == [4]


def test_what_is_no_yaml_at_all_is_refused():
    with pytest.raises(
        FileFormat, match="more than 50 lines cannot be read, the first of them: line 1"
    ):
        read_documents(["@"] * 60)
    documents, skipped = read_documents(["[" * 5000])
    assert documents == [] and "nested too deep" in skipped[0].why


def test_two_networks_need_two_devices():
    text = GOOD.replace(f"{NETWORKS}: rail-0", f"{NETWORKS}: rail-0, default/rail-0@net2")
    found = check_manifests(text).findings
    assert [(f.grade, f.line) for f in found] == [("wrong", line_with(text, "limits:"))]
    assert "containers ask for 1" in found[0].what and "nvidia.com/rail_0: 2" in found[0].fix
    enough = text.replace("nvidia.com/rail_0: 1", "nvidia.com/rail_0: 2")
    assert check_manifests(enough).ok
    more = GOOD.replace("nvidia.com/rail_0: 1", "nvidia.com/rail_0: 3")
    assert [f.grade for f in check_manifests(more).findings] == ["check"]


# counters -----------------------------------------------------------------------------------------
LOG = """\
# Port counters: Lid 5 port 1 (CapMask: 0x5300)
PortSelect:......................1
CounterSelect:...................0x0000
SymbolErrorCounter:..............65535
PortXmitDiscards:................3
PortXmitWa
NIC statistics for eth2:
     rx_prio3_pause: 14
     rx_symbol_err_phy: 1,831
     rx_discards_phy: 2
     tx_discards_phy: 5
# TYPE node_infiniband_symbol_error_total counter
node_infiniband_symbol_error_total{device="mlx5_0",port="1"} 7
node_infiniband_symbol_error_total{port="1"} 9
some text between
"""


def test_counters_of_three_tools_in_one_log():
    log = read_counters(LOG)
    assert log.of("symbol_errors") == {"lid 5 port 1": 65535, "mlx5_0 1": 7}
    assert log.of("discards") == {"lid 5 port 1": 3, "eth2": 7}
    assert log.of("pauses") == {"eth2": 14}
    assert [s.line for s in log.skipped] == [6, 9, 14, 15]
    assert "must be a number" in log.skipped[1].why and "no device" in log.skipped[2].why
    assert [w.line for w in log.warnings] == [4] and "stopped" in log.warnings[0].warning
    assert "6 of 10 lines" in str(log)


def test_a_counter_before_any_header_is_skipped():
    log = read_counters("rx_prio3_pause: 3\nNIC statistics:\n rx_prio3_pause: 4\n")
    assert log.of("pauses") == {"interface": 4}
    assert "no header" in log.skipped[0].why
    with pytest.raises(FileFormat, match=r"no counter was understood; .*line 1 skipped"):
        read_counters("nothing\nhere\n")


SERIES = """\
time,link,counter,value
30,a -> b,pauses,12
30,a -> c,pauses,7
60,a -> b,pauses,13
60,a -> b,pauses,14
60,a -> c,pause,14
90,a -> b,pauses,-1
90,a -> b,pauses
x,a -> b,pauses,1
90,a -> c,pauses,nan
90,a -> b,temperature,44.5
"""


def test_a_torn_series_is_read_as_far_as_it_goes():
    read = read_telemetry(SERIES)
    assert read.understood == 4
    assert [s.line for s in read.skipped] == [5, 6, 7, 8, 9, 10]
    assert read.telemetry.names == ("a -> b", "a -> c")
    assert read.telemetry.values["pauses"][:2, 0].tolist() == [12, 13]
    assert read.missing == {"pauses": 3, "temperature": 5}
    for word in ("already", "must be one of", "cells", "time must be"):
        assert word in str(read)
    with pytest.raises(FileFormat, match="line 1 must be time,link,counter,value"):
        read_telemetry("a,b\n1,2\n")
    with pytest.raises(FileFormat, match="no line was understood"):
        read_telemetry("time,link,counter,value\n1,2\n")


def test_telemetry_survives_its_own_text():
    from fabriclab import topologies

    hall = topologies.build("leaf_spine", hosts=16, radix=8)
    seen = operations.observe(
        hall, [operations.Cause("bad module", "leaf 0 -> spine 1")], samples=8
    )
    again = read_telemetry(seen.text())
    assert not again.skipped
    for counter, values in seen.values.items():
        assert again.telemetry.values[counter] == pytest.approx(values)
    assert again.telemetry.names == seen.names


@pytest.mark.parametrize("text", ["\t", "\n\t\n", " \n\t "])
def test_a_text_of_tabs_has_no_documents(text):
    documents, skipped = read_documents(text.split("\n"))
    assert documents == [] and len(skipped) == 1
