"""Live views in a real browser, on a plain page with a model that stands in for the kernel."""

import contextlib
import itertools
import json
import re

import contact_sheet
import numpy as np
import pytest

import fabriclab as fl
from fabriclab import topologies
from fabriclab.course.questions import questions
from fabriclab.texts import text, unbroken
from fabriclab.views import live
from fabriclab.views.live.controls import ladder_of, natural
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, texts_at
from support.browser import alt, browser, cleared, measured, picture, reply, settled, show
from support.live_views import VIEWS
from support.prose import sentence
from support.sampling import sampled

DRAWN = [name for name in VIEWS if name != "table"]
# All views share one page; a browser moves every ninth of them on each push, and make test-all moves all.
MOVED = sampled(DRAWN, 9)
# Views with a button that plays.
PLAYED = (
    """
stepper; ring; large ring; root; halves; many pairs; two trees; two shots; routes; tree; switches; repeated;
timeline; race; hall race; end of race; roulette; tcp; request; packets; late copy; slowest; inside switch;
marks; drops; trims; credits; pause map; watched; slow receiver; rollout; loop; black hole; one order;
sick link; cordoned; matchings; one matching; mirrors turn; slices; small slices; two slices
""".replace("\n", " ")
    .strip()
    .split("; ")
)
KEYS = {
    "range": ("ArrowRight", "PageUp", "End"),
    "select-one": ("ArrowDown",),
    "radio": ("ArrowRight",),
}
ROOM, CANVAS = (
    600,
    412,
)  # px of height that a card and its picture may have in a window of 1366 x 768
OUTPUT = 934  # px: what JupyterLab leaves there for the width of an output, beside its file browser


@pytest.fixture(scope="module")
def chrome():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def kept(chrome):
    """The page on which these tests show one view after the other, and the errors that were thrown on it."""
    opened = chrome.new_page(reduced_motion="reduce")
    opened.set_default_timeout(15_000)
    wrong = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    return opened, wrong


@pytest.fixture
def page(kept):
    opened, wrong = kept
    wrong.clear()
    yield cleared(opened, {"width": 1024, "height": 800})
    assert wrong == []


@pytest.fixture
def hasten(page):
    """What has timers of the view that is shown run out five times sooner: beats of a play, patience with a kernel."""
    yield lambda: page.evaluate(
        """() => { for (const timer of ["setTimeout", "setInterval"]) {
          const usual = window[timer];
          window[timer] = (call, wait, ...more) => usual(call, wait / 5, ...more); } }"""
    )
    page.goto("about:blank")


@pytest.mark.parametrize("name", MOVED)
def test_every_control_moved_by_keyboard_gives_another_picture_and_another_text(page, name):
    show(page, VIEWS[name]())
    parts = page.query_selector_all("[data-control]")
    for control in dict.fromkeys(part.get_attribute("data-control") for part in parts):
        # each from the start: where two ends meet, no routing makes a difference
        page.click("[data-press=reset]")
        settled(page)
        part = page.query_selector(f"[data-control='{control}']")
        kind = part.get_attribute("type") or "select-one"
        if (
            kind == "radio"
        ):  # the keyboard gets to the chosen one, and to the first one from the last
            page.focus(f"[data-control='{control}']:checked")
        else:
            part.focus()
            page.keyboard.press("Home")
        settled(page)
        seen = [picture(page)]
        value = part.input_value()
        for key in KEYS[kind]:
            page.keyboard.press(key)
            settled(page)
            is_at_the_end = kind == "range" and part.input_value() == value
            if not is_at_the_end:  # a slider of three steps is there before the key End
                seen.append(picture(page))
            value = part.input_value()
        assert len(seen) > 1, control
        for one, other in itertools.pairwise(seen):
            assert one[0] != other[0], (control, "same picture")
            assert one[1] != other[1], (control, "same text")


def played(view):
    """Return the name of the slider that a button of a view plays; empty if there is none."""
    controls = view.controls.items()
    return next((name for name, one in controls if isinstance(one, live.Slider) and one.play), "")


@pytest.mark.parametrize("name", sampled(PLAYED, 4))
def test_the_controls_stay_in_place_while_a_view_plays(page, name):
    page.set_viewport_size({"width": 1366, "height": 768})
    view = VIEWS[name]()
    step = played(view)
    slider = view.controls[step]
    show(page, view, style=f"#root{{width:{OUTPUT}px}}")
    replies, said = [], []
    ends = (slider.low, min(slider.high, view.scene.limits.get(step, slider.high)))
    for value in np.geomspace(*ends, 24) if slider.log else np.linspace(*ends, 24):
        view.set(**{step: float(value)})
        replies.append(reply(view))
        said.append(view.scene.said)
    places = page.evaluate(
        """(replies) => replies.map((reply) => { window.model.take(reply);
          const {x, y} = document.querySelector("[data-press=play]").getBoundingClientRect(); return [x, y]; })""",
        replies,
    )
    x, y = zip(*places, strict=True)
    assert max(x) - min(x) < 3 and len({*y}) == 1, [*zip(places, said, strict=True)]


# The heights of a card, its controls and its picture; controls that are hidden have none.
HEIGHTS = """() => {
  const [card, canvas, controls] = [".fl-live", ".fl-canvas", ".fl-controls"].map((part) => {
    const {y, width, height} = document.querySelector(part).getBoundingClientRect();
    return {y, width, height};
  });
  const wide = window.model.state.frame.panels.reduce((sum, panel) => sum + panel.width, 0);
  return {card, canvas, controls, wide};
}"""


# In parts, so that two workers share them.
@pytest.mark.parametrize("part", range(6))
def test_finding_controls_and_picture_fit_on_a_small_laptop_together(page, part):
    page.set_viewport_size({"width": 1366, "height": 768})
    views = {name: VIEWS[name]() for name in DRAWN[part::6]}
    style = f"#root{{width:{OUTPUT}px}}"
    for (name, view), found in zip(
        views.items(), measured(page, [*views.values()], HEIGHTS, style=style), strict=True
    ):
        card, canvas, controls = (found[part] for part in ("card", "canvas", "controls"))
        assert bool(played(view)) == (name in PLAYED), name
        assert 0 < card["height"] <= ROOM, name
        assert 0 < canvas["height"] <= CANVAS and 0 < canvas["width"] <= OUTPUT, name
        if controls["height"]:  # above the picture, in one row
            assert controls["y"] + controls["height"] <= canvas["y"] + 1, name
            assert controls["height"] <= 48, name
        # Nothing was made smaller to fit, since texts keep their size and would meet.
        assert canvas["width"] >= found["wide"], name


def test_a_table_fits_on_a_small_laptop(page):
    page.set_viewport_size({"width": 1366, "height": 768})
    show(page, VIEWS["table"](), style=f"#root{{width:{OUTPUT}px}}")
    page.wait_for_selector(".fl-table table")
    assert page.query_selector(".fl-live").bounding_box()["height"] <= ROOM
    assert "table" not in PLAYED


