"""What links, memory and emerging parts can do, each with its source and its limits.

Examples
--------
>>> from fabriclab import physics
>>> physics.memory.moved(1e9, 0.01)
(10000000.0, 1000000000.0)
"""

import importlib
from types import ModuleType

__all__ = ["memory", "photonic", "quantum", "switching"]


def __getattr__(name: str) -> ModuleType:
    """Import a module on first use."""
    if name not in __all__:
        raise AttributeError(f"fabriclab.physics has no {name!r}; its modules are {', '.join(__all__)}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """Return the modules, for completion."""
    return sorted(__all__)
