"""Live views at many settings of their controls, and printed pictures."""

import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np

import fabriclab as fl
from fabriclab import collectives, topologies
from freezing.values import attempt, error_line, hashed, plain

live = fl.live
DRAWS = 20  # drawn settings of a view
STEP_DRAWS = 2  # of the view of each algorithm's steps: there are many, and they differ little

HALL = topologies.build("rail_optimised")
RAILS = np.array(collectives.rail_groups(HALL))
STAR = topologies.build("crossbar", hosts=16)
EIGHT = topologies.build("crossbar", hosts=8)
SMALL_HALL = topologies.build("rail_optimised", servers=4, gpus=4, rails=4, radix=8)
TREE = topologies.build("fat_tree", k=4)
REPEATED = fl.simulate("all_reduce", "ring", EIGHT, "1 MB", lag="5 us")
RUN = fl.simulate("all_reduce", "ring", EIGHT, "1 MB", expand=True, lag="5 us")
RUNS = {"ring": RUN, "tree": fl.simulate("all_reduce", "binomial_tree", STAR, "1 MB")}
LINKS = {"NVLink 4": "450 GB/s"}
ALPHA_AND_SIZE = {"alpha": live.Slider(1, 20, unit="us"), "size": live.Choice((4, 64))}


def shuffled(seed: int) -> Any:
    """Return a ring in the whole hall, with servers in a drawn order."""
    rng = np.random.default_rng(seed)
    place = np.array([rng.permutation(group) for group in RAILS]) if seed else RAILS
    return fl.simulate("all_reduce", "ring", HALL, "1 GB", placement=place)


def rooted(root: int) -> Any:
    """Return a broadcast in the whole hall."""
    return fl.simulate("broadcast", "one_root", HALL, "1 GB", root=root)


def counted(n: int) -> Any:
    """Return a table of n rows."""
    return fl.views.table({"ranks": np.arange(1, n + 1), "steps": 2 * np.arange(n)})


def two_ways(alpha: float, size: int) -> dict[str, Any]:
    """Return two algorithms over sizes."""
    sizes = ["1 KiB", "64 KiB", "1 MiB", f"{size} MiB"]
    lag = alpha * 1e-6
    return {
        name: fl.sweep("all_reduce", name, STAR, sizes, lag=lag)
        for name in ("ring", "binomial_tree")
    }


def favoured(popular: float, choices: int) -> Any:
    """Return how many tokens go from rank to rank where some experts are popular."""
    chosen = collectives.choose_experts(9, 16, choices, popular=popular)
    return collectives.expert_tables(chosen, "low_latency")[0]


def counts_packets(packet: Any, slot: Any) -> Any:
    """Return the decisions of a switch that takes every packet for a new one."""
    never = packet.chunk < 0
    return never, never


def kept(obtained: str, **more: Any) -> Any:
    """Return a result of two sizes."""
    return fl.core.Result(
        "copy", obtained, [2**20, 2**24], [1e-3, 2e-3], n_ranks=1, source="a paper", **more
    )


def wired(rails: int) -> Any:
    """Return eight servers of four GPUs on some rails."""
    return topologies.build("rail_optimised", servers=8, gpus=4, rails=rails, radix=8, expand=False)


MEASURED = {
    "here": kept("measured", samples=[[1e-3, 1e-3, 2e-3], [2e-3, 2e-3, 3e-3]]),
    "there": kept("published"),
}

