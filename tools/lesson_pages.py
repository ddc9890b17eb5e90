"""The glossary and the errata page, from their tables, and in each lesson the links to both: ``make index`` writes all.

A name of the glossary is a link where a lesson first uses it in prose. The title of the link is the tip of that very
name, one sentence from the table of tips: hovering shows it, and a click, or Tab and Enter, opens the page at the
term. Markdown and not a notebook: JupyterLab opens a link to it as a page, at anchors that do not depend on headings,
and starts no kernel for it.

Some names have several senses, such as "channel" (of NCCL, of light, of radio). The table of tips has a row for each
of them, with the id of its term and a word for the ``sense``. Such a name is a link only in a lesson whose header says
which sense it means, and so is a name with ``~`` in the glossary, which is often an ordinary word::

    "senses": {"channel": "optical-channel", "lane": "lane"}
"""

import json
import re
from functools import cache

from fabriclab.catalog.tables import rows_of
from fabriclab.course.checks import statements
from fabriclab.course.checks.statements import cited, rows
from fabriclab.course.questions import questions
from lesson_files import FILES, ROOT, ROWS

GROUPS = {
    "00-start": "First steps",
    "1-technology-landscape": "Links and their rates",
    "2-topology": "Topologies",
    "3-communication-patterns": "Collectives",
    "4a-rdma-gpudirect": "RDMA and GPUDirect",
    "4b-in-network": "Switches that add",
    "4c-circuit-switching-sdn": "Circuits and central control",
    "5-congestion-and-lossless": "Congestion and loss",
    "6-operations-reliability-cost": "Operation, failures and cost",
    "7-workloads-parallelism-inference": "Parallelism and inference",
    "8-emerging": "Emerging links",
    "assessment": "Questions of an assessment",
}
TEXTS = {
    "A": "*Interconnect Fabrics for AI Systems*, a module of a learning track; it names no author",
    "B": "*Interconnect (NVLink, InfiniBand)*, an entry of a French glossary; it names no author",
    "C": "K. Rygol and B. Kitor (GigaIO), *The Scaling Dilemma: Interconnects for AI Infrastructure*, slides",
    "D": "*Distributed AI Fabrics: InfiniBand, RDMA & Deterministic Data Movement*, by AI Infrastructure Lab",
    "E": "*AI Training Fabrics*, chapter 31 of *AI Training Networks*; it names no author",
}
OURS = re.compile(r'\[([^\]]*)\]\(glossary\.md#[^ )]* "[^"]*"\)')
LINKED = re.compile(r'\[([^\]]*)\]\(glossary\.md#([^ )]*) "([^"]*)"\)')
LINE = re.compile(r"\n\nCommon statements that this lesson tests[^\n]*")
# Where no word becomes a link: code, the line of a fold, what is a link or a picture, tags, formulas, headings.
SKIP = r"```[\s\S]*?```|<summary>.*?</summary>|``[^`]*``|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|</?\w[^>]*>|\$[^$\n]*\$|^#[^\n]*"


@cache
def table(name):
    """Return the rows of a table of the course."""
    return rows_of(f"{name}.csv", statements.__file__)


@cache
def words():
    """Return the rows of the glossary, with ``all`` names of a term and those that lessons ``link``."""
    found = [row | {"list": row["names"].split("|")} for row in table("glossary")]
    for row in found:  # ~ marks a name that often has another meaning
        row["all"] = [name.removeprefix("~") for name in row["list"]]
        row["link"] = [name for name in row["list"] if not name.startswith("~")]
    return found


@cache
def tips():
    """Return the rows of tips, with ``all`` names (forms of one word) that share the sentence."""
    return [row | {"all": row["names"].split("|")} for row in table("tips")]


@cache
def senses():
    """Return each name of the glossary with its tips, one for each sense of the name."""
    found: dict[str, list[dict]] = {}
    for tip in tips():
        for name in tip["all"]:
            found.setdefault(name, []).append(tip)
    return found


def linkable(stated):
    """Return the names that become links in a lesson, each with its tip.

    Parameters
    ----------
    stated : Mapping[str, str]
        The senses that the header of the lesson states: a name, and the id of the term that it means there.

    Raises
    ------
    ValueError
        The glossary has no such name, or the name does not have this sense.
    """
    for name, id in stated.items():
        known = [tip["id"] for tip in senses().get(name, [])]
        if id not in known:
            raise ValueError(f"the glossary has {name!r} with the ids {known}, got {id!r}")
    certain = {(row["id"], name) for row in words() for name in row["link"]}
    found = {}
    for name, several in senses().items():
        if name in stated:
            found[name] = next(tip for tip in several if tip["id"] == stated[name])
        elif len(several) == 1 and (several[0]["id"], name) in certain:
            found[name] = several[0]
    return found


def plain(words):
    """Return text that Markdown and JupyterLab take as it stands."""
    for sign, code in {
        "&": "&amp;",
        "<": "&lt;",
        "|": "&#124;",
        "$": "&#36;",
        "~": "&#126;",
        "*": "&#42;",
    }.items():
        words = words.replace(sign, code)
    return words


