"""Questions about a cluster as it is: what a failed part costs.

Examples
--------
>>> import fabriclab as fl
>>> fl.what_if(fl.system(gpu="H100", servers=4), "leaf 3").after.time > 0
True
"""

from fabriclab.doctor.failures import WhatIf, what_if

__all__ = ["WhatIf", "what_if"]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
