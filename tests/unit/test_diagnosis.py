"""The doctor's readers and suspects on short texts, each as its tool prints it, and what is said of healthy ones."""

import json

import pytest

import fabriclab as fl
from fabriclab.__main__ import main
from fabriclab.diagnosis.host_tools import mounts, variables
from fabriclab.diagnosis.messages import messages as messages_of
from fabriclab.diagnosis.page import pictures
from fabriclab.diagnosis.suspicion import causes
from fabriclab.diagnosis.tables import rate_in, read_bandwidths, read_pairs
from fabriclab.diagnosis.trials import read_trials
from fabriclab.errors import FileFormat
from fabriclab.importers import open_source


def first(*texts, **named):
    found = fl.doctor(*texts, **named).suspects
    return found[0].cause_id if found else None


def all_of(*texts, **named):
    return [suspect.cause_id for suspect in fl.doctor(*texts, **named).suspects]


def bench(rate, gpu="NVIDIA H100 80GB HBM3", servers=2, per_server=8, wrong=0):
    """Return what nccl-tests prints of an all-reduce with a bus bandwidth [GB/s]."""
    lines = ["# Using devices"]
    for rank in range(servers * per_server):
        host = f"node{rank // per_server:02d}"
        lines.append(
            f"#  Rank {rank:2d} Group  0 Pid {100 + rank} on {host} device  {rank % per_server} [0000:1a:00] {gpu}"
        )
    lines.append(
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"
    )
    ranks = servers * per_server
    factor = 2 * (ranks - 1) / ranks
    for power in (28, 30, 32):
        size = 2**power
        time = size * factor / (rate * 1e9) * 1e6
        algbw = size / time / 1e3
        half = f"{time:.1f} {algbw:.2f} {rate:.2f} {wrong}"
        lines.append(f"{size} {size // 4} float sum -1 {half} {half}")
    return "\n".join(lines) + "\n"


def info(text, host="n1", device=0, level="INFO"):
    return f"{host}:101:102 [{device}] NCCL {level} {text}\n"


# Readers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "n1:7:8 [3] NCCL INFO Using network IB",
        "[1,0]<stdout>: n1:7:8 [3] NCCL INFO Using network IB",
        "(Worker pid=7, ip=10.0.0.1) n1:7:8 [3] NCCL INFO Using network IB",
        "\x1b[33mn1:7:8 [3] NCCL INFO Using network IB\x1b[0m",
        "[2026-02-11 14:48:25] n1:7:8 [3] net.cc:12 (f) NCCL INFO Using network IB\r",
    ],
)
def test_a_message_is_read_behind_whatever_stands_before_it(line):
    (message,) = messages_of(open_source(line + "\n"))
    assert (message.host, message.pid, message.device, message.level) == ("n1", 7, 3, "INFO")
    assert message.text == "Using network IB"


def test_two_messages_in_one_line_are_two():
    torn = "n1:7:8 [0] NCCL INFO Using net n2:9:10 [1] NCCL WARN failed"
    found = messages_of(open_source(torn + "\n"))
    assert [(m.host, m.level, m.text) for m in found] == [
        ("n1", "INFO", "Using net"),
        ("n2", "WARN", "failed"),
    ]


def test_tables_of_bandwidth_have_sizes_in_bytes():
    (table,) = read_bandwidths(
        open_source("size_MiB  algbw_GBps  busbw_GBps\n 8 3.99 7.48\n64 11.40 21.37\n")
    ).rows
    assert table.sizes == [8 * 2**20, 64 * 2**20]
    assert table.peak == 21.37
    (table,) = read_bandwidths(open_source(bench(480))).rows
    assert table.collective == "all_reduce"
    assert table.ranks == 16
    assert len(set(table.hosts)) == 2


# The form of all_reduce_bench.py and torch-dist-bench.py in the repository ml-engineering; the figures are made up.
MARKDOWN = """\
The average bandwidth of all_reduce over 32 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   | latency median | calls |
| ------: | ---------: | ---------: | -------------: | ----: |
|   32KiB |            |            |         25.3us |    20 |
|   64KiB |   1.27GBps |   0.66GBps |         40.1us |    10 |
|  1.5MiB |  16.00GBps |   8.26GBps |         51.0us |    10 |
|   16GiB | 380.85GBps | 196.57GBps |                |     1 |

Legend: 1KiB = 2**10 Bytes
Elapsed time: 0:01:02
"""


def test_a_table_whose_cells_name_their_units_is_read():
    (table,) = read_bandwidths(open_source(MARKDOWN)).rows
    assert table.sizes == [64 * 2**10, 1.5 * 2**20, 16 * 2**30]
    assert table.busbw == [1.27, 16.00, 380.85] and table.algbw == [0.66, 8.26, 196.57]
    assert (table.collective, table.ranks) == ("all_reduce", 32)
    assert table.misread_by == pytest.approx(1, abs=0.01)
    assert fl.doctor(MARKDOWN).case.tables[0].peak == 380.85


