"""A form: a card that a learner fills in, such as a question or a guess; Python answers each press with a card."""

import html
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fabriclab.texts import switched_on
from fabriclab.views.live.widget import LiveModel, fixed_words

__all__ = ["Form", "Turn"]


class Turn(NamedTuple):
    """What a form shows after something was pressed or typed in it."""

    html: str | None = None  # the card; None keeps the one before
    said: str = ""  # for a screen reader, and in text mode below the question
    problem: str = ""  # why what was typed cannot be used
    read: tuple[str, float] | None = None  # name of the field that was typed in, and its number


class Form(LiveModel):
    """A card with buttons and fields, which answers what a learner presses and types in it.

    Parameters
    ----------
    title : str
        Title that a screen reader reads aloud on entering the card.
    first : str
        The card as HTML, see `course.cards`.
    words : str
        What the text mode shows instead.
    press : callable
        Function from the name of a button, and all fields by name, to a Turn.
    read : callable, optional
        Function from the name of a field that was typed in, and all fields by name, to a Turn.
    """

    def __init__(
        self,
        title: str,
        first: str,
        words: str,
        press: Callable[[str, Mapping[str, str]], Turn],
        read: Callable[[str, Mapping[str, str]], Turn] | None = None,
    ) -> None:
        super().__init__()
        self.title = title
        self.words = words
        self.turn = Turn(first)
        self._press = press
        self._read = read
        self._html = first

    def _fill(self) -> None:
        """Set the state that the browser needs at first, and listen to its requests."""
        self.spec = {"title": self.title, "card": "form", "words": fixed_words()}
        if switched_on("FABRICLAB_TEXT"):
            self.spec = {**self.spec, "as_text": True}
        self.asked = {"seq": 0}
        self._show()
        self.observe(self._answer, names="asked")

    def _answer(self, change: Mapping[str, Any]) -> None:
        """Answer a request of the browser; whatever happens, a frame is sent back."""
        request = change["new"]
        fields = {str(name): str(value) for name, value in request.get("fields", {}).items()}
        try:
            if "press" in request:
                self.turn = self._press(str(request["press"]), fields)
            elif "read" in request and self._read is not None:
                self.turn = self._read(str(request["read"]), fields)
            else:
                self.turn = Turn()
        except Exception as error:  # a refusal, or anything that the learner's own code raises
            kind = "" if hasattr(error, "_render_traceback_") else f"{type(error).__name__}: "
            self.turn = Turn(problem=f"{kind}{error}")
        if self.turn.html is not None:
            self._html = self.turn.html
        self._show()

    def _show(self) -> None:
        """Send the card and what is said about the last turn to the browser."""
        frame: dict[str, Any] = {
            "seq": self.asked.get("seq", 0),
            "html": self._html,
            "said": self.turn.said,
            "problem": self.turn.problem,
        }
        if self.turn.read is not None:
            name, number = self.turn.read
            frame["read"] = {"name": name, "number": number}
        if self.spec.get("as_text"):
            frame["text"] = str(self)
        self.frame = frame

    @property
    def widget(self) -> "Form":
        """The form itself, after setting all that the browser needs at first."""
        self._prepare()
        return self

    def __repr__(self) -> str:
        """Show the title."""
        return f"<Form {self.title}>"

    def __str__(self) -> str:
        """Return this form as the text mode shows it: the question, and what was said about the last answer."""
        return "\n".join(filter(None, [self.words, self.turn.problem or self.turn.said]))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget with its words for pages without a kernel; in text mode return only words."""
        words = {"text/plain": str(self), "text/html": f"<pre>{html.escape(str(self))}</pre>"}
        if switched_on("FABRICLAB_TEXT"):
            return words
        data, meta = self.page_bundle(**kwargs)
        return {**data, **words}, meta
