"""Tracebacks in a notebook: short where an argument was refused, whole for everything else."""

import re
import subprocess
import sys

import nbclient
import nbformat
import pytest

from fabriclab import tracebacks
from fabriclab.errors import FabricError

SETUP = """import sys, types
import fabriclab as fl
inside = types.ModuleType("fabriclab.inside")
sys.modules["fabriclab.inside"] = inside
exec(compile('''
from fabriclab.errors import NoPath
def refuse(kind=ValueError):
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise kind("n must be > 0, got 0") from error
def deeper(*args): return refuse(*args)
def broken(): return None + 1
def numpys(): import numpy; return numpy.zeros(2).reshape(3)
def calls(f): return f()
''', "inside.py", "exec"), inside.__dict__)"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Return a function that runs code in one kernel and returns the lines of the error that it shows."""
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SETUP)])
    client = nbclient.NotebookClient(
        nb, resources={"metadata": {"path": str(tmp_path_factory.mktemp("kernel"))}}
    )

    def run(code):
        cell = nbformat.v4.new_code_cell(code)
        nb.cells.append(cell)
        with pytest.raises(
            nbclient.exceptions.CellExecutionError
        ):  # the kernel still says that the cell failed
            client.execute_cell(cell, len(nb.cells) - 1)
        return next(output for output in cell.outputs if output.output_type == "error")

    with client.setup_kernel():
        client.execute_cell(nb.cells[0], 0)
        yield run


def words(output):
    return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(output.traceback))


@pytest.mark.parametrize("kind", ["ValueError", "TypeError", "inside.NoPath"])
def test_a_refused_argument_shows_the_own_line_and_the_sentence(shown, kind):
    output = shown(f"n = 0\ninside.deeper({kind})")
    text = words(output)
    assert "2 inside.deeper(" in text and text.rstrip().endswith("n must be > 0, got 0")
    assert "inside.py" not in text and "ZeroDivision" not in text and text.count("\n") < 10
    assert (output.ename, output.evalue) == (kind.split(".")[-1], "n must be > 0, got 0")
    # %tb shows what was left out
    assert words(shown("%tb\nraise KeyError")).count("inside.py") >= 3


def test_a_real_call_is_short(shown):
    text = words(shown("hall = 3\nfl.topologies.build('fat_tre')"))
    assert "2 fl.topologies.build" in text and "fabriclab/" not in text


@pytest.mark.parametrize(
    "call", ["broken()", "numpys()", "calls(lambda: int('x'))", "refuse(KeyError)"]
)
def test_an_error_that_is_no_refusal_is_shown_whole(shown, call):
    assert "inside.py" in words(shown(f"inside.{call}"))


def test_a_setting_shows_all(shown):
    text = words(shown("import os\nos.environ['FABRICLAB_TRACEBACK'] = '1'\ninside.deeper()"))
    assert "inside.py" in text and "ZeroDivisionError" in text
    words(shown("del os.environ['FABRICLAB_TRACEBACK']\ninside.deeper()"))


def test_what_a_learner_raises_is_shown_as_ever(shown):
    text = words(shown("def own():\n    raise ValueError('mine')\nown()"))
    assert "in own()" in text and "mine" in text


def test_a_sentence_of_a_check_stays_one_line(shown):
    assert words(shown("fl.predict('00-copy', 1, 's')")).count("\n") == 0


def test_the_error_itself_is_not_changed():
    class Shell:
        def showtraceback(self, given, tb_offset):
            self.given = given

    try:
        raise FabricError("no") from KeyError("k")
    except FabricError as caught:
        error, shell = caught, Shell()
    # This test is no module of the package, so the whole traceback is shown.
    tracebacks._show(shell, FabricError, error, error.__traceback__)
    assert shell.given[2] is error.__traceback__ and isinstance(error.__cause__, KeyError)
    assert tracebacks.outside(error.__traceback__).tb_lineno == error.__traceback__.tb_lineno
    assert not tracebacks.refused(None) and tracebacks.outside(None) is None


def test_without_a_notebook_nothing_is_loaded(root):
    code = "import sys, fabriclab; print('fabriclab.tracebacks' in sys.modules, 'IPython' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
