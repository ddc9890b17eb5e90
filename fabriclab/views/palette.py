"""Colours, markers and line styles: one place, one meaning each.

The colours stay apart for colour-blind readers (M. Okabe, K. Ito, Color Universal Design, 2002, revised 2008); marker
and line say the same. `INK` stands for the text colour of the page: an SVG writes it as ``currentColor``, because no
single grey reaches a contrast of 4.5 on both white and the dark theme (the best grey has 4.34).
"""

from typing import Any, NamedTuple

INK = "#1a1a1b"  # a value that nothing else uses, so that an SVG can hand it to the page
GREY = "#6b6b6b"  # contrast 5.3 on white and 3.5 on #111111; for lines, never for text
# Further dots of one role keep its colour and change their shape. Further lines change dash and colour, to one that no
# role has, since five dashes of one colour cannot be told apart where lines cross; dots belong to the bound.
COLOURS = ("#A04A20", "#9A3FF0", "#C86FA4", "#758C4D")


class Role(NamedTuple):
    """How one kind of statement looks: its colour, and dots with their marker or else a line."""

    colour: str
    marker: str = ""
    filled: bool = True


ROLES = {
    "predicted": Role("#0072B2"),
    "measured": Role("#E69F00", marker="o"),
    "published": Role(INK, marker="o", filled=False),
    "bound": Role(GREY),
    "guess": Role("#009E73"),
    "failed": Role("#D55E00", marker="X"),
}
HERE = {"measured": "measured here", "stored": "measured elsewhere"}
NODE = {True: "#5c6878", False: "#766a5a"}  # passes traffic on, or not; white text on both has 5.6 and 5.3
TINT = "#56B4E9"  # NVLink domain

# Sizes in points: a figure is 7 inches = 504 pt and is shown 700 px wide, so 8.5 pt are 11.8 px.
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"], "font.size": 8.5,
    "text.color": INK, "figure.facecolor": "none", "hatch.linewidth": 0.6, "svg.fonttype": "none",
    "svg.hashsalt": "fabriclab",
}  # fmt: skip