@pytest.mark.parametrize(
    ("cell", "unit", "rate"),
    [
        ("380.85", 1.0, 380.85),
        ("400", 0.125, 50.0),
        ("380.85GBps", 0.125, 380.85),
        ("380.85 GB/s", 1.0, 380.85),
        ("400Gbps", 1.0, 50.0),
        ("400Gbit/s", 1.0, 50.0),
        ("900MB/s", 1.0, 0.9),
        ("1e2", 1.0, 100.0),
        (".5", 1.0, 0.5),
        ("25.3us", 1.0, None),
        ("32KiB", 1.0, None),
        ("N/A", 1.0, None),
        ("", 1.0, None),
    ],
)
def test_a_unit_behind_a_rate_counts_more_than_that_of_its_column(cell, unit, rate):
    found = rate_in(cell, unit)
    assert found is None if rate is None else found == pytest.approx(rate)


def test_rates_of_pairs_and_of_trials_may_have_their_unit_behind_them():
    pairs = read_pairs(open_source("n1 n2 88.1GBps\nn1 n3 900MB/s\nn2,n3,88.4GBps\nn2 n3 ok\n"))
    assert [pair.rate for pair in pairs] == pytest.approx([88.1, 0.9, 88.4])
    rows = "".join(f"| n1,n{i} | {rate}Gbps |\n" for i, rate in enumerate((392, 391, 88, 390), 2))
    trials = read_trials(open_source(f"| hosts | busbw |\n{rows}"))
    assert [trial.speed for trial in trials] == [49.0, 48.875, 11.0, 48.75]
    assert trials[2].printed == "busbw 88Gbps"


def test_a_file_in_utf_16_is_read(tmp_path):
    file = tmp_path / "log.txt"
    file.write_bytes(info("NCCL_P2P_DISABLE set by environment to 1").encode("utf-16"))
    assert first(file) == "p2p_disabled"


def test_what_is_no_file_says_so(tmp_path):
    with pytest.raises(FileFormat, match="must be the path of a file, or the text"):
        fl.doctor(tmp_path / "none.log")
    with pytest.raises(ValueError, match="at least one file"):
        fl.doctor()


def test_what_cannot_be_read_of_a_format_is_named_with_its_line():
    ports = DEVINFO.format(state="ACTIVE", mtu=4096)
    cut = ports + ports.replace("mlx5_0", "mlx5_1").split("state:")[0]
    (words,) = fl.doctor(ports=cut).case.skipped
    assert (
        "ports: ports of ibv_devinfo that cannot be read: 1; line 9: a port of mlx5_1 must have"
        in words
    )
    rows = bench(480).splitlines()
    rows[-1] = rows[-1][:45]
    (words,) = fl.doctor(bench="\n".join(rows) + "\n").case.skipped
    assert "bench: rows of bandwidth that cannot be read: 1; line 21: " in words
    upper = "".join(TOPO.format(near="SYS").splitlines(keepends=True)[:3])
    found = fl.doctor(topo=upper)
    assert "line 1: the text must hold" in found.case.skipped[0]
    assert found.suspects[0].cause_id == "nic_far"
    assert found.case.topologies["topo"].relation("NIC0", "NIC1") == "?"
    torn = LINKS.format(lanes=4).replace("4xHDR", "4x", 1)
    found = fl.doctor(links=torn)
    assert "ports of ibnetdiscover that cannot be read: 1; line 2: " in found.case.skipped[0]
    assert found.case.skipped[0] in str(found)
    assert len(found.case.links) == 2


def test_a_file_that_says_nothing_is_named():
    found = fl.doctor("some words\nand others\n")
    assert found.suspects == ()
    assert found.case.unread == ["text"]
    assert "no line of it was understood" in str(found)
    assert "NCCL_DEBUG=INFO" in str(found)


# Suspects -------------------------------------------------------------------------------------------------------------

TOPO = """\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity
GPU0\t X \tNV18\t{near}\tSYS\t0-47
GPU1\tNV18\t X \tSYS\tPIX\t48-95
NIC0\t{near}\tSYS\t X \tSYS\t
NIC1\tSYS\tPIX\tSYS\t X \t
"""
XML = """<system version="1">
  <cpu numaid="0" affinity="ff"><pci busid="0000:17:00.0" link_speed="32.0 GT/s PCIe" link_width="16">
    <gpu dev="0"/></pci>
    <pci busid="0000:18:00.0" link_speed="32.0 GT/s PCIe" link_width="{width}"><nic>
      <net name="mlx5_0" speed="400000" gdr="{gdr}"/></nic></pci></cpu></system>
"""
LINKS = """Switch 40 "S-1" # "leaf-1" enhanced port 0 lid 1 lmc 0
[1] "H-1"[1](1) # "node1 mlx5_0" lid 11 4xHDR
[2] "H-2"[1](1) # "node2 mlx5_0" lid 12 4xHDR
[3] "H-3"[1](1) # "node3 mlx5_0" lid 13 {lanes}xHDR
"""
LSPCI = """0000:17:00.0 3D controller: NVIDIA Corporation GH100
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x{width} {word}
"""
DEVINFO = """hca_id: mlx5_0
\ttransport: InfiniBand (0)
\t\tport: 1
\t\t\tstate: PORT_{state} (4)
\t\t\tmax_mtu: 4096 (5)
\t\t\tactive_mtu: {mtu} (5)
"""
WATCHDOG = (
    "[rank{rank}]:[E119 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={number}, OpType={kind}, NumelIn={n}, NumelOut={n}, "
    "Timeout(ms)=600000) ran for 600041 milliseconds before timing out.\n"
)


def watchdog(rank, number=5, kind="ALLREDUCE", n=64):
    return WATCHDOG.format(rank=rank, number=number, kind=kind, n=n)


