"""Spelling: every registered name in every spelling, names as tools print them, and what is not accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabriclab as fl
from fabriclab import registry, spelling, topologies, units

KINDS = ("topology", "collective", "definition", "routing", "engine", "workload")
NAMES = [(kind, name) for kind in KINDS for name in registry.names(kind)]


def american(name):
    for ending in ("e", "ing", "ation"):
        name = name.replace(f"is{ending}", f"iz{ending}")
    return name


def spellings(name):
    """Return other spellings of a name, of which some may equal it."""
    return (
        name.upper(),
        name.title(),
        name.replace("_", "-"),
        name.replace("_", " "),
        american(name),
        f" {american(name).replace('_', '-').upper()} ",
    )


# laws over the registry ---------------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_every_spelling_finds_the_registered_name(kind, name):
    for spelled in spellings(name):
        assert registry.find(kind, spelled) == name
        assert registry.get(kind, spelled) is registry.get(kind, name)
        assert registry.info(kind, spelled) is registry.info(kind, name)


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_names_of_a_kind_are_spelled_alike(kind):
    names = registry.names(kind)
    assert len({spelling.key(name) for name in names}) == len(names)


@given(st.sampled_from(NAMES), st.data())
def test_a_name_with_a_letter_missing_is_answered_with_the_name(entry, data):
    kind, name = entry
    place = data.draw(st.integers(0, len(name) - 1))
    wrong = name[:place] + name[place + 1 :]
    if spelling.find(wrong, registry.names(kind)) is not None or len(name) < 6:
        return
    with pytest.raises(ValueError, match=f"unknown {kind} .*did you mean "):
        registry.get(kind, wrong)


@given(st.text(max_size=20))
def test_the_key_of_a_key_is_itself(text):
    assert spelling.key(spelling.key(text)) == spelling.key(text)


# by hand ------------------------------------------------------------------------------------------
def test_a_family_in_american_spelling():
    fabric = topologies.build("Rail-Optimized", servers=4, gpus=2, rails=2, radix=4)
    assert fabric.family == "rail_optimised"
    assert repr(fabric).startswith("topologies.build('rail_optimised', servers=4")


def test_a_run_is_recorded_under_the_registered_names():
    star = topologies.build("crossbar", hosts=4)
    run = fl.simulate("All-Reduce", "Ring", star, "1 MiB", method="ECMP", engine="Flow")
    same = fl.simulate("all_reduce", "ring", star, "1 MiB", method="ecmp", engine="flow")
    assert run.result.asked == same.result.asked
    assert run.result.how == same.result.how
    assert run.time == same.time
    assert fl.metrics.throughput(star, method="Spray") == fl.metrics.throughput(star)


def test_a_medium_in_any_spelling():
    chosen = fl.physics.media.choose("1 m", "100 Gb/s", media=["Active-Copper", "FIBRE"])
    assert chosen == fl.physics.media.choose("1 m", "100 Gb/s", media=["active copper", "fibre"])


@pytest.mark.parametrize(
    ("printed", "part"),
    [
        ("GPU0", ("gpu", 0)),
        ("gpu7", ("gpu", 7)),
        ("GPU/3", ("gpu", 3)),
        ("cuda:2", ("gpu", 2)),
        ("NIC12", ("nic", 12)),
        ("NET/IB/1", ("nic", 1)),
        ("NET/0/GDRDMA", ("nic", 0)),
        ("mlx5_0", ("nic", 0)),
        ("mlx5_10:1/RoCE", ("nic", 10)),
        ("bnxt_re3", ("nic", 3)),
        ("leaf_5", None),
        ("spine 1", None),
        ("gpu 0.0", None),
        ("", None),
    ],
)
def test_parts_as_tools_print_them(printed, part):
    assert spelling.printed_part(printed) == part


# refusals -----------------------------------------------------------------------------------------
def test_exact_words_are_not_spelled_otherwise():
    assert units.choice("Ring", "algorithm", ["ring", "tree"]) == "ring"
    with pytest.raises(ValueError, match="did you mean 'ring'"):
        units.choice("Ring", "algorithm", ["ring", "tree"], exact=True)


def test_two_known_words_with_one_spelling_must_be_written_as_they_are():
    assert units.choice("B", "unit", ["b", "B"]) == "B"
    assert spelling.find("a-b", ["a_b", "a b"]) is None


@pytest.mark.parametrize("word", ["gdr", "GPUDirect", "p2p", "GDS"])
def test_a_mechanism_by_its_brand_is_answered_with_its_name(word):
    server = topologies.build("dgx_h100")
    with pytest.raises(ValueError, match=r"mechanism must be one of .*; did you mean 'peer'\?"):
        fl.gpudirect.path(server, "nic 0", "gpu 0", word)
