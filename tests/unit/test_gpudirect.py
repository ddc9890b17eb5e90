"""Paths inside a server: by hand, laws, published figures, refusals, display."""

import errno as errnos
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import catalog, topologies
from fabriclab.errors import NoPath
from fabriclab.gpudirect import MECHANISMS, calls, misplaced, path, pcie_part, published, register
from support import ROOT
from support.prose import states

SERVERS = {
    name: topologies.build(name)
    for name in ("dgx1v", "dgx_a100", "dgx_h100", "mi300x", "pcie_8gpu", "gh200")
}
H100, PCIE8, A100 = SERVERS["dgx_h100"], SERVERS["pcie_8gpu"], SERVERS["dgx_a100"]
GEN5, GEN4, GEN3 = (
    catalog.value("links", f"pcie{g}", "bandwidth_after_encoding") for g in (5, 4, 3)
)


def over(p):
    return [m.over for m in p.moves]


# by hand: PCIe ------------------------------------------------------------------------------------------
def test_packets_by_hand():
    # a long write: each packet 256 B and 24 around it
    assert pcie_part("write") == 256 / (256 + 24)
    assert pcie_part("write", payload=64) == 64 / 88
    assert pcie_part("write", size=300) == 300 / (300 + 2 * 24)  # two packets, of 256 B and 44 B
    # A long read: two completions of 256 B for each request of 512 B, which one pair of answers of 8 B serves thrice.
    assert pcie_part("read") == pytest.approx(512 / (512 + 2 * 20 + 16 / 3))
    # Both ways: what comes is answered, and requests for what the other side reads go along.
    assert pcie_part("write", back="write") == pytest.approx(512 / (512 + 2 * 24 + 2 * 16 / 3))
    assert pcie_part("write", back="read", lanes=8) == pytest.approx(
        512 / (512 + 2 * 24 + 24 + 2 * 16 / 2.5)
    )


@given(
    st.sampled_from(["write", "read"]), st.integers(1, 10**6), st.sampled_from([64, 128, 256, 512])
)
def test_law_larger_packets_and_a_free_way_back_carry_more(kind, size, payload):
    one = pcie_part(kind, size=size, payload=payload)
    assert 0 < one < 1
    assert one <= pcie_part(kind, size=size, payload=2 * payload)
    for back in ("write", "read"):
        assert pcie_part(kind, size=size, payload=payload, back=back) < one


def test_packets_and_the_published_figures_of_pcie():
    """32 to 50 Gb/s of a NIC on eight lanes of PCIe 3, from 64 B to 1,500 B; NCCL's factor for Intel's packets."""
    low, high = map(
        float, str(catalog.memory_path["pcie-eff"]["usable_data_rate"].value).split("-")
    )
    for size, gbps in ((64, low), (1500, high)):
        assert GEN3 / 2 * 8e-9 * pcie_part(
            "write", size=size, lanes=8, back="read"
        ) == pytest.approx(gbps, rel=0.15)
    factor = pcie_part("write") / pcie_part("write", payload=64)
    assert factor == pytest.approx(
        catalog.value("memory_path", "intel-p2p", "overhead_factor"), rel=0.15
    )


