"""A live view: a plain function from control values to a scene, with controls, text form and one line of code."""

import html
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import anywidget
import numpy as np
import traitlets

from fabriclab import units
from fabriclab.core import Fabric, Floats
from fabriclab.texts import keys, switched_on, text
from fabriclab.views.live.controls import MOST_CONTROLS, Choice, Control, Slider, name_of, range_of
from fabriclab.views.page import Picture, Table
from fabriclab.views.scene import COLOUR, DASHES, PALETTE, WIDTH, Layer, Scene, printed

# What a file of views takes from here.
__all__ = ["Choice", "Control", "Live", "Slider", "Table", "live_view", "table"]
_HERE = Path(__file__).parent


class Model(anywidget.AnyWidget):
    """What a view keeps in step with the browser, from the moment when it is first shown.

    A widget says to the browser that it is there as soon as it is made. This one waits until somebody asks for its
    address, as a notebook or a box does that shows it: a view that is never shown sends nothing, and nothing holds it.
    """

    # As text: of a path anywidget would watch the file, and the watch would hold every view for good.
    _esm = (_HERE / "live.js").read_text(encoding="utf-8")
    _css = (_HERE / "live.css").read_text(encoding="utf-8")
    spec = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True, echo_update=False)  # nobody waits for the echo
    frame = traitlets.Dict().tag(sync=True)
    numbers = traitlets.Bytes().tag(sync=True)
    _is_filled = False

    def _fill(self) -> None:
        """Set all that the browser needs at first."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Fill this model, once."""
        if not self._is_filled:
            self._is_filled = True
            self._fill()

    def open(self) -> None:
        """Open the line to the browser, if somebody has asked for this view; until then nobody listens."""
        if self._is_filled:
            super().open()

    @property
    def model_id(self) -> str:
        """The address under which the browser finds this view; whoever asks for it is about to show it."""
        if self.comm is None:
            self._prepare()
            self.open()
        address: str = super().model_id
        return address


