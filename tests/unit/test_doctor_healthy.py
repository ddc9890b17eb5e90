"""Runs in which nothing is wrong, with the lines that look as if something were: the doctor names no fault of theirs.

The lines are those that the tools print on sound machines; hosts, numbers of processes and addresses are made up.
"""

import json

import pytest

import fabriclab as fl
from support.nccl_output import eight_nics, said, start, table


def sharp_plugin():
    hosts = ["dgx-1", "dgx-2"]
    lines = start(
        hosts,
        8,
        "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
        "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v7 (v7)",
        "NET/Plugin: Failed to find ncclCollNetPlugin_v8 symbol.",
        eight_nics("IB", "/SHARP"),
        "Using network IBext_v7",
        "Channel 0{gpu}/0 : {gpu}[{gpu}] -> 1{gpu}[{gpu}] [send] via NET/IBext_v7/{gpu}/GDRDMA",
    )
    closed = start(hosts, 8, "[Service thread] Connection closed by localRank {gpu}")
    return (
        "\n".join(lines)
        + "\n"
        + table(386, "NVIDIA H100 80GB HBM3", hosts, 8)
        + "\n".join(closed)
        + "\n"
    )


def rccl_with_warnings():
    hosts = ["mi300-1"]
    lines = start(
        hosts,
        8,
        "NET/IB : No device found.",
        "Using network Socket",
        "Kernel version: 5.15.0-116-generic",
    )
    lines += start(
        hosts, 8, "Channel 00/0 : {gpu}[c000] -> 1[22000] via P2P/IPC comm 0x55e0 nRanks 08"
    )
    for words in (
        'NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable by "sudo sysctl kernel.numa_balancing=0"',  # noqa: E501
        'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
    ):
        lines.append(said("mi300-1", 0, words, "WARN", "/src/rccl/init.cc:99 "))
    return "\n".join(lines) + "\n" + table(309, "AMD Instinct MI300X", hosts, 8, small=30)


def rccl_training():
    lines = []
    for words in (
        'Missing "amd_iommu=on" from kernel command line which can lead to system instablity or hang!',
        'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
        'Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which can lead to low RCCL performance, system instablity or hang!',  # noqa: E501
    ):
        lines.append(said("g1072", 0, words, "WARN", "/src/rccl/init.cpp:126 "))
    lines += [f"step {step}: loss={5 - step / 30:.3f} time/step=0.81s" for step in range(60)]
    return "\n".join([*lines, "training finished in 00:12:41", ""])


def efa():
    hosts = ["ip-10-0-1-11", "ip-10-0-1-12"]
    lines = [
        "libfabric:700:1:core:core:fi_getinfo_():1021<warn> Can't find provider with the highest priority"
    ]
    lines += start(
        hosts,
        8,
        "NET/OFI Running on P4d platform, Setting NCCL_TOPO_FILE environment variable to /usr/share/aws-ofi-nccl/xml/p4d-24xl-topo.xml",  # noqa: E501
        "NET/OFI Selected Provider is efa (found 4 nics)",
        "NET/Plugin: Failed to find ncclCollNetPlugin_v6 symbol.",
        "Using network AWS Libfabric",
        "Setting affinity for GPU {gpu} to ffffff",
    )
    lines += start(
        hosts,
        4,
        "Channel 0{gpu}/0 : 7[{gpu}] -> 8[{gpu}] [send] via NET/AWS Libfabric/{gpu}/GDRDMA",
    )
    return "\n".join(lines) + "\n" + table(45.5, "NVIDIA A100-SXM4-40GB", hosts, 8, small=150)


def vllm():
    lines = [
        "WARNING 03-04 11:20:19 [custom_all_reduce.py:146] Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",  # noqa: E501
        "WARNING 03-04 11:20:19 [fused_moe.py:600] Using default MoE config. Performance might be sub-optimal!",
    ]
    lines += start(
        ["l40"],
        4,
        "NET/Plugin: No plugin found (libnccl-net.so)",
        "Failed to open libibverbs.so[.1]",
        "Bootstrap : Using eth0:172.17.0.4<0>",
        "Using network Socket",
        "Channel 00 : {gpu}[{gpu}] -> 1[1] via SHM/direct/direct",
        "comm 0x4d rank {gpu} nRanks 4 nNodes 1 localRanks 4 localRank {gpu} MNNVL 0",
    )
    lines += [
        "INFO:     Application startup complete.",
        "INFO 03-04 [loggers.py:80] Avg generation throughput: 540.1 tokens/s",
    ]
    return "\n".join([*lines, ""])


def desktop():
    lines = [
        "WARNING: There was an error initializing an OpenFabrics device.",
        "  Local device: mlx4_0",
    ]
    lines += start(
        ["box"],
        2,
        "NET/IB : No device found.",
        "Using network Socket",
        "NCCL_IB_DISABLE set by environment to 1.",
    )
    lines += start(
        ["box"],
        2,
        "Could not enable P2P between dev 1(=2c000) and dev 0(=1)",
        "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
    )
    return "\n".join(lines) + "\n" + table(9.6, "NVIDIA GeForce RTX 4090", ["box"], 2, small=20)


