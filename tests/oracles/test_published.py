"""Published sweeps: what ran, what was measured, and who says so."""

import re

import numpy as np
import pytest

import fabriclab
from fabriclab.catalog import published
from fabriclab.catalog.tables import read_rows
from fabriclab.core.result import Result

KEYS = [
    "sweep_id",
    "system",
    "collective",
    "algo",
    "nodes",
    "gpus_per_node",
    "ranks",
    "dtype",
    "source",
    "accelerator",
    "server",
    "scale_up",
    "scale_up_domain_gpus",
    "nics_per_node",
    "nic_gbps",
    "transport",
    "launch",
    "confidence",
    "note",
]


def test_by_hand():
    ring = published.load("h100x8_ring")
    assert (ring.what, ring.n_ranks, ring.obtained) == ("all_reduce", 8, "published")
    assert ring.at(8) == pytest.approx(37.33e-6)
    assert ring.at("128 MiB") == pytest.approx(699.15e-6)
    assert "Together AI" in ring.source
    assert "all_reduce_ring.out" in ring.source
    assert published.load("xx_1n_alltoall").what == "all_to_all"
    assert published.load("xx_1n_sendrecv").what == "send_recv"


def test_shape():
    names = [s["sweep_id"] for s in published.systems()]
    assert len(names) == len(set(names)) == 67
    assert sum(published.load(n).size.size for n in names) == 1328
    rows = published.systems()
    assert all(list(r) == KEYS for r in rows)
    counts = (
        "nodes",
        "gpus_per_node",
        "ranks",
        "scale_up_domain_gpus",
        "nics_per_node",
        "nic_gbps",
    )
    assert all(type(r[k]) is int for r in rows for k in counts)
    rows[0]["ranks"] = -1
    assert published.systems()[0]["ranks"] == 4  # a caller cannot change the table


@pytest.mark.parametrize("name", [s["sweep_id"] for s in published.systems()])
def test_law_figures_of_a_sweep_fit_each_other(name):
    result, about = (
        published.load(name),
        next(s for s in published.systems() if s["sweep_id"] == name),
    )
    assert isinstance(result, Result)
    assert result.n_ranks == about["nodes"] * about["gpus_per_node"]
    assert np.all(np.diff(result.size) > 0)
    rows = published._rows()[name]
    printed = np.array([float(r["busbw_GBps"]) for r in rows])
    clear = printed >= 5  # two decimals are printed
    assert result.busbw[clear] / 1e9 == pytest.approx(printed[clear], rel=6e-3)
    assert not (about["transport"] == "ib" and "socket" in about["algo"] + rows[0]["algo"])


def test_every_file_has_its_source():
    sources = published.sources()
    assert sorted(s["file"] for s in sources) == sorted(
        p.name for p in published._HERE.glob("nccl_*.csv")
    )
    assert all(all(row.values()) for row in sources)
    assert {s["licence"].split(";")[0].split(",")[0] for s in sources} == {"figures only"}
    rows = [r for s in sources for r in read_rows(published._HERE / s["file"])]
    assert all(r["source"] for r in rows)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("alltoall", "all_to_all"),
        ("sendrecv", "send_recv"),
        ("AllReduce", "all_reduce"),
        ("all-gather", "all_gather"),
        ("reduce_scatter", "reduce_scatter"),
        ("broadcast", "broadcast"),
        ("reduce", "reduce"),
    ],
)
def test_spellings_of_tools(spelling, name):
    assert published.identifier(spelling) == name


def test_refusals():
    with pytest.raises(KeyError, match=r"published sweeps has no .* did you mean 'h100x8_ring'"):
        published.load("h100x8_rng")
    for unknown in ("eos", "h100x8_rng"):
        with pytest.raises(KeyError) as caught:
            published.load(unknown)
        # the message says how to list them, and that works
        code = re.search(r"\[row.*\]", caught.value.args[0])[0]
        assert "h100x8_ring" in eval(code, {"fabriclab": fabriclab})
    with pytest.raises(ValueError, match="has no 'hypercube'"):
        published.identifier("hypercube")
