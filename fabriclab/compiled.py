"""Kernels: functions over arrays of numbers that run as plain Python, or compiled by numba where it is installed.

There is one source for both. A kernel keeps to what numba compiles and what Python does alike: whole numbers below
2^62, floats with ``+ - * / //`` and square roots (which IEEE 754 rounds in one way only), arrays and tables that are
read and written by index, and calls of other kernels. So both give the same results, to the bit, and the plain one is
the test of the compiled one.

Compiling takes seconds, so no learner's cell does it. `fast` returns the compiled form only if it lies on disk; if not,
it returns the plain form and starts a process that compiles for the next time. Run ``python -m fabriclab.compiled`` to
compile now, as the installation of the course does. `note` says why nothing is compiled, where a lesson runs slowly.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from fabriclab import texts

__all__ = [
    "Kernel",
    "cache_folder",
    "compile_all",
    "fast",
    "fast_all",
    "installed",
    "kernel",
    "loaded",
    "note",
    "ready",
    "start_compiling",
]

# Modules and packages whose kernels `compile_all` compiles; each names its own with `kernel`.
MODULES = ("fabriclab.engines.packet", "fabriclab.engines._levels")
# No counting of references to arrays: kernels make no arrays, and it takes half of their time.
_OPTIONS = {"_nrt": False, "error_model": "numpy"}
OFF = "FABRICLAB_COMPILED"  # set to 0, everything runs as plain Python
PLACE = "FABRICLAB_KERNELS"  # a folder for compiled kernels in place of the usual ones
_LOOK_AGAIN = 0.2  # while another process compiles [s]
_PATIENCE = 300.0  # without a sign of life from it, one kernel takes half a minute at most [s]
_OLD = (
    60 * 24 * 3600.0
)  # kernels of other versions are removed that long after they were compiled [s]


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
_COMPILED: dict[str, Any] = {}  # what this process has loaded, by the same names
_BROKEN: list[str] = []  # why it cannot load what lies there


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
    """Return whether numba is there and not switched off, by ``FABRICLAB_COMPILED=0`` or by its own switch."""
    return not _is_off() and importlib.util.find_spec("numba") is not None


def _is_off() -> bool:
    """Return whether compiled kernels are switched off in the environment."""
    return os.environ.get(OFF) == "0" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


# Where compiled kernels lie -------------------------------------------------------------------------------------------


@functools.cache
def _folder_name() -> str:
    """Return a name that differs with the sources, Python, numba and the processor."""
    from importlib.metadata import version

    digest = hashlib.sha256()
    digest.update(Path(__file__).read_bytes())
    for file in _sources().values():
        digest.update(file.read_bytes())
    digest.update(f"{sys.version} {version('numba')} {_processor()}".encode())
    return f"kernels-{digest.hexdigest()[:16]}"


def _sources() -> dict[str, Path]:
    """Return the files with kernels, by the names of their modules."""
    package = Path(__file__).parent
    found = {}
    for module in MODULES:
        place = package.joinpath(*module.split(".")[1:])
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        for file in files:
            parts = file.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


def _processor() -> str:
    """Return what numba compiles for, so that a cache on a shared disk fits the machine that reads it."""
    import platform

    flags = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                flags = line
                break
    except OSError:
        pass
    asked = [os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    return f"{platform.machine()} {platform.processor()} {flags} {asked}"


def _places() -> list[Path]:
    """Return the folders in which compiled kernels may lie, the best first.

    The environment comes first, so that an image that one user has made serves all, and `make clean` takes all away.
    """
    given = os.environ.get(PLACE)
    if given:
        return [Path(given)]
    places = []
    if sys.prefix != sys.base_prefix:
        places.append(Path(sys.prefix) / "share" / "fabriclab")
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if cache:
        places.append(Path(cache) / "fabriclab")
    else:
        with suppress(RuntimeError):  # a user without a home
            places.append(Path.home() / ".cache" / "fabriclab")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    places.append(Path(tempfile.gettempdir()) / f"fabriclab-{user}")
    return places


def _is_trusted(folder: Path) -> bool:
    """Return whether nobody but this user and the administrator can have written a folder: what lies there is run."""
    if not hasattr(os, "getuid"):
        return True
    about = folder.stat()
    return about.st_uid in (0, os.getuid()) and about.st_mode & 0o022 == 0


def cache_folder() -> Path | None:
    """Return the folder with all compiled kernels of this version, or None if there is none."""
    for place in _places():
        folder = place / _folder_name()
        with suppress(OSError):
            if folder.is_dir() and _is_trusted(folder):
                return folder
    return None


def ready() -> bool:
    """Return whether the compiled kernels of this version lie on disk and can be loaded."""
    return installed() and not _BROKEN and cache_folder() is not None


def note() -> str:
    """Return a sentence that says why kernels run as plain Python, and what to do; empty if they are compiled."""
    if ready():
        return ""
    if os.environ.get(OFF) == "0":
        return texts.text("compiled.off")
    if not installed():
        return texts.text("compiled.no_numba")
    if _BROKEN:
        return texts.text("compiled.broken", reason=_BROKEN[0])
    return texts.text("compiled.soon")


# Loading --------------------------------------------------------------------------------------------------------------


def fast_all(functions: Sequence[Any]) -> Sequence[Any]:
    """Return the compiled forms of kernels if all can be loaded, else ``functions``.

    Where nothing is compiled yet, compiling starts beside us. A function from elsewhere, as a learner writes it, has no
    compiled form.
    """
    folder = cache_folder() if ready() else None
    if folder is None:
        if installed() and not _BROKEN:
            start_compiling()
        return functions
    keys = [_key(function) for function in functions]
    if not all(_file_of(folder, key).exists() for key in keys):
        return functions
    try:
        return [_loaded(key, folder) for key in keys]
    except Exception as error:  # a numba that does not fit NumPy, a file that was cut off, ...
        _BROKEN.append(f"{type(error).__name__}: {error}")
        return functions


def fast(function: Any) -> Any:
    """Return the compiled form of a kernel if it can be loaded, else the plain one; see `fast_all`."""
    return fast_all((function,))[0]


def loaded(function: Any) -> Any | None:
    """Return the compiled form of a kernel if `fast` has loaded it in this process, else None.

    For what is quick enough with NumPy that half a second for loading numba would never be won back.
    """
    return None if _is_off() else _COMPILED.get(_key(function))


@functools.cache
def start_compiling() -> None:
    """Start one process that compiles all kernels; it goes on when this one ends."""
    # Where no process can be started, as behind the walls of the grader, everything runs as plain Python.
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        subprocess.Popen(
            [sys.executable, "-m", "fabriclab.compiled"],
            stdout=nowhere,
            stderr=nowhere,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


class _Store:
    """What numba asks for compiled code and gives it to: a file for each kernel in one folder.

    Numba's own cache asks for a folder that can be written and for sources in the same place and of the same age as
    when they were compiled. Where one of these fails it compiles again, in the cell of a learner.
    """

    def __init__(self, folder: Path, key: str, may_compile: bool) -> None:
        self.file = _file_of(folder, key)
        self.may_compile = may_compile

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return what lies in the file, or None if it is to be compiled."""
        from numba.core.compiler import CompileResult

        context.refresh()
        if self.may_compile and not self.file.exists():
            return None
        rebuild: Any = CompileResult._rebuild
        return rebuild(context, *pickle.loads(self.file.read_bytes()))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write what was compiled."""
        from numba.core import serialize

        dumps: Any = serialize.dumps
        self.file.write_bytes(dumps(result._reduce()))


def _file_of(folder: Path, key: str) -> Path:
    return folder / f"{key}.kernel"


def _loaded(key: str, folder: Path | None, may_compile: bool = False) -> Any:
    """Return the compiled form of a kernel from a folder, after those that it calls."""
    if key in _COMPILED:
        return _COMPILED[key]
    import numba

    held = _KERNELS[key]
    twin = _twin(held.function, folder, may_compile)
    compiler: Any = numba.njit
    if held.signature is None:
        made = compiler(forceinline=True, **_OPTIONS)(twin)
    else:
        made = compiler(**_OPTIONS)(twin)
        made._cache = _Store(folder or Path(), key, may_compile)
        made.compile(held.signature(numba))
        made.disable_compile()
    _COMPILED[key] = made
    return made


def _twin(function: FunctionType, folder: Path | None, may_compile: bool) -> FunctionType:
    """Return the function with the compiled form of each kernel that it calls in place of the plain one."""
    names = {**function.__globals__}
    for name in function.__code__.co_names:
        value = names.get(name)
        if isinstance(value, FunctionType) and _key(value) in _KERNELS:
            names[name] = _loaded(_key(value), folder, may_compile)
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


# Compiling ------------------------------------------------------------------------------------------------------------


def compile_all() -> Path:
    """Compile all kernels, unless they are there; return their folder.

    They appear under their name in one step, when all are written, so a process that was killed or a full disk leaves
    nothing that looks complete. A second process waits for the first.

    Raises
    ------
    OSError
        If none of the folders can be written.
    """
    failed = []
    for place in _places():
        while True:
            found = cache_folder()
            if found is not None:
                return found
            making = place / f"{_folder_name()}.making"
            try:
                place.mkdir(mode=0o755, parents=True, exist_ok=True)
                if not _is_trusted(place):
                    failed.append(f"{place}: others can write there")
                    break
                making.mkdir(mode=0o755)
            except FileExistsError:
                if _is_left_over(making):
                    shutil.rmtree(making, ignore_errors=True)
                else:
                    time.sleep(_LOOK_AGAIN)
                continue
            except OSError as error:
                failed.append(f"{place}: {error.strerror}")
                break
            try:
                _compile_into(making)
                making.rename(place / _folder_name())
                _remove_old(place)
            except OSError as error:
                failed.append(f"{place}: {error.strerror}")
                break
            finally:
                shutil.rmtree(making, ignore_errors=True)
    raise OSError("no folder for compiled kernels can be written: " + "; ".join(failed))


def _compile_into(folder: Path) -> None:
    """Compile all kernels that have a signature, and write them to a folder."""
    for module in _sources():
        importlib.import_module(module)
    _COMPILED.clear()
    for key, held in list(_KERNELS.items()):
        if held.signature is not None:
            os.utime(folder)  # a sign of life
            _loaded(key, folder, may_compile=True)


def _is_left_over(making: Path) -> bool:
    """Return whether the process that writes a folder has ended without taking it away."""
    try:
        return time.time() - making.stat().st_mtime > _PATIENCE
    except OSError:  # it is done
        return False


def _remove_old(place: Path) -> None:
    """Remove the kernels of versions that were compiled long ago."""
    for folder in place.glob("kernels-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _OLD:
                shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Compile all kernels, and say where they lie."""
    if not installed():
        print(texts.text("compiled.no_numba"))
        return 0
    from fabriclab import compiled  # the kernels register there, and not in __main__

    try:
        print(texts.text("compiled.done", folder=str(compiled.compile_all())))
    except (OSError, ImportError) as error:
        # Everything runs without, so an installation goes on.
        print(texts.text("compiled.failed", reason=str(error)), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
