"""The values of a YAML text with the line of each, and the lines that cannot be read.

PyYAML reads the text and knows where every value stands. It stops at the first line that it cannot read, so that line
is noted and the rest is read again without it: a manifest with one slip still says what else is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fabriclab.errors import FileFormat
from fabriclab.operations.readings import Skipped

if TYPE_CHECKING:
    import yaml

__all__ = ["Node", "read_documents"]

Scalar = str | int | float | bool | None

_MOST_SKIPPED = 50  # lines; a text with more of them is something else than YAML
# What PyYAML was reading when it stopped, where the fault is the line on which that began.
_BEGUN = ("while scanning", "while parsing a flow")
_TAG = "tag:yaml.org,2002:"


@dataclass
class Node:
    """A value of a document with the line on which it stands: a scalar, a list of nodes, or a mapping of nodes.

    Parameters
    ----------
    line : int
        Line from 1; a list or mapping behind a key stands where its key does.
    value : str, int, float, bool, None, list of Node, or dict of str to Node
        The value.
    text : str
        What a scalar looked like, without quotes; empty for others.
    keeps_lines : bool
        Whether it is a literal block, after ``|``, which has the lines of the text below its own.
    """

    line: int
    value: Scalar | list[Node] | dict[str, Node] = None
    text: str = ""
    keeps_lines: bool = False

    @property
    def items(self) -> list[Node]:
        """The nodes of a list; empty for anything else."""
        return self.value if isinstance(self.value, list) else []

    @property
    def keys(self) -> dict[str, Node]:
        """The nodes of a mapping; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def get(self, *path: str) -> Node | None:
        """Return the node under keys of mappings, one inside the other; None if one of them is not there."""
        node: Node | None = self
        for key in path:
            node = None if node is None else node.keys.get(key)
        return node

    def string(self, *path: str) -> str:
        """Return a scalar under keys as a text; empty if there is none."""
        node = self.get(*path)
        if node is None or isinstance(node.value, list | dict) or node.value is None:
            return ""
        return str(node.value)

    def plain(self) -> object:
        """Return the value without lines."""
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return self.value


def read_documents(lines: list[str]) -> tuple[list[Node], list[Skipped]]:
    """Return the documents of a text, which ``---`` separates, and the lines that were not understood.

    Raises
    ------
    FileFormat
        If more than 50 lines cannot be read.
    """
    import yaml

    left = list(lines)
    skipped: list[Skipped] = []
    while True:
        try:
            composed = list(yaml.compose_all("\n".join(left), yaml.SafeLoader))
            break
        except yaml.YAMLError as error:
            at = min(_line_of(error, left), len(left) - 1)
            while at > 0 and not left[at].strip(" "):  # a fault at the end belongs to the last line
                at -= 1
            skipped.append(Skipped(at + 1, lines[at].strip(), _reason(error)))
            left[at] = ""
        except RecursionError:
            return [], [Skipped(1, lines[0].strip(), "the text is nested too deep")]
        if len(skipped) > _MOST_SKIPPED:
            first = (
                f"more than {_MOST_SKIPPED} lines cannot be read, the first of them: {skipped[0]}"
            )
            raise FileFormat(f"the text must be YAML, but {first}")
    reader = _Reader(lines)
    documents = [reader.node(found) for found in composed if found is not None]
    full = [document for document in documents if document.value is not None]
    return full, sorted(skipped + reader.skipped)


def _line_of(error: yaml.YAMLError, lines: list[str]) -> int:
    """Return the line, from 0, that keeps a text from being read."""
    begun, context = getattr(error, "context_mark", None), getattr(error, "context", None) or ""
    if begun is not None and context.startswith(_BEGUN):
        return int(begun.line)
    found = getattr(error, "problem_mark", None)
    if found is not None:
        return int(found.line)
    before = "\n".join(lines)[: getattr(error, "position", 0)]  # a sign that YAML does not allow
    return before.count("\n")


def _reason(error: yaml.YAMLError) -> str:
    """Return why a line was not read, in PyYAML's words."""
    parts = [getattr(error, part, None) for part in ("context", "problem", "reason")]
    return ", ".join(part for part in parts if part)


@dataclass
class _Reader:
    """Turns what PyYAML composed into nodes, and notes what a manifest must not have."""

    lines: list[str]
    skipped: list[Skipped] = field(default_factory=list)
    done: dict[int, Node] = field(default_factory=dict)  # by composed node, since aliases repeat it

    def skip(self, line: int, why: str) -> None:
        """Note a line, from 1, that is not understood."""
        self.skipped.append(Skipped(line, self.lines[line - 1].strip(), why))

    def node(self, found: yaml.Node) -> Node:
        """Return a composed value, and everything in it, with lines."""
        import yaml

        if id(found) in self.done:
            return self.done[id(found)]
        line = found.start_mark.line + 1
        node = Node(min(line, len(self.lines)))
        self.done[id(found)] = node  # before its parts, of which one may be an alias of the whole
        if isinstance(found, yaml.SequenceNode):
            node.value = [self.node(item) for item in found.value]
        elif isinstance(found, yaml.MappingNode):
            node.value = self.mapping(found)
        else:
            node.value, node.text = _scalar(found), found.value
            node.keeps_lines = found.style == "|"
        return node

    def mapping(self, found: yaml.MappingNode) -> dict[str, Node]:
        """Return the values of a mapping; of a key that is there twice the first counts."""
        import yaml

        values: dict[str, Node] = {}
        for key, value in found.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.skip(line, "a list or a mapping as a key")
                continue
            if key.value in values:
                self.skip(
                    line, f"the key {key.value!r} is on line {values[key.value].line} already"
                )
                continue
            node = self.node(value)
            if not isinstance(value, yaml.ScalarNode):
                node.line = line
            values[key.value] = node
        return values


def _scalar(found: Any) -> Scalar:
    """Return the value of a scalar as Kubernetes reads it: "yes" and "on" are texts, and so are dates."""
    import yaml

    kind = found.tag.removeprefix(_TAG)
    if kind == "bool" and found.value.lower() not in ("true", "false"):
        return str(found.value)
    if kind not in ("null", "bool", "int", "float"):
        return str(found.value)
    try:
        value: Scalar = yaml.constructor.SafeConstructor().construct_object(found)
    except (ValueError, yaml.YAMLError):  # a number of thousands of digits
        return str(found.value)
    return value
