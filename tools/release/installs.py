"""The packages of a release: they are built from what is committed, and installed into empty environments."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from steps import ROOT, Failed, Log, Setting

SMOKE = Path(__file__).with_name("smoke.py")
LESSON = "31_all_reduce"
_PATIENCE = (
    1800  # [s] for pip, and for what runs in a new environment; pip fetches 800 MB on a slow line
)
# What the checkout sets for its own tests must not reach a new environment.
_OURS = ("PYTHONPATH", "PYTHONHOME", "FABRICLAB_", "VIRTUAL_ENV", "MAKE", "MFLAGS")


def version() -> str:
    """Return the version in the source, without importing the package."""
    line = next(
        line
        for line in (ROOT / "fabriclab" / "__init__.py").read_text(encoding="utf-8").splitlines()
        if line.startswith("__version__")
    )
    return line.partition("=")[2].strip().strip('"')


def environment() -> dict[str, str]:
    """Return the variables for a new environment: those of the user, without those of this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def packages(setting: Setting, log: Log) -> str:
    """Build the sdist and, from it, the wheel; compare that wheel with one from the checkout.

    Both are built as pip builds them, in an environment with what ``pyproject.toml`` asks for and nothing else.
    """
    clone = committed(setting, log)
    dist = setting.folder / "dist"
    direct = setting.folder / "direct"
    for folder in (dist, direct):
        shutil.rmtree(folder, ignore_errors=True)
    python = Path(sys.executable)
    log.run(python, "-m", "build", "--outdir", dist, clone, env=environment(), timeout=_PATIENCE)
    log.run(
        *(python, "-m", "build", "--wheel", "--outdir", direct, clone),
        env=environment(),
        timeout=_PATIENCE,
    )
    wheel = only(dist, ".whl")
    sdist = only(dist, ".tar.gz")
    compare(wheel, only(direct, ".whl"), log)

    with zipfile.ZipFile(wheel) as archive:
        in_wheel = archive.namelist()
    with tarfile.open(sdist) as archive:
        in_sdist = [name.partition("/")[2] for name in archive.getnames()]
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=clone, capture_output=True, text=True, check=True
    ).stdout
    tracked = [name for name in listed.split("\0") if name]
    lacking = {
        "wheel": [
            name for name in tracked if name.startswith("fabriclab/") and name not in in_wheel
        ],
        "sdist": [name for name in tracked if not name.startswith(".ci/") and name not in in_sdist],
    }
    for package, names in lacking.items():
        if names:
            log.note(*(f"not in the {package}: {name}" for name in names[:8]))
            raise Failed(f"the {package} lacks {len(names)} files of the checkout")
    copies = unpacked(sdist, setting, log)
    return (
        f"wheel {size(wheel)}, {len(in_wheel)} files; sdist {size(sdist)}, {len(in_sdist)} files; "
        f"the wheel from the sdist equals that from the checkout to the byte; "
        f"make finds all it needs in the unpacked sdist and copies {copies} notebooks"
    )


def unpacked(sdist: Path, setting: Setting, log: Log) -> int:
    """Unpack the sdist, see that ``make lab`` could begin there, and return how many notebooks it would open."""
    place = setting.folder / "unpacked"
    shutil.rmtree(place, ignore_errors=True)
    shutil.unpack_archive(sdist, place)  # our own: the first releases of 3.11 know no filter
    (course,) = place.iterdir()
    log.run("make", "--dry-run", ".venv/.lab", cwd=course, env=environment())
    log.run("make", "copies", cwd=course, env=environment())
    notebooks = sorted(path.name for path in (course / "notebooks").glob("*.ipynb"))
    copies = sorted(path.name for path in (course / "work" / "notebooks").glob("*.ipynb"))
    if copies != notebooks:
        raise Failed(f"make copies {len(copies)} of {len(notebooks)} notebooks of the sdist")
    return len(copies)


def committed(setting: Setting, log: Log) -> Path:
    """Return a new clone of the checkout: what is not committed is not released."""
    clone = setting.folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    log.run("git", "clone", "--quiet", "--no-local", "--depth=1", f"file://{ROOT}", clone)
    return clone


def only(folder: Path, ending: str) -> Path:
    """Return the one file of a folder with an ending."""
    found = [path for path in folder.iterdir() if path.name.endswith(ending)]
    if len(found) != 1:
        raise Failed(f"{len(found)} files *{ending} were built, and not one")
    return found[0]


def compare(wheel: Path, other: Path, log: Log) -> None:
    """Raise Failed if two wheels differ, and name the files that do."""
    if digest(wheel.read_bytes()) == digest(other.read_bytes()):
        return
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(other) as second:
        names = sorted({*first.namelist(), *second.namelist()})
        contents = [
            [archive.read(name) if name in archive.namelist() else None for name in names]
            for archive in (first, second)
        ]
    differing = [
        name for name, ours, theirs in zip(names, *contents, strict=True) if ours != theirs
    ]
    log.note(*(f"differs: {name}" for name in differing[:8]))
    raise Failed(f"the wheel from the sdist differs in {len(differing)} files")


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def size(path: Path) -> str:
    """Return the size of a file in MB."""
    return f"{path.stat().st_size / 1e6:.1f} MB"


def wheel(python_version: str, setting: Setting, log: Log) -> str:
    """Install the wheel with its dependencies alone, and try it; a lesson runs without Jupyter."""
    return installed("wheel", ".whl", "", python_version, setting, log)


def sdist(python_version: str, setting: Setting, log: Log) -> str:
    """Install the sdist with all that ``make lab`` installs, and try it; a lesson runs in a kernel."""
    return installed("sdist", ".tar.gz", "[lab,mpi]", python_version, setting, log)


def installed(
    kind: str, ending: str, extras: str, python_version: str, setting: Setting, log: Log
) -> str:
    """Install a package into an empty environment and run the smoke test there, in an empty folder."""
    interpreter = setting.python(python_version)
    if not (setting.folder / "dist").is_dir():
        raise Failed("there is no package to install; the step packages has to come first")
    package = only(setting.folder / "dist", ending)
    built = package.name.removesuffix(ending).split("-")[1]
    if built != version():
        raise Failed(f"the package is of version {built}; the step packages has to run again")
    place = setting.folder / f"{kind}-{python_version}"
    empty = setting.folder / f"{kind}-{python_version}-empty"
    for folder in (place, empty):
        shutil.rmtree(folder, ignore_errors=True)
    empty.mkdir()
    env = environment()
    log.run(interpreter, "-m", "venv", place, env=env)
    python = place / "bin" / "python"
    log.run(
        *(python, "-m", "pip", "install", "-q", f"{package}{extras}"),
        cwd=empty,
        env=env,
        timeout=_PATIENCE,
    )
    fits = log.run(python, "-m", "pip", "check", cwd=empty, env=env)
    if "No broken requirements" not in fits:
        raise Failed("pip check: the dependencies do not fit together")
    # The lesson is the only thing that comes from the checkout: a package holds no notebooks.
    shutil.copy(ROOT / "notebooks" / f"{LESSON}.ipynb", empty)
    tried = log.run(
        *(python, "-P", SMOKE, version(), f"{LESSON}.ipynb"), cwd=empty, env=env, timeout=_PATIENCE
    )
    shutil.rmtree(place)  # 0.4 to 0.9 GB
    return tried.splitlines()[-1]
