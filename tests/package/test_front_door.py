"""What a visitor reads first, the README and docs/: links lead somewhere, and commands and numbers hold."""

import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from types import SimpleNamespace

import front_door
import pytest
from PIL import Image

import fabriclab as fl
from fabriclab.__main__ import main
from fabriclab.training import layout_search
from support import ROOT
from support.makes import make

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += [*sorted((ROOT / "docs").glob("*.md")), ROOT / "notebooks" / "index.ipynb"]
GRADING = ROOT / "exercises" / "GRADING.md"  # has no links, but headings and commands
LINK = re.compile(r"(!?)\[([^]]*)\]\(([^)\s]+)\)")


def prose(page):
    """Return the text of a page, code blocks included; of a notebook, that of its Markdown cells."""
    source = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return source
    cells = json.loads(source)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def blocks(page, language):
    """Return the code blocks of a page in one language."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", prose(page))


def links(page):
    """Return (whether it is a picture, its words, its address) for each link of a page, code blocks left out."""
    found = LINK.findall(re.sub(r"(?ms)^```.*?^```", "", prose(page)))
    # A picture may stand in a link, and a link in a table; addresses of the web are not followed.
    return [(bool(mark), words, address) for mark, words, address in found if "://" not in address]


def anchors(page):
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", prose(page)))
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_is_there(page):
    found = links(page)
    assert found
    for _, _, address in found:
        path, _, anchor = address.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name} names {address}, which is not there"
        if anchor and goal in [*PAGES, GRADING]:
            assert anchor in anchors(goal), f"{page.name} names {address}, and no heading has it"


def test_the_check_of_links_sees_a_dead_one(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("# One heading\n\n[here](#one-heading) and ![a picture](gone.png)\n")
    monkeypatch.setattr(sys.modules[__name__], "PAGES", [page])
    with pytest.raises(AssertionError, match=r"gone\.png"):
        test_every_link_and_picture_is_there(page)
    page.write_text("# One heading\n\n[here](#another-heading)\n")
    with pytest.raises(AssertionError, match="another-heading"):
        test_every_link_and_picture_is_there(page)


def test_pictures_are_described_and_the_list_of_lessons_shows_the_same():
    shown = {
        page.name: [
            (words, address.split("/")[-1]) for image, words, address in links(page) if image
        ]
        for page in (ROOT / "README.md", ROOT / "notebooks" / "index.ipynb")
    }
    assert shown["README.md"] == shown["index.ipynb"]
    names = [name for _, name in shown["README.md"]]
    assert names == ["hero.gif", "guess.png", "straggler.png", "compare.png"]
    for words, _ in shown["README.md"]:
        assert len(words.split()) >= 6


def test_the_moving_picture_is_described_with_numbers_that_the_library_computes():
    ((_, words, _), *_) = links(ROOT / "README.md")
    net = fl.topologies.build("dragonfly", p=4, a=8, h=4)
    neighbours = fl.metrics.shift(net, 32)  # each group of 32 GPUs sends to the next one
    part = {
        routing: fl.metrics.throughput(net, neighbours, routing).part
        for routing in ("minimal", "valiant")
    }
    assert f"{net.n_ranks:,} GPUs" in words
    assert re.findall(r"(\d+) %", words) == [f"{100 * part[r]:.0f}" for r in ("minimal", "valiant")]
    guess = next(words for _, words, address in links(ROOT / "README.md") if "guess" in address)
    assert f"{part['valiant'] / part['minimal']:.1f} times" in guess


def test_the_moving_picture_can_be_read_on_a_phone():
    with Image.open(ROOT / "docs" / "img" / "hero.gif") as picture:
        card = picture.width  # px
    assert card == front_door.NARROW
    shown = 358  # px: what a page of 390 px leaves for it
    assert 12 * shown / card >= 9.5  # the smallest letters of a card have 12 px


@pytest.mark.parametrize("name", ["README.md", "docs/library.md"])
def test_examples_print_what_their_comments_say(name, monkeypatch, capsys):
    monkeypatch.setattr(fl.measure, "copy", lambda: None)
    (code,) = blocks(ROOT / name, "python")
    space = {}
    checked = 0
    for line in code.splitlines():
        exec(line, space)
        said = capsys.readouterr().out
        if line.startswith("print(") and "#" in line:
            for number in re.findall(r"\d[\d,.]*\d(?: ms)?", line.split("#")[1]):
                assert number.replace(",", "") in said.replace(",", ""), f"{line}: {said}"
                checked += 1
    assert checked >= 2
    if "view" in space:
        import anywidget
        import ipywidgets

        assert isinstance(space["view"].widget, anywidget.AnyWidget)
        assert ipywidgets.VBox([space["view"].widget]).children == (space["view"].widget,)


def test_the_page_on_searching_runs(monkeypatch, capsys):
    search, contention, dask = blocks(ROOT / "docs" / "search.md", "python")
    every = layout_search.candidates

    def few(*asked):
        return itertools.islice(every(*asked), 0, None, 40)

    monkeypatch.setattr(layout_search, "candidates", few)
    space = {"__name__": "__main__"}
    exec(search, space)
    assert re.search(r"longer: it spends .*\n.*\d\.\d\d s, \d+ GB", capsys.readouterr().out, re.S)
    exec(contention, space)
    assert "of peak" in capsys.readouterr().out
    compile(dask, "search.md", "exec")


def test_errors_of_the_model_are_those_that_validate_prints(capsys):
    assert main(["validate", "collectives"]) == 0
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("each system"))
    lat, _, mid, _, bw, _ = re.findall(r"(\d+) ?%", row)
    said = re.search(
        r"median error is (\d+) % for small messages, (\d+) % for medium and (\d+) % for large",
        " ".join(prose(ROOT / "README.md").split()),
    )
    assert said.groups() == (lat, mid, bw)


def commands():
    """Return the lines of the shell blocks of all pages, comments left out."""
    lines = []
    for page in [*PAGES, GRADING]:
        for block in blocks(page, "sh"):
            lines += [
                shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()
            ]
    return [line for line in lines if line]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_every_target_of_make_that_a_page_names_exists():
    named = {tuple(line[1:]) for line in commands() if line[0] == "make"}
    for page in PAGES:
        # The options of a call in running text, such as `make lab EXTRAS=lab`
        named |= {tuple(call.split()) for call in re.findall(r"`make ([^`.]+)`", prose(page))}
    assert ("lab",) in named and ("test",) in named and ("test", "EXTRAS=lab") in named
    settings = set(
        re.findall(
            r"\$[({](\w+)[)},]|\$\((?:if|filter)[^$]*\$\((\w+)\)", (ROOT / "Makefile").read_text()
        )
    )
    settings = {name for pair in settings for name in pair}
    for target, *options in sorted(named):
        done = make("--dry-run", target, *options, folder=ROOT)
        assert done.returncode == 0, f"make {target}: {done.stderr}"
        for option in options:
            assert option.split("=")[0] in settings, f"make {target} {option}: no such setting"


def test_every_command_of_fabriclab_that_a_page_names_exists(capsys):
    called = [
        line[line.index("fabriclab") + 1 :] for line in commands() if "fabriclab" in line[2:3]
    ]
    assert {line[0] for line in called if line} >= {"validate", "progress", "release", "grade"}
    for name in {line[0] for line in called if line}:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        told = capsys.readouterr()
        assert end.value.code == 0, f"python -m fabriclab {name}: {told.err}"
        for line in called:
            for option in [
                word for word in line[1:] if line[:1] == [name] and word.startswith("--")
            ]:
                assert option in told.out, f"python -m fabriclab {name} {option}: no such option"


@pytest.mark.skipif(sys.platform == "win32", reason="the lines are for a Unix shell")
def test_the_folders_made_without_make_are_those_of_make(tmp_path):
    """The line that copies is run, and JupyterLab's start page and settings lie where the next lines name them."""
    for folder in ("notebooks", "exercises", "docs/img"):
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, tmp_path / folder)
    without_make = blocks(ROOT / "docs" / "install.md", "sh")[0]
    (copying,) = [line for line in without_make.splitlines() if line.startswith("mkdir")]
    subprocess.run(["sh", "-euc", copying], cwd=tmp_path, check=True)
    work = tmp_path / "work"
    assert (work / ".gitignore").read_text() == "*\n"
    for source in (
        "notebooks/00_start_here.ipynb",
        "notebooks/img/case_server.svg",
        "exercises/exercise1.ipynb",
    ):
        assert (work / source).read_bytes() == (ROOT / source).read_bytes()
    for image, _, address in links(ROOT / "notebooks" / "index.ipynb"):
        if image:
            assert (work / "notebooks" / address).is_file(), f"the copies lack {address}"
    start = re.search(r"default_url=/lab/tree/(\S+)", without_make)[1]
    assert (work / start).is_file()
    assert (ROOT / re.search(r"--config=(\S+)", without_make)[1]).is_file()
    assert (ROOT / re.search(r"-c (\S+)", without_make)[1]).is_file()


def test_the_extras_of_the_page_are_those_of_the_package():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = re.search(r"(?ms)^\| extra \|.*?\n\n", prose(ROOT / "docs" / "install.md"))[0]
    assert re.findall(r"(?m)^\| `(\w+)`", table) == list(project["optional-dependencies"])


def test_the_line_for_a_hub_names_one_file_for_each_learner():
    (line,) = blocks(ROOT / "docs" / "jupyterhub.md", "text")
    config = SimpleNamespace(Spawner=SimpleNamespace())
    exec(line, {"c": config})
    named = config.Spawner.environment["FABRICLAB_PROGRESS"]
    files = [named(SimpleNamespace(user=SimpleNamespace(name=name))) for name in ("ada", "ben")]
    assert [file.split("/")[1:] for file in files] == [
        ["home", name, "fabriclab-progress.json"] for name in ("ada", "ben")
    ]