def test_a_taller_window_gives_a_larger_picture(page):
    heights = []
    for window in (768, 1080):
        page.set_viewport_size({"width": 1920, "height": window})
        if not heights:
            show(page, VIEWS["fabric"]())
        page.wait_for_timeout(100)
        heights.append(page.query_selector(".fl-canvas").bounding_box()["height"])
    assert heights[0] <= CANVAS < heights[1] <= 0.6 * 1080


def test_a_moved_control_leaves_a_ghost_of_its_former_place(page):
    show(page, VIEWS["ruler"]())
    assert not page.is_visible(".fl-was")
    page.focus("[data-control=rate]")
    page.keyboard.press("PageUp")
    settled(page)
    assert page.is_visible(".fl-was")
    page.click("[data-press=reset]")
    settled(page)
    assert not page.is_visible(".fl-was")


def test_the_former_state_of_a_layer_stays_as_a_ghost_until_the_next_reset(page):
    def bar(length, ghost):
        place = {"x": np.array([100.0]), "y": np.array([20.0]), "w": np.array([length])}
        layer = Layer("boxes", {**place, "h": np.array([20.0]), "colour": 0.0, "ghost": ghost})
        return Scene(f"The bar is {length:g} long.", None, {"bar": layer}, 60.0)

    def shown(ghost):
        view = live.Live(
            "x(",
            lambda length: bar(float(length), ghost),
            {"length": live.Slider(100, 400, 100)},
            {"length": 300},
            "a bar",
        )
        show(page, view)
        page.focus("[data-control=length]")
        page.keyboard.press("Home")
        settled(page)
        after, _ = picture(page)
        page.click("[data-press=reset]")
        settled(page)
        back, _ = picture(page)
        return after, back

    (plain, before), (ghostly, again) = shown(False), shown(True)
    assert plain != ghostly
    assert before == again


def test_no_line_of_a_finding_or_a_footer_ends_before_a_unit(page):
    view = VIEWS["cost front"]()
    show(page, view)
    for part, words in ((".fl-said", view.scene.said), (".fl-hint", view.scene.hint)):
        assert page.inner_text(part) == unbroken(words)
        assert "\u00a0" in unbroken(words)


def test_a_setting_is_pinned_beside_the_next_and_put_away(page):
    show(page, VIEWS["stepper"]())
    first, _ = picture(page)
    finding = page.inner_text(".fl-said")
    page.click("[data-press=pin]")
    page.click("[data-press=forward]")
    settled(page)
    pinned = "() => document.querySelector('.fl-pin canvas')?.toDataURL()"
    assert page.inner_text(".fl-pin figcaption span") in finding
    assert picture(page)[0] != first
    assert page.evaluate(pinned)
    kept = page.evaluate(pinned)
    page.click("[data-press=forward]")
    settled(page)
    assert page.evaluate(pinned) == kept
    page.click("[data-press=unpin]")
    assert page.query_selector(".fl-pin") is None
    focused = page.evaluate("() => document.activeElement.dataset.press")
    assert focused == "pin"


def test_the_card_follows_the_theme_of_the_page(page):
    page.emulate_media(color_scheme="light")
    show(page, VIEWS["stepper"](), style="body{color:#111}")
    ground = "() => getComputedStyle(document.querySelector('.fl-live')).backgroundColor"
    light, (lit, _) = page.evaluate(ground), picture(page)
    page.evaluate("() => document.body.setAttribute('data-jp-theme-light', 'false')")
    page.wait_for_function(f"(before) => ({ground})() !== before", arg=light)
    page.wait_for_timeout(100)
    assert picture(page)[0] != lit
    page.evaluate("() => document.body.setAttribute('data-jp-theme-light', 'true')")
    page.wait_for_function(f"(before) => ({ground})() === before", arg=light)


def test_flows_run_along_loaded_links_and_stand_still_on_request(page):
    def scene():
        path = {"ptr": np.array([0, 2]), "x": np.array([50.0, 650.0]), "y": np.array([30.0, 30.0])}
        look = {"width": 4.0, "colour": 0.0, "flow": np.array([0.7])}
        return Scene("A link.", None, {"cables": Layer("lines", {**path, **look})}, 60.0)

    for wish, moves in (("no-preference", True), ("reduce", False)):
        page.emulate_media(reduced_motion=wish)
        show(page, live.Live("x(", scene, {}, {}, "a link"))
        first, _ = picture(page)
        page.wait_for_timeout(300)
        assert (picture(page)[0] != first) == moves


def test_packets_rest_while_an_answer_is_awaited_and_run_on_afterwards(page):
    def scene(load):
        path = {"ptr": np.array([0, 2]), "x": np.array([50.0, 650.0]), "y": np.array([30.0, 30.0])}
        look = {"width": 4.0, "colour": 0.0, "flow": np.array([load / 10])}
        return Scene(
            f"A link with load {load:g}.", None, {"cables": Layer("lines", path | look)}, 60.0
        )

    view = live.Live("x(", scene, {"load": live.Slider(1, 9, 1)}, {"load": 5}, "a link")
    asked = []

    def answer(request):
        asked.append(json.loads(request))
        if len(asked) > 1:
            return None  # the second question is never answered
        view.widget.asked = asked[-1]
        return reply(view)

    page.emulate_media(reduced_motion="no-preference")
    show(page, view, answer=answer)
    page.focus("[data-control=load]")
    page.keyboard.press("ArrowRight")
    settled(page)
    page.wait_for_timeout(600)
    first, _ = picture(page)
    page.wait_for_timeout(300)
    assert picture(page)[0] != first
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    first, _ = picture(page)
    page.wait_for_timeout(900)
    assert picture(page)[0] == first


def test_a_glide_ends_where_the_picture_is_without_motion_also_if_a_hand_cuts_it_short(page):
    def scene(length):
        frame = {"x": np.array([20.0]), "y": np.array([20.0]), "h": np.array([20.0])}
        still = Layer("boxes", frame | {"w": np.array([300.0]), "colour": 1.0, "texts": ["still"]})
        glides = {"w": np.array([20.0 * length]), "colour": 2.0, "glide": True, "ghost": True}
        side = Scene("", layers={"bar": Layer("boxes", frame | glides)}, height=90.0, width=260.0)
        return Scene(f"The bar is {length:g} long.", None, {"still": still}, 90.0, side=side)

    def shown(wish, moves):
        """Return the picture some time after so many moves by keyboard, of which only the first is answered."""
        view = live.Live("x(", scene, {"length": live.Slider(1, 9, 1)}, {"length": 2}, "a bar")
        asked = []

        def answer(request):
            asked.append(json.loads(request))
            if len(asked) > 1:
                return None
            view.widget.asked = asked[-1]
            return reply(view)

        page.emulate_media(reduced_motion=wish)
        show(page, view, answer=answer)
        page.focus("[data-control=length]")
        page.keyboard.press("PageUp")
        settled(page)
        for _ in range(moves - 1):
            page.keyboard.press("ArrowRight")
        page.wait_for_timeout(1000 if wish == "no-preference" else 700)
        found, _ = picture(page)
        return found

    assert shown("no-preference", 1) == shown("reduce", 1)
    assert shown("no-preference", 2) == shown("reduce", 2)


