"""What the questions of lesson 81 call right is right by the library, and by what the lesson shows."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import fabriclab
from fabriclab import catalog, simulate, topologies
from fabriclab.course.questions import find
from fabriclab.physics import optical, photonic, quantum, switching
from fabriclab.texts import text
from fabriclab.views import live
from support.lesson_runs import FILES
from support.prose import states

LESSON = json.loads(FILES["81_emerging"].read_text("utf-8"))
CELLS = {c["id"]: "".join(c["source"]) for c in LESSON["cells"]}


def test_the_puzzle_is_above_every_list_and_carries_nothing():
    assert quantum.chsh(quantum.pair()) == pytest.approx(8**0.5)
    assert catalog.emerging["hensen"]["chsh"].value > 2
    zero = np.kron([[1, 0], [0, 0]], np.eye(2))
    kept = zero @ quantum.pair() @ zero
    # what Bob reads where Alice found 0
    assert kept[::2, ::2].trace() / kept.trace() == pytest.approx(1)
    assert np.allclose(quantum.reduced(quantum.pair()), np.eye(2) / 2)


@pytest.mark.parametrize(("r", "q"), [("400 Gb/s", 5e5), ("800 Gb/s", 2e4)])
def test_a_port_carries_so_many_bits_in_the_time_of_a_pair(r, q):
    # SI: bytes
    assert 8 * find("81-port").key({"r": r, "q": q}) == pytest.approx(quantum.bits_per_pair(r, q))


def trusted(size, bits, noise):
    """Return the bits that the view says can be trusted."""
    scene = live.mzi_mesh(size, bits, noise).scene
    return -np.log2(
        scene.table["off"][np.flatnonzero(scene.table["series"] == text("live.mzi_mesh.here"))[0]]
    )


def test_of_the_orders_for_a_mesh_one_has_8_bits():
    states(find("81-phase").right, "12 bits", "0.1 mrad")
    assert trusted(16, 12, 0.1) > trusted(16, 12, 0.3) > 8 > trusted(16, 12, 0.5)
    states(CELLS["81-colours-ask"], "12 bits", "0.3")
    wrong = {1: (8, 0.1), 2: (16, 1.0), 3: (16, 100.0)}
    for i, (bits, noise) in wrong.items():
        states(find("81-phase").wrong[i - 1].option, f"{bits} bits", f"{noise:g} mrad")
        assert trusted(16, bits, noise) < 8
    assert 7 < trusted(16, 16, 1.0) < 7.5  # as the last hint says
    assert trusted(16, 16, 100.0) < 1 and "thousandths" in CELLS["81-mesh-ask"]


def test_the_picture_has_the_matrices_of_the_lesson():
    a, x = np.random.default_rng(0).standard_normal((2, 2, 16, 16))
    made = [
        photonic.product(m, y, lambda p: photonic.disturb(p, 0, 8, np.random.default_rng(0)))
        for m, y in zip(a, x, strict=True)
    ]
    assert photonic.effective_bits(a @ x, made) == pytest.approx(trusted(16, 8, 0.1), abs=0.05)


def test_colours_add_products_and_no_exactness():
    a, x = np.random.default_rng(0).standard_normal((2, 2, 16, 16))

    def bits(colours, leak):
        def noise(phases):
            return photonic.disturb(phases, 1e-4, 12, np.random.default_rng(1))

        y = x[:, :, :colours]
        made = [photonic.product(m, k, noise, leak) for m, k in zip(a, y, strict=True)]
        return photonic.effective_bits(a @ y, made)

    # one bit more would be half of the error
    assert bits(16, 0) == pytest.approx(bits(8, 0), abs=0.3)
    assert bits(16, 0) - bits(16, 0.01) > 1  # a leak of 1 % costs more than all else


def test_a_mesh_of_16_has_480_phases_and_colours_do_not_change_its_bits():
    phases, _ = photonic.settings(np.eye(16))
    assert 2 * phases.size == 480
    states(CELLS["81-mesh-ask"], "480")
    assert photonic.io(128, 128, 1e9, 0.0, cores=4)[0] == pytest.approx(65.5e12, rel=1e-3)


def test_what_is_chosen_of_published_set_ups_is_called_so():
    for kind in ("piezo", "mems", "thermo-optic", "silicon-mems"):
        assert catalog.emerging[f"ocs-{kind}"]["setup"].note.startswith("chosen: ")
    setup = 220e6 * (1 / 25e9 - 1 / 50e9)  # 220 MB, packets at half of 400 Gb/s
    assert setup == pytest.approx(4.4e-3)
    states(CELLS["81-power-ask"], f"{setup * 1e3:.1f} ms")
    assert "(chosen)" in live.circuit("3D MEMS").scene.said


@pytest.mark.parametrize(("s", "r"), [("10 ms", "400 Gb/s"), ("25 ms", "800 Gb/s")])
def test_a_circuit_must_carry_what_the_answer_says(s, r):
    assert find("81-hold").key({"s": s, "r": r}) == pytest.approx(switching.bytes_for(0.9, s, r))


@pytest.mark.parametrize("percent", [80, 50, 20])
def test_a_circuit_pays_from_the_bytes_that_the_answer_says(percent):
    key = find("81-circuit").key({"p": f"{percent} %"})
    assert switching.break_even(50e9, "10 ms", percent / 100 * 50e9, 0) == pytest.approx(key)
    shown = live.circuit("3D MEMS", percent).scene.table
    circuit, packets = (
        shown["time [s]"][shown["series"] == name] for name in ("3D MEMS circuit", "packets")
    )
    sizes = shown["size [B]"][shown["series"] == "packets"]
    place = int(np.flatnonzero(circuit < packets)[0])
    assert sizes[place - 1] < key <= sizes[place]


def test_a_message_pays_with_all_kinds_and_its_pieces_not_with_mirrors():
    setups = {
        k: catalog.value("emerging", f"ocs-{k}", "setup") for k in ("piezo", "mems", "thermo-optic")
    }
    least = {k: switching.break_even(50e9, s, 25e9, 1.8e-6) for k, s in setups.items()}
    whole = catalog.case().dp_gradients
    piece = whole / catalog.case().layers
    sizes = f"{whole / 1e9:.1f} GB", f"{piece / 1e6:.0f} MB"
    assert sizes == ("17.6 GB", "220 MB")
    states(CELLS["81-power-ask"], *sizes)
    assert max(least.values()) < whole
    assert least["thermo-optic"] < piece < min(least["mems"], least["piezo"])
    wait = 3 * catalog.value("switches", "th5", "latency")
    for kind in ("piezo", "mems", "thermo-optic", "silicon-mems", "wavelength"):
        s = catalog.value("emerging", f"ocs-{kind}", "setup")
        assert switching.break_even(50e9, s, 50e9, wait) == (0 if s < wait else np.inf)


def test_lpo_scores_best_by_equal_weights_and_cpo_draws_least():
    watts = {k: optical.module(k).power for k in ("dsp", "lpo", "cpo")}
    lost = catalog.value("switches", "quantumx-photonics", "ports") / catalog.value(
        "emerging", "q3450", "laser_modules"
    )
    # the table shows 8
    assert find("81-blast").key({"p": 144, "m": 18}) == lost == 8 != find("81-blast").key({})
    score = {
        k: np.mean([watts["cpo"] / w, *((1 / lost, 1 / 144) if k == "cpo" else (1, 1))])
        for k, w in watts.items()
    }
    assert max(score, key=score.get) == "lpo" and min(watts, key=watts.get) == "cpo"
    assert find("81-power").key({}) == pytest.approx(262.2)


def test_the_roadmap_bears_out_what_is_ready():
    status = {k: p["system"].value for k, p in catalog.roadmap.items()}
    assert (status["memories"], status["ualink2"], status["uec"]) == (
        "research",
        "announced",
        "announced",
    )
    assert status["ocs-ns"] == status["quantum"] == status["photonic"] == "research"
    assert status["ocs"] == status["cpo-ib"] == "shipping"


@pytest.mark.parametrize(("a", "g"), [(44, "256 GiB"), (43, "128 GiB")])
def test_bars_fill_the_window_as_the_answer_says(a, g):
    bar, end = int(g.split()[0]) * 2**30, catalog.value("emerging", "pool", "window_base")
    n = round(find("81-window").key({"a": a, "g": g}))
    assert end == 512 * 2**30 and end + n * bar <= 2**a < end + (n + 1) * bar


def added(nvlink, rate="400 Gb/s", lag="5 us", size="1 GiB", pcie=None):
    hall = topologies.build("rail_optimised", servers=16, nvlink=nvlink, rate=rate, pcie=pcie)
    return simulate("all_reduce", "hierarchical", hall, size, lag=lag).time


def test_the_level_inside_decides_and_a_new_generation_brings_less_than_twice():
    five, six = (catalog.value("links", k, "bandwidth_after_encoding") for k in ("pcie5", "pcie6"))
    now = added(five)
    better = {
        "inside": added(450e9),
        "between": added(five, rate="800 Gb/s"),
        "latency": added(five, lag="2.5 us"),
    }
    assert min(better, key=better.get) == "inside" and better["between"] > 0.9 * now
    share = 1 - added(9e13) / now
    # the formula of 81-linear
    assert now / added(2 * five) == pytest.approx(1 / (1 - share / 2), rel=1e-3)
    assert find("81-linear").key({"s": "75 %"}) == 1.6
    assert now / added(six) < now / added(2 * five) < 2


def test_a_slot_of_pcie_4_holds_its_port_back():
    four, five = (catalog.value("links", k, "bandwidth_after_encoding") for k in ("pcie4", "pcie5"))
    assert four < 50e9 < five and added(five) == added(five, pcie=five)
    assert added(four, pcie=four) == pytest.approx(67.9e-3, rel=1e-3) and added(
        four, pcie=four
    ) > 1.04 * added(four)
    names = {"fl": fabriclab, "v": catalog.value}
    exec(CELLS["81-hybrid"].split("display(")[0], names)  # the lesson has the slot feed its NIC
    assert names["added"]("pcie4", "1 GiB") == pytest.approx(added(four, pcie=four))


def test_the_models_were_held_within_what_the_lesson_says():
    fact = catalog.emerging["hermans"]
    error = (2 * fact["pair_fidelity"].value + 1) / 3 / fact["teleported"].value - 1
    states(CELLS["81-core-end"], f"{100 * error:.1f} %")
    assert catalog.emerging["hensen"]["pair_fidelity"].confidence == "C"


def test_the_roadmap_is_sorted_before_its_answers_are_shown():
    ids = [c["id"] for c in LESSON["cells"]]
    assert ids.index("81-roadmap") < ids.index("81-ready")
    shown = []
    names = {
        "roadmap": catalog.roadmap,
        "table": lambda rows: "answers",
        "display": lambda *things: shown.append(things),
        "fl": SimpleNamespace(check=lambda id: id),
    }
    exec(CELLS["81-ready"], names)
    exec(CELLS["81-ready"].replace('= ""', '= "ocs"'), names)
    assert ["answers" in things for things in shown] == [False, True]


def test_the_pool_of_the_lesson_leaves_room_for_43_more_below_44_bits():
    cell = CELLS["81-pool"]
    pool = {"h100": 12, "mi300x": 8, "gaudi3": 8, "fpga": 4}
    assert str(pool).replace("'", '"') in cell
    size = {
        k: 64e9 if k == "fpga" else catalog.value("accelerators", k, "hbm_capacity") for k in pool
    }
    bar = {k: 2 ** int(np.ceil(np.log2(s))) for k, s in size.items()}
    left = (
        2**44
        - catalog.value("emerging", "pool", "window_base")
        - sum(n * bar[k] for k, n in pool.items())
    )
    assert left // bar["mi300x"] == 43
    states(CELLS["81-hybrid-ask"], "43", "44")
    assert catalog.emerging["pool"]["address_bits_vega"].value == 44
    assert pool["h100"] - 1 == 11 and catalog.emerging["pool"]["peers_cuda"].value == 8
