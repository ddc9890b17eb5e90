"""What live views show: nothing hides anything else, and all of it can be read, heard and translated."""

import numpy as np
import pytest

from fabriclab import topologies
from fabriclab.views import live

FAT = topologies.build("fat_tree", k=4)
LARGE = topologies.build("fat_tree", k=8)
RAILS = topologies.build("rail_optimised")
FABRICS = {
    "one host": topologies.build("crossbar", hosts=1),
    "crossbar": topologies.build("crossbar", hosts=16),
    "fat tree": FAT,
    "fat tree in blocks": LARGE,
    "with failed cables": LARGE.without(cables=[20, 300]),
    "leaves and spines": topologies.build("leaf_spine", hosts=8, radix=4),
    "one server": topologies.build("rail_optimised", servers=1),
    "four servers": topologies.build("rail_optimised", servers=4),
    "rails": RAILS,
    "rails without servers": topologies.build("rail_optimised", expand=False),
}
BUSY = {
    "fabric": lambda: live.fabric(LARGE.without(cables=[20]), np.linspace(0, 0.5, LARGE.n_links)),
    "rails": lambda: live.fabric(RAILS.without(cables=[5000]), np.linspace(0, 0.5, RAILS.n_links)),
    "floor": lambda: live.fabric(RAILS.without(cables=[5000]), np.linspace(0, 0.5, RAILS.n_links), layout="floor"),
    "placement": lambda: live.placement(topologies.build("rail_optimised", servers=4), seed=1),
}


def ends_of(layer):
    """Return left and right end of each box or text [px]; letters are taken for wide."""
    f = layer.fields
    if "w" in f:
        return f["x"], f["x"] + f["w"]
    wide = np.array(
        [0.6 * s * len(t) for s, t in zip(np.broadcast_to(f["size"], len(f["texts"])), f["texts"], strict=True)]
    )
    part = np.broadcast_to(f.get("align", 0), wide.size) / 2
    return f["x"] - part * wide, f["x"] + (1 - part) * wide


# fabrics ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FABRICS)
def test_boxes_stand_between_the_names_of_the_rows_and_the_cables(name):
    layers = live.fabric(FABRICS[name]).scene.layers
    left, right = ends_of(layers["nodes"])
    first, last = ends_of(layers["margins"])
    named = layers["margins"].fields["align"] == 2
    assert first.min() >= 0 and last.max() <= 700
    assert last[named].max() <= left.min() and right.max() <= first[~named].min()
    if layers["servers"].fields["x"].size:
        assert last[named].max() <= ends_of(layers["servers"])[0].min()


@pytest.mark.parametrize("name", BUSY)
def test_every_colour_is_told_to_those_who_do_not_see_it(name):
    colours = BUSY[name]().controls["colour"].options
    told = [BUSY[name]().set(colour=colour).scene.alt for colour in colours]
    assert len({*told}) == len(told) > 2
    assert all(f"The colour says the {word}" in alt for alt, word in zip(told, ("load: from ", "row: "), strict=False))


def test_what_the_colour_says_by_hand():
    load = np.linspace(0, 0.5, LARGE.n_links)
    hurt = LARGE.without(cables=[20])
    alts = {
        c: live.fabric(hurt, load, colour=c).scene.alt.split("The colour says ")[1] for c in ("load", "tier", "failure")
    }
    assert alts == {"load": "the load: from 0% to 50%.", "tier": "the row: 4 of them.",
                    "failure": "what has failed: 1 of 384."}  # fmt: skip
    alt = live.fabric(RAILS, colour="rail", layout="floor").scene.alt
    assert alt.endswith("The colour says the rail: 8 of them.")


def test_two_shuffles_are_told_apart():
    view = live.placement(topologies.build("rail_optimised", servers=2))
    assert len({view.set(seed=seed).scene.alt for seed in range(6)}) == 6


