"""What all tests share: no network, the same examples on every run."""

import gc
import importlib.util
import json
import os
import re
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
GUARD = ROOT / "tests" / "guard"
collect_ignore = ["guard", "support"]

# Tests and every Python process that they start are kept from leaving this machine.
os.environ["PYTHONPATH"] = os.pathsep.join([str(GUARD), os.environ.get("PYTHONPATH", "")]).rstrip(
    os.pathsep
)
_spec = importlib.util.spec_from_file_location("network_guard", GUARD / "sitecustomize.py")
assert _spec is not None and _spec.loader is not None
_spec.loader.exec_module(importlib.util.module_from_spec(_spec))

# A shared machine makes any deadline a coin toss, so there is none.
_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, database=None, max_examples=25, **_common)
_fresh = {**_common, "derandomize": False, "print_blob": True}
settings.register_profile("deep", max_examples=400, **_fresh)
settings.register_profile("release", max_examples=2000, **_fresh)
settings.load_profile("ci")


# Each worker of a test run collects all tests. Neither of these changes what is collected or run.


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected, nor ever after among what was collected: all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for examples in no file without any."""
    collectors = yield
    if file_path.suffix != ".py" or b">>> " in file_path.read_bytes():
        return collectors
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


@pytest.fixture(scope="session")
def pseudo(tmp_path_factory) -> str:
    """Return the file of a language 40% longer, with accents: what does not change, or does not fit, is found."""
    accents = str.maketrans("aeiouyAEIOUYnc", "áéíóúýÁÉÍÓÚÝñç")

    def longer(sentence: str) -> str:
        parts = re.split(r"(\{[^}]*\})", sentence)  # fields stay as they are
        words = "".join(part if i % 2 else part.translate(accents) for i, part in enumerate(parts))
        return words + "~" * (len(sentence) * 2 // 5)

    english = json.loads((ROOT / "fabriclab" / "texts_en.json").read_text(encoding="utf-8"))
    table = {key: "|".join(map(longer, sentence.split("|"))) for key, sentence in english.items()}
    table["language"] = "en-XA"  # as browsers call such a language
    file = tmp_path_factory.mktemp("language") / "pseudo.json"
    file.write_text(json.dumps(table), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the folder of the checkout."""
    return ROOT