# by hand: paths -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("server", "ends", "mechanism", "copies", "hops", "host"),
    [
        ("dgx_h100", ("gpu 0", "gpu 1"), "nvlink", 1, 2, 0),  # over a switch chip
        ("dgx1v", ("gpu 0", "gpu 3"), "nvlink", 1, 1, 0),
        ("pcie_8gpu", ("gpu 0", "gpu 1"), "peer", 1, 2, 0),  # one PCIe switch
        ("dgx_h100", ("gpu 0", "gpu 1"), "peer", 1, 4, 0),  # switch, root complex, switch
        ("dgx_h100", ("gpu 0", "gpu 7"), "peer", 1, 5, 0),  # both processors
        ("dgx_a100", ("gpu 0", "gpu 1"), "peer", 1, 2, 0),  # the ports of the graph are no parts
        ("dgx_h100", ("nic 0", "gpu 0"), "peer", 1, 2, 0),
        ("dgx_h100", ("nvme 0", "gpu 0"), "peer", 1, 2, 0),
        ("dgx_h100", ("gpu 0", "gpu 1"), "pinned", 2, 4, 2),
        (
            "dgx_h100",
            ("gpu 0", "gpu 1"),
            "pageable",
            4,
            6,
            6,
        ),  # in and out by DMA, and two copies of a core
        ("dgx_h100", ("cpu 0", "gpu 0"), "pageable", 2, 3, 3),
        ("dgx_h100", ("nvme 0", "gpu 0"), "pinned", 2, 4, 2),
        ("dgx_h100", ("cxl 0", "gpu 0"), "pinned", 1, 3, 1),
        ("dgx_h100", ("gpu 0", "cpu 0"), "cpu", 1, 2, 1),
        ("gh200", ("cpu 0", "gpu 0"), "pinned", 1, 1, 1),
    ],
)
def test_copies_hops_and_host_memory_by_hand(server, ends, mechanism, copies, hops, host):
    p = path(SERVERS[server], *ends, mechanism)
    assert (p.copies, p.hops, p.host_traffic) == (copies, hops, host)
    assert over(p)[0][0] == ends[0] and over(p)[-1][-1] == ends[1]


def test_eight_nics_through_bounce_buffers_ask_host_memory_for_more_than_it_has():
    """The figure of the lesson: 8 x 50 GB/s, both ways, each byte written to host memory and read from it."""
    nic = catalog.value("nics", "cx7", "throughput")
    asked = sum(
        path(H100, *ends, "pinned").host_traffic
        for ends in (("nic 0", "gpu 0"), ("gpu 0", "nic 0"))
    )
    assert 8 * nic * asked == 1.6e12
    assert all(path(H100, f"nic {i}", f"gpu {i}", "peer").host_traffic == 0 for i in range(8))


def test_rates_by_hand():
    whole, split = 256 / 280, 64 / 88
    assert path(PCIE8, "gpu 0", "gpu 1", "peer").rate == pytest.approx(GEN5 * whole)
    # Intel's root complex
    assert path(H100, "gpu 0", "gpu 1", "peer").rate == pytest.approx(GEN5 * split)
    # AMD's leaves packets whole
    assert path(A100, "gpu 0", "gpu 2", "peer").rate == pytest.approx(GEN4 * whole)
    assert path(A100, "gpu 0", "gpu 2", "peer", maker="intel").rate == pytest.approx(GEN4 * split)
    for far in ("gpu 7", "nic 7"):
        limit = catalog.value("memory_path", "upi-spr", "bandwidth")
        assert path(H100, "gpu 0", far, "peer").rate == limit
    assert path(H100, "nvme 0", "gpu 0", "peer").rate == pytest.approx(GEN5 / 4 * whole)
    kernel, engine = (path(H100, "gpu 0", "gpu 1", "nvlink", kernel=k).rate for k in (True, False))
    assert kernel == pytest.approx(
        catalog.value("links", "nvlink4", "nccl_effective_per_link") * 18
    )
    for ends, part in (
        (("gpu 0", "cpu 0"), 128 / (128 + 24)),
        (("cpu 0", "gpu 0"), 128 / (128 + 20 + 16 / 3)),
    ):
        # lines of 128 B
        assert path(H100, *ends, "pinned", kernel=True).rate == pytest.approx(GEN5 * part)
    ratio = kernel / catalog.value("links", "nvlink4", "bandwidth_per_gpu")
    assert engine / kernel == pytest.approx(2 / (1 + ratio))  # the same around twice the data


def test_an_iommu_sends_what_is_between_devices_to_the_root_complex_unless_devices_translate():
    direct, through, with_ats = (
        path(PCIE8, "gpu 0", "gpu 1", "peer", iommu=i) for i in ("off", "on", "ats")
    )
    assert over(through) == [("gpu 0", "pcie 0.0", "cpu 0.0", "pcie 0.0", "gpu 1")]
    assert with_ats == direct and through.rate < direct.rate
    # a miss, and two parts more
    assert through.latency - direct.latency == pytest.approx(330e-9 + 2 * 127.5e-9)
    host = [path(PCIE8, "cpu 0", "gpu 0", "pinned", iommu=i) for i in ("off", "on")]
    assert over(host[0]) == over(host[1]) and host[1].latency - host[0].latency == pytest.approx(
        330e-9
    )
    # as far, and no translation is missed
    redirected = path(PCIE8, "gpu 0", "gpu 1", "peer", acs=True)
    assert over(redirected) == over(
        through
    ) and through.latency - redirected.latency == pytest.approx(330e-9)
    assert path(PCIE8, "cpu 0", "gpu 0", "pinned", acs=True) == host[0]


