"""The device in software beside pyverbs: which of them one gets, and that both know the same names and arguments."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from fabriclab import rdma
from fabriclab.rdma import adapter

PYTHON = "/usr/bin/python3"  # Debian's pyverbs is built for this one
LOOK = """
def look(made, names):
    found = {}
    for call, (fields, _) in made.items():
        try:
            one = eval(call, dict(names))
            values = [v if isinstance(v, str) else int(v) for v in (getattr(one, f) for f in fields.split())]
        except TypeError as error:
            values = type(error).__name__
        found[call] = [fields, values]
    return found
"""
LIVE = """
import importlib, json, sys
asked = json.loads(sys.stdin.read())
modules = {home: importlib.import_module("pyverbs." + home) for home in asked["homes"]}
names = {name: getattr(modules[home], name) for home, names in asked["homes"].items() for name in names.split()}
enums = importlib.import_module("pyverbs.enums")
def unknown(name, arguments):  # each is None, which is refused only after the names are known
    try:
        names[name](**dict.fromkeys(arguments))
    except TypeError as error:
        return "unexpected keyword" in str(error)
public = lambda thing: sorted(name for name in dir(thing) if name[0] != "_" and name != "set_log_level")
print(json.dumps({
    "enums": {name: {m.name: m.value for m in getattr(enums, name)} for name in asked["enums"]},
    "classes": {name: public(names[name]) for name in asked["classes"]},
    "made": look(asked["made"], names),
    "unknown": {name: [unknown(name, a), unknown(name, [*a, "more"])] for name, a in asked["takes"].items()},
}))
"""


def test_without_pyverbs_one_gets_the_device_in_software_and_is_told_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    verbs = rdma.use()
    assert repr(verbs).startswith("<Verbs: the device in software: pyverbs finds no device (")
    assert (verbs.MR, verbs.enums, verbs.DEVICE) == (rdma.MR, rdma.enums, rdma.DEVICE)
    with pytest.raises(
        rdma.PyverbsUserError, match="there is no device 'mlx5_0'; there are fabriclab0"
    ):
        rdma.use("mlx5_0")
    with pytest.raises(AttributeError, match="has no 'Process'; it has AH"):
        _ = verbs.Process


@pytest.fixture
def fake(monkeypatch):
    """Put modules in place of those of pyverbs, with two devices."""
    for home, names in (*adapter._HOMES.items(), ("enums", "")):
        module = ModuleType(f"pyverbs.{home}")
        vars(module).update({name: f"{home}.{name}" for name in names.split()})
        monkeypatch.setitem(sys.modules, f"pyverbs.{home}", module)
    monkeypatch.setitem(sys.modules, "pyverbs", ModuleType("pyverbs"))
    devices = [SimpleNamespace(name=b"mlx5_0"), SimpleNamespace(name=b"mlx5_1")]
    sys.modules["pyverbs.device"].get_device_list = lambda: devices
    return sys.modules


def test_where_a_device_is_one_gets_it(fake):
    verbs = rdma.use()
    assert (repr(verbs), verbs.DEVICE) == ("<Verbs: mlx5_0, by pyverbs>", "mlx5_0")
    assert (verbs.Context, verbs.WC, verbs.enums) == (
        "device.Context",
        "cq.WC",
        fake["pyverbs.enums"],
    )
    assert rdma.use("mlx5_1").DEVICE == "mlx5_1"
    assert rdma.use(rdma.DEVICE).Context is rdma.Context
    with pytest.raises(rdma.PyverbsUserError, match="there are mlx5_0, mlx5_1, fabriclab0"):
        rdma.use("mlx5_2")


def test_a_list_of_devices_that_fails_leads_to_software(fake):
    def fails():
        raise OSError("no driver")

    fake["pyverbs.device"].get_device_list = fails
    assert (
        repr(rdma.use()) == "<Verbs: the device in software: pyverbs finds no device (no driver)>"
    )


@pytest.fixture
def known(root):
    """Return the table of what pyverbs is."""
    return json.loads((root / "tests/data/pyverbs.json").read_text())


def test_what_needs_no_device_takes_the_arguments_of_pyverbs_and_holds_the_same(known):
    ours = dict(vars(rdma.use(rdma.DEVICE)))
    exec(LOOK, ours)
    assert ours["look"](known["made"], ours) == known["made"]
    assert {
        name: list(inspect.signature(getattr(rdma, name)).parameters) for name in known["takes"]
    } == known["takes"]


@pytest.mark.slow
def test_the_table_is_what_debians_pyverbs_says(known):
    if (
        not Path(PYTHON).exists()
        or subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True).returncode
    ):
        pytest.skip(
            "the system's Python has no pyverbs; on Debian and Ubuntu: apt install python3-pyverbs"
        )
    asked = json.dumps({**known, "homes": adapter._HOMES})
    run = subprocess.run([PYTHON, "-c", LOOK + LIVE], input=asked, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    live = json.loads(run.stdout)
    assert live.pop("unknown") == {name: [False, True] for name in known["takes"]}
    for kind, found in live.items():
        assert found == known[kind]
