"""The shortest ways of a fabric, from the tiers where they allow it, else by search; a test holds both equal."""

from __future__ import annotations

from fabriclab.core import Fabric
from fabriclab.routing._clos import Clos
from fabriclab.routing._tables import Tables
from fabriclab.routing._ways import Ways

__all__ = ["ways"]


def ways(fabric: Fabric) -> Ways:
    """Return the shortest ways of a fabric, from the tiers where they allow it, else by search."""
    # Kept on the fabric itself, like its cached properties, so that both are freed together.
    found: Ways | None = fabric.__dict__.get("_ways")
    if found is None:
        found = Clos.of(fabric) or Tables(fabric)
        fabric.__dict__["_ways"] = found
    return found
