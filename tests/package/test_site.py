"""The static site: its pieces, a page in a browser, and the whole of it as a reader meets it."""

import base64
import gzip
import hashlib
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

import fabriclab as fl
from fabriclab.course.progress import store
from fabriclab.texts import text
from lesson_files import FILES, ROOT
from support.browser import browser, cleared
from website import build, checks, executed, pages, recorder, reference

STEPPER = 7  # states of a ring of four: before the first of its six steps, and after each


@pytest.fixture(scope="module")
def record():
    """Return the record of a stepper, as a kernel writes it."""
    view = fl.live.stepper("all_reduce", "ring", 4)
    view._prepare()
    return recorder.of_view(view)


@pytest.fixture
def question(tmp_path, monkeypatch):
    """Return a function that makes the record of a question, as nobody has answered it."""
    monkeypatch.setenv("FABRICLAB_PROGRESS", str(tmp_path / "progress.json"))

    def made(shown):
        form = shown.live()
        form._prepare()
        with recorder._aside():
            return recorder.of_form(form)

    return made


def unpacked(script):
    """Return the JSON and the numbers in the script of a record, as page.js reads them."""
    data = gzip.decompress(base64.b64decode(re.search(r',"(.*)"\)', script)[1]))
    (length,) = struct.unpack("<I", data[:4])
    return json.loads(data[4 : 4 + length]), data[4 + length :]


# What is recorded ---------------------------------------------------------------------------------


def test_a_record_has_every_state_that_a_reader_can_set(record):
    assert record["axes"] == {"step": list(range(STEPPER))}
    assert len(record["frames"]) == STEPPER
    assert record["fewer"] == []
    for step, (values, _, rest) in enumerate(record["frames"]):
        view = fl.live.stepper("all_reduce", "ring", 4, step=step)
        assert record["values"][values] == {"step": step}
        frame = {name: record["values"][place] for name, place in record["values"][rest].items()}
        assert frame["said"] == view.scene.said
        assert frame["code"] == view.code
        assert frame["table"] == view.scene.table._repr_html_()


def test_a_record_has_the_arrays_that_a_kernel_would_send(record):
    view = fl.live.stepper("all_reduce", "ring", 4, step=3)
    view._prepare()
    apart = np.frombuffer(base64.b64decode(record["numbers"]), np.uint8)
    numbers = apart.reshape(4, -1).T.tobytes()
    starts = [0]
    for size in record["sizes"]:
        starts.append(starts[-1] + 4 * size)
    found = b""
    for *_, arrays in record["values"][record["frames"][3][1]]:
        for _, place in arrays:
            found += numbers[starts[place] : starts[place + 1]]
    recorded, sent = np.frombuffer(found, "<f4"), np.frombuffer(view.numbers, "<f4")
    assert recorded == pytest.approx(sent, abs=0.5 / recorder.PLACES)


def test_recording_leaves_the_view_as_it_was():
    view = fl.live.stepper("all_reduce", "ring", 4, step=2)
    view._prepare()
    scene = view.scene
    recorder.of_view(view)
    assert view.values == {"step": 2}
    assert view.scene is scene


def test_what_a_function_raises_is_a_frame_as_a_kernel_would_send_it():
    def counted(n):
        if n == 3:
            raise ValueError("three is too many")
        return fl.views.table({"n": [n]}, caption=f"{n} it is.")

    view = fl.live.table(counted, {"n": fl.live.Slider(1, 4)}, n=1)
    view._prepare()
    record = recorder.of_view(view)
    rests = [record["values"][rest] for *_, rest in record["frames"]]
    wrong = [record["values"][rest["wrong"]] for rest in rests]
    assert wrong == [False, False, True, False]
    assert "three is too many" in record["values"][rests[2]["said"]]


def test_a_slider_with_many_values_keeps_its_ends_and_its_first_value():
    axes = {"a": list(range(1000)), "b": ["x", "y"]}
    thin = recorder.thinned(axes, {"a": 333, "b": "y"}, 100)
    assert len(thin["a"]) * len(thin["b"]) <= 100
    assert thin["b"] == ["x", "y"]
    assert {0, 333, 999} <= set(thin["a"])


