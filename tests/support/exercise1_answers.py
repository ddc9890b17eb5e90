"""Answers to exercise 1: right ones of many kinds, and typical wrong ones by the name of their mistake.

What follows a slash in the name of a wrong one tells variants apart.
"""

# A benchmark, with one thing changed ---------------------------------------------------------------------------------

BENCH = """
def latency(comm, size):
    {ask}
    for _ in range({warm}):
        comm.all_reduce(size)
    rows = []
    for _ in range({rounds}):
        {barrier}
        begin = comm.now()
        {inside}
        for _ in range({k}):
            comm.all_reduce(size)
        end = comm.now()
        rows.append([{spent} for r in range(comm.n_ranks)])
    rows = np.array(rows) / {k}
    return {result}
"""
USUAL = {
    "ask": "",
    "warm": 12,
    "rounds": 50,
    "barrier": "comm.barrier()",
    "inside": "",
    "k": 1,
    "spent": "end[r] - begin[r]",
    "result": "float(np.median(rows.max(axis=1)))",
}


def bench(**changed):
    return BENCH.format(**USUAL | changed)


RIGHT_A = {
    "median of the last rank": bench(),
    "five rounds": bench(rounds=5),
    "500 rounds, no warm-up": bench(warm=0, rounds=500),
    "trimmed mean": bench(rounds=100, result="float(np.sort(rows.max(axis=1))[10:90].mean())"),
    "chains of five": bench(k=5, rounds=41),
    "minimum": bench(result="float(rows.max(axis=1).min())"),
    "median of each rank, then the last": bench(result="float(np.median(rows, axis=0).max())"),
    "in microseconds as text": bench(result="f'{np.median(rows.max(axis=1)) * 1e6} us'"),
    "chains of four, all ranks": bench(k=4, rounds=31, result="np.median(rows.max(axis=1))"),
    "quartiles": bench(rounds=80, result="float(np.percentile(rows.max(axis=1), [25, 75]).mean())"),
}
WRONG_A = {
    "average over ranks": bench(result="float(np.median(rows.mean(axis=1)))"),
    "fastest rank": bench(result="float(np.median(rows.min(axis=1)))"),
    "median over ranks": bench(result="float(np.median(rows))"),
    "median over ranks/each round": bench(result="float(np.median(np.median(rows, axis=1)))"),
    "one rank only": bench(result="float(np.median(rows[:, 0]))"),
    "one rank only/last": bench(result="float(np.median(rows[:, -1]))"),
    "one rank only/middle": bench(result="float(np.median(rows[:, comm.n_ranks // 2]))"),
    "one rank only/1": bench(result="float(np.median(rows[:, 1]))"),
    "half of the time": bench(result="float(np.median(rows.max(axis=1))) / 2"),
    "time doubled": bench(result="2 * float(np.median(rows.max(axis=1)))"),
    "divided by the ranks": bench(result="float(np.median(rows.max(axis=1))) / comm.n_ranks"),
    "spread for the time": bench(result="float(np.median(np.ptp(rows, axis=1)))"),
    "spread for the time/rounds": bench(result="float(np.ptp(rows.max(axis=1)))"),
    "another size": bench(ask="size = 8"),
    "another size/4 KiB": bench(ask="size = '4 KiB'"),
    "two clocks compared": bench(
        spent="max(end) - min(begin)", result="float(np.median(rows[:, 0]))"
    ),
    "two clocks compared/0 and 1": bench(
        spent="end[0] - begin[1]", result="float(np.median(rows[:, 0]))"
    ),
    "total for one operation": bench(k=10, result="10 * float(np.median(rows.max(axis=1)))"),
    "total for one operation/sum": bench(result="float(rows.max(axis=1).sum())"),
    "other unit of time": bench(result="float(np.median(rows.max(axis=1))) * 1e6"),
    "other unit of time/ms": bench(result="float(np.median(rows.max(axis=1))) * 1e3"),
    "nothing timed": "def latency(comm, size): return 20e-6 + size / 5e9",
    "barrier timed": bench(inside="comm.barrier()"),
    "barrier timed/after": bench().replace("end = comm.now()", "comm.barrier(); end = comm.now()"),
    "no barrier": bench(barrier=""),
    "no barrier/mean": bench(barrier="", result="float(rows.max(axis=1).mean())"),
    "first round only": bench(warm=0, rounds=1),
    "first round only/of many": bench(warm=0, result="float(rows.max(axis=1)[0])"),
    "warm-up averaged in": bench(warm=0, rounds=10, result="float(rows.max(axis=1).mean())"),
    "warm-up averaged in/all": bench(warm=0, rounds=40, result="float(rows.max(axis=1).mean())"),
    "warm-up averaged in/one chain": bench(warm=0, k=40, rounds=1),
    "no barrier/mean of all": bench(warm=11, rounds=100, barrier="", result="float(rows.mean())"),
    "outliers averaged in": bench(result="float(rows.max(axis=1).mean())"),
    "outliers averaged in/one chain": bench(k=100, rounds=1),
    "outliers averaged in/chain without barrier": bench(k=100, rounds=1, barrier=""),
    "outliers averaged in/chain, mean over ranks": bench(
        k=100, rounds=1, result="float(rows.mean())"
    ),
    "too few rounds": bench(warm=11, rounds=1),
    "too few rounds/four": bench(rounds=4, result="float(np.median(rows.max(axis=1)))"),
    "too few rounds/one chain": bench(warm=10, k=2, rounds=1),
    "slowest round as typical": bench(result="float(rows.max())"),
    "slowest round as typical/p99": bench(
        rounds=100, result="float(np.percentile(rows.max(axis=1), 99))"
    ),
}

