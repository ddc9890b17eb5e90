"""Each kind of card and every live view, for somebody with a keyboard only, at 200% zoom, or who listens."""

import pytest

import fabriclab as fl
from fabriclab.course.assessment import sitting
from fabriclab.texts import text
from fabriclab.views.live.form import Turn
from support.browser import browser, cleared, settled, show
from support.live_views import VIEWS
from support.sampling import sampled

ZOOMED = {"width": 683, "height": 384}  # 1,366 x 768 at a zoom of 200%


def exam_with(options):
    """Return the card of a drawn test that asks a question with options, or one for a number."""
    for number in range(1, 9):
        form = sitting._ExamForm(sitting._Test(str(number)))
        while form.drawn is not None:
            if bool(form.drawn.options) == options:
                return form.live()
            form.answer(form.drawn.truth if form.drawn.options else form.drawn.key)
            form.go_on()
    raise AssertionError("no such question")


def guessed():
    fl.predict("22-detour", 8, "times", 2, 30)
    return fl.predict("22-detour").live()


CARDS = {
    "prediction": lambda: fl.predict("22-detour").live(),
    "prediction with a guess": guessed,
    "prediction of a share": lambda: fl.predict("91-border").live(),
    "choice": lambda: fl.check("91-rails").live(),
    "number": lambda: fl.check("91-media").live(),
    "number to pick": lambda: fl.check("31-first-sum").live(),
    "drill": lambda: fl.drill(1).live(),
    "test, options": lambda: exam_with(options=True),
    "test, number": lambda: exam_with(options=False),
}

# Faults of the layout: what is cut, what overlaps, and a page that scrolls sideways.
LAYOUT = """() => {
  const card = document.querySelector(".fl-live"), edge = card.getBoundingClientRect(), faults = [];
  const seen = (e) => e.getBoundingClientRect().width > 1 && e.offsetParent && !e.closest(".fl-voice");
  if (document.documentElement.scrollWidth > innerWidth) faults.push("the page scrolls sideways");
  for (const e of card.querySelectorAll(".fl-head *, .fl-foot *, .fl-body *")) {
    if (!seen(e) || e.closest("svg")) continue;
    const box = e.getBoundingClientRect();
    if (box.right > edge.right + 1 || box.left < edge.left - 1) faults.push(`cut: ${e.outerHTML.slice(0, 90)}`);
    if (e.matches("input[type=text]") && e.value && e.scrollWidth > e.clientWidth + 1) faults.push(`cut: ${e.value}`);
  }
  const parts = [...card.querySelectorAll("button, select, input:not([type=radio]), summary")].filter(seen);
  const boxes = parts.map((e) => e.getBoundingClientRect());
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
      faults.push(`overlap: ${parts[i].outerHTML.slice(0, 60)} ${parts[i + 1 + j].outerHTML.slice(0, 60)}`);
  }));
  const frame = card.querySelector(".fl-frame"), said = card.querySelector(".fl-wider");
  if (frame && frame.scrollWidth > frame.clientWidth + 1 && said.hidden) faults.push("a wide picture without a word");
  return faults;
}"""
NAME = "(e) => [e.dataset.press, e.dataset.control, e.dataset.value, e.dataset.hand, e.name, e.className].find(Boolean)"
REACHABLE = f"""() => [...document.querySelectorAll(
    ".fl-live :is(button:not(:disabled), select, input, canvas, [role=slider])")]
  .filter((e) => e.offsetParent && !e.closest("[hidden]") && (e.type !== "radio" || e.checked)).map({NAME})"""
FOCUSED = f"""() => {{
  const e = document.activeElement, rings = [e, e.closest("label")].filter(Boolean).map((x) => getComputedStyle(x));
  const seen = rings.some((look) => look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2);
  return {{ name: ({NAME})(e), id: e.id, seen }};
}}"""
MOST_STOPS = 60
SPOKEN = {
    "button",
    "slider",
    "textbox",
    "combobox",
    "radio",
    "radiogroup",
    "link",
    "image",
    "application",
}


@pytest.fixture(scope="module")
def chrome():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def kept(chrome):
    return chrome.new_page(viewport=ZOOMED, device_scale_factor=2, reduced_motion="reduce")


@pytest.fixture
def page(kept, monkeypatch, tmp_path):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.delenv("FABRICLAB_TEXT", raising=False)
    return cleared(kept, ZOOMED)


def heard(page):
    """Return role, name, description and value of all that a screen reader gets, in its order."""
    session = page.context.new_cdp_session(page)
    found = []
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        if not node.get("ignored"):
            parts = ("role", "name", "description", "value")
            found.append([str(node.get(part, {}).get("value", "")) for part in parts])
    return found


