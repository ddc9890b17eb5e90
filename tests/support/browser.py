"""A real browser for tests: Debian's chromium, another that is found, or Playwright's own."""

import base64
import contextlib
import json
import os
import shutil
import weakref
from types import SimpleNamespace

import pytest

from fabriclab.views.live.widget import LiveModel

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# The page's half of a model: it keeps the traits, and hands every save to Python, which answers with a frame.
MODEL = """
class Model {
  constructor(state, answer) { this.state = state; this.answer = answer; this.heard = {}; this.saves = 0; }
  get(name) { return this.state[name]; }
  set(name, value) { this.state[name] = value; }
  on(event, f) { (this.heard[event] ||= []).push(f); }
  off(event, f) { this.heard[event] = (this.heard[event] || []).filter((g) => g !== f); }
  async save_changes() {
    this.saves += 1;
    const reply = await this.answer(JSON.stringify(this.state.asked));
    if (reply) this.take(reply);
  }
  take(reply) {
    this.state.numbers = bytes(reply.numbers);
    this.state.frame = reply.frame;
    for (const f of this.heard["change:frame"] || []) f();
  }
}
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
"""


def cleared(page, window, motion="reduce"):
    """Return a page on which views have been shown as a new one: daylight, motion as asked, a pointer at rest."""
    if page.viewport_size != window:
        page.set_viewport_size(window)
    page.emulate_media(color_scheme="light", reduced_motion=motion)
    page.mouse.move(0, 0)
    return page


@contextlib.contextmanager
def browser():
    """Open a headless browser, or skip where none can be had; FABRICLAB_BROWSER=1 says that there must be one."""
    must = os.environ.get("FABRICLAB_BROWSER", "") not in ("", "0")
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        pytest.fail("playwright is missing") if must else pytest.skip(
            "playwright is missing: pip install playwright"
        )
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as play:
        try:
            chrome = play.chromium.launch(executable_path=found, args=FLAGS)
        except Error as error:
            words = (
                f"no browser was found (Debian: apt install chromium): {str(error).splitlines()[0]}"
            )
            pytest.fail(words) if must else pytest.skip(words)
        yield chrome
        chrome.close()


def reply(view):
    """Return what the widget of a live view would send to the browser."""
    widget = view.widget
    return {"frame": widget.frame, "numbers": base64.b64encode(widget.numbers).decode()}


# So many views are shown on a page before it is emptied of what tests still hold of them; by then it has 100 MB.
VIEWS_HELD = 10
# Of each page that shows a view, the number of the view and what answers it.
ANSWERS = weakref.WeakKeyDictionary()

SHOWN = MODEL.replace("const bytes", "var bytes").join(
    [
        "async ([code, state, frame, number]) => {",
        """
          window.views ||= await import("data:text/javascript;base64," + btoa(unescape(encodeURIComponent(code))));
          const answer = (text) => window.python(text, number);
          window.model = new Model({...state, numbers: bytes(frame.numbers), frame: frame.frame}, answer);
          window.end = window.views.default.render({model: window.model, el: document.getElementById("root")});
        }""",
    ]
)


def show(page, view, *, style="", answer=None, drawn=".fl-live[data-drawn]"):
    """Show a live view on a plain page, in place of what it shows; ``answer`` may stand in for Python.

    A new page would cost the browser as much as five views on one that is there.
    """

    def asked(text):
        view.widget.asked = json.loads(text)
        return reply(view)

    if page not in ANSWERS:
        held = weakref.ref(page)

        def python(text, number):
            """Answer the view that is shown; a question of one before it comes too late."""
            now, answered = ANSWERS[held()]
            return answered(text) if number == now else None

        page.expose_function("python", python)
    number = ANSWERS.get(page, (0,))[0] + 1
    if number % VIEWS_HELD == 0:
        page.goto("about:blank")
    page.evaluate("() => window.end?.()")
    ANSWERS[page] = number, answer or asked
    # Chromium lets no element capture a pointer that has moved on a page before `set_content`.
    page.evaluate(
        "(html) => (document.documentElement.innerHTML = html)",
        f"<style>body{{font-family:sans-serif}}{LiveModel._css}{style}</style><div id=root></div>",
    )
    widget = view.widget
    page.evaluate(
        SHOWN,
        [LiveModel._esm, {"spec": widget.spec, "asked": widget.asked}, reply(view), number],
    )
    page.wait_for_selector(drawn)


MEASURED = MODEL.replace("const bytes", "var bytes").join(
    [
        "async ([states, measure]) => {",
        """
          const root = document.getElementById("root"), found = [];
          const frame = () => new Promise(requestAnimationFrame);
          for (const [state, sent] of states) {
            window.end();
            root.replaceChildren();
            window.model = new Model({...state, numbers: bytes(sent.numbers), frame: sent.frame}, async () => null);
            window.end = window.views.default.render({model: window.model, el: root});
            while (!root.querySelector("[data-drawn]")) await frame();
            await frame();
            found.push(eval(measure)());
          }
          return found;
        }""",
    ]
)


def measured(page, views, measure, *, style=""):
    """Show live views one after the other in one place, and return what a function of the page says of each.

    Nobody answers them. It takes a third of the time of as many calls of `show`.
    """
    show(page, views[0], style=style)
    states = [
        [{"spec": view.widget.spec, "asked": view.widget.asked}, reply(view)] for view in views
    ]
    return page.evaluate(MEASURED, [states, measure])


def show_kept(page, state, *, style=""):
    """Show a live view from the state that its widget had in a notebook; nobody answers it."""
    (numbers,) = state["buffers"] or [{"data": ""}]
    view = SimpleNamespace(
        widget=SimpleNamespace(
            spec=state["state"]["spec"],
            asked=state["state"]["asked"],
            frame=state["state"]["frame"],
            numbers=base64.b64decode(numbers["data"]),
        )
    )
    show(page, view, style=style, answer=lambda asked: None)


def picture(page):
    """Return the pixels of the canvas as a data address, and its alternative text."""
    page.wait_for_function(
        "() => { const v = document.querySelector('.fl-live'); return v && v.dataset.drawn; }"
    )
    return tuple(
        page.evaluate(
            """() => { const c = document.querySelector('.fl-canvas');
              return [c.toDataURL(), c.getAttribute('aria-label')]; }"""
        )
    )


def alt(page):
    """Return the alternative text of the picture."""
    return page.get_attribute(".fl-canvas", "aria-label")


def settled(page):
    """Wait until the page has drawn the last answer and asks nothing more."""
    page.wait_for_function(
        """() => { const {busy, drawn} = document.querySelector(".fl-live").dataset;
                   return !busy && drawn === String(window.model.state.frame.seq); }"""
    )
