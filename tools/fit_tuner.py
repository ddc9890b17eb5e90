"""Fit the constants of fabriclab.tuner to the published sweeps and write catalog/data/calibration.csv.

Run by hand when a sweep or the model changes: ``python tools/fit_tuner.py``. One fit for each family of
transport on all its systems; one without each system, and one without the largest rank count, for the
cross-validation. The loss is the mean of |ln(predicted / measured)| in each regime of each sweep, so that a long sweep
weighs no more than a short one, plus a pull of each constant to the catalog, so that none moves without evidence.
"""

import csv
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from fabriclab import validate
from fabriclab.catalog import published
from fabriclab.tuner import CONSTANTS, choose, classify, constants, terms
from fabriclab.tuner.system import read

PULL = 0.2
WHY = {
    "nvlink": (
        "launch ll128 rate",
        "a process that starts its GPUs one after the other; LL128 against NCCL's "
        "latencies; rings and trees against NCCL's rate of the links",
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


def fit(family, sweeps, others):
    """Return the constants of a family that meet its sweeps best, those of other families given."""
    names = WHY[family][0].split()
    first = {k: CONSTANTS[k] for k in names}

    def made(x):
        return {k: float(first[k] * np.exp(v)) for k, v in zip(names, x, strict=True)}

    def loss(x):
        total = PULL * float(np.abs(x).sum())
        for sweep in sweeps:
            error = np.abs(logs(sweep, {**others, family: made(x)}))
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


def band(errors, kinds):
    """Return the band of each class: measured over predicted, 10th to 90th percentile."""
    out = {}
    for c in CLASSES:
        mine = -errors[kinds == c]
        low, high = np.exp(np.quantile(mine if mine.size >= 5 else -errors, (0.1, 0.9)))
        out[f"band_{c}"] = f"{min(low, 1):.2g} to {max(high, 1):.2g}"
    return out


def bands(sweeps, by_sweep):
    """Return the band of the sweeps, each by the constants that did not see it."""
    errors, kinds = [], []
    for name in sweeps:
        system, _, points = sweeps[name]
        c = constants(system, by_sweep[name])
        errors.append(logs(sweeps[name], by_sweep[name]))
        kinds += [classify(terms(system, p, n, c)) for p, n, *_ in points]
    return band(np.concatenate(errors), np.array(kinds))


def main():
    """Fit, and write the table."""
    sweeps = load()
    rows, main_of, folds = [], {}, {}
    for family, (_, why) in WHY.items():
        mine = {k: v for k, v in sweeps.items() if v[0].family == family}
        main_of[family] = fit(family, mine.values(), main_of)
        systems = sorted({v[1] for v in mine.values()})
        rows.append(
            {
                "family": family,
                "without": "",
                **main_of[family],
                "systems": "; ".join(systems),
                "fitted_on": " ".join(mine),
                "reason": why,
            }
        )
        largest = max(v[0].ranks for v in mine.values())
        for left in [*systems, "largest"]:
            seen = [
                v
                for v in mine.values()
                if (v[0].ranks < largest if left == "largest" else v[1] != left)
            ]
            if left == "largest" and not seen:
                continue
            # have not seen it, too
            others = {**main_of, **{f: c for (f, out), c in folds.items() if out == left}}
            folds[family, left] = fit(family, seen, others) if seen else {}
            rows.append(
                {
                    "family": family,
                    "without": left,
                    "ranks": largest if left == "largest" else "",
                    **folds[family, left],
                }
            )
        print(family, main_of[family], flush=True)
    for row in rows:
        if not row["without"]:
            mine = {k: v for k, v in sweeps.items() if v[0].family == row["family"]}
            unseen = {
                s: {f: c for (f, left), c in folds.items() if left == s}
                for s in {v[1] for v in mine.values()}
            }
            blind = {
                k: {**main_of, **(unseen[v[1]] if len(unseen) > 1 else {})} for k, v in mine.items()
            }
            row.update(bands(mine, blind))
    rows.append(
        {
            "family": "",
            "without": "",
            **bands(sweeps, {key: {} for key in sweeps}),
            "reason": "no constants: band of the catalog alone, over all sweeps",
        }
    )
    with FILE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, HEAD, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
