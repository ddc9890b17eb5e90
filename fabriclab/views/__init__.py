"""Views: pictures and tables of the library's values, each with a finding, alternative text and a table twin.

Only this package imports matplotlib. It opens no window and uses no global figure: a picture belongs to the variable
that refers to it and is freed together with that variable.
"""

from collections.abc import Mapping
from typing import Any

from fabriclab.catalog import Comparison
from fabriclab.core import Fabric, Result, Timeline
from fabriclab.views.alarms import running_sums
from fabriclab.views.bars import bars
from fabriclab.views.designs import design
from fabriclab.views.fabrics import fabric
from fabriclab.views.layout import link_in_words
from fabriclab.views.multiples import multiples
from fabriclab.views.page import ROLES, Axes, Picture, Table, table, times
from fabriclab.views.rulers import calibration, comparison, ruler
from fabriclab.views.sweeps import sweep
from fabriclab.views.tiers import tiers
from fabriclab.views.timelines import timeline
from fabriclab.views.trees import double_tree
from fabriclab.views.uplinks import busiest_leaf
from fabriclab.views.zoom import zoom

__all__ = [
    "ROLES",
    "Picture",
    "Table",
    "bars",
    "busiest_leaf",
    "calibration",
    "comparison",
    "design",
    "double_tree",
    "draw",
    "fabric",
    "link_in_words",
    "multiples",
    "ruler",
    "running_sums",
    "sweep",
    "table",
    "tiers",
    "timeline",
    "times",
    "zoom",
]


def draw(value: Any, ax: Axes | None = None, **options: Any) -> Picture | Axes:
    """Draw a value with the view for its type, as a picture for a notebook or on axes that you pass in.

    Returns a `Picture`, which a notebook displays, or with ``ax`` the axes that were drawn on.

    Parameters
    ----------
    value : Fabric, Result, several Results, Timeline (with ``flows=...``), a Comparison, or a simulated collective
        What to draw.
    ax : Axes, optional
        Axes to draw on, so that several views can share a figure.
    **options
        Options of `fabric`, `sweep`, `timeline` or `comparison`, such as ``finding``, the sentence above the picture.

    Raises
    ------
    TypeError
        If no view draws this type.
    """
    if isinstance(value, Fabric):
        picture = fabric(value, ax=ax, **options)
    elif isinstance(value, Timeline):
        picture = timeline(value, ax=ax, **options)
    elif isinstance(value, Comparison):
        picture = comparison(value, ax=ax, **options)
    elif _are_results(value):
        picture = sweep(value, ax=ax, **options)
    elif isinstance(getattr(value, "timeline", None), Timeline):
        picture = timeline(value.timeline, value.flows, value.fabric, ax=ax, **options)
    else:
        raise TypeError(
            "value must be a Fabric, Result, list of Results, Timeline, Comparison or simulation,"
            f" got {type(value).__name__}; views.table shows rows, and a Schedule has its own draw()"
        )
    return picture if ax is None else picture.axes


def _are_results(value: Any) -> bool:
    """Return whether a value is a Result, or a mapping or sequence of nothing but Results and lists of Results."""
    if isinstance(value, Mapping):
        items = list(value.values())
    elif isinstance(value, list | tuple):
        items = list(value)
    else:
        items = [value]
    results: list[Any] = []
    for item in items:
        results += item if isinstance(item, list | tuple) else [item]
    return bool(items) and all(isinstance(result, Result) for result in results)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