VIEWS = {
    "stepper": "live.stepper('all_reduce', 'ring', 4)",
    "tree": "live.stepper('all_reduce', 'binomial_tree', 8, segments=4, pipelined=True, step=2)",
    "switches": "live.stepper('all_reduce', 'nvls_sharp', 8, options={'per_server': 4}, step=3)",
    "steps on a fabric": (
        "live.stepper('all_reduce', 'ring', 4,"
        " fabric=topologies.build('leaf_spine', hosts=8, radix=4), step=1)"
    ),
    "fabric": "live.fabric(HALL, shuffled, controls={'seed': live.Slider(0, 9)})",
    "opened": (
        "live.fabric(HALL, shuffled, controls={'seed': live.Slider(0, 9)}, seed=3, open=0,"
        " colour='rail')"
    ),
    "small fabric": "live.fabric(topologies.build('fat_tree', k=4).without(cables=[20]))",
    "loaded fabric": "live.fabric(TREE, np.linspace(0, 1, TREE.n_links))",
    "torus map": "live.fabric(topologies.build('torus', shape=(4, 4)))",
    "floor": (
        "live.fabric(HALL, rooted, controls={'root': live.Slider(0, 1023)}, layout='floor', root=9,"
        " said='One sends to all.')"
    ),
    "sweep": "live.sweep(two_ways, controls=ALPHA_AND_SIZE)",
    "bounded": (
        "live.sweep(two_ways, controls=ALPHA_AND_SIZE, bounds={'floor': np.float64(1e-5)})"
    ),
    "empty sweep": "live.sweep({})",
    "repeated": "live.timeline(REPEATED.timeline, REPEATED.flows, REPEATED.fabric, at=95)",
    "timeline": "live.timeline(RUN.timeline, RUN.flows, RUN.fabric, at=50)",
    "no fabric": "live.timeline(RUN.timeline, RUN.flows)",
    "table": "live.table(counted, {'n': live.Slider(2, 9)}, 'Rings')",
    "race": "live.race(RUNS)",
    "placement": "live.placement(HALL)",
    "wirings": "live.wirings({'4 rails': wired(4), '1 rails': wired(1)})",
    "paths": "live.paths(TREE)",
    "paths of a dragonfly": (
        "live.paths(topologies.build('dragonfly', p=2, a=4, h=2), target=8, routing='minimal',"
        " routings=('minimal', 'valiant'))"
    ),
    "roulette": "live.roulette()",
    "slowest": "live.slowest()",
    "bubble": "live.bubble()",
    "staleness": "live.staleness()",
    "explorer": "live.explorer('torus', families=('torus', 'dragonfly', 'slim_fly'))",
    "twist": "live.twist((2, 4))",
    "failures": "live.failures(TREE, count=3)",
    "cut": "live.cut(topologies.build('mesh', shape=(3, 5)))",
    "mix": "live.mix(SMALL_HALL, 50)",
    "traffic": (
        "live.traffic(favoured, controls={'popular': live.Slider(1, 8),"
        " 'choices': live.Choice((1, 3))}, popular=2)"
    ),
    "server": "live.server()",
    "copies": "live.copies('peer')",
    "drive": "live.copies('peer', source='nvme', server='dgx_a100', size='1 GiB')",
    "savings": "live.savings()",
    "chunks": "live.chunks(64.0, 'pageable')",
    "gigaio": "live.gigaio(wirings=('2s-2rp-split-flat', '2s-2rp-std-flat'))",
    "overlap": "live.overlap(bucket=1260)",
    "priority": "live.overlap(bucket=220, priority=True)",
    "straggler": "live.straggler()",
    "slow link": "live.straggler(ranks=7, what='link', way='binomial_tree')",
    "queue pair": "live.queue_pair()",
    "request": "live.request(step=9)",
    "packets": "live.packets(counts_packets, keeps='yours', story='a copy comes late', step=7)",
    "pool": "live.pool()",
    "quantisation": "live.quantisation(22, 10)",
    "tenants": "live.tenants(5, 'low latency', 2)",
    "pays": "live.pays()",
    "medium": "live.medium(3.0, '400 Gb/s', 'price')",
    "wavelengths": "live.wavelengths(60)",
    "drift": "live.drift(12)",
    "beam": "live.beam(10, 256, 'behind a person')",
    "aim": "live.beam(10, 361, '3 degrees off', over='elements')",
    "hybrid": "live.hybrid('all', 'all', 8)",
    "mzi mesh": "live.mzi_mesh(8, 10, 2.0)",
    "circuit": "live.circuit('thermo-optic', 20)",
    "ruler": "live.ruler({'copy': '10 GB/s'}, {'NVLink 4': '450 GB/s'})",
    "results": "live.ruler(MEASURED, LINKS)",
    "latency": "live.latency(switches=3)",
    "tiers": "live.tiers(cache='CXL')",
    # What is refused.
    "step outside": "live.stepper('all_reduce', 'ring', 4).set(step=7)",
    "step in words": "live.stepper('all_reduce', 'ring', 4).set(step='two')",
    "no such control": "live.stepper('all_reduce', 'ring', 4).set(stop=1)",
    "no such colour": "live.fabric(HALL, colour='blue')",
    "too many ranks": "live.stepper('all_reduce', 'ring', 17)",
}
# Values and types of `fl.live` that are no view.
NO_VIEWS = ("Choice", "Layer", "Live", "Scene", "Slider")

