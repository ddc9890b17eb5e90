"""Every live view once, as lessons call it: for tests with a browser and without."""

import numpy as np

import fabriclab as fl
from fabriclab import collectives, designs, topologies, training
from fabriclab.views import live
from fabriclab.workload import layouts, models

HALL = topologies.build("rail_optimised")


STEP = training.of_case(fl.case())


# Four stages that take equally long, so that no wait is thinner than a pixel.
PIPELINE = training.ask(
    models.preset("Llama 3 8B").replace(vocabulary=1),
    layouts.Layout(tp=2, pp=4, dp=1, microbatches=4),
    training.Flat(rate=4e14),
    training.RateCosts(scale_up=3e11, network=1e10, domain=2),
    training.Schedule(),
)


RAILS = np.array(collectives.rail_groups(HALL))


STAR = topologies.build("crossbar", hosts=16)


REPEATED = fl.simulate(
    "all_reduce", "ring", topologies.build("crossbar", hosts=8), "1 MB", lag="5 us"
)


RUN = fl.simulate(
    "all_reduce", "ring", topologies.build("crossbar", hosts=8), "1 MB", expand=True, lag="5 us"
)


def shuffled(seed):
    place = fl.collectives.shuffled(RAILS, seed)
    return fl.simulate("all_reduce", "ring", HALL, "1 GB", placement=place)


def rooted(root):
    run = fl.simulate("broadcast", "one_root", HALL, "1 GB", root=root)
    load = run.timeline.utilisation(HALL.capacity)[HALL.source == HALL.endpoint[root]].max()
    said = f"GPU {root} sends to all others, and its cable is {100 * load:.0f} % full."
    return HALL, run, f"{said} Each cell is a GPU, its colour the load of its cable."


def counted(ranks):
    return fl.views.table(
        {"ranks": np.arange(1, ranks + 1), "steps": 2 * np.arange(ranks)},
        caption=f"A ring of {ranks} ranks takes {2 * (ranks - 1)} steps.",
    )


def two_ways(alpha, size):
    sizes = ["1 KiB", "64 KiB", "1 MiB", f"{size} MiB"]
    return {
        a: fl.sweep("all_reduce", a, STAR, sizes, lag=alpha * 1e-6)
        for a in ("ring", "binomial_tree")
    }


def two_servers():
    model = models.preset("Llama 3.1 405B")
    found = {}
    for name, boxes in (("one box", 1), ("two boxes", 2)):
        layout = layouts.Layout(tp=8 * boxes)
        found[name] = fl.training.serve(model, layout, fl.system(gpu="MI300X", servers=boxes))
    return found


def favoured(popular, choices):
    return collectives.expert_tables(
        collectives.choose_experts(9, 16, choices, popular=popular), "low_latency"
    )[0]


def counts_packets(packet, slot):
    never = packet.chunk < 0
    return never, never


SIZES = 2.0 ** np.arange(12, 32.25, 0.25)  # so close that curves have no corners


LIMIT = {"one NIC": fl.case().nic_rate}


LAG = {"lag": live.Slider(1, 50, label="start-up", unit="us", log=True)}


RANKS = {
    "ranks": live.Choice((16, 64, 1024)),
    "start": live.Slider(1, 50, label="start-up", unit="us", log=True),
}


def three_ways(ranks=64, start=14.0):
    made = {}
    for how in ("ring", "binomial_tree", "halving_doubling"):
        form = collectives.closed_form("all_reduce", how)
        time = form(SIZES, ranks, start * 1e-6, fl.case().nic_rate)
        made[how] = fl.core.Result("all_reduce", "predicted", SIZES, time, ranks)
    return made


def modelled(lag=14):
    seen = fl.catalog.published.load("xx_10n_g1_all_reduce")
    ask = "all_reduce", "predicted", seen.size
    form = collectives.closed_form("all_reduce", "ring")
    time = form(seen.size, 10, lag * 1e-6, fl.case().nic_rate)
    return {
        "xx_10n_g1_all_reduce": seen,
        "formula": fl.core.Result(*ask, time, 10),
        "bandwidth term": fl.core.Result(*ask, 1.8 * seen.size / fl.case().nic_rate, 10),
    }


SMALL = {
    "ring": RUN,
    "binomial tree": fl.simulate("all_reduce", "binomial_tree", STAR, "1 MB"),
}


HALL_RACE = {
    name: fl.simulate("all_reduce", way, topologies.build("crossbar", hosts=128), "17.6 GB")
    for name, way in (("one root", "one_root"), ("ring", "ring"), ("double tree", "double_tree"))
}


SHUFFLE = {"seed": live.Slider(0, 9)}


ALPHA = {
    "alpha": live.Slider(1, 20, label="start-up", unit="us"),
    "size": live.Choice((4, 64), label="largest, in MiB"),
}


