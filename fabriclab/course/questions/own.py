"""Own exercises of instructors: a folder with a judge and a file of questions, registered by being there.

In an instructor's course folder they are in ``exercises/<name>/``, where the commands find them. Students get the
folder ``<name>/`` beside their notebook, where `fl.check` finds it. `load` reads both files again when they have
changed, so that an author needs no new kernel.
"""

import re
import sys
import traceback
import types
from pathlib import Path

from fabriclab import registry
from fabriclab.course.questions import files
from fabriclab.course.shown import InputRefused, refuse_if
from fabriclab.texts import text

FOLDER = Path("exercises")  # of a course folder
JUDGE = "judge.py"
QUESTIONS = "questions.toml"
# Letters, digits and _; exercises of the course have a number, and lessons begin with one.
_NAME = re.compile(r"(?!ex\d|exercise\d)[a-z][a-z0-9_]{0,39}")
# A folder fabriclab/ beside a notebook may be imported in place of the package.
_TAKEN = (files.SHARED, "fabriclab")

_Stamp = tuple[str, int, int]
_loaded: dict[str, _Stamp] = {}  # name -> folder, and when its two files were changed


def is_name(name: str) -> bool:
    """Return whether an own exercise may have this name."""
    return bool(_NAME.fullmatch(name)) and name not in _TAKEN


def check_name(name: str) -> None:
    """Raise unless an own exercise may have this name."""
    refuse_if(not is_name(name), "own.name", name=name)


def is_exercise(folder: Path) -> bool:
    """Return whether a folder holds an own exercise."""
    return is_name(folder.name) and all((folder / name).is_file() for name in (JUDGE, QUESTIONS))


def notebook(folder: Path) -> Path:
    """Return the notebook of an own exercise, with its solution."""
    return folder / f"{folder.name}.ipynb"


def folders(course: Path = FOLDER) -> list[Path]:
    """Return the folders of all own exercises of a course folder."""
    inner = sorted(course.iterdir()) if course.is_dir() else []
    return [folder for folder in inner if is_exercise(folder)]


def load_all(course: Path = FOLDER) -> None:
    """Load all own exercises of a course folder.

    Raises
    ------
    InputRefused
        If one of them cannot be read; the message says which, and where.
    """
    for folder in folders(course):
        load(folder)


def load_near(id: str) -> bool:
    """Load the own exercise that a question belongs to, if it is here; return whether it is loaded.

    It is looked for beside the notebook, in the course folder, and where its author works on it.
    """
    name = str(id).partition("-")[0]
    if not is_name(name):
        return False
    here = Path.cwd()
    places = [here / name, here / FOLDER / name]
    if here.name == name:
        places.append(here)
    for folder in places:
        if is_exercise(folder):
            load(folder)
            break
    return name in _loaded


def load(folder: Path) -> None:
    """Register the questions of an own exercise and their judges; nothing happens if they are loaded already.

    Raises
    ------
    InputRefused
        If a file cannot be read or both do not fit together; nothing of it is registered then.
    """
    name = folder.name
    stamp = (str(folder.resolve()), _changed(folder / JUDGE), _changed(folder / QUESTIONS))
    if _loaded.get(name) == stamp:
        return
    before = {*registry.names("question")} - _ids(name)
    unload(name)
    try:
        files.add(name, folder / QUESTIONS)
        files.load(name)
        _run(folder / JUDGE, f"fabriclab_exercise_{name}")
        _check_ids(name, {*registry.names("question")} - before)
    except Exception as error:
        registry.forget("question", {*registry.names("question")} - before)
        files.remove(name)
        file = folder / (QUESTIONS if not line(error, folder / JUDGE) else JUDGE)
        where = f"{file}{line(error, folder / JUDGE)}"
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise InputRefused(text("own.broken", where=where, said=said)) from None
    _loaded[name] = stamp


def unload(name: str) -> None:
    """Forget an own exercise."""
    _loaded.pop(name, None)
    registry.forget("question", _ids(name))
    files.remove(name)


def _changed(file: Path) -> int:
    return file.stat().st_mtime_ns


def _ids(name: str) -> set[str]:
    """Return the ids of all judges of an own exercise that are registered."""
    return {id for id in registry.names("question") if id.partition("-")[0] == name}


def _run(judge: Path, module_name: str) -> None:
    """Run a judge as a module; it registers itself. No compiled file is left beside it."""
    module = types.ModuleType(module_name)
    module.__file__ = str(judge)
    sys.modules[module_name] = module
    code = compile(judge.read_text(encoding="utf-8-sig"), str(judge), "exec")
    exec(code, module.__dict__)


def _check_ids(name: str, judged: set[str]) -> None:
    """Raise unless each judge has an entry and each entry that is graded has a judge."""
    graded = {id for id, entry in files.entries(name).items() if "kind" not in entry}
    foreign = {id for id in judged | {*files.entries(name)} if id.partition("-")[0] != name}
    refuse_if(foreign, "own.foreign", ids=_listed(foreign), name=name)
    refuse_if(judged - graded, "own.no_entry", ids=_listed(judged - graded), file=QUESTIONS)
    refuse_if(graded - judged, "own.no_judge", ids=_listed(graded - judged), file=JUDGE)


def _listed(ids: set[str]) -> str:
    return ", ".join(sorted(ids))


def line(error: Exception, judge: Path) -> str:
    """Return the line of the judge at which an error came up, in words; empty if it came up elsewhere."""
    if isinstance(error, SyntaxError) and error.filename == str(judge):
        return text("own.line", line=error.lineno)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(judge)
    ]
    return text("own.line", line=lines[-1]) if lines else ""
