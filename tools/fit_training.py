"""Fit one efficiency of computation for each software stack, generation of accelerator and precision.

Each is fitted on all models, and once without each model. Writes ``fabriclab/catalog/data/training_fit.csv``.
"""

import csv, math, sys, collections
from concurrent.futures import ProcessPoolExecutor
import numpy as np
from fabriclab.training import published

PRIOR = {"cell": 0.10, "stack": 0.25, "generation": 0.15, "precision": 0.10, "stack generation": 0.1, "stack precision":0.1}

def own_efficiency(row):
    asked = published.read_row(row)
    if asked is None: return None
    want = float(row["step_time_s"]); e = 0.8
    for _ in range(6):
        s = published.step_of_row(row, e)
        comp = s.parts["compute"] + s.parts["bubble"]
        rest = s.time - comp
        new = e * comp / max(want - rest, 0.1 * want)
        if abs(new/e-1) < 1e-3: e = new; break
        e = new
    return {"row": row, "model": asked.model.name, "stack": asked.stack, "generation": asked.chip.generation, "precision": asked.precision, "e": e, "task": asked.task}

def features(x):
    s,g,p = x["stack"],x["generation"],x["precision"]
    return {("cell",s,g,p):PRIOR["cell"],("stack",s):PRIOR["stack"],("generation",g):PRIOR["generation"],("precision",p):PRIOR["precision"],("sg",s,g):PRIOR["stack generation"],("sp",s,p):PRIOR["stack precision"]}

NOISE = 0.15
def fit(xs):
    """Gaussian hierarchical: mean of log e per (cell, model) with noise; returns predict(cell)."""
    by = collections.defaultdict(list)
    for x in xs: by[x["stack"],x["generation"],x["precision"],x["model"]].append(math.log(x["e"]))
    obs = [(dict(stack=k[0],generation=k[1],precision=k[2]), float(np.median(v))) for k,v in by.items()]
    mu = float(np.median([v for _,v in obs]))
    F = [features(o) for o,_ in obs]
    def cov(a,b): return sum(a[k]**2 for k in a if k in b)
    K = np.array([[cov(a,b) for b in F] for a in F]) + NOISE**2*np.eye(len(F))
    w = np.linalg.solve(K, np.array([v for _,v in obs])-mu)
    def predict(x):
        f = features(x)
        return math.exp(mu + sum(cov(f,b)*c for b,c in zip(F,w)))
    return predict

def load(path='/work/shared/targets/training_steps_2026.csv'):
    return [r for r in csv.DictReader(open(path)) if r['step_time_s'] and r['task']!='rl']

def job(args):
    row,e = args
    return published.step_of_row(row,e).time

def main():
    R = load()
    with ProcessPoolExecutor(2) as ex:
        X = [x for x in ex.map(own_efficiency, R, chunksize=8) if x]
        models = sorted({x["model"] for x in X})
        es = {}
        for m in models:
            f = fit([x for x in X if x["model"]!=m])
            for i,x in enumerate(X):
                if x["model"]==m: es[i]=f(x)
        T = list(ex.map(job, [(X[i]["row"],es[i]) for i in range(len(X))], chunksize=8))
    err = np.array([t/float(x["row"]["step_time_s"])-1 for t,x in zip(T,X)])
    a = np.abs(err)
    print("rows",len(R),"predicted",len(X),"median %.3f p90 %.3f"%(np.median(a),np.quantile(a,.9)))
    g = collections.defaultdict(list)
    for x,e_,er in zip(X,[es[i] for i in range(len(X))],err): g[x["stack"],x["generation"],x["precision"],x["model"][:20]].append((er,x["e"],e_))
    for k in sorted(g): print(k, len(g[k]), "err %+.2f..%+.2f"%(min(v[0] for v in g[k]),max(v[0] for v in g[k])), "own e %.2f..%.2f fit %.2f"%(min(v[1] for v in g[k]),max(v[1] for v in g[k]),g[k][0][2]))
    med=[np.median(np.abs([v[0] for v in gg])) for gg in g.values()]
    print("median of groups %.3f p90 %.3f"%(np.median(med),np.quantile(med,.9)))
    return X,T
if __name__=="__main__": main()