PICTURES = {
    "fabric": "fl.draw(TREE)",
    "hall": "fl.draw(HALL)",
    "hall with a fault": "fl.draw(HALL.without(cables=[5000]))",
    "loaded": "fl.views.fabric(TREE, load=np.linspace(0, 1, TREE.n_links))",
    "crossbar": "fl.draw(EIGHT)",
    "mesh": "fl.draw(topologies.build('mesh', shape=(3, 5)))",
    "server": "fl.draw(topologies.build('dgx_h100'))",
    "simulation": "fl.draw(REPEATED)",
    "timeline": "fl.draw(RUN.timeline, flows=RUN.flows, fabric=RUN.fabric)",
    "timeline without a fabric": "fl.draw(RUN.timeline, flows=RUN.flows)",
    "result": (
        "fl.draw(fl.sweep('all_reduce', 'ring', EIGHT, ['1 KiB', '1 MiB', '1 GiB'], lag='5 us'))"
    ),
    "results": "fl.draw(two_ways(2, 64))",
    "results by bus bandwidth": "fl.views.sweep(two_ways(2, 64), y='busbw')",
    "bounded": "fl.views.sweep(two_ways(2, 64), bounds={'bound': '1 ms'})",
    "kept results": "fl.draw(list(MEASURED.values()))",
    "comparison": "fl.draw(fl.catalog.links.compare('NDR', 'nvlink4'))",
    "ruler": "fl.views.ruler({'copy': '10 GB/s'}, {'NVLink 4': '450 GB/s'})",
    "calibration": (
        "fl.views.calibration(['one', 'two'], [0.5, 2.0], [0.25, 1.0], [1.0, 4.0], finding='Half')"
    ),
    "found": "fl.draw(EIGHT, finding='Eight hosts meet over 1 switch and 8 cables')",
    "nothing": "fl.draw(3)",
    "no results": "fl.views.sweep([])",
}


def frozen() -> dict[str, Any]:
    """Return all views and pictures."""
    made = {name: of_view(name, code) for name, code in VIEWS.items()}
    for full in fl.registry.names("collective"):
        what, algorithm = full.split(".")
        code = f"live.stepper({what!r}, {algorithm!r}, 8)"
        made[f"steps of {full}"] = of_view(f"steps of {full}", code)
    shown = {name: of_picture(code) for name, code in PICTURES.items()}
    names = " ".join([*VIEWS.values()])
    missing = [
        name for name in live.__all__ if f"live.{name}(" not in names and name not in NO_VIEWS
    ]
    return {"views": made, "pictures": shown, "constructors": {"without a view here": missing}}


def built(code: str) -> Any:
    """Return what an expression of the tables above makes."""
    return eval(code, globals())


def of_view(name: str, code: str) -> dict[str, Any]:
    """Return a view as it is first shown and at each setting, and what a page gets of it."""
    try:
        view = built(code)
        first = {
            "expression": code,
            "default": of_state(view),
            "text": str(view),
            "repr": repr(view),
        }
        settings = settings_of(view, f"fabriclab {name}", _draws(name))
        first["settings"] = {label: of_setting(view, values) for label, values in settings.items()}
        first["page"] = of_page(built(code))
        first["printed"] = attempt(lambda: of_print(built(code).picture()))
    except (Exception, SystemExit) as error:
        return {"expression": code, **error_line(error)}
    return first


def _draws(name: str) -> int:
    """Return how many settings are drawn for a view."""
    return STEP_DRAWS if name.startswith("steps of ") else DRAWS


