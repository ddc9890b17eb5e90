"""What holds for every reader, every sequential test and every place of a slow NIC."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import operations, routing, topologies
from fabriclab.core import Flows
from fabriclab.errors import FileFormat
from fabriclab.operations import Cusum, TimedServers
from fabriclab.operations.yaml_nodes import read_documents

GOOD = operations.example_manifest()


@given(servers=st.integers(3, 200), rails=st.integers(1, 8), data=st.data())
def test_bisection_names_every_nic_within_the_rounds(servers, rails, data):
    server = data.draw(st.integers(0, servers - 1))
    rail = data.draw(st.integers(0, rails - 1))
    cluster = TimedServers(servers, rails, slow={(server, rail): 0.25})
    found = operations.find_slow_nic(cluster)
    assert (found.server, found.rail) == (server, rail)
    assert cluster.rounds <= operations.rounds_needed(servers)


@given(
    z=st.lists(st.floats(-4, 4), min_size=1, max_size=60),
    shift=st.floats(0.1, 3),
    limit=st.floats(0.5, 8),
)
def test_sums_are_those_of_the_recursion(z, shift, limit):
    test = Cusum(shift, limit)
    one = 0.0
    alarm = 0
    for number, each in enumerate(z, start=1):
        one = max(0.0, one + each - shift / 2)
        assert abs(one - test.sums(z)[number - 1]) < 1e-9
        if one > limit + 1e-9 and not alarm:
            alarm = number
    if not np.any(np.abs(test.sums(z) - limit) < 1e-8):
        assert int(test.alarms(z)) == alarm


@given(shift=st.floats(0.3, 2), limit=st.floats(0.5, 6))
@settings(max_examples=20)
def test_a_run_is_longer_with_a_higher_limit_and_shorter_with_a_shift(shift, limit):
    healthy = Cusum(shift, limit).run_length()
    assert (
        Cusum(shift, limit + 1).run_length() > healthy > Cusum(shift, limit).run_length(shift) >= 1
    )
    again = operations.limit_for(healthy, shift) if healthy > 2.1 else limit
    assert abs(again - limit) < 1e-6 * limit or healthy <= 1.01 * Cusum(shift, 1e-6).run_length()


# Readers: whatever is cut out of a text or put into it, every line is understood, skipped by number, or refused.
@given(data=st.data())
def test_a_torn_manifest_is_read_or_refused(data):
    lines = GOOD.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, len(lines[at])))
        extra = data.draw(st.text(alphabet="ab:-#'\"[]{}|>&*!%@`\t ,1", max_size=6))
        lines[at] = lines[at][:cut] + extra
    try:
        report = operations.check_manifests("\n".join([*lines, ""]))
    except FileFormat:
        return
    numbers = [s.line for s in report.skipped]
    assert all(1 <= n <= len(lines) for n in numbers)
    assert all(1 <= f.line <= len(lines) for f in report.findings)


@given(text=st.text(alphabet="ab:-#'\"[]{}|>&*!%@`\t ,1\n", max_size=80))
def test_any_text_is_read_as_documents(text):
    lines = text.splitlines()
    _, skipped = read_documents(lines)
    assert all(1 <= s.line <= len(lines) for s in skipped)


@given(text=st.text(alphabet='aB_:.,{}="#/ 0159\n', max_size=120))
def test_any_log_of_counters_is_read_or_refused(text):
    for read in (operations.read_counters, operations.read_telemetry, operations.read_settings):
        try:
            found = read(text + "\n")
        except FileFormat:
            continue
        assert all(s.line >= 1 and s.why for s in found.skipped)


@given(
    switches=st.integers(4, 14).filter(lambda n: n % 2 == 0),
    seed=st.integers(0, 1000),
    cut=st.integers(0, 40),
)
@settings(max_examples=25)
def test_updown_tables_reach_everybody_without_deadlock(switches, seed, cut):
    fabric = topologies.build("jellyfish", switches=switches, degree=3, hosts=1, seed=seed)
    inner = np.flatnonzero(fabric.transit[fabric.source[::2]] & fabric.transit[fabric.target[::2]])
    hurt = fabric.without(cables=[int(inner[cut % inner.size])])
    swept = operations.sweep(hurt)
    tables = operations.forwarding_tables(swept)
    found = np.flatnonzero(swept.lid[hurt.endpoint] > 0)
    one, other = (a[~np.eye(found.size, dtype=bool)] for a in np.indices((found.size, found.size)))
    flows = Flows.make(hurt.endpoint[found[one]], hurt.endpoint[found[other]], 1.0)
    routes = routing.from_tables(hurt, flows, tables.next_link)
    assert routes.n_rows == flows.n_flows
    assert routing.deadlock(hurt, routes) == ()
