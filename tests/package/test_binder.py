"""What Binder does with this repository: an environment from binder/ alone, then the first lesson and an exercise."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Alone: notebooks measure, and one process makes the environment and fills the progress that a later test reads.
pytestmark = [pytest.mark.release, pytest.mark.alone]


@pytest.fixture(scope="module")
def binder(root, tmp_path_factory):
    """Yield what runs a program of the new environment in a clean clone."""
    place = tmp_path_factory.mktemp("binder")
    clone, programs = place / "clone", place / "env" / "bin"
    wanted = (root / "binder" / "runtime.txt").read_text().strip().replace("-", "")
    subprocess.run(["git", "clone", "-q", root, clone], check=True)
    subprocess.run(
        [shutil.which(wanted) or sys.executable, "-m", "venv", place / "env"], check=True
    )
    # Without the guard that keeps tests off the network, since pip is to fetch what is pinned.
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPATH", "FABRICLAB_"))
    }
    env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"

    def call(*command, **more):
        done = subprocess.run(
            command, cwd=clone, env=env | more, capture_output=True, text=True, timeout=600
        )
        if "connection broken" in done.stderr:
            pytest.skip(
                f"the pinned packages could not be fetched: {done.stderr.strip().splitlines()[-1]}"
            )
        assert done.returncode == 0, f"{command}: {done.stderr[-3000:]}"
        return done.stdout

    call("python", "-m", "pip", "install", "-q", "-r", "binder/requirements.txt")
    call("./binder/postBuild")
    yield call
    shutil.rmtree(place)  # 0.5 GB


def test_what_is_installed_fits_together(binder):
    assert "No broken requirements" in binder("python", "-m", "pip", "check")


# Lesson 00 says whether MPI is there, the exercise shows its curve; without MPI shared memory stands in, and says so.
@pytest.mark.parametrize(
    ("book", "told"),
    [
        ("notebooks/00_start_here.ipynb", "MPI: yes|measured over shared memory instead"),
        ("solutions/exercise1.ipynb", "MPI +1 KiB|mpi is not here.*shm +1 KiB"),
    ],
)
def test_a_notebook_runs_and_says_how_it_measures(binder, book, told, tmp_path):
    # With an empty home nothing that is set up for this user helps.
    run = (
        "./binder/start",
        "jupyter",
        "nbconvert",
        "--execute",
        "--to",
        "notebook",
        "--stdout",
        book,
    )
    said = binder(*run, HOME=str(tmp_path))
    cells = json.loads(said)["cells"]
    assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code")
    assert '"output_type": "error"' not in said
    assert re.search(told, said, re.DOTALL)


def test_lessons_and_exercises_keep_one_file_of_progress(binder):
    held = json.loads(
        Path(binder("./binder/start", "printenv", "FABRICLAB_PROGRESS").strip()).read_text()
    )
    assert "copy" in held["measurements"] and held["checks"]["ex1-c"]["right"]


def test_jupyterlab_has_its_settings(binder):
    folders = json.loads(binder("jupyter", "--paths", "--json"))
    found = binder("python", "-c", "import sys; print(sys.prefix)").strip()
    assert f"{found}/etc/jupyter" in folders["config"]
    for name in (
        "share/jupyter/lab/settings/overrides.json",
        "etc/jupyter/jupyter_server_config.py",
    ):
        assert Path(found, name).is_file()