def test_the_first_control_moves_where_not_all_can():
    axes = {name: list(range(1, 9)) for name in "abc"}
    thin = recorder.thinned(axes, dict.fromkeys(axes, 1), 9)
    assert thin["c"] == [1] and len(thin["a"]) == 3


def test_the_first_control_stays_even_if_it_has_the_most_values():
    axes = {"groups": list(range(1, 33)), "routing": ["minimal", "valiant"]}
    thin = recorder.thinned(axes, {"groups": 1, "routing": "minimal"}, 5)
    assert thin == {"groups": [1, 17, 32], "routing": ["minimal"]}


@pytest.mark.parametrize("length", range(1, 12))
@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
def test_axes_become_as_short_as_asked_wherever_they_begin(length, most):
    for start in range(length):
        axes = {"a": list(range(length)), "b": [0, 1, 2, 3], "c": ["x", "y"]}
        thin = recorder.thinned(axes, {"a": start, "b": 1, "c": "y"}, most)
        assert len(thin["a"]) * len(thin["b"]) * len(thin["c"]) <= most
        assert start in thin["a"] and 1 in thin["b"] and "y" in thin["c"]
        assert all(values == sorted(values) for values in thin.values())


@pytest.mark.parametrize(
    "control",
    [
        fl.live.Slider(0, 9),
        fl.live.Slider(0, 1, step=0.3),
        fl.live.Slider(1, 50, unit="us", log=True),
        fl.live.Slider(2, 2),
        fl.live.Choice(("a", "b")),
    ],
)
def test_all_values_of_a_control_pass_its_own_check(control):
    start = control.samples()[0]
    values = recorder.values_of(control, start)
    assert start in values
    assert len(set(values)) == len(values)
    assert all(control.check(value, "value") == value for value in values)


def test_a_choice_has_the_verdict_on_each_option_and_none_is_stored(question):
    made = question(fl.check("21-uplinks"))
    assert made["asks"] == "choice"
    right = [letter for letter, turn in made["answers"].items() if "fl-is-right" in turn["html"]]
    assert len(right) == 1
    assert len(made["answers"]) > 2
    assert store.held()["checks"] == {}


def test_a_question_for_a_number_has_its_key_and_the_explanation(question):
    made = question(fl.check("11-share"))
    assert made["asks"] == "number"
    assert "fl-is-right" in made["right"]["html"]
    assert made["key"] > 0
    assert made["shown"].split()[0] in made["right"]["html"]


# From a notebook to a page ------------------------------------------------------------------------


def executed_book(source, html, model="m1"):
    """Return a notebook with one cell that showed a view."""
    output = nbformat.v4.new_output(
        "display_data", data={"text/html": html, pages.VIEW: {"model_id": model}}
    )
    cell = nbformat.v4.new_code_cell(source, outputs=[output])
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), cell])


def written(record):
    """Return a record as the recorder writes it."""
    return gzip.compress(json.dumps(record).encode())


def test_a_view_has_its_place_its_picture_and_its_script(record):
    nb = executed_book("view", "<style>.fl-picture{--fl-ink:#000}</style><svg></svg>")
    page = pages.lesson(nb, "31_x", {"m1": written(record)})
    html = page.nb.cells[2]["outputs"][0]["data"]["text/html"]
    assert html == '<div class="fl-mount" data-view="31_x-1"><svg></svg></div>'
    packed, numbers = unpacked(page.records["31_x-1"])
    assert packed["frames"] == record["frames"]
    assert numbers == base64.b64decode(record["numbers"])
    assert page.styles == []


@pytest.mark.parametrize("source", ['fl.reveal("31-x", 3)', 'fl.after_guess("31-x", table)'])
def test_what_came_out_of_a_guess_is_folded(source):
    nb = executed_book(source, "<p>3 times</p>")
    nb.cells[1].outputs.insert(0, nbformat.v4.new_output("stream", text="a < b\n"))
    (output,) = pages.lesson(nb, "31_x", {}).nb.cells[2]["outputs"]
    html = output["data"]["text/html"]
    assert html.startswith('<details class="fl-came-out"><summary>')
    assert "<pre>a &lt; b\n</pre><p>3 times</p>" in html


