"""Imports of earlier versions: the error says what to write, and what it says works."""

import importlib
import re
import subprocess
import sys

import pytest

from fabriclab import moved

OLD = [
    "from fabriclab.checks import check",
    "from fabriclab.checks.store import held",
    "import fabriclab.exercises",
    "from fabriclab.exercises.graders.processes import Group, Link",
    "from fabriclab.exercises.graders.server import replay",
    "from fabriclab.exercises.graders.switches import trace",
    "from fabriclab.exercises.grading import commands",
    "from fabriclab.routing._ways import Search",
    "from fabriclab.collectives._algorithm import number",
]


@pytest.mark.parametrize("line", OLD)
def test_an_import_of_an_earlier_version_is_told_where_to_go(line):
    with pytest.raises(ModuleNotFoundError, match=r"fabriclab\.(course|routing|collectives)\."):
        exec(line, {})


def test_folders_that_an_earlier_version_has_left_are_no_packages(tmp_path):
    """After an update of a checkout, folders of compiled files stay, which Python takes for packages."""
    for folder in ("checks", "exercises/graders"):
        (tmp_path / folder / "__pycache__").mkdir(parents=True)
    code = f"import fabriclab; fabriclab.__path__.append({str(tmp_path)!r})\n"
    for line in OLD[:6]:
        done = subprocess.run([sys.executable, "-c", code + line], capture_output=True, text=True)
        assert "fabriclab.course." in done.stderr, (line, done.stderr)
    code += "import contextlib\nwith contextlib.suppress(ImportError): import fabriclab.checks\n"
    done = subprocess.run([sys.executable, "-c", code + "fabriclab.checks.progress"], check=True)


def test_what_the_sentences_offer_can_be_imported():
    for old, sentence in moved._NOW.items():
        for line in re.findall(r"^    (from .* import \w.*)$", sentence, re.MULTILINE):
            if not line.startswith(f"from {old}"):
                exec(line, {})
        for name in re.findall(r"now (fabriclab[\w.]*\w)", sentence):
            importlib.import_module(name)


def test_a_name_that_never_was_is_not_found_in_the_usual_words():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'fabriclab\.nothing'"):
        importlib.import_module("fabriclab.nothing")


def test_names_of_the_front_door_stay():
    from fabriclab import checks, exercises
    from fabriclab.course import checks as checks_now
    from fabriclab.course import judges

    assert (checks, exercises) == (checks_now, judges)