# Rates ------------------------------------------------------------------------------------------------------------

RATES = """
def algbw(size, time): return {algbw}
def busbw(collective, size, time, n):
    part = (n - 1) / n
    factor = {{"all_reduce": {two} * part, "broadcast": 1, "reduce": 1}}.get(collective, part)
    return {busbw}
def utilisation(trace, rate):
    moved = sum(e[3] for e in trace)
    begin, end = min(e[1] for e in trace), max(e[2] for e in trace)
    edges = sorted({{t for e in trace for t in e[1:3]}})
    comm = comp = alone = each = both = 0.0
    for a, b in zip(edges, edges[1:]):
        here = [e[0] for e in trace if e[1] <= a and b <= e[2]]
        busy, work = any(w != "compute" for w in here), "compute" in here
        comm += (b - a) * busy
        comp += (b - a) * work
        alone += (b - a) * (busy and not work)
        both += (b - a) * (busy and work)
        each += (b - a) * sum(w != "compute" for w in here)
    whole = end - begin
    return {use}
"""
GOOD_B = {
    "algbw": "size / time",
    "busbw": "size / time * factor",
    "two": 2,
    "use": "moved / rate / whole, alone / whole",
}


def rates(**changed):
    return RATES.format(**GOOD_B | changed)


RIGHT_B = {
    "edges": rates(),
    "as array": rates(use="np.array([moved / rate / whole, alone / whole])"),
    "as list": rates(use="[moved / (rate * whole), (comm - both) / whole]"),
    "as text": rates(algbw="f'{size / time} B/s'", busbw="f'{size / time * factor / 1e9} GB/s'"),
    "by 1 - 1/n": rates(
        busbw="{'all_reduce': 2 - 2 / n, 'broadcast': 1, 'reduce': 1}.get(collective, 1 - 1 / n) * algbw(size, time)"
    ),
    "on a fine grid": rates()
    + """
def utilisation(trace, rate):
    begin, end = min(e[1] for e in trace), max(e[2] for e in trace)
    t = np.linspace(begin, end, 200_001)
    comm, comp = np.zeros(t.size, bool), np.zeros(t.size, bool)
    for what, a, b, moved in trace:
        (comp if what == "compute" else comm)[(a <= t) & (t < b)] = True
    return sum(e[3] for e in trace) / rate / (end - begin), (comm & ~comp).mean()
""",
    "blocks counted in fractions": rates(
        busbw="float(Fraction({'all_reduce': 2 * n - 2, 'broadcast': n, 'reduce': n}.get(collective, n - 1), n))"
        " * algbw(size, time)"
    )
    + "from fractions import Fraction\n",
    "sweep over starts and ends": rates()
    + """
def utilisation(trace, rate):
    marks = sorted([(e[1], 1, e[0] == "compute") for e in trace] + [(e[2], -1, e[0] == "compute") for e in trace])
    running, alone, before = [0, 0], 0.0, marks[0][0]
    for when, step, computes in marks:
        if running[0] and not running[1]:
            alone += when - before
        running[computes] += step
        before = when
    whole = before - marks[0][0]
    return np.array([sum(e[3] for e in trace) / rate / whole, alone / whole])
""",
    "merged intervals": rates()
    + """
def merged(spans):
    out = []
    for a, b in sorted(spans):
        if out and a <= out[-1][1]:
            out[-1][1] = max(b, out[-1][1])
        else:
            out.append([a, b])
    return out
def utilisation(trace, rate):
    comm = merged([e[1:3] for e in trace if e[0] != "compute"])
    comp = merged([e[1:3] for e in trace if e[0] == "compute"])
    hidden = sum(max(0, min(b, d) - max(a, c)) for a, b in comm for c, d in comp)
    whole = max(e[2] for e in trace) - min(e[1] for e in trace)
    return sum(e[3] for e in trace) / (rate * whole), (sum(b - a for a, b in comm) - hidden) / whole
""",
}
WRONG_B = {
    "size and time swapped": rates(algbw="time / size"),
    "GB for B": rates(algbw="size / time / 1e9"),
    "GB for B/busbw": rates(busbw="size / time * factor / 1e9"),
    "GiB for GB": rates(algbw="size / time / 2**30 * 1e9"),
    "bits for bytes": rates(busbw="8 * size / time * factor"),
    "both directions counted": rates(busbw="2 * size / time * factor"),
    "algbw for busbw": rates(busbw="size / time"),
    "one factor for all": rates(busbw="size / time * 2 * part"),
    "factor upside down": rates(
        busbw="size / time * (factor if factor == 1 else factor / part**2)"
    ),
    "factor upside down/divided": rates(busbw="size / time / factor"),
    "factor 2 forgotten": rates(two=1),
    "factor taken as 2": rates(two="2 / part"),
    "chain cut into blocks": rates(
        busbw="size / time * (2 * part if collective == 'all_reduce' else part)"
    ),
    "divided without the rest": rates(
        busbw="size / time * {'all_reduce': 2 * (n - 1) // n, 'broadcast': 1, 'reduce': 1}"
        ".get(collective, (n - 1) // n)"
    ),
    "computation subtracted": rates(use="moved / rate / whole, (comm - comp) / whole"),
    "computation subtracted/not below 0": rates(
        use="moved / rate / whole, max(0, each - sum(e[2] - e[1] for e in trace if e[0] == 'compute')) / whole"
    ),
    "array for a block": rates(busbw="size / time * factor * (n if '_' in collective else 1)"),
    "busy for used": rates(use="comm / whole, alone / whole"),
    "communication for the whole": rates(use="moved / rate / comm, alone / whole"),
    "communication for the whole/sum": rates(use="moved / rate / each, alone / whole"),
    "communication for the whole/exposed": rates(use="moved / rate / whole, alone / comm"),
    "starts at zero": rates(use="moved / rate / end, alone / end"),
    "last event for the last end": rates().replace("max(e[2] for e in trace)", "trace[-1][2]"),
    "hidden counted as exposed": rates(use="moved / rate / whole, comm / whole"),
    "overlap added twice": rates(use="moved / rate / whole, each / whole"),
    "hidden for exposed": rates(use="moved / rate / whole, both / whole"),
    "idle for exposed": rates(use="moved / rate / whole, 1 - comp / whole"),
    "percent for a part": rates(use="100 * moved / rate / whole, 100 * alone / whole"),
    "time for a part": rates(use="moved / rate / whole, alone"),
    "parts swapped": rates(use="alone / whole, moved / rate / whole"),
    "complement": rates(use="moved / rate / whole, 1 - alone / whole"),
    "complement/used": rates(use="1 - moved / rate / whole, alone / whole"),
}

