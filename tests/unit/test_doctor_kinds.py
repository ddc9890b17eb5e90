"""What the doctor takes for a cause and what for a consequence, in the words of several versions of the tools."""

import itertools
import json

import pytest

import fabriclab as fl
from fabriclab.diagnosis.connections import completions, queue_pairs, tcp_failures
from fabriclab.importers import open_source


def message(text, host="n1", level="INFO", where=""):
    return f"{host}:7:9 [0] {where}NCCL {level} {text}\n"


def first(*texts, **named):
    found = fl.doctor(*texts, **named).suspects
    return found[0].cause_id if found else None


@pytest.mark.parametrize(
    ("text", "status", "vendor", "remote", "device"),
    [
        ("Got completion with error 12, opcode 0, len 0, vendor err 129", 12, 129, "", ""),
        (
            "Got completion from peer 10.0.0.2<45> with status=4 opcode=0 len=0 vendor err 81 (Recv) "
            "localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_3",
            *(4, 81, "::ffff:10.0.0.2", "mlx5_3"),
        ),
        (
            "Got completion from peer 10.0.0.2<45> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) "
            "vendor_err=129 hca mlx5_1",
            *(12, 129, "", "mlx5_1"),
        ),
    ],
)
def test_a_completion_is_read_in_the_words_of_each_version(text, status, vendor, remote, device):
    (found,) = completions([open_source(message(f"NET/IB : {text}", level="WARN"))])
    assert (found.status, found.vendor, found.remote, found.device) == (
        status,
        vendor,
        remote,
        device,
    )


def test_a_queue_pair_is_read_with_and_without_addresses():
    old = "Call to ibv_modify_qp failed with error No such device"
    new = (
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, "
        "local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2"
    )
    text = message(old, level="WARN") + message(new, level="WARN")
    first_pair, second = queue_pairs([open_source(text)])
    assert (first_pair.words, first_pair.told) == ("no such device", False)
    assert (second.device, second.gid_index, second.remote) == ("mlx5_0", 3, "::ffff:10.0.0.2")


@pytest.mark.parametrize(
    ("line", "address", "reason"),
    [
        ("NCCL WARN Connect to 10.0.0.2<4000> failed : Connection refused", "10.0.0.2", "refused"),
        ("NCCL WARN Call to connect timeout : Connection refused", "", "refused"),
        (
            "misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.2<50> returned 113(No route to host)",
            *("10.0.0.2", "no route"),
        ),
        (
            "Gloo connectFullMesh failed with Caught exception: connect [127.0.1.1]:33: Connection refused, "
            "remote=[127.0.1.1]:33",
            *("127.0.1.1", "refused"),
        ),
    ],
)
def test_a_connection_that_failed_is_read_from_any_program(line, address, reason):
    (found,) = tcp_failures([open_source(line + "\n")])
    assert (found.address, found.reason) == (address, reason)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # up to 2.3 a channel was a ring, and the interface had another word
        (
            message("NET : Using interface lo:127.0.0.1<0>")
            + message("NET : Using interface lo:127.0.0.1<0>", host="n2")
            + message("Call to connect timeout : Connection refused", "n2", "WARN"),
            "wrong_socket_ifname",
        ),
        (
            message(
                "Cuda failure 'invalid argument'", level="WARN", where="transport/nvls.cc:165 "
            ),
            "nvls_fabric_manager",
        ),
        (
            message(
                "Mismatched collective detected, please check your collective calls", level="WARN"
            ),
            "collective_mismatch",
        ),
        (
            message("Mismatched NCCL version detected : rank 1 version 22403 rank 0", level="WARN"),
            "version_mismatch",
        ),
        (
            message(
                "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA comm 0x1 nRanks 16", "n1"
            )
            + message("Channel 00/0 : 8[0] -> 0[0] [send] via NET/IB/0 comm 0x2 nRanks 16", "n2"),
            "gdr_off",
        ),
        (
            "  31 ranks have launched up to operation 6650\n"
            "  Rank 21 has launched up to operation 6649 -- GPU 5 managed by process 2210 on node 10.0.0.3\n",
            "rank_absent",
        ),
        ("".join(f"gpu-{i:02d}: {478 if i != 5 else 301}.2\n" for i in range(9)), "slow_node"),
        (
            "index, clocks.current.sm [MHz], temperature.gpu\n"
            + "".join(f"{g}, {1980 if g != 5 else 830} MHz, 60\n" for g in range(8)),
            "straggler",
        ),
        ("provider: tcp\n    fabric: 10.0.0.0/24\nprovider: udp\n", "ofi_provider_tcp"),
        (
            "".join(
                f"[n:1] MCW rank {r} bound to socket 0[core {r}[hwt 0]]: [{'./' * r}B/././.]\n"
                for r in range(4)
            ),
            "cpu_binding",
        ),
        (
            "nvidia-fabricmanager.service - NVIDIA fabric manager service\n   Loaded: loaded\n"
            "   Active: failed (Result: exit-code)\n",
            "nvls_fabric_manager",
        ),
        (
            'containers:\n- name: x\n  env:\n  - name: NCCL_P2P_DISABLE\n    value: "1"\n',
            "p2p_disabled",
        ),
    ],
)
def test_a_cause_is_named_whichever_tool_and_version_says_so(text, cause):
    assert first(text) == cause