def test_a_nic_behind_a_socket_is_named():
    assert first(TOPO.format(near="SYS")) == "nic_far"
    assert "nic_far" not in all_of(TOPO.format(near="PIX"))


def test_a_narrow_link_is_named_whoever_prints_it():
    assert first(XML.format(width=8, gdr=1)) == "pcie_width"
    assert first(XML.format(width=16, gdr=0)) == "gdr_off"
    assert "pcie_width" not in all_of(XML.format(width=16, gdr=1))
    assert first(LSPCI.format(width=8, word="(downgraded)")) == "pcie_width"
    assert "pcie_width" not in all_of(LSPCI.format(width=16, word=""))
    assert first(LINKS.format(lanes=1)) == "link_low"
    assert "link_low" not in all_of(LINKS.format(lanes=4))


def test_ports_that_differ_between_hosts_are_named():
    one = DEVINFO.format(state="ACTIVE", mtu=4096)
    assert first(a=one, b=DEVINFO.format(state="ACTIVE", mtu=1024)) == "mtu_mismatch"
    assert "mtu_mismatch" not in all_of(a=one, b=one)
    three = one + one.replace("mlx5_0", "mlx5_1")
    down = DEVINFO.format(state="DOWN", mtu=4096).replace("mlx5_0", "mlx5_2")
    assert first(three + down) == "rails_down"


def test_watchdogs_tell_a_missing_rank_from_calls_that_differ():
    waiting = "".join(watchdog(rank) for rank in (0, 1, 3))
    assert first(waiting) == "rank_absent"
    assert first(waiting + watchdog(2, number=6, n=1024)) == "collective_mismatch"
    assert first(waiting + watchdog(2, kind="ALLGATHER")) == "collective_mismatch"
    assert first(waiting + watchdog(2, number=4)) == "rank_absent"


def test_a_flight_recorder_is_read_as_json():
    def dump(number, size):
        entry = {
            "collective_seq_id": number,
            "profiling_name": "nccl:all_reduce",
            "state": "scheduled",
            "input_sizes": [[size]],
        }
        return json.dumps({"version": "2.5", "entries": [entry]}) + "\n"

    dumps = {f"trace_rank_{rank}": dump(7, 64) for rank in (0, 1, 2)}
    assert first(**dumps, trace_rank_3=dump(8, 1024)) == "collective_mismatch"


def test_pairs_tell_a_node_from_flows_that_meet():
    fast = "a1 a2 88\na1 a3 87\na2 a3 88\n"
    assert first(fast + "a1 a4 49\na2 a4 48\na3 a4 49\n") == "slow_node"
    assert first(fast + "b1 b2 49\nb3 b4 48\n") == "hash_collisions"
    leaves = "SwitchName=leaf1 Nodes=a[1-2]\nSwitchName=leaf2 Nodes=a[3-4]\n"
    across = "a1 a2 88\na3 a4 88\na1 a3 60\na2 a4 61\na1 a4 60\n"
    assert first(pairs=across, topology=leaves) == "hash_collisions"


def test_cores_versions_and_channels_are_held_against_each_other():
    near = "ncclTopoGetCpuAffinity: Affinity for GPU 3 is . (GPU affinity = 48-95 ; CPU affinity = 0-47)."
    assert first(info(near)) == "cpu_binding"
    assert first(info("NCCL_MAX_NCHANNELS set by environment to 1")) == "fewer_channels"
    two = info("NCCL version 2.21.5+cuda12.4") + info("NCCL version 2.19.3+cuda12.2", "n2")
    assert first(two + info("failed", level="WARN")) == "version_mismatch"


def test_shared_memory_counts_only_where_it_is_small_or_full():
    head = "Filesystem Size Used Avail Use% Mounted on\n"
    assert first(head + "shm 64M 61M 3M 95% /dev/shm\n") == "shm_too_small"
    assert "shm_too_small" not in all_of(head + "tmpfs 504G 1G 503G 1% /dev/shm\n")


def test_sockets_on_one_server_are_no_fault():
    shape = info("comm 0x1 rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0")
    assert "fallback_to_sockets" not in all_of(shape + info("Using network Socket"))
    shape = shape.replace("nNodes 1", "nNodes 2")
    assert first(shape + info("Using network Socket")) == "fallback_to_sockets"


# Rates ----------------------------------------------------------------------------------------------------------------


def test_a_run_within_the_band_is_healthy_whatever_a_harmless_warning_says():
    warning = info('Missing "iommu=pt" from kernel command line', level="WARN")
    found = fl.doctor(bench(490), warning)
    assert found.suspects[0].cause_id == "none_healthy"
    assert found.comparisons[0].healthy
    assert found.system.servers == 2
    assert first(bench(490, wrong=1)) != "none_healthy"


EIGHT = info("NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(8)) + " [RO]")


@pytest.mark.parametrize(
    ("rate", "cause"), [(88, "one_nic_used"), (350, "rails_down"), (12, "fallback_to_sockets")]
)
def test_a_slow_run_is_tried_on_the_model(rate, cause):
    found = fl.doctor(bench(rate), EIGHT)
    suspect = found.suspects[0]
    assert suspect.cause_id == cause
    assert suspect.sure < 0.6  # other faults may cost as much
    assert suspect.gain == pytest.approx(found.comparisons[0].rows[-1].expected / rate, rel=0.01)


def test_a_run_whose_nics_nobody_names_is_not_called_slow_if_fewer_would_explain_it():
    unknown = fl.doctor(bench(88))
    assert unknown.comparisons[0].healthy is None
    assert all(suspect.sure < 0.3 for suspect in unknown.suspects)
    two = info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]")
    assert fl.doctor(bench(175), two).suspects[0].cause_id == "none_healthy"


