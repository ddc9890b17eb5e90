"""One registry per kind of variant, such as topologies; a file that registers itself is known everywhere.

`names` and `get` import the files of the kind's folder when they are first used, so `import fabriclab` loads
none of them.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fabriclab import spelling, units

__all__ = [
    "FOLDERS",
    "add_kind",
    "find",
    "forget",
    "get",
    "info",
    "known",
    "load",
    "names",
    "register",
]

_Variant = TypeVar("_Variant", bound=Callable[..., Any])

FOLDERS = {
    "topology": "fabriclab.topologies",
    "collective": "fabriclab.collectives",
    "definition": "fabriclab.collectives",
    "routing": "fabriclab.routing",
    "engine": "fabriclab.engines",
    "workload": "fabriclab.workload",
    "control": "fabriclab.engines.packet.control",
    "balance": "fabriclab.engines.packet.balance",
    "transport": "fabriclab.engines.packet.transports",
    "scenario": "fabriclab.scenarios",
    "suspect": "fabriclab.diagnosis.suspects",
}
_found: dict[str, dict[str, Callable[..., Any]]] = {}
_about: dict[tuple[str, str], dict[str, Any]] = {}
_listed: set[str] = set()


def add_kind(kind: str, folder: str) -> None:
    """Add a kind whose folder is on a higher floor of the package; that folder calls this when it is imported.

    Parameters
    ----------
    kind : str
        Name of the kind.
    folder : str
        The package whose files register the variants, such as ``"fabriclab.course.judges"``.

    Raises
    ------
    ValueError
        If the kind already has another folder.
    """
    if FOLDERS.setdefault(kind, folder) != folder:
        raise ValueError(
            f"kind {kind!r} has the folder {FOLDERS[kind]} already; choose another name"
        )


def register(kind: str, name: str, **about: Any) -> Callable[[_Variant], _Variant]:
    """Return a decorator that registers a function as variant ``name`` of ``kind``.

    Parameters
    ----------
    kind : str
        A key of `FOLDERS`.
    name : str
        The name by which users ask for the variant.
    **about
        Facts that laws and lessons need, such as ``closed_form=...``; `info` returns them.

    Raises
    ------
    ValueError
        If the kind is unknown or another function already has the name.
    """
    kind = units.choice(kind, "kind", FOLDERS)

    def keep(function: _Variant) -> _Variant:
        table = _found.setdefault(kind, {})
        held = table.get(name)
        if held is not None and (held.__module__, held.__qualname__) != (
            function.__module__,
            function.__qualname__,
        ):
            raise ValueError(
                f"{kind} {name!r} is registered by {held.__module__} already; choose another name"
            )
        table[name] = function
        _about[kind, name] = about
        return function

    return keep


def forget(kind: str, names: Iterable[str]) -> None:
    """Remove variants whose file is to be read again, or turned out to be broken; unknown names are ignored."""
    for name in names:
        _found.get(kind, {}).pop(name, None)
        _about.pop((kind, name), None)


def _list_folder(kind: str) -> dict[str, Callable[..., Any]]:
    """Return all variants of a kind, after importing every file of its folder once."""
    kind = units.choice(kind, "kind", FOLDERS)
    if kind not in _listed:
        load(FOLDERS[kind])
        _listed.add(kind)
    return _found.setdefault(kind, {})


def load(name: str) -> None:
    """Import a package with every file in it, or a single module, so that its variants are known.

    `get` and `info` then answer for these variants without the other files of the kind's folder.
    """
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
        importlib.import_module(module.name)


def names(kind: str) -> tuple[str, ...]:
    """Return the sorted names of all variants of ``kind``."""
    return tuple(sorted(_list_folder(kind)))


def known(kind: str) -> tuple[str, ...]:
    """Return the sorted names of the variants of ``kind`` that have been registered so far; nothing is imported."""
    return tuple(sorted(_found.get(kind, ())))


def find(kind: str, name: str) -> str:
    """Return the name under which a variant is registered, however it is spelled.

    Capitals, dashes and American endings make no difference: "Rail-Optimized" is ``"rail_optimised"``.

    Raises
    ------
    ValueError
        If there is no such variant; the error lists all names.
    """
    table = _found.get(kind, {})
    if isinstance(name, str) and name in table:
        return name
    table = _list_folder(kind)
    registered = spelling.find(name, table)
    if registered is None:
        listed = ", ".join(sorted(table))
        question = spelling.near(name, table)
        raise ValueError(f"unknown {kind} {name!r:.80}; choose one of {listed}{question}")
    return registered


def get(kind: str, name: str) -> Callable[..., Any]:
    """Return the function of variant ``name``, in any spelling; the error for an unknown name lists all names."""
    registered = find(kind, name)
    return _found[kind][registered]


def info(kind: str, name: str) -> dict[str, Any]:
    """Return the facts with which variant ``name``, in any spelling, was registered."""
    return _about[kind, find(kind, name)]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
