"""Answers to exercise 2: designs that differ and are right, and one for each known mistake.

The wrong ones are a right one with one thing changed, so a mistake is what is named and nothing else.
"""

# ruff: noqa: E501
import json

from support import ROOT

BOOK = json.loads((ROOT / "solutions" / "exercise2.ipynb").read_text(encoding="utf-8"))
SOLVED = {
    cell["id"]: "".join(cell["source"]) for cell in BOOK["cells"] if cell["cell_type"] == "code"
}
SETUP = SOLVED["ex2-setup"]


def but(id, *changes):
    """Return an answer, that of the solution if an id is given, with some text replaced; it must be there."""
    code = SOLVED.get(id, id)
    for old, new in changes:
        assert old in code, f"{id:.60} does not hold {old!r}"
        code = code.replace(old, new)
    return code


# (a) -----------------------------------------------------------------------------------------------------------------

COUNTED = '''
def need(kind, size, n, count, time):
    hops = {"dp": 2 * (n - 1), "fsdp": 3 * (n - 1), "tp": 8 * (n - 1), "ep": 4 * (n - 1)}
    if kind == "pp":
        return f"{2 * size * count / time} B/s"
    return hops[kind] * (size / n) * count / time


def above(pattern, n, inside):
    unit = np.arange(n) // inside
    if pattern == "ring":
        return np.mean(unit != np.roll(unit, -1))
    return (unit[:, None] != unit).sum() / (n * (n - 1))


def tiers(rows):
    found = [0.0, 0.0, 0.0]
    for pattern, rate, n, server, pod in rows:
        edges = [1.0, above(pattern, n, server), above(pattern, n, pod), 0.0]
        for tier in range(3):
            found[tier] += rate * (edges[tier] - edges[tier + 1])
    return found
'''
RIGHT_A = {
    "closed forms": SOLVED["ex2-a"],
    "counted": COUNTED,
    "a tuple": but("ex2-a", ("    return asked\n", "    return tuple(asked)\n")),
    "texts": but("ex2-a", ("    return asked\n", '    return [f"{one} B/s" for one in asked]\n')),
    "a branch for each": but(
        "ex2-a",
        (
            "    return count * sent[kind] / time",
            '    if kind == "pp":\n        return size / time * count * 2\n    return sent[kind] / time * count',
        ),
    ),
}
WRONG_A = {
    "one phase only": but("ex2-a", ('"dp": 2 * part', '"dp": part')),
    "factor taken as 2": but("ex2-a", ('"dp": 2 * part', '"dp": 2 * size')),
    "array sent once": but("ex2-a", ('"dp": 2 * part', '"dp": size')),
    "bytes for a rate": but("ex2-a", ("count * sent[kind] / time", "count * sent[kind]")),
    "one use of many": but("ex2-a", ("count * sent[kind] / time", "sent[kind] / time")),
    "everything to everyone": but("ex2-a", ('"dp": 2 * part', '"dp": (n - 1) * size')),
    "fsdp taken for dp": but("ex2-a", ('"fsdp": 3 * part', '"fsdp": 2 * part')),
    "sharding sends nothing more": but("ex2-a", ('"fsdp": 3 * part', '"fsdp": part')),
    "half of a layer": but("ex2-a", ('"tp": 4 * 2 * part', '"tp": 4 * part')),
    "one all-reduce of four": but("ex2-a", ('"tp": 4 * 2 * part', '"tp": 2 * part')),
    "forward only": but("ex2-a", ('"pp": 2 * size', '"pp": size')),
    "ring factor for a message": but("ex2-a", ('"pp": 2 * size', '"pp": 2 * part')),
    "half of the exchanges": but("ex2-a", ('"ep": 4 * part', '"ep": 2 * part')),
    "own part sent as well": but("ex2-a", ('"ep": 4 * part', '"ep": 4 * size')),
    "every token to every expert": but("ex2-a", ('"ep": 4 * part', '"ep": 4 * (n - 1) * size')),
    "non-blocking everywhere": but("ex2-a", ("return 1 / inside ", "return 1.0 ")),
    "ring in random order": but(
        "ex2-a", ("return 1 / inside ", "return (n - inside) / (n - 1) ")
    ),
    "hops of one unit for the share of all": but("ex2-a", ("return 1 / inside ", "return 1 / n ")),
    "itself counted as a target": but("ex2-a", ("(n - inside) / (n - 1)", "(n - inside) / n")),
    "exchange taken for a ring": but("ex2-a", ("(n - inside) / (n - 1)", "1 / inside")),
    "inside for outside": but("ex2-a", ("(n - inside) / (n - 1)", "(inside - 1) / (n - 1)")),
    "all rates in every tier": but(
        "ex2-a", ("[rate - out_of_server, out_of_server - out_of_pod,", "[rate, rate,")
    ),
    "passing through counted twice": but(
        "ex2-a", ("out_of_server - out_of_pod,", "out_of_server,")
    ),
}
