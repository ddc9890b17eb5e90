"""A live view: a plain function from values of controls to a scene, with its controls, its text and its code."""

import html
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import anywidget
import numpy as np
import traitlets
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.look import CARDS, SHADES, variables
from fabriclab.texts import UNBROKEN, keys, switched_on, text, unbroken
from fabriclab.views.common import common_axes
from fabriclab.views.live.controls import (
    MOST_CONTROLS,
    Choice,
    Control,
    Slider,
    ladder_of,
    name_of,
    natural,
    option_name,
    range_of,
    typed_units,
)
from fabriclab.views.page import Picture, Table, halves
from fabriclab.views.scene import COLOUR, DASHES, PALETTE, TOKENS, TURN, Layer, Scene, printed

# What modules with views import from here.
__all__ = ["Choice", "Control", "Live", "Slider", "Table", "live_view", "table"]
_HERE = Path(__file__).parent
_LINES_OF_PLAY = (
    2  # that the findings of all views which play fit into, in a notebook on a small laptop
)


def _read(name: str) -> str:
    """Return the text of a file beside this one."""
    return (_HERE / name).read_text(encoding="utf-8")


def fixed_words() -> dict[str, str]:
    """Return the words that every view may show, such as the names of its buttons, by their short keys."""
    words = {key.removeprefix("live.word."): text(key) for key in keys("live.word.")}
    marks = {"decimal": text("number.decimal"), "thousands": text("number.thousands")}
    marks["unbroken"] = UNBROKEN
    return {**words, **marks, "language": text("language")}


class LiveModel(anywidget.AnyWidget):
    """The state that a view shares with the browser, from the moment when the view is first shown.

    Other widgets announce themselves to the browser as soon as they are made. This one waits until its address is asked
    for, as a notebook or a box does to show it. So a view that is never shown sends nothing, and can be freed.
    """

    # As text, because anywidget would watch the file of a path, and the watch would keep every view alive.
    _esm = _read("painter.js") + _read("form.js") + _read("card.js")
    _css = (
        f".fl-live{{{variables('light')}}}.fl-live[data-theme=dark]{{{variables('dark')}}}"
        + _read("live.css")
        + CARDS
    )
    spec = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True, echo_update=False)  # nobody waits for the echo
    frame = traitlets.Dict().tag(sync=True)
    numbers = traitlets.Bytes().tag(sync=True)
    _is_filled = False

    def _fill(self) -> None:
        """Set all the state that the browser needs at first."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Fill this model if that has not been done yet."""
        if not self._is_filled:
            self._is_filled = True
            self._fill()

    def open(self) -> None:
        """Open the connection to the browser, but only if this view has been asked for; before that nobody listens."""
        if self._is_filled:
            super().open()

    @property
    def model_id(self) -> str:
        """The address under which the browser finds this view; to ask for it opens the connection."""
        if self.comm is None:
            self._prepare()
            self.open()
        address: str = super().model_id
        return address

    def page_bundle(self, **kwargs: Any) -> Any:
        """Return the widget alone, and the words that a saved notebook shows above its picture.

        binder/jupyter_server_config.py uses these words. The caller adds a picture for pages without a kernel.
        """
        bundle = super()._repr_mimebundle_(**kwargs)
        data, meta = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return data, {**meta, "fabriclab": text("live.kept")}