def test_that_no_plugin_was_found_is_a_notice_where_rdma_came_up():
    notice = info("NET/Plugin : dlerror=libnccl-net-ofi.so: cannot open shared object file")
    assert first(notice) == "plugin_missing"
    assert "plugin_missing" not in all_of(notice + EIGHT + info("Using network IB"))


def test_old_tables_of_nccl_tests_have_whole_times_and_no_root():
    table = (
        "#       size         count    type   redop     time   algbw   busbw  error\n"
        "  1073741824     268435456   float     sum   134218    8.00   15.00  2e-07\n"
    )
    (read,) = read_bandwidths(open_source(table)).rows
    assert (read.algbw, read.busbw) == ([8.0], [15.0])


def test_ports_below_their_card_or_below_others_are_named():
    card = "CA '{name}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tRate: {rate}\n"
    both = card.format(name="mlx5_0", rate=400) + card.format(name="mlx5_1", rate=200)
    assert first(both) == "link_low"
    assert "link_low" not in all_of(both.replace("Rate: 200", "Rate: 400"))


def test_a_security_group_that_does_not_let_itself_out_is_named():
    def group(out):
        own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}]
        world = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
        rules = {
            "GroupId": "sg-1",
            "IpPermissions": own,
            "IpPermissionsEgress": own if out else world,
        }
        return json.dumps({"SecurityGroups": [rules]}, indent=1)

    assert first(group(out=False)) == "firewall"
    assert "firewall" not in all_of(group(out=True))


def test_a_rank_that_takes_longer_is_named():
    lines = [f"[rank {rank}] compute time: {1.9 if rank == 2 else 1.2} s" for rank in range(4)]
    assert first("\n".join(lines) + "\n") == "straggler"
    assert "straggler" not in all_of("\n".join(lines).replace("1.9", "1.2") + "\n")


def test_more_than_the_nics_of_two_servers_carry_is_a_question_of_reading():
    ports = "".join(f"mlx5_{i} port 1 ==> eth{i} (Up)\n" for i in range(4))
    rates = "100 Gb/sec (4X EDR)\n" * 4
    run = bench(80, gpu="NVIDIA H800")
    assert first(run, ports + rates) == "misread_busbw"
    assert "misread_busbw" not in all_of(bench(45, gpu="NVIDIA H800"), ports + rates)
    instance = '{"NetworkInfo": {\n"NetworkPerformance": "4x 100 Gigabit"\n}}\n'
    assert first(run, instance) == "misread_busbw"


GIDS = """mlx5_0  1  0  fe80:0000:0000:0000:0e42:a1ff:fe5c:19e4                v1  eth0
mlx5_0  1  3  0000:0000:0000:0000:0000:ffff:0a00:0001  10.0.0.1      v2  eth0
"""


@pytest.mark.parametrize(
    "words",
    [
        "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
        "NET/IB: Got completion from peer 10.0.0.2<4000> with status=12 opcode=0 len=0 vendor err 129",
    ],
)
def test_a_peer_that_does_not_answer_on_roce_may_be_the_gid_that_nobody_set(words):
    log = info("NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>") + info(words, level="WARN")
    old = log + "NCCL version 2.8.3+cuda10.2\n"
    assert first(old, gids=GIDS) == "gid_index"
    assert first(old) == "gid_index"
    set_ = info("NCCL_IB_GID_INDEX set by environment to 3")
    assert "gid_index" not in all_of(old + set_, gids=GIDS)
    assert "gid_index" not in all_of(log + "NCCL version 2.23.4+cuda12.2\n", gids=GIDS)
    assert "gid_index" not in all_of(old.replace("/RoCE", "/IB"))


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("[rank 2] StopIteration after 40 batches", "collective_mismatch"),
        ("rank 2: end of epoch, saving", "collective_mismatch"),
        ("[rank2]: torch.OutOfMemoryError: CUDA out of memory", "rank_absent"),
        ("[rank 1] StopIteration after 40 batches", "rank_absent"),
    ],
)
def test_the_program_says_why_a_rank_is_missing(line, cause):
    waiting = "".join(watchdog(rank) for rank in (0, 1, 3))
    suspect = fl.doctor(waiting + line + "\n").suspects[0]
    assert suspect.cause_id == cause
    assert (line in suspect.evidence) == (not line.startswith("[rank 1]"))


def test_an_earlier_run_is_what_counts_where_there_is_one():
    found = fl.doctor(run=bench(15), baseline=bench(480))
    assert "baseline" in found.comparisons[0].by
    assert found.comparisons[0].healthy is False
    assert first(run=bench(470), baseline=bench(480)) == "none_healthy"


def test_bandwidths_that_do_not_fit_their_collective_are_named():
    text = "# all_reduce, world_size\n# ranks: 8\nbytes,algbw_GBps,busbw_GBps\n1048576,20,20\n2097152,20,20\n"
    assert "misread_busbw" in all_of(text)


