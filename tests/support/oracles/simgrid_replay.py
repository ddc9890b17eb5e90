"""The SimGrid side of simgrid_runs.py: flows on given links and routes, step by step or as a graph.

Run by the interpreter that has SimGrid's Python binding (Debian: /usr/bin/python3 with python3-simgrid); needs nothing
else. The model is CM02 without cross traffic, TCP window or weights by latency: max-min sharing of links, each
one way, and a flow begins to share after the delay of its route. Reads a question as JSON from standard input, answers
with the ends [s] of the steps, or of the flows of a graph, and the time that the run took on this machine.
"""

import json
import sys
import tempfile
import time

import simgrid

MODEL = [
    "network/model:CM02",
    "network/crosstraffic:0",
    "network/TCP-gamma:0",
    "network/weight-S:0",
]


def platform(ask):
    """Return the XML of the links (rate, delay) and of the routes (source, target, links)."""
    lines = [f'<host id="h{i}" speed="1Gf"/>' for i in range(ask["hosts"])]
    lines += [f'<link id="l{i}" bandwidth="{b}Bps" latency="{t}s"/>' for i, b, t in ask["links"]]
    for a, b, links in ask["routes"]:
        inner = "".join(f'<link_ctn id="l{i}"/>' for i in links)
        lines.append(f'<route src="h{a}" dst="h{b}" symmetrical="NO">{inner}</route>')
    head = '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    return f'{head}<platform version="4.1"><zone id="z" routing="Full">{"".join(lines)}</zone></platform>'


def main():
    """Answer the question on standard input."""
    ask = json.load(sys.stdin)
    engine = simgrid.Engine(
        ["replay", "--log=root.thres:critical", *[f"--cfg={item}" for item in MODEL]]
    )
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(platform(ask))
        file.flush()
        engine.load_platform(file.name)
    hosts = [engine.host_by_name(f"h{i}") for i in range(ask["hosts"])]
    ends = []

    def send(flow):
        source, target, size = flow
        return simgrid.Comm.sendto_async(hosts[source], hosts[target], size)

    def steps():
        for repeat, flows in ask["steps"]:
            for _ in range(repeat):
                simgrid.Comm.wait_all([send(flow) for flow in flows])
                ends.append(simgrid.Engine.clock)

    def graph():
        waits, users = [len(after) for after in ask["after"]], [[] for _ in ask["after"]]
        for i, after in enumerate(ask["after"]):
            for before in after:
                users[before].append(i)
        ends.extend([0.0] * len(waits))
        number = [i for i, n in enumerate(waits) if n == 0]
        running = [send(ask["flows"][i]) for i in number]
        while running:
            at = simgrid.Comm.wait_any(running)
            running.pop(at)
            done = number.pop(at)
            ends[done] = simgrid.Engine.clock
            for i in users[done]:
                waits[i] -= 1
                if waits[i] == 0:
                    number.append(i)
                    running.append(send(ask["flows"][i]))

    simgrid.Actor.create("driver", hosts[0], graph if "after" in ask else steps)
    begin = time.perf_counter()
    engine.run()
    print(json.dumps({"ends": ends, "wall": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
