"""Classes of nvidia-smi topo -m, off fabrics and off its output in its versions; ibv_devinfo and rdma link."""

import pytest

from fabriclab import system, topologies
from fabriclab.errors import FileFormat
from fabriclab.gpudirect import path, read_ibv_devinfo, read_rdma_link, read_topo, topo

# Layouts as printed by: a driver of 2017 (kubernetes#53497, but its classes as before 2018), 2019 (nccl#243, tabs),
# 2021 (ucx#6327), 2024 (club-3090#1229, two tabs before the last column; flux#14, styles of a terminal) and
# a GH200 (nvbandwidth#23, rows of NICs that end in tabs). The machines are smaller than those.
OLD = """\
        GPU0    GPU1    GPU2    mlx4_0  CPU Affinity
GPU0     X      PIX     SOC     PHB     0-9,20-29
GPU1    PIX      X      SOC     PHB     0-9,20-29
GPU2    SOC     SOC      X      SOC     10-19,30-39
mlx4_0  PHB     PHB     SOC      X

Legend:

  X   = Self
  SOC = Path traverses a socket-level link (e.g. QPI)
"""
TABS = """\
 \tGPU0\tGPU1\tmlx5_1\tmlx5_0\tCPU Affinity
GPU0\t X \tPIX\tSYS\tNODE\t0-13,28-41
GPU1\tPIX\t X \tSYS\tNODE\t0-13,28-41
mlx5_1\tSYS\tSYS\t X \tSYS\t
mlx5_0\tNODE\tNODE\tSYS\t X \t
"""
NICS = """\
node7$ nvidia-smi topo -m
\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPXB\t48-95,144-191\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_0
"""
GH200 = """\
        GPU0\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tSYS\tSYS\t0-71\t0\t\t1
NIC0\tSYS\t X \tPIX\t\t\t\t
NIC1\tSYS\tPIX\t X \t
"""


def test_versions_by_hand():
    old, tabs, nics, gh200 = map(read_topo, (OLD, TABS, NICS, GH200))
    assert old.names == ("GPU0", "GPU1", "GPU2", "mlx4_0") and old.relation("GPU0", "GPU2") == "SYS"
    assert old.relation("GPU1", "mlx4_0") == "PHB"
    assert tabs.nearest("GPU0") == ("mlx5_0",)
    assert nics.relation("GPU0", "GPU1") == "NV18" and nics.nearest("GPU1") == ("NIC1",)
    assert nics.devices == {"NIC0": "mlx5_0", "NIC1": "mlx5_bond_0"}
    assert gh200.names == ("GPU0", "NIC0", "NIC1") and gh200.nearest("GPU0") == ("NIC0", "NIC1")


def test_a_file_is_read_too(tmp_path):
    (tmp_path / "topo.txt").write_text(NICS)
    assert read_topo(tmp_path / "topo.txt") == read_topo(NICS)


def test_fabrics_by_hand():
    h100, a100, v100 = (topo(topologies.build(name)) for name in ("dgx_h100", "dgx_a100", "dgx1v"))
    assert [h100.relation("GPU0", n) for n in ("GPU0", "GPU7", "NIC0", "NIC3", "NIC4")] == [
        "X",
        "NV18",
        "PIX",
        "NODE",
        "SYS",
    ]
    assert a100.nearest("GPU2") == ("NIC2", "NIC3") and a100.relation("GPU0", "GPU1") == "NV12"
    # microsoft/msccl-tools, the matrix of a DGX-1V
    assert [v100.relation("GPU0", f"GPU{i}") for i in range(8)] == [
        "X",
        "NV1",
        "NV1",
        "NV2",
        "NV2",
        *["SYS"] * 3,
    ]
    assert [v100.relation("GPU0", f"NIC{i}") for i in range(4)] == ["PIX", "PHB", "SYS", "SYS"]
    pcie = topo(topologies.build("pcie_8gpu"))
    assert (pcie.relation("GPU0", "GPU3"), pcie.relation("GPU0", "GPU4")) == ("PIX", "SYS")
    assert topo(topologies.build("gh200")).relation("GPU0", "NIC0") == "SYS"  # as in GH200 above
    assert len(topo(topologies.build("nvl72", gpus=8)).names) == 8  # one tray
    foreign = topologies.build("dgx_h100").shown_as("", family="mine")
    assert topo(foreign).cells == h100.cells  # whose processors there are does not matter here