class Live(LiveModel):
    """A view that follows its controls; as a widget it fits into ``ipywidgets.VBox([view])`` and other containers.

    Parameters
    ----------
    code : str
        The call that makes the view, without the values of its controls and the closing bracket, such as
        ``"live.stepper('all_reduce', 'ring', 8"``.
    scene : callable
        Function from the values of the controls, by name, to a Scene.
    controls : mapping of str to Slider or Choice
        At most three controls, in the order in which the page shows them.
    values : mapping
        First values of the controls.
    title : str
        Title that a screen reader reads aloud on entering the view.
    buttons : mapping of str to callable
        Label of each further button, and a function of this view that the button calls. If the function returns a
        Scene, that scene is shown.
    hidden : mapping of str to value
        Values that are set in the picture itself instead of by a control, such as the block that is open.
    listed : str
        A list of all states to read as text, such as the steps of an animation.
    watch : callable, optional
        Function that is told the reader's own values: the first ones, and those after each change. It is not told
        those of a setting that is kept beside, of which a scene is made as well.
    room : int
        Lines for which the card has room above its controls, so that they stay in place where the finding wraps. By
        default, 0, a view that plays has two, since its finding changes under the hand that is to press Pause, and all
        others have one. A view that plays with findings that never wrap on a small laptop asks for one.
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
        watch: Callable[[Mapping[str, Any]], None] | None = None,
        room: int = 0,
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
        self._watch = watch
        plays = any(isinstance(control, Slider) and control.play for control in controls.values())
        self._room = room or (_LINES_OF_PLAY if plays else 1)
        self._start = dict(hidden or {})
        for name, control in self.controls.items():
            self._start[name] = control.check(values[name], name)
        self.values = dict(self._start)
        self.moved = False  # whether a reader has set a control, even to its present value
        self.scene = scene(**self.values)
        self._limit()
        self._tell()
        self._sent: dict[str, Layer] = {}
        # By its number on the page, what a reader keeps beside the present state: values, and pictures with its axes.
        self._kept: dict[str, dict[str, Any]] = {}
        self._beside: dict[str, Scene] = {}

    def set(self, **values: Any) -> Self:
        """Set controls from code, as a reader does by hand, and return this view."""
        for name, value in values.items():
            if units.choice(name, "control of this view", self._start) in self.controls:
                values[name] = self.controls[name].check(value, name)
        self.scene = self._make(**(self.values | values))
        self.values |= values
        self._limit()
        self._tell()
        self.moved = True
        self._show(moved=True)
        return self

    def _limit(self) -> None:
        """Keep the values of sliders within the limits that the present scene sets."""
        for name, most in self.scene.limits.items():
            self.values[name] = min(self.values[name], most)

    def _tell(self) -> None:
        """Tell whoever watches which values the reader sees now."""
        if self._watch is not None:
            self._watch(dict(self.values))

    def _make_beside(self, kept: Mapping[str, dict[str, Any]]) -> None:
        """Make the present scene and those that a reader keeps beside it, over the same axes."""
        with common_axes() as axes:
            scene = self._make(**self.values)
            if kept:
                beside = {number: self._make(**values) for number, values in kept.items()}
                if axes:
                    scene = self._make(**self.values)
                    beside = {number: self._make(**values) for number, values in kept.items()}
        self.scene = scene
        self._kept = dict(kept)
        self._beside = beside if kept and axes else {}
        self._limit()

    @property
    def code(self) -> str:
        """The line of code that reproduces this state."""
        line = self._code
        for name, value in self.values.items():
            if value is not None:
                line += f", {name}={value!r}"
        line += ")"
        if self._code.endswith("("):
            line = line.replace("(, ", "(", 1)
        # Numbers of numpy are written like any other: "np.float64(2.5)" becomes "2.5".
        return re.sub(r"\bnp\.\w+\(([^()]*)\)", r"\1", line)

    def picture(self) -> Picture:
        """Return this state as a picture for print; ``picture().save(path)`` writes it to a file."""
        return printed(self.scene)

    def __repr__(self) -> str:
        """Show the title and the sentence."""
        return f"<Live {self.title}: {self.scene.said}>"

    def __str__(self) -> str:
        """Return this state as the text mode shows it: sentences, table, list of states, controls, and line of code."""
        parts = [self.scene.said, self.scene.hint]
        if self.scene.table is not None:
            parts.append(str(self.scene.table))
        parts.append(self._listed)
        for name, control in self.controls.items():
            parts.append(f"{control.label or name}: {range_of(control)}")
        parts.append(self.code)
        return "\n".join(part for part in parts if part)

    # ------------------------------------------------------------------ the browser

    @property
    def widget(self) -> Self:
        """The view itself, after setting all that the browser needs at first."""
        self._prepare()
        return self

    def _fill(self) -> None:
        """Set the state that the browser needs at first, and listen to its requests."""
        self.spec = self._spec()
        self.asked = {"seq": 0, "values": self.values}
        self._show(whole=True)
        self.observe(self._answer, names="asked")

    def _spec(self) -> dict[str, Any]:
        """Return what the browser needs to draw the controls and fixed words; it is sent only once."""
        controls = [self._spec_of(name) for name in self.controls]
        buttons = [{"name": label, "label": label} for label in self._buttons]
        spec = {
            "title": self.title,
            "controls": controls,
            "start": self._start,
            "reset": len(self.controls) > 0,
            "listed": self._listed,
            "buttons": buttons,
            "card": "view",
            "palette": PALETTE,
            "loads": len(PALETTE) - SHADES,
            "colours": {name: COLOUR[name] for name in TOKENS},
            "dashes": DASHES,
            "turn": TURN,
            "words": fixed_words(),
        }
        if self._room > 1:
            spec["room"] = self._room
        if switched_on("FABRICLAB_TEXT"):
            spec["as_text"] = True
        return spec

    def _spec_of(self, name: str) -> dict[str, Any]:
        """Return a control as a dictionary for the browser, without fields that are False or empty."""
        control = self.controls[name]
        spec = {}
        for field, value in asdict(control).items():
            if value is not False and value not in ("", ()):
                spec[field] = value
        if isinstance(control, Slider):
            spec["ladder"] = ladder_of(control.unit)
            spec["units"] = typed_units(control.unit)
            low = natural(control.low, control.unit, control.high)
            high = natural(control.high, control.unit)
            spec["beyond"] = text("live.beyond", low=low, high=high)
            spec["unread"] = text("live.unread", example=high)
        elif not control.names:
            spec["names"] = tuple(map(option_name, control.options))
        return {**spec, "name": name, "label": control.label or name}

    def _answer(self, change: Mapping[str, Any]) -> None:
        """Answer a request of the browser; whatever happens, a frame is sent back."""
        request = change["new"]
        moved = False
        try:
            self.moved = request.get("moved", self.moved)
            values = self._checked(request["values"])
            # A scene with an error is computed again, unless the error may have come from a button.
            again = self.scene.wrong and not self._buttons
            kept = {name: self._checked(held) for name, held in request.get("kept", {}).items()}
            changed = self.values | values != self.values or again
            if changed or kept != self._kept:
                # Values are kept even if the function fails, so that a slider can move past the failure.
                self.values |= values
                self._make_beside(kept)
                moved = changed
                if changed:
                    self._tell()
            pressed = request.get("press")
            if pressed in self._buttons:
                self.scene = self._buttons[pressed](self) or self.scene
        except Exception as error:  # the learner's function may raise anything; the page shows it
            self.scene = _scene_of_error(self.scene, error)
        self._show(whole=bool(request.get("whole")), table=bool(request.get("table")), moved=moved)

    def _checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of some values that this view knows, after checking the values of controls."""
        known = {name: value for name, value in values.items() if name in self._start}
        for name, control in self.controls.items():
            if name in known:
                known[name] = control.check(known[name], name)
        return known

    def _show(self, *, whole: bool = False, table: bool = False, moved: bool = False) -> None:
        """Send this state to the browser; of the arrays, send only those that have changed."""
        if not self._is_filled:
            return
        if whole:
            self._sent = {}
        layers: list[dict[str, Any]] = []
        numbers: list[NDArray[Any]] = []
        drawn: dict[str, Layer] = {}
        for kept, scene in {"": self.scene, **self._beside}.items():
            for number, panel in enumerate(scene.panels()):
                for name, layer in panel.layers.items():
                    layer_id = f"{kept}/{number}/{name}" if kept else f"{number}/{name}"
                    before = self._sent.get(layer_id, Layer(layer.kind))
                    changes, arrays = _changes_of(layer_id, layer, before)
                    layers.append({**changes, "panel": number, "kept": kept})
                    numbers += arrays
                    drawn[layer_id] = layer
        self._sent = drawn

        frame = self._frame(layers, whole=whole, moved=moved)
        # Where nothing is drawn, the table is the view, and a saved notebook has no kernel that could send it.
        if table or (self.scene.table is not None and not self.scene.layers):
            shown = self.scene.table
            frame["table"] = "" if shown is None else shown._repr_html_()
        if self.spec.get("as_text"):
            frame["text"] = str(self)
        with self.hold_sync():
            self.numbers = b"".join(array.tobytes() for array in numbers)
            self.frame = frame

    def _frame(self, layers: list[dict[str, Any]], *, whole: bool, moved: bool) -> dict[str, Any]:
        """Return this state as a dictionary for the browser, without table and text."""
        scene = self.scene
        return {
            "seq": self.asked["seq"],
            "values": self.values,
            "said": scene.said,
            "alt": scene.alt or scene.said,
            "code": self.code,
            "halves": halves(scene.said),
            "hint": scene.hint,
            "panels": _sizes_of(scene),
            "kept": {name: _sizes_of(beside) for name, beside in self._beside.items()},
            "limits": dict(scene.limits),
            "pressed": dict(scene.pressed),
            "wrong": scene.wrong,
            "moves": scene.moves and moved,
            "counted": scene.table is not None,
            "layers": layers,
            "whole": whole,
        }

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget with a printed picture for pages without a kernel; in text mode return only words."""
        if switched_on("FABRICLAB_TEXT"):
            return {"text/plain": str(self), "text/html": f"<pre>{html.escape(str(self))}</pre>"}
        data, meta = self.page_bundle(**kwargs)
        if self.scene.layers and not self.scene.wrong:
            still = self.picture()._repr_mimebundle_()["text/html"]
        else:
            still = html.escape(unbroken(self.scene.said))
            if self.scene.table is not None and not self.scene.wrong:
                still += self.scene.table._repr_html_()
        return {**data, "text/plain": str(self), "text/html": still}, meta


def _sizes_of(scene: Scene) -> list[dict[str, float]]:
    """Return the width and height of each panel of a scene."""
    return [{"width": panel.width, "height": panel.height} for panel in scene.panels()]


def _scene_of_error(scene: Scene, error: Exception) -> Scene:
    """Return a scene with an error message instead of its sentence, without its table and its animation."""
    kind = f"{type(error).__name__}: "
    if hasattr(error, "_render_traceback_"):
        kind = ""  # a message for the learner needs no type, as below a cell
    return replace(
        scene,
        said=f"{kind}{error}",
        alt="",
        table=None,
        moves=False,
        wrong=True,
    )


def _changes_of(
    layer_id: str, layer: Layer, before: Layer
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return which fields of a layer have changed since ``before``, and the changed arrays, which are sent as bytes."""
    fields: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    same = []
    for name, value in layer.fields.items():
        if name in before.fields and _is_same(before.fields[name], value):
            same.append(name)
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            fields[name] = value
    changes = {
        "id": layer_id,
        "kind": layer.kind,
        "fields": fields,
        "arrays": [[name, array.size] for name, array in arrays.items()],
        "same": same,
    }
    return changes, list(arrays.values())


