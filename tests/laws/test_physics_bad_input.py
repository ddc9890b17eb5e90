"""Every argument of physics and the catalog refuses what it cannot use: what was given, and what is expected."""

import inspect
import math
import traceback

import numpy as np
import pytest

from fabriclab import catalog, physics, topologies
from fabriclab.catalog import published
from fabriclab.catalog.tables import load_table, table_names
from fabriclab.physics import (
    coding,
    electrical,
    frames,
    media,
    memory,
    optical,
    photonic,
    quantum,
    switching,
    wireless,
)

FABRIC, RNG = topologies.build("torus", shape=(4,)), np.random.default_rng(1)
PAIR, SWAP = quantum.pair(), np.eye(3)[[1, 2, 0]]
KP4 = "RS(544,514)"
# Each function with arguments that it takes.
GOOD = [
    (coding.rates, 8, "53 GHz", 2, KP4),
    (coding.word_error, 1e-4, KP4),
    (coding.frame_loss, 1e-4, KP4, 64, 1),
    (coding.gain, KP4, 1e-12),
    (coding.fec_latency, KP4, "100 Gb/s"),
    (electrical.loss, "1 GHz", "2 m", 26),
    (electrical.reach, "53 GHz", 28.0, 26),
    (electrical.energy, "1 mm"),
    (electrical.bit_energy, "1 mm"),
    (electrical.beachfront, "LR", "1 mm", "100 Gb/s"),
    (frames.roce_v1, b"data"),
    (frames.roce_v2, b"data"),
    (frames.infiniband, b"data"),
    (frames.dissect, bytes(frames.roce_v2(b"data")), "ethernet"),
    (frames.is_intact, frames.roce_v2(b"data")),
    (media.choose, "2 m", "400 Gb/s", "power", ["copper"]),
    (media.hall, FABRIC, "power", ["fibre"]),
    (media.offers, "NIC", ["fibre"]),
    (media.lengths, FABRIC),
    (media.least, [2.0], media.offers("NIC")),
    (memory.load, "CXL"),
    (memory.tier, "CXL"),
    (memory.evidence, "CXL"),
    (memory.read_rate, "flit68", "cxl2.0"),
    (memory.throughput, 10, 1e-7, 1e9),
    (memory.loaded, 10, 1e-7, 1e9),
    (memory.bought, np.ones((5, 4)), 2, 0.01),
    (memory.place, {"a": (1, 1, 0)}, {"t": (5, 1.0)}),
    (memory.bought_normal, 1e9, 1e8, 16, 4, 0.01),
    (memory.mesi, [("host", "load")]),
    (memory.queue_messages, 5, 2),
    (memory.moved, 1e9, 0.01, 64),
    (optical.budget, 0, -5, "1 km", {"a": 1.0}, 0.5),
    (optical.channels, "O", "20 nm"),
    (optical.delay, "2 m", 1.468),
    (optical.drift, 1.0, "1550 nm", "100 GHz"),
    (optical.heater, "1 nm"),
    (optical.module, "dsp", "800 Gb/s"),
    (photonic.settings, SWAP),
    (photonic.mesh, *photonic.settings(SWAP)),
    (photonic.io, 4, 4, 1e9, 1e-12, 1),
    (photonic.disturb, np.ones((3, 2)), 0.1, 8, RNG),
    (photonic.product, SWAP, np.ones((3, 2)), lambda x: x, 0.0),
    (photonic.effective_bits, np.ones(3), np.full(3, 1.1)),
    (quantum.pair, 0.9),
    (quantum.channel, PAIR, quantum.depolarising(0.1), "bob"),
    (quantum.reduced, PAIR, "bob"),
    (quantum.depolarising, 0.1),
    (quantum.fidelity, PAIR),
    (quantum.chsh, PAIR),
    (quantum.teleport, [1, 0], PAIR, 2),
    (quantum.pair_rate, 1e3, 0.1, 1e-6, 0.2, 2),
    (quantum.repeaterless, 1e3, 0.2),
    (quantum.stored, 0.9, 1e-3, 1e-2),
    (quantum.bits_per_pair, "400 Gb/s", 5e5),
    (physics.held, "coding"),
    (switching.duty, "1 ms", "1 us"),
    (switching.bytes_for, 0.9, "1 ms", "400 Gb/s"),
    (switching.break_even, "400 Gb/s", "1 ms", "100 Gb/s", "1 us"),
    (wireless.path_loss, "2 m", "60 GHz"),
    (wireless.array_gain, 16),
    (wireless.beam_width, 16),
    (wireless.misalignment, 0.1, 16),
    (wireless.budget_steps, "2 m"),
    (wireless.beside, "2 m", "0.2 m", 16, 1),
    (wireless.radios, "400 Gb/s"),
    (catalog.value, "links", "nvlink4", "bandwidth_per_gpu"),
    (catalog.search, "retimer"),
    (catalog.cite, "MLE-acc"),
    (published.load, "h100x8_ring"),
    (published.system, "h100x8_ring"),
    (published.identifier, "all_reduce"),
]
BAD = [
    None,
    "",
    "no such thing",
    b"x",
    True,
    10**400,
    1 + 2j,
    math.nan,
    object(),
    ["x", 5],
    [[1], [1, 2]],
    {"a": 5},
    np.full((2, 2), math.nan),
]
# What an argument does take: None leaves it out, no text is no access, and a loss of 5 dB may have any name.
USED = {(name, 0) for name in ("peak", "spacing", "lane_rate", "losses", "attenuation")} | {
    ("accesses", 1),
    ("data", 3),
    ("losses", 11),
}
ASKED = [(f, given, i) for f, *given in GOOD for i in range(len(given))]


