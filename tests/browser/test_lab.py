"""The lessons in JupyterLab, as a learner has them: run, predict, see the reveal, step the animation."""

import json
import os
import shutil
import time
import warnings
from types import SimpleNamespace
from unittest import mock

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets.config import PyFileConfigLoader

from fabriclab.texts import text
from support import ROOT
from support.browser import browser
from support.budgets import budget
from support.jupyterlab import cells, lab, live, run, visit
from support.sampling import sampled

SHOTS = ROOT / "build" / "screens"


@pytest.fixture(scope="module")
def place(root, tmp_path_factory):
    """Return the address of a server on a copy of the lessons."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(
        root / "notebooks",
        folder / "notebooks",
        ignore=shutil.ignore_patterns("*progress*", ".ipynb*"),
    )
    shutil.copytree(root / "docs" / "img", folder / "docs" / "img")
    with lab(folder, FABRICLAB_PROGRESS=folder / "progress.json") as address:
        yield address, folder


@pytest.fixture(scope="module")
def chrome():
    with browser() as found:
        yield found


def opened(chrome, address, lesson, **look):
    page = chrome.new_page(viewport={"width": 1440, "height": 900}, **look)
    page.set_default_timeout(30_000)
    visit(page, address, f"notebooks/{lesson}.ipynb")
    return page


def shot(page, name, element=None):
    SHOTS.mkdir(parents=True, exist_ok=True)
    (element or page).screenshot(path=SHOTS / f"{name}.png")


def run_all(page):
    """Run a lesson from top to bottom; return how many live views stand in each cell."""
    found = {}
    for index, cell in enumerate(cells(page)):
        if cell["type"] != "code":
            continue
        outputs = run(page, index)
        views = sum(
            "application/vnd.jupyter.widget-view+json" in o.get("data", {}) for o in outputs
        )
        if views:
            assert len(live(page, index)) == views
            found[cell["id"]] = views
    return found


@pytest.mark.alone  # its first picture has seconds
def test_a_prediction_is_made_by_hand_and_revealed(chrome, place):
    address, folder = place
    page = opened(chrome, address, "00_start_here")
    asked = False
    for index, cell in enumerate(cells(page)):
        if cell["type"] != "code":
            continue
        begin = time.monotonic()
        outputs = run(page, index)
        if "fl.predict(" in cell["source"] and not asked:
            (form,) = live(page, index)
            assert time.monotonic() - begin < budget(5)  # the first picture
            form.query_selector("[name=value]").focus()
            page.keyboard.type("8,5")
            page.keyboard.press("Tab")
            page.wait_for_function(
                "(f) => f.querySelector('[name=value]').value === '8.5'", arg=form
            )
            shot(page, "00-form", form)
            form.query_selector("[data-press=store]").click()
            page.wait_for_function(
                "(f) => f.querySelector('.fl-voice').textContent.includes('Stored')", arg=form
            )
            shot(page, "00-stored", form)
            asked = True
        elif asked and "fl.reveal(" in cell["source"]:
            assert "You said" in json.dumps(outputs)
            break
    else:
        pytest.fail("the lesson reveals nothing after its first prediction")
    stored = json.loads((folder / "progress.json").read_text())["predictions"]
    assert any(entry.get("truth") for entry in stored.values())
    # What is folded in the text stands apart from what follows it.
    gaps = page.evaluate(
        """() => [...document.querySelectorAll(".jp-RenderedMarkdown details + *")].map((next) =>
             next.getBoundingClientRect().top - next.previousElementSibling.getBoundingClientRect().bottom)"""
    )
    assert gaps and min(gaps) >= 12
    page.close()


@pytest.mark.alone
def test_the_list_of_lessons_shows_its_pictures(chrome, place):
    page = opened(chrome, place[0], "index")
    pictures = "[...document.querySelectorAll('.jp-MarkdownOutput img')]"
    page.wait_for_function(f"{pictures}.length > 0 && {pictures}.every((p) => p.complete)")
    shown = page.evaluate(f"{pictures}.map((p) => [p.alt, p.naturalWidth])")
    assert len(shown) == 4
    assert all(words and width for words, width in shown), shown
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("lesson", ["00_start_here", "31_all_reduce"])
def test_a_lesson_runs_from_top_to_bottom(chrome, place, lesson):
    address, folder = place
    (folder / "progress.json").unlink(missing_ok=True)
    page = opened(chrome, address, lesson)
    found = run_all(page)
    assert found
    for number, view in enumerate(page.query_selector_all(".fl-live")):
        view.scroll_into_view_if_needed()
        shot(page, f"{lesson.split('_')[0]}-live-{number}", view)
    page.close()


@pytest.mark.alone
@pytest.mark.slow
def test_the_ring_is_stepped_by_hand(chrome, place):
    address, _ = place
    page = opened(chrome, address, "31_all_reduce", reduced_motion="reduce")
    for index, cell in enumerate(cells(page)):
        if cell["type"] == "code":
            run(page, index)
        if "live.stepper(" in cell["source"]:
            break
    view = next(v for v in live(page, index) if v.query_selector("[data-press=forward]"))
    pixels = "(v) => v.querySelector('.fl-canvas').toDataURL()"
    before, said = view.evaluate(pixels), view.query_selector(".fl-said").inner_text()
    view.query_selector("[data-press=forward]").click()
    page.wait_for_function(
        "([v, old]) => v.querySelector('.fl-said').innerText !== old", arg=[view, said]
    )
    page.wait_for_function(
        "([v, old]) => v.querySelector('.fl-canvas').toDataURL() !== old", arg=[view, before]
    )
    shot(page, "31-stepped", view)
    page.close()


@pytest.mark.alone
@pytest.mark.parametrize("way", sampled(["Tab and Enter", "click"], 2))
@pytest.mark.parametrize(
    ("page_name", "anchor"), sampled([("glossary", "ring"), ("errata", "e13")], 2)
)
def test_a_term_and_a_statement_open_at_their_place(chrome, place, way, page_name, anchor):
    address, _ = place
    page = opened(chrome, address, "31_all_reduce")
    link = f'.jp-Notebook a[href*="{page_name}.md"][href$="#{anchor}"]'
    page.wait_for_selector(link)
    assert len(page.get_attribute(link, "title")) > 40  # what hovering shows
    if way == "click":
        page.click(link)
    else:
        # Up from the cell of the link, each Tab goes to the next link.
        page.evaluate("(l) => document.querySelector(l).closest('.jp-Cell').focus()", link)
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("(l) => document.activeElement === document.querySelector(l)", link):
                break
        page.keyboard.press("Enter")
    page.wait_for_function(
        """(id) => {
          const widget = window.jupyterapp.shell.currentWidget;
          const goal = widget.node.querySelector(`.jp-MarkdownViewer [data-jupyter-id="${id}"]`);
          const top = goal && goal.getBoundingClientRect().top - widget.node.getBoundingClientRect().top;
          return goal && top >= 0 && top < 60;
        }""",
        arg=anchor,
    )
    shot(page, f"{page_name}-{way.split()[0]}")
    page.close()


@pytest.mark.alone
def test_keys_stay_with_the_control_that_has_the_focus(chrome, place, tmp_path):
    """JupyterLab takes single keys as commands: d d deletes a cell, an arrow goes to the next."""
    address, folder = place
    code = "import fabriclab as fl\nfl.live.placement(fl.topologies.build('rail_optimised', servers=8))"
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code), nbformat.v4.new_code_cell("1")]
    )
    book.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(book, folder / "notebooks" / "keys.ipynb")
    page = opened(chrome, address, "keys")
    run(page, 0)
    (view,) = live(page, 0)
    values = "() => document.querySelector('.fl-code').textContent"
    here = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    for control, key, shown in (
        ("seed", "ArrowUp", "seed=1"),
        ("seed", "ArrowDown", "seed=0"),
        ("seed", "ArrowRight", "seed=1"),
        ("routing", "ArrowDown", "routing='spray'"),
        ("routing", "ArrowUp", "routing='ecmp'"),
        ("colour", "ArrowRight", "colour='tier'"),
    ):
        part = f"[data-control={control}]"
        (view.query_selector(f"{part}:checked") or view.query_selector(part)).focus()
        page.keyboard.press(key)
        page.wait_for_function(f"(shown) => ({values})().includes(shown)", arg=shown)
    field = view.query_selector(".fl-amount input")
    field.focus()
    field.fill("4")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => ({values})().includes('seed=4')")
    for part in (
        "[data-control=routing]:checked",
        ".fl-canvas",
        "[data-press=reset]",
        "[data-press=numbers]",
    ):
        view.query_selector(part).focus()
        for key in ("d", "d", "r", "x", "a", "ArrowDown"):
            page.keyboard.press(key)
    assert [cell["type"] for cell in cells(page)] == ["code", "code"]
    assert page.evaluate(here) == 0
    page.close()


def test_the_server_takes_the_hook_without_a_warning(root):
    config = PyFileConfigLoader("jupyter_server_config.py", path=str(root / "binder"))
    with warnings.catch_warnings(record=True) as said:
        manager = AsyncLargeFileManager(config=config.load_config())
        assert manager.pre_save_hook.__name__ == "keep_pictures"
        assert said == []
        manager.pre_save_hook = len  # a hook that really replaces it is still told
        assert "keep_pictures" in str(said[0].message)


def test_the_server_passes_each_message_on_at_once(root):
    config = PyFileConfigLoader("jupyter_server_config.py", path=str(root / "binder"))
    connection_class = config.load_config().ServerApp.kernel_websocket_connection_class
    said = []
    handler = SimpleNamespace(set_nodelay=said.append)
    with (
        mock.patch.object(connection_class.__base__, "connect", lambda self: said.append("open")),
        mock.patch.object(connection_class, "websocket_handler", handler),
    ):
        object.__new__(connection_class).connect()
    assert said == [True, "open"]


@pytest.mark.alone
@pytest.mark.slow
def test_a_saved_lesson_opens_again_with_its_pictures_and_says_what_to_do(chrome, place, root):
    address, folder = place
    ruler = "import fabriclab as fl\nfl.live.ruler({'copy': '10 GB/s'}, {})"
    sources = [ruler, "fl.check('31-butterfly')", "fl.__name__"]
    book = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)))
    book.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    file = folder / "notebooks" / "again.ipynb"
    nbformat.write(book, file)
    page = opened(chrome, address, "again")
    for index in range(3):
        run(page, index)
        assert index == 2 or live(page, index)
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    assert page.query_selector_all(".fl-live")  # what is open stays alive
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    page.close()
    page = opened(chrome, address, "again")
    kept = text("live.kept")
    page.wait_for_selector(f"text={kept} >> nth=1")
    page.wait_for_timeout(3000)  # JupyterLab looks for a model for two seconds
    words = [cell.inner_text() for cell in page.query_selector_all(".jp-Notebook .jp-Cell")]
    assert [kept in cell for cell in words] == [True, True, False]
    assert not any("Error displaying" in cell or "Loading widget" in cell for cell in words)
    assert page.is_visible(
        ".jp-Notebook .jp-Cell >> nth=0 >> .jp-OutputArea-output svg, .jp-OutputArea-output img"
    )
    assert "butterfly all-reduce" in words[1]
    shot(page, "again")
    run(page, 0)
    assert live(page, 0)  # and the cell runs as before
    page.close()
    assert "fabriclab" not in json.loads(file.read_text())["cells"][0]["outputs"][0]["metadata"]
    for recipe in ("Makefile", "binder/postBuild"):
        assert "binder/jupyter_server_config.py" in (root / recipe).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "environment", "look"),
    [
        ("dark", {"theme": "JupyterLab Dark"}, {}),
        pytest.param(
            "zoomed",
            {},
            {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2},
            marks=pytest.mark.release,
        ),
        pytest.param("pseudo", {}, {}, marks=pytest.mark.release),
        pytest.param("text", {"FABRICLAB_TEXT": "1"}, {}, marks=pytest.mark.release),
    ],
)
def test_every_lesson_in_every_dress(chrome, root, tmp_path, pseudo, name, environment, look):
    """At 200% zoom, on a dark page, in a language 40% longer, and as text."""
    shutil.copytree(
        root / "notebooks",
        tmp_path / "notebooks",
        ignore=shutil.ignore_patterns("*progress*", ".ipynb*"),
    )
    environment = environment | ({"FABRICLAB_LANGUAGE": pseudo} if name == "pseudo" else {})
    with lab(
        tmp_path, FABRICLAB_PROGRESS=tmp_path / "progress.json", FABRICLAB_REVEAL=1, **environment
    ) as address:
        for lesson in sorted(p.stem for p in (root / "notebooks").glob("[0-9]*.ipynb")):
            page = chrome.new_page(**{"viewport": {"width": 1440, "height": 900}, **look})
            page.set_default_timeout(30_000)
            visit(page, address, f"notebooks/{lesson}.ipynb")
            found = run_all(page)
            assert bool(found) == (name != "text")
            assert (page.get_attribute("body", "data-jp-theme-light") == "false") == (
                name == "dark"
            )
            for number, view in enumerate(page.query_selector_all(".fl-live")):
                view.scroll_into_view_if_needed()
                for part in view.query_selector_all("button, select, input, summary"):
                    if part.is_visible():
                        inside = "([p, v]) => p.getBoundingClientRect().right <= v.getBoundingClientRect().right + 1"
                        assert page.evaluate(inside, [part, view]), (
                            lesson,
                            part.evaluate("(p) => p.outerHTML"),
                        )
                shot(page, f"{name}-{lesson.split('_')[0]}-{number}", view)
            # Eighty kernels at once would fill the memory.
            page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
            page.close()


def test_screens_are_not_committed(root):
    assert "build/" in (root / ".gitignore").read_text().splitlines()
    assert os.fspath(SHOTS).startswith(os.fspath(root / "build"))
