"""Fit the constants of fabriclab.tuner to the published sweeps and write catalog/data/calibration.csv.

Run by hand when a sweep or the model changes: ``python tools/fit_tuner.py``. One fit for each family of transport on
all its systems; one without each system, and one without the largest rank count, for the cross-validation. What the
host does (``HOST``) is fitted on all sweeps together. The loss is the mean of |ln(predicted / measured)| in each regime
of each sweep, so that a long sweep weighs no more than a short one, plus a pull of each constant to the catalog, so
that none moves without evidence.

The band of a family is that of its systems, each predicted by a fit that has not seen it. A family of one system has no
such fit: it gets the band of all fits elsewhere that knew one system of their family, and so does a class of sizes that
fewer than two systems of a family show.
"""

import csv
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from fabriclab import validate
from fabriclab.catalog import published
from fabriclab.tuner import CONSTANTS, HOST, choose, classify, constants, terms
from fabriclab.tuner.system import read

PULL = 0.2
# where the search for a line of LL begins [s]: the catalog has no time for it
START = {**CONSTANTS, "line": 1e-8}
FEWEST = 10  # points from which a band of a class is made
WHY_HOST = (
    "launch line",
    "a process that starts its GPUs one after the other; a proxy that reads the flags of LL messages",
)
WHY = {
    "nvlink": (
        "ll128 rate",
        "LL128 against NCCL's latencies; rings and trees against NCCL's rate of the links",
    ),
    "xgmi": ("rate", "rings on AMD's links against a copy between two GPUs"),
    "shm": ("rate", "copies through host memory in place of PCIe alone"),
    "ib": (
        "ll128 all_to_all",
        "chunks of LL128 fill the way slower than NCCL's latencies say; many senders to one "
        "receiver",
    ),
    "roce": ("rate", "payload, and rings that share PCIe"),
    "cxi": (
        "forward simple pcie all_to_all",
        "LL's messages through the provider; chunks of Simple wait for "
        "rendezvous; NICs behind the host bridge; many senders to one receiver",
    ),
    "cxi-software": (
        "hop post pcie all_to_all",
        "as cxi, where a thread of the host matches messages: each post and hop costs its time",
    ),
    "tcp": (
        "hop post rate all_to_all",
        "sockets: system calls and copies for each message, and the rate of copies",
    ),
    "efa": ("hop simple rate", "SRD through libfabric: latency of its messages, payload"),
}
CLASSES = ("latency", "middle", "bandwidth")  # of a size, as `tuner.classify` names them
HEAD = [
    "family",
    "without",
    "ranks",
    *CONSTANTS,
    *(f"band_{c}" for c in CLASSES),
    "systems",
    "fitted_on",
    "reason",
]
FILE = Path(published.__file__).parents[1] / "data" / "calibration.csv"


def load():
    """Return what was measured, by sweep: system, plans, sizes, times and regimes, without excluded points."""
    out = {}
    for row in published.systems():
        result, system = published.load(row["sweep_id"]), read(row)
        kept = ~validate.excluded(row["sweep_id"], result.size)
        best = [choose(system, n)[0] for n in result.size]
        points = [
            p
            for p in zip(
                best, result.size, result.time, validate.regimes(result), kept, strict=True
            )
            if p[-1]
        ]
        if points:
            out[row["sweep_id"]] = (system, row["system"], points)
    return out


def logs(sweep, fitted):
    """Return ln(predicted / measured) of the points of a sweep."""
    system, _, points = sweep
    c = constants(system, fitted)
    return np.array([np.log(sum(terms(system, p, n, c).values()) / t) for p, n, t, *_ in points])


def fit(family, sweeps, others, names=()):
    """Return the constants of a family that meet its sweeps best, those of other families given."""
    names = names or WHY[family][0].split()
    kept = others.get(family, {})
    first = {k: START[k] for k in names}

    def made(x):
        return {k: float(first[k] * np.exp(v)) for k, v in zip(names, x, strict=True)}

    def loss(x):
        total = PULL * float(np.abs(x).sum())
        for sweep in sweeps:
            error = np.abs(logs(sweep, {**others, family: {**kept, **made(x)}}))
            kind = np.array([p[3] for p in sweep[2]])
            total += sum(error[kind == g].mean() for g in set(kind))
        return total

    found = []
    for step in (0.4, -0.5, 1.2, -1.2):  # the loss has kinks
        x = np.zeros(len(names))
        for size in (step, step / 2):
            simplex = np.vstack([x, x + size * np.eye(len(names))])
            done = minimize(
                loss,
                x,
                method="Nelder-Mead",
                options={"initial_simplex": simplex, "xatol": 0.003, "fatol": 0.003},
            )
            x = done.x
        found.append(done)
    return {k: float(f"{v:.3g}") for k, v in made(min(found, key=lambda d: d.fun).x).items()}


def fit_host(sweeps, others):
    """Return the constants of the host: of launches where one process has several GPUs, of LL between servers."""
    found = {}
    started = [sweep for sweep in sweeps if sweep[0].started]
    if started:
        found |= fit(HOST, started, others, ["launch"])
    lines = []  # at larger sizes other terms grow, too
    for system, name, points in sweeps:
        by_proxy = [p for p in points if p[0].messages and p[3] == "lat"]
        if by_proxy:
            lines.append((system, name, by_proxy))
    return found | fit(HOST, lines, {**others, HOST: found}, ["line"])