def test_latency_is_a_sum_of_named_hops():
    gpu, switch, socket, memory = 0.8822e-6 / 2, 127.5e-9, 100e-9, 100e-9
    launch, post = 6e-6, 1e-6
    near, far = (path(H100, "gpu 0", f"gpu {i}", "peer").latency for i in (1, 7))
    assert near == pytest.approx(launch + 2 * gpu + 3 * switch)
    assert far - near == pytest.approx(switch + socket)
    write = switch + gpu
    # and a flush
    assert path(H100, "nic 0", "gpu 0", "peer").latency == pytest.approx(post + write + 2 * write)
    assert path(H100, "gpu 0", "nic 0", "peer").latency == pytest.approx(post + write)
    assert path(H100, "cxl 0", "gpu 0", "pinned").latency == pytest.approx(
        launch + gpu + 2 * switch + 3.5 * memory
    )
    # NCCL plans with 1 us for a step over PCIe, two GPUs under one switch
    step = path(PCIE8, "gpu 0", "gpu 1", "peer").moves[0].latency
    assert step == pytest.approx(
        catalog.value("nccl_model", "hw", "latency_LL", name="hwLat PCI Ring"), rel=0.15
    )


def test_loads_of_a_core_wait_and_stores_do_not():
    read, write = path(H100, "gpu 0", "cpu 0", "cpu"), path(H100, "cpu 0", "gpu 0", "cpu")
    # lines under way
    assert read.latency == 2 * write.latency and read.rate == pytest.approx(10 * 64 / read.latency)
    assert write.rate == pytest.approx(GEN5 * 64 / 88)
    by_engine = path(H100, "cpu 0", "gpu 0", "pinned")
    assert write.time(64) < by_engine.time(64) and write.time("64 MiB") > by_engine.time("64 MiB")


def test_without_its_kernel_module_a_nic_or_drive_falls_back():
    for ends in (("nic 0", "gpu 0"), ("gpu 0", "nic 0"), ("nvme 0", "gpu 0")):
        back = path(H100, *ends, "peer", module=False)
        assert back.moves == path(H100, *ends, "pinned").moves and "pinned host memory" in back.note
    assert path(H100, "gpu 0", "gpu 1", "peer", module=False) == path(
        H100, "gpu 0", "gpu 1", "peer"
    )


def test_a_flag_is_true_or_false_wherever_it_matters_not_too():
    with pytest.raises(TypeError, match="module must be True or False, got 'no'"):
        path(H100, "gpu 0", "gpu 1", "pinned", module="no")


def test_packets_are_those_of_the_device_that_copies():
    """A NIC and a core copy as they do without a kernel, and four lanes carry what their answers leave."""
    for ends, by in (
        (("nic 0", "gpu 0"), "peer"),
        (("nvme 0", "gpu 0"), "peer"),
        (("cpu 0", "gpu 0"), "cpu"),
    ):
        assert path(H100, *ends, by, kernel=True) == path(H100, *ends, by)
    first, second = path(H100, "gpu 0", "nic 0", "pinned", kernel=True).moves
    assert first.rate == pytest.approx(GEN5 * 128 / 152) and first.rate < second.rate
    for ends, kind in ((("nvme 0", "gpu 0"), "write"), (("gpu 0", "nvme 0"), "read")):
        for back in ("none", "write", "read"):
            part = pcie_part(kind, lanes=4, back=back)
            assert path(H100, *ends, "peer", back=back).rate == pytest.approx(GEN5 / 4 * part)