def _is_same(before: Any, value: Any) -> bool:
    """Return whether a field is as it was: the same object, or equal numbers or texts."""
    if before is value:
        return True
    if isinstance(value, np.ndarray):
        return isinstance(before, np.ndarray) and np.array_equal(before, value)
    return type(before) is type(value) and bool(before == value)


def live_view(
    name: str,
    arguments: Mapping[str, Any],
    scene: Callable[..., Scene],
    controls: Mapping[str, Control],
    *,
    hidden: tuple[str, ...] = (),
    held: tuple[str, ...] = (),
    listed: str = "",
    buttons: Mapping[str, Callable[[Live], Scene | None]] | None = None,
    watch: Callable[[Mapping[str, Any]], None] | None = None,
    room: int = 0,
) -> Live:
    """Build the view that the function ``live.<name>`` returns.

    Title and labels come from the language table, under the names of the function and its arguments. A choice with a
    single option gets no control, nor does a choice for which the learner's own ``controls`` leave no room.

    Parameters
    ----------
    name : str
        Name of the public function.
    arguments : mapping
        The arguments of the function by name, with one entry for ``**values``. The line of code shows all arguments
        that no control sets.
    scene : callable
        Function from the values of all controls and of ``hidden``, by name, to a Scene.
    controls : mapping of str to Slider or Choice
        Controls of the view itself; the learner's own are in ``arguments["controls"]``.
    hidden : tuple of str
        Names of the arguments that are set in the picture itself.
    held : tuple of str
        Arguments that the line of code shows as a name, because their values cannot be typed.
    listed : str
        As in `Live`.
    buttons : mapping of str to callable, optional
        As in `Live`.
    watch : callable, optional
        As in `Live`.
    room : int
        As in `Live`.
    """
    learners: dict[str, Control] = dict(arguments.get("controls") or {})
    start = {key: control.samples()[0] for key, control in learners.items()}
    if learners:
        start |= arguments["values"]
    start |= {key: arguments[key] for key in controls}
    fixed = {key: arguments[key] for key in hidden}

    shown = dict(learners)
    for key, control in controls.items():
        if isinstance(control, Choice) and (
            len(control.options) == 1 or len(shown) == MOST_CONTROLS
        ):
            fixed[key] = control.check(arguments[key], key)
        else:
            shown[key] = replace(control, label=control.label or label_of(name, key))
    return Live(
        line_of_code(name, arguments, set_by_hand=(*controls, *hidden), held=held),
        scene,
        shown,
        start,
        text(f"live.{name}.title", **arguments),
        hidden=fixed,
        listed=listed,
        buttons=buttons,
        watch=watch,
        room=room,
    )