@pytest.mark.parametrize(
    "name", ["dgx1v", "dgx_a100", "dgx_h100", "pcie_8gpu", "gh200", "gb200", "mi300x"]
)
def test_law_what_a_fabric_prints_is_read_back(name):
    ours = topo(topologies.build(name))
    back = read_topo(str(ours))
    assert (back.names, back.cells) == (ours.names, ours.cells)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Failed to initialize NVML\nDriver mismatch\n", "it holds none"),
        (
            OLD.replace("SOC     PHB     0-9,20-29\nGPU1", "SOC\nGPU1"),
            "line 2: the row of GPU0 .* 4 names, got X PIX SOC;",
        ),
        (
            OLD.replace("PIX     SOC", "P1X     SOC", 1),
            "line 2: the row of GPU0 .* got X P1X SOC PHB;",
        ),
        (NICS.replace("NIC1\tSYS", "NIC2\tSYS"), "the rows of NIC1 are missing"),
        (
            NICS.replace("GPU1\tNV18\t X", "GPU1\tNV18\tPIX"),
            "GPU1 and GPU1 must have one class, X .* got PIX and PIX",
        ),
        (TABS.replace("PIX", " X "), "GPU0 and GPU1 must have one class, X .* got X and X"),
        ("", "it holds none"),
        (NICS.replace("GPU0\t X \tNV18", "GPU0\t X \tNV12"), "GPU0 and GPU1 must have one class"),
    ],
)
def test_broken_matrices_are_refused(text, error):
    with pytest.raises(FileFormat, match=error):
        read_topo(text)


def test_a_fabric_without_servers_has_no_matrix():
    with pytest.raises(ValueError, match=r"kind must be one of .*, got 'gpu'"):
        topo(topologies.build("torus", shape=(2, 2)))


def test_a_wrong_name_is_answered_with_the_names():
    with pytest.raises(
        ValueError, match="name must be one of GPU0, GPU1, NIC0, NIC1, got 'mlx5_7'"
    ):
        read_topo(NICS).relation("GPU0", "mlx5_7")


def test_parts_in_other_spellings():
    plain = read_topo(NICS)
    assert plain.relation("gpu 0", "nic0") == plain.relation("GPU0", "NIC0") == "PIX"
    assert plain.relation("GPU/1", "NIC 1") == plain.relation("GPU1", "NIC1")
    named = read_topo(NICS + "\n  NIC0: mlx5_2\n  NIC1: mlx5_0\n")
    assert named.devices == {"NIC0": "mlx5_2", "NIC1": "mlx5_0"}
    assert named.relation("GPU0", "mlx5_2") == named.relation("GPU0", "NIC0")
    assert named.relation("GPU0", "MLX5_0:1") == named.relation("GPU0", "NIC1")


# RDMA devices: layouts of DeepEP#60 (plain), of ompi#6137 (-v, tabs) and of ompi#9087 (indents lost) ------------
PLAIN = """\
hca_id: mlx5_12
        transport:                      InfiniBand (0)
        fw_ver:                         22.38.1900
        vendor_part_id:                 4125
        phys_port_cnt:                  2
                port:   1
                        state:                  PORT_DOWN (1)
                        active_mtu:             1024 (3)
                        link_layer:             Ethernet
                port:   2
                        state:                  PORT_ACTIVE (4)
                        active_mtu:             4096 (5)
                        link_layer:             Ethernet

hca_id: mlx5_13
        transport:                      InfiniBand (0)
        fw_ver:                         28.39.2048
        vendor_part_id:                 4129
        phys_port_cnt:                  1
                port:   1
                        state:                  PORT_ACTIVE (4)
                        link_layer:             InfiniBand
"""
VERBOSE = """\
hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tdevice_cap_flags:\t\t0xe5721c36
\t\t\t\t\tBAD_PKEY_CNTR
\t\t\t\t\tUnknown flags: 0xe5620000
\tmax_qp:\t\t\t\t262144
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t25.0 Gbps (32)
\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:ec0d:9a03:007d:7d1b
"""


