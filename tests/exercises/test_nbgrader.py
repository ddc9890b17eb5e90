"""The exercises under nbgrader itself, in an environment of its own: the same students' files, and the same grades."""

import csv
import json
import os
import shutil
import subprocess
import venv

import pytest

from fabriclab.course import judges
from support import ROOT

SOURCES = sorted((ROOT / "solutions").glob("*.ipynb"))
pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(not SOURCES, reason="there is no exercise yet"),
]


def call(*command, cwd, **more):
    """Run a command without the guard that keeps tests off the network: pip is to fetch nbgrader."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=900
    )


@pytest.fixture(scope="module")
def nbgrader(tmp_path_factory):
    """Yield the folder of programs of an environment with nbgrader and this fabriclab."""
    place = tmp_path_factory.mktemp("nbgrader") / "env"
    venv.create(place, with_pip=True)
    programs = place / "bin"
    done = call(programs / "python", "-m", "pip", "install", "-q", "nbgrader", ROOT, cwd=place)
    if done.returncode:
        pytest.skip(
            f"nbgrader could not be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
        )
    yield programs
    shutil.rmtree(place)  # 0.4 GB


@pytest.fixture(scope="module")
def course(nbgrader, tmp_path_factory):
    """Return a course after generate_assignment and autograde, and the grades by assignment and student."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "nbgrader_config.py").write_text(
        'get_config().CourseDirectory.course_id = "fabrics"\n'
    )
    more = {
        "FABRICLAB_PROGRESS": str(folder / "progress.json"),
        "PATH": f"{nbgrader}{os.pathsep}{os.environ['PATH']}",
    }

    def nb(*command):
        done = call(nbgrader / "nbgrader", *command, cwd=folder, **more)
        assert done.returncode == 0, done.stderr[-3000:]

    for source in SOURCES:
        files = {
            "source": source,
            "submitted/solved": source,
            "submitted/open": ROOT / "exercises" / source.name,
        }
        for part, file in files.items():
            (folder / part / source.stem).mkdir(parents=True)
            shutil.copy(file, folder / part / source.stem)
        nb("generate_assignment", source.stem)
        nb("autograde", source.stem)
    nb("export", "--to", "grades.csv")
    with (folder / "grades.csv").open(newline="") as file:
        return folder, {(row["assignment"], row["student_id"]): row for row in csv.DictReader(file)}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_nbgrader_makes_the_same_students_file(course, source):
    found = []
    for path in (
        course[0] / "release" / source.stem / source.name,
        ROOT / "exercises" / source.name,
    ):
        cells = json.loads(path.read_bytes())["cells"]
        found.append(
            [("".join(cell["source"]), cell["metadata"].get("editable", True)) for cell in cells]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_nbgrader_gives_the_solution_everything_and_the_students_file_nothing(course, source):
    solved, unanswered = (course[1][source.stem, student] for student in ("solved", "open"))
    assert float(solved["score"]) == float(solved["max_score"]) > 0
    assert float(unanswered["score"]) == 0


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_points_under_nbgrader_are_the_points_of_the_grader(course, source):
    points = sum(q.points for q in judges.exercise(int(source.stem.removeprefix("exercise"))))
    assert float(course[1][source.stem, "solved"]["max_score"]) == points