# Fits -------------------------------------------------------------------------------------------------------------

FITS = """
def fit(sizes, times):
    {line}
    return {pair}
def half_size(alpha, beta): return {half}
def predict(sizes, times, changes, size):
    k = np.searchsorted(changes, size, "right")
    here = np.searchsorted(changes, sizes, "right") == k
    {refuse}
    b, a = np.polyfit(sizes[here], times[here], 1, w=1 / times[here])
    return {time}
"""
GOOD_C = {
    "line": "b, a = np.polyfit(sizes, times, 1, w=1 / times)",
    "pair": "a, 1 / b",
    "half": "alpha * beta",
    "refuse": "if here.sum() < 2: return None",
    "time": "a + b * size",
}


def fits(more="", **changed):
    return FITS.format(**GOOD_C | changed) + more


LOG_FIT = """
    from scipy.optimize import minimize
    def far(p): return np.sum((np.log(times) - np.log(np.exp(p[0]) + sizes / np.exp(p[1]))) ** 2)
    p = minimize(far, [np.log(1e-5), np.log(1e10)], method="Nelder-Mead").x
    a, b = np.exp(p[0]), np.exp(-p[1])
"""
ONE_LINE = "def predict(sizes, times, changes, size):\n    return float(np.polyval(np.polyfit(sizes, times, 1{w}), size))"  # noqa: E501
RIGHT_C = {
    "weighted": fits(),
    "log fit": fits(line=LOG_FIT.strip()),
    "both ends": fits(line="a, b = times[0], times[-1] / sizes[-1]"),
    "medians of the ends": fits(
        line="a, b = np.median(times[:5]), np.median(times[-4:] / sizes[-4:])"
    ),
    "two largest": fits(
        line="a, b = times[:4].mean(), (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])"
    ),
    "least squares": fits(
        line="a, b = np.linalg.lstsq(np.stack([1 / times, sizes / times], 1), np.ones(len(times)))[0]"
    ),
    "NaN": fits(refuse="if here.sum() < 2: return float('nan')"),
    "plain line inside a protocol": fits(
        more="""
def predict(sizes, times, changes, size):
    ends = [0, *changes, float("inf")]
    k = sum(c <= size for c in changes)
    points = [(s, t) for s, t in zip(sizes, times) if ends[k] <= s < ends[k + 1]]
    if len(points) > 1:
        b, a = np.polyfit(*zip(*points), 1)
        return a + b * size
"""
    ),
    "straight between neighbours": fits(
        time="np.interp(size, sizes, times) if size <= sizes[here][-1] else a + b * size"
    ),
    "as text": fits(
        pair="f'{a * 1e6} us', f'{1 / b / 1e9} GB/s'", half="f'{alpha * beta / 1e3} kB'"
    ),
}
WRONG_C = {
    "fit without weights": fits(line="b, a = np.polyfit(sizes, times, 1)"),
    "one straight line/predict": fits(ONE_LINE.format(w="")),
    "one straight line/weighted": fits(ONE_LINE.format(w=", w=1 / times")),
    "pair swapped": fits(pair="1 / b, a"),
    "other unit of time": fits(pair="a * 1e6, 1 / b"),
    "average for the start": fits(pair="times.mean(), 1 / b"),
    "slope for rate": fits(pair="a, b"),
    "rate of one size/fit": fits(pair="times[0], (sizes / times)[len(sizes) // 2]"),
    "rate of one size/fit, median": fits(pair="a, np.median(sizes / times)"),
    "power law/fit": fits(
        line="b, a = np.exp(np.polyfit(np.log(sizes), np.log(times), 1))", pair="a, 1 / b"
    ),
    "rate for size": fits(half="beta / 2"),
    "change taken for the old protocol": fits().replace('"right"', '"left"'),
    "refused what was measured/beyond": fits(
        refuse="if here.sum() < 2 or size > sizes[here][-1]: return None"
    ),
    "average of rates": fits(pair="a, (sizes / times).mean()"),
    "bits for bytes": fits(pair="a, 8 / b"),
    "GB for B": fits(pair="a, 1 / b / 1e9"),
    "alpha counted twice": fits(half="2 * alpha * beta"),
    "half of the product": fits(half="alpha * beta / 2"),
    "divided for multiplied": fits(half="beta / alpha"),
    "divided for multiplied/2": fits(half="alpha / beta"),
    "bits for bytes/half": fits(half="alpha * beta / 8"),
    "other unit of size": fits(half="alpha * beta / 1024"),
    "refused what was measured": fits(refuse="return None"),
    "extrapolated over a change": fits(
        refuse="if here.sum() < 2: here = np.searchsorted(changes, sizes, 'right') == 0"
    ),
    "extrapolated over a change/interp": fits(
        refuse="if 1: return float(np.interp(size, sizes, times))"
    ),
    "interval too wide": fits(refuse="if here.sum() < 2: return 1e-9, 1.0"),
    "interval misses": fits(refuse="if here.sum() < 2: return 1e-9, 2e-9"),
    "interval for a number": fits(time="(0.9 * (a + b * size), 1.1 * (a + b * size))"),
    "other unit of time/predict": fits(time="(a + b * size) * 1e6"),
    "protocol of another size": fits(
        time="np.polyval(np.polyfit(sizes[PART], times[PART], 1), size)".replace(
            "PART", "np.searchsorted(changes, sizes, 'right') == 0"
        )
    ),
    "average of a protocol": fits(time="times[here].mean()"),
    "one point for a line": fits(
        refuse="if here.sum() < 2: return times[here][0] if here.any() else None"
    ),
    "one point for a line/scaled": fits(
        refuse="if here.sum() < 2: return (times / sizes)[here][0] * size if here.any() else None"
    ),
    **{
        f"nearest size/{name}": fits(time=f"times[here][{place}]")
        for name, place in (
            ("by distance", "abs(sizes[here] - size).argmin()"),
            ("on a log axis", "abs(np.log(sizes[here] / size)).argmin()"),
            ("below", "np.searchsorted(sizes[here], size) - 1"),
            ("above", "min(np.searchsorted(sizes[here], size), here.sum() - 1)"),
        )
    },
    "nearest size/of all": fits(refuse="if 1: return times[abs(sizes - size).argmin()]"),
    "rate of one size": fits(time="times[here][-1] / sizes[here][-1] * size"),
    "rate of one size/first": fits(time="times[here][0] / sizes[here][0] * size"),
    "power law": fits(
        time="np.exp(np.polyval(np.polyfit(np.log(sizes[here]), np.log(times[here]), 1), np.log(size)))"
    ),
    "power law/all": fits(
        time="np.exp(np.polyval(np.polyfit(np.log(sizes), np.log(times), 1), np.log(size)))"
    ),
    "power law/neighbours": fits(
        time="np.exp(np.interp(np.log(size), np.log(sizes), np.log(times)))"
    ),
}