def settings_of(view: Any, seed: str, draws: int) -> dict[str, dict[str, Any]]:
    """Return settings by label: both ends of each control, then drawn ones."""
    found: dict[str, dict[str, Any]] = {}
    for name, control in view.controls.items():
        first, last = ends_of(control)
        found[f"{name} first"] = {name: first}
        found[f"{name} last"] = {name: last}
    if view.controls:
        rng = random.Random(seed)
        for number in range(1, draws + 1):
            found[f"drawn {number:02}"] = {
                name: drawn(control, rng) for name, control in view.controls.items()
            }
    return found


def ends_of(control: Any) -> tuple[Any, Any]:
    """Return the first and the last value of a control."""
    if hasattr(control, "options"):
        return control.options[0], control.options[-1]
    return control.low, control.high


def drawn(control: Any, rng: random.Random) -> Any:
    """Return a value that a hand could set."""
    if hasattr(control, "options"):
        return rng.choice(control.options)
    if control.log:
        return math.exp(rng.uniform(math.log(control.low), math.log(control.high)))
    return rng.uniform(control.low, control.high)


def of_setting(view: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a view at one setting, or the error that this setting raises."""
    try:
        view.set(**values)
    except Exception as error:
        return {"values": plain(values), **error_line(error)}
    return of_state(view)


def of_state(view: Any) -> dict[str, Any]:
    """Return what a view shows where its controls stand."""
    return {"code": view.code, "values": plain(view.values), **of_scene(view.scene)}


def of_scene(scene: Any) -> dict[str, Any]:
    """Return all fields of a scene; arrays by hash, tables as text and by column."""
    table = scene.table
    return {
        "said": scene.said,
        "alt": scene.alt,
        "caption": scene.caption,
        "height": plain(scene.height),
        "moves": bool(scene.moves),
        "wrong": bool(scene.wrong),
        "verdict": plain(scene.verdict),
        "table": None if table is None else of_table(table),
        "layers": {
            name: {"kind": layer.kind, **plain(layer.fields)}
            for name, layer in scene.layers.items()
        },
        "order": list(scene.layers),
    }


def of_table(table: Any) -> dict[str, Any]:
    """Return a table as text, and its columns with their full precision."""
    return {
        "text": str(table),
        "columns": plain(table.columns),
        "html": hashed(table._repr_html_().encode()),
    }


def of_page(view: Any) -> dict[str, Any]:
    """Return what a notebook's page gets: controls, the first frame, and that of each button."""
    spec = {
        name: part for name, part in view.widget.spec.items() if name not in ("words", "palette")
    }
    found = {
        "spec": plain(spec),
        "title": view.title,
        "controls": [repr(c) for c in view.controls.values()],
    }
    found["frame"] = of_frame(view)
    values = {name: ends_of(control)[1] for name, control in view.controls.items()}
    view.widget.asked = {"seq": 1, "values": values, "table": True}
    found["answer"] = of_frame(view)
    for number, button in enumerate(spec["buttons"], 2):
        view.widget.asked = {
            "seq": number,
            "values": values,
            "press": button["name"],
            "whole": True,
        }
        found[f"pressed {button['name']}"] = of_frame(view)
    return found


def of_frame(view: Any) -> dict[str, Any]:
    """Return what was sent last; layers and numbers by hash, since the scene has them in full."""
    frame = plain(view.widget.frame)
    frame["layers"] = hashed(repr(frame["layers"]).encode())
    frame["numbers"] = hashed(view.widget.numbers)
    return frame


def of_picture(code: str) -> dict[str, Any]:
    """Return the words and numbers of a printed picture."""
    try:
        return {"expression": code, **of_print(built(code))}
    except Exception as error:
        return {"expression": code, **error_line(error)}


def of_print(picture: Any) -> dict[str, Any]:
    """Return finding, alternative text, table, caption and drawing of a picture."""
    svg = picture.svg()
    return {
        "finding": picture.finding,
        "alt": picture.alt,
        "caption": picture.caption,
        "text": str(picture),
        "table": of_table(picture.table),
        "drawing": f"{len(svg)} characters, sha256 {hashed(svg.encode())}",
    }
