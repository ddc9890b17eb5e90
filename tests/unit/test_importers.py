"""Importers: the text of nccl-tests and rccl-tests in its versions."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fabriclab.catalog import published
from fabriclab.core.result import bus_factor
from fabriclab.errors import FileFormat
from fabriclab.importers import read_nccl_tests
from support import DATA
from support.prose import figures

LOGS = DATA / "nccl_tests"


@pytest.mark.parametrize(
    ("file", "sweeps", "picked", "notes"),
    [
        ("modern.txt", ["xx_10n_g1_all_reduce"], [range(0, 10, 3)], ""),
        ("error_column.txt", ["polaris_n2_2.18_all_reduce_env3"], [range(0, 29, 7)], ""),
        (
            "tag_output_noise.txt",
            ["sophia_n2_2.22.3_alltoall_env6"],
            [range(0, 25, 6)],
            "guessed from the columns",
        ),
        ("all_gather_output.txt", ["polaris_n2_2.18_all_gather_env3"], [range(0, 24, 6)], ""),
        ("rccl_two_tables.txt", ["mi300x_1n", "mi325x_2n"], [range(0, 31, 7), range(3)], ""),
        ("first_version.txt", ["v100_8"], [range(0, 25, 6)], ""),
        (
            "old_all_gather.txt",
            ["sophia_n2_2.22.3_all_gather_env6"],
            [range(1, 23, 7)],
            "old all-gather table",
        ),
        ("cut_short.txt", ["xx_1n_all_reduce"], [[0, 4, 6]], "2 lines cut short, skipped"),
    ],
)
def test_fixtures_by_hand(file, sweeps, picked, notes):
    """The files hold rows of published sweeps in the print of each version; time has four digits there."""
    results = read_nccl_tests(LOGS / file)
    assert len(results) == len(sweeps)
    for result, sweep, rows in zip(results, sweeps, picked, strict=True):
        wanted = published.load(sweep)
        assert (result.what, result.n_ranks, result.obtained) == (
            wanted.what,
            wanted.n_ranks,
            "stored",
        )
        assert result.size.tolist() == wanted.size[list(rows)].tolist()
        assert result.time == pytest.approx(
            wanted.time[list(rows)], rel=2e-2 if "first" in file else 1e-3
        )
        assert result.source.startswith(file)
        assert notes in " ".join(result.notes)
        assert bool(result.notes) == bool(notes)


def test_in_place_columns():
    (out,), (inside,) = (
        read_nccl_tests(LOGS / "modern.txt"),
        read_nccl_tests(LOGS / "modern.txt", in_place=True),
    )
    rows = published._rows()["xx_10n_g1_all_reduce"][::3]
    assert inside.time * 1e6 == pytest.approx([float(r["inplace_time_us"]) for r in rows], rel=1e-3)
    assert inside.asked["in_place"]
    assert not np.array_equal(out.time, inside.time)
    assert out.asked == {
        "dtype": "double",
        "redop": "sum",
        "root": -1,
        "in_place": False,
        "line": 20,
    }


# A writer of every version: rows in, text out, as the tests print them.
KINDS = {
    "all_reduce": ("sum", -1, 1, "all_reduce"),
    "reduce_scatter": ("sum", -1, 0, "reduce_scatter"),
    "all_gather": ("none", -1, 0, "all_gather"),
    "all_to_all": ("none", -1, 0, "alltoall"),
    "broadcast": ("none", 0, 1, "broadcast"),
    "reduce": ("sum", 0, 1, "reduce"),
    "send_recv": ("none", -1, 1, "sendrecv"),
}
PREFIXES = (
    "",
    "[1,0]<stdout>:",
    "[prterun-node01-77@1,0]<stdout>: ",
    "x3004c0s13b0n0.hsn.example 0: ",
    " 0: ",
    "    ",
    "> ",
)
NOISE = "node01:4100:4200 [0] NCCL INFO Channel 00/02 :    0   1   2   3"


def print_time(seconds):
    t = seconds * 1e6
    return f"{t:.0f}" if t >= 10000 else f"{t:.1f}" if t >= 100 else f"{t:.2f}"


def write(what, ranks, rows, style):
    """Return the text of one table; rows are (size, seconds out of place, seconds in place)."""
    redop, root, whole, tool = KINDS[what]
    head = {"redop": redop, "root": root} if style["wide"] else {}
    if not style["wide"]:
        head |= {"redop": redop} if redop != "none" else {}
        head |= {"root": root} if root >= 0 else {}
    check, value = (f"{' ' * style['gap']}#wrong", "0") if style["wide"] else ("error", "5e-07")
    group = f"    time   algbw   busbw {check}"
    out = [
        f"# nccl-tests version 2.17.6\n# Collective test starting: {tool}_perf"
        if style["named"]
        else "",
        f"# nThread 1 nGpus {1 if style['devices'] else ranks} minBytes 8 maxBytes 8 step: 2(factor) iters: 20",
        *(
            f"#  Rank {i:2d} Group  0 Pid {99 + i} on node01 device {i:2d} [0x1b] GPU"
            for i in range(ranks * style["devices"])
        ),
        "#" + " " * 50 + "out-of-place                       in-place",
        "#       size         count      type " + "".join(f" {h:>6}" for h in head) + group * 2,
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]
    for size, *times in rows:
        cells = [
            f"{size:>12}  {size // 4 // (1 if whole else ranks):>12}     float",
            *(f"{v:>6}" for v in head.values()),
        ]
        for i, t in enumerate(times):
            bw = size / t / 1e9
            unchecked = style["unchecked"] or (i and what in ("all_to_all", "send_recv"))
            cells.append(
                f"{print_time(t):>7} {bw:>7.2f} {bw * bus_factor(what, ranks):>7.2f} {'N/A' if unchecked else value:>6}"
            )
        out += ["  ".join(cells)] + [NOISE] * style["noise"]
    out += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.0", ""]
    return "\n".join(style["prefix"] + line for text in out for line in text.split("\n"))


styles = st.fixed_dictionaries(
    {
        "wide": st.booleans(),
        "gap": st.integers(0, 2),
        "prefix": st.sampled_from(PREFIXES),
        "noise": st.booleans(),
        "named": st.just(True),
        "devices": st.just(True),
        "unchecked": st.booleans(),
    }
)
tables = st.lists(
    st.tuples(st.integers(0, 2**28).map(lambda n: 64 * n), st.floats(3e-6, 1), st.floats(3e-6, 1)),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row[0],
).map(sorted)
kinds = st.sampled_from(sorted(KINDS))


@given(st.lists(st.tuples(kinds, st.integers(2, 32), tables), min_size=1, max_size=3), styles)
def test_law_what_is_written_is_read(tmp_path_factory, parts, style):
    path = tmp_path_factory.getbasetemp() / "log.txt"
    path.write_text("\n".join(write(what, ranks, rows, style) for what, ranks, rows in parts))
    for in_place in (False, True):
        results = read_nccl_tests(path, in_place=in_place)
        assert [(r.what, r.n_ranks) for r in results] == [(what, ranks) for what, ranks, _ in parts]
        for result, (_, _, rows) in zip(results, parts, strict=True):
            assert result.size.tolist() == [row[0] for row in rows]
            assert result.time.tolist() == pytest.approx(
                [float(print_time(r[1 + in_place])) * 1e-6 for r in rows], rel=1e-12
            )
            assert result.notes == ()


@given(
    st.sampled_from(
        ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"]
    ),
    st.integers(3, 32),
    st.booleans(),
)
def test_law_the_columns_tell_the_collective(tmp_path_factory, what, ranks, noise):
    path = tmp_path_factory.getbasetemp() / "log.txt"
    style = {
        "wide": True,
        "gap": 0,
        "prefix": "",
        "noise": noise,
        "named": False,
        "devices": False,
        "unchecked": False,
    }
    path.write_text(write(what, ranks, [(2**20, 1e-4, 1e-4), (2**30, 1e-2, 1e-2)], style))
    (result,) = read_nccl_tests(path)
    assert (result.what, result.n_ranks) == (what, ranks)
    assert any("columns" in n for n in result.notes)
    assert any("nThread x nGpus" in n for n in result.notes)


@given(st.integers(1, 400))
def test_law_a_file_cut_anywhere_is_read_or_refused(tmp_path_factory, cut):
    text = (LOGS / "modern.txt").read_text()
    path = tmp_path_factory.getbasetemp() / "cut.txt"
    path.write_text(text[: len(text) - 2 * cut])
    whole = read_nccl_tests(LOGS / "modern.txt")[0]
    try:
        (result,) = read_nccl_tests(path)
    except FileFormat as error:
        assert re.search(r"line \d+|no line with size", str(error))
    else:
        assert set(zip(result.size, result.time, strict=True)) <= set(
            zip(whole.size, whole.time, strict=True)
        )


def edited(tmp_path, file, *changes):
    text = (LOGS / file).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "log.txt"
    path.write_text(text)
    return path


def test_the_collective_or_the_ranks_may_be_missing(tmp_path):
    no_ranks = edited(tmp_path, "modern.txt", ("#  Rank", "#  rang"), ("# nThread", "# threads"))
    with pytest.raises(ValueError, match=r"log.txt, line 20: no device lines .* n_ranks=\.\.\."):
        read_nccl_tests(no_ranks)
    assert read_nccl_tests(no_ranks, n_ranks=10)[0].n_ranks == 10
    ring = [(2**30, 1e-2, 1e-2)]
    style = {
        "wide": True,
        "gap": 0,
        "prefix": "",
        "noise": False,
        "named": False,
        "devices": True,
        "unchecked": False,
    }
    path = tmp_path / "log.txt"
    path.write_text(write("send_recv", 4, ring, style))
    with pytest.raises(ValueError, match=r"collective; .*collective=\.\.\."):
        read_nccl_tests(path)
    assert read_nccl_tests(path, collective="SendRecv")[0].what == "send_recv"
    path = tmp_path / "sendrecv.log"
    path.write_text(write("send_recv", 4, ring, style))
    assert read_nccl_tests(path)[0].what == "send_recv"


def test_a_name_holds_for_one_table(tmp_path):
    style = {
        "wide": True,
        "gap": 0,
        "prefix": "",
        "noise": False,
        "devices": True,
        "unchecked": False,
    }
    row = [(2**30, 1e-2, 1e-2)]
    first, second = (
        write(w, 4, row, {**style, "named": n})
        for w, n in (("all_reduce", True), ("all_gather", False))
    )
    (tmp_path / "log.txt").write_text(f"{first}\n{second}")
    assert [r.what for r in read_nccl_tests(tmp_path / "log.txt")] == ["all_reduce", "all_gather"]


def test_figures_that_do_not_fit_are_refused(tmp_path):
    one_process_of_ten = edited(tmp_path, "modern.txt", ("#  Rank", "#  rang"))
    text = r"line 22: busbw 42.98 GB/s is not 0.000 x algbw 23.88 GB/s, the factor of all_reduce on 1 ranks; give col"
    with pytest.raises(ValueError, match=text):
        read_nccl_tests(one_process_of_ten)
    with pytest.raises(ValueError, match=r"0.900 x algbw 23.88 GB/s.*all_gather.*10 ranks"):
        read_nccl_tests(LOGS / "modern.txt", collective="all_gather", n_ranks=10)
    with pytest.raises(ValueError, match="n_ranks must be >= 1"):
        read_nccl_tests(LOGS / "modern.txt", n_ranks=0)
    with pytest.raises(ValueError, match="has no 'hypercube'"):
        read_nccl_tests(LOGS / "modern.txt", collective="hypercube")
    with pytest.raises(ValueError, match="has no '5'"):
        read_nccl_tests(LOGS / "modern.txt", collective=5)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("10062", "1o062", r"log.txt, line 23: time must be a number or N/A, got '1o062'"),
        (
            "10062",
            "20062",
            r"log.txt, line 23: algbw 26.68 GB/s does not follow from size and time \(13.38 GB/s\)",
        ),
        (
            "10062",
            "10362",
            r"log.txt, line 23: algbw 26.68 GB/s does not follow from size and time \(25.91 GB/s\)",
        ),
        (
            "268435456  ",
            "26843545  ",
            r"line 23: 26.8 MB follows 32 MiB, but sizes rise: the line is broken, or",
        ),
        ("268435456  ", "134217728  ", r"line 23: algbw 26.68"),
        (
            "algbw   busbw",
            "speed   other",
            r"line 20: this table has no time, algbw and busbw columns",
        ),
        ("time ", "zeit ", "no line with size, count, type and time"),
        (" sum ", " ", "line 20: no whole row"),
    ],
)
def test_broken_files_are_refused_with_their_line(tmp_path, old, new, text):
    path = edited(tmp_path, "modern.txt", (old, new))
    if new == " ":
        path.write_text(re.sub(r"(?m)^ .*$", lambda m: m[0][:50], path.read_text()))
    with pytest.raises(FileFormat, match=text):
        read_nccl_tests(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1405.2   23.88   42.98", "1405.2   23.88   49.98"),
        ("1405.2   23.88   42.98", "1405.2   23.88   42.96"),
        ("1405.2   23.88   42.98", "1405.2   23.88    0.00"),
        ("79278   27.09   48.76", "79278   27.09   27.09"),
        # 0.016 from 1.8 x 26.67: what rounding may take is 0.005 + 1.8 x 0.005 = 0.014, and a thousandth of it.
        ("10062   26.68   48.02", "10062   26.67   47.99"),
    ],
)
def test_the_bus_bandwidth_of_every_line_follows_from_its_algbw(tmp_path, old, new):
    path, cells = edited(tmp_path, "modern.txt", (old, new)), new.split()
    line = {"1405.2": 22, "10062": 23, "79278": 24}[cells[0]]
    text = rf"line {line}: busbw {float(cells[2])} GB/s is not 1.800 x algbw {cells[1]} GB/s.* this line is broken"
    with pytest.raises(FileFormat, match=text):
        read_nccl_tests(path)
    assert read_nccl_tests(path, in_place=True)[0].size.size == 4


@given(st.sampled_from([2, 3, 8, 72, 1000]), st.floats(1e-3, 5e5), st.integers(0, 2))
def test_law_printed_digits_never_refuse_a_right_line(tmp_path_factory, ranks, gb, digits):
    """Bandwidths of more than 1,000 GB/s are printed with fewer decimals in new versions."""
    path, factor = (
        tmp_path_factory.getbasetemp() / "all_reduce.txt",
        bus_factor("all_reduce", ranks),
    )
    size, time = 2**34, f"{2**34 / gb / 1e3:.2f}"
    line = f"{size} {size // 4} float sum -1 {time} {gb:.{digits}f} {gb * factor:.{digits}f} 0"
    path.write_text(
        f"# nThread 1 nGpus {ranks}\n# size count type redop root time algbw busbw #wrong\n{line}\n"
    )
    assert read_nccl_tests(path)[0].algbw[0] == pytest.approx(size / float(time) * 1e6)


def test_figures_that_are_no_numbers_are_refused_or_skipped(tmp_path):
    for word in ("inf", "nan"):
        with pytest.raises(
            FileFormat, match=f"line 23: busbw must be a number or N/A, got '{word}'"
        ):
            read_nccl_tests(edited(tmp_path, "modern.txt", ("48.02", f"  {word}")))
    (result,) = read_nccl_tests(edited(tmp_path, "modern.txt", ("26.68   48.02", "N/A     N/A")))
    assert result.size.size == 4


def log_of(*rows, ranks=4, tool="all_reduce", per_process=1):
    """Return a log; a row is (size, microseconds, data type, operation, root)."""
    factor = bus_factor(tool, ranks)
    out = [f"# nThread 1 nGpus {per_process}", f"# Collective test starting: {tool}_perf"]
    out += [f"#  Rank {r} Group 0 Pid {r} on node01 device {r} [0x1b] GPU" for r in range(ranks)]
    out += ["# size count type redop root time algbw busbw #wrong"]
    for size, t, dtype, redop, root in rows:
        out += [
            f"{size} {size} {dtype} {redop} {root} {t:.2f} {size / t / 1e3:.2f} {factor * size / t / 1e3:.2f} 0"
        ]
    return "\n".join(out) + "\n"


def test_a_result_has_one_data_type_one_operation_and_one_root(tmp_path):
    """As with -d all -o all -r all: the sizes run within each."""
    asked = [(d, o, r) for d in ("int8", "half") for o in ("sum", "max") for r in (0, 3)]
    rows = [
        (2**k, 10.0 * i + k, *key) for i, key in enumerate(asked, start=1) for k in (10, 20, 30)
    ]
    path = tmp_path / "log.txt"
    path.write_text(log_of(*rows, tool="reduce"))
    results = read_nccl_tests(path)
    assert [(r.asked["dtype"], r.asked["redop"], r.asked["root"]) for r in results] == asked
    for i, result in enumerate(results, start=1):
        assert result.size.tolist() == [2**10, 2**20, 2**30]
        assert result.time * 1e6 == pytest.approx([10.0 * i + k for k in (10, 20, 30)])
        assert result.notes == ()


@pytest.mark.parametrize("per_process", [1, 4])
def test_cycles_of_a_run_are_kept_apart(tmp_path, per_process):
    """As with -N 3; the last was cut off."""
    sizes = [0, 0, 64, 4096, 0, 0, 64, 4096, 0, 0, 64]
    path = tmp_path / "log.txt"
    rows = [(s, 10.0 + i, "float", "sum", -1) for i, s in enumerate(sizes)]
    path.write_text(log_of(*rows, per_process=per_process))
    results = read_nccl_tests(path)
    assert [r.size.tolist() for r in results] == [[0, 0, 64, 4096], [0, 0, 64, 4096], [0, 0, 64]]
    assert [r.time[0] * 1e6 for r in results] == pytest.approx([10, 14, 18])
    assert [r.notes for r in results] == [(f"cycle {i} of 3 of its table",) for i in (1, 2, 3)]


@pytest.mark.parametrize("per_process", [1, 4])
@pytest.mark.parametrize("size", [2**30, 0])
def test_rows_of_one_size_are_cycles(tmp_path, per_process, size):
    """As with -b 1G -e 1G -N 3 -o all."""
    path = tmp_path / "log.txt"
    rows = [(size, 10.0 + i, "float", ("sum", "max")[i % 2], -1) for i in range(6)]
    path.write_text(log_of(*rows, per_process=per_process))
    results = read_nccl_tests(path)
    assert [r.size.tolist() for r in results] == 6 * [[size]]
    assert [r.asked["redop"] for r in results] == 3 * ["sum"] + 3 * ["max"]
    assert [r.time[0] * 1e6 for r in results] == pytest.approx([10, 12, 14, 11, 13, 15])
    assert [r.notes for r in results] == 2 * [(f"cycle {i} of 3 of its table",) for i in (1, 2, 3)]
    path.write_text(log_of(rows[0], per_process=per_process))
    assert read_nccl_tests(path)[0].notes == ()


def test_times_of_the_calls_alone_are_refused_by_name(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(
        log_of((2**20, 10.0, "float", "sum", -1)).replace(" time algbw", " cputime algbw")
    )
    with pytest.raises(FileFormat, match=r"log.txt, line 7: this table has cputime.*without -C 1$"):
        read_nccl_tests(path)
    with pytest.raises(TypeError, match="in_place must be True or False, got 'no'"):
        read_nccl_tests(path, in_place="no")


def test_sizes_that_were_rounded_alike_are_one_sweep(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(
        log_of(*((s, 10.0, "float", "sum", -1) for s in (0, 0, 1152, 1152, 2304)), ranks=72)
    )
    assert read_nccl_tests(path)[0].size.tolist() == [0, 0, 1152, 1152, 2304]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.sampled_from([1, 4]))
@example([0] * 5 + [1] * 4 + [0, 1], 1)
@example([0] * 4 + [1] * 4 + [2] * 4 + [0, 1, 2] * 6, 1)  # in step
@example([0] * 8 + [1] * 8 + [2] * 6 + [0, 2], 4)
def test_law_programs_that_printed_into_each_other_are_refused(tmp_path_factory, turns, gpus):
    """Without MPI every process prints a log of its own: whatever their turns, no two of them end up in one Result."""
    path = tmp_path_factory.getbasetemp() / "log.txt"
    logs = [
        log_of(
            *((2**k, 10.0 + p, "float", "sum", -1) for k in range(3, 9)),
            ranks=gpus,
            per_process=gpus,
        ).splitlines()
        for p in range(3)
    ]
    text = [logs[p].pop(0) for p in turns if logs[p]]
    path.write_text("\n".join([*text, *logs[0], *logs[1], *logs[2]]))
    try:
        results = read_nccl_tests(path, collective="all_reduce", n_ranks=gpus)
    except FileFormat as error:
        assert re.search(r"line \d+: .* B follows .* several programs .*; give the log", str(error))
    else:
        for result in results:
            assert len(set(result.time.tolist())) == 1


def test_a_log_is_a_file_or_its_text(tmp_path):
    text = (LOGS / "modern.txt").read_text()
    (of_text,) = read_nccl_tests(text)
    (of_file,) = read_nccl_tests(LOGS / "modern.txt")
    assert of_text.time.tolist() == of_file.time.tolist()
    assert of_text.source == of_file.source.replace("modern.txt", "text")
    (tmp_path / "utf16.txt").write_bytes(text.encode("utf-16"))
    assert read_nccl_tests(tmp_path / "utf16.txt")[0].time.tolist() == of_file.time.tolist()
    with pytest.raises(FileFormat, match="there is no such file"):
        read_nccl_tests("x" * 5000)


def test_a_file_that_is_read_in_part_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("fabriclab.importers.lines.MOST_BYTES", 2**20)
    file = tmp_path / "long.txt"
    file.write_text((LOGS / "modern.txt").read_text() + "words\n" * 200_000)
    with pytest.raises(FileFormat, match=r"long.txt is too long, only its first 1 MiB were read"):
        read_nccl_tests(file)


def test_files_that_are_none(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)))
    for name in ("empty.txt", "binary.txt"):
        with pytest.raises(FileFormat, match=f"{name} is no nccl-tests log"):
            read_nccl_tests(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_nccl_tests(tmp_path / "nowhere.txt")
    one_group = edited(
        tmp_path, "modern.txt", ("#wrong     time   algbw   busbw   #wrong", "#wrong")
    )
    with pytest.raises(FileFormat, match="has no in-place columns"):
        read_nccl_tests(one_group, in_place=True)
    assert read_nccl_tests(one_group)[0].time == pytest.approx(
        read_nccl_tests(LOGS / "modern.txt")[0].time
    )


@given(st.integers(2, 512), st.floats(0.02, 300), st.booleans())
@example(3, 0.021484375, True)
@example(72, 176.23, True)
def test_law_old_all_gather_tables_give_the_same_times(tmp_path_factory, ranks, rate, old):
    """The old test printed (P-1)/P of the size as algbw, and that as busbw too."""
    path = tmp_path_factory.getbasetemp() / "all_gather.txt"
    size, part = 2**27, (ranks - 1) / ranks
    time = print_time(size / rate / 1e9)
    algbw = size / float(time) / 1e3 * (part if old else 1)
    busbw = size / float(time) / 1e3 * part
    path.write_text(
        f"# nThread 1 nGpus {ranks}\n#       size         count    type     time   algbw   busbw  error\n"
        f"#        (B)    (elements)             (us)  (GB/s)  (GB/s)\n"
        f"{size} {size // 4 // ranks} float {time} {algbw:.2f} {busbw:.2f} 0e+00\n"
    )
    (result,) = read_nccl_tests(path)
    assert result.time[0] == pytest.approx(float(time) * 1e-6)
    assert result.algbw[0] / 1e9 == pytest.approx(size / float(time) / 1e3)
    flagged = any("old all-gather" in n for n in result.notes)
    assert flagged <= old  # a table of today is never taken for an old one
    # unless printed digits hide it
    assert flagged or not old or size / float(time) / 1e3 * (1 - part) < 0.02


@pytest.mark.parametrize("cells", range(1, 9))
def test_a_line_without_its_last_cells_is_cut_short(tmp_path, cells):
    text = (LOGS / "modern.txt").read_text().splitlines()
    text[22] = " ".join(text[22].split()[:-cells])
    (tmp_path / "log.txt").write_text("\n".join(text))
    (result,) = read_nccl_tests(tmp_path / "log.txt")
    assert result.size.size == 3
    (note,) = result.notes
    assert figures(note) == ["1"] and "cut short" in note


@pytest.mark.parametrize("wrong_numbers", [1, 7])
def test_rows_without_time_and_wrong_results_are_noted(tmp_path, wrong_numbers):
    path = edited(
        tmp_path,
        "modern.txt",
        ("  10062   26.68   48.02      0", "    N/A     N/A     N/A    N/A"),
        (" 27.09   48.76      0", f" 27.09   48.76      {wrong_numbers}"),
    )
    (result,) = read_nccl_tests(path)
    assert result.size.size == 3
    late, wrong = result.notes
    assert figures(late) == figures(wrong) == ["1"]
    assert "time" in late and "#wrong" in wrong