def test_a_sign_that_asks_for_a_figure_is_found_behind_lines_that_differ_in_it():
    failed = "Call to ibv_modify_qp failed with error {} on host"
    lines = [info(failed.format(number), level="WARN") for number in (110, 110, 22)]
    assert "gid_index" not in all_of("".join(lines[:2]))
    (found,) = [s for s in fl.doctor("".join(lines)).suspects if s.cause_id == "gid_index"]
    assert "error 22" in found.evidence


IBSTATUS = """Infiniband device '{name}' port 1 status:
\tstate:\t\t {state}
\trate:\t\t {rate} Gb/sec (4X)
\tlink_layer:\t {layer}
"""


def ibstatus(name, rate=200, state="4: ACTIVE", layer="InfiniBand"):
    return IBSTATUS.format(name=name, rate=rate, state=state, layer=layer)


def test_ports_that_the_job_does_not_use_are_no_fault():
    fast = "".join(ibstatus(f"mlx5_{i}") for i in range(3))
    slow = ibstatus("mlx5_8", rate=25)
    dead = ibstatus("mlx5_9", state="1: DOWN")
    assert all_of(fast + slow)[0] == "link_low"
    assert all_of(fast + dead)[0] == "rails_down"
    of_ethernet = (slow + dead).replace("InfiniBand", "Ethernet")
    assert not {"link_low", "rails_down"} & set(all_of(fast + of_ethernet))
    excluded = info("NCCL_IB_HCA set to ^mlx5_8,mlx5_9")
    assert not {"link_low", "rails_down"} & set(all_of(excluded, ports=fast + slow + dead))
    devices = info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [RO]")
    assert "link_low" not in all_of(devices, ports=fast + slow)
    assert first(info("NCCL_IB_HCA set to mlx5_8,mlx5_0"), ports=fast + slow) == "link_low"


LSMOD = """$ lsmod | grep -e peer -e ^nvidia
nvidia_uvm           1540096  16
nvidia              56872960  473 nvidia_uvm
"""


def test_a_list_of_modules_without_peer_memory_says_that_gpudirect_is_off():
    channels = "".join(
        info(f"Channel 0{i}/0 : 1[1] -> 8[0] [send] via NET/IB/{i}") for i in range(2)
    )
    alone = fl.doctor(channels).suspects[0]
    found = fl.doctor(channels, modules=LSMOD).suspects[0]
    assert (alone.cause_id, found.cause_id) == ("gdr_off", "gdr_off")
    assert alone.sure < 0.5 < found.sure
    assert "NCCL_DEBUG_SUBSYS" in str(fl.doctor(channels))
    loaded = LSMOD + "nvidia_peermem         16384  0\n"
    other = LSMOD.replace("-e peer -e ", "-e ")
    for harmless in (loaded, other):
        assert fl.doctor(channels, modules=harmless).suspects[0].sure == alone.sure
    assert "gdr_off" not in all_of(
        channels.replace("/0\n", "/0/GDRDMA\n").replace("/1\n", "/1/GDRDMA\n")
    )


def test_cuda_that_does_not_start_is_not_called_a_matter_of_nvls():
    started = "node7: Test CUDA failure common.cu:900 'system not yet initialized'\n"
    state = "    Fabric\n        State                             : In Progress\n"
    for text in (started, state):
        suspect = fl.doctor(text).suspects[0]
        assert suspect.cause_id == "nvls_fabric_manager"
        assert "NVLS" not in suspect.title + suspect.setting
        assert suspect.setting == "systemctl enable --now nvidia-fabricmanager"
        assert "resets every GPU" in str(fl.doctor(text))
    assert "nvls_fabric_manager" not in all_of(state.replace("In Progress", "Completed"))
    refused = info("Failed to add multicast team: out of groups", level="WARN")
    assert "NCCL_NVLS_ENABLE=0" in fl.doctor(refused).suspects[0].setting


def test_a_matrix_that_was_cut_is_no_file_that_cannot_be_read():
    found = fl.doctor(topo="".join(TOPO.format(near="SYS").splitlines(keepends=True)[:2]))
    assert not found.case.skipped
    assert "upper rows of a matrix" in str(found)


def test_only_variables_that_are_set_are_to_be_unset():
    set_ = info("NCCL_P2P_DISABLE set by environment to 1")
    assert fl.doctor(set_).suspects[0].setting == "unset NCCL_P2P_DISABLE"
    near = info("NCCL_P2P_LEVEL set by environment to NVL")  # which lets GPUs reach each other
    assert fl.doctor(set_ + near).suspects[0].setting == "unset NCCL_P2P_DISABLE"
    refused = info("P2P is disabled between GPU 0 and GPU 1")
    assert "unset NCCL" not in fl.doctor(refused).suspects[0].setting
    shape = info("comm 0x1 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0")
    sockets = shape + info("Using network Socket")
    assert "unset" not in fl.doctor(sockets).suspects[0].setting
    demanded = sockets + info("NCCL_NET set by environment to Socket")
    assert fl.doctor(demanded).suspects[0].setting.startswith("unset NCCL_NET;")


LOST = info("NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129", level="WARN")


def test_a_switch_that_was_set_for_a_test_is_not_why_a_run_times_out():
    set_ = info("NCCL_P2P_DISABLE set by environment to 1") + info(
        "NCCL_SHM_DISABLE set by environment to 1"
    )
    assert {"p2p_disabled", "shm_disabled"} == set(all_of(set_))
    found = fl.doctor(set_ + LOST)
    assert found.suspects[0].cause_id == "rails_down"
    chosen = [s for s in found.suspects if s.cause_id in ("p2p_disabled", "shm_disabled")]
    assert all(suspect.sure < 0.4 for suspect in chosen)