def test_chunks_pass_the_copies_as_a_pipeline_by_hand():
    p = path(H100, "gpu 0", "gpu 1", "pinned")
    (a, b), n = p.moves, 8 * 2**20
    assert p.time(n) == pytest.approx(
        a.issue + n / a.rate + b.issue + n / b.rate + a.latency + b.latency
    )
    first, second = (m.issue + 2**20 / m.rate for m in (a, b))
    assert p.time(n, "1 MiB") == pytest.approx(
        first + second + 7 * max(first, second) + a.latency + b.latency
    )
    # too small a chunk only starts copies
    assert p.time(n, "1 MiB") < p.time(n) and p.time(n, 4096) > p.time(n)
    assert p.time(100, "1 MiB") == p.time(100)


def test_cores_by_hand():
    rate, chunk = 50e9, 2**20
    assert path(H100, "gpu 0", "nic 0", "peer").cores(chunk) == pytest.approx(rate / chunk * 1e-6)
    assert path(H100, "gpu 0", "nic 0", "pinned").cores(chunk) == pytest.approx(rate / chunk * 7e-6)
    pageable = path(H100, "cpu 0", "gpu 0", "pageable").cores(chunk)
    assert pageable == pytest.approx(rate / 10e9 + rate / chunk * 6e-6)


# laws ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("server", SERVERS)
def test_laws_of_all_ends(server):
    f = SERVERS[server]
    ends = [f"{kind} {i}" for kind in ("gpu", "nic", "cpu", "nvme") for i in (0, 1)]
    for a, b in itertools.permutations(ends, 2):
        found = {}
        for mechanism in MECHANISMS:
            try:
                found[mechanism] = path(f, a, b, mechanism)
            except (ValueError, NoPath):
                continue
        assert set(found) >= {"pinned", "pageable"} or "gpu" not in (a[:3], b[:3])
        for p in found.values():
            assert (
                p.copies == len(over(p))
                and p.rate > 0
                and 0 < p.latency < p.time(1) < p.time("1 GiB")
            )
            assert p.time("1 GiB", "1 MiB") >= 2**30 / p.rate
        if {"peer", "pinned"} <= set(found):
            assert found["peer"].latency < found["pinned"].latency
            assert found["peer"].host_traffic == 0 < found["pinned"].host_traffic
        if {"pinned", "pageable"} <= set(found):
            assert found["pageable"].copies > found["pinned"].copies
            assert found["pageable"].rate <= found["pinned"].rate


# published ----------------------------------------------------------------------------------------------
ROWS = [(spec, model / spec.si - 1, why) for spec, model, why in published()]


def test_published_figures_are_met_within_15_percent_but_for_six_that_are_told():
    counted = [(spec, error) for spec, error, why in ROWS if not why]
    assert len(counted) == 37
    missed = {spec.id: round(error, 2) for spec, error in counted if abs(error) > 0.15}
    assert missed == {
        "p2p-pcie": -0.51,
        "h2d-h100-kernel": 0.49,
        "p2p-pcie4-far": 0.30,
        "p2p-pcie4-root": 1.91,
        "h2d-pcie4-both": 1.58,
        "p2p-a40-far": -0.21,
    }
    for told in missed.values():
        assert f"({told:+.0%}".replace("%", " %") in published.__doc__
    said = (ROOT / "README.md").read_text("utf-8")
    met = len(counted) - len(missed)
    here = next(part for part in said.split("\n\n") if "fl.gpudirect.published()" in part)
    states(here, str(len(counted)), str(met), str(len(missed)), "15 %")


def test_every_measured_figure_of_the_table_is_held_against_the_model():
    """None is left out but those that a model of another kind, or a rule of packets, is held against."""
    table = {
        (spec.id, spec.attribute) for spec in catalog.memory_path.specs if spec.kind == "measured"
    }
    elsewhere = {
        ("pcie-eff", "usable_data_rate"),
        ("cxl", "ratio_to_local"),
        ("gpu-bar", "round_trip"),
        ("staging", "chunk"),
    }
    assert table - elsewhere == {(spec.id, spec.attribute) for spec, *_ in ROWS} & table
    assert elsewhere <= table


