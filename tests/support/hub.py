"""A JupyterHub of a test, and what a browser does for a student: signs in, waits, opens a notebook, runs cells."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support import ROOT

NEEDED = ("jupyterhub", "nbgitpuller", "jupyterlab", "numba")
PROXY = "configurable-http-proxy"
CONFIG = """
import runpy
import time
from jupyterhub.spawner import SimpleLocalProcessSpawner
c = get_config()
given = runpy.run_path("{root}/binder/jupyterhub_config.py", {{"get_config": get_config}})


def note(what):
    with open("{place}/starts.log", "a") as log:
        log.write(f"{{time.monotonic()}} {{what}}\\n")


class Noted(SimpleLocalProcessSpawner):
    async def start(self):
        note(1)
        return await super().start()


class Spawner(given["InTurn"], Noted):
    async def start(self):
        answer = await super().start()
        note(-1)
        return answer


c.JupyterHub.spawner_class = Spawner
c.SimpleLocalProcessSpawner.home_dir_template = "{place}/homes/{{username}}"
c.Spawner.environment["FABRICLAB_PROGRESS"] = lambda s: f"{place}/homes/{{s.user.name}}/fabriclab-progress.json"
c.Spawner.args.append("--allow-root")
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_port = {ports[1]}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.JupyterHub.db_url = "sqlite:///{place}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{place}/cookie_secret"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
{more}
"""


def call(*command, **more):
    """Run a command without the guard that keeps tests off the network: pip is to fetch the hub."""
    return subprocess.run(
        [*map(str, command)], env=clean(), capture_output=True, text=True, timeout=900, **more
    )


def clean():
    """Return the environment without what the tests have set for themselves."""
    kept = {}
    for name, value in os.environ.items():
        if not name.startswith(("PYTHONPATH", "FABRICLAB_", "JUPYTER")):
            kept[name] = value
    return kept


def programs_with_hub(place):
    """Return the folder of a Python with JupyterHub, this one or one made in ``place``; else say why there is none."""
    programs = Path(sys.executable).parent
    if not all(importlib.util.find_spec(name) for name in NEEDED):
        programs = place / "env" / "bin"
        call(sys.executable, "-m", "venv", place / "env", check=True)
        done = call(programs / "python", "-m", "pip", "install", "-q", "-e", f"{ROOT}[lab,mpi,hub]")
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["?"])[-1]
            return f"JupyterHub could not be installed: {last}"
        call(programs / "python", "-m", "fabriclab.compiled", check=True, cwd="/")
    if not (programs / PROXY).exists() and not shutil.which(PROXY):
        if programs.parent.parent != place or not shutil.which("npm"):
            return f"{PROXY} is not installed: npm install -g --prefix {programs.parent} {PROXY}"
        done = call("npm", "install", "--no-audit", "-g", "--prefix", programs.parent, PROXY)
        if done.returncode:
            return f"{PROXY} could not be installed: {done.stderr[-300:]}"
    return programs


@contextlib.contextmanager
def running_hub(programs, more="", env=(), root=ROOT):
    """Start a hub with binder/jupyterhub_config.py and yield its address and its folder; all that it started ends."""
    place = Path(tempfile.mkdtemp(prefix="fabriclab-hub-"))
    (place / "homes").mkdir()
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [one.getsockname()[1] for one in free]
    config = place / "config.py"
    config.write_text(CONFIG.format(root=root, place=place, ports=ports, more=more))
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    server = None
    try:
        with (place / "hub.log").open("w") as log:
            server = subprocess.Popen(
                [programs / "jupyterhub", "-f", config],
                cwd=place,
                env={**clean(), "PATH": path, **dict(env)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        yield f"http://127.0.0.1:{ports[0]}", place, server
    finally:
        if server:
            server.terminate()
            try:
                server.wait(120)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        shutil.rmtree(place, ignore_errors=True)


def most_at_once(place):
    """Return how many servers were starting at the same time, at most."""
    now = most = 0
    for line in sorted(
        (place / "starts.log").read_text().splitlines(), key=lambda x: float(x.split()[0])
    ):
        now += int(line.split()[1])
        most = max(most, now)
    return most


def until(wanted, seconds=60.0, every=0.3):
    """Return the first true answer of a function that is asked again and again."""
    import requests

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(requests.ConnectionError):
            if found := wanted():
                return found
        time.sleep(every)
    raise TimeoutError(f"nothing came in {seconds} s")


class CellFailed(Exception):
    """A cell ended in an error."""


class Kernel:
    """The channels of a running kernel: cells go in, outputs come back."""

    def __init__(self, address, header, timeout=600.0):
        import websocket
        from jupyter_client.session import Session

        self.messages = Session()
        self.line = websocket.create_connection(address, header=header, timeout=timeout)

    def run(self, cell):
        """Run a cell, and keep its outputs in it; return seconds until the first of them (or the end), and in all."""
        from jupyter_client.jsonutil import json_default

        asked = self.messages.msg("execute_request", {"code": source(cell), "silent": False})
        asked |= {"channel": "shell"}
        begun = time.monotonic()
        first = None
        self.line.send(json.dumps(asked, default=json_default))
        cell["outputs"] = []
        idle = replied = False
        while not (idle and replied):
            message = self.line.recv()
            if isinstance(message, bytes):
                continue  # the numbers of a live view
            message = json.loads(message)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != asked["msg_id"]:
                continue
            if kind == "error":
                raise CellFailed(f"{cell['id']}: {content['ename']}: {content['evalue']}")
            if kind == "execute_input":
                cell["execution_count"] = content["execution_count"]
            elif kind in ("stream", "display_data", "execute_result"):
                first = first or time.monotonic() - begun
                content.pop("transient", None)
                cell["outputs"].append({"output_type": kind, **content})
            elif kind == "execute_reply":
                replied = True
                if content["status"] != "ok":  # an error of the library shows itself in its own way
                    raise CellFailed(
                        f"{cell['id']}: {content.get('ename')}: {content.get('evalue')}"
                    )
            elif kind == "status" and content["execution_state"] == "idle":
                idle = True
        took = time.monotonic() - begun
        return first or took, took

    def close(self):
        """Close the connection; the kernel stays."""
        self.line.close()


def source(cell):
    """Return the code of a cell, which a file holds in lines and the server as one text."""
    return "".join(cell["source"])


def named(book):
    """Return the cells of a notebook by their ids."""
    return {cell["id"]: cell for cell in book["cells"]}


class Student:
    """A student with a browser: one session of cookies, as the pages of the hub and of JupyterLab use it."""

    def __init__(self, address, name):
        self.address = address
        self.name = name
        self.session = None

    def get(self, path, **more):
        """Return a page; what is refused raises an error."""
        answer = self.session.get(f"{self.address}/{path}", timeout=600, **more)
        answer.raise_for_status()
        return answer

    def sign_in(self):
        """Sign in anew, and follow the page "starting" until the server is ready."""
        import requests

        self.session = requests.Session()
        page = self.get("hub/login").text
        token = re.search(r'name="_xsrf" value="([^"]+)"', page)[1]
        form = {"username": self.name, "password": "x", "_xsrf": token}
        self.session.post(
            f"{self.address}/hub/login?next=/hub/spawn", data=form, timeout=600
        ).raise_for_status()
        page = self.get(f"hub/spawn/{self.name}").text
        if found := re.search(r'progressUrl = "([^"]+)"|EventSource\("([^"]+)"\)', page):
            self._wait(json.loads(f'"{found[1] or found[2]}"').replace("&amp;", "&"))

    def _wait(self, progress):
        """Read the progress that the page "starting" shows, until the server is ready."""
        with self.session.get(f"{self.address}{progress}", stream=True, timeout=900) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if line.startswith(b"data:"):
                    event = json.loads(line[5:])
                    if event.get("failed"):
                        raise RuntimeError(f"the server of {self.name} did not start: {event}")
                    if event.get("ready"):
                        return
        raise RuntimeError(f"the server of {self.name} never said that it is ready")

    def open_lab(self, path, programs=()):
        """Open the page of JupyterLab, load programs of it as a browser does, and ask for what it asks at its start."""
        self.get(f"user/{self.name}/lab/tree/{path}")
        for program in programs:
            self.get(f"user/{self.name}/static/lab/{program}")
        for part in ("kernelspecs", "sessions", "contents", "kernels"):
            self.get(f"user/{self.name}/api/{part}")
        self.get(f"user/{self.name}/lab/api/settings")

    def _cookies(self):
        """Return the cookies of the student's server: the narrower path counts."""
        kept = {}
        for cookie in sorted(self.session.cookies, key=lambda cookie: len(cookie.path)):
            if f"/user/{self.name}/".startswith(cookie.path):
                kept[cookie.name] = cookie.value
        return kept

    def own(self, method, path, **more):
        """Ask the student's own server."""
        answer = self.session.request(
            method,
            f"{self.address}/user/{self.name}/api/{path}",
            headers={"X-XSRFToken": self._cookies().get("_xsrf", "")},
            timeout=600,
            **more,
        )
        answer.raise_for_status()
        return answer

    def read(self, path):
        """Return a notebook."""
        return self.own("get", f"contents/{path}").json()["content"]

    def save(self, path, book):
        """Save a notebook."""
        self.own("put", f"contents/{path}", json={"type": "notebook", "content": book})

    def _hub(self, method):
        """Ask the hub about the student's server, as the hub's home page does."""
        page = self.get("hub/home").text
        token = re.search(r'xsrf_token: "([^"]+)"', page)[1]
        return self.session.request(
            method,
            f"{self.address}/hub/api/users/{self.name}" + ("/server" if method == "delete" else ""),
            headers={"X-XSRFToken": token, "Referer": f"{self.address}/hub/home"},
            timeout=60,
        )

    def has_no_server(self):
        """Return whether the hub knows of no server of the student, running or on its way."""
        answer = self._hub("get")
        answer.raise_for_status()
        found = answer.json()
        return not found["server"] and not found["pending"]

    def stop_server(self):
        """Stop the server, as the button of the hub's home page does, and wait until it has stopped."""
        self._hub("delete").raise_for_status()
        until(self.has_no_server)

    def start_kernel(self, path):
        """Return the channels of a new kernel for a notebook, and its process stays until the server ends."""
        asked = {
            "path": path,
            "name": path,
            "type": "notebook",
            "kernel": {"name": "python3"},
        }
        session = self.own("post", "sessions", json=asked).json()
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies().items())
        kernel = Kernel(
            f"ws{self.address[4:]}/user/{self.name}/api/kernels/{session['kernel']['id']}/channels",
            [f"Cookie: {cookies}"],
        )
        kernel.session = session["id"]
        return kernel

    def shut_down(self, kernel):
        """End a kernel, as "Close and Shut Down Notebook" does."""
        kernel.close()
        self.own("delete", f"sessions/{kernel.session}")
