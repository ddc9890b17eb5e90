"""The figures in truths of the errata page, computed from the catalog and by the library.

Rows without one here rest on words, on a source alone, or on a run that their lesson has.
"""

import math
import re

import pytest

import fabriclab as fl
from fabriclab.catalog import case, load_table, published, value
from fabriclab.course.checks.statements import rows


def giga(table, part, attribute, **where):
    return value(table, part, attribute, **where) / 1e9


def written(table, part, attribute, **where):
    return float(load_table(table)[part].spec(attribute, **where).value)


def polaris(sweep, size=None):
    run = published.load(f"polaris_{sweep}")
    return run.at(size) * 1e6 if size else run.busbw[-1] / 1e9


def gain(gpu):
    one = {"name": f"8x {gpu} all-reduce 8 GiB"}
    return value("measured", f"{gpu.lower()}-n", "busbw", **one) / value(
        "measured", f"{gpu.lower()}-n", "busbw_ring", **one
    )


def ring():
    return giga("measured", "h200-n", "busbw_ring", name="8x H200 all-reduce 8 GiB")


def stops(cause=""):
    start = "Llama 3 405B unexpected interruptions: "
    specs = load_table("reliability").specs
    return sum(
        float(s.value) for s in specs if s.attribute == "count" and s.name.startswith(start + cause)
    )


def sent(algorithm):
    return fl.collectives.build("all_reduce", algorithm, 8).sent().max()


def better(attribute):
    good, plain = (
        value("systems", f"gigaio-2s-2rp-{kind}-flat", attribute) for kind in ("split", "std")
    )
    return good / plain


def tokens(wiring, gpus):
    return written("systems", f"gigaio-{wiring}", f"output_405b_{gpus}_gpus")


LINKS, LINK = (
    value("links", "nvlink4", "links_per_gpu"),
    giga("links", "nvlink4", "bandwidth_per_link"),
)
NVLINK, HBM = (
    giga("accelerators", "h100", "scaleup_bandwidth"),
    giga("accelerators", "h100", "hbm_bandwidth"),
)
PCIE5, RAW5 = (
    giga("links", "pcie5", "bandwidth_after_encoding"),
    giga("links", "pcie5", "raw_bandwidth"),
)
PORTS, NIC = written("switches", "nvswitch3", "ports"), giga("nics", "cx7", "throughput")
GPUS, TRAY = written("systems", "nvl72", "gpus"), written("systems", "gb200", "gpus")
COPY, A100 = (
    giga("memory_path", "h2d", "bandwidth"),
    giga("accelerators", "a100", "scaleup_bandwidth"),
)
CUBE = 4**3  # chips of a cube of 4 x 4 x 4, which has 16 fibres on each of 6 faces
CUBES, FIBRES = written("systems", "tpu4pod", "chips") / CUBE, 6 * 4**2
POD = CUBES * FIBRES / 2 * value("links", "ici-tpu4", "bandwidth_per_link")
RADIO = value("wireless60", "w60", "phy_rate_max") * 8 / 1e9
NOISE = "example budget 2 m, 40 dBm EIRP, 23 dBi Rx, NF 7, IL 5"
SNR = 10 ** (written("wireless60", "w60", "snr", name=NOISE) / 10)
SHANNON = value("wireless60", "w60", "bandwidth") * math.log2(1 + SNR) / 1e9
RUN = 54 * 24  # hours of the run of Llama 3, as the rows of `reliability` say
WORD = 544 * 10  # bits of a code word of RS(544,514)
SWITCHING = max(map(float, load_table("switches")["palomar"]["switching_time"].value.split("..")))

