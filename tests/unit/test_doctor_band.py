"""What the doctor says of a rate within its band, below it, and far below: verdict, sentences and table agree."""

import pytest

import fabriclab as fl
from fabriclab.__main__ import main
from fabriclab.diagnosis.comparison import figure
from fabriclab.diagnosis.page import pictures
from fabriclab.errors import FileFormat
from support.nccl_output import eight_nics, said, start, table

H100 = "NVIDIA H100 80GB HBM3"
KEEP = "Keep these files"


def log(rate):
    """Return a log without a sign of trouble, of two servers with 8 H100 and 8 NICs, and a table of its all-reduce."""
    hosts = ["node-a", "node-b"]
    lines = start(
        hosts,
        8,
        "Bootstrap : Using eth0:10.0.0.1<0>",
        eight_nics("IB"),
        "Using network IB",
        "Channel 0{gpu}/0 : {gpu}[{gpu}] -> 1{gpu}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA",
    )
    return "\n".join(lines) + "\n" + table(rate, H100, hosts, 8)


@pytest.mark.parametrize("rate", [480, 510, 600])
def test_a_run_that_reaches_its_band_is_healthy_and_kept(rate):
    found = fl.doctor(log(rate))
    first = found.suspects[0]
    assert first.cause_id == "none_healthy" and first.sure == pytest.approx(0.84)
    assert found.comparisons[0].healthy is True
    page = str(found)
    assert KEEP in page and "look closer" not in page


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (363, "rings at this rate fill the NICs"),
        (390, "rings at this rate fill the NICs"),
        (420, "rings at this rate fill the NICs"),
        (440, "rings at this rate fill the NICs"),
        (452, "runs differ by some per cent"),
        (470, "runs differ by some per cent"),
    ],
)
def test_a_run_below_its_band_is_neither_healthy_nor_sick(rate, words):
    found = fl.doctor(log(rate))
    comparison = found.comparisons[0]
    assert comparison.below and comparison.healthy is None
    assert found.suspects == () and found.as_list() == []
    assert repr(found) == "<Diagnosis: the run is below its band, and nothing says why>"
    (picture,) = pictures(found)
    assert "below its band" in picture.finding
    for page in (str(found), found._repr_html_()):
        assert "The run lies below its band: look closer." in page
        assert words in page
        assert KEEP not in page and "Nothing is wrong" not in page and "is slow" not in page
    last = comparison.rows[-1]
    assert f"lie below the band of {figure(last.low)} to {figure(last.high)}" in str(found)


def test_a_rate_just_below_its_band_does_not_read_as_its_lower_end():
    lowest = fl.doctor(log(363)).comparisons[0].rows[-1].low
    found = fl.doctor(
        log(lowest * 1.0012)
    )  # the start of a message takes 0.15 % off the largest size
    last = found.comparisons[0].rows[-1]
    assert 0.998 * last.low < last.measured < last.low
    said_so = [line for line in str(found).splitlines() if "the largest size" in line]
    rate, low = said_so[0].split(" GB/s")[0].split()[-1], said_so[0].split("band of ")[1].split()[0]
    assert float(rate) < float(low) and "They are 99 % of" in said_so[0]


@pytest.mark.parametrize("rate", [12, 200, 330, 350])
def test_a_run_far_below_its_band_is_slow(rate):
    found = fl.doctor(log(rate))
    assert found.comparisons[0].healthy is False
    assert "none_healthy" not in [suspect.cause_id for suspect in found.suspects]
    page = str(found)
    assert "so the run counts as slow" in page and KEEP not in page
    if not found.suspects:
        assert "The run is slow: it lies far below its band" in page


@pytest.mark.parametrize(
    ("part", "healthy", "near"),
    [(1.01, True, ""), (0.98, None, "close"), (0.9, None, "unclear"), (0.8, False, "")],
)
def test_full_nics_excuse_an_all_reduce_and_no_other_collective(part, healthy, near):
    lowest = gathered(300).rows[-1].low
    comparison = gathered(part * lowest)
    assert (comparison.healthy, comparison.near) == (healthy, near)


