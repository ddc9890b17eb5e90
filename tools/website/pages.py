"""From notebooks that ran, and from the documents, to the sources of pages."""

import base64
import gzip
import html
import json
import posixpath
import re
import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from fabriclab import look
from fabriclab.texts import text
from fabriclab.views.live.widget import LiveModel, fixed_words

HERE = Path(__file__).parent
WORDS = json.loads((HERE / "words.json").read_text(encoding="utf-8"))
VIEW = "application/vnd.jupyter.widget-view+json"
# The outputs of these cells tell what came out of a guess.
TELLS = re.compile(r"\bfl\.(reveal|after_guess)\(")
STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
LINK = re.compile(
    r'(```[\s\S]*?```|`[^`\n]*`)|(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)((?:\s+"[^"]*")?)\)'
)
PICTURE = re.compile(r"<svg[\s\S]*?</svg>")
PLACES = re.compile(r' (d|x|y|transform|points)="([^"]*)"')
FONT = re.compile(r"font-family: system-ui, -apple-system, 'Segoe UI', sans-serif;? ?")
BOOK = re.compile(r'href="((?!https?:)[\w./-]+)\.ipynb(#[^"]*)?"')
# The file of progress of a run for the site, or for `make notebooks`, on the machine that builds.
PLACE = re.compile(r"/[\w./-]*/build/(?:website/progress|executed)/[\w./-]+\.json")
SCHEME = re.compile(r"[a-z]+:|#")
# Words for a reader with a kernel, which are untrue on a page that stores nothing.
BACK = re.compile(r" Back another day\? [^*\n]*(?=\*)")
UNWRITTEN = re.compile(
    r'<div class="fl-verdict ">(?:(?!</?div)[\s\S])*?'
    + re.escape(html.escape(text("check.uncounted")))
    + "</p></div>"
)


class Lesson(NamedTuple):
    """A lesson as the source of a page, with what it needs beside that."""

    nb: Any
    records: dict[str, str]  # scripts of the records of its views, by name
    styles: list[str]
    answers: list[str]  # for each view, how it answers: see `answers`


# Lessons ----------------------------------------------------------------------------------------


def lesson(nb: Any, name: str, records: Mapping[str, bytes]) -> Lesson:
    """Return a lesson as the source of a page.

    Parameters
    ----------
    nb : NotebookNode
        The notebook, with outputs if it was run.
    name : str
        Its name, without the ending.
    records : mapping of str to bytes
        What the recorder wrote, by the id of the model.
    """
    page = nbformat.from_dict(nb)
    scripts: dict[str, str] = {}
    styles: list[str] = []
    told: list[str] = []
    for cell in page.cells:
        cell["metadata"] = {}
        if cell["cell_type"] == "markdown":
            cell["source"] = BACK.sub("", _text(cell["source"]))
        if cell["cell_type"] != "code":
            continue
        shown = [_shown(output, name, records, scripts, styles, told) for output in cell["outputs"]]
        source = _text(cell["source"])
        if "fl.report(" in source:
            shown = [_as_of_the_build(output) for output in shown]
        cell["outputs"] = _folded(shown) if TELLS.search(source) else shown
    if any(cell.get("outputs") for cell in page.cells):
        views = WORDS["about_views"] if records else ""
        about = WORDS["about"].format(views=views, file=f"notebooks/{name}.ipynb")
        page.cells.insert(
            1, nbformat.v4.new_markdown_cell(f":::{{container}} fl-about\n{about}\n:::")
        )
    page["metadata"] = {"kernelspec": nb["metadata"].get("kernelspec", {})}
    return Lesson(page, scripts, styles, told)


def without_places(text: str) -> str:
    """Return a text that names the file of progress as a learner's would be named, and not a place of this machine."""
    return PLACE.sub("fabriclab-progress.json", text)


def _text(lines: str | list[str]) -> str:
    """Return a text of a notebook, which may be a list of lines."""
    return lines if isinstance(lines, str) else "".join(lines)


