"""Sphinx makes the pages of the site from the sources that `build` has written."""

import latex2mathml.converter

from fabriclab import __version__, look

project = "fabriclab"
author = "The fabriclab authors"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["**/.ipynb_checkpoints"]
default_role = "py:obj"
html_favicon = "_static/icon.svg"
templates_path: list[str] = []

# Lessons have been run before, and hold no widgets: nothing is fetched from elsewhere.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
myst_heading_anchors = 4
myst_ref_domains = ["std"]  # a link to #incast is one to a term, and not to a function of that name
# Anchors in HTML, which glossary and errata have, are unknown to MyST; `checks` follows every link in the pages.
suppress_warnings = ["myst.xref_missing", "myst.header", "config.cache", "ref.citation"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = "fabriclab"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": ""})]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False  # the line would name nobody
html_permalinks = True
_FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
html_theme_options = {
    theme: {
        "font-stack": _FONTS,
        "font-stack--monospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
        "color-brand-primary": getattr(look.TOKENS["accent"], hue),
        "color-brand-content": getattr(look.TOKENS["accent"], hue),
    }
    for theme, hue in (("light_css_variables", "light"), ("dark_css_variables", "dark"))
}
html_math_renderer = "mathml"


def _visit_math(self, node):
    """Write a formula as MathML, which browsers show without a program."""
    from docutils import nodes

    display = "inline" if isinstance(node, nodes.math) else "block"
    self.body.append(latex2mathml.converter.convert(node.astext(), display=display))
    raise nodes.SkipNode


def _escape_bars(app, what, name, obj, options, lines):
    """Keep |x|, the size of x, from being read as the name of a text to insert."""
    lines[:] = [line.replace("|", "\\|") if "``" not in line else line for line in lines]


def setup(app):
    """Register how formulas are written."""
    app.connect("autodoc-process-docstring", _escape_bars)
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_visit_math, None), block_renderers=(_visit_math, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
