"""Short tracebacks in notebooks: for a refused argument they show the learner's own line and the error message only."""

import dis
import sys
from types import TracebackType
from typing import Any

from fabriclab.errors import FabricError
from fabriclab.texts import switched_on

_KINDS = (ValueError, TypeError, FabricError)
_RAISE = dis.opmap["RAISE_VARARGS"]


def install() -> None:
    """Register the short tracebacks with the running IPython, unless there is none or another handler is registered."""
    shell = sys.modules["IPython"].get_ipython()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc(_KINDS, _show)


def refused(tb: TracebackType | None) -> bool:
    """Return whether a traceback ends at a ``raise`` of this package; an error without one is a bug, not a refusal."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and _ours(tb) and tb.tb_frame.f_code.co_code[tb.tb_lasti] == _RAISE


def outside(tb: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package."""
    if tb is None:
        return None
    rest = outside(tb.tb_next)
    if _ours(tb):
        return rest
    return TracebackType(rest, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)


def _ours(tb: TracebackType) -> bool:
    """Return whether a traceback begins in a frame of this package."""
    return str(tb.tb_frame.f_globals.get("__name__")).partition(".")[0] == __package__


def _show(
    shell: Any,
    kind: type[BaseException],
    error: Any,
    tb: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """Show an error as IPython does, but with a short traceback if this package refused an argument."""
    whole = switched_on("FABRICLAB_TRACEBACK")
    if whole or not refused(tb):
        shell.showtraceback((kind, error, tb), tb_offset=tb_offset)
        return
    cause = error.__cause__
    context = error.__context__
    hidden = error.__suppress_context__
    error.__cause__ = None
    error.__context__ = None
    try:
        shell.showtraceback((kind, error, outside(tb)), tb_offset=tb_offset)
    finally:  # %tb and %debug see the whole traceback
        error.__cause__ = cause
        error.__context__ = context
        error.__suppress_context__ = hidden  # last, because setting the cause hides the context
        sys.last_traceback = tb