# Bottlenecks ------------------------------------------------------------------------------------------------------

JOBS = """
def figures(t):
    enter, leave = np.array(t["enter"]), np.array(t["leave"])
    begin, end = enter.{start}(axis=1), leave.max(axis=1)
    busy = (end - begin).sum()
    first = enter.min(axis=1)
    return {{
        "alpha_share": len(end) * {steps} * t["alpha"] / busy * {scale},
        "nic_use": {most}(t["bytes"]) / t["nic_rate"] / busy * {bits} * {scale},
        "uplink_use": {most}(t["uplink_bytes"]) / t["uplink_rate"] / busy * {bits} * {scale},
        "late_share": ({last} - first).sum() / (end - first).sum() * {scale},
        "byte_skew": max(t["bytes"]) / {least}(t["bytes"]),
    }}
def bottleneck(trace):
    f = figures(trace)
    {decide}
    other = {other}
    return cause, {{name: f[name] for name in ({best}, other)}}
"""
DECIDE = """
    cause = ("straggler" if f["late_share"] > 0.5 else "skew" if f["byte_skew"] > 1.4 else "oversubscription"
             if f["uplink_use"] > 0.75 else "bandwidth" if f["nic_use"] > 0.75 else "latency")
"""
PROOF = {
    "latency": "alpha_share",
    "bandwidth": "nic_use",
    "straggler": "late_share",
    "oversubscription": "uplink_use",
    "skew": "byte_skew",
}
GOOD_D = {
    "start": "max",
    "steps": 't["steps"]',
    "most": "max",
    "last": "enter.max(axis=1)",
    "least": "np.mean",
    "decide": DECIDE.strip(),
    "scale": 1,
    "bits": 1,
    "best": f"{PROOF!r}[cause]",
    "other": '"nic_use" if cause != "bandwidth" else "byte_skew"',
}


