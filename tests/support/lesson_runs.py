"""Execute a lesson once for all its gates: outputs, time, memory of the kernel with its processes, progress file."""

import copy
import fcntl
import functools
import hashlib
import json
import math
import os
import pickle
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nbclient
import nbformat
import psutil
import pytest

from lesson_files import FILES, ROOT
from support import lesson_gates as gates

# What every lesson loads belongs to the start, as the kernel does; it defines no name.
START = "for module in ('measure', 'views'): __import__('importlib').import_module(f'fabriclab.{module}')\ndel module"


class Run(NamedTuple):
    """An executed notebook: time of its cells beyond the start [s], peak of its processes [B], progress, error."""

    nb: Any
    seconds: float
    peak: float
    progress: dict[str, Any]
    error: str


def pss(pid: int) -> float:
    """Return the proportional set size of a process and its descendants [B]; shared pages are counted once."""
    total = 0.0
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    for process in family:
        try:
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(
            1024.0 * int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")
        )
    return total


@contextmanager
def environment(*stays: str, **changes: str):
    """Set variables for the kernel, which inherits them, and put the old ones back.

    ``FABRICLAB_REVEAL`` is taken away, unless it is one of those that stay.
    """
    before = {name: os.environ.get(name) for name in [*changes, "FABRICLAB_REVEAL"]}
    if "FABRICLAB_REVEAL" not in stays:
        os.environ.pop("FABRICLAB_REVEAL", None)
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def begin_progress(store: Path, sealed: tuple[str, ...]) -> None:
    """Write a progress file in which ``sealed`` are predicted with "no idea", and nothing else is."""
    guess = {"value": None, "unit": None, "low": 0.1, "high": 1000.0}
    sections = {"predictions": dict.fromkeys(sealed, guess)} if sealed else {}
    store.write_text(json.dumps({"format": "fabriclab-progress", "version": 1, **sections}))


def sealed_predictions(nb: Any, before: dict[str, Any]) -> tuple[str, ...]:
    """Return the predictions that a lesson reveals, and that it or a lesson before it asks for."""
    shown = {**gates.where(nb, "reveal"), **gates.where(nb, "envelope")}
    known = set(gates.where(nb, "predict"))
    for other in before.values():
        known |= set(gates.where(other, "predict"))
    return tuple(id for id in shown if id in known)


def execute(nb: Any, folder: Path, *, text: bool = False, sealed: tuple[str, ...] = ()) -> Run:
    """Run a notebook in ``folder``, beside copies of the other lessons.

    ``sealed`` are predictions that are in the progress file already.
    """
    store = folder / "progress.json"
    begin_progress(store, sealed)
    nb = nbformat.from_dict(nb)
    nb.cells.insert(0, nbformat.v4.new_code_cell(START))
    client = nbclient.NotebookClient(nb, timeout=120, resources={"metadata": {"path": str(folder)}})
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    error, done = "", threading.Event()
    with environment(
        FABRICLAB_PROGRESS=str(store), FABRICLAB_TEXT="1" if text else "", PYTHONPATH=path
    ):
        with client.setup_kernel():
            pid, samples = client.km.provisioner.pid, [0.0]
            watch = threading.Thread(target=_watch, args=(pid, samples, done))
            watch.start()
            begin = time.perf_counter()
            try:
                for number, cell in enumerate(nb.cells):
                    client.execute_cell(cell, number)
                    begin = time.perf_counter() if number == 0 else begin
                client.set_widgets_metadata()
            except nbclient.exceptions.CellExecutionError as failure:
                error = str(failure)
            finally:
                nb.cells.pop(0)
                seconds = time.perf_counter() - begin
                done.set()
                watch.join()
    return Run(nb, seconds, max(samples), json.loads(store.read_text()), error)


def _watch(pid: int, samples: list[float], done: threading.Event) -> None:
    while not done.wait(0.05):
        samples.append(pss(pid))


def shared(key: str, folder: Path, make: Any) -> Any:
    """Return ``make()``, computed by one worker of the test run and read from ``folder`` by the others."""
    with (folder / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = folder / f"{key}.pickle"
        if not kept.exists():
            kept.write_bytes(pickle.dumps(make()))
        return pickle.loads(kept.read_bytes())


@functools.cache
def committed(name: str) -> Any:
    """Return a lesson as it is committed, read once for all who ask; nobody changes it."""
    return nbformat.read(FILES[name], as_version=nbformat.NO_CONVERT)


def load(name: str) -> Any:
    """Return a copy of a lesson, to change."""
    return copy.deepcopy(committed(name))


def earlier(name: str) -> dict[str, Any]:
    """Return the lessons before one, by name; nobody changes them."""
    return {other: committed(other) for other in FILES if other < name}


def digest(name: str) -> str:
    """Return what tells one version of a lesson from another."""
    return hashlib.sha256(FILES[name].read_bytes()).hexdigest()


def kept(name: str) -> Path:
    """Return the file in which nbval keeps a lesson that it ran."""
    return Path(os.environ["FABRICLAB_EXECUTED"]) / f"{name}.json"


def run_of_nbval(name: str) -> Run | None:
    """Return the run of a lesson that nbval has kept, if it is of the file as it is now."""
    if "FABRICLAB_EXECUTED" not in os.environ or not kept(name).exists():
        return None
    made = json.loads(kept(name).read_text("utf-8"))
    if made["source"] != digest(name):
        return None
    nb = nbformat.reads(made["nb"], as_version=nbformat.NO_CONVERT)
    return Run(nb, math.nan, math.nan, made["progress"], "")


def run(name: str, nb: Any, folder: Path, before: dict[str, Any], *, text: bool = False) -> Run:
    """Return the run of a lesson in one mode, made once for all tests; only as text nothing has been predicted.

    A run with pictures is nbval's, where it has kept one; it has no time and no memory.
    """
    if not text and (made := run_of_nbval(name)):
        return made
    return timed_run(name, nb, folder, before, text=text)


def timed_run(
    name: str, nb: Any, folder: Path, before: dict[str, Any], *, text: bool = False
) -> Run:
    """Return a run in a kernel of our own, made once for all tests, with its time and its memory."""

    def make() -> Run:
        place = folder / f"{name}-{'text' if text else 'full'}"
        place.mkdir()
        for path in FILES.values():
            shutil.copy(path, place)
        sealed = () if text else sealed_predictions(nb, before)
        return execute(nb, place, text=text, sealed=sealed)

    return shared(f"{name}-{text}", folder, make)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this test run share."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if base.name.startswith("popen-") else base) / "lessons"
    place.mkdir(exist_ok=True)
    return place