def test_other_outputs_stand_open():
    nb = executed_book("fl.views.table(rows)", "<table></table>")
    (output,) = pages.lesson(nb, "31_x", {}).nb.cells[2]["outputs"]
    assert output["data"]["text/html"] == "<table></table>"


def test_a_page_names_no_place_of_the_machine_that_built_it():
    place = Path("/", "home", "somebody", "fabriclab", "build", "website", "progress")
    html = f"<p>in the file {place}/31_x.json.</p>"
    nb = executed_book("fl.report()", html)
    (output,) = pages.lesson(nb, "31_x", {}).nb.cells[2]["outputs"]
    assert output["data"]["text/html"] == "<p>in the file fabriclab-progress.json.</p>"


def test_a_report_says_that_it_counts_no_answer_of_the_reader():
    state = text("report.state", title="Rings", state=text("state.new"), right=0, n=6)
    of = text("report.of", n=0, total=6)
    file = text("report.file", path="fabriclab-progress.json")
    stored = f"<details><summary>{text('report.all')}</summary><div>Nothing.</div></details>"
    card = (
        f'<div class="fl-card"><h2>{state}</h2><h3>Checks <em>{of}</em></h3>{stored}'
        f"<div>{file}</div></div>"
    )
    nb = executed_book("fl.report()", card)
    (output,) = pages.lesson(nb, "31_x", {}).nb.cells[2]["outputs"]
    assert output["data"]["text/html"] == (
        f'<p class="fl-needs">{pages.WORDS["report"]}</p>'
        '<div class="fl-card"><h2>Rings</h2><h3>Checks</h3><div></div></div>'
    )


def test_a_function_that_nobody_has_written_is_no_mistake_of_the_reader():
    verdict = f'<div class="fl-verdict "><b>got None.</b><p>{text("check.uncounted")}</p></div>'
    nb = executed_book(
        "fl.check('31-f', f)", f'<div class="fl-card"><p>Write it.</p>{verdict}</div>'
    )
    (output,) = pages.lesson(nb, "31_x", {}).nb.cells[2]["outputs"]
    assert output["data"]["text/html"] == (
        f'<div class="fl-card"><p>Write it.</p><p class="fl-needs">{pages.WORDS["function"]}</p></div>'
    )


def test_a_page_that_stores_nothing_does_not_promise_to_keep_it():
    end = "*Facts of today. Back another day? Choose Run > Run All Cells: what you stored is kept.*"
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(end)])
    (cell,) = pages.lesson(nb, "31_x", {}).nb.cells
    assert cell["source"] == "*Facts of today.*"


def test_links_to_other_lessons_lead_to_their_pages():
    nb = executed_book("fl.report()", '<a href="31b_y.ipynb">next</a>')
    (output,) = pages.lesson(nb, "31_x", {}).nb.cells[2]["outputs"]
    assert output["data"]["text/html"] == '<a href="31b_y.html">next</a>'


def test_a_picture_keeps_its_words_and_its_look_in_fewer_bytes():
    svg = """<svg>
 <g>
  <path d="M 120.816002 0.5
L 7.123456 9
" style="fill: none"/>
  <text style="font-size: 8.52px; font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; fill: red" \
x="1.23456">0.123456 s</text>
 </g>
</svg>"""
    made = pages.small(svg)
    assert made == (
        '<svg><g><path d="M 120.81 0.5 L 7.12 9" style="fill: none"/>'
        '<text style="font-size: 8.52px; fill: red" x="1.23">0.123456 s</text></g></svg>'
    )


def test_links_to_what_is_no_page_are_words():
    known = {"docs/install.md", "docs/img/a.png"}
    source = "[one](install.md#make) `[two](x.py)` [three](../x.py) ![four](img/a.png) [five](https://a.b)"
    made = pages.with_links(source, "docs", known)
    assert (
        made == "[one](install.md#make) `[two](x.py)` three ![four](img/a.png) [five](https://a.b)"
    )


def test_a_lesson_that_make_notebooks_has_kept_is_taken_only_as_it_is_now(tmp_path):
    book = FILES["31_all_reduce"]
    nb = nbformat.read(book, as_version=nbformat.NO_CONVERT)
    made = {"source": "of another version", "nb": nbformat.writes(nb), "progress": {}}
    kept = tmp_path / "31_all_reduce.json"
    kept.write_text(json.dumps(made))
    assert executed.kept(book, tmp_path) is None
    made["source"] = hashlib.sha256(book.read_bytes()).hexdigest()
    kept.write_text(json.dumps(made))
    assert executed.kept(book, tmp_path) == nb


