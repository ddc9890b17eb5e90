"""The package as people install it: from a checkout, editable, and as a wheel in an empty folder.

In each of them a learner's process has nothing of the package in its memory and cannot read it, and the wheel alone
grades a class and runs a lesson.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can wall a process in")

WALLS = {
    "all": (),
    "container": ("userns", "pidns", "netns", "root"),
}
# Runs in the installation, outside of the walls: it says where the package is, and what a learner's code found.
OUTSIDE = """
import json, sys
import fabriclab
from fabriclab.course.grading.sandbox import Sandbox

package = fabriclab.__path__[0]
with Sandbox(without=json.loads(sys.argv[2])) as box:
    session = box.session([sys.argv[1]])
    calls = {"loaded": (), "read": (package,), "written": (package,), "imported": (), "walked": (package,)}
    found = {name: session.call(name, *given) for name, given in calls.items()}
problems = [outcome.sentence for outcome in found.values() if not outcome.ok]
values = {name: outcome.value for name, outcome in found.items()}
print(json.dumps({"package": package, "active": box.active, "problems": problems, **values}))
"""
# Runs inside, as a learner's code.
INSIDE = """
import os, sys

FILES = ["__init__.py", "units.py", "texts_en.json", "course/questions/31.toml",
         "course/judges/__init__.py", "course/judges/exercise1/profiling.py", "course/grading/sandbox.py"]

def loaded():
    return sorted(name for name in sys.modules if "fabriclab" in name or "judges" in name)

def read(package):
    found = []
    for name in FILES:
        try:
            found.append(len(open(os.path.join(package, name)).read()))
        except OSError:
            pass
    return found

def written(package):
    for name in ("", "course", "course/judges"):
        try:
            with open(os.path.join(package, name, "mine.py"), "w") as file:
                file.write("1")
            return name
        except OSError:
            pass

def imported():
    sys.path += [folder for folder, *_ in os.walk(sys.prefix) if folder.endswith("site-packages")]
    found = []
    for name in ("fabriclab", "fabriclab.course", "fabriclab.course.judges", "fabriclab.course.questions"):
        try:
            module = __import__(name)
        except (ImportError, OSError):
            continue
        found += [name for name in ("__version__", "course", "units") if hasattr(module, name)]
    return found

def walked(package):
    return [os.path.join(folder, name) for folder, _, names in os.walk(package) for name in names]
"""


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """Return the wheel, built as an installer would build it."""
    out = tmp_path_factory.mktemp("wheel")
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


def environment(place: Path) -> Path:
    """Return the Python of a new environment that sees numpy and the like of this one, but not its fabriclab."""
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    here = Path(sysconfig.get_path("purelib"))
    site = next(place.glob("lib/python*/site-packages"))
    # A path in a .pth file is searched, but .pth files in it, such as that of an editable install, are not read.
    (site / "dependencies.pth").write_text(f"{here}\n")
    return python


def passable(folder: Path) -> None:
    """Let the learner's user pass on the way to a folder, so that nothing but the walls is in the way."""
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.getuid() and above.stat().st_mode & 0o55 != 0o55:
            above.chmod(0o755)


WAYS = ("checkout", "checkout beside a wheel", "editable", "wheel")