def _shown(
    output: Any,
    name: str,
    records: Mapping[str, bytes],
    scripts: dict[str, str],
    styles: list[str],
    told: list[str],
) -> Any:
    """Return an output as a page shows it: words as they are, and HTML with a place for what answers."""
    if output["output_type"] == "stream":
        output["text"] = without_places(_text(output["text"]))
    if output["output_type"] in ("stream", "error"):
        return output
    data = output["data"]
    if "text/html" not in data:
        plain = without_places(_text(data.get("text/plain", "")))
        return nbformat.v4.new_output("display_data", data={"text/plain": plain})

    def taken(match: re.Match[str]) -> str:
        if (
            ".fl-picture{--fl-" not in match[1]
        ):  # that of pictures is the same for all, see `style_sheet`
            styles.append(match[1])
        return ""

    still = without_places(STYLE.sub(taken, _text(data["text/html"])))
    still = BOOK.sub(r'href="\1.html\2"', still)
    still = PICTURE.sub(lambda match: small(match[0]), still)
    still = UNWRITTEN.sub(f'<p class="fl-needs">{WORDS["function"]}</p>', still)
    packed = records.get(data[VIEW]["model_id"]) if VIEW in data else None
    record = json.loads(gzip.decompress(packed)) if packed else {"kind": "none"}
    if record.get("kind") == "view":
        place = f"{name}-{len(scripts) + 1}"
        told.append(answers(record))
        scripts[place] = script(place, record)
        still = f'<div class="fl-mount" data-view="{place}">{still}</div>'
    elif record.get("kind") == "form":
        asks = record.get("asks", "")
        still = f'<div class="fl-mount" data-asks="{asks}">{still}{_question(record)}</div>'
    elif VIEW in data and "fl-card" not in still[:200]:
        told.append("not")
    return nbformat.v4.new_output("display_data", data={"text/html": still})


def small(svg: str) -> str:
    """Return a picture in fewer bytes: coordinates to a hundredth of a pixel, and no font that the page sets anyway."""

    def rounded(match: re.Match[str]) -> str:
        numbers = re.sub(r"(\.\d\d)\d+", r"\1", match[2])
        return f' {match[1]}="{" ".join(numbers.split())}"'

    svg = PLACES.sub(rounded, svg)
    return re.sub(r">\n\s*<", "><", FONT.sub("", svg))


def _question(record: dict[str, Any]) -> str:
    """Return the record of a question for the page itself, without the words that all have."""
    spec = {key: value for key, value in record["spec"].items() if key != "words"}
    text = json.dumps(record | {"spec": spec}, separators=(",", ":")).replace("</", "<\\/")
    return f'<script type="application/json">{text}</script>'


def answers(record: Mapping[str, Any]) -> str:
    """Return how a view answers on its page: in every state, in some, in part, or not."""
    still = [name for name, values in record["axes"].items() if len(values) < 2]
    if record["spec"]["controls"] and len(still) == len(record["axes"]):
        return "not"
    if still or record["spec"]["buttons"]:
        return "in part"
    return "in some states" if record["fewer"] else "in every state"


def script(name: str, record: dict[str, Any]) -> str:
    """Return the script of a record of a view, which page.js unpacks: length, JSON, numbers, compressed together."""
    numbers = base64.b64decode(record.pop("numbers"))
    text = json.dumps(record, separators=(",", ":")).encode()
    packed = gzip.compress(struct.pack("<I", len(text)) + text + numbers, 9, mtime=0)
    return f'fabriclabRecord("{name}","{base64.b64encode(packed).decode()}");\n'


def _folded(outputs: list[Any]) -> list[Any]:
    """Return outputs in one fold, except for the question that they answer."""
    asked = []
    inner = []
    for output in outputs:
        if output["output_type"] == "stream":
            inner.append(f"<pre>{html.escape(_text(output['text']))}</pre>")
        elif output["output_type"] == "error" or 'data-asks="guess"' in _html(output):
            asked.append(output)
        else:
            inner.append(_html(output))
    if inner:
        fold = f'<details class="fl-came-out"><summary>{WORDS["came_out"]}</summary>{"".join(inner)}</details>'
        asked.append(nbformat.v4.new_output("display_data", data={"text/html": fold}))
    return asked