def test_a_solid_is_turned_by_drag_and_by_arrow_keys(page):
    def scene():
        corner = np.array([-60.0, 60.0])
        x, y, z = (axis.ravel() for axis in np.meshgrid(corner, corner, corner))
        place = {"x": x, "y": y, "z": z, "middle": (350.0, 120.0), "size": 5.0}
        dots = Layer("dots", {**place, "names": [f"chip {i}" for i in range(8)]})
        return Scene("A cube.", None, {"chips": dots}, 240.0)

    show(page, live.Live("x(", scene, {}, {}, "a cube"))
    seen = [picture(page)[0]]
    page.focus(".fl-canvas")
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
        seen.append(picture(page)[0])
    box = page.query_selector(".fl-canvas").bounding_box()
    page.mouse.move(box["x"] + 350, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + 420, box["y"] + 140, steps=4)
    page.mouse.up()
    page.wait_for_timeout(50)
    seen.append(picture(page)[0])
    assert len({*seen}) == 4
    page.focus(".fl-canvas")
    page.keyboard.press("PageDown")
    assert page.inner_text(".fl-hint").startswith("chip ")


def test_every_shape_of_dots_is_drawn_in_its_own_way(page):
    def dot(shape):
        place = {"x": np.array([300.0]), "y": np.array([30.0]), "size": 20.0, "shape": float(shape)}
        return Scene(str(shape), None, {"dot": Layer("dots", place)}, 60.0)

    show(page, live.Live("x(", dot, {"shape": live.Slider(0, 10)}, {"shape": 0}, "shapes"))
    page.focus("[data-control=shape]")
    seen = []
    for _ in range(11):
        settled(page)
        seen.append(picture(page)[0])
        page.keyboard.press("ArrowRight")
    assert len({*seen}) == 11


def test_a_frame_in_ink_is_drawn_and_none_is_none(page):
    looks = ({}, {"edge": COLOUR["none"]}, {"edge": COLOUR["ink"]}, {"edge": COLOUR["wrong"]})

    def box(look):
        one = boxes(300.0, 20.0, 40.0, 30.0, colour=COLOUR["paper"], **looks[look])
        return Scene(str(look), None, {"box": one}, 60.0)

    last = len(looks) - 1
    show(page, live.Live("x(", box, {"look": live.Slider(0, last)}, {"look": 0}, "looks"))
    page.focus("[data-control=look]")
    seen = []
    for _ in looks:
        settled(page)
        seen.append(picture(page)[0])
        page.keyboard.press("ArrowRight")
    assert seen[0] == seen[1] and len({*seen}) == 3


def test_a_dot_is_dragged_and_the_last_value_wins(page):
    view = VIEWS["ruler"]().set(rate=100)
    show(page, view)
    canvas = page.query_selector(".fl-canvas").bounding_box()
    scale = canvas["width"] / view.scene.width

    dots = view.scene.layers["dots"].fields
    mine = dots["drag"].index("rate")
    x, y = (float(canvas[k] + dots[k][mine] * scale) for k in "xy")
    ends = [float(canvas["x"] + x * scale) for x in dots["drag_ends"]]
    before = picture(page)
    page.mouse.move(x + 60, y)
    page.mouse.down()
    page.mouse.move(x + 90, y)  # beside the dot nothing is held
    page.mouse.up()
    settled(page)
    assert view.values["rate"] == 100
    page.mouse.move(x, y)
    assert page.evaluate("() => document.querySelector('.fl-canvas').style.cursor") == "ew-resize"
    page.mouse.down()
    page.mouse.move(ends[1] + 200, y + 40, steps=12)
    settled(page)
    assert view.values["rate"] == view.controls["rate"].high
    for part in (0.2, 0.3, 0.4):
        page.mouse.move(ends[0] + part * (ends[1] - ends[0]), y)
    settled(page)
    assert view.values["rate"] == pytest.approx(0.01 * 1e6**0.4, rel=0.02)
    assert page.input_value(".fl-amount input") == natural(view.values["rate"], "GB/s")
    after = picture(page)
    assert after[0] != before[0] and after[1] != before[1]
    page.mouse.up()
    page.mouse.move(ends[0], y)
    settled(page)
    assert view.values["rate"] == pytest.approx(0.01 * 1e6**0.4, rel=0.02)  # let go


def test_a_number_beyond_the_range_is_told(page):
    view = VIEWS["ruler"]()
    show(page, view)
    page.fill(".fl-amount input", "99999999")
    page.keyboard.press("Enter")
    settled(page)
    assert view.values["rate"] == 10000
    told = text("live.beyond", low="10 MB/s", high="10 TB/s")
    assert page.inner_text("[role=alert]") == told
    page.fill(".fl-amount input", "20 GB/s")
    page.keyboard.press("Enter")
    settled(page)
    assert view.values["rate"] == 20
    assert not page.is_visible("[role=alert]")


@pytest.mark.parametrize(
    ("typed", "rate", "shown"),
    [
        ("400 Gb/s", 50, "50 GB/s"),
        ("250 MB/s", 0.25, "250 MB/s"),
        ("1.2TB/s", 1200, "1.2 TB/s"),
        ("1,200 GB/s", 1200, "1.2 TB/s"),
        ("2,5 GB/s", 2.5, "2.5 GB/s"),
    ],
)
def test_a_value_is_typed_in_any_unit_and_shown_in_its_own(page, typed, rate, shown):
    view = VIEWS["ruler"]()
    show(page, view)
    page.fill(".fl-amount input", typed)
    page.keyboard.press("Enter")
    settled(page)
    assert view.values["rate"] == rate
    assert page.input_value(".fl-amount input") == shown
    assert page.get_attribute("[data-control=rate]", "aria-valuetext") == shown
    page.fill(".fl-amount input", "9")  # in the unit that stands there
    page.keyboard.press("Enter")
    settled(page)
    in_gigabytes = dict(ladder_of("GB/s"))[shown.split()[1]]
    assert view.values["rate"] == pytest.approx(max(0.01, 9 * in_gigabytes))


def test_a_unit_that_is_none_is_told(page):
    view = VIEWS["ruler"]()
    show(page, view)
    before = view.values["rate"]
    page.fill(".fl-amount input", "3 parsecs")
    page.keyboard.press("Enter")
    assert page.inner_text("[role=alert]") == text("live.unread", example="10 TB/s")
    page.keyboard.press("Tab")
    assert view.values["rate"] == before
    assert page.input_value(".fl-amount input") == natural(before, "GB/s")


# Forms


@pytest.fixture
def guess(page, monkeypatch, tmp_path):
    """A form for a guess on a ruler from 0.01 to 1,000."""
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    show(page, fl.predict("22-detour").live())
    return page


def numbers(page):
    """Return the three fields of a form: at least, best guess, at most."""
    values = [page.input_value(f"[name={name}]") for name in ("low", "value", "high")]
    return [float(value) if value else None for value in values]


