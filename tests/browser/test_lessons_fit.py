"""Every live view of every lesson, with the arguments that the lesson gives it, fits the window of a small laptop."""

import pytest

from lesson_files import FILES
from support.browser import browser, show_kept
from support.lesson_runs import earlier, folder, load, timed_run  # noqa: F401

WINDOW = {"width": 1366, "height": 768}
OUTPUT, ROOM, CANVAS = (
    934,
    600,
    412,
)  # px: width of an output there; height of a card and of its picture
KEPT = "application/vnd.jupyter.widget-state+json"


@pytest.fixture(scope="module")
def chrome():
    with browser() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("lesson", [name for name in FILES if name[:2].isdigit()])
def test_every_view_of_a_lesson_fits_a_small_laptop(chrome, lesson, folder):  # noqa: F811
    run = timed_run(lesson, load(lesson), folder, earlier(lesson))
    assert run.error == ""
    states = run.nb.metadata.widgets[KEPT]["state"].values()
    views = [one for one in states if one["state"].get("spec", {}).get("card") == "view"]
    shown = any("fl.live." in cell.source for cell in run.nb.cells if cell.cell_type == "code")
    assert views or not shown
    for state in views:
        page = chrome.new_page(viewport=WINDOW, reduced_motion="reduce")
        show_kept(page, state, style=f"#root{{width:{OUTPUT}px}}")
        title = state["state"]["spec"]["title"]
        card = page.query_selector(".fl-live").bounding_box()
        assert card["height"] <= ROOM, title
        canvas = page.query_selector(".fl-canvas").bounding_box()
        if canvas:  # a live table has none
            assert canvas["height"] <= CANVAS, title
            widths = [panel["width"] for panel in state["state"]["frame"]["panels"]]
            assert canvas["width"] >= sum(widths), title
        page.close()
