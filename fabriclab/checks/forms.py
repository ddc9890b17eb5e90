"""The same questions by hand: a ruler with three sliders for a prediction, a button for each choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fabriclab.checks.shown import Shown, refuse_if
from fabriclab.texts import text

if TYPE_CHECKING:
    from fabriclab.views.live import Live, Scene


def prediction(id: str, unit: str, ends: tuple[float, float], store: Callable[..., Shown], opens: str | None) -> Live:
    """Return a form for a prediction: low, best and high on a logarithmic ruler, and a button for "no idea".

    ``store`` takes value, low, high and no_idea, and says what it has stored.
    """
    from fabriclab.views.live import Live, Slider
    from fabriclab.views.live.runs import range_scene

    middle = float(f"{(ends[0] * ends[1]) ** 0.5:.1g}")
    first = {"low": middle / 10, "value": middle, "high": middle * 10}
    names = {name: min(max(value, ends[0]), ends[1]) for name, value in first.items()}
    controls = {name: Slider(*ends, label=text(f"form.{name}"), unit=unit, log=True) for name in names}

    def scene(low: float, value: float, high: float) -> Scene:
        said = text("form.said", low=f"{low:g}", best=f"{value:g}", high=f"{high:g}", unit=unit)
        fits = low <= value <= high
        said += "" if fits else "\n" + text("form.order")
        return replace(range_scene(ends, (low, value, high), unit, said), wrong=not fits)

    def told(shown: Shown, view: Live) -> Scene:
        return replace(scene(**view.values), said="\n".join(shown.lines), wrong=False)

    def commit(view: Live) -> Scene:
        # What the form begins with is nobody's guess.
        refuse_if(view.values == names and not view.moved, "form.move")
        return told(store(**view.values), view)

    buttons = {text("form.commit"): commit}
    buttons[text("form.no_idea")] = lambda view: told(store(value=None, no_idea=True), view)
    call = f"fl.predict({id!r}, unit={unit!r}" + (f", opens={opens!r}" if opens else "")
    return Live(call, scene, controls, names, text("form.title", id=id), buttons=buttons)


def choice(call: str, asked: Shown, options: Mapping[str, str], answer: Callable[[str], Shown]) -> Live:
    """Return a form with a button for each option; ``answer`` takes the letter."""
    from fabriclab.views.live import Live, Scene

    def press(letter: str) -> Callable[[Live], Scene]:
        def pressed(view: Live) -> Scene:
            shown = answer(letter)
            more = [line for line in shown.after if line and line not in asked.after]
            above = "\n".join([*asked.lines, f"{letter}: {options[letter]}"])
            wrong, verdict = shown.state != "good", above.count("\n") + 1
            return Scene("\n".join([above, *more]), wrong=wrong, verdict=verdict)

        return pressed

    buttons = {f"{letter}: {option}": press(letter) for letter, option in options.items()}
    return Live(call.removesuffix(")"), lambda: Scene("\n".join(asked.lines)), {}, {}, asked.lines[0], buttons=buttons)
