"""The lines of a log that matter first, and results written for the doctor."""

import pytest

import fabriclab as fl
from fabriclab.diagnosis import as_table, digest, practice
from fabriclab.errors import FileFormat

LOG = """NCCL version 2.21.5+cuda12.4
n1:7:8 [0] NCCL INFO comm 0x55 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
n1:9:9 [1] NCCL INFO comm 0x77 rank 1 nRanks 2 nNodes 1 localRanks 2 localRank 1 MNNVL 0
n1:7:8 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:7:8 [0] NCCL INFO Using network IB
n1:7:8 [0] NCCL INFO Trees [0] -1/-1/-1->0->1
n1:7:8 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC.
n1:9:9 [1] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC
n1:7:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
n1:9:9 [1] NCCL INFO Channel 01/0 : 1[1] -> 0[0] via SHM/direct/direct
n1:9:9 [1] NCCL INFO Channel 01/0 : 1[1] -> 0[0] via P2P/CUMEM
n1:9:9 [1] misc/x.cc:12 NCCL WARN Missing <b>"iommu=pt"</b> from kernel command line
"""


def test_each_message_stands_once_with_its_number_of_lines():
    found = digest(LOG)
    assert {kind: [said.times for said in found.of(kind)] for kind in ("who", "network")} == {
        "who": [1, 2],
        "network": [1, 1],
    }
    assert [(said.times, said.line.number) for said in found.of("told")] == [(2, 7)]
    assert [said.times for said in found.of("channels")] == [2, 1]
    assert [said.words for said in found.of("warned")] == [
        'Missing <b>"iommu=pt"</b> from kernel command line'
    ]


def test_other_lines_are_neither_counted_nor_marked():
    found = digest(LOG)
    assert len(found.lines) == 12 and len(found.marked) == 11 and 6 not in found.marked
    assert "Trees" not in repr(found)


def test_the_card_marks_lines_and_quotes_them_as_text():
    card = digest(LOG, "run.log")._repr_html_()
    assert card.count("<mark>") == 11 and "<b>" not in card and "run.log" in card
    assert "&lt;b&gt;" in card


def test_kinds_without_a_line_say_so():
    found = digest("n1:7:8 [0] NCCL INFO Using network Socket\n")
    assert repr(found).count("no such line") == 4
    assert found.of("network")[0].words == "Using network Socket"


def test_what_is_no_log_is_refused():
    with pytest.raises(FileFormat, match="NCCL_DEBUG=INFO"):
        digest("pair rate\na b 3\n")


@pytest.mark.parametrize("name", practice())
def test_every_log_to_practise_on_is_sorted_or_refused(name):
    for file in practice(name).files:
        try:
            found = digest(file)
        except FileFormat:
            continue
        assert sum(said.times for said in found.said) == len(found.marked)
        assert repr(found).count("\n") == len(found.rows()) and "<mark>" in found._repr_html_()


def test_a_result_is_read_by_the_doctor_as_it_was_written():
    result = fl.measure.all_reduce("64 KiB", ranks=2)
    table = fl.doctor(today=as_table(result)).case.tables[0]
    assert table.collective == "all_reduce" and table.ranks == 2 and table.sizes == [65536]
    assert table.busbw[0] == pytest.approx(result.busbw[0] / 1e9, abs=1e-4)


def test_a_rate_that_fits_usual_nics_is_said_in_a_sentence():
    page = str(fl.doctor(*practice("c17").files))
    assert "The largest sizes reach 359 GB/s. That fits 8 NICs of 400 Gb/s" in page
    assert page.startswith("What the files of this run say (read: 2)")
