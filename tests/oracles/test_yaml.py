"""The reader of manifests against PyYAML, where that is installed, and what other people's manifests say."""

import pytest

from fabriclab import operations
from fabriclab.operations.yaml_subset import read_documents

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

TEXTS = {
    "example": operations.example_manifest(),
    "quoted over lines": "a: '{\n  \"type\": \"x\"\n}'\nb: \"one\n  two\"\nc: 'it''s'\n",
    "blocks": "a: |\n  one\n    two\n\n  # three\nb: |-\n  end\nc: >\n  one\n  two\n\n  three\n\n\n  four\nd: >-\n  x\n",
    "lists": "a:\n- 1\n- b: 2\n  c: 3\n-\n  d: 4\n- - 5\n  - 6\nb:\n  - x\n  -   y: 1\n      z: 2\n",
    "brackets": 'a: [1, "b, c", {d: e, f: 2}, []]\nb: {}\nc: {x: [1, 2],\n  y: 3}\nd: [ "IPC_LOCK" ]\n',
    "scalars": "a: 1\nb: 1.5\nc: true\nd: ~\ne:\nf: 0x10\ng: -3\nh: 1.\ni: host:5000/x\nj: a b\nk: False\nl: .5\n",
    "comments": "# top\na: 1 # one\nb: 'x # y' # z\n# end\nc:\n  # inside\n  d: 1\n",
    "documents": "---\na: 1\n---\nb: 2\n...\n---\n- c\n",
    "plain over lines": "a: one\n  two\n  three\nb: x\n",
    "keys": "'a b': 1\n\"c\": 2\nd e: 3\nx.y/z: 4\n-f: 5\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_values_are_those_of_pyyaml(name):
    documents, skipped = read_documents(TEXTS[name].splitlines())
    wanted = [each for each in yaml.safe_load_all(TEXTS[name]) if each is not None]
    assert [document.plain() for document in documents] == wanted
    assert skipped == []


def lines_of(node, path=()):
    """Yield the path and the line of each scalar."""
    for key, inner in [*node.keys.items(), *enumerate(node.items)]:
        yield from lines_of(inner, (*path, key))
    if not node.keys and not node.items:
        yield path, node.line


def test_lines_are_those_of_pyyaml():
    text = TEXTS["example"]
    documents, _ = read_documents(text.splitlines())
    ours = [dict(lines_of(document)) for document in documents]

    def theirs_of(node, path=()):
        if isinstance(node, yaml.MappingNode) and node.value:
            for key, value in node.value:
                yield from theirs_of(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode) and node.value:
            for number, value in enumerate(node.value):
                yield from theirs_of(value, (*path, number))
        else:
            yield path, node.start_mark.line + 1

    theirs = [dict(theirs_of(node)) for node in yaml.compose_all(text)]
    assert ours == theirs