class Live(Model):
    """A view that follows its controls: a widget, so that ``ipywidgets.VBox([view])`` and others of its kind take it.

    Parameters
    ----------
    code : str
        The call that makes it, without the values of the controls: ``"live.stepper('all_reduce', 'ring', 8"``.
    scene : callable
        From the values of the controls, by name, to a Scene.
    controls : mapping of str to Slider or Choice
        At most three are shown at once; their order is that of the page.
    values : mapping
        Where they stand at first.
    title : str
        What a screen reader says on entering.
    buttons : mapping of str to callable
        Label of each further button, and what it does; it may return a new Scene, whose sentence is shown.
    hidden : mapping of str to value
        State that is set in the picture itself, such as the block that is open.
    listed : str
        All states as a list to read, such as the steps of an animation.
    """

    def __init__(
        self,
        code: str,
        scene: Callable[..., Scene],
        controls: Mapping[str, Control],
        values: Mapping[str, Any],
        title: str,
        *,
        buttons: Mapping[str, Callable[["Live"], Scene | None]] | None = None,
        hidden: Mapping[str, Any] | None = None,
        listed: str = "",
    ) -> None:
        if len(controls) > MOST_CONTROLS:
            msg = f"a view has at most {MOST_CONTROLS} controls, got {', '.join(controls)}; fix one in the function"
            raise ValueError(msg)
        super().__init__()
        self._code = code
        self._make = scene
        self.title = title
        self.controls = dict(controls)
        self._buttons = dict(buttons or {})
        self._listed = listed
        self._start = {
            **(hidden or {}),
            **{name: c.check(values[name], name) for name, c in self.controls.items()},
        }
        self.values = dict(self._start)
        self.moved = False  # whether a hand has set a control, even to where it stood
        self.scene = scene(**self.values)
        self._sent: dict[str, Layer] = {}

    def set(self, **values: Any) -> Self:
        """Set controls from code, as a hand would, and return this view."""
        for name, value in values.items():
            if units.choice(name, "control of this view", self._start) in self.controls:
                values[name] = self.controls[name].check(value, name)
        self.scene = self._make(**(self.values | values))
        self.values |= values
        self.moved = True
        self._show(moved=True)
        return self

    @property
    def code(self) -> str:
        """The line of code that reproduces this state."""
        line = (
            self._code
            + "".join(f", {k}={v!r}" for k, v in self.values.items() if v is not None)
            + ")"
        )
        line = line.replace("(, ", "(", 1) if self._code.endswith("(") else line
        # a number of numpy's is typed as any other
        return re.sub(r"\bnp\.\w+\(([^()]*)\)", r"\1", line)

    def picture(self) -> Picture:
        """Return this state as a picture for print; ``picture().save(path)`` writes it."""
        return printed(self.scene)

    def __repr__(self) -> str:
        """Show the sentence and the code."""
        return f"<Live {self.title}: {self.scene.said}>"

    def __str__(self) -> str:
        """Return what the text mode shows: sentence, table, controls and the line of code."""
        table = [] if self.scene.table is None else [str(self.scene.table)]
        ways = [f"{c.label or name}: {range_of(c)}" for name, c in self.controls.items()]
        return "\n".join(filter(None, [self.scene.said, *table, self._listed, *ways, self.code]))

    # ------------------------------------------------------------------ the browser

    @property
    def widget(self) -> Self:
        """The view itself, with all that the browser needs at first."""
        self._prepare()
        return self

    def _fill(self) -> None:
        """Set what the browser needs at first, and listen to its answers."""
        self.spec = self._spec()
        self.asked = {"seq": 0, "values": self.values}
        self._show(whole=True)
        self.observe(self._answer, names="asked")

    def _spec(self) -> dict[str, Any]:
        controls = []
        for name, control in self.controls.items():
            about = {k: v for k, v in asdict(control).items() if v is not False and v != ""}
            if isinstance(control, Slider):
                high = f"{control.high:g} {control.unit}".rstrip()
                about["beyond"] = text("live.beyond", low=control.low, high=high)
            controls.append({**about, "name": name, "label": control.label or name})
        words = {key.removeprefix("live.word."): text(key) for key in keys("live.word.")}
        spec = {
            "title": self.title,
            "controls": controls,
            "start": self._start,
            "reset": len(self.controls) > 0,
            "listed": self._listed,
            "buttons": [{"name": label, "label": label} for label in self._buttons],
            "palette": PALETTE,
            "dashes": DASHES,
            "white": COLOUR["white"],
            "words": words,
        }
        if switched_on("FABRICLAB_TEXT"):
            spec["as_text"] = True
        return spec

    def _answer(self, change: Mapping[str, Any]) -> None:
        """Answer the browser: whatever happens, a frame goes back."""
        asked, moved = change["new"], False
        try:
            self.moved = asked.get("moved", self.moved)
            values = {k: v for k, v in asked["values"].items() if k in self._start}
            values |= {k: c.check(values[k], k) for k, c in self.controls.items() if k in values}
            if self.values | values != self.values or (self.scene.wrong and not self._buttons):
                self.values |= (
                    values  # also where the function fails, so that a slider can go past it
                )
                self.scene, moved = self._make(**self.values), True
            if asked.get("press") in self._buttons:
                self.scene = self._buttons[asked["press"]](self) or self.scene
        except Exception as error:  # the learner's function may raise anything; the page says what
            # A sentence that is meant for the learner stands alone, as it does below a cell.
            kind = "" if hasattr(error, "_render_traceback_") else f"{type(error).__name__}: "
            self.scene = replace(
                self.scene,
                said=f"{kind}{error}",
                alt="",
                table=None,
                moves=False,
                wrong=True,
                verdict=None,
            )
        self._show(whole=bool(asked.get("whole")), table=bool(asked.get("table")), moved=moved)

    def _show(self, *, whole: bool = False, table: bool = False, moved: bool = False) -> None:
        """Send this state to the browser, of the numbers only those that have changed."""
        if not self._is_filled:
            return
        if whole:
            self._sent = {}
        layers, sent = [], list[Floats]()
        for id, layer in self.scene.layers.items():
            old = self._sent.get(id, Layer(layer.kind)).fields
            same = [k for k, v in layer.fields.items() if k in old and np.array_equal(old[k], v)]
            new = {k: v for k, v in layer.fields.items() if k not in same}
            arrays = {k: v for k, v in new.items() if isinstance(v, np.ndarray)}
            sent += arrays.values()
            layers.append(
                {
                    "id": id,
                    "kind": layer.kind,
                    "fields": {k: v for k, v in new.items() if k not in arrays},
                    "arrays": [[k, v.size] for k, v in arrays.items()],
                    "same": same,
                }
            )
        self._sent = dict(self.scene.layers)
        scene = self.scene
        frame = {
            "seq": self.asked["seq"],
            "values": self.values,
            "said": scene.said,
            "alt": scene.alt or scene.said,
            "code": self.code,
            "width": WIDTH,
            "height": scene.height,
            "wrong": scene.wrong,
            "moves": scene.moves and moved,
            "counted": scene.table is not None,
            "verdict": scene.verdict,
            "layers": layers,
            "whole": whole,
        }
        if table:
            frame["table"] = "" if scene.table is None else scene.table._repr_html_()
        if self.spec.get("as_text"):
            frame["text"] = str(self)
        with self.hold_sync():
            self.numbers = b"".join(array.tobytes() for array in sent)
            self.frame = frame

    def page_bundle(self, **kwargs: Any) -> Any:
        """Return this view alone, with what a saved notebook says above its picture (binder/jupyter_server_config.py).

        A picture for pages without a kernel is left to the caller.
        """
        bundle = super()._repr_mimebundle_(**kwargs)
        data, meta = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return data, {**meta, "fabriclab": text("live.kept")}

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget, with a printed picture for pages without a kernel; in text mode only words."""
        if switched_on("FABRICLAB_TEXT"):
            return {"text/plain": str(self), "text/html": f"<pre>{html.escape(str(self))}</pre>"}
        data, meta = self.page_bundle(**kwargs)
        drawn, said = self.scene.layers and not self.scene.wrong, html.escape(self.scene.said)
        still = self.picture()._repr_mimebundle_()["text/html"] if drawn else said
        return {**data, "text/plain": str(self), "text/html": still}, meta


def live_view(
    name: str,
    given: Mapping[str, Any],
    scene: Callable[..., Scene],
    controls: Mapping[str, Control],
    *,
    hidden: tuple[str, ...] = (),
    held: tuple[str, ...] = (),
    listed: str = "",
) -> Live:
    """Return the view of the function ``live.name`` from its arguments: those that no control sets stand in its code.

    Those in ``held`` stand there by a name. Title and labels come from the language table, by the names of the function
    and its arguments. What has no other option, or no room beside the learner's own ``controls``, is no control.
    """
    from fabriclab.views import live

    parameters, call = inspect.signature(getattr(live, name)).parameters, []
    for k, parameter in parameters.items():
        word = f"{k}=" if parameter.kind is parameter.KEYWORD_ONLY else ""
        apart = k in (*controls, *hidden, "values") or given[k] is None
        if not apart and not (word and given[k] == parameter.default):
            call.append(word + (name_of(given[k], k) if k in held else _typed(given[k])))
    moved = dict(given["controls"] or {}) if "values" in parameters else {}
    start = {k: c.samples()[0] for k, c in moved.items()} | (given["values"] if moved else {})
    start, fixed = start | {k: given[k] for k in controls}, {k: given[k] for k in hidden}
    for k, c in controls.items():
        if isinstance(c, Choice) and (len(c.options) == 1 or len(moved) == MOST_CONTROLS):
            fixed[k] = c.check(given[k], k)
        else:
            label = f"live.{name}.{k}"
            moved[k] = replace(
                c, label=text(label if label in keys(label) else f"live.control.{k}")
            )
    title = text(f"live.{name}.title", **given)
    return Live(
        f"fl.live.{name}({', '.join(call)}", scene, moved, start, title, hidden=fixed, listed=listed
    )


def _typed(value: Any) -> str:
    """Return an argument as it can be typed."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k!r}: {_typed(v)}' for k, v in value.items())}}}"
    return f"{'fl.' * isinstance(value, Fabric)}{value!r}"


def table(
    function: Callable[..., Table], controls: Mapping[str, Control], said: str = "", **values: Any
) -> Live:
    """Show a table that follows controls.

    Parameters
    ----------
    function : callable
        From the values of the controls to a `views.Table`.
    controls : mapping of str to Slider or Choice
        Its controls.
    said : str
        The sentence, where the table has no caption.
    **values
        Where the controls stand.
    """

    def scene(**values: Any) -> Scene:
        made = function(**values)
        return Scene(made.caption or said, made, {}, 0.0, str(made))

    return live_view("table", locals(), scene, {}, held=("function",))
