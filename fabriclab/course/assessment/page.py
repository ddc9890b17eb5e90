"""Write what a notebook shows as a page to print, which loads nothing from elsewhere."""

import html
from pathlib import Path

from fabriclab.core import write_atomic
from fabriclab.course.shown import Shown
from fabriclab.look import TOKENS, variables

__all__ = ["write_page"]

_STYLE = """
:root { color-scheme: light dark; %s }
@media (prefers-color-scheme: dark) { :root { %s } }
@media print { :root { color-scheme: light; %s } body { margin: 0 } }
body { font: 1rem/1.5 sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--fl-ink); background: var(--fl-paper) }
a { color: var(--fl-accent) }
table { border-collapse: collapse; margin: .8rem 0 1.6rem; font-variant-numeric: tabular-nums }
th, td { border: 1px solid var(--fl-line); padding: .25rem .6rem; vertical-align: top }
tr { break-inside: avoid }
"""


def write_page(path: Path, shown: Shown, title: str) -> Path:
    """Write sentences and tables as an HTML page, and return its path; pictures and cards are left out."""
    light = variables("light", TOKENS)
    style = _STYLE % (light, variables("dark", TOKENS), light)
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{shown.html()}</main></body></html>\n"
    )
    write_atomic(path, page.encode())
    return path
