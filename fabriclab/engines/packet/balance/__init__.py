"""Load balancers: one file each, which registers itself.

A balancer chooses among the rows ``first..end - 1`` of a flow for each packet. At the source all rows are open; a
switch (if the balancer works there) chooses among those that share the links so far.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Balance"]


class Balance(NamedTuple):
    """A load balancer, ready to run.

    Parameters
    ----------
    choose : callable
        A kernel ``choose(now, last, row, first, end, hop, rows, entries, links, queues, whole, parameters)`` that
        returns a row within ``first..end - 1``. ``last`` is when the connection sent before [ps], ``row`` the row that
        it took then, and ``hop`` how many links the packet has crossed.
    parameters : sequence of int
        What it reads as its last argument.
    splits : bool
        Whether each row is a connection of its own instead.
    in_switch : bool
        Whether switches choose as well.
    """

    choose: Callable[..., int]
    parameters: Sequence[int] = ()
    splits: bool = False
    in_switch: bool = False