def test_ranks_that_wait_are_no_cause_where_the_network_reports_an_error():
    lost = message(
        "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129", level="WARN"
    )
    waits = "".join(
        f"[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800004 milliseconds before timing out.\n"
        for rank in range(7)
    )
    ranks = message("comm 0x1 rank 0 nranks 8 cudaDev 0 busId 1b000 - Init COMPLETE")
    assert first(ranks + waits) == "rank_absent"
    assert first(ranks + lost + waits) == "rails_down"


def test_a_variable_of_a_run_that_went_well_is_a_way_around():
    direct = "".join(message(f"Channel 0{c}/0 : 0[0] -> 1[1] via P2P/CUMEM") for c in range(2))
    hangs = direct + "No available shared memory broadcast block found in 60 seconds.\n"
    rows = "".join(
        f"{2**p} {2**p // 4} float sum -1 {2**p / 14e3:.1f} 14.00 14.00 0\n" for p in range(23, 28)
    )
    works = (
        "$ NCCL_P2P_DISABLE=1 ./all_reduce_perf -g 2\n# size count type redop root time algbw busbw #wrong\n"
        + rows
    )
    kernel = "BOOT_IMAGE=/vmlinuz root=/dev/sda ro\niommu: Default domain type: Translated\n"
    assert first(works) == "p2p_disabled"
    assert first(hangs=hangs, works=works, kernel=kernel) == "iommu"


def test_two_causes_of_which_one_explains_the_other_do_not_weaken_each_other():
    pair = (
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, "
        "local GID index 3, local GID fe80::1, remote GID ::ffff:10.0.0.2"
    )
    using = "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.1.1.1<0>"
    (found, *_) = fl.doctor(message(using) + message(pair, level="WARN")).suspects
    assert (found.cause_id, found.sure) == ("gid_index", 0.92)