def _as_of_the_build(output: Any) -> Any:
    """Return an output without what its report counts and stores, and with a line before it that says why."""
    card = _html(output)
    if "fl-card" in card:
        state = {"title": "TITLE", "state": "STATE", "right": 0, "n": "ALL"}
        counted = re.escape(text("report.state", **state)).replace("ALL", r"\d+")
        counted = counted.replace("TITLE", r"([^<]*?)").replace("STATE", "[^<,]*")
        card = re.sub(f"<h2>{counted}</h2>", r"<h2>\1</h2>", card)
        of = re.escape(text("report.of", n=0, total="ALL")).replace("ALL", r"\d+")
        card = re.sub(f" ?<em>{of}</em>", "", card)
        fold = f"<details><summary>{text('report.all')}</summary>"
        card = re.sub(re.escape(fold) + r"(?:(?!<details)[\s\S])*?</details>", "", card)
        card = card.replace(text("report.file", path="fabriclab-progress.json"), "")
        output["data"]["text/html"] = f'<p class="fl-needs">{WORDS["report"]}</p>{card}'
    return output


def _html(output: Any) -> str:
    """Return an output as HTML."""
    data = output.get("data", {})
    return data.get("text/html") or f"<pre>{html.escape(_text(data.get('text/plain', '')))}</pre>"


# What all pages have ------------------------------------------------------------------------------


def program() -> str:
    """Return the script of all pages: that of the live views, the words, and what answers in place of a kernel."""
    view = LiveModel._esm.replace("export default {", "const VIEW = {", 1)
    if view == LiveModel._esm:
        raise ValueError("card.js no longer ends with 'export default {', which this page replaces")
    words = {
        **WORDS,
        "fixed": fixed_words(),
        "first": text("check.right", tries=text("check.first")),
        "later": text("check.right", tries=text("check.tries", n="{n}")),
        "skipped": text("card.skipped"),
        "no_idea": text("card.no_idea"),
        "commit": text("form.commit"),
    }
    page = (HERE / "static" / "page.js").read_text(encoding="utf-8")
    return f"(() => {{\n{view}\nconst WORDS = {json.dumps(words)};\n{page}}})();\n"


def style_sheet(styles: Collection[str]) -> str:
    """Return the style sheet of all pages: those of views, cards and printed pictures, and that of the page."""
    numbered = "".join(
        f"--fl{place}:{hues.light};" for place, hues in enumerate(look.PALETTE) if place
    )
    dark = "".join(f"--fl{place}:{hues.dark};" for place, hues in enumerate(look.PALETTE) if place)
    picture = look.both_themes(
        ".fl-picture", look.variables("light") + numbered, look.variables("dark") + dark
    )
    drawn = (Path(look.__file__).parent / "views" / "picture.css").read_text(encoding="utf-8")
    page = (HERE / "static" / "page.css").read_text(encoding="utf-8")
    said = {"read": WORDS["minutes_read"], "do": WORDS["minutes_do"]}
    words = "".join(f"--fl-{name}:{json.dumps(words)};" for name, words in said.items())
    styles = [LiveModel._css, picture, drawn, *dict.fromkeys(styles), f":root{{{words}}}", page]
    return "\n".join(styles)


def with_links(source: str, folder: str, known: Collection[str]) -> str:
    """Return Markdown in which links to files that are no page are plain words.

    Parameters
    ----------
    source : str
        The Markdown of a page.
    folder : str
        Folder of the page, from which its links count, such as "docs".
    known : collection of str
        Paths of all pages and pictures from the root of the site's sources.

    Examples
    --------
    >>> with_links("[test](../tests/x.py), [install](install.md#make)", "docs", {"docs/install.md"})
    'test, [install](install.md#make)'
    """

    def replaced(match: re.Match[str]) -> str:
        code, picture, words, target, title = match.groups()
        if code or SCHEME.match(target):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
        if path in known:
            return f"{picture}[{with_links(words, folder, known)}]({target}{title})"
        return words

    return LINK.sub(replaced, source)
