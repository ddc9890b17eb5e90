"""What all pages of results share: how a page is written, and the names of its parts. All words are escaped."""

import hashlib
import html
from collections.abc import Sequence
from pathlib import Path
from string import Template
from urllib.parse import quote

from fabriclab.core import write_atomic
from fabriclab.course.questions.files import heading
from fabriclab.look import TOKENS, variables

# Backgrounds of cells by their share of the points, each with its colour in the light and in the dark theme. The hue
# goes from orange to blue, which also people see who cannot tell red from green; the text says the points.
SHADES = {
    "none": ("#f6b58a", "#7d4212"),
    "some": ("#fbe3c8", "#4a3418"),
    "most": ("#d9e9f8", "#1d3a57"),
    "full": ("#94c4f0", "#1a5f9e"),
}


def title(id: str) -> str:
    """Return the heading of an exercise or a question."""
    return heading(id)


def page_of(student: str) -> str:
    """Return the name of a student's page; a name that is too long for a file stands as its hash."""
    encoded = student.encode()
    if len(encoded) < 200:
        return f"{student}.html"
    return f"{hashlib.sha256(encoded).hexdigest()}.html"


def tag(name: str, words: str, about: str = "") -> str:
    """Return words as an HTML element with attributes, which begin with a space."""
    return f"<{name}{about}>{html.escape(words)}</{name}>"


def link(words: str, to: str) -> str:
    """Return words as a link to a file."""
    return tag("a", words, f' href="{quote(to)}"')


def write(path: Path, title: str, body: Sequence[str]) -> None:
    """Write a page."""
    page = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    colours = {theme: variables(theme, TOKENS) + _shades(theme) for theme in ("light", "dark")}
    whole = page.substitute(colours, title=html.escape(title), body="\n".join(body))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, whole.encode(errors="backslashreplace"))


def _shades(theme: str) -> str:
    """Return the shades of a theme as custom properties of CSS."""
    pairs = ((name, hues[theme == "dark"]) for name, hues in SHADES.items())
    return "".join(f"--{name}:{colour};" for name, colour in pairs)