def handles(page):
    """Return where the handles of a ruler stand, from 0 to 1; of those that are not set, None."""
    return page.evaluate(
        """() => { const ruler = document.querySelector(".fl-ruler").getBoundingClientRect();
          return ["low", "value", "high"].map((name) => {
            const hand = document.querySelector(`[data-hand=${name}]`);
            if (hand.hidden) return null;
            const box = hand.getBoundingClientRect();
            return (box.left + box.width / 2 - ruler.left) / ruler.width; }); }"""
    )


def at(page, value):
    """Return the place [px] of a value on the ruler from 0.01 to 1,000."""
    box = page.locator(".fl-ruler").bounding_box()
    return box["x"] + box["width"] * np.log10(value / 0.01) / 5, box["y"] + 44


def dragged(page, start, end):
    page.mouse.move(*at(page, start))
    page.mouse.down()
    page.mouse.move(*at(page, end), steps=5)
    page.mouse.up()


def test_a_guess_begins_without_handles_and_a_click_sets_it_with_a_range(guess):
    assert numbers(guess) == [None] * 3 and handles(guess) == [None] * 3
    assert guess.is_visible(f"text={text('card.click')}")
    guess.mouse.click(*at(guess, 10))
    assert numbers(guess) == pytest.approx([3.3, 10, 30], rel=0.02)
    assert handles(guess) == pytest.approx([0.504, 0.6, 0.695], abs=0.005)
    assert not guess.is_visible(f"text={text('card.click')}")
    assert guess.evaluate("document.activeElement.dataset.hand") == "value"


def test_the_range_follows_the_guess_and_handles_push_each_other(guess):
    guess.mouse.click(*at(guess, 1))
    dragged(guess, 3, 20)
    low, best, high = numbers(guess)
    assert [best, high] == pytest.approx([1, 20], rel=0.02)
    for to in (2, 30, 10):  # there and back again, as a hand does
        dragged(guess, numbers(guess)[1], to)
    moved = numbers(guess)
    assert moved[1] == pytest.approx(10, rel=0.02)
    assert np.divide(moved, 10) == pytest.approx([low, 1, 20], rel=0.03)
    dragged(guess, moved[0], 100)
    assert numbers(guess) == pytest.approx([100, 100, 200], rel=0.05)
    dragged(guess, 200, 0.5)
    assert numbers(guess) == pytest.approx([0.5] * 3, rel=0.05)
    assert np.diff(handles(guess)).min() >= 0


def test_a_handle_is_moved_by_keys_and_says_its_number_with_its_unit(guess):
    guess.fill("[name=value]", "10")
    guess.keyboard.press("Enter")
    settled(guess)
    dot = guess.locator("[data-hand=value]")
    dot.focus()
    seen = [numbers(guess)[1]]
    for key in ("ArrowRight", "ArrowRight", "PageUp", "End", "Home", "ArrowUp", "ArrowLeft"):
        guess.keyboard.press(key)
        seen.append(numbers(guess)[1])
    assert seen == pytest.approx([10, 11, 12, 38, 1000, 0.01, 0.011, 0.01], rel=0.05)
    assert dot.get_attribute("aria-valuetext") == "0.01 times"
    assert float(dot.get_attribute("aria-valuenow")) == 0.01
    low, _, high = numbers(guess)
    guess.locator("[data-hand=high]").focus()
    guess.keyboard.press("ArrowRight")
    assert numbers(guess)[:2] == [low, 0.01] and numbers(guess)[2] > high
    sizes = guess.evaluate(
        """() => [...document.querySelectorAll("[data-hand]")].map((hand) => {
          const {width, height} = hand.getBoundingClientRect(); return Math.min(width, height); })"""
    )
    assert min(sizes) >= 24


def test_what_follows_a_guess_stays_on_the_ruler_and_comes_back(guess):
    guess.fill("[name=value]", "10")
    guess.keyboard.press("Enter")
    settled(guess)
    before = numbers(guess)
    guess.locator("[data-hand=value]").focus()
    settled(guess)  # the field that was left has been read again
    for key in ("End", "PageUp", "PageUp"):
        guess.keyboard.press(key)
    assert numbers(guess)[1:] == [1000, 1000]
    guess.keyboard.press("Home")
    assert numbers(guess)[:2] == [0.01, 0.01]
    guess.fill("[name=value]", "10")
    guess.keyboard.press("Enter")
    settled(guess)
    assert numbers(guess) == pytest.approx(before, rel=0.05)


def test_a_click_into_a_field_selects_its_number_so_that_typing_replaces_it(guess):
    guess.fill("[name=value]", "260")
    guess.keyboard.press("Enter")
    settled(guess)
    guess.focus("[name=low]")
    guess.click("[name=value]")
    guess.keyboard.type("8,5")
    guess.keyboard.press("Tab")
    settled(guess)
    assert numbers(guess)[1] == 8.5
    guess.click("[name=value]")
    guess.click("[name=value]")  # a second click sets the place to type at
    guess.keyboard.press("End")
    guess.keyboard.type("1")
    guess.keyboard.press("Tab")
    settled(guess)
    assert numbers(guess)[1] == 8.51


def test_a_range_that_was_pushed_to_one_point_stays_there_when_the_guess_moves(guess):
    for name, number in (("value", "10"), ("low", "50"), ("high", "2")):
        guess.fill(f"[name={name}]", number)
        guess.keyboard.press("Tab")
        settled(guess)
    guess.fill("[name=value]", "1.125")
    guess.keyboard.press("Tab")
    settled(guess)
    assert numbers(guess) == [1.125, 1.125, 1.125]


def test_a_number_typed_with_a_comma_is_that_number_and_others_are_refused_with_the_reason(guess):
    guess.fill("[name=value]", "8,5")
    guess.keyboard.press("Tab")
    settled(guess)
    assert numbers(guess) == pytest.approx([2.8, 8.5, 26], rel=0.02)
    guess.fill("[name=low]", "9")
    guess.keyboard.press("Tab")
    settled(guess)
    assert numbers(guess)[:2] == [9, 9]
    guess.fill("[name=value]", "many")
    guess.keyboard.press("Enter")
    settled(guess)
    assert "one finite number, got 'many'" in guess.inner_text("[role=alert]")
    assert handles(guess)[1] == pytest.approx(np.log10(900) / 5, abs=0.01)  # where it was
    guess.click("[data-press=store]")
    settled(guess)
    assert "one finite number, got 'many'" in guess.inner_text("[role=alert]")
    assert fl.progress().data["predictions"] == {}
    guess.fill("[name=value]", "850 %")
    guess.keyboard.press("Enter")
    settled(guess)
    assert not guess.is_visible("[role=alert]") and numbers(guess)[1] == 8.5