PING = """PING 10.9.0.2 (10.9.0.2) 56(84) bytes of data.
3 packets transmitted, 3 received, 0% packet loss, time 2041ms
PING 10.9.0.2 (10.9.0.2) 8000(8028) bytes of data.
3 packets transmitted, {received} received, {lost}% packet loss, time 2041ms
"""
SWITCH = """Interface Speed MTU Oper
--------- ----- --- ----
Ethernet0 100G {mtu} up
Ethernet4 100G {mtu} up
Ethernet8 100G 9100 down
"""


def test_probes_and_tables_of_a_switch_count_for_the_mtu():
    assert first(PING.format(received=0, lost=100)) == "mtu_mismatch"
    assert "mtu_mismatch" not in all_of(PING.format(received=3, lost=0))
    dead = PING.replace(" 3 received, 0%", " 0 received, 100%")
    assert "mtu_mismatch" not in all_of(dead.format(received=0, lost=100))
    port = DEVINFO.format(state="ACTIVE", mtu=4096)
    roce = port + "\t\t\tlink_layer: Ethernet\n"
    small = SWITCH.format(mtu=1500)
    assert first(LOST, ports=roce, switch=small) == "mtu_mismatch"
    assert "mtu_mismatch" not in all_of(LOST, ports=roce, switch=SWITCH.format(mtu=9100))
    of_infiniband = roce.replace("Ethernet", "InfiniBand")
    assert "mtu_mismatch" not in all_of(LOST, ports=of_infiniband, switch=small)
    test = (
        "$ ib_write_bw -d mlx5_0 -m 1024 --report_gbits\n #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec]\n"
        " 65536 5000 92.1 92.0 0.17\n"
    )
    assert "mtu_mismatch" in all_of(LOST, ports=roce, test=test)
    assert "mtu_mismatch" not in all_of(ports=roce, test=test)
    jumbo = "/sys/class/net/eth4/mtu:9000\n"
    assert first(LOST, host=jumbo, switch=small) == "mtu_mismatch"
    for harmless in (jumbo.replace("9000", "1500"), jumbo.replace("eth4", "ib0")):
        assert "mtu_mismatch" not in all_of(LOST, host=harmless, switch=small)


HANG = "".join(info(f"Channel 0{i}/0 : 0[0] -> 1[1] via P2P/IPC") for i in range(2)) + (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
)
KERNEL = "[    0.7] iommu: Default domain type: {mode}\n"


def test_a_table_that_never_gets_a_row_is_a_finding():
    found = fl.doctor(HANG, kernel=KERNEL.format(mode="Translated"))
    assert found.suspects[0].cause_id == "iommu"
    assert "Default domain type" in found.suspects[0].evidence
    assert "gets no row" in str(found)
    assert not found.case.unread
    assert first(HANG) == "iommu"
    assert "none_healthy" not in all_of(HANG)
    harmless = (KERNEL.format(mode="Passthrough"), "BOOT_IMAGE=/boot/vmlinuz iommu=pt quiet\n")
    for kernel in harmless:
        assert "iommu" not in all_of(HANG, kernel=kernel)
    row = "  1024  256  float  sum  -1  10.0  0.10  0.10  0  10.0  0.10  0.10  0\n"
    assert "iommu" not in all_of(HANG + row, kernel=KERNEL.format(mode="Translated"))
    over_network = HANG.replace("via P2P/IPC", "[send] via NET/IB/0/GDRDMA")
    page = str(fl.doctor(over_network))
    assert "gets no row" in page and "nccl-tests" not in page.split("More would tell")[-1]


def rank_of(rank, pid, file_ranks=4, host="n1"):
    text = f"comm 0x1 rank {rank} nranks {file_ranks} cudaDev 0 busId 1000 - Init COMPLETE"
    return f"{host}:{pid}:{pid} [0] NCCL INFO {text}\n"


def test_versions_of_hosts_are_compared_wherever_they_are_printed():
    def host(name, version):
        return info("Bootstrap : Using eth0:10.0.0.1<0>", host=name) + f"NCCL version {version}\n"

    failed = info("Net : Connection closed by remote peer n2<41000>", level="WARN")
    sockets = info("NET/IB : No device found.") + info("Using network Socket")
    older = host("n2", "2.15.1+cuda11.8") + info("Using network Socket", host="n2")
    found = fl.doctor(a=host("n1", "2.19.3+cuda12.3") + sockets + failed, b=older)
    assert found.suspects[0].cause_id == "version_mismatch"
    assert "2.15.1" in found.suspects[0].evidence
    assert all(s.sure < 0.4 for s in found.suspects if s.cause_id == "fallback_to_sockets")
    both = host("n1", "2.19.3+cuda12.3")
    assert "version_mismatch" not in all_of(a=both + failed, b=host("n2", "2.19.3"))
    again = both + host("n1", "2.15.1+cuda11.8")  # one host, measured with two versions
    assert "version_mismatch" not in all_of(again + failed)
    apart = {"a": both + rank_of(0, 7), "b": older + rank_of(0, 8, host="n2")}
    assert "version_mismatch" not in all_of(**apart)  # two runs, and neither failed
    assert first(**apart, c=failed) == "version_mismatch"