@pytest.mark.parametrize(
    ("ask", "given", "i"), ASKED, ids=lambda x: getattr(x, "__qualname__", "_")
)
def test_what_cannot_be_is_refused_by_the_library_itself(ask, given, i):
    name = [*inspect.signature(ask).parameters][i]
    ask(*given)
    for k, bad in enumerate(BAD):
        if (name, k) in USED:
            continue
        with pytest.raises((ValueError, TypeError, KeyError)) as error:
            ask(*given[:i], bad, *given[i + 1 :])
        last = traceback.extract_tb(error.tb)[-1]
        assert "/fabriclab/" in last.filename and "raise" in last.line, (bad, error.value)
        assert any(word in str(error.value) for word in ("got ", "has no ", "unknown unit")), (
            bad,
            error.value,
        )
        assert any(x in str(error.value) for x in ("; ", "one of ", "did you mean", "such as")), (
            bad,
            error.value,
        )


def test_every_function_is_asked():
    modules = [getattr(physics, name) for name in physics.__all__ if name != "held"]
    public = {
        f
        for m in modules
        for n, f in vars(m).items()
        if inspect.isfunction(f) and not n.startswith("_")
    }
    taken = {
        f
        for f in public
        if f.__module__.split(".")[-1] in physics.__all__ and inspect.signature(f).parameters
    }
    assert taken <= {f for f, *_ in GOOD} | {wireless.link}