def test_the_reference_has_every_public_name():
    made = reference.pages()
    for name, place in reference.modules().items():
        module = __import__(place, fromlist=["x"])
        for public in module.__all__:
            ways = (f":: {place}.{public}\n", f":: {public}\n   :module: {place}\n")
            assert any(way in made[f"{name}.rst"] for way in ways), f"{name}.{public}"
    for name, home in fl._HOME.items():
        assert f"``fl.{name}``: :py:obj:`" in made["fabriclab.rst"]
        described = any(f":: fabriclab.{home}.{name}\n" in page for page in made.values())
        assert described, name


def test_the_first_page_has_each_lesson_in_its_part():
    made = build.welcome(sorted((ROOT / "exercises").glob("*.ipynb")))
    parts = re.split(r"\n### ", made.split("## Lessons")[1].split("### Learning paths")[0])[1:]
    assert [part.split("\n")[0] for part in parts] == list(build.PARTS.values())
    for number, part in zip(build.PARTS, parts, strict=True):
        for name, path in FILES.items():
            assert (f"(notebooks/{path.name})" in part) == name.startswith(number)


# The checks of a site -----------------------------------------------------------------------------


def a_site(folder, **pages_of_it):
    """Write pages by name, and return the problems that the checks find."""
    for name, body in pages_of_it.items():
        text = f'<link rel="stylesheet" href="a.css"><body>{body}</body>'
        (folder / f"{name}.html").write_text(text)
    (folder / "a.css").write_text("p{}")
    return checks.read(folder)


def test_a_sound_site_has_no_problems(tmp_path):
    found = a_site(tmp_path, one='<a href="two.html#x">', two='<p id="x"><a href="#x">')
    assert found.problems == []
    assert set(found.pages) == {"one.html", "two.html"}
    assert found.shared == len("p{}")