def test_files_of_two_runs_are_no_ranks_of_one():
    def run(pid, count, nics):
        text = rank_of(0, pid) + rank_of(1, pid + 1)
        text += info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]")
        text += info(
            f"{count} coll channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer"
        )
        for i in range(2):
            nic = i % nics
            text += info(f"Channel 0{i}/0 : 1[1] -> 2[0] [send] via NET/IB/{nic}/GDRDMA")
        return text

    slow, fast = run(100, 2, nics=1), run(200, 4, nics=2)
    assert first(slow=slow, fast=fast) == "one_nic_used"
    assert "fewer_channels" not in all_of(slow=slow, fast=fast)  # no rate says that it matters
    assert "one_nic_used" not in all_of(fast=fast, again=run(300, 4, nics=2))
    ranks = {f"rank{r}": rank_of(r, 100 + r) + info(f"{4 - r} coll channels") for r in (0, 1)}
    assert first(**ranks) == "fewer_channels"  # two ranks of one run


def test_runs_of_one_test_are_held_against_each_other():
    fast, slow = bench(100, gpu="other"), bench(70, gpu="other")
    found = fl.doctor(a=fast, b=slow)
    assert [each.healthy for each in found.comparisons] == [None, False]
    assert "fastest run of the same test, in a" in str(found)
    assert "none_healthy" not in [s.cause_id for s in found.suspects]
    alike = fl.doctor(a=fast, b=bench(90, gpu="other"))
    assert [each.healthy for each in alike.comparisons] == [None, None]
    of_more = fl.doctor(a=fast, b=bench(70, gpu="other", servers=4))
    assert all(each.healthy is None for each in of_more.comparisons)

    def plan(pid, peers):
        words = f"8 coll channels, 0 nvls channels, 8 p2p channels, {peers} p2p channels per peer"
        return rank_of(0, pid) + info(words)

    (suspect,) = fl.doctor(a=fast, b=slow, old=plan(100, 4), new=plan(200, 1)).suspects
    assert suspect.cause_id == "fewer_channels"
    assert "1 p2p channels per peer in this run, 4 in another" in suspect.evidence
    assert suspect.typed == ""  # no variable is set that could be unset


def test_each_table_is_held_against_as_many_servers_as_it_has():
    found = fl.doctor(EIGHT, a=bench(480), b=bench(480, servers=4))
    assert ["2 servers" in found.comparisons[0].by, "4 servers" in found.comparisons[1].by] == [
        True
    ] * 2


# The cluster ----------------------------------------------------------------------------------------------------------


def test_a_system_is_read_from_logs_and_says_from_where():
    ports = "".join(
        f"CA 'mlx5_{i}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tRate: 200\n"
        for i in range(4)
    )
    roce = info("NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/RoCE" for i in range(4)) + " [RO]")
    cluster = fl.system_from_logs(bench(150), ports, roce)
    assert (cluster.gpu, cluster.servers, cluster.gpus, cluster.nics) == ("H100", 2, 8, 4)
    assert cluster.rate == 200e9 / 8
    assert cluster["transport"] == "roce"
    assert "mlx5_3" in cluster.origins["nics"]
    assert "Rate: 200" in cluster.origins["rate"]
    assert [name for name, why in cluster.origins.items() if "assumed" in why] == ["fabric"]
    assert "Rate: 200" in cluster.draw() and "Rate: 200" in cluster._repr_html_()
    assert fl.estimate(cluster, "all_reduce", "1 GiB").time > 0
    assert cluster.replace(servers=4).ranks == 32


def test_a_system_needs_a_gpu_and_servers_and_takes_what_it_is_given():
    shape = info("comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0")
    with pytest.raises(FileFormat, match=r"they lack the GPU \(nccl-tests .*give it"):
        fl.system_from_logs(shape)
    with pytest.raises(FileFormat, match="number of servers"):
        fl.system_from_logs("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n")
    with pytest.raises(ValueError, match="at least one file"):
        fl.system_from_logs()
    cluster = fl.system_from_logs(shape, gpu="A100")
    assert (cluster.servers, cluster.gpus) == (2, 8)
    assert cluster.origins["gpu"] == "given"
    assert "nNodes" in cluster.origins["servers"]
    assert "assumed" in cluster.origins["rate"] and "assumed: " in repr(cluster)
    with pytest.raises(ValueError, match=r"do not make a system: .*servers=2 \(nNodes"):
        fl.system_from_logs(shape, gpu="A100", nics=0)
    named = fl.system_from_logs(shape, "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n")
    assert named.gpu == "H100"


def test_only_nics_beside_gpus_count_in_a_matrix():
    cluster = fl.system_from_logs(bench(150, per_server=2), TOPO.format(near="SYS"))
    assert cluster.nics == 1
    assert "share a PCIe switch" in cluster.origins["nics"]
    assert fl.system_from_logs(bench(150, per_server=2), TOPO.format(near="PIX")).nics == 2


def test_that_a_run_used_sockets_does_not_make_them_the_expectation():
    log = info("NET/Socket : Using [0]eth0:10.0.0.1<0>") + info("Using network Socket")
    assert fl.system_from_logs(bench(12), log)["transport"] == "ib"
    found = fl.doctor(bench(12), EIGHT, log)
    assert found.comparisons[0].healthy is False
    assert found.suspects[0].cause_id == "fallback_to_sockets"


