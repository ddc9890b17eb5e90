"""Optical circuit switches beside published figures; docs/circuit_checks.md has the table."""

import re

import pytest

from fabriclab import catalog, circuits
from support import ROOT

PAGE = ROOT / "docs" / "circuit_checks.md"
GAINS = circuits.published()
# how far ours may be from theirs, by what is claimed
ALLOWED = {"size": 0.02, "rough size": 0.25}


@pytest.mark.parametrize("row", GAINS, ids=lambda row: row.what)
def test_each_gain_agrees_as_it_says(row):
    if row.agrees == "not computed":
        assert row.ours is None
        return
    assert row.ours > 0
    if row.agrees in ALLOWED:
        assert row.ours == pytest.approx(row.theirs, rel=ALLOWED[row.agrees])
    elif row.agrees == "bound":
        assert row.ours <= row.theirs
    elif row.agrees == "not comparable":
        assert not row.confirmed
    else:
        assert row.agrees == "sign" and row.ours < 1 and row.theirs < 1
    assert catalog.cite(row.source)
    assert row.confirmed == ("memory" not in row.source)


def test_availability_of_a_block_of_3072_chips():
    """Fixed cubes 0.04 %, any 48 of 64 cubes 98.9 %; with hosts at 99.9 % it is 46 % against 100.0 %."""
    assert 100 * circuits.fixed_availability(0.99, 48) == pytest.approx(0.04, abs=0.005)
    assert 100 * circuits.cube_availability(0.99) == pytest.approx(85.1, abs=0.05)
    assert 100 * circuits.any_availability(0.99, 48) == pytest.approx(98.9, abs=0.05)
    assert 100 * circuits.fixed_availability(0.999, 48) == pytest.approx(46, abs=0.5)
    assert 100 * circuits.any_availability(0.999, 48) == pytest.approx(100.0, abs=0.05)


def test_a_simulation_finds_the_same_availability():
    drawn = circuits.draw_pods(0.99, 48, draws=4000, seed=1)
    # three standard deviations of a share of 4,000 draws
    assert drawn.any_cubes == pytest.approx(circuits.any_availability(0.99, 48), abs=0.005)
    assert drawn.working.mean() / 64 == pytest.approx(circuits.cube_availability(0.99), abs=0.003)
    good = circuits.draw_pods(0.999, 48, draws=4000, seed=2)
    assert good.fixed_cubes == pytest.approx(circuits.fixed_availability(0.999, 48), abs=0.024)
    again = circuits.draw_pods(0.99, 48, draws=4000, seed=1)
    assert again.working.tolist() == drawn.working.tolist()


def test_a_pod_has_3072_circuits_of_45_gigabytes():
    assert circuits.pod_circuits() == 3072 == 48 * 64
    assert circuits.pod_rate() == pytest.approx(138.24e12)
    assert circuits.pod_rate() * 8 == pytest.approx(1.1e15, rel=0.01)


def test_ports_of_light_draw_a_25th():
    power = circuits.port_power()
    assert power.optical == pytest.approx(108 / 136)
    assert power.packet == pytest.approx(747 / 64 + 17 / 2)
    # a circuit takes two ports: what lesson 44 says of it
    assert 2 * power.optical == pytest.approx(1.6, abs=0.05)
    assert 2 * power.packet == pytest.approx(40, abs=0.5)
    assert circuits.power_share_of_pod() == pytest.approx(48 * 108 / (4096 * 170))
    assert circuits.power_share_of_pod() < 0.03


def test_savings_without_a_spine_by_hand():
    port, module = 747 / 64, 8.5
    saving = circuits.power_saving()
    assert saving.with_spine == pytest.approx(3 * port + 2 * module)
    assert saving.direct == pytest.approx(2 * port + module + 108 / 136)
    assert circuits.capital_saving(circuits.price_for(0.3)).share == pytest.approx(0.3)
    assert circuits.capital_saving(10_000).share < 0  # at such a price there is nothing to save


def test_the_page_has_every_gain_with_its_numbers():
    page = PAGE.read_text(encoding="utf-8")
    for row in GAINS:
        line = next(line for line in page.splitlines() if line.startswith(f"| {row.what} |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert float(re.match(r"[\d.,]+", cells[1].replace(",", ""))[0]) == pytest.approx(
            shown(row.theirs, cells[1]), rel=0.006
        )
        if row.ours is None:
            assert cells[2] == "not computed"
        else:
            ours = float(re.match(r"[\d.]+", cells[2].replace(",", ""))[0])
            assert ours == pytest.approx(shown(row.ours, cells[2]), rel=0.006)
        assert cells[3] == row.agrees
        assert ("not confirmed" in cells[4]) == (not row.confirmed)


def shown(value, cell):
    """Return a value in the unit of a cell of the page."""
    if cell.endswith("%"):
        return 100 * value
    if cell.endswith("PB/s"):
        return value / 1e15
    return value