@pytest.fixture(scope="module", params=WAYS)
def installed(request, root, tmp_path_factory):
    """Return a way to install: the Python, the folder to work in, and the variables of the environment."""
    place = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    empty = place / "empty"
    empty.mkdir()
    passable(empty)
    python = environment(place / "env")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean["FABRICLAB_PROGRESS"] = str(empty / "progress.json")
    if request.param == "checkout":
        return python, root, clean
    if (
        request.param == "checkout beside a wheel"
    ):  # where an install was followed by commands in the checkout
        clean["PYTHONPATH"] = str(root)
    what = ["-e", root] if request.param == "editable" else [request.getfixturevalue("wheel")]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    ]
    done = subprocess.run(
        [*pip, "--no-build-isolation", *what],
        env=clean,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return python, empty if "PYTHONPATH" not in clean else root, clean


def ran(installed, *arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    python, folder, variables = installed
    return subprocess.run(
        [str(python), *map(str, arguments)],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        **more,
    )


# A push tries each way to install, and the weaker walls where the package is in an environment; the rest is slow.
@pytest.mark.parametrize(
    ("installed", "walls"),
    [
        pytest.param(way, walls, marks=() if walls == "all" or way == "wheel" else pytest.mark.slow)
        for way in WAYS
        for walls in WALLS
    ],
    indirect=["installed"],
)
def test_a_learners_process_knows_nothing_of_the_package(installed, walls, root):
    done = ran(installed, "-c", OUTSIDE, INSIDE, json.dumps(WALLS[walls]))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"root", "landlock"} & {*found["active"]}
    in_checkout = Path(found["package"]) == root / "fabriclab"
    assert in_checkout == (installed[1] == root or "editable" in str(installed[1]))
    assert found["problems"] == []
    assert (found["loaded"], found["read"], found["written"], found["imported"]) == (
        [],
        [],
        None,
        [],
    )
    # Landlock cannot keep the names in a folder from being listed if those beside it may be.
    assert "root" not in found["active"] or found["walked"] == []


def test_without_walls_the_same_questions_find_the_package(installed):
    """The questions above are worth something: where nothing is walled off, they are answered with the package."""
    code = INSIDE + "\nimport json, fabriclab\nfrom fabriclab.course import judges\n"
    code += "package = fabriclab.__path__[0]\n"
    code += (
        "print(json.dumps([len(loaded()), len(read(package)), imported(), len(walked(package))]))"
    )
    modules, files, names, walked = json.loads(ran(installed, "-c", code).stdout)
    assert modules > 3
    assert files == 7
    assert names[0] == "__version__"
    assert walked > 100


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_a_wheel_grades_a_class_in_an_empty_folder(installed, root):
    _, folder, _ = installed
    room = folder / "room"
    room.mkdir()
    shutil.copy(root / "solutions" / "exercise1.ipynb", room / "ann.ipynb")
    shutil.copy(root / "exercises" / "exercise1.ipynb", room / "bob.ipynb")
    assert ran(installed, "-m", "fabriclab", "release", "--new-key", "class.key").returncode == 0
    command = [
        "-m",
        "fabriclab",
        "grade",
        "room",
        "--key",
        "class.key",
        "--out",
        "grades.csv",
        "--weak",
    ]
    done = ran(installed, *command)
    assert done.returncode == 0, done.stderr
    with (folder / "grades.csv").open(newline="") as file:
        rows = {(row["student"], row["question"]): row["points"] for row in csv.DictReader(file)}
    assert rows["ann", "total"] == "100"
    assert rows["bob", "total"] == "0"
    again = ran(
        installed,
        "-m",
        "fabriclab",
        "replay",
        "grades.json",
        "ex1-b",
        "--student",
        "ann",
        "--key",
        "class.key",
        "--weak",
    )
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_a_wheel_makes_an_exercise_in_an_empty_folder(installed):
    _, folder, _ = installed
    for command in (
        "new-exercise own",
        "check-exercise own",
        "release --new-key own.key",
        "release own --key own.key --out own-handout",
        "grade exercises --reference exercises --key own.key --out own.csv --weak",
    ):
        done = ran(installed, "-m", "fabriclab", *command.split())
        assert done.returncode == 0, done.stderr
    assert '"own","10","10"' in (folder / "own-matrix.csv").read_text()
    assert (folder / "own-handout" / "own" / "judge.py").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_a_wheel_runs_a_lesson_in_an_empty_folder(installed, root):
    _, folder, _ = installed
    shutil.copy(root / "notebooks" / "31_all_reduce.ipynb", folder)
    code = (
        "import nbformat\nfrom nbclient import NotebookClient\n"
        "book = nbformat.read('31_all_reduce.ipynb', 4)\n"
        "book.cells.append(nbformat.v4.new_code_cell('fl.__file__'))\n"
        "NotebookClient(book, kernel_name='python3', timeout=120).execute()\n"
        "print(book.cells[-1].outputs[0]['data']['text/plain'])"
    )
    installed[2]["FABRICLAB_REVEAL"] = "1"
    done = ran(installed, "-c", code)
    assert done.returncode == 0, done.stderr[-3000:]
    assert str(folder.parent / "env") in done.stdout