@pytest.mark.parametrize(
    "body, problem",
    [
        ('<a href="three.html">', "no file three.html"),
        ('<a href="two.html#y">', "no anchor two.html#y"),
        ('<a href="#y">', "no anchor #y"),
        ('<img src="a.png">', "no file a.png"),
        ('<picture><source srcset="b.webp"></picture>', "no file b.webp"),
        ('<script src="https://cdn.example/a.js"></script>', "from another host"),
        ('<div data-view="31_x-1">', "no record 31_x-1.js"),
        (f"<p>{ROOT}/build</p>", "names "),
        ("x" * 2_100_000, "2.10 MB"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(tmp_path, body, problem):
    found = a_site(tmp_path, one=body, two="<p>")
    assert len(found.problems) >= 1
    assert any(problem in said for said in found.problems)
    assert all(said.startswith("one.html") for said in found.problems)


# A page in a browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(record, tmp_path_factory):
    """Return a page with a view, questions and a fold, opened as a file, without Sphinx around it."""
    folder = tmp_path_factory.mktemp("page")
    os.environ["FABRICLAB_PROGRESS"] = str(folder / "progress.json")
    cells = []
    records = {"view": written(record)}
    shown = {
        "choice": fl.check("21-uplinks"),
        "number": fl.check("11-share"),
        "guess": fl.predict("21-by-rack"),
    }
    for name, thing in shown.items():
        form = thing.live()
        form._prepare()
        with recorder._aside():
            records[name] = written(recorder.of_form(form))
    del os.environ["FABRICLAB_PROGRESS"]
    for name in records:
        cells += executed_book("shown", f"<p>{name} as it is printed</p>", name).cells[1:]
    came_out = (
        f'<div class="fl-card fl-still"><p class="fl-asked">2.1 s. {text("card.skipped")}</p></div>'
    )
    cells += executed_book('fl.reveal("21-by-rack", 2)', came_out).cells[1:]
    page = pages.lesson(nbformat.v4.new_notebook(cells=cells), "21_x", records)
    outputs = [output for cell in page.nb.cells for output in cell.get("outputs", [])]
    body = "".join(output["data"]["text/html"] for output in outputs)
    (folder / "views").mkdir()
    for name, script in page.records.items():
        (folder / "views" / f"{name}.js").write_text(script)
    (folder / "site.js").write_text(pages.program())
    (folder / "site.css").write_text(pages.style_sheet(page.styles))
    head = '<link rel="stylesheet" href="site.css"><script defer src="site.js"></script>'
    file = folder / "page.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8">{head}<body data-theme="light">{body}</body>'
    )
    return file.as_uri()


@pytest.fixture(scope="module")
def chrome():
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def kept(chrome):
    """The page that each test opens anew, and the errors that were thrown on it."""
    opened = chrome.new_page()
    problems = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    return opened, problems


@pytest.fixture
def page(kept, place):
    opened, problems = kept
    cleared(opened, {"width": 1366, "height": 768}, motion="no-preference")
    problems.clear()
    opened.goto(place)
    opened.wait_for_selector(".fl-mount[data-view] canvas")
    yield opened
    assert problems == []


def test_a_view_follows_the_keyboard_without_a_kernel(page):
    said = page.locator("[data-view] .fl-said")
    before = said.inner_text()
    slider = page.locator("[data-view] input[type=range]")
    slider.focus()
    for _ in range(STEPPER - 1):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "(before) => document.querySelector('[data-view] .fl-said').innerText !== before",
        arg=before,
    )
    last = fl.live.stepper("all_reduce", "ring", 4, step=STEPPER - 1)
    page.wait_for_function(
        "(said) => document.querySelector('[data-view] .fl-said').innerText.trim() === said",
        arg=last.scene.said,
    )
    assert page.locator("[data-view] .fl-warning").is_hidden()


def test_a_view_plays_and_shows_its_numbers_and_its_code(page):
    page.locator("[data-view] [data-press=numbers]").click()
    assert page.locator("[data-view] table").count() == 1
    page.locator("[data-view] [data-press=code]").click()
    assert "fl.live.stepper" in page.locator("[data-view] .fl-code").inner_text()
    page.locator("[data-view] [data-press=forward]").click()
    page.wait_for_function(
        "document.querySelector('[data-view] .fl-code').innerText.includes('step=1')"
    )


def test_a_choice_says_its_verdict(page):
    card = page.locator("[data-asks=choice]")
    card.locator("button.fl-option").first.click()
    card.locator(".fl-verdict").wait_for()


@pytest.mark.parametrize("typed, verdict", [("0.3", ".fl-warning"), ("0.756", ".fl-is-right")])
def test_a_number_is_right_or_not(page, typed, verdict):
    card = page.locator("[data-asks=number]")
    card.locator("input").fill(typed)
    card.locator("input").press("Enter")
    card.locator(verdict).wait_for()


def test_a_right_number_after_wrong_ones_is_not_called_the_first_try(page):
    card = page.locator("[data-asks=number]")
    for typed in ("0.3", "0.4", "0.756"):
        card.locator("input").fill(typed)
        card.locator("input").press("Enter")
    assert text("check.tries", n=3) in card.locator(".fl-is-right").inner_text()


def test_a_right_option_after_wrong_ones_is_not_called_the_first_try(page):
    card = page.locator("[data-asks=choice]")
    tries = 0
    while not card.locator(".fl-is-right").count():
        card.locator("button.fl-option").nth(tries).click()
        tries += 1
    said = text("check.first") if tries == 1 else text("check.tries", n=tries)
    assert said in card.locator(".fl-is-right").inner_text()


@pytest.mark.parametrize("typed", ["7", ""])
def test_what_came_out_names_the_guess(page, typed):
    card = page.locator("[data-asks=guess]")
    if typed:
        card.locator("input[name=value]").fill(typed)
    card.locator("[data-press].fl-main" if typed else "[data-press=pass]").click()
    said = page.locator("details.fl-came-out .fl-asked").inner_text()
    unit = card.locator(".fl-ruler").get_attribute("data-unit")
    named = pages.WORDS["yours"].format(value=f"{typed} {unit}".strip())
    assert said == "2.1 s. " + (named if typed else text("card.no_idea"))


def test_a_tap_reads_an_item_of_a_picture(chrome, place):
    opened = chrome.new_page(viewport={"width": 390, "height": 844}, has_touch=True)
    opened.goto(place)
    opened.wait_for_selector("[data-view] canvas")
    hint = opened.locator("[data-view] .fl-hint")
    before = hint.inner_text()
    canvas = opened.locator("[data-view] canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    spots = [(across, down) for across in range(20, 320, 20) for down in range(20, 200, 20)]
    for across, down in spots:
        opened.touchscreen.tap(box["x"] + across, box["y"] + down)
        if hint.inner_text() != before:
            break
    read = hint.inner_text()
    opened.close()
    assert read != before


def test_what_a_tap_reads_stays_in_sight_with_the_controls_while_a_finger_scrolls(chrome, place):
    context = chrome.new_context(viewport={"width": 390, "height": 500}, has_touch=True)
    opened = context.new_page()
    opened.goto(place)
    opened.wait_for_selector("[data-view] canvas")
    card = opened.locator("[data-view] .fl-live")
    assert card.bounding_box()["height"] > 500
    touch = context.new_cdp_session(opened)
    # A finger that lets go while it moves lets the page run on, as far as its last moments say, and these depend on
    # how busy the machine is. This one rests before it lets go, and then the page stands.
    for kind, y in (("touchStart", 300), ("touchMove", 280), ("touchMove", 230), ("touchEnd", 0)):
        if kind == "touchEnd":
            opened.wait_for_function("scrollY > 20")
            opened.wait_for_timeout(200)
        points = [{"x": 200, "y": y}] if y else []
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    opened.wait_for_timeout(100)
    box = card.bounding_box()
    assert box["y"] < 0 and box["y"] + box["height"] > 500, (
        "the card is not where this test needs it"
    )
    controls = opened.locator("[data-view] .fl-controls").bounding_box()
    foot = opened.locator("[data-view] .fl-foot").bounding_box()
    context.close()
    assert controls["y"] >= -1
    assert foot["y"] + foot["height"] <= 501


def test_a_guess_unfolds_what_came_out(page):
    fold = page.locator("details.fl-came-out")
    assert fold.get_attribute("open") is None
    page.locator("[data-asks=guess] [data-press=pass]").click()
    page.wait_for_selector("details.fl-came-out[open]")
    assert page.locator("[data-asks=guess] .fl-needs").is_visible()


def test_views_and_cards_follow_the_theme_of_the_page(page):
    for theme in ("dark", "light"):
        page.evaluate("(theme) => (document.body.dataset.theme = theme)", theme)
        page.wait_for_selector(f".fl-live[data-theme={theme}]")
        said = str(theme == "light").lower()
        assert page.evaluate("document.body.dataset.jpThemeLight") == said


def test_a_phone_scrolls_no_page_sideways(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


# The whole site -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the site as ``make site`` makes it, of lessons that have been run."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("Sphinx is missing: make release installs it, or pip install -e '.[site]'")
    kept = os.environ.get("FABRICLAB_EXECUTED", ROOT / "build" / "executed")
    out = tmp_path_factory.mktemp("site") / "site"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tools")])
    subprocess.run(
        [sys.executable, "-m", "website.build", "--kept", str(kept), "--out", str(out)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        check=True,
    )
    return out


@pytest.mark.release
def test_the_site_has_no_dead_link_and_no_large_page(site):
    found = checks.read(site)
    assert found.problems == []
    assert found.total < 100e6


@pytest.mark.release
def test_the_site_has_every_lesson_every_public_name_and_a_search(site):
    for name in FILES:
        text = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        assert "cell_output" in text
    for name, place in reference.modules().items():
        text = (site / "api" / f"{name}.html").read_text(encoding="utf-8")
        for public in __import__(place, fromlist=["x"]).__all__:
            assert f'id="{place}.{public}"' in text, f"{name}.{public}"
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "dragonfli" in index or "dragonfly" in index
    assert "notebooks/glossary" in index


@pytest.mark.release
def test_nothing_that_came_out_of_a_guess_stands_open(site):
    for name in FILES:
        text = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        open_parts = re.sub(r'<details class="fl-came-out">[\s\S]*?</details>', "", text)
        assert "fl-truth" not in open_parts, name
