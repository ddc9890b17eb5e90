"""Laws of the doctor: no text makes it fail, and what it says of a text does not depend on how the text was kept."""

import math
import random
import time

import pytest

import fabriclab as fl
from support.budgets import budget
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


def channels(ranks, number):
    """Return what the ranks of servers of eight GPUs print of so many channels, most of the lines of a large run."""
    for rank in range(ranks):
        gpu = rank % 8
        head = f"node{rank // 8:03d}:{1000 + gpu}:{2000 + gpu} [{gpu}] NCCL INFO Channel"
        for channel in range(number):
            far = (rank + 8) % ranks
            yield f"{head} {channel:02d}/0 : {rank}[{gpu}] -> {far}[{gpu}] [send] via NET/IB/{channel % 8}/GDRDMA"
            yield f"{head} {channel:02d}/0 : {rank}[{gpu}] -> {rank ^ 1}[{gpu ^ 1}] via P2P/CUMEM"


def steps(number):
    """Return what a training program prints of so many steps of eight ranks."""
    for step in range(number):
        for rank in range(8):
            yield f"[rank {rank}] step {step:6d} loss {2.3 - step * 1e-6:.4f} lr 1.0e-4 tokens/s {12345 + step % 77}"


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("lines", [channels(4096, 72), steps(110_000)], ids=["channels", "steps"])
def test_fifty_megabytes_take_less_than_five_seconds_of_the_processor(lines, tmp_path):
    file = tmp_path / "long.log"
    file.write_text("\n".join(lines) + "\n")
    assert file.stat().st_size > 50e6
    fl.doctor("some words\n")  # what is loaded once
    before = time.process_time()
    fl.doctor(file)
    assert time.process_time() - before < budget(5)


def test_all_files_of_the_cases_together_are_read():
    assert fl.doctor(*files()).suspects