@pytest.mark.parametrize("in_haste", [False, True])
def test_a_guess_is_stored_by_keyboard_alone(guess, in_haste):
    guess.focus("[name=low]")
    for typed in ("1", "8,5", "20"):
        guess.keyboard.type(typed)
        guess.keyboard.press("Tab")
        if not in_haste:
            settled(guess)
    guess.keyboard.press("Tab")
    guess.keyboard.press("Enter")
    settled(guess)
    kept = fl.progress().data["predictions"]["22-detour"]
    assert (kept["low"], kept["value"], kept["high"]) == (1.0, 8.5, 20.0)
    stored = guess.inner_text(".fl-verdict")
    assert sentence("predict.stored").fullmatch(stored)
    assert guess.inner_text(".fl-voice") == stored
    assert guess.evaluate("document.activeElement.dataset.press") == "store"
    assert handles(guess) == pytest.approx(np.log10([100, 850, 2000]) / 5, abs=0.005)


def test_an_answer_that_comes_late_leaves_what_was_typed_since(guess):
    guess.evaluate(
        """() => { const usual = window.python;
          window.python = async (...asked) => {
            await new Promise((done) => setTimeout(done, 300));
            return usual(...asked);
          } }"""
    )
    guess.focus("[name=low]")
    for typed in ("1", "8,5", "20"):
        guess.keyboard.type(typed)
        guess.keyboard.press("Tab")
    settled(guess)
    assert numbers(guess) == [1.0, 8.5, 20.0]


def test_an_empty_guess_is_not_stored_and_no_idea_is(guess):
    guess.click("[data-press=store]")
    settled(guess)
    assert guess.inner_text("[role=alert]") == text("form.move")
    guess.click("[data-press=pass]")
    settled(guess)
    assert not guess.is_visible("[role=alert]")
    assert fl.progress().data["predictions"]["22-detour"]["value"] is None


