"""A hardware constant stands in the catalog: a literal in library or lessons must say where it is from.

A line is let through by ``# source: ...`` or ``# illustrative: ...`` on it, or on the line above it.
"""

import ast
import json
import re
from pathlib import Path

import pytest

from fabriclab import catalog, units
from fabriclab.core.spec import si_factor

ROOT = Path(__file__).parents[1]
# What may stand without a comment, and why.
NOT_HARDWARE = {
    "fabriclab/units.py": "defines the units, so its examples and bounds are quantities",
}
BINARY_SIZE = re.compile(r"[\d.]+ [KMGT]iB")  # sizes of messages and buffers are questions, not facts of hardware
COMMENT = re.compile(r"#\s*(source|illustrative):\s*\S")


def hardware_rates():
    """Return the rates of the catalog as floats: in SI, and as quoted where the digits are telling."""
    specs = [s for t in catalog.tables() if t != "measured" for s in getattr(catalog, t).specs]
    rates = [s for s in specs if s.si and units.UNITS.get(s.unit.split(" per ")[0], ("",))[0] in ("rate", "speed")]
    si = {s.si for s in rates} | {s.value * si_factor(s.unit) for s in rates}
    quoted = {float(s.value) for s in rates}
    telling = {v for v in quoted if len(f"{v:.10g}".replace(".", "").strip("0")) >= 3 and (v % 1 or v >= 300)}
    return {v for v in si if not f"{v:e}".startswith("1.000000e")} | {v for v in telling if not _power(v)}


def _power(v):
    return v == int(v) and int(v) & (int(v) - 1) == 0


RATES = hardware_rates()


def docstrings(tree):
    """Return the nodes of all docstrings."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [n.body for n in ast.walk(tree) if isinstance(n, kinds)]
    return {id(b[0].value) for b in bodies if b and isinstance(b[0], ast.Expr)}


def is_quantity(text):
    """Tell whether a string is a rate, a time or a size of hardware, with its unit."""
    for quantity in ("rate", "time", "size"):
        try:
            return units.parse(text, quantity) != 0 and not BINARY_SIZE.fullmatch(text)
        except (ValueError, TypeError):
            continue
    return False


def findings(code, name):
    """Return 'name:line: literal' of every unsourced hardware constant in a piece of Python."""
    lines, tree, out = ["", *code.splitlines()], ast.parse(code), []
    skip = docstrings(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in skip or isinstance(node.value, bool):
            continue
        text, number = isinstance(node.value, str), isinstance(node.value, int | float)
        if (text and is_quantity(node.value)) or (number and float(node.value) in RATES):
            near = (lines[node.lineno], lines[node.lineno - 1])
            if not COMMENT.search(near[0]) and not (near[1].lstrip().startswith("#") and COMMENT.search(near[1])):
                out.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    return out


def cells():
    """Yield (name, code) of every code cell, without magics."""
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
            if cell["cell_type"] == "code" and not "".join(cell["source"]).startswith("%%"):
                code = re.sub(r"(?m)^\s*[%!].*$", "pass", "".join(cell["source"]))
                yield f"{path.relative_to(ROOT)} cell {i}", code


def test_library_has_no_unsourced_hardware_constant():
    paths = sorted([*(ROOT / "fabriclab").rglob("*.py"), *(ROOT / "exercises").rglob("*.py")])
    names = {p.relative_to(ROOT).as_posix(): p for p in paths}
    assert set(NOT_HARDWARE) <= set(names)
    found = [f for n, p in names.items() if n not in NOT_HARDWARE for f in findings(p.read_text(encoding="utf-8"), n)]
    assert not found, "take these from the catalog, or comment them with # source: or # illustrative:\n" + "\n".join(
        found
    )


def test_lessons_have_no_unsourced_hardware_constant():
    found = [f for name, code in cells() for f in findings(code, name)]
    assert not found, "take these from the catalog, or comment them with # source: or # illustrative:\n" + "\n".join(
        found
    )


@pytest.mark.parametrize(
    "code",
    ["nic = 50e9", "nic = 50_000_000_000", "link = dict(rate=450e9)", "f(400e9)", "hbm = 3.35e12", "peak = 989",
     "both = 900e9", "x = f(rate='400 Gb/s')", "t = ['500 ns']", "buffer = '64 MB'", "eff = 31.508"],
)  # fmt: skip
def test_the_scan_bites(code):
    assert len(findings(code, "x")) == 1
    assert findings(f"{code}  # source: catalog links", "x") == []
    assert findings(f"# illustrative: an invented part\n{code}", "x") == []
    assert len(findings(f"{code}  # source:", "x")) == 1
    assert len(findings(f"y = 1  # source: another line\n{code}", "x")) == 1


@pytest.mark.parametrize(
    "code",
    ['"""A NIC moves 400 Gb/s."""', "n = 8", "f('4 MiB')", "x = 1e9", "low = '0 B/s'", "say('400 Gb/s is a rate')"],
)
def test_what_is_no_hardware_constant_passes(code):
    assert findings(code, "x") == []
    assert findings(f"def f():\n    {code}", "x") == []


def test_the_catalog_gives_the_scan_its_numbers():
    assert {50e9, 450e9, 900e9, 400e9, 3.35e12, 989e12, 989.0} <= RATES
    assert not {1.0, 2.0, 8.0, 64.0, 100.0, 128.0, 512.0, 1e9} & RATES