def jobs(**changed):
    return JOBS.format(**GOOD_D | changed)


def decided(old, new, **changed):
    """Return the usual answer with one thing changed in how it decides."""
    assert old in DECIDE
    return jobs(decide=DECIDE.strip().replace(old, new), **changed)


LARGEST = """
    shares = {"latency": f["alpha_share"], "straggler": f["late_share"], "oversubscription": f["uplink_use"]}
    shares["skew" if f["byte_skew"] > 1.3 else "bandwidth"] = f["nic_use"]
    cause = max(shares, key=shares.get)
"""
MENDED = """
    g, cause = dict(f), "latency"
    gain = {"straggler": f["late_share"], "latency": f["alpha_share"] * (1 - f["late_share"])}
    link = (1 - f["late_share"]) * (1 - f["alpha_share"])
    full = "oversubscription" if f["uplink_use"] > f["nic_use"] else "skew" if f["byte_skew"] > 1.25 else "bandwidth"
    gain[full] = link
    cause = max(gain, key=gain.get)
"""
LOOP = """
def bottleneck(t):
    busy = wait = whole = 0.0
    for enter, leave in zip(t["enter"], t["leave"]):
        busy += max(leave) - max(enter)
        wait += max(enter) - min(enter)
        whole += max(leave) - min(enter)
    late = wait / whole
    skew = max(t["bytes"]) * len(t["bytes"]) / sum(t["bytes"])
    nic = max(t["bytes"]) / (t["nic_rate"] * busy)
    up = max(t["uplink_bytes"]) / (t["uplink_rate"] * busy)
    alpha = len(t["enter"]) * t["steps"] * t["alpha"] / busy
    if alpha > 0.6:
        return ["Latency", {"alpha_share": alpha, "nic_use": nic}]
    if up > 0.8:
        return ["oversubscription", {"uplink_use": up, "nic_use": nic}]
    if late > 0.4:
        return ["straggler", {"late_share": late, "byte_skew": skew}]
    if skew > 1.5:
        return ["skew", {"byte_skew": skew, "late_share": late}]
    return ["bandwidth", {"nic_use": nic, "uplink_use": up}]
"""
RIGHT_D = {
    "in order": jobs(),
    "largest share": jobs(decide=LARGEST.strip()),
    "what mending gains": jobs(decide=MENDED.strip()),
    "in a loop": LOOP,
    "skew from 1.2": decided("1.4", "1.2"),
    "skew from 2": decided("1.4", "2"),
    "figures as numpy numbers": jobs(other='"alpha_share" if cause != "latency" else "late_share"'),
    "rounded": jobs().replace(
        "f[name] for", "round(float(f[name]), 2 if f[name] > 0.5 else 3) for"
    ),
}