def line_of_code(
    name: str,
    arguments: Mapping[str, Any],
    set_by_hand: tuple[str, ...],
    held: tuple[str, ...],
) -> str:
    """Return the call of ``live.<name>`` without its end, to which each state adds the values set by hand.

    Leaves out arguments that are None, and keyword-only arguments that have their default.
    """
    from fabriclab.views import live

    parameters = inspect.signature(getattr(live, name)).parameters
    words = []
    is_one_left_out = False
    for key, parameter in parameters.items():
        if key in set_by_hand or key == "values" or arguments[key] is None:
            is_one_left_out = True
            continue
        value = arguments[key]
        by_name_only = parameter.kind is parameter.KEYWORD_ONLY
        if by_name_only and value == parameter.default:
            continue
        typed = name_of(value, key) if key in held else _typed(value)
        by_name = by_name_only or is_one_left_out  # what follows a gap has no place any more
        words.append(f"{key}={typed}" if by_name else typed)
    return f"fl.live.{name}({', '.join(words)}"


def label_of(name: str, control: str) -> str:
    """Return the label of a control of ``live.<name>`` or, if it has none, the label of such controls in all views."""
    own = f"live.{name}.{control}"
    if own in keys(own):
        return text(own)
    return text(f"live.control.{control}")


def _typed(value: Any) -> str:
    """Write an argument as a learner could type it."""
    if isinstance(value, Mapping):
        entries = [f"{key!r}: {_typed(entry)}" for key, entry in value.items()]
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, Fabric):
        return f"fl.{value!r}"
    return repr(value)


