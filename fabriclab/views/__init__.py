"""Views: pictures and tables of every value, each with its finding, alternative text and table twin.

matplotlib is imported here and nowhere else. No window and no global figure is used: a picture belongs to the
variable that holds it and is freed with it.
"""

from collections.abc import Mapping
from typing import Any

from fabriclab.catalog import Comparison
from fabriclab.core import Fabric, Result, Timeline
from fabriclab.views.fabrics import fabric
from fabriclab.views.page import ROLES, Axes, Picture, Table, table, times
from fabriclab.views.rulers import calibration, comparison, ruler
from fabriclab.views.sweeps import sweep
from fabriclab.views.timelines import timeline

__all__ = [
    "ROLES",
    "Picture",
    "Table",
    "calibration",
    "comparison",
    "draw",
    "fabric",
    "ruler",
    "sweep",
    "table",
    "timeline",
    "times",
]


def draw(value: Any, ax: Axes | None = None, **options: Any) -> Picture | Axes:
    """Draw a value in the view of its type, as a picture that a notebook shows, or on axes, which are returned.

    Parameters
    ----------
    value : Fabric, Result, several Results, Timeline (with ``flows=...``), a Comparison, or a simulated collective
        What to draw.
    ax : Axes, optional
        Where to draw, so that several views can share a figure.
    **options
        Of `fabric`, `sweep` or `timeline`, such as ``finding``, the sentence above the picture.

    Raises
    ------
    TypeError
        If no view draws this type.
    """
    many = (
        list(value.values())
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list | tuple)
        else [value]
    )
    if isinstance(value, Fabric):
        picture = fabric(value, ax=ax, **options)
    elif isinstance(value, Timeline):
        picture = timeline(value, ax=ax, **options)
    elif isinstance(value, Comparison):
        picture = comparison(value, ax=ax, **options)
    elif many and all(
        isinstance(r, Result) for v in many for r in (v if isinstance(v, list | tuple) else [v])
    ):
        picture = sweep(value, ax=ax, **options)
    elif isinstance(getattr(value, "timeline", None), Timeline):
        picture = timeline(value.timeline, value.flows, value.fabric, ax=ax, **options)
    else:
        msg = "value must be a Fabric, Result, list of Results, Timeline, Comparison or simulation, got "
        raise TypeError(
            f"{msg}{type(value).__name__}; views.table shows rows, and a Schedule has its own draw()"
        )
    return picture if ax is None else picture.axes