def check_card(page):
    """Check a card that is shown: its layout, its way for the keyboard, and what it says to a screen reader."""
    assert page.evaluate(LAYOUT) == []

    for place in ("prepend", "append"):
        page.evaluate(
            f"document.body.{place}(Object.assign(document.createElement('button'),"
            f" {{id: '{place}', textContent: '{place}'}}))"
        )
    wanted = page.evaluate(REACHABLE)
    page.focus("#prepend")
    reached = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        here = page.evaluate(FOCUSED)
        if here["id"] == "append":
            break
        assert here["seen"], here
        reached.append(here["name"])
    assert here["id"] == "append", "the keyboard does not get out"
    assert reached == wanted  # in the order in which they stand

    for role, name, description, value in heard(page):
        if role in SPOKEN:
            assert name.strip(), role
            assert description != name, name  # which would be said twice
        assert role != "slider" or value, name


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_reached_seen_and_heard_at_twice_its_size(page, name):
    show(page, CARDS[name]())
    settled(page)
    check_card(page)


@pytest.mark.parametrize("name", sampled(VIEWS, 12))
def test_a_view_is_reached_seen_and_heard_at_twice_its_size(page, name):
    show(page, VIEWS[name]())
    settled(page)
    check_card(page)


def test_numbers_code_and_pin_open_and_close_by_keyboard(page):
    show(page, VIEWS["roulette"]())
    for name, shown in (("numbers", ".fl-table table"), ("code", ".fl-code")):
        page.focus(f"[data-press={name}]")
        page.keyboard.press("Enter")
        settled(page)
        assert page.is_visible(shown)
        assert page.evaluate("document.activeElement.ariaExpanded") == "true"
        page.keyboard.press("Enter")
        assert not page.is_visible(shown)
    page.focus("[data-press=pin]")
    page.keyboard.press("Space")
    settled(page)
    assert page.is_visible(".fl-pin")
    page.focus("[data-press=unpin]")
    page.keyboard.press("Enter")
    settled(page)
    assert not page.is_visible(".fl-pin")
    assert page.evaluate("document.activeElement.dataset.press") == "pin"


def test_the_question_of_a_card_is_its_description(page):
    show(page, fl.check("91-rails").live())
    [group] = [node for node in heard(page) if node[0] == "group" and node[1]]
    asked = page.inner_text(".fl-asked")
    assert group[2] == asked and len(asked) > 20


def test_a_field_says_its_unit(page):
    show(page, fl.check("91-media").live())
    assert ["textbox", text("card.answer_in", unit="W")] in [node[:2] for node in heard(page)]


def test_the_handles_of_a_guess_move_by_keys_and_say_value_and_unit(page):
    show(page, guessed())
    page.focus("[data-hand=value]")
    before = float(page.get_attribute("[data-hand=value]", "aria-valuenow"))
    page.keyboard.press("ArrowRight")
    after = page.get_attribute("[data-hand=value]", "aria-valuenow")
    assert float(after) > before
    told = page.get_attribute("[data-hand=value]", "aria-valuetext")
    assert told == f"{float(after):g} times"


def test_a_test_is_taken_by_keyboard_and_each_turn_is_announced(page):
    form = sitting._ExamForm(sitting._Test("1"))
    show(page, form.live())
    for _ in range(3):
        drawn = form.drawn
        if drawn.options:
            page.focus(".fl-option")
            page.keyboard.press(str(drawn.truth))
        else:
            page.focus("[name=answer]")
            page.keyboard.type(drawn.key)
            page.keyboard.press("Enter")
        settled(page)
        assert page.inner_text(".fl-voice").startswith(text("exam.right", key="").rstrip(" ."))
        assert page.evaluate("document.activeElement.dataset.press") == "next"
        verdict, button = (
            page.locator(part).bounding_box() for part in (".fl-verdict", "[data-press=next]")
        )
        assert verdict["y"] + verdict["height"] <= button["y"]  # below what it goes on from
        page.keyboard.press("Enter")
        settled(page)
        assert form.drawn.asked in page.inner_text(".fl-voice")
        assert page.evaluate("document.activeElement.closest('.fl-card') !== null")


def test_the_end_of_a_test_is_announced(monkeypatch, tmp_path):
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))
    form = sitting._ExamForm(sitting._Test("end"))
    while form.drawn is not None:
        form.answer(form.drawn.truth if form.drawn.options else form.drawn.key)
        turn = form.press("next", {})
        assert isinstance(turn, Turn) and turn.said
    assert text("exam.over", number="end", n=len(form.test.answers)) in turn.said
