"""Laws of the doctor: no text makes it fail, and what it says of a text does not depend on how the text was kept."""

import math
import random

import pytest

import fabriclab as fl
from support.damaged_logs import damaged, files

PARTS = 10


def check(seed):
    found = fl.doctor(damaged(seed))
    assert str(found)
    for suspect in found.as_list():
        assert 0 < suspect["sure"] <= 1
        assert math.isfinite(suspect["gain"])
        assert suspect["gain"] >= 0
    for comparison in found.comparisons:
        for row in comparison.rows:
            assert row.low <= row.expected <= row.high


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_logs_are_read(part):
    for seed in range(200 * part, 200 * (part + 1)):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_damaged_logs_are_read(part):
    for seed in range(2_000 + 1_000 * part, 2_000 + 1_000 * (part + 1)):
        check(seed)


def causes(*texts):
    return [(suspect.cause_id, suspect.sure) for suspect in fl.doctor(*texts).suspects]


@pytest.mark.parametrize("id", fl.diagnosis.practice())
def test_line_ends_colours_and_prefixes_change_nothing(id):
    case = fl.diagnosis.practice(id)
    names = [file.name for file in case.files]
    plain = [file.read_text(encoding="utf-8", errors="replace") for file in case.files]

    def diagnosed(change):
        texts = dict(zip(names, map(change, plain), strict=True))
        return [(s.cause_id, s.sure) for s in fl.doctor(**texts).suspects]

    usual = diagnosed(lambda text: text + "\n")
    assert usual == causes(*case.files)
    assert diagnosed(lambda text: text.replace("\n", "\r\n") + "\r\n") == usual
    assert diagnosed(lambda text: "\x1b[0m" + text.replace("\n", "\x1b[0m\n") + "\n") == usual


def test_messages_of_ranks_in_another_order_mean_the_same():
    rng = random.Random(5)
    for id in ("c01", "c23", "c48", "c50"):
        case = fl.diagnosis.practice(id)
        log = next(file for file in case.files if file.suffix == ".log")
        lines = log.read_text().splitlines()
        shuffled = rng.sample(lines, len(lines))
        first = causes("\n".join(lines) + "\n")[0][0]
        assert causes("\n".join(shuffled) + "\n")[0][0] == first


def test_all_files_of_the_cases_together_are_read():
    assert fl.doctor(*files()).suspects