# id -> words of the truth that begin with a figure, and the figure computed in their unit.
FIGURES = {
    "E01": {
        "18 links": LINKS,
        "25 GB/s per": LINK,
        "450 GB/s": LINKS * LINK,
        "900 GB/s": 2 * LINKS * LINK,
        "370.8 GB/s": LINKS * giga("links", "nvlink4", "nccl_effective_per_link"),
        "365.6 GB/s": ring(),
    },
    "E02": {
        "18 links": sum(map(int, load_table("systems")["dgxh100"]["chip_links"].value.split())),
        "450 GB/s": NVLINK,
        "3.6 TB/s": 8 / 2 * 2 * NVLINK / 1e3,
    },
    "E03": {
        "64 ports": PORTS,
        "3.2 TB/s": PORTS * 2 * LINK / 1e3,
        "25.6 Tb/s": PORTS * 2 * LINK * 8 / 1e3,
        "12.8 Tb/s": PORTS * LINK * 8 / 1e3,
        "4 chips": written("systems", "dgxh100", "nvswitch_chips"),
        "18 chips": 2 * written("systems", "nvl72", "switch_trays"),
        "72 ports": written("switches", "nvswitch4", "ports"),
    },
    "E05": {"1.75 arrays": sent("halving_doubling"), "3 for n = 8": sent("recursive_doubling")},
    "E07": {
        "26.3 µs": polaris("n2_2.18_all_reduce_env3", 4),
        "48.8 µs": polaris("n2_2.18_all_reduce_env1", 4),
        "55.2 µs": polaris("n8_2.18_all_reduce_env4", 4),
        "136.5 µs": polaris("n8_2.18_all_reduce_env1", 4),
    },
    "E08": {
        "0.5 µs": value("links", "ib-edr", "adapter_latency") * 1e6,
        "0.6 µs": value("links", "ib-hdr", "adapter_latency") * 1e6,
    },
    "E09": {"55.4 GB/s": COPY, "18 ms": 1e3 / COPY},
    "E11": {"0.81": ring() / NVLINK},
    "E12": {
        "50 Gb/s": 8 * giga("links", "ib-hdr", "lane_data_rate"),
        "400 Gb/s": 8 * giga("links", "ib-ndr", "4x_data_rate"),
        "800 Gb/s": 8 * giga("links", "ib-xdr", "4x_data_rate"),
    },
    "E17": {
        "64 GB/s": RAW5,
        "1.9 %": 100 * RAW5 / HBM,
        "3350 GB/s": HBM,
        "220.5": value("emerging", "cxl-xconn", "latency") * 1e9,
        "600 ns": value("emerging", "cxl-switched", "latency") * 1e9,
    },
    "E18": {
        "2 m": written("media", "dac800", "reach_max"),
        "3 m": written("media", "dac800-split", "reach_max"),
        "15 to": written("media", "sr4x2", "power_max"),
        "17 W": written("media", "dr4x2", "power_max"),
    },
    "E19": {
        "64 cubes": CUBES,
        "96 fibres": FIBRES,
        "3072 optical": CUBES * FIBRES / 2,
        "138 TB/s": POD / 1e12,
        "1.1 Pb/s": 8 * POD / 1e15,
    },
    "E20": {"10 ms": SWITCHING * 1e3, "500 MB": SWITCHING * NIC * 1e3},
    "E21": {
        "6.76 Gb/s": RADIO,
        "60 radios": math.ceil(8 * NIC / RADIO),
        "41 Gb/s": SHANNON,
        "0.15 dB": 10e-3 * written("wireless60", "w60", "attenuation", name="oxygen absorption"),
    },
    "E22": {"80 µs": value("emerging", "ocs-24", "setup") * 1e6},
    "E23": {"3.09 h": RUN / stops(), "37 h": RUN / stops("network")},
    "E24": {
        "1.56": 2 * 7 / 9,
        "1.2 for 4": 2 * 3 / 5,
        "1.29 on": gain("H200"),
        "1.23 on": gain("B200"),
    },
    "E25": {"48 of them": FIBRES / 2},
    "E26": {
        "9 for H100": NVLINK / NIC,
        "18 for GB200": giga("accelerators", "gb200", "scaleup_bandwidth") / NIC,
        "48 for A100": A100 / giga("nics", "efa1", "node_throughput") * 8,
        "64 against": giga("links", "xgmi-mi300x", "bandwidth_per_link"),
        "1.3 times": giga("links", "xgmi-mi300x", "bandwidth_per_link") / NIC,
    },
    "E27": {
        "63.0 GB/s": PCIE5,
        "48 GB/s": giga("links", "pcie5", "nccl_effective"),
        "55.4 GB/s": COPY,
        "7.1 times": NVLINK / PCIE5,
        "126 GB/s": 2 * PCIE5,
    },
    "E28": {
        "2.7 µs": value("nccl_model", "hw", "latency_LL", name="hwLat NET Ring") * 1e6,
        "14 µs": value("nccl_model", "hw", "latency_Simple", name="hwLat NET Ring") * 1e6,
        "150 and": written("switches", "quantum2", "latency_port_to_port", source="Q2-rs"),
        "330 ns": written("switches", "quantum2", "latency_port_to_port", source="Q2-yobi"),
    },
    "E29": {
        "72 GPUs": GPUS,
        "576 GPUs": written("systems", "nvl576", "max_gpus"),
        "10,368": written("systems", "nvl576", "max_gpus") * LINKS,
    },
    "E32": {
        "8 groups": case().tp,
        "64 GPUs": 512 / case().tp,
        "450 GB/s": NVLINK,
        "365.6 GB/s": ring(),
    },
    "E35": {
        "512 Gb/s": 8 * RAW5,
        "256 Gb/s": 8 * giga("links", "pcie4", "raw_bandwidth"),
        "800 Gb/s": 8 * giga("nics", "cx8", "throughput"),
    },
    "E36": {"4.1 µs": value("memory_path", "p2p-pcie", "latency_min") * 1e6},
    "E40": {"5 switches": fl.metrics.hops(fl.topologies.build("fat_tree", k=4)).diameter - 1},
    "E43": {
        "3.4": better("busbw_all_gather"),
        "3.7": better("busbw_all_reduce"),
        "4.0": better("busbw_broadcast"),
    },
    "E45": {
        "15.86 tokens": tokens("1s-2rp-std-cascade", 16),
        "24.58": tokens("1s-2rp-std-cascade", 8),
        "35 %": 100 * (1 - tokens("1s-2rp-std-cascade", 16) / tokens("1s-2rp-std-cascade", 8)),
        "16.5 %": 100 * (tokens("2s-2rp-split-flat", 16) / tokens("2s-2rp-split-flat", 8) - 1),
    },
    "E46": {
        "18 trays": GPUS / TRAY,
        "72 GPUs": GPUS,
        "64 GB/s": giga("links", "xgmi-mi300x", "bandwidth_per_link"),
    },
    "E48": {
        "9.45 against": polaris("n2_2.18_all_reduce_env1"),
        "36.1 GB/s on 2": polaris("n2_2.18_all_reduce_env3"),
        "5.98 against": polaris("n8_2.18_all_reduce_env1"),
        "36.1 GB/s on 8": polaris("n8_2.18_all_reduce_env4"),
    },
    "E50": {
        "350 to": published.load("mi325x_2n").busbw[-1] / 1e9,
        "351 GB/s": published.load("mi325x_8n").busbw[-1] / 1e9,
    },
    "E54": {"2.25": 90 / 40},
    "E57": {
        "35 of": stops("network"),
        "419 stops": stops(),
        "8.4 %": 100 * stops("network") / stops(),
        "148": stops("faulty GPU"),
    },
    "E59": {
        "3350 GB/s": HBM,
        "450 GB/s": NVLINK,
        "63 GB/s": PCIE5,
        "50 GB/s": NIC,
        "67 times": HBM / NIC,
    },
    "E73": {"25.6 to": 2 * WORD / 425, "51.2 ns": WORD / 106.25},
}


@pytest.mark.parametrize("id", FIGURES)
def test_a_truth_has_the_figures_that_the_library_computes(id):
    for words, computed in FIGURES[id].items():
        assert re.search(rf"(?<![\d.,]){re.escape(words)}(?!\d)", rows()[id]["truth"]), words
        number = re.match(r"[\d.,]*\d", words)[0]
        assert f"{computed:,.{len(number.partition('.')[2])}f}".replace(",", "") == number.replace(
            ",", ""
        ), words


def test_no_truth_with_a_rate_or_a_time_is_left_out_unseen():
    """Rows with figures in a unit that are not computed: all of their figures rest on a source alone."""
    unit = r"\d (?:GB/s|Gb/s|TB/s|us|ms|ns|MB|%|GPUs)(?!\w)"
    left = {id for id, row in rows().items() if re.search(unit, row["truth"])} - FIGURES.keys()
    assert left == {"E42", "E44", "E56", "E60"}