@pytest.mark.parametrize(
    "devices",
    [
        "[0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        "[0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    ],
)
def test_gpudirect_is_not_missed_where_the_gpu_shares_the_memory_of_the_processor(devices):
    log = message(f"NET/IB : Using {devices}") + message(
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"
    )
    if "P2p" not in devices:
        assert "gdr_off" in str(fl.doctor(log))
        log += "#  Rank  0 Group  0 Pid  7 on n1 device  0 [000f:01:00] NVIDIA GB10\n"
    page = str(fl.doctor(log))
    assert "gdr_off" not in page and "modprobe" not in page
    assert "Porting Guide" in page


def calls(rank, *recorded, end=""):
    """Return what a rank of two records of its calls: kind, count and type of each."""
    address = f"0x55{rank}0"
    said = [
        f"ncclCommInitRank comm {address} rank {rank} nranks 2 cudaDev 0 commId 0x77 - Init START"
    ]
    for number, (kind, count, datatype) in enumerate(recorded, 0x5C8):
        said.append(
            f"{kind}: opCount {number:x} sendbuff 0x7e recvbuff 0x7f count {count} datatype {datatype} "
            f"op 0 root 0 comm {address} [nranks=2] stream 0x56"
        )
    text = "".join(message(each, host=f"n{rank}") for each in [*said, *([end] if end else [])])
    return text


SAME = (("AllReduce", 64, 7), ("Broadcast", 64, 7))


@pytest.mark.parametrize(
    "odd", [("Broadcast", 24084544, 7), ("AllGather", 64, 7), ("Broadcast", 64, 9)]
)
def test_calls_that_ranks_record_are_held_against_each_other(odd):
    found = fl.doctor(calls(0, *SAME), calls(1, SAME[0], odd)).suspects
    assert found[0].cause_id == "collective_mismatch"
    assert "call 1481" in found[0].evidence  # 0x5c9


@pytest.mark.parametrize("end", ["", "comm 0x5500 rank 0 nranks 2 cudaDev 0 - Destroy COMPLETE"])
def test_a_run_without_an_end_is_not_called_healthy(end):
    found = fl.doctor(calls(0, *SAME, end=end), calls(1, *SAME, end=end))
    causes = [suspect.cause_id for suspect in found.suspects]
    assert causes == (["none_healthy"] if end else [])
    assert ("cannot tell" in str(found)) == (not end)


def test_records_of_calls_that_end_apart_do_not_show_health():
    end = "comm 0x5500 rank 0 nranks 2 cudaDev 0 - Destroy COMPLETE"
    found = fl.doctor(calls(0, *SAME, end=end), calls(1, SAME[0]))
    assert not found.suspects and "cannot tell" in str(found)


def run(rate, **settings):
    """Return the command and the table of an all-reduce of four ranks with a bus bandwidth [GB/s]."""
    rows = []
    for power in (28, 30, 32):
        time = 2**power * 1.5 / rate / 1e3
        half = f"{time:.1f} {rate / 1.5:.2f} {rate:.2f} 0"
        rows.append(f"{2**power} {2**power // 4} float sum -1 {half} {half}")
    head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
    ranks = [
        f"#  Rank  {rank} Group  0 Pid 7 on n{rank} device  0 [0x1b] NVIDIA B99"
        for rank in range(4)
    ]
    given = " ".join(f"-x {name}={value}" for name, value in settings.items())
    command = f"$ mpirun -np 4 {given} ./all_reduce_perf"
    return "\n".join([command, *ranks, head, *rows, ""])


QPS = "NCCL_IB_QPS_PER_CONNECTION"


@pytest.mark.parametrize(
    ("fast", "setting", "gains"),
    [
        ({QPS: 4, "NCCL_IB_ADAPTIVE_ROUTING": 1}, "NCCL_IB_ADAPTIVE_ROUTING=1", True),
        ({QPS: 4, "NCCL_IB_TC": 41}, f"({QPS}=4 was set in a slow run already)", False),
        ({QPS: 4}, "unset NCCL_IB_TC", True),
    ],
)
def test_what_differs_between_slow_and_fast_runs_is_the_setting(fast, setting, gains):
    slow = {QPS: 4, "NCCL_IB_TC": 41}
    suspects = fl.doctor(a=run(100, **slow), b=run(101, **slow), c=run(180, **fast)).suspects
    found = next(each for each in suspects if each.cause_id == "hash_collisions")
    assert found.setting.startswith(setting)
    assert (found.gain > 1) == gains


def test_a_fabric_manager_that_runs_is_not_to_be_started():
    log = message("Cuda failure 999 'unknown error'", level="WARN", where="transport/nvls.cc:223 ")
    unit = "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
    for state, advised in (("active (running)", "stop"), ("inactive (dead)", "enable --now")):
        found = fl.doctor(log, status=f"{unit}     Active: {state} since Fri\n").suspects[0]
        assert found.cause_id == "nvls_fabric_manager"
        assert found.setting.startswith(f"systemctl {advised}")


@pytest.mark.parametrize("address", ["", "10.0.1.1/24"])
def test_a_device_without_an_address_is_given_one_first(address):
    log = "".join(
        message("NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", host=host)
        for host in ("n1", "n2")
    )
    ports = (
        "mlx5_0 port 1 ==> ens1 (Up)\nmlx5_1 port 1 ==> ens2 (Up)\n$ ip -br addr\n"
        f"ens1 UP 10.0.0.1/24\nlo UNKNOWN 127.0.0.1/8 ::1/128\nens2 UP {address} fe80::1/64\n"
    )
    found = fl.doctor(log, ports=ports).suspects[0]
    assert found.cause_id == "one_nic_used"
    assert "NCCL_IB_HCA=mlx5_0,mlx5_1" in found.setting and "CROSS_NIC" not in found.setting
    assert ("IPv4 address" in found.why) == ("show_gids" in found.action) == (not address)
    assert "mlx5_1 of ports is up" in found.why


def test_a_group_is_told_which_of_its_directions_lack_a_rule():
    tcp = {"IpProtocol": "tcp", "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
    out = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    group = {"GroupId": "sg-1", "IpPermissions": [tcp], "IpPermissionsEgress": [out]}
    text = json.dumps({"SecurityGroups": [group]}, indent=1)
    found = fl.doctor(groups=text).suspects[0]
    assert found.cause_id == "firewall"
    assert '"IpProtocol": "tcp"' in found.where.text
    assert "no inbound and no outbound rule" in found.why
    assert "in: tcp (10.0.0.0/8); out: all protocols (0.0.0.0/0)" in found.why


UNEVEN = message("NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]", host="n1") + message(
    "NET/IB : Using [0]mlx5_1:1/RoCE [RO]", host="n2"
)
APART = message(
    "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, "
    "local GID index 3, local GID ::ffff:10.0.0.2, remote GID ::ffff:10.9.1.3",
    level="WARN",
)
GIDS = "mlx5_1\t1\t3\t0000:0000:0000:0000:0000:ffff:0a09:010{n}\t10.9.1.{n}  \tv2\tens2\n"


def test_hosts_with_other_numbers_of_devices_are_no_dead_rails_unless_a_port_is_down():
    found = fl.doctor(UNEVEN + APART, a=GIDS.format(n=2), b=GIDS.format(n=3)).suspects
    assert found[0].cause_id == "wrong_hca"
    assert found[0].setting == "NCCL_IB_HCA=mlx5_1"
    assert all(each.sure < 0.5 for each in found if each.cause_id == "rails_down")
    down = (
        "mlx5_0 port 1 ==> ens1 (Down)\nmlx5_1 port 1 ==> ens2 (Up)\nmlx5_2 port 1 ==> ens3 (Up)\n"
    )
    assert fl.doctor(UNEVEN, ports=down).suspects[0].cause_id == "rails_down"


def test_what_no_file_says_of_the_cluster_is_marked_as_assumed():
    table = run(300).replace("NVIDIA B99", "NVIDIA H100 80GB HBM3")
    nics = message("NET/IB : Using [0]mlx5_0:1/IB [RO]")
    page = str(fl.doctor(table + nics))
    assert "assumed, since no file says: the rate of a NIC, how the servers are joined" in page


def trials(slow, factor):
    """Return hosts and a bandwidth [GB/s] of each trial: all groups of three of seven hosts."""
    found = []
    for number, group in enumerate(itertools.combinations(range(1, 8), 3)):
        hosts = [f"node-{n:02d}" for n in group]
        found.append((hosts, round((370 + number % 5 / 10) * (factor if slow in hosts else 1), 2)))
    return found


def as_lines(rows):
    return "".join(
        json.dumps({"ts": "2026-06-02T21:04:11Z", "nodes": h, "busbw_gbps": r}) + "\n"
        for h, r in rows
    )


def as_csv(rows):
    return "trial,nodes,busbw\n" + "".join(f'1,"{",".join(h)}",{r}\n' for h, r in rows)


def as_table(rows):
    return "| hosts | time (s) |\n| --- | --- |\n" + "".join(
        f"| {' '.join(h)} | {1e3 / r} |\n" for h, r in rows
    )


@pytest.mark.parametrize("write", [as_lines, as_csv, as_table])
@pytest.mark.parametrize(("factor", "named"), [(0.997, True), (0.5, True), (1.0, False)])
def test_a_list_of_trials_is_grouped_by_host(write, factor, named):
    found = fl.doctor(trials=write(trials("node-04", factor))).suspects
    assert [each.cause_id for each in found] == (["slow_node"] if named else [])
    assert not named or "node-04" in found[0].why


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("", "one NIC of 400 Gb/s, which carries 384 Gb/s then"),
        (
            " 65536 5000 0.00 390.40 0.7\n",
            "one NIC of which a test of RDMA alone gets 390 Gb/s, which carries 384 Gb/s then",
        ),
    ],
)
def test_a_measured_rate_is_not_called_the_rate_of_the_nic(facts, words):
    nic = message("NET/IB : Using [0]mlx5_0:1/IB [RO]")
    head = " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
    found = fl.doctor(run(48) + nic, write_bw=(head + facts) if facts else None)
    assert f"48 GB/s at the largest sizes; that fits {words}" in found.suspects[0].why
    assert f"That fits {words}" in str(found)