def fit_all(sweeps, names):
    """Return the constants of the host and of the named families, by family."""
    fitted = {HOST: {"line": START["line"]}}
    for _ in range(2):  # each kind of constant is fitted with the other
        for family in names:
            mine = [sweep for sweep in sweeps if sweep[0].family == family]
            fitted[family] = fit(family, mine, fitted) if mine else {}
        fitted[HOST] = fit_host(sweeps, fitted)
    return fitted


def blind(sweeps, left, everything):
    """Return the constants that have not seen the system ``left``: of the host, and of the families it belongs to."""
    touched = {sweep[0].family for sweep in sweeps if sweep[1] == left}
    seen = [sweep for sweep in sweeps if sweep[1] != left]
    fitted = {**everything, HOST: {"line": START["line"]}}
    for _ in range(2):
        for family in WHY:
            if family in touched:
                mine = [sweep for sweep in seen if sweep[0].family == family]
                fitted[family] = fit(family, mine, fitted) if mine else {}
        fitted[HOST] = fit_host(seen, fitted)
    return {family: fitted[family] for family in (HOST, *WHY) if family in touched | {HOST}}


def ratios(sweeps, fitted_of):
    """Return a row for each point of the sweeps: its system, its class, and ln(measured / predicted)."""
    rows = []
    for sweep in sweeps:
        system, name, points = sweep
        fitted = fitted_of(sweep)
        c = constants(system, fitted)
        for (plan, size, *_), error in zip(points, logs(sweep, fitted), strict=True):
            rows.append((name, classify(terms(system, plan, size, c)), -error))
    return rows


def band(rows):
    """Return the factors from a predicted time to its band: four in five of the ratios lie between them."""
    ratio = np.array([row[2] for row in rows])
    low, high = np.quantile(ratio, (0.1, 0.9))
    # the predicted time is in its band, so where all is off to one side the band begins there
    if low > 0:
        low = 0.0
        high = np.quantile(ratio, 0.8)
    elif high < 0:
        low = np.quantile(ratio, 0.2)
        high = 0.0
    return f"{np.exp(low):.4g} to {np.exp(high):.4g}"


def bands(rows, wide):
    """Return the band of each class, from ``wide`` where too few points or systems show it."""
    found = {}
    for kind in CLASSES:
        mine = [row for row in rows if row[1] == kind]
        if len(mine) < FEWEST or len({row[0] for row in mine}) < 2:
            mine = [row for row in wide if row[1] == kind]
        found[f"band_{kind}"] = band(mine)
    return found


def about(family, sweeps, fitted, why):
    """Return the row of a family with the constants that were fitted on all its systems."""
    mine = {key: sweep for key, sweep in sweeps.items() if sweep[0].family == family}
    return {
        "family": family,
        "without": "",
        **fitted,
        "systems": "; ".join(sorted({sweep[1] for sweep in mine.values()})),
        "fitted_on": " ".join(mine),
        "reason": why,
    }


def without_largest(family, sweeps, everything):
    """Return the row of a fit without the largest rank count of a family, or None if nothing is left."""
    mine = [sweep for sweep in sweeps if sweep[0].family == family]
    largest = max(sweep[0].ranks for sweep in mine)
    seen = [sweep for sweep in mine if sweep[0].ranks < largest]
    if not seen:
        return None
    others = {key: value for key, value in everything.items() if key != family}
    return {
        "family": family,
        "without": "largest",
        "ranks": largest,
        **fit(family, seen, others),
    }


def main():
    """Fit, and write the table."""
    sweeps = load()
    points = list(sweeps.values())
    everything = fit_all(points, WHY)
    for family, fitted in everything.items():
        print(family, fitted, flush=True)
    systems = sorted({sweep[1] for sweep in points})
    folds = {left: blind(points, left, everything) for left in systems}

    members = {}
    for sweep in points:
        members.setdefault(sweep[0].family, set()).add(sweep[1])

    def unseen(sweep):
        return {**everything, **folds[sweep[1]]}

    def no_family(sweep):
        return {key: value for key, value in everything.items() if key != sweep[0].family}

    by_family = {}
    for family in WHY:
        mine = [sweep for sweep in points if sweep[0].family == family]
        by_family[family] = ratios(mine, unseen) if len(members[family]) > 1 else []
    # a fold of a family of two systems knew one of them
    wide = [row for family in WHY if len(members[family]) == 2 for row in by_family[family]]

    rows = [
        {
            "family": HOST,
            "without": "",
            **everything[HOST],
            **bands(ratios(points, no_family), ()),
            "reason": WHY_HOST[1],
        }
    ]
    for family, (_, why) in WHY.items():
        row = about(family, sweeps, everything[family], why)
        rows.append(row | bands(by_family[family], wide))
    for left, fold in folds.items():
        for family, fitted in fold.items():
            rows.append({"family": family, "without": left, **fitted})
    rows += filter(None, (without_largest(family, points, everything) for family in WHY))
    rows.append(
        {
            "family": "",
            "without": "",
            **bands(ratios(points, lambda sweep: {}), ()),
            "reason": "no constants: band of the catalog alone, over all sweeps",
        }
    )
    with FILE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, HEAD, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
