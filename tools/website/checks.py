"""Read a finished site as a reader and a host would: links, anchors, pictures, sizes, and what must not be in it."""

import getpass
import html.parser
import re
import socket
import tempfile
import urllib.parse
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 2_000_000  # of a page with all that it loads for itself; see the teaching plan
ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(rb"""data-view=["']([^"']+)["']""")


class Found(NamedTuple):
    """What a site has: bytes of each page, with its pictures and records; bytes of all files; what is wrong."""

    pages: dict[str, int]
    shared: int
    total: int
    files: int
    problems: list[str]

    def report(self) -> str:
        """Return the sizes, and what is wrong, in words."""
        largest = sorted(self.pages.items(), key=lambda page: -page[1])[:5]
        lines = [
            f"{len(self.pages)} pages, {self.files} files, {self.total / 1e6:.1f} MB",
            f"on every page: {self.shared / 1e3:.0f} kB of scripts and style sheets, which a browser keeps",
            "largest: " + ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in largest),
            *(f"PROBLEM {problem}" for problem in self.problems),
        ]
        return "\n".join(lines) + "\n"


class Page(html.parser.HTMLParser):
    """The links of a page, what it loads, and the ids that links can lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to or loads, and its id."""
        given = dict(attrs)
        for name in ("id", "name"):
            if given.get(name):
                self.ids.add(str(given[name]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag in ("img", "script", "source") and given.get("src"):
            self.loads.append(str(given["src"]))
        if tag == "source" and given.get("srcset"):  # loaded in place of the picture beside it
            self.links.append(str(given["srcset"]).split()[0])
        if tag == "link" and given.get("href"):
            fetched = {"stylesheet", "icon", "preload"} & set(str(given.get("rel")).split())
            (self.loads if fetched else self.links).append(str(given["href"]))


def read(site: Path) -> Found:
    """Return the sizes of a site and a sentence for each problem."""
    texts = {file.relative_to(site).as_posix(): file for file in sorted(site.rglob("*.html"))}
    parsed = {}
    for name, file in texts.items():
        parsed[name] = Page()
        parsed[name].feed(file.read_text(encoding="utf-8"))
    problems = []
    common = set.intersection(
        *(set(_files(site, name, page.loads)) for name, page in parsed.items())
    )
    sizes = {}
    for name, page in parsed.items():
        problems += _dead(site, name, page, parsed)
        views = [
            site / "_static" / "views" / f"{view.decode()}.js"
            for view in LOADED.findall(texts[name].read_bytes())
        ]
        problems += [f"{name}: no record {view.name}" for view in views if not view.exists()]
        own = {*(file for file in _files(site, name, page.loads) if file not in common), *views}
        if name == "search.html":
            own.add(site / "searchindex.js")
        sizes[name] = texts[name].stat().st_size + sum(
            file.stat().st_size for file in own if file.exists()
        )
    problems += _private(site)
    every = [file for file in site.rglob("*") if file.is_file()]
    shared = sum(file.stat().st_size for file in common if file.exists())
    total = sum(file.stat().st_size for file in every)
    too_large = [
        f"{name}: {size / 1e6:.2f} MB" for name, size in sizes.items() if size + shared > MOST_BYTES
    ]
    return Found(sizes, shared, total, len(every), problems + too_large)


def _files(site: Path, name: str, loads: list[str]) -> list[Path]:
    """Return the files of the site that a page loads."""
    found = []
    for target in loads:
        parts = urllib.parse.urlsplit(target)
        if not parts.scheme and not parts.netloc and parts.path:
            found.append((site / name).parent.joinpath(urllib.parse.unquote(parts.path)).resolve())
    return found


def _dead(site: Path, name: str, page: Page, parsed: dict[str, Page]) -> list[str]:
    """Return a sentence for each thing that a page links to or loads and that is not there, or not on this host."""
    problems = []
    for target in dict.fromkeys(page.links + page.loads):
        parts = urllib.parse.urlsplit(target)
        if parts.scheme in ("http", "https") or parts.netloc:
            if target in page.loads:
                problems.append(f"{name}: loads {target} from another host")
            continue
        if parts.scheme:
            continue
        path = urllib.parse.unquote(parts.path)
        file = (site / name).parent.joinpath(path).resolve() if path else (site / name).resolve()
        if file.is_dir():
            file /= "index.html"
        if not file.exists():
            problems.append(f"{name}: no file {target}")
        elif parts.fragment and file.suffix == ".html":
            ids = parsed[file.relative_to(site.resolve()).as_posix()].ids
            if urllib.parse.unquote(parts.fragment) not in ids:
                problems.append(f"{name}: no anchor {target}")
    return problems


def _private(site: Path) -> list[str]:
    """Return a sentence for each file that names a place of the building machine."""
    host = socket.gethostname()
    folders = {str(ROOT), f"{Path.home()}/", f"{tempfile.gettempdir()}/"}
    words = folders | ({host} if len(host) > 5 else set())
    if len(getpass.getuser()) > 5:
        words.add(getpass.getuser())
    problems = []
    for file in site.rglob("*"):
        if file.suffix in (".html", ".js", ".css", ".txt", ".xml", ".json"):
            text = file.read_text(encoding="utf-8", errors="replace")
            problems += [
                f"{file.relative_to(site).as_posix()}: names {word}"
                for word in sorted(words)
                if word in text
            ]
    return problems