def place(lesson):
    """Return a link to a lesson that exists; one that does not is planned."""
    words = lesson.replace("_", " ")
    return f"[{words}]({lesson}.ipynb)" if lesson in FILES else f"{words} (planned)"


def first_sentence(text):
    """Return the first sentence of a text, with its full stop."""
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)[0]
    return sentence.rstrip(".") + "."


def covered(page):
    """Return a table of short answers: what this page holds for a row of the coverage list, and the entry with more.

    The id of the row is an anchor, which no reader sees; ``tests/support/coverage_pages.py`` finds the row by it.
    """
    entries = {}  # id of a row: name of the entry, its anchor, what holds
    for key, row in rows().items():
        for id in row["coverage"].split():
            entries[id] = (key, key.lower(), row["truth"])
    term = next(row for row in words() if row["id"] == "materiel")
    entries["C155"] = (term["all"][0], term["id"], term["definition"])  # all others are errata
    lines = []
    for id, row in ROWS.items():
        if row["lesson"] == page:
            name, anchor, truth = entries[id]
            matter = f'<a id="{id.lower()}"></a>{plain(row["item"])}'
            holds = plain(first_sentence(truth))
            lines.append(f"| {matter} | {holds} | see [{name}](#{anchor}) |")
    return "\n".join(["| about | what holds, in short | more |", "|---|---|---|", *lines])


def sources(keys):
    """Return the table of citations, each with an anchor."""
    lines = [
        f'| <a id="source-{key.lower()}"></a>{key} | {plain(keys[key])} |'
        for key in sorted(keys, key=str.lower)
    ]
    return "\n".join(["| key | source |", "|---|---|", *lines])


def keyed(row):
    """Return links to the sources of a row."""
    shown = {"memory": "recalled, not confirmed by a source"}
    return (
        ", ".join(f"[{shown.get(key, key)}](#source-{key.lower()})" for key in cited(row))
        if row["source"]
        else ""
    )


def named(name, tip):
    """Return a name with its sense behind it, if it has several: channel (NCCL)."""
    return f"{name} ({tip['sense']})" if tip["sense"] else name


def glossary():
    """Return the glossary: an index by letter, then the terms by group, with a tip for each of several names."""
    letters: dict[str, list[str]] = {}
    entries = [(named(name, tip), tip["id"]) for tip in tips() for name in tip["all"]]
    for name, id in sorted(entries, key=lambda pair: pair[0].lower()):
        letter = name.lstrip("$.").upper()[0]
        letters.setdefault(letter if letter.isalpha() else "0-9", []).append(
            f"[{plain(name)}](#{id})"
        )
    index = [f"**{letter}** {' · '.join(links)}" for letter, links in letters.items()]
    parts, groups = [], dict.fromkeys(row["group"] for row in words())
    for group in groups:
        # a list: the top of a link's goal stands at the top, which a cell of a table may not
        lines = [f"## {group}\n"]
        for row in (row for row in words() if row["group"] == group):
            lesson = place(row["lesson"]) if row["lesson"] else "none of its own"
            source = f" Source: {keyed(row)}." if row["source"] else ""
            meaning = plain(row["definition"].rstrip("."))
            lines.append(
                f'- <a id="{row["id"]}"></a>**{plain(row["term"])}**: {meaning}. Lesson: {lesson}.{source}'
            )
            mine = [tip for tip in tips() if tip["id"] == row["id"]]
            if len(mine) > 1:  # a row with one name has its definition
                lines += [
                    f"  - *{plain(', '.join(named(name, tip) for name in tip['all']))}*: {plain(tip['tip'])}"
                    for tip in mine
                ]
        parts.append("\n".join(lines))
    known = {key: words for row in words() if row["source"] for key, words in cited(row).items()}
    top = (
        f"# Glossary\n\n{len(words())} terms in {len(groups)} groups. Below the head of a lesson, the first use "
        "of a name in prose is a link to this page. The index has every name of a term, once for each of its senses; "
        "French names have their place in it. [Errata](errata.md) has common statements with a test of each. "
        "[List of lessons](index.ipynb)"
    )
    end = f"## Sources\n\n{sources(known)}\n\n## Short answers\n\n{covered('glossary')}"
    return "\n\n".join([top, "## Index", *index, *parts, end]) + "\n"


