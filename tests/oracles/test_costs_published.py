"""Costs and powers beside published figures; docs/cost_checks.md has the table."""

import csv
import re

import pytest

from fabriclab import catalog, economics
from support import DATA, ROOT

PAGE = (ROOT / "docs" / "cost_checks.md").read_text(encoding="utf-8")
ROWS = economics.published_costs()
ALLOWED = {"size": 0.10, "rough size": 0.50}
SCALES = {
    "%": 100,
    "times": 1,
    "USD": 1,
    "M USD": 1e-6,
    "billion USD": 1e-9,
    "kW": 1e-3,
    "MW": 1e-6,
}
CELL = re.compile(r"([\d.,]+) (%|times|M USD|billion USD|USD|kW|MW)")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_each_row_agrees_as_it_says(row):
    low, high = row.theirs
    if row.agrees == "not computed":
        assert row.ours is None
    elif row.agrees == "bound":
        assert row.ours >= low
    elif row.agrees == "inside":
        assert low <= row.ours <= high
    elif row.agrees in ALLOWED:
        assert abs(row.error) <= ALLOWED[row.agrees]
    else:
        assert row.agrees == "differs"
        assert abs(row.error) > 0.10
    if row.agrees == "rough size":
        assert abs(row.error) > ALLOWED["size"]
    assert catalog.cite(row.source)
    assert row.confirmed == ("memory" not in row.source and not is_recalled(row.source))


def is_recalled(source):
    """Return whether the table of costs has a source at second hand alone, without a derivation or an address."""
    specs = [spec for spec in catalog.costs.specs if spec.source == source]
    return bool(specs) and all(spec.confidence == "C" for spec in specs)


def test_error_counts_from_the_nearer_end():
    row = ROWS[0]._replace(theirs=(10.0, 20.0))
    assert row._replace(ours=9.0).error == pytest.approx(-0.1)
    assert row._replace(ours=15.0).error == 0
    assert row._replace(ours=22.0).error == pytest.approx(0.1)


def test_what_was_not_fitted_and_close():
    close = [row for row in ROWS if not row.fitted and row.agrees == "size"]
    assert len(close) == 6
    assert max(abs(row.error) for row in close) < 0.07


def test_the_page_has_every_row_with_its_numbers():
    for row in ROWS:
        line = next(line for line in PAGE.splitlines() if line.startswith(f"| {row.what} |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found = [float(n.replace(",", "")) / SCALES[unit] for n, unit in CELL.findall(cells[1])]
        assert (found[0], found[-1]) == pytest.approx(row.theirs, rel=0.006)
        if row.ours is None:
            assert cells[2] == "not computed"
        else:
            number, unit = CELL.match(cells[2]).groups()
            ours = float(number.replace(",", "")) / SCALES[unit]
            assert ours == pytest.approx(row.ours, rel=0.006)
        if cells[3]:
            said = float(cells[3].removesuffix("%"))
            assert said == pytest.approx(100 * row.error, abs=0.06)
        assert cells[4] == row.agrees
        assert cells[5] == ("yes" if row.fitted else "no")
        assert ("not confirmed" in cells[6]) == (not row.confirmed)


def test_the_page_has_every_range():
    for name, reach in economics.price_ranges().items():
        line = next(line for line in PAGE.splitlines() if line.startswith(f"| {name} |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        values = [float(cell.replace(",", "")) for cell in cells[1:4]]
        if name == "lifetime":
            values = [value * 8766 * 3600 for value in values]
        assert values == pytest.approx([reach.low, reach.middle, reach.high], rel=0.006)
        assert all(source in cells[5] for source in reach.sources)


def test_sums_of_the_price_sheet():
    """The sheet prints sums for switches and cables of 1,024 GPUs; the bill has the same."""
    rows = csv.DictReader((DATA / "cost_power.csv").read_text("utf-8").splitlines())
    sheet = {row["name"]: row["note"] for row in rows if row["id"] == "sheet"}
    case = catalog.case()
    switches, cables = map(int, re.findall(r"USD (\d+)", sheet["1024 H100 fat-tree"]))
    assert case.switches * case.price_switch == switches
    assert case.price_cables == cables


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("USD 1.54 in the middle", lambda: economics.gpu_hour().training),
        ("worth 15.5 times", lambda: economics.claim(catalog.case()).worth_factor),
        ("against NICs of 5.4 GB/s", lambda: economics.claim(catalog.case()).slow_rate / 1e9),
        ("needs 1.3 %", lambda: 100 * economics.claim(catalog.case()).needs_premium),
        ("14.6 % longer", lambda: 100 * economics.half_for_nothing(catalog.case()).growth),
        ("9.4 % breaks", lambda: 100 * economics.half_for_nothing(catalog.case()).breaks_even),
        ("NICs of 30 GB/s", lambda: economics.half_for_nothing(catalog.case()).turns_at / 1e9),
    ],
)
def test_sentences_of_the_page(said, value):
    plain = " ".join(PAGE.split())
    assert said in plain
    number = re.search(r"[\d.]+", said)[0]
    digits = len(number.partition(".")[2])
    assert round(float(value()), digits) == float(number)