DETOURS = ("minimal", "valiant", "ugal_g")


# Designs of exercise 2: a real one with too few spines, and small ones with servers in rails, in racks, and on a torus.
TAPERED = {"family": "rail_optimised", "arguments": {"servers": 128, "oversubscription": 7}}
IN_RAILS = {
    "family": "leaf_spine",
    "arguments": {"hosts": 64, "radix": 16},
    "servers": 8,
    "plug": "by rail",
}
IN_RACKS = {**IN_RAILS, "plug": "by server"}
ON_TORUS = {"family": "torus", "arguments": {"shape": [4, 4], "hosts": 4}, "servers": 8}


DOTS = tuple(
    designs.Dot(cost, time, passed, label)
    for cost, time, passed, label in (
        (2.4e6, 5.1, True, "A"),
        (2.9e6, 4.8, True, "B"),
        (3.3e6, 5.0, True, "C"),
        (3.4e6, 8.0, False, "D"),
    )
)


VIEWS = {
    "stepper": lambda: live.stepper("all_reduce", "ring", 4),
    "ring": lambda: live.stepper("all_reduce", "ring", 8, step=3),
    "large ring": lambda: live.stepper("all_reduce", "ring", 16, step=20),
    "root": lambda: live.stepper("all_reduce", "one_root", 8, step=1),
    "halves": lambda: live.stepper("all_reduce", "halving_doubling", 8, step=2),
    "many pairs": lambda: live.stepper("all_reduce", "halving_doubling", 16, step=5),
    "two trees": lambda: live.stepper("all_reduce", "double_tree", 16, step=5),
    "two shots": lambda: live.stepper("all_reduce", "nvls_two_shot", 4, step=1),
    "routes": lambda: live.stepper(
        "all_reduce", "ring", 8, fabric=topologies.build("leaf_spine", hosts=8, radix=4), step=4
    ),
    "tree": lambda: live.stepper(
        "all_reduce", "binomial_tree", 8, segments=4, pipelined=True, step=2
    ),
    "switches": lambda: live.stepper(
        "all_reduce", "nvls_sharp", 8, options={"per_server": 4}, step=3
    ),
    "fabric": lambda: live.fabric(HALL, shuffled, controls=SHUFFLE),
    "opened": lambda: live.fabric(HALL, shuffled, controls=SHUFFLE, seed=3, open=7, colour="load"),
    "small fabric": lambda: live.fabric(topologies.build("fat_tree", k=4).without(cables=[20])),
    "sweep": lambda: live.sweep(two_ways, controls=ALPHA),
    "cursor": lambda: live.sweep(three_ways, y="busbw", bounds=LIMIT, cursor="1 MiB"),
    "model": lambda: live.sweep(
        modelled, y="busbw", bounds=LIMIT, error=True, controls=LAG, lag=14
    ),
    "bound": lambda: live.sweep(three_ways, controls=RANKS, bounds={"one array": "2 us"}),
    "repeated": lambda: live.timeline(
        REPEATED.timeline, REPEATED.flows, REPEATED.fabric, at=96.6e-6
    ),
    "timeline": lambda: live.timeline(RUN.timeline, RUN.flows, RUN.fabric, at=51.5e-6),
    "floor": lambda: live.fabric(
        HALL,
        rooted,
        controls={"root": live.Slider(0, 1023)},
        layout="floor",
        root=9,
    ),
    "table": lambda: live.table(counted, {"ranks": live.Slider(2, 9)}, "Rings"),
    "race": lambda: live.race(SMALL),
    "hall race": lambda: live.race(HALL_RACE, seconds=9.0),
    "end of race": lambda: live.race(SMALL, seconds=max(run.time for run in SMALL.values())),
    "placement": lambda: live.placement(HALL),
    "shuffled": lambda: live.placement(HALL, seed=1),
    "shuffled rings": lambda: live.wirings(
        {
            name: topologies.build(
                "rail_optimised", servers=8, gpus=4, rails=rails, radix=16, expand=False
            )
            for name, rails in (("by rail", 4), ("by rack", 1))
        },
        seed=3,
        ring=1,
    ),
    "DGX H100": lambda: live.server("dgx_h100", 8),
    "wirings": lambda: live.wirings(
        {
            name: topologies.build(
                "rail_optimised", servers=8, gpus=4, rails=rails, radix=8, expand=False
            )
            for name, rails in (("by rail", 4), ("by rack", 1))
        }
    ),
    "paths": lambda: live.paths(topologies.build("fat_tree", k=4)),
    "roulette": lambda: live.roulette(),
    "bubble": lambda: live.bubble(),
    "staleness": lambda: live.staleness(),
    "explorer": lambda: live.explorer("torus", families=("torus", "dragonfly", "slim_fly")),
    "distance": lambda: live.distance(topologies.build("dragonfly", p=4, a=8, h=4)),
    "detours": lambda: live.distance(
        topologies.build("dragonfly", p=4, a=8, h=4), 4, "valiant", routings=DETOURS
    ),
    "few groups": lambda: live.distance(
        topologies.build("dragonfly", p=2, a=4, h=2), 2, "ugal_g", routings=DETOURS
    ),
    "twist": lambda: live.twist((2, 4)),
    "cube": lambda: live.twist((4, 4, 8), 2),
    "all closing": lambda: live.twist((4, 4, 8), 3, "all"),
    "failures": lambda: live.failures(topologies.build("fat_tree", k=4), count=3),
    "cut": lambda: live.cut(topologies.build("mesh", shape=(3, 5))),
    "cut tree": lambda: live.cut(topologies.build("fat_tree", k=4), 2),
    "cut fly": lambda: live.cut(topologies.build("dragonfly", p=2, a=4, h=2)),
    "families": lambda: live.explorer("slim_fly", 64),
    "torus 3": lambda: live.explorer("torus", 64, families=("torus",)),
    "mix": lambda: live.mix(
        topologies.build("rail_optimised", servers=4, gpus=4, rails=4, radix=8), 50
    ),
    "traffic": lambda: live.traffic(
        favoured,
        controls={
            "popular": live.Slider(1, 8, label="popular experts"),
            "choices": live.Choice((1, 3), label="experts per token"),
        },
        popular=2,
    ),
    "tcp": lambda: live.request("TCP socket", 13),
    "refused": lambda: live.queue_pair("UD", "RESET", "RTS"),
    "eight chunks": lambda: live.chunks(1024.0),
    "server": lambda: live.server(),
    "copies": lambda: live.copies("peer"),
    "drive": lambda: live.copies("peer", source="nvme", server="dgx_a100", size="1 GiB"),
    "savings": lambda: live.savings(),
    "chunks": lambda: live.chunks(64.0, "pageable"),
    "gigaio": lambda: live.gigaio(wirings=("2s-2rp-split-flat", "2s-2rp-std-flat")),
    "overlap": lambda: live.overlap(bucket=1260),
    "priority": lambda: live.overlap(bucket=220, priority=True),
    "both schedules": lambda: live.overlap(bucket=220, priority="both"),
    "many buckets": lambda: live.overlap(bucket=25),
    "roofline": lambda: live.roofline(12288),
    "step": lambda: live.step(STEP, twice="scale-up"),
    "step of four stages": lambda: live.step(PIPELINE, twice="network"),
    "straggler": lambda: live.straggler(),
    "slow link": lambda: live.straggler(ranks=7, what="link", way="binomial_tree"),
    "queue pair": lambda: live.queue_pair(),
    "request": lambda: live.request(step=9),
    "packets": lambda: live.packets(
        counts_packets, keeps="yours", story="a copy comes late", step=7
    ),
    "late copy": lambda: live.packets(keeps="bitmaps", story="a copy comes late", step=5),
    "pool": lambda: live.pool(),
    "quantisation": lambda: live.quantisation(22, 10),
    "tenants": lambda: live.tenants(5, "low latency", 2),
    "pays": lambda: live.pays(),
    "tokens": lambda: live.tokens(two_servers()),
    "tokens of one": lambda: live.tokens(two_servers(), 150.0, 64, "each"),
    "medium": lambda: live.medium(3.0, "400 Gb/s", "price"),
    "wavelengths": lambda: live.wavelengths(60),
    "drift": lambda: live.drift(12),
    "beam": lambda: live.beam(10, 256, "behind a person"),
    "aim": lambda: live.beam(10, 361, "3 degrees off", over="elements"),
    "hybrid": lambda: live.hybrid("all", "all", 8),
    "mzi mesh": lambda: live.mzi_mesh(8, 10, 2.0),
    "circuit": lambda: live.circuit("thermo-optic", 20),
    "ruler": lambda: live.ruler({"a copy in memory": "10 GB/s"}, {"NVLink 4": "450 GB/s"}),
    "latency": lambda: live.latency(switches=3),
    "whole ruler": lambda: live.ruler(
        {"your copy": "6.4 GB/s", "your sockets": "2.1 GB/s"},
        {name: rate for name, rate in fl.ruler().data.items() if not name.startswith("your ")},
    ),
    "few wavelengths": lambda: live.wavelengths(5, 1, "O 20 nm"),
    "kernel": lambda: live.latency("Ethernet, kernel TCP", 3),
    "tiers": lambda: live.tiers(cache="CXL"),
    "slowest": lambda: live.slowest(),
    "incast": lambda: live.incast(),
    "incast lossy": lambda: live.incast(
        senders=12,
        control="window",
        lossless="none",
        buffer=1.0,
        size="256 KiB",
        shown=("senders", "lossless", "buffer"),
    ),
    "control loops": lambda: live.control_loops(),
    "two loops": lambda: live.control_loops(
        senders=4, lossless="none", buffer=1.0, size="256 KiB", loops=("window", "hpcc")
    ),
    "headroom": lambda: live.headroom(),
    "short cable": lambda: live.headroom(
        length=10.0, headroom=40.0, shown=("frame", "response", "headroom")
    ),
    "inside switch": lambda: live.inside_switch(),
    "marks": lambda: live.inside_switch(moment=2000, answer="mark", forwarding="cut"),
    "drops": lambda: live.inside_switch(moment=1400, answer="drop", shown=("moment", "forwarding")),
    "trims": lambda: live.inside_switch(moment=1600, answer="trim"),
    "credits": lambda: live.inside_switch(moment=1000, answer="credit"),
    "collisions": lambda: live.collisions(),
    "reordering": lambda: live.collisions(
        transport="go_back_n", seed=3, shown=("seed", "transport", "slow")
    ),
    "even spines": lambda: live.collisions(
        flows=12, slow=False, spines=8, size="64 KiB", shown=("flows", "seed", "slow")
    ),
    "pause map": lambda: live.pause_map(),
    "watched": lambda: live.pause_map(moment=90, watchdog=True, load=100),
    "slow receiver": lambda: live.pause_map(
        moment=120, cause="slow receiver", leaves=2, hosts=3, shown=("moment", "cause")
    ),
    "rollout": lambda: live.rollout(),
    "loop": lambda: live.rollout("reverse", "s c b a", 2),
    "black hole": lambda: live.rollout("drain", "s b c a", 1),
    "one order": lambda: live.rollout("reverse", "a c b s", 2, overview=False),
    "shared fabric": lambda: live.shared_fabric(),
    "own spine": lambda: live.shared_fabric("spine", 8, 0),
    "sick nic": lambda: live.sick_nic(),
    "timed": lambda: live.sick_nic(64, 95, clicks="0-63 5-5 !7"),
    "sick link": lambda: live.sick_link(),
    "cordoned": lambda: live.sick_link("pauses", 90, 3, seed=1, cordons="40:3 60:5"),
    "matchings": lambda: live.matchings(),
    "one matching": lambda: live.matchings(traffic="ring", moment=80, setup=10_000),
    "mirrors turn": lambda: live.matchings(
        traffic="all_to_all", moment=0, size="200 MB", shown=("setup", "moment")
    ),
    "checkpoints": lambda: live.checkpoints(),
    "large job": lambda: live.checkpoints(131_072, 6.0, shown=("interval", "restart")),
    "one size": lambda: live.checkpoints(interval=480.0, overview=False, shown=("interval",)),
    "slices": lambda: live.slices(),
    "small slices": lambda: live.slices(size=6, availability=0.999, draw=3),
    "two slices": lambda: live.slices(size=24, draw=5, shown=("size", "draw")),
    "cost front": lambda: live.cost_front(),
    "half for half": lambda: live.cost_front(200, 50),
    "small job": lambda: live.cost_front(100, 25, sent=6),
    "decision": lambda: live.decision(),
    "small decision": lambda: live.decision(0.4, 100, "Ethernet"),
    "sixteen GPUs": lambda: live.decision(1, 150, "new", gpus=16),
    "design": lambda: live.design(TAPERED),
    "design in racks": lambda: live.design(IN_RACKS, "attached"),
    "design on a torus": lambda: live.design(ON_TORUS, "routes"),
    "gallery": lambda: live.gallery([IN_RAILS, IN_RACKS, ON_TORUS], "B", "power"),
    "gallery of dots": lambda: live.gallery(DOTS, "C"),
    "parallelism": lambda: live.parallelism(),
    "parallelism dealt": lambda: live.parallelism(order="dealt out"),
    "parallelism stages": lambda: live.parallelism(4, 8, "FSDP", microbatch=2),
}


def states(view):
    """Go through every control at each of its samples, with all others as they are."""
    for name, control in view.controls.items():
        for value in control.samples():
            yield view.set(**{name: value}).scene


def check_that_it_fits(scene):
    """Fail if a panel of a scene is too large for a small window, or if something in it lies outside."""
    assert sum(panel.width for panel in scene.panels()) <= 880
    for panel in scene.panels():
        assert 0 < panel.height <= 400
        for layer in panel.layers.values():
            x, y = layer.fields["x"], layer.fields["y"]
            if not np.size(x):
                continue
            assert np.min(x) >= 0 and np.min(y) >= 0
            assert np.max(x + layer.fields.get("w", 0)) <= panel.width + 1e-3
            assert np.max(y + layer.fields.get("h", 0)) <= panel.height + 1e-3
