"""What the questions of lessons 81 to 81d call right is right by the library, and by what the lessons show."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import fabriclab
from fabriclab import catalog, check, scenarios, simulate, topologies
from fabriclab.course.judges.lessons import lesson81, lesson81c, lesson81d
from fabriclab.course.questions import find
from fabriclab.physics import optical, photonic, quantum, switching
from fabriclab.texts import text
from fabriclab.views import live
from support.lesson_runs import FILES
from support.prose import states

NAMES = (
    "81_emerging",
    "81b_entangled_pairs",
    "81c_multiply_by_light",
    "81d_devices_over_pcie",
)
LESSONS = {name: json.loads(FILES[name].read_text("utf-8")) for name in NAMES}
LESSON = LESSONS["81_emerging"]
CELLS = {cell["id"]: "".join(cell["source"]) for held in LESSONS.values() for cell in held["cells"]}


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
    assert 8 * find("81b-port").key({"r": r, "q": q}) == pytest.approx(quantum.bits_per_pair(r, q))


def trusted(size, bits, noise):
    """Return the bits that the view says can be trusted."""
    scene = live.mzi_mesh(size, bits, noise).scene
    return -np.log2(
        scene.table["off"][np.flatnonzero(scene.table["series"] == text("live.mzi_mesh.here"))[0]]
    )


def test_of_the_orders_for_a_mesh_one_has_8_bits():
    states(find("81c-phase").right, "12 bits", "0.1 mrad")
    assert trusted(16, 12, 0.1) > trusted(16, 12, 0.3) > 8 > trusted(16, 12, 0.5)
    states(CELLS["81c-colours-ask"], "12 bits", "0.3 mrad")
    wrong = {1: (8, 0.1), 2: (16, 1.0), 3: (16, 100.0)}
    for i, (bits, noise) in wrong.items():
        states(find("81c-phase").wrong[i - 1].option, f"{bits} bits", f"{noise:g} mrad")
        assert trusted(16, bits, noise) < 8
    assert 7 < trusted(16, 16, 1.0) < 7.5  # as the last hint says
    assert trusted(16, 16, 100.0) < 1 and "thousandths" in CELLS["81c-mesh-ask"]


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
    states(CELLS["81c-mesh-ask"], "480")
    assert photonic.io(128, 128, 1e9, 0.0, cores=4)[0] == pytest.approx(65.5e12, rel=1e-3)


def test_what_is_chosen_of_published_set_ups_is_called_so():
    for kind in ("piezo", "mems", "thermo-optic", "silicon-mems"):
        assert catalog.emerging[f"ocs-{kind}"]["setup"].note.startswith("chosen: ")
    setup = 220e6 * (1 / 25e9 - 1 / 50e9)  # 220 MB, packets at half of 400 Gb/s
    assert setup == pytest.approx(4.4e-3)
    states(CELLS["81-core-end"], f"{setup * 1e3:.1f} ms")
    assert "(chosen)" in live.circuit("3D MEMS").scene.said


@pytest.mark.parametrize(("s", "r"), [("10 ms", "400 Gb/s"), ("25 ms", "800 Gb/s")])
def test_a_circuit_must_carry_what_the_answer_says(s, r):
    assert find("81-hold").key({"s": s, "r": r}) == pytest.approx(switching.bytes_for(0.9, s, r))


@pytest.mark.parametrize("percent", [80, 50, 20])
def test_the_picture_shows_the_bytes_from_which_a_circuit_pays(percent):
    least = lesson81.break_even(10e-3, percent / 100 * 50e9, 50e9)
    shown = live.circuit("3D MEMS", percent).scene.table
    circuit, packets = (
        shown["time [s]"][shown["series"] == name] for name in ("3D MEMS circuit", "packets")
    )
    sizes = shown["size [B]"][shown["series"] == "packets"]
    place = int(np.flatnonzero(circuit < packets)[0])
    assert sizes[place - 1] < least <= sizes[place]


def by_times(set_up, packet_rate, circuit_rate):
    """Find the size at which both take equally long by halving."""
    low, high = 0.0, 1e15
    for _ in range(200):
        size = (low + high) / 2
        if size / packet_rate < set_up + size / circuit_rate:
            low = size
        else:
            high = size
    return np.float64(size)


def by_share(set_up, packet_rate, circuit_rate):
    """Use the share of the circuit's rate that packets have."""
    share = packet_rate / circuit_rate
    return set_up * packet_rate / (1 - share)


