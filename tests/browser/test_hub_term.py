"""A term on a JupyterHub: lessons are corrected, cells ask for too much memory, servers end when nobody uses them."""

import json
import shutil
import sys

import pytest

from support import ROOT

psutil = pytest.importorskip("psutil")
requests = pytest.importorskip("requests")
pytest.importorskip("websocket")

from support import hub  # noqa: E402

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux"),
]
LESSON, EXERCISE = "notebooks/31_all_reduce.ipynb", "exercises/exercise1.ipynb"
IDLE = """
c.Spawner.args = ["--allow-root", "--ServerApp.shutdown_no_activity_timeout=8",
    "--MappingKernelManager.cull_idle_timeout=4", "--MappingKernelManager.cull_interval=1",
    "--MappingKernelManager.cull_connected=True"]
c.Spawner.poll_interval = 2
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Return the folder of a Python with JupyterHub."""
    found = hub.programs_with_hub(tmp_path_factory.mktemp("hub"))
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Return a course of one lesson and one exercise, which can be corrected."""
    place = tmp_path_factory.mktemp("course")
    for path in (LESSON, EXERCISE, "docs/img/hero.gif", "Makefile"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, place / path)
    shutil.copytree(ROOT / "binder", place / "binder")
    return place


@pytest.fixture(scope="module")
def term(programs, course):
    """Yield a hub of that course: its address and its folder."""
    with hub.running_hub(programs, root=course) as (address, place, _):
        hub.until(lambda: requests.get(f"{address}/hub/health", timeout=5).ok)
        yield address, place


def come(student):
    """Sign in and open JupyterLab."""
    student.sign_in()
    student.open_lab(f"fabriclab/{LESSON}")


def test_a_correction_in_mid_term_loses_no_answer(term, course):
    address, place = term
    student = hub.Student(address, "ada")
    come(student)
    home = place / "homes" / "ada"
    book = student.read(f"fabriclab/{EXERCISE}")
    cells = hub.named(book)
    solved = hub.named(json.loads((ROOT / "solutions" / "exercise1.ipynb").read_bytes()))
    cells["ex1-c"]["source"] = hub.source(solved["ex1-c"])
    kernel = student.start_kernel(f"fabriclab/{EXERCISE}")
    for id in ("ex1-setup", "ex1-tools", "ex1-c", "ex1-c-test"):
        kernel.run(cells[id])
    kernel.close()
    student.save(f"fabriclab/{EXERCISE}", book)
    saved = (home / "fabriclab" / EXERCISE).read_bytes()
    progress = (home / "fabriclab-progress.json").read_bytes()
    assert json.loads(progress)["checks"]["ex1-c"]["right"]

    for path, old, new in (
        (LESSON, "try 8, then 16", "try 8, or 32"),
        (EXERCISE, "What may you predict?", "What may you foretell?"),
    ):
        text = (course / path).read_text()
        assert text.count(old) == 1
        (course / path).write_text(text.replace(old, new))
    # While the server runs, nothing changes under the student's hands.
    assert (home / "fabriclab" / EXERCISE).read_bytes() == saved
    student.stop_server()
    come(student)

    (kept,) = (home / "fabriclab" / "exercises").glob("exercise1-mine-*.ipynb")
    assert kept.read_bytes() == saved
    mine = hub.named(student.read(f"fabriclab/exercises/{kept.name}"))
    assert "np.polyfit" in hub.source(mine["ex1-c"]) and mine["ex1-c-test"]["outputs"]
    for path, new in ((LESSON, "try 8, or 32"), (EXERCISE, "What may you foretell?")):
        assert new in json.dumps(student.read(f"fabriclab/{path}"))
    assert (home / "fabriclab-progress.json").read_bytes() == progress
    # The kept answers still run, and the new exercise knows that the question was answered.
    kernel = student.start_kernel(f"fabriclab/exercises/{kept.name}")
    for id in ("ex1-setup", "ex1-tools", "ex1-c", "ex1-c-test"):
        kernel.run(mine[id])
    told = {"id": "told", "source": "fl.progress()"}
    kernel.run(told)
    kernel.close()
    assert told["outputs"]
    student.stop_server()


def test_a_cell_that_asks_for_too_much_costs_itself_only(term):
    address, _ = term
    student = hub.Student(address, "ben")
    come(student)
    kernel = student.start_kernel(f"fabriclab/{LESSON}")
    kernel.run({"id": "imports", "source": "import numpy as np, fabriclab as fl; x = 5"})
    with pytest.raises(hub.CellFailed, match="MemoryError"):
        kernel.run({"id": "greedy", "source": "y = np.ones(4 * 2**30, np.uint8)"})
    with pytest.raises(
        hub.CellFailed, match="large"
    ):  # the library shows its error without a traceback
        kernel.run({"id": "large", "source": "fl.measure.copy('400 MiB')"})
    still = {"id": "still", "source": "print(x, fl.measure.copy('8 MiB').obtained)"}
    kernel.run(still)
    assert "5 measured" in json.dumps(still["outputs"])
    kernel.close()
    student.stop_server()


def test_what_nobody_uses_ends_and_its_files_stay(programs, course):
    with hub.running_hub(programs, IDLE, root=course) as (address, place, server):
        hub.until(lambda: requests.get(f"{address}/hub/health", timeout=5).ok)
        student = hub.Student(address, "cleo")
        come(student)
        kernel = student.start_kernel(f"fabriclab/{LESSON}")
        kernel.run(
            {
                "id": "guess",
                "source": "import fabriclab as fl; fl.predict('31-above-bound', 3, 's')",
            }
        )
        progress = place / "homes" / "cleo" / "fabriclab-progress.json"
        guess = json.loads(progress.read_text())["predictions"]["31-above-bound"]

        def of_cleo():
            found = []
            for process in psutil.Process(server.pid).children(recursive=True):
                try:
                    if process.environ().get("JUPYTERHUB_USER") == "cleo":
                        found.append(process)
                except psutil.Error:
                    continue
            return found

        assert of_cleo()
        hub.until(lambda: not of_cleo(), 120)
        assert json.loads(progress.read_text())["predictions"]["31-above-bound"] == guess
        hub.until(student.has_no_server, 60)
        come(student)  # and the next day it starts again
        assert student.read(f"fabriclab/{LESSON}")
