"""Running sums of samples and the limit that raises an alarm: one line for each link that is watched."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.texts import text
from fabriclab.views.axes import even_ticks
from fabriclab.views.page import Picture, Table, spread
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    Layer,
    Scene,
    heading,
    lines,
    log_axis,
    printed,
    texts,
    tick_layers,
)

__all__ = ["running_sums"]

_LEFT, _TOP, _BOTTOM = 48.0, 44.0, 250.0  # edges of the drawing area [px]
_WIDTH = 880.0  # of the picture, with the names behind the ends of the lines [px]
_LETTER = 7.0  # width of a letter of a name [px]
_HEIGHT = 296.0  # of the picture [px]
_ROOM = 1.12  # the axis ends so far above the highest value
_MOST = 4  # sums in a picture: so many names stand apart
_ASIDE, _ROW = 10.0, 16.0  # from the end of a line to its name; between two names [px]
_NEAR_LIMIT = 12.0  # from the line of the limit to its words [px]
_ALARM, _LINE = 5.0, 2.0  # radius of the dot of an alarm, and width of a line [px]
_DOTTED = 2.0  # dash of a bound, as in the pictures of sweeps


def running_sums(
    sums: Mapping[str, ArrayLike], limit: float, *, finding: str | None = None
) -> Picture:
    """Draw how the sum of each link grows with its samples, and where it passes the limit of the alarm.

    A line in ink ends with a dot at the first sample whose sum is above the limit; a grey one never gets there. So two
    links side by side show what the test sees: chance pulls the sum of a healthy link up and down near 0, and a loss
    adds to the other with each sample.

    Parameters
    ----------
    sums : mapping of str to array_like, each (T,)
        Name of each link, such as "sick NIC", and its sum after each sample, as `fabriclab.operations.Cusum.sums`
        returns it. At most four; >= 0 [standard deviations]
    limit : float
        Sum above which there is an alarm. > 0 [standard deviations]
    finding : str, optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, a sum is negative or not finite, or the limit is not above 0.

    Examples
    --------
    >>> from fabriclab import views
    >>> picture = views.running_sums({"sick NIC": [0.8, 1.9], "other NIC": [0, 0.4]}, limit=1.5)
    >>> picture.finding
    'The sum of the sick NIC passes 1.5 with sample 2. The sum of the other NIC gets to 0.4.'
    """
    return printed(running_sums_scene(sums, limit), finding=finding)


def running_sums_scene(sums: Mapping[str, ArrayLike], limit: float) -> Scene:
    """Return the picture of running sums; the table has a row for each link."""
    if not units.is_number(limit) or not 0 < limit < np.inf:
        raise ValueError(
            f"limit must be above 0, got {limit!r:.60}; it is the sum that raises the alarm"
        )
    if not 1 <= len(sums) <= _MOST:
        raise ValueError(f"a picture has 1..{_MOST} sums, got {len(sums)}; draw fewer links")
    drawn = {name: _checked(name, values) for name, values in sums.items()}
    alarm = {name: _first_above(values, limit) for name, values in drawn.items()}
    shown = {name: values[: alarm[name] or values.size] for name, values in drawn.items()}

    words = [
        text("sums.alarm", name=name, n=alarm[name]) if alarm[name] else name for name in shown
    ]
    longest = max(values.size for values in drawn.values())
    right = _right_end([values.size / longest for values in shown.values()], words)
    highest = _ROOM * max(limit, *(float(values.max()) for values in shown.values()))
    to_x = log_axis(0.0, float(longest), _LEFT, right)
    to_y = log_axis(0.0, highest, _BOTTOM, _TOP)
    paths = []
    for values in shown.values():
        after = np.arange(values.size + 1)  # the sum is 0 before the first sample
        paths.append(np.stack([to_x(after), to_y(np.concatenate([[0.0], values]))], axis=1))
    ends = np.array([path[-1] for path in paths])
    raised = np.array([alarm[name] > 0 for name in shown])
    level = float(to_y(limit))
    # Where no name of an alarm gets to the right end, the words of the limit stand there.
    is_early = bool(np.all(ends[raised, 0] < (_LEFT + right) / 2))
    layers: dict[str, Layer] = {
        **tick_layers(
            np.array(even_ticks((0.0, float(longest)))), to_x, "{:g}".format, (_TOP, _BOTTOM), True
        ),
        **tick_layers(
            np.array(even_ticks((0.0, highest))), to_y, "{:g}".format, (_LEFT, right), False
        ),
        "quantity": heading(16.0, text("sums.quantity"), EDGE),
        "across": texts(
            right, _BOTTOM + 33, [text("sums.samples")], align=2.0, colour=COLOUR["soft"]
        ),
        "limit": lines(
            [np.array([[_LEFT, level], [right, level]])],
            width=1.2,
            dash=_DOTTED,
            colour=COLOUR["edge"],
        ),
        "limit words": texts(
            right - 8 if is_early else _LEFT + 8,
            level - _NEAR_LIMIT,
            [text("sums.limit", limit=f"{limit:.3g}")],
            align=2.0 if is_early else 0.0,
            colour=COLOUR["soft"],
            halo=1.0,
        ),
        "sums": lines(
            paths, width=_LINE, colour=np.where(raised, COLOUR["ink"], COLOUR["edge"]), names=words
        ),
        "alarms": _dots(ends[raised]),
        "names": texts(
            ends[:, 0] + _ASIDE,
            spread(ends[:, 1], _ROW, _TOP, _BOTTOM),
            words,
            bold=raised.astype(float),
            halo=1.0,
        ),
    }
    said = _told(shown, alarm, limit)
    table = Table(
        {
            "link": list(shown),
            "highest sum": np.array([float(values.max()) for values in shown.values()]),
            "alarm with sample": [str(alarm[name] or "none") for name in shown],
        }
    )
    return Scene(said, table, layers, _HEIGHT, said, width=_WIDTH)


def _right_end(shares: list[float], words: list[str]) -> float:
    """Return where the axis ends [px], so that each line, a share of it long, has room for its name."""
    ends = [_WIDTH - EDGE]
    for share, name in zip(shares, words, strict=True):
        room = _WIDTH - EDGE - _ASIDE - _LETTER * len(name) - _LEFT  # for the line [px]
        ends.append(_LEFT + room / share)
    return max(min(ends), _WIDTH / 2)


def _checked(name: str, values: ArrayLike) -> Floats:
    """Return the sums of a link as an array (T,), or refuse them by name."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not found.size or not np.all((found >= 0) & np.isfinite(found)):
        raise ValueError(
            f"the sums of {name!r} must be a list of finite numbers >= 0, one for each sample, "
            f"got an array of shape {found.shape}; Cusum.sums returns such a list for the samples of one link"
        )
    return found


def _first_above(values: Floats, limit: float) -> int:
    """Return the number of the first sample whose sum is above the limit, from 1; 0 if there is none."""
    above = np.flatnonzero(values > limit)
    return int(above[0]) + 1 if above.size else 0


def _dots(ends: Floats) -> Layer:
    """Return a dot in ink at each alarm."""
    return Layer(
        "dots",
        {
            "x": ends[:, 0],
            "y": ends[:, 1],
            "size": np.full(len(ends), _ALARM),
            "colour": np.full(len(ends), COLOUR["ink"]),
            "shape": np.zeros(len(ends)),
        },
    )


def _told(shown: Mapping[str, Floats], alarm: Mapping[str, int], limit: float) -> str:
    """Return the finding: who passes the limit and when, and how far the others get."""
    clauses = []
    for name in sorted(shown, key=lambda name: (not alarm[name], alarm[name])):
        if alarm[name]:
            clauses.append(text("sums.passes", name=name, limit=f"{limit:.3g}", n=alarm[name]))
        else:
            clauses.append(text("sums.stays", name=name, most=f"{shown[name].max():.2g}"))
    return " ".join(clauses)
