"""The SimGrid side of bench_flow.py: flows on a k-ary fat-tree, timed and written down.

Run by the interpreter that has SimGrid's Python binding (Debian: /usr/bin/python3 with python3-simgrid);
needs nothing else. The model is CM02 without cross traffic, TCP window or latency, which is plain max-min
sharing of full-duplex links. Reads one JSON question from standard input, for example
{"radix": 16, "flows": 10000, "seed": 1, "mixed": false, "until": "solve", "out": "answer.json"},
writes routes, sizes, rates or finish times to ``out`` and prints the times as one JSON line.
``until`` is "solve" (first solve with all flows active, then stop) or "end" (last flow's end).
"""

import json
import os
import random
import sys
import tempfile
import time

import simgrid

RATE = 50e9  # B/s per direction of every link
SIZE = 1e9  # B, mean size of a flow
TICK = 1e-6  # s, short against every flow; what is gone after it gives the rate
MODEL = [
    "network/model:CM02",
    "network/crosstraffic:0",
    "network/TCP-gamma:0",
    "network/weight-S:0",
]
# A run of many events is fastest with a heap of the flows' ends, SimGrid's default. A single solve is faster without.
UPDATES = {"solve": "network/optim:Full", "end": "network/optim:Lazy"}
PLATFORM = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-{last}" speed="1Gf" bw="{rate:.0f}Bps" lat="0s"
    topology="FAT_TREE" topo_parameters="3;{half},{half},{radix};1,{half},{half};1,1,1"
    sharing_policy="SPLITDUPLEX"/>
</platform>
"""


def draw_pairs(hosts, flows, rng):
    """Return (source, target) pairs: whole random permutations without fixed points, the last one cut."""
    pairs = []
    while len(pairs) < flows:
        targets = rng.sample(range(hosts), hosts)
        if all(s != t for s, t in enumerate(targets)):
            pairs.extend(rng.sample(list(enumerate(targets)), hosts))
    return pairs[:flows]


def load(radix, until):
    """Return SimGrid's engine with the fat-tree, and its hosts."""
    hosts = radix**3 // 4
    model = [*MODEL, UPDATES[until]]
    engine = simgrid.Engine(
        ["bench", "--log=root.thres:critical", *[f"--cfg={item}" for item in model]]
    )
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(PLATFORM.format(last=hosts - 1, rate=RATE, half=radix // 2, radix=radix))
        file.flush()
        engine.load_platform(file.name)
    return engine, [engine.host_by_name(f"n{i}") for i in range(hosts)]


def main():
    """Answer the question on standard input."""
    ask = json.load(sys.stdin)
    rng = random.Random(ask["seed"])
    engine, hosts = load(ask["radix"], ask["until"])
    pairs = draw_pairs(len(hosts), ask["flows"], rng)
    sizes = [int(SIZE * (rng.uniform(0.1, 1.9) if ask["mixed"] else 1)) for _ in pairs]
    spent, answer = {}, {"pairs": pairs, "sizes": sizes, "rate": RATE}

    def finish():
        answer["routes"] = [
            [link.name for link in hosts[s].route_to(hosts[t])[0]] for s, t in pairs
        ]
        with open(ask["out"], "w") as file:
            json.dump(answer, file)
        print(json.dumps(spent))
        sys.stdout.flush()
        os._exit(0)  # the flows that still run need no orderly end

    def driver():
        if ask["until"] == "solve":
            # one flow alone, so that what the first solve of a process loads is not timed
            simgrid.Comm.sendto(hosts[0], hosts[1], 1)
        flows = [
            simgrid.Comm.sendto_async(hosts[s], hosts[t], n)
            for (s, t), n in zip(pairs, sizes, strict=True)
        ]
        begin = time.perf_counter(), time.process_time()  # routes are found by now
        if ask["until"] == "solve":
            simgrid.this_actor.sleep_for(TICK)
        else:
            simgrid.Comm.wait_all(flows)
        spent.update(wall=time.perf_counter() - begin[0], cpu=time.process_time() - begin[1])
        if ask["until"] == "solve":
            answer["rates"] = [
                (n - flow.remaining) / TICK for flow, n in zip(flows, sizes, strict=True)
            ]
        else:
            answer["finish"] = [flow.finish_time for flow in flows]
        finish()

    simgrid.Actor.create("driver", hosts[0], driver)
    engine.run()


if __name__ == "__main__":
    main()
