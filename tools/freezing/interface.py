"""Public names with their signatures, the command line, and what an import loads."""

import inspect
import re
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

import fabriclab as fl
from freezing.values import error_line, hashed, plain, scrubbed, unplaced

_OURS = "fabriclab"
_DEEPEST = 3  # fabriclab.physics.optical
_ARRAY_LIKE = inspect.formatannotation(ArrayLike)
_HEAVY = ("IPython", "anywidget", "ipywidgets", "matplotlib", "networkx")
_HEAVY += ("numba", "numpy", "pandas", "scipy", "torch")
_LOADED = """
import sys
import fabriclab
ours = sorted(name for name in sys.modules if name.split(".")[0] == "fabriclab")
heavy = [name for name in {heavy!r} if name in sys.modules]
print(*ours, "|", *heavy)
"""


def frozen() -> dict[str, Any]:
    """Return all public names by module, the help texts, and what is loaded."""
    found: dict[str, Any] = {"dir": dir(fl)}
    add_module(found, fl, _OURS, 1)
    found["command line"] = command_line()
    found["loaded"] = loaded()
    return found


# Names ------------------------------------------------------------------------------------------


def add_module(found: dict[str, Any], module: types.ModuleType, path: str, depth: int) -> None:
    """Add the public names of a module under the path of a user, then those of its modules."""
    names = {name: value_of(module, name) for name in public_names(module)}
    found[path] = {name: described(value) for name, value in names.items()}
    for name, value in names.items():
        ours = isinstance(value, types.ModuleType) and value.__name__.split(".")[0] == _OURS
        if ours and depth < _DEEPEST:
            add_module(found, value, f"{path}.{name}", depth + 1)


def public_names(module: types.ModuleType) -> list[str]:
    """Return what a module offers: its ``__all__``, or its own names without an underscore."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    names = [name for name in dir(module) if not name.startswith("_")]
    return [name for name in names if is_own(getattr(module, name))]


def is_own(value: Any) -> bool:
    """Return whether a value was made in this library and is no module."""
    if isinstance(value, types.ModuleType):
        return False
    return str(getattr(value, "__module__", _OURS)).split(".")[0] == _OURS


def value_of(module: types.ModuleType, name: str) -> Any:
    """Return a member of a module, or the error that asking for it raises."""
    try:
        return getattr(module, name)
    except Exception as error:
        return error


def described(value: Any) -> dict[str, Any]:
    """Return kind, signature and members of a public value."""
    if isinstance(value, types.ModuleType):
        return {"kind": "module"}
    if inspect.isclass(value):
        bases = [base.__name__ for base in value.__mro__[1:]]
        return {
            "kind": "class",
            "signature": signature(value),
            "bases": bases,
            "members": members(value),
        }
    if isinstance(value, BaseException):
        return {"kind": "error", **error_line(value)}
    if callable(value):
        return {"kind": "function", "signature": signature(value)}
    return {"kind": type(value).__name__, "value": hashed(repr(plain(value)).encode())}


def members(cls: type) -> dict[str, str]:
    """Return the public members of a class that this library defines, with their signatures."""
    found = {}
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
        if name.startswith("_") or owner.__module__.split(".")[0] != _OURS:
            continue
        found[name] = member_line(vars(owner).get(name, getattr(cls, name, None)))
    return found


def member_line(value: Any) -> str:
    """Return what a member of a class is, as one line."""
    if isinstance(value, classmethod | staticmethod):
        return f"{type(value).__name__} {signature(value.__func__)}"
    if inspect.isfunction(value):
        return f"method {signature(value)}"
    if isinstance(value, property) or hasattr(value, "__get__"):
        return "property"
    return "value"


def signature(function: Callable[..., Any]) -> str:
    """Return a signature as text, with types by name alone."""
    try:
        found = inspect.signature(function, eval_str=True)
    except (NameError, AttributeError, TypeError, ValueError, SyntaxError):
        try:
            found = inspect.signature(function)
        except (TypeError, ValueError):
            return "(not known)"
    words = str(found).replace(_ARRAY_LIKE, "ArrayLike")
    return scrubbed(unplaced(words))


# Outside ----------------------------------------------------------------------------------------


def command_line() -> dict[str, Any]:
    """Return the help of the command and of its parts, and what is said to a wrong one."""
    found = {"--help": said("--help"), "--version": said("--version"), "nonsense": said("nonsense")}
    for part in parts_of(found["--help"]["out"]):
        found[part] = said(part, "--help")
        for inner in parts_of(found[part]["out"]):
            found[f"{part} {inner}"] = said(part, inner, "--help")
    return found


def parts_of(text: str) -> list[str]:
    """Return the names of the parts that a help text lists, as in ``{grade,replay}``."""
    listed = re.search(r"\{([\w,-]+)\}", text)
    return listed[1].split(",") if listed else []


def said(*arguments: str) -> dict[str, Any]:
    """Return what the command prints, and its exit code."""
    return python("-m", _OURS, *arguments)


def python(*arguments: str) -> dict[str, Any]:
    """Return what Python prints in a process of its own, and the exit code."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    return {"out": scrubbed(done.stdout), "error": scrubbed(done.stderr), "code": done.returncode}


def loaded() -> dict[str, str]:
    """Return which modules of this library, and which heavy ones, an import loads."""
    ours, _, heavy = python("-c", _LOADED.format(heavy=_HEAVY))["out"].strip().partition("|")
    return {"own modules": ours.strip(), "heavy modules": heavy.strip()}
