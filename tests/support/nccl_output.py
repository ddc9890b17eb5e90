"""What NCCL and nccl-tests print, for tests of the doctor: messages of ranks, and a table of an all-reduce."""


def table(rate, gpu, hosts, per_host, small=64.0):
    """Return what nccl-tests prints of an all-reduce with a largest bus bandwidth [GB/s]."""
    ranks = len(hosts) * per_host
    lines = [
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8589934592 step: 2(factor)",
        "# Using devices",
    ]
    for rank in range(ranks):
        host = hosts[rank // per_host]
        lines.append(
            f"#  Rank {rank} Group  0 Pid {100 + rank} on {host} device {rank % per_host} [0x1b] {gpu}"
        )
    lines.append(
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"
    )
    factor = 2 * (ranks - 1) / ranks
    for power in range(20, 34):
        size = 2**power
        time = small + size * factor / rate / 1e3  # [us]
        bus = size * factor / time / 1e3
        row = f"{time:.1f} {bus / factor:.2f} {bus:.2f} 0"
        lines.append(f"{size} {size // 4} float sum -1 {row} {row}")
    return "\n".join(
        [*lines, "# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {rate / 2:.4f}", ""]
    )


def said(host, gpu, words, level="INFO", where=""):
    """Return a message of NCCL."""
    return f"{host}:{700 + gpu}:{900 + gpu} [{gpu}] {where}NCCL {level} {words}"


def start(hosts, gpus, *words):
    """Return what every rank prints."""
    return [
        said(host, gpu, each.format(gpu=gpu))
        for host in hosts
        for gpu in range(gpus)
        for each in words
    ]


def eight_nics(layer, more=""):
    """Return the line that names the network devices of a server with eight of them."""
    return (
        "NET/IB : Using "
        + " ".join(f"[{i}]mlx5_{i}:1/{layer}{more}" for i in range(8))
        + " [RO]; OOB bond0:10.1.1.1<0>"
    )
