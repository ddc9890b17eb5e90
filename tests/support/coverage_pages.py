"""Rows of the coverage list that pages of the course teach."""

import re

from support.lesson_gates import NEED_ANSWER, ROWS

ANSWER = re.compile(
    r'^\|\s*<a id="(c\d{3})"></a>([^|\n]+)\|([^|\n]+)\|[^|\n]*\]\(#([^)\s]+)\)\s*\|$', re.MULTILINE
)


def from_pages(texts):
    """Return the ids of rows with a short answer on a page: need no question, say what holds, lead to an entry there.

    A row of a table is such an answer if it begins with an anchor of the row's id, names the matter, says in a sentence
    what holds, and links to an anchor of the same page.
    """
    ids = set()
    for page in texts:
        anchors = re.findall(r'<a id="([^"]+)">', page)
        for anchor, matter, holds, goal in ANSWER.findall(page):
            if (
                matter.strip()
                and holds.strip().endswith(".")
                and goal in anchors
                and goal != anchor
            ):
                ids.add(anchor.upper())
    return {id for id in ids if id in ROWS and ROWS[id]["kind"] not in NEED_ANSWER}
