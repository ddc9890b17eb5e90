"""What tab completion shows of each public package: its own names and no others."""

import importlib
import types
import typing

import pytest

import fabriclab

MODULES = ["fabriclab", *(f"fabriclab.{module}" for module in fabriclab._MODULES.values())]


def is_alias(value):
    """Return whether a value is the name of a type, such as an array of floats, or of a union of types."""
    return typing.get_origin(value) is not None or isinstance(value, types.UnionType)


def home(value):
    """Return the module in which a value was defined; empty for plain data, which does not tell."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    return getattr(value, "__module__", "") or ""


@pytest.mark.parametrize("name", MODULES)
def test_only_own_names_are_shown(name):
    module = importlib.import_module(name)
    shown = dir(module)
    assert shown == sorted(set(shown))
    assert set(module.__all__) <= set(shown)
    for public in shown:
        value = getattr(module, public)
        assert not isinstance(value, types.ModuleType) or value.__name__.startswith("fabriclab")
        assert is_alias(value) or home(value).partition(".")[0] in (
            "",
            "builtins",
            "fabriclab",
            "numpy",
        )
        assert public == "__version__" or not public.startswith("_")


@pytest.mark.parametrize("name", MODULES)
def test_all_names_that_a_star_would_import_exist(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert hasattr(module, public)


def test_what_was_shown_before():
    shown = set(dir(fabriclab.topologies))
    assert not shown & {"Any", "Iterable", "NDArray", "np", "inspect"}
    assert {"build", "compose", "names"} <= shown