def test_a_choice_of_one_is_no_control():
    view = live.fabric(FAT)
    assert list(view.controls) == ["layout"]
    assert view.values == {"open": None, "colour": "tier", "layout": "tiers"}
    assert list(live.fabric(FAT.without(cables=[1])).controls) == ["colour", "layout"]
    three = {name: live.Slider(0, 3) for name in "abc"}
    assert list(live.fabric(FAT, lambda a, b, c: np.zeros(FAT.n_links), controls=three).controls) == ["a", "b", "c"]
    for wrong in ({"colour": "load"}, {"layout": "hall", "controls": three}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be one of '"):
            live.fabric(FAT, (lambda **_: np.zeros(FAT.n_links)) if "controls" in wrong else None, **wrong)


# steppers -----------------------------------------------------------------------------------------
STEPPERS = {
    "ring of 4": lambda: live.stepper("all_reduce", "ring", 4, step=2),
    "ring of 16": lambda: live.stepper("all_reduce", "ring", 16, step=2),
    "tree of 16": lambda: live.stepper("all_reduce", "binomial_tree", 16, segments=4, pipelined=True, step=3),
    "leaves": lambda: live.stepper(
        "all_reduce", "ring", 16, fabric=topologies.build("leaf_spine", hosts=32, radix=8), step=1
    ),
    "parts": lambda: live.stepper("broadcast", "scatter_all_gather", 4, segments=3, step=1),
    "one": lambda: live.stepper("all_reduce", "ring", 1, fabric=FABRICS["one host"]),
}


@pytest.mark.parametrize("name", STEPPERS)
def test_a_chunk_that_has_arrived_hides_neither_node_nor_rank(name):
    layers = STEPPERS[name]().scene.layers
    movers, nodes, ranks = (layers[k].fields for k in ("movers", "nodes", "ranks"))
    rest = movers["y"][movers["ptr"][1:].astype(int) - 1] if movers["x"].size else np.empty(0)
    assert np.all(rest + movers["h"] / 2 < ranks["y"].min() - 7)  # letters of 11 px, a quarter larger on a narrow page
    assert np.all(rest - movers["h"] / 2 > (nodes["y"] + nodes["h"]).max())
    assert nodes["x"].min() >= 0 and (nodes["x"] + nodes["w"]).max() <= 700
    assert nodes["y"].min() > layers["key"].fields["y"].max() + 12


@pytest.mark.parametrize("name", STEPPERS)
def test_names_of_ranks_and_blocks_have_their_room(name):
    layers = STEPPERS[name]().scene.layers
    left, right = ends_of(layers["ranks"])
    assert left.min() >= 0
    assert np.all(np.sort(right)[:-1] <= np.sort(left)[1:])
    left, right = ends_of(layers["rows"])
    assert 0 <= left.min() and right.max() < layers["cells"].fields["x"].min()
    assert len(layers["rows"].fields["texts"]) * len(layers["ranks"].fields["y"]) >= layers["cells"].fields["x"].size


def test_the_word_rank_stands_once_where_sixteen_would_run_together():
    assert STEPPERS["ring of 16"]().scene.layers["ranks"].fields["texts"] == ["rank", *map(str, range(16))]
    assert STEPPERS["ring of 4"]().scene.layers["ranks"].fields["texts"] == [f"rank {r}" for r in range(4)]


def test_parts_of_blocks_are_named():
    view = STEPPERS["tree of 16"]()
    layers = view.scene.layers
    assert layers["rows"].fields["texts"] == [f"block 0.{s}" for s in range(4)]
    assert layers["cells"].fields["names"][:5] == [*(f"rank 0, block 0.{s}" for s in range(4)), "rank 1, block 0.0"]
    assert {*layers["movers"].fields["texts"]} == {"0.0", "0.1", "0.2"}
    assert "rank 4 to rank 0: block 0.0, added" in view.scene.alt
    assert "Block 0.1 is part 1 of block 0." in view.set(step=0).scene.said
    several = STEPPERS["parts"]().scene
    assert several.layers["movers"].fields["texts"] == ["2.0+1"]
    assert several.layers["movers"].fields["w"] > 0.56 * 12 * 5
    assert "rank 0 to rank 2: block 2.0 and 1 more" in several.alt
    assert "0.0" not in STEPPERS["ring of 4"]().scene.alt