def test_rows_that_set_a_constant_say_so():
    sets = [error for _, error, why in ROWS if why.startswith("sets")]
    assert len(sets) == 3 == sum(bool(why) for *_, why in ROWS) and all(
        abs(error) < 0.01 for error in sets
    )


# refusals -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: path(H100, "gpu 8", "gpu 0", "peer"), "end must be gpu 0 to gpu 7, got 'gpu 8'"),
        (lambda: path(H100, "gpu", "gpu 0", "peer"), "got 'gpu'"),
        (
            lambda: path(H100, "ram 0", "gpu 0", "peer"),
            "end must be one of gpu, nic, nvme, cpu, cxl, got 'ram'",
        ),
        (
            lambda: path(H100, "gpu 0", "gpu 0", "nvlink"),
            "two ends that 'nvlink' joins, got 'gpu 0' and 'gpu 0'",
        ),
        (lambda: path(H100, "cpu 0", "gpu 0", "nvlink"), "'nvlink' joins"),
        (lambda: path(H100, "nic 0", "nvme 0", "pinned"), "'pinned' joins"),
        (lambda: path(H100, "cpu 0", "gpu 0", "peer"), "'peer' joins, got 'cpu 0' and 'gpu 0'"),
        (lambda: path(H100, "cpu 0", "cpu 1", "pinned"), "'pinned' joins"),
        (
            lambda: path(H100, "gpu 0", "gpu 1", "p2p"),
            "mechanism must be one of nvlink, peer, pinned, pageable, cpu",
        ),
        (
            lambda: path(H100, "gpu 0", "gpu 1", "peer", maker="ibm"),
            "maker must be one of amd, arm, intel, got 'ibm'",
        ),
        (lambda: pcie_part("push"), "kind must be one of write, read, got 'push'"),
        (lambda: pcie_part("write", size=0), "size must be > 0 B, got 0"),
        (lambda: pcie_part(lanes=2), "lanes must be one of x4, x8, x16, got 'x2'"),
        (
            lambda: path(H100, "gpu 00", "gpu 0", "peer"),
            "two ends that 'peer' joins, got 'gpu 0' and 'gpu 0'",
        ),
        (
            lambda: path(H100, "gpu 0", "gpu 1", "nvlink", back="both"),
            "back must be one of none, write, read, got 'both'",
        ),
        (
            lambda: path(H100, "gpu 0", "cpu 0", "pinned", maker="ibm"),
            "maker must be one of amd, arm, intel, got 'ibm'",
        ),
        (lambda: path(H100, "gpu 0", "gpu 1", "pinned").time(8, 0), "chunk must be > 0 B, got 0"),
        (
            lambda: path(H100, "gpu 0", "gpu 1", "pinned").cores("0 B"),
            "chunk must be > 0 B, got '0 B'",
        ),
        (lambda: pcie_part("write", payload=32), "payload must be within 64..4096, got 32"),
        (
            lambda: path(H100, "gpu 0", "gpu 1", "peer", iommu=True),
            "iommu must be one of off, on, ats, got True",
        ),
        (lambda: calls("rdma"), "way must be one of peermem, dmabuf, cufile, got 'rdma'"),
        (
            lambda: misplaced("peermem", ["cuMemAlloc"]),
            "order must name each of cuMemAlloc, ibv_reg_mr, .* once, got cuM",
        ),
        (lambda: register("nvme"), "memory must be one of host, gpu, managed, got 'nvme'"),
        (
            lambda: register("gpu", "ibv_reg"),
            "call must be one of ibv_reg_mr, ibv_reg_dmabuf_mr, got 'ibv_reg'",
        ),
    ],
)
def test_refusals(ask, text):
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        ask()


