"""Kernels: functions over arrays of numbers that run as plain Python, or compiled by numba where it is installed.

There is one source for both. A kernel keeps to what numba compiles and what Python does alike: whole numbers below
2^62, floats with ``+ - * /``, one-dimensional arrays that are read and written by index, and calls of other kernels. So
both give the same results, to the bit, and the plain one is the test of the compiled one.

Compiling takes seconds, so no learner's cell does it. `fast` returns the compiled form only if it lies in the cache on
disk; if not, it returns the plain form and starts a process that fills the cache for the next time. Run
``python -m fabriclab.compiled`` to fill it now, as the installation of the course does.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

__all__ = ["Kernel", "cache_folder", "compile_all", "fast", "installed", "kernel", "plain", "ready"]

# Modules whose kernels `compile_all` compiles; each names its own with `kernel`.
MODULES = ("fabriclab.engines.packet",)
# No counting of references to arrays: kernels make no arrays, and it takes half of their time.
_OPTIONS = {"_nrt": False, "error_model": "numpy"}
OFF = "FABRICLAB_COMPILED"  # set to 0, everything runs as plain Python


@dataclass(eq=False)
class Kernel:
    """A function that can be compiled: its Python form, and what numba must know to compile it ahead of its use.

    Parameters
    ----------
    function : callable
        The plain Python function.
    signature : callable, optional
        Given the module numba, returns the type of the function; None for a kernel that only other kernels call.
    """

    function: FunctionType
    signature: Callable[[Any], Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the plain form."""
        return self.function(*arguments)


_KERNELS: dict[str, Kernel] = {}  # by the module and name of the function


def kernel(signature: Callable[[Any], Any] | None = None) -> Callable[[Any], Any]:
    """Return a decorator that makes a function a kernel and leaves it a plain function.

    Parameters
    ----------
    signature : callable, optional
        Given the module numba, returns the type of the function. Kernels that are called from outside need one, and
        so do those that are handed to another kernel as an argument.
    """

    def keep(function: Any) -> Any:
        _KERNELS[_key(function)] = Kernel(function, signature)
        return function

    return keep


def _key(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def installed() -> bool:
    """Return whether numba is there and not switched off by ``FABRICLAB_COMPILED=0``."""
    return os.environ.get(OFF) != "0" and importlib.util.find_spec("numba") is not None


@functools.cache
def cache_folder() -> Path:
    """Return the folder of this version's compiled kernels, which differs with sources, Python, numba and processor."""
    from importlib.metadata import version

    digest = hashlib.sha256()
    package = Path(__file__).parent
    digest.update(Path(__file__).read_bytes())
    for module in MODULES:
        folder = package.joinpath(*module.split(".")[1:])
        files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
        for file in files:
            digest.update(file.read_bytes())
    digest.update(f"{sys.version} {version('numba')} {_processor()}".encode())
    return _caches() / "fabriclab" / f"kernels-{digest.hexdigest()[:16]}"


def _caches() -> Path:
    """Return the user's folder for caches."""
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if given:
        return Path(given)
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir())
    return home / ".cache"


def _processor() -> str:
    """Return what numba would compile for, so that a cache on a shared disk fits the machine that reads it."""
    import platform

    try:
        flags = [
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line[:5] == "flags"
        ]
    except OSError:
        flags = []
    return f"{platform.machine()} {platform.processor()} {flags[:1]}"


def ready() -> bool:
    """Return whether the compiled kernels of this version lie in the cache."""
    return installed() and (cache_folder() / "complete").exists()


def plain(function: Any) -> Any:
    """Return the plain form of a kernel."""
    return function


def fast(function: Any) -> Any:
    """Return the compiled form of a kernel if `ready`, else the plain one; then compiling starts in the background."""
    if ready():
        return _compiled(_key(function))
    if installed():
        _start_compiling()
    return function


@functools.cache
def _start_compiling() -> None:
    """Start one process that fills the cache; it goes on when this one ends."""
    with open(os.devnull, "wb") as nowhere:
        subprocess.Popen(
            [sys.executable, "-m", "fabriclab.compiled"],
            stdout=nowhere,
            stderr=nowhere,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


@functools.cache
def _compiled(key: str) -> Any:
    """Return the compiled form of a kernel, from the cache if it lies there."""
    import numba

    held = _KERNELS[key]
    twin = _twin(held.function)
    compiler: Any = numba.njit
    if held.signature is None:
        return compiler(forceinline=True, **_OPTIONS)(twin)
    with _cache_in(numba, cache_folder()):
        return compiler(held.signature(numba), cache=True, **_OPTIONS)(twin)


def _twin(function: FunctionType) -> FunctionType:
    """Return the function with the compiled form of each kernel that it calls in place of the plain one."""
    names = {**function.__globals__}
    for name in _names(function.__code__):
        value = names.get(name)
        if isinstance(value, FunctionType) and _key(value) in _KERNELS:
            names[name] = _compiled(_key(value))
    twin = FunctionType(
        function.__code__,
        names,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__module__ = function.__module__
    twin.__qualname__ = function.__qualname__
    return twin


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names


@contextmanager
def _cache_in(numba: Any, folder: Path) -> Iterator[None]:
    """Let numba keep in a folder what it compiles meanwhile, and leave its setting as it was."""
    folder.mkdir(parents=True, exist_ok=True)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def compile_all() -> Path:
    """Compile all kernels into the cache, and return its folder."""
    for module in MODULES:
        importlib.import_module(module)
    for key, held in list(_KERNELS.items()):
        if held.signature is not None:
            _compiled(key)
    folder = cache_folder()
    (folder / "complete").write_text("")
    return folder


def main(arguments: Sequence[str]) -> int:
    """Fill the cache and say where it lies."""
    if not installed():
        print("numba is not installed, so there is nothing to compile; pip install fabriclab[lab]")
        return 0
    from fabriclab import compiled  # the kernels register there, and not in __main__

    print(f"compiled into {compiled.compile_all()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