SUMS = """g = {"latency": f["alpha_share"], "bandwidth": f["nic_use"], "oversubscription": f["uplink_use"]}
    cause = max(g, key=g.get)"""
WRONG_D = {
    "full NIC means bandwidth": decided('"skew" if f["byte_skew"] > 1.4 else ', ""),
    "NIC blamed for the uplink": decided('"oversubscription"', '"bandwidth"'),
    "bandwidth blamed for many steps": decided('else "latency"', 'else "bandwidth"'),
    "byte_skew taken for a part": jobs(
        decide="cause = dict(zip(PROOF.values(), PROOF))[max(f, key=f.get)]".replace(
            "PROOF", repr(PROOF)
        )
    ),
    "straggler taken for the network": decided('"straggler" if f["late_share"] > 0.5 else ', ""),
    "waiting counted as work": jobs(start="min"),
    "mean for the fullest": jobs(most="np.mean"),
    "mean for the fullest/late": decided("0.5", "0.12", last="enter.mean(axis=1)"),
    "largest over smallest": decided("1.4", "1.5", least="min"),
    "steps forgotten": jobs(steps="1"),
    "bits for bytes": decided("0.75", "6", bits="8"),
    "percent for a part": jobs(
        scale="100", decide=DECIDE.strip().replace("0.75", "75").replace("0.5", "50")
    ),
    "operations forgotten": jobs().replace('len(end) * t["steps"]', 't["steps"]'),
    "start-up time overlooked": decided('else "latency"', 'else "straggler"'),
    "waiting held against work": jobs().replace("(end - first).sum() * 1", "busy"),
    "ranks added up": jobs().replace(
        "(enter.max(axis=1) - first).sum() / (end - first).sum()",
        "(waits := (enter.max(axis=1)[:, None] - enter).sum()) / (waits + busy)",
    ),
    "ranks added up/work": decided("0.5", "0.1").replace(
        "(end - begin).sum()", "(leave - enter).sum()"
    ),
    "ports added up": jobs(most="sum", decide=SUMS),
    "time of the job for work": jobs().replace("(end - begin).sum()", "leave.max() - enter.min()"),
    "operations taken for ranks": jobs().replace(
        "(enter.max(axis=1) - first).sum() / (end - first).sum()",
        "(waits := np.ptp(enter, axis=0).sum()) / (waits + busy)",
    ),
    "evidence beside the point": jobs(
        best='"alpha_share" if cause != "latency" else "byte_skew"',
        other='"uplink_use" if cause != "oversubscription" else "nic_use"',
    ),
}