def test_a_log_is_no_name_of_a_system(tmp_path):
    (tmp_path / "nccl.log").write_text("x\n")
    with pytest.raises(ValueError, match="system_from_logs"):
        fl.system(str(tmp_path / "nccl.log"))


# The page -------------------------------------------------------------------------------------------------------------


def test_the_command_prints_json_and_leaves_out_what_is_not_there(tmp_path, capsys):
    file = tmp_path / "nccl.log"
    file.write_text(info("NCCL_P2P_DISABLE set by environment to 1"))
    page = tmp_path / "page.html"
    assert main(["doctor", str(file), str(tmp_path / "none"), "--json", "--html", str(page)]) == 0
    out, err = capsys.readouterr()
    (suspect,) = json.loads(out)
    assert suspect["cause_id"] == "p2p_disabled"
    assert set(suspect) >= {"cause_id", "evidence", "setting", "gain"}
    assert "none" in err
    written = page.read_text()
    assert "http://" not in written.replace("http://www.w3.org", "")
    assert "NCCL_P2P_DISABLE" in written
    assert main(["doctor", str(tmp_path / "none")]) == 1


def test_what_stands_in_a_log_is_text_on_the_page():
    found = fl.doctor(info("NCCL_P2P_DISABLE set by environment to 1 <script>alert(1)</script>"))
    assert "<script>alert" not in found._repr_html_()


def test_the_page_has_a_picture_where_there_is_something_to_compare():
    found = fl.doctor(bench(88), EIGHT)
    assert "<svg" in found._repr_html_()
    assert "Expected is 5.8 times as much" in found._repr_html_()
    (picture,) = pictures(found)
    assert picture.finding.startswith("At ") and "the run reaches 88 GB/s" in picture.finding
    assert picture.caption.startswith("Measured: ") and "Expected: the model for" in picture.caption
    assert "What binds" not in str(found)
    assert "Gain: up to" in str(found)


@pytest.mark.parametrize("cause", causes())
def test_each_cause_says_what_to_do(cause):
    about = causes()[cause]
    assert set(about) - {"unset", "set_so"} == {
        "title",
        "because",
        "action",
        "setting",
        "source",
        "signs",
    }
    assert all(about[key] for key in ("title", "because", "action"))
    for sign in about["signs"]:
        assert sign["word"] == sign["word"].lower()
        assert 0 < sign["sure"] < 1


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("baseline.txt", True),
        ("nodes_healthy.log", True),
        ("before_upgrade.txt", True),
        ("unhealthy_run.txt", False),
        ("goodput.txt", False),
        ("unexpected.log", False),
    ],
)
def test_a_baseline_is_named_by_a_word_of_its_own(name, is_one):
    (table,) = read_bandwidths(open_source(bench(480), name)).rows
    assert table.is_baseline == is_one


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("mpirun -x NCCL_DEBUG=INFO", "INFO"),
        ("docker run -e NCCL_DEBUG=INFO image", "INFO"),
        ("NCCL_DEBUG=INFO ./all_reduce_perf -g 8", "INFO"),
        ('  NCCL_DEBUG: "INFO"', "INFO"),
        ("n1:7:7 [0] NCCL WARN Set NCCL_IGNORE_NET_MISMATCH=1 to continue", None),
        ("people say that NCCL_P2P_DISABLE=1 helps", None),
        ("# export NCCL_P2P_DISABLE=1", None),
        ("  -x NCCL_IB_HCA=mlx5_0 \\", "mlx5_0"),
        ("export NCCL_IB_HCA=mlx5_0,mlx5_1  # both", "mlx5_0,mlx5_1"),
        ("export NCCL_IB_HCA=mlx5_0; ./run", "mlx5_0"),
        ("NCCL_SOCKET_IFNAME='eth0'", "eth0"),
    ],
)
def test_a_variable_ends_where_its_value_ends(line, value):
    found = [variable.value for variable in variables(open_source(line + "\n"))]
    assert found == ([] if value is None else [value])


def test_an_odd_row_of_df_is_no_error():
    row = "tmpfs 1.2.3G 1G 1G 10% /dev/shm"
    assert [mount.size for mount in mounts(open_source(row + "\n"))] == [0.0]


def test_names_after_a_caret_are_excluded_as_a_whole():
    network = "2: eth0: <BROADCAST,UP,LOWER_UP> mtu 1500\n    inet 10.0.0.1/24\n"
    found = fl.doctor(network, "NCCL_SOCKET_IFNAME=^lo,docker0\n")
    assert "wrong_socket_ifname" not in [one["cause_id"] for one in found.as_list()]


def test_an_earlier_run_with_other_ranks_is_no_baseline():
    same = str(fl.doctor(bench(240), baseline=bench(480)))
    other = str(fl.doctor(bench(240), baseline=bench(480, servers=4)))
    earlier = "the earlier run “baseline”"
    assert earlier in same and earlier not in other


def test_files_of_one_name_are_told_apart(tmp_path):
    places = []
    for host, mtu in (("host1", 1500), ("host2", 9000)):
        (tmp_path / host).mkdir()
        places.append(tmp_path / host / "links.txt")
        places[-1].write_text(f"2: eth0: <BROADCAST,UP,LOWER_UP> mtu {mtu}\n    inet 10.0.0.1/24\n")
    found = fl.doctor(*places).as_list()
    assert "mtu_mismatch" in [one["cause_id"] for one in found]
    assert "links.txt (2)" in str(found)
