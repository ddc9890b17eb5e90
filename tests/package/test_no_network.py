"""Lessons run without any connection beyond this machine, and the guard that says so can see one."""

import os
import socket
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from support import ROOT

ALWAYS = ("00_start_here",)  # the others run so in make test-all
FOLDER = ROOT / "notebooks"
OTHERS = sorted(p.stem for p in FOLDER.glob("*.ipynb") if p.stem not in ALWAYS)
CASES = [*ALWAYS, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]


def attempts(book: nbformat.NotebookNode, folder: Path, log: Path, progress: Path) -> list[str]:
    """Run a notebook in a guarded kernel and return what it tried to reach."""
    # The kernel inherits PYTHONPATH with the guard from conftest.py, and so do its child processes.
    env = dict(
        os.environ, NETWORK_LOG=str(log), FABRICLAB_REVEAL="1", FABRICLAB_PROGRESS=str(progress)
    )
    client = NotebookClient(
        book, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=env)
    return log.read_text().splitlines() if log.exists() else []


def book_of(*cells: str) -> nbformat.NotebookNode:
    """Return a notebook with these code cells."""
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


@pytest.mark.parametrize("lesson", CASES)
def test_lesson_reaches_for_no_network(lesson, tmp_path):
    book = nbformat.read(FOLDER / f"{lesson}.ipynb", as_version=4)
    assert attempts(book, FOLDER, tmp_path / "log", tmp_path / "progress.json") == []


def test_guard_sees_a_kernel_and_its_children(tmp_path):
    direct = "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 9), timeout=0.1)\nexcept OSError: pass"
    name = "try:\n    socket.getaddrinfo('fabriclab.invalid', 80)\nexcept OSError: pass"
    child = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {direct!r}], check=True)"
    )
    local = "s = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname()).close()\ns.close()"
    found = attempts(
        book_of(direct, name, child, local), tmp_path, tmp_path / "log", tmp_path / "progress.json"
    )
    # create_connection asks for the address first, so each attempt is stopped at the question already.
    assert [line.split(" (")[0] for line in found] == ["network blocked: socket.getaddrinfo"] * 3
    assert ["192.0.2.1" in line for line in found] == [True, False, True]


def test_guard_refuses_here_too():
    with pytest.raises(PermissionError, match=r"network blocked: socket\.getaddrinfo"):
        socket.getaddrinfo("fabriclab.invalid", 80)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with pytest.raises(PermissionError, match=r"network blocked: socket\.connect"):
            probe.connect(("192.0.2.1", 9))
        with pytest.raises(PermissionError, match=r"network blocked: socket\.sendto"):
            probe.sendto(b"", ("192.0.2.1", 9))


def test_guard_lets_this_machine_talk_to_itself():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        client.sendall(b"x")
        assert server.accept()[0].recv(1) == b"x"
    if hasattr(socket, "AF_UNIX") and sys.platform == "linux":
        left, right = socket.socketpair()
        left.sendall(b"y")
        assert right.recv(1) == b"y"
        left.close()
        right.close()