# Crossovers -------------------------------------------------------------------------------------------------------

CROSS = """
def crossover(sizes, a, b):
    ahead = a < b
    turns = np.flatnonzero(ahead[1:] != ahead[:-1])
    if {none}:
        return None
    i = turns[-1]
    return {size}
"""
GOOD_E = {"none": "ahead[0] == ahead[-1]", "size": "float(sizes[i + 1])"}


def cross(**changed):
    return CROSS.format(**GOOD_E | changed)


RIGHT_E = {
    "size after": cross(),
    "size before the first turn": cross(size="sizes[turns[0]]"),
    "in the middle": cross(size="np.sqrt(sizes[i] * sizes[i + 1])"),
    "straight between": cross(
        size="np.interp(0, *zip(*sorted(zip((a - b)[i:i + 2], sizes[i:i + 2]))))"
    ),
    "on log axes": cross(
        size="np.exp(np.interp(0, *zip(*sorted(zip(np.log(a / b)[i:i + 2], np.log(sizes[i:i + 2]))))))"
    ),
    "as text": cross(size="f'{sizes[i + 1] / 1024} KiB'"),
    "from the large end": """
def crossover(sizes, a, b):
    winner = [x < y for x, y in zip(a, b)]
    if winner[0] == winner[-1]:
        return None
    k = len(winner) - 1
    while winner[k] == winner[-1]:
        k -= 1
    return [int(sizes[k])]
""",
    "by recursion, smallest size by smallest size": """
def crossover(sizes, a, b):
    ahead = [(size, bool(x < y)) for size, x, y in zip(sizes, a, b)]

    def last_of_the_first(rows):
        return rows[-1][0] if rows[-1][1] == ahead[0][1] else last_of_the_first(rows[:-1])

    return last_of_the_first(ahead) if ahead[-1][1] != ahead[0][1] else None
""",
}
WRONG_E = {
    "crossover missed": cross(none="True"),
    "one direction only": cross(none="ahead[0] == ahead[-1] or not ahead[0]"),
    "smallest gap for the crossover": cross(none="False", size="sizes[i]").replace(
        "turns[-1]", "np.argmin(abs(a - b))"
    ),
    "largest gap for the crossover": cross(size="sizes[np.argmax(b / a)]"),
    "crossover invented/turned back": cross(none="turns.size == 0"),
    "ahead somewhere": cross(none="not ahead.any()", size="float(sizes[np.argmax(ahead)])"),
    "ahead somewhere/b": cross(none="ahead.all()", size="float(sizes[np.argmin(ahead)])"),
    "ahead somewhere/no None": cross(none="False", size="float(sizes[np.argmax(ahead)])"),
    "end for no crossover/first": cross().replace("return None", "return float(sizes[0])"),
    "end for no crossover": cross().replace("return None", "return float(sizes[-1])"),
    "end for no crossover/0": cross().replace("return None", "return 0"),
    "crossover invented": cross().replace("return None", "return float(sizes[len(sizes) // 2])"),
    "time for size": cross(size="float(a[i])"),
    "place for size": cross(size="int(i)"),
    "next to the crossover": cross(size="float(sizes[i + 2])"),
    "one direction only/other": cross(none="ahead[0] == ahead[-1] or ahead[0]"),
    "smallest gap for the crossover/None": cross(size="sizes[np.argmin(abs(a - b))]"),
    "other unit of size": cross(size="float(sizes[i + 1]) / 1024"),
    "one straight line": "def crossover(sizes, a, b):\n    p, q = np.polyfit(sizes, a, 1), np.polyfit(sizes, b, 1)\n"
    "    return float((q[1] - p[1]) / (p[0] - q[0]))",
    "one straight line/None outside": """
def crossover(sizes, a, b):
    p, q = np.polyfit(sizes, a, 1), np.polyfit(sizes, b, 1)
    x = float((q[1] - p[1]) / (p[0] - q[0]))
    return x if sizes[0] <= x <= sizes[-1] else None
""",
}

RIGHT = {"ex1-a": RIGHT_A, "ex1-b": RIGHT_B, "ex1-c": RIGHT_C, "ex1-d": RIGHT_D, "ex1-e": RIGHT_E}
WRONG = {"ex1-a": WRONG_A, "ex1-b": WRONG_B, "ex1-c": WRONG_C, "ex1-d": WRONG_D, "ex1-e": WRONG_E}
