"""A class on a JupyterHub: two learners work at the same time, and a lesson is corrected under their hands."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session

from support import ROOT

requests = pytest.importorskip("requests")  # both come with JupyterLab
websocket = pytest.importorskip("websocket")

pytestmark = pytest.mark.release
LESSON, EXERCISE = "notebooks/00_start_here.ipynb", "exercises/exercise1.ipynb"
NAMES = ("fabriclab-ada", "fabriclab-ben")
NEEDS = ("jupyterhub", "configurable-http-proxy", "nbgitpuller")
CONFIG = """
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_port = {ports[1]}
c.JupyterHub.db_url = "sqlite://"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.ConfigurableHTTPProxy.command = ["{programs}/configurable-http-proxy"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = {names}
c.JupyterHub.services = [{{"name": "class", "api_token": "{secret}"}}]
c.JupyterHub.load_roles = [{{"name": "class", "services": ["class"], "scopes": ["admin:users", "tokens"]}}]
c.JupyterHub.spawner_class = "{spawner}"
c.SimpleLocalProcessSpawner.home_dir_template = "{place}/{{username}}"
c.Spawner.args = ["--allow-root"]
# As docs/jupyterhub.md tells a teacher: lessons and exercises then keep their progress in one file.
c.Spawner.environment = {{"FABRICLAB_PROGRESS": lambda s: f"{place}/{{s.user.name}}/fabriclab-progress.json"}}
"""


def call(*command, **more):
    """Run a command without the guard that keeps tests off the network: pip is to fetch the hub."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPATH", "FABRICLAB_"))
    }
    return subprocess.run(
        [*map(str, command)], env=env, capture_output=True, text=True, timeout=600, **more
    )


def python_of_all():
    """Return a Python that every user of this machine may run, or None; only root can start servers as others."""
    if os.geteuid() == 0 and shutil.which("useradd"):
        for program in (sys._base_executable, "/usr/bin/python3", "/usr/local/bin/python3"):
            wanted = f"import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
            with contextlib.suppress(OSError):
                if call(program, "-c", wanted, user=65534, cwd="/").returncode == 0:
                    return program
    return None


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Yield the address of a hub, the token of its service, its folder, and whether its users are the system's."""
    place, secret = Path(tempfile.mkdtemp(prefix="fabriclab-hub-")), uuid.uuid4().hex
    place.chmod(0o755)  # pytest's own folders are closed to other users
    program, server, made = python_of_all(), None, []
    try:
        call(program or sys.executable, "-m", "venv", place / "env", check=True)
        programs = place / "env" / "bin"
        done = call(programs / "python", "-m", "pip", "install", "-q", *NEEDS, f"{ROOT}[lab]")
        if done.returncode:
            pytest.skip(
                f"JupyterHub could not be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
            )
        for name in NAMES:
            if program:
                call(
                    "useradd",
                    "--no-create-home",
                    "--home-dir",
                    place / name,
                    "--shell",
                    "/bin/sh",
                    name,
                    check=True,
                )
                made.append(name)
            (place / name).mkdir(mode=0o700)
            # the class's repository is another's
            (place / name / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
            if program:
                call("chown", "-R", name, place / name, check=True)
        with contextlib.ExitStack() as stack:
            free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
            ports = [one.getsockname()[1] for one in free]
        given = {
            "ports": ports,
            "programs": programs,
            "names": {*NAMES},
            "secret": secret,
            "place": place,
        }
        config = CONFIG.format(spawner="localprocess" if program else "simple", **given)
        (place / "jupyterhub_config.py").write_text(config)
        env = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""}
        env.pop("FABRICLAB_PROGRESS", None)
        with (place / "hub.log").open("w") as log:
            server = subprocess.Popen(
                [programs / "jupyterhub"], cwd=place, env=env, stdout=log, stderr=log
            )
        yield f"http://127.0.0.1:{ports[0]}", secret, place, bool(program)
    finally:
        if server:
            server.terminate()
            server.wait(30)
        for name in made:
            call("userdel", name)
        shutil.rmtree(place)  # 0.5 GB


