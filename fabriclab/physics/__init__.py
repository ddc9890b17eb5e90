"""What links, memory and emerging parts can do, each with its source and its limits.

Examples
--------
>>> from fabriclab import physics
>>> physics.media.choose("2 m", "800 Gb/s").medium
'copper'
"""

import importlib
from types import ModuleType

from fabriclab.physics._facts import held

__all__ = [
    "coding", "electrical", "held", "media", "memory", "optical", "photonic", "quantum", "switching", "wireless",
]  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    """Import a module on first use."""
    if name not in __all__:
        raise AttributeError(f"fabriclab.physics has no {name!r}; its modules are {', '.join(__all__)}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """Return the modules, for completion."""
    return sorted(__all__)
