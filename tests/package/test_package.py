"""The package as a whole: its version, what importing costs, and what is committed."""

import inspect
import json
import os
import re
import statistics
import subprocess
import sys
import tomllib
import zipfile

import pytest

import fabriclab

HEAVY = (
    "matplotlib",
    "networkx",
    "scipy",
    "ipywidgets",
    "anywidget",
    "numba",
    "pandas",
    "torch",
    "mpi4py",
    "yaml",
)
TIMED = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
LOADED = f"import sys; print([m for m in {HEAVY!r} if m in sys.modules])"


def python(code: str, *, cwd) -> str:
    """Return what a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def tracked(root):
    """Return the text of every tracked file by its path; files that are not text are left out."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    texts = {}
    for name in filter(None, done.stdout.split("\0")):
        path = root / name
        if path.is_file():
            raw = path.read_bytes()
            if b"\0" not in raw:
                texts[name] = raw.decode("utf-8")
    return texts


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """Return the names of the files in the wheel, built as an installer would build it."""
    out = tmp_path_factory.mktemp("wheel")
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(out)!r}))"
    return zipfile.ZipFile(out / python(code, cwd=root).splitlines()[-1]).namelist()


# ------------------------------------------------------------------ version and names


def test_one_version_everywhere(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "fabriclab/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", fabriclab.__version__)
    heading = rf"^## {re.escape(fabriclab.__version__)} \((.*)\)$"
    (said,) = re.findall(heading, (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = f'version: "{fabriclab.__version__}"'
    if said != "not released":  # the day of a release is that of its citation
        cited += f'\ndate-released: "{said}"'
    assert cited in (root / "CITATION.cff").read_text()


def test_every_public_name_is_there():
    for name in fabriclab.__all__:
        assert getattr(fabriclab, name) is not None
        assert name in dir(fabriclab)


def test_a_wrong_name_is_answered_with_the_list():
    with pytest.raises(AttributeError, match=r"no 'topology'.*topologies"):
        _ = fabriclab.topology


def test_module_prints_its_version(root):
    done = subprocess.run(
        [sys.executable, "-m", "fabriclab", "--version"], cwd=root, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"fabriclab {fabriclab.__version__}"


def test_readme_example_gives_what_it_says(root, monkeypatch, capsys):
    code = (root / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.setattr(fabriclab.measure, "copy", lambda: None)
    exec(code, {})
    said, least, most = re.search(
        r"# ([\d.]+ ms) \(([\d.]+) to ([\d.]+)\): what NCCL", code
    ).groups()
    assert f": {said} ({least} ms to {most} ms) " in capsys.readouterr().out.splitlines()[0]


# ------------------------------------------------------------------ cost of the import


@pytest.mark.alone
def test_import_takes_at_most_twice_numpy(root):
    pairs = [
        (
            float(python(TIMED.format("fabriclab"), cwd=root)),
            float(python(TIMED.format("numpy"), cwd=root)),
        )
        for _ in range(7)
    ]
    ratio = statistics.median(ours / numpy for ours, numpy in pairs)
    assert ratio <= 2, f"median ratio {ratio:.2f} over {len(pairs)} interleaved pairs"


def test_import_loads_nothing_heavy(root):
    assert python(f"import fabriclab; {LOADED}", cwd=root) == "[]"


def test_no_module_but_views_loads_anything_heavy(root):
    package = root / "fabriclab"
    paths = sorted(package.rglob("*.py"))
    names = [
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for path in paths
    ]
    light = [name for name in names if ".views" not in name and not name.endswith("__main__")]
    code = f"import importlib\nfor name in {light!r}: importlib.import_module(name)\n{LOADED}"
    assert python(code, cwd=root) == "[]"


# ------------------------------------------------------------------ what is shipped


def test_wheel_holds_every_tracked_file_of_the_package(wheel, tracked):
    assert "fabriclab/py.typed" in wheel
    missing = [name for name in tracked if name.startswith("fabriclab/") and name not in wheel]
    assert missing == []


def test_wheel_holds_the_package_and_nothing_else(wheel):
    assert {name.split("/")[0] for name in wheel} == {
        "fabriclab",
        f"fabriclab-{fabriclab.__version__}.dist-info",
    }


# ------------------------------------------------------------------ what is committed


def test_pins_are_exact_and_in_one_place(root):
    pins = {}
    for name in ("requirements.txt", "dev.txt"):
        for line in (root / "binder" / name).read_text().splitlines():
            if not line.startswith("#"):
                found = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][\w.]*)", line)
                assert found, f"binder/{name}: {line!r} is not name==version"
                key = re.sub(r"[-_.]+", "-", found[1]).lower()
                assert key not in pins, f"{found[1]} is pinned twice"
                pins[key] = found[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["lab"] + extras["mpi"] + extras["dev"]
    for need in wanted:
        key = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", need)[0]).lower()
        assert key in pins, f"{need} has no pin in binder/; run make pins"
        assert "==" not in need, f"{need}: exact versions belong into binder/"


def test_no_path_or_host_of_one_machine_is_committed(tracked):
    places = re.compile(
        r"(?<![\w.~}/-])/(?:root|work|opt|tmp)/|/home/\w+/|/Users/\w+/|python(?:hosted)?\.org/simple"
    )
    secrets = {
        value for key, value in os.environ.items() if key.startswith("PIP_") and "/" in value
    }
    for name, text in tracked.items():
        if name != "tests/test_package.py":
            assert not places.search(text), f"{name}: {places.search(text)[0]!r}"
            assert not [
                value for value in secrets if value in text and value != "binder/dev.txt"
            ], name


def test_a_share_has_a_space_before_its_percent_sign(tracked):
    """As `units.format_share` writes it; fields of the tables of sentences get theirs when they are filled in."""
    tight = re.compile(r"\d%(?=[\s,.)'\"`?!:]|\\n|$)|\{[^{}]*:[+,]?\.\d%\}", re.MULTILINE)
    of_others = (
        "fabriclab/diagnosis/host_tools.py",
        "fabriclab/texts.py",
    )  # what ping prints; a format
    for name, text in tracked.items():
        read = name.endswith((".py", ".md", ".ipynb")) and not name.startswith("tests/")
        if read and name not in of_others:
            found = tight.search(text)
            assert not found, f"{name}: {text[found.start() - 40 : found.end() + 10]!r}"


def test_notebooks_are_committed_clean(tracked):
    for name, text in tracked.items():
        if name.endswith(".ipynb"):
            book = json.loads(text)
            assert (book["nbformat"], book["nbformat_minor"]) == (4, 5), name
            assert book["metadata"]["kernelspec"]["name"] == "python3", name
            assert "widgets" not in book["metadata"], f"{name}: widget state is committed"
            ids = [cell["id"] for cell in book["cells"]]
            assert len(set(ids)) == len(ids), f"{name}: a cell id occurs twice"
            assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", id) for id in ids), f"{name}: {ids}"
            for cell in book["cells"]:
                assert not cell.get("outputs"), f"{name}: cell {cell['id']} has outputs; clear them"
                assert cell.get("execution_count") is None, (
                    f"{name}: cell {cell['id']} has a count; clear it"
                )


def test_signatures_are_short_enough_to_read():
    # An annotation that Python has evaluated shows all that ArrayLike stands for.
    for name in fabriclab.__all__:
        there = getattr(fabriclab, name)
        inner = getattr(there, "__all__", ()) if inspect.ismodule(there) else ()
        for what in [there, *(getattr(there, each) for each in inner)]:
            if inspect.isfunction(what):
                assert "numpy._typing" not in str(inspect.signature(what)), what
