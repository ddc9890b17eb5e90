"""What a new installation has to be able to do, in an empty folder: run by the Python of that installation.

``python -P smoke.py VERSION LESSON.ipynb`` ends with a line that says what worked. It needs nothing but the package;
where Jupyter is installed, too, the lesson runs in a kernel.
"""

import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("fabriclab")
CASE = "c01"  # of those to practise on that come with the package
_PATIENCE = 600  # [s] for one command or cell


def main() -> None:
    """Try everything, and print what worked."""
    version, lesson = sys.argv[1:]
    os.environ["FABRICLAB_PROGRESS"] = str(Path("progress.json").absolute())
    imported(version)
    suspect = doctor()
    commands = [
        f"fabriclab --version: {version}",
        f"fabriclab: fabriclab {version}",
        "fabriclab validate steps: steps",
        "fabriclab progress: ",
        "fabriclab new-exercise own: own",
        "fabriclab check-exercise own: ",
        "fabriclab release --new-key own.key: ",
        "fabriclab release own --key own.key --out handout: ",
        "fabriclab grade exercises --reference exercises --key own.key --out own.csv --weak: ",
    ]
    for command in commands:
        call, _, wanted = command.partition(": ")
        said = called(*call.split()[1:])
        assert wanted in said, f"{call} does not say {wanted!r}"
    assert '"own","10","10"' in Path("own-matrix.csv").read_text()
    cells = ran_lesson(Path(lesson))
    print(
        f"{len(commands) + 1} commands, the doctor names {suspect}, "
        f"{cells} cells of {Path(lesson).stem} {'in a kernel' if has_kernel() else 'in IPython'}"
    )


def imported(version: str) -> None:
    """Import every module of the package, from the installation and nowhere else."""
    import fabriclab

    assert fabriclab.__version__ == version, fabriclab.__version__
    assert Path(sys.prefix) in Path(fabriclab.__file__).parents, fabriclab.__file__
    names = [module.name for module in pkgutil.walk_packages(fabriclab.__path__, "fabriclab.")]
    for name in names:
        if not name.endswith(("__main__", "_worker")):  # programs, which run when they are imported
            importlib.import_module(name)
    print(f"{len(names)} modules in {fabriclab.__path__[0]}")


def called(*arguments: str) -> str:
    """Return what a command of the package prints, on both streams; it has to succeed."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=_PATIENCE)
    print(f"fabriclab {' '.join(arguments)}: status {done.returncode}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def doctor() -> str:
    """Return the cause that the doctor names first for a case of the package; it has to be the right one."""
    from fabriclab.diagnosis.practice_cases import practice

    case = practice(CASE)
    found = json.loads(called("doctor", "--json", *map(str, case.files)))
    assert found[0]["cause_id"] == case.cause_id, found
    return case.cause_id


def has_kernel() -> bool:
    """Return whether Jupyter is installed."""
    return importlib.util.find_spec("nbclient") is not None


def ran_lesson(path: Path) -> int:
    """Run all cells of a lesson, as its reader would who answers every guess, and return their number."""
    os.environ["FABRICLAB_REVEAL"] = "1"
    book = json.loads(path.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    if has_kernel():
        import nbformat
        from nbclient import NotebookClient

        read = nbformat.read(path, 4)
        NotebookClient(read, kernel_name="python3", timeout=_PATIENCE).execute()
        return len(cells)
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    for source in cells:
        shell.run_cell(source).raise_error()
    return len(cells)


if __name__ == "__main__":
    main()
