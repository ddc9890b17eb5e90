"""Designs of exercise 2: right ones by many approaches, and flawed ones, each with the requirement that refuses it.

A flawed design is a right one with one thing changed. Its reason is the first requirement that is not met.
"""

import copy

import numpy as np

from fabriclab import designs, topologies

SERVERS = 128
RAILS = 8


def rails(spines=10, shift=lambda server: 0, block=lambda server: server // 32, each=2):
    """Return rails as switches and cables: a leaf for each rail and block of 32 servers."""
    leaves = [f"leaf {rail}.{b}" for rail in range(RAILS) for b in range(4)]
    switches = [{"name": name, "ports": 64, "rate": "400 Gb/s"} for name in leaves]
    switches += [
        {"name": f"spine {i}", "ports": 64, "rate": "400 Gb/s", "tier": 2} for i in range(spines)
    ]
    cables = []
    for server in range(SERVERS):
        for nic in range(RAILS):
            cables.append(
                [
                    f"server {server} nic {nic}",
                    f"leaf {(nic + shift(server)) % RAILS}.{block(server)}",
                ]
            )
    cables += [[leaf, f"spine {i}", each] for leaf in leaves for i in range(spines)]
    return {"servers": SERVERS, "gpus": 8, "switches": switches, "cables": cables}


def shuffled(seed=3):
    """Return rails whose servers and NICs are plugged in at random, each server still on all rails of a block."""
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.arange(SERVERS) // 32)
    order = [rng.permutation(RAILS) for _ in range(SERVERS)]
    sheet = rails(block=lambda server: block[server])
    for row in sheet["cables"][: SERVERS * RAILS]:
        _, server, _, nic = row[0].split()
        row[1] = f"leaf {order[int(server)][int(nic)]}.{block[int(server)]}"
    return sheet


def family(name, servers=None, plug=None, **arguments):
    """Return a sheet that names a topology."""
    sheet = {"family": name, "arguments": arguments}
    if plug is not None:
        return {**sheet, "servers": servers or SERVERS, "plug": plug}
    if servers is not None:
        arguments["servers"] = servers
    return sheet


def more_right():
    """Return right designs beside `designs.examples`, by name; drains and choice are added by `right`."""
    own = rails()
    own["server_racks"] = [server // 4 + (server // 64) for server in range(SERVERS)]
    for i in range(10):
        own["switches"][32 + i]["rack"] = 16
    ordered = rails()
    ordered["order"] = list(reversed(range(SERVERS)))
    hall = topologies.build("rail_optimised", servers=SERVERS, oversubscription=2)
    return {
        "1,000 GPUs": family("rail_optimised", servers=125, oversubscription=2),
        "1,104 GPUs": family("rail_optimised", servers=138, oversubscription=2.5),
        "servers of 4": family("dual_tor", servers=256, gpus=4, rails=4, oversubscription=3),
        "shared spines": family("dual_tor", servers=SERVERS, dual_plane=False, oversubscription=3),
        "hosts by rail": family("leaf_spine", plug="by rail", hosts=1024, oversubscription=2),
        "a fabric with its servers": designs.sheet_of(hall),
        "a fabric of NICs": designs.sheet_of(
            topologies.build("rail_optimised", oversubscription=2, expand=False)
        ),
        "shuffled": shuffled(),
        "racks of one's own": own,
        "order of one's own": ordered,
        "without a cable": {**rails(), "without": ["leaf 0.0 - spine 3"]},
        "few spines": rails(spines=8),
    }


def right(sheet):
    """Return a sheet with drains, and a choice on a front of its own that is true."""
    design = designs.read(sheet)
    figures = designs.figures(design)
    cost, time = figures["cost"], figures["time"]
    return {
        **sheet,
        "front": [
            {"name": "this", "cost": cost, "time": time},
            {"name": "cheaper", "cost": 0.8 * cost, "time": 1.2 * time},
            {"name": "faster", "cost": 1.3 * cost, "time": 0.99 * time},
        ],
        "choice": {
            "name": "this",
            "reasons": {"cost": f"{cost:.0f} USD", "left": round(figures["left"], 3)},
            "next": "cheaper",
            "difference": {"cost": 0.2 * cost, "time": -0.2 * time},
        },
        "drains": designs.plan_drains(design),
    }


def without_choice(sheet):
    """Return a sheet that is refused before drains and choice matter."""
    return {**sheet, "drains": [["leaf 0.0"]]}


def changed(sheet, change):
    """Return a copy of a sheet after a change in place."""
    new = copy.deepcopy(sheet)
    change(new)
    return new


def _switch(**fields):
    def change(sheet):
        sheet["switches"][0].update(fields)

    return change


def _one_leaf(sheet):
    """Plug all NICs of server 0 into one leaf, and those of others in exchange into theirs."""
    for nic in range(1, RAILS):
        one, other = sheet["cables"][nic], sheet["cables"][nic * RAILS]
        one[1], other[1] = other[1], one[1]


def _by(leaves):
    """Return a change that spreads the NICs of a server over so few leaves of its block."""

    def change(sheet):
        count = RAILS // leaves
        for row in sheet["cables"][: SERVERS * RAILS]:
            _, server, _, nic = row[0].split()
            server, nic = int(server), int(nic)
            # Of a block of 32 servers, those that share their leaves are `count` times fewer.
            group = server % 32 // (32 // count)
            row[1] = f"leaf {group * leaves + nic % leaves}.{server // 32}"

    return change


def _halves(sheet):
    for row in sheet["cables"][SERVERS * RAILS :]:
        block = int(row[0][-1])
        row[1] = f"spine {int(row[1].split()[1]) % 6 + 6 * (block // 2)}"
        row[2] = 2


def _loop(sheet):
    sheet["routing"] = {
        "leaf 0.0": {"leaf 0.1": ["spine 0"]},
        "spine 0": {"leaf 0.1": ["leaf 0.0"]},
    }


def _one_spine(sheet):
    goals = [f"leaf {rail}.{b}" for rail in range(RAILS) for b in range(4)]
    sheet["routing"] = {
        here: {goal: ["spine 0"] for goal in goals if goal != here} for here in goals
    }


def _few_up(sheet):
    sheet["cables"] = [
        row for row in sheet["cables"] if not (row[0] == "leaf 3.1" and row[1] > "spine 1")
    ]


def _slow_nic(sheet):
    one = sheet["cables"][0]
    sheet["cables"][0] = {"from": one[0], "to": one[1], "rate": "200 Gb/s"}


def _scrambled(sheet):
    sheet["order"] = np.random.default_rng(0).permutation(SERVERS).tolist()


def _unplugged(sheet):
    sheet["cables"] = [
        row
        for row in sheet["cables"]
        if not row[0].startswith("server") or int(row[0].split()[1]) < 120
    ]


def _together(*names):
    """Return a change that drains these switches in one night."""

    def change(sheet):
        nights = [[name for name in night if name not in names] for night in sheet["drains"]]
        nights[0] += names
        sheet["drains"] = [night for night in nights if night]

    return change


def _alone(sheet):
    sheet["drains"] = [[name] for night in sheet["drains"] for name in night]


def flawed():
    """Return flawed designs by name: the requirement that refuses each, and its sheet."""
    base = right(rails())

    def but(change, sheet=None):
        return changed(base if sheet is None else sheet, change)

    def set_(**fields):
        return lambda sheet: sheet.update(fields)

    def chosen(**fields):
        return lambda sheet: sheet["choice"].update(fields)

    thick = {"from": "leaf 0.0", "to": "spine 0", "count": 1, "rate": "800 Gb/s"}
    fat = rails(spines=8, each=4)
    for i in range(8):
        fat["switches"][32 + i].update(ports=144, rate="800 Gb/s")
    cost = base["front"][0]["cost"]
    return {
        "960 GPUs": ("size", family("rail_optimised", servers=120)),
        "servers of 2": ("size", family("rail_optimised", servers=512, gpus=2, rails=2)),
        "eight servers unplugged": ("size", but(_unplugged)),
        "one NIC without a cable": ("size", but(lambda s: s["cables"].pop(43))),
        "more cables than ports": (
            "ports",
            but(lambda s: s["cables"].append(["leaf 0.0", "spine 0", 9])),
        ),
        "a switch of 48 ports": ("ports", but(_switch(ports=48))),
        "a switch of 60 ports": ("ports", but(_switch(ports=60))),
        "64 ports of 100 Gb/s": ("ports", but(_switch(rate="100 Gb/s"))),
        "a cable faster than its ports": ("ports", but(lambda s: s["cables"].append(thick))),
        "two full cables on a NIC": (
            "ports",
            but(
                lambda s: s["cables"].__setitem__(
                    0, {"from": "server 0 nic 0", "to": "leaf 0.0", "count": 2, "rate": "400 Gb/s"}
                )
            ),
        ),
        "copper everywhere": ("reach", but(set_(floor={"media": ["copper"]}))),
        "eight servers in a rack": ("reach", but(set_(floor={"servers_per_rack": 8}))),
        "all switches beside servers": (
            "reach",
            but(lambda s: [box.update(rack=0) for box in s["switches"]]),
        ),
        "a far rack on fibre": ("reach", but(_far_rack)),
        "rules in a circle": ("routes", but(_loop)),
        "two halves": ("routes", but(_halves, without_choice(rails(spines=12)))),
        "a block without uplinks": (
            "routes",
            but(
                lambda s: s.update(
                    cables=[
                        row
                        for row in s["cables"]
                        if not (row[0].endswith(".2") and row[1].startswith("spine"))
                    ]
                )
            ),
        ),
        "four down for one up": ("demand", family("rail_optimised", oversubscription=4)),
        "a torus of thin cables": (
            "demand",
            family("torus", plug="by rail", shape=[8, 8], hosts=16),
        ),
        "one NIC at half rate": ("demand", but(_slow_nic)),
        "servers in no order": ("demand", but(_scrambled, rails(spines=8))),
        "rules over one spine": ("demand", but(_one_spine)),
        "a leaf with few uplinks": ("demand", but(_few_up)),
        "rails at 1:1": ("budget", family("rail_optimised")),
        "three tiers at 2:1": ("budget", family("rail_optimised", tiers=3, oversubscription=2)),
        "three tiers at 1:1": ("budget", family("rail_optimised", tiers=3)),
        "spines of 800 Gb/s": ("budget", fat),
        "fat tree of three tiers": (
            "budget",
            family("fat_tree", plug="by rail", k=64, hosts=1024, tiers=3),
        ),
        "a leaf for four servers": (
            "attached",
            family("rail_optimised", rails=1, oversubscription=1),
        ),
        "one server on one leaf": ("attached", but(_one_leaf)),
        "two leaves for a server": ("all_reduce", but(_by(2))),
        "four leaves for a server": ("all_reduce", but(_by(4))),
        "servers of 4 on four rails": (
            "all_reduce",
            family("rail_optimised", servers=256, gpus=4, rails=4, oversubscription=2),
        ),
        "no drains": ("drains", but(set_(drains=[]))),
        "a switch forgotten": ("drains", but(lambda s: s["drains"][0].pop())),
        "a switch twice": ("drains", but(lambda s: s["drains"][0].append(s["drains"][1][0]))),
        "two leaves of a block": ("drains", but(_together("leaf 0.0", "leaf 1.0"))),
        "all spines at once": (
            "drains",
            but(_together(*(f"spine {i}" for i in range(10)))),
        ),
        "one switch a night": ("drains", but(_alone)),
        "a switch that is not there": ("drains", but(lambda s: s["drains"][0].append("spine 99"))),
        "no choice": ("choice", but(set_(choice=None))),
        "no front": ("choice", but(set_(front=None))),
        "two points": ("choice", but(lambda s: s["front"].pop())),
        "a beaten point": ("choice", but(lambda s: s["front"][1].update(time=0.9))),
        "a false cost": ("choice", but(lambda s: s["front"][0].update(cost=0.9 * cost))),
        "a false reason": ("choice", but(chosen(reasons={"cost": cost, "left": 1.0}))),
        "one reason": ("choice", but(chosen(reasons={"cost": cost}))),
        "a figure of no name": ("choice", but(chosen(reasons={"cost": cost, "beauty": 1}))),
        "a difference the other way": ("choice", but(chosen(difference={"cost": -0.2 * cost}))),
        "itself as the next": ("choice", but(chosen(next="this"))),
    }


def _far_rack(sheet):
    sheet["floor"] = {"media": ["copper", "active copper", "fibre"]}
    sheet["switches"][32]["rack"] = 16 * 40