def rounded(set_up, packet_rate, circuit_rate):
    """Return a whole number of bytes, as an int."""
    return round(set_up / (1 / packet_rate - 1 / circuit_rate))


@pytest.mark.parametrize("answer", [lesson81.break_even, by_times, by_share, rounded])
def test_any_function_that_finds_the_size_is_right(answer):
    assert check("81-write-circuit", answer).data["right"]


def test_the_worked_size_of_a_circuit_is_half_a_gigabyte():
    assert lesson81.break_even(10e-3, 25e9, 50e9) == pytest.approx(0.5e9)
    states(CELLS["81-write-ask"], "0.5 GB", "40 ms", "20 ms")
    assert lesson81.break_even(10e-3, 45e9, 50e9) == pytest.approx(4.5e9)
    states(CELLS["81-core-end"], "4.5 GB")


def test_a_sender_that_knows_a_slow_cable_beats_switches_that_do_not():
    took = {}
    for name, fault in {
        "healthy": {},
        "both": {"slow_path": 0.5},
        "behind": {"slow_path": 0.5, "slow_cables": "behind"},
    }.items():
        plan = scenarios.ecmp_collision(16, "1 MB", recovery="selective", **fault)
        for rule in ("spray", "adaptive", "path_aware"):
            took[name, rule] = 1e6 * plan.play(balance=rule).last_finish
    assert took["behind", "adaptive"] / took["healthy", "adaptive"] == pytest.approx(1.92, abs=0.01)
    assert took["behind", "adaptive"] == pytest.approx(took["behind", "spray"], rel=0.02)
    assert took["both", "adaptive"] < 1.1 * took["healthy", "adaptive"]
    lost = took["behind", "path_aware"] - took["healthy", "path_aware"]
    bytes_alone = 1e6 * 1e6 / catalog.value("nics", "cx7", "throughput")
    by_cable = bytes_alone * (16 / 15.5 - 1)
    assert (f"{by_cable:.1f}", f"{lost:.1f}", f"{bytes_alone + by_cable:.1f}") == (
        "0.6",
        "0.9",
        "20.6",
    )
    shown = (took["behind", rule] for rule in ("adaptive", "spray", "path_aware"))
    states(CELLS["81-far-why"], *(f"{each:.1f} us" for each in shown), "20.6 us", "0.9 us", "0.6")


