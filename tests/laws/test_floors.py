"""The floors of the library: a module imports lower floors only, and only views draws."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LINT = "from importlinter.cli import lint_imports_command as run; run()"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of the pyproject.toml in ``folder`` over the package there."""
    env = dict(os.environ, PYTHONPATH=str(folder))
    command = [sys.executable, "-c", LINT, "--no-cache"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_every_import_goes_down(root):
    done = lint(root)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "0 broken" in done.stdout


def test_contracts_catch_each_kind_of_breach(root, tmp_path):
    shutil.copy(root / "pyproject.toml", tmp_path)
    for folder in ("core", "views", "topologies", "collectives", "course", "course/judges"):
        (tmp_path / "fabriclab" / folder).mkdir(parents=True)
        (tmp_path / "fabriclab" / folder / "__init__.py").write_text("")
    for name in ("__init__", "units", "errors", "registry"):
        (tmp_path / "fabriclab" / f"{name}.py").write_text("")
    (tmp_path / "fabriclab" / "views" / "__init__.py").write_text(
        "import matplotlib\nimport fabriclab.core\n"
    )
    # What it imports is written below, which closes the circle.
    (tmp_path / "fabriclab" / "core" / "back.py").write_text("import fabriclab.core.circle\n")
    good = lint(tmp_path)
    assert good.returncode == 0, good.stdout[-3000:] + good.stderr[-1000:]
    # What is written, and what the linter says of it.
    breaches = {
        "core/up.py": ("def f():\n    import fabriclab.views\n", "fabriclab.core.up"),
        "topologies/side.py": ("import fabriclab.collectives\n", "fabriclab.topologies.side"),
        "core/draw.py": ("def f():\n    import matplotlib.pyplot\n", "fabriclab.core.draw"),
        "course/shown.py": ("import fabriclab.course.judges\n", "fabriclab.course.shown"),
        "core/circle.py": (
            "import fabriclab.core.back\n",
            "No cycles are allowed in fabriclab.core",
        ),
        "stray.py": ("", "stray"),
    }
    for path, (text, said) in breaches.items():
        file = tmp_path / "fabriclab" / path
        file.write_text(text)
        done = lint(tmp_path)
        assert done.returncode == 1, f"no contract noticed {path}"
        assert said in done.stdout, done.stdout
        file.unlink()