def errata():
    """Return the errata page: each row with statement, test, truth, and who teaches it."""
    parts = []
    for group, title in GROUPS.items():
        parts.append(f"## {title}")
        for row in (row for row in rows().values() if row["group"] == group):
            taught = "; ".join(map(place, row["lessons"].split())) or "this page alone"
            said = f"{row['kind'].capitalize()}; said in {', '.join(row['said'])}. Lesson: {taught}"
            parts.append(
                f'### <a id="{row["id"].lower()}"></a>{row["id"]}: {plain(row["statement"])}\n\n- **Test.** '
                f"{plain(row['test'])}\n- **Truth.** {plain(row['truth'])}\n- {said}. Source: {keyed(row)}."
            )
    listed = "\n".join(f"- **{letter}** {words}" for letter, words in TEXTS.items())
    links = " · ".join(
        f'[{id}](#{id.lower()} "{plain(row["statement"])}")' for id, row in rows().items()
    )
    top = (
        f"# Common statements, tested\n\n{len(rows())} statements about fabrics, from five texts that this course "
        "began with: what is said, how to test it, and what holds. Each text is worth reading; most rows need a "
        'condition, and few are wrong as they stand. In a notebook `fl.errata("E27")` shows a row. '
        "[Glossary](glossary.md) · [List of lessons](index.ipynb)"
    )
    known = {key: words for row in rows().values() for key, words in cited(row).items()}
    end = f"## Sources\n\n{sources(known)}\n\n## Short answers\n\n{covered('errata')}"
    return (
        "\n\n".join([top, f"## The five texts\n\n{listed}", f"## All rows\n\n{links}", *parts, end])
        + "\n"
    )


def treated(lesson, nb):
    """Return the rows that a lesson treats: a cell covers their matter, or a question of it rests on them."""
    covers = {id for cell in nb["cells"] for id in cell["metadata"].get("covers", [])}
    asked = {question.erratum for question in questions().values() if question.lesson == lesson}
    return [
        row
        for id, row in rows().items()
        if id in asked
        or (lesson in row["lessons"].split() and covers & set(row["coverage"].split()))
    ]


def finder(names):
    """Return a pattern that finds a name in Markdown, or a piece of it that may hold no link."""
    forms = []
    for name in sorted(names, key=len, reverse=True):  # NVLink SHARP before NVLink
        # A name in small letters may begin a sentence; any may stand in the plural.
        begin = f"[{name[0]}{name[0].upper()}]" if name == name.lower() else re.escape(name[0])
        forms.append(begin + re.escape(name[1:]) + ("s?" if name[-1].isalpha() else ""))
    return re.compile(rf"{SKIP}|(?<![\w/.-])(?P<name>{'|'.join(forms)})(?![\w/-])", re.MULTILINE)


def name_of(used, names):
    """Return the name of which prose uses a form (a plural, a capital), or None."""
    ways = (used, used[:-1], used[:1].lower() + used[1:], used[:1].lower() + used[1:-1])
    return next((way for way in ways if way in names), None)


def link_words(sources, unlinked=(), stated=None):
    """Return Markdown sources with a link at the first use of each name, in the sense that a lesson states.

    Parameters
    ----------
    sources : list[str]
        Cells of a lesson, in order.
    unlinked : Iterable[str]
        Ids of terms that get no link in this lesson.
    stated : Mapping[str, str], optional
        Names and the ids of the terms that they mean here; see `linkable`.
    """
    tip_of = linkable(stated or {})
    form = finder(tip_of)
    seen = set()

    def link(match):
        name = name_of(match["name"] or "", tip_of)
        if name is None:
            return match[0]
        tip = tip_of[name]
        if tip["id"] in unlinked or tip["tip"] in seen:
            return match[0]
        seen.add(tip["tip"])
        return f'[{match[0]}](glossary.md#{tip["id"]} "{tip["tip"]}")'

    return [form.sub(link, source) for source in sources]


def wrong_links(nb):
    """Return a sentence for each link of a lesson that shows another tip than its name has in this lesson."""
    header = nb["metadata"]["fabriclab"]
    tip_of = linkable(header.get("senses", {}))
    faults = []
    for cell in nb["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        for used, id, title in LINKED.findall("".join(cell["source"])):
            name = name_of(used, tip_of)
            if name is None:
                faults.append(f"{used!r} leads to {id!r}, and the header states no sense of it")
            elif tip_of[name]["id"] != id:
                faults.append(f"{used!r} leads to {id!r} and means {tip_of[name]['id']!r}")
            elif tip_of[name]["tip"] != title:
                faults.append(f"{used!r} has the title {title!r}, which is not its tip")
    return faults


def linked(lesson):
    """Return a lesson with the links of today; what else it holds stays as it is."""
    nb = json.loads((ROOT / "notebooks" / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    # the first shows the header
    prose = [cell for cell in nb["cells"][1:] if cell["cell_type"] == "markdown"]
    bare = [LINE.sub("", OURS.sub(r"\1", "".join(cell["source"]))) for cell in prose]
    header = nb["metadata"]["fabriclab"]
    made = link_words(bare, header.get("unlinked", ()), header.get("senses", {}))
    if shown := treated(lesson, nb):
        links = ", ".join(
            f'[{row["id"]}](errata.md#{row["id"].lower()} "{row["statement"]}")' for row in shown
        )
        made[-1] += (
            f"\n\nCommon statements that this lesson tests, with the truth about each: {links}."
        )
    for cell, source in zip(prose, made, strict=True):
        cell["source"] = source.splitlines(keepends=True)
    return json.dumps(nb, ensure_ascii=False, indent=1) + "\n"
