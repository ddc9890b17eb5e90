"""What is computed: estimates, schedules and their time, routes, fabrics and workloads."""

from collections.abc import Callable
from typing import Any

import numpy as np

import fabriclab as fl
from fabriclab.catalog import published
from freezing.values import attempt, plain

SIZES = ("1 KiB", "256 KiB", "16 MiB", "1 GiB")
COLLECTIVES = (None, "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
RANKS = (2, 5, 8, 16)
FABRICS = {
    "crossbar of 8": ("crossbar", {"hosts": 8}),
    "4 servers of 4 GPUs": ("rail_optimised", {"servers": 4, "gpus": 4, "rails": 4, "radix": 8}),
}
# What an algorithm takes besides, where it refuses to run without it.
OPTIONS: dict[str, dict[str, Any]] = {
    "all_reduce.hierarchical": {"per_server": 4},
    "all_reduce.collnet": {"per_server": 4},
    "all_reduce.nvls_sharp": {"per_server": 4},
    "all_to_all.hierarchical": {"per_server": 4},
    "all_reduce.bucket": {"shape": (4, 4)},
    "all_reduce.torus": {"shape": (4, 4)},
}
ROUTED = {
    "fat_tree": ("fat_tree", {"k": 4}),
    "dragonfly": ("dragonfly", {"p": 2, "a": 4, "h": 2}),
    "torus": ("torus", {"shape": (4, 4)}),
    "4 servers of 4 GPUs": FABRICS["4 servers of 4 GPUs"],
    "leaf_spine": ("leaf_spine", {"hosts": 16, "radix": 8}),
}
# Further ways to build a family, beside its defaults.
BUILT: dict[str, list[dict[str, Any]]] = {
    "crossbar": [{"hosts": 3, "rate": "8 Gb/s", "delay": "1 us"}, {"hosts": 1}],
    "dragonfly": [
        {"p": 2, "a": 4, "h": 2},
        {"p": 1, "a": 3, "h": 2, "groups": 4, "arrangement": "absolute"},
        {"p": 1, "a": 3, "h": 1, "arrangement": "relative"},
    ],
    "dragonfly_plus": [{"hosts": 2, "leaves": 4, "spines": 4, "h": 2}],
    "dual_tor": [{"servers": 4}, {"servers": 4, "dual_plane": False}],
    "fat_tree": [{"k": 4}, {"k": 8, "tiers": 2}, {"k": 3}],
    "full_mesh": [{"switches": 5, "hosts": 2}],
    "gigaio": [
        {"wiring": "2s-2rp-split-flat"},
        {"wiring": "2s-2rp-std-flat", "pcie": "63 GB/s"},
        {"wiring": "no"},
    ],
    "hypercube": [{"dimensions": 4}],
    "hyperx": [{"shape": (3, 4), "hosts": 2}],
    "jellyfish": [
        {"switches": 8, "degree": 3, "seed": 367},
        {"switches": 12, "degree": 4, "hosts": 2},
    ],
    "leaf_spine": [{"hosts": 12, "radix": 8, "oversubscription": 3}, {"hosts": 64, "radix": 16}],
    "mesh": [{"shape": (3, 4)}, {"shape": (2, 3), "hosts": 2}],
    "multi_plane": [{"servers": 2}],
    "nvl72": [{"gpus": 36}],
    "rail_only": [{"servers": 4, "gpus": 4, "rails": 2, "radix": 8}],
    "rail_optimised": [
        {"servers": 4, "gpus": 4, "rails": 4, "radix": 8},
        {"servers": 8, "gpus": 4, "rails": 1, "radix": 8, "expand": False},
        {"servers": 4096, "expand": False},
    ],
    "slim_fly": [{"q": 5}, {"q": 4, "hosts": 1}, {"q": 6}],
    "torus": [{"shape": (4, 4)}, {"shape": (2, 3)}, {"shape": (2, 2, 4), "hosts": 1}],
    "tpu_slice": [
        {"shape": (4, 4, 8)},
        {"shape": (4, 4, 8), "twisted": True},
        {"shape": (4, 4, 5)},
    ],
    "twisted_torus": [{"shape": (2, 4)}, {"shape": (2, 4, 4)}],
    "xgft": [{"m": (2, 3), "w": (1, 2)}],
}
TIMED = ("1 B", "1 MiB", "1 GiB")  # sizes of closed forms


def frozen() -> dict[str, Any]:
    """Return everything by part."""
    return {
        "estimates": estimates(),
        "schedules": schedules(),
        "simulations": simulations(),
        "routes": routes(),
        "fabrics": fabrics(),
        "workloads": workloads(),
        "case": {"shown": attempt(lambda: str(fl.case())), "fields": attempt(fl.case)},
        "validation": {"report": attempt(lambda: str(fl.validate.report()))},
    }


def built(family: str, asked: dict[str, Any]) -> Any:
    """Return a fabric of the tables above."""
    return fl.topologies.build(family, **asked)


def labelled(asked: dict[str, Any]) -> str:
    """Return arguments as a part of a key."""
    return ", ".join(f"{name}={value}" for name, value in asked.items()) or "defaults"


# Estimates --------------------------------------------------------------------------------------


def estimates() -> dict[str, Any]:
    """Return the estimate of each published system, by collective and size."""
    found: dict[str, Any] = {}
    for row in published.systems():
        name = row["sweep_id"]
        found[name] = {}
        for collective in COLLECTIVES:
            for size in SIZES:
                label = f"{collective or 'its own'} of {size}"
                found[name][label] = attempt(estimate_of(name, collective, size))
        found[name]["not calibrated"] = attempt(estimate_of(name, None, "16 MiB", calibrated=False))
        found[name]["by the others"] = attempt(
            estimate_of(name, None, "16 MiB", without=row["system"])
        )
    return found


def estimate_of(name: str, collective: str | None, size: str, **more: Any) -> Callable[[], Any]:
    """Return a call that gives the fields of an estimate, and the words in which it is shown."""

    def made() -> dict[str, Any]:
        estimate = fl.estimate(name, collective, size, **more)
        return {"fields": plain(estimate), "shown": repr(estimate), "binds": estimate.binds}

    return made


# Collectives ------------------------------------------------------------------------------------


def options_of(name: str) -> dict[str, Any]:
    """Return the options that an algorithm is built with here."""
    return OPTIONS.get(name, {})


def schedules() -> dict[str, Any]:
    """Return each algorithm for several numbers of ranks: transfers, result and closed form."""
    found: dict[str, Any] = {}
    for name in fl.registry.names("collective"):
        found[name] = {"facts": attempt(lambda name=name: fl.registry.info("collective", name))}
        for ranks in RANKS:
            found[name][f"{ranks} ranks"] = attempt(schedule_of(name, ranks, {}))
        if options_of(name):
            found[name]["16 ranks, options"] = attempt(schedule_of(name, 16, options_of(name)))
        found[name]["8 ranks, segments"] = attempt(
            schedule_of(name, 8, {"segments": 3, "pipelined": True})
        )
        found[name]["closed form"] = attempt(closed_form_of(name))
    return found


def schedule_of(name: str, ranks: int, options: dict[str, Any]) -> Callable[[], Any]:
    """Return a call that gives a schedule and what it leaves on real buffers."""

    def made() -> dict[str, Any]:
        schedule = fl.collectives.build(*name.split("."), ranks, **options)
        fields = {"fields": plain(schedule), "shown": repr(schedule)}
        fields["drawn"] = attempt(lambda: str(schedule.draw()))
        fields["result"] = attempt(lambda: executed(schedule))
        return fields

    return made


def executed(schedule: Any) -> list[Any]:
    """Return what each rank holds after a schedule ran on real buffers."""
    count = 2 * schedule.n_ranks * schedule.n_blocks
    numbers = np.arange(schedule.n_ranks * count, dtype=np.int64).reshape(schedule.n_ranks, count)
    if schedule.collective in ("all_gather", "gather", "barrier"):
        numbers = numbers[:, : 2 * schedule.n_blocks // schedule.n_ranks or 1]
    buffers = [row.copy() for row in numbers]
    if schedule.collective in ("broadcast", "scatter"):  # the array of the root alone
        buffers = numbers[0].copy()
    return fl.collectives.execute(schedule, buffers)


def closed_form_of(name: str) -> Callable[[], Any]:
    """Return a call that gives the textbook times of an algorithm."""

    def made() -> dict[str, Any]:
        form = fl.collectives.closed_form(*name.split("."), **options_of(name))
        found: dict[str, Any] = {}
        for size in TIMED:
            for ranks in (2, 16):
                arguments = (fl.units.size(size), ranks, 5e-6, 50e9, 1e-11)
                found[f"{size} on {ranks}"] = attempt(
                    lambda arguments=arguments: float(form(*arguments))
                )
        return found

    return made


def simulations() -> dict[str, Any]:
    """Return each algorithm on each fabric: in steps, as a graph, and in the ideal engine."""
    found: dict[str, Any] = {}
    runs = {
        "in steps": {},
        "as a graph": {"expand": True, "lag": "5 us", "gamma": 1e-11},
        "ideal": {"engine": "ideal"},
    }
    for label, (family, asked) in FABRICS.items():
        fabric = built(family, asked)
        for name in fl.registry.names("collective"):
            own = options_of(name) if fabric.n_ranks == 16 else {}
            for how, more in runs.items():
                key = f"{name} on {label}, {how}"
                found[key] = attempt(simulation_of(name, fabric, {"options": own, **more}))
            found[f"{name} on {label}, no switches"] = attempt(without_switches(name, fabric, own))
    return found


def without_switches(name: str, fabric: Any, options: dict[str, Any]) -> Callable[[], Any]:
    """Return a call that times a collective and names no nodes for its switches."""
    return lambda: fl.simulate(*name.split("."), fabric, "1 MB", options=options).time


def switches_of(name: str, fabric: Any, options: dict[str, Any]) -> Any:
    """Return a node of the fabric for each switch that a schedule asks for, or None."""
    schedule = fl.collectives.build(*name.split("."), fabric.n_ranks, **options)
    wanted = schedule.n_participants - schedule.n_ranks
    passing = np.flatnonzero(fabric.transit)
    return passing[np.arange(wanted) % passing.size] if wanted else None


def simulation_of(name: str, fabric: Any, more: dict[str, Any]) -> Callable[[], Any]:
    """Return a call that gives everything that led to the time of a collective."""

    def made() -> dict[str, Any]:
        switches = switches_of(name, fabric, more["options"])
        run = fl.simulate(*name.split("."), fabric, "1 MB", switches=switches, **more)
        carried = run.routes.link_bytes(run.flows, fabric.n_links)
        return {
            "time": run.time,
            "shown": repr(run),
            "timeline": plain(run.timeline),
            "flows": plain(run.flows),
            "routes": plain(run.routes),
            "result": plain(run.result),
            "bytes per link": carried,
            "most on a link": float(carried.max()),
            "bounds": attempt(run.bounds),
        }

    return made


# Networks ---------------------------------------------------------------------------------------


def routes() -> dict[str, Any]:
    """Return the routes of each method on each fabric, for several patterns of traffic."""
    found: dict[str, Any] = {}
    for label, (family, asked) in ROUTED.items():
        fabric = built(family, asked)
        for method in fl.registry.names("routing"):
            found[f"{method} on {label}"] = {
                "shift by 3": attempt(route_of(fabric, pairs_of(fabric, shift=3), method)),
                "all pairs": attempt(route_of(fabric, pairs_of(fabric), method)),
                "subflows": attempt(route_of(fabric, pairs_of(fabric), method, subflows=4, seed=7)),
                "with a fault": attempt(
                    route_of(fabric.without(cables=[fabric.n_cables - 1]), pairs_of(fabric), method)
                ),
            }
    return found


def pairs_of(fabric: Any, shift: int | None = None) -> Any:
    """Return a flow from each rank to the one some places on, or from each to every other."""
    ranks = np.arange(fabric.n_ranks)
    if shift is not None:
        source, target = ranks, np.roll(ranks, -shift)
    else:
        source, target = np.nonzero(ranks[:, None] != ranks)
    return fl.core.Flows.make(fabric.endpoint[source], fabric.endpoint[target], 1.0)


def route_of(fabric: Any, flows: Any, method: str, **more: Any) -> Callable[[], Any]:
    """Return a call that gives routes, and the time of the flows over them."""

    def made() -> dict[str, Any]:
        routes = fl.routing.route(fabric, flows, method, **more)
        return {
            "fields": plain(routes),
            "shown": repr(routes),
            "bytes per link": routes.link_bytes(flows, fabric.n_links),
            "timeline": attempt(lambda: fl.run(fabric, routes, flows)),
        }

    return made


def fabrics() -> dict[str, Any]:
    """Return each family at its defaults and at the sizes above: arrays, counts and metrics."""
    found: dict[str, Any] = {}
    for family in fl.topologies.names():
        for asked in [{}, *BUILT.get(family, [])]:
            found[f"{family}: {labelled(asked)}"] = attempt(fabric_of(family, asked))
    return found


def fabric_of(family: str, asked: dict[str, Any]) -> Callable[[], Any]:
    """Return a call that gives the arrays of a fabric, and its metrics where it is small."""

    def made() -> dict[str, Any]:
        fabric = built(family, asked)
        found = {
            "fields": plain(fabric),
            "shown": repr(fabric),
            "summary": fabric.summary(),
            "cables": attempt(lambda: fl.metrics.cables(fabric)),
            "ports": attempt(lambda: fl.metrics.ports(fabric)),
        }
        if fabric.n_ranks <= 128:
            found["hops"] = attempt(lambda: fl.metrics.hops(fabric))
        if fabric.n_ranks <= 32:
            found["bisection"] = attempt(lambda: fl.metrics.bisection(fabric))
        return found

    return made


def workloads() -> dict[str, Any]:
    """Return the flows of each pattern at the small size that it registers, and their time."""
    star = built("crossbar", {"hosts": 8})
    return {name: attempt(workload_of(name, star)) for name in fl.registry.names("workload")}


def workload_of(name: str, star: Any) -> Callable[[], Any]:
    """Return a call that gives the flows of a pattern, and their time on a crossbar."""

    def made() -> dict[str, Any]:
        small = dict(fl.registry.info("workload", name)["small"])
        if "cost" in small:
            flows = fl.workload.build(name, **small)
            fabric = fl.workload.streams(flows)
        else:
            flows = fl.workload.build(name, star, **small)
            fabric = star
        routes = fl.routing.route(fabric, flows)
        return {"flows": plain(flows), "timeline": attempt(lambda: fl.run(fabric, routes, flows))}

    return made
