"""Memory over CXL, photonic meshes, optical switching and quantum links: closed forms, laws and published figures."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import catalog
from fabriclab.physics import memory, photonic, quantum, switching

SEED = st.integers(0, 2**32 - 1)


def fact(part, attribute):
    """Return a figure of the table emerging."""
    return catalog.value("emerging", part, attribute)


def haar(n, rng):
    """Return a random unitary (n, n)."""
    q, r = np.linalg.qr(rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)))
    return q * (np.diag(r) / abs(np.diag(r)))


# --- memory


def test_a_load_is_the_sum_of_its_parts():
    # sets the controller
    assert memory.load("CXL") == pytest.approx(fact("cxl-idle", "latency"), abs=1e-12)
    assert memory.load("CXL") - memory.load("DDR") == pytest.approx(
        2 * 25e-9 + fact("cxl-path", "controller")
    )
    assert memory.load("CXL switch") - memory.load("CXL") == pytest.approx(
        fact("cxl-path", "switch")
    )
    assert memory.load("ddr port port controller retimer retimer") == pytest.approx(
        memory.load("CXL") + 40e-9
    )
    loads, rates = zip(
        *map(memory.tier, ("DDR", "remote socket", "CXL", "CXL switch")), strict=True
    )
    assert list(loads) == sorted(loads)
    # 2 % before flits and coding
    assert rates[2] / memory.tier("HBM")[1] == pytest.approx(0.014, abs=1e-3)
    with pytest.raises(KeyError, match="no 'portt'; did you mean 'port'"):
        memory.load("portt")


def test_flits_by_hand():
    # 68 B: 4 slots of 16 B; of 5 slots one is a header. 256 B: 15 slots.
    assert memory.read_rate() == pytest.approx(64e9 * 128 / 130 * 64 / 68 * 4 / 5, rel=1e-5)
    assert memory.read_rate("flit256", "cxl3.0") == pytest.approx(128e9 * 240 / 256 * 4 / 5)


def test_memory_against_published_figures():
    """Lines of a thread are set by four threads, the idle load by two; the rest sets nothing."""
    lines = fact("cxl-4", "latency") * fact("cxl-4", "bandwidth") / 64 / 4
    assert lines == pytest.approx(37.5, abs=0.1)
    peak, idle = memory.read_rate(), memory.load("CXL")
    held = {
        "reads of one link": (peak, fact("cxl-16", "bandwidth"), -0.01),
        "two threads": (memory.throughput(2 * lines, idle, peak), fact("cxl-2", "bandwidth"), 0.03),
        "latency under 16 threads": (
            memory.loaded(16 * lines, idle, peak),
            fact("cxl-16", "latency"),
            0.01,
        ),
        "another expander": (idle / memory.load("DDR"), fact("cxl-asic", "ratio"), 0.16),
        "reads of two x8 links": (peak, fact("cxl-xconn", "bandwidth"), 0.01),
        "behind a switch, NSDI 2026": (
            memory.load("CXL switch"),
            fact("cxl-xconn", "latency"),
            0.43,
        ),
        "behind a switch": (memory.load("CXL switch"), fact("cxl-switched", "latency"), -0.48),
    }
    for what, (model, published, error) in held.items():
        print(f"{what}: {model:.4g} for {published:.4g}, {model / published - 1:+.1%}")
        assert model / published - 1 == pytest.approx(error, abs=0.006), what
        # the docstring says the same
        assert f"{error:+.0%}".replace("%", " %") in memory.__doc__, what


@given(st.floats(1, 1e4), st.floats(1e-8, 1e-5), st.floats(1e8, 1e12))
def test_littles_law_holds_in_both_readings(lines, latency, peak):
    rate, wait = memory.throughput(lines, latency, peak), memory.loaded(lines, latency, peak)
    assert rate * wait == pytest.approx(lines * 64)
    assert rate <= peak
    assert wait >= latency


def brute_force(objects, tiers, cuts):
    """Return the least time of a step when every object is cut into ``cuts`` equal pieces; inf if none fits."""
    pieces = [(n, o[0] / cuts, o[1] / cuts, o[2]) for n, o in objects.items() for _ in range(cuts)]
    best = np.inf
    for where in itertools.product(tiers, repeat=len(pieces)):
        used = dict.fromkeys(tiers, 0.0)
        for (_, size, _, need), t in zip(pieces, where, strict=True):
            used[t] += size if tiers[t][1] >= need else np.inf
        if all(used[t] <= tiers[t][0] for t in tiers):
            best = min(best, sum(p[2] / tiers[t][1] for p, t in zip(pieces, where, strict=True)))
    return best


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=3),
    st.integers(0, 9),
)
def test_place_is_the_least_time(sizes, room):
    """With whole units of room every object is cut at units, so brute force over units is exact."""
    objects = {
        f"o{i}-{u}": (1, touched / size, 0)
        for i, (size, touched) in enumerate(sizes)
        for u in range(size)
    }
    whole = {f"o{i}": (size, touched, 0) for i, (size, touched) in enumerate(sizes)}
    tiers = {"slow": (9, 1.0), "mid": (2, 3.0), "fast": (room, 10.0)}
    shares, time = memory.place(whole, tiers)
    assert time == pytest.approx(brute_force(objects, tiers, 1))
    for name, share in shares.items():
        assert sum(share.values()) == pytest.approx(1), name
    for t, (has, _) in tiers.items():
        assert sum(whole[n][0] * s.get(t, 0) for n, s in shares.items()) <= has + 1e-9


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, 2, 5])), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_place_finds_a_way_whenever_there_is_one(units, room):
    objects = {f"o{i}": (1, touched, need) for i, (touched, need) in enumerate(units)}
    tiers = {"fast": (room, 10.0), "mid": (2, 3.0), "slow": (2, 1.0)}
    best = brute_force(objects, tiers, 1)
    if best == np.inf:
        with pytest.raises(ValueError, match="must fit into"):
            memory.place(objects, tiers)
    else:
        assert memory.place(objects, tiers)[1] >= best - 1e-9


def test_greedy_is_not_exact_where_a_needed_rate_shuts_a_tier():
    objects, tiers = (
        {"cold": (1, 1, 5), "hot": (1, 9, 0)},
        {"fast": (1, 10.0), "mid": (1, 6.0), "slow": (1, 1.0)},
    )
    assert memory.place(objects, tiers)[1] == pytest.approx(1 / 10 + 9 / 6)
    assert brute_force(objects, tiers, 1) == pytest.approx(9 / 10 + 1 / 6)


def test_where_the_state_of_the_case_lives():
    """Weights, optimiser, KV cache and features of one H100: what is touched most a byte stays in HBM."""
    tiers = {
        name: (room, memory.tier(name)[1])
        for name, room in (("HBM", 80e9), ("DDR", 256e9), ("CXL", 1e12))
    }
    objects = {
        "weights": (17.6e9, 35e9, 0),
        "KV cache": (70e9, 70e9, 0),
        "optimiser": (106e9, 10e9, 0),
        "features": (400e9, 1e8, 0),
    }
    shares, _ = memory.place(objects, tiers)
    assert shares["weights"] == {"HBM": 1}
    assert set(shares["KV cache"]) == {"HBM", "DDR"}
    assert set(shares["features"]) == {"DDR", "CXL"}


def test_a_pool_strands_less_by_the_root_of_its_hosts():
    rng = np.random.default_rng(9)
    demand = rng.normal(300e9, 60e9, (4000, 32))
    got = [memory.bought(demand, pool) for pool in (1, 4, 16, 32)]
    form = [memory.bought_normal(300e9, 60e9, 32, pool) for pool in (1, 4, 16, 32)]
    assert got == pytest.approx(form, rel=0.01)
    margin = np.array(form) - 32 * 300e9
    assert margin[0] / margin[2] == pytest.approx(4)
    with pytest.raises(ValueError, match="multiple of pool = 5"):
        memory.bought(demand, 5)


def test_a_pool_against_a_published_saving():
    """Demand is normal with the median and the 95th percentile of published stranding; pools of 16 hosts."""
    median, deviation = (
        fact("stranding", "median"),
        (fact("stranding", "p95") - fact("stranding", "median")) / 1.645,
    )
    alone, pooled = (
        memory.bought_normal(1 - median, deviation, 16, pool, spill=0.05) for pool in (1, 16)
    )
    print(f"saved by a pool: {1 - pooled / alone:.3f} for {fact('pond', 'saved')}")
    assert 1 - pooled / alone == pytest.approx(0.107, abs=0.002)
    # a bound: all memory in the pool, hosts independent
    assert 1 - pooled / alone > fact("pond", "saved")
    for part in ("pond", "pond-v1"):
        off = (1 - pooled / alone) / np.mean(catalog.emerging[part]["saved"].ends) - 1
        assert f"(error {off:+.0%})".replace("%", " %") in memory.bought_normal.__doc__, off


@given(SEED, st.sampled_from([2, 4, 8]))
def test_a_pool_is_between_the_mean_and_its_hosts_alone(seed, pool):
    demand = np.random.default_rng(seed).lognormal(0, 1, (50, 8))
    bought = memory.bought(demand, pool, spill=0)
    assert demand.sum(axis=1).mean() <= bought <= memory.bought(demand, 1, spill=0) * (1 + 1e-12)


ACCESS = st.tuples(st.sampled_from(["host", "device"]), st.sampled_from(["load", "store"]))


@given(st.lists(ACCESS, max_size=30))
def test_one_writer_or_many_readers(accesses):
    trace, before = memory.mesi(accesses), ("I", "I")
    for (who, what), (states, messages) in zip(accesses, trace, strict=True):
        assert sum(s in "EM" for s in states) <= 1
        assert not any(s in "EM" for s in states) or "I" in states
        me = ("host", "device").index(who)
        assert states[me] == "M" if what == "store" else states[me] != "I"
        if what == "load" and before[me] != "I":
            assert (states, messages) == (before, ())  # a hit is silent
        if before[1 - me] == "M" and before[me] == "I":
            assert "Data" in messages  # the only good copy crosses the link
        before = states


def test_mesi_by_hand():
    trace = memory.mesi(
        [("device", "load"), ("device", "store"), ("host", "load"), ("host", "store")]
    )
    assert trace == [
        (("I", "E"), ("RdAny", "GO", "Data")),
        (("I", "M"), ()),  # E to M is silent
        (("S", "S"), ("SnpData", "RspSFwdM", "Data")),
        (("M", "I"), ("SnpInv", "RspIHitSE")),
    ]
    with pytest.raises(ValueError, match="agent must be one of host, device, got 'gpu'"):
        memory.mesi([("gpu", "load")])


def test_a_shared_queue_needs_fewer_messages_until_dma_batches():
    assert memory.queue_messages(1) == (3, 6)  # a first line has no copy to snoop
    coherent, alone = memory.queue_messages(1000)
    assert (coherent, alone) == (3 + 999 * 5, 6000)
    assert memory.queue_messages(1000, 10)[1] == 3300


def test_one_percent_of_a_table():
    assert memory.moved(1e9, 0.01) == (1e7, 1e9)
    assert memory.moved(1e9, 0.01, 4) == (1.6e8, 1e9)  # a record of 4 B takes a line
    assert memory.moved(1e9, 0.5, 4) == (1e9, 1e9)  # never more than all of it
    assert memory.moved(1e9, 0.01, 65)[0] == pytest.approx(1e7 * 128 / 65, rel=1e-4)


# --- photonic


@settings(max_examples=25, deadline=None)
@given(SEED, st.integers(2, 12))
def test_a_mesh_is_any_unitary(seed, n):
    u = haar(n, np.random.default_rng(seed))
    phases, out = photonic.settings(u)
    assert phases.shape == (n * (n - 1) // 2, 2)
    assert abs(photonic.mesh(phases, out) - u).max() < 1e-12


def test_permutations_have_settings_too():
    for order in itertools.permutations(range(4)):
        u = np.eye(4)[list(order)]
        assert abs(photonic.mesh(*photonic.settings(u)) - u).max() < 1e-12
    with pytest.raises(ValueError, match="orthonormal rows"):
        photonic.settings([[1, 1], [0, 1]])


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3)])
def test_any_matrix_by_two_meshes(shape):
    rng = np.random.default_rng(3)
    matrix, x = rng.standard_normal(shape), rng.standard_normal((shape[1], 5))
    assert abs(photonic.product(matrix, x, lambda p: p) - matrix @ x).max() < 1e-12
    leaky = photonic.product(matrix, x, lambda p: p, leak=0.01)
    near = 0.01 * (np.pad(x, ((0, 0), (1, 0)))[:, :-1] + np.pad(x, ((0, 0), (0, 1)))[:, 1:])
    assert abs(leaky - matrix @ (x + near)).max() < 1e-12


def test_a_phase_is_set_in_steps():
    rng = np.random.default_rng(0)
    assert photonic.disturb(np.array([0.1, 1.5, 3.0, 6.2]), 0, 2, rng) / np.pi == pytest.approx(
        [0, 0.5, 1, 2]
    )
    assert photonic.disturb(np.zeros(10_000), 0.02, 48, rng).std() == pytest.approx(0.02, rel=0.05)


def test_bits_of_a_product_follow_bits_of_a_phase():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((16, 32))

    def bits(matrix, n, sigma=0.0):
        same = np.random.default_rng(6)  # one noise, scaled: the error is its multiple
        made = photonic.product(matrix, x, lambda p: photonic.disturb(p, sigma, n, same))
        return photonic.effective_bits(matrix @ x, made)

    some = rng.standard_normal((20, 16, 16))
    assert np.mean([bits(m, 12) - bits(m, 8) for m in some]) == pytest.approx(4, abs=0.15)
    assert np.mean([bits(m, 8) for m in some]) < 8 - 2  # the errors of 480 phases add up
    assert [bits(m, 48, 1e-4) - bits(m, 48, 2e-4) for m in some] == pytest.approx(
        [1] * 20, abs=0.01
    )
    assert photonic.effective_bits(x, x) == np.inf


def fidelity(n, sigma, tries, permute=False):
    """Return the mean over inputs of the sum of |u| |v|, the measure of both papers."""
    rng, out = np.random.default_rng(5), []
    for _ in range(tries):
        u = np.eye(n)[rng.permutation(n)] if permute else haar(n, rng)
        v = photonic.mesh(
            *(
                photonic.disturb(p, s, 48, rng)
                for p, s in zip(photonic.settings(u), (sigma, 0), strict=True)
            )
        )
        out.append((abs(u) * abs(v)).sum(axis=0).mean())
    return np.mean(out)


def test_photonic_against_published_figures():
    sigma = 0.1
    # sets sigma
    assert fidelity(20, sigma, 30) == pytest.approx(fact("mzi-20", "fidelity_random"), abs=0.002)
    held = {
        "SU(4)": (fidelity(4, sigma, 200), fact("mzi-4", "fidelity"), -0.001),
        "permutations": (
            fidelity(20, sigma, 30, True),
            fact("mzi-20", "fidelity_permutation"),
            -0.018,
        ),
    }
    for what, (model, published, error) in held.items():
        print(f"{what}: {model:.4f} for {published:.4f}")
        assert model - published == pytest.approx(error, abs=0.002), what
    # Four cores of 128 x 128 at 1 GHz are the published rate; all of its power on converters is a bound for one.
    rate, each = photonic.io(128, 128, 1e9, 1e-12, 4)
    assert rate == pytest.approx(65.5e12, rel=1e-3)
    assert each == pytest.approx(1e-12 * 256 / 128**2)
    assert 78 / (rate * each / 1e-12) == pytest.approx(76e-12, rel=0.01)
    assert photonic.io(256, 256, 1e9, 1e-12)[1] == each / 2


# --- switching


def test_when_a_circuit_pays():
    # 10 ms of set-up at 50 GB/s: the circuit gains 60 us a megabyte on 12.5 GB/s.
    n = switching.break_even("400 Gb/s", "10 ms", "100 Gb/s", 0)
    assert n == pytest.approx(10e-3 / (1 / 12.5e9 - 1 / 50e9))
    assert 10e-3 + n / 50e9 == pytest.approx(n / 12.5e9)
    assert switching.break_even("400 Gb/s", "10 ms", "400 Gb/s", "1 us") == np.inf
    assert switching.break_even("400 Gb/s", "3.84 ns", "400 Gb/s", "300 ns") == 0
    hold = switching.bytes_for(0.9, "10 ms", "400 Gb/s") / 50e9
    assert hold == pytest.approx(90e-3)
    assert switching.duty(hold, 10e-3) == pytest.approx(0.9)
    assert switching.duty("90 ms", "10 ms") == pytest.approx(0.9) and switching.duty(0, 0) == 0
    with pytest.raises(ValueError, match="hold must be within 0"):
        switching.duty(-1, 1)
    with pytest.raises(ValueError, match="share must be within"):
        switching.bytes_for(1, 1e-3, "400 Gb/s")


def test_switches_in_order_and_against_published_shares():
    setups = [
        fact(f"ocs-{k}", "setup")
        for k in ("piezo", "mems", "thermo-optic", "silicon-mems", "wavelength")
    ]
    assert setups == sorted(setups, reverse=True)
    for part in ("ocs-mordia", "ocs-rotornet"):
        hold = fact(part, "slot") - fact(part, "setup")
        assert switching.duty(hold, fact(part, "setup")) == pytest.approx(
            fact(part, "duty"), rel=0.01
        )


# --- quantum

AXES = np.array([[1, 0], [0, 1], [1, 1], [1, -1], [1, 1j], [1, -1j]]) / np.sqrt(
    [[1], [1], [2], [2], [2], [2]]
)


def some_state(rng):
    """Return a random mixed state of two qubits."""
    g = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    return g @ g.conj().T / np.trace(g @ g.conj().T)


@given(SEED, st.integers(1, 5))
def test_nothing_that_alice_does_reaches_bob(seed, k):
    rng = np.random.default_rng(seed)
    for state in (quantum.pair(), some_state(rng)):
        kraus = haar(2 * k, rng)[:, :2].reshape(k, 2, 2)
        after = quantum.channel(state, kraus, "alice")
        assert abs(quantum.reduced(after) - quantum.reduced(state)).max() < 1e-12
        assert np.trace(after) == pytest.approx(1)
        mine = quantum.reduced(quantum.channel(state, kraus, "alice"), "alice")
        want = sum(m @ quantum.reduced(state, "alice") @ m.conj().T for m in kraus)
        assert abs(mine - want).max() < 1e-12  # she does change her own half


def test_what_is_no_probability_and_nobody_are_refused():
    with pytest.raises(
        ValueError, match=r"p must be a probability within 0\.\.1, got 2; 1 is noise"
    ):
        quantum.depolarising(2)
    with pytest.raises(ValueError, match="who must be one of alice, bob, got 'eve'"):
        quantum.reduced(quantum.pair(), "eve")


def test_one_outcome_would_signal_if_bob_could_pick_it():
    zero = np.array([[[1, 0], [0, 0]]])
    with pytest.raises(ValueError, match="must keep the trace"):
        quantum.channel(quantum.pair(), zero, "alice")


@given(st.floats(0, 0.999))
def test_depolarised_pairs(p):
    state = quantum.channel(quantum.pair(), quantum.depolarising(p), "bob")
    f = quantum.fidelity(state)
    assert f == pytest.approx(1 - 0.75 * p)
    assert abs(state - quantum.pair(f)).max() < 1e-12
    assert quantum.chsh(state) == pytest.approx(2 * np.sqrt(2) * abs(4 * f - 1) / 3)


@given(SEED, st.floats(0.25, 1))
def test_teleportation_needs_both_bits(seed, f):
    rng = np.random.default_rng(seed)
    q = haar(2, rng)[0]
    given = np.outer(q, q.conj())
    assert abs(quantum.teleport(q, quantum.pair()) - given).max() < 1e-12
    # Bob before any news
    assert abs(quantum.teleport(q, quantum.pair(f), 0) - np.eye(2) / 2).max() < 1e-12
    got = [(q.conj() @ quantum.teleport(q, quantum.pair(f), bits) @ q).real for bits in (2, 0)]
    assert got == pytest.approx([(2 * f + 1) / 3, 0.5])


def test_one_bit_is_not_enough():
    got = np.mean([(q.conj() @ quantum.teleport(q, quantum.pair(), 1) @ q).real for q in AXES])
    # no better than measuring the qubit and telling what was seen
    assert got == pytest.approx(2 / 3)


def test_repeaterless_bound():
    km = np.array([1, 10, 34, 50, 100, 200])
    # computed for the targets of the course
    want = [4.4737, 1.4381, 0.33812, 0.152, 0.0145, 0.00014428]
    assert quantum.repeaterless(1e3 * km) == pytest.approx(want, rel=1e-3)
    # 1 - eta is 1 as a float
    assert quantum.repeaterless(1e6) == pytest.approx(1e-20 / np.log(2), rel=1e-9, abs=0)


def test_quantum_against_published_figures():
    """33 km sets chance and overhead, 6 and 33 km the memory; nothing else is set."""
    chance, overhead, wait = (fact("munich", key) for key in ("chance", "overhead", "memory"))
    assert quantum.pair_rate(33e3, chance, overhead, 0.22, 1) == pytest.approx(
        fact("munich-33", "pair_rate"), rel=1e-3
    )
    assert overhead + 16.5e3 / quantum.GLASS == pytest.approx(1 / 9.7e3, rel=1e-3)

    def after(km):
        return quantum.stored(
            fact("munich-6", "fidelity"), (km - 6) * 1e3 / 2 / quantum.GLASS, wait
        )

    assert after(33) == pytest.approx(fact("munich-33", "fidelity"), abs=1e-3)
    pair = quantum.pair(fact("hermans", "pair_fidelity"))
    teleported = np.mean([(q.conj() @ quantum.teleport(q, pair) @ q).real for q in AXES])
    held = {
        "pairs over 6 km": (
            quantum.pair_rate(6e3, chance, overhead, 0.22, 1),
            fact("munich-6", "pair_rate"),
            0.04,
        ),
        "fidelity after 11 km": (after(11), fact("munich-11", "fidelity"), -0.02),
        "fidelity after 23 km": (after(23), fact("munich-23", "fidelity"), -0.04),
        "teleported": (teleported, fact("hermans", "teleported"), 0.05),
        "CHSH": (
            quantum.chsh(quantum.pair(fact("hensen", "pair_fidelity"))),
            fact("hensen", "chsh"),
            0.04,
        ),
    }
    ends = zip(
        *(catalog.emerging["berlin"].spec(k).ends for k in ("fidelity", "chsh")),
        (-0.04, 0.02),
        strict=True,
    )
    held |= {f"CHSH of {f}": (quantum.chsh(quantum.pair(f)), s, error) for f, s, error in ends}
    for what, (model, published, error) in held.items():
        print(f"{what}: {model:.4g} for {published:.4g}, {model / published - 1:+.1%}")
        assert model / published - 1 == pytest.approx(error, abs=0.006), what
        # the docstring says the same
        assert f"{error:+.0%}".replace("%", "") in quantum.__doc__, what
    with pytest.raises(ValueError, match=r"fidelity within 0\.25"):
        quantum.pair(0.2)


def test_a_port_carries_800_000_bits_in_the_time_of_one_pair():
    assert quantum.bits_per_pair("400 Gb/s", fact("gothamq", "pair_rate_max")) == 800_000


# --- roadmap


STEPS = {
    "specification": {"published", "draft", "private", "none"},
    "silicon": {"shipping", "sampling", "announced", "research"},
    "system": {"shipping", "announced", "research"},
}


def test_every_technology_has_three_dated_steps():
    parts = catalog.roadmap
    assert set(
        "uec ualink sue esun cpo-ib lpo cxl3 pcie7 nvlink6 e1600 photonic quantum".split()
    ) <= set(parts)
    assert {"cpo-th5", "cpo-th6"} <= set(parts)
    for name, part in parts.items():
        for step, states in STEPS.items():
            assert part[step].value in states, (name, step)
            date = part[f"{step}_date"]
            assert str(date.value)[:2] == "20", (name, step)
            assert date.source == part[step].source, (name, step)
            assert date.confidence == part[step].confidence, (name, step)
    assert {part["system"].value for part in parts.values()} == STEPS["system"]


def test_a_system_is_no_further_than_its_silicon():
    order = ("research", "announced", "sampling", "shipping")
    for name, part in catalog.roadmap.items():
        system, silicon = order.index(part["system"].value), order.index(part["silicon"].value)
        assert system <= silicon, name


def test_the_steps_of_a_technology_differ():
    def steps(key):
        return [catalog.roadmap[key][step].value for step in STEPS]

    assert steps("sue") == ["published", "shipping", "announced"]
    assert steps("e1600") == ["draft", "shipping", "shipping"]
    assert steps("cpo-th6") == ["private", "shipping", "announced"]
    assert steps("nvlink6") == ["private", "shipping", "announced"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: memory.throughput(10, 0), "latency"),
        (lambda: memory.throughput(-1, 1e-7), "lines"),
        (lambda: memory.loaded(10, 1e-7, 0), "peak"),
        (lambda: memory.loaded(np.nan, 1e-7, 1e9), "lines"),
    ],
)
def test_loads_that_cannot_be_are_refused(call, name):
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        call()
