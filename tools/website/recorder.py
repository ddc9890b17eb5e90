"""In the kernel of a lesson: keep what live views and questions answer, for pages that have no kernel.

A live view is a function from the values of its controls to a scene. After the cell that shows a view, this module
calls that function for the values that a reader can set, and writes all that the browser would get into one file,
``<model id>.json.gz``. The page answers from that file (static/page.js).

- All values of all controls where there are few, else values that lie as evenly as the slider allows. What is left out
  is said on the page.
- An array or text that several states share is kept once.
"""

import base64
import contextlib
import gzip
import io
import itertools
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab.course.shown import quantity
from fabriclab.views.common import common_axes
from fabriclab.views.live import form as forms
from fabriclab.views.live import widget
from fabriclab.views.live.controls import Choice, Slider, ladder_of

MOST_STATES = 150  # of a view
MOST_SECONDS = 3.0  # that the states of a view may take to compute
# Of a view, compressed: its script is a third longer, and a page with all of its views is to stay below 2 MB.
MOST_BYTES = 220_000
LOG_PLACES = 101  # of a logarithmic slider, as card.js has them
# Of a point of a picture in each px: what is finer nobody sees, and it makes a file larger.
PLACES = 16
PROBES = 3  # states that are computed to see how long one takes

_shown: list[Any] = []  # views and forms that have been shown, and not yet written


def install(folder: str) -> None:
    """Write what is shown from now on into a folder, each after its cell."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for kind in (widget.Live, forms.Form):
        kind._fill = _noting(kind._fill)  # type: ignore[method-assign]
    from IPython import get_ipython

    get_ipython().events.register("post_run_cell", lambda result: write_shown(place))  # type: ignore[no-untyped-call]


def _noting(fill: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a method that fills a model for the browser, and notes that it has been shown."""

    def noting(self: Any) -> None:
        fill(self)
        _shown.append(self)

    return noting


