"""Answers to exercise 2: designs that differ and are right, and one for each known mistake.

The wrong ones are a right one with one thing changed, so a mistake is what is named and nothing else.
"""

# ruff: noqa: E501
from fabriclab import designs
from support.solutions import changed, solved

SOLVED = solved(2)
SETUP = SOLVED["ex2-setup"]


def but(id, *changes):
    """Return an answer, that of the solution if an id is given, with some text replaced; it must be there."""
    return changed(SOLVED.get(id, id), *changes)


# (a) -----------------------------------------------------------------------------------------------------------------

COUNTED = """
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
"""
GRAPH = """
def need(kind, size, n, count, time):
    passes = {"dp": [1, 1], "fsdp": [1, 1, 1], "tp": [1] * 8, "ep": [1] * 4, "pp": []}[kind]
    blocks = sum(len(range(1, n)) for _ in passes)     # of the size, n of them
    return (blocks * size / n if passes else size + size) * count / time


def above(pattern, n, inside):
    unit = [member // inside for member in range(n)]
    if pattern == "ring":
        pairs = [(i, (i + 1) % n) for i in range(n)]
        crossing = [unit[i] != unit[j] for i, j in pairs]
        return sum(crossing) / n
    return sum(unit[0] != other for other in unit) / (n - 1)


def tiers(rows):
    tier = [0.0, 0.0, 0.0]
    for pattern, rate, n, in_server, in_pod in rows:
        bounds = [1.0, above(pattern, n, in_server), above(pattern, n, in_pod), 0.0]
        for i in range(3):
            tier[i] += rate * (bounds[i] - bounds[i + 1])
    return tier
"""
TRAFFIC = """
class Traffic:
    HALVES = {"dp": 2, "fsdp": 3, "tp": 8, "ep": 4}      # gatherings, reductions, exchanges

    def __init__(self, pattern, n):
        self.pattern, self.n = pattern, n

    def sent(self, size):
        halves = self.HALVES.get(self.pattern)
        return 2 * size if halves is None else halves * (size - size / self.n)

    def leaving(self, inside):
        if inside >= self.n:
            return 0
        others = self.n - 1
        return 1 / inside if self.pattern == "ring" else 1 - (inside - 1) / others


def need(kind, size, n, count, time):
    return Traffic(kind, n).sent(size) * count / time


def above(pattern, n, inside):
    return Traffic(pattern, n).leaving(inside)


def tiers(rows):
    table = np.array([[rate, rate * above(p, n, s), rate * above(p, n, q), 0]
                      for p, rate, n, s, q in rows])
    return -np.diff(table, axis=1).sum(axis=0)
"""
SUMMED = SOLVED["ex2-a"][SOLVED["ex2-a"].index("    asked = np.zeros(3)") :].partition(
    "    ### END"
)[0]
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
    "members and whom they send to": GRAPH,
    "a class of traffic": TRAFFIC,
    "a generator of what stays": but(
        "ex2-a",
        (
            SUMMED,
            """    def kept():
        for pattern, rate, n, *inside in rows:
            leaves = [rate * above(pattern, n, size) for size in inside]
            yield [rate - leaves[0], leaves[0] - leaves[1], leaves[1]]

    return [sum(tier) for tier in zip(*kept())]
""",
        ),
    ),
}
WRONG_A = {
    "a ring that leaves its only unit": but(
        "ex2-a", ("    if inside >= n:\n        return 0.0\n", "")
    ),
    "one phase only": but("ex2-a", ('"dp": 2 * part', '"dp": part')),
    "factor taken as 2": but("ex2-a", ('"dp": 2 * part', '"dp": 2 * size')),
    "array sent once": but("ex2-a", ('"dp": 2 * part', '"dp": size')),
    "bytes, and no rate": but("ex2-a", ("count * sent[kind] / time", "count * sent[kind]")),
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
    "ring in random order": but("ex2-a", ("return 1 / inside ", "return (n - inside) / (n - 1) ")),
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

# (b) and (d): designs ------------------------------------------------------------------------------------------------


# A family, in one line, with the nights for its three leaves on each rail and nine spines.
FAMILY = """
def design():
    return {"name": "rails, 2.5:1", "family": "rail_optimised",
            "arguments": {"servers": 128, "gpus": 8, "rails": 8,
                          "oversubscription": 2.5}}
"""
FAMILY_NIGHTS = """
def drains():
    leaves = [[f"leaf {rail}.{leaf}" for leaf in range(3)]
              for rail in range(8)]
    spines = [[f"spine {night}"] for night in range(9)]
    return leaves + spines
"""


def network(family, plug="", **arguments):
    """Return the code of a learner who names a topology."""
    sheet = {"family": family, "arguments": arguments}
    if plug:
        sheet |= {"servers": 128, "gpus": 8, "plug": plug}
    return f"def design():\n    return {sheet!r}\n"


def literal(sheet):
    """Return the code of a learner whose functions return what a sheet says."""
    built = {key: sheet[key] for key in sheet if key not in ("front", "choice", "drains")}
    code = f"def design():\n    return {built!r}\n"
    if "drains" in sheet:
        code += f"\n\ndef drains():\n    return {sheet['drains']!r}\n"
    return code


# Switches and cables of one's own, as a learner writes them with nothing but Python.
OWN_CABLES = """
def design():
    leaves, spines, servers = 32, 8, 128
    switches = [{"name": f"leaf {i}", "ports": 64, "rate": "400 Gb/s", "tier": 1} for i in range(leaves)]
    switches += [{"name": f"spine {i}", "ports": 64, "rate": "400 Gb/s", "tier": 2} for i in range(spines)]
    cables = [[f"server {s} nic {j}", f"leaf {4 * j + s // 32}"] for s in range(servers) for j in range(8)]
    cables += [[f"leaf {i}", f"spine {k}", 2] for i in range(leaves) for k in range(spines)]
    return {"name": "own cables", "servers": servers, "gpus": 8, "switches": switches, "cables": cables}
"""
# The same with rules: towards another leaf each leaf uses six spines, which depend on both.
RULES = """
    rules = {}
    for i in range(leaves):
        ways = {}
        for j in range(leaves):
            if j != i:
                ways[f"leaf {j}"] = [f"spine {(i + j + k) % spines}" for k in range(6)]
        rules[f"leaf {i}"] = ways
"""
OWN_RULES = but(
    OWN_CABLES,
    (
        '    return {"name": "own cables",',
        RULES + '    return {"name": "own rules", "routing": rules,',
    ),
)
# No spine at all: 32 switches on a torus of 8 rails x 4, with thick cables along a rail and thinner ones between rails.
TORUS = """
def design():
    rails, n, servers, thick = 8, 4, 128, 10
    switches = [{"name": f"switch {i}", "ports": 64, "rate": "400 Gb/s"} for i in range(rails * n)]
    cables = [[f"server {s} nic {j}", f"switch {(j * servers + s) // 32}"] for s in range(servers) for j in range(8)]
    for x in range(rails):
        for y in range(n):
            cables.append([f"switch {n * x + y}", f"switch {(x + 1) % rails * n + y}", 6])
            cables.append([f"switch {n * x + y}", f"switch {n * x + (y + 1) % n}", thick])
    return {"name": "torus", "servers": servers, "gpus": 8, "switches": switches, "cables": cables}
"""
# A switch of 128 ports for each rail; servers join the rails.
RAIL_ONLY = network("rail_only", servers=128, radix=128)
DESIGNS = {
    "the solution": SOLVED["ex2-b"] + "\n\n" + SOLVED["ex2-d"],
    "rails": FAMILY + "\n\n" + FAMILY_NIGHTS,
    "rails, 3:1": network("rail_optimised", oversubscription=3),
    "rails, 3:1, 126 servers": network("rail_optimised", servers=126, oversubscription=3),
    "rails without spines": RAIL_ONLY,
    "two planes": network("multi_plane", planes=2, rate="400 Gb/s", oversubscription=4),
    "two leaves for each NIC": network("dual_tor", dual_plane=False, oversubscription=4),
    "leaves and spines, plugged by rail": network(
        "leaf_spine", "by rail", hosts=1024, radix=64, oversubscription=2
    ),
    "a fat tree of unequal tiers": network("xgft", "by rail", m=[32, 32], w=[1, 10]),
    "own cables": OWN_CABLES,
    "own rules": OWN_RULES,
    "torus": TORUS,
}
ALL = """"arguments": {"servers": 128, "gpus": 8, "rails": 8,
                          "oversubscription": 2.5}"""


def _within_the_budget(code):
    """Return the price of a design at list prices, or 0 if it exceeds the budget. [USD]."""
    names = {}
    exec(code, names)
    price = designs.bill_of(designs.read(names["design"]())).capital
    return price if price <= designs.BUDGET else 0


def rails(arguments):
    """Return the family with other arguments, or other keys behind them."""
    return but(FAMILY, (ALL, f'"arguments": {arguments}'))


WRONG_B = {
    "too few GPUs": rails('{"servers": 124, "oversubscription": 2.5}'),
    "too few GPUs/servers without a cable": but(
        OWN_CABLES, ("for s in range(servers) for j", "for s in range(120) for j")
    ),
    "servers of another size": rails('{"servers": 64, "gpus": 16, "rails": 16}'),
    "uplinks cost no ports": but(
        OWN_CABLES,
        ("leaves, spines, servers = 32, 8, 128", "leaves, spines, servers = 16, 8, 128"),
        ("leaf {4 * j + s // 32}", "leaf {2 * j + s // 64}"),
        ("2] for i", "4] for i"),
    ),
    "a switch that nobody sells": rails('{"radix": 96}'),
    "a cable faster than its port": network("multi_plane", planes=2),
    "copper reaches everywhere": rails('{"oversubscription": 2.5}, "floor": {"media": ["copper"]}'),
    "a rack without a limit": rails('{"oversubscription": 2.5}, "floor": {"servers_per_rack": 8}'),
    "networks that do not meet": but(
        OWN_CABLES,
        ("2] for i", "4] for i"),
        ("for k in range(spines)]", "for k in range(spines) if (i % 4 < 2) == (k < 4)]"),
    ),
    "routes in a circle": but(
        OWN_RULES,
        (
            '    return {"name": "own rules"',
            '    rules["spine 0"] = {"leaf 8": ["leaf 0"]}\n    return {"name": "own rules"',
        ),
    ),
    "bought for another workload": rails('{"oversubscription": 4}'),
    "bought for another workload/a thin torus": but(
        TORUS, ("thick = 8, 4, 128, 10", "thick = 8, 4, 128, 2")
    ),
    "the same rate everywhere": rails('{"radix": 128}'),
    "the same rate everywhere/as many up as down": rails("{}"),
}
SOLVED_SUMS = SOLVED["ex2-b"]
WRONG_B |= {
    "one NIC for all of the switch": but(
        SOLVED_SUMS, ("experts = 32 * 28.0e9", "experts = 28.0e9")
    ),
    "everything leaves the switch": but(
        SOLVED_SUMS, ("32 * 28.0e9 * (64 - 32) / (64 - 1)", "32 * 28.0e9")
    ),
    "rate in another unit": but(SOLVED_SUMS, ("20 * 50e9", "20 * 400e9")),
    "cables down counted as well": but(SOLVED_SUMS, ("20 * 50e9", "52 * 50e9")),
}
# It fits at list prices, and not at all prices that a key may draw: the dearest of the thicknesses within the budget.
NO_ROOM = max(
    (rails(f'{{"oversubscription": {ratio}}}') for ratio in (1, 1.25, 1.5, 1.75, 2, 2.25, 2.5)),
    key=lambda code: _within_the_budget(code),
)

NIGHTS = "return leaves + spines"


def nights(*changes):
    """Return the family with its nights changed."""
    return FAMILY + "\n\n" + but(FAMILY_NIGHTS, *changes)


WRONG_D = {
    "redundancy is a second spine": rails('{"rails": 1}') + "\n\n" + FAMILY_NIGHTS,
    "one switch carries too much": but(
        rails('{"servers": 256, "gpus": 4, "rails": 4, "oversubscription": 2.5}')
        + "\n\n"
        + FAMILY_NIGHTS,
        ("range(3)]\n", "range(6)]\n"),
        ("for rail in range(8)", "for rail in range(4)"),
    ),
    "a switch left out": nights((NIGHTS, "return leaves + spines[1:]")),
    "a switch drained twice": nights((NIGHTS, 'return leaves + spines + [["spine 0"]]')),
    "one switch a night": nights(
        (NIGHTS, "return [[name] for night in leaves + spines for name in night]")
    ),
    "both sides drained at once": nights(
        (
            NIGHTS,
            'return [[f"leaf {rail}.{leaf}" for rail in range(8)] for leaf in range(3)] + spines',
        ),
    ),
    "too many at once": nights(
        (
            NIGHTS,
            'return [[f"leaf {rail + i}.{leaf}" for i in (0, 1)] for rail in (0, 2, 4, 6) for leaf in range(3)] + spines',
        ),
    ),
    "a switch that is not there": but(
        FAMILY_NIGHTS, (NIGHTS, 'return leaves + spines + [["leaf 8.0"]]')
    ),
}

# (c) -----------------------------------------------------------------------------------------------------------------

SIX = """    six = design() | {"name": "six spines",
                      "without": [f"spine {i}" for i in range(6, 10)]}
"""
ALL_FOUR = "return [design(), six, none, wide]"
THIN = '{"name": "torus", "family": "torus", "arguments": {"shape": [8, 8], "hosts": 16}, "servers": 128, "gpus": 8, "plug": "by rail"}'
REASONS = '"reasons": {"time": 4.731, "left": 0.875}'
NEXT = '"next": "no spines"'
DIFFERENCE = '"difference": {"cost": 1_061_760, "time": -0.299}'
DESIGN_NAMED = '{"name": "ten spines", "servers": 128, "gpus": 8,'
# Switches beside the servers, as they stand if nothing is said, and the same network with its switches side by side.
PLACED = but(
    "ex2-b",
    ('"rack": 32 + leaf % 2,\n', "\n"),
    ('"rack": 32 + spine % 2,\n', "\n"),
    ('"name": "ten spines"', '"name": "placed otherwise"'),
)
NEAR = """boxes = design()["switches"]
    near = design() | {"name": "near", "switches": [
        box | {"rack": 32 + i % 2} for i, box in enumerate(boxes)]}
    """
RIGHT_C = {
    "the solution": SOLVED["ex2-c"],
    "texts": but("ex2-c", (REASONS, '"reasons": {"cost": "2.91e6", "switches": 42}')),
    "units": but(
        "ex2-c",
        (REASONS, '"reasons": {"cost": "2.91 MUSD", "time": "4731 ms"}'),
        (DIFFERENCE, '"difference": {"time": "-299 ms", "cost": "1062 kUSD"}'),
    ),
    "another comparison": but("ex2-c", (DIFFERENCE, '"difference": {"power": 19_966}')),
    "another next": but(
        "ex2-c", (NEXT, '"next": "six spines"'), (DIFFERENCE, '"difference": {"switches": 4}')
    ),
    "the design in other words": but(
        "ex2-c", (ALL_FOUR, 'return [design() | {"without": [], "floor": {}}, six, none, wide]')
    ),
    "three candidates": but("ex2-c", (ALL_FOUR, "return [design(), six, none]")),
}
WRONG_C = {
    "too few to choose from": "def candidates():\n    return [design()]\n\n\ndef choice():\n    return {}\n",
    "one design under two names": but(
        "ex2-c", (ALL_FOUR, 'return [design(), six, none, design() | {"name": "again"}]')
    ),
    "one design under two names/in other words": but(
        "ex2-c",
        (ALL_FOUR, 'return [design(), six, none, design() | {"name": "again", "floor": {}}]'),
    ),
    "a candidate that is too small": but(
        "ex2-c",
        (
            '{"name": "1:1", "family": "rail_optimised"}',
            '{"name": "1:1", "family": "rail_optimised", "servers": 64}',
        ),
    ),
    "chosen from outside": but(
        "ex2-c", ('return {"name": "ten spines",', 'return {"name": "my design",')
    ),
    "another design than the one built": but(
        "ex2-c",
        ('return {"name": "ten spines",', 'return {"name": "six spines",'),
        (REASONS, '"reasons": {"time": 4.894, "left": 0.875}'),
        (NEXT, '"next": "ten spines"'),
        (DIFFERENCE, '"difference": {"cost": -179_200}'),
    ),
    "a dominated choice": PLACED
    + "\n\n"
    + but(
        "ex2-c",
        (ALL_FOUR, NEAR + "return [design(), six, none, near]"),
        ('return {"name": "ten spines",', 'return {"name": "placed otherwise",'),
        (NEXT, '"next": "near"'),
        (DIFFERENCE, '"difference": {"cost": 419_540}'),
    ),
    "other than two figures": but("ex2-c", (REASONS, '"reasons": {"time": 4.731}')),
    "other than two figures/unknown": but(
        "ex2-c", (REASONS, '"reasons": {"time": 4.731, "beauty": 1}')
    ),
    "a figure that is not true": but("ex2-c", (REASONS, '"reasons": {"time": 4.5, "left": 0.875}')),
    "figure of another candidate": but(
        "ex2-c", (REASONS, '"reasons": {"cost": 3_968_560, "left": 0.875}')
    ),
    "figure in another unit": but("ex2-c", (REASONS, '"reasons": {"cost": 2.91, "left": 0.875}')),
    "compared with nothing": but("ex2-c", (NEXT, '"next": "ten spines"')),
    "not the next best": but(
        "ex2-c",
        ('{"name": "1:1", "family": "rail_optimised"}', THIN),
        (NEXT, '"next": "torus"'),
        (DIFFERENCE, '"difference": {"power": 1}'),
    ),
    "comparison the wrong way round": but(
        "ex2-c", (DIFFERENCE, '"difference": {"cost": -1_061_760}')
    ),
    "figure for a difference": but("ex2-c", (DIFFERENCE, '"difference": {"cost": 1_848_960}')),
}
RIGHT = {"ex2-a": RIGHT_A, "ex2-b": DESIGNS, "ex2-c": RIGHT_C, "ex2-d": DESIGNS}
WRONG = {"ex2-a": WRONG_A, "ex2-b": WRONG_B, "ex2-c": WRONG_C, "ex2-d": WRONG_D}