def test_a_fabric_of_unknown_processors_is_asked_for_them():
    foreign = A100.shown_as("", family="mine")
    with pytest.raises(
        ValueError, match="maker must be one of amd, arm, intel, got '' for this fabric"
    ):
        path(foreign, "gpu 0", "gpu 2", "peer")
    assert path(foreign, "gpu 0", "gpu 2", "peer", maker="amd") == path(
        A100, "gpu 0", "gpu 2", "peer"
    )
    # crosses none
    assert path(foreign, "gpu 0", "gpu 1", "peer") == path(A100, "gpu 0", "gpu 1", "peer")
    with pytest.raises(ValueError, match=r"fabric must be .*got the family 'mine'"):
        path(foreign, "gpu 0", "gpu 1", "nvlink")
    with pytest.raises(NoPath, match=r"no path from gpu 0\.0 to gpu 0\.7"):
        # not joined, and a GPU lets nothing pass
        path(SERVERS["dgx1v"], "gpu 0", "gpu 7", "nvlink")
    with pytest.raises(NoPath, match=r"no path from gpu 0\.0 to nic 0\.0"):
        path(H100, "gpu 0", "nic 0", "nvlink")


# display ------------------------------------------------------------------------------------------------
def test_display():
    p = path(H100, "nic 0", "gpu 0", "pinned")
    assert repr(p) == "<Path: 2 copies, 4 hops, 57.6 GB/s, 7.90 µs, host memory 2 x>"
    assert repr(path(H100, "nic 0", "gpu 0", "peer")).startswith("<Path: 1 copy, 2 hops, ")
    assert p.draw().splitlines()[1:] == [
        "DMA: nic 0 - pcie 0.0 - cpu 0.0, 57.6 GB/s",
        "DMA: cpu 0.0 - pcie 0.0 - gpu 0, 57.9 GB/s",
    ]


def test_calls_stand_in_the_order_of_the_interfaces():
    order = [name for name, *_ in calls("cufile")]
    assert order[0] == "cuFileDriverOpen" and order[-1] == "cuFileDriverClose"
    for opens, closes in (("open", "close"), ("cuFileBufRegister", "cuFileBufDeregister")):
        assert order.index(opens) < order.index("cuFileRead") < order.index(closes)
    assert {"ibv_reg_dmabuf_mr"} == {n for n, *_ in calls("dmabuf")} & {
        "ibv_reg_dmabuf_mr",
        "ibv_reg_mr",
    }
    assert all(does for way in ("peermem", "dmabuf", "cufile") for _, does, _ in calls(way))


def test_what_stands_too_early_is_named_and_other_right_orders_are_right():
    for way in ("peermem", "dmabuf", "cufile"):
        order = [name for name, *_ in calls(way)]
        assert misplaced(way, order) == ()
        assert {call for call, _ in misplaced(way, order[::-1])} == {
            name for name, _, needs in calls(way) if needs
        }
    open_, driver, handle, buffer, read, *rest = order[1], order[0], *order[2:]
    assert misplaced("cufile", [open_, driver, buffer, handle, read, *rest]) == ()
    assert misplaced("cufile", [driver, open_, handle, read, buffer, *rest]) == ((read, buffer),)


def test_memory_is_registered_or_refused_as_the_call_refuses_it():
    assert "peermem" in register("gpu") and "DMA-BUF" in register("gpu", "ibv_reg_dmabuf_mr")
    assert register("host") == register("host", module=False)
    for ask, errno in (
        ({"memory": "gpu", "module": False}, "EFAULT"),
        ({"memory": "managed"}, "EFAULT"),
        ({"memory": "gpu", "call": "ibv_reg_dmabuf_mr", "module": False}, "EOPNOTSUPP"),
        ({"memory": "host", "call": "ibv_reg_dmabuf_mr"}, "EBADF"),
    ):
        with pytest.raises(OSError, match=r"memory: .*;") as refused:
            register(**ask)
        assert refused.value.errno == getattr(errnos, errno)


@pytest.mark.parametrize("name", ["gpu 3", "GPU3", "gpu3", "GPU 0.3", "gpu 0.3", "GPU/3"])
def test_an_end_in_any_spelling(name):
    assert path(H100, "NIC0", name, "Peer") == path(H100, "nic 0", "gpu 3", "peer")
    assert path(H100, "mlx5_0", name, "peer") == path(H100, "nic 0.0", "gpu 3", "peer")


def test_drives_and_memory_have_no_names_of_nodes():
    with pytest.raises(ValueError, match=r"end must be nvme 0 to nvme \d, got 'nvme 0\.3'"):
        path(H100, "nvme 0.3", "gpu 0", "peer")
