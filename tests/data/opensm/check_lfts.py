"""Read a subnet manager's opensm-lfts.dump + opensm-subnet.lst and report on the routes.

check_lfts.py DIR  ->  hosts, switches, max/mean hops, unreachable pairs, whether one
virtual lane is deadlock-free (channel dependency graph acyclic), the largest number of
host pairs on one switch-to-switch link (all-to-all), and mean over shift permutations of
the worst link load.
"""

import collections
import itertools
import pathlib
import re
import statistics
import sys


def read(d):
    d = pathlib.Path(d)
    lft, name, kind = {}, {}, {}
    cur = None
    for line in (d / "opensm-lfts.dump").read_text().splitlines():
        m = re.match(r"Unicast lids \[.*\] of switch Lid (\d+) guid (0x[0-9a-f]+) \('(.*)'\)", line)
        if m:
            cur = int(m[1])
            lft[cur] = {}
            name[cur] = m[3]
            continue
        m = re.match(
            r"(0x[0-9a-f]+) (\d+) # (Switch|Channel Adapter) portguid (0x[0-9a-f]+): '(.*)'", line
        )
        if m:
            lid = int(m[1], 16)
            lft[cur][lid] = int(m[2])
            kind[lid] = m[3]
            name[lid] = m[5]
    nxt = {}
    for line in (d / "opensm-subnet.lst").read_text().splitlines():
        e = re.findall(r"LID:([0-9A-Fa-f]+) PN:([0-9A-Fa-f]+)", line)
        if len(e) == 2:
            (a, pa), (b, pb) = [(int(x, 16), int(y, 16)) for x, y in e]
            nxt[a, pa] = (b, pb)
    return lft, name, kind, nxt


def paths(lft, kind, nxt):
    hosts = sorted(lid for lid in kind if kind[lid] != "Switch")
    up = {}
    for (a, _), (b, _) in nxt.items():
        if a in hosts:
            up[a] = b
    out, bad = {}, []
    for s in hosts:
        for t in hosts:
            if s == t:
                continue
            sw, p = up[s], []
            while True:
                port = lft[sw].get(t)
                if port is None or (sw, port) not in nxt or len(p) > 64:
                    bad.append((s, t))
                    break
                p.append((sw, port))
                n = nxt[sw, port][0]
                if n == t:
                    out[s, t] = p
                    break
                sw = n
    return hosts, out, bad


def acyclic(ps):
    dep = collections.defaultdict(set)
    for p in ps.values():
        for a, b in itertools.pairwise(p):
            dep[a].add(b)
    state = {}
    for r in list(dep):
        if r in state:
            continue
        st = [(r, iter(dep[r]))]
        state[r] = 1
        while st:
            v, it = st[-1]
            for w in it:
                if state.get(w) == 1:
                    return False
                if w not in state:
                    state[w] = 1
                    st.append((w, iter(dep.get(w, ()))))
                    break
            else:
                state[v] = 2
                st.pop()
    return True


def report(d):
    lft, name, kind, nxt = read(d)
    hosts, ps, bad = paths(lft, kind, nxt)
    load = collections.Counter(c for p in ps.values() for c in p[:-1])
    hops = [len(p) for p in ps.values()]
    order = sorted(hosts, key=lambda lid: name[lid])
    n = len(order)
    worst = []
    for k in range(1, n):
        c = collections.Counter()
        for i, s in enumerate(order):
            p = ps.get((s, order[(i + k) % n]))
            if p:
                c.update(p[:-1])
        worst.append(max(c.values(), default=0))
    return dict(
        hosts=n,
        switches=len(lft),
        unreachable=len(bad),
        max_sw_hops=max(hops),
        mean_sw_hops=round(statistics.mean(hops), 3),
        one_vl_deadlock_free=acyclic(ps),
        max_pairs_per_link=max(load.values()),
        shift_mean_worst=round(statistics.mean(worst), 3),
        shift_worst=max(worst),
    )


if __name__ == "__main__":
    for i, d in enumerate(sys.argv[1:]):
        r = report(d)
        if not i:
            print("fabric,engine," + ",".join(r))
        p = pathlib.Path(d)
        print(p.parent.name + "," + p.name + "," + ",".join(map(str, r.values())))
