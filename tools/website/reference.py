"""The pages of the API reference: one for each public module, with every public name."""

import importlib
import inspect
import types
import typing

import fabriclab


def modules() -> dict[str, str]:
    """Return the public modules of the package by the name under which it shows them, and where they are."""
    return {name: f"fabriclab.{place}" for name, place in sorted(fabriclab._MODULES.items())}


def pages() -> dict[str, str]:
    """Return the sources of all pages of the reference by file name."""
    made = {f"{name}.rst": of_module(f"fl.{name}", place) for name, place in modules().items()}
    made["fabriclab.rst"] = of_package()
    entries = "\n".join(f"   {name}" for name in ["fabriclab", *modules()])
    made["index.rst"] = (
        f"{_title('API reference')}\n"
        "After ``import fabriclab as fl``, each module below is ``fl.`` and its name. A module is loaded when it is "
        "first used.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{entries}\n"
    )
    return made


def of_package() -> str:
    """Return the page of the names that ``fl`` itself has; those of a public module are described on its page."""
    shown = {place: name for name, place in modules().items()}
    lines = []
    described = []
    for name, home in sorted(fabriclab._HOME.items()):
        place = f"fabriclab.{home}"
        if place in shown and name in importlib.import_module(place).__all__:
            page = shown[place]
            lines.append(f"- ``fl.{name}``: :py:obj:`fl.{page}.{name} <{place}.{name}>`")
        else:
            lines.append(f"- ``fl.{name}``: :py:obj:`below <{place}.{name}>`")
            described.append(_described(place, name))
    head = f"{_title('fl')}\n.. automodule:: fabriclab\n   :no-members:\n"
    return "\n".join([head, *lines, "", *described])


def of_module(name: str, place: str) -> str:
    """Return the page of a module."""
    module = importlib.import_module(place)
    described = "\n".join(
        _described(place, public) for public in sorted(module.__all__, key=str.lower)
    )
    head = f"{_title(name)}\n.. automodule:: {place}\n   :no-members:\n"
    return f"{head}\n{described}"


def _title(words: str) -> str:
    """Return a title of reStructuredText."""
    return f"{words}\n{'=' * len(words)}\n"


def _described(place: str, name: str) -> str:
    """Return the directive that describes a public name of a module."""
    value = getattr(importlib.import_module(place), name)
    full = f"{place}.{name}"
    if isinstance(value, types.ModuleType):
        shown = {where: public for public, where in modules().items()}
        if value.__name__ in shown:
            page = shown[value.__name__]
            return f".. py:data:: {name}\n   :module: {place}\n\n   The module :doc:`fl.{page} <{page}>`.\n"
        inner = "\n".join(
            _described(value.__name__, public) for public in getattr(value, "__all__", ())
        )
        return f".. py:data:: {name}\n   :module: {place}\n\n   A module, with the names that follow.\n\n{inner}"
    if isinstance(value, type) and issubclass(value, BaseException):
        return f".. autoexception:: {full}\n"
    if isinstance(value, type):
        return f".. autoclass:: {full}\n   :members:\n"
    if inspect.isroutine(value) or hasattr(value, "__wrapped__"):
        return f".. autofunction:: {full}\n"
    if typing.get_origin(value) is not None or isinstance(value, types.UnionType):
        return f".. py:data:: {name}\n   :module: {place}\n\n   The type ``{value}``.\n"
    return f".. py:data:: {name}\n   :module: {place}\n\n   A value of the type ``{type(value).__name__}``.\n"