def groups_of_several_sizes():
    lines = start(
        ["n1"], 8, "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    )
    for size, channels in ((8, 16), (4, 24), (2, 32)):
        for gpu in range(8):
            lines.append(
                said(
                    "n1",
                    gpu,
                    f"{channels} coll channels, {channels} collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer",  # noqa: E501
                )
            )
            lines.append(
                said(
                    "n1",
                    gpu,
                    f"ncclCommInitRank comm 0x{size}{gpu} rank {gpu % size} nranks {size} cudaDev {gpu} busId 1b000 - Init COMPLETE",  # noqa: E501
                )
            )
    lines += [
        f"iteration {step}/ 40 | elapsed time per iteration (ms): 812.2 | lm loss: 2.{90 - step} |"
        for step in range(40)
    ]
    lines.append(
        "[rank0]:[W304 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL."  # noqa: E501
    )
    return "\n".join([*lines, "training done", ""])


def roce_with_a_library_missing():
    hosts = ["r1", "r2"]
    lines = [
        "libibverbs: Warning: couldn't load driver 'libvmw_pvrdma-rdmav34.so': libvmw_pvrdma-rdmav34.so: cannot open shared object file"  # noqa: E501
    ]
    lines += start(
        hosts,
        8,
        "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation",  # noqa: E501
        eight_nics("RoCE"),
        "Using network IB",
        "NCCL_IB_GID_INDEX set by environment to 3.",
        "Channel 0{gpu}/0 : {gpu}[{gpu}] -> 1{gpu}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA",
    )
    return "\n".join(lines) + "\n" + table(372, "NVIDIA H100 80GB HBM3", hosts, 8)


def two_small_machines():
    hosts = ["spark-1", "spark-2"]
    lines = []
    for host, address in zip(hosts, ("192.168.100.10", "192.168.100.11"), strict=True):
        for words in (
            f"Bootstrap: Using enp1s0f1np1:{address}<0>",
            "NET/Plugin: Could not find: libnccl-net.so",
            "PROFILER/Plugin: Could not find: libnccl-profiler.so",
            "NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; OOB enp1s0f1np1:192.168.100.10<0>",
            "Using network IB",
            "DMA-BUF is not available on GPU device 0",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
            "Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/1",
        ):
            lines.append(said(host, 0, words))
    return "\n".join(lines) + "\n" + table(22.4, "NVIDIA GB10", hosts, 1, small=60)


def torchrun():
    lines = [
        "W1018 10:11:09.621000 140 torch/distributed/run.py:778] Setting OMP_NUM_THREADS environment variable for each",
        "[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3",
    ]
    for rank in range(4):
        lines.append(
            f"[rank{rank}]:[W1018 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank {rank}] using GPU {rank} to perform "  # noqa: E501
            "barrier as devices used by this process are currently unknown. This can potentially cause a hang if this "
            "rank to GPU mapping is incorrect."
        )
    lines += start(["n1"], 4, "Failed to open libibverbs.so[.1]", "Using network Socket")
    lines += start(
        ["n1"], 4, "comm 0x5 rank {gpu} nRanks 4 nNodes 1 localRanks 4 localRank {gpu} MNNVL 0"
    )
    lines += [f"Epoch 1 step {step} loss {3 - step / 50:.3f} lr 0.0003" for step in range(50)]
    lines += start(
        ["n1"], 4, "comm 0x5 rank {gpu} nranks 4 cudaDev {gpu} busId 1b000 - Abort COMPLETE"
    )
    return "\n".join([*lines, "Training complete.", ""])


HEALTHY = (
    torchrun,
    rccl_training,
    vllm,
    desktop,
    groups_of_several_sizes,
    two_small_machines,
)
# Their own tables end below the band of the model: by 1 %, or since rings over full NICs were used.
BELOW_THEIR_BAND = (sharp_plugin, rccl_with_warnings, efa, roce_with_a_library_missing)


@pytest.mark.parametrize("log", HEALTHY)
def test_lines_that_look_like_trouble_are_none_in_a_run_that_is_well(log):
    found = fl.doctor(log()).suspects
    assert [suspect.cause_id for suspect in found[:1]] == ["none_healthy"], found
    assert all(suspect.sure < 0.4 for suspect in found[1:]), found


@pytest.mark.parametrize("log", BELOW_THEIR_BAND)
def test_no_line_that_looks_like_trouble_is_blamed_for_a_rate_below_its_band(log):
    found = fl.doctor(log())
    (comparison,) = found.comparisons
    assert comparison.below and comparison.healthy is None
    assert comparison.near in ("close", "full")
    assert all(suspect.sure < 0.4 for suspect in found.suspects), found.suspects
    assert "none_healthy" not in [suspect.cause_id for suspect in found.suspects]
    assert "look closer" in str(found)


def test_a_cloud_group_beside_one_that_lets_itself_in_is_no_fault():
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-2"}]}]
    web = {"GroupId": "sg-1", "IpPermissions": [], "IpPermissionsEgress": []}
    cluster = {"GroupId": "sg-2", "IpPermissions": itself, "IpPermissionsEgress": itself}
    both = json.dumps({"SecurityGroups": [web, cluster]})
    assert fl.doctor(groups=both + "\n").suspects == ()
    assert (
        fl.doctor(groups=json.dumps({"SecurityGroups": [web]}) + "\n").suspects[0].cause_id
        == "firewall"
    )
    # One line of many groups is longer than the part of a line that is looked at.
    many = [
        {"GroupId": f"sg-9{n}", "IpPermissions": [], "IpPermissionsEgress": []} for n in range(99)
    ]
    long = json.dumps({"SecurityGroups": [*many, cluster]}) + "\n"
    assert len(long) > 4_000
    assert fl.doctor(groups=long).suspects == ()
