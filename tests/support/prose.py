"""What a test may ask of a text: its figures, or the row of the table it was made of, never its words."""

import re
import string

from fabriclab.course.questions.files import load
from fabriclab.texts import fill, table

_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_PARTS = {
    "half": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
}
_NUMBER = r"(?<![\w.,/])\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?(?![\w/]|[.,]\d)"
_LIST = rf"(?:\s*(?:,|-|x|to|and|or|of|against|in)\s*{_NUMBER})*"


def plain(text: str) -> str:
    """Return a text in one line, without marks of Markdown and addresses, its figures in digits."""
    text = re.sub(r'\[([^\]]*)\]\((?:"[^"]*"|[^)"])*\)', r"\1", text)
    text = " ".join(re.sub(r"[*`]", "", text).split()).replace("per cent", "%")
    text = text.replace("µs", "us")  # as tests type it
    for name, n in _PARTS.items():
        text = re.sub(rf"\b(?:a|an|one) {name}\b", f"1/{n}", text, flags=re.IGNORECASE)
    for n, name in enumerate(_WORDS):
        text = re.sub(rf"\b{name}\b", str(n), text, flags=re.IGNORECASE)
    return re.sub(r"\b1 (?:in|of) (?:each )?(\d+)\b", r"1/\1", text)


def figures(text: str) -> list[str]:
    """Return the numbers of a text in their order, in digits and without units."""
    return [found.replace(",", "") for found in re.findall(_NUMBER, plain(text))]


def states(text: str, *asked: str) -> None:
    """Assert that each figure, a number or a number and its unit, stands in a text, whatever words are around it.

    "0.5 us" is found in "0.5 to 0.6 us", "1/6" in "a sixth", and "5 W" neither in "5.5 W" nor in "5 kW".
    """
    flat = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain(text))
    for figure in asked:
        number, _, unit = figure.replace(",", "").partition(" ")
        rest = rf"{_LIST}\s?{re.escape(unit)}(?![\w/])" if unit else ""
        pattern = rf"(?<![\w.,/]){re.escape(number)}(?![\w/]|[.,]\d){rest}"
        assert re.search(pattern, flat), f"{figure} is not in: {flat}"


def pattern(template: str, /, **fields: object) -> re.Pattern[str]:
    """Return a pattern of a sentence with these of its fields filled in and any others, which are its groups."""
    parts, known = [], {}
    for words, name, spec, _ in string.Formatter().parse(template):
        # a screen shows ` and a line does not
        parts.append(re.escape(words).replace("`", "`?"))
        if name in known:
            parts.append(known[name])
        elif name in fields:
            known[name] = re.escape(fill(f"{{value:{spec}}}", value=fields[name]))
            parts.append(known[name])
        elif name is not None:
            group = name.replace(".", "_")
            known[name] = f"(?P={group})"
            parts.append(f"(?P<{group}>.*?)")
    if parts[-1].endswith(".*?)"):  # the last field takes all that is left of its line
        parts[-1] = parts[-1].replace(".*?", ".*")
    unknown = ", ".join(set(fields) - set(known))
    assert not unknown, f"a sentence has no field {unknown}: {template}"
    return re.compile("".join(parts) + r"(?!\d)")


def sentence(key: str, /, **fields: object) -> re.Pattern[str]:
    """Return the pattern of the row ``key`` of the table of texts."""
    return pattern(table()[key], **fields)


def remark(exercise: int, key: str, /, **fields: object) -> re.Pattern[str]:
    """Return the pattern of a sentence of the judges of an exercise."""
    return pattern(load(f"exercise{exercise}")["messages"][key], **fields)