def gathered(rate):
    """Return the comparison of an all-gather with a largest bus bandwidth [GB/s]."""
    lines = ["# all_gather_perf", *start(["node-a", "node-b"], 8, eight_nics("IB"))]
    (comparison,) = fl.doctor(
        "\n".join(lines) + "\n" + table(rate, H100, ["node-a", "node-b"], 8)
    ).comparisons
    assert comparison.table.collective == "all_gather"
    return comparison


def test_a_table_below_its_band_beside_one_within_is_not_called_healthy():
    found = fl.doctor(log(510), second=table(465, H100, ["node-a", "node-b"], 8))
    assert [each.below for each in found.comparisons] == [False, True]
    assert "none_healthy" not in [suspect.cause_id for suspect in found.suspects]
    assert KEEP not in str(found)


def test_smaller_sizes_below_their_band_are_counted_and_make_the_page_less_sure():
    one = fl.doctor(sweep=fl.diagnosis.as_table(_published("oci_h100_2n")), system="oci_h100_2n")
    assert one.comparisons[0].rows[-1].state == "within"
    assert len(one.comparisons[0].short) == 3
    assert one.suspects[0].cause_id == "none_healthy"
    assert one.suspects[0].sure == pytest.approx(0.6)
    assert "Sizes below their band: 3 of 5" in str(one)
    whole = fl.doctor(sweep=fl.diagnosis.as_table(_published("cw_96gpu")), system="cw_96gpu")
    assert "Sizes below" not in str(whole)


def _published(name):
    return fl.catalog.published.load(name)


def test_large_gains_and_rates_have_no_exponent():
    assert [figure(value, 2) for value in (1.44, 14.2, 99.7, 200, 1234)] == [
        "1.4",
        "14",
        "100",
        "200",
        "1,200",
    ]
    assert [figure(value) for value in (0.000012, 507.4, 1023.0, float("inf"))] == [
        "1.2e-05",
        "507",
        "1,020",
        "inf",
    ]
    found = fl.doctor(log(2.5), message=said("node-a", 0, "Using network Socket") + "\n")
    page = str(found)
    assert found.comparisons[0].gain == pytest.approx(203, abs=3)
    assert "up to 200 times" in page and "e+0" not in page + found._repr_html_()


def test_a_matrix_quotes_a_row_and_not_its_heading():
    heading = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity"
    rows = [
        "GPU0\t X \tSYS\tSYS\t0-31\t0",
        "GPU1\tSYS\t X \tSYS\t32-63\t1",
        "NIC0\tSYS\tSYS\t X ",
    ]
    found = fl.doctor("\n".join([heading, *rows, ""])).suspects[0]
    assert found.cause_id == "nic_far"
    assert found.where.number == 2 and found.where.text.startswith("GPU0\t X")


def test_lines_of_nccl_without_their_beginning_are_named():
    bare = "NCCL INFO Using network Socket\nNCCL INFO NET/IB : No device found.\n"
    page = str(fl.doctor(bare))
    assert "the beginning of NCCL's lines is missing (host:process:thread [GPU]" in page
    assert "no line of it was understood" not in page
    assert "beginning" not in str(fl.doctor(log(510)))


def test_a_folder_is_called_one(tmp_path):
    with pytest.raises(FileFormat, match="is a folder; name the files in it"):
        fl.doctor(tmp_path)


def test_the_command_names_an_empty_file_a_folder_and_the_systems(tmp_path, capsys):
    empty = tmp_path / "empty.log"
    empty.write_text("")
    assert main(["doctor", str(empty), str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "empty.log is empty" in out and "no line of it" not in out
    assert f"{str(tmp_path)!r} is a folder" in err and "There is no file" not in err

    run = tmp_path / "run.log"
    run.write_text(log(363))
    assert main(["doctor", str(run), "--system", "H100"]) == 1
    _, err = capsys.readouterr()
    assert "oci_h100_2n" in err and "sweep_id" not in err and 'gpu = "H100"' in err
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('gpu = "H100"\nservers = 2\n')
    assert main(["doctor", str(run), "--system", str(cluster)]) == 0
    out, _ = capsys.readouterr()
    assert "the model for 2 servers × 8 H100" in out and "assumed" not in out