def test_ibv_devinfo_by_hand():
    down, up, other = read_ibv_devinfo(PLAIN)
    assert [(p.device, p.port, p.state, p.link_layer) for p in (down, up, other)] == [
        ("mlx5_12", 1, "DOWN", "Ethernet"),
        ("mlx5_12", 2, "ACTIVE", "Ethernet"),
        ("mlx5_13", 1, "ACTIVE", "InfiniBand"),
    ]
    assert up.facts["active_mtu"] == "4096 (5)" and up.facts["fw_ver"] == "22.38.1900"
    # only the link layer tells RoCE
    assert up.facts["transport"] == other.facts["transport"] == "InfiniBand (0)"
    assert up.rate is None and other.facts["vendor_part_id"] == "4129"
    (port,) = read_ibv_devinfo(VERBOSE)
    assert port.rate == 4 * 25e9 / 8 and port.facts["max_qp"] == "262144"
    bare = "\n".join(line.strip() for line in VERBOSE.splitlines())
    assert read_ibv_devinfo(bare) == (port,)


def test_a_speed_that_the_device_does_not_know_is_no_rate():
    (port,) = read_ibv_devinfo(VERBOSE.replace("25.0 Gbps (32)", "invalid speed (0)"))
    assert port.rate is None and port.facts["active_speed"] == "invalid speed (0)"


def test_rdma_link_by_hand():
    new = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev p1p1 \nlink rxe_0/1 state DOWN netdev p1p2\n"
    old = (
        "1/1: mlx5_0/1: subnet_prefix fe80:0000:0000:0000 lid 13399 sm_lid 49151 lmc 0 state ACTIVE "
        "physical_state LINK_UP\n"
    )
    first, second = read_rdma_link(new)
    assert (first.device, first.port, first.state, first.netdev) == ("mlx5_0", 1, "ACTIVE", "p1p1")
    assert (second.device, second.state, second.netdev, second.rate) == (
        "rxe_0",
        "DOWN",
        "p1p2",
        None,
    )
    (port,) = read_rdma_link(old)
    assert (port.device, port.port, port.state, port.facts["lid"]) == (
        "mlx5_0",
        1,
        "ACTIVE",
        "13399",
    )


@pytest.mark.parametrize("read", [read_topo, read_ibv_devinfo, read_rdma_link])
@pytest.mark.parametrize("source", ["hello", "no/such/file.txt", "x" * 5000])
def test_a_source_that_is_neither_a_file_nor_a_text_is_refused(read, source):
    with pytest.raises(FileFormat, match="there is no such file"):
        read(source)


@pytest.mark.parametrize("read", [read_topo, read_ibv_devinfo, read_rdma_link])
def test_a_file_of_another_kind_is_refused(read, tmp_path):
    file = tmp_path / "hello"
    file.write_text("hello\n")
    for source in (file, str(file)):
        with pytest.raises(FileFormat, match="the text must hold"):
            read(source)


def test_a_matrix_shows_itself_in_a_line_and_as_a_table():
    assert (
        repr(read_topo(NICS)) == "<Topology: 2 GPUs, 2 NICs; GPU to GPU NV18; nearest NIC PIX, PXB>"
    )
    assert repr(topo(topologies.build("dgx_h100"))).count("NV18") == 1
    assert "<th scope=row>NIC1 mlx5_bond_0" in read_topo(NICS)._repr_html_()