@pytest.mark.parametrize("name", [*inspect.signature(wireless.link).parameters])
def test_a_radio_link_names_what_it_refuses(name):
    for bad in (set(BAD[1:7]) - {None}) | {1e300}:
        with pytest.raises((ValueError, TypeError), match=r"must be|needs|unknown unit"):
            wireless.link(**{"distance": "2 m"} | {name: bad})


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda: memory.moved(1e9, 5),
            r"share must be finite and >= 0 and <= 1 in SI, got 5; give a value within",
        ),
        (
            lambda: memory.moved(-1, 0.5),
            "size must be finite and >= 0 in SI, got -1; give a value within",
        ),
        (lambda: memory.moved(1, 0.5, 0), "record must be finite and >= 1 in SI, got 0"),
        (
            lambda: memory.place({"a": (0, 1, 0)}, {"t": (5, 1)}),
            r"must be at least \[1, 0, 0\], got {'a': \(0, 1, 0\)}",
        ),
        (
            lambda: memory.place({"a": (1, 1, 0), "b": (1, 1)}, {"t": (5, 1)}),
            r"size, touched, rate.*3 numbers.*'b'",
        ),
        (
            lambda: memory.place({"a": (1, 1, 0)}, {"t": (5, 0)}),
            r"tiers, a dict of name: \(room, rate\), must",
        ),
        (lambda: memory.place({"a": (1, 1, 0)}, {}), r"tiers, .* got {}"),
        (lambda: memory.bought([[1, math.nan]]), "demand must be finite"),
        (lambda: memory.bought(np.ones((2, 2)), 1, 2), "spill must be finite and >= 0 and <= 1"),
        (lambda: memory.bought_normal(1, 1, 4, 0), "pool must be >= 1, got 0"),
        (
            lambda: memory.mesi([("host",)]),
            r'accesses must be pairs: \[\("host", "load"\), ...\], got \[\(.host.,\)\]',
        ),
        (
            lambda: memory.queue_messages(10**9),
            r"items must be within 1\.\.1000000, got 1000000000",
        ),
        (
            lambda: quantum.bits_per_pair("400 Gb/s", 0),
            "pairs must be finite and >= 1e-09 in SI, got 0",
        ),
        (lambda: quantum.stored(0.9, 1, 0), "memory must be finite and >= 1e-12"),
        (lambda: quantum.stored(2, 1, 1), "quality must be finite and >= 0 and <= 1"),
        (lambda: quantum.repeaterless(0), "length must be finite and >= 0.001"),
        (lambda: quantum.pair_rate(0, 0.5, 0), "overhead must be finite and >= 1e-12"),
        (
            lambda: quantum.fidelity(np.ones((4, 4))),
            "state must be Hermitian of trace 1, got trace 4; take one of pair",
        ),
        (
            lambda: quantum.chsh(np.diag([2, -1, -1, 1])),
            "state must have no negative eigenvalue, got -1; take one",
        ),
        (
            lambda: quantum.fidelity(np.eye(3)),
            r"state must be finite numbers of shape \(4, 4\), got \(3, 3\)",
        ),
        (lambda: quantum.teleport([1, 1], PAIR), "qubit must have length 1, got 1.41421; divide"),
        (
            lambda: photonic.settings(5),
            r"unitary must be finite numbers of shape \(any, any\), got \(1,\) 5",
        ),
        (lambda: photonic.settings(np.ones((2, 3))), r"orthonormal rows \(n, n\), got \(2, 3\)"),
        (
            lambda: photonic.product(SWAP, np.ones((2, 2)), lambda x: x),
            r"vectors .* shape \(3, any\), got \(2, 2\)",
        ),
        (lambda: photonic.io(0, 4, 1e9, 0), "rows must be >= 1, got 0; give a whole number"),
        (lambda: coding.rates(8, "53 GHz", 0), "bits must be finite and >= 0.001 in SI, got 0"),
        (
            lambda: coding.rates(8, "53 GHz", "5 Gbps"),
            "bits has the unknown unit 'Gbps' .* write a plain number such as",
        ),
        (
            lambda: coding.word_error("x", KP4),
            "ber must be a number .* got 'x'; write a plain number such as 0.5",
        ),
        (
            lambda: electrical.loss("5 Gbps", 1),
            "frequency has the unknown unit 'Gbps'(?!.*two ways)",
        ),
        (lambda: media.choose("2 m", media=5), "media must be a sequence of texts"),
        (lambda: media.hall(5), r"fabric must be a Fabric, got 5; make one with topologies\.build"),
        (
            lambda: switching.break_even("400 Gb/s", -1, "100 Gb/s", 0),
            "reconfiguration must be within 0",
        ),
        (lambda: physics.held("codin"), "model must be one of coding, .*did you mean 'coding'"),
        (lambda: optical.delay(1, 0.5), "index must be finite and >= 1 and <= 10"),
    ],
)
def test_errors_help(ask, text):
    with pytest.raises((ValueError, TypeError), match=text):
        ask()


def test_a_part_is_found_in_every_way_of_a_dict():
    links = catalog.links
    assert links.get("NDR") is links["NDR"] and "NDR" in links and "InfiniBand NDR" in links
    assert links.get("NRD") is None and links.get([], 5) == 5 and "NRD" not in links
    assert ["nvlink4"] not in links and links.get(("nvlink4",)) is None
    assert all(t[key].specs[0].id == key for t in map(load_table, table_names()) for key in t)
    with pytest.raises(KeyError, match=r"catalog\.links has no 5"):
        links[5]
    with pytest.raises(KeyError, match="the catalog has no 5"):
        catalog.search(5)


def test_a_circuit_nearly_as_slow_as_packets_has_a_finite_end():
    assert math.isfinite(switching.break_even(np.nextafter(50e9, 60e9), "1 ms", 50e9, 0))
