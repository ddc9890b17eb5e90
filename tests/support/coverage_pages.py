"""Rows of the coverage list that pages of the course teach."""

import re

from support.lesson_gates import NEED_ANSWER, ROWS


def from_pages(texts):
    """Return the ids that begin a row of a table, need no answer, and lead to an entry of the same page."""
    ids = set()
    for page in texts:
        anchors = re.findall(r'<a id="([^"]+)">', page)
        for id, matter in re.findall(r"^\|\s*(C\d{3})\s*\|(.*)\|$", page, re.MULTILINE):
            if set(re.findall(r"\]\(#([^)\s]+)\)", matter)) & set(anchors):
                ids.add(id)
    return {id for id in ids if id in ROWS and ROWS[id]["kind"] not in NEED_ANSWER}
