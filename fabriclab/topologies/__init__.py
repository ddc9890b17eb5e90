"""Topologies: families of fabrics, each one file that registers itself.

Examples
--------
>>> from fabriclab import topologies
>>> topologies.build("leaf_spine", hosts=64, radix=16).summary()
{'host': 64, 'leaf': 8, 'spine': 4, 'cables': 128, 'ranks': 64, 'servers': 64}
"""

import inspect
from typing import Any

import numpy as np

from fabriclab import registry
from fabriclab.core import Fabric
from fabriclab.topologies._graphs import compose, from_networkx
from fabriclab.topologies._switches import compare_tiers

__all__ = ["build", "compare_tiers", "compose", "from_networkx", "names"]


def names() -> tuple[str, ...]:
    """Return the names of all families."""
    return registry.names("topology")


def build(family: str, /, **arguments: Any) -> Fabric:
    """Return a fabric of one family.

    Parameters
    ----------
    family : str
        One of `names`.
    **arguments
        Arguments of the family, by name: sizes as whole numbers, rates, times and lengths as SI numbers
        or strings with a unit. ``fabriclab.registry.get("topology", family)`` has their documentation.

    Returns
    -------
    Fabric
        Its text form is the call that built it.

    Raises
    ------
    ValueError
        If there is no such family, or a value is outside what it can build.
    TypeError
        If an argument is missing or unknown.
    TooLarge
        If the fabric needs more memory than there is.
    """
    function = registry.get("topology", family)
    signature = inspect.signature(function)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise TypeError(f"{family}: {error}; its arguments are {', '.join(signature.parameters)}") from None
    asked = {k: v.item() if isinstance(v, (np.generic, np.ndarray)) and not v.ndim else v for k, v in arguments.items()}
    fabric: Fabric = function(**asked)
    call = ", ".join([repr(family), *(f"{k}={v!r}" for k, v in asked.items())])
    return fabric.shown_as(f"topologies.build({call})", family=family, asked=asked)