def until(wanted, seconds=60):
    """Return the first true answer of a function that is asked again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(requests.ConnectionError):
            if found := wanted():
                return found
        time.sleep(0.3)
    pytest.fail(f"nothing came in {seconds} s")


class Learner:
    """What a browser does for a learner: asks the hub, JupyterLab's contents and a kernel."""

    def __init__(self, hub, name):
        self.address, secret, place, _ = hub
        self.name, self.home, self.token = name, place / name, secret
        self.ask("post", f"hub/api/users/{name}", (201, 409))
        self.token = self.ask("post", f"hub/api/users/{name}/tokens", (201,), json={}).json()[
            "token"
        ]
        self.ask("post", f"hub/api/users/{name}/server", (201, 202))
        until(
            lambda: (
                self.ask("get", f"hub/api/users/{name}").json()["servers"].get("", {}).get("ready")
            )
        )

    def ask(self, method, path, accepted=(200, 201, 204), **more):
        headers = {"Authorization": f"token {self.token}"}
        answer = requests.request(
            method, f"{self.address}/{path}", headers=headers, timeout=120, **more
        )
        assert answer.status_code in accepted, f"{path}: {answer.status_code} {answer.text[:500]}"
        return answer

    def own(self, method, path, **more):
        return self.ask(method, f"user/{self.name}/{path}", **more)

    def pull(self, repository):
        """Follow the link of the class, as nbgitpuller serves it."""
        params = {"repo": str(repository), "branch": "main", "targetpath": "course"}
        assert '"phase": "finished"' in (
            said := self.own("get", "git-pull/api", params=params).text
        ), said

    def open(self, path):
        return self.own("get", f"api/contents/course/{path}").json()["content"]

    def save(self, path, book):
        self.own("put", f"api/contents/course/{path}", json={"type": "notebook", "content": book})

    @contextlib.contextmanager
    def kernel(self, path):
        """Yield what runs a cell and keeps its outputs, in the kernel of a notebook."""
        asked = {
            "path": f"course/{path}",
            "name": path,
            "type": "notebook",
            "kernel": {"name": "python3"},
        }
        session = self.own("post", "api/sessions", json=asked).json()
        messages, channels = (
            Session(),
            f"user/{self.name}/api/kernels/{session['kernel']['id']}/channels",
        )
        header = {"Authorization": f"token {self.token}"}
        line = websocket.create_connection(
            f"ws{self.address[4:]}/{channels}", header=header, timeout=120
        )

        def run(cell):
            asked = messages.msg("execute_request", {"code": cell["source"], "silent": False}) | {
                "channel": "shell"
            }
            line.send(json.dumps(asked, default=json_default))
            cell["outputs"] = []
            while True:
                if isinstance(message := line.recv(), bytes):
                    continue  # the numbers of a live view
                message = json.loads(message)
                kind, said = message["msg_type"], message["content"]
                if message["parent_header"].get("msg_id") != asked["msg_id"]:
                    continue
                assert kind != "error", f"{cell['id']}: {said}"
                if kind == "execute_input":
                    cell["execution_count"] = said["execution_count"]
                elif kind in ("stream", "display_data", "execute_result"):
                    said.pop("transient", None)
                    cell["outputs"].append({"output_type": kind, **said})
                elif kind == "status" and said["execution_state"] == "idle":
                    return

        try:
            yield run
        finally:
            line.close()
            self.own("delete", f"api/sessions/{session['id']}")


def named(book):
    return {cell["id"]: cell for cell in book["cells"]}


def study(learner):
    """Run and edit the first lesson, and solve a question of the exercise: ada at once, ben at the second try."""
    book = learner.open(LESSON)
    named(book)["00-jitter"]["source"] = named(book)["00-jitter"]["source"].replace(
        "workers = 8 ", "workers = 64", 1
    )
    with learner.kernel(LESSON) as run:
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                run(cell)
    learner.save(LESSON, book)
    book = learner.open(EXERCISE)
    cells = named(book)
    with learner.kernel(EXERCISE) as run:
        run(cells["ex1-setup"]), run(cells["ex1-tools"])
        solved = "".join(
            named(json.loads((ROOT / "solutions/exercise1.ipynb").read_bytes()))["ex1-c"]["source"]
        )
        wrong = [solved.replace("alpha * beta", "alpha / beta")] * (learner.name == NAMES[1])
        for source in [*wrong, solved]:
            cells["ex1-c"]["source"] = source
            run(cells["ex1-c"]), run(cells["ex1-c-test"])
    learner.save(EXERCISE, book)
    return (learner.home / "fabriclab-progress.json").read_text()