def test_a_matrix_has_paths_without_rates():
    seen = read_topo(NICS)
    near = path(seen, "gpu 0", "mlx5_0", "peer")
    assert (near.source, near.target, near.relation, near.copies) == ("GPU0", "NIC0", "PIX", 1)
    assert near.parts == ("GPU0", "one PCIe switch", "NIC0")
    assert any("ACS" in words for words in near.unknown)
    assert "LnkSta" in near.draw() and "LnkSta" in near._repr_html_()
    far = path(seen, "NIC1", "GPU0", "peer")
    assert far.relation == "SYS" and len(far.parts) == 5
    assert not any("ACS" in words for words in far.unknown)
    assert path(seen, "GPU0", "GPU1", "nvlink").parts == ("GPU0", "NVLink", "GPU1")
    through_memory = path(seen, "GPU0", "NIC1", "pinned")
    assert through_memory.copies == 2 and "host memory" in repr(through_memory)
    for words, error in (
        (("GPU0", "NIC0", "nvlink"), "GPU0 and NIC0 are PIX; take peer"),
        (("GPU0", "GPU1", "peer"), r"NVLink \(NV18\)"),
        (("NIC0", "NIC1", "peer"), "of which one is a GPU"),
        (("GPU0", "NIC0", "cpu"), "no row for memory"),
        (("GPU0", "NIC7", "peer"), "name must be one of GPU0"),
    ):
        with pytest.raises(ValueError, match=error):
            path(seen, *words)
    with pytest.raises(TypeError, match="it takes no options"):
        path(seen, "GPU0", "NIC0", "peer", acs=True)


def test_a_name_is_no_server():
    with pytest.raises(TypeError, match="fabric must be the Fabric of a server, got a str"):
        topo("dgx_h100")
    with pytest.raises(TypeError, match=r"got a System; a system has its own in \.fabric"):
        path(system(gpu="H100", servers=1), "gpu 0", "gpu 1", "nvlink")


@pytest.mark.parametrize("servers", ["dgx_h100", "dgx_a100", "gb200"])
def test_every_class_of_a_matrix_is_answered_with_a_mechanism(servers):
    server = topologies.build(servers)
    classes = {cell for row in topo(server).cells for cell in row} - {"X"}
    for name in classes | {"PIX", "PXB", "PHB", "NODE", "SYS", "NV1", "NV4", "NV18"}:
        meant = "nvlink" if name.startswith("NV") else "peer"
        with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
            path(server, "gpu 1", "gpu 0", name)


@pytest.mark.parametrize(
    ("read", "text", "error"),
    [
        (read_ibv_devinfo, "No IB devices found\n", "it holds no port"),
        (
            read_ibv_devinfo,
            "hca_id: mlx5_0\n  port: 1\n",
            "line 2: a port of mlx5_0 must have a number and a state",
        ),
        (read_ibv_devinfo, "", "it holds no port"),
        (
            read_ibv_devinfo,
            PLAIN[PLAIN.index("      port:") :],
            "line 1: a port of a device must have",
        ),
        (
            read_ibv_devinfo,
            PLAIN[: PLAIN.index("ACTIVE (4)") + 5] + "\n",
            "a port of mlx5_12 .*PORT_ACTIV",
        ),
        (
            read_ibv_devinfo,
            PLAIN[: PLAIN.index("Ethernet") + 5] + "\n",
            "known link layer, got .*'Ether'",
        ),
        (read_ibv_devinfo, PLAIN.replace("PORT_DOWN (1)", "invalid state (0)"), "invalid state"),
        (
            read_rdma_link,
            "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev\n",
            "line 1: a port of mlx5_0 .* cut",
        ),
        (read_rdma_link, "link mlx5_0/1 state ACTI\n", "line 1: a port of mlx5_0 .*'ACTI'"),
        (read_rdma_link, "1: lo: <LOOPBACK>\n2: eth0: <UP>\n", "it holds none"),
        (read_rdma_link, "link mlx5_0/1 netdev eth0\n", "line 1: a port of mlx5_0 must have"),
    ],
)
def test_broken_lists_are_refused(read, text, error):
    with pytest.raises(FileFormat, match=error):
        read(text)