def write_shown(folder: Path) -> None:
    """Write the states of all that the last cell has shown; what goes wrong is written, too, and stops no lesson."""
    while _shown:
        model = _shown.pop(0)
        if model.comm is None:
            continue
        try:
            with _aside():
                record = of_view(model) if isinstance(model, widget.Live) else of_form(model)
        except Exception as error:  # a lesson's own function may raise anything; its picture stays
            record = {"failed": f"{type(error).__name__}: {error}"}
        data = json.dumps(record, separators=(",", ":")).encode()
        (folder / f"{model.model_id}.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """Keep what is computed here away from the lesson: its output, its random numbers, its progress."""
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    progress = os.environ.get("FABRICLAB_PROGRESS")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        os.environ.pop("FABRICLAB_PROGRESS", None)
        if progress is not None:
            os.environ["FABRICLAB_PROGRESS"] = progress


# Views ------------------------------------------------------------------------------------------


def of_view(view: widget.Live) -> dict[str, Any]:
    """Return what the browser needs to show a view in each state: its spec, the values, and the frames.

    ``axes`` has the recorded values of each control, and ``left_out`` the controls of which a reader could set more.
    """
    before = view.values, view.scene
    try:
        return _of_view(view)
    finally:
        view.values, view.scene = before


def _of_view(view: widget.Live) -> dict[str, Any]:
    every = {name: values_of(control, view.values[name]) for name, control in view.controls.items()}
    start = dict(view.values)
    picks = _picks(view)
    axes = every | picks
    if math.prod(map(len, axes.values())) > MOST_STATES:
        axes = dict(every)  # what a click in the picture sets stays as it is
    frames: dict[tuple[Any, ...], dict[str, Any]] = {}
    pool = Pool()
    frames[tuple(start[name] for name in axes)] = frame_of(view, start, pool, view.scene)
    seconds: list[float] = []
    most = MOST_STATES
    while True:
        axes = thinned(axes, start, most)
        for number, values in enumerate(itertools.product(*axes.values())):
            if values in frames:
                continue
            begin = time.process_time()
            frames[values] = frame_of(view, start | dict(zip(axes, values, strict=True)), pool)
            seconds.append(time.process_time() - begin)
            if number == PROBES or max(seconds) > MOST_SECONDS / PROBES:
                most = max(1, min(most, int(MOST_SECONDS / max(1e-6, np.mean(seconds)))))
                if math.prod(map(len, axes.values())) > most:
                    break
        else:
            kept = {key: frames[key] for key in itertools.product(*axes.values())}
            record = _packed(view, start, axes, every, kept, pool)
            size = _size(record)
            if size <= MOST_BYTES or len(kept) <= 1:
                return record
            most = max(1, int(len(kept) * min(0.9, MOST_BYTES / size)))
            continue


def _picks(view: widget.Live) -> dict[str, list[Any]]:
    """Return the values that a click in the picture sets, for each name that is no control."""
    found: dict[str, list[Any]] = {}
    for panel in view.scene.panels():
        for layer in panel.layers.values():
            name = layer.fields.get("pick")
            if name and name not in view.controls:
                values = [view.values[name], *_plain(layer.fields["picks"])]
                found[name] = list(dict.fromkeys([*found.get(name, []), *values]))
    return found


def values_of(control: Choice | Slider, start: Any) -> list[Any]:
    """Return all values that a reader can set a control to, and the first one, in order."""
    if isinstance(control, Choice):
        return list(control.options)
    if control.low == control.high:
        return [control.low]
    if not control.log:
        count = math.floor((control.high - control.low) / control.step + 1e-9) + 1
        found = {control.low + place * control.step for place in range(min(count, 100_000))}
        found |= {control.high}
    else:
        ratio = control.high / control.low
        found = {
            rounded(control, control.low * ratio ** (place / (LOG_PLACES - 1)))
            for place in range(LOG_PLACES)
        }
        found |= {control.low, control.high}
    within = {
        control.check(value, "value") for value in found if control.low <= value <= control.high
    }
    return sorted(within | {start})


def rounded(control: Slider, value: float) -> float:
    """Return a value with three digits in the unit in which the page shows it, as card.js rounds it."""
    factor = next(
        (size for _, size in reversed(ladder_of(control.unit)) if abs(value) >= size * (1 - 1e-9)),
        ladder_of(control.unit)[0][1],
    )
    return float(f"{float(f'{value / factor:.3g}') * factor:.15g}")


def thinned(
    axes: Mapping[str, list[Any]], start: Mapping[str, Any], most: int
) -> dict[str, list[Any]]:
    """Return axes with at most ``most`` states in all: of the longest axis every second value stays, again and again.

    The ends stay, and so does the first value. Words, and axes of two values, stay as they are as long as numbers can
    go.

    Examples
    --------
    >>> thinned({"a": [0, 1, 2, 3, 4], "b": ["x", "y"]}, {"a": 1, "b": "x"}, 8)
    {'a': [0, 1, 2, 4], 'b': ['x', 'y']}
    """
    made = {name: list(values) for name, values in axes.items()}

    def length(name: str) -> int:
        return len(made[name]) if all(isinstance(v, int | float) for v in made[name]) else 0

    while math.prod(map(len, made.values())) > most:
        longest = max(made, key=length)
        if length(longest) <= 3:  # nothing is left to thin: an axis stands still
            # The longest, and of equal ones the last; the first control, of which lessons speak, at the end.
            first, *others = made
            still = [name for name in reversed(others) if len(made[name]) > 1] or [first]
            longest = max(still, key=lambda name: len(made[name]))
            made[longest] = [start[longest]]
            continue
        values = made[longest]
        stays = {values[-1], start[longest]}
        fewer = [value for place, value in enumerate(values) if place % 2 == 0 or value in stays]
        if len(fewer) == len(values):  # four values, of which the second is the first one shown
            fewer = sorted({values[0], *stays})
        made[longest] = fewer
    return made


class Pool:
    """Arrays and other values that frames share, each kept once and named by its number."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self.values: list[str] = []
        self._places: dict[Any, int] = {}

    def array(self, array: np.ndarray) -> int:
        """Return the number of an array of float32."""
        return self._place(array.astype("<f4").tobytes(), self.arrays)

    def value(self, value: Any) -> int:
        """Return the number of a value that JSON can hold."""
        return self._place(json.dumps(_plain(value), separators=(",", ":")), self.values)

    def _place(self, key: Any, kept: list[Any]) -> int:
        if key not in self._places:
            self._places[key] = len(kept)
            kept.append(key)
        return self._places[key]


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it, without types of numpy."""
    return json.loads(json.dumps(value, default=lambda thing: thing.tolist()))


def frame_of(
    view: widget.Live, values: Mapping[str, Any], pool: Pool, scene: Any = None
) -> dict[str, Any]:
    """Return the frame of a view for some values, with arrays and fields as numbers of the pool.

    ``scene`` is that of these values, if it is known.
    """
    view.values = dict(values)
    try:
        view.scene = scene or view._make(**values)
        view._limit()
    except Exception as error:  # as the kernel would answer
        view.scene = widget._scene_of_error(view.scene, error)
    layers = []
    for number, panel in enumerate(view.scene.panels()):
        for name, layer in panel.layers.items():
            fields, arrays = {}, []
            for field, value in layer.fields.items():
                if isinstance(value, np.ndarray):
                    placed = np.rint(PLACES * value) / PLACES if field in ("x", "y") else value
                    arrays.append([field, pool.array(placed)])
                else:
                    fields[field] = value
            layers.append([f"{number}/{name}", layer.kind, number, pool.value(fields), arrays])
    frame = view._frame([], whole=True, moved=True)
    table = view.scene.table
    frame["table"] = "" if table is None else table._repr_html_()
    for same in ("seq", "kept", "whole", "layers", "values"):
        del frame[same]
    return {
        "values": _plain(view.values),
        "layers": layers,
        "rest": {name: pool.value(value) for name, value in frame.items()},
    }


def _packed(
    view: widget.Live,
    start: Mapping[str, Any],
    axes: Mapping[str, list[Any]],
    every: Mapping[str, list[Any]],
    frames: Mapping[tuple[Any, ...], dict[str, Any]],
    pool: Pool,
) -> dict[str, Any]:
    """Return the record of a view, with those arrays and values of the pool that its frames use."""
    used = Pool()
    packed = []
    for frame in frames.values():
        layers = []
        for name, kind, panel, fields, arrays in frame["layers"]:
            held = [
                [field, used._place(pool.arrays[place], used.arrays)] for field, place in arrays
            ]
            layers.append([name, kind, panel, used._place(pool.values[fields], used.values), held])
        rest = {
            name: used._place(pool.values[place], used.values)
            for name, place in frame["rest"].items()
        }
        names = used.value(layers)
        packed.append([used.value(frame["values"]), names, used.value(rest)])
    with common_axes() as shared:
        view._make(**start)
    fewer = {name for name, values in every.items() if len(axes.get(name, ())) < len(values)}
    return {
        "kind": "view",
        "spec": _plain(view.spec),
        "start": _plain(start),
        "axes": _plain(axes),
        "log": [n for n, c in view.controls.items() if isinstance(c, Slider) and c.log],
        "fewer": sorted(fewer),
        "shares_axes": bool(shared),
        "frames": packed,
        "values": [json.loads(value) for value in used.values],
        "sizes": [len(array) // 4 for array in used.arrays],
        "numbers": base64.b64encode(apart(b"".join(used.arrays))).decode(),
    }


def _size(record: Mapping[str, Any]) -> int:
    """Return the bytes of a record as a page has them, compressed."""
    words = json.dumps({**record, "numbers": ""}, separators=(",", ":")).encode()
    return len(gzip.compress(words + base64.b64decode(record["numbers"]), 6))


def apart(numbers: bytes) -> bytes:
    """Return the bytes of numbers of four bytes each, first the first byte of all, then the second, and so on.

    Numbers beside each other often begin alike, so this takes less than half the place when it is compressed.
    """
    return np.frombuffer(numbers, np.uint8).reshape(-1, 4).T.tobytes()


# Forms ------------------------------------------------------------------------------------------


def of_form(form: forms.Form) -> dict[str, Any]:
    """Return what the browser needs to ask a question: the card, and for each option the card with its verdict.

    A question for a number has its key, in its unit, and the card with the verdict on the right answer.
    """
    record = {"kind": "form", "spec": _plain(form.spec), "html": form._html}
    asked = getattr(form._press, "__self__", None)
    if hasattr(asked, "kind"):
        record["asks"] = asked.kind
        if asked.kind == "choice":
            record["answers"] = {letter: _pressed(asked, letter) for letter in asked.options}
        elif asked.kind == "number":
            question = asked.question
            key = question.key(asked.given)
            shown = question.shown(key)
            record["right"] = _pressed(asked, "answer", {"answer": shown})
            record["key"] = key / quantity(question.unit)[1]
            record["tolerance"] = question.tolerance
            record["unit"] = question.unit
            record["shown"] = shown
    elif type(asked).__name__ == "GuessForm":
        record["asks"] = "guess"
    return record


def _pressed(asked: Any, name: str, fields: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a question says to the first answer of a learner who has answered nothing yet."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FABRICLAB_PROGRESS"] = str(Path(folder) / "progress.json")
        fresh = type(asked)(asked.question, asked.kind, asked.given)
        turn = fresh.press(name, fields or {})
    return {"html": turn.html, "said": turn.said}