def git(folder, *command):
    call(
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        *command,
        cwd=folder,
        check=True,
    )


@pytest.fixture(scope="module")
def learners(hub):
    """Return two learners after a lesson, an exercise and a correction of both, and their progress before that."""
    address, _, place, _ = hub
    until(lambda: requests.get(f"{address}/hub/health", timeout=5).ok)
    course = place / "upstream"
    for path in (LESSON, EXERCISE, ".gitignore"):
        (course / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, course / path)
    (
        git(course, "init", "-q", "-b", "main"),
        git(course, "add", "."),
        git(course, "commit", "-qm", "Lessons"),
    )

    def first(name):
        learner = Learner(hub, name)
        learner.pull(course)
        return learner, study(learner)

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(first, NAMES))
    for path, old, new in (
        (LESSON, "workers = 8 ", "workers = 16"),  # a line that the learners changed
        (LESSON, "there are four traps in them", "there are five traps in them"),
        (EXERCISE, "What may you predict?", "What may you foretell?"),
    ):
        text = (course / path).read_text()
        assert text.count(old) == 1
        (course / path).write_text(text.replace(old, new))
    git(course, "commit", "-qam", "Corrected")
    for learner, _ in found:
        learner.pull(course)
    return found


def test_what_was_answered_is_in_the_progress_of_each(learners):
    tries = []
    for learner, before in learners:
        assert (learner.home / "fabriclab-progress.json").read_text() == before
        held = json.loads(before)
        assert {"copy", "sockets"} <= held["measurements"].keys()
        assert held["checks"]["ex1-c"]["right"]
        tries.append(held["checks"]["ex1-c"]["tries"])
    assert tries == [1, 2]


def test_a_corrected_lesson_keeps_what_was_edited(learners):
    for learner, _ in learners:
        lesson, exercise = learner.open(LESSON), learner.open(EXERCISE)
        assert (
            "workers = 64" in named(lesson)["00-jitter"]["source"]
            and named(lesson)["00-jitter"]["outputs"]
        )
        assert "five traps" in named(lesson)["00-ruler-ask"]["source"]
        assert (
            "np.polyfit" in named(exercise)["ex1-c"]["source"]
            and named(exercise)["ex1-c-test"]["outputs"]
        )
        assert "foretell" in named(exercise)["ex1-c-ask"]["source"]
        for book, path in ((lesson, LESSON), (exercise, EXERCISE)):
            ids = [cell["id"] for cell in json.loads((ROOT / path).read_bytes())["cells"]]
            assert [cell["id"] for cell in book["cells"]] == ids


def test_a_renamed_lesson_comes_fresh(hub, learners):
    learner = learners[0][0]
    learner.own(
        "patch", f"api/contents/course/{LESSON}", json={"path": "course/notebooks/mine.ipynb"}
    )
    learner.pull(hub[2] / "upstream")
    assert "workers = 64" in named(learner.open("notebooks/mine.ipynb"))["00-jitter"]["source"]
    assert "workers = 16" in named(learner.open(LESSON))["00-jitter"]["source"]


def test_nobody_sees_the_progress_of_another(hub, learners):
    (ada, _), (ben, _) = learners
    for one, other in ((ada, ben), (ben, ada)):
        one.own("get", "api/contents/fabriclab-progress.json")
        one.ask("get", f"user/{other.name}/api/contents/fabriclab-progress.json", (403, 404))
        if hub[3]:  # nor past the hub, where each learner is a user of the system
            assert (
                call("cat", one.home / "fabriclab-progress.json", user=one.name, cwd="/").returncode
                == 0
            )
            assert call(
                "cat", other.home / "fabriclab-progress.json", user=one.name, cwd="/"
            ).returncode