def test_eight_planes_reach_the_nics_that_the_lesson_says():
    shown = find("81-planes").key
    assert shown({"k": 64, "p": 8}) == 131_072 == 64 * shown({"k": 64, "p": 1})
    states(CELLS["81-links-ask"], "131,072", "64 times", "21.3")
    switches = 8 * (512 + 256)
    assert 131_072 / switches == pytest.approx(21.3, abs=0.05)
    table = {(64 * planes) ** 2 // 2 for planes in (1, 2, 4, 8)}
    assert shown({}) not in table  # nobody reads the answer off
    whole = topologies.build(
        "multi_plane", planes=2, servers=64, gpus=8, rails=1, radix=16, tiers=2, expand=False
    )
    assert whole.n_ranks == shown({"k": 16, "p": 2}) == 512
    with pytest.raises(ValueError, match="tiers"):
        topologies.build(
            "multi_plane", planes=2, servers=65, gpus=8, rails=1, radix=16, tiers=2, expand=False
        )


def test_a_message_pays_with_all_kinds_and_its_pieces_not_with_mirrors():
    setups = {
        k: catalog.value("emerging", f"ocs-{k}", "setup") for k in ("piezo", "mems", "thermo-optic")
    }
    least = {k: switching.break_even(50e9, s, 25e9, 1.8e-6) for k, s in setups.items()}
    whole = catalog.case().dp_gradients
    piece = whole / catalog.case().layers
    sizes = f"{whole / 1e9:.1f} GB", f"{piece / 1e6:.0f} MB"
    assert sizes == ("17.6 GB", "220 MB")
    states(CELLS["81-circuit-ask"], *sizes)
    states(CELLS["81-core-end"], *sizes)
    assert max(least.values()) < whole
    assert least["thermo-optic"] < piece < min(least["mems"], least["piezo"])
    wait = 3 * catalog.value("switches", "th5", "latency")
    for kind in ("piezo", "mems", "thermo-optic", "silicon-mems", "wavelength"):
        s = catalog.value("emerging", f"ocs-{kind}", "setup")
        assert switching.break_even(50e9, s, 50e9, wait) == (0 if s < wait else np.inf)


def test_cpo_saves_half_of_the_light_and_lpo_scores_best_by_equal_weights():
    watts = {k: optical.module(k).power for k in ("dsp", "lpo", "cpo")}
    names = {"fl": fabriclab, "watts": watts, "np": np}
    exec(CELLS["81-links"].split("fl.reveal")[0], names)
    assert names["saved"] == pytest.approx(49.2, abs=0.05)
    light = names["light"]
    kilowatts = {pair: light(*pair) / 1e3 for pair in (("dsp",) * 2, ("lpo",) * 2)}
    kilowatts |= {("cpo", nic): light("cpo", nic) / 1e3 for nic in ("dsp", "lpo")}
    assert list(kilowatts.values()) == [320, 180, 162.5, 127.5]
    states(CELLS["81-power-why"], *(f"{each:g} kW" for each in kilowatts.values()))
    # no NIC has CPO: with it at both ends the slide has 110 kW
    assert light("cpo", "cpo") == 110e3
    key = find("81-cpo").key({"a": "5000", "b": "5000", "c": "5.5 W", "m": "16 W"})
    assert key == pytest.approx(light("cpo", "dsp"))
    lost = catalog.value("switches", "quantumx-photonics", "ports") / catalog.value(
        "emerging", "q3450", "laser_modules"
    )
    # the table shows 8
    assert find("81-blast").key({"p": 144, "m": 18}) == lost == 8 != find("81-blast").key({})

    def score(weight, power, laser, repair):
        return (weight * 127.5 / power + 1 / laser + 1 / repair) / (weight + 2)

    assert score(1, 180, 1, 1) > max(score(1, 320, 1, 1), score(1, 127.5, lost, 144))
    assert score(6.3, 180, 1, 1) > score(6.3, 127.5, lost, 144)
    assert score(6.5, 180, 1, 1) < score(6.5, 127.5, lost, 144)
    states(CELLS["81-power-why"], "6.4 times")


def test_the_roadmap_bears_out_what_is_ready():
    status = {k: p["system"].value for k, p in catalog.roadmap.items()}
    assert (status["memories"], status["ualink2"], status["uec"]) == (
        "research",
        "announced",
        "announced",
    )
    assert status["ocs-ns"] == status["quantum"] == status["memories"] == "research"
    assert status["ocs"] == status["cpo-ib"] == status["mrc"] == status["photonic"] == "shipping"
    assert catalog.roadmap["uec"]["silicon"].value == "shipping"


@pytest.mark.parametrize(("a", "g"), [(44, "256 GiB"), (43, "128 GiB")])
def test_bars_fill_the_window_as_the_answer_says(a, g):
    bar, end = int(g.split()[0]) * 2**30, catalog.value("emerging", "pool", "window_base")
    n = round(find("81d-window").key({"a": a, "g": g}))
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
    # the formula of 81d-linear
    assert now / added(2 * five) == pytest.approx(1 / (1 - share / 2), rel=1e-3)
    assert find("81d-linear").key({"s": "75 %"}) == 1.6
    assert now / added(six) < now / added(2 * five) < 2


def test_a_slot_of_pcie_4_holds_its_port_back():
    four, five = (catalog.value("links", k, "bandwidth_after_encoding") for k in ("pcie4", "pcie5"))
    assert four < 50e9 < five and added(five) == added(five, pcie=five)
    assert added(four, pcie=four) == pytest.approx(67.9e-3, rel=1e-3) and added(
        four, pcie=four
    ) > 1.04 * added(four)
    names = {"fl": fabriclab}
    exec(CELLS["81d-hybrid"].split("rows = []")[0], names)  # the slot feeds its NIC
    assert names["reduced"]("pcie4", "1 GiB") == pytest.approx(added(four, pcie=four))


def test_the_levels_of_a_hybrid_build_take_what_is_worked_out():
    array = 2**30
    inside = {k: 2 * 7 / 8 * array / rate for k, rate in {"nvlink": 450e9, "pcie5": 63e9}.items()}
    between = 2 * 15 / 16 * array / 8 / 50e9
    states(CELLS["81d-hybrid-ask"], f"{inside['nvlink'] * 1e3:.1f} ms", f"{between * 1e3:.1f} ms")
    assert inside["pcie5"] == pytest.approx(30e-3, rel=0.01)
    five = catalog.value("links", "pcie5", "bandwidth_after_encoding")
    assert added(five, pcie=five) == pytest.approx(inside["pcie5"] + between, rel=0.02)


def test_the_models_were_held_within_what_the_lesson_says():
    fact = catalog.emerging["hermans"]
    error = (2 * fact["pair_fidelity"].value + 1) / 3 / fact["teleported"].value - 1
    states(CELLS["81b-end"], f"{100 * error:.1f} %")
    assert catalog.emerging["hensen"]["pair_fidelity"].confidence == "C"


def test_the_roadmap_is_sorted_before_its_answers_are_shown():
    ids = [c["id"] for c in LESSON["cells"]]
    assert ids.index("81-roadmap") < ids.index("81-ready")
    shown = []

    def table(rows):
        return "answers"

    names = {
        "roadmap": catalog.roadmap,
        "display": lambda *things: shown.append(things),
        "fl": SimpleNamespace(check=lambda id: id, views=SimpleNamespace(table=table)),
    }
    exec(CELLS["81-ready"], names)
    exec(CELLS["81-ready"].replace('= "" ', '= "ocs" '), names)
    assert ["answers" in things for things in shown] == [False, True]


def test_the_pool_of_the_lesson_leaves_room_for_43_more_below_44_bits():
    cell = CELLS["81d-pool"]
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
    states(CELLS["81d-hybrid-ask"], "43", "44")
    assert catalog.emerging["pool"]["address_bits_vega"].value == 44
    assert pool["h100"] - 1 == 11 and catalog.emerging["pool"]["peers_cuda"].value == 8


def by_norms(exact, made):
    """Use norms, whose ratio is that of the typical sizes."""
    return np.linalg.norm(np.ravel(exact), 2) and np.log2(
        np.linalg.norm(exact) / np.linalg.norm(np.asarray(made) - exact)
    )


def by_power(exact, made):
    """Halve the logarithm of the ratio of mean squares."""
    return 0.5 * np.log2(np.mean(np.square(exact)) / np.mean(np.square(exact - made)))


def by_loops(exact, made):
    """Add up squares one by one, in plain Python."""
    pairs = list(zip(exact.ravel().tolist(), made.ravel().tolist(), strict=True))
    ratio = sum(e * e for e, _ in pairs) / sum((e - m) ** 2 for e, m in pairs)
    return round(np.log2(ratio**0.5), 4)


def in_place(exact, made):
    """Change the arrays that are given."""
    made -= exact
    return np.float32(np.log2(np.sqrt((exact**2).mean() / (made**2).mean())))


@pytest.mark.parametrize(
    "answer",
    [lesson81c.bits_to_trust, photonic.effective_bits, by_norms, by_power, by_loops, in_place],
)
def test_any_function_that_finds_the_bits_is_right(answer):
    for _ in range(2):
        assert check("81c-write-bits", answer).data["right"]


def test_the_bits_worked_out_on_paper_are_those_of_the_judge():
    exact, made = lesson81c.products()[0]
    assert (exact.tolist(), made.tolist()) == ([40, 30], [43, 34])
    assert lesson81c.bits_to_trust(exact, made) == pytest.approx(np.log2(10))
    states(CELLS["81c-write-ask"], "3.32", "3.54", "35.4")


def in_steps(size, gpus, servers, inside, between):
    """Add up the steps of both rings."""
    seconds = 0
    for _ in range(2 * (gpus - 1)):
        seconds += size / gpus / inside
    for _ in range(2 * (servers - 1)):
        seconds += size / gpus / servers / between
    return seconds


def in_three_parts(size, gpus, servers, inside, between):
    """Add inside, sum between, hand out inside."""
    scatter = np.float64(size) * (1 - 1 / gpus) / inside
    shared = 2 * (1 - 1 / servers) * size / (gpus * between)
    return scatter + shared + scatter


@pytest.mark.parametrize("answer", [lesson81d.two_levels, in_steps, in_three_parts])
def test_any_function_that_finds_the_time_of_two_levels_is_right(answer):
    assert check("81d-write-levels", answer).data["right"]


def test_the_levels_on_paper_are_those_of_the_judge_and_near_the_table():
    names = {"fl": fabriclab}
    exec(CELLS["81d-hybrid"].split("rows = []")[0], names)
    nvlink, pcie = (lesson81d.two_levels(*build) for build in lesson81d.builds()[:2])
    assert 1e3 * nvlink == pytest.approx(4.2 + 5.0, abs=0.05)
    for link, found in (("nvlink4", nvlink), ("pcie5", pcie)):
        assert 0.95 * names["reduced"](link, "1 GiB") < found < names["reduced"](link, "1 GiB")