def test_a_finger_drags_a_guess(chrome, monkeypatch, tmp_path):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    context = chrome.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    phone = context.new_page()
    show(phone, fl.predict("22-detour").live())
    phone.touchscreen.tap(*at(phone, 1))
    assert numbers(phone)[1] == pytest.approx(1, rel=0.05)
    touch = context.new_cdp_session(phone)
    for kind, value in (
        ("touchStart", 1),
        ("touchMove", 10),
        ("touchMove", 100),
        ("touchEnd", None),
    ):
        x, y = at(phone, value or 1)
        points = [] if value is None else [{"x": x, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert numbers(phone)[1] == pytest.approx(100, rel=0.05)
    wide = phone.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    context.close()


@pytest.fixture
def choice(page, monkeypatch, tmp_path):
    """A question with four options, and its letters: wrong ones, then the right one."""
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    options = questions()["22-far"].options({})
    show(page, fl.check("22-far").live())
    return page, sorted(options, key=lambda letter: not options[letter][1])


def test_options_are_chosen_by_letter_and_the_keyboard_stays_in_the_card(choice):
    page, (first, second, _, right) = choice
    heights = page.evaluate(
        "() => [...document.querySelectorAll('.fl-option')].map((o) => o.getBoundingClientRect().height)"
    )
    assert len(heights) == 4 and min(heights) >= 40
    page.focus(f"[data-press={second}]")
    page.keyboard.press("x")  # no option
    page.keyboard.press(first)
    settled(page)
    assert "fl-missed" in page.get_attribute(f"[data-press={first}]", "class")
    assert page.locator(f"[data-press={first}]").is_disabled()
    assert page.inner_text(".fl-verdict b").startswith(text("check.wrong"))
    assert page.inner_text(".fl-voice").startswith(text("check.wrong"))
    assert page.evaluate("document.activeElement.dataset.press") == second
    page.keyboard.press("Enter")
    settled(page)
    page.keyboard.press(right)
    settled(page)
    assert page.locator(".fl-missed").count() == 2 and page.locator(".fl-hit").count() == 1
    assert text("check.right", tries=text("check.tries", n=3)) == page.inner_text(".fl-verdict b")
    assert page.locator(".fl-option:not(:disabled)").count() == 0
    assert page.evaluate("document.activeElement.closest('.fl-card') !== null")


def test_only_the_first_words_of_a_verdict_are_bold(choice):
    page, (wrong, *_) = choice
    page.click(f"[data-press={wrong}]")
    settled(page)
    weights = page.evaluate(
        "() => [...document.querySelector('.fl-verdict').children].map((n) => getComputedStyle(n).fontWeight)"
    )
    assert weights[0] == "700" and set(weights[1:]) == {"400"} and len(weights) > 1


def test_enter_checks_a_number_and_keys_never_reach_the_page(page, monkeypatch, tmp_path):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    show(page, fl.check("31-ring-time").live())
    page.evaluate(
        "() => { window.keys = []; addEventListener('keydown', (e) => keys.push(e.key)); }"
    )
    page.focus("[name=answer]")
    page.keyboard.type("0,0426 s")
    page.keyboard.press("Enter")
    settled(page)
    assert page.input_value("[name=answer]") == "0,0426 s"
    assert page.locator(".fl-is-wrong").count() == 1
    assert page.evaluate("document.activeElement.name") == "answer"
    page.fill("[name=answer]", "fast")
    page.click("[data-press=check]")
    settled(page)
    assert text("check.uncounted") in page.inner_text(".fl-verdict")
    assert "'fast'" in page.inner_text(
        ".fl-verdict b"
    )  # as it was typed, without the unit of the field
    page.fill("[name=answer]", "341 MS")
    page.keyboard.press("Shift+M")
    page.fill("[name=answer]", "341 ms")
    page.keyboard.press("Enter")
    settled(page)
    assert page.locator(".fl-is-right").count() == 1
    assert set(page.evaluate("window.keys")) <= {"Shift"}


def test_the_truth_drops_into_the_reveal_and_stands_still_for_those_who_wish(
    page, monkeypatch, tmp_path
):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    fl.predict("22-detour", 3, "times", low=0.5, high=20)
    names = {}
    for motion in ("reduce", "no-preference"):
        page.emulate_media(reduced_motion=motion)
        page.set_content(fl.reveal("22-detour", 15.5, "times")._repr_html_())
        names[motion] = page.evaluate(
            "() => getComputedStyle(document.querySelector('.fl-truth'), '::before').animationName"
        )
    page.goto("about:blank")
    assert names == {"reduce": "none", "no-preference": "fl-drop"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_card_outside_a_kernel_has_the_colours_of_the_theme(page, monkeypatch, tmp_path, theme):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    page.emulate_media(color_scheme=theme)
    page.set_content(fl.check("22-far")._repr_html_())
    paper = page.evaluate(
        "() => getComputedStyle(document.querySelector('.fl-card')).backgroundColor"
    )
    page.goto("about:blank")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 28)"}[theme]


@pytest.mark.alone  # where the browser gets no time, each event has a frame of its own
def test_30_events_in_300_ms_are_coalesced_and_the_last_value_wins(page):
    view = VIEWS["fabric"]()
    show(page, view)
    before = page.evaluate("window.model.saves")
    page.evaluate(
        """async () => {
          const rail = document.querySelector("[data-control=seed]");
          for (let i = 1; i <= 30; i++) {
            rail.value = i % 10;
            rail.dispatchEvent(new Event("input", {bubbles: true}));
            await new Promise((go) => setTimeout(go, 10));
          }
          rail.value = 7;
          rail.dispatchEvent(new Event("input", {bubbles: true}));
        }"""
    )
    settled(page)
    assert view.values["seed"] == 7
    assert page.input_value(".fl-amount input") == "7"
    assert page.evaluate("window.model.saves") - before <= 25


def test_a_slow_kernel_gets_one_question_at_a_time(page):
    view, asked = VIEWS["stepper"](), []

    def slow(text):
        import json
        import time

        asked.append(json.loads(text))
        time.sleep(0.25)
        view.widget.asked = asked[-1]
        return reply(view)

    show(page, view, answer=slow)
    page.evaluate(
        """() => { const rail = document.querySelector("[data-control=step]");
          for (let i = 1; i <= 6; i++) setTimeout(() => {
            rail.value = i;
            rail.dispatchEvent(new Event("input", {bubbles: true})); }, 30 * i); }"""
    )
    page.wait_for_function("() => window.model.state.frame.values.step === 6")
    assert [question["values"]["step"] for question in asked][-1] == 6
    assert len(asked) <= 3


def test_a_dead_kernel_is_told_in_words_for_as_long_as_it_is_dead(page, hasten):
    show(page, VIEWS["stepper"](), answer=lambda text: None)
    hasten()
    page.query_selector("[data-control=step]").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=kernel has stopped")
    page.hover(".fl-canvas")
    page.mouse.move(5, 700)
    page.keyboard.press("ArrowRight")
    assert page.is_visible("text=kernel has stopped")


def test_presses_wait_for_their_turn_with_the_values_of_their_moment(page):
    import json
    import time

    asked, view = [], VIEWS["stepper"]()

    def slow(text):
        asked.append(json.loads(text))
        time.sleep(0.2)
        view.widget.asked = asked[-1]
        return reply(view)

    view._buttons = {"One": lambda v: None, "Two": lambda v: None}
    show(page, view, answer=slow)
    page.evaluate(
        """() => { const set = (v) => { const r = document.querySelector("[data-control=step]");
                     r.value = v; r.dispatchEvent(new Event("input", {bubbles: true})); };
                   set(1); set(2); document.querySelector("[data-press=One]").click();
                   set(3); document.querySelector("[data-press=Two]").click(); set(5); }"""
    )
    page.wait_for_function(
        "() => window.model.state.frame.values.step === 5 && !window.model.state.asked.press"
    )
    presses = [
        (question.get("press"), question["values"]["step"])
        for question in asked
        if question.get("press")
    ]
    assert presses == [("One", 2), ("Two", 3)]


def test_an_answer_to_somebody_else_changes_the_picture_and_not_the_hand(page):
    """Python sets a value while a question waits: numbers of the first frame are not sent again with the second."""
    import json
    import time

    view = VIEWS["stepper"]()

    def slow(text):
        time.sleep(0.3)
        view.widget.asked = json.loads(text)
        return reply(view)

    show(page, view, answer=slow)
    whole = reply(view)
    view.set(step=5)
    between, wanted = reply(view), VIEWS["stepper"]().set(step=5)
    page.evaluate(
        """(frame) => { const r = document.querySelector("[data-control=step]");
          r.value = 5; r.dispatchEvent(new Event("input", {bubbles: true}));
          window.model.take(frame); }""",
        between,
    )
    settled(page)
    pixels, words = picture(page)
    assert whole["frame"]["said"] != between["frame"]["said"]
    show(page, wanted)
    assert words == alt(page)
    page.wait_for_timeout(100)
    assert page.evaluate("() => document.querySelector('.fl-canvas').toDataURL()") == pixels


# Where on the page a part of the picture is under the pointer; places are close enough to meet small dots, too.
WHERE_A_PART_IS = """() => {
  const canvas = document.querySelector(".fl-canvas"), hint = document.querySelector(".fl-hint");
  const box = canvas.getBoundingClientRect(), before = hint.textContent;
  let place = [box.left, box.top];
  for (let part = 1; part < 300 && hint.textContent === before; part++) {
    place = [box.left + box.width * part / 300, box.top + box.height * (part * 37 % 300) / 300];
    const [clientX, clientY] = place;
    canvas.dispatchEvent(new PointerEvent("pointermove", {clientX, clientY, bubbles: true}));
  }
  canvas.dispatchEvent(new PointerEvent("pointerleave"));
  return place;
}"""


@pytest.mark.parametrize("name", MOVED)
def test_parts_are_read_by_arrow_keys_and_by_pointer(page, name):
    show(page, VIEWS[name]())
    page.focus(".fl-canvas")
    # the arrow keys turn a solid, and the line below it says which key reads its parts
    is_solid = "Page Down" in page.inner_text(".fl-hint")
    seen = set()
    for _ in range(4):
        page.keyboard.press("PageDown" if is_solid else "ArrowRight")
        seen.add(page.inner_text(".fl-hint"))
    assert len(seen) > 1
    assert not any("undefined" in words or "NaN" in words for words in seen)
    page.keyboard.press("Escape")
    told = {page.inner_text(".fl-hint")}
    page.mouse.move(*page.evaluate(WHERE_A_PART_IS))
    told.add(page.inner_text(".fl-hint"))
    assert len(told) > 1
    assert not any(words.endswith(":") for words in seen | told)


def test_a_part_with_nothing_to_add_is_read_by_its_name(page):
    show(page, live.tenants(2))  # most hosts belong to no job
    page.focus(".fl-canvas")
    read = set()
    for _ in range(16):
        page.keyboard.press("ArrowRight")
        read.add(page.inner_text(".fl-hint"))
    assert "host 0, job A" in read and "host 8" in read


def test_a_block_opens_by_enter_and_closes_by_a_click(page):
    show(page, VIEWS["fabric"]())
    count = "() => [...document.querySelectorAll('.fl-canvas')].length && window.model.state.frame.values.open"
    page.focus(".fl-canvas")
    leaf = topologies.build("rail_optimised").node("leaf 2")
    for _ in range(16 + 32):  # back from the first part: first the switches, which come last
        page.keyboard.press("ArrowLeft")
        if re.match(r"leaf 2\b(?! –)", page.inner_text(".fl-hint")):
            break
    page.keyboard.press("Enter")
    settled(page)
    assert page.evaluate(count) == leaf
    page.keyboard.press("Enter")
    settled(page)
    assert page.evaluate(count) is None


def test_a_design_of_a_gallery_is_chosen_by_a_click_on_its_dot(page):
    view = VIEWS["gallery of dots"]()
    show(page, view)
    canvas = page.query_selector(".fl-canvas").bounding_box()
    dots = view.scene.layers["designs"].fields
    scale = canvas["width"] / sum(panel.width for panel in view.scene.panels())
    page.mouse.click(
        canvas["x"] + float(dots["x"][1]) * scale, canvas["y"] + float(dots["y"][1]) * scale
    )
    settled(page)
    assert view.values["chosen"] == "B"
    assert "B" in page.inner_text(".fl-said")


def test_a_requirement_is_chosen_by_a_click_on_its_row(page):
    view = VIEWS["design"]()
    show(page, view)
    canvas = page.query_selector(".fl-canvas").bounding_box()
    rows = view.scene.side.layers["rows"].fields
    scale = canvas["width"] / sum(panel.width for panel in view.scene.panels())
    place = rows["picks"].index("budget")
    x = view.scene.width + float(rows["x"][place]) + 20
    y = float(rows["y"][place]) + 12
    page.mouse.click(canvas["x"] + x * scale, canvas["y"] + y * scale)
    settled(page)
    assert view.values["requirement"] == "budget"


def test_the_numbers_unfold_and_follow(page):
    show(page, VIEWS["stepper"]())
    assert not page.is_visible(".fl-more")
    page.click("[data-press=numbers]")
    page.wait_for_selector(".fl-table table")
    assert page.get_attribute("[data-press=numbers]", "aria-expanded") == "true"
    before = page.inner_text(".fl-table table")
    page.click("[data-press=forward]")
    page.wait_for_function(
        "(old) => document.querySelector('.fl-table table').innerText !== old", arg=before
    )


def test_a_live_table_is_open_and_follows_the_keyboard(page):
    show(page, VIEWS["table"]())
    page.wait_for_selector(".fl-table table")
    assert not page.is_visible(".fl-canvas")
    page.focus("[data-control=ranks]")
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelectorAll('.fl-table tbody tr').length === 9")


def test_play_steps_to_the_end_and_reset_goes_back(page, hasten):
    show(page, VIEWS["stepper"]())
    hasten()
    page.click("[data-press=play]")
    assert page.get_attribute("[data-press=play]", "title") == "Pause"
    page.wait_for_function("() => window.model.state.frame.values.step === 6")
    page.wait_for_function("() => document.querySelector('[data-press=play]').title === 'Play'")
    page.click("[data-press=reset]")
    page.wait_for_function("() => window.model.state.frame.values.step === 0")
    page.click("[data-press=code]")
    assert page.inner_text(".fl-code").endswith("step=0)")
    assert not page.is_visible(".fl-table")


def test_reset_stops_play(page, hasten):
    view = VIEWS["stepper"]()
    show(page, view)
    hasten()
    page.click("[data-press=play]")
    page.wait_for_function("() => window.model.state.frame.values.step === 1")
    page.click("[data-press=reset]")
    assert page.get_attribute("[data-press=play]", "title") == "Play"
    page.wait_for_timeout(600)  # three beats of 200 ms
    assert view.values["step"] == 0


def test_targets_are_24_pixels_and_focus_is_seen(page):
    show(page, VIEWS["stepper"]())
    for part in page.query_selector_all("button, select, input, summary"):
        box = part.bounding_box()
        assert box["height"] >= 24, part.evaluate("(e) => e.outerHTML")
        assert box["width"] >= 24
    page.keyboard.press("Tab")
    for _ in range(8):
        look = page.evaluate("() => getComputedStyle(document.activeElement).outlineWidth")
        assert look == "3px", page.evaluate("() => document.activeElement.outerHTML")
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement === document.body"):
            break


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("width", [1024, 512])  # 512 is 1,024 pixels at a zoom of 200%
def test_a_narrow_page_keeps_all_in_reach(page, name, width):
    page.set_viewport_size({"width": width, "height": 700})
    show(page, VIEWS[name]())
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    ends = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, summary")]
          .map((part) => part.getBoundingClientRect()).map(({left, right}) => [left, right])"""
    )
    assert ends
    for left, right in ends:
        assert left >= 0 and right <= width


def test_a_picture_wider_than_its_place_says_so(page):
    show(page, VIEWS["fabric"]())
    for width, wider in ((1024, False), (348, True), (780, False)):  # the picture is 880 wide
        page.set_viewport_size({"width": width, "height": 700})
        page.wait_for_timeout(100)
        cut = page.evaluate(
            "(([f]) => f.scrollWidth > f.clientWidth)(document.querySelectorAll('.fl-frame'))"
        )
        assert cut == page.is_visible(f"text={text('live.word.wider')}") == wider


def test_a_second_panel_below_the_first_is_whole_where_it_is_wider(page):
    page.set_viewport_size({"width": 390, "height": 844})
    view = VIEWS["distance"]()
    main, side = view.scene.panels()
    assert side.width > main.width
    show(page, view)
    assert page.query_selector(".fl-canvas").bounding_box()["width"] >= 0.8 * side.width - 1


def test_no_words_of_a_small_picture_are_cut_at_its_edge(page):
    page.add_init_script(
        """window.drawn = [];
        const fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (words, x, y) {
          const wide = this.measureText(words).width;
          const left = x - {left: 0, center: 0.5, right: 1}[this.textAlign] * wide;
          window.drawn.push([left, left + wide]);
          fill.call(this, words, x, y);
        };"""
    )
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("about:blank")
    marks = [
        (20.0, 20.0, "5,000 packets", 2),
        (150.0, 50.0, "a name", 0),
        (690.0, 80.0, "16 MiB", 1),
    ]
    scene = Scene("Words.", None, {"marks": texts_at(*marks)}, 100.0)
    show(page, live.Live("x(", lambda n: scene, {"n": live.Slider(0, 1)}, {"n": 0}, "words"))
    places = page.evaluate("() => window.drawn")
    assert len(places) >= len(marks)
    assert min(left for left, _ in places) >= 0 and max(right for _, right in places) <= 700
    assert any(left == 150.0 for left, _ in places)  # what is not cut stays where it is


def test_the_pseudo_language_breaks_no_layout(page, monkeypatch, pseudo):
    monkeypatch.setenv("FABRICLAB_LANGUAGE", pseudo)
    page.set_viewport_size({"width": 720, "height": 700})
    show(page, VIEWS["stepper"]())
    assert "~" in page.get_attribute("[data-press=play]", "title")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 720
    boxes = [p.bounding_box() for p in page.query_selector_all("button, select, input, summary")]
    for one, other in itertools.combinations(boxes, 2):
        apart = (
            one["x"] + one["width"] <= other["x"] + 1 or other["x"] + other["width"] <= one["x"] + 1
        )
        below = (
            one["y"] + one["height"] <= other["y"] + 1
            or other["y"] + other["height"] <= one["y"] + 1
        )
        assert apart or below, (one, other)


def test_motion_goes_along_the_links_and_stands_still_on_request(page):
    for wish, moves in (("no-preference", True), ("reduce", False)):
        page.emulate_media(reduced_motion=wish)
        show(page, VIEWS["stepper"]())
        page.click("[data-press=forward]")
        page.wait_for_function("() => window.model.state.frame.values.step === 1")
        page.wait_for_timeout(100)
        first, _ = picture(page)
        page.wait_for_timeout(200)
        second, _ = picture(page)
        assert (first != second) == moves, wish


def test_words_say_what_a_screen_reader_needs(page):
    show(page, VIEWS["stepper"]())
    title = text("live.stepper.title", collective="all_reduce", algorithm="ring")
    assert page.get_attribute(".fl-live", "aria-label") == title
    assert page.get_attribute(".fl-said", "aria-live") == "polite"
    page.click("[data-press=forward]")
    settled(page)
    source, target = (text("live.stepper.rank", r=r) for r in (0, 1))
    move = text("live.stepper.move", source=source, target=target, blocks="3")
    assert move + text("live.stepper.added") in alt(page)
    assert page.get_attribute("[data-control=step]", "aria-valuetext") == "1"
    for field in page.query_selector_all("input, select"):
        label = field.get_attribute("aria-label") or page.inner_text(
            f"label[for={field.get_attribute('id')}]"
        )
        assert label.strip()


def test_in_text_mode_the_words_stand_on_the_page_and_follow_code(page, monkeypatch):
    monkeypatch.setenv("FABRICLAB_TEXT", "1")
    view = live.stepper("all_reduce", "ring", 4)
    show(page, view, drawn="pre.fl-text")
    assert page.inner_text(".fl-text") == str(view)
    assert page.query_selector("canvas") is None
    view.set(step=3)
    page.evaluate("reply => window.model.take(reply)", reply(view))
    assert page.inner_text(".fl-text") == str(view)
    assert sentence("live.stepper.said", step=3, steps=6).search(str(view))


def test_the_contact_sheet_has_a_picture_of_each_theme_and_window(chrome, monkeypatch, tmp_path):
    @contextlib.contextmanager
    def open_already():
        yield chrome

    monkeypatch.setattr(contact_sheet, "browser", open_already)
    monkeypatch.setattr(contact_sheet, "FOLDER", tmp_path)
    contact_sheet.main(["race"])
    pictures = sorted(file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.png"))
    assert pictures == sorted(
        f"{theme}-{width}/race.png" for theme in ("light", "dark") for width in (1366, 1920)
    )
    assert "race" in (tmp_path / "dark-1366" / "index.html").read_text()
    light, dark = (
        (tmp_path / f"{theme}-1366" / "race.png").read_bytes() for theme in ("light", "dark")
    )
    assert light != dark
    with pytest.raises(SystemExit):
        contact_sheet.main(["no such view"])


def test_the_contact_sheet_shows_the_live_and_the_printed_pictures_of_a_lesson(chrome, tmp_path):
    lesson = "24_inside_the_server"
    pictures = contact_sheet.of_lesson(lesson, tmp_path)
    assert {picture.live for picture in pictures} == {True, False}
    names = [picture.name for picture in pictures]
    assert len(set(names)) == len(names) and any("24-wirings" in name for name in names)
    context = chrome.new_context(viewport={"width": 1366, "height": 768})
    for live_one in (True, False):
        picture = next(each for each in pictures if each.live is live_one)
        file = tmp_path / "picture.png"
        tall = contact_sheet.photographed(context, picture, "light", 1366, file)
        assert tall > 100 and file.stat().st_size > 10_000
    context.close()


@pytest.fixture
def phone(chrome):
    """A page under a finger, and a function that moves the finger through places and lifts it."""
    context = chrome.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, reduced_motion="reduce"
    )
    opened = context.new_page()
    session = context.new_cdp_session(opened)

    def swipe(*places):
        kinds = ["touchStart", *["touchMove"] * (len(places) - 1), "touchEnd"]
        for kind, at in itertools.zip_longest(kinds, places):
            points = [{"x": at[0], "y": at[1]}] if at else []
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        opened.wait_for_timeout(100)

    yield opened, swipe
    context.close()


def dots_on(page, view):
    """Return where on the page the dots of a ruler are, by the name of the slider that each moves."""
    canvas = page.query_selector(".fl-canvas").bounding_box()
    scale = canvas["width"] / view.scene.width
    dots = view.scene.layers["dots"].fields
    places = [
        (float(canvas["x"] + x * scale), float(canvas["y"] + y * scale))
        for x, y in zip(dots["x"], dots["y"], strict=True)
    ]
    return dict(zip(dots["drag"], places, strict=True))


def test_a_tap_reads_what_is_near_and_keeps_it_while_a_finger_scrolls(phone):
    page, swipe = phone
    box = boxes(100.0, 20.0, 40.0, 30.0, names=["a box"], notes=["of paper"])
    scene = Scene("One box.", None, {"box": box}, 120.0)
    view = live.Live("x(", lambda n: scene, {"n": live.Slider(0, 1)}, {"n": 0}, "one box")
    show(page, view, style="body{margin-bottom:2000px}")
    canvas = page.query_selector(".fl-canvas").bounding_box()
    scale = canvas["width"] / scene.width
    x, y = canvas["x"] + 120 * scale, canvas["y"] + 50 * scale  # the middle of its lower edge
    page.touchscreen.tap(x, y + 30)
    assert page.inner_text(".fl-hint") == text("live.word.tap")
    page.touchscreen.tap(x, y + 17)  # too far for a mouse, and near enough for a finger
    assert page.inner_text(".fl-hint") == "a box: of paper"
    swipe((x, y), (x, y - 20), (x, y - 60), (x, y - 90))
    assert page.evaluate("scrollY") > 30
    assert page.inner_text(".fl-hint") == "a box: of paper"


def test_a_finger_on_a_handle_moves_it_and_beside_it_the_picture(phone):
    page, swipe = phone
    view = VIEWS["ruler"]().set(rate=0.1)
    show(page, view)
    frame = page.locator(".fl-frame")
    assert frame.evaluate("(frame) => frame.scrollWidth > frame.clientWidth + 50")
    x, y = dots_on(page, view)["rate"]
    assert x < 300
    swipe((x, y), (x + 12, y), (x + 30, y), (x + 40, y))
    settled(page)
    assert view.values["rate"] > 0.1
    assert frame.evaluate("(frame) => frame.scrollLeft") == 0
    rate = view.values["rate"]
    below = page.query_selector(".fl-canvas").bounding_box()
    far = below["y"] + below["height"] - 6
    swipe((250, far), (230, far), (160, far), (120, far))
    assert frame.evaluate("(frame) => frame.scrollLeft") > 20
    assert view.values["rate"] == rate


def test_a_finger_plays_steps_and_slides(chrome):
    page = chrome.new_page(has_touch=True, reduced_motion="reduce")
    view = VIEWS["stepper"]()
    show(page, view)
    page.tap("[data-press=forward]")
    settled(page)
    assert view.values["step"] == 1
    rail = page.query_selector("[data-control=step]").bounding_box()
    page.touchscreen.tap(rail["x"] + 0.5 * rail["width"], rail["y"] + 0.5 * rail["height"])
    settled(page)
    assert view.values["step"] == 3
    for step in (4, 5):
        page.tap("[data-press=forward]")
        settled(page)
        assert view.values["step"] == step
    page.tap("[data-press=play]")
    page.wait_for_function("() => window.model.state.frame.values.step === 6", timeout=15_000)
    page.close()