def table(
    function: Callable[..., Table],
    controls: Mapping[str, Control],
    said: str = "",
    *,
    bars: Sequence[str] = (),
    **values: Any,
) -> Live:
    """Show a table that follows controls: a function computes it from their values.

    Parameters
    ----------
    function : callable
        Function from the values of the controls to a `views.Table`.
    controls : mapping of str to Slider or Choice
        Controls whose values the function takes.
    said : str
        The sentence, if the table has no caption.
    bars : sequence of str
        Names of columns of one unit whose numbers are drawn as bars, a group for each; the first column names the bars.
        Those of rows in bold are in ink. The table then opens with its button.
    **values
        First values of the controls.
    """
    arguments = {"function": function, "controls": controls, "said": said, "values": values}
    arguments["bars"] = tuple(bars)
    scene = partial(table_scene, function, said, tuple(bars))
    return live_view("table", arguments, scene, {}, held=("function",))


def table_scene(
    function: Callable[..., Table], sentence: str, columns: tuple[str, ...], /, **values: Any
) -> Scene:
    """Return a scene with the table that a function returns for ``values``, under its caption or else ``sentence``.

    The numbers of ``columns`` are drawn as bars.
    """
    shown = function(**values)
    said = shown.caption or sentence
    # The caption is the finding of the card, so the table below does not repeat it.
    twin = replace(shown, caption="")
    if not columns:
        return Scene(said, twin, {}, 0.0, alt=str(shown))
    from fabriclab.views.bars import scene_of_columns

    return replace(scene_of_columns(twin, columns), said=said, table=twin, alt=str(shown))
