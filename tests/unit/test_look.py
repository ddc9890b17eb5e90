"""The colours of the course: told apart in both themes and by colour-blind readers, and legible."""

import itertools

import numpy as np
import pytest

from fabriclab.look import (
    COLOUR,
    KEYS,
    PALETTE,
    ROLES,
    SHADES,
    TOKENS,
    algorithm,
    graded,
    ink_on,
    link_width,
    shade,
    variables,
)
from fabriclab.views.page import printed_hex
from fabriclab.views.scene import DASHES, FORM, HATCHES
from fabriclab.views.timelines import FILLS
from support.colour_science import BLINDNESS, contrast, lab, linear

THEMES = ("light", "dark")
APART = 20.0  # CIE 1976 difference; about 2.3 is just noticeable
# Colours that meet in one picture.
TOGETHER = {
    "algorithms": ("ring", "tree", "halving", "in_switch"),
    "states of links": ("hair", "overloaded", "failed", "drained"),
    "packets": ("queue", "rate", "marked", "paused", "lost", "hair"),
    "kinds of traffic": ("dp", "tp", "pp", "ep", "cp", "hair", "failed", "drained"),
    "tenants": ("tenant_a", "tenant_b", "tenant_c", "tenant_d", "hair", "failed", "drained"),
}
# What recedes on purpose, is an area or stands on one; everything else is text or carries data.
QUIET = {"paper", "sunk", "line", "hair", "edge", "drained", "domain", "optimiser"}
AREAS = {name for name in TOKENS if name.endswith("wash")} | {"on_accent", "node_ink"}
LOADS = range(len(PALETTE) - SHADES, len(PALETTE))


def seen(hexadecimal, kind):
    """Return a colour as a reader with a kind of colour blindness sees it, in CIELAB."""
    return lab(np.clip(np.array(BLINDNESS[kind]) @ linear(hexadecimal), 0, 1))


def apart(one, other, kind):
    return float(np.linalg.norm(seen(one, kind) - seen(other, kind)))


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("group", TOGETHER)
def test_colours_that_meet_can_be_told_apart(group, theme, kind):
    for one, other in itertools.combinations(TOGETHER[group], 2):
        distance = apart(getattr(TOKENS[one], theme), getattr(TOKENS[other], theme), kind)
        assert distance >= APART, (one, other, distance)


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("state", ["overloaded", "failed", "drained"])
def test_states_of_links_are_no_colour_of_the_map_of_loads(state, theme, kind):
    for place in LOADS:
        distance = apart(getattr(TOKENS[state], theme), getattr(PALETTE[place], theme), kind)
        assert distance >= APART, (place, distance)


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("theme", THEMES)
def test_categories_in_turn_can_be_told_apart(theme, kind):
    """Eight at once are more than hue can tell well, so the threshold is lower, and labels stand beside them."""
    assert len(KEYS) == len({*KEYS}) == 8
    hexes = [getattr(PALETTE[int(place)], theme) for place in KEYS]
    assert min(apart(*pair, kind) for pair in itertools.combinations(hexes, 2)) >= 12


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", TOKENS)
def test_colours_are_legible_on_the_card(name, theme):
    paper = TOKENS["paper"]
    ratio = contrast(getattr(TOKENS[name], theme), getattr(paper, theme))
    if name in QUIET or name in AREAS:
        assert name not in ("edge", "drained") or ratio >= 3
    elif name.startswith("load"):
        assert ratio >= 2.9  # a line of 1.5 px or more, with its name and its number in the table
    else:
        assert ratio >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("area", ["wash", "right_wash", "wrong_wash", "guess_wash", "sunk"])
def test_text_on_tinted_areas_is_legible(area, theme):
    ground = getattr(TOKENS[area], theme)
    assert contrast(getattr(TOKENS["ink"], theme), ground) >= 4.5
    for verdict in ("right", "wrong"):
        if area.startswith(verdict):
            assert contrast(getattr(TOKENS[verdict], theme), ground) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_words_on_every_colour_have_a_contrast_of_four_and_a_half(theme):
    for place, hues in enumerate(PALETTE):
        words = PALETTE[int(ink_on(place)[0])]
        assert contrast(getattr(hues, theme), getattr(words, theme)) >= 4.5


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("theme", THEMES)
def test_loads_get_further_from_the_paper_the_fuller_they_are(theme, kind):
    places = shade(np.linspace(0, 1, 9)).astype(int)
    light = [seen(getattr(PALETTE[place], theme), kind)[0] for place in places]
    assert light == sorted(light, reverse=theme == "light")
    assert abs(light[-1] - light[0]) > 30


def test_colours_of_loads_go_from_end_to_end_of_the_map():
    ends = [LOADS[0], LOADS[-1]]
    assert shade([0.0, 1.0, 2.0]).tolist() == [*ends, ends[1]]
    assert shade([np.nan]).tolist() == [COLOUR["grey"]]
    assert [PALETTE[place] for place in ends] == [TOKENS["load1"], TOKENS["load5"]]


def test_an_idle_link_is_thinner_than_any_loaded_one():
    width = link_width(np.array([0.0, np.nan, 0.001, 0.5, 1.0, 1.7]))
    assert width[0] == width[1] < 1 < width[2] < width[3] < width[4] == width[5]


def test_each_algorithm_has_one_hue_and_one_mark_in_any_spelling():
    spellings = {
        "ring": ("ring", "Ring", "ring (predicted)", "Ring/Simple"),
        "tree": ("tree", "double tree", "Double-Tree"),
        "halving": ("halving_doubling", "halving-doubling", "Halving doubling"),
        "in_switch": ("in-switch", "NVLS", "NVLSTree", "sharp", "nvls_sharp", "streaming"),
        "direct": ("direct", "one_root", "bruck", "recursive_doubling", "binomial_tree"),
    }
    marks = set()
    for name, spelled in spellings.items():
        looks = {algorithm(word) for word in spelled}
        assert [look.colour for look in looks] == [COLOUR[name]]
        marks |= {look.shape for look in looks}
    assert len(marks) == len(spellings)


def test_each_tier_has_a_grey_of_its_own_and_no_hue_of_traffic():
    greys = graded(np.arange(6)).tolist()
    assert len({*greys[:4]}) == 4 and greys[4:] == [greys[3]] * 2
    assert not {*greys} & {
        COLOUR[name] for name in ("dp", "tp", "pp", "ep", "cp", "load1", "load5")
    }


def test_shape_says_the_same_as_colour():
    looks = [(role.marker, role.filled) for role in ROLES.values() if role.marker]
    assert len(set(looks)) == len(looks)
    assert len(set(DASHES)) == len(DASHES)
    assert len(set(HATCHES)) == len(HATCHES) >= len(FILLS)
    assert len({*FORM.values()}) == len(FORM)
    assert all(role.colour in COLOUR for role in ROLES.values())


def test_a_drawing_has_another_colour_for_each_place():
    """So that a page can give each its colour of the theme."""
    hexes = [printed_hex(place) for place in range(len(PALETTE))]
    assert len({*hexes}) == len(hexes)
    for place, hues in enumerate(PALETTE):
        moved = int(hexes[place][1:], 16) - int(hues.light[1:], 16)
        assert abs(moved) <= len(PALETTE) and hexes[place][:5] == hues.light[:5]


@pytest.mark.parametrize("theme", THEMES)
def test_style_sheets_get_every_token(theme):
    for name, hues in TOKENS.items():
        assert f"--fl-{name.replace('_', '-')}:{getattr(hues, theme)};" in variables(theme)
